//! What the face wants, done.

use super::{About, Chat, Done, home_short};
use crate::editor::Editor;
use crate::failure::{Context, Result};
use base64::Engine as _;
use piton_core::client::{Prompt, Request};
use piton_core::configure::{BUILD, Configure, PLAN};
use piton_core::event::{Direction, Subject};
use piton_core::message::Part;
use piton_core::permission::PermissionMode;
use piton_tui::face::Effect;
use piton_tui::picker::Purpose;
use piton_tui::prompt::Picture;
use std::io::Write;

/// Stands in the editor between the prompt and the last answer.
const BESIDE: &str = "<!-- Below this line: the last answer, to read. It is not part of the prompt. -->";

impl Chat<'_> {
    pub(super) async fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Say { text, pictures, when } => {
                let parts = pictures.into_iter().map(part).collect();
                self.say(Prompt { text, parts, delivery: when, ..Prompt::default() }).await;
            }
            Effect::Answer(answer) => {
                let subject = answer.subject.clone();
                self.ask(Request::Answer(answer), About::Answer(subject));
            }
            Effect::Cancel => self.ask(Request::Cancel {}, About::Else),
            Effect::Unqueue(message) => self.take_back(message),
            Effect::Shell { command, is_private } => self.shell(command, is_private).await,
            Effect::Type(call, keys) => self.ask(Request::Type { call, keys }, About::Else),
            Effect::Mode(mode) => self.mode(mode).await,
            Effect::Command { name, words } => self.command(&name, &words).await,
            Effect::Chosen(purpose, value) => self.chosen(purpose, &value).await,
            Effect::Editor { text, beside } => self.edit(text, beside, None),
            Effect::EditPlan(subject, text) => self.edit(text, String::new(), Some(subject)),
            Effect::Rewind { turns, scope } => self.plan(Direction::Undo, turns, scope),
            Effect::Trust(shown, wanted) => self.trust_one(&shown, wanted),
            Effect::Session(deed) => self.session_deed(deed).await,
            Effect::TryTheme(name) => self.try_theme(name.as_deref()),
            Effect::StopWork(name) => self.stop_work(&name).await,
            Effect::LookUp(line) => self.look_up(line),
            Effect::Paste => self.paste(),
            Effect::Copy(text) => self.copy(text),
            Effect::Dropped(files) => self.look_at(files),
            Effect::Review(source) => self.review_again(source).await,
            Effect::TakeBackHunk(source, hunk) => self.take_back_hunk(source, hunk).await,
            Effect::Remember(entry) => self.remember(entry),
            Effect::Background => match self.open {
                Some(_) => self.ask(Request::Background { call: None }, About::Else),
                None => self.note(super::NOTHING_RUNS),
            },
            Effect::Suspend => {
                let lent = self.terminal.lend();
                suspend();
                drop(lent);
            }
            Effect::Leave => self.is_over = true,
            Effect::LeaveRunning => match self.keep_commands().await {
                Ok(()) => self.is_over = true,
                Err(error) => self.fail(&error),
            },
            Effect::HandOver => self.hand_over(),
            // These are the terminal's.
            Effect::Redraw | Effect::Full(_) | Effect::Scroll(_) => {}
        }
    }

    /// What somebody else wants who has sent SIGTSTP: the terminal is left as it was found meanwhile.
    pub(super) fn suspended(&self) {
        let lent = self.terminal.lend();
        suspend_alone();
        drop(lent);
    }

    /// A text in the person's editor: the prompt, or the plan that this question is about.
    fn edit(&mut self, text: String, beside: String, plan: Option<Subject>) {
        self.skips_interrupt = true;
        let (lent, around) = (self.terminal.lend(), self.around.clone());
        // The session goes on meanwhile.
        let edits = tokio::task::spawn_blocking(move || edit(&text, &beside, &around));
        self.asked.push(Box::pin(async move {
            let edited = edits.await.context("the editor could not be waited for");
            Done::Edited { plan, edited: edited.unwrap_or_else(Err), lent }
        }));
    }

    pub(super) async fn mode(&mut self, mode: PermissionMode) {
        if self.open.is_some() {
            return self.ask(Request::Configure(Configure { mode: Some(mode), ..Configure::default() }), About::Else);
        }
        self.wishes.mode = Some(mode);
        // Who leaves the mode plan leaves the agent that plans.
        if mode != PermissionMode::Plan && self.facts.agent == PLAN {
            self.wishes.had.agent = Some(BUILD.to_owned());
            self.wishes.forget_agent();
        }
        self.assemble().await;
    }

    async fn chosen(&mut self, purpose: Purpose, value: &str) {
        match purpose {
            Purpose::Session => self.switch(value.into()).await,
            Purpose::Model => self.model(value).await,
            Purpose::Agent => self.agent(value).await,
            Purpose::Rewind => self.rewind_to(value),
            Purpose::Setup => self.set_up(value).await,
            Purpose::Theme => self.use_theme(value).await,
            Purpose::Work => self.show_work(value).await,
            // The face sees to these.
            Purpose::History | Purpose::Leaving | Purpose::Unsent | Purpose::Setting => {}
        }
    }

    pub(super) async fn model(&mut self, name: &str) {
        if self.open.is_some() {
            let changed = Configure { model: Some(name.to_owned()), ..Configure::default() };
            return self.ask(Request::Configure(changed), About::Else);
        }
        let before = self.wishes.had.model.replace(name.to_owned());
        if !self.assemble().await {
            self.wishes.had.model = before;
        }
    }

    /// Where the conversation is, as people write it.
    pub(super) fn folder_short(&self) -> String {
        home_short(self.folder(), self.around)
    }
}

fn part(picture: Picture) -> Part {
    Part::Image {
        media_type: picture.media_type,
        data: base64::engine::general_purpose::STANDARD.encode(picture.bytes),
    }
}

/// The text, as the person's editor left it.
fn edit(text: &str, beside: &str, around: &crate::surroundings::Surroundings) -> Result<String> {
    let editor = Editor::at_hand(around)?;
    let made = tempfile::Builder::new().prefix("piton-prompt-").suffix(".md").tempfile_in(&around.temp_dir);
    let mut file = made.context("cannot write the prompt to a file")?;
    let all = if beside.is_empty() { text.to_owned() } else { format!("{text}\n\n{BESIDE}\n\n{beside}\n") };
    file.write_all(all.as_bytes()).context("cannot write the prompt to a file")?;
    editor.open(file.path())?;
    let left = std::fs::read_to_string(file.path()).context("cannot read what the editor left")?;
    Ok(without_beside(&left))
}

/// What of an edited text is the prompt.
fn without_beside(left: &str) -> String {
    match left.split_once(BESIDE) {
        Some((prompt, _)) => prompt.trim_end().to_owned(),
        None => left.to_owned(),
    }
}

/// Stops this process and those it was started with, as Ctrl-Z does, until the shell goes on with them.
fn suspend() {
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::STOP);
}

/// Stops this process, until somebody goes on with it.
fn suspend_alone() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}
