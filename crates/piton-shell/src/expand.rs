//! From words to the arguments that a program gets: braces are expanded, pieces are joined. What is known only when it
//! runs keeps its spelling, and is marked.

use crate::limits::{MOST_EXPANDED_BYTES, MOST_NESTING, MOST_NODES};
use crate::parse::is_name;
use crate::syntax::{Piece, Word};

/// An argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Field {
    /// The text, with what is open as it is spelled.
    pub(crate) text: String,
    /// Bytes of `text` in front of what is known only when it runs, a wildcard included; `None` where all of it is known.
    pub(crate) known: Option<usize>,
    /// Whether it may become several arguments, or none.
    pub(crate) splits: bool,
    /// Whether a `~` in front stands for a home folder.
    pub(crate) home: bool,
    /// Whether what is open is only wildcards.
    pub(crate) only_wildcards: bool,
    /// What it is made of, where only variables and wildcards are open in it.
    pub(crate) bits: Vec<Bit>,
    /// Whether it comes from the input of the wrapper that runs the program.
    pub(crate) is_added: bool,
}

/// A piece of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bit {
    Text(String),
    /// `$name` or `${name}`.
    Variable(String),
}

impl Field {
    /// An argument that is known.
    pub(crate) fn literal(text: &str) -> Self {
        Self { text: text.to_string(), ..Self::default() }
    }

    /// Arguments that come from elsewhere when it runs.
    pub(crate) fn unknown(text: &str) -> Self {
        Self { text: text.to_string(), known: Some(0), splits: true, ..Self::default() }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.known.is_some()
    }

    /// Whether it may turn out to be an option.
    pub(crate) fn may_be_option(&self) -> bool {
        self.known.is_some_and(|known| known == 0 || self.text.starts_with('-'))
    }
}

/// The texts of some arguments, with a space between them.
pub(crate) fn text(arguments: &[Field]) -> String {
    arguments.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Some arguments as one, of which nothing is known where one of them is open.
pub(crate) fn joined(arguments: &[Field]) -> Field {
    let open = arguments.iter().any(Field::is_open);
    Field { known: open.then_some(0), ..Field::literal(&text(arguments)) }
}

/// The end of a field, as open as the field.
pub(crate) fn tail(field: &Field, text: &str) -> Field {
    let cut = field.text.len() - text.len();
    let known = field.known.map(|known| known.saturating_sub(cut));
    let bits = match field.bits.split_first() {
        Some((Bit::Text(first), rest)) if first.len() >= cut => [&[Bit::Text(first[cut..].to_string())], rest].concat(),
        _ => Vec::new(),
    };
    Field { text: text.to_string(), known, bits, ..field.clone() }
}

/// Too many arguments, or too deep.
#[derive(Debug)]
pub(crate) struct TooMany;

/// The arguments that `word` becomes. `budget` is how many more there may be.
pub(crate) fn fields(word: &Word, budget: &mut usize) -> Result<Vec<Field>, TooMany> {
    let count = |piece: &Piece| if let Piece::Bare(text) = piece { text.matches('{').count() } else { 0 };
    let braces: usize = word.pieces.iter().map(count).sum();
    if braces == 0 {
        *budget = budget.checked_sub(1).ok_or(TooMany)?;
        return Ok(vec![join(&word.pieces)]);
    }
    if braces > MOST_NESTING {
        return Err(TooMany);
    }
    let units: Vec<Unit> = word.pieces.iter().flat_map(units).collect();
    let all = expand(&units, MOST_NODES.min(*budget))?;
    *budget = budget.checked_sub(all.len()).ok_or(TooMany)?;
    // What becomes empty without quotes is no argument: `{,rm} x` runs `rm`.
    Ok(all.into_iter().filter(|units| !units.is_empty()).map(|units| join(&pieces(units))).collect())
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Unit {
    Bare(char),
    Whole(Piece),
}

fn units(piece: &Piece) -> Vec<Unit> {
    match piece {
        Piece::Bare(text) => text.chars().map(Unit::Bare).collect(),
        Piece::Quoted(_) | Piece::Open { .. } => vec![Unit::Whole(piece.clone())],
    }
}

fn pieces(units: Vec<Unit>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for unit in units {
        match (unit, pieces.last_mut()) {
            (Unit::Bare(c), Some(Piece::Bare(text))) => text.push(c),
            (Unit::Bare(c), _) => pieces.push(Piece::Bare(c.to_string())),
            (Unit::Whole(piece), _) => pieces.push(piece),
        }
    }
    pieces
}

/// Every text that the first brace and those behind it stand for.
fn expand(units: &[Unit], most: usize) -> Result<Vec<Vec<Unit>>, TooMany> {
    for (at, _) in units.iter().enumerate().filter(|(_, unit)| **unit == Unit::Bare('{')) {
        let Some((end, commas)) = matching(units, at) else { continue };
        let inner = &units[at + 1..end];
        let middles = if !inner.iter().any(has_comma) {
            // Of what is no sequence, nothing is expanded but what stands behind it.
            sequence(inner, most)?.unwrap_or_else(|| vec![units[at..=end].to_vec()])
        } else {
            let mut middles = Vec::new();
            let mut from = at + 1;
            for to in commas.into_iter().chain([end]) {
                middles.extend(expand(&units[from..to], most)?);
                from = to + 1;
            }
            middles
        };
        let tails = expand(&units[end + 1..], most)?;
        let bytes: usize = middles.iter().map(Vec::len).sum::<usize>() * tails.len();
        if middles.len() * tails.len() > most || bytes + at * middles.len() > MOST_EXPANDED_BYTES {
            return Err(TooMany);
        }
        let head = &units[..at];
        let with_tail = |middle: &Vec<Unit>| {
            let head = [head, middle].concat();
            tails.iter().map(move |tail| [head.as_slice(), tail].concat()).collect::<Vec<_>>()
        };
        return Ok(middles.iter().flat_map(with_tail).collect());
    }
    Ok(vec![units.to_vec()])
}

/// The brace that closes the one at `open`, and the commas between them at their own level. One with neither a comma nor `..` in
/// front of it closes nothing, and `{}` at the beginning opens nothing.
fn matching(units: &[Unit], open: usize) -> Option<(usize, Vec<usize>)> {
    let is = |at: usize, c: char| units.get(at) == Some(&Unit::Bare(c));
    if open == 0 && is(1, '}') {
        return None;
    }
    let (mut depth, mut commas, mut is_list) = (0_usize, Vec::new(), false);
    for (at, unit) in units.iter().enumerate().skip(open + 1) {
        match unit {
            Unit::Bare('}') if depth == 0 && is_list => return Some((at, commas)),
            Unit::Bare('{') => depth += 1,
            Unit::Bare('}') => depth = depth.saturating_sub(1),
            Unit::Bare(',') if depth == 0 => {
                commas.push(at);
                is_list = true;
            }
            Unit::Bare('.') if depth == 0 => is_list |= is(at + 1, '.') && !is(at + 2, '}'),
            Unit::Bare(_) | Unit::Whole(_) => {}
        }
    }
    None
}

/// Whether bash sees a comma there, be it in quotes.
fn has_comma(unit: &Unit) -> bool {
    match unit {
        Unit::Bare(c) => *c == ',',
        Unit::Whole(Piece::Bare(text) | Piece::Quoted(text) | Piece::Open { text, .. }) => text.contains(','),
    }
}

/// `1..5`, `01..10..3`, `a..e`.
fn sequence(inner: &[Unit], most: usize) -> Result<Option<Vec<Vec<Unit>>>, TooMany> {
    let text: Option<String> =
        inner.iter().map(|unit| if let Unit::Bare(c) = unit { Some(*c) } else { None }).collect();
    let Some(text) = text else { return Ok(None) };
    let bounds: Vec<&str> = text.split("..").collect();
    let (first, last, step) = match bounds.as_slice() {
        [first, last] => (*first, *last, 1),
        [first, last, step] => match step.parse::<i64>() {
            Ok(step) => (*first, *last, step.unsigned_abs().max(1)),
            Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    };
    let letter = |text: &str| {
        text.chars().next().filter(|c| text.len() == 1 && c.is_ascii_alphabetic()).map(|c| i64::from(u32::from(c)))
    };
    let (from, to, letters) = match (first.parse::<i64>(), last.parse::<i64>(), letter(first), letter(last)) {
        (Ok(from), Ok(to), _, _) => (from, to, false),
        (_, _, Some(from), Some(to)) => (from, to, true),
        _ => return Ok(None),
    };
    if from.abs_diff(to) / step >= u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(TooMany);
    }
    let padded = |text: &str| text.trim_start_matches('-').starts_with('0') && text.trim_start_matches('-').len() > 1;
    let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
    let count = from.abs_diff(to) / step;
    let items = (0..=count).filter_map(|index| {
        let distance = i64::try_from(index * step).ok()?;
        let value = if from <= to { from + distance } else { from - distance };
        let text = if letters { char::from(u8::try_from(value).ok()?).to_string() } else { format!("{value:0width$}") };
        Some(text.chars().map(Unit::Bare).collect())
    });
    Ok(Some(items.collect()))
}

/// The name in `$name` or `${name}`.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    Some(name).filter(|name| is_name(name))
}

/// What these pieces are, where nothing but variables is open in them.
fn bits(pieces: &[Piece]) -> Vec<Bit> {
    let bit = |piece: &Piece| match piece {
        Piece::Bare(text) | Piece::Quoted(text) => Some(Bit::Text(text.clone())),
        Piece::Open { text, .. } => variable(text).map(|name| Bit::Variable(name.to_string())),
    };
    let has_variable = pieces.iter().any(|piece| matches!(piece, Piece::Open { .. }));
    let all: Option<Vec<Bit>> = if has_variable { pieces.iter().map(bit).collect() } else { None };
    all.unwrap_or_default()
}

/// The value that a word is as it is assigned: braces and wildcards stand for themselves.
pub(crate) fn value(word: &Word) -> Field {
    join(&word.pieces)
}

fn join(pieces: &[Piece]) -> Field {
    let mut field = Field { only_wildcards: true, bits: bits(pieces), ..Field::default() };
    field.home = matches!(pieces.first(), Some(Piece::Bare(text)) if text.starts_with('~'));
    for piece in pieces {
        let before = field.text.len();
        match piece {
            Piece::Bare(text) => {
                if let Some(at) = text
                    .find(['*', '?', '['])
                    .filter(|at| text.as_bytes()[*at] != b'[' || pieces.len() > 1 || text[*at..].contains(']'))
                {
                    field.known = field.known.or(Some(before + at));
                    field.splits = true;
                }
                field.text.push_str(text);
            }
            Piece::Quoted(text) => field.text.push_str(text),
            Piece::Open { text, quoted } => {
                // `/dev/fd/63` begins with no dash.
                let known = if text.starts_with(['<', '>']) { before.max(1) } else { before };
                field.known = field.known.or(Some(known));
                field.splits |= !quoted || text.contains('@');
                field.only_wildcards = false;
                field.text.push_str(text);
            }
        }
    }
    field.only_wildcards &= field.known.is_some();
    field
}
