//! What a command may reach, and what holds it to that.
//!
//! ```text
//!   Piton            runner                        first process of the sandbox       the command
//!   Reach ─────────▶ Sandbox::prepare
//!                    own user, PID and network
//!                    namespace, or the network
//!                    of another sandbox
//!                    start ourselves again ───────▶ own mount, IPC, UTS and cgroup namespace
//!                                                   mounts of the Plan, pivot_root
//!                                                   no capabilities, no new privileges
//!                                                   Landlock, seccomp, limits
//!                              ◀─────────── ready
//!   a call ────────▶ Sandbox::start ──────────────▶ start it ────────────────────────▶ runs
//!                              ◀─────────── ended ◀─────────────────────────────────── exits
//!                    kill the first process: with it, the kernel kills whatever is left
//! ```
//!
//! Where there are no namespaces ([`Backend::Landlock`]) the first process takes the last of these steps alone, and who ends what
//! a command has left behind is the runner.
//!
//! The first process dies with the runner, whatever ends the runner, and nothing of a call outlives the first process. All
//! that does not depend on the command is done a call ahead.
//!
//! [`Reach`] is plain data: which folders a command sees, which it may change, what of them is protected. [`Plan`] is what
//! follows from it on this machine, and [`Plan::is_true`] says whether it still does. What a command is for, who may run it and
//! whose files these are is not known here. Nothing is decided by looking at the command.

mod around;
mod carried;
mod channel;
mod error;
mod first;
mod granted;
mod home;
mod inspect;
mod layers;
mod mount;
mod mounts;
mod named;
mod namespaces;
mod open;
mod owed;
mod plan;
mod reach;
mod sandbox;
mod search;
mod seccomp;
mod split;
mod tables;
mod terminal;

pub use carried::{Carried, carried};
pub use channel::{End, Ended, Order, receive_descriptor, send_descriptor};
pub use error::SandboxError;
pub use first::{FIRST, first_main};
pub use inspect::clear;
pub use mount::{Access, Mount, Source};
pub use namespaces::SharedNetwork;
pub use plan::Plan;
pub use reach::{Backend, Limits, Network, PROXY_PORT, Reach, Write};
pub use sandbox::Sandbox;
pub use tables::{protected, readable, secret};
pub use terminal::Terminal;
