//! How much of a conversation stays word for word.

/// What becomes of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// So many messages from the beginning are summed up; the others stay.
    pub summed_up: usize,
}

/// Keeps the newest messages of at most so many tokens. `sizes` are the messages' tokens in order, and `may_begin` says
/// of each whether what is kept may begin with it: a result may not, for its call would be missing. `None` where there
/// is nothing to sum up.
pub fn by_tokens(sizes: &[u64], may_begin: impl Fn(usize) -> bool, keep_tokens: u64) -> Option<Plan> {
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
    (cut > 0).then_some(Plan { summed_up: cut })
}

/// Keeps the newest turns; `begins_turn` says of each message whether it is a user's. Where there are no more turns than
/// that, nothing is summed up, unless something must be: then all but the last message is.
pub fn by_turns(begins_turn: &[bool], turns: u32, must: bool) -> Option<Plan> {
    let starts: Vec<usize> =
        begins_turn.iter().enumerate().filter(|(_, begins)| **begins).map(|(place, _)| place).collect();
    let keep = usize::try_from(turns).unwrap_or(usize::MAX);
    let cut = starts.len().checked_sub(keep).and_then(|first| starts.get(first)).copied().unwrap_or(0);
    match cut {
        0 if must && begins_turn.len() > 1 => Some(Plan { summed_up: begins_turn.len() - 1 }),
        0 => None,
        cut => Some(Plan { summed_up: cut }),
    }
}
