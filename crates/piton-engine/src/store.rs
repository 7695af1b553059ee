//! The port for session storage. An event has happened once it is appended here; everything else in Piton follows from that.
//!
//! ```text
//!   driver ──append──▶ Log ──┐
//!                            ├── Store: sqlite (a folder per session) · memory
//!   bus, clients, tools ─read┘
//! ```
//!
//! A [`Store`] holds many sessions. [`Store::create`] and [`Store::open`] make the caller the only writer of a session, with
//! a [`Log`] to append to; readers need no lock and see everything durable. Two things keep a second writer out: a lock (or
//! a lease), and an epoch that every append is checked against, in case a process lost the lock while it was suspended.
//!
//! A store does not know what events mean to a turn, and it has no clock: time comes in with the events. It never
//! deletes or repairs on its own: it reports damaged or newer data and leaves it alone. The signatures name no files and no
//! database, so that other kinds of storage can implement them. `piton_testkit::store` is the conformance suite of all stores;
//! faults that only one of them can have (a full disk, a torn file) are in its own tests.

pub mod error;
pub mod memory;
pub mod sqlite;
mod summary;

pub use error::{Holder, Kept, StoreError};

use crate::clock::World;
use async_trait::async_trait;
use piton_core::branch;
use piton_core::event::{Event, Origin, Record, TurnEnd};
use piton_core::ids::{Seq, SessionId, TimeMs};
use piton_core::turn::State;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

/// Called with records one by one. They are dropped afterwards, so the callee may take them apart.
pub type Visit<'v> = dyn FnMut(&mut Record) + Send + 'v;

/// A store of sessions, with one writer each.
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// Creates a session and becomes its writer. The first appended event must be [`Event::SessionStarted`]; a process
    /// that dies before that leaves no session. Fails with [`StoreError::Taken`] if a session of this id has events.
    async fn create(&self, id: &SessionId, opening: Opening) -> Result<Box<dyn Log>, StoreError>;

    /// Becomes the writer of a session and records that durably ([`Event::WriterOpened`]). Visits all events, including
    /// that one.
    async fn open(&self, id: &SessionId, opening: Opening, visit: &mut Visit<'_>) -> Result<Box<dyn Log>, StoreError>;

    /// Creates a session from events that happened elsewhere (an import, a repair): all of them or none, with their
    /// positions and times. The first must be [`Event::SessionStarted`]. Leaves the session closed.
    async fn adopt(&self, id: &SessionId, opening: Opening, records: Vec<Record>) -> Result<(), StoreError>;

    /// The process that has the session open now, if any. The check does not block writers.
    async fn holder(&self, id: &SessionId) -> Option<Holder>;

    /// At most `max` durable events from this position on; empty for a session that has none.
    async fn read(&self, id: &SessionId, from: Seq, max: usize) -> Result<Vec<Record>, StoreError>;

    /// Visits all durable events one by one, so that a long session needs little memory.
    async fn each(&self, id: &SessionId, visit: &mut Visit<'_>) -> Result<(), StoreError>;

    /// The durable events of these kinds, in order within each kind.
    async fn of_kinds(&self, id: &SessionId, kinds: &[&str]) -> Result<Vec<Record>, StoreError>;

    /// A summary of the session.
    async fn summary(&self, id: &SessionId) -> Result<Summary, StoreError>;

    /// Checks that every event is as it was written. Reads everything.
    async fn verify(&self, id: &SessionId) -> Result<CheckResult, StoreError>;

    /// Reads what is left of a damaged session, without changing it. `None` if not even its folder can be determined.
    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvage>, StoreError>;

    /// A folder on this machine for data that a session needs only while it runs here: claims and outputs of calls, the
    /// control socket. It is not part of the record, and may not exist yet.
    fn scratch(&self, id: &SessionId) -> PathBuf;
}

/// The only writer of a session as long as this value exists. Dropping it lets others write.
#[async_trait]
pub trait Log: Debug + Send + Sync {
    /// Makes these events durable, all of them or none. The first must follow [`Log::head`] without a gap; otherwise
    /// this fails with [`StoreError::Misplaced`]. After a failure, or if the future was dropped half-way, the caller
    /// may pass the same events again, with more after them: each is written once.
    async fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError>;

    /// The last durable event; 0 before the first.
    fn head(&self) -> Seq;

    /// The number of this writer, counted from 1. [`Event::WriterOpened`] records it.
    fn epoch(&self) -> u64;

    /// Makes these events durable like [`Log::append`], and closes the log normally. After a failure, these events may
    /// or may not be durable; everything appended before is.
    async fn close(self: Box<Self>, last: &[Arc<Record>]) -> Result<(), StoreError>;
}

/// What of these events is still to be written behind `head`. Those before were written by an append that was dropped
/// half-way, and must be the same; `durable` reads them.
fn unwritten(
    records: &[Arc<Record>],
    head: Seq,
    durable: impl FnOnce(Seq, usize) -> Result<Vec<Record>, StoreError>,
) -> Result<&[Arc<Record>], StoreError> {
    let Some(first) = records.first().map(|record| record.seq) else { return Ok(records) };
    let misplaced = |seq| Err(StoreError::Misplaced { seq, kept: Kept(head) });
    let fits = |(record, seq): (&Arc<Record>, Seq)| {
        record.seq == seq && (seq == 1) == matches!(record.event, Event::SessionStarted { .. })
    };
    if first == 0 || first > head + 1 || !records.iter().zip(first..).all(fits) {
        return misplaced(first);
    }
    let (again, new) = records.split_at(records.len().min((head + 1 - first) as usize));
    if !again.is_empty() && !durable(first, again.len())?.iter().eq(again.iter().map(AsRef::as_ref)) {
        return misplaced(first);
    }
    Ok(new)
}

/// One session in its store, by its id.
#[derive(Debug, Clone)]
pub struct Stored {
    store: Arc<dyn Store>,
    id: SessionId,
}

impl Stored {
    /// That session, without a check whether it exists.
    pub fn new(store: Arc<dyn Store>, id: SessionId) -> Self {
        Self { store, id }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Its store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// [`Store::read`].
    pub async fn read(&self, from: Seq, max: usize) -> Result<Vec<Record>, StoreError> {
        self.store.read(&self.id, from, max).await
    }

    /// All durable events.
    pub async fn records(&self) -> Result<Vec<Record>, StoreError> {
        self.read(1, usize::MAX).await
    }

    /// [`Store::scratch`].
    pub fn scratch(&self) -> PathBuf {
        self.store.scratch(&self.id)
    }
}

/// The process that opens a session, and the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// This process.
    pub pid: u32,
    /// The machine's boot id, if known.
    pub boot_id: Option<String>,
    /// Now.
    pub now_ms: TimeMs,
    /// Whether anything else on the caller's thread must not wait for the disk. If nothing does, an append saves some
    /// tenths of a millisecond by not switching to another thread and back.
    pub shares_runtime: bool,
}

impl Opening {
    /// This process, now.
    pub(crate) fn in_world(world: &World, shares_runtime: bool) -> Self {
        let boot_id = world.boot_id().map(ToOwned::to_owned);
        Self { pid: std::process::id(), boot_id, now_ms: world.now_ms(), shares_runtime }
    }

    /// The event that records the new writer.
    pub fn event(&self, epoch: u64) -> Event {
        Event::WriterOpened { epoch, pid: self.pid, boot_id: self.boot_id.clone() }
    }
}

/// A fold of a session's events besides its state.
pub trait Fold {
    /// Called before the first event, and again if it turns out that not all events count.
    fn begin(&mut self);
    /// Takes the next event. `counts` is false if its turn was undone, so that it does not lead to the session's head.
    fn hear(&mut self, record: &Record, counts: bool);
}

/// The empty fold.
impl Fold for () {
    fn begin(&mut self) {}
    fn hear(&mut self, _: &Record, _: bool) {}
}

/// Opens a session and folds its events into its state and the caller's own fold. If turns were undone, it is known
/// only at the end which events count: then all events are read again and folded from the beginning.
pub async fn resume(
    store: &dyn Store,
    id: &SessionId,
    opening: Opening,
    beside: &mut (impl Fold + Send),
) -> Result<(Box<dyn Log>, State), StoreError> {
    beside.begin();
    let (mut state, mut moves, everything) = (State::new(), Vec::new(), branch::Path::default());
    let visit = &mut |record: &mut Record| {
        moves.extend(branch::moved_to(&record.event).map(|to| (record.seq, to)));
        if moves.is_empty() {
            beside.hear(record, true);
            state.apply_along(&everything, record);
        }
    };
    let log = store.open(id, opening, visit).await?;
    if !moves.is_empty() {
        let path = branch::Path::with_moves(&moves);
        state = State::new();
        beside.begin();
        let visit = &mut |record: &mut Record| {
            beside.hear(record, path.contains(record.seq));
            state.apply_along(&path, record);
        };
        store.each(id, visit).await?;
    }
    Ok((log, state))
}

/// The result of a full check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// Every event is as it was written, in its place.
    Sound {
        /// The number of events.
        events: u64,
    },
    /// The events before this one are sound.
    Bad {
        /// The first bad event.
        seq: Seq,
        /// What is wrong with it.
        flaw: Flaw,
    },
}

/// What is wrong with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It is missing.
    Missing,
    /// It or its hash differs from what was written.
    Changed,
    /// Its blob is missing, or differs from what was written.
    Blob,
    /// It is as it was written, but cannot be parsed.
    Unreadable,
}

/// The readable part of a damaged session.
#[derive(Debug, Clone, PartialEq)]
pub struct Salvage {
    /// One entry for each position from 1 on: the event, or [`Event::EventLost`].
    pub records: Vec<Record>,
    /// The positions of events that could not be read.
    pub lost: Vec<Seq>,
    /// The positions of events that differ from what was written, and were kept as they are.
    pub altered: Vec<Seq>,
}

/// A summary of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its id.
    pub id: SessionId,
    /// The folder it works in.
    pub workspace: String,
    /// The version of Piton that created it.
    pub version: String,
    /// The beginning of its first prompt, on one line; empty before there is one.
    pub title: String,
    /// `provider/model` of its newest turn, if there is one.
    pub model: Option<String>,
    /// When it was created.
    pub created_ms: TimeMs,
    /// When something last happened in it; opening and closing do not count.
    pub updated_ms: TimeMs,
    /// Turns so far.
    pub turns: u32,
    /// Steps so far.
    pub steps: u32,
    /// Money so far, in millionths of a US dollar; `None` when no reply had a known price.
    pub cost_micros: Option<u64>,
    /// Model calls that were or may have been billed at an unknown cost: with any, `cost_micros` is a lower bound.
    #[serde(default)]
    pub unpriced_calls: u32,
    /// What it is doing, according to its record.
    pub status: Activity,
    /// How its newest finished turn ended, if there is one.
    pub last_end: Option<TurnEnd>,
    /// Where it comes from, if from another session.
    pub parent: Option<Origin>,
}

/// What a session is doing, according to its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// No turn is in progress.
    Idle,
    /// A turn is in progress, or was when its process died; the lock says which.
    Running,
}
