//! `read`: shows part of a text file with line numbers, a picture, a notebook's cells, a PDF's text, or what a directory
//! holds, and remembers what was seen.
//!
//! A file of any size is read as a stream. Up to [`TRACKED_BYTES`] it is read to its end, for the number of its lines
//! and for the hash by which `edit` and `write` know it; beyond that only as far as shown.

mod notebook;
mod pdf;
mod pictures;
mod sniff;
mod window;

use crate::files::Found;
use crate::input::lenient;
use crate::ledger::hash_of;
use crate::limits::{LISTED_ENTRIES, READ_LINES, REMEMBERED_FILE_BYTES, TRACKED_BYTES};
use crate::paths;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::spawn::Confinement;
use crate::tool::{ToolContext, blocking, cancelled, counted, tell_moved};
use crate::typed::TypedTool;
use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use piton_core::call::{CallKind, Effects, Outcome, Picture};
use piton_core::limits::IMAGE_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io;
use std::path::Path;
use window::{View, Window};

pub use crate::pdf::is_pdf;
pub use pictures::fault as picture_fault;
pub use sniff::{image_type, is_binary, is_utf16};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct Read;

const NAME: &str = "read";

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File or directory
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
    /// First line, from 1
    #[serde(default, deserialize_with = "lenient::count")]
    offset: Option<u64>,
    /// Number of lines; default 2000
    #[serde(default, deserialize_with = "lenient::count")]
    limit: Option<u64>,
}

#[async_trait]
impl TypedTool for Read {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Reads a text file as `N: text` lines, a picture, a notebook, a PDF, or a directory. Long files come in \
         parts: go on with offset.";
    const EFFECTS: Effects = Effects::READ;

    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        let title = look.shown(&input.path);
        let about = format!("Read {title}?");
        Ok(Plan::new(CallKind::Read, title, look.read(&input.path), QuestionDraft::new(|| (about, Vec::new()))))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        let (pdf, moved) = pdf::read(&input.path, cx).await.map(|pdf| (pdf.text, pdf.moved)).unzip();
        let mut outcome = blocking(cx, move |cx| {
            let Input { path, offset, limit } = &input;
            let question = format!("read {path} {offset:?} {limit:?}");
            Ok(counted(read(&input, pdf.as_ref(), cx)?, &question, cx))
        })
        .await;
        tell_moved(&mut outcome, moved.unwrap_or_default());
        outcome
    }
}

/// `pdf`: its text, or why there is none, if it is one.
fn read(input: &Input, pdf: Option<&Result<AsText, String>>, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let path = paths::resolve(NAME, &input.path, &cx.workspace)?;
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Outcome::failed(not_found(&path, cx)),
        _ => Outcome::failed(format!("read: {}: {error}", paths::shown(&path, &cx.workspace))),
    };
    let real = cx.files.real(&path).map_err(failed)?;
    if let Some(leads_nowhere) = broken_link(&path, &real, cx) {
        return Err(Outcome::failed(leads_nowhere));
    }
    let found = cx.files.look(&real).and_then(|found| found.ok_or(io::ErrorKind::NotFound.into())).map_err(failed)?;
    let path = &real;
    let failed = |error: io::Error| Outcome::failed(format!("read: {}: {error}", paths::shown(path, &cx.workspace)));
    match found {
        Found::Folder => list(path, cx).map_err(failed),
        Found::File { bytes } => read_file((path, bytes), pdf, input, cx).map_err(failed)?,
        Found::Other => {
            let shown = paths::shown(path, &cx.workspace);
            Err(Outcome::failed(format!("read: {shown} is not a regular file (a device, pipe or socket)")))
        }
    }
}

/// What is said of a link whose end is not there.
fn broken_link(path: &Path, real: &Path, cx: &ToolContext) -> Option<String> {
    let unlinked = cx.files.real(path.parent()?).ok()?.join(path.file_name()?);
    let is_broken = unlinked != real && matches!(cx.files.look(real), Ok(None));
    let (shown, target) = (paths::shown(path, &cx.workspace), paths::shown(real, &cx.workspace));
    is_broken.then(|| format!("read: {shown} is a link to {target}, which does not exist"))
}

fn not_found(path: &Path, cx: &ToolContext) -> String {
    let shown = paths::shown(path, &cx.workspace);
    let similar = paths::similar_names(path, &*cx.files);
    let similar: Vec<String> = similar.iter().map(|name| paths::shown(Path::new(name), &cx.workspace)).collect();
    match path.parent() {
        _ if is_in_hidden_home(path, cx) => format!(
            "read: {shown} does not exist in the sandbox, which hides the user's home except for toolchains and caches, and \
             has one of its own"
        ),
        Some(folder) if matches!(cx.files.look(folder), Ok(None)) => {
            format!("read: {shown} does not exist; neither does the directory {}", paths::shown(folder, &cx.workspace))
        }
        Some(_) | None if similar.is_empty() => format!("read: {shown} does not exist"),
        Some(_) | None => format!("read: {shown} does not exist. Did you mean {}?", similar.join(" or ")),
    }
}

/// Whether a path lies in the user's home, in whose place the sandbox has another.
fn is_in_hidden_home(path: &Path, cx: &ToolContext) -> bool {
    let Confinement::Sandbox(confined) = &cx.confinement else { return false };
    let (home, workspace) = (&confined.reach.home, &confined.reach.workspace);
    path.starts_with(home) && !path.starts_with(workspace) && !home.starts_with(workspace)
}

fn list(path: &Path, cx: &ToolContext) -> io::Result<Outcome> {
    let mut names = Vec::new();
    for (name, found) in cx.files.list(path, usize::MAX)? {
        let name = paths::clean_name(&name);
        names.push(if found == Found::Folder { format!("{name}/") } else { name });
    }
    names.sort();
    let total = names.len();
    let shown = paths::shown(path, &cx.workspace);
    let mut text = format!("{shown} is a directory with {total} entries:\n");
    names.truncate(LISTED_ENTRIES);
    text.push_str(&names.join("\n"));
    if total > LISTED_ENTRIES {
        text.push_str(&format!("\n({} more entries; use glob to find files)", total - LISTED_ENTRIES));
    }
    Ok(Outcome::ok(text).titled(format!("read {shown} ({total} entries)")))
}

/// What is learned of a file while it streams by.
struct Scan {
    view: View,
    /// Known if the file was read to its end and is not too large.
    whole: Option<Whole>,
    /// Whether there is more than was looked at.
    goes_on: bool,
}

struct Whole {
    hash: String,
    content: Option<Vec<u8>>,
}

fn read_file(
    (path, size): (&Path, u64),
    pdf: Option<&Result<AsText, String>>,
    input: &Input,
    cx: &ToolContext,
) -> io::Result<Result<Outcome, Outcome>> {
    if let Some(Ok(text)) = pdf {
        return read_as_text(path, text, input, cx);
    }
    if let Some(other) = as_text(path, size, cx)? {
        return read_as_text(path, &other, input, cx);
    }
    let file = cx.files.open(path)?;
    let (first, window) = asked(input, cx);
    Ok(match scan(file, size, window, cx)? {
        Scanned::Binary(kind) => {
            if let Some(picture) = picture(path, cx)? {
                return Ok(Ok(picture));
            }
            let size = if size < 1024 { format!("{size} bytes") } else { format!("{} KB", size / 1024) };
            let hint = match pdf {
                Some(Err(why)) => format!(" Its text: {why}."),
                _ if kind.as_deref() == Some(sniff::PDF) => {
                    " `pdftotext FILE -` prints its text, where that is installed.".to_owned()
                }
                _ => String::new(),
            };
            let kind = kind.map_or(String::new(), |kind| format!(", looks like {kind}"));
            let shown = paths::shown(path, &cx.workspace);
            Ok(Outcome::ok(format!("{shown} is a binary file, {size}{kind}. Its content cannot be shown.{hint}"))
                .titled(format!("read {shown} (binary)")))
        }
        Scanned::Cancelled => Err(cancelled()),
        Scanned::Text(scan) => shown(path, first, &scan, cx),
    })
}

/// What is read as another text than its bytes: a notebook, UTF-16, a PDF.
struct AsText {
    text: String,
    /// Of the file; `None`: what `edit` would have to know of it is not this text.
    hash: Option<String>,
    /// What the model is told of it.
    note: String,
}

/// The text of a file that has one in another form.
fn as_text(path: &Path, size: u64, cx: &ToolContext) -> io::Result<Option<AsText>> {
    let is_notebook = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("ipynb"));
    let head = cx.files.beginning(path, 2)?;
    if size > TRACKED_BYTES || !(is_notebook || is_utf16(&head.bytes)) {
        return Ok(None);
    }
    let content = cx.files.beginning(path, usize::try_from(TRACKED_BYTES).unwrap_or(usize::MAX))?.bytes;
    if is_utf16(&content) {
        let is_little = content[0] == 0xFF;
        let unit = |pair: &[u8; 2]| if is_little { u16::from_le_bytes(*pair) } else { u16::from_be_bytes(*pair) };
        let units: Vec<u16> = content.as_chunks().0.iter().skip(1).map(unit).collect();
        let note = "(UTF-16 text: edit and write work on UTF-8; change it with a command)".to_owned();
        return Ok(Some(AsText { text: String::from_utf16_lossy(&units), hash: None, note }));
    }
    Ok(notebook::text(&content).map(|(text, cells)| {
        let note = format!("(a notebook of {cells} cells, as text; edit works on its JSON, whose lines grep shows)");
        AsText { text, hash: Some(hash_of(&content)), note }
    }))
}

fn read_as_text(path: &Path, other: &AsText, input: &Input, cx: &ToolContext) -> io::Result<Result<Outcome, Outcome>> {
    let bytes = other.text.as_bytes();
    let (first, window) = asked(input, cx);
    Ok(match scan(bytes, bytes.len() as u64, window, cx)? {
        Scanned::Text(mut scan) => {
            scan.whole = other.hash.clone().map(|hash| Whole { hash, content: None });
            shown(path, first, &scan, cx).map(|mut outcome| {
                outcome.text.push_str(&format!("\n{}", other.note));
                outcome
            })
        }
        Scanned::Binary(_) => {
            let shown = paths::shown(path, &cx.workspace);
            Ok(Outcome::ok(format!("{shown} holds characters that no text has. {}", other.note)))
        }
        Scanned::Cancelled => Err(cancelled()),
    })
}

/// The first line that is asked for, and what is to be shown.
fn asked(input: &Input, cx: &ToolContext) -> (usize, Window) {
    let count =
        |number: Option<u64>, default: usize| number.map_or(default, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let first = count(input.offset, 1).max(1);
    let most_lines = count(input.limit.filter(|limit| *limit > 0), READ_LINES);
    (first, Window::new(first, most_lines, cx.output_cut))
}

/// A picture as one; `None`: it is none.
fn picture(path: &Path, cx: &ToolContext) -> io::Result<Option<Outcome>> {
    let file = cx.files.beginning(path, usize::try_from(IMAGE_BYTES).unwrap_or(usize::MAX))?;
    let Some(media_type) = image_type(&file.bytes) else { return Ok(None) };
    let shown = paths::shown(path, &cx.workspace);
    let kind = sniff::kind(&file.bytes).unwrap_or_default();
    let about = format!("{shown} is a picture: {kind}, {} KB.", file.size.div_ceil(1024));
    let why = match file.is_whole() {
        true => pictures::fault(media_type, &file.bytes),
        false => Some("it is larger than the 3.75 MB that models take; scale it down with a command"),
    };
    if let Some(why) = why {
        return Ok(Some(
            Outcome::ok(format!("{about} It is not shown: {why}.")).titled(format!("read {shown} (picture)")),
        ));
    }
    let hash = hash_of(&file.bytes);
    cx.ledger.note(path, &hash, None);
    let picture = Picture { media_type: media_type.to_owned(), data: BASE64_STANDARD.encode(&file.bytes) };
    let facts = json!({"path": path, "hash": hash});
    Ok(Some(Outcome::ok(about).titled(format!("read {shown} ({kind})")).with(facts).showing(picture)))
}

enum Scanned {
    Binary(Option<String>),
    Text(Scan),
    Cancelled,
}

fn scan(mut file: impl io::Read, size: u64, mut window: Window, cx: &ToolContext) -> io::Result<Scanned> {
    /// Larger reads gain nothing.
    const BUFFER_BYTES: usize = 64 << 10;
    let is_tracked = size <= TRACKED_BYTES;
    let mut hasher = blake3::Hasher::new();
    let mut content = Vec::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut read: u64 = 0;
    loop {
        if cx.cancel.is_cancelled() {
            return Ok(Scanned::Cancelled);
        }
        let count = match file.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = &buffer[..count];
        if read == 0 && (sniff::is_binary(bytes) || is_pdf(bytes)) {
            return Ok(Scanned::Binary(sniff::kind(bytes)));
        }
        if count == 0 {
            break;
        }
        read += count as u64;
        window.push(bytes);
        if is_tracked {
            hasher.update(bytes);
        }
        if content.len() <= REMEMBERED_FILE_BYTES {
            content.extend_from_slice(bytes);
        }
        // A file that grows while it is read has no end worth waiting for either.
        if window.is_full() && (!is_tracked || read > TRACKED_BYTES) {
            return Ok(Scanned::Text(Scan { view: window.finish(), whole: None, goes_on: true }));
        }
    }
    let whole = (is_tracked && read <= TRACKED_BYTES).then(|| Whole {
        hash: hasher.finalize().to_hex().to_string(),
        content: (content.len() <= REMEMBERED_FILE_BYTES).then_some(content),
    });
    Ok(Scanned::Text(Scan { view: window.finish(), whole, goes_on: false }))
}

fn shown(path: &Path, first: usize, scan: &Scan, cx: &ToolContext) -> Result<Outcome, Outcome> {
    let name = paths::shown(path, &cx.workspace);
    let View { text, lines, seen_lines, is_lossy } = &scan.view;
    let (lines, total) = (*lines, *seen_lines);
    if lines == 0 && first > 1 {
        return Err(Outcome::failed(format!(
            "read: offset {first} is beyond the end of {name}, which has {total} lines"
        )));
    }
    if let Some(whole) = &scan.whole {
        cx.ledger.note(path, &whole.hash, whole.content.as_deref());
    }
    let last = first + lines.saturating_sub(1);
    let mut text = if lines == 0 { "(the file is empty)\n".to_owned() } else { text.clone() };
    if *is_lossy {
        text.push_str("(not valid UTF-8: what is not is shown as \u{fffd}; edit leaves it as it is)\n");
    }
    let next = last + 1;
    if scan.goes_on {
        text.push_str(&format!("(lines {first}–{last}, the file is large; continue with offset={next})\n"));
    } else if last < total {
        text.push_str(&format!("(lines {first}–{last} of {total}; continue with offset={next})\n"));
    }
    let title = match lines {
        _ if scan.goes_on => format!("read {name} (lines {first}–{last})"),
        1 if total == 1 => format!("read {name} (1 line)"),
        _ if lines == total => format!("read {name} ({total} lines)"),
        _ => format!("read {name} (lines {first}–{last} of {total})"),
    };
    let metadata = match &scan.whole {
        Some(whole) => json!({"path": path, "hash": whole.hash, "lines": total}),
        None => json!({"path": path}),
    };
    text.truncate(text.trim_end_matches('\n').len());
    Ok(Outcome::ok(text).titled(title).with(metadata))
}
