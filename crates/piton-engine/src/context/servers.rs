//! What the model is told of MCP servers as the work goes on. What the first request says of them stays as it is.

use piton_core::client::ServerNow;
use piton_core::event::{Event, Record};
use piton_tools::server_tools::Told;
use piton_tools::servers::{Server, ServerState, Servers};
use piton_tools::toolset::ToolSet;

/// What it was told in this process. Another process begins with another first request, which says how things are then.
#[derive(Debug, Default)]
pub(crate) struct ServerNotes {
    told: Option<Told>,
    /// The state of the servers at which it was looked for news last.
    seen: Option<u64>,
}

impl ServerNotes {
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
        if let Event::CompactionFinished { .. } | Event::RewindFinished { .. } = &record.event {
            *self = Self::default();
        }
    }
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
        ServerNow { name: server.name, state: state.to_owned(), tools: server.tools.len(), why }
    };
    servers.servers().into_iter().map(one).collect()
}
