//! The providers, one row each. To add one that speaks Chat Completions is to add a row.

use super::{Patience, Provider};
use crate::chat::Dialect;
use crate::credentials::Cloud;
use crate::options::Thinking;
use crate::protocol::WireProtocol;
use crate::window::TellsWindow;

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
    // Its own Chat Completions refuse tools beside an effort; what is compatible with it speaks nothing else.
    Provider {
        protocol: WireProtocol::Responses,
        protocol_elsewhere: Some(WireProtocol::Chat),
        base_url_variable: Some("OPENAI_BASE_URL"),
        default_model: Some("gpt-5.4"),
        thinking: Thinking::Scale,
        dialect: Some(Dialect::OpenAi),
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
        dialect: None,
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
        default_model: Some("gemini-3.8-flash"),
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
        thinking: Thinking::Object,
        dialect: Some(Dialect::OpenRouter),
        ..hosted("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"], "https://openrouter.ai/models")
    },
    Provider {
        thinking: Thinking::SwitchAndTwo,
        dialect: Some(Dialect::Echoing),
        ..hosted("deepseek", "https://api.deepseek.com", &["DEEPSEEK_API_KEY"], "https://api-docs.deepseek.com")
    },
    Provider {
        thinking: Thinking::Two,
        dialect: Some(Dialect::Mistral),
        ..hosted(
            "mistral",
            "https://api.mistral.ai/v1",
            &["MISTRAL_API_KEY"],
            "https://docs.mistral.ai/getting-started/models",
        )
    },
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
    Provider {
        thinking: Thinking::Switch,
        dialect: Some(Dialect::Echoing),
        ..hosted(
            "moonshot",
            "https://api.moonshot.ai/v1",
            &["MOONSHOT_API_KEY"],
            "https://platform.moonshot.ai/docs/api/chat",
        )
    },
    Provider {
        thinking: Thinking::Switch,
        ..hosted(
            "zai",
            "https://api.z.ai/api/paas/v4",
            &["ZAI_API_KEY", "ZHIPU_API_KEY"],
            "https://docs.z.ai/guides/overview/pricing",
        )
    },
    Provider {
        thinking: Thinking::Qwen,
        ..hosted(
            "alibaba",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            &["DASHSCOPE_API_KEY"],
            "https://www.alibabacloud.com/help/en/model-studio/models",
        )
    },
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
    Provider {
        thinking: Thinking::Scale,
        ..hosted(
            "vercel",
            "https://ai-gateway.vercel.sh/v1",
            &["AI_GATEWAY_API_KEY"],
            "https://vercel.com/docs/ai-gateway",
        )
    },
    Provider {
        thinking: Thinking::Scale,
        dialect: Some(Dialect::OpenAi),
        ..hosted(
            "github",
            "https://models.github.ai/inference",
            &["GITHUB_MODELS_TOKEN", "GITHUB_TOKEN"],
            "https://docs.github.com/en/github-models",
        )
    },
    Provider {
        base_url_variable: Some("AZURE_OPENAI_BASE_URL"),
        thinking: Thinking::Scale,
        key_header: Some("api-key"),
        base_url_example: "https://RESOURCE.openai.azure.com/openai/v1",
        dialect: Some(Dialect::OpenAi),
        ..hosted(
            "azure",
            "",
            &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"],
            "https://learn.microsoft.com/en-us/azure/ai-services/openai",
        )
    },
    Provider {
        base_url_variable: Some("BEDROCK_BASE_URL"),
        base_url_example: "https://bedrock-mantle.us-east-1.api.aws/openai/v1",
        cloud: Some(Cloud::Aws),
        ..hosted("bedrock", "", &["AWS_BEARER_TOKEN_BEDROCK"], "https://docs.aws.amazon.com/bedrock/latest/userguide")
    },
    Provider {
        protocol: WireProtocol::Anthropic,
        base_url_variable: Some("BEDROCK_ANTHROPIC_BASE_URL"),
        base_url_example: "https://bedrock-mantle.us-east-1.api.aws/anthropic",
        cloud: Some(Cloud::Aws),
        ..hosted(
            "bedrock-anthropic",
            "",
            &["AWS_BEARER_TOKEN_BEDROCK"],
            "https://docs.aws.amazon.com/bedrock/latest/userguide/inference-messages-api.html",
        )
    },
    Provider {
        base_url_variable: Some("VERTEX_BASE_URL"),
        base_url_example: "https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/endpoints/openapi",
        cloud: Some(Cloud::Google),
        ..hosted("vertex", "", &["VERTEX_ACCESS_TOKEN"], "https://cloud.google.com/vertex-ai/generative-ai/docs")
    },
    local("ollama", "http://127.0.0.1:11434/v1", TellsWindow::Ollama, "https://docs.ollama.com"),
    Provider {
        protocol: WireProtocol::Ollama,
        ..local("ollama-native", "http://127.0.0.1:11434", TellsWindow::OllamaModel, "https://docs.ollama.com/api")
    },
    local("lmstudio", "http://127.0.0.1:1234/v1", TellsWindow::LmStudio, "https://lmstudio.ai/docs"),
    local(
        "llamacpp",
        "http://127.0.0.1:8080/v1",
        TellsWindow::LlamaCpp,
        "https://github.com/ggml-org/llama.cpp/tree/master/tools/server",
    ),
    local("vllm", "http://127.0.0.1:8000/v1", TellsWindow::Vllm, "https://docs.vllm.ai"),
];

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
        protocol_elsewhere: None,
        base_url,
        base_url_example: "",
        key_variables,
        base_url_variable: None,
        needs_key: true,
        default_model: None,
        thinking: Thinking::Three,
        dialect: Some(Dialect::Compatible),
        patience: None,
        key_header: None,
        cloud: None,
        window: None,
        docs,
    }
}

/// With a server of this machine nobody else waits in line: one that is starting, or loads a model, is asked again soon, and
/// one that is not there will not come.
const AT_HOME: Patience = Patience { times: 4, first_ms: 500, longest_ms: 5_000 };

/// A server on this machine: no key, and it knows best which models it has.
const fn local(name: &'static str, base_url: &'static str, window: TellsWindow, docs: &'static str) -> Provider {
    Provider { needs_key: false, window: Some(window), patience: Some(AT_HOME), ..hosted(name, base_url, &[], docs) }
}
