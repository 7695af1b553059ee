//! How Piton talks to language models: a [`Model`] takes a request of the core and streams the core's events back.
//!
//! Five wire protocols (OpenAI's Chat Completions and Responses, Anthropic's Messages, Gemini, Ollama) are pure
//! machines, bytes in and events out; `piton-http` moves the bytes. Nothing here decides anything about a turn: what a
//! failure means is said by its kind, and whether to ask again is the loop's business. No environment, no files, no
//! prints. Modules in reading order.

pub mod model;
pub mod chunks;
pub mod documents;
pub mod protocol;
mod gaps;
mod stop;
mod draft;
mod history;
pub mod effort;
pub mod generation;

pub mod anthropic;
pub mod chat;
pub mod gemini;
pub mod ollama;
pub mod responses;
pub mod wire;
pub mod catalogue;
pub mod options;
pub mod errors;

pub mod credentials;
pub mod pass;
mod secrets;
mod server;
pub mod window;
mod remote;

pub mod provider;
pub mod short_names;
pub mod recorded;
pub mod text_tools;

#[cfg(test)]
mod samples;

pub use model::{Model, ModelLimits, ModelStream, Price};
