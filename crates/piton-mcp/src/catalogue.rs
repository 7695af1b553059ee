//! What a server offers, read from its lists: what is sound is kept, clean and cut to size; what is not is left out and named.

use crate::entry::Entry;
use crate::{names, schema, text};
use piton_tools::servers::{ServerPrompt, ServerResource};
use rmcp::model::{Prompt, Resource, ResourceTemplate, Tool};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Things of one kind that are kept of a server.
const MOST_OF_A_KIND: usize = 2_000;
/// Bytes of the schema of one tool.
const MOST_SCHEMA_BYTES: usize = 256 << 10;
/// Bytes of the schemas of one server.
const MOST_SCHEMAS_BYTES: usize = 8 << 20;
/// Bytes of a description.
const MOST_DESCRIPTION_BYTES: usize = 2_048;
/// Bytes of what a server says about its own use.
const MOST_INSTRUCTIONS_BYTES: usize = 2_000;
/// Characters of a name that is sent back to the server, which cannot be cut.
const MOST_NAME_CHARS: usize = 256;
/// Bytes of an address of a resource.
const MOST_URI_BYTES: usize = 4_096;
/// Characters of a title.
const MOST_TITLE_CHARS: usize = 120;
/// Things that were left out and are named one by one.
const MOST_PROBLEMS: usize = 20;

/// What a server offers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Catalogue {
    /// What it says about its own use.
    pub(crate) instructions: String,
    /// Its tools, sorted by their own names.
    pub(crate) tools: Vec<Offered>,
    /// Its prompts.
    pub(crate) prompts: Vec<OfferedPrompt>,
    /// Its resources and templates.
    pub(crate) resources: Vec<OfferedResource>,
    /// What was left out, and why.
    pub(crate) problems: Vec<String>,
}

/// A tool, as the server has it now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Offered {
    /// The name that models know it by.
    pub(crate) name: String,
    /// The server's own name for it.
    pub(crate) own_name: String,
    /// A title for people.
    pub(crate) title: String,
    /// What it does.
    pub(crate) description: String,
    /// The schema of its input.
    pub(crate) schema: Value,
    /// The schema of its structured result, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Value>,
}

/// A prompt, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OfferedPrompt {
    name: String,
    description: String,
    arguments: Vec<(String, String, bool)>,
}

/// A resource or a template, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OfferedResource {
    uri: String,
    name: String,
    description: String,
    is_template: bool,
}

impl OfferedPrompt {
    pub(crate) fn shown(&self) -> ServerPrompt {
        let Self { name, description, arguments } = self.clone();
        ServerPrompt { name, description, arguments }
    }
}

impl OfferedResource {
    pub(crate) fn shown(&self) -> ServerResource {
        let Self { uri, name, description, is_template } = self.clone();
        ServerResource { uri, name, description, is_template }
    }
}

/// The lists of a server as they came.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) instructions: String,
    pub(crate) tools: Vec<Value>,
    pub(crate) prompts: Vec<Value>,
    pub(crate) resources: Vec<Value>,
    pub(crate) templates: Vec<Value>,
    /// Why a list is not there, or not whole.
    pub(crate) problems: Vec<String>,
}

impl Catalogue {
    /// Leaves out what has a name that does not fit.
    pub(crate) fn keep_named(&mut self, fits: impl Fn(&str) -> bool) {
        self.tools.retain(|tool| fits(&tool.own_name));
        self.prompts.retain(|prompt| fits(&prompt.name) && prompt.arguments.iter().all(|(name, ..)| fits(name)));
        self.resources.retain(|resource| fits(&resource.uri));
    }

    /// What is sound of these lists, and of it what the entry wants.
    pub(crate) fn read(lists: Lists, entry: &Entry) -> Self {
        let mut problems = Problems(lists.problems);
        let mut tools = tools(lists.tools, entry, &mut problems);
        tools.sort_by(|one, other| one.own_name.cmp(&other.own_name));
        let mut prompts = kept(lists.prompts, "prompt", prompt, &mut problems);
        prompts.sort_by(|one, other| one.name.cmp(&other.name));
        let mut resources = kept(lists.resources, "resource", resource, &mut problems);
        resources.extend(kept(lists.templates, "resource template", template, &mut problems));
        resources.sort_by(|one, other| (one.is_template, &one.uri).cmp(&(other.is_template, &other.uri)));
        let instructions = text::words(lists.instructions.trim(), MOST_INSTRUCTIONS_BYTES);
        Self { instructions, tools, prompts, resources, problems: problems.shown() }
    }

    /// The tool of this own name.
    pub(crate) fn tool(&self, own_name: &str) -> Option<&Offered> {
        self.tools.iter().find(|tool| tool.own_name == own_name)
    }
}

/// What was left out.
struct Problems(Vec<String>);

impl Problems {
    fn left_out(&mut self, kind: &str, name: &str, why: &str) {
        self.0.push(text::line(&format!("the {kind} {} was left out: {why}", text::line(name, 80)), 400));
    }

    fn shown(mut self) -> Vec<String> {
        let more = self.0.len().saturating_sub(MOST_PROBLEMS);
        self.0.truncate(MOST_PROBLEMS);
        if more > 0 {
            self.0.push(format!("and {more} more"));
        }
        self.0
    }
}

fn tools(listed: Vec<Value>, entry: &Entry, problems: &mut Problems) -> Vec<Offered> {
    let (mut seen, mut schemas_bytes) = (BTreeSet::new(), 0);
    let mut kept = Vec::new();
    for value in listed {
        let name = name_of(&value);
        let tool = match tool(value, &entry.name, problems) {
            Ok(tool) => tool,
            Err(why) => {
                problems.left_out("tool", &name, &why);
                continue;
            }
        };
        if !is_wanted(&tool.own_name, entry) {
            continue;
        }
        if !seen.insert(tool.own_name.clone()) {
            problems.left_out("tool", &name, "there is another of this name before it");
            continue;
        }
        schemas_bytes +=
            tool.schema.to_string().len() + tool.output.as_ref().map_or(0, |schema| schema.to_string().len());
        if kept.len() == MOST_OF_A_KIND || schemas_bytes > MOST_SCHEMAS_BYTES {
            problems.left_out("tool", &name, "there are too many");
            break;
        }
        kept.push(tool);
    }
    kept
}

fn is_wanted(own_name: &str, entry: &Entry) -> bool {
    let is_listed = entry.tools.as_ref().is_none_or(|only| only.iter().any(|name| name == own_name));
    is_listed && !entry.without.iter().any(|name| name == own_name)
}

fn name_of(value: &Value) -> String {
    let name = value.get("name").or_else(|| value.get("uri")).and_then(Value::as_str);
    name.unwrap_or("without a name").to_owned()
}

/// A thing of a list, without those of its optional fields that are not sound.
fn sound<T: DeserializeOwned>(value: Value, needed: &[&str]) -> Result<T, String> {
    let error = match serde_json::from_value(value.clone()) {
        Ok(sound) => return Ok(sound),
        Err(error) => error.to_string(),
    };
    let Value::Object(fields) = value else { return Err(error) };
    let (mut kept, optional): (Map<_, _>, Map<_, _>) =
        fields.into_iter().partition(|(name, _)| needed.contains(&name.as_str()));
    let read = |kept: &Map<String, Value>| serde_json::from_value::<T>(Value::Object(kept.clone()));
    for (name, field) in optional {
        kept.insert(name.clone(), field);
        if read(&kept).is_err() {
            kept.remove(&name);
        }
    }
    read(&kept).map_err(|error| error.to_string())
}

/// A name that goes back to the server as it is.
fn name(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("its name is empty".to_owned());
    }
    if name.chars().count() > MOST_NAME_CHARS {
        return Err(format!("its name has more than {MOST_NAME_CHARS} characters"));
    }
    match name.chars().any(|char| char == '\n' || piton_core::hidden::is_hidden(char)) {
        true => Err("its name has characters that cannot be seen".to_owned()),
        false => Ok(name.to_owned()),
    }
}

fn tool(value: Value, server: &str, problems: &mut Problems) -> Result<Offered, String> {
    let bytes = value.get("inputSchema").map_or(0, |schema| schema.to_string().len());
    if bytes > MOST_SCHEMA_BYTES {
        return Err(format!("its input schema has {}", text::size(bytes)));
    }
    let tool: Tool = sound(value, &["name", "inputSchema"])?;
    let own_name = name(&tool.name)?;
    if let Some(fault) = schema::fault_of_input(&tool.input_schema) {
        return Err(fault);
    }
    let mut output = tool.output_schema.map(|schema| Value::Object((*schema).clone()));
    if let Some(bytes) = output.as_ref().map(|schema| schema.to_string().len()).filter(|size| *size > MOST_SCHEMA_BYTES)
    {
        output = None;
        problems.left_out("output schema of", &own_name, &format!("it has {}", text::size(bytes)));
    }
    Ok(Offered {
        name: names::of_tool(server, &own_name),
        own_name,
        title: text::line(&tool.title.unwrap_or_default(), MOST_TITLE_CHARS),
        description: text::words(tool.description.unwrap_or_default().trim(), MOST_DESCRIPTION_BYTES),
        schema: Value::Object((*tool.input_schema).clone()),
        output,
    })
}

fn prompt(value: Value) -> Result<OfferedPrompt, String> {
    let prompt: Prompt = sound(value, &["name"])?;
    let mut arguments = Vec::new();
    for argument in prompt.arguments.unwrap_or_default() {
        let description = text::words(&argument.description.unwrap_or_default(), MOST_DESCRIPTION_BYTES);
        arguments.push((name(&argument.name)?, description, argument.required.unwrap_or_default()));
    }
    let description = text::words(prompt.description.unwrap_or_default().trim(), MOST_DESCRIPTION_BYTES);
    Ok(OfferedPrompt { name: name(&prompt.name)?, description, arguments })
}

fn resource(value: Value) -> Result<OfferedResource, String> {
    let resource: Resource = sound(value, &["uri", "name"])?;
    offered(resource.uri, &resource.name, resource.description, false)
}

fn template(value: Value) -> Result<OfferedResource, String> {
    let template: ResourceTemplate = sound(value, &["uriTemplate", "name"])?;
    offered(template.uri_template, &template.name, template.description, true)
}

fn offered(uri: String, name: &str, description: Option<String>, is_template: bool) -> Result<OfferedResource, String> {
    if uri.len() > MOST_URI_BYTES || uri.chars().any(|char| char == '\n' || piton_core::hidden::is_hidden(char)) {
        return Err("its address is too long, or has characters that cannot be seen".to_owned());
    }
    let description = text::words(description.unwrap_or_default().trim(), MOST_DESCRIPTION_BYTES);
    Ok(OfferedResource { uri, name: text::line(name, MOST_TITLE_CHARS), description, is_template })
}

fn kept<T>(
    listed: Vec<Value>,
    kind: &str,
    read: impl Fn(Value) -> Result<T, String>,
    problems: &mut Problems,
) -> Vec<T> {
    let mut kept = Vec::new();
    for value in listed {
        let name = name_of(&value);
        if kept.len() == MOST_OF_A_KIND {
            problems.left_out(kind, &name, "there are too many");
            break;
        }
        match read(value) {
            Ok(sound) => kept.push(sound),
            Err(why) => problems.left_out(kind, &name, &why),
        }
    }
    kept
}
