//! A structured answer: the model's last words must be JSON that a schema accepts. Where they are not, the model is told
//! what is wrong, twice; then the turn ends `hook_stopped`.

use super::{Hook, HookContext, HookResult, Points, PromptChange, Stop, StopChange, Words};
use async_trait::async_trait;
use boon::{CompileError, Compiler, SchemaIndex, Schemas, UrlLoader, ValidationError};
use piton_core::client::STRUCTURED;
use piton_core::hook::{Demand, HookPoint};
use serde_json::{Value, json};
use std::sync::Mutex;

/// How often the model may put its answer right.
const REPAIRS: usize = 2;
/// Faults that it is told of at once.
const MOST_FAULTS: usize = 10;

/// The schema that a turn's answer must satisfy.
pub struct OutputSchema {
    text: String,
    schemas: Schemas,
    index: SchemaIndex,
    is_said: Mutex<bool>,
}

/// Why a text is not a schema.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It is not JSON.
    #[error("it is not JSON")]
    Json(#[from] serde_json::Error),
    /// It is JSON, but no schema.
    #[error("it is not a valid JSON Schema: {0}")]
    Schema(String),
}

impl OutputSchema {
    /// Reads a JSON Schema; the newest draft, where it names none. References lead nowhere but into itself.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        let schema: Value = serde_json::from_str(text)?;
        if !schema.is_object() {
            return Err(SchemaError::Schema("a schema for an answer is an object".to_owned()));
        }
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.use_loader(Box::new(Nowhere));
        let text = schema.to_string();
        let failed = |error: CompileError| SchemaError::Schema(fault_in_schema(&error));
        compiler.add_resource(PLACE, schema).map_err(failed)?;
        let index = compiler.compile(PLACE, &mut schemas).map_err(failed)?;
        Ok(Self { text, schemas, index, is_said: Mutex::new(false) })
    }

    /// The same where the model was told of it before, in another process.
    #[must_use]
    pub(crate) fn said(self) -> Self {
        Self { is_said: Mutex::new(true), ..self }
    }

    /// The answer, or what is wrong with it in words.
    fn judge(&self, text: &str) -> Result<Value, String> {
        let Some(answer) = json_of(text) else {
            return Err("It is not JSON. Answer with the JSON value alone, and nothing before or after it.".to_owned());
        };
        let mut faults = Vec::new();
        if let Err(error) = self.schemas.validate(&answer, self.index) {
            leaves(&error, &mut faults);
        }
        match faults.len() {
            0 => Ok(answer),
            1..=MOST_FAULTS => Err(faults.join("\n")),
            _ => Err(format!("{}\n- and more", faults[..MOST_FAULTS].join("\n"))),
        }
    }
}

/// Where the schema is for those who refer to it.
const PLACE: &str = "memory:///answer";

/// Whatever a schema refers to, it is not fetched: neither from the disk nor from the network.
struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is not part of the schema, and nothing is fetched").into())
    }
}

fn fault_in_schema(error: &CompileError) -> String {
    match error {
        CompileError::ValidationError { src, .. } => {
            let mut faults = Vec::new();
            leaves(src, &mut faults);
            faults.join("; ")
        }
        CompileError::LoadUrlError { src, .. } => src.to_string(),
        other => other.to_string(),
    }
}

/// The faults at the bottom of a tree of them, each with its place.
fn leaves(error: &ValidationError<'_, '_>, faults: &mut Vec<String>) {
    if error.causes.is_empty() && faults.len() <= MOST_FAULTS {
        let at = error.instance_location.to_string();
        let at = if at.is_empty() { "the whole".to_owned() } else { at };
        let what: String = error.kind.to_string().chars().take(300).collect();
        faults.push(format!("- {at}: {what}"));
    }
    error.causes.iter().for_each(|cause| leaves(cause, faults));
}

/// The JSON in an answer: all of it, or what stands in its one fence.
fn json_of(text: &str) -> Option<Value> {
    let text = text.trim();
    serde_json::from_str(text).ok().or_else(|| {
        let (_, fenced) = text.split_once("```")?;
        let (fenced, rest) = fenced.split_once("```")?;
        let inside = fenced.split_once('\n').map_or(fenced, |(_, inside)| inside);
        if rest.contains("```") { None } else { serde_json::from_str(inside.trim()).ok() }
    })
}

#[async_trait]
impl Hook for OutputSchema {
    fn name(&self) -> &str {
        "output schema"
    }

    fn points(&self) -> Points {
        Points::of([HookPoint::Prompt, HookPoint::Stop])
    }

    fn required(&self) -> bool {
        true
    }

    fn stop_rounds(&self) -> usize {
        REPAIRS
    }

    fn demand(&self) -> Option<Demand> {
        Some(Demand::Answer { schema: serde_json::from_str(&self.text).ok()? })
    }

    async fn on_prompt(&self, _: &HookContext, _: &str) -> HookResult<PromptChange> {
        let mut is_said = self.is_said.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if std::mem::replace(&mut *is_said, true) {
            return Ok(PromptChange::default());
        }
        let note = format!(
            "When the task is done, your last message must be one JSON value and nothing else, no prose and no fence, \
             that this JSON Schema accepts:\n{}",
            self.text
        );
        Ok(PromptChange { refuse: None, words: Words { notes: vec![note], ..Words::default() } })
    }

    async fn on_stop(&self, _: &HookContext, stop: &Stop) -> HookResult<StopChange> {
        Ok(match self.judge(&stop.text) {
            Ok(answer) => StopChange { evidence: Some(json!({STRUCTURED: answer})), ..StopChange::default() },
            Err(faults) => StopChange {
                send_back: Some(format!(
                    "The answer does not satisfy the schema: {faults}\nAnswer again: one JSON value that this JSON \
                     Schema accepts, and nothing else.\n{}",
                    self.text
                )),
                words: Words { remark: Some(faults), ..Words::default() },
                evidence: None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_json_alone_or_in_its_one_fence() {
        assert_eq!(json_of(" {\"a\": 1}\n"), Some(json!({"a": 1})));
        assert_eq!(json_of("Here:\n```json\n[1]\n```\nDone."), Some(json!([1])));
        assert_eq!(json_of("```\n1\n```\nor\n```\n2\n```"), None);
        assert_eq!(json_of("The answer is 1"), None);
    }

    #[test]
    fn faults_name_their_place_and_bad_schemas_are_refused() {
        let schema = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;
        let schema = OutputSchema::parse(schema).expect("sound");
        assert_eq!(schema.judge("{\"n\": 3}"), Ok(json!({"n": 3})));
        let faults = schema.judge("{\"n\": \"x\"}").expect_err("not an integer");
        assert!(faults.starts_with("- /n: "), "{faults}");
        assert!(schema.judge("three").expect_err("prose").starts_with("It is not JSON"));
        for bad in ["{", "3", r#"{"type": "objekt"}"#, r#"{"$ref": "https://elsewhere.invalid/x.json"}"#] {
            assert!(OutputSchema::parse(bad).is_err(), "{bad}");
        }
    }
}
