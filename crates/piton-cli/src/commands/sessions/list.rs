//! `piton session list`: one line a session, newest first.

use super::said;
use crate::cli::{ListArgs, SessionFilter};
use crate::failure::Result;
use crate::out::print;
use crate::out::report;
use crate::out::view;
use crate::surroundings::Surroundings;
use jiff::Zoned;
use piton_core::budget;
use piton_engine::engine::Engine;
use piton_engine::store::Summary;
use piton_engine::store::sqlite::index::{Index, Query};
use std::path::{Path, PathBuf};

/// Lists sessions.
pub(super) async fn list(engine: &Engine, args: &ListArgs, around: &Surroundings) -> Result<()> {
    let index = engine.index()?;
    for (id, error) in index.unreadable() {
        view::write_stderr(&format!("{id} cannot be read: {error}\n"));
    }
    let project = project(&args.scope, around)?;
    let since_ms = args.since.as_deref().map(|said| said::since(said, &Zoned::now())).transpose()?;
    let words = args.search.iter().flat_map(|said| said.split_whitespace()).map(str::to_owned).collect();
    let query = Query { project, words, since_ms, limit: Some(args.limit), with_children: args.tree };
    let sessions = index.select(&query)?;
    if args.json {
        let lines: Vec<String> = sessions.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        lines.iter().for_each(|line| view::write_stdout(&format!("{line}\n")));
        return Ok(());
    }
    if sessions.is_empty() {
        view::write_stderr(&format!("{}\n", nothing(&index, &query)?));
    }
    let columns = view::width(std::io::stdout());
    let mut lines = String::new();
    for session in &sessions {
        lines.push_str(&live_line(engine, session, query.project.as_deref(), columns).await);
        lines.push('\n');
    }
    view::write_stdout(&lines);
    Ok(())
}

/// The folder whose sessions are meant; `None` for all.
pub(super) fn project(scope: &SessionFilter, around: &Surroundings) -> Result<Option<PathBuf>> {
    match (&scope.project, scope.all) {
        (_, true) => Ok(None),
        // One that is gone may still have sessions.
        (Some(dir), _) if !dir.exists() => Ok(Some(std::path::absolute(dir)?)),
        (dir, _) => Ok(Some(around.workspace(dir.as_deref())?)),
    }
}

/// The same of a session that may be running now.
async fn live_line(engine: &Engine, session: &Summary, project: Option<&Path>, columns: Option<usize>) -> String {
    // Only what has no end can be under way: the lists of thousands look at few locks.
    let runs = session.last_end.is_none() && engine.store().holder(&session.id).await.is_some();
    told(session, project, if runs { "running" } else { UNFINISHED }, columns)
}

/// A session in one line, or several where a terminal has not the columns for it; its folder is named where it is not
/// the one that was asked for.
pub(super) fn line(session: &Summary, project: Option<&Path>, columns: Option<usize>) -> String {
    told(session, project, UNFINISHED, columns)
}

/// Columns that all of an entry but its title needs on one line, and those that a title has room beside it from.
const NARROW: usize = 74;
const WIDE: usize = 110;

/// The word for a session whose last turn has no end.
const UNFINISHED: &str = "unfinished";

fn told(session: &Summary, project: Option<&Path>, endless: &str, columns: Option<usize>) -> String {
    let id = print::short_id(session.id.as_str());
    let when = said::when(session.updated_ms);
    let turns = view::plural(u64::from(session.turns), "turn");
    let least = if session.unpriced_calls > 0 { "≥" } else { "" };
    let cost = session.cost_micros.map(|micros| format!("{least}${}", budget::dollars(micros))).unwrap_or_default();
    let end = session.last_end.map_or(endless.to_owned(), report::word);
    let workspace = Path::new(&session.workspace);
    let folder = match project {
        Some(project) if project == workspace => String::new(),
        _ => format!("{}: ", view::first_line(&workspace.file_name().unwrap_or_default().to_string_lossy())),
    };
    let title =
        if session.title.is_empty() { "(nothing was said)".to_owned() } else { view::first_line(&session.title) };
    let title = format!("{folder}{title}");
    let cells = format!("{end:<12} {turns:>9}  {cost:>8}");
    match columns {
        Some(columns @ ..NARROW) => {
            let cost = if cost.is_empty() { cost } else { format!(", {cost}") };
            let is_tight = columns < id.len() + 2 + when.len();
            let when = if is_tight { when.get("2026-".len()..).unwrap_or_default() } else { &when };
            format!("{id}  {when}\n  {end}, {turns}{cost}\n  {}", view::cut(title, columns.saturating_sub(2)))
        }
        Some(columns @ NARROW..WIDE) => {
            format!("{id}  {when}  {}\n  {}", cells.trim_end(), view::cut(title, columns.saturating_sub(2)))
        }
        Some(_) | None => format!("{id}  {when}  {cells}  {title}"),
    }
}

/// Why there is nothing to list.
fn nothing(index: &Index, query: &Query) -> Result<String> {
    let there_are = index.count()?;
    Ok(match (&query.project, there_are) {
        (_, 0) => "no sessions yet; start one with piton run \"…\"".to_owned(),
        _ if !query.words.is_empty() || query.since_ms.is_some() => "no matching session".to_owned(),
        (Some(project), there_are) => {
            let others = view::plural(there_are as u64, "session");
            format!("no sessions in {}; {others} elsewhere: piton session list --all", project.display())
        }
        (None, _) => "no matching session".to_owned(),
    })
}
