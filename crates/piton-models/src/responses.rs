//! OpenAI's Responses, asked without storage: everything the model needs to remember travels with each request.
//!
//! `request` turns the core's request into a body, `reply` turns a body into the core's events. Encrypted reasoning is
//! carried by the reasoning part's attachment as `{"item": …}` and goes back as it came, without its server-side id.

mod reply;
mod request;

pub use reply::ResponsesReply;
pub use request::encode;

#[cfg(test)]
mod tests;
