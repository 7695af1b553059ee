//! Commands of the repository's and the user's: what somebody says with one becomes the words of its template, with what the
//! commands in it print. These are run as commands of the user's own ([`piton_core::shell`]), one after another, before the words
//! are let in as any others are. Hooks see each of them before and after it runs, as they see calls of the model's.

use super::Driver;
use super::asked::MOST_WAITING;
use super::filling::{Filling, Want};
use super::line::{Line, Progress, Waiting};
use crate::commands::CommandError;
use crate::error::{EngineError, ShellError};
use crate::jobs::{Key, SideJob, UserMessage, Writer, ask_agent, expand, may_run, show_command};
use piton_core::call::{Outcome, Status};
use piton_core::event::Event;
use piton_core::hook::HookPoint;
use piton_core::ids::{CallId, MessageId};
use piton_core::message::Part;
use piton_core::template;
use std::path::PathBuf;
use std::sync::Arc;

impl Line {
    /// The template of the prompt at the front.
    fn filling(&mut self) -> Option<&mut Filling> {
        match self.front() {
            Some(Waiting::Prompt { progress: Progress::Filling(filling), .. }) => Some(&mut **filling),
            _ => None,
        }
    }

    /// Takes notice of what came of a call.
    pub(super) fn ran(&mut self, call: &CallId, outcome: &Outcome) {
        if let Some(filling) = self.filling() {
            filling.ran(call, outcome);
        }
    }

    /// Takes notice of why a hook stops what it was asked about.
    pub(super) fn stopped_by_hook(&mut self, call: &CallId, reason: &str) {
        if let Some(filling) = self.filling() {
            filling.stop(call, reason);
        }
    }
}

impl Driver {
    /// Takes the command of the prompt at the front a step further. Whether there is more to do at once.
    pub(super) fn fill(&mut self) -> bool {
        let Some(Waiting::Prompt { message, progress, .. }) = self.line.front() else { return true };
        // Sent twice while the first was on its way: what its template runs has run.
        if let Some(seq) = self.session.heard_at(&message.id) {
            if let Some(Waiting::Prompt { message, wait, asker, .. }) = self.line.pop() {
                self.heard_before(message.id, seq, wait, asker);
            }
            return true;
        }
        let want = match progress {
            Progress::Filling(filling) => filling.want(),
            Progress::Said => return self.look_for_command(),
            Progress::Expanding(_) | Progress::Vetting => return false,
        };
        let id = message.id.clone();
        match want {
            Want::Wait => return false,
            Want::Refuse(why) => self.refuse_command(why),
            Want::Run(code) => return self.run_of_template(code, id),
            Want::Say => {
                if let Some(Waiting::Prompt { message, progress, .. }) = self.line.front()
                    && let Progress::Filling(filling) = std::mem::replace(progress, Progress::Said)
                {
                    filling.fill(message);
                }
            }
        }
        true
    }

    /// Runs the next command of the template at the front, once hooks have had their say. Whether there is more to do at once.
    fn run_of_template(&mut self, code: String, message: MessageId) -> bool {
        let next = self.session.shell().next_id();
        // Where the person has typed a command meanwhile, which has that id, they are asked again.
        let said = self.line.filling().and_then(|filling| filling.take_said(&next));
        let said = match said {
            None if self.services.hooks.want(HookPoint::BeforeTool) => {
                let task = show_command(&next, &code, &self.context());
                self.line.filling().into_iter().for_each(|filling| filling.show(next.clone()));
                self.jobs.put_ready(Key::Side(SideJob::Line), task);
                return false;
            }
            None => Ok(code.clone()),
            Some(said) => said,
        };
        self.line.filling().into_iter().for_each(|filling| filling.runs(next.clone()));
        match said {
            Ok(code) => match self.may_fill(&code) {
                Ok(()) => {
                    let settings = &self.services.settings;
                    let takes_snapshots = settings.snapshots.is_some() && settings.takes_snapshots;
                    self.record(self.session.user_ran(code, false, takes_snapshots, Some(message), false));
                    false
                }
                Err(error) => {
                    self.refuse_command(format!("{code}: {error}"));
                    true
                }
            },
            // On record as any call that was refused; the words take the place of its output.
            Err(words) => {
                self.record(self.session.user_ran(code, false, false, Some(message), false));
                let outcome = Outcome::new(Status::Denied, words);
                self.record(Event::CallSettled { call: next, outcome });
                true
            }
        }
    }

    /// Where hooks have looked at the next command of the template at the front: takes what they said, and puts it on record. Whether
    /// it was that.
    pub(super) fn hooks_saw_command(&mut self, events: &mut Vec<Event>) -> bool {
        let Some(filling) = self.line.filling().filter(|filling| filling.is_seen_by_hooks()) else { return false };
        filling.hooks_ran(events);
        events.retain(|event| !matches!(event, Event::HooksRan { runs, .. } if runs.is_empty()));
        self.record_all(std::mem::take(events));
        true
    }

    fn may_fill(&mut self, code: &str) -> Result<(), ShellError> {
        if self.session.is_compacting_at_rest() {
            return Err(ShellError::Compacting);
        }
        if self.askers.commands() >= MOST_WAITING {
            return Err(ShellError::TooMany { most: MOST_WAITING });
        }
        may_run(code, Writer::Template, &self.context())
    }

    fn look_for_command(&mut self) -> bool {
        let workspace = PathBuf::from(self.session.workspace());
        let commands = self.services.settings.commands.clone();
        let Some(Waiting::Prompt { message: UserMessage { called: Some(called), .. }, progress, .. }) =
            self.line.front()
        else {
            return true;
        };
        let settings = self.next_settings.as_ref().unwrap_or(&self.services.settings).clone();
        let (name, words) = (called.name.clone(), called.words.clone());
        let (task, expanding) = match commands {
            _ if called.is_agent() => ask_agent(name, words, workspace, (Arc::clone(&self.services.files), settings)),
            Some(commands) => expand(name, words, workspace, (commands, settings)),
            None => {
                self.refuse_command(CommandError::NoCommands.to_string());
                return true;
            }
        };
        *progress = Progress::Expanding(expanding);
        self.jobs.put_ready(Key::Side(SideJob::Line), task);
        false
    }

    /// Where the command at the front was looked for: takes what was found. Whether it was that.
    pub(super) fn expanded(&mut self) -> bool {
        let Some(Waiting::Prompt { message, progress, .. }) = self.line.front() else { return false };
        let Progress::Expanding(expanding) = progress else { return false };
        match expanding.try_recv() {
            Ok(Ok(None)) => {
                let said = message.called.take().map(|called| Part::text(called.typed));
                message.parts.splice(0..0, said);
                *progress = Progress::Said;
            }
            Ok(Ok(Some((mut expanded, directed)))) => {
                let (id, workspace) = (self.session.id().as_str(), self.session.workspace());
                let variables = [("CLAUDE_SESSION_ID", id), ("CLAUDE_PROJECT_DIR", workspace)];
                template::fill_variables(&mut expanded.pieces, &variables);
                let filling = Filling::new(expanded, directed, self.session.shell().ran_for(&message.id));
                let codes: Vec<String> = filling.commands().map(str::to_owned).collect();
                *progress = Progress::Filling(Box::new(filling));
                // One that may not run keeps all of them from running.
                let refused = codes.iter().find_map(|code| Some((code, self.may_fill(code).err()?)));
                if let Some((code, error)) = refused {
                    self.refuse_command(format!("{code}: {error}"));
                }
            }
            Ok(Err(error)) => self.refuse_command(error.to_string()),
            Err(_) => self.refuse_command("looking for it panicked; this is a bug".to_owned()),
        }
        true
    }

    fn refuse_command(&mut self, reason: String) {
        if let Some(Waiting::Prompt { message, asker, .. }) = self.line.pop() {
            let name = message.called.map(|called| called.sign_and_name()).unwrap_or_default();
            asker.refuse(EngineError::CommandRefused { name, reason });
        }
        self.leave_if_answered();
    }
}
