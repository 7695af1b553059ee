//! Walking a workspace as `git` sees it: what `.gitignore` leaves out is left out, `.git` itself too.

use ignore::{Walk, WalkBuilder};
use piton_core::call::Outcome;
use std::path::Path;

/// Every file below a folder that is not ignored, hidden ones included, sorted by name. Links are not followed.
pub(crate) fn walk(root: &Path) -> Walk {
    WalkBuilder::new(root)
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_name(std::cmp::Ord::cmp)
        .build()
}

/// A matcher for a glob, matched against the path below the root; one without a slash matches in any folder.
pub(crate) fn matcher(glob: &str) -> Result<globset::GlobMatcher, Outcome> {
    let anchored = if glob.contains('/') { glob.trim_start_matches("./").to_owned() } else { format!("**/{glob}") };
    let built = globset::GlobBuilder::new(&anchored).literal_separator(true).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| Outcome::failed(format!("not a valid glob: {error}")))
}
