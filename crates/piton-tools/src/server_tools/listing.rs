//! What the first request says of servers: a line for each, and the tools that stand in it from the beginning.

use crate::servers::{Pin, Server, ServerState, ServerTool};
use piton_core::server_tool::{CALL, SEARCH};
use piton_core::tokens::estimate;

/// Bytes that the lines of all servers may have.
const LINES_BYTES: usize = 1_700;
/// Characters of a server's instructions in its line; fewer where all of them would not fit.
const INSTRUCTIONS_CHARS: [usize; 4] = [200, 100, 50, 0];
/// Tokens up to which the tools of a server stand in the request, where they are known.
const SMALL_TOKENS: u64 = 1_000;
/// Tokens that all of these may have.
const ALL_SMALL_TOKENS: u64 = 2_000;
/// Tokens of the tools that are declared because they were used.
const USED_TOKENS: u64 = 4_000;

/// What the model is told of the tool that finds the others.
pub fn described(servers: &[Server]) -> String {
    let lines = INSTRUCTIONS_CHARS.iter().map(|most| lines(servers, *most));
    let fits = |text: &String| text.len() <= LINES_BYTES;
    let lines = lines.into_iter().find(fits).unwrap_or_else(|| names(servers));
    format!(
        "Finds tools and resources of MCP servers. Give words to look for, or `select:name,name` with names of tools; the answer has \
         their schemas, and {CALL} calls them. Servers:{lines}"
    )
}

fn lines(servers: &[Server], most: usize) -> String {
    servers.iter().map(|server| format!("\n- {}", line(server, most))).collect()
}

/// As many names as there is room for.
fn names(servers: &[Server]) -> String {
    let mut text = String::new();
    for (at, server) in servers.iter().enumerate() {
        let line = format!("\n- {}", line(server, 0));
        if text.len() + line.len() > LINES_BYTES {
            text.push_str(&format!("\n- and {} more: {SEARCH} finds them, too", servers.len() - at));
            break;
        }
        text.push_str(&line);
    }
    text
}

fn line(server: &Server, most: usize) -> String {
    let tools = server.tools.len();
    let count = match (&server.state, tools) {
        (ServerState::Known | ServerState::Starting, 0) => "not known yet".to_owned(),
        (_, 1) => "1 tool".to_owned(),
        (_, tools) => format!("{tools} tools"),
    };
    match beginning(&server.instructions, most).as_str() {
        "" => format!("{} ({count})", server.name),
        instructions => format!("{} ({count}): {instructions}", server.name),
    }
}

/// The beginning of a text, on one line.
pub(super) fn beginning(text: &str, most: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(most) {
        Some(_) if most == 0 => String::new(),
        Some((at, _)) => format!("{}…", words[..at].trim_end()),
        None => words,
    }
}

/// The names of the servers whose tools stand in the request from the beginning: those whose entry says so, and small ones that are
/// known.
pub fn stands_in_frame(servers: &[Server]) -> Vec<String> {
    let mut left = ALL_SMALL_TOKENS;
    let mut is_in = |server: &&Server| {
        if server.always_load {
            return true;
        }
        let tokens = tokens(server);
        let is_small = !server.tools.is_empty() && tokens < SMALL_TOKENS && tokens <= left;
        left -= if is_small { tokens } else { 0 };
        is_small
    };
    servers.iter().filter(|server| is_in(server)).map(|server| server.name.clone()).collect()
}

/// Of the tools that are called so, those that may be declared besides what `is_declared` already: as many as there is room for.
pub fn fitting<'n>(
    names: impl Iterator<Item = &'n str>,
    servers: &[Server],
    is_declared: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut left = USED_TOKENS;
    let mut fits = |tool: &&ServerTool| {
        let tokens = tokens_of(tool);
        let fits = tool.pin == Pin::Same && !is_declared(&tool.name) && tokens <= left;
        left -= if fits { tokens } else { 0 };
        fits
    };
    let tool = |name: &str| servers.iter().flat_map(|server| server.tools.iter()).find(|tool| tool.name == name);
    names.filter_map(tool).filter(|tool| fits(tool)).map(|tool| tool.name.clone()).collect()
}

fn tokens(server: &Server) -> u64 {
    server.tools.iter().filter(|tool| tool.pin == Pin::Same).map(tokens_of).sum()
}

fn tokens_of(tool: &ServerTool) -> u64 {
    estimate(&tool.name) + estimate(&tool.description) + estimate(&tool.schema.to_string())
}
