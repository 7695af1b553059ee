//! `piton session …`: list, show, remove, check; following and stopping are in [`crate::follow`].

use crate::branches;
use crate::cli::SessionCommand;
use crate::follow;
use crate::report;
use crate::surroundings::Surroundings;
use crate::view;
use anyhow::{Context, bail};
use piton_core::event::Event;
use piton_core::ids::SessionId;
use piton_core::limits;
use piton_core::message::{Message, Part, Role};
use piton_core::turn;
use piton_engine::engine::Engine;
use piton_engine::journal::{self, Flaw, Verdict};

/// How much of an id a list shows.
const SHORT_ID_CHARS: usize = 20;

/// Obeys one of the session commands.
pub(crate) async fn session(command: SessionCommand, around: &Surroundings) -> anyhow::Result<u8> {
    let engine = Engine::open(&around.data_dir);
    match command {
        SessionCommand::List { cwd, limit, json } => {
            let workspace = cwd.map(|dir| around.workspace(Some(&dir))).transpose()?;
            list(&engine, workspace.as_deref(), limit, json)?;
        }
        SessionCommand::Show { id, json } => show(&engine, &find(&engine, &id)?, json)?,
        SessionCommand::Follow { id, from, format } => {
            return follow::follow(&engine, &find(&engine, &id)?, from, format, around).await;
        }
        SessionCommand::Cancel { id } => return follow::cancel(&engine, &find(&engine, &id)?).await,
        SessionCommand::Cost { id, json } => crate::cost::cost(&engine, &find(&engine, &id)?, json)?,
        SessionCommand::Rm { id } => remove(&engine, &find(&engine, &id)?)?,
        SessionCommand::Tree { id } => branches::tree(&engine, &find(&engine, &id)?)?,
        SessionCommand::Fork { id, at } => branches::fork(&engine, &find(&engine, &id)?, at)?,
        SessionCommand::Verify { id } => {
            let id = find(&engine, &id)?;
            return verify(&engine, &id);
        }
    }
    Ok(0)
}

/// The session whose id begins like this.
pub(crate) fn find(engine: &Engine, prefix: &str) -> anyhow::Result<SessionId> {
    Ok(engine.index()?.find(prefix)?)
}

fn verify(engine: &Engine, id: &SessionId) -> anyhow::Result<u8> {
    match journal::verify(&engine.session_dir(id))? {
        Verdict::Sound { events } => {
            view::write_stdout(&format!("{id}: {events} events, every one in its place and unchanged\n"));
            Ok(0)
        }
        Verdict::Bad { seq, flaw } => {
            let what = match flaw {
                Flaw::Missing => "is missing",
                Flaw::Changed => "is not what was written",
                Flaw::Blob => "has lost its blob, or the blob is not what was written",
                Flaw::Unreadable => "is as it was written, but this Piton cannot read it",
            };
            view::write_stdout(&format!(
                "{id}: event {seq} {what}; the {} before it are sound\n",
                seq.saturating_sub(1)
            ));
            Ok(report::EXIT_FAILED)
        }
    }
}

fn list(engine: &Engine, workspace: Option<&std::path::Path>, limit: usize, json: bool) -> anyhow::Result<()> {
    let index = engine.index()?;
    let sessions = index.list(workspace, limit)?;
    for (id, error) in index.unreadable() {
        view::write_stderr(&format!("{id} cannot be read: {error}\n"));
    }
    if json {
        for session in &sessions {
            view::write_stdout(&format!("{}\n", serde_json::to_string(session)?));
        }
        return Ok(());
    }
    if sessions.is_empty() {
        view::write_stderr("no sessions yet; start one with piton run \"…\"\n");
    }
    for session in sessions {
        let when = jiff::Timestamp::from_millisecond(i64::try_from(session.updated_ms)?)?;
        let when = when.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string();
        let least = if session.unpriced_calls > 0 { "≥" } else { "" };
        let cost = session.cost_micros.map(|micros| format!("{least}${}", limits::dollars(micros))).unwrap_or_default();
        let end = session.last_end.map_or("unfinished".to_owned(), report::word);
        let steps = view::plural(u64::from(session.steps), "step");
        let title = view::first_line(&session.title);
        // Time and some dice: enough to be the only one, and accepted wherever an id is.
        let id: String = session.id.as_str().chars().take(SHORT_ID_CHARS).collect();
        let folder = std::path::Path::new(&session.workspace).file_name().unwrap_or_default().to_string_lossy();
        let folder = view::first_line(&folder);
        view::write_stdout(&format!("{id}  {when}  {end:<12} {steps:>9}  {cost:>8}  {folder}: {title}\n"));
    }
    Ok(())
}

fn show(engine: &Engine, id: &SessionId, json: bool) -> anyhow::Result<()> {
    let records = journal::read_session(&engine.session_dir(id))?;
    if json {
        for record in &records {
            view::write_stdout(&format!("{}\n", serde_json::to_string(record)?));
        }
        return Ok(());
    }
    let session = turn::Session::fold(&records);
    view::write_stdout(&format!("{id}  {}  {}\n", session.workspace(), session.model()));
    for message in session.transcript() {
        show_message(message);
    }
    let state = if session.is_at_rest() { "" } else { " — cut off; `piton run --resume` goes on with it" };
    let last = records.iter().rev().find_map(|record| match &record.event {
        Event::TurnEnded { end, detail, spent, .. } => Some((end, detail, spent)),
        _ => None,
    });
    if let Some((end, detail, spent)) = last {
        let detail = detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        let steps = view::plural(u64::from(spent.steps), "step");
        view::write_stdout(&format!("\n{}{detail}, {steps}\n", report::word(*end)));
    }
    view::write_stdout(&format!("{} events{state}\n", records.len()));
    Ok(())
}

fn show_message(message: &Message) {
    let mark = if message.interrupted { " (interrupted)" } else { "" };
    let who = match message.role {
        Role::User => "you",
        Role::Assistant => "piton",
        Role::Tool => "",
    };
    for part in &message.parts {
        match part {
            Part::Text { text, .. } => {
                view::write_stdout(&format!("\n{who}{mark}: {}\n", view::clean(text.trim_end())));
            }
            Part::Note { text } => view::write_stdout(&format!("\n[{}]\n", view::clean(text.trim_end()))),
            Part::ToolCall(call) => view::write_stdout(&format!("  → {} {}\n", call.name, view::gist(call))),
            Part::ToolResult { tool, outcome, .. } => {
                let first = view::first_line(if outcome.title.is_empty() { &outcome.text } else { &outcome.title });
                let status = serde_json::to_value(outcome.status).unwrap_or_default();
                view::write_stdout(&format!("  ← {tool} {}: {first}\n", status.as_str().unwrap_or_default()));
            }
            Part::Reasoning { .. } => {}
            Part::Image { media_type, .. } => view::write_stdout(&format!("  <{media_type}>\n")),
        }
    }
}

fn remove(engine: &Engine, id: &SessionId) -> anyhow::Result<()> {
    let dir = engine.session_dir(id);
    if journal::is_held(&dir) {
        bail!("{id} is open in another piton; close that one first");
    }
    let root = dir.root();
    std::fs::remove_dir_all(root).with_context(|| format!("cannot remove {}", root.display()))?;
    view::write_stderr(&format!("removed {id}\n"));
    Ok(())
}
