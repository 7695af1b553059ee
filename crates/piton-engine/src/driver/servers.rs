//! The MCP servers of a session: started beside its first request, and stopped when it is left. Subagents share those of the
//! session that they work for.

use super::Driver;
use crate::jobs::Services;
use piton_core::turn::Job;

impl Driver {
    /// Starts the servers, once the first request to a model is on its way: no request waits for one of them.
    pub(super) fn start_servers(&mut self) {
        if self.has_servers {
            return;
        }
        let is_asking = |job: &Job| matches!(job, Job::CallModel { .. }) && self.jobs.has(job);
        if self.session.wanted().iter().any(is_asking) {
            self.has_servers = true;
            if let Some(servers) = self.services.settings.tools.servers().filter(|_| self.services.kin.depth == 0) {
                servers.start();
            }
        }
    }
}

/// Stops them, whether they were started beside a request or by a call.
pub(super) async fn close(services: &Services) {
    if let Some(servers) = services.settings.tools.servers().filter(|_| services.kin.depth == 0) {
        servers.close().await;
    }
}
