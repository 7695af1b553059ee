//! How a turn ends, as types: [`TurnEnd`] decides the exit code, [`Why`] what a person can do about it. The sentence beside
//! them is for people only; no code reads it.

use serde::{Deserialize, Serialize};

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model answered and wanted nothing more.
    Completed,
    /// It was cancelled.
    Canceled,
    /// Calls were refused: several in a row, or some that nobody was there to approve.
    ToolDenied,
    /// The limit of steps was reached.
    MaxSteps,
    /// The limit of turns was reached; nothing was asked.
    MaxTurns,
    /// Tokens, money or time are used up.
    Budget,
    /// The model repeated itself.
    NoProgress,
    /// The conversation, or the reply, does not fit the model.
    ContextLimit,
    /// The provider's filter cut the reply or refused the prompt.
    ContentFilter,
    /// The provider gave no reply.
    ApiError,
    /// A hook stopped it.
    HookStopped,
}

/// Which limit or fault ended a turn or stopped a call, beyond what its [`TurnEnd`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The limit of steps.
    Steps,
    /// The limit of replies of any kind.
    Replies,
    /// The budget of tokens.
    Tokens,
    /// The budget of money.
    Cost,
    /// The session's budget of money.
    SessionCost,
    /// There is a budget of money, and the model's price is unknown.
    NoPrice,
    /// The budget of time.
    Time,
    /// Replies were cut at the model's output limit.
    OutputLimit,
    /// The context is full, and there is nothing left to sum up.
    NothingToSumUp,
    /// The model call failed; the detail is the provider's message, in the preset's words.
    ModelError,
}

impl Why {
    /// The key of `[limits]` in the configuration that raises it, if it is a limit.
    pub fn limit(self) -> Option<&'static str> {
        match self {
            Self::Steps => Some("max_steps"),
            Self::Replies => Some("max_replies"),
            Self::Tokens => Some("max_tokens"),
            Self::Cost => Some("max_cost"),
            Self::SessionCost => Some("max_session_cost"),
            Self::Time => Some("max_time"),
            Self::NoPrice | Self::OutputLimit | Self::NothingToSumUp | Self::ModelError => None,
        }
    }

    /// How a turn ends that may not go on for this reason.
    pub fn end(self) -> TurnEnd {
        match self {
            Self::Steps | Self::Replies => TurnEnd::MaxSteps,
            Self::Tokens | Self::Cost | Self::SessionCost | Self::NoPrice | Self::Time => TurnEnd::Budget,
            Self::OutputLimit | Self::NothingToSumUp => TurnEnd::ContextLimit,
            Self::ModelError => TurnEnd::ApiError,
        }
    }
}
