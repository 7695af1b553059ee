//! `<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>`: Hermes, and Qwen up to 3.

use super::Notation;
use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker};
use super::reader::{Grammar, Reading, Taken};

pub(super) struct Hermes {
    pub(super) notation: Notation,
}

pub(super) const MARKERS: &[Marker] = &[Marker::tag("tool_call"), Marker::noise("<|im_end|>")];

impl Grammar for Hermes {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, _opener: &str) -> Ending {
        Ending::Json(&["</tool_call>"])
    }

    fn fit(&self, _opener: &str, body: &str) -> Fit {
        match body.trim_start().chars().next() {
            None => Fit::Maybe,
            // A list, a CDATA section or a closing tag, too.
            Some('{' | '[' | '<' | '`') => Fit::Yes,
            Some(_) => Fit::No,
        }
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        let calls = arguments::calls(taken.body, self.notation);
        Reading::Calls(calls.unwrap_or_else(|| vec![arguments::broken_call(taken.body, taken.end)]))
    }
}
