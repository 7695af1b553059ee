//! The text of a PDF, as `pdftotext` of poppler prints it. A hostile file may do anything to a program that reads it, so that one runs
//! confined as the model's commands are; where these are not, it is for a command to run it, which a person can see.

use crate::spawn::{Confinement, KEPT_BYTES, Keep, Spawn, moved_away};
use crate::tool::ToolContext;
use piton_core::hidden;
use std::io;
use std::time::Duration;

/// The program, for whoever tells of it.
pub(crate) const PROGRAM: &str = "pdftotext";
/// The largest file that is read so: what a command in the sandbox is told fits in one message.
pub(crate) const MOST_BYTES: usize = 10 << 20;
const MOST_TIME: Duration = Duration::from_secs(30);
/// Characters of what the program complains about.
const COMPLAINT_CHARS: usize = 200;

/// What a PDF says.
pub(crate) struct PdfText {
    /// Its pages, each under its number.
    pub(crate) text: String,
    /// How many there are: `2 pages`. Says so, if there is more text than that.
    pub(crate) pages: String,
}

/// Whether these are the first bytes of one, which may be text to its last byte and is nothing that anybody reads.
pub fn is_pdf(head: &[u8]) -> bool {
    head.starts_with(b"%PDF-")
}

/// Whether PDFs are read here: commands are confined.
pub(crate) fn is_read(cx: &ToolContext) -> bool {
    matches!(cx.confinement, Confinement::Sandbox(_))
}

/// Reads one. The error says why there is no text. What the sandbox has moved away is added to `moved`, as of any command.
pub(crate) async fn text(content: Vec<u8>, moved: &mut Vec<String>, cx: &ToolContext) -> Result<PdfText, String> {
    if content.len() > MOST_BYTES {
        return Err(format!("it has more than {} MB", MOST_BYTES >> 20));
    }
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
    let (text, count) = by_page(&printed);
    let pages = if count == 1 { "1 page".to_owned() } else { format!("{count} pages") };
    match printed.len() >= KEPT_BYTES {
        _ if printed.trim().is_empty() => Err(format!("there is none on {pages}; they may be scanned")),
        true => Ok(PdfText { text, pages: format!("{pages} and more, which are left out") }),
        false => Ok(PdfText { text, pages }),
    }
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
