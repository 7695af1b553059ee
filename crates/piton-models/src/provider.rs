//! The providers Piton knows by name, and the way from what a person said (`anthropic`, a model, a key) to a model.
//!
//! This is a table; which environment variables hold keys and addresses is data in it, and reading them is the
//! caller's business.

use crate::anthropic::DEFAULT_MAX_TOKENS;
use crate::catalogue::{self, Catalogue, ModelFacts};
use crate::chat::Dialect;
use crate::credentials::{Cloud, Credentials};
use crate::model::{Model, ModelLimits, Price};
use crate::options::{Options, Target, Thinking, Translated};
use crate::pass::{Pass, Passes, Renewal};
use crate::protocol::WireProtocol;
use crate::remote::RemoteModel;
use crate::server::{ModelServer, RefusedMembers, Wire};
use crate::text_tools::{self, CallsRead};
use crate::window::{TellsWindow, Window};
use piton_core::model::{ModelError, ModelErrorKind};
use piton_http::{HeaderMap, HeaderName, HeaderValue, Http, HttpOptions, Url};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

mod table;

pub use table::PROVIDERS;

/// One provider of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// What people call it.
    pub name: &'static str,
    /// How it is talked to.
    pub protocol: WireProtocol,
    /// How it is talked to at another address than its own, where that differs: there is somebody else then.
    pub protocol_elsewhere: Option<WireProtocol>,
    /// Where it is, unless somebody says otherwise. Empty: somebody has to.
    pub base_url: &'static str,
    /// What an address looks like, where it has to be given.
    pub base_url_example: &'static str,
    /// The environment variables that may hold its key, in order. Empty: it needs none.
    pub key_variables: &'static [&'static str],
    /// The environment variable that may hold another address.
    pub base_url_variable: Option<&'static str>,
    /// Whether its own address refuses requests without a key.
    pub needs_key: bool,
    /// The model used where none is named.
    pub default_model: Option<&'static str>,
    /// How it is told how much to think, where it speaks Chat Completions.
    pub thinking: Thinking,
    /// Whose Chat Completions it speaks, behind whatever address. `None`: as the address tells.
    pub dialect: Option<Dialect>,
    /// How patient one is with it, where that differs from the patience with others.
    pub patience: Option<Patience>,
    /// The header that its key is sent in, where that is not its protocol's.
    pub key_header: Option<&'static str>,
    /// Whose credentials it takes in place of a key.
    pub cloud: Option<Cloud>,
    /// How it tells the window of a model, where it is a server that knows best.
    pub window: Option<TellsWindow>,
    /// Where its models are described.
    pub docs: &'static str,
}

/// How patient one is with a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Retries of one call.
    pub times: u32,
    /// The wait before the first, in milliseconds; it doubles with each further one.
    pub first_ms: u64,
    /// The longest wait, in milliseconds.
    pub longest_ms: u64,
}

impl Provider {
    /// Whether it is a server of this machine that nobody bills for. One that any address can be given to is not: there
    /// may be anybody behind it.
    pub fn is_on_this_machine(&self) -> bool {
        self.key_variables.is_empty() && self.base_url_variable.is_none() && self.base_url.contains("127.0.0.1")
    }
}

/// The provider that is meant, as it is talked to where it is.
fn meant(spec: &ProviderSpec) -> Result<Provider, OpenError> {
    let provider = known(&spec.provider)?;
    let said = spec.base_url.as_deref().and_then(|url| host(url.trim()));
    let is_own =
        |said: &String| host(provider.base_url).is_some_and(|own| *said == own || said.ends_with(&format!(".{own}")));
    let elsewhere = provider.protocol_elsewhere.filter(|_| said.is_some_and(|said| !is_own(&said)));
    Ok(Provider { protocol: elsewhere.unwrap_or(provider.protocol), ..*provider })
}

/// The provider of this name.
pub fn find(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// What was said about the model to use.
#[derive(Clone, Default, PartialEq)]
pub struct ProviderSpec {
    /// The provider's name.
    pub provider: String,
    /// The model's name at the provider. `None`: the provider's default.
    pub model: Option<String>,
    /// Another address than the provider's own.
    pub base_url: Option<String>,
    /// The key.
    pub key: Option<String>,
    /// Where the key was found; without a key, the variable that was named for it.
    pub key_from: Option<KeySource>,
    /// What is there in place of a key.
    pub credentials: Option<Credentials>,
    /// How key or credentials are had anew, where they may end.
    pub renewal: Option<Renewal>,
    /// What people call this server, where it is one of their own and `provider` only says how to talk to it.
    pub label: Option<String>,
    /// What is done about calls in its text.
    pub text_tools: text_tools::Mode,
    /// What is set about its answers.
    pub options: Options,
    /// What is known about models.
    pub catalogue: Catalogue,
    /// How much the model reads, where its server was asked and the catalogue does not know.
    pub window_tokens: Option<u64>,
}

/// Where a key is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// This environment variable.
    Variable(String),
    /// `piton auth` keeps it in this place.
    Kept(&'static str),
    /// The `key_command` of the configuration prints it.
    Command,
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSpec")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .field("key", &self.key.as_ref().map(|_| "[key]"))
            .field("credentials", &self.credentials)
            .field("label", &self.label)
            .field("text_tools", &self.text_tools)
            .field("options", &self.options)
            .finish()
    }
}

/// Why there is no model to ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Nobody is called that.
    #[error("there is no provider {name:?}; there are {known}")]
    UnknownProvider {
        /// What was asked for.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// The provider wants a key and none was given.
    #[error("{provider} needs a key: set {variables}")]
    MissingKey {
        /// The provider.
        provider: &'static str,
        /// Where keys are looked for.
        variables: String,
    },
    /// The provider has no default model and none was named.
    #[error("which model of {provider}? name one as {provider}/<model>")]
    MissingModel {
        /// The provider.
        provider: &'static str,
    },
    /// The provider has no address of its own: everybody has theirs.
    #[error("{provider} has an address for each customer: set {said_by}{variable}, for example to {example}")]
    MissingBaseUrl {
        /// The provider.
        provider: &'static str,
        /// What it also follows from, with `, or `; empty where nothing does.
        said_by: &'static str,
        /// Where the address is looked for.
        variable: &'static str,
        /// What one looks like.
        example: &'static str,
    },
    /// The address is none.
    #[error("{url:?} is not an address of the form http://host:port/path")]
    BadBaseUrl {
        /// The address as given.
        url: String,
    },
    /// A header is none.
    #[error("{name:?} cannot be sent as a header, or its value cannot")]
    BadHeader {
        /// Its name.
        name: String,
    },
}

/// The model that was asked for. Connects to nothing yet.
pub fn open(spec: &ProviderSpec, options: &HttpOptions) -> Result<Arc<dyn Model>, OpenError> {
    let provider = meant(spec)?;
    let Some(model) = spec.model.as_deref().filter(|model| !model.is_empty()).or(provider.default_model) else {
        return Err(OpenError::MissingModel { provider: provider.name });
    };
    key(&provider, spec)?;
    let url = address(&provider, spec, Endpoint::Replies)?;
    let facts = facts(&provider, spec, model);
    let has_tools = facts.as_ref().and_then(|facts| facts.tools);
    let free = (spec.base_url.is_none() && provider.is_on_this_machine()).then_some(Price::FREE);
    let (limits, price) = facts.map_or((ModelLimits::default(), free), |facts| (facts.limits, facts.price.or(free)));
    // What was said of a window holds, whatever the server says.
    let tells = provider.window.filter(|_| limits.window_tokens.is_none());
    let limits = ModelLimits { window_tokens: limits.window_tokens.or(spec.window_tokens), ..limits };
    let wire = wire(&provider, &url, limits);
    let calls_read = calls_read(&provider, &url);
    let server = server(&provider, spec, url, wire, options)?;
    let mut remote = RemoteModel {
        name: format!("{}/{model}", spec.label.as_deref().unwrap_or(provider.name)),
        model: model.to_owned(),
        wire,
        server: Arc::new(server),
        limits,
        window: tells.map(|tells| Arc::new(Window::told_by(tells))),
        price,
        max_output: spec.options.max_output,
        extra: translated(&provider, spec, model, limits).body.into(),
    };
    remote.limits.max_output_tokens = remote.longest_reply().or(limits.max_output_tokens);
    Ok(spec.text_tools.around(Arc::new(remote), model, has_tools, calls_read))
}

/// Whether the server at this address reads the calls of its models. Services do, by whatever name they are called.
fn calls_read(provider: &Provider, url: &Url) -> CallsRead {
    let is_service =
        |known: &&Provider| known.needs_key && host(known.base_url) == url.host_str().map(ToOwned::to_owned);
    // One that has an address for each customer is a service wherever it is.
    let is_hosted = provider.base_url.is_empty() || PROVIDERS.iter().any(|known| is_service(&known));
    if is_hosted { CallsRead::Surely } else { CallsRead::Perhaps }
}

fn server(
    provider: &Provider,
    spec: &ProviderSpec,
    url: Url,
    wire: Wire,
    options: &HttpOptions,
) -> Result<ModelServer, OpenError> {
    let key = key(provider, spec)?;
    // A token of Microsoft's directory is no key, and goes where tokens go.
    let is_token = key.as_deref().is_some_and(|key| key.starts_with("eyJ"));
    Ok(ModelServer {
        http: Http::new(options.clone()),
        url,
        wire,
        passes: Passes::new(Pass { key, credentials: spec.credentials.clone() }, spec.renewal.clone()),
        key_header: provider.key_header.filter(|_| !is_token),
        key_said: key_said(provider, spec),
        address_said: address_said(provider, spec),
        headers: headers(&spec.options)?,
        refused: RefusedMembers::default(),
    })
}

/// Which variable names the server, where nobody has named one and it is not one of the web.
fn address_said(provider: &Provider, spec: &ProviderSpec) -> Option<String> {
    let variable = provider.base_url_variable.filter(|_| spec.base_url.is_none() && !provider.needs_key)?;
    Some(format!("{variable} is not set: it names the server to ask"))
}

/// What a person who is not let in should know of the key, and what helps. The environment's comes before a kept one, and
/// that before a command's.
fn key_said(provider: &Provider, spec: &ProviderSpec) -> String {
    let name = spec.label.as_deref().unwrap_or(provider.name);
    let login = format!("`piton auth login {name}`");
    let Some(key) = &spec.key else {
        // The environment's keys for others do not go to a server of this machine.
        let takes_usual = spec.label.is_none() && (provider.needs_key || spec.base_url.is_some());
        let usual = provider.key_variables.first().filter(|_| takes_usual);
        return match (&spec.key_from, usual) {
            _ if spec.credentials.is_some() => "the account's credentials were sent".to_owned(),
            (Some(KeySource::Variable(named)), _) => {
                format!("no key was sent: {named}, its key_variable, is not set; set it, or keep a key with {login}")
            }
            (_, Some(usual)) => format!("no key was sent: set {usual}, or keep one with {login}"),
            (_, None) => format!("no key was sent: keep one with {login}"),
        };
    };
    let help = match &spec.key_from {
        Some(KeySource::Variable(variable)) => {
            format!(
                "the key is from {variable}, which comes before a kept key: correct it, or unset it and use {login}"
            )
        }
        Some(KeySource::Kept(place)) => format!("the key is from {place}: replace it with {login}"),
        Some(KeySource::Command) => {
            format!(
                "the key is what the key_command of [providers.{name}] prints: check that, or keep a key with {login}"
            )
        }
        None => "check the key".to_owned(),
    };
    match owner(key).filter(|owner| spec.label.is_none() && !provider.name.starts_with(owner)) {
        Some(owner) => format!("this looks like a key of {owner}; {help}"),
        None => help,
    }
}

/// The provider whose keys begin like this one.
fn owner(key: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 9] = [
        ("sk-ant-", "anthropic"),
        ("sk-or-", "openrouter"),
        ("sk-proj-", "openai"),
        ("AIza", "google"),
        ("gsk_", "groq"),
        ("xai-", "xai"),
        ("csk-", "cerebras"),
        ("hf_", "huggingface"),
        ("fw_", "fireworks"),
    ];
    BEGINNINGS.iter().find(|(beginning, _)| key.starts_with(beginning)).map(|(_, owner)| *owner)
}

/// What a person should know about the model that is asked for; a line for each: that nothing is known of it, and what
/// of the options will not be sent, since it would refuse it.
pub fn remarks(spec: &ProviderSpec) -> Vec<String> {
    let Ok(provider) = meant(spec) else { return Vec::new() };
    let Some(model) = spec.model.as_deref().or(provider.default_model) else { return Vec::new() };
    let facts = facts(&provider, spec, model);
    let is_listed = || spec.label.is_none() && catalogue::lists(provider.name);
    let unknown = (facts.is_none() && is_listed())
        .then(|| {
            let name = provider.name;
            format!(
                "{name}/{model} is not in the catalogue: its window and price are not known (say them: [models.\"{name}/{model}\"] \
                 in the configuration)"
            )
        });
    let limits = facts.map(|facts| facts.limits).unwrap_or_default();
    unknown.into_iter().chain(translated(&provider, spec, model, limits).left_out).collect()
}

fn translated(provider: &Provider, spec: &ProviderSpec, model: &str, limits: ModelLimits) -> Translated {
    let max_tokens = spec.options.max_output.unwrap_or(usual_max_tokens(limits));
    spec.options.translate(Target { protocol: provider.protocol, thinking: provider.thinking, model, max_tokens })
}

/// What is known of the model. Somebody's own server may call anything by any name, and is in no embedded list.
fn facts(provider: &Provider, spec: &ProviderSpec, model: &str) -> Option<ModelFacts> {
    match &spec.label {
        Some(label) => spec.catalogue.newer(label, model),
        None => spec.catalogue.look_up(provider.name, model),
    }
}

/// Whether this can be sent as a header.
pub fn is_header(name: &str, value: &str) -> bool {
    HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok()
}

fn headers(options: &Options) -> Result<HeaderMap, OpenError> {
    let header = |(name, value): (&String, &String)| {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, mut value) = parsed.ok_or_else(|| OpenError::BadHeader { name: name.clone() })?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    options.headers.iter().map(header).collect()
}

fn wire(provider: &Provider, url: &Url, limits: ModelLimits) -> Wire {
    match provider.protocol {
        WireProtocol::Chat => {
            Wire::Chat(provider.dialect.unwrap_or_else(|| dialect_at(url.host_str().unwrap_or_default())))
        }
        WireProtocol::Responses => Wire::Responses,
        WireProtocol::Gemini => Wire::Gemini,
        WireProtocol::Ollama => Wire::Ollama { window_tokens: limits.window_tokens },
        WireProtocol::Anthropic => Wire::Anthropic { max_tokens: usual_max_tokens(limits) },
    }
}

/// What Messages is told where nobody says how long an answer may be.
fn usual_max_tokens(limits: ModelLimits) -> u32 {
    limits.max_output_tokens.map_or(DEFAULT_MAX_TOKENS, |most| most.min(USUAL_MAX_TOKENS))
}

/// Whose Chat Completions are spoken at this host, which somebody has given as a server of their own.
fn dialect_at(host: &str) -> Dialect {
    let is_host = |provider: &&Provider| self::host(provider.base_url).as_deref() == Some(host);
    match host {
        // Moonshot's other addresses.
        "api.moonshot.cn" | "api.kimi.com" => Dialect::Echoing,
        host if host.ends_with(".openai.azure.com") => Dialect::OpenAi,
        _ => PROVIDERS.iter().find(is_host).and_then(|provider| provider.dialect).unwrap_or(Dialect::Compatible),
    }
}

fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(ToOwned::to_owned)
}

/// Longer answers than this are asked for only on purpose: the limit counts against the window and the rate limit.
const USUAL_MAX_TOKENS: u32 = 32_000;

/// A model that a server says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// Its name at the server.
    pub id: String,
    /// Its window, where the server tells.
    pub window_tokens: Option<u64>,
}

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The provider could not be addressed.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server gave no list.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// How long to wait for a server that may not be there: a local one answers within a millisecond or two.
pub const PROBE_MS: u64 = 500;

/// The models the provider offers, as it lists them. For a probe set both time-outs of `options` to [`PROBE_MS`].
pub async fn list_models(spec: &ProviderSpec, options: &HttpOptions) -> Result<Vec<ListedModel>, ListError> {
    let provider = meant(spec)?;
    let url = address(&provider, spec, Endpoint::Models)?;
    let wire = wire(&provider, &url, ModelLimits::default());
    let server = server(&provider, spec, url, wire, options)?;
    let protocol = provider.protocol;
    Ok(listed(&server.get(&server.url).await?, protocol)?)
}

/// How much the model reads, as its server tells; `None` where that does not tell or is none of those that do.
pub async fn window(spec: &ProviderSpec, options: &HttpOptions) -> Option<u64> {
    let provider = meant(spec).ok()?;
    let window = Window::told_by(provider.window?);
    let url = address(&provider, spec, Endpoint::Replies).ok()?;
    let wire = wire(&provider, &url, ModelLimits::default());
    window.ask(&server(&provider, spec, url, wire, options).ok()?, spec.model.as_deref()?).await;
    window.tokens()
}

fn listed(body: &[u8], protocol: WireProtocol) -> Result<Vec<ListedModel>, ModelError> {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(list) = value.get("data").or_else(|| value.get("models")).and_then(Value::as_array) else {
        return Err(ModelError::new(ModelErrorKind::Malformed, "the server answered with no list of models"));
    };
    let windows = [
        "/inputTokenLimit",
        "/context_length",
        "/max_model_len",
        "/max_input_tokens",
        "/meta/n_ctx",
        "/meta/n_ctx_train",
    ];
    let read = |entry: &Value| {
        let id = entry.get("id").or_else(|| entry.get("name"))?.as_str()?;
        // Gemini's own names have it, and need it nowhere. Elsewhere it is part of the name.
        let prefix = if protocol == WireProtocol::Gemini { "models/" } else { "" };
        Some(ListedModel {
            id: id.strip_prefix(prefix).unwrap_or(id).to_owned(),
            window_tokens: windows.iter().find_map(|path| entry.pointer(path)?.as_u64()),
        })
    };
    Ok(list.iter().filter_map(read).collect())
}

fn known(name: &str) -> Result<&'static Provider, OpenError> {
    find(name).ok_or_else(|| OpenError::UnknownProvider {
        name: name.to_owned(),
        known: PROVIDERS.iter().map(|provider| provider.name).collect::<Vec<_>>().join(", "),
    })
}

/// The key, if there is one. Somebody else's address may need none; the provider's own says so itself.
fn key(provider: &Provider, spec: &ProviderSpec) -> Result<Option<String>, OpenError> {
    let key = spec.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
    // The address in a cloud follows from a region or a project, and says nothing about who may ask there.
    let is_its_own = spec.base_url.is_none() || provider.cloud.is_some();
    if key.is_none() && spec.credentials.is_none() && provider.needs_key && is_its_own {
        let clouds = provider.cloud.map(|cloud| match cloud {
            Cloud::Aws => "credentials of AWS (AWS_ACCESS_KEY_ID, AWS_PROFILE)",
            Cloud::Google => "credentials of Google Cloud (gcloud auth application-default login)",
        });
        let variables: Vec<&str> = provider.key_variables.iter().copied().chain(clouds).collect();
        let variables = variables.join(" or ");
        return Err(OpenError::MissingKey { provider: provider.name, variables });
    }
    Ok(key.map(ToOwned::to_owned))
}

#[derive(Debug, Clone, Copy)]
enum Endpoint {
    Replies,
    Models,
}

/// Where to ask. People give addresses with and without `/v1` and a slash at the end; some paste the whole thing.
fn address(provider: &Provider, spec: &ProviderSpec, endpoint: Endpoint) -> Result<Url, OpenError> {
    let said = spec.base_url.as_deref().unwrap_or(provider.base_url).trim();
    if said.is_empty() {
        let variable = provider.base_url_variable.unwrap_or_default();
        return Err(OpenError::MissingBaseUrl {
            provider: provider.name,
            said_by: match provider.cloud {
                Some(Cloud::Aws) => "AWS_REGION, or ",
                Some(Cloud::Google) => "GOOGLE_CLOUD_PROJECT, or ",
                None => "",
            },
            variable,
            example: provider.base_url_example,
        });
    }
    let bad = || OpenError::BadBaseUrl { url: said.to_owned() };
    let mut url = Url::parse(said).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad());
    }
    let whole = format!("{}{}", base_path(provider.protocol, url.path()), end(provider.protocol, endpoint));
    url.set_path(&whole);
    if provider.protocol == WireProtocol::Gemini {
        url.set_query(None);
    }
    Ok(url)
}

/// What stands behind the base of an address. Gemini's replies have the model in it, see [`Wire::address`].
fn end(protocol: WireProtocol, endpoint: Endpoint) -> &'static str {
    match (protocol, endpoint) {
        (WireProtocol::Chat, Endpoint::Replies) => "/chat/completions",
        (WireProtocol::Responses, Endpoint::Replies) => "/responses",
        (WireProtocol::Anthropic, Endpoint::Replies) => "/messages",
        (WireProtocol::Ollama, Endpoint::Replies) => "/api/chat",
        (WireProtocol::Ollama, Endpoint::Models) => "/api/tags",
        (WireProtocol::Gemini, _) | (_, Endpoint::Models) => "/models",
    }
}

fn base_path(protocol: WireProtocol, path: &str) -> String {
    let path = path.trim_end_matches('/');
    let base = match protocol {
        WireProtocol::Gemini => path.split("/models").next().unwrap_or(path),
        WireProtocol::Ollama => path.strip_suffix("/api/chat").or(path.strip_suffix("/api")).unwrap_or(path),
        WireProtocol::Chat | WireProtocol::Responses | WireProtocol::Anthropic => {
            path.strip_suffix(end(protocol, Endpoint::Replies)).unwrap_or(path)
        }
    };
    let version = match protocol {
        WireProtocol::Anthropic if !base.ends_with("/v1") => "/v1",
        WireProtocol::Chat | WireProtocol::Responses if base.is_empty() => "/v1",
        WireProtocol::Gemini if base.is_empty() => "/v1beta",
        WireProtocol::Anthropic
        | WireProtocol::Chat
        | WireProtocol::Responses
        | WireProtocol::Gemini
        | WireProtocol::Ollama => "",
    };
    format!("{base}{version}")
}

#[cfg(test)]
mod tests;
