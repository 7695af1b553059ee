//! The default values of a preset, as configuration keys.

use super::{CompactionTable, ContextTable, Forks, LimitsTable, Retry};
use crate::hooks::{CHECK_ROUNDS, CHECK_TIMEOUT};
use piton_core::policy::Policy;
use piton_http::HttpOptions;
use piton_tools::limits::SNAPSHOT_BYTES;
use piton_tools::tool::ToolLimits;
use serde::Serialize;
use toml::{Table, Value};

/// Every key that has such a value.
pub(super) fn of(policy: &Policy) -> Table {
    let context = ContextTable { instructions: Some(true), ..ContextTable::of(policy) };
    let said = [
        ("limits", said(&LimitsTable::of(policy))),
        ("loop", said(&Forks::of(policy))),
        ("retry", said(&Retry::of(&policy.retry.usual))),
        ("compaction", said(&CompactionTable::of(&policy.compaction.rules))),
        ("context", said(&context)),
        ("http", table(http())),
        ("check", table(vec![seconds("timeout", millis(CHECK_TIMEOUT)), number("rounds", CHECK_ROUNDS as u64)])),
        ("tools", table(tools())),
        ("undo", table(vec![Some(("snapshots", Value::from(true))), number("max_size", SNAPSHOT_BYTES / 1_000_000)])),
    ];
    let tables = said.into_iter().map(|(name, table)| (name.to_owned(), Value::Table(table)));
    let words = [("preset", policy.preset.as_str()), ("permission_mode", policy.mode.name())];
    tables.chain(words.map(|(key, word)| (key.to_owned(), Value::from(word)))).collect()
}

/// What a table says, key by key. A number that does not fit is no limit that anybody could feel.
fn said(table: &impl Serialize) -> Table {
    let said = serde_json::to_value(table).unwrap_or_default();
    let keys = said.as_object().into_iter().flatten();
    keys.filter_map(|(key, value)| Some((key.clone(), Value::try_from(value).ok()?))).collect()
}

fn table(entries: Vec<Entry>) -> Table {
    entries.into_iter().flatten().map(|(key, value)| (key.to_owned(), value)).collect()
}

type Entry = Option<(&'static str, Value)>;

fn http() -> Vec<Entry> {
    let HttpOptions { connect_timeout_ms, stall_ms, keep_alive_ms, .. } = HttpOptions::default();
    vec![
        seconds("connect_timeout", connect_timeout_ms),
        seconds("stall_timeout", stall_ms),
        seconds("keep_alive_timeout", keep_alive_ms),
    ]
}

fn tools() -> Vec<Entry> {
    let ToolLimits {
        bash_default_ms, bash_max_ms, background_most, background_max_ms, background_unattended_ms, ..
    } = ToolLimits::default();
    vec![
        seconds("bash_timeout", bash_default_ms),
        seconds("bash_timeout_cap", bash_max_ms),
        number("background_max", background_most as u64),
        seconds("background_timeout", background_max_ms),
        seconds("background_unattended", background_unattended_ms),
        Some(("apply_patch", Value::from("by_model"))),
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
