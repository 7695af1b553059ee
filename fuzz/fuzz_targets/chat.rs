//! Answers of Chat Completions.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_models::chat::{self, Dialect};
use piton_models::protocol::WireProtocol;

fuzz_target!(|bytes: &[u8]| {
    piton_fuzz::decode(WireProtocol::Chat, bytes, |request| drop(chat::encode(request, Dialect::Echoing)));
});
