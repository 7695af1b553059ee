//! The providers Piton knows by name, and the way from what a person said (`anthropic`, a model, a key) to a model.
//!
//! This is a table; which environment variables hold keys and addresses is data in it, and reading them is the
//! caller's business.

use crate::anthropic::DEFAULT_MAX_TOKENS;
use crate::chat::Dialect;
use crate::http::{Http, HttpOptions};
use crate::model::{Model, ModelLimits};
use crate::remote::{Remote, Server, Wire};
use crate::table;
use piton_core::model::{ModelError, ModelErrorKind};
use reqwest::Url;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// One provider of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// What people call it.
    pub name: &'static str,
    /// How it is talked to.
    pub protocol: WireProtocol,
    /// Where it is, unless somebody says otherwise.
    pub base_url: &'static str,
    /// The environment variables that may hold its key, in order. Empty: it needs none.
    pub key_variables: &'static [&'static str],
    /// The environment variable that may hold another address.
    pub base_url_variable: Option<&'static str>,
    /// Whether its own address refuses requests without a key.
    pub needs_key: bool,
    /// The model used where none is named.
    pub default_model: Option<&'static str>,
}

/// The languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireProtocol {
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// Ollama's own `/api/chat`.
    Ollama,
}

/// Every provider, in the order in which people are told of them.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "anthropic",
        protocol: WireProtocol::Anthropic,
        base_url: "https://api.anthropic.com",
        key_variables: &["ANTHROPIC_API_KEY"],
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        needs_key: true,
        default_model: Some("claude-sonnet-5-5"),
    },
    Provider {
        name: "openai",
        protocol: WireProtocol::Chat,
        base_url: "https://api.openai.com/v1",
        key_variables: &["OPENAI_API_KEY"],
        base_url_variable: Some("OPENAI_BASE_URL"),
        needs_key: true,
        default_model: Some("gpt-5.4"),
    },
    Provider {
        name: "openai-chat",
        protocol: WireProtocol::Chat,
        base_url: "http://127.0.0.1:8080/v1",
        key_variables: &["OPENAI_API_KEY"],
        base_url_variable: Some("OPENAI_BASE_URL"),
        needs_key: false,
        default_model: None,
    },
    Provider {
        name: "google",
        protocol: WireProtocol::Gemini,
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_url_variable: Some("GEMINI_BASE_URL"),
        needs_key: true,
        default_model: None,
    },
    Provider {
        name: "openai-responses",
        protocol: WireProtocol::Responses,
        base_url: "https://api.openai.com/v1",
        key_variables: &["OPENAI_API_KEY"],
        base_url_variable: Some("OPENAI_BASE_URL"),
        needs_key: true,
        default_model: Some("gpt-5.4"),
    },
    Provider {
        name: "openrouter",
        protocol: WireProtocol::Chat,
        base_url: "https://openrouter.ai/api/v1",
        key_variables: &["OPENROUTER_API_KEY"],
        base_url_variable: Some("OPENROUTER_BASE_URL"),
        needs_key: true,
        default_model: Some("openai/gpt-5.5"),
    },
    local("ollama", "http://127.0.0.1:11434/v1"),
    Provider { protocol: WireProtocol::Ollama, ..local("ollama-native", "http://127.0.0.1:11434") },
    local("lmstudio", "http://127.0.0.1:1234/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
    local("vllm", "http://127.0.0.1:8000/v1"),
];

/// A server on this machine: no key, and it knows best which models it has.
const fn local(name: &'static str, base_url: &'static str) -> Provider {
    Provider {
        name,
        protocol: WireProtocol::Chat,
        base_url,
        key_variables: &[],
        base_url_variable: None,
        needs_key: false,
        default_model: None,
    }
}

/// The provider of this name.
pub fn find(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// What was said about the model to use.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ProviderSpec {
    /// The provider's name.
    pub provider: String,
    /// The model's name at the provider. `None`: the provider's default.
    pub model: Option<String>,
    /// Another address than the provider's own.
    pub base_url: Option<String>,
    /// The key.
    pub key: Option<String>,
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSpec")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .field("key", &self.key.as_ref().map(|_| "[key]"))
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
    /// The address is none.
    #[error("{url:?} is not an address of the form http://host:port/path")]
    BadBaseUrl {
        /// The address as given.
        url: String,
    },
}

/// The model that was asked for. Connects to nothing yet.
pub fn open(spec: &ProviderSpec, options: &HttpOptions) -> Result<Arc<dyn Model>, OpenError> {
    let provider = known(&spec.provider)?;
    let Some(model) = spec.model.as_deref().filter(|model| !model.is_empty()).or(provider.default_model) else {
        return Err(OpenError::MissingModel { provider: provider.name });
    };
    let key = key(provider, spec)?;
    let url = address(provider, spec, Endpoint::Replies)?;
    let (limits, price) = table::look_up(provider.name, model);
    let wire = wire(provider.protocol, &url, limits);
    Ok(Arc::new(Remote {
        name: format!("{}/{model}", provider.name),
        model: model.to_owned(),
        wire,
        server: Arc::new(Server { http: Http::new(options.clone()), url, wire, key }),
        limits,
        price,
    }))
}

fn wire(protocol: WireProtocol, url: &Url, limits: ModelLimits) -> Wire {
    match protocol {
        WireProtocol::Chat => Wire::Chat(dialect(url.host_str().unwrap_or_default())),
        WireProtocol::Responses => Wire::Responses,
        WireProtocol::Gemini => Wire::Gemini,
        WireProtocol::Ollama => Wire::Ollama,
        WireProtocol::Anthropic => Wire::Anthropic {
            max_tokens: limits.max_output_tokens.map_or(DEFAULT_MAX_TOKENS, |most| most.min(USUAL_MAX_TOKENS)),
        },
    }
}

/// Whose Chat Completions are spoken at this host.
fn dialect(host: &str) -> Dialect {
    match host {
        "api.openai.com" => Dialect::OpenAi,
        "api.mistral.ai" => Dialect::Mistral,
        "api.deepseek.com" | "api.moonshot.ai" | "api.moonshot.cn" | "api.kimi.com" => Dialect::Echoing,
        _ => Dialect::Compatible,
    }
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
    let provider = known(&spec.provider)?;
    let key = key(provider, spec)?;
    let url = address(provider, spec, Endpoint::Models)?;
    let wire = wire(provider.protocol, &url, ModelLimits::default());
    let server = Server { http: Http::new(options.clone()), url, wire, key };
    Ok(listed(&server.get().await?)?)
}

fn listed(body: &[u8]) -> Result<Vec<ListedModel>, ModelError> {
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
        Some(ListedModel {
            id: id.strip_prefix("models/").unwrap_or(id).to_owned(),
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
    if key.is_none() && provider.needs_key && spec.base_url.is_none() {
        let variables = provider.key_variables.join(" or ");
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
