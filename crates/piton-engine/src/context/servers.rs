//! What the model is told of MCP servers as the work goes on. What the first request says of them stays as it is.

use piton_core::client::ServerNow;
use piton_core::event::{Event, Record};
use piton_core::message::Part;
use piton_core::server_tool::server_of;
use piton_core::turn::State;
use piton_tools::server_tools::Told;
use piton_tools::servers::{Server, ServerState, Servers};
use piton_tools::toolset::ToolSet;
use std::collections::BTreeSet;

/// What it was told in this process. Another process begins with another first request, which says how things are then.
#[derive(Debug, Default)]
pub(crate) struct ServerNotes {
    told: Option<Told>,
    /// The state of the servers at which it was looked for news last.
    seen: Option<u64>,
    /// The tools of servers that the model has called.
    used: BTreeSet<String>,
}

impl ServerNotes {
    /// Those of a session on which other processes may have worked.
    pub(crate) fn of(session: &State) -> Self {
        let used = session.transcript().flat_map(|message| called_in(&message.parts)).collect();
        Self { used, ..Self::default() }
    }

    /// The tools of servers that the model has called.
    pub(crate) fn used(&self) -> impl Iterator<Item = &str> {
        self.used.iter().map(String::as_str)
    }

    /// What the model is to be told now.
    pub(crate) fn news(&mut self, tools: &ToolSet) -> Option<String> {
        let servers = tools.servers()?;
        let now = *servers.changes().borrow();
        if self.seen == Some(now) {
            return None;
        }
        self.seen = Some(now);
        let told = self.told.get_or_insert_with(|| tools.told_of_servers());
        told.news(&servers.servers()).map(|news| news.text)
    }

    /// Takes notice of what happened: what was told may be gone from what the model sees.
    pub(crate) fn hear(&mut self, record: &Record) {
        match &record.event {
            Event::CompactionFinished { .. } | Event::RewindFinished { .. } => (self.told, self.seen) = (None, None),
            Event::MessageFinished { reply, .. } => self.used.extend(called_in(&reply.parts)),
            _ => {}
        }
    }
}

fn called_in(parts: &[Part]) -> impl Iterator<Item = String> {
    let of_server = |part: &Part| match part {
        Part::ToolCall(call) => server_of(&call.name).map(|_| call.name.clone()),
        _ => None,
    };
    parts.iter().filter_map(of_server)
}

/// Each server as it is now.
pub(crate) fn servers_now(servers: &dyn Servers) -> Vec<ServerNow> {
    let one = |server: Server| {
        let (state, why) = match server.state {
            ServerState::Known => ("known", None),
            ServerState::Starting => ("starting", None),
            ServerState::Ready => ("ready", None),
            ServerState::Failed { why, .. } => ("failed", Some(why)),
            ServerState::NeedsLogin => ("needs_login", Some(format!("log in with `piton mcp login {}`", server.name))),
        };
        let left_out = server.problems.to_vec();
        ServerNow { name: server.name, state: state.to_owned(), tools: server.tools.len(), why, left_out }
    };
    servers.servers().into_iter().map(one).collect()
}
