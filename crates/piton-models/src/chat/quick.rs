//! The common chunk, read without building a JSON tree: one more piece of prose or reasoning and nothing else.
//!
//! Nineteen of twenty chunks are of this kind, and a tree costs five times the reading. Whatever is not listed here
//! makes the reading fail, and the chunk is read the thorough way; so nothing is decided here that could be wrong.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// The new piece, as prose or reasoning.
#[derive(Debug, Default)]
pub(super) struct Piece<'d> {
    pub(super) content: Option<Cow<'d, str>>,
    pub(super) reasoning_content: Option<Cow<'d, str>>,
}

/// The piece in this chunk, if that is all there is to it.
pub(super) fn read(data: &str) -> Option<Piece<'_>> {
    let Chunk { choices: [Choice { index: None | Some(0), delta, .. }], .. } = serde_json::from_str(data).ok()? else {
        return None;
    };
    Some(Piece {
        content: delta.content.map(|text| text.0),
        reasoning_content: delta.reasoning_content.map(|text| text.0),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "members that must be known to be ignored")]
struct Chunk<'d> {
    #[serde(borrow)]
    choices: [Choice<'d>; 1],
    id: Option<IgnoredAny>,
    object: Option<IgnoredAny>,
    created: Option<IgnoredAny>,
    model: Option<IgnoredAny>,
    provider: Option<IgnoredAny>,
    system_fingerprint: Option<IgnoredAny>,
    service_tier: Option<IgnoredAny>,
    obfuscation: Option<IgnoredAny>,
    usage: Option<()>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "members that must be known to be ignored")]
struct Choice<'d> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Delta<'d>,
    logprobs: Option<()>,
    finish_reason: Option<()>,
    native_finish_reason: Option<()>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "members that must be known to be ignored")]
struct Delta<'d> {
    role: Option<IgnoredAny>,
    #[serde(borrow)]
    content: Option<Text<'d>>,
    #[serde(borrow)]
    reasoning_content: Option<Text<'d>>,
    reasoning: Option<()>,
    refusal: Option<()>,
    tool_calls: Option<()>,
    function_call: Option<()>,
}

/// Text that is copied only where it has escapes. (A bare `Cow` within an `Option` would always be copied.)
#[derive(Deserialize)]
struct Text<'d>(#[serde(borrow)] Cow<'d, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(choice: &str) -> Option<(Option<String>, Option<String>)> {
        let data = format!(r#"{{"id":"x","object":"o","usage":null,"choices":[{choice}]}}"#);
        read(&data).map(|piece| (piece.content.map(Cow::into_owned), piece.reasoning_content.map(Cow::into_owned)))
    }

    #[test]
    fn a_piece_of_prose_is_read_and_whatever_has_more_to_it_is_not() {
        let said = Some("a \"b\" é".to_owned());
        assert_eq!(
            piece(r#"{"index":0,"delta":{"content":"a \"b\" \u00e9"},"finish_reason":null}"#),
            Some((said, None))
        );
        assert_eq!(piece(r#"{"delta":{"role":"assistant","reasoning_content":"r"}}"#), Some((None, Some("r".into()))));
        for more in [
            r#"{"index":1,"delta":{"content":"a"}}"#,
            r#"{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}"#,
            r#"{"index":0,"delta":{"content":"a","tool_calls":[]}}"#,
            r#"{"index":0,"delta":{"content":"a","reasoning":"b"}}"#,
            r#"{"index":0,"delta":{"content":["a"]}}"#,
            r#"{"index":0,"delta":{"content":"a"},"error":{}}"#,
            r#"{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}"#,
            "",
        ] {
            assert_eq!(piece(more), None, "{more}");
        }
    }
}
