//! Judging a host that the command of a call wants to reach, and the question about it.

use super::{JobContext, shown};
use crate::hosts::Held;
use piton_core::call::Access;
use piton_core::event::{Event, Subject};
use piton_core::ids::CallId;
use piton_core::permission::Judgement;
use piton_core::question::{About, Fact, Question, QuestionBlock};

/// What rules, grants and mode say of a host.
pub(crate) fn judged(host: &str, is_listed: bool, cx: &JobContext<'_>) -> Judgement {
    let policy = cx.session.policy();
    let grants = [cx.session.grants(), &cx.grants_of_others()].concat();
    let held = Held { rules: &policy.permission, grants: &grants, mode: policy.mode, reach: &policy.reach };
    held.says(host, is_listed)
}

/// The question whether the command of a call may reach a host; `None`: no command of a turn runs under this name.
pub(crate) fn asked(call: &CallId, host: &str, judged: Judgement, cx: &JobContext<'_>) -> Option<Event> {
    let open = cx.session.open_call(call).filter(|_| cx.session.is_started_here(call))?;
    let accesses = &cx.session.plan(call)?.accesses;
    let script = accesses.iter().find_map(|access| match access {
        Access::Run(script) => Some(script.clone()),
        _ => None,
    });
    let command = script.unwrap_or_else(|| open.name.clone());
    let mut body = vec![QuestionBlock::Command { command, marks: Vec::new() }];
    let fact = |about, text: String| Fact { about, text };
    let mut facts: Vec<Fact> = judged.parts.iter().map(|part| fact(About::Asked, shown::because(part))).collect();
    let reaches = "only public addresses of this host; Piton does not inspect what is sent";
    facts.push(fact(About::Reach, reaches.to_owned()));
    facts.extend(shown::hidden_characters(&body));
    body.push(QuestionBlock::Facts { facts });
    let question = Question::may_run(format!("Let this command reach {host}?"), body, judged.remember);
    let can_last = cx.services.settings.standing.is_some();
    let question = Some(Box::new(if can_last { question.lasting() } else { question }));
    let subject = Subject::Host { call: call.clone(), host: host.to_owned() };
    Some(Event::ApprovalAsked { subject, question })
}
