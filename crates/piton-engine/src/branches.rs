//! A session and its subagents, heard together: everything of the session, and beside it the records and fragments of each subagent,
//! with the call that it answers.
//!
//! ```text
//!   root:   delegated ─────────────────────────► call_settled
//!              └─► subagent: its records, from the first ┘ all of them before this
//! ```
//!
//! A subagent that is at work here is listened to; of one that is over, or works elsewhere, the store tells. What a subagent wants is
//! not told twice: it is among what the session itself wants.

use crate::bus::{Heard, Listener};
use crate::store::{StoreError, Stored};
use futures_util::future::select_all;
use piton_core::client::{Live, Of, Published};
use piton_core::event::{Event, Record};
use piton_core::ids::{CallId, Seq, SessionId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The sessions that are open in this process.
pub(crate) trait OpenSessions: Send + Sync {
    /// A place at one of them, from this position of its journal on, or from now on; with that position. `None`: it is not open.
    fn listen(&self, session: &SessionId, from: Option<Seq>) -> Option<(Seq, Listener)>;
}

/// One listener's place at a session and its subagents.
pub(crate) struct TreeListener {
    /// `None` once the session is closed.
    root: Option<Listener>,
    /// The session's records from before this position are yet to be looked through for who is at work.
    unread_below: Seq,
    /// Something that was heard, and of which subagent, until all that comes before it is ready.
    taken: Option<(Option<usize>, Published)>,
    branches: Branches,
}

impl TreeListener {
    /// From this position of the session's journal on. Of subagents that were called before, those that are at work are heard from now
    /// on.
    pub(crate) fn new(root: Listener, from: Seq, branches: Branches) -> Self {
        Self { root: Some(root), unread_below: from, taken: None, branches }
    }

    /// Whether everything published so far has been heard.
    pub(crate) fn is_drained(&self) -> bool {
        let of_children = self.branches.members.iter().filter_map(|member| member.hears.as_ref());
        self.taken.is_none()
            && self.branches.ready.is_empty()
            && self.root.iter().chain(of_children).all(Listener::is_drained)
    }

    /// The next item. Those of the session itself are as [`Listener::next`] has them; `None` when it is closed. May be dropped half-way
    /// and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Heard>, StoreError> {
        loop {
            if let Some(heard) = self.branches.ready.pop_front() {
                return Ok(Some(heard));
            }
            if let Some((at, published)) = self.taken.clone() {
                match at {
                    None => self.branches.hear(published).await?,
                    Some(at) => self.branches.hear_child(at, published).await?,
                }
                self.taken = None;
                continue;
            }
            let Some(root) = &mut self.root else { return Ok(None) };
            if self.unread_below > 1 {
                self.branches.remember(self.unread_below).await?;
                self.unread_below = 0;
            }
            let at_work = self.branches.members.iter_mut().enumerate();
            let children = at_work.filter_map(|(at, member)| Some((Some(at), member.hears.as_mut()?)));
            let all = std::iter::once((None, root)).chain(children);
            let next = all.map(|(at, hears)| Box::pin(async move { (at, hears.next().await) }));
            let ((at, heard), ..) = select_all(next).await;
            match (at, heard?) {
                (None, None) => self.root = None,
                (Some(at), None) => self.branches.members[at].hears = None,
                (at, Some(published)) => self.taken = Some((at, published)),
            }
        }
    }
}

/// The subagents of a session, as far as it was heard, and what they say that is not told yet.
///
/// What takes its time can be dropped half-way and done again.
pub(crate) struct Branches {
    root: Stored,
    /// The sessions that are open in this process, where one listens to these.
    open: Option<Arc<dyn OpenSessions>>,
    members: Vec<Member>,
    pub(crate) ready: VecDeque<Heard>,
}

/// A subagent.
struct Member {
    of: Of,
    /// Whose call it answers.
    caller: Option<SessionId>,
    /// Its next record that is not heard yet.
    next_seq: Seq,
    hears: Option<Listener>,
}

impl Branches {
    pub(crate) fn new(root: Stored, open: Option<Arc<dyn OpenSessions>>) -> Self {
        Self { root, open, members: Vec::new(), ready: VecDeque::new() }
    }

    /// Takes notice of the session's records from before: whoever is at work is heard from now on.
    async fn remember(&mut self, before: Seq) -> Result<(), StoreError> {
        let records = self.root.read(1, usize::try_from(before - 1).unwrap_or(usize::MAX)).await?;
        let mut at_work: HashMap<&CallId, &SessionId> = HashMap::new();
        for record in &records {
            match &record.event {
                Event::Delegated { call, child, .. } => drop(at_work.insert(call, child)),
                // One that goes on in the background is still at work.
                Event::CallSettled { call, outcome } if outcome.delegated.is_some() => drop(at_work.remove(call)),
                Event::TaskEnded { task, .. } => drop(at_work.remove(task)),
                _ => {}
            }
        }
        for (call, child) in at_work {
            let Some((next_seq, hears)) = self.open.as_ref().and_then(|open| open.listen(child, None)) else {
                continue;
            };
            let of = Of { session: child.clone(), call: Some(call.clone()) };
            self.members.push(Member { of, caller: None, next_seq, hears: Some(hears) });
        }
        Ok(())
    }

    /// Takes notice of what the session itself publishes.
    pub(crate) async fn hear(&mut self, published: Published) -> Result<(), StoreError> {
        match &published {
            Published::Recorded(record) => self.before(None, record).await?,
            // Something may have been missed: whoever is at work is heard.
            Published::Now(_) => {
                let all: Vec<_> = self.members.iter().map(|member| member.of.session.clone()).collect();
                all.iter().for_each(|session| self.opened(session));
            }
            _ => {}
        }
        let opened = opened_of(&published);
        self.ready.push_back((None, published));
        opened.iter().for_each(|session| self.opened(session));
        Ok(())
    }

    /// The same of a subagent. What it wants is told by the session.
    async fn hear_child(&mut self, at: usize, published: Published) -> Result<(), StoreError> {
        let of = self.members[at].of.clone();
        match &published {
            // It was told when its call was settled.
            Published::Recorded(record) if record.seq < self.members[at].next_seq => return Ok(()),
            Published::Recorded(record) => {
                let caller = of.session.clone();
                self.before(Some(&caller), record).await?;
                self.members[at].next_seq = record.seq + 1;
            }
            Published::Live(_) => {}
            _ => return Ok(()),
        }
        let opened = opened_of(&published);
        self.ready.push_back((Some(of), published));
        opened.iter().for_each(|session| self.opened(session));
        Ok(())
    }

    /// What comes before a record is told: a subagent that answers a call has said everything when the call is settled.
    async fn before(&mut self, caller: Option<&SessionId>, record: &Record) -> Result<(), StoreError> {
        match &record.event {
            Event::Delegated { call, child, .. } => self.called(caller, call, child),
            Event::CallSettled { call, .. } | Event::TaskEnded { task: call, .. } => {
                let is_it = |member: &Member| member.of.call.as_ref() == Some(call) && member.caller.as_ref() == caller;
                // One that was left at work in the background goes on.
                let goes_on =
                    matches!(&record.event, Event::CallSettled { outcome, .. } if outcome.delegated.is_none());
                if let Some(at) = self.members.iter().position(is_it).filter(|_| !goes_on) {
                    Box::pin(self.finish(at)).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A subagent answers this call from now on, perhaps not for the first time.
    fn called(&mut self, caller: Option<&SessionId>, call: &CallId, child: &SessionId) {
        match self.members.iter_mut().find(|member| member.of.session == *child) {
            Some(member) => member.of.call = Some(call.clone()),
            None => {
                let of = Of { session: child.clone(), call: Some(call.clone()) };
                self.members.push(Member { of, caller: caller.cloned(), next_seq: 1, hears: None });
            }
        }
        self.opened(child);
    }

    /// It may be open here.
    fn opened(&mut self, session: &SessionId) {
        let Some(open) = &self.open else { return };
        let waits = |member: &&mut Member| member.of.session == *session && member.hears.is_none();
        if let Some(member) = self.members.iter_mut().find(waits) {
            member.hears = open.listen(session, Some(member.next_seq)).map(|(_, hears)| hears);
        }
    }

    /// Tells all that is on record of a subagent that is over.
    async fn finish(&mut self, at: usize) -> Result<(), StoreError> {
        let Member { of, next_seq, hears, .. } = &mut self.members[at];
        *hears = None;
        let (of, from) = (of.clone(), *next_seq);
        let records = match self.root.store().read(&of.session, from, usize::MAX).await {
            // It was never made, or was thrown away since.
            Err(StoreError::NotFound { .. }) => Vec::new(),
            records => records?,
        };
        for record in records {
            self.before(Some(&of.session), &record).await?;
            self.members[at].next_seq = record.seq + 1;
            self.ready.push_back((Some(of.clone()), Published::Recorded(Arc::new(record))));
        }
        Ok(())
    }

    /// Tells what is on record of those that no call was settled for: nobody is at work any more.
    pub(crate) async fn finish_all(&mut self) -> Result<(), StoreError> {
        let mut at = 0;
        while at < self.members.len() {
            self.finish(at).await?;
            at += 1;
        }
        Ok(())
    }
}

/// The subagent that was opened, where that is what is told.
fn opened_of(published: &Published) -> Option<SessionId> {
    match published {
        Published::Live(live) => match &**live {
            Live::ChildOpened { session, .. } => Some(session.clone()),
            _ => None,
        },
        _ => None,
    }
}
