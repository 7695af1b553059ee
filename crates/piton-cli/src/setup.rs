//! From what was said to what it means: which model, which rules, which settings.

pub(crate) mod cloud;
pub(crate) mod hooks;
pub(crate) mod keys;

use crate::cli::RunArgs;
use crate::commands::config;
use crate::out::view;
use crate::surroundings::Surroundings;
use anyhow::{Context, bail};
use piton_core::permission::{Action, Rule, Rules};
use piton_core::policy::Policy;
use piton_engine::config::{Config, Protocol, Server, milliseconds, preset};
use piton_engine::context::{self, Instructions};
use piton_engine::engine::{Attendance, Engine, Settings};
use piton_http::{HttpOptions, Proxies, Roots};
use piton_models::model::{Model, Nobody};
use piton_models::options::Options;
use piton_models::provider::{self, OpenError, PROBE_MS, PROVIDERS, Provider, ProviderSpec};
use piton_models::recorded::{Recorded, Recorder};
use piton_models::text_tools;
use piton_tools::runner::RunnerCommand;
use piton_tools::snapshot::{self, Snapshots};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything a session needs besides its task. The models are those that were named (`a/x,b/y`: b/y where a/x gives no
/// reply), else those that the session had before, else the configured ones, else one that can be found.
pub(crate) async fn settings(
    args: &RunArgs,
    had: Option<&str>,
    around: &Surroundings,
    workspace: &Path,
) -> anyhow::Result<Settings> {
    let config = config::of_run(around, workspace, args)?;
    // Before anybody is asked anything.
    hooks::schema(args)?;
    let said = args.model.as_deref().or(had).or(config.model.as_deref());
    let mut policy = policy(args, &config)?;
    let by_preset = text_tools::Mode::of_policy(&policy);
    let answers = Answers { options: said_options(args), text_tools: args.text_tools, by_preset };
    let mut models = match said {
        Some(said) => {
            said.split(',').map(|said| named_model(said.trim(), &answers, &config, around)).collect::<Result<_, _>>()?
        }
        None => vec![find_model(&answers, &config, around).await?],
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
    for provider in models.iter().map(|model| provider_of(&**model)) {
        let patience = config.retry_of(provider, &policy);
        if patience != policy.retry.usual {
            policy.retry.of_provider.insert(provider.to_owned(), patience);
        }
    }
    let has_no_price = |model: &&Arc<dyn Model>| model.price().is_none();
    if let Some(model) = models.iter().find(has_no_price).filter(|_| policy.budget.cost_micros.is_some()) {
        bail!(
            "the price of {0} is not known here, so a limit in dollars cannot be kept. Say it, as price = {{ input = …, \
             output = … }} in [models.\"{0}\"] of the configuration; or limit the tokens instead, with --max-tokens",
            model.name()
        );
    }
    let mut settings = bare_settings(models.remove(0), around, workspace);
    // What the command line sets is meant for the answers.
    let plain = Answers { options: Options::default(), text_tools: None, by_preset: None };
    let titles = config.titles.model.as_deref().map(|said| named_model(said, &plain, &config, around));
    settings.titles = titles.transpose().context("in [titles] of the configuration")?;
    let summaries = config.compaction.model.as_deref().map(|said| named_model(said, &plain, &config, around));
    settings.compaction_model = summaries.transpose().context("in [compaction] of the configuration")?;
    settings.fallbacks = models;
    settings.policy = policy;
    let mut env = tool_environment(&around.vars, &config);
    let asked = std::iter::once(&settings.model).chain(&settings.fallbacks).chain(&settings.titles);
    let asked = asked.chain(&settings.compaction_model);
    for variable in asked.flat_map(|model| keys::variable(provider_of(&**model), &config, around)) {
        if !config.keys_for_tools.contains(&variable) {
            env.remove(OsStr::new(&variable));
        }
    }
    settings.env = Arc::new(env);
    settings.tool_limits = config.tool_limits();
    settings.hooks = hooks::hooks(args, &config, &settings.env, around, workspace)?;
    settings.instructions = instructions(args.no_instructions, &config, around);
    Ok(settings)
}

/// The provider of a model, by the model's name.
fn provider_of(model: &dyn Model) -> &str {
    model.name().split('/').next().unwrap_or_default()
}

/// Where instruction files are looked for, unless nobody wants them.
pub(crate) fn instructions(unwanted: bool, config: &Config, around: &Surroundings) -> Option<Instructions> {
    let is_wanted = !unwanted && config.context.instructions.unwrap_or(true);
    is_wanted.then(|| Instructions {
        global_dir: around.config_file.parent().map(Path::to_path_buf),
        home: around.var("HOME").map(PathBuf::from),
        window_tokens: None,
    })
}

/// What the command line sets about the answers; it wins over what the configuration says.
struct Answers {
    options: Options,
    text_tools: Option<text_tools::Mode>,
    /// What the preset wants where nobody else says anything.
    by_preset: Option<text_tools::Mode>,
}

/// Its options.
fn said_options(args: &RunArgs) -> Options {
    let &RunArgs { temperature, max_output, effort, .. } = args;
    Options { temperature, max_output, effort, ..Options::default() }
}

/// Settings with the default limits, nobody to ask.
pub(crate) fn bare_settings(model: Arc<dyn Model>, around: &Surroundings, workspace: &Path) -> Settings {
    let mut settings = Settings::new(model);
    settings.attendance = Attendance::Unattended;
    settings.runner = Some(RunnerCommand { program: around.exe.clone(), args: vec![OsString::from("runner")] });
    settings.env = Arc::new(tool_environment(&around.vars, &Config::default()));
    settings.shares_runtime = false;
    settings.snapshots = snapshots(around, workspace);
    settings.environment_note = Some(context::environment_note(workspace, &around.today));
    settings
}

/// Settings for a session that is only looked after: no model is asked.
pub(crate) fn upkeep_settings(model: &str, around: &Surroundings, workspace: &Path) -> Settings {
    let model = Arc::new(Nobody { name: model.split(',').next().unwrap_or_default().to_owned() });
    bare_settings(model, around, workspace)
}

/// Where the workspace is put down before it is changed. A place that cannot be used only means that there is no undo,
/// and the first snapshot says so.
fn snapshots(around: &Surroundings, workspace: &Path) -> Option<Arc<Snapshots>> {
    let paths = around.vars.get(OsStr::new("PATH"))?;
    let git = std::env::split_paths(paths).map(|dir| dir.join("git")).find(|git| git.is_absolute() && git.is_file());
    let options = snapshot::Options { git, left_out: vec![around.data_dir.clone()] };
    Engine::open(&around.data_dir).snapshots(workspace, options).ok().map(Arc::new)
}

/// What tools' processes see of our environment: all but keys. Those are the variables in which providers have theirs,
/// and every other whose name ends in `_API_KEY`. `GITHUB_TOKEN` stays where it is not the key in use: git and gh are what
/// agents work with. What the configuration lists in `keys_for_tools` stays too.
pub(crate) fn tool_environment(vars: &BTreeMap<OsString, OsString>, config: &Config) -> BTreeMap<OsString, OsString> {
    let is_key =
        |name: &OsStr| (is_of_provider(name, config) && name != "GITHUB_TOKEN") || has_ending(name, &["_API_KEY"]);
    let is_granted = |name: &OsStr| config.keys_for_tools.iter().any(|granted| name == granted.as_str());
    let is_kept =
        |name: &OsStr| is_granted(name) || !(is_key(name) || CLOUD_SECRETS.iter().any(|secret| name == *secret));
    vars.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What Bedrock's requests may be signed with, what collectors of spans want to see, and keys by other names.
const CLOUD_SECRETS: [&str; 6] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    // Of other agents, for the same providers.
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
];

/// What nobody else should read: keys, wherever they are kept, and what our environment has that is named like one. A key
/// that cannot be had now is said, since it is not looked for then.
pub(crate) fn secrets(config: &Config, around: &Surroundings) -> anyhow::Result<Vec<String>> {
    let endings = ["_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_ACCESS_KEY", "_PRIVATE_KEY"];
    let is_secret = |name: &OsStr| is_of_provider(name, config) || has_ending(name, &endings);
    let vars = around.vars.iter().filter(|(name, _)| is_secret(name)).filter_map(|(_, value)| value.to_str());
    let mut secrets: Vec<String> = vars.map(str::to_owned).collect();
    for (name, key) in keys::kept_keys(config, around)? {
        match key {
            Ok(key) => secrets.push(key),
            Err(error) => {
                let why = view::clean(&format!("{error:#}"));
                view::write_stderr(&format!(
                    "note: the key of {name} is not looked for, since it cannot be had: {why}\n"
                ));
            }
        }
    }
    Ok(secrets)
}

/// Whether a provider has its key in this variable: one that is known, or one of the configuration.
fn is_of_provider(name: &OsStr, config: &Config) -> bool {
    let configured = config.providers.values().filter_map(|server| server.key_variable.as_deref());
    PROVIDERS.iter().flat_map(|provider| provider.key_variables).copied().chain(configured).any(|key| name == key)
}

fn has_ending(name: &OsStr, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}

pub(crate) fn policy(args: &RunArgs, config: &Config) -> anyhow::Result<Policy> {
    let mut policy = preset(args.preset.as_deref().or(config.preset.as_deref()))?;
    config.apply(&mut policy);
    if args.yes {
        policy.permission = without_questions(policy.permission);
    }
    for (rules, action) in [(&args.allow, Action::Allow), (&args.deny, Action::Deny)] {
        for rule in rules {
            policy.permission.0.push(Rule::parse(rule, action)?);
        }
    }
    policy.steps.max = args.max_steps.or(policy.steps.max);
    let budget = &mut policy.budget;
    budget.tokens = args.max_tokens.or(budget.tokens);
    if let Some(usd) = args.max_cost {
        budget.cost_micros = Some((usd * 1e6).round() as u64);
    }
    budget.wall_clock_ms = args.max_time.map(|seconds| seconds.saturating_mul(1000)).or(budget.wall_clock_ms);
    Ok(policy)
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
    answers: &Answers,
    config: &Config,
    around: &Surroundings,
) -> anyhow::Result<Arc<dyn Model>> {
    let (name, model) = match said.split_once('/') {
        Some((name, model)) => (name, Some(model.to_owned())),
        None => (said, None),
    };
    if name == "recorded" {
        let path = model.context("name a cassette as recorded/FILE")?;
        if path == crate::commands::demo::CASSETTE_NAME {
            return Ok(Arc::new(crate::commands::demo::cassette()?));
        }
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read the cassette {path}"))?;
        let cassette = Recorded::parse(&text).with_context(|| path.clone())?;
        return Ok(Arc::new(cassette.named(format!("recorded/{path}"))));
    }
    if config.no_such_provider(name).is_some() {
        let known = config.provider_names().join(", ");
        return Err(OpenError::UnknownProvider { name: name.to_owned(), known }.into());
    }
    open(spec(name, model, config, around)?, answers, config, around)
}

/// The model of a spec, with what was set about its answers. Says what should be known about it.
fn open(
    mut spec: ProviderSpec,
    answers: &Answers,
    config: &Config,
    around: &Surroundings,
) -> anyhow::Result<Arc<dyn Model>> {
    let name = spec.label.as_deref().unwrap_or(&spec.provider);
    let default = provider::find(&spec.provider).and_then(|known| known.default_model);
    let model = spec.model.as_deref().or(default).unwrap_or_default();
    let options = answers.options.clone().or(&config.options(name, model));
    let said = answers.text_tools.or_else(|| config.text_tools_of(name, model)).or(answers.by_preset);
    let text_tools = said.unwrap_or_default();
    let is_own = spec.label.is_some();
    anyhow::ensure!(
        !is_own || spec.model.as_deref().is_some_and(|model| !model.is_empty()),
        "which model of {name}? name one as {name}/MODEL"
    );
    let http = http_options(name, config, around)?;
    (spec.options, spec.text_tools) = (options, text_tools);
    spec.catalogue = config.known(crate::commands::models::catalogue(around), name, model);
    for line in provider::remarks(&spec) {
        view::write_stderr(&format!("note: {line}\n"));
    }
    Ok(provider::open(&spec, &http)?)
}

/// What environment and configuration say about a provider.
pub(crate) fn spec(
    name: &str,
    model: Option<String>,
    config: &Config,
    around: &Surroundings,
) -> anyhow::Result<ProviderSpec> {
    let server = config.providers.get(name);
    match server.and_then(|server| Some((server, server.protocol?))) {
        Some((server, protocol)) => own_server(name, model, (server, protocol), config, around),
        None => known_server(name, model, config, around),
    }
}

/// A server that the configuration describes.
fn own_server(
    name: &str,
    model: Option<String>,
    (server, protocol): (&Server, Protocol),
    config: &Config,
    around: &Surroundings,
) -> anyhow::Result<ProviderSpec> {
    let provider = match protocol {
        Protocol::Chat => "openai-chat",
        Protocol::Responses => "openai-responses",
        Protocol::Anthropic => "anthropic",
        Protocol::Gemini => "google",
        Protocol::Ollama => "ollama-native",
    };
    let found = keys::find(name, config, around)?;
    let renewal = found.as_ref().and_then(|(_, place)| keys::renewal(name, place, config, around));
    let (key, key_from) = found.map(|(key, place)| (key, place.to_string())).unzip();
    let base_url = server.base_url.clone();
    let label = Some(name.to_owned());
    let provider = provider.to_owned();
    Ok(ProviderSpec { provider, model, base_url, key, key_from, renewal, label, ..ProviderSpec::default() })
}

/// A provider of the table, at its own address or at another.
fn known_server(
    name: &str,
    model: Option<String>,
    config: &Config,
    around: &Surroundings,
) -> anyhow::Result<ProviderSpec> {
    let known = provider::find(name);
    let by_variable = known.and_then(|known| known.base_url_variable).and_then(|variable| around.var(variable));
    let configured = config.providers.get(name).and_then(|server| server.base_url.clone());
    let base_url = by_variable.map(str::to_owned).or(configured);
    // A key goes to the server it is for: the provider's own, or one that was named on purpose. Whoever listens on this
    // machine gets none that the environment has for others.
    let is_meant = known.is_some_and(|known| known.needs_key) || base_url.is_some();
    let found = if is_meant { keys::find(name, config, around)? } else { keys::find_its_own(name, config, around)? };
    let renewal = found.as_ref().and_then(|(_, place)| keys::renewal(name, place, config, around));
    let (key, key_from) = found.map(|(key, place)| (key, place.to_string())).unzip();
    let mut spec =
        ProviderSpec { provider: name.to_owned(), model, base_url, key, key_from, renewal, ..ProviderSpec::default() };
    if let Some(known) = known {
        crate::setup::cloud::complete(&mut spec, known, around)?;
    }
    Ok(spec)
}

/// How a provider is talked to: by the configuration, and through the proxy that it or the environment names, except
/// for servers of this machine.
pub(crate) fn http_options(name: &str, config: &Config, around: &Surroundings) -> anyhow::Result<HttpOptions> {
    let default = HttpOptions::default();
    let http = &config.http;
    let own = http.no_proxy.clone().or_else(|| any(&["NO_PROXY", "no_proxy"], around));
    let own = own.map(|hosts| format!(",{hosts}")).unwrap_or_default();
    let ca_file = config.providers.get(name).and_then(|server| server.ca_file.as_ref()).or(http.ca_file.as_ref());
    Ok(HttpOptions {
        connect_timeout_ms: http.connect_timeout.map_or(default.connect_timeout_ms, milliseconds),
        stall_ms: http.stall_timeout.map_or(default.stall_ms, milliseconds),
        keep_alive_ms: http.keep_alive_timeout.map_or(default.keep_alive_ms, milliseconds),
        proxies: proxies(config, around),
        no_proxy: Some(format!("localhost,127.0.0.1,::1{own}")),
        roots: ca_file.map(|path| certificates(path)).transpose()?.unwrap_or_default(),
        ..default
    })
}

/// The configuration's proxy is for all; the environment has one for each scheme, and one for what is left.
fn proxies(config: &Config, around: &Surroundings) -> Proxies {
    match &config.http.proxy {
        Some(none) if none.is_empty() => Proxies::default(),
        Some(proxy) => Proxies::all(proxy),
        None => Proxies {
            https: any(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"], around),
            http: any(&["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"], around),
        },
    }
}

/// The first of these variables that is set.
fn any(names: &[&str], around: &Surroundings) -> Option<String> {
    names.iter().find_map(|name| around.var(name)).map(str::to_owned)
}

fn certificates(path: &str) -> anyhow::Result<Roots> {
    let pem = std::fs::read(path).with_context(|| format!("cannot read the ca_file {path}"))?;
    Roots::parse(&pem).with_context(|| format!("the ca_file {path} holds no sound certificate in PEM form"))
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
async fn find_model(answers: &Answers, config: &Config, around: &Surroundings) -> anyhow::Result<Arc<dyn Model>> {
    let kept = keys::kept_names(around)?;
    let kept = kept.iter().map(String::as_str).filter(|name| provider::find(name).is_some_and(has_default));
    for name in ["anthropic", "openai", "openrouter"].into_iter().chain(kept) {
        let spec = spec(name, None, config, around)?;
        if spec.key.is_some() {
            return open(spec, answers, config, around);
        }
    }
    for local in local_providers() {
        let mut spec = spec(local.name, None, config, around)?;
        let Ok(models) = provider::list_models(&spec, &probe_options()).await else { continue };
        let Some(first) = models.first() else { continue };
        spec.model = Some(first.id.clone());
        spec.window_tokens = provider::window(&spec, &probe_options()).await;
        return open(spec, answers, config, around);
    }
    bail!(NO_MODEL)
}

fn has_default(provider: &Provider) -> bool {
    provider.default_model.is_some()
}

const NO_MODEL: &str = "\
there is no model to ask yet. Any one of these will do:

  piton auth login anthropic       keeps a key for Anthropic (or any other provider)
  export ANTHROPIC_API_KEY=…       a key for Anthropic
  export OPENAI_API_KEY=…          a key for OpenAI
  export OPENROUTER_API_KEY=…      a key for OpenRouter
  ollama serve                     a local server (Ollama, LM Studio, llama.cpp or vLLM)
  OPENAI_BASE_URL=http://… piton run --model openai-chat/NAME …    any compatible server

To see Piton work without any of them:  piton demo";

#[cfg(test)]
mod tests {
    use super::*;

    fn around(vars: &[(&str, &str)]) -> Surroundings {
        Surroundings {
            vars: vars.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            exe: PathBuf::new(),
            data_dir: PathBuf::new(),
            config_file: PathBuf::new(),
            config_is_named: false,
            temp_dir: PathBuf::new(),
            stdin_is_terminal: false,
            stdout_is_terminal: false,
            stderr_is_terminal: false,
            today: String::new(),
            now_ms: 0,
        }
    }

    #[test]
    fn a_key_goes_only_to_the_server_it_is_for() {
        let spec = |name: &str, around: &Surroundings| {
            super::spec(name, None, &Config::default(), around).expect("nothing can go wrong here")
        };
        let keyed = around(&[("OPENAI_API_KEY", "sk-1")]);
        assert_eq!(spec("openai", &keyed).key.as_deref(), Some("sk-1"));
        assert_eq!(spec("openai-chat", &keyed).key, None, "whoever listens on this machine is not OpenAI");
        assert!(local_providers().all(|local| spec(local.name, &keyed).key.is_none()));
        let named = around(&[("OPENAI_API_KEY", "sk-1"), ("OPENAI_BASE_URL", "http://my.server/v1")]);
        assert_eq!(spec("openai-chat", &named).key.as_deref(), Some("sk-1"));
    }

    #[test]
    fn a_server_of_this_machine_gets_the_key_that_was_named_for_it() {
        let keyed = around(&[("OPENAI_API_KEY", "sk-1"), ("MINE", "sk-2")]);
        for name in ["vllm", "llamacpp", "lmstudio", "ollama", "openai-chat"] {
            let config = Config::parse(&format!("[providers.{name}]\nkey_variable = \"MINE\"")).expect("a valid file");
            let spec = super::spec(name, None, &config, &keyed).expect("nothing can go wrong here");
            assert_eq!((spec.key.as_deref(), spec.base_url), (Some("sk-2"), None), "{name}");
        }
    }

    #[test]
    fn tools_see_the_environment_without_keys() {
        let vars = [
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "1"),
            ("SOME_API_KEY", "2"),
            ("EDITOR", "vi"),
            ("AWS_SECRET_ACCESS_KEY", "4"),
        ];
        let vars = around(&[vars.as_slice(), &[("MINE", "3")]].concat()).vars;
        let config =
            Config::parse("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"http://h\"\nkey_variable = \"MINE\"");
        let seen = tool_environment(&vars, &config.expect("a valid file"));
        assert_eq!(seen.keys().collect::<Vec<_>>(), ["EDITOR", "PATH"]);
        let granting = Config::parse("keys_for_tools = [\"SOME_API_KEY\"]").expect("a valid file");
        let seen = tool_environment(&vars, &granting);
        assert_eq!(seen.keys().collect::<Vec<_>>(), ["EDITOR", "MINE", "PATH", "SOME_API_KEY"]);
    }
}
