//! What the recordings do not cover: requests, and answers that are none.

use super::*;
use crate::protocol::Protocol;
use crate::samples::{conversation, kept, lines, message, only_adds_bytes, request};
use crate::wire::ResponseBody;
use expect_test::expect;
use piton_core::message::{Part, Role};
use piton_core::model::{ModelError, ModelErrorKind, Reply};
use serde_json::json;

fn read(text: &str) -> Result<Reply, ModelError> {
    let mut body = ResponseBody::new(Box::<OllamaReply>::default());
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
        options: {"num_ctx":16384,"num_predict":77}
        stream: true
    "#]]
    .assert_eq(&lines(&encode(&request("m", conversation()), None), "messages"));
}

#[test]
fn the_window_grows_by_doubling_up_to_the_models_own() {
    let window = |words: usize, most| {
        let said = message(Role::User, vec![Part::text("word ".repeat(words))]);
        encode(&request("m", vec![said]), most)["options"]["num_ctx"].clone()
    };
    // Five bytes a word, three a token.
    assert_eq!(window(1_000, None), 16_384);
    assert_eq!(window(12_000, None), 32_768);
    assert_eq!(window(30_000, None), 65_536);
    assert_eq!(window(30_000, Some(40_000)), 40_000);
    assert_eq!(window(1, Some(8_192)), 8_192);
}

#[test]
fn one_more_message_only_adds_bytes() {
    assert!(only_adds_bytes(|request| encode(request, None), "messages"));
}

#[test]
fn thinking_goes_back_where_it_came_from() {
    let mut reply = OllamaReply::default();
    let words = json!({ "thinking": "hm", "content": "yes" });
    reply.document(&json!({ "message": words, "done": true, "done_reason": "stop" })).unwrap();
    let body = encode(&request("m", vec![message(Role::Assistant, kept(reply.finish().unwrap().parts))]), None);
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
