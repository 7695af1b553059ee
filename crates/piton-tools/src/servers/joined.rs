//! Two sets of servers as one: those of a session, which somebody else starts and stops, and those of an agent, which come first.

use super::{Completed, Server, ServerCall, ServerContent, ServerContext, Servers};
use async_trait::async_trait;
use piton_core::call::Outcome;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;

/// Both.
#[derive(Debug)]
pub struct JoinedServers {
    shared: Arc<dyn Servers>,
    own: Arc<dyn Servers>,
    changes: watch::Receiver<u64>,
}

impl JoinedServers {
    /// Joins them, within a tokio runtime; where nothing is shared, they are one's own.
    pub fn of(shared: Option<Arc<dyn Servers>>, own: Arc<dyn Servers>) -> Arc<dyn Servers> {
        let Some(shared) = shared else { return own };
        let (changed, changes) = watch::channel(0);
        tokio::spawn(join(changed, shared.changes(), own.changes()));
        Arc::new(Self { shared, own, changes })
    }

    fn of_name(&self, server: &str) -> &Arc<dyn Servers> {
        let is_own = self.own.servers().iter().any(|own| own.name == server);
        if is_own { &self.own } else { &self.shared }
    }
}

/// Tells of changes of either, as long as somebody listens.
async fn join(changed: watch::Sender<u64>, mut one: watch::Receiver<u64>, mut other: watch::Receiver<u64>) {
    loop {
        let heard = tokio::select! {
            heard = one.changed() => heard,
            heard = other.changed() => heard,
            () = changed.closed() => return,
        };
        if heard.is_err() {
            return;
        }
        changed.send_modify(|count| *count += 1);
    }
}

#[async_trait]
impl Servers for JoinedServers {
    fn start(&self) {
        self.own.start();
    }

    fn servers(&self) -> Vec<Server> {
        let mut all = self.own.servers();
        let is_new = |server: &Server| !all.iter().any(|own| own.name == server.name);
        let shared: Vec<Server> = self.shared.servers().into_iter().filter(is_new).collect();
        all.extend(shared);
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn secrets(&self) -> Vec<(String, String)> {
        [self.own.secrets(), self.shared.secrets()].concat()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }

    async fn ready(&self, server: &str) -> Result<(), String> {
        self.of_name(server).ready(server).await
    }

    async fn call(&self, call: ServerCall, cx: ServerContext) -> Outcome {
        self.of_name(&call.server).call(call, cx).await
    }

    async fn resume_task(&self, server: &str, handle: Value, cx: ServerContext) -> Outcome {
        self.of_name(server).resume_task(server, handle, cx).await
    }

    async fn prompt(
        &self,
        server: &str,
        prompt: &str,
        arguments: Vec<(String, String)>,
    ) -> Result<ServerContent, String> {
        self.of_name(server).prompt(server, prompt, arguments).await
    }

    async fn read_resource(&self, server: &str, uri: &str) -> Result<ServerContent, String> {
        self.of_name(server).read_resource(server, uri).await
    }

    async fn complete(&self, of: Completed, argument: &str, beginning: &str) -> Vec<String> {
        let (Completed::Prompt(server, _) | Completed::Template(server, _)) = &of;
        self.of_name(&server.clone()).complete(of, argument, beginning).await
    }

    async fn close(&self) {
        self.own.close().await;
    }
}
