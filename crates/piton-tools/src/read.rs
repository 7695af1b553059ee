//! `read`: a piece of a file, by lines. Streams: a file of any size costs little memory and stops early.

use crate::input::number;
use crate::tool::{Tool, ToolContext, parse_input, schema_of};
use async_trait::async_trait;
use piton_core::call::{Outcome, ToolClass, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read as _, Seek};
use std::path::Path;

/// Lines shown when no limit is named.
const LINES: usize = 2_000;
/// Characters of a line that are shown.
const LINE_CHARS: usize = 2_000;
/// Bytes shown by one call.
const CALL_BYTES: usize = 50 * 1024;
/// A larger file is not kept in mind for editing, and its lines are not counted to the end.
const TRACKED_BYTES: u64 = 10 * 1024 * 1024;
/// Entries of a folder that are listed.
const ENTRIES: usize = 200;
/// The beginning that tells text from anything else.
const SNIFFED_BYTES: u64 = 4_096;

/// The tool.
pub(crate) struct Read;

#[derive(Deserialize, JsonSchema)]
struct Input {
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
    /// First line, from 1
    #[serde(default, deserialize_with = "number")]
    #[schemars(default)]
    offset: Option<u64>,
    /// Most lines (2000)
    #[serde(default, deserialize_with = "number")]
    #[schemars(default)]
    limit: Option<u64>,
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read".to_owned(),
            description: "Read a file with line numbers (`12: text`), or list a folder.".to_owned(),
            schema: schema_of::<Input>(),
            class: ToolClass::Read,
        }
    }

    async fn run(&self, input: Value, context: &ToolContext) -> Outcome {
        let context = context.clone();
        crate::tool::on_a_thread(move || read(input, &context).unwrap_or_else(|refusal| refusal)).await
    }
}

fn read(input: Value, context: &ToolContext) -> Result<Outcome, Outcome> {
    let Input { path, offset, limit } = parse_input("read", input)?;
    let said = context.path(&path);
    let shown = context.shown(&said);
    let refuse = |error: std::io::Error| Outcome::failed(format!("{shown} cannot be read: {error}"));
    let real = match said.canonicalize() {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(missing(&said, &shown)),
        Err(error) => return Err(refuse(error)),
    };
    let meta = fs::metadata(&real).map_err(refuse)?;
    if meta.is_dir() {
        return list(&real, &shown).map_err(refuse);
    }
    // Looked at before it is opened: opening a FIFO would wait for a writer.
    if !meta.is_file() {
        return Err(Outcome::failed(format!("{shown} cannot be read: it is not a regular file.")));
    }
    let mut file = File::open(&real).map_err(refuse)?;
    let mut head = Vec::new();
    file.by_ref().take(SNIFFED_BYTES).read_to_end(&mut head).map_err(refuse)?;
    if let Some(what) = binary(&head) {
        let text = format!("{shown} is not text: {what}, {} bytes.", meta.len());
        return Ok(Outcome::ok(text).titled(format!("{shown} ({what})")));
    }
    file.rewind().map_err(refuse)?;
    let first = offset.unwrap_or(1).max(1);
    let most = limit.map_or(LINES, |limit| usize::try_from(limit).unwrap_or(usize::MAX).clamp(1, LINES));
    let piece = Piece::read(BufReader::new(file), first, most, meta.len() <= TRACKED_BYTES).map_err(refuse)?;
    let mut outcome = piece.outcome(&shown, first);
    if meta.len() <= TRACKED_BYTES {
        let content = fs::read(&real).map_err(refuse)?;
        let hash = context.files.note(&real, &content);
        outcome.metadata = json!({"path": real, "hash": hash});
    }
    Ok(outcome)
}

/// A run of lines of a file.
struct Piece {
    text: String,
    lines: usize,
    /// All lines of the file, if they were counted.
    total: Option<u64>,
    is_valid_utf8: bool,
}

impl Piece {
    /// Reads lines `first..first + most`, up to the byte limit; goes on to count the rest where that is cheap.
    fn read(mut file: impl BufRead, first: u64, most: usize, count_all: bool) -> std::io::Result<Self> {
        let mut piece = Self { text: String::new(), lines: 0, total: None, is_valid_utf8: true };
        let mut number = 0;
        loop {
            let wanted = number + 1 >= first && piece.lines < most && piece.text.len() < CALL_BYTES;
            if !wanted && number >= first && !count_all {
                return Ok(piece);
            }
            let Some(line) = next_line(&mut file)? else { break };
            number += 1;
            if wanted {
                piece.add(number, &line);
            }
        }
        piece.total = Some(number);
        Ok(piece)
    }

    fn add(&mut self, number: u64, line: &Line) {
        let bytes = line.head.strip_suffix(b"\r").unwrap_or(&line.head);
        let lossy = String::from_utf8_lossy(bytes);
        // A character cut at the end of the kept head is no fault of the file.
        self.is_valid_utf8 &= line.is_cut || !lossy.contains('\u{FFFD}');
        let mut text: String = lossy.chars().take(LINE_CHARS).map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect();
        if line.is_cut || lossy.chars().nth(LINE_CHARS).is_some() {
            text.push_str("... (line truncated)");
        }
        self.text.push_str(&format!("{number}: {text}\n"));
        self.lines += 1;
    }

    fn outcome(self, shown: &str, first: u64) -> Outcome {
        let last = first + self.lines as u64 - u64::from(self.lines > 0);
        let total = self.total.map_or("more".to_owned(), |total| total.to_string());
        let mut text = self.text;
        match (self.lines, self.total) {
            (0, Some(0)) => text.push_str("(the file is empty)"),
            (0, _) => text.push_str(&format!("(there is no line {first}; the file has {total} lines)")),
            (_, Some(all)) if last >= all => {}
            (_, _) => text.push_str(&format!("(lines {first}–{last} of {total}; go on with offset={})", last + 1)),
        }
        if !self.is_valid_utf8 {
            text.push_str("\n(not valid UTF-8: some bytes are shown as \u{FFFD})");
        }
        let title = match self.total {
            Some(all) if first == 1 && last >= all => format!("{shown} ({all} lines)"),
            _ => format!("{shown} (lines {first}–{last} of {total})"),
        };
        Outcome::ok(text).titled(title)
    }
}

/// A line of which no more than the beginning is kept.
struct Line {
    head: Vec<u8>,
    is_cut: bool,
}

fn next_line(file: &mut impl BufRead) -> std::io::Result<Option<Line>> {
    /// Every character of a shown line fits, whatever its length in UTF-8.
    const HEAD_BYTES: usize = LINE_CHARS * 4 + 8;
    let mut line = Line { head: Vec::new(), is_cut: false };
    let mut any = false;
    loop {
        let buffer = file.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any.then_some(line));
        }
        any = true;
        let end = memchr::memchr(b'\n', buffer);
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        let room = HEAD_BYTES - line.head.len();
        line.is_cut |= piece.len() > room;
        line.head.extend_from_slice(&piece[..piece.len().min(room)]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        file.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

/// What a file is that is not text, by its beginning.
fn binary(head: &[u8]) -> Option<String> {
    let size = |width: &[u8], height: &[u8]| {
        let number = |bytes: &[u8]| bytes.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        format!("{}×{}", number(width), number(height))
    };
    match head {
        [0x89, b'P', b'N', b'G', ..] if head.len() >= 24 => {
            return Some(format!("a PNG image, {}", size(&head[16..20], &head[20..24])));
        }
        [0xFF, 0xD8, 0xFF, ..] => return Some("a JPEG image".to_owned()),
        [b'G', b'I', b'F', b'8', ..] => return Some("a GIF image".to_owned()),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return Some("a WebP image".to_owned()),
        [b'%', b'P', b'D', b'F', ..] => return Some("a PDF document".to_owned()),
        _ => {}
    }
    let odd = head.iter().filter(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127)).count();
    (head.contains(&0) || odd * 10 > head.len() * 3).then(|| "a binary file".to_owned())
}

fn list(path: &Path, shown: &str) -> std::io::Result<Outcome> {
    let mut names: Vec<String> = fs::read_dir(path)?
        .flatten()
        .map(|entry| {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            format!("{}{}", entry.file_name().to_string_lossy(), if is_folder { "/" } else { "" })
        })
        .collect();
    names.sort();
    let more = names.len().saturating_sub(ENTRIES);
    let count = names.len();
    names.truncate(ENTRIES);
    let rest = if more > 0 { format!("\n(and {more} more)") } else { String::new() };
    let text = if names.is_empty() { "(the folder is empty)".to_owned() } else { names.join("\n") };
    Ok(Outcome::ok(format!("{shown} is a folder:\n{text}{rest}")).titled(format!("{shown}/ ({count} entries)")))
}

/// Says which names come close.
fn missing(path: &Path, shown: &str) -> Outcome {
    let wanted = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let names = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut close: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            let name = name.to_lowercase();
            name.contains(&wanted) || wanted.contains(&name) || similar::TextDiff::from_chars(&name, &wanted).ratio() > 0.7
        })
        .collect();
    close.sort();
    close.truncate(3);
    let hint = if close.is_empty() { String::new() } else { format!(" Did you mean {}?", close.join(", ")) };
    Outcome::failed(format!("{shown} does not exist.{hint}"))
}
