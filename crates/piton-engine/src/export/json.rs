//! The events of a session as one JSON document, which can be taken in again:
//!
//! ```json
//! {"piton_export": 1, "session": "ses_…", "title": "…", "redacted": 0, "digest": "<blake3>", "events": [ … ]}
//! ```
//!
//! The digest is that of all events as compact JSON, each ended by a line feed. So a file may be laid out anew by any
//! tool, but not changed or cut. A session with subagents has theirs behind its own as `"subagents"`, a list of such documents in
//! which each stands behind its caller.

use piton_core::event::{Event, Origin, Record};
use piton_core::hidden::is_hidden;
use piton_core::ids::SessionId;
use piton_core::turn;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the document. The events have versions of their own.
const FORMAT: u32 = 1;

/// Why a text is not an export that can be taken in.
#[derive(Debug, thiserror::Error)]
pub enum NotAnExport {
    /// It ends before its end.
    #[error("it is truncated ({0})")]
    Cut(serde_json::Error),
    /// It is JSON of some other kind, or none at all.
    #[error("it is not an export of a Piton session: {0}")]
    Foreign(String),
    /// A newer Piton wrote it.
    #[error("it was written by a newer Piton (export format {found}, this one knows {FORMAT})")]
    Newer {
        /// Its format.
        found: u64,
    },
    /// Its events are not those that were exported.
    #[error("it was modified after the export: its events do not match its digest")]
    Changed,
    /// An event is of no kind that this Piton knows.
    #[error("its event {seq} cannot be understood ({why}); a newer Piton may know it")]
    Unknown {
        /// Its position.
        seq: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The events are no session.
    #[error("its events do not form a session: {0}")]
    NoSession(String),
}

/// The document.
#[derive(Serialize, Deserialize)]
struct Document {
    piton_export: u32,
    session: String,
    title: String,
    redacted: usize,
    digest: String,
    events: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    subagents: Vec<Document>,
}

/// Writes a session down; `redacted` says how many secrets are missing from its events.
pub fn write(records: &[Record], title: &str, redacted: usize) -> Result<String, serde_json::Error> {
    write_tree((records, title), &[], redacted)
}

/// The same with its subagents, each behind its caller: their events and titles.
pub fn write_tree(
    (records, title): (&[Record], &str),
    subagents: &[(Vec<Record>, String)],
    redacted: usize,
) -> Result<String, serde_json::Error> {
    let events = records.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    let lines = events.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    let session = turn::State::fold(records).id().to_string();
    let digest = digest(&events)?;
    let (title, events, none) = (title.to_owned(), Vec::new(), Vec::new());
    let head = Document { piton_export: FORMAT, session, title, redacted, digest, events, subagents: none };
    // One event a line, so that two exports can be compared.
    let head = serde_json::to_string(&head)?;
    let head = head.strip_suffix("]}").unwrap_or(&head);
    let below: Vec<String> =
        subagents.iter().map(|(records, title)| write(records, title, 0)).collect::<Result<_, _>>()?;
    let below = match below.is_empty() {
        true => String::new(),
        false => format!(",\"subagents\":[\n{}]", below.join(",")),
    };
    Ok(plain(&format!("{head}\n{}\n]{below}}}\n", lines.join(",\n"))))
}

/// The same JSON, with characters that a person would not see written as `\u202e`: they stand in strings only.
fn plain(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for char in json.chars() {
        if is_hidden(char) {
            let mut units = [0; 2];
            for unit in char.encode_utf16(&mut units) {
                plain.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            plain.push(char);
        }
    }
    plain
}

/// Reads one back without its subagents, and checks that it is whole and unchanged.
pub fn read(text: &str) -> Result<Vec<Record>, NotAnExport> {
    Ok(read_tree(text)?.swap_remove(0))
}

/// Reads one back with its subagents, the session first and each behind its caller.
pub fn read_tree(text: &str) -> Result<Vec<Vec<Record>>, NotAnExport> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let begins_like_one = text.trim_start().starts_with('{');
        if error.is_eof() && begins_like_one {
            NotAnExport::Cut(error)
        } else {
            NotAnExport::Foreign(error.to_string())
        }
    })?;
    match value.get("piton_export").and_then(Value::as_u64) {
        None => return Err(NotAnExport::Foreign("it has no `piton_export`".to_owned())),
        Some(found) if found > u64::from(FORMAT) => return Err(NotAnExport::Newer { found }),
        Some(_) => {}
    }
    let mut root: Document = serde_json::from_value(value).map_err(|error| NotAnExport::Foreign(error.to_string()))?;
    let below = std::mem::take(&mut root.subagents);
    let all: Vec<Vec<Record>> = std::iter::once(root).chain(below).map(events_of).collect::<Result<_, _>>()?;
    for (at, records) in all.iter().enumerate().skip(1) {
        let called = all[..at].iter().flatten().find_map(|record| match (&record.event, started(records)) {
            (Event::Delegated { call, child, .. }, Some((id, Some(by)))) => {
                (child == id && by.call.as_ref() == Some(call)).then_some(())
            }
            _ => None,
        });
        if called.is_none() {
            return Err(NotAnExport::NoSession("no session before it has called a subagent".to_owned()));
        }
    }
    Ok(all)
}

/// The id of a session, and where it comes from.
fn started(records: &[Record]) -> Option<(&SessionId, Option<&Origin>)> {
    match &records.first()?.event {
        Event::SessionStarted { session, parent, .. } => Some((session, parent.as_ref())),
        _ => None,
    }
}

fn events_of(document: Document) -> Result<Vec<Record>, NotAnExport> {
    let found = digest(&document.events).map_err(|error| NotAnExport::Foreign(error.to_string()))?;
    if found != document.digest {
        return Err(NotAnExport::Changed);
    }
    let read = |(seq, event): (usize, Value)| {
        serde_json::from_value(event).map_err(|error| NotAnExport::Unknown { seq, why: error.to_string() })
    };
    let records: Vec<Record> = (1..).zip(document.events).map(read).collect::<Result<_, _>>()?;
    check(&records)?;
    Ok(records)
}

/// The digest tells that nothing was changed; this, that somebody who made both meant a session.
fn check(records: &[Record]) -> Result<(), NotAnExport> {
    let no_session = |why: &str| Err(NotAnExport::NoSession(why.to_owned()));
    let Some(Record { event: Event::SessionStarted { session, .. }, .. }) = records.first() else {
        return no_session("the first does not start one");
    };
    // It becomes the name of a folder.
    if !session.is_sound() {
        return no_session("the session's id is not one of Piton's");
    }
    if records.iter().skip(1).any(|record| matches!(record.event, Event::SessionStarted { .. })) {
        return no_session("it starts more than once");
    }
    match records.iter().zip(1..).find(|(record, seq)| record.seq != *seq) {
        Some((_, seq)) => no_session(&format!("there is none at position {seq}")),
        None => Ok(()),
    }
}

fn digest(events: &[Value]) -> Result<String, serde_json::Error> {
    let mut hasher = blake3::Hasher::new();
    for event in events {
        hasher.update(serde_json::to_string(event)?.as_bytes()).update(b"\n");
    }
    Ok(hasher.finalize().to_hex().to_string())
}
