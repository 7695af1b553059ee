//! Which skills and agents, of those that a model can call for, are not as they were when its session was opened.

use super::scope::Scope;
use super::trouble::Trouble;
use super::{agents, skills};
use crate::agents::{Agent, Agents};
use crate::context::EntriesChanged;
use crate::skills::{Skill, Skills};
use piton_core::hidden;
use std::collections::BTreeMap;
use std::sync::Arc;

/// More are counted only.
const MOST_NAMED: usize = 20;

/// Compares those on the disk with these.
pub(super) fn watched(scope: &Scope, agents: &Agents, skills: &Arc<Skills>) -> EntriesChanged {
    let (scope, skills, agents) = (scope.clone(), of_skills(skills), of_agents(agents));
    EntriesChanged::new(move || {
        let now = || {
            let skills = skills::of_session(&scope, &mut Vec::new())?;
            let agents = agents::of_session(&scope, &mut Vec::new())?.with_skills_of_plugins(&skills);
            Ok::<_, Trouble>((of_skills(&skills), of_agents(&agents)))
        };
        // What cannot be looked up is not said to have changed.
        let Ok((skills_now, agents_now)) = now() else { return Vec::new() };
        let mut changed = changes("skill", &skills, &skills_now);
        changed.extend(changes("agent", &agents, &agents_now));
        let more = changed.len().saturating_sub(MOST_NAMED);
        changed.truncate(MOST_NAMED);
        changed.extend((more > 0).then(|| format!("{more} more")));
        changed
    })
}

fn of_skills(all: &Skills) -> BTreeMap<String, Arc<Skill>> {
    let for_model = all.iter().filter(|skill| skill.given.is_for_model);
    for_model.map(|skill| (skill.name().to_owned(), Arc::clone(skill))).collect()
}

fn of_agents(all: &Agents) -> BTreeMap<String, Arc<Agent>> {
    let callable = all.iter().filter(|agent| agent.is_subagent);
    callable.map(|agent| (agent.name.clone(), Arc::clone(agent))).collect()
}

fn changes<T: PartialEq>(what: &str, before: &BTreeMap<String, T>, now: &BTreeMap<String, T>) -> Vec<String> {
    let known = before.iter().filter_map(|(name, was)| match now.get(name) {
        Some(is) if is == was => None,
        Some(_) => Some((name, "changed")),
        None => Some((name, "gone, or not trusted as it is now")),
    });
    let new = now.keys().filter(|name| !before.contains_key(*name)).map(|name| (name, "new"));
    known.chain(new).map(|(name, how)| format!("{what} {}: {how}", hidden::visible_name(name))).collect()
}
