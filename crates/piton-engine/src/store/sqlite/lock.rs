//! Who may write. The lock on the `lock` file is the test, not the process id in it: a lock dies with its process, an
//! id is reused. The id is there for people.

use super::dir::SessionDir;
use super::error::{self, Fault};
use crate::store::{Holder, StoreError};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How often to try again when somebody was only looking, and after which pause. A look lasts microseconds, or as long
/// as a busy machine lets its thread wait.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// Held for as long as this process is the writer. Not inherited by children: std opens with `O_CLOEXEC`.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, or says who has it.
    pub(super) fn take(path: &Path, pid: u32) -> Result<Self, Fault> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(Fault::os(path))?;
        match take_exclusive(&file) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Fault::Busy { pid: holder(&mut file) }),
            Err(errno) if cannot_lock(errno) => return Err(Fault::NoLocks { path: path.to_owned() }),
            Err(errno) => return Err(Fault::os(path)(errno.into())),
        }
        // A full disk must not keep anyone from opening a session: the id is a courtesy.
        let _ = introduce(&mut file, pid);
        Ok(Self { file })
    }
}

impl Drop for Lock {
    /// Closing the file is not enough: a child that is just being started has a copy of it until it executes.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Keeps everybody else from opening a session, while its folder is moved or thrown away.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "holds the lock")] Lock);

/// Takes the session's lock without reading anything of it: a damaged session can be moved as well.
pub fn hold(dir: &SessionDir, pid: u32) -> Result<Held, StoreError> {
    let path = dir.lock();
    if !dir.root().is_dir() {
        return Err(Fault::NotFound.explain(&dir.journal_db(), 0));
    }
    Lock::take(&path, pid).map(Held).map_err(|fault| fault.explain(&path, 0))
}

/// What file systems say that know no locks, as some network mounts do.
fn cannot_lock(errno: Errno) -> bool {
    matches!(errno, Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS)
}

/// Whether some process is the writer of this session now.
pub fn is_held(dir: &SessionDir) -> bool {
    File::open(dir.lock())
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
}

/// The process that says it is the writer, if some process is.
pub(super) fn holder_of(dir: &SessionDir) -> Option<Holder> {
    let mut file = File::open(dir.lock()).ok().filter(|_| is_held(dir))?;
    Some(error::holder(holder(&mut file)))
}

/// [`is_held`] looks by taking a shared lock for a moment. Who is in the way of us but not of a shared lock was only
/// looking, and must not pass for a writer.
fn take_exclusive(file: &File) -> Result<(), Errno> {
    for _ in 0..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => flock(file, FlockOperation::NonBlockingLockShared)?,
            done => return done,
        }
        // Two that want to write must not wait for each other's look.
        flock(file, FlockOperation::Unlock)?;
        std::thread::sleep(PAUSE);
    }
    Err(Errno::WOULDBLOCK)
}

fn introduce(file: &mut File, pid: u32) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{pid}")
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
