//! The configuration: what is said in it, read strictly, and what it changes. [`layers`] is where it comes from,
//! [`trust`] whether what a repository says counts.

pub mod layers;
pub mod trust;

use crate::hooks::HookTable;
use piton_core::compact;
use piton_core::limits::{CallsTaken, DenialsCounted, OnEmpty, OnLength, OnUnknown, Policy, StepsCounted};
use piton_core::permission::{Action, NotARule, Rule};
use piton_core::preset::PRESETS;
use piton_core::progress::Stuck;
use piton_core::retry::{BackoffBy, RetryPolicy};
use piton_models::options::Options;
use piton_models::provider;
use piton_models::text_tools;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The format of configuration files that this version of Piton knows.
pub const FORMAT: u32 = 1;

/// What the file says. Everything is optional; what is not said is left as it is.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The format of the file, 1. Only needed once there are others.
    pub version: Option<u32>,
    /// The model to ask, as `provider/name`.
    pub model: Option<String>,
    /// The preset whose rules the rest of this changes.
    pub preset: Option<String>,
    /// Limits of one turn.
    #[serde(default)]
    pub limits: Limits,
    /// What the loop does at its forks.
    #[serde(default, rename = "loop")]
    pub forks: Forks,
    /// Patience with a provider that fails.
    #[serde(default)]
    pub retry: Retry,
    /// How providers are talked to.
    #[serde(default)]
    pub http: Http,
    /// Providers, known ones and servers of one's own, by the name that stands before the slash of `model`.
    #[serde(default)]
    pub providers: BTreeMap<String, Server>,
    /// What is done about calls in a model's text, by `provider` or `provider/name`; the whole name wins.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    pub text_tools: BTreeMap<String, text_tools::Mode>,
    /// What is set about the answers of every model.
    #[serde(default)]
    pub options: Options,
    /// What is set about the answers of one, by its name as `provider/name`.
    #[serde(default)]
    pub models: BTreeMap<String, Options>,
    /// Environment variables with keys that tools' processes see all the same.
    #[serde(default)]
    pub keys_for_tools: Vec<String>,
    /// When and how room is made in the context.
    #[serde(default)]
    pub compaction: Compaction,
    /// Where spans of turns are sent.
    #[serde(default)]
    pub otel: Otel,
    /// Who names sessions.
    #[serde(default)]
    pub titles: Titles,
    /// Commands that run at points of the loop, by event: the shape of Claude Code's `hooks`.
    #[serde(default)]
    pub hooks: HookTable,
    /// What is taken over from Claude Code.
    #[serde(default)]
    pub claude: Claude,
    /// What must pass before a turn ends.
    #[serde(default)]
    pub check: Checks,
    /// What the model is told besides the conversation.
    #[serde(default)]
    pub context: ContextTable,
    /// What to do with calls of a tool: `bash = "allow"`. `*` is every tool.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ActionWord>")]
    pub permission: BTreeMap<String, Action>,
}

/// [`Action`] as it stands in the file, for the schema.
#[derive(JsonSchema)]
#[schemars(rename = "Action", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is wanted; piton-core knows nothing of schemas")]
enum ActionWord {
    /// Run it without asking.
    Allow,
    /// Ask a person each time; without one, refuse.
    Ask,
    /// Never run it.
    Deny,
}

/// The `[limits]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Model replies.
    pub max_steps: Option<u32>,
    /// Tokens, input and output together.
    pub max_tokens: Option<u64>,
    /// US dollars.
    pub max_cost: Option<f64>,
    /// Seconds.
    pub max_time: Option<u64>,
    /// Model replies of any kind, where `max_steps` does not count them all.
    pub max_replies: Option<u32>,
    /// Tool calls in one reply that are run.
    pub max_calls: Option<usize>,
    /// Refused calls in a row that end the turn; 0: it goes on whatever is refused.
    pub max_denials: Option<u32>,
    /// Identical calls in a row that count as going round in circles; 0: none do.
    pub max_repeats: Option<u32>,
}

/// The `[loop]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forks {
    /// Which replies count as steps: `all` or `without_calls`.
    #[schemars(with = "Option<String>")]
    pub steps_counted: Option<StepsCounted>,
    /// Which calls of a reply are taken up: `all` or `first`.
    #[schemars(with = "Option<String>")]
    pub calls_taken: Option<CallsTaken>,
    /// Which refusals count: `all` or `questions`.
    #[schemars(with = "Option<String>")]
    pub denials_counted: Option<DenialsCounted>,
    /// What follows a reply that was cut: `go_on`, `end`, or `compact`: make room where the window is full, else go on.
    #[schemars(with = "Option<String>")]
    pub on_length: Option<OnLength>,
    /// What follows a reply that ended for no reason that is known: `go_on` or `end`.
    #[schemars(with = "Option<String>")]
    pub on_unknown: Option<OnUnknown>,
    /// What follows an empty reply: `ask_again` or `accept`.
    #[schemars(with = "Option<String>")]
    pub on_empty: Option<OnEmpty>,
    /// What follows calls that go round in circles: `ask` or `end`.
    #[schemars(with = "Option<String>")]
    pub on_repeats: Option<Stuck>,
}

/// The `[retry]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Retries of one model call; 0 for none.
    pub times: Option<u32>,
    /// Seconds before the first retry; each further wait is twice as long.
    pub first_wait: Option<f64>,
    /// Seconds; no wait is longer, unless the provider asks for it.
    pub longest_wait: Option<f64>,
    /// Failed model calls that end the turn, whichever step they belong to; 0: only `times` counts.
    pub max_failures: Option<u32>,
    /// What makes waits longer: the failures of the same `call`, or of the `turn`.
    #[schemars(with = "Option<String>")]
    pub backoff_by: Option<BackoffBy>,
}

/// The `[http]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Seconds a connection may take to be made.
    pub connect_timeout: Option<f64>,
    /// Seconds a provider may be silent, before its answer and within it; then the call is made again.
    pub stall_timeout: Option<f64>,
    /// Seconds an answer may consist of keep-alives; then the call is made again.
    pub keep_alive_timeout: Option<f64>,
    /// The proxy, as a URL, instead of the one that the environment names. Empty: none.
    pub proxy: Option<String>,
    /// Hosts that are talked to without it, separated by commas.
    pub no_proxy: Option<String>,
    /// A file of certificates (PEM) to trust besides those of the machine.
    pub ca_file: Option<String>,
}

/// The `[compaction]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compaction {
    /// Whether it happens by itself when the context is full.
    pub auto: Option<bool>,
    /// Tokens of the window that are kept free.
    pub reserve: Option<u64>,
    /// Tokens of the newest steps that stay word for word.
    pub keep: Option<u64>,
    /// Whether old tool outputs are cleared first.
    pub prune: Option<bool>,
    /// Who writes the summary, as `provider/name`. Without one, the session's own model.
    pub model: Option<String>,
}

/// The `[claude]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claude {
    /// Whether the hooks of its settings run too: of `~/.claude/settings.json`, and of the repository's
    /// `.claude/settings.json` where it is trusted.
    #[serde(default)]
    pub hooks: bool,
}

/// The `[check]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// Commands for `sh`, each of which must pass.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Seconds that each may take; 600 where nothing is said.
    pub timeout: Option<f64>,
    /// How often each sends the model back to work in one turn; 3 where nothing is said.
    pub rounds: Option<usize>,
}

/// The `[otel]` table. OpenTelemetry's own variables win over it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otel {
    /// The address of a collector that takes OTLP as JSON over HTTP; `/v1/traces` is added.
    pub endpoint: Option<String>,
    /// Headers of every request to it.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// The `[titles]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Titles {
    /// The small model that names a session after its first turn, as `provider/name`. Without one, no model is asked.
    pub model: Option<String>,
}

/// The `[context]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Context")]
pub struct ContextTable {
    /// Whether instruction files (AGENTS.md, PITON.md, CLAUDE.md, GEMINI.md) are read; they are if nothing is said.
    pub instructions: Option<bool>,
}

/// A `[providers.NAME]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// What it speaks. Only a server of one's own has to say so, and where it is.
    pub protocol: Option<Protocol>,
    /// Where it is.
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    pub key_variable: Option<String>,
    /// A command that prints its key.
    pub key_command: Option<String>,
    /// A file of certificates (PEM) to trust besides those of the machine.
    pub ca_file: Option<String>,
    /// How patient one is with it, where that differs from `[retry]`.
    #[serde(default)]
    pub retry: Retry,
    /// What is set about the answers of its models.
    #[serde(default)]
    pub options: Options,
}

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// Ollama's own.
    Ollama,
}

/// Why a text is not a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not TOML of this shape; names line and field.
    #[error("{error}{hint}")]
    Shape {
        /// What TOML's reader says.
        error: toml::de::Error,
        /// The word that was meant, if one is much like it.
        hint: String,
    },
    /// It is in a format that a later version of Piton has made.
    #[error(
        "it is in format {found}, made for a newer Piton; this one knows {FORMAT}. Update Piton, or take `version` and what is \
         new out of it"
    )]
    Newer {
        /// The format it says it has.
        found: i64,
    },
    /// Two of its values contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// An option makes no sense.
    #[error("{key} in [{table}] must be {what}")]
    Option {
        /// The option.
        key: &'static str,
        /// Where it stands.
        table: String,
        /// What it must be.
        what: &'static str,
    },
    /// A key of `[permission]` is no tool's name.
    #[error("in [permission]")]
    Rule(#[from] NotARule),
    /// A number makes no sense.
    #[error("{0} must be a number above 0")]
    Number(&'static str),
    /// There is no such preset.
    #[error(transparent)]
    Preset(#[from] NoPreset),
}

/// A word that names no preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{said}`; there are {}", names())]
pub struct NoPreset {
    /// The word.
    pub said: String,
}

fn names() -> String {
    PRESETS.map(|preset| preset.name).join(", ")
}

/// The rules of this preset; of the default one where none is named.
pub fn preset(said: Option<&str>) -> Result<Policy, NoPreset> {
    let said = said.unwrap_or(PRESETS[0].name);
    Policy::preset(said).ok_or_else(|| NoPreset { said: said.to_owned() })
}

impl Config {
    /// Reads the text of a configuration file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        match toml::from_str::<Self>(text) {
            Ok(config) => config.checked(),
            // What is not known here may be known to the version that wrote it.
            Err(error) => Err(toml::from_str(text)
                .ok()
                .and_then(|table| newer(&table))
                .unwrap_or_else(|| ConfigError::shape(error))),
        }
    }

    /// The same, from what was read as TOML before.
    pub fn of_table(table: toml::Table) -> Result<Self, ConfigError> {
        match newer(&table) {
            None => table.try_into::<Self>().map_err(ConfigError::shape)?.checked(),
            Some(newer) => Err(newer),
        }
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let config = self;
        if let Some(found) = config.version.filter(|version| *version > FORMAT) {
            return Err(ConfigError::Newer { found: found.into() });
        }
        for (tool, action) in &config.permission {
            Rule::parse(tool, *action)?;
        }
        preset(config.preset.as_deref())?;
        for retry in std::iter::once(&config.retry).chain(config.providers.values().map(|server| &server.retry)) {
            retry.check()?;
        }
        let Http { connect_timeout, stall_timeout, keep_alive_timeout, .. } = config.http;
        let numbers = [
            ("max_cost in [limits]", config.limits.max_cost),
            ("timeout in [check]", config.check.timeout),
            ("connect_timeout in [http]", connect_timeout),
            ("stall_timeout in [http]", stall_timeout),
            ("keep_alive_timeout in [http]", keep_alive_timeout),
        ];
        match numbers.iter().find(|(_, number)| number.is_some_and(|number| !number.is_finite() || number <= 0.0)) {
            Some((name, _)) => Err(ConfigError::Number(name)),
            None => config.with_sound_options(),
        }
    }

    /// What is done about calls in the text of this model, where anything is said of it.
    pub fn text_tools_of(&self, provider: &str, model: &str) -> Option<text_tools::Mode> {
        let whole = self.text_tools.get(&format!("{provider}/{model}"));
        whole.or_else(|| self.text_tools.get(provider)).copied()
    }

    fn with_sound_options(self) -> Result<Self, ConfigError> {
        let everywhere = std::iter::once(("options".to_owned(), &self.options));
        let of_providers =
            self.providers.iter().map(|(name, server)| (format!("providers.{name}.options"), &server.options));
        let of_models = self.models.iter().map(|(name, options)| (format!("models.{name:?}"), options));
        for (table, options) in everywhere.chain(of_providers).chain(of_models) {
            if let Some((key, what)) = options.mistake() {
                return Err(ConfigError::Option { key, table, what });
            }
        }
        Ok(self)
    }

    /// What is set about a model's answers: for it, else for its provider, else for all.
    pub fn options(&self, provider: &str, model: &str) -> Options {
        let own = self.models.get(&format!("{provider}/{model}")).cloned().unwrap_or_default();
        let of_provider = self.providers.get(provider).map(|server| server.options.clone()).unwrap_or_default();
        own.or(&of_provider).or(&self.options)
    }

    /// The patience with a provider: what is said of it, else what is said of all, else what the table of providers knows,
    /// else that of `general`. A preset that somebody chose is not changed by the table.
    pub fn retry_of(&self, provider: &str, general: &Policy) -> RetryPolicy {
        let mut policy = general.retry.clone();
        let known = provider::find(provider).filter(|_| general.preset == Policy::piton().preset);
        if let Some(patience) = known.and_then(|known| known.patience) {
            policy.per_call = Some(patience.times);
            (policy.first_ms, policy.cap_ms) = (patience.first_ms, patience.longest_ms);
            policy.cap_answered_ms = patience.longest_ms;
        }
        self.retry.apply(&mut policy);
        self.providers.get(provider).map(|server| server.retry.apply(&mut policy)).unwrap_or_default();
        policy
    }

    /// Changes a policy to what the file says. `*` comes first, so that a tool's own rule wins.
    pub fn apply(&self, policy: &mut Policy) {
        let limits = &self.limits;
        policy.max_steps = limits.max_steps.or(policy.max_steps);
        policy.budget.tokens = limits.max_tokens.or(policy.budget.tokens);
        policy.budget.cost_micros = limits.max_cost.map(|usd| (usd * 1e6).round() as u64).or(policy.budget.cost_micros);
        policy.budget.wall_clock_ms = limits.max_time.map(|s| s.saturating_mul(1000)).or(policy.budget.wall_clock_ms);
        policy.max_replies = limits.max_replies.or(policy.max_replies);
        policy.max_calls_per_step = limits.max_calls.unwrap_or(policy.max_calls_per_step);
        policy.no_progress.repeats = limits.max_repeats.unwrap_or(policy.no_progress.repeats);
        if let Some(most) = limits.max_denials {
            policy.max_denials_in_a_row = Some(most).filter(|most| *most > 0);
        }
        self.forks.apply(policy);
        self.compaction.apply(&mut policy.compaction);
        self.retry.apply(&mut policy.retry);
        for (tool, action) in &self.permission {
            policy.permission.push(tool.clone(), *action);
        }
    }
}

impl Forks {
    fn apply(&self, policy: &mut Policy) {
        policy.steps_counted = self.steps_counted.unwrap_or(policy.steps_counted);
        policy.calls_taken = self.calls_taken.unwrap_or(policy.calls_taken);
        policy.denials_counted = self.denials_counted.unwrap_or(policy.denials_counted);
        policy.on_length = self.on_length.unwrap_or(policy.on_length);
        policy.on_unknown = self.on_unknown.unwrap_or(policy.on_unknown);
        policy.on_empty = self.on_empty.unwrap_or(policy.on_empty);
        policy.no_progress.then = self.on_repeats.unwrap_or(policy.no_progress.then);
    }
}

impl Compaction {
    fn apply(&self, rules: &mut compact::Compaction) {
        rules.auto = self.auto.unwrap_or(rules.auto);
        rules.prune.on = self.prune.unwrap_or(rules.prune.on);
        if let Some(reserve) = self.reserve {
            *rules = rules.clone().with_reserve(reserve);
        }
        if let Some(tokens) = self.keep {
            rules.keep = compact::Keep::Tokens { tokens, most_percent: 50 };
        }
    }
}

impl Retry {
    /// Changes a policy to what this says.
    fn apply(&self, policy: &mut RetryPolicy) {
        if let Some(most) = self.max_failures {
            policy.per_turn = Some(most).filter(|most| *most > 0);
        }
        policy.backoff_by = self.backoff_by.unwrap_or(policy.backoff_by);
        policy.per_call = self.times.or(policy.per_call);
        policy.first_ms = self.first_wait.map_or(policy.first_ms, milliseconds);
        if let Some(longest) = self.longest_wait.map(milliseconds) {
            (policy.cap_ms, policy.cap_answered_ms) = (longest, longest);
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let waits = [("first_wait in [retry]", self.first_wait), ("longest_wait in [retry]", self.longest_wait)];
        let is_odd = |wait: Option<f64>| wait.is_some_and(|seconds| !seconds.is_finite() || seconds <= 0.0);
        if let Some((name, _)) = waits.into_iter().find(|(_, wait)| is_odd(*wait)) {
            return Err(ConfigError::Number(name));
        }
        match self.first_wait.zip(self.longest_wait) {
            Some((first, longest)) if first > longest => {
                Err(ConfigError::Contradiction("first_wait in [retry] is longer than longest_wait"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn newer(table: &toml::Table) -> Option<ConfigError> {
    let found = table.get("version")?.as_integer()?;
    (found > FORMAT.into()).then_some(ConfigError::Newer { found })
}

impl ConfigError {
    fn shape(error: toml::de::Error) -> Self {
        let hint = meant(error.message()).map(|word| format!("did you mean `{word}`?")).unwrap_or_default();
        Self::Shape { error, hint }
    }
}

/// The word that was meant, in a message of the form "unknown field `modle`, expected one of `model`, `limits`".
fn meant(message: &str) -> Option<&str> {
    let mut words = message.split('`').skip(1).step_by(2);
    let said = words.next()?;
    nearest(said, words)
}

/// The word that is most like the one that was said, if one is much like it.
pub fn nearest<'w>(said: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    /// Below this, words have little in common.
    const MUCH_LIKE: f64 = 0.8;
    let likeness = |word: &'w str| (strsim::jaro_winkler(said, word), word);
    let best = words.into_iter().map(likeness).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= MUCH_LIKE).map(|(_, word)| word)
}

/// Seconds as milliseconds, at least one.
pub fn milliseconds(seconds: f64) -> u64 {
    ((seconds * 1000.0).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_only_what_it_wants_to_change() {
        let config = Config::parse(
            "model = \"a/b\"\n[limits]\nmax_steps = 7\n[permission]\nbash = \"allow\"\n\"*\" = \"deny\"\n",
        );
        let config = config.expect("a valid file");
        let mut policy = Policy::piton();
        config.apply(&mut policy);
        assert_eq!(policy.max_steps, Some(7));
        let class = piton_core::call::ToolClass::Opaque;
        assert_eq!(policy.permission.judge("bash", class), Action::Allow);
        assert_eq!(policy.permission.judge("edit", class), Action::Deny);
    }

    #[test]
    fn a_preset_is_where_the_rest_of_a_file_begins() {
        let config = Config::parse(
            "preset = \"pulse\"\n[limits]\nmax_denials = 0\nmax_repeats = 5\n[loop]\non_length = \"end\"\n\
             [retry]\nmax_failures = 7\n",
        )
        .expect("a valid file");
        let mut policy = preset(config.preset.as_deref()).expect("a preset");
        config.apply(&mut policy);
        assert_eq!((policy.preset.as_str(), policy.max_steps), ("pulse", Some(500)));
        assert_eq!((policy.max_denials_in_a_row, policy.no_progress.repeats), (None, 5));
        assert_eq!((policy.on_length, policy.retry.per_turn), (OnLength::End, Some(7)));
        let error = Config::parse("preset = \"plus\"").expect_err("no preset").to_string();
        assert!(error.contains("`plus`") && error.contains("piton, neovate, pulse"), "{error}");
    }

    #[test]
    fn what_is_said_of_one_model_wins_over_what_is_said_of_its_provider() {
        let config =
            Config::parse("[text_tools]\nmine = \"use_tool\"\n\"mine/a/b:1\" = \"hermes:first\"\n").expect("valid");
        let mode = |text: &str| Some(text.parse::<text_tools::Mode>().expect("a mode"));
        assert_eq!(config.text_tools_of("mine", "a/b:1"), mode("hermes:first"));
        assert_eq!(config.text_tools_of("mine", "other"), mode("use_tool"));
        assert_eq!(config.text_tools_of("ollama", "other"), None);
        let error = Config::parse("[text_tools]\nmine = \"xml\"").expect_err("no way to call tools").to_string();
        assert!(error.contains("line 2") && error.contains("use_tool, hermes"), "{error}");
    }

    #[test]
    fn garbage_is_named_with_its_line() {
        let error = Config::parse("model = \"a/b\"\nmodle = 3\n").expect_err("an unknown key").to_string();
        assert!(error.contains("line 2") && error.contains("modle"), "{error}");
        assert!(Config::parse("[permission]\n\"bash(x)\" = \"allow\"").is_err());
        assert!(Config::parse("[limits]\nmax_cost = -1.0").is_err());
        let error = Config::parse("[http]\nstall_timeout = 0").expect_err("no time at all").to_string();
        assert_eq!(error, "stall_timeout in [http] must be a number above 0");
        assert!(Config::parse("\u{0}\u{1}").is_err());
    }

    #[test]
    fn a_word_that_is_nearly_right_is_answered_with_the_right_one() {
        let said = |text: &str| Config::parse(text).expect_err("a mistake").to_string();
        for (text, meant) in [
            ("modle = 3", "did you mean `model`?"),
            ("[providers.openai]\nbaseurl = \"x\"", "did you mean `base_url`?"),
            ("[options]\neffort = \"hihg\"", "did you mean `high`?"),
            ("[models.\"a/b\"]\ntemprature = 1", "did you mean `temperature`?"),
        ] {
            assert!(said(text).ends_with(meant), "{}", said(text));
        }
        assert!(!said("xyz = 3").contains("did you mean"));
        let error = said("[providers.openai.options]\ntemperature = 7");
        assert_eq!(error, "temperature in [providers.openai.options] must be a number from 0 to 2");
        let error = said("[models.\"a/b\"]\neffort = \"low\"\nthinking_budget = 9");
        assert!(error.starts_with("thinking_budget in [models.\"a/b\"] must be left out"), "{error}");
    }

    #[test]
    fn options_of_a_model_come_before_its_providers_and_those_before_everybodys() {
        let config = Config::parse(
            "[options]\ntemperature = 1.0\nmax_output = 1\neffort = \"low\"\n\
             [providers.a.options]\nmax_output = 2\neffort = \"high\"\n[models.\"a/b\"]\neffort = \"max\"\n",
        );
        let config = config.expect("a valid file");
        let seen = |provider, model| {
            let options = config.options(provider, model);
            (options.temperature, options.max_output, options.effort)
        };
        use piton_models::options::Effort;
        assert_eq!(seen("a", "b"), (Some(1.0), Some(2), Some(Effort::Max)));
        assert_eq!(seen("a", "c"), (Some(1.0), Some(2), Some(Effort::High)));
        assert_eq!(seen("c", "b"), (Some(1.0), Some(1), Some(Effort::Low)));
    }
}
