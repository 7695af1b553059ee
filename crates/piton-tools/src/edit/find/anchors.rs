//! Finds a block by its first and last line, where most of what is between them is alike.

use super::lines::{Lines, trim};
use super::{Hit, Miss, Way};
use std::ops::Range;

/// Lines that a text must have to be found this way: what is between anchors decides.
const LEAST_LINES: usize = 3;
/// How alike the lines between the anchors are at least, on average.
const ALIKE: f64 = 0.65;
/// By how much the best must be ahead of the next: less is a guess.
const AHEAD: f64 = 0.1;
/// Blocks that are compared, and first lines that are looked behind; in a file with more, anchors say nothing.
const MOST_BLOCKS: usize = 100;
const MOST_STARTS: usize = 1_000;
/// Bytes of a line that are compared letter by letter.
const MOST_BYTES: usize = 400;
/// Pairs of letters that are compared in all: some tens of milliseconds.
const MOST_PAIRS: usize = 20_000_000;

/// The block that is meant; `None` if there is none.
pub(super) fn find(file: &Lines<'_>, wanted: &Lines<'_>, with_end: bool) -> Option<Result<Hit, Miss>> {
    let height = wanted.len();
    if height < LEAST_LINES {
        return None;
    }
    let (first, last) = (trim(wanted.line(0)), trim(wanted.line(height - 1)));
    if first.is_empty() || last.is_empty() {
        return None;
    }
    let slack = (height / 4).max(1);
    let least = height.saturating_sub(slack).max(LEAST_LINES);
    let starts: Vec<usize> = (0..file.len()).filter(|at| trim(file.line(*at)) == first).take(MOST_STARTS + 1).collect();
    if starts.len() > MOST_STARTS {
        return None;
    }
    let blocks =
        starts.into_iter().flat_map(|start| (start + least - 1..start + height + slack).map(move |end| (start, end)));
    let blocks = blocks.filter(|(_, end)| *end < file.len() && trim(file.line(*end)) == last);
    let blocks: Vec<(usize, usize)> = blocks.take(MOST_BLOCKS + 1).collect();
    let mut pairs = MOST_PAIRS;
    if blocks.len() > MOST_BLOCKS {
        return None;
    }
    let mut rated = Vec::new();
    for (start, end) in blocks {
        let likeness = likeness(file, start..end, wanted, &mut pairs)?;
        if likeness >= ALIKE {
            rated.push((likeness, start, end));
        }
    }
    rated.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let best = rated.first()?.0;
    let mut near: Vec<_> = rated.iter().filter(|(likeness, ..)| best - likeness < AHEAD).collect();
    near.sort_by_key(|(_, start, end)| (*start, *end));
    let mut places: Vec<Range<usize>> = near.iter().map(|(_, start, end)| file.range(*start, *end, with_end)).collect();
    Some(match places.len() {
        1 => Ok(Hit { places: vec![places.remove(0)], way: Way::Anchors }),
        _ => Err(Miss::Several { places, way: Way::Anchors }),
    })
}

/// How alike what is between the anchors is, line by line; `None` if that takes too long to find out.
fn likeness(file: &Lines<'_>, block: Range<usize>, wanted: &Lines<'_>, pairs: &mut usize) -> Option<f64> {
    let (own, theirs) = (block.end - block.start - 1, wanted.len() - 2);
    let rows = own.min(theirs);
    let mut sum = 0.0;
    for row in 0..rows {
        sum += line_likeness(trim(file.line(block.start + 1 + row)), trim(wanted.line(1 + row)), pairs)?;
    }
    // Lines that one of them lacks are unlike.
    Some(sum / own.max(theirs) as f64)
}

/// 1 for the same, 0 for nothing in common.
fn line_likeness(a: &[u8], b: &[u8], pairs: &mut usize) -> Option<f64> {
    if a == b {
        return Some(1.0);
    }
    let longest = a.len().max(b.len());
    if longest > MOST_BYTES {
        return Some(0.0);
    }
    *pairs = pairs.checked_sub(a.len() * b.len())?;
    let letters = |line| String::from_utf8_lossy(line).chars().collect::<Vec<char>>();
    let (a, b) = (letters(a), letters(b));
    Some(1.0 - distance(&a, &b) as f64 / a.len().max(b.len()) as f64)
}

/// How many letters have to be changed, added or removed to make one of the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (number, letter) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], number + 1);
        for (at, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[b.len()]
}
