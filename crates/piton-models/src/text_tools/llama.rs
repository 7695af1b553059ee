//! Llama 3 and 4, whose call is the whole message: JSON (`{"name": "read", "parameters": {…}}`, several with `;`
//! between) or Python (`[read(path="a"), list(path="b")]`), with or without `<|python_tag|>` before it.
//!
//! Nothing marks such a message as a call but its form. So it is held back while it has that form, to its end; whatever
//! loses it (prose after it, another first key, the name of no tool) is text at once.

use super::arguments;
use super::block::{Ending, MESSAGE_ENDS};
use super::hold::{Fit, Marker};
use super::literal::Literals;
use super::reader::{Grammar, Reading, Taken};
use super::schema::Tools;
use super::{Notation, TextCall};
use piton_core::call::CallInput;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

pub(super) struct Llama {
    pub(super) tools: Tools,
    pub(super) notation: Notation,
}

pub(super) const MARKERS: &[Marker] = &[
    Marker::first('{'),
    Marker::first('['),
    Marker::token("<|python_tag|>"),
    Marker::token("<|python_start|>"),
    Marker::noise("<|python_end|>"),
    Marker::noise("<|eot_id|>"),
    Marker::noise("<|eom_id|>"),
    Marker::noise("<|end_of_text|>"),
];

/// What a call in JSON may begin with.
const FIRST_KEYS: [&str; 6] = ["name", "type", "function", "parameters", "arguments", "id"];

impl Grammar for Llama {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, _opener: &str) -> Ending {
        Ending::Message
    }

    fn fit(&self, opener: &str, body: &str) -> Fit {
        let body = body.trim_start();
        if let Some(list) = body.strip_prefix('[') {
            match list.trim_start().chars().next() {
                None => Fit::Maybe,
                Some('{') => self.json_fit(list.trim_start()),
                Some(_) => self.function_fit(list.trim_start()),
            }
        } else if body.starts_with('{') {
            self.json_fit(body)
        } else if opener.is_empty() {
            Fit::No
        } else {
            self.function_fit(body)
        }
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        let body = without_end(taken.body);
        // A message has no end mark: it is over when it is.
        let uncommented = || self.json_calls(&arguments::without_comments(body)?);
        if let Some(calls) = self.json_calls(body).or_else(|| self.python_calls(body)).or_else(uncommented) {
            return Reading::Calls(calls);
        }
        match self.begun(body) {
            Some(name) => Reading::Calls(vec![TextCall { id: None, name, input: unreadable(body) }]),
            None if self.fit(taken.opener, body) == Fit::No => Reading::Prose,
            // All that is there is a bracket.
            None if taken.opener.is_empty() && body.trim().len() == 1 => Reading::Prose,
            None => Reading::Remnant,
        }
    }
}

impl Llama {
    fn json_calls(&self, body: &str) -> Option<Vec<TextCall>> {
        let mut calls = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            values.next()?.ok()?;
            let (object, after) = rest.split_at(values.byte_offset());
            calls.extend(arguments::calls(object, self.notation)?);
            rest = after.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ';' | ',' | '}'));
        }
        let are_offered = calls.iter().all(|call| self.tools.may_offer(&call.name));
        (are_offered && !calls.is_empty()).then_some(calls)
    }

    /// `[f(a=1), g()]`, or one call without the brackets.
    fn python_calls(&self, body: &str) -> Option<Vec<TextCall>> {
        let mut text = Literals::new(body);
        let mut calls = Vec::new();
        if text.take('[') {
            while !text.take(']') {
                calls.push(python_call(&mut text)?);
                if !text.separated_before(']') {
                    return None;
                }
            }
        } else {
            calls.push(python_call(&mut text)?);
        }
        let are_offered = calls.iter().all(|call| self.tools.may_offer(&call.name));
        (text.is_at_end() && are_offered && !calls.is_empty()).then_some(calls)
    }

    /// The tool that an unfinished call names.
    fn begun(&self, body: &str) -> Option<String> {
        let python = body.trim_start().trim_start_matches('[').split_once('(').map(|(name, _)| name.trim());
        let name = arguments::named_in(body).or(python.filter(|name| is_name(name)))?;
        let name = tool_of(name);
        self.tools.may_offer(name).then(|| name.to_owned())
    }

    fn json_fit(&self, body: &str) -> Fit {
        let Some(inner) = body.strip_prefix('{').map(str::trim_start) else { return Fit::Maybe };
        let Some(key) = inner.strip_prefix('"') else { return if inner.is_empty() { Fit::Maybe } else { Fit::No } };
        match key.split_once('"') {
            None if FIRST_KEYS.iter().any(|first| first.starts_with(key)) => Fit::Maybe,
            None => Fit::No,
            Some((key, _)) if !FIRST_KEYS.contains(&key) => Fit::No,
            Some(("name", _)) => match arguments::named_in(body) {
                None => Fit::Maybe,
                Some(name) if self.tools.may_offer(name) => Fit::Yes,
                Some(_) => Fit::No,
            },
            Some(_) => Fit::Yes,
        }
    }

    fn function_fit(&self, body: &str) -> Fit {
        match body.split_once('(') {
            None if is_name(body.trim_end()) || body.is_empty() => Fit::Maybe,
            Some((name, _)) if is_name(name.trim()) && self.tools.may_offer(tool_of(name.trim())) => Fit::Yes,
            None | Some(_) => Fit::No,
        }
    }
}

/// Why a call that was begun cannot be read.
fn unreadable(body: &str) -> CallInput {
    match serde_json::from_str::<IgnoredAny>(body) {
        Ok(_) => arguments::invalid(body, "expected an object with a name and arguments"),
        Err(_) if body.ends_with([')', ']']) => arguments::invalid(body, "not a call with named arguments"),
        Err(_) => arguments::cut(body),
    }
}

/// What Llama 3.1 puts behind the name of a built-in tool: `brave_search.call(query="…")`.
const BUILT_IN: &str = ".call";

fn tool_of(name: &str) -> &str {
    name.strip_suffix(BUILT_IN).unwrap_or(name)
}

fn python_call(text: &mut Literals<'_>) -> Option<TextCall> {
    let name = tool_of(text.name()?);
    let mut object = Map::new();
    if !text.take('(') {
        return None;
    }
    while !text.take(')') {
        let key = text.name()?.to_owned();
        if !text.take('=') || object.insert(key, text.value()?).is_some() || !text.separated_before(')') {
            return None;
        }
    }
    Some(arguments::call(name, CallInput::Json(Value::Object(object))))
}

fn is_name(text: &str) -> bool {
    let is_name_char = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.chars().all(is_name_char)
}

/// The message without the tokens that end it, or the beginning of one.
fn without_end(body: &str) -> &str {
    let mut body = body.trim();
    if let Some(at) = body.rfind('<')
        && MESSAGE_ENDS.iter().any(|token| token.starts_with(&body[at..]))
    {
        body = body[..at].trim();
    }
    while let Some(shorter) = MESSAGE_ENDS.iter().find_map(|token| body.strip_suffix(token)) {
        body = shorter.trim();
    }
    body
}
