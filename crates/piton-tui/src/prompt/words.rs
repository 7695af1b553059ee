//! Words as readline knows them: letters and digits. A chip is a word of its own.

use super::buffer::Fragment;
use std::ops::Range;

/// How far back the word before the cursor is looked for, in bytes: no name is longer.
const MOST_NAME_BYTES: usize = 4_096;

/// Where the word before this place begins.
pub(super) fn start_before(text: &Fragment, at: usize) -> usize {
    let begin = skip_back(text, at, |text, place| !is_word(text, place));
    if text.chip_before(begin).is_some() {
        return text.previous(begin);
    }
    skip_back(text, begin, |text, place| is_word(text, place) && text.chip_at(place).is_none())
}

/// Where the word behind this place ends.
pub(super) fn end_behind(text: &Fragment, at: usize) -> usize {
    let begin = skip(text, at, |text, place| !is_word(text, place));
    if text.chip_at(begin).is_some() {
        return text.next(begin);
    }
    skip(text, begin, |text, place| is_word(text, place) && text.chip_at(place).is_none())
}

/// Where what stands between the last blank and this place begins.
pub(super) fn blank_before(text: &Fragment, at: usize) -> usize {
    let begin = skip_back(text, at, is_blank);
    skip_back(text, begin, |text, place| !is_blank(text, place))
}

/// The word before this place for completions: back to a blank or a chip.
pub(super) fn name_before(text: &Fragment, at: usize) -> Range<usize> {
    let least = at.saturating_sub(MOST_NAME_BYTES);
    let begin =
        skip_back(text, at, |text, place| place >= least && !is_blank(text, place) && text.chip_at(place).is_none());
    begin..at
}

pub(super) fn is_blank(text: &Fragment, at: usize) -> bool {
    text.chip_at(at).is_none() && text.text()[at..].starts_with(char::is_whitespace)
}

fn is_word(text: &Fragment, at: usize) -> bool {
    text.chip_at(at).is_some() || text.text()[at..].starts_with(char::is_alphanumeric)
}

/// Goes on as long as the character that begins there is of the kind.
pub(super) fn skip(text: &Fragment, mut at: usize, of_kind: impl Fn(&Fragment, usize) -> bool) -> usize {
    while at < text.len() && of_kind(text, at) {
        at = text.next(at);
    }
    at
}

/// Goes back as long as the character before is of the kind.
pub(super) fn skip_back(text: &Fragment, mut at: usize, of_kind: impl Fn(&Fragment, usize) -> bool) -> usize {
    while at > 0 {
        let previous = text.previous(at);
        if !of_kind(text, previous) {
            break;
        }
        at = previous;
    }
    at
}
