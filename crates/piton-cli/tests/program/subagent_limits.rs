//! Subagents: the limits of a tree, what agent files ask of a call, and what a cancel and an undo of the root mean to those below.

use crate::stage::{Ran, Stage, until};
use crate::steer::Talk;
use crate::subagents::{bash, children, git, kinds, task, two_levels};
use serde_json::{Value, json};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Calls of agents, each with what it is told.
fn calls(calls: &[(&str, &str)]) -> Value {
    let call = |(agent, prompt): &(&str, &str)| json!({"name": "task", "args": {"description": "a part", "prompt": prompt, "subagent_type": agent}});
    json!({"tools": calls.iter().map(call).collect::<Vec<_>>()})
}

fn of(prompt: &str, mut answer: Value) -> Value {
    answer["of"] = json!(prompt);
    answer
}

/// An agent of the user's, with these fields.
fn with_agent(stage: &Stage, name: &str, fields: &str) {
    let text = format!("---\nname: {name}\ndescription: The {name}\n{fields}---\nYou are the {name}.");
    stage.home.write(format!("agents/{name}.md"), text);
}

/// The most of these, each with its beginning and its end, that went on at a time.
fn most_at_once(spans: &[(u128, u128)]) -> i64 {
    let mut changes: Vec<(u128, i64)> = spans.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]).collect();
    changes.sort_unstable();
    let mut now = 0;
    changes
        .iter()
        .map(|(_, change)| {
            now += change;
            now
        })
        .max()
        .unwrap_or(0)
}

/// When each request was answered and each command ran, in nanoseconds.
fn at_work(stage: &Stage) -> Vec<(u128, u128)> {
    let (here, now) = (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    let nanoseconds = |at: Instant| (now - (here - at)).as_nanos();
    let asked = stage.provider.requests();
    let asked = asked.iter().map(|request| (nanoseconds(request.arrived), nanoseconds(request.answered.unwrap())));
    let log = stage.workspace.read("log");
    let ran = log.lines().map(|line| {
        let (from, to) = line.split_once(' ').unwrap();
        (from.parse().unwrap(), to.parse().unwrap())
    });
    asked.chain(ran).collect()
}

#[test]
fn no_more_than_four_of_a_tree_work_at_a_time_and_all_of_them_end() {
    const COMMAND: &str = "from=$(date +%s%N); sleep 0.05; echo $from $(date +%s%N) >> log";
    let leads = ["lead alpha", "lead beta", "lead gamma", "lead delta", "lead epsilon"];
    let mut script = vec![calls(&leads.map(|lead| ("lead", lead)))];
    for lead in leads {
        let parts = ["one", "two", "three"].map(|part| format!("part {part} of {}", &lead[5..]));
        let mut begin = calls(&parts.each_ref().map(|part| ("general", part.as_str())));
        // It works beside those that work for it, too.
        begin["tools"].as_array_mut().unwrap().push(json!({"name": "bash", "args": {"command": COMMAND}}));
        script.extend([of(lead, begin), json!({"of": lead, "text": "led", "stall": 0.05})]);
        for part in &parts {
            script.extend([bash(part, COMMAND), json!({"of": part, "text": "done", "stall": 0.05})]);
        }
    }
    script.push(json!({"text": "all is done"}));
    let stage = Stage::new(Value::Array(script));
    with_agent(&stage, "lead", "tools: Task, Bash\n");
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.result()["result"], "all is done");
    assert!(
        ran.outcomes().iter().all(|outcome| outcome["text"].as_str().unwrap().starts_with("led")),
        "{}",
        ran.stdout
    );
    let spans = at_work(&stage);
    assert_eq!(spans.len(), (2 + 5 * 2 + 15 * 2) + (5 + 15), "every request and every command");
    let most = most_at_once(&spans);
    assert!((2..=4).contains(&most), "{most} at a time");
}

#[test]
fn a_line_of_subagents_is_three_deep_and_the_fourth_is_refused() {
    let levels = ["level one", "level two", "level three", "level four"];
    let down = |at: usize| calls(&[("lead", levels[at])]);
    let stage = Stage::new(json!([
        down(0),
        of(levels[0], down(1)),
        of(levels[1], down(2)),
        of(levels[2], down(3)),
        {"of": levels[2], "text": "It ends here."},
        {"of": levels[1], "text": "two"},
        {"of": levels[0], "text": "one"},
        {"text": "done"},
    ]));
    with_agent(&stage, "lead", "tools: Task, Bash\n");
    stage.run(&["go"]).expect_code(0);
    let requests = stage.provider.requests();
    let has_task: Vec<bool> =
        requests[1..4].iter().map(|request| request.body["tools"].to_string().contains("\"task\"")).collect();
    assert_eq!(has_task, [true, true, false], "it is not offered to the third");
    let told = requests[4].body["messages"].to_string();
    assert!(told.contains("Tool task not found"), "{told}");
    let sessions = Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events();
    assert_eq!(sessions.len(), 4, "the root and three below");
}

#[test]
fn a_turn_calls_64_subagents_and_the_next_is_refused_in_words() {
    // One reply has no more than 64 calls.
    let mut script = vec![task(&["do a part"; 60]), task(&["do a part"; 5]), json!({"text": "done"})];
    script.extend(vec![json!({"of": "do a part", "text": "It is done."}); 64]);
    let stage = Stage::new(Value::Array(script));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(children(&ran.events()).len(), 64);
    let (refused, answered): (Vec<Value>, Vec<Value>) =
        ran.outcomes().into_iter().partition(|outcome| outcome["status"] == "failed");
    assert_eq!((refused.len(), answered.len()), (1, 64));
    let text = refused[0]["text"].as_str().unwrap();
    assert!(text.starts_with("64 subagents have been called in this turn, and no more may"), "{text}");
    // The next turn has its own.
    let script = json!([task(&["one"]), {"text": "done", "repeat": true}]);
    let next = Stage { provider: piton_testkit::FakeProvider::start(script), ..stage };
    assert_eq!(next.run(&["--continue", "again"]).expect_code(0).outcomes()[0]["status"], "ok");
}

#[test]
fn the_steps_of_an_agent_stop_it_and_not_its_caller() {
    let step = bash("count on", "true");
    let stage = Stage::new(json!([calls(&[("counter", "count on")]), step, step, step, {"text": "done"}]));
    with_agent(&stage, "counter", "maxTurns: 2\n");
    let ran = stage.run(&["go"]).expect_code(0);
    let outcome = ran.outcomes().remove(0);
    let text = outcome["text"].as_str().unwrap();
    assert!(text.contains("[the subagent did not finish: max steps"), "{text}");
    assert_eq!(outcome["status"], "failed");
    assert_eq!(stage.provider.requests().len(), 1 + 2 + 1, "two steps of its own");
}

#[test]
fn an_agent_file_has_its_agent_work_in_the_background_or_in_a_worktree() {
    let stage = Stage::new(json!([
        calls(&[("beside", "work beside"), ("apart", "work apart")]),
        {"of": "work beside", "text": "Beside."},
        {"of": "work apart", "tools": [{"name": "write", "args": {"path": "new.txt", "content": "new\n"}}]},
        {"of": "work apart", "text": "Apart."},
        {"text": "done", "repeat": true},
    ]))
    .with_files([("a.txt", "one\n")]);
    with_agent(&stage, "beside", "background: true\n");
    with_agent(&stage, "apart", "isolation: worktree\n");
    git(&stage, &["init", "-q", "-b", "main"]);
    git(&stage, &["add", "a.txt"]);
    git(&stage, &["commit", "-qm", "first"]);
    let ran = stage.run(&["go"]).expect_code(0);
    let texts = ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert!(texts[0].starts_with("The subagent beside works in the background."), "{texts:?}");
    assert!(texts[1].starts_with("Apart.") && texts[1].contains("changed: new.txt]"), "{texts:?}");
    assert!(!stage.workspace.has("new.txt"));
    assert_eq!(kinds(&ran.events(), "task_ended"), 1);
}

#[test]
fn a_hidden_agent_cannot_be_called_and_a_disabled_one_not_even_run_a_session() {
    let stage = Stage::new(json!([calls(&[("shy", "x"), ("off", "x")]), {"text": "done", "repeat": true}]));
    with_agent(&stage, "shy", "hidden: true\n");
    with_agent(&stage, "off", "disable: true\n");
    let ran = stage.run(&["go"]).expect_code(0);
    let offered = stage.provider.requests()[0].body["tools"].to_string();
    assert!(!offered.contains("The shy") && !offered.contains("The off"), "{offered}");
    for (outcome, name) in ran.outcomes().iter().zip(["shy", "off"]) {
        let text = outcome["text"].as_str().unwrap();
        assert!(text.contains(&format!("there is no agent {name}.")), "{text}");
    }
    assert_eq!(kinds(&ran.events(), "delegated"), 0);
    stage.run(&["--agent", "shy", "go"]).expect_code(0);
    stage.run(&["--agent", "off", "go"]).expect_code(1).expect_said(&["`off`"]);
    let opened = &ran.all("opened")[0];
    assert_eq!(opened["agents"], json!(["build", "explore", "general", "plan", "shy"]));
}

#[test]
fn a_cancel_of_the_root_ends_a_question_two_levels_down() {
    let stage = two_levels(&json!({"of": "dig deep", "text": "dug"}));
    let mut talk = Talk::asking(&stage, &["go"]);
    until("it asks", || talk.count("wanted") == 1);
    talk.say(json!({"do": "cancel"}));
    until("the root has ended", || talk.count("result") == 1);
    talk.end();
    assert_eq!((talk.results()[0].0.as_str(), talk.count("withdrawn")), ("canceled", 1));
    assert!(!stage.workspace.has("dug"), "what was asked about did not run");
    let sessions = Ran::of(stage.piton(&["session", "list", "--json", "--tree"])).events();
    assert_eq!(sessions.len(), 3);
    for session in &sessions {
        let events = stage.journal_of(session["id"].as_str().unwrap());
        assert_eq!(session["last_end"], "canceled", "{session}");
        assert_eq!((kinds(&events, "call_settled"), kinds(&events, "approval_given")), (1, 0), "{session}");
    }
    // Who goes on is asked nothing of that.
    let stage = Stage { provider: piton_testkit::FakeProvider::start(json!([{"text": "fine"}])), ..stage };
    let mut talk = Talk::asking(&stage, &["--continue", "go on"]);
    until("it is answered", || talk.count("result") == 1);
    assert_eq!((talk.end(), talk.count("wanted")), (0, 0));
}

#[test]
fn an_undo_of_the_callers_turn_takes_back_what_a_subagent_changed() {
    let stage = Stage::new(json!([
        task(&["change both"]),
        {"of": "change both", "tools": [{"name": "write", "args": {"path": "made.txt", "content": "made\n"}}]},
        bash("change both", "echo two > kept.txt"),
        {"of": "change both", "text": "changed"},
        {"text": "done"},
    ]))
    .with_files([("kept.txt", "one\n")]);
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!((stage.workspace.has("made.txt"), stage.workspace.read("kept.txt").as_str()), (true, "two\n"));
    assert_eq!(ran.result()["changed_files"], true);
    Ran::of(stage.piton(&["undo"])).expect_code(0);
    assert_eq!((stage.workspace.has("made.txt"), stage.workspace.read("kept.txt").as_str()), (false, "one\n"));
    let agents = Ran::of(stage.piton(&["session", "agents", "last"])).expect_code(0);
    assert!(agents.stdout.contains("taken back"), "{}", agents.stdout);
}
