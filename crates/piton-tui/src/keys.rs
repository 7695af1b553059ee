//! Which key does what: a table, the defaults in it, and `keys.toml` that changes them.
//!
//! A key is looked up in the [`Context`] that has the focus. What the table does not name is a plain character
//! ([`Action::Insert`]) or nothing. The table knows no state: that Ctrl-D deletes in a prompt with text and leaves an
//! empty one is decided by whoever gets [`Action::Leave`].

mod chord;
mod read;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub use table::Action;

use chord::Chord;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What has the focus, and so which part of the table is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// The prompt, and words to a question.
    Prompt,
    /// A question: `y`, `a`, `e`, `n` come as [`Action::Insert`]. The prompt stands below it: what is no key of questions is
    /// looked up there.
    Question,
    /// A picker: characters narrow it. So the name of a session, and the search of a page while it is typed.
    List,
    /// A page that is read, whatever stands on it.
    Pager,
}

impl Context {
    /// All, in the order of the table's columns.
    pub const ALL: [Context; 4] = [Context::Prompt, Context::Question, Context::List, Context::Pager];

    fn name(self) -> &'static str {
        match self {
            Context::Prompt => "prompt",
            Context::Question => "question",
            Context::List => "list",
            Context::Pager => "pager",
        }
    }

    /// Whether a character alone means itself, and so cannot be bound.
    fn takes_text(self) -> bool {
        match self {
            Context::Prompt | Context::Question | Context::List => true,
            Context::Pager => false,
        }
    }
}

/// How the prompt is edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As in readline.
    Emacs,
    /// As in vi: the table is the same, the prompt has a normal mode, and a letter with Alt is Escape and the letter,
    /// since a terminal cannot tell these apart.
    Vi,
}

/// The keys that are in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Keys {
    style: Style,
    bound: Vec<Binding>,
}

/// One key in one context.
#[derive(Debug, Clone, PartialEq)]
struct Binding {
    context: Context,
    chord: Chord,
    action: Action,
}

impl Default for Keys {
    fn default() -> Self {
        Self::of(Style::Emacs)
    }
}

impl Keys {
    /// The defaults for people who know vi.
    pub fn vi() -> Self {
        Self::of(Style::Vi)
    }

    /// The keys of a `keys.toml`, and its mistakes in words, each with its line. Where something is wrong, the default
    /// is in force.
    ///
    /// ```toml
    /// style = "vi"                     # or "emacs"
    /// new-line = ["Enter", "Ctrl-J"]   # wherever "new-line" has a key by default
    /// send = "Ctrl-Enter"
    /// [pager]                          # there only
    /// page-down = "Space"
    /// ```
    pub fn read(text: &str) -> (Keys, Vec<String>) {
        read::read(text)
    }

    /// How the prompt is edited.
    pub fn style(&self) -> Style {
        self.style
    }

    /// What this key does. A key that is released does nothing, and neither does one that nothing is bound to.
    pub fn action(&self, context: Context, key: KeyEvent) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let chord = Chord::of(key);
        let bound = self.bound_to(context, &chord).or_else(|| self.bound_to(context, &chord.without_shift()));
        if bound.is_none() && context == Context::Question {
            // What questions have keys of their own for is done by these alone.
            return self.action(Context::Prompt, key).filter(|action| !table::is_of(*action, context));
        }
        let escaped = || chord.alt_character().filter(|_| is_escaped(self.style, context)).map(Action::Alt);
        bound.or_else(escaped).or_else(|| typed(key).map(Action::Insert))
    }

    /// The key for a hint, such as `Ctrl-O`: the first one that does it, in the prompt before elsewhere. Empty if no key
    /// does it.
    pub fn name_of(&self, action: Action) -> String {
        let first = |context| self.bound.iter().find(|one| one.context == context && one.action == action);
        Context::ALL.into_iter().find_map(first).map(|one| one.chord.to_string()).unwrap_or_default()
    }

    /// Every key that does this here, for the page that `?` opens.
    pub fn names_in(&self, context: Context, action: Action) -> Vec<String> {
        let here = self.bound.iter().filter(|one| one.context == context && one.action == action);
        here.map(|one| one.chord.to_string()).collect()
    }

    /// The part of the table that is in force here, for the page that `?` opens: the keys of an action and what it does,
    /// in the order of the table, without those that have no key.
    pub fn page(&self, context: Context) -> Vec<(String, &'static str)> {
        let rows = table::ROWS.iter().map(|row| (self.names_in(context, row.action).join(", "), row.does));
        rows.filter(|(keys, _)| !keys.is_empty()).collect()
    }

    fn of(style: Style) -> Self {
        let mut bound = Vec::new();
        for row in table::ROWS {
            for context in Context::ALL {
                let chords = row.chords(context);
                for chord in chords.filter(|chord| !is_escaped(style, context) || chord.alt_character().is_none()) {
                    bound.push(Binding { context, chord, action: row.action });
                }
            }
        }
        Self { style, bound }
    }

    fn bound_to(&self, context: Context, chord: &Chord) -> Option<Action> {
        self.bound.iter().find(|one| one.context == context && one.chord == *chord).map(|one| one.action)
    }
}

/// Whether a character with Alt is Escape and the character, unless `keys.toml` says otherwise.
fn is_escaped(style: Style, context: Context) -> bool {
    style == Style::Vi && context == Context::Prompt
}

/// The character that this key types, if it types one.
fn typed(key: KeyEvent) -> Option<char> {
    let KeyCode::Char(char) = key.code else { return None };
    let held = key.modifiers - KeyModifiers::SHIFT;
    // AltGr is Ctrl and Alt on Windows; it makes what is no letter of a shortcut.
    let alt_gr = held == KeyModifiers::CONTROL | KeyModifiers::ALT && !char.is_ascii_alphanumeric() && char != ' ';
    if !held.is_empty() && !alt_gr {
        return None;
    }
    let shifted = key.modifiers.contains(KeyModifiers::SHIFT);
    Some(if shifted && char.is_ascii_lowercase() { char.to_ascii_uppercase() } else { char })
}
