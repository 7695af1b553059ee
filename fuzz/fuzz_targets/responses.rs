//! Answers of Responses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use piton_models::responses;
use piton_models::protocol::WireProtocol;

fuzz_target!(|bytes: &[u8]| {
    piton_fuzz::decode(WireProtocol::Responses, bytes, |request| drop(responses::encode(request)));
});
