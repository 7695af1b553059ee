//! The output of a command: truncated for the model, and streamed to watchers.

use super::files::{CallFiles, Exit};
use super::spool;
use crate::clean::{Cleaner, Overwriting, clean};
use crate::executor::{CommandOutput, OutputSink};
use crate::limits::LIVE_BYTES;
use piton_core::secrets::{Depth, Firewall};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// What is kept of a call's output, clean and cut. An output whose secrets cannot be taken out is not shown.
pub(super) fn output(files: &CallFiles, max_chars: usize, firewall: &Firewall) -> CommandOutput {
    let path = files.out();
    let cleaned = spool::without_secrets(files, firewall);
    let bytes = files.raw_bytes().unwrap_or_else(|| std::fs::metadata(&path).map_or(0, |out| out.len()));
    let text = match cleaned {
        Ok(()) => shown_output(&path, max_chars),
        Err(error) => format!("[the output is not shown: taking secrets out of it failed: {error}]"),
    };
    CommandOutput { text, path, bytes }
}

/// What is there from this byte on, clean and cut; `bytes` says how far it was read. A character of which only the beginning is
/// there is left for later, unless the command is over.
pub(super) fn output_from(files: &CallFiles, from: u64, max_chars: usize, firewall: &Firewall) -> CommandOutput {
    /// Of more, only the ends are read.
    const MOST_BYTES: u64 = 1 << 20;
    let path = files.out();
    let plain = |bytes: &[u8]| firewall.cleaned(&clean(bytes), Depth::Everything).into_owned();
    let read = || -> io::Result<(String, u64)> {
        let mut file = File::open(&path)?;
        let size = file.metadata()?.len();
        let from = from.min(size);
        if size - from > MOST_BYTES {
            let mut pieces = [from, size - MOST_BYTES / 2].into_iter().map(|at| {
                let mut bytes = Vec::new();
                file.seek(SeekFrom::Start(at))?;
                file.by_ref().take(MOST_BYTES / 2).read_to_end(&mut bytes)?;
                Ok::<_, io::Error>(plain(whole_characters(&bytes)))
            });
            let (head, tail) =
                (pieces.next().transpose()?.unwrap_or_default(), pieces.next().transpose()?.unwrap_or_default());
            let head: String = head.chars().take(max_chars / 2).collect();
            let tail = &tail[last_chars(&tail, max_chars / 2)..];
            let missing = size - from - (head.len() + tail.len()) as u64;
            return Ok((around_gap(&head, &format!("{missing} bytes"), tail, &path), size));
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(size - from).read_to_end(&mut bytes)?;
        if !matches!(files.read_exit(), Ok(Exit::Recorded(_))) {
            bytes.truncate(whole_words(&bytes));
        }
        Ok((cut(&plain(&bytes), max_chars, &path), from + bytes.len() as u64))
    };
    let (text, bytes) = read().unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => (String::new(), 0),
        _ => (format!("[the output cannot be read: {error}]"), from),
    });
    CommandOutput { text, path: path.clone(), bytes }
}

/// How much of this is whole words: the last may go on. One that is too long for a word is taken as it is, up to its last character.
fn whole_words(bytes: &[u8]) -> usize {
    /// Longer than any token.
    const LONGEST: usize = 4096;
    let words = bytes.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    match std::str::from_utf8(bytes) {
        _ if bytes.len() - words <= LONGEST => words,
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// The output, clean and cut to its beginning and end. Of a large file only these are read.
fn shown_output(path: &Path, max_chars: usize) -> String {
    /// Up to this size the whole file is read, and what is missing can be told in characters.
    const WHOLE_BYTES: u64 = 1 << 20;
    /// Read from each end of a larger one.
    const PIECE_BYTES: u64 = 256 << 10;
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        if size <= WHOLE_BYTES {
            let mut bytes = Vec::new();
            file.take(WHOLE_BYTES).read_to_end(&mut bytes)?;
            return Ok(cut(&clean(&bytes), max_chars, path));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(PIECE_BYTES).read_to_end(&mut bytes)?;
        let head: String = clean(&bytes).chars().take(max_chars / 2).collect();
        bytes.clear();
        file.seek(SeekFrom::Start(size - PIECE_BYTES))?;
        file.take(PIECE_BYTES).read_to_end(&mut bytes)?;
        let tail = clean(whole_characters(&bytes));
        let tail = &tail[last_chars(&tail, max_chars / 2)..];
        let missing = size.saturating_sub((head.len() + tail.len()) as u64);
        Ok(around_gap(&head, &format!("{missing} bytes"), tail, path))
    };
    read().unwrap_or_else(|error| format!("[the output cannot be read: {error}]"))
}

/// Without the rest of a character that was cut off at the front.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
    &bytes[rest..]
}

fn cut(text: &str, max_chars: usize, path: &Path) -> String {
    let total = if text.len() <= max_chars { 0 } else { text.chars().count() };
    if total <= max_chars {
        return text.to_owned();
    }
    let head = text.char_indices().nth(max_chars / 2).map_or(text.len(), |(at, _)| at);
    let tail = last_chars(text, max_chars / 2);
    let missing = total - 2 * (max_chars / 2);
    around_gap(&text[..head], &format!("{missing} characters"), &text[tail..], path)
}

/// Not [`piton_core::truncate::head_tail`]: the notice names the file that has it all, and of a large output the middle
/// was never read.
fn around_gap(head: &str, missing: &str, tail: &str, path: &Path) -> String {
    let path = path.display();
    format!("{head}\n… [{missing} cut; full output: {path}, read it with read(path, offset, limit)] …\n{tail}")
}

/// Where the last `count` characters begin.
fn last_chars(text: &str, count: usize) -> usize {
    if count == 0 {
        return text.len();
    }
    text.char_indices().nth_back(count - 1).map_or(0, |(at, _)| at)
}

/// Follows a call's output for those who watch.
pub(super) struct Tail {
    path: PathBuf,
    sink: OutputSink,
    file: Option<File>,
    cleaner: Cleaner,
    left: usize,
}

impl Tail {
    pub(super) fn new(files: &CallFiles, sink: &OutputSink) -> Self {
        let cleaner = Cleaner::new(Overwriting::AddsLine);
        Self { path: files.out(), sink: sink.clone(), file: None, cleaner, left: LIVE_BYTES }
    }

    /// Passes on what was written since the last time.
    pub(super) fn follow(&mut self) {
        if !self.sink.wanted() || self.left == 0 {
            return;
        }
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return };
        let mut bytes = Vec::new();
        // What cannot be read now comes with the outcome.
        let _ = file.take(self.left as u64).read_to_end(&mut bytes);
        self.left -= bytes.len();
        let mut text = String::new();
        self.cleaner.push(&bytes, &mut text);
        if self.left == 0 {
            text.push_str("\n[… the rest is shown when the command has ended …]\n");
        }
        self.sink.push(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_both_ends_and_names_the_file_that_has_it_all() {
        let text = cut("0123456789", 4, Path::new("/calls/c1.out"));
        assert_eq!(
            text,
            "01\n… [6 characters cut; full output: /calls/c1.out, read it with read(path, offset, limit)] …\n89"
        );
        assert_eq!(cut("é😀", 2, Path::new("/x")), "é😀");
    }
}
