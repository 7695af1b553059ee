//! Taking a snapshot of the workspace. A restart takes it anew; a panic, like any other failure, leaves the turn without one.

use super::Done;
use piton_core::event::Moment;
use piton_tools::snapshot::Snapshots;
use std::time::{Duration, Instant};

/// Puts the workspace down, here and now.
pub(crate) fn take(moment: Moment, store: Option<&Snapshots>) -> Done {
    let began = Instant::now();
    let taken = match store {
        Some(store) => store.take().map_err(|error| error.to_string()),
        None => Err("this Piton keeps no snapshots".to_owned()),
    };
    Done::Snapshot { moment, taken, took: began.elapsed() }
}

/// It panicked. Which of the two it was does not matter: no snapshot was taken.
pub(super) fn broken(why: &str) -> Done {
    Done::Snapshot { moment: Moment::Before, taken: Err(why.to_owned()), took: Duration::MAX }
}
