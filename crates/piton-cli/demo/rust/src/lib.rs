//! Splits a bill among friends, to the cent.

/// What each of `people` pays of `total_cents`. Nobody pays more than one cent more than anybody else.
pub fn split(total_cents: u64, people: u64) -> Vec<u64> {
    let share = total_cents / people;
    (0..people).map(|_| share).collect()
}

/// The bill with a tip of `percent`, rounded up to the next cent.
pub fn with_tip(total_cents: u64, percent: u64) -> u64 {
    total_cents + (total_cents * percent).div_ceil(100)
}
