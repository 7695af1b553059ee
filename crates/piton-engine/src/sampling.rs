//! Models that MCP servers ask while their tools run (sampling).
//!
//! A rule or a person allows it, the budget of the session's family pays, and what was asked and used is on record before the server gets
//! the answer. Text and pictures go in, text comes out. This module must not know how a person is asked.

use crate::inbox::{Affordable, Afforded, Asked, WeakInbox};
use crate::prompt::{self, CostEstimate};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt as _;
use piton_core::budget::{Bound, dollars};
use piton_core::event::{Event, Sampled};
use piton_core::hidden;
use piton_core::ids::{CallId, SessionId};
use piton_core::limits::{IMAGE_BYTES, STREAM_SILENT_MS};
use piton_core::message::{FinishReason, Message, Part, Role, Usage, prose};
use piton_core::model::{ModelError, ModelEvent, Reply, Request};
use piton_core::permission::{Action, Rules};
use piton_core::question::{Question, QuestionBlock};
use piton_core::secrets::{Depth, Firewall};
use piton_core::server_tool;
use piton_models::model::Model;
use piton_tools::read::{image_type, picture_fault};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of a prompt: a person reads all of it.
const MOST_PROMPT_BYTES: usize = 64 << 10;
/// Pictures of a prompt.
const MOST_PICTURES: usize = 8;
/// Tokens of an answer.
const MOST_TOKENS: u32 = 16_000;
const SILENCE: Duration = Duration::from_millis(STREAM_SILENT_MS);

/// What the servers of a session ask models with.
pub(crate) struct Sampler {
    pub(crate) session: SessionId,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) rules: Rules,
    pub(crate) firewall: Firewall,
    pub(crate) inbox: WeakInbox,
    /// One request at a time in a session, so that what each reserves is known to the next.
    pub(crate) turn: Arc<Mutex<()>>,
}

/// What a server wants to ask.
pub(crate) struct Prompt {
    system: String,
    messages: Vec<(Role, Vec<Part>)>,
    most_tokens: u32,
}

/// Whether a rule allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByRule {
    Allowed,
    Denied,
    /// A person must be asked.
    Open,
}

impl Prompt {
    /// Reads `sampling/createMessage`.
    fn read(request: &Value, firewall: &Firewall) -> Result<Self, String> {
        let clean = |text: &str| firewall.cleaned(text, Depth::Everything).into_owned();
        if request.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty()) {
            return Err("this client samples without tools".to_owned());
        }
        let system = clean(request.get("systemPrompt").and_then(Value::as_str).unwrap_or_default());
        let mut messages = Vec::new();
        for message in request.get("messages").and_then(Value::as_array).into_iter().flatten() {
            let role = match message.get("role").and_then(Value::as_str) {
                Some("user") => Role::User,
                Some("assistant") => Role::Assistant,
                _ => return Err("a message is from `user` or `assistant`".to_owned()),
            };
            messages.push((role, parts_of(message.get("content").unwrap_or(&Value::Null), clean)?));
        }
        let parts = || messages.iter().flat_map(|(_, parts): &(Role, Vec<Part>)| parts);
        let text_bytes = |part: &Part| if let Part::Text { text, .. } = part { text.len() } else { 0 };
        if messages.is_empty() || system.len() + parts().map(text_bytes).sum::<usize>() > MOST_PROMPT_BYTES {
            return Err(format!("a prompt has messages, and at most {MOST_PROMPT_BYTES} bytes of text"));
        }
        if parts().filter(|part| is_picture(part)).count() > MOST_PICTURES {
            return Err(format!("a prompt has at most {MOST_PICTURES} pictures"));
        }
        let most = request.get("maxTokens").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let most_tokens = u32::try_from(most).unwrap_or(u32::MAX).clamp(1, MOST_TOKENS);
        Ok(Self { system, messages, most_tokens })
    }

    /// All of it, as people read it.
    fn shown(&self) -> String {
        let mut text = String::new();
        if !self.system.is_empty() {
            let _ = write!(text, "system:\n{}\n\n", hidden::visible(&self.system));
        }
        for (role, parts) in &self.messages {
            let role = if *role == Role::User { "user" } else { "assistant" };
            let words: Vec<String> = parts.iter().map(words).collect();
            let _ = write!(text, "{role}:\n{}\n\n", words.join("\n\n"));
        }
        text.trim_end().to_owned()
    }
}

/// A part as people read it.
fn words(part: &Part) -> String {
    match part {
        Part::Text { text, .. } => hidden::visible(text).into_owned(),
        Part::Image { media_type, data } => {
            // Four characters for three bytes.
            let kilobytes = (data.len() / 4 * 3).div_ceil(1_000);
            format!("[a picture, {media_type}, {kilobytes} kB, which cannot be shown here]")
        }
        _ => String::new(),
    }
}

fn is_picture(part: &Part) -> bool {
    matches!(part, Part::Image { .. })
}

/// The parts of a message: its texts, cleaned, and its pictures.
fn parts_of(content: &Value, clean: impl Fn(&str) -> String) -> Result<Vec<Part>, String> {
    let block = |block: &Value| match block.get("type").and_then(Value::as_str) {
        Some("text") => {
            let text = block.get("text").and_then(Value::as_str).ok_or("a block of text has no text")?;
            Ok(Part::text(clean(text)))
        }
        Some("image") => picture(block),
        Some("tool_use" | "tool_result") => Err("this client samples without tools".to_owned()),
        _ => Err("only text and pictures can be sampled here".to_owned()),
    };
    match content {
        Value::Array(blocks) => blocks.iter().map(block).collect(),
        one => Ok(vec![block(one)?]),
    }
}

/// A picture as its bytes say, whatever the server says of it.
fn picture(block: &Value) -> Result<Part, String> {
    let data = block.get("data").and_then(Value::as_str).unwrap_or_default();
    let bytes = BASE64_STANDARD.decode(data).map_err(|_| "a picture is not base64")?;
    let kind = image_type(&bytes).ok_or("unsupported picture format: PNG, JPEG, GIF and WebP can be sampled")?;
    let too_large = u64::try_from(bytes.len()).map_or(true, |bytes| bytes > IMAGE_BYTES);
    let fault = if too_large { Some("it is larger than models take") } else { picture_fault(kind, &bytes) };
    match fault {
        Some(fault) => Err(format!("a picture cannot be sampled: {fault}")),
        None => Ok(Part::Image { media_type: kind.to_owned(), data: BASE64_STANDARD.encode(bytes) }),
    }
}

impl Sampler {
    /// What the rules for `sampling__SERVER` say. No mode allows it, and no rule for the server's tools.
    pub(crate) fn by_rule(&self, server: &str) -> ByRule {
        match self.rules.of_sampling(&server_tool::sampling(server)) {
            Some(Action::Allow) => ByRule::Allowed,
            Some(Action::Deny) => ByRule::Denied,
            Some(Action::Ask) | None => ByRule::Open,
        }
    }

    /// Reads `sampling/createMessage`, if the model can be asked it.
    pub(crate) fn read(&self, request: &Value) -> Result<Prompt, String> {
        let prompt = Prompt::read(request, &self.firewall)?;
        let has_pictures = prompt.messages.iter().flat_map(|(_, parts)| parts).any(is_picture);
        if has_pictures && self.model.limits().images != Some(true) {
            return Err(format!("{} does not look at pictures", self.model.name()));
        }
        Ok(prompt)
    }

    /// The question whether a server may ask this.
    pub(crate) fn question(&self, server: &str, prompt: &Prompt) -> Question {
        let CostEstimate { input_tokens, rates } = prompt::estimate_alone(&self.request(prompt), &*self.model);
        let output = f64::from(prompt.most_tokens);
        let cost = rates.map(|rates| (input_tokens as f64 * rates.input + output * rates.output).ceil() as u64);
        let cost = cost.map_or_else(|| "an unknown price".to_owned(), |cost| format!("${}", dollars(cost)));
        let limit = format!("At most {} tokens for the answer, and {cost} in all.", prompt.most_tokens);
        let rule = format!("The rule {} would allow it without a question.", server_tool::sampling(server));
        let body =
            vec![QuestionBlock::Text { text: prompt.shown() }, QuestionBlock::Note { text: format!("{limit} {rule}") }];
        let title = format!("Let the server {server} ask {} this?", self.model.name());
        Question::may_run(title, body, Rules::default())
    }

    /// Asks the model. The answer is a message as the protocol has it. What was used is recorded even if nobody waits for the answer
    /// any more.
    pub(crate) async fn ask(
        self: Arc<Self>,
        call: CallId,
        server: String,
        prompt: Prompt,
        stop: CancellationToken,
    ) -> Result<Value, String> {
        let asking = tokio::spawn(async move { self.ask_and_record((&call, &server), &prompt, &stop).await });
        asking.await.unwrap_or_else(|_| Err("asking the model failed inside Piton".to_owned()))
    }

    async fn ask_and_record(
        &self,
        (call, server): (&CallId, &str),
        prompt: &Prompt,
        stop: &CancellationToken,
    ) -> Result<Value, String> {
        let _turn = self.turn.lock().await;
        if stop.is_cancelled() {
            return Err("the call was stopped".to_owned());
        }
        let mut request = self.request(prompt);
        let afforded = self.afford(&request, prompt).await?;
        request.max_output_tokens = Some(afforded.output_tokens);
        let asked = Instant::now();
        let heard = tokio::select! {
            biased;
            () = stop.cancelled() => Heard::Cut,
            heard = hear(&*self.model, request) => heard,
        };
        let (mut sampled, answer) = self.came_of(heard, prompt, afforded.at_most);
        sampled.took_ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        let event = Event::ServerSampled { call: call.clone(), server: server.to_owned(), sampled: Box::new(sampled) };
        let (done, recorded) = oneshot::channel();
        let gone = || "the session cannot record it any more".to_owned();
        self.inbox.put(Asked::Record(vec![event], done)).map_err(|_| gone())?;
        recorded.await.map_err(|_| gone())?;
        answer
    }

    fn request(&self, prompt: &Prompt) -> Request {
        let name = self.model.name();
        let message = |(role, parts): &(Role, Vec<Part>)| Arc::new(Message::new(*role, parts.clone()));
        Request {
            session: self.session.to_string(),
            model: name.split_once('/').map_or(name, |(_, model)| model).to_owned(),
            system: prompt.system.clone(),
            tools: Arc::new([]),
            may_call: false,
            messages: prompt.messages.iter().map(message).collect(),
            max_output_tokens: Some(prompt.most_tokens),
        }
    }

    async fn afford(&self, request: &Request, prompt: &Prompt) -> Result<Afforded, String> {
        let (answer, answered) = oneshot::channel();
        let gone = || "the session is over".to_owned();
        let wanted = Affordable {
            model: self.model.name().to_owned(),
            estimate: prompt::estimate_alone(request, &*self.model),
            output_tokens: prompt.most_tokens.min(self.model.limits().max_output_tokens.unwrap_or(u32::MAX)),
        };
        self.inbox.put(Asked::Afford(wanted, answer)).map_err(|_| gone())?;
        let afforded = answered.await.map_err(|_| gone())?;
        afforded.map_err(|short| format!("the user's budget does not cover it: {}", short.detail))
    }

    /// What is recorded, and what the server gets.
    fn came_of(&self, heard: Heard, prompt: &Prompt, at_most: Bound) -> (Sampled, Result<Value, String>) {
        let sampled = |answer: String, usage: Usage, is_counted: bool, may_be_billed: bool| Sampled {
            model: self.model.name().to_owned(),
            prompt: prompt.shown(),
            answer,
            usage,
            cost_micros: if may_be_billed { prompt::cost(&*self.model, &usage, is_counted) } else { None },
            at_most: (may_be_billed && !is_counted).then_some(at_most),
            took_ms: 0,
        };
        match heard {
            Heard::Reply(reply) => {
                let text = prose(&reply.parts).into_owned();
                let stop = if reply.finish == FinishReason::Length { "maxTokens" } else { "endTurn" };
                let message = json!({
                    "role": "assistant", "content": {"type": "text", "text": text}, "model": self.model.name(), "stopReason": stop,
                });
                (sampled(text, reply.usage, reply.is_counted(), true), Ok(message))
            }
            Heard::Failed(error, has_spoken) => {
                let usage = error.usage.as_deref().copied();
                let may_be_billed = usage.is_some() || has_spoken || error.kind.may_be_billed();
                let sampled = sampled(String::new(), usage.unwrap_or_default(), usage.is_some(), may_be_billed);
                (sampled, Err(format!("the model gave no answer: {}", hidden::visible_line(&error.message))))
            }
            Heard::Cut => {
                let why = "the call was stopped, or the model fell silent".to_owned();
                (sampled(String::new(), Usage::default(), false, true), Err(why))
            }
        }
    }
}

/// What came of asking.
enum Heard {
    Reply(Box<Reply>),
    /// With whether it had begun to speak.
    Failed(ModelError, bool),
    Cut,
}

async fn hear(model: &dyn Model, request: Request) -> Heard {
    let mut stream = model.stream(request);
    let mut has_spoken = false;
    loop {
        match tokio::time::timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(ModelEvent::Delta(_)))) => has_spoken = true,
            Ok(Some(Ok(ModelEvent::Done(reply)))) => return Heard::Reply(reply),
            Ok(Some(Err(error))) => return Heard::Failed(error, has_spoken),
            Ok(None) | Err(_) => return Heard::Cut,
        }
    }
}
