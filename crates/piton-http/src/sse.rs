//! Server-sent events, decoded as the WHATWG describes them: a machine without IO, bytes in and events out.
//!
//! It differs from the standard in one point: an event that the server did not end with an empty line is not lost but
//! handed out by [`SseDecoder::finish`], since several servers forget that line. Bytes are looked at once each, so
//! the work is linear in their number however they are cut. It knows nothing of JSON or of any provider.

use memchr::memchr2;
use std::convert::Infallible;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` field; empty where there was none.
    pub event: String,
    /// The `data:` lines, joined with line feeds.
    pub data: String,
    /// Whether the bytes of the data were not UTF-8. Each run of bad bytes is a U+FFFD in it.
    pub is_damaged: bool,
}

/// The decoder's memory between two pushes.
#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    after_cr: bool,
    past_first_line: bool,
    event: String,
    data: Option<String>,
    is_damaged: bool,
    /// The memory of the last event's data.
    spare: String,
}

impl SseDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the events they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        let Ok(()) = self.read(bytes, |event| -> Result<(), Infallible> {
            events.push(event.clone());
            Ok(())
        });
        events
    }

    /// Takes the next bytes and shows each event they complete, one after the other, in memory that is used again.
    /// The first failure ends the reading; what follows it in these bytes is lost.
    pub fn read<E>(&mut self, mut bytes: &[u8], mut take: impl FnMut(&SseEvent) -> Result<(), E>) -> Result<(), E> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr2(b'\n', b'\r', bytes) {
            let (line, is_cr) = (&bytes[..end], bytes[end] == b'\r');
            bytes = &bytes[end + 1..];
            if is_cr {
                self.after_cr = bytes.is_empty();
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            if let Some(event) = self.end_line(line) {
                take(&event)?;
                self.spare = event.data;
            }
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The stream is over: the last event, if it was not ended properly.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line(b"");
        }
        self.dispatch()
    }

    /// How many bytes wait for the rest of their event.
    pub fn pending_bytes(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, String::len)
    }

    /// Takes the rest of a line, or a whole one. Only what was cut is ever copied.
    fn end_line(&mut self, rest: &[u8]) -> Option<SseEvent> {
        if self.line.is_empty() {
            return self.whole_line(rest);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(rest);
        let event = self.whole_line(&line);
        // The allocation is kept for the next line.
        self.line = line;
        self.line.clear();
        event
    }

    fn whole_line(&mut self, mut bytes: &[u8]) -> Option<SseEvent> {
        if !std::mem::replace(&mut self.past_first_line, true) {
            bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        }
        if bytes.is_empty() {
            return self.dispatch();
        }
        match std::str::from_utf8(bytes) {
            Ok(line) => self.field(line),
            Err(_) => {
                self.is_damaged |= bytes.starts_with(b"data:");
                self.field(&String::from_utf8_lossy(bytes));
            }
        }
        None
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => {
                    let mut data = std::mem::take(&mut self.spare);
                    value.clone_into(&mut data);
                    self.data = Some(data);
                }
            },
            "event" => value.clone_into(&mut self.event),
            // Comments (an empty name), `id`, `retry` and whatever else there may be.
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        let is_damaged = std::mem::take(&mut self.is_damaged);
        self.data.take().filter(|data| !data.is_empty()).map(|data| SseEvent { event, data, is_damaged })
    }
}

#[cfg(test)]
mod tests;
