//! Making room, as an embedder sees it: long sessions in small windows, with a model that counts like a provider and
//! keeps a cache like one.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use self::support::Home;
use piton_core::cache::{CacheLedger, Miss, Reading};
use piton_core::client::{self, Compact, Live, Prompt, Published, Scope};
use piton_core::event::{Direction, Event, Record, Trigger, TurnEnd};
use piton_core::hook::HookPoint;
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Message, Part, Role, ToolCall, Usage};
use piton_core::model::{ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_core::permission::Action;
use piton_core::policy::Policy;
use piton_core::{call::CallInput, turn};
use piton_engine::compaction::CompactError;
use piton_engine::control::{Connection, Incoming};
use piton_engine::engine::Subscription;
use piton_engine::engine::{Engine, Handle, Settings};
use piton_engine::hooks::{Hook, HookContext, HookResult, ModelCall, ModelChange, Points};
use piton_engine::store::sqlite;
use piton_engine::store::sqlite::SessionDir;
use piton_models::model::{Model, ModelLimits, ModelStream, Price};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Answer = Box<dyn FnMut(&Request, usize) -> Result<Vec<Part>, ModelError> + Send>;

/// A model of a small window, named so. It counts four bytes as a token, and what a request shares with the one before, from the
/// front, it reads from its cache.
struct Small {
    name: &'static str,
    window: u64,
    answer: Mutex<Answer>,
    seen: Mutex<Vec<Request>>,
    cached: Mutex<Vec<String>>,
    /// Holds summaries up until it is told.
    gate: Mutex<Option<Arc<tokio::sync::Notify>>>,
}

impl Small {
    fn new(
        window: u64,
        answer: impl FnMut(&Request, usize) -> Result<Vec<Part>, ModelError> + Send + 'static,
    ) -> Arc<Self> {
        let (answer, seen, cached) = (Mutex::new(Box::new(answer) as Answer), Mutex::default(), Mutex::default());
        Arc::new(Self { name: "fake/small", window, answer, seen, cached, gate: Mutex::default() })
    }

    fn named(
        name: &'static str,
        answer: impl FnMut(&Request, usize) -> Result<Vec<Part>, ModelError> + Send + 'static,
    ) -> Arc<Self> {
        let small = Self::new(32_000, answer);
        Arc::new(Self { name, ..Arc::into_inner(small).unwrap() })
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
    fn name(&self) -> &str {
        self.name
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
        let gate = self.gate.lock().unwrap().clone().filter(|_| is_for_summary(&request));
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
            let reply = Reply { usage, ..Reply::new(parts, finish) };
            ModelEvent::Done(Box::new(reply))
        });
        Box::pin(futures_util::stream::once(async move {
            if let Some(gate) = gate {
                gate.notified().await;
            }
            event
        }))
    }
}

fn call(name: &str, input: &Value) -> Part {
    let input = CallInput::from_value(input.clone());
    Part::ToolCall(ToolCall {
        id: CallId::from("x"),
        provider_id: None,
        name: name.into(),
        spelling: None,
        input,
        opaque: None,
    })
}

fn is_for_summary(request: &Request) -> bool {
    let last = request.messages.last().unwrap();
    last.parts.iter().any(|part| matches!(part, Part::Note { text, .. } if text.contains("Write the summary")))
}

fn last_prompt(request: &Request) -> String {
    let own = |message: &&Arc<Message>| message.role == Role::User && message.id.is_some();
    request.messages.iter().rev().find(own).map(|message| message.prose()).unwrap_or_default()
}

/// A home with files enough to fill a window.
fn home() -> Home {
    let home = Home::new();
    let line = "a line of a file that is read again and again and says nothing new\n";
    for number in 0..400 {
        let text = format!("// file {number}\n{}", line.repeat(30));
        std::fs::write(home.folder().join(format!("part{number}.rs")), text).unwrap();
    }
    home
}

fn settings(model: &Arc<Small>) -> Settings {
    let mut settings = Settings::new(model.clone());
    settings.policy.permission.push("*", Action::Allow);
    settings.policy.stuck.repeats = 1_000;
    settings.policy.steps.max = None;
    settings
}

fn records(session: &Handle) -> Vec<Record> {
    sqlite::read_session(&SessionDir::of(session.store(), session.id())).unwrap()
}

fn folded(session: &Handle) -> turn::State {
    turn::State::fold(&records(session))
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
    let home = home();
    let model = Small::new(32_000, reader(15));
    let session = home.create(settings(&model)).await;
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

    let (summary, upto) = now.context().summary().expect("a summary");
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
async fn found(session: &Handle, words: &str) -> String {
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
    let home = home();
    let model = Small::new(32_000, reader(60));
    let session = home.create(settings(&model)).await;
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
    let bill = sqlite::summary(&SessionDir::of(session.store(), session.id())).unwrap();
    assert_eq!(bill.cost_micros, Some(paid));
    session.close().await;
}

#[tokio::test]
async fn old_outputs_go_before_anything_is_summed_up() {
    let home = home();
    let model = Small::new(120_000, reader(250));
    let session = home.create(settings(&model)).await;
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
        let home = home();
        let mut read = reader(60);
        let model = Small::new(32_000, move |request, at| match is_for_summary(request) {
            true => Ok(odd.clone()),
            false => read(request, at),
        });
        let session = home.create(settings(&model)).await;
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
    let home = home();
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
    let session = home.create(settings(&model)).await;
    session.prompt("one").await.unwrap();
    let report = session.prompt("two").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    let all = records(&session);
    let forced = |record: &Record| matches!(record.event, Event::CompactionFinished { trigger: Trigger::Forced, .. });
    assert!(all.iter().any(forced));
    session.close().await;
}

async fn small_talk(home: &Home, says: &'static str) -> (Arc<Small>, Handle) {
    let model = Small::new(32_000, move |request, _| {
        Ok(vec![Part::text(if is_for_summary(request) { says.to_owned() } else { "as you wish ".repeat(200) })])
    });
    let session = home.create(settings(&model)).await;
    for prompt in ["never touch the schema", "write the docs", "and the tests"] {
        session.prompt(prompt).await.unwrap();
    }
    (model, session)
}

/// Speaks as the other model does, and panics where it is asked for a summary.
struct Panics(Arc<Small>);

impl Model for Panics {
    fn name(&self) -> &str {
        "fake/panics"
    }

    fn limits(&self) -> ModelLimits {
        self.0.limits()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, request: Request) -> ModelStream {
        assert!(!is_for_summary(&request), "a bug of whoever embeds the engine");
        self.0.stream(request)
    }
}

#[tokio::test]
async fn a_summary_that_panics_fails_and_the_session_goes_on() {
    let home = home();
    let small = Small::new(32_000, |_, _| Ok(vec![Part::text("as you wish ".repeat(200))]));
    let settings = Settings { model: Arc::new(Panics(Arc::clone(&small))), ..settings(&small) };
    let session = home.create(settings).await;
    for prompt in ["never touch the schema", "write the docs", "and the tests"] {
        session.prompt(prompt).await.unwrap();
    }
    let failed = session.compact(Compact::about(None)).await;
    assert!(matches!(&failed, Err(CompactError::Failed(why)) if why.contains("panicked")), "{failed:?}");
    assert_eq!(session.prompt("still there?").await.unwrap().end, TurnEnd::Completed);
    session.close().await;
}

fn prompts(session: &Handle) -> Vec<String> {
    let own = |message: &&Arc<Message>| message.role == Role::User && message.id.is_some();
    folded(session).transcript().filter(own).map(|message| message.prose()).collect()
}

#[tokio::test]
async fn a_person_compacts_changes_the_summary_resumes_undoes_and_forks() {
    let home = home();
    let (model, session) = small_talk(&home, "## Next step\nthe changelog").await;
    let how = Compact::about(Some("the changelog".into()));
    let done = session.compact(how).await.unwrap();
    assert!(done.summary.contains("never touch the schema") && done.summary.contains("## Next step"), "{done:?}");
    assert!(done.tokens_after < done.tokens_before, "{done:?}");
    let asked = model.requests().into_iter().rfind(is_for_summary).unwrap();
    let last = serde_json::to_string(&asked.messages.last().unwrap().parts).unwrap();
    assert!(last.contains("dwell on this: the changelog"), "{last}");
    let done = session.compact(Compact::about(None)).await.unwrap();
    let again = session.compact(Compact::about(None)).await;
    assert!(matches!(again, Err(CompactError::Nothing)), "{again:?}");
    let empty = session.compact(Compact::replacing(" ")).await;
    assert!(matches!(empty, Err(CompactError::Empty)), "{empty:?}");
    let changed = format!("{}\nAnd be quick about it.", done.summary);
    session.compact(Compact::replacing(&changed)).await.unwrap();
    let id = session.id().clone();
    session.close().await;

    let session = home.engine().resume(&id, settings(&model)).await.unwrap();
    session.prompt("go on").await.unwrap();
    let sent = model.requests().pop().unwrap();
    assert!(matches!(&sent.messages[0].parts[0], Part::Note { text, .. } if *text == changed));
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
    session.rewind(plan.rewind).await.unwrap();
    assert_eq!(folded(&session).context().summary().map(|(text, _)| text.to_owned()), Some(changed), "it came before");
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
    session.rewind(plan.rewind).await.unwrap();
    assert_eq!(prompts(&session), ["never touch the schema", "write the docs"], "past it, all is as it was");
    let plan = session.plan_rewind(Direction::Redo, 1, Scope::Chat).await.unwrap();
    session.rewind(plan.rewind).await.unwrap();
    assert!(folded(&session).context().summary().is_some());
    let fork = home.engine().fork(&id, None).await.unwrap();
    let forked = turn::State::fold(&sqlite::read_session(&home.engine().session_dir(&fork)).unwrap());
    assert!(forked.context().summary().is_some(), "a fork begins with the summary");
    session.close().await;
}

#[tokio::test]
async fn a_person_writes_the_summary_and_what_the_user_said_is_still_in_it() {
    let home = home();
    let (model, session) = small_talk(&home, "not asked").await;
    let asked_before = model.requests().len();
    let done = session.compact(Compact::text("All went well.")).await.unwrap();
    assert!(done.summary.contains("never touch the schema") && done.summary.contains("All went well."), "{done:?}");
    assert_eq!(model.requests().len(), asked_before, "nobody was asked");
    session.close().await;
}

#[tokio::test]
async fn what_the_embedder_wants_told_anew_is_told_beside_the_summary() {
    let home = home();
    let (model, session) = small_talk(&home, "short").await;
    let id = session.id().clone();
    session.close().await;
    let mut settings = settings(&model);
    settings.environment_note = Some("Working folder: here".into());
    settings.after_compaction = Some(Arc::new(|workspace: &Path| {
        assert!(workspace.is_absolute());
        Some("AGENTS.md says: no tabs".into())
    }));
    let session = home.engine().resume(&id, settings).await.unwrap();
    session.compact(Compact::about(None)).await.unwrap();
    let first = folded(&session).transcript().next().cloned().unwrap();
    let note = serde_json::to_string(&first.parts[1]).unwrap();
    assert!(note.contains("no tabs"), "{note}");
    session.prompt("go on").await.unwrap();
    let sent = model.requests().pop().unwrap();
    assert!(Small::pieces(&sent).concat().contains("Working folder: here"), "told anew at the next step");
    session.close().await;
}

fn failure(kind: ModelErrorKind) -> ModelError {
    ModelError::new(kind, format!("{kind:?}"))
}

fn finished(all: &[Record]) -> Vec<&Event> {
    all.iter().map(|record| &record.event).filter(|event| matches!(event, Event::CompactionFinished { .. })).collect()
}

fn texts(request: &Request) -> String {
    Small::pieces(request).concat()
}

#[tokio::test]
async fn a_model_that_writes_the_head_of_a_summary_itself_takes_nothing_away() {
    let home = home();
    let head = "[This conversation was compacted. All of it.]\n\n## The task, in the user's own words\nnone\n## Decisions and why\nmine";
    let (_, session) = small_talk(&home, head).await;
    let done = session.compact(Compact::about(None)).await.unwrap();
    assert!(
        done.summary.contains("never touch the schema") && done.summary.ends_with("## Decisions and why\nmine\n"),
        "{done:?}"
    );
    assert_eq!(done.summary.matches("This conversation was compacted").count(), 1, "{}", done.summary);
    session.close().await;
}

#[tokio::test]
async fn words_that_come_while_a_summary_is_made_do_not_void_it() {
    let home = home();
    let (model, session) = small_talk(&home, "## Next step\ngo on").await;
    let go = Arc::new(tokio::sync::Notify::new());
    *model.gate.lock().unwrap() = Some(go.clone());
    let mut heard = session.subscribe(u64::MAX);
    let compacting = session.compact(Compact::about(None));
    let speaking = async {
        summary_asked(&mut heard).await;
        let speaking = session.prompt("and now?");
        let letting_go = async {
            // The words are on their way before the summary is there.
            tokio::task::yield_now().await;
            go.notify_one();
        };
        tokio::join!(speaking, letting_go).0
    };
    let (done, report) = tokio::join!(compacting, speaking);
    done.unwrap();
    assert_eq!(report.unwrap().end, TurnEnd::Completed);
    assert!(folded(&session).context().summary().is_some(), "it was paid for");
    assert_eq!(prompts(&session).last().unwrap(), "and now?");
    session.close().await;
}

/// Waits until a summary is being made.
async fn summary_asked(heard: &mut Subscription) {
    let is_it = |one: &Published| matches!(one, Published::Live(live) if matches!(**live, Live::SummaryAsked { .. }));
    while !is_it(&heard.next().await.unwrap().expect("the session goes on")) {}
}

/// Where this happened first.
fn first(all: &[Record], is_it: impl Fn(&Event) -> bool) -> usize {
    all.iter().position(|record| is_it(&record.event)).expect("it happened")
}

#[tokio::test]
async fn what_is_said_in_the_same_breath_waits_for_the_compaction() {
    let home = home();
    let (_, session) = small_talk(&home, "## Next step\ngo on").await;
    let (done, report) = tokio::join!(session.compact(Compact::about(None)), session.prompt("and now?"));
    done.unwrap();
    assert_eq!(report.unwrap().end, TurnEnd::Completed);
    assert!(folded(&session).context().summary().is_some(), "it was made between turns");
    assert_eq!(prompts(&session).last().unwrap(), "and now?");
    session.close().await;
}

#[tokio::test]
async fn what_is_said_in_the_same_breath_waits_for_the_rewind() {
    let home = home();
    let (_, session) = small_talk(&home, "not asked").await;
    let plan = session.plan_rewind(Direction::Undo, 1, Scope::Chat).await.unwrap();
    let before = prompts(&session);
    let both = async { tokio::join!(session.rewind(plan.rewind), session.prompt("another way")) };
    let (done, report) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("both are answered");
    done.unwrap();
    assert_eq!(report.unwrap().end, TurnEnd::Completed);
    let expected = [&before[..before.len() - 1], &["another way".to_owned()]].concat();
    assert_eq!(prompts(&session), expected, "it was said where the rewind led");
    session.close().await;
}

#[tokio::test]
async fn each_of_three_compactions_in_one_breath_is_answered() {
    let home = home();
    let (_, session) = small_talk(&home, "## Next step\ngo on").await;
    let ask = || session.compact(Compact::about(None));
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    assert!(one.is_ok() && two.is_ok(), "{one:?}, {two:?}");
    assert!(matches!(three, Err(CompactError::Nothing)), "{three:?}");
    session.close().await;
}

#[tokio::test]
async fn who_stops_a_compaction_between_turns_is_told_that_nothing_else_runs() {
    let home = home();
    let (model, session) = small_talk(&home, "never said").await;
    *model.gate.lock().unwrap() = Some(Arc::default());
    let mut heard = session.subscribe(u64::MAX);
    let stopping = async {
        summary_asked(&mut heard).await;
        let mut line = Connection::open(&**session.store(), session.id()).await.unwrap().expect("it runs here");
        line.ask(&client::Request::Cancel {}).await.unwrap();
        loop {
            match line.next().await.expect("an answer") {
                Incoming::Reply(client::Reply::Hello { .. }) | Incoming::Published(_) | Incoming::Child(..) => {}
                Incoming::Reply(reply) => return reply,
            }
        }
    };
    let both = async { tokio::join!(session.compact(Compact::about(None)), stopping) };
    let (done, told) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("both are answered");
    assert!(matches!(done, Err(CompactError::Failed(why)) if why == "it was stopped"));
    assert!(matches!(told, client::Reply::AtRest {}), "{told:?}");
    session.close().await;
}

#[tokio::test]
async fn a_cancel_stops_a_compaction_and_what_was_said_before_the_cancel() {
    let home = home();
    let (model, session) = small_talk(&home, "never said").await;
    *model.gate.lock().unwrap() = Some(Arc::default());
    let mut heard = session.subscribe(u64::MAX);
    let speaking = async {
        summary_asked(&mut heard).await;
        tokio::join!(session.prompt("and now?"), async { drop(session.cancel().await) }).0
    };
    let asked_before = model.requests().len();
    let (done, report) = tokio::join!(session.compact(Compact::about(None)), speaking);
    assert!(matches!(done, Err(CompactError::Failed(_))), "{done:?}");
    assert_eq!(report.unwrap().end, TurnEnd::Canceled);
    assert_eq!(model.requests().len(), asked_before + 1, "only the summary was asked for");
    let all = records(&session);
    let failed = first(&all, |event| matches!(event, Event::CompactionFailed { .. }));
    let started = first(&all[failed..], |event| matches!(event, Event::TurnStarted { .. }));
    assert!(started > 0, "the turn of what was said is cancelled behind it");
    assert_eq!(prompts(&session).last().unwrap(), "and now?", "it is on record");
    session.close().await;
}

#[tokio::test]
async fn no_try_for_a_summary_overdraws_the_budget() {
    let run = async |most: Option<u64>| {
        let home = home();
        let mut read = reader(60);
        let model = Small::new(32_000, move |request, at| match is_for_summary(request) {
            true => Err(failure(ModelErrorKind::CutStream)),
            false => read(request, at),
        });
        let mut settings = settings(&model);
        (settings.policy.retry.usual.first_ms, settings.policy.retry.usual.cap_ms) = (1, 1);
        settings.policy.budget.tokens = most;
        let session = home.create(settings).await;
        let report = session.prompt("read on").await.unwrap();
        let all = records(&session);
        session.close().await;
        (report, all)
    };
    // What is used until it is full.
    let (_, all) = run(None).await;
    let until = all.iter().position(|record| matches!(record.event, Event::CompactionStarted { .. })).unwrap();
    let before = turn::State::fold(&all[..until]).used().turn.tokens;
    // Each try is some 26,000 tokens: two are covered, and no third.
    let most = before + 70_000;
    let (report, all) = run(Some(most)).await;
    let used = turn::State::fold(&all).used().turn.tokens;
    assert!(used <= most, "{used} of {most}: {report:?}");
    assert_eq!(report.end, TurnEnd::Budget, "{report:?}");
    let failed = all.iter().find_map(|record| match &record.event {
        Event::CompactionFailed { asked, error, .. } => Some((asked.as_ref()?.attempts, error.clone())),
        _ => None,
    });
    let (attempts, error) = failed.expect("it was tried");
    assert!(attempts == 2 && error.contains("the next call can need"), "{attempts}: {error}");
}

#[tokio::test]
async fn where_the_model_for_summaries_is_broken_the_sessions_own_is_asked_in_the_same_attempt() {
    let home = home();
    let model = Small::new(32_000, reader(60));
    let broken = Small::named("other/broken", |_, _| Err(failure(ModelErrorKind::Auth)));
    let mut settings = settings(&model);
    settings.compaction_model = Some(broken.clone());
    let session = home.create(settings).await;
    let mut heard = session.subscribe(1);
    // Who listens only at the end has lost fragments.
    let listening = tokio::spawn(async move {
        let mut told = Vec::new();
        while let Some(published) = heard.next().await.unwrap() {
            if let Published::Live(live) = published {
                told.push((*live).clone());
            }
        }
        told
    });
    let report = session.prompt("read on").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    let all = records(&session);
    let made = finished(&all);
    assert!(!made.is_empty() && !all.iter().any(|record| matches!(record.event, Event::CompactionFailed { .. })));
    for event in made {
        let Event::CompactionFinished { asked: Some(asked), .. } = event else { panic!("nobody was asked") };
        assert_eq!((asked.model.as_str(), asked.attempts), ("fake/small", 2));
        assert!(asked.prompt.is_some(), "and with what the cache knows");
    }
    session.close().await;
    let told = listening.await.unwrap();
    let is_asked = |live: &Live, of: &str| matches!(live, Live::SummaryAsked { model, attempt: 1 } if model == of);
    assert!(
        told.iter().any(|live| is_asked(live, "other/broken")) && told.iter().any(|live| is_asked(live, "fake/small"))
    );
    let gave_up =
        |live: &Live| matches!(live, Live::SummaryFailed { model, retry_ms: None, .. } if model == "other/broken");
    assert!(told.iter().any(gave_up), "{told:?}");
}

#[tokio::test]
async fn unread_results_stay_and_are_cut_where_they_cannot_fit() {
    let home = home();
    for number in 0..4 {
        let text = format!("begins {number}\n{}ends {number}\n", "0123456789 word word word\n".repeat(1_000));
        std::fs::write(home.folder().join(format!("long{number}.txt")), text).unwrap();
    }
    let mut at = 0;
    let model = Small::new(32_000, move |request, _| {
        if is_for_summary(request) {
            return Ok(vec![Part::text("## Next step\ngo on")]);
        }
        at += 1;
        Ok(match at {
            1..=3 => vec![call("read", &json!({"path": format!("part{at}.rs")}))],
            4 => (0..4).map(|number| call("read", &json!({"path": format!("long{number}.txt")}))).collect(),
            _ => vec![Part::text("done")],
        })
    });
    let session = home.create(settings(&model)).await;
    let report = session.prompt("read all").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    let all = records(&session);
    let cut = all.iter().any(
        |record| matches!(&record.event, Event::ContextPruned { to_bytes: Some(_), calls, .. } if calls.len() == 4),
    );
    assert!(cut, "the outputs are longer than the window");
    let last = texts(&model.requests().pop().unwrap());
    for number in 0..4 {
        assert!(last.contains(&format!("begins {number}")), "{number}: what was just read is there");
    }
    assert!(last.contains("`history` with seq"), "and where the rest is");
    session.close().await;
}

/// Changes the system prompt of every call.
struct Other;

#[async_trait::async_trait]
impl Hook for Other {
    fn name(&self) -> &str {
        "other"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::BeforeModel])
    }

    async fn before_model_call(&self, _cx: &HookContext, call: &ModelCall) -> HookResult<ModelChange> {
        Ok(ModelChange { system: Some(format!("{} And be brief.", call.system)), ..ModelChange::default() })
    }
}

/// Counts the calls of a model that it lets go.
#[derive(Default)]
struct Gate(Mutex<usize>);

#[async_trait::async_trait]
impl Hook for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::BeforeModel])
    }

    async fn before_model_call(&self, _: &HookContext, _: &ModelCall) -> HookResult<ModelChange> {
        *self.0.lock().unwrap() += 1;
        Ok(ModelChange::default())
    }
}

#[tokio::test]
async fn the_call_after_a_forced_compaction_passes_the_gate_as_well() {
    let home = home();
    let (mut read, mut is_refused) = (reader(12), false);
    let model = Small::new(1_000_000, move |request, at| {
        if at == 10 && !std::mem::replace(&mut is_refused, true) {
            return Err(failure(ModelErrorKind::WindowExceeded));
        }
        read(request, at)
    });
    let mut settings = settings(&model);
    let gate = Arc::new(Gate::default());
    settings.hooks = vec![gate.clone()];
    let session = home.create(settings).await;
    let report = session.prompt("read on").await.unwrap();
    assert_eq!(report.end, TurnEnd::Completed, "{report:?}");
    assert!(records(&session).iter().any(|record| matches!(record.event, Event::CompactionStarted { .. })));
    let calls = model.requests().iter().filter(|request| !is_for_summary(request)).count();
    assert_eq!(*gate.0.lock().unwrap(), calls);
    session.close().await;
}

#[tokio::test]
async fn a_summary_is_asked_for_with_the_prompt_that_hooks_left() {
    let home = home();
    let model = Small::new(32_000, reader(60));
    let mut settings = settings(&model);
    settings.hooks = vec![Arc::new(Other)];
    let session = home.create(settings).await;
    session.prompt("read on").await.unwrap();
    let asked: Vec<Request> = model.requests().into_iter().filter(is_for_summary).collect();
    assert!(!asked.is_empty() && asked.iter().all(|request| request.system.ends_with("And be brief.")));
    let all = records(&session);
    let mut ledger = CacheLedger::default();
    let readings: Vec<Reading> = all.iter().filter_map(|record| ledger.apply(record)).collect();
    let summaries = readings.iter().filter(|reading| reading.step == 0);
    assert!(summaries.clone().count() > 0 && summaries.clone().all(|reading| reading.miss.is_none()), "{readings:?}");
    session.close().await;
}

#[tokio::test]
async fn a_request_for_a_summary_asks_for_no_longer_reply_than_the_model_can_write() {
    let home = home();
    let model = Small::new(200_000, |request, _| {
        Ok(vec![Part::text(if is_for_summary(request) { "short".to_owned() } else { "as you wish ".repeat(200) })])
    });
    let session = home.create(settings(&model)).await;
    for prompt in ["one", "two", "three"] {
        session.prompt(prompt).await.unwrap();
    }
    session.compact(Compact::about(None)).await.unwrap();
    let asked = model.requests().into_iter().rfind(is_for_summary).unwrap();
    assert!(asked.max_output_tokens <= Some(4_000), "{:?}", asked.max_output_tokens);
    session.close().await;
}

#[tokio::test]
async fn a_forced_summary_is_no_own_prefix_in_the_ledger() {
    let home = home();
    let mut read = reader(3);
    let mut refused = false;
    let model = Small::new(32_000, move |request, at| {
        if !refused && !is_for_summary(request) && last_prompt(request) == "two" {
            refused = true;
            return Err(failure(ModelErrorKind::WindowExceeded));
        }
        read(request, at)
    });
    let session = home.create(settings(&model)).await;
    session.prompt("one").await.unwrap();
    session.prompt("two").await.unwrap();
    let all = records(&session);
    let Event::CompactionFinished { asked, .. } = finished(&all)[0] else { unreachable!() };
    assert_eq!(asked.as_ref().unwrap().prompt, None, "it was shortened");
    session.close().await;
}

#[tokio::test]
async fn by_the_rules_of_pulse_a_summary_that_is_too_large_is_left_out() {
    let home = home();
    let mut read = reader(4);
    let model = Small::new(32_000, move |request, at| match is_for_summary(request) {
        true => Ok(vec![Part::text("far too much of it ".repeat(4_000))]),
        false => read(request, at),
    });
    let mut settings = settings(&model);
    settings.policy = Policy { permission: settings.policy.permission.clone(), ..Policy::preset("pulse").unwrap() };
    settings.policy.stuck.repeats = 0;
    let session = home.create(settings).await;
    for turn in 0..12 {
        session.prompt(&format!("rule {turn}")).await.unwrap();
    }
    let all = records(&session);
    let ordinary = finished(&all).into_iter().filter_map(|event| match event {
        Event::CompactionFinished { trigger: Trigger::Ordinary, summary, .. } => Some(summary),
        _ => None,
    });
    let summaries: Vec<&String> = ordinary.collect();
    assert!(!summaries.is_empty());
    for summary in summaries {
        assert!(
            !summary.contains("far too much") && summary.contains("was too long") && summary.contains("rule 0"),
            "{summary}"
        );
    }
    session.close().await;
}

#[tokio::test]
async fn who_goes_on_with_a_smaller_model_counts_by_its_window() {
    let home = home();
    let large = Small::new(200_000, |_, at| match at {
        0 => Ok(vec![call("read", &json!({"path": "part1.rs"}))]),
        _ => Err(failure(ModelErrorKind::Overloaded)),
    });
    let mut patient = settings(&large);
    patient.policy.retry.usual.first_ms = 60_000;
    patient.policy.retry.usual.cap_ms = 60_000;
    let session = home.create(patient).await;
    let id = session.id().clone();
    let prompt = session.prompt("read on");
    // Left in mid-turn, as by a kill: the folder is copied while it waits.
    let copy = tempfile::tempdir().unwrap();
    tokio::select! {
        _ = prompt => panic!("it waits"),
        () = tokio::time::sleep(std::time::Duration::from_secs(2)) => {}
    }
    copy_folder(home.data.path(), copy.path());
    session.close().await;
    let small = Small::new(32_000, reader(1));
    let session = Engine::open(copy.path()).resume(&id, settings(&small)).await.unwrap();
    session.go_on().await.unwrap();
    let at = folded(&session).context().full_at_tokens();
    assert!(at.is_some_and(|at| at <= 32_000), "{at:?}");
    session.close().await;
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        match () {
            () if kind.is_dir() => copy_folder(&entry.path(), &to.join(entry.file_name())),
            () if kind.is_file() => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
            () => {}
        }
    }
}

#[tokio::test]
async fn history_reads_what_was_put_beside_the_words_too() {
    let home = home();
    let model = Small::new(32_000, reader(1));
    let session = home.create(settings(&model)).await;
    let note = Part::note("<file>src/lost.rs says quaternion</file>");
    session.send(vec![Part::text("look at it"), note], piton_core::event::Delivery::Steer).await.unwrap();
    let told = found(&session, "quaternion").await;
    assert!(told.contains("src/lost.rs says quaternion"), "{told}");
    session.close().await;
}

#[tokio::test]
async fn a_summary_that_is_cancelled_counts_with_the_worst_it_can_have_cost() {
    let home = home();
    let mut read = reader(60);
    let model = Small::new(32_000, move |request, at| match is_for_summary(request) {
        // A wait that nobody sits out.
        true => Err(ModelError { retry_after_ms: Some(50_000), ..failure(ModelErrorKind::CutStream) }),
        false => read(request, at),
    });
    let session = home.create(settings(&model)).await;
    let mut heard = session.subscribe(1);
    let speaking = session.prompt("read on");
    let watching = async {
        loop {
            if let Some(Published::Live(live)) = heard.next().await.unwrap()
                && matches!(&*live, Live::SummaryFailed { .. })
            {
                drop(session.cancel());
                return;
            }
        }
    };
    let (report, ()) = tokio::join!(speaking, watching);
    assert_eq!(report.unwrap().end, TurnEnd::Canceled);
    let all = records(&session);
    let failed = all.iter().find_map(|record| match &record.event {
        Event::CompactionFailed { asked, error, .. } => Some((asked.clone().unwrap(), error.clone())),
        _ => None,
    });
    let (asked, error) = failed.expect("what came of it is on record");
    assert_eq!((error.as_str(), asked.attempts), ("it was stopped", 1));
    let most = asked.at_most.expect("nobody said what it used");
    assert!(most.tokens > 20_000);
    let now = folded(&session);
    assert!(now.used().turn.tokens >= now.spent().usage.total() + most.tokens, "and it counts");
    session.close().await;
}

#[tokio::test]
async fn an_interrupt_and_a_close_do_not_wait_for_a_compaction_between_turns() {
    let home = home();
    let (model, session) = small_talk(&home, "never said").await;
    let stall = || *model.gate.lock().unwrap() = Some(Arc::default());
    stall();
    let mut heard = session.subscribe(u64::MAX);
    let interrupting = async {
        summary_asked(&mut heard).await;
        *model.gate.lock().unwrap() = None;
        let prompt = Prompt { delivery: client::When::Interrupt, wait: true, ..Prompt::new("now") };
        session.say(prompt).await.unwrap().ended().await
    };
    let both = async { tokio::join!(session.compact(Compact::about(None)), interrupting) };
    let (done, report) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("both are answered");
    assert!(matches!(done, Err(CompactError::Failed(why)) if why == "it was stopped"));
    assert_eq!(report.unwrap().end, TurnEnd::Completed);

    stall();
    let mut heard = session.subscribe(u64::MAX);
    let (one, two) = (session.compact(Compact::about(None)), session.compact(Compact::about(None)));
    let closing = async {
        summary_asked(&mut heard).await;
        session.clone().close().await;
    };
    let all = async { tokio::join!(one, two, closing) };
    let (one, two, ()) = tokio::time::timeout(Duration::from_secs(60), all).await.expect("it is closed");
    assert!(one.is_err() && two.is_err(), "{one:?} {two:?}");
    assert!(folded(&session).is_at_rest());
}
