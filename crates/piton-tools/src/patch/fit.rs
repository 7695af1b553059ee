//! Makes the changes of a patch in the content of one file. Bytes in, bytes out: what a patch does not touch stays as it is,
//! its line ends, a byte order mark and characters that are not UTF-8 included.

use super::parse::{Chunk, Line};

/// A content after a patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// It.
    pub content: Vec<u8>,
    /// What has to be told of the chunks that did not fit as they were written.
    pub told: Vec<Told>,
}

/// How a chunk was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Its number, from 0.
    pub chunk: usize,
    /// The first line of its place in the file as it was, from 1.
    pub line: usize,
    /// What was passed over.
    pub how: How,
}

/// What was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing, but it would fit in more places further down.
    First,
    /// Blanks at the ends of lines.
    LineEnds,
    /// Blanks at both ends of lines.
    Blanks,
    /// And which quotes, dashes and blanks there are.
    Characters,
    /// It is not at the end of the file.
    NotAtEnd,
}

/// A chunk that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// Its number, from 0.
    pub chunk: usize,
    /// Why.
    pub why: WhyUnfit,
}

/// Why a chunk does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyUnfit {
    /// The line that should stand above it does not.
    NoContext(String),
    /// Its lines are not there; on which line they begin above the chunk before, if they are there.
    NoLines(Option<usize>),
    /// They are there only but for blanks, and more than once: on these lines.
    Several(Vec<usize>),
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Makes the changes, each behind the one before it.
pub fn fit(content: &[u8], chunks: &[Chunk]) -> Result<Fitted, Unfit> {
    let (mark, text) = if content.starts_with(BOM) { content.split_at(BOM.len()) } else { (&[][..], content) };
    let file = File::of(text);
    let mut fitted = Fitted { content: mark.to_vec(), told: Vec::new() };
    let (mut done, mut from) = (0, 0);
    for (number, chunk) in chunks.iter().enumerate() {
        let unfit = |why| Unfit { chunk: number, why };
        for context in &chunk.contexts {
            let Some(place) = file.seek(&[context], from).map_err(unfit)? else {
                return Err(unfit(WhyUnfit::NoContext(context.clone())));
            };
            fitted.told.extend(place.how.map(|how| Told { chunk: number, line: place.at + 1, how }));
            from = place.at + 1;
        }
        let place = file.place(chunk, from).map_err(unfit)?;
        fitted.told.extend(place.how.map(|how| Told { chunk: number, line: place.at + 1, how }));
        file.copy(done..place.at, &mut fitted.content);
        let mut at = place.at;
        // The last line of the patch may be an empty one that is not in the file.
        let lines = chunk.lines.iter().take(chunk.lines.len() - usize::from(place.is_shorter));
        for line in lines {
            match line {
                Line::Kept(_) => file.copy(at..at + 1, &mut fitted.content),
                Line::Gone(_) => {}
                Line::New(text) => file.push(text, &mut fitted.content, mark.len()),
            }
            at += usize::from(!matches!(line, Line::New(_)));
        }
        (done, from) = (at, at);
    }
    file.copy(done..file.lines.len(), &mut fitted.content);
    Ok(fitted)
}

/// A file as lines, each with what ends it.
struct File<'f> {
    lines: Vec<(&'f [u8], &'f [u8])>,
    end: &'static [u8],
}

/// Where a chunk goes.
struct Place {
    at: usize,
    how: Option<How>,
    is_shorter: bool,
}

impl<'f> File<'f> {
    fn of(text: &'f [u8]) -> Self {
        let split = |line: &'f [u8]| {
            let end = [&b"\r\n"[..], b"\n"].into_iter().find(|end| line.ends_with(end)).map_or(0, <[u8]>::len);
            line.split_at(line.len() - end)
        };
        let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').map(split).collect();
        let count = |wanted: &[u8]| lines.iter().filter(|(_, end)| *end == wanted).count();
        let end: &[u8] = if count(b"\r\n") > count(b"\n") { b"\r\n" } else { b"\n" };
        Self { lines, end }
    }

    fn copy(&self, lines: std::ops::Range<usize>, to: &mut Vec<u8>) {
        for (text, end) in &self.lines[lines] {
            to.extend_from_slice(text);
            to.extend_from_slice(end);
        }
    }

    /// Adds a line behind what is there, which may have no end yet.
    fn push(&self, text: &str, to: &mut Vec<u8>, mark: usize) {
        if to.len() > mark && to.last() != Some(&b'\n') {
            to.extend_from_slice(self.end);
        }
        to.extend_from_slice(text.as_bytes());
        to.extend_from_slice(self.end);
    }

    fn place(&self, chunk: &Chunk, from: usize) -> Result<Place, WhyUnfit> {
        let mut old = chunk.old();
        if old.is_empty() {
            // Nothing is there to be found: it goes below its context, or to the end.
            let at = if chunk.contexts.is_empty() || chunk.at_end { self.lines.len() } else { from };
            return Ok(Place { at, how: None, is_shorter: false });
        }
        let mut is_shorter = false;
        loop {
            let at_end = self.lines.len().checked_sub(old.len()).filter(|at| chunk.at_end && *at >= from);
            let ends =
                at_end.and_then(|at| PASSES.iter().find(|pass| self.fits(&old, at, **pass)).map(|pass| (at, *pass)));
            if let Some((at, pass)) = ends {
                return Ok(Place { at, how: pass.how(), is_shorter });
            }
            if let Some(found) = self.seek(&old, from)? {
                let how = match (chunk.at_end, found.how) {
                    (true, None | Some(How::First)) => Some(How::NotAtEnd),
                    // Below its context the first is the one that is meant.
                    (_, Some(How::First)) if !chunk.contexts.is_empty() => None,
                    (_, how) => how,
                };
                return Ok(Place { how, is_shorter, ..found });
            }
            let has_empty_end = matches!(chunk.lines.last(), Some(Line::Kept(text)) if text.is_empty());
            if is_shorter || !has_empty_end || old.len() < 2 {
                let above = self.seek(&chunk.old(), 0).ok().flatten().map(|place| place.at + 1);
                return Err(WhyUnfit::NoLines(above));
            }
            old.pop();
            is_shorter = true;
        }
    }

    /// The first place from a line on, in the strictest way that finds one.
    fn seek(&self, old: &[impl AsRef<str>], from: usize) -> Result<Option<Place>, WhyUnfit> {
        /// More only fill the window.
        const SHOWN: usize = 20;
        let last = (self.lines.len() + 1).saturating_sub(old.len());
        for pass in PASSES {
            let mut found = (from..last).filter(|at| self.fits(old, *at, pass));
            let Some(at) = found.next() else { continue };
            let others: Vec<usize> = found.take(SHOWN).collect();
            let how = match (pass, others.is_empty()) {
                (_, true) => pass.how(),
                (Pass::Exact | Pass::LineEnds, false) => Some(How::First),
                (Pass::Blanks | Pass::Characters, false) => {
                    return Err(WhyUnfit::Several([at].into_iter().chain(others).map(|at| at + 1).collect()));
                }
            };
            return Ok(Some(Place { at, how, is_shorter: false }));
        }
        Ok(None)
    }

    fn fits(&self, old: &[impl AsRef<str>], at: usize, pass: Pass) -> bool {
        let lines = self.lines.get(at..at + old.len()).unwrap_or_default();
        !lines.is_empty() && lines.iter().zip(old).all(|((line, _), old)| pass.is_same(line, old.as_ref()))
    }
}

/// How strictly lines are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Exact,
    LineEnds,
    Blanks,
    Characters,
}

const PASSES: [Pass; 4] = [Pass::Exact, Pass::LineEnds, Pass::Blanks, Pass::Characters];

impl Pass {
    fn how(self) -> Option<How> {
        match self {
            Self::Exact => None,
            Self::LineEnds => Some(How::LineEnds),
            Self::Blanks => Some(How::Blanks),
            Self::Characters => Some(How::Characters),
        }
    }

    fn is_same(self, line: &[u8], old: &str) -> bool {
        if self == Self::Exact || line == old.as_bytes() {
            return line == old.as_bytes();
        }
        // What is no text is only found as it is.
        let Ok(line) = std::str::from_utf8(line) else { return false };
        match self {
            Self::Exact => false,
            Self::LineEnds => line.trim_end() == old.trim_end(),
            Self::Blanks => line.trim() == old.trim(),
            Self::Characters => line.trim().chars().map(plain).eq(old.trim().chars().map(plain)),
        }
    }
}

/// The character of a keyboard for one that a text processor puts in its place.
fn plain(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        c => c,
    }
}
