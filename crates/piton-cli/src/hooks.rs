//! Which hooks run: those of the configuration, those of Claude Code's settings where the configuration says so, those
//! of the repository where the user has allowed them, the checks, and the schema of the answer.

use crate::cli::RunArgs;
use crate::surroundings::Surroundings;
use crate::view;
use anyhow::Context;
use piton_engine::config::Config;
use piton_engine::config::trust::Trust;
use piton_engine::hooks::{Check, CommandHook, Handler, Hook, HookTable, OutputSchema, ReadHooks};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The environment of commands, shared.
type Env = Arc<BTreeMap<OsString, OsString>>;

/// The hooks of a run, in order: the user's, the repository's, the schema, the checks.
pub(crate) fn hooks(
    args: &RunArgs,
    config: &Config,
    env: &Env,
    around: &Surroundings,
    workspace: &Path,
) -> anyhow::Result<Vec<Arc<dyn Hook>>> {
    let mut handlers = config.hooks.read(true).context("in the configuration")?.handlers;
    if config.claude.hooks {
        if let Some(home) = around.var("HOME") {
            let file = Path::new(home).join(".claude/settings.json");
            if let Some((table, _)) = settings(&file)? {
                handlers.extend(read(&table, &file)?.handlers);
            }
        }
        handlers.extend(of_repository(args, around, workspace)?);
    }
    let command = |handler: Handler| Arc::new(CommandHook::new(handler, Arc::clone(env))) as Arc<dyn Hook>;
    let mut hooks: Vec<Arc<dyn Hook>> = handlers.into_iter().map(command).collect();
    if let Some(schema) = schema(args)? {
        hooks.push(Arc::new(schema));
    }
    let timeout = config.check.timeout.map(Duration::from_secs_f64);
    for check in config.check.commands.iter().chain(&args.check) {
        anyhow::ensure!(!check.trim().is_empty(), "a check is empty; name a command such as `cargo test`");
        hooks.push(Arc::new(Check::new(check, Arc::clone(env)).within(timeout, config.check.rounds)));
    }
    Ok(hooks)
}

/// The schema of the answer, where one was named.
pub(crate) fn schema(args: &RunArgs) -> anyhow::Result<Option<OutputSchema>> {
    let Some(path) = &args.output_schema else { return Ok(None) };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    OutputSchema::parse(&text).map(Some).with_context(|| format!("--output-schema {}", path.display()))
}

/// The hooks that the repository brings along, where the user has said that they may run, as they are.
fn of_repository(args: &RunArgs, around: &Surroundings, workspace: &Path) -> anyhow::Result<Vec<Handler>> {
    let trust = Trust::in_folder(&around.data_dir);
    let mut handlers = Vec::new();
    for name in [".claude/settings.json", ".claude/settings.local.json"] {
        let file = workspace.join(name);
        let Some((table, text)) = settings(&file)? else { continue };
        let hooks = read(&table, &file)?;
        if hooks.handlers.is_empty() {
            continue;
        }
        if args.trust_hooks {
            trust.give(&file, text.as_bytes())?;
        }
        if trust.holds(&file, text.as_bytes())? {
            handlers.extend(hooks.handlers);
            continue;
        }
        let count = view::plural(hooks.handlers.len() as u64, "hook");
        let mut said =
            format!("note: {count} of {} not run, since you do not trust them as they are:\n", file.display());
        for handler in &hooks.handlers {
            said.push_str(&format!("  {}\n", view::clean(&handler.summary())));
        }
        view::write_stderr(&format!("{said}  Let them run, as they are now, with --trust-hooks\n"));
    }
    Ok(handlers)
}

/// The hooks of a settings file, and their text; `None` where there is no file.
fn settings(file: &Path) -> anyhow::Result<Option<(HookTable, String)>> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let table = HookTable::of_settings(&text).with_context(|| file.display().to_string())?;
    let hooks: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some((table, hooks["hooks"].to_string())))
}

fn read(table: &HookTable, file: &Path) -> anyhow::Result<ReadHooks> {
    let hooks = table.read(false).with_context(|| file.display().to_string())?;
    for notice in &hooks.notices {
        view::write_stderr(&format!("note: {}: {}\n", file.display(), view::clean(notice)));
    }
    Ok(hooks)
}
