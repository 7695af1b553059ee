//! What the recordings do not cover: requests, and answers that are none.

use super::*;
use crate::samples::{conversation, kept, lines, message, only_adds_bytes, request};
use crate::wire::{Body, Protocol};
use expect_test::expect;
use piton_core::message::Role;
use piton_core::model::{ModelError, ModelErrorKind, Reply};
use serde_json::json;

fn read(text: &str) -> Result<Reply, ModelError> {
    let mut body = Body::new(Box::<OllamaReply>::default());
    body.push(text.as_bytes())?;
    body.finish().map(|(_, reply)| reply)
}

#[test]
fn a_request_has_arguments_as_objects_and_images_apart() {
    expect![[r#"
        model: "m"
        tools: [{"type":"function","function":{"name":"read","description":"d","parameters":{"type":"object"}}}]
          {"role":"system","content":"sys"}
          {"role":"user","content":"hi\n\ngo on","images":["QUJD"]}
          {"role":"assistant","content":"let me see","tool_calls":[{"id":"x","function":{"name":"read","arguments":{"path":"a"}}},{"id":"c1_1","function":{"name":"grep","arguments":{"invalid_arguments":"{\"a"}}}]}
          {"role":"tool","content":"A","tool_name":"read","tool_call_id":"x"}
          {"role":"user","content":"","images":["QUJD"]}
          {"role":"tool","content":"no","tool_name":"read","tool_call_id":"c1_1"}
          {"role":"assistant","content":"done"}
        options: {"num_predict":77}
        stream: true
    "#]]
    .assert_eq(&lines(&encode(&request("m", conversation())), "messages"));
}

#[test]
fn one_more_message_only_adds_bytes() {
    assert!(only_adds_bytes(encode, "messages"));
}

#[test]
fn thinking_goes_back_where_it_came_from() {
    let mut reply = OllamaReply::default();
    let words = json!({ "thinking": "hm", "content": "yes" });
    reply.document(&json!({ "message": words, "done": true, "done_reason": "stop" })).unwrap();
    let body = encode(&request("m", vec![message(Role::Assistant, kept(reply.finish().unwrap().parts))]));
    assert_eq!(body["messages"][1], json!({ "role": "assistant", "content": "yes", "thinking": "hm" }));
}

#[test]
fn errors_cuts_and_garbage_are_told_apart() {
    let said = "{\"message\":{\"content\":\"a\"},\"done\":false}\n";
    for (text, kind) in [
        (format!("{said}{{\"error\":\"model runner has unexpectedly stopped\"}}\n"), ModelErrorKind::Server),
        (format!("{said}{{\"message\":{{"), ModelErrorKind::CutStream),
        (said.to_owned(), ModelErrorKind::CutStream),
        (format!("{said}{{nonsense}}"), ModelErrorKind::Malformed),
        ("<html>".to_owned(), ModelErrorKind::Malformed),
    ] {
        assert_eq!(read(&text).unwrap_err().kind, kind, "{text}");
    }
}
