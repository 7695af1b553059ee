//! Subagents: the limits of a tree.

use crate::stage::Stage;
use crate::subagents::bash;
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
