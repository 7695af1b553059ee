//! GLM from 4.5 on, in which every argument is bare text:
//!
//! ```text
//! <tool_call>read
//! <arg_key>path</arg_key>
//! <arg_value>a.txt</arg_value>
//! </tool_call>
//! ```

use super::TextCall;
use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker};
use super::reader::{End, Grammar, Reading, Taken};
use super::schema::Tools;
use piton_core::call::CallInput;
use serde_json::{Map, Value};

pub(super) struct Glm {
    pub(super) tools: Tools,
}

const KEY: &str = "<arg_key>";
const VALUE: &str = "<arg_value>";
const VALUE_END: &str = "</arg_value>";

pub(super) const MARKERS: &[Marker] =
    &[Marker::tag("tool_call"), Marker::noise("<|observation|>"), Marker::noise("<|user|>")];

impl Grammar for Glm {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, _opener: &str) -> Ending {
        Ending::Markup { mark: "</tool_call>", after: &[VALUE_END], holds: KEY }
    }

    fn fit(&self, _opener: &str, body: &str) -> Fit {
        body_fit(body)
    }

    /// Cut, it may have had further arguments: only the end mark tells.
    fn read(&self, taken: &Taken<'_>) -> Reading {
        let (name, arguments) = taken.body.split_at(taken.body.find('<').unwrap_or(taken.body.len()));
        let name = name.trim();
        let input = match taken.end {
            End::Cut => arguments::cut(taken.body),
            End::Closed => match self.object(name, arguments) {
                Some(object) => CallInput::Json(Value::Object(object)),
                None => arguments::invalid(taken.body, "not pairs of <arg_key> and <arg_value>"),
            },
        };
        Reading::Calls(vec![named(name, taken.end, input)])
    }
}

/// A name, then a tag.
pub(super) fn body_fit(body: &str) -> Fit {
    let body = body.trim_start();
    let name_end = body.find(|c: char| !is_name_char(c)).unwrap_or(body.len());
    let (name, rest) = body.split_at(name_end);
    match rest.trim_start() {
        "" => Fit::Maybe,
        rest if rest.starts_with('<') && !name.is_empty() => Fit::Yes,
        _ => Fit::No,
    }
}

/// A name that the text was cut in is not known.
fn named(name: &str, end: End, input: CallInput) -> TextCall {
    match end {
        End::Closed => arguments::call(name, input),
        End::Cut => TextCall { id: None, name: name.to_owned(), input },
    }
}

impl Glm {
    /// The arguments. `None`: they are not pairs of key and value.
    fn object(&self, tool: &str, text: &str) -> Option<Map<String, Value>> {
        let mut object = Map::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (key, after) = rest.strip_prefix(KEY)?.split_once("</arg_key>")?;
            let value_on = after.trim_start().strip_prefix(VALUE)?;
            let (value, after) = value(value_on)?;
            let key = key.trim();
            object.insert(key.to_owned(), self.tools.value(tool, key, value));
            rest = after.trim();
        }
        Some(object)
    }
}

/// A value, up to an end mark behind which nothing or another key stands.
fn value(text: &str) -> Option<(&str, &str)> {
    let ends = |after: &str| after.trim_start().is_empty() || after.trim_start().starts_with(KEY);
    let mut marks = text.match_indices(VALUE_END).map(|(at, mark)| (&text[..at], &text[at + mark.len()..]));
    marks.find(|(_, after)| ends(after))
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}
