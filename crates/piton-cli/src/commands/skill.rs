//! `piton skill`: which skills there are, where each comes from, why one is not in force, and whether one is by the rules.

use crate::cli::{SkillArgs, SkillCommand};
use crate::failure::{Result, bail};
use crate::out::report::EXIT_FAILED;
use crate::out::view;
use crate::surroundings::Surroundings;
use piton_engine::assemble::entries::State;
use piton_engine::assemble::skills::{Found, look};
use piton_engine::assemble::{self, Wishes};
use piton_engine::skills::file::Read;
use piton_engine::skills::validate;
use piton_engine::skills::{Fork, Skill};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Obeys the command.
pub(crate) fn skill(args: &SkillArgs, around: &Surroundings) -> Result<u8> {
    match (&args.command, &args.name) {
        (Some(SkillCommand::Validate { path }), _) => Ok(check(path)),
        (Some(SkillCommand::List { all, json }), _) => list(*all, *json || args.json, around),
        (None, Some(name)) => show(name, args.json, around),
        (None, None) => list(false, args.json, around),
    }
}

fn found(around: &Surroundings) -> Result<Vec<Found>> {
    Ok(look(&assemble::scope(&around.machine, &around.workspace(None)?, &Wishes::default())?)?)
}

fn list(all: bool, as_json: bool, around: &Surroundings) -> Result<u8> {
    let mut text = String::new();
    for found in found(around)?.iter().filter(|found| all || found.state != State::Shadowed) {
        match as_json {
            true => drop(writeln!(text, "{}", object(found))),
            false => line(found, &mut text),
        }
    }
    if text.is_empty() && !as_json {
        text.push_str("There are no skills here. `piton help skill` says where they lie.\n");
    }
    view::write_stdout(&text);
    Ok(0)
}

fn show(name: &str, as_json: bool, around: &Surroundings) -> Result<u8> {
    let all = found(around)?;
    let chosen: Vec<&Found> = all.iter().filter(|found| called(found) == Some(name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().filter_map(called).collect();
        let there =
            if names.is_empty() { "there are none".to_owned() } else { format!("there are {}", names.join(", ")) };
        bail!("there is no skill `{}`; {}", view::clean(name), view::clean(&there));
    }
    let mut text = String::new();
    for found in chosen {
        match as_json {
            true => drop(writeln!(text, "{}", object(found))),
            false => whole(found, &mut text),
        }
    }
    view::write_stdout(&text);
    Ok(0)
}

/// Says what is wrong with a skill by the rules of agentskills.io.
fn check(path: &Path) -> u8 {
    let (faults, shown) = (validate::check(path), view::clean(&path.display().to_string()));
    if faults.is_empty() {
        view::write_stdout(&format!("{shown} is a skill by the rules of agentskills.io.\n"));
        return 0;
    }
    let faults: String = faults.iter().map(|fault| format!("  {}\n", view::clean(fault))).collect();
    view::write_stderr(&format!("{shown} is not a valid skill by the rules of agentskills.io:\n{faults}"));
    EXIT_FAILED
}

fn called(found: &Found) -> Option<&str> {
    found.read.as_ref().ok().map(|read| read.skill.name())
}

fn line(found: &Found, text: &mut String) {
    let from = found.file().map_or_else(String::new, |file| view::clean(&file.display().to_string()));
    let (name, words) = match &found.read {
        Ok(Read { skill, .. }) => (view::clean(skill.name()), view::clean(&skill.given.description)),
        Err(why) => (String::new(), view::clean(why)),
    };
    let _ = writeln!(text, "{name:<20} {:<12} {from}\n    {words}", found.state.word());
}

fn whole(found: &Found, text: &mut String) {
    line(found, text);
    let Ok(Read { skill, unknown }) = &found.read else { return };
    let Skill { given, is_for_people, argument_hint, fork, license, compatibility, metadata, file: _, directions } =
        skill;
    let mut say = |name: &str, said: Option<String>| {
        if let Some(said) = said.filter(|said| !said.is_empty()) {
            let _ = writeln!(text, "    {name:<13} {}", view::clean(&said));
        }
    };
    say("called by", Some(callers(given.is_for_model, *is_for_people).to_owned()));
    say("arguments", argument_hint.clone().or_else(|| Some(given.arguments.join(" "))));
    say("runs as", fork.as_ref().map(|fork| format!("the subagent {}", fork.agent())));
    say("turn with", Some(directions.words().join(", ")));
    say("license", license.clone());
    say("compatibility", compatibility.clone());
    let metadata: Vec<String> = metadata.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    say("metadata", Some(metadata.join(", ")));
    say("allows", Some(given.allows.join(", ")));
    say("not read", Some(unknown.join(", ")));
    if !given.body.is_empty() {
        let _ = writeln!(text, "\n{}", given.body.lines().map(view::clean).collect::<Vec<_>>().join("\n"));
    }
}

fn callers(model: bool, people: bool) -> &'static str {
    match (model, people) {
        (true, true) => "the model and people",
        (true, false) => "the model",
        (false, true) => "people",
        (false, false) => "agents that name it, and nobody else",
    }
}

fn object(found: &Found) -> Value {
    let mut object = json!({"state": found.state.word(), "file": found.file()});
    match &found.read {
        Ok(Read { skill, unknown }) => {
            let given = &skill.given;
            let more = json!({
                "name": given.name, "description": given.description, "folder": given.folder, "body": given.body,
                "for_model": given.is_for_model, "for_people": skill.is_for_people, "arguments": given.arguments,
                "argument_hint": skill.argument_hint, "agent": skill.fork.as_ref().map(Fork::agent),
                "license": skill.license, "compatibility": skill.compatibility, "metadata": skill.metadata,
                "allows": given.allows, "not_read": unknown,
            });
            if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
                object.extend(more);
            }
        }
        Err(why) => object["error"] = json!(why),
    }
    object
}
