//! What the face is told of a session that is gone on with: its end, and of what came before only what it shows all the time. The rest
//! stays in the journal, where pages read it when they are opened.

use super::Chat;
use crate::failure::Result;
use piton_core::client::Published;
use piton_core::event::{Delivery, Event, Record};
use piton_core::ids::Seq;
use piton_engine::engine::Handle;
use piton_engine::store::Store;
use piton_tui::face::Input;
use std::sync::Arc;

/// Records at a session's end that are told: some turns, or the end of a long one.
const MOST: u64 = 2_000;
/// What counts of all that came before.
const KINDS: [&str; 4] = ["session_started", "workspace_moved", "title_given", "rewind_finished"];

impl Chat<'_> {
    /// Tells the face what happened last in a long session. The position from which on the session tells the rest; `None`: it tells all.
    pub(super) async fn tell_recent(&mut self, session: &Handle) -> Result<Option<Seq>> {
        let from = session.opened_at().saturating_sub(MOST);
        // A script of the status line is told what all of it came to.
        if from < MOST || self.status.is_some() {
            return Ok(None);
        }
        let (store, id) = (session.store(), session.id());
        let summary = store.summary(id).await?;
        let mut last = store.read(id, from, usize::MAX).await?;
        let Some((first, is_within)) = beginning(&last) else { return Ok(None) };
        last.drain(..first);
        let Some((first, next)) = last.first().zip(last.last()).map(|(first, last)| (first.seq, last.seq + 1)) else {
            return Ok(None);
        };
        let before = before(first, is_within, session, &**store).await?;
        for record in before.into_iter().chain(last) {
            self.terminal.hear(Published::Recorded(Arc::new(record)));
        }
        self.terminal.tell(Input::Spent(summary.cost_micros));
        if is_within {
            self.note("the turn is long: its end is shown here, and all of it by /transcript");
        }
        Ok(Some(next))
    }
}

/// Where the first whole turn begins among these records; without one, the first step, within a turn.
fn beginning(records: &[Record]) -> Option<(usize, bool)> {
    let ended = records.iter().position(|record| matches!(record.event, Event::TurnEnded { .. }));
    let has_more = |at: usize| records[at..].iter().any(|record| matches!(record.event, Event::TurnStarted { .. }));
    if let Some(at) = ended.map(|at| at + 1).filter(|at| has_more(*at)) {
        return Some((at, false));
    }
    let step = records.iter().position(|record| matches!(record.event, Event::StepStarted { .. }))?;
    Some((step, true))
}

/// What counts of the records before this one, in order.
async fn before(first: Seq, is_within: bool, session: &Handle, store: &dyn Store) -> Result<Vec<Record>> {
    let of_kinds = async |kinds: &[&str]| -> Result<Vec<Record>> {
        let mut found = store.of_kinds(session.id(), kinds).await?;
        found.retain(|record| record.seq < first);
        Ok(found)
    };
    let mut all = of_kinds(&KINDS).await?;
    // Only the newest list counts.
    all.extend(of_kinds(&["todo"]).await?.pop());
    // What is said next is counted to the turn before it.
    let turn = of_kinds(&["turn_started"]).await?.pop();
    if is_within {
        let since = turn.as_ref().map_or(0, |turn| turn.seq);
        // What waits for the turn's end waits still.
        let waits = |record: &Record| {
            matches!(record.event, Event::UserSpoke { delivery: Delivery::FollowUp, .. }) && record.seq > since
        };
        all.extend(of_kinds(&["user_spoke", "message_unqueued", "message_moved"]).await?.into_iter().filter(
            |record| {
                waits(record) || matches!(record.event, Event::MessageUnqueued { .. } | Event::MessageMoved { .. })
            },
        ));
    }
    all.extend(turn);
    all.sort_by_key(|record| record.seq);
    Ok(all)
}
