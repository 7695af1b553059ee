//! Server-sent events, decoded as the WHATWG describes them: a machine without IO, bytes in and events out.
//!
//! It differs from the standard in one point: an event that the server did not end with an empty line is not lost but
//! handed out by [`SseDecoder::finish`], since several servers forget that line. Bytes are looked at once each, so
//! the work is linear in their number however they are cut. It knows nothing of JSON or of any provider.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event:` field; empty where there was none.
    pub event: String,
    /// The `data:` lines, joined with line feeds.
    pub data: String,
}

/// The decoder's memory between two pushes.
#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    after_cr: bool,
    past_first_line: bool,
    event: String,
    data: Option<String>,
}

impl SseDecoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the events they complete.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<SseEvent> {
        let mut events = Vec::new();
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes[0] == b'\n' {
                bytes = &bytes[1..];
            }
        }
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            self.line.extend_from_slice(&bytes[..end]);
            let is_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if is_cr {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            events.extend(self.end_line());
        }
        self.line.extend_from_slice(bytes);
        events
    }

    /// The stream is over: the last event, if it was not ended properly.
    pub fn finish(&mut self) -> Option<SseEvent> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch()
    }

    /// How many bytes wait for the rest of their event.
    pub fn pending_bytes(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, String::len)
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if !std::mem::replace(&mut self.past_first_line, true) {
            bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        }
        let event = if bytes.is_empty() {
            self.dispatch()
        } else {
            self.field(&String::from_utf8_lossy(bytes));
            None
        };
        // The allocation is kept for the next line.
        self.line = line;
        self.line.clear();
        event
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
                None => self.data = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.event),
            // Comments (an empty name), `id`, `retry` and whatever else there may be.
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let event = std::mem::take(&mut self.event);
        self.data.take().filter(|data| !data.is_empty()).map(|data| SseEvent { event, data })
    }
}

#[cfg(test)]
mod tests;
