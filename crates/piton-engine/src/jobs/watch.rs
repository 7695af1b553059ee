//! Showing hooks that only watch what is durable, in order. They are waited for, so that none lags behind: while they look,
//! nothing new is started. What they do changes nothing of the turn, unless a required one fails: that ends it.
//!
//! After a restart they do not see again what they missed. A cancel does not end it. A hook that panics is caught where hooks
//! are run, and what went wrong with one is recorded.

use super::{JobContext, Task};
use crate::hooks::{Gated, HookContext, Suspicions, WatchedEvent};
use piton_core::event::Event;
use piton_core::hook::HookPoint;
use std::sync::Arc;
use std::time::Duration;

/// The time that hooks have together when a session is left.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What hooks have yet to see, each with where it happened.
pub(crate) type WatchedEvents = Vec<(Arc<HookContext>, WatchedEvent)>;

/// Shows hooks what happened.
pub(crate) fn show(watched: WatchedEvents, cx: &JobContext<'_>) -> Task {
    let hooks = cx.services.hooks.clone();
    let work = async move {
        for (at, watched) in watched {
            hooks.see(&at, watched).await;
        }
    };
    Task::new(work, |(), cx| cx.suspicions().into_iter().collect())
}

/// The session is being left: what hooks did since the last step. Whoever takes longer is not heard.
pub(crate) async fn goodbye(cx: &JobContext<'_>) {
    if cx.want(HookPoint::SessionEnd) {
        drop(
            tokio::time::timeout(LAST_WORDS, cx.services.hooks.see(&cx.hook_context(), WatchedEvent::SessionEnd)).await,
        );
    }
}

/// What hooks that watch took of the step that is over.
pub(crate) fn watched(cx: &JobContext<'_>) -> Option<Event> {
    let Suspicions { runs, stopped } = cx.services.hooks.watched();
    cx.ran(Gated { runs, stopped, ..Gated::new(HookPoint::Step) })
}
