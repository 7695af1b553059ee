//! Google's Gemini, `streamGenerateContent`. `request` turns the core's request into a body, `reply` a body into the
//! core's events.
//!
//! Thought signatures travel in the attachments of calls and reasoning as `{"thoughtSignature": …}`, whole parts that
//! only the provider understands (its own tools) as `{"part": …}`. Both go back as they came.

mod reply;
mod request;

pub use reply::GeminiReply;
pub use request::encode;

#[cfg(test)]
mod tests;
