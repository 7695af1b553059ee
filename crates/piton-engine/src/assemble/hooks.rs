//! The hooks of a session: from the configuration, from Claude Code's settings if the configuration enables them, from
//! the repository if the user trusts it, plus the checks and the schema of the answer.

use super::machine::Machine;
use super::notice::{Notice, chain};
use super::plugins::From;
use super::scope::Scope;
use super::trouble::{Context, Trouble, ensure};
use super::wishes::Wishes;
use crate::config::Config;
use crate::config::trust::{Item, Kind, ProjectFile, Standing, Trust, repository};
use crate::hooks::{Check, CommandHook, Guard, Handler, Hook, HookTable, ReadHooks};
use crate::plugins::{DATA_VARIABLE, Plugin, ROOT_VARIABLE};
use piton_core::hidden;
use piton_tools::private;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The environment of commands, shared.
pub(super) type Env = Arc<BTreeMap<OsString, OsString>>;

/// The hooks of a run, in order: the user's, the repository's, the schema, the checks.
pub(super) fn hooks(
    wishes: &Wishes,
    config: &Config,
    env: &Env,
    scope: &Scope,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Arc<dyn Hook>>, Trouble> {
    let Scope { machine, workspace, trusted, .. } = scope;
    let mut handlers = config.hooks.read(true).context("in the configuration")?.handlers;
    if config.claude.hooks {
        if let Some(home) = machine.var("HOME") {
            let file = Path::new(home).join(".claude/settings.json");
            if let Some(settings) = settings(&file)? {
                handlers.extend(settings.hooks(&file, notices)?.handlers);
            }
        }
        let theirs = of_repository((wishes.trust_hooks, trusted), machine, workspace, notices)?;
        handlers.extend(theirs.into_iter().map(Handler::confined));
    } else if wishes.trust_hooks {
        notices.push(Notice::new(
            "--trust-hooks has no effect: Claude Code's hooks are read only with [claude] hooks = true in the \
             configuration (or --set claude.hooks=true)",
        ));
    }
    let command = |handler: Handler| Arc::new(CommandHook::new(handler, Arc::clone(env))) as Arc<dyn Hook>;
    let mut hooks: Vec<Arc<dyn Hook>> = handlers.into_iter().map(command).collect();
    for (plugin, from) in scope.plugins.in_force() {
        hooks.extend(of_plugin((plugin, from), workspace, (config, env), notices));
    }
    hooks.extend(wishes.output_schema.clone().map(|schema| schema as Arc<dyn Hook>));
    let timeout = config.check.timeout.map(Duration::from_secs_f64);
    for check in &config.check.commands {
        ensure(!check.trim().is_empty(), || "a check is empty; name a command such as `cargo test`")?;
        hooks.push(Arc::new(Check::new(check, Arc::clone(env)).within(timeout, config.check.rounds)));
    }
    Ok(hooks)
}

/// The hooks of a plugin, with its folders in their environment. Those of plugins that settings of Claude Code enable run as the hooks
/// of these settings do. Where the model can write, they run only as long as the plugin is as it was when it was read.
fn of_plugin(
    (plugin, from): (&Plugin, &From),
    workspace: &Path,
    (config, env): (&Config, &Env),
    notices: &mut Vec<Notice>,
) -> Vec<Arc<dyn Hook>> {
    let named = |what: String| Notice::new(format!("the plugin {}: {what}", plugin.name()));
    let read = plugin.hooks().and_then(|table| {
        let read = table.map(|table| table.read(false).map_err(|error| chain(&error)));
        read.transpose()
    });
    let read = match read {
        Ok(Some(read)) => read,
        Ok(None) => return Vec::new(),
        Err(why) => {
            notices.push(named(format!("no hooks of it are run: {}", hidden::visible_line(&why))));
            return Vec::new();
        }
    };
    notices.extend(read.notices.iter().map(|notice| named(hidden::visible_line(notice))));
    if matches!(from, From::Settings { .. }) && !config.claude.hooks {
        if !read.handlers.is_empty() {
            notices.push(named("its hooks are run only with [claude] hooks = true in the configuration".to_owned()));
        }
        return Vec::new();
    }
    if !read.handlers.is_empty()
        && let Err(error) = private::make_folder(&plugin.data)
    {
        notices.push(named(format!("its folder {} cannot be made: {error}", plugin.data.display())));
    }
    let mut vars = BTreeMap::clone(env);
    vars.insert(ROOT_VARIABLE.into(), plugin.root.clone().into());
    vars.insert(DATA_VARIABLE.into(), plugin.data.clone().into());
    // What Python keeps beside a script would be a change of the plugin.
    vars.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
    let env = Arc::new(vars);
    let handlers = read.handlers.into_iter().map(|handler| handler.filled(|text| plugin.filled(text)));
    let is_of_repository = plugin.root.starts_with(repository(workspace));
    let handlers = handlers.map(|handler| if is_of_repository { handler.confined() } else { handler });
    let guard = plugin.root.starts_with(workspace).then(|| {
        let plugin = plugin.clone();
        let changed = "the plugin has changed since it was trusted; `piton trust` shows what, for the next run";
        Arc::new(move || plugin.has_changed().then(|| changed.to_owned())) as Guard
    });
    let hook = |handler| {
        let keeps = is_of_repository.then(|| plugin.data.clone());
        let hook = CommandHook::new(handler, Arc::clone(&env)).guarded(guard.clone()).keeping(keeps);
        Arc::new(hook.of_files_in(plugin.root.clone())) as Arc<dyn Hook>
    };
    handlers.map(hook).collect()
}

/// The hooks that come with the repository, if the user trusts them in their current form. A file that cannot be read is
/// no error: it came with the repository.
fn of_repository(
    (trust_now, trusted): (bool, &[Item]),
    machine: &Machine,
    workspace: &Path,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Handler>, Trouble> {
    let trust = Trust::in_folder(&machine.data_dir);
    let listed = "the trust of hooks cannot be looked up";
    let mut handlers = Vec::new();
    for name in OF_REPOSITORY {
        let file = workspace.join(name);
        let read = settings(&file).and_then(|settings| {
            let Some(settings) = settings else { return Ok(None) };
            let hooks = settings.hooks(&file, notices)?;
            Ok(Some((settings, hooks)))
        });
        let (settings, hooks) = match read {
            Ok(Some(read)) => read,
            Ok(None) => continue,
            Err(error) => {
                notices.push(Notice::new(format!("no hooks of it are run: {}", chain(&error))));
                continue;
            }
        };
        if hooks.handlers.is_empty() {
            continue;
        }
        let item = settings.item(&file);
        if trust_now {
            trust.give(&item, settings.hashed.as_bytes()).context(listed)?;
        }
        // What is run are the very bytes that the run trusts.
        if trusted.contains(&item) {
            handlers.extend(hooks.handlers);
            continue;
        }
        match trust.standing(&item).context(listed)? {
            Standing::Trusted => handlers.extend(hooks.handlers),
            Standing::Changed | Standing::Unknown => notices.push(Notice::Ignored(1)),
        }
    }
    Ok(handlers)
}

/// Where a repository has hooks, below the workspace.
pub(super) const OF_REPOSITORY: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// What a settings file of Claude Code's says.
pub(super) struct ClaudeSettings {
    table: HookTable,
    /// That of it which counts, as text: what is trusted.
    hashed: String,
}

/// The settings in a file; `None` where there is no file.
pub(super) fn settings(file: &Path) -> Result<Option<ClaudeSettings>, Trouble> {
    let bytes = match ProjectFile::read(file) {
        Ok(file) => file.bytes,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let text = String::from_utf8(bytes).ok().with_context(|| format!("{} is not text", file.display()))?;
    let table = HookTable::of_settings(&text).with_context(|| file.display().to_string())?;
    let whole: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some(ClaudeSettings { table, hashed: whole["hooks"].to_string() }))
}

impl ClaudeSettings {
    /// Its hooks, as something to trust.
    pub(super) fn item(&self, file: &Path) -> Item {
        Item::new(Kind::Hooks, file, self.hashed.as_bytes())
    }

    /// What counts of it; empty where it has no hooks.
    pub(super) fn shown(&self) -> String {
        if self.table.is_empty() { String::new() } else { self.hashed.clone() }
    }

    fn hooks(&self, file: &Path, notices: &mut Vec<Notice>) -> Result<ReadHooks, Trouble> {
        let hooks = self.table.read(false).with_context(|| file.display().to_string())?;
        notices.extend(hooks.notices.iter().map(|notice| Notice::new(format!("{}: {notice}", file.display()))));
        Ok(hooks)
    }
}
