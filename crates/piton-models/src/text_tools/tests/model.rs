//! A model made of text: what it is sent, and what its replies become.

use super::tools;
use crate::model::{Model, ModelLimits, ModelStream, Price};
use crate::recorded::Recorded;
use crate::text_tools::{Calls, Options, Speech, TextDialect, TextTools};
use expect_test::{Expect, expect};
use futures_util::stream::StreamExt;
use piton_core::call::{CallInput, Outcome};
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::{ModelEvent, Request};
use serde_json::json;
use std::sync::{Arc, Mutex};

pub(super) fn request(messages: Vec<Message>) -> Request {
    Request {
        session: "s".into(),
        model: "m".into(),
        system: "Be brief.".into(),
        tools: tools(),
        may_call: true,
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: None,
    }
}

/// Everything that the model streams for this cassette.
async fn heard(model: impl Model) -> Vec<ModelEvent> {
    events(model, request(Vec::new())).await
}

/// Everything that the model streams for this request.
pub(super) async fn events(model: impl Model, request: Request) -> Vec<ModelEvent> {
    model.stream(request).map(|item| item.expect("the cassette has no errors")).collect().await
}

async fn check_reply(cassette: &str, options: Options, expect: &Expect) {
    let model = TextTools::new(Recorded::parse(cassette).expect("a cassette")).with(options);
    let lines = heard(model).await.into_iter().map(|event| match event {
        ModelEvent::Delta(delta) => format!("{}\n", serde_json::to_string(&delta).expect("a delta is JSON")),
        ModelEvent::Done(reply) => {
            let parts = reply.parts.iter().map(|part| serde_json::to_string(part).expect("a part is JSON") + "\n");
            format!("{}{:?}\n", parts.collect::<String>(), reply.finish)
        }
    });
    expect.assert_eq(&lines.collect::<String>());
}

#[tokio::test]
async fn a_call_in_the_text_is_a_call() {
    check_reply(
        r#"{"reasoning":"Hm.","text":"Ok. <use_tool><tool_name>read</tool_name><arguments>{\"path\":\"a\"}</arguments></use_tool>"}"#,
        Options::default(),
        &expect![[r#"
            {"type":"reasoning","text":"Hm."}
            {"type":"text","text":"Ok. "}
            {"type":"call_began","index":0,"name":"read"}
            {"type":"call_input","index":0,"json":"{\"path\":\"a\"}"}
            {"type":"reasoning","text":"Hm."}
            {"type":"text","text":"Ok. "}
            {"type":"tool_call","id":"","name":"read","input":{"json":{"path":"a"}}}
            ToolCalls
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_reply_cut_in_a_call_runs_nothing_and_shows_no_tag() {
    check_reply(
        r#"{"text":"Ok. <tool_call>{\"name\": \"read\", \"argum","finish":"length"}"#,
        Options::default(),
        &expect![[r#"
            {"type":"text","text":"Ok. "}
            {"type":"call_began","index":0,"name":"read"}
            {"type":"call_input","index":0,"json":"{\"name\": \"read\", \"argum"}
            {"type":"text","text":"Ok. "}
            {"type":"tool_call","id":"","name":"read","input":{"invalid":{"raw":"{\"name\": \"read\", \"argum","error":"the reply ended before the call did"}}}
            Length
        "#]],
    )
    .await;
    check_reply(
        r#"{"text":"Ok. <use_to","finish":"length"}"#,
        Options::default(),
        &expect![[r#"
        {"type":"text","text":"Ok. "}
        {"type":"text","text":"Ok. <use_to"}
        Length
    "#]],
    )
    .await;
}

#[tokio::test]
async fn only_the_first_call_counts_if_so_wanted() {
    let options = Options { calls: Calls::FirstOnly, ..Options::default() };
    check_reply(
        r#"{"parts":[{"type":"text","text":"<tool_call>{\"name\":\"now\"}</tool_call>x"},{"type":"reasoning","text":"R"},{"type":"text","text":"<tool_call>{\"name\":\"now\"}</tool_call>"}]}"#,
        options,
        &expect![[r#"
            {"type":"call_began","index":0,"name":"now"}
            {"type":"call_input","index":0,"json":"{}"}
            {"type":"reasoning","text":"R"}
            {"type":"tool_call","id":"","name":"now","input":{"json":{}}}
            {"type":"reasoning","text":"R"}
            ToolCalls
        "#]],
    )
    .await;
}

#[tokio::test]
async fn calls_that_the_server_parsed_are_not_made_twice() {
    check_reply(
        r#"{"text":"<tool_call>{\"name\":\"now\"}</tool_call>","calls":[{"name":"read","input":{"path":"a"},"id":"x"}]}"#,
        Options::default(),
        &expect![[r#"
            {"type":"call_began","index":0,"name":"now"}
            {"type":"call_input","index":0,"json":"{}"}
            {"type":"call_began","index":0,"name":"read"}
            {"type":"call_input","index":0,"json":"{\"path\":\"a\"}"}
            {"type":"tool_call","id":"","provider_id":"x","name":"read","input":{"json":{"path":"a"}}}
            ToolCalls
        "#]],
    )
    .await;
}

/// A model that keeps the requests it gets.
#[derive(Clone, Default)]
struct Listening(Arc<Mutex<Vec<Request>>>);

impl Model for Listening {
    fn name(&self) -> &'static str {
        "test/listening"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: Request) -> ModelStream {
        self.0.lock().expect("nobody panics with the lock").push(request);
        Box::pin(futures_util::stream::empty())
    }
}

/// The messages as they go out, and the request.
fn sent(speech: Speech, request: Request) -> (String, Request) {
    let listening = Listening::default();
    drop(TextTools::new(listening.clone()).teaching(speech).stream(request));
    let request = listening.0.lock().expect("nobody panics with the lock").remove(0);
    let mut text = String::new();
    for message in &request.messages {
        text += &format!("--- {:?}\n", message.role);
        for part in &message.parts {
            match part {
                Part::Text { text: prose, .. } => text += &format!("{prose}\n"),
                part => text += &format!("{}\n", serde_json::to_string(part).expect("a part is JSON")),
            }
        }
    }
    (text, request)
}

fn history() -> Vec<Message> {
    let message = |role, parts| Message::new(role, parts);
    let call = |id: &str, input| {
        let (id, name) = (CallId::from(id), "read".to_owned());
        Part::ToolCall(ToolCall { id, provider_id: None, name, spelling: None, input, opaque: None })
    };
    let result = |id: &str, outcome| Part::ToolResult { call: CallId::from(id), tool: "read".into(), outcome };
    vec![
        message(Role::User, vec![Part::text("Look.")]),
        message(
            Role::Assistant,
            vec![
                Part::Reasoning { text: "Hm.".into(), opaque: None },
                Part::text("Sure."),
                call("c1", CallInput::Json(json!({ "path": "a" }))),
                call("c2", CallInput::parse("{broken")),
            ],
        ),
        message(Role::Tool, vec![result("c1", Outcome::ok("A")), result("c2", Outcome::failed("not JSON"))]),
        message(Role::User, vec![Part::note("Hurry.")]),
        message(Role::Assistant, vec![Part::text("Done.")]),
    ]
}

#[test]
fn calls_and_results_of_the_history_are_text() {
    let (text, request) = sent(Speech::UseTool, request(history()));
    assert!(request.tools.is_empty());
    expect![[r#"
        --- User
        Look.
        --- Assistant
        {"type":"reasoning","text":"Hm."}
        Sure.
        <use_tool>
        <tool_name>read</tool_name>
        <arguments>
        {"path":"a"}
        </arguments>
        </use_tool>
        <use_tool>
        <tool_name>read</tool_name>
        <arguments>
        {"invalid_arguments":"{broken"}
        </arguments>
        </use_tool>
        --- User
        [read for {
          "path": "a"
        }] result: 
        <function_results>
        A
        </function_results>

        [read for {
          "invalid_arguments": "{broken"
        }] result: 
        <function_results>
        not JSON
        </function_results>

        Hurry.
        --- Assistant
        Done.
    "#]]
    .assert_eq(&text);
    expect![[r#"
        --- User
        Look.
        --- Assistant
        {"type":"reasoning","text":"Hm."}
        Sure.
        <tool_call>
        {"name":"read","arguments":{"path":"a"}}
        </tool_call>
        <tool_call>
        {"name":"read","arguments":{"invalid_arguments":"{broken"}}
        </tool_call>
        --- User
        <tool_response>
        A
        </tool_response>

        <tool_response>
        not JSON
        </tool_response>

        Hurry.
        --- Assistant
        Done.
    "#]]
    .assert_eq(&sent(Speech::Hermes, super::model::request(history())).0);
}

#[test]
fn a_longer_history_begins_with_the_shorter_ones_bytes() {
    let full = sent(Speech::UseTool, request(history())).0;
    // Steering that arrives with results goes out with them, so a request never ends between the two.
    for length in [0, 1, 2, 4] {
        let shorter = sent(Speech::UseTool, request(history()[..length].to_vec())).0;
        assert!(full.starts_with(&shorter), "{length} messages:\n{shorter}");
    }
}

#[test]
fn tools_are_a_section_of_the_prompt() {
    let offered = &tools()[1..2];
    expect![[r##"
        # Tools

        You have the tools listed below. To use one, write a call in exactly this form, outside of code blocks:

        <use_tool>
        <tool_name>tool_name</tool_name>
        <arguments>
        {"argument":"value"}
        </arguments>
        </use_tool>

        The arguments are one JSON object that fits the tool's schema. Make one call per message: what you write after it is dropped. Then end your message: the result comes in the next one, in <function_results>. Never write a result yourself. A message without a call is your answer to the user.

        ## read



        Arguments: {"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}"##]].assert_eq(&Speech::UseTool.prompt(offered, Calls::FirstOnly));
    expect![[r##"
        # Tools

        You have the tools listed below. To use one, write a call in exactly this form, outside of code blocks:

        <tool_call>
        {"name":"tool_name","arguments":{"argument":"value"}}
        </tool_call>

        The arguments are one JSON object that fits the tool's schema. Make several calls in one message only if none needs the result of another. Then end your message: the result comes in the next one, in <tool_response>. Never write a result yourself. A message without a call is your answer to the user.

        <tools>
        {"type":"function","function":{"name":"read","description":"","parameters":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}}}}}
        </tools>"##]].assert_eq(&Speech::Hermes.prompt(offered, Calls::All));
    assert_eq!(Speech::UseTool.prompt(&[], Calls::All), "");
}

#[test]
fn what_is_taught_is_understood() {
    for (speech, dialect) in [(Speech::UseTool, TextDialect::UseTool), (Speech::Hermes, TextDialect::Hermes)] {
        let input = json!({ "path": "</use_tool></tool_call>\"\n" });
        let text = speech.call("read", &input);
        let found = super::read(dialect, Options::default(), [text.as_str()]);
        assert_eq!(super::shown(&found), format!("call      read {input}\n"));
    }
}
