//! The agent that a session is run by: its words, tools, rules and mode, on record and gone on with, changed in mid-session.

use crate::chat::{A_WHILE, seat, wait_for};
use crate::stage::{Ran, Stage, until};
use crate::steer::Talk;
use serde_json::{Value, json};

const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews strictly\ntools: Read, Grep, Bash\npermission:\n  bash:\n    \"git push*\": deny\nmaxTurns: 7\n---\nYou review strictly.\n";

fn answers() -> Value {
    json!([{"text": "ok", "repeat": true}])
}

fn with_reviewer(stage: Stage) -> Stage {
    let stage = stage.with_files([(".claude/agents/reviewer.md", REVIEWER)]);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    stage
}

/// The names of the tools that a request offers.
fn offered(stage: &Stage, request: usize) -> Vec<String> {
    let tools = stage.provider.requests()[request].body["tools"].clone();
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    tools.as_array().map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
}

/// The system prompt of a request.
fn system(stage: &Stage, request: usize) -> String {
    stage.provider.requests()[request].body["messages"][0]["content"].as_str().unwrap().to_owned()
}

#[test]
fn an_agent_runs_the_session_with_its_words_tools_and_rules_and_goes_on_with_it() {
    let push = json!({"tools": [{"name": "bash", "args": {"command": "git push origin"}}]});
    let stage = with_reviewer(Stage::new(json!([push, {"text": "ok", "repeat": true}])));
    let ran = stage.run(&["--agent", "reviewer", "look"]).expect_code(0);
    assert_eq!(ran.all("opened")[0]["agent"], "reviewer");
    assert_eq!(ran.all("agent_changed")[0]["agent"], "reviewer");
    assert_eq!(offered(&stage, 0), ["bash", "bash_kill", "bash_output", "grep", "read"]);
    assert!(system(&stage, 0).ends_with("\n\nYou review strictly."), "{}", system(&stage, 0));
    let refused = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(refused.contains("the rule bash(git push*) forbids"), "{refused}");
    assert_eq!(ran.all("turn_started")[0]["policy"]["max_steps"], 7);
    // Another process goes on with the same agent, whatever the flags do not say.
    let ran = stage.run(&["--continue", "again"]).expect_code(0);
    assert_eq!(ran.all("opened")[0]["agent"], "reviewer");
    assert!(ran.all("agent_changed").is_empty(), "it is the same one");
    let asked = stage.provider.requests().len();
    assert!(system(&stage, asked - 1).contains("You review strictly."));
    // A flag has another one go on.
    let ran = stage.run(&["--continue", "--agent", "build", "again"]).expect_code(0);
    assert_eq!(ran.all("agent_changed")[0]["agent"], "build");
    assert!(!system(&stage, asked).contains("You review strictly."));
    assert!(offered(&stage, asked).contains(&"edit".to_owned()));
}

#[test]
fn an_agent_whose_file_is_changed_or_gone_is_told_of() {
    let stage = with_reviewer(Stage::new(answers()));
    stage.run(&["--agent", "reviewer", "look"]).expect_code(0);
    stage.workspace.write(".claude/agents/reviewer.md", REVIEWER.replace("strictly.", "mildly."));
    let ran = stage.run(&["--trust", "--continue", "again"]).expect_code(0);
    let ran = ran.expect_said(&["the agent reviewer: it was changed since this session was run by it"]);
    assert_eq!(ran.all("agent_changed").len(), 1, "what it is now is on record");
    assert!(system(&stage, 1).contains("You review mildly."));
    stage.run(&["--trust", "--continue", "again"]).expect_code(0);
    std::fs::remove_file(stage.workspace.path().join(".claude/agents/reviewer.md")).unwrap();
    let ran = stage.run(&["--continue", "again"]).expect_code(0);
    let ran = ran.expect_said(&["there is no agent `reviewer`", "goes on with the agent build"]);
    assert_eq!(ran.all("agent_changed")[0]["agent"], "build");
    assert!(!system(&stage, 3).contains("You review"));
}

#[test]
fn the_configuration_names_the_agent_of_new_sessions_and_the_list_marks_it() {
    let stage = with_reviewer(Stage::new(answers()));
    stage.run(&["before"]).expect_code(0);
    let config = stage.home.read("config.toml");
    stage.home.write("config.toml", format!("agent = \"reviewer\"\n{config}"));
    stage.run(&["--continue", "still without"]).expect_code(0);
    assert!(!system(&stage, 1).contains("You review strictly."), "a session keeps its agent");
    stage.run(&["look"]).expect_code(0);
    assert!(system(&stage, 2).contains("You review strictly."));
    let listed = Ran::of(stage.piton(&["agent"])).expect_code(0);
    let row = |name: &str| listed.stdout.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("reviewer").contains("the default of sessions"), "{}", listed.stdout);
    assert!(row("build").contains("for sessions") && row("explore").contains("for calls"), "{}", listed.stdout);
    let shown = Ran::of(stage.piton(&["agent", "reviewer", "--json"])).events().remove(0);
    assert_eq!((&shown["default"], &shown["session"]), (&json!(true), &json!(true)));
}

#[test]
fn who_cannot_run_a_session_is_refused_in_words() {
    let only = "---\nname: helper\nmode: subagent\n---\nYou help.\n";
    let stage = Stage::new(answers());
    let refused = |agent: &str| stage.run(&["--agent", agent, "look"]).expect_code(1);
    refused("nobody").expect_said(&["there is no agent `nobody`", "build, plan"]);
    refused("explore").expect_said(&["the agent `explore` can only be called by others"]);
    let stage = stage.with_files([(".claude/agents/reviewer.md", REVIEWER), (".opencode/agent/helper.md", only)]);
    let refused = |agent: &str| stage.run(&["--agent", agent, "look"]).expect_code(1);
    refused("reviewer").expect_said(&["there is no agent `reviewer`", "that you do not trust", "piton trust"]);
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    refused("helper").expect_said(&["can only be called by others; a session is run by one of build, plan, reviewer"]);
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn a_mode_of_an_agent_only_narrows() {
    let agent = |mode: &str| format!("---\nname: x\npermissionMode: {mode}\n---\nx\n");
    let mode = |own: &str, flags: &[&str]| {
        let stage = Stage::new(answers()).with_files([(".piton/agents/x.md", agent(own).as_str())]);
        Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
        let model = ["run", "--format", "stream-json", "--model", "openai-chat/test-model", "--agent", "x", "go"];
        let ran = Ran::of(stage.piton(&[&model[..], flags].concat())).expect_code(0);
        ran.all("turn_started")[0]["policy"]["permission_mode"].as_str().unwrap_or("ask").to_owned()
    };
    assert_eq!(mode("bypassPermissions", &[]), "ask", "never more than the user has said");
    assert_eq!(mode("acceptEdits", &["--mode", "ask"]), "ask");
    assert_eq!(mode("acceptEdits", &["--yes"]), "accept-edits");
    assert_eq!(mode("plan", &["--yes"]), "plan");
}

#[test]
fn an_agent_is_changed_in_mid_session_and_the_trace_says_what_that_costs() {
    let usage = |cached: u64| json!({"input": 9_000, "output": 3, "cached": cached});
    let stage = with_reviewer(Stage::new(json!([
        {"text": "one", "usage": usage(0)},
        {"text": "two", "usage": usage(0)},
        {"text": "three", "usage": usage(0)},
    ])));
    let mut talk = Talk::new(&stage, &["go"]);
    until("the first turn is over", || talk.count("result") == 1);
    talk.say(r#"{"do":"configure","agent":"nobody"}"#);
    until("that is refused", || talk.count("input_error") == 1);
    talk.say(r#"{"do":"configure","agent":"reviewer"}"#);
    until("it is on record", || talk.count("agent_changed") == 1);
    talk.say(r#"{"do":"prompt","text":"review it"}"#);
    until("the second turn is over", || talk.count("result") == 2);
    talk.say(r#"{"do":"configure","agent":"build"}"#);
    talk.say(r#"{"do":"prompt","text":"and on"}"#);
    until("the third turn is over", || talk.count("result") == 3);
    assert_eq!(talk.end(), 0);
    assert!(!system(&stage, 0).contains("strictly"));
    assert!(system(&stage, 1).contains("You review strictly."));
    assert_eq!(offered(&stage, 1), ["bash", "bash_kill", "bash_output", "grep", "read"]);
    assert_eq!((system(&stage, 2), offered(&stage, 2)), (system(&stage, 0), offered(&stage, 0)));
    let trace = Ran::of(stage.piton(&["session", "trace", "last"])).expect_code(0);
    trace.expect_stdout(&["the agent or mode changed the system prompt or the tools, so nothing was in the cache"]);
}

#[test]
fn the_model_of_an_agent_is_asked_and_one_that_cannot_be_is_told_of() {
    let agent = |model: &str| format!("---\nname: x\nmodel: {model}\neffort: high\n---\nx\n");
    let of = |model: &str| {
        let stage = Stage::new(answers()).with_files([(".piton/agents/x.md", agent(model).as_str())]);
        Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
        let config = stage.home.read("config.toml");
        stage.home.write("config.toml", format!("model = \"openai-chat/usual\"\n{config}"));
        stage
    };
    let run = |stage: &Stage, flags: &[&str]| {
        let args = ["run", "--yes", "--format", "stream-json", "go"];
        Ran::of(stage.piton(&[&args[..], flags].concat())).expect_code(0)
    };
    let stage = of("openai-chat/special");
    let model = |stage: &Stage, at: usize| stage.provider.requests()[at].body["model"].as_str().unwrap().to_owned();
    run(&stage, &["--agent", "x"]);
    run(&stage, &["--continue"]);
    run(&stage, &["--agent", "x", "--model", "openai-chat/said"]);
    assert_eq!([0, 1, 2].map(|at| model(&stage, at)), ["special", "special", "said"]);
    assert_eq!(stage.provider.requests()[0].body["reasoning_effort"], "high");
    let stage = of("nowhere/at-all");
    run(&stage, &["--agent", "x"]).expect_said(&["the model of agent x is unavailable"]);
    assert_eq!(model(&stage, 0), "usual");
}

#[test]
fn in_a_conversation_agents_are_listed_chosen_and_shown() {
    let stage = with_reviewer(Stage::new(json!([{"text": "As I am."}, {"text": "Reviewed."}])));
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("hello\r");
    wait_for(&person, "As I am.");
    wait_for(&person, "1 step");
    person.type_keys("/agent\r");
    wait_for(&person, "Have the session run by");
    wait_for(&person, "(now) Does what you ask");
    wait_for(&person, "Reviews strictly");
    // What is typed before a list was seen is not for the list.
    std::thread::sleep(A_WHILE);
    person.type_keys("reviewer\r");
    wait_for(&person, "agent reviewer");
    person.type_keys("and now?\r");
    wait_for(&person, "Reviewed.");
    until("the status line has it", || person.screen().contains(" · reviewer · "));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    assert!(system(&stage, 1).contains("You review strictly."));
}

#[test]
fn temperature_and_top_p_of_an_agent_are_asked_for_and_its_first_words_stand_before_the_first_message() {
    let cool =
        "---\ndescription: Cool\ntemperature: 0.2\ntop_p: 0.5\ninitialPrompt: Look at notes.txt first.\n---\nBe cool.";
    let stage = Stage::new(json!([
        {"text": "one"}, {"text": "two"},
        {"tools": [{"name": "task", "args": {"description": "x", "prompt": "chill", "subagent_type": "cool"}}]},
        {"of": "chill", "text": "chilled"}, {"text": "three", "repeat": true},
    ]));
    stage.home.write("agents/cool.md", cool);
    let sampling = |request: usize| {
        let body = stage.provider.requests()[request].body.clone();
        (body["temperature"].clone(), body["top_p"].clone())
    };
    let own = (json!(0.2), json!(0.5));
    stage.run(&["--agent", "cool", "go"]).expect_code(0);
    assert_eq!(sampling(0), own);
    let said = |request: usize| stage.provider.requests()[request].body["messages"].to_string();
    assert_eq!(said(0).matches("Look at notes.txt first.").count(), 1);
    assert!(said(0).find("Look at notes.txt").unwrap() < said(0).rfind("go").unwrap());
    // A person's own word comes first; the first message is said once.
    stage.run(&["--continue", "--temperature", "1", "again"]).expect_code(0);
    assert_eq!((sampling(1), said(1).matches("Look at notes.txt first.").count()), ((json!(1.0), json!(0.5)), 1));
    // Called by another, it has its own, and its caller has none.
    stage.run(&["call it"]).expect_code(0);
    let none = (Value::Null, Value::Null);
    assert_eq!((sampling(2), sampling(3), sampling(4)), (none.clone(), own, none));
    assert!(!said(3).contains("Look at notes.txt"), "nobody begins a session with it");
    Ran::of(stage.piton(&["agent", "cool"])).expect_code(0).expect_stdout(&["temperature  0.2", "top_p        0.5"]);
}

#[test]
fn an_agent_begins_by_itself_where_nothing_is_said_and_its_file_says_with_what() {
    let stage = Stage::new(json!([{"text": "Looked.", "repeat": true}]));
    stage.home.write("agents/eager.md", "---\ndescription: E\ninitialPrompt: Look at notes.txt first.\n---\nBe eager.");
    stage.home.write("agents/shy.md", "---\ndescription: S\n---\nBe shy.");
    stage.run(&["--agent", "eager"]).expect_code(0);
    let last = stage.last_messages().pop().unwrap().to_string();
    assert!(last.contains("Look at notes.txt first."), "{last}");
    assert_eq!(last.matches("Look at notes.txt first.").count(), 1);
    assert_eq!(stage.journal().iter().filter(|event| event["type"] == "user_spoke").count(), 1);
    let asked = stage.provider.requests().len();
    let ran = stage.run(&["--agent", "shy"]);
    assert!(ran.code == 1 && ran.stderr.contains("the task is empty"), "{}", ran.stderr);
    assert_eq!(stage.provider.requests().len(), asked);
}
