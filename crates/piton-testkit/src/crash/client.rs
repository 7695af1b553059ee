//! The user's side of one life of the process: opens the session, says what is still to be said, answers, cancels, and
//! leaves when all is done. It remembers nothing over a crash but what it was told: what it heard as recorded.

use super::hooks::Guard;
use super::machine::Machine;
use super::model::Simulated;
use super::scenario::{LEAD, Scenario};
use super::servers::OnMachine;
use super::tools::{self, Rule, Runners};
use piton_core::client::{Answer, Published, Report, Scope, Wanted};
use piton_core::event::{Direction, Event, Record, Subject};
use piton_core::ids::{Seq, SessionId};
use piton_core::message::Part;
use piton_core::permission::Action;
use piton_core::question::Decision;
use piton_core::turn::{self, Job};
use piton_engine::agents::{Agent, Agents};
use piton_engine::clock::World;
use piton_engine::engine::Subscription;
use piton_engine::engine::{Attendance, Engine, EngineError, Handle, Resumed, Settings};
use piton_engine::rewind::RewindError;
use piton_engine::store::{Store, StoreError};
use piton_tools::snapshot;
use piton_tools::subagent::Subagents;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::JoinSet;

/// How one life of the process ended.
#[derive(Debug)]
pub(super) enum Life {
    /// All is done, and the session was left in good order.
    Finished,
    /// The process died.
    Died,
    /// The journal could not be written: Piton stopped by itself.
    Stopped(StoreError),
}

/// What all lives of one run have in common.
pub(super) struct Stage<'s> {
    pub(super) machine: &'s Arc<Machine>,
    pub(super) store: Arc<dyn Store>,
    pub(super) runners: Runners,
    pub(super) scenario: &'s Scenario,
    pub(super) rule: Rule,
    /// Whether the hooks of the scenario are there.
    pub(super) has_hooks: bool,
    pub(super) workspace: &'s Path,
    /// What was in it before anything happened.
    pub(super) planted: BTreeMap<PathBuf, String>,
    /// The session, once the client knows of it.
    pub(super) session: Option<SessionId>,
    /// How often the machine was started.
    pub(super) boot: u32,
    /// Whether the process goes by a purse that is not the one it began with.
    pub(super) forgets: bool,
}

impl Stage<'_> {
    /// One life, to its end.
    pub(super) async fn live(&mut self) -> Life {
        let machine = self.machine.clone();
        tokio::select! {
            biased;
            () = machine.death() => Life::Died,
            ended = self.use_piton() => match ended {
                Ok(()) => Life::Finished,
                Err(_) if machine.is_off() => Life::Died,
                Err(EngineError::Journal(error)) => Life::Stopped(error),
                Err(EngineError::Broken(error)) => match Arc::try_unwrap(error) {
                    Ok(error) => Life::Stopped(error),
                    Err(error) => Life::Stopped(StoreError::other(error.to_string())),
                },
                Err(error) => {
                    machine.accuse(format!("an unexpected end: {error}"));
                    Life::Finished
                }
            },
        }
    }

    async fn use_piton(&mut self) -> Result<(), EngineError> {
        let (session, recorded) = self.open().await?;
        let mut visit = Visit {
            machine: self.machine,
            scenario: self.scenario,
            listening: session.subscribe(recorded.last().map_or(0, |record| record.seq) + 1),
            session,
            heard: Vec::new(),
            fold: turn::State::new(),
            said: HashSet::new(),
            answered: HashSet::new(),
            has_cancelled: false,
            has_undone: false,
            waiting: JoinSet::new(),
        };
        recorded.into_iter().for_each(|record| visit.hear(record));
        if visit.session.resumed() == Resumed::MidTurn {
            let session = visit.session.clone();
            visit.waiting.spawn(async move { session.go_on().await });
        }
        visit.stay().await?;
        visit.session.close().await;
        Ok(())
    }

    /// Opens the session it knows of; one of which nothing was ever heard may not have come to be.
    async fn open(&mut self) -> Result<(Handle, Vec<Record>), EngineError> {
        let world = World::system().booted(&self.boot.to_string());
        let engine = Engine::over(self.store.clone(), self.machine.root()).in_world(world);
        if let Some(id) = &self.session {
            match engine.resume(id, self.settings()).await {
                Ok(session) => {
                    let recorded = session.records().await?;
                    return Ok((session, recorded));
                }
                Err(EngineError::Journal(StoreError::NotFound { .. } | StoreError::Damaged { .. }))
                    if self.machine.state().heard.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        let session = engine.create(self.workspace, self.settings()).await?;
        self.session = Some(session.id().clone());
        Ok((session, Vec::new()))
    }

    pub(super) fn settings(&self) -> Settings {
        let (answers, of_subagents) = (self.scenario.replies.clone(), self.scenario.subagents.clone());
        let mut settings = Settings::new(Arc::new(Simulated { machine: self.machine.clone(), answers, of_subagents }));
        let claims = Arc::default();
        settings.tools = tools::tools(self.machine, &self.runners, self.rule, &claims);
        if self.scenario.calls_server() {
            settings.tools = settings.tools.with_servers(OnMachine::new(self.machine.clone()));
        }
        settings.backend = claims;
        if !self.scenario.subagents.is_empty() {
            let lead = Agent {
                name: LEAD.to_owned(),
                tools: Some(["task", "read"].map(str::to_owned).to_vec()),
                is_subagent: true,
                ..Agent::default()
            };
            let agents = Agents::built_in().with(lead);
            settings.tools = settings.tools.with(Arc::new(Subagents::new(agents.subagents())));
            settings.agents = Arc::new(agents);
            settings.policy.waits_for_subagents = true;
        }
        settings.attendance = Attendance::Attended;
        settings.shares_runtime = false;
        settings.policy.retry.usual.first_ms = 1;
        settings.policy.compaction.rules.least_freed_percent = 0;
        if self.scenario.undoes {
            let options = snapshot::Options { faults: Some(self.machine.clone()), ..snapshot::Options::default() };
            let store = Engine::open(self.machine.root()).snapshots(self.workspace, options);
            settings.snapshots = Some(Arc::new(store.unwrap()));
        }
        if self.has_hooks {
            settings.hooks.push(Arc::new(Guard(self.machine.clone())));
        }
        settings.policy.permission.push("*", if self.scenario.asks { Action::Ask } else { Action::Allow });
        if self.scenario.asks_below {
            settings.policy.permission.push("read", Action::Ask);
        }
        settings.policy.budget.tokens = self.scenario.budget.map(|most| if self.forgets { most * 10 } else { most });
        settings
    }
}

/// One visit to a session.
struct Visit<'s> {
    machine: &'s Machine,
    scenario: &'s Scenario,
    session: Handle,
    listening: Subscription,
    heard: Vec<Record>,
    fold: turn::State,
    said: HashSet<&'static str>,
    answered: HashSet<Seq>,
    has_cancelled: bool,
    has_undone: bool,
    waiting: JoinSet<Result<Report, EngineError>>,
}

impl Visit<'_> {
    async fn stay(&mut self) -> Result<(), EngineError> {
        loop {
            if self.listening.is_drained() || self.heard.is_empty() || !self.waiting.is_empty() {
                self.speak_up()?;
            }
            if self.is_done() {
                return Ok(());
            }
            if self.is_time_to_undo() {
                self.undo().await?;
            }
            tokio::select! {
                published = self.listening.next() => match published? {
                    Some(Published::Recorded(record)) => self.hear((*record).clone()),
                    Some(Published::Wanted(wanted)) => self.answer_below(&wanted),
                    Some(_) => {}
                    None => return Err(self.why_closed().await),
                },
                Some(ended) = self.waiting.join_next() => match ended {
                    // A turn that had ended by the time we asked for it is none to go on with.
                    Ok(Ok(_) | Err(EngineError::AtRest)) => {}
                    Ok(Err(error)) => return Err(error),
                    Err(panic) => self.machine.accuse(format!("a panic: {panic}")),
                },
            }
        }
    }

    /// The stream says that it is over; who waits for an answer is told why.
    async fn why_closed(&mut self) -> EngineError {
        while let Some(ended) = self.waiting.join_next().await {
            if let Ok(Err(error)) = ended {
                return error;
            }
        }
        EngineError::Closed
    }

    fn is_time_to_undo(&self) -> bool {
        let is_over = self.fold.is_at_rest() && self.has_heard("turn_ended") && self.waiting.is_empty();
        self.scenario.undoes && is_over && !self.has_undone && !self.has_heard("rewind_finished")
    }

    /// Takes the turn back. An undo that was cut off is ended by whoever opens the session: then there is none left.
    async fn undo(&mut self) -> Result<(), EngineError> {
        self.has_undone = true;
        match self.session.plan_rewind(Direction::Undo, 1, Scope::Both).await {
            Ok(plan) => match self.session.rewind(plan.rewind).await {
                Ok(_) => Ok(()),
                Err(RewindError::Broken(error)) => Err(EngineError::Broken(error)),
                Err(error) => Err(self.accuse_undo(&error)),
            },
            Err(RewindError::NotSoMany { .. }) => Ok(()),
            Err(RewindError::Broken(error)) => Err(EngineError::Broken(error)),
            Err(error) => Err(self.accuse_undo(&error)),
        }
    }

    fn accuse_undo(&self, error: &RewindError) -> EngineError {
        if !self.machine.is_off() {
            self.machine.accuse(format!("the turn cannot be taken back: {error}"));
        }
        EngineError::Closed
    }

    fn hear(&mut self, record: Record) {
        let known = self.machine.state().heard.insert(record.seq, record.clone());
        if known.is_some_and(|known| known != record) {
            self.machine.accuse(format!("I4: event {} was heard, and is another now", record.seq));
        }
        self.fold.apply(&record);
        let is_moved = matches!(&record.event, Event::RewindFinished { rewind, .. } if rewind.to.is_some());
        self.heard.push(record);
        if is_moved {
            self.fold = turn::State::fold(&self.heard);
        }
    }

    /// Says, answers and cancels what is to be said, answered and cancelled by now.
    fn speak_up(&mut self) -> Result<(), EngineError> {
        for say in &self.scenario.says {
            let is_time = say.after.is_none_or(|kind| self.has_heard(kind));
            if is_time && !has_said(&self.heard, say.text) && self.said.insert(say.text) {
                let (session, words, delivery) = (self.session.clone(), say.text, say.delivery);
                self.waiting.spawn(async move { session.send(vec![Part::text(words)], delivery).await });
            }
        }
        if self.scenario.cancel_on.is_some_and(|kind| self.has_heard(kind))
            && !self.has_heard("cancel_requested")
            && !self.has_cancelled
        {
            self.has_cancelled = true;
            drop(self.session.cancel());
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<(), EngineError> {
        for job in self.fold.wanted() {
            let Job::AskApproval(subject @ Subject::Call(_)) = job else { continue };
            let asks =
                |record: &&Record| matches!(&record.event, Event::ApprovalAsked { subject: s, .. } if *s == subject);
            let Some(seq) = self.heard.iter().rev().find(asks).map(|record| record.seq) else { continue };
            if seq >= self.session.opened_at() && self.answered.insert(seq) {
                let shown = self.fold.question(&subject).map(|question| question.shown);
                drop(self.session.answer(Answer { subject, decision: Decision::Approve, shown }));
            }
        }
        Ok(())
    }

    /// What a subagent asks is answered, whenever it asks.
    fn answer_below(&self, wanted: &Wanted) {
        if let Subject::Child { .. } = wanted.subject {
            drop(self.session.answer(wanted.answer(Decision::Approve)));
        }
    }

    fn has_heard(&self, kind: &str) -> bool {
        self.heard.iter().any(|record| record.event.kind() == kind)
    }

    fn is_done(&self) -> bool {
        let all_said = self.scenario.says.iter().all(|say| has_said(&self.heard, say.text));
        let is_undone = !self.scenario.undoes || self.has_heard("rewind_finished");
        all_said && is_undone && self.fold.is_at_rest() && self.waiting.is_empty() && self.has_heard("turn_ended")
    }
}

/// Whether the user's words are on record.
pub(super) fn has_said(records: &[Record], words: &str) -> bool {
    times_said(records, words) > 0
}

/// How often they are.
pub(super) fn times_said(records: &[Record], words: &str) -> usize {
    let says = |record: &&Record| match &record.event {
        Event::UserSpoke { parts, .. } => piton_core::message::prose(parts) == words,
        _ => false,
    };
    records.iter().filter(says).count()
}
