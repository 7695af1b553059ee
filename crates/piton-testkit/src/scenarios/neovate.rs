//! Neovate's scenarios: a scripted model and tools with fixed results, and what its `runLoop` gives back, calls back and
//! sends.

use super::{Line, Play, Played, Prop, Script, refusal, same};
use crate::TempWorkspace;
use async_trait::async_trait;
use piton_core::call::{CallInput, Outcome};
use piton_core::client::{Live, Published};
use piton_core::event::{Author, Event, Subject, TurnEnd, Verdict};
use piton_core::hook::HookPoint;
use piton_core::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use piton_core::model::{Delta, Reply, Request};
use piton_core::permission::Action;
use piton_core::question::Decision;
use piton_engine::engine::{Attendance, Settings};
use piton_engine::hooks::{CallChange, Hook, HookContext, HookResult, OutcomeChange, Points};
use piton_tools::toolset::ToolSet;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// Plays one case and compares. With a note, only what is not the reference's mistake.
pub fn judge(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let (played, requests) = play(input)?;
    let expected = &case["expected"];
    if case["note"].is_string() {
        return beaten(&expected["result"], &played);
    }
    result(&expected["result"], &played)?;
    let history = expected["result"].pointer("/data/history").or(expected["result"].pointer("/error/details/history"));
    if let Some(history) = history.and_then(Value::as_array) {
        let want: Vec<Value> = history.iter().map(without_ids).collect();
        same("history", &want, &told(&played, &want))?;
    }
    let want: Vec<Value> = expected["callbacks"].as_array().into_iter().flatten().map(without_ids).collect();
    same("callback", &want, &callbacks(&played, &want))?;
    sent(&expected["requests"], &requests, !input["messages"].is_null())
}

/// The callbacks that put something else in the place of a call's arguments, or of its result.
struct Rewrite {
    input: Option<Value>,
    result: Option<String>,
}

impl Rewrite {
    fn of(input: &Value) -> Self {
        let result = &input["rewriteToolResult"];
        let result = result["llmContent"].as_str().or(result.as_str()).map(str::to_owned);
        Self { input: Some(input["rewriteToolUse"].clone()).filter(Value::is_object), result }
    }
}

#[async_trait]
impl Hook for Rewrite {
    fn name(&self) -> &str {
        "rewrite"
    }

    // Nothing that is said waits for it.
    fn points(&self) -> Points {
        Points::of([HookPoint::BeforeTool, HookPoint::AfterTool])
    }

    async fn before_tool_call(&self, _: &HookContext, _: &ToolCall) -> HookResult<CallChange> {
        Ok(CallChange { input: self.input.clone(), ..CallChange::default() })
    }

    async fn after_tool_call(&self, _: &HookContext, _: &ToolCall, outcome: &Outcome) -> HookResult<OutcomeChange> {
        let outcome = self.result.clone().map(|text| Outcome { text, ..outcome.clone() });
        Ok(OutcomeChange { outcome, ..OutcomeChange::default() })
    }
}

fn play(input: &Value) -> Result<(Played, Vec<Request>), String> {
    let workspace = TempWorkspace::new();
    for (path, content) in input["files"].as_object().into_iter().flatten() {
        workspace.write(path, content.as_str().unwrap_or_default());
    }
    let (mut lines, mut prompts) = (Vec::new(), Vec::new());
    // Earlier messages are turns that were spoken before.
    for message in input["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("assistant") => {
                let text = message["text"].as_str().unwrap_or_default().to_owned();
                lines.push(Line::reply(&[text], Vec::new(), FinishReason::Stop, Usage::default()));
            }
            _ => prompts.push(message["content"].as_str().unwrap_or_default().to_owned()),
        }
    }
    let abort_at = input["abortAt"].as_str().unwrap_or_default();
    for turn in input["turns"].as_array().into_iter().flatten() {
        lines.push(line(turn, abort_at == "stream" || abort_at == "delta"));
    }
    let script = Script::new(lines);
    let mut settings = Settings::by_preset("neovate", script.clone()).ok_or("no preset")?;
    settings.attendance = Attendance::Attended;
    settings.policy.permission.push("*", Action::Allow);
    for denied in input["deny"].as_array().into_iter().flatten() {
        settings.policy.permission.push(denied.as_str().unwrap_or_default(), Action::Ask);
    }
    if let Some(most) = input["maxTurns"].as_u64() {
        settings.policy.steps.max = u32::try_from(most).ok();
    }
    let contexts: Vec<&str> =
        input["llmsContexts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    settings.environment_note = Some(contexts.join("\n\n")).filter(|contexts| !contexts.is_empty());
    settings.system = input["systemPrompt"].as_str().unwrap_or_default().into();
    settings.hooks.push(Arc::new(Rewrite::of(input)));
    let empty = Map::new();
    let props = input["tools"].as_object().unwrap_or(&empty).iter().map(|(name, tool)| {
        Arc::new(Prop {
            name: name.clone(),
            says: tool["result"].as_str().map(str::to_owned),
            fails: tool["isError"] == true,
            stops: abort_at == "tool",
            ..Prop::default()
        })
    });
    let props: Vec<Arc<Prop>> = props.collect();
    settings.tools = props.iter().fold(ToolSet::empty(), |tools, prop| tools.with(prop.clone()));
    prompts.extend(input["prompt"].as_str().map(str::to_owned));
    let play = Play {
        script: Some(script.clone()),
        props,
        prompts,
        stop_at_once: abort_at == "start",
        answer: Decision::Deny(None),
        ..Play::new(settings, "")
    };
    Ok((play.run(&workspace.path())?, script.requests()))
}

fn line(turn: &Value, is_stopped: bool) -> Line {
    let pieces: Vec<String> = match turn["deltas"].as_array() {
        Some(deltas) => deltas.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => turn["text"].as_str().map(str::to_owned).into_iter().collect(),
    };
    let count = |key: &str| turn["usage"][key].as_u64().unwrap_or(0);
    let usage = Usage {
        input_tokens: count("promptTokens"),
        output_tokens: count("completionTokens"),
        cache_read_tokens: count("cacheReadTokens"),
        cache_write_tokens: count("cacheWriteTokens"),
        ..Usage::default()
    };
    let mut line = Line::reply(&pieces, Vec::new(), FinishReason::Stop, usage);
    let thoughts = match &turn["reasoning"] {
        Value::String(thought) => vec![thought.clone()],
        thoughts => thoughts.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
    };
    line.deltas.splice(0..0, thoughts.into_iter().map(|text| Delta::Reasoning { text }));
    let error = &turn["error"];
    if error.is_object() {
        let status = error["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        line.end = Some(Err(refusal(status, error["message"].as_str().unwrap_or_default())));
    }
    if is_stopped {
        line.end = None;
    }
    line
}

/// What the loop gives back.
fn result(expected: &Value, played: &Played) -> Result<(), String> {
    let report = &played.report;
    let kind = match report.end {
        TurnEnd::Completed => Value::Null,
        TurnEnd::Canceled => json!("canceled"),
        TurnEnd::ToolDenied => json!("tool_denied"),
        TurnEnd::MaxSteps | TurnEnd::MaxTurns => json!("max_turns_exceeded"),
        _ => json!("api_error"),
    };
    let usage = |usage: &Usage| json!({"promptTokens": usage.input_tokens, "completionTokens": usage.output_tokens});
    let fail = |what: &str, want: &Value, got: &Value| Err(format!("{what}: {got} instead of {want}"));
    if (expected["success"] == true) != kind.is_null() {
        return fail("error type", &expected["error"], &json!([kind, report.detail]));
    }
    let sums = if kind.is_null() { &expected["data"]["usage"] } else { &expected["error"]["details"]["usage"] };
    let got = usage(&report.spent.usage);
    if sums.is_object() && ["promptTokens", "completionTokens"].iter().any(|key| sums[*key] != got[*key]) {
        return fail("usage", sums, &got);
    }
    if kind.is_null() {
        let text = json!(report.result.trim());
        if expected["data"]["text"].as_str().map(str::trim) != text.as_str() {
            return fail("text", &expected["data"]["text"], &text);
        }
        let approved = played.records().iter().filter(|record| is_approved(&record.event)).count();
        let (turns, counted) = (&expected["metadata"]["turnsCount"], json!(report.spent.counted_steps));
        if *turns != counted {
            return fail("turnsCount", turns, &counted);
        }
        let calls = &expected["metadata"]["toolCallsCount"];
        return if *calls == json!(approved) { Ok(()) } else { fail("toolCallsCount", calls, &json!(approved)) };
    }
    let error = &expected["error"];
    if error["type"] != kind {
        return fail("error type", &error["type"], &kind);
    }
    if error["message"] != json!(&*report.result) {
        return fail("message", &error["message"], &json!(&*report.result));
    }
    let status = played.records().iter().find_map(|record| match &record.event {
        Event::ModelFailed { error, .. } => error.status,
        _ => None,
    });
    let want = &error["details"]["status"];
    if want.is_number() && *want != json!(status) { fail("status", want, &json!(status)) } else { Ok(()) }
}

fn is_approved(event: &Event) -> bool {
    matches!(event, Event::CallRequested { verdict: Verdict::Allow | Verdict::Refuse(_), .. })
        || matches!(
            event,
            Event::ApprovalGiven {
                decision: Decision::Approve | Decision::ApproveForSession | Decision::ApproveLasting(_),
                ..
            }
        )
}

/// What the reference does and must not: a call that was cut off was not run, the model was told, and it went on.
fn beaten(expected: &Value, played: &Played) -> Result<(), String> {
    if expected["data"]["text"] != json!(&*played.report.result) {
        return Err(format!("it returned {:?}", played.report.result));
    }
    let mut refused = false;
    for message in played.transcript() {
        for part in &message.parts {
            match part {
                Part::ToolCall(ToolCall { spelling: None, input: CallInput::Invalid { .. }, .. }) => refused = true,
                Part::ToolCall(call) => return Err(format!("{} was run with {:?}", call.name, call.input)),
                _ => {}
            }
        }
    }
    if refused { Ok(()) } else { Err("no call was refused".to_owned()) }
}

/// The conversation in the reference's shape.
fn told(played: &Played, want: &[Value]) -> Vec<Value> {
    let transcript = played.transcript();
    let calls: HashMap<_, _> =
        transcript.iter().flat_map(|message| message.calls()).map(|call| (call.id.clone(), call.clone())).collect();
    // What had streamed when it was stopped is kept here, and is not there.
    let kept = transcript.iter().filter(|message| !message.interrupted);
    kept.enumerate()
        .map(|(at, message)| match message.role {
            Role::User => json!({"role": "user", "content": prose(message)}),
            Role::Assistant => json!({"role": "assistant", "content": content(&message.parts)}),
            Role::Tool => {
                let likeness = want.get(at).map(|want| &want["content"]);
                json!({"role": "user", "content": results(message, &calls, likeness)})
            }
        })
        .collect()
}

fn prose(message: &Message) -> String {
    piton_core::message::prose(&message.parts).into_owned()
}

fn content(parts: &[Part]) -> Vec<Value> {
    let said = parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } if text.trim().is_empty() => None,
        Part::Text { text, .. } => Some(json!({"type": "text", "text": text.trim()})),
        Part::ToolCall(call) => Some(json!({"type": "tool_use", "name": call.name, "input": input(call)})),
        _ => None,
    });
    said.collect()
}

fn input(call: &ToolCall) -> Value {
    match &call.input {
        CallInput::Json(input) => input.clone(),
        CallInput::Invalid { raw, .. } => json!({ "_raw": raw }),
    }
}

fn results(
    message: &Message,
    calls: &HashMap<piton_core::ids::CallId, ToolCall>,
    likeness: Option<&Value>,
) -> Vec<Value> {
    let answered = message.parts.iter().enumerate().filter_map(|(at, part)| {
        let Part::ToolResult { call, tool, outcome } = part else { return None };
        let want = likeness.map(|likeness| &likeness[at]["result"]);
        let written = || calls.get(call).map(input).unwrap_or_default();
        let input = outcome.changed_input().cloned().unwrap_or_else(written);
        Some(json!({"type": "tool_result", "name": tool, "input": input, "result": told_result(outcome, want)}))
    });
    answered.collect()
}

/// A result in the reference's shape. Of an error, Piton may say more than the reference, and after it.
fn told_result(outcome: &Outcome, want: Option<&Value>) -> Value {
    let mut result = json!({ "llmContent": outcome.text });
    if outcome.status.is_error() {
        result["isError"] = json!(true);
        let want = want.and_then(|want| want["llmContent"].as_str());
        if let Some(want) = want.filter(|want| outcome.text.starts_with(*want)) {
            result["llmContent"] = json!(want);
        }
    }
    result
}

/// What the loop calls back with, in order.
fn callbacks(played: &Played, want: &[Value]) -> Vec<Value> {
    let mut back: Vec<Value> = Vec::new();
    let mut calls: HashMap<_, ToolCall> = HashMap::new();
    let mut approved = true;
    for published in &played.heard[played.last_from..] {
        match published {
            Published::Live(live) => match &**live {
                Live::ModelDelta { delta: Delta::Text { text }, .. } => back.push(json!(["onTextDelta", text])),
                Live::ModelDelta { delta: Delta::Reasoning { text }, .. } => back.push(json!(["onReasoning", text])),
                _ => {}
            },
            Published::Recorded(record) => match &record.event {
                Event::MessageFinished { reply, .. } => {
                    let kept = first_call_only(reply);
                    calls.extend(kept.iter().filter_map(|part| match part {
                        Part::ToolCall(call) => Some((call.id.clone(), call.clone())),
                        _ => None,
                    }));
                    replied(reply, &kept, &mut back);
                }
                Event::CallRequested { call, verdict, author, input: changed, .. } => {
                    let Some(call) = calls.get_mut(call) else { continue };
                    back.push(json!(["onToolUse", call.name, input(call)]));
                    if let Some(changed) = changed.as_ref().filter(|_| *author == Author::Hook) {
                        call.input = CallInput::Json(changed.clone());
                    }
                    if !matches!(verdict, Verdict::Ask) {
                        approved = !matches!(verdict, Verdict::Deny(_));
                        back.push(json!(["onToolApprove", call.name, approved]));
                    }
                }
                Event::ApprovalGiven { subject: Subject::Call(call), decision, .. } => {
                    approved = matches!(
                        decision,
                        Decision::Approve | Decision::ApproveForSession | Decision::ApproveLasting(_)
                    );
                    back.push(json!(["onToolApprove", calls[call].name, approved]));
                }
                Event::CallStarted { call } => {
                    back.push(json!(["tool.execute", calls[call].name, input(&calls[call])]));
                }
                Event::CallSettled { call, outcome } => {
                    let call = &calls[call];
                    let likeness = want.get(back.len()).map(|want| &want[2]);
                    let result = told_result(outcome, likeness);
                    back.push(json!(["onToolResult", call.name, result, approved]));
                    let part =
                        json!({"type": "tool_result", "name": call.name, "input": input(call), "result": result});
                    back.push(json!(["onMessage", "user", [part]]));
                }
                _ => {}
            },
            _ => {}
        }
    }
    back
}

fn replied(reply: &Reply, kept: &[Part], back: &mut Vec<Value>) {
    if let Some(Part::Text { text, .. }) = kept.first()
        && !text.trim().is_empty()
    {
        back.push(json!(["onText", text.trim()]));
    }
    let Usage { input_tokens, output_tokens, .. } = reply.usage;
    let total = reply.usage.total();
    back.push(json!(["onTurn",
        {"promptTokens": input_tokens, "completionTokens": output_tokens, "totalTokens": total}]));
    back.push(json!(["onMessage", "assistant", content(kept)]));
}

/// The event tells what the model said; the loop takes its first call.
fn first_call_only(reply: &Reply) -> Vec<Part> {
    let first = reply.parts.iter().position(|part| matches!(part, Part::ToolCall(_)));
    reply.parts[..first.map_or(reply.parts.len(), |first| first + 1)].to_vec()
}

/// What the model was sent: instructions with the tools, and the words of everybody but itself.
fn sent(expected: &Value, requests: &[Request], is_continued: bool) -> Result<(), String> {
    let expected = expected.as_array().map(Vec::as_slice).unwrap_or_default();
    // Those of turns that were spoken before are not the scenario's.
    let before = requests.len().saturating_sub(expected.len());
    let requests = if is_continued { &requests[before..] } else { requests };
    if expected.len() != requests.len() {
        return Err(format!("{} requests instead of {}", requests.len(), expected.len()));
    }
    for (want, got) in expected.iter().zip(requests) {
        let instructions = want["instructions"].as_str().unwrap_or_default().trim();
        let offered = want["tools_in_prompt"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let is_offered = |name: &str| got.system.contains(&format!("## {name}\n"));
        if !got.system.starts_with(instructions) || !offered.clone().all(is_offered) {
            return Err(format!("the instructions are {:?}", got.system));
        }
        let want: Vec<Value> = want["input"].as_array().into_iter().flatten().flat_map(words).collect();
        let got: Vec<Value> = got
            .messages
            .iter()
            .flat_map(|message| match message.role {
                Role::Assistant => vec![json!("assistant")],
                Role::User | Role::Tool => spoken(&message.parts),
            })
            .collect();
        same("words of a request", &want, &got)?;
    }
    Ok(())
}

/// The pieces of a message: what stands before the user's words, each alone, and these with what was read for them.
fn spoken(parts: &[Part]) -> Vec<Value> {
    let mut all: Vec<String> = Vec::new();
    let mut is_said = false;
    for part in parts {
        match (part, all.last_mut().filter(|_| is_said)) {
            (Part::Text { text, .. }, _) => {
                is_said = true;
                all.push(without_list(text));
            }
            (Part::Note { text, .. }, Some(said)) => *said = format!("{said}\n\n{text}"),
            (Part::Note { text, .. }, None) => all.extend(text.split("\n\n").map(str::to_owned)),
            _ => {}
        }
    }
    all.into_iter().map(Value::String).collect()
}

/// Of a tool that is not there, Piton also says which are.
fn without_list(text: &str) -> String {
    match text.split_once(". The tools are: ") {
        Some((before, after)) => format!("{before}{}", after.find(".\n").map_or("", |end| &after[end + 1..])),
        None => text.to_owned(),
    }
}

fn words(message: &Value) -> Vec<Value> {
    match (message["role"].as_str(), &message["content"]) {
        (Some("assistant"), _) => vec![json!("assistant")],
        (_, Value::String(text)) => vec![json!(text)],
        (_, parts) => parts.as_array().into_iter().flatten().map(|part| part["text"].clone()).collect(),
    }
}

/// Ids, and what is only another form of the same, are not compared.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_message = fields.contains_key("role");
            let kept = fields.iter().filter(|(key, _)| {
                let is_form = is_message && !["role", "content"].contains(&key.as_str());
                !is_form && !["id", "uuid", "parentUuid"].contains(&key.as_str())
            });
            Value::Object(kept.map(|(key, value)| (key.clone(), without_ids(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_ids).collect()),
        other => other.clone(),
    }
}
