//! The gates of a turn: where it waits for hooks that may change what comes next. Which of them a turn has is recorded
//! with it ([`crate::policy::HookPolicy::gates`]); that one was passed is told by [`crate::event::Event::HooksRan`].
//!
//! This module must not know: what a hook is, and how one is run.

use crate::event::{Subject, Trigger};
use crate::hook::{Gates, HookPoint};
use crate::ids::CallId;

/// Something that hooks must have seen before the turn goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// This process starts or resumes a turn, and hooks have yet to see that the session starts or is resumed here.
    Opened,
    /// The context was compacted, and the model is about to be asked for the first time since.
    Compacted {
        /// The session's step.
        step: u32,
    },
    /// The model is about to be asked.
    BeforeModel {
        /// The session's step.
        step: u32,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// A call is about to be judged by the rules.
    BeforeTool(CallId),
    /// A person was asked a question; the turn waits for the answer. A person may answer it meanwhile.
    Question(Subject),
    /// A call has its answer, though no tool was run for it.
    AfterTool(CallId),
    /// The context is about to be compacted.
    BeforeCompaction(Trigger),
    /// The turn is about to end `completed`.
    End {
        /// The session's step.
        step: u32,
    },
}

/// Who looks at an open question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Askee {
    /// Hooks, which may answer it.
    Hooks,
    /// A person.
    Person,
}

impl Askee {
    /// Who sees it first.
    pub(crate) fn first(gates: &Gates) -> Self {
        if gates.has(HookPoint::Approval) { Self::Hooks } else { Self::Person }
    }
}

impl Gate {
    /// The point at which hooks are asked there.
    pub fn point(&self) -> HookPoint {
        match self {
            Self::Opened | Self::Compacted { .. } => HookPoint::SessionStart,
            Self::BeforeModel { .. } => HookPoint::BeforeModel,
            Self::BeforeTool(_) => HookPoint::BeforeTool,
            Self::Question(_) => HookPoint::Approval,
            Self::AfterTool(_) => HookPoint::AfterTool,
            Self::BeforeCompaction(_) => HookPoint::BeforeCompaction,
            Self::End { .. } => HookPoint::Stop,
        }
    }

    /// The call that it is about, if one.
    pub fn call(&self) -> Option<&CallId> {
        match self {
            Self::BeforeTool(call) | Self::AfterTool(call) => Some(call),
            Self::Question(subject) => Some(subject.call()),
            Self::Opened
            | Self::Compacted { .. }
            | Self::BeforeModel { .. }
            | Self::BeforeCompaction(_)
            | Self::End { .. } => None,
        }
    }
}
