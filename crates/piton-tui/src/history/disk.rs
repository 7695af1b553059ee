//! The history on disk: a line of JSON for each prompt, appended by any number of processes. A history that cannot be
//! read or written is no reason to trouble anybody: it is shorter then.

use super::{Entry, MOST_ENTRIES};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// With so many lines the file is written anew, with [`MOST_ENTRIES`].
const REWRITTEN_AT_LINES: usize = 12_000;
/// Longer prompts stay in memory only, in bytes.
const MOST_TEXT_BYTES: usize = 64 * 1024;
/// As much of the end of the file is read.
const MOST_READ_BYTES: u64 = 32 * 1024 * 1024;

/// Reads the entries, oldest first. Lines that are damaged are skipped; of a file that cannot be read there are none. A
/// file that has grown too long is written anew.
pub fn load(path: &Path) -> Vec<Entry> {
    let Ok(text) = read_end(path) else { return Vec::new() };
    let is_long = text.lines().count() >= REWRITTEN_AT_LINES;
    // It stays too long if this fails, and the next start tries again.
    let rewritten = if is_long { rewrite(path).ok() } else { None };
    rewritten.unwrap_or_else(|| newest(&text))
}

/// Appends an entry, for its owner's eyes only. Entries that several processes append at once are all kept.
///
/// # Errors
/// The disk's. They are for a log: nothing depends on the entry.
pub fn append(path: &Path, entry: &Entry) -> io::Result<()> {
    if entry.text.len() > MOST_TEXT_BYTES {
        return Ok(());
    }
    loop {
        let mut file = private().read(true).append(true).create(true).open(path)?;
        // Where files cannot be locked they are never written anew, and an append is one write.
        let _ = file.lock();
        // Somebody may have put a new file in its place meanwhile.
        if !is_still_at(&file, path) {
            continue;
        }
        let line = if ends_within_line(&mut file)? { format!("\n{}\n", line(entry)) } else { line(entry) + "\n" };
        return file.write_all(line.as_bytes());
    }
}

/// Writes the newest entries into a new file, while nobody appends.
fn rewrite(path: &Path) -> io::Result<Vec<Entry>> {
    let file = OpenOptions::new().read(true).append(true).open(path)?;
    file.lock()?;
    let text = read_end(path)?;
    let entries = newest(&text);
    if text.lines().count() < REWRITTEN_AT_LINES || !is_still_at(&file, path) {
        return Ok(entries);
    }
    let text: String = entries.iter().map(|entry| line(entry) + "\n").collect();
    let new = path.with_extension("jsonl.new");
    private().write(true).create(true).truncate(true).open(&new)?.write_all(text.as_bytes())?;
    std::fs::rename(&new, path)?;
    Ok(entries)
}

/// The newest entries of a text, oldest first.
fn newest(text: &str) -> Vec<Entry> {
    let mut entries: Vec<_> = text.lines().rev().filter_map(entry).take(MOST_ENTRIES).collect();
    entries.reverse();
    entries
}

fn read_end(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MOST_READ_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(MOST_READ_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether the last line was not finished: a process died while it wrote.
fn ends_within_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [b'\n'];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn line(entry: &Entry) -> String {
    let Entry { text, pastes, session, folder, time_ms } = entry;
    let mut line = json!({ "text": text, "session": session, "folder": folder, "time_ms": time_ms });
    if !pastes.is_empty() {
        line["pastes"] = pastes.iter().map(|paste| json!([paste.start, paste.end])).collect();
    }
    line.to_string()
}

fn entry(line: &str) -> Option<Entry> {
    let value: Value = serde_json::from_str(line).ok()?;
    let word = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let time_ms = value.get("time_ms").and_then(Value::as_u64).unwrap_or_default();
    let (session, folder) = (word("session").unwrap_or_default(), word("folder").unwrap_or_default());
    let paste = |pair: &Value| {
        let at = |index: usize| usize::try_from(pair.get(index)?.as_u64()?).ok();
        Some(at(0)?..at(1)?)
    };
    let pastes = value.get("pastes").and_then(Value::as_array).into_iter().flatten().filter_map(paste).collect();
    Some(Entry { text: word("text")?, pastes, session, folder, time_ms })
}

#[cfg(unix)]
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(not(unix))]
fn private() -> OpenOptions {
    OpenOptions::new()
}

#[cfg(unix)]
fn is_still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(mine), Ok(there)) if id(&mine) == id(&there))
}

/// An open file cannot be replaced elsewhere.
#[cfg(not(unix))]
fn is_still_at(_: &File, _: &Path) -> bool {
    true
}
