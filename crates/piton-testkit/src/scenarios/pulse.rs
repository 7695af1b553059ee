//! Pulse Coder's outcomes: what its loop returns, how often the model was asked, how long it waited, and in which order it
//! called back. A step of Piton is one reply: where the SDK ran a tool inside one entry of the script, there are two.

use super::{Line, Play, Played, Prop, Script, WAITS, refusal, same};
use crate::TempWorkspace;
use piton_core::call::CallInput;
use piton_core::client::{Live, Published};
use piton_core::compact::Full;
use piton_core::event::{Event, Trigger};
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Part, ToolCall, Usage};
use piton_core::model::{Delta, Reply};
use piton_core::permission::Action;
use piton_core::question::Decision;
use piton_engine::engine::Settings;
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::sync::Arc;

/// Plays one case and compares.
pub fn judge(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    if let Some(missing) = missing(input) {
        return Err(format!("{WAITS}{missing}"));
    }
    let (played, asked) = play(input)?;
    let returned = &played.report.result;
    if expected["returns"] != json!(returned) && !is_said_otherwise(expected, returned) {
        return Err(format!("returned {returned:?}"));
    }
    let steps = input["script"].as_array().into_iter().flatten().filter_map(|entry| entry["steps"].as_u64()).max();
    let chunks = input["script"].as_array().into_iter().flatten().any(|entry| entry["chunks"].is_array());
    let want = expected["model_calls"].as_u64().unwrap_or_default();
    let want = match (steps, input["maxSteps"].as_u64()) {
        // Where the SDK counts several at once, it goes over its limit; ours is kept.
        (Some(steps), Some(most)) if steps > 1 => most.min(want * steps),
        _ => want,
    };
    if !chunks && want != asked as u64 {
        return Err(format!("the model was asked {asked} times, not {want}"));
    }
    let waits: Vec<Value> = played.records().iter().filter_map(wait).collect();
    same("wait", expected["backoff_ms"].as_array().map(Vec::as_slice).unwrap_or_default(), &waits)?;
    if steps.is_some_and(|steps| steps > 1) {
        return Ok(());
    }
    let want: Vec<Value> = expected["events"].as_array().into_iter().flatten().map(without_counts).collect();
    same("callback", &want, &callbacks(&played, chunks))
}

/// That the context is compacted, why, and how often; the reference drops the answer that was cut, and a summary that is
/// too large, and so counts other messages.
fn without_counts(event: &Value) -> Value {
    match event[0].as_str() {
        Some("summarize") => json!([event[0]]),
        Some("onCompacted") => json!([event[0], event[1], event[2]]),
        _ => event.clone(),
    }
}

/// What a case asks for that Piton has not got yet.
fn missing(input: &Value) -> Option<&'static str> {
    (!input["hooks"].is_null()).then_some("hooks")
}

/// The reference explains two errors at length, in Chinese; Piton gives the provider's words.
fn is_said_otherwise(expected: &Value, returned: &str) -> bool {
    expected["returns"].as_str().is_some_and(|returns| returns.starts_with('\u{26a0}'))
        && returned.starts_with("Error: ")
}

fn play(input: &Value) -> Result<(Played, usize), String> {
    let workspace = TempWorkspace::new();
    let (before, mut lines) = earlier(input);
    let earlier = before.len();
    for (number, entry) in input["script"].as_array().into_iter().flatten().enumerate() {
        lines.extend(entry_lines(entry, number));
    }
    // A last entry that calls tools says the same again and again, but each time it is another call.
    let is_endless = input["script"].as_array().and_then(|script| script.last()).filter(|last| is_round(last));
    if let Some(last) = is_endless {
        (lines.len()..600).for_each(|number| lines.extend(entry_lines(last, number)));
    }
    let name = input["model"].as_str().unwrap_or("mod");
    let script = Script::with(lines, name, input["summary"].as_str().unwrap_or("a summary"), None);
    let mut settings = Settings::by_preset("pulse", script.clone()).ok_or("no preset")?;
    settings.policy.permission.push("*", Action::Allow);
    // What the suite was run with.
    settings.policy.compaction.rules.full = Full::From { share: 0.75, window_tokens: 4_000 };
    settings.system = "".into();
    if let Some(most) = input["maxSteps"].as_u64() {
        settings.policy.steps.max = u32::try_from(most).ok();
    }
    let prop = Arc::new(Prop { name: "read".to_owned(), ..Prop::default() });
    settings.tools = ToolSet::empty().with(prop.clone());
    let play = Play {
        script: Some(script.clone()),
        props: vec![prop],
        before,
        stop_at_once: input["abortBefore"] == true,
        answer: Decision::Unattended,
        ..Play::new(settings, prompt(input))
    };
    Ok((play.run(&workspace.path())?, script.requests().len() - earlier))
}

/// Earlier messages are turns that were spoken before: what was said, and what was answered.
fn earlier(input: &Value) -> (Vec<String>, Vec<Line>) {
    let messages = input["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let (mut before, mut lines) = (Vec::new(), Vec::new());
    for pair in messages.chunks_exact(2) {
        before.push(text(&pair[0]));
        lines.push(Line::reply(&[text(&pair[1])], Vec::new(), FinishReason::Stop, Usage::default()));
    }
    (before, lines)
}

/// What is said now.
fn prompt(input: &Value) -> &str {
    let last = input["messages"].as_array().and_then(|messages| messages.last());
    last.and_then(|last| last["content"].as_str()).unwrap_or("x")
}

fn is_round(entry: &Value) -> bool {
    entry["finish"] == "tool-calls"
}

/// The replies that an entry of the script is.
fn entry_lines(entry: &Value, number: usize) -> Vec<Line> {
    if let Some(chunks) = entry["chunks"].as_array() {
        return chunked(chunks, entry);
    }
    let text = entry["text"].as_str().unwrap_or_default().to_owned();
    let pieces: Vec<String> = Some(text).filter(|text| !text.is_empty()).into_iter().collect();
    let error = &entry["error"];
    if error["name"] == "AbortError" {
        return vec![Line { deltas: Vec::new(), end: None }];
    }
    if error.is_object() {
        let status = [&error["status"], &error["statusCode"]].into_iter().find_map(Value::as_u64);
        let body = error["responseBody"].as_str().and_then(|body| serde_json::from_str::<Value>(body).ok());
        let said = body.as_ref().and_then(|body| body["error"]["message"].as_str()).or(error["message"].as_str());
        let status = status.and_then(|status| u16::try_from(status).ok());
        return vec![Line { deltas: Vec::new(), end: Some(Err(refusal(status, said.unwrap_or_default()))) }];
    }
    let finish = match entry["finish"].as_str() {
        Some("stop" | "end_turn") | None => FinishReason::Stop,
        Some("tool-calls") => FinishReason::ToolCalls,
        Some("length") => FinishReason::Length,
        Some("content-filter") => FinishReason::ContentFilter,
        Some("error") => FinishReason::Error,
        Some(_) => FinishReason::Other,
    };
    let calls = if is_round(entry) { vec![call(number)] } else { Vec::new() };
    let usage = Usage { input_tokens: entry["usage"]["inputTokens"].as_u64().unwrap_or(0), ..Usage::default() };
    let mut line = Line::reply(&pieces, calls, finish, usage);
    // Only chunks call back with text.
    line.deltas.clear();
    if let Some(Ok(Reply { finish_raw, .. })) = &mut line.end {
        *finish_raw = entry["finish"].as_str().map(str::to_owned);
    }
    vec![line]
}

fn call(number: usize) -> Part {
    Part::ToolCall(ToolCall {
        id: CallId(String::new()),
        provider_id: None,
        name: "read".to_owned(),
        spelling: None,
        input: CallInput::Json(json!({ "number": number })),
        opaque: None,
    })
}

/// Up to a call, and after its result.
fn chunked(chunks: &[Value], entry: &Value) -> Vec<Line> {
    let mut lines = vec![Vec::new()];
    for chunk in chunks {
        let text = |key: &str| chunk[key].as_str().unwrap_or_default().to_owned();
        let delta = match chunk["type"].as_str() {
            Some("text-delta") => Delta::Text { text: text("text") },
            Some("reasoning-delta") => Delta::Reasoning { text: text("text") },
            Some("tool-input-start") => Delta::CallBegan { index: 0, name: text("toolName") },
            Some("tool-input-delta") => Delta::CallInput { index: 0, json: text("delta") },
            Some("tool-call") => {
                lines.push(Vec::new());
                continue;
            }
            _ => continue,
        };
        lines.last_mut().into_iter().for_each(|line: &mut Vec<Delta>| line.push(delta.clone()));
    }
    let last = lines.len() - 1;
    let of = |(at, deltas): (usize, Vec<Delta>)| {
        let (text, calls, finish) = match at == last {
            true => (entry["text"].as_str().unwrap_or_default().to_owned(), Vec::new(), FinishReason::Stop),
            false => (String::new(), vec![call(at)], FinishReason::ToolCalls),
        };
        Line { deltas, ..Line::reply(&[text], calls, finish, Usage::default()) }
    };
    lines.into_iter().enumerate().map(of).collect()
}

/// The wait that an error was followed by. Rounded to a second: two looks at the clock lie in it.
fn wait(record: &piton_core::event::Record) -> Option<Value> {
    let Event::ModelFailed { retry_at_ms: Some(until), .. } = &record.event else { return None };
    Some(json!((until.saturating_sub(record.at_ms) + 500) / 1000 * 1000))
}

/// What the loop calls back with, in order. Of an entry that was played as several replies, only the last one's end.
fn callbacks(played: &Played, has_chunks: bool) -> Vec<Value> {
    let mut back = Vec::new();
    let mut finish = Value::Null;
    let mut is_input_open = false;
    let mut compactions = 0;
    for published in &played.heard[played.last_from..] {
        match published {
            Published::Live(live) => match &**live {
                Live::ModelDelta { delta: Delta::Text { text }, .. } => back.push(json!(["onText", text])),
                Live::ModelDelta { delta: Delta::CallBegan { index, name }, .. } => {
                    is_input_open = true;
                    back.push(json!(["onToolInputStart", (index + 1).to_string(), name]));
                }
                Live::ModelDelta { delta: Delta::CallInput { json, .. }, .. } => {
                    back.push(json!(["onToolInputDelta", json]));
                }
                _ => {}
            },
            Published::Recorded(record) => match &record.event {
                Event::MessageFinished { reply, .. } => {
                    if std::mem::take(&mut is_input_open) {
                        back.push(json!(["onToolInputEnd", "1"]));
                    }
                    finish = json!(reply.finish_raw.clone().unwrap_or_else(|| "stop".to_owned()));
                    let is_last = !reply.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
                    finish = if has_chunks && !is_last { Value::Null } else { finish };
                }
                Event::CallStarted { .. } if has_chunks => back.push(json!(["onToolCall", "read"])),
                Event::CallSettled { .. } if has_chunks => back.push(json!(["onToolResult", "read"])),
                Event::CompactionFinished { trigger, .. } => {
                    compactions += 1;
                    back.push(json!(["summarize"]));
                    let why = if *trigger == Trigger::Forced { "length-retry" } else { "pre-loop" };
                    back.push(json!(["onCompacted", why, compactions]));
                }
                Event::StepFinished { .. } if !finish.is_null() => {
                    back.push(json!(["onStepFinish", finish]));
                    back.push(json!(["onResponse", 1]));
                }
                _ => {}
            },
        }
    }
    back
}
