//! Typing into a command that has a terminal: a pipe with a name beside the call's other files, from which its runner reads what is typed
//! there and gives it to the terminal.
//!
//! ```text
//!   whoever has the session ──▶ <id>.in ──▶ runner ──▶ the terminal ──▶ the command
//! ```
//!
//! Where nobody types for some time, the terminal is at the end of input, so that a command that asks a question which nobody sees does
//! not wait for ever.

use super::files::CallFiles;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use rustix::io::Errno;
use rustix::termios::{LocalModes, tcgetattr};
use std::io;
use std::time::{Duration, Instant};

/// What a terminal takes for the end of what is typed.
const END_OF_INPUT: &[u8] = &[4];
/// Of what was typed, so much is told.
const MOST_BYTES: usize = 16 << 10;

/// The runner's side.
pub(super) struct Typing {
    files: CallFiles,
    /// `None` where it could not be made: nobody can type then.
    pipe: Option<OwnedFd>,
    patience: Duration,
    /// When the terminal is at the end of input; `None`: somebody types, or it is already.
    ends_at: Option<Instant>,
    shown: Vec<u8>,
}

impl Typing {
    /// For a terminal that waits so long for somebody to type.
    pub(super) fn begin(files: &CallFiles, typing_ms: Option<u64>, terminal: &OwnedFd) -> Self {
        let path = files.typed();
        let pipe = || {
            mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR)?;
            // Open for both, it has no end of file when a writer leaves.
            open(&path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        };
        let pipe = typing_ms.and_then(|_| pipe().ok());
        let patience = Duration::from_millis(typing_ms.unwrap_or(0));
        let ends_at = pipe.as_ref().and_then(|_| Instant::now().checked_add(patience));
        if pipe.is_none() {
            let _ = rustix::io::write(terminal, END_OF_INPUT);
        }
        Self { files: files.clone(), pipe, patience, ends_at, shown: Vec::new() }
    }

    /// Becomes readable when somebody has typed.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// When it wants to be looked at, whatever happens.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.ends_at
    }

    /// Gives the terminal what was typed, or the end of input where nobody did for so long.
    pub(super) fn pass_on(&mut self, terminal: &OwnedFd) {
        let Some(pipe) = &self.pipe else { return };
        let mut keys = [0; 1024];
        while let Ok(count @ 1..) = rustix::io::read(pipe, &mut keys) {
            self.ends_at = None;
            let keys = &keys[..count];
            // What the terminal does not show is a password, or what the program shows by itself.
            let is_shown = tcgetattr(terminal).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ECHO));
            let room = MOST_BYTES.saturating_sub(self.shown.len());
            if is_shown {
                self.shown.extend(keys.iter().take(room));
            }
            // A terminal that takes no more has more than a line that nobody reads.
            let _ = rustix::io::write(terminal, keys);
        }
        if self.ends_at.is_some_and(|at| Instant::now() >= at) {
            self.ends_at = None;
            let _ = rustix::io::write(terminal, END_OF_INPUT);
        }
    }

    /// The command has written something: it is at work, and does not wait for somebody.
    pub(super) fn heard_output(&mut self) {
        self.ends_at = self.ends_at.and_then(|_| Instant::now().checked_add(self.patience));
    }

    /// What was typed while the terminal showed it.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown).replace('\r', "\n")
    }
}

impl Drop for Typing {
    fn drop(&mut self) {
        if self.pipe.is_some() {
            let _ = std::fs::remove_file(self.files.typed());
        }
    }
}

/// Types into the terminal of a call's command, if it runs and has one.
pub(super) fn type_into(files: &CallFiles, keys: &[u8]) -> io::Result<bool> {
    match open(files.typed(), OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(pipe) => {
            let written = rustix::io::write(&pipe, keys)?;
            match written == keys.len() {
                true => Ok(true),
                false => Err(io::Error::new(io::ErrorKind::WouldBlock, "the command reads too slowly")),
            }
        }
        // It is over, or its runner died.
        Err(Errno::NOENT | Errno::NXIO) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
