//! `session fork` and `session tree`.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};

#[test]
fn a_fork_goes_on_from_where_the_session_was_and_leaves_it_alone() {
    let stage = Stage::new(json!([{"text": "first"}, {"text": "second"}, {"text": "in the fork"}]));
    stage.run(&["one"]).expect_code(0);
    stage.run(&["--continue", "two"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();

    let tree = Ran::of(stage.piton(&["session", "tree", &id])).expect_code(0);
    let lines: Vec<&str> = tree.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", tree.stdout);
    let at = lines[1].split(['[', ']']).nth(1).unwrap();

    let fork = Ran::of(stage.piton(&["session", "fork", &id, "--at", at])).expect_code(0).stdout.trim().to_owned();
    Ran::of(stage.run_command(&["--resume", &fork, "another two"])).expect_code(0);
    let said: Vec<_> = stage.last_messages().iter().filter(|message| message["role"] != "system").cloned().collect();
    assert_eq!(said.len(), 3, "one, first, another two: {said:?}");
    assert_eq!(said[1]["content"], "first");
    let old = Ran::of(stage.piton(&["session", "tree", &id])).expect_code(0);
    assert_eq!(old.stdout, tree.stdout);
    let new = Ran::of(stage.piton(&["session", "tree", &fork])).expect_code(0);
    assert!(new.stdout.contains(&format!("forked from {id} at {at}")), "{}", new.stdout);
}

#[test]
fn a_fork_begins_where_a_turn_has_ended_or_not_at_all() {
    let stage = Stage::new(json!([{"text": "first"}]));
    stage.run(&["one"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let ran = Ran::of(stage.piton(&["session", "fork", &id, "--at", "4"]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot fork at event 4"), "{}", ran.stderr);
    let sessions = std::fs::read_dir(stage.home.path().join("data/sessions")).unwrap();
    assert_eq!(sessions.count(), 1, "nothing was made");
}

/// The subagents that calls of this session were given to.
fn children(stage: &Stage, id: &str) -> Vec<String> {
    let called = stage.journal_of(id).into_iter().filter(|event| event["type"] == "delegated");
    called.map(|event| event["child"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_fork_has_the_subagents_of_the_session_as_its_own_and_goes_on_with_them_when_that_is_gone() {
    let call = |agent: &str, prompt: &str| json!({"tools": [{"name": "task", "args": {"description": prompt, "prompt": prompt, "subagent_type": agent}}]});
    let script = json!([
        call("lead", "lead it"),
        {"of": "lead it", "tools": call("general", "dig deep")["tools"]},
        {"of": "dig deep", "tools": [{"name": "bash", "args": {"command": "echo dug >> dug"}}]},
        {"of": "dig deep", "text": "Gold at five feet."},
        {"of": "lead it", "text": "It is dug."},
        {"text": "Done."},
        {"text": "Later."},
    ]);
    let stage = Stage::new(script);
    stage.home.write("agents/lead.md", "---\nname: lead\ndescription: Leads\ntools: Task, Bash\n---\nYou lead.");
    let id = stage.run(&["go"]).expect_code(0).result()["session"].as_str().unwrap().to_owned();
    let forked = Ran::of(stage.piton(&["session", "fork", &id])).expect_code(0);
    let fork = forked.stdout.trim().to_owned();
    let (old_lead, lead) = (children(&stage, &id).remove(0), children(&stage, &fork).remove(0));
    let (old_deep, deep) = (children(&stage, &old_lead).remove(0), children(&stage, &lead).remove(0));
    assert!(lead != old_lead && deep != old_deep, "each has an id of its own");
    for (copy, caller) in [(&lead, &fork), (&deep, &lead)] {
        let events = stage.journal_of(copy);
        assert_eq!(events[0]["parent"]["session"].as_str(), Some(caller.as_str()), "{}", events[0]);
        Ran::of(stage.piton(&["session", "verify", copy])).expect_code(0);
    }
    let mut copied: Vec<Value> = [&fork, &lead].into_iter().flat_map(|id| stage.journal_of(id)).collect();
    // By which rules a turn was run stays as it was.
    copied.iter_mut().for_each(|event| drop(event.as_object_mut().unwrap().remove("policy")));
    let told = json!(copied).to_string();
    assert!(!told.contains(&old_lead) && !told.contains(&old_deep), "nothing refers to the original's: {told}");
    // What the session does from here on is not the fork's.
    stage.run(&["--resume", &id, "and?"]).expect_code(0);
    Ran::of(stage.piton(&["session", "rm", &id])).expect_code(0);
    Ran::of(stage.piton(&["session", "trash", "empty", "--yes"]));
    assert!(!stage.home.path().join("data/sessions").join(&old_deep).exists());
    let shown = Ran::of(stage.piton(&["session", "show", &deep])).expect_code(0);
    assert!(shown.stdout.contains("Gold at five feet."), "{}", shown.stdout);
    let tree = Ran::of(stage.piton(&["session", "agents", &fork])).expect_code(0);
    assert!(tree.stdout.contains(&lead) && tree.stdout.contains(&deep), "{}", tree.stdout);
    let again = json!({"tools": [{"name": "task", "args": {"description": "ask", "prompt": "what was it?", "task_id": lead, "subagent_type": "lead"}}]});
    let script = json!([again, {"of": "lead it", "text": "It was gold."}, {"text": "Gold, it says."}]);
    let stage = Stage { provider: piton_testkit::FakeProvider::start(script), ..stage };
    let ran = stage.run(&["--resume", &fork, "ask again"]).expect_code(0);
    assert_eq!(ran.result()["text"], "Gold, it says.");
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("It was gold."), "{}", ran.outcomes()[0]);
    let requests = stage.provider.requests();
    let asked = requests[1].body.to_string();
    assert!(
        asked.contains("lead it") && asked.contains("Gold at five feet.") && asked.contains("what was it?"),
        "{asked}"
    );
    assert_eq!(stage.workspace.read("dug"), "dug\n", "no command of the original's runs for the fork");
}

#[test]
fn a_fork_has_only_what_its_subagents_had_come_to_where_it_begins() {
    let call = |more: Value| {
        let mut args = json!({"description": "ask", "prompt": "the first question", "subagent_type": "general"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"tools": [{"name": "task", "args": args}]})
    };
    let stage = Stage::new(json!([call(json!({})), {"of": "the first question", "text": "One."}, {"text": "first"}]));
    let id = stage.run(&["go"]).expect_code(0).result()["session"].as_str().unwrap().to_owned();
    let child = children(&stage, &id).remove(0);
    let end = stage.journal_of(&id).iter().rev().find(|event| event["type"] == "turn_ended").unwrap()["seq"].clone();
    let more = call(json!({"prompt": "the second question", "task_id": child}));
    let script = json!([more, {"of": "the first question", "text": "Two."}, {"text": "second"}]);
    let stage = Stage { provider: piton_testkit::FakeProvider::start(script), ..stage };
    stage.run(&["--resume", &id, "again"]).expect_code(0);
    let fork = |args: &[&str]| {
        let forked = Ran::of(stage.piton(&[&["session", "fork", &id], args].concat())).expect_code(0);
        children(&stage, forked.stdout.trim())
    };
    let words = |child: &str| json!(stage.journal_of(child)).to_string();
    let early = fork(&["--at", &end.to_string()]);
    assert!(words(&early[0]).contains("One.") && !words(&early[0]).contains("the second question"), "{early:?}");
    let late = fork(&[]);
    assert_eq!(late[0], late[1], "it is the same one in both calls");
    assert!(words(&late[0]).contains("the second question") && words(&late[0]).contains("Two."));
}
