//! Whoever wants to sees the raw pieces of an answer, unknown ones too.

#![allow(clippy::unwrap_used, reason = "tests")]

use piton_models::chunks;
use piton_models::protocol::WireProtocol;
use piton_models::wire::{self, ResponseBody};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn every_piece_is_seen_as_it_came_and_only_where_somebody_looks() {
    let said =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\nevent: odd\ndata: {\"never\":\"heard of\"}\n\n\
                 data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let read = || ResponseBody::new(wire::protocol(WireProtocol::Chat)).push(said).unwrap().len();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = Arc::clone(&seen);
        Arc::new(move |chunk: &str| seen.lock().unwrap().push(chunk.to_owned()))
    };
    let deltas = chunks::seen_by(sink, async { read() }).await;
    assert_eq!(deltas, read());
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[1], "{\"never\":\"heard of\"}");
}
