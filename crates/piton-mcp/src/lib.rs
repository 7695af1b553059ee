//! Piton's MCP client. It implements [`piton_tools::servers::Servers`] for the servers that a configuration names.
//!
//! It knows transports, both eras of the protocol, authorization and what servers get wrong; it knows no session, no rule and no
//! person. It starts processes only by `piton_tools::spawn`, and reads no environment. Modules in reading order.

pub mod entry;
mod surroundings;
mod client;
mod by_hand;
mod server;
mod call;
mod host;
mod results;
mod catalogue;
mod names;
mod schema;
mod text;
mod keep;
mod error;
mod words;
mod connect;
mod probe;
mod sse;
mod lines;
mod damaged;
mod process;
mod guard;
mod login;
mod tokens;
mod renewing;

pub use by_hand::{Answering, Report, call, test};
pub use client::Client;
pub use entry::Entry;
pub use keep::Era;
pub use login::{LoggedIn, is_logged_in, login, logout};
pub use surroundings::Surroundings;
