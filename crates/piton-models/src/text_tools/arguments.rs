//! Arguments in a text, and calls written as JSON objects: what may be run, and what is only shown to the model.
//!
//! The rule for all dialects: a call runs if its arguments are a whole JSON object. Where the text was cut behind that
//! object, only closing marks are missing, and those say nothing: many servers strip them, since the model's stop
//! token is one of them. Cut anywhere before, it is not known what was meant, and the call never runs.

use super::literal;
use super::reader::End;
use super::{Notation, TextCall};
use piton_core::call::CallInput;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// Why a call that was cut off is not run.
const CUT: &str = "the reply ended before the call did";
/// Why a call without a name is not run.
const NAMELESS: &str = "the call does not say which tool";

/// The arguments of a call.
pub(super) fn read(raw: &str, end: End, notation: Notation) -> CallInput {
    let text = unwrapped(raw);
    match end {
        End::Cut => match whole_object(text).or_else(|| whole_object(&without_comments(text)?)) {
            Some(object) => CallInput::Json(object),
            None => cut(text),
        },
        End::Closed => {
            let input = CallInput::parse(text);
            if matches!(input, CallInput::Json(_)) {
                return input;
            }
            let decoded = entities_decoded(text).map(|text| CallInput::parse(&text));
            let readable = decoded.filter(|input| matches!(input, CallInput::Json(_)));
            let readable = readable.or_else(|| plain(text).filter(Value::is_object).map(CallInput::Json));
            readable.or_else(|| relaxed(text, notation)).unwrap_or(input)
        }
    }
}

/// A call that the text did not finish, or not where it could have ended.
pub(super) fn cut(raw: &str) -> CallInput {
    match serde_json::from_str::<IgnoredAny>(raw.trim()) {
        Err(error) if raw.trim_start().starts_with('{') && !error.is_eof() => not_json(raw, &error),
        Ok(_) | Err(_) => invalid(raw, CUT),
    }
}

fn not_json(raw: &str, error: &serde_json::Error) -> CallInput {
    invalid(raw, &format!("not valid JSON: {error}"))
}

/// Arguments that are not run.
pub(super) fn invalid(raw: &str, error: &str) -> CallInput {
    /// Enough to see what went wrong, little enough not to flood the journal.
    const SHOWN_CHARS: usize = 2_000;
    CallInput::Invalid { raw: raw.trim().chars().take(SHOWN_CHARS).collect(), error: error.to_owned() }
}

/// A call of this tool. Without a name it is not run.
pub(super) fn call(name: &str, input: CallInput) -> TextCall {
    let input = match input {
        CallInput::Json(value) if name.is_empty() => invalid(&value.to_string(), NAMELESS),
        input @ (CallInput::Json(_) | CallInput::Invalid { .. }) => input,
    };
    TextCall { id: None, name: name.to_owned(), input }
}

/// Calls written as an object, or as a list of them. `None`: that is not what the text is.
pub(super) fn calls(text: &str, notation: Notation) -> Option<Vec<TextCall>> {
    let text = unwrapped(text);
    let value = match plain(text) {
        Some(value) => value,
        None if notation == Notation::Relaxed => literal::value(text)?,
        None => return None,
    };
    match value {
        Value::Array(values) => values.into_iter().map(of_object).collect(),
        value => Some(vec![of_object(value)?]),
    }
}

/// The call that a text would have been, to tell the model about it.
pub(super) fn broken_call(text: &str, end: End) -> TextCall {
    let text = unwrapped(text);
    let input = match (end, serde_json::from_str::<Value>(text)) {
        (End::Cut, _) => cut(text),
        (End::Closed, Ok(_)) => invalid(text, "expected an object with a name and arguments"),
        (End::Closed, Err(error)) => not_json(text, &error),
    };
    TextCall { id: None, name: named_in(text).unwrap_or_default().to_owned(), input }
}

/// The value of the text's first `"name": "…"`.
pub(super) fn named_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("\"name\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(name, _)| name)
}

/// `{"name", "arguments"}`, with the other words for it that models use.
fn of_object(value: Value) -> Option<TextCall> {
    let Value::Object(mut object) = value else { return None };
    if let Some(Value::Object(function)) = object.get_mut("function") {
        let function = std::mem::take(function);
        object.extend(function);
    }
    let Some(Value::String(name)) = object.remove("name") else { return None };
    let arguments = ["arguments", "parameters"].into_iter().find_map(|key| object.remove(key));
    let input = match arguments {
        None => CallInput::Json(Value::Object(Map::new())),
        Some(Value::String(text)) => CallInput::parse(&text),
        Some(value) => CallInput::from_value(value),
    };
    let id = match object.remove("id") {
        Some(Value::String(id)) if !id.is_empty() => Some(id),
        Some(_) | None => None,
    };
    Some(TextCall { id, ..call(name.trim(), input) })
}

/// The object that the text is, if only closing marks are missing behind it.
fn whole_object(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let rest = text[values.byte_offset()..].trim_start();
    let is_end_mark = rest.is_empty() || rest.starts_with(['<', '`', ']']);
    (value.is_object() && is_end_mark).then_some(value)
}

/// The value that the text is, save for comments in it and marks behind it that close nothing.
fn plain(text: &str) -> Option<Value> {
    closed_too_often(text).or_else(|| closed_too_often(&without_comments(text)?))
}

/// The whole value that the text begins with, if nothing but closing brackets and a closing tag follows it.
fn closed_too_often(text: &str) -> Option<Value> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    let rest = text[values.byte_offset()..].trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '}' | ']'));
    let is_tag = |rest: &str| rest.starts_with("</") && rest.find('>') == Some(rest.len() - 1);
    (rest.is_empty() || is_tag(rest.trim_end())).then_some(value)
}

/// The text without its comments, if it has any. What stands in a JSON string is none.
pub(super) fn without_comments(text: &str) -> Option<String> {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        let behind = match c {
            _ if in_string => None,
            '/' if rest.starts_with("/*") => Some(rest[2..].split_once("*/").map_or("", |(_, behind)| behind)),
            '#' => Some(&rest[rest.find('\n').unwrap_or(rest.len())..]),
            '/' if rest.starts_with("//") => Some(&rest[rest.find('\n').unwrap_or(rest.len())..]),
            _ => None,
        };
        if let Some(behind) = behind {
            kept.push(' ');
            rest = behind;
            continue;
        }
        let length = match c {
            '\\' if in_string => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            c => c.len_utf8(),
        };
        in_string ^= c == '"';
        kept.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    (kept != text).then_some(kept)
}

/// Other notations for the same value. Never completes one.
fn relaxed(text: &str, notation: Notation) -> Option<CallInput> {
    match notation {
        Notation::Json => None,
        Notation::Relaxed => {
            let text = text.trim_end_matches("\\n").trim_end();
            literal::value(text).filter(Value::is_object).map(CallInput::Json)
        }
    }
}

/// Without CDATA or a code fence around it.
fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let text = text.strip_prefix("<![CDATA[").map_or(text, |text| text.strip_suffix("]]>").unwrap_or(text).trim());
    let Some(fenced) = text.strip_prefix("```") else { return text };
    let inside = fenced.split_once('\n').map_or("", |(_, inside)| inside);
    inside.trim_end().strip_suffix("```").unwrap_or(inside).trim()
}

/// The text with its XML entities read, if it has any.
pub(super) fn entities_decoded(text: &str) -> Option<String> {
    const ENTITIES: [(&str, &str); 6] =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    let has_any = ENTITIES.iter().any(|(entity, _)| text.contains(entity));
    // The ampersand last: `&amp;lt;` is `&lt;`.
    has_any.then(|| ENTITIES.iter().fold(text.to_owned(), |text, (entity, plain)| text.replace(entity, plain)))
}
