//! A story as Markdown, as people paste it into an issue or a note: what was said as it was said, tools folded away.

use super::When;
use super::story::{AnswerState, Entry, Story, not_rewound, rewound, status, telling};
use piton_core::budget;
use piton_core::call::{CallInput, Outcome};
use piton_core::message::ToolCall;
use std::fmt::Write as _;

/// Writes a story down.
pub fn write(story: &Story<'_>, when: When<'_>) -> String {
    let title = if story.title.is_empty() { story.id.as_str() } else { &story.title };
    let mut text = format!("# {}\n\n", line(title));
    let cost = story.cost_micros.map(|micros| format!(" · ${}", budget::dollars(micros))).unwrap_or_default();
    let model = if story.model.is_empty() { String::new() } else { format!(" · {}", story.model) };
    let steps = if story.steps == 1 { "1 step".to_owned() } else { format!("{} steps", story.steps) };
    add(
        &mut text,
        &format!("{}{model} · {steps}{cost} · `{}`  \nFolder: `{}`", when(story.started_ms), story.id, story.workspace),
    );
    for entry in &story.entries {
        add(&mut text, &told(entry));
    }
    text
}

fn told(entry: &Entry<'_>) -> String {
    match entry {
        Entry::Said { text, images, .. } => {
            let images = if *images > 0 { format!("\n\n*(with {images} images)*") } else { String::new() };
            format!("## You\n\n{}{images}", text.trim())
        }
        Entry::Noted { text } => folded("Note to the model", &fenced("", text)),
        Entry::Thought { text } => folded("Thought", text.trim()),
        Entry::Answered { text, state, .. } => {
            let mark = match state {
                AnswerState::Whole => "",
                AnswerState::Cut => " (cut off)",
                AnswerState::Abandoned => " (abandoned)",
            };
            format!("## Piton{mark}\n\n{}", text.trim())
        }
        Entry::Called { call, outcome } => called(call, *outcome),
        Entry::Failed { why } => format!("> The model gave no reply: {}", line(why)),
        Entry::Compacted { summary } => folded("What was before, in short, as the model sees it", summary.trim()),
        Entry::Pruned { calls } => format!("> {calls} old outputs above were cleared from what the model reads."),
        Entry::Moved { workspace } => format!("> From here on in `{workspace}`."),
        Entry::Rewound { rewind } => format!("> Here {}.", rewound(rewind)),
        Entry::NotRewound { rewind, error, touches } => {
            format!("> Here {}.", line(&not_rewound(rewind, error, touches)))
        }
        Entry::Lost { events } => format!("> {events} events were lost to damage here."),
        Entry::TurnEnded { end, detail, .. } => {
            let end = serde_json::to_value(end).unwrap_or_default();
            let detail = detail.map(|detail| format!(": {}", line(detail))).unwrap_or_default();
            format!("*{}{detail}*\n\n---", end.as_str().unwrap_or_default())
        }
    }
}

fn called(call: &ToolCall, outcome: Option<&Outcome>) -> String {
    let input = match &call.input {
        CallInput::Json(input) => match input.get("command").and_then(|command| command.as_str()) {
            Some(command) => fenced("sh", command),
            None => fenced("json", &serde_json::to_string_pretty(input).unwrap_or_default()),
        },
        CallInput::Invalid { raw, .. } => fenced("", raw),
    };
    let output = outcome.map(|outcome| outcome.text.as_str()).unwrap_or_default();
    let language = if call.name == "edit" { "diff" } else { "" };
    let output = if output.trim().is_empty() { String::new() } else { format!("\n\n{}", fenced(language, output)) };
    let about = line(&telling(call));
    let about: String = about.chars().take(100).collect();
    let summary = format!("<b>{}</b> <code>{}</code> — {}", escape(&call.name), escape(&about), status(outcome));
    format!("<details><summary>{summary}</summary>\n\n{input}{output}\n\n</details>")
}

fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{body}\n\n</details>")
}

/// A block of code whose fence is longer than any within it.
fn fenced(language: &str, body: &str) -> String {
    let longest = body.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", body.trim_end())
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn add(text: &mut String, block: &str) {
    // Writing to a string does not fail.
    let _ = write!(text, "{block}\n\n");
}
