//! What the front matter of a command or skill says of its turn: another model, effort or agent, or a subagent that does the work.

use crate::chat::{seat, wait_for};
use crate::stage::{Ran, Stage, kill, until};
use crate::steer::Talk;
use rustix::process::Signal;
use serde_json::{Value, json};

const DEEP: (&str, &str) = (
    ".claude/commands/deep.md",
    "---\nmodel: openai-chat/other\neffort: high\nargument-hint: [what]\n---\nThink about $ARGUMENTS.",
);

fn answers() -> Value {
    json!([{"text": "ok", "repeat": true}])
}

/// A stage whose own model stands in the configuration, and whose files are trusted.
fn stage(script: Value, files: &[(&str, &str)]) -> Stage {
    let stage = files.iter().fold(Stage::new(script), |stage, file| stage.with_files([*file]));
    let config = stage.home.read("config.toml");
    stage.home.write("config.toml", format!("model = \"openai-chat/usual\"\n{config}"));
    Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
    stage
}

fn run(stage: &Stage, args: &[&str]) -> Ran {
    let mut command = stage.piton(&[&["run", "--yes", "--format", "stream-json"], args].concat());
    command.stdin(std::process::Stdio::null());
    Ran::of(command)
}

/// Model and effort of each request.
fn asked(stage: &Stage) -> Vec<String> {
    let of = |body: &Value| {
        let effort = body["reasoning_effort"].as_str().map(|effort| format!(" {effort}")).unwrap_or_default();
        format!("{}{effort}", body["model"].as_str().unwrap())
    };
    stage.provider.requests().iter().map(|request| of(&request.body)).collect()
}

fn body(stage: &Stage, request: usize) -> String {
    stage.provider.requests()[request].body.to_string()
}

#[test]
fn the_turn_that_a_command_starts_has_its_model_and_effort_and_the_next_the_sessions() {
    let stage = stage(answers(), &[DEEP]);
    let ran = run(&stage, &["/deep rivers"]).expect_code(0);
    let started = &ran.all("turn_started")[0];
    assert_eq!((&started["model"], &started["this_turn_only"]), (&json!("openai-chat/other"), &json!(true)));
    assert_eq!(ran.all("user_spoke")[0]["for_turn"], json!({"model": "openai-chat/other", "effort": "high"}));
    // Another process goes on with the session as it was, whatever was asked last.
    run(&stage, &["--continue", "again"]).expect_code(0);
    // One that was run with another model before has that one again.
    run(&stage, &["--continue", "--model", "openai-chat/third", "again"]).expect_code(0);
    run(&stage, &["--continue", "/deep seas"]).expect_code(0);
    run(&stage, &["--continue", "again"]).expect_code(0);
    assert_eq!(asked(&stage), ["other high", "usual", "third", "other high", "third"]);
    assert!(body(&stage, 0).contains("Think about rivers.") && !body(&stage, 0).contains("argument-hint"));
}

#[test]
fn in_one_process_the_next_turn_goes_back_and_what_was_changed_meanwhile_holds() {
    let gate = json!({"tools": [{"name": "bash", "args": {"command": "touch started; until [ -e go ]; do sleep 0.02; done"}}]});
    let stage = stage(json!([gate, {"text": "ok", "repeat": true}]), &[DEEP]);
    let mut talk =
        Talk::of(&stage, stage.piton(&["run", "--yes", "--format", "stream-json", "--input-format", "stream-json"]));
    talk.say(r#"{"do":"prompt","command":"deep","text":"it"}"#);
    until("the command runs", || stage.workspace.has("started"));
    talk.say(r#"{"do":"prompt","text":"beside","delivery":"follow_up"}"#);
    talk.say(r#"{"do":"configure","model":"openai-chat/changed"}"#);
    until("it is changed", || talk.count("settings_changed") == 1);
    stage.workspace.write("go", "");
    until("both have ended", || talk.count("result") == 2);
    talk.say(r#"{"type":"user","message":{"content":"/deep again"}}"#);
    until("the third has ended", || talk.count("result") == 3);
    talk.say(r#"{"do":"prompt","text":"last"}"#);
    assert_eq!(talk.end(), 0);
    assert_eq!(asked(&stage), ["other high", "other high", "changed", "other high", "changed"]);
}

#[test]
fn in_the_terminal_too() {
    let stage = stage(json!([{"text": "Deeply."}, {"text": "As ever."}]), &[DEEP]);
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    person.type_keys("/deep it\r");
    wait_for(&person, "Deeply.");
    wait_for(&person, "1 step");
    person.type_keys("and now\r");
    wait_for(&person, "As ever.");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    assert_eq!(asked(&stage), ["other high", "test-model"]);
}

#[test]
fn a_skill_that_a_person_starts_has_its_model_and_effort_too() {
    let skill = "---\nname: deep\ndescription: Thinks\nmodel: openai-chat/other\neffort: low\n---\nThink hard.";
    let inherits = "---\nname: same\ndescription: Thinks\nmodel: inherit\n---\nThink.";
    let files = [(".claude/skills/deep/SKILL.md", skill), (".claude/skills/same/SKILL.md", inherits)];
    let stage = stage(answers(), &files);
    run(&stage, &["/deep"]).expect_code(0);
    let ran = run(&stage, &["--continue", "/same"]).expect_code(0);
    assert_eq!(asked(&stage), ["other low", "usual"]);
    assert!(ran.all("user_spoke").last().unwrap()["for_turn"].is_null());
}

#[test]
fn what_is_not_there_is_told_with_the_file_that_names_it() {
    let files = [
        (".claude/commands/a.md", "---\nmodel: nowhere/at-all\n---\nx"),
        (".claude/commands/b.md", "---\nagent: nobody\n---\nx"),
        (".claude/commands/c.md", "---\neffort: enormous\n---\nx"),
        (".claude/commands/d.md", "---\nagent: chief\nsubtask: true\n---\nx"),
        (".opencode/agent/chief.md", "---\nmode: primary\n---\nYou decide."),
    ];
    let stage = stage(answers(), &files);
    for (command, words) in [
        ("/a", "a.md cannot be used: the model nowhere/at-all cannot be asked"),
        ("/b", "b.md cannot be used: there is no agent `nobody`; there are build, chief, explore, general, plan"),
        ("/c", "c.md cannot be used: line 2: effort: `enormous` is none"),
        ("/d", "d.md cannot be used: the agent `chief` cannot be called: it runs sessions"),
    ] {
        run(&stage, &[command]).expect_code(1).expect_said(&[words]);
    }
    assert!(stage.provider.requests().is_empty());
}

#[test]
fn the_turn_of_a_command_is_run_by_its_agent() {
    let agent = "---\nmode: primary\ntools:\n  write: false\n  edit: false\n---\nYou are the CRITIC.";
    let command = "---\nagent: critic\n---\nSay what is wrong.";
    let stage = stage(answers(), &[(".opencode/agent/critic.md", agent), (".opencode/command/judge.md", command)]);
    run(&stage, &["/judge"]).expect_code(0);
    run(&stage, &["--continue", "thanks"]).expect_code(0);
    let has_edit = |at: usize| body(&stage, at).contains(r#""name":"edit""#);
    assert!(body(&stage, 0).contains("You are the CRITIC.") && !has_edit(0));
    assert!(!body(&stage, 1).contains("You are the CRITIC.") && has_edit(1));
    let changed = stage.journal().iter().filter(|event| event["type"] == "settings_changed").count();
    assert_eq!(changed, 0, "the session has its agent all the time");
}

#[test]
fn a_turn_that_was_cut_off_goes_on_with_its_model_and_ends_where_that_is_gone() {
    let gate = json!({"tools": [{"name": "bash", "args": {"command": "touch started; until [ -e go ]; do sleep 0.02; done"}}]});
    for is_gone in [false, true] {
        let stage = stage(json!([gate, {"text": "ok", "repeat": true}]), &[DEEP]);
        let config = stage.home.read("config.toml");
        let own = "\n[providers.mine]\nprotocol = \"chat\"\nkey_command = \"echo sk\"\nbase_url = \"URL\"\n";
        let url = format!("{}/v1", stage.provider.url());
        stage.home.write("config.toml", config.clone() + &own.replace("URL", &url));
        stage.workspace.write(DEEP.0, DEEP.1.replace("openai-chat/other", "mine/other"));
        Ran::of(stage.piton(&["trust", "--yes"])).expect_code(0);
        let mut child = stage.piton(&["run", "--yes", "/deep it"]).spawn().unwrap();
        until("the command runs", || stage.workspace.has("started"));
        kill(child.id(), Signal::KILL);
        child.wait().unwrap();
        stage.workspace.write("go", "");
        if is_gone {
            stage.home.write("config.toml", config);
        }
        let ran = run(&stage, &["--continue"]);
        if is_gone {
            assert_eq!(ran.end(), "hook_stopped", "{}", ran.stderr);
            let detail = ran.result().to_string();
            assert!(detail.contains("its command's settings are unavailable"), "{detail}");
            assert_eq!(asked(&stage), ["other high"], "no other model is asked in its place");
            continue;
        }
        assert_eq!(ran.end(), "completed", "{}", ran.stderr);
        run(&stage, &["--continue", "again"]).expect_code(0);
        assert_eq!(asked(&stage), ["other high", "other high", "usual"]);
    }
}

const HELPER: (&str, &str) = (".opencode/agent/helper.md", "---\nmode: subagent\n---\nYou are the HELPER.");

#[test]
fn a_command_of_opencode_has_a_subagent_do_the_work_as_a_call_of_the_users() {
    let files = [
        HELPER,
        (
            ".opencode/command/count.md",
            "---\ndescription: Counts\nagent: helper\n---\nCount @notes.txt for $1: !`echo now`",
        ),
        ("notes.txt", "NOTES"),
    ];
    let script = json!([
        {"of": "Count @notes.txt for me: now", "text": "There are three."},
        {"text": "Three, it says."},
    ]);
    let stage = stage(script, &files);
    let ran = run(&stage, &["/count me"]).expect_code(0);
    assert_eq!(ran.result()["text"], "Three, it says.");
    assert_eq!(stage.provider.requests().len(), 2, "no model is asked for the call");
    let childs = body(&stage, 0);
    assert!(childs.contains("You are the HELPER.") && childs.contains("NOTES"), "{childs}");
    let messages = stage.last_messages();
    let [.., user, call, result, go_on] = &messages[..] else { panic!("{messages:?}") };
    assert!(user.to_string().contains("The following tool was executed by the user"), "{user}");
    let user = user.to_string();
    assert!(!user.contains("Count @notes.txt") && !user.contains("NOTES"), "only the subagent gets the words: {user}");
    let function = &call["tool_calls"][0]["function"];
    let input: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(function["name"], "task");
    assert_eq!((&input["description"], &input["subagent_type"]), (&json!("count"), &json!("helper")));
    assert!(input["prompt"].as_str().unwrap().starts_with("Count @notes.txt for me: now\n\n<files>"), "{input}");
    assert!(result["content"].as_str().unwrap().contains("There are three."), "{result}");
    assert!(go_on.to_string().contains("Summarize the task tool output above and continue with your task."));
    for kind in ["call_requested", "call_started", "delegated", "call_settled"] {
        assert!(!ran.all(kind).is_empty(), "{kind} is on record");
    }
    assert_eq!(ran.all("user_spoke")[0]["typed"], "/count me");
    // It is told to go on once.
    run(&stage, &["--continue", "and?"]);
    let requests = stage.provider.requests();
    assert_eq!(requests.last().unwrap().body.to_string().matches("Summarize the task tool").count(), 1);
}

#[test]
fn subtask_calls_whoever_is_named_with_its_model_and_says_where_it_may_not() {
    let files = [
        (".opencode/command/a.md", "---\nsubtask: true\nmodel: openai-chat/other\n---\nDo A."),
        (".opencode/command/b.md", "---\nagent: plan\nsubtask: true\n---\nDo B."),
        (".claude/commands/c.md", "---\ncontext: fork\nagent: general-purpose\n---\nDo C."),
        (".opencode/command/d.md", "---\nagent: helper\nsubtask: false\n---\nDo D."),
        HELPER,
    ];
    let stage = stage(answers(), &files);
    let called = |command: &str| {
        let ran = run(&stage, &[command]).expect_code(0);
        ran.all("delegated")[0]["agent"].as_str().unwrap().to_owned()
    };
    assert_eq!(["/a", "/b", "/c"].map(called), ["general", "explore", "general"]);
    assert_eq!(asked(&stage)[..2], ["other", "usual"], "the subagent has the model, and the session its own");
    run(&stage, &["/d"]).expect_code(1).expect_said(&["d.md cannot be used: the agent `helper` can only be called"]);
    let stage = stage.with_config("[permission]\ntask = \"deny\"\n");
    run(&stage, &["/a"])
        .expect_code(1)
        .expect_said(&["a.md cannot be used: it calls the agent general, and subagents"]);
}

#[test]
fn a_call_of_a_command_is_judged_and_hooks_see_it() {
    let files = [(".opencode/command/a.md", "---\nsubtask: true\n---\nDo A."), ("hook.sh", "cat > seen\nexit 0\n")];
    let stage = stage(json!([{"text": "I could not."}]), &files).with_config("[permission]\ntask = \"ask\"\n");
    let mut command = stage.piton(&["run", "--mode", "ask", "--format", "stream-json", "/a"]);
    command.stdin(std::process::Stdio::null());
    let ran = Ran::of(command);
    assert_eq!(ran.outcomes()[0]["status"], "denied", "{}", ran.stderr);
    assert!(ran.all("delegated").is_empty());
    let hooks = "[[hooks.PreToolUse]]\nmatcher = \"task\"\nhooks = [{ type = \"command\", command = \"sh hook.sh; echo no >&2; exit 2\" }]\n";
    let stage = self::stage(json!([{"text": "I could not."}]), &files).with_config(hooks);
    let ran = run(&stage, &["/a"]).expect_code(0);
    let outcome = &ran.outcomes()[0];
    assert!(outcome["text"].as_str().unwrap().contains("a hook refused it. no"), "{outcome} {}", ran.stderr);
    assert!(ran.all("delegated").is_empty());
    assert!(stage.workspace.read("seen").contains("Do A."), "{}", stage.workspace.read("seen"));
}

#[test]
fn killed_while_the_subagent_works_its_answer_still_comes() {
    let files = [(".opencode/command/a.md", "---\nsubtask: true\n---\nDo A.")];
    let gate = json!({"of": "Do A.", "tools": [{"name": "bash", "args": {"command": "touch started; echo x >> ran; until [ -e go ]; do sleep 0.02; done"}}]});
    let script = json!([gate, {"of": "Do A.", "text": "A is done."}, {"text": "All done."}]);
    let stage = stage(script, &files);
    let mut child = stage.piton(&["run", "--yes", "/a"]).spawn().unwrap();
    until("the command runs", || stage.workspace.has("started"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    stage.workspace.write("go", "");
    let ran = run(&stage, &["--continue"]).expect_code(0);
    assert_eq!(ran.result()["text"], "All done.");
    assert!(stage.last_messages().iter().any(|message| message.to_string().contains("A is done.")));
    assert_eq!(stage.workspace.read("ran"), "x\n");
}

#[test]
fn the_users_call_of_a_subagent_is_a_step_of_its_own_and_has_the_agents_name_and_the_commands_model() {
    let files = [(".opencode/command/a.md", "---\nagent: helper\nmodel: openai-chat/other\n---\nDo A."), HELPER];
    let stage = stage(answers(), &files);
    let ran = run(&stage, &["/a"]).expect_code(0);
    let (spoke, replies) = (ran.all("user_spoke").remove(0), ran.all("message_finished"));
    // A reply of its own, which no model made, to the user's message.
    let [call] = &replies[0]["reply"]["parts"].as_array().unwrap()[..] else { panic!("{}", replies[0]) };
    assert_eq!((replies.len(), &replies[0]["prompt"]), (2, &Value::Null));
    assert!(spoke["seq"].as_u64() < replies[0]["seq"].as_u64());
    assert_eq!(call["name"], "task");
    let requested = &ran.all("call_requested")[0];
    let input = json!({"description": "a", "prompt": "Do A.", "subagent_type": "helper", "model": "openai-chat/other"});
    assert_eq!(requested["input"], input);
    let delegated = &ran.all("delegated")[0];
    assert_eq!((&delegated["agent"], &delegated["call"]), (&json!("helper"), &requested["call"]));
    let child = stage.journal_of(delegated["child"].as_str().unwrap());
    assert_eq!(child[0]["parent"]["call"], requested["call"]);
    assert_eq!(asked(&stage), ["other", "usual"]);
}

#[test]
fn an_agent_that_is_asked_by_its_name_answers_whatever_the_rule_for_task_says() {
    let denied = "[permission]\ntask = \"deny\"\n\"task(explore)\" = \"deny\"\n";
    let script = json!([
        {"of": "where is it?", "text": "In notes.txt."}, {"text": "It is in notes.txt.", "repeat": true},
    ]);
    let stage = Stage::new(script).with_config(denied).with_files([("notes.txt", "it")]);
    let ran = stage.run(&["@explore where is it? @notes.txt"]).expect_code(0);
    assert_eq!(ran.result()["text"], "It is in notes.txt.");
    let requests = stage.provider.requests();
    assert_eq!(requests.len(), 2, "no model is asked for the call");
    let (childs, callers) = (requests[0].body.to_string(), requests[1].body.to_string());
    assert!(
        childs.contains("You find things out") && childs.contains("where is it?") && childs.contains("<files>"),
        "{childs}"
    );
    assert!(callers.contains("In notes.txt.") && callers.contains("executed by the user"), "{callers}");
    assert!(!requests[1].body["tools"].to_string().contains("\"task\""), "the model still cannot call it");
    assert_eq!(ran.all("user_spoke")[0]["typed"], "@explore where is it? @notes.txt");
    let requested = &ran.all("call_requested")[0];
    assert_eq!(requested["verdict"], "allow", "{requested}");
    assert_eq!(requested["judged"]["parts"][0]["why"], "a person asked the agent by its name", "{requested}");
    // What the model calls is denied as before.
    let stage = Stage::new(json!([
        {"tools": [{"name": "task", "args": {"description": "x", "prompt": "y", "subagent_type": "explore"}}]}, {"text": "no"},
    ]));
    let stage = stage.with_config(denied);
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(ran.all("delegated").is_empty() && ran.outcomes()[0]["status"] == "denied", "{:?}", ran.outcomes());
}

#[test]
fn a_file_of_an_agents_name_is_the_file_unless_agent_stands_before_it_and_hooks_still_have_their_say() {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}])).with_files([("explore", "a file")]);
    let ran = stage.run(&["@explore what is this?"]).expect_code(0);
    assert!(ran.all("delegated").is_empty());
    let asked = stage.provider.requests()[0].body.to_string();
    assert!(asked.contains("@explore what is this?") && asked.contains("a file"), "{asked}");
    let ran = stage.run(&["@agent-explore what is this?"]).expect_code(0);
    assert_eq!(ran.all("delegated")[0]["agent"], "explore");
    // What is piped in is for the agent.
    let mut piped = stage.run_command(&["@agent-explore what is this?"]);
    stage.home.write("log", "a log line");
    piped.stdin(std::fs::File::open(stage.home.path().join("log")).unwrap());
    let ran = Ran::of(piped).expect_code(0);
    assert!(ran.all("call_requested")[0]["input"]["prompt"].as_str().unwrap().contains("a log line"), "{}", ran.stdout);
    // No agent, no words, or not in front: words like any others.
    for words in ["@nobody what is this?", "@explore", " @general x", "ask @general x"] {
        assert!(stage.run(&[words]).expect_code(0).all("delegated").is_empty(), "{words}");
    }
    let hooks = "[[hooks.PreToolUse]]\nmatcher = \"task\"\nhooks = [{ type = \"command\", command = \"echo no >&2; exit 2\" }]\n";
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}])).with_config(hooks);
    let ran = stage.run(&["@general do it"]).expect_code(0);
    assert!(
        ran.all("delegated").is_empty() && ran.outcomes()[0]["text"].as_str().unwrap().contains("a hook refused it")
    );
}
