//! What follows from the events, kept as tables so that a list, a viewer or a person with `sqlite3` need not fold them.
//! Written in the same transaction as the events, and made again from them whenever that is wanted. The tables forget
//! nothing that the events know, and know nothing that the events do not.

use super::error::Fault;
use super::rows::{self, INLINE_BYTES};
use crate::store::summary::{chain, shorten, title};
use piton_core::branch::{Path, moved_to};
use piton_core::call::{Delegated, Outcome};
use piton_core::event::{Event, Origin, Record, Sampled, Subject, SummaryCall, TitledBy};
use piton_core::ids::{CallId, Seq, SessionId, TimeMs};
use piton_core::message::{Part, Usage, prose};
use piton_core::question::Decision;
use piton_core::todo::TodoItem;
use rusqlite::{Connection, ToSql, Transaction, params};
use serde::Serialize;

/// Makes all projections again.
pub(super) fn rebuild(tx: &Transaction<'_>, blobs: Option<&std::path::Path>) -> Result<(), Fault> {
    tx.execute_batch(
        "DELETE FROM part; DELETE FROM message; DELETE FROM todo; DELETE FROM usage; DELETE FROM session;",
    )?;
    let mut asked = AskedModel::default();
    rows::each_from(tx, 1, usize::MAX, |sheet, _| apply(tx, &mut asked, &sheet.read(blobs)?))
}

/// The model whose turn it is, as the events before have named it. Who opens a journal names it before it asks one.
#[derive(Debug, Clone, Default)]
pub(super) struct AskedModel(Option<String>);

impl AskedModel {
    fn hear(&mut self, event: &Event) {
        if let Event::TurnStarted { model, .. }
        | Event::TurnResumed { model, .. }
        | Event::ModelSwitched { model, .. } = event
        {
            self.0 = Some(model.clone());
        }
    }
}

/// Brings the projections up to this event.
pub(super) fn apply(conn: &Connection, asked: &mut AskedModel, record: &Record) -> Result<(), Fault> {
    asked.hear(&record.event);
    let writer = Tables { conn, seq: record.seq, model: asked.0.as_deref() };
    match &record.event {
        Event::SessionStarted { session, workspace, version, parent } => {
            return writer.begin(session, workspace, version, parent.as_ref(), record.at_ms);
        }
        // Who opens a session to look at it has not worked on it, nor has who names it.
        Event::WriterOpened { .. } | Event::WriterClosed {} | Event::EventLost {} => return Ok(()),
        Event::TitleGiven { title, by } => return writer.titled(title, by),
        Event::ServerSampled { sampled, .. } if sampled.may_be_billed() => {
            let Sampled { model, usage, cost_micros, .. } = &**sampled;
            writer.usage(0, 1, Some(model), usage, *cost_micros)?;
        }
        Event::TaskEnded { outcome, .. } => {
            return outcome.delegated.as_deref().map_or(Ok(()), |delegated| writer.delegated(delegated));
        }
        Event::GrantsRevoked { .. } | Event::GrantsShared { .. } => return Ok(()),
        Event::SettingsChanged { changed, .. } => {
            return changed.model.iter().try_for_each(|models| writer.run("UPDATE session SET model = ?", [models]));
        }
        Event::WorkspaceMoved { workspace } => writer.run("UPDATE session SET workspace = ?", [workspace])?,
        Event::Todo { items } => writer.todos(items)?,
        Event::RewindFinished { rewind, .. } if rewind.to.is_some() => {
            writer.todos(&todos_at_head(conn, record.seq)?)?;
        }
        Event::UserSpoke { parts, typed, .. } => {
            writer.run("UPDATE session SET title = ? WHERE title = ''", [title(parts, typed.as_deref())])?;
            writer.message(None, "user", "finished", parts)?;
        }
        Event::TurnStarted { turn, model, fallbacks, this_turn_only: once, .. } => {
            writer.run("UPDATE session SET turns = ?, status = 'running'", [turn])?;
            writer.model(*once, model, fallbacks)?;
        }
        Event::TurnResumed { model, fallbacks, this_turn_only: once, .. } => writer.model(*once, model, fallbacks)?,
        Event::StepStarted { step, note, .. } => {
            writer.run("UPDATE session SET steps = ?", [step])?;
            if let Some(text) = note {
                writer.message(Some(*step), "user", "finished", &[Part::note(text.clone())])?;
            }
        }
        Event::MessageFinished { step, attempt, reply, cost_micros, .. } => {
            writer.message(Some(*step), "assistant", "finished", &reply.parts)?;
            writer.usage(*step, *attempt, None, &reply.usage, *cost_micros)?;
        }
        Event::ModelFailed { step, attempt, usage, cost_micros, at_most, abandoned, .. } => {
            if !abandoned.is_empty() {
                writer.message(Some(*step), "assistant", "abandoned", abandoned)?;
            }
            if usage.total() > 0 || at_most.is_some() {
                writer.usage(*step, *attempt, None, usage, *cost_micros)?;
            }
        }
        Event::MessageCut { step, parts, at_most } => writer.cut(*step, parts, at_most.is_some())?,
        Event::ApprovalAsked { subject: Subject::Call(call), .. } => writer.call(call, "awaiting_approval")?,
        Event::ApprovalGiven { subject: Subject::Call(call), decision, .. } => {
            writer.call(call, state_after(decision))?;
        }
        Event::ApprovalVoided { subject: Subject::Call(call), .. } => writer.call(call, "requested")?,
        Event::CallStarted { call } => writer.call(call, "running")?,
        Event::CallSettled { call, outcome } => writer.settled(call, outcome)?,
        Event::TurnEnded { end, .. } => writer.run("UPDATE session SET status = 'idle', last_end = ?", [word(end)])?,
        Event::CompactionFinished { asked, .. } | Event::CompactionFailed { asked, .. } => {
            writer.asked(asked.as_deref())?;
        }
        // No table has a row of the others.
        _ => {}
    }
    writer.run("UPDATE session SET updated_ms = ?", [record.at_ms])
}

/// The todos of the newest list on the path to this event, which moved the head.
fn todos_at_head(conn: &Connection, seq: Seq) -> Result<Vec<TodoItem>, Fault> {
    let before = |record: &Record| record.seq <= seq;
    let moves = rows::of_kind(conn, None, "rewind_finished")?;
    let moves: Vec<_> = moves.iter().filter(|record| before(record)).collect();
    let moves: Vec<_> = moves.iter().filter_map(|record| Some((record.seq, moved_to(&record.event)?))).collect();
    let path = Path::with_moves(&moves);
    // Lists are far smaller than what goes to a blob.
    let lists = rows::of_kind(conn, None, "todo")?;
    let newest = lists.into_iter().rev().find(|record| before(record) && path.contains(record.seq));
    Ok(match newest.map(|record| record.event) {
        Some(Event::Todo { items }) => items,
        _ => Vec::new(),
    })
}

/// What a call is in once a person has answered.
fn state_after(decision: &Decision) -> &'static str {
    match decision {
        Decision::Approve
        | Decision::ApproveForSession
        | Decision::ApproveLasting(_)
        | Decision::ApproveChanged(_)
        | Decision::Answered(_) => "requested",
        Decision::Deny(_) | Decision::Unattended | Decision::Expired => "denied",
    }
}

/// The word that one of our enums is in JSON.
pub(super) fn word(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}

/// The tables, as seen by one event.
struct Tables<'a> {
    conn: &'a Connection,
    seq: Seq,
    /// The model whose turn it is.
    model: Option<&'a str>,
}

impl Tables<'_> {
    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), Fault> {
        self.conn.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    fn begin(
        &self,
        id: &SessionId,
        workspace: &str,
        version: &str,
        parent: Option<&Origin>,
        at_ms: TimeMs,
    ) -> Result<(), Fault> {
        let sql = "INSERT INTO session (one, id, workspace, version, created_ms, updated_ms, parent_session, \
                   parent_seq) VALUES (1, ?, ?, ?, ?, ?, ?, ?)";
        let (from, at) = parent.map(|origin| (origin.session.as_str(), origin.seq)).unzip();
        self.run(sql, params![id.as_str(), workspace, version, at_ms, at_ms, from, at])
    }

    fn todos(&self, items: &[TodoItem]) -> Result<(), Fault> {
        self.run("DELETE FROM todo", [])?;
        for (position, item) in items.iter().enumerate() {
            let sql = "INSERT INTO todo (position, content, status) VALUES (?, ?, ?)";
            self.run(sql, params![position, item.text, word(&item.status)])?;
        }
        Ok(())
    }

    /// Those that a command asks for once are not the session's.
    fn model(&self, once: bool, model: &str, fallbacks: &[String]) -> Result<(), Fault> {
        if once {
            return Ok(());
        }
        self.run("UPDATE session SET model = ?", [chain(model, fallbacks)])
    }

    fn message(&self, step: Option<u32>, role: &str, state: &str, parts: &[Part]) -> Result<(), Fault> {
        let sql = "INSERT INTO message (seq, step, role, text, state) VALUES (?, ?, ?, ?, ?)";
        self.run(sql, params![self.seq, step, role, prose(parts), state])?;
        let sql = "INSERT INTO part (seq, position, type, call, tool, data, status) VALUES (?, ?, ?, ?, ?, ?, ?)";
        for (position, part) in parts.iter().enumerate() {
            let (kind, call, tool) = columns(part);
            // A call in a reply that was thrown away is never answered.
            let status = call.filter(|_| state == "finished").map(|_| "requested");
            let values: [&dyn ToSql; 7] = [&self.seq, &position, &kind, &call, &tool, &data(part), &status];
            self.run(sql, &values[..])?;
        }
        Ok(())
    }

    /// A reply that was cut off; it may be billed all the same.
    fn cut(&self, step: u32, parts: &[Part], may_be_billed: bool) -> Result<(), Fault> {
        if !parts.is_empty() {
            self.message(Some(step), "assistant", "interrupted", parts)?;
        }
        if may_be_billed { self.usage(step, 1, None, &Usage::default(), None) } else { Ok(()) }
    }

    fn call(&self, call: &CallId, status: &str) -> Result<(), Fault> {
        self.run("UPDATE part SET status = ? WHERE call = ? AND status IS NOT NULL", [status, call.as_str()])
    }

    fn settled(&self, call: &CallId, outcome: &Outcome) -> Result<(), Fault> {
        let sql = "UPDATE part SET status = ?, settled = ? WHERE call = ? AND status IS NOT NULL";
        self.run(sql, params![word(&outcome.status), self.seq, call.as_str()])?;
        outcome.delegated.as_deref().map_or(Ok(()), |delegated| self.delegated(delegated))
    }

    /// What a subagent used. Where some of its calls have no price the row has none, and the session has that of the others.
    fn delegated(&self, delegated: &Delegated) -> Result<(), Fault> {
        let Delegated { usage, cost_micros, unpriced_calls, .. } = delegated;
        let all = cost_micros.filter(|_| *unpriced_calls == 0);
        if all.is_some() || *unpriced_calls > 0 {
            self.usage(0, 1, None, usage, all)?;
        }
        self.pay(cost_micros.filter(|_| all.is_none()))
    }

    fn pay(&self, cost_micros: Option<u64>) -> Result<(), Fault> {
        match cost_micros {
            Some(cost) => self.run("UPDATE session SET cost_micros = coalesce(cost_micros, 0) + ?", [cost]),
            None => Ok(()),
        }
    }

    /// An empty title stands for the first prompt's words, which the first message still has.
    fn titled(&self, words: &str, by: &TitledBy) -> Result<(), Fault> {
        if !by.names(words) {
            // It stays as it is.
        } else if words.is_empty() {
            self.run("UPDATE session SET title = ?", [self.first_words()?])?;
        } else {
            self.run("UPDATE session SET title = ?", [words])?;
        }
        match by {
            TitledBy::User => Ok(()),
            TitledBy::Model { model, usage, cost_micros, .. } => self.usage(0, 1, Some(model), usage, *cost_micros),
        }
    }

    /// What [`title`] makes of the first prompt. A part that is too large to be kept twice is in the message's text.
    fn first_words(&self) -> Result<String, Fault> {
        let sql = "SELECT coalesce(json_extract(data, '$.text'), text) FROM message JOIN part USING (seq) \
                   WHERE role = 'user' AND type = 'text' ORDER BY seq, position";
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let words = shorten(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
            if !words.is_empty() {
                return Ok(words);
            }
        }
        Ok(String::new())
    }

    /// A model that was asked for a summary.
    fn asked(&self, asked: Option<&SummaryCall>) -> Result<(), Fault> {
        let Some(SummaryCall { model, attempts, usage, cost_micros, .. }) = asked else { return Ok(()) };
        self.usage(0, *attempts, Some(model), usage, *cost_micros)
    }

    /// The model is that of the turn where none is named.
    fn usage(
        &self,
        step: u32,
        attempt: u32,
        model: Option<&str>,
        usage: &Usage,
        cost_micros: Option<u64>,
    ) -> Result<(), Fault> {
        let sql = "INSERT INTO usage (seq, step, attempt, model, input, output, cache_read, cache_write, reasoning, \
                   cost_micros) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        self.run(
            sql,
            params![
                self.seq,
                step,
                attempt,
                model.or(self.model),
                usage.input_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                usage.cache_write_tokens,
                usage.reasoning_tokens,
                cost_micros
            ],
        )?;
        self.pay(cost_micros)
    }
}

/// Type, call and tool of a part; only a call itself has the latter two.
fn columns(part: &Part) -> (&'static str, Option<&str>, Option<&str>) {
    match part {
        Part::Text { .. } => ("text", None, None),
        Part::Reasoning { .. } => ("reasoning", None, None),
        Part::ToolCall(call) => ("tool_call", Some(call.id.as_str()), Some(&call.name)),
        Part::ToolResult { tool, .. } => ("tool_result", None, Some(tool)),
        Part::Note { .. } => ("note", None, None),
        Part::Image { .. } => ("image", None, None),
    }
}

fn data(part: &Part) -> Option<String> {
    serde_json::to_string(part).ok().filter(|json| json.len() <= INLINE_BYTES)
}
