//! `piton`: a conversation in this terminal. The face ([`piton_tui`]) has a thread of its own; here what it wants is done,
//! in a session that runs here or in another process, and what the session tells is handed to it.
//!
//! ```text
//!   Terminal (face) ── effects ──► Chat ── requests ──► Handle
//!         ▲                          │ ▲                   │
//!         └──── what is told ◄───────┘ └── answers, events ┘
//! ```
//!
//! The first frame is on the screen before settings, models and keys are read; they arrive as facts. A session begins
//! with the first words in it.

mod agents;
mod clipboard;
mod commands;
mod effects;
mod hand_over;
mod lookup;
mod looks;
mod pages;
mod queue;
mod recall;
mod recent;
mod review;
mod session;
mod session_list;
mod setup;
mod settings;
mod status;
mod theme;
mod trust;

use crate::chat::clipboard::{Clip, Copied, Seen};
use crate::chat::looks::Looks;
use crate::chat::queue::Queue;
use crate::chat::session::Open;
use crate::chat::status::StatusLine;
use crate::cli::RunArgs;
use crate::commands::sessions::find;
use crate::failure::{Context, Result};
use crate::memory;
use crate::out::print;
use crate::out::server_news::ServerNews;
use crate::pictures::FrameSizes;
use crate::run::opening;
use crate::run::order::Place;
use crate::run::stops::Stops;
use crate::run::task;
use crate::run::wishes::wishes;
use crate::surroundings::Surroundings;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use piton_core::client::{Live, Prompt, Published, Reply};
use piton_core::configure::Configure;
use piton_core::ending::TurnEnd;
use piton_core::event::{Event, Subject};
use piton_core::hidden;
use piton_core::ids::MessageId;
use piton_engine::assemble::Wishes;
use piton_engine::assemble::servers::complete::Offer;
use piton_engine::engine::{Engine, EngineError, SandboxSettings, Settings};
use piton_tools::servers::Servers;
use piton_tools::spawn::Env;
use piton_tui::face::{Effect, Facts, Input, Note};
use piton_tui::rewind::Turn;
use piton_tui::terminal::{Lent, Seat, Terminal};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;

/// What came of something that takes a while.
enum Done {
    /// The session was asked for something.
    Asked { about: About, answer: Result<Reply, EngineError> },
    /// The person's editor is closed, and the terminal given back.
    Edited {
        /// The question whose plan was edited; `None`: the prompt was.
        plan: Option<Subject>,
        edited: Result<String>,
        lent: Lent,
    },
    /// It is known what each turn changed.
    Counted(Vec<Turn>),
    /// What is on the clipboard was asked for.
    Pasted(Option<Clip>),
    /// Which of the files that were pasted are pictures: each with its text, and why it cannot be shown, if it cannot.
    Dropped(Vec<(String, Seen)>),
    /// So many lines were to be put there.
    Copied(usize, Copied),
    /// How a line may go on; nothing: another line was asked about since.
    Offered(Option<(String, Vec<Offer>)>),
    /// Another process waits to take the session over; `None`: there is nothing to take over.
    HandedOver(Result<Option<u32>>),
}

/// What was asked for, as far as it matters for what comes of it.
enum About {
    /// This message, with the words that go back into the prompt where they were not heard.
    Prompt(MessageId, String),
    /// A command of the person's own, which goes back in the same way.
    Shell(String),
    /// Messages to be taken back: all that wait, or the one that was named.
    TakenBack {
        is_named: bool,
    },
    /// A message whose turn was stopped.
    Stopped,
    /// An answer to this question.
    Answer(Subject),
    /// What would be taken back, by so many turns.
    Plan,
    Else,
}

/// What is said where Ctrl-B finds nothing.
const NOTHING_RUNS: &str = "nothing runs that could go to the background";

/// What the model's commands can reach: what a sandbox lets them, or everything.
type Reached = Option<SandboxSettings>;

type Asking = Pin<Box<dyn Future<Output = Done>>>;

/// A conversation.
struct Chat<'a> {
    terminal: Terminal,
    engine: &'a Engine,
    around: &'a Surroundings,
    place: Place,
    wishes: Wishes,
    /// Settings for the session that the next words begin.
    settings: Option<Settings>,
    open: Option<Open<'a>>,
    /// The MCP servers of the session.
    servers: Option<Arc<dyn Servers>>,
    server_news: ServerNews,
    /// Gives up what the servers are asked about a line.
    looking_up: CancellationToken,
    /// What the model's commands can reach. `None`: that is not known here, as where another process runs the session.
    sandbox: Option<Reached>,
    asked: FuturesUnordered<Asking>,
    facts: Facts,
    /// What stands before the messages in each request, where the session is run here.
    frame: Option<FrameSizes>,
    /// Whether the screen is heard and not seen: nothing is drawn in pages.
    is_heard: bool,
    /// The script that prints the status line.
    status: Option<StatusLine>,
    /// Messages that wait for the model.
    queue: Queue,
    /// Words that wait until a model can be asked.
    held: Option<Prompt>,
    is_over: bool,
    /// The command line, for a process that takes the session over.
    typed: Vec<OsString>,
    /// Whether one is waited for,
    hands_over: bool,
    /// and the one that takes it over when this one ends.
    successor: Option<u32>,
    /// Whether a turn is left as it is, for whoever goes on with it.
    is_left_open: bool,
    /// Whether an interrupt that comes next was for somebody who had the terminal.
    skips_interrupt: bool,
    /// Whether sessions of all folders are listed to choose from.
    lists_all: bool,
    /// Tells when the person's theme is another one.
    theme: theme::Watch,
    /// What the subagents at work are doing.
    agents: agents::Watch,
    /// Prompts that are kept for later sessions.
    recall: recall::Recall,
}

/// How a conversation was left.
pub(crate) enum Left {
    /// With this exit code.
    Over(u8),
    /// Another process goes on with what runs, as soon as this one has ended: until then nothing is to be dropped.
    HandedOver,
}

/// Talks until the person leaves.
pub(crate) async fn chat(args: RunArgs, around: &Surroundings) -> Result<Left> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let engine = Engine::open(&around.machine.data_dir);
    let prompt = if args.prompt.is_some() { task::of(&args, around)? } else { None };
    let picks = args.resume.as_deref() == Some("");
    let named = args.resume.as_deref().filter(|name| !name.is_empty());
    let resumed = find::to_resume(named, args.r#continue, &engine, &workspace, around)?;
    let wishes = wishes(&args, resumed.is_some(), around)?;
    let place = match resumed {
        Some(id) => Place::Resumed { id, here: workspace.clone(), is_named: args.cwd.is_some() },
        None => Place::New(workspace.clone()),
    };
    // Signals are heard before the terminal has other modes, and what is printed is printed again once it has its own.
    let mut stops = Stops::listen()?;
    let suspend = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
    let mut suspends = signal(suspend).context("cannot listen for signals")?;
    let diverted = print::Diverted::new();
    let (terminal, effects, (status, is_heard)) = face((args.screen_reader, args.full), around)?;
    let mut chat = Chat {
        terminal,
        engine: &engine,
        around,
        place,
        wishes,
        settings: None,
        open: None,
        servers: None,
        server_news: ServerNews::default(),
        looking_up: CancellationToken::new(),
        sandbox: None,
        asked: FuturesUnordered::new(),
        facts: Facts { folder: home_short(&workspace, around), workspace, ..Facts::default() },
        frame: None,
        is_heard,
        status: status.map(|command| StatusLine::new(command, Env::new(around.machine.vars.clone()))),
        queue: Queue::default(),
        held: prompt,
        is_over: false,
        typed: args.typed,
        hands_over: false,
        successor: None,
        is_left_open: false,
        skips_interrupt: false,
        lists_all: false,
        theme: theme::Watch::start(around),
        agents: agents::Watch::default(),
        recall: recall::Recall::of(&around.machine.data_dir),
    };
    let stopped = tokio::select! {
        biased;
        stop = stops.next() => Some(stop),
        () = chat.begin(picks) => None,
    };
    let told = match stopped {
        Some(stop) => Ok(stop.code()),
        None => Box::pin(chat.until_over(effects, (&mut stops, &mut suspends))).await,
    };
    let (successor, is_left_open) = (chat.successor, chat.is_left_open);
    let (id, open) = chat.leave(diverted);
    if let (Some(pid), Some(open)) = (successor, &open) {
        hand_over::say(open.session.id(), pid);
    }
    if successor.is_some() || is_left_open {
        // Dropped, it would stop what somebody goes on with.
        std::mem::forget(open);
        return Ok(Left::HandedOver);
    }
    session::close_at_last(id, open, stops).await;
    told.map(Left::Over)
}

/// The terminal, what it wants, the script of the status line, and whether the screen is heard and not seen.
type Started = (Terminal, UnboundedReceiver<Effect>, (Option<String>, bool));

/// The face on the screen, what it wants, the script that prints its status line, and whether the screen is heard and not seen. What would
/// be printed meanwhile is shown by it.
fn face(wanted: (bool, bool), around: &Surroundings) -> Result<Started> {
    let Looks { face, around, status, mistakes } = looks::looks(around, wanted);
    let is_heard = around.is_heard;
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("cannot read the terminal")?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().context("cannot write to the terminal")?;
    let (sender, effects) = mpsc::unbounded_channel();
    let seat = Seat { input: File::from(input), output: File::from(output) };
    let terminal = Terminal::start(face, seat, around, move |effect| drop(sender.send(effect)));
    let terminal = terminal.context("cannot use this terminal; piton run \"…\" needs none")?;
    mistakes.into_iter().for_each(|mistake| terminal.tell(Input::Note(Note::Warning(mistake))));
    Ok((terminal, effects, (status, is_heard)))
}

impl Chat<'_> {
    async fn until_over(
        &mut self,
        mut effects: UnboundedReceiver<Effect>,
        (stops, suspends): (&mut Stops, &mut Signal),
    ) -> Result<u8> {
        let mut sizes = signal(SignalKind::window_change()).context("cannot listen for signals")?;
        // It may have changed while the session was opened.
        self.terminal.resized();
        while !self.is_over {
            self.show_printed();
            tokio::select! {
                biased;
                effect = effects.recv() => match effect {
                    Some(effect) => Box::pin(self.act(effect)).await,
                    None => return Ok(self.without_terminal(stops).await),
                },
                told = Open::next(&mut self.open) => self.hear(told).await,
                Some(done) = self.asked.next() => self.done(done).await,
                lines = StatusLine::next(&mut self.status) => self.terminal.tell(Input::Status(lines)),
                _ = sizes.recv() => self.terminal.resized(),
                _ = suspends.recv() => self.suspended(),
                () = self.theme.changed() => self.read_theme(),
                () = self.agents.due() => self.look_at_agents().await,
                stop = stops.next() => match std::mem::take(&mut self.skips_interrupt) && !stop.by_term {
                    true => {}
                    false if stop.is_hang_up => return Ok(self.without_terminal(stops).await),
                    false => return Ok(stop.code()),
                },
            }
        }
        Ok(0)
    }

    /// What was printed by what knows of no face.
    fn show_printed(&self) {
        for line in print::diverted() {
            self.terminal.tell(Input::Note(Note::Plain(line)));
        }
    }

    fn note(&self, words: impl Into<String>) {
        self.terminal.tell(Input::Note(Note::Plain(words.into())));
    }

    fn warn(&self, words: impl Into<String>) {
        self.terminal.tell(Input::Note(Note::Warning(words.into())));
    }

    async fn hear(&mut self, told: Option<Published>) {
        match told {
            Some(Published::Closed(closed)) => self.was_closed(closed),
            Some(published) => {
                if let Some(status) = &mut self.status {
                    status.hear(&published);
                }
                if let Published::Recorded(record) = &published {
                    self.agents.hear(record);
                    if let Event::TurnEnded { .. } = record.event {
                        memory::give_back_soon();
                    }
                }
                self.tell_of_servers(&published);
                let changed = self.changed(&published);
                let news = match (&published, &self.open) {
                    (Published::Recorded(record), Some(open)) if record.seq > open.session.opened_at() => Some(record),
                    _ => None,
                };
                news.iter().for_each(|record| self.queue.hear(record));
                news.iter().for_each(|record| self.hear_elsewhere(&record.event));
                let is_told_all = matches!(published, Published::Now(_));
                self.terminal.hear(published);
                // Earlier turns were run as they were; the next one is run as the session is now.
                if is_told_all {
                    self.tell_facts();
                }
                changed.iter().for_each(|changed| self.configured(changed));
            }
            None => self.was_closed(piton_core::client::Closed::Lost),
        }
    }

    /// A warning for each server that cannot be used, or not in all. `/mcp` says more.
    fn tell_of_servers(&mut self, published: &Published) {
        let Published::Live(live) = published else { return };
        if let Live::Servers { servers } = &**live {
            let lines = self.server_news.lines(servers);
            lines.into_iter().for_each(|line| self.warn(line));
        }
    }

    /// What is changed of how the session is run, by whomever, since it is open here.
    fn changed(&self, published: &Published) -> Option<Configure> {
        let (Published::Recorded(record), Some(open)) = (published, &self.open) else { return None };
        match &record.event {
            Event::SettingsChanged { changed, .. } if record.seq > open.session.opened_at() => Some(changed.clone()),
            _ => None,
        }
    }

    async fn done(&mut self, done: Done) {
        let (about, answer) = match done {
            Done::Asked { about, answer } => (about, answer),
            Done::Edited { plan, edited, lent } => {
                drop(lent);
                return match (edited, plan) {
                    (Ok(text), None) => self.terminal.tell(Input::Edited(text)),
                    (Ok(text), Some(plan)) => self.terminal.tell(Input::PlanEdited(plan, text)),
                    (Err(error), _) => self.fail(&error),
                };
            }
            Done::Counted(turns) => return self.terminal.tell(Input::RewindAgain(turns)),
            Done::Pasted(clip) => return self.pasted(clip),
            Done::Dropped(seen) => return self.dropped(seen),
            Done::Copied(lines, copied) => return self.copied(lines, &copied),
            Done::Offered(offered) => return self.offered(offered),
            Done::HandedOver(successor) => return self.handed_over(successor),
        };
        match (about, answer) {
            (About::Plan, Ok(Reply::Planned(plan))) => self.planned(*plan),
            (_, Ok(Reply::Configured(configured))) => {
                configured.notices.iter().for_each(|notice| self.note(notice.clone()));
                self.configured(&configured.changed);
            }
            (_, Ok(Reply::Leaving { calls })) if calls.is_empty() => self.terminal.tell(Input::Background),
            (_, Ok(Reply::Forked { session })) => self.switch(session).await,
            (About::TakenBack { is_named }, Ok(Reply::Unqueued { messages })) => self.taken_back(&messages, is_named),
            (About::TakenBack { .. }, Err(error)) => self.not_taken_back(&error),
            (About::Stopped, Ok(Reply::Unqueued { messages })) => self.stopped_before_read(&messages),
            // It was read.
            (About::Stopped, _) => {}
            (About::Prompt(message, _), Ok(Reply::Ended { report, .. })) if report.end == TurnEnd::Canceled => {
                self.stopped(message);
            }
            (_, Ok(_)) => {}
            // There was nothing to stop.
            (_, Err(EngineError::AtRest)) => {}
            (About::Prompt(_, words), Err(EngineError::NotBegun(report))) => {
                self.warn(report.detail.unwrap_or_else(|| "a hook did not let it pass".to_owned()));
                self.terminal.tell(Input::PutBack(words));
            }
            (About::Prompt(message, words), Err(error)) => self.refused(message, words, error.to_string()),
            (About::Shell(words), Err(error)) => {
                self.warn(error.to_string());
                self.terminal.tell(Input::PutBack(words));
            }
            // Somebody else was faster, or the question is another one by now: what counts is told.
            (About::Answer(_), Err(EngineError::NotOpen { .. })) => {}
            (About::Answer(subject), Err(error)) => {
                self.warn(error.to_string());
                self.terminal.tell(Input::NotAnswered(subject));
            }
            (_, Err(error)) => self.warn(error.to_string()),
        }
    }
}

/// A path as people write it.
fn home_short(path: &Path, around: &Surroundings) -> String {
    let home = around.machine.var("HOME").filter(|home| home.len() > 1);
    let below = home.and_then(|home| path.strip_prefix(home).ok());
    let short = match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    };
    hidden::visible_name(&short)
}

/// What a session needs that is not open yet.
async fn prepared<'p>(
    place: &'p Place,
    wishes: &mut Wishes,
    engine: &Engine,
    around: &Surroundings,
) -> Result<opening::Prepared<'p>> {
    opening::prepare(place, wishes, engine, around).await
}
