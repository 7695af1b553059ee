//! The rule that makes the provider's prompt cache work: within a session, the body of each request begins with the
//! bytes of the one before, up to the end of its messages. Shown over random sessions of the real turn machine, with
//! steering, cancels, failures, retries and resumes, for every protocol. Marks of Anthropic's cache are taken out first:
//! they say what to keep, and are no part of what is kept.

#![allow(clippy::unwrap_used, reason = "a test")]

use futures_util::stream;
use piton_core::call::{CallInput, Effects, Outcome, ToolSpec};
use piton_core::event::{Canceller, Delivery, Event, Given, GivenKind, Record, Verdict};
use piton_core::hook::{Gates, HookPoint};
use piton_core::ids::MessageId;
use piton_core::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use piton_core::model::{ModelError, ModelErrorKind, Reply, Request};
use piton_core::policy::Policy;
use piton_core::request::{self, Frame};
use piton_core::turn::{Job, State};
use piton_models::chat::Dialect;
use piton_models::text_tools::TextTools;
use piton_models::{Model, ModelLimits, ModelStream, Price, anthropic, chat, gemini, ollama, responses};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Sessions that are played, each over all protocols.
const SESSIONS: u64 = 40;

/// Results are text there, and what the user says next joins it. A picture would make blocks of that text: the model
/// reads the same then, but in other bytes, so there are none in this comparison.
const TEXT_TOOLS: Protocol =
    ("text tools", |request| chat::encode(&as_text(request), Dialect::Compatible), "messages", &[']', '}', '"']);

/// A way to say a request, and the member that holds its messages with what closes their list.
type Protocol = (&'static str, fn(&Request) -> Value, &'static str, &'static [char]);

/// What somebody might do to the requests of a session, each by its number.
type Fault = (&'static str, fn(usize, &mut Request));

const PROTOCOLS: [Protocol; 8] = [
    ("chat", |request| chat::encode(request, Dialect::OpenAi), "messages", &[']']),
    ("chat, mistral", |request| chat::encode(request, Dialect::Mistral), "messages", &[']']),
    ("chat, echoing", |request| chat::encode(request, Dialect::Echoing), "messages", &[']']),
    ("chat, anthropic by openrouter", |request| chat::encode(request, Dialect::OpenRouter), "messages", &[']']),
    ("responses", responses::encode, "input", &[']']),
    // Neighbours are merged there, so the last message may still grow.
    ("anthropic", |request| anthropic::encode(request, 8_192), "messages", &[']', '}']),
    ("gemini", gemini::encode, "contents", &[']']),
    ("ollama", |request| ollama::encode(request, None), "messages", &[']']),
];

#[test]
fn each_request_of_a_session_begins_with_the_bytes_of_the_one_before() {
    let mut pairs = 0;
    for seed in 0..SESSIONS {
        let requests = play(seed);
        pairs += requests.len().saturating_sub(1);
        for protocol in PROTOCOLS {
            assert_eq!(broken(&requests, protocol), None, "{}, session {seed}", protocol.0);
        }
        let texts: Vec<Request> = requests.into_iter().map(without_images).collect();
        assert_eq!(broken(&texts, TEXT_TOOLS), None, "{}, session {seed}", TEXT_TOOLS.0);
    }
    assert!(pairs > 500, "only {pairs} pairs of requests were compared");
}

#[test]
fn what_must_not_happen_is_noticed() {
    let faults: [Fault; 4] = [
        ("a clock in the system prompt", |at, request| request.system.push_str(&format!("It is {at} o'clock."))),
        ("tools in another order", |at, request| {
            let mut tools = request.tools.to_vec();
            tools.rotate_left(at % 2);
            request.tools = tools.into();
        }),
        ("a reminder that is put into the history and taken out again", |_, request| {
            let reminder = Part::note("Remember the plan.");
            let last = request.messages.len() - 1;
            request.messages.insert(last, Arc::new(Message::new(Role::User, vec![reminder])));
        }),
        ("an old result that is cut", |at, request| {
            let old = request.messages.iter_mut().rev().skip(1).find(|message| message.role == Role::Tool);
            if let Some(message) = old {
                let parts = message.parts.iter().cloned().map(|part| match part {
                    Part::ToolResult { call, tool, .. } => {
                        Part::ToolResult { call, tool, outcome: Outcome::ok(format!("[cut {at}]")) }
                    }
                    other => other,
                });
                *message = Arc::new(Message::new(Role::Tool, parts.collect()));
            }
        }),
    ];
    for (fault, spoil) in faults {
        for protocol in PROTOCOLS {
            let noticed = (0..20).any(|seed| {
                let mut requests = play(seed);
                requests.iter_mut().enumerate().for_each(|(at, request)| spoil(at, request));
                broken(&requests, protocol).is_some()
            });
            assert!(noticed, "{}: {fault}", protocol.0);
        }
    }
}

/// The first request that does not begin as the one before it, in words.
fn broken(requests: &[Request], (_, encode, list, closing): Protocol) -> Option<String> {
    let bodies: Vec<Value> = requests.iter().map(encode).collect();
    bodies.windows(2).enumerate().find_map(|(at, pair)| {
        let opening = opening(&pair[0], list, closing);
        let next = unmarked(&pair[1]);
        if next.starts_with(&opening) {
            return None;
        }
        let same = opening.bytes().zip(next.bytes()).take_while(|(a, b)| a == b).count();
        let around =
            |text: &str| String::from_utf8_lossy(text.as_bytes()[same..].get(..80).unwrap_or_default()).into_owned();
        Some(format!("request {} differs at byte {same}:\n{}\n{}", at + 1, around(&opening), around(&next)))
    })
}

/// The bytes of a body up to the end of its messages.
fn opening(body: &Value, list: &str, closing: &[char]) -> String {
    let text = unmarked(body);
    let messages = format!("\"{list}\":{}", unmarked(&body[list]));
    let end = text.find(&messages).unwrap() + messages.len();
    text[..end].trim_end_matches(closing).to_owned()
}

fn unmarked(body: &Value) -> String {
    body.to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

/// The request as a model reads it that has its tools in the prompt.
fn as_text(request: &Request) -> Request {
    let ear = Ear(Arc::default());
    drop(TextTools::new(ear.clone()).stream(request.clone()));
    ear.0.lock().unwrap().take().unwrap()
}

fn without_images(mut request: Request) -> Request {
    for message in &mut request.messages {
        Arc::make_mut(message).parts.retain(|part| !matches!(part, Part::Image { .. }));
    }
    request
}

/// A model that keeps what it is asked.
#[derive(Clone)]
struct Ear(Arc<Mutex<Option<Request>>>);

impl Model for Ear {
    fn name(&self) -> &str {
        "test/ear"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: Request) -> ModelStream {
        *self.0.lock().unwrap() = Some(request);
        Box::pin(stream::empty())
    }
}

/// A session without IO: what would be asked of the model, in order.
struct Play {
    session: State,
    log: Vec<Record>,
    dice: fastrand::Rng,
    asked: Vec<Request>,
    newest: (u32, u32),
}

/// The requests of a random session.
fn play(seed: u64) -> Vec<Request> {
    let mut play = Play {
        session: State::new(),
        log: Vec::new(),
        dice: fastrand::Rng::with_seed(seed),
        asked: Vec::new(),
        newest: (0, 0),
    };
    let (session, workspace, version) = ("ses_1".into(), "/w".into(), "0".into());
    play.happen(Event::SessionStarted { session, workspace, version, parent: None });
    for _ in 0..60 {
        play.go_on();
    }
    play.asked
}

impl Play {
    fn happen(&mut self, event: Event) {
        let record = Record { seq: self.log.len() as u64 + 1, at_ms: 0, event };
        self.session.apply(&record);
        self.log.push(record);
    }

    /// One thing happens: mostly what is wanted next, sometimes what nobody waits for.
    fn go_on(&mut self) {
        while let Some(event) = self.session.due(0) {
            let event = self.with_reminder(event);
            self.happen(event);
        }
        let wanted = self.session.wanted();
        if wanted.is_empty() || self.dice.u8(..16) == 0 {
            return self.speak();
        }
        match self.dice.u8(..40) {
            0 => return self.cancel(),
            1 => return self.resume(),
            _ => {}
        }
        let job = self.dice.choice(wanted).unwrap();
        match job {
            Job::StartTurn => {
                let mut policy = Policy::piton();
                policy.steps.max = Some(self.dice.u32(2..12));
                policy.stuck.repeats = 0;
                policy.hooks.gates = Gates::of(self.dice.bool().then_some(HookPoint::Stop));
                let (turn, model) = (self.session.turn() + 1, "test/m".into());
                self.happen(Event::TurnStarted {
                    turn,
                    model,
                    fallbacks: vec![],
                    policy: Box::new(policy),
                    compact_at_tokens: None,
                    this_turn_only: false,
                });
            }
            Job::CallModel { step, attempt } => {
                if self.dice.u8(..4) == 0 {
                    self.hooks_say(HookPoint::BeforeModel, Some("Mind the style."), false);
                }
                self.call_model(step, attempt);
            }
            Job::Pass(gate) if self.dice.bool() => self.hooks_say(gate.point(), Some("Not green yet."), true),
            Job::Pass(gate) => self.hooks_say(gate.point(), None, false),
            Job::Wait { step, .. } => self.happen(Event::BackoffPassed { step }),
            Job::JudgeCall(call) => {
                let verdict =
                    if self.dice.u8(..8) == 0 { Verdict::Deny("A rule forbids it.".into()) } else { Verdict::Allow };
                self.happen(Event::requested(call.id.clone(), Effects::READ, verdict));
            }
            Job::RunTool(call) | Job::StopTool(call) => {
                let text = ["", "a line\n", "{\"json\": \"\\u00e9\"}"][self.dice.usize(..3)];
                let outcome = if self.dice.bool() { Outcome::ok(text) } else { Outcome::failed(text) };
                self.happen(Event::CallSettled { call: call.id.clone(), outcome });
            }
            Job::WatchDeadline { .. }
            | Job::SwitchModel { .. }
            | Job::Snapshot(_)
            | Job::WatchTask(_)
            | Job::AskApproval(_)
            | Job::AwaitAnswer { .. }
            | Job::Compact(_) => unreachable!("not in these sessions"),
        }
    }

    fn hooks_say(&mut self, point: HookPoint, note: Option<&str>, sends_back: bool) {
        self.happen(Event::HooksRan {
            step: self.session.step(),
            point,
            call: None,
            runs: vec![],
            notes: note.map(str::to_owned).into_iter().collect(),
            system: None,
            tools: None,
            input: None,
            verdict: None,
            sent_back: sends_back.then(|| "ci".to_owned()),
            stopped: None,
        });
    }

    /// Now and then the model is reminded of something when a step begins: it is appended, with what is on record of it.
    fn with_reminder(&mut self, event: Event) -> Event {
        match event {
            Event::StepStarted { step, kind, note } if self.dice.u8(..3) == 0 => {
                let text = format!("Files have changed since step {}.", step - 1);
                let items = vec![Given::of(GivenKind::FileChanged, &text)];
                self.happen(Event::ContextGiven { items });
                Event::StepStarted {
                    step,
                    kind,
                    note: Some(note.map_or(text.clone(), |note| format!("{text}\n\n{note}"))),
                }
            }
            event => event,
        }
    }

    fn speak(&mut self) {
        let message = MessageId(format!("m{}", self.log.len()));
        let mut parts = vec![Part::text(["go", "and \"now\"?", "héllo"][self.dice.usize(..3)])];
        if self.log.len() == 1 {
            parts.insert(0, Part::note("Working folder: /w"));
        }
        if self.dice.u8(..4) == 0 {
            parts.push(Part::note("<files>…</files>"));
        }
        if self.dice.u8(..4) == 0 {
            parts.push(Part::Image { media_type: "image/png".into(), data: "QUJD".into() });
        }
        let delivery = if self.dice.bool() { Delivery::Steer } else { Delivery::FollowUp };
        self.happen(Event::UserSpoke {
            message,
            parts,
            delivery,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
    }

    fn cancel(&mut self) {
        let speaks = self.session.wanted().iter().any(|job| matches!(job, Job::CallModel { .. }));
        self.happen(Event::CancelRequested { by: Canceller::User });
        if speaks && self.dice.bool() {
            let parts = vec![Part::text("I was about")];
            self.happen(Event::MessageCut { step: self.session.step(), parts, at_most: None });
        }
    }

    /// Another process folds what was written down.
    fn resume(&mut self) {
        let text = serde_json::to_string(&self.log).unwrap();
        let log: Vec<Record> = serde_json::from_str(&text).unwrap();
        self.session = State::fold(&log);
        if self.session.is_in_turn() {
            let policy = Box::new((**self.session.policy()).clone());
            self.happen(Event::TurnResumed {
                model: "test/m".into(),
                fallbacks: vec![],
                policy,
                this_turn_only: false,
            });
        }
    }

    fn call_model(&mut self, step: u32, attempt: u32) {
        if self.newest != (step, attempt) {
            self.newest = (step, attempt);
            let specs = ["bash", "edit", "read"].map(|name| ToolSpec {
                name: name.into(),
                description: format!("The {name} tool."),
                schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
                effects: Effects::READ,
            });
            let frame = Frame { system: "Be brief.".into(), tools: specs.into(), max_output_tokens: Some(100 + step) };
            self.asked.push(request::build(&self.session, &frame, "anthropic/m"));
        }
        let event = if self.dice.u8(..5) == 0 {
            let kind =
                [ModelErrorKind::Overloaded, ModelErrorKind::CutStream, ModelErrorKind::Auth][self.dice.usize(..3)];
            let abandoned = vec![Part::text("I will")];
            self.session.failed(attempt, ModelError::new(kind, "no"), Usage::default(), abandoned, 0, 0)
        } else {
            let reply = self.reply();
            self.session.replied(attempt, reply, None, 0, 0)
        };
        self.happen(event);
    }

    fn reply(&mut self) -> Reply {
        let mut parts = Vec::new();
        if self.dice.bool() {
            parts.push(Part::Reasoning { text: "Hm.".into(), opaque: self.attachment() });
        }
        if self.dice.bool() {
            let text = ["Let me see.", " ", "Done: \"ok\""][self.dice.usize(..3)];
            parts.push(Part::text(text));
        }
        for _ in 0..self.dice.usize(..4) {
            let name = ["read", "bash", "no such.tool"][self.dice.usize(..3)].to_owned();
            let provider_id = [None, Some("same"), Some("call:1"), Some("abcdef123")][self.dice.usize(..4)];
            let input = ["{\"path\":\"a\"}", "", "{\"a"][self.dice.usize(..3)];
            let provider_id = provider_id.map(str::to_owned);
            let (input, opaque) = (CallInput::parse(input), self.attachment());
            parts.push(Part::ToolCall(ToolCall { id: "".into(), provider_id, name, spelling: None, input, opaque }));
        }
        let finish = [FinishReason::Stop, FinishReason::ToolCalls, FinishReason::Length][self.dice.usize(..3)];
        Reply::new(parts, finish)
    }

    /// What one provider or another wants back.
    fn attachment(&mut self) -> Option<Value> {
        let known = [
            json!({ "signature": "S+/=" }),
            json!({ "redacted_thinking": "R" }),
            json!({ "field": "reasoning_content" }),
            json!({ "item": { "type": "reasoning", "id": "rs_1", "encrypted_content": "E" } }),
            json!({ "thoughtSignature": "T" }),
            json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": "D" }] }),
        ];
        self.dice.choice(known.into_iter().map(Some).chain([None]).collect::<Vec<_>>()).flatten()
    }
}
