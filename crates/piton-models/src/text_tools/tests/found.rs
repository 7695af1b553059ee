//! Looking through the replies of a model with calls of its own: what is believed to be a call, and what stays text.

use super::model::{events, request};
use crate::recorded::Recorded;
use crate::text_tools::{Calls, FoundTools, Options};
use expect_test::{Expect, expect};
use piton_core::model::{ModelEvent, Request};
use serde_json::json;

/// What is shown while this text streams word by word, and what the reply is in the end.
async fn check(text: &str, expect: &Expect) {
    check_with(request(Vec::new()), Options::default(), &json!({ "text": text }), expect).await;
}

async fn check_with(request: Request, options: Options, reply: &serde_json::Value, expect: &Expect) {
    let cassette = Recorded::parse(&reply.to_string()).expect("a cassette");
    let mut shown = String::new();
    let mut lines = String::new();
    for event in events(FoundTools::new(cassette, None, options), request).await {
        match event {
            ModelEvent::Delta(piton_core::model::Delta::Text { text }) => shown.push_str(&text),
            ModelEvent::Delta(_) => {}
            ModelEvent::Done(reply) => {
                for part in &reply.parts {
                    lines.push_str(&(serde_json::to_string(part).expect("a part is JSON") + "\n"));
                }
                lines.push_str(&format!("{:?}\n", reply.finish));
            }
        }
    }
    expect.assert_eq(&format!("shown {shown:?}\n{lines}"));
}

const CALL: &str = r#"<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>"#;

#[tokio::test]
async fn a_reply_that_ends_in_a_call_is_that_call() {
    check(
        &format!("I look.\n\n{CALL}\n<|im_end|>"),
        &expect![[r#"
        shown "I look.\n\n"
        {"type":"text","text":"I look.\n\n"}
        {"type":"tool_call","id":"","name":"read","input":{"json":{"path":"a"}}}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn the_whole_message_may_be_a_call() {
    check(
        r#"{"name": "read", "parameters": {"path": "a"}}"#,
        &expect![[r#"
        shown ""
        {"type":"tool_call","id":"","name":"read","input":{"json":{"path":"a"}}}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_with_words_behind_it_is_talked_about() {
    check(&format!("Write it as {CALL}, and the file is read."), &expect![[r#"
        shown "Write it as <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>, and the file is read."
        {"type":"text","text":"Write it as <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>, and the file is read."}
        Stop
    "#]]).await;
    check(
        &format!("First {CALL}, then {CALL}"),
        &expect![[r#"
            shown "First <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>, then <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"
            {"type":"text","text":"First <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>, then <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"}
            Stop
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_in_code_or_a_quotation_is_talked_about() {
    check(&format!("Like so:\n\n```xml\n{CALL}\n```"), &expect![[r#"
        shown "Like so:\n\n```xml\n<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>\n```"
        {"type":"text","text":"Like so:\n\n```xml\n<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>\n```"}
        Stop
    "#]]).await;
    check(
        &format!("> {CALL}"),
        &expect![[r#"
        shown "> <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"
        {"type":"text","text":"> <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"}
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_of_no_tool_or_one_that_is_not_whole_is_text() {
    check(
        r#"<tool_call>{"name": "rm", "arguments": {}}</tool_call>"#,
        &expect![[r#"
        shown "<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>"
        {"type":"text","text":"<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>"}
        Stop
    "#]],
    )
    .await;
    check(
        r#"<tool_call>{"name": "read", "arguments": {"path": "a"#,
        &expect![[r#"
        shown "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a"
        {"type":"text","text":"<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a"}
        Stop
    "#]],
    )
    .await;
    check(
        r#"<tool_call>{"name": "read", "arguments": {path: a}}</tool_call>"#,
        &expect![[r#"
        shown "<tool_call>{\"name\": \"read\", \"arguments\": {path: a}}</tool_call>"
        {"type":"text","text":"<tool_call>{\"name\": \"read\", \"arguments\": {path: a}}</tool_call>"}
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_call_that_was_only_thought_of_is_text() {
    check(&format!("<think>Perhaps {CALL}"), &expect![[r#"
        shown "<think>Perhaps <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"
        {"type":"text","text":"<think>Perhaps <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"}
        Stop
    "#]]).await;
    check(&format!("Perhaps {CALL}</think>{CALL}"), &expect![[r#"
        shown "Perhaps <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call></think><tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"
        {"type":"text","text":"Perhaps <tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call></think><tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"}
        Stop
    "#]]).await;
    check(
        &format!("<think>Hm.</think>{CALL}"),
        &expect![[r#"
        shown "<think>Hm.</think>"
        {"type":"text","text":"<think>Hm.</think>"}
        {"type":"tool_call","id":"","name":"read","input":{"json":{"path":"a"}}}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn a_reply_that_was_cut_or_has_calls_already_stays_as_it_is() {
    let request = || request(Vec::new());
    let cut = json!({ "text": CALL, "finish": "length" });
    check_with(
        request(),
        Options::default(),
        &cut,
        &expect![[r#"
        shown "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"
        {"type":"text","text":"<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"}
        Length
    "#]],
    )
    .await;
    let parsed = json!({ "text": CALL, "calls": [{ "name": "now", "input": {} }] });
    check_with(
        request(),
        Options::default(),
        &parsed,
        &expect![[r#"
        shown "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"
        {"type":"text","text":"<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"}
        {"type":"tool_call","id":"","name":"now","input":{"json":{}}}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn nothing_is_looked_for_where_nothing_may_be_called() {
    let request = Request { may_call: false, ..request(Vec::new()) };
    check_with(
        request,
        Options::default(),
        &json!({ "text": CALL }),
        &expect![[r#"
        shown "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"
        {"type":"text","text":"<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>"}
        Stop
    "#]],
    )
    .await;
}

#[tokio::test]
async fn only_the_first_call_counts_if_so_wanted() {
    let options = Options { calls: Calls::FirstOnly, ..Options::default() };
    check_with(
        request(Vec::new()),
        options,
        &json!({ "text": format!("{CALL}\n{CALL}") }),
        &expect![[r#"
        shown ""
        {"type":"tool_call","id":"","name":"read","input":{"json":{"path":"a"}}}
        ToolCalls
    "#]],
    )
    .await;
}

#[tokio::test]
async fn the_channels_of_a_text_are_told_apart_even_without_a_call() {
    check(
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Four.",
        &expect![[r#"
        shown "Four."
        {"type":"reasoning","text":"Hm."}
        {"type":"text","text":"Four."}
        Stop
    "#]],
    )
    .await;
}
