//! The part of a session that a tool may use.

use async_trait::async_trait;
use piton_core::event::Record;
use piton_core::ids::Seq;
use std::fmt::Debug;

/// What a session offers to its tools. The engine is behind it; tools know no store and no folder of sessions.
#[async_trait]
pub trait Host: Debug + Send + Sync {
    /// At most `max` durable events of the session from this position on (1 is the beginning). The error is for people.
    async fn read(&self, from: Seq, max: usize) -> Result<Vec<Record>, String>;
}
