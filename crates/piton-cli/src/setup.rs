//! From what was said to what it means: which model, which rules, which settings.

use crate::cli::RunArgs;
use crate::surroundings::Surroundings;
use anyhow::{Context, bail};
use piton_core::limits::Policy;
use piton_core::permission::{Action, Rule, Rules};
use piton_engine::config::{Config, Protocol, Server, milliseconds};
use piton_engine::context;
use piton_engine::engine::{Attendance, Settings};
use piton_models::http::HttpOptions;
use piton_models::model::Model;
use piton_models::provider::{self, PROBE_MS, PROVIDERS, Provider, ProviderSpec};
use piton_models::recorded::{Recorded, Recorder};
use piton_tools::runner::RunnerCommand;
use piton_tools::tool::ToolSet;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The configuration file, or the defaults where there is none.
pub(crate) fn config(around: &Surroundings) -> anyhow::Result<Config> {
    let path = &around.config_file;
    match std::fs::read_to_string(path) {
        Ok(text) => parsed(&text).with_context(|| format!("{} is not a valid configuration", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn parsed(text: &str) -> anyhow::Result<Config> {
    let config = Config::parse(text)?;
    config.permission.keys().try_for_each(|tool| known_tool(tool))?;
    Ok(config)
}

/// Everything a session needs besides its task. The models are those that were named (`a/x,b/y`: b/y where a/x gives no
/// reply), else those that the session had before, else the configured ones, else one that can be found.
pub(crate) async fn settings(
    args: &RunArgs,
    had: Option<&str>,
    around: &Surroundings,
    workspace: &Path,
) -> anyhow::Result<Settings> {
    let config = config(around)?;
    let said = args.model.as_deref().or(had).or(config.model.as_deref());
    let http = http_options(&config, around);
    let mut models = match said {
        Some(said) => {
            said.split(',').map(|said| named_model(said.trim(), &config, around, &http)).collect::<Result<_, _>>()?
        }
        None => vec![find_model(around, &http).await?],
    };
    if let Some(path) = &args.record {
        let is_used = std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
        anyhow::ensure!(!is_used || had.is_some(), "{} is not empty; record to a new file", path.display());
        let tape = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let tape = tape.with_context(|| format!("cannot record to {}", path.display()))?;
        for model in &mut models {
            let tape = tape.try_clone().with_context(|| format!("cannot record to {}", path.display()))?;
            *model = Arc::new(Recorder::new(Arc::clone(model), tape));
        }
    }
    let policy = policy(args, &config)?;
    let has_no_price = |model: &&Arc<dyn Model>| model.price().is_none() && !is_free(model.name());
    if let Some(model) = models.iter().find(has_no_price).filter(|_| policy.budget.cost_micros.is_some()) {
        bail!(
            "the price of {} is not known here, so a limit in dollars cannot be kept. Limit the tokens instead, with \
             --max-tokens, or take max_cost out",
            model.name()
        );
    }
    let mut settings = bare_settings(models.remove(0), around, workspace);
    let titles = config.titles.model.as_deref().map(|said| named_model(said, &config, around, &http));
    settings.titles = titles.transpose().context("in [titles] of the configuration")?;
    settings.fallbacks = models;
    settings.policy = policy;
    Ok(settings)
}

/// Whether a model costs nothing by its nature: a server of this machine, or a recording.
fn is_free(model: &str) -> bool {
    let provider = model.split('/').next().unwrap_or_default();
    provider == "recorded" || local_providers().any(|local| local.name == provider)
}

/// Settings with the default limits, nobody to ask.
pub(crate) fn bare_settings(model: Arc<dyn Model>, around: &Surroundings, workspace: &Path) -> Settings {
    let mut settings = Settings::new(model);
    settings.attendance = Attendance::Unattended;
    settings.runner = Some(RunnerCommand { program: around.exe.clone(), args: vec![OsString::from("runner")] });
    settings.env = Arc::new(tool_environment(&around.vars));
    settings.shares_runtime = false;
    settings.environment_note = Some(context::environment_note(workspace, &around.today));
    settings
}

/// What tools' processes see of our environment: all but keys. Those are the variables in which providers have theirs,
/// and every other whose name ends in `_API_KEY`. `GITHUB_TOKEN` stays: git and gh are what agents work with.
pub(crate) fn tool_environment(vars: &BTreeMap<OsString, OsString>) -> BTreeMap<OsString, OsString> {
    let is_key = |name: &OsStr| (is_of_provider(name) && name != "GITHUB_TOKEN") || has_ending(name, &["_API_KEY"]);
    vars.iter().filter(|(name, _)| !is_key(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The values of our environment that nobody else should read: keys, and whatever is named like one.
pub(crate) fn secrets(vars: &BTreeMap<OsString, OsString>) -> Vec<String> {
    let endings = ["_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY", "_PRIVATE_KEY"];
    let is_secret = |name: &OsStr| is_of_provider(name) || has_ending(name, &endings);
    vars.iter().filter(|(name, _)| is_secret(name)).filter_map(|(_, value)| value.to_str().map(str::to_owned)).collect()
}

/// Whether a provider has its key in this variable.
fn is_of_provider(name: &OsStr) -> bool {
    PROVIDERS.iter().flat_map(|provider| provider.key_variables).any(|key| name == *key)
}

fn has_ending(name: &OsStr, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}

fn policy(args: &RunArgs, config: &Config) -> anyhow::Result<Policy> {
    let mut policy = Policy::piton();
    config.apply(&mut policy);
    if args.yes {
        policy.permission = without_questions(policy.permission);
    }
    for (rules, action) in [(&args.allow, Action::Allow), (&args.deny, Action::Deny)] {
        for rule in rules {
            let rule = Rule::parse(rule, action)?;
            known_tool(&rule.tool)?;
            policy.permission.0.push(rule);
        }
    }
    policy.max_steps = args.max_steps.or(policy.max_steps);
    let budget = &mut policy.budget;
    budget.tokens = args.max_tokens.or(budget.tokens);
    if let Some(usd) = args.max_cost {
        anyhow::ensure!(usd.is_finite() && usd > 0.0, "--max-cost must be more than 0");
        budget.cost_micros = Some((usd * 1e6).round() as u64);
    }
    budget.wall_clock_ms = args.max_time.map(|seconds| seconds.saturating_mul(1000)).or(budget.wall_clock_ms);
    Ok(policy)
}

/// A rule for a tool that does not exist is a mistake that would pass unnoticed.
fn known_tool(name: &str) -> anyhow::Result<()> {
    let specs = ToolSet::builtin().specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let is_known = name == "*" || names.contains(&name);
    anyhow::ensure!(is_known, "there is no tool `{name}` to make a rule for; there are {}", names.join(", "));
    Ok(())
}

/// The same rules with every question answered by yes. What they forbid stays forbidden.
fn without_questions(rules: Rules) -> Rules {
    let mut answered = Rules::default();
    answered.push("*", Action::Allow);
    answered.0.extend(rules.0.into_iter().map(|rule| match rule.action {
        Action::Ask => Rule { action: Action::Allow, ..rule },
        Action::Allow | Action::Deny => rule,
    }));
    answered
}

/// The model of this name.
fn named_model(
    said: &str,
    config: &Config,
    around: &Surroundings,
    http: &HttpOptions,
) -> anyhow::Result<Arc<dyn Model>> {
    let (name, model) = match said.split_once('/') {
        Some((name, model)) => (name, Some(model.to_owned())),
        None => (said, None),
    };
    if name == "recorded" {
        let path = model.context("name a cassette as recorded/FILE")?;
        if path == crate::demo::CASSETTE_NAME {
            return Ok(Arc::new(crate::demo::cassette()?));
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read the cassette {path}"))?;
        let cassette = Recorded::parse(&text).with_context(|| path.clone())?;
        return Ok(Arc::new(cassette.named(format!("recorded/{path}"))));
    }
    let spec = match config.providers.get(name) {
        Some(server) => own_server(name, model, server, around)?,
        None => spec(name, model, around),
    };
    Ok(provider::open(&spec, http)?)
}

/// A server that the configuration describes.
fn own_server(
    name: &str,
    model: Option<String>,
    server: &Server,
    around: &Surroundings,
) -> anyhow::Result<ProviderSpec> {
    let provider = match server.protocol {
        Protocol::Chat => "openai-chat",
        Protocol::Responses => "openai-responses",
        Protocol::Anthropic => "anthropic",
        Protocol::Gemini => "google",
        Protocol::Ollama => "ollama-native",
    };
    let by_variable = server.key_variable.as_deref().and_then(|variable| around.var(variable)).map(str::to_owned);
    let key = match (by_variable, &server.key_command) {
        (None, Some(command)) => Some(printed_key(name, command)?),
        (key, _) => key,
    };
    anyhow::ensure!(
        model.as_deref().is_some_and(|model| !model.is_empty()),
        "which model of {name}? name one as {name}/MODEL"
    );
    let base_url = Some(server.base_url.clone());
    Ok(ProviderSpec { provider: provider.to_owned(), model, base_url, key, label: Some(name.to_owned()) })
}

/// The key that a command prints.
fn printed_key(name: &str, command: &str) -> anyhow::Result<String> {
    let output = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run the key_command of {name}"))?;
    anyhow::ensure!(output.status.success(), "the key_command of {name} failed ({})", output.status);
    let key = String::from_utf8(output.stdout).ok().map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    key.with_context(|| format!("the key_command of {name} printed no key"))
}

/// What the environment says about a provider.
pub(crate) fn spec(name: &str, model: Option<String>, around: &Surroundings) -> ProviderSpec {
    let known = provider::find(name);
    let base_url = known.and_then(|known| known.base_url_variable).and_then(|variable| around.var(variable));
    // A key goes to the server it is for: the provider's own, or one that was named on purpose.
    let known = known.filter(|known| known.needs_key || base_url.is_some());
    let key = known.and_then(|known| known.key_variables.iter().find_map(|variable| around.var(variable)));
    ProviderSpec {
        provider: name.to_owned(),
        model,
        base_url: base_url.map(str::to_owned),
        key: key.map(str::to_owned),
        label: None,
    }
}

/// How providers are talked to: by the configuration, and through the proxy that the environment names, except for
/// servers of this machine.
pub(crate) fn http_options(config: &Config, around: &Surroundings) -> HttpOptions {
    let default = HttpOptions::default();
    let any = |names: &[&str]| names.iter().find_map(|name| around.var(name)).map(str::to_owned);
    let own = any(&["NO_PROXY", "no_proxy"]).map(|hosts| format!(",{hosts}")).unwrap_or_default();
    HttpOptions {
        connect_timeout_ms: config.http.connect_timeout.map_or(default.connect_timeout_ms, milliseconds),
        stall_ms: config.http.stall_timeout.map_or(default.stall_ms, milliseconds),
        proxy: any(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
        no_proxy: Some(format!("localhost,127.0.0.1,::1{own}")),
        ..default
    }
}

/// How a server of this machine that may not be there is talked to.
pub(crate) fn probe_options() -> HttpOptions {
    HttpOptions { connect_timeout_ms: PROBE_MS, stall_ms: PROBE_MS, ..HttpOptions::default() }
}

/// The servers of this machine that need no key.
pub(crate) fn local_providers() -> impl Iterator<Item = &'static Provider> {
    PROVIDERS.iter().filter(|provider| provider.key_variables.is_empty() && provider.base_url.contains("127.0.0.1"))
}

/// The first provider with a key, else the first local server that answers.
async fn find_model(around: &Surroundings, http: &HttpOptions) -> anyhow::Result<Arc<dyn Model>> {
    let keyed = ["anthropic", "openai", "openrouter"];
    for name in keyed {
        let spec = spec(name, None, around);
        if spec.key.is_some() {
            return Ok(provider::open(&spec, http)?);
        }
    }
    for local in local_providers() {
        let mut spec = spec(local.name, None, around);
        let Ok(models) = provider::list_models(&spec, &probe_options()).await else { continue };
        let Some(first) = models.first() else { continue };
        spec.model = Some(first.id.clone());
        return Ok(provider::open(&spec, http)?);
    }
    bail!(NO_MODEL)
}

const NO_MODEL: &str = "\
there is no model to ask yet. Any one of these will do:

  export ANTHROPIC_API_KEY=…       a key for Anthropic
  export OPENAI_API_KEY=…          a key for OpenAI
  export OPENROUTER_API_KEY=…      a key for OpenRouter
  ollama serve                     a local server (Ollama, LM Studio, llama.cpp or vLLM)
  OPENAI_BASE_URL=http://… piton run --model openai-chat/NAME …    any compatible server

To see Piton work without any of them:  piton demo";

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn around(vars: &[(&str, &str)]) -> Surroundings {
        Surroundings {
            vars: vars.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            exe: PathBuf::new(),
            data_dir: PathBuf::new(),
            config_file: PathBuf::new(),
            temp_dir: PathBuf::new(),
            stdin_is_terminal: false,
            stderr_is_terminal: false,
            today: String::new(),
        }
    }

    #[test]
    fn a_key_goes_only_to_the_server_it_is_for() {
        let keyed = around(&[("OPENAI_API_KEY", "sk-1")]);
        assert_eq!(spec("openai", None, &keyed).key.as_deref(), Some("sk-1"));
        assert_eq!(spec("openai-chat", None, &keyed).key, None, "whoever listens on this machine is not OpenAI");
        assert!(local_providers().all(|local| spec(local.name, None, &keyed).key.is_none()));
        let named = around(&[("OPENAI_API_KEY", "sk-1"), ("OPENAI_BASE_URL", "http://my.server/v1")]);
        assert_eq!(spec("openai-chat", None, &named).key.as_deref(), Some("sk-1"));
    }

    #[test]
    fn tools_see_the_environment_without_keys() {
        let vars = [("PATH", "/bin"), ("ANTHROPIC_API_KEY", "1"), ("SOME_API_KEY", "2"), ("EDITOR", "vi")];
        let seen = tool_environment(&around(&vars).vars);
        assert_eq!(seen.keys().collect::<Vec<_>>(), ["EDITOR", "PATH"]);
    }
}
