//! What a newcomer stumbled over in the terminal interface, point by point.

use crate::chat::{A_WHILE, face_of, seat, shown, wait_for};
use crate::stage::{Ran, Stage, is_alive, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Stdio;
use std::thread::sleep;

#[test]
fn a_command_that_was_running_when_piton_was_killed_is_shown_as_interrupted() {
    let command = "echo x >> began; until test -e go; do sleep 0.05; done; echo went-$((40+2))";
    let script = json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"text": "It went."}]);
    let stage = Stage::new(script);
    let mut person = seat(&stage, &["--yes", "wait for it"]);
    until("it runs", || stage.workspace.has("began"));
    kill(face_of(&person).unwrap(), Signal::KILL);
    person.end();
    let mut again = seat(&stage, &["--yes", "-c"]);
    wait_for(&again, "interrupted: /continue resumes, Esc ends the turn");
    wait_for(&again, "– bash echo x");
    let screen = shown(&again);
    assert!(screen.contains("interrupted: /contin"), "{screen}");
    assert!(!screen.contains("Esc stops"), "{screen}");
    // It is at rest: it is left without a question.
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
    let mut again = seat(&stage, &["--yes", "-c"]);
    wait_for(&again, "interrupted: /continue resumes");
    stage.workspace.write("go", "");
    again.type_keys("/continue\r");
    wait_for(&again, "It went.");
    wait_for(&again, "2 steps");
    assert_eq!(stage.workspace.read("began"), "x\n", "it ran once");
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("went-42"), "{told}");
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
}

#[test]
fn a_new_session_keeps_the_model_that_was_chosen() {
    let stage = Stage::new(json!([{"text": "One."}]));
    let mut person = seat(&stage, &["say one"]);
    wait_for(&person, "1 step");
    person.type_keys("/model openai-chat/other-model\r");
    wait_for(&person, " · other-model · ");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    // The person names no model here: it is the session's.
    let before = "stty rows 24 cols 90; ";
    let mut again = stage.terminal_behind(before, &["-c"]);
    wait_for(&again, " · other-model · ");
    again.type_keys("/new\r");
    wait_for(&again, "a new session begins");
    assert!(shown(&again).lines().rev().any(|row| row.contains(" · other-model · ")), "{}", shown(&again));
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
}

#[test]
fn the_prompt_takes_keys_before_the_key_of_the_model_is_there() {
    let stage = Stage::new(json!([{"text": "Heard."}]));
    let (asked, go) = (stage.home.path().join("asked"), stage.home.path().join("go"));
    let command =
        format!("touch {}; until [ -e {} ]; do sleep 0.05; done; echo sk-late", asked.display(), go.display());
    let url = stage.provider.url();
    let stage = stage.with_config(&format!(
        "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{url}/v1\"\nkey_command = \"{command}\"\n"
    ));
    let mut person = stage.terminal_behind("stty rows 24 cols 90; ", &["--model", "mine/m"]);
    until("the key is asked for", || asked.exists());
    person.type_keys("say something");
    wait_for(&person, "› say something");
    person.type_keys("\r");
    std::thread::sleep(A_WHILE);
    assert_eq!(stage.provider.requests().len(), 0, "the key is not there");
    std::fs::write(&go, "").unwrap();
    wait_for(&person, "Heard.");
    assert_eq!(stage.provider.requests()[0].header("authorization").unwrap(), "Bearer sk-late");
    wait_for(&person, "1 step");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn the_demo_that_is_over_says_so_and_what_comes_next() {
    let stage = Stage::new(json!([]));
    let mut demo = stage.piton(&["demo", "--dir", "."]);
    demo.env_remove("OPENAI_API_KEY").env_remove("OPENAI_BASE_URL").env_remove("ANTHROPIC_API_KEY");
    Ran::of(demo);
    let before = "stty rows 24 cols 90; unset OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_API_KEY; ";
    let mut person = stage.terminal_behind(before, &["-c"]);
    wait_for(&person, "a recording played its model");
    wait_for(&person, "/model switches to a real model");
    wait_for(&person, "? keys");
    person.type_keys("and now?\r");
    wait_for(&person, "That was the demo");
    let screen = shown(&person);
    assert!(screen.contains("piton auth login PROVIDER") && !screen.contains("cassette"), "{screen}");
    wait_for(&person, "? keys");
    person.type_keys("/new\r");
    wait_for(&person, "No model can be asked yet");
    person.type_keys("\u{1b}");
    until("the list is gone", || !shown(&person).contains("No model can be asked yet"));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn who_leaves_is_asked_what_becomes_of_commands_in_the_background() {
    let command = "echo $$ > pid; until test -e go; do sleep 0.05; done; touch went";
    let script = json!([
        {"tools": [{"name": "bash", "args": {"command": command, "background": true}}]},
        {"text": "It runs."}
    ]);
    let stage = Stage::new(script);
    let mut person = seat(&stage, &["--sandbox", "off", "--yes", "start it"]);
    wait_for(&person, "2 steps");
    wait_for(&person, "1 in background");
    person.type_keys("\u{4}");
    wait_for(&person, "1 task still runs in the background");
    sleep(A_WHILE);
    person.type_keys("\r");
    until("it stays", || !shown(&person).contains("still runs"));
    person.type_keys("/quit\r");
    wait_for(&person, "1 task still runs in the background");
    sleep(A_WHILE);
    person.type_keys("keep\r");
    assert_eq!(person.end(), 0);
    let pid: u32 = stage.workspace.read("pid").trim().parse().unwrap();
    assert!(is_alive(pid));
    stage.workspace.write("go", "");
    until("it went on", || stage.workspace.has("went"));
}

#[test]
fn a_message_of_another_client_is_not_put_into_this_prompt_when_the_turn_is_stopped() {
    let long = json!({"text": "word ".repeat(400), "delta_chars": 5, "delay_ms": 20});
    let stage = Stage::new(json!([long, {"text": "Mine, then."}]));
    let mut person = seat(&stage, &["go on and on"]);
    wait_for(&person, "word word");
    let mut other = stage.piton(&["run", "-c", "also this"]);
    other.stdout(Stdio::null()).stderr(std::fs::File::create(stage.home.path().join("other")).unwrap());
    let mut other = other.spawn().unwrap();
    wait_for(&person, "↳ at the next step: also this");
    person.type_keys("and mine\r");
    wait_for(&person, "↳ at the next step: and mine");
    person.type_keys("\u{1b}");
    wait_for(&person, "not sent to the model, since the turn was stopped: also this");
    wait_for(&person, "› and mine");
    until("nothing waits", || !shown(&person).contains('↳'));
    assert!(!other.wait().unwrap().success());
    // As the turn that was stopped, or as the message that was taken back: what comes first.
    let told = stage.home.read("other");
    assert!(told.contains("Stopped.") || told.contains("taken back"), "{told}");
    person.type_keys("\r");
    wait_for(&person, "Mine, then.");
    assert!(!stage.last_messages().iter().any(|message| message.to_string().contains("also this")));
    wait_for(&person, "? keys");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn a_message_that_waits_comes_back_when_somebody_else_stops_the_turn() {
    let long = json!({"text": "word ".repeat(400), "delta_chars": 5, "delay_ms": 20});
    let stage = Stage::new(json!([long, {"text": "Mine, then."}]));
    let mut person = seat(&stage, &["go on and on"]);
    wait_for(&person, "word word");
    person.type_keys("and mine\r");
    wait_for(&person, "↳ at the next step: and mine");
    Ran::of(stage.piton(&["session", "cancel", "last"])).expect_code(0);
    wait_for(&person, "the turn was stopped before your message was read");
    wait_for(&person, "› and mine");
    until("nothing waits", || !shown(&person).contains('↳'));
    person.type_keys("\r");
    wait_for(&person, "Mine, then.");
    wait_for(&person, "? keys");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn what_a_repository_brings_along_is_trusted_and_let_go_of_by_a_key() {
    let stage = Stage::new(json!([]));
    stage.workspace.write(".git/HEAD", "");
    stage.workspace.write(".piton/config.toml", "[limits]\nmax_steps = 1\n");
    let standing = || {
        let json: Value = serde_json::from_str(&Ran::of(stage.piton(&["trust", "--json"])).stdout).unwrap();
        json["items"][0]["standing"].as_str().unwrap().to_owned()
    };
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("/trust\r");
    wait_for(&person, "max_steps = 1");
    assert!(!shown(&person).contains('{'), "{}", shown(&person));
    sleep(A_WHILE);
    person.type_keys("t");
    until("it is trusted", || standing() == "trusted");
    wait_for(&person, "it counts from the next session on");
    stage.workspace.write(".piton/config.toml", "[limits]\nmax_steps = 2\n");
    person.type_keys("q/trust\r");
    wait_for(&person, "+max_steps = 2");
    assert!(shown(&person).contains("-max_steps = 1"), "{}", shown(&person));
    assert_eq!(standing(), "changed");
    sleep(A_WHILE);
    // It changes again while it is read: that form was not seen.
    stage.workspace.write(".piton/config.toml", "[limits]\nmax_steps = 3\n");
    person.type_keys("t");
    wait_for(&person, "+max_steps = 3");
    assert_eq!(standing(), "changed");
    person.type_keys("t");
    until("it is trusted", || standing() == "trusted");
    person.type_keys("u");
    until("it is not any more", || standing() == "unknown");
    person.type_keys("q");
    wait_for(&person, "has changed since it was shown");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn a_person_types_into_a_command_of_their_own_and_what_it_hides_is_on_no_record() {
    let stage = Stage::new(json!([{"text": "I see."}]));
    let mut person = seat(&stage, &["--sandbox", "off"]);
    wait_for(&person, "? keys");
    person.type_keys(
        "!read -p 'name? ' name; echo hello-$name; read -s -p 'password? ' word; echo; echo long-${#word}\r",
    );
    wait_for(&person, "│ name?");
    wait_for(&person, "types into it");
    // Until then keys are the prompt's.
    person.type_keys("w");
    wait_for(&person, "› w");
    person.type_keys("\u{15}\u{1c}");
    wait_for(&person, "your keys go to the command");
    person.type_keys("world\r");
    wait_for(&person, "│ name? world");
    wait_for(&person, "│ password?");
    person.type_keys("hunter22\r");
    wait_for(&person, "│ long-8");
    wait_for(&person, "? keys");
    let journal = serde_json::to_string(&stage.journal()).unwrap();
    let outcome =
        stage.journal().into_iter().rfind(|event| event["type"] == "call_settled").unwrap()["outcome"].clone();
    assert_eq!(outcome["metadata"]["typed"], "world\n", "{outcome}");
    assert!(!journal.contains("hunter22") && !shown(&person).contains("hunter22"), "{journal}");
    person.type_keys("what did I say?\r");
    wait_for(&person, "I see.");
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("the user typed into the command: world") && !told.contains("hunter22"), "{told}");
    wait_for(&person, "? keys");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn a_person_types_into_a_command_of_the_models_that_has_a_terminal() {
    let command = "read -p 'sure? ' answer; echo got-$answer";
    let ask = json!({"tools": [{"name": "bash", "args": {"command": command, "pty": true}}]});
    let stage = Stage::new(json!([ask, {"text": "Noted."}]));
    let mut person = seat(&stage, &["--sandbox", "off", "--yes", "go"]);
    wait_for(&person, "types into it");
    wait_for(&person, "│ sure?");
    person.type_keys("\u{1c}");
    wait_for(&person, "your keys go to the command");
    person.type_keys("no\u{7f}\u{7f}yes\r");
    wait_for(&person, "Noted.");
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("got-yes"), "{told}");
    wait_for(&person, "? keys");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    // Where nobody is there who could type, it is at the end of input.
    let stage = Stage::new(json!([ask, {"text": "Noted."}]));
    stage.run(&["--sandbox", "off", "go"]).expect_code(0);
    assert!(stage.last_messages().iter().any(|message| message.to_string().contains("got-")));
}

#[test]
fn a_terminal_that_understands_no_sequences_gets_none_and_the_conversation_works() {
    let ask = json!({"tools": [{"name": "bash", "args": {"command": "echo y > made"}}]});
    let stage = Stage::new(json!([ask, {"text": "It is **made**."}]));
    let args = ["--model", "openai-chat/test-model", "--mode", "ask", "--sandbox", "off"];
    let mut person = stage.terminal_behind("stty rows 24 cols 90; export TERM=dumb; ", &args);
    until("it is ready", || person.screen().contains("> "));
    person.type_keys("make it\r");
    until("it asks", || person.screen().contains("Question: "));
    sleep(A_WHILE);
    person.type_keys("y");
    until("it is done", || person.screen().contains("It is made.") && person.screen().contains("2 steps"));
    person.type_keys("/context\r");
    until("a page is told", || person.screen().contains("system prompt"));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    assert!(stage.workspace.has("made"));
    let bytes = String::from_utf8_lossy(&person.bytes()).into_owned();
    assert!(!bytes.contains('\u{1b}'), "{bytes:?}");
    assert!(!bytes.contains(['▣', '│', '⠋']), "{bytes}");
}

#[test]
fn colours_are_none_where_none_are_wanted() {
    let said = json!({"text": "It is **done**:\n\n```rust\nfn main() {}\n```"});
    let stage = Stage::new(json!([said, said]));
    let args = ["--model", "openai-chat/test-model", "say that it is done"];
    let colours = |env: &str| {
        let mut person = stage.terminal_behind(&format!("stty rows 24 cols 90; {env}"), &args);
        wait_for(&person, "1 step");
        person.type_keys("\u{4}");
        assert_eq!(person.end(), 0);
        let bytes = String::from_utf8_lossy(&person.bytes()).into_owned();
        let sets = |digits: &str| bytes.contains(&format!("\u{1b}[{digits}")) || bytes.contains(&format!(";{digits}"));
        (sets("38;2"), sets("38;5"), ["31m", "32m", "33m", "35m", "36m"].iter().any(|colour| bytes.contains(colour)))
    };
    // The terminal does not say which colour is behind the text: its own colours suit it.
    assert_eq!(colours("export NO_COLOR=1; "), (false, false, false));
    assert_eq!(colours("export COLORTERM=truecolor; "), (false, false, true));
}

#[test]
fn a_theme_is_chosen_from_a_list_kept_and_one_of_ones_own_is_hot() {
    let stage = Stage::new(json!([{"text": "It is `done`."}]));
    stage.home.write("themes/mine.toml", "base = \"ansi\"\naccent = \"#010203\"\n");
    let before = "stty rows 24 cols 90; export COLORTERM=truecolor; ";
    let args = ["--model", "openai-chat/test-model"];
    let mut person = stage.terminal_behind(before, &args);
    let has = |person: &crate::stage::Terminal, colour: &str| String::from_utf8_lossy(&person.bytes()).contains(colour);
    wait_for(&person, "? keys");
    person.type_keys("/theme\r");
    wait_for(&person, "▸ auto");
    sleep(A_WHILE);
    person.type_keys("mine");
    wait_for(&person, "▸ mine");
    until("it is looked at", || has(&person, "38;2;1;2;3"));
    person.type_keys("\r");
    wait_for(&person, "terminal.theme");
    assert!(stage.home.read("config.toml").contains("theme = \"mine\""), "{}", stage.home.read("config.toml"));
    assert!(!has(&person, "38;2;9;8;7"));
    // Saved, it is on the screen.
    stage.home.write("themes/mine.toml", "base = \"ansi\"\naccent = \"#090807\"\n");
    until("it is drawn anew", || {
        person.type_keys("x\u{7f}");
        has(&person, "38;2;9;8;7")
    });
    person.type_keys("/theme nothing\r");
    wait_for(&person, "there is no theme `nothing`");
    person.type_keys("/theme auto\r");
    wait_for(&person, "auto");
    until("it is kept", || stage.home.read("config.toml").contains("theme = \"auto\""));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    // The next conversation begins with it.
    stage.home.write("config.toml", stage.home.read("config.toml").replace("\"auto\"", "\"mine\""));
    let mut again = stage.terminal_behind(before, &args);
    wait_for(&again, "? keys");
    assert!(has(&again, "38;2;9;8;7"));
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
}

#[test]
fn a_subagent_and_a_command_are_looked_at_and_stopped_from_the_panel() {
    let task = json!({"description": "wait", "prompt": "wait for it", "subagent_type": "general"});
    let script = json!([
        {"tools": [
            {"name": "bash", "args": {"command": "echo printed-$((40+2)); sleep 1000", "background": true}},
            {"name": "task", "args": task},
        ]},
        {"of": "wait for it", "tools": [{"name": "bash", "args": {"command": "echo x > began; sleep 1000"}}]},
        {"text": "It was stopped."},
        {"text": "And the command."},
    ]);
    let stage = Stage::new(script);
    let mut person = seat(&stage, &["--yes", "--sandbox", "off", "go"]);
    until("it works", || stage.workspace.has("began"));
    wait_for(&person, "⇢ ");
    wait_for(&person, " tokens · ");
    wait_for(&person, "1 in background");
    person.type_keys("\u{14}");
    wait_for(&person, "At work");
    let list = shown(&person);
    assert!(list.contains("▸ task: ") && list.contains("\n  echo printed"), "{list}");
    person.type_keys("\r");
    wait_for(&person, "what the subagent did");
    wait_for(&person, "wait for it");
    person.type_keys("q");
    wait_for(&person, "At work");
    person.type_keys("\u{18}");
    wait_for(&person, "again: stop it");
    person.type_keys("\u{18}");
    wait_for(&person, "▸ echo printed");
    person.type_keys("\r");
    wait_for(&person, "printed-42");
    person.type_keys("q");
    wait_for(&person, "At work");
    person.type_keys("\u{18}\u{18}");
    wait_for(&person, "c1_0 ended");
    person.type_keys("\u{1b}");
    until("its end is known", || !shown(&person).contains(" in background"));
    until("it rests", || shown(&person).contains("? keys"));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}
