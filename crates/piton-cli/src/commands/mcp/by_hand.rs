//! One server by hand: try it, call a tool of it, accept what has changed, log in.

use super::{entry, surroundings};
use crate::failure::{Failure, Result, bail};
use crate::out::report::EXIT_FAILED;
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::call::Status;
use piton_core::policy::SandboxMode;
use piton_engine::assemble::sandbox::{available, by_hand};
use piton_mcp::entry::Entry;
use piton_mcp::{Answering, Client, Report};
use piton_tools::executor::OutputSink;
use piton_tools::servers::{NoClient, Pin, ServerClient, ServerContext};
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The server, and what its client needs. One that a session would hold in the sandbox is held in it here, too.
fn prepared(name: &str, around: &Surroundings) -> Result<(Entry, piton_mcp::Surroundings)> {
    let workspace = around.workspace(None)?;
    let entry = entry(name, around, &workspace)?;
    let confinement = if entry.net.is_some() { sandbox(around, &workspace)? } else { Confinement::User };
    let surroundings = surroundings(around, &workspace, confinement)?;
    Ok((entry, surroundings))
}

fn sandbox(around: &Surroundings, workspace: &Path) -> Result<Confinement> {
    let config = settings::of_workspace(around, workspace, &[])?;
    let mode = config.sandbox.mode.unwrap_or(SandboxMode::WorkspaceWrite);
    if mode == SandboxMode::Off {
        return Ok(Confinement::Model);
    }
    let found = available(&around.machine, config.sandbox.backend.unwrap_or_default());
    let found =
        found.map_err(|why| Failure::user(format!("it runs in the sandbox, and none can be made here: {why}")))?;
    let private = around.machine.data_dir.join("mcp");
    Ok(by_hand(&around.machine, &config, (mode, found.backend), workspace, private))
}

/// Starts a server and says what it offers; or calls a tool of it, with an answer to the forms that the server asks for.
pub(super) async fn test(
    name: &str,
    (call, answer): (&[String], Option<&str>),
    as_json: bool,
    around: &Surroundings,
) -> Result<u8> {
    let (entry, surroundings) = prepared(name, around)?;
    if let [tool, arguments @ ..] = call {
        let arguments = object_of(arguments.first().map_or("{}", String::as_str), "the arguments are")?;
        let answer = answer.map(|answer| object_of(answer, "the answer is")).transpose()?;
        let client: Arc<dyn ServerClient> = match answer {
            Some(answer) => Arc::new(Answering(answer)),
            None => Arc::new(NoClient),
        };
        return Ok(called(entry, surroundings, (tool, arguments), client, as_json).await);
    }
    let report = piton_mcp::test(entry, surroundings).await;
    match as_json {
        true => view::write_stdout(&format!("{}\n", object(&report))),
        false => view::write_stdout(&told(&report)),
    }
    Ok(if report.error.is_none() { 0 } else { EXIT_FAILED })
}

/// What was given as a JSON object.
fn object_of(text: &str, what: &str) -> Result<Value> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => bail!("{what} JSON, but not an object"),
        Err(error) => bail!("{what} not JSON: {error}"),
    }
}

async fn called(
    entry: Entry,
    around: piton_mcp::Surroundings,
    (tool, arguments): (&str, Value),
    client: Arc<dyn ServerClient>,
    as_json: bool,
) -> u8 {
    let output = OutputSink::new(|line| view::write_stderr(&format!("{}\n", view::clean(line.trim_end()))));
    let cx = ServerContext { cancel: CancellationToken::new(), output, client };
    let outcome = piton_mcp::call(entry, around, tool, arguments, cx).await;
    let is_ok = outcome.status == Status::Ok;
    if as_json {
        view::write_stdout(&format!("{}\n", json!(outcome)));
    } else {
        let text = outcome.text.lines().map(view::clean).collect::<Vec<_>>().join("\n");
        if is_ok { view::write_stdout(&format!("{text}\n")) } else { view::write_stderr(&format!("{text}\n")) }
    }
    if is_ok { 0 } else { EXIT_FAILED }
}

fn told(report: &Report) -> String {
    let Report { server, version, called, took, error, .. } = report;
    let mut text = String::new();
    let name = &server.name;
    match error {
        Some(why) => drop(writeln!(text, "{name} does not answer: {}", view::clean(why))),
        None => {
            let called = if called.is_empty() { String::new() } else { format!(" ({})", view::clean(called)) };
            let _ = writeln!(
                text,
                "{name}{called} answers after {} ms, protocol {}.",
                took.as_millis(),
                view::clean(version)
            );
        }
    }
    for tool in server.tools.iter() {
        let description = tool.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let short: String = description.chars().take(100).collect();
        let changed = if tool.pin == Pin::Same { "" } else { " [changed; not called until you accept it]" };
        let _ = writeln!(text, "  {}{changed}  {}", view::clean(&tool.name), view::clean(&short));
    }
    let counted = |count: usize, of: &str| (count > 0).then(|| view::plural(count as u64, of));
    let more: Vec<String> = [counted(server.prompts.len(), "prompt"), counted(server.resources.len(), "resource")]
        .into_iter()
        .flatten()
        .collect();
    if !more.is_empty() {
        let _ = writeln!(text, "  and {}: `piton mcp show {name}`", more.join(", "));
    }
    for problem in server.problems.iter() {
        let _ = writeln!(text, "  left out: {}", view::clean(problem));
    }
    text
}

fn object(report: &Report) -> Value {
    let Report { server, version, called, took, error, era } = report;
    json!({
        "name": server.name, "error": error, "called": called, "version": version, "era": era, "took_ms": took.as_millis() as u64,
        "server": super::whole_object(server),
    })
}

/// Accepts what has changed of a server's tools.
pub(super) async fn accept(name: &str, around: &Surroundings) -> Result<u8> {
    let (entry, surroundings) = prepared(name, around)?;
    let client = Client::new(vec![entry], surroundings);
    let accepted = client.accept(name).await.map_err(Failure::user)?;
    match accepted {
        0 => view::write_stderr(&format!("Nothing of {name} had changed.\n")),
        count => view::write_stderr(&format!("Accepted {} of {name}.\n", view::plural(count as u64, "tool"))),
    }
    Ok(0)
}

/// Logs in to a server: opens `$BROWSER` with the address, and prints it.
pub(super) async fn login(name: &str, around: &Surroundings) -> Result<u8> {
    let (entry, surroundings) = prepared(name, around)?;
    let browser = around.machine.var("BROWSER").map(str::to_owned);
    let env = Env::new(around.machine.vars.clone());
    let open = move |address: &str| {
        view::write_stderr(&format!("Log in here:\n\n{}\n\n", view::clean(address)));
        let Some(browser) = &browser else { return };
        // It may have words of its own, so a shell starts it; the address is no part of the script.
        let script = format!("{browser} \"$1\"");
        let argv = ["sh", "-c", &script, "sh", address].map(OsString::from);
        let spawn = Spawn::new(argv, &env, ".", Confinement::User);
        if let Err(error) =
            spawn.start(Group::Own, Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() })
        {
            view::write_stderr(&format!("{browser} cannot be started: {error}\n"));
        }
    };
    match piton_mcp::login(&entry, &surroundings, &open).await {
        Ok(done) => {
            let scopes =
                if done.scopes.is_empty() { String::new() } else { format!(", for {}", done.scopes.join(" ")) };
            view::write_stderr(&format!(
                "Logged in to {name} by {}{}.\n",
                view::clean(&done.issuer),
                view::clean(&scopes)
            ));
            Ok(0)
        }
        Err(why) => bail!("{name}: {}", view::clean(&why)),
    }
}

/// Forgets how to log in to a server.
pub(super) fn logout(name: &str, around: &Surroundings) -> Result<u8> {
    let (entry, surroundings) = prepared(name, around)?;
    let had = piton_mcp::logout(&entry, &surroundings).map_err(Failure::user)?;
    view::write_stderr(&format!(
        "{}\n",
        if had { format!("Logged out of {name}.") } else { format!("{name} had no tokens.") }
    ));
    Ok(0)
}
