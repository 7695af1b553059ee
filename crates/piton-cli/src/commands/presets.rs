//! `piton presets`: the loops that can be run, and their numbers.

use crate::failure::Result;
use crate::out::view;
use piton_core::policy::Policy;
use piton_core::preset::{PRESETS, Preset};
use piton_engine::config::NoPreset;
use serde_json::{Value, json};

/// Lists all of them, or one.
pub(crate) fn presets(name: Option<&str>, as_json: bool) -> Result<u8> {
    let chosen: Vec<&Preset> = match name {
        Some(name) => vec![Preset::named(name).ok_or_else(|| NoPreset { said: name.to_owned() })?],
        None => PRESETS.iter().collect(),
    };
    let text: Vec<String> =
        chosen.into_iter().map(|preset| if as_json { policy(preset) } else { table(preset) }).collect();
    view::write_stdout(&text.join(if as_json { "" } else { "\n" }));
    Ok(0)
}

fn policy(preset: &Preset) -> String {
    format!("{}\n", json!({"name": preset.name, "about": preset.about, "policy": Policy::preset(preset.name)}))
}

fn table(preset: &Preset) -> String {
    let mut text = format!("{}: {}\n", preset.name, preset.about);
    for setting in preset.all_settings() {
        let (value, unit) = (written(&setting.value), setting.unit());
        let value = if unit.is_empty() { value } else { format!("{value} ({unit})") };
        text.push_str(&format!("  {:<22} {value:<66} {}\n", setting.path, setting.rows));
    }
    text
}

/// A value as people write it: words without quotes, nothing for no limit.
fn written(value: &Value) -> String {
    match value {
        Value::Null => "no limit".to_owned(),
        Value::String(word) => word.clone(),
        Value::Array(values) => values.iter().map(written).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name} {}", written(value))).collect::<Vec<_>>().join(", ")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
