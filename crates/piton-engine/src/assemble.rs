//! Settings, assembled: from what a machine has, a workspace and a client's wishes to the [`Settings`] of a session.
//!
//! ```text
//!   Machine, workspace, Wishes ─► sources (layers) ─► policy ─► models (server, keys, cloud) ─► hooks ─► Settings, notices
//! ```
//!
//! Every face uses it: the binary, a server, an editor's agent. Nothing here reads the environment or argv (the [`Machine`]
//! holds what was read), and nothing prints: what a person should know is a [`Notice`].

pub mod bare;
pub mod brought;
pub mod catalogue;
pub mod cloud;
pub mod environment;
pub mod keys;
pub mod rules;
pub mod sandbox;
pub mod secrets;
pub mod server;
pub mod sources;
mod switch;

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

use crate::config::Config;
use crate::settings::{SandboxSettings, Settings};
use crate::standing::Standing;
use brought::RunTrusted;
use models::{Answers, Source};
use piton_core::configure::is_every;
use piton_core::permission::PermissionMode;
use piton_core::policy::Policy;
use piton_models::text_tools;
use piton_tools::toolset::ToolSet;
use piton_tools::web_fetch::WebFetch;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use switch::Switch;
use trouble::Context;

/// The settings of a session. The models are those that a flag sets, else those that the session had, else
/// the configured ones, else one that can be found. So it is with the permission mode and the tools, which a session has only
/// where a client changed them.
pub async fn settings(
    machine: &Machine,
    workspace: &Path,
    wishes: &Wishes,
    notices: &mut Vec<Notice>,
) -> Result<Settings, AssembleError> {
    let trusted = RunTrusted::of(machine, workspace, &wishes.trust)?;
    let config = sources::of_session(machine, workspace, wishes, trusted.as_ref(), notices)?;
    let (mut policy, sandbox) = policy(&config, machine, wishes, notices)?;
    let standing = Standing::in_folder(&machine.data_dir);
    notices.extend(standing.add_to(&mut policy.permission, workspace).err().map(Notice::new));
    let unfitted = policy.clone();
    let by_preset = text_tools::Mode::of_policy(&policy);
    let answers = Answers { options: config.answers.options(), text_tools: config.answers.text_tools, by_preset };
    let source = Source { config: &config, machine, cassettes: wishes.cassettes, tape: wishes.tape.as_ref() };
    let had = wishes.had.model.as_deref().filter(|_| !wishes.flags.iter().any(|flag| flag.sets("model")));
    let said = had.or(config.model.as_deref());
    let models = source.all(said, &answers, notices).await?;
    let (titles, summaries) = source.helpers(notices)?;
    rules::fit(&mut policy, &models, &config)?;
    let env = Arc::new(keys::left_for_tools(models.iter().chain(&titles).chain(&summaries), &config, machine));
    let all = models.iter().chain(&titles).chain(&summaries);
    let env_of_hooks = Arc::new(keys::left_for_hooks(all, &config, machine));
    let items = trusted.as_ref().map_or(&[][..], |trusted| &trusted.items);
    let hooks = hooks::hooks(wishes, (&config, items), &env_of_hooks, machine, workspace, notices)?;
    let tape = wishes.tape.as_ref().map(File::try_clone).transpose().context("cannot record the replies")?;
    let (machine_of, cassettes) = (machine.clone(), wishes.cassettes);
    let switch = Switch { machine: machine_of, answers, cassettes, tape, policy: unfitted, config: config.clone() };
    let mut models = models.into_iter();
    let first = models.next().ok_or(AssembleError::NoModel)?;
    let mut settings = bare::settings(first, machine, workspace);
    if let Some((snapshots, most)) = settings.snapshots.as_mut().and_then(Arc::get_mut).zip(config.undo.max_bytes()) {
        snapshots.set_most_bytes(most);
    }
    Ok(Settings {
        fallbacks: models.collect(),
        policy,
        sandbox,
        env,
        secrets: secrets::of_session(&config, machine, wishes, notices),
        tools: with_web(settings.tools.clone(), &config, machine)?,
        tool_limits: config.tool_limits(),
        patches: config.tools.apply_patch.unwrap_or_default(),
        takes_snapshots: config.undo.snapshots.unwrap_or(true),
        titles,
        compaction_model: summaries,
        hooks,
        instructions: sources::instructions(&config, machine),
        standing: Some(Arc::new(standing)),
        model_source: Some(Arc::new(switch)),
        ..settings
    })
}

/// No provider has this name: the web is reached by the general settings of `[http]`.
const WEB: &str = "";

/// These tools, and the one that reads the web by this machine's proxies and certificates.
pub fn with_web(tools: ToolSet, config: &Config, machine: &Machine) -> Result<ToolSet, AssembleError> {
    Ok(tools.with(Arc::new(WebFetch::new(server::http_options(WEB, config, machine)?))))
}

/// The rules of a session's turns, whatever its model, and the sandbox of its commands.
pub fn policy(
    config: &Config,
    machine: &Machine,
    wishes: &Wishes,
    notices: &mut Vec<Notice>,
) -> Result<(Policy, Option<SandboxSettings>), AssembleError> {
    let mut policy = rules::policy(config)?;
    let said = said_mode(config, wishes);
    policy.mode = said.unwrap_or_default();
    policy.calls.enabled = wishes.had.tools.clone().filter(|tools| !is_every(tools));
    let sandbox = sandbox::settings(config, machine, wishes, &mut policy, notices)?;
    if sandbox.is_some() && wishes.is_watched && said.is_none() {
        // The kernel confines what is not asked about, and undo takes it back.
        policy.mode = PermissionMode::AcceptEdits;
    }
    Ok((policy, sandbox))
}

/// The permission mode: what a flag says, else what a client has switched the session to, else the configured one.
fn said_mode(config: &Config, wishes: &Wishes) -> Option<PermissionMode> {
    let is_said = wishes.flags.iter().any(|flag| flag.sets("permission_mode"));
    let had = wishes.had.mode.filter(|_| !is_said);
    wishes.mode.or(had).or(config.permission_mode)
}
