//! Goes through with an [`Order`]: the session is talked with where it runs. That is here, unless another process runs it;
//! and when that process leaves before all is answered, here again.

use crate::commands::cost;
use crate::commands::sessions::said::when;
use crate::failure::Result;
use crate::out::view;
use crate::run::ask::Questions;
use crate::run::conversation::{Conversation, Left};
use crate::run::opening;
use crate::run::order::Order;
use crate::run::shown::Shown;
use crate::run::stops::{Over, Stops};
use crate::run::task;
use crate::run::unfinished;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use piton_core::client::{Prompt, Published, Request};
use piton_core::event::Event;
use piton_core::ids::MessageId;
use piton_core::permission::Grant;
use piton_core::task::over;
use piton_engine::engine::{Engine, EngineError, Handle, Resumed};

/// Does what was ordered, and returns the exit code.
pub(crate) async fn talk(order: Order, engine: &Engine, around: &Surroundings) -> Result<u8> {
    let mut upkeep = Upkeep::new(engine, around)?;
    let over = Box::pin(wherever(order, engine, around, &mut upkeep)).await;
    if let Ok(Over { code, is_in_haste: true }) = over {
        return Ok(code);
    }
    let stopped = Stops::listen()?.unless_stopped(upkeep.done()).await;
    Ok(Over::left(over?.code, stopped).code)
}

/// The process that has left, and what was said to it and not answered.
struct Deserted {
    pid: u32,
    said: Vec<MessageId>,
}

async fn wherever(mut order: Order, engine: &Engine, around: &Surroundings, upkeep: &mut Upkeep<'_>) -> Result<Over> {
    let attends = order.asks.is_some() || order.input.is_program();
    let mut talk = Conversation::new(order.input, order.shown, Questions::new(order.asks), attends);
    talk.hears_subagents = order.hears_subagents;
    let mut deserted: Option<Deserted> = None;
    loop {
        if let Some(session) = opening::join(&order.place, order.only_here, engine).await? {
            let pid = session.elsewhere().unwrap_or_default();
            let joins = match talk.input.first() {
                Some(Request::Compact(_)) => ": it is compacted there",
                None if !talk.input.is_program() => "",
                _ => ": your prompt is sent there and runs under its rules",
            };
            talk.shown.note(&format!("{} is run by process {pid}{joins}", session.id()));
            match talk.with(&session, &mut Stops::listen()?).await? {
                Left::Done => return Ok(Over::with(talk.code()?)),
                Left::AtOnce(stop) => return Ok(Over::with(stop.code())),
                Left::Gone => deserted = Some(Deserted { pid, said: talk.say_again() }),
            }
            continue;
        }
        if let Some(id) = order.place.resumed() {
            if let Some(Deserted { pid, said }) = deserted.take() {
                unfinished::takes_over(engine, id, pid, &said).await?;
            }
            if !talk.input.is_program() && !talk.input.has_first() {
                let words = unfinished::prompt(engine, id, around, attends).await?;
                talk.input.put_back(words.map(|words| Request::Prompt(Prompt::new(&words))).into_iter().collect());
            }
        }
        let mut prepared = opening::prepare(&order.place, &mut order.wishes, engine, around).await?;
        order.command.as_deref().map_or(Ok(()), |command| prepared.must_have(command))?;
        let is_moved = prepared.is_moved;
        let agent = prepared.settings.agent.name.clone();
        if order.place.resumed().is_none() && !talk.input.is_program() && !talk.input.has_first() {
            let prompt = task::of_agent(&mut prepared.settings)?;
            talk.input.put_back(vec![Request::Prompt(prompt)]);
        }
        if !talk.input.is_program() {
            talk.input.prompt().map_or(Ok(()), |prompt| task::fits(prompt, &prepared.settings))?;
        } else if order.place.resumed().is_none() {
            // A session in which nothing is said is none.
            talk.input.first_words(&mut talk.shown).await?;
        }
        let (servers, offer) = (prepared.settings.servers(), prepared.settings.offer());
        // Another process was faster: then it is there that we speak.
        let Some(session) = prepared.open(engine, upkeep).await? else { continue };
        // Of a new place the model hears with the next message.
        let goes_on = session.resumed() == Resumed::AtRest || is_moved;
        if goes_on && !talk.input.is_program() && !talk.input.has_first() {
            talk.input.put_back(vec![Request::Prompt(Prompt::new("Go on."))]);
        }
        for words in order.wishes.kept().words() {
            talk.shown.note(&format!("this session uses {words}, set with `piton session mode`, `effort` or `tools`"));
        }
        talk.shown.opened(session.id(), &agent, &servers, &offer);
        let (id, is_new) = (session.id().clone(), order.place.resumed().is_none());
        let over = here(session, &mut talk).await;
        if is_new && over.is_err() && engine.discard_unused(&id).await? {
            upkeep.is_gone();
        }
        return over;
    }
}

/// Talks with a session that runs here, and closes it.
async fn here(session: Handle, talk: &mut Conversation) -> Result<Over> {
    for Grant { rule, at_ms, .. } in session.grants() {
        let since = when(*at_ms);
        talk.shown.note(&format!("{} is allowed in this session since {since} (piton permission revoke)", rule));
    }
    let mut stops = Stops::listen()?;
    if !talk.input.is_program() {
        // What others have said here meanwhile, they see to themselves.
        session.leave_when_answered();
    }
    let left = match talk.with(&session, &mut stops).await {
        Ok(Left::AtOnce(stop)) => return Ok(Over::at_once(stop)),
        Ok(Left::Gone) => Err(EngineError::Closed.into()),
        Ok(Left::Done) => talk.code(),
        Err(error) => Err(error),
    };
    if let Shown::Text(view) = &mut talk.shown
        && view.has_missed_the_cache()
        && let Some(line) = cost::miss_line(&session, session.opened_at()).await
    {
        view.note(&format!("{line}. See piton session cost {}", session.id()));
    }
    let mut last = session.subscribe(talk.next_seq());
    let stopped = stops.unless_stopped(session.close()).await;
    // What it has left running is ended with it, and that is said.
    while stopped.is_none()
        && let Ok(Some(published)) = last.next().await
    {
        match published {
            Published::Closed(_) => break,
            Published::Recorded(record) => {
                if let Event::TaskEnded { task, outcome } = &record.event {
                    let line = over(task, outcome, "ended with the session");
                    talk.shown.note(&view::first_line(&line));
                    outcome.undone().for_each(|said| talk.shown.note(&format!("sandbox: {said}")));
                }
            }
            _ => {}
        }
    }
    Ok(Over::left(left?, stopped))
}
