//! What is known about models without asking anybody: how much they read and write, what they can, what they cost.
//!
//! The data, `crates/piton-models/catalogue/models.jsonl`, is in the binary as it is: text costs a starting process nothing,
//! where a table of strings would have to be relocated, in every runner too. Its first line says where its numbers are
//! from. A newer file of the same shape can be laid over it ([`Catalogue::over`]), line by line. A model that is not in
//! it works as well; its window and price are unknown, which is not the same as none.

use crate::model::{LongPrice, ModelLimits, Price};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

/// A line of the data. The members that are looked for stand first.
#[derive(Serialize, Deserialize)]
struct Line {
    provider: String,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output: Option<u32>,
    #[serde(default)]
    images: bool,
    tools: Option<bool>,
    #[serde(default)]
    reasoning: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<Rates>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// What is read.
    pub input: f64,
    /// What is written.
    pub output: f64,
    /// What is read from the cache; without it, as much as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// What is written to the cache; without it, as much as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// For prompts above a size, where that costs more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long: Option<LongRates>,
}

/// US dollars per million tokens, for prompts above a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LongRates {
    /// The size, in tokens.
    pub above: u64,
    /// What is read.
    pub input: f64,
    /// What is written.
    pub output: f64,
    /// What is read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// What is written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

/// What somebody says of one model, where the catalogue is wrong or does not know it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelOverride {
    /// Its window, in tokens.
    pub window: Option<u64>,
    /// What it costs.
    pub price: Option<Rates>,
    /// Whether it looks at pictures.
    pub images: Option<bool>,
    /// Whether it calls tools.
    pub tools: Option<bool>,
}

impl From<Rates> for Price {
    /// A cache whose price is not told costs what plain input does.
    fn from(rates: Rates) -> Self {
        let Rates { input, output, cache_read, cache_write, long } = rates;
        let (cache_read, cache_write) = (cache_read.unwrap_or(input), cache_write.unwrap_or(input));
        let long = long.map(|LongRates { above, input, output, cache_read, cache_write }| {
            let (cache_read, cache_write) = (cache_read.unwrap_or(input), cache_write.unwrap_or(input));
            LongPrice { above_tokens: above, input, output, cache_read, cache_write }
        });
        Self { input, output, cache_read, cache_write, long }
    }
}

/// No price per million tokens is higher, in US dollars; one that is was meant for another unit.
const HIGHEST_RATE: f64 = 10_000.0;

impl Rates {
    /// Whether each of them is a price per million tokens.
    pub fn is_sound(&self) -> bool {
        let long =
            self.long.iter().flat_map(|long| [Some(long.input), Some(long.output), long.cache_read, long.cache_write]);
        let rates = [Some(self.input), Some(self.output), self.cache_read, self.cache_write];
        rates.into_iter().chain(long).flatten().all(|rate| (0.0..HIGHEST_RATE).contains(&rate))
    }
}

impl Line {
    /// What makes no sense about it.
    fn mistake(&self) -> Option<&'static str> {
        if self.provider.is_empty() || self.model.is_empty() {
            Some("provider and model must have a name")
        } else if self.window == Some(0) || self.max_output == Some(0) {
            Some("window and max_output are above 0 where they are known")
        } else if self.price.as_ref().is_some_and(|rates| !rates.is_sound()) {
            Some("a price is in US dollars per million tokens")
        } else {
            None
        }
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
            limits: ModelLimits {
                window_tokens: line.window,
                max_output_tokens: line.max_output.map(most),
                images: Some(line.images),
            },
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

/// The embedded data, and over it a newer one that somebody handed in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    newer: Option<Arc<str>>,
    /// Models by provider and name, of which somebody says something.
    own: Arc<BTreeMap<(String, String), ModelOverride>>,
}

/// Why a text is no catalogue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// A line cannot be read, or makes no sense.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// There is nothing in it.
    #[error("there is no model in it")]
    Empty,
}

/// A text that was read, in the form in which it is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// One line per model.
    pub text: String,
    /// How many models.
    pub models: usize,
    /// How many providers.
    pub providers: usize,
}

impl Catalogue {
    /// Lays a text that [`Self::check`] made over the embedded data.
    pub fn over(text: &str) -> Self {
        Self { newer: Some(text.into()), ..Self::default() }
    }

    /// Lays what somebody says of one model over all of it.
    #[must_use]
    pub fn with(mut self, provider: &str, model: &str, known: ModelOverride) -> Self {
        Arc::make_mut(&mut self.own).insert((provider.to_owned(), model.to_owned()), known);
        self
    }

    /// Reads a text of the shape of `models.jsonl`: all of it, or an error.
    pub fn check(text: &str) -> Result<Checked, CatalogueError> {
        let (mut lines, mut providers) = (Vec::new(), BTreeSet::new());
        for (index, text) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: String| CatalogueError::Line { line: index + 1, why };
            if index == 0 && text.trim_start().starts_with("{\"about\"") {
                continue;
            }
            let line: Line = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
            if let Some(why) = line.mistake() {
                return Err(wrong(why.to_owned()));
            }
            lines.push(serde_json::to_string(&line).map_err(|error| wrong(error.to_string()))?);
            providers.insert(line.provider);
        }
        if lines.is_empty() {
            return Err(CatalogueError::Empty);
        }
        Ok(Checked { text: lines.join("\n") + "\n", models: lines.len(), providers: providers.len() })
    }

    /// What is known about a model. A dated name (`claude-sonnet-4-5-20250929`) is the model without the date, unless
    /// it is known by itself.
    pub fn look_up(&self, provider: &str, model: &str) -> Option<ModelFacts> {
        let newer = self.newer.as_deref().and_then(|newer| find_in(newer, provider, model));
        self.corrected(newer.or_else(|| embedded(provider, model)), provider, model)
    }

    /// The names of all models that are known of a provider; of one that is somebody's own, those that were handed in.
    pub fn names(&self, provider: &str) -> Vec<String> {
        let begin = format!("{{\"provider\":{:?},", listed_as(provider));
        let lines = self.newer.as_deref().unwrap_or_default().lines().chain(DATA.lines());
        let lines = lines.filter(|line| line.starts_with(&begin));
        let names: BTreeSet<String> =
            lines.filter_map(|line| serde_json::from_str::<Line>(line).ok()).map(|line| line.model).collect();
        names.into_iter().collect()
    }

    /// What is known about a model by what was handed in alone.
    pub fn newer(&self, provider: &str, model: &str) -> Option<ModelFacts> {
        let newer = self.newer.as_deref().and_then(|newer| find_in(newer, provider, model));
        self.corrected(newer, provider, model)
    }

    /// What is known, with what somebody says of it in place of that.
    fn corrected(&self, facts: Option<ModelFacts>, provider: &str, model: &str) -> Option<ModelFacts> {
        let Some(known) = self.own.get(&(provider.to_owned(), model.to_owned())).filter(|known| known.says_something())
        else {
            return facts;
        };
        let mut facts = facts.unwrap_or_else(|| ModelFacts::unknown(provider, model));
        facts.limits.window_tokens = known.window.or(facts.limits.window_tokens);
        facts.limits.images = known.images.or(facts.limits.images);
        facts.images = known.images.unwrap_or(facts.images);
        facts.tools = known.tools.or(facts.tools);
        facts.price = known.price.clone().map(Price::from).or(facts.price);
        Some(facts)
    }
}

impl ModelOverride {
    fn says_something(&self) -> bool {
        *self != Self::default()
    }
}

impl ModelFacts {
    fn unknown(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            limits: ModelLimits::default(),
            price: None,
            images: false,
            tools: None,
            reasoning: false,
        }
    }
}

/// All models that are embedded of a provider, by name.
pub fn models(provider: &str) -> Vec<ModelFacts> {
    let begin = format!("{{\"provider\":{provider:?},");
    from(&begin).lines().take_while(|line| line.starts_with(&begin)).filter_map(facts).collect()
}

/// Whether any model is embedded of the provider under whose name this one's stand.
pub(crate) fn lists(provider: &str) -> bool {
    let begin = format!("{{\"provider\":{:?},", listed_as(provider));
    from(&begin).starts_with(&begin)
}

/// What the embedded data says about a model.
pub fn look_up(provider: &str, model: &str) -> Option<ModelFacts> {
    Catalogue::default().look_up(provider, model)
}

fn embedded(provider: &str, model: &str) -> Option<ModelFacts> {
    by_name(provider, model, |begin| from(begin).lines().next().filter(|line| line.starts_with(begin)))
}

fn find_in(data: &str, provider: &str, model: &str) -> Option<ModelFacts> {
    by_name(provider, model, |begin| data.lines().find(|line| line.starts_with(begin)))
}

/// The model whose line begins like this, or else the one of its name without a date.
fn by_name<'d>(provider: &str, model: &str, find: impl Fn(&str) -> Option<&'d str>) -> Option<ModelFacts> {
    let find =
        |name: &str| find(&format!("{{\"provider\":{:?},\"model\":{name:?},", listed_as(provider))).and_then(facts);
    find(model).or_else(|| Some(undated(model)).filter(|bare| *bare != model).and_then(find))
}

/// The embedded data from the first line on that is not before this one. The lines are in order, so that few are looked at:
/// each start does this, and pages that are not looked at are not read into memory.
fn from(begin: &str) -> &'static str {
    let lines = DATA.split_once('\n').map_or("", |(_, lines)| lines);
    let (mut low, mut high) = (0, lines.len());
    while low < high {
        let middle = lines.floor_char_boundary(usize::midpoint(low, high));
        let line = lines[low..middle].rfind('\n').map_or(low, |end| low + end + 1);
        let next = lines[line..].find('\n').map_or(lines.len(), |end| line + end + 1);
        if lines[line..next] < *begin {
            low = next;
        } else {
            high = line;
        }
    }
    &lines[low..]
}

fn facts(line: &str) -> Option<ModelFacts> {
    serde_json::from_str::<Line>(line).ok().map(ModelFacts::from)
}

/// The provider under whose name the models stand.
pub(crate) fn listed_as(provider: &str) -> &str {
    match provider {
        "openai-responses" => "openai",
        "bedrock-anthropic" => "bedrock",
        other => other,
    }
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
        assert!(DATA.lines().skip(1).is_sorted(), "they are looked up by halves");
        for line in DATA.lines().skip(1) {
            let facts = facts(line).unwrap_or_else(|| panic!("not readable: {line}"));
            assert!(find(&facts.provider).is_some(), "{}", facts.provider);
            assert_eq!(look_up(&facts.provider, &facts.model).as_ref(), Some(&facts));
            let ModelLimits { window_tokens, max_output_tokens, images: _ } = facts.limits;
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
    fn a_newer_catalogue_is_laid_over_the_embedded_one() {
        let text = "{\"about\": \"mine\"}\n\n{\"window\": 5, \"model\": \"gpt-99\", \"provider\": \"openai\"}\n\
                    {\"provider\":\"mine\",\"model\":\"m\",\"price\":{\"input\":1,\"output\":2}}\n";
        let checked = Catalogue::check(text).expect("a catalogue");
        assert_eq!((checked.models, checked.providers), (2, 2));
        let catalogue = Catalogue::over(&checked.text);
        let window = |model| catalogue.look_up("openai", model).and_then(|facts| facts.limits.window_tokens);
        assert_eq!(window("gpt-99"), Some(5));
        assert_eq!(window("gpt-5.4"), look_up("openai", "gpt-5.4").and_then(|facts| facts.limits.window_tokens));
        assert!(catalogue.newer("mine", "m").is_some_and(|facts| facts.price.is_some()));
        assert_eq!(Catalogue::check(DATA).map(|checked| checked.models), Ok(DATA.lines().count() - 1));
    }

    #[test]
    fn what_somebody_says_of_a_model_comes_first_and_the_rest_stays() {
        let rates = Rates { input: 1.0, output: 2.0, cache_read: None, cache_write: None, long: None };
        let catalogue = Catalogue::default()
            .with("anthropic", "claude-sonnet-4-6", ModelOverride { window: Some(5), ..ModelOverride::default() })
            .with("mine", "m", ModelOverride { price: Some(rates), ..ModelOverride::default() })
            .with("mine", "silent", ModelOverride::default());
        let known = catalogue.look_up("anthropic", "claude-sonnet-4-6").expect("a model of the table");
        assert_eq!((known.limits.window_tokens, known.price.is_some()), (Some(5), true));
        let mine = catalogue.newer("mine", "m").expect("said");
        assert_eq!(mine.price.map(|price| (price.input, price.cache_read)), Some((1.0, 1.0)));
        assert_eq!(catalogue.newer("mine", "silent"), None);
    }

    #[test]
    fn a_text_that_is_no_catalogue_is_refused_with_its_line() {
        let said = |text: &str| Catalogue::check(text).expect_err("no catalogue").to_string();
        assert_eq!(said("\n"), "there is no model in it");
        assert!(said("<html>").starts_with("line 1: "));
        let good = "{\"provider\":\"a\",\"model\":\"b\"}\n";
        assert!(said(&format!("{good}{{\"provider\":\"a\"}}")).contains("line 2: missing field `model`"));
        let priced = good.replace('}', ",\"price\":{\"input\":-1,\"output\":1}}");
        assert_eq!(said(&priced), "line 1: a price is in US dollars per million tokens");
        assert!(said(&good.replace('}', ",\"window\":0}")).contains("above 0"));
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
