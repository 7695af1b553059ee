//! JSON Schemas that servers send: whether one is a schema, and whether a result fits it. References lead nowhere but into the
//! schema itself.

use boon::{Compiler, SchemaIndex, Schemas, UrlLoader};
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
        compiler.add_resource(PLACE, schema.clone()).map_err(|error| error.to_string())?;
        let index = compiler.compile(PLACE, &mut schemas).map_err(|error| error.to_string())?;
        Ok(Self { schemas, index })
    }

    /// Whether a value fits; the error says where it does not.
    pub(crate) fn judge(&self, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.index).map_err(|error| error.to_string())
    }
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
        assert!(fault(json!({"type": "object", "properties": {"a": {"type": 7}}})).is_some());
        assert!(fault(json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}})).is_some());
        let schema = Schema::parse(&json!({"type": "object", "required": ["n"]})).unwrap();
        assert!(schema.judge(&json!({"n": 1})).is_ok() && schema.judge(&json!({})).is_err());
    }
}
