//! Option grammars: which words of a program are options, and which of these take a value. Written as text, so that a table
//! of programs stays readable.

use crate::expand::Field;

/// A grammar. Short options: letters, `:` behind one that takes a value (attached or the next word), `?` behind one whose
/// value is always attached. Long options: names with blanks between, `=` behind one that takes a value, `?` behind one that
/// may have an attached value; a name with one dash in front is matched as a whole (`-name=`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grammar {
    pub(crate) short: &'static str,
    pub(crate) long: &'static str,
}

/// What a word is, by a grammar.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Token<'f> {
    /// An option, by its name without dashes, with its value and how many words it takes.
    Option { name: String, value: Option<&'f str>, words: usize },
    /// Several short options in one word, without a value.
    Cluster(String),
    /// `--`.
    End,
    /// Not an option.
    Operand,
    /// An option that the grammar does not know.
    Unknown,
}

impl Grammar {
    /// What `fields[0]` is.
    pub(crate) fn token<'f>(&self, fields: &'f [Field]) -> Token<'f> {
        let Some(field) = fields.first() else { return Token::Operand };
        let text = field.text.as_str();
        if text == "--" {
            return Token::End;
        }
        if !text.starts_with('-') || text == "-" {
            return Token::Operand;
        }
        let next = fields.get(1).map(|field| field.text.as_str());
        self.single(text, next).unwrap_or_else(|| match text.strip_prefix("--") {
            Some(long) => self.long(long, next),
            None => self.short(&text[1..], next),
        })
    }

    fn names(&self) -> impl Iterator<Item = (&'static str, char)> {
        self.long.split_whitespace().map(|name| match name.chars().last() {
            Some(mark @ ('=' | '?')) => (&name[..name.len() - 1], mark),
            _ => (name, ' '),
        })
    }

    /// A long option with one dash.
    fn single<'f>(&self, text: &'f str, next: Option<&'f str>) -> Option<Token<'f>> {
        let (name, mark) = self.names().find(|(name, _)| name.starts_with('-') && *name == text)?;
        Some(option(&name[1..], None, mark, next))
    }

    fn long<'f>(&self, text: &'f str, next: Option<&'f str>) -> Token<'f> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let exact = self.names().find(|(known, _)| *known == name);
        // GNU programs take any beginning that is no other's.
        let mut beginnings = self.names().filter(|(known, _)| known.starts_with(name));
        let (only, others) = (beginnings.next(), beginnings.next());
        match exact.or(only.filter(|_| others.is_none() && !name.is_empty())) {
            Some((_, ' ')) if value.is_some() => Token::Unknown,
            Some((known, mark)) => option(known, value, mark, next),
            None => Token::Unknown,
        }
    }

    fn short<'f>(&self, text: &'f str, next: Option<&'f str>) -> Token<'f> {
        for (at, letter) in text.char_indices() {
            let rest = &text[at + letter.len_utf8()..];
            let mut known =
                self.short.char_indices().filter(|(_, known)| *known == letter && !matches!(letter, ':' | '?'));
            let Some((place, _)) = known.next() else { return Token::Unknown };
            if let Some(mark @ (':' | '?')) = self.short[place + letter.len_utf8()..].chars().next() {
                let attached = Some(rest).filter(|rest| !rest.is_empty());
                let mark = if mark == ':' { '=' } else { '?' };
                return option(&text[..at + letter.len_utf8()], attached, mark, next);
            }
        }
        if text.chars().count() == 1 { option(text, None, ' ', next) } else { Token::Cluster(text.to_string()) }
    }
}

fn option<'f>(name: &str, attached: Option<&'f str>, mark: char, next: Option<&'f str>) -> Token<'f> {
    let takes_next = mark == '=' && attached.is_none();
    let value = if takes_next { next } else { attached };
    Token::Option { name: name.to_string(), value, words: if takes_next { 2 } else { 1 } }
}
