//! `piton session …`: sessions as things. Which one is meant is found here; what is done with it has a module each.

mod list;
mod show;
mod export;
mod trash;
mod mend;
mod pick;
mod said;

pub(crate) use pick::pick;

use crate::cli::SessionCommand;
use crate::commands::branches;
use crate::commands::compact;
use crate::commands::cost;
use crate::commands::trace;
use crate::out::report::Usage;
use crate::out::view;
use crate::run::follow;
use crate::surroundings::Surroundings;
use piton_core::ids::SessionId;
use piton_engine::engine::Engine;
use piton_engine::index::{Index, IndexError};

/// Obeys one of the session commands.
pub(crate) async fn session(command: SessionCommand, around: &Surroundings) -> anyhow::Result<u8> {
    let engine = Engine::open(&around.data_dir);
    let find = |name: &str| find(&engine, around, name);
    let meant = |name: Option<String>| meant(&engine, around, name.as_deref());
    match command {
        SessionCommand::List(args) => list::list(&engine, &args, around).await?,
        SessionCommand::Show { id, full, json } => show::show(&engine, &meant(id)?, full, json).await?,
        SessionCommand::Follow { id, from, format } => {
            return follow::follow(&engine, &meant(id)?, from, format, around).await;
        }
        SessionCommand::Pause { id } => return follow::pause(&engine, &meant(id)?, true).await,
        SessionCommand::Continue { id } => return follow::pause(&engine, &meant(id)?, false).await,
        SessionCommand::Cancel { id } => return follow::cancel(&engine, &meant(id)?).await,
        SessionCommand::Cost { id, json } => cost::cost(&engine, &meant(id)?, json).await?,
        SessionCommand::Compact(args) => return compact::compact(args, around).await,
        SessionCommand::Trace(args) => return trace::trace(&engine, &meant(args.id.clone())?, &args, around).await,
        SessionCommand::Tree { id } => branches::tree(&engine, &meant(id)?).await?,
        SessionCommand::Fork { id, at } => branches::fork(&engine, &meant(id)?, at).await?,
        SessionCommand::Rename { id, title } => rename(&engine, &find(&id)?, &title).await?,
        SessionCommand::Export(args) => export::export(&engine, &meant(args.id.clone())?, &args, around).await?,
        SessionCommand::Import { file } => export::import(&engine, &file).await?,
        SessionCommand::Rm { ids } => {
            // All are found before the first is moved: `-1 -2` mean the list as it is now.
            let ids = ids.iter().map(|id| find(id)).collect::<anyhow::Result<Vec<_>>>()?;
            trash::remove(&engine, &ids).await?;
        }
        SessionCommand::Trash { empty, json } => trash::trash(&engine, empty, json)?,
        SessionCommand::Restore { id } => trash::restore(&engine, &id, around)?,
        SessionCommand::Prune(args) => return trash::prune(&engine, &args, around).await,
        SessionCommand::Verify { id } => return mend::verify(&engine, &meant(id)?).await,
        SessionCommand::Repair { id } => mend::repair(&engine, &meant(id)?).await?,
    }
    Ok(0)
}

/// The session that is named; where none is, the one that a person at the terminal chooses.
pub(crate) fn meant(engine: &Engine, around: &Surroundings, name: Option<&str>) -> anyhow::Result<SessionId> {
    match name {
        Some(name) => find(engine, around, name),
        None if pick::can_ask(around) => pick::choose(engine, &around.workspace(None).unwrap_or_default(), "Which one?"),
        None => Err(Usage(
            "which session? Name one: an id, a title, `last`, or `-2` for the one before. `piton session list` shows them",
        )
        .into()),
    }
}

/// The session that is meant: by its id or the beginning of one, its title, or its place in the list of this folder.
pub(crate) fn find(engine: &Engine, around: &Surroundings, name: &str) -> anyhow::Result<SessionId> {
    let index = engine.index()?;
    // A folder that is gone has no sessions to count; ids and titles still mean what they mean.
    let here = around.workspace(None).unwrap_or_default();
    index.named(name, &here).map_err(|error| with_candidates(&index, error))
}

/// Who has it open may be in the middle of something.
async fn must_be_closed(engine: &Engine, id: &SessionId) -> anyhow::Result<()> {
    let is_open = engine.store().holder(id).await.is_some();
    anyhow::ensure!(!is_open, "{id} is open in another piton; close that one first");
    Ok(())
}

async fn rename(engine: &Engine, id: &SessionId, title: &str) -> anyhow::Result<()> {
    must_be_closed(engine, id).await?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    engine.rename(id, &title).await?;
    let what = if title.is_empty() { "has the words of its first prompt for a title again" } else { "renamed" };
    view::write_stderr(&format!("{id} {what}\n"));
    Ok(())
}

/// An ambiguous name is answered with those that it fits, so that the next try can be the last.
fn with_candidates(index: &Index, error: IndexError) -> anyhow::Error {
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
    anyhow::anyhow!("{error}:\n{}\nWrite more of the id.", view::indent(&lines.join("\n")))
}
