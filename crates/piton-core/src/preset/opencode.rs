//! OpenCode's `loop` (document S4), with the numbers of version 1.17.20 (MIT) where the document leaves them open.

use super::{Knob, Preset, Setting};
use crate::compact::Compaction;
use crate::policy::{DenialsCounted, LastStep, OnEmpty, OnLength, OnUnknown};
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
    settings: &[
        Setting { knob: Knob::MaxSteps(None), rows: "S4-051 C-04" },
        // There the last step is a reminder only, and tools stay on; ours is the last.
        Setting { knob: Knob::LastStep(LastStep::WrapUp), rows: "S4-051" },
        Setting { knob: Knob::Compaction(Compaction::opencode), rows: "S4-040" },
        Setting { knob: Knob::RetriesPerCall(None), rows: "N4-05 C-02" },
        Setting { knob: Knob::FirstWaitMs(FIRST_WAIT_MS), rows: "N4-05 C-01" },
        Setting { knob: Knob::LongestWaitMs(LONGEST_WAIT_MS, TIMER_MAX_MS), rows: "N4-05" },
        Setting { knob: Knob::Jitter(Jitter::None), rows: "N4-05" },
        Setting { knob: Knob::ProviderWaitMs(TIMER_MAX_MS, BeyondCap::WaitCap), rows: "N4-05" },
        Setting {
            knob: Knob::NoProgress(NoProgress {
                repeats: DOOM_LOOP_THRESHOLD,
                compare: Compare::Input,
                then: Stuck::Ask,
            }),
            rows: "N4-06 C-20",
        },
        Setting {
            knob: Knob::OutputCut(OutputCut::WholeLines { max_lines: OUTPUT_LINES, max_bytes: OUTPUT_BYTES }),
            rows: "N4-08",
        },
        Setting { knob: Knob::MaxDenials(Some(1)), rows: "S4-062 N4-06 C-13" },
        Setting { knob: Knob::DenialsCounted(DenialsCounted::Questions), rows: "S4-061 C-13" },
        Setting { knob: Knob::OnLength(OnLength::End), rows: "S4-022" },
        Setting { knob: Knob::OnUnknown(OnUnknown::GoOn), rows: "S4-023 C-17 C-27" },
        Setting { knob: Knob::OnEmpty(OnEmpty::Accept), rows: "S4-020" },
    ],
};
