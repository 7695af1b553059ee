//! Calls that subagents answer: whose session is on record before it begins, what it is told, and what becomes of one that works in
//! the background when its call has its outcome.
//!
//! After a restart the session goes on by the rules of any session, and a call that waits for it waits again. A cancel of the turn
//! stops those that it waits for, not those in the background. A panic is an end.

use super::spill::{Spill, cap};
use super::{JobContext, Services, Step, Task};
use crate::agents::Agent;
use crate::delegate::{Caller, Delegation, Order};
use crate::family::MOST_IN_TURN;
use crate::skills::Skill;
use async_trait::async_trait;
use piton_core::call::{Access, BackgroundAgent, Outcome, Status, TaskBegan, TaskNews};
use piton_core::event::{Event, Origin};
use piton_core::ids::{CallId, SessionId};
use piton_core::message::ToolCall;
use piton_core::turn::State;
use piton_tools::executor::OutputSink;
use piton_tools::host::Delegate;
use piton_tools::skill;
use piton_tools::subagent;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What is recorded before a subagent begins: whose session answers the call. `None`: that is on record, or nobody's does.
pub(super) fn delegated(call: &ToolCall, cx: &JobContext<'_>) -> Option<Step> {
    if !is_delegated(call, cx) || cx.session.child(&call.id).is_some() {
        return None;
    }
    let input = asked(call, cx)?;
    if cx.session.delegated_in_turn() >= MOST_IN_TURN {
        let text =
            format!("{MOST_IN_TURN} subagents have been called in this turn, and no more may: do the rest yourself.");
        return Some(Step::Record(vec![settled(call.id.clone(), Outcome::failed(text))]));
    }
    let child = match input.session() {
        None => cx.services.world.session_id(),
        Some(known) => match refused_to_go_on(&known, cx) {
            Some(why) => {
                let text = format!("task: {why}. Leave task_id out to begin anew.");
                return Some(Step::Record(vec![settled(call.id.clone(), Outcome::failed(text))]));
            }
            None => known,
        },
    };
    let agent = own_name(&input, cx);
    Some(Step::Record(vec![Event::Delegated { call: call.id.clone(), child, agent }]))
}

/// Why a conversation cannot go on by this id.
fn refused_to_go_on(child: &SessionId, cx: &JobContext<'_>) -> Option<&'static str> {
    if !cx.session.has_called(child) {
        return Some("no subagent of this session has that task_id");
    }
    cx.session
        .children()
        .any(|open| open == child)
        .then_some("the subagent of that task_id is at work; wait for its answer")
}

/// Whether all that a call does is wait for a subagent.
pub(super) fn awaits_subagent(call: &ToolCall, session: &State) -> bool {
    session.child(&call.id).is_some() || [subagent::OUTPUT, subagent::STOP].contains(&call.name.as_str())
}

fn is_delegated(call: &ToolCall, cx: &JobContext<'_>) -> bool {
    cx.session.plan(&call.id).is_some_and(|plan| plan.accesses.contains(&Access::Spawn))
}

/// What a subagent shall do: what a call of `task` says, or a skill that is done in a session of its own. Where nobody can be called, the
/// model is given the skill itself.
fn asked(call: &ToolCall, cx: &JobContext<'_>) -> Option<subagent::Input> {
    let Some((skill, words)) = skill(call, cx) else {
        return call.input.value().and_then(|input| subagent::Input::read(input).ok());
    };
    let (settings, policy) = (&cx.services.settings, cx.session.policy());
    let has_task = settings.tools.get(subagent::NAME).is_some() && policy.calls.enables(subagent::NAME);
    let is_forbidden = |agent: &str| {
        let agent = cx.services.settings.agents.called(agent).map_or(agent, |agent| &agent.name);
        policy.permission.forbid(subagent::NAME) || policy.permission.forbid_use(subagent::NAME, agent)
    };
    let fork = skill.fork.as_ref().filter(|fork| has_task && !is_forbidden(fork.agent()))?;
    Some(subagent::Input {
        description: format!("{} {}", skill::NAME, skill.name()),
        prompt: skill.given.placed(&words),
        subagent_type: Some(fork.agent().to_owned()),
        task_id: None,
        model: fork.model.clone(),
        background: None,
        isolation: None,
    })
}

/// The agent's name here, where it is called by another.
fn own_name(input: &subagent::Input, cx: &JobContext<'_>) -> String {
    let called = cx.services.settings.agents.called(input.agent());
    called.map_or_else(|| input.agent().to_owned(), |agent| agent.name.clone())
}

/// The skill that a call is for, with the words for it.
fn skill<'c>(call: &ToolCall, cx: &JobContext<'c>) -> Option<(&'c Arc<Skill>, String)> {
    let input = call.input.value().filter(|_| call.name == skill::NAME)?;
    let input = skill::Input::read(input).ok()?;
    let skill = cx.services.settings.skills.get(input.skill()?)?;
    Some((skill, input.arguments.unwrap_or_default()))
}

/// The agent that is called, which thinks as much as a skill wants.
fn run_by(call: &ToolCall, input: &subagent::Input, cx: &JobContext<'_>) -> Option<Arc<Agent>> {
    let agent = cx.services.settings.agents.called(input.agent())?;
    let effort = skill(call, cx).and_then(|(skill, _)| skill.fork.as_ref()?.effort);
    Some(match effort {
        Some(_) => Arc::new(Agent { effort, ..Agent::clone(agent) }),
        None => Arc::clone(agent),
    })
}

/// Who has the call answered by a subagent, where it is.
pub(super) fn delegation(call: &ToolCall, cx: &JobContext<'_>) -> Option<Arc<dyn Delegate>> {
    let child = cx.session.child(&call.id)?.clone();
    let input = asked(call, cx)?;
    let run_by = run_by(call, &input, cx);
    let in_background = input.background.or(run_by.as_ref().map(|agent| agent.background)) == Some(true);
    let work = BackgroundAgent {
        session: child,
        goes_on: input.session().is_some(),
        agent: own_name(&input, cx),
        title: input.title(),
        model: input.model.clone(),
        prompt: input.prompt,
        worktree: input.isolation.is_some() || run_by.as_ref().is_some_and(|agent| agent.worktree),
    };
    if in_background && call.name == subagent::NAME {
        return Some(Arc::new(LeftAtWork { call: call.id.clone(), work }));
    }
    let order = order(&call.id, work, run_by, cx);
    Some(Arc::new(Delegation { nursery: Arc::clone(&cx.services.tree.nursery), order }))
}

/// What a subagent shall do, and how its session is run.
fn order(call: &CallId, work: BackgroundAgent, run_by: Option<Arc<Agent>>, cx: &JobContext<'_>) -> Order {
    let Services { settings, tree, bus, .. } = cx.services;
    let left = tree.kin.left(&work.session);
    let mode = if cx.session.is_in_turn() { cx.session.policy().mode } else { settings.policy.mode };
    let BackgroundAgent { session, goes_on, agent, title, prompt, model, worktree } = work;
    Order {
        parent: Origin { session: cx.session.id().clone(), seq: bus.now().seq, call: Some(call.clone()) },
        child: session,
        goes_on,
        agent,
        title,
        prompt,
        run_by,
        model,
        caller: Caller { settings: settings.clone(), mode, left },
        workspace: PathBuf::from(cx.session.workspace()),
        worktree,
        kin: tree.kin.child(),
        bus: bus.clone(),
    }
}

/// Has a subagent in the background work until it is over, whatever the turn does. After a restart it goes on where it was, or is
/// found to be over.
pub(super) fn attend(call: &CallId, work: &BackgroundAgent, cx: &JobContext<'_>) -> Step {
    let run_by = cx.services.settings.agents.called(&work.agent).cloned();
    let order = order(call, work.clone(), run_by, cx);
    let (nursery, stop) = (Arc::clone(&cx.services.tree.nursery), CancellationToken::new());
    let spill = Spill {
        cut: cx.session.policy().calls.output_cut,
        folder: cx.services.calls_dir(),
        call: call.clone(),
        firewall: cx.services.firewall.clone(),
    };
    let (of, broken, stopped) = (call.clone(), call.clone(), stop.clone());
    let (agent, title) = (work.agent.clone(), format!("{}: {}", work.agent, work.title));
    let task = call.clone();
    let work = async move {
        let mut outcome = nursery.attend(&task, &order, &stopped).await;
        cap(&mut outcome, &spill);
        outcome
    };
    let ended = |outcome: Outcome, _: &mut JobContext<'_>| vec![Event::TaskEnded { task: of, outcome }];
    let lost = move |why: &str, _: &mut JobContext<'_>| {
        let text = format!("[interrupted] Piton lost sight of this subagent: {why}.");
        let outcome = Outcome::new(Status::Interrupted, text).titled(title).with(json!({ "agent": agent }));
        vec![Event::TaskEnded { task: broken, outcome }]
    };
    Step::Start(Task::new(work, ended).when_broken(lost).stopped_by(stop))
}

/// The answer to a call whose subagent works in the background. That itself is started by what the answer says of it.
#[derive(Debug)]
struct LeftAtWork {
    call: CallId,
    work: BackgroundAgent,
}

#[async_trait]
impl Delegate for LeftAtWork {
    async fn delegate(&self, stop: &CancellationToken, _: &OutputSink) -> Outcome {
        if stop.is_cancelled() {
            return Outcome::new(Status::Cancelled, "Cancelled before the subagent began.");
        }
        let BackgroundAgent { session, agent, title, .. } = &self.work;
        let text = format!(
            "The subagent {agent} works in the background. You will be told of its end. task_output says how far it is, task_stop \
             stops it.\n\n[task_id: {session}]"
        );
        let command = format!("{agent}: {title}");
        let titled = format!("{} {command} (in the background: {})", subagent::NAME, self.call);
        let began = TaskBegan { command, notify: true, subagent: Some(Box::new(self.work.clone())) };
        let news = TaskNews { task: self.call.clone(), began: Some(began), read_to: 0, is_over: false };
        Outcome::ok(text).titled(titled).with(json!({"session": session, "agent": agent})).about(news)
    }
}

fn settled(call: CallId, outcome: Outcome) -> Event {
    Event::CallSettled { call, outcome }
}
