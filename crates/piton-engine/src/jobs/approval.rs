//! Putting a question to a person. The client shows it and answers ([`piton_core::client::Request::Answer`]); here it is
//! only answered where nobody need be asked.
//!
//! After a restart the question is still open, or answered by the rules of whoever goes on. A cancel takes it back: the turn
//! waits for it no longer. Nothing runs that could panic.

use super::{JobContext, Step, host};
use piton_core::event::{Answerer, Event, Subject};
use piton_core::ids::CallId;
use piton_core::inquiry;
use piton_core::permission::{Action, PermissionMode};
use piton_core::question::Decision;

/// The answer to a question that nobody need be asked: the rules have changed since it was put (the user said "always", or
/// resumed with other flags), or nobody is there.
pub(super) fn take_up(subject: &Subject, cx: &JobContext<'_>) -> Step {
    let is_inquiry = || cx.session.question(subject).is_some_and(|question| question.inquiry.is_some());
    let is_plan = || {
        let inquiry = cx.session.question(subject).and_then(|question| question.inquiry);
        inquiry.is_some_and(|inquiry| inquiry.plan.is_some())
    };
    let is_allowed = |id: &CallId| {
        let (call, plan) = (cx.session.open_call(id)?, cx.session.plan(id)?);
        Some(cx.session.judge_with(&call.name, &plan.accesses, &cx.grants_of_others()).action == Action::Allow)
    };
    let (decision, by) = match subject {
        // Rules let a call pass; what the model wants to know they cannot say.
        Subject::Call(id) if !cx.session.is_asked_by_hook(id) && is_allowed(id) == Some(true) && !is_inquiry() => {
            (Decision::Approve, Answerer::Rules)
        }
        Subject::Host { host, .. } if host::judged(host, false, cx).action == Action::Allow => {
            (Decision::Approve, Answerer::Rules)
        }
        // Who lets everything pass has let a plan pass, too, where they cannot be asked about it.
        _ if is_plan()
            && !cx.services.is_attended()
            && cx.services.settings.displaced.mode == Some(PermissionMode::Auto) =>
        {
            (Decision::Approve, Answerer::Rules)
        }
        _ if !cx.services.is_attended() => (Decision::Unattended, Answerer::Nobody),
        Subject::Call(_)
        | Subject::GoOn(_)
        | Subject::Host { .. }
        | Subject::Child { .. }
        | Subject::Elicited { .. } => return Step::Wait,
    };
    Step::Record(vec![Event::ApprovalGiven { subject: subject.clone(), decision, by: Some(by) }])
}

/// An answer as it is recorded: an input that comes with it, in the tool's own field names; words without what nobody sees.
pub(crate) fn answer(subject: Subject, mut decision: Decision, by: Answerer, cx: &JobContext<'_>) -> Event {
    if let (Decision::ApproveChanged(input), Subject::Call(id)) = (&mut decision, &subject)
        && let Some(call) = cx.session.open_call(id)
    {
        *input = cx.services.settings.tools.canonical(&call.name, input.take());
    }
    if let Decision::Answered(answers) = &mut decision {
        *answers = inquiry::cleaned(answers);
    }
    let by = if decision == Decision::Unattended { Answerer::Nobody } else { by };
    Event::ApprovalGiven { subject, decision, by: Some(by) }
}
