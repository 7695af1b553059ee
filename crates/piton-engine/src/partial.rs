//! The reply streamed so far, kept in memory for a cancel and in a small file for a killed process.
//!
//! The file is a convenience, not a record: it is never fsynced, and what is in it is only ever shown as abandoned.

use piton_core::message::Part;
use piton_core::model::Delta;
use piton_tools::private;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How long a fragment may stay in memory only.
pub(crate) const FLUSH_AFTER: Duration = Duration::from_millis(150);

/// The reply in the making.
#[derive(Debug)]
pub(crate) struct Partial {
    step: u32,
    attempt: u32,
    text: String,
    reasoning: String,
    file: Option<Spool>,
}

#[derive(Debug)]
struct Spool {
    path: PathBuf,
    open: Option<File>,
    unwritten: Line,
    last_write: Option<Instant>,
}

/// One line of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Line {
    step: u32,
    attempt: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reasoning: String,
}

impl Partial {
    /// A reply of which nothing has come yet; without a path it lives in memory only.
    pub(crate) fn new(step: u32, attempt: u32, path: Option<PathBuf>) -> Self {
        let unwritten = Line { step, attempt, ..Line::default() };
        let file = path.map(|path| Spool { path, open: None, unwritten, last_write: None });
        Self { step, attempt, text: String::new(), reasoning: String::new(), file }
    }

    /// Adds a fragment.
    pub(crate) fn add(&mut self, delta: &Delta) {
        let unwritten = self.file.as_mut().map(|file| &mut file.unwritten);
        match delta {
            Delta::Text { text } => {
                self.text.push_str(text);
                unwritten.into_iter().for_each(|line| line.text.push_str(text));
            }
            Delta::Reasoning { text } => {
                self.reasoning.push_str(text);
                unwritten.into_iter().for_each(|line| line.reasoning.push_str(text));
            }
            Delta::CallBegan { .. } | Delta::CallInput { .. } => {}
        }
    }

    /// When the file wants to be written next, if there is something to write.
    pub(crate) fn flush_at(&self) -> Option<Instant> {
        let file = self.file.as_ref()?;
        let line = &file.unwritten;
        let waiting = !line.text.is_empty() || !line.reasoning.is_empty();
        waiting.then(|| file.last_write.map_or_else(Instant::now, |last| last + FLUSH_AFTER))
    }

    /// Writes what waits. A file that cannot be written is given up: it is only a convenience.
    pub(crate) fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        if file.write(self.step, self.attempt).is_err() {
            self.file = None;
        }
    }

    /// Lets go of all but the beginning: of an answer without an end more is of no use to anybody.
    pub(crate) fn keep_beginning(&mut self) {
        const BYTES: usize = 64 << 10;
        for text in [&mut self.text, &mut self.reasoning] {
            text.truncate(text.floor_char_boundary(BYTES));
            text.shrink_to_fit();
        }
    }

    /// What came, as parts of a message.
    pub(crate) fn parts(&self) -> Vec<Part> {
        parts(&self.text, &self.reasoning)
    }
}

impl Spool {
    fn write(&mut self, step: u32, attempt: u32) -> std::io::Result<()> {
        let file = match &mut self.open {
            Some(file) => file,
            none => none.insert(private::create(&self.path)?),
        };
        let mut line = serde_json::to_vec(&self.unwritten)?;
        line.push(b'\n');
        file.write_all(&line)?;
        self.unwritten = Line { step, attempt, ..Line::default() };
        self.last_write = Some(Instant::now());
        Ok(())
    }
}

/// What a killed process had received of this attempt's reply.
pub(crate) fn recover(path: &Path, step: u32, attempt: u32) -> Vec<Part> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let (mut text, mut reasoning) = (String::new(), String::new());
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let Ok(line) = serde_json::from_str::<Line>(&line) else { break };
        if (line.step, line.attempt) == (step, attempt) {
            text.push_str(&line.text);
            reasoning.push_str(&line.reasoning);
        }
    }
    parts(&text, &reasoning)
}

fn parts(text: &str, reasoning: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    if !reasoning.is_empty() {
        parts.push(Part::Reasoning { text: reasoning.to_owned(), opaque: None });
    }
    if !text.is_empty() {
        parts.push(Part::text(text));
    }
    parts
}
