//! What a model call may use at most, and whether a budget leaves room for it. Asked before each call, so that a budget
//! is never overdrawn: what cannot be known beforehand counts as the worst it can be.

use crate::ending::Why;
use crate::limits::{MIN_REPLY_TOKENS, REPLY_TOKENS_NEAR_LIMIT, UNKNOWN_REPLY_TOKENS};
use serde::{Deserialize, Serialize};

/// The limits of a turn and of a session; `None` for no limit. Piton makes a model call only if its worst case fits,
/// and runs tool calls while anything is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Input and output tokens, cache reads included.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar. With this limit, Piton does not call a model without a known price.
    pub cost_micros: Option<u64>,
    /// Money over all turns of the session, including titles and compactions, in millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_cost_micros: Option<u64>,
    /// Wall-clock time of the turn, in milliseconds; time between a crash and a resume does not count.
    pub wall_clock_ms: Option<u64>,
}

/// An upper bound on past or future usage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Input and output together.
    pub tokens: u64,
    /// Money, in millionths of a US dollar; `None` if the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

/// What a turn has used at most, and all of its session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// The turn.
    pub turn: Bound,
    /// The session, with the turn.
    pub session: Bound,
    /// The turn's steps, as its limit counts them, with those of the subagents that were called in it.
    pub steps: u32,
}

impl Used {
    /// Adds what was used in the turn.
    pub fn add(&mut self, more: &Bound) {
        self.turn.add(more);
        self.session.add(more);
    }
}

impl Budget {
    /// Which part of the budget is used up, in words, or `None`. Time is watched by a timer of its own.
    pub fn spent(&self, used: &Used) -> Option<Short> {
        let tokens = used.turn.tokens;
        if let Some(most) = self.tokens.filter(|most| tokens >= *most) {
            return Some(Short::new(Why::Tokens, format!("{tokens} of {most} tokens used")));
        }
        self.money(used).find(|money| money.used >= money.most).map(|money| {
            let Money { why, of, used, most } = money;
            Short::new(why, format!("${} of ${} spent{of}", dollars(used), dollars(most)))
        })
    }

    /// What of it holds between turns, too.
    pub fn of_session(&self) -> Self {
        Self { session_cost_micros: self.session_cost_micros, ..Self::default() }
    }

    /// The limits in dollars.
    fn money(&self, used: &Used) -> impl Iterator<Item = Money> {
        let limits = [
            (self.cost_micros, used.turn, Why::Cost, ""),
            (self.session_cost_micros, used.session, Why::SessionCost, " in this session"),
        ];
        limits.into_iter().filter_map(|(most, used, why, of)| {
            Some(Money { why, of, used: used.cost_micros.unwrap_or(0), most: most? })
        })
    }
}

/// A limit in dollars, and what was used of it.
struct Money {
    why: Why,
    /// What it is a limit of, in words.
    of: &'static str,
    used: u64,
    most: u64,
}

/// Millionths of a dollar as `1.2345`.
pub fn dollars(micros: u64) -> String {
    format!("{}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100)
}

impl Bound {
    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        if let Some(cost) = other.cost_micros {
            self.cost_micros = Some(self.cost_micros.unwrap_or(0).saturating_add(cost));
        }
    }
}

/// The dearest rates of a model, in millionths of a US dollar for one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorstRates {
    /// A prompt token, should it have to be written to the cache as well.
    pub input: f64,
    /// A generated token.
    pub output: f64,
}

/// A model call that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpcomingCall<'a> {
    /// The model, for words to people.
    pub model: &'a str,
    /// The most tokens its prompt can have.
    pub input_tokens: u64,
    /// The most tokens its reply can have, where anybody knows: what was asked for, or what the model can.
    pub output_tokens: Option<u32>,
    /// What it costs, where that is known.
    pub rates: Option<WorstRates>,
}

/// What a budget says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leave {
    /// It fits, whatever it does.
    Free,
    /// It fits if its reply has no more tokens than these.
    Capped(u32),
    /// Not even a short reply fits.
    Short(Short),
}

/// A budget that is used up, or that leaves too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Short {
    /// Which one.
    pub why: Why,
    /// What was used or would have been needed, for people.
    pub detail: String,
}

impl Short {
    fn new(why: Why, detail: impl Into<String>) -> Self {
        Self { why, detail: detail.into() }
    }
}

impl UpcomingCall<'_> {
    /// What it uses at most, with a reply of this many tokens.
    pub fn at_most(&self, output_tokens: u32) -> Bound {
        let output = u64::from(output_tokens);
        let cost =
            |rates: WorstRates| (self.input_tokens as f64 * rates.input + output as f64 * rates.output).ceil() as u64;
        Bound { tokens: self.input_tokens.saturating_add(output), cost_micros: self.rates.map(cost) }
    }

    /// Its longest reply: what nobody knows counts as the longest there is.
    pub fn longest_reply(&self) -> u32 {
        self.output_tokens.unwrap_or(UNKNOWN_REPLY_TOKENS)
    }

    /// Whether it may be made, when this much is used already.
    pub fn leave(&self, budget: &Budget, used: &Used) -> Leave {
        let longest = self.longest_reply();
        let shortest = longest.min(MIN_REPLY_TOKENS);
        let mut room = u64::MAX;
        if let Some(most) = budget.tokens {
            let left = most.saturating_sub(used.turn.tokens);
            room = left.saturating_sub(self.input_tokens);
            if room < u64::from(shortest) {
                let need = self.at_most(shortest).tokens;
                return Leave::Short(Short::new(
                    Why::Tokens,
                    format!(
                        "the next call can need {need} tokens ({} in, and {shortest} for a short reply), and {left} of {most} \
                     are left",
                        self.input_tokens
                    ),
                ));
            }
        }
        for money in budget.money(used) {
            match self.paid_by(&money, shortest) {
                Ok(paid) => room = room.min(paid),
                Err(short) => return Leave::Short(short),
            }
        }
        if room >= u64::from(longest) {
            return Leave::Free;
        }
        let usual = if self.output_tokens.is_some() { u32::MAX } else { REPLY_TOKENS_NEAR_LIMIT };
        Leave::Capped(u32::try_from(room).unwrap_or(u32::MAX).min(usual).max(shortest))
    }

    /// How many tokens of a reply what is left of a limit pays for.
    fn paid_by(&self, money: &Money, shortest: u32) -> Result<u64, Short> {
        let Some(rates) = self.rates else {
            return Err(Short::new(
                Why::NoPrice,
                format!("the price of {} is not known, so no call of it can be kept below it", self.model),
            ));
        };
        let left = money.most.saturating_sub(money.used);
        let need = self.at_most(shortest).cost_micros.unwrap_or(u64::MAX);
        if need > left {
            return Err(Short::new(
                money.why,
                format!(
                    "the next call could cost up to ${}; ${} of ${} is left{}",
                    dollars(need),
                    dollars(left),
                    dollars(money.most),
                    money.of
                ),
            ));
        }
        let left = left as f64 - self.input_tokens as f64 * rates.input;
        Ok(if rates.output > 0.0 { (left / rates.output).floor() as u64 } else { u64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: WorstRates = WorstRates { input: 3.75, output: 15.0 };

    fn call(input_tokens: u64, output_tokens: Option<u32>) -> UpcomingCall<'static> {
        UpcomingCall { model: "a/m", input_tokens, output_tokens, rates: Some(RATES) }
    }

    fn money(micros: u64) -> Budget {
        Budget { cost_micros: Some(micros), ..Budget::default() }
    }

    /// What the only turn of a session used.
    fn used(tokens: u64, cost_micros: Option<u64>) -> Used {
        let turn = Bound { tokens, cost_micros };
        Used { turn, session: turn, steps: 0 }
    }

    #[test]
    fn a_call_that_fits_at_its_worst_is_left_alone() {
        assert_eq!(call(10_000, Some(8_000)).leave(&money(157_500), &Used::default()), Leave::Free);
        assert_eq!(call(10_000, Some(8_000)).leave(&Budget::default(), &Used::default()), Leave::Free);
    }

    #[test]
    fn a_long_reply_is_cut_to_what_the_budget_leaves() {
        // 37,500 for the prompt leave 62,500, which are 4,166 tokens.
        assert_eq!(call(10_000, Some(32_000)).leave(&money(100_000), &Used::default()), Leave::Capped(4_166));
        let tokens = Budget { tokens: Some(20_000), ..Budget::default() };
        let used = used(5_000, None);
        assert_eq!(call(10_000, Some(32_000)).leave(&tokens, &used), Leave::Capped(5_000));
    }

    #[test]
    fn where_no_useful_reply_fits_the_call_is_not_made_and_what_it_needs_is_said() {
        let used = used(0, Some(70_000));
        let Leave::Short(Short { detail: words, .. }) = call(10_000, Some(32_000)).leave(&money(100_000), &used) else {
            panic!("it fits")
        };
        assert_eq!(words, "the next call could cost up to $0.0525; $0.0300 of $0.1000 is left");
        let tokens = Budget { tokens: Some(10_500), ..Budget::default() };
        let Leave::Short(Short { detail: words, .. }) = call(10_000, None).leave(&tokens, &Used::default()) else {
            panic!("it fits")
        };
        assert_eq!(
            words,
            "the next call can need 11000 tokens (10000 in, and 1000 for a short reply), and 10500 of 10500 are left"
        );
    }

    #[test]
    fn an_unknown_price_does_not_fit_any_budget_of_money_and_a_free_model_fits_all() {
        let unknown = UpcomingCall { rates: None, ..call(10, Some(10)) };
        assert!(matches!(unknown.leave(&money(1_000_000_000), &Used::default()), Leave::Short(_)));
        let free = UpcomingCall { rates: Some(WorstRates { input: 0.0, output: 0.0 }), ..call(10, Some(10)) };
        assert_eq!(free.leave(&money(1), &Used::default()), Leave::Free);
    }

    #[test]
    fn what_the_session_has_left_is_less_than_what_the_turn_may_spend() {
        let budget = Budget { cost_micros: Some(100_000), session_cost_micros: Some(1_000_000), ..Budget::default() };
        let spent = |cost_micros| Used {
            turn: Bound { tokens: 0, cost_micros: Some(0) },
            session: Bound { tokens: 0, cost_micros: Some(cost_micros) },
            steps: 0,
        };
        // Of the 55,000 that the session has left, the prompt takes 37,500: 17,500 are 1,166 tokens.
        assert_eq!(call(10_000, Some(32_000)).leave(&budget, &spent(0)), Leave::Capped(4_166));
        assert_eq!(call(10_000, Some(32_000)).leave(&budget, &spent(945_000)), Leave::Capped(1_166));
        let Leave::Short(Short { why, detail }) = call(10_000, Some(32_000)).leave(&budget, &spent(950_000)) else {
            panic!("it fits")
        };
        assert_eq!(why, Why::SessionCost);
        assert!(detail.ends_with("; $0.0500 of $1.0000 is left in this session"), "{detail}");
        let Some(Short { why, detail }) = budget.spent(&spent(1_000_000)) else { panic!("it is spent") };
        assert_eq!((why, detail.as_str()), (Why::SessionCost, "$1.0000 of $1.0000 spent in this session"));
    }

    #[test]
    fn whatever_is_left_a_call_that_is_made_keeps_within_it() {
        let mut dice = fastrand::Rng::with_seed(7);
        for _ in 0..100_000 {
            let call = UpcomingCall {
                model: "a/m",
                input_tokens: dice.u64(..300_000),
                output_tokens: dice.bool().then(|| dice.u32(1..200_000)),
                rates: Some(WorstRates { input: dice.f64() * 20.0, output: dice.f64() * 80.0 }),
            };
            let budget = Budget {
                tokens: dice.bool().then(|| dice.u64(..2_000_000)),
                cost_micros: dice.bool().then(|| dice.u64(..20_000_000)),
                session_cost_micros: dice.bool().then(|| dice.u64(..40_000_000)),
                wall_clock_ms: None,
            };
            let turn = Bound { tokens: dice.u64(..400_000), cost_micros: Some(dice.u64(..4_000_000)) };
            let mut session = turn;
            session.add(&Bound { tokens: dice.u64(..400_000), cost_micros: Some(dice.u64(..8_000_000)) });
            let mut used = Used { turn, session, steps: 0 };
            let output = match call.leave(&budget, &used) {
                Leave::Short(_) => continue,
                Leave::Free => call.longest_reply(),
                Leave::Capped(most) => most,
            };
            used.add(&call.at_most(output));
            assert!(budget.tokens.is_none_or(|most| used.turn.tokens <= most), "{call:?} {budget:?} {used:?}");
            // A fraction of a millionth of a dollar is rounded up.
            for (most, used) in [(budget.cost_micros, used.turn), (budget.session_cost_micros, used.session)] {
                let cost = used.cost_micros.unwrap_or(u64::MAX);
                assert!(most.is_none_or(|most| cost <= most + 1), "{call:?} {budget:?} {used:?}");
            }
        }
    }
}
