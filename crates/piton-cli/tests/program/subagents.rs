//! Subagents: a call that a session of its own answers, begun once, gone on with after a kill, stopped with its caller, paid from
//! one budget.

use crate::mcp::SERVER;
use crate::stage::{Ran, Stage, descendants, is_alive, kill, until};
use crate::steer::Talk;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::Write as _;

pub(crate) fn task(prompts: &[&str]) -> Value {
    let call = |prompt: &&str| json!({"name": "task", "args": {"description": "a part", "prompt": prompt, "subagent_type": "general"}});
    json!({"tools": prompts.iter().map(call).collect::<Vec<_>>()})
}

pub(crate) fn bash(of: &str, command: &str) -> Value {
    json!({"of": of, "tools": [{"name": "bash", "args": {"command": command}}]})
}

/// The sessions of subagents, as their caller's journal has them.
pub(crate) fn children(events: &[Value]) -> Vec<String> {
    let begun = events.iter().filter(|event| event["type"] == "delegated");
    begun.map(|event| event["child"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn kinds(events: &[Value], kind: &str) -> usize {
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
    let agents = Ran::of(stage.piton(&["session", "agents", "last"])).expect_code(0);
    assert!(agents.stdout.starts_with("c1_0  general: a part  completed  2 steps  330 tokens"), "{}", agents.stdout);
    let agents = Ran::of(stage.piton(&["session", "agents", "last", "--json"])).events();
    assert_eq!((&agents[0]["session"], &agents[0]["depth"]), (&json!(child), &json!(0)));
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
        {"text": "There is none."},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    let child = children(&ran.events()).remove(0);
    let foreign = stage.run(&["--continue", "again"]).expect_code(0);
    let text = foreign.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("no subagent of this session has that task_id"), "{text}");
    let stage = Stage {
        provider: piton_testkit::FakeProvider::start(json!([
            {"tools": [{"name": "task", "args": {"description": "ask", "prompt": "which number?", "task_id": child}}]},
            {"of": "remember seven", "text": "Seven."},
            {"text": "It was seven."},
        ])),
        ..stage
    };
    let own = stage.run(&["--continue", "ask it"]).expect_code(0);
    assert_eq!(own.outcomes()[0]["text"], format!("Seven.\n\n[task_id: {child}]"));
    let asked = stage.provider.requests()[1].body["messages"].to_string();
    assert!(["remember seven", "I do.", "which number?"].iter().all(|words| asked.contains(words)), "{asked}");
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

#[test]
fn an_always_holds_for_the_whole_tree() {
    let touch = |name: &str| bash(name, &format!("touch {name}"));
    let stage = Stage::new(json!([
        {"tools": [{"name": "bash", "args": {"command": "touch own"}}]},
        task(&["alpha work"]),
        touch("alpha work"), {"of": "alpha work", "text": "a"},
        {"text": "done"},
    ]));
    let mut talk = Talk::asking(&stage, &["--mode", "ask", "--sandbox", "off", "go"]);
    until("it asks", || talk.count("wanted") == 1);
    talk.say(json!({"do": "answer", "subject": {"call": "c1_0"}, "decision": "approve_for_session"}));
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert_eq!(talk.results()[0].1, "done");
    assert!(stage.workspace.has("own") && stage.workspace.has("alpha"));
    assert_eq!(talk.count("wanted"), 1, "the subagent's command was allowed, too");
}

#[test]
fn an_always_answers_what_others_of_the_tree_ask_already() {
    let stage = Stage::new(json!([
        task(&["alpha work", "bravo work"]),
        bash("alpha work", "touch a.txt"), {"of": "alpha work", "text": "a"},
        bash("bravo work", "touch b.txt"), {"of": "bravo work", "text": "b"},
        {"text": "done"},
    ]));
    let mut talk = Talk::asking(&stage, &["--mode", "ask", "--sandbox", "off", "go"]);
    until("both ask", || talk.count("wanted") == 2);
    let first = talk.lines().into_iter().find(|line| line["type"] == "wanted").unwrap();
    talk.say(json!({"do": "answer", "subject": first["subject"], "decision": "approve_for_session"}));
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert!(stage.workspace.has("a.txt") && stage.workspace.has("b.txt"));
}

#[test]
fn a_run_whose_subagent_was_refused_for_want_of_a_person_is_not_finished() {
    let stage = Stage::new(json!([
        task(&["alpha work"]), bash("alpha work", "touch q"), {"of": "alpha work", "text": "I could not."}, {"text": "done"},
    ]));
    let model = format!("{}/test-model", stage.protocol);
    let run = ["run", "--mode", "ask", "--sandbox", "off", "--format", "stream-json", "--model", &model, "go"];
    let ran = Ran::of(stage.piton(&run)).expect_code(3);
    assert_eq!(ran.result()["end"], "tool_denied");
    let detail = ran.result()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("in a subagent, bash needs approval"), "{detail}");
}

#[test]
fn a_subagent_whose_model_cannot_be_asked_works_with_its_callers_and_says_so() {
    let critic = "---\nname: critic\ndescription: Criticises\nmodel: fast-one\n---\nYou criticise.\n";
    let call = |agent: &str, more: Value| {
        let mut args = json!({"description": "a part", "prompt": format!("{agent} part"), "subagent_type": agent});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"tools": [{"name": "task", "args": args}]})
    };
    let stage = Stage::new(json!([
        call("critic", json!({})), {"of": "critic part", "text": "Bad."},
        call("general", json!({"model": "groq/no-key"})), {"of": "general part", "text": "Good."},
        {"text": "done"},
    ]))
    .with_files([(".claude/agents/critic.md", critic)]);
    let ran = stage.run(&["--trust", "go"]).expect_code(0);
    let texts: Vec<String> =
        ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap().to_owned()).collect();
    assert!(texts[0].starts_with("Bad.") && texts[0].contains("[the model fast-one cannot be asked ("), "{texts:?}");
    assert!(
        texts[1].starts_with("Good.") && texts[1].contains("[the model groq/no-key cannot be asked (groq needs a key"),
        "{texts:?}"
    );
    // A name of one's own stands for a model that can be.
    let stage = Stage::new(json!([call("critic", json!({})), {"of": "critic part", "text": "Bad."}, {"text": "done"}]))
        .with_files([(".claude/agents/critic.md", critic)]);
    let aliases = format!("[model_aliases]\nfast-one = \"{}/small-model\"\n", stage.protocol);
    let stage = stage.with_config(&aliases);
    let ran = stage.run(&["--trust", "go"]).expect_code(0);
    assert!(!ran.outcomes()[0]["text"].as_str().unwrap().contains("cannot be asked"), "{:?}", ran.outcomes());
    assert_eq!(stage.provider.requests()[1].body["model"], "small-model");
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
        "1 thing of this repository is ignored",
        "broken.md is left out: its front matter is not valid YAML",
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

/// A call that returns at once.
fn in_background(prompts: &[&str]) -> Value {
    let mut calls = task(prompts);
    calls["tools"].as_array_mut().unwrap().iter_mut().for_each(|call| call["args"]["background"] = json!(true));
    calls
}

/// Every end of a subagent in the background that this journal has.
fn ends(events: &[Value]) -> Vec<String> {
    let ended = events.iter().filter(|event| event["type"] == "task_ended");
    ended.map(|event| event["outcome"]["title"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_subagent_in_the_background_returns_at_once_and_the_run_waits_for_its_end_and_tells_the_model() {
    let stage = Stage::new(json!([
        in_background(&["count slowly"]),
        {"of": "count slowly", "tools": [{"name": "bash", "args": {"command": "until [ -e go ]; do sleep 0.02; done"}}],
         "usage": {"input": 100, "output": 10}},
        {"of": "count slowly", "text": "There are nine.", "usage": {"input": 200, "output": 20}},
        {"tools": [{"name": "bash", "args": {"command": "echo here"}}], "usage": {"input": 1, "output": 1}},
        {"text": "It is at work.", "usage": {"input": 1, "output": 1}},
        {"text": "Nine, it says.", "usage": {"input": 1, "output": 1}},
    ]));
    let mut run = stage.start(&["how many?"]);
    until("the turn waits", || stage.printed().contains("subagents_awaited"));
    stage.workspace.write("go", "");
    assert!(run.wait().unwrap().success());
    let ran = Ran { code: 0, stdout: stage.printed(), stderr: String::new() };
    assert_eq!(ran.result()["result"], "Nine, it says.");
    let events = ran.events();
    let child = children(&events).remove(0);
    let first = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(first.contains("works in the background") && first.ends_with(&format!("[task_id: {child}]")), "{first}");
    assert_eq!(ends(&events), ["task general: a part"]);
    assert_eq!(kinds(&events, "turn_started"), 1, "it is the same turn that waits");
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("The background subagent c1_0 is over") && told.contains("There are nine."), "{told}");
    // What it used is used by the turn that was under way, and on the session's bill.
    assert_eq!(ran.result()["spent"]["usage"]["input_tokens"], 10 + 300 + 1 + 1 + 1);
    let cost = Ran::of(stage.piton(&["session", "cost", "last", "--json"])).events().remove(0);
    assert_eq!(cost["turns"][0]["subagents"][0]["session"], json!(child));
}

#[test]
fn the_end_of_a_subagent_in_the_background_is_a_turn_of_its_own_in_a_session_that_stays_open() {
    let stage = Stage::new(json!([
        in_background(&["build it"]),
        {"of": "build it", "tools": [{"name": "bash", "args": {"command": "until [ -e go ]; do sleep 0.02; done"}}]},
        {"of": "build it", "text": "It is built."},
        {"text": "It is being built."},
        {"text": "Now it is built."},
        {"text": "unasked", "repeat": true},
    ]));
    let log = std::fs::File::create(stage.home.path().join("stdout")).unwrap();
    let mut command = stage.run_command(&["--input-format", "stream-json", "go"]);
    let stdio = std::process::Stdio::piped;
    let mut child = command.stdin(stdio()).stdout(log).stderr(std::process::Stdio::null()).spawn().unwrap();
    let input = child.stdin.take().unwrap();
    let turns = || stage.printed().matches(r#""type":"turn_ended""#).count();
    until("the first turn is over", || turns() == 1);
    assert!(!stage.printed().contains("task_ended"), "it is at work behind the turn");
    stage.workspace.write("go", "");
    until("its end is a turn", || turns() == 2);
    drop(input);
    assert!(child.wait().unwrap().success());
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("A subagent in the background is over") && told.contains("It is built."), "{told}");
    assert_eq!(kinds(&stage.journal_of("last"), "turn_started"), 2);
}

#[test]
fn a_stricter_mode_holds_for_subagents_at_work_between_turns_and_for_those_that_wait_for_a_place() {
    let prompts = ["part a", "part b", "part c", "part d", "part e"];
    let mut script = vec![in_background(&prompts), json!({"text": "They are at work."})];
    for part in prompts {
        // One of the five, whichever, waits for one of the four places.
        script.push(bash(part, "until [ -e go ]; do sleep 0.02; done"));
        script.push(bash(part, "touch made"));
        script.push(json!({"of": part, "text": "It is made."}));
    }
    script.push(json!({"text": "heard", "repeat": true}));
    let stage = Stage::new(Value::Array(script));
    let log = std::fs::File::create(stage.home.path().join("stdout")).unwrap();
    let mut command = stage.run_command(&["--input-format", "stream-json", "go"]);
    let stdio = std::process::Stdio::piped;
    let mut run = command.stdin(stdio()).stdout(log).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut input = run.stdin.take().unwrap();
    until("the first turn is over", || stage.printed().contains(r#""type":"turn_ended""#));
    let four = || {
        let journals = children(&stage.journal_of("last"));
        journals.iter().filter(|child| kinds(&stage.journal_of(child), "call_started") == 1).count() == 4
    };
    until("four are at work", four);
    writeln!(input, r#"{{"do":"configure","mode":"plan"}}"#).unwrap();
    until("the mode is on record", || stage.printed().contains("settings_changed"));
    stage.workspace.write("go", "");
    until("all five are over", || ends(&stage.journal_of("last")).len() == 5);
    drop(input);
    assert!(run.wait().unwrap().success());
    assert!(!stage.workspace.path().join("made").exists(), "nothing is made while a plan is made");
}

#[test]
fn the_model_looks_at_a_subagent_in_the_background_and_stops_it() {
    let stage = Stage::new(json!([
        in_background(&["never end"]),
        {"of": "never end", "text": "I begin.",
         "tools": [{"name": "bash", "args": {"command": "touch begun; sleep 987654"}}]},
        {"tools": [{"name": "bash", "args": {"command": "until [ -e begun ]; do sleep 0.02; done"}}]},
        {"tools": [{"name": "task_output", "args": {"task_id": "c1_0", "wait_ms": 50}}]},
        {"tools": [{"name": "task_stop", "args": {"task_id": "c1_0"}}]},
        {"tools": [{"name": "task_output", "args": {"task_id": "c1_0"}}, {"name": "task_stop", "args": {"task_id": "ses_none"}}]},
        {"text": "It is stopped."},
        {"text": "unasked", "repeat": true},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    let texts: Vec<String> =
        ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap_or_default().to_owned()).collect();
    let [_, _, looked, stopped, again, none] = &texts[..] else { panic!("{texts:?}") };
    assert!(
        looked.contains("is at work: 1 step and 0 calls done") && looked.ends_with("It said last:\nI begin."),
        "{looked}"
    );
    assert!(
        stopped.starts_with("[the subagent general is over]\nI begin.") && stopped.contains("canceled"),
        "{stopped}"
    );
    assert!(again.starts_with("[the subagent general is over]") || again.contains("I begin."), "{again}");
    assert!(none.contains("no subagent `ses_none` was left at work"), "{none}");
    assert_eq!(ran.result()["result"], "It is stopped.", "what the model has read is not told again");
    let events = stage.journal_of("last");
    assert_eq!(ends(&events), ["task general: a part (not finished: canceled)"]);
}

#[test]
fn after_a_kill_subagents_in_the_background_go_on_and_are_told_of_once() {
    let stage = Stage::new(json!([
        in_background(&["alpha work", "beta work"]),
        bash("alpha work", "echo a >> ran; until [ -e go ]; do sleep 0.02; done; echo A"),
        bash("beta work", "echo b >> ran; until [ -e go ]; do sleep 0.02; done; echo B"),
        {"of": "alpha work", "text": "alpha is done"},
        {"of": "beta work", "text": "beta is done"},
        {"text": "both are at work"},
        {"text": "both are done"},
    ]));
    let mut child = stage.start(&["go"]);
    until("both commands run", || stage.workspace.has("ran") && stage.workspace.read("ran").lines().count() == 2);
    until("the turn waits", || stage.printed().contains("subagents_awaited"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = stage.run(&["--continue"]).expect_code(0);
    assert_eq!(ran.result()["result"], "both are done");
    let mut lines: Vec<String> = stage.workspace.read("ran").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a", "b"], "each ran once");
    let listed = Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events();
    assert_eq!(listed.len(), 3);
    let root = listed.iter().find(|session| session["parent"].is_null()).unwrap()["id"].as_str().unwrap().to_owned();
    let events = stage.journal_of(&root);
    assert_eq!((kinds(&events, "delegated"), kinds(&events, "task_ended")), (2, 2), "begun once, over once");
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert_eq!((told.matches("alpha is done").count(), told.matches("beta is done").count()), (1, 1), "{told}");
}

#[test]
fn a_cancel_of_the_turn_that_waits_leaves_and_the_subagent_ends_with_the_session() {
    let stage = Stage::new(json!([
        in_background(&["long work"]),
        {"of": "long work", "tools": [{"name": "bash", "args": {"command": "touch begun; sleep 987654"}}]},
        {"text": "It is at work."},
        {"text": "never asked", "repeat": true},
    ]));
    let mut child = stage.start(&["go"]);
    until("its command runs", || stage.workspace.has("begun"));
    until("the turn waits", || stage.printed().contains("subagents_awaited"));
    let below = descendants(child.id());
    kill(child.id(), Signal::INT);
    child.wait().unwrap();
    until("all processes are gone", || below.iter().all(|pid| !is_alive(*pid)));
    let listed = Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events();
    assert!(listed.len() == 2 && listed.iter().all(|session| session["last_end"] == "canceled"), "{listed:?}");
    let root = listed.iter().find(|session| session["parent"].is_null()).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(ends(&stage.journal_of(&root)), ["task general: a part (not finished: canceled)"]);
}

#[test]
fn who_removes_a_session_removes_those_of_its_subagents_and_has_them_back_with_it() {
    let stage = Stage::new(json!([task(&["a part of it"]), {"of": "a part of it", "text": "Done."}, {"text": "over"}]));
    stage.run(&["go"]).expect_code(0);
    let all = || Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events().len();
    assert_eq!(all(), 2);
    let checked = Ran::of(stage.piton(&["session", "verify", "last"])).expect_code(0);
    assert_eq!(checked.stdout.matches("every one in its place").count(), 2, "{}", checked.stdout);
    let removed = Ran::of(stage.piton(&["session", "rm", "last"]))
        .expect_code(0)
        .expect_said(&["with 1 session of its subagents"]);
    assert_eq!(all(), 0);
    let id = removed.stderr.split(',').next().unwrap().trim().to_owned();
    Ran::of(stage.piton(&["session", "restore", &id]))
        .expect_code(0)
        .expect_said(&["with 1 session of its subagents, is back"]);
    assert_eq!(all(), 2);
}

#[test]
fn hooks_hear_that_a_subagent_begins_and_ends_and_can_send_it_back() {
    let script = "#!/bin/sh\ncat >> heard; echo >> heard\n";
    let back =
        "#!/bin/sh\ncat >> heard; echo >> heard\n[ -e sent ] && exit 0; touch sent; echo 'look again' >&2; exit 2\n";
    let hooks = "\n[[hooks.SubagentStart]]\nmatcher = \"general\"\ncommand = \"sh ./hear.sh\"\n\
                 [[hooks.SubagentStop]]\ncommand = \"sh ./back.sh\"\n\
                 [[hooks.Stop]]\ncommand = \"sh ./hear.sh\"\n[[hooks.PreToolUse]]\nmatcher = \"Bash\"\ncommand = \"sh ./hear.sh\"\n";
    let stage = Stage::new(json!([
        task(&["do a part"]),
        bash("do a part", "echo x"),
        {"of": "do a part", "text": "Once."},
        {"of": "do a part", "text": "Twice."},
        {"text": "over"},
    ]))
    .with_files([("hear.sh", script), ("back.sh", back)])
    .with_config(hooks);
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().starts_with("Twice."), "{:?}", ran.outcomes());
    let child = children(&ran.events()).remove(0);
    let heard = stage.workspace.read("heard");
    let heard: Vec<Value> = heard.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let names: Vec<&str> = heard.iter().map(|event| event["hook_event_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["SubagentStart", "PreToolUse", "SubagentStop", "SubagentStop", "Stop"]);
    for event in &heard[..4] {
        assert_eq!((&event["agent_id"], &event["agent_type"]), (&json!(child), &json!("general")), "{event}");
        let transcript = event["agent_transcript_path"].as_str().unwrap();
        assert!(transcript.contains(&child) && transcript.ends_with("journal.db"), "{transcript}");
    }
    assert_eq!(heard[2]["last_assistant_message"], "Once.");
    assert_eq!(heard[3]["stop_hook_active"], true);
    assert_eq!(heard[4]["agent_id"], Value::Null, "the caller's own hooks say nothing of an agent");
}

pub(crate) fn git(stage: &Stage, args: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    command
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(args)
        .current_dir(stage.workspace.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A call whose subagent works in a worktree.
fn in_worktree(prompt: &str) -> Value {
    let mut call = task(&[prompt]);
    call["tools"][0]["args"]["isolation"] = json!("worktree");
    call
}

#[test]
fn a_subagent_in_a_worktree_changes_none_of_its_callers_files_and_the_worktree_is_kept_and_named() {
    let stage = Stage::new(json!([
        in_worktree("change it there"),
        {"of": "change it there", "tools": [{"name": "write", "args": {"path": "new.txt", "content": "new\n"}}]},
        {"of": "change it there", "tools": [{"name": "bash", "args": {
            "command": "pwd > where; git add a.txt new.txt; echo two > a.txt; git -c user.name=t -c user.email=t@example.org commit -qam changed && git status -sb"
        }}]},
        {"of": "change it there", "text": "It is changed."},
        {"text": "over"},
    ]))
    .with_files([("a.txt", "one\n")]);
    git(&stage, &["init", "-q", "-b", "main"]);
    git(&stage, &["add", "a.txt"]);
    git(&stage, &["commit", "-qm", "first"]);
    let ran = stage.run(&["go"]).expect_code(0);
    let child = children(&ran.events()).remove(0);
    let outcome = ran.outcomes().remove(0);
    let text = outcome["text"].as_str().unwrap();
    let branch = format!("piton/{}", child.strip_prefix("ses_").unwrap());
    assert!(
        text.starts_with("It is changed.")
            && text.contains(&format!("on branch {branch}; changed: a.txt, new.txt, where")),
        "{text}"
    );
    assert_eq!(outcome["metadata"]["worktree"]["files"], json!(["a.txt", "new.txt", "where"]));
    assert_eq!((stage.workspace.read("a.txt").as_str(), stage.workspace.has("new.txt")), ("one\n", false));
    assert_eq!(git(&stage, &["show", &format!("{branch}:a.txt")]), "two\n", "it could commit");
    let folder = std::path::PathBuf::from(outcome["metadata"]["worktree"]["path"].as_str().unwrap());
    assert!(
        std::fs::read_to_string(folder.join("where")).unwrap().trim().ends_with(&format!("worktrees/{child}/{child}"))
    );
    // The caller's undo leaves it alone.
    drop(Ran::of(stage.piton(&["undo"])));
    assert!(folder.join("new.txt").exists());
}

#[test]
fn what_a_subagent_leaves_in_its_worktree_runs_no_program_of_its_outside_the_sandbox() {
    // A repository in a folder that looks like a bare one, whose filter git runs when it looks at the files.
    let evil = "mkdir -p b/objects b/refs; echo 'ref: refs/heads/master' > b/HEAD; git init -q b/inner; cd b/inner; \
                git config user.name a; git config user.email a@b; echo '* filter=z' > .gitattributes; echo s > s; git add .; \
                git commit -qm s; H=$(git rev-parse HEAD); git config filter.z.clean 'id > OUT; cat'; sleep 1.1; touch s; cd ../..; \
                git update-index --add --cacheinfo 160000,$H,b/inner; echo done";
    let outside = tempfile::tempdir().unwrap();
    let (pwned, filtered) = (outside.path().join("pwned"), outside.path().join("filtered"));
    let command = evil.replace("OUT", &pwned.to_string_lossy());
    let stage = Stage::new(json!([
        in_worktree("leave it there"),
        {"of": "leave it there", "tools": [{"name": "bash", "args": {"command": command}}]},
        {"of": "leave it there", "text": "It is left."},
        {"text": "over"},
    ]))
    .with_files([("a.txt", "one\n")]);
    git(&stage, &["init", "-q", "-b", "main"]);
    git(&stage, &["add", "a.txt"]);
    git(&stage, &["commit", "-qm", "first"]);
    // A filter of the repository runs where the model's commands do, and not when the worktree is made.
    git(&stage, &["config", "filter.y.smudge", &format!("touch {}; cat", filtered.display())]);
    stage.workspace.write(".git/info/attributes", "* filter=y\n");
    let ran = stage.run(&["go"]).expect_code(0);
    let outcome = ran.outcomes().remove(0);
    assert!(outcome["text"].as_str().unwrap().contains("[worktree:"), "{outcome}");
    assert!(!pwned.exists() && !filtered.exists(), "a program of the repository ran outside");
}

#[test]
fn a_worktree_in_which_nothing_changed_is_removed_and_without_git_there_is_none() {
    let stage = Stage::new(json!([
        in_worktree("only look"),
        {"of": "only look", "tools": [{"name": "read", "args": {"path": "a.txt"}}]},
        {"of": "only look", "text": "I looked."},
        {"text": "over"},
        in_worktree("not begun"),
        {"text": "no"},
    ]))
    .with_files([("a.txt", "one\n")]);
    git(&stage, &["init", "-q", "-b", "main"]);
    git(&stage, &["add", "a.txt"]);
    git(&stage, &["commit", "-qm", "first"]);
    let ran = stage.run(&["go"]).expect_code(0);
    let text = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("I looked.") && !text.contains("worktree"), "{text}");
    assert_eq!(git(&stage, &["branch", "--format=%(refname:short)"]), "main\n");
    assert_eq!(git(&stage, &["worktree", "list"]).lines().count(), 1);
    std::fs::remove_dir_all(stage.workspace.path().join(".git")).unwrap();
    let ran = stage.run(&["go"]).expect_code(0);
    let text = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("was not started: `isolation: worktree` needs a git repository"), "{text}");
}

#[test]
fn a_worktree_that_is_gone_when_its_subagent_is_resumed_is_named() {
    resumed_without_its_worktree(|tree| tree);
    // With all that Piton knew of it.
    resumed_without_its_worktree(|tree| tree.parent().unwrap());
}

fn resumed_without_its_worktree(gone: impl Fn(&std::path::Path) -> &std::path::Path) {
    let stage = Stage::new(json!([
        in_worktree("work there"),
        {"of": "work there", "tools": [{"name": "bash", "args": {"command": "touch begun; until [ -e go ]; do sleep 0.02; done"}}]},
        {"of": "work there", "text": "never said", "repeat": true},
        {"text": "It could not go on.", "repeat": true},
    ]))
    .with_files([("a.txt", "one\n")]);
    git(&stage, &["init", "-q", "-b", "main"]);
    git(&stage, &["add", "a.txt"]);
    git(&stage, &["commit", "-qm", "first"]);
    let mut child = stage.start(&["go"]);
    let worktrees = stage.home.path().join("data/worktrees");
    let tree = || {
        let mut folders = std::fs::read_dir(&worktrees).ok()?.flatten().filter(|entry| entry.path().is_dir());
        folders.next().map(|entry| entry.path().join(entry.file_name()))
    };
    until("its command runs", || tree().is_some_and(|tree| tree.join("begun").exists()));
    let below = descendants(child.id());
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let tree = tree().unwrap();
    std::fs::write(tree.join("go"), "").unwrap();
    until("its command is over", || below.iter().all(|pid| !is_alive(*pid)));
    std::fs::remove_dir_all(gone(&tree)).unwrap();
    let ran = stage.run(&["--continue"]).expect_code(0);
    let text = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(text.contains("its worktree") && text.contains("is gone"), "{text}");
}

#[test]
fn nothing_raw_reaches_the_caller_of_a_subagent() {
    let stage = Stage::new(json!([
        task(&["alpha work"]), {"of": "alpha work", "text": "a\u{1b}[2Jb\u{202e}c"}, {"text": "done"},
    ]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().starts_with("a[2Jbc\n"), "{:?}", ran.outcomes());
}

#[test]
fn a_person_sees_a_subagent_at_work_and_stops_it_alone() {
    let stage = Stage::new(json!([
        in_background(&["never end"]),
        {"of": "never end", "text": "I begin.",
         "tools": [{"name": "bash", "args": {"command": "touch begun; sleep 987654"}}]},
        {"text": "It is at work."},
        {"text": "It was stopped."},
    ]));
    let mut run = stage.start(&["go"]);
    until("its command runs", || stage.workspace.has("begun"));
    until("the turn waits", || stage.printed().contains("subagents_awaited"));
    let agents = Ran::of(stage.piton(&["session", "agents", "last", "--json"])).events();
    let [agent] = &agents[..] else { panic!("one subagent: {agents:?}") };
    assert_eq!(
        (&agent["state"], &agent["call"], &agent["agent"]),
        (&json!("at work"), &json!("c1_0"), &json!("general"))
    );
    assert!(agent["doing"].as_str().unwrap().contains("touch begun"), "{agent}");
    Ran::of(stage.piton(&["session", "cancel", agent["session"].as_str().unwrap()])).expect_code(0);
    assert!(run.wait().unwrap().success(), "its caller's turn completes");
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("The background subagent c1_0 is over") && told.contains("I begin."), "{told}");
    assert_eq!(ends(&stage.journal_of("last")), ["task general: a part (not finished: canceled)"]);
}

/// An agent with a hook on everything, one on its end, and a server of its own.
fn with_parts(stage: &Stage) {
    let log = stage.workspace.path().join("log").display().to_string();
    stage.workspace.write("server.py", SERVER);
    stage.workspace.write(".git/HEAD", "ref: refs/heads/main\n");
    let agent = format!(
        "---\nname: db\ndescription: Asks the database\nmcpServers:\n  - db:\n      command: /usr/bin/python3\n      args: [server.py, echo]\n      env: {{ SERVER_LOG: {log} }}\n  - lost\nhooks:\n  PreToolUse:\n    - hooks: [{{ type: command, command: echo called >> hooked }}]\n  Stop:\n    - hooks: [{{ type: command, command: echo stopped >> hooked }}]\n  Unheard:\n    - hooks: [{{ type: command, command: x }}]\n---\nYou are the DB."
    );
    stage.workspace.write(".claude/agents/db.md", agent);
}

#[test]
fn an_agents_hooks_and_servers_are_in_force_where_it_works_and_nowhere_else() {
    let echo = json!({"name": "mcp__db__echo", "args": {"text": "x"}});
    let gone = "kill -0 $(sed -n 's/^began //p' log) || echo gone";
    let stage = Stage::new(json!([
        {"tools": [{"name": "task", "args": {"description": "ask", "prompt": "ask the database", "subagent_type": "db"}}]},
        {"of": "ask the database", "tools": [echo]},
        {"of": "ask the database", "text": "It said x."},
        {"tools": [echo, {"name": "bash", "args": {"command": gone}}]},
        {"text": "done", "repeat": true},
    ]));
    with_parts(&stage);
    let untrusted = stage.run(&["--agent", "db", "go"]).expect_code(1);
    untrusted.expect_said(&["`piton trust` shows it"]);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0).expect_said(&["echo called >> hooked", "server.py"]);
    let shown = Ran::of(stage.piton(&["agent", "db"])).expect_code(0);
    shown.expect_stdout(&[
        "servers      db",
        "hook         PreToolUse echo called >> hooked",
        "not read     hooks of Unheard",
    ]);
    // Out of the sandbox, where a process has its own number.
    let ran = stage
        .run(&["--sandbox", "off", "go"])
        .expect_said(&["the agent db names the MCP server lost, which is not in force"]);
    let outcomes = ran.outcomes();
    assert!(outcomes[0]["text"].as_str().unwrap().contains("It said x."), "{outcomes:?} {}", ran.stderr);
    assert_eq!(outcomes[1]["status"], "failed", "the caller has no such server: {outcomes:?}");
    let asked = stage.provider.requests().into_iter().find(|request| request.body.to_string().contains("You said x."));
    assert!(asked.unwrap().body.to_string().contains("You are the DB."), "the agent's own server answered it");
    assert_eq!(stage.workspace.read("hooked"), "called\nstopped\n", "neither for its caller's calls nor at its end");
    assert!(outcomes[2]["text"].as_str().unwrap().contains("gone"), "its server ended with it: {outcomes:?}");
    let log = stage.workspace.read("log");
    assert_eq!(log.matches("called echo").count(), 1, "{log}");
    // Run by it, a session has its hooks, until another agent runs it.
    let script = json!([
        {"tools": [{"name": "bash", "args": {"command": "true"}}]},
        {"text": "done", "repeat": true},
    ]);
    let stage = Stage { provider: piton_testkit::FakeProvider::start(script), ..stage };
    stage.run(&["--agent", "db", "go"]).expect_code(0);
    assert_eq!(stage.workspace.read("hooked"), "called\nstopped\ncalled\nstopped\n");
    stage.run(&["-c", "--agent", "build", "go"]).expect_code(0);
    assert_eq!(stage.workspace.read("hooked").lines().count(), 4);
}

#[test]
fn wrong_hooks_and_servers_of_an_agent_are_named() {
    let stage = Stage::new(json!([{"text": "ok"}])).with_files([
        (".piton/agents/hooks.md", "---\nhooks: [x]\n---\nx"),
        (".piton/agents/servers.md", "---\nmcpServers: 3\n---\nx"),
        (".piton/agents/entry.md", "---\nmcpServers: { db: { args: [x] } }\n---\nx"),
    ]);
    stage.run(&["--trust", "go"]).expect_code(0).expect_said(&[
        "hooks.md is left out: line 2: hooks: ",
        "servers.md is left out: line 2: mcpServers: names and entries of servers are wanted",
        "the MCP server db of",
        "it has neither a `command` nor a `url`",
    ]);
}

/// A subagent of a subagent at a question, both in the foreground.
pub(crate) fn two_levels(then: &Value) -> Stage {
    let lead = json!({"name": "task", "args": {"description": "lead", "prompt": "lead it", "subagent_type": "lead"}});
    let deep =
        json!({"name": "task", "args": {"description": "dig", "prompt": "dig deep", "subagent_type": "general"}});
    let stage = Stage::new(json!([
        {"tools": [lead]},
        {"of": "lead it", "tools": [deep]},
        {"of": "dig deep", "text": "I begin.", "tools": [{"name": "bash", "args": {"command": "touch dug; until [ -e go ]; do sleep 0.02; done"}}]},
        then,
        {"of": "lead it", "text": "It is dug."},
        {"text": "done"},
    ]));
    stage.home.write("agents/lead.md", "---\nname: lead\ndescription: Leads\ntools: Task, Bash\n---\nYou lead.");
    stage.with_config("[permission]\nbash = \"ask\"\n")
}

/// The sessions of both, the deeper one last.
fn both(stage: &Stage) -> Vec<String> {
    let listed = Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events();
    let id = |session: &Value| session["id"].as_str().unwrap().to_owned();
    let below = |of: Option<&str>| {
        listed.iter().find(|session| session["parent"]["session"].as_str().or(session["parent"].as_str()) == of).map(id)
    };
    let root = below(None).unwrap();
    let lead = below(Some(&root)).unwrap();
    let deep = below(Some(&lead)).unwrap();
    vec![root, lead, deep]
}

#[test]
fn a_question_two_levels_down_is_answered_and_its_session_cancelled_from_the_root() {
    let stage = two_levels(&json!({"of": "dig deep", "text": "dug"}));
    let mut talk = Talk::asking(&stage, &["go"]);
    until("it asks", || talk.count("wanted") == 1);
    let all = both(&stage);
    let (root, deep) = (&all[0], &all[2]);
    // A session that is none of the tree's, and what is for no subagent, change nothing.
    talk.say(json!({"do": "cancel", "session": "ses_0"}));
    talk.say(json!({"do": "pause", "session": deep}));
    talk.say(json!({"do": "unqueue", "session": deep}));
    until("all are refused", || talk.count("input_error") >= 2);
    let errors: Vec<String> =
        talk.lines().iter().filter_map(|line| line["error"].as_str().map(str::to_owned)).collect();
    assert!(errors.iter().any(|error| error.contains("ses_0 is not a running subagent")), "{errors:?}");
    assert!(
        errors.iter().any(|error| error.contains("only `prompt`, `answer`, `cancel`, `unqueue`, `move` and `look`")),
        "{errors:?}"
    );
    talk.say(json!({"do": "answer", "session": deep, "subject": {"call": "c1_0"}, "decision": "approve"}));
    until("its command runs", || stage.workspace.has("dug"));
    talk.say(json!({"do": "cancel", "session": deep}));
    until("the root has its answer", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    assert!(!stage.workspace.has("go"));
    let ended = |session: &str| {
        let ends = stage.journal_of(session).into_iter().filter(|event| event["type"] == "turn_ended");
        ends.map(|event| event["end"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (ended(deep), ended(&all[1]), ended(root)),
        (vec!["canceled".into()], vec!["completed".into()], vec!["completed".into()])
    );
    let lead = stage.journal_of(&all[1]);
    let settled = lead.iter().find(|event| event["type"] == "call_settled").unwrap();
    assert_eq!(settled["outcome"]["status"], "cancelled", "{settled}");
    assert!(settled["outcome"]["text"].as_str().unwrap().contains("I begin."), "{settled}");
}

#[test]
fn the_roots_socket_takes_what_is_for_a_subagent_two_levels_down() {
    let stage = two_levels(&json!({"of": "dig deep", "text": "dug"}));
    let mut talk = Talk::asking(&stage, &["go"]);
    until("it asks", || talk.count("wanted") == 1);
    let all = both(&stage);
    let (root, deep) = (&all[0], &all[2]);
    let socket = stage.home.path().join(format!("data/sessions/{root}/control.sock"));
    until("it can be reached", || socket.exists());
    stage.home.write(
        "lines",
        json!({"do": "answer", "session": deep, "subject": {"call": "c1_0"}, "decision": "approve"}).to_string(),
    );
    let mut other = stage.run_command(&["--input-format", "stream-json", "--resume", root]);
    other.stdin(std::fs::File::open(stage.home.path().join("lines")).unwrap());
    let mut other = other.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    until("its command runs", || stage.workspace.has("dug"));
    stage.workspace.write("go", "");
    until("it is over", || talk.count("result") == 1);
    assert_eq!(talk.end(), 0);
    other.wait().unwrap();
    assert_eq!(talk.results(), [("completed".to_owned(), "done".to_owned())]);
}

#[test]
fn export_import_search_cost_and_trace_take_the_subagents_along() {
    let stage = Stage::new(json!([
        task(&["find the marmot"]),
        {"of": "find the marmot", "tools": [{"name": "bash", "args": {"command": "echo whistle"}}]},
        {"of": "find the marmot", "text": "It is in the <b>alps</b>."},
        {"text": "Found."},
    ]));
    stage.run(&["where is it?"]).expect_code(0);
    let ids = |args: &[&str]| {
        let listed = Ran::of(stage.piton(&[&["session", "list", "--json", "--tree"], args].concat())).events();
        listed.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = ids(&[]);
    let listed = |args: &[&str]| Ran::of(stage.piton(&[&["session", "list", "--json"], args].concat())).events();
    let root = listed(&[])[0]["id"].as_str().unwrap().to_owned();
    let child = all.iter().find(|id| **id != root).unwrap().clone();
    // Search: the words are the subagent's.
    assert_eq!(listed(&["--search", "marmot"])[0]["id"], json!(root));
    assert_eq!(
        ids(&["--search", "marmot"]),
        std::slice::from_ref(&child),
        "with --tree each session is searched by itself"
    );
    assert!(listed(&["--search", "marmot nowhere"]).is_empty());
    // Cost and trace.
    let bills = Ran::of(stage.piton(&["session", "cost", &root, "--tree", "--json"])).expect_code(0).events();
    assert_eq!((&bills[0]["session"], &bills[1]["session"]), (&json!(root), &json!(child)));
    let steps = Ran::of(stage.piton(&["session", "trace", &root, "--tree", "--json"])).expect_code(0).events();
    let of = |session: &str| steps.iter().filter(|step| step["session"] == session).count();
    assert_eq!((of(&root), of(&child)), (2, 2), "{steps:?}");
    Ran::of(stage.piton(&["session", "trace", &root, "--tree"])).expect_stdout(&[&format!("subagent {child}")]);
    // Files for people.
    let page = Ran::of(stage.piton(&["session", "export", &root])).expect_code(0).stdout;
    assert!(page.contains("<h1>Subagent: ") && page.contains("It is in the &lt;b&gt;alps"), "{page}");
    assert_eq!(page.matches("</html>").count(), 1);
    let text = Ran::of(stage.piton(&["session", "export", &root, "--format", "md"])).expect_code(0).stdout;
    assert!(text.contains("# Subagent: ") && text.contains("whistle"), "{text}");
    // The file that can be taken in: where its ids are taken it is another tree, whole.
    let file = stage.home.path().join("tree.json").to_str().unwrap().to_owned();
    Ran::of(stage.piton(&["session", "export", &root, "-o", &file])).expect_code(0);
    let taken = Ran::of(stage.piton(&["session", "import", &file])).expect_code(0);
    let other = taken.stdout.trim().to_owned();
    taken.expect_said(&["and 1 subagent"]);
    assert_ne!(other, root);
    let tree = Ran::of(stage.piton(&["session", "tree", &other])).expect_code(0).stdout;
    assert!(tree.contains("general") && !tree.contains(&child), "{tree}");
    let both = ids(&[]);
    assert_eq!(both.len(), 4);
    let taken = both.iter().find(|id| ![&root, &child, &other].contains(id)).unwrap();
    let journal = stage.journal_of(taken);
    assert_eq!(journal[0]["parent"]["session"], json!(other));
    Ran::of(stage.piton(&["session", "verify", &other])).expect_code(0);
    // Where they are free it has its own.
    for id in [&root, &other] {
        Ran::of(stage.piton(&["session", "rm", id])).expect_code(0);
    }
    Ran::of(stage.piton(&["session", "trash", "--empty"])).expect_code(0);
    Ran::of(stage.piton(&["session", "import", &file])).expect_code(0).expect_stdout(&[&root]);
    let mut now = ids(&[]);
    now.sort();
    let mut before = all;
    before.sort();
    assert_eq!(now, before);
    // A file in which a session was put that nobody has called.
    let text = std::fs::read_to_string(&file).unwrap().replace("\"type\":\"delegated\"", "\"type\":\"event_lost\"");
    std::fs::write(&file, text).unwrap();
    Ran::of(stage.piton(&["session", "import", &file])).expect_code(1);
}

/// What a person says refers to files; what a model says to another does not, whatever the rules for reading are.
#[test]
fn an_at_in_what_a_model_tells_a_subagent_refers_to_nothing() {
    let call = json!({"name": "task", "args": {"description": "look", "prompt": "see @secret.txt", "subagent_type": "general"}});
    let script = json!([{"tools": [call]}, {"of": "see @secret.txt", "text": "I cannot."}, {"text": "done"}]);
    let stage = Stage::new(script).with_files([("secret.txt", "THE SECRET")]);
    stage.run(&["go"]).expect_code(0);
    let requests = stage.provider.requests();
    assert!(requests.iter().all(|request| !request.body.to_string().contains("THE SECRET")));
    let stage = Stage::new(json!([{"text": "done"}])).with_files([("secret.txt", "THE SECRET")]);
    stage.run(&["see @secret.txt"]).expect_code(0);
    assert!(stage.provider.requests()[0].body.to_string().contains("THE SECRET"));
}

#[test]
fn the_servers_of_the_agent_that_runs_a_session_are_there_for_its_turns_and_gone_for_others() {
    let echo = json!({"tools": [{"name": "mcp__db__echo", "args": {"text": "x"}}]});
    let stage =
        Stage::new(json!([echo, {"text": "It said x."}, echo, {"text": "There is none."}, echo, {"text": "Again."}]));
    with_parts(&stage);
    stage.run(&["--agent", "db", "go"]).expect_code(1).expect_said(&["that you do not trust"]);
    assert!(!stage.workspace.has("log"), "untrusted, nothing of it is started");
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    let begun = || stage.workspace.read("log").matches("began").count();
    let is_running = || {
        let log = stage.workspace.read("log");
        let pid = log.lines().rev().find_map(|line| line.strip_prefix("began ")).unwrap().parse().unwrap();
        is_alive(pid)
    };
    let mut talk = Talk::new(&stage, &["--sandbox", "off", "--agent", "db"]);
    talk.say(r#"{"do":"prompt","text":"ask it"}"#);
    until("the first turn has ended", || talk.count("result") == 1);
    assert!(stage.last_messages().iter().any(|message| message.to_string().contains("You said x.")));
    assert!(begun() == 1 && is_running());
    talk.say(r#"{"do":"configure","agent":"build"}"#);
    talk.say(r#"{"do":"prompt","text":"and you?"}"#);
    until("the second turn has ended", || talk.count("result") == 2);
    until("its server is stopped", || !is_running());
    let outcomes: Vec<Value> = talk.lines().into_iter().filter(|line| line["type"] == "call_settled").collect();
    assert_eq!(outcomes[1]["outcome"]["status"], "failed", "{}", outcomes[1]);
    talk.say(r#"{"do":"configure","agent":"db"}"#);
    talk.say(r#"{"do":"prompt","text":"once more"}"#);
    until("the third turn has ended", || talk.count("result") == 3);
    assert!(stage.last_messages().last().unwrap().to_string().contains("You said x."));
    assert_eq!((begun(), talk.end()), (2, 0));
    until("nothing is left over", || !is_running());
}

#[test]
fn an_always_of_a_subagent_holds_after_a_kill_until_it_is_revoked() {
    let stage = Stage::new(json!([
        task(&["alpha work"]),
        bash("alpha work", "touch a.txt"),
        bash("alpha work", "touch begun; until [ -e go ]; do sleep 0.02; done"),
        bash("alpha work", "touch b.txt"),
        {"of": "alpha work", "text": "a"},
        {"text": "done"},
        {"tools": [{"name": "bash", "args": {"command": "touch c.txt"}}]},
        {"text": "done"},
        {"tools": [{"name": "bash", "args": {"command": "touch d.txt"}}]},
        {"text": "done"},
    ]));
    let mut talk = Talk::asking(&stage, &["--mode", "ask", "--sandbox", "off", "go"]);
    until("it asks", || talk.count("wanted") == 1);
    let first = talk.lines().into_iter().find(|line| line["type"] == "wanted").unwrap();
    talk.say(json!({"do": "answer", "subject": first["subject"], "decision": "approve_for_session"}));
    until("the next asks", || talk.count("wanted") == 2);
    let second = talk.lines().into_iter().rfind(|line| line["type"] == "wanted").unwrap();
    talk.say(json!({"do": "answer", "subject": second["subject"], "decision": "approve"}));
    until("it is under way", || stage.workspace.has("begun"));
    talk.killed();
    stage.workspace.write("go", "");
    let go_on = ["run", "--mode", "ask", "--sandbox", "off", "--format", "stream-json", "--model", "openai-chat/m"];
    let run = |more: &[&str]| Ran::of(stage.piton(&[&go_on, more].concat()));
    let ran = run(&["--continue"]).expect_code(0);
    assert_eq!(ran.result()["result"], "done");
    assert!(stage.workspace.has("b.txt"), "the subagent is not asked again");
    assert_eq!(run(&["--continue", "more"]).expect_code(0).result()["result"], "done");
    assert!(stage.workspace.has("c.txt"), "nor is its caller");
    let listed = Ran::of(stage.piton(&["permission", "list"])).expect_code(0);
    assert!(listed.stdout.contains("bash(touch"), "{}", listed.stdout);
    let _ = Ran::of(stage.piton(&["permission", "revoke"])).expect_code(0);
    let _ = run(&["--continue", "more"]).expect_code(3);
    assert!(!stage.workspace.has("d.txt"));
}

#[test]
fn a_worktree_that_was_being_made_or_removed_when_piton_was_killed_is_removed_in_the_end() {
    for words in ["worktree add", "branch --quiet"] {
        let stage = Stage::new(json!([
            in_worktree("only look"), {"of": "only look", "text": "I looked."}, {"text": "over", "repeat": true},
        ]))
        .with_files([("a.txt", "one\n")]);
        git(&stage, &["init", "-q", "-b", "main"]);
        git(&stage, &["add", "a.txt"]);
        git(&stage, &["commit", "-qm", "first"]);
        // The first time that git is asked this, it kills who asks, and leaves half a worktree, which stops git from then on.
        let bin = stage.home.path().join("bin");
        let killer = format!(
            "#!/bin/sh\ncase \"$*\" in *'{words}'*) if mkdir '{0}/killed' 2>/dev/null; then\n\
             for word; do case $word in */worktrees/*) mkdir -p .git/worktrees/$(basename $word)\n\
             : > .git/worktrees/$(basename $word)/commondir; echo ../../HEAD > .git/worktrees/$(basename $word)/HEAD;; esac; done\n\
             kill -9 $PPID; exit 1; fi;; esac\nexec /usr/bin/git \"$@\"\n",
            bin.display()
        );
        stage.home.write("bin/git", killer);
        std::fs::set_permissions(bin.join("git"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut killed = stage.run_command(&["go"]);
        let killed = killed.env("PATH", &path).output().unwrap();
        assert_eq!(killed.status.code(), None, "it was killed at {words}");
        let entries = || std::fs::read_dir(stage.home.path().join("data/worktrees")).unwrap().flatten();
        let worktrees = || entries().filter(|entry| entry.path().is_dir()).count();
        assert_eq!(worktrees(), 1);
        let ran = stage.run(&["--continue"]).expect_code(0);
        assert!(!ran.outcomes()[0]["text"].as_str().unwrap().contains("worktree"));
        assert_eq!((worktrees(), git(&stage, &["branch", "--format=%(refname:short)"]).as_str()), (0, "main\n"));
        assert_eq!(git(&stage, &["worktree", "list"]).lines().count(), 1);
    }
}
