//! Subagents: a call that a session of its own answers, begun once, gone on with after a kill, stopped with its caller, paid from
//! one budget.

use crate::stage::{Ran, Stage, descendants, is_alive, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn task(prompts: &[&str]) -> Value {
    let call = |prompt: &&str| json!({"name": "task", "args": {"description": "a part", "prompt": prompt, "subagent_type": "general"}});
    json!({"tools": prompts.iter().map(call).collect::<Vec<_>>()})
}

fn bash(of: &str, command: &str) -> Value {
    json!({"of": of, "tools": [{"name": "bash", "args": {"command": command}}]})
}

/// The sessions of subagents, as their caller's journal has them.
fn children(events: &[Value]) -> Vec<String> {
    let begun = events.iter().filter(|event| event["type"] == "delegated");
    begun.map(|event| event["child"].as_str().unwrap().to_owned()).collect()
}

fn kinds(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

#[test]
fn a_subagent_works_in_a_session_of_its_own_and_answers_with_its_last_words() {
    let mut call = task(&["count the lines"]);
    call["usage"] = json!({"input": 40, "output": 4});
    let stage = Stage::new(json!([
        call,
        {"of": "count the lines", "tools": [{"name": "read", "args": {"path": "a.txt"}}], "usage": {"input": 100, "output": 10}},
        {"of": "count the lines", "text": "There are two.", "usage": {"input": 200, "output": 20}},
        {"text": "Two lines.", "usage": {"input": 50, "output": 5}},
    ]))
    .with_files([("a.txt", "one\ntwo\n")]);
    let ran = stage.run(&["how many lines?"]).expect_code(0);
    let [outcome] = &ran.outcomes()[..] else { panic!("one call: {:?}", ran.outcomes()) };
    let text = outcome["text"].as_str().unwrap();
    let child = children(&ran.events()).remove(0);
    assert_eq!(text, format!("There are two.\n\n[task_id: {child}]"));
    let requests = stage.provider.requests();
    let first = requests[1].body["messages"].to_string();
    assert!(first.contains("count the lines") && !first.contains("how many lines"), "it sees its own task only");
    assert!(first.contains("You are a subagent"), "{first}");
    let offered = requests[1].body["tools"].to_string();
    assert!(!offered.contains("\"task\""), "it calls no others unless it is granted that");
    assert!(requests[0].body["tools"].to_string().contains("\"task\""));
    // What it used is used by its caller, in the result and in what a session cost.
    assert_eq!(ran.result()["spent"]["usage"]["input_tokens"], 40 + 100 + 200 + 50);
    assert_eq!(ran.result()["spent"]["unpriced_calls"], 4);
    let cost = Ran::of(stage.piton(&["session", "cost", "last", "--json"])).events().remove(0);
    let worked = &cost["turns"][0]["subagents"][0];
    assert_eq!((&worked["call"], &worked["session"]), (&json!("c1_0"), &json!(child)));
    assert_eq!((&worked["usage"]["input_tokens"], &cost["usage"]["input_tokens"]), (&json!(300), &json!(390)));
    Ran::of(stage.piton(&["session", "cost", "last"]))
        .expect_code(0)
        .expect_stdout(&["  task general: a part  300 tokens in, 30 out"]);
    let listed = |args: &[&str]| Ran::of(stage.piton(&[&["session", "list", "--json"], args].concat())).events();
    assert_eq!((listed(&[]).len(), listed(&["--tree"]).len()), (1, 2));
    let tree = Ran::of(stage.piton(&["session", "tree", "last"])).expect_code(0);
    assert!(tree.stdout.contains("c1_0  general") && tree.stdout.contains(&child), "{}", tree.stdout);
    Ran::of(stage.piton(&["session", "tree", &child])).expect_code(0).expect_stdout(&["subagent of ses_"]);
    let own = stage.journal_of(&child);
    assert_eq!(own[0]["parent"]["call"], "c1_0");
}

#[test]
fn after_a_kill_a_subagent_goes_on_where_it_was_and_no_command_runs_twice() {
    let stage = Stage::new(json!([
        task(&["alpha work", "beta work"]),
        bash("alpha work", "echo a >> ran; until [ -e go ]; do sleep 0.02; done; echo A"),
        bash("beta work", "echo b >> ran; until [ -e go ]; do sleep 0.02; done; echo B"),
        {"of": "alpha work", "text": "alpha is done"},
        {"of": "beta work", "text": "beta is done"},
        {"text": "both are done"},
    ]));
    let mut child = stage.start(&["go"]);
    until("both commands run", || stage.workspace.has("ran") && stage.workspace.read("ran").lines().count() == 2);
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = stage.run(&["--continue"]).expect_code(0);
    assert_eq!(ran.result()["result"], "both are done");
    let mut lines: Vec<String> = stage.workspace.read("ran").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a", "b"], "each ran once");
    let texts: Vec<String> = ran
        .outcomes()
        .iter()
        .map(|outcome| outcome["text"].as_str().unwrap().lines().next().unwrap().to_owned())
        .collect();
    assert_eq!(texts.len(), 2);
    let listed = Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events();
    assert_eq!(listed.len(), 3, "the same two sessions, and their caller");
    let root = listed.iter().find(|session| session["parent"].is_null()).unwrap()["id"].as_str().unwrap().to_owned();
    let events = stage.journal_of(&root);
    assert_eq!(kinds(&events, "delegated"), 2, "nobody is called twice");
    let answers = stage.provider.requests().last().unwrap().body["messages"].to_string();
    let (alpha, beta) = (answers.find("alpha is done").unwrap(), answers.find("beta is done").unwrap());
    assert!(alpha < beta, "answers stand in the order of the calls");
    for child in children(&events) {
        assert_eq!(kinds(&stage.journal_of(&child), "call_started"), 1);
    }
}

#[test]
fn a_cancel_ends_the_commands_of_subagents_and_says_what_they_had_said() {
    let stage = Stage::new(json!([
        task(&["long work"]),
        {"of": "long work", "text": "I begin.", "tools": [{"name": "bash", "args": {"command": "touch begun; sleep 987654"}}]},
        {"text": "never asked"},
    ]));
    let mut child = stage.start(&["go"]);
    until("its command runs", || stage.workspace.has("begun"));
    let below = descendants(child.id());
    kill(child.id(), Signal::INT);
    child.wait().unwrap();
    until("all processes are gone", || below.iter().all(|pid| !is_alive(*pid)));
    let listed = Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events();
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|session| session["last_end"] == "canceled"), "{listed:?}");
    assert_eq!(stage.provider.requests().len(), 2, "nobody is asked after that");
    let root = listed.iter().find(|session| session["parent"].is_null()).unwrap();
    let events = stage.journal_of(root["id"].as_str().unwrap());
    let settled = events.iter().find(|event| event["type"] == "call_settled").unwrap();
    assert_eq!(settled["outcome"]["title"], "task general: a part (not finished: canceled)");
}

#[test]
fn the_budget_is_one_for_all() {
    let spend = |of: &str| json!({"of": of, "text": "done", "usage": {"input": 60_000, "output": 10}});
    let stage = Stage::new(json!([
        task(&["first part"]),
        spend("first part"),
        task(&["second part"]),
        spend("second part"),
        {"text": "over"},
    ]));
    let ran = stage.run(&["--max-tokens", "50000", "go"]);
    assert_eq!(ran.end(), "budget", "what a subagent used counts: {}", ran.stdout);
    assert_eq!(stage.provider.requests().len(), 2);
}

#[test]
fn a_conversation_with_a_subagent_goes_on_by_its_task_id_and_nobody_elses() {
    let stage = Stage::new(json!([
        task(&["remember seven"]),
        {"of": "remember seven", "text": "I do."},
        {"text": "ok"},
        {"tools": [{"name": "task", "args": {"description": "ask", "prompt": "which number?", "task_id": "TASK"}}]},
        {"of": "remember seven", "text": "Seven."},
        {"text": "It was seven."},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    let child = children(&ran.events()).remove(0);
    let foreign = stage.run(&["--continue", "again"]).expect_code(0);
    let text = foreign.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("no subagent of this session has that task_id"), "{text}");
    assert!(!child.is_empty());
}

#[test]
fn what_a_subagent_asks_is_asked_at_the_callers_terminal() {
    let stage = Stage::new(json!([
        task(&["write it"]),
        {"of": "write it", "tools": [{"name": "bash", "args": {"command": "echo written > out.txt"}}]},
        {"of": "write it", "text": "It is written."},
        {"text": "All is done."},
    ]));
    let model = format!("{}/test-model", "openai-chat");
    let mut terminal =
        stage.terminal(&["run", "--mode", "ask", "--sandbox", "off", "--model", &model, "have it written"]);
    until("the question", || terminal.screen().contains("Asked by the subagent general (a part)"));
    assert!(terminal.screen().contains("echo written > out.txt"), "{}", terminal.screen());
    terminal.type_line("y");
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
    assert_eq!(stage.workspace.read("out.txt"), "written\n");
    assert!(terminal.screen().contains("All is done."), "{}", terminal.screen());
}

#[test]
fn who_explores_changes_nothing_and_an_agent_that_is_not_there_is_named() {
    let call = |agent: &str| json!({"tools": [{"name": "task", "args": {"description": "look", "prompt": "look around", "subagent_type": agent}}]});
    let stage = Stage::new(json!([
        call("explore"),
        {"of": "look around", "tools": [
            {"name": "write", "args": {"path": "x", "content": "x"}},
            {"name": "bash", "args": {"command": "rm -f a.txt"}},
        ]},
        {"of": "look around", "text": "I could not."},
        call("nobody"),
        {"text": "done"},
    ]))
    .with_files([("a.txt", "kept\n")]);
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(stage.workspace.has("a.txt") && !stage.workspace.has("x"));
    let [explored, nobody] = &ran.outcomes()[..] else { panic!("two calls") };
    assert!(explored["text"].as_str().unwrap().starts_with("I could not."));
    assert!(nobody["text"].as_str().unwrap().contains("there is no agent nobody. The agents are: explore, general."));
}

const REVIEWER: &str =
    "---\nname: reviewer\ndescription: Reviews: strictly\ntools: Read, Grep\n---\nYou review strictly.\n";

#[test]
fn an_agent_of_the_repository_counts_once_it_is_trusted_and_has_its_own_words_and_tools() {
    let script = json!([
        {"tools": [{"name": "task", "args": {"description": "look", "prompt": "look at it", "subagent_type": "reviewer"}}]},
        {"of": "look at it", "text": "It is good."},
        {"text": "done", "repeat": true},
    ]);
    let files = [(".claude/agents/team/reviewer.md", REVIEWER), (".claude/agents/broken.md", "---\nname: [\n---\n")];
    let stage = Stage::new(script).with_files(files);
    stage.run(&["go"]).expect_code(0).expect_said(&[
        "1 agent of this repository is not used",
        "reviewer",
        "broken.md is left out: its front matter is no YAML",
    ]);
    let offered = |stage: &Stage| stage.provider.requests()[0].body["tools"].to_string();
    assert!(!offered(&stage).contains("reviewer"), "an agent that is not trusted is not offered");
    let listed = Ran::of(stage.piton(&["agent"])).expect_code(0);
    assert!(listed.stdout.contains("reviewer             not trusted"), "{}", listed.stdout);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_said(&["reviewer.md", ", an agent"]);
    Ran::of(stage.piton(&["agent", "reviewer"])).expect_code(0).expect_stdout(&[
        "in force",
        "read, grep",
        "You review strictly.",
    ]);
    Ran::of(stage.piton(&["agent", "nobody"])).expect_code(1).expect_said(&["explore, general"]);
}

#[test]
fn an_agent_that_is_trusted_for_one_run_is_called_with_its_words_and_tools() {
    let stage = Stage::new(json!([
        {"tools": [{"name": "task", "args": {"description": "look", "prompt": "look at it", "subagent_type": "reviewer"}}]},
        {"of": "look at it", "text": "It is good."},
        {"text": "done"},
    ]))
    .with_files([(".claude/agents/reviewer.md", REVIEWER)]);
    let ran = stage.run(&["--trust", "go"]).expect_code(0);
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().starts_with("It is good."));
    let requests = stage.provider.requests();
    assert!(requests[0].body["tools"].to_string().contains("- reviewer: Reviews: strictly"));
    let own = &requests[1].body;
    assert!(own["messages"].to_string().contains("You review strictly."));
    let names: Vec<&str> =
        own["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["grep", "read"]);
}

#[test]
fn an_agent_lifts_nothing_that_its_caller_is_forbidden() {
    let asks = "---\nname: asker\npermission:\n  bash:\n    \"*\": ask\n    \"touch *\": ask\n---\nYou ask.\n";
    let stage = Stage::new(json!([
        {"tools": [{"name": "task", "args": {"description": "try", "prompt": "try it", "subagent_type": "asker"}}]},
        {"of": "try it", "tools": [{"name": "bash", "args": {"command": "touch x"}}]},
        {"of": "try it", "text": "It is forbidden."},
        {"text": "done"},
    ]))
    .with_files([(".piton/agents/asker.md", asks)]);
    let ran = stage.run(&["--trust", "--deny", "bash", "go"]);
    assert!(!stage.workspace.has("x"), "{}", ran.stdout);
    let offered = stage.provider.requests()[1].body["tools"].to_string();
    assert!(!offered.contains("\"bash\""), "what is forbidden in any case is not offered");
}

#[test]
fn a_turn_that_goes_on_by_a_smaller_budget_has_its_subagents_go_by_it() {
    let stage = Stage::new(json!([
        task(&["dear work"]),
        {"of": "dear work", "tools": [{"name": "bash", "args": {"command": "touch begun; until [ -e go ]; do sleep 0.02; done"}}],
         "usage": {"input": 60_000, "output": 10}},
        {"of": "dear work", "text": "never said"},
        {"text": "never said"},
    ]));
    let mut child = stage.start(&["go"]);
    until("its command runs", || stage.workspace.has("begun"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = stage.run(&["--continue", "--max-tokens", "50000"]);
    assert_eq!(ran.end(), "budget", "{}", ran.stdout);
    assert_eq!(stage.provider.requests().len(), 2, "nobody is asked after that");
}
