//! The session of a conversation: begun, gone on with, changed for another one, left.

use super::queue::Queue;
use super::{About, Chat, Done, prepared};
use crate::cassettes::CASSETTES;
use crate::failure::{Context, Failure, Result};
use crate::out::print::{self, Diverted};
use crate::out::view;
use crate::pictures::FrameSizes;
use crate::run::opening;
use crate::run::order::Place;
use crate::run::stops::Stops;
use crate::settings;
use crate::upkeep::Upkeep;
use piton_core::client::{Closed, Prompt, Published, Request};
use piton_core::configure::{BUILD, Configure};
use piton_core::event::Event;
use piton_core::ids::SessionId;
use piton_core::permission::PermissionMode;
use piton_core::policy::Policy;
use piton_core::task::over;
use piton_engine::engine::{Handle, Resumed, Settings, Subscription, new_message_id};
use piton_tools::runner;
use piton_tui::face::{Facts, Input};
use piton_tui::terminal::panics;
use std::path::Path;

/// What the names of recordings begin with that stand for a model.
const RECORDED: &str = "recorded/";

/// A session that is open, here or elsewhere.
pub(super) struct Open<'a> {
    pub(super) session: Handle,
    feed: Subscription,
    upkeep: Upkeep<'a>,
}

impl Open<'_> {
    /// The next thing that the session tells; waits for ever where none is open.
    pub(super) async fn next(open: &mut Option<Self>) -> Option<Published> {
        match open {
            Some(open) => open.feed.next().await.ok().flatten(),
            None => std::future::pending().await,
        }
    }
}

impl<'a> Chat<'a> {
    /// Reads what is needed to ask a model; goes on with the session that was named.
    pub(super) async fn begin(&mut self, picks: bool) {
        let mut is_ready = true;
        if self.place.resumed().is_some() {
            if let Err(error) = self.open().await {
                self.fail(&error);
                self.place = Place::New(self.folder().to_owned());
                is_ready = false;
                self.assemble().await;
            }
        } else {
            is_ready = self.assemble().await;
        }
        self.recall().await;
        self.offer_commands();
        self.offer_sessions();
        if picks {
            self.pick_session();
        }
        match self.held.take() {
            // It was meant for another session, or nobody can hear it: it is there to be sent.
            Some(prompt) if picks || !is_ready => self.terminal.tell(Input::PutBack(prompt.text)),
            Some(prompt) => self.say(prompt).await,
            None => {}
        }
    }

    /// The folder that the conversation is about.
    pub(super) fn folder(&self) -> &Path {
        &self.facts.workspace
    }

    /// Settings for a session to come, so that it is known whom the next words will reach. Whether there are any.
    pub(super) async fn assemble(&mut self) -> bool {
        let folder = self.folder().to_owned();
        match settings::of_session(self.around, &folder, &self.wishes).await {
            Ok(settings) => {
                self.know(&settings);
                self.settings = Some(settings);
                true
            }
            Err(error) => {
                self.facts.model.clear();
                self.tell_facts();
                // The list that is offered says it.
                if !self.offer_models(&error) {
                    self.fail(&Failure::from(error));
                }
                false
            }
        }
    }

    /// Tells the face how the next turn will be run.
    pub(super) fn know(&mut self, settings: &Settings) {
        self.facts = facts_of(settings, &self.facts);
        self.servers = settings.tools.servers().cloned();
        self.sandbox = Some(settings.sandbox.clone());
        self.frame = Some(FrameSizes::of(settings));
        self.recall.know(self.engine.firewall(Some((settings, &self.facts.workspace))));
        self.tell_facts();
    }

    /// Tells the face and the script of the status line how the next turn will be run.
    pub(super) fn tell_facts(&mut self) {
        self.terminal.tell(Input::Facts(self.facts.clone()));
        if let Some(status) = &mut self.status {
            let Facts { model, window, workspace, .. } = &self.facts;
            status.told.model.clone_from(model);
            status.told.window = *window;
            status.told.folder.clone_from(workspace);
            status.changed();
        }
    }

    /// What was changed holds.
    pub(super) fn configured(&mut self, changed: &Configure) {
        apply_change(&mut self.facts, changed);
        self.tell_facts();
    }

    /// How another process runs the session, as far as the journal says: how it ran the last turn, and what was changed since.
    async fn know_from_journal(&mut self, session: &Handle) -> Result<()> {
        let (store, id) = (session.store(), session.id());
        let mut records = store.of_kinds(id, &["turn_started", "settings_changed"]).await?;
        records.sort_by_key(|record| record.seq);
        self.facts.model = store.summary(id).await?.model.unwrap_or_default();
        (self.facts.mode, self.facts.window) = (PermissionMode::default(), None);
        (self.facts.sandbox, self.facts.budget_micros, self.facts.agent) = Default::default();
        records.iter().for_each(|record| run_elsewhere(&mut self.facts, &record.event));
        Ok(())
    }

    /// Takes notice of how another process runs the session.
    pub(super) fn hear_elsewhere(&mut self, event: &Event) {
        if self.facts.is_elsewhere && matches!(event, Event::TurnStarted { .. }) {
            run_elsewhere(&mut self.facts, event);
            self.tell_facts();
        }
    }

    /// Says something. The first words begin the session.
    pub(super) async fn say(&mut self, prompt: Prompt) {
        let words = match &prompt.command {
            Some(name) => format!("/{name} {}", prompt.text).trim_end().to_owned(),
            None => prompt.text.clone(),
        };
        if self.open.is_none()
            && let Err(error) = self.open().await
        {
            self.fail(&error);
            self.terminal.tell(Input::PutBack(words));
            return;
        }
        let message = new_message_id();
        self.queue.says(message.clone());
        let prompt = Prompt { wait: true, message: Some(message.clone()), ..prompt };
        self.ask(Request::Prompt(prompt), About::Prompt(message, words));
    }

    /// Asks the session for something. What comes of it is told later.
    pub(super) fn ask(&mut self, request: Request, about: About) {
        let Some(open) = &self.open else { return };
        let mut asking = open.session.ask(request);
        self.asked.push(Box::pin(async move {
            let answer = loop {
                match asking.next().await {
                    // The records tell of that.
                    Ok(piton_core::client::Reply::Accepted(_)) => {}
                    answer => break answer,
                }
            };
            Done::Asked { about, answer }
        }));
    }

    /// Opens the session: where another process runs it, or here.
    pub(super) async fn open(&mut self) -> Result<()> {
        let mut upkeep = Upkeep::new(self.engine, self.around)?;
        let session = loop {
            if let Some(session) = opening::join(&self.place, None, self.engine).await? {
                let pid = session.elsewhere().unwrap_or_default();
                self.note(format!("this session is run by process {pid}: what you say is sent there"));
                (self.sandbox, self.frame) = (None, None);
                self.recall.know(self.engine.firewall(None));
                self.know_from_journal(&session).await?;
                break session;
            }
            let opened = match (&self.place, self.settings.take()) {
                (Place::New(folder), Some(settings)) => {
                    let snapshots = settings.snapshots.clone();
                    let session = self.engine.create(folder, settings).await?;
                    upkeep.opened(&session, snapshots);
                    Some(session)
                }
                _ => {
                    let ready = prepared(&self.place, &mut self.wishes, self.engine, self.around).await?;
                    self.facts = facts_of(&ready.settings, &self.facts);
                    self.servers = ready.settings.tools.servers().cloned();
                    self.sandbox = Some(ready.settings.sandbox.clone());
                    self.frame = Some(FrameSizes::of(&ready.settings));
                    self.recall.know(self.engine.firewall(Some((&ready.settings, &self.facts.workspace))));
                    ready.open(self.engine, &mut upkeep).await?
                }
            };
            // Another process was faster: then it is there that we speak.
            if let Some(session) = opened {
                break session;
            }
        };
        let is_new = self.place.resumed().is_none();
        let id = session.id().clone();
        let here = self.folder().to_owned();
        self.place = Place::Resumed { id: id.clone(), here, is_named: false };
        self.facts.workspace = session.workspace().to_owned();
        self.facts.is_elsewhere = session.elsewhere().is_some();
        self.facts.folder = self.folder_short();
        self.tell_facts();
        let shown = if is_new { String::new() } else { print::short_id(id.as_str()).to_owned() };
        self.terminal.tell(Input::Session { id: shown });
        let next = if is_new { None } else { self.tell_recent(&session).await? };
        let mut feed = session.subscribe(next.unwrap_or(1));
        feed.attend(true);
        for grant in session.grants() {
            self.note(format!("{} is allowed in this session (/permissions)", grant.rule));
        }
        if session.resumed() == Resumed::MidTurn && session.elsewhere().is_none() {
            self.terminal.tell(Input::Interrupted);
            self.note("the last turn was interrupted: /continue resumes it, and so does your next message");
        }
        let is_over = session.resumed() == Resumed::AtRest && !is_new;
        if is_over && CASSETTES.iter().any(|(name, _)| self.facts.model.strip_prefix(RECORDED) == Some(*name)) {
            self.note("this is the demo's session: a recording played its model, and it has no more replies");
            self.note("/model switches to a real model; without a key, /new offers ways to get one");
        }
        self.queue = Queue::default();
        self.agents = super::agents::Watch::default();
        (self.open, self.hands_over) = (Some(Open { session, feed, upkeep }), false);
        // A mode that a person chose is the session's, whoever resumes it. `--yes` is for one run.
        if let Some(mode) = self.wishes.mode.filter(|mode| is_new && *mode != PermissionMode::Auto) {
            self.ask(Request::Configure(Configure { mode: Some(mode), ..Configure::default() }), About::Else);
        }
        Ok(())
    }

    /// Another session takes the place of this one; where it cannot be opened, this one goes on.
    pub(super) async fn switch(&mut self, id: SessionId) {
        self.close().await;
        let here = self.folder().to_owned();
        let before = std::mem::replace(&mut self.place, Place::Resumed { id, here, is_named: false });
        if let Err(error) = self.open().await {
            self.fail(&error);
            self.place = before;
            if self.place.resumed().is_some()
                && let Err(error) = self.open().await
            {
                self.fail(&error);
            }
        }
    }

    /// The next words begin a new session.
    pub(super) async fn renew(&mut self) {
        self.close().await;
        self.place = Place::New(self.folder().to_owned());
        // The model that was chosen stays, unless it was a recording, which is over.
        let stays = |model: &String| !model.is_empty() && !model.starts_with(RECORDED);
        let model = Some(self.facts.model.clone()).filter(stays);
        self.wishes.had = Configure { model, ..Configure::default() };
        self.facts.is_elsewhere = false;
        self.terminal.tell(Input::Session { id: String::new() });
        self.offer_sessions();
        if self.assemble().await {
            self.note("a new session begins with what you say next");
        }
    }

    /// Leaves the session that is open, if one is. What it tells at last is shown.
    pub(super) async fn close(&mut self) {
        let Some(Open { session, mut feed, upkeep }) = self.open.take() else { return };
        self.asked.clear();
        session.close().await;
        while let Ok(Some(published)) = feed.next().await {
            if let Published::Closed(_) = published {
                break;
            }
            self.terminal.hear(published);
        }
        self.terminal.tell(Input::Closed);
        upkeep.done().await;
    }

    /// Who ran the session has left it, or its journal cannot be written.
    pub(super) fn was_closed(&mut self, closed: Closed) {
        let was_elsewhere = self.open.as_ref().is_some_and(|open| open.session.elsewhere().is_some());
        self.open = None;
        self.asked.clear();
        self.terminal.tell(Input::Closed);
        match closed {
            Closed::Broken { error } => self.warn(error),
            Closed::Left | Closed::Lost if was_elsewhere => {
                self.note("the process that ran this session has left it; what you say next goes on with it here");
            }
            _ => self.warn("the session was closed; what you say next opens it again"),
        }
    }

    /// Lets the commands in the background go on when the session is closed.
    pub(super) async fn keep_commands(&self) -> Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let id = open.session.id();
        for task in self.engine.tasks(id).await?.commands() {
            let files = self.engine.task_files(id, &task.id);
            if runner::running(&files).is_some() {
                runner::keep(&files, true).with_context(|| format!("cannot keep {} running", task.id))?;
            }
        }
        Ok(())
    }

    /// Takes the face away; the terminal is as it was found, and Ctrl-C is a signal again. The session that one can go on
    /// with, and it, if it is still to be closed.
    pub(super) fn leave(self, diverted: Diverted) -> (Option<SessionId>, Option<Open<'a>>) {
        self.show_printed();
        let Self { terminal, open, place, .. } = self;
        drop(terminal);
        match print::is_stderr_read() {
            true => drop(diverted),
            // Whoever printed now would wait for ever: what is said at the end is kept, and nobody reads it.
            false => std::mem::forget(diverted),
        }
        panics().iter().for_each(|panic| print::write_stderr(&format!("{panic}\n")));
        (place.resumed().cloned(), open)
    }

    pub(super) fn fail(&self, failure: &Failure) {
        self.warn(failure.to_string());
        failure.hints.iter().for_each(|hint| self.note(hint.clone()));
    }
}

/// The name of an agent where it is not the one that nobody has to be told of.
fn shown_agent(name: &str) -> String {
    if name == BUILD { String::new() } else { name.to_owned() }
}

/// How turns with these settings are run.
fn facts_of(settings: &Settings, before: &Facts) -> Facts {
    let mut facts = Facts {
        model: settings.model.name().to_owned(),
        agent: shown_agent(&settings.agent.name),
        window: settings.model.limits().window_tokens,
        ..before.clone()
    };
    apply_policy(&mut facts, &settings.policy);
    facts
}

/// What a policy says of how turns are run.
fn apply_policy(facts: &mut Facts, policy: &Policy) {
    facts.mode = policy.mode;
    facts.sandbox = match &policy.sandbox_backend {
        Some(_) => format!("sandbox {}", policy.sandbox.word()),
        None => "commands unconfined".to_owned(),
    };
    facts.budget_micros = policy.budget.session_cost_micros.or(policy.budget.cost_micros);
}

fn apply_change(facts: &mut Facts, changed: &Configure) {
    facts.mode = changed.mode.unwrap_or(facts.mode);
    changed.model.iter().for_each(|model| facts.model.clone_from(model));
    changed.agent.iter().for_each(|agent| facts.agent = shown_agent(agent));
}

/// What an event says of how another process runs the session.
fn run_elsewhere(facts: &mut Facts, event: &Event) {
    match event {
        // What a command asks of its turn alone is not how the session is run.
        Event::TurnStarted { model, policy, this_turn_only: false, .. } => {
            facts.model.clone_from(model);
            apply_policy(facts, policy);
        }
        Event::SettingsChanged { changed, .. } => apply_change(facts, changed),
        _ => {}
    }
}

/// Says how to go on with the session of a conversation that is over, and closes it; the next signal ends that.
pub(super) async fn close_at_last(id: Option<SessionId>, open: Option<Open<'_>>, mut stops: Stops) {
    if let Some(id) = id {
        let short = print::short_id(id.as_str());
        print::write_stderr(&format!("{id} · go on with: piton -c, or piton --resume {short}\n"));
    }
    let Some(Open { session, mut feed, upkeep }) = open else { return };
    let closes = async {
        session.close().await;
        while let Ok(Some(published)) = feed.next().await {
            match &published {
                Published::Closed(_) => break,
                Published::Recorded(record) => {
                    if let Event::TaskEnded { task, outcome } = &record.event {
                        let line = format!("{}\n", over(task, outcome, "ended with the session"));
                        print::write_stderr(&view::clean(&line));
                        for said in outcome.undone() {
                            print::write_stderr(&view::clean(&format!("sandbox: {said}\n")));
                        }
                    }
                }
                _ => {}
            }
        }
        upkeep.done().await;
    };
    stops.unless_stopped(closes).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::configure::ChangedBy;
    use piton_core::policy::SandboxMode;

    #[test]
    fn who_attaches_is_told_how_the_other_process_runs_the_session() {
        let mut policy = Policy::piton();
        (policy.mode, policy.sandbox) = (PermissionMode::Auto, SandboxMode::ReadOnly);
        policy.sandbox_backend = Some("bubblewrap".to_owned());
        policy.budget.cost_micros = Some(2_000_000);
        let (model, policy) = ("a/x".to_owned(), Box::new(policy));
        let started = Event::TurnStarted {
            turn: 1,
            model,
            fallbacks: vec![],
            policy,
            compact_at_tokens: None,
            this_turn_only: false,
        };
        let changed = Configure { mode: Some(PermissionMode::Plan), ..Configure::default() };
        let changed = Event::SettingsChanged { changed, by: ChangedBy::User, at_once: true };
        let mut facts = Facts::default();
        run_elsewhere(&mut facts, &changed);
        run_elsewhere(&mut facts, &started);
        assert_eq!((facts.mode, facts.model.as_str()), (PermissionMode::Auto, "a/x"), "the turn is the later one");
        assert_eq!((facts.sandbox.as_str(), facts.budget_micros), ("sandbox read-only", Some(2_000_000)));
        run_elsewhere(&mut facts, &changed);
        assert_eq!((facts.mode, facts.sandbox.as_str()), (PermissionMode::Plan, "sandbox read-only"));
    }
}
