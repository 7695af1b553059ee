//! What a session that nobody runs has left to go on with.

use crate::commands::sessions::pick;
use crate::commands::undo;
use crate::failure::{Result, bail};
use crate::out::{print, view};
use crate::run::follow::cut_off;
use crate::surroundings::Surroundings;
use piton_core::branch::Path;
use piton_core::event::{Event, TurnEnd};
use piton_core::ids::{MessageId, SessionId};
use piton_core::turn::State;
use piton_engine::assemble::bare;
use piton_engine::engine::Engine;
use piton_engine::store::Summary;
use std::path::PathBuf;

/// The process that ran the session has left it: it goes on here, unless it was cut off in a turn.
pub(crate) async fn takes_over(engine: &Engine, id: &SessionId, pid: u32, said: &[MessageId]) -> Result<()> {
    let state = State::fold(&engine.records(id).await?);
    if state.is_in_turn() {
        let is_kept = |id| state.has_heard(id);
        let said = match (said.iter().any(is_kept), said.iter().all(is_kept)) {
            _ if said.is_empty() => "",
            (_, true) => "; what you said is kept",
            (true, false) => "; your last message was not recorded, and the rest is kept",
            (false, false) => "; what you said was not heard",
        };
        bail!("{}{said}", cut_off(id, Some(pid)));
    }
    view::write_stderr(&format!("process {pid} has left {id}; continuing here\n"));
    Ok(())
}

/// What to say where nothing is left to go on with, since a "go on" to the model would be paid for nothing: what the person at
/// the terminal types, if `may_ask`. `None`: there is something. An undo that was cut off is finished before that is asked.
pub(crate) async fn prompt(
    engine: &Engine,
    id: &SessionId,
    around: &Surroundings,
    may_ask: bool,
) -> Result<Option<String>> {
    let mut records = engine.records(id).await?;
    let mut session = State::fold(&records);
    if session.rewinding().is_some() && finish_undo(engine, id, around).await? {
        records = engine.records(id).await?;
        session = State::fold(&records);
    }
    let path = Path::of(&records);
    let ended =
        records.iter().rev().filter(|record| path.contains(record.seq)).find_map(|record| match &record.event {
            Event::TurnEnded { end, .. } => Some(*end),
            _ => None,
        });
    if !session.is_at_rest() || session.waiting().next().is_some() {
        return Ok(None);
    }
    let why = match ended {
        Some(TurnEnd::Completed) => "its last turn is finished",
        // What was under way was lost, or is another Piton's: there is something to go on with.
        None if session.transcript().next().is_some() => return Ok(None),
        None => "it has no prompt",
        Some(_) => return Ok(None),
    };
    if may_ask && pick::can_ask(around) {
        view::write_stderr(&format!("Nothing to continue: {why}. What next? "));
        let mut words = String::new();
        std::io::stdin().read_line(&mut words)?;
        if !words.trim().is_empty() {
            return Ok(Some(words.trim().to_owned()));
        }
    }
    let here = around.workspace(None).unwrap_or_default();
    let which = match engine.index()?.newest(&here)? {
        Some(newest) if newest == *id => "-c".to_owned(),
        _ => format!("--resume {}", print::short_id(id.as_str())),
    };
    bail!("nothing to continue in {id}: {why}. Nothing was sent. Give it a task with: piton run {which} \"…\"");
}

/// Finishes it, if the folder is there. Whether it is.
async fn finish_undo(engine: &Engine, id: &SessionId, around: &Surroundings) -> Result<bool> {
    let Summary { workspace, model, .. } = engine.store().summary(id).await?;
    let place = PathBuf::from(workspace);
    if !place.is_dir() {
        return Ok(false);
    }
    let settings = bare::for_upkeep(&model.unwrap_or_default(), &around.machine, &place);
    let session = engine.resume(id, settings).await?;
    undo::finish_begun(&session).await;
    session.close().await;
    Ok(true)
}
