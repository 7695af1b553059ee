//! All events of a session, read by one thread and decoded by the others: somebody waits for a long session to open.
//!
//! ```text
//!   this thread:   rows ──► pages of 256 ──┐                 ┌──► visit, in order
//!   the helpers:                           └──► decoded ─────┘
//!                  what was visited goes back with the next page, to be dropped where it was made
//! ```
//!
//! A page is one text with marks in it, so that reading a row costs no allocation. A session of a page or less is
//! decoded where it is read.

use super::error::Fault;
use super::rows;
use piton_core::event::Record;
use piton_core::ids::{Seq, TimeMs};
use rusqlite::{Connection, params};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

/// Rows of a page: enough that passing one on is nothing beside decoding it.
const PAGE_ROWS: usize = 256;
/// Pages that wait at one helper, at most.
const AHEAD: usize = 4;
/// One thread reads, and no more than this decode: SQLite does not keep more of them busy.
const MOST_HELPERS: usize = 3;

/// Some rows as they lie in the database.
#[derive(Default)]
struct Page {
    /// Kind and body of each row, one after the other.
    text: String,
    rows: Vec<Mark>,
}

/// One row of a page.
struct Mark {
    seq: Seq,
    at_ms: TimeMs,
    v: u32,
    /// Where its kind, and its body, end in the text.
    ends: (usize, usize),
}

type Decoded = Result<Vec<Record>, Fault>;

/// A thread that decodes.
struct Helper {
    pages: SyncSender<(Page, Vec<Record>)>,
    decoded: Receiver<Decoded>,
}

/// The pages under way, and who has them.
struct Crew<'v> {
    helpers: Vec<Helper>,
    /// Which helper has the oldest page, the next one, …
    busy: VecDeque<usize>,
    next: usize,
    visited: Vec<Vec<Record>>,
    visit: &'v mut dyn FnMut(&Record),
}

/// At most `max` events from this position on, without a gap, one by one.
pub(super) fn each_record(
    conn: &Connection,
    blobs: Option<&Path>,
    from: Seq,
    max: usize,
    visit: &mut dyn FnMut(&Record),
) -> Result<(), Fault> {
    let sql = "SELECT seq, at_ms, v, kind, body, hash FROM event WHERE seq >= ? ORDER BY seq LIMIT ?";
    let mut statement = conn.prepare_cached(sql)?;
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![from.max(1), limit])?;
    let mut expected = from.max(1);
    let mut page = read_page(&mut rows, &mut expected)?;
    let helpers = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).min(MOST_HELPERS);
    if page.rows.len() < PAGE_ROWS || helpers == 0 {
        while !page.rows.is_empty() {
            page.decode(blobs)?.iter().for_each(&mut *visit);
            page = read_page(&mut rows, &mut expected)?;
        }
        return Ok(());
    }
    std::thread::scope(|scope| {
        let helpers: Vec<Helper> = (0..helpers).map(|_| Helper::start(scope, blobs)).collect();
        let mut crew = Crew { helpers, busy: VecDeque::new(), next: 0, visited: Vec::new(), visit };
        while !page.rows.is_empty() {
            crew.decode(page)?;
            page = read_page(&mut rows, &mut expected)?;
        }
        crew.finish()
    })
}

/// The same, all of them.
pub(super) fn read(conn: &Connection, blobs: Option<&Path>, from: Seq, max: usize) -> Result<Vec<Record>, Fault> {
    let mut records = Vec::new();
    each_record(conn, blobs, from, max, &mut |record| records.push(record.clone()))?;
    Ok(records)
}

fn read_page(rows: &mut rusqlite::Rows<'_>, expected: &mut Seq) -> Result<Page, Fault> {
    let mut page = Page::default();
    while page.rows.len() < PAGE_ROWS
        && let Some(row) = rows.next()?
    {
        let seq: Seq = row.get(0)?;
        if seq != *expected {
            return Err(Fault::damaged(format!("event {expected} is missing")));
        }
        *expected += 1;
        // Whether it fits is for `verify`; a hash it must be.
        let _: [u8; 32] = row.get(5)?;
        let mut add = |column: usize| -> Result<usize, Fault> {
            let text = row.get_ref(column)?.as_str().map_err(|_| Fault::damaged(format!("event {seq} is not text")))?;
            page.text.push_str(text);
            Ok(page.text.len())
        };
        let ends = (add(3)?, add(4)?);
        page.rows.push(Mark { seq, at_ms: row.get(1)?, v: row.get(2)?, ends });
    }
    Ok(page)
}

impl Page {
    fn decode(&self, blobs: Option<&Path>) -> Decoded {
        let mut begin = 0;
        let decoded = self.rows.iter().map(|row| {
            let (kind, body) = (&self.text[begin..row.ends.0], &self.text[row.ends.0..row.ends.1]);
            begin = row.ends.1;
            let event = rows::decode(row.seq, row.v, kind, body, blobs)?;
            Ok(Record { seq: row.seq, at_ms: row.at_ms, event })
        });
        decoded.collect()
    }
}

impl Helper {
    fn start<'s>(scope: &'s Scope<'s, '_>, blobs: Option<&'s Path>) -> Self {
        let (pages, work) = sync_channel::<(Page, Vec<Record>)>(AHEAD);
        let (done, decoded) = sync_channel(AHEAD);
        scope.spawn(move || {
            for (page, visited) in work {
                drop(visited);
                // Nobody waits any more when another page could not be read.
                if done.send(page.decode(blobs)).is_err() {
                    return;
                }
            }
        });
        Self { pages, decoded }
    }
}

impl Crew<'_> {
    fn decode(&mut self, page: Page) -> Result<(), Fault> {
        if self.busy.len() >= self.helpers.len() * AHEAD {
            self.visit_oldest()?;
        }
        let helper = self.next % self.helpers.len();
        let visited = self.visited.pop().unwrap_or_default();
        // A helper ends before its channel does only by a panic, which the scope hands on.
        let _ = self.helpers[helper].pages.send((page, visited));
        self.busy.push_back(helper);
        self.next += 1;
        Ok(())
    }

    fn visit_oldest(&mut self) -> Result<(), Fault> {
        let Some(helper) = self.busy.pop_front() else { return Ok(()) };
        let Ok(decoded) = self.helpers[helper].decoded.recv() else { return Ok(()) };
        let records = decoded?;
        records.iter().for_each(&mut *self.visit);
        self.visited.push(records);
        Ok(())
    }

    fn finish(mut self) -> Result<(), Fault> {
        while !self.busy.is_empty() {
            self.visit_oldest()?;
        }
        Ok(())
    }
}
