//! Waiting for a time: the end of a back-off, the turn's deadline, the time in which a person may answer.
//!
//! After a restart the wait is for the same time, which may have passed by then. A cancel drops it. A panic leaves nothing on
//! record, and it is waited for again.

use super::{JobContext, Step, Task};
use piton_core::event::{Answerer, Event, Subject};
use piton_core::ids::TimeMs;
use piton_core::question::Decision;

/// Waits out a back-off.
pub(super) fn back_off(step: u32, until_ms: TimeMs, cx: &JobContext<'_>) -> Step {
    until(until_ms, Event::BackoffPassed { step }, cx)
}

/// Watches the wall clock.
pub(super) fn deadline(at_ms: TimeMs, cx: &JobContext<'_>) -> Step {
    until(at_ms, Event::DeadlinePassed {}, cx)
}

/// Waits for the end of the time in which a question may be answered.
pub(super) fn answer(subject: &Subject, until_ms: TimeMs, cx: &JobContext<'_>) -> Step {
    let (subject, by) = (subject.clone(), Some(Answerer::Nobody));
    until(until_ms, Event::ApprovalGiven { subject, decision: Decision::Expired, by }, cx)
}

fn until(at_ms: TimeMs, event: Event, cx: &JobContext<'_>) -> Step {
    let world = cx.services.world.clone();
    Step::Start(Task::new(async move { world.sleep_until(at_ms).await }, |(), _| vec![event]))
}
