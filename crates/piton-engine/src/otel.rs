//! Turns as OpenTelemetry spans, in the words of its GenAI conventions (v1.41, status Development), encoded as OTLP/JSON.
//!
//! ```text
//!   invoke_agent piton            one turn
//!   ├── chat MODEL                one call of a model, failed ones too; those for a summary or a title
//!   └── execute_tool TOOL         one call of a tool that began
//!       └── chat MODEL            one call of a model that its MCP server asked for
//! ```
//!
//! Spans are made of the story, with the journal's times, and their ids follow from session and position: the same turn sent
//! twice (by a run, later by hand) is the same trace. What was said, read or written is never in them.

use piton_core::call::Status;
use piton_core::event::{TitledBy, TurnEnd};
use piton_core::ids::{CallId, Seq, SessionId, TimeMs};
use piton_core::message::Usage;
use piton_core::story::{Body, Story};
use piton_core::trace::{
    AskResult, CallTrace, CompactionTrace, ModelCall, SampledTrace, StepTrace, SummaryAsked, TitleTrace, Trace, trace,
};
use serde_json::{Map, Value, json};

/// SPAN_KIND_INTERNAL.
const INTERNAL: u32 = 1;
/// SPAN_KIND_CLIENT.
const CLIENT: u32 = 3;
/// STATUS_CODE_ERROR.
const ERROR: u32 = 2;

/// Who sends the spans.
#[derive(Debug, Clone)]
pub struct Resource {
    /// `service.name`.
    pub service: String,
    /// Further attributes.
    pub attributes: Vec<(String, String)>,
}

/// One turn as it stands on record.
struct Turn {
    number: u32,
    began_ms: TimeMs,
    ended_ms: TimeMs,
    /// Where the last of it is in the journal.
    last: Seq,
    model: String,
    end: Option<(TurnEnd, Usage, Option<u64>)>,
}

/// The span of a call, in the form of the header `traceparent`: whoever does its work can add spans below it.
pub fn traceparent(session: &SessionId, turn: u32, call: &CallId) -> String {
    let ids = Ids { session, turn };
    format!("00-{}-{}-01", ids.trace(), ids.span(&of_call(call)))
}

/// What the span of a call is called among those of its turn.
fn of_call(call: &CallId) -> String {
    format!("tool {call}")
}

/// The body of an `ExportTraceServiceRequest` with every turn of which something happened at this position of the journal
/// or later; `None` if there is none. The story is that of the whole session.
pub fn export(session: &SessionId, story: &Story, from: Seq, resource: &Resource) -> Option<Value> {
    let turns: Vec<Turn> = turns(story).into_iter().filter(|turn| turn.last >= from).collect();
    let traces = trace(story);
    let spans: Vec<Value> = turns
        .iter()
        .flat_map(|turn| {
            let ids = Ids { session, turn: turn.number };
            let traces = traces.iter().filter(|trace| trace.turn() == turn.number);
            std::iter::once(turn.span(&ids)).chain(traces.flat_map(move |trace| spans(trace, &ids))).collect::<Vec<_>>()
        })
        .collect();
    if spans.is_empty() {
        return None;
    }
    let own = [("service.name", resource.service.as_str()), ("service.version", env!("CARGO_PKG_VERSION"))];
    let others = resource.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let attributes: Vec<Value> = own.into_iter().chain(others).map(|(name, value)| text(name, value)).collect();
    let scope = json!({"name": "piton", "version": env!("CARGO_PKG_VERSION")});
    Some(json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]}))
}

fn turns(story: &Story) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for block in story.blocks() {
        if let Body::Turn { turn, model } = &block.body {
            let (began_ms, last, model) = (block.at_ms, block.seq, model.clone());
            turns.push(Turn { number: *turn, began_ms, ended_ms: began_ms, last, model, end: None });
        }
        let Some(turn) = turns.last_mut() else { continue };
        match &block.body {
            Body::Session(_) => {}
            Body::TurnEnd { end, spent, .. } => {
                (turn.ended_ms, turn.last) = (block.at_ms, block.seq);
                turn.end = Some((*end, spent.usage, spent.cost_micros));
            }
            // Asked for between turns, they belong to the one before.
            Body::Title { by: TitledBy::Model { .. }, .. } if turn.end.is_some() => turn.last = block.changed_seq,
            Body::Compaction(compaction) if turn.end.is_some() && compaction.asked.is_some() => {
                turn.last = block.changed_seq;
            }
            _ if turn.end.is_none() => {
                turn.ended_ms = turn.ended_ms.max(block.changed_ms);
                turn.last = turn.last.max(block.changed_seq);
            }
            _ => {}
        }
    }
    turns
}

/// Ids that follow from what they name.
struct Ids<'s> {
    session: &'s SessionId,
    turn: u32,
}

impl Ids<'_> {
    fn trace(&self) -> String {
        self.hash("", 32)
    }

    fn span(&self, what: &str) -> String {
        self.hash(what, 16)
    }

    fn hash(&self, what: &str, digits: usize) -> String {
        let hash = blake3::hash(format!("{}\n{}\n{what}", self.session, self.turn).as_bytes());
        hash.to_hex().as_str()[..digits].to_owned()
    }

    /// A span below the turn's, without what is its own.
    fn below(&self, what: &str, name: &str, kind: u32, began_ms: TimeMs, ended_ms: TimeMs) -> Map<String, Value> {
        let mut span = self.bare(what, name, kind, began_ms, ended_ms);
        span.insert("parentSpanId".to_owned(), json!(self.span("turn")));
        span
    }

    fn bare(&self, what: &str, name: &str, kind: u32, began_ms: TimeMs, ended_ms: TimeMs) -> Map<String, Value> {
        let nanoseconds = |ms: TimeMs| json!(format!("{ms}000000"));
        let entries = [
            ("traceId", json!(self.trace())),
            ("spanId", json!(self.span(what))),
            ("name", json!(name)),
            ("kind", json!(kind)),
            ("startTimeUnixNano", nanoseconds(began_ms)),
            ("endTimeUnixNano", nanoseconds(ended_ms.max(began_ms))),
        ];
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

impl Turn {
    fn span(&self, ids: &Ids<'_>) -> Value {
        let mut span = ids.bare("turn", "invoke_agent piton", INTERNAL, self.began_ms, self.ended_ms);
        let mut attributes = vec![
            text("gen_ai.operation.name", "invoke_agent"),
            text("gen_ai.agent.name", "piton"),
            text("gen_ai.agent.version", env!("CARGO_PKG_VERSION")),
            text("gen_ai.conversation.id", ids.session.as_str()),
            number("piton.turn", self.number.into()),
        ];
        attributes.extend(model_attributes(&self.model));
        if let Some((end, used, cost)) = &self.end {
            let word = word(end);
            attributes.extend(usage(used));
            attributes.extend(cost.map(|cost| number("piton.cost_micros", cost)));
            attributes.push(text("piton.turn.end", &word));
            if !matches!(end, TurnEnd::Completed | TurnEnd::Canceled) {
                attributes.push(text("error.type", &word));
                span.insert("status".to_owned(), json!({"code": ERROR}));
            }
        }
        whole(span, attributes)
    }
}

fn spans(trace: &Trace, ids: &Ids<'_>) -> Vec<Value> {
    match trace {
        Trace::Step(step) => step_spans(step, ids),
        Trace::Compaction(compaction) => summary(compaction, ids).into_iter().collect(),
        Trace::Title(title) => vec![named(title, ids)],
        Trace::Outside(_) => Vec::new(),
    }
}

fn step_spans(step: &StepTrace, ids: &Ids<'_>) -> Vec<Value> {
    let chats = step.asked.iter().map(|asked| chat(asked, step, ids));
    let summaries = step.compactions.iter().filter_map(|compaction| summary(compaction, ids));
    let tools = step.calls.iter().filter_map(|call| tool(call, step, ids));
    let sampled = step.calls.iter().flat_map(|call| call.sampled.iter().map(|asked| sampled(asked, call, ids)));
    chats.chain(summaries).chain(tools).chain(sampled).collect()
}

/// A call of a model, whatever for.
struct Chat<'a> {
    seq: Seq,
    model: &'a str,
    at_ms: TimeMs,
    took_ms: u64,
    usage: &'a Usage,
    cost_micros: Option<u64>,
}

impl Chat<'_> {
    fn span(&self, ids: &Ids<'_>, own: Vec<Value>) -> (Map<String, Value>, Vec<Value>) {
        let model = self.model.split_once('/').map_or(self.model, |(_, model)| model);
        let (what, name) = (format!("chat {}", self.seq), format!("chat {model}"));
        let span = ids.below(&what, &name, CLIENT, self.at_ms, self.at_ms.saturating_add(self.took_ms));
        let mut attributes = vec![text("gen_ai.operation.name", "chat")];
        attributes.extend(own);
        attributes.push(text("gen_ai.conversation.id", ids.session.as_str()));
        attributes.extend(model_attributes(self.model));
        attributes.push(json!({"key": "gen_ai.request.stream", "value": {"boolValue": true}}));
        attributes.extend(usage(self.usage));
        attributes.extend(self.cost_micros.map(|cost| number("piton.cost_micros", cost)));
        (span, attributes)
    }
}

fn chat(asked: &ModelCall, step: &StepTrace, ids: &Ids<'_>) -> Value {
    let ModelCall { seq, at_ms, took_ms, cost_micros, .. } = *asked;
    let chat = Chat { seq, model: &asked.model, at_ms, took_ms, usage: &asked.usage, cost_micros };
    let own = vec![number("piton.step", step.step.into()), number("piton.attempt", asked.attempt.into())];
    let (mut span, mut attributes) = chat.span(ids, own);
    attributes.extend(asked.response_id.as_deref().map(|id| text("gen_ai.response.id", id)));
    let seconds = |ms: u64| json!({"doubleValue": ms as f64 / 1000.0});
    attributes
        .extend(asked.first_ms.map(|ms| json!({"key": "gen_ai.response.time_to_first_chunk", "value": seconds(ms)})));
    match &asked.result {
        AskResult::Replied { finish, .. } => {
            let reasons = json!({"arrayValue": {"values": [{"stringValue": word(finish)}]}});
            attributes.push(json!({"key": "gen_ai.response.finish_reasons", "value": reasons}));
        }
        AskResult::Failed { kind, .. } => {
            attributes.push(text("error.type", &word(kind)));
            span.insert("status".to_owned(), json!({"code": ERROR}));
        }
        AskResult::Cut => attributes.push(text("error.type", "cancelled")),
    }
    whole(span, attributes)
}

/// The calls for one summary, as one.
fn summary(compaction: &CompactionTrace, ids: &Ids<'_>) -> Option<Value> {
    let asked = compaction.asked.as_ref()?;
    let SummaryAsked { seq, at_ms, took_ms, cost_micros, .. } = *asked;
    let chat = Chat { seq, model: &asked.model, at_ms, took_ms, usage: &asked.usage, cost_micros };
    let own = vec![text("piton.purpose", "summary"), number("piton.attempts", asked.attempts.into())];
    let (mut span, mut attributes) = chat.span(ids, own);
    if !asked.replied {
        attributes.push(text("error.type", "no_summary"));
        span.insert("status".to_owned(), json!({"code": ERROR}));
    }
    Some(whole(span, attributes))
}

fn named(title: &TitleTrace, ids: &Ids<'_>) -> Value {
    let TitleTrace { seq, at_ms, took_ms, cost_micros, .. } = *title;
    let chat = Chat { seq, model: &title.model, at_ms, took_ms, usage: &title.usage, cost_micros };
    let (span, attributes) = chat.span(ids, vec![text("piton.purpose", "title")]);
    whole(span, attributes)
}

/// Below the call that it was asked for in.
fn sampled(asked: &SampledTrace, call: &CallTrace, ids: &Ids<'_>) -> Value {
    let SampledTrace { seq, at_ms, took_ms, cost_micros, .. } = *asked;
    let chat = Chat { seq, model: &asked.model, at_ms, took_ms, usage: &asked.usage, cost_micros };
    let (mut span, mut attributes) = chat.span(ids, vec![text("piton.purpose", "sampling")]);
    span.insert("parentSpanId".to_owned(), json!(ids.span(&of_call(&call.call))));
    if !asked.replied {
        attributes.push(text("error.type", "no_reply"));
        span.insert("status".to_owned(), json!({"code": ERROR}));
    }
    whole(span, attributes)
}

fn tool(call: &CallTrace, step: &StepTrace, ids: &Ids<'_>) -> Option<Value> {
    let began_ms = call.started_ms?;
    let (what, name) = (of_call(&call.call), format!("execute_tool {}", call.tool));
    let mut span = ids.below(&what, &name, INTERNAL, began_ms, began_ms.saturating_add(call.took_ms));
    let mut attributes = vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", &call.tool),
        text("gen_ai.tool.call.id", call.call.as_str()),
        text("gen_ai.tool.type", "function"),
        text("gen_ai.conversation.id", ids.session.as_str()),
        number("piton.step", step.step.into()),
    ];
    if let Some(status) = call.status.filter(|status| *status != Status::Ok) {
        attributes.push(text("error.type", &word(&status)));
        span.insert("status".to_owned(), json!({"code": ERROR}));
    }
    Some(whole(span, attributes))
}

fn model_attributes(model: &str) -> [Value; 2] {
    let (provider, name) = model.split_once('/').unwrap_or(("", model));
    [text("gen_ai.provider.name", provider_word(provider)), text("gen_ai.request.model", name)]
}

/// The convention's word for a provider, where it has another than ours.
fn provider_word(ours: &str) -> &str {
    match ours {
        "google" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "bedrock" | "bedrock-anthropic" => "aws.bedrock",
        "azure" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        "openai-chat" | "openai-responses" => "openai",
        other => other,
    }
}

fn usage(used: &Usage) -> impl Iterator<Item = Value> + use<> {
    [
        ("gen_ai.usage.input_tokens", used.input_tokens),
        ("gen_ai.usage.output_tokens", used.output_tokens),
        ("gen_ai.usage.cache_read.input_tokens", used.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", used.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", used.reasoning_tokens),
    ]
    .into_iter()
    .filter(|(_, tokens)| *tokens > 0)
    .map(|(name, tokens)| number(name, tokens))
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Whole numbers are text in OTLP/JSON, as in all JSON of Protocol Buffers.
fn number(key: &str, value: u64) -> Value {
    json!({"key": key, "value": {"intValue": value.to_string()}})
}

/// Its word in the journal.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn whole(mut span: Map<String, Value>, attributes: Vec<Value>) -> Value {
    span.insert("attributes".to_owned(), Value::Array(attributes));
    Value::Object(span)
}
