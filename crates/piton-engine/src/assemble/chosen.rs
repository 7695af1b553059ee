//! The agent that a session is run by: the one that a flag names, else the one that the session had, else the configured one. What it
//! brings along, its mode and its model, is made part of the settings here, as far as the user has said nothing else.

use super::agents;
use super::entries::State;
use super::error::AssembleError;
use super::models::{Answers, Source};
use super::notice::{Notice, chain};
use super::policy;
use super::scope::Scope;
use super::trouble::Trouble;
use super::wishes::Wishes;
use crate::agents::{Agent, Agents};
use crate::config::Config;
use crate::settings::Sampling;
use piton_core::hidden;
use piton_core::permission::PermissionMode;
use piton_core::policy::Policy;
use piton_models::model::Model;
use std::sync::Arc;

/// Who runs a session.
pub(super) struct Chosen {
    pub(super) agent: Arc<Agent>,
    /// Whether the session had another one before, or none.
    is_new: bool,
}

/// Models, and the names of those that they stand in the place of.
type Models = (Vec<Arc<dyn Model>>, Option<String>);

impl Chosen {
    /// Finds the agent. One that a session had and that is gone, or another one by now, is told of.
    pub(super) fn of(
        agents: &Agents,
        scope: &Scope,
        config: &Config,
        wishes: &Wishes,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, AssembleError> {
        let had = wishes.had.agent.as_deref();
        if let Some(name) = had.filter(|_| !wishes.say_agent()) {
            return Ok(match agents.of_session(name) {
                Ok(agent) => {
                    if wishes.had.agent_hash.as_ref().is_some_and(|hash| agent.hash.as_ref() != Some(hash)) {
                        let name = hidden::visible_line(name);
                        let what = "it was changed since this session was run by it, and counts as it is now";
                        notices.push(Notice::new(format!("the agent {name}: {what}")));
                    }
                    Self { agent, is_new: false }
                }
                Err(why) => {
                    let goes_on = "This session was run by it, and goes on with the agent build";
                    notices.push(Notice::new(format!("{why}. {goes_on}")));
                    Self { agent: Arc::new(Agent::build()), is_new: true }
                }
            });
        }
        let Some(name) = &config.agent else { return Ok(Self { agent: Arc::new(Agent::build()), is_new: false }) };
        match agents.of_session(name) {
            Ok(agent) => Ok(Self { is_new: had != Some(&agent.name), agent }),
            Err(why) => {
                let all = agents::look(scope)?;
                let is_untrusted = all.iter().any(|found| {
                    found.state == State::Untrusted && found.read.as_ref().is_ok_and(|read| read.agent.name == *name)
                });
                let hint = ". This repository brings one along that you do not trust: `piton trust` shows it";
                Err(Trouble::new(format!("{why}{}", if is_untrusted { hint } else { "" })).into())
            }
        }
    }

    /// Has calls judged in the agent's mode, where that is stricter: what it stands in the place of. What a person has switched the
    /// session to since holds.
    pub(super) fn set_mode(
        &self,
        policy: &mut Policy,
        config: &Config,
        wishes: &Wishes,
        has_sandbox: bool,
    ) -> Option<PermissionMode> {
        let is_of_person = wishes.had.mode == Some(policy.mode) && wishes.mode.is_none();
        if self.is_new || !is_of_person {
            policy.mode = self.agent.mode_within(policy.mode);
        }
        // What was replaced in an earlier process is on record there.
        let is_said = wishes.flags.iter().any(|flag| flag.sets("permission_mode"));
        let on_record = wishes.had.mode_before.filter(|_| is_of_person && !self.is_new && !is_said);
        let own = on_record.unwrap_or_else(|| policy::mode(config, wishes, None, has_sandbox));
        Some(own).filter(|own| self.agent.mode.is_some() && *own != policy.mode)
    }

    /// The models that are asked: those that a flag names, those that the session was asked with before, the agent's own, the
    /// configured ones. An agent's model is a wish: where it cannot be asked, the others are, and that is said.
    pub(super) async fn models(
        &self,
        source: &Source<'_>,
        answers: &Answers,
        config: &Config,
        wishes: &Wishes,
        notices: &mut Vec<Notice>,
    ) -> Result<Models, AssembleError> {
        let is_said = wishes.flags.iter().any(|flag| flag.sets("model"));
        let had = wishes.had.model.as_deref().filter(|_| !is_said);
        let said = had.or(config.model.as_deref());
        let Sampling { effort, temperature, top_p } = self.agent.sampling();
        let effort = effort.filter(|_| wishes.had.effort.is_none() && !wishes.say_effort());
        let temperature = temperature.filter(|_| !wishes.say_temperature());
        let answers = &answers.with(Sampling { effort, temperature, top_p });
        let own = self.agent.own_model().filter(|_| !is_said && (self.is_new || had.is_none()));
        let Some(own) = own else {
            // What the session was asked with last may be the agent's.
            let displaced = config.model.clone().filter(|_| !is_said && self.agent.own_model().is_some());
            let displaced = displaced.filter(|names| had.is_some_and(|had| had != names));
            return Ok((source.all(said, answers, notices).await?, displaced));
        };
        match source.all(Some(own), answers, notices).await {
            Ok(models) => Ok((models, said.map(str::to_owned))),
            Err(error) => {
                let why = chain(&error);
                let name = &self.agent.name;
                notices.push(Notice::new(format!("the model of agent {name} is unavailable: {why}")));
                Ok((source.all(said, answers, notices).await?, None))
            }
        }
    }
}
