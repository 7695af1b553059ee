//! The part of a session that a tool may use.

use crate::executor::OutputSink;
use async_trait::async_trait;
use piton_core::call::Outcome;
use piton_core::event::Record;
use piton_core::ids::{CallId, Seq, SessionId};
use std::fmt::Debug;
use tokio_util::sync::CancellationToken;

/// What a session offers to its tools. The engine is behind it; tools know no store and no folder of sessions.
#[async_trait]
pub trait Host: Debug + Send + Sync {
    /// At most `max` durable events of the session from this position on (1 is the beginning). The error is for people.
    async fn read(&self, from: Seq, max: usize) -> Result<Vec<Record>, String>;
}

/// Has a subagent's session answer a call. Whose, and which, whoever made this knows.
#[async_trait]
pub trait Delegate: Debug + Send + Sync {
    /// Comes to the outcome of the call. Begins, goes on or looks up, as the session is found; told to stop, it stops the session and
    /// answers with what that has said.
    async fn delegate(&self, stop: &CancellationToken, output: &OutputSink) -> Outcome;
}

/// The subagents that a session has left at work in the background.
#[async_trait]
pub trait Subordinates: Debug + Send + Sync {
    /// What this one has said and done so far, for the model.
    async fn so_far(&self, session: &SessionId) -> String;

    /// Waits until this one is over, as far as this process knows of it.
    async fn over(&self, task: &CallId) -> Outcome;

    /// Asks this one to stop, as soon as this process has it at work.
    async fn stop(&self, task: &CallId);
}
