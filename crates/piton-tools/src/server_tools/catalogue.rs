//! What the model knows of servers, and what it has yet to be told: the first request never changes within a session, so a server
//! that comes, goes or has other tools is told in a reminder.

use super::listing::beginning;
use crate::servers::{Server, ServerState, ServerTool};
use piton_core::server_tool::SEARCH;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names that are told of one server's new or missing tools; more are counted.
const NAMED: usize = 12;
/// Characters of a server's words.
const WORDS_CHARS: usize = 200;
/// Bytes of one reminder.
const NEWS_BYTES: usize = 2_000;

/// What the model was told of servers.
#[derive(Debug, Clone, Default)]
pub struct Told(BTreeMap<String, Fact>);

/// What has changed since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// In words for the model.
    pub text: String,
}

/// What is known of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Fact {
    /// Each tool by its name, with a hash of what is said of it.
    tools: BTreeMap<String, blake3::Hash>,
    /// Why it cannot be used.
    trouble: Option<String>,
    /// What of it was left out, with the reason.
    left_out: Arc<[String]>,
}

impl Told {
    /// What the first request says of them.
    pub fn at_start(servers: &[Server]) -> Self {
        let fact = |server: &Server| (server.name.clone(), Fact { tools: tools(server), ..Fact::default() });
        Self(servers.iter().map(fact).collect())
    }

    /// What is to be told now. It counts as told.
    pub fn news(&mut self, servers: &[Server]) -> Option<News> {
        let lines: Vec<String> = servers.iter().filter_map(|server| self.of(server)).collect();
        if lines.is_empty() {
            return None;
        }
        let mut text = "What has changed about MCP servers since you were told of them:".to_owned();
        for (at, line) in lines.iter().enumerate() {
            if text.len() + line.len() > NEWS_BYTES && at > 0 {
                text.push_str(&format!("\n- and {} more servers: {SEARCH} knows them", lines.len() - at));
                break;
            }
            text.push_str(&format!("\n- {line}"));
        }
        Some(News { text })
    }

    fn of(&mut self, server: &Server) -> Option<String> {
        let told = self.0.entry(server.name.clone()).or_default();
        let now = match &server.state {
            // What it turns out to be is told then.
            ServerState::Known | ServerState::Starting => return None,
            ServerState::Ready => Fact { tools: tools(server), trouble: None, left_out: Arc::clone(&server.problems) },
            ServerState::Failed { why, .. } => Fact { trouble: Some(beginning(why, WORDS_CHARS)), ..told.clone() },
            ServerState::NeedsLogin => {
                let trouble = format!("the user has to log in with `piton mcp login {}`", server.name);
                Fact { trouble: Some(trouble), ..told.clone() }
            }
        };
        let before = std::mem::replace(told, now.clone());
        if before == now {
            return None;
        }
        let name = &server.name;
        if let Some(trouble) = now.trouble {
            // Each try may fail with other words; the model need not hear all of them.
            return before.trouble.is_none().then(|| format!("{name} cannot be used: {trouble}"));
        }
        let mut parts = Vec::new();
        parts.extend(before.trouble.is_some().then(|| "it answers again".to_owned()));
        let added: Vec<&str> =
            now.tools.keys().filter(|tool| !before.tools.contains_key(*tool)).map(String::as_str).collect();
        let gone: Vec<&str> =
            before.tools.keys().filter(|tool| !now.tools.contains_key(*tool)).map(String::as_str).collect();
        let is_other =
            |(tool, hash): &(&String, &blake3::Hash)| before.tools.get(*tool).is_some_and(|old| old != *hash);
        let other: Vec<&str> = now.tools.iter().filter(is_other).map(|(tool, _)| tool.as_str()).collect();
        if before.tools.is_empty() && !added.is_empty() {
            parts.push(format!("{} {}", tools_counted(added.len()), named(&added)));
            let words = beginning(&server.instructions, WORDS_CHARS);
            parts.extend((!words.is_empty()).then_some(words));
        } else if !added.is_empty() {
            parts.push(format!("new: {}", named(&added)));
        }
        parts.extend((!gone.is_empty()).then(|| format!("gone: {}", named(&gone))));
        parts.extend((!other.is_empty()).then(|| format!("changed, so search for them again: {}", named(&other))));
        if let Some(first) = now.left_out.first().filter(|_| now.left_out != before.left_out) {
            let more = match now.left_out.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more; the user sees them with `piton mcp show {name}`)"),
            };
            parts.push(format!("{}{more}", beginning(first, WORDS_CHARS)));
        }
        (!parts.is_empty()).then(|| format!("{name}: {}", parts.join("; ")))
    }
}

fn tools_counted(count: usize) -> String {
    if count == 1 { "1 tool,".to_owned() } else { format!("{count} tools,") }
}

fn tools(server: &Server) -> BTreeMap<String, blake3::Hash> {
    let hash = |tool: &ServerTool| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(tool.description.as_bytes()).update(&[0]).update(tool.schema.to_string().as_bytes());
        hasher.finalize()
    };
    server.tools.iter().map(|tool| (tool.name.clone(), hash(tool))).collect()
}

fn named(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMED).filter(|more| *more > 0) {
        Some(more) => format!("{shown} and {more} more"),
        None => shown,
    }
}
