//! A session as its clients see it: everything they can ask of it, and everything it publishes.
//!
//! A [`Handle`] can be cloned and used from several places at once. Every verb is a [`Request`]: it starts as soon
//! as the method is called, and the returned future only waits for the answer. The driver ends when the last handle
//! is dropped or [`Handle::close`] is called, and leaves a journal that another process can resume.

use crate::branches::{Branches, OpenSessions, TreeListener};
use crate::bus::{Attending, Bus, Heard, Listener};
use crate::clock::World;
use crate::control::{Listening, RemoteSession};
use crate::error::{CompactError, EngineError, RewindError};
use crate::inbox::{self, Asked, Asker, Inbox};
use crate::store::{Store, StoreError, Stored};
use piton_core::call::Outcome;
use piton_core::client::{
    Accepted, Answer, Compact, Compacted, Configure, Configured, Of, Plan, Prompt, Published, Reply, Report, Request,
    Rewound, Scope, Stage, Unqueued, When,
};
use piton_core::event::{Delivery, Direction, Record, Rewind};
use piton_core::ids::{MessageId, Seq, SessionId};
use piton_core::message::Part;
use piton_core::permission::Grant;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A session, in this process or in another.
#[derive(Clone)]
pub struct Handle {
    pub(crate) stored: Stored,
    pub(crate) resumed: Resumed,
    pub(crate) grants: Vec<Grant>,
    pub(crate) opened_at: Seq,
    pub(crate) workspace: PathBuf,
    pub(crate) line: Line,
}

/// Where a session runs, as far as its clients need to know.
#[derive(Clone)]
pub(crate) enum Line {
    /// Its driver is a task of this process.
    Here(Arc<Here>),
    /// Another process runs it.
    There(RemoteSession),
}

/// A session that is open in this process.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) bus: Bus,
    pub(crate) inbox: Inbox,
    pub(crate) driver: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    /// The sessions that are open beside it.
    handles: Arc<Handles>,
}

impl Here {
    pub(crate) fn new(bus: Bus, inbox: Inbox, driver: JoinHandle<()>, handles: Arc<Handles>) -> Self {
        Self { bus, inbox, driver: tokio::sync::Mutex::new(Some(driver)), handles }
    }
}

/// The sessions that are open in this process, as long as a handle exists: one driver each.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    open: Mutex<HashMap<SessionId, Weak>>,
    /// Held while a session is looked for.
    pub(crate) attaching: tokio::sync::Mutex<()>,
}

/// A handle that does not keep its driver alive.
#[derive(Debug)]
struct Weak {
    here: std::sync::Weak<Here>,
    stored: Stored,
    workspace: PathBuf,
}

impl Handles {
    pub(crate) fn remember(&self, handle: &Handle) {
        let Line::Here(here) = &handle.line else { return };
        let weak =
            Weak { here: Arc::downgrade(here), stored: handle.stored.clone(), workspace: handle.workspace.clone() };
        let mut open = self.lock();
        open.retain(|_, weak| weak.here.strong_count() > 0);
        open.insert(handle.id().clone(), weak);
    }

    /// Another handle on a session that is open here and not closing.
    pub(crate) fn get(&self, id: &SessionId) -> Option<Handle> {
        let open = self.lock();
        let Weak { here, stored, workspace } = open.get(id)?;
        let here = here.upgrade().filter(|here| !here.inbox.is_closed())?;
        let now = here.bus.now();
        Some(Handle {
            stored: stored.clone(),
            resumed: Resumed::AtRest,
            grants: Vec::new(),
            opened_at: now.seq,
            workspace: workspace.clone(),
            line: Line::Here(here),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Weak>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenSessions for Handles {
    fn listen(&self, session: &SessionId, from: Option<Seq>) -> Option<(Seq, Listener)> {
        let handle = self.get(session)?;
        let Line::Here(here) = &handle.line else { return None };
        let from = from.unwrap_or(handle.opened_at + 1);
        Some((from, here.bus.subscribe(handle.stored.clone(), from)))
    }
}

/// Receives everything that a session publishes and, if it was asked to, what its subagents publish.
pub struct Subscription {
    source: Source,
    /// Where the session runs here: who can answer it.
    bus: Option<Bus>,
    attending: Option<Attending>,
}

enum Source {
    Here(Box<Listener>),
    Tree(Box<TreeListener>),
    There(Box<Listening>),
}

impl Subscription {
    fn of(source: Source, bus: Option<Bus>) -> Self {
        Self { source, bus, attending: None }
    }

    /// Whether everything published so far has been received.
    pub fn is_drained(&self) -> bool {
        match &self.source {
            Source::Here(listener) => listener.is_drained(),
            Source::Tree(listener) => listener.is_drained(),
            Source::There(_) => true,
        }
    }

    /// Says whether this subscriber can answer the questions of the session and its subagents. While no subscriber can, anything that needs a
    /// question is refused, unless the session's settings say that somebody will come.
    pub fn attend(&mut self, attends: bool) {
        if let Source::There(listening) = &mut self.source {
            listening.attend(attends);
        }
        match &self.bus {
            Some(bus) if attends => drop(self.attending.get_or_insert_with(|| bus.attend())),
            _ => self.attending = None,
        }
    }

    /// The next item: first the records from the requested position on, then [`Published::Now`], the session's open
    /// questions and [`Published::CaughtUp`], then live events. The last is [`Published::Closed`], when the session is
    /// closed here or its process has left; after it comes `None`. Fails only if the journal cannot be read when needed.
    /// May be dropped half-way and called again.
    pub async fn next(&mut self) -> Result<Option<Published>, StoreError> {
        loop {
            match self.next_of_tree().await? {
                Some((Some(_), _)) => {}
                heard => return Ok(heard.map(|(_, published)| published)),
            }
        }
    }

    /// The same with what subagents record and stream ([`Handle::subscribe_tree`]), each with whose it is. Everything that a subagent records
    /// comes before the outcome of the call that it answers.
    pub async fn next_of_tree(&mut self) -> Result<Option<(Option<Of>, Published)>, StoreError> {
        let own = |published: Option<Published>| -> Option<Heard> { published.map(|published| (None, published)) };
        match &mut self.source {
            Source::Here(listener) => Ok(own(listener.next().await?)),
            Source::Tree(listener) => listener.next().await,
            Source::There(listening) => listening.next().await,
        }
    }
}

/// What a resumed session was found to be in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// Nothing: a new session, or one whose last turn had ended.
    AtRest,
    /// An interrupted turn; it continues with the next prompt or with [`Handle::go_on`].
    MidTurn,
}

/// A request in progress, whether or not anyone waits for its answers.
pub struct Asking(UnboundedReceiver<inbox::Answer>);

/// A prompt that is durable.
pub struct Said {
    /// Its position in the journal.
    pub accepted: Accepted,
    asking: Asking,
}

impl Asking {
    /// The next answer. A prompt has two: [`Reply::Accepted`] and, if requested, [`Reply::Ended`].
    pub async fn next(&mut self) -> Result<Reply, EngineError> {
        self.0.recv().await.unwrap_or(Err(EngineError::Closed))
    }
}

impl Said {
    /// How the turn that answers it ended.
    pub async fn ended(mut self) -> Result<Report, EngineError> {
        ended(self.asking.next().await?)
    }
}

impl Handle {
    /// A handle on a session that another process runs; `None` if that process is just leaving it.
    pub(crate) async fn there(stored: Stored, remote: RemoteSession) -> Result<Option<Self>, EngineError> {
        let now = match Asking(remote.ask(Request::Look {})).next().await {
            Ok(Reply::Seen(now)) => now,
            Ok(_) | Err(EngineError::Closed) => return Ok(None),
            Err(error) => return Err(error),
        };
        let workspace = PathBuf::from(stored.store().summary(stored.id()).await?.workspace);
        let resumed = if now.phase == Stage::AtRest { Resumed::AtRest } else { Resumed::MidTurn };
        Ok(Some(Self {
            stored,
            resumed,
            grants: Vec::new(),
            opened_at: now.seq + 1,
            workspace,
            line: Line::There(remote),
        }))
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        self.stored.id()
    }

    /// The store that holds the session.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.stored.store()
    }

    /// All durable events of the session.
    pub async fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.stored.records().await
    }

    /// The folder it works in.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The position of the first event since the session was opened or joined here: 1 for a new one.
    pub fn opened_at(&self) -> Seq {
        self.opened_at
    }

    /// What the session was in the middle of when it was resumed or joined.
    pub fn resumed(&self) -> Resumed {
        self.resumed
    }

    /// What a person had allowed for the rest of the session when it was resumed here.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The process that runs the session, if it is another one.
    pub fn elsewhere(&self) -> Option<u32> {
        match &self.line {
            Line::Here(_) => None,
            Line::There(remote) => Some(remote.pid()),
        }
    }

    /// Sends a request. It is in progress from here on; its answers arrive through the returned value.
    pub fn ask(&self, request: Request) -> Asking {
        match &self.line {
            Line::Here(here) => {
                let (asker, answers) = Asker::local();
                // Where the session is closed, nobody answers.
                drop(here.inbox.put(Asked::Request(request, asker)));
                Asking(answers)
            }
            Line::There(remote) => Asking(remote.ask(request)),
        }
    }

    /// Sends a prompt and waits for the end of the turn that answers it. During a turn, it steers that turn.
    pub async fn prompt(&self, text: &str) -> Result<Report, EngineError> {
        self.send(vec![Part::text(text)], Delivery::Steer).await
    }

    /// Sends a prompt and waits for the end of the turn that answers it.
    pub async fn send(&self, parts: Vec<Part>, delivery: Delivery) -> Result<Report, EngineError> {
        let delivery = match delivery {
            Delivery::Steer => When::Steer,
            Delivery::FollowUp => When::FollowUp,
        };
        match self.say(Prompt { parts, delivery, wait: true, ..Prompt::default() }).await {
            Ok(said) => said.ended().await,
            Err(EngineError::NotBegun(report)) => Ok(*report),
            Err(error) => Err(error),
        }
    }

    /// Sends a prompt and returns when it is durable. With an id of the caller's, a repeated prompt is ignored and waits
    /// for the same turn.
    pub async fn say(&self, prompt: Prompt) -> Result<Said, EngineError> {
        let mut asking = self.ask(Request::Prompt(prompt));
        match asking.next().await? {
            Reply::Accepted(accepted) => Ok(Said { accepted, asking }),
            _ => Err(EngineError::Closed),
        }
    }

    /// Continues an interrupted turn and waits for its end.
    pub async fn go_on(&self) -> Result<Report, EngineError> {
        ended(self.ask(Request::GoOn {}).next().await?)
    }

    /// Stops the current turn: closes the model's stream, ends running tools and answers the rest. Returns the turn's
    /// report; `None` if no turn was running.
    pub fn cancel(&self) -> impl Future<Output = Result<Option<Report>, EngineError>> + Send + use<> {
        let mut asking = self.ask(Request::Cancel {});
        async move {
            match asking.next().await {
                Err(EngineError::AtRest) => Ok(None),
                reply => ended(reply?).map(Some),
            }
        }
    }

    /// Takes back a queued message that no step has read, or all of them, and returns their content. After a
    /// [`Handle::cancel`] has started, no step reads them any more.
    pub fn unqueue(
        &self,
        message: Option<MessageId>,
    ) -> impl Future<Output = Result<Vec<Unqueued>, EngineError>> + Send + use<> {
        let mut asking = self.ask(Request::Unqueue { message });
        async move {
            match asking.next().await? {
                Reply::Unqueued { messages } => Ok(messages),
                _ => Err(EngineError::Closed),
            }
        }
    }

    /// Finishes the running call and starts nothing new before [`Handle::unpause`]; a cancel or the turn's time limit also
    /// ends the pause. It is not recorded: a resumed session is not paused. Returns whether the session is paused
    /// now.
    pub fn pause(&self) -> impl Future<Output = Result<bool, EngineError>> + Send + use<> {
        state(self.ask(Request::Pause {}))
    }

    /// Continues after [`Handle::pause`].
    pub fn unpause(&self) -> impl Future<Output = Result<bool, EngineError>> + Send + use<> {
        state(self.ask(Request::Continue {}))
    }

    /// Reports what undoing the last `turns` turns would do or, with [`Direction::Redo`], redoing the last undo. Changes
    /// nothing.
    pub async fn plan_rewind(&self, direction: Direction, turns: u32, scope: Scope) -> Result<Plan, RewindError> {
        match self.ask(Request::Plan { direction, turns, scope }).next().await {
            Ok(Reply::Planned(plan)) => Ok(*plan),
            other => Err(other.err().unwrap_or(EngineError::Closed).into()),
        }
    }

    /// Carries out a planned rewind. Files that somebody has changed since stay, unless `overwrite` is set in it.
    pub async fn rewind(&self, rewind: Rewind) -> Result<Rewound, RewindError> {
        match self.ask(Request::Rewind { rewind }).next().await {
            Ok(Reply::Rewound(rewound)) => Ok(rewound),
            other => Err(other.err().unwrap_or(EngineError::Closed).into()),
        }
    }

    /// Compacts the conversation, between turns: a summary replaces all but the newest steps.
    pub async fn compact(&self, compact: Compact) -> Result<Compacted, CompactError> {
        match self.ask(Request::Compact(compact)).next().await {
            Ok(Reply::Compacted(compacted)) => Ok(compacted),
            other => Err(other.err().unwrap_or(EngineError::Closed).into()),
        }
    }

    /// Answers an open question and returns the answer's position in the journal. If the question is not open, the error
    /// names the answer that counted; if the question has changed, the answer is refused.
    pub fn answer(&self, answer: Answer) -> impl Future<Output = Result<Seq, EngineError>> + Send + use<> {
        let mut asking = self.ask(Request::Answer(answer));
        async move {
            match asking.next().await? {
                Reply::Answered { seq } => Ok(seq),
                Reply::NotOpen { subject, given, by } => {
                    Err(EngineError::NotOpen { subject: Box::new(subject), given, by })
                }
                _ => Err(EngineError::Closed),
            }
        }
    }

    /// Renames the session; an empty title restores the one made from its first prompt.
    pub async fn rename(&self, title: &str) -> Result<Seq, EngineError> {
        match self.ask(Request::Rename { title: title.to_owned() }).next().await? {
            Reply::Renamed { seq } => Ok(seq),
            _ => Err(EngineError::Closed),
        }
    }

    /// Changes model, permission mode, effort or tools. Mode and effort apply from the next step on, the rest from the next turn on.
    pub async fn configure(&self, changed: Configure) -> Result<Configured, EngineError> {
        match self.ask(Request::Configure(changed)).next().await? {
            Reply::Configured(configured) => Ok(configured),
            _ => Err(EngineError::Closed),
        }
    }

    /// Runs a command of the user's own, between turns or beside one, and returns its outcome. The model reads it with its
    /// next request, unless it is hidden from the model.
    pub async fn shell(&self, command: &str, keep_from_model: bool) -> Result<Outcome, EngineError> {
        let request = Request::Shell { command: command.to_owned(), keep_from_model, terminal: false };
        match self.ask(request).next().await? {
            Reply::Ran { outcome, .. } => Ok(*outcome),
            _ => Err(EngineError::Closed),
        }
    }

    /// Creates a session that continues from this one, `at` the end of a turn, by default its last.
    pub async fn fork(&self, at: Option<Seq>) -> Result<SessionId, EngineError> {
        match self.ask(Request::Fork { at }).next().await? {
            Reply::Forked { session } => Ok(session),
            _ => Err(EngineError::Closed),
        }
    }

    /// Subscribes from this position of the journal on (1 is the beginning).
    pub fn subscribe(&self, from_seq: Seq) -> Subscription {
        let stored = self.stored.clone();
        match &self.line {
            Line::Here(here) => {
                let listener = here.bus.subscribe(stored, from_seq);
                Subscription::of(Source::Here(Box::new(listener)), Some(here.bus.clone()))
            }
            Line::There(_) => Subscription::of(Source::There(Box::new(Listening::new(stored, from_seq))), None),
        }
    }

    /// Subscribes to the session and its subagents from this position of the journal on (1 is the beginning):
    /// [`Subscription::next_of_tree`]. Of subagents that were called before it, those that are at work are heard from now on.
    pub fn subscribe_tree(&self, from_seq: Seq) -> Subscription {
        let stored = self.stored.clone();
        match &self.line {
            Line::Here(here) => {
                let open: Arc<dyn OpenSessions> = here.handles.clone();
                let (root, branches) =
                    (here.bus.subscribe(stored.clone(), from_seq), Branches::new(stored, Some(open)));
                let listener = TreeListener::new(root, from_seq, branches);
                Subscription::of(Source::Tree(Box::new(listener)), Some(here.bus.clone()))
            }
            Line::There(_) => {
                let listening = Listening::new(stored, from_seq).with_subagents();
                Subscription::of(Source::There(Box::new(listening)), None)
            }
        }
    }

    /// Announces that this process will leave once its own prompts are answered: it then starts no turn for prompts that
    /// others have sent through the control socket. They stay queued for the next process that opens the session.
    pub fn leave_when_answered(&self) {
        if let Line::Here(here) = &self.line {
            // A closed session has been left.
            drop(here.inbox.put(Asked::LeaveWhenAnswered));
        }
    }

    /// Makes the session ready for another process that goes on with it: starts nothing more, and waits until no reply streams and every
    /// call under way is one that the other process finds again. Whoever called this then ends its process as a kill would,
    /// without dropping anything, since a command is stopped where its call is dropped; or goes on by [`Handle::unpause`].
    pub async fn ready_to_hand_over(&self) -> Result<(), EngineError> {
        let Line::Here(here) = &self.line else { return Ok(()) };
        let (done, ready) = oneshot::channel();
        here.inbox.put(Asked::HandOver(done))?;
        ready.await.map_err(|_| EngineError::Closed)
    }

    /// Closes the session in good order: stops what is running, closes the journal, updates the list of sessions. A session
    /// that another process runs continues there.
    pub async fn close(self) {
        let Line::Here(here) = &self.line else { return };
        drop(here.inbox.put(Asked::Close));
        if let Some(driver) = here.driver.lock().await.take() {
            // A driver that panicked has already been reported by its panic.
            drop(driver.await);
        }
    }
}

/// The report that is the answer.
fn ended(reply: Reply) -> Result<Report, EngineError> {
    match reply {
        Reply::Ended { report, .. } => Ok(report),
        Reply::AtRest {} => Err(EngineError::AtRest),
        _ => Err(EngineError::Closed),
    }
}

async fn state(mut asking: Asking) -> Result<bool, EngineError> {
    match asking.next().await? {
        Reply::State { paused } => Ok(paused),
        _ => Err(EngineError::Closed),
    }
}

/// A new id for a user's message.
pub fn new_message_id() -> MessageId {
    World::system().message_id()
}
