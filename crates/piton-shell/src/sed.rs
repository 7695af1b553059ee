//! `sed`: what a script writes, reads and runs.

use crate::expand::{Field, tail};
use crate::judged::Judged;
use crate::reading::Effect;

/// What `sed` does with these arguments.
pub(crate) fn judge(arguments: &[Field]) -> Judged {
    let mut judged = Judged::of(Effect::ChangesNothing);
    let said = Said::of(arguments, &mut judged);
    let Said { mut scripts, mut operands } = said;
    if scripts.is_empty() && judged.code.is_none() && !operands.is_empty() {
        scripts.push(operands.remove(0));
    }
    for script in &scripts {
        let mut found = Script::default();
        if script.is_open() || !found.read(&script.text) {
            judged.unsure();
            judged.risky.push(script.text.clone());
            found.runs_open |= !script.is_open() && may_run(&script.text);
        } else if found.runs || !found.writes.is_empty() {
            judged.acts(&script.text);
        } else if found.is_odd || !found.reads.is_empty() {
            judged.unsure();
        }
        judged.runs_open |= found.runs_open;
        let outside = |file: &&String| !matches!(file.as_str(), "/dev/stdout" | "/dev/stderr" | "/dev/stdin");
        judged.writes.extend(found.writes.iter().filter(outside).map(|file| Field::literal(file)));
        judged.reads.extend(found.reads.iter().filter(outside).map(|file| Field::literal(file)));
    }
    if operands.iter().any(|field| field.may_be_option()) {
        judged.unsure();
    }
    if judged.effect != Effect::ChangesNothing {
        let scripts = scripts.iter().map(|script| script.text.as_str());
        judged.knows_files = judged.effect == Effect::Changes;
        judged.code = Some(judged.code.iter().map(String::as_str).chain(scripts).collect::<Vec<_>>().join("\n"));
    }
    let in_place =
        judged.risky.iter().any(|word| word.starts_with('-') && !word.starts_with("-f") && !word.starts_with("--f"));
    let files = operands.into_iter().cloned();
    if in_place {
        judged.writes.extend(files);
    } else {
        judged.reads.extend(files);
    }
    judged
}

/// The arguments by what they are.
struct Said<'f> {
    scripts: Vec<&'f Field>,
    operands: Vec<&'f Field>,
}

impl<'f> Said<'f> {
    fn of(arguments: &'f [Field], judged: &mut Judged) -> Self {
        let mut said = Self { scripts: Vec::new(), operands: Vec::new() };
        let (mut at, mut ended) = (0, false);
        while let Some(field) = arguments.get(at) {
            at += 1;
            let text = field.text.as_str();
            match text {
                "--" if !ended => ended = true,
                _ if ended || !text.starts_with('-') || text == "-" => said.operands.push(field),
                "--expression" => {
                    said.scripts.extend(arguments.get(at));
                    at += 1;
                }
                "-l" | "--line-length" => at += 1,
                "--quiet" | "--silent" | "--regexp-extended" | "--posix" | "--sandbox" | "--separate"
                | "--unbuffered" | "--null-data" | "--debug" | "--follow-symlinks" => {}
                _ if text.starts_with("--f") => {
                    judged.acts(text);
                    judged.effect = Effect::Unknown;
                    let glued = text.split_once('=').map(|(_, file)| tail(field, file));
                    at += usize::from(glued.is_none());
                    judged.reads.extend(glued.or_else(|| arguments.get(at - 1).cloned()));
                    judged.code = Some(String::new());
                }
                _ if text.starts_with("--") => judged.acts(text),
                _ => at += said.letters(field, arguments.get(at), judged),
            }
        }
        said
    }

    /// Takes short options in one word; how many words behind it they take.
    fn letters(&mut self, field: &'f Field, next: Option<&'f Field>, judged: &mut Judged) -> usize {
        let text = field.text.as_str();
        for (place, letter) in text.char_indices().skip(1) {
            let rest = &text[place + letter.len_utf8()..];
            match letter {
                'n' | 'E' | 'r' | 's' | 'u' | 'z' => {}
                'e' if rest.is_empty() => {
                    self.scripts.extend(next);
                    return 1;
                }
                'i' | 'I' => {
                    judged.acts(text);
                    // What follows is the ending of a copy.
                    return 0;
                }
                'f' => {
                    judged.acts(text);
                    judged.effect = Effect::Unknown;
                    judged.code = Some(String::new());
                    let file = if rest.is_empty() { next.cloned() } else { Some(tail(field, rest)) };
                    judged.reads.extend(file);
                    return usize::from(rest.is_empty());
                }
                // `-es/a/b/`, and what is not known.
                _ => {
                    judged.acts(text);
                    judged.effect = Effect::Unknown;
                    return 0;
                }
            }
        }
        0
    }
}

/// What a script does.
#[derive(Debug, Default)]
struct Script {
    writes: Vec<String>,
    reads: Vec<String>,
    runs: bool,
    /// What it runs are lines that it reads.
    runs_open: bool,
    /// It does something that is rare, though it writes and runs nothing.
    is_odd: bool,
}

impl Script {
    /// Reads a script; whether it was understood to its end.
    fn read(&mut self, script: &str) -> bool {
        let mut rest = script;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | '}'));
            if rest.is_empty() {
                return true;
            }
            if let Some(comment) = rest.strip_prefix('#') {
                rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
                continue;
            }
            let Some(command) = past_addresses(rest) else { return false };
            let Some(next) = self.command(command) else { return false };
            rest = next;
        }
    }

    /// Reads a command behind its addresses; what follows it.
    fn command<'s>(&mut self, command: &'s str) -> Option<&'s str> {
        let command = command.trim_start_matches(|c: char| c.is_whitespace() || c == '!');
        let letter = command.chars().next()?;
        let rest = &command[letter.len_utf8()..];
        let line = || rest.split_once('\n').map_or((rest, ""), |(line, rest)| (line, rest));
        match letter {
            '{' => Some(rest),
            'p' | 'd' | '=' | 'P' | 'D' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'z' | 'F' => ended(rest),
            'q' | 'Q' | 'l' | 'L' => ended(rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')),
            's' => self.substitution(rest),
            'y' => ended(sections(rest, 2)?.1),
            'a' | 'i' | 'c' => {
                self.is_odd = true;
                Some(past_text(rest))
            }
            'b' | 't' | 'T' | ':' => {
                self.is_odd = true;
                // What stands behind a blank is the next command to some, and part of the label to others.
                let label = rest.trim_start_matches([' ', '\t']);
                let end = label.find(|c: char| c.is_whitespace() || matches!(c, ';' | '}')).unwrap_or(label.len());
                ended(&label[end..])
            }
            'w' | 'W' => {
                let (file, rest) = line();
                self.writes.push(file.trim().to_string());
                Some(rest)
            }
            'r' | 'R' => {
                let (file, rest) = line();
                self.reads.push(file.trim().to_string());
                Some(rest)
            }
            'e' => {
                let (code, rest) = line();
                self.runs = true;
                self.runs_open |= code.trim_matches([' ', '\t', ';', '}']).is_empty();
                Some(rest)
            }
            _ => None,
        }
    }

    fn substitution<'s>(&mut self, rest: &'s str) -> Option<&'s str> {
        let (_, rest) = sections(rest, 2)?;
        let flags =
            rest.trim_start_matches(|c: char| matches!(c, 'g' | 'i' | 'I' | 'p' | 'm' | 'M') || c.is_ascii_digit());
        match flags.chars().next() {
            Some('w') => {
                let (file, rest) = flags[1..].split_once('\n').map_or((&flags[1..], ""), |(file, rest)| (file, rest));
                self.writes.push(file.trim().to_string());
                Some(rest)
            }
            Some('e') => {
                (self.runs, self.runs_open) = (true, true);
                Some("")
            }
            _ => ended(flags),
        }
    }
}

/// Whether a script that was not understood may run what it reads: it has an `e` where a command or a flag of `s` may stand.
fn may_run(script: &str) -> bool {
    let is_flag = |c: char| matches!(c, 'g' | 'i' | 'I' | 'p' | 'm' | 'M') || c.is_ascii_digit();
    script.match_indices('e').any(|(at, _)| {
        let begins = !script[..at].trim_end_matches(is_flag).ends_with(|c: char| c.is_alphanumeric() || c == ' ');
        begins && !script[at + 1..].trim_start_matches(is_flag).starts_with(char::is_alphanumeric)
    })
}

/// Past the end of a command.
fn ended(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches([' ', '\t']);
    match rest.chars().next() {
        None | Some(';' | '\n' | '}' | '#') => Some(rest),
        Some(_) => None,
    }
}

/// The parts of `/a/b/…`, and what is behind the last separator.
fn sections(rest: &str, count: usize) -> Option<(&str, &str)> {
    let separator = rest.chars().next().filter(|c| *c != '\\' && *c != '\n')?;
    let (mut seen, mut escaped, mut class) = (0, false, false);
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == separator {
            seen += 1;
            if seen == count {
                return Some((&rest[..at], &rest[at + c.len_utf8()..]));
            }
            class = false;
        } else if seen == 0 && c == '[' {
            class = true;
        } else if c == ']' {
            class = false;
        }
        // Whether a separator in `[…]` ends is a matter of the implementation: nothing is said of such a script.
        if class && rest[at + c.len_utf8()..].starts_with(separator) && rest[at..].contains(']') {
            return None;
        }
    }
    None
}

/// Past the text of `a`, `i`, `c`: to the end of the line that does not end with a backslash.
fn past_text(rest: &str) -> &str {
    let mut from = 0;
    while let Some(at) = rest[from..].find('\n') {
        let end = from + at;
        // One that is escaped itself ends nothing.
        if rest[..end].chars().rev().take_while(|c| *c == '\\').count() % 2 == 0 {
            return &rest[end + 1..];
        }
        from = end + 1;
    }
    ""
}

/// What stands behind `1,$`, `/a/,/b/`, `3`, `1~2`, `\|a|`.
fn past_addresses(command: &str) -> Option<&str> {
    let mut rest = command;
    loop {
        rest = match rest.chars().next() {
            Some('0'..='9' | '$' | '+' | '~') => {
                rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '$' | '+' | '~'))
            }
            Some('/') => sections(rest, 1)?.1.trim_start_matches(['I', 'M']),
            Some('\\') => sections(&rest[1..], 1)?.1.trim_start_matches(['I', 'M']),
            _ => return Some(rest),
        };
        match rest.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => return Some(rest),
        }
    }
}
