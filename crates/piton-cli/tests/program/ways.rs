//! Keys and commands of a conversation, each used once, and what then stands on the screen.

use crate::chat::{A_WHILE, seat, shown, wait_for};
use crate::stage::{Ran, Stage, Terminal, until};
use serde_json::json;
use std::thread::sleep;

/// The last row: the status, which begins with the mode.
fn status(person: &Terminal) -> String {
    shown(person).trim_end().lines().last().unwrap_or_default().to_owned()
}

#[test]
fn shift_tab_goes_through_the_modes_and_around() {
    let stage = Stage::new(json!([{"text": "Hi."}]));
    let mut person = seat(&stage, &["--mode", "ask"]);
    wait_for(&person, "? keys");
    let goes_through = |person: &mut Terminal| {
        for mode in ["accept-edits", "plan", "auto", "ask"] {
            // Pressed at once behind the one before: what is told of that meanwhile takes none of them back.
            person.type_keys("\u{1b}[Z");
            until(mode, || status(person).starts_with(&format!("{mode} · ")));
        }
    };
    goes_through(&mut person);
    // And so in a session that is open, whose journal says it.
    person.type_keys("hello\r");
    wait_for(&person, "1 step");
    goes_through(&mut person);
    let modes = || {
        let journal = stage.journal();
        let changed = journal.iter().filter(|event| event["type"] == "settings_changed");
        changed.filter_map(|event| event["changed"]["mode"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    until("all of it is recorded", || modes().ends_with(&["accept-edits", "plan", "auto", "ask"].map(String::from)));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn the_screen_is_drawn_anew_where_one_is() {
    let stage = Stage::new(json!([{"text": "Hi."}]));
    let mut person = seat(&stage, &["hello there"]);
    wait_for(&person, "1 step");
    person.type_keys("a draft");
    wait_for(&person, "› a draft");
    let drawn = |person: &Terminal, words: &str| person.screen().matches(words).count();
    let before = drawn(&person, "› a draft");
    person.type_keys("\u{c}");
    until("the tail is drawn again", || drawn(&person, "› a draft") == before + 1);
    assert_eq!(shown(&person).matches("› a draft").count(), 1, "{}", shown(&person));
    // A page is drawn again, and not the rows that it stands over.
    person.type_keys("\u{3}/help\r");
    wait_for(&person, "keys and commands");
    let (before, tail) = (drawn(&person, "keys and commands"), drawn(&person, "? keys"));
    person.type_keys("\u{c}");
    until("the page is drawn again", || drawn(&person, "keys and commands") == before + 1);
    assert!(shown(&person).contains("keys and commands") && drawn(&person, "? keys") == tail, "{}", shown(&person));
    person.type_keys("q\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn a_note_is_a_line_of_the_instructions() {
    let stage = Stage::new(json!([{"text": "Hi."}])).with_files([("AGENTS.md", "# Rules")]);
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("# tests are in t/\r");
    wait_for(&person, "/AGENTS.md: it counts from the next session on");
    assert_eq!(stage.workspace.read("AGENTS.md"), "# Rules\n- tests are in t/\n");
    assert!(stage.provider.requests().is_empty(), "no model is asked for it");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    // Where there is none, it is made.
    let stage = Stage::new(json!([]));
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("#one\r");
    wait_for(&person, "/AGENTS.md");
    assert_eq!(stage.workspace.read("AGENTS.md"), "- one\n");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn each_command_that_opens_a_page_shows_what_it_names() {
    let stage = Stage::new(json!([{"text": "Hi."}]));
    let mut person = seat(&stage, &["hello there"]);
    wait_for(&person, "1 step");
    for (command, title, words) in [
        ("/help", "keys and commands", "KEYS"),
        ("/keys", "keys and commands", "Shift-Tab"),
        ("/tasks", "commands in the background", ""),
        ("/agents", "subagents", ""),
        ("/mcp", "MCP servers", "piton mcp add"),
        ("/permissions", "What you allowed with \"always\"", ""),
        ("/doctor", "this machine", ""),
    ] {
        person.type_keys(&format!("{command}\r"));
        wait_for(&person, title);
        assert!(shown(&person).contains(words), "{command}: {}", shown(&person));
        let text = shown(&person).lines().filter(|row| !row.trim().is_empty()).count();
        assert!(text > 1, "{command} is not empty: {}", shown(&person));
        person.type_keys("q");
        until("the page is gone", || !shown(&person).contains(title) && status(&person).contains("? keys"));
    }
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    let requests = stage.provider.requests();
    let asked = requests.iter().filter(|request| request.body["messages"].is_array()).count();
    assert_eq!(asked, 1, "none of them asked the model");
}

#[test]
fn each_command_that_changes_something_does_and_says_so() {
    let stage = Stage::new(json!([{"text": "Hi."}, {"text": "Again."}]));
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    for (command, words) in [
        ("/effort high", "effort high"),
        ("/effort much", "efforts: "),
        ("/mode sideways", "modes: ask, accept-edits, plan, auto"),
        ("/todo", "no todos"),
        ("/name T", "there is no session yet"),
        ("/fork", "there is no session yet"),
        ("/export", "there is nothing to export yet"),
        ("/resume", "there is no other session"),
    ] {
        person.type_keys(&format!("{command}\r"));
        wait_for(&person, words);
    }
    person.type_keys("/mode plan\r");
    until("it plans", || status(&person).starts_with("plan · "));
    person.type_keys("/mode ask\r");
    until("it asks", || status(&person).starts_with("ask · "));
    person.type_keys("hello\r");
    wait_for(&person, "1 step");
    assert_eq!(stage.provider.requests()[0].body["reasoning_effort"], "high");
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let listed = || Ran::of(stage.piton(&["session", "list", "--json"])).stdout;
    person.type_keys("/name The first of them\r");
    until("it has a title", || listed().contains("The first of them"));
    person.type_keys("/export out.md\r");
    wait_for(&person, "/out.md (");
    assert!(stage.workspace.read("out.md").contains("Hi."));
    // The session is another one from here on, with the same past.
    person.type_keys("/fork\r");
    until("there are two", || listed().lines().count() == 2);
    until("the copy is shown", || shown(&person).matches("Hi.").count() == 2);
    person.type_keys("go on\r");
    wait_for(&person, "Again.");
    until("it is over", || status(&person).contains("? keys"));
    let of_first = stage.journal_of(&id).iter().filter(|event| event["type"] == "turn_ended").count();
    assert_eq!(of_first, 1, "what is said now is said in the copy");
    person.type_keys("/resume\r");
    wait_for(&person, "Go on with");
    assert!(shown(&person).contains("The first of them"), "{}", shown(&person));
    sleep(A_WHILE);
    person.type_keys("\u{1b}");
    until("the list is gone", || !shown(&person).contains("type to narrow"));
    person.type_keys(&format!("/resume {id}\r"));
    until("it is the first again", || shown(&person).matches("Hi.").count() == 3);
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn a_hundred_thousand_lines_of_one_call_hold_up_nobody() {
    let call = json!({"tools": [{"name": "bash", "args": {"command": "seq 1 100000"}}]});
    let stage = Stage::new(json!([call, {"text": "Counted."}]));
    let mut person = seat(&stage, &["--yes", "--sandbox", "off"]);
    wait_for(&person, "? keys");
    person.type_keys("count\ra draft");
    wait_for(&person, "› a draft");
    wait_for(&person, "Counted.");
    wait_for(&person, "2 steps");
    assert!(person.bytes().len() < 100_000, "what is folded is not written: {}", person.bytes().len());
    assert!(shown(&person).contains("● bash seq 1 100000"), "{}", shown(&person));
    person.type_keys("\u{f}");
    wait_for(&person, "the last call");
    person.type_keys("G");
    until("the end of the page is shown", || shown(&person).lines().any(|row| row.trim() == "100000"));
    person.type_keys("q\u{3}\u{4}");
    assert_eq!(person.end(), 0);
}
