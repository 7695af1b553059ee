//! Commands and subagents in the background: a call that has its outcome and goes on. Each is a task, named as the call that started it.
//!
//! ```text
//!   CallSettled { outcome.task: began } ──► Task ──TaskEnded──► over, not told ──► told: with the next step, or read
//! ```
//!
//! A task is the session's and no turn's: it holds on every branch, and an undo ends none. What the model knows of it belongs to
//! the branch it was started on. Whether a command's process lives is known to the runner alone, see `piton_tools::runner`; a
//! subagent's session is its own journal, and goes on in whichever process has its caller's.

use crate::call::{BackgroundAgent, Outcome};
use crate::event::{Event, Record};
use crate::ids::{CallId, SessionId, TimeMs};

/// Tasks that are over, and were told, of which the newest are kept.
const MOST_OVER: usize = 64;

/// A command or a subagent in the background.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its name: the call that started it.
    pub id: CallId,
    /// What runs: the command, or the agent and its work in a few words.
    pub command: String,
    /// The subagent that is at work, where it is no command.
    pub subagent: Option<Box<BackgroundAgent>>,
    /// Whether the model wants to be told of its end, also where it is at rest.
    pub notify: bool,
    /// When it was on record.
    pub started_ms: TimeMs,
    /// Whether the machine has been up ever since.
    pub is_of_this_boot: bool,
    /// How many bytes of its output the model has read.
    pub read_to: u64,
    /// What came of it; `None` while it runs.
    pub outcome: Option<Outcome>,
    /// Whether the model of this branch started it.
    is_known: bool,
    /// Whether the model knows of its end.
    is_told: bool,
}

impl Task {
    /// Whether it goes on.
    pub fn is_running(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether it is a subagent at work.
    pub fn is_subagent_at_work(&self) -> bool {
        self.is_running() && self.subagent.is_some()
    }
}

/// The tasks of a session, the oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tasks(Vec<Task>);

impl Tasks {
    /// Those of a session, by its events about them.
    pub fn of<'r>(records: impl IntoIterator<Item = &'r Record>) -> Self {
        let mut tasks = Self::default();
        records.into_iter().for_each(|record| tasks.hear(record));
        tasks
    }

    /// Takes notice of what holds on every branch.
    pub fn hear(&mut self, record: &Record) {
        match &record.event {
            Event::CallSettled { call, outcome } => {
                let Some(news) = outcome.task.as_deref() else { return };
                if let Some(began) = &news.began
                    && self.find(call).is_none()
                {
                    self.0.push(Task {
                        id: call.clone(),
                        command: began.command.clone(),
                        subagent: began.subagent.clone(),
                        notify: began.notify,
                        started_ms: record.at_ms,
                        is_of_this_boot: true,
                        read_to: news.read_to,
                        outcome: None,
                        is_known: false,
                        is_told: false,
                    });
                }
            }
            Event::TaskEnded { task, outcome } => {
                if let Some(task) = self.0.iter_mut().find(|known| known.id == *task && known.is_running()) {
                    task.outcome = Some(outcome.clone());
                }
                self.forget();
            }
            _ => {}
        }
    }

    /// The machine was started anew, or that is not known.
    pub(crate) fn machine_was_restarted(&mut self) {
        self.0.iter_mut().for_each(|task| task.is_of_this_boot = false);
    }

    /// The model of this branch reads an outcome.
    pub(crate) fn read(&mut self, outcome: &Outcome) {
        let Some(news) = outcome.task.as_deref() else { return };
        if let Some(task) = self.0.iter_mut().find(|known| known.id == news.task) {
            task.is_known = true;
            task.is_told |= news.is_over;
            task.read_to = task.read_to.max(news.read_to);
        }
    }

    /// A step begins: with it the model is told of all that is over.
    pub(crate) fn tell(&mut self) {
        self.0.iter_mut().filter(|task| !task.is_running()).for_each(|task| task.is_told = true);
        self.forget();
    }

    /// All that are kept.
    pub fn all(&self) -> &[Task] {
        &self.0
    }

    /// The one of this name.
    pub fn find(&self, id: &CallId) -> Option<&Task> {
        self.0.iter().find(|task| task.id == *id)
    }

    /// The newest that this subagent's session works for.
    pub fn find_subagent(&self, session: &SessionId) -> Option<&Task> {
        let is_meant = |task: &&Task| task.subagent.as_ref().is_some_and(|subagent| subagent.session == *session);
        self.0.iter().rev().find(is_meant)
    }

    /// The subagents that are at work.
    pub fn subagents_at_work(&self) -> impl Iterator<Item = (&Task, &BackgroundAgent)> {
        self.running().filter_map(|task| Some((task, task.subagent.as_deref()?)))
    }

    /// The commands that run.
    pub fn commands(&self) -> impl Iterator<Item = &Task> {
        self.running().filter(|task| task.subagent.is_none())
    }

    /// Those that run.
    pub fn running(&self) -> impl Iterator<Item = &Task> {
        self.0.iter().filter(|task| task.is_running())
    }

    /// Those that are over, of which the model does not know it yet.
    pub fn untold(&self) -> impl Iterator<Item = &Task> {
        self.0.iter().filter(|task| !task.is_running() && task.is_known && !task.is_told)
    }

    fn forget(&mut self) {
        let is_past = |task: &Task| !task.is_running() && (task.is_told || !task.is_known);
        let mut surplus = self.0.iter().filter(|task| is_past(task)).count().saturating_sub(MOST_OVER);
        self.0.retain(|task| {
            let is_forgotten = surplus > 0 && is_past(task);
            surplus -= usize::from(is_forgotten);
            !is_forgotten
        });
    }
}

/// What people read of the end of one: `background command c1_0 is over: …`.
pub fn over(task: &CallId, outcome: &Outcome, how: &str) -> String {
    let what = if outcome.metadata.get("agent").is_some() { "subagent" } else { "command" };
    format!("background {what} {task} {how}: {}", outcome.title)
}
