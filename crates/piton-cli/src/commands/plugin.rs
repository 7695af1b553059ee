//! `piton plugin`: what plugins there are, and adding, updating and removing one. Whatever one brings along is shown before it is added.

use crate::cli::PluginCommand;
use crate::failure::{Context, Result, bail, ensure};
use crate::out::report::EXIT_FAILED;
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_engine::agents::file as agent_file;
use piton_engine::assemble::plugins::{Elsewhere, Found, From, PluginState};
use piton_engine::assemble::{self, Wishes};
use piton_engine::commands::Command;
use piton_engine::plugins::added::{Added, AddedPlugins, Change, changes};
use piton_engine::plugins::marketplace::{self, Marketplace, Place};
use piton_engine::plugins::source::Source;
use piton_engine::plugins::{PartKind, Plugin};
use piton_engine::skills::file as skill_file;
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Obeys the command.
pub(crate) fn plugin(command: PluginCommand, around: &Surroundings) -> Result<u8> {
    let added = AddedPlugins::in_folder(&around.machine.data_dir);
    let done = |words: String| {
        view::write_stderr(&format!("{words}\n"));
        Ok(0)
    };
    match command {
        PluginCommand::Add { source, name, yes } => add(&added, &source, name.as_deref(), yes, around),
        PluginCommand::List { json } => list(json, around),
        PluginCommand::Show { name } => show(&name, around),
        PluginCommand::Enable { name } => {
            said(added.enable(&name, true))?;
            done(format!("{name} is used from now on."))
        }
        PluginCommand::Disable { name } => {
            said(added.enable(&name, false))?;
            done(format!("{name} is not used until you enable it."))
        }
        PluginCommand::Update { name, yes } => update(&added, &name, yes, around),
        PluginCommand::Remove { name } => {
            said(added.remove(&name))?;
            done(format!("{name} is removed."))
        }
        PluginCommand::Validate { path } => validate(&path, around),
    }
}

/// The library's words as an error.
fn said<T>(result: std::result::Result<T, String>) -> Result<T> {
    match result {
        Ok(value) => Ok(value),
        Err(why) => bail!(view::clean(&why)),
    }
}

fn add(added: &AddedPlugins, source: &str, name: Option<&str>, yes: bool, around: &Surroundings) -> Result<u8> {
    let source = said(Source::parse(source, &around.workspace(None)?))?;
    let staged = said(added.stage(&source, name, &around.machine.vars))?;
    let called = staged.plugin.name().to_owned();
    if let Some(before) = said(added.list())?.get(&called) {
        ensure!(!staged.is(before), "{called} is added already, as it is");
        ensure!(
            before.source == source.said(),
            "{called} is added already, from {}; `piton plugin remove {called}` first",
            view::clean(&before.source)
        );
        bail!("{called} is added already, as it was; `piton plugin update {called}` shows what has changed");
    }
    view::write_stderr(&indented(&staged.plugin.covered()));
    if let Some(commit) = staged.commit() {
        view::write_stderr(&format!("\nOf commit {}\n", view::clean(commit)));
    }
    if !yes && !is_agreed(&format!("Add {called}?"), around)? {
        view::write_stderr("Not added.\n");
        return Ok(EXIT_FAILED);
    }
    said(added.put(&staged))?;
    view::write_stderr(&format!("{called} is added, and used from the next start on.\n"));
    Ok(0)
}

fn update(added: &AddedPlugins, name: &str, yes: bool, around: &Surroundings) -> Result<u8> {
    let list = said(added.list())?;
    let Some(before) = list.get(name) else { bail!("`{}` is no plugin that you added", view::clean(name)) };
    let source = said(Source::parse(&before.source, Path::new("/")))?;
    let staged = said(added.stage(&source, before.of_marketplace.as_deref(), &around.machine.vars))?;
    ensure!(staged.plugin.name() == name, "it is called {} now; add it anew", staged.plugin.name());
    if staged.is(before) && added.open(name, before).is_ok() {
        view::write_stderr(&format!("{name} is as it was.\n"));
        return Ok(0);
    }
    match added.open(name, before) {
        Ok(old) => changes(&old, &staged.plugin).iter().for_each(show_change),
        Err(why) => {
            view::write_stderr(&format!("{name}: {}\n", view::clean(&why)));
            view::write_stderr(&indented(&staged.plugin.covered()));
        }
    }
    if !yes && !is_agreed(&format!("Update {name}?"), around)? {
        view::write_stderr("Not updated; it is used as it was.\n");
        return Ok(EXIT_FAILED);
    }
    said(added.put(&staged))?;
    view::write_stderr(&format!("{name} is updated, and used so from the next start on.\n"));
    Ok(0)
}

fn show_change(change: &Change) {
    let Change { path, before, after } = change;
    let path = view::clean(&path.display().to_string());
    let what = match (before, after) {
        (None, _) => "new",
        (_, None) => "gone",
        _ => "changed",
    };
    let diff = view::unified(before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default());
    let diff = diff.trim_end().lines().map(view::clean).collect::<Vec<_>>().join("\n");
    view::write_stderr(&format!("{path} is {what}:\n{}\n", view::colour_diff(&diff)));
}

/// So that no line of it stands where ours do.
fn indented(text: &str) -> String {
    let line = |line: &str| format!("    {}", view::clean(line)).trim_end().to_owned() + "\n";
    text.trim_end().lines().map(line).collect()
}

fn is_agreed(question: &str, around: &Surroundings) -> Result<bool> {
    ensure!(around.stdin_is_terminal, "no terminal to ask on; pass --yes once you have read it");
    view::write_stderr(&format!("\n{question} [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn look(around: &Surroundings) -> Result<assemble::plugins::Plugins> {
    let scope = assemble::scope(&around.machine, &around.workspace(None)?, &Wishes::default())?;
    Ok(scope.plugins.as_ref().clone())
}

fn list(as_json: bool, around: &Surroundings) -> Result<u8> {
    let (all, mut text) = (look(around)?, String::new());
    for found in &all.found {
        let from = from(found, around);
        let (about, version) = match &found.read {
            Ok(plugin) => (plugin.brings(), plugin.manifest.version.as_str()),
            Err(why) => (why.clone(), ""),
        };
        let (name, state) = (view::clean(&found.named), found.state.word());
        let _ = match as_json {
            true => writeln!(
                text,
                "{}",
                json!({"name": found.named, "state": state, "root": found.root, "from": from, "brings": about, "version": version})
            ),
            false => {
                let from = view::clean(&from);
                writeln!(text, "{name:<20} {state:<14} {from}\n    {}", view::clean(&about))
            }
        };
    }
    for Elsewhere { name, file, how } in &all.elsewhere {
        let _ = match as_json {
            true => writeln!(
                text,
                "{}",
                json!({"name": name, "state": "not here", "from": file, "fetch": how.as_ref().ok(), "why": how.as_ref().err()})
            ),
            false => {
                let how = match how {
                    Ok(command) => format!("`{command}` fetches it"),
                    Err(why) => why.clone(),
                };
                let (name, from) = (view::clean(name), view::clean(&file.display().to_string()));
                writeln!(text, "{name:<20} {:<14} {from}\n    {}", "not here", view::clean(&how))
            }
        };
    }
    if text.is_empty() && !as_json {
        text.push_str("There are no plugins. `piton plugin add PATH|GIT-URL` adds one.\n");
    }
    view::write_stdout(&text);
    Ok(0)
}

fn from(found: &Found, around: &Surroundings) -> String {
    let of_list = || -> Option<String> {
        let list = AddedPlugins::in_folder(&around.machine.data_dir).list().ok()?;
        let Added { source, commit, .. } = list.get(&found.named)?;
        let commit = commit.as_deref().and_then(|commit| commit.get(..12)).map(|commit| format!(" at {commit}"));
        Some(format!("{source}{}", commit.unwrap_or_default()))
    };
    match &found.from {
        From::Flag => "--plugin-dir".to_owned(),
        From::Added => of_list().unwrap_or_default(),
        From::Settings { file, .. } => format!("{}, by {}", found.root.display(), file.display()),
    }
}

fn show(name: &str, around: &Surroundings) -> Result<u8> {
    let all = look(around)?;
    let Some(found) = all.found.iter().find(|found| found.named == name) else {
        let names: Vec<String> = all.found.iter().map(|found| view::clean(&found.named)).collect();
        let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        bail!("there is no plugin `{}`; there is {there}", view::clean(name));
    };
    let plugin = match &found.read {
        Ok(plugin) => plugin,
        Err(why) => bail!("{} cannot be used: {}", view::clean(name), view::clean(why)),
    };
    let mut text =
        format!("{:<20} {:<14} {}\n", view::clean(&found.named), found.state.word(), view::clean(&from(found, around)));
    let not_read = plugin.manifest.unknown.join(", ");
    for (what, said) in [
        ("description", plugin.manifest.description.as_str()),
        ("version", plugin.manifest.version.as_str()),
        ("not read", not_read.as_str()),
    ] {
        if !said.is_empty() {
            let _ = writeln!(text, "    {what:<12} {}", view::clean(said));
        }
    }
    let _ = write!(text, "\n{}", indented(&plugin.covered()));
    view::write_stdout(&text);
    Ok(if found.state == PluginState::Broken { EXIT_FAILED } else { 0 })
}

/// Says what is wrong with a plugin, or with the plugins of a marketplace.
fn validate(path: &Path, around: &Surroundings) -> Result<u8> {
    let root = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    let shown = view::clean(&path.display().to_string());
    let mut faults = Vec::new();
    let is_marketplace = marketplace::file_in(&root).is_some();
    let plugins = match is_marketplace {
        true => of_marketplace(&root, around, &mut faults),
        false => vec![Plugin::read(&root, None, &around.machine.data_dir)],
    };
    let count = plugins.len();
    for read in plugins {
        match read {
            Ok(plugin) => {
                faults.extend(faults_of(&plugin).into_iter().map(|fault| format!("{}: {fault}", plugin.name())));
            }
            Err(why) => faults.push(why),
        }
    }
    if faults.is_empty() {
        let what = if is_marketplace {
            format!("a marketplace, and so are its {count} plugins here")
        } else {
            "a plugin".to_owned()
        };
        view::write_stdout(&format!("{shown} is sound: {what}.\n"));
        return Ok(0);
    }
    let faults: String = faults.iter().map(|fault| format!("  {}\n", view::clean(fault))).collect();
    view::write_stderr(&format!("{shown} is not sound:\n{faults}"));
    Ok(EXIT_FAILED)
}

fn of_marketplace(
    root: &Path,
    around: &Surroundings,
    faults: &mut Vec<String>,
) -> Vec<std::result::Result<Plugin, String>> {
    let market = match Marketplace::read(root) {
        Ok(market) => market,
        Err(why) => {
            faults.push(why);
            return Vec::new();
        }
    };
    let mut plugins = Vec::new();
    for name in market.names() {
        match market.find(name) {
            Ok(Place::Here(folder, given)) => {
                let read = Plugin::read(&folder, Some(&given), &around.machine.data_dir);
                plugins.push(read.map_err(|why| format!("{name}: {why}")));
            }
            Ok(Place::Elsewhere(_)) => {}
            Err(why) => faults.push(why),
        }
    }
    plugins
}

/// What is wrong with the parts of a plugin. Fields that mean nothing here are no faults.
fn faults_of(plugin: &Plugin) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |kind, read: &dyn Fn(&PathBuf, &PathBuf, &str) -> std::result::Result<(), String>| {
        for (folder, file) in plugin.entry_files(kind) {
            let read = plugin.text(&file).and_then(|text| read(&folder, &file, &text));
            let within = file.strip_prefix(&plugin.root).unwrap_or(&file).display().to_string();
            faults.extend(read.err().map(|why| format!("{within}: {why}")));
        }
    };
    check(PartKind::Agents, &|_, file, text| agent_file::read(file, text).map(drop));
    check(PartKind::Skills, &|_, file, text| skill_file::read(file, text).map(drop));
    check(PartKind::Commands, &|folder, file, text| Command::read(folder, file, text).map(drop));
    match plugin.hooks().map(|table| table.map(|table| table.read(false))) {
        Ok(None | Some(Ok(_))) => {}
        Ok(Some(Err(error))) => faults.push(format!("hooks: {error}")),
        Err(why) => faults.push(format!("hooks: {why}")),
    }
    faults.extend(plugin.servers().err().map(|why| format!("MCP servers: {why}")));
    faults
}
