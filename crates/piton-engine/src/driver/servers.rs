//! The MCP servers of a session: started when its first request has left, and stopped when it is left. Subagents share those of the
//! session that they work for, and run only those that their agents bring along. What becomes of them is told as it changes.

use super::Driver;
use crate::bus::Bus;
use crate::context::servers_now;
use crate::jobs::{ServersRun, Services};
use crate::settings::{OwnServers, Settings};
use piton_core::client::Live;
use piton_core::turn::Job;
use piton_tools::servers::Servers;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a request has until it has left: processes that start meanwhile would take its processor. No longer, since nobody
/// tells when it has, and a model thinks for longer.
const LEAVING: Duration = Duration::from_millis(50);

impl Driver {
    /// Starts the servers, once the first request to a model has left: no request waits for one of them. An agent's are started
    /// behind the first that it makes.
    pub(super) fn start_servers(&mut self) {
        let is_asking = |job: &Job| matches!(job, Job::CallModel { .. }) && self.jobs.has(job);
        let is_asking = self.session.wanted().iter().any(is_asking);
        if self.memory.servers_run.watched.is_some() {
            if !is_asking {
                // It was answered.
                self.memory.servers_run.starting.begin();
            }
            return;
        }
        let (shared, own) = run_here(&self.services);
        let all = match self.services.tree.kin.depth {
            0 => self.services.settings.tools.servers(),
            _ => own,
        };
        let Some(all) = all else { return };
        if !is_asking {
            return;
        }
        let starting = self.memory.servers_run.starting.clone();
        if !std::mem::replace(&mut self.memory.servers_run.are_started, true) {
            shared.into_iter().for_each(|shared| starting.add(shared));
        }
        own.into_iter().for_each(|own| starting.add(own));
        let (all, bus) = (Arc::clone(all), self.services.bus.clone());
        let over = CancellationToken::new();
        tokio::spawn(over.clone().run_until_cancelled_owned(async move {
            tokio::time::sleep(LEAVING).await;
            starting.begin();
            tell(all, bus).await;
        }));
        self.memory.servers_run.watched = Some(over.drop_guard());
    }

    /// Stops the servers of the agent that ran the session before, unless it comes back after this turn.
    pub(super) fn leave_servers(&mut self, before: Option<OwnServers>) {
        let is_same = |own: &Option<OwnServers>| match (own, &before) {
            (Some(own), Some(before)) => Arc::ptr_eq(&own.servers, &before.servers),
            (None, None) => true,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if is_same(&self.services.settings.own_servers) {
            return;
        }
        self.memory.servers_run.watched = None;
        // Its time has come, or never does.
        self.memory.servers_run.starting.begin();
        let comes_back = self.next_settings.as_ref().is_some_and(|next| is_same(&next.own_servers));
        if let Some(OwnServers { servers, .. }) = before.filter(|_| !comes_back) {
            self.memory.servers_run.closing.spawn(async move { servers.close().await });
        }
    }

    /// Offers the tools of servers that the session has used, from here on: after a compaction the prompt is paid anew anyway.
    pub(super) fn offer_used_tools(&mut self) {
        let used: Vec<String> = self.memory.servers.used().map(str::to_owned).collect();
        for settings in std::iter::once(&mut self.services.settings).chain(&mut self.next_settings) {
            settings.tools = settings.tools.clone().with_used(used.iter().map(String::as_str));
        }
        self.offer_anew();
    }
}

/// Those of the session, or those of its agent.
type Side<'s> = Option<&'s Arc<dyn Servers>>;

/// The servers that this session starts and stops: its own, unless it works for another, and those of its agent.
fn run_here(services: &Services) -> (Side<'_>, Side<'_>) {
    let Settings { own_servers, tools, .. } = &services.settings;
    let shared = own_servers.as_ref().map_or(tools, |own| &own.before).servers();
    (shared.filter(|_| services.tree.kin.depth == 0), own_servers.as_ref().map(|own| &own.servers))
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

impl ServersRun {
    /// Stops them, whether they were started beside a request or by a call.
    pub(super) async fn close(self, services: &Services) {
        drop(self.watched);
        self.starting.clear();
        let (shared, own) = run_here(services);
        for servers in shared.into_iter().chain(own) {
            servers.close().await;
        }
        self.closing.join_all().await;
    }
}
