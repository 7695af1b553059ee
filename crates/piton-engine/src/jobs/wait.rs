//! Waiting for a time: the end of a back-off, the turn's deadline.
//!
//! After a restart the wait is for the same time, which may have passed by then. A cancel drops it. A panic leaves nothing on
//! record, and it is waited for again.

use super::{JobContext, Step, Task};
use piton_core::event::Event;
use piton_core::ids::TimeMs;

/// Waits out a back-off.
pub(super) fn back_off(step: u32, until_ms: TimeMs, cx: &JobContext<'_>) -> Step {
    until(until_ms, Event::BackoffPassed { step }, cx)
}

/// Watches the wall clock.
pub(super) fn deadline(at_ms: TimeMs, cx: &JobContext<'_>) -> Step {
    until(at_ms, Event::DeadlinePassed {}, cx)
}

fn until(at_ms: TimeMs, event: Event, cx: &JobContext<'_>) -> Step {
    let world = cx.services.world.clone();
    Step::Start(Task::new(async move { world.sleep_until(at_ms).await }, |(), _| vec![event]))
}
