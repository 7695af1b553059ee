//! Whether and when a failed model call is made again. Pure: the clock and the dice are handed in.

use crate::limits;
use crate::model::{ModelError, ModelErrorKind};
use serde::{Deserialize, Serialize};

/// How patient the loop is with a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Wait before the first retry, in milliseconds; it doubles with each further one.
    pub first_ms: u64,
    /// The longest wait of our own choosing where the provider did not answer at all, in milliseconds.
    pub cap_ms: u64,
    /// The same where it did answer, with an error.
    pub cap_answered_ms: u64,
    /// The longest wait a provider may impose (`retry-after`), in milliseconds.
    pub provider_cap_ms: u64,
    /// What happens when it asks for more.
    pub beyond_cap: BeyondCap,
    /// Retries of one model call; `None` for no limit.
    pub per_call: Option<u32>,
    /// Failed attempts in one turn, whichever step they belong to; success does not reset it. `None` for no limit.
    pub per_turn: Option<u32>,
    /// How our own waits are spread, so that many clients do not come back in step.
    pub jitter: Jitter,
    /// Which failures are worth another try.
    #[serde(default)]
    pub on: RetryOn,
    /// Which failures make our own waits longer.
    #[serde(default)]
    pub backoff_by: BackoffBy,
}

/// Which failures are worth another try. Our own death always is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// Every one that may pass ([`ModelErrorKind::is_retryable`]).
    #[default]
    Any,
    /// Those with one of these HTTP statuses.
    Statuses(Vec<u16>),
    /// Those of one of these kinds.
    Kinds(Vec<ModelErrorKind>),
}

/// Which failures make our own waits longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackoffBy {
    /// Those of the same model call.
    #[default]
    Call,
    /// All of the turn.
    Turn,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_ms: limits::RETRY_FIRST_MS,
            cap_ms: limits::RETRY_CAP_MS,
            cap_answered_ms: limits::RETRY_CAP_MS,
            provider_cap_ms: limits::RETRY_PROVIDER_CAP_MS,
            beyond_cap: BeyondCap::GiveUp,
            per_call: Some(limits::RETRIES_PER_CALL),
            per_turn: None,
            jitter: Jitter::Full,
            on: RetryOn::Any,
            backoff_by: BackoffBy::Call,
        }
    }
}

impl RetryOn {
    /// Whether this failure is worth another try.
    pub fn holds(&self, error: &ModelError) -> bool {
        match self {
            _ if error.kind == ModelErrorKind::Interrupted => true,
            Self::Any => error.is_retryable(),
            Self::Statuses(statuses) => error.status.is_some_and(|status| statuses.contains(&status)),
            Self::Kinds(kinds) => kinds.contains(&error.kind),
        }
    }
}

/// What happens when a provider asks for a longer wait than is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeyondCap {
    /// The turn ends, saying so: a person should decide.
    GiveUp,
    /// The longest allowed wait is taken.
    WaitCap,
    /// Our own wait is taken.
    OwnWait,
}

/// How a wait is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Exactly the computed wait.
    None,
    /// Anything from a tenth of the computed wait up to all of it.
    Full,
}

/// Retries of an unreadable or empty answer: such a model seldom recovers, and each try is billed.
pub const UNUSABLE_REPLY_RETRIES: u32 = 2;

/// How often it went wrong, this time included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    /// Attempts at this call.
    pub call: u32,
    /// Of these, the ones that brought an answer nobody can use.
    pub unusable: u32,
    /// Attempts in this turn.
    pub turn: u32,
}

impl Failures {
    /// So many in one call, all of this kind.
    pub fn alike(kind: ModelErrorKind, count: u32) -> Self {
        Self { call: count, unusable: if is_unusable(kind) { count } else { 0 }, turn: count }
    }

    /// These, and one more.
    #[must_use]
    pub fn and(self, kind: ModelErrorKind) -> Self {
        let unusable = self.unusable + u32::from(is_unusable(kind));
        Self { call: self.call + 1, unusable, turn: self.turn + 1 }
    }
}

/// Whether this failure is an answer that nobody can use.
fn is_unusable(kind: ModelErrorKind) -> bool {
    matches!(kind, ModelErrorKind::EmptyReply | ModelErrorKind::Malformed)
}

/// The wait before the next attempt, in milliseconds, or `None` when it is not worth or not allowed to try again. `dice`
/// is uniform in 0..=1000.
pub fn wait_ms(policy: &RetryPolicy, error: &ModelError, failures: Failures, dice: u64) -> Option<u64> {
    if !policy.on.holds(error) || !within(policy, error.kind, failures) {
        return None;
    }
    if error.kind == ModelErrorKind::Interrupted {
        return Some(0);
    }
    // No wait at all is no wish: asked again at once, a provider says the same again. Only who obeys whatever it says
    // obeys that, too.
    let obeys_all = policy.beyond_cap == BeyondCap::WaitCap;
    match (error.retry_after_ms.filter(|asked| *asked > 0 || obeys_all), policy.beyond_cap) {
        (Some(asked), _) if asked <= policy.provider_cap_ms => return Some(asked),
        (Some(_), BeyondCap::GiveUp) => return None,
        (Some(_), BeyondCap::WaitCap) => return Some(policy.provider_cap_ms),
        (Some(_), BeyondCap::OwnWait) | (None, _) => {}
    }
    let cap_ms = if error.status.is_some() { policy.cap_answered_ms } else { policy.cap_ms };
    let counted = match policy.backoff_by {
        BackoffBy::Call => failures.call,
        BackoffBy::Turn => failures.turn,
    };
    let wait = backoff_ms(policy.first_ms, cap_ms, counted);
    Some(match policy.jitter {
        Jitter::None => wait,
        Jitter::Full => wait.saturating_mul(100 + dice.min(1000) * 9 / 10) / 1000,
    })
}

/// `first × 2^(retry − 1)`, at most `cap`.
pub fn backoff_ms(first_ms: u64, cap_ms: u64, retry: u32) -> u64 {
    let factor = 1_u64.checked_shl(retry.saturating_sub(1)).unwrap_or(u64::MAX);
    first_ms.saturating_mul(factor).min(cap_ms)
}

/// Whether the limits leave room for another attempt after so many failures.
pub(crate) fn within(policy: &RetryPolicy, kind: ModelErrorKind, failures: Failures) -> bool {
    if kind == ModelErrorKind::Interrupted {
        return true;
    }
    policy.per_call.is_none_or(|most| failures.call <= most)
        && policy.per_turn.is_none_or(|most| failures.turn < most)
        && (!is_unusable(kind) || failures.unusable <= UNUSABLE_REPLY_RETRIES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn error(kind: ModelErrorKind, retry_after_ms: Option<u64>) -> ModelError {
        ModelError { retry_after_ms, ..ModelError::new(kind, "") }
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        let waits: Vec<u64> = (1..=7).map(|retry| backoff_ms(2_000, 30_000, retry)).collect();
        assert_eq!(waits, [2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        assert_eq!(backoff_ms(2_000, 30_000, 4_000_000), 30_000);
    }

    #[test]
    fn the_providers_word_wins_over_our_own_unless_it_is_absurd() {
        let policy = Policy::piton().retry.usual;
        let asked = |ms| {
            wait_ms(
                &policy,
                &error(ModelErrorKind::RateLimited, Some(ms)),
                Failures::alike(ModelErrorKind::RateLimited, 1),
                0,
            )
        };
        assert_eq!(asked(700), Some(700));
        assert_eq!(asked(policy.provider_cap_ms + 1), None);
        assert_eq!(asked(0), Some(200), "no wait is no wish");
    }

    #[test]
    fn the_provider_knows_best_whether_to_ask_again() {
        let policy = Policy::piton().retry.usual;
        let wait = |kind, should_retry| {
            let error = ModelError { should_retry, ..error(kind, None) };
            wait_ms(&policy, &error, Failures::alike(kind, 1), 1000)
        };
        assert_eq!(wait(ModelErrorKind::Server, Some(false)), None);
        assert_eq!(wait(ModelErrorKind::InvalidRequest, Some(true)), Some(2_000));
        assert_eq!(wait(ModelErrorKind::Auth, Some(true)), None, "a wrong key stays wrong");
    }

    #[test]
    fn jitter_stays_between_a_tenth_and_the_whole_wait() {
        let policy = Policy::piton().retry.usual;
        let at = |dice| {
            wait_ms(&policy, &error(ModelErrorKind::Server, None), Failures::alike(ModelErrorKind::Server, 2), dice)
                .expect("retryable")
        };
        assert_eq!((at(0), at(1000)), (400, 4_000));
        assert!((400..=4_000).contains(&at(500)));
        let brief = RetryPolicy { first_ms: 900, ..policy };
        let at = |dice| {
            wait_ms(&brief, &error(ModelErrorKind::Server, None), Failures::alike(ModelErrorKind::Server, 1), dice)
                .expect("retryable")
        };
        assert_eq!((at(0), at(500), at(1000)), (90, 495, 900));
    }

    #[test]
    fn hopeless_errors_and_spent_limits_are_not_retried() {
        let policy = Policy::piton().retry.usual;
        assert_eq!(
            wait_ms(&policy, &error(ModelErrorKind::Auth, None), Failures::alike(ModelErrorKind::Auth, 1), 0),
            None
        );
        assert!(
            wait_ms(&policy, &error(ModelErrorKind::Network, None), Failures::alike(ModelErrorKind::Network, 5), 0)
                .is_some()
        );
        assert_eq!(
            wait_ms(&policy, &error(ModelErrorKind::Network, None), Failures::alike(ModelErrorKind::Network, 6), 0),
            None
        );
        assert_eq!(
            wait_ms(
                &policy,
                &error(ModelErrorKind::EmptyReply, None),
                Failures::alike(ModelErrorKind::EmptyReply, 3),
                0
            ),
            None
        );
        assert_eq!(
            wait_ms(
                &policy,
                &error(ModelErrorKind::Interrupted, None),
                Failures::alike(ModelErrorKind::Interrupted, 60),
                0
            ),
            Some(0),
            "our own death is free"
        );
    }
}
