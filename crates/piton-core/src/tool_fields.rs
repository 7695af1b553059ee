//! What the model is told that the fields of tools are called. A model that was trained on another agent's tools writes that
//! agent's names, whatever it is told; tools understand these anyway, and a preset tells them.
//!
//! This module must not know: what a tool does with its input.

use crate::call::ToolSpec;
use crate::policy::ToolFields;
use serde_json::Value;

/// The tool that a name belongs to, Piton's name, and OpenCode's.
const OPENCODE: [(&str, &str, &str); 8] = [
    ("apply_patch", "patch", "patchText"),
    ("edit", "path", "filePath"),
    ("edit", "old_string", "oldString"),
    ("edit", "new_string", "newString"),
    ("edit", "replace_all", "replaceAll"),
    ("read", "path", "filePath"),
    ("write", "path", "filePath"),
    ("grep", "glob", "include"),
];

impl ToolFields {
    /// A tool as the model is told of it.
    pub fn tell(self, spec: &ToolSpec) -> ToolSpec {
        let mut spec = spec.clone();
        match self {
            Self::Piton => {}
            Self::Opencode => {
                for (tool, ours, theirs) in OPENCODE {
                    if tool == spec.name {
                        rename(&mut spec, ours, theirs);
                    }
                }
            }
        }
        spec
    }
}

fn rename(spec: &mut ToolSpec, ours: &str, theirs: &str) {
    let Some(properties) = spec.schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let Some(field) = properties.remove(ours) else { return };
    properties.insert(theirs.to_owned(), field);
    if let Some(required) = spec.schema.get_mut("required").and_then(Value::as_array_mut) {
        for name in required.iter_mut().filter(|name| *name == ours) {
            *name = theirs.into();
        }
    }
    // A name of one word is a word of prose, too.
    if ours.contains('_') {
        spec.description = spec.description.replace(ours, theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Effects;
    use serde_json::json;

    #[test]
    fn a_field_has_the_name_that_the_model_knows_and_prose_stays_prose() {
        let schema = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "old_string": {"type": "string"}, "more": {}},
            "required": ["path", "old_string"],
        });
        let description = "Puts old_string aside; the path may be relative.".to_owned();
        let spec = ToolSpec { name: "edit".into(), description, schema, effects: Effects::WRITE };
        assert_eq!(ToolFields::Piton.tell(&spec), spec);
        let told = ToolFields::Opencode.tell(&spec);
        assert_eq!(told.description, "Puts oldString aside; the path may be relative.");
        assert_eq!(told.schema["required"], json!(["filePath", "oldString"]));
        assert_eq!(told.schema["properties"]["filePath"], json!({"type": "string"}));
        assert!(told.schema["properties"].get("more").is_some() && told.schema["properties"].get("path").is_none());
        let other = ToolSpec { name: "glob".into(), ..spec };
        assert_eq!(ToolFields::Opencode.tell(&other), other, "a tool of another name has names of its own");
    }
}
