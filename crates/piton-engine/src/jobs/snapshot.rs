//! Taking a snapshot of the workspace. A restart takes it anew, a cancel drops it; a panic, like any other failure, leaves
//! the turn without one.

use super::{JobContext, PANICKED, Step, Task};
use piton_core::client::Live;
use piton_core::event::{Event, Moment};
use piton_core::hidden;
use piton_tools::snapshot::{NotCovered, Snapshot, Snapshots, Uncovered};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Nobody notices a wait of this length.
const SHORT: Duration = Duration::from_millis(5);
/// Whoever waits for longer than this wants to know what for.
const LONG: Duration = Duration::from_millis(500);

struct Taken {
    taken: Result<Snapshot, String>,
    took: Duration,
}

pub(super) fn take_up(moment: Moment, cx: &mut JobContext<'_>) -> Step {
    let settings = &cx.services.settings;
    let store = settings.snapshots.clone();
    if !settings.shares_runtime && cx.memory.snapshot_took <= SHORT {
        // This spares a commit: what waits for it becomes durable together with it.
        let taken = in_place(|| take(store.as_deref()));
        return Step::Record(vec![event(moment, taken, cx)]);
    }
    let bus = cx.services.bus.clone();
    let work = async move {
        let mut taking = tokio::task::spawn_blocking(move || take(store.as_deref()));
        let taken = tokio::select! {
            biased;
            taken = &mut taking => taken,
            () = tokio::time::sleep(LONG) => {
                bus.live(Live::SnapshotSlow {});
                taking.await
            }
        };
        taken.unwrap_or_else(|_| Taken::failed(PANICKED))
    };
    Step::Start(Task::new(work, move |taken, cx| vec![event(moment, taken, cx)]))
}

/// On the driver's own thread, which a panic must not take with it.
fn in_place(take: impl FnOnce() -> Taken) -> Taken {
    catch_unwind(AssertUnwindSafe(take)).unwrap_or_else(|_| Taken::failed(PANICKED))
}

fn take(store: Option<&Snapshots>) -> Taken {
    let began = Instant::now();
    let taken = match store {
        Some(store) => store.take().map_err(|error| error.to_string()),
        None => Err("this Piton keeps no snapshots".to_owned()),
    };
    Taken { taken, took: began.elapsed() }
}

impl Taken {
    fn failed(why: &str) -> Self {
        Self { taken: Err(why.to_owned()), took: Duration::MAX }
    }
}

fn notice(Uncovered { path, why }: &Uncovered) -> String {
    let name = hidden::visible_name(&path.to_string_lossy());
    match why {
        NotCovered::BeyondLimit { .. } if name.is_empty() => format!("undo will not cover all of the workspace: {why}"),
        NotCovered::BeyondLimit { .. } => format!("undo will not cover all of {name}: {why}"),
        _ => format!("undo will not cover {name}: {why}"),
    }
}

fn event(moment: Moment, Taken { taken, took }: Taken, cx: &mut JobContext<'_>) -> Event {
    cx.memory.snapshot_took = took;
    let (tree, notices) = match taken {
        Ok(snapshot) => (Some(snapshot.id.to_string()), snapshot.notices.iter().map(notice).collect()),
        Err(error) => (None, vec![format!("no snapshot could be made for undo: {error}")]),
    };
    Event::SnapshotTaken { step: cx.session.step(), moment, tree, notices }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_place_is_a_snapshot_that_failed_and_the_next_one_is_taken_elsewhere() {
        let taken = in_place(|| panic!("a bug"));
        assert_eq!(taken.taken.err().as_deref(), Some(PANICKED));
        assert!(taken.took > SHORT, "what panicked is not tried in place again");
        let taken = in_place(|| Taken { taken: Err("a reason".to_owned()), took: Duration::ZERO });
        assert_eq!((taken.taken.err().as_deref(), taken.took), (Some("a reason"), Duration::ZERO));
    }
}
