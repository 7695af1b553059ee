//! What a request to the model was made of: segments with their hashes and sizes, recorded with the reply. The cache
//! ledger ([`crate::cache`]) folds these records.

use serde::{Deserialize, Serialize};

/// A part of a request that a provider caches as a whole or not at all. In JSON: kind, hash, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Segment {
    /// What it is.
    pub kind: SegmentKind,
    /// Equal for equal content.
    pub hash: u64,
    /// An upper bound on its tokens: its bytes, since no token is shorter than a byte; for a picture, the most it may
    /// cost.
    pub bytes: u64,
}

/// How a segment is written down.
type Written = (SegmentKind, String, u64);

/// The kind of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// The model, the system prompt and the tools.
    Frame,
    /// A user message, or one of Piton's in its place.
    User,
    /// A reply of the model.
    Assistant,
    /// Results of tools.
    Tool,
}

/// The contents of a request, recorded with its reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptContents {
    /// How many leading segments it shares with the previous answered request.
    pub kept: usize,
    /// The segments after these.
    pub new: Vec<Segment>,
    /// Tokens that the provider could read from its cache, by its own count of the previous request.
    pub predicted_tokens: u64,
    /// The cost of a cache miss, in millionths of a US dollar; 0 without a miss, `None` if the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_micros: Option<u64>,
}

impl From<Segment> for Written {
    fn from(segment: Segment) -> Self {
        (segment.kind, format!("{:016x}", segment.hash), segment.bytes)
    }
}

impl TryFrom<Written> for Segment {
    type Error = std::num::ParseIntError;

    fn try_from((kind, hash, bytes): Written) -> Result<Self, Self::Error> {
        Ok(Self { kind, hash: u64::from_str_radix(&hash, 16)?, bytes })
    }
}
