//! The theme: chosen from a list in which each is looked at, kept in the configuration, and read again when its file is saved.
//! Nothing runs while nothing is saved.

use super::{Chat, looks};
use crate::chat::looks::Colours;
use crate::surroundings::Surroundings;
use piton_tui::face::Input;
use piton_tui::picker::{Item, Purpose};
use std::path::PathBuf;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// The setting that names it.
const SETTING: &str = "terminal.theme";

/// Tells when a file beside the configuration was written, and knows which colours are shown.
pub(super) struct Watch {
    written: UnboundedReceiver<()>,
    shown: Colours,
    mistakes: Vec<String>,
}

impl Watch {
    /// Watches the folder of the configuration, and that of themes if there is one; where that cannot be, nothing is ever told.
    pub(super) fn start(around: &Surroundings) -> Self {
        let (tells, written) = mpsc::unbounded_channel();
        let folder = looks::folder(around);
        watch(&[folder.join("themes"), folder], tells);
        let (shown, mistakes) = looks::current(around);
        Self { written, shown, mistakes }
    }

    /// Comes when something was written.
    pub(super) async fn changed(&mut self) {
        match self.written.recv().await {
            Some(()) => while self.written.try_recv().is_ok() {},
            None => std::future::pending().await,
        }
    }
}

/// Tells, from a thread of its own, when a file in these folders was written. The thread sleeps until then, and ends with the process.
#[cfg(target_os = "linux")]
fn watch(folders: &[PathBuf], tells: UnboundedSender<()>) {
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    /// Bytes of the names of files that are read at once.
    const NAMES: usize = 4_096;
    let Ok(fd) = inotify::init(CreateFlags::CLOEXEC) else { return };
    let watches =
        |folder: &PathBuf| inotify::add_watch(&fd, folder, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO).is_ok();
    if folders.iter().filter(|folder| watches(folder)).count() == 0 {
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
fn watch(_: &[PathBuf], _: UnboundedSender<()>) {}

impl Chat<'_> {
    /// Reads the theme again.
    pub(super) fn read_theme(&mut self) {
        let (colours, mistakes) = looks::current(self.around);
        if mistakes != self.theme.mistakes {
            mistakes.iter().for_each(|mistake| self.warn(mistake.clone()));
            self.theme.mistakes = mistakes;
        }
        self.show_theme(colours);
    }

    fn show_theme(&mut self, colours: Colours) {
        if self.theme.shown != colours {
            self.terminal.tell(match colours.clone() {
                Colours::Auto(level) => Input::AutoTheme(level),
                Colours::Fixed(theme) => Input::Theme(theme),
            });
            self.theme.shown = colours;
        }
    }

    /// The theme of this name is on the screen until another is chosen; without a name: the one that was chosen.
    pub(super) fn try_theme(&mut self, name: Option<&str>) {
        let colours = match name {
            Some(name) => looks::colours(self.around, Some(name), &mut Vec::new()),
            None => looks::current(self.around).0,
        };
        self.show_theme(colours);
    }

    /// Offers the themes.
    pub(super) fn pick_theme(&mut self) {
        let detail = |name: &str| match name {
            looks::AUTO => "light or dark, as the terminal's background",
            looks::OWN => "theme.toml",
            "ansi" => "the terminal's sixteen colors",
            "none" => "no colors",
            name if piton_tui::theme::NAMES.contains(&name) => "",
            _ => "yours",
        };
        let item = |name: String| Item { detail: detail(&name).to_owned(), label: name.clone(), value: name };
        let items = looks::themes(self.around).into_iter().map(item).collect();
        self.terminal.tell(Input::Choose { purpose: Purpose::Theme, title: "Theme".to_owned(), items });
    }

    /// Uses a theme from here on, in later conversations, too.
    pub(super) async fn use_theme(&mut self, name: &str) {
        let mut mistakes = Vec::new();
        let colours = looks::colours(self.around, Some(name), &mut mistakes);
        self.show_theme(colours);
        if mistakes.is_empty() {
            self.told_by(&["config", "set", SETTING, name]).await;
        } else {
            mistakes.into_iter().for_each(|mistake| self.warn(mistake));
            self.try_theme(None);
        }
    }
}
