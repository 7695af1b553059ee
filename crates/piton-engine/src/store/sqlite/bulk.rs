//! All events of a session, read by one thread and decoded by all: somebody waits for a long session to open.
//!
//! ```text
//!   this thread:   rows ──► pages of 64 ───► queue                     ┌──► visit, in order
//!   the helpers:                               └──► decoded, any order ┘
//! ```
//!
//! This thread decodes too, whenever the page that it needs next is not ready. A page is one text with marks in it, so
//! that reading a row costs no allocation, and is used again; what was visited is dropped by a helper. A session of a page or less is
//! decoded where it is read.

use super::error::Fault;
use super::rows;
use piton_core::event::{Event, Record};
use piton_core::ids::{Seq, TimeMs};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Rows of a page: enough that passing one on is nothing beside decoding it.
const PAGE_ROWS: usize = 64;
/// Pages read ahead of the one that is visited, at most.
const PAGES_AHEAD: usize = 32;
/// One thread reads, and no more than this help it: SQLite does not keep more of them busy.
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

/// Pages that wait to be decoded.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    pages: VecDeque<(usize, Page)>,
    /// What was visited and only has to be dropped.
    visited: Vec<Vec<Record>>,
    /// No more pages will come.
    is_over: bool,
}

/// This thread's end of it.
struct Crew<'v> {
    queue: &'v Queue,
    helpers: usize,
    decoded: Receiver<(usize, Page, Decoded)>,
    /// Decoded before their turn.
    ready: BTreeMap<usize, Decoded>,
    /// Pages to be used again: freeing something large makes the allocator tidy up each time.
    empty: Vec<Page>,
    /// How many pages were handed out, and how many were visited.
    handed_out: usize,
    visited: usize,
    blobs: Option<&'v Path>,
    visit: &'v mut dyn FnMut(&mut Record),
}

/// At most `max` events from this position on, without a gap, one by one. Of a record that was visited nothing is used.
pub(super) fn each_record(
    conn: &Connection,
    blobs: Option<&Path>,
    from: Seq,
    max: usize,
    visit: &mut dyn FnMut(&mut Record),
) -> Result<(), Fault> {
    let sql = "SELECT seq, at_ms, v, kind, body, hash FROM event WHERE seq >= ? ORDER BY seq LIMIT ?";
    let mut statement = conn.prepare_cached(sql)?;
    let limit = i64::try_from(max).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![from.max(1), limit])?;
    let mut expected = from.max(1);
    let mut page = Page::default();
    page.fill(&mut rows, &mut expected)?;
    let helpers = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).min(MOST_HELPERS);
    if page.rows.len() < PAGE_ROWS {
        page.decode(blobs)?.iter_mut().for_each(visit);
        return Ok(());
    }
    let queue = Queue::default();
    std::thread::scope(|scope| {
        let (done, decoded) = channel();
        for _ in 0..helpers {
            let (queue, done) = (&queue, done.clone());
            scope.spawn(move || queue.help(blobs, &done));
        }
        drop(done);
        let (ready, empty) = (BTreeMap::new(), Vec::new());
        let mut crew = Crew { queue: &queue, helpers, decoded, ready, empty, handed_out: 0, visited: 0, blobs, visit };
        while !page.rows.is_empty() {
            crew.hand_out(page)?;
            page = crew.empty.pop().unwrap_or_default();
            page.fill(&mut rows, &mut expected)?;
        }
        crew.finish()
    })
}

/// The same, all of them.
pub(super) fn read(conn: &Connection, blobs: Option<&Path>, from: Seq, max: usize) -> Result<Vec<Record>, Fault> {
    let mut records = Vec::new();
    each_record(conn, blobs, from, max, &mut |record| records.push(kept(record)))?;
    Ok(records)
}

/// A record that was visited, to be kept.
pub(super) fn kept(record: &mut Record) -> Record {
    std::mem::replace(record, Record { seq: 0, at_ms: 0, event: Event::WriterClosed {} })
}

impl Page {
    /// Reads the next rows, in the place of those it had.
    fn fill(&mut self, rows: &mut rusqlite::Rows<'_>, expected: &mut Seq) -> Result<(), Fault> {
        self.text.clear();
        self.rows.clear();
        while self.rows.len() < PAGE_ROWS
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
                let text = row.get_ref(column)?.as_str();
                self.text.push_str(text.map_err(|_| Fault::damaged(format!("event {seq} is not text")))?);
                Ok(self.text.len())
            };
            let ends = (add(3)?, add(4)?);
            self.rows.push(Mark { seq, at_ms: row.get(1)?, v: row.get(2)?, ends });
        }
        Ok(())
    }

    fn decode(&self, blobs: Option<&Path>) -> Decoded {
        let mut begin = 0;
        let mut records = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let (kind, body) = (&self.text[begin..row.ends.0], &self.text[row.ends.0..row.ends.1]);
            begin = row.ends.1;
            let event = rows::decode(row.seq, row.v, kind, body, blobs)?;
            records.push(Record { seq: row.seq, at_ms: row.at_ms, event });
        }
        Ok(records)
    }
}

impl Queue {
    /// Decodes pages until no more will come.
    fn help(&self, blobs: Option<&Path>, done: &Sender<(usize, Page, Decoded)>) {
        loop {
            let mut waiting = self.lock();
            while waiting.pages.is_empty() && !waiting.is_over {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            let visited = std::mem::take(&mut waiting.visited);
            let Some((number, page)) = waiting.pages.pop_front() else { return };
            drop(waiting);
            drop(visited);
            // Nobody waits any more when another page could not be read.
            let decoded = page.decode(blobs);
            if done.send((number, page, decoded)).is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew<'_> {
    fn hand_out(&mut self, page: Page) -> Result<(), Fault> {
        self.queue.lock().pages.push_back((self.handed_out, page));
        self.queue.changed.notify_one();
        self.handed_out += 1;
        if self.handed_out - self.visited > PAGES_AHEAD { self.visit_next() } else { Ok(()) }
    }

    fn visit_next(&mut self) -> Result<(), Fault> {
        let decoded = loop {
            while let Ok((number, page, decoded)) = self.decoded.try_recv() {
                self.keep(number, page, decoded);
            }
            if let Some(decoded) = self.ready.remove(&self.visited) {
                break decoded;
            }
            // Better to decode one here than to wait.
            let page = self.queue.lock().pages.pop_front();
            let (number, page, decoded) = match page {
                Some((number, page)) => {
                    let decoded = page.decode(self.blobs);
                    (number, page, decoded)
                }
                // A helper has it; one that panicked is reported by its panic, which the scope hands on.
                None => self.decoded.recv().map_err(|_| Fault::damaged("its events could not be decoded"))?,
            };
            self.keep(number, page, decoded);
        };
        self.visited += 1;
        let mut records = decoded?;
        records.iter_mut().for_each(&mut *self.visit);
        if self.helpers > 0 {
            self.queue.lock().visited.push(records);
        }
        Ok(())
    }

    fn keep(&mut self, number: usize, page: Page, decoded: Decoded) {
        self.ready.insert(number, decoded);
        self.empty.push(page);
    }

    fn finish(mut self) -> Result<(), Fault> {
        while self.visited < self.handed_out {
            self.visit_next()?;
        }
        Ok(())
    }
}

impl Drop for Crew<'_> {
    /// However it ends, nobody waits for more.
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.changed.notify_all();
    }
}
