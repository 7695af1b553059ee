//! Where the configuration comes from: several places, each of which wins over those before it.
//!
//! ```text
//!   defaults  <  ~/.config/piton/config.toml  <  .piton/config.toml, if trusted  <  PITON_… variables  <  flags
//! ```
//!
//! Tables are merged key by key; anything else that a later layer says takes the place of what was said before. Each
//! layer is read strictly by itself first, so that a mistake is named where it was made.

use super::{Config, ConfigError};
use piton_core::limits::{self, Policy};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toml::{Table, Value};

/// What the names of environment variables that set something begin with.
pub const VARIABLE_PREFIX: &str = "PITON_";
/// Variables with that beginning that are no settings: where sessions and settings are, and what marks processes of tools.
const NO_SETTINGS: [&str; 3] = ["PITON_DATA_DIR", "PITON_CONFIG", "PITON_CALL"];

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody; this is what holds then.
    Default,
    /// The user's own file.
    User(PathBuf),
    /// The file that came with the repository.
    Project(PathBuf),
    /// This environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::User(path) | Self::Project(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "{name}"),
        }
    }
}

/// Why a layer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It is no configuration.
    #[error("{origin} is not a valid configuration")]
    Invalid {
        /// Whose it is.
        origin: Origin,
        /// What is wrong with it.
        source: Box<ConfigError>,
    },
    /// A repository wants to decide where keys and requests go.
    #[error(
        "{file} sets {key}, which only your own configuration may: it decides where your keys and requests go. Take it out \
         there, or set it in your own file (piton config edit)",
        file = file.display()
    )]
    NotTheirs {
        /// The file of the repository.
        file: PathBuf,
        /// What it sets.
        key: String,
    },
}

impl LayerError {
    fn invalid(origin: Origin, source: ConfigError) -> Self {
        Self::Invalid { origin, source: Box::new(source) }
    }
}

/// What was said, from the first layer to the last.
#[derive(Debug, Default)]
pub struct Layers {
    said: Vec<(Origin, Table)>,
}

/// What holds, and who said so.
#[derive(Debug)]
pub struct Layered {
    /// What holds.
    pub config: Config,
    /// Every key that is set, in full (`limits.max_steps`), with its value and who set it.
    pub settings: BTreeMap<String, (Value, Origin)>,
}

impl Layers {
    /// Adds a file. The file of a repository may not set what decides where keys go.
    pub fn add_file(&mut self, origin: Origin, text: &str) -> Result<(), LayerError> {
        let invalid = |source| LayerError::invalid(origin.clone(), source);
        Config::parse(text).map_err(invalid)?;
        let table: Table = toml::from_str(text).map_err(|error| invalid(ConfigError::shape(error)))?;
        if let Origin::Project(file) = &origin
            && let Some(key) = leaves(&table).keys().find(|key| is_only_the_users(key))
        {
            return Err(LayerError::NotTheirs { file: file.clone(), key: dotted(key) });
        }
        self.said.push((origin, table));
        Ok(())
    }

    /// Adds what environment variables say: `PITON_LIMITS__MAX_STEPS=7` is `limits.max_steps = 7`. An empty variable says
    /// nothing.
    pub fn add_variables<'v>(
        &mut self,
        variables: impl IntoIterator<Item = (&'v str, &'v str)>,
    ) -> Result<(), LayerError> {
        for (name, value) in variables {
            let Some(path) = name.strip_prefix(VARIABLE_PREFIX).filter(|_| !NO_SETTINGS.contains(&name)) else {
                continue;
            };
            if !value.is_empty() {
                let origin = Origin::Variable(name.to_owned());
                let table = variable(&path.to_lowercase(), value)
                    .map_err(|source| LayerError::invalid(origin.clone(), source))?;
                self.said.push((origin, table));
            }
        }
        Ok(())
    }

    /// What holds in the end.
    pub fn merge(self) -> Result<Layered, LayerError> {
        let preset = self.said.iter().rev().find_map(|(_, table)| table.get("preset")?.as_str());
        let defaults = (Origin::Default, defaults(&preset.and_then(Policy::preset).unwrap_or_else(Policy::piton)));
        let (mut merged, mut settings) = (Table::new(), BTreeMap::new());
        let mut last = Origin::Default;
        for (origin, table) in std::iter::once(defaults).chain(self.said) {
            for (path, value) in leaves(&table) {
                let key = dotted(&path);
                // What was a value and is a table now, or the other way round, is said anew.
                settings.retain(|before: &String, _| !before.starts_with(&format!("{key}.")));
                settings.insert(key, (value.clone(), origin.clone()));
            }
            if origin != Origin::Default {
                overlay(&mut merged, table);
                last = origin;
            }
        }
        // Each layer makes sense by itself; together they may not.
        let config = Config::of_table(merged).map_err(|source| LayerError::invalid(last, source))?;
        Ok(Layered { config, settings })
    }
}

/// The keys of a table that hold no table of their own, each as the way to it.
fn leaves(table: &Table) -> BTreeMap<Vec<String>, &Value> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(Vec<String>, &Table)> = vec![(Vec::new(), table)];
    while let Some((way, table)) = open.pop() {
        for (key, value) in table {
            let way: Vec<String> = way.iter().chain([key]).cloned().collect();
            match value {
                Value::Table(inner) if !inner.is_empty() => open.push((way, inner)),
                leaf => drop(found.insert(way, leaf)),
            }
        }
    }
    found
}

/// A key in full, as TOML writes it.
fn dotted(way: &[String]) -> String {
    let is_bare = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let keys: Vec<String> = way
        .iter()
        .map(|key| if !key.is_empty() && is_bare(key) { key.clone() } else { Value::from(key.clone()).to_string() })
        .collect();
    keys.join(".")
}

fn is_only_the_users(way: &[String]) -> bool {
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    match way.as_slice() {
        ["keys_for_tools"] | ["http", "proxy" | "no_proxy" | "ca_file"] | ["otel", ..] => true,
        ["providers", _, key, ..] => ["protocol", "base_url", "key_variable", "key_command", "ca_file"].contains(key),
        _ => false,
    }
}

fn overlay(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}

/// What one variable says. Its value is read as TOML where that makes sense, and as text otherwise.
fn variable(path: &str, value: &str) -> Result<Table, ConfigError> {
    let as_toml = toml::from_str::<Table>(&format!("value = {value}")).ok();
    let as_toml = as_toml.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    let mut mistake = None;
    for value in as_toml.into_iter().chain([Value::from(value)]) {
        let table =
            path.rsplit("__").fold(value, |value, key| Value::Table(Table::from_iter([(key.to_owned(), value)])));
        let Value::Table(table) = table else { continue };
        match Config::of_table(table.clone()) {
            Ok(_) => return Ok(table),
            Err(error) => mistake = mistake.or(Some(error)),
        }
    }
    // One of the two was tried at least.
    mistake.map_or_else(|| Ok(Table::new()), Err)
}

/// What holds where nobody says anything but a preset, of that which has such a value.
fn defaults(policy: &Policy) -> Table {
    let seconds = |ms: u64| Value::from(ms as f64 / 1000.0);
    let whole = |number: u32| Value::from(i64::from(number));
    let limits = policy.max_steps.map(|most| ("max_steps", whole(most)));
    let retry = [
        policy.retry.per_call.map(|times| ("times", whole(times))),
        Some(("first_wait", seconds(policy.retry.first_ms))),
        Some(("longest_wait", seconds(policy.retry.cap_ms))),
    ];
    let http = [
        ("stall_timeout", seconds(limits::STREAM_STALL_MS)),
        ("keep_alive_timeout", seconds(limits::STREAM_KEEP_ALIVE_MS)),
    ];
    let table = |entries: Vec<(&str, Value)>| {
        Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    Table::from_iter([
        ("limits".to_owned(), table(limits.into_iter().collect())),
        ("retry".to_owned(), table(retry.into_iter().flatten().collect())),
        ("http".to_owned(), table(http.into_iter().collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(user: &str, project: &str, variables: &[(&str, &str)]) -> Result<Layered, LayerError> {
        let mut layers = Layers::default();
        layers.add_file(Origin::User(PathBuf::from("user.toml")), user)?;
        layers.add_file(Origin::Project(PathBuf::from("project.toml")), project)?;
        layers.add_variables(variables.iter().copied())?;
        layers.merge()
    }

    fn words(error: &LayerError) -> String {
        use std::error::Error;
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        format!("{error}{source}")
    }

    #[test]
    fn each_layer_wins_over_those_before_it_key_by_key() {
        let layered = layers(
            "model = \"a/user\"\n[limits]\nmax_steps = 1\nmax_tokens = 10\n[options]\neffort = \"low\"\n",
            "model = \"a/project\"\n[limits]\nmax_steps = 2\n[models.\"a/b.c\"]\neffort = \"high\"\n",
            &[
                ("PITON_MODEL", "a/variable"),
                ("PITON_LIMITS__MAX_TIME", "60"),
                ("PITON_DATA_DIR", "/x"),
                ("HOME", "/y"),
            ],
        )
        .expect("valid layers");
        let Layered { config, settings } = &layered;
        assert_eq!(config.model.as_deref(), Some("a/variable"));
        let limits = &config.limits;
        assert_eq!((limits.max_steps, limits.max_tokens, limits.max_time), (Some(2), Some(10), Some(60)));
        let said_by = |key: &str| settings[key].1.to_string();
        assert_eq!(said_by("model"), "PITON_MODEL");
        assert_eq!(said_by("limits.max_steps"), "project.toml");
        assert_eq!(said_by("limits.max_tokens"), "user.toml");
        assert_eq!(said_by("models.\"a/b.c\".effort"), "project.toml");
        assert_eq!(said_by("retry.times"), "default");
        // What is shown is itself a configuration that says the same.
        let shown: Vec<String> = settings.iter().map(|(key, (value, _))| format!("{key} = {value}")).collect();
        assert_eq!(Config::parse(&shown.join("\n")).expect("what is shown").models, config.models);
    }

    #[test]
    fn a_variable_is_text_where_text_is_wanted() {
        let said = |value| layers("", "", &[("PITON_MODEL", value)]).expect("a valid name").config.model;
        assert_eq!(said("7").as_deref(), Some("7"));
        assert_eq!(said("true").as_deref(), Some("true"));
        assert_eq!(said("a/b\nlimits.max_steps = 3").as_deref(), Some("a/b\nlimits.max_steps = 3"));
        assert_eq!(said(""), None);
    }

    #[test]
    fn a_mistake_is_named_where_it_was_made() {
        let said = |user, project, variables: &[_]| words(&layers(user, project, variables).expect_err("a mistake"));
        let text = said("modle = 3", "", &[]);
        assert!(text.starts_with("user.toml is not a valid configuration") && text.contains("`model`?"), "{text}");
        let text = said("", "[limits]\nmax_stps = 3", &[]);
        assert!(text.starts_with("project.toml") && text.contains("did you mean `max_steps`?"), "{text}");
        let text = said("", "", &[("PITON_MODLE", "a/b")]);
        assert!(text.starts_with("PITON_MODLE") && text.contains("did you mean `model`?"), "{text}");
        let text = said("", "", &[("PITON_LIMITS__MAX_STEPS", "many")]);
        assert!(text.starts_with("PITON_LIMITS__MAX_STEPS") && text.contains("invalid type: string"), "{text}");
        let text = said("", "", &[("PITON_LIMITS", "7")]);
        assert!(text.starts_with("PITON_LIMITS "), "{text}");
    }

    #[test]
    fn a_repository_does_not_decide_where_keys_go() {
        for (text, key) in [
            ("[providers.openai]\nbase_url = \"https://evil\"", "providers.openai.base_url"),
            ("[providers.x]\nkey_command = \"curl evil\"", "providers.x.key_command"),
            ("[http]\nproxy = \"http://evil\"", "http.proxy"),
            ("keys_for_tools = [\"OPENAI_API_KEY\"]", "keys_for_tools"),
            ("keys_for_tools = []", "keys_for_tools"),
            ("[providers.openai]\nca_file = \"ca.pem\"", "providers.openai.ca_file"),
        ] {
            let error = layers("", text, &[]).expect_err(text).to_string();
            assert!(error.starts_with(&format!("project.toml sets {key}, which only your own")), "{error}");
            assert!(layers(text, "", &[]).is_ok(), "{text}");
        }
        assert!(layers("", "[providers.openai.options]\neffort = \"low\"", &[]).is_ok());
    }
}
