//! Paths that a command names, seen from every folder that it may be in.

use crate::expand::Field;
use crate::programs::Programs;

/// How many folders are kept apart. A command that moves more often has paths that cannot be told.
const MOST_FOLDERS: usize = 8;

/// The folders that a command may be in: the one in which it begins (the empty text), and those it moves to. A branch or subshell
/// may be left again, so none is forgotten.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    folders: Vec<String>,
    lost: bool,
}

impl Default for Places {
    fn default() -> Self {
        Self { folders: vec![String::new()], lost: false }
    }
}

impl Places {
    /// The command moves to `target`.
    pub(crate) fn go(&mut self, target: &Field) {
        if target.is_open() || target.text == "-" || self.folders.len() >= MOST_FOLDERS {
            self.lost = true;
            return;
        }
        let moved: Vec<String> = self.folders.iter().map(|folder| join(folder, &target.text, target.home)).collect();
        for folder in moved {
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
        }
    }

    /// Whether the command may be in another folder than that in which it began.
    pub(crate) fn has_moved(&self) -> bool {
        self.folders.len() > 1
    }

    /// Adds what `fields` name to `known`, and to `unresolved` what only shows when it runs.
    pub(crate) fn resolve(&self, fields: &[Field], known: &mut Vec<String>, unresolved: &mut Vec<String>) {
        let own = |field: &&Field| {
            field.text == "-" || field.is_open() && (field.text.starts_with("<(") || field.text.starts_with(">("))
        };
        for field in fields.iter().filter(|field| !own(field)) {
            // `~name` is in another table, `~-` the folder before.
            let is_elsewhere = field.home && !matches!(field.text.split('/').next(), Some("~" | "~+"));
            let place = match field.known {
                _ if is_elsewhere => None,
                // A line of the input may lead anywhere.
                Some(_) if field.is_added => None,
                None => Some(field.text.as_str()),
                Some(_) if field.home && !field.text.starts_with("~/") => None,
                // A pattern stands for itself: rules see what it could become.
                Some(end) if field.only_wildcards => folder_before(&field.text, end).map(|_| field.text.as_str()),
                Some(end) if field.text.ends_with("{}") => folder_before(&field.text, end),
                Some(_) => None,
            };
            let relative = place.is_some_and(|place| !(place.starts_with('/') || field.home && place.starts_with('~')));
            match place {
                Some(place) if !relative || !self.lost => {
                    let all = self.folders.iter().map(|folder| join(folder, place, field.home));
                    for path in all {
                        if !known.contains(&path) {
                            known.push(path);
                        }
                    }
                }
                Some(_) | None => unresolved.push(field.text.clone()),
            }
        }
    }
}

/// The folder in front of the first wildcard; `None` where what follows climbs out again.
fn folder_before(text: &str, end: usize) -> Option<&str> {
    let (front, back) = text.split_at(end);
    if back.contains("/../") || back.ends_with("/..") || back.starts_with('.') {
        return None;
    }
    Some(match front.rfind('/') {
        Some(0) => "/",
        Some(at) => &front[..at],
        None => ".",
    })
}

/// A path without `.`, `..` and doubled slashes, from the root where the folders are known that it begins with.
pub(crate) fn plain(path: &str, programs: &dyn Programs) -> String {
    let whole = match path.strip_prefix("~/") {
        Some(rest) => programs.variable("HOME").map(|home| format!("{home}/{rest}")),
        None if path.starts_with(['/', '~']) => None,
        None => programs.variable("PWD").map(|folder| format!("{folder}/{path}")),
    };
    let whole = whole.as_deref().unwrap_or(path);
    let mut names: Vec<&str> = Vec::new();
    for name in whole.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            ".." if names.last().is_some_and(|last| *last != "..") => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("{}{}", if whole.starts_with('/') { "/" } else { "" }, names.join("/"))
}

fn join(folder: &str, path: &str, home: bool) -> String {
    if let Some(here) = path.strip_prefix("~+").filter(|_| home) {
        return join(folder, &format!(".{here}"), false);
    }
    // A quoted `~` is a file of that name.
    let path = if path.starts_with('~') && !home { format!("./{path}") } else { path.to_string() };
    if folder.is_empty() || path.starts_with('/') || path.starts_with('~') {
        path
    } else {
        format!("{}/{path}", folder.trim_end_matches('/'))
    }
}
