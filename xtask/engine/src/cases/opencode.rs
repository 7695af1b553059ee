//! OpenCode's tables of money and of templates, under the preset of its name.

use super::neovate::usage_over_the_wire;
use super::{Judge, expect};
use piton_core::{oneline, template};
use piton_models::model::{LongPrice, Price};
use piton_testkit::scenarios;
use serde_json::{Value, json};

pub(super) fn suite(name: &str) -> Option<Judge> {
    match name {
        "usage_cost" => Some(usage_cost),
        "text_templates" => Some(text_templates),
        "loop_scenarios" => Some(scenarios::opencode::judge),
        _ => None,
    }
}

/// What a step used and what it cost.
fn usage_cost(case: &Value) -> Result<(), String> {
    let (usage, cost) = (&case["input"]["usage"], &case["input"]["cost"]);
    let written = cache_write(&case["input"]["metadata"], usage);
    let counts = json!({
        "prompt_tokens": usage["inputTokens"], "completion_tokens": usage["outputTokens"],
        "total_tokens": usage["totalTokens"],
        "prompt_tokens_details": {"cached_tokens": cached(usage), "cache_write_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": reasoning(usage)},
    });
    let used = usage_over_the_wire(&counts)?;
    let tokens = json!({
        "total": used.total(), "input": used.fresh_input_tokens(),
        "output": used.output_tokens.saturating_sub(used.reasoning_tokens), "reasoning": used.reasoning_tokens,
        "cache": {"write": used.cache_write_tokens, "read": used.cache_read_tokens},
    });
    let dollars = price(cost, used.input_tokens).cost_micros(&used) as f64 / 1e6;
    let expected = &case["expected"];
    // A bill in Copilot's own units: that is no provider of Piton.
    let is_billed_elsewhere = case["input"]["metadata"]["copilot"].is_object();
    let is_paid = is_billed_elsewhere || (expected["cost"].as_f64().unwrap_or(-1.0) - dollars).abs() < 1e-6;
    if tokens == expected["tokens"] && is_paid {
        Ok(())
    } else {
        Err(json!({"cost": dollars, "tokens": tokens}).to_string())
    }
}

fn cached(usage: &Value) -> Value {
    first(&[
        &usage["cacheReadInputTokens"],
        &usage["cachedInputTokens"],
        &usage["inputTokenDetails"]["cacheReadTokens"],
    ])
}

fn reasoning(usage: &Value) -> Value {
    first(&[&usage["reasoningTokens"], &usage["outputTokenDetails"]["reasoningTokens"]])
}

/// Where the reference looks for tokens that were written to the cache.
fn cache_write(metadata: &Value, usage: &Value) -> Value {
    first(&[
        &usage["inputTokenDetails"]["cacheWriteTokens"],
        &usage["cacheWriteInputTokens"],
        &metadata["anthropic"]["cacheCreationInputTokens"],
        &metadata["vertex"]["cacheCreationInputTokens"],
        &metadata["bedrock"]["usage"]["cacheWriteInputTokens"],
        &metadata["venice"]["usage"]["cacheCreationInputTokens"],
    ])
}

fn first(found: &[&Value]) -> Value {
    found.iter().find(|value| value.is_number()).copied().cloned().unwrap_or_default()
}

/// The price of a prompt of this length: a table may hold several dearer tiers, a price of ours one.
fn price(cost: &Value, input_tokens: u64) -> Price {
    let rate = |rates: &Value, path: &str| rates.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    let of_tier = |rates: &Value, above_tokens: u64| LongPrice {
        above_tokens,
        input: rate(rates, "/input"),
        output: rate(rates, "/output"),
        cache_read: rate(rates, "/cache/read"),
        cache_write: rate(rates, "/cache/write"),
    };
    let tiers = cost["tiers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sized = tiers.iter().filter_map(|tier| Some((tier, tier["tier"]["size"].as_u64()?)));
    let reached = sized.filter(|(_, size)| input_tokens > *size).max_by_key(|(_, size)| *size);
    let dear = &cost["experimentalOver200K"];
    let long = reached.map(|(tier, size)| of_tier(tier, size)).or(dear.is_object().then(|| of_tier(dear, 200_000)));
    let LongPrice { input, output, cache_read, cache_write, .. } = of_tier(cost, 0);
    Price { input, output, cache_read, cache_write, long }
}

fn text_templates(case: &Value) -> Result<(), String> {
    /// Characters of a title there.
    const TITLE: usize = 100;
    let input = &case["input"];
    let text = input.as_str().unwrap_or_default();
    let got = match case["fn"].as_str() {
        Some("fileRefs") => json!(template::files(text)),
        Some("shellRefs") => json!(template::shell_commands(text)),
        Some("commandTemplate") => {
            let word = |key: &str| input[key].as_str().unwrap_or_default();
            json!(template::expand(word("template"), word("arguments")))
        }
        Some("titleClean") => json!(oneline::first_line(text, TITLE)),
        other => return Err(format!("{other:?} is no function of this suite")),
    };
    expect(case, &got)
}
