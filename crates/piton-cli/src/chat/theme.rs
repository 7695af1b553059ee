//! The person's `theme.toml`, watched: what is saved is on the screen. Nothing runs while nothing is saved.

use super::{Chat, looks};
use crate::surroundings::Surroundings;
use piton_tui::face::Input;
use std::path::Path;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Tells when a file beside the configuration was written.
pub(super) struct Watch {
    written: UnboundedReceiver<()>,
}

impl Watch {
    /// Watches the folder of the configuration; where that cannot be, nothing is ever told.
    pub(super) fn start(around: &Surroundings) -> Self {
        let (tells, written) = mpsc::unbounded_channel();
        if let Some(folder) = around.machine.config_file.parent() {
            watch(folder, tells);
        }
        Self { written }
    }

    /// Comes when something was written.
    pub(super) async fn changed(&mut self) {
        match self.written.recv().await {
            Some(()) => while self.written.try_recv().is_ok() {},
            None => std::future::pending().await,
        }
    }
}

/// Tells, from a thread of its own, when a file in this folder was written. The thread sleeps until then, and ends with the process.
#[cfg(target_os = "linux")]
fn watch(folder: &Path, tells: UnboundedSender<()>) {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    /// Bytes of the names of files that are read at once.
    const NAMES: usize = 4_096;
    let Ok(fd) = inotify::init(CreateFlags::CLOEXEC) else { return };
    if inotify::add_watch(&fd, folder, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO).is_err() {
        return;
    }
    let waits = move || {
        let mut names = [0; NAMES];
        while rustix::io::read(&fd, &mut names).is_ok_and(|read| read > 0) && tells.send(()).is_ok() {}
    };
    // Without it a theme is read at the next start.
    drop(std::thread::Builder::new().name("theme".to_owned()).spawn(waits));
}

/// Folders are watched on Linux only.
#[cfg(not(target_os = "linux"))]
fn watch(_: &Path, _: UnboundedSender<()>) {}

impl Chat<'_> {
    /// Reads the theme again.
    pub(super) fn read_theme(&mut self) {
        match looks::own_theme(self.around) {
            Ok(Some(theme)) if self.shown_theme.as_ref() != Some(&theme) => {
                self.terminal.tell(Input::Theme(Box::new(theme.clone())));
                self.shown_theme = Some(theme);
            }
            Ok(_) => {}
            Err(mistake) => self.warn(mistake),
        }
    }
}
