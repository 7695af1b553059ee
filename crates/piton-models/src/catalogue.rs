//! What is known about models without asking anybody: how much they read and write, what they can, what they cost.
//!
//! The data, `crates/piton-models/catalogue/models.jsonl`, is in the binary as it is: text costs a starting process nothing,
//! where a table of strings would have to be relocated, in every runner too. Its first line says where its numbers are
//! from. A model that is not in it works as well; its window and price are unknown, which is not the same as none.

use crate::model::{LongPrice, ModelLimits, Price};
use serde::Deserialize;

const DATA: &str = include_str!("../catalogue/models.jsonl");

/// What is known about one model at one provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFacts {
    /// The provider's name here.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// Its window and its longest answer.
    pub limits: ModelLimits,
    /// What it costs.
    pub price: Option<Price>,
    /// Whether it looks at images.
    pub images: bool,
    /// Whether it calls tools; said of models that converse, where it is known.
    pub tools: Option<bool>,
    /// Whether it thinks before it answers.
    pub reasoning: bool,
}

/// A line of the data.
#[derive(Deserialize)]
struct Line {
    provider: String,
    model: String,
    window: Option<u64>,
    max_output: Option<u32>,
    #[serde(default)]
    images: bool,
    tools: Option<bool>,
    #[serde(default)]
    reasoning: bool,
    price: Option<Rates>,
}

/// US dollars per million tokens.
#[derive(Deserialize)]
struct Rates {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    long: Option<LongRates>,
}

/// US dollars per million tokens, for prompts above a size.
#[derive(Deserialize)]
struct LongRates {
    above: u64,
    #[serde(flatten)]
    rates: Box<Rates>,
}

impl From<Rates> for Price {
    /// A cache whose price is not told costs what plain input does.
    fn from(rates: Rates) -> Self {
        let Rates { input, output, cache_read, cache_write, long } = rates;
        let (cache_read, cache_write) = (cache_read.unwrap_or(input), cache_write.unwrap_or(input));
        let long = long.map(|long| {
            let Self { input, output, cache_read, cache_write, long: _ } = Self::from(*long.rates);
            LongPrice { above_tokens: long.above, input, output, cache_read, cache_write }
        });
        Self { input, output, cache_read, cache_write, long }
    }
}

impl From<Line> for ModelFacts {
    fn from(line: Line) -> Self {
        let price = line.price.map(Price::from);
        // The sources do not always agree: no answer is longer than the window.
        let most = |most: u32| line.window.map_or(most, |window| most.min(u32::try_from(window).unwrap_or(u32::MAX)));
        Self {
            provider: line.provider,
            model: line.model,
            limits: ModelLimits { window_tokens: line.window, max_output_tokens: line.max_output.map(most) },
            price,
            images: line.images,
            tools: line.tools,
            reasoning: line.reasoning,
        }
    }
}

/// Where the data is from.
pub fn about() -> String {
    let first: serde_json::Value =
        DATA.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    first["about"].as_str().unwrap_or_default().to_owned()
}

/// All models that are known of a provider, by name.
pub fn models(provider: &str) -> Vec<ModelFacts> {
    let begin = format!("{{\"provider\":{provider:?},");
    DATA.lines().filter(|line| line.starts_with(&begin)).filter_map(facts).collect()
}

/// What is known about a model. A dated name (`claude-sonnet-4-5-20250929`) is the model without the date, unless it is
/// known by itself.
pub fn look_up(provider: &str, model: &str) -> Option<ModelFacts> {
    let find = |name: &str| {
        let begin = format!("{{\"provider\":{:?},\"model\":{name:?},", listed_as(provider));
        DATA.lines().find(|line| line.starts_with(&begin)).and_then(facts)
    };
    find(model).or_else(|| find(undated(model)))
}

fn facts(line: &str) -> Option<ModelFacts> {
    serde_json::from_str::<Line>(line).ok().map(ModelFacts::from)
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
    fn what_long_prompts_cost_is_known_where_it_is_told() {
        let price = look_up("anthropic", "claude-sonnet-4-5").and_then(|facts| facts.price).expect("a known price");
        let long = price.long.expect("rates of its own for long prompts");
        assert_eq!((price.input, long.above_tokens, long.input, long.cache_read), (3.0, 200_000, 6.0, 0.6));
    }

    #[test]
    fn every_line_of_the_data_is_read_and_makes_sense() {
        assert!(about().contains("read on 20"));
        for line in DATA.lines().skip(1) {
            let facts = facts(line).unwrap_or_else(|| panic!("not readable: {line}"));
            assert!(find(&facts.provider).is_some(), "{}", facts.provider);
            assert_eq!(look_up(&facts.provider, &facts.model).as_ref(), Some(&facts));
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
