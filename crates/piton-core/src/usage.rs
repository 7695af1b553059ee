//! Tokens, as providers count them.

use serde::{Deserialize, Serialize};

/// Tokens of one model call, as the provider counted them. Unknown counts are 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// All prompt tokens, those read from or written to the provider's cache included.
    pub input_tokens: u64,
    /// All generated tokens, reasoning included.
    pub output_tokens: u64,
    /// Of the input: read from the cache.
    pub cache_read_tokens: u64,
    /// Of the input: written to the cache.
    pub cache_write_tokens: u64,
    /// Of the output: reasoning.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Of the input: what touched no cache.
    pub fn fresh_input_tokens(&self) -> u64 {
        self.input_tokens.saturating_sub(self.cache_read_tokens.saturating_add(self.cache_write_tokens))
    }

    /// Whether it was told: a count of the prompt, and one of the words if any were said.
    pub fn is_told(&self, has_spoken: bool) -> bool {
        self.input_tokens > 0 && (self.output_tokens > 0 || !has_spoken)
    }

    /// What is of the prompt is no more than it, where the prompt was counted: some servers tell counts that cannot be.
    pub fn bound_cached(&mut self) {
        if self.input_tokens > 0 {
            self.cache_read_tokens = self.cache_read_tokens.min(self.input_tokens);
            self.cache_write_tokens = self.cache_write_tokens.min(self.input_tokens - self.cache_read_tokens);
        }
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: &Usage) {
        for (mine, theirs) in [
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cache_read_tokens, other.cache_read_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
            (&mut self.reasoning_tokens, other.reasoning_tokens),
        ] {
            *mine = mine.saturating_add(theirs);
        }
    }
}
