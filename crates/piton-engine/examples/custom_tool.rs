//! A tool of your own: what the model is told about it, what it does, and what happens while it is used.
//!
//! ```text
//! cargo run -p piton-engine --example custom_tool
//! ```

use async_trait::async_trait;
use piton_core::call::{Effects, Outcome, ToolSpec};
use piton_core::client::Published;
use piton_core::event::Event;
use piton_engine::engine::{Engine, Settings};
use piton_models::recorded::Recorded;
use piton_tools::input::{parse_input, schema_of};
use piton_tools::tool::{Tool, ToolContext};
use piton_tools::toolset::ToolSet;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Counts the words of a file.
struct WordCount;

/// The doc comments become the descriptions in the tool's JSON Schema.
#[derive(Deserialize, JsonSchema)]
struct Input {
    /// A file, relative to the working folder
    path: String,
}

#[async_trait]
impl Tool for WordCount {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "word_count".to_owned(),
            description: "Counts the words of a file.".to_owned(),
            schema: schema_of::<Input>(),
            // It only reads: it needs no approval, and may be run again after a crash.
            effects: Effects::READ,
        }
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        let input: Input = match parse_input("word_count", &input) {
            Ok(input) => input,
            // Says to the model which field is wrong, and how.
            Err(outcome) => return outcome,
        };
        match tokio::fs::read_to_string(cx.workspace.join(&input.path)).await {
            Ok(text) => Outcome::ok(text.split_whitespace().count().to_string()),
            Err(error) => Outcome::failed(format!("word_count: cannot read {}: {error}", input.path)),
        }
    }
}

const CASSETTE: &str = r#"
{"calls":[{"name":"word_count","input":{"path":"Cargo.toml"}}]}
{"text":"I have counted them."}
"#;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example talks")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = tempfile::tempdir()?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut settings = Settings::new(Arc::new(Recorded::parse(CASSETTE)?));
    settings.tools = ToolSet::empty().with(Arc::new(WordCount));

    let session = Engine::open(data.path()).create(workspace, settings).await?;
    let mut events = session.subscribe(1);
    let report = session.prompt("How many words are in Cargo.toml?").await?;
    session.close().await;

    while let Some(published) = events.next().await? {
        if let Published::Recorded(record) = published
            && let Event::CallSettled { call, outcome } = &record.event
        {
            println!("event {}: {call} says {}", record.seq, outcome.text);
        }
    }
    println!("{}", report.text);
    Ok(())
}
