//! Makes a connection to a server, by whatever transport its entry says and in whichever era the server speaks, and reads its lists.

use crate::catalogue::Lists;
use crate::entry::{Entry, Login, Transport as Way};
use crate::error::{ConnectError, missing_scope};
use crate::guard::Guards;
use crate::host::Host;
use crate::keep::Era;
use crate::lines::Lines;
use crate::probe::Probe;
use crate::process::{Command, Process};
use crate::renewing::Renewing;
use crate::surroundings::Surroundings;
use crate::tokens::Tokens;
use crate::words::{self, Words};
use crate::{login, sse, text};
use piton_http::{HeaderName, HeaderValue, Url};
use rmcp::model::{
    ClientRequest, ErrorCode, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, ListToolsRequest,
    PaginatedRequestParams, ProtocolVersion, ServerPeerInfo, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, Peer, PeerRequestOptions, RoleClient,
    RunningService, ServiceError,
};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::transport::{AuthorizationManager, Transport};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long a server that starts as a process has to say that it is a modern one.
const PROBE: Duration = Duration::from_secs(1);
/// The same for one that is reached over a network.
const PROBE_FAR: Duration = Duration::from_secs(5);
/// The largest message that is read.
const MOST_MESSAGE_BYTES: usize = 16 << 20;
/// How long a server may take to take an answer of ours.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Pages of one list.
const MOST_PAGES: usize = 50;
/// Bytes of all lists of a server, as JSON: one message can hold as much.
const MOST_LISTS_BYTES: usize = MOST_MESSAGE_BYTES;
/// How long one page of a list may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an address may take to say where it leads on to.
const REDIRECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection.
pub(crate) struct Connection {
    pub(crate) service: RunningService<RoleClient, Host>,
    /// The process, where there is one.
    pub(crate) process: Option<Process>,
    pub(crate) era: Era,
    pub(crate) info: Arc<ServerPeerInfo>,
}

/// What a connection is made with.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) entry: Arc<Entry>,
    pub(crate) around: Arc<Surroundings>,
    pub(crate) guards: Guards,
}

impl Connector {
    /// Connects, in the era that the server spoke last if that is known.
    pub(crate) async fn connect(&self, host: &Host, era: Option<Era>) -> Result<Connection, ConnectError> {
        let first = match era {
            Some(era) => self.connect_once(host, Some(era)).await,
            None => Err(ConnectError::Failed(String::new())),
        };
        let tried = match first {
            // What was true the last time need not be now.
            Err(ConnectError::Failed(_) | ConnectError::IsModern | ConnectError::IsLegacy) => {
                self.connect_once(host, None).await
            }
            first => first,
        };
        match tried {
            Err(ConnectError::IsModern) => self.connect_once(host, Some(Era::Modern)).await,
            Err(ConnectError::IsLegacy) => self.connect_once(host, Some(Era::Legacy)).await,
            tried => tried,
        }
    }

    async fn connect_once(&self, host: &Host, era: Option<Era>) -> Result<Connection, ConnectError> {
        match &self.entry.transport {
            Way::Stdio { command, args, env, cwd } => {
                let command = Command { entry: &self.entry, program: command, args, env, cwd: cwd.as_ref() };
                self.connect_process(&command, host, era).await
            }
            Way::Http { url, headers, login } => self.connect_http(url, headers, login, host, era).await,
            Way::Sse { url, headers, login } => self.connect_sse(url, headers, login, host).await,
        }
    }

    async fn connect_process(
        &self,
        command: &Command<'_>,
        host: &Host,
        era: Option<Era>,
    ) -> Result<Connection, ConnectError> {
        let started = Process::start(command, &self.around, &self.guards).await;
        let (process, input, output) = started.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ConnectError::Hopeless(format!("it cannot be started: {error}")),
            _ => ConnectError::Failed(format!("it cannot be started: {error}")),
        })?;
        let transport = Lines::new(output, input, MOST_MESSAGE_BYTES);
        match shake_hands(transport, host, era, PROBE).await {
            Ok(service) => connection(service, Some(process)),
            Err(Shaken::Other(error)) => {
                process.end().await;
                Err(error)
            }
            Err(Shaken::Error(error)) => {
                let is_over = matches!(*error, ClientInitializeError::ConnectionClosed(_))
                    || matches!(*error, ClientInitializeError::TransportError { .. });
                let end = process.end().await;
                let why = match is_over {
                    true => end.words(),
                    false => format!("{}; {}", self.words().starting(&error), end.words()),
                };
                Err(ConnectError::Failed(text::line(&why, 600)))
            }
        }
    }

    async fn connect_http(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
        login: &Login,
        host: &Host,
        era: Option<Era>,
    ) -> Result<Connection, ConnectError> {
        let address = address(url)?;
        let client = piton_http::client(&address, &self.around.http);
        let client = client.map_err(|error| ConnectError::Hopeless(error.to_string()))?;
        let asked = client.clone();
        let mut config = StreamableHttpClientTransportConfig::with_uri(address.as_str());
        config.custom_headers = sent(headers)?;
        config.max_sse_event_size = MOST_MESSAGE_BYTES;
        config.max_json_response_size = MOST_MESSAGE_BYTES;
        // An answer of ours that is given up leaves the server waiting for it for ever.
        config.control_request_timeout = REPLY_TIMEOUT;
        // It would send what was under way again, calls too. The next request opens a new session.
        config.reinit_on_expired_session = false;
        let shaken = match self.tokens(url, &address, &config.custom_headers, login).await? {
            Some(manager) => {
                let client = Renewing::new(client, manager, Tokens::of(&self.around, url));
                let transport = StreamableHttpClientTransport::with_client(client, config);
                shake_hands(transport, host, era, PROBE_FAR).await
            }
            None => shake_hands(StreamableHttpClientTransport::with_client(client, config), host, era, PROBE_FAR).await,
        };
        let failed = shaken.as_ref().err().and_then(Shaken::status);
        match self.far(shaken) {
            Err(ConnectError::Failed(why)) if failed.is_some_and(|status| (300..400).contains(&status)) => {
                Err(ConnectError::Failed(
                    redirected(&asked, &address).await.map_or(why.clone(), |to| format!("{why}: {to}")),
                ))
            }
            connected => connected,
        }
    }

    pub(crate) fn words(&self) -> Words<'_> {
        Words { entry: &self.entry, http: &self.around.http }
    }

    fn far(&self, shaken: Result<RunningService<RoleClient, Host>, Shaken>) -> Result<Connection, ConnectError> {
        match shaken {
            Ok(service) => connection(service, None),
            Err(Shaken::Other(error)) => Err(error),
            Err(Shaken::Error(error)) if needs_login(&error) => {
                Err(ConnectError::NeedsLogin(missing_scope(error.auth_challenge())))
            }
            Err(Shaken::Error(error)) => Err(ConnectError::Failed(self.words().starting(&error))),
        }
    }

    /// Who hands out the tokens of a server; nothing where the entry has a key of its own, or nobody has logged in.
    async fn tokens(
        &self,
        url: &str,
        address: &Url,
        headers: &HashMap<HeaderName, HeaderValue>,
        login: &Login,
    ) -> Result<Option<AuthorizationManager>, ConnectError> {
        let tokens = Tokens::of(&self.around, url);
        if headers.keys().any(|name| name == "authorization") || !tokens.are_there() {
            return Ok(None);
        }
        let manager = login::manager(&self.around, address, login, tokens).await;
        let manager = manager.map_err(|error| ConnectError::Failed(self.words().login(&error)))?;
        manager.ok_or(ConnectError::NeedsLogin(None)).map(Some)
    }

    async fn connect_sse(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
        login: &Login,
        host: &Host,
    ) -> Result<Connection, ConnectError> {
        let (address, headers) = (address(url)?, sent(headers)?);
        let tokens = self.tokens(url, &address, &headers, login).await?;
        let transport = sse::Sse::open(&address, &headers, &self.words(), tokens).await?;
        // It is of 2024-11-05, when there was one era.
        self.far(shake_hands(transport, host, Some(Era::Legacy), PROBE_FAR).await)
    }
}

fn address(url: &str) -> Result<Url, ConnectError> {
    let url = Url::parse(url).map_err(|error| ConnectError::Hopeless(format!("its address is none ({error})")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(ConnectError::Hopeless(format!(
            "its address is of {}://, not http:// or https://",
            text::line(other, 20)
        ))),
    }
}

fn sent(headers: &BTreeMap<String, String>) -> Result<HashMap<HeaderName, HeaderValue>, ConnectError> {
    let header = |(name, value): (&String, &String)| {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, mut value) = parsed
            .ok_or_else(|| ConnectError::Hopeless(format!("the header {} cannot be sent", text::line(name, 60))))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    headers.iter().map(header).collect()
}

/// Where an address leads on to. It is asked without the keys of the entry.
async fn redirected(client: &piton_http::Client, address: &Url) -> Option<String> {
    let answer = client.get(address.clone()).timeout(REDIRECT_TIMEOUT).send().await.ok()?;
    let to = answer.headers().get("location").filter(|_| answer.status().is_redirection())?;
    Some(text::line(&piton_http::error::redirected(address, to.to_str().ok()?), 200))
}

/// Whether somebody has to log in, or to log in anew.
fn needs_login(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::TransportError { .. } => {
            error.is_authorization_required()
                || error.auth_challenge().is_some()
                || words::carried(error).is_some_and(words::is_rejected)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => needs_login(fallback),
        _ => false,
    }
}

fn connection(service: RunningService<RoleClient, Host>, process: Option<Process>) -> Result<Connection, ConnectError> {
    let info =
        service.peer().peer_info().ok_or_else(|| ConnectError::Failed("it said nothing of itself".to_owned()))?;
    let era = if info.protocol_version.has_initialize() { Era::Legacy } else { Era::Modern };
    Ok(Connection { service, process, era, info })
}

enum Shaken {
    /// It is of another era than it was asked in.
    Other(ConnectError),
    Error(Box<ClientInitializeError>),
}

impl Shaken {
    /// Of the answer that ended the handshake, where one did.
    fn status(&self) -> Option<u16> {
        match self {
            Self::Other(_) => None,
            Self::Error(error) => words::carried(error).and_then(words::status_of),
        }
    }
}

async fn shake_hands<T: Transport<RoleClient> + 'static>(
    transport: T,
    host: &Host,
    era: Option<Era>,
    probe: Duration,
) -> Result<RunningService<RoleClient, Host>, Shaken> {
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let mode = match era {
        Some(Era::Legacy) => ClientLifecycleMode::Initialize,
        Some(Era::Modern) => ClientLifecycleMode::Discover { preferred_versions: modern },
        None => ClientLifecycleMode::Auto {
            preferred_versions: modern,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    let may_be_modern = Arc::new(AtomicBool::new(false));
    let probe = if era.is_none() { probe } else { Duration::from_secs(3_600) };
    let transport = Probe::new(transport, probe, Arc::clone(&may_be_modern));
    let serving: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(host.clone().serve_with_lifecycle(transport, mode));
    let served = serving.await;
    served.map_err(|error| match &error {
        _ if may_be_modern.load(Relaxed) => Shaken::Other(ConnectError::IsModern),
        // Whatever that is, it is no answer of a modern server.
        ClientInitializeError::ExpectedInitResult(_) if era.is_none() => Shaken::Other(ConnectError::IsLegacy),
        _ => Shaken::Error(Box::new(error)),
    })
}

/// Reads all lists of a server. A list that cannot be had is named, and the others are read.
pub(crate) async fn lists(
    peer: &Peer<RoleClient>,
    info: &ServerPeerInfo,
    words: &Words<'_>,
) -> Result<Lists, ServiceError> {
    let mut lists = Lists { instructions: info.instructions.clone().unwrap_or_default(), ..Lists::default() };
    let can = &info.capabilities;
    let mut reading = Reading { left_bytes: MOST_LISTS_BYTES, problems: Vec::new() };
    if can.tools.is_some() {
        // Without its tools a server is not ready.
        lists.tools = reading
            .pages(peer, "tools", |params| {
                ClientRequest::ListToolsRequest(ListToolsRequest { params, ..Default::default() })
            })
            .await?;
    }
    if can.prompts.is_some() {
        let listed = reading.pages(peer, "prompts", |params| {
            ClientRequest::ListPromptsRequest(ListPromptsRequest { params, ..Default::default() })
        });
        lists.prompts = or_named(listed.await, "prompts", words, &mut reading.problems);
    }
    if can.resources.is_some() {
        let listed = reading.pages(peer, "resources", |params| {
            ClientRequest::ListResourcesRequest(ListResourcesRequest { params, ..Default::default() })
        });
        lists.resources = or_named(listed.await, "resources", words, &mut reading.problems);
        let listed = reading.pages(peer, "resourceTemplates", |params| {
            ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest { params, ..Default::default() })
        });
        lists.templates = or_named(listed.await, "resource templates", words, &mut reading.problems);
    }
    lists.problems = reading.problems;
    Ok(lists)
}

fn or_named(
    listed: Result<Vec<Value>, ServiceError>,
    kind: &str,
    words: &Words<'_>,
    problems: &mut Vec<String>,
) -> Vec<Value> {
    match listed {
        Ok(listed) => listed,
        // Servers that have resources and no templates say so in this way.
        Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => Vec::new(),
        Err(error) => {
            problems.push(text::line(&format!("its {kind} are not known: {}", words.asking(&error)), 300));
            Vec::new()
        }
    }
}

/// Lists while they are read.
struct Reading {
    /// What they may still take, all together.
    left_bytes: usize,
    problems: Vec<String>,
}

impl Reading {
    /// All pages of a list, as they came: one thing in them that is not sound does not spoil the others.
    async fn pages(
        &mut self,
        peer: &Peer<RoleClient>,
        field: &str,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
    ) -> Result<Vec<Value>, ServiceError> {
        let (mut listed, mut params) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let options = PeerRequestOptions::with_timeout(PAGE_TIMEOUT);
            let answer = peer.send_request_with_option(request(params), options).await?.await_response().await?;
            let mut answer = match answer {
                ServerResult::CustomResult(custom) => custom.0,
                known => serde_json::to_value(known).unwrap_or_default(),
            };
            let Some(Value::Array(page)) = answer.get_mut(field).map(Value::take) else {
                return Err(ServiceError::UnexpectedResponse);
            };
            let bytes = serde_json::to_vec(&page).map_or(usize::MAX, |page| page.len());
            let Some(left_bytes) = self.left_bytes.checked_sub(bytes) else {
                let most = text::size(MOST_LISTS_BYTES);
                self.problems.push(format!("its lists have more than {most}: the rest of its {field} is not known"));
                return Ok(listed);
            };
            self.left_bytes = left_bytes;
            listed.extend(page);
            match answer.get("nextCursor").and_then(Value::as_str) {
                Some(cursor) => params = Some(PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned()))),
                None => return Ok(listed),
            }
        }
        self.problems
            .push(format!("its list of {field} has more than {MOST_PAGES} pages, of which the first are known"));
        Ok(listed)
    }
}
