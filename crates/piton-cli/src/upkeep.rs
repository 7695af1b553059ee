//! What is done behind every session that was written in here, whatever way the command took: its turns are sent to a
//! collector of spans, and old snapshots of its workspace are dropped.

use crate::commands::trace::Collector;
use crate::failure::Result;
use crate::surroundings::Surroundings;
use piton_core::ids::{Seq, SessionId};
use piton_engine::engine::{Engine, Handle};
use piton_tools::snapshot::Snapshots;
use std::path::PathBuf;
use std::sync::Arc;

/// What is to be done when the session is closed.
pub(crate) struct Upkeep<'a> {
    engine: &'a Engine,
    around: &'a Surroundings,
    collector: Option<Collector>,
    wrote: Option<Wrote>,
}

/// A session that was open here.
struct Wrote {
    id: SessionId,
    from: Seq,
    workspace: PathBuf,
    snapshots: Option<Arc<Snapshots>>,
}

impl<'a> Upkeep<'a> {
    /// Nothing yet. Fails where the collector that was named cannot be one, before anything is paid for.
    pub(crate) fn new(engine: &'a Engine, around: &'a Surroundings) -> Result<Self> {
        Ok(Self { engine, around, collector: Collector::of(around)?, wrote: None })
    }

    /// Takes notice of a session that is open here.
    pub(crate) fn opened(&mut self, session: &Handle, snapshots: Option<Arc<Snapshots>>) {
        let (id, from) = (session.id().clone(), session.opened_at());
        self.wrote = Some(Wrote { id, from, workspace: session.workspace().to_owned(), snapshots });
    }

    /// The session that was open here is not kept.
    pub(crate) fn is_gone(&mut self) {
        self.wrote = None;
    }

    /// Does it, once the session is closed.
    pub(crate) async fn done(self) {
        let Some(Wrote { id, from, workspace, snapshots }) = self.wrote else { return };
        if let Some(collector) = self.collector {
            collector.send_turns(self.engine, &id, from).await;
        }
        if let Some(snapshots) = snapshots {
            let (engine, now_ms) = (self.engine.clone(), self.around.now_ms);
            // Housekeeping: what could not be done today is done another day. On a thread of its own, so that whoever
            // wants to leave is heard.
            let prune = move || {
                if let Err(error) = engine.prune_snapshots(&workspace, &snapshots, now_ms) {
                    tracing::warn!("old snapshots of {} were not dropped: {error}", workspace.display());
                }
            };
            drop(tokio::task::spawn_blocking(prune).await);
        }
    }
}
