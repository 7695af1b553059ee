//! Colours and signs: which style each kind of text has, in the themes that are built in ([`palette`]), in files of one's own
//! ([`file`]), and with as many colours as the terminal has ([`level`]).

mod file;
mod level;
mod palette;

use ratatui_core::style::{Color, Modifier, Style};

pub use file::{Mistake, ThemeError, read};
pub use level::Level;

/// The names of the themes that are built in. `auto` is one of these: [`Theme::of_background`].
pub const NAMES: [&str; 6] = ["dark", "light", "colourblind", "colourblind-light", "ansi", "none"];

/// The styles of everything that is drawn. Each colour is doubled by a sign or by its place, so that none is needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Theme {
    /// What the model and people say.
    pub text: Style,
    /// What stands beside: details, counts, hints.
    pub dim: Style,
    /// What stands out: titles, the words of a person.
    pub strong: Style,
    /// Something went well.
    pub good: Style,
    /// Something failed.
    pub bad: Style,
    /// Something should be looked at.
    pub warn: Style,
    /// The name of a tool, a command, a choice.
    pub accent: Style,
    /// Code in prose.
    pub code: Style,
    /// An address.
    pub link: Style,
    /// A line that was added, and within it the words that are new.
    pub added: Style,
    /// The new words of an added line.
    pub added_word: Style,
    /// A line that was removed.
    pub removed: Style,
    /// The words of a removed line that are gone.
    pub removed_word: Style,
    /// What is chosen in a list.
    pub chosen: Style,
    /// Keywords of code.
    pub keyword: Style,
    /// Strings of code.
    pub string: Style,
    /// Comments of code.
    pub comment: Style,
    /// Numbers and constants of code.
    pub number: Style,
}

/// A style's name in a file, and where it is in a theme.
type Field = (&'static str, fn(&mut Theme) -> &mut Style);

/// Every style of a theme.
const FIELDS: [Field; 18] = [
    ("text", |theme| &mut theme.text),
    ("dim", |theme| &mut theme.dim),
    ("strong", |theme| &mut theme.strong),
    ("good", |theme| &mut theme.good),
    ("bad", |theme| &mut theme.bad),
    ("warn", |theme| &mut theme.warn),
    ("accent", |theme| &mut theme.accent),
    ("code", |theme| &mut theme.code),
    ("link", |theme| &mut theme.link),
    ("added", |theme| &mut theme.added),
    ("added_word", |theme| &mut theme.added_word),
    ("removed", |theme| &mut theme.removed),
    ("removed_word", |theme| &mut theme.removed_word),
    ("chosen", |theme| &mut theme.chosen),
    ("keyword", |theme| &mut theme.keyword),
    ("string", |theme| &mut theme.string),
    ("comment", |theme| &mut theme.comment),
    ("number", |theme| &mut theme.number),
];

impl Theme {
    /// A theme that is built in, by one of [`NAMES`].
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "dark" => Self::dark(),
            "light" => Self::light(),
            "colourblind" | "colorblind" => Self::colourblind(),
            "colourblind-light" | "colorblind-light" => Self::colourblind_light(),
            "ansi" => Self::ansi(),
            "none" => Self::none(),
            _ => return None,
        })
    }

    /// The theme for a terminal whose background is this (red, green, blue), and for one that does not tell.
    pub fn of_background(background: Option<(u8, u8, u8)>) -> Self {
        match background {
            Some(rgb) if level::luminance(rgb) < 0.18 => Self::dark(),
            Some(_) => Self::light(),
            None => Self::ansi(),
        }
    }

    /// Signs only, no colour: `NO_COLOR`, a pipe, a terminal that has none.
    pub fn none() -> Self {
        let plain = Style::new();
        let bold = plain.add_modifier(Modifier::BOLD);
        Self {
            text: plain,
            dim: plain,
            strong: bold,
            good: plain,
            bad: bold,
            warn: bold,
            accent: bold,
            code: plain,
            link: plain.add_modifier(Modifier::UNDERLINED),
            added: plain,
            added_word: bold,
            removed: plain,
            removed_word: bold,
            chosen: plain.add_modifier(Modifier::REVERSED),
            keyword: plain,
            string: plain,
            comment: plain,
            number: plain,
        }
    }

    /// The sixteen colours that every terminal has, as its user has set them: fits light and dark.
    pub fn ansi() -> Self {
        let of = |colour| Style::new().fg(colour);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Self {
            text: Style::new(),
            dim: Style::new().add_modifier(Modifier::DIM),
            strong: bold,
            good: of(Color::Green),
            bad: of(Color::Red),
            warn: of(Color::Yellow),
            accent: of(Color::Cyan),
            code: of(Color::Cyan),
            link: of(Color::Blue).add_modifier(Modifier::UNDERLINED),
            added: of(Color::Green),
            added_word: of(Color::Green).add_modifier(Modifier::BOLD | Modifier::REVERSED),
            removed: of(Color::Red),
            removed_word: of(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED),
            chosen: Style::new().add_modifier(Modifier::REVERSED),
            keyword: of(Color::Magenta),
            string: of(Color::Green),
            comment: Style::new().add_modifier(Modifier::DIM),
            number: of(Color::Yellow),
        }
    }
}

#[cfg(test)]
mod tests;
