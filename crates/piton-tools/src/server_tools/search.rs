//! `tool_search`: finds tools of servers by name or by words, and shows how they are called.

use super::listing::{beginning, described};
use super::shorten::shortened;
use super::{Resolved, resolve};
use crate::input::{parse_input, schema_of};
use crate::plan::{Look, Plan, QuestionDraft};
use crate::servers::{Pin, Server, ServerResource, ServerState, ServerTool, Servers};
use crate::tool::{Tool, ToolContext, cancelled};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use piton_core::call::{Beside, CallKind, Effects, Outcome, Planned, Resume, ToolSpec, Touches};
use piton_core::hidden;
use piton_core::question::QuestionBlock;
use piton_core::server_tool::{CALL, READ, SEARCH};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long servers are waited for that are starting, where nothing was found in others.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where something was found.
const MOMENT: Duration = Duration::from_millis(1_500);
/// Bytes that one tool takes: what it is, and its schema.
const TOOL_BYTES: usize = 3_800;
/// Bytes of a description there.
const DESCRIPTION_CHARS: usize = 1_200;
/// Bytes of a result in which tools are shown that were named.
const NAMED_BYTES: usize = 12_000;
/// Bytes of what was found by words: the best with its schema, and the names of others.
const FOUND_BYTES: usize = 4_096;
/// Bytes of that for names, where several schemas would take it all.
const OTHERS_BYTES: usize = 1_200;
/// Tools that are shown with their schemas where words were looked for.
const SHOWN: usize = 5;
/// More that are named.
const NAMED: usize = 15;
/// Characters of what is said of one that is only named.
const LINE_CHARS: usize = 120;

/// The tool.
#[derive(Debug, Clone)]
pub struct Search {
    servers: Arc<dyn Servers>,
    /// The same bytes in all requests of a session.
    description: String,
}

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Input {
    query: String,
}

/// What is looked for.
enum Query {
    /// These tools.
    Names(Vec<String>),
    /// Tools and resources that these words are about.
    Words(Vec<String>),
}

/// What was found.
#[derive(Default)]
struct Found {
    tools: Vec<(String, ServerTool)>,
    resources: Vec<(String, ServerResource)>,
    /// Names of tools that there are none of.
    missing: Vec<String>,
}

impl Search {
    /// The tool that finds tools of these servers, described as they are known now.
    pub fn new(servers: Arc<dyn Servers>) -> Self {
        let description = described(&servers.servers());
        Self { servers, description }
    }

    /// Looks until something is found, or every server has answered, or time is up.
    async fn search(&self, query: &Query) -> (Found, Vec<Server>) {
        let began = Instant::now();
        let mut waits: FuturesUnordered<_> = {
            let servers = self.servers.servers();
            let waited: Vec<String> = servers
                .iter()
                .filter(|server| is_coming(server) && query.concerns(server))
                .map(|server| server.name.clone())
                .collect();
            let wait = |name: String| {
                let servers = Arc::clone(&self.servers);
                async move { servers.ready(&name).await }
            };
            waited.into_iter().map(wait).collect()
        };
        loop {
            let servers = self.servers.servers();
            let found = query.find(&servers);
            let until = began + if found.is_enough() { MOMENT } else { PATIENCE };
            match timeout_at(until, waits.next()).await {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return (query.find(&self.servers.servers()), self.servers.servers()),
            }
        }
    }
}

fn is_coming(server: &Server) -> bool {
    matches!(server.state, ServerState::Known | ServerState::Starting)
}

impl Query {
    fn read(text: &str) -> Result<Self, Outcome> {
        let text = text.trim();
        if let Some(names) = text.strip_prefix("select:") {
            let names: Vec<String> =
                names.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
            return Ok(Self::Names(names));
        }
        let words = text.to_lowercase();
        let words: Vec<String> =
            words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match words.is_empty() {
            true => Err(Outcome::failed(format!("{SEARCH}: give words to look for, or select: and names of tools."))),
            false => Ok(Self::Words(words)),
        }
    }

    /// Whether an answer of this server may change what is found.
    fn concerns(&self, server: &Server) -> bool {
        match self {
            Self::Words(_) => true,
            Self::Names(names) => names.iter().any(|name| {
                let servers = std::slice::from_ref(server);
                resolve(name, servers).is_some() || !name.starts_with(piton_core::server_tool::PREFIX)
            }),
        }
    }

    fn find(&self, servers: &[Server]) -> Found {
        match self {
            Self::Names(names) => by_names(names, servers),
            Self::Words(words) => by_words(words, servers),
        }
    }
}

/// Each by its whole name, or by the server's own where that is the only one.
fn by_names(names: &[String], servers: &[Server]) -> Found {
    let mut found = Found::default();
    for name in names {
        let own = || {
            let all = servers.iter().flat_map(|server| server.tools.iter().map(move |tool| (server, tool)));
            let mut named = all.filter(|(_, tool)| tool.own_name == *name);
            named.next().filter(|_| named.next().is_none())
        };
        let known = match resolve(name, servers) {
            Some(Resolved::Known(server, tool)) => Some((server, tool)),
            Some(Resolved::OfServer(_)) | None => own(),
        };
        match known {
            Some((server, tool)) => found.tools.push((server.name.clone(), tool.clone())),
            None => found.missing.push(hidden::visible_name(name)),
        }
    }
    found
}

fn by_words(words: &[String], servers: &[Server]) -> Found {
    let mut tools = Vec::new();
    let mut resources = Vec::new();
    for server in servers {
        for tool in server.tools.iter() {
            let score = score(words, &[&tool.name, &tool.own_name, &tool.title], &tool.description);
            tools.push((score, (server.name.clone(), tool.clone())));
        }
        for resource in server.resources.iter() {
            let score = score(words, &[&server.name, &resource.name, &resource.uri], &resource.description);
            resources.push((score, (server.name.clone(), resource.clone())));
        }
    }
    Found { tools: best(tools), resources: best(resources), missing: Vec::new() }
}

/// Those with a score, the highest first; of the same score in their order.
fn best<T>(mut scored: Vec<(usize, T)>) -> Vec<T> {
    scored.retain(|(score, _)| *score > 0);
    scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    scored.into_iter().map(|(_, found)| found).collect()
}

/// A word in a name counts for more than one in a description, and a whole word of a name for most.
fn score(words: &[String], names: &[&str], description: &str) -> usize {
    let names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let description = description.to_lowercase();
    let is_whole = |word: &String| {
        let parts = names.iter().flat_map(|name| name.split(|c: char| !c.is_alphanumeric()));
        parts.into_iter().any(|part| part == word)
    };
    let of = |word: &String| {
        let in_name = names.iter().any(|name| name.contains(word.as_str()));
        2 * usize::from(is_whole(word)) + 2 * usize::from(in_name) + usize::from(description.contains(word.as_str()))
    };
    words.iter().map(of).sum()
}

impl Found {
    fn is_enough(&self) -> bool {
        self.missing.is_empty() && !(self.tools.is_empty() && self.resources.is_empty())
    }

    fn told(&self, query: &Query, servers: &[Server]) -> String {
        let mut text = String::new();
        let (shown, most_bytes, most) = match query {
            Query::Names(_) => (self.tools.len(), NAMED_BYTES, NAMED_BYTES),
            Query::Words(_) => (SHOWN, FOUND_BYTES - OTHERS_BYTES, FOUND_BYTES),
        };
        let mut rest = self.tools.iter();
        let mut left_out = Vec::new();
        for (server, tool) in rest.by_ref().take(shown) {
            let whole = shown_whole(server, tool);
            match text.is_empty() || text.len() + whole.len() <= most_bytes {
                true => text.push_str(&whole),
                false => left_out.push(tool),
            }
        }
        let others: Vec<&ServerTool> = left_out.into_iter().chain(rest.map(|(_, tool)| tool)).collect();
        if !others.is_empty() {
            text.push_str("Also:\n");
            listed(others.iter().map(|tool| line(&tool.name, &tool.description)), most, &mut text);
        }
        self.tell_resources(most, &mut text);
        if !self.missing.is_empty() {
            let _ = writeln!(text, "There is no tool {}.", self.missing.join(", "));
        }
        if text.is_empty() {
            text.push_str("Nothing was found. The servers and their tools:\n");
            let names = |server: &Server| {
                let names = server.tools.iter().take(NAMED).map(|tool| tool.own_name.as_str()).collect::<Vec<_>>();
                let more = server.tools.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("- {}: {}{more}", server.name, names.join(", "))
            };
            for server in servers.iter().take(NAMED) {
                let _ = writeln!(text, "{}", names(server));
            }
        }
        tell_state(servers, &mut text);
        text.trim_end().to_owned()
    }

    fn tell_resources(&self, most: usize, text: &mut String) {
        if self.resources.is_empty() {
            return;
        }
        let _ = writeln!(text, "Resources, for {READ}:");
        let lines = self.resources.iter().map(|(server, resource)| {
            let kind = if resource.is_template { " (a template: fill in what stands in braces)" } else { "" };
            let said = format!("{} {}", resource.name, resource.description);
            format!("server {server}, uri {}{kind}: {}", resource.uri, beginning(&said, LINE_CHARS))
        });
        listed(lines, most, text);
    }
}

/// A line for each, as long as the text has room; and how many more there are.
fn listed(lines: impl ExactSizeIterator<Item = String>, most: usize, text: &mut String) {
    /// Of the line that counts the rest.
    const REST_BYTES: usize = 24;
    let all = lines.len();
    for (at, line) in lines.enumerate() {
        if at == NAMED || text.len() + line.len() + REST_BYTES > most {
            let _ = writeln!(text, "- and {} more", all - at);
            return;
        }
        let _ = writeln!(text, "- {line}");
    }
}

fn line(name: &str, description: &str) -> String {
    match beginning(description, LINE_CHARS).as_str() {
        "" => name.to_owned(),
        description => format!("{name}: {description}"),
    }
}

/// A tool with its schema.
fn shown_whole(server: &str, tool: &ServerTool) -> String {
    let cut = tool.description.char_indices().nth(DESCRIPTION_CHARS).map(|(at, _)| at);
    let description =
        cut.map_or(tool.description.trim().to_owned(), |at| format!("{}…", tool.description[..at].trim()));
    let head = format!("{} (server {server})\n{description}\n", tool.name);
    let changed = match tool.pin {
        Pin::Same => String::new(),
        Pin::Changed { .. } => format!(
            "It cannot be called: what the server says of it has changed, and the user has not accepted that (`piton mcp show {server}`).\n"
        ),
    };
    let call = format!("Call: {CALL} {{\"name\": \"{}\", \"arguments\": …}}\n\n", tool.name);
    let room = TOOL_BYTES.saturating_sub(head.len() + changed.len() + call.len() + 64);
    let (schema, is_cut) = shortened(&tool.schema, room);
    let schema = hidden::visible(&schema).into_owned();
    let cut = if is_cut { " (shortened)" } else { "" };
    format!("{head}{changed}Input{cut}: {schema}\n{call}")
}

/// Servers that may have more to show, and why they have not.
fn tell_state(servers: &[Server], text: &mut String) {
    for server in servers {
        let state = match &server.state {
            ServerState::Ready => continue,
            ServerState::Known | ServerState::Starting if server.tools.is_empty() => "has not answered yet".to_owned(),
            ServerState::Known | ServerState::Starting => continue,
            ServerState::Failed { why, .. } => format!("cannot be used: {}", beginning(why, LINE_CHARS)),
            ServerState::NeedsLogin => format!("wants the user to log in: `piton mcp login {}`", server.name),
        };
        let _ = writeln!(text, "[the server {} {state}]", server.name);
    }
}

#[async_trait]
impl Tool for Search {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: SEARCH.to_owned(),
            description: self.description.clone(),
            schema: schema_of::<Input>(),
            effects: Effects { resume: Resume::Rerun, beside: Beside::Any, touches: Touches::Nothing },
        }
    }

    fn plan(&self, input: &Value, _look: &Look) -> Result<Plan, Outcome> {
        let input: Input = parse_input(SEARCH, input)?;
        Query::read(&input.query)?;
        let title = hidden::visible_line(&input.query);
        let shown = title.clone();
        let question = QuestionDraft::new(move || {
            ("Search the tools of servers?".to_owned(), vec![QuestionBlock::Text { text: shown }])
        });
        Ok(Plan::of(Planned { kind: CallKind::Search, title, accesses: Vec::new() }, question))
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        let query = parse_input(SEARCH, &input).and_then(|Input { query }| Ok((Query::read(&query)?, query)));
        let (query, text) = match query {
            Ok(query) => query,
            Err(refused) => return refused,
        };
        let (found, servers) = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return cancelled(),
            found = self.search(&query) => found,
        };
        let count = found.tools.len();
        let title = format!("{SEARCH} {} ({count} found)", hidden::visible_name(&text));
        Outcome::ok(found.told(&query, &servers)).titled(title)
    }
}
