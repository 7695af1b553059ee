//! One session's durable list of events, on disk.
//!
//! ```text
//!   <session>/journal.db   event (append-only, hash-chained) + projections, one SQLite file in WAL mode
//!             lock         who holds it is the writer
//!             blobs/       bodies of events above 64 KiB
//!             calls/       not ours: claims, outputs and exit records of tool calls
//! ```
//!
//! [`Journal`] is the one writer. [`Journal::stage`] gives an event its place, [`Journal::commit`] makes everything
//! staged durable in one transaction and with one fsync; what a commit could not write stays staged. Readers
//! (`reader`) need no lock and see what is committed.
//!
//! Two things keep a second writer out: the lock, and an epoch in the database that every commit compares with its own,
//! for a process that slept through losing the lock.
//!
//! The journal does not know what events mean to a turn, and it has no clock: time comes in with the events. It never
//! deletes or repairs: a damaged or newer file is reported and left as it is.

use super::blobs;
use super::bulk;
use super::dir::SessionDir;
use super::error::Fault;
use super::lock::Lock;
use super::projection::{self, AskedModel};
use super::rows::{self, Head};
use super::schema::{self, BUSY_TIMEOUT, Found, MIGRATIONS, Migration};
use super::seal;
use super::summary;
use super::unborn;
use super::wal;
use crate::store::{Opening, StoreError, Summary, unwritten};
use piton_core::event::{Event, Record};
use piton_core::ids::{Seq, TimeMs};
use rusqlite::{Connection, TransactionBehavior};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The one writer of a session, for as long as it lives. Dropping it frees the lock and forgets what is only staged.
#[derive(Debug)]
pub struct Journal {
    pub(super) conn: Connection,
    /// The folder and its lock; `None` for a journal in memory.
    home: Option<(SessionDir, Lock)>,
    standing: Standing,
    epoch: u64,
    /// The last durable event.
    head: Head,
    staged: Vec<Arc<Record>>,
    /// What the tables have to know of the events before.
    asked: AskedModel,
    opening: Opening,
    /// Makes the name of a new session's folder durable, beside all that comes before the first commit.
    naming: Option<JoinHandle<Result<(), Fault>>>,
    /// Whether a commit did not come about for want of room.
    has_failed: bool,
}

impl Drop for Journal {
    /// A session for whose first commit there was no room is none. After any other failure it may be on the disk.
    fn drop(&mut self) {
        if self.has_failed
            && self.head.seq == 0
            && let Some((dir, lock)) = self.home.take()
        {
            unborn::remove_all(&dir, lock);
        }
    }
}

/// What the next commit has to do before it may add events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Make the session's folder durable: nothing was ever committed.
    New,
    /// Take the place of the writer with this epoch.
    Heir { of: u64 },
    /// Check that it is still the writer.
    Writer,
}

impl Journal {
    /// Makes the folder of a new session, with tables in it, and takes its lock. Durable with the first commit, whose first
    /// event must be [`Event::SessionStarted`]; a process that dies before leaves a folder that holds no session.
    pub fn create(dir: &SessionDir, opening: Opening) -> Result<Self, StoreError> {
        let db = dir.journal_db();
        Self::create_in(dir, opening).map_err(|fault| fault.explain(&db, 0))
    }

    /// Makes a session of events that happened elsewhere (an import, a repair): all of them or none, in their places and
    /// with their times. The first must be [`Event::SessionStarted`]. Leaves it closed; its folder must be new.
    pub fn adopt(dir: &SessionDir, opening: Opening, records: Vec<Record>) -> Result<(), StoreError> {
        let mut journal = Self::create(dir, opening)?;
        // Whoever opens it next comes after every writer that the events name.
        let epochs = records.iter().map(|record| match record.event {
            Event::WriterOpened { epoch, .. } => epoch,
            _ => 1,
        });
        journal.epoch = epochs.max().unwrap_or(1);
        journal.leave(&records.into_iter().map(Arc::new).collect::<Vec<_>>())
    }

    /// Takes the lock of an existing session, upgrades its tables if they are old, and makes it durable that this
    /// process is the writer now ([`Event::WriterOpened`]). Returns all events, that one included.
    pub fn open(dir: &SessionDir, opening: Opening) -> Result<(Self, Vec<Record>), StoreError> {
        let mut records = Vec::new();
        let journal = Self::open_each(dir, opening, |record| records.push(bulk::kept(record)))?;
        Ok((journal, records))
    }

    /// The same, and the events one by one instead of all at once: a long session is read in little memory. What was
    /// visited is thrown away, so it may be taken apart.
    pub fn open_each(
        dir: &SessionDir,
        opening: Opening,
        mut visit: impl FnMut(&mut Record),
    ) -> Result<Self, StoreError> {
        let (journal, mut opened) = Self::open_with(dir, opening, MIGRATIONS, &mut visit)?;
        visit(&mut opened);
        Ok(journal)
    }

    /// A journal that lasts as long as this value. For tests, and to measure what durability costs.
    pub fn in_memory() -> Self {
        let conn = schema::create_in_memory().expect("SQLite opens a database in memory");
        Self::new(conn, None, Opening { pid: 0, boot_id: None, now_ms: 0, shares_runtime: false })
    }

    /// Gives an event the next place. Nothing is durable yet, and nobody else can see it.
    pub fn stage(&mut self, at_ms: TimeMs, event: Event) -> Arc<Record> {
        let record = Arc::new(Record { seq: self.next_seq(), at_ms, event });
        let is_first = matches!(record.event, Event::SessionStarted { .. });
        debug_assert_eq!(record.seq == 1, is_first, "the first event, and only that, starts the session");
        self.staged.push(Arc::clone(&record));
        record
    }

    /// Makes all staged events durable, in one transaction: all of them or none. Does nothing when nothing is staged.
    /// After a failure they are still staged, and the next commit tries again.
    pub fn commit(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        match self.write_staged() {
            Ok(head) => {
                self.head = head;
                self.standing = Standing::Writer;
                self.staged.clear();
                Ok(())
            }
            Err(fault) => {
                self.has_failed = fault.is_full();
                Err(self.explain(fault))
            }
        }
    }

    /// [`Log::append`](crate::store::Log::append): the caller has the events until they are durable, so nothing is
    /// staged before or after.
    pub(super) fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError> {
        let new = unwritten(records, self.head.seq, |from, most| self.read(from, most))?;
        self.staged = new.to_vec();
        self.commit().inspect_err(|_| self.staged.clear())
    }

    /// Leaves in good order: commits what is staged and [`Event::WriterClosed`], and folds the log into the database.
    /// Best effort, since what was committed before is safe in any case. A session that has no event stays without.
    pub fn close(mut self, at_ms: TimeMs) {
        if self.next_seq() > 1 {
            self.stage(at_ms, Event::WriterClosed {});
        }
        let staged = std::mem::take(&mut self.staged);
        let _ = self.leave(&staged);
    }

    /// Makes these last events durable, and folds the log into the database: both by the same two syncs. A reader may be in
    /// the way: leaving does not wait for it, the next writer folds it then.
    pub(super) fn leave(mut self, last: &[Arc<Record>]) -> Result<(), StoreError> {
        if self.standing == Standing::New && !last.is_empty() {
            self.settle_in().map_err(|fault| self.explain(fault))?;
        }
        let unsynced = self.conn.execute_batch("PRAGMA synchronous=OFF").map_err(Fault::from);
        unsynced.map_err(|fault| self.explain(fault))?;
        self.append(last)?;
        self.fold(last.is_empty()).map_err(|fault| self.explain(fault))
    }

    /// The log is synced before it is folded. Where it cannot be folded now, what is in it has still to be durable.
    fn fold(&self, is_durable: bool) -> Result<(), Fault> {
        self.conn.execute_batch("PRAGMA synchronous=FULL")?;
        self.conn.busy_timeout(Duration::ZERO)?;
        let in_the_way = self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        if is_durable || matches!(in_the_way, Ok(false)) {
            return Ok(());
        }
        // A commit is synced with all that lies before it.
        self.conn.busy_timeout(BUSY_TIMEOUT)?;
        Ok(self.conn.execute_batch("UPDATE writer SET epoch = epoch")?)
    }

    /// At most `max` committed events from this position on.
    pub fn read(&self, from: Seq, max: usize) -> Result<Vec<Record>, StoreError> {
        if self.standing == Standing::New {
            return Ok(Vec::new());
        }
        bulk::read(&self.conn, self.blobs().as_deref(), from, max).map_err(|fault| self.explain(fault))
    }

    /// The session at a glance; `None` before the first commit.
    pub fn summary(&self) -> Result<Option<Summary>, StoreError> {
        if self.standing == Standing::New {
            return Ok(None);
        }
        summary::read(&self.conn).map_err(|fault| self.explain(fault))
    }

    /// Makes the projections again from the events.
    pub fn rebuild_projections(&mut self) -> Result<(), StoreError> {
        if self.standing == Standing::New {
            return Ok(());
        }
        let blobs = self.blobs();
        let epoch = self.epoch;
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(Fault::from);
        let done = tx.and_then(|tx| {
            be_the_writer(&tx, epoch)?;
            projection::rebuild(&tx, blobs.as_deref())?;
            Ok(tx.commit()?)
        });
        done.map_err(|fault| self.explain(fault))
    }

    /// The event that says who has opened this journal. `open` records it by itself; whoever creates a session may
    /// stage it second.
    pub fn opened(&self) -> Event {
        self.opening.event(self.epoch)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last durable event; 0 before the first.
    pub fn durable_seq(&self) -> Seq {
        self.head.seq
    }

    fn new(conn: Connection, home: Option<(SessionDir, Lock)>, opening: Opening) -> Self {
        let (standing, head) = (Standing::New, Head::START);
        Self {
            conn,
            home,
            standing,
            epoch: 1,
            head,
            staged: Vec::new(),
            asked: AskedModel::default(),
            opening,
            naming: None,
            has_failed: false,
        }
    }

    fn create_in(dir: &SessionDir, opening: Opening) -> Result<Self, Fault> {
        make_session_folder(dir.root())?;
        let lock = Lock::take(&dir.lock(), opening.pid)?;
        if unborn::is_unborn(dir) {
            unborn::clear(dir, &lock)?;
        }
        let is_new = !dir.journal_db().exists();
        let conn = match schema::create(&dir.journal_db()) {
            Ok(conn) => conn,
            Err(fault) => {
                // As on a full disk: nothing is recorded in it, and nobody else can be at it.
                if is_new && fault.is_full() {
                    unborn::remove_all(dir, lock);
                }
                return Err(fault);
            }
        };
        let mut journal = Self::new(conn, Some((dir.clone(), lock)), opening);
        let root = dir.root().to_owned();
        // Without a thread the first commit does it by itself.
        journal.naming = std::thread::Builder::new().spawn(move || make_name_durable(&root)).ok();
        Ok(journal)
    }

    /// Makes durable what [`Journal::create`] made, but for what the first commit syncs itself: the log, which holds all of
    /// the database, and the names in its folder. Fine if that was done before.
    fn settle_in(&mut self) -> Result<(), Fault> {
        let Some((dir, _)) = &self.home else { return Ok(()) };
        let named = self.naming.take().and_then(|naming| naming.join().ok());
        if !matches!(named, Some(Ok(()))) {
            make_name_durable(dir.root())?;
        }
        schema::settle(&self.conn)?;
        self.standing = Standing::Heir { of: schema::FIRST_EPOCH };
        Ok(())
    }

    pub(super) fn open_with(
        dir: &SessionDir,
        opening: Opening,
        migrations: &[Migration],
        visit: &mut dyn FnMut(&mut Record),
    ) -> Result<(Self, Record), StoreError> {
        let db = dir.journal_db();
        let loaded = Self::load(dir, opening, migrations, visit);
        let mut journal = loaded.map_err(|fault| fault.explain(&db, 0))?;
        let opened = journal.stage(journal.opening.now_ms, journal.opened());
        journal.commit()?;
        Ok((journal, Arc::unwrap_or_clone(opened)))
    }

    fn load(
        dir: &SessionDir,
        opening: Opening,
        migrations: &[Migration],
        visit: &mut dyn FnMut(&mut Record),
    ) -> Result<Self, Fault> {
        let (db, blobs) = (dir.journal_db(), dir.blobs());
        // Before the lock, so that a folder that holds nothing is not given one.
        if !db.exists() && !schema::has_log(&db) {
            return Err(Fault::NotFound);
        }
        let lock = Lock::take(&dir.lock(), opening.pid)?;
        seal::break_seal(dir)?;
        wal::revive(&db)?;
        let (mut conn, found) = schema::open_to_write(&db, migrations)?;
        let Found::Version(version) = found else { return Err(Fault::NotFound) };
        // Its process was killed before its first commit: it is no session yet, and its id is free.
        if schema::is_unborn(&conn)? {
            return Err(Fault::NotFound);
        }
        announce(&db, &opening);
        bulk::each_record(&conn, Some(&blobs), 1, usize::MAX, visit)?;
        schema::upgrade(&mut conn, &db, Some(&blobs), version, migrations)?;
        let (epoch, last_seq): (u64, Seq) =
            conn.query_row("SELECT epoch, last_seq FROM writer", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let head = rows::head(&conn)?;
        if head.seq != last_seq {
            return Err(Fault::damaged(format!("it ends with event {}, but {last_seq} were written", head.seq)));
        }
        schema::fold_on_close(&conn)?;
        let mut journal = Self::new(conn, Some((dir.clone(), lock)), opening);
        (journal.standing, journal.epoch, journal.head) = (Standing::Heir { of: epoch }, epoch + 1, head);
        Ok(journal)
    }

    fn write_staged(&mut self) -> Result<Head, Fault> {
        let blobs = self.blobs();
        let write_down = |record: &Arc<Record>| rows::write_down(record, self.epoch, blobs.as_deref());
        let sheets = self.staged.iter().map(write_down).collect::<Result<Vec<_>, _>>()?;
        if self.standing == Standing::New {
            self.settle_in()?;
        }
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        be_the_writer(&tx, if let Standing::Heir { of } = self.standing { of } else { self.epoch })?;
        let (mut head, mut asked) = (self.head, self.asked.clone());
        for (sheet, record) in sheets.iter().zip(&self.staged) {
            head = rows::insert(&tx, head, sheet)?;
            projection::apply(&tx, &mut asked, record)?;
        }
        tx.prepare_cached("UPDATE writer SET epoch = ?, last_seq = ?")?.execute([self.epoch, head.seq])?;
        tx.commit()?;
        self.asked = asked;
        Ok(head)
    }

    fn next_seq(&self) -> Seq {
        self.head.seq + self.staged.len() as u64 + 1
    }

    fn blobs(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|(dir, _)| dir.blobs())
    }

    fn explain(&self, fault: Fault) -> StoreError {
        let db = self.home.as_ref().map_or_else(|| PathBuf::from(":memory:"), |(dir, _)| dir.journal_db());
        fault.explain(&db, self.head.seq)
    }
}

/// Fails when somebody else has become the writer since this epoch.
fn be_the_writer(conn: &Connection, epoch: u64) -> Result<(), Fault> {
    let newest: u64 = conn.prepare_cached("SELECT epoch FROM writer")?.query_row([], |row| row.get(0))?;
    if newest == epoch { Ok(()) } else { Err(Fault::Fenced) }
}

/// Tells whoever lists sessions that this one has a writer, by the time of its database: what is committed from here on
/// lies in the log at first. To the nanosecond it is a time that the kernel, which counts in milliseconds, would not
/// have given it. Best effort: a list may be behind.
fn announce(db: &Path, opening: &Opening) {
    let tv_sec = i64::try_from(opening.now_ms / 1000).unwrap_or_default();
    let nanoseconds = opening.now_ms % 1000 * 1_000_000 + 1 + u64::from(opening.pid) % 999_999;
    let now = Timespec { tv_sec, tv_nsec: nanoseconds.try_into().unwrap_or_default() };
    let times = Timestamps { last_access: now, last_modification: now };
    let _ = utimensat(CWD, db, &times, AtFlags::empty());
}

fn make_name_durable(root: &Path) -> Result<(), Fault> {
    root.parent().map_or(Ok(()), blobs::sync_folder)
}

fn make_session_folder(root: &Path) -> Result<(), Fault> {
    for folder in root.parent().into_iter().chain([root]) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Fault::os(folder))?;
    }
    Ok(())
}
