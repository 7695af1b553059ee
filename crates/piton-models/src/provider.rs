//! The providers Piton knows by name, and the way from what a person said (`anthropic`, a model, a key) to a model.
//!
//! This is a table; which environment variables hold keys and addresses is data in it, and reading them is the
//! caller's business.

use crate::anthropic::DEFAULT_MAX_TOKENS;
use crate::catalogue;
use crate::chat::Dialect;
use crate::http::{Http, HttpOptions};
use crate::model::{Model, ModelLimits, Price};
use crate::remote::{Remote, Server, Wire};
use crate::text_tools;
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
    /// Where its models are described.
    pub docs: &'static str,
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
        protocol: WireProtocol::Anthropic,
        base_url_variable: Some("ANTHROPIC_BASE_URL"),
        default_model: Some("claude-sonnet-5-5"),
        ..hosted(
            "anthropic",
            "https://api.anthropic.com",
            &["ANTHROPIC_API_KEY"],
            "https://docs.anthropic.com/en/docs/about-claude/models",
        )
    },
    Provider {
        base_url_variable: Some("OPENAI_BASE_URL"),
        default_model: Some("gpt-5.4"),
        ..hosted("openai", "https://api.openai.com/v1", &["OPENAI_API_KEY"], "https://platform.openai.com/docs/models")
    },
    Provider {
        protocol: WireProtocol::Responses,
        base_url_variable: Some("OPENAI_BASE_URL"),
        default_model: Some("gpt-5.4"),
        ..hosted(
            "openai-responses",
            "https://api.openai.com/v1",
            &["OPENAI_API_KEY"],
            "https://platform.openai.com/docs/api-reference/responses",
        )
    },
    Provider {
        needs_key: false,
        base_url_variable: Some("OPENAI_BASE_URL"),
        ..hosted(
            "openai-chat",
            "http://127.0.0.1:8080/v1",
            &["OPENAI_API_KEY"],
            "https://platform.openai.com/docs/api-reference/chat",
        )
    },
    Provider {
        protocol: WireProtocol::Gemini,
        base_url_variable: Some("GEMINI_BASE_URL"),
        ..hosted(
            "google",
            "https://generativelanguage.googleapis.com/v1beta",
            &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            "https://ai.google.dev/gemini-api/docs/models",
        )
    },
    Provider {
        base_url_variable: Some("OPENROUTER_BASE_URL"),
        default_model: Some("openai/gpt-5.5"),
        ..hosted("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"], "https://openrouter.ai/models")
    },
    hosted("deepseek", "https://api.deepseek.com", &["DEEPSEEK_API_KEY"], "https://api-docs.deepseek.com"),
    hosted(
        "mistral",
        "https://api.mistral.ai/v1",
        &["MISTRAL_API_KEY"],
        "https://docs.mistral.ai/getting-started/models",
    ),
    hosted("xai", "https://api.x.ai/v1", &["XAI_API_KEY"], "https://docs.x.ai/docs/models"),
    hosted("groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"], "https://console.groq.com/docs/models"),
    hosted(
        "cerebras",
        "https://api.cerebras.ai/v1",
        &["CEREBRAS_API_KEY"],
        "https://inference-docs.cerebras.ai/models/overview",
    ),
    hosted(
        "together",
        "https://api.together.xyz/v1",
        &["TOGETHER_API_KEY"],
        "https://docs.together.ai/docs/serverless-models",
    ),
    hosted("fireworks", "https://api.fireworks.ai/inference/v1", &["FIREWORKS_API_KEY"], "https://docs.fireworks.ai"),
    hosted(
        "moonshot",
        "https://api.moonshot.ai/v1",
        &["MOONSHOT_API_KEY"],
        "https://platform.moonshot.ai/docs/api/chat",
    ),
    hosted(
        "zai",
        "https://api.z.ai/api/paas/v4",
        &["ZAI_API_KEY", "ZHIPU_API_KEY"],
        "https://docs.z.ai/guides/overview/pricing",
    ),
    hosted(
        "alibaba",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        &["DASHSCOPE_API_KEY"],
        "https://www.alibabacloud.com/help/en/model-studio/models",
    ),
    Provider {
        protocol: WireProtocol::Anthropic,
        ..hosted(
            "minimax",
            "https://api.minimax.io/anthropic/v1",
            &["MINIMAX_API_KEY"],
            "https://platform.minimax.io/docs",
        )
    },
    hosted(
        "huggingface",
        "https://router.huggingface.co/v1",
        &["HF_TOKEN"],
        "https://huggingface.co/docs/inference-providers",
    ),
    hosted("vercel", "https://ai-gateway.vercel.sh/v1", &["AI_GATEWAY_API_KEY"], "https://vercel.com/docs/ai-gateway"),
    hosted(
        "github",
        "https://models.github.ai/inference",
        &["GITHUB_MODELS_TOKEN", "GITHUB_TOKEN"],
        "https://docs.github.com/en/github-models",
    ),
    Provider {
        base_url_variable: Some("AZURE_OPENAI_BASE_URL"),
        base_url_example: "https://RESOURCE.openai.azure.com/openai/v1",
        ..hosted(
            "azure",
            "",
            &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"],
            "https://learn.microsoft.com/en-us/azure/ai-services/openai",
        )
    },
    Provider {
        base_url_variable: Some("BEDROCK_BASE_URL"),
        base_url_example: "https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1",
        ..hosted("bedrock", "", &["AWS_BEARER_TOKEN_BEDROCK"], "https://docs.aws.amazon.com/bedrock/latest/userguide")
    },
    Provider {
        base_url_variable: Some("VERTEX_BASE_URL"),
        base_url_example: "https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/endpoints/openapi",
        ..hosted("vertex", "", &["VERTEX_ACCESS_TOKEN"], "https://cloud.google.com/vertex-ai/generative-ai/docs")
    },
    local("ollama", "http://127.0.0.1:11434/v1", "https://docs.ollama.com"),
    Provider {
        protocol: WireProtocol::Ollama,
        ..local("ollama-native", "http://127.0.0.1:11434", "https://docs.ollama.com/api")
    },
    local("lmstudio", "http://127.0.0.1:1234/v1", "https://lmstudio.ai/docs"),
    local("llamacpp", "http://127.0.0.1:8080/v1", "https://github.com/ggml-org/llama.cpp/tree/master/tools/server"),
    local("vllm", "http://127.0.0.1:8000/v1", "https://docs.vllm.ai"),
];

impl Provider {
    /// Whether it is a server of this machine that nobody bills for. One that any address can be given to is not: there
    /// may be anybody behind it.
    pub fn is_on_this_machine(&self) -> bool {
        self.key_variables.is_empty() && self.base_url_variable.is_none() && self.base_url.contains("127.0.0.1")
    }
}

/// A service that wants a key and speaks Chat Completions.
const fn hosted(
    name: &'static str,
    base_url: &'static str,
    key_variables: &'static [&'static str],
    docs: &'static str,
) -> Provider {
    Provider {
        name,
        protocol: WireProtocol::Chat,
        base_url,
        base_url_example: "",
        key_variables,
        base_url_variable: None,
        needs_key: true,
        default_model: None,
        docs,
    }
}

/// A server on this machine: no key, and it knows best which models it has.
const fn local(name: &'static str, base_url: &'static str, docs: &'static str) -> Provider {
    Provider { needs_key: false, ..hosted(name, base_url, &[], docs) }
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
    /// What people call this server, where it is one of their own and `provider` only says how to talk to it.
    pub label: Option<String>,
    /// What is done about calls in its text.
    pub text_tools: text_tools::Mode,
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSpec")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .field("key", &self.key.as_ref().map(|_| "[key]"))
            .field("label", &self.label)
            .field("text_tools", &self.text_tools)
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
    #[error("{provider} has an address for each customer: set {variable}, for example to {example}")]
    MissingBaseUrl {
        /// The provider.
        provider: &'static str,
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
}

/// The model that was asked for. Connects to nothing yet.
pub fn open(spec: &ProviderSpec, options: &HttpOptions) -> Result<Arc<dyn Model>, OpenError> {
    let provider = known(&spec.provider)?;
    let Some(model) = spec.model.as_deref().filter(|model| !model.is_empty()).or(provider.default_model) else {
        return Err(OpenError::MissingModel { provider: provider.name });
    };
    let key = key(provider, spec)?;
    let url = address(provider, spec, Endpoint::Replies)?;
    // Somebody's own server may call anything by any name.
    let facts = if spec.label.is_some() { None } else { catalogue::look_up(provider.name, model) };
    let has_tools = facts.as_ref().and_then(|facts| facts.tools);
    let free = (spec.base_url.is_none() && provider.is_on_this_machine()).then_some(Price::FREE);
    let (limits, price) = facts.map_or((ModelLimits::default(), free), |facts| (facts.limits, facts.price));
    let wire = wire(provider.protocol, &url, limits);
    let remote = Remote {
        name: format!("{}/{model}", spec.label.as_deref().unwrap_or(provider.name)),
        model: model.to_owned(),
        wire,
        server: Arc::new(Server { http: Http::new(options.clone()), url, wire, key }),
        limits,
        price,
    };
    Ok(spec.text_tools.around(Arc::new(remote), model, has_tools))
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
        "openrouter.ai" => Dialect::OpenRouter,
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
    if said.is_empty() {
        let variable = provider.base_url_variable.unwrap_or_default();
        return Err(OpenError::MissingBaseUrl {
            provider: provider.name,
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
