//! Every file below a folder, with its hash: what trust in the folder covers. What the folder is for is not known here.
//!
//! A link is covered as a link, by where it leads, and is never followed.

use piton_core::hidden;
use piton_tools::regular;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How much a folder may hold. One with more cannot be covered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Files and links.
    pub(crate) files: usize,
    /// Bytes of all files together.
    pub(crate) bytes: usize,
    /// Folders within folders.
    pub(crate) depth: usize,
}

/// What lies at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A file.
    File {
        /// Its size.
        bytes: usize,
        /// The BLAKE3 hash of what is in it.
        hash: blake3::Hash,
    },
    /// A link, and where it leads.
    Link(PathBuf),
}

/// The files below a folder, by their paths within it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree(BTreeMap<PathBuf, Node>);

impl Tree {
    /// Reads all of a folder but what is `skipped`, which is given paths within the folder.
    pub(crate) fn read(root: &Path, most: Most, skipped: &dyn Fn(&Path) -> bool) -> Result<Self, String> {
        let mut reading = Reading { root, most, bytes: most.bytes, skipped, found: BTreeMap::new() };
        reading.add(root, most.depth)?;
        Ok(Self(reading.found))
    }

    /// What lies at a path within the folder.
    pub(crate) fn get(&self, path: &Path) -> Option<&Node> {
        self.0.get(path)
    }

    /// The sizes of all files together.
    pub(crate) fn bytes(&self) -> usize {
        let sizes = self.0.values().map(|node| if let Node::File { bytes, .. } = node { *bytes } else { 0 });
        sizes.sum()
    }

    /// Everything, by path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_path(), node))
    }

    /// A line for each file. No two folders that differ have the same lines: names are written as Rust writes them.
    pub(crate) fn lines(&self) -> String {
        let mut lines = String::new();
        for (name, node) in &self.0 {
            let _ = match node {
                Node::File { bytes, hash } => writeln!(lines, "file {name:?}, {bytes} bytes, BLAKE3 {}", hash.to_hex()),
                Node::Link(target) => writeln!(lines, "link {name:?} to {target:?}"),
            };
        }
        lines
    }
}

/// A folder while it is read.
struct Reading<'r> {
    root: &'r Path,
    most: Most,
    /// Bytes that may still be read.
    bytes: usize,
    skipped: &'r dyn Fn(&Path) -> bool,
    found: BTreeMap<PathBuf, Node>,
}

impl Reading<'_> {
    fn add(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let shown = |path: &Path| hidden::visible_line(&path.display().to_string());
        let unread = |path: &Path, error: io::Error| format!("{} cannot be read: {error}", shown(path));
        for entry in fs::read_dir(folder).map_err(|error| unread(folder, error))? {
            let entry = entry.map_err(|error| unread(folder, error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| unread(&path, error))?;
            let name = path.strip_prefix(self.root).unwrap_or(&path).to_owned();
            if (self.skipped)(&name) {
                continue;
            }
            if kind.is_dir() {
                let deeper = depth.checked_sub(1).ok_or_else(|| format!("{} lies too deep", shown(&path)))?;
                self.add(&path, deeper)?;
                continue;
            }
            if self.found.len() >= self.most.files {
                return Err(format!("it has more than {} files, so trust cannot cover them", self.most.files));
            }
            let node = match kind.is_symlink() {
                true => Node::Link(fs::read_link(&path).map_err(|error| unread(&path, error))?),
                false => {
                    let bytes = regular::whole(&path, self.bytes).map_err(|error| unread(&path, error))?;
                    self.bytes -= bytes.len();
                    Node::File { bytes: bytes.len(), hash: blake3::hash(&bytes) }
                }
            };
            self.found.insert(name, node);
        }
        Ok(())
    }
}
