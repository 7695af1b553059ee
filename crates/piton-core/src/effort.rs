//! Reasoning effort: the scale that people set it on. What each model makes of it is for whoever asks it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Reasoning effort: how much a model thinks before it answers. No provider has all levels; each gets the nearest one
/// it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// No reasoning, if the model supports that.
    None,
    /// Minimal.
    Minimal,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Very high.
    Xhigh,
    /// The model's maximum.
    Max,
}

impl Effort {
    /// All of them, by name.
    pub const NAMES: [&'static str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

    /// Its name.
    pub fn word(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// About as many tokens of thought, for models that are given a number.
    pub fn tokens(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Minimal => 1_024,
            Self::Low => 4_096,
            Self::Medium => 8_192,
            Self::High => 16_384,
            Self::Xhigh | Self::Max => 24_576,
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Effort {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(word))
            .map_err(|error| error.to_string())
    }
}
