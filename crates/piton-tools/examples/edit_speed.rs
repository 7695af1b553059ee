//! What an edit of a file of 10 MB costs, from the call to its outcome: prints a line for each way that its text is found,
//! with the milliseconds of all rounds, and one for what the disk asks for writing as much. `cargo xtask bench edit` runs it
//! in a release build.

#![allow(clippy::print_stdout, reason = "a measurement: its output")]

use piton_core::event::Record;
use piton_core::secrets::Firewall;
use piton_core::truncate::OutputCut;
use piton_tools::disk::Disk;
use piton_tools::executor::{Boot, OutputSink};
use piton_tools::host::Host;
use piton_tools::ledger::{FileLedger, hash_of};
use piton_tools::runner::Runners;
use piton_tools::spawn::Confinement;
use piton_tools::tool::{ToolContext, ToolLimits};
use piton_tools::toolset::ToolSet;
use serde_json::json;
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Just below the largest file that is edited.
const BYTES: usize = 10 << 20;
const ROUNDS: usize = 15;

#[derive(Debug)]
struct NoSession;

#[async_trait::async_trait]
impl Host for NoSession {
    async fn read(&self, _: u64, _: usize) -> Result<Vec<Record>, String> {
        Err("there is no session here".to_owned())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let workspace = place.path().canonicalize()?;
    let path = workspace.join("large.rs");
    let mut content = String::new();
    for number in 0.. {
        let block =
            format!("fn number_{number}() -> u64 {{\n    let value = compute({number});\n    value + 1\n}}\n\n");
        if content.len() + block.len() > BYTES {
            break;
        }
        content.push_str(&block);
    }
    let half = content.matches("fn ").count() / 2;
    let exact = format!("    let value = compute({half});\n");
    let indented = format!("let value = compute({half});\nvalue + 1");
    let alike = format!("fn number_{half}() -> u64 {{\n    let value = compute(x{half});\n    value + 1\n}}");
    for (way, old) in [("exact_ms", exact), ("indentation_ms", indented), ("anchors_ms", alike)] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            fs::write(&path, &content)?;
            let cx = context(&workspace);
            cx.ledger.note(&path, &hash_of(content.as_bytes()), None);
            let tool = ToolSet::builtin().get("edit").ok_or("no tool edit")?;
            let started = Instant::now();
            let input = json!({"path": "large.rs", "old_string": old, "new_string": "changed();\n"});
            let outcome = tool.run(input, &cx).await;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            if outcome.status.is_error() {
                return Err(outcome.text.into());
            }
        }
        print(way, &times);
    }
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let started = Instant::now();
        let mut file = fs::File::create(workspace.join(format!("floor{round}")))?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    print("floor_ms", &times);
    Ok(())
}

fn context(workspace: &Path) -> ToolContext {
    let calls = workspace.join("calls");
    ToolContext {
        session: "ses_1".into(),
        call: "c1_0".into(),
        accesses: Arc::default(),
        boot: Boot::Current,
        workspace: workspace.to_path_buf(),
        host: Arc::new(NoSession),
        delegate: None,
        server_client: Arc::new(piton_tools::servers::NoClient),
        subordinates: None,
        executor: Arc::new(Runners::new(None, calls.clone())),
        tasks: Arc::default(),
        output: OutputSink::none(),
        cancel: CancellationToken::new(),
        leave: CancellationToken::new(),
        ledger: Arc::new(FileLedger::default()),
        files: Arc::new(Disk::new(calls)),
        confinement: Confinement::Model,
        env: Arc::default(),
        firewall: Firewall::off(),
        after_edits: Arc::default(),
        limits: ToolLimits::default(),
        output_cut: OutputCut::HeadTail { max_chars: 30_000 },
    }
}

fn print(name: &str, numbers: &[f64]) {
    let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:.3}")).collect();
    println!("{name} {}", numbers.join(" "));
}
