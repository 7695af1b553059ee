//! Reading a session without being its writer: beside a live one, after a dead one, or from a folder that may not be
//! written. A reader sees what is committed and changes nothing.

use super::blobs;
use super::bulk;
use super::dir::SessionDir;
use super::error::{Fault, is_misshapen};
use super::lock;
use super::rows::{self, Head, Sheet};
use super::schema::{self, Found};
use super::wal;
use crate::store::{CheckResult, Flaw, StoreError, Summary};
use piton_core::event::Record;
use piton_core::ids::Seq;
use rusqlite::Connection;
use std::path::Path;

/// A connection to a session's committed events.
#[derive(Debug)]
pub struct Reader {
    dir: SessionDir,
    conn: Connection,
    /// `Unborn` at the time it was opened: the writer may have committed since.
    found: Found,
}

/// All committed events of a session; none, if it has not committed any.
pub fn read_session(dir: &SessionDir) -> Result<Vec<Record>, StoreError> {
    tail(dir, 1)
}

/// The committed events from this position on.
fn tail(dir: &SessionDir, from: Seq) -> Result<Vec<Record>, StoreError> {
    Reader::open(dir)?.read(from, usize::MAX)
}

/// All committed events one by one: a long session is read in little memory. Of what was visited nothing is used.
pub fn each(dir: &SessionDir, mut visit: impl FnMut(&mut Record)) -> Result<(), StoreError> {
    let reader = Reader::open(dir)?;
    let mut read = || match reader.is_unborn()? {
        true => Ok(()),
        false => bulk::each_record(&reader.conn, Some(&reader.dir.blobs()), 1, usize::MAX, &mut visit),
    };
    read().map_err(|fault| reader.explain(fault))
}

/// The committed events of some kinds, in order within each.
pub fn of_kinds(dir: &SessionDir, kinds: &[&str]) -> Result<Vec<Record>, StoreError> {
    let reader = Reader::open(dir)?;
    let read = || {
        let mut records = Vec::new();
        for kind in if reader.is_unborn()? { &[] } else { kinds } {
            records.extend(rows::of_kind(&reader.conn, Some(&reader.dir.blobs()), kind)?);
        }
        Ok(records)
    };
    read().map_err(|fault| reader.explain(fault))
}

/// The session at a glance, from a single row.
pub fn summary(dir: &SessionDir) -> Result<Summary, StoreError> {
    Reader::open(dir)?.summary()
}

/// The session at a glance, and all that the user said in it, for the search in a list.
pub fn summary_and_prompts(dir: &SessionDir) -> Result<(Summary, String), StoreError> {
    let reader = Reader::open(dir)?;
    let summary = reader.summary()?;
    let prompts = super::summary::prompts(&reader.conn).map_err(|fault| reader.explain(fault))?;
    Ok((summary, prompts))
}

/// Checks every event against the chain of hashes, and every blob against its name. Reads everything.
pub fn verify(dir: &SessionDir) -> Result<CheckResult, StoreError> {
    let reader = Reader::open(dir)?;
    reader.verify().map_err(|fault| reader.explain(fault))
}

impl Reader {
    /// Opens a session to read.
    pub fn open(dir: &SessionDir) -> Result<Self, StoreError> {
        let db = dir.journal_db();
        if wal::is_lost(&db) && !lock::is_held(dir) {
            // Where it cannot be, for example in a folder that may not be written, what is wrong with it is said below.
            let _ = wal::revive(&db);
        }
        let (conn, found) = schema::open_to_read(&db).map_err(|fault| fault.explain(&db, 0))?;
        Ok(Self { dir: dir.clone(), conn, found })
    }

    /// At most `max` committed events from this position on.
    pub fn read(&self, from: Seq, max: usize) -> Result<Vec<Record>, StoreError> {
        let unborn = self.found == Found::Unborn && self.is_unborn().map_err(|fault| self.explain(fault))?;
        if unborn {
            return Ok(Vec::new());
        }
        bulk::read(&self.conn, Some(&self.dir.blobs()), from, max).map_err(|fault| self.explain(fault))
    }

    /// The session at a glance.
    pub fn summary(&self) -> Result<Summary, StoreError> {
        let summary = match self.is_unborn() {
            Ok(true) => Err(Fault::NotFound),
            Ok(false) => super::summary::read(&self.conn).and_then(|found| found.ok_or(Fault::NotFound)),
            Err(fault) => Err(fault),
        };
        summary.map_err(|fault| self.explain(fault))
    }

    pub(super) fn is_unborn(&self) -> Result<bool, Fault> {
        schema::is_unborn(&self.conn)
    }

    fn verify(&self) -> Result<CheckResult, Fault> {
        if self.is_unborn()? {
            return Ok(CheckResult::Sound { events: 0 });
        }
        // One transaction: what a live writer adds meanwhile is not judged by half.
        let view = self.conn.unchecked_transaction()?;
        let blobs = self.dir.blobs();
        let mut head = Head::START;
        let mut bad = None;
        let read = rows::each_from(&view, 0, usize::MAX, |sheet, stored| {
            if bad.is_none() {
                match flaw(&sheet, &stored, head, &blobs) {
                    Some((seq, flaw)) => bad = Some(CheckResult::Bad { seq, flaw }),
                    None => head = Head { seq: sheet.seq, hash: stored },
                }
            }
            Ok(())
        });
        match read {
            // Nobody ever wrote such a value.
            Err(Fault::Sqlite(error)) if is_misshapen(&error) => {
                bad = bad.or(Some(CheckResult::Bad { seq: head.seq + 1, flaw: Flaw::Changed }));
            }
            read => read?,
        }
        let last_seq: Seq = view.query_row("SELECT last_seq FROM writer", [], |row| row.get(0))?;
        Ok(match bad {
            Some(verdict) => verdict,
            None if head.seq < last_seq => CheckResult::Bad { seq: head.seq + 1, flaw: Flaw::Missing },
            None if head.seq > last_seq => CheckResult::Bad { seq: last_seq + 1, flaw: Flaw::Changed },
            None => CheckResult::Sound { events: head.seq },
        })
    }

    fn explain(&self, fault: Fault) -> StoreError {
        fault.explain(&self.dir.journal_db(), 0)
    }
}

/// What is wrong with the row behind `head`, and at which position.
fn flaw(sheet: &Sheet, stored: &[u8; 32], head: Head, folder: &Path) -> Option<(Seq, Flaw)> {
    let seq = head.seq + 1;
    if sheet.seq != seq {
        return Some((seq, Flaw::Missing));
    }
    if sheet.hash(&head.hash) != *stored {
        return Some((seq, Flaw::Changed));
    }
    if let Some(name) = sheet.blob() {
        let sound = blobs::get(folder, &name).is_ok_and(|body| blake3::hash(&body).to_hex().as_str() == name);
        if !sound {
            return Some((seq, Flaw::Blob));
        }
    }
    sheet.read(Some(folder)).is_err().then_some((seq, Flaw::Unreadable))
}
