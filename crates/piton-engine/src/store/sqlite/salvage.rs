//! What can still be read of a damaged journal, event by event. Works on a copy: the damaged files stay as they are.
//!
//! Every event that can be read keeps its place. In the place of one that cannot stands [`Event::EventLost`], so that
//! positions that other events name stay true. Whether the events make a conversation is for [`piton_core::turn`]: it
//! gives up what was under way where an event is lost, and takes the thread up again at the next thing the user said.

use super::dir::SessionDir;
use super::error::Fault;
use super::rows::{self, Sheet};
use super::schema::{self, MIGRATIONS};
use super::wal;
use crate::store::{Salvage, StoreError};
use piton_core::event::{Event, Record};
use piton_core::ids::{Seq, SessionId};
use rusqlite::{Connection, OptionalExtension};
use std::fs;
use std::path::Path;

/// So many places without an event, one after the other, are the end where nothing says where it is.
const PATIENCE: u64 = 10_000;

/// Reads what can be read, by way of a copy in `scratch`, a folder of its own that must exist. `None` where not even
/// the folder that the session worked in can be known.
pub(crate) fn salvage(dir: &SessionDir, scratch: &Path) -> Result<Option<Salvage>, StoreError> {
    let db = dir.journal_db();
    let copy = copied(&db, scratch).map_err(|fault| fault.explain(&db, 0))?;
    read(&copy, &dir.blobs()).map_err(|fault| fault.explain(&db, 0))
}

fn copied(db: &Path, scratch: &Path) -> Result<Connection, Fault> {
    let copy = scratch.join("journal.db");
    if db.exists() {
        fs::copy(db, &copy).map_err(Fault::os(db))?;
    }
    let log = db.with_file_name("journal.db-wal");
    if log.exists() {
        fs::copy(&log, scratch.join("journal.db-wal")).map_err(Fault::os(&log))?;
    }
    wal::revive(&copy)?;
    if !copy.exists() {
        return Err(Fault::NotFound);
    }
    let conn = Connection::open(&copy)?;
    conn.execute_batch("PRAGMA mmap_size=0")?;
    Ok(conn)
}

fn read(conn: &Connection, blobs: &Path) -> Result<Option<Salvage>, Fault> {
    if let Ok(found) = conn.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0)) {
        let ours = schema::version(MIGRATIONS);
        if found > ours {
            return Err(Fault::Newer { found, ours });
        }
    }
    let last = last_seq(conn);
    let mut salvage = Salvage { records: Vec::new(), lost: Vec::new(), altered: Vec::new() };
    let mut before = Some([0; 32]);
    let mut seq = 0;
    let mut misses = 0;
    while last.map_or(misses < PATIENCE, |last| seq < last) {
        seq += 1;
        let row = rows::at(conn, seq).ok().flatten();
        let read = row.as_ref().and_then(|(sheet, _)| sheet.read(Some(blobs)).ok());
        if let Some(fault) = row.as_ref().and_then(|(sheet, _)| newer(sheet)) {
            return Err(fault);
        }
        match (read, &row) {
            (Some(record), Some((sheet, stored))) => {
                misses = 0;
                if before.is_some_and(|before| sheet.hash(&before) != *stored) {
                    salvage.altered.push(seq);
                }
                salvage.records.push(record);
            }
            _ => {
                misses += 1;
                salvage.lost.push(seq);
                let at_ms = salvage.records.last().map_or(0, |record| record.at_ms);
                salvage.records.push(Record { seq, at_ms, event: Event::EventLost {} });
            }
        }
        before = row.map(|(_, stored)| stored);
    }
    if last.is_none() {
        let kept = salvage.records.len().saturating_sub(usize::try_from(misses).unwrap_or(usize::MAX));
        salvage.records.truncate(kept);
        salvage.lost.retain(|seq| *seq <= kept as u64);
    }
    Ok(beginning(conn, &mut salvage).then_some(salvage))
}

fn newer(sheet: &Sheet) -> Option<Fault> {
    match sheet.read(None) {
        Err(fault @ Fault::Newer { .. }) => Some(fault),
        Ok(_) | Err(_) => None,
    }
}

/// The position up to which events were written, where that can be known.
fn last_seq(conn: &Connection) -> Option<Seq> {
    let said: Option<Seq> = conn.query_row("SELECT last_seq FROM writer", [], |row| row.get(0)).ok();
    let found: Option<Seq> = conn.query_row("SELECT max(seq) FROM event", [], |row| row.get(0)).ok();
    // A number that is no number of ours is damage as well.
    let may_be = |said: &Seq| found.is_none_or(|found| *said >= found && *said - found <= PATIENCE);
    said.filter(may_be).or(found)
}

/// Whether there is a first event, made again from the tables if need be.
fn beginning(conn: &Connection, salvage: &mut Salvage) -> bool {
    let Some(first) = salvage.records.first_mut() else { return false };
    if matches!(first.event, Event::SessionStarted { .. }) {
        return true;
    }
    let sql = "SELECT id, workspace, version, created_ms FROM session";
    let read = conn.query_row(sql, [], |row| {
        let (id, workspace, version): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((Event::SessionStarted { session: SessionId(id), workspace, version, parent: None }, row.get(3)?))
    });
    match read.optional() {
        Ok(Some((event, at_ms))) => {
            *first = Record { seq: 1, at_ms, event };
            true
        }
        Ok(None) | Err(_) => false,
    }
}
