//! The request body of Gemini. Same request, same bytes; one more message only adds bytes to `contents`, and what may
//! change from step to step stands behind them.

use crate::generation::Gemini;
use crate::history::{self, IdRule, WireIds, sent_input, sent_name, speaks};
use crate::protocol::text_at;
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::Request;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// The body that asks this request. The model and the wish for a stream stand in the address.
pub fn encode(request: &Request) -> Value {
    let mut body = Map::new();
    if !request.system.is_empty() {
        body.insert("systemInstruction".into(), json!({ "parts": [{ "text": request.system }] }));
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            // Plain JSON Schema; the older `parameters` takes a dialect of its own.
            json!({ "name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema })
        });
        body.insert("tools".into(), json!([{ "functionDeclarations": tools.collect::<Value>() }]));
    }
    body.insert("contents".into(), contents(request).into());
    if !request.tools.is_empty() && !request.may_call {
        body.insert("toolConfig".into(), json!({ "functionCallingConfig": { "mode": "NONE" } }));
    }
    let mut config = Map::new();
    if let Some(tokens) = request.max_output_tokens {
        config.insert("maxOutputTokens".into(), tokens.into());
    }
    if Gemini::of(&request.model) > Gemini::Plain {
        config.insert("thinkingConfig".into(), json!({ "includeThoughts": true }));
    }
    if !config.is_empty() {
        body.insert("generationConfig".into(), config.into());
    }
    Value::Object(body)
}

fn contents(request: &Request) -> Vec<Value> {
    let ids = GivenIds::of(&request.messages);
    let generation = Gemini::of(&request.model);
    let mut list = Vec::new();
    for message in &request.messages {
        match message.role {
            Role::User => list.extend(content("user", message.parts.iter().filter_map(user_part).collect())),
            Role::Assistant if speaks(message) => list.extend(content("model", model_parts(message, &ids, generation))),
            Role::Assistant => {}
            Role::Tool => {
                let answers = history::answers(message);
                let results = answers.iter().map(|answer| result(answer, ids.get(answer.call)));
                list.extend(content("user", results.collect()));
                // The turn of results holds nothing else, so their images follow.
                let images = answers.iter().flat_map(|answer| &answer.images);
                let images = images.map(|(media_type, data)| image(media_type, data));
                list.extend(content("user", images.collect()));
            }
        }
    }
    list
}

/// The ids of calls that came with one; the others are told apart by their order alone.
struct GivenIds<'m> {
    ids: WireIds,
    given: HashSet<&'m CallId>,
}

impl<'m> GivenIds<'m> {
    fn of(messages: &'m [Arc<Message>]) -> Self {
        let calls = messages.iter().flat_map(|message| message.calls());
        let given = calls.filter(|call| call.provider_id.is_some()).map(|call| &call.id).collect();
        Self { ids: WireIds::of(messages, IdRule::Free), given }
    }

    fn get<'s>(&'s self, call: &'s CallId) -> Option<&'s str> {
        self.given.contains(call).then(|| self.ids.get(call))
    }
}

fn content(role: &str, parts: Vec<Value>) -> Option<Value> {
    if parts.is_empty() {
        return None;
    }
    let mut content = json!({ "role": role });
    content["parts"] = parts.into();
    Some(content)
}

fn image(media_type: &str, data: &str) -> Value {
    json!({ "inlineData": { "mimeType": media_type, "data": data } })
}

fn user_part(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text, .. } | Part::Note { text, .. } => (!text.is_empty()).then(|| json!({ "text": text })),
        Part::Image { media_type, data } => Some(image(media_type, data)),
        Part::Reasoning { .. } | Part::ToolCall(_) | Part::ToolResult { .. } => None,
    }
}

fn model_parts(message: &Message, ids: &GivenIds<'_>, generation: Gemini) -> Vec<Value> {
    let is_signed = message.calls().any(|call| signature(call.opaque.as_ref()).is_some());
    let mut needs_stand_in = generation == Gemini::Graded && !is_signed;
    let mut parts = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text { text, opaque } => parts.extend(text_part(text, signature(opaque.as_ref()))),
            Part::Note { text, .. } => parts.extend(text_part(text, None)),
            Part::Reasoning { text: _, opaque } => parts.extend(opaque.as_ref().and_then(replayed)),
            Part::ToolCall(call) => parts.push(function_call(call, ids, std::mem::take(&mut needs_stand_in))),
            Part::ToolResult { .. } | Part::Image { .. } => {}
        }
    }
    parts
}

/// Words, and their signature where they have one: that may stand in a part without words.
fn text_part(text: &str, signature: Option<&str>) -> Option<Value> {
    let mut part = json!({ "text": text });
    if let Some(signature) = signature {
        part["thoughtSignature"] = signature.into();
    }
    (!text.is_empty() || signature.is_some()).then_some(part)
}

fn signature(opaque: Option<&Value>) -> Option<&str> {
    text_at(opaque?, "thoughtSignature")
}

/// A part that is only there for the provider. A signature on words may stand in a part without words.
fn replayed(opaque: &Value) -> Option<Value> {
    let signed = |signature| json!({ "text": "", "thoughtSignature": signature });
    opaque.get("part").cloned().or_else(|| signature(Some(opaque)).map(signed))
}

/// The provider's word for a call that another model made, which it could not have signed.
const STAND_IN: &str = "skip_thought_signature_validator";

fn function_call(call: &ToolCall, ids: &GivenIds<'_>, needs_stand_in: bool) -> Value {
    let mut function = json!({ "name": sent_name(call.spelling()), "args": sent_input(&call.input) });
    if let Some(id) = ids.get(&call.id) {
        function["id"] = id.into();
    }
    let mut part = json!({ "functionCall": function });
    if let Some(signature) = signature(call.opaque.as_ref()).or_else(|| needs_stand_in.then_some(STAND_IN)) {
        part["thoughtSignature"] = signature.into();
    }
    part
}

fn result(answer: &history::ToolAnswer<'_>, id: Option<&str>) -> Value {
    let key = if answer.outcome.status.is_error() { "error" } else { "output" };
    let mut response = json!({ "name": answer.tool, "response": { key: answer.text() } });
    if let Some(id) = id {
        response["id"] = id.into();
    }
    json!({ "functionResponse": response })
}
