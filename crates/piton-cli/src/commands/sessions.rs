//! `piton session …`: sessions as things. `find` says which one is meant; what is done with it has a module each.

pub(crate) mod find;
pub(crate) mod pick;
mod agents;
mod show;
mod audit;
mod configure;
mod export;
pub(crate) mod list;
pub(crate) mod said;
mod trash;
mod mend;
mod pictures;
mod processes;
mod shell;

use crate::cli::SessionCommand;
use crate::commands::branches;
use crate::commands::compact;
use crate::commands::cost;
use crate::commands::trace;
use crate::failure::Result;
use crate::run::follow;
use crate::surroundings::Surroundings;
use piton_core::client::Configure;
use piton_engine::engine::Engine;

/// Obeys one of the session commands.
pub(crate) async fn session(command: SessionCommand, around: &Surroundings) -> Result<u8> {
    let engine = Engine::open(&around.machine.data_dir);
    let find = |name: &str| find::find(&engine, around, name);
    let meant = |name: Option<String>| find::meant(&engine, around, name.as_deref());
    match command {
        SessionCommand::List(args) => list::list(&engine, &args, around).await?,
        SessionCommand::Show { id, json, audit: true, .. } => audit::audit(&engine, &meant(id)?, json).await?,
        SessionCommand::Show { id, full, json, audit: false } => show::show(&engine, &meant(id)?, full, json).await?,
        SessionCommand::Follow { id, from, format, tree } => {
            return follow::follow(&engine, &meant(id)?, from, (format, tree), around).await;
        }
        SessionCommand::Shell { id, command, private, json } => {
            return shell::shell(&engine, &find(&id)?, &command, private, json).await;
        }
        SessionCommand::Pause { id } => return follow::pause(&engine, &meant(id)?, true).await,
        SessionCommand::Continue { id } => return follow::pause(&engine, &meant(id)?, false).await,
        SessionCommand::Cancel { id } => return follow::cancel(&engine, &meant(id)?).await,
        SessionCommand::Processes { id, keep, release, json } => {
            processes::list(&engine, &meant(id)?, &keep, &release, json).await?;
        }
        SessionCommand::Kill { id, tasks, json } => return processes::kill(&engine, &find(&id)?, &tasks, json).await,
        SessionCommand::Context(args) => pictures::context(&engine, &meant(args.id.clone())?, &args, around).await?,
        SessionCommand::Cache(args) => pictures::cache(&engine, &meant(args.id.clone())?, &args).await?,
        SessionCommand::Cost { id, tree, json } => cost::cost(&engine, &meant(id)?, tree, json).await?,
        SessionCommand::Compact(args) => return compact::compact(args, around).await,
        SessionCommand::Trace(args) => return trace::trace(&engine, &meant(args.id.clone())?, &args, around).await,
        SessionCommand::Tree { id } => branches::tree(&engine, &meant(id)?).await?,
        SessionCommand::Fork { id, at } => branches::fork(&engine, &meant(id)?, at).await?,
        SessionCommand::Rename { id, title } => configure::rename(&engine, &find(&id)?, &title).await?,
        SessionCommand::Model { id, model } => {
            let changed = Configure { model: Some(model), ..Configure::default() };
            configure::configure(&engine, &find(&id)?, changed, around).await?;
        }
        SessionCommand::Effort { id, level } => {
            let changed = Configure { effort: Some(level), ..Configure::default() };
            configure::configure(&engine, &find(&id)?, changed, around).await?;
        }
        SessionCommand::Mode { id, mode } => {
            let changed = Configure { mode: Some(mode), ..Configure::default() };
            configure::configure(&engine, &find(&id)?, changed, around).await?;
        }
        SessionCommand::Tools { id, tools } => {
            let changed = Configure { tools: Some(tools), ..Configure::default() };
            configure::configure(&engine, &find(&id)?, changed, around).await?;
        }
        SessionCommand::Agents { id, json } => agents::list(&engine, &meant(id)?, json).await?,
        SessionCommand::Export(args) => export::export(&engine, &meant(args.id.clone())?, &args, around).await?,
        SessionCommand::Import { file } => export::import(&engine, &file, around).await?,
        SessionCommand::Rm { ids } => {
            // All are found before the first is moved: `-1 -2` mean the list as it is now.
            let ids = ids.iter().map(|id| find(id)).collect::<Result<Vec<_>>>()?;
            trash::remove(&engine, &ids).await?;
        }
        SessionCommand::Trash { empty, json } => trash::trash(&engine, empty, json)?,
        SessionCommand::Restore { id } => trash::restore(&engine, &id, around).await?,
        SessionCommand::Prune(args) => return trash::prune(&engine, &args, around).await,
        SessionCommand::Verify { id } => return mend::verify(&engine, &meant(id)?).await,
        SessionCommand::Repair { id } => mend::repair(&engine, &meant(id)?).await?,
    }
    Ok(0)
}
