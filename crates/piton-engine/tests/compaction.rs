//! Making room, as an embedder sees it: long sessions in small windows, with a model that counts like a provider and
//! keeps a cache like one.

#![allow(clippy::unwrap_used, reason = "tests")]

use piton_core::cache::{CacheLedger, Miss, Reading};
use piton_core::event::{Direction, Event, Record, Trigger, TurnEnd};
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use piton_core::model::{ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_core::permission::Action;
use piton_core::{call::CallInput, turn};
use piton_engine::compaction::{CompactError, How};
use piton_engine::engine::{Engine, Session, Settings};
use piton_engine::journal;
use piton_engine::rewind::Scope;
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

type Answer = Box<dyn FnMut(&Request, usize) -> Result<Vec<Part>, ModelError> + Send>;

/// A model of a small window. It counts four bytes as a token, and what a request shares with the one before, from the
/// front, it reads from its cache.
struct Small {
    window: u64,
    answer: Mutex<Answer>,
    seen: Mutex<Vec<Request>>,
    cached: Mutex<Vec<String>>,
}

impl Small {
    fn new(
        window: u64,
        answer: impl FnMut(&Request, usize) -> Result<Vec<Part>, ModelError> + Send + 'static,
    ) -> Arc<Self> {
        let (answer, seen, cached) = (Mutex::new(Box::new(answer) as Answer), Mutex::default(), Mutex::default());
        Arc::new(Self { window, answer, seen, cached })
    }

    fn pieces(request: &Request) -> Vec<String> {
        let tools: String = request.tools.iter().map(|tool| format!("{}{}", tool.description, tool.schema)).collect();
        let frame = format!("{}{tools}", request.system);
        let messages = request.messages.iter().map(|message| serde_json::to_string(&message.parts).unwrap());
        std::iter::once(frame).chain(messages).collect()
    }

    fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

fn tokens(pieces: &[String]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64 / 4).sum()
}

impl Model for Small {
    fn name(&self) -> &'static str {
        "fake/small"
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits { window_tokens: Some(self.window), max_output_tokens: Some(4_000), ..ModelLimits::default() }
    }

    fn price(&self) -> Option<Price> {
        Some(Price { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 1.0, long: None })
    }

    fn stream(&self, request: Request) -> ModelStream {
        let fault = turn::malformed(request.messages.iter().map(|message| &**message));
        assert_eq!(fault, None, "a request that no provider would take");
        let pieces = Self::pieces(&request);
        let input_tokens = tokens(&pieces);
        let mut seen = self.seen.lock().unwrap();
        let answer = match input_tokens > self.window {
            true => Err(ModelError::new(ModelErrorKind::WindowExceeded, "prompt is too long")),
            false => (self.answer.lock().unwrap())(&request, seen.len()),
        };
        seen.push(request);
        let event = answer.map(|parts| {
            let mut cached = self.cached.lock().unwrap();
            let same = cached.iter().zip(&pieces).take_while(|(before, now)| before == now).count();
            let usage = Usage {
                input_tokens,
                output_tokens: serde_json::to_string(&parts).unwrap().len() as u64 / 4,
                cache_read_tokens: tokens(&pieces[..same]),
                ..Usage::default()
            };
            *cached = pieces;
            let calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
            let finish = if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
            let reply = Reply { parts, finish, finish_raw: None, usage, response_id: None, warnings: vec![] };
            ModelEvent::Done(Box::new(reply))
        });
        Box::pin(futures_util::stream::iter([event]))
    }
}

fn call(name: &str, input: &Value) -> Part {
    let input = CallInput::from_value(input.clone());
    Part::ToolCall(ToolCall { id: CallId::from("x"), provider_id: None, name: name.into(), input, opaque: None })
}

fn is_for_summary(request: &Request) -> bool {
    let last = request.messages.last().unwrap();
    last.parts.iter().any(|part| matches!(part, Part::Note { text } if text.contains("Write the summary")))
}

fn last_prompt(request: &Request) -> String {
    let own = |message: &&Arc<Message>| message.role == Role::User && message.id.is_some();
    request.messages.iter().rev().find(own).map(|message| message.prose()).unwrap_or_default()
}

struct Home {
    data: TempDir,
    workspace: TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { data: tempfile::tempdir().unwrap(), workspace: tempfile::tempdir().unwrap() };
        let line = "a line of a file that is read again and again and says nothing new\n";
        for number in 0..400 {
            let text = format!("// file {number}\n{}", line.repeat(30));
            std::fs::write(home.path().join(format!("part{number}.rs")), text).unwrap();
        }
        home
    }

    fn path(&self) -> std::path::PathBuf {
        self.workspace.path().canonicalize().unwrap()
    }

    fn engine(&self) -> Engine {
        Engine::open(self.data.path())
    }

    fn create(&self, model: &Arc<Small>) -> Session {
        self.engine().create(&self.path(), settings(model)).unwrap()
    }
}

fn settings(model: &Arc<Small>) -> Settings {
    let mut settings = Settings::new(model.clone());
    settings.policy.permission.push("*", Action::Allow);
    settings.policy.no_progress.repeats = 1_000;
    settings.policy.max_steps = None;
    settings
}

fn records(session: &Session) -> Vec<Record> {
    journal::read_session(session.dir()).unwrap()
}

fn folded(session: &Session) -> turn::Session {
    turn::Session::fold(&records(session))
}

fn compactions(records: &[Record]) -> usize {
    records.iter().filter(|record| matches!(record.event, Event::CompactionFinished { .. })).count()
}

/// Reads so many files in a turn, then answers; sums up without a word of what matters.
fn reader(files_per_turn: usize) -> impl FnMut(&Request, usize) -> Result<Vec<Part>, ModelError> {
    let (mut read, mut in_turn, mut prompt) = (0, 0, String::new());
    move |request, _| {
        if is_for_summary(request) {
            return Ok(vec![Part::text("## Decisions and why\nnone\n## Next step\ngo on reading")]);
        }
        let now = last_prompt(request);
        if now != prompt {
            (in_turn, prompt) = (0, now);
        }
        if let Some(words) = prompt.strip_prefix("find: ") {
            in_turn += 1;
            return Ok(vec![if in_turn == 1 {
                call("history", &json!({"query": words}))
            } else {
                Part::text("found")
            }]);
        }
        if in_turn == files_per_turn {
            return Ok(vec![Part::text("that is all for now")]);
        }
        (read, in_turn) = (read + 1, in_turn + 1);
        Ok(vec![call("read", &json!({"path": format!("part{}.rs", read % 400)}))])
    }
}

#[tokio::test]
async fn three_hundred_steps_in_a_small_window_forget_nothing_that_was_planted() {
    const TURNS: usize = 20;
    let home = Home::new();
    let model = Small::new(32_000, reader(15));
    let session = home.create(&model);
    let constraint = |turn: usize| format!("rule number {turn}: never rename the type Widget{turn} in lib{turn}.rs");
    for turn in 0..TURNS {
        let report = session.prompt(&constraint(turn)).await.unwrap();
        assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    }
    let all = records(&session);
    let now = folded(&session);
    assert!(now.step() >= 300, "{} steps", now.step());
    assert!(compactions(&all) >= 5, "{} compactions", compactions(&all));
    let window = model.requests().iter().map(|request| tokens(&Small::pieces(request))).max().unwrap();
    assert!(window <= 32_000, "a request of {window} tokens");

    let (summary, upto) = now.room().summary().expect("a summary");
    let kept: String = now.transcript().skip(1).map(|message| serde_json::to_string(&**message).unwrap()).collect();
    let mut by_history = 0;
    for turn in 0..TURNS {
        let planted = constraint(turn);
        if !summary.contains(&planted) && !kept.contains(&planted) {
            by_history += 1;
            assert!(found(&session, &format!("Widget{turn} rename")).await.contains(&planted), "{planted}");
        }
    }
    assert!(upto > 0 && by_history < TURNS, "the summary has most of them");
    for number in (1..TURNS * 15).step_by(23) {
        let path = format!("part{number}.rs");
        if !summary.contains(&path) && !kept.contains(&path) {
            assert!(found(&session, &format!("{path} read")).await.contains(&path), "{path}");
        }
    }
    session.close().await;
}

/// What the model reads when it looks for these words.
async fn found(session: &Session, words: &str) -> String {
    session.prompt(&format!("find: {words}")).await.unwrap();
    let is_search = |outcome: &str| outcome.starts_with("history");
    let all = records(session);
    let results = all.iter().rev().filter_map(|record| match &record.event {
        Event::CallSettled { outcome, .. } if is_search(&outcome.title) => Some(outcome.text.clone()),
        _ => None,
    });
    results.take(1).collect()
}

#[tokio::test]
async fn a_compaction_costs_one_uncached_prefix_and_is_paid_for() {
    let home = Home::new();
    let model = Small::new(32_000, reader(60));
    let session = home.create(&model);
    let report = session.prompt("read on").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    let all = records(&session);
    let mut ledger = CacheLedger::default();
    let readings: Vec<Reading> = all.iter().filter_map(|record| ledger.apply(record)).collect();
    let summaries: Vec<&Reading> = readings.iter().filter(|reading| reading.step == 0).collect();
    assert!(!summaries.is_empty() && summaries.len() == compactions(&all));
    for summary in &summaries {
        assert_eq!(summary.miss, None, "the request for a summary begins as the one before: {summary:?}");
        assert!(summary.reported_tokens > 15_000, "{summary:?}");
    }
    let misses: Vec<&Reading> = readings.iter().filter(|reading| reading.miss.is_some()).collect();
    assert_eq!(misses.len(), summaries.len(), "one after each compaction: {misses:?}");
    assert!(misses.iter().all(|reading| reading.miss == Some(Miss::Compacted)), "{misses:?}");
    let paid: u64 = all
        .iter()
        .filter_map(|record| match &record.event {
            Event::MessageFinished { cost_micros, .. } => *cost_micros,
            Event::CompactionFinished { asked, .. } => asked.as_ref()?.cost_micros,
            _ => None,
        })
        .sum();
    assert_eq!(report.spent.cost_micros, Some(paid), "the summary is on the bill");
    let bill = journal::summary(session.dir()).unwrap();
    assert_eq!(bill.cost_micros, Some(paid));
    session.close().await;
}

#[tokio::test]
async fn old_outputs_go_before_anything_is_summed_up() {
    let home = Home::new();
    let model = Small::new(120_000, reader(250));
    let session = home.create(&model);
    let report = session.prompt("read on").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    let all = records(&session);
    let pruned = |record: &&Record| matches!(record.event, Event::ContextPruned { suffices: true, .. });
    assert!(all.iter().filter(pruned).count() >= 1 && compactions(&all) <= 1);
    let first = all.iter().find(pruned).unwrap();
    let Event::ContextPruned { calls, tokens_before, tokens_after, .. } = &first.event else { unreachable!() };
    assert!(tokens_before - tokens_after >= 20_000 && !calls.is_empty());
    let is_stub = |part: &Part| match part {
        Part::ToolResult { outcome, .. } => outcome.text.contains("was cleared to make room"),
        _ => false,
    };
    let stubs = folded(&session).transcript().flat_map(|message| message.parts.clone()).filter(is_stub).count();
    assert!(stubs > 0);
    session.close().await;
}

#[tokio::test]
async fn what_is_no_summary_is_asked_for_once_more_and_then_said_to_have_failed() {
    for odd in [vec![], vec![call("read", &json!({"path": "part1.rs"}))]] {
        let home = Home::new();
        let mut read = reader(60);
        let model = Small::new(32_000, move |request, at| match is_for_summary(request) {
            true => Ok(odd.clone()),
            false => read(request, at),
        });
        let session = home.create(&model);
        let report = session.prompt("read on").await.unwrap();
        let all = records(&session);
        let failed: Vec<&Record> =
            all.iter().filter(|record| matches!(record.event, Event::CompactionFailed { .. })).collect();
        let Event::CompactionFailed { error, asked, .. } = &failed[0].event else { unreachable!() };
        assert!(error.starts_with("asked for a summary twice, the model "), "{error}");
        assert_eq!(asked.as_ref().unwrap().attempts, 2);
        assert!(asked.as_ref().unwrap().cost_micros > Some(0));
        let forbade = |request: &Request| is_for_summary(request) && !request.may_call;
        assert!(model.requests().iter().any(forbade), "the second time calls are forbidden");
        assert!(matches!(report.end, TurnEnd::Completed | TurnEnd::ContextLimit), "{report:?}");
        assert_eq!(folded(&session).transcript().filter(|m| m.role == Role::User).count(), 1, "nothing is lost");
        session.close().await;
    }
}

#[tokio::test]
async fn a_conversation_that_the_provider_refuses_is_shortened_for_the_summary_and_asked_again() {
    let home = Home::new();
    let mut read = reader(3);
    let refused = Arc::new(Mutex::new(0));
    let count = refused.clone();
    let model = Small::new(32_000, move |request, at| {
        let mut refused = count.lock().unwrap();
        if *refused == 0 && !is_for_summary(request) && last_prompt(request) == "two" {
            *refused += 1;
            return Err(ModelError::new(ModelErrorKind::WindowExceeded, "prompt is too long"));
        }
        read(request, at)
    });
    let session = home.create(&model);
    session.prompt("one").await.unwrap();
    let report = session.prompt("two").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    let all = records(&session);
    let forced = |record: &Record| matches!(record.event, Event::CompactionFinished { trigger: Trigger::Forced, .. });
    assert!(all.iter().any(forced));
    session.close().await;
}

async fn small_talk(home: &Home, says: &'static str) -> (Arc<Small>, Session) {
    let model = Small::new(32_000, move |request, _| {
        Ok(vec![Part::text(if is_for_summary(request) { says.to_owned() } else { "as you wish ".repeat(200) })])
    });
    let session = home.create(&model);
    for prompt in ["never touch the schema", "write the docs", "and the tests"] {
        session.prompt(prompt).await.unwrap();
    }
    (model, session)
}

fn prompts(session: &Session) -> Vec<String> {
    let own = |message: &&Arc<Message>| message.role == Role::User && message.id.is_some();
    folded(session).transcript().filter(own).map(|message| message.prose()).collect()
}

#[tokio::test]
async fn a_person_compacts_changes_the_summary_resumes_undoes_and_forks() {
    let home = Home::new();
    let (model, session) = small_talk(&home, "## Next step\nthe changelog").await;
    let how = How::Ask { focus: Some("the changelog".into()) };
    let done = session.compact(how).await.unwrap();
    assert!(done.summary.contains("never touch the schema") && done.summary.contains("## Next step"), "{done:?}");
    assert!(done.tokens_after < done.tokens_before, "{done:?}");
    let asked = model.requests().into_iter().rfind(is_for_summary).unwrap();
    let last = serde_json::to_string(&asked.messages.last().unwrap().parts).unwrap();
    assert!(last.contains("dwell on this: the changelog"), "{last}");
    let done = session.compact(How::Ask { focus: None }).await.unwrap();
    let again = session.compact(How::Ask { focus: None }).await;
    assert!(matches!(again, Err(CompactError::Nothing)), "{again:?}");
    let empty = session.compact(How::Replace { summary: " ".into() }).await;
    assert!(matches!(empty, Err(CompactError::Empty)), "{empty:?}");
    let changed = format!("{}\nAnd be quick about it.", done.summary);
    session.compact(How::Replace { summary: changed.clone() }).await.unwrap();
    let id = session.id().clone();
    session.close().await;

    let session = home.engine().resume(&id, settings(&model)).unwrap();
    session.prompt("go on").await.unwrap();
    let sent = model.requests().pop().unwrap();
    assert!(matches!(&sent.messages[0].parts[0], Part::Note { text } if *text == changed));
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
    session.rewind(plan.rewind).await.unwrap();
    assert_eq!(folded(&session).room().summary().map(|(text, _)| text.to_owned()), Some(changed), "it came before");
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
    session.rewind(plan.rewind).await.unwrap();
    assert_eq!(prompts(&session), ["never touch the schema", "write the docs"], "past it, all is as it was");
    let plan = session.plan_rewind(Direction::Redo, 1, Scope::Chat).await.unwrap();
    session.rewind(plan.rewind).await.unwrap();
    assert!(folded(&session).room().summary().is_some());
    let fork = home.engine().fork(&id, None).unwrap();
    let forked = turn::Session::fold(&journal::read_session(&home.engine().session_dir(&fork)).unwrap());
    assert!(forked.room().summary().is_some(), "a fork begins with the summary");
    session.close().await;
}

#[tokio::test]
async fn a_person_writes_the_summary_and_what_the_user_said_is_still_in_it() {
    let home = Home::new();
    let (model, session) = small_talk(&home, "not asked").await;
    let asked_before = model.requests().len();
    let done = session.compact(How::Write { summary: "All went well.".into() }).await.unwrap();
    assert!(done.summary.contains("never touch the schema") && done.summary.contains("All went well."), "{done:?}");
    assert_eq!(model.requests().len(), asked_before, "nobody was asked");
    session.close().await;
}

#[tokio::test]
async fn what_the_embedder_wants_told_anew_is_told_beside_the_summary() {
    let home = Home::new();
    let (model, session) = small_talk(&home, "short").await;
    let id = session.id().clone();
    session.close().await;
    let mut settings = settings(&model);
    settings.environment_note = Some("Working folder: here".into());
    settings.after_compaction = Some(Arc::new(|workspace: &Path| {
        assert!(workspace.is_absolute());
        Some("AGENTS.md says: no tabs".into())
    }));
    let session = home.engine().resume(&id, settings).unwrap();
    session.compact(How::Ask { focus: None }).await.unwrap();
    let first = folded(&session).transcript().next().cloned().unwrap();
    let note = serde_json::to_string(&first.parts[1]).unwrap();
    assert!(note.contains("no tabs"), "{note}");
    session.prompt("go on").await.unwrap();
    let sent = model.requests().pop().unwrap();
    assert!(Small::pieces(&sent).concat().contains("Working folder: here"), "told anew at the next step");
    session.close().await;
}
