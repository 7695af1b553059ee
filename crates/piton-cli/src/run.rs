//! `piton run`: one prompt, one turn, watched; or what is said line by line ([`crate::run::steer`]).

pub(crate) mod ask;
pub(crate) mod follow;
pub(crate) mod input;
pub(crate) mod relay;
pub(crate) mod shown;
pub(crate) mod steer;
pub(crate) mod stops;
pub(crate) mod task;
pub(crate) mod wishes;

use crate::cli::{Format, InputFormat, RunArgs};
use crate::commands::compact;
use crate::commands::cost;
use crate::commands::sessions::{find, pick};
use crate::commands::undo;
use crate::failure::{Context, Result, bail, ensure};
use crate::out::report;
use crate::out::view::{self, TextView};
use crate::run::ask::Questions;
use crate::run::follow::Joined;
use crate::run::input::Input;
use crate::run::shown::Shown;
use crate::run::stops::{Over, Stop, Stops, TICK};
use crate::run::task::Task;
use crate::run::wishes::wishes;
use crate::settings;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use piton_core::client::{Published, Report};
use piton_core::event::{Delivery, Event, TurnEnd};
use piton_core::ids::{MessageId, SessionId};
use piton_core::message::Part;
use piton_core::turn;
use piton_engine::assemble::bare;
use piton_engine::context::commands;
use piton_engine::engine::{Attendance, Engine, EngineError, Handle, Resumed, Subscription};
use piton_engine::store::{StoreError, Summary};
use std::path::{Path, PathBuf};

/// Runs one turn, or what is said on standard input, and returns the exit code.
pub(crate) async fn run(args: RunArgs, around: Surroundings) -> Result<u8> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let task = match &args.command {
        Some(name) => {
            let words = args.prompt.as_deref().unwrap_or_default();
            let expanded = commands::prompt(name, words, &workspace)?;
            expanded.notes.iter().for_each(|note| view::write_stderr(&format!("note: {}\n", view::clean(note))));
            Some(Task::new(expanded.prompt))
        }
        None => Task::of(&args, &around)?,
    };
    let engine = Engine::open(&around.machine.data_dir);
    let mut upkeep = Upkeep::new(&engine, &around)?;
    let resumed = resumed_id(&args, &engine, &workspace, &around)?;
    let shown = Shown::new(&args, &around);
    let run = Run { args: &args, around: &around, engine: &engine, workspace, resumed, heard: None, shown };
    let over = run.speak(task, &mut upkeep).await;
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
    /// What was said in the session of another process, is on record, and was not answered when that process left.
    heard: Option<MessageId>,
    shown: Shown,
}

/// What there is to say.
enum Said {
    Once(Option<Task>),
    LineByLine(Input),
}

/// A session that is open here.
struct Open {
    session: Handle,
    attended: bool,
    is_moved: bool,
}

impl Run<'_> {
    async fn speak(mut self, task: Option<Task>, upkeep: &mut Upkeep<'_>) -> Result<Over> {
        let args = self.args;
        let mut said = match args.input_format {
            InputFormat::StreamJson => Said::LineByLine(Input::open(task)),
            InputFormat::Text => match compact::typed(task.as_ref().map(|task| task.said.as_str())) {
                Some(focus) => {
                    let id = self.resumed.as_ref();
                    return compact::obey(
                        self.engine,
                        id,
                        focus,
                        &|had| wishes(args, had, self.around),
                        self.around,
                        upkeep,
                    )
                    .await
                    .map(Over::with);
                }
                None => Said::Once(task),
            },
        };
        loop {
            if let Some(code) = self.speak_where_it_runs(&mut said).await? {
                return Ok(Over::with(code));
            }
            if let Said::Once(None) = &said {
                self.finish_undo().await?;
                if let Some(code) = self.must_have_work_left().await? {
                    return Ok(Over::with(code));
                }
            }
            // Somebody was faster: then it is there that we speak.
            let Some(Open { session, attended, is_moved }) = self.open(&mut said, upkeep).await? else { continue };
            return match said {
                Said::LineByLine(input) => steer::steer(session, input, self.shown, args).await,
                Said::Once(task) => {
                    // Of a new place the model hears with the next message.
                    let goes_on = session.resumed() == Resumed::AtRest || is_moved;
                    let task = task.or_else(|| goes_on.then(|| Task::new("Go on.")));
                    turn(session, task, self.shown, args, attended).await
                }
            };
        }
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

    /// Nobody wants to pay for a "go on" where nothing is left to go on with. The exit code, where what was said has been
    /// answered by a third process meanwhile.
    async fn must_have_work_left(&mut self) -> Result<Option<u8>> {
        let Some(id) = &self.resumed else { return Ok(None) };
        let records = self.engine.records(id).await?;
        let session = turn::State::fold(&records);
        let path = piton_core::branch::Path::of(&records);
        let ended =
            records.iter().rev().filter(|record| path.contains(record.seq)).find_map(|record| match &record.event {
                Event::TurnEnded { end, .. } => Some(*end),
                _ => None,
            });
        if !session.is_at_rest() || session.waiting().next().is_some() {
            return Ok(None);
        }
        if let Some(report) = self.heard.as_ref().and_then(|message| follow::answered(&records, message)) {
            let code = report::exit_code(report.end);
            shown::finish(&mut self.shown, &report, id.as_str(), code, self.args);
            return Ok(Some(code));
        }
        let why = match ended {
            Some(TurnEnd::Completed) => "its last turn is finished, and nothing waits to be answered",
            // What was under way was lost, or is another Piton's: there is something to go on with.
            None if session.transcript().next().is_some() => return Ok(None),
            None => "nothing was said in it yet",
            Some(_) => return Ok(None),
        };
        bail!(
            "{id} has nothing to go on with: {why}. Nothing was sent. Say what comes next:  piton run --resume {id} \"…\""
        );
    }

    /// Speaks in the session where another process runs it, if one does. The exit code, where all is said and answered
    /// by that.
    async fn speak_where_it_runs(&mut self, said: &mut Said) -> Result<Option<u8>> {
        let Some(id) = &self.resumed else { return Ok(None) };
        let (engine, shown, args) = (self.engine, &mut self.shown, self.args);
        match said {
            Said::Once(task) => match follow::join(engine, id, task.take(), &mut self.heard, shown, args).await? {
                Joined::Over(code) => return Ok(Some(code)),
                Joined::Alone(unsaid) => *task = unsaid,
            },
            Said::LineByLine(input) => match relay::relay(engine, id, input, shown, args).await? {
                Joined::Over(code) => return Ok(Some(code)),
                Joined::Alone(()) => {}
            },
        }
        Ok(None)
    }

    /// Opens the session here; `None` where another process has it by now.
    async fn open(&mut self, said: &mut Said, upkeep: &mut Upkeep<'_>) -> Result<Option<Open>> {
        let (args, around) = (self.args, self.around);
        let WhatItHad { model, place, is_moved } = match &self.resumed {
            Some(id) => what_it_had(self.engine, id, args, &self.workspace).await?,
            None => WhatItHad { model: None, place: self.workspace.clone(), is_moved: false },
        };
        let mut settings = settings::of_session(around, &place, wishes(args, model, around)?).await?;
        match said {
            Said::Once(task) => {
                let chain = || [&settings.model].into_iter().chain(&settings.fallbacks);
                task.iter().try_for_each(|task| task.fits(chain()))?;
            }
            // A session in which nothing is said is none.
            Said::LineByLine(input) if self.resumed.is_none() => input.first_words(&self.shown).await?,
            Said::LineByLine(_) => {}
        }
        let snapshots = settings.snapshots.clone();
        let attended = is_attended(args, around);
        settings.attendance = if attended { Attendance::Attended } else { Attendance::Unattended };
        let opened = match &self.resumed {
            Some(id) => self.engine.resume_in(id, is_moved.then_some(&*place), settings).await,
            None => self.engine.create(&self.workspace, settings).await,
        };
        let session = match opened {
            Err(EngineError::Journal(StoreError::Busy { .. })) if self.resumed.is_some() => return Ok(None),
            opened => opened?,
        };
        upkeep.opened(&session, snapshots);
        Ok(Some(Open { session, attended, is_moved }))
    }
}

/// What a session that goes on was like.
struct WhatItHad {
    model: Option<String>,
    /// Where it goes on.
    place: PathBuf,
    /// Whether that is another folder than it had.
    is_moved: bool,
}

/// What a session had. It stays in its folder as long as there is one: a folder that was named besides must be that.
/// Where it is gone, the named one takes its place.
async fn what_it_had(engine: &Engine, id: &SessionId, args: &RunArgs, here: &Path) -> Result<WhatItHad> {
    let Summary { workspace, model, .. } = engine.store().summary(id).await?;
    let place = PathBuf::from(&workspace);
    if place == here {
        return Ok(WhatItHad { model, place, is_moved: false });
    }
    if place.is_dir() {
        ensure!(args.cwd.is_none(), "{id} works in {workspace}; --cwd cannot move it while that is there");
        view::write_stderr(&format!("working in {workspace}\n"));
        return Ok(WhatItHad { model, place, is_moved: false });
    }
    ensure!(
        args.cwd.is_some(),
        "{id} worked in {workspace}, which was moved or is gone. Go on with it in another folder with --cwd DIR"
    );
    view::write_stderr(&format!("{workspace} is gone; working in {} from here on\n", here.display()));
    Ok(WhatItHad { model, place: here.to_owned(), is_moved: true })
}

/// Prompts an open session and shows the turn until it is over.
async fn turn(session: Handle, prompt: Option<Task>, mut shown: Shown, args: &RunArgs, attended: bool) -> Result<Over> {
    let mut stops = Stops::listen()?;
    let subscription = session.subscribe(session.opened_at());
    // What others have said here meanwhile, they see to themselves.
    session.leave_when_answered();
    let watched = watch(&session, prompt, subscription, &mut stops, &mut shown, attended).await;
    let result = match watched {
        Ok(Watched::Ended(result)) => result,
        Ok(Watched::Quit(stop)) => return Ok(Over::at_once(stop)),
        Err(error) => {
            stops.unless_stopped(session.close()).await;
            return Err(error);
        }
    };
    let result = match result {
        Err(error @ EngineError::PromptRefused { .. }) => Ok(shown::refused(&error)),
        result => result,
    };
    let (id, from) = (session.id().to_string(), session.opened_at());
    let by_term = stops.by_term();
    let exit_code = |report: &Report| match by_term {
        true => report::EXIT_TERMINATED,
        false => report::exit_code(report.end),
    };
    if let Ok(report) = &result {
        // Before the session is left, for that may wait a moment for its title. All of the turn is on record by now.
        shown::finish(&mut shown, report, &id, exit_code(report), args);
        if let Shown::Text(view) = &mut shown
            && view.has_missed_the_cache()
            && let Some(line) = cost::miss_line(&session, from).await
        {
            view.note(&format!("{line}. See piton session cost {id}"));
        }
    }
    let stopped = stops.unless_stopped(session.close()).await;
    let report = result.with_context(|| format!("the session {id} cannot go on"))?;
    Ok(Over::left(exit_code(&report), stopped))
}

/// Prompts a session, shows the turn in a view, and closes the session. The report, unless it was stopped twice.
pub(crate) async fn show_turn(session: Handle, task: &str, view: &mut TextView) -> Result<Result<Report, Stop>> {
    let subscription = session.subscribe(session.opened_at());
    let taken = std::mem::replace(view, TextView::new(false, false));
    let mut shown = Shown::Text(taken);
    let mut stops = Stops::listen()?;
    let watched = watch(&session, Some(Task::new(task)), subscription, &mut stops, &mut shown, false).await;
    if let Shown::Text(taken) = shown {
        *view = taken;
    }
    let ended = match watched {
        Ok(Watched::Quit(stop)) => return Ok(Err(stop)),
        Ok(Watched::Ended(ended)) => Ok(ended),
        Err(error) => Err(error),
    };
    stops.unless_stopped(session.close()).await;
    Ok(Ok(ended??))
}

/// What watching a turn ends with.
enum Watched {
    Ended(Result<Report, EngineError>),
    /// Stopped for the second time: nothing is waited for.
    Quit(Stop),
}

/// Everything that happens until the turn is over.
async fn watch(
    session: &Handle,
    prompt: Option<Task>,
    mut subscription: Subscription,
    stops: &mut Stops,
    shown: &mut Shown,
    attended: bool,
) -> Result<Watched> {
    // What is said beyond that comes from another process.
    let mut own_words = prompt.iter().count();
    let asking = async {
        match prompt {
            Some(task) => session.send(task.parts(), Delivery::Steer).await,
            None => session.go_on().await,
        }
    };
    tokio::pin!(asking);
    let mut tick = tokio::time::interval(TICK);
    let mut questions = Questions::new(attended);
    shown.resume(session).await?;
    let mut report = None;
    loop {
        if subscription.is_drained()
            && let Some(ended) = report.take()
        {
            return Ok(Watched::Ended(ended));
        }
        tokio::select! {
            biased;
            published = subscription.next() => match published? {
                Some(published) => {
                    shown.show(&published);
                    if let Some(parts) = spoken(&published) && std::mem::replace(&mut own_words, 0) == 0 {
                        shown.user_said(parts);
                    }
                    questions.hear(&published);
                    // What comes next may be the answer to the next question.
                    if subscription.is_drained() && let Shown::Text(view) = shown {
                        questions.show(view);
                    }
                }
                None => return Ok(Watched::Ended(report.unwrap_or(Err(EngineError::Closed)))),
            },
            ended = &mut asking, if report.is_none() => report = Some(ended),
            stop = stops.next() => {
                if stop.is_again {
                    // The tools were told to stop already.
                    shown.clear();
                    return Ok(Watched::Quit(stop));
                }
                shown.stopping();
                drop(session.cancel());
            }
            answer = questions.answer() => {
                shown.line_was_ended();
                drop(session.answer(answer));
            }
            _ = tick.tick(), if !questions.is_open() => shown.tick(),
        }
    }
}

/// What a user said, if that is what happened.
fn spoken(published: &Published) -> Option<&[Part]> {
    let Published::Recorded(record) = published else { return None };
    let Event::UserSpoke { parts, .. } = &record.event else { return None };
    Some(parts)
}

/// Whether a person sits there who can be asked.
fn is_attended(args: &RunArgs, around: &Surroundings) -> bool {
    if args.input_format == InputFormat::StreamJson {
        return true;
    }
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
