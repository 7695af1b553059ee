//! What works beside the conversation: what each subagent is doing, read from its own journal once a second while one is at work;
//! what one did, as a page; and stopping one, as a command in the background.

use super::{About, Chat};
use crate::out::view;
use piton_core::client::Request;
use piton_core::event::{Event, Record};
use piton_core::ids::{CallId, Seq, SessionId};
use piton_engine::store::Store;
use piton_tools::clean;
use piton_tui::face::{AgentNow, Input};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Records that are read at once.
const PAGE: usize = 256;
/// Of the output of a command, so many bytes at its end are shown.
const MOST_SHOWN: u64 = 256 << 10;

/// The subagents at work.
#[derive(Default)]
pub(super) struct Watch {
    at_work: BTreeMap<SessionId, Watched>,
    looked: Option<Instant>,
}

/// One of them.
struct Watched {
    /// The call that it answers.
    call: CallId,
    /// The first record that was not read yet.
    next: Seq,
    doing: String,
    tokens: u64,
}

impl Watch {
    /// Takes notice of who begins to work, and who is done.
    pub(super) fn hear(&mut self, record: &Record) {
        match &record.event {
            Event::Delegated { call, child, .. } => {
                let new = Watched { call: call.clone(), next: 1, doing: String::new(), tokens: 0 };
                self.at_work.insert(child.clone(), new);
            }
            Event::CallSettled { call, outcome } if outcome.task.as_ref().is_none_or(|task| task.began.is_none()) => {
                self.at_work.retain(|_, watched| watched.call != *call);
            }
            Event::TaskEnded { task, .. } => self.at_work.retain(|_, watched| watched.call != *task),
            _ => {}
        }
    }

    /// Comes when it is time to look at them; never, where none is at work.
    pub(super) async fn due(&self) {
        match (self.at_work.is_empty(), self.looked) {
            (true, _) => std::future::pending().await,
            (false, None) => {}
            (false, Some(looked)) => tokio::time::sleep_until(looked + EVERY).await,
        }
    }

    /// Reads what they did since.
    async fn look(&mut self, store: &dyn Store) -> Vec<AgentNow> {
        for (session, watched) in &mut self.at_work {
            // One that has not begun has no journal.
            while let Ok(records) = store.read(session, watched.next, PAGE).await {
                records.iter().for_each(|record| watched.hear(record));
                if records.len() < PAGE {
                    break;
                }
            }
        }
        self.looked = Some(Instant::now());
        let now = |(session, watched): (&SessionId, &Watched)| AgentNow {
            session: session.clone(),
            doing: watched.doing.clone(),
            tokens: watched.tokens,
        };
        self.at_work.iter().map(now).collect()
    }
}

impl Watched {
    fn hear(&mut self, record: &Record) {
        self.next = record.seq + 1;
        match &record.event {
            Event::MessageFinished { reply, .. } => self.tokens += reply.usage.total(),
            Event::CallRequested { plan: Some(plan), .. } => self.doing.clone_from(&plan.title),
            Event::StepFinished { .. } => self.doing.clear(),
            _ => {}
        }
    }
}

impl Chat<'_> {
    pub(super) async fn look_at_agents(&mut self) {
        let agents = self.agents.look(&**self.engine.store()).await;
        self.terminal.tell(Input::Agents(agents));
    }

    /// Shows what a subagent did, or what a command in the background has printed.
    pub(super) async fn show_work(&mut self, name: &str) {
        let (title, text) = match self.task_named(name).await {
            Some(call) => {
                let Some(open) = &self.open else { return };
                let file = self.engine.task_files(open.session.id(), &call).with_extension("out");
                let text = end_of(&file).unwrap_or_else(|error| format!("its output cannot be read: {error}"));
                ("what it has printed", text)
            }
            None => ("what the subagent did", self.printed(&["session", "show", name, "--full"]).await),
        };
        self.terminal.tell(Input::Page { title: title.to_owned(), text, at_end: true });
    }

    /// Stops a subagent, or a command in the background.
    pub(super) async fn stop_work(&mut self, name: &str) {
        match self.task_named(name).await {
            Some(call) => {
                let Some(id) = self.place.resumed().map(ToString::to_string) else { return };
                self.told_by(&["session", "kill", &id, &call.0]).await;
            }
            None => {
                let request = Request::Subagent { session: name.into(), request: Box::new(Request::Cancel {}) };
                self.ask(request, About::Else);
            }
        }
    }

    /// The command in the background of this name.
    async fn task_named(&self, name: &str) -> Option<CallId> {
        let open = self.open.as_ref()?;
        let tasks = self.engine.tasks(open.session.id()).await.ok()?;
        tasks.commands().find(|task| task.id.0 == name).map(|task| task.id.clone())
    }
}

/// The end of what a command has printed.
fn end_of(file: &std::path::Path) -> std::io::Result<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(file)?;
    let from = file.metadata()?.len().saturating_sub(MOST_SHOWN);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(MOST_SHOWN).read_to_end(&mut bytes)?;
    let text = view::clean(&clean::clean(&bytes));
    Ok(if from > 0 { format!("… {from} bytes before this are not shown\n{text}") } else { text })
}
