//! Text with chips in it, and where its characters begin and end.

use std::ops::Range;
use std::sync::Arc;
use unicode_segmentation::GraphemeCursor;

/// A picture that goes with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The name of its file, or what it is called without one.
    pub name: String,
    /// Such as `image/png`.
    pub media_type: String,
    /// The file as it is.
    pub bytes: Vec<u8>,
}

/// What a label in the text stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chip {
    /// A large paste.
    Paste(String),
    /// A picture, and its number.
    Picture(usize, Picture),
}

/// Where a chip's label stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) range: Range<usize>,
    pub(super) chip: Arc<Chip>,
}

/// Text with chips. A chip's label is part of the text, and one character to everything that moves and deletes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fragment {
    text: String,
    /// In their order; they do not overlap.
    chips: Vec<Placed>,
}

impl Fragment {
    /// Text without chips; its lines end in a line feed.
    pub(super) fn plain(text: &str) -> Self {
        Self { text: with_line_feeds(text), chips: Vec::new() }
    }

    /// One chip.
    pub(super) fn chip(label: String, chip: Chip) -> Self {
        let range = 0..label.len();
        Self { text: label, chips: vec![Placed { range, chip: Arc::new(chip) }] }
    }

    /// The text, with the labels of chips.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn chips(&self) -> &[Placed] {
        &self.chips
    }

    /// How many bytes it keeps alive, chips not counted: they are shared.
    pub(super) fn weight(&self) -> usize {
        self.text.len() + self.chips.len() * size_of::<Placed>()
    }

    /// Adds another one behind it.
    pub(super) fn append(&mut self, other: &Fragment) {
        self.splice(self.len()..self.len(), other);
    }

    /// Puts `new` in the place of a range, which must not cut a chip, and hands back what stood there.
    pub(super) fn splice(&mut self, range: Range<usize>, new: &Fragment) -> Fragment {
        let first = self.chips.partition_point(|placed| placed.range.start < range.start);
        let behind = self.chips.partition_point(|placed| placed.range.end <= range.end).max(first);
        let text = self.text[range.clone()].to_owned();
        let placed = new.chips.iter().map(|placed| placed.shifted(0, range.start));
        let chips: Vec<_> = self.chips.splice(first..behind, placed).collect();
        for placed in &mut self.chips[first + new.chips.len()..] {
            *placed = placed.shifted(range.len(), new.len());
        }
        let (from, to) = (range.start, range.end);
        self.text.replace_range(from..to, &new.text);
        Fragment { text, chips: chips.iter().map(|placed| placed.shifted(from, 0)).collect() }
    }

    /// A copy of a range, which must not cut a chip.
    pub(super) fn copy(&self, range: Range<usize>) -> Fragment {
        let inside = |placed: &&Placed| placed.range.start >= range.start && placed.range.end <= range.end;
        let chips = self.chips.iter().filter(inside).map(|placed| placed.shifted(range.start, 0)).collect();
        Fragment { text: self.text[range].to_owned(), chips }
    }

    /// The text with pastes in the place of their labels.
    pub(super) fn expanded(&self) -> String {
        let mut text = String::with_capacity(self.text.len());
        let mut at = 0;
        for placed in &self.chips {
            if let Chip::Paste(paste) = placed.chip.as_ref() {
                text.push_str(&self.text[at..placed.range.start]);
                text.push_str(paste);
                at = placed.range.end;
            }
        }
        text.push_str(&self.text[at..]);
        text
    }

    /// Where pastes stand in the [expanded](Self::expanded) text.
    pub(super) fn pastes(&self) -> Vec<Range<usize>> {
        let mut longer = 0;
        let mut pastes = Vec::new();
        for placed in &self.chips {
            if let Chip::Paste(paste) = placed.chip.as_ref() {
                let start = placed.range.start + longer;
                pastes.push(start..start + paste.len());
                longer = longer + paste.len() - placed.range.len();
            }
        }
        pastes
    }

    /// The chip that begins here.
    pub(super) fn chip_at(&self, at: usize) -> Option<&Placed> {
        let next = self.chips.partition_point(|placed| placed.range.start < at);
        self.chips.get(next).filter(|placed| placed.range.start == at)
    }

    /// The chip that ends here.
    pub(super) fn chip_before(&self, at: usize) -> Option<&Placed> {
        let next = self.chips.partition_point(|placed| placed.range.end < at);
        self.chips.get(next).filter(|placed| placed.range.end == at)
    }

    /// Where the character that begins here ends; the end stays the end.
    pub(super) fn next(&self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        if at >= bytes.len() {
            return bytes.len();
        }
        if !self.chips.is_empty()
            && let Some(placed) = self.chip_at(at)
        {
            return placed.range.end;
        }
        // No ASCII joins with ASCII: a carriage return is never kept.
        if bytes[at].is_ascii() && bytes.get(at + 1).is_none_or(u8::is_ascii) {
            return at + 1;
        }
        let run = self.run(at);
        let mut cursor = GraphemeCursor::new(at - run.start, run.len(), true);
        let next = cursor.next_boundary(&self.text[run.clone()], 0).ok().flatten();
        next.map_or(run.end, |next| run.start + next)
    }

    /// Where the character that ends here begins; the beginning stays the beginning.
    pub(super) fn previous(&self, at: usize) -> usize {
        if at == 0 {
            return 0;
        }
        if let Some(placed) = self.chip_before(at) {
            return placed.range.start;
        }
        let run = self.run(at - 1);
        let mut cursor = GraphemeCursor::new(at - run.start, run.len(), true);
        let previous = cursor.prev_boundary(&self.text[run.clone()], 0).ok().flatten();
        previous.map_or(run.start, |previous| run.start + previous)
    }

    /// This place, or the next one at which a character begins.
    pub(super) fn snapped(&self, at: usize) -> usize {
        let mut at = at.min(self.len());
        while !self.text.is_char_boundary(at) {
            at += 1;
        }
        if at == self.len() || at == 0 {
            return at;
        }
        let around = self.chips.partition_point(|placed| placed.range.end <= at);
        match self.chips.get(around) {
            Some(placed) if placed.range.start < at => return placed.range.end,
            Some(placed) if placed.range.start == at => return at,
            Some(_) | None => {}
        }
        if self.chip_before(at).is_some() {
            return at;
        }
        let run = self.run(at);
        let mut cursor = GraphemeCursor::new(at - run.start, run.len(), true);
        match cursor.is_boundary(&self.text[run.clone()], 0) {
            Ok(false) => self.next(at),
            Ok(true) | Err(_) => at,
        }
    }

    /// The text around this place between one chip and the next.
    fn run(&self, at: usize) -> Range<usize> {
        let next = self.chips.partition_point(|placed| placed.range.end <= at);
        let start = next.checked_sub(1).map_or(0, |before| self.chips[before].range.end);
        let end = self.chips.get(next).map_or(self.text.len(), |placed| placed.range.start);
        start..end
    }
}

impl Placed {
    /// The same, `back` bytes further to the front and then `forth` further to the end.
    fn shifted(&self, back: usize, forth: usize) -> Self {
        let range = self.range.start - back + forth..self.range.end - back + forth;
        Self { range, chip: Arc::clone(&self.chip) }
    }
}

/// The text with one kind of line end: terminals paste a carriage return where the text had a line feed.
pub(super) fn with_line_feeds(text: &str) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.to_owned() }
}
