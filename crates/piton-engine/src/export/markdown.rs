//! A story as Markdown, to paste into an issue or a note: messages verbatim, tool calls collapsed. What
//! a model or a tool wrote is no markup of HTML here, wherever it is rendered.

use super::When;
use super::words::{not_rewound, rewound, sentence, status};
use piton_core::budget;
use piton_core::call::CallInput;
use piton_core::event::Direction;
use piton_core::hidden;
use piton_core::story::{Block, Body, CallBlock, CompactionEnd, ModelState, RewindState, Story, WordsState};
use piton_core::todo::{TodoItem, TodoStatus};
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};
use std::fmt::Write as _;

/// Writes a story down; the title is the one in the list.
pub fn write(story: &Story, title: &str, when: When<'_>) -> String {
    let session = story.session();
    let title = if title.is_empty() { session.id.as_str() } else { title };
    let mut text = format!("# {}\n\n", text_of(title));
    let cost = session.cost_micros.map(|micros| format!(" · ${}", budget::dollars(micros))).unwrap_or_default();
    let model = if session.model.is_empty() { String::new() } else { format!(" · {}", text_of(&session.model)) };
    let steps = if session.steps == 1 { "1 step".to_owned() } else { format!("{} steps", session.steps) };
    let (started, id) = (when(session.started_ms), &session.id);
    add(&mut text, &format!("{started}{model} · {steps}{cost} · `{id}`  \nFolder: {}", code(&session.workspace)));
    let blocks = story.blocks().filter(|block| !block.taken_back);
    blocks.filter_map(|block| drawn(block)).for_each(|block| add(&mut text, &block));
    text
}

fn drawn(block: &Block) -> Option<String> {
    Some(match &block.body {
        Body::User { text, images, .. } => {
            let images = if *images > 0 { format!("\n\n*(with {images} images)*") } else { String::new() };
            format!("## You\n\n{}{images}", prose(text))
        }
        Body::Note { text } => folded("Note to the model", &fenced("", text)),
        Body::Thought { text, .. } => folded("Thought", &prose(text)),
        Body::Words { text, state } => {
            let mark = match state {
                WordsState::Whole | WordsState::Streaming => "",
                WordsState::Cut => " (cut off)",
                WordsState::Abandoned => " (abandoned)",
            };
            format!("## Piton{mark}\n\n{}", prose(text))
        }
        Body::Call(call) => called(call),
        Body::Model(model) => match &model.state {
            ModelState::Failed { error, .. } => format!("> The model gave no reply: {}", text_of(&error.message)),
            ModelState::Asked | ModelState::Replied { .. } | ModelState::Cut => return None,
        },
        Body::Compaction(compaction) => match &compaction.end {
            Some(CompactionEnd::Summary { text, .. }) => {
                folded("What was before, in short, as the model sees it", &prose(text))
            }
            Some(CompactionEnd::Pruned | CompactionEnd::Failed { .. }) | None => return None,
        },
        Body::Pruned { calls, .. } => format!("> {calls} old outputs above were cleared from what the model reads."),
        Body::Todo { items } => todos(items),
        Body::Moved { workspace } => format!("> From here on in {}.", code(workspace)),
        Body::Configured { changed, at_once, .. } => {
            format!("> {}.", text_of(&sentence(&changed.with_when(*at_once))))
        }
        Body::Rewind { rewind, state } => match state {
            RewindState::Finished { .. } if rewind.direction == Direction::Redo && rewind.to.is_some() => return None,
            RewindState::Finished { .. } => format!("> Here {}.", text_of(&rewound(rewind))),
            RewindState::Abandoned { error, touches } => {
                format!("> Here {}.", text_of(&not_rewound(rewind, error, touches)))
            }
            RewindState::Started => return None,
        },
        Body::TaskEnd { task, outcome } => {
            format!("> The command {} in the background is over: {}.", code(task.as_str()), text_of(&outcome.title))
        }
        Body::Lost { events } => format!("> {events} events were lost to damage here."),
        Body::TurnEnd { end, detail, .. } => {
            let end = serde_json::to_value(end).unwrap_or_default();
            let detail = detail.as_ref().map(|detail| format!(": {}", text_of(detail))).unwrap_or_default();
            format!("*{}{detail}*\n\n---", end.as_str().unwrap_or_default())
        }
        Body::Session(_)
        | Body::Given { .. }
        | Body::Turn { .. }
        | Body::Step { .. }
        | Body::Question { .. }
        | Body::Snapshot { .. }
        | Body::Hooks { .. }
        | Body::Switched { .. }
        | Body::Title { .. }
        | Body::Stopping { .. } => return None,
    })
}

/// A list that a reader's Markdown draws with boxes.
fn todos(items: &[TodoItem]) -> String {
    let item = |item: &TodoItem| {
        let text = text_of(&item.text);
        match item.status {
            TodoStatus::Pending => format!("- [ ] {text}"),
            TodoStatus::InProgress => format!("- [ ] **{text}**"),
            TodoStatus::Done => format!("- [x] {text}"),
            TodoStatus::Dropped => format!("- [x] ~~{text}~~"),
        }
    };
    let items: Vec<String> = items.iter().map(item).collect();
    if items.is_empty() { "> The todos were cleared.".to_owned() } else { items.join("\n") }
}

fn called(call: &CallBlock) -> String {
    let input = match &call.input {
        CallInput::Json(input) => match input.get("command").and_then(|command| command.as_str()) {
            Some(command) => fenced("sh", command),
            None => fenced("json", &serde_json::to_string_pretty(input).unwrap_or_default()),
        },
        CallInput::Invalid { raw, .. } => fenced("", raw),
    };
    let output = call.outcome().map(|outcome| outcome.text.as_str()).unwrap_or_default();
    let is_change = call.diff.as_deref().is_some_and(|change| output.ends_with(change));
    let language = if is_change { "diff" } else { "" };
    let output = if output.trim().is_empty() { String::new() } else { format!("\n\n{}", fenced(language, output)) };
    let about: String = line(&call.about).chars().take(100).collect();
    let outcome = status(call.outcome());
    let (tool, about, outcome) = (text_of(call.name()), text_of(&about), text_of(&outcome));
    let summary = format!("<b>{tool}</b> <code>{about}</code> — {outcome}");
    format!("<details><summary>{summary}</summary>\n\n{input}{output}\n\n</details>")
}

fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{body}\n\n</details>")
}

/// A block of code whose fence is longer than any within it.
fn fenced(language: &str, body: &str) -> String {
    let body = hidden::visible(body);
    let fence = "`".repeat(longest_run(&body).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", body.trim_end())
}

/// A name within a line, as code.
fn code(name: &str) -> String {
    let name = hidden::visible_line(name);
    let mark = "`".repeat(longest_run(&name) + 1);
    let space = if name.starts_with('`') || name.ends_with('`') { " " } else { "" };
    format!("{mark}{space}{name}{space}{mark}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Markdown that somebody wrote, without the HTML in it: outside of code no `<` begins a tag.
fn prose(text: &str) -> String {
    /// What is still another text after so many rounds was written to be.
    const ROUNDS: usize = 8;
    let mut text = hidden::visible(text.trim()).into_owned();
    // A tag that is none any more may let something else be code, or not.
    for _ in 0..ROUNDS {
        let kept = without_tags(&text);
        if kept == text {
            return text;
        }
        text = kept;
    }
    text.replace('<', "&lt;")
}

fn without_tags(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let is_literal = match event {
            Event::Code(_) | Event::Start(Tag::CodeBlock(_)) => true,
            Event::Start(Tag::Link { link_type, .. }) => matches!(link_type, LinkType::Autolink | LinkType::Email),
            _ => false,
        };
        if is_literal && place.start >= at {
            kept.push_str(&text[at..place.start].replace('<', "&lt;"));
            kept.push_str(&text[place.clone()]);
            at = place.end;
        }
    }
    kept.push_str(&text[at..].replace('<', "&lt;"));
    kept
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Words of others on one line, as text.
fn text_of(words: &str) -> String {
    line(&hidden::visible(words)).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn add(text: &mut String, block: &str) {
    // Writing to a string does not fail.
    let _ = write!(text, "{block}\n\n");
}
