//! `piton session trace`, and sending turns as OpenTelemetry spans: both are views of the journal.

use crate::cli::TraceArgs;
use crate::commands::cost::why;
use crate::failure::{Context, Failure, Result, bail};
use crate::out::report;
use crate::out::view::{self, plural, thousands};
use crate::pictures::{self, Look};
use crate::settings;
use crate::surroundings::Surroundings;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use percent_encoding::percent_decode_str;
use piton_core::cache::Miss;
use piton_core::call::Status;
use piton_core::event::{Canceller, StepKind, Trigger, Verdict};
use piton_core::hidden;
use piton_core::hook::HookEnd;
use piton_core::ids::{Seq, SessionId, TimeMs};
use piton_core::message::Usage;
use piton_core::permission::Action;
use piton_core::prompt::SegmentKind;
use piton_core::question::Decision;
use piton_core::story::Story;
use piton_core::trace::{
    self, AskResult, CallTrace, Cause, CompactionTrace, HookTrace, ModelCall, ModelInput, Next, OutsideTrace,
    RefusedBy, SampledTrace, StepTrace, SummaryAsked, TitleTrace, Trace,
};
use piton_engine::assemble::server;
use piton_engine::config::Config;
use piton_engine::engine::Engine;
use piton_engine::otel::{self, Resource};
use piton_http::{HttpError, HttpOptions, post_json};

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
pub(crate) async fn trace(engine: &Engine, id: &SessionId, args: &TraceArgs, around: &Surroundings) -> Result<u8> {
    let story = Story::of(&engine.records(id).await?);
    match args.otlp.as_deref() {
        Some("-") => {
            let spans = otel::export(id, &story, 1, &resource(around)).context("there is no turn yet")?;
            view::write_stdout(&format!("{spans}\n"));
            return Ok(0);
        }
        Some(url) => {
            let spans = otel::export(id, &story, 1, &resource(around)).context("there is no turn yet")?;
            let collector = Collector::at(url, &settings::of_user(around)?, around)?;
            collector.send(spans.to_string()).await?;
            view::write_stderr(&format!("sent to {}\n", collector.url));
            return Ok(0);
        }
        None => {}
    }
    if args.lanes {
        let look = if args.plain { Look::Plain } else { Look::Drawn };
        view::write_stdout(&pictures::lanes(&story, look));
        return Ok(0);
    }
    if args.tree {
        return tree(engine, id, args.json).await;
    }
    let all = trace::trace(&story);
    let number = |trace: &Trace| match trace {
        Trace::Step(step) => Some(step.step),
        Trace::Compaction(_) | Trace::Outside(_) | Trace::Title(_) => None,
    };
    if let Some(step) = args.step
        && !all.iter().any(|trace| number(trace) == Some(step))
    {
        let steps = all.iter().filter_map(number).count();
        bail!("{id} has no step {step}; it has {}", plural(steps as u64, "step"));
    }
    for trace in all.iter().filter(|trace| args.step.is_none() || number(trace) == args.step) {
        let text = if args.json { format!("{}\n", serde_json::to_string(trace)?) } else { words(trace) };
        view::write_stdout(&text);
    }
    Ok(0)
}

/// Prints the steps of a session and, behind it, those of its subagents. As JSON each names its session.
async fn tree(engine: &Engine, id: &SessionId, json: bool) -> Result<u8> {
    for session in std::iter::once(id.clone()).chain(engine.subagents(id).await?) {
        if !json && session != *id {
            view::write_stdout(&format!("\nsubagent {session}\n"));
        }
        for trace in trace::trace(&Story::of(&engine.records(&session).await?)) {
            let text = match json {
                true => {
                    let mut object = serde_json::to_value(&trace)?;
                    object["session"] = serde_json::to_value(&session)?;
                    format!("{object}\n")
                }
                false => words(&trace),
            };
            view::write_stdout(&text);
        }
    }
    Ok(0)
}

impl Collector {
    /// The one that environment or configuration name, if any.
    pub(crate) fn of(around: &Surroundings) -> Result<Option<Self>> {
        let config = settings::of_user(around)?;
        let url = config.otel.collector(|name| around.machine.var(name).map(str::to_owned));
        url.map(|url| Self::at(&url, &config, around)).transpose()
    }

    fn at(url: &str, config: &Config, around: &Surroundings) -> Result<Self> {
        let named = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        let headers = match named.iter().find_map(|name| around.machine.var(name)) {
            Some(said) => pairs(said),
            None => config.otel.headers.clone().into_iter().collect(),
        };
        let http = server::http_options("", config, &around.machine)?;
        let http = HttpOptions { connect_timeout_ms: COLLECTOR_MS, stall_ms: COLLECTOR_MS, ..http };
        Ok(Self { url: url.to_owned(), headers, resource: resource(around), http })
    }

    /// Sends the turns of a session that something happened in from this position on. What cannot be sent is still in the
    /// journal, and said.
    pub(crate) async fn send_turns(&self, engine: &Engine, id: &SessionId, from: Seq) {
        let read = engine.records(id).await.ok();
        let spans = read.and_then(|all| otel::export(id, &Story::of(&all), from, &self.resource));
        let Some(spans) = spans else { return };
        if let Err(error) = self.send(spans.to_string()).await {
            view::write_stderr(&format!(
                "note: the trace was not sent: {error:#}. It can be sent later: piton session trace {id} --otlp URL\n"
            ));
        }
    }

    async fn send(&self, spans: String) -> Result<()> {
        let sent = post_json(&self.url, &self.headers, spans, &self.http).await;
        sent.map_err(|error| match error {
            HttpError::Stalled(_) => Failure::user(format!("the collector sent nothing for {} s", COLLECTOR_MS / 1000)),
            HttpError::Unusable(_) | HttpError::Unreachable(_) | HttpError::NotListening(_) | HttpError::CutOff(_) => {
                error.into()
            }
        })
    }
}

fn resource(around: &Surroundings) -> Resource {
    let mut attributes = around.machine.var("OTEL_RESOURCE_ATTRIBUTES").map(pairs).unwrap_or_default();
    let named = attributes.iter().position(|(key, _)| key == "service.name").map(|at| attributes.remove(at).1);
    let service = around.machine.var("OTEL_SERVICE_NAME").map(str::to_owned).or(named);
    Resource { service: service.unwrap_or_else(|| "piton".to_owned()), attributes }
}

/// `a=1,b=2`, with percent signs for what is special.
fn pairs(said: &str) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
    said.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, value)| (decoded(key), decoded(value))).collect()
}

/// A record as people read it: a heading, and a line for each thing that happened.
struct Words(String);

impl Words {
    fn new(what: &str, began_ms: TimeMs, ended_ms: TimeMs) -> Self {
        Self(format!("{what}: {}, {}\n", clock(began_ms), span(ended_ms.saturating_sub(began_ms))))
    }

    fn line(&mut self, name: &str, what: &str) {
        self.0.push_str(&view::clean(&format!("  {name:<8} {what}\n")));
    }

    fn hooks(&mut self, hooks: &[HookTrace]) {
        hooks.iter().for_each(|run| self.line("hook", &hooked(run)));
    }

    fn compaction(&mut self, compaction: &CompactionTrace) {
        if compaction.lost_tries > 0 {
            let tries = plural(compaction.lost_tries.into(), "try");
            self.line("model", &format!("{tries} for a summary ended with the process that made it"));
        }
        if let Some(asked) = &compaction.asked {
            self.line("model", &summed_up(asked));
        }
        self.line("compact", &made(compaction));
    }
}

fn words(trace: &Trace) -> String {
    let words = match trace {
        Trace::Step(step) => of_step(step),
        Trace::Compaction(compaction) => of_compaction(compaction),
        Trace::Outside(outside) => of_outside(outside),
        Trace::Title(title) => of_title(title),
    };
    words.0
}

fn of_step(step: &StepTrace) -> Words {
    let kind = match step.kind {
        StepKind::Ordinary => "",
        StepKind::WrapUp => ", the last one allowed",
        StepKind::Continue => ", going on with the reply before",
    };
    let mut words =
        Words::new(&format!("step {} of turn {}{kind}", step.step, step.turn), step.began_ms, step.ended_ms);
    if let Some(input) = &step.input {
        words.line("sent", &sent(input, step.asked.last().map(|asked| asked.usage)));
        if let Some(miss @ Miss::AgentChanged) = input.cache.as_ref().and_then(|reading| reading.miss.as_ref()) {
            words.line("cache", &why(miss));
        }
    }
    for asked in &step.asked {
        words.line("model", &answered(asked));
    }
    step.compactions.iter().for_each(|compaction| words.compaction(compaction));
    if let Some(ms) = step.snapshot_ms {
        words.line("files", &format!("snapshot for undo in {}", span(ms)));
    }
    for call in &step.calls {
        words.line("tool", &called(call));
        call.sampled.iter().for_each(|asked| words.line("model", &sampled(asked)));
        permitted(call).iter().for_each(|said| words.line("rules", said));
    }
    words.hooks(&step.hooks);
    words.line("then", &then(&step.next));
    words
}

fn of_compaction(compaction: &CompactionTrace) -> Words {
    let when = match compaction.trigger {
        Trigger::Ordinary | Trigger::Forced => format!("in turn {}", compaction.turn),
        Trigger::Asked | Trigger::Edited => format!("after turn {}", compaction.turn),
    };
    let mut words = Words::new(&format!("making room {when}"), compaction.began_ms, compaction.ended_ms);
    if let Some((asked, input)) = compaction.asked.as_ref().and_then(|asked| Some((asked, asked.input.as_ref()?))) {
        words.line("sent", &sent(input, Some(asked.usage)));
    }
    words.compaction(compaction);
    words.hooks(&compaction.hooks);
    if let Some(next) = &compaction.next {
        words.line("then", &then(next));
    }
    words
}

fn of_outside(outside: &OutsideTrace) -> Words {
    let when = match outside.turn {
        0 => "before the first turn".to_owned(),
        turn => format!("beside the steps of turn {turn}"),
    };
    let mut words = Words::new(&when, outside.began_ms, outside.ended_ms);
    words.hooks(&outside.hooks);
    if let Some(next) = &outside.next {
        words.line("then", &then(next));
    }
    words
}

fn of_title(title: &TitleTrace) -> Words {
    let heading = format!("title, asked for after turn {}", title.turn);
    let mut words = Words::new(&heading, title.at_ms, title.at_ms.saturating_add(title.took_ms));
    let replied =
        format!("{} replied in {}{}", title.model, span(title.took_ms), bill(&title.usage, title.cost_micros, true));
    words.line("model", &replied);
    words
}

fn summed_up(asked: &SummaryAsked) -> String {
    let SummaryAsked { model, attempts, took_ms, usage, cost_micros, .. } = asked;
    let tries = if *attempts > 1 { format!(" in {}", plural((*attempts).into(), "try")) } else { String::new() };
    let end = if asked.replied { "replied" } else { "made none" };
    format!(
        "{model}, asked for a summary{tries}, {end} after {}{}",
        span(*took_ms),
        bill(usage, *cost_micros, asked.replied)
    )
}

fn made(compaction: &CompactionTrace) -> String {
    let why = match compaction.trigger {
        Trigger::Ordinary => "the context was full",
        Trigger::Forced => "the conversation did not fit the model",
        Trigger::Asked => "somebody asked for it",
        Trigger::Edited => "somebody changed the summary",
    };
    let pruned = match compaction.pruned_calls {
        0 => String::new(),
        calls => format!("; {} cleared", plural(calls as u64, "old output")),
    };
    let end = match (&compaction.tokens, &compaction.error) {
        (Some((before, after)), _) => {
            format!("; about {} tokens before, {} now", thousands(*before), thousands(*after))
        }
        (None, Some(error)) => format!("; none was made: {error}"),
        (None, None) => "; the end of it is not on record".to_owned(),
    };
    format!("{why}{pruned}{end}")
}

/// A hook: who, where, how long, and what came of it.
fn hooked(run: &HookTrace) -> String {
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

fn sent(input: &ModelInput, used: Option<Usage>) -> String {
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
    let tokens = match used.filter(|usage| usage.input_tokens > 0) {
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

fn answered(asked: &ModelCall) -> String {
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
    let is_answered = !matches!(asked.result, AskResult::Failed { .. });
    format!("{}{attempt} {end}{}", asked.model, bill(&asked.usage, asked.cost_micros, is_answered))
}

/// What a call used for its reply, and cost: unknown is not zero. One that was not answered is mostly not billed.
fn bill(usage: &Usage, cost_micros: Option<u64>, is_answered: bool) -> String {
    if !is_answered && usage.total() == 0 && cost_micros.is_none() {
        return String::new();
    }
    let output = match usage.output_tokens {
        0 => ", tokens unknown".to_owned(),
        tokens => format!(", {} tokens", thousands(tokens)),
    };
    format!("{output}, {}", report::cost(cost_micros, u32::from(cost_micros.is_none())))
}

/// What the permission rules said of a call, and why: of its parts the first of those that decided, since the strictest counts.
fn permitted(call: &CallTrace) -> Option<String> {
    let (word, action) = match call.verdict.as_ref()? {
        Verdict::Allow => ("allowed", Action::Allow),
        Verdict::Ask => ("asked", Action::Ask),
        Verdict::AskFirst(_) => ("asked, because a hook wants it", Action::Ask),
        Verdict::Deny(_) => ("denied", Action::Deny),
        // It was none of the rules' doing: there is no such tool, its input is wrong, or a hook refused it.
        Verdict::Refuse(_) => return None,
    };
    let Some(judged) = &call.judged else { return Some(word.to_owned()) };
    let place = if judged.confined { "sandbox" } else { "unconfined" };
    let mut decided = judged.parts.iter().filter(|part| part.action == action);
    let by = decided.next().map(|part| {
        let why = match &part.rule {
            Some(rule) => {
                let from = rule.layer.as_ref().map(|from| format!(" of {from}")).unwrap_or_default();
                format!("by the rule {rule}{from}")
            }
            None => part.why.clone(),
        };
        let more = match decided.count() {
            0 => String::new(),
            more => format!(", and {}", plural(more as u64, "more part")),
        };
        format!(": {} ({why}){more}", hidden::visible_name(&part.part))
    });
    Some(view::clean(&format!("{word}, mode {}, {place}{}", judged.mode, by.unwrap_or_default())))
}

fn sampled(asked: &SampledTrace) -> String {
    let SampledTrace { model, took_ms, usage, cost_micros, replied, .. } = asked;
    let end = if *replied { "replied" } else { "gave no reply" };
    format!("{model}, asked by the server, {end} after {}{}", span(*took_ms), bill(usage, *cost_micros, *replied))
}

fn called(call: &CallTrace) -> String {
    let what = if call.title.is_empty() { &call.tool } else { &call.title };
    let asked = match &call.approval {
        None => String::new(),
        Some((Decision::Approve | Decision::ApproveForSession | Decision::ApproveLasting(_), ms)) => {
            format!(", allowed by a person after {}", span(*ms))
        }
        Some((Decision::ApproveChanged(_), ms)) => format!(", changed and allowed by a person after {}", span(*ms)),
        Some((Decision::Deny(_), ms)) => format!(", refused by a person after {}", span(*ms)),
        Some((Decision::Answered(_), ms)) => format!(", answered by a person after {}", span(*ms)),
        Some((Decision::Unattended, _)) => ", nobody there to ask".to_owned(),
        Some((Decision::Expired, ms)) => format!(", nobody answered within {}", span(*ms)),
    };
    let refused = match &call.refused {
        Some(RefusedBy::Hook(hook)) => Some(format!("not run: refused by the hook {hook}")),
        Some(RefusedBy::Rule) => Some("not run: refused by a rule of the permissions".to_owned()),
        Some(RefusedBy::Piton) => Some("not run: refused by Piton itself".to_owned()),
        None => None,
    };
    let end = match (refused, &call.status, call.started_ms) {
        (Some(refused), _, None) => refused,
        (_, Some(status), Some(_)) => format!("{} in {}", report::any_word(status), span(call.took_ms)),
        // The answer is the outcome.
        (_, Some(Status::Ok), None) => "asked".to_owned(),
        (_, Some(status), None) => format!("not run: {}", report::any_word(status)),
        (_, None, Some(_)) => "began; its end is not on record".to_owned(),
        (_, None, None) => "not begun".to_owned(),
    };
    format!("{what}: {end}{asked}, {} characters", thousands(call.output_chars as u64))
}

fn then(next: &Next) -> String {
    match next {
        Next::Step { kind: StepKind::WrapUp, .. } => "on, to the last step allowed: it wraps up".to_owned(),
        Next::Step { cause, .. } => match cause {
            Cause::Results => "on: the model reads the results".to_owned(),
            Cause::Spoke => "on: somebody spoke".to_owned(),
            Cause::SentBack(hook) => format!("on: {hook} sent the model back to work"),
            Cause::Cut => "on: the reply was cut at the output limit".to_owned(),
            Cause::Paused => "on: the provider paused the reply".to_owned(),
            Cause::Unclear => "on: nobody knows why the reply ended, so the model may not be done".to_owned(),
            Cause::Compacted => "on, to the next step".to_owned(),
        },
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
