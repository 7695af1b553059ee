//! A tool of your own: what the model is told about it, what it does, and what happens while it is used.
//!
//! ```text
//! cargo run -p piton-engine --example custom_tool
//! ```

use async_trait::async_trait;
use piton_core::call::{Access, CallKind, Effects, Outcome};
use piton_core::client::Published;
use piton_core::event::Event;
use piton_engine::engine::{Engine, Settings};
use piton_models::recorded::Recorded;
use piton_tools::plan::{Look, Plan, QuestionDraft};
use piton_tools::tool::ToolContext;
use piton_tools::toolset::ToolSet;
use piton_tools::typed::TypedTool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Counts the words of a file.
struct WordCount;

/// The doc comments become the descriptions in the tool's JSON Schema; the aliases are what models write instead.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Input {
    /// A file, relative to the working folder
    #[serde(alias = "filePath", alias = "file_path")]
    path: String,
}

#[async_trait]
impl TypedTool for WordCount {
    type Input = Input;
    const NAME: &'static str = "word_count";
    const DESCRIPTION: &'static str = "Counts the words of a file.";
    // It may be run again after a crash, beside other calls that read, and needs no snapshot.
    const EFFECTS: Effects = Effects::READ;

    /// It only reads, so rules let it run; the question is for those whose rules have all calls asked.
    fn planned(&self, input: Input, look: &Look) -> Result<Plan, Outcome> {
        let access = Access::Read(look.workspace.join(&input.path).to_string_lossy().into_owned());
        let title = format!("Count the words of {}?", input.path);
        Ok(Plan::new(CallKind::Read, input.path, access, QuestionDraft::new(|| (title, Vec::new()))))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
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
