//! Fork: a new session with a copy of another session's events, up to a position where no turn was under way, and with copies of
//! its subagents' sessions, as far as they had come by then. Afterwards the two share only the workspace, and either can be
//! removed.

pub use crate::error::ForkError;

use crate::clock::World;
use crate::store::{Opening, Store, Stored};
use piton_core::branch::{self, Path};
use piton_core::call::Outcome;
use piton_core::event::{Event, Origin, Record, TitledBy};
use piton_core::ids::{CallId, MessageId, Seq, SessionId, TimeMs};
use piton_core::question::Decision;
use serde_json::Value;
use std::sync::Arc;

/// Makes a session beside this one, `at` the end of a turn or, without, at its last. This one is only read; it may be
/// at work.
pub(crate) async fn fork(stored: &Stored, at: Option<Seq>, world: &World) -> Result<SessionId, ForkError> {
    let records = stored.records().await?;
    let ends: Vec<Seq> = branch::turns(&records)
        .into_iter()
        .filter(|span| span.on_path && span.end.is_some())
        .map(|span| span.last)
        .collect();
    let Some(last) = ends.last() else { return Err(ForkError::NothingYet) };
    let cut = at.unwrap_or(*last);
    if !ends.contains(&cut) {
        return Err(ForkError::NotAtRest { at: cut, ends });
    }
    let (fork, of) = (world.session_id(), stored.id().clone());
    let root =
        Copy { parent: Origin { session: of.clone(), seq: cut, call: None }, of, fork: fork.clone(), cut, records };
    let tree = Tree::of(root, &**stored.store(), world).await;
    // The root comes last: without it none of the others is anybody's.
    for copy in tree.copies.iter().rev() {
        copy.write(&tree.names, &**stored.store(), world).await?;
    }
    Ok(fork)
}

/// A session that is to be copied.
struct Copy {
    of: SessionId,
    fork: SessionId,
    parent: Origin,
    cut: Seq,
    records: Vec<Record>,
}

/// A session and its subagents, each behind its caller, with the new id of each.
struct Tree {
    copies: Vec<Copy>,
    names: Vec<(SessionId, SessionId)>,
}

impl Tree {
    /// What of a session's subagents is to be copied with it. One that cannot be read, or has answered nothing yet, is not.
    async fn of(root: Copy, store: &dyn Store, world: &World) -> Self {
        let mut tree = Self { names: vec![(root.of.clone(), root.fork.clone())], copies: vec![root] };
        let mut at = 0;
        while let Some(caller) = tree.copies.get(at) {
            let (of, fork, mut found) = (caller.of.clone(), caller.fork.clone(), Vec::new());
            for (child, calls) in caller.called() {
                let Ok(records) = store.read(&child, 1, usize::MAX).await else { continue };
                if let Some(copy) = answered(records, &of, &calls) {
                    found.push((child, copy));
                }
            }
            for (child, (cut, call, records)) in found {
                let name = world.session_id();
                let seq = tree.copies[at].place(origin(&records).seq);
                let parent = Origin { session: fork.clone(), seq, call: Some(call) };
                tree.names.push((child.clone(), name.clone()));
                tree.copies.push(Copy { of: child, fork: name, parent, cut, records });
            }
            at += 1;
        }
        tree
    }
}

/// Where a session was called from.
fn origin(records: &[Record]) -> Origin {
    match records.first().map(|record| &record.event) {
        Some(Event::SessionStarted { parent: Some(parent), .. }) => parent.clone(),
        _ => Origin { session: SessionId::from(""), seq: 0, call: None },
    }
}

/// How far a subagent's session had come when it had answered these calls of its caller, and the call that began it.
fn answered(records: Vec<Record>, caller: &SessionId, calls: &[CallId]) -> Option<(Seq, CallId, Vec<Record>)> {
    let Origin { session, call: Some(began), .. } = origin(&records) else { return None };
    if session != *caller {
        return None;
    }
    let asked: Vec<MessageId> = calls.iter().map(|call| MessageId::of_call(caller, call.as_str())).collect();
    let is_asked =
        |record: &&Record| matches!(&record.event, Event::UserSpoke { message, .. } if asked.contains(message));
    let last = records.iter().rfind(is_asked)?.seq;
    let ends =
        branch::turns(&records).into_iter().filter(|span| span.on_path && span.end.is_some()).map(|span| span.last);
    let (before, after): (Vec<Seq>, Vec<Seq>) = ends.partition(|end| *end < last);
    let cut = after.first().or(before.last()).copied()?;
    Some((cut, began, records))
}

impl Copy {
    /// The subagents whose calls come along, each with these.
    fn called(&self) -> Vec<(SessionId, Vec<CallId>)> {
        let path = Path::of(&self.records);
        let mut all: Vec<(SessionId, Vec<CallId>)> = Vec::new();
        for record in self.records.iter().filter(|record| record.seq <= self.cut && path.contains(record.seq)) {
            let Event::Delegated { call, child, .. } = &record.event else { continue };
            match all.iter_mut().find(|(known, _)| known == child) {
                Some((_, calls)) => calls.push(call.clone()),
                None => all.push((child.clone(), vec![call.clone()])),
            }
        }
        all
    }

    /// The new position of what is copied up to an old one.
    fn place(&self, seq: Seq) -> Seq {
        let path = Path::of(&self.records);
        let is_before = |record: &&Record| record.seq <= seq && is_copied(record, self.cut, &path);
        self.records.iter().filter(is_before).count() as Seq + 1
    }

    /// Writes it down as a session of its own.
    async fn write(&self, names: &[(SessionId, SessionId)], store: &dyn Store, world: &World) -> Result<(), ForkError> {
        let opening = Opening::in_world(world, true);
        let now_ms = opening.now_ms;
        let log = store.create(&self.fork, opening.clone()).await?;
        let mut copied = copy(&self.records, self.cut, &self.fork, &self.parent);
        if self.parent.call.is_some()
            && let Some((_, Event::SessionStarted { workspace, .. })) = copied.first_mut()
        {
            // A git worktree of its own is named after it, and made anew for another.
            *workspace = workspace.replace(self.of.as_str(), self.fork.as_str());
        }
        // Words that name the root there were said to the root.
        let names = if self.parent.call.is_some() { names } else { &names[1..] };
        if !names.is_empty() {
            copied.iter_mut().for_each(|(_, event)| rename(event, names));
        }
        copied.insert(1, (now_ms, opening.event(log.epoch())));
        copied.push((now_ms, Event::WriterClosed {}));
        let record = |(seq, (at_ms, event))| Arc::new(Record { seq, at_ms, event });
        Ok(log.close(&(1..).zip(copied).map(record).collect::<Vec<_>>()).await?)
    }
}

/// Names the copies where an event names the sessions they were made of. Files of these stay theirs, so a path is left as it is; and
/// so is what a provider has signed.
fn rename(event: &mut Event, names: &[(SessionId, SessionId)]) {
    // Where the fork is from is no reference to itself, and the path of its workspace says where it works.
    if let Event::SessionStarted { .. } = event {
        return;
    }
    let Ok(mut json) = serde_json::to_value(&*event) else { return };
    if rename_in(&mut json, names)
        && let Ok(renamed) = serde_json::from_value(json)
    {
        *event = renamed;
    }
}

/// Whether anything in it has another name now.
fn rename_in(json: &mut Value, names: &[(SessionId, SessionId)]) -> bool {
    match json {
        Value::String(text) => names.iter().fold(false, |is_renamed, (old, new)| {
            let renamed = not_in_paths(text, old.as_str(), new.as_str());
            let changes = renamed != *text;
            *text = renamed;
            is_renamed | changes
        }),
        Value::Array(items) => items.iter_mut().fold(false, |is_renamed, item| is_renamed | rename_in(item, names)),
        Value::Object(fields) if fields.get("type").is_some_and(|kind| kind == "reasoning") => false,
        Value::Object(fields) => {
            fields.values_mut().fold(false, |is_renamed, item| is_renamed | rename_in(item, names))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn not_in_paths(text: &str, old: &str, new: &str) -> String {
    let mut parts = text.split(old);
    let mut renamed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        renamed.push_str(if renamed.ends_with('/') { old } else { new });
        renamed.push_str(part);
    }
    renamed
}

/// Whether an event comes along: one on the path up to `cut`, or one that holds on every path.
fn is_copied(record: &Record, cut: Seq, path: &Path) -> bool {
    match &record.event {
        Event::TitleGiven { .. } | Event::WorkspaceMoved { .. } => true,
        // Who wrote the other journal has no part in this one; and where its head was is where this one begins.
        Event::WriterOpened { .. }
        | Event::WriterClosed {}
        | Event::TaskEnded { .. }
        | Event::RewindStarted { .. }
        | Event::RewindFinished { .. } => false,
        _ => record.seq <= cut && path.contains(record.seq),
    }
}

/// The events of a path up to `cut` as those of another session, each with its time, and with whatever holds on every
/// path: the fork has the title that the other session has now, marked if a person gave it, and works where that works now. Behind the first there is room
/// for the event that says who opened it.
fn copy(records: &[Record], cut: Seq, fork: &SessionId, parent: &Origin) -> Vec<(TimeMs, Event)> {
    let mut copied = Vec::new();
    let path = Path::of(records);
    // The new position of each old event that was copied, in order.
    let mut places: Vec<(Seq, Seq)> = Vec::new();
    for record in records.iter().filter(|record| is_copied(record, cut, &path)) {
        let event = match &record.event {
            Event::SessionStarted { workspace, .. } => Event::SessionStarted {
                session: fork.clone(),
                workspace: workspace.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                parent: Some(parent.clone()),
            },
            // What was left running is the other session's.
            Event::CallSettled { call, outcome } => {
                Event::CallSettled { call: call.clone(), outcome: Outcome { task: None, ..outcome.clone() } }
            }
            Event::CompactionFinished { upto_seq, .. } => {
                let upto_seq = places.iter().rev().find(|(old, _)| old <= upto_seq).map_or(0, |(_, new)| *new);
                let mut event = record.event.clone();
                if let Event::CompactionFinished { upto_seq: place, .. } = &mut event {
                    *place = upto_seq;
                }
                event
            }
            // What was allowed in the other session was allowed there.
            Event::ApprovalGiven {
                subject,
                decision: Decision::ApproveForSession | Decision::ApproveLasting(_),
                by,
            } => Event::ApprovalGiven { subject: subject.clone(), decision: Decision::Approve, by: *by },
            Event::GrantsShared { from, .. } => Event::GrantsShared { from: from.clone(), grants: Vec::new() },
            // A name that a person gave means one session. A subagent's is what it was called for.
            Event::TitleGiven { title, by: TitledBy::User } if !title.is_empty() && parent.call.is_none() => {
                Event::TitleGiven { title: format!("{title} (fork)"), by: TitledBy::User }
            }
            event => event.clone(),
        };
        // The second place is taken.
        places.push((record.seq, copied.len() as Seq + 1 + Seq::from(!copied.is_empty())));
        copied.push((record.at_ms, event));
    }
    copied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::store::{self, CheckResult};
    use piton_core::call::{TaskBegan, TaskNews};
    use piton_core::event::{Delivery, Direction, Rewind, Spent, StepKind, Trigger, TurnEnd};
    use piton_core::message::{FinishReason, Part};
    use piton_core::model::Reply;
    use piton_core::policy::Policy;
    use piton_core::task::Tasks;
    use piton_core::turn::State;

    /// A turn in which the model says one thing.
    fn turn(number: u32, step: u32, says: &str) -> Vec<Event> {
        let reply = Reply::new(vec![Part::text(says)], FinishReason::Stop);
        let message = MessageId(format!("m{number}"));
        vec![
            Event::UserSpoke {
                message,
                parts: vec![Part::text("go")],
                delivery: Delivery::Steer,
                typed: None,
                allows: Vec::new(),
                for_turn: None,
                subtask: None,
            },
            Event::TurnStarted {
                turn: number,
                model: "fake/model".into(),
                fallbacks: vec![],
                policy: Box::new(Policy::piton()),
                compact_at_tokens: None,
                this_turn_only: false,
            },
            Event::StepStarted { step, kind: StepKind::Ordinary, note: None },
            Event::replied(step, reply),
            Event::StepFinished { step },
            Event::TurnEnded {
                turn: number,
                end: TurnEnd::Completed,
                why: None,
                detail: None,
                spent: Spent::default(),
            },
        ]
    }

    fn words(session: &State) -> Vec<String> {
        session.transcript().map(|message| message.prose()).collect()
    }

    #[test]
    fn what_was_left_running_stays_with_its_session() {
        let (ours, theirs, call) = (SessionId::from("ses_1"), SessionId::from("ses_2"), CallId::from("c1_0"));
        let began = Some(TaskBegan { command: "serve".into(), notify: true, subagent: None });
        let news = TaskNews { task: call.clone(), began, read_to: 0, is_over: false };
        let (session, workspace, version) = (ours.clone(), "/w".into(), "0".into());
        let events = [
            Event::SessionStarted { session, workspace, version, parent: None },
            Event::CallSettled { call: call.clone(), outcome: Outcome::ok("it runs").about(news) },
            Event::TaskEnded { task: call, outcome: Outcome::ok("over") },
        ];
        let records: Vec<Record> = (1..).zip(events).map(|(seq, event)| Record { seq, at_ms: 0, event }).collect();
        assert_eq!(Tasks::of(&records).all().len(), 1);
        let copied = copy(&records, 3, &theirs, &Origin { session: ours, seq: 3, call: None });
        assert!(!copied.iter().any(|(_, event)| matches!(event, Event::TaskEnded { .. })));
        let copied: Vec<Record> = (1..).zip(copied).map(|(seq, (at_ms, event))| Record { seq, at_ms, event }).collect();
        assert_eq!(Tasks::of(&copied), Tasks::default());
    }

    #[tokio::test]
    async fn a_fork_holds_the_path_only_and_gives_out_no_number_twice() {
        let data = tempfile::tempdir().expect("a folder");
        let engine = Engine::open(data.path());
        let id = engine.world().session_id();
        let started =
            Event::SessionStarted { session: id.clone(), workspace: "/w".into(), version: "0".into(), parent: None };
        let back = Rewind { direction: Direction::Undo, turns: 1, to: Some(7), files: vec![], overwrite: false };
        let compacted = Event::CompactionFinished {
            trigger: Trigger::Ordinary,
            upto_seq: 5,
            summary: "s".into(),
            tokens_before: 2,
            tokens_after: 1,
            note: None,
            asked: None,
        };
        let events = std::iter::once(started)
            .chain(turn(1, 1, "first"))
            .chain(turn(2, 2, "taken back"))
            .chain([Event::RewindFinished { rewind: back, left: vec![], back: None }])
            .chain(turn(3, 3, "third"));
        let everywhere = [
            compacted,
            Event::TitleGiven { title: "ours".into(), by: TitledBy::User },
            Event::WorkspaceMoved { workspace: "/v".into() },
            Event::WriterClosed {},
        ];
        let record = |(seq, event)| Record { seq, at_ms: 0, event };
        let old: Vec<Record> = (1..).zip(events.chain(everywhere)).map(record).collect();
        engine.store().adopt(&id, engine.opening(false), old.clone()).await.expect("a session");

        let resumed = store::resume(&**engine.store(), &id, engine.opening(false), &mut ()).await;
        let (log, session) = resumed.expect("its journal");
        assert_eq!(session, State::fold(&engine.records(&id).await.expect("all of it")));
        drop(log);

        let fork = engine.fork(&id, None).await.expect("a fork");
        let records = engine.records(&fork).await.expect("its journal");
        let session = State::fold(&records);
        assert_eq!(words(&session), ["go", "first", "go", "third"]);
        assert_eq!((session.turn(), session.step()), (3, 3));
        assert_eq!(session.parent().map(|parent| parent.session.clone()), Some(id.clone()));
        assert!(matches!(engine.store().verify(&fork).await, Ok(CheckResult::Sound { .. })));

        let earlier = engine.fork(&id, Some(7)).await.expect("a fork");
        let records = engine.records(&earlier).await.expect("its journal");
        let session = State::fold(&records);
        assert_eq!(words(&session), ["go", "first"]);
        assert_eq!(
            (session.title(), session.workspace()),
            (Some("ours (fork)"), "/v"),
            "what holds everywhere comes along"
        );
        assert!(
            matches!(engine.fork(&id, Some(9)).await, Err(ForkError::NotAtRest { at: 9, ends }) if ends == [7, 20])
        );
    }
}
