//! Mistral's `[TOOL_CALLS]`, in two versions: `[TOOL_CALLS][{"name": "read", "arguments": {…}}]`, and from tokenizer
//! v11 on `[TOOL_CALLS]read[ARGS]{…}`, once per call, with `[CALL_ID]…` in some and without `[ARGS]` where the server
//! dropped that token. The only end mark is the last bracket.

use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker};
use super::reader::{Grammar, Reading, Taken};
use super::{Notation, TextCall};

pub(super) struct Mistral {
    pub(super) notation: Notation,
}

pub(super) const MARKERS: &[Marker] = &[Marker::token("[TOOL_CALLS]"), Marker::noise("</s>")];
const ID: &str = "[CALL_ID]";
const ARGUMENTS: &str = "[ARGS]";

impl Grammar for Mistral {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, _opener: &str) -> Ending {
        Ending::Bracket
    }

    /// A list, or a name up to a bracket.
    fn fit(&self, _opener: &str, body: &str) -> Fit {
        let body = body.trim_start();
        let name_end = body.find(|c: char| !is_name_char(c)).unwrap_or(body.len());
        match body[name_end..].trim_start().chars().next() {
            None => Fit::Maybe,
            Some('{' | '[') => Fit::Yes,
            Some(_) => Fit::No,
        }
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        let body = taken.body.trim();
        if body.starts_with(['[', '{']) {
            let calls = arguments::calls(body, self.notation);
            return Reading::Calls(calls.unwrap_or_else(|| vec![arguments::broken_call(body, taken.end)]));
        }
        let (head, json) = body.split_at(body.find('{').unwrap_or(body.len()));
        let is_head_whole = !json.is_empty() || head.contains('[');
        let head = head.trim().strip_suffix(ARGUMENTS).unwrap_or(head);
        let (name, id) = head.split_once(ID).unwrap_or((head, ""));
        let name = name.split('[').next().unwrap_or_default().trim();
        let input = arguments::read(json, taken.end, self.notation);
        let id = (!json.is_empty() && !id.trim().is_empty()).then(|| id.trim().to_owned());
        let call = arguments::call(if is_head_whole { name } else { "" }, input);
        Reading::Calls(vec![TextCall { id, ..call }])
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}
