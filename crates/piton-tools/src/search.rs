//! What `grep` and `glob` share: the search root, the plan, and path patterns. How folders are walked is in
//! [`crate::walk`].

use crate::paths;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::ToolContext;
use globset::{GlobBuilder, GlobMatcher};
use piton_core::call::{CallKind, Outcome};
use piton_core::question::QuestionBlock;
use std::io;
use std::path::{Path, PathBuf};

/// Where to search: the workspace, or what the model named.
pub(crate) fn root(tool: &str, raw: Option<&str>, cx: &ToolContext) -> Result<PathBuf, Outcome> {
    let root = match raw.filter(|raw| !raw.trim().is_empty()) {
        Some(raw) => paths::resolve(tool, raw, &cx.workspace)?,
        None => cx.workspace.clone(),
    };
    let failed = |error| {
        Outcome::failed(format!("{tool}: {}: {}", paths::shown(&root, &cx.workspace), io::Error::to_string(&error)))
    };
    // Without `.` and `..` in it, so that what is found reads well; and only what the session's files reach.
    let real = cx.files.real(&root).map_err(failed)?;
    match cx.files.look(&real).map_err(failed)? {
        Some(_) => Ok(real),
        None => Err(failed(io::ErrorKind::NotFound.into())),
    }
}

/// The plan of a search for a pattern.
pub(crate) fn plan(question: &'static str, pattern: String, raw: Option<&str>, look: &Look) -> Plan {
    let root = raw.filter(|raw| !raw.trim().is_empty()).unwrap_or(".");
    let shown = QuestionBlock::Text { text: format!("{pattern} in {}", look.shown(root)) };
    Plan::new(CallKind::Search, pattern, look.read(root), QuestionDraft::new(|| (question.to_owned(), vec![shown])))
}

/// A pattern for paths below a root. Without a slash it is for names at any depth.
pub(crate) struct PathPattern(GlobMatcher);

impl PathPattern {
    pub(crate) fn new(tool: &str, pattern: &str, root: &Path) -> Result<Self, Outcome> {
        let within = Path::new(pattern).strip_prefix(root).ok().and_then(Path::to_str).unwrap_or(pattern);
        let within = within.trim_start_matches("./").trim_start_matches('/');
        let pattern = if within.contains('/') { within.to_owned() } else { format!("**/{within}") };
        let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
        let glob = glob.map_err(|error| Outcome::failed(format!("{tool}: not a valid pattern: {error}")))?;
        Ok(Self(glob.compile_matcher()))
    }

    pub(crate) fn matches(&self, path: &Path, root: &Path) -> bool {
        // A root that is itself the file matches by its name.
        let within = path.strip_prefix(root).ok().filter(|within| !within.as_os_str().is_empty());
        within.or(path.file_name().map(Path::new)).is_some_and(|within| self.0.is_match(within))
    }
}
