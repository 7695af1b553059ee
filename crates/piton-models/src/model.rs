//! What a model is to the rest of Piton: a name, its limits and price, and a stream of events per request.
//!
//! Implementations: [`crate::provider::open`] (over HTTP), [`crate::recorded::Recorded`] (a cassette) and
//! [`crate::recorded::Recorder`] (records another one). None of them retries, compacts or judges a reply.

use futures_util::stream::Stream;
use piton_core::message::Usage;
use piton_core::model::{ModelError, ModelErrorKind, ModelEvent, Request};
use std::pin::Pin;
use std::sync::Arc;

/// A model that can be asked.
pub trait Model: Send + Sync {
    /// `provider/model`, as people write it.
    fn name(&self) -> &str;

    /// What is known about the model's size.
    fn limits(&self) -> ModelLimits;

    /// What it costs, where that is known. Unknown is not free.
    fn price(&self) -> Option<Price>;

    /// What lets its requests in: keys and what stands in for them, those before a renewal, too. None of it may be shown.
    fn secrets(&self) -> Vec<String> {
        Vec::new()
    }

    /// Asks the model. Nothing happens before the stream is polled; dropping the stream closes the connection. The
    /// last item is [`ModelEvent::Done`] or an error, and there is exactly one of these.
    fn stream(&self, request: Request) -> ModelStream;
}

/// All methods of [`Model`] but `stream`, for a type that wraps another model in its field `model`.
macro_rules! described_by_its_model {
    () => {
        fn name(&self) -> &str {
            self.model.name()
        }

        fn limits(&self) -> $crate::model::ModelLimits {
            self.model.limits()
        }

        fn price(&self) -> Option<$crate::model::Price> {
            self.model.price()
        }

        fn secrets(&self) -> Vec<String> {
            self.model.secrets()
        }
    };
}
pub(crate) use described_by_its_model;

impl Model for Arc<dyn Model> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn limits(&self) -> ModelLimits {
        (**self).limits()
    }

    fn price(&self) -> Option<Price> {
        (**self).price()
    }

    fn secrets(&self) -> Vec<String> {
        (**self).secrets()
    }

    fn stream(&self, request: Request) -> ModelStream {
        (**self).stream(request)
    }
}

/// Stands where a model has to, in a session that is only looked after. Who asks it is told that there is none.
#[derive(Debug, Clone, Default)]
pub struct Nobody {
    /// The name of the model in whose place it stands.
    pub name: String,
}

impl Model for Nobody {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    fn price(&self) -> Option<Price> {
        None
    }

    fn stream(&self, _: Request) -> ModelStream {
        let error = ModelError::new(ModelErrorKind::InvalidRequest, "no model is asked here");
        Box::pin(futures_util::stream::iter([Err(error)]))
    }
}

/// The events of one reply.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// How much a model can read and write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// Prompt and answer together.
    pub window_tokens: Option<u64>,
    /// The longest answer: what is asked for, else what the provider allows.
    pub max_output_tokens: Option<u32>,
    /// Whether it looks at pictures, where that is known.
    pub images: Option<bool>,
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Prompt tokens that touch no cache.
    pub input: f64,
    /// Generated tokens, reasoning included.
    pub output: f64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: f64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: f64,
    /// What is charged instead when the prompt is long.
    pub long: Option<LongPrice>,
}

/// US dollars per million tokens of calls with a long prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongPrice {
    /// A prompt with more tokens than this is long.
    pub above_tokens: u64,
    /// Prompt tokens that touch no cache.
    pub input: f64,
    /// Generated tokens.
    pub output: f64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: f64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: f64,
}

impl Price {
    /// What costs nothing by its nature: a server of this machine, a recording.
    pub const FREE: Self = Self { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0, long: None };

    /// Whether nothing is ever charged.
    pub fn is_free(&self) -> bool {
        *self == Self::FREE
    }

    /// The rates of a call with so many prompt tokens.
    pub fn of_prompt(&self, input_tokens: u64) -> Self {
        match self.long {
            Some(LongPrice { above_tokens, input, output, cache_read, cache_write }) if input_tokens > above_tokens => {
                Self { input, output, cache_read, cache_write, long: None }
            }
            Some(_) | None => Self { long: None, ..*self },
        }
    }

    /// The most that a prompt token can cost, in millionths of a dollar.
    pub fn dearest_input(&self) -> f64 {
        self.input.max(self.cache_write).max(self.cache_read)
    }

    /// What it would have saved to read these prompt tokens from the cache, in millionths of a dollar.
    pub fn cache_saving_micros(&self, tokens: u64) -> u64 {
        (tokens as f64 * (self.input - self.cache_read)).max(0.0).round() as u64
    }

    /// What these tokens cost, in millionths of a dollar, rounded. Cached tokens are part of the input and are
    /// charged at their own rate instead.
    pub fn cost_micros(&self, usage: &Usage) -> u64 {
        let price = self.of_prompt(usage.input_tokens);
        let micros = [
            (usage.fresh_input_tokens(), price.input),
            (usage.cache_read_tokens, price.cache_read),
            (usage.cache_write_tokens, price.cache_write),
            (usage.output_tokens, price.output),
        ]
        .iter()
        .map(|&(tokens, rate)| tokens as f64 * rate)
        .sum::<f64>();
        micros.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_are_charged_once_at_their_own_rate() {
        let price = Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75, long: None };
        let usage = Usage {
            input_tokens: 1_000,
            output_tokens: 100,
            cache_read_tokens: 800,
            cache_write_tokens: 100,
            reasoning_tokens: 50,
        };
        assert_eq!(price.cost_micros(&usage), 300 + 1_500 + 240 + 375);
    }

    #[test]
    fn a_long_prompt_pays_its_own_rates_for_all_of_it() {
        let long = LongPrice { above_tokens: 200_000, input: 6.0, output: 22.5, cache_read: 0.6, cache_write: 7.5 };
        let price = Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75, long: Some(long) };
        let usage = |input_tokens| Usage { input_tokens, output_tokens: 10, ..Usage::default() };
        assert_eq!(price.cost_micros(&usage(200_000)), 600_000 + 150);
        assert_eq!(price.cost_micros(&usage(200_001)), 1_200_006 + 225);
    }
}
