//! The default. It is what [`Policy::piton`](crate::policy::Policy::piton) says, written down once more to be shown; a
//! test keeps the two the same.

use super::{Knob, Preset, Setting};
use crate::limits::{
    MAX_COMPACTIONS, MAX_DENIALS_IN_A_ROW, MAX_STEPS, NO_PROGRESS_REPEATS, RETRIES_PER_CALL, RETRY_CAP_MS,
    RETRY_FIRST_MS, RETRY_PROVIDER_CAP_MS, TOOL_OUTPUT_CHARS,
};
use crate::policy::Words;
use crate::policy::{CallsTaken, DenialsCounted, LastStep, OnEmpty, OnLength, OnUnknown, StepsCounted, ToolsBy};
use crate::progress::{Compare, NoProgress, Stuck};
use crate::retry::{BackoffBy, BeyondCap, Jitter};
use crate::truncate::OutputCut;

/// Where its numbers come from: their reasons stand in [`crate::limits`].
const OURS: &str = "ours";

pub(super) const PRESET: Preset = Preset {
    name: "piton",
    about: "the default: every limit in force, and careful",
    based_on: None,
    settings: &[
        Setting { knob: Knob::MaxSteps(Some(MAX_STEPS)), rows: OURS },
        Setting { knob: Knob::StepsCounted(StepsCounted::All), rows: OURS },
        Setting { knob: Knob::LastStep(LastStep::WrapUp), rows: OURS },
        Setting { knob: Knob::ToolsBy(ToolsBy::Model), rows: OURS },
        Setting { knob: Knob::CallsTaken(CallsTaken::All), rows: OURS },
        Setting { knob: Knob::RetriesPerCall(Some(RETRIES_PER_CALL)), rows: OURS },
        Setting { knob: Knob::FailuresPerTurn(None), rows: OURS },
        Setting { knob: Knob::FirstWaitMs(RETRY_FIRST_MS), rows: OURS },
        Setting { knob: Knob::LongestWaitMs(RETRY_CAP_MS, RETRY_CAP_MS), rows: OURS },
        Setting { knob: Knob::BackoffBy(BackoffBy::Call), rows: OURS },
        Setting { knob: Knob::Jitter(Jitter::Full), rows: OURS },
        Setting { knob: Knob::ProviderWaitMs(RETRY_PROVIDER_CAP_MS, BeyondCap::GiveUp), rows: OURS },
        Setting { knob: Knob::MaxCompactions(MAX_COMPACTIONS), rows: OURS },
        Setting { knob: Knob::CompactOnError(true), rows: OURS },
        Setting {
            knob: Knob::NoProgress(NoProgress {
                repeats: NO_PROGRESS_REPEATS,
                compare: Compare::InputAndResult,
                then: Stuck::Ask,
            }),
            rows: OURS,
        },
        Setting { knob: Knob::OutputCut(OutputCut::HeadTail { max_chars: TOOL_OUTPUT_CHARS }), rows: OURS },
        Setting { knob: Knob::MaxDenials(Some(MAX_DENIALS_IN_A_ROW)), rows: OURS },
        Setting { knob: Knob::DenialsCounted(DenialsCounted::All), rows: OURS },
        Setting { knob: Knob::OnLength(OnLength::GoOn), rows: OURS },
        Setting { knob: Knob::OnUnknown(OnUnknown::End), rows: OURS },
        Setting { knob: Knob::OnEmpty(OnEmpty::AskAgain), rows: OURS },
        Setting { knob: Knob::Words(Words::Piton), rows: OURS },
    ],
};
