//! Neovate's `runLoop` (document S0).

use super::{Knob, Preset, Setting};
use crate::compact::Compaction;
use crate::policy::Words;
use crate::policy::{CallsTaken, LastStep, OnEmpty, OnLength, StepsCounted, ToolsBy};
use crate::progress::{Compare, NoProgress, Stuck};
use crate::reference::Style;

/// `maxTurns` where the caller says nothing, in model replies.
const MAX_TURNS: u32 = 50;
/// The document counts no round of tools, so that its limit never stops a model that calls tools for ever. This one
/// does, in model replies of any kind: four times the document's own number, in which real tasks are done.
const MAX_REPLIES: u32 = 4 * MAX_TURNS;

pub(super) const PRESET: Preset = Preset {
    name: "neovate",
    about: "Neovate's runLoop: one call a reply in plain text, rounds of tools are free, a refusal ends the run",
    based_on: None,
    settings: &[
        Setting { knob: Knob::MaxSteps(Some(MAX_TURNS)), rows: "S0-017 S0-030" },
        Setting { knob: Knob::StepsCounted(StepsCounted::WithoutCalls), rows: "S0-042 S0-043" },
        Setting { knob: Knob::MaxReplies(MAX_REPLIES), rows: "C-05" },
        Setting { knob: Knob::LastStep(LastStep::Plain), rows: "S0-030" },
        Setting { knob: Knob::ToolsBy(ToolsBy::Text), rows: "S0-045 S0-067 S0-104 C-07" },
        Setting { knob: Knob::CallsTaken(CallsTaken::First), rows: "S0-053 C-06" },
        Setting { knob: Knob::RetriesPerCall(Some(0)), rows: "S0-035 C-02" },
        Setting { knob: Knob::Compaction(Compaction::neovate), rows: "N0-05" },
        Setting { knob: Knob::CompactOnError(false), rows: "S0-035" },
        Setting { knob: Knob::MaxDenials(Some(1)), rows: "S0-034 S0-060 C-13" },
        // The document knows no check: sixty identical rounds are a success there.
        Setting {
            knob: Knob::NoProgress(NoProgress { repeats: 0, compare: Compare::Input, then: Stuck::End }),
            rows: "S0-043",
        },
        Setting { knob: Knob::OnLength(OnLength::End), rows: "S0-061" },
        Setting { knob: Knob::OnEmpty(OnEmpty::Accept), rows: "S0-061" },
        Setting { knob: Knob::References(Style::Neovate), rows: "S0-073 S0-075 S0-083 C-29" },
        Setting { knob: Knob::Words(Words::Neovate), rows: "S0-030 S0-034 S0-036" },
    ],
};
