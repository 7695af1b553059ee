//! A terminal stands behind the face. Whatever a session tells, whatever is pressed, pasted or resized: what stands in
//! scrollback and screen is the transcript, each row once; no byte is written where nothing changed, and every frame is one that
//! the terminal shows at once.

use super::golden::{called, settled};
use super::*;
use crate::ansi::SYNC;
use crate::full::Full;
use crate::inline::{Inline, shown};
use piton_core::call::{Outcome, Status};
use piton_core::event::Canceller;
use piton_core::model::Delta;
use serde_json::json;
use std::num::NonZero;
use vt100::Parser;

/// Runs of the property.
const RUNS: u64 = 10_000;
/// What a model may write.
const WORDS: [&str; 9] =
    ["plain ", "**bold** ", "\n\n", "- item\n", "```\ncode line\n```\n", "漢字 ", "`x` ", "# Head\n", "| a | b |\n"];

/// The terminal, what is drawn on it, and what should stand there.
struct Stage {
    seat: Seat,
    surface: Inline,
    terminal: Parser,
    committed: Vec<String>,
    tail: Vec<String>,
    size: (usize, usize),
    /// The fewest columns that there ever were: a terminal that is made narrower cuts what stands there.
    narrowest: usize,
}

fn nonzero(number: usize) -> NonZero<u16> {
    NonZero::new(u16::try_from(number).unwrap()).unwrap()
}

impl Stage {
    fn new(columns: usize, rows: usize) -> Self {
        let mut surface = Inline::new(columns, rows);
        (surface.reflows, surface.syncs) = (false, true);
        Self {
            seat: Seat::new(columns, rows),
            surface,
            terminal: Parser::new(nonzero(rows), nonzero(columns), 10_000),
            committed: Vec::new(),
            tail: Vec::new(),
            size: (columns, rows),
            narrowest: columns,
        }
    }

    /// Draws what there is to be seen, and at times that once more, which costs nothing.
    fn draw(&mut self) {
        let text = |row: &Line<'static>| row.to_string().trim_end().to_owned();
        let frame = self.seat.face.frame(self.seat.now_ms);
        for row in frame.commit.iter().map(ToString::to_string) {
            assert!(!row.ends_with(' '), "who copies it has blanks behind it: {row:?}");
        }
        self.committed.extend(frame.commit.iter().map(text));
        let over = frame.tail.len().saturating_sub(self.size.1);
        self.tail = frame.tail.iter().skip(over).map(text).collect();
        let again = crate::inline::Frame { commit: Vec::new(), ..frame.clone() };
        let bytes = self.surface.draw(frame);
        let is_one_frame = bytes.starts_with(SYNC.0) && bytes.ends_with(SYNC.1) && bytes.matches(SYNC.0).count() == 1;
        assert!(bytes.is_empty() || is_one_frame, "{bytes:?}");
        self.terminal.process(bytes.as_bytes());
        if fastrand::u8(..4) == 0 {
            assert_eq!(self.surface.draw(again), "", "nothing has changed");
        }
    }

    fn resize(&mut self, columns: usize, rows: usize) {
        if (columns, rows) == self.size {
            return;
        }
        (self.size, self.narrowest) = ((columns, rows), self.narrowest.min(columns));
        self.terminal.screen_mut().set_size(nonzero(rows), nonzero(columns));
        self.seat.tell(Input::Resize(columns, rows));
        let bytes = self.surface.resize(columns, rows);
        self.terminal.process(bytes.as_bytes());
    }

    /// Each row stands there once, in order, and nothing else.
    fn check(&mut self, when: &str) {
        let mut expected: Vec<&str> = self.committed.iter().chain(&self.tail).map(String::as_str).collect();
        while expected.last().is_some_and(|row| row.is_empty()) {
            expected.pop();
        }
        let shown = shown(&mut self.terminal);
        let is_row = |(shown, row): (&String, &&str)| {
            shown == row
                || (row.starts_with(shown.as_str()) && crate::text::width(shown) + 2 > self.narrowest)
                || (crate::text::width(row) >= self.narrowest && row.starts_with(shown.trim_end()))
        };
        let is_same = shown.len() == expected.len() && shown.iter().zip(&expected).all(is_row);
        assert!(is_same, "{when}, {:?}\nshown:\n{}\n\nexpected:\n{}", self.size, shown.join("\n"), expected.join("\n"));
    }

    /// A key, a paste, time, or nothing at all.
    fn press_something(&mut self) {
        const KEYS: [KeyCode; 12] = [
            KeyCode::Char('y'),
            KeyCode::Char('n'),
            KeyCode::Char('/'),
            KeyCode::Char('漢'),
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Backspace,
            KeyCode::Left,
        ];
        match fastrand::u8(..12) {
            0..=4 => drop(self.seat.key(KEYS[fastrand::usize(..KEYS.len())])),
            5 => drop(self.seat.control(['c', 't', 'r', 'j', 'w', 'b'][fastrand::usize(..6)])),
            6 => drop(self.seat.tell(Input::Paste("pasted\nlines ".repeat(fastrand::usize(1..12))))),
            7 => self.seat.now_ms += fastrand::u64(..3_000),
            8 => drop(self.seat.tell(Input::Tick)),
            9 => drop(self.seat.tell(Input::Note(Note::Warning("something to be known, at some length".to_owned())))),
            _ => {}
        }
        // A page has a screen of its own, on which nothing of this stands.
        while self.seat.face.has_page() {
            self.seat.waits(2_000);
            self.seat.key(KeyCode::Esc);
        }
    }
}

/// A text in pieces of any size.
fn pieces(text: &str) -> Vec<String> {
    let mut rest = text;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.ceil_char_boundary(fastrand::usize(1..60).min(rest.len())));
        all.push(piece.to_owned());
        rest = more;
    }
    all
}

fn streamed(told: &mut Told, step: u32, delta: Delta) {
    told.all.push(Published::Live(Arc::new(Live::ModelDelta { step, attempt: 1, delta })));
}

/// What a model writes in a step: words, and calls whose arguments arrive bit by bit. The calls that it made, by their tools.
fn writes(told: &mut Told, step: u32, words: &str, calls: &[(&'static str, serde_json::Value)]) {
    pieces(words).into_iter().for_each(|text| streamed(told, step, Delta::Text { text }));
    for (index, (name, input)) in calls.iter().enumerate() {
        streamed(told, step, Delta::CallBegan { index, name: (*name).to_owned() });
        pieces(&input.to_string()).into_iter().for_each(|json| streamed(told, step, Delta::CallInput { index, json }));
    }
}

/// A call is asked about, and answered, here or elsewhere; it may be withdrawn without an answer.
fn asked(told: &mut Told, call: &CallId) {
    let subject = Subject::Call(call.clone());
    let Published::Wanted(wanted) = wanted("cargo test --workspace && ./deploy.sh 漢字") else { return };
    told.all.push(Published::Wanted(Wanted { subject: subject.clone(), ..wanted }));
    // Time passes while it stands there.
    (0..fastrand::usize(..4)).for_each(|_| told.all.push(Published::CaughtUp));
    told.all.push(Published::Withdrawn(subject));
}

/// What came of a call.
fn outcome(name: &str) -> Outcome {
    match (name, fastrand::u8(..4)) {
        (_, 0) => Outcome::new(Status::Failed, "it went wrong\nin two lines\nexit code 1"),
        ("edit", _) => Outcome::ok("edit a.py (+1 −1)\n@@ -1,2 +1,2 @@\n def a():\n-    old 漢\n+    new\n")
            .titled("edit a.py (+1 −1)"),
        ("read", _) => Outcome::ok("1 line").titled("read a.py (1 line)"),
        _ => Outcome::ok("done").titled("bash make (exit 0)"),
    }
}

/// A turn as chance wants it. It may be stopped at any moment.
fn turn(told: &mut Told, number: u32, step: &mut u32) {
    let spoke = |id: String, words: &str, delivery| Event::UserSpoke {
        message: MessageId::from(id.as_str()),
        parts: vec![Part::text(words)],
        delivery,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    };
    told.record(spoke(format!("m{number}"), &format!("prompt {number}"), Delivery::Steer));
    let (model, policy) = ("fake/model".to_owned(), Box::new(Policy::piton()));
    let (fallbacks, compact_at_tokens, this_turn_only) = (vec![], None, false);
    told.record(Event::TurnStarted { turn: number, model, fallbacks, policy, compact_at_tokens, this_turn_only });
    let mut end = TurnEnd::Completed;
    for _ in 0..fastrand::u32(1..3) {
        *step += 1;
        told.record(Event::StepStarted { step: *step, kind: StepKind::Ordinary, note: None });
        if fastrand::u8(..6) == 0 {
            let (id, words) = (format!("q{step}"), format!("queued {step}"));
            told.record(spoke(id, &words, if fastrand::bool() { Delivery::FollowUp } else { Delivery::Steer }));
        }
        if !of_step(told, *step) {
            end = TurnEnd::Canceled;
            break;
        }
    }
    let spent = Spent { steps: 1, ..Spent::default() };
    told.record(Event::TurnEnded { turn: number, end, why: None, detail: None, spent });
}

/// A step. Whether the turn goes on.
fn of_step(told: &mut Told, step: u32) -> bool {
    let words: String = (0..fastrand::usize(..30)).map(|_| WORDS[fastrand::usize(..WORDS.len())]).collect();
    let words = format!("reply {step} {words}");
    let all = [
        ("read", json!({"path": "a.py"})),
        ("edit", json!({"path": "a.py", "old_string": "    old 漢", "new_string": "    new"})),
        ("bash", json!({"command": "make\nmake test"})),
        ("write", json!({"path": "b.py", "content": "one\ntwo\nthree\n"})),
    ];
    let calls: Vec<_> = (0..fastrand::usize(..4)).map(|_| all[fastrand::usize(..all.len())].clone()).collect();
    let cancel = Event::CancelRequested { by: Canceller::User };
    if fastrand::u8(..8) == 0 {
        // In the middle of the reply.
        let cut = words.floor_char_boundary(fastrand::usize(..=words.len()));
        writes(told, step, &words[..cut], &[]);
        told.record(cancel);
        told.record(Event::MessageCut { step, parts: vec![Part::text(&words[..cut])], at_most: None });
        return false;
    }
    writes(told, step, &words, &calls);
    let mut reply = Reply::new(vec![Part::text(words.as_str())], FinishReason::ToolCalls);
    if calls.is_empty() {
        told.record(Event::replied(step, reply));
        told.record(Event::StepFinished { step });
        return true;
    }
    let before = told.all.len();
    called(told, step, &calls);
    // The words stand before the calls.
    if let Published::Recorded(record) = &told.all[before]
        && let Event::MessageFinished { reply: made, .. } = &record.event
    {
        reply.parts.extend(made.parts.iter().cloned());
        let record = Record { seq: record.seq, at_ms: record.at_ms, event: Event::replied(step, reply) };
        told.all[before] = Published::Recorded(Arc::new(record));
    }
    let is_stopped = fastrand::u8(..6) == 0;
    for (number, (name, _)) in calls.iter().enumerate() {
        let call = CallId(format!("c{step}_{number}"));
        if fastrand::u8(..3) == 0 {
            asked(told, &call);
        }
        for _ in 0..fastrand::usize(..4) {
            let (call, text) = (call.clone(), "running 12 tests\n漢字 ok\n".to_owned());
            told.all.push(Published::Live(Arc::new(Live::ToolOutput { call, text })));
        }
        let outcome = if is_stopped { Outcome::new(Status::Cancelled, "[cancelled]") } else { outcome(name) };
        if is_stopped && number == 0 {
            told.record(cancel.clone());
        }
        settled(told, &call.0, outcome);
    }
    told.record(Event::StepFinished { step });
    !is_stopped
}

/// A command of the person's own, which prints while other things go on.
fn own_command(told: &mut Told, number: u32) {
    let call = CallId(format!("u{number}"));
    let (command, keep_from_model) = ("git status --short".to_owned(), fastrand::bool());
    let (turn, snapshot, message, terminal) = (Some(number), false, None, fastrand::bool());
    told.record(Event::UserRan { call: call.clone(), command, keep_from_model, turn, snapshot, message, terminal });
    told.record(Event::CallStarted { call: call.clone() });
    let text = " M a.py\n".repeat(fastrand::usize(..20));
    told.all.push(Published::Live(Arc::new(Live::ToolOutput { call: call.clone(), text })));
    settled(told, &call.0, Outcome::ok(" M a.py").titled("bash git status --short (exit 0)"));
}

fn session() -> Told {
    let (mut told, mut step) = (Told::default(), 0);
    for number in 1..=fastrand::u32(1..3) {
        turn(&mut told, number, &mut step);
        if fastrand::u8(..4) == 0 {
            own_command(&mut told, number);
        }
    }
    told
}

/// Runs with so many seeds, on as many threads as there may be cores.
fn runs(many: u64, run: fn(u64)) {
    const THREADS: u64 = 4;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || (thread..many).step_by(THREADS as usize).for_each(run));
        }
    });
}

#[test]
fn a_terminal_shows_each_row_of_the_transcript_once() {
    runs(RUNS, |seed| {
        fastrand::seed(seed);
        let mut stage = Stage::new(fastrand::usize(20..60), fastrand::usize(8..40));
        stage.seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
        for told in session().all {
            stage.seat.tell(Input::Heard(Box::new(told)));
            stage.press_something();
            if fastrand::u8(..4) > 0 {
                stage.draw();
            }
        }
        stage.draw();
        stage.check(&format!("seed {seed}"));
    });
}

/// Heights are such that the tail fits each: what leaves the screen at its top cannot be taken back by anybody.
#[test]
fn a_terminal_that_is_resized_shows_each_row_of_the_transcript_once() {
    runs(RUNS, |seed| {
        fastrand::seed(seed);
        let mut stage = Stage::new(fastrand::usize(30..60), fastrand::usize(45..60));
        stage.seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
        for told in session().all {
            stage.seat.tell(Input::Heard(Box::new(told)));
            stage.press_something();
            if fastrand::u8(..10) == 0 {
                stage.resize(fastrand::usize(30..60), fastrand::usize(45..60));
            }
            stage.draw();
        }
        stage.check(&format!("seed {seed}"));
    });
}

/// Text as a terminal shows it.
fn shown_of(row: &Line<'static>) -> String {
    row.to_string().trim_end().to_owned()
}

/// What the whole screen is to show: the end of the transcript, and below it the tail.
fn whole(kept: &[Line<'static>], tail: &[Line<'static>], (columns, rows): (usize, usize)) -> Vec<String> {
    let tail = &tail[tail.len().saturating_sub(rows)..];
    let above: Vec<_> = kept.iter().flat_map(|row| crate::text::wrap(row, columns, 0)).collect();
    let high = rows - tail.len();
    let blank = std::iter::repeat_n(String::new(), high.saturating_sub(above.len()));
    let above = above[above.len().saturating_sub(high)..].iter().map(shown_of);
    blank.chain(above).chain(tail.iter().map(|row| shown_of(&crate::text::fit(row, columns)))).collect()
}

#[test]
fn the_whole_screen_shows_the_end_of_the_transcript_and_hands_out_each_row_once() {
    runs(RUNS / 4, |seed| {
        fastrand::seed(seed);
        let mut stage = Stage::new(fastrand::usize(20..60), fastrand::usize(8..40));
        let mut full = Full::new(stage.size.0, stage.size.1);
        full.syncs = true;
        full.enter();
        let (mut committed, mut written) = (Vec::new(), Vec::new());
        stage.seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
        for told in session().all {
            stage.seat.tell(Input::Heard(Box::new(told)));
            stage.press_something();
            match fastrand::u8(..20) {
                0 => {
                    stage.resize(fastrand::usize(20..60), fastrand::usize(8..40));
                    full.resize(stage.size.0, stage.size.1);
                    stage.terminal.process(b"\x1b[2J");
                }
                // The terminal's other screen is empty each time.
                1 if !full.is_shown() => {
                    full.enter();
                    stage.terminal.process(b"\x1b[2J");
                }
                1 => written.extend(full.leave()),
                _ => {}
            }
            let frame = stage.seat.face.frame(stage.seat.now_ms);
            committed.extend(frame.commit.iter().cloned());
            if !full.is_shown() {
                full.keep(&frame.commit);
                written.extend(frame.commit);
                continue;
            }
            let again = crate::inline::Frame { commit: Vec::new(), ..frame.clone() };
            let bytes = full.draw(frame);
            assert!(!bytes.contains(SYNC.0) || bytes.ends_with(SYNC.1), "{bytes:?}");
            stage.terminal.process(bytes.as_bytes());
            let columns = u16::try_from(stage.size.0).unwrap();
            let rows: Vec<String> =
                stage.terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
            assert_eq!(rows, whole(&committed, &again.tail, stage.size), "seed {seed}");
            assert_eq!(full.draw(again), "", "nothing has changed");
        }
        written.extend(full.leave());
        assert_eq!(written, committed, "seed {seed}: into the scrollback goes each row, once, in order");
    });
}
