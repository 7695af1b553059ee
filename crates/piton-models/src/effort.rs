//! Reasoning effort: the scale that people set it on, as the schema of the configuration has it. What each model makes of it is in
//! [`crate::options`].

pub use piton_core::effort::Effort;
use schemars::JsonSchema;

/// Reasoning effort: how much a model thinks before it answers. No provider has all levels; each gets the nearest one
/// it has.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Effort")]
pub enum EffortWord {
    /// No reasoning, if the model supports that.
    None,
    /// Minimal.
    Minimal,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Very high.
    Xhigh,
    /// The model's maximum.
    Max,
}
