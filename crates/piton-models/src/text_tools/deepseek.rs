//! DeepSeek's tokens, in two versions. V3 and R1 write the kind, the name and fenced JSON, V3.1 the name and JSON:
//!
//! ````text
//! <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read
//! ```json
//! {"path":"a"}
//! ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//! <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path":"a"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//! ````

use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker, token_at_end};
use super::reader::{End, Grammar, Reading, Taken};
use super::{Notation, TextCall};

pub(super) struct DeepSeek {
    pub(super) notation: Notation,
}

const SEPARATOR: &str = "<｜tool▁sep｜>";

pub(super) const MARKERS: &[Marker] = &[
    Marker::token("<｜tool▁call▁begin｜>"),
    Marker::noise("<｜tool▁calls▁begin｜>"),
    Marker::noise("<｜tool▁calls▁end｜>"),
    Marker::noise("<｜tool▁call▁end｜>"),
    Marker::noise("<｜end▁of▁sentence｜>"),
];

impl Grammar for DeepSeek {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, _opener: &str) -> Ending {
        Ending::Json(&["<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"])
    }

    fn fit(&self, _opener: &str, _body: &str) -> Fit {
        Fit::Yes
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        let Some((head, rest)) = separated(taken.body) else {
            let input = match taken.end {
                End::Cut => arguments::cut(taken.body),
                End::Closed => arguments::invalid(taken.body, "a call without arguments"),
            };
            return Reading::Calls(vec![TextCall { id: None, name: String::new(), input }]);
        };
        // V3's name stands on a line of its own, V3.1's JSON follows its separator at once.
        let (name, json) = match rest.find(['{', '`']) {
            Some(at) if rest[..at].trim().is_empty() => (head, rest),
            Some(at) => rest.split_at(at),
            None if head.trim() == "function" => (rest.split('\n').next().unwrap_or_default(), ""),
            None => (head, rest),
        };
        let is_name_cut = taken.end == End::Cut && json.is_empty();
        let name = if is_name_cut && !rest.contains('\n') && head.trim() == "function" { "" } else { name.trim() };
        Reading::Calls(vec![arguments::call(name, arguments::read(json, taken.end, self.notation))])
    }
}

/// The text before and after the separator, in any of its spellings.
fn separated(body: &str) -> Option<(&str, &str)> {
    let ends = body.match_indices('>').map(|(at, mark)| at + mark.len());
    let (start, end) =
        ends.filter_map(|end| token_at_end(SEPARATOR, &body[..end]).map(|length| (end - length, end))).next()?;
    Some((&body[..start], &body[end..]))
}
