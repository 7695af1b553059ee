//! The layers of the configuration. Each layer overrides those before it.
//!
//! ```text
//!   defaults  <  a preset of one's own  <  ~/.config/piton/config.toml  <  .piton/config.toml, if trusted  <  PITON_… variables  <  --set  <  other flags
//! ```
//!
//! A flag that is a setting by another name ([`Flag`]) is a layer like the rest. Tables are merged key by key; anything else that a later layer says takes the place of what was said before. Each
//! layer is read strictly by itself first, so that a mistake is named where it was made; what only makes no sense together
//! is named with everybody who said a part of it.

use super::check::unknown_tool;
use super::mistake::{KeyPath, Mistake, dotted, line_of};
use super::{Config, ConfigError, defaults, is_preset_file, keys};
use crate::permission::read_rule;
use piton_core::permission::{Action, Rule, Rules, Voice};
use piton_core::policy::Policy;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use toml::Table;

pub use toml::Value;

/// What the names of environment variables that set something begin with.
pub const VARIABLE_PREFIX: &str = "PITON_";
/// Variables with that beginning that are no settings: where sessions and settings are, what tools, hooks and checks are
/// told, and a name that many a build gives to the version it makes. The `version` of a file is a matter of files.
pub const NO_SETTINGS: [&str; 5] =
    ["PITON_DATA_DIR", "PITON_CONFIG", "PITON_CALL", "PITON_PROJECT_DIR", "PITON_VERSION"];

/// Who said something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyOrigin {
    /// Nobody; this is what holds then.
    Default,
    /// The file of a preset of one's own.
    Preset(PathBuf),
    /// The user's own file.
    User(PathBuf),
    /// The file that came with the repository.
    Project(PathBuf),
    /// This environment variable.
    Variable(String),
    /// This flag of the command line.
    Flag(String),
}

impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => write!(f, "default"),
            Self::Preset(path) | Self::User(path) | Self::Project(path) => write!(f, "{}", path.display()),
            Self::Variable(name) | Self::Flag(name) => write!(f, "{name}"),
        }
    }
}

/// Why a layer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It is no configuration.
    #[error("{origin} is not {}", if let KeyOrigin::Flag(_) = origin { "valid" } else { "a valid configuration" })]
    Invalid {
        /// Whose it is.
        origin: KeyOrigin,
        /// What is wrong with it.
        source: Box<ConfigError>,
    },
    /// Each layer makes sense by itself, but not with the others.
    #[error("the configuration contradicts itself: {mistake} ({})", said.join(", "))]
    Together {
        /// What is wrong.
        mistake: Mistake,
        /// The keys that it is about, each with who set it.
        said: Vec<String>,
    },
    /// A repository wants to decide what is for its user to decide: where keys and requests go, what is asked about.
    #[error(
        "{file} sets {key}, which only your own configuration may. Take it out there, or set it in your own file (piton config edit)",
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
    pub(super) fn invalid(origin: KeyOrigin, source: ConfigError) -> Self {
        Self::Invalid { origin, source: Box::new(source) }
    }

    /// Whether the command line is at fault.
    pub fn is_of_a_flag(&self) -> bool {
        matches!(self, Self::Invalid { origin: KeyOrigin::Flag(_), .. })
    }
}

/// What was said, from the first layer to the last.
#[derive(Debug, Default)]
pub struct Layers {
    said: Vec<Layer>,
    notes: Vec<String>,
}

/// What a flag of the command line sets.
#[derive(Debug, Clone, PartialEq)]
pub enum Flag {
    /// `--set KEY=VALUE`, the key in full as TOML writes it.
    Set(String),
    /// A key by another name: `--max-steps 7`.
    Key {
        /// The flag.
        flag: &'static str,
        /// The key, from its table down.
        key: &'static [&'static str],
        /// What it is set to.
        value: Value,
    },
    /// One more item of a list: `--check CMD`.
    Item {
        /// The flag.
        flag: &'static str,
        /// The key, from its table down.
        key: &'static [&'static str],
        /// What is added.
        value: Value,
    },
    /// A permission rule. Of equals it is the last; `*` takes the place of those for single tools.
    Rule {
        /// The flag.
        flag: &'static str,
        /// The rule: `bash`, `bash(git push *)`, `*`.
        tool: String,
        /// What to do with its calls.
        action: Action,
    },
}

impl Flag {
    /// Whether it sets this key, which has no table.
    pub fn sets(&self, name: &str) -> bool {
        match self {
            Self::Set(said) => said.split('=').next().is_some_and(|key| key.trim() == name),
            Self::Key { key, .. } | Self::Item { key, .. } => *key == [name],
            Self::Rule { .. } => false,
        }
    }
}

#[derive(Debug)]
struct Layer {
    origin: KeyOrigin,
    form: Form,
    table: Table,
    /// Where it can be read, line by line.
    text: Option<String>,
}

/// How a layer is laid over those below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Key by key.
    Over,
    /// Key by key, with its lists added to those below.
    Adds,
    /// In the place of every permission rule below.
    ForAllTools,
}

/// What holds, and who said so.
#[derive(Debug)]
pub struct Layered {
    /// What holds.
    pub config: Config,
    /// What a person should know about it.
    pub notes: Vec<String>,
    /// The permission rules, from the first layer to the last, each with who said it.
    pub rules: Vec<(Rule, KeyOrigin)>,
    said: Vec<Layer>,
}

/// Keys with their values, and who set them.
pub type MergedConfig = BTreeMap<String, (Value, KeyOrigin)>;

impl Layers {
    /// Adds a file. The file of a repository may not set what decides where keys go.
    pub fn add_file(&mut self, origin: KeyOrigin, text: &str) -> Result<(), LayerError> {
        let invalid = |source| LayerError::invalid(origin.clone(), source);
        Config::parse(text).map_err(invalid)?;
        let mut table: Table = toml::from_str(text).map_err(|error| invalid(ConfigError::shape(&error, &keys())))?;
        if let KeyOrigin::Project(file) = &origin
            && let Some(key) = leaves(&table).keys().find(|key| is_only_the_users(key))
        {
            return Err(LayerError::NotTheirs { file: file.clone(), key: dotted(key) });
        }
        if let KeyOrigin::Project(file) = &origin
            && table.get("preset").and_then(Value::as_str).is_some_and(is_preset_file)
        {
            // Another file, which nobody was asked about, would speak for the user.
            return Err(LayerError::NotTheirs { file: file.clone(), key: "preset (a file)".to_owned() });
        }
        if let KeyOrigin::Project(_) = origin {
            confine_hooks(&mut table);
        }
        self.said.push(Layer { origin, form: Form::Over, table, text: Some(text.to_owned()) });
        Ok(())
    }

    /// The file of the preset that was said last, where it is one of one's own.
    pub fn own_preset(&self) -> Option<&str> {
        said_preset(&self.said).filter(|said| is_preset_file(said))
    }

    /// Adds the file of that preset. Everything else that was said wins over it. It is a configuration like any other, and
    /// its own `preset` names the one that it changes.
    pub fn add_own_preset(&mut self, path: PathBuf, text: &str) -> Result<(), LayerError> {
        let (mut layers, origin) = (Self::default(), KeyOrigin::Preset(path));
        layers.add_file(origin.clone(), text)?;
        if layers.own_preset().is_some() {
            let mistake = Mistake::new(["preset"], "must be one of Piton's own: a preset changes one of those");
            return Err(LayerError::invalid(origin, ConfigError::Value { line: None, mistake }));
        }
        self.said.splice(0..0, layers.said);
        Ok(())
    }

    /// Adds what environment variables say: `PITON_LIMITS__MAX_STEPS=7` is `limits.max_steps = 7`. An empty variable says
    /// nothing. One that is like nothing there is may be somebody else's, and is only noted.
    pub fn add_variables<'v>(
        &mut self,
        variables: impl IntoIterator<Item = (&'v str, &'v str)>,
    ) -> Result<(), LayerError> {
        for (name, value) in variables {
            let Some(path) = name.strip_prefix(VARIABLE_PREFIX).filter(|_| !NO_SETTINGS.contains(&name)) else {
                continue;
            };
            if value.is_empty() {
                continue;
            }
            let path = path.to_lowercase();
            let way: KeyPath = path.split("__").map(str::to_owned).collect();
            match said_of(&way, value) {
                Ok(table) => {
                    let origin = KeyOrigin::Variable(name.to_owned());
                    self.said.push(Layer { origin, form: Form::Over, table, text: None });
                }
                Err(_) if is_somebody_elses(&path) => {
                    self.notes.push(format!("the variable {name} is no setting of Piton's, and changes nothing"));
                }
                Err(source) => return Err(LayerError::invalid(KeyOrigin::Variable(name.to_owned()), source)),
            }
        }
        Ok(())
    }

    /// Adds what a flag sets.
    pub fn add_flag(&mut self, flag: &Flag) -> Result<(), LayerError> {
        let owned = |key: &[&str]| -> KeyPath { key.iter().map(|key| (*key).to_owned()).collect() };
        let (flag, form, table) = match flag {
            Flag::Set(said) => return self.add_set(said),
            Flag::Key { flag, key, value } => (flag, Form::Over, nested(&owned(key), value.clone())),
            Flag::Item { flag, key, value } => {
                (flag, Form::Adds, nested(&owned(key), Value::Array(vec![value.clone()])))
            }
            Flag::Rule { flag, tool, action } => {
                let form = if tool == "*" { Form::ForAllTools } else { Form::Over };
                (flag, form, nested(&owned(&["permission", tool]), Value::from(action.word())))
            }
        };
        self.said.push(Layer { origin: KeyOrigin::Flag((*flag).to_owned()), form, table, text: None });
        Ok(())
    }

    fn add_set(&mut self, said: &str) -> Result<(), LayerError> {
        let key = said.split('=').next().unwrap_or_default().trim();
        let origin = KeyOrigin::Flag(format!("--set {key}"));
        let invalid = |source| LayerError::invalid(origin.clone(), source);
        let parsed = way_and_value(said).ok_or_else(|| {
            let what = "it must be KEY=VALUE, such as limits.max_steps=40 or 'models.\"a/b\".effort=low'";
            invalid(ConfigError::Shape(what.to_owned()))
        })?;
        let table = said_of(&parsed.0, parsed.1).map_err(invalid)?;
        self.said.push(Layer { origin, form: Form::Over, table, text: None });
        Ok(())
    }

    /// What holds in the end.
    pub fn merge(self) -> Result<Layered, LayerError> {
        let built_in = built_in(&self.said).unwrap_or(piton_core::preset::PRESETS[0].name).to_owned();
        let mut merged = Table::new();
        for layer in &self.said {
            layer.lay_over(&mut merged);
        }
        let last = self.said.last().map_or(KeyOrigin::Default, |layer| layer.origin.clone());
        if self.own_preset().is_some() {
            merged.insert("preset".to_owned(), Value::from(built_in));
        }
        let config = match Config::of_table(merged) {
            Ok(config) => config,
            Err(ConfigError::Value { mistake, .. }) => return Err(self.blame(mistake)),
            Err(source) => return Err(LayerError::invalid(last, source)),
        };
        if let Some(mistake) = config.mistake_in_all() {
            return Err(self.blame(mistake));
        }
        let mut notes = self.notes;
        let unknown = config.permission.keys().filter_map(|rule| Some((rule, unknown_tool(rule)?)));
        notes.extend(unknown.map(|(rule, unknown)| unknown_rule(rule, &unknown, &settings(&self.said))));
        let rules = rules(&self.said);
        let config = Config { rules: Some(Rules(rules.iter().map(|(rule, _)| rule.clone()).collect())), ..config };
        Ok(Layered { config, notes, rules, said: self.said })
    }

    /// A mistake with whoever made it.
    fn blame(&self, mistake: Mistake) -> LayerError {
        let settings = settings(&self.said);
        let said_by = |way: &KeyPath| {
            let key = dotted(way);
            let within = format!("{key}.");
            let found = settings.iter().find(|(set, _)| **set == key || set.starts_with(&within));
            found.map_or(KeyOrigin::Default, |(_, (_, origin))| origin.clone())
        };
        let line = |origin: &KeyOrigin, way: &KeyPath| {
            let text = self.said.iter().find(|layer| layer.origin == *origin)?.text.as_deref()?;
            line_of(text, way)
        };
        let origins: Vec<(&KeyPath, KeyOrigin)> = mistake.keys.iter().map(|way| (way, said_by(way))).collect();
        let mut people = origins.iter().filter(|(_, origin)| *origin != KeyOrigin::Default);
        if let Some((way, origin)) = people.next()
            && people.all(|(_, other)| other == origin)
        {
            let line = line(origin, way);
            return LayerError::invalid(origin.clone(), ConfigError::Value { line, mistake: mistake.clone() });
        }
        let said = origins.iter().map(|(way, origin)| match line(origin, way) {
            Some(line) => format!("{} by {origin}, line {line}", dotted(way)),
            None => format!("{} by {origin}", dotted(way)),
        });
        LayerError::Together { said: said.collect(), mistake }
    }
}

impl Layered {
    /// Every key that is set, in full (`limits.max_steps`), with its value and who set it.
    pub fn settings(&self) -> MergedConfig {
        settings(&self.said)
    }
}

impl Layer {
    /// Lays it over what was said before it. What it comes to there.
    fn lay_over(&self, below: &mut Table) -> Table {
        let mut table = self.table.clone();
        match self.form {
            Form::Over => {}
            Form::Adds => put_behind(below, &mut table),
            Form::ForAllTools => drop(below.remove("permission")),
        }
        overlay(below, table.clone());
        table
    }
}

/// The preset that was said last.
fn said_preset(said: &[Layer]) -> Option<&str> {
    said.iter().rev().find_map(|layer| layer.table.get("preset")?.as_str())
}

/// The preset of Piton's that holds: the one that was said last, or that the file names which was said last.
fn built_in(said: &[Layer]) -> Option<&str> {
    match said_preset(said) {
        Some(preset) if is_preset_file(preset) => {
            let own = said.iter().find(|layer| matches!(layer.origin, KeyOrigin::Preset(_)))?;
            own.table.get("preset")?.as_str()
        }
        preset => preset,
    }
}

/// Every key that is set by these layers or, where none sets it, by default.
fn settings(said: &[Layer]) -> MergedConfig {
    let policy = built_in(said).and_then(Policy::preset).unwrap_or_else(Policy::piton);
    let (mut settings, mut merged) = (MergedConfig::new(), Table::new());
    let mut set = |table: &Table, form: Form, origin: &KeyOrigin| {
        if form == Form::ForAllTools {
            settings.retain(|key, _| !key.starts_with("permission."));
        }
        for (path, value) in leaves(table) {
            let key = dotted(&path);
            // What was a value and is a table now, or the other way round, is said anew.
            settings.retain(|before: &String, _| !before.starts_with(&format!("{key}.")));
            settings.insert(key, (value.clone(), origin.clone()));
        }
    };
    set(&defaults::of(&policy), Form::Over, &KeyOrigin::Default);
    for layer in said {
        set(&layer.lay_over(&mut merged), layer.form, &layer.origin);
    }
    settings
}

/// The permission rules of all layers. They are not merged by their keys: what one voice says does not unsay another's.
fn rules(said: &[Layer]) -> Vec<(Rule, KeyOrigin)> {
    let mut rules: Vec<(Rule, KeyOrigin)> = Vec::new();
    for layer in said {
        let voice = match layer.origin {
            KeyOrigin::Project(_) => Voice::Repository,
            KeyOrigin::Preset(_) => Voice::Preset,
            KeyOrigin::Default | KeyOrigin::User(_) | KeyOrigin::Variable(_) | KeyOrigin::Flag(_) => Voice::User,
        };
        if layer.form == Form::ForAllTools {
            // What forbids some calls of a tool is not lifted by a word about all tools.
            let stays = |rule: &Rule| rule.voice != voice || rule.pattern.is_some() && rule.action == Action::Deny;
            rules.retain(|(rule, _)| stays(rule));
        }
        let table = layer.table.get("permission").and_then(Value::as_table);
        for (text, action) in table.into_iter().flatten() {
            let action = Action::ALL.into_iter().find(|known| action.as_str() == Some(known.word()));
            // Each layer was read strictly before.
            let rule = action.and_then(|action| read_rule(text, action).ok());
            let from = Some(layer.origin.to_string());
            rules.extend(rule.map(|rule| (Rule { voice, layer: from, ..rule }, layer.origin.clone())));
        }
    }
    rules
}

/// The keys of a table that hold no table of their own, each as the way to it. A table with nothing in it says nothing.
fn leaves(table: &Table) -> BTreeMap<KeyPath, &Value> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(KeyPath, &Table)> = vec![(Vec::new(), table)];
    while let Some((way, table)) = open.pop() {
        for (key, value) in table {
            let way: KeyPath = way.iter().chain([key]).cloned().collect();
            match value {
                Value::Table(inner) => open.push((way, inner)),
                leaf => drop(found.insert(way, leaf)),
            }
        }
    }
    found
}

fn is_only_the_users(way: &[String]) -> bool {
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    match way.as_slice() {
        ["keys_for_tools" | "permission_mode"]
        | ["http", "proxy" | "no_proxy" | "ca_file"]
        | ["tools", "web_search" | "format" | "diagnose", ..]
        | ["otel" | "sandbox" | "terminal", ..] => true,
        ["providers", _, key, ..] => ["protocol", "base_url", "key_variable", "key_command", "ca_file"].contains(key),
        _ => false,
    }
}

/// The hooks of a repository run in the sandbox: what they run, the model can write.
fn confine_hooks(table: &mut Table) {
    let events = table.get_mut("hooks").and_then(Value::as_table_mut);
    let groups =
        events.into_iter().flat_map(|events| events.iter_mut()).filter_map(|(_, groups)| groups.as_array_mut());
    for group in groups.flatten().filter_map(Value::as_table_mut) {
        let handlers = group.get_mut("hooks").and_then(Value::as_array_mut);
        for handler in handlers.into_iter().flatten().filter_map(Value::as_table_mut) {
            handler.insert("sandbox".to_owned(), Value::Boolean(true));
        }
        if group.contains_key("command") {
            group.insert("sandbox".to_owned(), Value::Boolean(true));
        }
    }
}

pub(super) fn overlay(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}

/// What to say about a rule for a tool that Piton does not have, with whoever made it.
fn unknown_rule(tool: &str, unknown: &str, settings: &MergedConfig) -> String {
    let key = dotted(&["permission".to_owned(), tool.to_owned()]);
    let origin = settings.get(&key).map(|(_, origin)| format!(" ({origin})")).unwrap_or_default();
    format!("{key}{origin}: {unknown}")
}

/// Puts the lists of one table behind those of another.
fn put_behind(below: &Table, above: &mut Table) {
    for (key, value) in above {
        match (below.get(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => put_behind(below, above),
            (Some(Value::Array(below)), Value::Array(above)) => {
                above.splice(0..0, below.iter().cloned());
            }
            _ => {}
        }
    }
}

/// A table in which one key is set.
fn nested(way: &[String], value: Value) -> Table {
    let (last, tables) = way.split_last().map_or((String::new(), way), |(last, tables)| (last.clone(), tables));
    let innermost = Table::from_iter([(last, value)]);
    tables.iter().rfold(innermost, |table, key| Table::from_iter([(key.clone(), Value::Table(table))]))
}

/// What is said of one key. The value is read as TOML where that makes sense, and as text otherwise.
pub(super) fn said_of(way: &[String], value: &str) -> Result<Table, ConfigError> {
    let as_toml = toml::from_str::<Table>(&format!("value = {value}")).ok();
    let as_toml = as_toml.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    let mut mistake = None;
    for value in as_toml.into_iter().chain([Value::from(value)]) {
        let table = nested(way, value);
        match Config::of_table(table.clone()) {
            Ok(_) => return Ok(table),
            // What is of the right kind and makes no sense says more than what is of the wrong kind.
            Err(error @ ConfigError::Value { .. }) => mistake = Some(error),
            Err(error) => mistake = mistake.or(Some(error)),
        }
    }
    // One of the two was tried at least.
    mistake.map_or_else(|| Ok(Table::new()), Err)
}

/// `limits.max_steps=7`, taken apart. An `=` may be in quotes.
pub(super) fn way_and_value(said: &str) -> Option<(KeyPath, &str)> {
    said.match_indices('=').find_map(|(at, _)| {
        let key = said[..at].trim();
        let table: Table = toml::from_str(&format!("{key} = 0")).ok().filter(|_| !key.contains('\n'))?;
        let mut ways = leaves(&table).into_keys();
        ways.next().filter(|_| ways.next().is_none()).map(|way| (way, said[at + 1..].trim()))
    })
}

/// Whether a variable is like nothing that could be set.
fn is_somebody_elses(path: &str) -> bool {
    let keys = keys();
    let is_key = keys.iter().any(|(_, within)| within.iter().any(|key| key == path));
    !path.contains("__")
        && !is_key
        && crate::spelling::nearest(path, keys.iter().map(|(top, _)| top.as_str())).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(user: &str, project: &str, variables: &[(&str, &str)]) -> Result<Layered, LayerError> {
        let mut layers = Layers::default();
        layers.add_file(KeyOrigin::User(PathBuf::from("user.toml")), user)?;
        layers.add_file(KeyOrigin::Project(PathBuf::from("project.toml")), project)?;
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
            "model = \"openai/user\"\n[limits]\nmax_steps = 1\nmax_tokens = 10\n[options]\neffort = \"low\"\n",
            "model = \"openai/project\"\n[limits]\nmax_steps = 2\n[models.\"openai/b.c\"]\neffort = \"high\"\n",
            &[
                ("PITON_MODEL", "openai/variable"),
                ("PITON_LIMITS__MAX_TIME", "60"),
                ("PITON_DATA_DIR", "/x"),
                ("HOME", "/y"),
            ],
        )
        .expect("valid layers");
        let (config, settings) = (&layered.config, layered.settings());
        assert_eq!(config.model.as_deref(), Some("openai/variable"));
        let limits = &config.limits;
        assert_eq!((limits.max_steps, limits.max_tokens, limits.max_time), (Some(2), Some(10), Some(60)));
        let said_by = |key: &str| settings[key].1.to_string();
        assert_eq!(said_by("model"), "PITON_MODEL");
        assert_eq!(said_by("limits.max_steps"), "project.toml");
        assert_eq!(said_by("limits.max_tokens"), "user.toml");
        assert_eq!(said_by("models.\"openai/b.c\".effort"), "project.toml");
        assert_eq!(said_by("retry.times"), "default");
        // What is shown is itself a configuration that says the same.
        let shown: Vec<String> = settings.iter().map(|(key, (value, _))| format!("{key} = {value}")).collect();
        assert_eq!(Config::parse(&shown.join("\n")).expect("what is shown").models, config.models);
    }

    #[test]
    fn a_variable_is_text_where_text_is_wanted() {
        let said =
            |value| layers("", "", &[("PITON_HTTP__NO_PROXY", value)]).expect("a valid name").config.http.no_proxy;
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
        assert!(text.starts_with("PITON_LIMITS__MAX_STEPS") && text.contains("expected a whole number"), "{text}");
        let text = said("", "", &[("PITON_LIMITS", "7")]);
        assert!(text.starts_with("PITON_LIMITS "), "{text}");
    }

    #[test]
    fn a_repository_does_not_decide_where_keys_go() {
        for (text, key) in [
            ("[providers.openai]\nbase_url = \"https://evil\"", "providers.openai.base_url"),
            ("[providers.groq]\nkey_command = \"curl evil\"", "providers.groq.key_command"),
            ("[http]\nproxy = \"http://evil\"", "http.proxy"),
            ("keys_for_tools = [\"OPENAI_API_KEY\"]", "keys_for_tools"),
            ("keys_for_tools = []", "keys_for_tools"),
            ("permission_mode = \"auto\"", "permission_mode"),
            ("[providers.openai]\nca_file = \"ca.pem\"", "providers.openai.ca_file"),
            ("[tools.web_search]\nurl = \"https://evil/{query}\"", "tools.web_search.url"),
            ("[tools.format]\n\"*.rs\" = \"evil {file}\"", "tools.format.\"*.rs\""),
        ] {
            let error = layers("", text, &[]).expect_err(text).to_string();
            assert!(error.starts_with(&format!("project.toml sets {key}, which only your own")), "{error}");
            assert!(layers(text, "", &[]).is_ok(), "{text}");
        }
        assert!(layers("", "[providers.openai.options]\neffort = \"low\"", &[]).is_ok());
    }

    #[test]
    fn what_makes_no_sense_together_is_blamed_on_those_who_said_it() {
        let (user, project) = ("[retry]\nfirst_wait = 20", "\n[retry]\nlongest_wait = 10");
        let error = layers(user, project, &[("PITON_MODEL", "anthropic/b")]).expect_err("a contradiction").to_string();
        assert_eq!(
            error,
            "the configuration contradicts itself: first_wait in [retry] is longer than longest_wait, 10 seconds \
             (retry.first_wait by user.toml, line 2, retry.longest_wait by project.toml, line 3)"
        );
        // What nobody said cannot be at fault.
        let text = words(&layers("[retry]\nfirst_wait = 100", "", &[]).expect_err("longer than the default"));
        assert!(text.starts_with("user.toml") && text.contains("line 2: first_wait in [retry] is longer"), "{text}");
        // It may be a tool of a server.
        let variable = [("PITON_PERMISSION__BSH", "allow")];
        let notes = layers("[permission]\nedit = \"allow\"", "", &variable).expect("valid").notes.concat();
        assert!(notes.contains("PITON_PERMISSION__BSH") && notes.contains("did you mean `bash`?"), "{notes}");
        let text =
            words(&layers("[options]\neffort = \"low\"", "[options]\nthinking_budget = 1", &[]).expect_err("two"));
        assert!(
            text.contains("thinking_budget by project.toml, line 2, options.effort by user.toml, line 2"),
            "{text}"
        );
        for (text, said) in [
            ("[limits]\nmax_steps = 9\nmax_replies = 3", "line 3: max_replies in [limits] is less than max_steps"),
            (
                "[tools]\nbash_timeout = 601",
                "line 2: bash_timeout in [tools] is longer than bash_timeout_cap, 600 seconds",
            ),
            (
                "model = \"antropic/x\"",
                "line 1: model names an unknown provider: there is no provider `antropic`; did you mean `anthropic`?",
            ),
            ("[text_tools]\nantropic = \"off\"", "did you mean `anthropic`?"),
            ("[models.\"antropic/x\"]\nwindow = 1", "line 1: [models.\"antropic/x\"] names an unknown provider"),
            ("[providers.antropic]\nkey_variable = \"X\"", "did you mean `anthropic`?"),
            ("[providers.mine]\nprotocol = \"chat\"", "says its protocol but not its base_url"),
        ] {
            let error = words(&layers(text, "", &[]).expect_err(text));
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn variables_of_others_are_noted_and_those_that_were_meant_are_not() {
        let said = |name| layers("", "", &[(name, "1.2.3")]);
        for name in ["PITON_VERSION", "PITON_PROJECT_DIR", "PITON_CALL"] {
            assert!(said(name).expect("no setting").notes.is_empty(), "{name}");
        }
        let notes = said("PITON_BUILD_HOST").expect("somebody else's").notes;
        assert!(notes.len() == 1 && notes[0].contains("PITON_BUILD_HOST"), "{notes:?}");
        for (name, meant) in [
            ("PITON_MODLE", "`model`"),
            ("PITON_MAX_STEPS", "`max_steps` in [limits]"),
            ("PITON_LIMITS__MAX_STPS", "`max_steps`"),
            ("PITON_BUILD__HOST", "unknown field"),
        ] {
            assert!(words(&said(name).expect_err(name)).contains(meant), "{name}");
        }
    }

    #[test]
    fn every_key_can_be_set_by_a_flag() {
        let said = |flag: &str| {
            let mut layers = Layers::default();
            layers.add_variables([("PITON_LIMITS__MAX_STEPS", "3")])?;
            layers.add_flag(&Flag::Set(flag.to_owned()))?;
            layers.merge()
        };
        let layered = said("limits.max_steps = 7").expect("valid");
        assert_eq!(layered.config.limits.max_steps, Some(7));
        assert_eq!(layered.settings()["limits.max_steps"].1.to_string(), "--set limits.max_steps");
        let layered = said("models.\"openai/x=y\".effort=low").expect("valid");
        assert!(layered.config.models.contains_key("openai/x=y"));
        let layered = said("check.commands=[\"a = b\"]").expect("valid");
        assert_eq!(layered.config.check.commands, ["a = b"]);
        for (flag, words_said) in [
            ("limits.max_stps=7", "did you mean `max_steps`?"),
            ("limits.max_steps=0", "max_steps in [limits] must be a whole number above 0"),
            ("retry.first_wait=90", "is longer than longest_wait"),
            ("limits", "KEY=VALUE"),
            ("=3", "KEY=VALUE"),
        ] {
            let error = said(flag).expect_err(flag);
            assert!(error.is_of_a_flag() && words(&error).contains(words_said), "{flag}: {}", words(&error));
        }
    }

    #[test]
    fn what_is_shown_is_what_holds() {
        let layered = layers("[limits]\nmax_steps = 5", "[limits]\n[retry]\n", &[]).expect("valid");
        let shown = |key: &str| layered.settings().get(key).map(|(value, _)| value.to_string());
        assert_eq!(shown("limits.max_steps").as_deref(), Some("5"));
        assert_eq!(shown("limits"), None, "an empty table says nothing");
        for (key, value) in [
            ("limits.max_calls", "64"),
            ("limits.max_denials", "3"),
            ("limits.max_repeats", "3"),
            ("limits.max_compactions", "3"),
            ("limits.tool_output", "30000"),
            ("retry.times", "5"),
            ("http.connect_timeout", "10.0"),
            ("compaction.reserve", "20000"),
            ("compaction.keep", "20000"),
            ("check.timeout", "600.0"),
            ("check.rounds", "3"),
            ("tools.bash_timeout", "120.0"),
            ("tools.bash_timeout_cap", "600.0"),
            ("context.reference_lines", "2000"),
            ("loop.on_repeats", "\"ask\""),
        ] {
            assert_eq!(shown(key).as_deref(), Some(value), "{key}");
        }
        // Said aloud, the defaults of every preset change nothing.
        for preset in piton_core::preset::PRESETS {
            let policy = Policy::preset(preset.name).expect("a preset");
            let config = Config::of_table(defaults::of(&policy)).expect("valid");
            let mut said = policy.clone();
            config.apply(&mut said);
            // What is said is the number alone; how much of a small window it may be is not.
            said.compaction.rules = policy.compaction.rules.clone();
            said.retry.usual.cap_answered_ms = policy.retry.usual.cap_answered_ms;
            assert_eq!(said, policy, "{}", preset.name);
        }
    }
}
