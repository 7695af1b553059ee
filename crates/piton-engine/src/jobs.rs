//! Jobs: what a turn wants to be under way, and what goes on beside it, each in a file of its own. A job is a function of
//! data: of what the session is and what this process has for it ([`JobContext`]). It comes to events at once, or to a
//! [`Task`] that ends in events. No job knows the driver, so one on another runtime can use the same functions.
//!
//! ```text
//!   wanted ── take_up ──► Step::Record ───────────► events
//!                     └─► Step::Start ──► Task ──► ended · cut (no longer wanted) · broken (it panicked) ──► events
//! ```
//!
//! Each file says what a restart, a panic and a cancel mean to its job. To add one: its file, and its lines in [`take_up`],
//! [`recover`] and [`may_be_abandoned`], which do not compile without them.

mod approval;
mod command;
mod compact;
mod configure;
mod context;
mod find;
mod fork;
mod frames;
mod gate;
mod host;
mod judge;
mod model;
mod plan;
mod plans;
mod prompt;
mod reminders;
mod rewind;
mod shown;
mod snapshot;
mod spill;
mod subagents;
mod task;
mod title;
mod tool;
mod turn;
mod under_way;
mod wait;
mod watch;

pub(crate) use self::approval::answer;
pub(crate) use self::command::{Expanding, ask_agent, expand};
pub(crate) use self::compact::{AtRest, STOPPED, compacted, summary_at_rest};
pub(crate) use self::configure::{Opening, open_models, opened_for};
pub(crate) use self::context::{JobContext, Memory, ServersRun, Services, SessionTree};
pub(crate) use self::find::find_answer;
pub(crate) use self::fork::fork;
pub(crate) use self::frames::Frames;
pub(crate) use self::gate::{begin, show_command};
pub(crate) use self::host::{asked as host_asked, judged as host_judged};
pub(crate) use self::judge::{Writer, may_run};
pub(crate) use self::model::{window_changed, window_learned};
pub(crate) use self::plan::plan;
pub(crate) use self::prompt::{Called, UserMessage, hear, vet};
pub(crate) use self::reminders::with_reminders;
pub(crate) use self::rewind::{Rewinds, begin_rewind, finish_rewind, finished_files};
pub(crate) use self::title::title;
use self::under_way::PANICKED;
pub(crate) use self::under_way::{End, Jobs, Key, SideJob, Task};
pub(crate) use self::watch::{WatchedEvents, goodbye, show, watched};

use piton_core::call::Resume;
use piton_core::event::Event;
use piton_core::turn::{Job, State};

/// What taking up a job comes to.
pub(crate) enum Step {
    /// These events, at once.
    Record(Vec<Event>),
    /// Work that takes time, to be started once all that led to it is durable.
    Start(Task),
    /// Nothing: it waits for somebody else, such as a person with an answer.
    Wait,
}

/// Takes up a job of the turn.
pub(crate) fn take_up(job: &Job, cx: &mut JobContext<'_>) -> Step {
    match job {
        Job::StartTurn => turn::start(cx),
        Job::SwitchModel { reason } => turn::switch_model(reason, cx),
        Job::CallModel { step, attempt } => model::take_up(*step, *attempt, cx),
        Job::Wait { step, until_ms } => wait::back_off(*step, *until_ms, cx),
        Job::WatchDeadline { at_ms } => wait::deadline(*at_ms, cx),
        Job::AwaitAnswer { subject, until_ms } => wait::answer(subject, *until_ms, cx),
        Job::Pass(gate) => gate::take_up(gate, cx),
        Job::JudgeCall(call) => judge::take_up(call, cx),
        Job::AskApproval(subject) => approval::take_up(subject, cx),
        Job::RunTool(call) | Job::StopTool(call) => tool::take_up(call, cx),
        Job::Snapshot(moment) => snapshot::take_up(*moment, cx),
        Job::Compact(trigger) => compact::take_up(*trigger, cx),
        Job::WatchTask(id) => task::watch(id, cx),
    }
}

/// Measures what a killed process was at, by the rules that it had: before the turn goes on by ours.
pub(crate) fn measure_lost(job: &Job, cx: &mut JobContext<'_>) {
    if let Job::CallModel { .. } = job {
        model::measure_lost(cx);
    }
}

/// What is recorded of a job that a killed process was at, before it is taken up again.
pub(crate) fn recover(job: &Job, cx: &mut JobContext<'_>) -> Vec<Event> {
    match job {
        Job::CallModel { step, attempt } => model::recover(*step, *attempt, cx),
        Job::Compact(trigger) => compact::recover(*trigger, cx),
        Job::StartTurn
        | Job::SwitchModel { .. }
        | Job::Wait { .. }
        | Job::WatchDeadline { .. }
        | Job::AwaitAnswer { .. }
        | Job::Pass(_)
        | Job::JudgeCall(_)
        | Job::AskApproval(_)
        | Job::RunTool(_)
        | Job::StopTool(_)
        | Job::Snapshot(_)
        | Job::WatchTask(_) => Vec::new(),
    }
}

/// Whether this process may end in the middle of it, as a kill at a good moment: whoever goes on with the session finds the call again,
/// and what only waits is taken up anew.
pub(crate) fn may_be_abandoned(job: &Job, session: &State) -> bool {
    match job {
        Job::RunTool(call) | Job::StopTool(call) => {
            let resume = session.effects(&call.id).map_or(Resume::Never, |effects| effects.resume);
            // What only reads is over in a moment.
            matches!(resume, Resume::Reattach | Resume::Keyed)
        }
        Job::Wait { .. }
        | Job::WatchDeadline { .. }
        | Job::AwaitAnswer { .. }
        | Job::AskApproval(_)
        | Job::WatchTask(_) => true,
        Job::StartTurn
        | Job::SwitchModel { .. }
        | Job::CallModel { .. }
        | Job::Pass(_)
        | Job::JudgeCall(_)
        | Job::Snapshot(_)
        | Job::Compact(_) => false,
    }
}

/// Whether it is over when a subagent is, or is only to find out how far one is.
pub(crate) fn awaits_subagent(job: &Job, session: &State) -> bool {
    match job {
        Job::RunTool(call) | Job::StopTool(call) => subagents::awaits_subagent(call, session),
        Job::WatchTask(id) => session.child(id).is_some(),
        Job::StartTurn
        | Job::SwitchModel { .. }
        | Job::CallModel { .. }
        | Job::Wait { .. }
        | Job::WatchDeadline { .. }
        | Job::AwaitAnswer { .. }
        | Job::Pass(_)
        | Job::JudgeCall(_)
        | Job::AskApproval(_)
        | Job::Snapshot(_)
        | Job::Compact(_) => false,
    }
}
