//! The sieve: by the next four bytes of a text, whether something may begin there. Letters are folded to lower case; ends of
//! lines are passed over, so that a value that was wrapped is found as well.

use memchr::memchr2_iter;
use std::collections::HashMap;

/// How many bytes are looked at.
pub(super) const WINDOW: usize = 4;

const BITS: usize = 1 << 16;
/// Capitals become small letters. Other characters become some other, the same for all equal ones.
const FOLD: u32 = 0x2020_2020;

/// What may begin with which four bytes. Where anything may, three smaller questions follow: each has other windows in one slot
/// than the first, so that hardly any text that only looks alike passes both.
pub(super) struct Windows {
    /// Anything.
    all: Bits<FIRST>,
    /// What a shape begins with.
    shapes: Bits<SECOND>,
    /// A piece of the name of an assignment.
    names: Bits<SECOND>,
    /// What a known value begins with,
    values: Bits<SECOND>,
    /// and which entries these are.
    entries: HashMap<u32, Vec<u32>>,
}

/// What may begin at a position.
#[derive(Clone, Copy)]
pub(super) struct Begins {
    /// A shape.
    pub(super) shape: bool,
    /// A piece of the name of an assignment.
    pub(super) name: bool,
}

/// Odd numbers that spread windows over slots, each in its way.
const FIRST: u32 = 0x9e37_79b1;
const SECOND: u32 = 0x85eb_ca77;

/// A set of windows, with a few more that only share a slot.
struct Bits<const SPREAD: u32>(Box<[u64; BITS / 64]>);

impl<const SPREAD: u32> Default for Bits<SPREAD> {
    fn default() -> Self {
        Self(Box::new([0; BITS / 64]))
    }
}

impl<const SPREAD: u32> Bits<SPREAD> {
    fn mark(&mut self, window: u32) {
        let slot = Self::slot(window);
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    fn has(&self, window: u32) -> bool {
        let slot = Self::slot(window);
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn slot(window: u32) -> usize {
        (window.wrapping_mul(SPREAD) >> 16) as usize
    }
}

impl Default for Windows {
    fn default() -> Self {
        let (shapes, names, values) = (Bits::default(), Bits::default(), Bits::default());
        let mut windows = Self { all: Bits::default(), shapes, names, values, entries: HashMap::new() };
        super::shapes::anchors().for_each(|anchor| mark(anchor, &mut windows.all, &mut windows.shapes));
        super::inner::anchors().for_each(|anchor| mark(&anchor, &mut windows.all, &mut windows.shapes));
        super::assigned::anchors().for_each(|anchor| mark(anchor, &mut windows.all, &mut windows.names));
        windows
    }
}

impl Windows {
    /// Something, by its number, begins with these four bytes.
    pub(super) fn add(&mut self, first: [u8; WINDOW], entry: u32) {
        let window = folded(first);
        self.all.mark(window);
        self.values.mark(window);
        self.entries.entry(window).or_default().push(entry);
    }

    /// What may begin with these four bytes.
    pub(super) fn entries(&self, first: [u8; WINDOW]) -> &[u32] {
        let window = folded(first);
        let entries = self.values.has(window).then(|| self.entries.get(&window)).flatten();
        entries.map(Vec::as_slice).unwrap_or_default()
    }

    /// What may begin there, apart from known values: where a text ends, anything may.
    pub(super) fn begins(&self, text: &[u8], at: usize) -> Begins {
        match text.get(at..at + WINDOW) {
            Some(&[a, b, c, d]) => {
                let window = folded([a, b, c, d]);
                Begins { shape: self.shapes.has(window), name: self.names.has(window) }
            }
            _ => Begins { shape: true, name: true },
        }
    }
}

/// Something begins with this, of three or more bytes.
fn mark(anchor: &[u8], all: &mut Bits<FIRST>, of_its_kind: &mut Bits<SECOND>) {
    let mut mark = |window: u32| {
        all.mark(window);
        of_its_kind.mark(window);
    };
    match *anchor {
        [a, b, c] => (0..=u8::MAX).for_each(|d| mark(folded([a, b, c, d]))),
        [a, b, c, d, ..] => mark(folded([a, b, c, d])),
        _ => {}
    }
}

fn folded(bytes: [u8; WINDOW]) -> u32 {
    u32::from_le_bytes(bytes) | FOLD
}

/// Calls `candidate` with each position at which something may begin, in order.
pub(super) fn candidates(text: &[u8], windows: &Windows, mut candidate: impl FnMut(usize)) {
    let Some(last) = text.len().checked_sub(WINDOW) else {
        (0..text.len()).for_each(candidate);
        return;
    };
    let begins =
        |at: usize, bytes: &[u8]| windows.all.has(folded([bytes[0], bytes[1], bytes[2], bytes[3]])).then_some(at);
    let mut line = 0;
    for end in memchr2_iter(b'\n', b'\r', text).chain([text.len()]) {
        // Windows within a line, then those that its end lies in.
        let inner = text[line..end].windows(WINDOW).enumerate();
        inner.filter_map(|(at, bytes)| begins(line + at, bytes)).for_each(&mut candidate);
        for at in line.max(end.saturating_sub(WINDOW - 1))..=end.min(last) {
            let may_begin = begins(at, &text[at..at + WINDOW]).is_some();
            if may_begin || (at < end && crosses(text, at, windows)) {
                candidate(at);
            }
        }
        line = end + 1;
    }
    // Too short for a window: the end of a text that goes on, perhaps.
    (last + 1..text.len()).for_each(candidate);
}

/// Whether something may begin here if the ends of lines were not there.
fn crosses(text: &[u8], at: usize, windows: &Windows) -> bool {
    window_at(text, at).is_some_and(|bytes| windows.all.has(folded(bytes)))
}

/// The four bytes from here on that are no ends of lines.
pub(super) fn window_at(text: &[u8], at: usize) -> Option<[u8; WINDOW]> {
    /// Further apart than this, bytes have nothing to do with each other.
    const FAR: usize = 4 * WINDOW;
    if let Some(&[a, b, c, d]) = text.get(at..at + WINDOW)
        && !may_have_break(u32::from_le_bytes([a, b, c, d]))
    {
        return Some([a, b, c, d]);
    }
    let (mut bytes, mut found) = ([0; WINDOW], 0);
    for byte in &text[at.min(text.len())..text.len().min(at + FAR)] {
        if *byte != b'\n' && *byte != b'\r' {
            bytes[found] = *byte;
            found += 1;
            if found == WINDOW {
                return Some(bytes);
            }
        }
    }
    None
}

/// Whether one of these bytes is less than 14, as ends of lines are.
fn may_have_break(bytes: u32) -> bool {
    bytes.wrapping_sub(0x0e0e_0e0e) & !bytes & 0x8080_8080 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every position by itself.
    fn one_by_one(text: &[u8], windows: &Windows) -> Vec<usize> {
        let is_break = |byte: &u8| *byte == b'\n' || *byte == b'\r';
        let may_begin = |at: &usize| {
            let Some(&[a, b, c, d]) = text.get(*at..at + WINDOW) else { return true };
            let is_broken = !is_break(&a) && [b, c, d].iter().any(is_break);
            windows.all.has(folded([a, b, c, d])) || is_broken && crosses(text, *at, windows)
        };
        (0..text.len()).filter(may_begin).collect()
    }

    #[test]
    fn line_by_line_nothing_is_passed_over() {
        let mut windows = Windows::default();
        windows.add(*b"abca", 0);
        windows.add(*b"a\nbb", 1);
        for seed in 0..20_000 {
            fastrand::seed(seed);
            let text: Vec<u8> = (0..fastrand::usize(..40)).map(|_| b"aabbcAB\n\r"[fastrand::usize(..9)]).collect();
            let mut found = Vec::new();
            candidates(&text, &windows, |at| found.push(at));
            assert_eq!(found, one_by_one(&text, &windows), "{seed}: {:?}", String::from_utf8_lossy(&text));
        }
    }
}
