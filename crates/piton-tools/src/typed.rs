//! A tool with a typed input, parsed in one place, so that the tool never sees JSON. Other names that models use for a
//! field (`filePath` for `path`) are serde aliases of the type, and known nowhere else.

use crate::input::{parse_input, schema_of};
use crate::plan::{Look, Plan};
use crate::tool::{Tool, ToolContext, interrupted};
use async_trait::async_trait;
use piton_core::call::{Effects, Outcome, ToolSpec};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A tool whose input is a type. Every such thing is a [`Tool`].
#[async_trait]
pub trait TypedTool: Send + Sync {
    /// What the model sends. Serialised, it is the same input in the tool's own field names.
    type Input: DeserializeOwned + Serialize + JsonSchema + Send;
    /// The name the model calls it by.
    const NAME: &'static str;
    /// What the model is told, in one short paragraph.
    const DESCRIPTION: &'static str;
    /// What its calls may do.
    const EFFECTS: Effects;

    /// What a call will access, and the question whether it may; or the outcome of one that is sure to fail.
    fn planned(&self, input: Self::Input, look: &Look) -> Result<Plan, Outcome>;

    /// See [`Tool::run`].
    async fn act(&self, input: Self::Input, cx: &ToolContext) -> Outcome;

    /// See [`Tool::settle`].
    async fn resume(&self, _input: Self::Input, _cx: &ToolContext) -> Outcome {
        interrupted()
    }
}

#[async_trait]
impl<T: TypedTool> Tool for T {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: T::NAME.to_owned(),
            description: T::DESCRIPTION.to_owned(),
            schema: schema_of::<T::Input>(),
            effects: T::EFFECTS,
        }
    }

    fn canonical(&self, input: Value) -> Value {
        let Ok(typed) = parse_input::<T::Input>(T::NAME, &input) else { return input };
        let Ok(mut canonical) = serde_json::to_value(typed) else { return input };
        if let Value::Object(fields) = &mut canonical {
            fields.retain(|_, value| !value.is_null());
        }
        canonical
    }

    fn plan(&self, input: &Value, look: &Look) -> Result<Plan, Outcome> {
        self.planned(parse_input(T::NAME, input)?, look)
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        match parse_input(T::NAME, &input) {
            Ok(input) => self.act(input, cx).await,
            Err(outcome) => outcome,
        }
    }

    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        match parse_input(T::NAME, &input) {
            Ok(input) => self.resume(input, cx).await,
            // It never began: an input that cannot be read is its outcome.
            Err(outcome) => outcome,
        }
    }
}
