//! The numbers: when the context counts as full, and how much is kept. Part of the policy that a turn's first event
//! records.

use serde::{Deserialize, Serialize};

/// Tokens that are kept free for the next reply and what its tools say.
pub const RESERVE_TOKENS: u64 = 20_000;
/// The most of a window that the reserve may take, in percent: small windows would be all reserve.
pub const RESERVE_MOST_PERCENT: u8 = 25;
/// The longest reply that the reserve makes room for. Providers refuse a prompt that does not leave room for the reply
/// that was asked for.
pub const RESERVED_REPLY_TOKENS: u64 = 32_000;
/// Tokens of the newest tool output that pruning leaves alone: the model is working with it.
pub const PRUNE_PROTECT_TOKENS: u64 = 40_000;
/// Tokens that pruning must free, or it is not worth the cache it costs.
pub const PRUNE_MINIMUM_TOKENS: u64 = 20_000;
/// Tokens of the newest steps that stay word for word.
pub const KEEP_TOKENS: u64 = 20_000;
/// The most of the room that these may take, in percent.
pub const KEEP_MOST_PERCENT: u8 = 25;
/// Tokens of the model's part of a summary, its reasoning included.
pub const SUMMARY_TOKENS: u32 = 8_192;
/// Tokens of the user's own words in a summary.
pub const USER_WORDS_TOKENS: u64 = 8_000;
/// The least room for them, however small the window is.
pub const LEAST_USER_WORDS_TOKENS: u64 = 1_000;
/// The part of the context that a compaction must free, in percent. Less, and the next one would follow at once.
pub const LEAST_FREED_PERCENT: u8 = 10;

/// The part of what a model reads, in percent, from which on a reply that was cut means a full window.
pub const CUT_PERCENT: u8 = 80;
/// Tokens that models are taken to read there, by a word in their name; the first that fits. They are Pulse Coder's, a
/// tenth below the window that such a model has at least.
const BUDGETS: [(&str, u64); 6] = [
    ("claude", 180_000),
    ("gpt-5", 180_000),
    ("gpt-4.1", 180_000),
    ("o1", 180_000),
    ("o3", 180_000),
    ("gemini", 900_000),
];
/// What all others are taken to read, in tokens.
const OTHERS_BUDGET: u64 = 110_000;

/// When and how room is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Compaction {
    /// Whether it is done of our own accord. Without it, a full context ends the turn, and a person may ask for it.
    pub auto: bool,
    /// When the context counts as full.
    pub full: Full,
    /// Which old outputs go first.
    pub prune: Prune,
    /// How much of the newest stays word for word.
    pub keep: KeepRecent,
    /// The most tokens of the model's part of a summary.
    pub summary_tokens: u32,
    /// The most tokens of the user's own words in a summary.
    pub user_words_tokens: u64,
    /// What a compaction must free, in percent of the context, for the turn to go on.
    pub least_freed_percent: u8,
    /// What happens where no summary can be had.
    pub without_summary: WithoutSummary,
    /// What system prompt and tools take, by estimate, for providers that do not count. Filled in as a turn starts.
    pub frame_tokens: u64,
}

/// When the context counts as full.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// When less than a reserve is left of the window.
    Reserve {
        /// The reserve.
        tokens: u64,
        /// The most of the window that it may be, in percent.
        most_percent: u8,
    },
    /// When less than the longest reply is left of the window or, where the input has a limit of its own, less than a
    /// reserve of that.
    Reply {
        /// The longest reply that counts; also what counts where the model's is not known.
        most_tokens: u64,
        /// The reserve; never more than the longest reply, unless it was set by hand.
        reserve_tokens: u64,
        /// Whether the reserve was set by hand.
        is_set: bool,
    },
    /// When the prompt alone takes more than a part of the window.
    Above {
        /// The part, from 0 to 1.
        share: f64,
        /// Fewer tokens never count as full.
        least_tokens: u64,
    },
    /// When prompt and reply take a part of a window or more.
    From {
        /// The part, from 0 to 1.
        share: f64,
        /// The window, whatever the model's is.
        window_tokens: u64,
    },
}

/// Which old tool outputs go first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prune {
    /// Whether any do.
    pub on: bool,
    /// Tokens of the newest outputs that stay.
    pub protect_tokens: u64,
    /// Tokens that must be freed, or all stay.
    pub minimum_tokens: u64,
    /// The newest turns, whose outputs stay.
    pub protect_turns: u32,
    /// Tools whose outputs stay.
    pub protect_tools: Vec<String>,
    /// Whether outputs of calls that failed go too.
    pub failed_too: bool,
}

/// How much of the newest stays word for word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepRecent {
    /// Steps of so many tokens.
    Tokens {
        /// How many.
        tokens: u64,
        /// The most of the room there is that they may take, in percent.
        most_percent: u8,
    },
    /// Whole turns.
    Turns {
        /// How many.
        turns: u32,
        /// Where summary and turns are more than this part of the window, the model's summary is left out, unless room
        /// must be made. From 0 to 100.
        target_percent: u8,
    },
    /// Nothing: the summary is all.
    Nothing,
}

/// What happens where no summary can be had: the model said nothing, or called tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutSummary {
    /// The compaction fails, and the conversation stays as it is.
    Fail,
    /// What Piton knows by itself stands for it: the user's words, the files, where the rest is found.
    OwnWords,
}

/// What a summary is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// It stands for what was summed up.
    Summary,
    /// It is too large to be of use.
    TooLarge,
    /// There is none.
    Nothing,
}

/// How much a model reads and writes, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelWindow {
    /// Prompt and reply together; `None` where nobody knows.
    pub context: Option<u64>,
    /// The prompt alone, where that has a limit of its own.
    pub input: Option<u64>,
    /// The reply.
    pub output: Option<u64>,
}

impl Compaction {
    /// The numbers of the `piton` preset.
    pub fn piton() -> Self {
        Self {
            auto: true,
            full: Full::Reserve { tokens: RESERVE_TOKENS, most_percent: RESERVE_MOST_PERCENT },
            prune: Prune::piton(),
            keep: KeepRecent::Tokens { tokens: KEEP_TOKENS, most_percent: KEEP_MOST_PERCENT },
            summary_tokens: SUMMARY_TOKENS,
            user_words_tokens: USER_WORDS_TOKENS,
            least_freed_percent: LEAST_FREED_PERCENT,
            without_summary: WithoutSummary::Fail,
            frame_tokens: 0,
        }
    }

    /// OpenCode's: its reserve, its steps, and pruning only where somebody turns it on.
    pub fn opencode() -> Self {
        let full = Full::Reply { most_tokens: 32_000, reserve_tokens: 20_000, is_set: false };
        let prune = Prune {
            on: false,
            // More than 20,000 there; at least as many here.
            minimum_tokens: 20_001,
            protect_turns: 2,
            protect_tools: vec!["skill".to_owned()],
            failed_too: false,
            ..Prune::piton()
        };
        Self { full, prune, keep: KeepRecent::Tokens { tokens: 8_000, most_percent: 25 }, ..Self::piton() }
    }

    /// Neovate's: above 70 % of the window and 25,600 tokens of prompt; a summary is all there is then.
    pub fn neovate() -> Self {
        let full = Full::Above { share: 0.7, least_tokens: 25_600 };
        let prune =
            Prune { protect_turns: 2, protect_tools: vec!["skill".to_owned(), "task".to_owned()], ..Prune::piton() };
        Self { full, prune, keep: KeepRecent::Nothing, summary_tokens: 4_096, ..Self::piton() }
    }

    /// Pulse Coder's: 75 % of 64,000 tokens, four turns kept, half of the window to aim at.
    pub fn pulse() -> Self {
        Self {
            full: Full::From { share: 0.75, window_tokens: 64_000 },
            prune: Prune { on: false, ..Prune::piton() },
            keep: KeepRecent::Turns { turns: 4, target_percent: 50 },
            summary_tokens: 1_200,
            without_summary: WithoutSummary::OwnWords,
            ..Self::piton()
        }
    }

    /// Tokens from which on the context of a model counts as full; `None` where its window is not known.
    pub fn full_at(&self, window: ModelWindow) -> Option<u64> {
        let context = window.context.filter(|tokens| *tokens > 0);
        match self.full {
            Full::Reserve { tokens, most_percent } => {
                let room = context?.min(window.input.unwrap_or(u64::MAX));
                let reply = window.output.unwrap_or(0).min(RESERVED_REPLY_TOKENS);
                Some(room - tokens.max(reply).min(percent(room, most_percent)))
            }
            Full::Reply { most_tokens, reserve_tokens, is_set } => {
                let reply =
                    window.output.filter(|tokens| *tokens > 0).map_or(most_tokens, |most| most.min(most_tokens));
                let reserve = if is_set { reserve_tokens } else { reserve_tokens.min(reply) };
                let context = context?;
                Some(window.input.map_or(context.saturating_sub(reply), |input| input.saturating_sub(reserve)))
            }
            Full::Above { share, least_tokens } => {
                Some(((context? as f64 * share).floor() as u64).saturating_add(1).max(least_tokens))
            }
            Full::From { share, window_tokens } => {
                let window = context.map_or(window_tokens, |context| context.min(window_tokens));
                Some((window as f64 * share).ceil() as u64)
            }
        }
    }

    /// Whether the reply counts beside the prompt.
    pub fn counts_replies(&self) -> bool {
        !matches!(self.full, Full::Above { .. })
    }

    /// The same rules with a reserve of this many tokens.
    #[must_use]
    pub fn with_reserve(mut self, tokens: u64) -> Self {
        self.full = match self.full {
            Full::Reserve { .. } | Full::Above { .. } | Full::From { .. } => Full::Reserve { tokens, most_percent: 90 },
            Full::Reply { most_tokens, .. } => Full::Reply { most_tokens, reserve_tokens: tokens, is_set: true },
        };
        self
    }

    /// The most tokens of the newest steps that stay, of a context that has this many at most.
    pub fn kept_tokens(&self, room: u64) -> u64 {
        match self.keep {
            KeepRecent::Tokens { tokens, most_percent } => tokens.min(percent(room, most_percent)),
            KeepRecent::Turns { .. } => room,
            KeepRecent::Nothing => 0,
        }
    }

    /// What is made of a summary: nothing of an empty one, and of one that has the context above its aim nothing either,
    /// unless room must be made. `tokens` are those of the context with it, `context` the model's window.
    pub fn made(&self, context: Option<u64>, is_forced: bool, is_empty: bool, tokens: u64) -> Made {
        let aim = match (self.keep, self.full) {
            (KeepRecent::Turns { target_percent, .. }, Full::From { window_tokens, .. }) => {
                Some(percent(context.map_or(window_tokens, |context| context.min(window_tokens)), target_percent))
            }
            _ => None,
        };
        match aim {
            _ if is_empty => Made::Nothing,
            Some(aim) if tokens > aim && !is_forced => Made::TooLarge,
            _ => Made::Summary,
        }
    }

    /// The most tokens of the user's own words in a summary, of a context that has this many at most.
    pub fn user_words(&self, room: u64) -> u64 {
        self.user_words_tokens.min((room / 8).max(LEAST_USER_WORDS_TOKENS))
    }

    /// The most tokens of the model's part of a summary, of a context that has this many at most.
    pub fn summary(&self, room: u64) -> u32 {
        self.summary_tokens.min(u32::try_from(room / 6).unwrap_or(u32::MAX)).max(256)
    }
}

/// Tokens of prompt from which on a reply of this model that was cut means a full window, where the context counts as
/// full at `full_at`: what is not even full by that is no full window.
pub fn cut_at(model: &str, full_at: Option<u64>) -> u64 {
    let name = model.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    // `o1` is a name of its own and not a piece of one.
    let names = |word: &str| {
        name.match_indices(word).any(|(at, _)| !name[..at].ends_with(|char: char| char.is_ascii_alphanumeric()))
    };
    let budget = BUDGETS.iter().find(|(word, _)| names(word)).map_or(OTHERS_BUDGET, |(_, tokens)| *tokens);
    percent(budget, CUT_PERCENT).max(full_at.unwrap_or(0))
}

impl Full {
    /// Whether a context that is full by this may still be sent: it is a mark on the way, and not the window's end.
    pub fn is_early(&self) -> bool {
        match self {
            Self::Reserve { .. } | Self::Reply { .. } => false,
            Self::Above { .. } | Self::From { .. } => true,
        }
    }
}

impl Default for Compaction {
    fn default() -> Self {
        Self::piton()
    }
}

impl Prune {
    /// The numbers of the `piton` preset.
    pub fn piton() -> Self {
        Self {
            on: true,
            protect_tokens: PRUNE_PROTECT_TOKENS,
            minimum_tokens: PRUNE_MINIMUM_TOKENS,
            protect_turns: 0,
            protect_tools: Vec::new(),
            failed_too: true,
        }
    }
}

impl Default for Prune {
    fn default() -> Self {
        Self::piton()
    }
}

pub(super) fn percent(of: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(of) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}
