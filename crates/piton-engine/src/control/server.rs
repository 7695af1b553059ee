//! The writer's side of the socket. It never holds up the loop: every client has a task of its own, history is read on
//! another thread and in pieces, and who does not take what was sent for a while is disconnected. Nothing is lost by that:
//! the client reconnects and names the position it has reached.

use super::address::{self, Address};
use crate::branches::{Branches, OpenSessions, TreeListener};
use crate::bus::{Attending, Bus, Heard, Listener};
use crate::clock::World;
use crate::error::EngineError;
use crate::inbox::{Answer, Asked, Asker, WeakInbox};
use crate::store::{StoreError, Stored};
use futures_util::{FutureExt, StreamExt};
use piton_core::client::{Line, Mark, PROTOCOL, Published, Refusal, Reply, Request};
use piton_core::ids::{MessageId, Seq};
use piton_tools::runner::is_of_a_call;
use serde::Serialize;
use serde_json::Value;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;

/// Bytes of a request: a prompt with some files pasted in.
pub const REQUEST_BYTES: usize = 16 << 20;
/// Bytes that are gathered before they are sent: a fast model must not cost a system call per word and follower.
const BATCH_BYTES: usize = 64 << 10;
/// How long a client may leave sent data unread before it is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause after a failed accept, mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The listening socket. Dropping it closes every connection, once its client has the last of the session.
pub(crate) struct Server {
    accepting: JoinHandle<()>,
    socket: PathBuf,
    over: CancellationToken,
}

/// What clients at the socket get to of a session.
pub(crate) struct Served {
    pub(crate) stored: Stored,
    pub(crate) bus: Bus,
    pub(crate) inbox: WeakInbox,
    /// The sessions that are open beside it: those of its subagents.
    pub(crate) open: Arc<dyn OpenSessions>,
}

/// What the connections of one session share.
struct Shared {
    served: Served,
    socket: PathBuf,
    over: CancellationToken,
}

impl Server {
    /// Starts to listen, from a task, so that the caller need not wait. Only for the writer.
    /// Where no socket can be made, the session goes on without.
    pub(crate) fn open(served: Served) -> Self {
        let (socket, over) = (address::socket(&**served.stored.store(), served.stored.id()), CancellationToken::new());
        let shared = Arc::new(Shared { served, socket: socket.clone(), over: over.clone() });
        Self { accepting: tokio::spawn(accept(shared)), socket, over }
    }

    /// Lets nobody in any more. Who is in stays until this is dropped.
    pub(crate) async fn shut(&mut self) {
        self.accepting.abort();
        // Its end is what we asked for.
        drop((&mut self.accepting).await);
        // One that stays behind is refused by the system, and replaced.
        drop(std::fs::remove_file(&self.socket));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
        self.over.cancel();
    }
}

async fn accept(shared: Arc<Shared>) {
    let Ok(listener) = listen(&shared.socket) else { return };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(receive(shared.clone(), stream))),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    let address = Address::of(socket)?;
    // We have the lock: what lies there is a dead writer's.
    match std::fs::remove_file(address.path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(address.path())?;
    std::fs::set_permissions(address.path(), std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Somebody at the socket.
struct Client {
    shared: Arc<Shared>,
    out: OwnedWriteHalf,
    following: Option<Following>,
    attending: Option<Attending>,
    /// Whether the client has said which vocabulary it speaks.
    is_known: bool,
    replies: mpsc::UnboundedSender<(Option<u64>, Reply)>,
}

/// What a client follows.
enum Following {
    Session(Box<Listener>),
    Tree(Box<TreeListener>),
}

impl Following {
    async fn next(&mut self) -> Result<Option<Heard>, StoreError> {
        match self {
            Self::Session(listener) => Ok(listener.next().await?.map(|published| (None, published))),
            Self::Tree(listener) => listener.next().await,
        }
    }
}

/// An error only means that the client is gone, does not listen, or that the session is over.
async fn receive(shared: Arc<Shared>, stream: UnixStream) {
    let stranger = stranger(&stream);
    let (read, out) = stream.into_split();
    let requests = FramedRead::new(read, LinesCodec::new_with_max_length(REQUEST_BYTES));
    let (replies, pending) = mpsc::unbounded_channel();
    let mut client = Client { shared, out, following: None, attending: None, is_known: false, replies };
    drop(match stranger {
        Some(reason) => client.refuse(reason).await,
        None => client.serve(requests, pending).await,
    });
}

/// Why somebody at the socket may say nothing in the session: a command that the model has started would speak as the user, and
/// say yes to itself. Where there is a sandbox it does not get here. A process of a namespace above ours has no number here.
fn stranger(stream: &UnixStream) -> Option<&'static str> {
    let pid =
        stream.peer_cred().ok().and_then(|peer| peer.pid()).filter(|pid| cfg!(target_os = "linux") && *pid > 0)?;
    let reason = match is_of_a_call(pid) {
        Some(false) => return None,
        Some(true) => "it comes from a command of a session, and commands may not speak for the user",
        None => "the process that has connected is gone, and who it was cannot be told",
    };
    tracing::warn!(target: "piton::control", pid, "a client is refused: {reason}");
    Some(reason)
}

impl Client {
    async fn serve(
        mut self,
        mut requests: FramedRead<OwnedReadHalf, LinesCodec>,
        mut pending: mpsc::UnboundedReceiver<(Option<u64>, Reply)>,
    ) -> io::Result<()> {
        let over = self.shared.over.clone();
        self.greet().await?;
        let mut listens_only = false;
        loop {
            tokio::select! {
                request = requests.next(), if !listens_only => match request {
                    Some(Ok(request)) if self.hear(&request)? => {}
                    Some(Ok(_)) => break,
                    Some(Err(error)) => return self.tell(None, &refused(None, error)).await,
                    // Who says nothing more answers no question.
                    None => (listens_only, self.attending) = (true, None),
                },
                Some((id, reply)) = pending.recv() => self.tell(id, &reply).await?,
                lines = lines(&mut self.following) => match lines {
                    Ok(lines) => self.send(&lines).await?,
                    Err(error) => return self.tell(None, &refused(None, error)).await,
                },
                () = over.cancelled() => break,
            }
        }
        while let Ok((id, reply)) = pending.try_recv() {
            self.tell(id, &reply).await?;
        }
        while let Some(Ok(lines)) = lines(&mut self.following).now_or_never() {
            self.send(&lines).await?;
        }
        Ok(())
    }

    async fn greet(&mut self) -> io::Result<()> {
        let (session, pid) = (self.shared.served.stored.id().clone(), std::process::id());
        self.tell(None, &Reply::Hello { protocol: PROTOCOL, session, pid }).await
    }

    /// Says why nothing is heard, and no more.
    async fn refuse(&mut self, reason: &str) -> io::Result<()> {
        self.greet().await?;
        self.tell(None, &refused(None, reason)).await
    }

    /// Does what was asked; the answers come as they come. Whether the client is understood at all. Fails when the
    /// session is being left.
    fn hear(&mut self, text: &str) -> io::Result<bool> {
        let not_understood =
            |error: serde_json::Error| refused(None, format!("this request is not understood: {error}"));
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return self.reply(None, not_understood(error)).map(|()| true),
        };
        let id = value["id"].as_u64();
        match value["do"].as_str() {
            Some("hello") if value["protocol"] == PROTOCOL => self.is_known = true,
            _ if !self.is_known => {
                return self.reply(id, refused(None, older(value["protocol"].as_u64()))).map(|()| false);
            }
            Some("follow" | "attend") => match serde_json::from_value(value) {
                Ok(Line::Follow { from, tree }) => self.following = Some(self.follow(from, tree)),
                Ok(Line::Attend { attends }) => self.attending = attends.then(|| self.shared.served.bus.attend()),
                Ok(Line::Hello { .. }) => {}
                Err(error) => self.reply(id, not_understood(error))?,
            },
            _ => match Request::of_line(value) {
                Ok(request) => self.ask(id, request)?,
                Err(error) => self.reply(id, not_understood(error))?,
            },
        }
        Ok(true)
    }

    fn follow(&self, from: Seq, tree: bool) -> Following {
        let Served { stored, bus, open, .. } = &self.shared.served;
        let listener = bus.subscribe(stored.clone(), from);
        if !tree {
            return Following::Session(Box::new(listener));
        }
        let branches = Branches::new(stored.clone(), Some(Arc::clone(open)));
        Following::Tree(Box::new(TreeListener::new(listener, from, branches)))
    }

    fn ask(&self, id: Option<u64>, mut request: Request) -> io::Result<()> {
        let message = match &mut request {
            Request::Prompt(prompt) => Some(prompt.message.get_or_insert_with(|| World::system().message_id()).clone()),
            _ => None,
        };
        let (asker, mut answers) = Asker::remote();
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.shared.served.inbox.put(Asked::Request(request, asker)).map_err(gone)?;
        let replies = self.replies.clone();
        tokio::spawn(async move {
            while let Some(answer) = answers.recv().await {
                // The client may have stopped listening.
                drop(replies.send((id, reply(answer, message.clone()))));
            }
        });
        Ok(())
    }

    fn reply(&self, id: Option<u64>, reply: Reply) -> io::Result<()> {
        self.replies.send((id, reply)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// An answer, under the number of the request that it answers.
    async fn tell(&mut self, id: Option<u64>, reply: &Reply) -> io::Result<()> {
        let mut value = serde_json::to_value(reply)?;
        if let Some(id) = id {
            value["re"] = id.into();
        }
        self.send(&line(&value)).await
    }

    async fn send(&mut self, lines: &str) -> io::Result<()> {
        let sent = tokio::time::timeout(PATIENCE, self.out.write_all(lines.as_bytes())).await;
        sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The next lines there are to send, as many as there are just now. Waits for ever where nobody follows. May be dropped
/// half-way and called again.
async fn lines(following: &mut Option<Following>) -> Result<String, StoreError> {
    let Some(subscription) = following else { return std::future::pending().await };
    let mut lines = String::new();
    let mut published = subscription.next().await?;
    while let Some(one) = published {
        lines.push_str(&told(one));
        if lines.len() >= BATCH_BYTES {
            return Ok(lines);
        }
        match subscription.next().now_or_never() {
            Some(more) => published = more?,
            None => return Ok(lines),
        }
    }
    *following = None;
    Ok(lines)
}

fn told((of, published): Heard) -> String {
    let told = match &published {
        Published::Recorded(record) => line(&**record),
        Published::Live(live) => line(&**live),
        other => Mark::of(other).map(|mark| line(&mark)).unwrap_or_default(),
    };
    match of {
        None => told,
        Some(of) => of.on(&told).map(|line| line + "\n").unwrap_or_default(),
    }
}

/// An answer of the driver, as plain data.
fn reply(answer: Answer, message: Option<MessageId>) -> Reply {
    match answer {
        Ok(reply) => reply,
        Err(EngineError::AtRest) => Reply::AtRest {},
        Err(error) => refused(message, error),
    }
}

/// What a client is told that does not speak this vocabulary.
fn older(protocol: Option<u64>) -> String {
    let theirs = protocol.unwrap_or(1);
    format!(
        "this session is run by Piton {}, which speaks protocol {PROTOCOL} here, and this client speaks protocol {theirs}. \
         Use the same version of Piton on both sides; a client of your own begins with \
         {{\"do\":\"hello\",\"protocol\":{PROTOCOL}}}",
        env!("CARGO_PKG_VERSION")
    )
}

fn refused(message: Option<MessageId>, error: impl std::fmt::Display) -> Reply {
    Reply::Refused(Refusal { message, error: error.to_string() })
}

/// A line of JSON. Our own types always are JSON.
fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}
