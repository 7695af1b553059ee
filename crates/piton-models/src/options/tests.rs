//! One table per protocol: what was said, and what the body gets.

use super::*;
use expect_test::{Expect, expect};

fn said(toml_like: Value) -> Options {
    serde_json::from_value(toml_like).expect("options")
}

fn target(protocol: WireProtocol, model: &str) -> Target<'_> {
    Target { protocol, thinking: Thinking::Three, model, max_tokens: 32_000 }
}

/// One line per model: the members of the body, and what is left out.
fn check<'m>(options: Value, targets: impl IntoIterator<Item = Target<'m>>, expected: &Expect) {
    let options = said(options);
    let lines = targets.into_iter().map(|target| {
        let Translated { body, left_out } = options.translate(target);
        let left_out: String = left_out.iter().map(|line| format!(" ({line})")).collect();
        format!("{}: {}{left_out}\n", target.model, Value::Object(body))
    });
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn each_generation_of_claude_is_told_to_think_in_its_own_words() {
    let models = ["claude-3-5-haiku-20241022", "claude-sonnet-4-20250514", "claude-haiku-4-5", "claude-opus-4-6"]
        .into_iter()
        .chain(["claude-opus-4-7", "anthropic.claude-opus-4-8", "claude-sonnet-5-5", "MiniMax-M2"]);
    let targets: Vec<Target<'_>> = models.map(|model| target(WireProtocol::Anthropic, model)).collect();
    check(
        json!({ "effort": "xhigh", "temperature": 0.5 }),
        targets.clone(),
        &expect![[r#"
            claude-3-5-haiku-20241022: {"temperature":0.5} (effort is not sent to claude-3-5-haiku-20241022: it does not think)
            claude-sonnet-4-20250514: {"thinking":{"type":"enabled","budget_tokens":24576}} (temperature is not sent to claude-sonnet-4-20250514: it takes none while it thinks)
            claude-haiku-4-5: {"thinking":{"type":"enabled","budget_tokens":24576}} (temperature is not sent to claude-haiku-4-5: it takes none while it thinks)
            claude-opus-4-6: {"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}} (temperature is not sent to claude-opus-4-6: it takes none while it thinks)
            claude-opus-4-7: {"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}} (temperature is not sent to claude-opus-4-7: it takes none)
            anthropic.claude-opus-4-8: {"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}} (temperature is not sent to anthropic.claude-opus-4-8: it takes none)
            claude-sonnet-5-5: {"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"xhigh"}} (temperature is not sent to claude-sonnet-5-5: it takes none)
            MiniMax-M2: {"thinking":{"type":"enabled","budget_tokens":24576}} (temperature is not sent to MiniMax-M2: it takes none while it thinks)
        "#]],
    );
    check(
        json!({ "thinking_budget": 2000 }),
        targets.into_iter().skip(3).take(2),
        &expect![[r#"
            claude-opus-4-6: {"thinking":{"type":"enabled","budget_tokens":2000}}
            claude-opus-4-7: {"thinking":{"type":"adaptive","display":"summarized"}} (thinking_budget is not sent to claude-opus-4-7: it decides itself how long it thinks; say effort)
        "#]],
    );
}

#[test]
fn thoughts_leave_room_for_the_answer() {
    let small = |max_tokens| Target { max_tokens, ..target(WireProtocol::Anthropic, "claude-sonnet-4-5") };
    check(
        json!({ "effort": "high" }),
        [small(1_500), small(4_096)],
        &expect![[r#"
            claude-sonnet-4-5: {} (effort is not sent to claude-sonnet-4-5: max_output has no room for thoughts)
            claude-sonnet-4-5: {"thinking":{"type":"enabled","budget_tokens":3072}}
        "#]],
    );
}

#[test]
fn a_temperature_is_not_sent_to_models_of_openai_that_refuse_it() {
    let models = ["gpt-4.1", "gpt-5-chat-latest", "gpt-5.4", "openai/gpt-5.5", "o3"];
    check(
        json!({ "temperature": 0.0 }),
        models.map(|model| target(WireProtocol::Responses, model)),
        &expect![[r#"
            gpt-4.1: {"temperature":0.0}
            gpt-5-chat-latest: {"temperature":0.0}
            gpt-5.4: {} (temperature is not sent to gpt-5.4: it thinks, and takes none then)
            openai/gpt-5.5: {} (temperature is not sent to openai/gpt-5.5: it thinks, and takes none then)
            o3: {} (temperature is not sent to o3: it thinks, and takes none then)
        "#]],
    );
    check(
        json!({ "temperature": 0.0, "effort": "none" }),
        [target(WireProtocol::Chat, "gpt-5.4")],
        &expect![[r#"
            gpt-5.4: {"temperature":0.0,"reasoning_effort":"none"}
        "#]],
    );
}

#[test]
fn chat_completions_have_seven_ways_to_say_how_much_to_think() {
    let styles = [Thinking::Scale, Thinking::Three, Thinking::Two, Thinking::Object, Thinking::Switch]
        .into_iter()
        .chain([Thinking::SwitchAndTwo, Thinking::Qwen]);
    let targets: Vec<Target<'_>> =
        styles.map(|thinking| Target { thinking, ..target(WireProtocol::Chat, "m") }).collect();
    check(
        json!({ "effort": "max" }),
        targets.clone(),
        &expect![[r#"
            m: {"reasoning_effort":"xhigh"}
            m: {"reasoning_effort":"high"}
            m: {"reasoning_effort":"high"}
            m: {"reasoning":{"effort":"xhigh"}}
            m: {"thinking":{"type":"enabled"}}
            m: {"thinking":{"type":"enabled"},"reasoning_effort":"max"}
            m: {"enable_thinking":true}
        "#]],
    );
    check(
        json!({ "effort": "none" }),
        targets.clone(),
        &expect![[r#"
            m: {"reasoning_effort":"none"}
            m: {"reasoning_effort":"none"}
            m: {"reasoning_effort":"none"}
            m: {"reasoning":{"effort":"none"}}
            m: {"thinking":{"type":"disabled"}}
            m: {"thinking":{"type":"disabled"}}
            m: {"enable_thinking":false}
        "#]],
    );
    check(
        json!({ "thinking_budget": 500 }),
        [targets[1], targets[3], targets[6]],
        &expect![[r#"
            m: {} (thinking_budget is not sent to m: it counts no tokens of thought; say effort)
            m: {"reasoning":{"max_tokens":500}}
            m: {"enable_thinking":true,"thinking_budget":500}
        "#]],
    );
}

#[test]
fn gemini_counts_in_2_5_and_grades_from_3_on() {
    let models = ["gemini-2.0-flash", "gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-flash", "gemini-3.1-pro-preview"];
    check(
        json!({ "effort": "none", "temperature": 1.5 }),
        models.map(|model| target(WireProtocol::Gemini, model)),
        &expect![[r#"
            gemini-2.0-flash: {"generationConfig":{"temperature":1.5}} (effort is not sent to gemini-2.0-flash: it does not think)
            gemini-2.5-flash: {"generationConfig":{"temperature":1.5,"thinkingConfig":{"includeThoughts":false,"thinkingBudget":0}}}
            gemini-2.5-pro: {"generationConfig":{"temperature":1.5,"thinkingConfig":{"thinkingBudget":128}}}
            gemini-3-flash: {"generationConfig":{"temperature":1.5,"thinkingConfig":{"thinkingLevel":"minimal"}}}
            gemini-3.1-pro-preview: {"generationConfig":{"temperature":1.5,"thinkingConfig":{"thinkingLevel":"low"}}}
        "#]],
    );
}

#[test]
fn ollama_is_told_yes_or_no_but_for_one_family() {
    check(
        json!({ "effort": "xhigh", "temperature": 0.1 }),
        ["qwen3:4b", "gpt-oss:20b"].map(|model| target(WireProtocol::Ollama, model)),
        &expect![[r#"
            qwen3:4b: {"options":{"temperature":0.1},"think":true}
            gpt-oss:20b: {"options":{"temperature":0.1},"think":"high"}
        "#]],
    );
}

#[test]
fn the_nearer_word_wins_and_extra_members_are_merged_deep_and_last() {
    let general = said(json!({ "temperature": 1.0, "effort": "low", "headers": {"a": "1", "b": "1"},
        "extra_body": {"provider": {"sort": "price", "zdr": true}} }));
    let near = said(json!({ "thinking_budget": 9, "headers": {"b": "2"},
        "extra_body": {"provider": {"sort": "speed"}, "reasoning": {"exclude": true}} }));
    let both = near.or(&general);
    assert_eq!((both.temperature, both.effort, both.thinking_budget), (Some(1.0), None, Some(9)));
    assert_eq!(both.headers.into_iter().collect::<Vec<_>>(), [("a".into(), "1".into()), ("b".into(), "2".into())]);
    check(
        json!({ "effort": "low", "extra_body": both.extra_body }),
        [Target { thinking: Thinking::Object, ..target(WireProtocol::Chat, "m") }],
        &expect![[r#"
            m: {"reasoning":{"effort":"low","exclude":true},"provider":{"sort":"speed","zdr":true}}
        "#]],
    );
}

#[test]
fn a_wrong_word_is_answered_with_the_right_ones() {
    assert_eq!("xhigh".parse(), Ok(Effort::Xhigh));
    let error = "hihg".parse::<Effort>().expect_err("no such effort");
    assert!(error.contains("hihg") && error.contains("`high`"), "{error}");
    assert!(Effort::NAMES.iter().all(|name| name.parse::<Effort>().is_ok_and(|effort| effort.word() == *name)));
    assert_eq!(said(json!({ "temperature": 3 })).mistake().map(|(key, _)| key), Some("temperature"));
    assert!(!format!("{:?}", said(json!({ "headers": {"x-key": "secret"} }))).contains("secret"));
}

#[test]
fn a_cap_holds_whatever_the_options_say_and_leaves_room_for_words() {
    let capped = |body: Value, cap| {
        let mut body = body;
        keep_within(&mut body, cap);
        body
    };
    let counting = |max: u32, budget: u32| json!({ "max_tokens": max, "thinking": { "type": "enabled", "budget_tokens": budget } });
    assert_eq!(capped(counting(64_000, 16_384), 12_005), counting(12_005, 10_981));
    assert_eq!(capped(counting(64_000, 2_000), 12_005), counting(12_005, 2_000));
    assert_eq!(capped(counting(64_000, 16_384), 2_000), json!({ "max_tokens": 2_000 }), "no room for thoughts");
    assert_eq!(capped(json!({ "max_tokens": 900 }), 2_000), json!({ "max_tokens": 900 }));
    for path in ["max_completion_tokens", "max_output_tokens"] {
        assert_eq!(capped(json!({ path: 64_000 }), 2_000), json!({ path: 2_000 }));
    }
    let nested = json!({ "generationConfig": { "maxOutputTokens": 9_000 }, "options": { "num_predict": 8_000 } });
    assert_eq!(longest_reply(&nested), Some(9_000));
    assert_eq!(longest_reply(&capped(nested, 2_000)), Some(2_000));
}

#[test]
fn each_generation_of_openai_gets_the_nearest_degree_it_has() {
    use Effort::{High, Low, Max, Medium, Minimal, None as Not, Xhigh};
    let all = [Not, Minimal, Low, Medium, High, Xhigh, Max];
    let sent = |target: Target<'_>| {
        let words = all.map(|effort| {
            let translated = Options { effort: Some(effort), ..Options::default() }.translate(target);
            assert_eq!(translated.body.is_empty(), !translated.left_out.is_empty(), "sent or said");
            let word =
                translated.body.get("reasoning_effort").or(translated.body.get("reasoning").map(|r| &r["effort"]));
            word.and_then(Value::as_str).unwrap_or("-").to_owned()
        });
        words.join(" ")
    };
    for (model, words) in [
        ("gpt-4o", "- - - - - - -"),
        ("gpt-5.1-chat-latest", "- - - - - - -"),
        ("o3", "low low low medium high high high"),
        ("openai/gpt-5", "minimal minimal low medium high high high"),
        ("gpt-5-2025-08-07", "minimal minimal low medium high high high"),
        ("gpt-5-codex", "low low low medium high high high"),
        ("gpt-5-pro", "high high high high high high high"),
        ("gpt-5.1", "none low low medium high high high"),
        ("gpt-5.1-codex-max", "low low low medium high xhigh xhigh"),
        ("gpt-5.2-pro", "medium medium medium medium high xhigh xhigh"),
        ("gpt-5.3-codex", "low low low medium high xhigh xhigh"),
        ("gpt-5.4-mini", "none low low medium high xhigh xhigh"),
        ("gpt-6.1-sol", "none low low medium high xhigh xhigh"),
    ] {
        for thinking in [Thinking::Scale, Thinking::Three] {
            assert_eq!(sent(Target { thinking, ..target(WireProtocol::Chat, model) }), words, "{model}, {thinking:?}");
        }
        assert_eq!(sent(target(WireProtocol::Responses, model)), words, "{model}");
    }
    // Names that tell nothing get the words of their server.
    assert_eq!(sent(target(WireProtocol::Responses, "grok-4")), "none minimal low medium high xhigh xhigh");
    assert_eq!(sent(target(WireProtocol::Chat, "gpt-oss-120b")), "none low low medium high high high");
}

#[test]
fn top_p_is_asked_for_in_the_words_of_each_protocol_where_it_is_taken() {
    let targets = [
        target(WireProtocol::Chat, "gpt-4.1"),
        target(WireProtocol::Responses, "gpt-5.4"),
        target(WireProtocol::Anthropic, "claude-haiku-4-5"),
        target(WireProtocol::Anthropic, "claude-opus-4-7"),
        target(WireProtocol::Gemini, "gemini-2.0-flash"),
        target(WireProtocol::Ollama, "llama3.3"),
    ];
    check(
        json!({ "top_p": 0.5 }),
        targets,
        &expect![[r#"
            gpt-4.1: {"top_p":0.5}
            gpt-5.4: {} (top_p is not sent to gpt-5.4: it thinks, and takes none then)
            claude-haiku-4-5: {"top_p":0.5}
            claude-opus-4-7: {} (top_p is not sent to claude-opus-4-7: it takes none)
            gemini-2.0-flash: {"generationConfig":{"topP":0.5}}
            llama3.3: {"options":{"top_p":0.5}}
        "#]],
    );
    check(
        json!({ "top_p": 0.5, "temperature": 1.5 }),
        [target(WireProtocol::Anthropic, "claude-haiku-4-5"), target(WireProtocol::Ollama, "llama3.3")],
        &expect![[r#"
            claude-haiku-4-5: {"temperature":1.0} (top_p is not sent to claude-haiku-4-5: it takes a temperature or top_p, not both)
            llama3.3: {"options":{"temperature":1.5,"top_p":0.5}}
        "#]],
    );
    assert_eq!(said(json!({ "top_p": 2 })).mistake(), Some(("top_p", "a number from 0 to 1")));
}
