//! JSON documents that come one after the other: a machine without IO, bytes in and whole objects out.
//!
//! One machine reads all that servers send besides event streams: a single document, one document a line (Ollama),
//! and an array of documents that grows (Gemini). It counts braces outside of strings and leaves whatever stands
//! between two objects alone. Bytes are looked at once each; it knows nothing of JSON beyond that.

/// The splitter's memory between two pushes.
#[derive(Debug, Default)]
pub struct Documents {
    object: Vec<u8>,
    depth: usize,
    in_string: bool,
    after_backslash: bool,
}

impl Documents {
    /// A splitter at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the text of each object that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        let mut start = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            let was_outside = self.depth == 0;
            self.look(byte);
            if was_outside {
                start = at;
            } else if self.depth == 0 {
                self.object.extend_from_slice(&bytes[start..=at]);
                whole.push(std::mem::take(&mut self.object));
            }
        }
        if self.depth > 0 {
            self.object.extend_from_slice(&bytes[start..]);
        }
        whole
    }

    /// How many bytes wait for the end of their object; 0 between two objects.
    pub fn pending_bytes(&self) -> usize {
        self.object.len()
    }

    fn look(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.after_backslash && byte != b'\n' => self.after_backslash = false,
                b'\\' => self.after_backslash = true,
                b'"' => self.in_string = false,
                // No string of JSON goes on in the next line: this document was cut, and the next one begins there.
                b'\n' => (self.in_string, self.after_backslash, self.depth) = (false, false, 0),
                _ => {}
            }
            return;
        }
        match byte {
            b'{' => self.depth += 1,
            b'}' => self.depth = self.depth.saturating_sub(1),
            b'"' if self.depth > 0 => self.in_string = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, chunk_bytes: usize) -> (Vec<String>, usize) {
        let mut documents = Documents::new();
        let whole = text.as_bytes().chunks(chunk_bytes).flat_map(|chunk| documents.push(chunk));
        let whole = whole.map(|object| String::from_utf8(object).unwrap_or_default()).collect();
        (whole, documents.pending_bytes())
    }

    #[test]
    fn lines_arrays_and_single_documents_are_split_alike_in_any_cut() {
        let objects = [r#"{"a":{"b":"}\"{\\"}}"#, r#"{"grüße":"🐍 ]"}"#, "{}"];
        for text in [objects.join("\n"), format!(" [{}\n]\n", objects.join("\r\n,\n"))] {
            for chunk_bytes in [1, 2, 7, text.len()] {
                assert_eq!(split(&text, chunk_bytes), (objects.map(str::to_owned).to_vec(), 0), "{text}");
            }
        }
    }

    #[test]
    fn a_line_that_breaks_off_within_a_string_does_not_swallow_the_next_one() {
        let (broken, whole) = (r#"{"a":{"b":"cut\\"#, r#"{"c":1}"#);
        let text = format!("{broken}\n{whole}\n");
        for chunk_bytes in [1, 7, text.len()] {
            assert_eq!(split(&text, chunk_bytes), (vec![format!("{broken}\n"), whole.to_owned()], 0));
        }
    }

    #[test]
    fn an_object_that_was_cut_is_pending() {
        assert_eq!(split(r#"{"a":1} {"b":"}"#, 3), (vec![r#"{"a":1}"#.to_owned()], 7));
    }
}
