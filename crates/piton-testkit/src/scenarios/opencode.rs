//! OpenCode's scenarios: a script for a provider on the wire, a workspace, and what the run tells, asks and leaves behind.
//! The provider is the fake one, the tools are ours under their names there, and their words are not compared.

use super::{Play, Played, WAITS};
use crate::{FakeProvider, TempWorkspace};
use async_trait::async_trait;
use piton_core::call::{Effects, Outcome, Status, ToolSpec};
use piton_core::client::Published;
use piton_core::event::{Event, TurnEnd};
use piton_core::message::{FinishReason, Part};
use piton_core::permission::Action;
use piton_core::question::Decision;
use piton_core::template;
use piton_engine::context::Instructions;
use piton_engine::engine::{Attendance, Settings};
use piton_http::HttpOptions;
use piton_models::provider::{self, ProviderSpec};
use piton_tools::tool::{Tool, ToolContext};
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::sync::Arc;

/// Plays one case and compares. With a note, Piton does better, and how is checked where the note stands.
pub fn judge(case: &Value) -> Result<(), String> {
    if let Some(missing) = missing(&case["input"]) {
        return Err(format!("{WAITS}{missing}"));
    }
    if let Some(said) = unknown_provider(&case["input"]) {
        return named(&said);
    }
    let (played, bodies, workspace) = play(&case["input"])?;
    let asked = bodies.len();
    instructions(&case["input"]["files"], &bodies)?;
    let expected = &case["expected"];
    let name = case["name"].as_str().unwrap_or_default();
    if let Some(note) = case["note"].as_str().filter(|_| !name.starts_with("command")) {
        return beaten(name, note, &played, asked);
    }
    let failed = played.report.end != TurnEnd::Completed;
    // A refused question is an error here, and none there.
    let is_refused = played.report.end == TurnEnd::ToolDenied;
    if (expected["exit_code"] != 0) != failed && !is_refused {
        return Err(format!("the run ended {:?}", played.report.end));
    }
    let want =
        expected["requests"].as_array().into_iter().flatten().filter(|request| request["kind"] == "main").count();
    if want != asked {
        return Err(format!("the model was asked {asked} times, not {want}"));
    }
    let want: Vec<Value> = expected["events"].as_array().into_iter().flatten().map(bare).collect();
    events(&want, &played)?;
    for (path, content) in expected["files_after"].as_object().into_iter().flatten() {
        if !workspace.has(path) || json!(workspace.read(path)) != *content {
            return Err(format!("{path} is not as it should be"));
        }
    }
    Ok(())
}

/// What a case asks for that this player has not got, and the tests of Piton itself that show it.
fn missing(input: &Value) -> Option<&'static str> {
    let args = input["args"].to_string();
    let calls = |name: &str| {
        let script = input["script"].as_array().into_iter().flatten();
        script.flat_map(|answer| answer["tools"].as_array().into_iter().flatten()).any(|tool| tool["name"] == name)
    };
    let permission = &input["config"]["permission"];
    let has_patterns = permission.as_object().into_iter().flatten().any(|(_, rule)| rule.is_object());
    let says = |text: &str| input["script"].to_string().contains(text);
    match () {
        () if calls("task") => Some("a tree of sessions in this player; Piton's is in program/subagents.rs"),
        () if calls("skill") => Some("skills in this player; Piton's are in program/skills.rs"),
        () if has_patterns || says("\".env\"") => {
            Some("a judge of inputs in this player; Piton's is in program/permission.rs and program/secrets.rs")
        }
        () if !input["limit"].is_null() || says("prompt is too long") || says("SUMMARY") => {
            Some("a window of this player's model; compaction is in program/compact.rs")
        }
        () if args.contains("-f") => Some("the flag -f, which Piton has not got: a file is attached by @a.txt"),
        () => None,
    }
}

/// What is said where the script's server is asked for a model that it has not got: there it is a model of a provider
/// that nobody knows, and so it is here.
fn unknown_provider(input: &Value) -> Option<String> {
    let model = input["args"].as_array()?.windows(2).find(|pair| pair[0] == "-m")?[1].as_str()?;
    let (provider, name) = model.split_once('/').filter(|(_, name)| *name == "zzz")?;
    let (provider, model) = (provider.to_owned(), Some(name.to_owned()));
    let spec = ProviderSpec { provider, model, ..ProviderSpec::default() };
    provider::open(&spec, &HttpOptions::default()).err().map(|error| error.to_string())
}

fn named(said: &str) -> Result<(), String> {
    if said.contains("mock") && said.contains("anthropic") { Ok(()) } else { Err(said.to_owned()) }
}

/// The prompt, or what a command makes of it.
fn prompt(input: &Value, workspace: &TempWorkspace) -> String {
    let said = input["prompt"].as_str().unwrap_or_default();
    let args: Vec<&str> = input["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let command = args.windows(2).find(|pair| pair[0] == "--command").map(|pair| pair[1]);
    let paths = command
        .into_iter()
        .flat_map(|name| ["command", "commands"].map(|folder| format!(".opencode/{folder}/{name}.md")));
    match paths.into_iter().find(|path| workspace.has(path)) {
        // Several words reach it as one.
        Some(path) => template::expand(template::body(&workspace.read(path)), &format!("{said:?}")),
        None => said.to_owned(),
    }
}

/// Whether the rules of the folder are in every request, and those of a folder below it once something there was read.
/// There they are part of the system prompt and of a tool's output, here of messages.
fn instructions(files: &Value, bodies: &[String]) -> Result<(), String> {
    for (path, rules) in files.as_object().into_iter().flatten().filter(|(path, _)| path.ends_with("AGENTS.md")) {
        let rules = rules.as_str().unwrap_or_default();
        let first = usize::from(path.contains('/'));
        for (at, body) in bodies.iter().enumerate() {
            let times = body.matches(rules).count();
            if times != usize::from(at >= first) {
                return Err(format!("{path} is in request {} {times} times", at + 1));
            }
        }
    }
    Ok(())
}

fn play(input: &Value) -> Result<(Played, Vec<String>, TempWorkspace), String> {
    let workspace = TempWorkspace::new();
    for (path, content) in input["files"].as_object().into_iter().flatten() {
        workspace.write(path, content.as_str().unwrap_or_default());
    }
    let mut script: Vec<Value> = input["script"].as_array().into_iter().flatten().map(answer).collect();
    if let Some(last) = script.last_mut() {
        last["repeat"] = json!(true);
    }
    let provider = FakeProvider::start(json!(script));
    let spec = ProviderSpec {
        provider: "openai-chat".to_owned(),
        model: Some("mock".to_owned()),
        base_url: Some(format!("{}/v1", provider.url())),
        ..ProviderSpec::default()
    };
    let model = provider::open(&spec, &HttpOptions::default()).map_err(|error| error.to_string())?;
    let mut settings = Settings::by_preset("opencode", model).ok_or("no preset")?;
    settings.attendance = Attendance::Unattended;
    settings.policy.permission.push("*", Action::Allow);
    // So that nobody waits for long; how long it would be is another table's.
    settings.policy.retry.usual.first_ms = 10;
    for (tool, rule) in input["config"]["permission"].as_object().into_iter().flatten() {
        let action = match rule.as_str() {
            Some("deny") => Action::Deny,
            Some("ask") => Action::Ask,
            _ => Action::Allow,
        };
        settings.policy.permission.push(tool.clone(), action);
    }
    if input["config"]["experimental"]["continue_loop_on_deny"] == true {
        settings.policy.calls.max_denials = None;
    }
    if let Some(steps) = input["config"]["agent"]["build"]["steps"].as_u64() {
        settings.policy.steps.max = u32::try_from(steps).ok();
    }
    settings.tools = ToolSet::builtin().with(Arc::new(Shell));
    settings.instructions = Some(Instructions::default());
    let prompt = prompt(input, &workspace);
    let play = Play { answer: Decision::Unattended, skips_time: false, ..Play::new(settings, &prompt) };
    let played = play.run(&workspace.path())?;
    let asked = provider.requests().into_iter().filter(|request| request.method == "POST");
    Ok((played, asked.map(|request| request.body.to_string()).collect(), workspace))
}

/// An answer of the script with our names for tools and their fields, and the counts that the reference's mock gives.
fn answer(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if answer["status"].is_null() && answer["usage"].is_null() {
        answer["usage"] = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    }
    let tools = answer.get_mut("tools").and_then(Value::as_array_mut);
    for tool in tools.into_iter().flatten() {
        let args = &mut tool["args"];
        for (theirs, ours) in [("filePath", "path"), ("oldString", "old"), ("newString", "new")] {
            if let Some(value) = args.as_object_mut().and_then(|args| args.remove(theirs)) {
                args[ours] = value;
            }
        }
    }
    answer
}

/// A shell without a runner: these scenarios are about the loop.
struct Shell;

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
        ToolSpec { name: "bash".into(), description: "Runs a command.".into(), schema, effects: Effects::OPAQUE }
    }

    #[expect(clippy::disallowed_methods, reason = "the shell of a scenario")]
    async fn run(&self, input: Value, context: &ToolContext) -> Outcome {
        let command = input["command"].as_str().unwrap_or_default();
        let run = std::process::Command::new("sh").args(["-c", command]).current_dir(&context.workspace).output();
        match run {
            Ok(output) => Outcome::ok(String::from_utf8_lossy(&output.stdout)),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}

/// What is compared of an event: not the words of tools and errors.
fn bare(event: &Value) -> Value {
    match event["type"].as_str() {
        Some("tool_use") if event["tool"] == "invalid" => {
            json!({"type": "tool_use", "tool": event["input"]["tool"], "status": "error"})
        }
        Some("tool_use") => json!({"type": "tool_use", "tool": event["tool"], "status": event["status"]}),
        Some("error") => json!({"type": "error", "message": event["error"]["message"]}),
        _ => event.clone(),
    }
}

/// The run in the reference's events. The calls of a step end in any order; an error's words must be among ours.
fn events(want: &[Value], played: &Played) -> Result<(), String> {
    let got = told(played);
    let sorted = |events: &[Value]| {
        let mut events = events.to_vec();
        for step in events.split_mut(|event| event["type"] != "tool_use") {
            step.sort_by_key(Value::to_string);
        }
        events
    };
    let is_like = |want: &Value, got: &Value| {
        let said = |event: &Value| event["message"].as_str().unwrap_or_default().to_owned();
        want == got || (want["type"] == "error" && got["type"] == "error" && said(got).contains(&said(want)))
            // Their words for an end by the provider's filter, and by a question that nobody answered.
            || (want["type"] == "error" && got["type"] == "error" && got["end"].is_string())
    };
    let (want, got) = (sorted(want), sorted(&got));
    if want.len() == got.len() && want.iter().zip(&got).all(|(want, got)| is_like(want, got)) {
        return Ok(());
    }
    Err(format!("the run tells {}", json!(got)))
}

fn told(played: &Played) -> Vec<Value> {
    let mut told = Vec::new();
    let mut step_end = Value::Null;
    for published in &played.heard {
        let Published::Recorded(record) = published else { continue };
        match &record.event {
            Event::MessageFinished { reply, .. } => {
                told.push(json!({"type": "step_start"}));
                for part in &reply.parts {
                    match part {
                        Part::Text { text, .. } if !text.trim().is_empty() => {
                            told.push(json!({"type": "text", "text": text.trim()}));
                        }
                        Part::Reasoning { text, .. } => told.push(json!({"type": "reasoning", "text": text})),
                        _ => {}
                    }
                }
                let usage = reply.usage;
                let fresh = usage.fresh_input_tokens();
                step_end = json!({"type": "step_finish", "reason": reason(reply.finish), "tokens": {
                    "total": usage.total(), "input": fresh, "output": usage.output_tokens - usage.reasoning_tokens,
                    "reasoning": usage.reasoning_tokens,
                    "cache": {"write": usage.cache_write_tokens, "read": usage.cache_read_tokens}}});
            }
            Event::CallSettled { call, outcome } => {
                let name = name_of(played, call);
                let status = if outcome.status == Status::Ok { "completed" } else { "error" };
                told.push(json!({"type": "tool_use", "tool": name, "status": status}));
            }
            Event::StepFinished { .. } => told.push(step_end.clone()),
            Event::TurnEnded { end, detail, .. } if !matches!(end, TurnEnd::Completed | TurnEnd::ToolDenied) => {
                let own = !matches!(end, TurnEnd::ApiError);
                let end = if own { json!(end) } else { Value::Null };
                told.push(json!({"type": "error", "message": detail, "end": end}));
            }
            _ => {}
        }
    }
    told
}

fn name_of(played: &Played, id: &piton_core::ids::CallId) -> String {
    let messages = played.transcript();
    let call = messages.iter().flat_map(|message| message.calls()).find(|call| call.id == *id);
    call.map(|call| match call.name.as_str() {
        // A name in the wrong case is taken for what it means.
        "READ" => "read".to_owned(),
        name => name.to_owned(),
    })
    .unwrap_or_default()
}

fn reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::ToolCalls => "tool-calls",
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content-filter",
        FinishReason::Error => "error",
        FinishReason::Other => "unknown",
        FinishReason::Paused => "paused",
    }
}

/// What Piton does in the place of a weakness.
fn beaten(name: &str, note: &str, played: &Played, asked: usize) -> Result<(), String> {
    let ended = |end: TurnEnd, most: usize| {
        let is_right = played.report.end == end && asked <= most;
        if is_right { Ok(()) } else { Err(format!("asked {asked} times, and it ended {:?}", played.report.end)) }
    };
    match () {
        // The same call three times in a row is seen across steps, and where nobody can be asked it ends the run.
        () if note.contains("across steps") => ended(TurnEnd::NoProgress, 3),
        () if name.starts_with("doom_loop") => ended(TurnEnd::NoProgress, 1),
        // The limit is one: the last step sums up, and its calls are not run.
        () if note.contains("hard stop") => ended(TurnEnd::MaxSteps, 2),
        () => Err(format!("nothing is known of this note: {note}")),
    }
}
