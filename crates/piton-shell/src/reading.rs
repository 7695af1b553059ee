//! What is said of a command: its parts, and what of it cannot be known.

use crate::interpreters;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A command as it was read. Where `unknowable` is not empty, `parts` may lack something, and no rule may allow the command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The simple commands, in the order in which they stand in the text, those inside of substitutions and code included.
    pub parts: Vec<Part>,
    /// What cannot be known from the text.
    pub unknowable: Vec<Unknowable>,
}

impl Reading {
    /// Whether the whole command is known to change nothing.
    pub fn changes_nothing(&self) -> bool {
        self.unknowable.is_empty() && self.parts.iter().all(|part| part.effect == Effect::ChangesNothing)
    }
}

/// A simple command: one program with its arguments, or a redirection or assignment that stands alone (then without words).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Program and arguments as bash would pass them. A word listed in `unresolved` stands as it is spelled.
    pub words: Vec<String>,
    /// Every name by which the program is known: as written, without its folder, and as [`Programs`](crate::Programs) answers.
    pub names: Vec<String>,
    /// The source text of the simple command that this part comes from.
    pub text: String,
    /// Bytes of `text` in the command. For code inside of a string: of the word that holds it.
    pub span: Range<usize>,
    /// What is known about its effect.
    pub effect: Effect,
    /// Files and folders that it names and reads, as spelled; `src/*` stands for whatever it becomes.
    pub reads: Vec<String>,
    /// Files and folders that it names and writes, redirections included, as spelled.
    pub writes: Vec<String>,
    /// Of `writes`, those that the program makes by its arguments. The others are redirections.
    pub own_writes: Vec<String>,
    /// Files and folders that it may open, as spelled: named by words whose role is not known, or in its code.
    pub may_open: Vec<String>,
    /// Folders of which it opens whatever lies below, as spelled: none of these files is named.
    pub below: Vec<Below>,
    /// Paths that only show when it runs (`$file`, `../*/x`), as spelled.
    pub unresolved_paths: Vec<String>,
    /// Hosts that it names, as spelled, with `:port` where one is given.
    pub hosts: Vec<String>,
    /// Wrappers that were looked through, outermost first, each with its own arguments: `timeout 5`, `sudo -u bob`.
    pub through: Vec<String>,
    /// Words that make the program write, run or fetch something beside what it is for, or run it as somebody else or
    /// elsewhere. A rule allows such a part only where it names each of them literally.
    pub risky: Vec<String>,
    /// Indexes in `words` of those whose text is known only when it runs. Each may be any number of words.
    pub unresolved: Vec<usize>,
    /// Names with a dot, in small letters, anywhere in the whole command: hosts that it may talk to though no table says so. The first
    /// part that does more than to look has them for all.
    pub may_reach: Vec<String>,
    /// Code that the program is given in its arguments: in another language (`awk`, `python -c`), or as a command in an option
    /// (`tar --to-command=…`). A rule looks for the names of denied programs in it ([`Part::mentions`]).
    pub code: Option<String>,
}

/// A folder of which a part opens what lies below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Below {
    /// The folder; it may have wildcards in it, and may turn out to be a file.
    pub folder: String,
    /// What the names of these files are like, where that is known; `*` is any text. None: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether names that begin with a dot are among them.
    pub hidden: bool,
}

impl Part {
    /// Whether the code that the part carries has this program's name as a word.
    pub fn mentions(&self, program: &str) -> bool {
        self.code.as_deref().is_some_and(|code| interpreters::names(code, program))
    }
}

/// What a part is known to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Program and arguments are in the table of those that write nothing, run nothing and fetch nothing.
    ChangesNothing,
    /// It writes, runs or fetches something.
    Changes,
    /// The program, or one of its options, is not in the tables.
    Unknown,
}

impl Effect {
    /// The same, but not known to change nothing.
    pub(crate) fn at_least_unknown(self) -> Self {
        if self == Self::ChangesNothing { Self::Unknown } else { self }
    }
}

/// Something that cannot be known from the text of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknowable {
    /// Why.
    pub what: UnknowableKind,
    /// The place in the source, for people.
    pub text: String,
    /// Its bytes in the command.
    pub span: Range<usize>,
}

/// Why something cannot be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknowableKind {
    /// A variable, substitution or wildcard stands where a program's name is expected, or decides which word that is.
    Program,
    /// Code that comes from a pipe, a file or a value that is made up when it runs.
    Code,
    /// A function or alias takes the name of a known program.
    Shadow,
    /// A variable is set that changes what programs do: `PATH`, `LD_*`, `GIT_*`.
    Environment,
    /// An unknown program has a known one among its first arguments: it may run it.
    Runner,
    /// The text is not UTF-8.
    Encoding,
    /// Characters outside of quotes that a person does not see, or not where they stand.
    Hidden,
    /// It is not the grammar of bash, or a corner of it that is not read here.
    Syntax,
    /// Larger or deeper than is read (see [`limits`](crate::limits)).
    TooLarge,
}
