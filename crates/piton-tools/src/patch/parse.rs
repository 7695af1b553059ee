//! Reads a patch in the format that models of the GPT and Codex families are trained on (V4A).
//!
//! ```text
//! *** Begin Patch
//! *** Update File: src/a.rs        what is changed, and
//! *** Move to: src/b.rs            perhaps its new name
//! @@ fn f() {                      a line that stands above, where that is needed
//!  kept                            lines begin with a blank, - or +
//! -gone
//! +new
//! *** End of File                  these were the last lines
//! *** Add File: c.rs
//! +its lines
//! *** Delete File: d.rs
//! *** End Patch
//! ```
//!
//! Text in, files out: what is on the disk is not known here.

/// What a patch does to one file. Paths are as the model wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePatch {
    /// Makes a file.
    Add {
        /// The file.
        path: String,
        /// Its content.
        content: String,
    },
    /// Removes a file.
    Delete {
        /// The file.
        path: String,
    },
    /// Changes a file.
    Update {
        /// The file.
        path: String,
        /// Its new name, where it gets one.
        to: Option<String>,
        /// What changes, from the beginning of the file to its end; at least one.
        chunks: Vec<Chunk>,
    },
}

/// A change at one place of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Lines that stand above the place, the outermost first.
    pub contexts: Vec<String>,
    /// The place, and what becomes of it; at least one.
    pub lines: Vec<Line>,
    /// Whether the place is the file's end.
    pub at_end: bool,
}

/// A line of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It stays.
    Kept(String),
    /// It goes.
    Gone(String),
    /// It comes.
    New(String),
}

/// What is wrong with a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPatch {
    /// The line of the patch, from 1.
    pub line: usize,
    /// What is wrong there, as a whole sentence.
    pub what: String,
}

impl FilePatch {
    /// The file that is there before, or is to be there.
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, .. } => path,
        }
    }

    /// The new name of the file.
    pub fn to(&self) -> Option<&str> {
        match self {
            Self::Update { to, .. } => to.as_deref(),
            Self::Add { .. } | Self::Delete { .. } => None,
        }
    }
}

impl Chunk {
    /// The lines that have to be there.
    pub fn old(&self) -> Vec<&str> {
        let old = self.lines.iter().filter_map(|line| match line {
            Line::Kept(text) | Line::Gone(text) => Some(text.as_str()),
            Line::New(_) => None,
        });
        old.collect()
    }
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";
/// Where another agent runs it: there is one place here.
const ENVIRONMENT: &str = "*** Environment ID:";

/// Reads a patch; of a file it may touch several places, and several files.
pub fn parse(text: &str) -> Result<Vec<FilePatch>, BadPatch> {
    let lines: Vec<&str> = unwrapped(text).split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let filled = |line: &&str| !line.trim().is_empty();
    let (first, last) = (lines.iter().position(filled).unwrap_or(0), lines.iter().rposition(filled).unwrap_or(0));
    if lines[first].trim() != BEGIN {
        return Err(bad(first, format!("The first line of a patch is `{BEGIN}`.")));
    }
    if lines[last].trim() != END {
        return Err(bad(last, format!("The last line of a patch is `{END}`.")));
    }
    let mut rest = Rest { lines: &lines[..last], at: first + 1 };
    let mut files = Vec::new();
    while let Some(line) = rest.peek() {
        let header = line.trim();
        let path = |name: &str| header.strip_prefix(name).map(|path| path.trim().to_owned());
        let begins = rest.at;
        rest.at += 1;
        let file = if let Some(path) = path(ADD) {
            FilePatch::Add { path, content: rest.added() }
        } else if let Some(path) = path(DELETE) {
            FilePatch::Delete { path }
        } else if let Some(path) = path(UPDATE) {
            rest.update(path, begins)?
        } else if header.is_empty() || (files.is_empty() && header.starts_with(ENVIRONMENT)) {
            continue;
        } else {
            let what = format!("`{header}` begins no file: that is `{ADD} PATH`, `{DELETE} PATH` or `{UPDATE} PATH`.");
            return Err(bad(begins, what));
        };
        if file.path().is_empty() || file.to() == Some("") {
            return Err(bad(begins, "A path is missing.".to_owned()));
        }
        files.push(file);
    }
    Ok(files)
}

fn bad(at: usize, what: String) -> BadPatch {
    BadPatch { line: at + 1, what }
}

struct Rest<'t> {
    lines: &'t [&'t str],
    at: usize,
}

impl<'t> Rest<'t> {
    fn peek(&self) -> Option<&'t str> {
        self.lines.get(self.at).copied()
    }

    fn added(&mut self) -> String {
        let mut content = String::new();
        while let Some(line) = self.peek().and_then(|line| line.strip_prefix('+')) {
            content.push_str(line);
            content.push('\n');
            self.at += 1;
        }
        content
    }

    fn update(&mut self, path: String, begins: usize) -> Result<FilePatch, BadPatch> {
        let to = self.peek().and_then(|line| line.trim().strip_prefix(MOVE)).map(|path| path.trim().to_owned());
        self.at += usize::from(to.is_some());
        let mut chunks = Vec::new();
        while let Some(line) = self.peek() {
            if line.starts_with("***") {
                break;
            }
            // Between places a line may be empty; within one that is an empty line of the file.
            if line.trim().is_empty() && !chunks.is_empty() {
                self.at += 1;
                continue;
            }
            if !(line.starts_with("@@") || chunks.is_empty()) {
                let what =
                    format!("`{line}` begins no place: each begins with `@@`, each line of it with a blank, - or +.");
                return Err(bad(self.at, what));
            }
            chunks.push(self.chunk()?);
        }
        match chunks.is_empty() {
            true => Err(bad(begins, format!("Nothing is said to change in {path}."))),
            false => Ok(FilePatch::Update { path, to, chunks }),
        }
    }

    fn chunk(&mut self) -> Result<Chunk, BadPatch> {
        let mut chunk = Chunk::default();
        let mut has_bare = false;
        while let Some(context) = self.peek().and_then(|line| line.strip_prefix("@@")) {
            if has_bare {
                break;
            }
            let context = without_numbers(context.strip_prefix(' ').unwrap_or(context));
            has_bare = context.trim().is_empty();
            chunk.contexts.extend((!has_bare).then(|| context.to_owned()));
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                chunk.at_end = true;
                self.at += 1;
                break;
            }
            if line.starts_with("***") || (line.starts_with("@@") && !chunk.lines.is_empty()) {
                break;
            }
            let own = match line.split_at_checked(1) {
                None => Line::Kept(String::new()),
                Some((" ", text)) => Line::Kept(text.to_owned()),
                Some(("-", text)) => Line::Gone(text.to_owned()),
                Some(("+", text)) => Line::New(text.to_owned()),
                _ => {
                    let what = format!(
                        "`{line}` begins neither with a blank (it stays) nor with - (it goes) or + (it comes)."
                    );
                    return Err(bad(self.at, what));
                }
            };
            chunk.lines.push(own);
            self.at += 1;
        }
        // An empty line in front of what comes next is the patch's, not the file's.
        while self.peek().is_none_or(|line| line.starts_with("***")) && is_empty_end(&chunk) {
            chunk.lines.pop();
        }
        match chunk.lines.is_empty() {
            true => Err(bad(self.at, "The place above has no lines.".to_owned())),
            false => Ok(chunk),
        }
    }
}

fn is_empty_end(chunk: &Chunk) -> bool {
    !chunk.at_end && matches!(chunk.lines.last(), Some(Line::Kept(text)) if text.is_empty())
}

/// The context behind the line numbers of another format (`-1,3 +1,4 @@ fn f()`): they are not counted here.
fn without_numbers(context: &str) -> &str {
    let inner = context.trim_start();
    let Some((numbers, context)) = inner.strip_prefix('-').and_then(|rest| rest.split_once("@@")) else {
        return context;
    };
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, ',' | ' ' | '+');
    if numbers.chars().all(is_number) && numbers.contains('+') { context.trim_start() } else { inner }
}

/// The patch itself, where it came as a shell would have it (`apply_patch <<'EOF'`), or between the marks of code.
fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = |rest: &'_ str, end: &str| -> Option<usize> {
        let body = rest.trim_end();
        body.strip_suffix(end).filter(|body| body.ends_with('\n')).map(str::len)
    };
    if let Some((_, rest)) = text.split_once('\n').filter(|(first, _)| first.starts_with("```")) {
        return inner(rest, "```").map_or(text, |end| &rest[..end]);
    }
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let command = first.trim();
    let command = ["apply_patch", "applypatch"].iter().find_map(|name| command.strip_prefix(name)).unwrap_or(command);
    let Some(word) = command.trim().strip_prefix("<<") else { return text };
    let word = word.trim().trim_matches(['\'', '"']);
    inner(rest, word).map_or(text, |end| &rest[..end])
}
