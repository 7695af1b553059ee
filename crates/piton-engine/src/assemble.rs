//! Settings, assembled: from what a machine has, a workspace and a client's wishes to the [`Settings`] of a session.
//!
//! ```text
//!   Machine, workspace, Wishes ─► sources (layers) ─► policy ─► models (server, keys, cloud) ─► hooks ─► Settings, notices
//! ```
//!
//! Every face uses it: the binary, a server, an editor's agent. Nothing here reads the environment or argv (the [`Machine`]
//! holds what was read), and nothing prints: what a person should know is a [`Notice`].

pub mod agents;
pub(crate) mod claude;
pub mod commands;
pub mod bare;
pub mod brought;
pub mod catalogue;
pub mod cloud;
pub mod entries;
pub mod environment;
pub mod foreign;
pub mod keys;
pub mod plugins;
pub mod policy;
pub mod rules;
pub mod sandbox;
pub mod scope;
pub mod secrets;
pub mod server;
pub mod servers;
pub mod skills;
pub mod sources;
pub(crate) mod bubblewrap;
mod changed;
mod chosen;
mod switch;
#[cfg(test)]
mod tree;

pub(crate) mod error;
pub(crate) mod hooks;
pub(crate) mod jsonc;
pub(crate) mod machine;
pub(crate) mod models;
pub(crate) mod notice;
pub(crate) mod opencode;
pub(crate) mod opencode_rules;
pub(crate) mod trouble;
pub(crate) mod wishes;

pub use error::AssembleError;
pub use machine::Machine;
pub use notice::Notice;
pub use trouble::Trouble;
pub use wishes::Wishes;

use crate::agents::{AgentParts, Agents};
use crate::config::trust::{self, Item, RunTrust, repository};
use crate::config::{Config, WebSearchTable};
use crate::settings::{Displaced, PlanFolder, Sampling, SandboxSettings, Settings};
use crate::skills::Skills;
use crate::standing::Standing;
use brought::{Brought, RunTrusted};
use chosen::Chosen;
use models::{Answers, Source};
use piton_http::page::PageAddress;
use piton_models::model::Model;
use piton_models::text_tools;
use piton_tools::servers::Servers;
use piton_tools::spawn::Confinement;
use piton_tools::subagent::{Subagents, TaskOutput, TaskStop};
use piton_tools::toolset::ToolSet;
use piton_tools::web_fetch::WebFetch;
use piton_tools::web_search::{Endpoint, WebSearch};
use scope::Scope;
use std::ffi::OsStr;
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
    let scope = scoped(machine, workspace, &config, trusted.as_ref().map_or(&[], |trusted| &trusted.items), wishes)?;
    notices.extend(scope.plugins.notices());
    let skills = Arc::new(skills::of_session(&scope, notices)?);
    let agents = agents::of_session(&scope, notices)?.with_skills_of_plugins(&skills);
    let chosen = Chosen::of(&agents, &scope, &config, wishes, notices)?;
    let (mut policy, mut sandbox) = policy::of_session(&config, machine, wishes, notices)?;
    let displaced = chosen.set_mode(&mut policy, &config, wishes, sandbox.is_some());
    let standing = Standing::in_folder(&machine.data_dir);
    notices.extend(standing.add_to(&mut policy.permission, workspace).err().map(Notice::new));
    foreign::add_to(&mut policy.permission, &config, machine, workspace, notices);
    let unfitted = policy.clone();
    let by_preset = text_tools::Mode::of_policy(&policy);
    let had_effort = wishes.had.effort.filter(|_| !wishes.say_effort());
    let answers = Answers { options: config.answers.options(), text_tools: config.answers.text_tools, by_preset };
    let answers = answers.with(Sampling::effort(had_effort));
    let source = Source { config: &config, machine, cassettes: wishes.cassettes, tape: wishes.tape.as_ref() };
    let (models, displaced_models) = Box::pin(chosen.models(&source, &answers, &config, wishes, notices)).await?;
    let (titles, summaries) = source.helpers(notices)?;
    rules::fit(&mut policy, &models, &config)?;
    let all = || models.iter().chain(&titles).chain(&summaries);
    let env = Arc::new(keys::left_of(environment::for_tools, all(), &config, machine));
    let env_of_hooks = Arc::new(keys::left_of(environment::for_own_commands, all(), &config, machine));
    let hooks = hooks::hooks(wishes, &config, &env_of_hooks, &scope, notices)?;
    let tape = wishes.tape.as_ref().map(File::try_clone).transpose().context("cannot record the replies")?;
    let (machine_of, cassettes) = (machine.clone(), wishes.cassettes);
    let switch = Switch { machine: machine_of, answers, cassettes, tape, policy: unfitted, config: config.clone() };
    skills::missing(&skills, &agents, notices);
    skills::show(&skills, &scope, &mut policy.reach, sandbox.as_mut());
    let (servers, parts) = servers_of(&scope, wishes, (&config, &env_of_hooks), (&agents, sandbox.as_ref()), notices)?;
    let mut models = models.into_iter();
    let first = models.next().ok_or(AssembleError::NoModel)?;
    let settings = with_agents(bare_of(first, &config, machine, workspace), (agents, parts), (&scope, &skills));
    Ok(Settings {
        fallbacks: models.collect(),
        policy,
        sandbox,
        env,
        asks_people: wishes.asks_people,
        secrets: secrets::known_at_start(&config, machine, wishes, notices),
        tools: with_servers(
            tools_of(settings.tools.clone(), (&settings.agents, &skills), &config, machine)?,
            servers.clone(),
        ),
        commands: Some(commands::of_session(&scope, (&skills, servers), notices)?),
        skills,
        agent: chosen.agent,
        displaced: Displaced { mode: displaced, models: displaced_models },
        tool_limits: config.tool_limits(),
        after_edits: config.after_edits().0.into(),
        patches: config.tools.apply_patch.unwrap_or_default(),
        takes_snapshots: config.undo.snapshots.unwrap_or(true),
        titles,
        compaction_model: summaries,
        hooks,
        instructions: sources::instructions(&config, machine),
        standing: Some(Arc::new(standing)),
        plan_folder: Some(plan_folder(machine, workspace, wishes)),
        effort: had_effort,
        model_source: Some(Arc::new(switch)),
        ..settings
    })
}

/// The MCP servers of a session, and what its agents bring along.
fn servers_of(
    scope: &Scope,
    wishes: &Wishes,
    (config, env_of_hooks): (&Config, &hooks::Env),
    (agents, sandbox): (&Agents, Option<&SandboxSettings>),
    notices: &mut Vec<Notice>,
) -> Result<(Option<Arc<dyn Servers>>, AgentParts), Trouble> {
    let confinement = confinement_of_servers(scope, sandbox);
    let servers = servers::of_session(scope, &wishes.mcp_config, config, &confinement, notices)?;
    let known = servers.as_ref();
    let parts = agents::parts_of(agents, scope, (config, env_of_hooks), (known, &confinement), notices)?;
    Ok((servers, parts))
}

/// These settings with the agents of a session.
fn with_agents(
    settings: Settings,
    (agents, parts): (Agents, AgentParts),
    (scope, skills): (&Scope, &Arc<Skills>),
) -> Settings {
    let entries_changed = Some(changed::watched(scope, &agents, skills));
    Settings { entries_changed, agents: Arc::new(agents), agent_parts: Arc::new(parts), ..settings }
}

/// How MCP servers are confined that run in the sandbox. Each has one of its own, like that of commands.
fn confinement_of_servers(scope: &Scope, sandbox: Option<&SandboxSettings>) -> Confinement {
    let Scope { machine, workspace, .. } = scope;
    match sandbox {
        None => Confinement::Model,
        Some(sandbox) => {
            let path = machine.var("PATH").unwrap_or_default();
            sandbox.confinement(workspace, machine.data_dir.join("mcp"), OsStr::new(path), [], None)
        }
    }
}

fn with_servers(tools: ToolSet, servers: Option<Arc<dyn Servers>>) -> ToolSet {
    match servers {
        Some(servers) => tools.with_servers(servers),
        None => tools,
    }
}

/// Where a session of this client's looks for entries. What the configuration has to say of itself is not repeated here.
pub fn scope(machine: &Machine, workspace: &Path, wishes: &Wishes) -> Result<Scope, AssembleError> {
    let config = sources::of_workspace(machine, workspace, &wishes.flags, &mut Vec::new())?;
    scoped(machine, workspace, &config, &[], wishes)
}

fn scoped(
    machine: &Machine,
    workspace: &Path,
    config: &Config,
    trusted: &[Item],
    wishes: &Wishes,
) -> Result<Scope, AssembleError> {
    let scope = Scope::new(machine, workspace, config, trusted, &wishes.plugin_dirs)?;
    Ok(scope.with_agents(wishes.agents.clone()))
}

/// Settings of which only this model and the room for snapshots are said.
fn bare_of(model: Arc<dyn Model>, config: &Config, machine: &Machine, workspace: &Path) -> Settings {
    let mut settings = bare::settings(model, machine, workspace);
    settings.is_traced = config.otel.collector(|name| machine.var(name).map(str::to_owned)).is_some();
    if let Some((snapshots, most)) = settings.snapshots.as_mut().and_then(Arc::get_mut).zip(config.undo.max_bytes()) {
        snapshots.set_most_bytes(most);
    }
    settings
}

/// Where plans are kept: in the repository, where the user trusts what that brings along.
fn plan_folder(machine: &Machine, workspace: &Path, wishes: &Wishes) -> PlanFolder {
    let (machine, workspace, is_for_run) = (machine.clone(), workspace.to_owned(), wishes.trust != RunTrust::None);
    Arc::new(move || {
        let root = repository(&workspace);
        let is_trusted = || {
            let brought = Brought::look(&machine, &workspace).ok()?;
            let all = brought.items.iter().all(|brought| brought.standing == trust::Standing::Trusted);
            (all && brought.unreadable.is_empty()).then_some(())
        };
        let is_repository = root.join(".git").exists();
        (is_repository && (is_for_run || is_trusted().is_some())).then(|| root.join(".piton/plans"))
    })
}

/// These tools, those that read and, where that is configured, search the web by this machine's proxies and certificates, and those
/// that call these agents and give these skills.
pub fn tools_of(
    tools: ToolSet,
    (agents, skills): (&Agents, &Skills),
    config: &Config,
    machine: &Machine,
) -> Result<ToolSet, AssembleError> {
    let options = server::http_options(server::WEB, config, machine)?;
    let tools = tools.with(Arc::new(WebFetch::new(options.clone())));
    let tools = tools.with(Arc::new(Subagents::new(agents.subagents())));
    let tools = tools.with(Arc::new(TaskOutput)).with(Arc::new(TaskStop));
    let tools = match skills.tool() {
        Some(skills) => tools.with(Arc::new(skills)),
        None => tools,
    };
    let Some(WebSearchTable { url, headers, key_variable, private }) = config.tools.web_search.clone() else {
        return Ok(tools);
    };
    let key = |name: String| match machine.var(&name) {
        Some(key) => Ok(key.to_owned()),
        None => Err(format!("the variable {name} that [tools.web_search] names is not set")),
    };
    let is_private = private.unwrap_or_else(|| PageAddress::parse(&url).is_ok_and(|address| address.is_literal()));
    let endpoint = Endpoint { url, headers: headers.into_iter().collect(), key: key_variable.map(key), is_private };
    Ok(tools.with(Arc::new(WebSearch::new(endpoint, options))))
}
