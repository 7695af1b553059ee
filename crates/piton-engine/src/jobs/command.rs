//! Looking for the command that somebody says, or the agent that they ask. Its file is read then, so that a change of it counts at once.
//!
//! A restart loses it: whoever said it has no answer, and says it again. A cancel drops it, and whoever said it is told. After a
//! panic the prompt is refused.

use super::Task;
use super::prompt::{AGENT, agent_name};
use crate::commands::{CommandError, Commands, Expanded};
use crate::directed::Directed;
use crate::settings::Settings;
use piton_core::template::Piece;
use piton_tools::files::Files;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where what a command comes to arrives; `None`: it is words like any others.
pub(crate) type Expanding = oneshot::Receiver<Result<Option<(Expanded, Directed)>, CommandError>>;

/// Looks for a command, puts words into its template, and finds the model and the agent that it names; what comes of it has arrived when the task has ended.
pub(crate) fn expand(
    name: String,
    words: String,
    workspace: PathBuf,
    (commands, settings): (Arc<dyn Commands>, Settings),
) -> (Task, Expanding) {
    let (found, expanding) = oneshot::channel();
    let work = async move {
        let looking = tokio::task::spawn_blocking(move || {
            let expanded = commands.expand(&name, &words, &workspace)?;
            let file = expanded.file.clone();
            let directed = Directed::of(&expanded.directions, &name, &settings);
            Ok(Some((expanded, directed.map_err(|why| CommandError::Broken { file, why })?)))
        });
        if let Ok(expanded) = looking.await {
            // Whoever waited for it may have left.
            drop(found.send(expanded));
        }
    };
    (Task::new(work, |(), _| Vec::new()), expanding)
}

/// The same for an agent that is asked by its name. Where there is a file of that name, it is the file that is meant.
pub(crate) fn ask_agent(
    name: String,
    words: String,
    workspace: PathBuf,
    (files, settings): (Arc<dyn Files>, Settings),
) -> (Task, Expanding) {
    let (found, expanding) = oneshot::channel();
    let work = async move {
        let looking = tokio::task::spawn_blocking(move || {
            let is_file = || !matches!(files.look(&workspace.join(&name)), Ok(None) | Err(_));
            if !name.starts_with(AGENT) && is_file() {
                return Ok(None);
            }
            let directed = Directed::by_name(agent_name(&name), &words, &settings).map_err(CommandError::Agent)?;
            Ok(Some((Expanded::of(vec![Piece::Text(words)]), directed)))
        });
        if let Ok(asked) = looking.await {
            drop(found.send(asked));
        }
    };
    (Task::new(work, |(), _| Vec::new()), expanding)
}
