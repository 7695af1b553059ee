//! The MCP servers of a session: started beside its first request, and stopped when it is left. Subagents share those of the
//! session that they work for, and run only those that their agents bring along. What becomes of them is told as it changes.

use super::Driver;
use crate::bus::Bus;
use crate::context::servers_now;
use crate::jobs::Services;
use piton_core::client::Live;
use piton_core::turn::Job;
use piton_tools::servers::Servers;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Driver {
    /// Starts the servers, once the first request to a model is on its way: no request waits for one of them.
    pub(super) fn start_servers(&mut self) {
        if self.memory.servers_watched.is_some() {
            return;
        }
        let Some(servers) = run_here(&self.services) else { return };
        let is_asking = |job: &Job| matches!(job, Job::CallModel { .. }) && self.jobs.has(job);
        if !self.session.wanted().iter().any(is_asking) {
            return;
        }
        servers.start();
        let over = CancellationToken::new();
        tokio::spawn(over.clone().run_until_cancelled_owned(tell(Arc::clone(servers), self.services.bus.clone())));
        self.memory.servers_watched = Some(over.drop_guard());
    }

    /// Offers the tools of servers that the session has used, from here on: after a compaction the prompt is paid anew anyway.
    pub(super) fn offer_used_tools(&mut self) {
        let tools = self.services.settings.tools.clone();
        self.services.settings.tools = tools.with_used(self.memory.servers.used());
        self.offer_anew();
    }
}

/// The servers that this session starts and stops.
fn run_here(services: &Services) -> Option<&Arc<dyn Servers>> {
    match services.tree.kin.depth {
        0 => services.settings.tools.servers(),
        _ => services.settings.own_servers.as_ref(),
    }
}

/// Tells of servers whenever one has another state.
async fn tell(servers: Arc<dyn Servers>, bus: Bus) {
    let mut changes = servers.changes();
    let mut told = Vec::new();
    loop {
        changes.mark_unchanged();
        let now = servers_now(&*servers);
        if now != told {
            bus.live(Live::Servers { servers: now.clone() });
            told = now;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Stops them, whether they were started beside a request or by a call.
pub(super) async fn close(services: &Services) {
    if let Some(servers) = run_here(services) {
        servers.close().await;
    }
}
