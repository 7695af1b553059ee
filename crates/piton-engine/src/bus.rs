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
//!
//! What the session wants of its clients follows from where it is, and is told as it changes. Who can answer says so
//! ([`Attending`]); the driver asks nobody where nobody does.

use crate::store::{StoreError, Stored};
use piton_core::client::{Closed, Live, Now, Of, Published, Wanted};
use piton_core::event::{Record, Subject};
use piton_core::ids::{Seq, SessionId};
use piton_core::secrets::{Depth, Firewall};
use piton_core::turn::State;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, broadcast};

/// Entries the ring holds. Each is a pointer and a short text; a session has a ring for as long as it is open.
const RING: usize = 512;
/// Records that are read from the journal at once.
pub(crate) const PAGE: usize = 256;

/// Something that was heard, and the subagent that it is of; none: the session itself.
pub(crate) type Heard = (Option<Of>, Published);

/// The sending side.
#[derive(Debug, Clone)]
pub(crate) struct Bus {
    ring: broadcast::Sender<Published>,
    /// Where the session is after everything in the ring. Locked while something is put there, so that a listener
    /// begins exactly between two entries.
    standing: Arc<Mutex<Standing>>,
    attendance: Arc<Attendance>,
    firewall: Firewall,
}

/// Where a session is.
#[derive(Debug, Clone)]
struct Standing {
    now: Now,
    /// What its subagents and servers want, as its clients hear it.
    of_others: Vec<Wanted>,
    /// Why nothing more is told, once that is so.
    closed: Option<Closed>,
}

/// How many listeners can answer what the session wants.
#[derive(Debug, Default)]
struct Attendance {
    count: AtomicUsize,
    /// Told when one of them goes.
    left: Notify,
}

/// Somebody who can answer, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Attending(Arc<Attendance>);

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.left.notify_one();
    }
}

/// One listener's place.
pub(crate) struct Listener {
    sender: broadcast::WeakSender<Published>,
    standing: Arc<Mutex<Standing>>,
    stored: Stored,
    next_seq: Seq,
    ring: broadcast::Receiver<Published>,
    /// Where the session was when the ring was joined, until that is told: first come the records up to there.
    joined: Option<Standing>,
    missed: u64,
    ready: VecDeque<Published>,
    is_over: bool,
}

impl Bus {
    /// A bus without listeners, of a journal that ends here.
    pub(crate) fn new(state: &State, durable_seq: Seq, firewall: Firewall) -> Self {
        let standing = Standing { now: Now::of(state, durable_seq), of_others: Vec::new(), closed: None };
        Self {
            ring: broadcast::Sender::new(RING),
            standing: Arc::new(Mutex::new(standing)),
            attendance: Arc::default(),
            firewall,
        }
    }

    /// Tells everyone who listens now of events that are durable. The state has applied them.
    pub(crate) fn recorded(&self, records: impl IntoIterator<Item = Arc<Record>>, state: &State) {
        let mut standing = self.lock();
        let mut seq = standing.now.seq;
        for record in records {
            seq = record.seq;
            standing.now.supersede(&record.event);
            self.tell(Published::Recorded(record));
        }
        let before = std::mem::take(&mut standing.now);
        let wanted = before.wanted.clone();
        standing.now = Now::of(state, seq).after(before);
        let of_others = standing.of_others.clone();
        standing.now.wanted.extend(of_others);
        self.tell_wanted(&wanted, &standing.now.wanted);
    }

    /// What a subagent wants now; nothing more where it is over.
    pub(crate) fn child_wants(&self, child: &SessionId, wanted: Vec<Wanted>) {
        let is_of = |wanted: &Wanted| matches!(&wanted.subject, Subject::Child { session, .. } if session == child);
        let mut standing = self.lock();
        let before = standing.now.wanted.clone();
        standing.of_others.retain(|wanted| !is_of(wanted));
        standing.of_others.extend(wanted.iter().cloned());
        standing.now.wanted.retain(|wanted| !is_of(wanted));
        standing.now.wanted.extend(wanted);
        self.tell_wanted(&before, &standing.now.wanted);
    }

    /// A subagent or a server wants this, too.
    pub(crate) fn wants_more(&self, wanted: Vec<Wanted>) {
        let mut standing = self.lock();
        let before = standing.now.wanted.clone();
        for wanted in wanted {
            if !before.contains(&wanted) {
                standing.of_others.push(wanted.clone());
                standing.now.wanted.push(wanted);
            }
        }
        self.tell_wanted(&before, &standing.now.wanted);
    }

    /// They do not want this any more.
    pub(crate) fn no_longer_wants(&self, subject: &Subject) {
        let mut standing = self.lock();
        let before = standing.now.wanted.clone();
        standing.of_others.retain(|wanted| wanted.subject != *subject);
        standing.now.wanted.retain(|wanted| wanted.subject != *subject);
        self.tell_wanted(&before, &standing.now.wanted);
    }

    fn tell_wanted(&self, before: &[Wanted], now: &[Wanted]) {
        before.iter().filter(|before| !now.contains(before)).for_each(|gone| {
            self.tell(Published::Withdrawn(gone.subject.clone()));
        });
        now.iter().filter(|now| !before.contains(now)).for_each(|new| self.tell(Published::Wanted(new.clone())));
    }

    /// Tells everyone a fragment. What streams comes clean: only who sees all of its pieces can tell.
    pub(crate) fn live(&self, mut live: Live) {
        match &mut live {
            Live::SummaryFailed { error, .. } | Live::Broken { error } => self.firewall.clean(error, Depth::Everything),
            _ => {}
        }
        let mut standing = self.lock();
        standing.now.hear(&live);
        self.tell(Published::Live(Arc::new(live)));
    }

    /// Tells everyone that nothing more comes, and why. Only the first reason counts.
    pub(crate) fn close(&self, why: Closed) {
        let mut standing = self.lock();
        if standing.closed.is_none() {
            standing.closed = Some(why.clone());
            self.tell(Published::Closed(why));
        }
    }

    fn tell(&self, published: Published) {
        // An error only means that nobody listens.
        drop(self.ring.send(published));
    }

    /// Where the session is.
    pub(crate) fn now(&self) -> Now {
        self.lock().now.clone()
    }

    /// Somebody is there who can answer.
    pub(crate) fn attend(&self) -> Attending {
        self.attendance.count.fetch_add(1, Ordering::AcqRel);
        Attending(Arc::clone(&self.attendance))
    }

    /// Whether somebody is.
    pub(crate) fn is_attended(&self) -> bool {
        self.attendance.count.load(Ordering::Acquire) > 0
    }

    /// Waits until one of those who could answer goes.
    pub(crate) async fn somebody_left(&self) {
        self.attendance.left.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        lock(&self.standing)
    }

    /// Listens from this position of the journal on: what is recorded already comes first.
    pub(crate) fn subscribe(&self, stored: Stored, from_seq: Seq) -> Listener {
        let (sender, standing) = (self.ring.downgrade(), Arc::clone(&self.standing));
        let (ring, joined) = {
            let standing = self.lock();
            (self.ring.subscribe(), Some(standing.clone()))
        };
        let (next_seq, ready) = (from_seq.max(1), VecDeque::new());
        Listener { sender, standing, stored, next_seq, ring, joined, missed: 0, ready, is_over: false }
    }
}

impl Listener {
    /// Whether everything published so far has been heard.
    pub(crate) fn is_drained(&self) -> bool {
        self.joined.is_none() && self.ready.is_empty() && self.ring.is_empty()
    }

    /// The next thing there is to hear; [`Published::Closed`], then `None`, when the session is closed and all has been
    /// heard. Fails only when the
    /// journal had to be read, to catch up, and could not be. May be dropped half-way and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Published>, StoreError> {
        loop {
            if let Some(published) = self.ready.pop_front() {
                match &published {
                    Published::Recorded(record) => self.next_seq = record.seq + 1,
                    Published::Closed(_) => self.is_over = true,
                    _ => {}
                }
                return Ok(Some(published));
            }
            if self.is_over {
                return Ok(None);
            }
            if let Some(upto) = self.joined.as_ref().map(|joined| joined.now.seq) {
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
        let standing = lock(&self.standing);
        self.ring = match self.sender.upgrade() {
            Some(sender) => sender.subscribe(),
            None => broadcast::channel(1).1,
        };
        self.joined = Some(standing.clone());
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
        let Some(Standing { now, closed, of_others: _ }) = self.joined.take() else { return Ok(()) };
        let wanted: Vec<Published> = now.wanted.iter().cloned().map(Published::Wanted).collect();
        self.ready.push_back(Published::Now(Box::new(now)));
        self.ready.extend(wanted);
        self.ready.push_back(Published::CaughtUp);
        self.ready.extend(closed.map(Published::Closed));
        Ok(())
    }
}

fn lock(standing: &Mutex<Standing>) -> MutexGuard<'_, Standing> {
    standing.lock().unwrap_or_else(PoisonError::into_inner)
}
