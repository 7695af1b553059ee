//! What was changed, file by file and hunk by hunk, on the whole screen: looked through, commented, and taken back one by one.
//! Where the changes come from, and how a file gets back what it had, is not known here.

use crate::blocks;
use crate::diff;
use crate::text;
use crate::theme::Theme;
use ratatui_core::text::{Line, Span};

/// Between which two states the changes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Before and after the last turn.
    Turn,
    /// Before the session's first change and after its last.
    Session,
    /// What git has last, and the folder as it is.
    Git,
    /// Before this turn and after the last one that counts.
    From(u32),
    /// Before and after this turn.
    Of(u32),
}

impl Source {
    /// Those that Tab goes through, in order.
    pub const ALL: [Self; 3] = [Self::Turn, Self::Session, Self::Git];

    fn name(self) -> &'static str {
        match self {
            Self::Turn => "the last turn",
            Self::Session => "the session",
            Self::Git => "against git",
            Self::From(_) => "from that turn on",
            Self::Of(_) => "that turn",
        }
    }

    /// What stands behind `/diff` for it.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Turn => "turn".to_owned(),
            Self::Session => "session".to_owned(),
            Self::Git => "git".to_owned(),
            Self::From(turn) => format!("from {turn}"),
            Self::Of(turn) => format!("turn {turn}"),
        }
    }

    /// The source that these words behind `/diff` mean.
    pub fn of_words(words: &str) -> Option<Self> {
        match words.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] | ["session"] => Some(Self::Session),
            ["turn"] => Some(Self::Turn),
            ["git"] => Some(Self::Git),
            ["turn", number] => number.parse().ok().map(Self::Of),
            ["from", number] => number.parse().ok().map(Self::From),
            _ => None,
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Turn => Self::Session,
            Self::Session => Self::Git,
            Self::Git | Self::From(_) | Self::Of(_) => Self::Turn,
        }
    }
}

/// What was changed in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the workspace.
    pub path: String,
    /// Each hunk of its unified diff, from its `@@` on.
    pub hunks: Vec<String>,
    /// What is to be said of one without hunks: it is binary, or too large.
    pub note: Option<String>,
}

/// What a key came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reviewed {
    /// It means nothing of its own here.
    Not,
    /// It was taken.
    Taken,
    /// The changes between other states are wanted.
    Wanted(Source),
    /// This hunk is to be taken back.
    TakeBack(FileHunk),
    /// Words about this hunk begin the next prompt.
    Comment(String),
    /// It is over.
    Closed,
}

/// A hunk of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHunk {
    /// The file, relative to the workspace.
    pub path: String,
    /// The hunk, from its `@@` on.
    pub hunk: String,
}

/// The changes on the screen.
#[derive(Debug)]
pub(crate) struct Review {
    source: Source,
    files: Vec<FileChange>,
    /// The hunk that keys are about, among all of them.
    at: usize,
    top: usize,
    /// Whether `u` was pressed once for it.
    is_asked: bool,
    /// The row at which each hunk begins, on a screen so wide.
    rows: Vec<Line<'static>>,
    starts: Vec<usize>,
    columns: usize,
    /// Whether before and after stand in one column, however wide the screen is.
    is_one_column: bool,
}

impl Review {
    pub(crate) fn new(source: Source, files: Vec<FileChange>) -> Self {
        let (rows, starts) = (Vec::new(), Vec::new());
        Self { source, files, at: 0, top: 0, is_asked: false, rows, starts, columns: 0, is_one_column: false }
    }

    /// The same place in what is there now.
    pub(crate) fn again(mut self, before: &Self) -> Self {
        self.is_one_column = before.is_one_column;
        if self.source == before.source {
            self.at = before.at.min(self.hunks().count().saturating_sub(1));
            self.top = before.top;
        }
        self
    }

    fn hunks(&self) -> impl Iterator<Item = (&FileChange, &String)> {
        self.files.iter().flat_map(|file| file.hunks.iter().map(move |hunk| (file, hunk)))
    }

    pub(crate) fn source(&self) -> Source {
        self.source
    }

    fn chosen(&self) -> Option<FileHunk> {
        let (file, hunk) = self.hunks().nth(self.at)?;
        Some(FileHunk { path: file.path.clone(), hunk: hunk.clone() })
    }

    /// What a letter does; `high` is how many rows are seen.
    pub(crate) fn press(&mut self, letter: char, high: usize) -> Reviewed {
        let was_asked = std::mem::take(&mut self.is_asked);
        match letter {
            'q' => return Reviewed::Closed,
            '\t' => return Reviewed::Wanted(self.source.next()),
            '1'..='3' => return Reviewed::Wanted(Source::ALL[usize::from(letter as u8 - b'1')]),
            'n' => self.choose(self.at + 1, high),
            'p' | 'N' => self.choose(self.at.saturating_sub(1), high),
            '}' => self.go_to_file(true, high),
            '{' => self.go_to_file(false, high),
            's' => {
                self.is_one_column = !self.is_one_column;
                self.columns = 0;
            }
            'u' => match self.chosen() {
                Some(hunk) if was_asked => return Reviewed::TakeBack(hunk),
                Some(_) => self.is_asked = true,
                None => {}
            },
            'c' => {
                if let Some(hunk) = self.chosen() {
                    let line = blocks::one_line(hunk.hunk.lines().next().unwrap_or_default());
                    return Reviewed::Comment(format!("In {} at {line}: ", hunk.path));
                }
            }
            _ => return Reviewed::Not,
        }
        Reviewed::Taken
    }

    fn choose(&mut self, at: usize, high: usize) {
        self.at = at.min(self.starts.len().saturating_sub(1));
        let start = self.starts.get(self.at).copied().unwrap_or_default();
        if start < self.top || start >= self.top + high {
            self.top = start.saturating_sub(1);
        }
    }

    /// Goes to the first hunk of the next file, or of this one and then of the one before.
    fn go_to_file(&mut self, is_forward: bool, high: usize) {
        let mut firsts = Vec::new();
        let mut count = 0;
        for file in self.files.iter().filter(|file| !file.hunks.is_empty()) {
            firsts.push(count);
            count += file.hunks.len();
        }
        let to = match is_forward {
            true => firsts.into_iter().find(|first| *first > self.at),
            false => firsts.into_iter().rev().find(|first| *first < self.at),
        };
        if let Some(to) = to {
            self.choose(to, high);
            // The name of the file stands above its first hunk.
            self.top = self.starts.get(self.at).copied().unwrap_or_default().saturating_sub(1);
        }
    }

    pub(crate) fn go(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by);
    }

    /// Its rows on a screen of this size, the last of which says what keys do.
    pub(crate) fn screen(&mut self, columns: usize, rows: usize, theme: &Theme) -> Vec<Line<'static>> {
        let (columns, high) = (columns.max(1), rows.max(2) - 1);
        self.lay_out(columns, theme);
        self.top = self.top.min(self.rows.len().saturating_sub(high));
        let mark = self.starts.get(self.at).copied();
        let mut screen: Vec<Line<'static>> = self.rows.iter().skip(self.top).take(high).cloned().collect();
        if let Some(row) = mark.and_then(|mark| screen.get_mut(mark.checked_sub(self.top)?)) {
            let words = format!("▸ {}", row.to_string().trim_start());
            *row = text::fit(&Line::styled(words, theme.chosen), columns);
        }
        screen.resize(high, Line::default());
        let many = blocks::plural(self.hunks().count() as u64, "hunk");
        let foot = match self.is_asked {
            true => "u again: this hunk is taken out of the file · any other key: not".to_owned(),
            false => format!(
                "{} · {many} in {} · n p hunk · {{ }} file · u take back · c comment{} · Tab {} · q",
                self.source.name(),
                blocks::plural(self.files.len() as u64, "file"),
                if columns < diff::SPLIT_COLUMNS { "" } else { " · s columns" },
                self.source.next().name()
            ),
        };
        screen.push(text::fit(&Line::from(Span::styled(foot, theme.chosen)), columns));
        screen
    }

    fn lay_out(&mut self, columns: usize, theme: &Theme) {
        if self.columns == columns {
            return;
        }
        self.columns = columns;
        let (mut rows, mut starts) = (Vec::new(), Vec::new());
        for file in &self.files {
            let (added, removed) = diff::counts(&file.hunks.concat());
            let name = Span::styled(blocks::one_line(&file.path), theme.strong);
            let counts =
                [Span::styled(format!("  +{added}"), theme.added), Span::styled(format!(" −{removed}"), theme.removed)];
            let mut head = vec![name];
            if file.note.is_none() {
                head.extend(counts);
            }
            rows.push(text::fit(&Line::from(head), columns));
            rows.extend(file.note.iter().map(|note| Line::styled(format!("  {}", blocks::one_line(note)), theme.dim)));
            for hunk in &file.hunks {
                starts.push(rows.len());
                let line = blocks::one_line(hunk.lines().next().unwrap_or_default());
                rows.push(text::fit(&Line::styled(format!("  {line}"), theme.dim), columns));
                rows.extend(match self.is_one_column {
                    true => diff::lines(hunk, &file.path, columns, theme),
                    false => diff::split(hunk, &file.path, columns, theme),
                });
            }
            rows.push(Line::default());
        }
        if self.files.is_empty() {
            let words = match self.source {
                Source::Turn => "The last turn changed no file.",
                Source::Session => "The session changed no file.",
                Source::Git => "Nothing differs from the last commit. Files that git does not know are not shown.",
                Source::From(_) | Source::Of(_) => "No file was changed.",
            };
            rows.push(text::fit(&Line::raw(words), columns));
        }
        (self.rows, self.starts) = (rows, starts);
    }

    /// All of it, as lines to be heard.
    pub(crate) fn spoken(&self) -> Vec<String> {
        let mut lines = vec![format!("Changes of {}:", self.source.name())];
        for file in &self.files {
            lines.push(file.path.clone());
            lines.extend(file.note.clone());
            lines.extend(file.hunks.iter().flat_map(|hunk| hunk.lines().map(str::to_owned)));
        }
        lines
    }
}

/// The text of a file without this hunk: what it added is taken out, what it removed is put back. `None` where the file is not as
/// the hunk left it, or the place is not certain.
pub fn without(text: &str, hunk: &str) -> Option<String> {
    let lines = hunk.lines().skip(1).filter(|line| !line.starts_with('\\'));
    let (mut before, mut after) = (String::new(), String::new());
    for line in lines {
        let (sign, words) = line.split_at_checked(1).unwrap_or((" ", ""));
        if sign != "+" {
            before.push_str(words);
            before.push('\n');
        }
        if sign != "-" {
            after.push_str(words);
            after.push('\n');
        }
    }
    // A file may end without a line's end.
    let (text_nl, is_cut) =
        if text.is_empty() || text.ends_with('\n') { (text.to_owned(), false) } else { (format!("{text}\n"), true) };
    if after.is_empty() {
        return (text_nl.is_empty()).then_some(before);
    }
    let at_line_start = |at: usize| at == 0 || text_nl.as_bytes()[at - 1] == b'\n';
    let places: Vec<usize> = text_nl.match_indices(&after).map(|(at, _)| at).filter(|at| at_line_start(*at)).collect();
    let wanted = new_line_of(hunk)?;
    let line_of = |at: usize| text_nl[..at].matches('\n').count() + 1;
    let at = match places.as_slice() {
        [] => return None,
        [only] => *only,
        // The same lines stand in several places: it is the one that the hunk names, or nobody knows.
        many => many.iter().copied().find(|at| line_of(*at) == wanted)?,
    };
    let mut left = format!("{}{before}{}", &text_nl[..at], &text_nl[at + after.len()..]);
    if is_cut && left.ends_with('\n') {
        left.pop();
    }
    Some(left)
}

/// The line at which a hunk stands in the file after it.
fn new_line_of(hunk: &str) -> Option<usize> {
    let new = hunk.split_whitespace().find_map(|word| word.strip_prefix('+'))?;
    new.split(',').next()?.parse().ok()
}

/// The files of a unified diff as git prints it.
pub fn files_of(unified: &str) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    for line in unified.lines() {
        if let Some(rest) = line.strip_prefix("diff --git ") {
            let path = rest.split(" b/").last().unwrap_or(rest).trim_matches('"').to_owned();
            files.push(FileChange { path, hunks: Vec::new(), note: None });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        match file.hunks.last_mut() {
            _ if line.starts_with("@@ ") => file.hunks.push(format!("{line}\n")),
            Some(hunk) => {
                hunk.push_str(line);
                hunk.push('\n');
            }
            None if line.starts_with("Binary files ") => file.note = Some("a binary file".to_owned()),
            None => {}
        }
    }
    files
}

/// The hunks of a unified diff without file names.
pub fn hunks_of(unified: &str) -> Vec<String> {
    let mut hunks: Vec<String> = Vec::new();
    for line in unified.lines() {
        if line.starts_with("@@ ") {
            hunks.push(String::new());
        }
        if let Some(hunk) = hunks.last_mut() {
            hunk.push_str(line);
            hunk.push('\n');
        }
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUNK: &str = "@@ -1,3 +1,3 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n \n";

    #[test]
    fn a_hunk_is_taken_out_of_a_file_that_is_as_it_left_it() {
        let now = "def add(a, b):\n    return a + b\n\nmore\n";
        assert_eq!(without(now, HUNK).as_deref(), Some("def add(a, b):\n    return a - b\n\nmore\n"));
        assert_eq!(without("def add(a, b):\n    return b + a\n\n", HUNK), None, "somebody changed it since");
        let moved = format!("# a line\n# another\n{now}");
        assert_eq!(without(&moved, HUNK), Some(moved.replace("a + b", "a - b")), "lines above it do not matter");
    }

    #[test]
    fn where_the_same_lines_stand_twice_the_hunks_own_place_counts() {
        let hunk = "@@ -3,1 +3,2 @@\n x\n+y\n";
        assert_eq!(without("x\ny\nx\ny\n", hunk).as_deref(), Some("x\ny\nx\n"));
        assert_eq!(without("0\n0\n0\nx\ny\nx\ny\n", hunk), None, "which of the two is not known");
    }

    #[test]
    fn a_new_file_and_one_without_a_last_line_end() {
        assert_eq!(without("a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n").as_deref(), Some(""));
        assert_eq!(
            without("a\nc", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n").as_deref(),
            Some("a\nb")
        );
        assert_eq!(without("", "@@ -1,1 +0,0 @@\n-a\n").as_deref(), Some("a\n"), "an empty file gets it back");
    }

    #[test]
    fn what_git_prints_is_read_file_by_file() {
        let unified = "diff --git a/a b b/a b\nindex 1..2 100644\n--- a/a b\n+++ b/a b\n@@ -1 +1 @@\n-x\n+y\n@@ -9 +9 @@\n-z\n+w\n\
                       diff --git a/p.png b/p.png\nBinary files a/p.png and b/p.png differ\n";
        let files = files_of(unified);
        assert_eq!((files[0].path.as_str(), files[0].hunks.len()), ("a b", 2));
        assert_eq!(files[0].hunks[1], "@@ -9 +9 @@\n-z\n+w\n");
        assert_eq!((files[1].path.as_str(), files[1].note.as_deref()), ("p.png", Some("a binary file")));
    }

    #[test]
    fn a_wide_screen_shows_before_and_after_side_by_side_and_braces_go_from_file_to_file() {
        let file = |path: &str| FileChange { path: path.into(), hunks: vec![HUNK.into(), HUNK.into()], note: None };
        let files = vec![file("one.py"), FileChange { hunks: Vec::new(), ..file("empty") }, file("two.py")];
        let mut review = Review::new(Source::Session, files);
        let shows_both = |review: &mut Review, columns: usize| {
            let rows = review.screen(columns, 40, &Theme::none());
            assert!(rows.iter().all(|row| text::line_width(row) <= columns));
            rows.iter().any(|row| row.to_string().contains("a - b") && row.to_string().contains("a + b"))
        };
        assert!(!shows_both(&mut review, 139));
        assert!(shows_both(&mut review, 140));
        review.press('s', 39);
        assert!(!shows_both(&mut review, 140), "one column copies better");
        let mut at = |keys: &str| {
            keys.chars().for_each(|key| drop(review.press(key, 39)));
            review.at
        };
        assert_eq!([at("}"), at("}"), at("n"), at("{"), at("{"), at("{")], [2, 2, 3, 2, 0, 0]);
        assert_eq!(Source::of_words(&Source::From(3).words()), Some(Source::From(3)));
        assert_eq!(Source::of_words("turn 3"), Some(Source::Of(3)));
        assert_eq!(Source::of_words("turn x"), None);
    }

    #[test]
    fn a_hunk_is_taken_back_by_two_presses_and_commented_by_one() {
        let file = FileChange { path: "calc.py".into(), hunks: vec![HUNK.into(), HUNK.into()], note: None };
        let mut review = Review::new(Source::Turn, vec![file]);
        review.screen(80, 20, &Theme::none());
        assert_eq!(review.press('u', 19), Reviewed::Taken);
        assert_eq!(review.press('x', 19), Reviewed::Not, "another key: not");
        assert_eq!(review.press('u', 19), Reviewed::Taken);
        let hunk = FileHunk { path: "calc.py".into(), hunk: HUNK.into() };
        assert_eq!(review.press('u', 19), Reviewed::TakeBack(hunk));
        review.press('n', 19);
        assert_eq!(review.at, 1);
        assert_eq!(review.press('c', 19), Reviewed::Comment("In calc.py at @@ -1,3 +1,3 @@: ".to_owned()));
        assert_eq!(review.press('\t', 19), Reviewed::Wanted(Source::Session));
        assert_eq!(review.press('3', 19), Reviewed::Wanted(Source::Git));
    }
}
