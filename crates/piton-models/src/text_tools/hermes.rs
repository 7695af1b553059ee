//! `<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>`: Hermes, and Qwen up to 3.

use super::Notation;
use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker};
use super::reader::{End, Grammar, Reading, Taken};

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
        /// Longer than what a model says before its call, and not long to wait for prose.
        const MOST_WORDS_BYTES: usize = 100;
        let body = body.trim_start();
        match body.chars().next() {
            None => return Fit::Maybe,
            // A list, a CDATA section or a closing tag, too.
            Some('{' | '[' | '`') => return Fit::Yes,
            Some('<') if ["<![CDATA[", "</"].iter().any(|mark| body.starts_with(mark)) => return Fit::Yes,
            Some(_) => {}
        }
        match body.find('{') {
            Some(at) => object_fit(&body[at..]),
            None if body.len() > MOST_WORDS_BYTES || body.contains("</") => Fit::No,
            None => Fit::Maybe,
        }
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        let Some((words, json)) = parts(taken.body) else { return Reading::Prose };
        // Behind words, only the end mark says that this was a call.
        let calls = (words.is_empty() || taken.end == End::Closed).then(|| arguments::calls(json, self.notation));
        Reading::Calls(calls.flatten().unwrap_or_else(|| vec![arguments::broken_call(json, taken.end)]))
    }
}

/// Whether this is an object that is a call, by its first key.
fn object_fit(text: &str) -> Fit {
    const KEYS: [&str; 6] = ["\"name\"", "\"arguments\"", "\"parameters\"", "\"function\"", "\"type\"", "\"id\""];
    let inner = text.trim_start_matches('{').trim_start();
    if KEYS.iter().any(|key| inner.starts_with(key)) {
        Fit::Yes
    } else if KEYS.iter().any(|key| key.starts_with(inner)) {
        Fit::Maybe
    } else {
        Fit::No
    }
}

/// The words before the call (`sure, here:`, `// read it`, `<json>`), and the call. `None`: there are only words.
fn parts(body: &str) -> Option<(&str, &str)> {
    let body = body.trim();
    if body.is_empty() || body.starts_with(['{', '[', '`']) || body.starts_with("<![CDATA[") || body.starts_with("</") {
        return Some(("", body));
    }
    body.find('{').map(|at| body.split_at(at))
}
