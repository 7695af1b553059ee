//! A JSON Schema in no more bytes than there is room for. First go words that only explain, then what lies deepest.

use serde_json::{Map, Value, json};

/// How deep a schema is shown at most, one after the other, until it fits.
const DEPTHS: [usize; 4] = [6, 4, 2, 1];

/// The schema as text of at most so many bytes, and whether something was left out.
pub(super) fn shortened(schema: &Value, most: usize) -> (String, bool) {
    let whole = schema.to_string();
    if whole.len() <= most {
        return (whole, false);
    }
    let plain = without_words(schema);
    let tries = std::iter::once(plain.clone()).chain(DEPTHS.iter().map(|depth| cut_below(&plain, *depth)));
    let mut texts = tries.map(|schema| schema.to_string());
    match texts.find(|text| text.len() <= most) {
        Some(text) => (text, true),
        None => (names(schema, most), true),
    }
}

fn without_words(schema: &Value) -> Value {
    const WORDS: [&str; 7] = ["description", "title", "examples", "default", "$comment", "$schema", "$id"];
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| !WORDS.contains(&name.as_str()) || value.is_object());
            let kept = kept.map(|(name, value)| match (name.as_str(), value) {
                // What is called so here is a field of the input.
                ("properties", Value::Object(properties)) => {
                    let all = properties.iter().map(|(name, schema)| (name.clone(), without_words(schema)));
                    (name.clone(), Value::Object(all.collect()))
                }
                (_, value) => (name.clone(), without_words(value)),
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_words).collect()),
        other => other.clone(),
    }
}

/// Below this depth only types are left.
fn cut_below(schema: &Value, depth: usize) -> Value {
    match schema {
        Value::Object(fields) if depth == 0 => match fields.get("type") {
            Some(kind) => json!({"type": kind}),
            None => json!({}),
        },
        Value::Object(fields) => {
            let cut = fields.iter().map(|(name, value)| match (name.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    let all = properties.iter().map(|(name, schema)| (name.clone(), cut_below(schema, depth - 1)));
                    (name.clone(), Value::Object(all.collect()))
                }
                ("required" | "type" | "enum", value) => (name.clone(), value.clone()),
                (_, value) => (name.clone(), cut_below(value, depth - 1)),
            });
            Value::Object(cut.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| cut_below(item, depth)).collect()),
        other => other.clone(),
    }
}

/// The names of the fields, as far as there is room.
fn names(schema: &Value, most: usize) -> String {
    let mut text = "an object with the fields".to_owned();
    for name in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        if text.len() + name.len() + 2 > most {
            text.push_str(" …");
            break;
        }
        text.push_str(&format!(" {name}"));
    }
    text
}
