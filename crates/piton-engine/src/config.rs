//! The configuration file: what is said in it, read strictly, and what it changes.

use piton_core::limits::Policy;
use piton_core::permission::{Action, NotARule, Rule};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the file says. Everything is optional; what is not said is left as it is.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The model to ask, as `provider/name`.
    pub model: Option<String>,
    /// Limits of one turn.
    #[serde(default)]
    pub limits: Limits,
    /// Patience with a provider that fails.
    #[serde(default)]
    pub retry: Retry,
    /// How providers are talked to.
    #[serde(default)]
    pub http: Http,
    /// Servers of one's own, by the name that stands before the slash of `model`.
    #[serde(default)]
    pub providers: BTreeMap<String, Server>,
    /// Who names sessions.
    #[serde(default)]
    pub titles: Titles,
    /// What to do with calls of a tool: `bash = "allow"`. `*` is every tool.
    #[serde(default)]
    pub permission: BTreeMap<String, Action>,
}

/// The `[limits]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
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
}

/// The `[retry]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Retries of one model call; 0 for none.
    pub times: Option<u32>,
    /// Seconds before the first retry; each further wait is twice as long.
    pub first_wait: Option<f64>,
    /// Seconds; no wait is longer, unless the provider asks for it.
    pub longest_wait: Option<f64>,
}

/// The `[http]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Seconds a connection may take to be made.
    pub connect_timeout: Option<f64>,
    /// Seconds a provider may be silent, before its answer and within it; then the call is made again.
    pub stall_timeout: Option<f64>,
}

/// The `[titles]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Titles {
    /// The small model that names a session after its first turn, as `provider/name`. Without one, no model is asked.
    pub model: Option<String>,
}

/// A `[providers.NAME]` table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it is.
    pub base_url: String,
    /// The environment variable that holds its key.
    pub key_variable: Option<String>,
    /// A command that prints its key.
    pub key_command: Option<String>,
}

/// What a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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
    #[error(transparent)]
    Shape(#[from] toml::de::Error),
    /// A key of `[permission]` is no tool's name.
    #[error("in [permission]")]
    Rule(#[from] NotARule),
    /// A number makes no sense.
    #[error("{0} must be a number above 0")]
    Number(&'static str),
}

impl Config {
    /// Reads the text of a configuration file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)?;
        for (tool, action) in &config.permission {
            Rule::parse(tool, *action)?;
        }
        let Retry { first_wait, longest_wait, .. } = config.retry;
        let Http { connect_timeout, stall_timeout } = config.http;
        let numbers = [
            ("max_cost in [limits]", config.limits.max_cost),
            ("first_wait in [retry]", first_wait),
            ("longest_wait in [retry]", longest_wait),
            ("connect_timeout in [http]", connect_timeout),
            ("stall_timeout in [http]", stall_timeout),
        ];
        match numbers.iter().find(|(_, number)| number.is_some_and(|number| !number.is_finite() || number <= 0.0)) {
            Some((name, _)) => Err(ConfigError::Number(name)),
            None => Ok(config),
        }
    }

    /// Changes a policy to what the file says. `*` comes first, so that a tool's own rule wins.
    pub fn apply(&self, policy: &mut Policy) {
        let limits = &self.limits;
        policy.max_steps = limits.max_steps.or(policy.max_steps);
        policy.budget.tokens = limits.max_tokens.or(policy.budget.tokens);
        policy.budget.cost_micros = limits.max_cost.map(|usd| (usd * 1e6).round() as u64).or(policy.budget.cost_micros);
        policy.budget.wall_clock_ms = limits.max_time.map(|s| s.saturating_mul(1000)).or(policy.budget.wall_clock_ms);
        policy.retry.per_call = self.retry.times.or(policy.retry.per_call);
        policy.retry.first_ms = self.retry.first_wait.map_or(policy.retry.first_ms, milliseconds);
        if let Some(longest) = self.retry.longest_wait.map(milliseconds) {
            (policy.retry.cap_ms, policy.retry.cap_answered_ms) = (longest, longest);
        }
        for (tool, action) in &self.permission {
            policy.permission.push(tool.clone(), *action);
        }
    }
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
    fn garbage_is_named_with_its_line() {
        let error = Config::parse("model = \"a/b\"\nmodle = 3\n").expect_err("an unknown key").to_string();
        assert!(error.contains("line 2") && error.contains("modle"), "{error}");
        assert!(Config::parse("[permission]\n\"bash(x)\" = \"allow\"").is_err());
        assert!(Config::parse("[limits]\nmax_cost = -1.0").is_err());
        let error = Config::parse("[http]\nstall_timeout = 0").expect_err("no time at all").to_string();
        assert_eq!(error, "stall_timeout in [http] must be a number above 0");
        assert!(Config::parse("\u{0}\u{1}").is_err());
    }
}
