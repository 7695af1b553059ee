//! What a bash command would do, read from its text: its simple commands wherever they stand, the files and hosts they name,
//! whether they are known to change nothing, and what of it cannot be known.
//!
//! Permission rules are judged against this and not against the text. It runs nothing, reads no file and no environment;
//! which program stands behind a name, and the value of a few variables, is answered by a port ([`Programs`]). [`read`] is total: any text is answered, in a
//! time that its length bounds ([`limits`]), and a text that is not understood to its end is said to be unknowable.
//!
//! ```text
//! text ──parse──► simple commands ──expand──► arguments ──judge──► parts
//!                  (syntax)         (braces)       │ ▲
//!                                                  ▼ │ code in strings, commands of wrappers
//!                                          tables: wrappers, shells, harmless, git, special
//! ```
//!
//! Three things hold, and are tested:
//! - A command that bash would run is among the parts, or the reading is unknowable. What is not understood is never skipped.
//! - A part [changes nothing](Effect::ChangesNothing) only where its program *and* each of its options are in a table.
//! - A word that is known only when it runs is marked. It never allows anything, and a `deny` takes it for anything.
//!
//! Why the grammar is read here and not by `tree-sitter-bash`: docs/decisions/0018-shell.md.

pub mod limits;
mod reading;
mod programs;
mod interpreters;
mod pattern;
mod spelling;
mod flags;
mod syntax;
mod hidden;
mod parse;
mod expand;
mod options;
mod wrappers;
mod shells;
mod judged;
mod git;
mod sed;
mod awk;
mod sqlite;
mod special;
mod arguments;
mod harmless;
mod below;
mod listing;
mod environment;
mod variables;
mod places;
mod mentions;
mod judge;

pub use hidden::is_invisible;
pub use interpreters::names as names_program;
pub use pattern::{CommandPattern, PatternError};
pub use programs::{ByName, Programs};
pub use reading::{Below, Effect, Part, Reading, Unknowable, UnknowableKind};

/// Reads `command` as `bash -c` would run it. Never panics, and takes a time that is bounded by its length.
pub fn read(command: &str, programs: &dyn Programs) -> Reading {
    let whole = |what| {
        let text = command.chars().take(200).collect();
        Reading { parts: Vec::new(), unknowable: vec![Unknowable { what, text, span: 0..command.len() }] }
    };
    if command.len() > limits::MOST_BYTES {
        return whole(UnknowableKind::TooLarge);
    }
    if command.contains('\0') {
        return whole(UnknowableKind::Encoding);
    }
    let mut judge = judge::Judge::new(programs);
    judge.code(command, parse::Place { within: None, depth: 0, fed: false });
    judge.finish()
}
