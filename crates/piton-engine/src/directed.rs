//! How the words of a command are carried out, once the models and agents are found that its front matter names
//! ([`crate::directions`]).

use crate::agents::{Agent, Agents};
use crate::directions::Directions;
use crate::settings::{Sampling, Settings};
use piton_core::configure::{BUILD, Configure, PLAN};
use piton_core::hidden;
use piton_core::subtask::{Subtask, TOOL};
use piton_tools::subagent::GENERAL;

/// The agent that works in the place of [`PLAN`] where a command has it called: it changes nothing, and answers its caller.
const EXPLORE: &str = "explore";

/// Characters of what an agent is asked that stand for it where calls are listed.
const TITLE_CHARS: usize = 60;

/// How words are carried out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Directed {
    /// What holds for the turn that the words start.
    pub(crate) for_turn: Option<Box<Configure>>,
    /// Who gets the words instead of the model; they are yet to be filled in.
    pub(crate) subtask: Option<Box<Subtask>>,
}

impl Directed {
    /// Finds what is named. The error says what is not there. Opens the model, which may block its thread.
    pub(crate) fn of(directions: &Directions, title: &str, settings: &Settings) -> Result<Self, String> {
        let Directions { model, effort, agent, subtask } = directions;
        let agent = agent.as_deref().map(|name| named(name, &settings.agents)).transpose()?;
        let can_only_be_called = agent.is_some_and(|agent| agent.is_subagent && !agent.is_primary);
        if subtask.unwrap_or(can_only_be_called) {
            let agent = called(agent)?;
            let is_there = settings.tools.get(TOOL).is_some() && !settings.narrowed().permission.forbid(TOOL);
            if !is_there {
                return Err(format!("it calls the agent {agent}, and subagents cannot be called here"));
            }
            if let Some(model) = model {
                open(settings, model, Sampling::effort(effort.or(settings.effort)))?;
            }
            let (model, description) = (model.clone(), title.to_owned());
            let subtask = Subtask { agent, description, prompt: String::new(), model, by_name: false };
            return Ok(Self { for_turn: None, subtask: Some(Box::new(subtask)) });
        }
        let agent = agent.map(|agent| settings.agents.of_session(&agent.name)).transpose()?;
        let agent = agent.map(|agent| agent.name.clone());
        let changed = Configure { model: model.clone(), effort: *effort, agent, ..Configure::default() };
        if let Some((names, answers)) = settings.opens_for(&settings.with_agents(changed.clone())) {
            open(settings, &names, answers)?;
        }
        Ok(Self { for_turn: (!changed.is_empty()).then(|| Box::new(changed)), subtask: None })
    }

    /// The agent of this name works, because a person asks it by that, whatever the rules say of the tool. The error says why it cannot.
    pub(crate) fn by_name(name: &str, words: &str, settings: &Settings) -> Result<Self, String> {
        if settings.tools.get(TOOL).is_none() {
            return Err("subagents cannot be called here".to_owned());
        }
        let agent = settings.agents.called(name).ok_or_else(|| format!("there is no agent {name}"))?.name.clone();
        let line = hidden::visible_line(words.lines().next().unwrap_or_default());
        let description: String = line.chars().take(TITLE_CHARS).collect();
        let subtask = Subtask { agent, description, prompt: String::new(), model: None, by_name: true };
        Ok(Self { for_turn: None, subtask: Some(Box::new(subtask)) })
    }
}

fn named<'a>(name: &str, agents: &'a Agents) -> Result<&'a Agent, String> {
    let known = || agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = agents.get(name).or_else(|| agents.called(name)).map(|agent| &**agent);
    found.ok_or_else(|| format!("there is no agent `{}`; there are {}", hidden::visible_line(name), known()))
}

/// Whom a command calls that names this agent. Those that run sessions have others in their place, as far as they are built in.
fn called(agent: Option<&Agent>) -> Result<String, String> {
    match agent {
        None => Ok(GENERAL.to_owned()),
        Some(agent) if agent.is_subagent => Ok(agent.name.clone()),
        Some(agent) if agent.name == BUILD => Ok(GENERAL.to_owned()),
        Some(agent) if agent.name == PLAN => Ok(EXPLORE.to_owned()),
        Some(agent) => {
            Err(format!("the agent `{}` cannot be called: it runs sessions", hidden::visible_line(&agent.name)))
        }
    }
}

fn open(settings: &Settings, names: &str, answers: Sampling) -> Result<(), String> {
    let source = settings.model_source.as_ref().ok_or("no other model can be opened here")?;
    source
        .open(names, answers)
        .map(drop)
        .map_err(|why| format!("the model {} cannot be asked: {why}", hidden::visible_line(names)))
}
