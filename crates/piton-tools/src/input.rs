//! The arguments of a call: the schema that the model sees, and the parser.
//!
//! Lenient where nothing is lost ("10" for 10, "true" for true, `null` for absent, unknown fields), and otherwise an
//! outcome that names the field, what was expected, and everything the tool takes.

use piton_core::call::Outcome;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads the arguments of a call of `tool`.
pub fn parse_input<T: DeserializeOwned + JsonSchema>(tool: &str, input: &Value) -> Result<T, Outcome> {
    let null = Value::Object(Map::new());
    let input = if input.is_null() { &null } else { input };
    serde_path_to_error::deserialize(input).map_err(|error| {
        let field = error.path().to_string();
        let why = error.into_inner();
        let place = if field == "." { String::new() } else { format!("field `{field}`: ") };
        Outcome::failed(format!("{tool}: {place}{why}. It takes: {}.", takes(&schema_of::<T>())))
    })
}

/// The JSON Schema of some arguments, without what only costs tokens.
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(root) = &mut schema {
        // What the type is says the tool's own description.
        root.retain(|key, _| key != "description");
    }
    compact(&mut schema);
    schema
}

fn compact(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|key, _| !matches!(key.as_str(), "$schema" | "title" | "format" | "minimum" | "default"));
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), value) {
                    // The names of these are fields of the input, whatever they are called.
                    ("properties", Value::Object(properties)) => properties.values_mut().for_each(compact),
                    (_, value) => compact(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(compact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `path (string), offset (integer, optional)`.
fn takes(schema: &Value) -> String {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required = schema.get("required").and_then(Value::as_array);
    let needs = |name: &str| required.is_some_and(|required| required.iter().any(|field| field == name));
    let described = properties.iter().map(|(name, property)| {
        let kind = property.get("type").and_then(Value::as_str).unwrap_or("any");
        let optional = if needs(name) { "" } else { ", optional" };
        format!("{name} ({kind}{optional})")
    });
    described.collect::<Vec<_>>().join(", ")
}

/// For `#[serde(deserialize_with)]`: values in a form in which nothing is lost.
pub mod lenient {
    use serde::Deserialize as _;
    use serde::de::{DeserializeOwned, Deserializer, Error, Unexpected, Visitor};
    use serde_json::Value;
    use std::fmt;

    /// A count: `10`, `10.0` or `"10"`.
    pub fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        from.deserialize_any(Count)
    }

    /// Yes or no: `true` or `"true"`.
    pub fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
        from.deserialize_any(Flag)
    }

    /// A list: as such, or as its JSON in a string.
    pub fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<Vec<T>>, D::Error> {
        let value = match Value::deserialize(from)? {
            Value::String(json) => serde_json::from_str(&json).map_err(D::Error::custom)?,
            value => value,
        };
        serde_json::from_value(value).map_err(D::Error::custom)
    }

    struct Count;

    impl Visitor<'_> for Count {
        type Value = Option<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number, 0 or more")
        }
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Some(number))
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
            u64::try_from(number).map(Some).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: whole and in range")]
        fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
            /// Whole numbers up to here are exact in a float.
            const EXACT: f64 = 9_007_199_254_740_992.0;
            match number.fract() == 0.0 && (0.0..=EXACT).contains(&number) {
                true => Ok(Some(number as u64)),
                false => Err(E::invalid_value(Unexpected::Float(number), &self)),
            }
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            text.trim().parse().map(Some).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
        }
    }

    struct Flag;

    impl Visitor<'_> for Flag {
        type Value = Option<bool>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true or false")
        }
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
        fn visit_bool<E: Error>(self, flag: bool) -> Result<Self::Value, E> {
            Ok(Some(flag))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            match text.trim().to_ascii_lowercase().as_str() {
                "true" => Ok(Some(true)),
                "false" => Ok(Some(false)),
                _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    /// What the model sends.
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Input {
        /// A file.
        #[serde(alias = "filePath")]
        path: String,
        #[serde(default, deserialize_with = "lenient::count")]
        limit: Option<u64>,
        #[serde(default, deserialize_with = "lenient::flag")]
        all: Option<bool>,
    }

    fn parse(input: &Value) -> Result<Input, String> {
        parse_input("demo", input).map_err(|outcome| outcome.text)
    }

    #[test]
    fn numbers_and_flags_may_come_as_text_and_unknown_fields_are_ignored() {
        let expected = Input { path: "a".into(), limit: Some(10), all: Some(true) };
        assert_eq!(parse(&json!({"path": "a", "limit": "10", "all": "true", "why": 1})), Ok(expected));
        let expected = Input { path: "a".into(), limit: Some(10), all: None };
        assert_eq!(parse(&json!({"filePath": "a", "limit": 10.0, "all": null})), Ok(expected));
    }

    #[test]
    fn an_error_names_the_field_and_what_was_expected() {
        let missing = parse(&json!({})).unwrap_err();
        assert_eq!(
            missing,
            "demo: missing field `path`. It takes: path (string), limit (integer, optional), all (boolean, optional)."
        );
        let wrong = parse(&json!({"path": "a", "limit": "ten"})).unwrap_err();
        assert!(
            wrong.starts_with("demo: field `limit`: invalid value: string \"ten\", expected a whole number"),
            "{wrong}"
        );
        let wrong = parse(&json!({"path": 3})).unwrap_err();
        assert!(wrong.starts_with("demo: field `path`: invalid type: integer `3`, expected a string"), "{wrong}");
        assert!(parse(&json!({"path": "a", "limit": -1})).unwrap_err().contains("`limit`"));
        assert!(parse(&json!({"path": "a", "limit": 1.5})).unwrap_err().contains("`limit`"));
        assert!(parse(&Value::Null).unwrap_err().contains("missing field `path`"));
    }

    #[test]
    fn a_schema_holds_nothing_that_only_costs_tokens() {
        assert_eq!(
            schema_of::<Input>(),
            json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "A file."},
                    "limit": {"type": "integer"},
                    "all": {"type": "boolean"},
                },
                "required": ["path"],
            })
        );
    }
}
