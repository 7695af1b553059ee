//! A title for a session, made once by a small model when the first turn is over, while whoever asked has the answer
//! already. Only where such a model is configured; where it fails or takes too long, the first prompt's words remain.
//!
//! A restart asks for none: the first turn is over. A cancel does not end it, but leaving the session does, after a short
//! grace. Cut off like this, or by a panic, the request is on record with what it can have used, as any other is with what it
//! used.

use super::{JobContext, Task};
use crate::prompt::{self, CostEstimate};
use futures_util::StreamExt;
use piton_core::budget::{Bound, Leave, UpcomingCall};
use piton_core::event::{Event, TitledBy, TurnEnd};
use piton_core::message::{Message, Role, Usage, prose};
use piton_core::model::{ModelError, ModelEvent, Reply, Request};
use piton_core::oneline;
use piton_core::turn::State;
use piton_models::model::Model;
use std::borrow::Cow;
use std::sync::Arc;

const SYSTEM: &str = "You name conversations between a person and a coding agent. Answer with a title of three to \
                      eight words in the language of the person: what is it about? No quotes, no full stop, nothing else.";

/// Characters of the prompt, and of the answer, that the small model is shown.
const SHOWN_CHARS: usize = 2_000;
/// Characters of a title; as many as the first prompt's words may have.
const TITLE_CHARS: usize = 80;
/// Enough for a title, and for a model that thinks before it.
const MOST_TOKENS: u32 = 1_000;

/// Asks for a title, if this was the first turn, it came to an answer, nobody has named the session, and what the turn has
/// left of its budget pays for the title, whatever it costs.
pub(crate) fn title(end: TurnEnd, cx: &JobContext<'_>) -> Option<Task> {
    let session = cx.session;
    let is_due = session.turn() == 1 && end == TurnEnd::Completed && session.title().is_none();
    let model = cx.services.settings.titles.clone().filter(|_| is_due)?;
    let request = request(session, model.name());
    let CostEstimate { input_tokens, rates } = prompt::estimate_alone(&request, &*model);
    let call = UpcomingCall { model: model.name(), input_tokens, output_tokens: Some(MOST_TOKENS), rates };
    if call.leave(&session.policy().budget, &session.used()) != Leave::Free {
        return None;
    }
    let at_most = call.at_most(MOST_TOKENS);
    let unheard = event(&*model, String::new(), &Usage::default(), Some(at_most));
    let cut = unheard.clone();
    let work = async move { ask(&*model, request, at_most).await };
    let task = Task::new(work, |event, _| event.into_iter().collect());
    Some(task.when_cut(|_| vec![cut]).when_broken(|_, _| vec![unheard]))
}

fn request(session: &State, name: &str) -> Request {
    let said = |role: Role| {
        let mut texts =
            session.transcript().filter(|message| message.role == role).map(|message| prose(&message.parts));
        if role == Role::User { texts.next() } else { texts.last() }.unwrap_or_default()
    };
    let cut = |text: Cow<'_, str>| text.chars().take(SHOWN_CHARS).collect::<String>();
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
                return Some(event(model, words(&reply).unwrap_or_default(), &reply.usage, at_most));
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
fn words(reply: &Reply) -> Option<String> {
    let text = oneline::bare(&prose(&reply.parts));
    let line = oneline::first_line(&text, TITLE_CHARS)?;
    let line = line.trim_matches(['"', '\'', '`', '*', '#', ' ', '“', '”', '„', '«', '»']);
    let line = if line.ends_with("...") { line } else { line.trim_end_matches('.') };
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Some(line).filter(|line| !line.trim().is_empty())
}
