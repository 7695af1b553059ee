//! The face without a terminal: what keys come to, and what stands on the screen.

mod golden;
mod height;
mod panel;
mod presses;
mod scrollback;
mod table;

use super::*;
use crate::keys::Action;
use crossterm::event::{KeyCode, KeyModifiers};
use expect_test::expect;
use piton_core::client::{Live, Want, Wanted};
use piton_core::ending::TurnEnd;
use piton_core::event::{Delivery, Record, Spent, StepKind, Subject};
use piton_core::ids::CallId;
use piton_core::inquiry::{Inquiry, InquiryOption, InquiryQuestion};
use piton_core::message::{FinishReason, Part, Usage};
use piton_core::model::{Delta, Reply};
use piton_core::permission::Rules;
use piton_core::policy::Policy;
use piton_core::question::{Decision, Question, QuestionBlock};
use std::sync::Arc;

struct Seat {
    face: Face,
    now_ms: u64,
}

impl Seat {
    fn new(columns: usize, rows: usize) -> Self {
        let mut face = Face::new(columns, rows, Theme::none()).still();
        let facts = Facts {
            model: "fake/model".to_owned(),
            window: Some(200_000),
            sandbox: "sandbox workspace-write".to_owned(),
            folder: "~/w".to_owned(),
            ..Facts::default()
        };
        face.take(Input::Facts(facts), 0);
        Self { face, now_ms: 1_000_000 }
    }

    fn tell(&mut self, input: Input) -> Vec<Effect> {
        self.face.take(input, self.now_ms)
    }

    fn key(&mut self, code: KeyCode) -> Vec<Effect> {
        self.tell(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    fn control(&mut self, letter: char) -> Vec<Effect> {
        self.tell(Input::Key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)))
    }

    fn types(&mut self, text: &str) {
        text.chars().for_each(|char| assert_eq!(self.key(KeyCode::Char(char)), []));
    }

    fn waits(&mut self, ms: u64) {
        self.now_ms += ms;
        self.face.frame(self.now_ms);
    }

    fn screen(&mut self) -> String {
        let frame = self.face.frame(self.now_ms);
        let rows =
            frame.commit.iter().map(|row| format!("={row}")).chain(frame.tail.iter().map(|row| format!(" {row}")));
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        format!("{}\ncursor {:?}\n", rows.join("\n"), frame.cursor)
    }
}

fn wanted(command: &str) -> Published {
    let body = vec![QuestionBlock::Command { command: command.to_owned(), marks: vec![] }];
    let mut rules = Rules::default();
    rules.push("bash", piton_core::permission::Action::Allow);
    let question = Question::may_run("Run this command?", body, rules);
    Published::Wanted(Wanted { subject: Subject::Call(CallId::from("c1_0")), want: Want::Approval(Box::new(question)) })
}

#[test]
fn the_first_screen_has_a_prompt_and_the_facts() {
    let mut seat = Seat::new(60, 20);
    seat.types("hello");
    expect![[r#"
        =piton  fake/model · ~/w · sandbox workspace-write · mode ask
         ────────────────────────────────────────────────────────────
         › hello
         ask · model · ? keys
        cursor Some((1, 7))
    "#]]
    .assert_eq(&seat.screen());
}

#[test]
fn a_terminal_of_any_size_is_drawn_on() {
    for (columns, rows) in [(1, 1), (2, 2), (3, 40), (2_000, 3)] {
        let mut seat = Seat::new(columns, rows);
        seat.types("漢字 hello");
        seat.tell(Input::Heard(Box::new(wanted("echo 漢字"))));
        let frame = seat.face.frame(seat.now_ms);
        for row in frame.commit.iter().chain(&frame.tail) {
            assert!(crate::text::line_width(row) <= columns, "{columns} × {rows}: {row}");
        }
    }
}

#[test]
fn what_is_typed_is_said_and_what_begins_with_a_sign_is_something_else() {
    let mut seat = Seat::new(80, 24);
    let mut sent = |text: &str| {
        seat.types(text);
        let mut effects = seat.key(KeyCode::Enter);
        effects.retain(|effect| !matches!(effect, Effect::Remember(_)));
        effects
    };
    let said = |text: &str| Effect::Say { text: text.to_owned(), pictures: vec![], when: When::Steer };
    assert_eq!(sent("fix it"), [said("fix it")]);
    assert_eq!(sent("/usr/bin is full"), [said("/usr/bin is full")]);
    assert_eq!(sent("!ls -l"), [Effect::Shell { command: "ls -l".to_owned(), is_private: false }]);
    assert_eq!(sent("!!env"), [Effect::Shell { command: "env".to_owned(), is_private: true }]);
    let note = Effect::Command { name: "note".to_owned(), words: "tests are in t/".to_owned() };
    assert_eq!(sent("# tests are in t/"), [note]);
    assert_eq!(sent("   "), []);
}

#[test]
fn a_key_answers_a_question_only_where_it_was_meant_to() {
    let mut seat = Seat::new(80, 24);
    seat.types("and ");
    seat.tell(Input::Heard(Box::new(wanted("rm -rf target"))));
    seat.face.frame(seat.now_ms);
    // The person is still typing: the keys are the prompt's.
    seat.waits(100);
    seat.types("yes");
    assert!(seat.screen().contains("› and yes"), "{}", seat.screen());
    seat.waits(GUARD);
    assert_eq!(seat.key(KeyCode::Char('!')), [], "words stand in the prompt: the pause must be longer");
    seat.waits(1_400);
    let [Effect::Answer(answer)] = &seat.key(KeyCode::Char('y'))[..] else { panic!("no answer") };
    assert_eq!(answer.decision, Decision::Approve);
    assert!(answer.shown.is_some(), "it is for the question that was seen");
    assert!(seat.screen().contains("› and yes!"), "what was typed before stays");
}

const GUARD: u64 = 400;

#[test]
fn a_no_takes_words_and_escape_takes_them_back() {
    let mut seat = Seat::new(80, 24);
    seat.tell(Input::Heard(Box::new(wanted("rm x"))));
    seat.waits(0);
    seat.waits(GUARD);
    assert_eq!(seat.key(KeyCode::Char('n')), []);
    seat.types("use git rm");
    assert_eq!(seat.key(KeyCode::Esc), []);
    seat.waits(GUARD);
    assert_eq!(seat.key(KeyCode::Tab), []);
    seat.types("use mv");
    let [Effect::Answer(answer)] = &seat.key(KeyCode::Enter)[..] else { panic!("no answer") };
    assert_eq!(answer.decision, Decision::Deny(Some("use mv".to_owned())));
}

#[test]
fn always_is_asked_for_how_long_and_e_is_never_a_yes() {
    let mut seat = Seat::new(80, 24);
    let Published::Wanted(Wanted { subject, want: Want::Approval(question) }) = wanted("rm x") else { panic!() };
    let want = Want::Approval(Box::new(question.lasting()));
    seat.tell(Input::Heard(Box::new(Published::Wanted(Wanted { subject, want }))));
    seat.waits(0);
    seat.waits(GUARD);
    assert!(seat.screen().contains("y yes   a always bash   n no"), "{}", seat.screen());
    assert_eq!(seat.key(KeyCode::Char('e')), [], "without a command on record there is nothing to edit");
    seat.key(KeyCode::Backspace);
    seat.waits(GUARD);
    assert_eq!(seat.key(KeyCode::Char('a')), []);
    assert!(seat.screen().contains("s in this session   f in this folder, always   e everywhere"), "{}", seat.screen());
    assert_eq!(seat.key(KeyCode::Esc), []);
    seat.waits(GUARD);
    assert_eq!(seat.key(KeyCode::Char('a')), []);
    let [Effect::Answer(answer)] = &seat.key(KeyCode::Char('f'))[..] else { panic!("no answer") };
    assert_eq!(answer.decision, Decision::ApproveLasting(piton_core::question::Lasting::Folder));
}

/// What the model asks.
fn inquired(questions: Vec<InquiryQuestion>) -> Input {
    let want = Want::Approval(Box::new(Question::inquire(Inquiry { questions, seconds: None, plan: None }, None)));
    Input::Heard(Box::new(Published::Wanted(Wanted { subject: Subject::Call(CallId::from("c1_0")), want })))
}

fn options(labels: &[&str]) -> Vec<InquiryOption> {
    labels.iter().map(|label| InquiryOption { label: (*label).into(), description: String::new() }).collect()
}

#[test]
fn what_the_model_asks_is_answered_by_numbers_or_in_words_one_by_one() {
    let mut seat = Seat::new(60, 24);
    let which = InquiryQuestion {
        header: "Database".into(),
        question: "Which one\u{1b}[2K?".into(),
        options: options(&["Postgres", "SQLite"]),
        default: vec!["SQLite".into()],
        ..InquiryQuestion::default()
    };
    let tables = InquiryQuestion {
        question: "Which tables?".into(),
        options: options(&["a", "b", "c"]),
        several: true,
        ..which.clone()
    };
    let tables = InquiryQuestion { header: String::new(), default: vec![], ..tables };
    let why = InquiryQuestion { question: "Why?".into(), ..InquiryQuestion::default() };
    seat.tell(inquired(vec![which, tables, why]));
    seat.waits(0);
    assert_eq!(seat.key(KeyCode::Char('1')), [], "it was not there for long enough");
    seat.key(KeyCode::Backspace);
    seat.waits(GUARD);
    expect![[r#"
         ╭ Database (1 of 3)
         │ Which one\u{1b}[2K?
         │ 1 Postgres
         │ 2 SQLite
         │ 1-2 choose   Enter SQLite   n no answer
         ╰ Tab: your own words · Esc stop the turn
         ────────────────────────────────────────────────────────────
         ›
         ask · model · ? keys
        cursor Some((7, 2))
    "#]]
    .assert_eq(&seat.screen());
    assert_eq!(seat.key(KeyCode::Char('1')), []);
    assert!(seat.screen().contains("The model asks (2 of 3)"), "{}", seat.screen());
    for key in [KeyCode::Char('3'), KeyCode::Char('1'), KeyCode::Char('2'), KeyCode::Char('2')] {
        seat.waits(GUARD);
        assert_eq!(seat.key(key), []);
    }
    assert!(seat.screen().contains("1 [x] a") && seat.screen().contains("2 [ ] b"), "{}", seat.screen());
    seat.waits(GUARD);
    assert_eq!(seat.key(KeyCode::Enter), []);
    seat.waits(0);
    seat.waits(GUARD);
    assert_eq!(seat.key(KeyCode::Tab), []);
    seat.types("because");
    let [Effect::Answer(answer)] = &seat.key(KeyCode::Enter)[..] else { panic!("no answer") };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        answer.decision,
        Decision::Answered(vec![words(&["Postgres"]), words(&["a", "c"]), words(&["because"])])
    );
}

#[test]
fn control_characters_of_a_command_are_there_to_be_seen() {
    let mut seat = Seat::new(60, 24);
    seat.tell(Input::Heard(Box::new(wanted("echo a\u{1b}[2K\u{202e}b"))));
    expect![[r#"
        =piton  fake/model · ~/w · sandbox workspace-write · mode ask
         ╭ Run this command?
         │ echo a\u{1b}[2K\u{202e}b
         │ y yes   a always bash (in this session)   n no
         ╰ Tab: no, and what to do instead · v all of it · Esc stop …
         ────────────────────────────────────────────────────────────
         ›
         ask · model · ? keys
        cursor Some((5, 2))
    "#]]
    .assert_eq(&seat.screen());
}

#[test]
fn leaving_needs_two_presses_and_clearing_one() {
    let mut seat = Seat::new(80, 24);
    seat.types("draft");
    assert_eq!(seat.control('c'), []);
    assert!(!seat.screen().contains("draft"));
    assert_eq!(seat.control('c'), []);
    assert!(seat.screen().contains("again to leave"));
    assert_eq!(seat.control('c'), [Effect::Leave]);
    let rewind = Effect::Command { name: "rewind".to_owned(), words: String::new() };
    assert_eq!(seat.key(KeyCode::Esc), []);
    assert_eq!(seat.key(KeyCode::Esc), [rewind]);
}

#[test]
fn a_slash_offers_commands_and_tab_completes_them() {
    let mut seat = Seat::new(80, 24);
    seat.types("/cos");
    assert!(seat.screen().contains("▸ /cost"), "{}", seat.screen());
    seat.key(KeyCode::Tab);
    assert!(seat.screen().contains("› /cost"), "{}", seat.screen());
    let effects = seat.key(KeyCode::Enter);
    assert!(effects.contains(&Effect::Command { name: "cost".to_owned(), words: String::new() }), "{effects:?}");
    assert_eq!(seat.face.keys.name_of(Action::Details), "Ctrl-O");
}

#[test]
fn what_servers_know_of_a_line_is_offered_where_nothing_was_typed_since() {
    let mut seat = Seat::new(80, 24);
    let item =
        |value: &str| Item { label: value.trim_end().to_owned(), detail: String::new(), value: value.to_owned() };
    let look_up = |line: &str| vec![Effect::LookUp(line.to_owned())];
    seat.types("/mcp_");
    assert_eq!(seat.key(KeyCode::Char('_')), look_up("/mcp__"));
    assert_eq!(seat.key(KeyCode::Char('d')), look_up("/mcp__d"));
    seat.tell(Input::Offers("/mcp__".to_owned(), vec![item("/mcp__other__late ")]));
    assert!(!seat.screen().contains("late"), "{}", seat.screen());
    seat.tell(Input::Offers("/mcp__d".to_owned(), vec![item("/mcp__db__explain ")]));
    assert!(seat.screen().contains("▸ /mcp__db__explain"), "{}", seat.screen());
    // Enter takes the name; what the prompt takes comes behind it.
    assert_eq!(seat.key(KeyCode::Enter), look_up("/mcp__db__explain "));
    assert_eq!(seat.key(KeyCode::Char('u')), look_up("/mcp__db__explain u"));
    seat.tell(Input::Offers("/mcp__db__explain u".to_owned(), vec![item("users ")]));
    seat.key(KeyCode::Tab);
    assert!(seat.screen().contains("/mcp__db__explain users"), "{}", seat.screen());
    // Nor do files hide what a server has.
    let mut seat = Seat::new(80, 24);
    seat.types("see @db");
    assert_eq!(seat.key(KeyCode::Char(':')), look_up("see @db:"));
    seat.tell(Input::Offers("see @db:".to_owned(), vec![item("@db:db://tables ")]));
    seat.tell(Input::Tick);
    assert!(seat.screen().contains("▸ @db:db://tables"), "{}", seat.screen());
    seat.key(KeyCode::Esc);
    seat.tell(Input::Offers("see @db:".to_owned(), vec![item("@db:db://tables ")]));
    assert!(!seat.screen().contains("tables"), "{}", seat.screen());
}

#[test]
fn a_file_is_completed_by_keys_that_came_together_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("calculator.py"), "").unwrap();
    let mut seat = Seat::new(80, 24);
    seat.tell(Input::Facts(Facts { workspace: folder.path().to_owned(), ..Facts::default() }));
    seat.types("@");
    while !seat.screen().contains("calculator.py") {
        std::thread::yield_now();
    }
    while seat.face.is_looking() {
        seat.screen();
    }
    // No frame is drawn between these.
    seat.types("clc");
    seat.key(KeyCode::Tab);
    assert!(seat.screen().contains("› @calculator.py"), "{}", seat.screen());
}

#[test]
fn enter_completes_a_mistyped_command_and_carries_it_out_only_when_it_is_pressed_again() {
    let carried_out = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Command { .. }));
    let mut seat = Seat::new(80, 24);
    seat.types("/exprt");
    assert!(seat.screen().contains("▸ /export"), "{}", seat.screen());
    assert!(!carried_out(&seat.key(KeyCode::Enter)), "{}", seat.screen());
    assert!(seat.screen().contains("› /export"), "{}", seat.screen());
    assert!(carried_out(&seat.key(KeyCode::Enter)));
}

/// What a session tells, in order.
#[derive(Default)]
struct Told {
    seq: u64,
    turn: u32,
    all: Vec<Published>,
}

impl Told {
    fn record(&mut self, event: Event) {
        self.seq += 1;
        let record = Record { seq: self.seq, at_ms: 1_000_000 + self.seq, event };
        self.all.push(Published::Recorded(Arc::new(record)));
    }

    /// A turn: a person's words, a reply in pieces, the record of it.
    fn turn(&mut self, words: &str, reply: &str, pieces: impl Iterator<Item = String>) {
        self.turn += 1;
        let step = self.turn;
        let message = MessageId::from(format!("m{step}").as_str());
        self.record(Event::UserSpoke {
            message,
            parts: vec![Part::text(words)],
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
        let policy = Box::new(Policy::piton());
        let (model, fallbacks) = ("fake/model".to_owned(), vec![]);
        self.record(Event::TurnStarted {
            turn: step,
            model,
            fallbacks,
            policy,
            compact_at_tokens: None,
            this_turn_only: false,
        });
        self.record(Event::StepStarted { step, kind: StepKind::Ordinary, note: None });
        for text in pieces {
            let live = Live::ModelDelta { step, attempt: 1, delta: Delta::Text { text } };
            self.all.push(Published::Live(Arc::new(live)));
        }
        let usage = Usage { input_tokens: 1_000, output_tokens: 10, cache_read_tokens: 900, ..Usage::default() };
        let (finish_raw, response_id, warnings) = (None, None, vec![]);
        let parts = vec![Part::text(reply)];
        let reply = Reply { parts, finish: FinishReason::Stop, finish_raw, usage, response_id, warnings };
        let (cost_micros, at_most, prompt, first_ms) = (Some(20_000), None, None, None);
        self.record(Event::MessageFinished { step, attempt: 1, reply, cost_micros, at_most, prompt, first_ms });
        let (end, spent) = (TurnEnd::Completed, Spent { steps: 1, ..Spent::default() });
        self.record(Event::TurnEnded { turn: step, end, why: None, detail: None, spent });
    }
}

#[test]
fn a_turn_is_committed_once_and_the_prompt_stays() {
    let mut seat = Seat::new(50, 20);
    seat.tell(Input::Session { id: String::new() });
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    let mut committed = Vec::new();
    let reply = "One **two** three.\n\n- a\n- b\n\nThe end.";
    let mut told = Told::default();
    told.turn("hello", reply, reply.split_inclusive(' ').map(str::to_owned));
    for told in told.all {
        seat.tell(Input::Heard(Box::new(told)));
        let frame = seat.face.frame(seat.now_ms);
        committed.extend(frame.commit.iter().map(|row| row.to_string().trim_end().to_owned()));
    }
    expect![[r#"
        piton  fake/model · ~/w · sandbox workspace-write
          · mode ask

        › hello

        One two three.

        • a
        • b

        The end.

          1 step · 0.0 s
    "#]]
    .assert_eq(&format!("{}\n", committed.join("\n")));
    expect![[r#"
         ──────────────────────────────────────────────────
         ›
         ask · model · 1.0k/200k ░░░░░░ 0 % · $0.02
        cursor Some((1, 2))
    "#]]
    .assert_eq(&seat.screen());
}

#[test]
fn what_a_turn_says_does_not_wait_for_a_command_of_ones_own_that_runs_on() {
    let mut seat = Seat::new(100, 20);
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    let mut told = Told::default();
    let call = CallId::from("u1");
    let (command, keep_from_model, turn, snapshot) = ("make watch".to_owned(), false, Some(1), false);
    told.record(Event::UserRan {
        call: call.clone(),
        command,
        keep_from_model,
        turn,
        snapshot,
        message: None,
        terminal: false,
    });
    told.record(Event::CallStarted { call: call.clone() });
    told.turn = 1;
    told.turn("hello", "The answer.", std::iter::empty());
    let mut rows = |told: &mut Told| {
        let mut committed = Vec::new();
        for told in told.all.drain(..) {
            seat.tell(Input::Heard(Box::new(told)));
            let frame = seat.face.frame(seat.now_ms);
            committed.extend(frame.commit.iter().map(|row| row.to_string().trim_end().to_owned()));
        }
        (committed.join("\n"), seat.screen())
    };
    let (committed, screen) = rows(&mut told);
    assert!(committed.contains("The answer.") && !committed.contains("make watch"), "{committed}");
    assert!(screen.contains("● ! make watch") && screen.contains("Esc stops"), "{screen}");
    told.record(Event::CallSettled { call, outcome: piton_core::call::Outcome::ok("built").titled("bash make watch") });
    let (committed, screen) = rows(&mut told);
    assert!(committed.contains("● ! make watch") && committed.contains("│ built"), "{committed}");
    assert!(!screen.contains("make watch"), "{screen}");
}

#[test]
fn a_tree_of_turns_takes_keys_that_were_meant_for_it() {
    let turn = |turn: u32, back: u32| crate::rewind::Turn {
        turn,
        follows: turn.checked_sub(1).filter(|before| *before > 0),
        at: "11:00".to_owned(),
        prompt: format!("prompt {turn}"),
        changed: None,
        cost_micros: 0,
        back: Some(back),
    };
    let turns = vec![turn(1, 2), turn(2, 1)];
    let mut seat = Seat::new(80, 20);
    seat.waits(5_000);
    seat.tell(Input::Rewind(turns.clone()));
    assert_eq!(seat.key(KeyCode::Enter), [], "it came up while somebody typed");
    assert!(seat.face.has_page());
    seat.waits(1_000);
    assert_eq!(seat.key(KeyCode::Up), []);
    let diff = Effect::Command { name: "diff".to_owned(), words: "from 1".to_owned() };
    assert_eq!(seat.key(KeyCode::Char('d')), [diff]);
    seat.tell(Input::Review(Source::From(1), Vec::new()));
    seat.key(KeyCode::Char('q'));
    assert!(seat.face.has_page(), "the tree is there again");
    seat.tell(Input::RewindAgain(turns));
    assert_eq!(seat.key(KeyCode::Enter), [Effect::Rewind { turns: 2, scope: RewindScope::Both }]);
    assert!(!seat.face.has_page());
}

#[test]
fn who_waits_for_a_turn_leaves_when_it_is_over() {
    let mut seat = Seat::new(80, 20);
    seat.tell(Input::Session { id: String::new() });
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    let mut told = Told::default();
    told.turn("hello", "One two three.", ["One ".to_owned(), "two three.".to_owned()].into_iter());
    let mut has_asked = false;
    let mut effects = Vec::new();
    for told in told.all {
        effects.extend(seat.tell(Input::Heard(Box::new(told))));
        if seat.face.is_busy() && !std::mem::replace(&mut has_asked, true) {
            seat.types("/quit");
            assert!(!seat.key(KeyCode::Enter).contains(&Effect::Leave), "a running turn is not left without a word");
            seat.key(KeyCode::Down);
            assert_eq!(seat.key(KeyCode::Enter), [], "wait, then leave");
            let screen = seat.screen();
            assert!(screen.contains("leaves when the turn is over"), "{screen}");
        }
    }
    assert_eq!(effects, [Effect::Leave]);
}

#[test]
fn an_answer_from_before_is_copied_by_its_number() {
    let mut seat = Seat::new(80, 20);
    seat.tell(Input::Session { id: String::new() });
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    let mut told = Told::default();
    for reply in ["Old.\n\n```sh\nls\n```", "New."] {
        told.turn("hello", reply, std::iter::once(reply.to_owned()));
    }
    for told in told.all {
        seat.tell(Input::Heard(Box::new(told)));
        seat.screen();
    }
    let mut copy = |words: &str| {
        seat.types(words);
        seat.key(KeyCode::Enter).into_iter().find(|effect| matches!(effect, Effect::Copy(_)))
    };
    assert_eq!(copy("/copy"), Some(Effect::Copy("New.".to_owned())));
    assert_eq!(copy("/copy 2 code"), Some(Effect::Copy("ls\n".to_owned())));
    assert_eq!(copy("/copy 3"), None);
    assert_eq!(copy("/copy all"), None);
}

#[test]
fn a_large_paste_is_folded_when_it_was_said_and_comes_back_as_a_chip() {
    let lines: String = (1..=5_000).map(|number| format!("line {number}\n")).collect();
    let mut seat = Seat::new(80, 24);
    seat.types("explain ");
    seat.tell(Input::Paste(lines.clone()));
    assert!(seat.screen().contains("› explain [Paste 5,000 lines]"), "{}", seat.screen());
    let effects = seat.key(KeyCode::Enter);
    let [Effect::Say { text, .. }, Effect::Remember(entry)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((text, entry.pastes.len()), (&format!("explain {lines}"), 1));
    // Up gives the chip, changed or not, and so does what comes back out of the queue.
    seat.key(KeyCode::Up);
    assert!(seat.screen().contains("› explain [Paste 5,000 lines]"), "{}", seat.screen());
    seat.types(" now");
    seat.key(KeyCode::Down);
    seat.key(KeyCode::Up);
    assert!(seat.screen().contains("› explain [Paste 5,000 lines] now"), "{}", seat.screen());
    seat.control('c');
    seat.tell(Input::PutBack(format!("first\n{text}")));
    assert!(seat.screen().contains("  explain [Paste 5,000 lines]"), "{}", seat.screen());
    seat.control('c');
    // A later process knows it from the disk.
    let mut later = Seat::new(80, 24);
    later.tell(Input::History(vec![Entry { folder: String::new(), ..entry.clone() }]));
    later.key(KeyCode::Up);
    assert!(later.screen().contains("› explain [Paste 5,000 lines]"), "{}", later.screen());
    // In the transcript stand its first and last lines; Ctrl-O shows all.
    seat.tell(Input::Session { id: String::new() });
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    let mut told = Told::default();
    told.turn(text, "So it is.", std::iter::once("So it is.".to_owned()));
    told.all.into_iter().for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
    let screen = seat.screen();
    assert!(screen.lines().count() < 20, "{screen}");
    expect![[r#"
        =› explain line 1
        =  line 2
        =  line 3
        =  line 4
        =  … [5000 lines, 48k characters; Ctrl-O shows all] …
        =  line 4999
        =  line 5000"#]]
    .assert_eq(&screen.lines().skip(1).take(7).collect::<Vec<_>>().join("\n"));
    seat.control('o');
    let page = seat.face.page().expect("a page").iter().map(ToString::to_string).collect::<String>();
    assert!(page.contains("line 10") && page.contains("your message"), "{page}");
}

#[test]
fn a_message_larger_than_the_context_is_asked_about_before_it_is_sent() {
    let mut seat = Seat::new(80, 24);
    let long = "word ".repeat(250_000);
    seat.tell(Input::Paste(long.clone()));
    assert_eq!(seat.key(KeyCode::Enter), []);
    assert!(seat.screen().contains("but the context of fake/model only 200k"), "{}", seat.screen());
    assert_eq!(seat.key(KeyCode::Enter), [], "it stays in the prompt");
    assert!(seat.screen().contains("› [Paste 1,250,000 characters]"), "{}", seat.screen());
    assert_eq!(seat.key(KeyCode::Enter), []);
    seat.key(KeyCode::Down);
    let effects = seat.key(KeyCode::Enter);
    let said = effects.iter().any(|effect| matches!(effect, Effect::Say { text, .. } if *text == long));
    assert!(said, "{}", effects.len());
}

#[test]
fn a_command_behind_words_that_came_back_is_not_sent_to_the_model_unasked() {
    for typed in ["/redo", "\n/redo"] {
        let mut seat = Seat::new(80, 24);
        seat.tell(Input::PutBack("be short".to_owned()));
        seat.tell(Input::Paste(typed.to_owned()));
        assert_eq!(seat.key(KeyCode::Enter), []);
        assert!(seat.screen().contains("run /redo"), "{}", seat.screen());
        let redo = Effect::Command { name: "redo".to_owned(), words: String::new() };
        assert_eq!(seat.key(KeyCode::Enter), [redo]);
        assert!(seat.screen().contains("› be short\n"), "{}", seat.screen());
    }
    // A path is no command, and everything can be meant for the model.
    let mut seat = Seat::new(80, 24);
    let says = |effects: &[Effect]| effects.iter().any(|effect| matches!(effect, Effect::Say { .. }));
    seat.tell(Input::PutBack("look at src".to_owned()));
    seat.tell(Input::Paste("/diff/tests.rs".to_owned()));
    assert!(says(&seat.key(KeyCode::Enter)));
    seat.tell(Input::PutBack("say".to_owned()));
    seat.tell(Input::Paste(" /redo".to_owned()));
    assert_eq!(seat.key(KeyCode::Enter), []);
    seat.key(KeyCode::Down);
    assert!(says(&seat.key(KeyCode::Enter)));
}

#[test]
fn what_waits_stands_in_the_order_in_which_it_is_read_each_with_when() {
    let mut seat = Seat::new(80, 24);
    seat.tell(Input::Session { id: String::new() });
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    let mut told = golden::work();
    for (id, text, delivery) in [
        ("m2", "then the docs", Delivery::FollowUp),
        ("m3", "use spaces", Delivery::Steer),
        ("m4", "and commit it", Delivery::FollowUp),
    ] {
        let (message, parts) = (MessageId::from(id), vec![Part::text(text)]);
        told.record(Event::UserSpoke {
            message,
            parts,
            delivery,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
    }
    told.all.into_iter().for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
    let screen = seat.screen();
    let rows: Vec<&str> = screen.lines().map(str::trim_start).filter(|row| row.starts_with('↳')).collect();
    expect![[r#"
        ↳ at the next step: use spaces
        ↳ next turn: then the docs
        ↳ in 2 turns: and commit it   Alt-↑ takes it back"#]]
    .assert_eq(&rows.join("\n"));
    let last = Effect::Unqueue(Some(MessageId::from("m4")));
    assert_eq!(seat.tell(Input::Key(KeyEvent::new(KeyCode::Up, KeyModifiers::ALT))), [last]);
}

#[test]
fn keys_go_to_a_command_that_has_a_terminal_until_they_are_taken_back() {
    let mut seat = Seat::new(80, 24);
    seat.tell(Input::Session { id: String::new() });
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    seat.control('\\');
    assert!(seat.screen().contains("no command runs that has a terminal"), "{}", seat.screen());
    let mut told = Told::default();
    let (call, command) = (CallId::from("u1"), "npm init".to_owned());
    let (keep_from_model, turn, snapshot, message, terminal) = (false, Some(1), false, None, true);
    told.record(Event::UserRan { call: call.clone(), command, keep_from_model, turn, snapshot, message, terminal });
    told.record(Event::CallStarted { call: call.clone() });
    let text = "package name: ".to_owned();
    told.all.push(Published::Live(Arc::new(Live::ToolOutput { call: call.clone(), text })));
    told.all.drain(..).for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
    let screen = seat.screen();
    assert!(screen.contains("types into it") && screen.contains("│ package name:"), "{screen}");
    // Both of what terminals send for the key.
    seat.control('4');
    assert!(seat.screen().contains("your keys go to it"), "{}", seat.screen());
    let typed = |keys: &str| [Effect::Type(call.clone(), keys.to_owned())];
    assert_eq!(seat.key(KeyCode::Char('x')), typed("x"));
    assert_eq!(seat.key(KeyCode::Enter), typed("\r"));
    assert_eq!(seat.control('c'), typed("\u{3}"));
    assert_eq!(seat.key(KeyCode::Up), typed("\u{1b}[A"));
    assert_eq!(seat.tell(Input::Paste("a\nb".to_owned())), typed("a\rb"));
    assert_eq!(seat.key(KeyCode::Esc), [], "the turn is not stopped by it");
    seat.types("mine");
    assert!(seat.screen().contains("› mine"), "{}", seat.screen());
    seat.control('\\');
    told.record(Event::CallSettled { call, outcome: piton_core::call::Outcome::ok("").titled("bash npm init") });
    told.all.into_iter().for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
    seat.types("!");
    assert!(seat.screen().contains("› mine!"), "it is over, and so is typing into it: {}", seat.screen());
}
