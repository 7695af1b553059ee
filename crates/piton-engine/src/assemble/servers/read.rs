//! One entry: what it says, in the words of whichever program it was written for.

use super::super::machine::Machine;
use super::file::{Format, Source, shown};
use super::variables::{fill, secrets};
use super::{Origin, Raw};
use crate::spelling::did_you_mean;
use piton_mcp::entry::{CALL_TIMEOUT, Entry, Login, START_TIMEOUT, Transport};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Characters of a server's name.
const NAME_CHARS: usize = 64;
/// The longest time that an entry may give.
const MOST_MS: u64 = 24 * 60 * 60 * 1000;

/// Every key that means something here.
const KEYS: [&str; 26] = [
    "type",
    "transport",
    "command",
    "args",
    "env",
    "environment",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "oauth",
    "timeout",
    "startTimeout",
    "startup_timeout_ms",
    "alwaysLoad",
    "enabled",
    "disabled",
    "tools",
    "includeTools",
    "excludeTools",
    "sandbox",
    "network",
    // What other programs show or decide by, and nobody misses here.
    "description",
    "name",
    "trust",
];

/// An entry that can be used.
#[derive(Debug, Clone)]
pub struct ReadEntry {
    /// What it comes to.
    pub entry: Entry,
    /// How its server is reached, with variables as they stand in the file.
    pub written: Transport,
    /// Whether the entry itself says that it is off.
    pub is_disabled: bool,
    /// Keys of it that mean nothing here.
    pub unknown: Vec<String>,
}

/// A server's name, in characters that the names of tools can have; or why it has none.
pub(super) fn name(said: &str) -> Result<String, String> {
    let mut name = String::new();
    for c in said.trim().chars().take(NAME_CHARS) {
        // As in Claude Code, whose rules and hooks name its tools so.
        let c = if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
        // Two of them end the name of a server in that of a tool.
        if !(c == '_' && name.ends_with('_')) {
            name.push(c);
        }
    }
    let name = name.trim_matches(['_', '-']).to_owned();
    match name.is_empty() {
        true => Err(format!("`{}` is not a valid server name: letters, digits, - and _ are allowed", shown(said))),
        false => Ok(name),
    }
}

/// All that trust in an entry covers.
pub(super) fn covered(raw: &Raw) -> String {
    serde_json::to_string_pretty(&json!({ raw.name.as_str(): raw.value })).unwrap_or_default()
}

/// Reads an entry. The variables of one that is not trusted are left as they stand.
pub(super) fn entry(raw: &Raw, source: &Source, machine: &Machine, is_trusted: bool) -> Result<ReadEntry, String> {
    let name = name(&raw.name)?;
    let Value::Object(fields) = &raw.value else { return Err("it is not an object".to_owned()) };
    let fields = Fields { fields, machine: is_trusted.then_some(machine) };
    let (transport, written) = (transport(&fields, source)?, transport(&Fields { machine: None, ..fields }, source)?);
    let (start_timeout, call_timeout) = timeouts(&fields, source)?;
    let (tools, without) =
        (fields.list_or_none("tools")?.or(fields.list_or_none("includeTools")?), fields.list("excludeTools")?);
    let is_off = fields.flag("disabled")?.unwrap_or(false) || fields.flag("enabled")? == Some(false);
    let entry = Entry {
        name,
        transport,
        start_timeout,
        call_timeout,
        always_load: fields.flag("alwaysLoad")?.unwrap_or(false),
        tools,
        without,
        net: network(&fields, source)?,
        filled: fields.machine.map(|machine| secrets(&raw.value, machine)).unwrap_or_default(),
        hash: blake3::hash(covered(raw).as_bytes()).to_hex().to_string(),
        file: source.file.clone(),
    };
    let is_unknown = |key: &&String| !KEYS.contains(&key.as_str());
    let unknown = fields.fields.keys().filter(is_unknown).map(|key| shown(key)).collect();
    Ok(ReadEntry { entry, written, is_disabled: is_off, unknown })
}

fn transport(fields: &Fields<'_>, source: &Source) -> Result<Transport, String> {
    let url = ["url", "serverUrl", "httpUrl"].into_iter().find(|key| fields.fields.contains_key(*key));
    let said = fields.text("type")?.or(fields.text("transport")?);
    let kind = match said.as_deref() {
        Some("stdio" | "local") => "stdio",
        Some("http" | "streamable-http" | "streamableHttp" | "streamable_http" | "remote") => "http",
        Some("sse") => "sse",
        Some(other) => {
            let meant = did_you_mean(other, ["stdio", "http", "sse", "local", "remote"]);
            return Err(format!("its type is `{}`; stdio, http and sse are known{meant}", shown(other)));
        }
        None if fields.fields.contains_key("command") => "stdio",
        None if url.is_some() => "http",
        None => return Err("it has neither a `command` nor a `url`".to_owned()),
    };
    if kind == "stdio" {
        return stdio(fields, source);
    }
    let key = url.ok_or("it has no `url`")?;
    let url = fields.text(key)?.filter(|url| !url.is_empty()).ok_or("its `url` is empty")?;
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    // Of one whose variables are not filled in it cannot be told.
    if fields.machine.is_some() && !is_web {
        return Err(format!("`{}` is not an address: http:// or https:// is missing", shown(&url)));
    }
    let (headers, login) = (fields.map("headers")?, login(fields)?);
    Ok(match kind {
        "http" => Transport::Http { url, headers, login },
        _ => Transport::Sse { url, headers, login },
    })
}

fn stdio(fields: &Fields<'_>, source: &Source) -> Result<Transport, String> {
    // A list is what OpenCode writes: the program and its arguments.
    let mut words = match fields.fields.get("command") {
        Some(Value::Array(_)) => fields.list("command")?,
        Some(_) => fields.text("command")?.into_iter().collect(),
        None => return Err("it has no `command`".to_owned()),
    };
    words.extend(fields.list("args")?);
    if words.first().is_none_or(|command| command.trim().is_empty()) {
        return Err("its `command` is empty".to_owned());
    }
    let command = words.remove(0);
    let mut env = fields.map("env")?;
    env.extend(fields.map("environment")?);
    // A folder is meant from where its file lies.
    let beside = folder_of(source);
    let cwd = fields.text("cwd")?.filter(|cwd| !cwd.is_empty());
    let cwd = cwd.map(|cwd| beside.map_or_else(|| PathBuf::from(&cwd), |folder| folder.join(&cwd)));
    Ok(Transport::Stdio { command, args: words, env, cwd })
}

/// The folder that the paths of a repository's file, or of a plugin, are relative to.
fn folder_of(source: &Source) -> Option<&Path> {
    match source.origin {
        Origin::Plugin { .. } => Some(&source.file),
        Origin::Flag | Origin::User => None,
        Origin::Project => {
            let folder = source.file.parent()?;
            if folder.ends_with(".piton") { folder.parent() } else { Some(folder) }
        }
    }
}

/// In milliseconds. What OpenCode calls so is how long its tools may take to list.
fn timeouts(fields: &Fields<'_>, source: &Source) -> Result<(Duration, Duration), String> {
    let start = fields.millis("startTimeout")?.or(fields.millis("startup_timeout_ms")?);
    let own = fields.millis("timeout")?;
    Ok(match source.format {
        Format::OpenCode => (start.or(own).unwrap_or(START_TIMEOUT), CALL_TIMEOUT),
        Format::Servers | Format::ClaudeProject(_) => (start.unwrap_or(START_TIMEOUT), own.unwrap_or(CALL_TIMEOUT)),
    })
}

/// The hosts that its process may reach; `None`: it runs outside of the sandbox, as the user's own hooks do.
fn network(fields: &Fields<'_>, source: &Source) -> Result<Option<Vec<String>>, String> {
    let said = fields.list_or_none("network")?;
    let is_brought = matches!(source.origin, Origin::Project | Origin::Plugin { is_own: false });
    match fields.flag("sandbox")? {
        // It is not for a repository to say that it is trusted more.
        Some(false) if is_brought => {
            Err("`sandbox` is false, and a server of a repository runs in the sandbox; configure it as your own"
                .to_owned())
        }
        said_so => Ok(if is_brought || said_so == Some(true) { Some(said.unwrap_or_default()) } else { said }),
    }
}

fn login(fields: &Fields<'_>) -> Result<Login, String> {
    let Some(oauth) = fields.fields.get("oauth") else { return Ok(Login::default()) };
    let Value::Object(oauth) = oauth else {
        // OpenCode's way to say that there is nothing to log in to.
        return if *oauth == Value::Bool(false) {
            Ok(Login::default())
        } else {
            Err("`oauth` is no object".to_owned())
        };
    };
    let fields = Fields { fields: oauth, machine: fields.machine };
    let either =
        |one: &str, other: &str| -> Result<Option<String>, String> { Ok(fields.text(one)?.or(fields.text(other)?)) };
    let scopes = match oauth.get("scopes").or(oauth.get("scope")) {
        Some(Value::String(_)) => either("scopes", "scope")?.unwrap_or_default(),
        _ => fields.list("scopes")?.join(" "),
    };
    let port = fields.number("callbackPort")?.unwrap_or(0);
    Ok(Login {
        client_id: either("clientId", "client_id")?,
        client_secret: either("clientSecret", "client_secret")?,
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        callback_port: u16::try_from(port).map_err(|_| format!("`callbackPort` is {port}, which is no port"))?,
    })
}

/// The fields of an entry, with variables filled in where it is trusted.
#[derive(Clone, Copy)]
struct Fields<'f> {
    fields: &'f Map<String, Value>,
    machine: Option<&'f Machine>,
}

impl Fields<'_> {
    fn fill(&self, text: &str) -> Result<String, String> {
        match self.machine {
            Some(machine) => fill(text, machine),
            None => Ok(text.to_owned()),
        }
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => self.fill(text).map(Some),
            Some(_) => Err(format!("`{key}` is no text")),
        }
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(format!("`{key}` is neither true nor false")),
        }
    }

    fn number(&self, key: &str) -> Result<Option<u64>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or(format!("`{key}` is no whole number")),
        }
    }

    fn millis(&self, key: &str) -> Result<Option<Duration>, String> {
        match self.number(key)? {
            None => Ok(None),
            Some(ms) if (1..=MOST_MS).contains(&ms) => Ok(Some(Duration::from_millis(ms))),
            Some(ms) => Err(format!("`{key}` is {ms}; it is in milliseconds, from 1 to {MOST_MS}")),
        }
    }

    fn list_or_none(&self, key: &str) -> Result<Option<Vec<String>>, String> {
        if self.get(key).is_some() { self.list(key).map(Some) } else { Ok(None) }
    }

    fn list(&self, key: &str) -> Result<Vec<String>, String> {
        let wrong = || format!("`{key}` is not a list of texts");
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().ok_or_else(wrong).and_then(|item| self.fill(item))).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Names with texts. A number or a truth is the text that it is written as.
    fn map(&self, key: &str) -> Result<BTreeMap<String, String>, String> {
        let Some(value) = self.get(key) else { return Ok(BTreeMap::new()) };
        let fields = value.as_object().ok_or(format!("`{key}` is no object of texts"))?;
        let one = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::String(text) => self.fill(text)?,
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    return Err(format!("`{key}.{}` is no text", shown(name)));
                }
            };
            Ok((name.clone(), value))
        };
        fields.iter().map(one).collect()
    }
}
