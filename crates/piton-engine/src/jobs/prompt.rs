//! Letting in what somebody says: hooks see it before it is on record, then what it refers to is read. No turn wants this:
//! what hooks refuse must not be on record, and the turn knows only what is.
//!
//! What needs neither is let in at once ([`hear`]).
//!
//! A restart loses it: whoever said it has no answer, and says it again. A cancel drops it, and whoever said it is told. A hook
//! that panics is caught where hooks are run; where reading panics the prompt is refused.

use super::{JobContext, PANICKED, Task};
use crate::agents::Agents;
use crate::context::{Instructions, Notes, References, Resolved};
use crate::error::EngineError;
use crate::hooks::Gated;
use crate::inbox::Asker;
use crate::store::Stored;
use piton_core::configure::Configure;
use piton_core::event::{Delivery, Event, Given};
use piton_core::hook::HookPoint;
use piton_core::ids::MessageId;
use piton_core::message::{Part, prose};
use piton_core::subtask::Subtask;
use piton_core::tokens::Family;
use piton_tools::files::Files;
use piton_tools::servers::Servers;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long files may be read that a prompt refers to. A file system that does not answer is left alone then, with the thread
/// that asks it.
const PATIENCE: Duration = Duration::from_secs(60);

/// In front of an agent's name this says that no file is meant.
pub(crate) const AGENT: &str = "agent-";

/// What somebody says.
#[derive(Clone)]
pub(crate) struct UserMessage {
    pub(crate) id: MessageId,
    pub(crate) parts: Vec<Part>,
    pub(crate) delivery: Delivery,
    /// Whether `@` in its words can refer to files. In what stands beside a person's words it does not.
    pub(crate) refers: bool,
    /// The command that makes the first parts.
    pub(crate) called: Option<Box<Called>>,
    /// The message whose place in the queue it takes.
    pub(crate) replaces: Option<MessageId>,
}

impl UserMessage {
    /// The command, or the question to an agent, that has yet to make its first part.
    pub(crate) fn command(&self) -> Option<&Called> {
        self.called.as_deref().filter(|called| called.text.is_none())
    }

    /// What it says, to the model or to a subagent.
    fn words(&self) -> String {
        match self.called.as_ref().and_then(|called| called.subtask.as_ref()) {
            Some(subtask) => subtask.prompt.clone(),
            None => prose(&self.parts).into_owned(),
        }
    }

    /// Its parts as they were typed, whatever a command makes of them.
    pub(crate) fn as_said(&self) -> Vec<Part> {
        let typed = self.called.as_ref().map(|called| Part::text(called.typed.clone()));
        let made = self.called.as_ref().map_or(0, |called| called.made);
        typed.into_iter().chain(self.parts.iter().skip(made).cloned()).collect()
    }
}

/// A command that somebody says, or an agent that they ask by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Called {
    pub(crate) name: String,
    /// The words behind its name.
    pub(crate) words: String,
    /// As it was typed, with the sign in front: `/` of a command, `@` of an agent.
    pub(crate) typed: String,
    /// What its template says itself, without what its commands print, once it has made words: in it alone `@` refers to files.
    pub(crate) text: Option<String>,
    /// How many parts it has made.
    pub(crate) made: usize,
    /// What it allows until its turn ends, as rules, once it has made words.
    pub(crate) allows: Vec<String>,
    /// What it asks of its turn alone.
    pub(crate) for_turn: Option<Box<Configure>>,
    /// What it has a subagent do.
    pub(crate) subtask: Option<Box<Subtask>>,
}

impl Called {
    /// A command that has yet to make words.
    pub(crate) fn new(name: String, words: String) -> Self {
        let typed = format!("/{name} {words}").trim_end().to_owned();
        Self { name, words, typed, text: None, made: 0, allows: Vec::new(), for_turn: None, subtask: None }
    }

    /// The agent that is asked by its name where this is what is said: `@explore where is it?`.
    pub(crate) fn agent(said: &str, agents: &Agents) -> Option<Self> {
        let (name, words) = said.strip_prefix('@')?.split_once(char::is_whitespace)?;
        let is_agent = agents.called(agent_name(name)).is_some() && !words.trim().is_empty();
        is_agent.then(|| Self { typed: said.to_owned(), ..Self::new(name.to_owned(), words.trim().to_owned()) })
    }

    /// Its name as it was typed: `/fix`, `@explore`.
    pub(crate) fn sign_and_name(&self) -> String {
        format!("{}{}", if self.is_agent() { '@' } else { '/' }, self.name)
    }

    /// Whether it is an agent that is asked.
    pub(crate) fn is_agent(&self) -> bool {
        self.typed.starts_with('@')
    }
}

/// The agent's own name, where it is written as Claude Code does: `@agent-explore`.
pub(crate) fn agent_name(said: &str) -> &str {
    said.strip_prefix(AGENT).unwrap_or(said)
}

/// By what it is read.
struct Reader {
    environment: Option<String>,
    instructions: Option<Instructions>,
    references: References,
    files: Arc<dyn Files>,
    servers: Option<Arc<dyn Servers>>,
    stored: Stored,
    /// What the session's agent has stand before the first message.
    initial: Option<String>,
    is_new_here: bool,
    shares_runtime: bool,
}

/// What is recorded of something that no hook has to see, where that takes no time. Gives it back where something has to be
/// read for it first.
pub(crate) fn hear(message: UserMessage, cx: &JobContext<'_>) -> Result<Vec<Event>, UserMessage> {
    let reader = reader(cx);
    if !reader.takes_time(&message) {
        return Ok(reader.read_now(message, Resolved::default()));
    }
    Err(message)
}

/// Lets hooks see what somebody says. Who says it is told where it is refused; where it is not, the last event is what was
/// said.
pub(crate) fn vet(message: UserMessage, asker: Asker, cx: &JobContext<'_>) -> Task {
    let (hooks, at, reader) = (cx.services.hooks.clone(), cx.hook_context(), reader(cx));
    let refuse = asker.clone();
    let work = async move {
        let mut gated = None;
        let let_in = if hooks.want(HookPoint::Prompt) {
            let (seen, refusal) = hooks.prompt(&at, &message.words()).await;
            let seen = gated.insert(seen);
            let_in(message, seen, refusal)
        } else {
            Ok(message)
        };
        let said = match let_in {
            Ok(message) => reader.read(message).await,
            Err(refused) => Err(refused),
        };
        (gated, said)
    };
    type Done = (Option<Gated>, Result<Vec<Event>, EngineError>);
    let ended = move |(gated, said): Done, cx: &mut JobContext<'_>| {
        let ran: Vec<Event> = gated.and_then(|gated| cx.ran(gated)).into_iter().chain(cx.suspicions()).collect();
        let said = said.map_err(|refused| asker.refuse(refused)).unwrap_or_default();
        ran.into_iter().chain(said).collect()
    };
    Task::new(work, ended).when_broken(move |why, _| {
        refuse.refuse(unreadable(why));
        Vec::new()
    })
}

/// The prompt with what hooks tell the model before it; or why it is refused.
fn let_in(
    mut message: UserMessage,
    gated: &mut Gated,
    refusal: Option<(String, String)>,
) -> Result<UserMessage, EngineError> {
    if let Some((hook, reason)) = refusal {
        return Err(EngineError::PromptRefused { hook, reason });
    }
    message.parts.splice(0..0, gated.notes.drain(..).map(Part::note));
    Ok(message)
}

fn reader(cx: &JobContext<'_>) -> Reader {
    let settings = &cx.services.settings;
    let limits = settings.model.limits();
    let is_new_here = cx.session.is_new_here();
    Reader {
        environment: settings.environment_note.clone().filter(|_| is_new_here),
        instructions: cx.instructions().filter(|_| is_new_here),
        references: References {
            workspace: PathBuf::from(cx.session.workspace()),
            style: settings.policy.references.style,
            sizes: settings.policy.references.sizes,
            window_tokens: limits.window_tokens,
            images: limits.images,
            family: Family::of(settings.model.name()),
        },
        files: Arc::clone(&cx.services.files),
        servers: settings.tools.servers().cloned(),
        stored: cx.services.stored.clone(),
        initial: settings.agent.initial_prompt.clone().filter(|_| cx.session.has_heard_nothing()),
        is_new_here,
        shares_runtime: settings.shares_runtime,
    }
}

impl Reader {
    /// Whether reading what is said can take long: a folder can be large, and a disk slow. What is read without being asked for
    /// is neither.
    fn takes_time(&self, said: &UserMessage) -> bool {
        let may_refer = match said.called.as_ref().and_then(|called| called.text.as_ref()) {
            Some(own) => own.contains('@'),
            None => said.refers && refers(&said.parts),
        };
        may_refer || (self.is_new_here && self.shares_runtime)
    }

    /// What somebody says, with what it refers to.
    async fn read(self, message: UserMessage) -> Result<Vec<Event>, EngineError> {
        if !self.takes_time(&message) {
            return Ok(self.read_now(message, Resolved::default()));
        }
        let resources = self.resources(&message);
        let resources = tokio::time::timeout(PATIENCE, resources).await;
        let resources = resources.map_err(|_| unreadable("a server did not answer in time"))?;
        let reading = tokio::task::spawn_blocking(move || self.read_now(message, resources));
        let read = tokio::time::timeout(PATIENCE, reading).await;
        let read = read.map_err(|_| unreadable("the file system did not answer in time"))?;
        read.map_err(|_| unreadable(PANICKED))
    }

    /// The resources of servers and the sessions that it refers to.
    async fn resources(&self, message: &UserMessage) -> Resolved {
        let text = match message.called.as_ref().and_then(|called| called.text.as_deref()) {
            Some(text) => Some(text),
            None if !message.refers => None,
            None => message.parts.iter().find_map(|part| match part {
                Part::Text { text, .. } => Some(text.as_str()),
                _ => None,
            }),
        };
        let Some(text) = text else { return Resolved::default() };
        let mut found = self.references.sessions(text, self.stored.id(), &**self.stored.store()).await;
        if let Some(servers) = &self.servers {
            let Resolved { parts, items } = self.references.resources(text, &**servers).await;
            found.parts.extend(parts);
            found.items.extend(items);
        }
        found
    }

    /// The same on this thread, with resources that were read. The first words in a workspace come with what is to be known there.
    fn read_now(self, message: UserMessage, resources: Resolved) -> Vec<Event> {
        let UserMessage { id: message, parts: said, delivery, refers: may_refer, mut called, replaces: _ } = message;
        let typed = called.as_ref().map(|called| called.typed.clone());
        let allows = called.as_ref().map(|called| called.allows.clone()).unwrap_or_default();
        let (for_turn, mut subtask) =
            called.as_mut().map(|called| (called.for_turn.take(), called.subtask.take())).unwrap_or_default();
        let own = called.and_then(|called| called.text).map(|text| vec![Part::text(text)]);
        let own = own.as_ref().unwrap_or(&said);
        let may_refer = may_refer && refers(own);
        if !self.is_new_here && !may_refer {
            return vec![Event::UserSpoke { message, parts: said, delivery, typed, allows, for_turn, subtask }];
        }
        let start = Notes::at_start(
            self.environment.as_deref(),
            self.instructions.as_ref(),
            &self.references.workspace,
            &*self.files,
        );
        let found = if may_refer { self.references.resolve(own, &*self.files) } else { Resolved::default() };
        let items: Vec<Given> = [start.items.clone(), found.items, resources.items].concat();
        let given = (!items.is_empty()).then_some(Event::ContextGiven { items });
        let mut referred = [found.parts, resources.parts].concat();
        if let Some(subtask) = &mut subtask {
            // Who gets the words gets the files.
            referred.retain(|part| match part {
                Part::Text { text, .. } | Part::Note { text, .. } => {
                    subtask.prompt.push_str(&format!("\n\n{text}"));
                    false
                }
                _ => true,
            });
        }
        let initial = self.initial.map(Part::note);
        let parts = start.parts().chain(initial).chain(said).chain(referred).collect();
        given
            .into_iter()
            .chain([Event::UserSpoke { message, parts, delivery, typed, allows, for_turn, subtask }])
            .collect()
    }
}

/// Whether it may name files.
fn refers(said: &[Part]) -> bool {
    said.iter().any(|part| matches!(part, Part::Text { text, .. } if text.contains('@')))
}

fn unreadable(why: &str) -> EngineError {
    let reason = format!("what it refers to could not be read: {why}");
    EngineError::PromptRefused { hook: String::new(), reason }
}
