//! What models wrote, and what is read from it. Each text is read whole, in random pieces, character by character, cut
//! at every position, and by a reader that has to find out the dialect first.

mod dialects;
mod found;
mod properties;
mod model;
mod use_tool;

use super::{Decoder, Options, TextDialect, TextEvent};
use expect_test::Expect;
use piton_core::call::{CallInput, Effects, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;

/// The tools of the vendors' examples.
fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str, properties: Value| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        schema: json!({"type": "object", "properties": properties}),
        effects: Effects::READ,
    };
    let text = json!({"type": "string"});
    Arc::from([
        tool("get_weather", json!({"city": text, "unit": text, "days": {"type": "integer"}})),
        tool("read", json!({"path": text, "limit": {"type": "integer"}})),
        tool("area", json!({"shape": text, "dimensions": {"type": "object"}, "precision": {"type": "integer"}})),
        tool("now", json!({})),
    ])
}

/// Reads the text in every way there is, and compares what is found.
fn check(dialect: TextDialect, text: &str, expect: &Expect) {
    check_with(dialect, Options::default(), text, expect);
}

fn check_with(dialect: TextDialect, options: Options, text: &str, expect: &Expect) {
    let whole = read(dialect, options, [text]);
    expect.assert_eq(&shown(&whole));
    properties::cuts_make_no_difference(|| dialect.decoder(tools(), options), text);
    properties::a_cut_reply_runs_nothing_else(|| dialect.decoder(tools(), options), text);
    let found = events(TextDialect::any(tools(), options), [text]);
    assert_eq!(shown(&found), shown(&whole), "found by looking");
    properties::cuts_make_no_difference(|| TextDialect::any(tools(), options), text);
    properties::a_cut_reply_runs_nothing_else(|| TextDialect::any(tools(), options), text);
}

fn read<'t>(dialect: TextDialect, options: Options, pieces: impl IntoIterator<Item = &'t str>) -> Vec<TextEvent> {
    events(dialect.decoder(tools(), options), pieces)
}

/// What a decoder finds, with neighbouring text joined.
fn events<'t>(mut decoder: Box<dyn Decoder>, pieces: impl IntoIterator<Item = &'t str>) -> Vec<TextEvent> {
    let mut found: Vec<TextEvent> = pieces.into_iter().flat_map(|piece| decoder.push(piece)).collect();
    found.extend(decoder.finish());
    joined(found)
}

fn joined(events: Vec<TextEvent>) -> Vec<TextEvent> {
    let mut all: Vec<TextEvent> = Vec::new();
    for event in events {
        match (all.last_mut(), event) {
            (Some(TextEvent::Text(text)), TextEvent::Text(more))
            | (Some(TextEvent::Reasoning(text)), TextEvent::Reasoning(more)) => {
                text.push_str(&more);
            }
            (_, event) => all.push(event),
        }
    }
    all
}

/// One line each.
fn shown(events: &[TextEvent]) -> String {
    let line = |event: &TextEvent| match event {
        TextEvent::Text(text) => format!("text      {text:?}\n"),
        TextEvent::Reasoning(text) => format!("reasoning {text:?}\n"),
        TextEvent::Remnant(text) => format!("remnant   {text:?}\n"),
        TextEvent::Call(call) => {
            let id = call.id.as_ref().map(|id| format!(" #{id}")).unwrap_or_default();
            match &call.input {
                CallInput::Json(input) => format!("call      {}{id} {input}\n", call.name),
                CallInput::Invalid { raw, error } => format!("broken    {}{id} {raw:?}: {error}\n", call.name),
            }
        }
    };
    events.iter().map(line).collect()
}
