//! Presets: the loops of five documents, and our own, as data. A preset is a table of paths into the [`Policy`], each with
//! its value and with the row of the documents' checklist that it comes from (docs/dev/audit/source-loops.md).
//!
//! Whatever a table does not name is as in the default preset: the documents are silent there, and Piton is careful.

mod coder_mvp;
mod etcode;
mod neovate;
mod opencode;
mod pulse;

use crate::policy::Policy;
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
    pub settings: fn() -> Vec<Setting>,
}

/// One value that a preset sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Which: the path in the policy's JSON, with dots.
    pub path: &'static str,
    /// The value, as the policy's JSON has it.
    pub value: Value,
    /// The rows that ask for it.
    pub rows: &'static str,
}

/// Every preset, the default first.
pub const PRESETS: [Preset; 6] =
    [PITON, neovate::PRESET, pulse::PRESET, coder_mvp::PRESET, etcode::PRESET, opencode::PRESET];

/// The default: the defaults of [`Policy`].
const PITON: Preset = Preset {
    name: "piton",
    about: "the default: every limit in force, and careful",
    based_on: None,
    settings: Vec::new,
};

/// Where the numbers of the default come from: [`crate::limits`] gives their reasons.
const OURS: &str = "ours";
/// The value of a limit that is off.
const NO_LIMIT: Option<u32> = None;

/// The settings that are shown of the default, each with its unit; no unit for a choice.
const SHOWN: [(&str, &str); 29] = [
    ("max_steps", "model replies a turn"),
    ("steps_counted", ""),
    ("max_replies", "model replies of any kind a turn"),
    ("last_step", ""),
    ("tools_by", ""),
    ("tool_fields", ""),
    ("calls_taken", ""),
    ("retry.per_call", "retries of one model call"),
    ("retry.per_turn", "failed model calls a turn"),
    ("retry.first_ms", "ms"),
    ("retry.cap_ms", "ms, without an answer"),
    ("retry.cap_answered_ms", "ms, with an answer"),
    ("retry.backoff_by", ""),
    ("retry.jitter", ""),
    ("retry.provider_cap_ms", "ms"),
    ("retry.beyond_cap", ""),
    ("retry.on", ""),
    ("max_compactions", "compactions a turn"),
    ("compact_on_error", ""),
    ("compaction", "tokens, shares of the window"),
    ("no_progress", "identical calls in a row"),
    ("output_cut", ""),
    ("max_denials_in_a_row", "refused calls in a row"),
    ("denials_counted", ""),
    ("on_length", ""),
    ("on_unknown", ""),
    ("on_empty", ""),
    ("words", ""),
    ("references", ""),
];

impl Policy {
    /// The preset of this name.
    pub fn preset(name: &str) -> Option<Self> {
        let changes = Preset::named(name)?.changes();
        // Every start asks for the default, and the way through JSON is long.
        if changes.is_empty() {
            return Some(Self { preset: name.to_owned(), ..Self::piton() });
        }
        let mut policy = json!(Self::piton());
        for Setting { path, value, .. } in changes {
            *policy.pointer_mut(&pointer(path))? = value;
        }
        policy["preset"] = json!(name);
        serde_json::from_value(policy).ok()
    }
}

impl Preset {
    /// The preset of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Everything it sets, what it has from others included. The default sets everything.
    pub fn all_settings(&self) -> Vec<Setting> {
        let changes = self.changes();
        if !changes.is_empty() {
            return changes;
        }
        let policy = json!(Policy::piton());
        let value = |path: &str| policy.pointer(&pointer(path)).cloned();
        SHOWN.iter().filter_map(|(path, _)| Some(Setting { path, value: value(path)?, rows: OURS })).collect()
    }

    /// How it differs from the default.
    fn changes(&self) -> Vec<Setting> {
        let mut all = self.based_on.and_then(Self::named).map(Self::changes).unwrap_or_default();
        for setting in (self.settings)() {
            match all.iter_mut().find(|before| before.path == setting.path) {
                Some(before) => *before = setting,
                None => all.push(setting),
            }
        }
        all
    }
}

impl Setting {
    /// The unit of the value; empty for a choice.
    pub fn unit(&self) -> &'static str {
        SHOWN.iter().find(|(path, _)| *path == self.path).map_or("", |(_, unit)| unit)
    }
}

fn set(path: &'static str, value: impl Serialize, rows: &'static str) -> Setting {
    Setting { path, value: json!(value), rows }
}

fn pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
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
            assert!(preset.all_settings().iter().all(|setting| !setting.rows.is_empty() && !setting.path.is_empty()));
        }
        assert_eq!(Policy::preset("piton"), Some(Policy::piton()));
        assert_eq!(Policy::preset("nothing"), None);
    }

    #[test]
    fn what_is_shown_of_a_preset_is_what_it_sets() {
        for (path, _) in SHOWN {
            assert!(json!(Policy::piton()).pointer(&pointer(path)).is_some(), "{path}");
        }
        for setting in PRESETS.iter().flat_map(|preset| (preset.settings)()) {
            assert!(SHOWN.iter().any(|(path, _)| *path == setting.path), "{}", setting.path);
        }
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
            "tool_fields",
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
