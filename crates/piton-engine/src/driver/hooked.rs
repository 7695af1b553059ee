//! Where the loop meets hooks. Without hooks nothing of this runs: each place asks [`Hooks::want`] first.
//!
//! Where the turn waits for hooks is the machine's business ([`piton_core::turn::Gate`]). Hooks that only watch see what is
//! durable, in order, and nothing new is started meanwhile.

use super::Driver;
use crate::engine::EngineError;
use crate::engine::Settings;
use crate::hooks::{Check, Gated, Hook, HookContext, Hooks, OutputSchema, SessionStart, Sight, Unasked};
use crate::inbox::Asker;
use crate::jobs::{AtGate, JobKey, Passed, pass};
use piton_core::call::Touches;
use piton_core::client::Report;
use piton_core::event::{Answerer, Delivery, Event, TurnEnd};
use piton_core::hook::{Demand, HookPoint};
use piton_core::ids::MessageId;
use piton_core::message::{Part, prose};
use piton_core::permission::{Action, Ask};
use piton_core::request::Frame;
use piton_core::turn::{Gate, State};
use piton_tools::plan::accesses;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The time that hooks have together when a session is left.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What hooks did in the place of a job, or beside one.
#[expect(clippy::large_enum_variant, reason = "it is boxed on its way")]
pub(crate) enum Hooked {
    /// The session has begun, and a prompt was seen, where there is one.
    Vetted { start: Option<Gated>, prompt: Option<(Gated, Option<(String, String)>)> },
    /// A gate was passed.
    Passed(Passed),
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
    /// What the turn demands and this process cannot see to.
    pub(super) lost: Option<String>,
}

impl Gates {
    pub(super) fn new(session: &State, lost: Option<String>) -> Self {
        Self {
            is_started: false,
            is_starting: false,
            is_used: false,
            is_resumed: session.transcript().len() > 0,
            vetting: VecDeque::new(),
            accepted: VecDeque::new(),
            lost,
        }
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

/// Where hooks are.
pub(super) fn context(session: &State, settings: &Settings, scratch: &Path, own: &Frame) -> Arc<HookContext> {
    let model = Some(session.model()).filter(|name| !name.is_empty()).unwrap_or(settings.model.name());
    Arc::new(HookContext {
        session: session.id().clone(),
        session_dir: scratch.to_path_buf(),
        workspace: PathBuf::from(session.workspace()),
        turn: session.turn(),
        step: session.step(),
        model: model.to_owned(),
        unasked: unasked(settings, own),
    })
}

fn unasked(settings: &Settings, own: &Frame) -> Unasked {
    let rules = &settings.policy.permission;
    let asks = |touches| {
        let mut tools = own.tools.iter().filter(|tool| tool.effects.touches == touches);
        tools.any(|tool| rules.judge(&Ask { tool: &tool.name, accesses: &accesses(tool) }).action == Action::Ask)
    };
    match (asks(Touches::Workspace), asks(Touches::World)) {
        (true, _) => Unasked::Nothing,
        (false, true) => Unasked::Edits,
        (false, false) => Unasked::Everything,
    }
}

impl Driver {
    pub(super) fn hook_context(&self) -> Arc<HookContext> {
        context(&self.session, &self.settings, &self.scratch, self.frames.own())
    }

    /// What the model is asked with.
    pub(super) fn frame(&self) -> &Frame {
        self.frames.now(&self.session)
    }

    /// Lets hooks see what comes next.
    pub(super) fn pass(&mut self, gate: &Gate) {
        let (session, tools, hooks) = (&self.session, &self.settings.tools, &self.hooks);
        let bench = AtGate { session, tools, frame: self.frames.own(), hooks };
        match pass(gate, &bench, self.hook_context()) {
            Some(work) => {
                self.jobs.hook(JobKey::Pass(gate.clone()), async move { Hooked::Passed(work.await) });
            }
            None => {
                let nothing = Gated::nothing_at(gate).event(self.session.step());
                self.record(nothing);
            }
        }
    }

    /// Takes what hooks did.
    pub(super) fn take_hooked(&mut self, hooked: Hooked) {
        match hooked {
            Hooked::Vetted { start, prompt } => self.vetted(start, prompt),
            Hooked::Passed(Passed::Model(gated, call)) => {
                let event = self.frames.take(&self.session, gated, call);
                self.record(event);
            }
            Hooked::Passed(Passed::Events(events)) => {
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
    /// Shows hooks what is durable now.
    pub(super) fn show_sights(&mut self) {
        if self.jobs.is_running(&JobKey::Watch) {
            return;
        }
        let (hooks, sights) = (self.hooks.clone(), self.watch.take());
        if sights.is_empty() {
            return;
        }
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
