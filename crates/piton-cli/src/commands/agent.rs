//! `piton agent`: who can run a session or be called by the tool `task`, where each comes from, and why one is not in force.

use crate::cli::EntryArgs;
use crate::failure::{Result, bail};
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::configure::BUILD;
use piton_engine::agents::Agent;
use piton_engine::agents::file::Read;
use piton_engine::assemble::agents::{Found, look};
use piton_engine::assemble::entries::State;
use piton_engine::assemble::{self, Wishes};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Lists all of them, or shows one.
pub(crate) fn agents(args: &EntryArgs, around: &Surroundings) -> Result<u8> {
    let (name, as_json, shows_all) = (args.name.as_deref(), args.is_json(), args.shows_all());
    let workspace = around.workspace(None)?;
    let all = look(&assemble::scope(&around.machine, &workspace, &Wishes::default())?)?;
    let config = settings::of_workspace(around, &workspace, &[])?;
    let default = config.agent.as_deref().unwrap_or(BUILD);
    let is_meant = |found: &&Found| match name {
        Some(name) => called(found) == Some(name),
        None => shows_all || found.state != State::Shadowed,
    };
    let chosen: Vec<&Found> = all.iter().filter(is_meant).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = all.iter().filter_map(called).collect();
        bail!("there is no agent `{}`; there are {}", view::clean(name.unwrap_or_default()), names.join(", "));
    }
    let mut text = String::new();
    for found in chosen {
        match (as_json, name) {
            (true, _) => drop(writeln!(text, "{}", object(found, default))),
            (false, Some(_)) => whole(found, default, &mut text),
            (false, None) => line(found, default, &mut text),
        }
    }
    view::write_stdout(&text);
    Ok(0)
}

fn called(found: &Found) -> Option<&str> {
    found.read.as_ref().ok().map(|read| read.agent.name.as_str())
}

fn from(found: &Found) -> String {
    found.file().map_or("built in".to_owned(), |file| view::clean(&file.display().to_string()))
}

/// What it is for: a session, calls, or both; and whether sessions are run by it where nothing else is said.
fn uses(found: &Found, default: &str) -> &'static str {
    let Ok(Read { agent, .. }) = &found.read else { return "" };
    match (agent.is_primary, agent.is_subagent) {
        (true, _) if found.state == State::InForce && agent.name == default => "the default of sessions",
        (true, true) => "for sessions and calls",
        (true, false) => "for sessions",
        (false, true) => "for calls",
        (false, false) => "for nothing: disabled",
    }
}

fn line(found: &Found, default: &str, text: &mut String) {
    let from = from(found);
    match &found.read {
        Ok(Read { agent, .. }) => {
            let state = found.state.word();
            let _ = writeln!(
                text,
                "{:<20} {state:<12} {:<24} {from}\n    {}",
                view::clean(&agent.name),
                uses(found, default),
                view::clean(&agent.description)
            );
        }
        Err(why) => {
            let _ = writeln!(text, "{:<20} {:<12} {from}\n    {}", "", found.state.word(), view::clean(why));
        }
    }
}

fn whole(found: &Found, default: &str, text: &mut String) {
    line(found, default, text);
    let Ok(Read { agent, unknown }) = &found.read else { return };
    let Agent { tools, without, rules, mode, model, max_steps, skills, hooks, servers, .. } = agent;
    let mut say = |name: &str, said: Option<String>| {
        if let Some(said) = said {
            let _ = writeln!(text, "    {name:<12} {}", view::clean(&said));
        }
    };
    say("tools", tools.as_ref().map(|tools| tools.join(", ")));
    say("without", (!without.is_empty()).then(|| without.join(", ")));
    let rules: Vec<String> = rules.0.iter().map(|rule| format!("{} {rule}", rule.action.word())).collect();
    say("rules", (!rules.is_empty()).then(|| rules.join(", ")));
    say("mode", mode.map(|mode| mode.to_string()));
    say("model", model.clone());
    say("effort", agent.effort.map(|effort| effort.word().to_owned()));
    say("temperature", agent.temperature.map(|temperature| temperature.to_string()));
    say("top_p", agent.top_p.map(|top_p| top_p.to_string()));
    say("begins", agent.initial_prompt.clone());
    say("steps", max_steps.map(|most| most.to_string()));
    say("skills", (!skills.is_empty()).then(|| skills.join(", ")));
    say("servers", (!servers.is_empty()).then(|| servers.keys().cloned().collect::<Vec<_>>().join(", ")));
    let handlers = hooks.read(false).map(|read| read.handlers).unwrap_or_default();
    handlers.iter().for_each(|handler| say("hook", Some(handler.summary())));
    say("not read", (!unknown.is_empty()).then(|| unknown.join(", ")));
    if !agent.prompt.is_empty() {
        let _ = writeln!(text, "\n{}", agent.prompt.lines().map(view::clean).collect::<Vec<_>>().join("\n"));
    }
}

fn object(found: &Found, default: &str) -> Value {
    let mut object = json!({"state": found.state.word(), "file": found.file()});
    match &found.read {
        Ok(Read { agent, unknown }) => {
            let Agent { name, description, prompt, tools, without, model, max_steps, is_subagent, is_primary, .. } =
                agent;
            let more = json!({
                "name": name, "description": description, "tools": tools, "without": without, "model": model,
                "max_steps": max_steps, "subagent": is_subagent, "session": is_primary, "prompt": prompt, "not_read": unknown,
                "default": found.state == State::InForce && name == default,
            });
            if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
                object.extend(more);
            }
        }
        Err(why) => object["error"] = json!(why),
    }
    object
}
