//! One setting written into a configuration file, whose other lines stay as they are, comments included.
//!
//! Only lines are looked at, and the result is believed only if it says what was wanted and nothing else changed: a value over
//! several lines, or a key inside an inline table, is left to an editor.

use super::layers::{KeyOrigin, LayerError, Layers, overlay, said_of, way_and_value};
use super::mistake::{ConfigError, KeyPath};
use std::path::Path;
use toml::{Table, Value};

/// Why a setting was not written.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The key or its value makes no sense, or the file does not.
    #[error(transparent)]
    Invalid(#[from] LayerError),
    /// It is not one line of the file.
    #[error("`{key}` cannot be changed by itself in {file}; `piton config edit` opens the file")]
    NotALine {
        /// The key.
        key: String,
        /// The file.
        file: String,
    },
}

/// The text of the user's file with this setting. The value is TOML, or a text without its quotes.
pub fn with_setting(file: &Path, text: &str, key: &str, value: &str) -> Result<String, EditError> {
    let origin = KeyOrigin::User(file.to_owned());
    let said = format!("{key}={value}");
    let shape = || ConfigError::Shape(format!("unknown key `{key}`; keys are written like limits.max_steps"));
    let invalid = |source| LayerError::invalid(KeyOrigin::Flag(said.clone()), source);
    let (way, value) = way_and_value(&said).ok_or_else(|| invalid(shape()))?;
    let wanted = said_of(&way, value).map_err(invalid)?;
    let read = |text: &str| -> Result<(), LayerError> {
        let mut layers = Layers::default();
        layers.add_file(origin.clone(), text)?;
        layers.merge().map(drop)
    };
    read(text)?;
    let unclear = || EditError::NotALine { key: key.to_owned(), file: file.display().to_string() };
    let before: Table = toml::from_str(text).map_err(|_| unclear())?;
    let mut expected = before;
    overlay(&mut expected, wanted.clone());
    let leaf = way.iter().try_fold(&Value::Table(wanted), |value, key| value.get(key)).ok_or_else(unclear)?.to_string();
    let edited = written(text, &way, &leaf);
    if toml::from_str::<Table>(&edited).ok().as_ref() != Some(&expected) {
        return Err(unclear());
    }
    read(&edited)?;
    Ok(edited)
}

/// The text with this line in the place of the one that says the key, or where it belongs.
fn written(text: &str, way: &[String], value: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (table, key) = way.split_at(way.len().saturating_sub(1));
    let key = key.first().map(|key| quoted(key)).unwrap_or_default();
    let mut section: Option<KeyPath> = Some(Vec::new());
    // Behind which line a new key of its table stands.
    let mut place = table.is_empty().then_some(0);
    for (at, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with('[') {
            section = header(line);
            if section.as_deref() == Some(table) {
                place = Some(at + 1);
            }
            continue;
        }
        let Some((left, _)) = line.split_once('=') else { continue };
        let full = section.iter().zip(keys_of(left)).map(|(section, key)| [section.clone(), key].concat()).next();
        if full.as_deref() == Some(way) {
            let comment = comment_of(line).map(|comment| format!("  {comment}")).unwrap_or_default();
            lines[at] = format!("{} = {value}{comment}", left.trim_end());
            return joined(&lines);
        }
        if section.as_deref() == Some(table) {
            place = Some(at + 1);
        }
    }
    match place {
        Some(place) => lines.insert(place, format!("{key} = {value}")),
        None => {
            let name: Vec<String> = table.iter().map(|key| quoted(key)).collect();
            if lines.last().is_some_and(|line| !line.trim().is_empty()) {
                lines.push(String::new());
            }
            lines.extend([format!("[{}]", name.join(".")), format!("{key} = {value}")]);
        }
    }
    joined(&lines)
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A key as it is written.
fn quoted(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|char| char.is_ascii_alphanumeric() || "-_".contains(char));
    if is_bare { key.to_owned() } else { Value::from(key).to_string() }
}

/// The way that a table's header names; `None` for one of a list, and for what is no header.
fn header(line: &str) -> Option<KeyPath> {
    let name =
        line.split_once(']').filter(|_| !line.trim_start().starts_with("[["))?.0.trim_start().strip_prefix('[')?;
    keys_of(name)
}

/// The way that the left side of a line names.
fn keys_of(left: &str) -> Option<KeyPath> {
    way_and_value(&format!("{}=0", left.trim())).map(|(way, _)| way)
}

/// The comment behind a value.
fn comment_of(line: &str) -> Option<&str> {
    let starts = line.match_indices('#').map(|(at, _)| at);
    starts.map(|at| line.split_at(at)).find(|(value, _)| toml::from_str::<Table>(value).is_ok()).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn set(text: &str, key: &str, value: &str) -> Result<String, String> {
        with_setting(Path::new("config.toml"), text, key, value).map_err(|error| {
            let why = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
            why.map(|error| format!("{error}: ")).collect()
        })
    }

    #[test]
    fn a_setting_takes_its_line_and_the_rest_stays() {
        let text = "# mine\nmodel = \"openai/a\"  # the # good one\n\n[limits]\nmax_steps = 7\n\n[permission]\nbash = \"ask\"\n";
        let text = set(text, "model", "openai/b").unwrap();
        let text = set(&text, "limits.max_steps", "9").unwrap();
        let text = set(&text, "limits.max_cost", "2.5").unwrap();
        let text = set(&text, "permission_mode", "plan").unwrap();
        let text = set(&text, "terminal.title", "false").unwrap();
        let text = set(&text, "models.\"openai/b\".effort", "low").unwrap();
        expect![[r##"
            # mine
            model = "openai/b"  # the # good one
            permission_mode = "plan"

            [limits]
            max_steps = 9
            max_cost = 2.5

            [permission]
            bash = "ask"

            [terminal]
            title = false

            [models."openai/b"]
            effort = "low"
        "##]]
        .assert_eq(&text);
    }

    #[test]
    fn what_makes_no_sense_or_is_more_than_a_line_is_not_written() {
        assert!(set("", "limits.max_stepz", "9").unwrap_err().contains("max_stepz"));
        assert!(set("", "limits.max_steps", "many").is_err());
        assert!(set("broken = [", "limits.max_steps", "9").is_err());
        let over = "[check]\ncommands = [\n  \"true\",\n]\n";
        assert!(set(over, "check.commands", "[\"false\"]").unwrap_err().contains("piton config edit"));
        let inline = "limits = { max_steps = 7 }\n";
        assert!(set(inline, "limits.max_steps", "9").unwrap_err().contains("piton config edit"));
    }
}
