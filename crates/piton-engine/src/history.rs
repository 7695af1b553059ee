//! `history`: searches and reads earlier events in the session's journal. Summaries and stubs name their events, so the
//! model can look up whatever a compaction removed.

use async_trait::async_trait;
use piton_core::branch::Path;
use piton_core::call::{CallInput, CallKind, Effects, Outcome, Planned};
use piton_core::event::{Event, Record};
use piton_core::ids::{CallId, MessageId, Seq};
use piton_core::message::{Part, ToolCall, prose};
use piton_tools::plan::{Look, Plan, QuestionDraft};
use piton_tools::tool::ToolContext;
use piton_tools::toolset::ToolSet;
use piton_tools::typed::TypedTool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What the model may call by default: the built-in tools and [`History`].
pub fn default_tools() -> ToolSet {
    ToolSet::builtin().with(Arc::new(History))
}

/// The tool.
#[derive(Debug, Clone, Copy)]
pub struct History;

const NAME: &str = "history";

/// Events that a search shows.
const MOST_FOUND: usize = 20;
/// Bytes of each that are shown, around the words.
const SHOWN_BYTES: usize = 240;
/// Bytes of an event that are read at once.
const READ_BYTES: usize = 24_000;

/// What the model sends.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Words to find; all of them must be in an event
    query: Option<String>,
    /// An event to read in full, by its number
    seq: Option<Seq>,
    /// With seq: the byte to begin at
    offset: Option<usize>,
}

#[async_trait]
impl TypedTool for History {
    type Input = Input;
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str =
        "Finds and reads earlier parts of this conversation, also those that a summary stands for.";
    const EFFECTS: Effects = Effects::READ;

    fn planned(&self, input: Input, _: &Look) -> Result<Plan, Outcome> {
        let title = input.query.or_else(|| input.seq.map(|seq| format!("event {seq}"))).unwrap_or_default();
        let planned = Planned { kind: CallKind::Search, title, accesses: Vec::new() };
        let question = QuestionDraft::new(|| ("Look into the session's own history?".to_owned(), Vec::new()));
        Ok(Plan::of(planned, question))
    }

    async fn act(&self, input: Input, cx: &ToolContext) -> Outcome {
        let records = match cx.host.read(1, usize::MAX).await {
            Ok(records) => records,
            Err(error) => return Outcome::failed(format!("history: {error}")),
        };
        let own = cx.call.clone();
        let looked = tokio::task::spawn_blocking(move || look(&input, &records, &own)).await;
        looked.unwrap_or_else(|_| Outcome::failed("history: the journal could not be read; this is a bug in Piton"))
    }
}

fn look(input: &Input, records: &[Record], own: &CallId) -> Outcome {
    let past = Past::of(records);
    match (input.seq, input.query.as_deref().map(str::trim).filter(|query| !query.is_empty())) {
        (Some(seq), _) => past.read(seq, input.offset.unwrap_or(0)),
        (None, Some(query)) => past.search(query, own),
        (None, None) => Outcome::failed("history: say what to look for: `query` with words, or `seq` with a number"),
    }
}

/// What of a journal can be found and read: the events that count, where the session is now.
struct Past<'a> {
    records: &'a [Record],
    path: Path,
    calls: HashMap<&'a CallId, &'a ToolCall>,
    /// What the user took back before the model had read it.
    unqueued: HashSet<&'a MessageId>,
}

impl<'a> Past<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut calls = HashMap::new();
        for record in records {
            if let Event::MessageFinished { reply, .. } = &record.event {
                for part in &reply.parts {
                    if let Part::ToolCall(call) = part {
                        calls.insert(&call.id, call);
                    }
                }
            }
        }
        let unqueued = records.iter().filter_map(|record| match &record.event {
            Event::MessageUnqueued { message } => Some(message),
            _ => None,
        });
        Self { records, path: Path::of(records), calls, unqueued: unqueued.collect() }
    }

    /// Who speaks in an event, and what; `None` where nothing is said.
    fn told(&self, record: &Record) -> Option<(String, String)> {
        let (who, text) = match &record.event {
            Event::UserSpoke { message, .. } if self.unqueued.contains(message) => return None,
            Event::UserSpoke { parts, .. } => ("the user said".to_owned(), with_notes(parts)),
            Event::StepStarted { step, note: Some(note), .. } => {
                (format!("Piton told the model, step {step}"), note.clone())
            }
            Event::HooksRan { notes, .. } => ("hooks told the model".to_owned(), notes.join("\n")),
            Event::MessageFinished { step, reply, .. } => {
                let calls = reply.parts.iter().filter_map(|part| match part {
                    Part::ToolCall(call) => Some(format!("\n→ {} {}", call.name, arguments(call))),
                    _ => None,
                });
                (format!("the model said, step {step}"), prose(&reply.parts).into_owned() + &calls.collect::<String>())
            }
            Event::CallSettled { call, outcome } => {
                let asked = self.calls.get(call).map(|call| format!("{} {}", call.name, arguments(call)));
                (format!("result of {}", asked.unwrap_or_else(|| call.to_string())), outcome.text.clone())
            }
            Event::CompactionFinished { summary, note, .. } => {
                let parts = std::iter::once(summary).chain(note).cloned();
                ("a summary".to_owned(), parts.collect::<Vec<_>>().join("\n"))
            }
            Event::MessageCut { parts, .. } => ("the model said, cut off".to_owned(), prose(parts).into_owned()),
            _ => return None,
        };
        (!text.trim().is_empty()).then_some((who, text))
    }

    fn read(&self, seq: Seq, offset: usize) -> Outcome {
        let place = usize::try_from(seq).unwrap_or(usize::MAX).wrapping_sub(1);
        let found = self.records.get(place).filter(|record| self.path.contains(record.seq));
        let Some((who, text)) = found.and_then(|record| self.told(record)) else {
            let last = self.records.len();
            return Outcome::failed(format!(
                "history: event {seq} says nothing that could be read. The events are 1 to {last}; `query` finds those \
                 that say something"
            ));
        };
        let from = (offset.min(text.len())..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let end = text.len().min(from + READ_BYTES);
        let end = (from..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(from);
        let more = match text.len() - end {
            0 => String::new(),
            left => format!("\n[{left} bytes more: seq {seq}, offset {end}]"),
        };
        let title = format!("history event {seq}");
        Outcome::ok(format!("[event {seq}, {}]\n{}{more}", shortened(&who), &text[from..end])).titled(title)
    }

    /// The newest events with all of the words. What this tool itself has found before would be found again and again,
    /// and its own call has the words too.
    fn search(&self, query: &str, own: &CallId) -> Outcome {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut found = Vec::new();
        for record in self.records.iter().rev().filter(|record| self.path.contains(record.seq)) {
            if self.is_about_history(&record.event, own) {
                continue;
            }
            let Some((who, text)) = self.told(record) else { continue };
            let lower = format!("{who}\n{text}").to_lowercase();
            if words.iter().all(|word| lower.contains(word.as_str())) {
                found.push((record.seq, who, text));
            }
        }
        let count = found.len();
        let title = format!("history {} ({count} found)", shortened(query));
        if found.is_empty() {
            return Outcome::ok(format!(
                "No event has all of these words: {query}. Try fewer of them, or one that was surely written like this."
            ))
            .titled(title);
        }
        let mut text = String::new();
        for (seq, who, said) in found.iter().take(MOST_FOUND) {
            text.push_str(&format!("event {seq}, {}: {}\n", shortened(who), around(said, &words)));
        }
        if count > MOST_FOUND {
            text.push_str(&format!("[{} older events have them too; more words find fewer]\n", count - MOST_FOUND));
        }
        text.push_str("[`seq` reads one in full]");
        Outcome::ok(text).titled(title)
    }

    fn is_about_history(&self, event: &Event, own: &CallId) -> bool {
        match event {
            Event::CallSettled { call, .. } => self.calls.get(call).is_some_and(|call| call.name == NAME),
            Event::MessageFinished { reply, .. } => {
                reply.parts.iter().any(|part| matches!(part, Part::ToolCall(call) if call.id == *own))
            }
            _ => false,
        }
    }
}

/// What was said, and what Piton put beside it: files that the words refer to, instructions, reminders.
fn with_notes(parts: &[Part]) -> String {
    let notes = parts.iter().filter_map(|part| match part {
        Part::Note { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let words = prose(parts);
    std::iter::once(&*words).chain(notes).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

fn arguments(call: &ToolCall) -> String {
    match &call.input {
        CallInput::Json(input) => input.to_string(),
        CallInput::Invalid { raw, .. } => raw.clone(),
    }
}

/// One line, not too long.
fn shortened(text: &str) -> String {
    const MOST_CHARS: usize = 120;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The text around the rarest of the words, on one line.
fn around(text: &str, words: &[String]) -> String {
    let longest = words.iter().max_by_key(|word| word.len());
    // Where upper and lower case have other lengths, this is near enough.
    let at = longest.and_then(|word| text.to_lowercase().find(word.as_str())).unwrap_or(0).min(text.len());
    let from = at.saturating_sub(SHOWN_BYTES / 3);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let to = (from..=text.len().min(from + SHOWN_BYTES)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(from);
    let line = text[from..to].split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{before}{line}{after}")
}
