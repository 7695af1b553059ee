//! Settings, assembled: from what a machine has, a workspace and a client's wishes to the [`Settings`] of a session.
//!
//! ```text
//!   Machine, workspace, Wishes ─► sources (layers) ─► policy ─► models (server, keys, cloud) ─► hooks ─► Settings, notices
//! ```
//!
//! Every face uses it: the binary, a server, an editor's agent. Nothing here reads the environment or argv (the [`Machine`]
//! holds what was read), and nothing prints: what a person should know is a [`Notice`].

pub mod catalogue;
pub mod cloud;
pub mod environment;
pub mod keys;
pub mod secrets;
pub mod server;
pub mod sources;

pub(crate) mod error;
pub(crate) mod hooks;
pub(crate) mod machine;
pub(crate) mod models;
pub(crate) mod notice;
pub(crate) mod trouble;
pub(crate) mod wishes;

pub use error::AssembleError;
pub use machine::Machine;
pub use notice::Notice;
pub use trouble::Trouble;
pub use wishes::Wishes;

use crate::config::{Config, preset};
use crate::context::{self, Instructions};
use crate::engine::{Attendance, Engine, Settings};
use models::{Answers, Source};
use piton_core::permission::{Action, Rule, Rules};
use piton_core::policy::Policy;
use piton_models::model::{Model, Nobody};
use piton_models::recorded::Recorder;
use piton_models::text_tools;
use piton_tools::runner::RunnerCommand;
use piton_tools::snapshot::{self, Snapshots};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trouble::Context;

/// The settings of a session. The models are those that were wished, else those that the session had, else the configured
/// ones, else one that can be found.
pub async fn settings(
    machine: &Machine,
    workspace: &Path,
    mut wishes: Wishes,
    notices: &mut Vec<Notice>,
) -> Result<Settings, AssembleError> {
    let config = sources::of_session(machine, workspace, &wishes, notices)?;
    let mut policy = policy(&config, wishes.yes)?;
    let said = wishes.model.as_deref().or(wishes.had.as_deref()).or(config.model.as_deref());
    let by_preset = text_tools::Mode::of_policy(&policy);
    let answers = Answers { options: wishes.answers.clone(), text_tools: wishes.text_tools, by_preset };
    let source = Source { config: &config, machine, cassettes: wishes.cassettes };
    let mut models = source.all(said, &answers, notices).await?;
    if let Some(tape) = &wishes.tape {
        models = models.into_iter().map(|model| taped(model, tape)).collect::<Result<_, _>>()?;
    }
    be_patient(&mut policy, &models, &config);
    let has_no_price = |model: &&Arc<dyn Model>| model.price().is_none();
    if let Some(model) = models.iter().find(has_no_price).filter(|_| policy.budget.cost_micros.is_some()) {
        return Err(AssembleError::NoPrice { model: model.name().to_owned() });
    }
    let mut settings = bare(models.remove(0), machine, workspace);
    // What a client wants of answers is meant for the session's own models.
    let mut helper = |said: &Option<String>| {
        said.as_deref().map(|said| source.named(said, &Answers::default(), notices)).transpose()
    };
    (settings.titles, settings.compaction_model) = (helper(&config.titles.model)?, helper(&config.compaction.model)?);
    settings.fallbacks = models;
    settings.policy = policy;
    settings.env = Arc::new(environment(&settings, &config, machine));
    settings.tool_limits = config.tool_limits();
    settings.hooks = hooks::hooks(&mut wishes, &config, &settings.env, machine, workspace, notices)?;
    settings.instructions = instructions(&config, machine);
    Ok(settings)
}

/// The rules of a turn: those of the preset, changed by the configuration. `yes` answers every question; what is forbidden
/// stays forbidden.
pub fn policy(config: &Config, yes: bool) -> Result<Policy, AssembleError> {
    let mut policy = preset(config.preset.as_deref())?;
    config.apply(&mut policy);
    if yes {
        let mut answered = Rules::default();
        answered.push("*", Action::Allow);
        answered.0.extend(policy.permission.0.into_iter().map(|rule| match rule.action {
            Action::Ask => Rule { action: Action::Allow, ..rule },
            Action::Allow | Action::Deny => rule,
        }));
        policy.permission = answered;
    }
    Ok(policy)
}

/// Settings with the default limits, nobody to ask.
pub fn bare(model: Arc<dyn Model>, machine: &Machine, workspace: &Path) -> Settings {
    let mut settings = Settings::new(model);
    settings.attendance = Attendance::Unattended;
    settings.runner = Some(RunnerCommand { program: machine.exe.clone(), args: vec![OsString::from("runner")] });
    settings.env = Arc::new(environment::for_tools(&machine.vars, &Config::default()));
    settings.shares_runtime = false;
    settings.snapshots = snapshots(machine, workspace);
    settings.environment_note = Some(context::environment_note(workspace, &machine.today));
    settings
}

/// Settings for a session that is only maintained: no model is asked.
pub fn for_upkeep(model: &str, machine: &Machine, workspace: &Path) -> Settings {
    let model = Arc::new(Nobody { name: model.split(',').next().unwrap_or_default().to_owned() });
    bare(model, machine, workspace)
}

/// Where instruction files are looked for, unless the configuration says that none are read.
pub fn instructions(config: &Config, machine: &Machine) -> Option<Instructions> {
    config.context.instructions.unwrap_or(true).then(|| Instructions {
        global_dir: machine.config_file.parent().map(Path::to_path_buf),
        home: machine.var("HOME").map(PathBuf::from),
        window_tokens: None,
    })
}

/// Where snapshots of the workspace are kept. A place that cannot be used only means that there is no undo, and the first
/// snapshot says so.
fn snapshots(machine: &Machine, workspace: &Path) -> Option<Arc<Snapshots>> {
    let paths = machine.vars.get(OsStr::new("PATH"))?;
    let git = std::env::split_paths(paths).map(|dir| dir.join("git")).find(|git| git.is_absolute() && git.is_file());
    let options = snapshot::Options { git, left_out: vec![machine.data_dir.clone()] };
    Engine::open(&machine.data_dir).snapshots(workspace, options).ok().map(Arc::new)
}

/// The model with its replies recorded.
fn taped(model: Arc<dyn Model>, tape: &File) -> Result<Arc<dyn Model>, Trouble> {
    let tape = tape.try_clone().context("cannot record the replies")?;
    Ok(Arc::new(Recorder::new(model, tape)))
}

/// Takes over how patient one is with each provider.
fn be_patient(policy: &mut Policy, models: &[Arc<dyn Model>], config: &Config) {
    for provider in models.iter().map(|model| provider_of(&**model)) {
        let patience = config.retry_of(provider, policy);
        if patience != policy.retry.usual {
            policy.retry.of_provider.insert(provider.to_owned(), patience);
        }
    }
}

/// What tools see of the environment: not the keys that are in use either.
fn environment(
    settings: &Settings,
    config: &Config,
    machine: &Machine,
) -> std::collections::BTreeMap<OsString, OsString> {
    let mut env = environment::for_tools(&machine.vars, config);
    let asked = std::iter::once(&settings.model).chain(&settings.fallbacks).chain(&settings.titles);
    for model in asked.chain(&settings.compaction_model) {
        let variable = keys::variable(provider_of(&**model), config, machine);
        if let Some(variable) = variable.filter(|variable| !config.keys_for_tools.contains(variable)) {
            env.remove(OsStr::new(&variable));
        }
    }
    env
}

/// The provider of a model, by the model's name.
fn provider_of(model: &dyn Model) -> &str {
    model.name().split('/').next().unwrap_or_default()
}
