//! The script of the fake provider: a JSON array, one answer per request.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// One scripted answer. All fields may be missing; an empty answer is an empty reply.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// Prose.
    pub(crate) text: Option<String>,
    /// Prose, already cut into deltas.
    pub(crate) pieces: Vec<String>,
    /// Visible reasoning, said first.
    pub(crate) reasoning: Option<String>,
    /// Tool calls, made last.
    pub(crate) tools: Vec<Tool>,
    /// Why it stops, in the words of Chat Completions. Default: as the tools say.
    pub(crate) finish: Option<String>,
    /// `{input, output, cached, cache_write, reasoning}`, or the protocol's own object.
    pub(crate) usage: Option<Value>,
    /// Answers with this status and `body` instead of speaking.
    pub(crate) status: Option<u16>,
    /// The body that goes with `status`: JSON, or text as it is.
    pub(crate) body: Option<Value>,
    /// More headers for the `status` answer.
    pub(crate) headers: Map<String, Value>,
    /// Seconds of silence before the headers.
    pub(crate) stall: f64,
    /// Seconds of silence after the prose.
    pub(crate) stall_mid: f64,
    /// Resets the connection after the prose.
    #[serde(deserialize_with = "flag")]
    pub(crate) drop: bool,
    /// Ends the body after the prose, without a reason to stop.
    #[serde(deserialize_with = "flag")]
    pub(crate) end_early: bool,
    /// Sends this error in the stream after the prose, and ends.
    pub(crate) sse_error: Option<Value>,
    /// Sends a line of garbage after the prose.
    #[serde(deserialize_with = "flag")]
    pub(crate) malformed: bool,
    /// Of the events after the prose, this one (from 0) loses its second half.
    pub(crate) garble: Option<usize>,
    /// So many keep-alives after the prose.
    pub(crate) keep_alives: usize,
    /// Milliseconds before each of them.
    pub(crate) keep_alive_ms: u64,
    /// The body is written in pieces of so many bytes.
    pub(crate) chunk_bytes: Option<usize>,
    /// Prose is cut into deltas of so many characters. Default: one delta.
    pub(crate) delta_chars: Option<usize>,
    /// The prose is said so many times.
    pub(crate) deltas: Option<usize>,
    /// Milliseconds before each delta.
    pub(crate) delay_ms: u64,
    /// The answer is for the next request of the conversation that began with a message in which this stands, and for no other.
    pub(crate) of: Option<String>,
    /// This answer, if it is the last, is given again and again.
    #[serde(deserialize_with = "flag")]
    pub(crate) repeat: bool,
}

/// A scripted tool call.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    /// The arguments as JSON.
    pub(crate) args: Option<Value>,
    /// The arguments as text, valid or not.
    pub(crate) raw: Option<String>,
}

impl Tool {
    /// The arguments as they are streamed.
    pub(crate) fn json(&self) -> String {
        match (&self.raw, &self.args) {
            (Some(raw), _) => raw.clone(),
            (None, Some(args)) => args.to_string(),
            (None, None) => "{}".to_owned(),
        }
    }
}

impl Answer {
    /// The prose in deltas.
    pub(crate) fn text_deltas(&self) -> Vec<String> {
        if !self.pieces.is_empty() {
            return self.pieces.clone();
        }
        let text = self.text.as_deref().unwrap_or_default();
        let once: Vec<String> = match self.delta_chars {
            _ if text.is_empty() => Vec::new(),
            None => vec![text.to_owned()],
            Some(size) => {
                let chars: Vec<char> = text.chars().collect();
                chars.chunks(size.max(1)).map(|piece| piece.iter().collect()).collect()
            }
        };
        let times = self.deltas.unwrap_or(1);
        std::iter::repeat_n(once, times).flatten().collect()
    }
}

/// Scripts write flags as `true`, `1`, or whatever else is not nothing.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Null => false,
        Value::Bool(set) => set,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(_) | Value::Array(_) | Value::Object(_) => true,
    })
}
