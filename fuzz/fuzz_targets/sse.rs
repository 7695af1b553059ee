//! However the bytes are cut, the same events come out, and no more waits than came in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_http::sse::{SseDecoder, SseEvent};

fuzz_target!(|bytes: &[u8]| {
    let Some((&size, bytes)) = bytes.split_first() else { return };
    let whole = events(bytes, bytes.len().max(1));
    assert_eq!(events(bytes, usize::from(size).max(1)), whole);
    assert_eq!(events(bytes, 1), whole);
});

fn events(bytes: &[u8], chunk_bytes: usize) -> Vec<SseEvent> {
    let mut decoder = SseDecoder::new();
    let mut events: Vec<SseEvent> = bytes.chunks(chunk_bytes).flat_map(|chunk| decoder.push(chunk)).collect();
    assert!(decoder.pending_bytes() <= 3 * bytes.len(), "a bad byte is three bytes once it is replaced");
    events.extend(decoder.finish());
    events
}
