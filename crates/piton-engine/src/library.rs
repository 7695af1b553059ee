//! The library of sessions: rename, move to the trash and restore, import from a file, repair.
//!
//! ```text
//!   <data>/sessions/ses_…/   what is listed
//!          trash/ses_…/      what was thrown away, whole, until the trash is emptied
//! ```
//!
//! Each operation holds the lock of the session; a session that is open somewhere is refused.

use crate::engine::Engine;
use crate::store::sqlite::index::{Index, IndexError};
use crate::store::sqlite::{self, SessionDir};
use crate::store::{Salvage, StoreError, Summary};
use piton_core::configure::Configure;
use piton_core::event::{ChangedBy, Event, Origin, Record, TitledBy};
use piton_core::ids::{CallId, Seq, SessionId};
use piton_core::question::Decision;
use piton_core::task::Tasks;
use piton_core::turn::State;
use piton_tools::private;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Its journal could not be read or written.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The trash could not be listed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// There is a session of this id already.
    #[error("session {id} already exists; nothing was changed")]
    Taken {
        /// That id.
        id: SessionId,
    },
    /// Nothing of a damaged journal can be read.
    #[error("nothing of {id} can be read; it is unchanged")]
    NothingLeft {
        /// The session.
        id: SessionId,
    },
    /// A folder could not be moved or removed.
    #[error("cannot {act} {}", path.display())]
    Files {
        /// What was tried.
        act: &'static str,
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What a repair made.
#[derive(Debug)]
pub struct Repaired {
    /// The new session.
    pub id: SessionId,
    /// What was found in the damaged one.
    pub salvage: Salvage,
}

impl Engine {
    /// Gives a session a title; an empty one stands for the words of its first prompt.
    pub async fn rename(&self, id: &SessionId, title: &str) -> Result<(), LibraryError> {
        self.note(id, Event::TitleGiven { title: title.to_owned(), by: TitledBy::User }).await
    }

    /// Has what was allowed for the rest of a session asked about again: for these tools, or for all where none is named.
    pub async fn revoke(&self, id: &SessionId, tools: Vec<String>) -> Result<(), LibraryError> {
        self.note(id, Event::GrantsRevoked { tools }).await
    }

    /// Has a session that nobody runs go on with other settings; whoever assembles settings for it finds them in
    /// [`Engine::configured`].
    pub async fn configure(&self, id: &SessionId, changed: Configure) -> Result<(), LibraryError> {
        self.note(id, Event::SettingsChanged { changed, by: ChangedBy::User, at_once: false }).await
    }

    /// What clients have changed of how a session is run, all in all.
    pub async fn configured(&self, id: &SessionId) -> Result<Configure, StoreError> {
        let mut all = Configure::default();
        for record in self.store().of_kinds(id, &["settings_changed"]).await? {
            if let Event::SettingsChanged { changed, .. } = &record.event {
                all.change(changed);
            }
        }
        Ok(all)
    }

    /// The commands that a session has left running, those that are over included, as far as its journal knows.
    pub async fn tasks(&self, id: &SessionId) -> Result<Tasks, StoreError> {
        Ok(Tasks::of(&self.store().of_kinds(id, &["call_settled", "task_ended"]).await?))
    }

    /// The sessions of its subagents that are there, and of theirs, each behind its caller.
    pub async fn subagents(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        let mut family = vec![id.clone()];
        let mut at = 0;
        while let Some(caller) = family.get(at).cloned() {
            for child in self.called(&caller).await? {
                // One that was never begun has left nothing, and one that cannot be read is not known to be its own.
                let Ok(summary) = self.store().summary(&child).await else { continue };
                if is_called_by(&summary, &caller) && !family.contains(&child) {
                    family.push(child);
                }
            }
            at += 1;
        }
        Ok(family.split_off(1))
    }

    /// The sessions that calls of this one were given to, as it says: one that was imported may name any.
    async fn called(&self, id: &SessionId) -> Result<Vec<SessionId>, StoreError> {
        let records = self.store().of_kinds(id, &["delegated"]).await?;
        Ok(records
            .into_iter()
            .filter_map(|record| match record.event {
                Event::Delegated { child, .. } if child.is_sound() => Some(child),
                _ => None,
            })
            .collect())
    }

    /// Moves a session to the trash, and those of its subagents before it. Answers how many these were.
    pub async fn throw_away(&self, id: &SessionId) -> Result<usize, LibraryError> {
        // What cannot be read names nobody.
        let below = self.subagents(id).await.unwrap_or_default();
        for child in below.iter().rev() {
            throw_away(self, child)?;
        }
        throw_away(self, id)?;
        Ok(below.len())
    }

    /// Removes a session for good in which nothing was said and nothing ran: its journal tells only that it was opened and
    /// closed. Whether it was one.
    pub async fn discard_unused(&self, id: &SessionId) -> Result<bool, LibraryError> {
        let is_opening = |record: &Record| {
            matches!(
                record.event,
                Event::SessionStarted { .. } | Event::WriterOpened { .. } | Event::WriterClosed { .. }
            )
        };
        if !self.records(id).await?.iter().all(is_opening) {
            return Ok(false);
        }
        throw_away(self, id)?;
        destroy(self, id)?;
        Ok(true)
    }

    /// Brings a session back from the trash, with those of its subagents that lie there. Answers how many these were.
    pub async fn bring_back(&self, id: &SessionId) -> Result<usize, LibraryError> {
        bring_back(self, id)?;
        let (mut open, mut back) = (vec![id.clone()], 0);
        while let Some(caller) = open.pop() {
            for child in self.called(&caller).await.unwrap_or_default() {
                let summary = sqlite::summary(&SessionDir::new(&trash_dir(self), &child));
                if summary.is_ok_and(|summary| is_called_by(&summary, &caller)) {
                    bring_back(self, &child)?;
                    back += 1;
                    open.push(child);
                }
            }
        }
        Ok(back)
    }

    /// Where the files of a task of a session begin, see [`piton_tools::runner`].
    pub fn task_files(&self, id: &SessionId, task: &CallId) -> PathBuf {
        self.store().scratch(id).join("calls").join(task.as_str())
    }

    /// Records one event of a session that nobody runs.
    async fn note(&self, id: &SessionId, event: Event) -> Result<(), LibraryError> {
        let log = self.store().open(id, self.opening(true), &mut |_| {}).await?;
        let record = |(seq, event)| Arc::new(Record { seq, at_ms: self.world().now_ms(), event });
        let events = (log.head() + 1..).zip([event, Event::WriterClosed {}]);
        Ok(log.close(&events.map(record).collect::<Vec<_>>()).await?)
    }

    /// Makes a session of events that were written down elsewhere, under the id they name or, where that is taken, a new
    /// one. What was under way there is over here: nobody here has asked for its calls and checks to run. Nor has anybody
    /// here approved of a tool.
    pub async fn take_in(&self, mut records: Vec<Record>) -> Result<SessionId, LibraryError> {
        let last = records.last().map_or(0, |record| record.seq);
        let Some(Record { event: Event::SessionStarted { session, parent, .. }, .. }) = records.first_mut() else {
            return Err(LibraryError::NothingLeft { id: SessionId::from("") });
        };
        let in_trash = SessionDir::new(&trash_dir(self), session);
        if self.session_dir(session).root().exists() || in_trash.root().exists() {
            (*session, *parent) = come_from(self, session, last);
        }
        let id = session.clone();
        for record in &mut records {
            if let Event::ApprovalGiven { decision, .. } = &mut record.event
                && matches!(decision, Decision::ApproveForSession | Decision::ApproveLasting(_))
            {
                *decision = Decision::Approve;
            }
            if let Event::GrantsShared { grants, .. } = &mut record.event {
                grants.clear();
            }
            // Nor does anything run here.
            if let Event::CallSettled { outcome, .. } = &mut record.event {
                outcome.task = None;
            }
        }
        let folded = State::fold(&records);
        if folded.is_in_turn() || folded.rewinding().is_some() {
            records.push(Record { seq: last + 1, at_ms: self.world().now_ms(), event: Event::EventLost {} });
        }
        self.store().adopt(&id, self.opening(true), records).await?;
        Ok(id)
    }

    /// The same of a session and its subagents, each behind its caller. Where any of their ids is taken all get new ones, wherever
    /// their events name them: it is another tree. Answers its root.
    pub async fn take_in_tree(&self, mut tree: Vec<Vec<Record>>) -> Result<SessionId, LibraryError> {
        let ids: Vec<SessionId> = tree.iter().filter_map(|records| started(records)).cloned().collect();
        let is_taken = |id: &SessionId| {
            self.session_dir(id).root().exists() || SessionDir::new(&trash_dir(self), id).root().exists()
        };
        if ids.len() > 1 && ids.iter().any(is_taken) {
            let names: Vec<(SessionId, SessionId)> =
                ids.into_iter().map(|id| (id, self.world().session_id())).collect();
            let last = tree.first().and_then(|root| root.last()).map_or(0, |record| record.seq);
            for records in &mut tree {
                *records = renamed(records, &names);
            }
            if let (Some(Record { event: Event::SessionStarted { parent, .. }, .. }), Some((old, _))) =
                (tree.first_mut().and_then(|root| root.first_mut()), names.first())
            {
                *parent = Some(Origin { session: old.clone(), seq: last, call: None });
            }
        }
        let mut root = None;
        for records in tree {
            let id = self.take_in(records).await?;
            root.get_or_insert(id);
        }
        root.ok_or_else(|| LibraryError::NothingLeft { id: SessionId::from("") })
    }

    /// Makes a new session of what can be read of a damaged one, which stays as it is.
    pub async fn repair(&self, id: &SessionId) -> Result<Repaired, LibraryError> {
        let salvaged = self.store().salvage(id).await?;
        let Some(salvage) = salvaged else { return Err(LibraryError::NothingLeft { id: id.clone() }) };
        let mut records = salvage.records.clone();
        if let Some(Record { event: Event::SessionStarted { session, parent, .. }, .. }) = records.first_mut() {
            // What the event names may be damaged too.
            (*session, *parent) = come_from(self, id, salvage.records.len() as Seq);
        }
        let id = self.take_in(records).await?;
        Ok(Repaired { id, salvage })
    }
}

/// Whether a session says itself that it carries out a call of that one.
fn is_called_by(summary: &Summary, caller: &SessionId) -> bool {
    summary.parent.as_ref().is_some_and(|parent| parent.session == *caller && parent.call.is_some())
}

/// Where sessions lie that were thrown away.
pub fn trash_dir(engine: &Engine) -> PathBuf {
    engine.trash_dir()
}

/// The list of what was thrown away.
pub fn trash(engine: &Engine) -> Result<Index, LibraryError> {
    Ok(Index::of_folder(&trash_dir(engine))?)
}

/// Folders in the trash that are named like a session's and have no journal: of a session that was never begun, or lost it.
pub fn empty_in_trash(engine: &Engine) -> Vec<SessionId> {
    // No trash, or one that cannot be read: then listing it says so.
    let entries = fs::read_dir(trash_dir(engine)).into_iter().flatten().flatten();
    let is_one = |entry: &fs::DirEntry| entry.path().is_dir() && SessionDir::at(&entry.path()).is_none();
    let names = entries.filter(is_one).filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<SessionId> = names.filter(|name| name.starts_with("ses_")).map(SessionId).collect();
    ids.sort();
    ids
}

/// Moves a session to the trash.
fn throw_away(engine: &Engine, id: &SessionId) -> Result<(), LibraryError> {
    let trash = trash_dir(engine);
    private::make_folder(&trash).map_err(failed("make the folder", &trash))?;
    shift(&engine.session_dir(id), &SessionDir::new(&trash, id), id)
}

/// Brings a session back from the trash.
fn bring_back(engine: &Engine, id: &SessionId) -> Result<(), LibraryError> {
    let sessions = engine.sessions_dir();
    private::make_folder(&sessions).map_err(failed("make the folder", &sessions))?;
    shift(&SessionDir::new(&trash_dir(engine), id), &engine.session_dir(id), id)
}

/// Removes a session from the trash for good.
pub fn destroy(engine: &Engine, id: &SessionId) -> Result<(), LibraryError> {
    let dir = SessionDir::new(&trash_dir(engine), id);
    let held = sqlite::hold(&dir, std::process::id())?;
    fs::remove_dir_all(dir.root()).map_err(failed("remove", dir.root()))?;
    drop(held);
    Ok(())
}

/// Bytes of all files of a session.
pub fn size(dir: &SessionDir) -> u64 {
    fn below(path: &Path) -> u64 {
        let Ok(entries) = fs::read_dir(path) else { return 0 };
        let sizes = entries.flatten().map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => below(&entry.path()),
            Ok(meta) => meta.len(),
            // Gone since it was listed.
            Err(_) => 0,
        });
        sizes.sum()
    }
    below(dir.root())
}

fn started(records: &[Record]) -> Option<&SessionId> {
    match &records.first()?.event {
        Event::SessionStarted { session, .. } => Some(session),
        _ => None,
    }
}

/// The same events, with other ids for these sessions wherever they are named. An id is in no text by chance.
fn renamed(records: &[Record], names: &[(SessionId, SessionId)]) -> Vec<Record> {
    let rename = |record: &Record| {
        let text = serde_json::to_string(record).ok()?;
        let text = names.iter().fold(text, |text, (old, new)| text.replace(old.as_str(), new.as_str()));
        serde_json::from_str(&text).ok()
    };
    records.iter().map(|record| rename(record).unwrap_or_else(|| record.clone())).collect()
}

fn come_from(engine: &Engine, session: &SessionId, seq: Seq) -> (SessionId, Option<Origin>) {
    (engine.world().session_id(), Some(Origin { session: session.clone(), seq, call: None }))
}

fn shift(from: &SessionDir, to: &SessionDir, id: &SessionId) -> Result<(), LibraryError> {
    let held = sqlite::hold(from, std::process::id())?;
    if to.root().exists() {
        return Err(LibraryError::Taken { id: id.clone() });
    }
    fs::rename(from.root(), to.root()).map_err(failed("move", from.root()))?;
    drop(held);
    Ok(())
}

fn failed(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LibraryError {
    let path = path.to_owned();
    move |source| LibraryError::Files { act, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::call::{Access, CallInput, Effects};
    use piton_core::event::{Delivery, StepKind, Subject, Verdict};
    use piton_core::hook::Demand;
    use piton_core::ids::{CallId, MessageId};
    use piton_core::message::{FinishReason, Part, ToolCall};
    use piton_core::model::Reply;
    use piton_core::permission::Action;
    use piton_core::policy::{HookPolicy, Policy};
    use serde_json::json;

    /// A turn that was cut off elsewhere: with a check, and a call that somebody there approved for the whole session.
    fn cut_off() -> Vec<Record> {
        let call = CallId::from("c1_0");
        let check = Demand::Check { command: "touch ran".into(), timeout_ms: 1_000, rounds: 1 };
        let policy = Policy { hooks: HookPolicy { demands: vec![check], ..HookPolicy::default() }, ..Policy::piton() };
        let input = CallInput::Json(json!({"command": "touch ran"}));
        let asked =
            ToolCall { id: call.clone(), provider_id: None, name: "bash".into(), spelling: None, input, opaque: None };
        let reply = Reply::new(vec![Part::ToolCall(asked)], FinishReason::ToolCalls);
        let subject = Subject::Call(call.clone());
        let events = [
            Event::SessionStarted {
                session: SessionId::from("ses_elsewhere"),
                workspace: "/w".into(),
                version: "0".into(),
                parent: None,
            },
            Event::UserSpoke {
                message: MessageId::from("msg_1"),
                parts: vec![Part::text("go")],
                delivery: Delivery::Steer,
                typed: None,
                allows: Vec::new(),
                for_turn: None,
                subtask: None,
            },
            Event::TurnStarted {
                turn: 1,
                model: "fake/model".into(),
                fallbacks: vec![],
                policy: Box::new(policy),
                compact_at_tokens: None,
                this_turn_only: false,
            },
            Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: None },
            Event::replied(1, reply),
            Event::requested(call, Effects::OPAQUE, Verdict::Ask),
            Event::ApprovalAsked { subject: subject.clone(), question: None },
            Event::approval(subject, Decision::ApproveForSession),
        ];
        (1..).zip(events).map(|(seq, event)| Record { seq, at_ms: seq, event }).collect()
    }

    #[tokio::test]
    async fn what_an_import_calls_its_subagents_is_neither_thrown_away_nor_brought_back_with_it() {
        let data = tempfile::tempdir().expect("a folder");
        let engine = Engine::open(data.path());
        let started = |session: &str| Event::SessionStarted {
            session: SessionId::from(session),
            workspace: "/w".into(),
            version: "0".into(),
            parent: None,
        };
        let session =
            |events: Vec<Event>| (1..).zip(events).map(|(seq, event)| Record { seq, at_ms: seq, event }).collect();
        let (mine, gone) = (SessionId::from("ses_mine"), SessionId::from("ses_gone"));
        for id in [&mine, &gone] {
            engine.take_in(session(vec![started(id.as_str())])).await.expect("a session");
        }
        engine.throw_away(&gone).await.expect("in the trash");
        let names = [mine.clone(), gone.clone(), SessionId::from("../sessions/ses_mine")];
        let delegated =
            names.map(|child| Event::Delegated { call: CallId::from("c1_0"), child, agent: "general".into() });
        let hostile = std::iter::once(started("ses_hostile")).chain(delegated).collect();
        let hostile = engine.take_in(session(hostile)).await.expect("an import");
        assert_eq!(engine.subagents(&hostile).await.expect("its journal"), []);
        assert_eq!(engine.throw_away(&hostile).await.expect("in the trash"), 0);
        assert!(engine.session_dir(&mine).root().exists());
        assert_eq!(engine.bring_back(&hostile).await.expect("back"), 0);
        assert!(!engine.session_dir(&gone).root().exists(), "it stays in the trash");
    }

    #[tokio::test]
    async fn what_was_under_way_or_approved_elsewhere_is_neither_here() {
        let data = tempfile::tempdir().expect("a folder");
        let engine = Engine::open(data.path());
        let there = State::fold(&cut_off());
        let accesses = [Access::Run("make".to_owned())];
        assert_eq!((there.is_in_turn(), there.judge("bash", &accesses).action), (true, Action::Allow));

        let id = engine.take_in(cut_off()).await.expect("a sound session");
        let here = State::fold(&engine.records(&id).await.expect("its journal"));
        assert_eq!((here.is_in_turn(), here.wanted()), (false, vec![]), "neither its call nor its check runs");
        assert_eq!(here.judge("bash", &accesses).action, Action::Ask);
    }
}
