//! What a call will be about, as far as its model has written the arguments: the name of a file, a command, a change that grows.
//! The arguments are JSON that has not come to its end, so they are read as if they ended here.

use crate::call::CallKind;
use serde_json::Value;

/// Bytes of arguments that are read while they arrive. Of longer ones the end is shown as it comes.
const MOST_READ: usize = 256 << 10;

/// The fields that name a file, in the spellings of models.
pub(super) const PATHS: [&str; 4] = ["path", "filePath", "file_path", "file"];
/// The fields of a change that are taken away and put there, in the spellings of models.
const OLD: [&str; 5] = ["old_string", "oldString", "old", "old_text", "oldText"];
const NEW: [&str; 6] = ["new_string", "newString", "new", "new_text", "newText", "content"];
const PATCH: [&str; 4] = ["patch", "input", "patchText", "patch_text"];

/// Arguments that are under way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The command, the path or the pattern, as far as it is there; empty where none of these is.
    pub about: String,
    /// The change as lines of a diff, each with its sign. The last one may not be whole.
    pub diff: Vec<String>,
}

impl Written {
    /// What these arguments of a call of this kind say so far; `None` where they cannot be understood yet.
    pub(super) fn of(kind: CallKind, raw: &str) -> Option<Self> {
        let value = so_far(raw)?;
        let about = named(&value).unwrap_or_default().to_owned();
        let mut diff = Vec::new();
        if kind == CallKind::Edit {
            changes(&value, &mut diff);
            let edits = value.get("edits").and_then(Value::as_array);
            edits.into_iter().flatten().for_each(|edit| changes(edit, &mut diff));
        }
        Some(Self { about, diff })
    }
}

/// The command, the path or the pattern of an input, if it has one.
pub(super) fn named(input: &Value) -> Option<&str> {
    let telling = ["command"].into_iter().chain(PATHS).chain(["pattern"]);
    telling.filter_map(|name| input.get(name)?.as_str()).next()
}

/// The lines that an object of fields takes away and puts there.
fn changes(value: &Value, diff: &mut Vec<String>) {
    let text = |names: &[&str]| names.iter().find_map(|name| value.get(*name)?.as_str());
    for (names, sign) in [(&OLD[..], '-'), (&NEW[..], '+')] {
        diff.extend(text(names).unwrap_or_default().lines().map(|line| format!("{sign}{line}")));
    }
    diff.extend(text(&PATCH).unwrap_or_default().lines().map(str::to_owned));
}

/// JSON that was cut off, as if it ended there: what is open is closed, and a value that has not begun is none.
fn so_far(raw: &str) -> Option<Value> {
    if raw.len() > MOST_READ || !raw.trim_start().starts_with('{') {
        return None;
    }
    let (mut closers, mut in_string, mut escaped) = (Vec::new(), false, false);
    for byte in raw.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' if !in_string => closers.push('}'),
            b'[' if !in_string => closers.push(']'),
            b'}' | b']' if !in_string => drop(closers.pop()),
            _ => {}
        }
    }
    let mut text = raw.trim_end_matches(|char: char| !in_string && char.is_whitespace()).to_owned();
    if in_string {
        text.truncate(whole_characters(&text, escaped));
        text.push('"');
    } else {
        // A comma, or a number or a word that may go on, is left out.
        let is_open =
            |char: char| char == ',' || char == '-' || char == '.' || char == '+' || char.is_ascii_alphanumeric();
        text.truncate(text.trim_end_matches(is_open).len());
    }
    let closing: String = closers.iter().rev().collect();
    // The string may be a name without a value, or a value may be missing behind its name.
    ["", ":null", "null"].iter().find_map(|value| serde_json::from_str(&format!("{text}{value}{closing}")).ok())
}

/// How much of an open string is whole: no escape is cut, and no half of a character in two escapes.
fn whole_characters(text: &str, escaped: bool) -> usize {
    let mut end = text.len() - usize::from(escaped);
    // `\u12`, `\ud83d`, `\ud83d\ude`: at most twelve bytes.
    loop {
        let tail = &text[text.ceil_char_boundary(end.saturating_sub(6))..end];
        let Some(at) = tail.rfind("\\u") else { return end };
        let begin = end - tail.len() + at;
        // `\\u` is a backslash and a letter.
        let backslashes = text[..=begin].bytes().rev().take_while(|byte| *byte == b'\\').count();
        let digits = &text[begin + 2..end];
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let first = digits.to_ascii_lowercase();
        let is_half = digits.len() == 4 && ["d8", "d9", "da", "db"].iter().any(|half| first.starts_with(half));
        if backslashes % 2 == 0 || !is_hex || (digits.len() == 4 && !is_half) {
            return end;
        }
        end = begin;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whatever_of_the_arguments_is_there_is_read_and_never_taken_back() {
        let whole = json!({
            "path": "src/größe \"q\".rs",
            "old_string": "a\\b\n\u{1f600}\tx",
            "new_string": "new\nlines 漢字",
            "count": 12.5e3, "flag": true, "list": [1, {"a": null}],
        });
        // Characters as they are, and as escapes.
        let plain = whole.to_string();
        let escaped: String = plain
            .chars()
            .map(|char| match char {
                char if char.is_ascii() => char.to_string(),
                char => char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
            })
            .collect();
        for text in [plain, escaped] {
            let mut before = Written::default();
            for end in (1..=text.len()).filter(|end| text.is_char_boundary(*end)) {
                let now = Written::of(CallKind::Edit, &text[..end]).unwrap_or_else(|| panic!("{}", &text[..end]));
                assert!(now.about.starts_with(&before.about), "{} was {}", now.about, before.about);
                let grows = before.diff.iter().zip(&now.diff).all(|(before, now)| now.starts_with(before));
                assert!(now.diff.len() >= before.diff.len() && grows, "{:?} was {:?}", now.diff, before.diff);
                before = now;
            }
            let diff = ["-a\\b", "-\u{1f600}\tx", "+new", "+lines 漢字"].map(str::to_owned).to_vec();
            assert_eq!(before, Written { about: "src/größe \"q\".rs".to_owned(), diff });
        }
    }

    #[test]
    fn a_command_a_patch_and_several_edits_are_known_before_they_are_whole() {
        let of = |kind, raw: &str| Written::of(kind, raw);
        assert_eq!(of(CallKind::Execute, "{\"command\": \"cargo te").unwrap().about, "cargo te");
        let patch = "{\"patch\":\"*** Begin Patch\\n*** Update File: a\\n@@\\n-x\\n+y";
        assert_eq!(of(CallKind::Edit, patch).unwrap().diff.len(), 5);
        let edits = "{\"path\":\"a\",\"edits\":[{\"old_string\":\"x\",\"new_string\":\"y\"},{\"old_string\":\"z";
        assert_eq!(of(CallKind::Edit, edits).unwrap().diff, ["-x", "+y", "-z"]);
        assert_eq!(of(CallKind::Edit, "no JSON"), None);
        assert_eq!(of(CallKind::Edit, ""), None);
        assert_eq!(of(CallKind::Read, "{\"path\":\"\\\\u00").unwrap().about, "\\u00", "a backslash, and no escape");
    }
}
