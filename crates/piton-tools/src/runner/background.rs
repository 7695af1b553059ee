//! Commands in the background from the side of whoever looks after them: which of them this process has started, and what
//! others, who have the session's folder and no more, can do about one.

use super::files::CallFiles;
use super::processes::signal_runner;
use super::settle::running;
use crate::executor::ExitRecord;
use crate::private;
use piton_core::ids::CallId;
use rustix::process::Signal;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Becomes what is known of a command's end: `None` inside where its runner could not tell.
pub(super) type Over = watch::Receiver<Option<Option<ExitRecord>>>;

/// The commands in the background that this process looks after.
#[derive(Debug, Default)]
pub(super) struct LookedAfter(Mutex<HashMap<CallId, Over>>);

impl LookedAfter {
    /// Another one, unless as many run already. Answers where its end is to be told.
    pub(super) fn enter(&self, call: &CallId, most: usize) -> Option<watch::Sender<Option<Option<ExitRecord>>>> {
        let mut all = self.lock();
        let running = all.iter().filter(|(other, over)| *other != call && is_running(over)).count();
        if running >= most {
            return None;
        }
        let (tells, over) = watch::channel(None);
        all.insert(call.clone(), over);
        Some(tells)
    }

    /// Whether any runs.
    pub(super) fn is_any(&self) -> bool {
        self.lock().values().any(is_running)
    }

    /// Where the end of one is told.
    pub(super) fn get(&self, call: &CallId) -> Option<Over> {
        self.lock().get(call).cloned()
    }

    pub(super) fn forget(&self, call: &CallId) {
        self.lock().remove(call);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<CallId, Over>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever would tell of its end is there, and has not.
fn is_running(over: &Over) -> bool {
    over.has_changed().is_ok() && over.borrow().is_none()
}

/// Lets a command in the background go on when its session is closed, or no longer. `base` is where its files begin.
pub fn keep(base: &Path, wanted: bool) -> io::Result<()> {
    let mark = CallFiles::new(base).kept();
    match wanted {
        true => private::write(&mark, b""),
        false => match std::fs::remove_file(mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
}

/// Whether it goes on.
pub fn is_kept(base: &Path) -> bool {
    CallFiles::new(base).is_kept()
}

/// Ends a command in the background with all that it started, whoever looks after it. Answers whether it is over within that
/// time; what came of it is found by whoever settles it. Blocks.
pub fn end(base: &Path, within: Duration) -> bool {
    const LOOK_EVERY: Duration = Duration::from_millis(10);
    let mut waited = Duration::ZERO;
    while let Some(claim) = running(base) {
        if waited.is_zero() {
            signal_runner(&claim, Signal::TERM);
        }
        if waited >= within {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
    true
}
