//! Ollama's own `/api/chat`. `request` turns the core's request into a body, `reply` a body into the core's events.

mod reply;
mod request;

pub use reply::OllamaReply;
pub use request::encode;

#[cfg(test)]
mod tests;
