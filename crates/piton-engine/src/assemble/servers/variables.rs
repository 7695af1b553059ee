//! Variables in an entry: `${NAME}`, `${NAME:-default}`, and OpenCode's `{env:NAME}`.

use super::super::machine::Machine;
use super::file::shown;
use piton_core::secrets::is_secret_variable;
use serde_json::Value;
use std::collections::BTreeMap;

/// The text with its variables filled in; or why it cannot be. A variable that is set to nothing is not set.
pub(super) fn fill(text: &str, machine: &Machine) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let next = [rest.find("${"), rest.find("{env:")].into_iter().flatten().min();
        let Some(at) = next else {
            out.push_str(rest);
            return Ok(out);
        };
        out.push_str(&rest[..at]);
        let open = if rest[at..].starts_with("${") { "${" } else { "{env:" };
        let inner = &rest[at + open.len()..];
        let Some(end) = inner.find('}') else {
            out.push_str(&rest[at..]);
            return Ok(out);
        };
        let (name, default) = match inner[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inner[..end], None),
        };
        if !is_name(name) {
            return Err(format!("`{}` names no variable", shown(&rest[at..=at + open.len() + end])));
        }
        match machine.var(name).or(default) {
            Some(value) => out.push_str(value),
            None => return Err(format!("the variable {name} is not set")),
        }
        rest = &inner[end + 1..];
    }
}

/// The variables in an entry that are named like secrets, and what is filled in for them.
pub(super) fn secrets(entry: &Value, machine: &Machine) -> BTreeMap<String, String> {
    match entry {
        Value::String(text) => {
            let inside = text.split("${").skip(1).chain(text.split("{env:").skip(1));
            let names = inside.filter_map(|rest| rest.split(['}', ':']).next());
            let secret = names.filter(|name| is_name(name) && is_secret_variable(name));
            secret.filter_map(|name| Some((name.to_owned(), machine.var(name)?.to_owned()))).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| secrets(item, machine)).collect(),
        Value::Object(fields) => fields.values().flat_map(|field| secrets(field, machine)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => BTreeMap::new(),
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_missing_ones_are_named() {
        let vars = BTreeMap::from([("A".into(), "one".into()), ("EMPTY".into(), "".into())]);
        let machine = Machine { vars, ..Machine::default() };
        let fill = |text: &str| fill(text, &machine);
        assert_eq!(fill("${A}/x/${B:-two}/{env:A}").as_deref(), Ok("one/x/two/one"));
        assert_eq!(fill("$A {A} ${A").as_deref(), Ok("$A {A} ${A"));
        assert_eq!(fill("${EMPTY:-y}${B:-}").as_deref(), Ok("y"));
        assert_eq!(fill("${EMPTY}"), Err("the variable EMPTY is not set".to_owned()));
        assert!(fill("${a b}").unwrap_err().contains("names no variable"));
    }

    #[test]
    fn what_was_filled_in_for_secrets_is_known() {
        let vars = [("API_KEY", "k1"), ("X_TOKEN", "t1"), ("NAME", "me"), ("PASSWORD", "unused")];
        let vars = vars.map(|(name, value)| (name.into(), value.into()));
        let machine = Machine { vars: BTreeMap::from(vars), ..Machine::default() };
        let entry = serde_json::json!({"args": ["--key=${API_KEY}", "${NAME}"], "env": {"A": "x{env:X_TOKEN}"}});
        let known = [("API_KEY", "k1"), ("X_TOKEN", "t1")];
        assert_eq!(secrets(&entry, &machine), known.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        // As it stands in front, it names no variable.
        assert_eq!(secrets(&serde_json::json!("API_KEY}${PASSWORD:-x}"), &machine).len(), 1);
    }
}
