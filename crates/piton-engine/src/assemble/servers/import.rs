//! Servers that are configured for other programs, in the words of the user's own file: Cursor, VS Code, Windsurf, Claude Desktop,
//! Codex. They are taken over once; what changes there afterwards is not.

use super::super::jsonc;
use super::super::machine::Machine;
use piton_tools::regular::{self, SETTINGS_BYTES};
use serde_json::{Map, Value};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A server that was found, as an entry of `mcp.json`; or why it cannot be taken over.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its name there.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// The entry.
    pub entry: Result<Value, String>,
}

/// Where they are looked for, where no file is named.
pub fn places(machine: &Machine, workspace: &Path) -> Vec<PathBuf> {
    let home = machine.var("HOME").map(Path::new);
    let of_workspace = [".cursor/mcp.json", ".vscode/mcp.json"].map(|name| workspace.join(name));
    let of_home = [
        ".cursor/mcp.json",
        ".config/Code/User/mcp.json",
        ".codeium/windsurf/mcp_config.json",
        ".config/Claude/claude_desktop_config.json",
        ".codex/config.toml",
    ];
    let of_home = home.into_iter().flat_map(|home| of_home.map(|name| home.join(name)));
    of_workspace.into_iter().chain(of_home).collect()
}

/// All servers of these files. One that is not there is passed over, unless a person named it.
pub fn read(files: &[PathBuf], are_named: bool) -> Vec<Imported> {
    let mut all = Vec::new();
    for file in files {
        match regular::text(file, 16 * SETTINGS_BYTES) {
            Ok(text) => all.extend(of_file(file, &text)),
            Err(error) if error.kind() == ErrorKind::NotFound && !are_named => {}
            Err(error) => all.push(broken(file, format!("it cannot be read: {error}"))),
        }
    }
    all
}

fn broken(file: &Path, why: String) -> Imported {
    Imported { name: String::new(), file: file.to_owned(), entry: Err(why) }
}

fn of_file(file: &Path, text: &str) -> Vec<Imported> {
    let is_toml = file.extension().is_some_and(|end| end == "toml");
    let whole = match is_toml {
        true => toml::from_str::<Value>(text).map_err(|error| format!("it is not valid TOML: {}", error.message())),
        false => jsonc::parse(text),
    };
    let whole = match whole {
        Ok(whole) => whole,
        Err(why) => return vec![broken(file, why)],
    };
    let servers = ["mcpServers", "mcp_servers", "servers"].iter().find_map(|key| whole.get(*key)?.as_object());
    let one = |(name, entry): (&String, &Value)| {
        let entry = if is_toml { codex(entry) } else { plain(entry) };
        Imported { name: name.clone(), file: file.to_owned(), entry }
    };
    servers.into_iter().flatten().map(one).collect()
}

/// An entry of a JSON file, with its variables spelled as ours.
fn plain(entry: &Value) -> Result<Value, String> {
    let Value::Object(fields) = entry else { return Err("it is not an object".to_owned()) };
    let mut entry = Map::new();
    for (name, value) in fields {
        // Files of variables are read by the program that starts it.
        if matches!(name.as_str(), "envFile" | "dev" | "gallery" | "version" | "autoApprove" | "alwaysAllow") {
            continue;
        }
        entry.insert(name.clone(), spelled(value)?);
    }
    Ok(Value::Object(entry))
}

/// The same value with `${env:NAME}` as `${NAME}`. What only the other program knows cannot be taken over.
fn spelled(value: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => {
            let text = text.replace("${env:", "${");
            if let Some(what) =
                ["${input:", "${workspaceFolder", "${config:", "${userHome"].iter().find(|what| text.contains(**what))
            {
                return Err(format!("it has `{what}…}}`, which only that program fills in"));
            }
            Value::String(text)
        }
        Value::Array(items) => Value::Array(items.iter().map(spelled).collect::<Result<_, _>>()?),
        Value::Object(fields) => {
            let all = fields.iter().map(|(name, value)| Ok((name.clone(), spelled(value)?)));
            Value::Object(all.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// An entry of Codex: seconds for milliseconds, tokens by the names of variables.
fn codex(entry: &Value) -> Result<Value, String> {
    let Value::Object(fields) = entry else { return Err("it is no table".to_owned()) };
    let (mut entry, mut headers) = (Map::new(), Map::new());
    let variable =
        |name: &Value| name.as_str().map(|name| format!("${{{name}}}")).ok_or("a variable is no name".to_owned());
    let millis =
        |seconds: &Value| seconds.as_f64().map(|seconds| Value::from((seconds * 1000.0).round().max(1.0) as u64));
    for (name, value) in fields {
        match name.as_str() {
            "command" | "args" | "env" | "cwd" | "url" | "enabled" => drop(entry.insert(name.clone(), value.clone())),
            "enabled_tools" => drop(entry.insert("tools".to_owned(), value.clone())),
            "disabled_tools" => drop(entry.insert("excludeTools".to_owned(), value.clone())),
            "startup_timeout_sec" => entry.extend(millis(value).map(|ms| ("startTimeout".to_owned(), ms))),
            "startup_timeout_ms" => drop(entry.insert("startTimeout".to_owned(), value.clone())),
            "tool_timeout_sec" => entry.extend(millis(value).map(|ms| ("timeout".to_owned(), ms))),
            "bearer_token_env_var" => {
                headers.insert("Authorization".to_owned(), Value::from(format!("Bearer {}", variable(value)?)));
            }
            "http_headers" => headers.extend(value.as_object().cloned().unwrap_or_default()),
            "env_http_headers" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    headers.insert(name.clone(), Value::from(variable(value)?));
                }
            }
            // Variables that it is given of those that Codex has.
            "env_vars" => {
                let env = entry.entry("env").or_insert_with(|| Value::Object(Map::new()));
                for name in value.as_array().into_iter().flatten() {
                    let filled = variable(name)?;
                    if let (Some(env), Some(name)) = (env.as_object_mut(), name.as_str()) {
                        env.insert(name.to_owned(), Value::from(filled));
                    }
                }
            }
            _ => {}
        }
    }
    if !headers.is_empty() {
        entry.insert("headers".to_owned(), Value::Object(headers));
    }
    Ok(Value::Object(entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(file: &str, text: &str) -> Vec<(String, Result<Value, String>)> {
        let mut found: Vec<_> =
            of_file(Path::new(file), text).into_iter().map(|found| (found.name, found.entry)).collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }

    #[test]
    fn entries_of_other_programs_become_ours() {
        let cursor = r#"{"mcpServers": {"db": {"command": "db", "env": {"KEY": "${env:KEY}"}, "envFile": ".env"}}}"#;
        assert_eq!(of("mcp.json", cursor), [("db".to_owned(), Ok(json!({"command": "db", "env": {"KEY": "${KEY}"}})))]);
        let code = r#"{"inputs": [], "servers": {"web": {"type": "http", "url": "https://x"}, "in": {"command": "x", "args": ["${input:key}"]}}}"#;
        let found = of("mcp.json", code);
        assert_eq!(found[1], ("web".to_owned(), Ok(json!({"type": "http", "url": "https://x"}))));
        assert!(found[0].1.as_ref().unwrap_err().contains("${input:…}"));
        let codex = "[mcp_servers.docs]\ncommand = \"npx\"\nargs = [\"-y\", \"docs\"]\nstartup_timeout_sec = 20\n\
                     enabled_tools = [\"a\"]\nenv_vars = [\"TOKEN\"]\n[mcp_servers.web]\nurl = \"https://x\"\nbearer_token_env_var = \"T\"\n";
        assert_eq!(
            of("config.toml", codex),
            [
                (
                    "docs".to_owned(),
                    Ok(
                        json!({"command": "npx", "args": ["-y", "docs"], "startTimeout": 20000, "tools": ["a"], "env": {"TOKEN": "${TOKEN}"}})
                    )
                ),
                ("web".to_owned(), Ok(json!({"url": "https://x", "headers": {"Authorization": "Bearer ${T}"}}))),
            ]
        );
        assert!(of("config.toml", "[")[0].1.as_ref().unwrap_err().starts_with("it is not valid TOML"));
    }
}
