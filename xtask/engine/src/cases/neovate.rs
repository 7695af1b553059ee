//! Neovate's tables, under the preset of its name.

use super::{Judge, expect};
use piton_core::call::CallInput;
use piton_core::message::{Part, Usage};
use piton_core::model::{Delta, ModelEvent};
use piton_core::oneline;
use piton_core::policy::Policy;
use piton_models::protocol::WireProtocol;
use piton_models::text_tools::{CallsRead, Mode, Options, TextDialect, TextEvent, ends_in_tag};
use piton_models::wire::{self, ResponseBody};
use piton_testkit::scenarios;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn suite(name: &str) -> Option<Judge> {
    match name {
        "parse_message" => Some(parse_message),
        "incomplete_xml" => Some(incomplete_xml),
        "stream_deltas" => Some(stream_deltas),
        "sanitize_response" => Some(sanitize_response),
        "usage_from_event" => Some(usage_from_event),
        "loop_scenarios" => Some(scenarios::neovate::judge),
        _ => None,
    }
}

fn mode() -> Result<Mode, String> {
    Mode::of_policy(&Policy::preset("neovate").ok_or("no preset")?)
        .ok_or_else(|| "the preset is not in text".to_owned())
}

/// What the decoder of the preset makes of a text that ends where it ends. A call that it tells of only because the text
/// is over is a partial one; those run only if all of them is there, so their arguments are compared only then.
fn parse_message(case: &Value) -> Result<(), String> {
    let text = case["input"].as_str().ok_or("no text")?;
    let options = Options { notation: mode()?.notation, ..Options::default() };
    let mut decoder = TextDialect::UseTool.decoder(Arc::from([]), options);
    let whole = decoder.push(text);
    let cut = decoder.finish();
    let mut blocks: Vec<(Value, bool)> = Vec::new();
    let mut prose = String::new();
    let of_whole = whole.len();
    for (at, event) in whole.into_iter().chain(cut).enumerate() {
        match event {
            TextEvent::Text(text) | TextEvent::Remnant(text) => prose.push_str(&text),
            TextEvent::Reasoning(_) => {}
            TextEvent::Call(call) => {
                push_prose(&mut blocks, &mut prose, false);
                let is_closed = text.rfind("<use_tool>").is_some_and(|at| text[at..].contains("</use_tool>"));
                let partial = at >= of_whole && !is_closed;
                let (params, is_whole) = match call.input {
                    CallInput::Json(value) => (value, true),
                    CallInput::Invalid { raw, .. } => {
                        (json!({"_error": "Invalid or incomplete JSON", "_raw": raw.trim()}), false)
                    }
                };
                let block = json!({"type": "tool_use", "name": call.name, "params": params, "partial": partial});
                blocks.push((block, is_whole));
            }
        }
    }
    push_prose(&mut blocks, &mut prose, true);
    let got = || json!(blocks.iter().map(|(block, _)| block).collect::<Vec<_>>()).to_string();
    let expected = case["expected"].as_array().ok_or("no expectation")?;
    let fits = |(want, (got, is_whole)): (&Value, &(Value, bool))| {
        // Never run: what was cut (S0-065), what is not an object (a tool takes fields), what names no tool.
        let is_refused = !is_whole && (want["partial"] == true || !want["params"].is_object() || want["name"] == "");
        let same = |key: &str| want[key] == got[key];
        want == got || (is_refused && same("type") && same("name") && same("partial"))
    };
    if expected.len() == blocks.len() && expected.iter().zip(&blocks).all(fits) { Ok(()) } else { Err(got()) }
}

fn push_prose(blocks: &mut Vec<(Value, bool)>, prose: &mut String, partial: bool) {
    let text = std::mem::take(prose);
    if !text.trim().is_empty() {
        blocks.push((json!({"type": "text", "content": text.trim(), "partial": partial}), true));
    }
}

fn incomplete_xml(case: &Value) -> Result<(), String> {
    expect(case, &json!(ends_in_tag(case["input"].as_str().ok_or("no text")?)))
}

/// What is shown of a reply as it streams, and what is understood of it in the end.
fn stream_deltas(case: &Value) -> Result<(), String> {
    let deltas: Vec<String> = serde_json::from_value(case["input"]["deltas"].clone()).map_err(|e| e.to_string())?;
    let model = scenarios::saying(&deltas);
    let (mut shown, mut parts) = (Vec::new(), Vec::new());
    for event in scenarios::heard(&*mode()?.around(model, "", None, CallsRead::Perhaps)) {
        match event {
            Ok(ModelEvent::Delta(Delta::Text { text })) => shown.push(text),
            Ok(ModelEvent::Delta(_)) => {}
            Ok(ModelEvent::Done(reply)) => parts = reply.parts,
            Err(error) => return Err(error.message),
        }
    }
    let call = parts.iter().find_map(|part| match part {
        Part::ToolCall(call) => match &call.input {
            CallInput::Json(input) => Some(json!({"name": call.name, "params": input})),
            CallInput::Invalid { .. } => None,
        },
        _ => None,
    });
    let first = match parts.first() {
        Some(Part::Text { text, .. }) if !text.trim().is_empty() => json!(text.trim()),
        _ => Value::Null,
    };
    let got = json!({"onTextDelta": shown, "onText": first, "toolUse": call});
    // The raw text is not kept beside the parts; the parts hold what it says.
    let same = |key: &str| case["expected"][key] == got[key];
    if same("onTextDelta") && same("onText") && same("toolUse") { Ok(()) } else { Err(got.to_string()) }
}

fn sanitize_response(case: &Value) -> Result<(), String> {
    let text = case["input"]["text"].as_str().ok_or("no text")?;
    let got = match case["input"]["fn"].as_str() {
        Some("stripThinkTags") => oneline::without_thoughts(text),
        Some("stripCodeBlocks") => oneline::without_fence(text),
        Some("stripInlineCode") => oneline::without_backticks(text),
        Some("sanitizeAIResponse") => oneline::bare(text),
        other => return Err(format!("{other:?} is no function of this suite")),
    };
    expect(case, &json!(got))
}

/// The counts of a finish chunk, by way of the wire. The sum is ours where the chunk has none (S0-051).
fn usage_from_event(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let counts = json!({"prompt_tokens": input["promptTokens"], "completion_tokens": input["completionTokens"],
        "total_tokens": input["totalTokens"]});
    let usage = usage_over_the_wire(&counts)?;
    let expected = &case["expected"];
    let total = if input["totalTokens"].is_number() { input["totalTokens"].clone() } else { json!(usage.total()) };
    let is_sum = expected["totalTokens"] == total || !input["totalTokens"].is_number();
    let got = json!({"promptTokens": usage.input_tokens, "completionTokens": usage.output_tokens});
    let same = |key: &str| expected[key] == got[key];
    if same("promptTokens") && same("completionTokens") && is_sum { Ok(()) } else { Err(got.to_string()) }
}

/// What the decoder of Chat Completions reads in these counts.
pub(super) fn usage_over_the_wire(counts: &Value) -> Result<Usage, String> {
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": counts});
    let mut body = ResponseBody::new(wire::protocol(WireProtocol::Chat));
    let said = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    body.push(said.as_bytes()).map_err(|error| error.message)?;
    body.finish().map(|(_, reply)| reply.usage).map_err(|error| error.message)
}
