//! Where sessions are kept: a port. What is appended here happened; everything else in Piton follows from it.
//!
//! ```text
//!   driver ──append──▶ Log ──┐
//!                            ├── Store: sqlite (a folder per session) · memory
//!   bus, clients, tools ─read┘
//! ```
//!
//! A [`Store`] has many sessions. [`Store::create`] and [`Store::open`] make the caller the one writer of a session, with
//! a [`Log`] to append to; readers need no lock and see what is durable. Two things keep a second writer out: a lock (or
//! a lease), and an epoch that every append is checked against, for a process that slept through losing the lock.
//!
//! A store does not know what events mean to a turn, and it has no clock: time comes in with the events. It never
//! deletes or repairs unless told: what is damaged or newer is reported and left as it is. Signatures name no file and no
//! database, so that one in another place can stand behind them. `piton_testkit::store` holds what each must keep; what
//! only one can suffer (a full disk, a torn file) is in its own tests.

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

/// Takes records one by one. What was visited is thrown away, so it may be taken apart.
pub type Visit<'v> = dyn FnMut(&mut Record) + Send + 'v;

/// Sessions, and who may write them.
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// Makes a session and becomes its writer. The first event that is appended must be [`Event::SessionStarted`]; a
    /// process that dies before leaves nothing that counts as a session. One of this id that has events is
    /// [`StoreError::Taken`].
    async fn create(&self, id: &SessionId, opening: Opening) -> Result<Box<dyn Log>, StoreError>;

    /// Becomes the writer of a session and makes that durable ([`Event::WriterOpened`]). Visits all events, that one
    /// included.
    async fn open(&self, id: &SessionId, opening: Opening, visit: &mut Visit<'_>) -> Result<Box<dyn Log>, StoreError>;

    /// Makes a session of events that happened elsewhere (an import, a repair): all of them or none, in their places and
    /// with their times. The first must be [`Event::SessionStarted`]. Leaves it closed.
    async fn adopt(&self, id: &SessionId, opening: Opening, records: Vec<Record>) -> Result<(), StoreError>;

    /// Who has the session open now. Looking keeps nobody out.
    async fn holder(&self, id: &SessionId) -> Option<Holder>;

    /// At most `max` durable events from this position on; none of a session that has not committed any.
    async fn read(&self, id: &SessionId, from: Seq, max: usize) -> Result<Vec<Record>, StoreError>;

    /// All durable events one by one: a long session is read in little memory.
    async fn each(&self, id: &SessionId, visit: &mut Visit<'_>) -> Result<(), StoreError>;

    /// The durable events of some kinds, in order within each.
    async fn of_kinds(&self, id: &SessionId, kinds: &[&str]) -> Result<Vec<Record>, StoreError>;

    /// The session at a glance.
    async fn summary(&self, id: &SessionId) -> Result<Summary, StoreError>;

    /// Checks that every event is what was written. Reads everything.
    async fn verify(&self, id: &SessionId) -> Result<CheckResult, StoreError>;

    /// What can still be read of a damaged session, which stays as it is. `None` where not even the folder that it
    /// worked in can be known.
    async fn salvage(&self, id: &SessionId) -> Result<Option<Salvage>, StoreError>;

    /// A folder of this machine for what belongs to a session only while it runs here: claims and outputs of calls, the
    /// control socket. It is no part of the record, and may not exist yet.
    fn scratch(&self, id: &SessionId) -> PathBuf;
}

/// The one writer of a session, for as long as it lives. Dropping it lets others write.
#[async_trait]
pub trait Log: Debug + Send + Sync {
    /// Makes these events durable, all of them or none. The first stands behind [`Log::head`], and no place is empty:
    /// others are [`StoreError::Misplaced`]. After a failure, or when this was dropped half-way, nothing is known but what
    /// the error says. The same events may then be handed in again, with more behind them: each is written once.
    async fn append(&mut self, records: &[Arc<Record>]) -> Result<(), StoreError>;

    /// The last durable event; 0 before the first.
    fn head(&self) -> Seq;

    /// Counts the writers of this session from 1. [`Event::WriterOpened`] has it.
    fn epoch(&self) -> u64;

    /// Makes these events durable as [`Log::append`] does, and leaves in good order. After a failure they may be there or
    /// not; what was appended is safe in any case.
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

/// One session in its store, by the id that the store knows it by.
#[derive(Debug, Clone)]
pub struct Stored {
    store: Arc<dyn Store>,
    id: SessionId,
}

impl Stored {
    /// That session; whether it exists is not looked at.
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

/// Who opens a session, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// This process.
    pub pid: u32,
    /// The machine's boot, where it can be known.
    pub boot_id: Option<String>,
    /// Now.
    pub now_ms: TimeMs,
    /// Whether anything else runs on the caller's thread that must not wait for the disk. Where nothing does, an append
    /// is some tenths of a millisecond shorter without the way to another thread and back.
    pub shares_runtime: bool,
}

impl Opening {
    /// This process, now.
    pub(crate) fn in_world(world: &World, shares_runtime: bool) -> Self {
        let boot_id = world.boot_id().map(ToOwned::to_owned);
        Self { pid: std::process::id(), boot_id, now_ms: world.now_ms(), shares_runtime }
    }

    /// The event that says who opened the session.
    pub fn event(&self, epoch: u64) -> Event {
        Event::WriterOpened { epoch, pid: self.pid, boot_id: self.boot_id.clone() }
    }
}

/// What somebody keeps of a session's events beside its state.
pub trait Fold {
    /// Before the first event, and once more where it turns out that not all of them count.
    fn begin(&mut self);
    /// The next event; `counts`: it leads to the session's head, no turn of it was taken back.
    fn hear(&mut self, record: &Record, counts: bool);
}

/// Nothing is kept.
impl Fold for () {
    fn begin(&mut self) {}
    fn hear(&mut self, _: &Record, _: bool) {}
}

/// Opens a session and folds it, and what the caller keeps beside it. Where turns were taken back, which events count is
/// only known at the end: then they are all read once more, and folded from the beginning.
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

/// What a full check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// Every event is where and what it was when it was written.
    Sound {
        /// How many there are.
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
    /// It is not there.
    Missing,
    /// It, or its hash, is not what was written.
    Changed,
    /// Its blob is not there, or is not what was written.
    Blob,
    /// It is as it was written, and cannot be understood.
    Unreadable,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Salvage {
    /// Every place from 1 on: the event, or [`Event::EventLost`].
    pub records: Vec<Record>,
    /// The places of events that could not be read.
    pub lost: Vec<Seq>,
    /// The places of events that are not what was written, and were taken as they are.
    pub altered: Vec<Seq>,
}

/// One session at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its id.
    pub id: SessionId,
    /// The folder it works in.
    pub workspace: String,
    /// The Piton that made it.
    pub version: String,
    /// The beginning of its first prompt, on one line; empty before there is one.
    pub title: String,
    /// `provider/model` of its newest turn, once there is one.
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
    /// Model calls that were or may have been billed and whose cost is not known: with any, `cost_micros` is a least.
    #[serde(default)]
    pub unpriced_calls: u32,
    /// What it is doing, by its record.
    pub status: Activity,
    /// How its newest finished turn ended, once there is one.
    pub last_end: Option<TurnEnd>,
    /// Where it comes from, if from another session.
    pub parent: Option<Origin>,
}

/// What a session is doing, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// No turn is under way.
    Idle,
    /// A turn is under way, or was when its process died: the lock tells which.
    Running,
}
