//! What works beside the conversation, arguments that arrive, and themes that are tried.

use super::golden::{called, hear, work};
use super::*;
use crate::face::AgentNow;
use crate::picker::{Item, Purpose};
use crate::theme::{Level, Theme};
use piton_core::call::{BackgroundAgent, Outcome, TaskBegan, TaskNews};
use piton_core::model::Delta;
use serde_json::json;

/// Two subagents at work: one in the background, and one that a call waits for; and a command in the background.
pub(super) fn at_work() -> Seat {
    let mut told = work();
    let task = json!({"description": "count the files", "prompt": "…", "subagent_type": "general"});
    called(&mut told, 3, &[("task", task.clone()), ("task", task), ("bash", json!({"command": "make watch"}))]);
    let began = |id: &str, command: &str, subagent| TaskNews {
        task: id.into(),
        began: Some(TaskBegan { command: command.to_owned(), notify: false, subagent }),
        is_over: false,
        read_to: 0,
    };
    let agent = BackgroundAgent {
        session: "ses_a".into(),
        goes_on: false,
        agent: "explore".to_owned(),
        title: "find the leak".to_owned(),
        prompt: String::new(),
        model: None,
        worktree: false,
    };
    let settled = |id: &str, news| Event::CallSettled {
        call: id.into(),
        outcome: Outcome { task: Some(Box::new(news)), ..Outcome::ok("it runs") },
    };
    told.record(settled("c3_0", began("c3_0", "explore: find the leak", Some(Box::new(agent)))));
    told.record(Event::Delegated { call: "c3_1".into(), child: "ses_b".into(), agent: "general".to_owned() });
    told.record(settled("c3_2", began("c3_2", "make watch", None)));
    let mut seat = Seat::new(80, 24);
    hear(&mut seat, told);
    seat.now_ms += 3_000;
    let now =
        |session: &str, doing: &str, tokens| AgentNow { session: session.into(), doing: doing.to_owned(), tokens };
    seat.tell(Input::Agents(vec![now("ses_a", "grep \"leak\"", 12_400), now("ses_b", "", 800)]));
    seat
}

/// Of the rows below the prompt, the one that says how the next turn is run.
fn status(seat: &mut Seat) -> String {
    let screen = seat.screen();
    let row = screen.lines().rfind(|row| row.contains(" · ")).map(|row| row.trim().to_owned());
    row.unwrap_or_else(|| panic!("{screen}"))
}

#[test]
fn the_status_line_says_when_commands_are_unconfined_however_narrow_it_is() {
    for columns in [30, 40, 80, 120] {
        for (sandbox, is_unconfined) in [("commands unconfined", true), ("sandbox workspace-write", false)] {
            let mut seat = Seat::new(columns, 24);
            let facts = Facts {
                model: "fake/a-model-with-a-long-name".to_owned(),
                mode: PermissionMode::Auto,
                sandbox: sandbox.to_owned(),
                ..Facts::default()
            };
            seat.tell(Input::Facts(facts));
            let row = status(&mut seat);
            assert!(row.contains("auto"), "{columns}: {row}");
            assert_eq!(row.contains("· unconfined"), is_unconfined, "{columns} {sandbox}: {row}");
            // A script of the person's speaks behind that.
            seat.tell(Input::Status(vec!["model · 41k".to_owned()]));
            let row = status(&mut seat);
            let begins = if is_unconfined { "auto · unconfined · model" } else { "auto · model" };
            assert!(row.starts_with(begins), "{columns} {sandbox}: {row}");
        }
    }
}

#[test]
fn each_subagent_has_a_row_with_what_it_does_its_tokens_and_its_time() {
    let mut seat = at_work();
    let screen = seat.screen();
    let rows: Vec<&str> = screen.lines().filter(|row| row.contains('⇢')).map(str::trim).collect();
    expect![[r#"
        ⇢ explore  find the leak · grep "leak" · 12k tokens · 2 s
        ⇢ task  {"description":"count the files","prompt":"…","sub… · 800 tokens · 2 s"#]]
    .assert_eq(&rows.join("\n"));
    // On a narrow screen the work is cut, and never what it uses.
    seat.tell(Input::Resize(40, 24));
    assert!(seat.screen().contains("12k tokens"), "{}", seat.screen());
}

#[test]
fn the_panel_shows_what_one_did_and_stops_it_by_two_presses() {
    let mut seat = at_work();
    seat.control('t');
    assert!(seat.screen().contains("▸ explore: find the leak"), "{}", seat.screen());
    assert_eq!(seat.key(KeyCode::Enter), [Effect::Chosen(Purpose::Work, "ses_a".to_owned())]);
    assert!(seat.screen().contains("▸ explore"), "it is there again behind the page");
    seat.key(KeyCode::Down);
    assert_eq!(seat.control('x'), []);
    assert!(seat.screen().contains("again: stop it"), "{}", seat.screen());
    assert_eq!(seat.control('x'), [Effect::StopWork("ses_b".to_owned())]);
    assert!(seat.screen().contains("▸ make watch"), "{}", seat.screen());
    seat.control('x');
    assert_eq!(seat.control('x'), [Effect::StopWork("c3_2".to_owned())]);
    seat.control('t');
    assert!(!seat.screen().contains("At work"), "{}", seat.screen());
    let mut alone = Seat::new(80, 24);
    alone.control('t');
    assert!(alone.screen().contains("no todos, no subagents"), "{}", alone.screen());
}

#[test]
fn the_diff_of_an_edit_grows_while_its_arguments_arrive() {
    let mut told = work();
    let whole =
        json!({"path": "calc.py", "old_string": "a - b", "new_string": "a + b\n    # done\u{1b}[2J"}).to_string();
    let delta = |told: &mut Told, delta| {
        told.all.push(Published::Live(Arc::new(Live::ModelDelta { step: 3, attempt: 1, delta })));
    };
    delta(&mut told, Delta::CallBegan { index: 0, name: "edit".to_owned() });
    let mut seat = Seat::new(80, 24);
    hear(&mut seat, told);
    let mut shown = Vec::new();
    for piece in [&whole[..20], &whole[20..60], &whole[60..whole.len() - 2]] {
        let mut told = Told::default();
        delta(&mut told, Delta::CallInput { index: 0, json: piece.to_owned() });
        told.all.into_iter().for_each(|told| drop(seat.tell(Input::Heard(Box::new(told)))));
        let screen = seat.screen();
        let rows = screen.lines().skip_while(|row| !row.contains("… edit")).take_while(|row| !row.contains('─'));
        // Before each row stands whether it is final.
        shown.push(rows.map(|row| row.get(1..).unwrap_or_default().trim_end()).collect::<Vec<_>>().join("\n"));
    }
    expect![[r#"
        … edit calc.py

        … edit calc.py  +1 −1
          − a - b
          + a + b

        … edit calc.py  +2 −1
          − a - b
          + a + b
          +     # done\u{1b}[2J"#]]
    .assert_eq(&shown.join("\n\n"));
}

#[test]
fn a_theme_is_looked_at_in_its_list_and_auto_follows_the_terminal() {
    let mut seat = Seat::new(80, 24);
    seat.types("/theme");
    assert!(seat.key(KeyCode::Enter).contains(&Effect::Command { name: "theme".to_owned(), words: String::new() }));
    let item = |name: &str| Item { label: name.to_owned(), detail: String::new(), value: name.to_owned() };
    let items = vec![item("auto"), item("dark"), item("light")];
    seat.tell(Input::Choose { purpose: Purpose::Theme, title: "Theme".to_owned(), items });
    seat.waits(5_000);
    let tries = |name: &str| [Effect::TryTheme(Some(name.to_owned()))];
    assert_eq!(seat.key(KeyCode::Down), tries("dark"));
    assert_eq!(seat.key(KeyCode::Char('l')), tries("light"), "what is typed narrows the list");
    assert_eq!(seat.key(KeyCode::Esc), [Effect::TryTheme(None)], "the one from before is there again");
    seat.tell(Input::Theme(Box::new(Theme::dark())));
    seat.face.learn_background((255, 255, 255));
    assert_eq!(seat.face.theme, Theme::dark(), "it was chosen");
    seat.tell(Input::AutoTheme(Level::True));
    assert_eq!(seat.face.theme, Theme::light());
    seat.face.learn_background((0, 0, 0));
    assert_eq!(seat.face.theme, Theme::dark());
}
