//! A model that calls tools, made of one that writes text.

use super::render::Speech;
use super::{Buffer, Calls, Decoder, Options, Showing, TextCall, TextDialect, TextEvent};
use crate::draft::settled;
use crate::model::{Model, ModelStream};
use futures_util::stream::{self, StreamExt};
use piton_core::call::{CallInput, ToolSpec};
use piton_core::ids::CallId;
use piton_core::message::{Part, ToolCall};
use piton_core::model::{Delta, ModelError, ModelEvent, Reply, Request};
use std::sync::Arc;

/// A model without native calls (or behind a server that does not parse them), with calls.
///
/// Requests go to it without tools: they are in the prompt, and the history's calls and results in its text. Replies
/// are searched for calls, whether tools were on offer or not: a model that saw calls may write one all the same, and
/// the loop knows how to refuse it.
pub struct TextTools<M> {
    model: M,
    speech: Speech,
    /// `None`: found by looking.
    dialect: Option<TextDialect>,
    options: Options,
}

impl<M: Model> TextTools<M> {
    /// Teaches `<use_tool>`, and understands every dialect.
    pub fn new(model: M) -> Self {
        Self { model, speech: Speech::default(), dialect: None, options: Options::default() }
    }

    /// Teaches this instead.
    pub fn teaching(self, speech: Speech) -> Self {
        Self { speech, ..self }
    }

    /// Understands this dialect only.
    pub fn reading(self, dialect: TextDialect) -> Self {
        Self { dialect: Some(dialect), ..self }
    }

    /// Reads by these options.
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }
}

impl<M: Model> Model for TextTools<M> {
    crate::model::described_by_its_model!();

    fn stream(&self, request: Request) -> ModelStream {
        let reading = ReplyReading { tools: Arc::clone(&request.tools), dialect: self.dialect, options: self.options };
        let mut translation = Translation::new(reading);
        let replies = self.model.stream(self.speech.request(request, self.options.calls));
        Box::pin(replies.flat_map(move |item| stream::iter(translation.take(item))))
    }
}

/// How to read a reply.
#[derive(Clone)]
pub(super) struct ReplyReading {
    pub(super) tools: Arc<[ToolSpec]>,
    /// `None`: found out by looking.
    pub(super) dialect: Option<TextDialect>,
    pub(super) options: Options,
}

/// Reads the texts of one reply, one after another.
pub(super) struct Listener {
    reading: ReplyReading,
    decoder: Option<Box<dyn Decoder>>,
    /// Only the first call counts, and it came.
    is_over: bool,
}

impl Listener {
    pub(super) fn new(reading: ReplyReading) -> Self {
        Self { reading, decoder: None, is_over: false }
    }

    /// More of the text.
    pub(super) fn hear(&mut self, text: &str) -> Vec<TextEvent> {
        if self.is_over || text.is_empty() {
            return Vec::new();
        }
        let ReplyReading { tools, dialect, options } = &self.reading;
        let decoder = self.decoder.get_or_insert_with(|| match dialect {
            Some(dialect) => dialect.decoder(Arc::clone(tools), *options),
            None => TextDialect::any(Arc::clone(tools), *options),
        });
        let events = decoder.push(text);
        self.noted(events)
    }

    /// The text is over, or interrupted by something else.
    fn pause(&mut self) -> Vec<TextEvent> {
        let events = self.decoder.take().map(|mut decoder| decoder.finish());
        self.noted(events.unwrap_or_default())
    }

    fn noted(&mut self, events: Vec<TextEvent>) -> Vec<TextEvent> {
        let has_call = events.iter().any(|event| matches!(event, TextEvent::Call(_)));
        self.is_over |= has_call && self.reading.options.calls == Calls::FirstOnly;
        events
    }
}

/// One reply on its way. Its deltas are for people to watch; the reply itself is read once more when it is whole.
struct Translation {
    listener: Listener,
    /// What is shown of the prose, where that is not what was understood of it.
    buffer: Option<Buffer>,
    calls: usize,
}

impl Translation {
    fn new(reading: ReplyReading) -> Self {
        let buffer = (reading.options.showing == Showing::Buffered).then(Buffer::default);
        Self { listener: Listener::new(reading), buffer, calls: 0 }
    }

    fn take(&mut self, item: Result<ModelEvent, ModelError>) -> Vec<Result<ModelEvent, ModelError>> {
        let mut deltas = Vec::new();
        let last = match item {
            Ok(ModelEvent::Delta(Delta::Text { text })) => {
                let shown = self.buffer.as_mut().and_then(|buffer| buffer.push(&text));
                deltas.extend(shown.map(|text| Delta::Text { text }));
                let events = self.listener.hear(&text);
                self.tell(events, &mut deltas);
                None
            }
            Ok(ModelEvent::Delta(delta)) => {
                self.pause(&mut deltas);
                deltas.push(delta);
                None
            }
            Ok(ModelEvent::Done(reply)) => {
                let shown = self.buffer.as_mut().and_then(Buffer::finish);
                deltas.extend(shown.map(|text| Delta::Text { text }));
                self.pause(&mut deltas);
                Some(Ok(ModelEvent::Done(Box::new(translated(*reply, self.listener.reading.clone())))))
            }
            Err(error) => Some(Err(error)),
        };
        deltas.into_iter().map(|delta| Ok(ModelEvent::Delta(delta))).chain(last).collect()
    }

    fn pause(&mut self, deltas: &mut Vec<Delta>) {
        let events = self.listener.pause();
        self.tell(events, deltas);
    }

    fn tell(&mut self, events: Vec<TextEvent>, deltas: &mut Vec<Delta>) {
        for event in events {
            match event {
                TextEvent::Text(_) if self.buffer.is_some() => {}
                TextEvent::Text(text) => deltas.push(Delta::Text { text }),
                TextEvent::Reasoning(text) => deltas.push(Delta::Reasoning { text }),
                TextEvent::Call(TextCall { id: _, name, input }) => {
                    deltas.extend(began(self.calls, name, &input));
                    self.calls += 1;
                }
                TextEvent::Remnant(_) => {}
            }
        }
    }
}

/// The whole reply. Where the server parsed the calls itself, they are the calls: some leave them in the text as well.
/// Where a piece of the text was lost, nobody knows whether it was a piece of a call.
pub(super) fn translated(reply: Reply, reading: ReplyReading) -> Reply {
    let is_parsed = reply.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let mut listener = Listener::new(reading);
    let mut parts = Vec::new();
    for part in reply.parts {
        match part {
            Part::Text { text, .. } => extend(&mut parts, listener.hear(&text), is_parsed),
            part => {
                extend(&mut parts, listener.pause(), is_parsed);
                parts.push(part);
            }
        }
    }
    extend(&mut parts, listener.pause(), is_parsed);
    if !is_parsed && !reply.warnings.is_empty() {
        parts = parts.into_iter().map(doubted).collect();
    }
    let has_calls = parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
    Reply { finish: settled(reply.finish, has_calls), parts, ..reply }
}

fn doubted(part: Part) -> Part {
    match part {
        Part::ToolCall(call) => Part::ToolCall(ToolCall { input: call.input.doubtful(), ..call }),
        other => other,
    }
}

fn extend(parts: &mut Vec<Part>, events: Vec<TextEvent>, is_parsed: bool) {
    for event in events {
        match (parts.last_mut(), event) {
            (Some(Part::Text { text, .. }), TextEvent::Text(more) | TextEvent::Remnant(more)) => text.push_str(&more),
            (_, TextEvent::Text(text) | TextEvent::Remnant(text)) => parts.push(Part::text(text)),
            (Some(Part::Reasoning { text, opaque: None }), TextEvent::Reasoning(more)) => text.push_str(&more),
            (_, TextEvent::Reasoning(text)) => parts.push(Part::Reasoning { text, opaque: None }),
            (_, TextEvent::Call(_)) if is_parsed => {}
            (_, TextEvent::Call(TextCall { id, name, input })) => {
                // The loop gives it its id.
                let id_of_ours = CallId(String::new());
                parts.push(Part::ToolCall(ToolCall {
                    id: id_of_ours,
                    provider_id: id,
                    name,
                    spelling: None,
                    input,
                    opaque: None,
                }));
            }
        }
    }
}

/// A reply's calls as its deltas would have told of them.
pub(super) fn call_deltas(reply: &Reply) -> Vec<Delta> {
    let calls = reply.parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None });
    calls.enumerate().flat_map(|(index, call)| began(index, call.name.clone(), &call.input)).collect()
}

fn began(index: usize, name: String, input: &CallInput) -> [Delta; 2] {
    [Delta::CallBegan { index, name }, Delta::CallInput { index, json: written(input) }]
}

fn written(input: &CallInput) -> String {
    match input {
        CallInput::Json(value) => value.to_string(),
        CallInput::Invalid { raw, error: _ } => raw.clone(),
    }
}
