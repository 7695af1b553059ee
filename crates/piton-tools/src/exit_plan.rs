//! `exit_plan`: asks the person whether a plan is to be carried out. The answer is theirs ([`piton_core::inquiry::planning`]), so this tool never
//! runs; what follows for the session's mode is the engine's.

use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::ToolContext;
use crate::typed::TypedTool;
use async_trait::async_trait;
use piton_core::call::{Beside, CallKind, Effects, Outcome, Planned, Resume, Touches};
use piton_core::hidden;
use piton_core::inquiry::planning;
use piton_core::inquiry::{Given, Inquiry};
use piton_core::limits::PLAN_CHARS;
use piton_core::question::QuestionBlock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct ExitPlan;

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    plan: String,
}

#[async_trait]
impl TypedTool for ExitPlan {
    type Input = Input;
    const NAME: &'static str = planning::TOOL;
    const DESCRIPTION: &'static str =
        "Asks the user to approve of your plan (Markdown, whole), which ends plan mode. Piton keeps it in a file.";
    /// It changes nothing and waits for nothing but the person.
    const EFFECTS: Effects = Effects { resume: Resume::Rerun, beside: Beside::Any, touches: Touches::Nothing };

    fn planned(&self, input: Input, _look: &Look) -> Result<Plan, Outcome> {
        let text = plan(&input)?;
        let title = hidden::visible_name(planning::name(&text));
        let shown = text.clone();
        let body = move || ("Go on by this plan?".to_owned(), vec![QuestionBlock::Text { text: shown }]);
        let planned = Planned { kind: CallKind::Other, title, accesses: Vec::new() };
        Ok(Plan { inquiry: Some(Inquiry::about(text)), ..Plan::of(planned, QuestionDraft::new(body)) })
    }

    /// Only where somebody runs tools without a turn that asks: there is nobody.
    async fn act(&self, input: Input, _cx: &ToolContext) -> Outcome {
        plan(&input).map_or_else(|refused| refused, |text| Inquiry::about(text).outcome(Given::Nobody))
    }
}

/// The plan, in characters that show.
fn plan(input: &Input) -> Result<String, Outcome> {
    let text = hidden::visible(hidden::strip(input.plan.trim()).0.as_ref()).into_owned();
    let chars = text.chars().count();
    match chars {
        0 => Err(Outcome::failed("exit_plan: the plan is empty. Nobody was asked.")),
        _ if chars > PLAN_CHARS => Err(Outcome::failed(format!(
            "exit_plan: the plan has {chars} characters; at most {PLAN_CHARS} can be asked about. Nobody was asked."
        ))),
        _ => Ok(text),
    }
}
