//! What turns have changed in the workspace: files and lines, by the snapshots before and after.

use crate::failure::Result;
use piton_core::branch::Trees;
use piton_engine::rewind::RewindError;
use piton_tools::snapshot::{Snapshots, TreeId};
use piton_tui::rewind::Changed;

/// The first and the last of these states; `None`: one of them is not known.
pub(crate) fn ends<'t>(known: impl Iterator<Item = &'t Trees>) -> Result<Option<(TreeId, TreeId)>> {
    let known: Vec<&Trees> = known.collect();
    let before = known.iter().find_map(|trees| trees.before.clone());
    let after = known.iter().rev().find_map(|trees| trees.after.clone());
    let Some((before, after)) = before.zip(after) else { return Ok(None) };
    let id = |name: String| name.parse::<TreeId>().map_err(RewindError::from);
    Ok(Some((id(before)?, id(after)?)))
}

/// How many files and lines differ between two states.
pub(crate) fn total(snapshots: &Snapshots, (before, after): (TreeId, TreeId)) -> Result<Changed> {
    let changes = snapshots.diff(before, after)?;
    let lines = || changes.iter().filter_map(|change| change.lines);
    Ok(Changed {
        files: changes.len(),
        added: lines().map(|lines| lines.added).sum(),
        removed: lines().map(|lines| lines.removed).sum(),
    })
}
