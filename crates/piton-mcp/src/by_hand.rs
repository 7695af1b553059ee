//! What a person does with one server by hand: try it, call a tool of it.

use crate::client::Client;
use crate::entry::Entry;
use crate::keep::Era;
use crate::surroundings::Surroundings;
use async_trait::async_trait;
use piton_core::call::Outcome;
use piton_tools::servers::{
    Elicitation, ElicitationAnswer, NoClient, Server, ServerCall, ServerClient, ServerContext, Servers as _,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// What trying a server came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// It, and what it offers.
    pub server: Server,
    /// The era of the protocol that it speaks.
    pub era: Option<Era>,
    /// The version of the protocol.
    pub version: String,
    /// What it calls itself, with its version.
    pub called: String,
    /// How long it took to be ready.
    pub took: Duration,
    /// Why it is not.
    pub error: Option<String>,
}

/// Someone who accepts every form with the same values, and declines everything else that a server asks.
#[derive(Debug)]
pub struct Answering(pub Value);

#[async_trait]
impl ServerClient for Answering {
    async fn elicit(&self, server: &str, elicitation: Elicitation) -> Option<ElicitationAnswer> {
        match elicitation {
            Elicitation::Form { .. } => Some(ElicitationAnswer::Accept(self.0.clone())),
            Elicitation::Url { .. } => NoClient.elicit(server, elicitation).await,
        }
    }

    async fn sample(&self, server: &str, request: Value) -> Result<Value, String> {
        NoClient.sample(server, request).await
    }

    async fn task_begun(&self, handle: &Value) -> Result<(), String> {
        NoClient.task_begun(handle).await
    }
}

/// Starts a server, lists what it offers, and closes it again.
pub async fn test(entry: Entry, surroundings: Surroundings) -> Report {
    let (name, began) = (entry.name.clone(), Instant::now());
    let client = Client::new(vec![entry], surroundings);
    let error = client.ready(&name).await.err();
    let took = began.elapsed();
    let manifest = client.managed(&name).map(|managed| managed.manifest()).unwrap_or_default();
    let server = client.servers().remove(0);
    client.close().await;
    let (era, version, called) = (manifest.era, manifest.version.clone(), manifest.called.clone());
    Report { server, era, version, called, took, error }
}

/// Starts a server, calls a tool of it by either of its names, and closes the server again.
pub async fn call(
    entry: Entry,
    surroundings: Surroundings,
    tool: &str,
    arguments: Value,
    cx: ServerContext,
) -> Outcome {
    let server = entry.name.clone();
    let client = Client::new(vec![entry], surroundings);
    let outcome = match client.ready(&server).await {
        Ok(()) => {
            let tools = client.servers().remove(0).tools;
            let named = tools.iter().find(|known| known.own_name == tool || known.name == tool);
            let tool = named.map_or(tool, |known| known.own_name.as_str()).to_owned();
            client.call(ServerCall { server, tool, arguments }, cx).await
        }
        Err(why) => Outcome::failed(why),
    };
    client.close().await;
    outcome
}
