//! Themes of one's own: a TOML file that names what differs from a theme that is built in.

use std::fmt;

use ratatui_core::style::{Color, Modifier, Style};
use toml::de::{DeTable, DeValue};

use super::{FIELDS, NAMES, Theme};

/// What a style may set beside its colours.
const MODIFIERS: [(&str, Modifier); 6] = [
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underline", Modifier::UNDERLINED),
    ("strike", Modifier::CROSSED_OUT),
    ("reverse", Modifier::REVERSED),
];

/// A theme file has mistakes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", .mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct ThemeError {
    /// All of them, in the order of lines.
    pub mistakes: Vec<Mistake>,
    /// The theme without what is wrong.
    pub theme: Box<Theme>,
}

/// One mistake in a theme file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Its line, from 1.
    pub line: usize,
    /// The key, as `added.fg`; empty if the file is not TOML.
    pub key: String,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "line {}: {}", self.line, self.problem),
            key => write!(f, "line {}, `{key}`: {}", self.line, self.problem),
        }
    }
}

/// The theme of a file: what it names, upon the theme that it names as `base`, or else upon this one.
///
/// ```toml
/// base = "dark"
/// accent = "#ffb454"
/// added = { fg = "white", bg = 22, bold = true }
/// ```
///
/// # Errors
/// The file has mistakes. The error has the theme without them.
pub fn read(text: &str, base: &Theme) -> Result<Theme, ThemeError> {
    let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let line = line(error.span().map_or(0, |span| span.start));
            let mistake = Mistake { line, key: String::new(), problem: error.message().to_owned() };
            return Err(ThemeError { mistakes: vec![mistake], theme: Box::new(base.clone()) });
        }
    };
    let mut reader = Reader { mistakes: Vec::new() };
    let table = table.get_ref();
    let mut theme = base.clone();
    if let Some(value) = table.get("base") {
        match value.get_ref().as_str().and_then(Theme::named) {
            Some(named) => theme = named,
            None => {
                reader.wrong(value.span().start, "base", format!("unknown theme; the themes are {}", NAMES.join(", ")));
            }
        }
    }
    for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != "base") {
        let name = key.get_ref().as_ref();
        match FIELDS.iter().find(|(field, _)| *field == name) {
            Some((_, field)) => reader.style(name, value.get_ref(), value.span().start, field(&mut theme)),
            None => {
                let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
                reader.wrong(key.span().start, name, format!("unknown style; the styles are {}", names.join(", ")));
            }
        }
    }
    if reader.mistakes.is_empty() {
        return Ok(theme);
    }
    reader.mistakes.sort_by_key(|(at, ..)| *at);
    let mistakes = reader.mistakes.into_iter().map(|(at, key, problem)| Mistake { line: line(at), key, problem });
    Err(ThemeError { mistakes: mistakes.collect(), theme: Box::new(theme) })
}

struct Reader {
    /// Where in the text each mistake is, its key and what is wrong.
    mistakes: Vec<(usize, String, String)>,
}

impl Reader {
    fn wrong(&mut self, at: usize, key: &str, problem: String) {
        self.mistakes.push((at, piton_core::hidden::visible_name(key), problem));
    }

    /// Reads a style: the colour of its letters, or a table.
    fn style(&mut self, name: &str, value: &DeValue<'_>, at: usize, style: &mut Style) {
        let DeValue::Table(table) = value else {
            self.colour(name, value, at, &mut style.fg);
            return;
        };
        for (key, value) in table {
            let (part, at) = (key.get_ref().as_ref(), value.span().start);
            let name = format!("{name}.{part}");
            match (part, MODIFIERS.iter().find(|(modifier, _)| *modifier == part)) {
                ("fg", _) => self.colour(&name, value.get_ref(), at, &mut style.fg),
                ("bg", _) => self.colour(&name, value.get_ref(), at, &mut style.bg),
                (_, Some((_, modifier))) => match value.get_ref().as_bool() {
                    Some(true) => *style = style.add_modifier(*modifier),
                    Some(false) => style.add_modifier.remove(*modifier),
                    None => self.wrong(at, &name, "must be true or false".to_owned()),
                },
                (_, None) => {
                    let names: Vec<&str> = MODIFIERS.iter().map(|(name, _)| *name).collect();
                    self.wrong(
                        key.span().start,
                        &name,
                        format!("unknown setting; the settings are fg, bg, {}", names.join(", ")),
                    );
                }
            }
        }
    }

    fn colour(&mut self, name: &str, value: &DeValue<'_>, at: usize, colour: &mut Option<Color>) {
        let read = match value {
            DeValue::String(text) if text == "default" => Some(None),
            DeValue::String(text) => named(text).map(Some),
            DeValue::Integer(number) => number.as_str().parse().ok().map(|index| Some(Color::Indexed(index))),
            _ => None,
        };
        match read {
            Some(read) => *colour = read,
            None => self.wrong(
                at,
                name,
                "not a color; write \"#a0c4ff\", a name such as \"red\" or \"bright-blue\", a number up to 255, or \"default\""
                    .to_owned(),
            ),
        }
    }
}

fn named(text: &str) -> Option<Color> {
    if let Some(hex) = text.strip_prefix('#') {
        let is_hex = hex.len() == 6 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        return u32::from_str_radix(hex, 16).ok().filter(|_| is_hex).map(Color::from_u32);
    }
    Some(match text.to_ascii_lowercase().as_str() {
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "white" => Color::Gray,
        "bright-black" | "grey" | "gray" => Color::DarkGray,
        "bright-red" => Color::LightRed,
        "bright-green" => Color::LightGreen,
        "bright-yellow" => Color::LightYellow,
        "bright-blue" => Color::LightBlue,
        "bright-magenta" => Color::LightMagenta,
        "bright-cyan" => Color::LightCyan,
        "bright-white" => Color::White,
        _ => return None,
    })
}
