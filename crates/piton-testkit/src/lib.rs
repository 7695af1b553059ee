//! For tests and benches only: a model server that does as a script says, recorded answers to hold the decoders to,
//! and workspaces that clean up after themselves. Unlike the rest of Piton this crate may panic: a broken script is a broken test.

#![allow(clippy::unwrap_used, reason = "a broken script is a broken test")]

pub mod clock;
pub mod conformance;
mod conversation;
pub mod crash;
pub mod executor;
pub mod fake_provider;
pub mod files;
pub mod scenarios;
pub mod servers;
mod script;
mod speech;
pub mod store;
mod workspace;

pub use fake_provider::{FakeProvider, SeenRequest};
pub use workspace::{TempWorkspace, state};
