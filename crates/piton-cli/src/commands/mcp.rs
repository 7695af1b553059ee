//! `piton mcp`: which MCP servers there are, what they offer, and whether they answer.

mod by_hand;
mod change;

use crate::cli::McpCommand;
use crate::failure::{Failure, Result, bail};
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_engine::assemble::entries::State;
use piton_engine::assemble::servers::{self, FoundServer, ServerState as Standing, look};
use piton_engine::assemble::{self, Wishes};
use piton_mcp::entry::{Entry, Transport};
use piton_mcp::{Client, is_logged_in};
use piton_tools::servers::{Pin, Server, ServerState, ServerTool, Servers as _};
use piton_tools::spawn::Confinement;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Obeys the command.
pub(crate) async fn mcp(command: McpCommand, around: &Surroundings) -> Result<u8> {
    match command {
        McpCommand::List { all, json } => list(all, json, around),
        McpCommand::Show { name, json } => show(&name, json, around),
        McpCommand::Add(args) => change::add(&args, around),
        McpCommand::Remove { name } => change::remove(&name, around),
        McpCommand::Enable { name } => change::switch(&name, true, around),
        McpCommand::Disable { name } => change::switch(&name, false, around),
        McpCommand::Import { files, yes } => change::import(&files, yes, around),
        McpCommand::Accept { name } => by_hand::accept(&name, around).await,
        McpCommand::Login { name } => by_hand::login(&name, around).await,
        McpCommand::Logout { name } => by_hand::logout(&name, around),
        McpCommand::Test { name, call, answer, json } => {
            by_hand::test(&name, (&call, answer.as_deref()), json, around).await
        }
    }
}

fn found(around: &Surroundings, workspace: &Path) -> Result<Vec<FoundServer>> {
    Ok(look(&assemble::scope(&around.machine, workspace, &Wishes::default())?, &[])?)
}

/// What a client needs of this machine, for servers of this folder. Nothing here runs in the sandbox of a session.
fn surroundings(around: &Surroundings, workspace: &Path, confinement: Confinement) -> Result<piton_mcp::Surroundings> {
    let config = settings::of_workspace(around, workspace, &[])?;
    Ok(servers::surroundings(&around.machine, workspace, &config, confinement)?)
}

/// The entry of this name that counts, or would if it were not switched off.
fn entry(name: &str, around: &Surroundings, workspace: &Path) -> Result<Entry> {
    let all = found(around, workspace)?;
    let is_meant = |found: &&FoundServer| {
        found.name == name && matches!(found.state, Standing::As(State::InForce) | Standing::Disabled)
    };
    if let Some(read) = all.iter().find(is_meant).and_then(|found| found.entry.as_ref().ok()) {
        return Ok(read.entry.clone());
    }
    Err(missing(name, &all))
}

fn missing(name: &str, all: &[FoundServer]) -> Failure {
    let text = match all.iter().find(|found| found.name == name) {
        Some(found) => {
            let why = found.entry.as_ref().err().map_or(String::new(), |why| format!(": {}", view::clean(why)));
            let mend =
                if found.state == Standing::As(State::Untrusted) { "; `piton trust` shows it and asks" } else { "" };
            format!("the server {name} of {} {}{why}{mend}", found.place(), standing(found.state))
        }
        None => {
            let names: Vec<&str> =
                all.iter().map(|found| found.name.as_str()).filter(|name| !name.is_empty()).collect();
            let there =
                if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
            format!("there is no MCP server `{}`; {there}", view::clean(name))
        }
    };
    Failure::user(text)
}

fn standing(state: Standing) -> &'static str {
    match state {
        Standing::As(State::Untrusted) => "is not trusted",
        Standing::As(State::Broken) => "cannot be used",
        Standing::As(State::Shadowed) => "is shadowed",
        Standing::As(State::InForce) => "is in force",
        Standing::Disabled => "is disabled",
    }
}

/// What is known of servers from the last time; nothing is started.
pub(super) fn known(entries: Vec<Entry>, around: &Surroundings, workspace: &Path) -> Result<Vec<Server>> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    Ok(Client::new(entries, surroundings(around, workspace, Confinement::Model)?).servers())
}

fn list(all: bool, as_json: bool, around: &Surroundings) -> Result<u8> {
    let workspace = around.workspace(None)?;
    let found = found(around, &workspace)?;
    let in_force = found.iter().filter(|found| found.state.is_in_force());
    let entries = in_force.filter_map(|found| Some(found.entry.as_ref().ok()?.entry.clone())).collect();
    let known = known(entries, around, &workspace)?;
    let mut text = String::new();
    for found in found.iter().filter(|found| all || found.state != Standing::As(State::Shadowed)) {
        let server = known.iter().find(|server| found.state.is_in_force() && server.name == found.name);
        match as_json {
            true => drop(writeln!(text, "{}", object(found, server))),
            false => line(found, server, &mut text),
        }
    }
    if text.is_empty() && !as_json {
        text.push_str("There are no MCP servers here. `piton mcp add` adds one, `piton mcp import` takes those of other programs.\n");
    }
    view::write_stdout(&text);
    Ok(0)
}

fn line(found: &FoundServer, server: Option<&Server>, text: &mut String) {
    let what = match &found.entry {
        Ok(read) => format!("{}{}{}", transport(&read.written), held(&read.entry), counted(server)),
        Err(why) => view::clean(why),
    };
    let _ = writeln!(text, "{:<20} {:<12} {}\n    {what}", view::clean(&found.name), found.state.word(), found.place());
    if let Ok(read) = &found.entry
        && !read.unknown.is_empty()
    {
        let _ = writeln!(text, "    not read: {}", view::clean(&read.unknown.join(", ")));
    }
}

fn counted(server: Option<&Server>) -> String {
    match server {
        Some(server) if server.state == ServerState::NeedsLogin => {
            format!("; it wants you to log in: `piton mcp login {}`", server.name)
        }
        Some(server) if !server.tools.is_empty() || !server.problems.is_empty() => {
            let tools = view::plural(server.tools.len() as u64, "tool");
            let left_out = match server.problems.len() {
                0 => String::new(),
                problems => format!(", {problems} left out: `piton mcp show {}`", server.name),
            };
            let changed = server.tools.iter().filter(|tool| tool.pin != Pin::Same).count();
            let changed = match changed {
                0 => String::new(),
                changed => format!(", {changed} changed: `piton mcp show {}`", server.name),
            };
            format!("; {tools} when it ran last{left_out}{changed}")
        }
        Some(_) | None => String::new(),
    }
}

/// How it is reached, as its file has it: what stands in its variables may be secret.
fn transport(written: &Transport) -> String {
    match written {
        Transport::Stdio { command, args, .. } => {
            let words: Vec<String> = std::iter::once(command).chain(args).map(|word| view::clean(word)).collect();
            format!("stdio: {}", words.join(" "))
        }
        Transport::Http { url, .. } => format!("http: {}", address(url)),
        Transport::Sse { url, .. } => format!("sse: {}", address(url)),
    }
}

/// How its process is confined.
fn held(entry: &Entry) -> String {
    match (&entry.transport, &entry.net) {
        (Transport::Stdio { .. }, Some(hosts)) if hosts.is_empty() => " (sandboxed, no network)".to_owned(),
        (Transport::Stdio { .. }, Some(hosts)) => format!(" (sandboxed, network: {})", view::clean(&hosts.join(", "))),
        _ => String::new(),
    }
}

/// An address without what stands behind `?` and before `@`: keys are kept there.
fn address(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let shown = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    };
    view::clean(&shown)
}

fn object(found: &FoundServer, server: Option<&Server>) -> Value {
    let mut object = json!({
        "name": found.name, "state": found.state.word(), "origin": found.origin.word(), "file": found.file, "line": found.line,
    });
    match &found.entry {
        Ok(read) => {
            let transport = match &read.written {
                Transport::Stdio { command, args, .. } => json!({"type": "stdio", "command": command, "args": args}),
                Transport::Http { url, .. } => json!({"type": "http", "url": address(url)}),
                Transport::Sse { url, .. } => json!({"type": "sse", "url": address(url)}),
            };
            object["transport"] = transport;
            object["network"] = json!(read.entry.net);
            object["always_load"] = json!(read.entry.always_load);
            object["not_read"] = json!(read.unknown);
        }
        Err(why) => object["error"] = json!(why),
    }
    if let Some(server) = server {
        object["tools"] = server.tools.iter().map(|tool| json!(tool.name)).collect();
        object["left_out"] = json!(*server.problems);
    }
    object
}

fn show(name: &str, as_json: bool, around: &Surroundings) -> Result<u8> {
    let workspace = around.workspace(None)?;
    let all = found(around, &workspace)?;
    let Some(found) = all.iter().find(|found| found.name == name) else { bail!("{}", missing(name, &all)) };
    let entry = found.entry.as_ref().ok().map(|read| read.entry.clone());
    let counts = matches!(found.state, Standing::As(State::InForce) | Standing::Disabled);
    let server = known(entry.clone().filter(|_| counts).into_iter().collect(), around, &workspace)?.pop();
    if as_json {
        let mut object = object(found, server.as_ref());
        if let Some(server) = &server {
            object["server"] = whole_object(server);
        }
        view::write_stdout(&format!("{object}\n"));
        return Ok(0);
    }
    let mut text = String::new();
    line(found, server.as_ref(), &mut text);
    if let Some(entry) = entry.filter(|_| counts) {
        facts(&entry, around, &workspace, &mut text)?;
    }
    if let Some(server) = &server {
        whole(server, &mut text);
    }
    view::write_stdout(&text);
    Ok(0)
}

/// Names of variables and headers, never what they hold.
fn facts(entry: &Entry, around: &Surroundings, workspace: &Path, text: &mut String) -> Result<()> {
    let mut say = |name: &str, said: String| {
        if !said.is_empty() {
            let _ = writeln!(text, "    {name:<13} {}", view::clean(&said));
        }
    };
    match &entry.transport {
        Transport::Stdio { env, cwd, .. } => {
            say("variables", env.keys().cloned().collect::<Vec<_>>().join(", "));
            say("folder", cwd.as_ref().map(|cwd| cwd.display().to_string()).unwrap_or_default());
        }
        Transport::Http { headers, .. } | Transport::Sse { headers, .. } => {
            say("headers", headers.keys().cloned().collect::<Vec<_>>().join(", "));
            let surroundings = surroundings(around, workspace, Confinement::Model)?;
            say("logged in", if is_logged_in(entry, &surroundings) { "yes" } else { "no" }.to_owned());
        }
    }
    say("only tools", entry.tools.clone().unwrap_or_default().join(", "));
    say("without tools", entry.without.join(", "));
    Ok(())
}

fn whole(server: &Server, text: &mut String) {
    if !server.instructions.is_empty() {
        let _ = writeln!(text, "\n{}", indented(&server.instructions));
    }
    for tool in server.tools.iter() {
        let _ = writeln!(text, "\n{}\n{}", view::clean(&tool.name), indented(&tool.description));
        if let Pin::Changed { diff } = &tool.pin {
            let diff = diff.trim_end().lines().map(view::clean).collect::<Vec<_>>().join("\n");
            let shown = view::colour_diff(&diff);
            let _ = writeln!(
                text,
                "    It has changed since you accepted it, and is not called. `piton mcp accept {}` accepts:\n\n{shown}",
                server.name
            );
        }
    }
    for prompt in server.prompts.iter() {
        let _ =
            writeln!(text, "\n/mcp__{}__{}\n{}", server.name, view::clean(&prompt.name), indented(&prompt.description));
    }
    for resource in server.resources.iter() {
        let _ =
            writeln!(text, "\n@{}:{}\n{}", server.name, view::clean(&resource.uri), indented(&resource.description));
    }
    for problem in server.problems.iter() {
        let _ = writeln!(text, "\nproblem: {}", view::clean(problem));
    }
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("    {}", view::clean(line))).collect::<Vec<_>>().join("\n")
}

fn whole_object(server: &Server) -> Value {
    let tool = |tool: &ServerTool| {
        let changed = match &tool.pin {
            Pin::Same => Value::Null,
            Pin::Changed { diff } => json!(diff),
        };
        json!({"name": tool.name, "own_name": tool.own_name, "description": tool.description, "schema": tool.schema, "changed": changed})
    };
    let prompts = server.prompts.iter().map(|prompt| {
        let arguments = prompt.arguments.iter().map(
            |(name, description, required)| json!({"name": name, "description": description, "required": required}),
        );
        json!({"name": prompt.name, "description": prompt.description, "arguments": arguments.collect::<Vec<_>>()})
    });
    let resources = server.resources.iter().map(|resource| {
        json!({"uri": resource.uri, "name": resource.name, "description": resource.description, "is_template": resource.is_template})
    });
    json!({
        "instructions": server.instructions,
        "tools": server.tools.iter().map(tool).collect::<Vec<_>>(),
        "prompts": prompts.collect::<Vec<_>>(),
        "resources": resources.collect::<Vec<_>>(),
        "left_out": *server.problems,
    })
}
