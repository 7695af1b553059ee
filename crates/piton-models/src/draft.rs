//! A reply in the making, whichever protocol it comes by: pieces that grow, and the deltas that tell of it.
//!
//! A call's arguments are text until the reply is over. That they already parse as JSON means nothing before that.

use piton_core::call::CallInput;
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Part, ToolCall};
use piton_core::model::{Delta, Reply};
use serde_json::{Map, Value, json};

/// The pieces so far, in order of their beginning.
#[derive(Debug, Default)]
pub(crate) struct ReplyDraft {
    pieces: Vec<Piece>,
    /// The places of the calls among the pieces.
    calls: Vec<usize>,
}

#[derive(Debug)]
enum Piece {
    Text { text: String, opaque: Option<Value> },
    Reasoning { text: String, opaque: Option<Value> },
    Call(CallDraft),
}

/// A call in the making.
#[derive(Debug, Default)]
pub(crate) struct CallDraft {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) json: String,
    pub(crate) opaque: Option<Value>,
    /// Whether a piece of the arguments may have been lost on the way.
    is_doubtful: bool,
}

impl CallDraft {
    /// Whether the arguments are a whole object already.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(serde_json::from_str(&self.json), Ok(Value::Object(_)))
    }
}

impl ReplyDraft {
    /// Prose that goes on where prose was last, or begins.
    pub(crate) fn say(&mut self, text: &str, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let place = match self.pieces.last() {
            Some(Piece::Text { opaque: None, .. }) => self.pieces.len() - 1,
            // What has an attachment is a piece of its own.
            Some(Piece::Text { .. } | Piece::Reasoning { .. } | Piece::Call(_)) | None => self.open_text(None),
        };
        self.extend(place, text, deltas);
    }

    /// Reasoning that goes on where reasoning was last, or begins. `field` is where the server wants it back, if it does.
    pub(crate) fn think(&mut self, text: &str, field: Option<&str>, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let place = match self.pieces.last() {
            Some(Piece::Reasoning { .. }) => self.pieces.len() - 1,
            Some(Piece::Text { .. } | Piece::Call(_)) | None => {
                self.open_reasoning(field.map(|field| json!({ "field": field })))
            }
        };
        self.extend(place, text, deltas);
    }

    pub(crate) fn open_text(&mut self, opaque: Option<Value>) -> usize {
        self.pieces.push(Piece::Text { text: String::new(), opaque });
        self.pieces.len() - 1
    }

    pub(crate) fn open_reasoning(&mut self, opaque: Option<Value>) -> usize {
        self.pieces.push(Piece::Reasoning { text: String::new(), opaque });
        self.pieces.len() - 1
    }

    /// Begins a call and returns its position among the calls.
    pub(crate) fn open_call(&mut self) -> usize {
        self.calls.push(self.pieces.len());
        self.pieces.push(Piece::Call(CallDraft::default()));
        self.calls.len() - 1
    }

    /// Lengthens the text or reasoning at this place.
    pub(crate) fn extend(&mut self, place: usize, more: &str, deltas: &mut Vec<Delta>) {
        if more.is_empty() {
            return;
        }
        match self.pieces.get_mut(place) {
            Some(Piece::Text { text, opaque: _ }) => {
                text.push_str(more);
                deltas.push(Delta::Text { text: more.to_owned() });
            }
            Some(Piece::Reasoning { text, opaque: _ }) => {
                text.push_str(more);
                deltas.push(Delta::Reasoning { text: more.to_owned() });
            }
            Some(Piece::Call(_)) | None => {}
        }
    }

    /// The text or reasoning at this place as the server has it in the end. What it said before may differ; only what
    /// is new at the end can still be shown.
    pub(crate) fn settle_text(&mut self, place: usize, whole: &str, deltas: &mut Vec<Delta>) {
        let (Some(Piece::Text { text: said, opaque: _ }) | Some(Piece::Reasoning { text: said, opaque: _ })) =
            self.pieces.get_mut(place)
        else {
            return;
        };
        if whole.is_empty() || said == whole {
            return;
        }
        if let Some(more) = whole.strip_prefix(said.as_str()).map(ToOwned::to_owned) {
            self.extend(place, &more, deltas);
        } else {
            whole.clone_into(said);
        }
    }

    /// The attachment of the text or reasoning at this place.
    pub(crate) fn opaque_mut(&mut self, place: usize) -> Option<&mut Option<Value>> {
        match self.pieces.get_mut(place) {
            Some(Piece::Text { text: _, opaque } | Piece::Reasoning { text: _, opaque }) => Some(opaque),
            Some(Piece::Call(_)) | None => None,
        }
    }

    /// Whether nothing was said yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Stores the sources of the whole reply with its last prose.
    pub(crate) fn attach_sources(&mut self, sources: Map<String, Value>) {
        let last = self.pieces.iter_mut().rev().find_map(|piece| match piece {
            Piece::Text { opaque, .. } => Some(opaque),
            Piece::Reasoning { .. } | Piece::Call(_) => None,
        });
        if let Some(opaque) = last.filter(|_| !sources.is_empty()) {
            let opaque = opaque.get_or_insert_with(|| json!({}));
            sources.into_iter().for_each(|(key, found)| opaque[key] = found);
        }
    }

    /// Where the first reasoning stands.
    pub(crate) fn first_reasoning(&self) -> Option<usize> {
        self.pieces.iter().position(|piece| matches!(piece, Piece::Reasoning { .. }))
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.len()
    }

    /// The call at this position among the calls.
    pub(crate) fn call(&self, index: usize) -> Option<&CallDraft> {
        match self.pieces.get(*self.calls.get(index)?) {
            Some(Piece::Call(call)) => Some(call),
            Some(Piece::Text { .. } | Piece::Reasoning { .. }) | None => None,
        }
    }

    pub(crate) fn call_mut(&mut self, index: usize) -> Option<&mut CallDraft> {
        match self.pieces.get_mut(*self.calls.get(index)?) {
            Some(Piece::Call(call)) => Some(call),
            Some(Piece::Text { .. } | Piece::Reasoning { .. }) | None => None,
        }
    }

    /// The call's name, unless it has one: servers repeat it, and repetitions are not part of it.
    pub(crate) fn name_call(&mut self, index: usize, name: &str, deltas: &mut Vec<Delta>) {
        let Some(call) = self.call_mut(index) else { return };
        if !call.name.is_empty() || name.is_empty() {
            return;
        }
        name.clone_into(&mut call.name);
        deltas.push(Delta::CallBegan { index, name: name.to_owned() });
        if !call.json.is_empty() {
            deltas.push(Delta::CallInput { index, json: call.json.clone() });
        }
    }

    /// More of the call's arguments. Before its name is known they are kept, not shown.
    pub(crate) fn extend_call(&mut self, index: usize, json: &str, deltas: &mut Vec<Delta>) {
        let Some(call) = self.call_mut(index) else { return };
        call.json.push_str(json);
        if !call.name.is_empty() && !json.is_empty() {
            deltas.push(Delta::CallInput { index, json: json.to_owned() });
        }
    }

    /// The call's arguments as the server has them in the end, if it has any.
    pub(crate) fn settle_call(&mut self, index: usize, whole: &str, deltas: &mut Vec<Delta>) {
        let Some(call) = self.call_mut(index) else { return };
        if whole.is_empty() {
            return;
        }
        call.is_doubtful = false;
        if call.json == whole {
            return;
        }
        if let Some(more) = whole.strip_prefix(call.json.as_str()).map(ToOwned::to_owned) {
            self.extend_call(index, &more, deltas);
        } else {
            whole.clone_into(&mut call.json);
        }
    }

    /// Something was lost here. A call whose arguments are whole lost nothing; any other one may have, even if it
    /// parses in the end.
    pub(crate) fn gap(&mut self) {
        for piece in &mut self.pieces {
            if let Piece::Call(call) = piece {
                call.is_doubtful |= !call.is_whole();
            }
        }
    }

    /// Whether reasoning may be going on: neither prose nor a call came last.
    pub(crate) fn may_be_reasoning(&self) -> bool {
        matches!(self.pieces.last(), None | Some(Piece::Reasoning { .. }))
    }

    /// The finished reply, with its reason to stop [`settled`]. Pieces that stayed empty are left out; calls never are.
    pub(crate) fn into_reply(self, finish: FinishReason) -> Reply {
        let finish = settled(finish, self.calls() > 0);
        Reply::new(self.pieces.into_iter().filter_map(Piece::into_part).flat_map(unwrapped).collect(), finish)
    }
}

/// Calls win over a claim to have simply stopped, but not over a limit, a filter or a failure.
pub(crate) fn settled(finish: FinishReason, has_calls: bool) -> FinishReason {
    match finish {
        FinishReason::Stop | FinishReason::Paused | FinishReason::Other if has_calls => FinishReason::ToolCalls,
        // Without a call there is nothing to answer.
        FinishReason::ToolCalls if !has_calls => FinishReason::Stop,
        FinishReason::Stop
        | FinishReason::Paused
        | FinishReason::Other
        | FinishReason::ToolCalls
        | FinishReason::Length
        | FinishReason::ContentFilter
        | FinishReason::Error => finish,
    }
}

/// OpenAI's models sometimes put several calls into one of a tool that nobody offered. Those are the calls meant.
fn unwrapped(part: Part) -> Vec<Part> {
    const WRAPPER: &str = "multi_tool_use.parallel";
    let wrapped = match &part {
        Part::ToolCall(ToolCall { name, input: CallInput::Json(input), .. }) if name == WRAPPER => {
            input.get("tool_uses").and_then(Value::as_array).into_iter().flatten().filter_map(wrapped_call).collect()
        }
        _ => Vec::new(),
    };
    if wrapped.is_empty() { vec![part] } else { wrapped }
}

fn wrapped_call(entry: &Value) -> Option<Part> {
    let name = entry.get("recipient_name")?.as_str()?;
    Some(Part::ToolCall(ToolCall {
        id: CallId(String::new()),
        provider_id: None,
        name: name.strip_prefix("functions.").unwrap_or(name).to_owned(),
        spelling: None,
        input: CallInput::from_value(entry.get("parameters").cloned().unwrap_or_default()),
        opaque: None,
    }))
}

impl Piece {
    fn into_part(self) -> Option<Part> {
        match self {
            // What grew by doubling keeps up to as much room again; the part stays for the whole session.
            Self::Text { mut text, opaque } => {
                text.shrink_to_fit();
                (!text.is_empty() || opaque.is_some()).then_some(Part::Text { text, opaque })
            }
            Self::Reasoning { mut text, opaque } => {
                text.shrink_to_fit();
                (!text.is_empty() || opaque.is_some()).then_some(Part::Reasoning { text, opaque })
            }
            Self::Call(call) => {
                let input = CallInput::parse(&call.json);
                Some(Part::ToolCall(ToolCall {
                    id: CallId(String::new()),
                    provider_id: call.id,
                    spelling: None,
                    input: if call.is_doubtful { input.doubtful() } else { input },
                    name: call.name,
                    opaque: call.opaque,
                }))
            }
        }
    }
}
