//! The door for whoever embeds Piton: open an engine, create or resume a session, prompt it, listen to it.
//!
//! A [`Handle`] is a handle on a driver task; it can be cloned and used from several places at once. The driver ends
//! when the last handle is dropped or [`Handle::close`] is called, and leaves a journal that another process resumes.

use crate::bus::{Bus, Subscription};
use crate::clock::World;
use crate::compaction::{AfterCompaction, CompactError, Compacted, How};
use crate::context::{self, Notes};
use crate::driver::{Command, Driver, Offered, Setup, Speaker};
use crate::history::History;
use crate::hooks::Hook;
use crate::index::{Index, IndexError};
use crate::prompt::{self, Prompts};
use crate::rewind::{Plan, RewindError, Rewound, Scope};
use crate::store::sqlite::{SessionDir, SqliteStore};
use crate::store::{self, Fold, Log, Opening, Store, StoreError};
use piton_core::call::ToolSpec;
use piton_core::client::Report;
use piton_core::event::{Canceller, Decision, Delivery, Direction, Event, Record, Rewind, Subject};
use piton_core::ids::{MessageId, Seq, SessionId};
use piton_core::limits::Policy;
use piton_core::message::Part;
use piton_core::turn;
use piton_models::model::Model;
use piton_models::text_tools::{CallsRead, Mode};
use piton_tools::ledger::FileLedger;
use piton_tools::runner::RunnerCommand;
use piton_tools::snapshot::{self, SnapshotError, Snapshots};
use piton_tools::tool::{ToolLimits, ToolSet};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::Instrument;

/// Sessions under one data folder.
#[derive(Debug, Clone)]
pub struct Engine {
    data_dir: PathBuf,
    store: Arc<dyn Store>,
    world: World,
}

/// How a session is to be run: by which model, with which tools, under which rules.
#[derive(Clone)]
pub struct Settings {
    /// The model that is asked.
    pub model: Arc<dyn Model>,
    /// Who is asked in its place, in order, when it gives no reply after all retries.
    pub fallbacks: Vec<Arc<dyn Model>>,
    /// The tools on offer.
    pub tools: ToolSet,
    /// Limits and permission rules; recorded with each turn.
    pub policy: Policy,
    /// Whether somebody is there to approve calls.
    pub attendance: Attendance,
    /// The system prompt.
    pub system: Arc<str>,
    /// How to start this program as a runner; without it, shell commands cannot be run.
    pub runner: Option<RunnerCommand>,
    /// The environment that tools' processes get. Keys do not belong in it.
    pub env: Arc<BTreeMap<OsString, OsString>>,
    /// Limits of the tools.
    pub tool_limits: ToolLimits,
    /// Whether anything else runs on this tokio runtime that must not wait for the disk. Where nothing does, a step is
    /// some tenths of a millisecond shorter without the way to another thread and back.
    pub shares_runtime: bool,
    /// Where the workspace is put down before it is changed, so that turns can be taken back; without it, they cannot.
    pub snapshots: Option<Arc<Snapshots>>,
    /// Who names a session when its first turn is over; without one, nobody is asked and the first prompt's words do.
    pub titles: Option<Arc<dyn Model>>,
    /// Who sums up a conversation that has become too long; without one, or where that is too small, the session's own
    /// model.
    pub compaction_model: Option<Arc<dyn Model>>,
    /// What the model is told anew after that, beside the summary.
    pub after_compaction: Option<AfterCompaction>,
    /// What watches the loop and may change what it does, in order.
    pub hooks: Vec<Arc<dyn Hook>>,
    /// Words in front of the first message in a workspace, for the model only.
    pub environment_note: Option<String>,
    /// Where instruction files are looked for, for the model; without it, none are read.
    pub instructions: Option<context::Instructions>,
}

/// Whether somebody is there to approve calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attendance {
    /// Questions stay open until [`Handle::answer`].
    Attended,
    /// Whatever would have to be asked is refused.
    Unattended,
}

/// A session that is open in this process.
#[derive(Clone)]
pub struct Handle {
    id: SessionId,
    store: Arc<dyn Store>,
    bus: Bus,
    commands: mpsc::UnboundedSender<Command>,
    driver: Arc<tokio::sync::Mutex<Option<JoinHandle<()>>>>,
    resumed: Resumed,
    opened_at: Seq,
    workspace: PathBuf,
}

/// What a resumed session was found to be in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// Nothing: a new session, or one whose last turn had ended.
    AtRest,
    /// A turn that was cut off; it goes on with the next prompt or with [`Handle::go_on`].
    MidTurn,
}

/// Why a session could not be opened or driven.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The journal could not be written while the session ran; nothing more is done in it. It can be resumed.
    #[error(transparent)]
    Broken(Arc<StoreError>),
    /// The driver is gone: the session was closed.
    #[error("the session is closed")]
    Closed,
    /// A hook refused what was said. It is not on record.
    #[error("{}: {reason}", if hook.is_empty() { "the prompt was refused".to_owned() } else { format!("the hook {hook} refused the prompt") })]
    PromptRefused {
        /// Its name.
        hook: String,
        /// What it says.
        reason: String,
    },
    /// There is no turn to go on with.
    #[error("the session is at rest: there is no turn to go on with")]
    AtRest,
}

impl Settings {
    /// What the model may call where nobody says otherwise: the built-in tools, and the one that finds what was left out.
    pub fn default_tools() -> ToolSet {
        ToolSet::builtin().with(Arc::new(History))
    }

    /// Settings with the built-in tools, the default limits, and nobody there to approve anything.
    pub fn new(model: Arc<dyn Model>) -> Self {
        let system = context::system_prompt(model.name()).into();
        Self {
            model,
            fallbacks: Vec::new(),
            tools: Self::default_tools(),
            policy: Policy::piton(),
            attendance: Attendance::Unattended,
            system,
            runner: None,
            env: Arc::default(),
            tool_limits: ToolLimits::default(),
            shares_runtime: true,
            snapshots: None,
            titles: None,
            compaction_model: None,
            after_compaction: None,
            hooks: Vec::new(),
            environment_note: None,
            instructions: None,
        }
    }

    /// The same by the rules of a preset, with the model asked the way that it wants. `None`: there is no such preset.
    pub fn by_preset(name: &str, model: Arc<dyn Model>) -> Option<Self> {
        let policy = Policy::preset(name)?;
        let model = match Mode::of_policy(&policy) {
            Some(mode) => mode.around(model, "", None, CallsRead::Perhaps),
            None => model,
        };
        Some(Self { policy, ..Self::new(model) })
    }

    /// The tools that the model is told of: what the rules forbid in any case is not offered.
    pub fn offered(&self) -> Arc<[ToolSpec]> {
        prompt::offered(self)
    }

    pub(crate) fn fallback_names(&self) -> Vec<String> {
        self.fallbacks.iter().map(|model| model.name().to_owned()).collect()
    }
}

impl Engine {
    /// An engine over a data folder (`~/.local/share/piton` for the `piton` binary). Nothing is read or written yet.
    pub fn open(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self::over(Arc::new(SqliteStore::new(&data_dir)), data_dir)
    }

    /// The same over another store; what is not kept in it, such as snapshots, lies in the data folder.
    pub fn over(store: Arc<dyn Store>, data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into(), store, world: World::system() }
    }

    /// Where its sessions are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// All durable events of a session.
    pub async fn records(&self, id: &SessionId) -> Result<Vec<Record>, StoreError> {
        self.store.read(id, 1, usize::MAX).await
    }

    /// The same, by other time and chance than the system's.
    pub fn in_world(self, world: World) -> Self {
        Self { world, ..self }
    }

    /// Its time and chance.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The folder of everything.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Where sessions lie, one folder each.
    pub fn sessions_dir(&self) -> PathBuf {
        self.data_dir.join("sessions")
    }

    /// The folder of one session.
    pub fn session_dir(&self, id: &SessionId) -> SessionDir {
        SessionDir::new(&self.sessions_dir(), id)
    }

    /// The snapshots of a workspace, which all sessions that work in it share.
    pub fn snapshots(&self, workspace: &Path, options: snapshot::Options) -> Result<Snapshots, SnapshotError> {
        Snapshots::open(&self.snapshots_dir(workspace), workspace, options)
    }

    /// Where they lie.
    pub(crate) fn snapshots_dir(&self, workspace: &Path) -> PathBuf {
        let name = blake3::hash(workspace.as_os_str().as_encoded_bytes()).to_hex();
        self.data_dir.join("snapshots").join(&name[..16])
    }

    /// The list of sessions.
    pub fn index(&self) -> Result<Index, IndexError> {
        Index::open(&self.data_dir)
    }

    /// Starts a new session in a workspace. Must be called within a tokio runtime.
    pub async fn create(&self, workspace: &Path, settings: Settings) -> Result<Handle, EngineError> {
        let id = self.world.session_id();
        let log = self.store.create(&id, self.opening(settings.shares_runtime)).await?;
        let started = Event::SessionStarted {
            session: id.clone(),
            workspace: workspace.to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parent: None,
        };
        let opened = self.opening(settings.shares_runtime).event(log.epoch());
        let stage = |(seq, event)| Record { seq, at_ms: self.world.now_ms(), event };
        let staged: Vec<Record> = (1..).zip([started, opened]).map(stage).collect();
        let session = turn::State::fold(&staged);
        let mut prompts = Prompts::default();
        staged.iter().for_each(|record| prompts.hear(record));
        let memory = Memory { prompts, ..Memory::default() };
        Ok(self.drive(log, session, staged, memory, settings))
    }

    /// Opens a session again. What was under way goes on with the next prompt, or with [`Handle::go_on`].
    pub async fn resume(&self, id: &SessionId, settings: Settings) -> Result<Handle, EngineError> {
        self.resume_in(id, None, settings).await
    }

    /// The same, in another workspace from here on where one is given: the one before was moved or is gone.
    pub async fn resume_in(
        &self,
        id: &SessionId,
        workspace: Option<&Path>,
        settings: Settings,
    ) -> Result<Handle, EngineError> {
        let mut memory = Memory::default();
        let opening = self.opening(settings.shares_runtime);
        let (log, mut session) = store::resume(&*self.store, id, opening, &mut memory).await?;
        let moved = workspace.map(|workspace| {
            let workspace = workspace.to_string_lossy().into_owned();
            let event = Event::WorkspaceMoved { workspace };
            Record { seq: log.head() + 1, at_ms: self.world.now_ms(), event }
        });
        moved.iter().for_each(|record| session.apply(record));
        Ok(self.drive(log, session, moved.into_iter().collect(), memory, settings))
    }

    /// Starts the driver of an open session.
    fn drive(
        &self,
        log: Box<dyn Log>,
        session: turn::State,
        staged: Vec<Record>,
        memory: Memory,
        settings: Settings,
    ) -> Handle {
        let bus = Bus::new(log.head());
        let (commands, inbox) = mpsc::unbounded_channel();
        let handle = Handle {
            id: session.id().clone(),
            store: Arc::clone(&self.store),
            bus: bus.clone(),
            commands: commands.clone(),
            driver: Arc::default(),
            resumed: if session.is_at_rest() { Resumed::AtRest } else { Resumed::MidTurn },
            opened_at: log.head().max(1),
            workspace: PathBuf::from(session.workspace()),
        };
        let setup = Setup {
            world: self.world.clone(),
            store: Arc::clone(&self.store),
            log,
            session,
            staged: staged.into_iter().map(Arc::new).collect(),
            prompts: memory.prompts,
            notes: memory.notes,
            offered: memory.offered,
            settings,
            ledger: Arc::new(memory.ledger),
            bus,
            inbox,
            commands: commands.downgrade(),
        };
        let span = tracing::info_span!(target: "piton", "session", id = handle.id.as_str());
        let driver = tokio::spawn(Driver::new(setup).run().instrument(span));
        Handle { driver: Arc::new(tokio::sync::Mutex::new(Some(driver))), ..handle }
    }

    /// Who opens a journal here.
    pub(crate) fn opening(&self, shares_runtime: bool) -> Opening {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned());
        Opening { pid: std::process::id(), boot_id, now_ms: self.world.now_ms(), shares_runtime }
    }
}

impl Handle {
    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Where the session is kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// All durable events of the session.
    pub async fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.store.read(&self.id, 1, usize::MAX).await
    }

    /// The folder it works in.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The position of the first event since the session was opened here: 1 for a new one.
    pub fn opened_at(&self) -> Seq {
        self.opened_at
    }

    /// What a resumed session was found to be in the middle of.
    pub fn resumed(&self) -> Resumed {
        self.resumed
    }

    /// Says something and waits for the end of the turn that answers it. During a turn it steers that turn.
    pub async fn prompt(&self, text: &str) -> Result<Report, EngineError> {
        self.send(vec![Part::text(text)], Delivery::Steer).await
    }

    /// Says something and waits for the end of the turn that answers it.
    pub async fn send(&self, parts: Vec<Part>, delivery: Delivery) -> Result<Report, EngineError> {
        self.say(new_message_id(), parts, delivery).await
    }

    /// The same under an id of the caller's: who repeats one is not heard twice, and waits for the same turn.
    pub async fn say(&self, message: MessageId, parts: Vec<Part>, delivery: Delivery) -> Result<Report, EngineError> {
        let (report, waiting) = oneshot::channel();
        self.command(Command::Speak { message, parts, delivery, from: Speaker::Host, report })?;
        waiting.await.map_err(|_| EngineError::Closed)?
    }

    /// Goes on with a turn that was cut off, and waits for its end.
    pub async fn go_on(&self) -> Result<Report, EngineError> {
        let (report, waiting) = oneshot::channel();
        self.command(Command::GoOn { report })?;
        waiting.await.map_err(|_| EngineError::Closed)?
    }

    /// Stops the turn under way: the model's stream is closed, running tools are ended, the rest is answered.
    pub fn cancel(&self) {
        // A closed session has nothing left to cancel.
        drop(self.commands.send(Command::Cancel(Canceller::User)));
    }

    /// Finishes the call that runs, and starts nothing new before [`Handle::unpause`]; a cancel, or the end of the
    /// turn's time, ends that too. It is not on record: a session that is resumed is not paused.
    pub fn pause(&self) {
        // A closed session starts nothing.
        drop(self.commands.send(Command::Pause(true)));
    }

    /// Goes on where [`Handle::pause`] held it.
    pub fn unpause(&self) {
        drop(self.commands.send(Command::Pause(false)));
    }

    /// What taking back the last `turns` turns would do; or with [`Direction::Redo`], bringing back what was taken back
    /// last. Changes nothing.
    pub async fn plan_rewind(&self, direction: Direction, turns: u32, scope: Scope) -> Result<Plan, RewindError> {
        let (reply, waiting) = oneshot::channel();
        let command = Command::PlanRewind { direction, turns, scope, reply };
        self.commands.send(command).map_err(|_| RewindError::Closed)?;
        waiting.await.map_err(|_| RewindError::Closed)?
    }

    /// Does what was planned. What somebody changed since stays as it is, unless `overwrite` is set in it.
    pub async fn rewind(&self, rewind: Rewind) -> Result<Rewound, RewindError> {
        let (reply, waiting) = oneshot::channel();
        self.commands.send(Command::Rewind { rewind, reply }).map_err(|_| RewindError::Closed)?;
        waiting.await.map_err(|_| RewindError::Closed)?
    }

    /// Makes room in the context between turns: a summary takes the place of all but the newest steps.
    pub async fn compact(&self, how: How) -> Result<Compacted, CompactError> {
        let (reply, waiting) = oneshot::channel();
        self.commands.send(Command::Compact { how, reply }).map_err(|_| CompactError::Closed)?;
        waiting.await.map_err(|_| CompactError::Closed)?
    }

    /// Answers an open question. An answer to a question that is no longer open changes nothing.
    pub fn answer(&self, subject: Subject, decision: Decision) -> Result<(), EngineError> {
        self.command(Command::Answer(subject, decision))
    }

    /// Listens, from this position of the journal on (1 is the beginning).
    pub fn subscribe(&self, from_seq: Seq) -> Subscription {
        self.bus.subscribe(Arc::clone(&self.store), self.id.clone(), from_seq)
    }

    /// Announces that this process leaves as soon as its own prompts are answered: no turn is begun then for what others
    /// have said through the control socket. It stays queued for whoever opens the session next.
    pub fn leave_when_answered(&self) {
        // A closed session has been left.
        drop(self.commands.send(Command::LeaveWhenAnswered));
    }

    /// Leaves the session in good order: stops what runs, closes the journal, updates the list of sessions.
    pub async fn close(self) {
        drop(self.commands.send(Command::Close));
        if let Some(driver) = self.driver.lock().await.take() {
            // A driver that panicked has already been reported by its panic.
            drop(driver.await);
        }
    }

    fn command(&self, command: Command) -> Result<(), EngineError> {
        self.commands.send(command).map_err(|_| EngineError::Closed)
    }
}

/// A new id for something that a user says.
pub fn new_message_id() -> MessageId {
    World::system().message_id()
}

/// What is kept of a session's events beside its state.
#[derive(Default)]
struct Memory {
    prompts: Prompts,
    notes: Notes,
    offered: Offered,
    ledger: FileLedger,
}

impl Fold for Memory {
    fn begin(&mut self) {
        *self = Self::default();
    }

    /// What was asked was asked on every branch: providers keep it in their caches.
    fn hear(&mut self, record: &Record, counts: bool) {
        self.prompts.hear(record);
        self.offered.hear(&record.event);
        if counts {
            self.notes.hear(record);
            context::remember_files(&record.event, &self.ledger);
        }
    }
}
