//! `piton trust`: what a repository brings along that grants or runs something, shown whole, and whether it counts.

use crate::cli::TrustArgs;
use crate::failure::{Context, Failure, Result, bail, ensure};
use crate::out::report::EXIT_FAILED;
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_core::hidden;
use piton_engine::assemble::brought::{Brought, BroughtItem};
use piton_engine::assemble::sources;
use piton_engine::config::trust::{Found, Item, Kind, PROJECT_FILE, ProjectFile, Standing, Trust};
use serde_json::json;
use std::path::Path;

/// Obeys the command.
pub(crate) fn trust(args: &TrustArgs, around: &Surroundings) -> Result<u8> {
    if args.revoke {
        return revoke(&args.names, around).map(|()| 0);
    }
    let workspace = around.workspace(None)?;
    let mut brought = Brought::look(&around.machine, &workspace)?;
    only(&args.names, &mut brought)?;
    if args.json {
        view::write_stdout(&format!("{}\n", as_json(&brought)));
        return Ok(0);
    }
    for (path, why) in &brought.unreadable {
        view::write_stderr(&format!("{} cannot be trusted: {}\n", path.display(), view::clean(why)));
    }
    let open: Vec<&BroughtItem> =
        brought.items.iter().filter(|brought| brought.standing != Standing::Trusted).collect();
    brought.items.iter().for_each(show);
    if open.is_empty() {
        return nothing_to_trust(&brought, args.names.is_empty(), &workspace, around);
    }
    for item in open.iter().map(|brought| &brought.item).filter(|item| item.kind == Kind::Settings) {
        sensible(&item.path, around)?;
    }
    if args.names.is_empty() {
        view::write_stderr(&format!("\nThe hash of all of it, for `piton run --trust=HASH`:\n{}\n", brought.hash()));
    }
    around.only_by_a_person()?;
    if !args.yes && !is_agreed(around)? {
        view::write_stderr("Not trusted; it stays out of force.\n");
        return Ok(EXIT_FAILED);
    }
    let list = Trust::in_folder(&around.machine.data_dir);
    for brought in open {
        list.give(&brought.item, brought.text.as_bytes())?;
    }
    view::write_stderr("Trusted: it is in force here and in every folder below, until it changes.\n");
    Ok(if brought.unreadable.is_empty() { 0 } else { EXIT_FAILED })
}

/// Leaves what these names mean, each one thing. What cannot be read is meant by its path.
fn only(names: &[String], brought: &mut Brought) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    for name in names {
        let meant: Vec<&Path> =
            brought.items.iter().filter(|item| item.is_meant(name)).map(|found| &*found.item.path).collect();
        let unreadable = brought.unreadable.iter().any(|(path, _)| path.ends_with(name.trim_start_matches("./")));
        let shown = || meant.iter().map(|path| view::path(path)).collect::<Vec<_>>().join("\n  ");
        match meant.len() {
            0 if unreadable => {}
            0 => {
                bail!("there is nothing called `{}` here to trust; `piton trust` shows all there is", view::clean(name))
            }
            1 => {}
            _ => bail!("several things are called `{}`; name one by its path:\n  {}", view::clean(name), shown()),
        }
    }
    let is_meant = |path: &Path| names.iter().any(|name| path.ends_with(name.trim_start_matches("./")));
    brought.items.retain(|found| names.iter().any(|name| found.is_meant(name)));
    brought.unreadable.retain(|(path, _)| is_meant(path));
    Ok(())
}

fn nothing_to_trust(brought: &Brought, is_all: bool, workspace: &Path, around: &Surroundings) -> Result<u8> {
    if let Some((path, _)) = brought.unreadable.first() {
        bail!("{} cannot be trusted, and there is nothing else", path.display());
    }
    if !brought.items.is_empty() {
        let hash = if is_all { format!(" Its hash: {}", brought.hash()) } else { String::new() };
        view::write_stderr(&format!("\nAll of it is in force already.{hash}\n"));
        return Ok(0);
    }
    // What lies above the repository holds here as well.
    let Some(file) = sources::found(&around.machine, workspace)?.in_force else { bail!(no_file(workspace)) };
    view::write_stderr(&format!("{} is in force already\n", file.path.display()));
    Ok(0)
}

/// What it says; of what was trusted in another form, the difference.
fn show(brought: &BroughtItem) {
    let BroughtItem { item, text, standing, before } = brought;
    let path = hidden::visible_line(&item.path.display().to_string());
    let kind = match item.kind {
        Kind::Settings => "",
        Kind::Agent => ", an agent",
        Kind::Command => ", a slash command",
        Kind::Skill => ", a skill",
        Kind::Server => ", an MCP server",
        Kind::Plugin => ", a plugin",
        Kind::Hooks => ", hooks (run only with [claude] hooks = true in your configuration)",
    };
    // Indented, so that no line of it stands where ours do.
    let line = |line: &str| format!("    {}", view::clean(line)).trim_end().to_owned();
    let shown = |text: &str| text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n");
    match (standing, before) {
        (Standing::Trusted, _) => view::write_stderr(&format!("{path}{kind} is trusted as it is.\n")),
        (Standing::Changed, Some(before)) => {
            let diff = view::unified(&readable(item, before), &readable(item, text));
            let diff = diff.trim_end().lines().map(view::clean).collect::<Vec<_>>().join("\n");
            view::write_stderr(&format!(
                "{path}{kind} has been changed since you trusted it:\n\n{}\n",
                view::colour_diff(&diff)
            ));
        }
        (Standing::Changed, None) => {
            let text = shown(&readable(item, text));
            view::write_stderr(&format!("{path}{kind} has been changed since you trusted it, and says:\n\n{text}\n"));
        }
        (Standing::Unknown, _) => {
            view::write_stderr(&format!("{path}{kind} says:\n\n{}\n", shown(&readable(item, text))));
        }
    }
}

/// Hooks are kept as one line of JSON.
pub(crate) fn readable(item: &Item, text: &str) -> String {
    let parsed = || -> Option<String> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        serde_json::to_string_pretty(&value).ok()
    };
    match item.kind {
        Kind::Settings | Kind::Agent | Kind::Command | Kind::Skill | Kind::Server | Kind::Plugin => None,
        Kind::Hooks => parsed(),
    }
    .unwrap_or_else(|| text.to_owned())
}

fn as_json(brought: &Brought) -> serde_json::Value {
    let items = brought.items.iter().map(|BroughtItem { item, text, standing, .. }| {
        json!({
            "kind": item.kind.words(1),
            "path": item.path,
            "standing": match standing {
                Standing::Trusted => "trusted",
                Standing::Changed => "changed",
                Standing::Unknown => "unknown",
            },
            "hash": item.hash,
            "text": text,
        })
    });
    let unreadable = brought.unreadable.iter().map(|(path, error)| json!({"path": path, "error": error}));
    json!({
        "hash": brought.hash(),
        "items": items.collect::<Vec<_>>(),
        "unreadable": unreadable.collect::<Vec<_>>(),
    })
}

fn is_agreed(around: &Surroundings) -> Result<bool> {
    ensure!(around.stdin_is_terminal, "no terminal to ask on; pass --yes once you have read it");
    view::write_stderr("\nTrust it in its current form? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A file of a repository that makes sense where it is, over the user's own.
pub(crate) fn sensible(path: &Path, around: &Surroundings) -> Result<()> {
    let file = ProjectFile::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    sources::of_files(&around.machine, Some(&file))?.merge().map_err(Failure::from)?;
    Ok(())
}

/// Lets go of all that this repository brings along, and of what holds here from above or did, as it is or as it was; or only of what these
/// names mean.
pub(crate) fn revoke(names: &[String], around: &Surroundings) -> Result<()> {
    let workspace = around.workspace(None)?;
    let Found { in_force, changed, unknown } = sources::found(&around.machine, &workspace)?;
    let mut brought = Brought::look(&around.machine, &workspace)?;
    only(names, &mut brought)?;
    let above = in_force.map(|file| file.path).into_iter().chain(changed).chain(unknown);
    let mut paths: Vec<_> = above.filter(|_| names.is_empty()).collect();
    paths.extend(brought.items.into_iter().map(|brought| brought.item.path));
    paths.extend(brought.unreadable.into_iter().map(|(path, _)| path));
    paths.sort();
    paths.dedup();
    ensure!(!paths.is_empty(), "{}", no_file(&workspace));
    let list = Trust::in_folder(&around.machine.data_dir);
    for path in paths {
        let told = if list.take_back(&path)? { "is not in force any more" } else { "was not trusted" };
        view::write_stderr(&format!("{} {told}\n", path.display()));
    }
    Ok(())
}

fn no_file(workspace: &Path) -> String {
    format!(
        "there is no {PROJECT_FILE} and there are no hooks in {} or above it in its repository",
        workspace.display()
    )
}
