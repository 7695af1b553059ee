//! A PDF in the workspace, as text.

use super::AsText;
use crate::paths;
use crate::pdf::{self, MOST_BYTES, PROGRAM, PdfText, is_pdf};
use crate::tool::ToolContext;
use std::path::Path;

/// What came of a file that is named as a PDF, and is one.
pub(super) struct Pdf {
    /// Its text, or why there is none.
    pub(super) text: Result<AsText, String>,
    /// What the sandbox has moved away, as of any command.
    pub(super) moved: Vec<String>,
}

/// Reads one. `None`: it is none, or commands are not confined.
pub(super) async fn read(said: &str, cx: &ToolContext) -> Option<Pdf> {
    let is_named_so = Path::new(said).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("pdf"));
    if !is_named_so || !pdf::is_read(cx) {
        return None;
    }
    let (said, context) = (said.to_owned(), cx.clone());
    let content = tokio::task::spawn_blocking(move || content(&said, &context)).await.ok()??;
    let mut moved = Vec::new();
    let text = pdf::text(content, &mut moved, cx).await.map(|PdfText { text, pages }| {
        let note = format!("(the text of a PDF of {pages}; `{PROGRAM} -layout FILE -` keeps columns of tables)");
        AsText { text, hash: None, note }
    });
    Some(Pdf { text, moved })
}

/// All of a file that begins as a PDF does. What cannot be read is told where it is read as any file.
fn content(said: &str, cx: &ToolContext) -> Option<Vec<u8>> {
    let path = paths::resolve(super::NAME, said, &cx.workspace).ok()?;
    let real = cx.files.real(&path).ok()?;
    if !is_pdf(&cx.files.beginning(&real, 5).ok()?.bytes) {
        return None;
    }
    Some(cx.files.beginning(&real, MOST_BYTES + 1).ok()?.bytes)
}
