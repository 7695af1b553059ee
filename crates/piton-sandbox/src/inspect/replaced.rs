//! What was mounted so that a command could not change it, and was replaced by a program outside while it ran: by git, or by an editor
//! that writes a new file. The kernel takes the mount away with the old file, so the command can change the new one.
//!
//! Nobody can tell who wrote what is there now. Of a configuration of git stays what stood there before and what is harmless, hooks are
//! moved away, and everything else is told.

use super::{Inspection, MOST_BYTES};
use crate::plan::Plan;
use crate::tables;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What was protected when the command was started.
#[derive(Debug, Default)]
pub(crate) struct Before(HashMap<PathBuf, Was>);

#[derive(Debug)]
struct Was {
    which: Which,
    /// What a small file said.
    text: Option<String>,
}

/// Device and number of a file or folder, and when it was made: a file system gives the number of one that is gone to the next.
type Which = (u64, u64, Option<SystemTime>);

impl Before {
    pub(crate) fn of(plan: &Plan) -> Self {
        let was = |path: &Path| Some((path.to_path_buf(), Was { which: which(path)?, text: small_text(path) }));
        Self(plan.protected().filter_map(was).collect())
    }

    fn text(&self, path: &Path) -> Option<&str> {
        self.0.get(path)?.text.as_deref()
    }

    /// Whether it is another by now; what is gone is none.
    fn is_replaced(&self, path: &Path, plan: &Plan) -> bool {
        let was = self.0.get(path).map(|was| was.which);
        which(path).is_some_and(|now| was != Some(now) || plan.is_other(path))
    }
}

fn which(path: &Path) -> Option<Which> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.created().ok()))
}

fn small_text(path: &Path) -> Option<String> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() < MOST_BYTES);
    let mut text = String::new();
    File::open(path).ok().filter(|_| is_file)?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Why something that git goes by does not stay.
const GOES_BY: &str =
    "git goes by it, and it was replaced by a program outside the sandbox, so that the command could change it";

impl Inspection<'_> {
    /// What git goes by.
    pub(super) fn replaced(&mut self, before: &Before) {
        for (path, below) in self.changed(before) {
            let is_config = ["config", "config.worktree"].iter().any(|name| below.ends_with(name));
            let is_included = self.plan.included(&self.base).contains(&below.as_path());
            let is_gits = tables::GIT.iter().any(|name| below.ends_with(name)) && !below.ends_with("hooks");
            if is_config || is_included {
                self.config_beside(&below, before.text(&path).unwrap_or_default());
            } else if is_editors(&below) {
                // Told in the end, once.
            } else if is_gits {
                self.move_out(&below, GOES_BY);
            } else {
                self.hooks_in(&below);
            }
        }
    }

    /// What editors and other programs go by.
    pub(super) fn tell_replaced(&mut self, before: &Before) {
        for (_, below) in self.changed(before).into_iter().filter(|(_, below)| is_editors(below)) {
            self.said.push(format!(
                "{} was replaced by a program outside the sandbox while the command ran, so that the command could change it. Check it",
                below.display()
            ));
        }
    }

    /// What was replaced, unless it says what it said, and where it lies in what is looked at.
    fn changed(&self, before: &Before) -> Vec<(PathBuf, PathBuf)> {
        let replaced = self.plan.protected().filter(|path| before.is_replaced(path, self.plan));
        let below = replaced.filter_map(|path| Some((path, path.strip_prefix(&self.base).ok()?)));
        let changed = below.filter(|(path, below)| before.text(path).is_none_or(|text| text != self.text(below)));
        changed.map(|(path, below)| (path.to_path_buf(), below.to_path_buf())).collect()
    }
}

fn is_editors(below: &Path) -> bool {
    tables::PROTECTED.iter().chain(tables::PROTECTED_AT_TOP).any(|name| below.ends_with(name))
}
