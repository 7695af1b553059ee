//! Values as models write them where they do not write JSON: Python literals and relaxed JSON.
//!
//! `{'city': "LA", n: 1, passed: True, role: None,} // a comment` is read; half a value never is. Only the notation is relaxed:
//! nothing is guessed, closed or left out.

use serde_json::{Map, Number, Value};

/// A text being read from the front.
#[derive(Debug, Clone)]
pub(super) struct Literals<'t> {
    rest: &'t str,
}

/// Deeper nesting than any argument has.
const MOST_DEPTH: usize = 64;

/// The whole text as one value.
pub(super) fn value(text: &str) -> Option<Value> {
    let mut literals = Literals::new(text);
    let value = literals.value()?;
    literals.is_at_end().then_some(value)
}

impl<'t> Literals<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: text }
    }

    pub(super) fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest.is_empty()
    }

    /// Takes this character, if it is next.
    pub(super) fn take(&mut self, c: char) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A name: of a function, an argument or a key.
    pub(super) fn name(&mut self) -> Option<&'t str> {
        self.skip_space();
        let end = self.rest.find(|c: char| !is_name_char(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
    }

    pub(super) fn value(&mut self) -> Option<Value> {
        self.nested(MOST_DEPTH)
    }

    fn nested(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        self.skip_space();
        match self.rest.chars().next()? {
            '{' => self.object(depth).map(Value::Object),
            '[' => self.list('[', ']', depth).map(Value::Array),
            '(' => self.list('(', ')', depth).map(Value::Array),
            '"' | '\'' => self.string().map(Value::String),
            '-' | '0'..='9' => self.number().map(Value::Number),
            _ => match self.name()? {
                "True" | "true" => Some(Value::Bool(true)),
                "False" | "false" => Some(Value::Bool(false)),
                "None" | "null" => Some(Value::Null),
                _ => None,
            },
        }
    }

    fn object(&mut self, depth: usize) -> Option<Map<String, Value>> {
        let mut object = Map::new();
        self.take('{');
        while !self.take('}') {
            self.skip_space();
            let key = if self.rest.starts_with(['"', '\'']) { self.string()? } else { self.name()?.to_owned() };
            if !self.take(':') {
                return None;
            }
            let value = self.nested(depth)?;
            // Two values for one key: which one was meant is anybody's guess.
            if object.insert(key, value).is_some() || !self.separated_before('}') {
                return None;
            }
        }
        Some(object)
    }

    fn list(&mut self, open: char, close: char, depth: usize) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        self.take(open);
        while !self.take(close) {
            values.push(self.nested(depth)?);
            if !self.separated_before(close) {
                return None;
            }
        }
        Some(values)
    }

    /// A comma, or the end that needs none.
    pub(super) fn separated_before(&mut self, close: char) -> bool {
        self.take(',') || self.rest.starts_with(close)
    }

    fn string(&mut self) -> Option<String> {
        let mut chars = self.rest.chars();
        let quote = chars.next()?;
        let mut text = String::new();
        loop {
            match chars.next()? {
                c if c == quote => break,
                '\\' => escape(&mut chars, &mut text)?,
                c => text.push(c),
            }
        }
        self.rest = chars.as_str();
        Some(text)
    }

    fn number(&mut self) -> Option<Number> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str(number).ok()
    }

    /// Passes over white space and comments.
    fn skip_space(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let behind = if let Some(comment) = self.rest.strip_prefix("/*") {
                comment.split_once("*/").map(|(_, rest)| rest)
            } else if self.rest.starts_with("//") || self.rest.starts_with('#') {
                Some(self.rest.split_once('\n').map_or("", |(_, rest)| rest))
            } else {
                None
            };
            match behind {
                Some(rest) => self.rest = rest,
                None => return,
            }
        }
    }
}

/// What follows a backslash. One that means nothing stands for itself, as in Python.
fn escape(chars: &mut std::str::Chars<'_>, text: &mut String) -> Option<()> {
    let c = chars.next()?;
    match c {
        'n' => text.push('\n'),
        't' => text.push('\t'),
        'r' => text.push('\r'),
        'b' => text.push('\u{8}'),
        'f' => text.push('\u{c}'),
        '0' => text.push('\0'),
        '\n' => {}
        '"' | '\'' | '\\' | '/' => text.push(c),
        'x' => text.push(char::from_u32(hex(chars, 2)?)?),
        'u' => {
            let mut code = hex(chars, 4)?;
            if (0xD800..0xDC00).contains(&code) {
                let low = chars.as_str().strip_prefix("\\u")?;
                *chars = low.chars();
                let low = hex(chars, 4)?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
                code = 0x10000 + ((code - 0xD800) << 10) + low;
            }
            text.push(char::from_u32(code)?);
        }
        _ => text.extend(['\\', c]),
    }
    Some(())
}

fn hex(chars: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |code, _| Some(code * 16 + chars.next()?.to_digit(16)?))
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn python_literals_are_read() {
        let text = r#"{'city': 'Martha\'s', "n": -1.5, 'on': True, 'role': None, 't': (1, 2), 'e': {}, 'u': '\u00e9\ud83d\ude00\x41'}"#;
        let wanted =
            json!({"city": "Martha's", "n": -1.5, "on": true, "role": null, "t": [1, 2], "e": {}, "u": "é😀A"});
        assert_eq!(value(text), Some(wanted));
    }

    #[test]
    fn relaxed_json_is_read() {
        assert_eq!(value("{file_path: 'a.txt',}"), Some(json!({"file_path": "a.txt"})));
        assert_eq!(value("{\"a\": \"x\ny\"}"), Some(json!({"a": "x\ny"})));
    }

    #[test]
    fn half_a_value_is_none() {
        for text in ["{'a': 1", "['a'", "'a", "{a:}", "{a: b}", "1 2", "", "{'a': 1, 'a': 2}", "[,]", "\"\\u12"] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(value(&"[".repeat(100_000)), None);
    }
}
