//! How much of a conversation stays word for word.

use crate::message::{Message, Role};

/// What becomes of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionPlan {
    /// So many messages from the beginning are summed up; the others stay.
    pub summed_up: usize,
}

/// Keeps the newest messages of at most so many tokens. `sizes` are the messages' tokens in order, and `may_begin` says
/// of each whether what is kept may begin with it: a result may not, for its call would be missing. `None` where there
/// is nothing to sum up.
pub fn by_tokens(sizes: &[u64], may_begin: impl Fn(usize) -> bool, keep_tokens: u64) -> Option<CompactionPlan> {
    let (mut kept, mut cut) = (0_u64, sizes.len());
    for (place, size) in sizes.iter().enumerate().rev() {
        kept = kept.saturating_add(*size);
        if kept > keep_tokens {
            break;
        }
        if may_begin(place) {
            cut = place;
        }
    }
    (cut > 0).then_some(CompactionPlan { summed_up: cut })
}

/// Keeps the newest turns; `begins_turn` says of each message whether it is a user's. Where there are no more turns than
/// that, nothing is summed up, unless something must be: then all but the last message is.
pub fn by_turns(begins_turn: &[bool], turns: u32, must: bool) -> Option<CompactionPlan> {
    let starts: Vec<usize> =
        begins_turn.iter().enumerate().filter(|(_, begins)| **begins).map(|(place, _)| place).collect();
    let keep = usize::try_from(turns).unwrap_or(usize::MAX);
    let cut = starts.len().checked_sub(keep).and_then(|first| starts.get(first)).copied().unwrap_or(0);
    match cut {
        0 if must && begins_turn.len() > 1 => Some(CompactionPlan { summed_up: begins_turn.len() - 1 }),
        0 => None,
        cut => Some(CompactionPlan { summed_up: cut }),
    }
}

/// From which message on nothing may be summed up before the next step: the newest reply with its results, or what was
/// said since. The model has not answered to it, or shall go on with it.
pub fn unread<'a>(messages: impl DoubleEndedIterator<Item = &'a Message> + ExactSizeIterator) -> usize {
    let len = messages.len();
    let replies = messages.enumerate().rev().find(|(_, message)| message.role == Role::Assistant);
    match replies {
        Some((place, reply)) if place + 1 == len || reply.calls().next().is_some() => place,
        Some((place, _)) => place + 1,
        None => 0,
    }
}

/// The most that each of these may have, so that all together have `most`: small ones have all they need.
pub fn evenly(mut sizes: Vec<u64>, most: u64) -> u64 {
    sizes.sort_unstable();
    let (mut left, mut count) = (most, sizes.len() as u64);
    for size in sizes {
        let share = left / count;
        if size > share {
            return share;
        }
        (left, count) = (left - size, count - 1);
    }
    u64::MAX
}
