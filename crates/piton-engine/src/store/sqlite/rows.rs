//! Events as rows: how one is written down, sealed and read back.
//!
//! The body is the event as JSON. One larger than [`INLINE_BYTES`] lies in a blob, and the body is
//! `{"blob":"<blake3>","bytes":n}` instead; an event always has a `type`, so the two cannot be confused. Each row's hash
//! covers the hash before it and the body, hence the blob as well.

use super::blobs;
use super::error::Fault;
use super::quick;
use piton_core::event::{Event, Record, SCHEMA_VERSION};
use piton_core::ids::{Seq, TimeMs};
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Bodies above this many bytes go to a blob: SQLite stays quick with rows of a few pages.
pub(super) const INLINE_BYTES: usize = 64 * 1024;

/// Where the chain of hashes stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The last row; 0 before the first.
    pub(super) seq: Seq,
    pub(super) hash: [u8; 32],
}

impl Head {
    /// Before the first event.
    pub(super) const START: Self = Self { seq: 0, hash: [0; 32] };
}

/// A row without its hash.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) seq: Seq,
    pub(super) epoch: u64,
    pub(super) at_ms: TimeMs,
    pub(super) kind: String,
    pub(super) v: u32,
    pub(super) body: String,
}

/// What the body holds when the event lies in a blob.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BlobRef {
    blob: String,
    bytes: u64,
}

/// Writes an event down; its blob, if it needs one, is durable when this returns. Without a folder everything stays in
/// the body.
pub(super) fn write_down(record: &Record, epoch: u64, blobs: Option<&Path>) -> Result<Sheet, Fault> {
    let json = |error| Fault::damaged(format!("event {} cannot be written as JSON: {error}", record.seq));
    let mut body = serde_json::to_string(&record.event).map_err(json)?;
    if let Some(folder) = blobs.filter(|_| body.len() > INLINE_BYTES) {
        let reference = BlobRef { blob: blobs::put(folder, body.as_bytes())?, bytes: body.len() as u64 };
        body = serde_json::to_string(&reference).map_err(json)?;
    }
    let kind = record.event.kind().to_owned();
    Ok(Sheet { seq: record.seq, epoch, at_ms: record.at_ms, kind, v: record.event.since(), body })
}

/// Adds a row behind `head` and returns the new head.
pub(super) fn insert(conn: &Connection, head: Head, sheet: &Sheet) -> Result<Head, Fault> {
    let hash = sheet.hash(&head.hash);
    let sql = "INSERT INTO event (seq, epoch, at_ms, kind, v, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)";
    conn.prepare_cached(sql)?.execute(params![
        sheet.seq,
        sheet.epoch,
        sheet.at_ms,
        sheet.kind,
        sheet.v,
        sheet.body,
        hash
    ])?;
    Ok(Head { seq: sheet.seq, hash })
}

/// The events of one kind, in order.
pub(super) fn of_kind(conn: &Connection, blobs: Option<&Path>, kind: &str) -> Result<Vec<Record>, Fault> {
    let sql = "SELECT seq, epoch, at_ms, kind, v, body FROM event WHERE kind = ? ORDER BY seq";
    let mut statement = conn.prepare_cached(sql)?;
    let sheets = statement.query_map([kind], Sheet::from_row)?;
    sheets.map(|sheet| sheet?.read(blobs)).collect()
}

/// Walks over the rows from this position on, each with the hash that was stored with it.
pub(super) fn each_from(
    conn: &Connection,
    from: Seq,
    max: usize,
    mut visit: impl FnMut(Sheet, [u8; 32]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let sql = "SELECT seq, epoch, at_ms, kind, v, body, hash FROM event WHERE seq >= ? ORDER BY seq LIMIT ?";
    let mut statement = conn.prepare_cached(sql)?;
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![from, limit])?;
    while let Some(row) = rows.next()? {
        visit(Sheet::from_row(row)?, row.get(6)?)?;
    }
    Ok(())
}

/// One row by its position, with the hash that was stored with it.
pub(super) fn at(conn: &Connection, seq: Seq) -> Result<Option<(Sheet, [u8; 32])>, Fault> {
    let sql = "SELECT seq, epoch, at_ms, kind, v, body, hash FROM event WHERE seq = ?";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([seq])?;
    Ok(rows.next()?.map(|row| Ok::<_, rusqlite::Error>((Sheet::from_row(row)?, row.get(6)?))).transpose()?)
}

/// Where the chain stands in the database.
pub(super) fn head(conn: &Connection) -> Result<Head, Fault> {
    let sql = "SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    match rows.next()? {
        Some(row) => Ok(Head { seq: row.get(0)?, hash: row.get(1)? }),
        None => Ok(Head::START),
    }
}

impl Sheet {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            epoch: row.get(1)?,
            at_ms: row.get(2)?,
            kind: row.get(3)?,
            v: row.get(4)?,
            body: row.get(5)?,
        })
    }

    /// The seal of this row behind the one with hash `before`.
    pub(super) fn hash(&self, before: &[u8; 32]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(before);
        for number in [self.seq, self.epoch, self.at_ms, u64::from(self.v)] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(self.kind.as_bytes());
        hasher.update(self.body.as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// The event of this row, from the body or from its blob.
    pub(super) fn read(&self, blobs: Option<&Path>) -> Result<Record, Fault> {
        let event = decode(self.seq, self.v, &self.kind, &self.body, blobs)?;
        Ok(Record { seq: self.seq, at_ms: self.at_ms, event })
    }

    /// The name of the blob that holds this event, if one does.
    pub(super) fn blob(&self) -> Option<String> {
        blob(&self.body)
    }
}

/// The event that a row holds, from its body or from the blob that this names.
pub(super) fn decode(seq: Seq, v: u32, kind: &str, body: &str, blobs: Option<&Path>) -> Result<Event, Fault> {
    if v > SCHEMA_VERSION {
        return Err(Fault::Newer { found: v, ours: SCHEMA_VERSION });
    }
    let event = match blobs.and_then(|folder| Some((folder, blob(body)?))) {
        Some((folder, name)) => serde_json::from_slice::<Event>(&blobs::get(folder, &name)?),
        None => quick::event(kind, body),
    };
    event.map_err(|error| Fault::damaged(format!("event {seq} is not readable: {error}")))
}

fn blob(body: &str) -> Option<String> {
    let may_be_one = body.starts_with(r#"{"blob":"#);
    let reference: BlobRef = may_be_one.then(|| serde_json::from_str(body).ok())??;
    let is_hash = reference.blob.len() == 64 && reference.blob.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(reference.blob)
}
