//! What works beside the conversation: a row for each subagent above the prompt, and the panel, where one can be looked at and
//! stopped, as a command in the background can.

use super::Face;
use crate::blocks;
use crate::picker::{Item, Picker, Purpose};
use crate::text;
use piton_core::ids::SessionId;
use piton_core::story::{Body, CallBlock, CallStage};
use ratatui_core::text::Line;

/// Subagents that have a row of their own.
const MOST_AGENTS: usize = 4;

/// What a subagent is doing, as far as its own session tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentNow {
    /// Its session.
    pub session: SessionId,
    /// The call that it is at, in a few words; empty: it thinks.
    pub doing: String,
    /// What it has used.
    pub tokens: u64,
}

/// A subagent at work.
struct AtWork {
    session: SessionId,
    /// Its name, if that is known apart from its work.
    agent: String,
    title: String,
    started_ms: u64,
}

impl Face {
    /// The subagents at work: those in the background, and those that a call waits for.
    fn at_work(&self) -> Vec<AtWork> {
        let of_task = |(task, agent): (&piton_core::task::Task, &piton_core::call::BackgroundAgent)| AtWork {
            session: agent.session.clone(),
            agent: agent.agent.clone(),
            title: agent.title.clone(),
            started_ms: task.started_ms,
        };
        let mut all: Vec<AtWork> = self.tasks.subagents_at_work().map(of_task).collect();
        let running = |call: &CallBlock| matches!(call.stage, CallStage::Running(_));
        let waited_for = self.transcript.story().blocks().filter_map(|block| match &block.body {
            Body::Call(call) if running(call) => Some(AtWork {
                session: call.child.clone()?,
                agent: call.tool.clone(),
                title: call.about.clone(),
                started_ms: call.started_ms.unwrap_or(self.now_ms),
            }),
            _ => None,
        });
        for agent in waited_for {
            if !all.iter().any(|known| known.session == agent.session) {
                all.push(agent);
            }
        }
        all
    }

    /// What one is doing, what it has used, and for how long.
    fn about(&self, agent: &AtWork) -> String {
        let seconds = self.now_ms.saturating_sub(agent.started_ms) / 1000;
        let time = if seconds < 60 { format!("{seconds} s") } else { format!("{} min", seconds / 60) };
        let Some(now) = self.agents.iter().find(|now| now.session == agent.session) else { return time };
        let doing =
            if now.doing.is_empty() { String::new() } else { format!("{} · ", blocks::first_line(&now.doing)) };
        format!("{doing}{} tokens · {time}", blocks::short(now.tokens))
    }

    /// A row for each.
    pub(super) fn agent_rows(&self) -> Vec<Line<'static>> {
        let all = self.at_work();
        let row = |agent: &AtWork| {
            let (name, title) = (blocks::one_line(&agent.agent), blocks::first_line(&agent.title));
            let words = format!("  ⇢ {name}  {title}");
            // What it is doing is cut before its work is, and what it uses never.
            let about = self.about(agent);
            let (doing, used) = match about.rmatch_indices(" · ").nth(1) {
                Some((at, _)) => about.split_at(at),
                None => ("", about.as_str()),
            };
            let used = if doing.is_empty() { format!(" · {used}") } else { used.to_owned() };
            let room = self.size.0.saturating_sub(text::width(&used));
            let doing = if doing.is_empty() { String::new() } else { format!(" · {doing}") };
            Line::styled(text::cut(&format!("{words}{doing}"), room) + &used, self.theme.dim)
        };
        let mut rows: Vec<Line<'static>> = all.iter().take(MOST_AGENTS).map(row).collect();
        let more = all.len().saturating_sub(MOST_AGENTS);
        if more > 0 {
            let words = format!("  … {} (Ctrl-T)", blocks::plural(more as u64, "more agent"));
            rows.push(Line::styled(words, self.theme.dim));
        }
        rows
    }

    /// Shows or hides the todos; where something works beside the conversation, it is there to be looked at and stopped.
    pub(super) fn toggle_panel(&mut self) {
        self.shows_panel = !self.shows_panel;
        if self.shows_panel {
            self.open_panel();
        }
    }

    fn open_panel(&mut self) {
        let agent = |agent: &AtWork| Item {
            label: format!("{}: {}", blocks::one_line(&agent.agent), blocks::first_line(&agent.title)),
            detail: self.about(agent),
            value: agent.session.to_string(),
        };
        let mut items: Vec<Item> = self.at_work().iter().map(agent).collect();
        items.extend(self.tasks.commands().map(|task| Item {
            label: blocks::first_line(&task.command),
            detail: format!("{} · {} s", task.id, self.now_ms.saturating_sub(task.started_ms) / 1000),
            value: task.id.to_string(),
        }));
        if !items.is_empty() {
            self.picker = Some(Picker::new(Purpose::Work, "At work", items));
        } else if self.todos.is_empty() {
            self.shows_panel = false;
            self.hint = Some("no todos, no subagents, no commands in the background".to_owned());
        }
    }
}
