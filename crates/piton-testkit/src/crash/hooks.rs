//! The simulated hook: at every gate it may be the last thing that Piton does, and what it says there must be found again by
//! whoever goes on.

use super::machine::Machine;
use async_trait::async_trait;
use piton_core::call::{CallInput, Outcome};
use piton_core::hook::HookPoint;
use piton_core::message::ToolCall;
use piton_engine::hooks::{
    CallChange, Hook, HookContext, HookResult, ModelCall, ModelChange, OutcomeChange, Points, PromptChange,
    SessionStart, Stop, StopChange, Words,
};
use std::sync::Arc;
use std::time::Duration;

/// What it puts in front of the line that a call writes.
pub(super) const CHECKED: &str = "checked: ";
/// What it puts behind an outcome.
pub(super) const SEEN: &str = " (seen)";
/// What it says beside a prompt.
pub(super) const HEARD: &str = "heard";

/// Changes each call, each outcome and each prompt, and sends the model back to work once.
pub(super) struct Guard(pub(super) Arc<Machine>);

impl Guard {
    /// Thinks, and dies before or after it.
    async fn think(&self) {
        self.0.point().await;
        self.0.point().await;
    }
}

#[async_trait]
impl Hook for Guard {
    fn name(&self) -> &str {
        "guard"
    }

    fn points(&self) -> Points {
        use HookPoint::{AfterTool, BeforeModel, BeforeTool, Prompt, SessionStart, Stop};
        Points::of([SessionStart, Prompt, BeforeModel, BeforeTool, AfterTool, Stop])
    }

    fn required(&self) -> bool {
        true
    }

    /// A machine under load is slow, and its guard is not to blame.
    fn timeout(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn on_session_start(&self, _: &HookContext, _: SessionStart) -> HookResult<Words> {
        self.think().await;
        Ok(Words::default())
    }

    async fn on_prompt(&self, _: &HookContext, _: &str) -> HookResult<PromptChange> {
        self.think().await;
        let words = Words { notes: vec![HEARD.to_owned()], ..Words::default() };
        Ok(PromptChange { words, ..PromptChange::default() })
    }

    async fn before_model_call(&self, _: &HookContext, _: &ModelCall) -> HookResult<ModelChange> {
        self.think().await;
        Ok(ModelChange::default())
    }

    async fn before_tool_call(&self, _: &HookContext, call: &ToolCall) -> HookResult<CallChange> {
        self.think().await;
        let CallInput::Json(mut input) = call.input.clone() else { return Ok(CallChange::default()) };
        let line = input["line"].as_str().unwrap_or_default();
        input["line"] = format!("{CHECKED}{line}").into();
        Ok(CallChange { input: Some(input), ..CallChange::default() })
    }

    async fn after_tool_call(&self, _: &HookContext, _: &ToolCall, outcome: &Outcome) -> HookResult<OutcomeChange> {
        self.think().await;
        let outcome = Outcome { text: format!("{}{SEEN}", outcome.text), ..outcome.clone() };
        Ok(OutcomeChange { outcome: Some(outcome), ..OutcomeChange::default() })
    }

    async fn on_stop(&self, _: &HookContext, stop: &Stop) -> HookResult<StopChange> {
        self.think().await;
        let send_back = (stop.rounds == 0).then(|| "look again".to_owned());
        Ok(StopChange { send_back, ..StopChange::default() })
    }
}
