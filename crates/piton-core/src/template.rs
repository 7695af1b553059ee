//! Templates of commands: prompts that are kept in a file, with places for what the user says.

/// The template with the user's words in it. `$1`, `$2`, … are the single words (quotes hold several together), the
/// highest of them takes all that is left; `$ARGUMENTS` is everything as it was said. A template with neither gets it at
/// its end.
pub fn expand(template: &str, arguments: &str) -> String {
    let words = words(arguments);
    let last = places(template).map(|(_, _, number)| number).max();
    let (mut text, mut done) = (String::new(), 0);
    for (start, end, number) in places(template) {
        text.push_str(&template[done..start]);
        let from = number.saturating_sub(1);
        match words.get(from..) {
            Some(rest) if Some(number) == last => text.push_str(&rest.join(" ")),
            Some([word, ..]) => text.push_str(word),
            Some([]) | None => {}
        }
        done = end;
    }
    text.push_str(&template[done..]);
    let has_place = last.is_some() || template.contains(ALL);
    let mut text = text.replace(ALL, arguments);
    if !has_place && !arguments.trim().is_empty() {
        text = format!("{text}\n\n{arguments}");
    }
    text.trim().to_owned()
}

const ALL: &str = "$ARGUMENTS";

/// Where numbers stand: from, to, and which.
fn places(template: &str) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
    template.match_indices('$').filter_map(|(start, _)| {
        let digits = template[start + 1..].chars().take_while(char::is_ascii_digit).count();
        let end = start + 1 + digits;
        Some((start, end, template[start + 1..end].parse().ok()?))
    })
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

/// The shell commands that a template holds, as `` !`command` ``.
pub fn shell_commands(template: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), template);
    while let Some((_, after)) = rest.split_once("!`") {
        match after.split_once('`') {
            Some(("", _)) => rest = after,
            Some((command, behind)) => {
                found.push(command);
                rest = behind;
            }
            None => break,
        }
    }
    found
}

/// The template that a file holds: what stands in front of it between `---` lines is about it, not of it.
pub fn body(file: &str) -> &str {
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
    fn what_is_about_a_command_is_no_part_of_it() {
        assert_eq!(body("---\nmodel: x\n---\nDo $1\n"), "Do $1\n");
        assert_eq!(body("Do ---\n$1"), "Do ---\n$1");
        assert_eq!(body("---\nnever closed"), "---\nnever closed");
    }
}
