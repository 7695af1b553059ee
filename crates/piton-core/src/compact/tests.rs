//! The arithmetic of making room, as specifications.

use super::*;
use crate::message::{Message, Part, Role};

fn window(context: u64, output: u64) -> ModelWindow {
    ModelWindow { context: Some(context), input: None, output: Some(output) }
}

#[test]
fn a_small_window_keeps_three_quarters_and_a_large_one_all_but_a_reply() {
    let rules = Compaction::piton();
    assert_eq!(rules.full_at(window(32_000, 8_000)), Some(24_000));
    assert_eq!(rules.full_at(window(128_000, 16_000)), Some(108_000));
    assert_eq!(rules.full_at(window(200_000, 64_000)), Some(168_000));
    assert_eq!(rules.full_at(ModelWindow { input: Some(100_000), ..window(200_000, 8_000) }), Some(80_000));
    assert_eq!(rules.full_at(ModelWindow::default()), None, "nobody knows when it is full");
    assert_eq!(rules.full_at(window(0, 0)), None);
    assert_eq!(rules.with_reserve(1_000).full_at(window(32_000, 0)), Some(31_000));
}

#[test]
fn other_loops_count_in_other_ways() {
    assert_eq!(Compaction::opencode().full_at(window(100_000, 32_000)), Some(68_000));
    assert_eq!(Compaction::neovate().full_at(window(100_000, 8_000)), Some(70_001));
    assert_eq!(Compaction::neovate().full_at(window(8_000, 8_000)), Some(25_600), "never below its least");
    assert_eq!(Compaction::pulse().full_at(ModelWindow::default()), Some(48_000));
}

fn output(tool: &str, tokens: u64) -> PrunableOutput<'_> {
    PrunableOutput { tool, tokens, turns_since: 0, failed: false, pruned: false }
}

#[test]
fn pruning_takes_the_oldest_outputs_and_only_where_it_is_worth_it() {
    let rule = Prune::piton();
    let of = |tokens: &[u64]| select(&rule, tokens.iter().map(|tokens| output("bash", *tokens)));
    assert_eq!(of(&[30_000, 30_000, 30_000]), [1, 2]);
    assert!(of(&[40_000, 19_999]).is_empty(), "it frees too little");
    assert_eq!(of(&[40_000, 20_000]), [1]);
    assert!(select(&Prune { on: false, ..rule.clone() }, [output("bash", 1_000_000)]).is_empty());
    let gone = PrunableOutput { pruned: true, ..output("bash", 10) };
    assert_eq!(select(&rule, [output("bash", 70_000), gone, output("bash", 70_000)]), [0], "the rest went before");
    let kept = Prune { protect_tools: vec!["skill".to_owned()], failed_too: false, protect_turns: 1, ..rule };
    let newer = |output| PrunableOutput { turns_since: 1, ..output };
    let failed = PrunableOutput { failed: true, ..newer(output("bash", 90_000)) };
    let outputs = [output("bash", 90_000), newer(output("skill", 90_000)), failed, newer(output("bash", 90_000))];
    assert_eq!(select(&kept, outputs), [3]);
}

#[test]
fn what_is_kept_begins_where_it_may() {
    // A message of the user, then calls and their results.
    let may_begin = |place: usize| [true, true, false, true, false][place];
    let sizes = [10, 10, 100, 10, 100];
    assert_eq!(by_tokens(&sizes, may_begin, 1_000), None, "all of it fits");
    assert_eq!(by_tokens(&sizes, may_begin, 115), Some(CompactionPlan { summed_up: 3 }));
    assert_eq!(
        by_tokens(&sizes, may_begin, 105),
        Some(CompactionPlan { summed_up: 5 }),
        "a result does not stay alone"
    );
    assert_eq!(by_tokens(&[], may_begin, 5), None);
}

#[test]
fn turns_are_kept_whole() {
    let turns = [true, false, true, false, true, false];
    assert_eq!(by_turns(&turns, 2, false), Some(CompactionPlan { summed_up: 2 }));
    assert_eq!(by_turns(&turns, 3, false), None);
    assert_eq!(by_turns(&turns, 3, true), Some(CompactionPlan { summed_up: 5 }));
}

#[test]
fn the_first_words_and_the_newest_come_before_all_others() {
    let words: Vec<(u64, String)> = (1..=20).map(|n| (n, format!("{n}: {}", "x".repeat(400)))).collect();
    let text = verbatim(&words, 600, Family::OpenAi);
    assert!(text.starts_with("(event 1) 1: xxx"), "{text}");
    assert!(text.contains("(event 20) 20: ") && !text.contains("(event 2) "), "{text}");
    assert!(text.contains("to be read with `history`: events 2, 3, "), "{text}");
    let long = vec![(7, format!("the task{}the end", "ä".repeat(50_000)))];
    let text = verbatim(&long, 1_000, Family::OpenAi);
    assert!(text.contains("the task") && text.contains("the end") && text.contains("seq 7"), "{}", text.len());
    assert!(text.len() < 4_000, "{}", text.len());
}

#[test]
fn a_summary_names_what_no_model_may_forget() {
    let used = |seq, changed| FileUse { seq, changed };
    let dropped = Dropped {
        words: vec![(2, "never touch the schema".to_owned())],
        files: vec![("a.rs".to_owned(), used(5, false)), ("b.rs".to_owned(), used(4, true))],
        skills: Vec::new(),
        upto: 9,
    };
    let text = text(&dropped, "## Next step\nrun the tests", 1_000, Family::Open);
    assert!(text.starts_with(MARK) && text.contains("Events 1 to 9"), "{text}");
    let places = ["never touch the schema", "b.rs (changed, event 4)", "a.rs (read, event 5)", "run the tests"];
    let found: Vec<usize> = places.iter().map(|words| text.find(words).unwrap_or_else(|| panic!("{text}"))).collect();
    assert!(found.is_sorted(), "{text}");
    assert!(instruction(Some(" the API ")).ends_with("dwell on this: the API"));
    assert_eq!(instruction(Some("  ")), INSTRUCTION);
}

#[test]
fn an_estimate_grows_with_the_text_and_by_family() {
    let message = |text: &str| Message::new(Role::User, vec![Part::text(text)]);
    let long = message(&"word ".repeat(1_000));
    assert!(
        of_message(Family::of("anthropic/claude-sonnet-4-5"), &long) > of_message(Family::of("openai/gpt-5"), &long)
    );
    assert!((1_000..2_000).contains(&of_message(Family::of("ollama/qwen3"), &long)));
    assert!(of_message(Family::Open, &message("")) > 0);
}

#[test]
fn a_model_that_imitates_the_head_of_a_summary_does_not_take_its_place() {
    let before =
        text(&Dropped { words: vec![(2, "the old rule".to_owned())], ..Dropped::default() }, "", 1_000, Family::Open);
    let said = format!("{before}\n## Decisions and why\nnone\n## Next step\ngo on\n");
    assert_eq!(own_words(&said), "## Decisions and why\nnone\n## Next step\ngo on");
    assert_eq!(own_words(" ## Next step\ngo on "), "## Next step\ngo on");
    assert_eq!(own_words(&format!("{MARK} It was long.]\nall is done")), "all is done");
    assert_eq!(own_words(&format!("{MARK} It was long.")), "", "nothing of its own");
}

#[test]
fn what_the_model_has_not_answered_to_is_not_summed_up() {
    let call = |id: &str| {
        let input = crate::call::CallInput::Json(serde_json::json!({}));
        Part::ToolCall(crate::message::ToolCall {
            id: id.into(),
            provider_id: None,
            name: "read".into(),
            spelling: None,
            input,
            opaque: None,
        })
    };
    let message = |role: Role, parts: Vec<Part>| Message::new(role, parts);
    let (user, says) = (message(Role::User, vec![Part::text("x")]), message(Role::Assistant, vec![Part::text("x")]));
    let (calls, results) = (message(Role::Assistant, vec![call("c1_0")]), message(Role::Tool, vec![]));
    let of = |messages: &[&Message]| unread(messages.iter().copied());
    assert_eq!(of(&[&user, &says, &user, &calls, &results]), 3);
    assert_eq!(of(&[&user, &calls, &results, &user]), 1, "what was said since, and the results before it");
    assert_eq!(of(&[&user, &says, &user]), 2);
    assert_eq!(of(&[&user, &says]), 1, "it shall go on with it");
    assert_eq!(of(&[&user]), 0);
    assert_eq!(evenly(vec![10, 500, 700], 410), 200);
    assert_eq!(evenly(vec![10, 500], 600), u64::MAX, "all of it fits");
}
