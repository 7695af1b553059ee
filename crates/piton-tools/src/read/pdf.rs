//! The text of a PDF, as `pdftotext` of poppler prints it. A hostile file may do anything to a program that reads it, so that one runs
//! confined as the model's commands are; where these are not, it is for a command to run it, which a person can see.

use super::{AsText, sniff};
use crate::paths;
use crate::spawn::{Confinement, KEPT_BYTES, Keep, Spawn, moved_away};
use crate::tool::ToolContext;
use piton_core::hidden;
use std::io;
use std::path::Path;
use std::time::Duration;

const PROGRAM: &str = "pdftotext";
/// The largest file that is read so: what a command in the sandbox is told fits in one message.
const MOST_BYTES: usize = 10 << 20;
const MOST_TIME: Duration = Duration::from_secs(30);
/// Characters of what the program complains about.
const COMPLAINT_CHARS: usize = 200;

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
    if !is_named_so || !matches!(cx.confinement, Confinement::Sandbox(_)) {
        return None;
    }
    let (said, context) = (said.to_owned(), cx.clone());
    let content = tokio::task::spawn_blocking(move || content(&said, &context)).await.ok()??;
    let mut moved = Vec::new();
    let text = match content.len() > MOST_BYTES {
        true => Err(format!("it has more than {} MB", MOST_BYTES >> 20)),
        false => text(content, &mut moved, cx).await,
    };
    Some(Pdf { text, moved })
}

/// All of a file that begins as a PDF does. What cannot be read is told where it is read as any file.
fn content(said: &str, cx: &ToolContext) -> Option<Vec<u8>> {
    let path = paths::resolve(super::NAME, said, &cx.workspace).ok()?;
    let real = cx.files.real(&path).ok()?;
    let head = cx.files.beginning(&real, 5).ok()?;
    if !sniff::is_pdf(&head.bytes) {
        return None;
    }
    Some(cx.files.beginning(&real, MOST_BYTES + 1).ok()?.bytes)
}

async fn text(content: Vec<u8>, moved: &mut Vec<String>, cx: &ToolContext) -> Result<AsText, String> {
    let spawn = Spawn::new([PROGRAM, "-enc", "UTF-8", "-", "-"], &cx.env, &cx.workspace, cx.confinement.clone());
    if !spawn.finds_its_program() {
        return Err(format!("{PROGRAM}, of poppler-utils, is not installed"));
    }
    let failed = |error: io::Error| format!("{PROGRAM} cannot be run: {error}");
    let mut running = spawn.run(Some(content), Keep::First).map_err(failed)?;
    let ended = tokio::select! {
        ended = running.wait() => ended.map_err(failed)?,
        () = cx.cancel.cancelled() => return Err("it was cancelled".to_owned()),
        () = tokio::time::sleep(MOST_TIME) => {
            return Err(format!("{PROGRAM} was ended after {} s", MOST_TIME.as_secs()));
        }
    };
    let (printed, mut complained) = running.output().await;
    moved.extend(moved_away(&mut complained));
    if !ended.success() {
        let last = complained.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing");
        let last: String = hidden::visible_line(last).chars().take(COMPLAINT_CHARS).collect();
        return Err(format!("{PROGRAM} cannot read it: {last}"));
    }
    let (text, pages) = by_page(&printed);
    let of = if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") };
    if printed.trim().is_empty() {
        return Err(format!("there is none on {of}; they may be scanned"));
    }
    let cut = if printed.len() >= KEPT_BYTES { " The rest of its text is left out." } else { "" };
    let note = format!("(the text of a PDF of {of}; `{PROGRAM} -layout FILE -` keeps columns of tables.{cut})");
    Ok(AsText { text, hash: None, note })
}

/// The pages under their numbers, and how many there are.
fn by_page(printed: &str) -> (String, usize) {
    let printed = printed.strip_suffix('\u{c}').unwrap_or(printed);
    let mut text = String::new();
    let mut pages = 0;
    for page in printed.split('\u{c}') {
        pages += 1;
        let page: String = page.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
        text.push_str(&format!("[page {pages}]\n{}\n", page.trim_end()));
    }
    (text, pages)
}

#[cfg(test)]
mod tests {
    use super::by_page;

    #[test]
    fn pages_are_numbered_and_hold_what_can_be_shown() {
        let (text, pages) = by_page("one\n\n\u{c}\u{7}two\r\n\u{c}\u{c}");
        assert_eq!((text.as_str(), pages), ("[page 1]\none\n[page 2]\ntwo\n[page 3]\n\n", 3));
    }
}
