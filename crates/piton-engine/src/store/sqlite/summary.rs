//! One session at a glance, read from a single row.

use super::error::Fault;
use crate::store::{Activity, Summary};
use piton_core::event::Origin;
use piton_core::ids::{CallId, Seq, SessionId};
use rusqlite::{Connection, Row};

/// Reads the row; `None` before the first commit.
pub(super) fn read(conn: &Connection) -> Result<Option<Summary>, Fault> {
    let sql = "SELECT id, workspace, version, title, model, created_ms, updated_ms, turns, steps, cost_micros, status, \
               last_end, parent_session, parent_seq, (SELECT count(*) FROM usage WHERE cost_micros IS NULL), \
               (SELECT json_extract(body, '$.parent.call') FROM event WHERE seq = 1 AND parent_session IS NOT NULL) FROM session";
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
    let call: Option<String> = row.get(15)?;
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
        parent: parent.zip(parent_seq).map(|(session, seq)| Origin {
            session: SessionId(session),
            seq,
            call: call.map(CallId),
        }),
    })
}
