//! Qwen3-Coder's markup, in which every argument is bare text:
//!
//! ```text
//! <tool_call>
//! <function=read>
//! <parameter=path>
//! a.txt
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! The model often forgets `<tool_call>`. Llama 3.1's `<function=read>{"path": "a.txt"}</function>` is read, too.

use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker};
use super::reader::{End, Grammar, Reading, Taken};
use super::schema::Tools;
use super::{Notation, TextCall};
use piton_core::call::CallInput;
use serde_json::Map;

pub(super) struct QwenCoder {
    pub(super) tools: Tools,
    pub(super) notation: Notation,
}

const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

pub(super) const MARKERS: &[Marker] = &[
    Marker::tag("tool_call"),
    Marker::token(FUNCTION),
    // Left over where the opening tag was forgotten.
    Marker::noise("</tool_call>"),
    Marker::noise("<|im_end|>"),
];

impl Grammar for QwenCoder {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, opener: &str) -> Ending {
        if opener == FUNCTION {
            Ending::Markup { mark: FUNCTION_END, after: &[PARAMETER_END], holds: PARAMETER }
        } else {
            Ending::Markup { mark: "</tool_call>", after: &[FUNCTION_END, PARAMETER_END], holds: FUNCTION }
        }
    }

    fn fit(&self, opener: &str, body: &str) -> Fit {
        if opener == FUNCTION {
            return name_fit(body);
        }
        body_fit(body)
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        if taken.opener == FUNCTION {
            return Reading::Calls(vec![self.call(taken.body, taken.end)]);
        }
        let mut calls = Vec::new();
        let mut rest = taken.body;
        while let Some((_, function)) = rest.split_once(FUNCTION) {
            let (function, end, after) = function_at(function, taken.end);
            calls.push(self.call(function, end));
            rest = after;
        }
        if calls.is_empty() {
            calls.push(arguments::broken_call(taken.body, taken.end));
        }
        Reading::Calls(calls)
    }
}

impl QwenCoder {
    /// What follows `<function=`, without its end.
    fn call(&self, text: &str, end: End) -> TextCall {
        let Some((name, mut rest)) = text.split_once('>') else {
            return TextCall { id: None, name: String::new(), input: arguments::cut(text) };
        };
        let name = name.trim().trim_matches('"');
        if rest.trim_start().starts_with('{') {
            return arguments::call(name, arguments::read(rest, end, self.notation));
        }
        if end == End::Cut {
            return TextCall { id: None, name: name.to_owned(), input: arguments::cut(rest) };
        }
        let mut object = Map::new();
        while let Some((_, parameter)) = rest.split_once(PARAMETER) {
            let Some((parameter, after)) = parameter_at(parameter) else {
                return arguments::call(name, arguments::invalid(text, "a parameter without its end"));
            };
            let Some((key, value)) = parameter.split_once('>') else {
                return arguments::call(name, arguments::invalid(text, "a parameter without a name"));
            };
            let key = key.trim().trim_matches('"');
            object.insert(key.to_owned(), self.tools.value(name, key, without_layout(value)));
            rest = after;
        }
        arguments::call(name, CallInput::Json(object.into()))
    }
}

/// What may follow `<tool_call>`.
pub(super) fn body_fit(body: &str) -> Fit {
    match body.trim_start() {
        body if body.starts_with(FUNCTION) || body.starts_with("</") => Fit::Yes,
        body if FUNCTION.starts_with(body) || "</".starts_with(body) => Fit::Maybe,
        _ => Fit::No,
    }
}

/// A function up to its end, how it came to it, and what follows. Its end mark may be forgotten, not in a block that was
/// cut: there it may be in what is missing, and another function in the words of an argument.
fn function_at(text: &str, block: End) -> (&str, End, &str) {
    if let Some((function, after)) = at_mark(text, FUNCTION_END, FUNCTION) {
        return (function, End::Closed, after);
    }
    let is_over = |before: &str| before.trim_end().ends_with(PARAMETER_END) || !before.contains(PARAMETER);
    let next = text.match_indices(FUNCTION).map(|(at, _)| at).find(|at| is_over(&text[..*at]));
    match next.filter(|_| block == End::Closed) {
        Some(at) => (&text[..at], End::Closed, &text[at..]),
        None => (text, block, ""),
    }
}

/// A parameter up to its end, and what follows. `None`: it has none, and what there is of it may be a part. The model
/// forgot the end mark if another parameter follows.
fn parameter_at(text: &str) -> Option<(&str, &str)> {
    at_mark(text, PARAMETER_END, PARAMETER).or_else(|| text.find(PARAMETER).map(|at| text.split_at(at)))
}

/// What stands before the end mark, and what after it. It counts where nothing or another element follows.
fn at_mark<'t>(text: &'t str, mark: &str, next: &str) -> Option<(&'t str, &'t str)> {
    let ends = |after: &str| {
        let after = after.trim_start();
        after.is_empty() || after.starts_with(next) || after.starts_with("</")
    };
    let mut marks = text.match_indices(mark).map(|(at, mark)| (&text[..at], &text[at + mark.len()..]));
    marks.find(|(_, after)| ends(after))
}

/// The line breaks next to the tags are the template's, all others the model's.
fn without_layout(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// A function's name up to its `>`.
fn name_fit(body: &str) -> Fit {
    let name = body.split('>').next().unwrap_or_default();
    let is_name = name.chars().all(|c| c.is_alphanumeric() || "_-.:\" ".contains(c));
    match (is_name, name.len() == body.len()) {
        (false, _) => Fit::No,
        (true, true) => Fit::Maybe,
        (true, false) => Fit::Yes,
    }
}
