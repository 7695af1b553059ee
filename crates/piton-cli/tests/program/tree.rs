//! A session and its subagents as one tree: spoken to, heard, and bounded together.

use crate::stage::{Ran, Stage, until};
use crate::steer::Talk;
use serde_json::{Value, json};

fn task(prompt: &str) -> Value {
    json!({"name": "task", "args": {"description": "a part", "prompt": prompt, "subagent_type": "general"}})
}

/// A command that runs until the test lets it go on.
fn gate(of: &str) -> Value {
    json!({"of": of, "tools": [{"name": "bash", "args": {"command": "touch started; until [ -e go ]; do sleep 0.02; done"}}]})
}

fn child_of(lines: &[Value]) -> Option<String> {
    let delegated = lines.iter().find(|line| line["type"] == "delegated")?;
    Some(delegated["child"].as_str()?.to_owned())
}

fn of_child(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line.get("of").is_some()).collect()
}

#[test]
fn a_subagent_is_steered_and_what_waits_for_it_is_listed_changed_moved_and_taken_back() {
    let stage = Stage::new(json!([
        {"tools": [task("dig")]}, gate("dig"), {"of": "dig", "text": "dug as told"}, {"text": "done"},
    ]));
    let mut talk = Talk::new(&stage, &["go"]);
    until("the command runs", || stage.workspace.has("started"));
    let child = child_of(&talk.lines()).unwrap();
    let say = |talk: &mut Talk<'_>, mut line: Value| {
        line["session"] = json!(child);
        talk.say(line);
    };
    for (id, words) in [("m1", "first words"), ("m2", "second words"), ("m3", "third words"), ("m4", "fourth words")] {
        say(&mut talk, json!({"do": "prompt", "text": words, "message": id}));
    }
    until("all are heard", || talk.count("accepted") == 4);
    say(&mut talk, json!({"do": "look"}));
    until("they are listed", || talk.count("seen") == 1);
    let queue =
        |talk: &Talk<'_>| talk.lines().into_iter().rfind(|line| line["type"] == "seen").unwrap()["queue"].clone();
    assert_eq!(queue(&talk), json!(["m1", "m2", "m3", "m4"]));
    say(&mut talk, json!({"do": "move", "message": "m3", "before": "m1"}));
    say(&mut talk, json!({"do": "unqueue", "message": "m2"}));
    say(&mut talk, json!({"do": "prompt", "text": "changed words", "message": "m5", "replaces": "m1"}));
    until("all is obeyed", || talk.count("accepted") == 5 && talk.count("moved") == 1 && talk.count("unqueued") == 1);
    say(&mut talk, json!({"do": "look"}));
    until("they are listed", || talk.count("seen") == 2);
    assert_eq!(queue(&talk), json!(["m3", "m5", "m4"]));
    // It has one turn.
    say(&mut talk, json!({"do": "prompt", "text": "later", "delivery": "follow_up"}));
    say(&mut talk, json!({"do": "move", "message": "m2"}));
    until("that is refused", || talk.count("input_error") == 2);
    let errors: Vec<Value> = talk.lines().into_iter().filter(|line| line["type"] == "input_error").collect();
    assert!(errors[0]["error"].as_str().unwrap().contains("the delivery `steer`"), "{errors:?}");
    assert!(errors[1]["error"].as_str().unwrap().contains("already been taken back"), "{errors:?}");
    stage.workspace.write("go", "");
    assert_eq!(talk.end(), 0);
    assert_eq!(talk.results(), [("completed".to_owned(), "done".to_owned())]);
    let told = stage.provider.requests()[2].body["messages"].to_string();
    let at = |words: &str| told.find(words).unwrap_or_else(|| panic!("{words}: {told}"));
    assert!(at("third words") < at("changed words") && at("changed words") < at("fourth words"), "in one step: {told}");
    assert!(!told.contains("first words") && !told.contains("second words"), "{told}");
    assert!(
        !stage.provider.requests()[3].body["messages"].to_string().contains("third words"),
        "its caller heard none of it"
    );
}

#[test]
fn the_tree_is_heard_in_one_stream_and_each_line_of_a_subagent_says_whose_it_is() {
    let script = json!([{"tools": [task("dig")]}, gate("dig"), {"of": "dig", "text": "dug"}, {"text": "done"}]);
    let stage = Stage::new(script);
    let mut talk = Talk::new(&stage, &["--tree", "go"]);
    until("the command runs", || stage.workspace.has("started"));
    // As another process hears it.
    let child = child_of(&talk.lines()).unwrap();
    let root =
        talk.lines().iter().find(|line| line["type"] == "opened").unwrap()["session"].as_str().unwrap().to_owned();
    let follow = |more: &[&str]| {
        let mut follow = stage.piton(&[&["session", "follow", &root, "--tree"], more].concat());
        follow.stdin(std::process::Stdio::null());
        follow
    };
    let log = std::fs::File::create(stage.home.path().join("followed")).unwrap();
    let mut live =
        follow(&["--format", "stream-json"]).stdout(log).stderr(std::process::Stdio::null()).spawn().unwrap();
    until("it is followed", || stage.home.read("followed").contains(r#""of":{"session""#));
    stage.workspace.write("go", "");
    assert_eq!(talk.end(), 0);
    live.wait().unwrap();
    let journal = stage.journal_of(&child);
    let parse =
        |text: &str| -> Vec<Value> { text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect() };
    let alone = parse(&Ran::of(follow(&["--format", "stream-json"])).expect_code(0).stdout);
    for (how, lines) in [("run", talk.lines()), ("followed", parse(&stage.home.read("followed"))), ("journal", alone)] {
        let records = of_child(&lines).into_iter().filter(|line| line.get("at_ms").is_some());
        let seqs: Vec<u64> = records.clone().map(|line| line["seq"].as_u64().unwrap()).collect();
        let all: Vec<u64> = journal.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, all, "{how}: every record once and in order");
        for line in of_child(&lines) {
            assert_eq!(line["of"], json!({"session": child, "call": "c1_0"}), "{how}");
        }
        let at = |is_it: &dyn Fn(&Value) -> bool| lines.iter().rposition(is_it).unwrap();
        let last = at(&|line| line.get("of").is_some());
        let settled = at(&|line| line["type"] == "call_settled" && line.get("of").is_none());
        assert!(last < settled, "{how}: it has said everything when its call is settled");
    }
    let opened = talk.lines().into_iter().find(|line| line["type"] == "child_opened").unwrap();
    let said = json!({"type": "child_opened", "session": child, "call": "c1_0", "agent": "general", "title": "a part"});
    assert_eq!(opened, said);
    // Without it, and in no other format.
    let stage = Stage::new(json!([{"tools": [task("dig")]}, {"of": "dig", "text": "dug"}, {"text": "done"}]));
    let plain = stage.run(&["go"]).expect_code(0).events();
    assert!(of_child(&plain).is_empty() && plain.iter().any(|line| line["type"] == "child_opened"));
    Ran::of(stage.piton(&["run", "--tree", "go"])).expect_code(1).expect_said(&["--tree needs --format stream-json"]);
}

#[test]
fn the_limit_of_steps_is_one_for_all_and_the_last_is_the_callers() {
    let look = |of: &'static str| move |number: u32| json!({"of": of, "tools": [{"name": "glob", "args": {"pattern": format!("*.{number}")}}]});
    let calls = json!({"tools": [task("first hole"), task("second pit")]});
    let looks = (1..9).map(look("first hole")).chain((1..9).map(look("second pit")));
    let script: Value = [calls, json!({"text": "as far as they came"})].into_iter().chain(looks).collect();
    let stage = Stage::new(script);
    let ran = stage.run(&["--max-steps", "8", "go"]).expect_code(4);
    assert_eq!(stage.provider.requests().len(), 8, "all together");
    assert_eq!(ran.result()["text"], "as far as they came");
    for outcome in ran.outcomes() {
        let text = outcome["text"].as_str().unwrap();
        let words = "max steps: the limit of 8 steps, which counts those of subagents, is reached";
        assert!(outcome["status"] == "failed" && text.contains(words), "{outcome}");
    }
    let steps = ran.outcomes().iter().map(|outcome| outcome["delegated"]["steps"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(steps, 6, "a step that was refused does not count");
}

#[test]
fn the_clock_of_a_turn_stops_its_subagents() {
    let stage = Stage::new(json!([{"tools": [task("dig")]}, gate("dig"), {"text": "never"}]));
    let ran = stage.run(&["--max-time", "2", "go"]);
    assert_eq!((ran.code, ran.end().as_str()), (6, "budget"), "{}", ran.stderr);
    assert_eq!(ran.outcomes()[0]["status"], "cancelled");
    assert_eq!(stage.provider.requests().len(), 2);
}

#[test]
fn a_turn_that_is_taken_back_takes_back_who_was_called_in_it() {
    let stage =
        Stage::new(json!([{"tools": [task("dig")]}, {"of": "dig", "text": "dug"}, {"text": "done", "repeat": true}]));
    stage.run(&["go"]).expect_code(0);
    let shown = |args: &[&str]| Ran::of(stage.piton(&[&["session"], args].concat())).expect_code(0).stdout;
    assert!(shown(&["agents", "last"]).contains("completed  1 step"), "{}", shown(&["agents", "last"]));
    Ran::of(stage.piton(&["undo"])).expect_code(0);
    assert!(shown(&["agents", "last"]).contains("completed, taken back"), "{}", shown(&["agents", "last"]));
    assert!(shown(&["agents", "last", "--json"]).contains(r#""taken_back":true"#));
    let tree = shown(&["tree", "last"]);
    assert!(tree.lines().last().unwrap().ends_with(", taken back"), "{tree}");
    Ran::of(stage.piton(&["redo"])).expect_code(0);
    assert!(!shown(&["agents", "last"]).contains("taken back"));
}
