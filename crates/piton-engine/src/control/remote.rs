//! A session that another process runs, as a handle of this one has it: one connection, on which every request has a
//! number and gets its own answers.

use super::client::{Connection, Incoming};
use crate::error::{ControlError, EngineError};
use crate::inbox::Answer;
use crate::store::Stored;
use piton_core::client::{PROTOCOL, Reply, Request};
use std::collections::HashMap;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// The way to the writer of a session. The connection ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct RemoteSession {
    requests: UnboundedSender<(Request, UnboundedSender<Answer>)>,
    pid: u32,
}

/// A request that is not answered to the end.
struct Pending {
    answers: UnboundedSender<Answer>,
    /// Whether it is a prompt whose turn's end is wanted: that has two answers.
    wants_end: bool,
}

impl RemoteSession {
    /// Reaches the writer of a session; `None` where there is none.
    pub(crate) async fn open(stored: &Stored) -> Result<Option<Self>, ControlError> {
        let Some(mut connection) = Connection::open(&**stored.store(), stored.id()).await? else { return Ok(None) };
        let pid = match connection.next().await {
            Some(Incoming::Reply(Reply::Hello { protocol: PROTOCOL, pid, .. })) => pid,
            Some(Incoming::Reply(Reply::Hello { protocol, pid, .. })) => {
                return Err(ControlError::OtherProtocol { pid, protocol });
            }
            _ => return Ok(None),
        };
        let (requests, asked) = mpsc::unbounded_channel();
        tokio::spawn(converse(connection, asked));
        Ok(Some(Self { requests, pid }))
    }

    /// The process that runs the session.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks for something. Where the writer is gone, the answers end without one.
    pub(crate) fn ask(&self, request: Request) -> UnboundedReceiver<Answer> {
        let (answers, arriving) = mpsc::unbounded_channel();
        drop(self.requests.send((request, answers)));
        arriving
    }
}

/// Until the writer leaves or every handle is gone. What is not answered then learns it from its closed channel.
async fn converse(mut connection: Connection, mut asked: UnboundedReceiver<(Request, UnboundedSender<Answer>)>) {
    let mut pending = HashMap::new();
    let mut last = 0;
    loop {
        tokio::select! {
            request = asked.recv() => {
                let Some((request, answers)) = request else { return };
                last += 1;
                let wants_end = wants_end(&request);
                pending.insert(last, Pending { answers, wants_end });
                if connection.ask_as(last, &request).await.is_err() {
                    return;
                }
            }
            told = connection.next_numbered() => match told {
                Some((Some(id), Incoming::Reply(reply))) => pass_on(&mut pending, id, reply),
                Some(_) => {}
                None => return,
            },
        }
    }
}

/// Whether it is a prompt, of whichever session of the tree, whose turn's end is wanted.
fn wants_end(request: &Request) -> bool {
    match request {
        Request::Prompt(prompt) => prompt.wait,
        Request::Subagent { request, .. } => wants_end(request),
        _ => false,
    }
}

fn pass_on(pending: &mut HashMap<u64, Pending>, id: u64, reply: Reply) {
    let Some(waiting) = pending.get(&id) else { return };
    let goes_on = waiting.wants_end && matches!(reply, Reply::Accepted(_));
    let answer = match reply {
        Reply::Refused(refusal) => Err(EngineError::Refused(refusal)),
        Reply::AtRest {} => Err(EngineError::AtRest),
        reply => Ok(reply),
    };
    // The client may have stopped listening.
    drop(waiting.answers.send(answer));
    if !goes_on {
        pending.remove(&id);
    }
}
