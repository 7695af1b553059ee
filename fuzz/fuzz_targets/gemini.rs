//! Answers of Gemini.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_models::gemini;
use piton_models::protocol::WireProtocol;

fuzz_target!(|bytes: &[u8]| {
    piton_fuzz::decode(WireProtocol::Gemini, bytes, |request| drop(gemini::encode(request)));
});
