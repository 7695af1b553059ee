//! What of cargo's settings goes with a command: how something is built, and where packages come from, without anybody's token.

use super::address;
use crate::tables::{CARRIED_CARGO, CARRIED_CARGO_KEYS};
use toml::{Table, Value};

/// A `config.toml` with what is carried of this one; empty where that is nothing.
pub(super) fn carried(text: &str) -> String {
    let Ok(mut config) = text.parse::<Table>() else { return String::new() };
    config.retain(|name, _| CARRIED_CARGO.contains(&name));
    for (name, value) in &mut config {
        let keys = CARRIED_CARGO_KEYS.iter().find(|(table, _)| table == name).map(|(_, keys)| *keys);
        let Value::Table(table) = value else { continue };
        match (name.as_str(), keys) {
            ("registries" | "source", Some(keys)) => table.retain(|_, place| is_place(place, keys)),
            (_, Some(keys)) => table.retain(|key, value| keys.contains(&key) && is_kept(value)),
            (_, None) => table.retain(|_, value| is_kept(value)),
        }
    }
    while drop_dangling(&mut config) {}
    config.retain(|_, value| value.as_table().is_none_or(|table| !table.is_empty()));
    toml::to_string(&config).unwrap_or_default()
}

/// Takes everything but `keys` out of a registry or a source. One that cannot be carried whole is none: cargo would refuse it.
fn is_place(place: &mut Value, keys: &[&str]) -> bool {
    let Value::Table(place) = place else { return false };
    place.retain(|key, _| keys.contains(&key));
    !place.is_empty() && place.iter_mut().all(|(_, value)| is_kept(value))
}

/// Whether a value is carried: addresses without a user, the rest as it is.
fn is_kept(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text.contains("://") => match without_user(text) {
            Some(address) => {
                *text = address;
                true
            }
            None => false,
        },
        Value::Array(values) => {
            values.retain_mut(is_kept);
            true
        }
        Value::Table(table) => {
            table.retain(|_, value| is_kept(value));
            true
        }
        Value::String(_) | Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => true,
    }
}

fn without_user(text: &str) -> Option<String> {
    if text.starts_with("file:///") {
        return Some(text.to_owned());
    }
    let kind = ["sparse+", "registry+"].into_iter().find(|kind| text.starts_with(kind)).unwrap_or_default();
    Some(format!("{kind}{}", address(&text[kind.len()..])?))
}

/// Takes out what names a registry or a source that is not there. Answers whether there was any.
fn drop_dangling(config: &mut Table) -> bool {
    let names = |of: &str| config.get(of).and_then(Value::as_table).into_iter().flat_map(Table::keys).cloned();
    let known: Vec<String> = names("source").chain(names("registries")).chain(["crates-io".to_owned()]).collect();
    let is_missing = |value: Option<&Value>| {
        value.and_then(Value::as_str).is_some_and(|name| !known.iter().any(|known| known == name))
    };
    let mut dropped = false;
    if let Some(sources) = config.get_mut("source").and_then(Value::as_table_mut) {
        let before = sources.len();
        sources.retain(|_, source| !is_missing(source.get("replace-with")));
        dropped |= sources.len() < before;
    }
    if let Some(registry) = config.get_mut("registry").and_then(Value::as_table_mut)
        && is_missing(registry.get("default"))
    {
        registry.remove("default");
        dropped = true;
    }
    dropped
}
