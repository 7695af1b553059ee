//! A title for a session, made once by a small model when the first turn is over, while whoever asked has the answer
//! already. Only where such a model is configured; where it fails or takes too long, the first prompt's words remain.

use crate::prompt;
use futures_util::StreamExt;
use piton_core::event::{Event, TitledBy, TurnEnd};
use piton_core::limits::TITLE_GRACE_MS;
use piton_core::message::{Message, Role, prose};
use piton_core::model::{ModelEvent, Reply, Request};
use piton_core::oneline;
use piton_core::turn::Session;
use piton_models::model::Model;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

const SYSTEM: &str = "You name conversations between a person and a coding agent. Answer with a title of three to \
                      eight words in the language of the person: what is it about? No quotes, no full stop, nothing else.";

/// Characters of the prompt, and of the answer, that the small model is shown.
const SHOWN_CHARS: usize = 2_000;
/// Characters of a title; as many as the first prompt's words may have.
const TITLE_CHARS: usize = 80;
/// Enough for a title, and for a model that thinks before it.
const MOST_TOKENS: u32 = 1_000;

/// The title in the making.
#[derive(Debug, Default)]
pub(crate) struct Titling {
    task: Option<JoinHandle<Option<Event>>>,
}

impl Titling {
    /// Asks for a title, if this was the first turn, it came to an answer, and nobody has named the session.
    pub(crate) fn turn_ended(&mut self, session: &Session, end: TurnEnd, model: Option<&Arc<dyn Model>>) {
        let is_due = session.turn() == 1 && end == TurnEnd::Completed && session.title().is_none();
        if let Some(model) = model.filter(|_| is_due && self.task.is_none()) {
            let (model, request) = (Arc::clone(model), request(session, model.name()));
            self.task = Some(tokio::spawn(async move { ask(&*model, request).await }));
        }
    }

    /// The event that names the session. Waits for ever where none is in the making, or none comes of it.
    pub(crate) async fn next(&mut self) -> Event {
        let Some(task) = &mut self.task else { return std::future::pending().await };
        let named = task.await;
        self.task = None;
        match named {
            Ok(Some(event)) => event,
            // A title is not worth a word about why there is none.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// The same when the session is left: waits no longer than the grace.
    pub(crate) async fn last(&mut self) -> Option<Event> {
        let task = self.task.as_mut()?;
        let named = tokio::time::timeout(Duration::from_millis(TITLE_GRACE_MS), &mut *task).await;
        task.abort();
        named.ok()?.ok()?
    }
}

fn request(session: &Session, name: &str) -> Request {
    let said = |role: Role| {
        let mut texts =
            session.transcript().filter(|message| message.role == role).map(|message| prose(&message.parts));
        if role == Role::User { texts.next() } else { texts.last() }.unwrap_or_default()
    };
    let cut = |text: String| text.chars().take(SHOWN_CHARS).collect::<String>();
    let (asked, answered) = (cut(said(Role::User)), cut(said(Role::Assistant)));
    let text = format!("The person asked:\n\n{asked}\n\nThe agent answered at the end:\n\n{answered}");
    let model = name.split_once('/').map_or(name, |(_, model)| model).to_owned();
    Request {
        session: session.id().to_string(),
        model,
        system: SYSTEM.to_owned(),
        tools: Arc::new([]),
        may_call: false,
        messages: vec![Arc::new(Message::user("title".into(), text))],
        max_output_tokens: Some(MOST_TOKENS),
    }
}

async fn ask(model: &dyn Model, request: Request) -> Option<Event> {
    let mut stream = model.stream(request);
    while let Some(event) = stream.next().await {
        if let ModelEvent::Done(reply) = event.ok()? {
            let title = title(&reply)?;
            let cost_micros = prompt::cost(model, &reply.usage, reply.is_counted());
            let by = TitledBy::Model { model: model.name().to_owned(), usage: reply.usage, cost_micros };
            return Some(Event::TitleGiven { title, by });
        }
    }
    None
}

/// The first line of what it said, without the quotes that it was told to leave out.
fn title(reply: &Reply) -> Option<String> {
    let text = oneline::bare(&prose(&reply.parts));
    let line = oneline::first_line(&text, TITLE_CHARS)?;
    let line = line.trim_matches(['"', '\'', '`', '*', '#', ' ', '“', '”', '„', '«', '»']);
    let line = if line.ends_with("...") { line } else { line.trim_end_matches('.') };
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Some(line).filter(|line| !line.trim().is_empty())
}
