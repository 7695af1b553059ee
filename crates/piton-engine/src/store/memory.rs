//! A store in memory, for tests and to measure the cost of durability. Sessions live as long as the store.

use super::{CheckResult, Holder, Kept, Log, Opening, Salvage, Store, StoreError, Summary, Visit, unwritten};
use async_trait::async_trait;
use piton_core::event::{Event, Record};
use piton_core::ids::{Seq, SessionId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sessions in memory. Clones share them.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    sessions: Arc<Mutex<HashMap<SessionId, Session>>>,
    scratch: PathBuf,
}

#[derive(Debug, Default)]
struct Session {
    records: Vec<Arc<Record>>,
    epoch: u64,
    holder: Option<Holder>,
}

#[derive(Debug)]
struct MemoryLog {
    store: MemoryStore,
    id: SessionId,
    epoch: u64,
    head: Seq,
}

impl MemoryStore {
    /// Nothing yet. Whatever belongs to a session only while it runs lies in folders below this one.
    pub fn new(scratch: impl Into<PathBuf>) -> Self {
        Self { sessions: Arc::default(), scratch: scratch.into() }
    }

    /// Ends the lease of a session's writer without its knowing, as time does with a process that sleeps: the next may
    /// open the session.
    pub fn expire(&self, id: &SessionId) {
        if let Some(session) = self.lock().get_mut(id) {
            session.holder = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn records(&self, id: &SessionId) -> Result<Vec<Arc<Record>>, StoreError> {
        self.lock().get(id).map(|session| session.records.clone()).ok_or_else(|| not_found(id))
    }

    fn log(&self, id: &SessionId, session: &mut Session, opening: &Opening) -> Result<MemoryLog, StoreError> {
        if let Some(holder) = session.holder.clone() {
            return Err(StoreError::Busy { holder });
        }
        session.holder = Some(Holder(Some(format!("process {}", opening.pid))));
        session.epoch += 1;
        let head = session.records.len() as Seq;
        Ok(MemoryLog { store: self.clone(), id: id.clone(), epoch: session.epoch, head })
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(&self, id: &SessionId, opening: Opening) -> Result<Box<dyn Log>, StoreError> {
        let mut sessions = self.lock();
        if sessions.contains_key(id) {
            return Err(StoreError::Taken { id: id.clone() });
        }
        let log = self.log(id, sessions.entry(id.clone()).or_default(), &opening)?;
        Ok(Box::new(log))
    }

    async fn open(&self, id: &SessionId, opening: Opening, visit: &mut Visit<'_>) -> Result<Box<dyn Log>, StoreError> {
        let (mut log, mut records) = {
            let mut sessions = self.lock();
            let session = sessions.get_mut(id).filter(|session| !session.records.is_empty());
            let session = session.ok_or_else(|| not_found(id))?;
            (self.log(id, session, &opening)?, session.records.clone())
        };
        let opened = Record { seq: log.head + 1, at_ms: opening.now_ms, event: opening.event(log.epoch) };
        log.append(&[Arc::new(opened.clone())]).await?;
        records.push(Arc::new(opened));
        records.into_iter().for_each(|record| visit(&mut Arc::unwrap_or_clone(record)));
        Ok(Box::new(log))
    }

    async fn adopt(&self, id: &SessionId, opening: Opening, records: Vec<Record>) -> Result<(), StoreError> {
        let records: Vec<Arc<Record>> = records.into_iter().map(Arc::new).collect();
        self.create(id, opening).await?.append(&records).await?;
        let epochs = records.iter().map(|record| match record.event {
            Event::WriterOpened { epoch, .. } => epoch,
            _ => 1,
        });
        if let Some(session) = self.lock().get_mut(id) {
            session.epoch = epochs.max().unwrap_or(1);
        }
        Ok(())
    }

    async fn holder(&self, id: &SessionId) -> Option<Holder> {
        self.lock().get(id)?.holder.clone()
    }

    async fn read(&self, id: &SessionId, from: Seq, max: usize) -> Result<Vec<Record>, StoreError> {
        let before = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
        let records = self.records(id)?.into_iter().skip(before).take(max);
        Ok(records.map(Arc::unwrap_or_clone).collect())
    }

    async fn each(&self, id: &SessionId, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        self.records(id)?.into_iter().for_each(|record| visit(&mut Arc::unwrap_or_clone(record)));
        Ok(())
    }

    async fn of_kinds(&self, id: &SessionId, kinds: &[&str]) -> Result<Vec<Record>, StoreError> {
        let records = self.records(id)?;
        let mut found = Vec::new();
        for kind in kinds {
            found.extend(records.iter().filter(|record| record.event.kind() == *kind).map(|record| (**record).clone()));
        }
        Ok(found)
    }

    async fn summary(&self, id: &SessionId) -> Result<Summary, StoreError> {
        Summary::of(self.records(id)?.iter().map(AsRef::as_ref)).ok_or_else(|| not_found(id))
    }

    async fn verify(&self, id: &SessionId) -> Result<CheckResult, StoreError> {
        Ok(CheckResult::Sound { events: self.records(id)?.len() as u64 })
    }

    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvage>, StoreError> {
        let records = self.read(id, 1, usize::MAX).await?;
        Ok(Some(Salvage { records, lost: Vec::new(), altered: Vec::new() }))
    }

    fn scratch(&self, id: &SessionId) -> PathBuf {
        self.scratch.join(id.as_str())
    }
}

#[async_trait]
impl Log for MemoryLog {
    async fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let mut sessions = self.store.lock();
        let session = sessions.get_mut(&self.id).filter(|session| session.epoch == self.epoch);
        let session = session.ok_or(StoreError::Fenced { kept: Kept(self.head) })?;
        let durable = |from: Seq, most| {
            let kept = session.records.iter().skip(from as usize - 1).take(most);
            Ok(kept.map(|record| (**record).clone()).collect())
        };
        let new = unwritten(records, session.records.len() as Seq, durable)?.to_vec();
        session.records.extend(new);
        self.head = session.records.len() as Seq;
        Ok(())
    }

    fn head(&self) -> Seq {
        self.head
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    async fn close(mut self: Box<Self>, last: &[Arc<Record>]) -> Result<(), StoreError> {
        self.append(last).await
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        let mut sessions = self.store.lock();
        let Some(session) = sessions.get_mut(&self.id).filter(|session| session.epoch == self.epoch) else { return };
        session.holder = None;
        if session.records.is_empty() {
            sessions.remove(&self.id);
        }
    }
}

fn not_found(id: &SessionId) -> StoreError {
    StoreError::NotFound { at: format!("{id} in memory") }
}
