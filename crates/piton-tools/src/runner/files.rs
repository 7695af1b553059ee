//! The files of one call, `<base>.claim`, `<base>.out` and `<base>.exit`, and who may write them when.

use crate::executor::{ExitRecord, LeftRunning};
use crate::private;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// What a claim says about whoever took it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimedBy {
    /// A runner: from here on the command may run.
    Runner(Claim),
    /// A settler: the command never runs.
    Settler,
}

/// Which process took a claim. Ids are only meaningful within one boot and one process id namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Its process id, which is also the id of the session the command runs in.
    pub pid: i32,
    /// When it started, in clock ticks since boot: with the id, unmistakable.
    pub start_ticks: u64,
    /// The boot it belongs to.
    pub boot_id: String,
    /// The namespace its id belongs to.
    pub pid_namespace: String,
    /// The file it was written to. Set where that is done; claims of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileId>,
}

/// Which file of the machine something is, whatever its name. A copy is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// The paths of one call.
#[derive(Debug, Clone)]
pub(super) struct CallFiles {
    base: PathBuf,
}

/// A claim that is ours: locked for as long as this lives.
#[derive(Debug)]
pub(super) struct HeldClaim(#[expect(dead_code, reason = "holds the lock")] File);

/// A claim that only lacks its name: written and locked before it is known for which call.
#[derive(Debug)]
pub(super) struct ReadyClaim {
    file: File,
    path: PathBuf,
    by: ClaimedBy,
}

impl ReadyClaim {
    /// Makes one for this runner, in the folder of the calls.
    pub(super) fn make(calls_dir: &Path, claim: Claim) -> io::Result<Self> {
        let path = calls_dir.join(format!("{}-{}.ready", claim.pid, claim.start_ticks));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        let by = ClaimedBy::Runner(claim);
        let locked = lock(&file)?;
        write_claim(&mut file, &by)?;
        if locked { Ok(Self { file, path, by }) } else { Err(io::ErrorKind::ResourceBusy.into()) }
    }

    /// Takes a call's claim with it; `None` if that was taken before, by whomever. Not synced: whoever looks in the same boot
    /// sees it, and whoever looks after a restart of the machine takes no missing claim for proof that nothing ran.
    pub(super) fn take(self, files: &CallFiles) -> io::Result<Option<HeldClaim>> {
        match renameat_with(CWD, &self.path, CWD, files.claim(), RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Some(HeldClaim(self.file))),
            Err(Errno::EXIST) => {
                self.discard();
                Ok(None)
            }
            // Not every file system can rename without replacing.
            Err(_) => {
                let by = self.by.clone();
                self.discard();
                files.take_claim(&by)
            }
        }
    }

    /// Leaves nothing behind.
    pub(super) fn discard(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether something is to survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durably {
    /// It is.
    Yes,
    /// It need not: somebody else makes the same durable.
    No,
}

/// What a look at an existing claim finds.
pub(super) enum ClaimState {
    /// Its owner lives.
    Held(Option<ClaimedBy>),
    /// Its owner is gone; the lock is now ours.
    Free(HeldClaim, Option<ClaimedBy>),
}

/// What a look at an exit record finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The call is not over, or a power cut took all that was written.
    Missing,
    /// The call is over; the machine went down before all of the record was on the disk.
    Torn,
    /// The call is over, and so it ended.
    Recorded(ExitRecord),
}

impl CallFiles {
    pub(super) fn new(base: &Path) -> Self {
        Self { base: base.to_path_buf() }
    }

    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    pub(super) fn out(&self) -> PathBuf {
        self.with("out")
    }

    /// How many bytes of output there were before secrets were taken out; `None`: none were.
    pub(super) fn raw_bytes(&self) -> Option<u64> {
        std::fs::read_to_string(self.with("raw")).ok()?.trim().parse().ok()
    }

    /// Notes that.
    pub(super) fn note_raw_bytes(&self, bytes: u64) -> io::Result<()> {
        private::write(&self.with("raw"), bytes.to_string().as_bytes())
    }

    /// Where the output is written without secrets before it takes the other's place.
    pub(super) fn cleaned(&self) -> PathBuf {
        self.with("out.cleaned")
    }

    pub(super) fn claim(&self) -> PathBuf {
        self.with("claim")
    }

    /// Names the process that looks after a command in the background.
    fn owner(&self) -> PathBuf {
        self.with("owner")
    }

    /// Whether a person wants a command in the background to go on without its session.
    pub(super) fn is_kept(&self) -> bool {
        self.kept().exists()
    }

    /// Is there where a person wants that.
    pub(super) fn typed(&self) -> PathBuf {
        self.with("in")
    }

    pub(super) fn kept(&self) -> PathBuf {
        self.with("kept")
    }

    /// Whoever waits for the command leaves it running: says so to its runner, which reads that when its time is up.
    pub(super) fn leave(&self, left: &LeftRunning) -> io::Result<()> {
        private::write(&self.with("left"), &serde_json::to_vec(left)?)
    }

    /// It is waited for after all.
    pub(super) fn stay(&self) {
        // At worst it may run for longer.
        let _ = std::fs::remove_file(self.with("left"));
    }

    /// What is so of it, where it was left running half-way.
    pub(super) fn left(&self) -> Option<LeftRunning> {
        serde_json::from_slice(&std::fs::read(self.with("left")).ok()?).ok()
    }

    /// From here on this process looks after the command.
    pub(super) fn own(&self, owner: &Claim) -> io::Result<()> {
        let unfinished = self.with(&format!("{}.owner", owner.pid));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(owner)?)?;
        std::fs::rename(unfinished, self.owner())
    }

    /// The process that looks after it, where one does beside that which started it.
    pub(super) fn owned_by(&self) -> Option<Claim> {
        serde_json::from_slice(&std::fs::read(self.owner()).ok()?).ok()
    }

    fn with(&self, extension: &str) -> PathBuf {
        let mut path = OsString::from(&self.base);
        path.push(".");
        path.push(extension);
        path.into()
    }

    /// Takes the claim, as [`ReadyClaim::take`] does; `None` if it was taken before, by whomever.
    pub(super) fn take_claim(&self, by: &ClaimedBy) -> io::Result<Option<HeldClaim>> {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.claim());
        let mut file = match created {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        // Between creating and locking, a settler may have found the claim free and written its verdict. It counts. And
        // beside a torn exit record, or output, a missing claim does not say that nothing ran: it was lost.
        if !lock(&file)? || self.read_exit()? != Exit::Missing || self.out().exists() {
            return Ok(None);
        }
        write_claim(&mut file, by)?;
        Ok(Some(HeldClaim(file)))
    }

    /// Looks at a claim that exists.
    pub(super) fn claim_state(&self) -> io::Result<ClaimState> {
        let file = File::open(self.claim())?;
        let locked = lock(&file)?;
        // A claim cut short by the death of its owner says nothing, and its command was not started yet.
        let by = serde_json::from_slice(&std::fs::read(self.claim())?).ok();
        Ok(if locked { ClaimState::Free(HeldClaim(file), by) } else { ClaimState::Held(by) })
    }

    /// Whether the claim still is the file that it was written to, and no copy of it. Where that is not known, it is none.
    pub(super) fn has_original(&self, claim: &Claim) -> bool {
        let found = std::fs::metadata(self.claim()).ok().map(|found| FileId::of(&found));
        claim.file.is_some() && claim.file == found
    }

    /// What the exit record says. One that a power cut has emptied is none. Where only the spaces behind it are lost, it
    /// is whole.
    pub(super) fn read_exit(&self) -> io::Result<Exit> {
        let bytes = match std::fs::read(self.with("exit")) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Exit::Missing),
            Err(error) => return Err(error),
        };
        let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' '));
        let Some(end) = end else { return Ok(Exit::Missing) };
        Ok(serde_json::from_slice(&bytes[..=end]).map_or(Exit::Torn, Exit::Recorded))
    }

    /// Sets space aside for the exit record while the command runs: a disk that it fills cannot keep us from saying how
    /// it ended.
    pub(super) fn reserve_exit(&self, _held: &HeldClaim) -> io::Result<()> {
        /// More than a record needs, less than a block.
        const BYTES: usize = 1_024;
        let mut file = open_exit(&self.with("exit.tmp"))?;
        file.write_all(&[b' '; BYTES])
    }

    /// Writes the exit record, whole or not at all. Only for who holds the claim. From here on everybody sees it.
    pub(super) fn write_exit(&self, record: &ExitRecord, _held: &HeldClaim, durably: Durably) -> io::Result<()> {
        let unfinished = self.with("exit.tmp");
        let mut file = open_exit(&unfinished)?;
        let mut json = serde_json::to_vec(record)?;
        // JSON may end in spaces, so the file keeps the size it was reserved in.
        let reserved = usize::try_from(file.metadata()?.len()).unwrap_or_default();
        json.resize(json.len().max(reserved), b' ');
        file.write_all(&json)?;
        if durably == Durably::Yes {
            file.sync_data()?;
        }
        std::fs::rename(unfinished, self.with("exit"))?;
        if durably == Durably::Yes {
            File::open(self.base.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        }
        Ok(())
    }
}

/// Says in a claim's file who took it, and which file that is.
fn write_claim(file: &mut File, by: &ClaimedBy) -> io::Result<()> {
    let id = FileId::of(&file.metadata()?);
    let by = match by {
        ClaimedBy::Runner(claim) => ClaimedBy::Runner(Claim { file: Some(id), ..claim.clone() }),
        ClaimedBy::Settler => ClaimedBy::Settler,
    };
    file.write_all(&serde_json::to_vec(&by)?)
}

fn open_exit(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Whether we got the lock; never waits.
fn lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
