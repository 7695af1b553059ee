//! Templates of commands: prompts that are kept in a file, with places for what the user says.

/// How the places of a template count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Whether `$0` is the first word, and not `$1`.
    pub from_zero: bool,
    /// Whether each place takes one word, and not the highest of them all that is left.
    pub single: bool,
    /// Names of the words, in order: `$name` is the same as its number.
    pub names: Vec<String>,
}

impl Places {
    /// As in a command of Claude Code's: each place takes one word, and where a template says `$0`, that is the first.
    pub fn of_claude(template: &str) -> Self {
        let mut digits = template.match_indices("$0").map(|(at, _)| template[at + 2..].chars().next());
        let from_zero = digits.any(|next| !next.is_some_and(|c| c.is_ascii_digit()));
        Self { from_zero, single: true, names: Vec::new() }
    }
}

/// A piece of a template with the user's words in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// A command for the shell, whose output takes its place.
    Shell(String),
    /// Text of somebody else's, such as a server's: nothing in it refers to files.
    Given(String),
}

/// What a place is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Everything, as it was said.
    All,
    /// The word of this number, from 0.
    Word(usize),
}

/// The template with the user's words in it. `$1`, `$2`, … are the single words (quotes hold several together), the
/// highest of them takes all that is left; `$ARGUMENTS` is everything as it was said. A template with neither gets it at
/// its end.
pub fn expand(template: &str, arguments: &str) -> String {
    expand_by(template, arguments, &Places::default())
}

/// The same, where places count otherwise.
pub fn expand_by(template: &str, arguments: &str, places: &Places) -> String {
    Filling::new(template, arguments, places).text(template).trim().to_owned()
}

/// The same in pieces, with the commands that it holds as `` !`command` ``, or as a block that begins with ```` ```! ````. In these
/// the words are the shell's own variables: what they hold is never read as code.
pub fn pieces(template: &str, arguments: &str, places: &Places) -> Vec<Piece> {
    let filling = Filling::new(template, arguments, places);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut done = 0;
    for (start, end, code) in commands(template) {
        pieces.push(Piece::Text(filling.only_text(&template[done..start])));
        pieces.push(Piece::Shell(filling.code(code)));
        done = end;
    }
    let mut last = filling.only_text(&template[done..]);
    last.push_str(&filling.behind());
    pieces.push(Piece::Text(last));
    if let Some(Piece::Text(first)) = pieces.first_mut() {
        *first = first.trim_start().to_owned();
    }
    if let Some(Piece::Text(last)) = pieces.last_mut() {
        last.truncate(last.trim_end().len());
    }
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
    pieces
}

/// Puts values in the place of `${NAME}`: in texts as they are, in commands as variables of the shell's.
pub fn fill_variables(pieces: &mut [Piece], variables: &[(&str, &str)]) {
    for (name, value) in variables {
        let place = format!("${{{name}}}");
        for piece in pieces.iter_mut() {
            match piece {
                Piece::Text(text) if text.contains(&place) => *text = text.replace(&place, value),
                Piece::Shell(code) if code.contains(name) => {
                    *code = format!("{name}={}; {code}", quoted_for_shell(value));
                }
                Piece::Text(_) | Piece::Shell(_) | Piece::Given(_) => {}
            }
        }
    }
}

const ALL: &str = "$ARGUMENTS";

/// A user's words on their way into a template.
struct Filling<'a> {
    arguments: &'a str,
    /// The single words; the last is all that is left, where the highest place takes that.
    words: Vec<String>,
    places: &'a Places,
    has_place: bool,
}

impl<'a> Filling<'a> {
    fn new(template: &str, arguments: &'a str, places: &'a Places) -> Self {
        let mut filling = Self { arguments, words: words(arguments), places, has_place: false };
        let found: Vec<Place> = filling.find(template).map(|(.., place)| place).collect();
        filling.has_place = !found.is_empty();
        let numbers = found.iter().filter_map(|place| match place {
            Place::Word(number) => Some(*number),
            Place::All => None,
        });
        if let Some(last) = numbers.max().filter(|last| !places.single && *last < filling.words.len()) {
            let rest = filling.words.split_off(last).join(" ");
            filling.words.push(rest);
        }
        filling
    }

    /// Where places stand: from, to, and which.
    fn find<'t>(&self, template: &'t str) -> impl Iterator<Item = (usize, usize, Place)> + use<'t, '_, 'a> {
        template.match_indices('$').filter_map(move |(start, _)| {
            let (length, place) = self.place(&template[start..])?;
            Some((start, start + length, place))
        })
    }

    /// The place that a text begins with, and its length.
    fn place(&self, text: &str) -> Option<(usize, Place)> {
        if let Some(behind) = text.strip_prefix(ALL) {
            let number = behind.strip_prefix('[').and_then(|inside| inside.split_once(']'));
            return Some(match number.and_then(|(number, _)| Some((number.len(), number.parse().ok()?))) {
                Some((digits, number)) => (ALL.len() + digits + 2, Place::Word(number)),
                None => (ALL.len(), Place::All),
            });
        }
        let behind = &text[1..];
        let digits = behind.chars().take_while(char::is_ascii_digit).count();
        if digits > 0 {
            let number: usize = behind[..digits].parse().ok()?;
            let number = if self.places.from_zero { number } else { number.checked_sub(1)? };
            return Some((1 + digits, Place::Word(number)));
        }
        let letters = behind.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == '-');
        let name: String = letters.collect();
        let number = self.places.names.iter().position(|known| *known == name)?;
        Some((1 + name.len(), Place::Word(number)))
    }

    /// A text, and behind it what has no place in it.
    fn text(&self, text: &str) -> String {
        let mut filled = self.only_text(text);
        filled.push_str(&self.behind());
        filled
    }

    fn only_text(&self, text: &str) -> String {
        let (mut filled, mut done) = (String::new(), 0);
        for (start, end, place) in self.find(text) {
            filled.push_str(&text[done..start]);
            filled.push_str(match place {
                Place::All => self.arguments,
                Place::Word(number) => self.words.get(number).map_or("", String::as_str),
            });
            done = end;
        }
        filled.push_str(&text[done..]);
        filled
    }

    /// What stands behind a template without any place.
    fn behind(&self) -> String {
        match self.has_place || self.arguments.trim().is_empty() {
            true => String::new(),
            false => format!("\n\n{}", self.arguments),
        }
    }

    /// A command, with the words as the variables that it names. What is no name of a shell's variable gets one, wherever it stands.
    fn code(&self, code: &str) -> String {
        let (mut filled, mut done, mut needs_words, mut needs_all) = (String::new(), 0, false, false);
        let mut named: Vec<usize> = Vec::new();
        for (start, end, place) in self.find(code) {
            let Place::Word(number) = place else {
                needs_all = true;
                continue;
            };
            let said = &code[start + 1..end];
            if is_variable(said) && !said.starts_with("ARGUMENTS") {
                named.push(number);
                continue;
            }
            needs_words = true;
            if said.starts_with(|c: char| c.is_ascii_digit()) && !self.places.from_zero && number < 9 {
                continue;
            }
            filled.push_str(&code[done..start]);
            filled.push_str(&format!("${{{}}}", number.saturating_add(1)));
            done = end;
        }
        filled.push_str(&code[done..]);
        named.sort_unstable();
        named.dedup();
        let mut head = String::new();
        for number in named {
            let word = self.words.get(number).map_or("", String::as_str);
            head.push_str(&format!("{}={}; ", self.places.names[number], quoted_for_shell(word)));
        }
        if needs_all && !self.arguments.is_empty() {
            head.push_str(&format!("ARGUMENTS={}; ", quoted_for_shell(self.arguments)));
        }
        if needs_words && !self.words.is_empty() {
            let words: Vec<String> = self.words.iter().map(|word| quoted_for_shell(word)).collect();
            head.push_str(&format!("set -- {}; ", words.join(" ")));
        }
        head + filled.trim()
    }
}

/// Whether a shell has variables of this name.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A word that a shell reads as it stands.
fn quoted_for_shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The single words; what is in quotes is one, and so is `[Image 1]`.
fn words(arguments: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), arguments);
    while let Some(first) = rest.chars().next() {
        let length = image(rest).or_else(|| quoted(rest, first)).unwrap_or_else(|| {
            let ends = |c: char| c.is_whitespace() || c == '"' || c == '\'';
            rest.find(ends).unwrap_or(rest.len())
        });
        if length == 0 {
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(length);
        let word = word.strip_prefix(['"', '\'']).unwrap_or(word);
        words.push(word.strip_suffix(['"', '\'']).unwrap_or(word).to_owned());
        rest = after;
    }
    words
}

fn quoted(text: &str, first: char) -> Option<usize> {
    let quote = Some(first).filter(|c| *c == '"' || *c == '\'')?;
    text[1..].find(quote).map(|end| end + 2)
}

fn image(text: &str) -> Option<usize> {
    let begins = text.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("[image"));
    let inside = text.get(6..).filter(|_| begins)?;
    let end = inside.find(']')?;
    let number = inside[..end].trim_start();
    let is_number = !number.is_empty() && number.len() < end && number.chars().all(|c| c.is_ascii_digit());
    is_number.then_some(6 + end + 1)
}

/// The files that a template refers to, by `@`: not in the middle of a word and not after a backtick, up to white space,
/// a backtick, a comma or a full stop that ends it.
pub fn files(template: &str) -> Vec<&str> {
    let (mut found, mut done) = (Vec::new(), 0);
    for (at, _) in template.match_indices('@') {
        let before = template[..at].chars().next_back();
        let is_inside = before.is_some_and(|c| c == '`' || c == '_' || c.is_ascii_alphanumeric());
        if at < done || is_inside {
            continue;
        }
        let rest = &template[at + 1..];
        let length = file(rest);
        found.push(&rest[..length]);
        done = at + 1 + length;
    }
    found
}

/// How long the file's name is that the text begins with.
fn file(text: &str) -> usize {
    let piece = |text: &str| text.find(|c: char| c.is_whitespace() || "`,.".contains(c)).unwrap_or(text.len());
    let mut length = usize::from(text.starts_with('.'));
    length += piece(&text[length..]);
    while let Some(after) = text[length..].strip_prefix('.') {
        let more = piece(after);
        if more == 0 {
            break;
        }
        length += 1 + more;
    }
    length
}

/// The shell commands that a template holds.
pub fn shell_commands(template: &str) -> Vec<&str> {
    commands(template).into_iter().map(|(.., code)| code).collect()
}

/// Where commands stand, with what is around them, and what they are.
fn commands(template: &str) -> Vec<(usize, usize, &str)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(inline) = template[at..].find("!`").map(|start| at + start) {
        at = inline + 2;
        // `panic!` and what stands behind it is no command, and neither is one in quotes of its own.
        let before = template[..inline].chars().next_back();
        if before.is_some_and(|c| c == '`' || c == '_' || c.is_alphanumeric()) {
            continue;
        }
        let Some(length) = template[at..].find('`') else { break };
        if length > 0 {
            found.push((inline, at + length + 1, &template[at..at + length]));
        }
        at += length + usize::from(length > 0);
    }
    found.extend(blocks(template));
    found.sort_unstable_by_key(|(start, ..)| *start);
    let mut done = 0;
    found.retain(|(start, end, _)| *start >= done && (done = *end, true).1);
    found
}

/// The blocks that begin with ```` ```! ```` at the start of a line.
fn blocks(template: &str) -> Vec<(usize, usize, &str)> {
    const FENCE: &str = "```";
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(start) = template[at..].find("```!").map(|start| at + start) {
        let Some(code) = template[start..].find('\n').map(|end| start + end + 1) else { break };
        at = code;
        let is_line = start == 0 || template[..start].ends_with('\n');
        if !is_line || !template[start + 4..code].trim().is_empty() {
            continue;
        }
        let Some(end) = template[code..].find("\n```").map(|end| code + end + 1) else { break };
        found.push((start, end + FENCE.len(), template[code..end].trim()));
        at = end + FENCE.len();
    }
    found.retain(|(.., code)| !code.is_empty());
    found
}

/// The template that a file holds: what stands in front of it between `---` lines is about it, not of it.
pub fn body(file: &str) -> &str {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let inside = file.strip_prefix("---\n").or_else(|| file.strip_prefix("---\r\n"));
    let end = inside.and_then(|inside| inside.split_once("\n---"));
    end.and_then(|(_, behind)| behind.split_once('\n')).map_or(file, |(_, body)| body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_where_the_template_wants_them() {
        assert_eq!(expand("Fix $1 in $2", "'the bug' main.rs and more"), "Fix the bug in main.rs and more");
        assert_eq!(expand("Review", "a b"), "Review\n\na b");
        assert_eq!(expand("$1 costs $", "\"it"), "it costs $");
        assert_eq!(expand("Look at $1", "[Image 12] now"), "Look at [Image 12] now");
    }

    #[test]
    fn words_have_numbers_and_names() {
        let places = Places { names: vec!["issue".to_owned(), "branch".to_owned()], ..Places::of_claude("") };
        let text = |template: &str, said: &str, places: &Places| match &pieces(template, said, places)[..] {
            [Piece::Text(text)] => text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text("#$issue on $branch, $issues", "12 main more", &places), "#12 on main, $issues");
        assert_eq!(text("$ARGUMENTS[1] $ARGUMENTS[0] $ARGUMENTS[9].", "a b", &places), "b a .");
        assert_eq!(text("$1 and $2", "a b c", &places), "a and b", "each takes one");
        let of_today = "$0 and $1";
        assert_eq!(text(of_today, "a b c", &Places::of_claude(of_today)), "a and b");
        assert_eq!(text("$0 and $1", "a b c", &Places::default()), "$0 and a b c");
        assert_eq!(text("it costs $100, or $05", "", &Places::default()), "it costs , or");
        // A word that looks like a place is none.
        assert_eq!(text("$1 $ARGUMENTS", "$ARGUMENTS $1", &places), "$ARGUMENTS $ARGUMENTS $1");
    }

    #[test]
    fn words_are_never_code() {
        let shell = |template: &str, said: &str, places: &Places| {
            let all = pieces(template, said, places);
            let code = all.into_iter().find_map(|piece| match piece {
                Piece::Shell(code) => Some(code),
                Piece::Text(_) | Piece::Given(_) => None,
            });
            code.unwrap()
        };
        let said = "'$(echo no)' \"it's; `id`\"";
        assert_eq!(
            shell("!`printf '%s|' $1 \"$2\"`", said, &Places::default()),
            "set -- '$(echo no)' 'it'\\''s; `id`'; printf '%s|' $1 \"$2\"",
        );
        assert_eq!(
            shell("!`cat <<E\n$ARGUMENTS\nE\n`", "it's `id`", &Places::default()),
            "ARGUMENTS='it'\\''s `id`'; cat <<E\n$ARGUMENTS\nE"
        );
        assert_eq!(shell("!`git log | awk '{print $1}'`", "", &Places::default()), "git log | awk '{print $1}'");
        assert_eq!(shell("!`ls $0`", "a b", &Places::of_claude("$0")), "set -- 'a' 'b'; ls ${1}");
        assert_eq!(shell("!`ls $1` $1", "a b", &Places::default()), "set -- 'a b'; ls $1");
        let named = Places { names: vec!["target".to_owned(), "to-day".to_owned()], ..Places::default() };
        assert_eq!(
            shell("```!\n# don't\nrm -rf build/$target $to-day $ARGUMENTS[1]\n```", "its now", &named),
            "target='its'; set -- 'its' 'now'; # don't\nrm -rf build/$target ${2} ${2}"
        );
        assert_eq!(shell("!`ls`", "a b", &Places::default()), "ls");
    }

    #[test]
    fn a_variable_is_a_text_in_words_and_never_code() {
        let mut all = pieces("in ${DIR}: !`ls \"${DIR}/x\"` !`id`", "", &Places::default());
        fill_variables(&mut all, &[("DIR", "/a'b")]);
        let shell = |code: &str| Piece::Shell(code.to_owned());
        let expected = [
            Piece::Text("in /a'b: ".to_owned()),
            shell("DIR='/a'\\''b'; ls \"${DIR}/x\""),
            Piece::Text(" ".to_owned()),
            shell("id"),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn commands_stand_in_a_line_or_in_a_block() {
        let template = "Look:\n!`git status`\nand\n```!\nls\npwd\n```\nend ``!`x`` !`` done";
        let all = pieces(template, "now", &Places::default());
        let shell = |code: &str| Piece::Shell(code.to_owned());
        let text = |text: &str| Piece::Text(text.to_owned());
        let expected = [
            text("Look:\n"),
            shell("git status"),
            text("\nand\n"),
            shell("ls\npwd"),
            text("\nend ``!`x`` !`` done\n\nnow"),
        ];
        assert_eq!(all, expected);
        assert_eq!(shell_commands(template), ["git status", "ls\npwd"]);
        assert_eq!(shell_commands("!`never closed"), Vec::<&str>::new());
        let words = "Replace `panic!` and `todo!` by errors, never `reset!` rm -rf . `here`";
        assert_eq!(shell_commands(words), Vec::<&str>::new(), "words about macros are no commands");
        assert_eq!(shell_commands("(!`ls`) \"!`pwd`\""), ["ls", "pwd"]);
    }

    #[test]
    fn what_is_about_a_command_is_no_part_of_it() {
        assert_eq!(body("---\nmodel: x\n---\nDo $1\n"), "Do $1\n");
        assert_eq!(body("Do ---\n$1"), "Do ---\n$1");
        assert_eq!(body("---\nnever closed"), "---\nnever closed");
    }
}
