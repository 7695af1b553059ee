//! Answers of Ollama.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_models::ollama;
use piton_models::protocol::WireProtocol;

fuzz_target!(|bytes: &[u8]| {
    piton_fuzz::decode(WireProtocol::Ollama, bytes, |request| drop(ollama::encode(request, None)));
});
