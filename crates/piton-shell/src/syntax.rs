//! What the parser finds: simple commands with their words, each word in pieces. Nothing is decided here.

use crate::reading::{Unknowable, UnknowableKind};
use std::ops::Range;

/// A piece of a word, by what bash still does with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Stands outside of quotes: braces, wildcards and `~` mean something.
    Bare(String),
    /// Was quoted or escaped, and stands for itself.
    Quoted(String),
    /// Is known only when it runs; the source text. Outside of quotes it may become several words, or none.
    Open { text: String, quoted: bool },
}

/// A word as it stands in the source, with its bytes in the text that is parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) span: Range<usize>,
}

impl Word {
    /// The word where it is wholly outside of quotes and has no expansion.
    pub(crate) fn bare(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Bare(text)] => Some(text),
            _ => None,
        }
    }

    /// The word with quotes resolved, where nothing in it is known only when it runs.
    pub(crate) fn literal(&self) -> Option<String> {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Bare(text) | Piece::Quoted(text) => Some(text.as_str()),
                Piece::Open { .. } => None,
            })
            .collect()
    }
}

/// What a redirection does with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    ReadWrite,
    /// `>&2`, `<&-`: a descriptor, or for `>&word` a file.
    Duplicate,
    /// `<<WORD`: the index of its body in [`Found::bodies`].
    HereDocument(usize),
    HereString,
}

/// One redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) direction: Direction,
    pub(crate) target: Word,
    /// Whether it gives the command its standard input.
    pub(crate) input: bool,
}

/// `NAME=value`; of an array, the words of all its elements in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    pub(crate) value: Word,
    /// Whether the value is all that the variable then holds: neither `+=` nor of an array.
    pub(crate) is_plain: bool,
}

/// A simple command, wherever it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) span: Range<usize>,
    pub(crate) text: String,
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirects: Vec<Redirect>,
    /// Whether its standard input is a pipe or a file.
    pub(crate) fed: bool,
    /// Whether it is what the simple command before it writes into, alone and through a pipe.
    pub(crate) piped: bool,
}

/// A name with the place where it was found.
pub(crate) type Named = (String, Range<usize>);

/// All that a text holds.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) simples: Vec<Simple>,
    pub(crate) functions: Vec<Named>,
    /// Variables that get values which are known only when it runs.
    pub(crate) filled: Vec<Named>,
    /// Variables that bash evaluates as arithmetic or follows as references: their values may hold code.
    pub(crate) evaluated: Vec<Named>,
    /// Names that an expansion or arithmetic assigns to.
    pub(crate) set: Vec<Named>,
    /// Variables of loops, with the words that they stand for.
    pub(crate) loops: Vec<(String, Vec<Word>)>,
    /// Here-documents: the text, where nothing in it is known only when it runs.
    pub(crate) bodies: Vec<Option<String>>,
    pub(crate) unknowable: Vec<Unknowable>,
    /// Words, redirections and assignments so far.
    pub(crate) nodes: usize,
}

impl Found {
    /// Notes that something cannot be known.
    pub(crate) fn cannot_know(&mut self, what: UnknowableKind, text: &str, span: Range<usize>) {
        let text = text.chars().take(200).collect();
        self.unknowable.push(Unknowable { what, text, span });
    }
}

/// How long the lists were, to go back to.
#[derive(Debug)]
pub(crate) struct Mark([usize; 7]);

impl Found {
    /// Where the lists end now.
    pub(crate) fn mark(&self) -> Mark {
        Mark([
            self.simples.len(),
            self.functions.len(),
            self.filled.len(),
            self.evaluated.len(),
            self.set.len(),
            self.unknowable.len(),
            self.loops.len(),
        ])
    }

    /// Forgets what was found after `mark`, but not that it cost something.
    pub(crate) fn back_to(&mut self, mark: &Mark) {
        let Mark([simples, functions, filled, evaluated, set, unknowable, loops]) = *mark;
        self.simples.truncate(simples);
        self.functions.truncate(functions);
        self.filled.truncate(filled);
        self.evaluated.truncate(evaluated);
        self.set.truncate(set);
        self.unknowable.truncate(unknowable);
        self.loops.truncate(loops);
    }

    /// Redirections behind a compound command: a part without words.
    pub(crate) fn stand_alone(&mut self, text: &str, span: Range<usize>, redirects: Vec<Redirect>) {
        self.simples.push(Simple {
            span,
            text: text.to_string(),
            assignments: Vec::new(),
            words: Vec::new(),
            redirects,
            fed: false,
            piped: false,
        });
    }
}
