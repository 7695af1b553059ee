//! The smallest program that embeds Piton: a session, a task, the answer.
//!
//! ```text
//! cargo run -p piton-engine --example minimal
//! ```
//!
//! A recording plays the model here, so that it runs without a key. With one:
//!
//! ```text
//! let spec = ProviderSpec { provider: "anthropic".into(), key: Some(key), ..ProviderSpec::default() };
//! let model = piton_models::provider::open(&spec, &HttpOptions::default())?;
//! ```

use piton_core::permission::Action;
use piton_engine::engine::{Engine, Settings};
use piton_models::recorded::Recorded;
use std::path::Path;
use std::sync::Arc;

const CASSETTE: &str = r#"
{"calls":[{"name":"glob","input":{"pattern":"**/*.toml"}}]}
{"text":"This is a Rust package: it has a Cargo.toml."}
"#;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example talks")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = tempfile::tempdir()?;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut settings = Settings::new(Arc::new(Recorded::parse(CASSETTE)?));
    settings.policy.permission.push("*", Action::Allow);

    let session = Engine::open(data.path()).create(workspace, settings).await?;
    let report = session.prompt("What kind of project is this?").await?;
    println!("{}", report.text);
    println!("{:?} after {} steps", report.end, report.spent.steps);
    session.close().await;
    Ok(())
}
