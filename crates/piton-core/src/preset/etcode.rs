//! etcode's loop (document S3).

use super::{NO_LIMIT, Preset, set};
use crate::model::ModelErrorKind;
use crate::policy::{LastStep, OnEmpty, OnLength};
use crate::progress::{Compare, NoProgress, Stuck};
use crate::retry::{BeyondCap, Jitter, RetryOn};
use crate::truncate::OutputCut;

/// Retries of one model call.
const RETRIES: u32 = 5;
/// First wait, in milliseconds; it doubles.
const FIRST_WAIT_MS: u64 = 1_000;
/// Longest wait, in milliseconds.
const LONGEST_WAIT_MS: u64 = 30_000;
/// The classes that are tried again: rate limit, overloaded, time-out.
const RETRYABLE: [ModelErrorKind; 3] =
    [ModelErrorKind::RateLimited, ModelErrorKind::Overloaded, ModelErrorKind::Stalled];
/// Lines of a tool's output that the model reads.
const OUTPUT_LINES: usize = 2_000;
/// Bytes of it.
const OUTPUT_BYTES: usize = 50 * 1_024;

pub(super) const PRESET: Preset = Preset {
    name: "etcode",
    about: "etcode's loop: five retries from one second on, no limit of steps unless one is set, and then a hard one",
    based_on: None,
    settings: || {
        vec![
            set("max_steps", NO_LIMIT, "S3-021 C-04"),
            set("last_step", LastStep::Plain, "S3-021"),
            set("retry.per_call", RETRIES, "S3-062 C-02"),
            set("retry.first_ms", FIRST_WAIT_MS, "S3-061 C-01"),
            set("retry.cap_ms", LONGEST_WAIT_MS, "S3-061"),
            set("retry.cap_answered_ms", LONGEST_WAIT_MS, "S3-061"),
            set("retry.jitter", Jitter::None, "S3-061"),
            set("retry.provider_cap_ms", 0, "S3-061"),
            set("retry.beyond_cap", BeyondCap::OwnWait, "S3-061"),
            set("retry.on", RetryOn::Kinds(RETRYABLE.to_vec()), "S3-060"),
            // The document has no check for repetition; nothing bounds the steps but this, so it stays.
            set("no_progress", NoProgress { repeats: 3, compare: Compare::InputAndResult, then: Stuck::Ask }, "S3-021"),
            set("output_cut", OutputCut::WholeLines { max_lines: OUTPUT_LINES, max_bytes: OUTPUT_BYTES }, "N3-04"),
            set("max_denials_in_a_row", NO_LIMIT, "S3-056 C-13"),
            set("on_length", OnLength::End, "S3-022"),
            set("on_empty", OnEmpty::Accept, "S3-022"),
        ]
    },
};
