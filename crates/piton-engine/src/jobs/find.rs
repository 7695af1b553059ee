//! Finding what was answered to a question that is not open any more: the journal is read, while the session goes on.
//!
//! A restart loses it: whoever asked has no answer, and asks again. A cancel of the turn does not end it. After a panic whoever
//! asked hears that the session gave no answer.

use super::{JobContext, Task};
use crate::inbox::Asker;
use piton_core::client::Reply;
use piton_core::event::{Event, Subject};

/// Looks for the answer that was given, and tells who gave another one.
pub(crate) fn find_answer(subject: Subject, asker: Asker, cx: &JobContext<'_>) -> Task {
    let stored = cx.services.stored.clone();
    let work = async move {
        // Where the journal cannot be read, that the question is not open is still true.
        let records = stored.records().await.unwrap_or_default();
        let given = records.iter().rev().find_map(|record| match &record.event {
            Event::ApprovalGiven { subject: about, decision, by } if *about == subject => Some((decision.clone(), *by)),
            _ => None,
        });
        let (given, by) = given.map_or((None, None), |(decision, by)| (Some(decision), by));
        asker.tell(Reply::NotOpen { subject, given, by });
    };
    Task::new(work, |(), _| Vec::new())
}
