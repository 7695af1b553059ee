//! `keys.toml`: what it says, what is wrong with it, and which defaults stay.

use super::{Action, Binding, Context, Keys, Style, chord::Chord, table, table::Row};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What one line of the file asks for.
struct Wish<'a> {
    line: usize,
    row: &'a Row,
    contexts: Vec<Context>,
    chords: Vec<Chord>,
}

/// A file while it is read.
struct Reading<'a> {
    text: &'a str,
    style: Style,
    wishes: Vec<Wish<'static>>,
    /// Each with its line, to be told in their order.
    mistakes: Vec<(usize, String)>,
}

pub(super) fn read(text: &str) -> (Keys, Vec<String>) {
    let mut reading = Reading { text, style: Style::Emacs, wishes: Vec::new(), mistakes: Vec::new() };
    match DeTable::parse(text) {
        Ok(table) => reading.file(table.get_ref()),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reading.mistake(at, &format!("not TOML ({}); the default keys are in force", error.message()));
        }
    }
    reading.wishes.sort_by_key(|wish| wish.line);
    let mut keys = Keys::of(reading.style);
    apply(&mut keys, &reading.wishes, &mut reading.mistakes);
    reading.mistakes.sort_by_key(|(line, _)| *line);
    (keys, reading.mistakes.into_iter().map(|(line, what)| format!("line {line}: {what}")).collect())
}

impl Reading<'_> {
    fn file(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            if let Some(context) = Context::ALL.into_iter().find(|context| context.name() == name) {
                match value.get_ref().as_table() {
                    Some(table) => self.context(context, table),
                    None => self.mistake(at, &format!("\"{name}\" is a table: [{name}]")),
                }
            } else if name == "style" {
                match value.get_ref().as_str() {
                    Some("emacs") => self.style = Style::Emacs,
                    Some("vi") => self.style = Style::Vi,
                    _ => self.mistake(at, "the style is \"emacs\" or \"vi\""),
                }
            } else {
                self.wish(at, name, value, None);
            }
        }
    }

    fn context(&mut self, context: Context, table: &DeTable<'_>) {
        for (name, value) in table {
            self.wish(name.span().start, name.get_ref(), value, Some(context));
        }
    }

    fn wish(&mut self, at: usize, name: &str, value: &Spanned<DeValue<'_>>, context: Option<Context>) {
        let Some(row) = table::ROWS.iter().find(|row| row.name == name) else {
            return self.mistake(at, &format!("no action is called {name:?}; docs/keys.md lists them"));
        };
        let Some(words) = words(value) else {
            return self
                .mistake(at, &format!("\"{name}\" takes a key or a list of keys, such as [\"Ctrl-X\", \"F5\"]"));
        };
        let contexts = match context {
            Some(context) => vec![context],
            None => Context::ALL.into_iter().filter(|context| row.chords(*context).next().is_some()).collect(),
        };
        let mut chords = Vec::new();
        for word in &words {
            match Chord::parse(word) {
                None => self.mistake(at, &format!("no key is called {word:?}; {}", kept(name))),
                Some(chord) if chord.is_character() && contexts.iter().any(|context| context.takes_text()) => {
                    let with = format!("{word:?} alone types a character; bind it with Ctrl or Alt");
                    self.mistake(at, &format!("{with}; {}", kept(name)));
                }
                Some(chord) => chords.push(chord),
            }
        }
        if chords.is_empty() && !words.is_empty() {
            return;
        }
        if chords.is_empty() && matches!(row.action, Action::Interrupt | Action::Escape | Action::Send) {
            return self.mistake(at, &format!("\"{name}\" needs a key; {}", kept(name)));
        }
        let line = self.line(at);
        self.wishes.push(Wish { line, row, contexts, chords });
    }

    fn mistake(&mut self, at: usize, what: &str) {
        let line = self.line(at);
        self.mistakes.push((line, what.to_owned()));
    }

    fn line(&self, at: usize) -> usize {
        1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }
}

fn kept(name: &str) -> String {
    format!("\"{name}\" keeps its other keys, or its defaults")
}

/// The words of a value: one, or a list of them.
fn words(value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
    if let Some(word) = value.get_ref().as_str() {
        return Some(vec![word.to_owned()]);
    }
    value.get_ref().as_array()?.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
}

/// Puts the wishes in force. Of two for one key the first is granted; an action that loses a key by this is named.
fn apply(keys: &mut Keys, wishes: &[Wish<'_>], mistakes: &mut Vec<(usize, String)>) {
    let mut granted: Vec<(Context, &Chord, &Wish<'_>)> = Vec::new();
    for wish in wishes {
        for context in &wish.contexts {
            for chord in &wish.chords {
                let taken = granted.iter().find(|(where_, one, _)| where_ == context && *one == chord);
                match taken {
                    Some((_, _, other)) if other.row.action != wish.row.action => {
                        let who = format!("{chord} is \"{}\" already (line {})", other.row.name, other.line);
                        let what = format!("in the {} {who}, so it is not \"{}\"", context.name(), wish.row.name);
                        mistakes.push((wish.line, what));
                    }
                    Some(_) => {}
                    None => granted.push((*context, chord, wish)),
                }
            }
        }
    }
    let replaced = |one: &Binding| {
        let by_its_own =
            granted.iter().any(|(context, _, wish)| *context == one.context && wish.row.action == one.action);
        let unbound = wishes.iter().any(|wish| {
            wish.chords.is_empty() && wish.row.action == one.action && wish.contexts.contains(&one.context)
        });
        by_its_own || unbound
    };
    let before = keys.bound.clone();
    keys.bound.retain(|one| {
        !replaced(one) && !granted.iter().any(|(context, chord, _)| *context == one.context && **chord == one.chord)
    });
    for (context, chord, wish) in &granted {
        keys.bound.push(Binding { context: *context, chord: (*chord).clone(), action: wish.row.action });
    }
    for one in before.iter().filter(|one| !replaced(one)) {
        let left = keys.bound.iter().any(|other| other.context == one.context && other.action == one.action);
        let by = granted.iter().find(|(context, chord, _)| *context == one.context && **chord == one.chord);
        let name = table::ROWS.iter().find(|row| row.action == one.action).map_or("", |row| row.name);
        if let Some((context, chord, wish)) = by {
            let (is_now, context) = (wish.row.name, context.name());
            let what = match left {
                true => format!("{chord} is now \"{is_now}\", and no longer \"{name}\" in the {context}"),
                false => format!("{chord} is now \"{is_now}\", and \"{name}\" has no key left in the {context}"),
            };
            if !mistakes.contains(&(wish.line, what.clone())) {
                mistakes.push((wish.line, what));
            }
        }
    }
}
