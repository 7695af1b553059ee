//! What a session tells its listeners: recorded events, and the fragments that stream by between them.
//!
//! ```text
//!   journal, in pages ──► now ──► caught up ──► ring: records and fragments as they come
//!        ▲                                        │
//!        └────────────── missed ◄─────────────────┘  a listener that was too slow
//! ```
//!
//! Every listener has its own place in one bounded ring. A slow one does not hold up the loop: it loses fragments, and
//! begins again behind the last record it has heard. So recorded events are never lost, and come once and in order;
//! fragments may be lost, and none is told after the record that supersedes it.

use crate::store::{StoreError, Stored};
use piton_core::client::{Live, Now, Published};
use piton_core::event::Record;
use piton_core::ids::Seq;
use piton_core::turn::State;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Entries the ring holds. Each is a pointer and a short text; a session has a ring for as long as it is open.
const RING: usize = 512;
/// Records that are read from the journal at once.
pub(crate) const PAGE: usize = 256;

/// The sending side.
#[derive(Debug, Clone)]
pub(crate) struct Bus {
    ring: broadcast::Sender<Published>,
    /// Where the session is after everything in the ring. Locked while something is put there, so that a listener
    /// begins exactly between two entries.
    now: Arc<Mutex<Now>>,
}

/// One listener's place.
pub(crate) struct Listener {
    sender: broadcast::WeakSender<Published>,
    session: Arc<Mutex<Now>>,
    stored: Stored,
    next_seq: Seq,
    ring: broadcast::Receiver<Published>,
    /// Where the session was when the ring was joined, until that is told: first come the records up to there.
    now: Option<Now>,
    missed: u64,
    ready: VecDeque<Published>,
}

impl Bus {
    /// A bus without listeners, of a journal that ends here.
    pub(crate) fn new(state: &State, durable_seq: Seq) -> Self {
        Self { ring: broadcast::Sender::new(RING), now: Arc::new(Mutex::new(Now::of(state, durable_seq))) }
    }

    /// Tells everyone who listens now of events that are durable. The state has applied them.
    pub(crate) fn recorded(&self, records: impl IntoIterator<Item = Arc<Record>>, state: &State) {
        let mut now = self.lock();
        let mut seq = now.seq;
        for record in records {
            seq = record.seq;
            now.supersede(&record.event);
            self.tell(Published::Recorded(record));
        }
        *now = Now::of(state, seq).after(std::mem::take(&mut *now));
    }

    /// Tells everyone a fragment.
    pub(crate) fn live(&self, live: Live) {
        let mut now = self.lock();
        now.hear(&live);
        self.tell(Published::Live(Arc::new(live)));
    }

    fn tell(&self, published: Published) {
        // An error only means that nobody listens.
        drop(self.ring.send(published));
    }

    /// Where the session is.
    pub(crate) fn now(&self) -> Now {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        lock(&self.now)
    }

    /// Listens from this position of the journal on: what is recorded already comes first.
    pub(crate) fn subscribe(&self, stored: Stored, from_seq: Seq) -> Listener {
        let (sender, session) = (self.ring.downgrade(), Arc::clone(&self.now));
        let (ring, now) = {
            let now = self.lock();
            (self.ring.subscribe(), Some(now.clone()))
        };
        Listener { sender, session, stored, next_seq: from_seq.max(1), ring, now, missed: 0, ready: VecDeque::new() }
    }
}

impl Listener {
    /// Whether everything published so far has been heard.
    pub(crate) fn is_drained(&self) -> bool {
        self.now.is_none() && self.ready.is_empty() && self.ring.is_empty()
    }

    /// The next thing there is to hear; `None` when the session is closed and all has been heard. Fails only when the
    /// journal had to be read, to catch up, and could not be. May be dropped half-way and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Published>, StoreError> {
        loop {
            if let Some(published) = self.ready.pop_front() {
                if let Published::Recorded(record) = &published {
                    self.next_seq = record.seq + 1;
                }
                return Ok(Some(published));
            }
            if let Some(upto) = self.now.as_ref().map(|now| now.seq) {
                self.catch_up(upto).await?;
                continue;
            }
            match self.ring.recv().await {
                Ok(Published::Recorded(record)) if record.seq < self.next_seq => {}
                Ok(published) => self.ready.push_back(published),
                Err(broadcast::error::RecvError::Lagged(entries)) => {
                    self.missed += entries;
                    self.join_again();
                }
                Err(broadcast::error::RecvError::Closed) => return Ok(None),
            }
        }
    }

    /// Takes a new place at the end of the ring; where the session is closed, an empty one.
    fn join_again(&mut self) {
        let now = lock(&self.session);
        self.ring = match self.sender.upgrade() {
            Some(sender) => sender.subscribe(),
            None => broadcast::channel(1).1,
        };
        self.now = Some(now.clone());
    }

    /// Reads the next page of the records up to where the ring was joined; behind the last, tells where that was.
    async fn catch_up(&mut self, upto: Seq) -> Result<(), StoreError> {
        let missing = usize::try_from((upto + 1).saturating_sub(self.next_seq)).unwrap_or(usize::MAX);
        if missing > 0 {
            let page = self.stored.read(self.next_seq, missing.min(PAGE)).await?;
            if !page.is_empty() {
                self.ready.extend(page.into_iter().map(|record| Published::Recorded(Arc::new(record))));
                return Ok(());
            }
        }
        let missed = std::mem::take(&mut self.missed);
        self.ready.extend((missed > 0).then_some(Published::Missed { fragments: missed }));
        self.ready.extend(self.now.take().map(|now| Published::Now(Box::new(now))));
        self.ready.push_back(Published::CaughtUp);
        Ok(())
    }
}

fn lock(now: &Mutex<Now>) -> MutexGuard<'_, Now> {
    now.lock().unwrap_or_else(PoisonError::into_inner)
}
