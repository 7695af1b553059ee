//! `piton run`: what is said on a command line or line by line, in a new session, one that goes on, or one that another process
//! runs. How it goes is [`crate::run::conversation`]; here is decided with which session.

pub(crate) mod ask;
pub(crate) mod conversation;
pub(crate) mod follow;
pub(crate) mod input;
pub(crate) mod shown;
pub(crate) mod stops;
pub(crate) mod task;
pub(crate) mod wishes;

use crate::cli::{Format, InputFormat, RunArgs};
use crate::commands::compact;
use crate::commands::cost;
use crate::commands::sessions::said::when;
use crate::commands::sessions::{find, pick};
use crate::commands::undo;
use crate::failure::{Context, Result, bail, ensure};
use crate::out::view::{self, TextView};
use crate::run::ask::Questions;
use crate::run::conversation::{Conversation, Left};
use crate::run::follow::cut_off;
use crate::run::input::Input;
use crate::run::shown::Shown;
use crate::run::stops::{Over, Stop, Stops};
use crate::run::wishes::wishes;
use crate::settings;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use piton_core::client::{Configure, Prompt, Report, Request};
use piton_core::event::{Event, TurnEnd};
use piton_core::ids::{MessageId, SessionId};
use piton_core::permission::Grant;
use piton_core::turn;
use piton_engine::assemble::bare;
use piton_engine::context::commands;
use piton_engine::engine::{Engine, EngineError, Handle, Resumed};
use piton_engine::store::{StoreError, Summary};
use std::path::{Path, PathBuf};

/// Runs one turn, or what is said on standard input, and returns the exit code.
pub(crate) async fn run(args: RunArgs, around: Surroundings) -> Result<u8> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let prompt = match &args.command {
        Some(name) => {
            let words = args.prompt.as_deref().unwrap_or_default();
            let expanded = commands::prompt(name, words, &workspace)?;
            expanded.notes.iter().for_each(|note| view::write_stderr(&format!("note: {}\n", view::clean(note))));
            Some(Prompt::new(expanded.prompt))
        }
        None => task::of(&args, &around)?,
    };
    let engine = Engine::open(&around.machine.data_dir);
    let mut upkeep = Upkeep::new(&engine, &around)?;
    let resumed = resumed_id(&args, &engine, &workspace, &around)?;
    let run = Run { args: &args, around: &around, engine: &engine, workspace, resumed };
    let over = run.speak(prompt, &mut upkeep).await;
    if let Ok(Over { code, is_in_haste: true }) = over {
        return Ok(code);
    }
    let stopped = Stops::listen()?.unless_stopped(upkeep.done()).await;
    Ok(Over::left(over?.code, stopped).code)
}

/// A run that has not begun.
struct Run<'a> {
    args: &'a RunArgs,
    around: &'a Surroundings,
    engine: &'a Engine,
    workspace: PathBuf,
    resumed: Option<SessionId>,
}

/// How talking with a session that another process runs ended.
enum There {
    Over(Over),
    /// That process has left it before all that was said was answered.
    Left {
        pid: u32,
        said: Vec<MessageId>,
    },
}

impl Run<'_> {
    async fn speak(&self, prompt: Option<Prompt>, upkeep: &mut Upkeep<'_>) -> Result<Over> {
        let (args, around) = (self.args, self.around);
        let input = match args.input_format {
            InputFormat::StreamJson => Input::open(prompt),
            InputFormat::Text => match compact::typed(prompt.as_ref().map(|prompt| prompt.text.as_str())) {
                Some(focus) => {
                    let (id, wishes) = (self.resumed.as_ref(), |had| wishes(args, had, around));
                    return compact::obey(self.engine, id, focus, &wishes, around, upkeep).await.map(Over::with);
                }
                None => Input::once(prompt),
            },
        };
        let is_at_terminal = is_at_terminal(args, around) && !input.is_program();
        let attends = is_at_terminal || input.is_program();
        let mut talk = Conversation::new(input, Shown::new(args, around), Questions::new(is_at_terminal), attends);
        loop {
            let mut left = None;
            while let Some(session) = self.join().await? {
                match self.talk_there(&session, &mut talk).await? {
                    There::Over(over) => return Ok(over),
                    There::Left { pid, said } => left = Some((session.id().clone(), pid, said)),
                }
            }
            if let Some((id, pid, said)) = left {
                self.takes_over(&id, pid, &said).await?;
            }
            if !talk.input.is_program() && !talk.input.has_first() {
                self.finish_undo().await?;
                self.must_have_work_left().await?;
            }
            // Somebody was faster: then it is there that we speak.
            let Some(session) = self.open(&mut talk, upkeep).await? else { continue };
            return self.talk_here(session, &mut talk).await;
        }
    }

    /// The session to go on with, where another process runs it.
    async fn join(&self) -> Result<Option<Handle>> {
        let Some(id) = &self.resumed else { return Ok(None) };
        if self.engine.store().holder(id).await.is_none() {
            return Ok(None);
        }
        adds_nothing(id, self.args)?;
        Ok(self.engine.join(id).await?)
    }

    /// Talks with a session that another process runs.
    async fn talk_there(&self, session: &Handle, talk: &mut Conversation) -> Result<There> {
        let pid = session.elsewhere().unwrap_or_default();
        let says = talk.input.has_first() || talk.input.is_program();
        let joins = if says { ": what you say joins it there, under its rules" } else { "" };
        talk.shown.note(&format!("{} is run by process {pid}{joins}", session.id()));
        Ok(match talk.with(session, &mut Stops::listen()?).await? {
            Left::Done => There::Over(Over::with(talk.code()?)),
            Left::AtOnce(stop) => There::Over(Over::with(stop.code())),
            Left::Gone => There::Left { pid, said: talk.say_again() },
        })
    }

    /// Nobody runs the session any more: it goes on here, unless its process was cut off in a turn.
    async fn takes_over(&self, id: &SessionId, pid: u32, said: &[MessageId]) -> Result<()> {
        let state = turn::State::fold(&self.engine.records(id).await?);
        if state.is_in_turn() {
            let is_kept = |id| state.has_heard(id);
            let said = match (said.iter().any(is_kept), said.iter().all(is_kept)) {
                _ if said.is_empty() => "",
                (_, true) => "; what you said is kept",
                (true, false) => "; what you said last was not heard, and the rest is kept",
                (false, false) => "; what you said was not heard",
            };
            bail!("{}{said}", cut_off(id, Some(pid)));
        }
        view::write_stderr(&format!("process {pid} has left {id}; going on here\n"));
        Ok(())
    }

    /// Talks with a session that runs here, and closes it.
    async fn talk_here(&self, session: Handle, talk: &mut Conversation) -> Result<Over> {
        let mut stops = Stops::listen()?;
        if !talk.input.is_program() {
            // What others have said here meanwhile, they see to themselves.
            session.leave_when_answered();
        }
        let left = match talk.with(&session, &mut stops).await {
            Ok(Left::AtOnce(stop)) => return Ok(Over::at_once(stop)),
            Ok(Left::Gone) => Err(EngineError::Closed.into()),
            Ok(Left::Done) => talk.code(),
            Err(error) => Err(error),
        };
        if let Shown::Text(view) = &mut talk.shown
            && view.has_missed_the_cache()
            && let Some(line) = cost::miss_line(&session, session.opened_at()).await
        {
            view.note(&format!("{line}. See piton session cost {}", session.id()));
        }
        let stopped = stops.unless_stopped(session.close()).await;
        Ok(Over::left(left?, stopped))
    }

    /// An undo that was cut off is finished before anybody asks what is left to go on with.
    async fn finish_undo(&self) -> Result<()> {
        let Some(id) = &self.resumed else { return Ok(()) };
        if turn::State::fold(&self.engine.records(id).await?).rewinding().is_none() {
            return Ok(());
        }
        let Summary { workspace, model, .. } = self.engine.store().summary(id).await?;
        let place = PathBuf::from(workspace);
        if !place.is_dir() {
            return Ok(());
        }
        let settings = bare::for_upkeep(&model.unwrap_or_default(), &self.around.machine, &place);
        let session = self.engine.resume(id, settings).await?;
        undo::finish_begun(&session).await;
        session.close().await;
        Ok(())
    }

    /// Nobody wants to pay for a "go on" where nothing is left to go on with.
    async fn must_have_work_left(&self) -> Result<()> {
        let Some(id) = &self.resumed else { return Ok(()) };
        let records = self.engine.records(id).await?;
        let session = turn::State::fold(&records);
        let path = piton_core::branch::Path::of(&records);
        let ended =
            records.iter().rev().filter(|record| path.contains(record.seq)).find_map(|record| match &record.event {
                Event::TurnEnded { end, .. } => Some(*end),
                _ => None,
            });
        if !session.is_at_rest() || session.waiting().next().is_some() {
            return Ok(());
        }
        let why = match ended {
            Some(TurnEnd::Completed) => "its last turn is finished, and nothing waits to be answered",
            // What was under way was lost, or is another Piton's: there is something to go on with.
            None if session.transcript().next().is_some() => return Ok(()),
            None => "nothing was said in it yet",
            Some(_) => return Ok(()),
        };
        bail!(
            "{id} has nothing to go on with: {why}. Nothing was sent. Say what comes next:  piton run --resume {id} \"…\""
        );
    }

    /// Opens the session here; `None` where another process has it by now.
    async fn open(&self, talk: &mut Conversation, upkeep: &mut Upkeep<'_>) -> Result<Option<Handle>> {
        let (args, around) = (self.args, self.around);
        let WhatItHad { had, place, is_moved } = match &self.resumed {
            Some(id) => what_it_had(self.engine, id, args, &self.workspace).await?,
            None => WhatItHad { had: Configure::default(), place: self.workspace.clone(), is_moved: false },
        };
        let noted = Configure { model: None, ..had.clone() };
        let settings = settings::of_session(around, &place, wishes(args, had, around)?).await?;
        if talk.input.is_program() {
            // A session in which nothing is said is none.
            if self.resumed.is_none() {
                talk.input.first_words(&mut talk.shown).await?;
            }
        } else if let Some(prompt) = talk.input.prompt() {
            task::fits(prompt, [&settings.model].into_iter().chain(&settings.fallbacks))?;
        }
        let snapshots = settings.snapshots.clone();
        let opened = match &self.resumed {
            Some(id) => self.engine.resume_in(id, is_moved.then_some(&*place), settings).await,
            None => self.engine.create(&self.workspace, settings).await,
        };
        let session = match opened {
            Err(EngineError::Journal(StoreError::Busy { .. })) if self.resumed.is_some() => return Ok(None),
            opened => opened?,
        };
        upkeep.opened(&session, snapshots);
        for Grant { rule, at_ms, .. } in session.grants() {
            let since = when(*at_ms);
            talk.shown
                .note(&format!("{} is allowed in this session since {since} (piton permission revoke)", rule.tool));
        }
        let is_kept = args.mode.is_none() && !args.yes;
        let noted = Configure { mode: noted.mode.filter(|_| is_kept), ..noted };
        for words in noted.words() {
            talk.shown
                .note(&format!("this session goes on with {words}, as it was switched to (piton session mode, tools)"));
        }
        // Of a new place the model hears with the next message.
        let goes_on = session.resumed() == Resumed::AtRest || is_moved;
        if goes_on && !talk.input.is_program() && !talk.input.has_first() {
            talk.input.put_back(vec![Request::Prompt(Prompt::new("Go on."))]);
        }
        Ok(Some(session))
    }
}

/// What a session that goes on was like.
struct WhatItHad {
    had: Configure,
    /// Where it goes on.
    place: PathBuf,
    /// Whether that is another folder than it had.
    is_moved: bool,
}

/// What a session had. It stays in its folder as long as there is one: a folder that was named besides must be that.
/// Where it is gone, the named one takes its place.
async fn what_it_had(engine: &Engine, id: &SessionId, args: &RunArgs, here: &Path) -> Result<WhatItHad> {
    let Summary { workspace, model, .. } = engine.store().summary(id).await?;
    let had = Configure { model, ..engine.configured(id).await? };
    let place = PathBuf::from(&workspace);
    if place == here {
        return Ok(WhatItHad { had, place, is_moved: false });
    }
    if place.is_dir() {
        ensure!(args.cwd.is_none(), "{id} works in {workspace}; --cwd cannot move it while that is there");
        view::write_stderr(&format!("working in {workspace}\n"));
        return Ok(WhatItHad { had, place, is_moved: false });
    }
    ensure!(
        args.cwd.is_some(),
        "{id} worked in {workspace}, which was moved or is gone. Go on with it in another folder with --cwd DIR"
    );
    view::write_stderr(&format!("{workspace} is gone; working in {} from here on\n", here.display()));
    Ok(WhatItHad { had, place: here.to_owned(), is_moved: true })
}

/// Says something in a session, shows what comes of it in a view, and closes the session. The report, unless it was stopped
/// twice.
pub(crate) async fn show_turn(session: Handle, task: &str, view: &mut TextView) -> Result<Result<Report, Stop>> {
    let shown = Shown::Text(std::mem::replace(view, TextView::new(false, false)));
    let mut talk = Conversation::new(Input::once(Some(Prompt::new(task))), shown, Questions::new(false), false);
    let mut stops = Stops::listen()?;
    let left = talk.with(&session, &mut stops).await;
    if let Shown::Text(shown) = talk.shown {
        *view = shown;
    }
    if let Ok(Left::AtOnce(stop)) = left {
        return Ok(Err(stop));
    }
    stops.unless_stopped(session.close()).await;
    left?;
    Ok(Ok(talk.report.ok_or(EngineError::Closed)?))
}

/// Fails where a turn that another process runs would have to come to more than it does there.
fn adds_nothing(id: &SessionId, args: &RunArgs) -> Result<()> {
    let adds = [("--check", !args.settings.check.is_empty()), ("--output-schema", args.output_schema.is_some())];
    if let Some((flag, _)) = adds.iter().find(|(_, is_said)| *is_said) {
        bail!(
            "another process runs {id}, by its own rules: {flag} cannot be added to what it does, and nothing was said \
             there. Say it without {flag}, or once that process has left"
        );
    }
    Ok(())
}

/// Whether a person sits there who can be asked.
fn is_at_terminal(args: &RunArgs, around: &Surroundings) -> bool {
    let terminal = around.stdin_is_terminal && around.stderr_is_terminal;
    terminal && args.format == Format::Text && args.prompt.as_deref() != Some("-")
}

/// The session to go on with, if any.
pub(crate) fn resumed_id(
    args: &RunArgs,
    engine: &Engine,
    workspace: &Path,
    around: &Surroundings,
) -> Result<Option<SessionId>> {
    match args.resume.as_deref() {
        Some("") => return Ok(Some(pick::pick(engine, around, workspace)?)),
        Some(name) => return Ok(Some(find::find(engine, around, name)?)),
        None => {}
    }
    if !args.r#continue {
        return Ok(None);
    }
    let index = engine.index()?;
    let newest = index.newest(workspace)?;
    // Ids begin with the time. One that cannot be read may be the one that is meant.
    let in_doubt = index.unreadable().iter().find(|(id, _)| newest.as_ref().is_none_or(|newest| id > newest));
    if let Some((id, error)) = in_doubt {
        bail!(
            "the newest session may be {id}, and that cannot be read: {error}. Name the one to go on with: --resume ID"
        );
    }
    let newest = newest.with_context(|| format!("there is no session of {} to go on with", workspace.display()))?;
    Ok(Some(newest))
}
