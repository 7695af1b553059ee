//! Tool calls in plain text: for models without native calls, and for servers that do not parse them.
//!
//! ```text
//!  request ──▶ render: tools as prompt, calls and results as text ──▶ the model
//!  reply   ◀── decoder: text, reasoning, calls  ◀── its stream of text
//! ```
//!
//! A [`Decoder`] reads one [`TextDialect`] incrementally and shows text at once, save what may still become a marker.
//! What is taught is our own `<use_tool>` grammar or Hermes' ([`Speech`]); what is understood is every dialect that
//! open models were trained on. [`TextTools`] puts both around a model; [`FoundTools`] only listens, to a model whose server
//! should have parsed its calls. Which of them it is, if any, is a [`Mode`]. Nothing here knows a wire format or runs a
//! call.
//!
//! Two promises, kept by every dialect and tested on all of them: a call of which anything but closing marks is
//! missing never runs, and no piece of a marker is shown.

use piton_core::call::CallInput;

mod code;
mod hold;
mod buffer;

mod block;
mod reader;

mod arguments;
mod literal;
mod schema;

mod use_tool;

mod hermes;
mod qwen_coder;
mod glm;
mod kimi;
mod deepseek;
mod mistral;
mod llama;
mod harmony;

mod dialect;
mod render;
mod model;
mod found;
mod mode;

pub use buffer::{Buffer, ends_in_tag};
pub use dialect::{TextDialect, detect};
pub use found::FoundTools;
pub use mode::{Approach, CallsRead, Mode, NotAMode};
pub use model::TextTools;
pub use render::Speech;

/// Reads a reply as it comes. The cuts between the pieces make no difference, only to how the text is cut up.
pub trait Decoder: Send {
    /// Takes more of the text.
    fn push(&mut self, text: &str) -> Vec<TextEvent>;

    /// The text is over, properly or not. Asked once; nothing is pushed afterwards.
    fn finish(&mut self) -> Vec<TextEvent>;
}

/// What a text turns out to hold, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum TextEvent {
    /// Prose, to show.
    Text(String),
    /// What the model thinks aloud, to show as such.
    Reasoning(String),
    /// A call, to its end.
    Call(TextCall),
    /// The beginning of a marker, with which the text ended. Part of what the model said, and nothing to show.
    Remnant(String),
}

/// A call found in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextCall {
    /// The model's own id for it, where its dialect has one.
    pub id: Option<String>,
    /// The tool's name as the model wrote it; empty where it did not come to that.
    pub name: String,
    /// The arguments. Those of a broken or cut call are [`CallInput::Invalid`].
    pub input: CallInput,
}

/// How to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// How many calls of a reply count.
    pub calls: Calls,
    /// How exactly arguments must be JSON.
    pub notation: Notation,
    /// What whoever watches sees of the prose before the reply is whole.
    pub showing: Showing,
}

/// What whoever watches sees of the prose before the reply is whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Showing {
    /// Everything, as soon as it cannot be a marker.
    #[default]
    AtOnce,
    /// What Neovate shows: see [`Buffer`].
    Buffered,
}

/// How many calls of a reply count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calls {
    /// All of them.
    #[default]
    All,
    /// The first; what the model says after it, calls or text, is dropped.
    FirstOnly,
}

/// How exactly arguments must be JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Notation {
    /// Anything else is broken, and the model is told.
    #[default]
    Json,
    /// Python literals, unquoted keys, trailing commas and raw line breaks are read as what they plainly mean. Still
    /// nothing is guessed or completed.
    Relaxed,
}

#[cfg(test)]
mod tests;
