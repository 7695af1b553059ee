//! `piton session show --audit`: what the permission rules said of each call, what a person was asked, and what they answered.

use crate::failure::Result;
use crate::out::{print, view};
use piton_core::event::{Event, Record, Subject, Verdict};
use piton_core::hidden::visible_name;
use piton_core::ids::SessionId;
use piton_core::permission::{Judged, PartSaid, Reach};
use piton_engine::engine::Engine;
use serde_json::{Value, json};

/// Prints every verdict of a session, in order.
pub(super) async fn audit(engine: &Engine, id: &SessionId, as_json: bool) -> Result<()> {
    let mut reach = Reach::default();
    let mut shown = None;
    for record in engine.records(id).await? {
        if let Event::TurnStarted { policy, .. } | Event::TurnResumed { policy, .. } = &record.event {
            reach.clone_from(&policy.reach);
            // It is long, and seldom another one.
            if !as_json && shown.as_ref() != Some(&reach) {
                view::write_stdout(&reach_in_words(&record, &reach));
                shown = Some(reach.clone());
            }
        }
        let Some(entry) = entry(&record, &reach) else { continue };
        view::write_stdout(&if as_json { format!("{entry}\n") } else { in_words(&record) });
    }
    Ok(())
}

/// An event as a program reads it; `None`: it is no verdict, question or answer.
fn entry(record: &Record, reach: &Reach) -> Option<Value> {
    let said = match &record.event {
        Event::CallRequested { call, verdict, plan, judged, .. } => {
            let title = plan.as_ref().map(|plan| &plan.title);
            json!({"call": call, "verdict": verdict, "title": title, "judged": judged, "reach": reach})
        }
        Event::ApprovalAsked { subject, question } => {
            json!({"asked": subject, "shown": question.as_ref().map(|question| &question.shown)})
        }
        Event::ApprovalGiven { subject, decision, by } => json!({"answered": subject, "decision": decision, "by": by}),
        Event::ApprovalVoided { subject, why } => json!({"voided": subject, "why": why}),
        Event::GrantsRevoked { .. } => json!({"revoked": record.event}),
        Event::GrantsShared { from, grants } => json!({"shared": grants, "from": from}),
        _ => return None,
    };
    let mut entry = json!({"seq": record.seq, "at_ms": record.at_ms});
    if let (Some(entry), Value::Object(said)) = (entry.as_object_mut(), said) {
        entry.extend(said);
    }
    Some(entry)
}

fn in_words(record: &Record) -> String {
    let place = format!("{:>5} ", record.seq);
    match &record.event {
        Event::CallRequested { call, verdict, plan, judged, .. } => {
            let title = plan.as_ref().map(|plan| print::shorten(&plan.title)).unwrap_or_default();
            let mut text = format!("{place}{call} {title}: {}\n", word(verdict));
            text.extend(judged.iter().flat_map(|judged| lines(judged)));
            text
        }
        Event::ApprovalAsked { subject, question } => {
            let shown = question.as_ref().map(|question| format!(", shown {}", question.shown)).unwrap_or_default();
            format!("{place}asked about {}{shown}\n", name(subject))
        }
        Event::ApprovalGiven { subject, decision, by } => {
            let by = by.as_ref().and_then(|by| json!(by).as_str().map(|by| format!(" by {by}"))).unwrap_or_default();
            format!("{place}answer to {}: {}{by}\n", name(subject), print::clean(&plain(&json!(decision))))
        }
        Event::ApprovalVoided { subject, why } => {
            format!("{place}the answer to {} does not hold: {}\n", name(subject), print::clean(why))
        }
        Event::GrantsShared { from, grants } => {
            let rules: Vec<String> = grants.iter().map(|grant| print::clean(&grant.rule.to_string())).collect();
            format!("{place}allowed in the subagent {from}: {}\n", rules.join(", "))
        }
        _ => format!("{place}what was allowed was taken back\n"),
    }
}

/// What the calls from here on reach without a question, and what no call reaches.
fn reach_in_words(record: &Record, reach: &Reach) -> String {
    let Reach { home, read, never, hosts, protected } = reach;
    let all = |names: &[String]| names.iter().map(|name| visible_name(name)).collect::<Vec<_>>().join(", ");
    let read = if read.is_empty() { "everything".to_owned() } else { format!("the workspace, {}", all(read)) };
    let lines = [
        ("home", visible_name(home)),
        ("reads", read),
        ("never", all(never)),
        ("hosts", all(hosts)),
        ("protected", all(protected)),
    ];
    let lines = lines.iter().filter(|(_, text)| !text.is_empty());
    let lines: String = lines.map(|(about, text)| format!("        {about:<9} {text}\n")).collect();
    format!("{:>5} reach\n{lines}", record.seq)
}

fn name(subject: &Subject) -> String {
    match subject {
        Subject::Call(call) => call.to_string(),
        Subject::GoOn(call) => format!("going on after {call}"),
        Subject::Host { call, host } => format!("the host {host} for {call}"),
        Subject::Elicited { call, number } => format!("what a server asked during {call} ({number})"),
        Subject::Child { session, subject } => format!("{} of {session}", name(subject)),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allowed",
        Verdict::Ask => "asked",
        Verdict::AskFirst(_) => "asked, because a hook wants it",
        Verdict::Deny(_) => "denied",
        Verdict::Refuse(_) => "refused",
    }
}

/// What was said of each part.
fn lines(judged: &Judged) -> Vec<String> {
    let place = if judged.confined { "sandbox" } else { "unconfined" };
    let line = |part: &PartSaid| {
        let by = match &part.rule {
            Some(rule) => {
                let from = rule.layer.as_ref().map(|from| format!(" of {from}")).unwrap_or_default();
                format!("by the rule {rule}{from}, {}", plain(&json!(rule.voice)))
            }
            None => part.why.clone(),
        };
        format!("        {:<5} {}  ({})\n", part.action.word(), print::shorten(&part.part), print::clean(&by))
    };
    let head = format!("        mode {}, {place}\n", judged.mode);
    std::iter::once(head).chain(judged.parts.iter().map(line)).collect()
}
