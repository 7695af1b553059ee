//! OpenCode's `loop` (document S4), with the numbers of version 1.17.20 (MIT) where the document leaves them open.

use super::{NO_LIMIT, Preset, set};
use crate::compact::Compaction;
use crate::policy::{DenialsCounted, LastStep, OnEmpty, OnLength, OnUnknown, ToolFields};
use crate::progress::{Compare, NoProgress, Stuck};
use crate::retry::{BeyondCap, Jitter};
use crate::truncate::OutputCut;

/// First wait, in milliseconds; it doubles.
const FIRST_WAIT_MS: u64 = 2_000;
/// Longest wait, in milliseconds, where the provider did not answer.
const LONGEST_WAIT_MS: u64 = 30_000;
/// The longest delay that a JavaScript timer takes, in milliseconds: the only cap on other waits.
const TIMER_MAX_MS: u64 = 2_147_483_647;
/// Lines of a tool's output that the model reads.
const OUTPUT_LINES: usize = 2_000;
/// Bytes of it.
const OUTPUT_BYTES: usize = 51_200;
/// Identical calls in a row before a person is asked.
const DOOM_LOOP_THRESHOLD: u32 = 3;

pub(super) const PRESET: Preset = Preset {
    name: "opencode",
    about: "OpenCode's loop: no limit of steps, retries without end, an unknown end goes on, a refused question ends it",
    based_on: None,
    settings: || {
        vec![
            set("max_steps", NO_LIMIT, "S4-051 C-04"),
            // There the last step is a reminder only, and tools stay on; ours is the last.
            set("last_step", LastStep::WrapUp, "S4-051"),
            set("tool_fields", ToolFields::Opencode, "N4-08"),
            set("compaction", Compaction::opencode(), "S4-040"),
            set("retry.per_call", NO_LIMIT, "N4-05 C-02"),
            set("retry.first_ms", FIRST_WAIT_MS, "N4-05 C-01"),
            set("retry.cap_ms", LONGEST_WAIT_MS, "N4-05"),
            set("retry.cap_answered_ms", TIMER_MAX_MS, "N4-05"),
            set("retry.jitter", Jitter::None, "N4-05"),
            set("retry.provider_cap_ms", TIMER_MAX_MS, "N4-05"),
            set("retry.beyond_cap", BeyondCap::WaitCap, "N4-05"),
            set(
                "no_progress",
                NoProgress { repeats: DOOM_LOOP_THRESHOLD, compare: Compare::Input, then: Stuck::Ask },
                "N4-06 C-20",
            ),
            set("output_cut", OutputCut::WholeLines { max_lines: OUTPUT_LINES, max_bytes: OUTPUT_BYTES }, "N4-08"),
            set("max_denials_in_a_row", 1, "S4-062 N4-06 C-13"),
            set("denials_counted", DenialsCounted::Questions, "S4-061 C-13"),
            set("on_length", OnLength::End, "S4-022"),
            set("on_unknown", OnUnknown::GoOn, "S4-023 C-17 C-27"),
            set("on_empty", OnEmpty::Accept, "S4-020"),
        ]
    },
};
