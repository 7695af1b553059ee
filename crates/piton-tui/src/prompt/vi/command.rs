//! What keys in normal and visual mode mean: characters in, a command out.

/// Larger counts are this one.
const MOST_COUNT: usize = 9_999;

/// A whole command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    /// What was typed before it.
    pub(super) count: Option<usize>,
    pub(super) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Move(Motion),
    Operate(Operator, Target),
    Insert(Place),
    /// `r`
    Replace(char),
    /// `~`
    SwapCase,
    /// `J`
    Join,
    Put(Side),
    Undo,
    /// `.`
    Repeat,
    /// `v` and `V`
    Select(Extent),
    /// `o` in visual mode: the other end.
    OtherEnd,
    /// An object in visual mode.
    SelectObject(Object),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Delete,
    Change,
    Yank,
}

/// What an operator works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Motion(Motion),
    Object(Object),
    /// So many lines from the cursor on; with a count, as many as that.
    Lines(usize),
    /// So many characters from the cursor on: a change in visual mode that is repeated.
    Characters(usize),
    /// What is selected.
    Selection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    Left,
    Right,
    Up,
    Down,
    /// The beginning of the next word; whether words are what is between blanks.
    Word(Words),
    Back(Words),
    WordEnd(Words),
    LineStart,
    FirstNonBlank,
    LineEnd,
    Find(Find),
    /// `;` and `,`
    FindAgain(Direction),
    /// `gg`, or the line of the count.
    FirstLine,
    /// `G`, or the line of the count.
    LastLine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// Letters and digits, or signs.
    Small,
    /// Whatever is between blanks.
    Large,
}

/// `f`, `F`, `t` or `T`, and the character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Find {
    pub(super) char: char,
    pub(super) direction: Direction,
    pub(super) stop: Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    On,
    Before,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Before,
    After,
    LineStart,
    LineEnd,
    LineBelow,
    LineAbove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Characters,
    Lines,
}

/// A text object, with what is around it or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) kind: ObjectKind,
    pub(super) reach: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Inner,
    Around,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Word(Words),
    Quote(char),
    Brackets(char, char),
}

/// What the keys so far are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More are needed.
    Unfinished,
    /// They mean nothing.
    Nothing,
    Command(Command),
}

/// Reads the keys of a command.
pub(super) fn parse(keys: &str, is_visual: bool) -> Parsed {
    let (count, rest) = number(keys);
    let mut chars = rest.chars();
    let Some(first) = chars.next() else { return Parsed::Unfinished };
    let rest = chars.as_str();
    let done = |what| Parsed::Command(Command { count, what });
    if let Some(parsed) = simple(first, is_visual) {
        return done(parsed);
    }
    match first {
        'd' | 'c' | 'y' => operator(first, count, rest),
        'i' | 'a' if is_visual => match object(first, rest) {
            Some(Some(object)) => done(What::SelectObject(object)),
            Some(None) => Parsed::Unfinished,
            None => Parsed::Nothing,
        },
        'r' => rest.chars().next().map_or(Parsed::Unfinished, |char| done(What::Replace(char))),
        _ => match motion(first, rest) {
            Some(Some(motion)) => done(What::Move(motion)),
            Some(None) => Parsed::Unfinished,
            None => Parsed::Nothing,
        },
    }
}

/// Commands of one key.
fn simple(key: char, is_visual: bool) -> Option<What> {
    use Operator::{Change, Delete, Yank};
    let operate = |operator, motion| What::Operate(operator, Target::Motion(motion));
    let selected = |operator| What::Operate(operator, Target::Selection);
    let lines = |operator| What::Operate(operator, Target::Lines(1));
    let what = match (key, is_visual) {
        ('d' | 'x' | 'X', true) => selected(Delete),
        ('c' | 's', true) => selected(Change),
        ('y', true) => selected(Yank),
        ('o' | 'O', true) => What::OtherEnd,
        ('x', false) => operate(Delete, Motion::Right),
        ('X', false) => operate(Delete, Motion::Left),
        ('s', false) => operate(Change, Motion::Right),
        ('D', false) => operate(Delete, Motion::LineEnd),
        ('C', false) => operate(Change, Motion::LineEnd),
        ('S', false) => lines(Change),
        ('Y', false) => lines(Yank),
        ('i', false) => What::Insert(Place::Before),
        ('a', false) => What::Insert(Place::After),
        ('o', false) => What::Insert(Place::LineBelow),
        ('O', false) => What::Insert(Place::LineAbove),
        ('I', false) => What::Insert(Place::LineStart),
        ('A', false) => What::Insert(Place::LineEnd),
        ('u', false) => What::Undo,
        ('.', false) => What::Repeat,
        ('~', _) => What::SwapCase,
        ('J', _) => What::Join,
        ('p', _) => What::Put(Side::After),
        ('P', _) => What::Put(Side::Before),
        ('v', _) => What::Select(Extent::Characters),
        ('V', _) => What::Select(Extent::Lines),
        _ => return None,
    };
    Some(what)
}

fn operator(key: char, count: Option<usize>, rest: &str) -> Parsed {
    let (second, rest) = number(rest);
    let count = match (count, second) {
        (Some(one), Some(other)) => Some((one * other).min(MOST_COUNT)),
        (one, other) => one.or(other),
    };
    let mut chars = rest.chars();
    let Some(first) = chars.next() else { return Parsed::Unfinished };
    let rest = chars.as_str();
    let operator = match key {
        'd' => Operator::Delete,
        'c' => Operator::Change,
        _ => Operator::Yank,
    };
    let target = match first {
        again if again == key => Some(Some(Target::Lines(1))),
        'i' | 'a' => object(first, rest).map(|found| found.map(Target::Object)),
        _ => motion(first, rest).map(|found| found.map(Target::Motion)),
    };
    match target {
        Some(Some(target)) => Parsed::Command(Command { count, what: What::Operate(operator, target) }),
        Some(None) => Parsed::Unfinished,
        None => Parsed::Nothing,
    }
}

/// `None` if it is no motion, `Some(None)` if a character is wanted.
fn motion(key: char, rest: &str) -> Option<Option<Motion>> {
    let find = |direction, stop| rest.chars().next().map(|char| Motion::Find(Find { char, direction, stop }));
    Some(Some(match key {
        'h' => Motion::Left,
        'l' | ' ' => Motion::Right,
        'k' => Motion::Up,
        'j' => Motion::Down,
        'w' => Motion::Word(Words::Small),
        'W' => Motion::Word(Words::Large),
        'b' => Motion::Back(Words::Small),
        'B' => Motion::Back(Words::Large),
        'e' => Motion::WordEnd(Words::Small),
        'E' => Motion::WordEnd(Words::Large),
        '0' => Motion::LineStart,
        '^' | '_' => Motion::FirstNonBlank,
        '$' => Motion::LineEnd,
        ';' => Motion::FindAgain(Direction::Forward),
        ',' => Motion::FindAgain(Direction::Backward),
        'G' => Motion::LastLine,
        'f' => return Some(find(Direction::Forward, Stop::On)),
        't' => return Some(find(Direction::Forward, Stop::Before)),
        'F' => return Some(find(Direction::Backward, Stop::On)),
        'T' => return Some(find(Direction::Backward, Stop::Before)),
        'g' => match rest.chars().next() {
            None => return Some(None),
            Some('g') => Motion::FirstLine,
            Some(_) => return None,
        },
        _ => return None,
    }))
}

fn object(key: char, rest: &str) -> Option<Option<Object>> {
    let reach = if key == 'i' { Reach::Inner } else { Reach::Around };
    let kind = match rest.chars().next() {
        None => return Some(None),
        Some('w') => ObjectKind::Word(Words::Small),
        Some('W') => ObjectKind::Word(Words::Large),
        Some(quote @ ('"' | '\'' | '`')) => ObjectKind::Quote(quote),
        Some('(' | ')' | 'b') => ObjectKind::Brackets('(', ')'),
        Some('{' | '}' | 'B') => ObjectKind::Brackets('{', '}'),
        Some('[' | ']') => ObjectKind::Brackets('[', ']'),
        Some('<' | '>') => ObjectKind::Brackets('<', '>'),
        Some(_) => return None,
    };
    Some(Some(Object { kind, reach }))
}

/// The number at the beginning, if there is one; a zero alone is a motion.
fn number(keys: &str) -> (Option<usize>, &str) {
    if keys.starts_with('0') {
        return (None, keys);
    }
    let digits = keys.len() - keys.trim_start_matches(|char: char| char.is_ascii_digit()).len();
    let (number, rest) = keys.split_at(digits);
    let number = if number.is_empty() { None } else { Some(number.parse().unwrap_or(MOST_COUNT).min(MOST_COUNT)) };
    (number, rest)
}
