//! One writer, many readers: how other processes follow a session that runs, speak in it and stop it.
//!
//! ```text
//!   the writer                                   any other process
//!   Driver ── Server ── <session>/control.sock ── Connection ── Follower
//!     ▲          │         JSON, line by line                      │
//!     │          └── bus: records, live fragments ───────────────► what is shown
//!     └───────────── prompt, cancel, answer ◄──────────────────────┘
//! ```
//!
//! The lock says who the writer is; the socket is only how to reach it. It is made beside the first request, so that a
//! run that is over sooner pays nothing, and one that a killed writer left behind is replaced. What is durable is in the
//! journal and not in the socket: a follower that is cut off goes on at the next position, at the next writer or in the
//! journal itself, and a prompt counts once it is in the journal, whoever answers it then.
//!
//! `docs/control.md` is the protocol for those who write a client of their own.

mod address;
mod server;
mod client;
mod remote;
mod awaited;
#[cfg(test)]
mod tests;

pub use crate::error::ControlError;
pub use awaited::Awaited;
pub use client::{Connection, Follower, Incoming, Listening};
pub(crate) use remote::RemoteSession;
pub use server::REQUEST_BYTES;
pub(crate) use server::{Served, Server};
