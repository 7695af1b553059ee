//! Looking for the command that somebody says. Its file is read then, so that a change of it counts at once.
//!
//! A restart loses it: whoever said it has no answer, and says it again. A cancel drops it, and whoever said it is told. After a
//! panic the prompt is refused.

use super::Task;
use crate::commands::{CommandError, Commands, Expanded};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where what a command comes to arrives.
pub(crate) type Expanding = oneshot::Receiver<Result<Expanded, CommandError>>;

/// Looks for a command, and puts words into its template; what comes of it has arrived when the task has ended.
pub(crate) fn expand(
    name: String,
    words: String,
    workspace: PathBuf,
    commands: Arc<dyn Commands>,
) -> (Task, Expanding) {
    let (found, expanding) = oneshot::channel();
    let work = async move {
        let looking = tokio::task::spawn_blocking(move || commands.expand(&name, &words, &workspace)).await;
        // Whoever waited for it may have left.
        drop(looking.map(|expanded| found.send(expanded)));
    };
    (Task::new(work, |(), _| Vec::new()), expanding)
}
