//! The ways in which models write calls, and how to tell which one a model speaks: by its name, or by looking.

use super::deepseek::DeepSeek;
use super::glm::{self, Glm};
use super::harmony::{self, Harmony};
use super::hermes::Hermes;
use super::hold::{Fit, Hold, InCode, Marker, Role, Shape};
use super::kimi::Kimi;
use super::llama::Llama;
use super::mistral::Mistral;
use super::qwen_coder::{self, QwenCoder};
use super::reader::{Grammar, Prose, Reader, leftover};
use super::schema::Tools;
use super::use_tool::UseTool;
use super::{Decoder, Options, TextEvent};
use piton_core::call::ToolSpec;
use std::sync::Arc;

/// A way to write calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TextDialect {
    /// `<use_tool>` with a name and JSON: Piton's own.
    UseTool,
    /// `<tool_call>` with JSON: Hermes, Qwen 2.5 and 3, and many fine-tunes.
    Hermes,
    /// `<function=…><parameter=…>`: Qwen3-Coder.
    QwenCoder,
    /// `<tool_call>` with `<arg_key>` and `<arg_value>`: GLM from 4.5 on.
    Glm,
    /// `<|tool_call_begin|>`: Kimi K2.
    Kimi,
    /// `<｜tool▁call▁begin｜>`: DeepSeek V3, R1, V3.1.
    DeepSeek,
    /// `[TOOL_CALLS]`: Mistral.
    Mistral,
    /// JSON or Python as the whole message: Llama 3 and 4.
    Llama,
    /// Channels: gpt-oss.
    Harmony,
}

/// The dialect that a model of this name was trained on, as far as names tell.
pub fn detect(model_name: &str) -> Option<TextDialect> {
    // The first that fits: fine-tunes carry the name of what they were made from, and speak their maker's dialect.
    const NAMES: [(&str, TextDialect); 23] = [
        ("gpt-oss", TextDialect::Harmony),
        ("hermes", TextDialect::Hermes),
        ("deepseek", TextDialect::DeepSeek),
        ("kimi", TextDialect::Kimi),
        ("moonlight", TextDialect::Kimi),
        ("glm-4.5", TextDialect::Glm),
        ("glm-4.6", TextDialect::Glm),
        ("glm-4.7", TextDialect::Glm),
        ("glm-5", TextDialect::Glm),
        ("qwen3-coder", TextDialect::QwenCoder),
        ("qwen3coder", TextDialect::QwenCoder),
        ("qwen3.5", TextDialect::QwenCoder),
        ("qwen", TextDialect::Hermes),
        ("qwq", TextDialect::Hermes),
        ("mistral", TextDialect::Mistral),
        ("mixtral", TextDialect::Mistral),
        ("ministral", TextDialect::Mistral),
        ("magistral", TextDialect::Mistral),
        ("devstral", TextDialect::Mistral),
        ("codestral", TextDialect::Mistral),
        ("pixtral", TextDialect::Mistral),
        ("llama-", TextDialect::Llama),
        ("llama3", TextDialect::Llama),
    ];
    let name = model_name.to_ascii_lowercase().replace('_', "-");
    NAMES.iter().find(|(part, _)| name.contains(part)).map(|(_, dialect)| *dialect)
}

impl TextDialect {
    /// All of them. Where two share a marker, the one to try first is first.
    pub const ALL: [Self; 9] = [
        Self::UseTool,
        Self::Hermes,
        Self::QwenCoder,
        Self::Glm,
        Self::Kimi,
        Self::DeepSeek,
        Self::Mistral,
        Self::Llama,
        Self::Harmony,
    ];

    /// Reads a reply in this dialect. The tools say what untyped arguments mean, and which names are names of tools;
    /// none at all: nobody knows.
    pub fn decoder(self, tools: Arc<[ToolSpec]>, options: Options) -> Box<dyn Decoder> {
        let tools = Tools::new(tools);
        let notation = options.notation;
        match self {
            Self::UseTool => reader(UseTool { notation }, options),
            Self::Hermes => reader(Hermes { notation }, options),
            Self::QwenCoder => reader(QwenCoder { tools, notation }, options),
            Self::Glm => reader(Glm { tools }, options),
            Self::Kimi => reader(Kimi { notation }, options),
            Self::DeepSeek => reader(DeepSeek { notation }, options),
            Self::Mistral => reader(Mistral { notation }, options),
            Self::Llama => reader(Llama { tools, notation }, options),
            Self::Harmony => Box::new(Harmony::new(options)),
        }
    }

    /// Reads a reply in whichever dialect it turns out to be: that of the first call in it.
    pub fn any(tools: Arc<[ToolSpec]>, options: Options) -> Box<dyn Decoder> {
        Box::new(Looking { tools, options, undecided: Undecided::new(), state: State::Undecided })
    }

    fn markers(self) -> &'static [Marker] {
        match self {
            Self::UseTool => super::use_tool::MARKERS,
            Self::Hermes => super::hermes::MARKERS,
            Self::QwenCoder => super::qwen_coder::MARKERS,
            Self::Glm => super::glm::MARKERS,
            Self::Kimi => super::kimi::MARKERS,
            Self::DeepSeek => super::deepseek::MARKERS,
            Self::Mistral => super::mistral::MARKERS,
            Self::Llama => super::llama::MARKERS,
            Self::Harmony => harmony::MARKERS,
        }
    }
}

fn reader(grammar: impl Grammar + 'static, options: Options) -> Box<dyn Decoder> {
    Box::new(Reader::new(grammar, options))
}

/// A reader that does not know yet what it reads.
///
/// ```text
///                marker                         call
///   Undecided ───────────▶ Trial (a dialect) ─────────▶ Decided
///       ▲  │ <tool_call>     ▲          │ text: it was no call
///       │  └───▶ Choosing ───┘          │
///       └───────────────────────────────┘ (what came is looked at once more, but for its first character)
/// ```
struct Looking {
    tools: Arc<[ToolSpec]>,
    options: Options,
    undecided: Undecided,
    state: State,
}

/// Prose so far.
struct Undecided {
    hold: Hold,
    prose: Prose,
}

enum State {
    Undecided,
    /// `<tool_call>`, and what follows it. Three dialects begin so.
    Choosing {
        opener: String,
        body: String,
    },
    Trial(Trial),
    Decided(Box<dyn Decoder>),
}

/// A dialect that may be it.
struct Trial {
    decoder: Box<dyn Decoder>,
    /// What to look at again if it is not. A marker that is noise does not come back.
    text: String,
    /// How much of that stays prose whatever follows.
    passed: usize,
}

/// What three dialects begin with.
const TOOL_CALL: Marker = Marker::tag("tool_call");

impl Undecided {
    fn new() -> Self {
        let markers = TextDialect::ALL.iter().flat_map(|dialect| dialect.markers()).copied().collect();
        Self { hold: Hold::new(markers, InCode::Quoted), prose: Prose::default() }
    }
}

impl Looking {
    fn push_char(&mut self, c: char, events: &mut Vec<TextEvent>) {
        match &mut self.state {
            State::Undecided => self.look(c, events),
            State::Choosing { opener, body } => {
                body.push(c);
                if let (dialect, Fit::Yes) = behind_tool_call(body) {
                    let text = format!("{opener}{body}");
                    self.begin(dialect, &text, TOOL_CALL, events);
                }
            }
            State::Trial(trial) => {
                trial.text.push(c);
                let found = trial.decoder.push(c.encode_utf8(&mut [0; 4]));
                self.judge(found, events);
            }
            State::Decided(decoder) => events.extend(decoder.push(c.encode_utf8(&mut [0; 4]))),
        }
    }

    fn look(&mut self, c: char, events: &mut Vec<TextEvent>) {
        let Undecided { hold, prose } = &mut self.undecided;
        let Some((marker, text)) = hold.push(c, &mut prose.fresh) else { return };
        prose.emit(events);
        let speaks = |dialect: &TextDialect| dialect.markers().contains(&marker);
        match TextDialect::ALL.into_iter().find(speaks) {
            Some(_) if marker == TOOL_CALL => {
                self.state = State::Choosing { opener: text, body: String::new() };
            }
            Some(dialect) => self.begin(dialect, &text, marker, events),
            None => {}
        }
    }

    fn begin(&mut self, dialect: TextDialect, text: &str, marker: Marker, events: &mut Vec<TextEvent>) {
        let mut decoder = dialect.decoder(Arc::clone(&self.tools), self.options);
        let found = decoder.push(text);
        if dialect == TextDialect::Harmony {
            // Its channels are beyond doubt, and their text is text.
            events.extend(found);
            self.state = State::Decided(decoder);
        } else {
            let (text, passed) = match (marker.role, marker.shape) {
                (Role::Noise, _) => ("", 0),
                (Role::Opens, Shape::First(_)) => (text, 0),
                // A `<` or `[`.
                (Role::Opens, Shape::Token(_) | Shape::Tag(_)) => (text, 1),
            };
            self.state = State::Trial(Trial { decoder, text: text.to_owned(), passed });
            self.judge(found, events);
        }
    }

    /// What a dialect on trial found: a call decides for it, text against it.
    fn judge(&mut self, found: Vec<TextEvent>, events: &mut Vec<TextEvent>) {
        if found.is_empty() {
            return;
        }
        if let State::Trial(trial) = std::mem::replace(&mut self.state, State::Undecided) {
            if is_refusal(&found) {
                self.look_again(&trial, events);
            } else {
                events.extend(found);
                self.state = State::Decided(trial.decoder);
            }
        }
    }

    /// What opened the trial is prose; behind its first character, or with it, there may still be a call.
    fn look_again(&mut self, trial: &Trial, events: &mut Vec<TextEvent>) {
        let Undecided { hold, prose } = &mut self.undecided;
        let (passed, rest) = trial.text.split_at(trial.passed);
        hold.pass(passed, &mut prose.fresh);
        hold.begin_message();
        rest.chars().for_each(|c| self.push_char(c, events));
    }
}

/// Which dialect writes this behind `<tool_call>`, and whether that is certain.
fn behind_tool_call(body: &str) -> (TextDialect, Fit) {
    if body.trim().is_empty() {
        return (TextDialect::Hermes, Fit::Maybe);
    }
    let fits = [(TextDialect::QwenCoder, qwen_coder::body_fit(body)), (TextDialect::Glm, glm::body_fit(body))];
    // JSON, or words before it.
    fits.into_iter().find(|(_, fit)| *fit != Fit::No).unwrap_or((TextDialect::Hermes, Fit::Yes))
}

fn is_refusal(found: &[TextEvent]) -> bool {
    found.iter().any(|event| matches!(event, TextEvent::Text(_)))
}

impl Decoder for Looking {
    fn push(&mut self, text: &str) -> Vec<TextEvent> {
        let mut events = Vec::new();
        for (at, c) in text.char_indices() {
            if let State::Decided(decoder) = &mut self.state {
                events.extend(decoder.push(&text[at..]));
                return events;
            }
            self.push_char(c, &mut events);
        }
        self.undecided.prose.emit(&mut events);
        events
    }

    fn finish(&mut self) -> Vec<TextEvent> {
        let mut events = Vec::new();
        loop {
            match std::mem::replace(&mut self.state, State::Undecided) {
                State::Undecided => {
                    self.undecided.prose.emit(&mut events);
                    events.extend(leftover(self.undecided.hold.finish()));
                    return events;
                }
                State::Choosing { opener, body } => {
                    self.begin(behind_tool_call(&body).0, &format!("{opener}{body}"), TOOL_CALL, &mut events);
                }
                State::Trial(mut trial) => {
                    let found = trial.decoder.finish();
                    if !is_refusal(&found) {
                        events.extend(found);
                        return events;
                    }
                    self.look_again(&trial, &mut events);
                }
                State::Decided(mut decoder) => {
                    events.extend(decoder.finish());
                    return events;
                }
            }
        }
    }
}
