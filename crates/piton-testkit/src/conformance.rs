//! Recorded answers of providers against the real decoders: a folder of recordings with expected readings, each body
//! fed whole, in small pieces and byte by byte, and cut off at some places. The folder's README says what a recording
//! consists of and by which rules two readings are equal.
//!
//! Compared in terms of `expected.json`: [`described`] says a reply in them, [`expectation`] what was expected.

use piton_core::call::CallInput;
use piton_core::message::{FinishReason, Part, prose};
use piton_core::model::{ModelError, ModelErrorKind, Reply};
use piton_models::errors::{self, HttpRefusal};
use piton_models::protocol::WireProtocol;
use piton_models::wire::{self, ResponseBody};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// One recording.
#[derive(Debug)]
pub struct Case {
    /// `provider/case`.
    pub name: String,
    /// The path of its files without the endings.
    stem: PathBuf,
}

/// All recordings below a folder, by name.
pub fn cases(folder: &Path) -> std::io::Result<Vec<Case>> {
    let mut found = Vec::new();
    collect(folder, folder, &mut found)?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Case>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if let Some(stem) = path.to_string_lossy().strip_suffix(".meta.json") {
            let stem = PathBuf::from(stem);
            let name = stem.strip_prefix(root).unwrap_or(&stem).display().to_string();
            found.push(Case { name, stem });
        }
    }
    Ok(())
}

impl Case {
    /// The recorded body.
    pub fn body(&self) -> Result<Vec<u8>, String> {
        Recording::load(&self.stem).map(|recording| recording.body)
    }

    /// What differs between the decoders' reading and the expected one, in words; nothing where all is as expected.
    pub fn differences(&self) -> Vec<String> {
        match Recording::load(&self.stem) {
            Ok(recording) => recording.differences(),
            Err(error) => vec![format!("cannot be read: {error}")],
        }
    }
}

/// The files of a recording.
struct Recording {
    status: u16,
    headers: Vec<(String, String)>,
    protocol: WireProtocol,
    body: Vec<u8>,
    expected: Value,
}

impl Recording {
    fn load(stem: &Path) -> Result<Self, String> {
        let path = |ending: &str| PathBuf::from(format!("{}.{ending}", stem.display()));
        let bytes = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let document = |path: &Path| -> Result<Value, String> {
            serde_json::from_slice(&bytes(path)?).map_err(|error| format!("{}: {error}", path.display()))
        };
        let meta = document(&path("meta.json"))?;
        let body = ["sse", "ndjson", "json"].iter().map(|ending| path(ending)).find(|path| path.exists());
        let headers = meta["headers"].as_object().into_iter().flatten();
        Ok(Self {
            status: meta["status"].as_u64().and_then(|status| u16::try_from(status).ok()).ok_or("no status")?,
            headers: headers.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().into())).collect(),
            protocol: protocol(meta["api"].as_str().unwrap_or_default())?,
            body: bytes(&body.ok_or("no body")?)?,
            expected: document(&path("expected.json"))?,
        })
    }

    fn differences(&self) -> Vec<String> {
        for chunk_bytes in [self.body.len().max(1), 7, 1] {
            let found = self.compare(&self.decode(&self.body, chunk_bytes));
            if !found.is_empty() {
                return found.into_iter().map(|line| format!("in chunks of {chunk_bytes}: {line}")).collect();
            }
        }
        cuts(&self.body).into_iter().filter_map(|end| self.judge_cut(end)).take(1).collect()
    }

    fn decode(&self, bytes: &[u8], chunk_bytes: usize) -> Result<Reply, ModelError> {
        if self.status != 200 {
            let headers: Vec<(&str, &str)> =
                self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let body = String::from_utf8_lossy(bytes);
            let refusal = HttpRefusal { status: self.status, headers: &headers, body: &body };
            return Err(errors::from_response(&refusal, SystemTime::now()));
        }
        let mut body = ResponseBody::new(wire::protocol(self.protocol));
        for chunk in bytes.chunks(chunk_bytes) {
            body.push(chunk)?;
        }
        body.finish().map(|(_, reply)| reply)
    }

    fn compare(&self, decoded: &Result<Reply, ModelError>) -> Vec<String> {
        match (&self.expected["error"], decoded) {
            (Value::Null, Ok(reply)) => {
                let (seen, wanted) = (described(reply), expectation(&self.expected, self.protocol));
                let differs = wanted.iter().filter(|(key, wanted)| seen.get(*key) != Some(*wanted));
                differs.map(|(key, wanted)| format!("{key}: {} instead of {wanted}", seen[key])).collect()
            }
            (Value::Null, Err(error)) => vec![format!("failed: {error}")],
            (error, Ok(_)) => vec![format!("an answer instead of {error}")],
            (error, Err(seen)) => compare_errors(error, seen),
        }
    }

    /// A body that ends early is an error that is worth another try, or (where only counts are missing) the answer.
    fn judge_cut(&self, end: usize) -> Option<String> {
        if self.status != 200 || !self.expected["error"].is_null() {
            return None;
        }
        match self.decode(&self.body[..end], 64) {
            Err(error) if error.kind.is_retryable() => None,
            Err(error) => Some(format!("cut at {end}: {:?} instead of a cut: {error}", error.kind)),
            Ok(reply) => {
                let (seen, wanted) = (described(&reply), expectation(&self.expected, self.protocol));
                let differs = |key: &&str| wanted.get(*key).is_some_and(|wanted| seen[*key] != *wanted);
                let key = ["text", "calls", "finish"].into_iter().find(differs)?;
                Some(format!("cut at {end}: an answer with {key} {} instead of {}", seen[key], wanted[key]))
            }
        }
    }
}

/// Some places within a body, other ones in every body but always the same: ends of lines, and anywhere.
fn cuts(body: &[u8]) -> Vec<usize> {
    const ANYWHERE: usize = 24;
    const LINES: usize = 40;
    let ends: Vec<usize> = (0..body.len()).filter(|&at| body[at] == b'\n').collect();
    let stride = ends.len() / LINES + 1;
    let mut state = body
        .iter()
        .fold(0x9E37_79B9_7F4A_7C15_u64, |state, &byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    let anywhere = (0..ANYWHERE).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % body.len().max(1)
    });
    anywhere.chain(ends.into_iter().rev().step_by(stride)).collect()
}

fn protocol(api: &str) -> Result<WireProtocol, String> {
    Ok(match api {
        "anthropic" => WireProtocol::Anthropic,
        "openai_chat" => WireProtocol::Chat,
        "openai_responses" => WireProtocol::Responses,
        "gemini" => WireProtocol::Gemini,
        "ollama" => WireProtocol::Ollama,
        other => return Err(format!("no protocol is called {other:?}")),
    })
}

/// A reply in the terms of `expected.json`.
fn described(reply: &Reply) -> Map<String, Value> {
    let (mut reasoning, mut signatures, mut redacted) = (String::new(), 0, 0);
    let (mut calls, mut server_tools, mut is_cited) = (Vec::new(), Vec::new(), false);
    for part in &reply.parts {
        match part {
            Part::Reasoning { text, opaque } => {
                reasoning.push_str(text);
                let opaque = opaque.as_ref().unwrap_or(&Value::Null);
                signatures += signed(opaque);
                redacted += usize::from(opaque.get("redacted_thinking").is_some());
                server_tools.extend(server_tool(opaque));
            }
            Part::ToolCall(call) => {
                signatures += call.opaque.as_ref().map_or(0, signed);
                calls.push(match &call.input {
                    CallInput::Json(value) => json!([call.provider_id, call.name, value]),
                    CallInput::Invalid { raw, error: _ } => json!([call.provider_id, call.name, head(raw), "invalid"]),
                });
            }
            Part::Text { text: _, opaque } => {
                signatures += opaque.as_ref().map_or(0, signed);
                is_cited |= opaque.as_ref().is_some_and(names_sources);
            }
            Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => {}
        }
    }
    let usage = reply.usage;
    object(json!({
        "text": prose(&reply.parts),
        "reasoning": squeezed(&reasoning),
        "signatures": signatures,
        "redacted": redacted,
        "calls": calls,
        "server_tools": server_tools,
        "has_citations": is_cited,
        "finish": reply.finish,
        "finish_raw": reply.finish_raw,
        "usage": [usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens,
            usage.reasoning_tokens],
    }))
}

/// Whether an attachment says where the words are from.
fn names_sources(opaque: &Value) -> bool {
    let members = ["citations", "annotations", "groundingMetadata", "citationMetadata"];
    members.iter().any(|member| opaque.get(member).is_some())
}

/// How many signatures an attachment carries.
fn signed(opaque: &Value) -> usize {
    let is_there = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let item = opaque.get("item").filter(|item| item["type"] == "reasoning");
    let places = ["/signature", "/thoughtSignature", "/part/thoughtSignature"];
    let is_signed = places.iter().any(|place| is_there(opaque.pointer(place)))
        || is_there(item.and_then(|item| item.get("encrypted_content")));
    let details = opaque.get("reasoning_details").and_then(Value::as_array).into_iter().flatten();
    let signed = details.filter(|detail| is_there(detail.get("signature")) || is_there(detail.get("data")));
    usize::from(is_signed) + signed.count()
}

/// The provider's own tool that an attachment tells of.
fn server_tool(opaque: &Value) -> Option<Value> {
    if let Some(tool) = opaque.get("server_tool") {
        return Some(json!([tool["type"], tool["name"]]));
    }
    if let Some(block) = opaque.get("block") {
        let kind = block["type"].as_str().unwrap_or_default();
        return kind.ends_with("tool_use").then(|| json!([kind, block["name"]]));
    }
    opaque.pointer("/part/executableCode").map(|_| json!(["executableCode", null]))
}

/// What is expected, in the same terms; unknown counts are 0. What this leaves out is not compared.
fn expectation(expected: &Value, protocol: WireProtocol) -> Map<String, Value> {
    let text = |key: &str| expected[key].as_str().unwrap_or_default();
    let list = |key: &str| expected[key].as_array().into_iter().flatten();
    let calls: Vec<Value> = list("tool_calls").flat_map(expected_calls).collect();
    let tools: Vec<Value> = list("server_tool_calls").map(|tool| json!([tool["type"], tool["name"]])).collect();
    let count = |key: &str| expected["usage"][key].as_u64().unwrap_or(0);
    // Refusals are shown as text here. Anthropic has no words of its own for them.
    let refusal = if protocol == WireProtocol::Anthropic { "" } else { text("refusal") };
    let finish = finish(expected["finish_reason"].as_str().unwrap_or_default(), !calls.is_empty());
    let mut wanted = object(json!({
        "text": format!("{}{refusal}", text("text")),
        "reasoning": squeezed(text("reasoning")),
        "signatures": expected["signatures"].as_u64().unwrap_or(0),
        "redacted": expected["redacted_thinking"].as_u64().unwrap_or(0),
        "calls": calls,
        "server_tools": tools,
        "finish_raw": expected["finish_reason_raw"].as_str().filter(|raw| !raw.is_empty()),
        "usage": [count("input"), count("cached"), count("cache_write"), count("output"), count("reasoning")],
    }));
    // The reference decoder says so only where it found some.
    if expected["has_citations"] == true {
        wanted.insert("has_citations".into(), true.into());
    }
    if let Some(finish) = finish {
        wanted.insert("finish".into(), json!(finish));
    }
    wanted
}

/// Our reason for a normalised one; `None` for a word that the reference decoder did not know either.
fn finish(reason: &str, has_calls: bool) -> Option<FinishReason> {
    Some(match reason {
        "stop" => FinishReason::Stop,
        "tool_calls" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        "content_filter" | "refusal" => FinishReason::ContentFilter,
        "error" => FinishReason::Error,
        // No reason was given, which the calls make up for.
        "" if has_calls => FinishReason::ToolCalls,
        "pause" => FinishReason::Paused,
        "" => FinishReason::Other,
        _ => return None,
    })
}

/// A call as it is run: one that wraps others is those others, without an id of their own.
fn expected_calls(call: &Value) -> Vec<Value> {
    let wrapped = call.pointer("/arguments/tool_uses").and_then(Value::as_array);
    if let Some(wrapped) = wrapped.filter(|_| call["name"] == "multi_tool_use.parallel") {
        let name = |entry: &Value| {
            entry["recipient_name"].as_str().map(|name| name.trim_start_matches("functions.").to_owned())
        };
        return wrapped.iter().map(|entry| json!([null, name(entry), entry["parameters"]])).collect();
    }
    // An empty id is none.
    let id = call["id"].as_str().filter(|id| !id.is_empty());
    if call["invalid_json"] == true {
        return vec![json!([id, call["name"], head(call["arguments_raw"].as_str().unwrap_or_default()), "invalid"])];
    }
    if call["kind"] == "custom" {
        return vec![json!([id, call["name"], { "input": call["input"] }])];
    }
    vec![json!([id, call["name"], call["arguments"]])]
}

fn compare_errors(error: &Value, seen: &ModelError) -> Vec<String> {
    let wanted = kind(error["kind"].as_str().unwrap_or_default());
    let words = error["message"].as_str().unwrap_or_default().split_whitespace().take(5).collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    if seen.kind != wanted {
        found.push(format!("error {:?} instead of {wanted:?}", seen.kind));
    }
    if error["retryable"].as_bool().is_some_and(|retryable| retryable != seen.kind.is_retryable()) {
        found.push(format!("error {:?}, but retryable is {}", seen.kind, error["retryable"]));
    }
    if !seen.message.contains(&words) {
        found.push(format!("error says {:?} instead of {words:?}", seen.message));
    }
    found
}

fn kind(name: &str) -> ModelErrorKind {
    match name {
        "rate_limit" => ModelErrorKind::RateLimited,
        "overloaded" => ModelErrorKind::Overloaded,
        "quota" => ModelErrorKind::QuotaSpent,
        "context_length" => ModelErrorKind::WindowExceeded,
        "auth" => ModelErrorKind::Auth,
        "not_found" => ModelErrorKind::NotFound,
        "server" => ModelErrorKind::Server,
        _ => ModelErrorKind::InvalidRequest,
    }
}

/// Where arguments are broken, their beginning is compared: long ones are kept cut.
fn head(raw: &str) -> String {
    const COMPARED_CHARS: usize = 100;
    raw.chars().take(COMPARED_CHARS).collect()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
