//! What the model and the people read of a command: its output, cut, and how it ended.

use super::files::{CallFiles, End, ExitRecord};
use crate::clean::{Cleaner, Overwriting, clean};
use crate::limits::LIVE_BYTES;
use crate::tool::{OutputSink, ToolContext};
use piton_core::call::{Outcome, Status};
use serde_json::json;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// The outcome of a call that is over.
pub(super) fn outcome(record: &ExitRecord, files: &CallFiles, command: &str, cx: &ToolContext) -> Outcome {
    let path = files.out();
    let output = match record.status {
        End::SpawnFailed | End::NotStarted => String::new(),
        End::Exited | End::Signaled | End::TimedOut | End::Cancelled | End::Interrupted => {
            shown_output(&path, cx.limits.output_chars)
        }
    };
    let cancelled = cx.cancel.is_cancelled();
    let output = if is_incomplete(record, &path) {
        format!("{output}\n[part of the output was lost when the machine went down]")
    } else {
        output
    };
    let text = match record.status {
        End::Interrupted => interrupted(record, &output),
        End::NotStarted if cancelled => "Cancelled before the command was started.".to_owned(),
        End::NotStarted => "[not started] This command was recorded as started, but it provably never ran and never \
                            will. It had no effects: call it again if it is still needed."
            .to_owned(),
        End::Exited | End::Signaled | End::TimedOut | End::Cancelled | End::SpawnFailed => with_notes(record, &output),
    };
    let mut outcome = Outcome::new(status(record, cancelled), text).titled(title(record, command)).with(json!({
        "exit_code": record.code,
        "signal": record.signal,
        "output_path": path,
        "output_bytes": record.output_bytes,
        "timed_out": record.status == End::TimedOut,
        "left_behind": record.left_behind,
    }));
    outcome.duration_ms = record.duration_ms;
    outcome
}

/// The output is made durable once a second, the exit record at once: a power cut can come in between.
fn is_incomplete(record: &ExitRecord, path: &Path) -> bool {
    record.kept_bytes > std::fs::metadata(path).map_or(0, |out| out.len())
}

fn status(record: &ExitRecord, cancelled: bool) -> Status {
    match record.status {
        End::Exited if record.code == Some(0) => Status::Ok,
        End::Exited | End::Signaled | End::SpawnFailed => Status::Failed,
        End::TimedOut => Status::TimedOut,
        End::Cancelled => Status::Cancelled,
        End::Interrupted | End::NotStarted if cancelled => Status::Cancelled,
        End::Interrupted => Status::Interrupted,
        End::NotStarted => Status::NotStarted,
    }
}

fn with_notes(record: &ExitRecord, output: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let output = output.trim_end_matches('\n');
    if !output.is_empty() {
        lines.push(output.to_owned());
    }
    match record.status {
        End::Exited => lines.extend(record.code.filter(|code| *code != 0).map(|code| format!("exit code {code}"))),
        End::Signaled => lines.push(format!("ended by {}", signal_name(record.signal))),
        End::TimedOut => {
            lines.push(format!("timed out after {}: the whole process group was ended", seconds(record.duration_ms)));
        }
        End::Cancelled => {
            lines.push(format!("cancelled after {}: the whole process group was ended", seconds(record.duration_ms)));
        }
        End::SpawnFailed => lines.push("bash: the command could not be started".to_owned()),
        End::Interrupted | End::NotStarted => {}
    }
    match record.left_behind {
        0 => {}
        1 => lines.push("1 background process was ended when the command finished".to_owned()),
        many => lines.push(format!("{many} background processes were ended when the command finished")),
    }
    lines.extend(record.error.as_ref().map(|error| format!("[{error}]")));
    if lines.is_empty() { "(no output)".to_owned() } else { lines.join("\n") }
}

fn interrupted(record: &ExitRecord, output: &str) -> String {
    let cause = record.error.as_deref().unwrap_or("an unknown cause");
    let captured = match output.trim_end_matches('\n') {
        "" => "No output was captured.".to_owned(),
        output => format!("Captured output ({} bytes) follows.\n{output}", record.output_bytes),
    };
    format!(
        "[interrupted after {} (last sign of life) by: {cause}] This command was started once and was **not** run again. \
         It may have had partial effects: check before you repeat it. {captured}",
        seconds(record.duration_ms)
    )
}

/// `bash cargo test (exit 1, 2.3 s)`.
fn title(record: &ExitRecord, command: &str) -> String {
    /// Enough to know the command again.
    const SHOWN_CHARS: usize = 60;
    let line = command.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = clean(line.as_bytes());
    let is_cut = line.chars().count() > SHOWN_CHARS || command.trim().lines().count() > 1;
    let shown: String = line.chars().take(SHOWN_CHARS).chain(is_cut.then_some('…')).collect();
    let end = match record.status {
        End::Exited => format!("exit {}", record.code.unwrap_or_default()),
        End::Signaled => signal_name(record.signal),
        End::TimedOut => "timed out".to_owned(),
        End::Cancelled => "cancelled".to_owned(),
        End::SpawnFailed => return format!("bash {shown} (could not be started)"),
        End::Interrupted => return format!("bash {shown} (interrupted)"),
        End::NotStarted => return format!("bash {shown} (not started)"),
    };
    format!("bash {shown} ({end}, {})", seconds(record.duration_ms))
}

fn signal_name(signal: Option<i32>) -> String {
    let number = signal.unwrap_or_default();
    match signal_hook::low_level::signal_name(number) {
        Some(name) => format!("signal {number} ({name})"),
        None => format!("signal {number}"),
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
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

    #[test]
    fn a_title_is_one_short_line() {
        let record = ExitRecord { code: Some(1), duration_ms: 2_345, ..ExitRecord::of(End::Exited) };
        assert_eq!(title(&record, "cargo test"), "bash cargo test (exit 1, 2.3 s)");
        assert_eq!(title(&record, "\n  cd x\n  make\n"), "bash cd x… (exit 1, 2.3 s)");
    }
}
