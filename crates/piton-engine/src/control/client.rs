//! The other processes' side of the socket: a [`Connection`] to the writer of the moment, and a [`Follower`], which
//! outlives connections.

use super::address::{self, Address};
use crate::branches::Branches;
use crate::bus::Heard;
use crate::error::ControlError;
use crate::store::{Store, StoreError, Stored};
use futures_util::StreamExt;
use piton_core::client::{Closed, Line, Live, Mark, Of, PROTOCOL, Published, Reply, Request};
use piton_core::event::Record;
use piton_core::ids::{Seq, SessionId};
use serde::Serialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, LinesCodec};

/// A writer has its lock before it has its socket, and loses its socket before its lock: so long we wait for one of
/// them to follow the other. One that leaves may wait seven seconds in between, for its title and for its hooks.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before the socket is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// Something that is heard at the socket.
#[derive(Debug, Clone)]
pub enum Incoming {
    /// It happened in the session.
    Published(Published),
    /// It happened in a subagent of the session.
    Child(Of, Published),
    /// It is an answer to us.
    Reply(Reply),
}

/// A line to the writer of a session.
pub struct Connection {
    lines: FramedRead<OwnedReadHalf, LinesCodec>,
    out: OwnedWriteHalf,
}

impl Connection {
    /// Reaches the writer of a session; `None` where there is none.
    pub async fn open(store: &dyn Store, session: &SessionId) -> Result<Option<Self>, ControlError> {
        Self::open_until(store, session, Instant::now() + PATIENCE).await
    }

    async fn open_until(store: &dyn Store, session: &SessionId, until: Instant) -> Result<Option<Self>, ControlError> {
        let socket = address::socket(store, session);
        loop {
            let connected = match Address::of(&socket) {
                Ok(address) => UnixStream::connect(address.path()).await,
                Err(error) => Err(error),
            };
            match connected {
                Ok(stream) => {
                    let (read, out) = stream.into_split();
                    let mut connection = Self { lines: FramedRead::new(read, LinesCodec::new()), out };
                    // A writer that is gone is found out by what comes next.
                    drop(connection.send(&Line::Hello { protocol: PROTOCOL }).await);
                    return Ok(Some(connection));
                }
                Err(source) => match store.holder(session).await {
                    None => return Ok(None),
                    Some(holder) if Instant::now() >= until => {
                        return Err(ControlError::Unreachable { holder, source });
                    }
                    Some(_) => tokio::time::sleep(PAUSE).await,
                },
            }
        }
    }

    /// Asks for something; the answer is among what comes. A writer that is gone is found out by [`Connection::next`].
    pub async fn ask(&mut self, request: &Request) -> io::Result<()> {
        self.send(request).await
    }

    /// The same under a number, which its answers carry.
    pub(super) async fn ask_as(&mut self, id: u64, request: &Request) -> io::Result<()> {
        let mut value = serde_json::to_value(request)?;
        value["id"] = id.into();
        self.send(&value).await
    }

    pub(super) async fn send(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        self.out.write_all(&line).await
    }

    /// What is told next; `None` when the writer has left or died. Words that a newer writer has are passed over.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.next_numbered().await.map(|(_, told)| told)
    }

    /// The same, with the number of the request that it answers.
    pub(super) async fn next_numbered(&mut self) -> Option<(Option<u64>, Incoming)> {
        loop {
            // A line that cannot be read is the end of what this connection is good for.
            let line = self.lines.next().await?.ok()?;
            if let Some(told) = told(&line) {
                return Some(told);
            }
        }
    }
}

fn told(line: &str) -> Option<(Option<u64>, Incoming)> {
    let value: Value = serde_json::from_str(line).ok()?;
    let id = value["re"].as_u64();
    Some((id, of_value(value)?))
}

fn of_value(mut value: Value) -> Option<Incoming> {
    if let Some(of) = value.as_object_mut().and_then(|fields| fields.remove("of")) {
        let of = serde_json::from_value(of).ok()?;
        return match of_value(value)? {
            Incoming::Published(published) => Some(Incoming::Child(of, published)),
            _ => None,
        };
    }
    if value.get("at_ms").is_some() {
        let record: Record = serde_json::from_value(value).ok()?;
        return Some(Incoming::Published(Published::Recorded(Arc::new(record))));
    }
    if let Ok(live) = serde_json::from_value::<Live>(value.clone()) {
        return Some(Incoming::Published(Published::Live(Arc::new(live))));
    }
    match serde_json::from_value::<Mark>(value.clone()) {
        Ok(mark) => Some(Incoming::Published(mark.into())),
        Err(_) => serde_json::from_value(value).ok().map(Incoming::Reply),
    }
}

/// A place at a session that another process runs.
pub struct Listening {
    stored: Stored,
    next_seq: Seq,
    connection: Option<Connection>,
    /// Whether subagents are heard, too.
    tree: bool,
    /// Whether somebody listens here who can answer, and whether the writer knows.
    attends: bool,
    is_attending: bool,
    /// What the writer has left behind, once it is gone.
    backlog: Option<VecDeque<Published>>,
}

impl Listening {
    pub(crate) fn new(stored: Stored, from: Seq) -> Self {
        let (connection, backlog) = (None, None);
        Self { stored, next_seq: from.max(1), connection, tree: false, attends: false, is_attending: false, backlog }
    }

    /// The same, which hears subagents, too.
    pub(crate) fn with_subagents(self) -> Self {
        Self { tree: true, ..self }
    }

    /// Says whether somebody is there who can answer. The writer hears of it with the next thing that is heard here.
    pub(crate) fn attend(&mut self, attends: bool) {
        self.attends = attends;
    }

    /// The next thing there is to hear; [`Published::Closed`], then `None`, when its writer has left or died, and all that
    /// it recorded is told. May be dropped half-way and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Heard>, StoreError> {
        loop {
            if let Some(backlog) = &mut self.backlog {
                return Ok(backlog.pop_front().map(|published| (None, published)));
            }
            let told = match self.told().await {
                Some(Incoming::Published(Published::Recorded(record))) if record.seq < self.next_seq => continue,
                Some(Incoming::Published(published)) => published,
                Some(Incoming::Child(of, published)) => return Ok(Some((Some(of), published))),
                Some(Incoming::Reply(_)) => continue,
                None => {
                    let left = self.stored.read(self.next_seq, usize::MAX).await?;
                    let left = left.into_iter().map(|record| Published::Recorded(Arc::new(record)));
                    self.backlog = Some(left.chain([Published::Closed(Closed::Lost)]).collect());
                    continue;
                }
            };
            match &told {
                Published::Recorded(record) => self.next_seq = record.seq + 1,
                Published::Closed(_) => self.backlog = Some(VecDeque::new()),
                _ => {}
            }
            return Ok(Some((None, told)));
        }
    }

    async fn told(&mut self) -> Option<Incoming> {
        if self.connection.is_none() {
            let mut connection = Connection::open(&**self.stored.store(), self.stored.id()).await.ok()??;
            connection.send(&Line::Follow { from: self.next_seq, tree: self.tree }).await.ok()?;
            self.connection = Some(connection);
        }
        let connection = self.connection.as_mut()?;
        if self.attends != self.is_attending {
            self.is_attending = self.attends;
            connection.send(&Line::Attend { attends: self.attends }).await.ok()?;
        }
        connection.next().await
    }
}

/// Follows a session from writer to writer, and where there is none to its end in the journal. Every record comes once
/// and in order, whatever happens to the processes.
pub struct Follower {
    stored: Stored,
    next_seq: Seq,
    link: Link,
    backlog: VecDeque<Record>,
    /// The subagents, where they are heard, too.
    branches: Option<Branches>,
}

enum Link {
    /// Not connected, or not any more: it is not known whether there is a writer. One that has the lock is looked for
    /// until this time.
    Lost(Instant),
    Connected(Box<Connection>),
    /// There is no writer, and all that the journal has is told.
    Alone,
}

impl Link {
    fn lost() -> Self {
        Self::Lost(Instant::now() + PATIENCE)
    }
}

impl Follower {
    /// Follows from this position on (1 is the beginning). Nothing is read or connected yet.
    pub fn new(store: Arc<dyn Store>, session: SessionId, from: Seq) -> Self {
        Self {
            stored: Stored::new(store, session),
            next_seq: from.max(1),
            link: Link::lost(),
            backlog: VecDeque::new(),
            branches: None,
        }
    }

    /// The same, which hears subagents, too.
    #[must_use]
    pub fn with_subagents(self) -> Self {
        let branches = Branches::new(self.stored.clone(), None);
        Self { branches: Some(branches), ..self }
    }

    /// What there is to hear next; `None` when all is told and nobody runs the session. At each writer the first thing
    /// is its [`Reply::Hello`]. May be dropped half-way and called again.
    pub async fn next(&mut self) -> Result<Option<Incoming>, ControlError> {
        loop {
            if let Some((of, published)) = self.branches.as_mut().and_then(|branches| branches.ready.pop_front()) {
                return Ok(Some(match of {
                    Some(of) => Incoming::Child(of, published),
                    None => Incoming::Published(published),
                }));
            }
            if let Some(record) = self.backlog.front() {
                let published = Published::Recorded(Arc::new(record.clone()));
                if let Some(branches) = &mut self.branches {
                    branches.hear(published.clone()).await?;
                }
                self.next_seq = record.seq + 1;
                self.backlog.pop_front();
                match &self.branches {
                    Some(_) => continue,
                    None => return Ok(Some(Incoming::Published(published))),
                }
            }
            match &mut self.link {
                Link::Lost(until) => {
                    let until = *until;
                    self.connect(until).await?;
                }
                Link::Connected(connection) => match connection.next().await {
                    Some(Incoming::Published(Published::Recorded(record))) if record.seq < self.next_seq => {}
                    // Another writer may come.
                    Some(Incoming::Published(Published::Closed(_))) => {}
                    Some(Incoming::Reply(Reply::Hello { protocol, pid, .. })) if protocol != PROTOCOL => {
                        return Err(ControlError::OtherProtocol { pid, protocol });
                    }
                    Some(told) => {
                        if let Incoming::Published(Published::Recorded(record)) = &told {
                            self.next_seq = record.seq + 1;
                        }
                        return Ok(Some(told));
                    }
                    None => self.link = Link::lost(),
                },
                Link::Alone => {
                    let Some(branches) = &mut self.branches else { return Ok(None) };
                    branches.finish_all().await?;
                    if branches.ready.is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn connect(&mut self, until: Instant) -> Result<(), ControlError> {
        let follow = Line::Follow { from: self.next_seq, tree: self.branches.is_some() };
        match Connection::open_until(&**self.stored.store(), self.stored.id(), until).await? {
            Some(mut connection) => {
                if connection.send(&follow).await.is_ok() {
                    self.link = Link::Connected(Box::new(connection));
                }
            }
            None => {
                self.backlog = self.stored.read(self.next_seq, usize::MAX).await?.into();
                // A writer may have come between the look and the read. Only where the read finds nothing is everything
                // told that was there when nobody ran the session, and no half of a turn passes for one that was cut off.
                self.link = if self.backlog.is_empty() { Link::Alone } else { Link::lost() };
            }
        }
        Ok(())
    }
}
