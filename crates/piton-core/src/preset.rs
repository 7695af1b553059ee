//! Presets: the loops of five documents, and our own, as data. A preset is a list of [`Setting`]s on top of the one that
//! it is based on; each names the row of the documents' checklist that it comes from (docs/source-loops.md).
//!
//! What a list does not name is as the default preset has it: the documents are silent there, and Piton is careful.

mod coder_mvp;
mod etcode;
mod neovate;
mod opencode;
mod piton;
mod pulse;

use crate::compact::Compaction;
use crate::model::ModelErrorKind;
use crate::policy::Words;
use crate::policy::{
    CallsTaken, DenialsCounted, LastStep, OnEmpty, OnLength, OnUnknown, Policy, StepsCounted, ToolsBy,
};
use crate::progress::NoProgress;
use crate::reference::Style;
use crate::retry::{BackoffBy, BeyondCap, Jitter, RetryOn};
use crate::truncate::OutputCut;
use serde::Serialize;
use serde_json::{Value, json};

/// A named set of rules.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// The preset that it changes; `None`: the default.
    pub based_on: Option<&'static str>,
    /// How it changes it.
    pub settings: &'static [Setting],
}

/// One thing that a preset sets.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// What, and how far.
    pub knob: Knob,
    /// The rows that ask for it.
    pub rows: &'static str,
}

/// Something that a preset can set.
#[derive(Debug, Clone, Copy)]
pub enum Knob {
    /// [`Policy::max_steps`], in model replies a turn.
    MaxSteps(Option<u32>),
    /// [`Policy::steps_counted`].
    StepsCounted(StepsCounted),
    /// [`Policy::max_replies`], in model replies of any kind a turn.
    MaxReplies(u32),
    /// [`Policy::last_step`].
    LastStep(LastStep),
    /// [`Policy::calls_taken`].
    CallsTaken(CallsTaken),
    /// [`Policy::tools_by`].
    ToolsBy(ToolsBy),
    /// Retries of one model call.
    RetriesPerCall(Option<u32>),
    /// Failed model calls in one turn.
    FailuresPerTurn(Option<u32>),
    /// Wait before the first retry, in milliseconds; it doubles.
    FirstWaitMs(u64),
    /// Longest wait of our own, in milliseconds, without an answer of the provider and with one.
    LongestWaitMs(u64, u64),
    /// What makes our waits longer.
    BackoffBy(BackoffBy),
    /// How our waits are spread.
    Jitter(Jitter),
    /// The longest wait, in milliseconds, that a provider may ask for, and what happens beyond.
    ProviderWaitMs(u64, BeyondCap),
    /// HTTP statuses that are tried again, and no others.
    RetryStatuses(&'static [u16]),
    /// Kinds of errors that are tried again, and no others.
    RetryKinds(&'static [ModelErrorKind]),
    /// [`Policy::max_compactions`], a turn.
    MaxCompactions(u32),
    /// [`Policy::compact_on_error`].
    CompactOnError(bool),
    /// [`Policy::compaction`], whole.
    Compaction(fn() -> Compaction),
    /// [`Policy::no_progress`].
    NoProgress(NoProgress),
    /// [`Policy::output_cut`].
    OutputCut(OutputCut),
    /// [`Policy::max_denials_in_a_row`].
    MaxDenials(Option<u32>),
    /// [`Policy::denials_counted`].
    DenialsCounted(DenialsCounted),
    /// [`Policy::on_length`].
    OnLength(OnLength),
    /// [`Policy::on_unknown`].
    OnUnknown(OnUnknown),
    /// [`Policy::on_empty`].
    OnEmpty(OnEmpty),
    /// [`Policy::words`].
    Words(Words),
    /// [`Policy::references`].
    References(Style),
}

/// Every preset, the default first.
pub const PRESETS: [Preset; 6] =
    [piton::PRESET, neovate::PRESET, pulse::PRESET, coder_mvp::PRESET, etcode::PRESET, opencode::PRESET];

impl Policy {
    /// The preset of this name.
    pub fn preset(name: &str) -> Option<Self> {
        let preset = Preset::named(name)?;
        let mut policy = match preset.based_on {
            Some(base) => Self::preset(base)?,
            None => Self::piton(),
        };
        preset.settings.iter().for_each(|setting| setting.knob.turn(&mut policy));
        Some(Self { preset: name.to_owned(), ..policy })
    }
}

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Everything it sets, what it has from others included.
    pub fn all_settings(&self) -> Vec<Setting> {
        let mut all: Vec<Setting> = self.based_on.and_then(Self::named).map(Self::all_settings).unwrap_or_default();
        for setting in self.settings {
            match all.iter_mut().find(|before| before.knob.name() == setting.knob.name()) {
                Some(before) => *before = *setting,
                None => all.push(*setting),
            }
        }
        all
    }
}

impl Knob {
    fn turn(self, policy: &mut Policy) {
        let retry = &mut policy.retry.usual;
        match self {
            Self::MaxSteps(most) => policy.steps.max = most,
            Self::StepsCounted(which) => policy.steps.counted = which,
            Self::MaxReplies(most) => policy.steps.max_replies = Some(most),
            Self::LastStep(last) => policy.steps.last = last,
            Self::CallsTaken(which) => policy.calls.taken = which,
            Self::ToolsBy(how) => policy.calls.tools_by = how,
            Self::RetriesPerCall(most) => retry.per_call = most,
            Self::FailuresPerTurn(most) => retry.per_turn = most,
            Self::FirstWaitMs(wait) => retry.first_ms = wait,
            Self::LongestWaitMs(unanswered, answered) => (retry.cap_ms, retry.cap_answered_ms) = (unanswered, answered),
            Self::BackoffBy(by) => retry.backoff_by = by,
            Self::Jitter(jitter) => retry.jitter = jitter,
            Self::ProviderWaitMs(most, beyond) => (retry.provider_cap_ms, retry.beyond_cap) = (most, beyond),
            Self::RetryStatuses(statuses) => retry.on = RetryOn::Statuses(statuses.to_vec()),
            Self::RetryKinds(kinds) => retry.on = RetryOn::Kinds(kinds.to_vec()),
            Self::MaxCompactions(most) => policy.compaction.max = most,
            Self::CompactOnError(does) => policy.compaction.on_error = does,
            Self::Compaction(rules) => policy.compaction.rules = rules(),
            Self::NoProgress(rule) => policy.stuck = rule,
            Self::OutputCut(cut) => policy.calls.output_cut = cut,
            Self::MaxDenials(most) => policy.calls.max_denials = most,
            Self::DenialsCounted(which) => policy.calls.denials_counted = which,
            Self::OnLength(what) => policy.replies.on_length = what,
            Self::OnUnknown(what) => policy.replies.on_unknown = what,
            Self::OnEmpty(what) => policy.replies.on_empty = what,
            Self::Words(words) => policy.replies.words = words,
            Self::References(style) => policy.references.style = style,
        }
    }

    /// What it sets, as the policy in the journal calls it.
    pub fn name(self) -> &'static str {
        self.parts().0
    }

    /// How far, as the policy in the journal writes it, and in which unit; no unit for a choice.
    pub fn value(self) -> (Value, &'static str) {
        let (_, value, unit) = self.parts();
        (value, unit)
    }

    fn parts(self) -> (&'static str, Value, &'static str) {
        match self {
            Self::MaxSteps(most) => ("max_steps", json!(most), "model replies a turn"),
            Self::StepsCounted(which) => ("steps_counted", word(which), ""),
            Self::MaxReplies(most) => ("max_replies", json!(most), "model replies of any kind a turn"),
            Self::LastStep(last) => ("last_step", word(last), ""),
            Self::CallsTaken(which) => ("calls_taken", word(which), ""),
            Self::ToolsBy(how) => ("tools_by", word(how), ""),
            Self::RetriesPerCall(most) => ("retry.per_call", json!(most), "retries of one model call"),
            Self::FailuresPerTurn(most) => ("retry.per_turn", json!(most), "failed model calls a turn"),
            Self::FirstWaitMs(wait) => ("retry.first_ms", json!(wait), "ms"),
            Self::LongestWaitMs(unanswered, answered) => {
                ("retry.cap_ms", json!([unanswered, answered]), "ms, without and with an answer")
            }
            Self::BackoffBy(by) => ("retry.backoff_by", word(by), ""),
            Self::Jitter(jitter) => ("retry.jitter", word(jitter), ""),
            Self::ProviderWaitMs(most, beyond) => ("retry.provider_cap_ms", json!([most, beyond]), "ms, and beyond"),
            Self::RetryStatuses(statuses) => ("retry.on", json!(statuses), "HTTP statuses"),
            Self::RetryKinds(kinds) => ("retry.on", json!(kinds), "kinds of errors"),
            Self::MaxCompactions(most) => ("max_compactions", json!(most), "compactions a turn"),
            Self::CompactOnError(does) => ("compact_on_error", json!(does), ""),
            Self::Compaction(rules) => ("compaction", json!(rules()), "tokens, shares of the window"),
            Self::NoProgress(NoProgress { repeats, compare, then }) => {
                ("no_progress", json!([repeats, compare, then]), "identical calls in a row; of what; and then")
            }
            Self::OutputCut(cut) => ("output_cut", word(cut), ""),
            Self::MaxDenials(most) => ("max_denials_in_a_row", json!(most), "refused calls in a row"),
            Self::DenialsCounted(which) => ("denials_counted", word(which), ""),
            Self::OnLength(what) => ("on_length", word(what), ""),
            Self::OnUnknown(what) => ("on_unknown", word(what), ""),
            Self::OnEmpty(what) => ("on_empty", word(what), ""),
            Self::Words(words) => ("words", word(words), ""),
            Self::References(style) => ("references", word(style), ""),
        }
    }
}

fn word(value: impl Serialize) -> Value {
    json!(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_the_policy_of_its_name_and_is_read_back_as_it_was_written() {
        for preset in PRESETS {
            let policy = Policy::preset(preset.name).expect("a preset");
            assert_eq!(policy.preset, preset.name);
            let written = json!(policy);
            assert_eq!(serde_json::from_value::<Policy>(written).expect("a policy"), policy);
            assert!(preset.all_settings().iter().all(|setting| !setting.rows.is_empty()));
        }
        assert_eq!(Policy::preset("piton"), Some(Policy::piton()));
        assert_eq!(Policy::preset("nothing"), None);
    }

    #[test]
    fn a_policy_of_an_older_journal_decides_as_it_did() {
        let mut old = json!(Policy::piton());
        let fields = old.as_object_mut().expect("an object");
        for new in [
            "steps_counted",
            "max_replies",
            "calls_taken",
            "tools_by",
            "compact_on_error",
            "denials_counted",
            "compaction",
        ] {
            fields.remove(new).expect("a field of a policy");
        }
        for new in ["on_length", "on_unknown", "on_empty", "words"] {
            fields.remove(new).expect("a field of a policy");
        }
        for new in ["on", "backoff_by"] {
            fields["retry"].as_object_mut().expect("an object").remove(new).expect("a field of a policy");
        }
        assert_eq!(serde_json::from_value::<Policy>(old).expect("a policy"), Policy::piton());
    }
}
