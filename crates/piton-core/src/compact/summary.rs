//! What stands in place of the messages that were summed up. Part of it is Piton's own: the user's words and the files,
//! which no model may forget; the rest is the model's.

use crate::ids::Seq;
use crate::skill::GivenSkill;
use crate::tokens::Family;
use std::fmt::Write;

/// How every summary begins.
pub const MARK: &str = "[This conversation was compacted.";

/// What the model is asked, as the last message of the conversation that it sums up.
pub const INSTRUCTION: &str = "\
The context is nearly full. Write the summary that will stand in place of the conversation above; whoever goes on with \
the work will have it, the newest steps, and nothing else. Call no tools. Write only what is true of the conversation, \
in exactly these sections, and leave out none (write \"none\" where there is nothing):

## Decisions and why
## Files, with line anchors
(path:line of what matters in each file that was read or changed, and what it is)
## Commands that mattered, and their results
## Open todos
## Errors not solved
## Next step

The user's own messages and a list of all files are put in front of it word for word: do not repeat them, but say what \
has been done about them. If the conversation begins with an earlier summary, carry over all of it that still holds. \
Be exact about names, paths, numbers and commands; be brief about everything else.";

/// What stands over the user's words.
const WORDS_TITLE: &str = "## The task, in the user's own words";
/// What stands over the files.
const FILES_TITLE: &str = "## Files so far";

/// The most files that a summary lists.
const MOST_FILES: usize = 150;

/// What was done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileUse {
    /// The newest event about it.
    pub seq: Seq,
    /// Whether it was changed.
    pub changed: bool,
}

/// What Piton itself knows of the messages that were summed up, of all compactions so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dropped {
    /// What the user said, with the event of each.
    pub words: Vec<(Seq, String)>,
    /// The files, by path as the calls named them.
    pub files: Vec<(String, FileUse)>,
    /// Skills that the model was given and that it does not read any more, the newest last.
    pub skills: Vec<GivenSkill>,
    /// The last event that is summed up.
    pub upto: Seq,
}

/// The instruction, and what a person wants the summary to dwell on.
pub fn instruction(focus: Option<&str>) -> String {
    match focus.map(str::trim).filter(|focus| !focus.is_empty()) {
        Some(focus) => format!("{INSTRUCTION}\n\nThe user asks that the summary dwell on this: {focus}"),
        None => INSTRUCTION.to_owned(),
    }
}

/// The model's own part of what it wrote. Some begin with the head of the summary before, as Piton writes it; only Piton
/// has all of what belongs there, so that head is taken off.
pub fn own_words(said: &str) -> &str {
    let said = said.trim();
    if !said.starts_with(MARK) {
        return said;
    }
    let is_own = |line: &str| line.starts_with("## ") && ![WORDS_TITLE, FILES_TITLE].contains(&line.trim_end());
    let mut at = 0;
    for line in said.split_inclusive('\n') {
        if is_own(line) {
            return &said[at..];
        }
        at += line.len();
    }
    // It has no section of its own: at least the mark goes.
    said.split_once(']').map_or("", |(_, rest)| rest.trim())
}

/// The whole summary: Piton's part, and the model's.
pub fn text(dropped: &Dropped, said: &str, words_tokens: u64, family: Family) -> String {
    let upto = dropped.upto;
    let mut text = format!(
        "{MARK} Events 1 to {upto} of its journal are represented by this summary; nothing of them is lost. The \
         `history` tool finds them by words, and reads each by its number.]\n\n{WORDS_TITLE}\n"
    );
    text.push_str(&verbatim(&dropped.words, words_tokens, family));
    if !dropped.files.is_empty() {
        text.push_str(&format!("\n{FILES_TITLE}\n"));
        text.push_str(&files(&dropped.files));
    }
    text.push('\n');
    text.push_str(said.trim());
    text.push('\n');
    text
}

/// What the user said, word for word, as far as the cap allows: the first message and the newest before all others.
/// What is left out is named.
pub fn verbatim(words: &[(Seq, String)], cap_tokens: u64, family: Family) -> String {
    if words.is_empty() {
        return "none\n".to_owned();
    }
    let newest_first = (1..words.len()).rev();
    let (mut left, mut shown) = (cap_tokens, vec![None; words.len()]);
    for place in std::iter::once(0).chain(newest_first) {
        let (seq, said) = &words[place];
        let tokens = family.of_bytes(said.len());
        // No message takes more than half of the room: a log that was pasted must not push the task out.
        let fair = (cap_tokens / 2).min(left);
        if tokens <= fair {
            shown[place] = Some(said.clone());
            left -= tokens;
        } else if fair >= 100 {
            shown[place] = Some(ends(said, fair, family, *seq));
            left -= fair;
        }
    }
    let mut text = String::new();
    let mut missing = Vec::new();
    for ((seq, _), shown) in words.iter().zip(shown) {
        match shown {
            Some(said) => {
                tell_missing(&mut missing, &mut text);
                // A string takes all that is written.
                let _ = writeln!(text, "(event {seq}) {}", said.trim());
            }
            None => missing.push(*seq),
        }
    }
    tell_missing(&mut missing, &mut text);
    text
}

fn tell_missing(missing: &mut Vec<Seq>, text: &mut String) {
    if missing.is_empty() {
        return;
    }
    let numbers: Vec<String> = missing.drain(..).map(|seq| seq.to_string()).collect();
    // A string takes all that is written.
    let _ = writeln!(text, "(left out here, to be read with `history`: events {})", numbers.join(", "));
}

/// Beginning and end of a long message.
fn ends(said: &str, tokens: u64, family: Family, seq: Seq) -> String {
    let bytes = usize::try_from(tokens * 1_000 / family.of_bytes(1_000).max(1)).unwrap_or(usize::MAX);
    let (head, from) = super::prune::ends(said, bytes);
    let left_out = from - head;
    format!(
        "{} […{left_out} bytes left out; `history` with seq {seq} reads all of it…] {}",
        &said[..head],
        &said[from..]
    )
}

fn files(files: &[(String, FileUse)]) -> String {
    let mut newest: Vec<&(String, FileUse)> = files.iter().collect();
    // What was changed matters more than what was only looked at.
    newest.sort_by_key(|(_, used)| std::cmp::Reverse((used.changed, used.seq)));
    let left_out = newest.len().saturating_sub(MOST_FILES);
    let mut text = String::new();
    for (path, used) in newest.into_iter().take(MOST_FILES) {
        let what = if used.changed { "changed" } else { "read" };
        // A string takes all that is written.
        let _ = writeln!(text, "{path} ({what}, event {})", used.seq);
    }
    if left_out > 0 {
        let _ = writeln!(text, "and {left_out} more, to be found with `history`");
    }
    text
}
