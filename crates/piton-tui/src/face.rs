//! The face itself, as a fold: what happens goes in, effects come out, and at any time it can say what the screen shall
//! show. It knows no terminal, no clock and no engine.
//!
//! ```text
//!   keys, what the session tells, answers ──► Face::take ──► [Effect]
//!                                                └──► Face::frame ──► Frame
//! ```

mod agents;
mod frame;
mod offer;
mod pages;
mod press;
mod spoken;
mod typing;
#[cfg(test)]
mod tests;

pub use crate::face::agents::AgentNow;

use crate::commands::Command;
use crate::dropped::Dropped;
use crate::face::offer::AtWorkspace;
use crate::history::{Entry, History, Scope};
use crate::keys::{Keys, Style};
use crate::page::Page;
use crate::picker::{Item, Picker, Purpose};
use crate::prompt::{Picture, Prompt};
use crate::question::Asked;
use crate::review::{FileChange, FileHunk, Review, Source};
use crate::rewind::{self, Rewind};
use crate::theme::{Level, Theme};
use crate::transcript::Transcript;
use crate::trust::{Brought, Trusting};
use crossterm::event::KeyEvent;
use piton_core::client::{Answer, Published, Scope as RewindScope, Wanted, When};
use piton_core::event::{Event, Subject};
use piton_core::ids::{CallId, MessageId};
use piton_core::permission::PermissionMode;
use piton_core::task::Tasks;
use piton_core::todo::TodoItem;
use ratatui_core::text::Line;
use std::collections::VecDeque;
use std::path::PathBuf;

/// What the face is told.
#[derive(Debug)]
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// Text was pasted.
    Paste(String),
    /// The screen has this many columns and rows.
    Resize(usize, usize),
    /// The terminal has the focus, or has it no more.
    Focus(bool),
    /// A session tells something.
    Heard(Box<Published>),
    /// From here on another session is told of: its title or id, and whether it has a past.
    Session {
        /// Its id; empty: one that begins with the first prompt.
        id: String,
    },
    /// The session's last turn was interrupted with the process that ran it, and waits to be resumed.
    Interrupted,
    /// How the next turn will be run.
    Facts(Facts),
    /// A line that stands in the transcript.
    Note(Note),
    /// A line that stands in the place of the status line until the next key.
    Hint(String),
    /// A text that gets the whole screen.
    Page {
        /// What it is.
        title: String,
        /// The text, which may be long.
        text: String,
        /// Whether its end is shown first.
        at_end: bool,
    },
    /// What was changed, to be looked through.
    Review(Source, Vec<FileChange>),
    /// The same, told anew: nothing where it is not looked through any more.
    ReviewAgain(Source, Vec<FileChange>),
    /// The turns of the session, to go back to before one of them.
    Rewind(Vec<rewind::Turn>),
    /// The same, when more is known of them: nothing where they are not looked at any more.
    RewindAgain(Vec<rewind::Turn>),
    /// What the repository brings along, to be trusted or not.
    Trust(Vec<Brought>),
    /// The same, when that has changed: nothing where it is not looked at any more.
    TrustAgain(Vec<Brought>),
    /// Text from the clipboard.
    Pasted(String),
    /// A picture from there.
    Picture(Picture),
    /// This text, which was pasted, names a picture.
    Dropped(String, Picture),
    /// Other colours: they were chosen, or the person's file was changed.
    Theme(Box<Theme>),
    /// The colours that suit the terminal's background, no more of them than it has.
    AutoTheme(Level),
    /// What the subagents at work are doing.
    Agents(Vec<AgentNow>),
    /// Something to choose from.
    Choose {
        /// What becomes of the choice.
        purpose: Purpose,
        /// What is chosen.
        title: String,
        /// The choices.
        items: Vec<Item>,
    },
    /// An answer was not taken: the question stands as it did.
    NotAnswered(Subject),
    /// No command runs that could go to the background.
    Background,
    /// The session tells nothing more: nobody runs it.
    Closed,
    /// Words go back into the prompt, before those that stand there.
    PutBack(String),
    /// The text of the prompt, as the person's editor left it.
    Edited(String),
    /// The plan that is asked about, as the person's editor left it.
    PlanEdited(Subject, String),
    /// Prompts from before, the oldest first.
    History(Vec<Entry>),
    /// Commands beside Piton's own.
    Commands(Vec<Command>),
    /// What the last word of this line may become. It is no news if the person has typed on.
    Offers(String, Vec<Item>),
    /// What the session has cost so far, in millionths of a dollar: not all of its past is told.
    Spent(Option<u64>),
    /// Sessions that a prompt may refer to, each by its id.
    Sessions(Vec<Item>),
    /// What stands in the place of the status line, by a script of the person's; nothing: Piton's own.
    Status(Vec<String>),
    /// Time passes.
    Tick,
}

/// How the next turn will be run, as far as it is known before it begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// `provider/model`; empty where none can be asked yet.
    pub model: String,
    /// The permission mode.
    pub mode: PermissionMode,
    /// The agent that runs the session; empty for `build`, which is the default.
    pub agent: String,
    /// Tokens that fit the model's context, where that is known.
    pub window: Option<u64>,
    /// What holds commands, in a few words.
    pub sandbox: String,
    /// The folder, as people write it.
    pub folder: String,
    /// The folder itself, for the files behind an `@`.
    pub workspace: PathBuf,
    /// What may be spent, in millionths of a dollar.
    pub budget_micros: Option<u64>,
    /// Whether another process runs the session: whoever leaves here ends nothing.
    pub is_elsewhere: bool,
}

impl Facts {
    /// Whether nothing holds commands.
    fn is_unconfined(&self) -> bool {
        self.sandbox.contains("unconfined")
    }
}

/// A line beside what the session tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Worth knowing.
    Plain(String),
    /// Something did not go as it was meant.
    Warning(String),
}

/// What shall be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Say this in the session.
    Say {
        /// The words.
        text: String,
        /// Pictures beside them.
        pictures: Vec<Picture>,
        /// When the model hears it.
        when: When,
    },
    /// Answer a question.
    Answer(Answer),
    /// Stop the turn.
    Cancel,
    /// Take a waiting message back; `None`: all that can be.
    Unqueue(Option<MessageId>),
    /// Run a command of the person's.
    Shell {
        /// The command.
        command: String,
        /// Whether the model never reads of it.
        is_private: bool,
    },
    /// Type these keys into the terminal of a command that runs.
    Type(CallId, String),
    /// Work in another permission mode.
    Mode(PermissionMode),
    /// A command that the face does not carry out itself.
    Command {
        /// Its name, without the slash.
        name: String,
        /// What followed.
        words: String,
    },
    /// Something was chosen.
    Chosen(Purpose, String),
    /// Open a text in the person's editor.
    Editor {
        /// The text.
        text: String,
        /// What the model said last, to be read beside it.
        beside: String,
    },
    /// Tell what this line, which ends at the cursor, may go on with, by [`Input::Offers`].
    LookUp(String),
    /// Open the plan that is asked about in the person's editor.
    EditPlan(Subject, String),
    /// Put in what is on the clipboard.
    Paste,
    /// Say by [`Input::Dropped`] which of these, which were pasted, are pictures.
    Dropped(Vec<Dropped>),
    /// Take so many turns back.
    Rewind {
        /// How many.
        turns: u32,
        /// What of them.
        scope: RewindScope,
    },
    /// Trust what the repository brings along in this form, or take that back.
    Trust(Brought, bool),
    /// Do this to a session in a list of them.
    Session(Deed),
    /// Show what this theme looks like; `None`: the one that was there before.
    TryTheme(Option<String>),
    /// Stop this subagent, by its session, or this command in the background, by its call.
    StopWork(String),
    /// Put this on the clipboard, and say what came of it by [`Input::Hint`]. The terminal is asked to already.
    Copy(String),
    /// Tell what was changed between these states.
    Review(Source),
    /// Take this hunk out of its file, and tell again what was changed.
    TakeBackHunk(Source, FileHunk),
    /// Keep this prompt for later sessions.
    Remember(Entry),
    /// Send what runs to the background.
    Background,
    /// Give the terminal to the shell.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Use the whole screen, or the scrollback again; `None`: the other one of the two.
    Full(Option<bool>),
    /// Look so many half screens further back in the transcript, where it has the whole screen.
    Scroll(isize),
    /// Leave. What runs in the background is ended.
    Leave,
    /// Leave, and let the commands in the background go on.
    LeaveRunning,
    /// Leave, and have the turn go on without a terminal.
    HandOver,
}

/// What is done to a session in a list of them, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Give it a title.
    Rename(String, String),
    /// Move it to the trash.
    Trash(String),
    /// Show what was said in it.
    Show(String),
    /// List those of this folder, or those of all folders.
    OtherFolders,
}

/// What a line below the prompt offers.
#[derive(Debug, Default)]
struct Menu {
    items: Vec<Item>,
    chosen: usize,
    /// What is typed, and where it begins in the prompt.
    needle: String,
    /// Whether the person wants none until something else is typed.
    is_closed: bool,
    /// Whether what is behind an `@` has yet to be looked for: once for all keys that came together.
    is_stale: bool,
}

/// Everything the face shows.
#[derive(Debug)]
pub struct Face {
    size: (usize, usize),
    now_ms: u64,
    theme: Theme,
    keys: Keys,
    transcript: Transcript,
    prompt: Prompt,
    questions: VecDeque<Asked>,
    menu: Menu,
    picker: Option<Picker>,
    /// When a list appeared that the person did not open by a key just now, until it is used.
    picker_ms: Option<u64>,
    page: Option<Page>,
    /// What keys do, on a page above all others.
    help: Option<Page>,
    /// Whether the page is the one of the last call.
    shows_call: bool,
    /// Whether the page is a plan that is asked about.
    shows_plan: bool,
    review: Option<Review>,
    rewind: Option<Rewind>,
    trusting: Option<Trusting>,
    /// Whether the face is left when the turn is over.
    leaves_after: bool,
    /// The command that gets the keys.
    typed_into: Option<CallId>,
    /// Words that came back into the prompt, until it is sent.
    returned: String,
    facts: Option<Facts>,
    /// Rows from beside the session, to be shown with the next frame.
    notes: Vec<Line<'static>>,
    history: History,
    /// What prompts from before are looked at.
    scope: Scope,
    /// What is there for an `@`, once one was typed.
    at: Option<AtWorkspace>,
    /// Sessions to refer to: title, what else there is to know, id.
    sessions: Vec<Item>,
    commands: Vec<Command>,
    meter: Meter,
    todos: Vec<TodoItem>,
    /// What runs in the background.
    tasks: Tasks,
    shows_panel: bool,
    /// When a key was pressed last, and when the two that want a second press were.
    key_ms: u64,
    escape_ms: Option<u64>,
    leave_ms: Option<u64>,
    /// When the mode was changed by a key last, and to which.
    cycled: Option<(u64, PermissionMode)>,
    /// A hint in the place of the status line, until the next key.
    hint: Option<String>,
    /// The status line by a script of the person's.
    status_lines: Vec<String>,
    is_introduced: bool,
    spins: usize,
    is_still: bool,
    /// What was said already of what may change, where the face is heard and not seen.
    said: spoken::Said,
    /// The colours there are for a theme that follows the terminal; `None`: it was chosen.
    follows: Option<Level>,
    /// The colour behind the text, where the terminal told it.
    background: Option<(u8, u8, u8)>,
    /// What subagents are doing.
    agents: Vec<AgentNow>,
}

/// What the last request used, and the session so far.
#[derive(Debug, Default)]
struct Meter {
    context_tokens: u64,
    cache_percent: Option<u64>,
}

impl Face {
    /// A face on a screen of this size, that knows of no session yet.
    pub fn new(columns: usize, rows: usize, theme: Theme) -> Self {
        Self {
            size: (columns.max(1), rows.max(1)),
            now_ms: 0,
            theme,
            keys: Keys::default(),
            transcript: Transcript::new(),
            prompt: Prompt::default(),
            questions: VecDeque::new(),
            menu: Menu::default(),
            picker: None,
            picker_ms: None,
            page: None,
            help: None,
            shows_call: false,
            shows_plan: false,
            review: None,
            rewind: None,
            trusting: None,
            leaves_after: false,
            typed_into: None,
            returned: String::new(),
            facts: None,
            notes: Vec::new(),
            history: History::default(),
            scope: Scope::Folder,
            at: None,
            sessions: Vec::new(),
            commands: crate::commands::own(),
            meter: Meter::default(),
            todos: Vec::new(),
            tasks: Tasks::default(),
            shows_panel: false,
            key_ms: 0,
            escape_ms: None,
            leave_ms: None,
            cycled: None,
            hint: None,
            status_lines: Vec::new(),
            is_introduced: false,
            spins: 0,
            is_still: false,
            said: spoken::Said::default(),
            follows: None,
            background: None,
            agents: Vec::new(),
        }
    }

    /// Other keys than the default ones.
    #[must_use]
    pub fn with_keys(mut self, keys: Keys) -> Self {
        self.prompt.set_vi(keys.style() == Style::Vi);
        self.keys = keys;
        self
    }

    /// Nothing that moves by itself.
    #[must_use]
    pub fn still(mut self) -> Self {
        self.is_still = true;
        self
    }

    /// The colour behind the text: the theme follows, where it was left to the terminal.
    pub fn learn_background(&mut self, background: (u8, u8, u8)) {
        self.background = Some(background);
        if let Some(level) = self.follows {
            self.theme = Theme::of_background(Some(background)).at(level);
        }
    }

    /// The theme follows the terminal's background, in no more colours than it has.
    #[must_use]
    pub fn following(mut self, level: Level) -> Self {
        self.follows = Some(level);
        self
    }

    /// Whether something moves with time, so that [`Input::Tick`] is wanted every tenth of a second.
    pub fn moves(&self) -> bool {
        let is_appearing = |asked: &Asked| !self.has_page() && !asked.is_ready(self.now_ms);
        let has_agents = self.tasks.subagents_at_work().next().is_some();
        self.is_busy() || has_agents || self.asked().is_some_and(is_appearing)
    }

    /// Whether a page has the whole screen.
    pub fn has_page(&self) -> bool {
        let is_page = self.help.is_some() || self.page.is_some();
        is_page || self.review.is_some() || self.rewind.is_some() || self.trusting.is_some()
    }

    /// The question that is to be answered next.
    fn asked(&self) -> Option<&Asked> {
        self.questions.iter().find(|asked| !asked.is_answered())
    }

    fn asked_mut(&mut self) -> Option<&mut Asked> {
        self.questions.iter_mut().find(|asked| !asked.is_answered())
    }

    fn is_busy(&self) -> bool {
        self.transcript.is_busy()
    }

    /// Takes notice of something. What is to be done for it.
    pub fn take(&mut self, input: Input, now_ms: u64) -> Vec<Effect> {
        self.now_ms = self.now_ms.max(now_ms);
        match input {
            Input::Key(key) => return self.press(key),
            Input::Paste(text) => return self.paste(&text),
            Input::Resize(columns, rows) => self.size = (columns.max(1), rows.max(1)),
            Input::Focus(_) => {}
            Input::Heard(published) => {
                self.hear(&published);
                if self.leaves_after && !self.is_busy() {
                    self.leaves_after = false;
                    return self.leave();
                }
            }
            Input::Session { id } => self.begin(&id),
            Input::Interrupted => self.transcript.interrupt(),
            Input::Facts(facts) => self.introduce(facts),
            Input::Note(note) => self.note(&note),
            Input::Hint(hint) => self.hint = Some(hint),
            page @ (Input::Page { .. }
            | Input::Review(..)
            | Input::ReviewAgain(..)
            | Input::Rewind(_)
            | Input::RewindAgain(_)
            | Input::Trust(_)
            | Input::TrustAgain(_)) => self.take_page(page),
            Input::Pasted(text) => return self.paste(&text),
            Input::Picture(picture) => self.prompt.attach(picture),
            Input::Dropped(text, picture) => self.prompt.attach_for(&text, picture),
            Input::Theme(theme) => (self.theme, self.follows) = (*theme, None),
            Input::AutoTheme(level) => {
                self.follows = Some(level);
                self.theme = Theme::of_background(self.background).at(level);
            }
            Input::Agents(agents) => self.agents = agents,
            Input::Choose { purpose, title, items } => {
                self.picker = Some(Picker::new(purpose, &title, items));
                self.picker_ms = Some(self.now_ms);
            }
            Input::NotAnswered(subject) => {
                let mut open = self.questions.iter_mut().filter(|asked| asked.wanted().subject == subject);
                open.next().into_iter().for_each(Asked::ask_again);
            }
            Input::Background => return self.background(),
            Input::Closed => self.close(),
            Input::PutBack(words) => self.put_back(&words),
            Input::PlanEdited(subject, text) => return self.plan_edited(&subject, &text),
            Input::Edited(text) => self.set_prompt(text.trim_end_matches('\n')),
            Input::History(entries) => self.history.extend(entries),
            Input::Offers(line, items) => self.take_offers(&line, items),
            Input::Commands(commands) => return self.add_commands(commands),
            Input::Spent(cost_micros) => self.transcript.spent(cost_micros),
            Input::Sessions(sessions) => self.sessions = sessions,
            Input::Status(lines) => self.status_lines = lines,
            Input::Tick => {
                self.spins += 1;
            }
        }
        Vec::new()
    }

    /// Something gets the whole screen, or is another thing by now.
    fn take_page(&mut self, page: Input) {
        match page {
            Input::Page { title, text, at_end } => {
                let page = Page::of_text(&title, &text);
                (self.shows_call, self.shows_plan) = (false, false);
                self.page = Some(if at_end { page.at_end() } else { page });
            }
            Input::Review(source, files) => {
                let review = Review::new(source, files);
                self.review = Some(match self.review.take() {
                    Some(before) => review.again(&before),
                    None => review,
                });
            }
            Input::ReviewAgain(source, files) => {
                self.review = self.review.take().map(|before| Review::new(source, files).again(&before));
            }
            Input::Rewind(turns) => {
                self.rewind = Some(Rewind::new(&turns));
                self.picker_ms = Some(self.now_ms);
            }
            Input::RewindAgain(turns) => {
                self.rewind = self.rewind.take().map(|before| Rewind::new(&turns).again(&before));
            }
            Input::Trust(items) => {
                self.trusting = Some(Trusting::new(items));
                self.picker_ms = Some(self.now_ms);
            }
            Input::TrustAgain(items) => self.trusting = self.trusting.take().map(|before| before.again(items)),
            _ => {}
        }
    }

    fn add_commands(&mut self, commands: Vec<Command>) -> Vec<Effect> {
        self.commands.extend(commands);
        // What is typed already may mean one of them.
        if self.menu.needle.starts_with('/') { self.offer() } else { Vec::new() }
    }

    fn hear(&mut self, published: &Published) {
        match published {
            Published::Wanted(wanted) if !self.questions.iter().any(|asked| asked.wanted() == wanted) => {
                self.questions.push_back(Asked::new(wanted.clone()));
            }
            Published::Withdrawn(subject) => self.withdraw(|wanted| wanted.subject == *subject),
            Published::Now(now) => self.withdraw(|wanted| !now.wanted.contains(wanted)),
            Published::Recorded(record) => {
                self.tasks.hear(record);
                self.measure(&record.event);
            }
            _ => {}
        }
        self.transcript.hear(published);
        self.stop_typing_into_what_is_over();
    }

    /// Questions are not open any more. What was being typed for one is not lost.
    fn withdraw(&mut self, is_gone: impl Fn(&Wanted) -> bool) {
        let (gone, kept) = self.questions.drain(..).partition::<VecDeque<_>, _>(|asked| is_gone(asked.wanted()));
        self.questions = kept;
        for mut asked in gone {
            if let Some(words) = asked.words() {
                self.put_back(&words);
                // Keys that were on their way to the question are nobody's answer and no prompt yet.
                self.key_ms = self.now_ms;
            }
        }
    }

    /// Nobody runs the session: what was open stays as far as it came.
    fn close(&mut self) {
        let (columns, _) = self.size;
        self.questions.clear();
        self.notes.extend(self.transcript.commit(columns, &self.theme));
        self.notes.extend(self.transcript.open(columns, &self.theme, ('–', None), self.now_ms));
        self.transcript = Transcript::new();
    }

    fn measure(&mut self, event: &Event) {
        match event {
            Event::MessageFinished { reply, .. } if reply.usage.input_tokens > 0 => {
                let usage = &reply.usage;
                self.meter.context_tokens = usage.total();
                self.meter.cache_percent = Some(usage.cache_read_tokens * 100 / usage.input_tokens);
            }
            Event::SessionStarted { session, .. } => self.history.name_session(session.as_str()),
            Event::Todo { items, .. } => self.todos.clone_from(items),
            Event::TurnStarted { model, policy, .. } => {
                if let Some(facts) = &mut self.facts {
                    facts.model.clone_from(model);
                    facts.mode = policy.mode;
                }
            }
            _ => {}
        }
    }

    /// Another session is told of.
    fn begin(&mut self, id: &str) {
        self.close();
        self.rewind = None;
        self.leaves_after = false;
        self.meter = Meter::default();
        self.todos.clear();
        self.tasks = Tasks::default();
        self.agents.clear();
        self.history.set_session(id);
        if !id.is_empty() {
            let line = format!("  {id}");
            self.notes.push(Line::styled(line, self.theme.dim));
        }
    }

    fn put_back(&mut self, words: &str) {
        if words.is_empty() {
            return;
        }
        let now = self.prompt.text();
        let all = if now.trim().is_empty() { words.to_owned() } else { format!("{words}\n{now}") };
        words.clone_into(&mut self.returned);
        self.set_prompt(&all);
    }

    fn note(&mut self, note: &Note) {
        let (words, style) = match note {
            Note::Plain(words) => (words, self.theme.dim),
            Note::Warning(words) => (words, self.theme.warn),
        };
        for line in crate::text::clean_lines(words.trim_end()) {
            let line = Line::styled(format!("  {line}"), style);
            self.notes.extend(crate::text::wrap(&line, self.size.0, 2));
        }
    }
}
