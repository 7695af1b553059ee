//! The walk through the workspace, on a thread of its own.

use super::{MOST_FILES, Names};
use crate::workspace::{entries, name};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Names are handed over when there are so many of them,
const MOST_NAMES: usize = 1_024;
/// or when the first of them has waited so long.
const MOST_WAIT: Duration = Duration::from_millis(10);
/// The names of all files together, in bytes. A hundredth of it is usual.
const MOST_TEXT_BYTES: usize = 1 << 30;

/// Hands over what is below `root` until that is all, there is too much, or nobody takes it any more.
pub(super) fn walk(root: &Path, to: &Sender<Names>) {
    let mut names = Names::default();
    let mut since = Instant::now();
    let mut text_bytes = 0;
    let found = entries(root).filter_map(|entry| name(root, &entry.ok()?));
    for name in found.take(MOST_FILES) {
        text_bytes += name.len();
        if text_bytes > MOST_TEXT_BYTES {
            break;
        }
        names.push(&name);
        if names.ends.len() == MOST_NAMES || since.elapsed() > MOST_WAIT {
            if to.send(std::mem::take(&mut names)).is_err() {
                return;
            }
            since = Instant::now();
        }
    }
    // Whoever does not take the rest does not want it.
    let _ = to.send(names);
}
