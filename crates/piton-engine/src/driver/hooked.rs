//! Where the loop meets hooks. Without hooks nothing of this runs: each place asks [`Hooks::want`] first.
//!
//! Where the turn waits for hooks is the machine's business ([`piton_core::turn::Gate`]). Hooks that only watch see what is
//! durable, in order, and nothing new is started meanwhile.

use super::Driver;
use crate::engine::EngineError;
use crate::hooks::{
    Check, Gated, Hook, HookContext, Hooks, ModelAnswer, ModelCall, OutputSchema, Ran, SessionStart, Sight, StepDone,
    TurnDone, Unasked,
};
use crate::inbox::Asker;
use crate::jobs::JobKey;
use piton_core::call::{ToolSpec, Touches};
use piton_core::client::{Report, last_words};
use piton_core::event::{Answerer, Delivery, Event, Record, Subject, TurnEnd};
use piton_core::hook::{Demand, HookPoint};
use piton_core::ids::{CallId, MessageId, TimeMs};
use piton_core::message::{Message, Part, Role, ToolCall, prose};
use piton_core::permission::{Action, Ask};
use piton_core::request::Frame;
use piton_core::turn::{Gate, Offered, State};
use piton_tools::plan::accesses;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time that hooks have together when a session is left.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What hooks did in the place of a job, or beside one.
#[expect(clippy::large_enum_variant, reason = "it is boxed on its way")]
pub(crate) enum Hooked {
    /// The session has begun, and a prompt was seen, where there is one.
    Vetted { start: Option<Gated>, prompt: Option<(Gated, Option<(String, String)>)> },
    /// A model call may be made.
    Model { gated: Gated, call: ModelCall },
    /// Another gate was passed: what is recorded of it.
    Passed(Vec<Event>),
    /// Hooks that watch have seen what there was.
    Watched,
}

/// Somebody's words on their way into the journal.
pub(super) struct Speech {
    pub(super) message: MessageId,
    pub(super) parts: Vec<Part>,
    pub(super) delivery: Delivery,
    pub(super) wait: bool,
    pub(super) asker: Asker,
}

/// What the driver keeps for hooks.
pub(super) struct Gates {
    is_started: bool,
    /// Whether hooks are seeing just now that the session has begun.
    is_starting: bool,
    /// Whether anything was said, or gone on with: a session that was only looked after has no end.
    is_used: bool,
    is_resumed: bool,
    vetting: VecDeque<Speech>,
    /// What hooks have let pass, on its way to the record.
    accepted: VecDeque<Speech>,
    /// What hooks left of the frame that the model was last asked with.
    frame: Frame,
    sights: Vec<(Arc<HookContext>, Sight)>,
    /// What the turn demands and this process cannot see to.
    pub(super) lost: Option<String>,
    messages: usize,
    step: StepDone,
    turn_started_ms: TimeMs,
}

impl Gates {
    pub(super) fn new(session: &State, own: &Frame, lost: Option<String>) -> Self {
        let messages = session.transcript().len();
        Self {
            is_started: false,
            is_starting: false,
            is_used: false,
            is_resumed: messages > 0,
            vetting: VecDeque::new(),
            accepted: VecDeque::new(),
            frame: as_hooks_left_it(own, session.offered()),
            sights: Vec::new(),
            lost,
            messages,
            step: StepDone::default(),
            turn_started_ms: 0,
        }
    }
}

/// The frame that the model was last asked with.
fn as_hooks_left_it(own: &Frame, offered: &Offered) -> Frame {
    let is_left = |name: &String| offered.tools.as_ref().is_none_or(|left| left.contains(name));
    Frame {
        system: offered.system.as_deref().map_or_else(|| Arc::clone(&own.system), Arc::from),
        tools: match offered.tools {
            Some(_) => own.tools.iter().filter(|tool| is_left(&tool.name)).cloned().collect(),
            None => Arc::clone(&own.tools),
        },
        max_output_tokens: own.max_output_tokens,
    }
}

/// Adds what the turn under way must still come to by what is on record with it, whoever began it. Returns what of that
/// cannot be seen to here.
pub(super) fn inherit(hooks: &mut Hooks, session: &State, env: &Arc<BTreeMap<OsString, OsString>>) -> Option<String> {
    if !session.is_in_turn() {
        return None;
    }
    let (mut more, mut lost) = (Vec::<Arc<dyn Hook>>::new(), None);
    for demand in &session.policy().hooks.demands {
        match demand {
            Demand::Check { command, timeout_ms, rounds } => {
                let timeout = Some(Duration::from_millis(*timeout_ms));
                more.push(Arc::new(Check::new(command, Arc::clone(env)).within(timeout, Some(*rounds))));
            }
            Demand::Answer { schema } => match OutputSchema::parse(&schema.to_string()) {
                Ok(schema) => more.push(Arc::new(schema.said())),
                Err(error) => lost = Some(format!("the schema of the answer cannot be read any more: {error}")),
            },
        }
    }
    hooks.inherit(&more);
    lost
}

impl Driver {
    pub(super) fn hook_context(&self) -> Arc<HookContext> {
        let session = &self.session;
        Arc::new(HookContext {
            session: session.id().clone(),
            session_dir: self.scratch.clone(),
            workspace: PathBuf::from(session.workspace()),
            turn: session.turn(),
            step: session.step(),
            model: Some(session.model())
                .filter(|name| !name.is_empty())
                .unwrap_or(self.settings.model.name())
                .to_owned(),
            unasked: self.unasked(),
        })
    }

    fn unasked(&self) -> Unasked {
        let rules = &self.settings.policy.permission;
        let asks = |touches| {
            let mut tools = self.frame.tools.iter().filter(|tool| tool.effects.touches == touches);
            tools.any(|tool| rules.judge(&Ask { tool: &tool.name, accesses: &accesses(tool) }).action == Action::Ask)
        };
        match (asks(Touches::Workspace), asks(Touches::World)) {
            (true, _) => Unasked::Nothing,
            (false, true) => Unasked::Edits,
            (false, false) => Unasked::Everything,
        }
    }

    /// What the model is asked with.
    pub(super) fn frame(&self) -> &Frame {
        let is_changed = *self.session.offered() != Offered::default();
        let may_be = is_changed || self.session.policy().hooks.gates.has(HookPoint::BeforeModel);
        if may_be { &self.gates.frame } else { &self.frame }
    }

    /// Whether hooks have taken this tool from the model in this step.
    pub(super) fn is_taken_away(&self, tool: &str) -> bool {
        let has = |frame: &Frame| frame.tools.iter().any(|spec| spec.name == tool);
        has(&self.frame) && !has(self.frame())
    }

    /// Lets hooks see what comes next.
    pub(super) fn pass(&mut self, gate: Gate) {
        let (hooks, cx, step) = (self.hooks.clone(), self.hook_context(), self.session.step());
        let key = JobKey::Pass(gate.clone());
        match gate {
            Gate::Compacted { .. } => self.jobs.hook(key, async move {
                Hooked::Passed(vec![hooks.session_start(&cx, SessionStart::Compacted).await.event(step)])
            }),
            Gate::BeforeModel { attempt, .. } => {
                let messages: Arc<[Arc<Message>]> = self.session.transcript().cloned().collect();
                let Frame { system, tools, .. } = self.frame.clone();
                let call = ModelCall { attempt, system, tools, messages };
                self.jobs.hook(key, async move {
                    let (gated, call) = hooks.before_model(&cx, call).await;
                    Hooked::Model { gated, call }
                });
            }
            Gate::BeforeTool(id) => {
                let Some(call) = self.call(&id).map(|call| self.settings.tools.understand(&call)) else { return };
                self.jobs
                    .hook(key, async move { Hooked::Passed(vec![hooks.before_tool(&cx, &call).await.event(step)]) });
            }
            Gate::Question(subject) => {
                let (Subject::Call(id) | Subject::GoOn(id)) = &subject;
                let Some(call) = self.call(id) else { return };
                self.jobs.hook(key, async move {
                    let (gated, decision) = hooks.approval(&cx, &subject, &call).await;
                    let decision = decision.filter(|_| gated.stopped.is_none());
                    let answer = decision.map(|decision| {
                        let by = Some(Answerer::Hook);
                        Event::ApprovalGiven { subject, decision, by }
                    });
                    Hooked::Passed(std::iter::once(gated.event(step)).chain(answer).collect())
                });
            }
            Gate::AfterTool(id) => {
                let Some((call, outcome)) = self.call(&id).zip(self.session.unrun(&id).cloned()) else { return };
                self.jobs.hook(key, async move {
                    let (gated, outcome) = hooks.after_tool(&cx, &call, outcome, Ran::Never).await;
                    Hooked::Passed(vec![gated.event(step), Event::CallSettled { call: id, outcome }])
                });
            }
            Gate::BeforeCompaction(trigger) => self.jobs.hook(key, async move {
                let (gated, refused) = hooks.before_compaction(&cx, trigger).await;
                let refused = refused.map(|error| Event::CompactionFailed { trigger, why: None, error, asked: None });
                Hooked::Passed(std::iter::once(gated.event(step)).chain(refused).collect())
            }),
            Gate::End { .. } => {
                let (session, text) = (self.session.clone(), last_words(&self.session));
                self.jobs.hook(key, async move {
                    let gated = hooks.stop(&cx, &text, |hook| session.times_sent_back(hook)).await;
                    Hooked::Passed(vec![gated.event(step)])
                });
            }
        }
    }

    /// A call of the newest reply.
    fn call(&self, id: &CallId) -> Option<Arc<ToolCall>> {
        let in_transcript = || {
            let messages: Vec<_> = self.session.transcript().collect();
            messages.iter().rev().find_map(|message| message.calls().find(|call| call.id == *id).cloned()).map(Arc::new)
        };
        self.session.open_call(id).cloned().or_else(in_transcript)
    }

    /// Takes what hooks did.
    pub(super) fn take_hooked(&mut self, hooked: Hooked) {
        match hooked {
            Hooked::Vetted { start, prompt } => self.vetted(start, prompt),
            Hooked::Model { gated, call } => self.let_go(gated, call),
            Hooked::Passed(events) => {
                for event in events {
                    let event = match event {
                        Event::ApprovalGiven { subject, decision, .. } => {
                            self.approval(subject, decision, Answerer::Hook)
                        }
                        event => event,
                    };
                    self.record(event);
                }
            }
            Hooked::Watched => {}
        }
        self.report_suspicions();
    }

    /// Records what hooks did at one point, where any was asked.
    pub(super) fn record_hooks(&mut self, gated: Gated) {
        if !gated.runs.is_empty() {
            let step = self.session.step();
            self.record(gated.event(step));
        }
    }

    /// A model call as hooks left it is weighed and made next.
    fn let_go(&mut self, mut gated: Gated, call: ModelCall) {
        // Asked again, by whatever model, it is the same question; what was added to it once is there.
        let is_said = |note: &String| {
            let is_it = |part: &Part| matches!(part, Part::Note { text, .. } if text == note);
            self.session.transcript().last().is_some_and(|last| last.parts.iter().any(is_it))
        };
        gated.notes.retain(|note| !is_said(note));
        let before = as_hooks_left_it(&self.frame, self.session.offered());
        // The same bytes are the same pointer, so that they need not be measured again.
        let known = [&self.gates.frame, &self.frame];
        let same = known.iter().map(|frame| &frame.system).find(|old| ***old == *call.system);
        let system = same.cloned().unwrap_or(call.system);
        let same = known.iter().map(|frame| &frame.tools).find(|old| **old == call.tools);
        let tools = same.cloned().unwrap_or(call.tools);
        let names = |tools: &[ToolSpec]| tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
        let mut event = gated.event(self.session.step());
        if let Event::HooksRan { system: other, tools: others, .. } = &mut event {
            *other = (before.system != system).then(|| system.to_string());
            *others = (names(&before.tools) != names(&tools)).then(|| names(&tools));
        }
        self.record(event);
        self.gates.frame = Frame { system, tools, max_output_tokens: self.frame.max_output_tokens };
    }

    /// Whether hooks want to see what is said before it is on record.
    pub(super) fn is_to_be_vetted(&self) -> bool {
        self.hooks.want(HookPoint::Prompt) || (!self.gates.is_started && self.hooks.want(HookPoint::SessionStart))
    }

    /// Lets hooks see what somebody says; without a speech, only that the session has begun.
    pub(super) fn vet(&mut self, speech: Option<Speech>) {
        self.gates.vetting.extend(speech);
        if self.jobs.is_running(&JobKey::Vet) {
            return;
        }
        let is_first = !std::mem::replace(&mut self.gates.is_started, true);
        self.gates.is_starting = is_first;
        let text = self.gates.vetting.front().map(|speech| prose(&speech.parts));
        let how = if self.gates.is_resumed { SessionStart::Resumed } else { SessionStart::New };
        let (hooks, cx) = (self.hooks.clone(), self.hook_context());
        self.jobs.hook(JobKey::Vet, async move {
            let start = match is_first && hooks.want(HookPoint::SessionStart) {
                true => Some(hooks.session_start(&cx, how).await),
                false => None,
            };
            let prompt = match text.filter(|_| hooks.want(HookPoint::Prompt)) {
                Some(text) => Some(hooks.prompt(&cx, &text).await),
                None => None,
            };
            Hooked::Vetted { start, prompt }
        });
    }

    /// Whether somebody of this process waits for his words to be heard.
    pub(super) fn is_vetting(&self) -> bool {
        self.gates.vetting.iter().any(|speech| speech.asker.is_local())
    }

    fn vetted(&mut self, start: Option<Gated>, prompt: Option<(Gated, Option<(String, String)>)>) {
        let speech = self.gates.vetting.pop_front();
        self.gates.is_starting = false;
        let mut notes = Vec::new();
        let mut refused = None;
        if let Some(mut gated) = start {
            if speech.is_some() {
                // They stand beside the prompt.
                notes.append(&mut gated.notes);
                refused = gated.stopped.take().map(|reason| (String::new(), reason));
            }
            self.record_hooks(gated);
        }
        if let Some((mut gated, refusal)) = prompt {
            notes.append(&mut gated.notes);
            refused = refused.or(refusal);
            self.record_hooks(gated);
        }
        if let Some(mut speech) = speech {
            match refused {
                Some((hook, reason)) => speech.asker.refuse(EngineError::PromptRefused { hook, reason }),
                None => {
                    let notes = notes.into_iter().map(Part::note);
                    speech.parts.splice(0..0, notes);
                    self.gates.accepted.push_back(speech);
                }
            }
        }
        if !self.gates.vetting.is_empty() {
            self.vet(None);
        }
    }

    /// Puts what was said on record.
    async fn hear(&mut self, speech: Speech) {
        let Speech { message, parts, delivery, wait, asker } = speech;
        let parts = self.with_context(parts).await;
        self.record(Event::UserSpoke { message: message.clone(), parts, delivery });
        let seq = self.staged.last().map_or(0, |record| record.seq);
        self.askers.wait_for_answer(message, seq, wait, asker);
    }

    /// Drops the hooks that somebody waits for. What they have not let pass is not put on record: who said it is told, or
    /// says it to the next writer where this one leaves.
    pub(super) fn drop_unheard(&mut self) {
        self.jobs.drop_hooks();
        if std::mem::take(&mut self.gates.is_starting) {
            self.gates.is_started = false;
        }
        let policy = &self.settings.policy;
        let own = "it was stopped before hooks had let pass what was said; that is not on record".to_owned();
        let why = policy.replies.words.ending(TurnEnd::Canceled, None, policy, Some(own)).unwrap_or_default();
        let result = policy.replies.words.result(TurnEnd::Canceled, None, Some(&why), "");
        for speech in self.gates.vetting.drain(..).filter(|_| !self.closing) {
            let report = Report::not_begun(TurnEnd::Canceled, why.clone());
            let report = Box::new(Report { result: result.clone(), ..report });
            speech.asker.refuse(EngineError::NotBegun(report));
        }
    }

    /// Takes notice that a turn is gone on with; hooks may have to see that the session has begun.
    pub(super) fn goes_on(&mut self) {
        self.gates.is_used = true;
        if self.is_to_be_vetted() {
            self.vet(None);
        }
    }

    /// Takes a command that speaks; hooks may have to see it first.
    pub(super) async fn speak(&mut self, speech: Speech) {
        self.gates.is_used = true;
        match self.is_to_be_vetted() {
            true => self.vet(Some(speech)),
            false => self.hear(speech).await,
        }
    }

    /// Puts on record what hooks have let pass.
    pub(super) async fn hear_accepted(&mut self) {
        while let Some(speech) = self.gates.accepted.pop_front() {
            self.hear(speech).await;
        }
    }
}

/// The part for hooks that only watch.
impl Driver {
    /// What of this hooks want to see, once it is durable.
    pub(super) fn note_sights(&mut self, record: &Record) {
        let want = |point| self.hooks.want(point);
        let mut sights = Vec::new();
        match &record.event {
            Event::TurnStarted { .. } => self.gates.turn_started_ms = record.at_ms,
            Event::StepStarted { .. } => {
                self.gates.step = StepDone { started_ms: record.at_ms, ..StepDone::default() };
            }
            Event::MessageFinished { attempt, reply, .. } => {
                self.gates.step.usage = reply.usage;
                if want(HookPoint::AfterModel) {
                    let answer = ModelAnswer { attempt: *attempt, result: Ok(reply.clone()) };
                    sights.push(Sight::Answer(Box::new(answer)));
                }
            }
            Event::ModelFailed { attempt, error, .. } => {
                let answer = ModelAnswer { attempt: *attempt, result: Err(error.clone()) };
                sights.push(Sight::Answer(Box::new(answer)));
            }
            Event::StepFinished { .. } => {
                sights.push(Sight::Step(StepDone { ended_ms: record.at_ms, ..self.gates.step }));
            }
            Event::CompactionFinished { trigger, summary, .. } => {
                sights.push(Sight::Compacted { trigger: *trigger, summary: summary.clone() });
            }
            Event::TurnEnded { end, detail, spent, .. } => {
                let (started_ms, ended_ms, text) =
                    (self.gates.turn_started_ms, record.at_ms, last_words(&self.session));
                let (end, detail, spent) = (*end, detail.clone(), *spent);
                sights.push(Sight::Turn(Box::new(TurnDone { end, detail, spent, started_ms, ended_ms, text })));
            }
            _ => {}
        }
        let len = self.session.transcript().len();
        let from = self.gates.messages.min(len);
        self.gates.messages = len;
        let new = self.session.transcript().skip(from).filter(|message| message.role != Role::User);
        sights.extend(new.map(|message| Sight::Message(Arc::clone(message))));
        if let Event::MessageFinished { reply, .. } = &record.event {
            let calls = reply.parts.iter().filter_map(|part| match part {
                Part::ToolCall(call) => Some(Sight::ToolUse(Box::new(call.clone()))),
                Part::Text { .. } | Part::Reasoning { .. } | Part::ToolResult { .. } => None,
                Part::Note { .. } | Part::Image { .. } => None,
            });
            sights.extend(calls);
        }
        sights.retain(|sight| want(sight.point()));
        if !sights.is_empty() {
            let cx = self.hook_context();
            self.gates.sights.extend(sights.into_iter().map(|sight| (Arc::clone(&cx), sight)));
        }
    }

    /// Shows hooks what is durable now.
    pub(super) fn show_sights(&mut self) {
        if self.gates.sights.is_empty() || self.jobs.is_running(&JobKey::Watch) {
            return;
        }
        let (hooks, sights) = (self.hooks.clone(), std::mem::take(&mut self.gates.sights));
        self.jobs.hook(JobKey::Watch, async move {
            for (cx, sight) in sights {
                hooks.see(&cx, sight).await;
            }
            Hooked::Watched
        });
    }

    /// Whether hooks have still to see something that happened: nothing new is started before they have.
    pub(super) fn is_being_watched(&self) -> bool {
        self.jobs.is_running(&JobKey::Watch)
    }

    /// Records what went wrong with hooks that watch.
    pub(super) fn report_suspicions(&mut self) {
        if let Some(suspicions) = self.hooks.suspicions() {
            let point = suspicions.runs.first().and_then(|run| run.point).unwrap_or(HookPoint::Step);
            let mut gated = Gated::new(point);
            (gated.runs, gated.stopped) = (suspicions.runs, suspicions.stopped);
            self.record_hooks(gated);
        }
    }

    /// Records what hooks that watch took of the step that is over.
    pub(super) fn record_watched(&mut self) {
        let mut gated = Gated::new(HookPoint::Step);
        gated.runs = self.hooks.watched();
        self.record_hooks(gated);
    }

    /// The session is being left.
    pub(super) async fn say_goodbye(&mut self) {
        if self.hooks.want(HookPoint::SessionEnd) && self.gates.is_used {
            let (hooks, cx) = (self.hooks.clone(), self.hook_context());
            // Whoever takes longer is not heard.
            drop(tokio::time::timeout(LAST_WORDS, hooks.see(&cx, Sight::SessionEnd)).await);
        }
        self.record_watched();
    }
}
