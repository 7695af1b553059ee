//! Forking: another session is made of what is durable here, while this one goes on.
//!
//! A restart loses it: whoever asked has no answer, and the other session is there whole or not at all. A cancel of the turn
//! does not end it. After a panic whoever asked hears that the session gave no answer.

use super::{JobContext, Task};
use crate::error::EngineError;
use crate::fork;
use crate::inbox::Asker;
use piton_core::client::Reply;
use piton_core::ids::Seq;

/// Makes the other session, and tells who asked for it.
pub(crate) fn fork(at: Option<Seq>, asker: Asker, cx: &JobContext<'_>) -> Task {
    let (stored, world) = (cx.services.stored.clone(), cx.services.world.clone());
    let work = async move {
        let forked = fork::fork(&stored, at, &world).await.map(|session| Reply::Forked { session });
        asker.answer(forked.map_err(EngineError::from));
    };
    Task::new(work, |(), _| Vec::new())
}
