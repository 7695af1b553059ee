//! Kimi K2's tokens:
//! `<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{…}<|tool_call_end|>…`.
//!
//! The text before the arguments is the call's id; the model wants it back as it wrote it.

use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker};
use super::reader::{End, Grammar, Reading, Taken};
use super::{Notation, TextCall};

pub(super) struct Kimi {
    pub(super) notation: Notation,
}

const ARGUMENTS: &str = "<|tool_call_argument_begin|>";

pub(super) const MARKERS: &[Marker] = &[
    Marker::token("<|tool_call_begin|>"),
    Marker::noise("<|tool_calls_section_begin|>"),
    Marker::noise("<|tool_calls_section_end|>"),
    Marker::noise("<|tool_call_section_begin|>"),
    Marker::noise("<|tool_call_section_end|>"),
    Marker::noise("<|tool_call_end|>"),
    Marker::noise("<|im_end|>"),
];

impl Grammar for Kimi {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, _opener: &str) -> Ending {
        Ending::Json(&["<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_section_end|>"])
    }

    fn fit(&self, _opener: &str, _body: &str) -> Fit {
        Fit::Yes
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        let Some((id, json)) = taken.body.split_once(ARGUMENTS) else {
            let input = match taken.end {
                End::Cut => arguments::cut(taken.body),
                End::Closed => arguments::invalid(taken.body, "a call without arguments"),
            };
            return Reading::Calls(vec![TextCall { id: None, name: String::new(), input }]);
        };
        let id = id.trim();
        let name = id.strip_prefix("functions.").unwrap_or(id);
        let name = match name.rsplit_once(':') {
            Some((name, position)) if position.chars().all(|c| c.is_ascii_digit()) => name,
            Some(_) | None => name,
        };
        let call = arguments::call(name, arguments::read(json, taken.end, self.notation));
        Reading::Calls(vec![TextCall { id: (!id.is_empty()).then(|| id.to_owned()), ..call }])
    }
}
