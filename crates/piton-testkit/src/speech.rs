//! The events of one scripted answer, in the words of each protocol.

mod gemini;
mod ollama;
mod responses;

use crate::script::Answer;
use serde_json::{Value, json};

/// Which protocol a request spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    Chat,
    Anthropic,
    Responses,
    Gemini,
    Ollama,
}

/// The events before, during and after the point where a script may interfere.
pub(crate) struct Events {
    pub(crate) opening: Vec<String>,
    pub(crate) prose: Vec<String>,
    /// Ends the prose block; not said when the answer is cut.
    pub(crate) rest: Vec<String>,
}

impl Speech {
    /// The whole answer. `turn` makes ids unique over requests.
    pub(crate) fn events(self, answer: &Answer, model: &str, turn: usize) -> Events {
        match self {
            Self::Chat => chat(answer, model, turn),
            Self::Anthropic => anthropic(answer, model, turn),
            Self::Responses => responses::events(answer, model, turn),
            Self::Gemini => gemini::events(answer, model, turn),
            Self::Ollama => ollama::events(answer, model, turn),
        }
    }

    /// What a request for this path (without its query) wants to hear.
    pub(crate) fn at(path: &str) -> Option<Self> {
        let ends = [
            ("/chat/completions", Self::Chat),
            ("/messages", Self::Anthropic),
            ("/responses", Self::Responses),
            (":streamGenerateContent", Self::Gemini),
            ("/api/chat", Self::Ollama),
        ];
        ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, speech)| speech)
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Chat | Self::Anthropic | Self::Responses | Self::Gemini => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }

    /// Something that is no event of this protocol.
    pub(crate) fn garbage(self) -> &'static str {
        match self {
            Self::Chat | Self::Anthropic | Self::Responses | Self::Gemini => "data: {\"garbage\": tru\n\n",
            Self::Ollama => "{\"garbage\": tru}\n",
        }
    }

    /// This event without its second half.
    pub(crate) fn garbled(self, event: &str) -> String {
        let half: String = event.chars().take(event.chars().count() / 2).collect();
        let end = if self == Self::Ollama { "\n" } else { "\n\n" };
        format!("{}{end}", half.trim_end())
    }

    /// What says that the server is there, and nothing else.
    pub(crate) fn keep_alive(self) -> String {
        match self {
            Self::Chat | Self::Responses | Self::Gemini => ": PROCESSING\n\n".to_owned(),
            Self::Anthropic => named("ping", &json!({ "type": "ping" })),
            Self::Ollama => ollama::line(&json!({ "message": { "role": "assistant", "content": "" }, "done": false })),
        }
    }

    /// An error inside the stream.
    pub(crate) fn error(self, error: &Value) -> String {
        match self {
            Self::Chat | Self::Gemini => data(&json!({ "error": error })),
            Self::Ollama => ollama::line(&json!({ "error": error })),
            Self::Anthropic | Self::Responses => named("error", &json!({ "type": "error", "error": error })),
        }
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn named(event: &str, value: &Value) -> String {
    format!("event: {event}\ndata: {value}\n\n")
}

fn chat(answer: &Answer, model: &str, turn: usize) -> Events {
    let id = format!("chatcmpl-{turn}");
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        data(&json!({ "id": id, "object": "chat.completion.chunk", "model": model, "choices": [choice] }))
    };
    let say = |delta: Value| chunk(delta, Value::Null);
    let mut opening = vec![say(json!({ "role": "assistant", "content": "" }))];
    opening.extend(answer.reasoning.iter().map(|text| say(json!({ "reasoning_content": text }))));
    let prose = answer.text_deltas().into_iter().map(|text| say(json!({ "content": text }))).collect();
    let mut rest = Vec::new();
    for (index, tool) in answer.tools.iter().enumerate() {
        let id = tool.id.clone().unwrap_or_else(|| format!("call_{turn}_{index}"));
        let function = json!({ "name": tool.name, "arguments": "" });
        rest.push(say(
            json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] }),
        ));
        for piece in pieces(&tool.json()) {
            rest.push(say(json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] })));
        }
    }
    let usual = if answer.tools.is_empty() { "stop" } else { "tool_calls" };
    rest.push(chunk(json!({}), answer.finish.as_deref().unwrap_or(usual).into()));
    let usage = chat_usage(answer.usage.as_ref());
    rest.push(data(
        &json!({ "id": id, "object": "chat.completion.chunk", "model": model, "choices": [], "usage": usage }),
    ));
    rest.push("data: [DONE]\n\n".to_owned());
    Events { opening, prose, rest }
}

fn chat_usage(usage: Option<&Value>) -> Value {
    if let Some(usage) = usage.filter(|usage| usage.get("prompt_tokens").is_some()) {
        return usage.clone();
    }
    let count = |key: &str, otherwise: u64| scripted(usage, key).unwrap_or(otherwise);
    let (input, output) = (count("input", 10), count("output", 5));
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
        "prompt_tokens_details": { "cached_tokens": count("cached", 0), "cache_write_tokens": count("cache_write", 0) },
        "completion_tokens_details": { "reasoning_tokens": count("reasoning", 0) },
    })
}

fn anthropic(answer: &Answer, model: &str, turn: usize) -> Events {
    let (before, after) = anthropic_usage(answer.usage.as_ref());
    let message = json!({ "id": format!("msg_{turn}"), "type": "message", "role": "assistant", "model": model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": before });
    let mut opening = vec![named("message_start", &json!({ "type": "message_start", "message": message }))];
    let mut index = 0;
    if let Some(text) = &answer.reasoning {
        opening.push(block_start(index, &json!({ "type": "thinking", "thinking": "", "signature": "" })));
        opening.push(block_delta(index, &json!({ "type": "thinking_delta", "thinking": text })));
        opening.push(block_delta(index, &json!({ "type": "signature_delta", "signature": format!("sig-{turn}") })));
        opening.push(block_stop(index));
        index += 1;
    }
    let texts = answer.text_deltas();
    let mut prose = Vec::new();
    let mut rest = Vec::new();
    if !texts.is_empty() {
        prose.push(block_start(index, &json!({ "type": "text", "text": "" })));
        prose.extend(texts.iter().map(|text| block_delta(index, &json!({ "type": "text_delta", "text": text }))));
        rest.push(block_stop(index));
        index += 1;
    }
    for (number, tool) in answer.tools.iter().enumerate() {
        let id = tool.id.clone().unwrap_or_else(|| format!("toolu_{turn}_{number}"));
        rest.push(block_start(index, &json!({ "type": "tool_use", "id": id, "name": tool.name, "input": {} })));
        for piece in pieces(&tool.json()) {
            rest.push(block_delta(index, &json!({ "type": "input_json_delta", "partial_json": piece })));
        }
        rest.push(block_stop(index));
        index += 1;
    }
    let delta = json!({ "stop_reason": stop_reason(answer), "stop_sequence": null });
    rest.push(named("message_delta", &json!({ "type": "message_delta", "delta": delta, "usage": after })));
    rest.push(named("message_stop", &json!({ "type": "message_stop" })));
    Events { opening, prose, rest }
}

fn block_start(index: usize, block: &Value) -> String {
    named("content_block_start", &json!({ "type": "content_block_start", "index": index, "content_block": block }))
}

fn block_delta(index: usize, delta: &Value) -> String {
    named("content_block_delta", &json!({ "type": "content_block_delta", "index": index, "delta": delta }))
}

fn block_stop(index: usize) -> String {
    named("content_block_stop", &json!({ "type": "content_block_stop", "index": index }))
}

fn stop_reason(answer: &Answer) -> &str {
    match answer.finish.as_deref() {
        None if answer.tools.is_empty() => "end_turn",
        None | Some("tool_calls") => "tool_use",
        Some("stop") => "end_turn",
        Some("length") => "max_tokens",
        Some("content_filter") => "refusal",
        Some(other) => other,
    }
}

/// The counts at the start of a message and at its end.
fn anthropic_usage(usage: Option<&Value>) -> (Value, Value) {
    if let Some(usage) = usage.filter(|usage| usage.get("input_tokens").is_some()) {
        return (usage.clone(), usage.clone());
    }
    let count = |key: &str, otherwise: u64| scripted(usage, key).unwrap_or(otherwise);
    let (cached, written) = (count("cached", 0), count("cache_write", 0));
    let fresh = count("input", count("prompt_tokens", 10)).saturating_sub(cached + written);
    let before = json!({ "input_tokens": fresh, "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written, "output_tokens": 1 });
    (before, json!({ "output_tokens": count("output", count("completion_tokens", 5)) }))
}

/// A count of the script's own, such as `input`.
fn scripted(usage: Option<&Value>, key: &str) -> Option<u64> {
    usage?.get(key)?.as_u64()
}

/// Arguments as models stream them: in pieces that end anywhere.
fn pieces(json: &str) -> Vec<String> {
    const PIECE_CHARS: usize = 24;
    let chars: Vec<char> = json.chars().collect();
    chars.chunks(PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
}
