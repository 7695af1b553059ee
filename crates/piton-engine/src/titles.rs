//! A title for a session, made once by a small model when the first turn is over, while whoever asked has the answer
//! already. Only where such a model is configured; where it fails or takes too long, the first prompt's words remain. A
//! request that went out is on record with what it used, or can have used, whether a title came of it or not.

use crate::prompt::{self, Weight};
use futures_util::StreamExt;
use piton_core::budget::{Bound, Leave, UpcomingCall};
use piton_core::event::{Event, TitledBy, TurnEnd};
use piton_core::limits::TITLE_GRACE_MS;
use piton_core::message::{Message, Role, Usage, prose};
use piton_core::model::{ModelError, ModelEvent, Reply, Request};
use piton_core::oneline;
use piton_core::turn::State;
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
pub(crate) struct Titling(Option<Asked>);

/// A request that is under way.
#[derive(Debug)]
struct Asked {
    task: JoinHandle<Option<Event>>,
    /// What is to be recorded where nobody hears how it ended.
    unheard: Event,
}

impl Titling {
    /// Asks for a title, if this was the first turn, it came to an answer, nobody has named the session, and what the
    /// turn has left of its budget pays for the title, whatever it costs.
    pub(crate) fn turn_ended(&mut self, session: &State, end: TurnEnd, model: Option<&Arc<dyn Model>>) {
        let is_due = session.turn() == 1 && end == TurnEnd::Completed && session.title().is_none();
        let Some(model) = model.filter(|_| is_due && self.0.is_none()) else { return };
        let request = request(session, model.name());
        let Weight { input_tokens, rates } = prompt::weigh_alone(&request, &**model);
        let call = UpcomingCall { model: model.name(), input_tokens, output_tokens: Some(MOST_TOKENS), rates };
        if call.leave(&session.policy().budget, &session.used()) != Leave::Free {
            return;
        }
        let (model, at_most) = (Arc::clone(model), call.at_most(MOST_TOKENS));
        let unheard = event(&*model, String::new(), &Usage::default(), Some(at_most));
        self.0 = Some(Asked { task: tokio::spawn(async move { ask(&*model, request, at_most).await }), unheard });
    }

    /// The event that names the session, or tells what it took that none came. Waits for ever where none is in the making.
    pub(crate) async fn next(&mut self) -> Event {
        let Some(asked) = &mut self.0 else { return std::future::pending().await };
        let ended = (&mut asked.task).await;
        let unheard = self.0.take().map(|asked| asked.unheard);
        match ended.unwrap_or(unheard) {
            Some(event) => event,
            // A title is not worth a word about why there is none.
            None => std::future::pending().await,
        }
    }

    /// The same when the session is left: waits no longer than the grace.
    pub(crate) async fn last(&mut self) -> Option<Event> {
        let mut asked = self.0.take()?;
        let ended = tokio::time::timeout(Duration::from_millis(TITLE_GRACE_MS), &mut asked.task).await;
        asked.task.abort();
        match ended {
            Ok(Ok(event)) => event,
            Ok(Err(_)) | Err(_) => Some(asked.unheard),
        }
    }
}

fn request(session: &State, name: &str) -> Request {
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

/// What came of it. `None`: nothing that could be billed.
async fn ask(model: &dyn Model, request: Request, at_most: Bound) -> Option<Event> {
    let mut stream = model.stream(request);
    let mut has_spoken = false;
    while let Some(heard) = stream.next().await {
        match heard {
            Ok(ModelEvent::Delta(_)) => has_spoken = true,
            Ok(ModelEvent::Done(reply)) => {
                let at_most = (!reply.is_counted()).then_some(at_most);
                return Some(event(model, title(&reply).unwrap_or_default(), &reply.usage, at_most));
            }
            Err(ModelError { usage: Some(usage), .. }) => return Some(event(model, String::new(), &usage, None)),
            Err(error) => {
                let may_be_billed = has_spoken || error.kind.may_be_billed();
                return may_be_billed.then(|| event(model, String::new(), &Usage::default(), Some(at_most)));
            }
        }
    }
    Some(event(model, String::new(), &Usage::default(), Some(at_most)))
}

/// What is recorded. Without words only what they took.
fn event(model: &dyn Model, title: String, usage: &Usage, at_most: Option<Bound>) -> Event {
    let cost_micros = prompt::cost(model, usage, at_most.is_none());
    Event::TitleGiven {
        title,
        by: TitledBy::Model { model: model.name().to_owned(), usage: *usage, cost_micros, at_most },
    }
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
