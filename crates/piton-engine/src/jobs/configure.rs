//! Opening the models that a client switches the session to, or that a command asks for in the turn that it starts. That takes its
//! time where a key has to be looked for.
//!
//! A restart loses it: whoever asked has no answer, and a turn opens them again. A cancel of the turn does not end it, unless they
//! are for that turn. After a panic whoever asked hears that the model was not changed, and the turn that waits for them ends.

use super::{JobContext, PANICKED, Task};
use crate::settings::{ModelSource, OpenedModels, Sampling};
use piton_core::ids::MessageId;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Where the models arrive, or why they cannot be asked.
pub(crate) type Opening = oneshot::Receiver<Result<OpenedModels, String>>;

/// Opens models; what comes of it has arrived when the task has ended.
pub(crate) fn open_models(names: String, answers: Sampling, source: Arc<dyn ModelSource>) -> (Task, Opening) {
    let (opened, opening) = oneshot::channel();
    let work = async move {
        let found = tokio::task::spawn_blocking(move || source.open(&names, answers)).await;
        let found = found.unwrap_or_else(|_| Err("opening it panicked; this is a bug".to_owned()));
        // Whoever waited for it may have left.
        drop(opened.send(found));
    };
    (Task::new(work, |(), _| Vec::new()), opening)
}

/// Opens the models for the turn that this message begins; they are kept until it starts.
pub(crate) fn opened_for(
    message: MessageId,
    (names, answers): (String, Sampling),
    source: Option<Arc<dyn ModelSource>>,
) -> Task {
    let work = async move {
        let open = move || source.map(|source| source.open(&names, answers));
        let opened = tokio::task::spawn_blocking(open).await.map_err(|_| PANICKED.to_owned());
        opened.and_then(|opened| opened.unwrap_or_else(|| Err("no other model can be opened here".to_owned())))
    };
    let ended = move |opened, cx: &mut JobContext<'_>| {
        cx.memory.opened = Some((message, opened));
        Vec::new()
    };
    Task::new(work, ended)
}
