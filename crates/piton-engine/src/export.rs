//! A session as one file: JSON that can be taken in again, Markdown and an HTML page for people.
//!
//! `redact` takes secrets out of the events before anything else sees them; `markdown` and `html` draw the blocks of a
//! [`piton_core::story::Story`], all but those that were taken back; `json` has the events themselves. Nothing here reads
//! a clock or a time zone: whoever exports says how a time is written.

pub mod redact;
pub mod words;
pub mod json;
pub mod markdown;
pub mod html;
#[cfg(test)]
mod tests;

use piton_core::ids::TimeMs;

/// How a point in time is written for people.
pub type When<'w> = &'w dyn Fn(TimeMs) -> String;
