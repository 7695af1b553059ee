//! `piton session verify` and `repair`.

use super::find;
use crate::failure::Result;
use crate::out::report;
use crate::out::view;
use piton_core::ids::{Seq, SessionId};
use piton_engine::engine::Engine;
use piton_engine::store::{CheckResult, Flaw, StoreError};

/// Checks a session and says what is wrong and what to do.
pub(super) async fn verify(engine: &Engine, id: &SessionId) -> Result<u8> {
    let mut code = verify_one(engine, id).await?;
    for child in engine.subagents(id).await.unwrap_or_default() {
        code = code.max(verify_one(engine, &child).await?);
    }
    Ok(code)
}

async fn verify_one(engine: &Engine, id: &SessionId) -> Result<u8> {
    let verdict = match engine.store().verify(id).await {
        Err(StoreError::Damaged { at, why }) => {
            view::write_stdout(&format!("{id}: {at} is damaged: {why}\n"));
            view::write_stdout(&advice(id));
            return Ok(report::EXIT_FAILED);
        }
        verdict => verdict?,
    };
    match verdict {
        CheckResult::Sound { events: 0 } => {
            view::write_stdout(&format!(
                "{id}: no events. Either nothing was ever recorded, or what was is in a file that is missing here: \
                 journal.db-wal belongs beside journal.db\n"
            ));
            Ok(report::EXIT_FAILED)
        }
        CheckResult::Sound { events } => {
            view::write_stdout(&format!(
                "{id}: {}, every one in its place and unchanged\n",
                view::plural(events, "event")
            ));
            Ok(0)
        }
        CheckResult::Bad { seq, flaw } => {
            let what = match flaw {
                Flaw::Missing => "is missing",
                Flaw::Changed => "is not what was written",
                Flaw::Blob => "has lost its blob, or the blob is not what was written",
                Flaw::Unreadable => "is as it was written, but this Piton cannot read it",
            };
            view::write_stdout(&format!(
                "{id}: event {seq} {what}; the {} before it are sound\n{}",
                seq.saturating_sub(1),
                advice(id)
            ));
            Ok(report::EXIT_FAILED)
        }
    }
}

/// Makes a new session of what can be read of this one.
pub(super) async fn repair(engine: &Engine, id: &SessionId) -> Result<()> {
    find::must_be_closed(engine, id).await?;
    if let Ok(CheckResult::Sound { events: events @ 1.. }) = engine.store().verify(id).await {
        let events = view::plural(events, "event");
        view::write_stderr(&format!(
            "{id} is sound: {events}, every one in its place and unchanged. Nothing was done\n{}",
            go_on(id)
        ));
        return Ok(());
    }
    let repaired = engine.repair(id).await?;
    let salvage = &repaired.salvage;
    let total = salvage.records.len();
    let read = total - salvage.lost.len();
    view::write_stdout(&format!("{}\n", repaired.id));
    let mut words = format!("{read} of {total} events were read; {id} stays as it is\n");
    if !salvage.lost.is_empty() {
        words.push_str(&format!(
            "lost: {}; what was under way there is answered as interrupted\n",
            places(&salvage.lost)
        ));
    }
    if !salvage.altered.is_empty() {
        words.push_str(&format!("not what was written, taken as they are: {}\n", places(&salvage.altered)));
    }
    if salvage.lost.is_empty() && salvage.altered.is_empty() {
        words.push_str("nothing was lost\n");
    }
    words.push_str(&go_on(&repaired.id));
    view::write_stderr(&words);
    Ok(())
}

fn go_on(id: &SessionId) -> String {
    format!("go on with:  piton run --resume {id} \"…\"\n")
}

fn advice(id: &SessionId) -> String {
    format!(
        "The files were left as they are. What can be read becomes a new session with:\n  piton session repair {id}\n"
    )
}

/// `event 3`, `events 3–17, 20`.
fn places(places: &[Seq]) -> String {
    const MOST: usize = 8;
    let mut spans: Vec<(Seq, Seq)> = Vec::new();
    for place in places {
        match spans.last_mut() {
            Some((_, end)) if *end + 1 == *place => *end = *place,
            _ => spans.push((*place, *place)),
        }
    }
    let shown = spans.iter().take(MOST);
    let mut words: Vec<String> =
        shown.map(|(from, to)| if from == to { from.to_string() } else { format!("{from}–{to}") }).collect();
    if spans.len() > MOST {
        words.push("…".to_owned());
    }
    match places.len() {
        1 => format!("event {}", words.join(", ")),
        many => format!("events {} ({many} in all)", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_beside_each_other_are_one_span() {
        assert_eq!(places(&[7]), "event 7");
        assert_eq!(places(&[1, 2, 3, 9, 11, 12]), "events 1–3, 9, 11–12 (6 in all)");
    }
}
