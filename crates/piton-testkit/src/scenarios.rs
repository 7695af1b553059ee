//! Other agents' scripted scenarios, played by the real engine under the preset of their name. What a scenario calls by
//! another name than Piton does is translated here, and docs/dev/audit/cases.md says how.

pub mod neovate;
pub mod opencode;
pub mod pulse;

use crate::clock::RuntimeClock;
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use piton_core::call::{Effects, Outcome, Status, ToolSpec};
use piton_core::client::{Live, Published, Report};
use piton_core::event::Record;
use piton_core::message::{FinishReason, Message, Part, Usage};
use piton_core::model::{Delta, ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_core::question::Decision;
use piton_core::{compact, turn};
use piton_engine::clock::{SystemDice, World};
use piton_engine::engine::{Engine, EngineError, Handle, Settings};
use piton_models::errors::{self, HttpRefusal};
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use piton_tools::tool::{Tool, ToolContext};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

/// How a judge says that a case cannot be played yet, and what is missing.
pub const WAITS: &str = "waits for ";

/// One answer of the scripted model.
#[derive(Debug, Clone)]
pub struct Line {
    /// What streams first.
    pub deltas: Vec<Delta>,
    /// How it ends. `None`: somebody stops it.
    pub end: Option<Result<Reply, ModelError>>,
}

/// A model that says its lines, the last one again and again if there are more requests. A summary that it is asked for
/// is no line of it.
pub struct Script {
    lines: Vec<Line>,
    name: String,
    summary: Line,
    window_tokens: Option<u64>,
    seen: Mutex<Vec<Request>>,
    stop: OnceLock<Handle>,
}

impl Script {
    /// A model with these lines.
    pub fn new(lines: Vec<Line>) -> Arc<Self> {
        Self::with(lines, "mod", "It went well so far.", None)
    }

    /// The same with a name, with what it says where a summary is wanted, and with a window of so many tokens.
    pub fn with(lines: Vec<Line>, name: &str, summary: &str, window_tokens: Option<u64>) -> Arc<Self> {
        let name = format!("prov/{name}");
        let summary = Line::reply(&[summary.to_owned()], Vec::new(), FinishReason::Stop, Usage::default());
        Arc::new(Self { lines, name, summary, window_tokens, seen: Mutex::default(), stop: OnceLock::new() })
    }

    /// Every request so far, but for those for summaries.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().iter().filter(|request| !is_for_summary(request)).cloned().collect()
    }

    /// Every request for a summary so far.
    pub fn summaries(&self) -> Vec<Request> {
        self.seen.lock().unwrap().iter().filter(|request| is_for_summary(request)).cloned().collect()
    }
}

fn is_for_summary(request: &Request) -> bool {
    let asks = |part: &Part| match part {
        Part::Note { text, .. } | Part::Text { text, .. } => text.contains(compact::INSTRUCTION),
        _ => false,
    };
    request.messages.last().is_some_and(|last| last.parts.iter().any(asks))
}

impl Model for Script {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { window_tokens: self.window_tokens, ..ModelLimits::default() }
    }

    fn price(&self) -> Option<Price> {
        Some(Price::FREE)
    }

    fn stream(&self, request: Request) -> ModelStream {
        let said = self.requests().len();
        let line = match is_for_summary(&request) {
            true => Some(self.summary.clone()),
            false => self.lines.get(said).or(self.lines.last()).cloned(),
        };
        self.seen.lock().unwrap().push(request);
        let Some(Line { deltas, end }) = line else {
            let error = ModelError::new(ModelErrorKind::InvalidRequest, "the script is empty");
            return Box::pin(stream::iter([Err(error)]));
        };
        let said = stream::iter(deltas.into_iter().map(|delta| Ok(ModelEvent::Delta(delta))));
        match end {
            Some(end) => Box::pin(said.chain(stream::iter([end.map(|reply| ModelEvent::Done(Box::new(reply)))]))),
            None => {
                let session = self.stop.get().cloned();
                let stopped = stream::once(async move {
                    session.iter().for_each(|session| drop(session.cancel()));
                    std::future::pending().await
                });
                Box::pin(said.chain(stopped))
            }
        }
    }
}

impl Line {
    /// A reply of prose in these pieces, and of calls.
    pub fn reply(pieces: &[String], calls: Vec<Part>, finish: FinishReason, usage: Usage) -> Self {
        let deltas = pieces.iter().map(|text| Delta::Text { text: text.clone() }).collect();
        let text = pieces.concat();
        let prose = Some(Part::text(text.clone())).filter(|_| !text.is_empty());
        let parts = prose.into_iter().chain(calls).collect();
        let reply = Reply { usage, ..Reply::new(parts, finish) };
        Self { deltas, end: Some(Ok(reply)) }
    }
}

/// A model that says this, in these pieces.
pub fn saying(pieces: &[String]) -> Arc<dyn Model> {
    Script::new(vec![Line::reply(pieces, Vec::new(), FinishReason::Stop, Usage::default())])
}

/// Everything that a model says to an empty request.
pub fn heard(model: &dyn Model) -> Vec<Result<ModelEvent, ModelError>> {
    let request = Request {
        session: String::new(),
        model: String::new(),
        system: String::new(),
        tools: Arc::from([]),
        may_call: true,
        messages: Vec::new(),
        max_output_tokens: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(model.stream(request).collect())
}

/// An error as a provider's answer with this status and message makes it; without a status, one that nobody tries again.
pub fn refusal(status: Option<u16>, message: &str) -> ModelError {
    match status {
        Some(status) => {
            let body = json!({"error": {"message": message}}).to_string();
            let refusal = HttpRefusal { status, headers: &[], body: &body };
            ModelError { message: message.to_owned(), ..errors::from_response(&refusal, SystemTime::UNIX_EPOCH) }
        }
        None => ModelError::new(ModelErrorKind::InvalidRequest, message),
    }
}

/// A tool that only says what it was told to say.
#[derive(Default)]
pub struct Prop {
    /// Its name.
    pub name: String,
    /// What it says; `None`: its own input.
    pub says: Option<String>,
    /// Whether that is an error.
    pub fails: bool,
    /// Stops the turn while it runs.
    pub stops: bool,
    /// Which turn; the play fills it in.
    pub stop: OnceLock<Handle>,
}

#[async_trait]
impl Tool for Prop {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {}});
        ToolSpec { name: self.name.clone(), description: "A prop.".into(), schema, effects: Effects::OPAQUE }
    }

    async fn run(&self, input: Value, _: &ToolContext) -> Outcome {
        if self.stops {
            self.stop.get().iter().for_each(|session| drop(session.cancel()));
        }
        let text = self.says.clone().unwrap_or_else(|| input.to_string());
        Outcome::new(if self.fails { Status::Failed } else { Status::Ok }, text)
    }
}

/// What a play came to.
pub struct Played {
    /// How the last turn went.
    pub report: Report,
    /// Everything that listeners heard, in order.
    pub heard: Vec<Published>,
    /// Where among that the last prompt begins.
    pub last_from: usize,
}

impl Played {
    /// The events among it.
    pub fn records(&self) -> Vec<Record> {
        let recorded = self.heard.iter().filter_map(|heard| match heard {
            Published::Recorded(record) => Some((**record).clone()),
            _ => None,
        });
        recorded.collect()
    }

    /// The fragments of the model's speech among it.
    pub fn deltas(&self) -> Vec<Delta> {
        let live = self.heard.iter().filter_map(|heard| match heard {
            Published::Live(live) => match &**live {
                Live::ModelDelta { delta, .. } => Some(delta.clone()),
                _ => None,
            },
            _ => None,
        });
        live.collect()
    }

    /// The conversation as it is on record.
    pub fn transcript(&self) -> Vec<Arc<Message>> {
        turn::State::fold(&self.records()).transcript().cloned().collect()
    }
}

/// How a play goes.
pub struct Play {
    /// Model, tools, rules.
    pub settings: Settings,
    /// Who may stop it.
    pub script: Option<Arc<Script>>,
    /// The tools that may.
    pub props: Vec<Arc<Prop>>,
    /// What was said before, each in a turn of its own, with room for all of it.
    pub before: Vec<String>,
    /// What is said, one turn after the other.
    pub prompts: Vec<String>,
    /// Whether it is stopped in the same breath as it is begun.
    pub stop_at_once: bool,
    /// What every question is answered with.
    pub answer: Decision,
    /// Whether time is skipped where nothing else happens. Not where a socket is waited for.
    pub skips_time: bool,
    /// Who listens to all that is published, as it is published.
    pub listener: Option<Listener>,
}

/// Hears what is published, and may act on the session.
pub type Listener = Box<dyn Fn(&Handle, &Published)>;

impl Play {
    /// One prompt, by these settings.
    pub fn new(settings: Settings, prompt: &str) -> Self {
        Self {
            settings,
            script: None,
            props: Vec::new(),
            before: Vec::new(),
            prompts: vec![prompt.to_owned()],
            stop_at_once: false,
            answer: Decision::Deny(None),
            skips_time: true,
            listener: None,
        }
    }

    /// Plays it in this folder.
    pub fn run(mut self, workspace: &Path) -> Result<Played, String> {
        let data = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(self.skips_time).build().unwrap();
        self.settings.shares_runtime = false;
        runtime.block_on(async {
            let clock = Arc::new(RuntimeClock::at(World::system().now_ms()));
            let engine = Engine::open(data.path()).in_world(World::new(clock, Arc::new(SystemDice)));
            let session = self.begin(&engine, workspace).await.map_err(|error| error.to_string())?;
            if let Some(script) = &self.script {
                let _ = script.stop.set(session.clone());
            }
            self.props.iter().for_each(|prop| drop(prop.stop.set(session.clone())));
            let played = self.play(&session).await;
            session.close().await;
            played
        })
    }

    async fn begin(&self, engine: &Engine, workspace: &Path) -> Result<Handle, EngineError> {
        if self.before.is_empty() {
            return engine.create(workspace, self.settings.clone()).await;
        }
        let mut roomy = self.settings.clone();
        roomy.policy.compaction.rules.auto = false;
        let session = engine.create(workspace, roomy).await?;
        for prompt in &self.before {
            session.prompt(prompt).await?;
        }
        let id = session.id().clone();
        session.close().await;
        engine.resume(&id, self.settings.clone()).await
    }

    async fn play(&self, session: &Handle) -> Result<Played, String> {
        let mut subscription = session.subscribe(1);
        let mut heard = Vec::new();
        while !self.before.is_empty() && !subscription.is_drained() {
            let published = subscription.next().await.map_err(|error| error.to_string())?;
            heard.push(published.ok_or("the session is gone")?);
        }
        let (mut report, mut last_from) = (None, 0);
        for prompt in &self.prompts {
            last_from = heard.len();
            let ended = async {
                let stop = async {
                    if self.stop_at_once {
                        drop(session.cancel());
                    }
                };
                tokio::join!(session.prompt(prompt), stop).0
            };
            tokio::pin!(ended);
            let mut over = None;
            while over.is_none() || !subscription.is_drained() {
                tokio::select! {
                    biased;
                    published = subscription.next() => {
                        let published = published.map_err(|error| error.to_string())?.ok_or("the session is gone")?;
                        self.answer(session, &published);
                        self.listener.iter().for_each(|listener| listener(session, &published));
                        heard.push(published);
                    }
                    ended = &mut ended, if over.is_none() => over = Some(ended),
                }
            }
            report = over.transpose().map_err(|error| error.to_string())?;
        }
        let report = report.ok_or("nothing was said")?;
        Ok(Played { report, heard, last_from })
    }

    fn answer(&self, session: &Handle, published: &Published) {
        let Published::Wanted(wanted) = published else { return };
        // A session that is gone needs no answer.
        drop(session.answer(wanted.answer(self.answer.clone())));
    }
}

/// Two lists that should be the same, or where they part.
pub(crate) fn same(what: &str, want: &[Value], got: &[Value]) -> Result<(), String> {
    let longest = want.len().max(got.len());
    match (0..longest).find(|at| want.get(*at) != got.get(*at)) {
        None => Ok(()),
        Some(at) => {
            let shown = |list: &[Value]| list.get(at).map_or("nothing".to_owned(), ToString::to_string);
            Err(format!("{what}, number {}: {} instead of {}", at + 1, shown(got), shown(want)))
        }
    }
}
