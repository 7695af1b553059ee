//! One session at a glance, read from a single row.

use super::error::Fault;
use piton_core::event::{Origin, TurnEnd};
use piton_core::ids::{Seq, SessionId, TimeMs};
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

/// One session at a glance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Its id.
    pub id: SessionId,
    /// The folder it works in.
    pub workspace: String,
    /// The Piton that made it.
    pub version: String,
    /// The beginning of its first prompt, on one line; empty before there is one.
    pub title: String,
    /// `provider/model` of its newest turn, once there is one.
    pub model: Option<String>,
    /// When it was created.
    pub created_ms: TimeMs,
    /// When something last happened in it; opening and closing do not count.
    pub updated_ms: TimeMs,
    /// Turns so far.
    pub turns: u32,
    /// Steps so far.
    pub steps: u32,
    /// Money so far, in millionths of a US dollar; `None` when no reply had a known price.
    pub cost_micros: Option<u64>,
    /// Model calls that were or may have been billed and whose cost is not known: with any, `cost_micros` is a least.
    #[serde(default)]
    pub unpriced_calls: u32,
    /// What it is doing, by its record.
    pub status: Activity,
    /// How its newest finished turn ended, once there is one.
    pub last_end: Option<TurnEnd>,
    /// Where it comes from, if from another session.
    pub parent: Option<Origin>,
}

/// What a session is doing, by its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// No turn is under way.
    Idle,
    /// A turn is under way, or was when its process died: the lock tells which.
    Running,
}

/// Reads the row; `None` before the first commit.
pub(super) fn read(conn: &Connection) -> Result<Option<Summary>, Fault> {
    let sql = "SELECT id, workspace, version, title, model, created_ms, updated_ms, turns, steps, cost_micros, status, \
               last_end, parent_session, parent_seq, (SELECT count(*) FROM usage WHERE cost_micros IS NULL) FROM session";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    Ok(rows.next()?.map(from_row).transpose()?)
}

/// What the user said, up to a size that nobody types.
pub(super) fn prompts(conn: &Connection) -> Result<String, Fault> {
    const MOST_BYTES: usize = 200_000;
    let mut statement = conn.prepare_cached("SELECT text FROM message WHERE role = 'user' ORDER BY seq")?;
    let mut rows = statement.query([])?;
    let mut all = String::new();
    while let Some(row) = rows.next()? {
        all.push_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        all.push('\n');
        if all.len() > MOST_BYTES {
            break;
        }
    }
    Ok(all)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Summary> {
    let status: String = row.get(10)?;
    let last_end: Option<String> = row.get(11)?;
    let parent: Option<String> = row.get(12)?;
    let parent_seq: Option<Seq> = row.get(13)?;
    Ok(Summary {
        id: SessionId(row.get(0)?),
        workspace: row.get(1)?,
        version: row.get(2)?,
        title: row.get(3)?,
        model: row.get(4)?,
        created_ms: row.get(5)?,
        updated_ms: row.get(6)?,
        turns: row.get(7)?,
        steps: row.get(8)?,
        cost_micros: row.get(9)?,
        unpriced_calls: row.get(14)?,
        status: if status == "running" { Activity::Running } else { Activity::Idle },
        last_end: last_end.and_then(|word| serde_json::from_value(word.into()).ok()),
        parent: parent.zip(parent_seq).map(|(session, seq)| Origin { session: SessionId(session), seq }),
    })
}
