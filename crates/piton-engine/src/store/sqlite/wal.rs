//! SQLite's log as a file, for the one case in which SQLite does not read it: its database was never synced.
//!
//! A new session's first commits are synced in the log alone, since a wait for the disk is all that a person notices of
//! them; the database beside it becomes durable when the log is folded in. A power cut before may leave it empty, or
//! take its name. SQLite would take it for a new database and throw the log away. But a log into which everything since
//! the beginning was written has every page of the database, so a database of one empty page is enough to go on with.

use super::error::Fault;
use super::schema::{SMALLEST_DATABASE, log_of};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The first four bytes; the last bit says in which order the checksums take theirs.
const MAGIC: u32 = 0x377f_0682;
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The smallest page that SQLite knows, and the largest.
const PAGE_BYTES: std::ops::RangeInclusive<usize> = 512..=65_536;

/// Whether there is no database, or none worth the name.
pub(super) fn is_lost(database: &Path) -> bool {
    !fs::metadata(database).is_ok_and(|found| found.len() >= SMALLEST_DATABASE)
}

/// Makes room for a database that a power cut took, or has emptied, where the log beside it has all of it. Otherwise
/// nothing is touched. Only where nobody has the session open: who makes a new one is about to write the database.
pub(super) fn revive(database: &Path) -> Result<(), Fault> {
    if !is_lost(database) {
        return Ok(());
    }
    let Ok(log) = fs::read(log_of(database)) else { return Ok(()) };
    let Some(page_bytes) = page_bytes_if_complete(&log) else { return Ok(()) };
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(database);
    file.and_then(|file| file.set_len(page_bytes as u64)).map_err(Fault::os(database))
}

/// The size of a page, if what was committed to this log is every page of a database.
fn page_bytes_if_complete(log: &[u8]) -> Option<usize> {
    let (header, mut frames) = log.split_at_checked(HEADER_BYTES)?;
    let magic = number(header, 0)?;
    let page_bytes = usize::try_from(number(header, 8)?).ok()?;
    if magic & !1 != MAGIC || !PAGE_BYTES.contains(&page_bytes) {
        return None;
    }
    let mut sum = Sum { is_big_endian: magic & 1 == 1, of: (0, 0) };
    sum.add(&header[..24]);
    if sum.of != (number(header, 24)?, number(header, 28)?) {
        return None;
    }
    let (mut pages, mut complete) = (HashSet::new(), false);
    while let Some((frame, rest)) = frames.split_at_checked(FRAME_HEADER_BYTES + page_bytes) {
        let (about, page) = frame.split_at(FRAME_HEADER_BYTES);
        sum.add(&about[..8]);
        sum.add(page);
        // From the first frame that was not written whole, nothing counts.
        if about[8..16] != header[16..24] || sum.of != (number(about, 16)?, number(about, 20)?) {
            break;
        }
        pages.insert(number(about, 0)?);
        // Only a commit says how many pages the database has.
        let total = number(about, 4)?;
        if total > 0 {
            complete = (1..=total).all(|page| pages.contains(&page));
        }
        frames = rest;
    }
    complete.then_some(page_bytes)
}

/// A checksum as SQLite's logs have it.
struct Sum {
    is_big_endian: bool,
    of: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let word = |four: &[u8]| {
            let four = [four[0], four[1], four[2], four[3]];
            if self.is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
        };
        let (mut one, mut two) = self.of;
        for pair in bytes.chunks_exact(8) {
            one = one.wrapping_add(word(&pair[..4])).wrapping_add(two);
            two = two.wrapping_add(word(&pair[4..])).wrapping_add(one);
        }
        self.of = (one, two);
    }
}

/// A number of the log's own.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
