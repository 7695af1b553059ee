//! JSON Schemas that servers send: whether one is a schema, and whether a result fits it. References lead nowhere but into the
//! schema itself.

use boon::{CompileError, Compiler, ErrorKind, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::{Map, Value};
use std::error::Error;

/// Where a schema is for those who refer to it.
const PLACE: &str = "memory:///schema";

/// A schema that results are checked against.
pub(crate) struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    /// Reads one; the error says why it is none.
    pub(crate) fn parse(schema: &Value) -> Result<Self, String> {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.use_loader(Box::new(Nowhere));
        compiler.add_resource(PLACE, schema.clone()).map_err(|error| why_none(&error))?;
        let index = compiler.compile(PLACE, &mut schemas).map_err(|error| why_none(&error))?;
        Ok(Self { schemas, index })
    }

    /// Whether a value fits; the error says where it does not.
    pub(crate) fn judge(&self, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.index).map_err(|error| misfits(&error))
    }
}

/// Why a schema is none, for people: the library's words name its own address for the schema and the kinds of its errors.
fn why_none(error: &CompileError) -> String {
    match error {
        CompileError::ValidationError { src, .. } => misfits(src),
        CompileError::LoadUrlError { url, .. } | CompileError::UnsupportedUrlScheme { url } => {
            format!("it refers to {url}, and Piton fetches nothing for a schema")
        }
        CompileError::UnsupportedDraft { url } => format!("Piton does not know its draft, {url}"),
        CompileError::JsonPointerNotFound(place) => format!("it refers to {}, which is not in it", within(place)),
        CompileError::AnchorNotFound { reference, .. } => {
            format!("it refers to {}, which is not in it", within(reference))
        }
        CompileError::InvalidRegex { regex, .. } => format!("`{regex}` is not a regular expression"),
        _ => within(&error.to_string()),
    }
}

/// What in a value does not fit: each place with its reason.
fn misfits(error: &ValidationError<'_, '_>) -> String {
    let mut found = Vec::new();
    collect(error, &mut found);
    found.join("; ")
}

fn collect(error: &ValidationError<'_, '_>, found: &mut Vec<String>) {
    // What only stands for others says nothing that they do not.
    let is_group = matches!(
        error.kind,
        ErrorKind::Group | ErrorKind::Schema { .. } | ErrorKind::Reference { .. } | ErrorKind::AllOf
    );
    if is_group && !error.causes.is_empty() {
        for cause in &error.causes {
            collect(cause, found);
        }
        return;
    }
    let place = error.instance_location.to_string();
    let reason = reason(&error.kind);
    let line = if place.is_empty() { reason } else { format!("at {place}: {reason}") };
    // Several branches of one choice may say the same.
    if !found.contains(&line) {
        found.push(line);
    }
}

fn reason(kind: &ErrorKind<'_, '_>) -> String {
    match kind {
        ErrorKind::AnyOf | ErrorKind::OneOf(None) => "this fits none of the choices".to_owned(),
        ErrorKind::OneOf(Some(_)) => "this fits more than one choice".to_owned(),
        ErrorKind::Not | ErrorKind::FalseSchema => "this is not allowed".to_owned(),
        _ => kind.to_string(),
    }
}

/// A place without the address that the schema has here.
fn within(place: &str) -> String {
    place.replace(PLACE, "")
}

/// Whatever a schema refers to, it is not fetched: neither from the disk nor from the network.
struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("{url} is not fetched").into())
    }
}

/// Why this cannot be the schema of a tool's input; nothing: it can.
pub(crate) fn fault_of_input(schema: &Map<String, Value>) -> Option<String> {
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        None if schema.contains_key("properties") || schema.is_empty() => {}
        _ => return Some("its input schema is not that of an object".to_owned()),
    }
    Schema::parse(&Value::Object(schema.clone())).err().map(|error| format!("its input schema is invalid: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_are_judged_without_fetching_anything() {
        let fault = |schema: Value| fault_of_input(schema.as_object().unwrap());
        assert_eq!(fault(json!({"type": "object", "properties": {"a": {"type": "string"}}})), None);
        assert!(fault(json!({"type": "array"})).is_some());
        let of_a = |schema: Value| fault(json!({"type": "object", "properties": {"a": schema}})).unwrap();
        assert_eq!(
            of_a(json!({"type": 7})),
            "its input schema is invalid: at /properties/a/type: this fits none of the choices"
        );
        assert_eq!(
            of_a(json!({"$ref": "file:///etc/passwd"})),
            "its input schema is invalid: it refers to file:///etc/passwd, and Piton fetches nothing for a schema"
        );
        assert_eq!(
            of_a(json!({"$ref": "#/$defs/b"})),
            "its input schema is invalid: it refers to #/$defs/b, which is not in it"
        );
        let schema =
            Schema::parse(&json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
        let schema = schema.unwrap();
        assert_eq!(schema.judge(&json!({"n": 1})), Ok(()));
        assert_eq!(schema.judge(&json!({})), Err("missing properties 'n'".to_owned()));
        assert_eq!(schema.judge(&json!({"n": "1"})), Err("at /n: want integer, but got string".to_owned()));
    }
}
