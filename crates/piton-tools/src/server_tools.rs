//! The tools of MCP servers, as the model finds and calls them.
//!
//! Most of them are *deferred*: the first request has a line for each server and the tools [`Search`] and [`Call`]; the schema of a
//! tool comes with the result of a search. A call through `call_tool` becomes a call of the tool that it names where the reply is
//! taken ([`called`]), so rules, hooks, the journal and people see `mcp__server__tool` with its own arguments, whichever way the model
//! called it. Those of small servers, and of servers whose entry says `alwaysLoad`, stand in the request from the beginning.
//!
//! This module must not know: transports, where servers are configured, who answers a question.

mod call;
mod catalogue;
mod listing;
mod resource;
mod search;
mod shorten;

pub use self::call::OneTool;
pub use self::catalogue::{News, Told};
pub use self::listing::{described, fitting, stands_in_frame};
pub use self::resource::ReadResource;
pub use self::search::Search;

use crate::plan::{Look, Plan};
use crate::servers::{Server, ServerTool, Servers};
use crate::tool::{Tool, ToolContext};
use async_trait::async_trait;
use piton_core::call::{CallInput, Effects, Outcome, ToolSpec};
use piton_core::hidden;
use piton_core::message::ToolCall;
use piton_core::server_tool::{self, CALL, PREFIX, SEARCH};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The names under which models give the name of a tool and its arguments.
const NAMES: [&str; 4] = ["name", "tool", "tool_name", "toolName"];
const ARGUMENTS: [&str; 5] = ["arguments", "args", "input", "parameters", "params"];

/// `call_tool`. A call of it that names a tool is a call of that tool; this one only answers those that name none.
#[derive(Debug, Clone)]
pub struct Call {
    servers: Arc<dyn Servers>,
}

impl Call {
    /// The tool that calls tools of these servers.
    pub fn new(servers: Arc<dyn Servers>) -> Self {
        Self { servers }
    }

    fn refused(&self, input: &Value) -> Outcome {
        let Some(name) = text_of(input, &NAMES) else {
            return Outcome::failed(format!(
                "{CALL}: name the tool, as in {{\"name\": \"{PREFIX}server__tool\", \"arguments\": {{}}}}."
            ));
        };
        let servers: Vec<String> = self.servers.servers().into_iter().map(|server| server.name).collect();
        Outcome::failed(format!(
            "{CALL}: there is no tool {} of a server. The servers are {}; {SEARCH} finds their tools.",
            hidden::visible_name(name),
            servers.join(", ")
        ))
    }
}

#[async_trait]
impl Tool for Call {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: CALL.to_owned(),
            description: format!("Calls a tool of an MCP server by the name that {SEARCH} gives."),
            schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "arguments": {"type": "object", "description": "Its input"},
                },
                "required": ["name", "arguments"],
            }),
            effects: Effects::OPAQUE,
        }
    }

    fn plan(&self, input: &Value, _look: &Look) -> Result<Plan, Outcome> {
        Err(self.refused(input))
    }

    async fn run(&self, input: Value, _cx: &ToolContext) -> Outcome {
        self.refused(&input)
    }
}

/// The tool of a server that a call means: by its own name, or through `call_tool`.
pub(crate) fn called(call: &ToolCall, servers: &dyn Servers) -> Option<String> {
    let name = if call.name == CALL { text_of(call.input.value()?, &NAMES)? } else { &call.name };
    let name = name.trim();
    resolve(name, &servers.servers()).map(|found| match found {
        Resolved::Known(_, tool) => tool.name.clone(),
        Resolved::OfServer(_) => name.to_owned(),
    })
}

/// The input for the tool itself, of a call that the model wrote as one of `call_tool`.
pub(crate) fn own_input(call: &ToolCall, servers: &dyn Servers) -> Option<CallInput> {
    let is_through = call.name != CALL && call.spelling().eq_ignore_ascii_case(CALL);
    let input = call.input.value().filter(|_| is_through)?;
    let outer = input.as_object()?;
    let is_known = |name: &String| NAMES.contains(&name.as_str()) || ARGUMENTS.contains(&name.as_str());
    // It was taken apart before, where it has another shape by now.
    let through = ToolCall { name: CALL.to_owned(), ..call.clone() };
    if !outer.keys().all(is_known) || called(&through, servers).as_deref() != Some(&*call.name) {
        return None;
    }
    Some(match ARGUMENTS.iter().find_map(|name| outer.get(*name)) {
        None => CallInput::Json(Value::Object(Map::new())),
        Some(Value::String(text)) => CallInput::parse(text),
        Some(value) => CallInput::from_value(value.clone()),
    })
}

/// What a name means.
pub(crate) enum Resolved<'s> {
    /// A tool that its server is known to have.
    Known(&'s Server, &'s ServerTool),
    /// A tool that this server may turn out to have.
    OfServer(&'s Server),
}

/// The tool of this name, however it is capitalised where none is called exactly so.
pub(crate) fn resolve<'s>(name: &str, servers: &'s [Server]) -> Option<Resolved<'s>> {
    let all = || servers.iter().flat_map(|server| server.tools.iter().map(move |tool| (server, tool)));
    let exact = all().find(|(_, tool)| tool.name == name);
    let found = exact.or_else(|| all().find(|(_, tool)| tool.name.eq_ignore_ascii_case(name)));
    if let Some((server, tool)) = found {
        return Some(Resolved::Known(server, tool));
    }
    let of = server_tool::server_of(name)?;
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    servers.iter().find(|server| server.name == of && is_plain).map(Resolved::OfServer)
}

/// The tool of a server by its name; `None`: no server could have it.
pub(crate) fn tool(name: &str, servers: &Arc<dyn Servers>) -> Option<OneTool> {
    let all = servers.servers();
    let (server, known) = match resolve(name, &all)? {
        Resolved::Known(server, tool) => (server, Some(tool.clone())),
        Resolved::OfServer(server) => (server, None),
    };
    let name = known.as_ref().map_or(name, |tool| &tool.name).to_owned();
    Some(OneTool::new(Arc::clone(servers), server.name.clone(), name, known))
}

fn text_of<'i>(input: &'i Value, names: &[&str]) -> Option<&'i str> {
    names.iter().find_map(|name| input.get(*name)?.as_str()).filter(|text| !text.trim().is_empty())
}
