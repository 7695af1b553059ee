//! What the loop and a model say to each other, free of any wire format.

use crate::message::{FinishReason, Message, Part, Usage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One question to a model. Providers translate it; they decide nothing.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The session, for providers that route their cache by a key.
    pub session: String,
    /// The model's name at its provider.
    pub model: String,
    /// The system prompt; may be empty.
    pub system: String,
    /// The tools on offer, sorted by name so that the prefix stays byte-stable. Empty: none are offered.
    pub tools: Arc<[crate::call::ToolSpec]>,
    /// Whether the model may call them in this reply. They stay on offer either way, or the provider's cache is lost.
    pub may_call: bool,
    /// The conversation. Every tool call in it is answered once, in order.
    pub messages: Vec<Arc<Message>>,
    /// The output limit in tokens, if the provider requires one.
    pub max_output_tokens: Option<u32>,
}

/// What a model streams.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// A fragment, for people to watch. Never journalled.
    Delta(Delta),
    /// The complete reply: the last event of a stream that did not fail.
    Done(Box<Reply>),
}

/// A fragment of a reply in progress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Delta {
    /// Prose.
    Text {
        /// The new fragment.
        text: String,
    },
    /// Visible reasoning.
    Reasoning {
        /// The new fragment.
        text: String,
    },
    /// A tool call began.
    CallBegan {
        /// Position among this reply's calls, from 0.
        index: usize,
        /// The tool's name.
        name: String,
    },
    /// A fragment of a call's arguments.
    CallInput {
        /// Position among this reply's calls, from 0.
        index: usize,
        /// The new fragment of JSON text.
        json: String,
    },
}

impl Delta {
    /// The size of its text, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } | Self::Reasoning { text } => text.len(),
            Self::CallBegan { index: _, name } => name.len(),
            Self::CallInput { index: _, json } => json.len(),
        }
    }
}

/// A complete reply of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Text, reasoning and tool calls in order. The calls' ids are filled in by the loop, not by the provider.
    pub parts: Vec<Part>,
    /// Why the model stopped.
    pub finish: FinishReason,
    /// The provider's own name for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_raw: Option<String>,
    /// The tokens used.
    #[serde(default)]
    pub usage: Usage,
    /// The provider's id for this answer, for support requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Parts of the stream that could not be read and were skipped; the reply is complete without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Reply {
    /// A reply with only parts and finish reason.
    pub fn new(parts: Vec<Part>, finish: FinishReason) -> Self {
        Self { parts, finish, finish_raw: None, usage: Usage::default(), response_id: None, warnings: Vec::new() }
    }

    /// Whether the provider reported the usage: the prompt's, and the output's if there is any.
    pub fn is_counted(&self) -> bool {
        self.usage.is_told(!self.parts.is_empty())
    }
}

/// Why a model gave no reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What the turn does about it.
    pub kind: ModelErrorKind,
    /// One line for people: the provider's own message if it gave one, with address or status. Never a key.
    pub message: String,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asked us to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Whether the provider says that a retry may help, if it says anything about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    /// The usage, if the provider counted it: it bills unusable answers too. In an event, it stands beside the error,
    /// not in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}

impl ModelError {
    /// An error without status or wait.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, retry_after_ms: None, should_retry: None, usage: None }
    }

    /// Whether asking the same thing again may help: as the kind says, unless the provider knows better. That a request
    /// is refused for what is wrong with it, it may know better; that the key or the money is missing, it may not.
    pub fn is_retryable(&self) -> bool {
        match self.should_retry {
            Some(true) if self.kind == ModelErrorKind::InvalidRequest => true,
            Some(false) => false,
            Some(true) | None => self.kind.is_retryable(),
        }
    }
}

/// The kinds of failed model calls, by what the turn does about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// 429: wait as requested, then retry.
    RateLimited,
    /// 529, 503 or the provider's own code for overload: wait, then retry.
    Overloaded,
    /// 5xx, 408, 409, 425: retry.
    Server,
    /// No connection: retry.
    Network,
    /// The stream broke off: drop what came, and retry.
    CutStream,
    /// No byte arrived within the stall time-out: retry.
    Stalled,
    /// The answer could not be read (not the protocol, not JSON): retry, a bounded number of times.
    Malformed,
    /// The answer was longer than any model's should be, and Piton broke it off: tell the person.
    Endless,
    /// The reply has neither text nor calls: retry, at most twice.
    EmptyReply,
    /// Piton was killed during the reply: retry.
    Interrupted,
    /// The conversation does not fit the model's window: compact.
    WindowExceeded,
    /// The key is missing, wrong, or lacks permission: tell the person.
    Auth,
    /// There is no such model or endpoint: tell the person.
    NotFound,
    /// The account has no money or quota left: tell the person.
    QuotaSpent,
    /// The provider's filter refused the prompt: tell the person.
    ContentFilter,
    /// The provider did not accept the request: tell the person.
    InvalidRequest,
}

impl ModelErrorKind {
    /// Whether another provider may well reply where this one did not. What is wrong with the conversation itself is
    /// wrong everywhere.
    pub fn is_of_provider(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Network
            | Self::CutStream
            | Self::Stalled
            | Self::Malformed
            | Self::Endless
            | Self::EmptyReply
            | Self::Auth
            | Self::NotFound
            | Self::QuotaSpent => true,
            Self::Interrupted | Self::WindowExceeded | Self::ContentFilter | Self::InvalidRequest => false,
        }
    }

    /// Whether the provider may bill for a call that failed like this, even where nothing of its reply was seen: it may
    /// have worked, and never said what it used. It may in any case where something was seen.
    pub fn may_be_billed(self) -> bool {
        match self {
            Self::CutStream
            | Self::Stalled
            | Self::Malformed
            | Self::Endless
            | Self::EmptyReply
            | Self::Interrupted => true,
            Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Network
            | Self::WindowExceeded
            | Self::Auth
            | Self::NotFound
            | Self::QuotaSpent
            | Self::ContentFilter
            | Self::InvalidRequest => false,
        }
    }

    /// Whether asking the same thing again may help.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::RateLimited
            | Self::Overloaded
            | Self::Server
            | Self::Network
            | Self::CutStream
            | Self::Stalled
            | Self::Malformed
            | Self::EmptyReply
            | Self::Interrupted => true,
            Self::Endless
            | Self::WindowExceeded
            | Self::Auth
            | Self::NotFound
            | Self::QuotaSpent
            | Self::ContentFilter
            | Self::InvalidRequest => false,
        }
    }
}
