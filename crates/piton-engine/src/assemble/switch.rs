//! Switching a session that is open to other models: those of the same sources as its first ones, with what goes with them.

use super::machine::Machine;
use super::models::{Answers, Source};
use super::notice::chain;
use super::rules;
use super::{environment, keys};
use crate::config::Config;
use crate::context;
use crate::settings::{ModelSource, OpenedModels, Sampling};
use piton_core::policy::Policy;
use std::fs::File;
use std::sync::Arc;

/// What the models of a session were assembled from.
pub(super) struct Switch {
    pub(super) config: Config,
    pub(super) machine: Machine,
    pub(super) answers: Answers,
    pub(super) cassettes: &'static [(&'static str, &'static str)],
    pub(super) tape: Option<File>,
    /// The rules of the session before they were fitted to a model.
    pub(super) policy: Policy,
}

impl ModelSource for Switch {
    fn open(&self, names: &str, how: Sampling) -> Result<OpenedModels, String> {
        let Self { config, machine, answers, cassettes, tape, policy } = self;
        let answers = &answers.with(how);
        let source = Source { config, machine, cassettes, tape: tape.as_ref() };
        let (mut notices, mut policy) = (Vec::new(), policy.clone());
        let opened = source.named_all(names, answers, &mut notices).and_then(|models| {
            rules::fit(&mut policy, &models, config)?;
            Ok((keys::left_of(environment::for_tools, models.iter(), config, machine), models))
        });
        let (env, models) = opened.map_err(|error| chain(&error))?;
        let mut models = models.into_iter();
        let model = models.next().ok_or("no model is named")?;
        Ok(OpenedModels {
            system: Some(context::system_prompt(model.name()).into()),
            model,
            fallbacks: models.collect(),
            env: Some(Arc::new(env)),
            retry: Some(policy.retry),
            notices: notices.iter().map(ToString::to_string).collect(),
        })
    }
}
