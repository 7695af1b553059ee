//! Which session is meant, asked at the terminal: a numbered list, answered with a number or a piece of a title.

use super::list;
use crate::failure::{Result, bail};
use crate::out::view;
use crate::surroundings::{Surroundings, Terminal};
use piton_core::ids::SessionId;
use piton_engine::engine::Engine;
use piton_engine::store::Summary;
use piton_engine::store::sqlite::index::Query;
use std::path::Path;

/// As many as fit on a small terminal.
const SHOWN: usize = 15;

/// Which session to go on with.
pub(crate) fn pick(engine: &Engine, around: &Surroundings, here: &Path) -> Result<SessionId> {
    if !can_ask(around) {
        bail!("which session? Name one: --resume ID, --resume last, or --resume -2 for the one before");
    }
    choose(engine, here, "Continue which session?")
}

/// Whether somebody sits there who can choose.
pub(crate) fn can_ask(around: &Surroundings) -> bool {
    around.person == Some(Terminal::Stdin)
}

/// Asks until one is chosen.
pub(super) fn choose(engine: &Engine, here: &Path, question: &str) -> Result<SessionId> {
    let index = engine.index()?;
    let mut query = Query { project: Some(here.to_owned()), limit: Some(SHOWN), ..Query::default() };
    if index.select(&query)?.is_empty() {
        query.project = None;
    }
    loop {
        let sessions = index.select(&query)?;
        if sessions.is_empty() && query.words.is_empty() {
            bail!("there is no session to choose from");
        }
        view::write_stderr(&menu(&sessions, query.project.as_deref(), view::width(std::io::stderr())));
        view::write_stderr(&format!("{question} A number, words to search for, or q: "));
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

fn menu(sessions: &[Summary], project: Option<&Path>, columns: Option<usize>) -> String {
    /// Columns of the number and what is around it.
    const MARGIN: usize = 5;
    let columns = columns.map(|columns| columns.saturating_sub(MARGIN));
    let entry = |session| list::line(session, project, columns).replace('\n', "\n     ");
    let lines = sessions.iter().zip(1..).map(|(session, number)| format!("{number:>3}  {}\n", entry(session)));
    let list: String = lines.collect();
    if list.is_empty() { "no matching session\n".to_owned() } else { list }
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
