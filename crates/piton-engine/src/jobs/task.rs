//! Watching a command or a subagent in the background until it is over, whatever the turn does.
//!
//! After a restart it is found where it is: still running under its runner, or over. A cancel of the turn does not touch it; it is
//! stopped where the session is left. A panic is an end, too: nobody knows of the command any more, and its runner ends it.

use super::{JobContext, Step, Task, subagents};
use piton_core::call::{Outcome, Status};
use piton_core::event::Event;
use piton_core::ids::CallId;
use piton_tools::bash;
use piton_tools::executor::{Boot, CommandWatch};
use std::sync::Arc;

pub(super) fn watch(id: &CallId, cx: &JobContext<'_>) -> Step {
    let Some(task) = cx.session.tasks().find(id) else { return Step::Wait };
    if let Some(work) = &task.subagent {
        return subagents::attend(id, work, cx);
    }
    let boot = if task.is_of_this_boot { Boot::Current } else { Boot::Earlier };
    let (executor, watch) = (Arc::clone(&cx.services.executor), CommandWatch::default());
    let (stop, command) = (watch.stop.clone(), task.command.clone());
    let (of, own, broken) = (id.clone(), id.clone(), id.clone());
    let firewall = cx.services.firewall.clone();
    let work = async move {
        let record = executor.attend(&own, boot, &watch).await;
        bash::ended(&own, &command, record, (&*executor, &firewall)).await
    };
    let ended = |outcome: Outcome, _: &mut JobContext<'_>| vec![Event::TaskEnded { task: of, outcome }];
    let lost = move |why: &str, _: &mut JobContext<'_>| {
        let text = format!("[interrupted] Piton lost sight of this command: {why}.");
        vec![Event::TaskEnded { task: broken, outcome: Outcome::new(Status::Interrupted, text) }]
    };
    Step::Start(Task::new(work, ended).when_broken(lost).stopped_by(stop))
}
