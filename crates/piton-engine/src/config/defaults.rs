//! What holds where nobody says anything but a preset, in the words in which it can be said.

use crate::hooks::{CHECK_ROUNDS, CHECK_TIMEOUT};
use piton_core::compact::{Full, Keep};
use piton_core::policy::Policy;
use piton_core::truncate::OutputCut;
use piton_http::HttpOptions;
use piton_tools::tool::ToolLimits;
use serde::Serialize;
use toml::{Table, Value};

/// Every key that has such a value.
pub(super) fn of(policy: &Policy) -> Table {
    let tables = [
        ("limits", limits(policy)),
        ("loop", forks(policy)),
        ("retry", retry(policy)),
        ("http", http()),
        ("compaction", compaction(policy)),
        ("check", vec![seconds("timeout", millis(CHECK_TIMEOUT)), number("rounds", CHECK_ROUNDS as u64)]),
        ("tools", tools()),
        ("context", context(policy)),
    ];
    let table =
        |entries: Vec<Entry>| entries.into_iter().flatten().map(|(key, value)| (key.to_owned(), value)).collect();
    let said = tables.into_iter().map(|(name, entries)| (name.to_owned(), Value::Table(table(entries))));
    said.chain([("preset".to_owned(), Value::from(policy.preset.as_str()))]).collect()
}

type Entry = Option<(&'static str, Value)>;

fn limits(policy: &Policy) -> Vec<Entry> {
    let whole = |key, most: Option<u32>| most.and_then(|most| number(key, most));
    let budget = &policy.budget;
    let output = match policy.calls.output_cut {
        OutputCut::HeadTail { max_chars } => number("tool_output", max_chars as u64),
        OutputCut::WholeLines { .. } => None,
    };
    vec![
        whole("max_steps", policy.steps.max),
        whole("max_replies", policy.steps.max_replies),
        whole("max_turns", policy.steps.max_turns),
        number("max_calls", policy.calls.max_per_step as u64),
        number("max_denials", policy.calls.max_denials.unwrap_or(0)),
        number("max_repeats", policy.stuck.repeats),
        number("max_compactions", policy.compaction.max),
        budget.tokens.and_then(|tokens| number("max_tokens", tokens)),
        budget.cost_micros.map(|micros| ("max_cost", Value::from(micros as f64 / 1e6))),
        budget.wall_clock_ms.and_then(|ms| number("max_time", ms / 1000)),
        output,
    ]
}

fn forks(policy: &Policy) -> Vec<Entry> {
    vec![
        word("steps_counted", &policy.steps.counted),
        word("calls_taken", &policy.calls.taken),
        word("denials_counted", &policy.calls.denials_counted),
        word("on_length", &policy.replies.on_length),
        word("on_unknown", &policy.replies.on_unknown),
        word("on_empty", &policy.replies.on_empty),
        word("on_repeats", &policy.stuck.then),
    ]
}

fn retry(policy: &Policy) -> Vec<Entry> {
    let retry = &policy.retry.usual;
    vec![
        retry.per_call.and_then(|times| number("times", times)),
        seconds("first_wait", retry.first_ms),
        seconds("longest_wait", retry.cap_ms),
        number("max_failures", retry.per_turn.unwrap_or(0)),
        word("backoff_by", &retry.backoff_by),
    ]
}

fn http() -> Vec<Entry> {
    let HttpOptions { connect_timeout_ms, stall_ms, keep_alive_ms, .. } = HttpOptions::default();
    vec![
        seconds("connect_timeout", connect_timeout_ms),
        seconds("stall_timeout", stall_ms),
        seconds("keep_alive_timeout", keep_alive_ms),
    ]
}

fn compaction(policy: &Policy) -> Vec<Entry> {
    let rules = &policy.compaction.rules;
    let reserve = match rules.full {
        Full::Reserve { tokens, .. } | Full::Reply { reserve_tokens: tokens, .. } => number("reserve", tokens),
        // A part of the window, which is no number of tokens.
        Full::Above { .. } | Full::From { .. } => None,
    };
    let keep = match rules.keep {
        Keep::Tokens { tokens, .. } => number("keep", tokens),
        Keep::Turns { .. } | Keep::Nothing => None,
    };
    vec![Some(("auto", Value::from(rules.auto))), Some(("prune", Value::from(rules.prune.on))), reserve, keep]
}

fn tools() -> Vec<Entry> {
    let ToolLimits { bash_default_ms, bash_max_ms, .. } = ToolLimits::default();
    vec![seconds("bash_timeout", bash_default_ms), seconds("bash_timeout_cap", bash_max_ms)]
}

fn context(policy: &Policy) -> Vec<Entry> {
    let sizes = &policy.references.sizes;
    vec![
        Some(("instructions", Value::from(true))),
        number("reference_bytes", sizes.file_bytes),
        number("reference_lines", sizes.lines as u64),
        number("reference_line_chars", sizes.line_chars as u64),
    ]
}

fn number(key: &'static str, value: impl Into<u64>) -> Entry {
    // What does not fit there is no limit that anybody could feel.
    i64::try_from(value.into()).ok().map(|value| (key, Value::from(value)))
}

fn seconds(key: &'static str, ms: u64) -> Entry {
    Some((key, Value::from(ms as f64 / 1000.0)))
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The word that stands for it in the file, which is the one in the journal.
fn word(key: &'static str, value: &impl Serialize) -> Entry {
    let word = serde_json::to_value(value).ok()?;
    word.as_str().map(|word| (key, Value::from(word)))
}
