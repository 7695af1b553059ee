//! `piton doctor`: what is found on this machine. Keys by name, never by value.

use crate::failure::Result;
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_engine::assemble::brought::{Brought, BroughtItem};
use piton_engine::assemble::entries::{Entry, Found, State};
use piton_engine::assemble::keys::{self, Place};
use piton_engine::assemble::plugins::PluginState;
use piton_engine::assemble::servers::{FoundServer, ServerState, look};
use piton_engine::assemble::{self, AssembleError, Machine, Wishes, agents, cloud, commands, sandbox, server, skills};
use piton_engine::config::Config;
use piton_engine::config::trust::Standing;
use piton_engine::engine::Engine;
use piton_engine::hooks::HookTable;
use piton_http::HttpOptions;
use piton_models::provider::{self, ListedModel, PROVIDERS, Provider};
use piton_tools::{private, regular};
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Prints the findings. The exit code is 0 only if Piton could work.
pub(crate) async fn doctor(around: &Surroundings) -> Result<u8> {
    line("piton", &format!("{} ({})", env!("CARGO_PKG_VERSION"), around.machine.exe.display()));
    let config = settings::of_user(around);
    let mut healthy = configuration(around, config.as_ref());
    let config = config.unwrap_or_default();
    healthy &= data_folder(&around.machine.data_dir) && sessions(around);
    let models = keys(&config, around).unwrap_or_else(|error| {
        line("key", &format!("{error:#}"));
        healthy = false;
        0
    }) + servers(&config, around).await;
    if models == 0 {
        line(
            "models",
            "none: store a key (`piton auth login PROVIDER`) or start a local server (`piton run` lists them)",
        );
    }
    for tool in ["bash", "git"] {
        let found = around.machine.find_program(tool);
        line(tool, &found.map_or("not found".to_owned(), |path| path.display().to_string()));
    }
    claude(&config, around);
    untrusted(around);
    mcp_servers(around);
    shadowed(around);
    match sandbox::available(&around.machine, config.sandbox.backend.unwrap_or_default()) {
        Ok(found) => {
            let without = found.without.map_or_else(String::new, |why| format!(" (no stronger one: {why})"));
            let backend = found.backend.word();
            line("sandbox", &format!("by {backend}{without}; `piton doctor --sandbox` tries to break out of it"));
        }
        Err(why) => line("sandbox", &format!("none can be made here: {why}")),
    }
    Ok(if healthy && models > 0 { 0 } else { crate::out::report::EXIT_FAILED })
}

fn configuration(around: &Surroundings, config: Result<&Config, &AssembleError>) -> bool {
    let path = around.machine.config_file.display();
    match config {
        Ok(_) if around.machine.config_file.exists() => line("config", &format!("{path}")),
        Ok(_) => line("config", &format!("{path} (not found; using the defaults)")),
        Err(error) => {
            line("config", &error.chain());
            return false;
        }
    }
    true
}

fn sessions(around: &Surroundings) -> bool {
    let engine = Engine::open(&around.machine.data_dir);
    let found = engine.index().and_then(|index| index.list(None, usize::MAX));
    match found {
        Ok(all) => line("sessions", &format!("{} in {}", all.len(), engine.sessions_dir().display())),
        Err(error) => {
            line("sessions", &error.to_string());
            return false;
        }
    }
    true
}

fn keys(config: &Config, around: &Surroundings) -> Result<usize> {
    let mut found = 0;
    let own = config.providers.keys().map(String::as_str).filter(|name| provider::find(name).is_none());
    for name in PROVIDERS.iter().map(|provider| provider.name).chain(own) {
        match keys::places(name, config, &around.machine)?.first() {
            None => match provider::find(name).and_then(|known| cloud::place(known, &around.machine)) {
                None => continue,
                Some(place) => line("key", &format!("{name}: by {place}")),
            },
            Some(Place::Variable(variable)) => line("key", &format!("{variable} is set ({name})")),
            Some(place) => line("key", &format!("{name}: in {place}")),
        }
        found += 1;
    }
    Ok(found)
}

/// Servers of this machine, and every one that the user has named an address for.
async fn servers(config: &Config, around: &Surroundings) -> usize {
    let machine = &around.machine;
    let is_named = |name: &str| config.providers.get(name).is_some_and(|server| server.base_url.is_some());
    let has_variable =
        |known: &Provider| known.base_url_variable.is_some_and(|variable| machine.var(variable).is_some());
    let mut names: Vec<&str> = server::local_providers().map(|local| local.name).collect();
    names.extend(PROVIDERS.iter().filter(|known| is_named(known.name) || has_variable(known)).map(|known| known.name));
    names.extend(config.providers.keys().map(String::as_str).filter(|name| is_named(name)));
    let (mut found, mut seen) = (0, HashSet::new());
    for name in names {
        let known = provider::find(name);
        let Ok(spec) = server::spec(name, None, config, machine) else { continue };
        let Some(address) = spec.base_url.clone().or(known.map(|known| known.base_url.to_owned())) else { continue };
        // One variable may be the address of several providers.
        if !seen.insert(address.clone()) {
            continue;
        }
        let is_local = spec.base_url.is_none();
        let options = if is_local { Ok(server::probe_options()) } else { answering_soon(name, config, machine) };
        let listed = match options {
            Ok(options) => provider::list_models(&spec, &options).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match listed {
            Ok(models) => {
                let (count, names) = (view::plural(models.len() as u64, "model"), first_names(&models));
                line(name, &format!("{count} at {}{names}", view::clean(&address)));
                found += models.len();
            }
            Err(_) if is_local => {}
            Err(error) => {
                line(name, &format!("no list of models from {}: {}", view::clean(&address), view::clean(&error)));
            }
        }
    }
    found
}

/// A server that is named may be far away; but nobody waits a minute for a list.
fn answering_soon(name: &str, config: &Config, machine: &Machine) -> Result<HttpOptions> {
    const MOST_MS: u64 = 5_000;
    let options = server::http_options(name, config, machine)?;
    Ok(HttpOptions { connect_timeout_ms: MOST_MS, stall_ms: MOST_MS, ..options })
}

fn first_names(models: &[ListedModel]) -> String {
    const SHOWN: usize = 3;
    let names: Vec<_> = models.iter().take(SHOWN).map(|model| view::clean(&model.id)).collect();
    let more = models.len().checked_sub(SHOWN).filter(|more| *more > 0).map(|more| format!(" and {more} more"));
    if names.is_empty() { String::new() } else { format!(": {}{}", names.join(", "), more.unwrap_or_default()) }
}

/// MCP servers, each with whether it is used, and what was left out of it when it ran last. None is started: `piton mcp test` does that.
fn mcp_servers(around: &Surroundings) {
    let Ok(workspace) = around.workspace(None) else { return };
    let scope = assemble::scope(&around.machine, &workspace, &Wishes::default()).ok();
    let found = scope.and_then(|scope| look(&scope, &[]).ok());
    let found: Vec<FoundServer> =
        found.into_iter().flatten().filter(|found| found.state != ServerState::As(State::Shadowed)).collect();
    for found in found {
        let why = found.entry.as_ref().err().map_or(String::new(), |why| format!(": {}", view::clean(why)));
        line("mcp", &format!("{} {} in {}{why}", view::clean(&found.name), found.state.word(), found.place()));
        let entry = found.entry.ok().filter(|_| found.state.is_in_force()).map(|read| read.entry);
        let known = super::mcp::known(entry.into_iter().collect(), around, &workspace);
        for server in known.unwrap_or_default() {
            for problem in server.problems.iter() {
                line("mcp", &format!("{}: {}", view::clean(&server.name), view::clean(problem)));
            }
        }
    }
}

/// Whether sessions can be kept: a folder and a file are made, and removed.
fn data_folder(folder: &Path) -> bool {
    let written = private::make_folder(folder).and_then(|()| tempfile::NamedTempFile::new_in(folder)?.close());
    if let Err(error) = &written {
        let folder = folder.display();
        line("data", &format!("{folder} cannot be written: {error}. Name another folder with PITON_DATA_DIR"));
    }
    written.is_ok()
}

/// Agents, skills and commands that another of their name comes before, and plugins that are not used.
fn shadowed(around: &Surroundings) {
    let Ok(workspace) = around.workspace(None) else { return };
    // What is wrong with the configuration is said above.
    let Ok(scope) = assemble::scope(&around.machine, &workspace, &Wishes::default()) else { return };
    fn name<E: Entry>(found: &Found<E>) -> Option<&str> {
        found.read.as_ref().ok().map(Entry::name)
    }
    fn tell<E: Entry>(all: &[Found<E>]) {
        for found in all.iter().filter(|found| found.state == State::Shadowed && found.at.is_some()) {
            let first = all.iter().find(|other| other.state == State::InForce && name(other) == name(found));
            let file = |found: &Found<E>| {
                found.file().map_or_else(String::new, |file| view::clean(&file.display().to_string()))
            };
            let what = E::PLACES.kind.words(1);
            let by = first.map(file).unwrap_or_default();
            line(
                "shadowed",
                &format!("the {what} {} of {}, by {by}", view::clean(name(found).unwrap_or_default()), file(found)),
            );
        }
    }
    tell(&agents::look(&scope).unwrap_or_default());
    tell(&skills::look(&scope).unwrap_or_default());
    tell(&commands::look(&scope).unwrap_or_default());
    let servers = look(&scope, &[]).unwrap_or_default();
    for found in servers.iter().filter(|found| found.state == ServerState::As(State::Shadowed)) {
        let first = servers.iter().find(|other| other.name == found.name && other.state != found.state);
        let by = first.map(FoundServer::place).unwrap_or_default();
        line("shadowed", &format!("the MCP server {} of {}, by {by}", view::clean(&found.name), found.place()));
    }
    for found in scope.plugins.found.iter().filter(|found| found.state != PluginState::InForce) {
        let root = view::clean(&found.root.display().to_string());
        line("plugin", &format!("{} of {root}: {}", view::clean(&found.named), found.state.word()));
    }
}

/// What Claude Code would read here and Piton does not.
fn claude(config: &Config, around: &Surroundings) {
    let home = around.machine.var("HOME").map(PathBuf::from);
    let here = around.workspace(None).ok().filter(|here| Some(here) != home.as_ref());
    for folder in home.iter().chain(&here) {
        let mut unused: Vec<String> = Vec::new();
        for (name, what) in CLAUDE_PARTS {
            unused.extend(folder.join(name).exists().then(|| format!("{name} ({what})")));
        }
        for name in [".claude/settings.json", ".claude/settings.local.json"] {
            let Ok(text) = regular::text(&folder.join(name), regular::SETTINGS_BYTES) else { continue };
            let settings: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
            let takes_rules = config.claude.permissions.unwrap_or(true);
            let is_used = |key: &String| match key.as_str() {
                "$schema" => true,
                "hooks" => config.claude.hooks,
                "permissions" => takes_rules,
                "enabledPlugins" | "extraKnownMarketplaces" => config.claude.plugins.unwrap_or(true),
                _ => false,
            };
            let mut keys: Vec<_> = settings.keys().filter(|key| !is_used(key)).map(|key| view::clean(key)).collect();
            // Of a repository's rules, those that allow are not taken.
            let of_rules = settings.get("permissions").and_then(Value::as_object).filter(|_| takes_rules);
            let widens = config.claude.permissions == Some(true) && Some(folder) == home.as_ref();
            let is_used = |key: &str| matches!(key, "deny" | "ask") || key == "allow" && widens;
            let of_rules = of_rules.into_iter().flat_map(|rules| rules.keys()).filter(|key| !is_used(key));
            keys.extend(of_rules.map(|key| format!("permissions.{}", view::clean(key))));
            unused.extend((!keys.is_empty()).then(|| format!("{name} ({})", keys.join(", "))));
            let hooks = config.claude.hooks.then(|| HookTable::of_settings(&text)?.read(false));
            let unknown = hooks.and_then(Result::ok).unwrap_or_default().unknown_events;
            let unknown = unknown.iter().map(|event| format!("hooks of {}", view::clean(event)));
            unused.extend(unknown.map(|hooks| format!("{name} ({hooks}: no such event here)")));
        }
        if !unused.is_empty() {
            line("claude", &format!("not used in {}: {}", folder.display(), unused.join("; ")));
        }
    }
}

/// What the repository brings along and the user has not approved.
fn untrusted(around: &Surroundings) {
    let Ok(workspace) = around.workspace(None) else { return };
    match Brought::look(&around.machine, &workspace) {
        Ok(brought) => {
            for BroughtItem { item, .. } in brought.items.iter().filter(|brought| brought.standing != Standing::Trusted)
            {
                let path = view::path(item.path.strip_prefix(&brought.root).unwrap_or(&item.path));
                line(
                    "trust",
                    &format!("ignored: {path} ({}; `piton trust` shows and approves it)", item.kind.words(1)),
                );
            }
        }
        Err(error) => line("trust", &view::clean(&error.to_string())),
    }
}

/// Parts of a folder for Claude Code that nothing here reads, and what they are.
const CLAUDE_PARTS: [(&str, &str); 1] = [(".claude/output-styles", "output styles")];

fn line(what: &str, text: &str) {
    view::write_stdout(&format!("{what:<10} {text}\n"));
}
