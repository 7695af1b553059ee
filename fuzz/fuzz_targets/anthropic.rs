//! Answers of Messages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_models::anthropic;
use piton_models::protocol::WireProtocol;

fuzz_target!(|bytes: &[u8]| {
    piton_fuzz::decode(WireProtocol::Anthropic, bytes, |request| drop(anthropic::encode(request, 8_192)));
});
