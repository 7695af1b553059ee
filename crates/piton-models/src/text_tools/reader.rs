//! The machine that all dialects with calls between markers share: prose, then a call, then prose again.
//!
//! ```text
//!            opener                         end
//!   Prose ────────────▶ Block (taken down) ─────▶ read ──▶ calls, and Prose again
//!     ▲                   │ cannot be a call
//!     └───────────────────┘ (it is prose, looked at once more)
//! ```
//!
//! A dialect says what its markers are, how a call ends and how to read one ([`Grammar`]). It does not see the stream.
//!
//! White space at the beginning and next to calls is layout: it is kept back until prose follows it.

use super::block::{Block, Ending, Step};
use super::hold::{Fit, Hold, InCode, Marker, Role, Shape};
use super::{Calls, Decoder, Options, TextCall, TextEvent};

/// What is particular about a dialect.
pub(super) trait Grammar: Send {
    /// What may stand in prose and is not prose.
    fn markers(&self) -> &'static [Marker];

    /// How a call ends that began with this marker.
    fn ending(&self, opener: &str) -> Ending;

    /// Whether this body can be that of a call. Asked for each character until it is not [`Fit::Maybe`].
    fn fit(&self, opener: &str, body: &str) -> Fit;

    /// Reads what was taken down.
    fn read(&self, taken: &Taken<'_>) -> Reading;
}

/// A block that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken<'b> {
    pub(super) opener: &'b str,
    /// Without the end mark.
    pub(super) body: &'b str,
    pub(super) end: End,
}

/// How a block came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At its end mark.
    Closed,
    /// With the text. All, or all but the closing marks, may be missing.
    Cut,
}

/// What a block turned out to be.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    Calls(Vec<TextCall>),
    Prose,
    /// The beginning of something; nobody can say of what.
    Remnant,
}

/// A dialect reading a stream.
pub(super) struct Reader<G> {
    grammar: G,
    options: Options,
    hold: Hold,
    block: Option<Open>,
    prose: Prose,
    /// Only the first call is wanted, and it came.
    is_over: bool,
}

struct Open {
    block: Block,
    fit: Fit,
}

impl<G: Grammar> Reader<G> {
    pub(super) fn new(grammar: G, options: Options) -> Self {
        Self {
            hold: Hold::new(grammar.markers().to_vec(), InCode::Quoted),
            grammar,
            options,
            block: None,
            prose: Prose::default(),
            is_over: false,
        }
    }

    fn push_char(&mut self, c: char, events: &mut Vec<TextEvent>) {
        if self.is_over {
            return;
        }
        if let Some(open) = &mut self.block {
            let step = open.push(c, &self.grammar);
            self.go_on(step, events);
        } else if let Some((marker, text)) = self.hold.push(c, &mut self.prose.fresh) {
            self.prose.emit(events);
            match (marker.role, marker.shape) {
                (Role::Noise, _) => self.prose.end(),
                (Role::Opens, Shape::First(_)) => self.open(String::new(), Some(c), events),
                (Role::Opens, Shape::Token(_) | Shape::Tag(_)) => self.open(text, None, events),
            }
        }
    }

    /// Begins to take down. A character that opens the message is itself the first of the body.
    fn open(&mut self, opener: String, first: Option<char>, events: &mut Vec<TextEvent>) {
        let ending = self.grammar.ending(&opener);
        self.block = Some(Open { block: Block::new(opener, ending), fit: Fit::Maybe });
        if let Some(c) = first {
            self.push_char(c, events);
        }
    }

    fn go_on(&mut self, step: Step, events: &mut Vec<TextEvent>) {
        match step {
            Step::More => {}
            Step::Ended(length) => {
                if let Some(Open { block, fit: _ }) = self.block.take() {
                    self.close(&block.opener, &block.body[..length], End::Closed, events);
                }
            }
            Step::NotACall => {
                if let Some(Open { block, fit }) = self.block.take() {
                    self.refuse(&block, fit, events);
                }
            }
        }
    }

    /// It was prose. Where its beginning said so, a call may still follow; otherwise it was looked at to its end.
    fn refuse(&mut self, block: &Block, fit: Fit, events: &mut Vec<TextEvent>) {
        self.hold.pass(&block.opener, &mut self.prose.fresh);
        let opening = if block.opener.is_empty() { block.body.chars().next().map_or(0, char::len_utf8) } else { 0 };
        let (passed, looked_at) = block.body.split_at(if fit == Fit::No { opening } else { block.body.len() });
        self.hold.pass(passed, &mut self.prose.fresh);
        looked_at.chars().for_each(|c| self.push_char(c, events));
    }

    fn close(&mut self, opener: &str, body: &str, end: End, events: &mut Vec<TextEvent>) {
        match self.grammar.read(&Taken { opener, body, end }) {
            Reading::Calls(calls) => {
                for call in calls {
                    self.prose.end();
                    events.push(TextEvent::Call(call));
                    if self.options.calls == Calls::FirstOnly {
                        self.is_over = true;
                        return;
                    }
                }
            }
            Reading::Prose => {
                self.hold.pass(opener, &mut self.prose.fresh);
                self.hold.pass(body, &mut self.prose.fresh);
                self.prose.emit(events);
            }
            Reading::Remnant => {
                self.prose.emit(events);
                events.push(TextEvent::Remnant(format!("{opener}{body}")));
            }
        }
    }
}

impl<G: Grammar> Decoder for Reader<G> {
    fn push(&mut self, text: &str) -> Vec<TextEvent> {
        let mut events = Vec::new();
        text.chars().for_each(|c| self.push_char(c, &mut events));
        self.prose.emit(&mut events);
        events
    }

    fn finish(&mut self) -> Vec<TextEvent> {
        let mut events = Vec::new();
        if let Some(Open { block, fit: _ }) = self.block.take() {
            self.close(&block.opener, &block.body, End::Cut, &mut events);
        }
        self.prose.emit(&mut events);
        if !self.is_over {
            events.extend(leftover(self.hold.finish()));
        }
        events
    }
}

/// What to make of text that was held back to the end: a lone `<` is text, `<use_to` is nothing to show.
pub(super) fn leftover(text: String) -> Option<TextEvent> {
    match text.chars().count() {
        0 => None,
        1 => Some(TextEvent::Text(text)),
        _ => Some(TextEvent::Remnant(text)),
    }
}

impl Open {
    fn push(&mut self, c: char, grammar: &impl Grammar) -> Step {
        let step = self.block.push(c);
        if self.fit == Fit::Maybe {
            let body = match step {
                Step::Ended(length) => &self.block.body[..length],
                Step::More | Step::NotACall => &self.block.body,
            };
            self.fit = match grammar.fit(&self.block.opener, body) {
                // Far in, doubts are no use any more.
                Fit::Maybe if body.len() > MOST_DOUBTED_BYTES => Fit::Yes,
                fit => fit,
            };
        }
        if self.fit == Fit::No { Step::NotACall } else { step }
    }
}

/// How far into a block its beginning is looked at.
const MOST_DOUBTED_BYTES: usize = 512;

/// Prose on its way out.
#[derive(Debug, Default)]
pub(super) struct Prose {
    /// Not yet told of.
    pub(super) fresh: String,
    /// Prose came since the beginning or the last call.
    is_begun: bool,
}

impl Prose {
    /// Tells of what there is, unless it is white space that may be nothing but layout.
    pub(super) fn emit(&mut self, events: &mut Vec<TextEvent>) {
        if self.is_begun || !self.fresh.trim().is_empty() {
            self.is_begun = true;
            if !self.fresh.is_empty() {
                events.push(TextEvent::Text(std::mem::take(&mut self.fresh)));
            }
        }
    }

    /// A call follows, or a token: white space here is layout.
    pub(super) fn end(&mut self) {
        self.fresh.clear();
        self.is_begun = false;
    }
}
