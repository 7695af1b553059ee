//! Reader of git's pack index: which objects a pack has. Git itself reads the objects (see `git`).

use super::object::Oid;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The index of one pack, version 2, with SHA-1 names. Looked up on the disk: it may name millions.
#[derive(Debug)]
pub(super) struct PackIndex {
    /// The index; the pack lies beside it.
    pub(super) path: PathBuf,
    file: File,
    /// How many names begin with at most this byte.
    counts: Vec<u32>,
}

const MAGIC: &[u8; 8] = b"\xfftOc\0\0\0\x02";
const COUNTS: usize = 256 * 4;
const NAME: u64 = 20;

impl PackIndex {
    /// All that are readable in a folder.
    pub(super) fn all_in(folder: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let indexes = paths.filter(|path| path.extension().is_some_and(|extension| extension == "idx"));
        indexes.filter_map(|path| Self::open(&path)).collect()
    }

    /// `None` if this is not the index of a pack that is there, in the one form which is known here.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let mut head = [0; MAGIC.len() + COUNTS];
        file.read_exact_at(&mut head, 0).ok()?;
        let (magic, counts) = head.split_at(MAGIC.len());
        let counts: Vec<u32> =
            counts.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]])).collect();
        // A name, a checksum and a place each; with SHA-256 it would be larger than even all places being long.
        let objects = u64::from(*counts.last()?);
        let (least, bytes) = (head.len() as u64 + 28 * objects + 40, file.metadata().ok()?.len());
        let known = magic == MAGIC && counts.is_sorted() && (least..=least + 8 * objects).contains(&bytes);
        (known && path.with_extension("pack").is_file()).then(|| Self { path: path.to_owned(), file, counts })
    }

    pub(super) fn has(&self, oid: Oid) -> bool {
        let first = usize::from(oid.0[0]);
        let mut low = if first == 0 { 0 } else { self.counts[first - 1] };
        let mut high = self.counts[first];
        while low < high {
            let middle = low + (high - low) / 2;
            let mut name = [0; NAME as usize];
            let place = (MAGIC.len() + COUNTS) as u64 + u64::from(middle) * NAME;
            if self.file.read_exact_at(&mut name, place).is_err() {
                return false;
            }
            match name.cmp(&oid.0) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        false
    }
}
