//! The entry point for embedders: open an engine, create or resume a session, and get a [`Handle`] on it.

use crate::bus::Bus;
use crate::children::Children;
use crate::clock::World;
use crate::context::{self, Notes};
use crate::control::{RemoteSession, Served, Server};
use crate::delegate::{Opens, Order};
use crate::driver::{Driver, Folded, Setup};
use crate::family::Kin;
use crate::firewall;
use crate::fork::{self, ForkError};
use crate::handle::{Handles, Here, Line};
use crate::in_process::{EnginePlugin, OrderError, Registered, Running};
use crate::inbox::Inbox;
use crate::prompt::Prompts;
use crate::store::sqlite::index::{Index, IndexError};
use crate::store::sqlite::{SessionDir, SqliteStore, has_run_nothing, is_held};
use crate::store::{self, Fold, Log, Opening, Store, StoreError, Stored};
use crate::worktree::Worktree;
use async_trait::async_trait;
use piton_core::client::{Closed, Request};
use piton_core::event::{Event, Origin, Record};
use piton_core::ids::{Seq, SessionId};
use piton_core::secrets::Firewall;
use piton_core::turn;
use piton_tools::ledger::FileLedger;
use piton_tools::private;
use piton_tools::snapshot::{self, SnapshotError, Snapshots};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::Instrument;

pub use crate::error::{ConfigureError, EngineError, UnqueueError};
pub use crate::handle::{Asking, Handle, Resumed, Said, Subscription, new_message_id};
pub use crate::settings::{
    Attendance, Displaced, ModelSource, OpenedModels, Patches, PlanFolder, Sampling, SandboxSettings, SecretSettings,
    Settings,
};

/// Sessions under one data folder.
#[derive(Debug, Clone)]
pub struct Engine {
    data_dir: PathBuf,
    store: Arc<dyn Store>,
    world: World,
    /// The sessions that are open in this process, for [`Engine::attach`].
    handles: Arc<Handles>,
    plugins: Registered,
}

impl Engine {
    /// An engine over a data folder (`~/.local/share/piton` for the `piton` binary). Nothing is read or written yet.
    pub fn open(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self::over(Arc::new(SqliteStore::new(&data_dir)), data_dir)
    }

    /// The same over another store; what a store does not hold, such as snapshots, is in the data folder.
    pub fn over(store: Arc<dyn Store>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            store,
            world: World::system(),
            handles: Arc::default(),
            plugins: Registered::default(),
        }
    }

    /// The store that holds its sessions.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// All durable events of a session.
    pub async fn records(&self, id: &SessionId) -> Result<Vec<Record>, StoreError> {
        self.store.read(id, 1, usize::MAX).await
    }

    /// The same, with a clock and randomness other than the system's.
    pub fn in_world(self, world: World) -> Self {
        Self { world, ..self }
    }

    /// Adds a plugin. [`Engine::start`] starts it.
    #[must_use]
    pub fn plugin(mut self, plugin: impl EnginePlugin + 'static) -> Self {
        self.plugins.add(Arc::new(plugin));
        self
    }

    /// Starts the plugins, each after those that it depends on. [`Running::add_to`] adds their tools and hooks to the settings of
    /// a session.
    pub async fn start(&self) -> Result<Running, OrderError> {
        self.plugins.start().await
    }

    /// Its clock and randomness.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The data folder.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The folder of the sessions, which has one folder for each.
    pub fn sessions_dir(&self) -> PathBuf {
        self.data_dir.join("sessions")
    }

    /// The folder of removed sessions.
    pub(crate) fn trash_dir(&self) -> PathBuf {
        self.data_dir.join("trash")
    }

    /// The folder of one session.
    pub fn session_dir(&self, id: &SessionId) -> SessionDir {
        SessionDir::new(&self.sessions_dir(), id)
    }

    /// The snapshots of a workspace, which all sessions that work in it share.
    pub fn snapshots(&self, workspace: &Path, options: snapshot::Options) -> Result<Snapshots, SnapshotError> {
        Snapshots::open(&self.snapshots_dir(workspace), workspace, options)
    }

    /// The folder of these snapshots.
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
        self.create_as(self.world.session_id(), None, workspace, settings, Kin::default()).await
    }

    /// Starts the session with this id, as a subagent's if a parent is given.
    pub(crate) async fn create_as(
        &self,
        id: SessionId,
        parent: Option<Origin>,
        workspace: &Path,
        settings: Settings,
        kin: Kin,
    ) -> Result<Handle, EngineError> {
        let log = self.store.create(&id, self.opening(settings.shares_runtime)).await?;
        let started = Event::SessionStarted {
            session: id.clone(),
            workspace: workspace.to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            parent,
        };
        let opened = self.opening(settings.shares_runtime).event(log.epoch());
        let stage = |(seq, event)| Record { seq, at_ms: self.world.now_ms(), event };
        let staged: Vec<Record> = (1..).zip([started, opened]).map(stage).collect();
        let session = turn::State::fold(&staged);
        let mut prompts = Prompts::default();
        staged.iter().for_each(|record| prompts.hear(record));
        let memory = Memory { prompts, ..Memory::default() };
        Ok(self.drive(&id, log, (session, memory), staged, settings, kin))
    }

    /// Resumes a session. An interrupted turn continues with the next prompt, or with [`Handle::go_on`].
    pub async fn resume(&self, id: &SessionId, settings: Settings) -> Result<Handle, EngineError> {
        self.resume_as(id, None, settings, Kin::default()).await
    }

    /// The same, from here on in another workspace if one is given, because the previous one was moved or is gone.
    pub async fn resume_in(
        &self,
        id: &SessionId,
        workspace: Option<&Path>,
        settings: Settings,
    ) -> Result<Handle, EngineError> {
        self.resume_as(id, workspace, settings, Kin::default()).await
    }

    async fn resume_as(
        &self,
        id: &SessionId,
        workspace: Option<&Path>,
        settings: Settings,
        kin: Kin,
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
        Ok(self.drive(id, log, (session, memory), moved.into_iter().collect(), settings, kin))
    }

    /// A handle on a session, wherever it runs: its driver in this process, a new driver if no process runs it, or a
    /// connection to the process that does; in that case the settings are not used.
    pub async fn attach(&self, id: &SessionId, settings: Settings) -> Result<Handle, EngineError> {
        self.attach_as(id, settings, Kin::default()).await
    }

    /// The same, at this position in a family.
    pub(crate) async fn attach_as(&self, id: &SessionId, settings: Settings, kin: Kin) -> Result<Handle, EngineError> {
        // Two clients that come at once must not both find it closed.
        let _turn = self.handles.attaching.lock().await;
        loop {
            if let Some(handle) = self.handles.get(id) {
                return Ok(handle);
            }
            match self.resume_as(id, None, settings.clone(), kin.clone()).await {
                Err(EngineError::Journal(StoreError::Busy { .. })) => {}
                opened => return opened,
            }
            // Where the other process has left meanwhile, the session is ours.
            if let Some(handle) = self.join(id).await? {
                return Ok(handle);
            }
        }
    }

    /// A handle on a session that another process runs; `None` if none does.
    pub async fn join(&self, id: &SessionId) -> Result<Option<Handle>, EngineError> {
        let stored = self.stored(id);
        match RemoteSession::open(&stored).await? {
            Some(remote) => Handle::there(stored, remote).await,
            None => Ok(None),
        }
    }

    /// Creates a session that continues from this one, `at` the end of a turn, by default its last. The original is only
    /// read; it may be running.
    pub async fn fork(&self, id: &SessionId, at: Option<Seq>) -> Result<SessionId, ForkError> {
        fork::fork(&self.stored(id), at, &self.world).await
    }

    /// Takes secrets out of words that are kept elsewhere than in a session, as one with these settings in this workspace would.
    /// Without settings it knows what looks like a secret.
    pub fn firewall(&self, of: Option<(&Settings, &Path)>) -> Firewall {
        let Some((settings, workspace)) = of else {
            return firewall::of_machine(&self.data_dir, &SecretSettings::default());
        };
        let firewall = firewall::of_machine(&self.data_dir, &settings.secrets);
        firewall::know_settings(&firewall, settings);
        firewall::EnvFiles::new(firewall.clone()).read_top(workspace);
        firewall
    }

    fn stored(&self, id: &SessionId) -> Stored {
        Stored::new(Arc::clone(&self.store), id.clone())
    }

    /// Starts the driver of an open session.
    fn drive(
        &self,
        id: &SessionId,
        log: Box<dyn Log>,
        (session, memory): (turn::State, Memory),
        staged: Vec<Record>,
        settings: Settings,
        kin: Kin,
    ) -> Handle {
        let firewall = firewall::firewall(&self.data_dir, &settings, &session);
        let (stored, bus) = (self.stored(id), Bus::new(&session, log.head(), firewall.clone()));
        let (inbox, requests) = Inbox::new();
        let grants = session.grants().to_vec();
        let resumed = if session.is_at_rest() { Resumed::AtRest } else { Resumed::MidTurn };
        let (opened_at, workspace) = (log.head().max(1), PathBuf::from(session.workspace()));
        let served =
            Served { stored: stored.clone(), bus: bus.clone(), inbox: inbox.weak(), open: self.handles.clone() };
        let Memory { prompts, notes, ledger } = memory;
        let setup = Setup {
            world: self.world.clone(),
            stored: stored.clone(),
            log,
            folded: Folded { session, prompts, notes, ledger: Arc::new(ledger) },
            staged: staged.into_iter().map(Arc::new).collect(),
            settings,
            firewall,
            bus: bus.clone(),
            requests,
            inbox: inbox.weak(),
            nursery: Arc::new(Children::of(Arc::new(self.clone()))),
            kin,
        };
        let span = tracing::info_span!(target: "piton", "session", id = id.as_str());
        let driver = tokio::spawn(run(Driver::new(setup), served).instrument(span));
        let line = Line::Here(Arc::new(Here::new(bus, inbox, driver, Arc::clone(&self.handles))));
        let handle = Handle { stored, resumed, grants, opened_at, workspace, line };
        self.handles.remember(&handle);
        handle
    }

    /// Moves what a power cut has left of a session that has run nothing to the trash: the damaged files may contain a prompt.
    fn put_aside(&self, id: &SessionId) -> bool {
        /// More power cuts than happen in practice.
        const MOST: u32 = 100;
        let left = self.session_dir(id);
        if is_held(&left) || !has_run_nothing(&left) {
            return false;
        }
        let trash = self.trash_dir();
        let names = (0..MOST).map(|cut| if cut == 0 { id.clone() } else { SessionId(format!("{id}_{cut}")) });
        let aside = names.map(|name| SessionDir::new(&trash, &name)).find(|aside| !aside.root().exists());
        let made = private::make_folder(&trash).is_ok();
        aside.is_some_and(|aside| made && fs::rename(left.root(), aside.root()).is_ok())
    }

    /// How this process opens a journal.
    pub(crate) fn opening(&self, shares_runtime: bool) -> Opening {
        Opening::in_world(&self.world, shares_runtime)
    }
}

#[async_trait]
impl Opens for Engine {
    async fn open(
        &self,
        order: &Order,
        workspace: &Path,
        settings: Settings,
        may_begin: bool,
    ) -> Result<Handle, EngineError> {
        let Order { child, parent, kin, goes_on, .. } = order;
        if *goes_on {
            let of = self.store.summary(child).await?.parent;
            if !of.is_some_and(|of| of.session == parent.session && of.call.is_some()) {
                return Err(EngineError::NotAtWork(child.clone()));
            }
        }
        let found = self.attach_as(child, settings.clone(), kin.clone()).await;
        let is_nothing =
            matches!(&found, Err(EngineError::Journal(StoreError::NotFound { .. } | StoreError::Damaged { .. })));
        if !is_nothing || !may_begin || *goes_on {
            return found;
        }
        let create = || self.create_as(child.clone(), Some(parent.clone()), workspace, settings.clone(), kin.clone());
        // A process that was killed before its first commit has left a folder in which nothing is recorded, and the id is free; a
        // power cut leaves one that cannot be read.
        let handle = match create().await {
            Err(EngineError::Journal(StoreError::Taken { .. })) if self.put_aside(child) => create().await?,
            Err(EngineError::Journal(StoreError::Taken { .. })) => return found,
            created => created?,
        };
        // For people who look at it later; it need not wait for that.
        drop(handle.ask(Request::Rename { title: order.title.clone() }));
        Ok(handle)
    }

    fn worktree(&self, order: &Order) -> Worktree {
        Worktree::new(&self.data_dir, &order.child, &order.workspace, &order.caller.settings)
    }

    async fn records(&self, child: &SessionId) -> Vec<Record> {
        self.store.read(child, 1, usize::MAX).await.unwrap_or_default()
    }

    async fn make_durable(&self, order: &Order) -> Result<(), StoreError> {
        let opening = self.opening(order.caller.settings.shares_runtime);
        match self.store.open(&order.child, opening, &mut |_| {}).await {
            Ok(log) => {
                let event = Event::WriterClosed {};
                let closed = Record { seq: log.head() + 1, at_ms: self.world.now_ms(), event };
                log.close(&[Arc::new(closed)]).await
            }
            // Its writer made them durable when it opened the session.
            Err(StoreError::Busy { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Other folds of a session's events.
#[derive(Default)]
struct Memory {
    prompts: Prompts,
    notes: Notes,
    ledger: FileLedger,
}

impl Fold for Memory {
    fn begin(&mut self) {
        *self = Self::default();
    }

    /// Requests count on every branch, since providers keep them in their caches.
    fn hear(&mut self, record: &Record, counts: bool) {
        self.prompts.hear(record);
        if counts {
            self.notes.hear(record);
            context::remember_files(&record.event, &self.ledger);
        }
    }
}

/// Runs a session and accepts other processes from the first request on: a session that ends sooner need not be
/// reachable. The socket closes before the journal's lock is released, and followers receive everything.
async fn run(mut driver: Driver, served: Served) {
    let _last_word = LastWord(served.bus.clone());
    let Some(first) = driver.first_request().await else { return Box::pin(driver.leave()).await };
    let mut server = Server::open(served);
    driver.run(first).await;
    server.shut().await;
    Box::pin(driver.leave()).await;
}

/// Tells subscribers that nothing more comes, even if the driver panicked.
struct LastWord(Bus);

impl Drop for LastWord {
    fn drop(&mut self) {
        self.0.close(Closed::Lost);
    }
}
