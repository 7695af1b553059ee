//! `piton command`: the slash commands that there are, where each comes from, and why one is not in force.

use crate::cli::EntryArgs;
use crate::failure::{Result, bail};
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_core::{hidden, template};
use piton_engine::assemble::commands::look;
use piton_engine::assemble::entries::{Found, State};
use piton_engine::assemble::{self, Wishes};
use piton_engine::commands::Command;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Lists all of them, or shows those of one name.
pub(crate) fn commands(args: &EntryArgs, around: &Surroundings) -> Result<u8> {
    let (as_json, shows_all) = (args.is_json(), args.shows_all());
    let all = look(&assemble::scope(&around.machine, &around.workspace(None)?, &Wishes::default())?)?;
    let name = args.name.as_deref().map(|name| name.trim_start_matches('/'));
    let is_meant = |found: &&Found<Command>| match (name, &found.read) {
        (None, _) => shows_all || found.state != State::Shadowed,
        (Some(name), Ok(command)) => command.name == name || command.short() == name,
        (Some(_), Err(_)) => false,
    };
    let chosen: Vec<&Found<Command>> = all.iter().filter(is_meant).collect();
    if chosen.is_empty()
        && let Some(name) = name
    {
        let names: Vec<&str> = all.iter().filter_map(|found| Some(found.read.as_ref().ok()?.name.as_str())).collect();
        let there =
            if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
        bail!("there is no command `{}`; {there}", view::clean(name));
    }
    let mut text = String::new();
    for found in &chosen {
        match (as_json, name) {
            (true, _) => drop(writeln!(text, "{}", object(found))),
            (false, Some(_)) => whole(found, &mut text),
            (false, None) => line(found, &mut text),
        }
    }
    if chosen.is_empty() && !as_json {
        text.push_str("There are no commands. A command is a file, .piton/commands/NAME.md, and runs as /NAME\n");
    }
    view::write_stdout(&text);
    Ok(0)
}

fn from(found: &Found<Command>) -> String {
    found.file().map(|file| hidden::visible_line(&file.display().to_string())).unwrap_or_default()
}

fn line(found: &Found<Command>, text: &mut String) {
    let (state, from) = (found.state.word(), from(found));
    let (name, about) = match &found.read {
        Ok(command) => {
            let name = format!("/{} {}", command.name, command.hint);
            (name.trim_end().to_owned(), command.description.as_str())
        }
        Err(why) => (String::new(), why.as_str()),
    };
    let _ = writeln!(text, "{:<28} {state:<14} {from}\n    {}", view::clean(&name), view::clean(about));
}

fn whole(found: &Found<Command>, text: &mut String) {
    line(found, text);
    let Ok(command) = &found.read else { return };
    let mut say = |name: &str, said: &[String]| {
        if !said.is_empty() {
            let _ = writeln!(text, "    {name:<12} {}", view::clean(&said.join(", ")));
        }
    };
    let shell: Vec<String> = template::shell_commands(&command.template).into_iter().map(str::to_owned).collect();
    say("words", &command.places.names);
    say("runs", &shell);
    say("turn with", &command.directions.words());
    say("not read", &command.unknown);
    let _ = writeln!(text, "\n{}", command.template.trim().lines().map(view::clean).collect::<Vec<_>>().join("\n"));
}

fn object(found: &Found<Command>) -> Value {
    let (state, file) = (found.state.word(), found.file());
    match &found.read {
        Ok(command) => json!({
            "name": command.name, "state": state, "file": file, "description": command.description, "hint": command.hint,
            "words": command.places.names, "runs": template::shell_commands(&command.template), "not_read": command.unknown,
            "model": command.directions.model, "effort": command.directions.effort, "agent": command.directions.agent,
            "subtask": command.directions.subtask, "template": command.template,
        }),
        Err(why) => json!({"state": state, "file": file, "error": why}),
    }
}
