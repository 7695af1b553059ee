//! A key with what is held down beside it, in one spelling whatever the terminal sends for it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::fmt;

/// A key and its modifiers. Two events that a person takes for the same key are the same chord.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chord {
    code: KeyCode,
    modifiers: KeyModifiers,
}

const MODIFIERS: &[(&str, KeyModifiers)] = &[
    ("Ctrl", KeyModifiers::CONTROL),
    ("Control", KeyModifiers::CONTROL),
    ("Alt", KeyModifiers::ALT),
    ("Option", KeyModifiers::ALT),
    ("Meta", KeyModifiers::ALT),
    ("Shift", KeyModifiers::SHIFT),
    ("Super", KeyModifiers::SUPER),
    ("Cmd", KeyModifiers::SUPER),
];

/// The names of keys; the first one of a key is what hints say.
const NAMES: &[(&str, KeyCode)] = &[
    ("Enter", KeyCode::Enter),
    ("Return", KeyCode::Enter),
    ("Esc", KeyCode::Esc),
    ("Escape", KeyCode::Esc),
    ("Tab", KeyCode::Tab),
    ("Space", KeyCode::Char(' ')),
    ("Backspace", KeyCode::Backspace),
    ("Delete", KeyCode::Delete),
    ("Del", KeyCode::Delete),
    ("Insert", KeyCode::Insert),
    ("Ins", KeyCode::Insert),
    ("↑", KeyCode::Up),
    ("Up", KeyCode::Up),
    ("↓", KeyCode::Down),
    ("Down", KeyCode::Down),
    ("←", KeyCode::Left),
    ("Left", KeyCode::Left),
    ("→", KeyCode::Right),
    ("Right", KeyCode::Right),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PageUp", KeyCode::PageUp),
    ("PgUp", KeyCode::PageUp),
    ("PageDown", KeyCode::PageDown),
    ("PgDn", KeyCode::PageDown),
];

impl Chord {
    /// The chord of an event, whether it was pressed or repeated.
    pub(super) fn of(key: KeyEvent) -> Self {
        Self::new(key.code, key.modifiers)
    }

    fn new(code: KeyCode, modifiers: KeyModifiers) -> Self {
        let known = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT | KeyModifiers::SUPER;
        let mut modifiers = modifiers & known;
        let KeyCode::Char(char) = code else {
            if code == KeyCode::BackTab || (code == KeyCode::Tab && modifiers.contains(KeyModifiers::SHIFT)) {
                return Self { code: KeyCode::BackTab, modifiers: modifiers - KeyModifiers::SHIFT };
            }
            return Self { code, modifiers };
        };
        if (modifiers - KeyModifiers::SHIFT).is_empty() {
            let upper = modifiers.contains(KeyModifiers::SHIFT) && char.is_ascii_lowercase();
            let char = if upper { char.to_ascii_uppercase() } else { char };
            return Self { code: KeyCode::Char(char), modifiers: KeyModifiers::NONE };
        }
        // Escape and a capital letter is Alt-Shift; with Ctrl a terminal says either case for the same key.
        if char.is_ascii_uppercase() && !modifiers.contains(KeyModifiers::CONTROL) {
            modifiers |= KeyModifiers::SHIFT;
        }
        Self { code: KeyCode::Char(char.to_ascii_lowercase()), modifiers }.unified()
    }

    /// What has been one key since the first terminals stays one where a newer one could tell two apart.
    fn unified(self) -> Self {
        if self.modifiers - KeyModifiers::SHIFT != KeyModifiers::CONTROL {
            return self;
        }
        let code = match self.code {
            KeyCode::Char('m') => KeyCode::Enter,
            KeyCode::Char('i') => return Self::new(KeyCode::Tab, self.modifiers - KeyModifiers::CONTROL),
            KeyCode::Char('[') => KeyCode::Esc,
            // The byte 1C.
            KeyCode::Char('4' | '\\') => {
                return Self { code: KeyCode::Char('\\'), modifiers: KeyModifiers::CONTROL };
            }
            // The byte 1F, which Ctrl-/ and Ctrl-_ send.
            KeyCode::Char('7' | '_' | '/') => {
                return Self { code: KeyCode::Char('/'), modifiers: KeyModifiers::CONTROL };
            }
            _ => return self,
        };
        Self { code, modifiers: self.modifiers - KeyModifiers::CONTROL }
    }

    /// The event that a terminal sends for it.
    #[cfg(test)]
    pub(super) fn event(&self) -> KeyEvent {
        KeyEvent::new(self.code, self.modifiers)
    }

    /// The same key where Shift says nothing.
    pub(super) fn without_shift(&self) -> Self {
        Self { code: self.code, modifiers: self.modifiers - KeyModifiers::SHIFT }
    }

    /// The character, if it is one alone.
    pub(super) fn is_character(&self) -> bool {
        matches!(self.code, KeyCode::Char(_)) && self.modifiers.is_empty()
    }

    /// The character that is pressed with Alt and nothing else but Shift.
    pub(super) fn alt_character(&self) -> Option<char> {
        let KeyCode::Char(char) = self.code else { return None };
        let shifted = self.modifiers == KeyModifiers::ALT | KeyModifiers::SHIFT;
        (shifted || self.modifiers == KeyModifiers::ALT).then(|| if shifted { char.to_ascii_uppercase() } else { char })
    }

    /// The chord of such words as `Ctrl-O`, `alt+enter`, `F5`, `G`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        let mut modifiers = KeyModifiers::NONE;
        'modifiers: loop {
            for (name, modifier) in MODIFIERS {
                let Some((head, tail)) = rest.split_at_checked(name.len()) else { continue };
                if head.eq_ignore_ascii_case(name) && tail.len() > 1 && tail.starts_with(['-', '+']) {
                    modifiers |= *modifier;
                    rest = &tail[1..];
                    continue 'modifiers;
                }
            }
            break;
        }
        Some(match code_of(rest)? {
            // People write Alt-T for the key with the T on it.
            KeyCode::Char(char) if !modifiers.is_empty() => {
                Self::new(KeyCode::Char(char.to_ascii_lowercase()), modifiers)
            }
            code => Self::new(code, modifiers),
        })
    }
}

fn code_of(name: &str) -> Option<KeyCode> {
    if let Some((_, code)) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Some(*code);
    }
    let mut chars = name.chars();
    if let (Some(char), None) = (chars.next(), chars.next()) {
        return (!char.is_control()).then_some(KeyCode::Char(char));
    }
    let number = name.strip_prefix(['F', 'f'])?.parse().ok()?;
    (1..=35).contains(&number).then_some(KeyCode::F(number))
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shift = self.code == KeyCode::BackTab || self.modifiers.contains(KeyModifiers::SHIFT);
        for (held, name) in [
            (self.modifiers.contains(KeyModifiers::CONTROL), "Ctrl-"),
            (self.modifiers.contains(KeyModifiers::ALT), "Alt-"),
            (shift, "Shift-"),
            (self.modifiers.contains(KeyModifiers::SUPER), "Super-"),
        ] {
            if held {
                f.write_str(name)?;
            }
        }
        let code = if self.code == KeyCode::BackTab { KeyCode::Tab } else { self.code };
        match code {
            KeyCode::F(number) => write!(f, "F{number}"),
            KeyCode::Char(char) if char != ' ' && self.modifiers.is_empty() => write!(f, "{char}"),
            KeyCode::Char(char) if char != ' ' => write!(f, "{}", char.to_ascii_uppercase()),
            code => f.write_str(NAMES.iter().find(|(_, known)| *known == code).map_or("?", |(name, _)| name)),
        }
    }
}
