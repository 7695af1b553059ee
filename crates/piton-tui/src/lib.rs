//! Piton's terminal interface: a client of a session. It holds no truth: whatever it shows is drawn from what a session
//! tells ([`piton_core::story`]), and it may be killed, or started a second time, without anything being lost.
//!
//! ```text
//!   keys, paste, size ──┐
//!   what is told ───────┼──► face (a fold) ──► Frame ──► inline (scrollback and tail) ──► bytes
//!   answers ────────────┘        └──► Effect ──► whoever holds the session
//! ```
//!
//! [`terminal`] is the only part that knows a real terminal; the rest is data.

pub mod ansi;
mod blocks;
pub mod commands;
pub mod diff;
pub mod dropped;
pub mod face;
pub mod files;
pub mod full;
pub mod fuzzy;
pub mod highlight;
pub mod history;
pub mod inline;
pub mod keys;
pub mod linear;
pub mod markdown;
mod page;
pub mod picker;
pub mod prompt;
mod question;
pub mod review;
pub mod rewind;
pub mod signals;
pub mod terminal;
pub mod text;
pub mod theme;
mod symbols;
mod transcript;
pub mod trust;
mod workspace;
