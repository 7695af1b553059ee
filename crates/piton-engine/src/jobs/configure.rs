//! Opening the models that a client switches the session to. That takes its time where a key has to be looked for.
//!
//! A restart loses it: whoever asked has no answer. A cancel of the turn does not end it. After a panic whoever asked hears
//! that the model was not changed.

use super::Task;
use crate::settings::{ModelSource, OpenedModels};
use piton_core::effort::Effort;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where the models arrive, or why they cannot be asked.
pub(crate) type Opening = oneshot::Receiver<Result<OpenedModels, String>>;

/// Opens models; what comes of it has arrived when the task has ended.
pub(crate) fn open_models(names: String, effort: Option<Effort>, source: Arc<dyn ModelSource>) -> (Task, Opening) {
    let (opened, opening) = oneshot::channel();
    let work = async move {
        let found = tokio::task::spawn_blocking(move || source.open(&names, effort)).await;
        let found = found.unwrap_or_else(|_| Err("opening it panicked; this is a bug".to_owned()));
        // Whoever waited for it may have left.
        drop(opened.send(found));
    };
    (Task::new(work, |(), _| Vec::new()), opening)
}
