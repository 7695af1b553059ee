//! The documents' checklist as tests: each is named by the row it proves, and tells further ones in its first line. They
//! run under the row's preset, through the real engine. `cargo xtask rows` makes docs/dev/audit/source-loops.md of them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod contradictions;
mod hooks;
mod references;
mod room;
mod s0;
mod s1;
mod s2;
mod s3;
mod s4;
mod sessions;
mod times;

use piton_core::call::{CallInput, Outcome};
use piton_core::client::{Published, Report};
use piton_core::event::{Event, Record, TurnEnd};
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Message, Part, ToolCall, Usage};
use piton_core::model::{ModelError, ModelErrorKind, Reply, Request};
use piton_core::permission::Action;
use piton_core::question::Decision;
use piton_engine::engine::{Attendance, Handle, Settings};
use piton_engine::hooks::Hook;
use piton_testkit::TempWorkspace;
use piton_testkit::scenarios::{Line, Listener, Play, Played, Prop, Script, refusal};
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a run is set to besides its preset.
type Change = Box<dyn Fn(&mut Settings)>;

/// One run, by the rules of a preset.
struct Lab {
    preset: &'static str,
    lines: Vec<Line>,
    model: &'static str,
    /// What the model says where a summary is wanted.
    summary: String,
    window_tokens: Option<u64>,
    props: Vec<Arc<Prop>>,
    tools: ToolSet,
    prompts: Vec<String>,
    answer: Decision,
    stop_at_once: bool,
    listener: Option<Listener>,
    workspace: TempWorkspace,
    /// The folder of it that the session works in.
    within: &'static str,
    changes: Vec<Change>,
}

/// What came of it.
struct Ran {
    played: Played,
    /// What the model was asked, but for summaries.
    requests: Vec<Request>,
    /// What it was asked for summaries.
    summaries: Vec<Request>,
}

impl Lab {
    fn new(preset: &'static str, lines: Vec<Line>) -> Self {
        Self {
            preset,
            lines,
            model: "mod",
            summary: "All went well.".to_owned(),
            window_tokens: None,
            props: vec![prop("echo")],
            tools: ToolSet::empty(),
            prompts: vec!["go".to_owned()],
            answer: Decision::Deny(None),
            stop_at_once: false,
            listener: None,
            workspace: TempWorkspace::with([("a.txt", "alpha\nbeta\n")]),
            within: "",
            changes: Vec::new(),
        }
    }

    fn props(self, props: Vec<Arc<Prop>>) -> Self {
        Self { props, ..self }
    }

    fn tools(self, tools: ToolSet) -> Self {
        Self { tools, ..self }
    }

    fn prompts<S: ToString>(self, prompts: &[S]) -> Self {
        Self { prompts: prompts.iter().map(ToString::to_string).collect(), ..self }
    }

    fn files(self, files: &[(&str, &str)]) -> Self {
        files.iter().for_each(|(path, content)| self.workspace.write(path, content));
        self
    }

    fn within(self, within: &'static str) -> Self {
        Self { within, ..self }
    }

    fn model(self, model: &'static str) -> Self {
        Self { model, ..self }
    }

    fn window(self, tokens: u64) -> Self {
        Self { window_tokens: Some(tokens), ..self }
    }

    fn summary(self, summary: &str) -> Self {
        Self { summary: summary.to_owned(), ..self }
    }

    fn hook(self, hook: Arc<dyn Hook>) -> Self {
        self.change(move |settings| settings.hooks.push(hook.clone()))
    }

    fn change(mut self, change: impl Fn(&mut Settings) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Asks about every call, and answers so.
    fn asking(self, answer: Decision) -> Self {
        let asks = |settings: &mut Settings| {
            settings.attendance = Attendance::Attended;
            settings.policy.permission.push("*", Action::Ask);
        };
        Self { answer, ..self.change(asks) }
    }

    fn stopped_at_once(self) -> Self {
        Self { stop_at_once: true, ..self }
    }

    /// Cancels the turn as soon as an event of this kind is told.
    fn cancelled_on(self, kind: &'static str) -> Self {
        self.heard(move |session, published| {
            if matches!(published, Published::Recorded(record) if record.event.kind() == kind) {
                drop(session.cancel());
            }
        })
    }

    fn heard(self, listener: impl Fn(&Handle, &Published) + 'static) -> Self {
        Self { listener: Some(Box::new(listener)), ..self }
    }

    fn run(self) -> Ran {
        let script = Script::with(self.lines, self.model, &self.summary, self.window_tokens);
        let mut settings = Settings::by_preset(self.preset, script.clone()).unwrap();
        settings.policy.permission.push("*", Action::Allow);
        settings.tools = self.props.iter().fold(self.tools, |tools, prop| tools.with(prop.clone()));
        self.changes.iter().for_each(|change| change(&mut settings));
        let play = Play {
            script: Some(script.clone()),
            props: self.props,
            prompts: self.prompts,
            stop_at_once: self.stop_at_once,
            listener: self.listener,
            answer: self.answer,
            ..Play::new(settings, "")
        };
        let played = play.run(&self.workspace.path().join(self.within)).unwrap();
        Ran { played, requests: script.requests(), summaries: script.summaries() }
    }
}

impl Ran {
    fn report(&self) -> &Report {
        &self.played.report
    }

    fn end(&self) -> TurnEnd {
        self.played.report.end
    }

    fn records(&self) -> Vec<Record> {
        self.played.records()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.records().iter().map(|record| record.event.kind()).collect()
    }

    /// How every call ended, in order.
    fn outcomes(&self) -> Vec<Outcome> {
        let settled = self.records().into_iter().filter_map(|record| match record.event {
            Event::CallSettled { outcome, .. } => Some(outcome),
            _ => None,
        });
        settled.collect()
    }

    /// Everything that a request said to the model besides its instructions, as one text.
    fn words(&self, request: usize) -> String {
        let messages: Vec<&Message> = self.requests[request].messages.iter().map(AsRef::as_ref).collect();
        serde_json::to_string(&messages).unwrap()
    }

    /// The newest message of a request as the model reads it.
    fn told(&self, request: usize) -> String {
        let last = self.requests[request].messages.last().unwrap();
        let texts = last.parts.iter().filter_map(|part| match part {
            Part::Text { text, .. } | Part::Note { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n\n")
    }

    /// How the context was compacted, each time.
    fn compactions(&self) -> Vec<Event> {
        let made = |record: Record| Some(record.event).filter(|event| event.kind() == "compaction_finished");
        self.records().into_iter().filter_map(made).collect()
    }

    /// Milliseconds that were waited before each retry, to the second.
    fn waits(&self) -> Vec<u64> {
        let waits = self.records().into_iter().filter_map(|record| match record.event {
            Event::ModelFailed { retry_at_ms: Some(until), .. } => {
                Some((until.saturating_sub(record.at_ms) + 500) / 1000 * 1000)
            }
            _ => None,
        });
        waits.collect()
    }
}

fn prop(name: &str) -> Arc<Prop> {
    Arc::new(Prop { name: name.to_owned(), ..Prop::default() })
}

fn says(text: &str) -> Line {
    finishes(text, FinishReason::Stop)
}

fn finishes(text: &str, finish: FinishReason) -> Line {
    let pieces: Vec<String> = Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().collect();
    Line::reply(&pieces, Vec::new(), finish, used(10, 5))
}

fn used(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

/// A reply of prose and calls, as a model with calls of its own makes it.
fn calls(text: &str, calls: &[(&str, Value)]) -> Line {
    let parts = calls.iter().map(|(name, input)| {
        Part::ToolCall(ToolCall {
            id: CallId(String::new()),
            provider_id: None,
            name: (*name).to_owned(),
            spelling: None,
            input: CallInput::from_value(input.clone()),
            opaque: None,
        })
    });
    let pieces: Vec<String> = Some(text.to_owned()).filter(|text| !text.is_empty()).into_iter().collect();
    Line::reply(&pieces, parts.collect(), FinishReason::ToolCalls, used(10, 5))
}

/// A call as Neovate's models write it.
fn use_tool(name: &str, input: &Value) -> String {
    format!("<use_tool>\n<tool_name>{name}</tool_name>\n<arguments>\n{input}\n</arguments>\n</use_tool>")
}

/// Calls of `echo`, each another one, so many times.
fn rounds(times: usize) -> Vec<Line> {
    (0..times).map(|number| calls("", &[("echo", json!({ "number": number }))])).collect()
}

/// The same by a provider that counts nothing.
fn uncounted(mut lines: Vec<Line>) -> Vec<Line> {
    lines.iter_mut().for_each(|line| reply(line).usage = Usage::default());
    lines
}

fn fails(status: u16) -> Line {
    Line { deltas: Vec::new(), end: Some(Err(refusal(Some(status), &format!("upstream {status}")))) }
}

fn breaks(kind: ModelErrorKind) -> Line {
    Line { deltas: Vec::new(), end: Some(Err(ModelError::new(kind, "it broke"))) }
}

/// A reply that streams this and never ends: whoever plays it stops it.
fn hangs(text: &str) -> Line {
    Line { end: None, ..says(text) }
}

fn reply(line: &mut Line) -> &mut Reply {
    line.end.as_mut().unwrap().as_mut().unwrap()
}
