//! `piton session follow`, `cancel`, `pause` and `continue`: a session that another process runs is watched, stopped and held.

use crate::cli::FollowFormat;
use crate::failure::{Result, bail, ensure};
use crate::out::print;
use crate::out::view::{self, Look, TextView};
use crate::run::ask::Questions;
use crate::run::conversation::{Conversation, Left};
use crate::run::input::Input;
use crate::run::shown::Shown;
use crate::surroundings::Surroundings;
use piton_core::ids::SessionId;
use piton_core::turn::State;
use piton_engine::control::Follower;
use piton_engine::engine::{Engine, EngineError};
use std::sync::Arc;

/// `piton session follow`.
pub(crate) async fn follow(
    engine: &Engine,
    id: &SessionId,
    from: u64,
    (format, tree): (FollowFormat, bool),
    around: &Surroundings,
) -> Result<u8> {
    let shown = match format {
        FollowFormat::Text => Shown::Text(Box::new(TextView::new(Look::of(around)))),
        FollowFormat::StreamJson => Shown::stream_json(),
    };
    ensure!(!tree || matches!(format, FollowFormat::StreamJson), "--tree needs --format stream-json");
    let count = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
    let before = if count > 0 { engine.store().read(id, 1, count).await? } else { Vec::new() };
    let mut talk = Conversation::new(Input::once(None), shown, Questions::new(None), false);
    let follower = Follower::new(Arc::clone(engine.store()), id.clone(), from);
    let follower = if tree { follower.with_subagents() } else { follower };
    if let Left::AtOnce(stop) = talk.follow(follower, id, &before).await? {
        return Ok(stop.code());
    }
    let awaited = talk.follows.as_ref();
    let is_cut_off = awaited.is_some_and(|awaited| awaited.session().is_in_turn());
    let events = view::plural(awaited.map_or(0, |awaited| awaited.next_seq() - 1), "event");
    match (talk.writer, is_cut_off) {
        (Some(_), true) => bail!(cut_off(id, talk.writer)),
        (Some(pid), false) => talk.shown.note(&format!("process {pid} has left {id}: {events}")),
        (None, true) => talk.shown.note(&format!(
            "{id} is not running and was cut off in the middle of a turn: {events}\n\
             Go on with piton run --resume {id}"
        )),
        (None, false) => talk.shown.note(&format!("{id} is not running; this is all there is: {events}")),
    }
    Ok(0)
}

/// `piton session cancel`.
pub(crate) async fn cancel(engine: &Engine, id: &SessionId) -> Result<u8> {
    let Some(session) = engine.join(id).await? else {
        view::write_stderr(&format!("nothing to stop: {id} is not running\n"));
        return Ok(0);
    };
    match session.cancel().await {
        Ok(Some(report)) => {
            view::write_stdout(&format!("stopped turn {} of {}\n", report.turn, print::short_id(id.as_str())));
        }
        Ok(None) => view::write_stderr(&format!("nothing to stop: {id} is at rest\n")),
        Err(EngineError::Closed) => {
            if State::fold(&engine.records(id).await?).is_in_turn() {
                bail!(cut_off(id, None));
            }
            view::write_stderr(&format!("{id} is at rest: the process that ran it has left\n"));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(0)
}

/// `piton session pause` and `continue`.
pub(crate) async fn pause(engine: &Engine, id: &SessionId, paused: bool) -> Result<u8> {
    let Some(session) = engine.join(id).await? else {
        let what = if paused { "pause" } else { "continue" };
        view::write_stderr(&format!("cannot {what}: {id} is not running here\n"));
        return Ok(0);
    };
    let state = if paused { session.pause().await } else { session.unpause().await };
    match state {
        Err(EngineError::Closed) => bail!("the process that ran {id} has left"),
        state => drop(state?),
    }
    let short = print::short_id(id.as_str());
    let (word, next) = match paused {
        true => ("paused", format!("; continue it with piton session continue {short}")),
        false => ("continued", String::new()),
    };
    view::write_stdout(&format!("{word}: {short}{next}\n"));
    Ok(0)
}

pub(crate) fn cut_off(id: &SessionId, writer: Option<u32>) -> String {
    let who = writer.map(|pid| format!(" (process {pid})")).unwrap_or_default();
    format!("the piton{who} that ran {id} stopped in the middle of a turn; continue with piton run --resume {id}")
}
