//! Reasoning effort: the scale that people set it on, as the schema of the configuration has it. What each model makes of it is in
//! [`crate::options`].

pub use piton_core::effort::Effort;
use schemars::JsonSchema;

/// How much a model thinks before it answers. No provider has all of these; each gets the nearest it has.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Effort")]
pub enum EffortWord {
    /// Not at all, where the model can be told so.
    None,
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// More than much.
    Xhigh,
    /// As much as it can.
    Max,
}
