//! A model with calls of its own, behind a server that may leave them in the text.
//!
//! ```text
//!  reply's text ──▶ prose: shown as it comes
//!               ──▶ a call: withheld to the end ──▶ the reply ends in calls: they are its calls
//!                                               ──▶ it does not: it was text, and is shown
//! ```
//!
//! Nobody asked this model to write calls as text, so it may well be talking about one. A text is believed only if it
//! is what the server should have parsed: whole calls of tools on offer, with nothing between or behind them, in a
//! reply that stopped by itself and has no parsed calls. Otherwise the reply stays as it came, to the byte.

use super::model::{Listener, ReplyReading, call_deltas, translated};
use super::{Calls, Options, TextDialect, TextEvent};
use crate::model::{Model, ModelStream};
use futures_util::stream::{self, StreamExt};
use piton_core::call::{CallInput, ToolSpec};
use piton_core::message::{FinishReason, Part, ToolCall};
use piton_core::model::{Delta, ModelError, ModelEvent, Reply, Request};
use std::sync::Arc;

/// A model whose text is looked through.
pub struct FoundTools<M> {
    model: M,
    /// `None`: any.
    dialect: Option<TextDialect>,
    options: Options,
}

impl<M: Model> FoundTools<M> {
    /// Looks for calls in this dialect, or in any.
    pub fn new(model: M, dialect: Option<TextDialect>, options: Options) -> Self {
        Self { model, dialect, options }
    }
}

impl<M: Model> Model for FoundTools<M> {
    crate::model::described_by_its_model!();

    fn stream(&self, request: Request) -> ModelStream {
        if request.tools.is_empty() || !request.may_call {
            return self.model.stream(request);
        }
        let mut search = Search::new(Arc::clone(&request.tools), self.dialect, self.options);
        let replies = self.model.stream(request);
        Box::pin(replies.flat_map(move |item| stream::iter(search.take(item))))
    }
}

/// One reply being looked through.
struct Search {
    reading: ReplyReading,
    /// How many of the calls found count. To see whether the reply ends in calls, all are looked for.
    calls: Calls,
    /// `None`: nothing is looked for any more.
    listener: Option<Listener>,
    /// The text that came, and that of it that was shown.
    heard: String,
    shown: String,
    /// A call was found, so nothing is shown until it is known whether it is one.
    is_withheld: bool,
}

impl Search {
    fn new(tools: Arc<[ToolSpec]>, dialect: Option<TextDialect>, options: Options) -> Self {
        let reading = ReplyReading { tools, dialect, options: Options { calls: Calls::All, ..options } };
        let listener = Some(Listener::new(reading.clone()));
        let calls = options.calls;
        Self { reading, calls, listener, heard: String::new(), shown: String::new(), is_withheld: false }
    }

    fn take(&mut self, item: Result<ModelEvent, ModelError>) -> Vec<Result<ModelEvent, ModelError>> {
        let (deltas, last) = match item {
            Ok(ModelEvent::Delta(Delta::Text { text })) => (self.hear(text), None),
            Ok(ModelEvent::Delta(delta @ (Delta::CallBegan { .. } | Delta::CallInput { .. }))) => {
                (self.give_up().into_iter().chain([delta]).collect(), None)
            }
            Ok(ModelEvent::Delta(delta @ Delta::Reasoning { .. })) => (vec![delta], None),
            Ok(ModelEvent::Done(reply)) => match self.found(&reply) {
                Some(found) => (call_deltas(&found), Some(Ok(ModelEvent::Done(Box::new(found))))),
                None => (self.give_up(), Some(Ok(ModelEvent::Done(reply)))),
            },
            Err(error) => (Vec::new(), Some(Err(error))),
        };
        deltas.into_iter().map(|delta| Ok(ModelEvent::Delta(delta))).chain(last).collect()
    }

    fn hear(&mut self, text: String) -> Vec<Delta> {
        let Some(listener) = &mut self.listener else { return vec![Delta::Text { text }] };
        self.heard.push_str(&text);
        let mut deltas = Vec::new();
        for event in listener.hear(&text) {
            match event {
                _ if self.is_withheld => {}
                TextEvent::Text(text) => {
                    self.shown.push_str(&text);
                    deltas.push(Delta::Text { text });
                }
                TextEvent::Reasoning(text) => deltas.push(Delta::Reasoning { text }),
                TextEvent::Call(_) => self.is_withheld = true,
                TextEvent::Remnant(_) => {}
            }
        }
        deltas
    }

    /// The text is text: shows what of it was not.
    fn give_up(&mut self) -> Vec<Delta> {
        if self.listener.take().is_none() {
            return Vec::new();
        }
        // White space at the beginning was left out; tokens that end a message may have been, too. Where these stood in
        // the middle, something is shown twice rather than not at all.
        let heard = self.heard.trim_start();
        let shown = self.shown.trim_start();
        let same: usize = heard.chars().zip(shown.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
        let text = heard[same..].to_owned();
        if text.is_empty() { Vec::new() } else { vec![Delta::Text { text }] }
    }

    /// The reply with its text read, if that is to be believed.
    fn found(&self, reply: &Reply) -> Option<Reply> {
        let stopped = matches!(reply.finish, FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other);
        let is_parsed = reply.parts.iter().any(|part| matches!(part, Part::ToolCall(_)));
        if self.listener.is_none() || is_parsed || !stopped {
            return None;
        }
        let mut read = translated(reply.clone(), self.reading.clone());
        let Some(first) = read.parts.iter().position(|part| matches!(part, Part::ToolCall(_))) else {
            // Channels without a call: the thinking in them is no answer.
            return (thoughts(&read) > thoughts(reply)).then_some(read);
        };
        let (before, after) = read.parts.split_at(first);
        let ends_in_calls = after.iter().all(|part| match part {
            Part::ToolCall(call) => self.is_whole(call),
            Part::Text { text, .. } => text.trim().is_empty(),
            Part::Reasoning { .. } | Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => false,
        });
        if !ends_in_calls || ends_in_thought(before) {
            return None;
        }
        if self.calls == Calls::FirstOnly {
            read.parts.truncate(first + 1);
        }
        Some(read)
    }

    fn is_whole(&self, call: &ToolCall) -> bool {
        matches!(call.input, CallInput::Json(_)) && self.reading.tools.iter().any(|tool| tool.name == call.name)
    }
}

/// How open models mark thinking that their server leaves in the text. A call in it was considered, not made.
const THOUGHT: &str = "<think>";
const END_OF_THOUGHT: &str = "</think>";

/// Whether the text ends while the model still thinks.
fn ends_in_thought(parts: &[Part]) -> bool {
    let text: String = parts.iter().filter_map(text_of).collect();
    text.rfind(THOUGHT) > text.rfind(END_OF_THOUGHT)
}

fn text_of(part: &Part) -> Option<&str> {
    if let Part::Text { text, .. } = part { Some(text) } else { None }
}

fn thoughts(reply: &Reply) -> usize {
    reply.parts.iter().filter(|part| matches!(part, Part::Reasoning { .. })).count()
}
