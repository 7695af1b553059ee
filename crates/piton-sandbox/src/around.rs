//! Files with secrets in the tree of the repository that a workspace is a folder of. The tree is shown, so that git finds what is tracked; what
//! is not tracked and is named like such a file is not for a command in this folder.

use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How far below the top of the tree they are looked for: `.env`, `packages/.env`, `packages/web/.env`.
const DEEPEST: usize = 2;
/// Folders that are looked at. Looking through all of a large tree would hold up every command.
const MOST_FOLDERS: usize = 400;
/// Bytes of an index. Of a larger one nothing is known, and nothing is hidden.
const MOST_INDEX_BYTES: u64 = 32 << 20;
/// Folders that hold what was made or fetched.
const SKIPPED: [&str; 6] = [".git", "node_modules", "target", "vendor", ".venv", "dist"];
/// Names of files with credentials, besides `.env` and `.env.*`.
const NAMES: [&str; 5] = [".envrc", ".netrc", ".pgpass", ".git-credentials", ".vault-token"];
/// Ends of `.env.*` that show what is to be filled in.
const EXAMPLES: [&str; 6] = ["example", "sample", "template", "dist", "defaults", "schema"];

/// Files outside of `workspace`, in the tree at `root`, that are named like files with secrets and not tracked by `index`.
pub(crate) fn untracked_secrets(root: &Path, workspace: &Path, index: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = vec![(root.to_path_buf(), 0)];
    let mut folders = 0;
    while let Some((folder, depth)) = next.pop() {
        folders += 1;
        if folders > MOST_FOLDERS {
            break;
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str() else { continue };
            match entry.file_type() {
                Ok(kind) if kind.is_file() && is_secret(name) => found.push(path),
                Ok(kind) if kind.is_dir() && depth < DEEPEST && !SKIPPED.contains(&name) && path != workspace => {
                    next.insert(0, (path, depth + 1));
                }
                _ => {}
            }
        }
    }
    if found.is_empty() {
        return found;
    }
    // Hidden, a tracked one would be committed as an empty file.
    let Some(index) = Index::read(index) else {
        return Vec::new();
    };
    found.retain(|path| path.strip_prefix(root).is_ok_and(|below| !index.tracks(below)));
    found
}

fn is_secret(name: &str) -> bool {
    match name.strip_prefix(".env") {
        Some("") => true,
        Some(rest) if rest.starts_with('.') => !EXAMPLES.iter().any(|end| rest.ends_with(end)),
        _ => NAMES.contains(&name),
    }
}

/// The names in an index, as the bytes that they stand among.
struct Index(Vec<u8>);

impl Index {
    /// `None` where it cannot be told which names are in it. A repository without one tracks nothing.
    fn read(path: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        match fs::symlink_metadata(path) {
            // A pipe in its place would never end.
            Ok(meta) if meta.is_file() && meta.len() <= MOST_INDEX_BYTES => {
                fs::File::open(path).ok()?.take(MOST_INDEX_BYTES).read_to_end(&mut bytes).ok()?;
            }
            Ok(_) => return None,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(Self(bytes)),
            Err(_) => return None,
        }
        // In the fourth version names are shortened by what the one before has in common, and of a split index some are elsewhere.
        let beside = fs::read_dir(path.parent()?).ok()?.flatten();
        let is_split = beside.into_iter().any(|entry| entry.file_name().as_bytes().starts_with(b"sharedindex."));
        let is_whole = matches!(bytes.get(4..8)?, [0, 0, 0, 2 | 3]) && !is_split;
        is_whole.then_some(Self(bytes))
    }

    /// A name stands behind the last byte of its length, or, where the entry has more flags, behind a zero.
    fn tracks(&self, below: &Path) -> bool {
        let name = below.as_os_str().as_bytes();
        let length = u8::try_from(name.len() & 0xff).unwrap_or_default();
        let entry = |first: u8| [&[first], name, &[0]].concat();
        has(&self.0, &entry(length)) || has(&self.0, &entry(0))
    }
}

fn has(bytes: &[u8], piece: &[u8]) -> bool {
    let Some(first) = piece.first() else {
        return true;
    };
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| byte == first) {
        if bytes[from + at..].starts_with(piece) {
            return true;
        }
        from += at + 1;
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_not_tracked_and_named_so_is_found_outside_of_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in [
            ".env",
            ".env.local",
            ".env.example",
            "tracked/.env",
            "web/.env",
            "web/app/.netrc",
            "web/app/deep/.env",
            "node_modules/.env",
            "own/.env",
            "web/environment",
        ] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "x").unwrap();
        }
        let index = root.join("index");
        let found = |entry: &[u8]| {
            fs::write(&index, entry).unwrap();
            let mut found = untracked_secrets(root, &root.join("own"), &index);
            found.sort();
            found.iter().map(|path| path.strip_prefix(root).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        let expected = [".env", ".env.local", "web/.env", "web/app/.netrc"];
        assert_eq!(found(b"DIRC\0\0\0\x02\0\0\0\x01..\0\x0ctracked/.env\0"), expected, "the end of a name is none");
        let extended = found(b"DIRC\0\0\0\x03\0\0\0\x02..\x40\x0c\x20\0tracked/.env\0..\0\x04.env\0");
        assert_eq!(extended, expected[1..]);
        assert_eq!(found(b"DIRC\0\0\0\x04\0\0\0\x01..."), Vec::<String>::new(), "which are tracked is not known");
        fs::write(root.join("sharedindex.1"), "").unwrap();
        assert_eq!(found(b"DIRC\0\0\0\x02\0\0\0\x01..."), Vec::<String>::new(), "some names are elsewhere");
        fs::remove_file(&index).unwrap();
        assert_eq!(untracked_secrets(root, &root.join("own"), &index).len(), 5, "nothing is tracked yet");
        rustix::fs::mkfifoat(rustix::fs::CWD, &index, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(
            untracked_secrets(root, &root.join("own"), &index),
            Vec::<PathBuf>::new(),
            "nobody waits for a pipe"
        );
    }
}
