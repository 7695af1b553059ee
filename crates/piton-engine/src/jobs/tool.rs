//! Running a call, or settling one that another process began: from its start on record to its outcome.
//!
//! After a restart a call that had begun is not begun again: its tool says what became of it. A cancel asks the tool to stop
//! and waits for its outcome, but not for ever: a tool that hangs is abandoned after a grace, which is an outcome. A panic is
//! an outcome, too: the call has failed.

use super::context::held_to;
use super::judge::look;
use super::spill::{Spill, cap};
use super::subagents::{awaits_subagent, delegated, delegation};
use super::{JobContext, Step, Task, shown};
use crate::elicit::CallClient;
use crate::family::{AtWork, Kin};
use crate::firewall::{EnvFiles, know_keys};
use crate::hooks::{Gated, HookContext, Hooks, Ran};
use crate::otel;
use crate::sampling::Sampler;
use crate::store::Stored;
use async_trait::async_trait;
use piton_core::call::{Access, CallInput, CallKind, Outcome, Planned, Resume, Status, Touches};
use piton_core::client::Live;
use piton_core::event::{Event, Record, Subject};
use piton_core::hidden;
use piton_core::hook::HookPoint;
use piton_core::ids::{CallId, Seq};
use piton_core::message::ToolCall;
use piton_core::permission::Ask;
use piton_core::server_tool;
use piton_core::shell;
use piton_core::todo;
use piton_tools::executor::{Boot, OutputSink};
use piton_tools::files::{Files, Withheld};
use piton_tools::host::Host;
use piton_tools::limits::{ABANDON_GRACE, ABANDON_LOOK_GRACE};
use piton_tools::plan::Plan;
use piton_tools::snapshot::Snapshots;
use piton_tools::spawn::Confinement;
use piton_tools::tool::{Tool, ToolContext, abandoned, interrupted};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Who started a call.
enum Start {
    /// This process: it is run.
    Here,
    /// Another one: it is settled as its effects say. What it may have changed shows beside the workspace before it.
    Elsewhere { resume: Resume, before: Option<(Arc<Snapshots>, String)> },
}

/// Runs a call whose start is on record, or settles it.
pub(super) fn take_up(call: &Arc<ToolCall>, cx: &JobContext<'_>) -> Step {
    let Some(tool) = cx.services.settings.tools.get(&call.name) else {
        let text = format!(
            "[interrupted] This call was started by a Piton that had the tool {}; this one does not.",
            call.name
        );
        return Step::Record(vec![settled(call.id.clone(), Outcome::new(Status::Interrupted, text))]);
    };
    if let Some(step) = delegated(call, cx) {
        return step;
    }
    if let Some(why) = voided(call, &*tool, cx) {
        let subject = Subject::Call(call.id.clone());
        return Step::Record(vec![Event::ApprovalVoided { subject, why }]);
    }
    if leads_elsewhere(call, &*tool, cx) {
        let text = "A link on a path of this call leads elsewhere since the call was judged, so it was not run and nothing \
                    happened. Call it again.";
        return Step::Record(vec![settled(call.id.clone(), Outcome::failed(text))]);
    }
    know_keys(&cx.services.firewall, &cx.services.settings);
    let (call, context, start) = (Arc::clone(call), tool_context(call, cx), start(&call.id, cx));
    let (cut, folder) = (cx.session.policy().calls.output_cut, cx.services.calls_dir());
    let spill = Spill { cut, folder, call: call.id.clone(), firewall: context.firewall.clone() };
    let variables = Variables { files: Arc::clone(&cx.services.env_files), workspace: context.workspace.clone() };
    let hooks = hooks_after(&call.id, cx);
    let span = tracing::info_span!(target: "piton", "tool_call", call = call.id.as_str(), tool = call.name);
    let (id, stop) = (call.id.clone(), context.cancel.clone());
    let leave = tool.spec().name.eq(shell::TOOL).then(|| context.leave.clone());
    let kin = (!awaits_subagent(&call, cx.session)).then(|| cx.services.tree.kin.clone());
    let work = async move {
        let _at_work = placed(kin.as_ref(), &context.cancel).await;
        variables.read().await;
        let mut outcome = run(&call, tool, &context, start).await;
        context.output.finish();
        variables.read().await;
        cap(&mut outcome, &spill);
        let todos = todo::changed(&call.name, &outcome).map(|items| Event::Todo { items });
        let seen = async {
            let (hooks, cx) = hooks?;
            Some(hooks.after_tool(&cx, &call, outcome.clone(), Ran::Begun).await)
        };
        // Who stops the turn does not wait for hooks: the outcome is as the tool left it.
        let seen = context.cancel.run_until_cancelled(seen).await.flatten();
        match seen {
            Some((gated, mut changed)) => {
                cap(&mut changed, &spill);
                (Some(gated), changed, todos)
            }
            None => (None, outcome, todos),
        }
    };
    let (of, broken) = (id.clone(), id);
    let ended = move |(gated, outcome, todos): (Option<Gated>, Outcome, Option<Event>), cx: &mut JobContext<'_>| {
        let ran = gated.and_then(|gated| cx.ran(gated));
        ran.into_iter().chain([settled(of, outcome)]).chain(todos).collect()
    };
    let task = Task::new(work.instrument(span), ended).when_broken(move |why, _| {
        let outcome = Outcome::new(Status::Failed, format!("The tool failed inside Piton: {why}."));
        vec![settled(broken, outcome)]
    });
    let task = task.stopped_by(stop);
    Step::Start(match leave {
        Some(leave) => task.left_by(leave),
        None => task,
    })
}

/// The hooks that see what came of a call. What the user has typed themselves is nothing that hooks are asked about; what a template
/// runs is.
fn hooks_after(call: &CallId, cx: &JobContext<'_>) -> Option<(Hooks, Arc<HookContext>)> {
    let shell = cx.session.shell();
    let is_typed = shell.find(call).is_some() && !shell.is_of_template(call);
    (!is_typed && cx.want(HookPoint::AfterTool)).then(|| (cx.services.hooks.clone(), cx.hook_context()))
}

/// The place of its session, for a call that needs one. Told to stop, it needs none for that.
async fn placed(kin: Option<&Kin>, stop: &CancellationToken) -> Option<AtWork> {
    stop.run_until_cancelled(kin?.at_work()).await.flatten()
}

/// What has changed since a person said yes to a call that begins here: a link that leads elsewhere, a file that it would change. The
/// yes was to what they were shown.
fn voided(call: &ToolCall, tool: &dyn Tool, cx: &JobContext<'_>) -> Option<String> {
    let (planned, bound) = cx.session.bound(&call.id).filter(|_| cx.session.is_started_here(&call.id))?;
    let now = planned_now(call, tool, cx)?;
    let confined = cx.services.files_for_tools(Path::new(cx.session.workspace()));
    let files = shown::files_where_it_runs(&now.accesses, confined, cx);
    shown::changed_since((&planned.accesses, bound), &now.accesses, &*files)
}

/// Whether a call that begins here would touch other files than those that it was judged by. Calls of one reply are judged
/// before the first of them runs, and that may have put a link in the way.
fn leads_elsewhere(call: &ToolCall, tool: &dyn Tool, cx: &JobContext<'_>) -> bool {
    let is_path = |access: &&Access| matches!(access, Access::Read(_) | Access::Write(_));
    let paths = |planned: &Planned| planned.accesses.iter().filter(is_path).cloned().collect::<Vec<_>>();
    // What a person has seen, and may have changed, is compared with what they saw.
    let is_ours = cx.session.is_started_here(&call.id) && !cx.session.was_asked(&call.id);
    let Some(planned) = cx.session.plan(&call.id).filter(|_| is_ours) else {
        return false;
    };
    let judged = paths(planned);
    !judged.is_empty() && planned_now(call, tool, cx).is_some_and(|now| paths(&now) != judged)
}

/// What a call would touch as things are now. What cannot be planned any more is for the tool to say.
fn planned_now(call: &ToolCall, tool: &dyn Tool, cx: &JobContext<'_>) -> Option<Planned> {
    let CallInput::Json(input) = &call.input else { return None };
    let workspace = PathBuf::from(cx.session.workspace());
    let files = cx.services.files_for_tools(&workspace);
    let look = look(&files, workspace, cx);
    let now = catch_unwind(AssertUnwindSafe(|| tool.plan(input, &look).ok())).ok()??;
    let is_instead = |instead: &Plan| cx.session.plan(&call.id) == Some(&instead.planned);
    Some(now.instead.filter(|instead| is_instead(instead)).map_or(now.planned, |instead| instead.planned))
}

fn settled(call: CallId, outcome: Outcome) -> Event {
    Event::CallSettled { call, outcome }
}

/// How long a command of the model's in a terminal waits for a person, who is there, to type, in milliseconds: they have to see that it
/// asks.
const TYPING_MS: u64 = 60_000;

fn tool_context(call: &ToolCall, cx: &JobContext<'_>) -> ToolContext {
    let services = cx.services;
    let (bus, of) = (services.bus.clone(), call.id.clone());
    let mut limits = services.settings.tool_limits.clone();
    if cx.session.shell().find(&call.id).is_some() {
        // Who waits for it can stop it.
        limits.bash_max_ms = limits.background_max_ms;
        limits.bash_default_ms = limits.bash_max_ms;
        limits.typing_ms = Some(u64::MAX);
    } else if services.bus.is_attended() {
        limits.typing_ms = Some(TYPING_MS);
    }
    let cancel = CancellationToken::new();
    let client = CallClient::new(
        call.id.clone(),
        services.bus.clone(),
        Arc::clone(&services.asked.elicitations),
        services.asked.inbox.clone(),
        services.settings.attendance,
        cancel.clone(),
    );
    let client = match server_tool::server_of(&call.name) {
        Some(_) => client.for_server(sampler(cx), traceparent(call, cx)),
        None => client,
    };
    ToolContext {
        session: cx.session.id().clone(),
        call: call.id.clone(),
        accesses: cx.session.plan(&call.id).map(|plan| plan.accesses.as_slice().into()).unwrap_or_default(),
        boot: if cx.session.is_started_in_this_boot(&call.id) { Boot::Current } else { Boot::Earlier },
        workspace: PathBuf::from(cx.session.workspace()),
        host: Arc::new(services.stored.clone()),
        delegate: delegation(call, cx),
        server_client: Arc::new(client),
        subordinates: Some(Arc::clone(&services.tree.nursery).subordinates()),
        executor: Arc::clone(&services.executor),
        tasks: Arc::new(cx.session.tasks().clone()),
        output: OutputSink::cleaned(&services.firewall, move |text: &str| {
            bus.live(Live::ToolOutput { call: of.clone(), text: text.to_owned() });
        }),
        cancel,
        leave: CancellationToken::new(),
        ledger: Arc::clone(&services.ledger),
        files: files(call, cx),
        confinement: confinement(&call.id, cx),
        env: Arc::clone(&services.settings.env),
        firewall: services.firewall.clone(),
        after_edits: Arc::clone(&services.settings.after_edits),
        limits,
        output_cut: cx.session.policy().calls.output_cut,
    }
}

/// What a server asks models with: the model whose turn it is.
fn sampler(cx: &JobContext<'_>) -> Sampler {
    Sampler {
        session: cx.session.id().clone(),
        model: cx.model(),
        rules: cx.session.policy().permission.clone(),
        firewall: cx.services.firewall.clone(),
        inbox: cx.services.asked.inbox.clone(),
        turn: Arc::clone(&cx.services.asked.elicitations.sampling),
    }
}

fn traceparent(call: &ToolCall, cx: &JobContext<'_>) -> Option<String> {
    cx.services.settings.is_traced.then(|| otel::traceparent(cx.session.id(), cx.session.turn(), &call.id))
}

/// The files that the call reads and changes. A search finds files that it did not name: it opens none that a rule forbids.
fn files(call: &ToolCall, cx: &JobContext<'_>) -> Arc<dyn Files> {
    // What a person has seen and said yes to, they may let it change.
    let approved = cx.session.bound(&call.id).map(|(planned, _)| planned.accesses.iter().filter_map(written).collect());
    let files = cx.services.files_approved(Path::new(cx.session.workspace()), approved.unwrap_or_default());
    if cx.session.plan(&call.id).is_none_or(|plan| plan.kind != CallKind::Search) {
        return files;
    }
    let policy = cx.session.policy();
    let (rules, reach, mode) = (policy.permission.clone(), policy.reach.clone(), policy.mode);
    let (is_confined, workspace, tool) =
        (!policy.sandbox.is_off(), cx.session.workspace().to_owned(), call.name.clone());
    Arc::new(Withheld::new(files, move |path| {
        let ask = Ask { tool: &tool, accesses: &[], workspace: &workspace, is_confined, reach: &reach };
        rules.withhold(mode, &ask, &path.to_string_lossy())
    }))
}

fn written(access: &Access) -> Option<PathBuf> {
    match access {
        Access::Write(path) => Some(PathBuf::from(path)),
        _ => None,
    }
}

/// What the call's command is held to: the sandbox, unless somebody was asked about just this, as it is on record.
fn confinement(call: &CallId, cx: &JobContext<'_>) -> Confinement {
    let accesses = cx.session.plan(call).map(|plan| plan.accesses.as_slice()).unwrap_or_default();
    if shown::leaves(accesses) {
        return Confinement::Model;
    }
    let confinement = cx.services.confinement_of(call, Path::new(cx.session.workspace()));
    match cx.session.shell().find(call) {
        // What the user runs themselves is held to no mode.
        Some(_) => confinement,
        None => held_to(cx.policy().mode, confinement),
    }
}

fn start(call: &CallId, cx: &JobContext<'_>) -> Start {
    if cx.session.is_started_here(call) {
        return Start::Here;
    }
    let before = cx.session.snapshot().map(str::to_owned);
    let resume = cx.session.effects(call).map_or(Resume::Never, |effects| effects.resume);
    Start::Elsewhere { resume, before: cx.services.settings.snapshots.clone().zip(before) }
}

#[async_trait]
impl Host for Stored {
    async fn read(&self, from: Seq, max: usize) -> Result<Vec<Record>, String> {
        Stored::read(self, from, max).await.map_err(|error| error.to_string())
    }
}

async fn run(call: &ToolCall, tool: Arc<dyn Tool>, context: &ToolContext, start: Start) -> Outcome {
    let began = Instant::now();
    let input = match &call.input {
        CallInput::Json(value) => value.clone(),
        CallInput::Invalid { .. } => serde_json::Value::Null,
    };
    let work = async {
        match &start {
            Start::Here | Start::Elsewhere { resume: Resume::Rerun, .. } => tool.run(input, context).await,
            Start::Elsewhere { resume: Resume::Verify | Resume::Keyed | Resume::Reattach, .. } => {
                tool.settle(input, context).await
            }
            Start::Elsewhere { resume: Resume::Never, .. } => interrupted(),
        }
    };
    let mut outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        touches = grace_after(context, &*tool) => abandoned(touches),
    };
    if let (Status::Interrupted, Start::Elsewhere { before: Some((store, tree)), .. }) = (outcome.status, start) {
        let changed = tokio::task::spawn_blocking(move || changed_since(&store, &tree)).await;
        outcome.text.push_str(&changed.unwrap_or_default());
    }
    if outcome.duration_ms == 0 {
        outcome.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    }
    outcome
}

/// Ends when a call that was asked to stop need not be waited for any longer. Answers what it may have changed.
async fn grace_after(context: &ToolContext, tool: &dyn Tool) -> Touches {
    /// A subagent abandons its own calls first, and then leaves.
    const OF_SUBAGENTS: u32 = 3;
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    context.cancel.cancelled().await;
    let runs_commands = context.accesses.iter().any(|access| matches!(access, Access::Run(_)));
    let touches = if runs_commands { Touches::World } else { tool.spec().effects.touches };
    let grace = if touches == Touches::Nothing { ABANDON_LOOK_GRACE } else { ABANDON_GRACE };
    let grace = if context.delegate.is_some() { grace * OF_SUBAGENTS } else { grace };
    // The real clock, not tokio's: a process takes its time even where a test's clock stands still.
    let asked = Instant::now();
    while asked.elapsed() < grace {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    touches
}

/// Which files are not as they were before the step of a call whose end nobody saw; empty where that cannot be said.
fn changed_since(store: &Snapshots, before: &str) -> String {
    /// More would not help the model.
    const MOST: usize = 40;
    let changes = before.parse().ok().and_then(|before| store.diff(before, store.take().ok()?.id).ok());
    let Some(changes) = changes else { return String::new() };
    if changes.is_empty() {
        return "\nNo file has changed since just before it began.".to_owned();
    }
    let mut text = "\nFiles that have changed since just before it began:".to_owned();
    for change in changes.iter().take(MOST) {
        let name = hidden::visible_name(&change.path.to_string_lossy());
        text.push_str(&format!("\n- {name} ({})", change.kind));
    }
    if let Some(more) = changes.len().checked_sub(MOST).filter(|more| *more > 0) {
        text.push_str(&format!("\n- and {more} more"));
    }
    text
}

/// The files of variables: what a program reads there it may print.
struct Variables {
    files: Arc<EnvFiles>,
    workspace: PathBuf,
}

impl Variables {
    async fn read(&self) {
        let (files, workspace) = (Arc::clone(&self.files), self.workspace.clone());
        // A panic in there has read less, and what looks like a secret is found all the same.
        drop(tokio::task::spawn_blocking(move || files.read_all(&workspace)).await);
    }
}
