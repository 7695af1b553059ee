//! Which session to go on with, asked at the terminal: a numbered list, answered with a number or a piece of a title.

use super::list;
use crate::surroundings::Surroundings;
use crate::view;
use anyhow::bail;
use piton_core::ids::SessionId;
use piton_engine::engine::Engine;
use piton_engine::index::Query;
use piton_engine::journal::Summary;
use std::path::Path;

/// As many as fit on a small terminal.
const SHOWN: usize = 15;

/// Asks until one is chosen.
pub(crate) fn pick(engine: &Engine, around: &Surroundings, here: &Path) -> anyhow::Result<SessionId> {
    if !around.stdin_is_terminal || !around.stderr_is_terminal {
        bail!("which session? Name one: --resume ID, --resume last, or --resume -2 for the one before");
    }
    let index = engine.index()?;
    let mut query = Query { project: Some(here.to_owned()), limit: Some(SHOWN), ..Query::default() };
    if index.select(&query)?.is_empty() {
        query.project = None;
    }
    loop {
        let sessions = index.select(&query)?;
        if sessions.is_empty() && query.words.is_empty() {
            bail!("there is no session to go on with");
        }
        view::write_stderr(&menu(&sessions, query.project.as_deref()));
        let mut answer = String::new();
        if std::io::stdin().read_line(&mut answer)? == 0 || answer.trim() == "q" {
            bail!("no session was chosen");
        }
        match chosen(answer.trim(), &sessions) {
            Choice::This(id) => return Ok(id),
            Choice::Narrow(words) => query.words = words,
        }
    }
}

/// What an answer means.
#[derive(Debug, PartialEq)]
enum Choice {
    This(SessionId),
    /// Show those in which these words occur; all, if there are none.
    Narrow(Vec<String>),
}

fn chosen(answer: &str, sessions: &[Summary]) -> Choice {
    let place = answer.parse::<usize>().ok().and_then(|number| sessions.get(number.checked_sub(1)?));
    let only = sessions.first().filter(|_| answer.is_empty() && sessions.len() == 1);
    match place.or(only) {
        Some(session) => Choice::This(session.id.clone()),
        None => Choice::Narrow(answer.split_whitespace().map(str::to_owned).collect()),
    }
}

fn menu(sessions: &[Summary], project: Option<&Path>) -> String {
    let lines =
        sessions.iter().zip(1..).map(|(session, number)| format!("{number:>3}  {}\n", list::line(session, project)));
    let list: String = lines.collect();
    let list = if list.is_empty() { "no session fits\n".to_owned() } else { list };
    format!("{list}Go on with which? A number, words to search for, or q: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_number_or_words_to_search_for() {
        let words = |words: &[&str]| Choice::Narrow(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(chosen("fix tests", &[]), words(&["fix", "tests"]));
        assert_eq!(chosen("7", &[]), words(&["7"]), "no seventh session, but perhaps one about 7");
        assert_eq!(chosen("", &[]), words(&[]));
        assert_eq!(chosen("0", &[]), words(&["0"]));
    }
}
