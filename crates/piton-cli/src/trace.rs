//! `piton session trace`, and sending turns as OpenTelemetry spans: both are views of the journal.

use crate::cli::TraceArgs;
use crate::config;
use crate::report;
use crate::setup;
use crate::surroundings::Surroundings;
use crate::view::{self, plural, thousands};
use anyhow::{Context, bail};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use percent_encoding::percent_decode_str;
use piton_core::cache::SegmentKind;
use piton_core::event::{Canceller, Decision, StepKind};
use piton_core::hook::{HookEnd, HookRun};
use piton_core::ids::{Seq, SessionId, TimeMs};
use piton_core::limits::dollars;
use piton_core::trace::{self, AskResult, Asked, CallTrace, Input, Next, StepTrace};
use piton_engine::config::Config;
use piton_engine::engine::Engine;
use piton_engine::journal::{self, SessionDir};
use piton_engine::otel::{self, Resource};
use piton_models::http::{HttpOptions, post_json};

/// How long a collector may take at the end of a run, in milliseconds. The answer is there already; nobody waits longer.
const COLLECTOR_MS: u64 = 3_000;

/// A collector of spans.
pub(crate) struct Collector {
    url: String,
    headers: Vec<(String, String)>,
    resource: Resource,
    http: HttpOptions,
}

/// Prints the steps of a session, or sends its turns.
pub(crate) async fn trace(
    engine: &Engine,
    id: &SessionId,
    args: &TraceArgs,
    around: &Surroundings,
) -> anyhow::Result<u8> {
    let records = journal::read_session(&engine.session_dir(id))?;
    match args.otlp.as_deref() {
        Some("-") => {
            let spans = otel::export(id, &records, 1, &resource(around)).context("there is no turn yet")?;
            view::write_stdout(&format!("{spans}\n"));
            return Ok(0);
        }
        Some(url) => {
            let spans = otel::export(id, &records, 1, &resource(around)).context("there is no turn yet")?;
            let collector = Collector::at(url, &config::of_user(around)?, around)?;
            collector.send(spans.to_string()).await?;
            view::write_stderr(&format!("sent to {}\n", collector.url));
            return Ok(0);
        }
        None => {}
    }
    let steps = trace::trace(&records);
    if let Some(step) = args.step
        && !steps.iter().any(|trace| trace.step == step)
    {
        bail!("{id} has no step {step}; it has {}", plural(steps.len() as u64, "step"));
    }
    for step in steps.iter().filter(|trace| args.step.is_none_or(|step| trace.step == step)) {
        let text = if args.json { format!("{}\n", serde_json::to_string(step)?) } else { words(step) };
        view::write_stdout(&text);
    }
    Ok(0)
}

impl Collector {
    /// The one that environment or configuration name, if any.
    pub(crate) fn of(around: &Surroundings) -> anyhow::Result<Option<Self>> {
        if around.var("OTEL_SDK_DISABLED").is_some_and(|said| said.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let config = config::of_user(around)?;
        if let Some(url) = around.var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
            return Self::at(url, &config, around).map(Some);
        }
        let base = around.var("OTEL_EXPORTER_OTLP_ENDPOINT").or(config.otel.endpoint.as_deref());
        base.map(|base| Self::at(&format!("{}/v1/traces", base.trim_end_matches('/')), &config, around)).transpose()
    }

    fn at(url: &str, config: &Config, around: &Surroundings) -> anyhow::Result<Self> {
        let named = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        let headers = match named.iter().find_map(|name| around.var(name)) {
            Some(said) => pairs(said),
            None => config.otel.headers.clone().into_iter().collect(),
        };
        let http = setup::http_options("", config, around)?;
        let http = HttpOptions { connect_timeout_ms: COLLECTOR_MS, stall_ms: COLLECTOR_MS, ..http };
        Ok(Self { url: url.to_owned(), headers, resource: resource(around), http })
    }

    /// Sends the turns of a session that something happened in from this position on. What cannot be sent is still in the
    /// journal, and said.
    pub(crate) async fn send_turns(&self, dir: &SessionDir, id: &SessionId, from: Seq) {
        let spans = journal::read_session(dir).ok().and_then(|all| otel::export(id, &all, from, &self.resource));
        let Some(spans) = spans else { return };
        if let Err(error) = self.send(spans.to_string()).await {
            view::write_stderr(&format!(
                "note: the trace was not sent: {error:#}. It can be sent later: piton session trace {id} --otlp URL\n"
            ));
        }
    }

    async fn send(&self, spans: String) -> anyhow::Result<()> {
        post_json(&self.url, &self.headers, spans, &self.http).await?;
        Ok(())
    }
}

fn resource(around: &Surroundings) -> Resource {
    let mut attributes = around.var("OTEL_RESOURCE_ATTRIBUTES").map(pairs).unwrap_or_default();
    let named = attributes.iter().position(|(key, _)| key == "service.name").map(|at| attributes.remove(at).1);
    let service = around.var("OTEL_SERVICE_NAME").map(str::to_owned).or(named);
    Resource { service: service.unwrap_or_else(|| "piton".to_owned()), attributes }
}

/// `a=1,b=2`, with percent signs for what is special.
fn pairs(said: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
    said.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (decoded(key), decoded(value))).collect()
}

/// A step as people read it.
fn words(step: &StepTrace) -> String {
    let kind = match step.kind {
        StepKind::Ordinary => "",
        StepKind::WrapUp => ", the last one allowed",
        StepKind::Continue => ", going on with a reply that was cut",
    };
    let took = span(step.ended_ms.saturating_sub(step.began_ms));
    let mut text = format!("step {} of turn {}{kind}: {}, {took}\n", step.step, step.turn, clock(step.began_ms));
    let mut line = |name: &str, what: &str| text.push_str(&view::clean(&format!("  {name:<8} {what}\n")));
    if let Some(input) = &step.input {
        line("sent", &sent(input, step.asked.last()));
    }
    for asked in &step.asked {
        line("model", &answered(asked));
    }
    if let Some(ms) = step.snapshot_ms {
        line("files", &format!("put down for undo in {}", span(ms)));
    }
    for call in &step.calls {
        line("tool", &called(call));
    }
    for run in &step.hooks {
        line("hook", &hooked(run));
    }
    line("then", &then(&step.next));
    text
}

/// A hook: who, where, how long, and what came of it.
fn hooked(run: &HookRun) -> String {
    let word = |value: serde_json::Value| value.as_str().unwrap_or_default().replace('_', " ");
    let point = word(serde_json::to_value(run.point).unwrap_or_default());
    let times = if run.times > 1 { format!(", {} times", run.times) } else { String::new() };
    let end = if run.end == HookEnd::Ok {
        String::new()
    } else {
        format!(", {}", word(serde_json::to_value(run.end).unwrap_or_default()))
    };
    let did = run.did.iter().chain(&run.detail).map(|did| format!(", {}", view::first_line(&view::clean(did))));
    let did: String = did.collect();
    format!("{} at {point} in {}{times}{end}{did}", view::clean(&run.hook), span(run.duration_ms))
}

fn sent(input: &Input, asked: Option<&Asked>) -> String {
    let count = |kind: SegmentKind| input.new.iter().filter(|segment| segment.kind == kind).count() as u64;
    let kinds = [
        (SegmentKind::Frame, "system prompt with tools"),
        (SegmentKind::User, "user message"),
        (SegmentKind::Assistant, "reply"),
        (SegmentKind::Tool, "result message"),
    ];
    let new: Vec<String> = kinds
        .iter()
        .filter(|(kind, _)| count(*kind) > 0)
        .map(|(kind, word)| if *kind == SegmentKind::Frame { (*word).to_owned() } else { plural(count(*kind), word) })
        .collect();
    let kept =
        if input.kept > 0 { format!("{} as before, ", plural(input.kept as u64, "piece")) } else { String::new() };
    let new = if new.is_empty() { "nothing".to_owned() } else { new.join(", ") };
    let tokens = match asked.map(|asked| asked.usage).filter(|usage| usage.input_tokens > 0) {
        Some(usage) => {
            let cached = if usage.cache_read_tokens > 0 {
                format!(", {} from the cache", thousands(usage.cache_read_tokens))
            } else {
                String::new()
            };
            format!("; {} tokens{cached}", thousands(usage.input_tokens))
        }
        None => String::new(),
    };
    format!("{kept}new: {new}{tokens}")
}

fn answered(asked: &Asked) -> String {
    let took = span(asked.took_ms);
    let end = match &asked.result {
        AskResult::Replied { finish, raw } => {
            let finish = report::any_word(finish);
            let raw = raw.as_deref().filter(|raw| *raw != finish).map(|raw| format!(" ({raw})")).unwrap_or_default();
            let first = asked.first_ms.map(|ms| format!(", its first piece after {}", span(ms))).unwrap_or_default();
            format!("replied in {took}{first}: {finish}{raw}")
        }
        AskResult::Failed { kind, message, waited_ms } => {
            let waited = waited_ms.map(|ms| format!("; waited {}", span(ms))).unwrap_or_default();
            format!("failed after {took}: {}: {message}{waited}", report::any_word(kind))
        }
        AskResult::Cut => format!("was stopped after {took}"),
    };
    let attempt = if asked.attempt > 1 { format!(", attempt {}", asked.attempt) } else { String::new() };
    let output = match asked.usage.output_tokens {
        0 => String::new(),
        tokens => format!(", {} tokens", thousands(tokens)),
    };
    let cost = asked.cost_micros.map(|cost| format!(", ${}", dollars(cost))).unwrap_or_default();
    format!("{}{attempt} {end}{output}{cost}", asked.model)
}

fn called(call: &CallTrace) -> String {
    let what = if call.title.is_empty() { &call.tool } else { &call.title };
    let asked = match &call.approval {
        None => String::new(),
        Some((Decision::Approve | Decision::ApproveForSession, ms)) => {
            format!(", allowed by a person after {}", span(*ms))
        }
        Some((Decision::ApproveChanged(_), ms)) => format!(", changed and allowed by a person after {}", span(*ms)),
        Some((Decision::Deny(_), ms)) => format!(", refused by a person after {}", span(*ms)),
        Some((Decision::Unattended, _)) => ", nobody there to ask".to_owned(),
    };
    let end = match (&call.status, call.started_ms) {
        (Some(status), Some(_)) => format!("{} in {}", report::any_word(status), span(call.took_ms)),
        (Some(status), None) => report::any_word(status),
        (None, Some(_)) => "began; its end is not on record".to_owned(),
        (None, None) => "not begun".to_owned(),
    };
    format!("{what}: {end}{asked}, {} characters", thousands(call.output_chars as u64))
}

fn then(next: &Next) -> String {
    match next {
        Next::Step { kind: StepKind::Continue, .. } => "on: the reply was cut at the output limit".to_owned(),
        Next::Step { kind: StepKind::WrapUp, .. } => "on, to the last step allowed: it wraps up".to_owned(),
        Next::Step { after_calls: true, .. } => "on: the model reads the results".to_owned(),
        Next::Step { after_calls: false, .. } => "on: somebody spoke".to_owned(),
        Next::Compaction { .. } => "room had to be made in the context".to_owned(),
        Next::Ended { end, detail } => {
            let detail = detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default();
            format!("the turn was over: {}{detail}", report::word(*end))
        }
        Next::Stopped { by: Canceller::User } => "stopped by a person".to_owned(),
        Next::Stopped { by: Canceller::Hook(reason) } => format!("stopped by a hook: {reason}"),
        Next::Open => "nothing more is on record of it".to_owned(),
    }
}

fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

fn clock(ms: TimeMs) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
