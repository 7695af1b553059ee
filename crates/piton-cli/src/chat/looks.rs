//! How the face looks and which keys it knows: from the environment, and two files beside the configuration.

use crate::surroundings::Surroundings;
use piton_engine::config::{NoticeWord, TerminalTable};
use piton_tools::regular;
use piton_tui::face::Face;
use piton_tui::keys::Keys;
use piton_tui::signals::{Notice, Wishes};
use piton_tui::terminal::Around;
use piton_tui::theme::{self, Level, NAMES, Theme};
use std::path::PathBuf;

/// Stands for the configuration, whatever its name is.
const CONFIG: &str = "";
/// The colours of the person's own, where no theme is named; and the folder of those that can be.
const THEME: &str = "theme.toml";
const THEMES: &str = "themes";
/// The theme that follows the terminal, and the one of [`THEME`].
pub(super) const AUTO: &str = "auto";
pub(super) const OWN: &str = "own";

/// Which colours there are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Colours {
    /// Those that suit the terminal's background, no more of them than it has.
    Auto(Level),
    /// These.
    Fixed(Box<Theme>),
}

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
    let (mut face, mistakes) = face(around, table.theme.as_deref());
    let is_plain = around.machine.var("TERM") == Some("dumb");
    let is_heard = is_heard || is_plain || table.screen_reader == Some(true);
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
        around: Around { signals, is_heard, is_full: is_full || table.full == Some(true), is_plain },
        status: table.status,
        mistakes,
    }
}

/// The same, and what is wrong in the files that say so.
fn face(around: &Surroundings, theme: Option<&str>) -> (Face, Vec<String>) {
    let mut mistakes = Vec::new();
    let level = level(around);
    let mut face = match colours(around, theme, &mut mistakes) {
        Colours::Fixed(theme) => Face::new(80, 24, *theme),
        // Sixteen colours suit every background: the terminal says later which it has.
        Colours::Auto(_) => Face::new(80, 24, Theme::ansi().at(level)).following(level),
    };
    if let Some(text) = read(around, "keys.toml", &mut mistakes) {
        let (keys, wrong) = Keys::read(&text);
        mistakes.extend(wrong.into_iter().map(|mistake| format!("keys.toml: {mistake}")));
        face = face.with_keys(keys);
    }
    (face, mistakes)
}

/// The colours that the configuration names now, and what is wrong in the files that say so.
pub(super) fn current(around: &Surroundings) -> (Colours, Vec<String>) {
    let mut mistakes = Vec::new();
    let text = read(around, CONFIG, &mut mistakes).unwrap_or_default();
    let colours = colours(around, TerminalTable::of_file(&text).theme.as_deref(), &mut mistakes);
    (colours, mistakes)
}

/// The colours of this name, as far as this terminal has them. Without a name: the person's own file's, if there is one.
pub(super) fn colours(around: &Surroundings, name: Option<&str>, mistakes: &mut Vec<String>) -> Colours {
    let level = level(around);
    let file = match name {
        None | Some(OWN) => THEME.to_owned(),
        Some(AUTO) => return Colours::Auto(level),
        Some(name) => match Theme::named(name) {
            Some(theme) => return Colours::Fixed(Box::new(theme.at(level))),
            None => format!("{THEMES}/{name}.toml"),
        },
    };
    let is_file = name.is_none_or(|name| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']));
    let unread = mistakes.len();
    let text = if is_file { read(around, &file, mistakes) } else { None };
    let Some(text) = text else {
        if let Some(name) = name.filter(|_| mistakes.len() == unread) {
            let folder = folder(around).join(THEMES);
            mistakes.push(format!(
                "there is no theme `{}`; Piton's are {AUTO}, {}, and your own are files in {}",
                piton_core::hidden::visible_name(name),
                NAMES.join(", "),
                folder.display()
            ));
        }
        return Colours::Auto(level);
    };
    let theme = theme::read(&text, &Theme::ansi()).unwrap_or_else(|error| {
        mistakes.push(format!("{file}: {error}"));
        *error.theme
    });
    Colours::Fixed(Box::new(theme.at(level)))
}

/// The names of all themes, the person's own behind Piton's.
pub(super) fn themes(around: &Surroundings) -> Vec<String> {
    let mut all: Vec<String> = [AUTO].into_iter().chain(NAMES).map(str::to_owned).collect();
    if folder(around).join(THEME).is_file() {
        all.push(OWN.to_owned());
    }
    let files = std::fs::read_dir(folder(around).join(THEMES)).into_iter().flatten().flatten();
    let name = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".toml").map(str::to_owned);
    let mut own: Vec<String> = files.filter_map(name).filter(|name| !all.contains(name)).collect();
    own.sort();
    all.extend(own);
    all
}

/// The folder of the configuration.
pub(super) fn folder(around: &Surroundings) -> PathBuf {
    around.machine.config_file.parent().map(PathBuf::from).unwrap_or_default()
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
        (Some(_), ..) | (_, _, Some("dumb")) => Level::None,
        (None, Some("truecolor" | "24bit"), _) => Level::True,
        (None, _, Some(term)) if term.contains("256") => Level::TwoFiftySix,
        _ => Level::Sixteen,
    }
}
