//! `<use_tool><tool_name>read</tool_name><arguments>{"path":"a"}</arguments></use_tool>`: our own text tool protocol.
//!
//! Read more kindly than it is taught: white space and attributes anywhere, `<name>` and `<argument>` for the inner
//! tags, CDATA, a code fence or XML entities around or in the JSON, no arguments at all, arguments before the name, and
//! other tags or words between the two.
//!
//! A call that the text does not close runs if its JSON is whole, or if `</arguments>` was seen; see `arguments`.

use super::arguments;
use super::block::Ending;
use super::hold::{Fit, Marker};
use super::reader::{End, Grammar, Reading, Taken};
use super::{Notation, TextCall};
use piton_core::call::CallInput;

/// The dialect that we teach.
pub(super) struct UseTool {
    pub(super) notation: Notation,
}

pub(super) const MARKERS: &[Marker] = &[Marker::tag("use_tool")];
const NAME_TAGS: [&str; 2] = ["tool_name", "name"];
const ARGUMENT_TAGS: [&str; 2] = ["arguments", "argument"];

impl Grammar for UseTool {
    fn markers(&self) -> &'static [Marker] {
        MARKERS
    }

    fn ending(&self, _opener: &str) -> Ending {
        Ending::Json(&["</use_tool>"])
    }

    /// A tag must follow at once: who only mentions `<use_tool>` writes on.
    fn fit(&self, _opener: &str, body: &str) -> Fit {
        let body = body.trim_start();
        let Some(inner) = body.strip_prefix('<') else { return if body.is_empty() { Fit::Maybe } else { Fit::No } };
        let tags = NAME_TAGS.iter().chain(&ARGUMENT_TAGS).copied().chain(["/use_tool"]);
        let mut fit = Fit::No;
        for tag in tags {
            if inner.starts_with(tag) {
                return Fit::Yes;
            }
            if tag.starts_with(inner) {
                fit = Fit::Maybe;
            }
        }
        fit
    }

    fn read(&self, taken: &Taken<'_>) -> Reading {
        Reading::Calls(vec![self.call(taken)])
    }
}

impl UseTool {
    fn call(&self, taken: &Taken<'_>) -> TextCall {
        let (name, rest) = parts(taken.body);
        let name = arguments::entities_decoded(name).unwrap_or_else(|| name.to_owned());
        let input = match opened(rest, &ARGUMENT_TAGS) {
            Some((_, inner)) => self.input(inner, taken.end),
            None if taken.end == End::Closed && rest.trim().is_empty() => CallInput::parse(""),
            None if taken.end == End::Closed => arguments::read(rest, End::Closed, self.notation),
            None => arguments::cut(taken.body),
        };
        arguments::call(name.trim(), input)
    }

    /// The arguments, up to their closing tag: the last one, since their strings may hold others. In a cut text that one
    /// may stand in a string, too; then what is before it is no whole object.
    fn input(&self, inner: &str, end: End) -> CallInput {
        match ARGUMENT_TAGS.iter().find_map(|tag| inner.rfind(&format!("</{tag}>"))) {
            Some(at) if inner[..at].trim().is_empty() => CallInput::parse(""),
            Some(at) => arguments::read(&inner[..at], end, self.notation),
            None => arguments::read(inner, end, self.notation),
        }
    }
}

/// The tool's name, and the text that begins with its arguments, whichever comes first.
fn parts(body: &str) -> (&str, &str) {
    if let Some((tag, inner)) = opened(body, &ARGUMENT_TAGS) {
        // The last closing tag: strings may hold others.
        let close = format!("</{tag}>");
        let behind = inner.rfind(&close).map_or("", |at| &inner[at + close.len()..]);
        return (name(from(behind, &NAME_TAGS)).0, body);
    }
    let (name, rest) = name(body);
    let is_bare = rest.trim_start().starts_with(['{', '`']);
    (name, if is_bare { rest } else { from(rest, &ARGUMENT_TAGS) })
}

/// The text from the first of these tags on; all of it where there is none.
fn from<'t>(text: &'t str, tags: &[&'static str]) -> &'t str {
    let mut places = text.match_indices('<').map(|(at, _)| &text[at..]);
    places.find(|place| opened(place, tags).is_some()).unwrap_or(text)
}

/// The tool's name, and what follows it. One that is not closed is not known.
fn name(body: &str) -> (&str, &str) {
    let Some((tag, inner)) = opened(body, &NAME_TAGS) else { return ("", body) };
    inner.split_once(&format!("</{tag}>")).unwrap_or(("", ""))
}

/// The first of these tags that the text begins with, and what follows it.
fn opened<'t>(text: &'t str, tags: &[&'static str]) -> Option<(&'static str, &'t str)> {
    let inner = text.trim_start().strip_prefix('<')?;
    tags.iter().find_map(|tag| {
        let rest = inner.strip_prefix(tag)?;
        let (attributes, rest) = rest.split_once('>')?;
        (attributes.is_empty() || attributes.starts_with(char::is_whitespace)).then_some((*tag, rest))
    })
}
