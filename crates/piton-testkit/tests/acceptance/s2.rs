//! Document S2: the plan to reform the same loop.

use super::*;

/// S2-002: a plain answer is one request; nobody asks whether it is done.
#[test]
fn s2_002_a_plain_answer_is_one_request() {
    assert_eq!(Lab::new("coder-mvp", vec![says("done")]).run().requests.len(), 1);
}

/// S2-003 S2-054: twenty-five steps where nobody says anything.
#[test]
fn s2_003_an_endless_run_stops_after_25_steps() {
    let ran = Lab::new("coder-mvp", rounds(99)).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::MaxSteps, 25));
}

/// S2-004 S2-012 S2-050: the number of steps is an option of the run.
#[test]
fn s2_004_the_number_of_steps_is_an_option() {
    let ran = Lab::new("coder-mvp", rounds(99)).change(|settings| settings.policy.steps.max = Some(3)).run();
    assert_eq!(ran.requests.len(), 3);
}

/// S2-010 S2-011: instructions and every tool go with each request.
#[test]
fn s2_010_instructions_and_tools_go_with_each_request() {
    let mut lines = rounds(1);
    lines.push(says("done"));
    let ran = Lab::new("coder-mvp", lines)
        .tools(ToolSet::builtin())
        .change(|settings| settings.system = "Be good.".into())
        .run();
    for request in &ran.requests {
        let names: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(
            (request.system.as_str(), names),
            (
                "Be good.",
                vec![
                    "bash",
                    "bash_kill",
                    "bash_output",
                    "echo",
                    "edit",
                    "glob",
                    "grep",
                    "list",
                    "read",
                    "todo",
                    "write"
                ]
            )
        );
    }
}

/// S2-014 S2-015 S2-016: what was said, called and answered is in the next request, text beside a call too.
#[test]
fn s2_016_text_beside_a_call_is_kept() {
    let ran = Lab::new("coder-mvp", vec![calls("Let me see.", &[("echo", json!({"n": 1}))]), says("done")]).run();
    let words = ran.words(1);
    assert!(words.contains("Let me see.") && words.contains("tool_result"), "{words}");
    assert_eq!(&*ran.report().result, "done");
}

/// S2-018: a reply that was cut is returned as it is, and marked; without text, the sentence is.
#[test]
fn s2_018_a_cut_reply_is_the_answer_and_is_marked() {
    for (text, returned) in [("part", "part"), ("", "Context limit reached.")] {
        let ran = Lab::new("coder-mvp", vec![finishes(text, FinishReason::Length), says("never")]).run();
        assert_eq!((ran.requests.len(), &*ran.report().result), (1, returned));
        assert_eq!(ran.report().detail.as_deref(), Some("Context limit reached."));
    }
}

/// S2-024: an error that was retried is not in the conversation.
#[test]
fn s2_024_errors_are_not_part_of_the_conversation() {
    let ran = Lab::new("coder-mvp", vec![fails(429), says("ok")]).run();
    assert_eq!(ran.words(0), ran.words(1));
    assert_eq!(ran.played.transcript().len(), 2);
}

/// S2-030 S2-031 S2-033 S2-005: thirty thousand characters, half from each end, of any tool.
#[test]
fn s2_030_long_output_is_cut_in_the_middle() {
    let long = Arc::new(Prop { name: "echo".into(), says: Some("x".repeat(100_000)), ..Prop::default() });
    let mut lines = rounds(1);
    lines.push(says("done"));
    let ran = Lab::new("coder-mvp", lines).props(vec![long]).run();
    let text = &ran.outcomes()[0].text;
    assert!(text.starts_with(&format!("{}\n\n... [truncated 70000 characters] ...\n\n", "x".repeat(15_000))));
    assert!(ran.words(1).len() < 32_000);
}

/// S2-034: the cut never splits a character.
#[test]
fn s2_034_the_cut_is_between_characters() {
    let long =
        Arc::new(Prop { name: "echo".into(), says: Some(format!("a{}", "😀".repeat(40_000))), ..Prop::default() });
    let mut lines = rounds(1);
    lines.push(says("done"));
    let ran = Lab::new("coder-mvp", lines).props(vec![long]).run();
    let text = &ran.outcomes()[0].text;
    assert!(text.starts_with("a😀") && text.contains("😀\n\n... [truncated 10001 characters] ...\n\n😀"));
}

/// S2-040 S2-041 S2-009 S2-054: three identical calls in a row, over the whole run, end it.
#[test]
fn s2_040_three_identical_calls_end_the_run() {
    let ran = Lab::new("coder-mvp", vec![calls("", &[("echo", json!({"same": 1}))])]).run();
    assert_eq!((ran.end(), ran.requests.len()), (TurnEnd::NoProgress, 3));
    assert_eq!(&*ran.report().result, "Request aborted.");
    assert_eq!(
        ran.report().detail.as_deref(),
        Some("[Warning] Doom loop detected, aborting..."),
        "and people are warned"
    );
}

/// S2-042: another call in between makes it no loop.
#[test]
fn s2_042_another_call_in_between_makes_it_no_loop() {
    let same = || calls("", &[("echo", json!({"same": 1}))]);
    let lines = vec![same(), same(), calls("", &[("echo", json!({"other": 1}))]), same(), same(), says("done")];
    assert_eq!(Lab::new("coder-mvp", lines).run().end(), TurnEnd::Completed);
}

/// S2-025: a wait between retries is cut short by a cancel.
#[test]
fn s2_025_a_wait_can_be_cancelled() {
    let ran = Lab::new("coder-mvp", vec![fails(503), hangs("")]).run();
    assert_eq!((ran.end(), ran.waits()), (TurnEnd::Canceled, vec![2_000]));
}
