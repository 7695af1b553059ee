//! What a run may cost, what it did cost, and what the provider's cache did for it.

use crate::chat::{shown, wait_for};
use crate::stage::{Ran, Stage, kill, until};
use serde_json::{Value, json};

/// A model with a price: $3 for a million tokens in, $3.75 with a write to the cache, $0.30 from it, $15 out.
const PRICED: &str = "--model=anthropic/claude-sonnet-4-6";

/// A step that runs a command, as the provider counts it.
fn step(n: u32, input: u64, cached: u64) -> Value {
    let usage = json!({ "input_tokens": input - cached, "cache_read_input_tokens": cached, "output_tokens": 100 });
    json!({ "tools": [{ "name": "bash", "args": { "command": format!("echo {n}") } }], "usage": usage })
}

fn end(input: u64, cached: u64) -> Value {
    let usage = json!({ "input_tokens": input - cached, "cache_read_input_tokens": cached, "output_tokens": 100 });
    json!({ "text": "done", "usage": usage })
}

/// The same of a call that wrote all of its prompt but 100 tokens to the cache.
fn written(mut answer: Value) -> Value {
    let all = answer["usage"]["input_tokens"].as_u64().unwrap();
    answer["usage"]["input_tokens"] = json!(100);
    answer["usage"]["cache_creation_input_tokens"] = json!(all - 100);
    answer
}

fn run(stage: &Stage, args: &[&str]) -> Ran {
    let mut command = stage.piton(&["run", "--yes", "--format=stream-json", PRICED, "go"]);
    command.args(args);
    Ran::of(command)
}

fn bill(stage: &Stage, json: &[&str]) -> Ran {
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let mut command = stage.piton(&["session", "cost", &id]);
    command.args(json);
    Ran::of(command).expect_code(0)
}

#[test]
fn a_budget_that_covers_no_call_ends_the_turn_before_the_first() {
    let stage = Stage::new(json!([end(100, 0)]));
    for flag in ["--max-cost=0.01", "--max-tokens=1500"] {
        let ran = run(&stage, &[flag]).expect_code(6);
        assert_eq!(ran.end(), "budget");
        let detail = ran.result()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with("the next call c") && detail.contains("left"), "{detail}");
        assert_eq!(ran.all("budget_short").len(), 1);
    }
    assert!(stage.provider.requests().is_empty(), "nothing was asked");
}

#[test]
fn a_long_reply_is_capped_to_what_the_budget_leaves() {
    let stage = Stage::new(json!([step(1, 1_000, 0), end(1_200, 0)]));
    run(&stage, &["--max-cost=0.30"]).expect_code(0);
    let caps: Vec<u64> =
        stage.provider.requests().iter().map(|seen| seen.body["max_tokens"].as_u64().unwrap()).collect();
    assert!(caps.iter().all(|cap| (1_000..20_000).contains(cap)), "{caps:?}");
    assert!(caps[1] > caps[0], "what the provider has counted need not be guessed: {caps:?}");
    let free = Stage::new(json!([end(4_000, 0)]));
    run(&free, &[]).expect_code(0);
    assert_eq!(free.provider.requests()[0].body["max_tokens"], 32_000, "without a budget nothing is capped");
}

#[test]
fn whatever_the_model_does_no_more_than_the_budget_is_spent() {
    // Each reply is as long as it was allowed to be.
    let greedy = |n: u32| {
        let usage = json!({ "input_tokens": 3_000 + 60 * n, "output_tokens": 1_000 });
        json!({ "tools": [{ "name": "bash", "args": { "command": format!("echo {n}") } }], "usage": usage })
    };
    let stage = Stage::new((1..40).map(greedy).collect());
    let ran = run(&stage, &["--max-cost=0.25"]).expect_code(6);
    let spent = ran.result()["spent"]["cost_micros"].as_u64().unwrap();
    assert!((100_000..=250_000).contains(&spent), "{spent}");
}

#[test]
fn a_session_spends_no_more_than_its_budget_however_often_it_is_run_again() {
    // Each turn costs $0.0135: 4,000 tokens in and 100 out.
    let stage = Stage::new((0..40).map(|_| end(4_000, 0)).collect());
    run(&stage, &["--max-session-cost=0.10"]).expect_code(0);
    let again = |args: &[&str]| {
        let mut command = stage.piton(&["run", "--yes", "--format=stream-json", "--continue", "go"]);
        command.args(args);
        Ran::of(command)
    };
    let mut asked = 1;
    let last = loop {
        let ran = again(&["--max-session-cost=0.10"]);
        if ran.code != 0 {
            break ran.expect_code(6);
        }
        asked += 1;
        assert!(asked < 10, "nothing ends it");
    };
    assert_eq!((last.end().as_str(), stage.provider.requests().len()), ("budget", asked), "the last run asked nothing");
    let detail = last.result()["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with("of $0.1000 is left in this session"), "{detail}");
    let spent: u64 = asked as u64 * 13_500;
    assert!((50_000..=100_000).contains(&spent), "{spent}");
    // In words, and how it goes on.
    let plain = stage.piton(&["run", "--yes", "--continue", "go", "--max-session-cost=0.10"]);
    Ran::of(plain).expect_code(6).expect_said(&["Raise the limit with --max-session-cost USD"]);
    again(&["--max-session-cost=0.50"]).expect_code(0);
}

#[test]
fn an_attempt_that_was_cut_counts_with_the_worst_it_can_have_cost() {
    let stage = Stage::new(json!([{ "text": "I will", "end_early": true }, { "text": "done", "repeat": true }]));
    let ran = run(&stage, &["--max-cost=0.10"]).expect_code(6);
    assert_eq!(stage.provider.requests().len(), 1, "what is left may not cover a second");
    let failed = &ran.all("model_failed")[0];
    let at_most = failed["at_most"]["cost_micros"].as_u64().unwrap();
    assert!((90_000..=100_000).contains(&at_most), "{failed}");
    assert_eq!(ran.result()["spent"]["unpriced_calls"], 1);
    bill(&stage, &[]).expect_stdout(&["step 1 failed", "cost unknown", "unknown, at most"]);
}

/// Gemini's way to say that the model's call could not be read. It has counted what that took.
#[test]
fn an_unusable_answer_that_was_counted_costs_what_was_counted() {
    let usage = json!({ "input": 4_000, "output": 50 });
    let unusable = json!({ "tools": [{ "name": "read" }], "finish": "MALFORMED_FUNCTION_CALL", "usage": usage });
    let stage = Stage::new(json!([unusable, unusable, { "text": "done", "usage": usage }]));
    let mut command = stage.piton(&["run", "--yes", "--format=stream-json", "--model=google/gemini-2.5-pro", "go"]);
    command.arg("--max-cost=1").env("GEMINI_API_KEY", "k").env("GEMINI_BASE_URL", stage.provider.url());
    let ran = Ran::of(command).expect_code(0);
    let failed = ran.all("model_failed");
    assert_eq!(failed.len(), 2);
    for event in failed {
        assert_eq!((&event["usage"]["input_tokens"], &event["usage"]["output_tokens"]), (&json!(4_000), &json!(50)));
        // $1.25 for a million in, $10 out.
        assert_eq!((&event["cost_micros"], event.get("at_most")), (&json!(5_500), None), "{event}");
        assert_eq!(event["error"].get("usage"), None, "it is told once");
    }
    assert_eq!(ran.result()["spent"]["cost_micros"], 16_500);
    bill(&stage, &[]).expect_stdout(&["session  12,000 tokens in, 150 out · $0.0165"]);
}

#[test]
fn refusals_cost_nothing_and_leave_the_budget_as_it_was() {
    let busy = json!({ "status": 529, "body": { "error": { "message": "busy" } } });
    let stage = Stage::new(json!([busy, busy, end(4_000, 0)]));
    let ran = run(&stage, &["--max-cost=0.10"]).expect_code(0);
    assert_eq!(ran.result()["spent"].get("unpriced_calls"), None);
}

#[test]
fn a_run_that_is_resumed_after_a_kill_remembers_the_call_that_nobody_answered() {
    let stage = Stage::new(json!([{ "stall": 60 }, end(4_000, 0)]));
    let mut command = stage.piton(&["run", "--yes", PRICED, "--max-cost=0.10", "go"]);
    let mut child = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    until("the model is asked", || stage.provider.requests().len() == 1);
    kill(child.id(), rustix::process::Signal::KILL);
    child.wait().unwrap();
    let again = stage.piton(&["run", "--yes", "--format=stream-json", "--continue", "--max-cost=0.10"]);
    let again = Ran::of(again).expect_code(6);
    assert!(again.all("model_failed")[0]["at_most"]["cost_micros"].as_u64().unwrap() > 80_000, "{}", again.stdout);
    assert_eq!(stage.provider.requests().len(), 1);
}

#[test]
fn what_a_session_cost_is_told_by_step_by_turn_and_in_all() {
    let stage = Stage::new(json!([step(1, 10_000, 0), step(2, 11_000, 10_000), end(12_000, 11_000)]));
    let spent = run(&stage, &[]).expect_code(0).result()["spent"]["cost_micros"].clone();
    let told = &bill(&stage, &["--json"]).events()[0];
    assert_eq!(told["cost_micros"], spent);
    assert_eq!(told["turns"][0]["calls"][0]["cost_micros"], 31_500);
    assert_eq!(told["turns"][0]["calls"][1]["cost_micros"], 3_000 + 3_000 + 1_500);
    assert_eq!(told["models"][0]["model"], "anthropic/claude-sonnet-4-6");
    assert_eq!(
        told["cache"],
        json!({ "predicted_tokens": 21_000, "reported_tokens": 21_000, "misses": 0, "lost_micros": null })
    );
    bill(&stage, &[]).expect_stdout(&["turn 1", "step 3", "session", "no misses", "$0.0"]);
}

#[test]
fn a_cache_that_the_provider_lost_is_told_with_its_cost() {
    let stage = Stage::new(json!([written(step(1, 50_000, 0)), end(51_000, 0)]));
    let text = stage.piton(&["run", "--yes", PRICED, "go"]);
    Ran::of(text).expect_code(0).expect_said(&[
        "cache was missed",
        "$0.1350",
        "in step 2",
        "no longer had the previous request",
        "piton session cost ses_",
    ]);
    let told = &bill(&stage, &["--json"]).events()[0];
    let reading = &told["turns"][0]["calls"][1]["cache"];
    assert_eq!((&reading["predicted_tokens"], &reading["reported_tokens"]), (&json!(50_000), &json!(0)));
    assert_eq!((&reading["miss"]["cause"], &reading["lost_micros"]), (&json!("not_kept"), &json!(135_000)));
}

#[test]
fn where_no_cache_was_ever_reported_nothing_is_missed() {
    let stage = Stage::new(json!([step(1, 50_000, 0), step(2, 51_000, 0), end(52_000, 0)]));
    let ran = Ran::of(stage.piton(&["run", "--yes", PRICED, "go"])).expect_code(0);
    assert!(!ran.stderr.contains("cache was missed"), "{}", ran.stderr);
    let told = bill(&stage, &[]).expect_stdout(&["the provider reported no cache reads"]);
    assert!(!told.stdout.contains("not kept"), "{}", told.stdout);
}

#[test]
fn a_prefix_that_we_changed_is_told_apart_across_a_resume() {
    let stage = Stage::new(json!([written(end(50_000, 0)), end(51_000, 0), end(52_000, 51_000)]));
    run(&stage, &[]).expect_code(0);
    let other = stage.piton(&["run", "--yes", "--continue", "--model=anthropic/claude-opus-4-5", "more"]);
    Ran::of(other).expect_code(0).expect_said(&["another model was asked"]);
    Ran::of(stage.piton(&["run", "--yes", "--continue", "and more"])).expect_code(0);
    let told = &bill(&stage, &["--json"]).events()[0];
    let cache = |turn: usize| told["turns"][turn]["calls"][0]["cache"].clone();
    assert_eq!(cache(1)["miss"]["cause"], "model_changed");
    assert_eq!((&cache(2)["predicted_tokens"], &cache(2)["miss"]), (&json!(51_000), &Value::Null));
    assert_eq!(told["models"].as_array().unwrap().len(), 2);
}

#[test]
fn an_unknown_price_is_unknown_and_never_zero() {
    let stage = Stage::new(json!([{ "text": "done" }]));
    stage.run(&["go"]).expect_code(0);
    let told = &bill(&stage, &["--json"]).events()[0];
    assert_eq!((&told["cost_micros"], &told["unpriced_calls"]), (&Value::Null, &json!(1)));
    bill(&stage, &[]).expect_stdout(&["cost unknown"]);
}

#[test]
fn what_is_known_in_part_is_a_least() {
    let stage = Stage::new(json!([{ "text": "done" }, end(10_000, 0)]));
    stage.run(&["go"]).expect_code(0);
    Ran::of(stage.piton(&["run", "--yes", PRICED, "--continue", "go"])).expect_code(0);
    bill(&stage, &[]).expect_stdout(&["session", "at least $0.0315"]);
    let list = Ran::of(stage.piton(&["session", "list"])).expect_code(0);
    assert!(list.stdout.contains("≥$0.0315"), "{}", list.stdout);
}

/// What Messages is asked with one budget and these options.
fn asked(budget: &str, args: &[&str], config: &str) -> Value {
    let stage = Stage::speaking("anthropic", json!([end(100, 0)])).with_config(config);
    let mut command = stage.piton(&["run", "--yes", "--model=anthropic/claude-sonnet-4-5", budget, "go"]);
    command.args(args);
    Ran::of(command).expect_code(0);
    stage.provider.requests()[0].body.clone()
}

#[test]
fn no_option_lifts_the_cap_of_a_budget_and_no_cap_lifts_an_option() {
    let most = |body: &Value| body["max_tokens"].as_u64().unwrap();
    let plain = most(&asked("--max-cost=0.20", &[], ""));
    assert!((1_000..20_000).contains(&plain), "{plain}");
    let extra = asked("--max-cost=0.20", &[], "[options]\nextra_body = { max_tokens = 64000 }\n");
    assert_eq!(most(&extra), plain);
    assert_eq!(most(&asked("--max-cost=0.30", &["--max-output=1500"], "")), 1_500);
    let thinking = asked("--max-cost=0.20", &["--effort=high"], "");
    let budget = thinking["thinking"]["budget_tokens"].as_u64().unwrap();
    assert!(budget < most(&thinking) && most(&thinking) == plain, "{thinking}");
}

#[test]
fn a_reply_of_which_only_the_prompt_was_counted_has_no_known_cost() {
    let events = [
        json!({ "type": "message_start", "message": { "id": "m", "usage": { "input_tokens": 100, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "word ".repeat(2_000) } }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let stage = Stage::new(json!([{ "status": 200, "body": body }]));
    let ran = run(&stage, &["--max-cost=1"]).expect_code(0);
    let finished = &ran.all("message_finished")[0];
    assert_eq!(finished.get("cost_micros"), None, "{finished}");
    assert!(finished["at_most"]["cost_micros"].as_u64().unwrap() > 30_000, "{finished}");
}

/// An answer that the provider pauses, with what it has used so far.
fn paused(n: u32) -> Value {
    let search = json!({ "type": "server_tool_use", "id": format!("s{n}"), "name": "web_search", "input": {} });
    json!({ "status": 200, "body": { "id": format!("m{n}"), "content": [{ "type": "text", "text": "hm" }, search],
        "stop_reason": "pause_turn", "usage": { "input_tokens": 20_000, "output_tokens": 6_000 } } })
}

#[test]
fn a_reply_that_is_paused_keeps_to_the_budget_and_is_paid_for_piece_by_piece() {
    let stage = Stage::new(json!([paused(0), paused(1), paused(2), end(100, 0)]));
    // Each piece costs $0.15.
    let ran = run(&stage, &["--max-cost=0.30"]).expect_code(6);
    assert_eq!(ran.end(), "budget");
    assert!(stage.provider.requests().len() < 3, "{}", stage.provider.requests().len());
    assert!(ran.result()["spent"]["cost_micros"].as_u64().unwrap() <= 300_000);

    let overloaded = json!({ "status": 529, "body": { "error": { "message": "no" } }, "repeat": true });
    let stage = Stage::new(json!([paused(0), overloaded]));
    let ran = run(&stage, &["--max-cost=5"]).expect_code(10);
    assert_eq!(ran.result()["spent"]["cost_micros"], 150_000, "what was said before the failure was paid for");

    let stage = Stage::new(json!([paused(0), end(100, 0)]));
    let ran = run(&stage, &["--max-cost=5"]).expect_code(0);
    assert_eq!(ran.result()["text"], "done");
    let messages = stage.last_messages();
    assert_eq!(
        messages.last().unwrap()["content"][1]["type"],
        "server_tool_use",
        "it goes on from there: {messages:?}"
    );
}

#[test]
fn a_count_that_nobody_can_mean_is_unknown_and_breaks_no_session() {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": u64::MAX, "total_tokens": 5 });
    let stage = Stage::new(json!([{ "text": "done", "usage": usage }, { "text": "again" }]));
    let ran = stage.run(&["go"]).expect_code(0);
    assert_eq!(ran.all("message_finished")[0]["reply"]["usage"]["output_tokens"], 0);
    stage.run(&["--continue", "go on"]).expect_code(0);
}

#[test]
fn how_much_of_a_budget_is_spent_is_told_with_the_cost() {
    let stage = Stage::new(json!([end(10_000, 0), end(10_000, 0)]));
    run(&stage, &[]).expect_code(0);
    let without = bill(&stage, &[]);
    assert!(!without.stdout.contains("budget"), "{}", without.stdout);
    assert_eq!(bill(&stage, &["--json"]).events()[0].get("budget"), None);
    let limits = ["--max-session-cost=1", "--max-cost=0.50"];
    let mut again = stage.piton(&["run", "--yes", "--continue", "go on"]);
    again.args(limits);
    Ran::of(again).expect_code(0);
    let told = [
        "budget   $0.0630 of $1.0000 for the session (6 %)",
        "budget   $0.0315 of $0.5000 for each turn, in the last (6 %)",
    ];
    bill(&stage, &[]).expect_stdout(&told);
    let json = &bill(&stage, &["--json"]).events()[0];
    assert_eq!(json["budget"], json!({"session_micros": 1_000_000, "turn_micros": 500_000}));
    // The conversation prints the same.
    let mut person = stage.terminal_behind("stty rows 24 cols 90; ", &["-c", limits[0], limits[1]]);
    wait_for(&person, "? keys");
    person.type_keys("/cost --plain\r");
    wait_for(&person, "session  20,000");
    assert!(told.iter().all(|line| shown(&person).contains(line)), "{}", shown(&person));
    person.type_keys("q\u{4}");
    assert_eq!(person.end(), 0);
}
