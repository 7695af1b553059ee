//! Looking at what a rewind would do: the journal is read, and the files are compared with their snapshots.
//!
//! A restart loses it: whoever asked has no answer, and nothing has changed. A cancel drops it, and whoever asked is told. After
//! a panic whoever asked hears that the session gave no answer.

use super::{JobContext, Task};
use crate::error::EngineError;
use crate::inbox::Asker;
use crate::rewind::{self, RewindError};
use piton_core::client::{Reply, Scope};
use piton_core::event::Direction;

/// Works out a rewind, and tells who asked for it.
pub(crate) fn plan(direction: Direction, turns: u32, scope: Scope, asker: Asker, cx: &JobContext<'_>) -> Task {
    let (stored, session) = (cx.services.stored.clone(), cx.session.clone());
    let snapshots = cx.services.settings.snapshots.clone();
    let work = async move {
        let planned = match stored.records().await {
            Ok(_) if !session.is_at_rest() => Err(RewindError::MidTurn),
            Ok(records) => {
                let plan = move || rewind::plan(&records, &session, snapshots.as_deref(), direction, turns, scope);
                rewind::blocking(plan).await
            }
            Err(error) => Err(RewindError::Journal(error)),
        };
        asker.answer(planned.map(|plan| Reply::Planned(Box::new(plan))).map_err(EngineError::from));
    };
    Task::new(work, |(), _| Vec::new())
}
