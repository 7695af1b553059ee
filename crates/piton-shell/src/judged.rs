//! What a program does with its arguments, whichever table says so.

use crate::expand::Field;
use crate::reading::Effect;

/// What a program does with its arguments.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) effect: Effect,
    pub(crate) risky: Vec<String>,
    pub(crate) reads: Vec<Field>,
    pub(crate) writes: Vec<Field>,
    pub(crate) hosts: Vec<String>,
    pub(crate) code: Option<String>,
    /// How many of `writes` the program makes by its arguments; the rest are redirections.
    pub(crate) own_writes: usize,
    /// Folders of which it opens whatever lies below.
    pub(crate) below: Vec<Under>,
    /// Whether all files that its words name are among `reads` and `writes`.
    pub(crate) knows_files: bool,
    /// Whether it runs a text that only shows when it runs: a line of a file, a field.
    pub(crate) runs_open: bool,
}

/// A folder of which a program opens what lies below it, by the word that names it; see [`crate::reading::Below`].
#[derive(Debug, Clone)]
pub(crate) struct Under {
    pub(crate) folder: Field,
    pub(crate) names: Vec<String>,
    pub(crate) hidden: bool,
}

impl Under {
    /// All that lies there.
    pub(crate) fn all(folder: &Field) -> Self {
        Self { folder: folder.clone(), names: Vec::new(), hidden: true }
    }
}

impl Judged {
    pub(crate) fn of(effect: Effect) -> Self {
        Self {
            effect,
            risky: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            hosts: Vec::new(),
            code: None,
            own_writes: 0,
            below: Vec::new(),
            knows_files: effect != Effect::Unknown,
            runs_open: false,
        }
    }

    /// Notes an option that writes, runs or fetches.
    pub(crate) fn acts(&mut self, word: &str) {
        self.effect = Effect::Changes;
        self.risky.push(word.to_string());
    }

    /// Notes a word that may turn out to be an option which writes, runs or fetches.
    pub(crate) fn may_act(&mut self, word: &str) {
        self.unsure();
        self.risky.push(word.to_string());
    }

    /// Notes an option that is not known.
    pub(crate) fn unsure(&mut self) {
        if self.effect == Effect::ChangesNothing {
            self.effect = Effect::Unknown;
        }
    }
}

/// The host that a word names: of a URL, of `user@host:path`, or the word itself. In small letters, without a last dot.
pub(crate) fn host(word: &str) -> Option<String> {
    let rest = word.split_once("://").map_or(word, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default().trim_end_matches('.');
    (!host.is_empty() && !host.starts_with(['-', '+', '@'])).then(|| host.to_lowercase())
}
