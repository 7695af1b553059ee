//! The truth about a call that another process had begun.

use super::launch::{TAIL_EVERY, Tail};
use super::serve::record;
use super::{Claim, Exit, ExitStatus, boot_id, file, kill, take_claim};
use crate::tool::OutputSink;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use tokio_util::sync::CancellationToken;

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It ended, and this is how.
    Ended(Exit),
    /// It began and was cut off; how far it came is not known. With the time from its start until it was found so, in
    /// milliseconds.
    Interrupted {
        /// An upper bound of how long it ran.
        at_most_ms: u64,
    },
    /// It never began, and now never will.
    NotStarted,
}

/// Who has the claim of a call.
enum Holder {
    /// Nobody ever took it.
    Nobody,
    /// A runner that is alive.
    Runner,
    /// A runner that is gone. The lock is ours, so that one that was only slow cannot start any more.
    Gone(File),
}

/// Finds out how a call ended. Waits for a runner that is still at work, passing on its output; a cancel stops it.
pub async fn settle(base: &Path, output: &OutputSink, cancel: &CancellationToken) -> std::io::Result<Settled> {
    let mut tail = Tail::new(file(base, "out"), output.clone());
    let mut told = false;
    loop {
        if let Some(exit) = read_exit(base)? {
            return Ok(if exit.status == ExitStatus::NotStarted { Settled::NotStarted } else { Settled::Ended(exit) });
        }
        match holder(base)? {
            Holder::Nobody => {
                if let Some(_claim) = take_claim(base)? {
                    record(base, &Exit::not_started())?;
                    return Ok(Settled::NotStarted);
                }
            }
            Holder::Gone(lock) => {
                // It may have written its record between the two looks.
                if read_exit(base)?.is_some() {
                    continue;
                }
                let claim = read_claim(base);
                end_remains(claim.as_ref());
                drop(lock);
                return Ok(Settled::Interrupted { at_most_ms: claim.map_or(0, |claim| age_ms(&claim)) });
            }
            Holder::Runner => {
                if cancel.is_cancelled() && !told {
                    told = true;
                    tell_to_stop(base);
                }
                tail.pass_on();
                tokio::time::sleep(TAIL_EVERY).await;
            }
        }
    }
}

impl Exit {
    fn not_started() -> Self {
        Self {
            status: ExitStatus::NotStarted,
            code: None,
            signal: None,
            duration_ms: 0,
            output_bytes: 0,
            left_behind: 0,
            error: None,
        }
    }
}

/// The exit record, if there is one. It is written whole or not at all, so an unreadable one is an error.
pub(super) fn read_exit(base: &Path) -> std::io::Result<Option<Exit>> {
    match std::fs::read(file(base, "exit")) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn holder(base: &Path) -> std::io::Result<Holder> {
    let claim = match File::open(file(base, "claim")) {
        Ok(claim) => claim,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Holder::Nobody),
        Err(error) => return Err(error),
    };
    match flock(&claim, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Holder::Gone(claim)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Holder::Runner),
        Err(error) => Err(error.into()),
    }
}

fn read_claim(base: &Path) -> Option<Claim> {
    serde_json::from_slice(&std::fs::read(file(base, "claim")).ok()?).ok()
}

/// Ends what a dead runner left: everything of the session it led. After a reboot there is nothing, and ids are others'.
fn end_remains(claim: Option<&Claim>) {
    let Some(claim) = claim.filter(|claim| claim.boot_id == boot_id()) else { return };
    for pid in kill::members_of_session(claim.pid) {
        // A process with a recycled id is younger than nothing of ours, but older processes surely are not ours.
        if kill::stat(pid).is_some_and(|stat| stat.start_ticks >= claim.start_ticks) {
            kill::send(pid, Signal::KILL);
        }
    }
}

fn tell_to_stop(base: &Path) {
    let Some(claim) = read_claim(base).filter(|claim| claim.boot_id == boot_id()) else { return };
    if kill::stat(claim.pid).is_some_and(|stat| stat.start_ticks == claim.start_ticks) {
        kill::send(claim.pid, Signal::TERM);
    }
}

fn age_ms(claim: &Claim) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(claim.at_ms)
}
