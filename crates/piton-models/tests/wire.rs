//! Conformance: every recorded answer of all protocols, in any cut, must decode to what an independent decoder made of
//! it (`tests/wire/README.md` says where the recordings are from and what `expected.json` holds).

#![allow(clippy::unwrap_used, reason = "a test")]

use piton_testkit::conformance;
use std::path::Path;

#[test]
fn every_recording_decodes_as_the_reference_decoder_does_in_any_cut() {
    let cases = conformance::cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire")).unwrap();
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
