//! What jobs are given: the session, what this process has for it, and what it keeps of it.

use super::frames::Frames;
use crate::agents::Agent;
use crate::bus::Bus;
use crate::clock::World;
use crate::compaction;
use crate::context::{EntryNotes, Instructions, Notes, ServerNotes};
use crate::delegate::Nursery;
use crate::elicit::Elicitations;
use crate::family::Kin;
use crate::firewall::{EnvFiles, know_servers, know_settings};
use crate::hooks::{Gated, Hook, HookContext, Hooks, Unasked};
use crate::hosts::{ByRules, HostAsks, OfCall};
use crate::inbox::WeakInbox;
use crate::prompt::Prompts;
use crate::settings::{Attendance, OpenedModels, SandboxSettings, Settings};
use crate::store::Stored;
use piton_core::call::{ToolSpec, Touches};
use piton_core::event::Event;
use piton_core::hook::HookPoint;
use piton_core::ids::{CallId, MessageId};
use piton_core::permission::{Action, Ask, Grant, PermissionMode};
use piton_core::policy::{HookPolicy, Policy};
use piton_core::request::Frame;
use piton_core::secrets::{Depth, Firewall};
use piton_core::turn::State;
use piton_http::egress::{Egress, Judge};
use piton_models::model::Model;
use piton_sandbox::Backend;
use piton_tools::executor::Executor;
use piton_tools::files::Files;
use piton_tools::ledger::FileLedger;
use piton_tools::plan::accesses;
use piton_tools::servers::Servers;
use piton_tools::spawn::Confinement;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tokio_util::sync::DropGuard;

/// In the session's scratch folder: claims, outputs and exit records of calls.
const CALLS: &str = "calls";
/// There: home, `/tmp` and caches of its commands.
const SANDBOX: &str = "sandbox";

/// What a job is a function of.
pub(crate) struct JobContext<'a> {
    pub(crate) session: &'a State,
    pub(crate) services: &'a Services,
    pub(crate) memory: &'a mut Memory,
}

/// What this process has for a session: its settings, its ports, its hooks.
pub(crate) struct Services {
    pub(crate) settings: Settings,
    pub(crate) hooks: Hooks,
    pub(crate) world: World,
    pub(crate) stored: Stored,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) files: Arc<dyn Files>,
    /// What the model knows of files.
    pub(crate) ledger: Arc<FileLedger>,
    pub(crate) firewall: Firewall,
    pub(crate) env_files: Arc<EnvFiles>,
    pub(crate) bus: Bus,
    pub(crate) asked: AskedByCalls,
    pub(crate) tree: SessionTree,
}

/// How calls that run ask the driver, and through it a person.
pub(crate) struct AskedByCalls {
    /// The way to the driver.
    pub(crate) inbox: WeakInbox,
    /// What servers ask.
    pub(crate) elicitations: Arc<Elicitations>,
    /// Where connections of running commands ask.
    pub(crate) hosts: HostAsks,
}

/// The session's callers and subagents.
pub(crate) struct SessionTree {
    /// Runs subagents.
    pub(crate) nursery: Arc<dyn Nursery>,
    /// The session's position among them.
    pub(crate) kin: Kin,
    /// Tells that a person has allowed one of them something.
    pub(crate) granted: Receiver<()>,
}

/// What this process keeps of a session beside its state.
pub(crate) struct Memory {
    pub(crate) prompts: Prompts,
    pub(crate) notes: Notes,
    pub(crate) servers: ServerNotes,
    pub(crate) servers_run: ServersRun,
    pub(crate) entries: EntryNotes,
    pub(crate) frames: Frames,
    /// The models that were opened for the turn that this message begins, or why they cannot be asked.
    pub(crate) opened: Option<(MessageId, Result<OpenedModels, String>)>,
    /// How long the last snapshot took: a short one is taken without switching to another thread and back.
    pub(crate) snapshot_took: Duration,
    /// Whether the session closes as soon as its client has an answer: then nothing could be reported afterwards.
    pub(crate) leaves_when_answered: bool,
}

/// What of the session's MCP servers is under way.
#[derive(Default)]
pub(crate) struct ServersRun {
    /// Whether those of the session were started, or soon are.
    pub(crate) are_started: bool,
    /// Those that start when the first request has left.
    pub(crate) starting: Starting,
    /// Who tells of them and of the agent's; ends when this is dropped.
    pub(crate) watched: Option<DropGuard>,
    /// Those of agents that no longer run the session, on their way to their end.
    pub(crate) closing: JoinSet<()>,
}

/// What this session's commands have printed is read again from its folder; of no other session anything is.
fn reach_own_output(settings: &mut Settings, stored: &Stored) {
    let read = &mut settings.policy.reach.read;
    let scratch = stored.scratch();
    let scratch = std::fs::canonicalize(&scratch).unwrap_or(scratch);
    if let Some(all) = scratch.parent() {
        read.retain(|folder| !Path::new(folder).starts_with(all));
    }
    // Where nothing is listed, everything may be read.
    if let (false, Ok(own)) = (read.is_empty(), scratch.join(CALLS).into_os_string().into_string()) {
        read.push(own);
    }
}

/// Servers that are about to start. Whoever is first starts them: the time, or the end of the request.
#[derive(Default, Clone)]
pub(crate) struct Starting(Arc<Mutex<Vec<Arc<dyn Servers>>>>);

impl Starting {
    pub(crate) fn add(&self, servers: &Arc<dyn Servers>) {
        self.lock().push(Arc::clone(servers));
    }

    /// Starts them now.
    pub(crate) fn begin(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.iter().for_each(|servers| servers.start());
    }

    /// Starts none of them any more.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<dyn Servers>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Services {
    pub(crate) fn new(
        mut settings: Settings,
        world: World,
        stored: Stored,
        ledger: Arc<FileLedger>,
        (firewall, bus, inbox, hosts): (Firewall, Bus, WeakInbox, HostAsks),
        tree: SessionTree,
        workspace: &Path,
    ) -> Self {
        let env_files = Arc::new(EnvFiles::new(firewall.clone()));
        env_files.read_top(workspace);
        settings.bring_servers();
        know_servers(&firewall, &settings);
        clean_system(&mut settings, &firewall);
        reach_own_output(&mut settings, &stored);
        let calls = stored.scratch().join(CALLS);
        Self {
            hooks: Hooks::new(&own_hooks(&settings)),
            executor: settings.backend.executor(&calls),
            files: settings.backend.files(&calls, &Confinement::User),
            settings,
            world,
            stored,
            ledger,
            firewall,
            env_files,
            bus,
            asked: AskedByCalls { inbox, elicitations: Arc::default(), hosts },
            tree,
        }
    }

    /// Goes by other settings from here on.
    pub(crate) fn take(&mut self, mut settings: Settings) {
        know_settings(&self.firewall, &settings);
        settings.bring_servers();
        know_servers(&self.firewall, &settings);
        clean_system(&mut settings, &self.firewall);
        reach_own_output(&mut settings, &self.stored);
        self.hooks.renew(&own_hooks(&settings));
        self.settings = settings;
    }

    pub(crate) fn calls_dir(&self) -> PathBuf {
        self.stored.scratch().join(CALLS)
    }

    /// How what the model wrote is confined in this workspace.
    pub(crate) fn confinement(&self, workspace: &Path) -> Confinement {
        let Policy { permission: rules, mode, reach, .. } = &self.settings.policy;
        self.confined_by(workspace, || Arc::new(ByRules { rules: rules.clone(), mode: *mode, reach: reach.clone() }))
    }

    /// The same for the command of a call, which may wait until a person has opened a host.
    pub(crate) fn confinement_of(&self, call: &CallId, workspace: &Path) -> Confinement {
        self.confined_by(workspace, || Arc::new(OfCall { call: call.clone(), asks: self.asked.hosts.clone() }))
    }

    /// A command of the model's will run here in this mode, by all that is known: its sandbox is made while the call goes on record.
    pub(crate) fn expect_command(&self, workspace: &Path, mode: PermissionMode) {
        self.executor.expect(&self.settings.env, &held_to(mode, self.confinement(workspace)));
    }

    fn confined_by(&self, workspace: &Path, judge: impl FnOnce() -> Arc<dyn Judge>) -> Confinement {
        let Settings { sandbox, env, .. } = &self.settings;
        let Some(sandbox) = sandbox else { return Confinement::Model };
        let egress = Self::egress(sandbox).map(|egress| Arc::new(egress.judged_by(judge())));
        let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
        // What commands have printed is read again from there.
        let private = self.stored.scratch().join(SANDBOX);
        sandbox.confinement(workspace, private, path, [self.calls_dir()], egress)
    }

    /// Whether somebody can be asked.
    pub(crate) fn is_attended(&self) -> bool {
        self.settings.attendance == Attendance::Attended || self.bus.is_attended()
    }

    /// The way out of a sandbox, where there can be one. Where no host is open it says so, and which rule would open one.
    fn egress(sandbox: &SandboxSettings) -> Option<Egress> {
        let listed = sandbox.egress.as_deref().cloned();
        listed.or_else(|| (sandbox.backend == Backend::Namespaces).then(|| Egress::new(Vec::new())))
    }

    /// The files that tools reach in this workspace.
    pub(crate) fn files_for_tools(&self, workspace: &Path) -> Arc<dyn Files> {
        self.files_approved(workspace, Vec::new())
    }

    /// The same, with protected files that a person lets the call change.
    pub(crate) fn files_approved(&self, workspace: &Path, approved: Vec<PathBuf>) -> Arc<dyn Files> {
        match self.confinement(workspace) {
            Confinement::User | Confinement::Model => Arc::clone(&self.files),
            Confinement::Sandbox(confined) => {
                let mut confined = Arc::unwrap_or_clone(confined);
                confined.reach.approved = approved;
                self.settings.backend.files(&self.calls_dir(), &Confinement::Sandbox(Arc::new(confined)))
            }
        }
    }

    /// Where hooks are.
    pub(crate) fn hook_context(&self, session: &State, frames: &Frames) -> Arc<HookContext> {
        let settings = &self.settings;
        let model = Some(session.model()).filter(|name| !name.is_empty()).unwrap_or(settings.model.name());
        Arc::new(HookContext {
            session: session.id().clone(),
            session_dir: self.stored.scratch(),
            workspace: PathBuf::from(session.workspace()),
            confinement: self.confinement(Path::new(session.workspace())),
            turn: session.turn(),
            step: session.step(),
            model: model.to_owned(),
            unasked: unasked(settings, frames.own()),
            subagent: settings.subagent.clone(),
            todos: session.todo().items().to_vec(),
        })
    }
}

impl Memory {
    pub(crate) fn new(prompts: Prompts, notes: Notes, settings: &Settings, session: &State) -> Self {
        Self {
            prompts,
            notes,
            servers: ServerNotes::of(session),
            servers_run: ServersRun::default(),
            entries: EntryNotes::default(),
            frames: Frames::of(settings, session),
            opened: None,
            snapshot_took: Duration::MAX,
            leaves_when_answered: false,
        }
    }
}

/// The confinement of a command of the model's in this mode: who plans changes nothing, whatever the command turns out to do.
pub(super) fn held_to(mode: PermissionMode, confinement: Confinement) -> Confinement {
    match mode {
        PermissionMode::Plan => confinement.reading(),
        PermissionMode::Ask | PermissionMode::AcceptEdits | PermissionMode::Auto => confinement,
    }
}

impl JobContext<'_> {
    /// What a person has allowed sessions of the same tree for as long as they are open.
    pub(super) fn grants_of_others(&self) -> Vec<Grant> {
        self.services.tree.kin.grants_of_others(self.session.id())
    }

    /// The model whose turn it is.
    pub(crate) fn model(&self) -> Arc<dyn Model> {
        let (name, settings) = (self.session.model(), &self.services.settings);
        Arc::clone(settings.fallbacks.iter().find(|model| model.name() == name).unwrap_or(&settings.model))
    }

    /// What it is asked with.
    pub(crate) fn frame(&self) -> &Frame {
        self.memory.frames.now(self.session)
    }

    /// Where hooks are.
    pub(crate) fn hook_context(&self) -> Arc<HookContext> {
        self.services.hook_context(self.session, &self.memory.frames)
    }

    /// Where instructions are read, and how much of them the model can take.
    pub(crate) fn instructions(&self) -> Option<Instructions> {
        let settings = &self.services.settings;
        let window_tokens = settings.model.limits().window_tokens;
        settings.instructions.clone().map(|instructions| Instructions { window_tokens, ..instructions })
    }

    /// Whether hooks are to be asked at this point.
    pub(crate) fn want(&self, point: HookPoint) -> bool {
        self.services.hooks.want(point)
    }

    /// What hooks did at one point, as it is recorded: nothing where none was asked.
    pub(crate) fn ran(&self, gated: Gated) -> Option<Event> {
        (!gated.runs.is_empty()).then(|| gated.event(self.session.step()))
    }

    /// What went wrong with hooks that only watch.
    pub(crate) fn suspicions(&self) -> Option<Event> {
        let suspicions = self.services.hooks.suspicions()?;
        let point = suspicions.runs.first().and_then(|run| run.point).unwrap_or(HookPoint::Step);
        self.ran(Gated { runs: suspicions.runs, stopped: suspicions.stopped, ..Gated::new(point) })
    }

    /// The rules of a turn that starts or goes on here.
    pub(crate) fn policy(&self) -> Policy {
        let Services { hooks, settings, .. } = self.services;
        let hooks = HookPolicy { gates: hooks.gates(), demands: hooks.demands() };
        let snapshots = settings.snapshots.is_some() && settings.takes_snapshots;
        let unredacted = self.services.firewall.is_off();
        let mut policy = Policy { snapshots, hooks, unredacted, ..settings.narrowed() };
        policy.waits_for_subagents |= self.memory.leaves_when_answered;
        policy.compaction.rules.frame_tokens =
            compaction::frame_tokens(self.memory.frames.own(), settings.model.name());
        policy
    }

    /// From how many tokens on the context of the model of this name is full.
    pub(crate) fn full_at(&self, name: &str) -> Option<u64> {
        let settings = &self.services.settings;
        let chain = std::iter::once(&settings.model).chain(&settings.fallbacks);
        let model = chain.into_iter().find(|model| model.name() == name)?;
        compaction::full_at(&settings.policy.compaction.rules, &**model)
    }
}

/// Those that are asked in a session like this one.
fn own_hooks(settings: &Settings) -> Vec<Arc<dyn Hook>> {
    let is_subagent = settings.subagent.is_some();
    let agent = settings.subagent.as_ref().unwrap_or(&settings.agent.name);
    let of_agent = settings.agent_parts.get(agent).map_or(&[][..], |parts| &parts.hooks);
    settings.hooks.iter().chain(of_agent).filter(|hook| hook.serves(is_subagent)).cloned().collect()
}

/// The system prompt and the agent's words are sent, and are in no event.
fn clean_system(settings: &mut Settings, firewall: &Firewall) {
    if let Cow::Owned(cleaned) = firewall.cleaned(&settings.system, Depth::Everything) {
        settings.system = cleaned.into();
    }
    let words = settings.words_of_agent();
    let prompt = firewall.cleaned(&words, Depth::Everything).into_owned();
    if prompt != settings.agent.prompt {
        settings.agent = Arc::new(Agent { prompt, skills: Vec::new(), ..Agent::clone(&settings.agent) });
    }
}

fn unasked(settings: &Settings, own: &Frame) -> Unasked {
    let Policy { permission, mode, sandbox, reach, .. } = &settings.policy;
    let asks = |touches| {
        let mut tools = own.tools.iter().filter(|tool| tool.effects.touches == touches);
        let judged = |tool: &ToolSpec| {
            let (accesses, is_confined) = (accesses(tool), !sandbox.is_off());
            let ask = Ask { tool: &tool.name, accesses: &accesses, workspace: "", is_confined, reach };
            permission.judge_in(*mode, &[], &ask)
        };
        tools.any(|tool| judged(tool).action == Action::Ask)
    };
    match (mode, asks(Touches::Workspace), asks(Touches::World)) {
        (PermissionMode::Plan, ..) => Unasked::Reading,
        (PermissionMode::AcceptEdits, _, true) | (_, false, true) => Unasked::Edits,
        (_, true, _) => Unasked::Nothing,
        (_, false, false) => Unasked::Everything,
    }
}
