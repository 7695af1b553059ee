//! OpenAI's Chat Completions, and what everybody else made of it.
//!
//! `request` turns the core's request into a body, `reply` turns a body into the core's events. The list of
//! deviations that `reply` lives with is in the conformance test (`tests/wire.rs`), as recordings.

mod quick;
mod reply;
mod request;

pub use reply::ChatReply;
pub use request::{Dialect, encode};

#[cfg(test)]
mod tests;
