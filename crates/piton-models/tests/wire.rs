//! Conformance: every recorded answer of all protocols, in any cut, must decode to what an independent decoder made of
//! it (`tests/wire/README.md` says where the recordings are from and what `expected.json` holds).

#![allow(clippy::unwrap_used, reason = "a test")]

use piton_models::protocol::WireProtocol;
use piton_models::wire::{self, ResponseBody};
use piton_testkit::conformance;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

#[test]
fn every_recording_decodes_as_the_reference_decoder_does_in_any_cut() {
    let cases = conformance::cases(&folder()).unwrap();
    let mut failures = Vec::new();
    for case in &cases {
        let found = case.differences();
        if !found.is_empty() {
            failures.push(format!("{}:\n    {}", case.name, found.join("\n    ")));
        }
    }
    assert_eq!(cases.len(), 512, "recordings are missing");
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn a_byte_order_mark_is_no_part_of_any_answer() {
    let text = "\u{feff}{\"message\":{\"content\":\"a\"},\"done\":true,\"done_reason\":\"stop\"}";
    for chunk_bytes in [1, 2, text.len()] {
        let mut body = ResponseBody::new(wire::protocol(WireProtocol::Ollama));
        text.as_bytes().chunks(chunk_bytes).for_each(|chunk| drop(body.push(chunk).unwrap()));
        body.finish().unwrap();
    }
}

/// Bytes changed, lost and doubled at random places of real answers: an answer or an error, never a panic.
#[test]
fn damaged_answers_do_no_harm() {
    const ROUNDS: u64 = 8;
    let protocols = [
        WireProtocol::Chat,
        WireProtocol::Responses,
        WireProtocol::Anthropic,
        WireProtocol::Gemini,
        WireProtocol::Ollama,
    ];
    for recording in conformance::cases(&folder()).unwrap() {
        let whole = recording.body().unwrap();
        for (seed, protocol) in (1..=ROUNDS).zip(protocols.iter().cycle()) {
            let damaged = damage(&whole[..whole.len().min(40_000)], seed);
            let mut body = ResponseBody::new(wire::protocol(*protocol));
            let read = damaged.chunks(1_000).try_for_each(|chunk| body.push(chunk).map(drop));
            let _ = read.and_then(|()| body.finish());
        }
    }
}

fn damage(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut dice = |sides: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % sides
    };
    let mut damaged = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        match dice(400) {
            0 => damaged.push(u8::try_from(dice(256)).unwrap()),
            1 => {}
            2 => damaged.extend([byte, byte]),
            3 => damaged.extend(*b"null"),
            _ => damaged.push(byte),
        }
    }
    damaged
}
