//! What holds for the decoder of every protocol, whatever a server sends.

use piton_core::message::{Message, Part, Role};
use piton_core::model::{Delta, ModelError, ModelErrorKind, Reply, Request};
use piton_models::protocol::WireProtocol;
use piton_models::wire::{self, ResponseBody};
use std::sync::Arc;

/// Reads the bytes after the first, which says how they are cut. Any cut comes to the same end, and what was read can be
/// sent back.
pub fn decode(protocol: WireProtocol, bytes: &[u8], encode: impl Fn(&Request)) {
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let whole = read(protocol, bytes, bytes.len().max(1));
    for chunk_bytes in [usize::from(size).max(1), 1] {
        assert_eq!(read(protocol, bytes, chunk_bytes), whole, "in chunks of {chunk_bytes}");
    }
    if let Ok((_, reply)) = whole {
        let messages = [Message::new(Role::Assistant, reply.parts)];
        encode(&Request {
            session: String::new(),
            model: "gemini-3".into(),
            system: String::new(),
            tools: Arc::new([]),
            may_call: true,
            messages: messages.into_iter().map(Arc::new).collect(),
            max_output_tokens: None,
        });
    }
}

/// What was shown of prose, and the reply; or what kind of failure it was.
fn read(protocol: WireProtocol, bytes: &[u8], chunk_bytes: usize) -> Result<(String, Reply), ModelErrorKind> {
    let kind = |error: ModelError| error.kind;
    let mut body = ResponseBody::new(wire::protocol(protocol));
    let mut shown = String::new();
    let mut show = |deltas: Vec<Delta>| {
        for delta in deltas {
            if let Delta::Text { text } = delta {
                shown.push_str(&text);
            }
        }
    };
    for chunk in bytes.chunks(chunk_bytes) {
        show(body.push(chunk).map_err(kind)?);
    }
    let (deltas, mut reply) = body.finish().map_err(kind)?;
    show(deltas);
    for part in &mut reply.parts {
        if let Part::ToolCall(call) = part {
            call.id = "c1_0".into();
        }
    }
    Ok((shown, reply))
}
