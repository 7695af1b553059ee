//! The runner: a small process beside each shell command, which makes sure that the command runs at most once and that what
//! came of it is known, whoever dies.
//!
//! ```text
//!   Piton (writer)                 runner                             the command
//!   spawn, once ─────────────────▶ setsid, become subreaper
//!                                  <pid>.ready: write, flock
//!   record "call started"
//!   RunSpec on its stdin ────────▶ read it
//!                                  rename to <id>.claim, not replacing  ◀── the only gate: whoever has it decides
//!                                  spawn in its own group ───────────▶ runs
//!   tail <id>.out ◀─────────────── append to <id>.out ◀─────────────── writes
//!                                  the shell exits, or time is up, or SIGTERM
//!                                  kill whatever is left of it
//!   ExitRecord ◀────────────────── say how it ended
//!   record "call settled"          <id>.exit: write, rename; synced only if nobody listened
//!                                  <pid>.ready again, for the next call
//! ```
//!
//! The runner outlives a killed writer, so a twenty-minute build survives the agent and its real result is collected
//! by [`Executor::settle`](crate::executor::Executor::settle): an exit record is the result; a claim that is locked is a runner at work; a claim that is free
//! without an exit record is a runner that died, so the remains are killed and the call is *interrupted*; and where
//! there is no claim, the settler takes it, so that a runner still on its way can never start: *not started*. A settler
//! writes its finding as an exit record too, so every later look finds the same.
//!
//! Nothing of this is synced while somebody listens. A killed process loses nothing by that; a power cut may take the
//! claim of a command that ran. So who settles a call says in which [`Boot`](crate::executor::Boot) its start was recorded:
//! after a restart of the machine a missing claim proves nothing, and the call is *interrupted*.
//!
//! The lock, not a process id, says whether a runner lives: ids are used again. A claim says which file it is, so that in a
//! copy of the folder, where nobody holds the lock, nothing of the original is killed. What must not be known here: sessions,
//! models, permissions. The runner side is plain synchronous code without a runtime, because it starts with every
//! command and a person waits for it.

mod act;
mod attended;
mod files;
mod background;
mod launch;
mod main;
mod confined;
mod processes;
mod output;
mod settle;
mod spool;
mod typing;
mod unprotected;
mod work;

pub use crate::spawn::RunnerCommand;
pub use act::Act;
pub use background::{end, is_kept, keep};
pub use confined::NO_SANDBOX;
pub use files::{Claim, ClaimedBy, FileId};
pub use launch::Runners;
pub use main::runner_main;
pub use processes::{is_in_a_call, is_of_a_call, kill_marked};
pub use settle::{Settled, running, settle_once};

use piton_core::ids::CallId;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a runner is to do. Sent to it as JSON on its stdin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The call: the name of its files.
    pub call: CallId,
    /// The program and its arguments. Where `bash` is not installed, `sh` takes its place.
    pub argv: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// How long it may run, in milliseconds.
    pub timeout_ms: u64,
    /// Bytes of its output kept from the beginning.
    pub spool_bytes: u64,
    /// It gets a terminal of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// How long the terminal waits for somebody to type before it is at the end of input, in milliseconds; without it, it is at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typing_ms: Option<u64>,
    /// It is left running: that it runs is told, and nobody waits for its end. This is how long it goes on, in milliseconds, where no
    /// process looks after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattended_ms: Option<u64>,
}
