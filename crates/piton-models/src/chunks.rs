//! The raw pieces of answers, for whoever wants to see them: each event or document as its server sent it, known to us or
//! not. It is told to whoever polls the answer, through as many wrappers as there may be.

use std::future::Future;
use std::sync::Arc;

/// Who sees the pieces; must not block.
pub type ChunkSink = Arc<dyn Fn(&str) + Send + Sync>;

tokio::task_local! {
    static SINK: ChunkSink;
}

/// Does this work; of every answer that is read in it, `sink` sees the pieces.
pub async fn seen_by<T>(sink: ChunkSink, work: impl Future<Output = T>) -> T {
    SINK.scope(sink, work).await
}

/// Shows a piece to whoever wants to see it.
pub(crate) fn show(chunk: &str) {
    // Nobody does: then there is no sink.
    let _ = SINK.try_with(|sink| sink(chunk));
}
