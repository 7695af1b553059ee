//! Printing, and text as it may be printed: nothing else in this crate writes to standard output or standard error.

use piton_core::hidden;
use piton_engine::assemble::Notice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use unicode_width::UnicodeWidthStr;

/// Characters of a line that says what something is about.
const GIST_CHARS: usize = 72;

/// How much of an id is shown: time and some dice, enough to be the only one, and accepted wherever an id is.
const SHORT_ID_BYTES: usize = 20;

/// Columns of a terminal; `None` where it is none, or says nothing.
pub(crate) fn width(terminal: impl AsFd) -> Option<usize> {
    let columns = rustix::termios::tcgetwinsize(terminal).ok()?.ws_col;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// The first line, cut to what a line can hold.
pub(crate) fn first_line(text: &str) -> String {
    shorten(text.lines().next().unwrap_or_default())
}

pub(crate) fn shorten(text: &str) -> String {
    let flat: String = text.chars().map(|c| if "\n\t\r".contains(c) { ' ' } else { c }).collect();
    cut(clean(&flat), GIST_CHARS)
}

/// A line in so many characters; one that is longer ends behind a word, if there is one in its last part.
pub(crate) fn cut(line: String, most: usize) -> String {
    if line.chars().count() <= most {
        return line;
    }
    let kept: String = line.chars().take(most.saturating_sub(1)).collect();
    let is_between = line.chars().nth(kept.chars().count()).is_some_and(char::is_whitespace);
    let word = kept.rfind(char::is_whitespace).filter(|at| !is_between && *at > kept.len() * 2 / 3);
    format!("{}…", kept[..word.unwrap_or(kept.len())].trim_end())
}

/// Text from a model, a tool or a provider as it may be shown: nothing in it moves the cursor, changes a colour, hides or
/// turns the order of letters.
pub(crate) fn clean(text: &str) -> String {
    hidden::visible(text).into_owned()
}

/// A path as it may be shown in a line: a line feed in a name starts no line of its own, and a name is not longer than it
/// is of use.
pub(crate) fn path(path: &Path) -> String {
    hidden::visible_name(&path.to_string_lossy())
}

/// A line of facts in so many columns: it is broken between facts, so that what is copied from it is whole.
pub(crate) fn folded(line: &str, columns: usize) -> String {
    const BETWEEN: &str = " · ";
    let (mut folded, mut used) = (String::new(), 0);
    for fact in with_short_ids(line).split(BETWEEN) {
        let wide = fact.width();
        let fits = used + BETWEEN.width() + wide <= columns;
        let between = if used == 0 {
            ""
        } else if fits {
            BETWEEN
        } else {
            "\n"
        };
        used = if fits { used + between.width() + wide } else { wide };
        folded.push_str(between);
        folded.push_str(fact);
    }
    folded
}

/// `12345` as `12,345`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 step`, `2 steps`.
pub(crate) fn plural(number: u64, word: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {word}{ending}")
}

/// Writes what a person should know to standard error, each thing once.
pub(crate) fn notices(notices: &[Notice]) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    for notice in Notice::merged(notices) {
        let line = clean(&notice.to_string());
        if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone()) {
            write_stderr(&format!("{}\n", wrapped(&format!("note: {line}"))));
        }
    }
}

/// Lines in the columns of the terminal behind standard error, broken between words; what goes on is moved to the right. As they
/// are where there is no terminal.
pub(crate) fn wrapped(text: &str) -> String {
    let text = with_short_ids(text);
    width(std::io::stderr()).map_or_else(|| text.to_string(), |columns| broken(&text, columns))
}

/// Lines of words in so many columns.
fn broken(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        let words = line.trim_start_matches(' ');
        let own = line.len() - words.len();
        let (mut broken, mut used) = (" ".repeat(own), own);
        for (at, word) in words.split(' ').enumerate() {
            // Styles take no columns.
            let wide = anstream::adapter::strip_str(word).to_string().width();
            if at > 0 && used + 1 + wide > columns {
                broken.push('\n');
                broken.push_str(&" ".repeat(own + 2));
                used = own + 2;
            } else if at > 0 {
                broken.push(' ');
                used += 1;
            }
            broken.push_str(word);
            used += wide;
        }
        broken
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Every line moved to the right.
pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// Whether standard output has refused something, other than by going away.
static OUTPUT_WAS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether anything was written to standard output that tells what happened.
static HAS_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Whether anything was written to standard output that tells what happened.
pub(crate) fn has_output() -> bool {
    HAS_OUTPUT.load(Ordering::Relaxed)
}

/// Whether something that was said did not arrive: a full disk behind standard output.
pub(crate) fn output_was_lost() -> bool {
    OUTPUT_WAS_LOST.load(Ordering::Relaxed)
}

/// Writes to standard output at once. A reader that went away is no reason to stop the work.
pub(crate) fn write_stdout(text: &str) {
    HAS_OUTPUT.store(true, Ordering::Relaxed);
    write_preamble(text);
}

/// What was printed while a face has the terminal, as plain text; `None`: it is printed.
static DIVERTED: Mutex<Option<String>> = Mutex::new(None);

/// As long as this lives, what is printed is kept, so that a face can show it; what nobody has shown is printed then.
pub(crate) struct Diverted(());

impl Diverted {
    pub(crate) fn new() -> Self {
        DIVERTED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        Self(())
    }
}

impl Drop for Diverted {
    fn drop(&mut self) {
        let kept = DIVERTED.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|kept| !kept.is_empty()).iter().for_each(|kept| write_stderr(kept));
    }
}

/// Prints again, until this is dropped: somebody else has the terminal.
pub(crate) struct Printing(());

impl Printing {
    pub(crate) fn new() -> Self {
        drop(Diverted(()));
        Self(())
    }
}

impl Drop for Printing {
    fn drop(&mut self) {
        std::mem::forget(Diverted::new());
    }
}

/// The lines that were printed since this was asked last.
pub(crate) fn diverted() -> Vec<String> {
    let mut diverted = DIVERTED.lock().unwrap_or_else(PoisonError::into_inner);
    diverted.as_mut().map(std::mem::take).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Keeps the text, where output is diverted. Whether it is.
fn is_diverted(text: &str) -> bool {
    let mut diverted = DIVERTED.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = diverted.as_mut().map(|kept| kept.push_str(&anstream::adapter::strip_str(text).to_string()));
    kept.is_some()
}

/// Writes to standard output, at once, what comes before anything has happened.
pub(crate) fn write_preamble(text: &str) {
    if is_diverted(text) {
        return;
    }
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => OUTPUT_WAS_LOST.store(true, Ordering::Relaxed),
        Ok(()) | Err(_) => {}
    }
}

/// Writes to standard error at once. Ids of sessions are as long as a person has to type them.
pub(crate) fn write_stderr(text: &str) {
    if is_diverted(&with_short_ids(text)) {
        return;
    }
    let mut err = anstream::stderr().lock();
    drop(err.write_all(with_short_ids(text).as_bytes()).and_then(|()| err.flush()));
}

/// Whether standard error takes bytes, within a moment: a terminal may be there that does not read.
pub(crate) fn is_stderr_read() -> bool {
    /// A terminal that is only slow has read by then.
    const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let errors = std::io::stderr();
    let mut fds = [PollFd::new(&errors, PollFlags::OUT)];
    // An error is no reason to be silent.
    poll(&mut fds, Some(&MOMENT)).map_or(true, |ready| ready > 0)
}

/// The beginning of an id, which names a session.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID_BYTES).unwrap_or(id)
}

/// The text with short ids. Those in paths stay: a path is copied.
fn with_short_ids(text: &str) -> Cow<'_, str> {
    const START: &str = "ses_";
    const LONG: usize = START.len() + 32;
    let mut short = String::new();
    let mut from = 0;
    for (at, _) in text.match_indices(START) {
        let Some(id) = text.get(at..at + LONG) else { continue };
        let is_path = text[..at].ends_with('/') || text[at + LONG..].starts_with('/');
        if at >= from && !is_path && id[START.len()..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
            short.push_str(&text[from..at]);
            short.push_str(short_id(id));
            from = at + LONG;
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    short.push_str(&text[from..]);
    Cow::Owned(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_facts_is_broken_between_them() {
        let line = "fake/m · 4 steps · ses_01a20460013170008da45224c7989a73 · undo with: piton undo";
        let whole = "fake/m · 4 steps · ses_01a2046001317000 · undo with: piton undo";
        assert_eq!(folded(line, whole.width()), whole);
        let broken = "fake/m · 4 steps · ses_01a2046001317000\nundo with: piton undo";
        assert_eq!(folded(line, whole.width() - 1), broken);
        assert_eq!(folded(line, 10), "fake/m\n4 steps\nses_01a2046001317000\nundo with: piton undo");
    }

    #[test]
    fn a_sentence_is_broken_between_words() {
        let said = "  asks for writes a.txt (no rule covers it)\nnote";
        assert_eq!(broken(said, 24), "  asks for writes a.txt\n    (no rule covers it)\nnote");
        assert_eq!(
            broken("\x1b[2mno host\x1b[0m unless", 7),
            "\x1b[2mno host\x1b[0m\n  unless",
            "styles take no columns"
        );
        assert_eq!(broken("a  b", 80), "a  b");
    }

    #[test]
    fn ids_are_short_but_in_paths() {
        let id = "ses_01a20460013170008da45224c7989a73";
        let said = format!("{id} goes on, see /data/sessions/{id}/journal.db and {id}");
        let told = format!("ses_01a2046001317000 goes on, see /data/sessions/{id}/journal.db and ses_01a2046001317000");
        assert_eq!(with_short_ids(&said), told);
        assert_eq!(with_short_ids("ses_X and ses_"), "ses_X and ses_");
    }

    #[test]
    fn a_line_that_is_too_long_ends_behind_a_word() {
        let cut = |text: &str, most| cut(text.to_owned(), most);
        assert_eq!(cut("fix the failing test", 20), "fix the failing test");
        assert_eq!(cut("fix the failing test", 18), "fix the failing…");
        assert_eq!(cut("fix the failing test", 16), "fix the failing…", "it ends there anyway");
        assert_eq!(cut("see /a/path/without/any/end", 12), "see /a/path…", "no word ends near");
    }
}
