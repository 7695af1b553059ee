//! The tables `agent` and `command` in OpenCode's configuration, `opencode.json` or `opencode.jsonc`: entries as a file of Markdown would
//! be. JSON with comments and commas at the end of lists is read, as OpenCode does.

use super::jsonc;
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Below a folder of a repository.
pub(super) const OF_REPOSITORY: [&str; 4] =
    ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
/// Below the user's home.
pub(super) const OF_HOME: [&str; 2] = [".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"];

/// Bytes of a file that a text is taken from by `{file:…}`.
const FILE_BYTES: usize = 100_000;

/// An entry by its name: its JSON, or what is wrong with it.
pub(super) type NamedEntry = (String, Result<String, String>);

/// The entries of a table, each by its name, as JSON of which files are a part that it refers to: where `within` is given, files in
/// there. `None`: there is no such file.
pub(super) fn entries(file: &Path, tables: &[&str], within: Option<&Path>) -> Option<Result<Vec<NamedEntry>, String>> {
    let text = match regular::text(file, SETTINGS_BYTES) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return None,
        Err(error) => return Some(Err(format!("it cannot be read: {error}"))),
    };
    let said = match jsonc::parse(&text) {
        Ok(said) => said,
        Err(why) => return Some(Err(why)),
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let of_table = tables.iter().filter_map(|table| said[table].as_object()).flatten();
    let entry = |(name, value): (&String, &Value)| {
        let mut value = value.clone();
        let filled = fill(&mut value, folder, within).map(|()| value.to_string());
        (name.clone(), filled)
    };
    Some(Ok(of_table.map(entry).collect()))
}

/// Puts the text of files in the place of `{file:PATH}`.
fn fill(value: &mut Value, folder: &Path, within: Option<&Path>) -> Result<(), String> {
    let Value::Object(fields) = value else { return Ok(()) };
    for field in ["prompt", "template"] {
        let Some(Value::String(text)) = fields.get_mut(field) else { continue };
        let Some((before, rest)) = text.split_once("{file:") else { continue };
        let Some((path, after)) = rest.split_once('}') else { continue };
        let path: PathBuf = folder.join(path.trim());
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if let Some(within) = within {
            let real = path.canonicalize().map_err(failed)?;
            if !real.starts_with(within.canonicalize().map_err(failed)?) {
                return Err(format!(
                    "{} is no file of the repository, and a repository reads no other",
                    path.display()
                ));
            }
        }
        let words = regular::text(&path, FILE_BYTES).map_err(failed)?;
        *text = format!("{before}{}{after}", words.trim_end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_every_other_file_of_json_with_comments() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("opencode.jsonc");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            entries(&file, &["agent"], None).unwrap()
        };
        let found = read("{ // one\n \"agent\": {\"a\": {\"prompt\": \"// no comment, }\",},},\n}").unwrap();
        assert_eq!(found, [("a".to_owned(), Ok(r#"{"prompt":"// no comment, }"}"#.to_owned()))]);
        assert!(read("{,}").unwrap_err().starts_with("it is not valid JSON"));
        assert!(read("{ /* no end").unwrap_err().starts_with("it is not valid JSON"));
    }
}
