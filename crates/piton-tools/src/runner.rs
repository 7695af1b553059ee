//! The runner: a small process that carries out one opaque call at most once, and outlives a killed Piton.
//!
//! ```text
//! writer                         runner                                 files beside the journal
//! commit call_started
//! spawn `piton runner BASE` ───► setsid, claim (O_EXCL, flock, fsync) ─► BASE.claim   the one gate: who has it, runs
//!                                run the command, stream its output ───► BASE.out
//!                                end everything that is left of it
//!                                write, fsync, rename ─────────────────► BASE.exit    how it ended
//! wait for the runner ◄───────── exit
//! ```
//!
//! After a crash [`settle`] reads the truth off these files: an exit record is the real result; a locked claim means it
//! still runs, and is waited for; a free claim without an exit record means it was cut off, and nobody will ever know
//! more; no claim means it never ran, and by taking the claim itself the writer makes sure that it never will.
//!
//! The lock, not a process id, says whether a runner is alive. Ids are used to send signals only, and only after the
//! process's start time was compared.

mod kill;
mod launch;
mod serve;
mod settle;
mod spool;

pub use self::launch::{RunnerCommand, launch};
pub use self::serve::runner_main;
pub use self::settle::{Settled, settle};

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a runner is told to do, as JSON on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The folder to run in.
    pub cwd: PathBuf,
    /// The time it gets, in milliseconds.
    pub timeout_ms: u64,
    /// Output kept on disk, in bytes; beyond it only the end is kept.
    pub spool_bytes: u64,
}

/// How a command ended: the exit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// In which way.
    pub status: ExitStatus,
    /// The exit code, where it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal, where one killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// From start to end, in milliseconds.
    pub duration_ms: u64,
    /// What it wrote, in bytes, kept or not.
    pub output_bytes: u64,
    /// Processes that were still there when the command itself had ended, and were ended.
    pub left_behind: u32,
    /// What went wrong in running it, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// In which way a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// By itself.
    Exited,
    /// By a signal that was not ours.
    Signaled,
    /// Its time was up.
    TimedOut,
    /// The runner was told to stop it.
    Cancelled,
    /// It could not be started.
    SpawnFailed,
    /// It never began: whoever settled it took the claim first.
    NotStarted,
}

/// Who holds a claim: enough to signal the right process, and to find what is left of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The runner, which leads its own session: whatever it started has this session id, or is its descendant.
    pub(crate) pid: i32,
    /// Its start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub(crate) start_ticks: u64,
    /// The machine's boot.
    pub(crate) boot_id: String,
    /// When it was taken, in milliseconds since the Unix epoch.
    pub(crate) at_ms: u64,
}

/// One of the files of a call.
pub(crate) fn file(base: &Path, extension: &str) -> PathBuf {
    let mut name = OsString::from(base);
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

/// The machine's boot, empty where it cannot be known.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Takes the claim, or says that somebody has it. The file stays locked as long as the returned handle lives.
pub(crate) fn take_claim(base: &Path) -> std::io::Result<Option<std::fs::File>> {
    use rustix::fs::{FlockOperation, flock};
    use std::io::Write;
    let path = file(base, "claim");
    let mut claim = match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(claim) => claim,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
        Err(error) => return Err(error),
    };
    flock(&claim, FlockOperation::NonBlockingLockExclusive)?;
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let start_ticks = kill::stat(pid).map_or(0, |stat| stat.start_ticks);
    let words = Claim { pid, start_ticks, boot_id: boot_id(), at_ms };
    claim.write_all(&serde_json::to_vec(&words)?)?;
    claim.sync_all()?;
    sync_folder(&path)?;
    Ok(Some(claim))
}

/// Makes the names in a file's folder durable.
pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}
