//! Resolves the path that a model wrote to a file.

use crate::files::Files;
use piton_core::call::Outcome;
use piton_core::hidden;
use std::path::{Path, PathBuf};

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
    hidden::visible_line(name)
}

/// Names in the folder of a missing file that are much like it, the most similar first.
pub(crate) fn similar_names(path: &Path, files: &dyn Files) -> Vec<String> {
    /// More only distract.
    const MOST: usize = 3;
    /// Below this, names have nothing to do with each other.
    const CUTOFF: f32 = 0.6;
    /// A folder with more is not searched to its end.
    const ENTRIES: usize = 5_000;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy().to_lowercase();
    let names: Vec<String> = files.list(folder, ENTRIES).into_iter().flatten().map(|(name, _)| name).collect();
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
