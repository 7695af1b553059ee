//! `piton session rm`, `restore`, `trash` and `prune`: what is thrown away lies in the trash until that is emptied.

use super::{find, list, said};
use crate::cli::PruneArgs;
use crate::failure::{Failure, Result};
use crate::out::view;
use crate::surroundings::Surroundings;
use jiff::Zoned;
use piton_core::ids::{SessionId, TimeMs};
use piton_engine::engine::Engine;
use piton_engine::library;
use piton_engine::store::Summary;
use piton_engine::store::sqlite::SessionDir;
use piton_engine::store::sqlite::index::{IndexError, Query};

/// Touched within this span, a session is not pruned unless that is said.
const RECENT: &str = "1d";

/// Moves sessions to the trash.
pub(super) async fn remove(engine: &Engine, ids: &[SessionId]) -> Result<()> {
    for id in ids {
        find::must_be_closed(engine, id).await?;
        for child in engine.subagents(id).await.unwrap_or_default() {
            find::must_be_closed(engine, &child).await?;
        }
        let with = with_subagents(engine.throw_away(id).await?);
        view::write_stderr(&format!("{id}{with} is in the trash; `piton session restore {id}` brings it back\n"));
    }
    Ok(())
}

/// How many sessions of subagents go along with one.
fn with_subagents(count: usize) -> String {
    match count {
        0 => String::new(),
        some => format!(", with {} of its subagents,", view::plural(some as u64, "session")),
    }
}

/// Lists the trash, or empties it.
pub(super) fn trash(engine: &Engine, empty: bool, json: bool) -> Result<()> {
    let index = library::trash(engine)?;
    // Those of subagents are removed with their callers', and not listed beside them.
    let sessions = index.select(&Query { with_children: empty, ..Query::default() })?;
    let damaged: Vec<SessionId> = index.unreadable().iter().map(|(id, _)| id.clone()).collect();
    let bare = library::empty_in_trash(engine);
    if !empty {
        for session in &sessions {
            let line = if json { serde_json::to_string(session)? } else { list::line(session, None, None) };
            view::write_stdout(&format!("{line}\n"));
        }
        damaged.iter().for_each(|id| view::write_stderr(&format!("{id} cannot be read\n")));
        bare.iter().for_each(|id| view::write_stderr(&format!("{id} has no journal\n")));
        return Ok(());
    }
    let ids: Vec<SessionId> = sessions.into_iter().map(|session| session.id).chain(damaged).chain(bare).collect();
    let trash = library::trash_dir(engine);
    let bytes: u64 = ids.iter().map(|id| library::size(&SessionDir::new(&trash, id))).sum();
    for id in &ids {
        library::destroy(engine, id)?;
    }
    let sessions = view::plural(ids.len() as u64, "session");
    view::write_stderr(&format!("{sessions} removed for good, {} freed\n", said::size(bytes)));
    Ok(())
}

/// Brings a session back from the trash.
pub(super) async fn restore(engine: &Engine, name: &str, around: &Surroundings) -> Result<()> {
    let index = library::trash(engine)?;
    let here = around.workspace(None).unwrap_or_default();
    let id = index.named(name, &here).map_err(|error| match error {
        IndexError::TooFew { .. } => Failure::user(format!("the trash has no {name}; `piton session trash` lists it")),
        IndexError::NoSuch { .. } => {
            Failure::user(format!("`{name}` is not in the trash; `piton session trash` lists it"))
        }
        error => find::with_candidates(&index, error),
    })?;
    let with = with_subagents(engine.bring_back(&id).await?);
    view::write_stderr(&format!("{id}{with} is back\n"));
    Ok(())
}

/// Moves to the trash what the rules name.
pub(super) async fn prune(engine: &Engine, args: &PruneArgs, around: &Surroundings) -> Result<u8> {
    let now = Zoned::now();
    let rules = Rules {
        before_ms: args.older_than.as_deref().map(|said| said::before(said, &now)).transpose()?,
        keep: args.keep,
        larger_than: args.larger_than.as_deref().map(said::bytes).transpose()?,
    };
    let recent_since_ms = said::before(RECENT, &now)?;
    let project = list::project(&args.scope, around)?;
    let index = engine.index()?;
    for (id, _) in index.unreadable() {
        view::write_stderr(&format!("{id} cannot be read and stays; `piton session repair` or `rm` is for it\n"));
    }
    let sessions = index.select(&Query { project: project.clone(), ..Query::default() })?;
    let chosen = rules.chosen(sessions, |id| library::size(&engine.session_dir(id)));
    let is_spared = |session: &Summary| session.updated_ms >= recent_since_ms && !args.recent;
    let (spared, chosen): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(session, _)| is_spared(session));
    let (mut moved, mut bytes) = (0, 0);
    for (session, size) in &chosen {
        if engine.store().holder(&session.id).await.is_some() {
            view::write_stderr(&format!("{} is open; it stays\n", session.id));
            continue;
        }
        view::write_stdout(&format!("{}  {:>8}\n", list::line(session, project.as_deref(), None), said::size(*size)));
        if !args.dry_run {
            engine.throw_away(&session.id).await?;
        }
        (moved, bytes) = (moved + 1, bytes + size);
    }
    let (sessions, size) = (view::plural(moved, "session"), said::size(bytes));
    view::write_stderr(&match args.dry_run {
        true => format!("{sessions} ({size}) would go to the trash\n"),
        false => format!("{sessions} ({size}) moved to the trash; `piton session trash --empty` frees the space\n"),
    });
    if !spared.is_empty() {
        let spared = view::plural(spared.len() as u64, "session");
        view::write_stderr(&format!("{spared} of the last day stayed; --recent takes those too\n"));
    }
    Ok(0)
}

/// Which sessions go. Every rule that is said must name one.
struct Rules {
    before_ms: Option<TimeMs>,
    keep: Option<usize>,
    larger_than: Option<u64>,
}

impl Rules {
    /// Those of the sessions, newest first, that go, each with its size.
    fn chosen(&self, sessions: Vec<Summary>, size: impl Fn(&SessionId) -> u64) -> Vec<(Summary, u64)> {
        let beyond = sessions.into_iter().skip(self.keep.unwrap_or_default());
        let old = beyond.filter(|session| self.before_ms.is_none_or(|limit| session.updated_ms < limit));
        let sized = old.map(|session| {
            let size = size(&session.id);
            (session, size)
        });
        sized.filter(|(_, size)| self.larger_than.is_none_or(|most| *size > most)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_engine::store::Activity;

    fn sessions() -> Vec<Summary> {
        let session = |number: u64| Summary {
            id: SessionId(format!("ses_{number}")),
            workspace: "/".into(),
            version: "0".into(),
            title: String::new(),
            model: None,
            created_ms: 0,
            updated_ms: number * 100,
            turns: 1,
            steps: 1,
            cost_micros: None,
            unpriced_calls: 0,
            status: Activity::Idle,
            last_end: None,
            parent: None,
        };
        (1..=5).rev().map(session).collect()
    }

    #[track_caller]
    fn check(rules: &Rules, expected: &[&str]) {
        // The older a session, the larger.
        let size = |id: &SessionId| 10 - id.as_str()[4..].parse::<u64>().expect("a number");
        let chosen = rules.chosen(sessions(), size);
        assert_eq!(chosen.iter().map(|(session, _)| session.id.as_str()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_rule_that_is_said_must_name_a_session() {
        let none = || Rules { before_ms: None, keep: None, larger_than: None };
        check(&Rules { keep: Some(3), ..none() }, &["ses_2", "ses_1"]);
        check(&Rules { before_ms: Some(300), ..none() }, &["ses_2", "ses_1"]);
        check(&Rules { larger_than: Some(7), ..none() }, &["ses_2", "ses_1"]);
        check(&Rules { keep: Some(1), before_ms: Some(400), larger_than: Some(8) }, &["ses_1"]);
    }
}
