//! Commands that the user runs in a session themselves (`!cmd`). Each is a call of `bash` that no model made: it has an id, is
//! started at most once, and is settled by one event, as any call is.
//!
//! ```text
//!   UserRan ──► Waiting ──(snapshot)──► CallStarted ──► Running ──► CallSettled ──► (snapshot)
//!                  └── cancelled, or its process is gone ──► Unrun ────┘
//! ```
//!
//! They run in the order in which they were typed, one at a time, and beside a turn: none waits for the model, and no model
//! waits for them. What came of one is told to the model at the next step or with the next prompt, unless it is the user's
//! alone. A command that never started is not started later, by another process: who typed it is gone.

use crate::call::{CallInput, Outcome, Status};
use crate::event::Event;
use crate::hook::HookPoint;
use crate::ids::{CallId, MessageId};
use crate::message::ToolCall;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;

/// The tool that runs them.
pub const TOOL: &str = "bash";

/// A command of the user's that has no result yet.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellCommand {
    /// The call that it is.
    pub call: Arc<ToolCall>,
    /// Whether the model is not told of it: it never hears of it, or reads it in a message.
    pub is_private: bool,
    /// Whether the workspace is put down before it.
    needs_snapshot: bool,
    stage: Stage,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// It has not begun.
    Waiting,
    /// It has begun, in the epoch of this writer.
    Running(u64),
    /// It has begun and shall stop.
    Stopping(u64),
    /// It will not run: this is its answer, not yet on record.
    Unrun(Outcome),
}

/// What the first of them waits for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ShellWish {
    /// The workspace before it.
    Snapshot,
    /// That it runs.
    Run(Arc<ToolCall>),
    /// That it stops.
    Stop(Arc<ToolCall>),
}

/// Messages whose commands are remembered until they are said.
const MOST_UNSAID: usize = 16;

/// What the template of a message has run, before the message is on record.
#[derive(Debug, Clone, PartialEq)]
struct Unsaid {
    message: MessageId,
    commands: Vec<TemplateCommand>,
}

/// A command of a template.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateCommand {
    /// The call that it is.
    pub call: CallId,
    /// The command.
    pub command: String,
    /// Whether a hook made it of what the template says.
    pub is_changed: bool,
    /// What came of it, once it is over.
    pub outcome: Option<Outcome>,
    began: bool,
}

/// The user's commands, the oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShellCommands {
    open: VecDeque<ShellCommand>,
    /// How many there ever were: ids are not given out twice.
    count: u32,
    /// How many of them have a turn's number.
    numbered: u32,
    /// The workspace before those that have run between turns since the last snapshot after one, where it was to be put down.
    before: Option<Option<String>>,
    /// What templates have run for messages that are not on record yet.
    unsaid: VecDeque<Unsaid>,
    /// The next one, where a hook has changed it.
    changed: Option<CallId>,
}

/// A call of the user's.
pub fn user_call(id: &CallId, command: &str, terminal: bool) -> ToolCall {
    let mut input = json!({ "command": command });
    if terminal {
        input["pty"] = json!(true);
    }
    let input = CallInput::from_value(input);
    ToolCall { id: id.clone(), provider_id: None, name: TOOL.to_owned(), spelling: None, input, opaque: None }
}

/// What the model reads of one that is over.
pub(crate) fn told(command: &ShellCommand, outcome: &Outcome) -> String {
    let words = command.call.input.value().and_then(|input| input["command"].as_str()).unwrap_or_default();
    format!("The user ran this command themselves, in the workspace:\n$ {words}\n{}", outcome.text)
}

impl ShellCommands {
    /// Takes notice of what holds on every branch. The number that the event takes among the turns; 0: none.
    pub(crate) fn hear(&mut self, event: &Event, epoch: u64) -> u32 {
        self.remember(event);
        match event {
            Event::UserRan { call, command, keep_from_model, turn, snapshot, message, terminal } => {
                self.count += 1;
                self.numbered += u32::from(turn.is_some());
                if self.find(call).is_none() {
                    let call = Arc::new(user_call(call, command, *terminal));
                    let (is_private, needs_snapshot) = (*keep_from_model || message.is_some(), *snapshot);
                    self.open.push_back(ShellCommand { call, is_private, needs_snapshot, stage: Stage::Waiting });
                }
            }
            Event::CallStarted { call } => {
                if let Some(first) = self.open.front_mut().filter(|first| first.call.id == *call)
                    && first.stage == Stage::Waiting
                {
                    first.stage = Stage::Running(epoch);
                }
            }
            Event::CallSettled { call, .. } => self.open.retain(|command| command.call.id != *call),
            Event::WriterOpened { .. } => self.give_up(
                Status::Interrupted,
                "[interrupted] Piton ended before this command began. It was not run, and will not be.",
            ),
            Event::CancelRequested { .. } => {
                self.give_up(Status::Cancelled, "Cancelled before the command was started.");
                for command in &mut self.open {
                    if let Stage::Running(epoch) = command.stage {
                        command.stage = Stage::Stopping(epoch);
                    }
                }
            }
            // Nobody knows what became of them.
            Event::EventLost {} => (self.open, self.before) = (VecDeque::new(), None),
            _ => {}
        }
        match event {
            Event::UserRan { turn: Some(turn), .. } => *turn,
            _ => 0,
        }
    }

    /// Keeps what templates have run until their message is said: it may be said again, by whoever does not know that it was on its way.
    fn remember(&mut self, event: &Event) {
        let mut of_call = |id: &CallId, note: fn(&mut TemplateCommand, &Event)| {
            let mut all = self.unsaid.iter_mut().flat_map(|unsaid| &mut unsaid.commands);
            all.find(|command| command.call == *id).into_iter().for_each(|command| note(command, event));
        };
        match event {
            Event::CallStarted { call } => of_call(call, |command, _| command.began = true),
            Event::CallSettled { call, .. } => of_call(call, |command, event| {
                if let Event::CallSettled { outcome, .. } = event {
                    command.outcome = Some(outcome.clone());
                }
            }),
            Event::HooksRan { point: HookPoint::BeforeTool, call: Some(call), input: Some(_), .. } => {
                self.changed = Some(call.clone());
            }
            Event::UserSpoke { message, .. } => self.unsaid.retain(|unsaid| unsaid.message != *message),
            Event::UserRan { call, command, message: Some(message), .. } => {
                if !self.unsaid.iter().any(|unsaid| unsaid.message == *message) {
                    self.unsaid.push_back(Unsaid { message: message.clone(), commands: Vec::new() });
                }
                if let Some(unsaid) = self.unsaid.iter_mut().find(|unsaid| unsaid.message == *message) {
                    let is_changed = self.changed.take().is_some_and(|changed| changed == *call);
                    let (call, command) = (call.clone(), command.clone());
                    unsaid.commands.push(TemplateCommand { call, command, is_changed, began: false, outcome: None });
                }
                self.unsaid.drain(..self.unsaid.len().saturating_sub(MOST_UNSAID));
            }
            _ => {}
        }
    }

    /// Whether it is a command of a template, whose message is not on record yet.
    pub fn is_of_template(&self, call: &CallId) -> bool {
        self.unsaid.iter().flat_map(|unsaid| &unsaid.commands).any(|command| command.call == *call)
    }

    /// What the template of a message that is not on record has begun to run, in order, and what hooks refused of it. What was
    /// cancelled is not among it.
    pub fn ran_for(&self, message: &MessageId) -> impl Iterator<Item = &TemplateCommand> {
        let unsaid = self.unsaid.iter().filter(move |unsaid| unsaid.message == *message);
        let is_cancelled = |outcome: &Outcome| outcome.status == Status::Cancelled;
        let is_refused = |outcome: &Outcome| outcome.status == Status::Denied;
        let counts = move |command: &&TemplateCommand| match &command.outcome {
            Some(outcome) => is_refused(outcome) || (command.began && !is_cancelled(outcome)),
            None => command.began,
        };
        unsaid.flat_map(|unsaid| &unsaid.commands).filter(counts)
    }

    /// Answers what has not begun.
    fn give_up(&mut self, status: Status, why: &str) {
        for command in self.open.iter_mut().filter(|command| command.stage == Stage::Waiting) {
            command.stage = Stage::Unrun(Outcome::new(status, why));
        }
    }

    /// Between turns the workspace was put down: before a command, or after the last.
    pub(crate) fn take_snapshot(&mut self, is_after: bool, tree: Option<&String>) {
        match is_after {
            true => self.before = None,
            false if !self.open.is_empty() => drop(self.before.get_or_insert_with(|| tree.cloned())),
            false => {}
        }
    }

    /// A turn starts, whose own snapshot at its end covers what runs beside it: the workspace before that.
    pub(crate) fn join_turn(&mut self) -> Option<Option<String>> {
        self.before.take()
    }

    /// A turn is over that began with this workspace: what still runs changes it further.
    pub(crate) fn outlive_turn(&mut self, first: Option<&Option<String>>) {
        if !self.open.is_empty() {
            self.before = first.cloned();
        }
    }

    /// What should be recorded next. `may_start`: whether a command may begin now.
    pub(crate) fn due(&self, may_start: bool, has_snapshot: bool) -> Option<Event> {
        let unrun = self.open.iter().find_map(|command| match &command.stage {
            Stage::Unrun(outcome) => {
                Some(Event::CallSettled { call: command.call.id.clone(), outcome: outcome.clone() })
            }
            Stage::Waiting | Stage::Running(_) | Stage::Stopping(_) => None,
        });
        unrun.or_else(|| {
            let first = self.open.front().filter(|first| first.stage == Stage::Waiting && may_start)?;
            let is_ready = !first.needs_snapshot || has_snapshot || self.before.is_some();
            is_ready.then(|| Event::CallStarted { call: first.call.id.clone() })
        })
    }

    /// What the first of them waits for.
    pub(crate) fn wanted(&self, may_start: bool, has_snapshot: bool) -> Option<ShellWish> {
        let first = self.open.front()?;
        match first.stage {
            Stage::Waiting => (may_start && first.needs_snapshot && !has_snapshot && self.before.is_none())
                .then_some(ShellWish::Snapshot),
            Stage::Running(_) => Some(ShellWish::Run(Arc::clone(&first.call))),
            Stage::Stopping(_) => Some(ShellWish::Stop(Arc::clone(&first.call))),
            Stage::Unrun(_) => None,
        }
    }

    /// The one of this id, where it has no result yet.
    pub fn find(&self, id: &CallId) -> Option<&ShellCommand> {
        self.open.iter().find(|command| command.call.id == *id)
    }

    /// The epoch of the writer that started it.
    pub(crate) fn started_in(&self, id: &CallId) -> Option<u64> {
        match self.find(id)?.stage {
            Stage::Running(epoch) | Stage::Stopping(epoch) => Some(epoch),
            Stage::Waiting | Stage::Unrun(_) => None,
        }
    }

    /// Whether one has no result yet.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the workspace is still to be put down after those that have run between turns.
    pub fn is_unsealed(&self) -> bool {
        self.before.is_some()
    }

    /// The id of the next.
    pub fn next_id(&self) -> CallId {
        CallId(format!("u{}", self.count + 1))
    }

    /// How many of the turns' numbers are theirs.
    pub(crate) fn numbered(&self) -> u32 {
        self.numbered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(call: &CallId) -> Event {
        Event::HooksRan {
            step: 0,
            point: HookPoint::BeforeTool,
            call: Some(call.clone()),
            runs: Vec::new(),
            notes: Vec::new(),
            system: None,
            tools: None,
            input: Some(json!({"command": "two, as a hook has it"})),
            verdict: None,
            sent_back: None,
            stopped: None,
        }
    }

    #[test]
    fn what_hooks_refused_or_changed_of_a_template_is_known_with_what_it_ran() {
        let mut shell = ShellCommands::default();
        let message = MessageId::from("m1");
        let ran = |shell: &ShellCommands, command: &str| Event::UserRan {
            call: shell.next_id(),
            command: command.to_owned(),
            keep_from_model: false,
            turn: None,
            snapshot: false,
            message: Some(message.clone()),
            terminal: false,
        };
        let hear = |shell: &mut ShellCommands, event: Event| shell.hear(&event, 1);
        // Refused, it never starts; stopped before it starts, it never ran, and is not known.
        for (command, status) in [("one", Status::Denied), ("gone", Status::Cancelled)] {
            let (call, event) = (shell.next_id(), ran(&shell, command));
            hear(&mut shell, event);
            hear(&mut shell, Event::CallSettled { call, outcome: Outcome::new(status, "") });
        }
        let call = shell.next_id();
        hear(&mut shell, changed(&call));
        let event = ran(&shell, "two, as a hook has it");
        hear(&mut shell, event);
        hear(&mut shell, Event::CallStarted { call: call.clone() });
        let known: Vec<(&str, bool)> = shell.ran_for(&message).map(|ran| (&*ran.command, ran.is_changed)).collect();
        assert_eq!(known, [("one", false), ("two, as a hook has it", true)]);
        assert!(shell.is_of_template(&call) && !shell.is_of_template(&shell.next_id()));
    }
}
