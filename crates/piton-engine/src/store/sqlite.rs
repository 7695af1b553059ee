//! Sessions on disk, a folder and a SQLite database each.
//!
//! ```text
//!   <data>/sessions/ses_…/   journal.db   events (append-only, hash-chained) + projections, in WAL mode
//!                            lock         who holds it is the writer
//!                            blobs/       bodies of events above 64 KiB
//!                            calls/       not ours: claims, outputs and exit records of tool calls
//!          index.db          the list of sessions, a cache over the folders
//!          trash/ses_…/      what was thrown away, whole
//! ```
//!
//! [`Journal`] is the writer's side, `reader` that of everybody else, [`SqliteStore`] the store that the engine uses.

mod blobs;
mod bulk;
mod dir;
mod error;
pub mod index;
mod lock;
mod projection;
mod quick;
mod reader;
mod rows;
mod salvage;
mod schema;
mod seal;
mod summary;
mod unborn;
mod wal;
#[cfg(test)]
mod tests;
mod writer;

pub use dir::SessionDir;
pub use lock::{Held, hold, is_held};
pub use reader::{Reader, each, of_kinds, read_session, summary, summary_and_prompts, verify};
pub(crate) use salvage::salvage;
pub use unborn::{has_run_nothing, sweep};
pub use writer::Journal;

use super::{CheckResult, Holder, Log, Opening, Salvage, Store, StoreError, Summary, Visit};
use async_trait::async_trait;
use piton_core::event::Record;
use piton_core::ids::{Seq, SessionId};
use piton_tools::private;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Records that are passed at once from the thread that reads them.
const PAGE_RECORDS: usize = 256;
/// Pages that may wait to be visited.
const PAGES_AHEAD: usize = 8;

/// The sessions under one data folder.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    data_dir: PathBuf,
}

/// The writer of one of them.
#[derive(Debug)]
struct SqliteLog {
    /// `None` once it is closed. A commit that was begun is finished, whoever waits for it.
    journal: Arc<Mutex<Option<Journal>>>,
    shares_runtime: bool,
    head: Seq,
    epoch: u64,
}

impl SqliteStore {
    /// The sessions of this folder. Nothing is read or written yet.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data_dir: data_dir.into() }
    }

    fn dir(&self, id: &SessionId) -> SessionDir {
        SessionDir::new(&self.data_dir.join("sessions"), id)
    }

    fn repair_dir(&self) -> PathBuf {
        self.data_dir.join(format!("repair-{}", std::process::id()))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(&self, id: &SessionId, opening: Opening) -> Result<Box<dyn Log>, StoreError> {
        let (dir, shares_runtime) = (self.dir(id), opening.shares_runtime);
        if dir.root().exists() && (is_held(&dir) || !unborn::is_unborn(&dir)) {
            return Err(StoreError::Taken { id: id.clone() });
        }
        let create = move || Journal::create(&dir, opening);
        let journal = if shares_runtime { elsewhere(create).await } else { create() };
        Ok(Box::new(SqliteLog::new(journal?, shares_runtime)))
    }

    async fn open(&self, id: &SessionId, opening: Opening, visit: &mut Visit<'_>) -> Result<Box<dyn Log>, StoreError> {
        let (dir, shares_runtime) = (self.dir(id), opening.shares_runtime);
        let open = move |visit: &mut dyn FnMut(&mut Record)| Journal::open_each(&dir, opening, visit);
        let journal = if shares_runtime { visited_elsewhere(visit, open).await } else { open(visit) };
        Ok(Box::new(SqliteLog::new(journal?, shares_runtime)))
    }

    async fn adopt(&self, id: &SessionId, opening: Opening, records: Vec<Record>) -> Result<(), StoreError> {
        let dir = self.dir(id);
        let (id, data_dir) = (id.clone(), self.data_dir.clone());
        elsewhere(move || {
            let made = unborn::make_way(&data_dir, &dir, &id)?;
            let placed = Journal::adopt(&made, opening, records).and_then(|()| unborn::place(&made, &dir, &id));
            placed.inspect_err(|_| {
                // The folder is ours and holds nothing that is not elsewhere.
                let _ = fs::remove_dir_all(made.root());
            })
        })
        .await
    }

    async fn holder(&self, id: &SessionId) -> Option<Holder> {
        lock::holder_of(&self.dir(id))
    }

    async fn read(&self, id: &SessionId, from: Seq, max: usize) -> Result<Vec<Record>, StoreError> {
        let dir = self.dir(id);
        elsewhere(move || Reader::open(&dir)?.read(from, max)).await
    }

    async fn each(&self, id: &SessionId, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let dir = self.dir(id);
        visited_elsewhere(visit, move |visit| reader::each(&dir, visit)).await
    }

    async fn of_kinds(&self, id: &SessionId, kinds: &[&str]) -> Result<Vec<Record>, StoreError> {
        let (dir, kinds) = (self.dir(id), kinds.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>());
        elsewhere(move || reader::of_kinds(&dir, &kinds.iter().map(String::as_str).collect::<Vec<_>>())).await
    }

    async fn summary(&self, id: &SessionId) -> Result<Summary, StoreError> {
        let dir = self.dir(id);
        elsewhere(move || reader::summary(&dir)).await
    }

    async fn verify(&self, id: &SessionId) -> Result<CheckResult, StoreError> {
        let dir = self.dir(id);
        elsewhere(move || reader::verify(&dir)).await
    }

    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvage>, StoreError> {
        let (dir, scratch) = (self.dir(id), self.repair_dir());
        elsewhere(move || {
            let held = hold(&dir, std::process::id())?;
            let failed = error::failed(&scratch);
            private::make_folder(&scratch).map_err(&failed)?;
            let salvaged = salvage(&dir, &scratch);
            fs::remove_dir_all(&scratch).map_err(&failed)?;
            drop(held);
            salvaged
        })
        .await
    }

    fn scratch(&self, id: &SessionId) -> PathBuf {
        self.dir(id).root().to_owned()
    }
}

impl SqliteLog {
    fn new(journal: Journal, shares_runtime: bool) -> Self {
        let (head, epoch) = (journal.durable_seq(), journal.epoch());
        Self { journal: Arc::new(Mutex::new(Some(journal))), shares_runtime, head, epoch }
    }
}

#[async_trait]
impl Log for SqliteLog {
    async fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let write = |journal: &Mutex<Option<Journal>>, records: &[Arc<Record>]| {
            let mut journal = lock(journal);
            let journal = journal.as_mut().ok_or_else(|| StoreError::other("the session is closed"))?;
            let done = journal.append(records);
            Ok((journal.durable_seq(), done))
        };
        let (head, done) = if self.shares_runtime {
            let (journal, records) = (Arc::clone(&self.journal), records.to_vec());
            elsewhere(move || write(&journal, &records)).await?
        } else {
            write(&self.journal, records)?
        };
        // A commit that an append left behind half-way may have been finished since.
        self.head = head;
        done
    }

    fn head(&self) -> Seq {
        self.head
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    async fn close(self: Box<Self>, last: &[Arc<Record>]) -> Result<(), StoreError> {
        let last = last.to_vec();
        elsewhere(move || lock(&self.journal).take().map_or(Ok(()), |journal| journal.leave(&last))).await
    }
}

fn lock(journal: &Mutex<Option<Journal>>) -> MutexGuard<'_, Option<Journal>> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does it on a thread that may wait for the disk.
async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(StoreError::other)?
}

/// The same where records are visited: they come here page by page.
async fn visited_elsewhere<T: Send + 'static>(
    visit: &mut Visit<'_>,
    work: impl FnOnce(&mut dyn FnMut(&mut Record)) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let (pages, mut read) = mpsc::channel::<Vec<Record>>(PAGES_AHEAD);
    let reading = tokio::task::spawn_blocking(move || {
        let mut page = Vec::with_capacity(PAGE_RECORDS);
        let done = work(&mut |record| {
            page.push(bulk::kept(record));
            if page.len() == PAGE_RECORDS {
                // Whoever gave up waiting does not want the rest.
                let _ = pages.blocking_send(std::mem::replace(&mut page, Vec::with_capacity(PAGE_RECORDS)));
            }
        });
        let _ = pages.blocking_send(page);
        done
    });
    while let Some(page) = read.recv().await {
        page.into_iter().for_each(|mut record| visit(&mut record));
    }
    reading.await.map_err(StoreError::other)?
}
