//! What the next request is made of, measured without encoding it: each message is hashed once, when it is new. From
//! this follow the cache ledger's entry of the request and the most it can cost.

use crate::family::Kin;
use piton_core::budget::{Bound, Budget, Leave, Short, UpcomingCall, Used, WorstRates};
use piton_core::cache::CacheLedger;
use piton_core::event::{Event, Record};
use piton_core::message::{Message, Part, Role, Usage};
use piton_core::model::Request;
use piton_core::prompt::{PromptContents, Segment, SegmentKind};
use piton_core::request::Frame;
use piton_core::turn::State;
use piton_models::model::Model;
use std::sync::Arc;

/// The most tokens a picture is counted for. Providers scale pictures down, so that more is hardly possible.
const IMAGE_TOKENS: u64 = 10_000;

/// The most tokens that stand around a part of a message on the wire: roles, ids, brackets.
const AROUND_PART_TOKENS: u64 = 32;

/// What both allow.
fn stricter(one: Leave, other: Leave) -> Leave {
    match (one, other) {
        (Leave::Short(short), _) | (_, Leave::Short(short)) => Leave::Short(short),
        (Leave::Capped(one), Leave::Capped(other)) => Leave::Capped(one.min(other)),
        (Leave::Capped(most), Leave::Free) | (Leave::Free, Leave::Capped(most)) => Leave::Capped(most),
        (Leave::Free, Leave::Free) => Leave::Free,
    }
}

/// The prompts of a session: what was sent, and what is about to be.
#[derive(Default)]
pub(crate) struct Prompts {
    ledger: CacheLedger,
    frame: Option<(String, Frame, Segment)>,
    messages: Vec<(Arc<Message>, Segment)>,
    /// The call under way.
    call: Option<Asked>,
}

/// A call that was let go.
struct Asked {
    segments: Vec<Segment>,
    at_most: Bound,
}

/// The most that a request can cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CostEstimate {
    /// The most tokens that it can have.
    pub(crate) input_tokens: u64,
    /// What a token costs, where anybody knows.
    pub(crate) rates: Option<WorstRates>,
}

/// What a call may do.
pub(crate) enum Permit {
    /// It may be made, with a reply of so many tokens, where that is limited.
    Granted(Option<u32>),
    /// It may not be made. Says why.
    Short(Short),
}

impl Prompts {
    /// Takes notice of what happened; of all of it, whatever was taken back.
    pub(crate) fn hear(&mut self, record: &Record) {
        self.ledger.apply(record);
    }

    /// Measures the next call and checks it against the budget of its turn.
    pub(crate) fn permit(&mut self, session: &State, frame: &Frame, model: &dyn Model, kin: &Kin) -> Permit {
        if let Some(short) = kin.out_of_steps(session.id(), session.used()) {
            return Permit::Short(short);
        }
        let segments = self.measure(session, frame, model.name());
        let input_tokens = self.ledger.most_tokens(&segments);
        let price = model.price().map(|price| price.of_prompt(input_tokens));
        let call = UpcomingCall {
            model: model.name(),
            input_tokens,
            output_tokens: frame.max_output_tokens.or(model.limits().max_output_tokens),
            rates: price.map(|price| WorstRates { input: price.dearest_input(), output: price.output }),
        };
        match reserve(&call, frame.max_output_tokens, session, kin) {
            Ok((at_most, most)) => {
                self.call = Some(Asked { segments, at_most });
                Permit::Granted(most)
            }
            Err(short) => Permit::Short(short),
        }
    }

    /// Completes the event that a call ended in: what its prompt was, and what it may have used where nobody says.
    pub(crate) fn complete(&mut self, event: &mut Event, model: &dyn Model) {
        let Some(call) = self.call.take() else { return };
        match event {
            Event::MessageFinished { reply, cost_micros, at_most, prompt, .. } => {
                *cost_micros = cost(model, &reply.usage, reply.is_counted());
                *at_most = (!reply.is_counted()).then_some(call.at_most);
                *prompt = Some(Box::new(self.record(&call.segments, &reply.usage, model)));
            }
            Event::ModelFailed { error, usage, cost_micros, at_most, prompt, abandoned, .. } => {
                let is_counted = usage.is_told(!abandoned.is_empty());
                let may_be_billed = error.kind.may_be_billed() || !abandoned.is_empty();
                *cost_micros = if is_counted { cost(model, usage, true) } else { None };
                *at_most = (may_be_billed && !is_counted).then_some(call.at_most);
                *prompt = Some(Box::new(self.ledger.compare(&call.segments)));
            }
            _ => {}
        }
    }

    /// Measures a request for a summary: the session's own with a message more, or one that is like no other.
    pub(crate) fn estimate_summary(
        &mut self,
        session: &State,
        frame: &Frame,
        model: &dyn Model,
        messages: &[Arc<Message>],
        is_own: bool,
    ) -> CostEstimate {
        let segments: Vec<Segment> = if is_own {
            let last = messages.last().map(|message| measure_message(message));
            self.measure(session, frame, model.name()).into_iter().chain(last).collect()
        } else {
            let messages = messages.iter().map(|message| measure_message(message));
            std::iter::once(measure_frame(frame, model.name())).chain(messages).collect()
        };
        let input_tokens = self.ledger.most_tokens(&segments);
        let price = model.price().map(|price| price.of_prompt(input_tokens));
        if is_own {
            self.call = Some(Asked { segments, at_most: Bound::default() });
        }
        CostEstimate {
            input_tokens,
            rates: price.map(|price| WorstRates { input: price.dearest_input(), output: price.output }),
        }
    }

    /// The call under way is cut off: what it can have used at most.
    pub(crate) fn cut(&mut self) -> Option<Bound> {
        self.call.take().map(|call| call.at_most)
    }

    /// What the request for a summary was made of.
    pub(crate) fn complete_summary(&mut self, usage: &Usage, model: &dyn Model) -> Option<PromptContents> {
        let call = self.call.take()?;
        Some(self.record(&call.segments, usage, model))
    }

    fn record(&self, segments: &[Segment], usage: &Usage, model: &dyn Model) -> PromptContents {
        let lost = self.ledger.lost_tokens(usage);
        let lost_micros = model.price().map(|price| price.of_prompt(usage.input_tokens).cache_saving_micros(lost));
        PromptContents { lost_micros, ..self.ledger.compare(segments) }
    }

    fn measure(&mut self, session: &State, frame: &Frame, model: &str) -> Vec<Segment> {
        let first = match &self.frame {
            Some((of, before, segment)) if of == model && is_same(before, frame) => *segment,
            _ => {
                let segment = measure_frame(frame, model);
                self.frame = Some((model.to_owned(), frame.clone(), segment));
                segment
            }
        };
        let mut known = std::mem::take(&mut self.messages).into_iter();
        for message in session.transcript() {
            let segment = match known.next() {
                Some((before, segment)) if Arc::ptr_eq(&before, message) => segment,
                _ => measure_message(message),
            };
            self.messages.push((Arc::clone(message), segment));
        }
        std::iter::once(first).chain(self.messages.iter().map(|(_, segment)| *segment)).collect()
    }
}

/// Reserves the most that a call can use, if the session's budget and that of its family cover it. Answers that, and how many tokens
/// the reply may have: `wanted`, unless the budget covers less.
pub(crate) fn reserve(
    call: &UpcomingCall<'_>,
    wanted: Option<u32>,
    session: &State,
    kin: &Kin,
) -> Result<(Bound, Option<u32>), Short> {
    let own = call.leave(&session.policy().budget, &session.used());
    let decide = |budget: &Budget, used: &Used| match stricter(own, call.leave(budget, used)) {
        Leave::Free => {
            let at_most = call.at_most(call.longest_reply());
            (at_most, Ok((at_most, wanted)))
        }
        Leave::Capped(most) => (call.at_most(most), Ok((call.at_most(most), Some(most)))),
        Leave::Short(short) => (Bound::default(), Err(short)),
    };
    kin.reserve(session.id(), session.used(), &session.policy().budget, decide)
}

/// What a request that is like no other, and has no tools, can cost at its worst.
pub(crate) fn estimate_alone(request: &Request, model: &dyn Model) -> CostEstimate {
    let mut frame = Scale::new(SegmentKind::Frame);
    frame.add(&request.system);
    frame.bytes += AROUND_PART_TOKENS;
    let messages = request.messages.iter().map(|message| measure_message(message));
    let segments: Vec<Segment> = std::iter::once(frame.segment(SegmentKind::Frame)).chain(messages).collect();
    let input_tokens = CacheLedger::default().most_tokens(&segments);
    let price = model.price().map(|price| price.of_prompt(input_tokens));
    CostEstimate {
        input_tokens,
        rates: price.map(|price| WorstRates { input: price.dearest_input(), output: price.output }),
    }
}

/// What a call cost, where its price is known and its tokens were counted. A model that costs nothing costs that much
/// uncounted, too.
pub(crate) fn cost(model: &dyn Model, usage: &Usage, is_counted: bool) -> Option<u64> {
    let price = model.price()?;
    (is_counted || price.is_free()).then(|| price.cost_micros(usage))
}

/// A segment in the making.
struct Scale {
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Scale {
    fn new(kind: SegmentKind) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[kind as u8]);
        Self { hasher, bytes: 0 }
    }

    fn add(&mut self, text: &str) {
        let length = text.len() as u64;
        self.hasher.update(&length.to_le_bytes()).update(text.as_bytes());
        self.bytes = self.bytes.saturating_add(length);
    }

    fn segment(self, kind: SegmentKind) -> Segment {
        let mut hash = [0; 8];
        self.hasher.finalize_xof().fill(&mut hash);
        Segment { kind, hash: u64::from_le_bytes(hash), bytes: self.bytes }
    }
}

/// Whether it is the very same, which is told by its pointers: a hook may have changed it.
fn is_same(one: &Frame, other: &Frame) -> bool {
    Arc::ptr_eq(&one.system, &other.system) && Arc::ptr_eq(&one.tools, &other.tools)
}

/// The version of Piton is part of it: another one may say the same messages in other words.
fn measure_frame(frame: &Frame, model: &str) -> Segment {
    let mut scale = Scale::new(SegmentKind::Frame);
    scale.add(env!("CARGO_PKG_VERSION"));
    scale.add(model);
    scale.add(&frame.system);
    for tool in frame.tools.iter() {
        scale.add(&tool.name);
        scale.add(&tool.description);
        scale.add(&tool.schema.to_string());
    }
    scale.bytes += AROUND_PART_TOKENS * (1 + frame.tools.len() as u64);
    scale.segment(SegmentKind::Frame)
}

fn measure_message(message: &Message) -> Segment {
    let kind = match message.role {
        Role::User => SegmentKind::User,
        Role::Assistant => SegmentKind::Assistant,
        Role::Tool => SegmentKind::Tool,
    };
    let mut scale = Scale::new(kind);
    for part in &message.parts {
        measure_part(part, &mut scale);
        scale.bytes += AROUND_PART_TOKENS;
    }
    scale.segment(kind)
}

/// What of a part is sent. Of a tool's outcome that is the text only.
fn measure_part(part: &Part, scale: &mut Scale) {
    match part {
        Part::ToolResult { call, tool, outcome } => {
            scale.add(call.as_str());
            scale.add(tool);
            scale.add(if outcome.status.is_error() { "error" } else { "output" });
            scale.add(&outcome.text);
        }
        Part::Image { media_type, data } => {
            let before = scale.bytes;
            scale.add(media_type);
            scale.add(data);
            scale.bytes = before + IMAGE_TOKENS;
        }
        Part::Text { .. } | Part::Reasoning { .. } | Part::ToolCall(_) | Part::Note { .. } => {
            // Our own types always are JSON.
            scale.add(&serde_json::to_string(part).unwrap_or_default());
        }
    }
}
