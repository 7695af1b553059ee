//! Neovate's `runLoop` (document S0).

use super::{Preset, set};
use crate::compact::Compaction;
use crate::policy::Wording;
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
    settings: || {
        vec![
            set("max_steps", MAX_TURNS, "S0-017 S0-030"),
            set("steps_counted", StepsCounted::WithoutCalls, "S0-042 S0-043"),
            set("max_replies", MAX_REPLIES, "C-05"),
            set("last_step", LastStep::Plain, "S0-030"),
            set("tools_by", ToolsBy::Text, "S0-045 S0-067 S0-104 C-07"),
            set("calls_taken", CallsTaken::First, "S0-053 C-06"),
            set("retry.per_call", 0, "S0-035 C-02"),
            set("compaction", Compaction::neovate(), "N0-05"),
            set("compact_on_error", false, "S0-035"),
            set("max_denials_in_a_row", 1, "S0-034 S0-060 C-13"),
            // The document knows no check: sixty identical rounds are a success there.
            set("no_progress", NoProgress { repeats: 0, compare: Compare::Input, then: Stuck::End }, "S0-043"),
            set("on_length", OnLength::End, "S0-061"),
            set("on_empty", OnEmpty::Accept, "S0-061"),
            set("references", Style::Neovate, "S0-073 S0-075 S0-083 C-29"),
            set("words", Wording::Neovate, "S0-030 S0-034 S0-036"),
        ]
    },
};
