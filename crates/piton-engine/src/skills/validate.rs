//! Whether a skill is one by the rules of agentskills.io, as their reference (`skills-ref`) reads them. These are stricter than what
//! is needed to use it here: whoever shares a skill wants every program to take it.
//!
//! The YAML of these rules is a part of YAML ([`strict`]).

mod strict;

use super::file::FILE;
use icu_normalizer::ComposingNormalizerBorrowed;
use piton_core::hidden;
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// Characters of a name, of a description, and of what it needs.
const NAME_CHARS: usize = 64;
const DESCRIPTION_CHARS: usize = 1_024;
const COMPATIBILITY_CHARS: usize = 500;

/// The fields there are.
const FIELDS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// What is wrong with the skill in this folder, or of this file; nothing where it is one.
pub fn check(path: &Path) -> Vec<String> {
    let Ok(meta) = fs::metadata(path) else { return vec!["it is not there".to_owned()] };
    let is_file = |name: &str| name == FILE || name == "skill.md";
    let folder = match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if meta.is_file() && is_file(name) => path.parent().unwrap_or(path),
        _ if meta.is_dir() => path,
        _ => return vec![format!("it is neither a folder nor a {FILE}")],
    };
    let Some(file) = [FILE, "skill.md"].map(|name| folder.join(name)).into_iter().find(|file| file.exists()) else {
        return vec![format!("there is no {FILE} in it")];
    };
    let text = match regular::text(&file, SETTINGS_BYTES) {
        Ok(text) => text,
        Err(error) => return vec![format!("it cannot be read: {error}")],
    };
    match fields(&text) {
        Ok(fields) => faults(&fields, &folder_name(folder)),
        Err(why) => vec![why],
    }
}

/// The folder's own name, though it was called `.`.
fn folder_name(folder: &Path) -> String {
    let whole: PathBuf = match folder.file_name() {
        Some(_) => folder.to_owned(),
        None => fs::canonicalize(folder).unwrap_or_default(),
    };
    whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The fields above the words, read strictly.
fn fields(text: &str) -> Result<Map<String, Value>, String> {
    let behind = text.strip_prefix("---").ok_or("it does not begin with a line `---`")?;
    // Wherever it stands: so the reference reads it.
    let (yaml, _) = behind.split_once("---").ok_or("its front matter has no end: a line `---` is missing")?;
    if yaml.trim().is_empty() {
        return Err("its front matter is empty".to_owned());
    }
    match strict::read(yaml)? {
        Value::Object(fields) => Ok(fields),
        _ => Err("its front matter is not a list of fields".to_owned()),
    }
}

fn faults(fields: &Map<String, Value>, folder: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let unknown = fields.keys().filter(|field| !FIELDS.contains(&field.as_str()));
    let unknown: Vec<String> = unknown.map(|field| hidden::visible_name(field)).collect();
    if !unknown.is_empty() {
        faults.push(format!("there are no such fields: {}; there are {}", unknown.join(", "), FIELDS.join(", ")));
    }
    match fields.get("name") {
        None => faults.push("name: it is missing".to_owned()),
        Some(value) => of_name(&text(value), folder, &mut faults),
    }
    match fields.get("description").map(text) {
        None => faults.push("description: it is missing".to_owned()),
        Some(None) => faults.push("description: a text is wanted".to_owned()),
        Some(Some(text)) if text.trim().is_empty() => faults.push("description: it is empty".to_owned()),
        Some(Some(text)) => longer("description", &text, DESCRIPTION_CHARS, &mut faults),
    }
    match fields.get("compatibility").map(text) {
        Some(None) => faults.push("compatibility: a text is wanted".to_owned()),
        Some(Some(text)) => longer("compatibility", &text, COMPATIBILITY_CHARS, &mut faults),
        None => {}
    }
    faults
}

fn of_name(name: &Option<String>, folder: &str, faults: &mut Vec<String>) {
    let Some(name) = name.as_deref().map(str::trim).filter(|name| !name.is_empty()) else {
        faults.push("name: a text is wanted".to_owned());
        return;
    };
    // Letters that are written in several ways are the same.
    let same = ComposingNormalizerBorrowed::new_nfkc();
    let (name, folder) = (&*same.normalize(name), &*same.normalize(folder));
    longer("name", name, NAME_CHARS, faults);
    let mut fault = |is_fault: bool, why: &str| {
        if is_fault {
            faults.push(format!("name: {why}"));
        }
    };
    fault(name.to_lowercase() != name, "it has capital letters");
    fault(name.starts_with('-') || name.ends_with('-'), "it begins or ends with a hyphen");
    fault(name.contains("--"), "it has two hyphens in a row");
    fault(!name.chars().all(|c| c.is_alphanumeric() || c == '-'), "it has more than letters, digits and hyphens");
    fault(name != folder, &format!("it is not that of its folder, {}", hidden::visible_name(folder)));
}

fn longer(field: &str, text: &str, most: usize, faults: &mut Vec<String>) {
    let chars = text.chars().count();
    if chars > most {
        faults.push(format!("{field}: it has {chars} characters; at most {most} are taken"));
    }
}

/// A value that is text.
fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
