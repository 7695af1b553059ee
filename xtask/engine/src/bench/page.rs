//! The table and the page around it, as Markdown.

use super::measures::{Limit, Row, Unit, median};
use anyhow::Context;
use std::fmt::Write as _;

/// The rows beside their limits.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::from("| name | what | median | p90 | limit | verdict |\n|---|---|---:|---:|---:|---|\n");
    for row in rows {
        let number = |number: f64| row.unit.show(number);
        let p90 = row.p90.map(number).unwrap_or_default();
        let limit = match row.limit {
            None => String::new(),
            Some(Limit::AtMost(most)) => format!("≤ {}", number(most)),
            Some(Limit::AtLeast(least)) => format!("≥ {}", number(least)),
        };
        let verdict = match row.limit {
            None => "",
            Some(limit) if limit.is_kept_by(row.median) => "ok",
            Some(_) => "MISSED",
        };
        let (name, what, median) = (row.name, row.what, number(row.median));
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {name} | {what} | {median} | {p90} | {limit} | {verdict} |");
    }
    text
}

/// The rows of two checkouts side by side, each the median of its rounds, and how many times the older the newer is: the
/// median of the rounds' own ratios, since what slows the machine down for a while meets both of a round.
pub(super) fn ratios(older: &[Vec<Row>], newer: &[Vec<Row>]) -> anyhow::Result<String> {
    let mut text =
        String::from("| name | what | before | now | ratio | of each round |\n|---|---|---:|---:|---:|---|\n");
    for row in &newer[0] {
        let of = |rounds: &[Vec<Row>]| -> Option<Vec<f64>> {
            rounds
                .iter()
                .map(|rows| {
                    rows.iter().find(|other| (other.name, &other.what) == (row.name, &row.what)).map(|row| row.median)
                })
                .collect()
        };
        let (before, now) = of(older)
            .zip(of(newer))
            .with_context(|| format!("{} was not measured in every round: {}", row.name, row.what))?;
        let each: Vec<f64> = before.iter().zip(&now).map(|(before, now)| now / before).collect();
        let rounds: Vec<String> = each.iter().map(|ratio| format!("{ratio:.2}")).collect();
        let (name, what, show) = (row.name, row.what, |numbers| row.unit.show(median(numbers)));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {name} | {what} | {} | {} | {:.2} | {} |",
            show(before),
            show(now),
            median(each),
            rounds.join(" ")
        );
    }
    Ok(text)
}

/// The whole page.
pub(super) fn page(rows: &[Row], facts: &[(&str, String)], date: &str) -> String {
    let table = table(rows);
    let facts: String = facts.iter().map(|(name, value)| format!("| {name} | {value} |\n")).collect();
    format!("{TITLE}\n\n| | |\n|---|---|\n| Date | {date} |\n{facts}\n{table}\n{READING}\n\n{PEERS}\n")
}

const TITLE: &str = "\
# What Piton itself costs

`cargo xtask bench` writes this page. `cargo xtask bench NAME...` measures only the named rows and prints them, and
`cargo xtask bench --against DIR NAME...` measures this checkout and another one alternately and prints the ratios. The
binary of the profile named below (`dist` is the shipped one) talks to a scripted model on loopback. Every run has a fresh workspace and a fresh data folder, and the
journal keeps its default durability: every step is on the disk before the next one begins.";

const READING: &str = "\
Numbers from a shared machine are noisy: disks and cores are shared, and one run may be twice as slow as the next.
The `floor` rows beside `hundred_steps` were measured between its runs. They show the cost of one small durable write and of one
process on this machine at that time: compare a step with them rather than with a step on another machine. A step
with a command waits for one durable write (its start in the journal) and for one process (the command; its runner is
already running). Listing sessions looks only at those that may have changed; the last `floor` row is the cost
of looking at all of them. The `face` rows are measured from outside, through a pseudo-terminal, by `xtask/terminal/measure.py`
([terminal.md](terminal.md)).

CPU and memory are the kernel's counts for Piton and all processes below it. MB are millions of bytes, and memory
is the resident set, including mapped files. Limits apply to the median.";

const PEERS: &str = "\
## Other agents

We measured these earlier, on a similar machine, in the same way but on another day: treat them as orders of magnitude.

| agent | process start to first request, ms | a step with `bash: echo`, ms |
|---|---:|---:|
| Codex | 207 | 52 |
| Claude Code | 424 | 34 |
| pi | 903 | 11 |
| OpenCode | 2722 | 172 |";

impl Unit {
    fn show(self, number: f64) -> String {
        match self {
            Self::Milliseconds => format!("{number:.2} ms"),
            Self::Seconds => format!("{number:.3} s"),
            Self::Megabytes => format!("{number:.1} MB"),
            Self::Bytes => format!("{number:.0} bytes"),
            Self::MegabytesPerSecond => format!("{number:.0} MB/s"),
            Self::Times => format!("{number:.2} ×"),
            Self::Number => format!("{number:.1}"),
        }
    }
}
