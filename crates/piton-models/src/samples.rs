//! Pieces of conversations for the tests of the request encoders.

use piton_core::call::{CallInput, Effects, Outcome, ToolSpec};
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::Request;
use piton_http::sse::SseEvent;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;

pub(crate) fn message(role: Role, parts: Vec<Part>) -> Arc<Message> {
    Arc::new(Message::new(role, parts))
}

pub(crate) fn call(id: &str, provider_id: Option<&str>, opaque: Option<Value>) -> Part {
    Part::ToolCall(ToolCall {
        id: id.into(),
        provider_id: provider_id.map(ToOwned::to_owned),
        name: "read".into(),
        spelling: None,
        input: CallInput::parse("{\"path\":\"a\"}"),
        opaque,
    })
}

pub(crate) fn result(id: &str, outcome: Outcome) -> Part {
    Part::ToolResult { call: id.into(), tool: "read".into(), outcome }
}

pub(crate) fn image() -> Part {
    Part::Image { media_type: "image/png".into(), data: "QUJD".into() }
}

pub(crate) fn thought(opaque: Value) -> Part {
    Part::Reasoning { text: String::new(), opaque: Some(opaque) }
}

/// Words, calls, answers with and without an image, a broken call, and reasoning that led to nothing.
pub(crate) fn conversation() -> Vec<Arc<Message>> {
    let broken = Part::ToolCall(ToolCall {
        id: "c1_1".into(),
        provider_id: Some("x".into()),
        name: "grep".into(),
        spelling: None,
        input: CallInput::parse("{\"a"),
        opaque: None,
    });
    vec![
        message(Role::User, vec![Part::text("hi"), image(), Part::note("go on")]),
        message(Role::Assistant, vec![Part::text("let me see"), call("c1_0", Some("x"), None), broken]),
        message(Role::Tool, vec![result("c1_0", Outcome::ok("A")), image(), result("c1_1", Outcome::failed("no"))]),
        message(Role::Assistant, vec![Part::Reasoning { text: "lost".into(), opaque: None }]),
        message(Role::Assistant, vec![Part::text("done")]),
    ]
}

pub(crate) fn request(model: &str, messages: Vec<Arc<Message>>) -> Request {
    let spec = ToolSpec {
        name: "read".into(),
        description: "d".into(),
        schema: json!({ "type": "object" }),
        effects: Effects::READ,
    };
    Request {
        model: model.into(),
        tools: Arc::new([spec]),
        max_output_tokens: Some(77),
        ..request_without_tools(messages)
    }
}

pub(crate) fn request_without_tools(messages: Vec<Arc<Message>>) -> Request {
    Request {
        session: "ses_1".into(),
        model: "m".into(),
        system: "sys".into(),
        tools: Arc::new([]),
        may_call: true,
        messages,
        max_output_tokens: None,
    }
}

/// A body with each member, and each message under `list`, on a line of its own.
pub(crate) fn lines(body: &Value, list: &str) -> String {
    let mut lines = String::new();
    for (key, value) in body.as_object().into_iter().flatten() {
        if key == list {
            let entries = value.as_array().into_iter().flatten();
            entries.for_each(|entry| writeln!(lines, "  {entry}").unwrap_or_default());
        } else {
            writeln!(lines, "{key}: {value}").unwrap_or_default();
        }
    }
    lines
}

/// Whether each longer transcript begins with the bytes of the shorter one.
pub(crate) fn only_adds_bytes(encode: impl Fn(&Request) -> Value, list: &str) -> bool {
    let all = conversation();
    let bodies: Vec<String> =
        (1..=all.len()).map(|end| encode(&request("m", all[..end].to_vec()))[list].to_string()).collect();
    bodies.windows(2).all(|pair| pair[1].starts_with(pair[0].trim_end_matches(']')))
}

/// The parts of a reply as the loop keeps them: with ids of its own.
pub(crate) fn kept(mut parts: Vec<Part>) -> Vec<Part> {
    for (number, part) in parts.iter_mut().enumerate() {
        if let Part::ToolCall(call) = part {
            call.id = format!("c9_{number}").as_str().into();
        }
    }
    parts
}

/// An event of a stream with this data.
pub(crate) fn event(data: &(impl ToString + ?Sized)) -> SseEvent {
    SseEvent { event: String::new(), data: data.to_string(), is_damaged: false }
}
