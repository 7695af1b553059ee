//! The journal as specifications: what is safe when, what is refused, and what is found when the files were changed.

mod chain;
mod commit;
mod damage;
mod migration;
mod obstacles;
mod projections;
mod reading;

use super::lock::Lock;
use super::schema::{MIGRATIONS, Migration};
use super::*;
use crate::store::{Activity, Flaw, Fold, Kept};
use piton_core::budget::Bound;
use piton_core::call::{Access, CallInput, CallKind, Delegated, Effects, Outcome, Planned};
use piton_core::event::Event;
use piton_core::event::{
    Author, Canceller, Delivery, Direction, Given, GivenKind, Rewind, Spent, StepKind, Subject, TitledBy, Trigger,
    TurnEnd, Verdict as Ruling,
};
use piton_core::ids::{CallId, MessageId, SessionId, TimeMs};
use piton_core::message::{FinishReason, Part, ToolCall, Usage};
use piton_core::model::{ModelError, ModelErrorKind, Reply};
use piton_core::permission::{Action, Rules};
use piton_core::policy::Policy;
use piton_core::prompt::{PromptContents, Segment, SegmentKind};
use piton_core::question::{Decision, Question, QuestionBlock};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The process that has the journal, as far as these tests say.
const PID: u32 = 4711;

/// A place for one session, gone after the test.
struct Place {
    dir: SessionDir,
    temp: TempDir,
}

impl Place {
    /// Nothing is here yet.
    fn new() -> Self {
        let temp = tempfile::tempdir().expect("a temporary folder");
        Self { dir: SessionDir::new(&temp.path().join("sessions"), &SessionId::from("ses_1")), temp }
    }

    /// A session with these events, committed and left in good order.
    fn closed(events: Vec<Event>) -> Self {
        let place = Self::new();
        place.create(events).close(99);
        place
    }

    /// A session with these events, the last one only in the write-ahead log, as a killed process leaves it.
    fn killed(mut events: Vec<Event>) -> Self {
        let last = events.pop().expect("more than one event");
        let place = Self::closed(events);
        let (mut journal, _) = place.open().expect("a sound session");
        append(&mut journal, vec![last]);
        kill(journal);
        place
    }

    /// A new journal in which these events are committed.
    fn create(&self, events: Vec<Event>) -> Journal {
        let mut journal = Journal::create(&self.dir, opening()).expect("a new session");
        append(&mut journal, events);
        journal
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::new(self.temp.path())
    }

    fn open(&self) -> Result<(Journal, Vec<Record>), StoreError> {
        Journal::open(&self.dir, opening())
    }

    /// What readers see, with the positions taken for granted.
    fn events(&self) -> Vec<Event> {
        events_of(read_session(&self.dir).expect("a readable session"))
    }

    fn wal(&self) -> PathBuf {
        self.dir.root().join("journal.db-wal")
    }

    /// Runs SQL behind the journal's back, with the guards of its tables taken down. What it writes stays in the
    /// write-ahead log.
    fn tamper(&self, sql: &str) {
        let conn = self.behind_the_back();
        conn.execute_batch("DROP TRIGGER event_is_never_changed; DROP TRIGGER event_is_never_deleted;")
            .expect("guards");
        conn.execute_batch(sql).expect("SQL");
    }

    fn behind_the_back(&self) -> Connection {
        let conn = Connection::open(self.dir.journal_db()).expect("a database");
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("a setting SQLite knows");
        conn.execute_batch("PRAGMA foreign_keys=OFF").expect("a setting SQLite knows");
        conn
    }

    /// Every file that holds data, byte for byte. Not while a connection is open: closing a file again drops the locks
    /// that SQLite holds on it in this process.
    fn bytes(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.dir.root()).expect("the session's folder").map(|entry| entry.expect("an entry"));
        let names = files.map(|file| file.file_name().into_string().expect("one of our names"));
        let holds_data = |name: &String| name.starts_with("journal.db") && !name.ends_with("-shm");
        let read = |name: String| (name.clone(), fs::read(self.dir.root().join(name)).expect("a readable file"));
        names.filter(holds_data).map(read).collect()
    }
}

/// Opens a session with these migrations, and its events.
fn open_with(dir: &SessionDir, migrations: &[Migration]) -> Result<(Journal, Vec<Record>), StoreError> {
    let mut records = Vec::new();
    let (journal, opened) =
        Journal::open_with(dir, opening(), migrations, &mut |record| records.push(bulk::kept(record)))?;
    records.push(opened);
    Ok((journal, records))
}

fn opening() -> Opening {
    Opening { pid: PID, boot_id: Some("boot".to_owned()), now_ms: 50, shares_runtime: false }
}

/// Commits these events at the times 1, 2, 3, …
fn append(journal: &mut Journal, events: Vec<Event>) -> Vec<Record> {
    let staged = (1..).zip(events).map(|(at_ms, event)| Arc::unwrap_or_clone(journal.stage(at_ms, event))).collect();
    journal.commit().expect("room on the disk");
    staged
}

/// The process dies: nothing is committed, nothing is tidied up.
fn kill(journal: Journal) {
    journal.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).expect("a setting SQLite knows");
    drop(journal);
}

fn events_of(records: Vec<Record>) -> Vec<Event> {
    let numbered = records.iter().zip(1..).all(|(record, seq)| record.seq == seq);
    assert!(numbered, "positions count from 1 without a gap");
    records.into_iter().map(|record| record.event).collect()
}

/// The rows of one table, in its own order.
fn dump(conn: &Connection, table: &str) -> Vec<Vec<rusqlite::types::Value>> {
    let mut statement = conn.prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2")).expect("a table of ours");
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    rows.expect("a query").collect::<Result<_, _>>().expect("rows")
}

fn started() -> Event {
    let (session, workspace, version) = (SessionId::from("ses_1"), "/w".to_owned(), "0.1".to_owned());
    Event::SessionStarted { session, workspace, version, parent: None }
}

fn said(text: &str) -> Event {
    Event::UserSpoke {
        message: MessageId::from("msg_1"),
        parts: vec![Part::text(text)],
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    }
}

fn opened(epoch: u64) -> Event {
    Event::WriterOpened { epoch, pid: PID, boot_id: Some("boot".to_owned()) }
}

fn small_session() -> Vec<Event> {
    let texts = ["one", "two", "three", "four"];
    [started()].into_iter().chain(texts.map(said)).collect()
}

fn call(id: &str, name: &str, input: Value) -> Part {
    let (id, name, input) = (CallId::from(id), name.to_owned(), CallInput::Json(input));
    Part::ToolCall(ToolCall { id, provider_id: Some("toolu_1".to_owned()), name, spelling: None, input, opaque: None })
}

fn reply(parts: Vec<Part>) -> Reply {
    let usage = Usage { input_tokens: 100, output_tokens: 20, cache_read_tokens: 80, ..Usage::default() };
    Reply {
        parts,
        finish: FinishReason::ToolCalls,
        finish_raw: None,
        usage,
        response_id: Some("r".to_owned()),
        warnings: Vec::new(),
    }
}

/// A session in which every kind of event happens.
fn eventful_session() -> Vec<Event> {
    let [read, bash, late] = ["c1_0", "c1_1", "c2_0"].map(CallId::from);
    let usage = Usage { input_tokens: 7, ..Usage::default() };
    let reasoning = Part::Reasoning { text: "hm".to_owned(), opaque: Some(json!({ "signature": "x" })) };
    let failed = |retry_at_ms| Event::ModelFailed {
        step: 1,
        attempt: 1,
        error: ModelError::new(ModelErrorKind::CutStream, "cut"),
        usage,
        cost_micros: None,
        at_most: Some(Bound { tokens: 900, cost_micros: Some(40) }),
        prompt: None,
        abandoned: vec![Part::text("I will"), call("c1_0", "read", json!({ "path": "a" }))],
        retry_at_ms,
    };
    let question = |command: &str| {
        let body = vec![QuestionBlock::Command { command: command.to_owned(), marks: Vec::new() }];
        let mut remember = Rules::default();
        remember.push("bash", Action::Allow);
        Some(Box::new(Question::may_run("Run this command?", body, remember)))
    };
    let asked = |id: &CallId| Event::CallRequested {
        call: id.clone(),
        input: Some(json!({ "path": "b" })),
        author: Author::Hook,
        effects: Effects::OPAQUE,
        verdict: Ruling::Ask,
        plan: Some(Box::new(Planned {
            kind: CallKind::Execute,
            title: "make".to_owned(),
            accesses: vec![Access::Spawn],
        })),
        judged: None,
    };
    let given = |id: &CallId, decision| Event::approval(Subject::Call(id.clone()), decision);
    vec![
        started(),
        opened(1),
        said("fix the\n  tests, please"),
        Event::TurnStarted {
            turn: 1,
            model: "fake/model".to_owned(),
            fallbacks: vec![],
            policy: Box::new(Policy::piton()),
            compact_at_tokens: Some(1000),
            this_turn_only: false,
        },
        Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None },
        failed(Some(20)),
        Event::BackoffPassed { step: 1 },
        Event::MessageFinished {
            first_ms: None,
            step: 1,
            attempt: 2,
            reply: reply(vec![
                reasoning,
                Part::text("Reading. "),
                call("c1_0", "read", json!({ "path": "a" })),
                call("c1_1", "bash", json!({ "command": "rm -r /" })),
            ]),
            cost_micros: Some(1500),
            at_most: Some(Bound { tokens: 700, cost_micros: None }),
            prompt: Some(Box::new(PromptContents {
                kept: 0,
                new: vec![Segment { kind: SegmentKind::Frame, hash: 7, bytes: 90 }],
                predicted_tokens: 0,
                lost_micros: Some(0),
            })),
        },
        Event::requested(read.clone(), Effects::READ, Ruling::Allow),
        asked(&bash),
        Event::ApprovalAsked { subject: Subject::Call(bash.clone()), question: question("make") },
        Event::CallStarted { call: read.clone() },
        given(&bash, Decision::Deny(Some("no".to_owned()))),
        Event::CallSettled {
            call: read,
            outcome: Outcome {
                delegated: Some(Box::new(Delegated {
                    session: SessionId::from("ses_child"),
                    usage,
                    cost_micros: Some(11),
                    unpriced_calls: 2,
                    steps: 3,
                    at_most: Bound::default(),
                })),
                ..Outcome::ok("text").titled("read a").with(json!({ "lines": 3 }))
            },
        },
        Event::CallSettled { call: bash.clone(), outcome: Outcome::failed("denied") },
        Event::ApprovalAsked { subject: Subject::GoOn(bash.clone()), question: None },
        Event::approval(Subject::GoOn(bash), Decision::Approve),
        Event::StepFinished { step: 1 },
        Event::CompactionStarted { trigger: Trigger::Ordinary, focus: None, lost: None },
        Event::CompactionFailed { trigger: Trigger::Ordinary, why: None, error: "no answer".to_owned(), asked: None },
        Event::CompactionStarted { trigger: Trigger::Forced, focus: None, lost: None },
        Event::CompactionFinished {
            trigger: Trigger::Forced,
            upto_seq: 8,
            summary: "tests were read".to_owned(),
            tokens_before: 900,
            tokens_after: 30,
            note: None,
            asked: None,
        },
        Event::StepStarted { step: 2, kind: StepKind::WrapUp, note: Some("Wrap up.".to_owned()) },
        Event::MessageFinished {
            first_ms: None,
            step: 2,
            attempt: 1,
            reply: reply(vec![call("c2_0", "bash", json!({ "command": "make" }))]),
            cost_micros: None,
            at_most: None,
            prompt: None,
        },
        asked(&late),
        Event::ApprovalAsked { subject: Subject::Call(late.clone()), question: question("late") },
        given(&late, Decision::ApproveForSession),
        Event::CallStarted { call: late },
        Event::StepStarted { step: 3, kind: StepKind::Continue, note: None },
        Event::DeadlinePassed {},
        Event::HooksRan {
            step: 3,
            point: piton_core::hook::HookPoint::Stop,
            call: None,
            runs: vec![piton_core::hook::HookRun::new("check", 5)],
            notes: vec!["not yet".to_owned()],
            system: None,
            tools: None,
            input: None,
            verdict: None,
            sent_back: Some("check".to_owned()),
            stopped: None,
        },
        Event::BudgetShort { step: 3, why: None, detail: "it is short".to_owned() },
        Event::CancelRequested { by: Canceller::User },
        Event::MessageCut { step: 3, parts: vec![Part::text("So ")], at_most: None },
        Event::TurnEnded { turn: 1, end: TurnEnd::Canceled, why: None, detail: None, spent: Spent::default() },
        Event::TitleGiven {
            title: "Tests mended".to_owned(),
            by: TitledBy::Model { model: "small/model".to_owned(), usage, cost_micros: Some(7), at_most: None },
        },
        Event::TitleGiven { title: String::new(), by: TitledBy::User },
        Event::EventLost {},
        Event::WorkspaceMoved { workspace: "/w".to_owned() },
        Event::ContextGiven { items: vec![Given::of(GivenKind::Environment, "You are here.")] },
        Event::WriterClosed {},
    ]
}
