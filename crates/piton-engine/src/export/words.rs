//! The sentences that every export format and the terminal view share.

use piton_core::call::Outcome;
use piton_core::event::{Direction, Rewind, Touched};

/// With a capital at its beginning.
pub fn sentence(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect()
}

/// What a rewind did, in words.
pub fn rewound(rewind: &Rewind) -> String {
    let done = match rewind.direction {
        Direction::Undo => "taken back",
        Direction::Redo => "brought back",
    };
    match (rewind.to.is_some(), rewind.turns) {
        (true, 1) => format!("the last turn was {done}"),
        (true, turns) => format!("the last {turns} turns were {done}"),
        (false, 1) => format!("the changes to files of the last turn were {done}"),
        (false, turns) => format!("the changes to files of the last {turns} turns were {done}"),
    }
}

/// What became of a rewind that was given up half-way, in words.
pub fn not_rewound(rewind: &Rewind, error: &str, touches: &Touched) -> String {
    let (what, done) = match rewind.direction {
        Direction::Undo => ("an undo", "taken back"),
        Direction::Redo => ("a redo", "brought back"),
    };
    let turns = if rewind.turns == 1 { "turn".to_owned() } else { format!("{} turns", rewind.turns) };
    let more = if touches.more == 0 { String::new() } else { format!(" and {} more", touches.more) };
    let files = match touches.is_empty() {
        true => "The files that it was to change".to_owned(),
        false => format!("These files ({}{more})", touches.paths.join(", ")),
    };
    format!(
        "{what} of the last {turns} was cut off and could not be finished: {error}. The conversation stays. {files} may \
         be half {done}, each as it was before or as it should be"
    )
}

/// A call's outcome in one word, as in the journal.
pub fn status(outcome: Option<&Outcome>) -> String {
    let word = outcome.and_then(|outcome| serde_json::to_value(outcome.status).ok());
    word.as_ref().and_then(|word| word.as_str()).unwrap_or("unknown").to_owned()
}
