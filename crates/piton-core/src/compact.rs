//! Making room in the context: when it is full, which old outputs can go, how much of the conversation stays as it is,
//! and what stands in place of the rest. All of it is arithmetic over a transcript; the driver asks the model.
//!
//! ```text
//!   [summary of before] user  assistant+results  assistant+results │ user  assistant+results      next step
//!   └────────────── a summary takes their place ───────────────────┘ └──── kept word for word ────┘
//! ```
//!
//! Two ways, the cheaper one first. *Pruning* takes the text of old tool outputs out and leaves a stub that names the
//! journal entry. *Compacting* has a model sum up all but the newest steps. Neither changes the journal, so that the
//! `history` tool finds whatever was left out.
//!
//! This module must not know: any provider, how a model is asked, files, the clock.

mod plan;
mod prune;
pub mod rules;
mod summary;
mod tokens;

pub use crate::tokens::Family;
pub use plan::{CompactionPlan, by_tokens, by_turns, evenly, unread};
pub use prune::{PrunableOutput, clip, select, stub};
pub use rules::{Compaction, Full, KeepRecent, Made, ModelWindow, Prune, WithoutSummary, cut_at};
pub use summary::{Dropped, FileUse, INSTRUCTION, MARK, instruction, own_words, text, verbatim};
pub use tokens::{of_message, of_value};

#[cfg(test)]
mod tests;
