//! From the path a model wrote to the file that is meant.

use piton_core::call::Outcome;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The absolute path of what the model wrote; relative paths begin at the workspace.
pub(crate) fn resolve(tool: &str, raw: &str, workspace: &Path) -> Result<PathBuf, Outcome> {
    if raw.trim().is_empty() {
        return Err(Outcome::failed(format!("{tool}: field `path` is empty")));
    }
    if raw.contains('\0') {
        return Err(Outcome::failed(format!("{tool}: field `path` holds a NUL character, which no path can")));
    }
    Ok(workspace.join(raw))
}

/// The path for people and models: relative where it lies in the workspace.
pub(crate) fn shown(path: &Path, workspace: &Path) -> String {
    let path = match path.strip_prefix(workspace) {
        Ok(inside) if inside.as_os_str().is_empty() => Path::new("."),
        Ok(inside) => inside,
        Err(_) => path,
    };
    clean_name(&path.to_string_lossy())
}

/// A name on one line: a file may be called anything.
pub(crate) fn clean_name(name: &str) -> String {
    name.chars().map(|char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char }).collect()
}

/// The file itself, through all links, whether or not it exists yet: the name by which it is known in the ledger.
pub(crate) fn real(path: &Path) -> io::Result<PathBuf> {
    /// As many links in a row as Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match std::fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return missing(&path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Where a file that does not exist would be: what exists of its path, then the rest.
fn missing(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(last)) = (path.parent(), path.components().next_back()) else {
        return Ok(path.to_path_buf());
    };
    let mut folder = real(parent)?;
    match last {
        Component::Normal(name) => folder.push(name),
        Component::ParentDir => drop(folder.pop()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
    }
    Ok(folder)
}

/// Names in the folder of a missing file that are much like it, the most similar first.
pub(crate) fn similar_names(path: &Path) -> Vec<String> {
    /// More only distract.
    const MOST: usize = 3;
    /// Below this, names have nothing to do with each other.
    const CUTOFF: f32 = 0.6;
    /// A folder with more is not searched to its end.
    const ENTRIES: usize = 5_000;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy().to_lowercase();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES);
    let names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let mut rated: Vec<(f32, &String)> =
        names.iter().map(|other| (likeness(&name, &other.to_lowercase()), other)).collect();
    rated.retain(|(likeness, _)| *likeness >= CUTOFF);
    rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    rated.into_iter().take(MOST).map(|(_, name)| folder.join(name).to_string_lossy().into_owned()).collect()
}

fn likeness(a: &str, b: &str) -> f32 {
    let stem = |name: &str| Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let same_stem = if stem(a) == stem(b) { 0.9 } else { 0.0 };
    crate::diff::likeness(a, b).max(same_stem)
}
