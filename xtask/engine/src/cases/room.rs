//! The suites about making room: when a context is full, what is pruned, what a compaction keeps, what is seen after it.

use super::expect;
use piton_core::compact::{self, Compaction, Full, KeepRecent, Made, ModelWindow, PrunableOutput, Prune};
use piton_core::event::{Canceller, Delivery, Event, Record, Spent, StepKind, Trigger, TurnEnd};
use piton_core::ids::{MessageId, Seq, SessionId};
use piton_core::message::{FinishReason, Message, Part};
use piton_core::model::{ModelErrorKind, Reply};
use piton_core::policy::Policy;
use piton_core::turn::State;
use piton_models::errors::{self, HttpRefusal};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::SystemTime;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn window(limit: &Value) -> ModelWindow {
    ModelWindow { context: limit["context"].as_u64(), input: limit["input"].as_u64(), output: limit["output"].as_u64() }
}

/// `opencode/compaction_overflow`.
pub(super) fn compaction_overflow(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let mut rules = Compaction::opencode();
    if let (Some(most), Full::Reply { most_tokens, .. }) = (input["outputTokenMax"].as_u64(), &mut rules.full) {
        *most_tokens = most;
    }
    if let Some(reserved) = input["compaction"]["reserved"].as_u64() {
        rules = rules.with_reserve(reserved);
    }
    let tokens = &input["tokens"];
    let parts = [&tokens["input"], &tokens["output"], &tokens["cache"]["read"], &tokens["cache"]["write"]];
    let used = Some(number(&tokens["total"])).filter(|total| *total > 0);
    let used = used.unwrap_or_else(|| parts.iter().map(|part| number(part)).sum());
    let full_at = rules.full_at(window(&input["limit"]));
    let is_on = input["compaction"]["auto"] != false;
    let overflow = is_on && full_at.is_some_and(|at| used >= at);
    expect(case, &json!({"usable": full_at.unwrap_or(0), "overflow": overflow}))
}

/// `neovate/compression_overflow`. The least size is asked for elsewhere in the reference.
pub(super) fn compression_overflow(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let mut rules = Compaction::neovate();
    if let Full::Above { share, least_tokens } = &mut rules.full {
        (*share, *least_tokens) = (input["compaction"]["triggerRatio"].as_f64().unwrap_or(*share), 0);
    }
    let used = number(&input["tokens"]["input"]) + number(&input["tokens"]["cacheRead"]);
    let is_on = input["compaction"]["auto"] != false;
    expect(case, &json!(is_on && rules.full_at(window(&input["limit"])).is_some_and(|at| used >= at)))
}

/// `opencode/prune_selection`.
pub(super) fn prune_selection(case: &Value) -> Result<(), String> {
    let rule = Prune { on: true, ..Compaction::opencode().prune };
    let messages = case["input"]["messages"].as_array().ok_or("no messages")?;
    let (mut turns_since, mut outputs, mut ids) = (0, Vec::new(), Vec::new());
    for message in messages.iter().rev() {
        if message["summary"] == true {
            break;
        }
        turns_since += u32::from(message["role"] == "user");
        for tool in message["tools"].as_array().into_iter().flatten().rev() {
            outputs.push(PrunableOutput {
                tool: tool["tool"].as_str().unwrap_or_default(),
                tokens: (number(&tool["output_chars"]) + 2) / 4,
                turns_since,
                failed: tool["status"] != "completed",
                pruned: tool["compacted"] == true,
            });
            ids.push(&tool["id"]);
        }
    }
    let chosen: Vec<&Value> = compact::select(&rule, outputs).into_iter().map(|place| ids[place]).collect();
    expect(case, &json!(chosen))
}

/// `opencode/context_overflow_detection`.
pub(super) fn context_overflow(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let kind = match (input["statusCode"].as_u64(), input.as_str()) {
        (Some(status), _) => {
            let body = input["body"].as_str().map_or_else(|| input["body"].to_string(), str::to_owned);
            let status = u16::try_from(status).map_err(|_| "no status")?;
            Some(errors::from_response(&HttpRefusal { status, headers: &[], body: &body }, SystemTime::now()).kind)
        }
        (None, Some(words)) => errors::recognise(&json!({"message": words})),
        (None, None) => errors::recognise(input),
    };
    expect(case, &json!(kind == Some(ModelErrorKind::WindowExceeded)))
}

const MARK: &str = "[COMPACTED_CONTEXT]";
const CONTINUE: &str = "Please continue based on the context above.";

/// `pulse/compaction`: a window of 4,000 tokens. What is summed up is Piton's decision; how the reference dresses the
/// result, so that its requests end with a user's message, is added here. Piton's need not, and it drops no answer.
pub(super) fn pulse_compaction(case: &Value) -> Result<(), String> {
    const WINDOW: u64 = 4_000;
    let mut rules = Compaction::pulse();
    if let Full::From { window_tokens, .. } = &mut rules.full {
        *window_tokens = WINDOW;
    }
    let KeepRecent::Turns { turns, .. } = rules.keep else { return Err("the preset keeps no turns".to_owned()) };
    let messages = case["input"]["messages"].as_array().ok_or("no messages")?;
    let forced = case["input"]["force"] == true;
    let before = estimate(messages);
    let is_full = rules.full_at(ModelWindow::default()).is_some_and(|at| before >= at);
    let begins: Vec<bool> = messages.iter().map(|message| message["role"] == "user").collect();
    let plan = compact::by_turns(&begins, turns, forced).filter(|_| forced || is_full);
    let Some(plan) = plan else { return expect(case, &json!({"didCompact": false, "summarized_messages": null})) };
    let tail = &messages[plan.summed_up..];
    let summary = case["input"]["summary"].as_str().unwrap_or("SUMMARY").trim().to_owned();
    let summary = if summary.starts_with(MARK) { summary } else { format!("{MARK}\n{summary}") };
    let whole = [&[json!({"role": "assistant", "content": summary})], tail].concat();
    let is_empty = summary.trim_end() == MARK;
    let (strategy, counted, after) = match rules.made(None, forced, is_empty, estimate(&whole)) {
        Made::Nothing => ("fallback", ended(tail), ended(tail)),
        Made::TooLarge => ("summary-too-large", ended(tail), ended(tail)),
        Made::Summary => ("summary", whole.clone(), ended(&whole)),
    };
    let reason = if forced { format!("force-{strategy}") } else { strategy.to_owned() };
    expect(
        case,
        &json!({
            "didCompact": true,
            "reason": reason,
            "newMessages": after,
            "stats": {
                "forced": forced,
                "beforeMessageCount": messages.len(),
                "afterMessageCount": counted.len(),
                "beforeEstimatedTokens": before,
                "afterEstimatedTokens": estimate(&counted),
                "strategy": strategy,
            },
            "summarized_messages": plan.summed_up,
        }),
    )
}

fn estimate(messages: &[Value]) -> u64 {
    let chars = |value: &Value| value.as_str().unwrap_or_default().encode_utf16().count() as u64;
    let all: u64 = messages.iter().map(|message| chars(&message["role"]) + chars(&message["content"])).sum();
    all.div_ceil(4)
}

/// Ends with a user's message, as the reference has it.
fn ended(messages: &[Value]) -> Vec<Value> {
    match messages.iter().rposition(|message| message["role"] == "user") {
        Some(last) => messages[..=last].to_vec(),
        None => [messages, &[json!({"role": "user", "content": CONTINUE})]].concat(),
    }
}

/// `opencode/history_selection`: the messages as events of a journal, and what is seen of them after a fold.
pub(super) fn history_selection(case: &Value) -> Result<(), String> {
    let mut messages: Vec<&Value> = case["input"].as_array().ok_or("no messages")?.iter().collect();
    messages.sort_by_key(|message| id(message));
    let told = Told::of(&messages);
    let seen = told.seen();
    if case["fn"] == "filterCompacted" {
        let expected = case["expected"].as_array().ok_or("no list")?;
        let expected: Vec<String> = expected.iter().map(id).collect();
        return if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) };
    }
    let newest = |is: &dyn Fn(&Value) -> bool| {
        messages.iter().rev().find(|message| seen.contains(&id(message)) && is(&message["info"])).copied()
    };
    let finished = newest(&|info| info["role"] == "assistant" && info["finish"].is_string());
    let mut got = json!({"tasks": []});
    for (key, found) in [
        ("user", newest(&|info| info["role"] == "user")),
        ("assistant", newest(&|info| info["role"] == "assistant")),
        ("finished", finished),
    ] {
        if let Some(message) = found {
            got[key] = message["info"].clone();
        }
    }
    let is_newer = |message: &&&Value| finished.is_none_or(|finished| id(message) > id(finished));
    let parts = messages.iter().filter(is_newer).flat_map(|message| message["parts"].as_array().into_iter().flatten());
    got["tasks"] = parts.filter(|part| part["type"] == "compaction" || part["type"] == "subtask").cloned().collect();
    expect(case, &got)
}

fn id(message: &Value) -> String {
    message["info"]["id"].as_str().unwrap_or_default().to_owned()
}

/// A reference's messages, as events.
#[derive(Default)]
struct Told {
    records: Vec<Record>,
    /// Where each message is.
    places: HashMap<String, Seq>,
    /// Each compaction's marker, with its summary.
    summaries: HashMap<String, String>,
    in_turn: bool,
    turns: u32,
    steps: u32,
}

impl Told {
    fn of(messages: &[&Value]) -> Self {
        let mut told = Self::default();
        told.record(Event::SessionStarted {
            session: SessionId::from("ses_case"),
            workspace: "/".to_owned(),
            version: "0".to_owned(),
            parent: None,
        });
        for message in messages {
            let marker = message["parts"].as_array().into_iter().flatten().find(|part| part["type"] == "compaction");
            let is_summary = |other: &&&Value| {
                let info = &other["info"];
                let is_whole = info["finish"].is_string() && info["error"].is_null();
                info["summary"] == true && info["parentID"] == message["info"]["id"] && is_whole
            };
            let summary = marker.and_then(|_| messages.iter().find(is_summary));
            if told.summaries.values().any(|summary| *summary == id(message)) {
                continue;
            }
            match (marker, summary) {
                (Some(marker), Some(summary)) if told.knows_tail(marker) => told.compact(marker, message, summary),
                _ if message["info"]["role"] == "user" => told.hear(&id(message)),
                _ => told.answer(&id(message)),
            }
        }
        told.rest();
        told
    }

    fn record(&mut self, event: Event) -> Seq {
        let seq = self.records.len() as Seq + 1;
        self.records.push(Record { seq, at_ms: 0, event });
        seq
    }

    fn knows_tail(&self, marker: &Value) -> bool {
        marker["tail_start_id"].as_str().is_none_or(|tail| self.places.contains_key(tail))
    }

    fn compact(&mut self, marker: &Value, message: &Value, summary: &Value) {
        self.rest();
        let tail = marker["tail_start_id"].as_str().and_then(|tail| self.places.get(tail));
        let upto_seq = tail.map_or(self.records.len() as Seq, |tail| tail - 1);
        self.summaries.insert(id(message), id(summary));
        self.record(Event::CompactionFinished {
            trigger: Trigger::Asked,
            upto_seq,
            summary: id(message),
            tokens_before: 2,
            tokens_after: 1,
            note: None,
            asked: None,
        });
    }

    fn hear(&mut self, said: &str) {
        self.rest();
        let parts = vec![Part::text(said)];
        self.record(Event::UserSpoke {
            message: MessageId::from(said),
            parts,
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
        self.turns += 1;
        let seq = self.record(Event::TurnStarted {
            turn: self.turns,
            model: "case/model".to_owned(),
            fallbacks: Vec::new(),
            policy: Box::new(Policy::preset("opencode").expect("one of the presets")),
            compact_at_tokens: None,
            this_turn_only: false,
        });
        self.places.insert(said.to_owned(), seq);
        self.in_turn = true;
    }

    fn answer(&mut self, said: &str) {
        if !self.in_turn {
            // Nobody asked in the case; a message that is not part of it does.
            self.hear(&format!("before {said}"));
        }
        self.steps += 1;
        let step = self.steps;
        self.record(Event::StepStarted { step, kind: StepKind::Ordinary, note: None });
        let reply = Reply::new(vec![Part::text(said)], FinishReason::Stop);
        let seq = self.record(Event::replied(step, reply));
        self.places.insert(said.to_owned(), seq);
        self.record(Event::StepFinished { step });
        self.end(TurnEnd::Completed);
    }

    /// Ends the turn under way, if there is one.
    fn rest(&mut self) {
        if self.in_turn {
            self.record(Event::CancelRequested { by: Canceller::User });
            self.end(TurnEnd::Canceled);
        }
    }

    fn end(&mut self, end: TurnEnd) {
        self.record(Event::TurnEnded { turn: self.turns, end, why: None, detail: None, spent: Spent::default() });
        self.in_turn = false;
    }

    /// The messages of the case that the model sees, in its order.
    fn seen(&self) -> Vec<String> {
        let said = |message: &Message| match message.parts.first() {
            Some(Part::Note { text, .. }) => text.clone(),
            _ => message.prose(),
        };
        let session = State::fold(&self.records);
        let words = session.transcript().map(|message| said(message)).filter(|said| !said.starts_with("before "));
        let pairs = words.flat_map(|said| {
            let summary = self.summaries.get(&said).cloned();
            std::iter::once(said).chain(summary)
        });
        pairs.collect()
    }
}
