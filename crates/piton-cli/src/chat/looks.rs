//! How the face looks and which keys it knows: from the environment, and two files beside the configuration.

use crate::surroundings::Surroundings;
use piton_engine::config::{NoticeWord, TerminalTable};
use piton_tools::regular;
use piton_tui::face::Face;
use piton_tui::keys::Keys;
use piton_tui::signals::{Notice, Wishes};
use piton_tui::terminal::Around;
use piton_tui::theme::{self, Level, Theme};

/// Stands for the configuration, whatever its name is.
const CONFIG: &str = "";
/// The colours of the person's own.
const THEME: &str = "theme.toml";

/// A face as this terminal and its person want it.
pub(super) struct Looks {
    pub(super) face: Face,
    pub(super) around: Around,
    /// The command that prints the status line.
    pub(super) status: Option<String>,
    /// What is wrong in their files.
    pub(super) mistakes: Vec<String>,
}

/// A face as this terminal and its person want it. Only small files of theirs are read for it: nobody waits for it.
pub(super) fn looks(around: &Surroundings, (is_heard, is_full): (bool, bool)) -> Looks {
    let mut unread = Vec::new();
    let text = read(around, CONFIG, &mut unread).unwrap_or_default();
    let table = TerminalTable::of_file(&text);
    let (mut face, mistakes) = face(around);
    let is_heard = is_heard || table.screen_reader == Some(true);
    if table.reduced_motion == Some(true) || is_heard {
        face = face.still();
    }
    let own = Wishes::default();
    let signals = Wishes {
        title: table.title.unwrap_or(own.title),
        progress: table.progress.unwrap_or(own.progress),
        notice: match table.notify {
            None => own.notice,
            Some(NoticeWord::Auto) => Notice::Auto,
            Some(NoticeWord::Bell) => Notice::Bell,
            Some(NoticeWord::Off) => Notice::Off,
        },
        notice_after_ms: table.notify_after.map_or(own.notice_after_ms, |seconds| (seconds * 1000.0) as u64),
    };
    Looks {
        face,
        around: Around { signals, is_heard, is_full: is_full || table.full == Some(true) },
        status: table.status,
        mistakes,
    }
}

/// The same, and what is wrong in the files that say so.
fn face(around: &Surroundings) -> (Face, Vec<String>) {
    let level = level(around);
    let mut mistakes = Vec::new();
    let own = read(around, THEME, &mut mistakes).map(|text| {
        theme::read(&text, &Theme::ansi()).unwrap_or_else(|error| {
            mistakes.push(format!("{THEME}: {error}"));
            *error.theme
        })
    });
    let is_own = own.is_some();
    // Sixteen colours suit every background: the terminal says later which it has.
    let mut face = Face::new(80, 24, own.unwrap_or_else(Theme::ansi).at(level));
    if !is_own && level != Level::None {
        face = face.following(level);
    }
    if let Some(text) = read(around, "keys.toml", &mut mistakes) {
        let (keys, wrong) = Keys::read(&text);
        mistakes.extend(wrong.into_iter().map(|mistake| format!("keys.toml: {mistake}")));
        face = face.with_keys(keys);
    }
    (face, mistakes)
}

/// The colours of the person's own file, as far as this terminal has them; `None` where there is no file.
pub(super) fn own_theme(around: &Surroundings) -> Result<Option<Theme>, String> {
    let mut mistakes = Vec::new();
    let text = read(around, THEME, &mut mistakes);
    if let Some(mistake) = mistakes.pop() {
        return Err(mistake);
    }
    let theme = text.map(|text| theme::read(&text, &Theme::ansi())).transpose();
    theme.map(|theme| theme.map(|theme| theme.at(level(around)))).map_err(|error| format!("{THEME}: {error}"))
}

/// A file beside the configuration, or that; `None` where there is none, or none that can be read.
fn read(around: &Surroundings, name: &str, mistakes: &mut Vec<String>) -> Option<String> {
    let config = &around.machine.config_file;
    let path = if name == CONFIG { config.clone() } else { config.with_file_name(name) };
    match regular::named(&path, regular::SETTINGS_BYTES) {
        Ok(text) => Some(text),
        Err(_) if !path.exists() => None,
        Err(error) => {
            mistakes.push(format!("{} cannot be read, so it is left out: {error}", path.display()));
            None
        }
    }
}

/// How many colours the terminal has, as far as it says.
fn level(around: &Surroundings) -> Level {
    let var = |name| around.machine.var(name).filter(|value| !value.is_empty());
    match (var("NO_COLOR"), var("COLORTERM"), var("TERM")) {
        (Some(_), ..) => Level::None,
        (None, Some("truecolor" | "24bit"), _) => Level::True,
        (None, _, Some(term)) if term.contains("256") => Level::TwoFiftySix,
        _ => Level::Sixteen,
    }
}
