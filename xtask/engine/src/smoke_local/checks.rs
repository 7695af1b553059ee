//! What is held to be so, each with the evidence for it.

use super::run::{Ran, Stage};
use super::server::WINDOW_TOKENS;
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::time::Duration;

/// A check gives its evidence, or says what is wrong.
type Check = Box<dyn Fn(&Stage<'_>) -> anyhow::Result<String>>;

/// How the configuration calls the server, once for each protocol.
const PROTOCOLS: [&str; 3] = ["chat", "responses", "messages"];

/// Tasks at which this model calls a tool, mostly: which of them work depends on every word of the prompt, the folder's
/// name and the date included.
const TASKS: [&str; 5] =
    ["Use read on main.py", "Use bash on ls", "Use bash on pwd", "Use read on main.py.", "Use bash on date"];

/// All checks, in an order that lets the server keep its cache.
pub(super) fn all() -> Vec<(String, Check)> {
    let mut checks: Vec<(String, Check)> = Vec::new();
    for protocol in PROTOCOLS {
        checks.push((format!("{protocol}: native calls"), Box::new(move |stage| native_calls(stage, protocol))));
        checks.push((format!("{protocol}: cancel"), Box::new(move |stage| cancel(stage, protocol))));
        checks.push((format!("{protocol}: window"), Box::new(move |stage| window(stage, protocol))));
    }
    for protocol in PROTOCOLS {
        checks.push((format!("{protocol}: calls in text"), Box::new(move |stage| calls_in_text(stage, protocol))));
    }
    checks
}

/// The model calls a tool, the tool runs, and the model's answer streams; the second prompt is the first one and more.
/// Where such a model finds no end, its answer is cut, and an answer all the same.
fn native_calls(stage: &Stage<'_>, protocol: &str) -> anyhow::Result<String> {
    let args = ["--max-steps", "4", "--max-output", "150", "--set", "loop.on_length=end"];
    let (task, ran) = called(stage, protocol, &args)?;
    let result = ran.result();
    ensure!(ran.code == 0 && result["end"] == "completed", "it ended with {}: {result}", ran.code);
    let pieces = ran.pieces();
    ensure!(pieces.len() > 1, "the answer came in {} pieces", pieces.len());
    Ok(format!("{task:?}: {}; {} pieces of answer; {}", titles(&ran), pieces.len(), cached(&ran)?))
}

/// The same with calls written as text, which nobody but us reads. Whether this model then comes to an end is its own
/// affair: it must have read the result.
fn calls_in_text(stage: &Stage<'_>, protocol: &str) -> anyhow::Result<String> {
    let (task, ran) = called(stage, protocol, &["--text-tools", "use_tool", "--max-steps", "3"])?;
    let shown = ran.pieces().concat();
    ensure!(!shown.contains("<use_tool") && !shown.contains("</"), "a tag was shown: {shown:?}");
    ensure!(ran.all("message_finished").count() > 1, "the result was not sent back: {}", ran.result());
    Ok(format!("{task:?}: {}; ended {}; {}", titles(&ran), ran.result()["end"], cached(&ran)?))
}

/// A run in which a call was made and went well.
fn called(stage: &Stage<'_>, protocol: &str, args: &[&str]) -> anyhow::Result<(&'static str, Ran)> {
    let mut ends = Vec::new();
    for task in TASKS {
        let ran = stage.run(protocol, args, task)?;
        if ran.all("call_settled").any(|event| event["outcome"]["status"] == "ok") {
            return Ok((task, ran));
        }
        ends.push(format!("{task:?} gave {} {}", ran.result()["end"], ran.result()["text"]));
    }
    bail!("no call went well: {}", ends.join("; "))
}

fn titles(ran: &Ran) -> String {
    let titles = ran.all("call_settled").filter_map(|event| event["outcome"]["title"].as_str());
    titles.filter(|title| !title.is_empty()).collect::<Vec<_>>().join(", ")
}

/// From the second step on, nearly all of the prompt is known to the server.
fn cached(ran: &Ran) -> anyhow::Result<String> {
    const LEAST_PERCENT: f64 = 95.0;
    let mut found = Vec::new();
    for (prompt, cached) in ran.prompts().into_iter().skip(1) {
        let percent = 100.0 * cached as f64 / prompt.max(1) as f64;
        ensure!(percent >= LEAST_PERCENT, "only {cached} of a prompt of {prompt} tokens were cached ({percent:.1} %)");
        found.push(format!("{cached} of {prompt} tokens cached ({percent:.1} %)"));
    }
    ensure!(!found.is_empty(), "there was no second step");
    Ok(found.join(", "))
}

/// Ctrl-C while the answer streams: Piton says so, and the server sees its client go and stops.
fn cancel(stage: &Stage<'_>, protocol: &str) -> anyhow::Result<String> {
    /// The server looks for its client between two tokens.
    const PATIENCE: Duration = Duration::from_secs(15);
    let from = stage.server.log_length();
    let mut pieces = 0;
    let is_fifth = |event: &Value| {
        pieces += usize::from(event["type"] == "model_delta" && event["delta"]["type"] == "text");
        pieces == 5
    };
    let ran = stage.interrupt(protocol, "Tell me a long story about a fox.", is_fifth)?;
    ensure!(ran.code == 130, "it ended with {}: {}", ran.code, ran.result());
    let words = "cancel task";
    ensure!(stage.server.logs(from, words, PATIENCE)?, "the server's log says nothing of {words:?}");
    ensure!(stage.server.logs(from, "stop processing", PATIENCE)?, "the server goes on");
    Ok(format!("exit 130 after {} pieces; the server: {words:?}", ran.pieces().len()))
}

/// A prompt that the server refuses as too long is known for what it is.
fn window(stage: &Stage<'_>, protocol: &str) -> anyhow::Result<String> {
    let ran = stage.run(protocol, &[], &"word ".repeat(2 * WINDOW_TOKENS as usize))?;
    let failed = ran.all("model_failed").next().context("the server took it")?;
    let error = &failed["error"];
    ensure!(error["kind"] == "window_exceeded", "it was read as {error}");
    ensure!(ran.code == 8, "it ended with {}: {}", ran.code, ran.result());
    let words = error["message"].as_str().unwrap_or_default();
    let words = words.split_once(": ").map_or(words, |(_, words)| words);
    Ok(format!("window_exceeded, exit 8; the server: {words:?}"))
}
