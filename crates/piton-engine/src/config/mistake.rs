//! What is wrong with a configuration, in words for the person who wrote it: which key, in which line, what it must be,
//! and which word was meant.

use super::{Config, FORMAT};
use piton_core::preset::PRESETS;
use std::fmt;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// The way to a key, from the top.
pub type Way = Vec<String>;

/// A value that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The keys that it is about: the one at fault, and those that it contradicts.
    pub keys: Vec<Way>,
    what: String,
}

/// Why a text is not a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not TOML of this shape. Names line and field.
    #[error("{0}")]
    Shape(String),
    /// It is in a format that a later version of Piton has made.
    #[error(
        "it is in format {found}, made for a newer Piton; this one knows {FORMAT}. Update Piton, or take `version` and what is \
         new out of it"
    )]
    Newer {
        /// The format it says it has.
        found: i64,
    },
    /// A value makes no sense.
    #[error("{}{mistake}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
    Value {
        /// Where it is, in a file.
        line: Option<usize>,
        /// What is wrong.
        mistake: Mistake,
    },
}

/// A word that names no preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no preset `{said}`; there are {}{}", names().join(", "), did_you_mean(said, names()))]
pub struct NoPreset {
    /// The word.
    pub said: String,
}

fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

impl Mistake {
    /// `what` is said of the key: "must be a number above 0".
    pub(super) fn new<K: Into<String>>(way: impl IntoIterator<Item = K>, what: impl fmt::Display) -> Self {
        let way: Way = way.into_iter().map(Into::into).collect();
        Self { what: format!("{} {what}", subject(&way)), keys: vec![way] }
    }

    /// The same, where the key contradicts another one.
    pub(super) fn against<K: Into<String>>(mut self, way: impl IntoIterator<Item = K>) -> Self {
        self.keys.push(way.into_iter().map(Into::into).collect());
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A key as people speak of it.
fn subject(way: &[String]) -> String {
    match way {
        [] => String::new(),
        [key] => key.clone(),
        [table, name] if table == "models" => format!("[models.{name:?}]"),
        [table, _] if table == "providers" => format!("[{}]", dotted(way)),
        [table @ .., key] => format!("{} in [{}]", dotted(std::slice::from_ref(key)), dotted(table)),
    }
}

/// A key in full, as TOML writes it.
pub(super) fn dotted(way: &[String]) -> String {
    let is_bare = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let keys: Vec<String> = way
        .iter()
        .map(|key| if !key.is_empty() && is_bare(key) { key.clone() } else { Value::from(key.clone()).to_string() })
        .collect();
    keys.join(".")
}

impl ConfigError {
    pub(super) fn of(mistake: Mistake, text: Option<&str>) -> Self {
        let line = text.zip(mistake.keys.first()).and_then(|(text, way)| line_of(text, way));
        Self::Value { line, mistake }
    }

    pub(super) fn shape(error: &toml::de::Error) -> Self {
        let message = error.message();
        let hint = meant(message).map(|meant| format!("did you mean {meant}?")).unwrap_or_default();
        let said = error.to_string();
        // The message stands at the end, behind the line that is shown.
        let shown = said.trim_end().strip_suffix(message).map(|place| format!("{place}{}", plain(message)));
        let shown = shown.unwrap_or_else(|| said.replacen(message, &plain(message), 1));
        let shown = if shown.ends_with('\n') { shown } else { format!("{shown}\n") };
        Self::Shape(format!("{shown}{hint}").trim_end().to_owned())
    }
}

/// The line of a file that a key stands in.
pub(super) fn line_of(text: &str, way: &[String]) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut found = None;
    for key in way {
        let Some((said, value)) = table.iter().find(|(said, _)| said.get_ref() == key) else { break };
        found = Some(said.span().start);
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    found.and_then(|at| text.get(..at)).map(|before| before.matches('\n').count() + 1)
}

/// Whether a text that cannot be read says of itself that it is for a newer version, in whatever syntax that has.
pub(super) fn newer(text: &str) -> Option<ConfigError> {
    let before_tables = text.lines().map(str::trim).take_while(|line| !line.starts_with('['));
    let version =
        before_tables.filter_map(|line| line.strip_prefix("version")?.trim_start().strip_prefix('=')).next()?;
    let version = version.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    let found = version.parse::<i64>().ok().filter(|found| *found > i64::from(FORMAT))?;
    Some(ConfigError::Newer { found })
}

/// What TOML's reader says, without the names of Rust's types.
fn plain(message: &str) -> String {
    let Some((said, wanted)) = message.rsplit_once(", expected ").filter(|(said, _)| said.starts_with("invalid "))
    else {
        return message.to_owned();
    };
    let said = match said.strip_prefix("invalid type: ") {
        Some("sequence") => "invalid type: a list",
        Some("map") => "invalid type: a table",
        Some(_) | None => said,
    };
    let wanted = match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "string" => "a text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        struct_name if struct_name.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{}, expected {wanted}", said.replace("floating point", "number"))
}

/// The word that was meant, in a message of the form "unknown field `modle`, expected one of `model`, `limits`": one of
/// those, or else one that stands elsewhere.
fn meant(message: &str) -> Option<String> {
    let mut words = message.split('`').skip(1).step_by(2);
    let said = words.next()?;
    let is_near = nearest(said, words).map(|word| format!("`{word}`"));
    let is_key = message.starts_with("unknown field");
    is_near.or_else(|| elsewhere(said).filter(|_| is_key))
}

/// The key of a table that is most like a word.
pub(super) fn elsewhere(said: &str) -> Option<String> {
    let keys = keys();
    let inner = keys.iter().flat_map(|(section, keys)| keys.iter().map(move |key| (key.as_str(), section.as_str())));
    let word = nearest(said, inner.clone().map(|(key, _)| key))?;
    inner.into_iter().find(|(key, _)| *key == word).map(|(key, section)| format!("`{key}` in [{section}]"))
}

/// Every key that there is at the top, with the keys in it where it is a table.
pub(super) fn keys() -> Vec<(String, Vec<String>)> {
    let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap_or_default();
    let names = |node: &serde_json::Value| -> Vec<String> {
        node["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let within = |top: &String| {
        let reference = schema["properties"][top]["$ref"].as_str().unwrap_or_default();
        schema.pointer(reference.trim_start_matches('#')).filter(|_| !reference.is_empty()).map(names)
    };
    names(&schema).into_iter().map(|top| (top.clone(), within(&top).unwrap_or_default())).collect()
}

/// The word that is most like the one that was said, if one is much like it.
pub fn nearest<'w>(said: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    /// Below this, words have little in common.
    const MUCH_LIKE: f64 = 0.8;
    let likeness = |word: &'w str| (strsim::jaro_winkler(said, word), word);
    let best = words.into_iter().map(likeness).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= MUCH_LIKE).map(|(_, word)| word)
}

/// That word as the end of a sentence, where there is one.
pub fn did_you_mean<'w>(said: &str, words: impl IntoIterator<Item = &'w str>) -> String {
    nearest(said, words).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}
