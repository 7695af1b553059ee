//! A server's entry in a configuration, after variables were filled in: how to start or reach it, and what holds for it.

use piton_core::secrets::{is_secret_name, is_secret_variable};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may take to start, unless its entry says otherwise.
pub const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a call may take without any sign of progress, unless its entry says otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name: `[A-Za-z0-9_-]`, at most 64 characters.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// How long it may take to start.
    pub start_timeout: Duration,
    /// How long a call may take without any sign of progress.
    pub call_timeout: Duration,
    /// Whether its tools stand in the first request instead of behind `tool_search`.
    pub always_load: bool,
    /// The only tools of it that are offered, by the server's own names; nothing: all.
    pub tools: Option<Vec<String>>,
    /// Tools of it that are not offered.
    pub without: Vec<String>,
    /// The hosts that its sandboxed process may reach. `None`: all; a server of the user's own says so.
    pub net: Option<Vec<String>>,
    /// The variables in it that are named like secrets, and what was filled in for them.
    pub filled: BTreeMap<String, String>,
    /// BLAKE3 of the entry as its file has it, before variables: names its manifest, and is what trust covers.
    pub hash: String,
    /// The file that it comes from.
    pub file: PathBuf,
}

impl Entry {
    /// What of it is secret, each with a name: a server may say it back.
    pub fn secrets(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = self.filled.clone().into_iter().collect();
        match &self.transport {
            Transport::Stdio { env, .. } => {
                let secret = env.iter().filter(|(name, _)| is_secret_variable(name));
                all.extend(secret.map(|(name, value)| (name.clone(), value.clone())));
            }
            Transport::Http { headers, login, .. } | Transport::Sse { headers, login, .. } => {
                let is_secret = |name: &str| name.eq_ignore_ascii_case("authorization") || is_secret_name(name);
                // Behind the scheme: `Bearer …`.
                let key = |value: &str| value.rsplit(' ').next().unwrap_or(value).to_owned();
                let secret = headers.iter().filter(|(name, _)| is_secret(name));
                all.extend(secret.map(|(name, value)| (name.clone(), key(value))));
                all.extend(login.client_secret.iter().map(|secret| ("client_secret".to_owned(), secret.clone())));
            }
        }
        all
    }
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// As a process, over its standard streams.
    Stdio {
        /// The program; looked for in `PATH` if it has no slash.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside those that every server gets (`PATH`, `HOME`, `LANG`, …).
        env: BTreeMap<String, String>,
        /// The folder that it starts in. Without it, a confined server starts in the workspace, and any other in a folder of its own.
        cwd: Option<PathBuf>,
    },
    /// Over streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Headers of every request. They may hold keys: never shown or logged.
        headers: BTreeMap<String, String>,
        /// What its entry says about logging in.
        login: Login,
    },
    /// Over HTTP with server-sent events, the transport of 2024-11-05.
    Sse {
        /// Its address.
        url: String,
        /// Headers of every request. They may hold keys: never shown or logged.
        headers: BTreeMap<String, String>,
        /// What its entry says about logging in.
        login: Login,
    },
}

/// What an entry says about logging in (`oauth` of `.mcp.json`); everything is optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// A client id that was registered by hand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// The port of the address that the browser comes back to; 0: any.
    pub callback_port: u16,
}
