//! Subagents: what is to be known to run the session that answers a call. The engine runs it ([`Nursery`]); jobs and driver
//! know only this.

use crate::agents::Agent;
use crate::bus::Bus;
use crate::error::EngineError;
use crate::family::Kin;
use crate::handle::{Asking, Handle};
use crate::settings::{Sampling, Settings};
use crate::store::StoreError;
use crate::worktree::Worktree;
use async_trait::async_trait;
use piton_core::budget::{Budget, Used};
use piton_core::call::Outcome;
use piton_core::client::Request;
use piton_core::event::{Origin, Record};
use piton_core::hidden;
use piton_core::ids::{CallId, MessageId, SessionId};
use piton_core::inquiry::planning;
use piton_core::permission::PermissionMode;
use piton_tools::executor::OutputSink;
use piton_tools::host::{Delegate, Subordinates};
use piton_tools::subagent::{NAME, OUTPUT, STOP};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a subagent shall do, and how its session is run.
pub(crate) struct Order {
    /// The call that it answers.
    pub(crate) parent: Origin,
    /// Its session.
    pub(crate) child: SessionId,
    /// Whether that is there already: its conversation goes on.
    pub(crate) goes_on: bool,
    /// The agent's name.
    pub(crate) agent: String,
    /// The work in a few words.
    pub(crate) title: String,
    /// What it is told.
    pub(crate) prompt: String,
    /// Who it is, where there still is such an agent.
    pub(crate) run_by: Option<Arc<Agent>>,
    /// The model that the caller wants it to have.
    pub(crate) model: Option<String>,
    pub(crate) caller: Caller,
    /// The folder that the caller works in.
    pub(crate) workspace: PathBuf,
    /// Whether it is to work in a git worktree of its own.
    pub(crate) worktree: bool,
    /// Its own place in the family.
    pub(crate) kin: Kin,
    /// Whoever hears the caller hears what it wants.
    pub(crate) bus: Bus,
}

impl Order {
    /// The id of what it is told.
    pub(crate) fn message(&self) -> MessageId {
        MessageId::of_call(&self.parent.session, self.call())
    }

    /// The call that it answers.
    fn call(&self) -> &str {
        self.parent.call.as_ref().map_or("", CallId::as_str)
    }
}

/// Opens the sessions of subagents.
#[async_trait]
pub(crate) trait Opens: Send + Sync {
    /// A handle on the session. One that is not there is made, where it may be, to work in this folder; one that is there must be
    /// the caller's own.
    async fn open(
        &self,
        order: &Order,
        workspace: &Path,
        settings: Settings,
        may_begin: bool,
    ) -> Result<Handle, EngineError>;

    /// Its worktree, whether or not it has one.
    fn worktree(&self, order: &Order) -> Worktree;

    /// What is on record of a session; nothing where there is none.
    async fn records(&self, child: &SessionId) -> Vec<Record>;

    /// Makes sure that a power cut takes none of its session's events: a killed process may have left some that were never synced.
    async fn make_durable(&self, order: &Order) -> Result<(), StoreError>;
}

/// Runs the sessions of subagents.
#[async_trait]
pub(crate) trait Nursery: Send + Sync {
    /// Has the session answer: makes it, goes on with it, or looks up how it ended.
    async fn serve(&self, order: &Order, stop: &CancellationToken, output: &OutputSink) -> Outcome;

    /// Has the session of a subagent in the background answer: whoever asks for it hears of its end ([`Subordinates`]).
    async fn attend(&self, task: &CallId, order: &Order, stop: &CancellationToken) -> Outcome;

    /// Those in the background, as tools see them.
    fn subordinates(self: Arc<Self>) -> Arc<dyn Subordinates>;

    /// Asks something of a session that is at work here. `None`: it is not.
    fn ask(&self, child: &SessionId, request: Request) -> Option<Asking>;

    /// Asks something of a session that is at work here, or through those that are, each of which may lead to it.
    fn ask_towards(&self, session: &SessionId, request: Request) -> Vec<Asking>;

    /// Asks something of all that are at work here, and waits for no answer.
    fn ask_all(&self, request: &Request);

    /// What sessions have used that are to go on, and those that work for them: known before anybody goes on.
    async fn used(&self, children: Vec<SessionId>) -> Vec<(SessionId, Used)>;
}

/// An order, and who carries it out.
pub(crate) struct Delegation {
    pub(crate) nursery: Arc<dyn Nursery>,
    pub(crate) order: Order,
}

impl fmt::Debug for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delegation").field("child", &self.order.child).finish_non_exhaustive()
    }
}

#[async_trait]
impl Delegate for Delegation {
    async fn delegate(&self, stop: &CancellationToken, output: &OutputSink) -> Outcome {
        self.nursery.serve(&self.order, stop, output).await
    }
}

/// What every subagent is told behind the system prompt.
const SUBAGENT: &str = "You are a subagent: another agent has called you and reads only your last message. Nobody else answers \
                        you. Do what it asks, then say in that message all that it needs.";

/// What of its caller's turn counts for a subagent.
#[derive(Clone)]
pub(crate) struct Caller {
    /// How the caller is run.
    pub(crate) settings: Settings,
    /// The mode that its calls are judged in.
    pub(crate) mode: PermissionMode,
    /// What is left of the budget. All share it; this is the most that a subagent can spend if nobody else does.
    pub(crate) left: Budget,
}

/// How the session of an agent is run when this one calls it: never with more rights than that has. Where its model cannot be asked,
/// its caller's is, and the second value says so. May block its thread.
pub(crate) fn settings(
    agent: &Agent,
    caller: Caller,
    model: Option<&str>,
    may_call: bool,
) -> (Settings, Option<String>) {
    let Caller { mut settings, mode, left } = caller;
    // Never more than its caller, who may be an agent, too.
    settings.policy = settings.narrowed();
    let callers = settings.agent.sampling();
    settings.agent = Arc::new(Agent::build());
    let model = model.or(agent.model.as_deref()).filter(|model| *model != "inherit");
    let own = ask(&mut settings, model, (agent.sampling(), callers));
    let note = own.err().map(|why| {
        let named = model.map_or_else(|| settings.model_names(), hidden::visible_line);
        format!("the model {named} cannot be asked ({why}): {} was", settings.model_names())
    });
    // Whoever is called by a subagent is told this once, and has its own words, not those of its caller.
    let base = settings.system.split(SUBAGENT).next().unwrap_or_default().trim_end();
    let of_agent = Settings { agent: Arc::new(agent.clone()), ..settings.clone() }.words_of_agent();
    let words = [base, SUBAGENT, &of_agent].into_iter().filter(|words| !words.is_empty());
    settings.system = words.collect::<Vec<_>>().join("\n\n").into();
    // What its caller's agent has brought along is the caller's to stop.
    (settings.own_servers, settings.subagent) = (None, Some(agent.name.clone()));
    settings.bring_servers();
    let offers_itself = agent.tools.as_ref().is_some_and(|tools| tools.iter().any(|tool| tool == NAME));
    if !may_call || !offers_itself {
        settings.tools = settings.tools.without(NAME).without(OUTPUT).without(STOP);
    }
    // Nobody approves of its plan: it answers its caller.
    settings.tools = settings.tools.without(planning::TOOL);
    let policy = &mut settings.policy;
    policy.mode = agent.mode_within(mode);
    agent.narrow(policy, &settings.tools.specs());
    policy.budget = left;
    // Its caller reads its last words: there is nobody to be told of anything afterwards.
    policy.waits_for_subagents = true;
    // What the root's answer must come to is not asked of those who work for it.
    settings.hooks.retain(|hook| hook.demand().is_none());
    settings.titles = None;
    (settings, note)
}

/// Has these settings ask another model, or the same with answers made in another way. They stay as they are where that cannot be.
fn ask(settings: &mut Settings, model: Option<&str>, (own, callers): (Sampling, Sampling)) -> Result<(), String> {
    // The caller's temperature is its agent's alone.
    let sampled = |answers: Sampling| (answers.temperature, answers.top_p);
    if model.is_none() && own.effort.is_none() && sampled(own) == sampled(callers) {
        return Ok(());
    }
    let names = model.map_or_else(|| settings.model_names(), str::to_owned);
    let source = settings.model_source.clone().ok_or("no other model can be opened here")?;
    let answers = own.or_effort(settings.effort);
    let opened = source.open(&names, answers)?;
    (settings.model, settings.fallbacks, settings.effort) = (opened.model, opened.fallbacks, answers.effort);
    if model.is_some() {
        settings.system = opened.system.unwrap_or_else(|| settings.system.clone());
        settings.env = opened.env.unwrap_or_else(|| settings.env.clone());
        settings.policy.retry = opened.retry.unwrap_or_else(|| settings.policy.retry.clone());
    }
    Ok(())
}
