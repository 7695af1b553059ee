//! Settles a call whose runner another process started, or whose runner has ended: from the exit record and the claim;
//! where these are missing, the settler decides and writes its decision down.

use super::files::{CallFiles, Claim, ClaimState, ClaimedBy, Durably, Exit, HeldClaim};
use super::output::Tail;
use super::processes::{is_of_another_boot, kill_remains, signal_runner};
use crate::executor::{Boot, CommandEnd, ExitRecord};
use crate::limits::{ATTACHED_EVERY, RUNNER_GRACE, STOPPING_EVERY};
use rustix::process::Signal;
use std::io;
use std::path::Path;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// What interrupted a call where nothing is left of what it was started in.
const RESTART: &str = "a restart of the machine";

/// What one look at a call finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is over: for good, as recorded. [`CommandEnd::Interrupted`] and [`CommandEnd::NotStarted`] included.
    Over(ExitRecord),
    /// Its runner is at work. `None` for a runner that is only just beginning.
    Running(Option<Claim>),
}

/// Looks once. Where nobody holds the claim and there is no exit record, this settles the call: it kills what is left
/// of the command, or takes the claim so that it can never run, and records that. Whether a call of which there is no
/// trace ran is only known in the boot in which it was started.
pub fn settle_once(base: &Path, boot: Boot) -> io::Result<Settled> {
    let files = CallFiles::new(base);
    if let Exit::Recorded(record) = files.read_exit()? {
        return Ok(Settled::Over(record));
    }
    if let Some(held) = files.take_claim(&ClaimedBy::Settler)? {
        return record(&files, &held, without_trace(&files, boot));
    }
    match files.claim_state()? {
        ClaimState::Held(Some(ClaimedBy::Runner(claim))) => Ok(Settled::Running(Some(claim))),
        ClaimState::Held(Some(ClaimedBy::Settler) | None) => Ok(Settled::Running(None)),
        ClaimState::Free(held, by) => {
            // It may have ended between our two looks.
            let exit = files.read_exit()?;
            let verdict = match (exit, by) {
                (Exit::Recorded(record), _) => return Ok(Settled::Over(record)),
                (_, Some(ClaimedBy::Settler)) => without_trace(&files, boot),
                (exit, Some(ClaimedBy::Runner(claim))) => interrupted(&files, &exit, Some(&claim), boot),
                (exit, None) => interrupted(&files, &exit, None, boot),
            };
            record(&files, &held, verdict)
        }
    }
}

/// The runner that is at work on a call, where one is. Changes nothing.
pub fn running(base: &Path) -> Option<Claim> {
    let files = CallFiles::new(base);
    match (files.read_exit().ok()?, files.claim_state().ok()?) {
        (Exit::Missing, ClaimState::Held(Some(ClaimedBy::Runner(claim)))) => Some(claim),
        (_, ClaimState::Held(_) | ClaimState::Free(..)) => None,
    }
}

fn record(files: &CallFiles, held: &HeldClaim, record: ExitRecord) -> io::Result<Settled> {
    files.write_exit(&record, held, Durably::Yes)?;
    Ok(Settled::Over(record))
}

/// What is said of a call that no runner has left a mark of.
fn without_trace(files: &CallFiles, boot: Boot) -> ExitRecord {
    match boot {
        Boot::Current => ExitRecord::of(CommandEnd::NotStarted),
        Boot::Earlier => interrupted(files, &Exit::Missing, None, boot),
    }
}

fn interrupted(files: &CallFiles, exit: &Exit, claim: Option<&Claim>, boot: Boot) -> ExitRecord {
    // The processes that a copied claim tells of are another session's, which may be at work.
    let is_original = claim.is_some_and(|claim| files.has_original(claim));
    if let Some(claim) = claim.filter(|_| is_original) {
        kill_remains(claim, files.base());
    }
    let cause = match (exit, claim) {
        (Exit::Torn, _) => "the loss of its exit record, of which a part is on the disk: how it ended is not known",
        (_, Some(claim)) if is_of_another_boot(claim) => RESTART,
        (_, Some(_)) if !is_original => {
            "the copying of its session: the original was not touched, and may go on with it"
        }
        (_, None) if boot == Boot::Earlier => RESTART,
        (_, Some(_) | None) => "the death of its runner",
    };
    let began = std::fs::metadata(files.claim()).and_then(|claim| claim.modified());
    let output = std::fs::metadata(files.out());
    let last_sign = output.as_ref().ok().and_then(|out| out.modified().ok());
    let lived = began.ok().zip(last_sign).and_then(|(began, last)| last.duration_since(began).ok()).unwrap_or_default();
    ExitRecord {
        duration_ms: u64::try_from(lived.as_millis()).unwrap_or(u64::MAX),
        output_bytes: output.as_ref().map_or(0, std::fs::Metadata::len),
        kept_bytes: output.map_or(0, |out| out.len()),
        error: Some(cause.to_owned()),
        ..ExitRecord::of(CommandEnd::Interrupted)
    }
}

/// Finds what came of a call, going on from output that was already passed on. Waits for a runner that is at work, and
/// stops it when it is to stop.
pub(super) async fn settle_from(
    files: &CallFiles,
    boot: Boot,
    mut tail: Tail,
    stop: &CancellationToken,
) -> io::Result<ExitRecord> {
    // The usual end of a call of our own, at once: there is nothing to sync, kill or wait for.
    if let Ok(Exit::Recorded(record)) = files.read_exit() {
        tail.follow();
        return Ok(record);
    }
    let mut stopping = Stopping::No;
    loop {
        // On a thread that may block: it may sync and kill.
        let base = files.base().to_owned();
        let look = tokio::task::spawn_blocking(move || settle_once(&base, boot)).await.map_err(io::Error::other)?;
        tail.follow();
        match look? {
            Settled::Over(record) => return Ok(record),
            Settled::Running(claim) => stopping = stopping.next(stop.is_cancelled(), claim.as_ref()),
        }
        let is_cancelled = stop.is_cancelled();
        tokio::select! {
            () = tokio::time::sleep(if is_cancelled { STOPPING_EVERY } else { ATTACHED_EVERY }) => {}
            () = stop.cancelled(), if !is_cancelled => {}
        }
    }
}

/// How far we are in stopping somebody else's runner.
enum Stopping {
    No,
    /// Asked to, at this time.
    Asked(Instant),
    Killed,
}

impl Stopping {
    fn next(self, cancelled: bool, claim: Option<&Claim>) -> Self {
        let Some(claim) = claim.filter(|_| cancelled) else { return self };
        match self {
            Self::No => {
                signal_runner(claim, Signal::TERM);
                Self::Asked(Instant::now())
            }
            // The real clock, not tokio's: a process takes its time even where a test's clock stands still.
            Self::Asked(at) if at.elapsed() >= RUNNER_GRACE => {
                signal_runner(claim, Signal::KILL);
                Self::Killed
            }
            Self::Asked(_) | Self::Killed => self,
        }
    }
}
