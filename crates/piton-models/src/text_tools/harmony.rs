//! OpenAI's Harmony, which gpt-oss writes: a reply of several messages, each with a channel.
//!
//! ```text
//! <|channel|>analysis<|message|>Let me look.<|end|>
//! <|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path":"a"}<|call|>
//! <|start|>assistant<|channel|>final<|message|>Done.<|return|>
//!
//!            <|start|> <|channel|>          <|message|>
//!   Between ────────────────────▶ Header ───────────────▶ Thinking | Speaking | Calling ──<|end|>…──▶ Between
//! ```
//!
//! The analysis is reasoning, a message to a function is a call, the rest is text. The tokens structure everything, so
//! they count in Markdown code, too.

use super::arguments;
use super::block::{Block, Ending, Step};
use super::hold::{Hold, InCode, Marker};
use super::reader::{End, Prose, leftover};
use super::{Calls, Decoder, Options, TextCall, TextEvent};

pub(super) struct Harmony {
    options: Options,
    hold: Hold,
    at: At,
    /// Text or reasoning on its way out.
    prose: Prose,
    /// The last thing told of is text, so that further text begins a new paragraph.
    has_spoken: bool,
    is_over: bool,
}

enum At {
    Between,
    Header(String),
    Speaking,
    Thinking,
    Calling { name: String, block: Block },
}

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const CONSTRAIN: &str = "<|constrain|>";

pub(super) const MARKERS: &[Marker] = &[
    Marker::token(START),
    Marker::token(CHANNEL),
    Marker::token(MESSAGE),
    Marker::token(CONSTRAIN),
    Marker::token("<|end|>"),
    Marker::token("<|call|>"),
    Marker::token("<|return|>"),
];

/// What a call ends at. The last two begin the next message.
const CALL_ENDS: &[&str] = &["<|call|>", "<|end|>", "<|return|>", START, CHANNEL];

impl Harmony {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            hold: Hold::new(MARKERS.to_vec(), InCode::Marker),
            at: At::Between,
            prose: Prose::default(),
            has_spoken: false,
            is_over: false,
        }
    }

    fn push_char(&mut self, c: char, events: &mut Vec<TextEvent>) {
        if self.is_over {
            return;
        }
        if let At::Calling { name: _, block } = &mut self.at {
            if let Step::Ended(length) = block.push(c) {
                self.end_call(length, events);
            }
            return;
        }
        if let Some((_, token)) = self.hold.push(c, &mut self.prose.fresh) {
            self.emit(events);
            self.take(&token);
        }
    }

    fn take(&mut self, token: &str) {
        let at = std::mem::replace(&mut self.at, At::Between);
        self.at = match (token, at) {
            (START, _) => At::Header(String::new()),
            (CHANNEL | CONSTRAIN, At::Header(header)) => At::Header(header + " "),
            (CHANNEL, _) => At::Header(String::new()),
            (MESSAGE, At::Header(header)) => self.begin(&header),
            (MESSAGE, _) => self.begin(""),
            (CONSTRAIN, at) => at,
            _ => At::Between,
        };
    }

    fn begin(&mut self, header: &str) -> At {
        self.prose.end();
        let header = Header::read(header);
        match header.to {
            Some(name) => At::Calling { name, block: Block::new(String::new(), Ending::Json(CALL_ENDS)) },
            None if header.is_thought => At::Thinking,
            None => {
                if self.has_spoken {
                    self.prose.fresh.push_str("\n\n");
                }
                At::Speaking
            }
        }
    }

    /// Tells of what came, as what it is. A header's words are not told of.
    fn emit(&mut self, events: &mut Vec<TextEvent>) {
        match &mut self.at {
            At::Between | At::Speaking => {
                let before = events.len();
                self.prose.emit(events);
                self.has_spoken |= events.len() > before;
            }
            At::Thinking => {
                let text = std::mem::take(&mut self.prose.fresh);
                if !text.is_empty() {
                    self.has_spoken = false;
                    events.push(TextEvent::Reasoning(text));
                }
            }
            At::Header(header) => header.push_str(&std::mem::take(&mut self.prose.fresh)),
            At::Calling { .. } => {}
        }
    }

    fn end_call(&mut self, length: usize, events: &mut Vec<TextEvent>) {
        let At::Calling { name, block } = std::mem::replace(&mut self.at, At::Between) else { return };
        self.call(&name, &block.body[..length], End::Closed, events);
        let mark = &block.body[length..];
        self.take(mark);
    }

    fn call(&mut self, name: &str, body: &str, end: End, events: &mut Vec<TextEvent>) {
        let input = arguments::read(body, end, self.options.notation);
        events.push(TextEvent::Call(arguments::call(name, input)));
        self.has_spoken = false;
        self.is_over = self.options.calls == Calls::FirstOnly;
    }
}

impl Decoder for Harmony {
    fn push(&mut self, text: &str) -> Vec<TextEvent> {
        let mut events = Vec::new();
        text.chars().for_each(|c| self.push_char(c, &mut events));
        self.emit(&mut events);
        events
    }

    fn finish(&mut self) -> Vec<TextEvent> {
        let mut events = Vec::new();
        if self.is_over {
            return events;
        }
        self.emit(&mut events);
        let held = self.hold.finish();
        match std::mem::replace(&mut self.at, At::Between) {
            At::Calling { name, block } => self.call(&name, &block.body, End::Cut, &mut events),
            At::Header(header) => events.extend(Header::cut(&(header + &held))),
            At::Thinking => events.extend(leftover(held).map(|event| match event {
                TextEvent::Text(text) => TextEvent::Reasoning(text),
                event @ (TextEvent::Reasoning(_) | TextEvent::Call(_) | TextEvent::Remnant(_)) => event,
            })),
            At::Between | At::Speaking => events.extend(leftover(held)),
        }
        events
    }
}

/// What stands before a message: `assistant commentary to=functions.read json`, in any order.
struct Header {
    /// The function that it is addressed to.
    to: Option<String>,
    is_thought: bool,
}

impl Header {
    fn read(header: &str) -> Self {
        let words = || header.split_whitespace();
        let to = words().find_map(|word| word.strip_prefix("to=")).filter(|to| *to != "assistant");
        let name = to.map(|to| to.strip_prefix("functions.").unwrap_or(to).to_owned());
        // A message from a function is a result that the model made up.
        let is_thought = words().any(|word| word == "analysis" || word == "to=assistant");
        Self { to: name, is_thought }
    }

    /// What a header was that the text ended in. A name may be cut, too, so it is not told.
    fn cut(header: &str) -> Option<TextEvent> {
        match Self::read(header).to {
            Some(_) => {
                let input = arguments::cut(header);
                Some(TextEvent::Call(TextCall { id: None, name: String::new(), input }))
            }
            None => (!header.is_empty()).then(|| TextEvent::Remnant(header.to_owned())),
        }
    }
}
