//! Which session is meant: by its id, its title, its place in the list, or by whoever sits at the terminal.

use super::{list, pick};
use crate::failure::{Context, Failure, Result, bail, ensure};
use crate::out::print;
use crate::surroundings::Surroundings;
use piton_core::ids::SessionId;
use piton_engine::engine::Engine;
use piton_engine::store::sqlite::index::{Index, IndexError, Query};
use std::path::Path;

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

/// The session to go on with, if one is wanted: the one that is named (`""`: the one that a person chooses), or the newest
/// of this folder.
pub(crate) fn to_resume(
    name: Option<&str>,
    newest: bool,
    engine: &Engine,
    workspace: &Path,
    around: &Surroundings,
) -> Result<Option<SessionId>> {
    match name {
        Some(name) if !name.is_empty() => return Ok(Some(find(engine, around, name)?)),
        Some(_) => return Ok(Some(pick::pick(engine, around, workspace)?)),
        None if !newest => return Ok(None),
        None => {}
    }
    let index = engine.index()?;
    let newest = index.newest(workspace)?;
    // Ids begin with the time. One that cannot be read may be the one that is meant.
    let in_doubt = index.unreadable().iter().find(|(id, _)| newest.as_ref().is_none_or(|newest| id > newest));
    if let Some((id, error)) = in_doubt {
        bail!(
            "the newest session may be {id}, and that cannot be read: {error}. Name the one to go on with: --resume ID"
        );
    }
    let newest = newest.with_context(|| format!("there is no session of {} to go on with", workspace.display()))?;
    Ok(Some(newest))
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
    let summaries = index.select(&Query { with_children: true, ..Query::default() }).unwrap_or_default();
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
    Failure::user(format!("{error}:\n{}", print::indent(&lines.join("\n")))).hint("Use a longer id.")
}
