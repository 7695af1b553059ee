//! The rules of a session's turns: preset, configuration, and patience with each provider.

use super::error::AssembleError;
use crate::config::{Config, preset};
use piton_core::policy::Policy;
use piton_models::model::Model;
use std::sync::Arc;

/// The rules of a turn: those of the preset, changed by the configuration.
pub fn policy(config: &Config) -> Result<Policy, AssembleError> {
    let mut policy = preset(config.preset.as_deref())?;
    config.apply(&mut policy);
    Ok(policy)
}

/// Fits the rules to the models: how patient one is with each provider, and whether a limit in dollars can be kept.
pub(super) fn fit(policy: &mut Policy, models: &[Arc<dyn Model>], config: &Config) -> Result<(), AssembleError> {
    for model in models {
        let budget = &policy.budget;
        let limits = [("--max-cost", budget.cost_micros), ("--max-session-cost", budget.session_cost_micros)];
        if let Some((limit, _)) = limits.into_iter().find(|(_, most)| most.is_some())
            && model.price().is_none()
        {
            return Err(AssembleError::NoPrice { limit, model: model.name().to_owned() });
        }
        let provider = provider_of(model.name());
        let patience = config.retry_of(provider, policy);
        if patience != policy.retry.usual {
            policy.retry.of_provider.insert(provider.to_owned(), patience);
        }
    }
    Ok(())
}

/// The provider of a model, by the model's name.
pub(super) fn provider_of(model: &str) -> &str {
    model.split('/').next().unwrap_or_default()
}
