//! What is known about models without asking anybody: how much they read and write, what they can, what they cost.
//!
//! The table is generated: `cargo xtask catalogue` makes it, and `docs/providers.md`, from
//! `crates/piton-models/catalogue/models.jsonl`, which says where its numbers are from. A model that is not in it works
//! as well; its window and price are unknown, which is not the same as none.

mod generated;

use crate::model::{ModelLimits, Price};

/// What is known about one model at one provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelFacts {
    /// The provider's name here.
    pub provider: &'static str,
    /// The model's name at the provider.
    pub model: &'static str,
    /// Its window and its longest answer.
    pub limits: ModelLimits,
    /// What it costs.
    pub price: Option<Price>,
    /// Whether it looks at images.
    pub images: bool,
    /// Whether it calls tools.
    pub tools: bool,
    /// Whether it thinks before it answers.
    pub reasoning: bool,
}

/// A row of the table. 0 is an unknown size; rates are those of [`Price`] in order; `can` is images, tools, reasoning.
const fn row(
    provider: &'static str,
    model: &'static str,
    window_tokens: u64,
    max_output_tokens: u32,
    rates: Option<[f64; 4]>,
    can: [bool; 3],
) -> ModelFacts {
    let limits = ModelLimits {
        window_tokens: if window_tokens > 0 { Some(window_tokens) } else { None },
        max_output_tokens: if max_output_tokens > 0 { Some(max_output_tokens) } else { None },
    };
    let price = match rates {
        Some([input, output, cache_read, cache_write]) => Some(Price { input, output, cache_read, cache_write }),
        None => None,
    };
    let [images, tools, reasoning] = can;
    ModelFacts { provider, model, limits, price, images, tools, reasoning }
}

/// All models that are known of a provider, by name.
pub fn models(provider: &str) -> &'static [ModelFacts] {
    let all = generated::MODELS;
    let begin = all.partition_point(|facts| facts.provider < provider);
    let end = all.partition_point(|facts| facts.provider <= provider);
    &all[begin..end]
}

/// What is known about a model. A dated name (`claude-sonnet-4-5-20250929`) is the model without the date, unless it is
/// known by itself.
pub fn look_up(provider: &str, model: &str) -> Option<&'static ModelFacts> {
    let known = models(listed_as(provider));
    let find = |name: &str| known.binary_search_by(|facts| facts.model.cmp(name)).ok().map(|at| &known[at]);
    find(model).or_else(|| find(undated(model)))
}

/// The provider under whose name the models stand.
fn listed_as(provider: &str) -> &str {
    if provider == "openai-responses" { "openai" } else { provider }
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
    use crate::provider::{PROVIDERS, find};

    #[test]
    fn a_dated_name_is_the_same_model() {
        assert_eq!(undated("claude-sonnet-4-5-20250929"), "claude-sonnet-4-5");
        assert_eq!(undated("gpt-5.4-2026-03-05"), "gpt-5.4");
        assert_eq!(undated("claude-opus-4-8"), "claude-opus-4-8");
        assert_eq!(undated("qwen3:4b"), "qwen3:4b");
    }

    #[test]
    fn an_unknown_model_has_no_price() {
        assert_eq!(look_up("openai", "gpt-99"), None);
        assert_eq!(look_up("ollama", "claude-sonnet-4-6"), None);
        let known = look_up("anthropic", "claude-sonnet-4-6").expect("a model of the table");
        assert!(known.price.is_some() && known.limits.window_tokens.is_some());
    }

    #[test]
    fn the_table_is_in_order_and_makes_sense() {
        let all = generated::MODELS;
        assert!(all.windows(2).all(|pair| (pair[0].provider, pair[0].model) < (pair[1].provider, pair[1].model)));
        for facts in all {
            assert!(find(facts.provider).is_some(), "{}", facts.provider);
            let ModelLimits { window_tokens, max_output_tokens } = facts.limits;
            assert!(
                window_tokens.zip(max_output_tokens).is_none_or(|(window, out)| u64::from(out) <= window),
                "{facts:?}"
            );
            for rate in
                facts.price.iter().flat_map(|price| [price.input, price.output, price.cache_read, price.cache_write])
            {
                assert!((0.0..10_000.0).contains(&rate), "{facts:?}");
            }
        }
    }

    #[test]
    fn a_default_model_is_a_known_one() {
        for provider in PROVIDERS {
            if let Some(model) = provider.default_model {
                assert!(look_up(provider.name, model).is_some(), "{}/{model}", provider.name);
            }
        }
    }
}
