//! The loop kernel of Pulse Coder (document S1, with the constants that S2 gives it).

use super::{NO_LIMIT, Preset, set};
use crate::compact::Compaction;
use crate::policy::Wording;
use crate::policy::{LastStep, OnEmpty, OnLength};
use crate::progress::{Compare, NoProgress, Stuck};
use crate::retry::{BackoffBy, BeyondCap, Jitter, RetryOn};
use crate::truncate::OutputCut;

/// `MAX_STEPS`, in model replies a turn. The document leaves it open; this is the newest number.
const MAX_STEPS: u32 = 500;
/// `MAX_ERROR_COUNT`, in failed model calls of the whole turn: success does not reset it.
const MAX_ERROR_COUNT: u32 = 3;
/// `MAX_COMPACTION_ATTEMPTS`, a turn.
const MAX_COMPACTION_ATTEMPTS: u32 = 2;
/// First wait, in milliseconds; it doubles.
const FIRST_WAIT_MS: u64 = 2_000;
/// Longest wait, in milliseconds.
const LONGEST_WAIT_MS: u64 = 30_000;
/// The HTTP statuses that are tried again.
const RETRYABLE: [u16; 4] = [429, 500, 502, 503];
/// `MAX_TOOL_OUTPUT_LENGTH`, in characters: half of it from each end.
const MAX_TOOL_OUTPUT_CHARS: usize = 30_000;

pub(super) const PRESET: Preset = Preset {
    name: "pulse",
    about: "Pulse Coder's kernel: errors are counted over the run, the third ends it, the result is a string",
    based_on: None,
    settings: || {
        vec![
            set("max_steps", MAX_STEPS, "S1-011 C-21"),
            set("last_step", LastStep::Plain, "S1-052"),
            set("retry.per_call", NO_LIMIT, "S1-010"),
            set("retry.per_turn", MAX_ERROR_COUNT, "S1-010 S1-013 S1-061 C-02"),
            set("retry.first_ms", FIRST_WAIT_MS, "S1-063 S2-022 C-01"),
            set("retry.cap_ms", LONGEST_WAIT_MS, "S1-063 S2-022"),
            set("retry.cap_answered_ms", LONGEST_WAIT_MS, "S1-063 S2-022"),
            set("retry.backoff_by", BackoffBy::Turn, "S2-022"),
            set("retry.jitter", Jitter::None, "S1-063 S2-022"),
            set("retry.provider_cap_ms", 0, "S2-022"),
            set("retry.beyond_cap", BeyondCap::OwnWait, "S2-022"),
            set("retry.on", RetryOn::Statuses(RETRYABLE.to_vec()), "S1-062 S2-021"),
            set("compaction", Compaction::pulse(), "N1-07"),
            set("max_compactions", MAX_COMPACTION_ATTEMPTS, "S1-012"),
            set("compact_on_error", false, "S1-021 S1-064"),
            // The document knows no check: its limit of steps is what ends a loop.
            set("no_progress", NoProgress { repeats: 0, compare: Compare::Input, then: Stuck::End }, "S1-011 S1-051"),
            set("output_cut", OutputCut::HeadTail { max_chars: MAX_TOOL_OUTPUT_CHARS }, "S2-005 S2-030"),
            set("max_denials_in_a_row", NO_LIMIT, "S1-033 C-13"),
            set("on_length", OnLength::Compact, "S1-053 N1-06 C-16"),
            set("on_empty", OnEmpty::Accept, "S1-050"),
            set("words", Wording::Pulse, "S1-050 S1-052 S1-053 S1-055 S1-056 S1-060"),
        ]
    },
};
