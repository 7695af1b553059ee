//! The window of a model on a server of one's own: such a server knows best how much it reads, and is asked.
//!
//! It is asked once, when its first answer begins: by then the model is loaded, with the window that it really has, and
//! nothing had to wait for it. Ollama's own protocol is another matter: there each request says how much of the window is
//! to be loaded, and what is loaded is what we asked for. So it is asked how much the model can read at most.

use crate::server::ModelServer;
use piton_http::Url;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which server it is, and so where it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TellsWindow {
    /// `/props`.
    LlamaCpp,
    /// `/api/ps`, of the models that are loaded.
    Ollama,
    /// `/api/show`, what the model can at most; how much of it is loaded, each request says.
    OllamaModel,
    /// `/api/v0/models`.
    LmStudio,
    /// `/v1/models`.
    Vllm,
}

/// The most of Ollama's window that is asked for where nobody says more: models that can read 128k and more take more memory
/// for that than most machines have, and Ollama would not say so, but become slow.
const MOST_UNASKED_TOKENS: u64 = 65_536;

/// What is known of a window, and who tells.
#[derive(Debug)]
pub(crate) struct Window {
    from: TellsWindow,
    was_asked: AtomicBool,
    /// 0: not known.
    tokens: AtomicU64,
}

impl Window {
    pub(crate) fn told_by(from: TellsWindow) -> Self {
        Self { from, was_asked: AtomicBool::new(false), tokens: AtomicU64::new(0) }
    }

    pub(crate) fn tokens(&self) -> Option<u64> {
        Some(self.tokens.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
    }

    /// Whether nobody asked yet; the next call says no.
    pub(crate) fn is_to_be_asked(&self) -> bool {
        !self.was_asked.swap(true, Ordering::Relaxed)
    }

    /// Asks. A server that does not tell is as good as one that does not know.
    pub(crate) async fn ask(&self, server: &ModelServer, model: &str) {
        let url = self.from.address(&server.url);
        let answer = match self.from {
            TellsWindow::OllamaModel => server.post_whole(&url, &json!({ "model": model })).await,
            TellsWindow::LlamaCpp | TellsWindow::Ollama | TellsWindow::LmStudio | TellsWindow::Vllm => {
                server.get(&url).await
            }
        };
        let Ok(body) = answer else { return };
        let told = serde_json::from_slice(&body).ok().and_then(|body| self.from.read(model, &body));
        if let Some(tokens) = told {
            self.tokens.store(tokens, Ordering::Relaxed);
        }
    }
}

impl TellsWindow {
    fn address(self, replies: &Url) -> Url {
        let path = replies.path();
        let root = ["/v1/", "/api/"].iter().find_map(|part| path.find(part)).map_or("", |at| &path[..at]);
        let end = match self {
            Self::LlamaCpp => "/props",
            Self::Ollama => "/api/ps",
            Self::OllamaModel => "/api/show",
            Self::LmStudio => "/api/v0/models",
            Self::Vllm => "/v1/models",
        };
        let mut url = replies.clone();
        url.set_path(&format!("{root}{end}"));
        url
    }

    fn read(self, model: &str, body: &Value) -> Option<u64> {
        let list = |key: &str| body.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().to_vec();
        let named = |entry: &Value, key: &str| {
            // Ollama adds the tag that everybody leaves out.
            entry[key].as_str().is_some_and(|name| name == model || name.strip_suffix(":latest") == Some(model))
        };
        let entry = match self {
            Self::LlamaCpp => return body.pointer("/default_generation_settings/n_ctx")?.as_u64(),
            Self::OllamaModel => return most(body.get("model_info")?).map(|most| most.min(MOST_UNASKED_TOKENS)),
            Self::Ollama => list("models").into_iter().find(|entry| named(entry, "name"))?,
            Self::LmStudio | Self::Vllm => list("data").into_iter().find(|entry| named(entry, "id"))?,
        };
        let keys = ["context_length", "loaded_context_length", "max_model_len"];
        keys.iter().find_map(|key| entry.get(key)?.as_u64())
    }
}

/// The window that a model was made for; its name begins with that of the architecture.
fn most(info: &Value) -> Option<u64> {
    let architecture = info.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    info.get(format!("{architecture}.context_length"))?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_tells_in_its_own_place() {
        let told = |from: TellsWindow, body: Value| from.read("qwen3", &body);
        assert_eq!(told(TellsWindow::LlamaCpp, json!({"default_generation_settings": {"n_ctx": 8192}})), Some(8_192));
        let loaded = json!({"models": [{"name": "other:4b", "context_length": 1}, {"name": "qwen3:latest", "context_length": 4096}]});
        assert_eq!(told(TellsWindow::Ollama, loaded), Some(4_096));
        let listed = json!({"data": [{"id": "qwen3", "max_context_length": 131_072, "loaded_context_length": 32_768}]});
        assert_eq!(told(TellsWindow::LmStudio, listed), Some(32_768));
        assert_eq!(told(TellsWindow::Vllm, json!({"data": [{"id": "qwen3", "max_model_len": 40_960}]})), Some(40_960));
        assert_eq!(told(TellsWindow::Vllm, json!({"data": [{"id": "other", "max_model_len": 1}]})), None);
        assert_eq!(told(TellsWindow::Ollama, json!([])), None);
        let can = |tokens: u64| {
            let info =
                json!({"general.architecture": "qwen3", "qwen3.context_length": tokens, "clip.context_length": 77});
            told(TellsWindow::OllamaModel, json!({ "model_info": info }))
        };
        assert_eq!((can(40_960), can(262_144)), (Some(40_960), Some(65_536)));
    }

    #[test]
    fn it_is_asked_beside_the_replies() {
        let at = |from: TellsWindow, replies: &str| from.address(&Url::parse(replies).unwrap()).to_string();
        assert_eq!(at(TellsWindow::LlamaCpp, "http://h:1/v1/chat/completions"), "http://h:1/props");
        assert_eq!(at(TellsWindow::Ollama, "http://h:1/api/chat"), "http://h:1/api/ps");
        assert_eq!(at(TellsWindow::OllamaModel, "http://h:1/api/chat"), "http://h:1/api/show");
        assert_eq!(at(TellsWindow::LmStudio, "http://h:1/lm/v1/chat/completions"), "http://h:1/lm/api/v0/models");
    }
}
