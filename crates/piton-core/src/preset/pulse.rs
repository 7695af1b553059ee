//! The loop kernel of Pulse Coder (document S1, with the constants that S2 gives it).

use super::{Knob, Preset, Setting};
use crate::compact::Compaction;
use crate::policy::Words;
use crate::policy::{LastStep, OnEmpty, OnLength};
use crate::progress::{Compare, NoProgress, Stuck};
use crate::retry::{BackoffBy, BeyondCap, Jitter};
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
/// `DOOM_LOOP_THRESHOLD`, in identical calls in a row over the whole turn.
const DOOM_LOOP_THRESHOLD: u32 = 3;

pub(super) const PRESET: Preset = Preset {
    name: "pulse",
    about: "Pulse Coder's kernel: errors are counted over the run, the third ends it, the result is a string",
    based_on: None,
    settings: &[
        Setting { knob: Knob::MaxSteps(Some(MAX_STEPS)), rows: "S1-011 C-21" },
        Setting { knob: Knob::LastStep(LastStep::Plain), rows: "S1-052" },
        Setting { knob: Knob::RetriesPerCall(None), rows: "S1-010" },
        Setting { knob: Knob::FailuresPerTurn(Some(MAX_ERROR_COUNT)), rows: "S1-010 S1-013 S1-061 C-02" },
        Setting { knob: Knob::FirstWaitMs(FIRST_WAIT_MS), rows: "S1-063 S2-022 C-01" },
        Setting { knob: Knob::LongestWaitMs(LONGEST_WAIT_MS, LONGEST_WAIT_MS), rows: "S1-063 S2-022" },
        Setting { knob: Knob::BackoffBy(BackoffBy::Turn), rows: "S2-022" },
        Setting { knob: Knob::Jitter(Jitter::None), rows: "S1-063 S2-022" },
        Setting { knob: Knob::ProviderWaitMs(0, BeyondCap::OwnWait), rows: "S2-022" },
        Setting { knob: Knob::RetryStatuses(&RETRYABLE), rows: "S1-062 S2-021" },
        Setting { knob: Knob::Compaction(Compaction::pulse), rows: "N1-07" },
        Setting { knob: Knob::MaxCompactions(MAX_COMPACTION_ATTEMPTS), rows: "S1-012" },
        Setting { knob: Knob::CompactOnError(false), rows: "S1-021 S1-064" },
        Setting {
            knob: Knob::NoProgress(NoProgress {
                repeats: DOOM_LOOP_THRESHOLD,
                compare: Compare::Input,
                then: Stuck::End,
            }),
            rows: "S2-040 S2-041 C-20",
        },
        Setting {
            knob: Knob::OutputCut(OutputCut::HeadTail { max_chars: MAX_TOOL_OUTPUT_CHARS }),
            rows: "S2-005 S2-030",
        },
        Setting { knob: Knob::MaxDenials(None), rows: "S1-033 C-13" },
        Setting { knob: Knob::OnLength(OnLength::Compact), rows: "S1-053 N1-06 C-16" },
        Setting { knob: Knob::OnEmpty(OnEmpty::Accept), rows: "S1-050" },
        Setting { knob: Knob::Words(Words::Pulse), rows: "S1-050 S1-052 S1-053 S1-055 S1-056 S1-060" },
    ],
};
