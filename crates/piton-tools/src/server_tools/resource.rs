//! `read_resource`: reads what a server offers as a resource.

use crate::input::{parse_input, schema_of};
use crate::plan::{Look, Plan, QuestionDraft};
use crate::servers::{ServerContent, Servers};
use crate::tool::{Tool, ToolContext, cancelled};
use async_trait::async_trait;
use piton_core::call::{Access, Beside, CallKind, Effects, Outcome, Resume, ToolSpec, Touches};
use piton_core::hidden;
use piton_core::question::QuestionBlock;
use piton_core::server_tool::{PREFIX, READ};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// The tool.
#[derive(Debug, Clone)]
pub struct ReadResource {
    servers: Arc<dyn Servers>,
}

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Input {
    server: String,
    uri: String,
}

impl ReadResource {
    /// The tool that reads resources of these servers.
    pub fn new(servers: Arc<dyn Servers>) -> Self {
        Self { servers }
    }

    fn read(&self, input: &Value) -> Result<Input, Outcome> {
        let input: Input = parse_input(READ, input)?;
        let names: Vec<String> = self.servers.servers().into_iter().map(|server| server.name).collect();
        if names.contains(&input.server) {
            return Ok(input);
        }
        let server = hidden::visible_name(&input.server);
        Err(Outcome::failed(format!("{READ}: there is no server {server}. The servers are {}.", names.join(", "))))
    }
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: READ.to_owned(),
            description: "Reads a resource of an MCP server.".to_owned(),
            schema: schema_of::<Input>(),
            // A server may do anything when it is asked; that it reads, it only says.
            effects: Effects { resume: Resume::Never, beside: Beside::NoWrites, touches: Touches::World },
        }
    }

    fn plan(&self, input: &Value, _look: &Look) -> Result<Plan, Outcome> {
        let Input { server, uri } = self.read(input)?;
        let uri = hidden::visible_line(&uri);
        let (title, access) = (format!("{server} {uri}"), Access::Use(format!("{PREFIX}{server}__{READ}")));
        let question = QuestionDraft::new(move || {
            (format!("Read this resource of the server {server}?"), vec![QuestionBlock::Text { text: uri }])
        });
        Ok(Plan::new(CallKind::Read, title, access, question))
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        let Input { server, uri } = match self.read(&input) {
            Ok(input) => input,
            Err(refused) => return refused,
        };
        let read = async {
            self.servers.ready(&server).await?;
            self.servers.read_resource(&server, &uri).await
        };
        let read = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return cancelled(),
            read = read => read,
        };
        match read {
            Ok(ServerContent { text, pictures }) => {
                let outcome = Outcome::ok(text).titled(format!("{READ} {server} {}", hidden::visible_name(&uri)));
                pictures.into_iter().fold(outcome.with(json!({"server": server, "uri": uri})), Outcome::showing)
            }
            Err(why) => Outcome::failed(format!("{READ}: {why}")),
        }
    }
}
