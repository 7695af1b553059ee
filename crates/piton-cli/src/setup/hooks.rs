//! Which hooks run: those of the configuration, those of Claude Code's settings where the configuration says so, those
//! of the repository where the user has allowed them, the checks, and the schema of the answer.

use crate::cli::RunArgs;
use crate::out::view;
use crate::surroundings::Surroundings;
use anyhow::Context;
use piton_engine::config::Config;
use piton_engine::config::trust::{ProjectFile, Standing, Trust};
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
            if let Some(settings) = settings(&file)? {
                handlers.extend(settings.hooks(&file)?.handlers);
            }
        }
        handlers.extend(of_repository(args, around, workspace)?);
    } else if args.trust_hooks {
        view::write_stderr(
            "note: --trust-hooks does nothing here: Claude Code's hooks are only read where the configuration says [claude] \
             hooks = true (or --set claude.hooks=true)\n",
        );
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

/// The hooks that the repository brings along, where the user has said that they may run, as they are. A file that cannot
/// be read is nobody's error here: it came with the repository.
fn of_repository(args: &RunArgs, around: &Surroundings, workspace: &Path) -> anyhow::Result<Vec<Handler>> {
    let trust = Trust::in_folder(&around.data_dir);
    let mut handlers = Vec::new();
    for name in [".claude/settings.json", ".claude/settings.local.json"] {
        let file = workspace.join(name);
        let read = settings(&file).and_then(|settings| {
            let Some(settings) = settings else { return Ok(None) };
            let hooks = settings.hooks(&file)?;
            Ok(Some((settings, hooks)))
        });
        let (settings, hooks) = match read {
            Ok(Some(read)) => read,
            Ok(None) => continue,
            Err(error) => {
                view::write_stderr(&format!("note: no hooks of it are run: {}\n", view::clean(&format!("{error:#}"))));
                continue;
            }
        };
        if hooks.handlers.is_empty() {
            continue;
        }
        let trusted = settings.hashed.as_bytes();
        if args.trust_hooks {
            trust.give(&file, trusted)?;
        }
        let why = match trust.standing(&file, trusted)? {
            Standing::Trusted => {
                handlers.extend(hooks.handlers);
                continue;
            }
            Standing::Changed => "you do not trust them as they are: they were changed since you did",
            Standing::Unknown => "you do not trust them as they are",
        };
        let count = view::plural(hooks.handlers.len() as u64, "hook");
        let mut said = format!("note: {count} of {} not run, since {why}:\n", file.display());
        for handler in &hooks.handlers {
            said.push_str(&format!("  {}\n", view::clean(&handler.summary())));
        }
        view::write_stderr(&format!("{said}  Let them run, as they are now, with --trust-hooks\n"));
    }
    Ok(handlers)
}

/// What a settings file of Claude Code's says.
struct ClaudeSettings {
    table: HookTable,
    /// That of it which counts, as text: what is trusted.
    hashed: String,
}

/// The settings in a file; `None` where there is no file.
fn settings(file: &Path) -> anyhow::Result<Option<ClaudeSettings>> {
    let bytes = match ProjectFile::read(file) {
        Ok(file) => file.bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let text = String::from_utf8(bytes).ok().with_context(|| format!("{} is not text", file.display()))?;
    let table = HookTable::of_settings(&text).with_context(|| file.display().to_string())?;
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some(ClaudeSettings { table, hashed: whole["hooks"].to_string() }))
}

impl ClaudeSettings {
    fn hooks(&self, file: &Path) -> anyhow::Result<ReadHooks> {
        let hooks = self.table.read(false).with_context(|| file.display().to_string())?;
        for notice in &hooks.notices {
            view::write_stderr(&format!("note: {}: {}\n", file.display(), view::clean(notice)));
        }
        Ok(hooks)
    }
}
