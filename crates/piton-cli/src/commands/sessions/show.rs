//! `piton session show`: what was said and done, for a terminal.

use crate::changed;
use crate::failure::Result;
use crate::out::report;
use crate::out::view;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use piton_core::branch;
use piton_core::call::Outcome;
use piton_core::event::{Direction, Record};
use piton_core::ids::{CallId, SessionId, TimeMs};
use piton_core::story::{Block, Body, CallBlock, CompactionEnd, ModelState, RewindState, Story, WordsState};
use piton_core::stream_json;
use piton_core::task::over;
use piton_engine::engine::Engine;
use piton_engine::export::words::{not_rewound, rewound, status};
use piton_tools::snapshot::Options;
use piton_tui::rewind::Changed;
use std::path::Path;

/// Lines of a tool's output that are shown; of a longer one, the beginning and the end.
const SHOWN_LINES: usize = 8;

/// Lines of a summary that are shown.
const SUMMARY_LINES: usize = 24;

/// Shows a session; `full` with all of the tools' output.
pub(super) async fn show(engine: &Engine, id: &SessionId, full: bool, json: bool) -> Result<()> {
    let records = engine.records(id).await?;
    if json {
        for record in &records {
            view::write_stdout(&format!("{}\n", stream_json::record_line(record)));
        }
        return Ok(());
    }
    let title = engine.store().summary(id).await.map(|summary| summary.title).unwrap_or_default();
    let story = Story::of(&records);
    let session = story.session();
    let mut text = format!("{id}  {}  {}\n", view::clean(&session.workspace), view::clean(&session.model));
    if !title.is_empty() {
        text.push_str(&format!("{}\n", view::first_line(&title)));
    }
    let blocks = story.blocks().filter(|block| !block.taken_back);
    for block in blocks {
        if full {
            text.push_str(&stamp(block));
        }
        text.push_str(&drawn(&block.body, full));
    }
    let state = if session.busy { " — cut off; `piton run --resume` goes on with it" } else { "" };
    text.push_str(&format!("{}{state}\n", view::plural(records.len() as u64, "event")));
    text.push_str(&changes(engine, &records, Path::new(&session.workspace)).unwrap_or_default());
    view::write_stdout(&text);
    Ok(())
}

/// The files and lines that the session has changed, as a line; `None`: it has changed nothing, or its snapshots are gone.
fn changes(engine: &Engine, records: &[Record], workspace: &Path) -> Option<String> {
    let turns = branch::turns(records);
    let states = turns.iter().filter(|turn| turn.on_path).filter_map(|turn| turn.files.as_ref());
    let ends = changed::ends(states).ok().flatten()?;
    let snapshots = engine.snapshots(workspace, Options::default()).ok()?;
    let Changed { files, added, removed } = changed::total(&snapshots, ends).ok().filter(|all| all.files > 0)?;
    Some(format!("{} changed  +{added} −{removed}\n", view::plural(files as u64, "file")))
}

/// When something was said, and which model answered in what time.
fn stamp(block: &Block) -> String {
    match &block.body {
        Body::User { .. } => format!("\n{}", time(block.at_ms)),
        Body::Model(model) if matches!(model.state, ModelState::Replied { .. }) => format!(
            "\n{} · {} · {:.1} s · {} tokens",
            time(model.answered_ms),
            view::first_line(&model.model),
            model.answered_ms.saturating_sub(model.asked_ms) as f64 / 1e3,
            view::thousands(model.usage.total())
        ),
        _ => String::new(),
    }
}

/// A time of day.
fn time(at_ms: TimeMs) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    at.to_zoned(TimeZone::system()).strftime("%H:%M:%S").to_string()
}

fn drawn(body: &Body, full: bool) -> String {
    match body {
        Body::User { text, images, .. } => {
            let images =
                if *images > 0 { format!(" <{}>", view::plural(*images as u64, "image")) } else { String::new() };
            format!("\nyou: {}{images}\n", view::clean(text.trim()))
        }
        Body::Note { text } if !full && text.lines().count() > SHOWN_LINES => {
            let first: Vec<&str> = text.lines().take(SHOWN_LINES / 2).collect();
            let more = view::plural((text.lines().count() - first.len()) as u64, "more line");
            format!("\n[{}\n… {more} (--full shows them)]\n", view::clean(first.join("\n").trim()))
        }
        Body::Note { text } => format!("\n[{}]\n", view::clean(text.trim())),
        Body::Thought { text, .. } if full => format!("\n(thought: {})\n", view::clean(text.trim())),
        Body::Words { text, state } => {
            let mark = match state {
                WordsState::Whole | WordsState::Streaming => "",
                WordsState::Cut => " (cut off)",
                WordsState::Abandoned => " (abandoned)",
            };
            format!("\npiton{mark}: {}\n", view::clean(text.trim()))
        }
        Body::Call(call) => called(call, full),
        Body::Model(model) => match &model.state {
            ModelState::Failed { error, .. } => {
                format!("  ! the model gave no reply: {}\n", view::first_line(&error.message))
            }
            ModelState::Asked | ModelState::Replied { .. } | ModelState::Cut => String::new(),
        },
        Body::Compaction(compaction) => match &compaction.end {
            Some(CompactionEnd::Summary { text, .. }) => summary(text, full),
            Some(CompactionEnd::Pruned | CompactionEnd::Failed { .. }) | None => String::new(),
        },
        Body::Pruned { calls, .. } => {
            let outputs = view::plural(*calls as u64, "old output");
            format!("\n[{outputs} above cleared from what the model reads, to make room]\n")
        }
        Body::Configured { changed, at_once, .. } => configured(&changed.with_when(*at_once)),
        Body::Todo { items } if items.is_empty() => "  (todos cleared)\n".to_owned(),
        Body::Todo { items } => items.iter().map(|item| format!("    {}\n", view::clean(&item.to_string()))).collect(),
        Body::Moved { workspace } => format!("\n[from here on in {}]\n", view::clean(workspace)),
        Body::Rewind { rewind, state } => match state {
            RewindState::Finished { .. } if rewind.direction == Direction::Redo && rewind.to.is_some() => String::new(),
            RewindState::Finished { .. } => format!("\n[{}]\n", rewound(rewind)),
            RewindState::Abandoned { error, touches } => {
                format!("\n[{}]\n", view::clean(&not_rewound(rewind, error, touches)))
            }
            RewindState::Started => String::new(),
        },
        Body::TaskEnd { task, outcome } => task_ended(task, outcome),
        Body::Lost { events } => format!("\n[{} lost to damage here]\n", view::plural(*events as u64, "event")),
        Body::TurnEnd { end, detail, spent, .. } => {
            let detail = detail.as_ref().map(|detail| format!(" ({})", view::first_line(detail))).unwrap_or_default();
            let steps = view::plural(u64::from(spent.steps), "step");
            format!("\n— {}{detail}, {steps}\n", report::word(*end))
        }
        Body::Thought { .. }
        | Body::Session(_)
        | Body::Given { .. }
        | Body::Turn { .. }
        | Body::Step { .. }
        | Body::Question { .. }
        | Body::Snapshot { .. }
        | Body::Hooks { .. }
        | Body::Switched { .. }
        | Body::Title { .. }
        | Body::Stopping { .. } => String::new(),
    }
}

fn configured(words: &str) -> String {
    format!("\n[{}]\n", view::clean(words))
}

fn task_ended(task: &CallId, outcome: &Outcome) -> String {
    format!("\n[{}]\n", view::first_line(&over(task, outcome, "is over")))
}

fn summary(text: &str, full: bool) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let most = if full { lines.len() } else { SUMMARY_LINES };
    let shown = lines.iter().take(most).map(|line| format!("    │ {}\n", view::clean(line)));
    let gap = match lines.len().saturating_sub(most) {
        0 => String::new(),
        more => format!("    │ … {} (--full shows them)\n", view::plural(more as u64, "more line")),
    };
    format!("\n[the model knows what was before by this summary]\n{}{gap}", shown.collect::<String>())
}

fn called(call: &CallBlock, full: bool) -> String {
    let asked = if full { view::clean(&call.about) } else { view::gist(&call.about) };
    let mut text = format!("  → {} {asked}\n", view::first_line(call.name()));
    let Some(outcome) = call.outcome() else { return text + "  ← not known\n" };
    let title = view::first_line(outcome.title.strip_prefix(&call.tool).unwrap_or(&outcome.title).trim());
    let title = if title.is_empty() { title } else { format!(": {title}") };
    text.push_str(&format!("  ← {} {}{title}\n", view::first_line(call.name()), status(Some(outcome))));
    let lines: Vec<&str> = outcome.text.trim_end().lines().collect();
    let shown: Vec<String> = match lines.len() {
        many if many > SHOWN_LINES && !full => {
            let half = SHOWN_LINES / 2;
            let gap = format!("… {} (--full shows them)", view::plural((many - SHOWN_LINES) as u64, "more line"));
            let ends =
                [&lines[..half], &lines[many - half..]].map(|part| part.iter().map(|line| view::first_line(line)));
            let [beginning, end] = ends;
            beginning.chain([gap]).chain(end).collect()
        }
        _ if full => lines.iter().map(|line| view::clean(line)).collect(),
        _ => lines.iter().map(|line| view::first_line(line)).collect(),
    };
    shown.iter().for_each(|line| text.push_str(&format!("    │ {line}\n")));
    text
}
