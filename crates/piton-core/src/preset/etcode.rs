//! etcode's loop (document S3).

use super::{Knob, Preset, Setting};
use crate::model::ModelErrorKind;
use crate::policy::{LastStep, OnEmpty, OnLength};
use crate::progress::{Compare, NoProgress, Stuck};
use crate::retry::{BeyondCap, Jitter};
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
    settings: &[
        Setting { knob: Knob::MaxSteps(None), rows: "S3-021 C-04" },
        Setting { knob: Knob::LastStep(LastStep::Plain), rows: "S3-021" },
        Setting { knob: Knob::RetriesPerCall(Some(RETRIES)), rows: "S3-062 C-02" },
        Setting { knob: Knob::FirstWaitMs(FIRST_WAIT_MS), rows: "S3-061 C-01" },
        Setting { knob: Knob::LongestWaitMs(LONGEST_WAIT_MS, LONGEST_WAIT_MS), rows: "S3-061" },
        Setting { knob: Knob::Jitter(Jitter::None), rows: "S3-061" },
        Setting { knob: Knob::ProviderWaitMs(0, BeyondCap::OwnWait), rows: "S3-061" },
        Setting { knob: Knob::RetryKinds(&RETRYABLE), rows: "S3-060" },
        // The document has no check for repetition; nothing bounds the steps but this, so it stays.
        Setting {
            knob: Knob::NoProgress(NoProgress { repeats: 3, compare: Compare::InputAndResult, then: Stuck::Ask }),
            rows: "S3-021",
        },
        Setting {
            knob: Knob::OutputCut(OutputCut::WholeLines { max_lines: OUTPUT_LINES, max_bytes: OUTPUT_BYTES }),
            rows: "N3-04",
        },
        Setting { knob: Knob::MaxDenials(None), rows: "S3-056 C-13" },
        Setting { knob: Knob::OnLength(OnLength::End), rows: "S3-022" },
        Setting { knob: Knob::OnEmpty(OnEmpty::Accept), rows: "S3-022" },
    ],
};
