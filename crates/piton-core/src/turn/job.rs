//! The jobs of a session: what the machine wants to be under way. Each says with which event it ends.

use super::gate::Gate;
use crate::event::{Moment, Subject, Trigger};
use crate::ids::{CallId, TimeMs};
use crate::message::ToolCall;
use std::sync::Arc;

/// Something that should be under way.
#[derive(Debug, Clone, PartialEq)]
pub enum Job {
    /// Start a turn for the message waiting: append [`Event::TurnStarted`] with the model and policy in force.
    StartTurn,
    /// Ask the model. Ends in `MessageFinished` or `ModelFailed`.
    CallModel {
        /// The session's step.
        step: u32,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// Take the next model of the chain: append [`Event::ModelSwitched`].
    SwitchModel {
        /// What the one before failed with.
        reason: String,
    },
    /// Wait out the back-off. Ends in `BackoffPassed`.
    Wait {
        /// The step that waits.
        step: u32,
        /// Until when.
        until_ms: TimeMs,
    },
    /// Watch the turn's wall clock. Ends in `DeadlinePassed`.
    WatchDeadline {
        /// When the time is up.
        at_ms: TimeMs,
    },
    /// Let hooks see what comes next. Ends in `HooksRan`.
    Pass(Gate),
    /// Let the permission rules judge a call. Ends in `CallRequested`.
    JudgeCall(Arc<ToolCall>),
    /// Put a question to a person. Ends in `ApprovalGiven`.
    AskApproval(Subject),
    /// Wait for the time that a question waits at most. Ends in `ApprovalGiven`.
    AwaitAnswer {
        /// Which question.
        subject: Subject,
        /// When the time is up.
        until_ms: TimeMs,
    },
    /// Run a call whose start is on record; in a process that did not start it, settle it. Ends in `CallSettled`.
    RunTool(Arc<ToolCall>),
    /// Make a running call stop. It still ends in `CallSettled`.
    StopTool(Arc<ToolCall>),
    /// Take a snapshot of the workspace. Ends in `SnapshotTaken`.
    Snapshot(Moment),
    /// Compact the context. Ends in `CompactionFinished` or `CompactionFailed`.
    Compact(Trigger),
    /// Watch a command in the background, whatever the turn does. Ends in `TaskEnded`.
    WatchTask(CallId),
}

impl Job {
    /// Whether the work for the one is the work for the other: a call that shall stop is the call that runs.
    pub fn is_same_work(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::RunTool(one) | Self::StopTool(one), Self::RunTool(other) | Self::StopTool(other))
            | (Self::JudgeCall(one), Self::JudgeCall(other)) => one.id == other.id,
            (Self::Snapshot(_), Self::Snapshot(_)) | (Self::Compact(_), Self::Compact(_)) => true,
            (one, other) => one == other,
        }
    }
}
