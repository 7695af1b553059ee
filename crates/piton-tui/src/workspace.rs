//! What of a workspace is looked at for an `@`: its files and folders, without what is hidden or ignored.

use ignore::{DirEntry, Walk, WalkBuilder};
use std::path::Path;

/// Ignore files count in and out of repositories, as they do for the model's tools. The file of git's own settings is
/// left out: to find it the environment would be read.
pub(crate) fn entries(root: &Path) -> Walk {
    let mut walk = WalkBuilder::new(root);
    walk.hidden(false).follow_links(false).require_git(false).git_global(false);
    walk.sort_by_file_name(Ord::cmp);
    walk.filter_entry(|entry| {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        entry.depth() == 0 || !is_hidden || entry.file_name() == ".github"
    });
    walk.build()
}

/// The name below the root, with slashes, a folder with one at its end. One that is not UTF-8 cannot be written in a prompt.
pub(crate) fn name(root: &Path, entry: &DirEntry) -> Option<String> {
    if entry.depth() == 0 {
        return None;
    }
    let mut name = entry.path().strip_prefix(root).ok()?.to_str()?.to_owned();
    if std::path::MAIN_SEPARATOR != '/' {
        name = name.replace(std::path::MAIN_SEPARATOR, "/");
    }
    if entry.file_type().is_some_and(|kind| kind.is_dir()) {
        name.push('/');
    }
    Some(name)
}
