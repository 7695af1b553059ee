//! A response body, in whatever pieces it arrives, read by the machine of its protocol.
//!
//! ```text
//!  bytes ──▶ Body: JSON documents or event stream? ──▶ Protocol machine ──▶ deltas … reply
//! ```
//!
//! Whether a body is made of JSON documents, an HTML page or an event stream is told by its first byte and not by its
//! content type, which gateways get wrong. Nothing here waits or connects.

use crate::anthropic::AnthropicReply;
use crate::chat::ChatReply;
use crate::chunks;
use crate::documents::Documents;
use crate::gaps::Gaps;
use crate::gemini::GeminiReply;
use crate::ollama::OllamaReply;
use crate::protocol::{EventError, Progress, Protocol, WireProtocol, beginning, garbled};
use crate::responses::ResponsesReply;
use piton_core::model::{Delta, ModelError, ModelErrorKind, Reply};
use piton_http::sse::SseDecoder;
use serde_json::Value;

/// The machine that reads this protocol's answers.
pub fn protocol(protocol: WireProtocol) -> Box<dyn Protocol> {
    match protocol {
        WireProtocol::Chat => Box::<ChatReply>::default(),
        WireProtocol::Responses => Box::<ResponsesReply>::default(),
        WireProtocol::Anthropic => Box::<AnthropicReply>::default(),
        WireProtocol::Gemini => Box::<GeminiReply>::default(),
        WireProtocol::Ollama => Box::<OllamaReply>::default(),
    }
}

/// A response body being read.
pub struct ResponseBody {
    protocol: Box<dyn Protocol>,
    form: Form,
    gaps: Gaps,
    bytes: usize,
    /// Bytes of words and arguments in it.
    said_bytes: usize,
}

enum Form {
    Unknown,
    Events(SseDecoder),
    Documents(Documents),
    /// Something to read in a browser; its beginning, to tell people what it is.
    Page(Vec<u8>),
}

/// An event or document larger than this is not an answer of a language model.
const MAX_PENDING_BYTES: usize = 32 << 20;

/// Nor is a body larger than this: the longest answers there are have some hundred thousand tokens, and an event for each has a
/// few hundred bytes.
const MAX_BYTES: usize = 64 << 20;

/// Nor is one that says more than this: a million tokens have some four megabytes. While it streams it is held
/// here, and no more than [`piton_core::limits::STREAMED_BYTES`] of it by each of those who show and keep it.
const MAX_SAID_BYTES: usize = 8 << 20;

impl ResponseBody {
    /// A body of which nothing was read.
    pub fn new(protocol: Box<dyn Protocol>) -> Self {
        Self { protocol, form: Form::Unknown, gaps: Gaps::default(), bytes: 0, said_bytes: 0 }
    }

    /// Takes the next bytes and returns what they bring to watch.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Delta>, ModelError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > MAX_BYTES {
            return Err(endless());
        }
        if matches!(self.form, Form::Unknown) {
            bytes = without_preamble(bytes);
            match bytes.first() {
                None => return Ok(Vec::new()),
                Some(b'<') => self.form = Form::Page(Vec::new()),
                Some(b'{' | b'[') => self.form = Form::Documents(Documents::new()),
                Some(_) => self.form = Form::Events(SseDecoder::new()),
            }
        }
        let mut deltas = Vec::new();
        let Self { protocol, form, gaps, bytes: _, said_bytes } = self;
        let mut keep = |taken: Result<Vec<Delta>, EventError>, protocol: &mut Box<dyn Protocol>| match taken {
            Ok(more) => {
                deltas.extend(more);
                Ok(())
            }
            Err(EventError::Garbled { why, text }) => {
                protocol.gap(&text);
                gaps.note(&why)
            }
            Err(EventError::Failed(error)) => Err(error),
        };
        let pending_bytes = match form {
            Form::Unknown => 0,
            Form::Documents(documents) => {
                for document in documents.push(bytes) {
                    chunks::show(&String::from_utf8_lossy(&document));
                    let taken = document_json(&document).and_then(|value| Ok(protocol.document(&value)?));
                    keep(taken, protocol)?;
                }
                documents.pending_bytes()
            }
            Form::Page(page) => {
                page.extend_from_slice(bytes);
                if page.len() > PAGE_BYTES {
                    return Err(not_an_answer(page));
                }
                page.len()
            }
            Form::Events(sse) => {
                sse.read(bytes, |event| {
                    chunks::show(&event.data);
                    keep(protocol.event(event), protocol)
                })?;
                sse.pending_bytes()
            }
        };
        if pending_bytes > MAX_PENDING_BYTES {
            return Err(ModelError::new(ModelErrorKind::Endless, "the answer is one endless event"));
        }
        *said_bytes += deltas.iter().map(Delta::bytes).sum::<usize>();
        if *said_bytes > MAX_SAID_BYTES {
            return Err(endless());
        }
        Ok(deltas)
    }

    /// How far the answer is.
    pub fn progress(&self) -> Progress {
        self.protocol.progress()
    }

    /// The body is over: what its last bytes bring to watch, and the reply.
    pub fn finish(&mut self) -> Result<(Vec<Delta>, Reply), ModelError> {
        let last = match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown | Form::Documents(_) => None,
            Form::Page(page) => return Err(not_an_answer(&page)),
            Form::Events(mut sse) => sse.finish(),
        };
        last.iter().for_each(|event| chunks::show(&event.data));
        let deltas = match last.map(|event| self.protocol.event(&event)) {
            // Half an event or document at the end of the bytes is a cut, which the protocol tells.
            None | Some(Err(EventError::Garbled { .. })) => Vec::new(),
            Some(Err(EventError::Failed(error))) => return Err(error),
            Some(Ok(deltas)) => deltas,
        };
        let reply = self.protocol.finish();
        Ok((deltas, std::mem::take(&mut self.gaps).judge(reply)?))
    }
}

fn endless() -> ModelError {
    ModelError::new(ModelErrorKind::Endless, "the answer has no end")
}

fn document_json(document: &[u8]) -> Result<Value, EventError> {
    serde_json::from_slice(document).map_err(|error| garbled(&error, &String::from_utf8_lossy(document)))
}

/// What may stand before an answer: white space, and a byte order mark, which need not come in one piece.
fn without_preamble(bytes: &[u8]) -> &[u8] {
    let is_preamble = |byte: &u8| byte.is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(byte);
    let start = bytes.iter().position(|byte| !is_preamble(byte)).unwrap_or(bytes.len());
    &bytes[start..]
}

fn not_an_answer(bytes: &[u8]) -> ModelError {
    let shown = beginning(&String::from_utf8_lossy(bytes));
    ModelError::new(
        ModelErrorKind::Malformed,
        format!("the answer is neither an event stream nor JSON but a page: {shown}"),
    )
}

/// So much of a page has that many characters, or it is all white space.
const PAGE_BYTES: usize = 4_096;
