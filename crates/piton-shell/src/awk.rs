//! `awk`: whether a program text writes, reads or runs something beside the lines that it is given.

use crate::expand::{self, Field, tail};
use crate::judged::Judged;
use crate::reading::Effect;
use crate::{interpreters, shells};

/// Options whose value is the next word, or the rest of theirs.
const WITH_VALUE: &str = "FvfEeil";
/// Options whose value is the rest of their word, if there is one.
const WITH_REST: &str = "opdDL";
/// Options that change how a text is read, and nothing else.
const QUIET: &str = "bcCghkLMnNOPrsStV";
/// Long names of the same.
const LONG: &[(&str, char)] = &[
    ("field-separator", 'F'),
    ("assign", 'v'),
    ("file", 'f'),
    ("exec", 'E'),
    ("source", 'e'),
    ("include", 'i'),
    ("load", 'l'),
    ("pretty-print", 'o'),
    ("profile", 'p'),
    ("dump-variables", 'd'),
    ("debug", 'D'),
    ("lint", 'L'),
    ("sandbox", 'S'),
    ("posix", 'P'),
    ("traditional", 'c'),
    ("re-interval", 'r'),
    ("csv", 'k'),
    ("characters-as-bytes", 'b'),
    ("bignum", 'M'),
    ("use-lc-numeric", 'N'),
    ("non-decimal-data", 'n'),
    ("optimize", 'O'),
    ("no-optimize", 's'),
    ("lint-old", 't'),
    ("gen-pot", 'g'),
    ("version", 'V'),
    ("help", 'h'),
    ("copyright", 'C'),
];

/// Arguments, read by the grammar of options.
#[derive(Debug, Default)]
struct Arguments<'f> {
    /// Program texts.
    texts: Vec<Field>,
    /// Files with program texts, and libraries that are loaded.
    loaded: Vec<Field>,
    /// What it prints of itself.
    written: Vec<Field>,
    /// Options that load, run or write.
    acting: Vec<&'f str>,
    /// `-i inplace`: it writes the files that it reads.
    is_in_place: bool,
    /// What the program is given.
    files: Vec<&'f Field>,
}

impl<'f> Arguments<'f> {
    fn read(arguments: &'f [Field]) -> Self {
        let mut read = Self::default();
        let mut at = 0;
        while let Some(field) = arguments.get(at).filter(|field| field.text.starts_with('-') && field.text.len() > 1) {
            at += 1;
            if field.text == "--" {
                break;
            }
            let Some((letter, glued)) = option(field) else {
                read.acting.push(&field.text);
                // Which of the words are files cannot be told.
                return read;
            };
            let value = match glued {
                None if WITH_VALUE.contains(letter) => {
                    at += 1;
                    arguments.get(at - 1).cloned()
                }
                glued => glued,
            };
            read.option(letter, &field.text, value);
            if letter == 'E' {
                break;
            }
        }
        let has_program = !read.texts.is_empty() || read.acting.iter().any(|word| names_program(word));
        let rest = arguments.get(at..).unwrap_or_default();
        if let Some(program) = rest.first().filter(|_| !has_program) {
            read.texts.push(program.clone());
        }
        read.files = rest.iter().skip(usize::from(!has_program)).filter(|field| !field.text.contains('=')).collect();
        read
    }

    fn option(&mut self, letter: char, word: &'f str, value: Option<Field>) {
        match letter {
            'e' => self.texts.extend(value),
            'f' | 'E' | 'l' | 'D' => {
                self.acting.push(word);
                self.loaded.extend(value);
            }
            'i' => {
                self.acting.push(word);
                let name = value.as_ref().map(|value| value.text.trim_end_matches(".awk")).unwrap_or_default();
                let is_open = value.as_ref().is_none_or(Field::is_open);
                self.is_in_place |= is_open || name == "inplace" || name.ends_with("/inplace");
                self.loaded.extend(value.filter(|value| value.text != "inplace"));
            }
            'o' | 'p' | 'd' => {
                self.acting.push(word);
                let usual = if letter == 'd' { "awkvars.out" } else { "awkprof.out" };
                self.written.push(value.unwrap_or_else(|| Field::literal(usual)));
            }
            _ => {}
        }
    }
}

/// The letter of an option, and the value that is glued to it.
fn option(field: &Field) -> Option<(char, Option<Field>)> {
    let rest = field.text.strip_prefix('-')?;
    if let Some(long) = rest.strip_prefix('-') {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let mut matching = LONG.iter().filter(|(known, _)| known.starts_with(name));
        let exact = LONG.iter().find(|(known, _)| *known == name);
        let (_, letter) = exact.or_else(|| matching.next().filter(|_| matching.next().is_none()))?;
        return Some((*letter, value.map(|value| tail(field, value))));
    }
    let mut letters = rest.chars();
    let letter = letters.next()?;
    let rest = letters.as_str();
    let takes_rest = WITH_VALUE.contains(letter) || WITH_REST.contains(letter);
    let is_known = takes_rest || QUIET.contains(letter) && rest.is_empty();
    is_known.then(|| (letter, Some(rest).filter(|rest| !rest.is_empty()).map(|rest| tail(field, rest))))
}

/// Whether this option says where the program text is.
fn names_program(word: &str) -> bool {
    word.starts_with("-f")
        || word.starts_with("-E")
        || word.starts_with("--fi") && !word.starts_with("--fie")
        || word.starts_with("--ex")
}

/// What `awk` does with these arguments.
pub(crate) fn judge(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::ChangesNothing);
    let all = || expand::text(arguments);
    let read = Arguments::read(arguments);
    read.acting.iter().for_each(|word| judged.acts(word));
    for program in &read.texts {
        let mut found = Program::default();
        found.read(&program.text);
        if found.runs || found.writes {
            judged.acts(&program.text);
            judged.effect = Effect::Unknown;
        } else if program.is_open() {
            judged.may_act(&program.text);
        } else if found.reads {
            judged.unsure();
        }
        judged.runs_open |= found.runs_open;
        judged.writes.extend(found.written.iter().map(|file| Field::literal(file)));
        judged.reads.extend(found.read_files.iter().map(|file| Field::literal(file)));
    }
    judged.knows_files = judged.effect == Effect::ChangesNothing;
    let texts: Vec<&str> = read.texts.iter().map(|field| field.text.as_str()).collect();
    judged.code = if read.acting.is_empty() { (!texts.is_empty()).then(|| texts.join("\n")) } else { Some(all()) };
    judged.reads.extend(read.loaded);
    judged.writes.extend(read.written);
    if read.is_in_place {
        judged.writes.extend(read.files.iter().map(|field| (*field).clone()));
    }
    judged.reads.extend(read.files.into_iter().cloned());
    judged
}

/// Whether a program text among these arguments is known only when it runs.
pub(crate) fn has_open_program(arguments: &[Field]) -> bool {
    Arguments::read(arguments).texts.iter().any(Field::is_open)
}

/// What a program text does.
#[derive(Debug, Default)]
struct Program {
    runs: bool,
    /// What it runs is not a string that stands there.
    runs_open: bool,
    writes: bool,
    reads: bool,
    /// Names of files that stand there as strings.
    written: Vec<String>,
    read_files: Vec<String>,
}

/// A piece of a program text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
    Newline,
}

impl Program {
    fn read(&mut self, text: &str) {
        let tokens = tokens(text);
        // Inside of `print …`, outside of brackets that it opened, `>` writes; elsewhere it compares.
        let (mut printing, mut depth) = (false, 0_usize);
        for (at, token) in tokens.iter().enumerate() {
            let (before, next) = (at.checked_sub(1).and_then(|at| tokens.get(at)), tokens.get(at + 1));
            match token {
                Token::Word(word) => match word.as_str() {
                    "print" | "printf" => (printing, depth) = (true, 0),
                    "system" => {
                        self.runs = true;
                        self.runs_open |= next != Some(&Token::Sign('(')) || !is_string(&tokens, at + 2);
                    }
                    // The files that it reads are then those that the program names.
                    "ARGV" | "ARGC" => self.reads = true,
                    "getline" => {
                        self.reads = true;
                        let file = tokens[at..].iter().take(4).skip_while(|token| **token != Token::Sign('<')).nth(1);
                        self.read_files.extend(file.and_then(Token::text));
                    }
                    _ => {}
                },
                Token::Sign('@') => {
                    self.runs = true;
                    // `@name(…)` calls the function whose name the variable has.
                    self.runs_open |= !next.is_some_and(|next| next.is_word("include load namespace"));
                }
                Token::Sign('|') => {
                    let doubled = before == Some(&Token::Sign('|')) || next == Some(&Token::Sign('|'));
                    self.runs |= !doubled;
                    self.runs_open |= !doubled && !pipes_string(&tokens, at);
                }
                Token::Sign('>') if printing && depth == 0 => {
                    self.writes = true;
                    let place = if next == Some(&Token::Sign('>')) { at + 2 } else { at + 1 };
                    let device = |file: &String| matches!(file.as_str(), "/dev/stdout" | "/dev/stderr");
                    self.written.extend(tokens.get(place).and_then(Token::text).filter(|file| !device(file)));
                }
                Token::Sign('(' | '[') if printing => depth += 1,
                Token::Sign(')' | ']') if printing => depth = depth.saturating_sub(1),
                Token::Sign(';' | '}') | Token::Newline => printing = false,
                Token::Sign(_) | Token::Text(_) => {}
            }
        }
    }
}

/// Whether the value at `at` is one string and nothing else.
fn is_string(tokens: &[Token], at: usize) -> bool {
    let begins = at.checked_sub(1).and_then(|before| tokens.get(before)).is_none_or(Token::is_border);
    begins
        && matches!(tokens.get(at), Some(Token::Text(_)))
        && tokens.get(at + 1).is_none_or(|next| next.is_border() && *next != Token::Sign('('))
}

/// Whether the pipe at `at` is one to or from a program that a string names, and no shell or interpreter that runs what it is given.
fn pipes_string(tokens: &[Token], at: usize) -> bool {
    let behind = at + 1 + usize::from(tokens.get(at + 1) == Some(&Token::Sign('&')));
    if tokens.get(behind).is_some_and(|next| next.is_word("getline")) {
        return at > 0 && is_string(tokens, at - 1);
    }
    let command = tokens.get(behind).and_then(Token::text).unwrap_or_default();
    let mut words = command.split(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
    let is_interpreter = interpreters::is_interpreter(command.trim());
    is_string(tokens, behind) && !is_interpreter && !words.any(shells::runs_code)
}

impl Token {
    /// Whether it is one of these words.
    fn is_word(&self, words: &str) -> bool {
        matches!(self, Self::Word(word) if words.split(' ').any(|known| known == word))
    }

    /// Whether no value goes on behind it, or from it.
    fn is_border(&self) -> bool {
        match self {
            Self::Sign(c) => matches!(c, '(' | ')' | '{' | '}' | ';' | '!' | '&' | '|' | ',' | '='),
            Self::Newline => true,
            Self::Word(_) | Self::Text(_) => false,
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Word(_) | Self::Sign(_) | Self::Newline => None,
        }
    }
}

/// The pieces of a text. What is not sure to be a regular expression is none: its signs then count.
fn tokens(text: &str) -> Vec<Token> {
    let mut all: Vec<Token> = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => all.push(Token::Text(until(&mut rest, '"').unwrap_or_default())),
            '/' if begins_pattern(all.last()) => {
                let mut ahead = rest.clone();
                if until(&mut ahead, '/').is_some() {
                    rest = ahead;
                    all.push(Token::Text(String::new()));
                } else {
                    all.push(Token::Sign('/'));
                }
            }
            '#' => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
            }
            '\n' => all.push(Token::Newline),
            c if c.is_alphabetic() || c == '_' => {
                let mut word = String::from(c);
                while let Some(c) = rest.peek().copied().filter(|c| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                    rest.next();
                }
                all.push(Token::Word(word));
            }
            c if c.is_whitespace() => {}
            c => all.push(Token::Sign(c)),
        }
    }
    all
}

/// Whether a `/` behind this begins a regular expression, and does not divide.
fn begins_pattern(before: Option<&Token>) -> bool {
    match before {
        None | Some(Token::Newline) => true,
        Some(Token::Sign(c)) => matches!(c, '(' | ',' | '{' | '}' | ';' | '!' | '~' | '&' | '|'),
        Some(Token::Word(_) | Token::Text(_)) => false,
    }
}

/// The text up to the closing sign on the same line, without backslashes.
fn until(rest: &mut std::iter::Peekable<std::str::Chars<'_>>, close: char) -> Option<String> {
    let mut text = String::new();
    loop {
        match rest.next()? {
            c if c == close => return Some(text),
            '\n' => return None,
            '\\' => text.extend(rest.next()),
            c => text.push(c),
        }
    }
}
