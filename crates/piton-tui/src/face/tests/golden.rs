//! Every screen at four widths, as text; and each at 80 columns in three themes, as the bytes that a terminal gets. The text is the
//! same in every theme: no meaning is in a colour alone.

use super::*;
use crate::review::{FileChange, Source};
use crate::theme::Level;
use crate::trust::{Brought, Standing};
use expect_test::expect_file;
use piton_core::call::{CallInput, Effects, Outcome, Status};
use piton_core::event::Verdict;
use piton_core::message::ToolCall;
use piton_core::todo::{TodoItem, TodoStatus};
use serde_json::{Value, json};

const WIDTHS: [usize; 4] = [40, 80, 120, 200];
const ROWS: usize = 24;

pub(super) fn called(told: &mut Told, step: u32, calls: &[(&str, Value)]) {
    let parts = calls.iter().enumerate().map(|(number, (name, input))| {
        Part::ToolCall(ToolCall {
            id: CallId(format!("c{step}_{number}")),
            provider_id: None,
            name: (*name).to_owned(),
            spelling: None,
            input: CallInput::from_value(input.clone()),
            opaque: None,
        })
    });
    let reply = Reply::new(parts.collect(), FinishReason::ToolCalls);
    told.record(Event::replied(step, reply));
    for number in 0..calls.len() {
        let call = CallId(format!("c{step}_{number}"));
        told.record(Event::requested(call.clone(), Effects::OPAQUE, Verdict::Allow));
        told.record(Event::CallStarted { call });
    }
}

pub(super) fn settled(told: &mut Told, call: &str, outcome: Outcome) {
    told.record(Event::CallSettled { call: CallId::from(call), outcome });
}

#[test]
fn what_the_sandbox_moved_away_is_told_below_the_call() {
    let mut told = Told::default();
    let message = MessageId::from("m1");
    let parts = vec![Part::text("go")];
    told.record(Event::UserSpoke {
        message,
        parts,
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    });
    let (model, policy) = ("fake/model".to_owned(), Box::new(Policy::piton()));
    told.record(Event::TurnStarted {
        turn: 1,
        model,
        fallbacks: vec![],
        policy,
        compact_at_tokens: None,
        this_turn_only: false,
    });
    told.record(Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None });
    called(&mut told, 1, &[("bash", json!({"command": "touch .envrc"}))]);
    let moved = json!({"undone": [".envrc was made, and moved away. It is kept in /data/0-.envrc"]});
    settled(&mut told, "c1_0", Outcome::ok("(no output)").titled("bash touch .envrc (exit 0)").with(moved));
    let mut seat = Seat::new(100, 24);
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    let mut rows = String::new();
    for told in told.all.drain(..) {
        seat.tell(Input::Heard(Box::new(told)));
        let frame = seat.face.frame(seat.now_ms);
        rows.extend(frame.commit.iter().map(|row| format!("{row}\n")));
    }
    let shown = format!("{rows}{}", seat.screen());
    assert!(shown.contains("sandbox: .envrc was made, and moved away. It is kept in /data/0-.envrc"), "{shown}");
}

/// A turn that has read, edited, failed, and is at work.
pub(super) fn work() -> Told {
    let mut told = Told::default();
    let message = MessageId::from("m1");
    let parts = vec![Part::text("fix the failing test in calc.py, and say what was wrong with it")];
    told.record(Event::UserSpoke {
        message,
        parts,
        delivery: Delivery::Steer,
        typed: None,
        allows: Vec::new(),
        for_turn: None,
        subtask: None,
    });
    let (model, policy) = ("fake/model".to_owned(), Box::new(Policy::piton()));
    told.record(Event::TurnStarted {
        turn: 1,
        model,
        fallbacks: vec![],
        policy,
        compact_at_tokens: None,
        this_turn_only: false,
    });
    told.record(Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None });
    called(&mut told, 1, &[("read", json!({"path": "calc.py"})), ("grep", json!({"pattern": "add"}))]);
    settled(&mut told, "c1_0", Outcome::ok("1 def add").titled("read calc.py (2 lines)"));
    settled(&mut told, "c1_1", Outcome::ok("calc.py:1").titled("grep \"add\" (3)"));
    told.record(Event::StepFinished { step: 1 });
    told.record(Event::StepStarted { step: 2, kind: StepKind::Ordinary, note: None });
    let edit = json!({"path": "calc.py", "old_string": "a - b", "new_string": "a + b"});
    called(&mut told, 2, &[("edit", edit), ("bash", json!({"command": "cargo test --workspace"}))]);
    let change = "edit calc.py (+1 −1)\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n";
    settled(&mut told, "c2_0", Outcome::ok(change).titled("edit calc.py (+1 −1)"));
    let failed = Outcome::new(Status::Failed, "running 12 tests\ntest add ... FAILED\nexit code 101")
        .with(json!({"exit_code": 101}));
    settled(
        &mut told,
        "c2_1",
        Outcome { duration_ms: 3_200, ..failed.titled("bash cargo test --workspace (exit 101, 3.2 s)") },
    );
    told.record(Event::StepFinished { step: 2 });
    told.record(Event::StepStarted { step: 3, kind: StepKind::Ordinary, note: None });
    told
}

fn stream(told: &mut Told, text: &str) {
    let delta = Delta::Text { text: text.to_owned() };
    told.all.push(Published::Live(Arc::new(Live::ModelDelta { step: 3, attempt: 1, delta })));
}

pub(super) fn hear(seat: &mut Seat, told: Told) {
    seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
    for told in told.all {
        seat.tell(Input::Heard(Box::new(told)));
    }
}

/// How a screen is come to.
type Way = fn(&mut Seat);

/// Each screen, by the way to it.
fn screens() -> Vec<(&'static str, Way)> {
    vec![
        ("start", |seat| seat.types("hello, and 漢字")),
        ("commands", |seat| seat.types("/co")),
        ("streaming", |seat| {
            let mut told = work();
            stream(
                &mut told,
                "The sign was **wrong**. Here is what I know:\n\n| file | line |\n| --- | --- |\n| calc.py | 2 |\n\n```python\ndef add(a, b):\n    return a",
            );
            hear(seat, told);
        }),
        ("running", |seat| {
            let mut told = work();
            called(&mut told, 3, &[("bash", json!({"command": "cargo test"}))]);
            let (call, text) = (CallId::from("c3_0"), "running 12 tests\n".to_owned());
            told.all.push(Published::Live(Arc::new(Live::ToolOutput { call, text })));
            let parts = vec![Part::text("and update the changelog")];
            told.record(Event::UserSpoke {
                message: MessageId::from("m2"),
                parts,
                delivery: Delivery::FollowUp,
                typed: None,
                allows: Vec::new(),
                for_turn: None,
                subtask: None,
            });
            hear(seat, told);
        }),
        ("interrupted", |seat| {
            let mut told = work();
            called(&mut told, 3, &[("bash", json!({"command": "cargo test"}))]);
            seat.tell(Input::Session { id: "ses_1".to_owned() });
            seat.tell(Input::Interrupted);
            told.all.into_iter().for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
            seat.tell(Input::Heard(Box::new(Published::CaughtUp)));
        }),
        ("own command", |seat| {
            let mut told = Told::default();
            for (call, is_private) in [("u1", false), ("u2", true)] {
                let (call, command) = (CallId::from(call), "git status --short".to_owned());
                let (keep_from_model, turn, snapshot) = (is_private, Some(1), false);
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
                let outcome = Outcome::ok(" M calc.py\n?? notes.md").titled("bash git status --short (exit 0, 0.0 s)");
                told.record(Event::CallSettled { call, outcome });
            }
            let (call, command) = (CallId::from("u3"), "make watch".to_owned());
            let (keep_from_model, turn, snapshot) = (false, Some(3), false);
            told.record(Event::UserRan {
                call: call.clone(),
                command,
                keep_from_model,
                turn,
                snapshot,
                message: None,
                terminal: true,
            });
            told.record(Event::CallStarted { call: call.clone() });
            told.all
                .push(Published::Live(Arc::new(Live::ToolOutput { call, text: "watching src\nrebuilt\n".to_owned() })));
            hear(seat, told);
        }),
        ("question", |seat| {
            hear(seat, work());
            seat.tell(Input::Heard(Box::new(wanted("git push origin HEAD:release && ./deploy.sh prod \u{202e}x"))));
            seat.waits(0);
            seat.waits(GUARD);
        }),
        ("no, because", |seat| {
            seat.tell(Input::Heard(Box::new(wanted("rm -rf target"))));
            seat.waits(0);
            seat.waits(GUARD);
            seat.key(KeyCode::Char('n'));
            seat.types("use cargo clean");
        }),
        ("done", |seat| {
            let mut told = work();
            let usage =
                Usage { input_tokens: 41_000, output_tokens: 300, cache_read_tokens: 39_000, ..Usage::default() };
            let reply = Reply { usage, ..Reply::new(vec![Part::text("The sign was wrong.")], FinishReason::Stop) };
            told.record(Event::replied(3, reply));
            let spent =
                Spent { steps: 3, calls: 4, duration_ms: 12_300, cost_micros: Some(31_000), ..Spent::default() };
            told.record(Event::TurnEnded { turn: 1, end: TurnEnd::Completed, why: None, detail: None, spent });
            hear(seat, told);
        }),
        ("todos", |seat| {
            let item = |text: &str, status| TodoItem { text: text.to_owned(), status };
            let items = vec![
                item("read the test", TodoStatus::Done),
                item("mend the sign", TodoStatus::InProgress),
                item("say what was wrong", TodoStatus::Pending),
            ];
            let mut told = work();
            told.record(Event::Todo { items });
            hear(seat, told);
            seat.control('t');
        }),
        ("list", |seat| {
            let item = |label: &str, detail: &str| crate::picker::Item {
                label: label.to_owned(),
                detail: detail.to_owned(),
                value: label.to_owned(),
            };
            let items = vec![
                item("fix the failing test", "$0.0400"),
                item("now the docs", "$0.0200"),
                item("rewrite all of it in another language, which takes a title longer than a narrow screen", ""),
            ];
            let title = "Take back this turn and all behind it, words and files".to_owned();
            seat.tell(Input::Choose { purpose: crate::picker::Purpose::Rewind, title, items });
        }),
        ("always, and how long", |seat| {
            let Published::Wanted(Wanted { subject, want: Want::Approval(question) }) = wanted("git log") else {
                return;
            };
            let want = Want::Approval(Box::new(question.lasting()));
            seat.tell(Input::Heard(Box::new(Published::Wanted(Wanted { subject, want }))));
            seat.waits(0);
            seat.waits(GUARD);
            seat.key(KeyCode::Char('a'));
        }),
        ("the model asks", |seat| {
            hear(seat, work());
            seat.tell(inquired(vec![InquiryQuestion {
                question: "Which of the two files has the sign that is meant, the one that is called or the one that is tested?"
                    .to_owned(),
                options: options(&["calc.py", "test_calc.py"]),
                default: vec!["calc.py".to_owned()],
                ..Default::default()
            }]));
            seat.waits(0);
            seat.waits(GUARD);
        }),
        ("history", |seat| {
            let entry = |text: &str, time_ms| Entry {
                text: text.to_owned(),
                pastes: Vec::new(),
                session: String::new(),
                folder: String::new(),
                time_ms,
            };
            seat.tell(Input::History(vec![entry("fix the failing test", 1), entry("now the docs, and 漢字", 2)]));
            seat.control('r');
        }),
        ("leave", |seat| {
            seat.control('c');
        }),
        ("status by a script", |seat| {
            seat.tell(Input::Status(vec!["model · 41k · $0.12".to_owned(), "main ✚2".to_owned()]));
        }),
    ]
}

fn seat_of(theme: Theme, columns: usize, way: Way) -> Seat {
    let mut seat = Seat::new(columns, ROWS);
    seat.face.theme = theme;
    way(&mut seat);
    seat
}

#[test]
fn every_screen_at_four_widths() {
    let mut all = String::new();
    for (name, way) in screens() {
        for columns in WIDTHS {
            let screen = seat_of(Theme::none(), columns, way).screen();
            for line in screen.lines().filter(|line| !line.starts_with("cursor ")) {
                assert!(crate::text::width(&line[1..]) <= columns, "{name} at {columns}: {line}");
            }
            all.push_str(&format!("── {name}, {columns} columns\n{screen}\n"));
        }
    }
    expect_file!["golden/screens.txt"].assert_eq(&all);
}

#[test]
fn every_screen_in_three_themes() {
    let mut all = String::new();
    for (name, way) in screens() {
        let plain = seat_of(Theme::none(), 80, way).screen();
        for (theme_name, theme) in [
            ("light", Theme::light().at(Level::True)),
            ("dark", Theme::dark().at(Level::True)),
            ("none", Theme::none()),
        ] {
            assert_eq!(seat_of(theme.clone(), 80, way).screen(), plain, "{name}: {theme_name} says the same");
            let mut seat = seat_of(theme, 80, way);
            let frame = seat.face.frame(seat.now_ms);
            all.push_str(&format!("── {name}, {theme_name}\n"));
            for row in frame.commit.iter().chain(&frame.tail) {
                let mut bytes = String::new();
                crate::ansi::line(row, &crate::ansi::Links::default(), &mut bytes);
                all.push_str(bytes.replace('\x1b', "␛").trim_end());
                all.push('\n');
            }
            all.push('\n');
        }
    }
    expect_file!["golden/themes.txt"].assert_eq(&all);
}

/// Each page, by the way to it.
fn pages() -> Vec<(&'static str, Way)> {
    const HUNK: &str = "@@ -1,3 +1,3 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n \n";
    vec![
        ("keys", |seat| drop(seat.key(KeyCode::Char('?')))),
        ("the last call", |seat| {
            hear(seat, work());
            seat.control('o');
        }),
        ("a text", |seat| {
            let text = "# Context\n\nOf 200k tokens 41k are used.\n\u{202e}hidden\u{1b}[31m".to_owned();
            seat.tell(Input::Page { title: "context".to_owned(), text, at_end: false });
        }),
        ("rewind", |seat| {
            let turn = |turn, follows, prompt: &str, back| crate::rewind::Turn {
                turn,
                follows,
                at: format!("11:{turn:02}"),
                prompt: prompt.to_owned(),
                changed: Some(crate::rewind::Changed { files: 2, added: 3, removed: 1 }),
                cost_micros: 40_000,
                back,
            };
            let turns = vec![
                turn(2, None, "fix the failing test", Some(2)),
                turn(5, Some(2), "rewrite in Rust\nall of it", None),
                turn(9, Some(2), "now the docs", Some(1)),
            ];
            seat.tell(Input::Rewind(turns));
        }),
        ("review", |seat| {
            let file = |path: &str| FileChange { path: path.into(), hunks: vec![HUNK.into()], note: None };
            let picture = FileChange { hunks: Vec::new(), note: Some("a binary file".to_owned()), ..file("p.png") };
            seat.tell(Input::Review(Source::Session, vec![file("calc.py"), picture]));
        }),
        ("trust", |seat| {
            let brought = |kind: &str, path: &str, standing| Brought {
                kind: kind.to_owned(),
                path: path.to_owned(),
                hash: "h".to_owned(),
                standing,
                does: "It starts its command.".to_owned(),
                text: "{\"command\": \"npx\"}\n".to_owned(),
            };
            seat.tell(Input::Trust(vec![
                brought("MCP server", ".mcp.json", Standing::Unknown),
                brought("hooks", ".claude/settings.json", Standing::Trusted),
            ]));
        }),
    ]
}

#[test]
fn every_page_at_four_widths() {
    let mut all = String::new();
    for (name, way) in pages() {
        for columns in WIDTHS {
            let mut seat = seat_of(Theme::none(), columns, way);
            let page = seat.face.page().expect("a page");
            assert_eq!(page.len(), ROWS, "{name} at {columns}");
            all.push_str(&format!("── {name}, {columns} columns\n"));
            for row in &page {
                assert!(crate::text::line_width(row) <= columns, "{name} at {columns}: {row}");
                all.push_str(row.to_string().trim_end());
                all.push('\n');
            }
        }
    }
    expect_file!["golden/pages.txt"].assert_eq(&all);
}

/// What somebody hears: each thing once, as sentences, without frames.
#[test]
fn every_screen_as_it_is_heard() {
    let mut all = String::new();
    for (name, way) in screens() {
        let mut seat = Seat::new(80, ROWS);
        // It is asked and not looked at.
        way(&mut seat);
        let spoken = seat.face.spoken(seat.now_ms);
        all.push_str(&format!("── {name}\n{}\n> {}\n\n", spoken.lines.join("\n"), spoken.typed));
        assert!(!all.contains(['│', '─', '╭']) || all.contains("── "), "{all}");
        assert!(
            spoken.lines.iter().all(|line| !line.contains(['│', '╭', '╰', '●', '✗'])),
            "{name}: {:?}",
            spoken.lines
        );
        assert_eq!(seat.face.spoken(seat.now_ms).lines, [""; 0], "{name}: it is said once");
    }
    expect_file!["golden/heard.txt"].assert_eq(&all);
}
