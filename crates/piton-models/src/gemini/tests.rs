//! What the recordings do not cover: requests, replaying what came, and answers that are none.

use super::*;
use crate::protocol::{Progress, Protocol};
use crate::samples::{call, conversation, kept, lines, message, only_adds_bytes, request};
use crate::wire::ResponseBody;
use expect_test::expect;
use piton_core::message::{FinishReason, Part, Role, prose};
use piton_core::model::ModelErrorKind;
use serde_json::{Value, json};

fn read(body: &Value) -> GeminiReply {
    let mut reply = GeminiReply::default();
    reply.document(body).unwrap();
    reply
}

#[test]
fn a_request_names_no_model_and_keeps_results_apart_from_images() {
    expect![[r#"
        systemInstruction: {"parts":[{"text":"sys"}]}
        tools: [{"functionDeclarations":[{"name":"read","description":"d","parametersJsonSchema":{"type":"object"}}]}]
          {"role":"user","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"text":"go on"}]}
          {"role":"model","parts":[{"text":"let me see"},{"functionCall":{"name":"read","args":{"path":"a"},"id":"x"}},{"functionCall":{"name":"grep","args":{"invalid_arguments":"{\"a"},"id":"c1_1"}}]}
          {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"A"},"id":"x"}},{"functionResponse":{"name":"read","response":{"error":"no"},"id":"c1_1"}}]}
          {"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"QUJD"}}]}
          {"role":"model","parts":[{"text":"done"}]}
        generationConfig: {"maxOutputTokens":77,"thinkingConfig":{"includeThoughts":true}}
    "#]]
    .assert_eq(&lines(&encode(&request("gemini-2.5-pro", conversation())), "contents"));
}

#[test]
fn one_more_message_only_adds_bytes() {
    assert!(only_adds_bytes(encode, "contents"));
}

#[test]
fn what_came_is_replayed_as_it_came() {
    let parts = json!([
        { "text": "thinking", "thought": true },
        { "text": "Let me see." },
        { "text": "Signed words.", "thoughtSignature": "on+words/==" },
        { "text": "", "thoughtSignature": "on nothing" },
        { "toolCall": { "toolType": "GOOGLE_SEARCH_WEB", "id": "s1" }, "thoughtSignature": "server" },
        { "functionCall": { "name": "read", "args": { "b": 1, "a": 2 }, "id": "f1" }, "thoughtSignature": "on call" },
        { "functionCall": { "name": "grep", "args": {} } },
    ]);
    let candidate = json!({ "content": { "parts": parts }, "finishReason": "STOP" });
    let reply = read(&json!({ "candidates": [candidate] })).finish().unwrap();
    let body = encode(&request("gemini-3-pro", vec![message(Role::Assistant, kept(reply.parts))]));
    // Thoughts themselves do not go back.
    let wanted: Vec<Value> = parts.as_array().unwrap()[1..].to_vec();
    assert_eq!(body["contents"][0]["parts"].to_string(), Value::from(wanted).to_string());
}

#[test]
fn sources_are_kept_with_the_last_words_and_do_not_go_back() {
    let grounding = json!({ "webSearchQueries": ["q"], "groundingChunks": [{ "web": { "uri": "https://a" } }] });
    let candidate = json!({ "content": { "parts": [{ "text": "found" }] }, "finishReason": "STOP",
        "groundingMetadata": grounding });
    let reply = read(&json!({ "candidates": [candidate] })).finish().unwrap();
    let opaque = Some(json!({ "groundingMetadata": grounding }));
    assert_eq!(reply.parts, [Part::Text { text: "found".into(), opaque }]);
    let body = encode(&request("gemini-3-pro", vec![message(Role::Assistant, reply.parts)]));
    assert_eq!(body["contents"][0]["parts"], json!([{ "text": "found" }]));
}

#[test]
fn calls_that_nobody_signed_get_a_stand_in_where_signatures_are_checked() {
    let calls = || vec![message(Role::Assistant, vec![call("c1_0", None, None), call("c1_1", None, None)])];
    for (model, first) in [("gemini-2.5-pro", None), ("gemini-3-pro", Some("skip_thought_signature_validator"))] {
        let body = encode(&request(model, calls()));
        let signature =
            |part: usize| body["contents"][0]["parts"][part].get("thoughtSignature").and_then(Value::as_str);
        assert_eq!((signature(0), signature(1)), (first, None), "{model}");
    }
}

#[test]
fn models_that_do_not_think_are_not_asked_for_thoughts() {
    for model in ["gemini-2.0-flash", "gemma-3-27b-it", "gemini-2.5-flash-image"] {
        assert_eq!(encode(&request(model, Vec::new()))["generationConfig"], json!({ "maxOutputTokens": 77 }));
    }
}

#[test]
fn a_blocked_prompt_is_an_error_and_a_blocked_answer_is_filtered() {
    let blocked = json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" } });
    let error = GeminiReply::default().document(&blocked).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::ContentFilter);
    assert!(error.message.contains("PROHIBITED_CONTENT"), "{error}");
    for (raw, finish) in [
        ("SAFETY", FinishReason::ContentFilter),
        ("MALFORMED_FUNCTION_CALL", FinishReason::Error),
        ("OTHER", FinishReason::Other),
    ] {
        let reply = read(&json!({ "candidates": [{ "finishReason": raw }] })).finish().unwrap();
        assert_eq!((reply.finish, reply.finish_raw.as_deref()), (finish, Some(raw)));
    }
}

#[test]
fn an_array_that_breaks_off_is_a_cut_stream() {
    let mut body = ResponseBody::new(Box::<GeminiReply>::default());
    body.push(br#"[{"candidates":[{"content":{"parts":[{"functionCall":{"name":"rm","args":{}}}]}}]},{"cand"#).unwrap();
    assert_eq!(body.finish().unwrap_err().kind, ModelErrorKind::CutStream);
}

#[test]
fn candidates_and_parts_of_odd_shapes_do_no_harm() {
    let odd = json!({ "candidates": [7, { "content": { "parts": [null, 1, {}, { "text": 5 }, { "functionCall": [] }] } },
        { "index": 1, "finishReason": "STOP" }], "usageMetadata": { "promptTokenCount": -3 } });
    let mut reply = read(&odd);
    reply.document(&json!({ "candidates": [{ "content": {}, "finishReason": "STOP" }] })).unwrap();
    let reply = reply.finish().unwrap();
    assert!(!reply.parts.iter().any(|part| matches!(part, Part::ToolCall(_))), "{:?}", reply.parts);
    assert_eq!(reply.usage.input_tokens, 0);
}

/// What an answer whose pieces are these comes to: its progress after each piece, and what its end makes of it.
fn heard(pieces: &[(&str, Option<&str>)]) -> (Vec<Progress>, Result<String, ModelErrorKind>) {
    let mut reply = GeminiReply::default();
    let progress = pieces.iter().map(|(text, reason)| {
        let parts = if text.is_empty() { json!([]) } else { json!([{ "text": text }]) };
        let candidate = json!({ "content": { "parts": parts }, "finishReason": reason });
        reply.document(&json!({ "candidates": [candidate] })).unwrap();
        reply.progress()
    });
    let progress = progress.collect();
    let end = reply.finish().map(|reply| prose(&reply.parts).into_owned()).map_err(|error| error.kind);
    (progress, end)
}

#[test]
fn a_reason_to_stop_counts_for_what_came_before_it() {
    use Progress::{Finished, Speaking};
    let stop = Some("STOP");
    assert_eq!(heard(&[("a", None), ("b", stop), ("", stop)]), (vec![Speaking, Finished, Finished], Ok("ab".into())));
    // Early Gemini, and Vertex.
    assert_eq!(heard(&[("a", stop), ("b", stop)]), (vec![Finished, Speaking], Ok("ab".into())));
    assert_eq!(heard(&[("a", stop), ("b", None)]), (vec![Finished, Speaking], Err(ModelErrorKind::CutStream)));
    // A gateway that stamps empty pieces before the first word.
    assert_eq!(heard(&[("", stop), ("a", None), ("b", stop)]), (vec![Speaking; 3], Ok("ab".into())));
    assert_eq!(heard(&[("", stop), ("a", None)]), (vec![Speaking; 2], Err(ModelErrorKind::CutStream)));
    // Nothing at all is an answer, and so is one that a limit or a filter ended before its first word.
    assert_eq!(heard(&[("", stop)]), (vec![Speaking], Ok(String::new())));
    assert_eq!(heard(&[("", Some("MAX_TOKENS"))]), (vec![Finished], Ok(String::new())));
}
