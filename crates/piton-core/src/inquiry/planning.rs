//! Plan mode: the model finds out and plans, and a person decides about the plan (`exit_plan`). The question is one of the model's own
//! (`inquiry`) with a plan to read; what its answer means for the call and for the permission mode follows here, so that an
//! answer that is on record is never asked for again.
//!
//! This module must not know: who is there to answer, how a plan is drawn, where it is kept.

use crate::call::{Outcome, Status};
use crate::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tool that asks for the approval of a plan.
pub const TOOL: &str = "exit_plan";

/// What the model is told in each turn of plan mode.
pub const IN_PLAN: &str = "Plan mode is on: find out and plan, and change nothing. Only what reads runs; everything else is refused. Ask the user \
                           (ask_user, if it is there) what only they can decide. When the plan stands, call exit_plan with it: what is to be done, in \
                           which files, and how it will be checked. The user then says whether you carry it out.";

/// What the model is told where plan mode was left without a plan.
pub const OVER: &str = "Plan mode is off: you may change things again, by the rules of this session.";

/// The way to go on in which each change is asked about.
pub const ASKING: &str = "Go on, and ask about each change";
/// The way to go on in which edits are not.
pub const EDITING: &str = "Go on, and make edits without asking";

/// What came of an inquiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given<'a> {
    /// These words to each question, in order. No words: the default counts.
    Answers(&'a [Vec<String>]),
    /// A yes without words: the defaults count.
    Defaults,
    /// A person did not want to answer, and said this.
    Refused(Option<&'a str>),
    /// Nobody was there to answer.
    Nobody,
    /// Nobody answered in time.
    TooLate,
}

/// A plan that a person is asked to approve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedPlan {
    /// The plan, as Markdown.
    pub text: String,
    /// The file that Piton keeps it in, as people see it; none: it could not be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether it is another one than the model wrote: the user or a hook has changed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}

/// What an answer means for the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// The plan is carried out in this mode.
    In(PermissionMode),
    /// The plan is carried out in the mode that held before plan mode.
    AsBefore,
}

/// What a plan is called: its first line with words, without Markdown's signs.
pub fn name(text: &str) -> &str {
    let line = text.lines().map(|line| line.trim_start_matches(['#', '-', '*', ' '])).find(|line| !line.is_empty());
    line.unwrap_or("plan").trim_end()
}

/// Whether this answer approves of the plan.
pub fn approval(given: Given<'_>) -> Option<Approval> {
    match given {
        Given::Answers([words]) => match words.as_slice() {
            [one] if one == ASKING => Some(Approval::In(PermissionMode::Ask)),
            [one] if one == EDITING => Some(Approval::In(PermissionMode::AcceptEdits)),
            _ => None,
        },
        Given::Defaults => Some(Approval::AsBefore),
        Given::Answers(_) | Given::Refused(_) | Given::Nobody | Given::TooLate => None,
    }
}

impl ProposedPlan {
    /// The outcome of the call, as the model reads it.
    pub fn outcome(&self, given: Given<'_>) -> Outcome {
        let kept = self.file.as_ref().map_or(String::new(), |file| format!(" The plan is kept in {file}."));
        let changed = format!("\n\nThe plan was changed after you proposed it. It is now:\n\n{}", self.text);
        let kept = if self.changed { format!("{kept}{changed}") } else { kept };
        let still = "You are still in plan mode.";
        let (status, title, text) = match (approval(given), given) {
            (Some(Approval::In(PermissionMode::AcceptEdits)), _) => {
                let how = "Plan mode is off; edits of files run without a question. Carry the plan out now.";
                (Status::Ok, "approved, edits accepted", format!("The user approved of the plan. {how}{kept}"))
            }
            (Some(Approval::In(_)), _) => {
                let how = "Plan mode is off; the user is asked about changes. Carry the plan out now.";
                (Status::Ok, "approved", format!("The user approved of the plan. {how}{kept}"))
            }
            (Some(Approval::AsBefore), _) => {
                let how = "Plan mode is off. Carry the plan out now.";
                (Status::Ok, "approved", format!("The plan is approved. {how}{kept}"))
            }
            (None, Given::Answers([words])) if !words.is_empty() => {
                let words = words.join("; ");
                let next = "Change the plan by that, and call exit_plan again.";
                (Status::Ok, "sent back", format!("The user sends the plan back: {words}\n\n{still} {next}{kept}"))
            }
            (None, Given::Refused(Some(words))) => (
                Status::Denied,
                "not approved",
                format!("The user did not approve of the plan: {words}\n\n{still}{kept}"),
            ),
            (None, Given::Nobody | Given::TooLate) => {
                let next = "Give the plan as your answer, and end the turn.";
                let why = "The plan is not approved: nobody is there to decide about it.";
                (Status::Failed, "nobody is there", format!("{why} {still} {next}{kept}"))
            }
            (None, Given::Answers(_) | Given::Refused(None) | Given::Defaults) => {
                (Status::Denied, "not approved", format!("The user did not approve of the plan. {still}{kept}"))
            }
        };
        let facts = json!({"approved": approval(given).is_some(), "file": self.file});
        Outcome::new(status, text).titled(format!("{TOOL} {title}")).with(facts)
    }
}

/// Whether this is the outcome of a call by which a plan was approved.
pub fn is_approved(outcome: &Outcome) -> bool {
    outcome.title.starts_with(TOOL) && outcome.metadata.get("approved") == Some(&json!(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_reads_where_the_plan_is_kept() {
        let file = Some(".piton/plans/x.md".to_owned());
        let plan = ProposedPlan { text: "x".to_owned(), file, changed: false };
        for given in [Given::Defaults, Given::Nobody, Given::Refused(Some("no"))] {
            assert!(plan.outcome(given).text.ends_with("The plan is kept in .piton/plans/x.md."), "{given:?}");
        }
        assert_eq!(plan.outcome(Given::Nobody).status, Status::Failed);
    }
}
