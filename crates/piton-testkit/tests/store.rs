//! Sessions on disk and sessions in memory keep what every store keeps.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use piton_core::ids::SessionId;
use piton_engine::store::Store;
use piton_engine::store::memory::MemoryStore;
use piton_engine::store::sqlite::SqliteStore;
use piton_testkit::store::{Stage, conforms};
use std::path::Path;
use std::sync::Arc;

struct OnDisk<'f> {
    data_dir: &'f Path,
    shares_runtime: bool,
}

impl Stage for OnDisk<'_> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::new(self.data_dir))
    }

    fn shares_runtime(&self) -> bool {
        self.shares_runtime
    }

    /// As a file system does that forgets locks.
    fn expire(&self, id: &SessionId) {
        std::fs::remove_file(self.data_dir.join("sessions").join(id.as_str()).join("lock")).unwrap();
    }
}

struct InMemory(MemoryStore);

impl Stage for InMemory {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.clone())
    }

    fn shares_runtime(&self) -> bool {
        true
    }

    fn expire(&self, id: &SessionId) {
        self.0.expire(id);
    }
}

#[tokio::test]
async fn sessions_on_disk_conform_on_a_thread_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&OnDisk { data_dir: folder.path(), shares_runtime: false }).await;
}

#[tokio::test]
async fn sessions_on_disk_conform_on_a_thread_that_others_share() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&OnDisk { data_dir: folder.path(), shares_runtime: true }).await;
}

#[tokio::test]
async fn sessions_in_memory_conform() {
    conforms(&InMemory(MemoryStore::new("/nowhere"))).await;
}
