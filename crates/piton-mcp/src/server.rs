//! One server through its life.
//!
//! ```text
//!   known ──▶ starting ──▶ ready ──▶ (its process ends, the connection is lost) ──┐
//!     │           │          ▲                                                    │
//!     │           ├──▶ needs login                                                ▼
//!     │           └──────────┼────────────────────────────────────────────▶ failed, tried again later
//!     │                      └──────────────────────────────────────────────────  │
//!     └─ what it offered the last time stands in its manifest                     └─ five times in a row, then only when it is used
//! ```
//!
//! Starting is one at a time, whoever asks for it. Once ready, a task of its own waits for the end of the connection and for the
//! server's word that its lists have changed.

use crate::catalogue::{Catalogue, Offered, OfferedPrompt, OfferedResource};
use crate::connect::{self, Connection, Connector};
use crate::entry::Entry;
use crate::error::{ConnectError, missing_scope};
use crate::host::{Calls, Host};
use crate::keep::{Keep, Manifest, Pins, Seen, Stamp};
use crate::names;
use crate::process::Process;
use crate::text;
use crate::words::Words;
use piton_core::secrets::Depth;
use piton_tools::servers::{Pin, Server, ServerPrompt, ServerResource, ServerState, ServerTool};
use rmcp::model::{ServerPeerInfo, SubscriptionFilter};
use rmcp::service::{Peer, RoleClient, RunningService};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often a server is started in a row before it is left alone.
const MOST_FAILURES: u32 = 5;
/// How long after the first failure it is tried again; doubled each time.
const BACK_OFF: Duration = Duration::from_secs(1);
/// The longest of these.
const MOST_BACK_OFF: Duration = Duration::from_secs(60);
/// One that is left alone is tried again when it is used, so long after its last failure.
const LEFT_ALONE: Duration = Duration::from_secs(60);
/// A server that was ready for so long has not failed in a row.
const STEADY: Duration = Duration::from_secs(60);
/// How long changed lists are let settle before they are read.
const SETTLE: Duration = Duration::from_millis(100);
/// How long the service behind a connection has to close it.
const CLOSING: Duration = Duration::from_secs(2);

/// A future that does not say what is in it.
type Waiting<'m, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'm>>;

/// What all servers of a client share.
pub(crate) struct Shared {
    pub(crate) keep: Keep,
    /// Grows with each change.
    pub(crate) changes: watch::Sender<u64>,
    /// How many start at a time.
    pub(crate) starts: Semaphore,
    /// Cancelled when the client is over.
    pub(crate) over: CancellationToken,
}

/// One server.
pub(crate) struct Managed {
    pub(crate) entry: Arc<Entry>,
    /// What its manifest and pins go by.
    key: String,
    connector: Connector,
    shared: Arc<Shared>,
    starting: tokio::sync::Mutex<()>,
    now: Mutex<Now>,
    pub(crate) calls: Calls,
}

/// What is so of it now.
struct Now {
    state: ServerState,
    retry_at: Option<Instant>,
    /// When it failed last.
    failed_at: Option<Instant>,
    failures: u32,
    manifest: Arc<Manifest>,
    pins: Arc<Pins>,
    /// The pins on the disk when they were last read.
    stamp: Option<Stamp>,
    /// What is shown of manifest and pins, until one of them changes.
    offer: Option<Offer>,
    link: Option<Link>,
}

/// What a server offers, as it is shown.
#[derive(Clone)]
struct Offer {
    tools: Arc<[ServerTool]>,
    prompts: Arc<[ServerPrompt]>,
    resources: Arc<[ServerResource]>,
    problems: Arc<[String]>,
}

impl Offer {
    fn of(server: &str, catalogue: &Catalogue, pins: &Pins) -> Self {
        let tool = |offered: &Offered| {
            let Seen { description, schema, pin } = pins.seen(offered);
            let (own_name, title) = (offered.own_name.clone(), offered.title.clone());
            ServerTool { name: names::of_tool(server, &own_name), own_name, title, description, schema, pin }
        };
        Self {
            tools: catalogue.tools.iter().map(tool).collect(),
            prompts: catalogue.prompts.iter().map(OfferedPrompt::shown).collect(),
            resources: catalogue.resources.iter().map(OfferedResource::shown).collect(),
            problems: catalogue.problems.iter().cloned().collect(),
        }
    }
}

/// A connection that answers.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) host: Host,
    /// Tells it from the others of this process.
    number: u64,
    /// Cancelled to close it.
    stop: CancellationToken,
    /// Cancelled when it is closed, process and all.
    closed: CancellationToken,
}

impl Managed {
    pub(crate) fn new(entry: Entry, connector: Connector, shared: Arc<Shared>) -> Self {
        let key = blake3::hash(format!("{}\0{}", entry.name, entry.hash).as_bytes()).to_hex().to_string();
        let manifest = Arc::new(shared.keep.manifest(&key));
        let stamp = shared.keep.stamp_of_pins(&key);
        let pins = shared.keep.pins(&key, &Pins::default()).map(|mut pins| {
            // It is what the user saw last.
            pins.learn(&manifest.catalogue.tools);
            pins
        });
        // What cannot be read is complained about when the server is there.
        let pins = Arc::new(pins.unwrap_or_default());
        let (state, retry_at) = (ServerState::Known, None);
        let now = Now { state, retry_at, failed_at: None, failures: 0, manifest, pins, stamp, offer: None, link: None };
        let entry = Arc::new(entry);
        Self {
            entry,
            key,
            connector,
            shared,
            starting: tokio::sync::Mutex::default(),
            now: Mutex::new(now),
            calls: Calls::default(),
        }
    }

    /// Says what went wrong with it.
    pub(crate) fn words(&self) -> Words<'_> {
        self.connector.words()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// It as it is known now.
    pub(crate) fn shown(&self) -> Server {
        let Offer { tools, prompts, resources, problems } = self.offer();
        Server {
            name: self.entry.name.clone(),
            state: self.state(),
            instructions: self.manifest().catalogue.instructions.clone(),
            tools,
            prompts,
            resources,
            always_load: self.entry.always_load,
            problems,
        }
    }

    fn state(&self) -> ServerState {
        let now = self.now();
        let mut state = now.state.clone();
        if let (ServerState::Failed { retry_in_s, .. }, Some(at)) = (&mut state, now.retry_at) {
            *retry_in_s = Some(at.saturating_duration_since(Instant::now()).as_secs().max(1));
        }
        state
    }

    fn offer(&self) -> Offer {
        let is_changed = |offer: &Offer| offer.tools.iter().any(|tool| tool.pin != Pin::Same);
        if self.now().offer.as_ref().is_some_and(is_changed) {
            self.reread_pins();
        }
        let (manifest, pins) = {
            let now = self.now();
            if let Some(offer) = &now.offer {
                return offer.clone();
            }
            (Arc::clone(&now.manifest), Arc::clone(&now.pins))
        };
        let offer = Offer::of(&self.entry.name, &manifest.catalogue, &pins);
        let mut now = self.now();
        if Arc::ptr_eq(&now.manifest, &manifest) && Arc::ptr_eq(&now.pins, &pins) {
            now.offer = Some(offer.clone());
        }
        offer
    }

    /// Takes in what the user has accepted in another process, where that is new.
    fn reread_pins(&self) {
        let stamp = self.shared.keep.stamp_of_pins(&self.key);
        let known = {
            let mut now = self.now();
            if now.stamp == stamp {
                return;
            }
            now.stamp = stamp;
            Arc::clone(&now.pins)
        };
        if let Ok(pins) = self.shared.keep.pins(&self.key, &known)
            && pins != *known
        {
            self.set_pins(pins);
            self.changed();
        }
    }

    fn set_pins(&self, pins: Pins) {
        let mut now = self.now();
        (now.pins, now.offer) = (Arc::new(pins), None);
    }

    pub(crate) fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(&self.now().manifest)
    }

    /// Whether a tool is what the user knows it as; nothing where there is no such tool.
    pub(crate) fn is_accepted(&self, own_name: &str) -> Option<bool> {
        let look = || {
            let now = self.now();
            now.manifest.catalogue.tool(own_name).map(|tool| now.pins.is_same(tool))
        };
        if look() == Some(false) {
            self.reread_pins();
        }
        look()
    }

    /// Accepts every tool as it is now. Answers how many had changed.
    pub(crate) fn accept(&self) -> Result<usize, String> {
        let (manifest, known) = {
            let now = self.now();
            (Arc::clone(&now.manifest), Arc::clone(&now.pins))
        };
        let accepted = self.shared.keep.accept(&self.key, &known, &manifest.catalogue.tools);
        let (pins, accepted) = accepted.map_err(|error| format!("What you accept could not be kept: {error}."))?;
        self.set_pins(pins);
        self.changed();
        Ok(accepted)
    }

    /// The connection, if it answers.
    pub(crate) fn link(&self) -> Option<Link> {
        self.now().link.clone().filter(|link| !link.peer.is_transport_closed() && !link.stop.is_cancelled())
    }

    /// Starts it if need be, and waits until it is ready.
    ///
    /// A failure has it start anew later, which is why the future is of a named type.
    pub(crate) fn ready<'m>(self: &'m Arc<Self>, patience: Patience) -> Waiting<'m, Result<Link, String>> {
        Box::pin(async move {
            if let Some(link) = self.link() {
                return Ok(link);
            }
            // Whoever waits may be stopped; the start goes on.
            let made = tokio::spawn(Arc::clone(self).made_ready(patience)).await;
            made.unwrap_or_else(|_| Err(format!("The MCP server {} could not be started.", self.entry.name)))
        })
    }

    async fn made_ready(self: Arc<Self>, patience: Patience) -> Result<Link, String> {
        let _one = self.starting.lock().await;
        if let Some(link) = self.link() {
            return Ok(link);
        }
        if patience == Patience::Waits
            && !self.has_been_logged_in()
            && !self.was_left_alone()
            && let Some(why) = self.refusal()
        {
            return Err(why);
        }
        // A connection that was lost ends by itself; what becomes of it says nothing of the next one.
        self.now().link.take_if(|link| link.peer.is_transport_closed());
        let over = self.shared.over.clone();
        let started = tokio::select! {
            biased;
            () = over.cancelled() => Err(ConnectError::Hopeless("it is being closed".to_owned())),
            started = self.start() => started,
        };
        match started {
            Ok(link) => Ok(link),
            Err(error) => {
                self.failed(error);
                Err(self
                    .refusal()
                    .unwrap_or_else(|| format!("The MCP server {} could not be started.", self.entry.name)))
            }
        }
    }

    /// Why it is not tried now, for the model and for people.
    fn refusal(&self) -> Option<String> {
        let name = &self.entry.name;
        match self.state() {
            ServerState::Failed { why, retry_in_s: Some(seconds) } => {
                Some(format!("The MCP server {name} is not there: {why}. Piton tries again in {seconds} s."))
            }
            ServerState::Failed { why, retry_in_s: None } => {
                let seconds = LEFT_ALONE.as_secs();
                Some(format!(
                    "The MCP server {name} is not there: {why}. It is tried again when it is used after {seconds} s; \
                     `piton mcp test {name}` in a terminal shows at once whether it works."
                ))
            }
            ServerState::NeedsLogin => Some(needs_login(name)),
            ServerState::Known | ServerState::Starting | ServerState::Ready => None,
        }
    }

    /// Whether nobody has tried it for a while, and nobody will by himself.
    fn was_left_alone(&self) -> bool {
        let now = self.now();
        matches!(now.state, ServerState::Failed { .. })
            && now.retry_at.is_none()
            && now.failed_at.is_some_and(|at| at.elapsed() >= LEFT_ALONE)
    }

    /// Whether a person has logged in since it wanted that.
    fn has_been_logged_in(&self) -> bool {
        self.now().state == ServerState::NeedsLogin && crate::login::is_logged_in(&self.entry, &self.connector.around)
    }

    async fn start(self: &Arc<Self>) -> Result<Link, ConnectError> {
        let _turn = self.shared.starts.acquire().await;
        self.settle(ServerState::Starting, None);
        let limit = self.entry.start_timeout;
        let (lists, era) = (Arc::new(Notify::new()), self.manifest().era);
        let host = Host::new(&self.entry.name, &self.connector.around, self.calls.clone(), Arc::clone(&lists));
        let connected = tokio::time::timeout(limit, async {
            let connection = self.connector.connect(&host, era).await?;
            let listed = connect::lists(connection.service.peer(), &connection.info, &self.words()).await;
            match listed {
                Ok(listed) => Ok((connection, listed)),
                Err(error) => Err(self.cut_short(connection, &error).await),
            }
        });
        let (connection, listed) = connected.await.map_err(|_| {
            let file = self.entry.file.display();
            ConnectError::Failed(format!(
                "it did not answer within {} s; `startTimeout` in {file} gives it longer",
                limit.as_secs_f32().ceil()
            ))
        })??;
        self.learn(&connection, Catalogue::read(listed, &self.entry));
        let Connection { service, process, info, .. } = connection;
        let (stop, closed) = (self.shared.over.child_token(), CancellationToken::new());
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let link = Link { peer: service.peer().clone(), host, number, stop, closed };
        {
            let mut now = self.now();
            (now.state, now.retry_at, now.link) = (ServerState::Ready, None, Some(link.clone()));
        }
        self.changed();
        tokio::spawn(watch_over(Arc::clone(self), service, process, link.clone()));
        tokio::spawn(Arc::clone(self).follow(lists, link.clone(), info));
        Ok(link)
    }

    async fn cut_short(&self, connection: Connection, error: &rmcp::service::ServiceError) -> ConnectError {
        let Connection { service, process, .. } = connection;
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            return ConnectError::NeedsLogin(missing_scope(error.auth_challenge()));
        }
        let words = format!("its tools are not known: {}", self.words().asking(error));
        let _ = tokio::time::timeout(CLOSING, service.cancel()).await;
        match process {
            Some(process) => ConnectError::Failed(format!("{words}; {}", process.end().await.words())),
            None => ConnectError::Failed(words),
        }
    }

    /// Takes in what it offers, and keeps it for the next session.
    fn learn(&self, connection: &Connection, catalogue: Catalogue) {
        let info = &connection.info;
        let called = info.server_info.as_ref().map(|us| format!("{} {}", us.name, us.version)).unwrap_or_default();
        self.keep(Manifest {
            era: Some(connection.era),
            version: text::line(info.protocol_version.as_str(), 40),
            called: text::line(&called, 120),
            catalogue,
        });
    }

    fn keep(&self, manifest: Manifest) {
        // Pins as well: what is kept and what is shown are the same.
        let manifest = manifest.cleaned(&self.connector.around.firewall);
        let (before, known) = {
            let now = self.now();
            (Arc::clone(&now.manifest), Arc::clone(&now.pins))
        };
        let pins = self.shared.keep.learn(&self.key, &known, &manifest.catalogue.tools);
        if pins != *known {
            self.set_pins(pins);
        }
        if *before != manifest {
            self.shared.keep.keep_manifest(&self.key, &manifest);
            let mut now = self.now();
            (now.manifest, now.offer) = (Arc::new(manifest), None);
        }
    }

    fn settle(&self, state: ServerState, retry_at: Option<Instant>) {
        {
            let mut now = self.now();
            (now.state, now.retry_at) = (state, retry_at);
        }
        self.changed();
    }

    /// It could not be started, or has ended: says so, and tries again later.
    fn failed(self: &Arc<Self>, error: ConnectError) {
        self.now().failed_at = Some(Instant::now());
        let clean = |why: &str| self.connector.around.firewall.cleaned(why, Depth::Known).into_owned();
        let why = match error {
            ConnectError::NeedsLogin(missing) => {
                self.want(missing.as_deref());
                return self.settle(ServerState::NeedsLogin, None);
            }
            ConnectError::Hopeless(why) => {
                return self.settle(ServerState::Failed { why: clean(&why), retry_in_s: None }, None);
            }
            ConnectError::Failed(why) => clean(&why),
            ConnectError::IsModern | ConnectError::IsLegacy => "it speaks neither era of the protocol".to_owned(),
        };
        tracing::warn!(server = self.entry.name, "the MCP server is not there: {why}");
        let failures = {
            let mut now = self.now();
            now.failures += 1;
            now.failures
        };
        if failures >= MOST_FAILURES || self.shared.over.is_cancelled() {
            return self.settle(ServerState::Failed { why, retry_in_s: None }, None);
        }
        let pause = BACK_OFF.saturating_mul(1 << (failures - 1).min(10)).min(MOST_BACK_OFF);
        self.settle(ServerState::Failed { why, retry_in_s: None }, Some(Instant::now() + pause));
        let this = Arc::downgrade(self);
        let over = self.shared.over.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = over.cancelled() => return,
            }
            if let Some(this) = this.upgrade() {
                // Its state says what came of it.
                let _ = this.ready(Patience::Insists).await;
            }
        });
    }

    /// Somebody has to log in before anything else.
    pub(crate) async fn locked_out(self: &Arc<Self>, missing: Option<&str>) {
        self.want(missing);
        if missing.is_none() {
            self.close().await;
            self.settle(ServerState::NeedsLogin, None);
        }
    }

    /// Keeps what the server wants besides, for the next login.
    fn want(&self, missing: Option<&str>) {
        if let (Some(scopes), Some(url)) = (missing, self.url())
            && let Err(error) = crate::tokens::Tokens::of(&self.connector.around, url).want(scopes)
        {
            tracing::warn!(server = self.entry.name, %error, "the scopes that are missing could not be kept");
        }
    }

    fn url(&self) -> Option<&str> {
        match &self.entry.transport {
            crate::entry::Transport::Stdio { .. } => None,
            crate::entry::Transport::Http { url, .. } | crate::entry::Transport::Sse { url, .. } => Some(url),
        }
    }

    /// Closes this connection, whose session the server no longer knows. Whoever came first has closed it already, and there
    /// may be another.
    pub(crate) async fn expire(&self, link: &Link) {
        let expired = self.now().link.take_if(|current| current.number == link.number);
        if let Some(link) = expired {
            link.stop.cancel();
            link.closed.cancelled().await;
        }
    }

    /// Closes the connection, and waits until it is closed and the process gone.
    pub(crate) async fn close(&self) {
        let link = self.now().link.take();
        if let Some(link) = link {
            link.stop.cancel();
            link.closed.cancelled().await;
        }
    }

    /// Waits until nothing of it is being started any longer, when all is over.
    pub(crate) async fn given_up(&self) {
        drop(self.starting.lock().await);
    }

    /// Reads the lists anew whenever the server says that they have changed.
    async fn follow(self: Arc<Self>, lists: Arc<Notify>, link: Link, info: Arc<ServerPeerInfo>) {
        let listening = (!info.protocol_version.has_initialize())
            .then(|| tokio::spawn(listen(link.clone(), Arc::clone(&lists), Arc::clone(&info))));
        loop {
            tokio::select! {
                () = lists.notified() => {}
                () = link.closed.cancelled() => break,
            }
            tokio::time::sleep(SETTLE).await;
            let Ok(listed) = connect::lists(&link.peer, &info, &self.words()).await else { continue };
            let manifest = self.manifest();
            self.keep(Manifest { catalogue: Catalogue::read(listed, &self.entry), ..(*manifest).clone() });
            self.changed();
        }
        if let Some(listening) = listening {
            listening.abort();
        }
    }
}

/// Whether a server that has failed is tried at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It is tried when its time has come.
    Waits,
    /// It is tried now.
    Insists,
}

/// What is said of a server that wants a login.
pub(crate) fn needs_login(name: &str) -> String {
    format!("The MCP server {name} wants the user to log in. `piton mcp login {name}` in a terminal does that.")
}

/// Waits for the end of a connection, wanted or not, and cleans up behind it.
async fn watch_over(
    server: Arc<Managed>,
    service: RunningService<RoleClient, Host>,
    process: Option<Process>,
    link: Link,
) {
    let closed = link.closed.clone().drop_guard();
    let began = Instant::now();
    let token = service.cancellation_token();
    let mut waiting = Box::pin(service.waiting());
    let was_asked = tokio::select! {
        _ = &mut waiting => false,
        () = link.stop.cancelled() => {
            token.cancel();
            let _ = tokio::time::timeout(CLOSING, waiting).await;
            true
        }
    };
    let end = match process {
        Some(process) => process.end().await.words(),
        None => "the connection was lost".to_owned(),
    };
    drop(closed);
    if was_asked {
        return;
    }
    {
        let mut now = server.now();
        // A new connection may have been made since this one was lost.
        if now.link.take_if(|current| current.closed.is_cancelled()).is_none() {
            return;
        }
        if began.elapsed() > STEADY {
            now.failures = 0;
        }
    }
    server.failed(ConnectError::Failed(end));
}

/// Asks a modern server to say when its lists change, for as long as the connection is there.
async fn listen(link: Link, lists: Arc<Notify>, info: Arc<ServerPeerInfo>) {
    let can = &info.capabilities;
    let mut wanted = SubscriptionFilter::builder();
    let mut is_any = false;
    if can.tools.as_ref().and_then(|tools| tools.list_changed) == Some(true) {
        (wanted, is_any) = (wanted.tools_list_changed(), true);
    }
    if can.prompts.as_ref().and_then(|prompts| prompts.list_changed) == Some(true) {
        (wanted, is_any) = (wanted.prompts_list_changed(), true);
    }
    if can.resources.as_ref().and_then(|resources| resources.list_changed) == Some(true) {
        (wanted, is_any) = (wanted.resources_list_changed(), true);
    }
    let wanted = wanted.build();
    let mut pause = BACK_OFF;
    while is_any && !link.closed.is_cancelled() {
        match link.peer.listen(wanted.clone()).await {
            Ok(mut subscription) => {
                while let Ok(Some(_)) = subscription.next().await {
                    pause = BACK_OFF;
                    lists.notify_one();
                }
            }
            Err(rmcp::service::ServiceError::McpError(_)) => return,
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MOST_BACK_OFF);
    }
}
