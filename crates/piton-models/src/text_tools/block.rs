//! The text from a call's opening marker to its end, and where that end is.
//!
//! An end mark inside an argument is no end: a model that writes this file writes end marks. So a mark counts where
//! the call can end, and nowhere else, not even if the text is over and none did. Then a quote is missing, or the reply
//! was cut in a string; what follows the mark may be the argument's own words, so none of it is read as prose or calls.

use super::hold::{Fit, token_at_end, token_fit};

/// How a dialect's calls end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// At one of these marks, unless it stands in a JSON string.
    Json(&'static [&'static str]),
    /// At this mark, where one of `after` stands before it, or where nothing that would need it (`holds`) does.
    Markup { mark: &'static str, after: &'static [&'static str], holds: &'static str },
    /// Where the first `{` is closed, or the `[` that the text begins with.
    Bracket,
    /// With the message, which consists of this and of nothing else.
    Message,
}

/// A call being taken down.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) opener: String,
    pub(super) body: String,
    ending: Ending,
    quotes: Quotes,
    bracket: Bracket,
    /// The beginning of a token behind a whole message.
    tail: String,
}

/// What a character did to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    More,
    /// It ended; the body is this long.
    Ended(usize),
    /// It was none.
    NotACall,
}

impl Block {
    pub(super) fn new(opener: String, ending: Ending) -> Self {
        let bracket = match ending {
            Ending::Message => Bracket::any(),
            Ending::Json(_) | Ending::Markup { .. } | Ending::Bracket => Bracket::json(),
        };
        let (body, tail) = (String::new(), String::new());
        Self { opener, body, ending, quotes: Quotes::default(), bracket, tail }
    }

    pub(super) fn push(&mut self, c: char) -> Step {
        self.body.push(c);
        match self.ending {
            Ending::Json(marks) => {
                self.quotes.push(c);
                let start = marks.iter().find_map(|mark| self.mark(mark, c));
                start.filter(|_| !self.quotes.is_inside()).map_or(Step::More, Step::Ended)
            }
            Ending::Markup { mark, after, holds } => {
                let may_end = |start: &usize| {
                    let before = self.body[..*start].trim_end();
                    after.iter().any(|end| before.ends_with(end)) || !before.contains(holds)
                };
                self.mark(mark, c).filter(may_end).map_or(Step::More, Step::Ended)
            }
            Ending::Bracket => {
                self.bracket.push(c);
                if self.bracket.is_closed() { Step::Ended(self.body.len()) } else { Step::More }
            }
            Ending::Message => self.push_message(c),
        }
    }

    /// Where the mark begins that this character completes.
    fn mark(&self, mark: &str, last: char) -> Option<usize> {
        let length = if mark.ends_with(last) { token_at_end(mark, &self.body) } else { None };
        length.map(|length| self.body.len() - length)
    }

    /// Behind the last bracket only another call may follow, or a token that ends the message.
    fn push_message(&mut self, c: char) -> Step {
        if !self.bracket.is_closed() {
            self.bracket.push(c);
            return Step::More;
        }
        if !self.tail.is_empty() || c == '<' {
            self.tail.push(c);
            return match tail_fit(&self.tail) {
                Fit::Yes => {
                    self.tail.clear();
                    Step::More
                }
                Fit::Maybe => Step::More,
                Fit::No => Step::NotACall,
            };
        }
        match c {
            '{' | '[' => {
                self.bracket = Bracket::any();
                self.bracket.push(c);
                Step::More
            }
            // One bracket too many closes nothing.
            ';' | ',' | '}' => Step::More,
            _ if c.is_whitespace() => Step::More,
            _ => Step::NotACall,
        }
    }
}

/// The tokens that end a message of Llama's.
pub(super) const MESSAGE_ENDS: [&str; 4] = ["<|eot_id|>", "<|eom_id|>", "<|python_end|>", "<|end_of_text|>"];

fn tail_fit(tail: &str) -> Fit {
    let fits = MESSAGE_ENDS.map(|token| token_fit(token, tail));
    [Fit::Yes, Fit::Maybe].into_iter().find(|fit| fits.contains(fit)).unwrap_or(Fit::No)
}

/// Whether we are in a JSON string.
#[derive(Debug, Clone, Copy, Default)]
struct Quotes {
    inside: bool,
    escaped: bool,
}

impl Quotes {
    fn push(&mut self, c: char) {
        let escaped = std::mem::take(&mut self.escaped);
        match c {
            '"' if !escaped => self.inside = !self.inside,
            '\\' if self.inside && !escaped => self.escaped = true,
            _ => {}
        }
    }

    fn is_inside(self) -> bool {
        self.inside
    }
}

/// How many brackets are open, those in quotes not counted.
#[derive(Debug)]
struct Bracket {
    depth: usize,
    quote: Option<char>,
    escaped: bool,
    state: BracketState,
    /// Any bracket counts as the first, not only `{` and a leading `[`.
    takes_any: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BracketState {
    /// Nothing but white space so far.
    Blank,
    /// Something else, but no bracket that counts.
    Before,
    Open,
    Closed,
}

impl Bracket {
    fn json() -> Self {
        Self { depth: 0, quote: None, escaped: false, state: BracketState::Blank, takes_any: false }
    }

    fn any() -> Self {
        Self { takes_any: true, ..Self::json() }
    }

    fn is_closed(&self) -> bool {
        self.state == BracketState::Closed
    }

    fn push(&mut self, c: char) {
        match self.state {
            BracketState::Closed => {}
            BracketState::Open => self.push_open(c),
            BracketState::Blank | BracketState::Before => {
                let opens = match c {
                    '{' => true,
                    '[' => self.takes_any || self.state == BracketState::Blank,
                    '(' => self.takes_any,
                    _ => false,
                };
                if opens {
                    self.state = BracketState::Open;
                    self.depth = 1;
                } else if !c.is_whitespace() {
                    self.state = BracketState::Before;
                }
            }
        }
    }

    fn push_open(&mut self, c: char) {
        if let Some(quote) = self.quote {
            let escaped = std::mem::take(&mut self.escaped);
            match c {
                '\\' if !escaped => self.escaped = true,
                c if c == quote && !escaped => self.quote = None,
                _ => {}
            }
            return;
        }
        match c {
            '"' | '\'' => self.quote = Some(c),
            '{' | '[' | '(' => self.depth += 1,
            '}' | ']' | ')' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = BracketState::Closed;
                }
            }
            _ => {}
        }
    }
}
