//! Models that write their calls as text, from the outside.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

const READ: &str =
    "<use_tool>\n<tool_name>read</tool_name>\n<arguments>\n{\"path\":\"a.txt\"}\n</arguments>\n</use_tool>";
const TOUCH: &str = r#"<tool_call>{"name": "bash", "arguments": {"command": "touch made"}}</tool_call>"#;

const FILES: [(&str, &str); 1] = [("a.txt", "forty-two\n")];

/// Says something, reads the file by a call in text, and answers; three characters at a time.
fn reads_and_answers() -> Value {
    json!([{"text": format!("I look.\n\n{READ}"), "delta_chars": 3}, {"text": "It says forty-two."}])
}

fn shown(ran: &Ran) -> String {
    let deltas = ran.all("model_delta");
    deltas.iter().filter_map(|event| event["delta"]["text"].as_str()).collect()
}

/// Roles and texts of the newest request's messages, the system prompt left out.
fn said(stage: &Stage) -> Vec<(String, String)> {
    let text = |content: &Value| match content.as_array() {
        Some(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        None => content.as_str().unwrap_or_else(|| panic!("no text: {content}")).to_owned(),
    };
    let messages = stage.last_messages().into_iter().filter(|message| message["role"] != "system");
    messages.map(|message| (message["role"].as_str().unwrap().to_owned(), text(&message["content"]))).collect()
}

#[test]
fn a_model_is_taught_to_call_tools_in_text() {
    let stage = Stage::new(reads_and_answers()).with_files(FILES);
    let ran = stage.run(&["--text-tools", "use_tool", "what does a.txt say?"]).expect_code(0);
    assert_eq!(ran.result()["text"], "It says forty-two.");
    assert_eq!(ran.outcomes()[0]["status"], "ok");
    assert_eq!(shown(&ran), "I look.\n\nIt says forty-two.", "no piece of a tag is shown");
    for request in stage.provider.requests() {
        assert_eq!(request.body.get("tools"), None, "the server is told of no tools");
        assert!(request.body["messages"][0]["content"].as_str().unwrap().contains("## read"), "the model is");
    }
    let said = said(&stage);
    let roles: Vec<&str> = said.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(said[1].1, format!("I look.\n\n{READ}"), "the call goes back as it was made");
    assert!(said[2].1.contains("<function_results>") && said[2].1.contains("forty-two"), "{said:?}");
}

#[test]
fn the_result_goes_back_in_the_dialect_that_was_taught() {
    let call = r#"<tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>"#;
    let script = json!([{ "text": call }, {"text": "Forty-two."}]);
    let config = "[text_tools]\n\"openai-chat/test-model\" = \"hermes\"\n";
    let stage = Stage::new(script).with_files(FILES).with_config(config);
    stage.run(&["what does a.txt say?"]).expect_code(0);
    let said = said(&stage);
    assert!(said[1].1.starts_with("<tool_call>"), "{said:?}");
    assert!(said[2].1.starts_with("<tool_response>") && said[2].1.contains("forty-two"), "{said:?}");
}

#[test]
fn it_works_over_every_protocol() {
    for protocol in ["anthropic", "openai-responses"] {
        let stage = Stage::speaking(protocol, reads_and_answers()).with_files(FILES);
        let ran = stage.run(&["--text-tools", "use_tool", "what does a.txt say?"]).expect_code(0);
        assert_eq!(ran.result()["text"], "It says forty-two.", "{protocol}");
        assert_eq!(shown(&ran), "I look.\n\nIt says forty-two.", "{protocol}");
        assert!(stage.provider.requests().iter().all(|request| request.body.get("tools").is_none()), "{protocol}");
    }
}

#[test]
fn a_session_with_calls_in_text_goes_on_as_it_was() {
    let stage = Stage::new(json!([{ "text": READ }, {"text": "Forty-two."}, {"text": "Yes."}]));
    let stage = stage.with_files(FILES).with_config("[text_tools]\nopenai-chat = \"use_tool\"\n");
    stage.run(&["what does a.txt say?"]).expect_code(0);
    let before = stage.provider.requests()[1].body["messages"].as_array().unwrap().clone();
    stage.run(&["--continue", "really?"]).expect_code(0);
    let after = stage.last_messages();
    assert_eq!(after[..before.len()], before, "what was said before is said again, to the byte");
    assert_eq!(after.len(), before.len() + 2);
}

#[test]
fn only_the_first_call_runs_if_so_wanted() {
    let script = json!([{"text": format!("{READ}\n{TOUCH}\nDone.")}, {"text": "Ok."}]);
    let stage = Stage::new(script).with_files(FILES);
    let ran = stage.run(&["--text-tools", "use_tool:first", "go"]).expect_code(0);
    assert_eq!(ran.outcomes().len(), 1);
    assert!(!stage.workspace.path().join("made").exists());
}

#[test]
fn a_call_that_the_server_left_in_the_text_is_found() {
    let script = json!([{"text": format!("Now.\n{TOUCH}"), "delta_chars": 2}, {"text": "Made."}]);
    let stage = Stage::new(script.clone());
    let run = |stage: &Stage, model: &str| {
        Ran::of(stage.piton(&["run", "--yes", "--format", "stream-json", "--model", model, "make it"])).expect_code(0)
    };
    let ran = run(&stage, "openai-chat/qwen3:4b");
    assert_eq!(shown(&ran), "Now.\nMade.");
    assert!(stage.workspace.path().join("made").exists());
    let requests = stage.provider.requests();
    assert!(requests[0].body["tools"].is_array(), "the server is told of the tools");
    let messages = stage.last_messages();
    assert_eq!(messages[messages.len() - 2]["tool_calls"][0]["function"]["name"], "bash", "and of the call it missed");
    assert_eq!(messages[messages.len() - 1]["role"], "tool");

    let other = Stage::new(script);
    let ran = run(&other, "openai-chat/some-model");
    assert_eq!(ran.result()["text"], format!("Now.\n{TOUCH}"), "of a model without a dialect it is text");
}

#[test]
fn a_call_in_the_text_of_a_hosted_model_stays_text() {
    let example = r#"{"name": "bash", "parameters": {"command": "touch made"}}"#;
    for text in [example.to_owned(), format!("Like this:\n{TOUCH}")] {
        let stage = Stage::new(json!([{ "text": text }]));
        // Under its own host's name; the proxy answers in its place.
        let proxy = format!("[http]\nproxy = \"{}\"\n", stage.provider.url());
        let stage =
            stage.with_config(&format!("{proxy}[providers.groq]\nbase_url = \"http://api.groq.com/openai/v1\"\n"));
        let mut command = stage.piton(&["run", "--yes", "--format", "stream-json"]);
        command
            .args(["--model", "groq/llama-3.3-70b-versatile", "what does a call look like?"])
            .env("GROQ_API_KEY", "k");
        let ran = Ran::of(command).expect_code(0);
        assert_eq!(ran.result()["text"], text.as_str());
        assert!(!stage.workspace.path().join("made").exists(), "{text}");
        assert!(stage.provider.requests()[0].path.contains("api.groq.com"), "it was asked as the service");
    }
}

/// The reply ends within an argument that speaks of calls.
#[test]
fn half_of_an_argument_is_never_written() {
    let text = "<tool_call>\n<function=write>\n<parameter=path>\nnotes.md\n</parameter>\n<parameter=content>\n# Formats\n\
                Qwen writes <function=NAME> and then its paramet";
    for (model, way) in
        [("openai-chat/m", "hermes"), ("openai-chat/m", "use_tool"), ("openai-chat/qwen3-coder", "auto")]
    {
        for finish in ["length", "stop"] {
            let stage = Stage::new(json!([{"text": text, "finish": finish}, {"text": "Ok."}]));
            let mut args = vec!["run", "--yes", "--model", model];
            args.extend(if way == "auto" { vec![] } else { vec!["--text-tools", way] });
            Ran::of(stage.piton(&[args, vec!["write it"]].concat())).expect_code(0);
            assert!(!stage.workspace.has("notes.md"), "{model} {way} {finish}");
        }
    }
}

#[test]
fn a_call_that_is_quoted_or_explained_does_not_run() {
    for text in [
        format!("Write this:\n\n```xml\n{TOUCH}\n```"),
        format!("> {TOUCH}"),
        format!("`{TOUCH}`"),
        format!("With {TOUCH} a file is made."),
    ] {
        let stage = Stage::new(json!([{"text": text, "delta_chars": 5}]));
        let ran = stage.run(&["--text-tools", "look", "how does one call a tool?"]).expect_code(0);
        assert_eq!(ran.result()["text"], text.as_str());
        assert_eq!(shown(&ran), text);
        assert!(!stage.workspace.path().join("made").exists(), "{text}");
    }
}

#[test]
fn what_is_forbidden_stays_forbidden_in_text() {
    let stage = Stage::new(json!([{ "text": TOUCH }, {"text": "Well."}]));
    let ran = stage.run(&["--text-tools", "use_tool", "--deny", "bash", "make it"]);
    assert_eq!(ran.outcomes()[0]["status"], "denied");
    assert!(!stage.workspace.path().join("made").exists());
    // Who only looks finds no call of a tool that is not on offer: it is text.
    let stage = Stage::new(json!([{ "text": TOUCH }]));
    let ran = stage.run(&["--text-tools", "look", "--deny", "bash", "make it"]);
    assert_eq!(ran.result()["text"], TOUCH);
    assert!(!stage.workspace.path().join("made").exists());
}

#[test]
fn an_unknown_way_is_named_with_the_known_ones() {
    let stage = Stage::new(json!([]));
    stage.run(&["--text-tools", "xml", "go"]).expect_code(2).expect_said(&["\"xml\"", "use_tool, hermes"]);
    let stage = stage.with_config("[text_tools]\nmine = \"xml\"\n");
    stage.run(&["go"]).expect_code(1).expect_said(&["config.toml", "\"xml\"", "use_tool, hermes"]);
}
