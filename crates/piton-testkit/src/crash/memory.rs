//! The store in memory, on the machine that crashes: there is a point before each commit and one behind it, where the events
//! are safe and nobody has heard of them. It outlives the process, as a database elsewhere does.

use super::machine::Machine;
use async_trait::async_trait;
use piton_core::event::Record;
use piton_core::ids::{Seq, SessionId};
use piton_engine::store::memory::MemoryStore;
use piton_engine::store::{CheckResult, Holder, Log, Opening, Salvage, Store, StoreError, Summary, Visit};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct PointedStore {
    store: MemoryStore,
    machine: Arc<Machine>,
}

#[derive(Debug)]
struct PointedLog {
    log: Box<dyn Log>,
    machine: Arc<Machine>,
}

impl PointedStore {
    /// Nothing yet. Scratch lies where it does beside a journal on disk.
    pub(super) fn new(machine: &Arc<Machine>) -> Self {
        Self { store: MemoryStore::new(machine.root().join("sessions")), machine: machine.clone() }
    }

    fn pointed(&self, log: Box<dyn Log>) -> Box<dyn Log> {
        Box::new(PointedLog { log, machine: self.machine.clone() })
    }
}

#[async_trait]
impl Store for PointedStore {
    async fn create(&self, id: &SessionId, opening: Opening) -> Result<Box<dyn Log>, StoreError> {
        self.machine.commit_point(0).await?;
        Ok(self.pointed(self.store.create(id, opening).await?))
    }

    async fn open(&self, id: &SessionId, opening: Opening, visit: &mut Visit<'_>) -> Result<Box<dyn Log>, StoreError> {
        self.machine.commit_point(0).await?;
        let log = self.pointed(self.store.open(id, opening, visit).await?);
        self.machine.point().await;
        Ok(log)
    }

    async fn adopt(&self, id: &SessionId, opening: Opening, records: Vec<Record>) -> Result<(), StoreError> {
        self.store.adopt(id, opening, records).await
    }

    async fn holder(&self, id: &SessionId) -> Option<Holder> {
        self.store.holder(id).await
    }

    async fn read(&self, id: &SessionId, from: Seq, max: usize) -> Result<Vec<Record>, StoreError> {
        self.store.read(id, from, max).await
    }

    async fn each(&self, id: &SessionId, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.store.each(id, visit).await
    }

    async fn of_kinds(&self, id: &SessionId, kinds: &[&str]) -> Result<Vec<Record>, StoreError> {
        self.store.of_kinds(id, kinds).await
    }

    async fn summary(&self, id: &SessionId) -> Result<Summary, StoreError> {
        self.store.summary(id).await
    }

    async fn verify(&self, id: &SessionId) -> Result<CheckResult, StoreError> {
        self.store.verify(id).await
    }

    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvage>, StoreError> {
        self.store.salvage(id).await
    }

    fn scratch(&self, id: &SessionId) -> PathBuf {
        self.store.scratch(id)
    }
}

#[async_trait]
impl Log for PointedLog {
    async fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        self.machine.commit_point(self.log.head()).await?;
        self.log.append(records).await?;
        self.machine.point().await;
        Ok(())
    }

    fn head(&self) -> Seq {
        self.log.head()
    }

    fn epoch(&self) -> u64 {
        self.log.epoch()
    }

    async fn close(self: Box<Self>, last: &[Arc<Record>]) -> Result<(), StoreError> {
        self.machine.commit_point(self.log.head()).await?;
        self.log.close(last).await?;
        self.machine.point().await;
        Ok(())
    }
}
