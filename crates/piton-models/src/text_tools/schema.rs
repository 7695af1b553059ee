//! Values of dialects that write every argument as bare text: what they mean is said by the tool's schema.
//!
//! A text that does not fit its schema stays text: the tool refuses it, and the model reads why.

use super::literal;
use piton_core::call::ToolSpec;
use serde_json::{Number, Value};
use std::sync::Arc;

/// The tools on offer.
#[derive(Debug, Clone)]
pub(super) struct Tools(Arc<[ToolSpec]>);

impl Tools {
    pub(super) fn new(tools: Arc<[ToolSpec]>) -> Self {
        Self(tools)
    }

    /// Whether a tool of this name is on offer, or nobody said which ones are.
    pub(super) fn may_offer(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|tool| tool.name == name)
    }

    /// What this text means as this argument of this tool.
    pub(super) fn value(&self, tool: &str, argument: &str, text: &str) -> Value {
        let root = self.0.iter().find(|spec| spec.name == tool).map(|spec| &spec.schema);
        let schema = root.and_then(|root| root.get("properties")?.get(argument).map(|schema| (root, schema)));
        let kinds = schema.map_or(Kinds::default(), |(root, schema)| Kinds::of(schema, root, MOST_DEPTH));
        kinds.read(text)
    }
}

/// Deeper than references and alternatives are nested; also the end of references that go in circles.
const MOST_DEPTH: usize = 8;

/// The types that a schema allows. None: it says nothing.
#[derive(Debug, Clone, Default)]
struct Kinds(Vec<String>);

impl Kinds {
    fn of(schema: &Value, root: &Value, depth: usize) -> Self {
        let Some(depth) = depth.checked_sub(1) else { return Self::default() };
        let mut kinds = Vec::new();
        match schema.get("type") {
            Some(Value::String(kind)) => kinds.push(kind.clone()),
            Some(Value::Array(all)) => kinds.extend(all.iter().filter_map(Value::as_str).map(ToOwned::to_owned)),
            Some(_) | None => {}
        }
        for key in ["anyOf", "oneOf", "allOf"] {
            let alternatives = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            kinds.extend(alternatives.flat_map(|schema| Self::of(schema, root, depth).0));
        }
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|path| root.pointer(path.strip_prefix('#')?));
        kinds.extend(target.into_iter().flat_map(|schema| Self::of(schema, root, depth).0));
        if kinds.is_empty() {
            let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
            kinds.extend(values.map(|value| kind_of(value).to_owned()));
        }
        Self(kinds)
    }

    /// The first type that the text can be; text itself last.
    fn read(&self, text: &str) -> Value {
        let trimmed = text.trim();
        let says_nothing = self.0.is_empty();
        let value = serde_json::from_str::<Value>(trimmed).ok().or_else(|| literal::value(trimmed));
        match value.map(whole) {
            Some(value) if self.allows(&value) || (says_nothing && !value.is_string()) => value,
            Some(_) | None => Value::String(text.to_owned()),
        }
    }

    fn allows(&self, value: &Value) -> bool {
        let is_allowed = |kind| self.0.iter().any(|allowed| allowed == kind);
        match value {
            // A bare text is the text itself, quotes included.
            Value::String(_) => false,
            Value::Number(number) => {
                is_allowed("number") || is_allowed("float") || (is_allowed("integer") && !number.is_f64())
            }
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => is_allowed(kind_of(value)),
        }
    }
}

/// `2.0` is 2.
fn whole(value: Value) -> Value {
    /// Up to here every whole number has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.as_f64() {
        Some(float) if float.fract() == 0.0 && float.abs() < EXACT => Value::Number(Number::from(float as i64)),
        Some(_) | None => value,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(schema: &Value, text: &str) -> Value {
        let root = json!({"$defs": {"many": {"type": "array"}}});
        Kinds::of(schema, &root, MOST_DEPTH).read(text)
    }

    #[test]
    fn a_text_becomes_what_its_schema_says() {
        assert_eq!(read(&json!({"type": "string"}), "42"), json!("42"));
        assert_eq!(read(&json!({"type": "integer"}), " 42\n"), json!(42));
        assert_eq!(read(&json!({"type": "integer"}), "2.0"), json!(2));
        assert_eq!(read(&json!({"type": "number"}), "3.5"), json!(3.5));
        assert_eq!(read(&json!({"type": "boolean"}), "True"), json!(true));
        assert_eq!(read(&json!({"type": ["string", "null"]}), "null"), json!(null));
        assert_eq!(read(&json!({"type": "object"}), "{'a': 1}"), json!({"a": 1}));
        assert_eq!(read(&json!({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/many"}]}), "[1]"), json!([1]));
        assert_eq!(read(&json!({"enum": [1, 2]}), "2"), json!(2));
    }

    #[test]
    fn a_text_that_does_not_fit_stays_as_it_is() {
        assert_eq!(read(&json!({"type": "integer"}), "4.5"), json!("4.5"));
        assert_eq!(read(&json!({"type": "object"}), "{\"a\":"), json!("{\"a\":"));
        assert_eq!(read(&json!({"type": "string"}), "\"quoted\" "), json!("\"quoted\" "));
    }

    #[test]
    fn without_a_schema_json_is_json_and_the_rest_text() {
        assert_eq!(read(&json!({}), "[1, 2]"), json!([1, 2]));
        assert_eq!(read(&json!({}), "2025-08-01"), json!("2025-08-01"));
        assert_eq!(read(&json!({}), "\"a\""), json!("\"a\""));
    }
}
