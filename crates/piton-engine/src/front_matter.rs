//! Front matter: the YAML between two lines `---` at the beginning of a Markdown file, by which agents, skills and commands say what
//! they are. What the fields mean is known to whoever reads them.

use piton_core::effort::Effort;
use piton_core::hidden;
use serde_json::{Map, Value};

/// What front matter may come to. A file of a repository that nobody trusts is read at each start, and so are all others beside it.
const MOST_EVENTS: usize = 20_000;
const MOST_ALIASES: usize = 100;
/// What all aliases together may stand for.
const MOST_REPLAYED: usize = 2_000;
/// Characters of an effort in an error.
const EFFORT_CHARS: usize = 64;

/// The fields above the text; none where it has no front matter.
pub fn fields(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else { return Ok(Map::new()) };
    let end = rest.match_indices("\n---").map(|(at, _)| at + 1).find(|at| {
        let behind = &rest[at + 3..];
        behind.is_empty() || behind.starts_with('\n') || behind.starts_with("\r\n")
    });
    let empty = rest.starts_with("---").then_some(0);
    let yaml = &rest[..end.or(empty).ok_or("its front matter has no end: a line `---` is missing")?];
    // What a person writes without thinking of YAML, `description: Use it when: …`, is read with quotes put in.
    let fields = parse(yaml).or_else(|error| parse(&quoted(yaml)).map_err(|_| error))?;
    match fields {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        _ => Err("its front matter is not a list of fields".to_owned()),
    }
}

fn parse(yaml: &str) -> Result<Value, String> {
    if yaml.trim().is_empty() {
        return Ok(Value::Null);
    }
    if let Some(fields) = plain(yaml) {
        return Ok(Value::Object(fields));
    }
    // Its lines count from the one above it.
    read(&format!("\n{yaml}"))
}

/// Front matter of nothing but lines `key: some words` that are text to every reader of YAML, as most is: this is a tenth of the time that a
/// parser takes, and there may be hundreds of files. `None` where there is anything else in it, of which a parser knows what it is.
fn plain(yaml: &str) -> Option<Map<String, Value>> {
    const NOT_TEXT: [&str; 12] =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];
    let is_text = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c == ' ' || c.is_ascii_graphic() && !matches!(c, ':' | '#'))
            && !NOT_TEXT.iter().any(|word| word.eq_ignore_ascii_case(text))
    };
    let mut fields = Map::new();
    for line in yaml.lines() {
        let (key, value) = line.split_once(": ")?;
        let value = value.trim_matches(' ');
        let is_key = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        if !is_key || !is_text(key) || !is_text(value) {
            return None;
        }
        if fields.insert(key.to_owned(), Value::String(value.to_owned())).is_some() {
            return None;
        }
    }
    Some(fields)
}

/// Reads YAML. The error says where it is none.
pub(crate) fn read(yaml: &str) -> Result<Value, String> {
    let mut options = serde_saphyr::Options::default();
    options.budget = options.budget.take().map(|mut budget| {
        (budget.max_events, budget.max_aliases) = (MOST_EVENTS, MOST_ALIASES);
        budget.max_recorded_anchor_events = MOST_EVENTS;
        budget
    });
    options.alias_limits.max_total_replayed_events = MOST_REPLAYED;
    // `n`, `007` and `1_000` are what whoever wrote them sees.
    options.strict_booleans = true;
    (options.leading_zero_numbers_as_strings, options.underscored_numbers_as_strings) = (true, true);
    serde_saphyr::from_str_with_options(yaml, options).map_err(|error| {
        let words = error.to_string();
        let words = words.lines().next().unwrap_or_default();
        format!("its front matter is not valid YAML: {}", line(words.strip_prefix("error: ").unwrap_or(words), 200))
    })
}

/// The same with quotes around every value in one line that is text to whoever wrote it, and something else to YAML: one that holds a
/// colon, `[issue] [branch]`, `*.rs`, `@file`.
fn quoted(yaml: &str) -> String {
    let quote = |text: &str| {
        let Some((key, value)) = text.split_once(": ") else { return text.to_owned() };
        let value = value.trim();
        let is_plain = !key.trim().is_empty()
            && key.trim().chars().all(|c| c.is_alphanumeric() || "-_".contains(c))
            && is_text(value);
        if is_plain { format!("{key}: {}", Value::String(value.to_owned())) } else { text.to_owned() }
    };
    yaml.lines().map(quote).collect::<Vec<_>>().join("\n")
}

fn is_text(value: &str) -> bool {
    match value.chars().next() {
        None | Some('"' | '\'' | '{' | '|' | '>' | '&') => false,
        Some('[') => value.find(']').is_some_and(|end| end + 1 < value.len()) && !value.starts_with("[["),
        Some('*' | '@' | '`' | '%') => true,
        Some(_) => value.contains([':', '#']),
    }
}

/// What is wrong with a field, with the line that it stands in.
pub fn located(text: &str, field: &str, why: &str) -> String {
    let is_field = |line: &str| line.strip_prefix(field).is_some_and(|behind| behind.trim_start().starts_with(':'));
    let lines = text.lines().enumerate().skip(1).take_while(|(_, line)| *line != "---");
    let found = lines.into_iter().find(|(_, line)| is_field(line));
    found.map_or_else(|| why.to_owned(), |(at, _)| format!("line {}: {why}", at + 1))
}

/// One text.
pub fn word(field: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        _ => Err(format!("{field}: a text is wanted")),
    }
}

/// Yes or no.
pub fn truth(field: &str, value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::String(word) if ["true", "yes", "on"].contains(&word.as_str()) => Ok(true),
        Value::String(word) if ["false", "no", "off"].contains(&word.as_str()) => Ok(false),
        _ => Err(format!("{field}: true or false is wanted")),
    }
}

/// How much a model thinks.
pub fn effort(field: &str, value: &Value) -> Result<Effort, String> {
    let said = word(field, value)?;
    said.parse().map_err(|_| format!("effort: `{}` is none: {}", line(&said, EFFORT_CHARS), Effort::NAMES.join(", ")))
}

/// Several texts: as a list, or as one with commas or spaces.
pub fn list(field: &str, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(split(text)),
        Value::Array(items) => items.iter().map(|item| word(field, item)).collect(),
        _ => Err(format!("{field}: a list is wanted")),
    }
}

/// Its words: what stands between commas and spaces outside of brackets.
pub fn split(text: &str) -> Vec<String> {
    let (mut words, mut depth) = (vec![String::new()], 0_u32);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match words.last_mut() {
            Some(word) if depth > 0 || !(c == ',' || c.is_whitespace()) => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// One line of characters that show.
pub fn line(text: &str, most: usize) -> String {
    let (text, _) = hidden::strip(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    hidden::visible_line(&text).chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_person_writes_without_thinking_of_yaml_is_read() {
        let fields = fields("---\ndescription: Use it when: code was changed\ntools: [Read]\n---\nx").unwrap();
        assert_eq!(Value::Object(fields), json!({"description": "Use it when: code was changed", "tools": ["Read"]}));
        let fields = super::fields("---\nargument-hint: [issue] [branch]\ntools: *\npaths: *.rs\n---\nx").unwrap();
        let expected = json!({"argument-hint": "[issue] [branch]", "tools": "*", "paths": "*.rs"});
        assert_eq!(Value::Object(fields), expected);
        assert!(super::fields("---\na: [x, y\n---\nx").is_err());
    }

    /// Every short text of pieces that mean something in YAML: what is read without a parser is what the parser reads.
    #[test]
    fn what_is_plainly_text_is_what_a_parser_reads_too() {
        const PIECES: [&str; 36] = [
            "a", "name", ": ", ":", " ", "  ", "\n", "\r\n", "- ", "-", "---", "...", "true", "Yes", "null", "~", "1",
            "0x1f", "1e3", ".5", "nan", "inf", "#", " #", "'", "\"", "{", "[", "]", "&x", "*x", "!t", "|", "?", ",",
            "`",
        ];
        let mut read = 0;
        let mut check = |yaml: &str| {
            if let Some(fields) = plain(yaml).filter(|_| !yaml.trim().is_empty()) {
                assert_eq!(super::read(&format!("\n{yaml}")), Ok(Value::Object(fields)), "{yaml:?}");
                read += 1;
            }
        };
        for one in PIECES {
            for two in PIECES {
                for three in PIECES {
                    check(&format!("key: {one}{two}{three}"));
                    check(&format!("{one}{two}{three}: words\nb: c"));
                    check(&format!("a: b{one}{two}{three}c: d\n"));
                    check(&format!("name: x {one}{two}\nk-1: y{three}\n"));
                }
            }
        }
        assert!(read > 5_000, "{read}");
        assert!(plain("name: x\nname: y").is_none() && plain("a: on").is_none() && plain("a: 1").is_none());
    }

    #[test]
    fn aliases_stand_for_a_little_and_not_for_much() {
        let fields = super::fields("---\nname: &it x\ntitle: *it\n---\ny").unwrap();
        assert_eq!(fields["title"], "x");
        let mut bomb = "---\na: &a [x, x]\nb0: &b0 [*a, *a]\n".to_owned();
        // Each stands for twice as many words as the one before.
        for at in 1..40 {
            bomb += &format!("b{at}: &b{at} [*b{0}, *b{0}]\n", at - 1);
            let is_read = super::fields(&format!("{bomb}---\nx")).is_ok();
            assert!(if is_read { at < 10 } else { at > 4 }, "{at}");
        }
    }

    #[test]
    fn an_error_has_the_line_of_the_file() {
        let error = fields("---\nname: x\ndescription: \"y\n---\nz").unwrap_err();
        assert!(error.starts_with("its front matter is not valid YAML: line 3 column 14"), "{error}");
        assert_eq!(located("---\na: 1\nb : 2\n---\nb: 3", "b", "why"), "line 3: why");
        assert_eq!(located("---\na: 1\n---\nb: 3", "b", "why"), "why");
    }

    #[test]
    fn a_list_is_one_however_it_is_written() {
        for value in
            [json!("Read, Bash(git diff:*)"), json!("Read Bash(git diff:*)"), json!(["Read", "Bash(git diff:*)"])]
        {
            assert_eq!(list("tools", &value).unwrap(), ["Read", "Bash(git diff:*)"]);
        }
        assert!(list("tools", &json!({"a": 1})).is_err() && list("tools", &Value::Null).unwrap().is_empty());
    }
}
