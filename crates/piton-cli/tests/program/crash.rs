//! Processes that die at a bad moment, and what the next one makes of it.

use crate::chat::{shown, wait_for};
use crate::stage::{Stage, descendants, is_alive, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// One call that finishes at once, and one that lasts: each leaves a line for every time it is run.
fn two_calls(last: &str) -> Value {
    json!([
        {"tools": [
            {"name": "bash", "args": {"command": "echo quick >> ran; echo quick result"}},
            {"name": "bash", "args": {"command": last}},
        ]},
        {"text": "understood", "repeat": true},
    ])
}

fn events_of(stage: &Stage, kind: &str) -> Vec<Value> {
    stage.journal().into_iter().filter(|event| event["type"] == kind).collect()
}

/// Starts a run and waits until the quick call is settled and the long one is under way.
fn mid_call(stage: &Stage) -> std::process::Child {
    let child = stage.start(&["go"]);
    until("the quick call is settled", || stage.printed().contains("call_settled"));
    until("the long call runs", || stage.workspace.has("started"));
    child
}

#[test]
fn after_the_whole_tree_is_killed_what_was_finished_is_kept_and_the_cut_call_is_interrupted() {
    let stage = Stage::new(two_calls("echo slow >> ran; touch started; sleep 600"));
    let mut child = mid_call(&stage);
    let tree = descendants(child.id());
    kill(child.id(), Signal::KILL);
    tree.iter().for_each(|pid| kill(*pid, Signal::KILL));
    child.wait().unwrap();
    until("the tree is gone", || !tree.iter().any(|pid| is_alive(*pid)));

    stage.run(&["--continue", "go on"]).expect_code(0);
    let settled = events_of(&stage, "call_settled");
    let statuses: Vec<&Value> = settled.iter().map(|event| &event["outcome"]["status"]).collect();
    assert_eq!(statuses, ["ok", "interrupted"]);
    assert_eq!(stage.workspace.read("ran").lines().count(), 2, "nothing ran twice");
    let messages = stage.last_messages();
    assert!(messages[3]["content"].as_str().unwrap().contains("quick result"), "{messages:?}");
    assert!(messages[4]["content"].as_str().unwrap().contains("interrupted"), "{messages:?}");
}

#[test]
fn after_piton_alone_is_killed_the_command_finishes_and_its_result_is_collected() {
    let last = "echo slow >> ran; touch started; until [ -e go ]; do sleep 0.05; done; echo slow result; exit 7";
    let stage = Stage::new(two_calls(last));
    let mut child = mid_call(&stage);
    let tree = descendants(child.id());
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    assert!(tree.iter().any(|pid| is_alive(*pid)), "the runner goes on");
    stage.workspace.write("go", "");
    until("the command is done", || !tree.iter().any(|pid| is_alive(*pid)));

    let ran = stage.run(&["--continue", "go on"]).expect_code(0);
    assert_eq!(ran.result()["changed_files"], true, "what a dead process changed counts too");
    let outcome = &events_of(&stage, "call_settled")[1]["outcome"];
    assert_eq!(outcome["status"], "failed", "{outcome}");
    assert!(outcome["text"].as_str().unwrap().contains("slow result"), "{outcome}");
    assert!(outcome["text"].as_str().unwrap().contains('7'), "its real exit code: {outcome}");
    assert_eq!(stage.workspace.read("ran").lines().count(), 2, "nothing ran twice");
}

#[test]
fn a_command_that_still_runs_is_waited_for_not_run_again() {
    let last = "echo slow >> ran; touch started; until [ -e go ]; do sleep 0.05; done; echo slow result";
    let stage = Stage::new(two_calls(last));
    let mut child = mid_call(&stage);
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let mut second = stage.start(&["--continue", "go on"]);
    until("the session is open again", || stage.printed().contains("writer_opened"));
    stage.workspace.write("go", "");
    assert!(second.wait().unwrap().success());
    let outcome = &events_of(&stage, "call_settled")[1]["outcome"];
    assert_eq!(outcome["status"], "ok", "{outcome}");
    assert_eq!(stage.workspace.read("ran").lines().count(), 2, "nothing ran twice");
}

#[test]
fn whoever_is_killed_whenever_nothing_is_lost_and_nothing_runs_twice() {
    for (seed, sandbox) in (1..=8).map(|seed| (seed, "workspace-write")).chain([(9, "off"), (10, "off"), (11, "off")]) {
        let program = piton_testkit::crash::slow::Program {
            piton: env!("CARGO_BIN_EXE_piton").into(),
            search_path: std::env::var_os("PATH").unwrap(),
            sandbox: sandbox.to_owned(),
        };
        let tally = piton_testkit::crash::slow::run(&program, seed);
        assert!(tally.violations.is_empty(), "seed {seed}: {:#?}", tally.violations);
    }
}

#[test]
fn a_tree_is_killed_and_every_subagent_goes_on_and_no_command_runs_twice() {
    let program = piton_testkit::crash::slow::Program {
        piton: env!("CARGO_BIN_EXE_piton").into(),
        search_path: std::env::var_os("PATH").unwrap(),
        sandbox: "workspace-write".to_owned(),
    };
    for seed in 1..=6 {
        let tally = piton_testkit::crash::slow::run_tree(&program, seed);
        assert!(tally.violations.is_empty(), "seed {seed}, {:?}: {:#?}", tally.kills, tally.violations);
    }
}

#[test]
fn killed_before_the_first_answer_the_task_is_not_lost() {
    let stage = Stage::new(json!([{"stall": 60, "text": "never"}, {"text": "here I am"}]));
    let mut child = stage.start(&["remember this task"]);
    until("the model is asked", || !stage.provider.requests().is_empty());
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let ran = stage.run(&["--continue"]).expect_code(0);
    assert_eq!(ran.result()["text"], "here I am");
    assert!(stage.last_messages()[1].to_string().contains("remember this task"));
}

#[test]
fn a_session_in_use_is_not_removed() {
    let stage = Stage::new(two_calls("touch started; sleep 600"));
    let mut child = mid_call(&stage);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let removal = crate::stage::Ran::of(stage.piton(&["session", "rm", &id])).expect_code(1);
    removal.expect_said(&["open in another"]);
    kill(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn ctrl_c_twice_quits_at_once() {
    let script = two_calls("trap '' INT TERM; touch started; sleep 600");
    let stage = Stage::new(script);
    let mut child = mid_call(&stage);
    let tree = descendants(child.id());
    kill(child.id(), Signal::INT);
    until("it has heard", || stage.printed().contains("cancel_requested"));
    kill(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    until("even a stubborn command is ended", || !tree.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_disk_that_takes_no_more_stops_the_session_before_the_next_act_and_it_goes_on_when_there_is_room() {
    let call =
        |n: u32| json!({"tools": [{"name": "bash", "args": {"command": format!("echo {n} >> ran; seq 1 2000")}}]});
    let mut script: Vec<Value> = (0..40).map(call).collect();
    script.push(json!({"text": "done at last"}));
    let stage = Stage::new(Value::from(script));
    let run = stage.run_command(&["go"]);
    // Files of at most 256 KiB: every write beyond fails, as on a full disk.
    let mut limited = std::process::Command::new("bash");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 256; exec \"$0\" \"$@\""]).arg(run.get_program()).args(run.get_args());
    limited.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    limited.current_dir(stage.workspace.path()).stdin(std::process::Stdio::null());
    let ran = crate::stage::Ran::of(limited).expect_code(1).expect_said(&["journal.db", "is safe"]);
    let acted = stage.workspace.read("ran").lines().count();
    let settled = events_of(&stage, "call_settled").len();
    assert!(settled > 0 && acted <= settled + 1, "{settled} recorded, {acted} done");
    assert_eq!(ran.events().last().unwrap()["type"], "broken");

    let ran = stage.run(&["--continue", "go on"]).expect_code(0);
    assert_eq!(ran.result()["text"], "done at last");
    let ran: Vec<String> = stage.workspace.read("ran").lines().map(str::to_owned).collect();
    let mut once: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    // A reply that could not be recorded is asked for again, and the script has the next one by then.
    let unheard = once.iter().position(|n| !ran.contains(n));
    unheard.map(|at| once.remove(at));
    assert_eq!(ran, once, "nothing else was left out, nothing ran twice");
}

#[test]
fn a_disk_that_is_full_at_the_start_leaves_nothing_of_the_session() {
    let stage = Stage::new(json!([{"text": "never asked"}]));
    let run = stage.run_command(&["--sandbox", "off", "go"]);
    std::fs::create_dir_all(stage.home.path().join("data")).unwrap();
    let script = "mount -t tmpfs -o size=4k none \"$HOME/data\"; \"$0\" \"$@\"; code=$?; ls -A \"$HOME/data/sessions\" > \"$HOME/left\"; exit $code";
    let mut small = std::process::Command::new("unshare");
    small.args(["--user", "--map-root-user", "--mount", "bash", "-c", script]);
    small.arg(run.get_program()).args(run.get_args());
    small.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    small.current_dir(stage.workspace.path()).stdin(std::process::Stdio::null());
    let ran = crate::stage::Ran::of(small);
    assert!(ran.code != 0 && ran.stderr.contains("no space left"), "{ran:?}");
    assert!(stage.provider.requests().is_empty());
    assert_eq!(stage.home.read("left"), "", "{ran:?}");
}

#[test]
fn the_time_a_session_lay_still_does_not_count() {
    let stage = Stage::new(json!([{"stall": 60, "text": "never"}, {"text": "here I am"}]));
    let stage = stage.with_config("[limits]\nmax_time = 2\n");
    let mut child = stage.start(&["go"]);
    until("the model is asked", || !stage.provider.requests().is_empty());
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    stage.run(&["--continue"]).expect_code(0);
}

#[test]
fn a_demo_that_was_killed_goes_on() {
    let stage = Stage::new(json!([]));
    let dir = stage.workspace.path();
    let mut command = crate::stage::bare(&stage.home.path());
    command.args(["demo", "--dir", dir.to_str().unwrap()]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let list = || crate::stage::Ran::of(stage.piton(&["session", "list", "--json"])).stdout;
    until("it has begun", || list().contains("recorded/demo"));
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let mut again = stage.piton(&["run", "--yes", "--continue"]);
    again.env_remove("OPENAI_API_KEY").env_remove("ANTHROPIC_API_KEY");
    crate::stage::Ran::of(again).expect_code(0);
    assert!(stage.workspace.read("src/lib.rs").contains("left_over"));
}

#[test]
fn a_command_that_still_runs_is_waited_for_and_that_is_said() {
    let last = "echo slow >> ran; touch started; until [ -e go ]; do sleep 0.05; done; echo slow result";
    let stage = Stage::new(two_calls(last));
    let mut child = mid_call(&stage);
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    let said = stage.home.path().join("stderr");
    let mut command = stage.run_command(&["--continue", "go on"]);
    command.stdout(std::process::Stdio::null()).stderr(std::fs::File::create(&said).unwrap());
    let mut next = command.spawn().unwrap();
    until("it is said", || stage.home.read("stderr").contains("a command from before is still running (process "));
    stage.workspace.write("go", "");
    assert!(next.wait().unwrap().success());
    assert_eq!(stage.workspace.read("ran").lines().count(), 2, "nothing ran twice");
}

#[test]
fn a_conversation_whose_disk_is_full_says_so_stays_and_goes_on_when_there_is_room() {
    let call =
        |n: u32| json!({"tools": [{"name": "bash", "args": {"command": format!("echo {n} >> ran; seq 1 2000")}}]});
    let mut script: Vec<Value> = (0..40).map(call).collect();
    script.push(json!({"text": "done at last"}));
    let stage = Stage::new(Value::from(script));
    // Files of at most 256 KiB (512 blocks of `sh`): every write beyond fails, as on a full disk.
    let limited = "stty rows 24 cols 90; trap '' XFSZ; ulimit -f 512; ";
    let args = ["--model", "openai-chat/test-model", "--yes", "--sandbox", "off", "go"];
    let mut person = stage.terminal_behind(limited, &args);
    wait_for(&person, "journal.db");
    wait_for(&person, "? keys");
    let acted = stage.workspace.read("ran").lines().count();
    let settled = events_of(&stage, "call_settled").len();
    assert!(settled > 0 && acted <= settled + 1, "{settled} recorded, {acted} done");
    // The face is there: what is typed is, and it is left as always.
    person.type_keys("a draft");
    wait_for(&person, "› a draft");
    assert_eq!(stage.workspace.read("ran").lines().count(), acted, "nothing runs that is not recorded");
    person.type_keys("\u{3}\u{4}");
    assert_eq!(person.end(), 0);
    assert!(shown(&person).contains("go on with: piton -c"), "{}", shown(&person));

    stage.run(&["--continue", "go on"]).expect_code(0);
    let ran: Vec<String> = stage.workspace.read("ran").lines().map(str::to_owned).collect();
    let mut once = ran.clone();
    once.dedup();
    assert!(ran.len() >= 39 && once == ran, "nothing ran twice: {ran:?}");
}
