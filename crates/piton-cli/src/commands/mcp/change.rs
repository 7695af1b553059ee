//! Changes of the user's own file of servers.

use super::{found, missing};
use crate::cli::McpAddArgs;
use crate::failure::{Failure, Result, bail, ensure};
use crate::out::report::EXIT_FAILED;
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_engine::assemble::servers::{OwnFile, import as others};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Adds a server.
pub(super) fn add(args: &McpAddArgs, around: &Surroundings) -> Result<u8> {
    let entry = from_anywhere(entry_of(args)?, &around.workspace(None)?);
    let mut own = OwnFile::to_change(&around.machine)?;
    own.add(&args.name, entry, args.replace).map_err(Failure::user)?;
    own.write()?;
    let file = own.path().display();
    view::write_stderr(&format!("Added {} to {file}. `piton mcp test {}` tries it.\n", args.name, args.name));
    Ok(0)
}

/// The same with whole paths for those that lead from this folder to something: the server starts elsewhere. A name alone may be anything.
fn from_anywhere(mut entry: Value, here: &Path) -> Value {
    let whole = |word: &str| {
        let leads = word.contains(['/', '.']) && Path::new(word).is_relative() && here.join(word).exists();
        leads.then(|| here.join(word).canonicalize().ok()).flatten().map(|path| json!(path))
    };
    let is_started_here = entry.get("cwd").is_none();
    if let Some(fields) = entry.as_object_mut().filter(|_| is_started_here) {
        let args = fields.get_mut("args").and_then(Value::as_array_mut);
        args.into_iter()
            .flatten()
            .for_each(|word| *word = word.as_str().and_then(whole).unwrap_or_else(|| word.clone()));
        if let Some(path) = fields.get("command").and_then(Value::as_str).and_then(whole) {
            fields.insert("command".to_owned(), path);
        }
    }
    entry
}

/// The entry that the words come to: JSON, an address, or a command.
fn entry_of(args: &McpAddArgs) -> Result<Value> {
    let McpAddArgs { target, env, header, transport, .. } = args;
    let Some(first) = target.first() else {
        bail!("say how it is started or where it is: a command, an address, or JSON")
    };
    if first.trim_start().starts_with('{') {
        ensure!(target.len() == 1, "JSON is one word: quote it");
        let entry: Value =
            serde_json::from_str(first).map_err(|error| Failure::user(format!("it is not valid JSON: {error}")))?;
        ensure!(
            env.is_empty() && header.is_empty(),
            "--env and --header go with a command or an address; JSON has both in it"
        );
        return Ok(entry);
    }
    let is_address = first.starts_with("http://") || first.starts_with("https://");
    let kind = transport.as_deref().unwrap_or(if is_address { "http" } else { "stdio" });
    if kind == "stdio" {
        ensure!(header.is_empty(), "--header goes with an address");
        let mut entry = json!({"command": first});
        if target.len() > 1 {
            entry["args"] = json!(target[1..]);
        }
        if !env.is_empty() {
            entry["env"] = Value::Object(pairs(env, '=', "--env", "NAME=VALUE")?);
        }
        return Ok(entry);
    }
    let (target, header) = with_headers(target, header)?;
    ensure!(is_address, "`{}` is not an address: http:// or https:// is missing", view::clean(first));
    ensure!(target.len() == 1 && env.is_empty(), "an address takes neither arguments nor --env");
    let mut entry = json!({"type": kind, "url": first});
    if !header.is_empty() {
        entry["headers"] = Value::Object(pairs(&header, ':', "--header", "'Name: value'")?);
    }
    Ok(entry)
}

/// Headers that stand behind an address, where a command would have words of its own.
fn with_headers(target: &[String], header: &[String]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut words, mut headers) = (Vec::new(), header.to_vec());
    let mut rest = target.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--header" | "-H" => match rest.next() {
                Some(header) => headers.push(header.clone()),
                None => bail!("--header takes 'Name: value'"),
            },
            _ => words.push(word.clone()),
        }
    }
    Ok((words, headers))
}

fn pairs(said: &[String], between: char, flag: &str, form: &str) -> Result<Map<String, Value>> {
    let pair = |said: &String| match said.split_once(between) {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), Value::from(value.trim_start()))),
        _ => Err(Failure::user(format!("`{}` is not what {flag} takes: {form}", view::clean(said)))),
    };
    said.iter().map(pair).collect()
}

/// Removes a server of the user's own file.
pub(super) fn remove(name: &str, around: &Surroundings) -> Result<u8> {
    let mut own = OwnFile::to_change(&around.machine)?;
    if !own.remove(name) {
        let all = found(around, &around.workspace(None)?)?;
        match all.iter().find(|found| found.name == name) {
            Some(found) => bail!(
                "{name} stands in {}; remove it there, or switch it off: `piton mcp disable {name}`",
                found.place()
            ),
            None => return Err(missing(name, &all)),
        }
    }
    own.switch(name, true);
    own.write()?;
    view::write_stderr(&format!("Removed {name} from {}.\n", own.path().display()));
    Ok(0)
}

/// Switches a server on or off, wherever it is configured.
pub(super) fn switch(name: &str, is_on: bool, around: &Surroundings) -> Result<u8> {
    let all = found(around, &around.workspace(None)?)?;
    let mut own = OwnFile::to_change(&around.machine)?;
    let is_known = all.iter().any(|found| found.name == name);
    if !is_known && !own.disabled().contains(name) {
        return Err(missing(name, &all));
    }
    let changes = own.switch(name, is_on);
    if changes {
        own.write()?;
    }
    let is_off_itself =
        all.iter().find(|found| found.name == name && found.entry.as_ref().is_ok_and(|read| read.is_disabled));
    match (is_on, is_off_itself) {
        (true, Some(found)) => {
            view::write_stderr(&format!(
                "{name} is switched off where it stands, in {}; change it there.\n",
                found.place()
            ));
            return Ok(EXIT_FAILED);
        }
        (true, None) => view::write_stderr(&format!("{name} is enabled: sessions that begin from here on start it.\n")),
        (false, _) => {
            view::write_stderr(&format!("{name} is disabled: sessions that begin from here on do without it.\n"));
        }
    }
    Ok(0)
}

/// Takes over servers of other programs.
pub(super) fn import(files: &[PathBuf], yes: bool, around: &Surroundings) -> Result<u8> {
    let places =
        if files.is_empty() { others::places(&around.machine, &around.workspace(None)?) } else { files.to_vec() };
    let imported = others::read(&places, !files.is_empty());
    // Somebody is asked in between, and nobody else waits for the answer.
    let mut own = OwnFile::read(&around.machine)?;
    let (mut taken, mut failed) = (Vec::new(), false);
    for others::Imported { name, file, entry } in imported {
        let place = view::clean(&file.display().to_string());
        let shown = view::clean(&name);
        let why = match entry {
            Ok(_) if own.has(&name) => "your mcp.json has one of that name".to_owned(),
            Ok(entry) => match own.add(&name, entry.clone(), false) {
                Ok(()) => {
                    let text = serde_json::to_string_pretty(&entry).unwrap_or_default();
                    taken.push((name, entry));
                    let text: String = text.lines().map(|line| format!("    {}\n", view::clean(line))).collect();
                    view::write_stderr(&format!("{shown} of {place}:\n{text}"));
                    continue;
                }
                Err(why) => why,
            },
            Err(why) => {
                failed = true;
                why
            }
        };
        view::write_stderr(&format!("{shown} of {place} is left out: {}\n", view::clean(&why)));
    }
    if taken.is_empty() {
        view::write_stderr("Nothing was taken over.\n");
        return Ok(if failed { EXIT_FAILED } else { 0 });
    }
    let servers = view::plural(taken.len() as u64, "server");
    if !yes {
        ensure!(around.stdin_is_terminal, "no terminal to ask on; pass --yes once you have read it");
        view::write_stderr(&format!("\nAdd {servers} to {}? [y/N] ", own.path().display()));
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            view::write_stderr("Nothing was taken over.\n");
            return Ok(EXIT_FAILED);
        }
    }
    let mut own = OwnFile::to_change(&around.machine)?;
    for (name, entry) in taken {
        own.add(&name, entry, false).map_err(Failure::user)?;
    }
    own.write()?;
    view::write_stderr(&format!("Added {servers} to {}.\n", own.path().display()));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_from_here_is_kept_whole_and_a_name_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        ["words.py", "run", "tools"].iter().for_each(|name| std::fs::write(here.join(name), "").unwrap());
        let entry = json!({"command": "./run", "args": ["words.py", "tools", ".", "-y", "@a/b", "../gone.py"]});
        let kept = from_anywhere(entry.clone(), &here);
        assert_eq!(kept["command"], json!(here.join("run")));
        assert_eq!(kept["args"], json!([here.join("words.py"), "tools", here, "-y", "@a/b", "../gone.py"]));
        let mut elsewhere = entry;
        elsewhere["cwd"] = json!("/srv");
        assert_eq!(from_anywhere(elsewhere.clone(), &here), elsewhere);
    }
}
