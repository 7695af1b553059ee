//! `piton models --refresh`, and models that nobody has heard of.

use crate::stage::{Ran, Stage};
use serde_json::json;

const PRICED: &str = "{\"about\":\"ours\"}\n{\"provider\":\"openai\",\"model\":\"gpt-99\",\"window\":1000,\"price\":{\"input\":1,\"output\":2}}\n\
                      {\"provider\":\"mine\",\"model\":\"m\",\"window\":2000,\"price\":{\"input\":1,\"output\":2}}\n";

fn stage() -> Stage {
    let stage = Stage::new(json!([{"text": "ok", "repeat": true}]));
    let config = format!("[providers.mine]\nprotocol = \"chat\"\nbase_url = \"{}/v1\"\n", stage.provider.url());
    stage.with_config(&config)
}

fn refresh(stage: &Stage, text: &str) -> Ran {
    stage.home.write("new.jsonl", text);
    let path = stage.home.path().join("new.jsonl");
    Ran::of(stage.piton(&["models", "--refresh", path.to_str().unwrap()]))
}

fn run(stage: &Stage, model: &str, args: &[&str]) -> Ran {
    let mut command = stage.piton(&["run", "--yes", "--model", model]);
    command.args(args).arg("go");
    Ran::of(command)
}

#[test]
fn an_unknown_model_works_with_one_warning_and_a_known_one_without() {
    let stage = stage();
    let ran = run(&stage, "openai/gpt-99", &[]).expect_code(0);
    assert_eq!(ran.stderr.matches("is not in the catalogue").count(), 1, "{}", ran.stderr);
    for known in ["openai/gpt-5.4", "mine/m", "openai-chat/whatever"] {
        let ran = run(&stage, known, &[]).expect_code(0);
        assert!(!ran.stderr.contains("catalogue"), "{known}: {}", ran.stderr);
    }
}

#[test]
fn what_a_newer_catalogue_knows_is_used_from_then_on() {
    let stage = stage();
    for model in ["openai/gpt-99", "mine/m"] {
        run(&stage, model, &["--max-cost=1"]).expect_code(1).expect_said(&["price"]);
    }
    let ran = refresh(&stage, PRICED).expect_code(0);
    assert!(ran.stdout.starts_with("stored 2 models of 2 providers in"), "{}", ran.stdout);
    for model in ["openai/gpt-99", "mine/m"] {
        let ran = run(&stage, model, &["--max-cost=1"]).expect_code(0);
        assert!(!ran.stderr.contains("catalogue"), "{}", ran.stderr);
    }
}

#[test]
fn a_file_or_answer_that_is_no_catalogue_changes_nothing() {
    let stage = stage();
    refresh(&stage, PRICED).expect_code(0);
    let kept = stage.home.read("data/models.jsonl");
    for (text, words) in [
        ("<html>", ["line 1", "nothing was changed"]),
        ("", ["there is no model in it", "nothing was changed"]),
        ("{\"provider\":\"openai\",\"model\":\"m\",\"price\":{\"input\":1e9,\"output\":1}}", ["line 1", "US dollars"]),
    ] {
        refresh(&stage, text).expect_code(1).expect_said(&words);
    }
    let at = |path: &str| Ran::of(stage.piton(&["models", "--refresh", &format!("{}{path}", stage.provider.url())]));
    at("/nowhere").expect_code(1).expect_said(&["HTTP 404"]);
    at("/v1/models").expect_code(1).expect_said(&["line 1", "nothing was changed"]);
    Ran::of(stage.piton(&["models", "--refresh", "nowhere.jsonl"])).expect_code(1).expect_said(&["nowhere.jsonl"]);
    assert_eq!(stage.home.read("data/models.jsonl"), kept);
}

#[test]
fn servers_of_ones_own_are_listed_with_their_models() {
    let stage = stage();
    let ran = Ran::of(stage.piton(&["models"])).expect_code(0);
    assert!(ran.stdout.contains("mine/fake-model"), "{}", ran.stdout);
}

#[test]
fn what_the_catalogue_knows_of_a_listed_model_is_shown_beside_it() {
    let stage = stage();
    let facts =
        "{\"provider\":\"openai\",\"model\":\"fake-model\",\"window\":1000,\"images\":true,\"reasoning\":true}\n";
    refresh(&stage, facts).expect_code(0);
    let ran = Ran::of(stage.piton(&["models", "--json"])).expect_code(0);
    let lines: Vec<serde_json::Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| lines.iter().find(|line| line["model"] == name).unwrap().clone();
    let known = of("openai/fake-model");
    assert_eq!((&known["window_tokens"], &known["known"]["images"]), (&json!(1_000), &json!(true)), "{known}");
    assert_eq!(of("mine/fake-model").get("known"), None, "a server of one's own may call anything by any name");

    refresh(&stage, &facts.replace("openai", "mine")).expect_code(0);
    let ran = Ran::of(stage.piton(&["models", "--json"])).expect_code(0);
    let own = ran.stdout.lines().find(|line| line.contains("mine/fake-model")).unwrap();
    assert!(own.contains("\"window_tokens\":1000"), "but what was handed in by its name is meant: {own}");
}

#[test]
fn a_provider_that_cannot_be_asked_is_listed_as_the_catalogue_has_it() {
    let stage = stage();
    let config = "[providers.mine]\nprotocol = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let stage = stage.with_config(config);
    refresh(&stage, PRICED).expect_code(0);
    let ran = Ran::of(stage.piton(&["models"])).expect_code(0).expect_said(&["what follows is of the catalogue"]);
    assert!(ran.stdout.contains("mine/m  2,000 tokens"), "{}", ran.stdout);
}
