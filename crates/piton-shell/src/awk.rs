//! `awk`: whether a program text writes, reads or runs something beside the lines that it is given.

use crate::expand::{Field, tail};
use crate::judged::Judged;
use crate::reading::Effect;

/// What `awk` does with these arguments.
pub(crate) fn judge(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::ChangesNothing);
    let all = || arguments.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ");
    let mut at = 0;
    while let Some(field) = arguments.get(at) {
        let text = field.text.as_str();
        match text {
            "-F" | "-v" | "--field-separator" | "--assign" => at += 1,
            "--" => {
                at += 1;
                break;
            }
            text if ["-F", "-v", "--field-separator=", "--assign="].iter().any(|known| text.starts_with(known)) => {}
            "--posix" | "--traditional" | "--re-interval" | "--sandbox" | "-S" | "-P" | "--csv" | "-k" => {}
            text if text.starts_with('-') && text.len() > 1 => {
                judged.acts(text);
                judged.code = Some(all());
                if let Some(file) = text.strip_prefix("-f") {
                    let glued = (!file.is_empty()).then(|| tail(field, file));
                    judged.reads.extend(glued.or_else(|| arguments.get(at + 1).cloned()));
                }
                return judged;
            }
            _ => break,
        }
        at += 1;
    }
    let Some(program) = arguments.get(at) else { return judged };
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
    judged.writes.extend(found.written.iter().map(|file| Field::literal(file)));
    judged.reads.extend(found.read_files.iter().map(|file| Field::literal(file)));
    judged.code = Some(program.text.clone());
    judged.knows_files = judged.effect == Effect::ChangesNothing;
    let files = arguments.get(at + 1..).unwrap_or_default().iter().filter(|field| !field.text.contains('='));
    judged.reads.extend(files.cloned());
    judged
}

/// The program text among these arguments, where it is not in a file.
pub(crate) fn program(arguments: &[Field]) -> Option<&Field> {
    let mut at = 0;
    while let Some(field) = arguments.get(at) {
        match field.text.as_str() {
            "--" => return arguments.get(at + 1),
            "-F" | "-v" | "--field-separator" | "--assign" => at += 2,
            text if text.starts_with("-f") || text.starts_with("--file") => return None,
            text if text.starts_with('-') && text.len() > 1 => at += 1,
            _ => return Some(field),
        }
    }
    None
}

/// What a program text does.
#[derive(Debug, Default)]
struct Program {
    runs: bool,
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
                    "system" => self.runs = true,
                    // The files that it reads are then those that the program names.
                    "ARGV" | "ARGC" => self.reads = true,
                    "getline" => {
                        self.reads = true;
                        let file = tokens[at..].iter().take(4).skip_while(|token| **token != Token::Sign('<')).nth(1);
                        self.read_files.extend(file.and_then(Token::text));
                    }
                    _ => {}
                },
                Token::Sign('@') => self.runs = true,
                Token::Sign('|') => {
                    let doubled = before == Some(&Token::Sign('|')) || next == Some(&Token::Sign('|'));
                    self.runs |= !doubled;
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

impl Token {
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
