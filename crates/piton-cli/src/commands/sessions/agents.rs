//! `piton session agents`: the subagents that a session has called, and those that these have called, whichever process runs them.

use crate::failure::Result;
use crate::out::view::{self, plural, thousands};
use jiff::Timestamp;
use piton_core::branch::Path;
use piton_core::event::{Event, Record};
use piton_core::ids::{CallId, SessionId, TimeMs};
use piton_core::turn::State;
use piton_engine::engine::Engine;
use serde_json::{Value, json};

/// A subagent that was called.
struct Called {
    depth: usize,
    call: CallId,
    agent: String,
    session: SessionId,
    /// Whether every turn that called it was taken back.
    taken_back: bool,
}

/// One of them as it is now.
struct Found {
    called: Called,
    /// `at work`, or how its last turn ended.
    state: String,
    /// What it is at.
    doing: Option<String>,
    title: String,
    steps: u32,
    tokens: u64,
    took_ms: u64,
}

/// Lists them, each below whoever called it.
pub(super) async fn list(engine: &Engine, id: &SessionId, json: bool) -> Result<()> {
    let mut open = called(&engine.records(id).await?, 0, false);
    if open.is_empty() && !json {
        view::write_stderr("this session has called no subagents\n");
    }
    while let Some(called_one) = open.pop() {
        // One that was never begun has no journal.
        let records = engine.records(&called_one.session).await.unwrap_or_default();
        open.extend(called(&records, called_one.depth + 1, called_one.taken_back));
        let found = Found::of(called_one, &records);
        view::write_stdout(&if json { format!("{}\n", found.json()) } else { found.line() });
    }
    Ok(())
}

/// Whom these records call, each session once, the last first. What was taken back takes back whoever was called there.
fn called(records: &[Record], depth: usize, taken_back: bool) -> Vec<Called> {
    let (path, mut all) = (Path::of(records), Vec::<Called>::new());
    for record in records {
        let Event::Delegated { call, child, agent } = &record.event else { continue };
        let known = all.iter().position(|known| known.session == *child).map(|known| all.remove(known));
        let was_taken_back = known.is_none_or(|known| known.taken_back);
        let taken_back = taken_back || (was_taken_back && !path.contains(record.seq));
        all.push(Called { depth, call: call.clone(), agent: agent.clone(), session: child.clone(), taken_back });
    }
    all.reverse();
    all
}

impl Found {
    fn of(called: Called, records: &[Record]) -> Self {
        let session = State::fold(records);
        let is_at_work = session.is_in_turn();
        let (mut began_ms, mut ended_ms): (Option<TimeMs>, _) = (None, records.last().map(|record| record.at_ms));
        let (mut state, mut doing) = ("not begun".to_owned(), None);
        for record in records {
            match &record.event {
                Event::TurnStarted { .. } => began_ms = Some(record.at_ms),
                Event::CallRequested { plan: Some(plan), .. } => doing = Some(plan.title.clone()),
                Event::TurnEnded { end, .. } => {
                    state = json!(end).as_str().unwrap_or_default().replace('_', " ");
                    ended_ms = Some(record.at_ms);
                }
                _ => {}
            }
        }
        if is_at_work {
            state = "at work".to_owned();
            ended_ms = u64::try_from(Timestamp::now().as_millisecond()).ok();
        }
        let took_ms = ended_ms.zip(began_ms).map_or(0, |(ended, began)| ended.saturating_sub(began));
        let (spent, title) = (session.spent(), session.title().unwrap_or_default().to_owned());
        let doing = doing.filter(|_| is_at_work);
        Self { called, state, doing, title, steps: spent.steps, tokens: spent.usage.total(), took_ms }
    }

    fn line(&self) -> String {
        let Called { depth, call, agent, session, taken_back } = &self.called;
        let taken_back = if *taken_back { ", taken back" } else { "" };
        let doing = self.doing.as_ref().map(|doing| format!("  {}", view::first_line(doing))).unwrap_or_default();
        format!(
            "{:indent$}{call}  {}: {}  {}{taken_back}  {}  {} tokens  {} s{doing}\n{:indent$}    {session}\n",
            "",
            view::clean(agent),
            view::first_line(&self.title),
            self.state,
            plural(u64::from(self.steps), "step"),
            thousands(self.tokens),
            self.took_ms / 1000,
            "",
            indent = 2 * depth,
        )
    }

    fn json(&self) -> Value {
        let Called { depth, call, agent, session, taken_back } = &self.called;
        json!({
            "session": session, "call": call, "agent": agent, "depth": depth, "title": self.title, "state": self.state,
            "doing": self.doing, "steps": self.steps, "tokens": self.tokens, "duration_ms": self.took_ms,
            "taken_back": taken_back,
        })
    }
}
