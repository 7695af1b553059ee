//! `piton session tree` and `piton session fork`: a session's branches, and new sessions from old ones.

use crate::failure::Result;
use crate::out::report;
use crate::out::view;
use piton_core::branch::{self, TurnSpan};
use piton_core::event::{Event, Origin, Record};
use piton_core::ids::{Seq, SessionId};
use piton_engine::engine::Engine;
use std::fmt::Write as _;

/// The subagents that have worked for it, each once.
fn subagents(records: &[Record], text: &mut String) {
    let (mut seen, path) = (Vec::new(), branch::Path::of(records));
    for record in records {
        if let Event::Delegated { call, child, agent } = &record.event
            && !seen.contains(&child)
        {
            if seen.is_empty() {
                text.push_str("subagents\n");
            }
            let calls = |other: &&Record| matches!(&other.event, Event::Delegated { child: own, .. } if own == child);
            let counts = records.iter().filter(calls).any(|record| path.contains(record.seq));
            let _ = writeln!(text, "  {call}  {agent}  {child}{}", if counts { "" } else { ", taken back" });
            seen.push(child);
        }
    }
}

/// Draws every turn of a session, those that were taken back too.
pub(crate) async fn tree(engine: &Engine, id: &SessionId) -> Result<()> {
    let records = engine.records(id).await?;
    let mut text = format!("{id}\n");
    match parent(&records) {
        Some(Origin { session, call: Some(call), .. }) => {
            let _ = writeln!(text, "subagent of {session}, for its call {call}");
        }
        Some(Origin { session, seq, call: None }) => {
            let _ = writeln!(text, "forked from {session} at {seq}");
        }
        None => {}
    }
    let turns = branch::turns(&records);
    draw(&turns, None, "", &mut text);
    if turns.is_empty() {
        text.push_str("no turns yet\n");
    }
    subagents(&records, &mut text);
    view::write_stdout(&text);
    Ok(())
}

/// Draws the turns that follow one, each with what follows it. Where only one does, the line goes straight on.
fn draw(turns: &[TurnSpan], follows: Option<u32>, indent: &str, text: &mut String) {
    let next: Vec<&TurnSpan> = turns.iter().filter(|span| span.follows == follows).collect();
    for (position, span) in next.iter().enumerate() {
        let (branch, below) = match (next.len(), position + 1 == next.len()) {
            (1, _) => ("", ""),
            (_, false) => ("├─ ", "│  "),
            (_, true) => ("└─ ", "   "),
        };
        let _ = writeln!(text, "{indent}{branch}{}", line(span));
        draw(turns, Some(span.turn), &format!("{indent}{below}"), text);
    }
}

/// `● 2  [17]  fix the tests — completed`; the number in brackets is where `fork --at` would begin.
fn line(span: &TurnSpan) -> String {
    let mark = if span.on_path { '●' } else { '○' };
    let end = span.end.map_or("not finished".to_owned(), report::word);
    let back = if span.on_path { "" } else { ", taken back" };
    let files = if span.files.is_some() { ", changed files" } else { "" };
    format!("{mark} {:<3} [{}]  {} — {end}{files}{back}", span.turn, span.last, view::first_line(&span.prompt))
}

fn parent(records: &[Record]) -> Option<Origin> {
    match &records.first()?.event {
        Event::SessionStarted { parent, .. } => parent.clone(),
        _ => None,
    }
}

/// Makes a session that goes on from another one.
pub(crate) async fn fork(engine: &Engine, id: &SessionId, at: Option<Seq>) -> Result<()> {
    let fork = engine.fork(id, at).await?;
    view::write_stdout(&format!("{fork}\n"));
    view::write_stderr(&format!(
        "{fork} is a fork of {id}; both work in the same folder. Continue it with: piton run --resume {fork} \"…\"\n"
    ));
    Ok(())
}
