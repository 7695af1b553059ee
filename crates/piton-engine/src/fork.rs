//! Fork: a new session with a copy of another session's events, up to a position where no turn was under way. Afterwards
//! the two share only the workspace, and either can be removed.

pub use crate::error::ForkError;

use crate::clock::World;
use crate::store::{Opening, Stored};
use piton_core::branch::{self, Path};
use piton_core::call::Outcome;
use piton_core::event::{Event, Origin, Record, TitledBy};
use piton_core::ids::{Seq, SessionId, TimeMs};
use piton_core::question::Decision;
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
    let (fork, opening) = (world.session_id(), Opening::in_world(world, true));
    let now_ms = opening.now_ms;
    let log = stored.store().create(&fork, opening.clone()).await?;
    let mut copied = copy(&records, cut, &fork, stored.id());
    copied.insert(1, (now_ms, opening.event(log.epoch())));
    copied.push((now_ms, Event::WriterClosed {}));
    let record = |(seq, (at_ms, event))| Arc::new(Record { seq, at_ms, event });
    log.close(&(1..).zip(copied).map(record).collect::<Vec<_>>()).await?;
    Ok(fork)
}

/// The events of a path up to `cut` as those of another session, each with its time, and with whatever holds on every
/// path: the fork has the title that the other session has now, marked if a person gave it, and works where that works now. Behind the first there is room
/// for the event that says who opened it.
fn copy(records: &[Record], cut: Seq, fork: &SessionId, of: &SessionId) -> Vec<(TimeMs, Event)> {
    let mut copied = Vec::new();
    let path = Path::of(records);
    // The new position of each old event that was copied, in order.
    let mut places: Vec<(Seq, Seq)> = Vec::new();
    let holds_everywhere = |event: &Event| matches!(event, Event::TitleGiven { .. } | Event::WorkspaceMoved { .. });
    let counts = |record: &&Record| record.seq <= cut && path.contains(record.seq) || holds_everywhere(&record.event);
    for record in records.iter().filter(counts) {
        let event = match &record.event {
            Event::SessionStarted { workspace, .. } => Event::SessionStarted {
                session: fork.clone(),
                workspace: workspace.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                parent: Some(Origin { session: of.clone(), seq: cut, call: None }),
            },
            // Who wrote the other journal has no part in this one; and where its head was is where this one begins.
            Event::WriterOpened { .. }
            | Event::WriterClosed {}
            | Event::TaskEnded { .. }
            | Event::RewindStarted { .. }
            | Event::RewindFinished { .. } => continue,
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
            // A name that a person gave means one session.
            Event::TitleGiven { title, by: TitledBy::User } if !title.is_empty() => {
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
    use piton_core::ids::{CallId, MessageId};
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
            },
            Event::TurnStarted {
                turn: number,
                model: "fake/model".into(),
                fallbacks: vec![],
                policy: Box::new(Policy::piton()),
                compact_at_tokens: None,
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
        let copied = copy(&records, 3, &theirs, &ours);
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
