//! Anthropic's Messages. `request` turns the core's request into a body, `reply` a body into the core's events.

mod reply;
mod request;

pub use reply::AnthropicReply;
pub(crate) use request::without_late_thoughts;
pub use request::{DEFAULT_MAX_TOKENS, encode};

#[cfg(test)]
mod tests;
