//! What a session tells whoever listens: recorded events, and the fragments that stream by between them.
//!
//! Every listener has its own place in one bounded ring. A slow one does not hold up the loop: it loses fragments, and
//! reads the recorded events it missed from the journal. So recorded events are never lost, fragments may be.

use crate::store::{StoreError, Stored};
use piton_core::client::{Live, Published};
use piton_core::event::Record;
use piton_core::ids::Seq;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::broadcast;

/// Entries the ring holds: some seconds of a fast model. Each is a pointer and a short text.
const RING: usize = 8_192;
/// Records that are read at once to catch up.
const PAGE_RECORDS: usize = 256;

/// The sending side.
#[derive(Debug, Clone)]
pub struct Bus {
    ring: broadcast::Sender<Published>,
    /// The last record that it need not tell, or has told.
    told: Arc<AtomicU64>,
}

/// One listener's place.
pub struct Subscription {
    ring: broadcast::Receiver<Published>,
    stored: Stored,
    next_seq: Seq,
    backlog: VecDeque<Record>,
    must_catch_up: bool,
}

impl Bus {
    /// A bus without listeners, of a journal that ends here.
    pub(crate) fn new(durable_seq: Seq) -> Self {
        Self { ring: broadcast::Sender::new(RING), told: Arc::new(AtomicU64::new(durable_seq)) }
    }

    /// Tells everyone who listens now.
    pub(crate) fn publish(&self, published: Published) {
        if let Published::Recorded(record) = &published {
            self.told.fetch_max(record.seq, Ordering::SeqCst);
        }
        // An error only means that nobody listens.
        drop(self.ring.send(published));
    }

    /// Tells everyone a fragment.
    pub(crate) fn live(&self, live: Live) {
        self.publish(Published::Live(Arc::new(live)));
    }

    /// Listens from this position of the journal on: what is recorded already comes first.
    pub(crate) fn subscribe(&self, stored: Stored, from_seq: Seq) -> Subscription {
        let next_seq = from_seq.max(1);
        // First the ring, then what was told before: a record between them is in both.
        let ring = self.ring.subscribe();
        let must_catch_up = self.told.load(Ordering::SeqCst) >= next_seq;
        Subscription { ring, stored, next_seq, backlog: VecDeque::new(), must_catch_up }
    }
}

impl Subscription {
    /// Whether everything published so far has been heard.
    pub fn is_drained(&self) -> bool {
        !self.must_catch_up && self.backlog.is_empty() && self.ring.is_empty()
    }

    /// The next thing there is to hear; `None` when the session is closed and all has been heard. Fails only when the
    /// journal had to be read, to catch up, and could not be.
    pub async fn next(&mut self) -> Result<Option<Published>, StoreError> {
        loop {
            if let Some(record) = self.backlog.pop_front() {
                self.next_seq = record.seq + 1;
                return Ok(Some(Published::Recorded(Arc::new(record))));
            }
            if self.must_catch_up {
                let page = self.stored.read(self.next_seq, PAGE_RECORDS).await?;
                self.must_catch_up = page.len() == PAGE_RECORDS;
                self.backlog = page.into();
                continue;
            }
            match self.ring.recv().await {
                Ok(Published::Recorded(record)) if record.seq < self.next_seq => {}
                Ok(Published::Recorded(record)) => {
                    self.next_seq = record.seq + 1;
                    return Ok(Some(Published::Recorded(record)));
                }
                Ok(live @ Published::Live(_)) => return Ok(Some(live)),
                Err(broadcast::error::RecvError::Lagged(_)) => self.must_catch_up = true,
                Err(broadcast::error::RecvError::Closed) => return Ok(None),
            }
        }
    }
}
