//! `piton run` when all goes well.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

/// Reads a file with a bug, fixes it, checks it, answers.
fn repair() -> Value {
    json!([
        {"text": "Let me look.", "tools": [{"name": "read", "args": {"path": "sum.sh"}}]},
        {"tools": [{"name": "edit", "args": {"path": "sum.sh", "old_string": "1 - 1", "new_string": "1 + 1"}}]},
        {"tools": [{"name": "bash", "args": {"command": "sh sum.sh"}}], "usage": {"input": 500, "output": 20, "cached": 300}},
        {"text": "It adds now."},
    ])
}

const BUG: [(&str, &str); 1] = [("sum.sh", "echo $((1 - 1))\n")];

#[test]
fn read_edit_bash_answer_over_both_protocols() {
    for protocol in ["openai-chat", "anthropic"] {
        let stage = Stage::speaking(protocol, repair()).with_files(BUG);
        let ran = stage.run(&["fix the sum"]).expect_code(0);
        assert_eq!(ran.end(), "completed", "{protocol}");
        assert_eq!(stage.workspace.read("sum.sh"), "echo $((1 + 1))\n");
        let statuses: Vec<Value> = ran.outcomes().iter().map(|outcome| outcome["status"].clone()).collect();
        assert_eq!(statuses, ["ok", "ok", "ok"], "{protocol}");
        assert!(ran.outcomes()[2]["text"].as_str().unwrap().starts_with('2'), "{protocol}: {:?}", ran.outcomes()[2]);
        assert_eq!(ran.result()["text"], "It adds now.");
        assert_eq!(ran.result()["spent"]["steps"], 4);
        assert_eq!(stage.provider.requests().len(), 4);
    }
}

#[test]
fn the_stream_is_the_journal_in_order_without_a_gap() {
    let stage = Stage::new(repair()).with_files(BUG);
    let ran = stage.run(&["fix the sum"]);
    let printed: Vec<Value> = ran.events().into_iter().filter(|event| event.get("seq").is_some()).collect();
    let journal = stage.journal();
    assert!(printed == journal[..printed.len()], "what is printed is what is recorded");
    let seqs: Vec<u64> = journal.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(journal.last().unwrap()["type"], "writer_closed");
}

#[test]
fn text_goes_to_stdout_and_everything_else_to_stderr() {
    let stage = Stage::new(repair()).with_files(BUG);
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "fix the sum"])).expect_code(0);
    assert_eq!(ran.stdout, "Let me look.\nIt adds now.\n");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines[0].starts_with("✓ read sum.sh"), "{lines:?}");
    assert!(lines[1].starts_with("✓ edit sum.sh"), "{lines:?}");
    assert!(lines[2].starts_with("✓ bash sh sum.sh"), "{lines:?}");
    assert!(lines[3].starts_with("openai-chat/m · 4 steps · ") && lines[3].contains("ses_"), "{lines:?}");
    assert!(!ran.stderr.contains('\x1b'), "no colour where nobody sees it");
}

#[test]
fn quiet_prints_the_answer_and_nothing_else() {
    let stage = Stage::new(repair()).with_files(BUG);
    let ran =
        Ran::of(stage.piton(&["run", "--yes", "--quiet", "--model", "openai-chat/m", "fix the sum"])).expect_code(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("It adds now.\n", ""));
}

#[test]
fn json_prints_one_object() {
    let stage = Stage::new(repair()).with_files(BUG);
    let ran = Ran::of(stage.piton(&["run", "--yes", "--format", "json", "--model", "openai-chat/m", "fix the sum"]));
    assert_eq!(ran.expect_code(0).events().len(), 1);
}

#[test]
fn the_task_may_come_by_standard_input_or_be_given_more_context_there() {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}]));
    let cases: [(&str, &[&str]); 2] =
        [("-", &["from the pipe"]), ("explain this", &["explain this", "\n\n<stdin>\nfrom the pipe\n</stdin>"])];
    for (arg, expected) in cases {
        let mut command = stage.run_command(&[arg]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"from the pipe\n").unwrap();
        assert!(child.wait().unwrap().success());
        let said = stage.last_messages().pop().unwrap().to_string();
        let is_said = |words: &&str| said.contains(&json!(words).to_string());
        assert!(expected.iter().all(is_said), "{said}");
    }
}

#[test]
fn continue_takes_up_the_newest_session_of_the_folder() {
    let stage = Stage::new(json!([{"text": "one"}, {"text": "two"}, {"text": "three", "repeat": true}]));
    stage.run(&["first"]).expect_code(0);
    let again = Ran::of(stage.piton(&["run", "--format=stream-json", "--continue", "second"])).expect_code(0);
    assert_eq!(again.result()["turn"], 2);
    let words: Vec<Value> = stage.last_messages().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(words, ["system", "user", "assistant", "user"]);
    let id = again.result()["session"].as_str().unwrap().to_owned();
    let by_prefix = stage.run(&["--resume", &id[..20], "third"]);
    assert_eq!(by_prefix.result()["session"], id.as_str());
    let set = stage.piton(&["run", "--format=stream-json", "--continue", "--set", "model=openai-chat/other", "fourth"]);
    Ran::of(set).expect_code(0);
    assert_eq!(stage.provider.requests().last().unwrap().body["model"], "other", "what is set wins over what it had");
}

#[test]
fn without_yes_what_would_be_asked_is_refused_and_said_so() {
    let script = json!([
        {"tools": [{"name": "read", "args": {"path": "sum.sh"}}, {"name": "bash", "args": {"command": "touch touched"}}]},
        {"text": "I may not."},
    ]);
    let stage = Stage::new(script).with_files(BUG);
    let ran = Ran::of(stage.piton(&["run", "--model", "openai-chat/m", "fix the sum"])).expect_code(3);
    assert!(!stage.workspace.has("touched"));
    ran.expect_said(&["✓ read", "✗ bash", "--yes"]);
}

#[test]
fn allow_and_deny_name_single_tools() {
    let script = json!([
        {"tools": [{"name": "bash", "args": {"command": "touch by-bash"}}, {"name": "write", "args": {"path": "by-write", "content": ""}}]},
        {"text": "done"},
    ]);
    let stage = Stage::new(script);
    let ran = Ran::of(stage.piton(&["run", "--yes", "--deny", "write", "--model", "openai-chat/m", "go"]));
    assert!(stage.workspace.has("by-bash") && !stage.workspace.has("by-write"));
    ran.expect_said(&["✗ write"]);
}

#[test]
fn a_run_can_be_recorded_and_played_back() {
    let stage = Stage::new(repair()).with_files(BUG);
    let tape = stage.home.path().join("tape.jsonl");
    stage.run(&["--record", tape.to_str().unwrap(), "fix the sum"]).expect_code(0);
    stage.workspace.write("sum.sh", BUG[0].1);
    let model = format!("recorded/{}", tape.display());
    let again = Ran::of(stage.piton(&["run", "--yes", "--model", &model, "fix the sum"])).expect_code(0);
    assert_eq!(again.stdout, "Let me look.\nIt adds now.\n");
    assert_eq!(stage.workspace.read("sum.sh"), "echo $((1 + 1))\n");
    assert_eq!(stage.provider.requests().len(), 4, "the provider was not asked again");
}

#[test]
fn keys_of_providers_do_not_reach_the_shell() {
    let script = json!([{"tools": [{"name": "bash", "args": {"command": "env"}}]}, {"text": "done"}]);
    let stage = Stage::new(script);
    let ran = stage.run(&["go"]).expect_code(0);
    let env = ran.outcomes()[0]["text"].as_str().unwrap().to_owned();
    assert!(env.contains("PATH=") && !env.contains("sk-test"), "{env}");
}

#[test]
fn the_limits_end_a_turn_with_their_own_codes() {
    let echo = |n: u32| json!({"tools": [{"name": "bash", "args": {"command": format!("echo {n}")}}], "usage": {"input": 1000, "output": 10}});
    let same = json!({"tools": [{"name": "bash", "args": {"command": "echo same"}}]});
    let busy: Value = (0..9).map(echo).collect();
    let circle: Value = std::iter::repeat_n(same, 9).collect();
    let long = json!({"tools": [{"name": "bash", "args": {"command": "seq 1 20000"}}]});
    let long_circle: Value = std::iter::repeat_n(long, 9).collect();
    let cases = [
        (long_circle, "--max-steps=9", "no_progress"),
        (busy.clone(), "--max-steps=2", "max_steps"),
        (busy.clone(), "--max-tokens=1500", "budget"),
        (circle.clone(), "--max-steps=9", "no_progress"),
    ];
    for (script, flag, end) in cases {
        let stage = Stage::new(script);
        assert_eq!(stage.run(&[flag, "go"]).end(), end);
    }
    let stage = Stage::new(circle);
    Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"]))
        .expect_said(&["the same call with the same result 3 times in a row", "--set limits.max_repeats=N"]);
    let slow = json!([{"tools": [{"name": "bash", "args": {"command": "sleep 30"}}]}]);
    assert_eq!(Stage::new(slow).run(&["--max-time=1", "go"]).end(), "budget");
}

#[test]
fn eight_calls_of_one_reply_run_side_by_side_and_are_answered_in_order() {
    // Each call waits for the others: one after the other they would wait for ever.
    let wait = |n: u32| {
        let command = format!("touch here{n}; until [ $(ls here* | wc -l) = 8 ]; do sleep 0.02; done; echo {n}");
        json!({"name": "bash", "args": {"command": command, "timeout": 20000}})
    };
    let calls: Vec<Value> = (0..8).map(wait).collect();
    let stage = Stage::new(json!([{"tools": calls}, {"text": "done"}]));
    stage.run(&["go"]).expect_code(0);
    let answers = stage.last_messages().into_iter().filter(|message| message["role"] == "tool");
    let numbers: Vec<String> = answers.map(|answer| answer["content"].as_str().unwrap()[..1].to_owned()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn the_first_request_spends_at_most_8_kb_on_prompt_and_tools() {
    let stage = Stage::new(json!([{"text": "ok"}]));
    stage.run(&["go"]).expect_code(0);
    let body = stage.provider.requests()[0].body.clone();
    let bytes = body["tools"].to_string().len() + body["messages"][0].to_string().len();
    assert!(bytes <= 8 * 1024, "{bytes} bytes");
}

#[test]
fn an_answer_that_was_cut_and_continued_is_one_answer() {
    let stage = Stage::new(json!([{"text": "first half, ", "finish": "length"}, {"text": "second half"}]));
    let ran = Ran::of(stage.piton(&["run", "--quiet", "--model", "openai-chat/m", "write"])).expect_code(0);
    assert_eq!(ran.stdout, "first half, second half\n");
}

#[test]
fn the_last_step_has_the_same_tools_and_may_not_use_them() {
    for (protocol, none) in [("openai-chat", json!("none")), ("anthropic", json!({"type": "none"}))] {
        let busy = json!({"tools": [{"name": "bash", "args": {"command": "true"}}]});
        let stage = Stage::speaking(protocol, json!([busy, {"text": "that was all"}]));
        assert_eq!(stage.run(&["--max-steps=2", "go"]).end(), "max_steps");
        let requests = stage.provider.requests();
        assert_eq!(requests[0].body["tools"], requests[1].body["tools"], "the cache holds");
        assert_eq!((&requests[0].body["tool_choice"], &requests[1].body["tool_choice"]), (&Value::Null, &none));
    }
}

#[test]
fn every_call_is_settled_once_whether_it_ran_or_not() {
    let calls = json!([{"tools": [
        {"name": "bash", "args": {"command": "true"}},
        {"name": "bash", "raw": "{broken"},
        {"name": "invented", "args": {}},
        {"name": "write", "args": {"path": "x", "content": ""}},
    ]}, {"text": "done"}]);
    let stage = Stage::new(calls);
    let ran = stage.run(&["--deny", "write", "go"]).expect_code(0);
    let statuses: Vec<Value> = ran.outcomes().iter().map(|outcome| outcome["status"].clone()).collect();
    assert_eq!(statuses, ["ok", "failed", "failed", "denied"]);
}

#[test]
fn yes_answers_questions_and_lifts_no_ban() {
    let script = json!([{"tools": [{"name": "bash", "args": {"command": "touch x"}}]}, {"text": "done"}]);
    let stage = Stage::new(script).with_config("[permission]\nbash = \"deny\"\n");
    let ran = stage.run(&["go"]);
    assert_eq!(ran.outcomes()[0]["status"], "denied");
    assert!(!stage.workspace.has("x"));
}

#[test]
fn a_server_of_ones_own_is_described_in_the_configuration() {
    let stage = Stage::new(json!([{"text": "one"}, {"text": "two"}]));
    let config = |key: &str| {
        format!("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{}/v1\"\n{key}\n", stage.provider.url())
    };
    let run = |key: &str| {
        stage.home.write("config.toml", config(key));
        let mut command = stage.piton(&["run", "--format=stream-json", "--model", "mine/anything", "go"]);
        command.env_remove("OPENAI_BASE_URL").env_remove("OPENAI_API_KEY").env("MINE", "sk-from-variable");
        Ran::of(command)
    };
    let ran = run("key_variable = \"MINE\"").expect_code(0);
    assert_eq!(ran.all("turn_started")[0]["model"], "mine/anything");
    run("key_command = \"echo sk-from-command\"").expect_code(0);
    let keys: Vec<_> =
        stage.provider.requests().iter().map(|request| request.header("authorization").unwrap().to_owned()).collect();
    assert_eq!(keys, ["Bearer sk-from-variable", "Bearer sk-from-command"]);
    run("key_command = \"false\"").expect_code(1).expect_said(&["key_command of mine failed"]);
}

#[test]
fn all_five_protocols_do_the_same_work() {
    for protocol in ["openai-responses", "google", "ollama-native"] {
        let stage = Stage::speaking(protocol, repair()).with_files(BUG);
        let mut command = stage.run_command(&["fix the sum"]);
        let url = stage.provider.url();
        command.env("GEMINI_API_KEY", "k").env("GEMINI_BASE_URL", format!("{url}/v1beta"));
        if protocol == "ollama-native" {
            stage
                .home
                .write("config.toml", format!("[providers.{protocol}]\nprotocol = \"ollama\"\nbase_url = \"{url}\"\n"));
        }
        let ran = Ran::of(command).expect_code(0);
        assert_eq!(ran.end(), "completed", "{protocol}");
        assert_eq!(stage.workspace.read("sum.sh"), "echo $((1 + 1))\n", "{protocol}");
        let requests = stage.provider.requests();
        // Ollama is also asked for its window.
        assert_eq!(
            requests.iter().filter(|request| request.method == "POST" && request.path != "/api/show").count(),
            4,
            "{protocol}"
        );
    }
}

#[test]
fn text_comes_to_a_pipe_as_the_model_says_it() {
    let stage = Stage::new(json!([{"pieces": ["one ", "two"], "delay_ms": 1_500}]));
    let mut command = stage.piton(&["run", "--model", "openai-chat/m", "go"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = [0; 4];
    let mut stdout = child.stdout.take().unwrap();
    std::io::Read::read_exact(&mut stdout, &mut first).unwrap();
    let was_answering = stage.provider.requests().iter().all(|request| request.answered.is_none());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    assert!(was_answering, "the first piece was there before the second was sent");
    assert_eq!((&first, rest.as_str()), (b"one ", "two\n"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn text_that_a_failed_try_had_said_is_told_to_be_abandoned_or_not_printed_at_all() {
    let script = || Stage::new(json!([{"text": "par", "drop": true}, {"text": "whole"}]));
    let ran = Ran::of(script().piton(&["run", "--model", "openai-chat/m", "go"])).expect_code(0);
    assert_eq!(ran.stdout, "par\nwhole\n");
    ran.expect_said(&["the text above is abandoned", "retry 1 in"]);
    let ran = Ran::of(script().piton(&["run", "--quiet", "--model", "openai-chat/m", "go"])).expect_code(0);
    assert_eq!(ran.stdout, "whole\n");
}

#[test]
fn a_full_disk_behind_standard_output_is_not_success() {
    let stage = Stage::new(json!([{"text": "an answer"}]));
    let mut command = stage.piton(&["run", "--quiet", "--model", "openai-chat/m", "go"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard output could not be written"));
}

#[test]
fn a_finished_session_is_not_gone_on_with_unless_something_is_said() {
    let refused = json!({"status": 401, "body": {"error": {"message": "invalid key"}}});
    let stage = Stage::new(json!([{"text": "Done."}, refused, {"text": "Going on."}]));
    stage.run(&["go"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    for args in [&["--continue"][..], &["--resume", &id]] {
        let ran = stage.run(args).expect_code(1);
        ran.expect_said(&["last turn is finished", "Nothing was sent", "piton run -c \"…\""]);
    }
    assert_eq!(stage.provider.requests().len(), 1, "nothing was paid for");

    // One that came to another end goes on as before.
    stage.run(&["--continue", "and more"]).expect_code(10);
    assert_eq!(stage.run(&["--continue"]).expect_code(0).result()["text"], "Going on.");
    assert!(stage.last_messages().last().unwrap().to_string().contains("Go on."));
}

#[test]
fn tokens_and_costs_that_nobody_told_are_not_zero() {
    let stage = Stage::new(json!([{"text": "Done.", "usage": {"input": 0, "output": 0}}]));
    let ran = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "go"])).expect_code(0);
    ran.expect_said(&[" · tokens unknown · cost unknown · "]);
    let session = |what: &str| Ran::of(stage.piton(&["session", what, "last"])).expect_code(0);
    session("cost").expect_stdout(&["tokens unknown · cost unknown; unknown, at most"]);
    let trace = session("trace").expect_stdout(&["stop, tokens unknown, cost unknown"]);
    assert!(!trace.stdout.contains('$'), "{}", trace.stdout);
}
