//! Which session is meant: by its id, its title, its place in the list, or by whoever sits at the terminal.

use super::{list, pick};
use crate::failure::{Failure, Result, ensure};
use crate::out::print;
use crate::surroundings::Surroundings;
use piton_core::ids::SessionId;
use piton_engine::engine::Engine;
use piton_engine::store::sqlite::index::{Index, IndexError};

/// The session that is named; where none is, the one that a person at the terminal chooses.
pub(crate) fn meant(engine: &Engine, around: &Surroundings, name: Option<&str>) -> Result<SessionId> {
    match name {
        Some(name) => find(engine, around, name),
        None if pick::can_ask(around) => {
            pick::choose(engine, &around.workspace(None).unwrap_or_default(), "Which one?")
        }
        None => Err(Failure::usage(
            "which session? Name one: an id, a title, `last`, or `-2` for the one before. `piton session list` shows them",
        )),
    }
}

/// The session that is meant: by its id or the beginning of one, its title, or its place in the list of this folder.
pub(crate) fn find(engine: &Engine, around: &Surroundings, name: &str) -> Result<SessionId> {
    let index = engine.index()?;
    // A folder that is gone has no sessions to count; ids and titles still mean what they mean.
    let here = around.workspace(None).unwrap_or_default();
    index.named(name, &here).map_err(|error| with_candidates(&index, error))
}

/// Who has it open may be in the middle of something.
pub(crate) async fn must_be_closed(engine: &Engine, id: &SessionId) -> Result<()> {
    let is_open = engine.store().holder(id).await.is_some();
    ensure!(!is_open, "{id} is open in another piton; close that one first");
    Ok(())
}

/// An ambiguous name is answered with those that it fits, so that the next try can be the last.
pub(crate) fn with_candidates(index: &Index, error: IndexError) -> Failure {
    const MOST: usize = 10;
    let IndexError::Ambiguous { found, .. } = &error else { return error.into() };
    let summaries = index.list(None, usize::MAX).unwrap_or_default();
    let mut lines: Vec<String> = found
        .iter()
        .take(MOST)
        .map(|id| match summaries.iter().find(|summary| summary.id == *id) {
            Some(summary) => list::line(summary, None, None),
            None => format!("{id}  (cannot be read)"),
        })
        .collect();
    let more = found.len().saturating_sub(MOST);
    if more > 0 {
        lines.push(format!("… and {more} more"));
    }
    Failure::user(format!("{error}:\n{}", print::indent(&lines.join("\n")))).hint("Write more of the id.")
}
