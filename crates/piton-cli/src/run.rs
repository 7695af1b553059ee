//! `piton run`: one prompt, one turn, watched; or what is said line by line ([`crate::run::steer`]).

pub(crate) mod ask;
pub(crate) mod command;
pub(crate) mod follow;
pub(crate) mod input;
pub(crate) mod relay;
pub(crate) mod steer;
pub(crate) mod task;

use crate::cli::{Format, InputFormat, RunArgs};
use crate::commands::compact;
use crate::commands::cost;
use crate::commands::sessions;
use crate::out::report;
use crate::out::view::{self, TextView};
use crate::run::ask::Questions;
use crate::run::follow::Joined;
use crate::run::input::Input;
use crate::run::task::Task;
use crate::setup;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use anyhow::{Context, anyhow, bail};
use piton_core::client::{Published, Report};
use piton_core::event::{Delivery, Event, Record, TurnEnd};
use piton_core::ids::{CallId, SessionId};
use piton_core::message::Part;
use piton_core::turn;
use piton_engine::bus::Subscription;
use piton_engine::engine::{Attendance, Engine, EngineError, Handle, Resumed};
use piton_engine::store::{StoreError, Summary};
use piton_tools::runner;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the waiting line moves.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// How the run is shown.
pub(crate) enum Shown {
    Text(TextView),
    Json,
    StreamJson,
}

/// The signals that mean "stop".
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// Runs one turn, or what is said on standard input, and returns the exit code.
pub(crate) async fn run(args: RunArgs, around: Surroundings) -> anyhow::Result<u8> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let task = match &args.command {
        Some(name) => {
            let words = args.prompt.as_deref().unwrap_or_default();
            Some(Task::new(command::prompt(name, words, &workspace)?))
        }
        None => Task::of(&args, &around)?,
    };
    let engine = Engine::open(&around.data_dir);
    let mut upkeep = Upkeep::new(&engine, &around)?;
    let resumed = resumed_id(&args, &engine, &workspace, &around)?;
    let shown = Shown::new(&args, &around);
    let run = Run { args: &args, around: &around, engine: &engine, workspace, resumed, shown };
    let over = run.speak(task, &mut upkeep).await;
    if let Ok(Over { code, is_in_haste: true }) = over {
        return Ok(code);
    }
    let stopped = Stops::listen()?.unless_stopped(upkeep.done()).await;
    Ok(Over::left(over?.code, stopped).code)
}

/// How a run ended.
pub(crate) struct Over {
    code: u8,
    /// Whether a signal came while it was being left.
    is_in_haste: bool,
}

/// A run that has not begun.
struct Run<'a> {
    args: &'a RunArgs,
    around: &'a Surroundings,
    engine: &'a Engine,
    workspace: PathBuf,
    resumed: Option<SessionId>,
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
    async fn speak(mut self, task: Option<Task>, upkeep: &mut Upkeep<'_>) -> anyhow::Result<Over> {
        let args = self.args;
        let mut said = match args.input_format {
            InputFormat::StreamJson => Said::LineByLine(Input::open(task)),
            InputFormat::Text => match compact::typed(task.as_ref().map(|task| task.said.as_str())) {
                Some(focus) => {
                    let id = self.resumed.as_ref();
                    return compact::obey(self.engine, id, focus, args, self.around, upkeep).await.map(Over::with);
                }
                None => Said::Once(task),
            },
        };
        loop {
            if let Some(code) = self.speak_where_it_runs(&mut said).await? {
                return Ok(Over::with(code));
            }
            if let Said::Once(None) = &said {
                self.must_have_work_left().await?;
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

    /// Nobody wants to pay for a "go on" where nothing is left to go on with.
    async fn must_have_work_left(&self) -> anyhow::Result<()> {
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
            None => "nothing was said in it yet",
            Some(_) => return Ok(()),
        };
        bail!(
            "{id} has nothing to go on with: {why}. Nothing was sent. Say what comes next:  piton run --resume {id} \"…\""
        );
    }

    /// Speaks in the session where another process runs it, if one does. The exit code, where all is said and answered
    /// by that.
    async fn speak_where_it_runs(&mut self, said: &mut Said) -> anyhow::Result<Option<u8>> {
        let Some(id) = &self.resumed else { return Ok(None) };
        let (engine, shown, args) = (self.engine, &mut self.shown, self.args);
        match said {
            Said::Once(task) => match follow::join(engine, id, task.take(), shown, args).await? {
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
    async fn open(&mut self, said: &mut Said, upkeep: &mut Upkeep<'_>) -> anyhow::Result<Option<Open>> {
        let (args, around) = (self.args, self.around);
        let WhatItHad { model, place, is_moved } = match &self.resumed {
            Some(id) => what_it_had(self.engine, id, args, &self.workspace).await?,
            None => WhatItHad { model: None, place: self.workspace.clone(), is_moved: false },
        };
        let mut settings = setup::settings(args, model.as_deref(), around, &place).await?;
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
async fn what_it_had(engine: &Engine, id: &SessionId, args: &RunArgs, here: &Path) -> anyhow::Result<WhatItHad> {
    let Summary { workspace, model, .. } = engine.store().summary(id).await?;
    let place = PathBuf::from(&workspace);
    if place == here {
        return Ok(WhatItHad { model, place, is_moved: false });
    }
    if place.is_dir() {
        anyhow::ensure!(args.cwd.is_none(), "{id} works in {workspace}; --cwd cannot move it while that is there");
        view::write_stderr(&format!("working in {workspace}\n"));
        return Ok(WhatItHad { model, place, is_moved: false });
    }
    anyhow::ensure!(
        args.cwd.is_some(),
        "{id} worked in {workspace}, which was moved or is gone. Go on with it in another folder with --cwd DIR"
    );
    view::write_stderr(&format!("{workspace} is gone; working in {} from here on\n", here.display()));
    Ok(WhatItHad { model, place: here.to_owned(), is_moved: true })
}

/// Prompts an open session and shows the turn until it is over.
async fn turn(
    session: Handle,
    prompt: Option<Task>,
    mut shown: Shown,
    args: &RunArgs,
    attended: bool,
) -> anyhow::Result<Over> {
    let mut stops = Stops::listen()?;
    let subscription = session.subscribe(session.opened_at());
    // What others have said here meanwhile, they see to themselves.
    session.leave_when_answered();
    let watched = watch(&session, prompt, subscription, &mut stops, &mut shown, attended).await;
    let (result, stopped_by_term) = match watched {
        Ok(watched) => watched,
        Err(error) => {
            stops.unless_stopped(session.close()).await;
            return Err(error);
        }
    };
    let result = match result {
        Err(error @ EngineError::PromptRefused { .. }) => Ok(refused(&error)),
        result => result,
    };
    let (id, from) = (session.id().to_string(), session.opened_at());
    let exit_code = |report: &Report| match stopped_by_term {
        true => report::EXIT_TERMINATED,
        false => report::exit_code(report.end),
    };
    if let Ok(report) = &result {
        // Before the session is left, for that may wait a moment for its title. All of the turn is on record by now.
        finish(&mut shown, report, &id, exit_code(report), args);
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

/// Prompts a session, shows the turn in a view, and closes the session.
pub(crate) async fn show_turn(session: Handle, task: &str, view: &mut TextView) -> anyhow::Result<Report> {
    let subscription = session.subscribe(session.opened_at());
    let taken = std::mem::replace(view, TextView::new(false, false));
    let mut shown = Shown::Text(taken);
    let mut stops = Stops::listen()?;
    let watched = watch(&session, Some(Task::new(task)), subscription, &mut stops, &mut shown, false).await;
    stops.unless_stopped(session.close()).await;
    if let Shown::Text(taken) = shown {
        *view = taken;
    }
    Ok(watched?.0?)
}

/// Everything that happens until the turn is over, and whether a SIGTERM ended it.
async fn watch(
    session: &Handle,
    prompt: Option<Task>,
    mut subscription: Subscription,
    stops: &mut Stops,
    shown: &mut Shown,
    attended: bool,
) -> anyhow::Result<(Result<Report, EngineError>, bool)> {
    let mut cancelled = false;
    let mut terminated = false;
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
    let mut questions = Questions::new(attended, session.workspace().to_owned());
    shown.resume(session).await?;
    let mut report = None;
    loop {
        if subscription.is_drained()
            && let Some(ended) = report.take()
        {
            return Ok((ended, terminated));
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
                None => return Ok((report.unwrap_or(Err(EngineError::Closed)), terminated)),
            },
            ended = &mut asking, if report.is_none() => report = Some(ended),
            by_term = stops.next() => {
                if cancelled {
                    // The second time is meant: the tools were told to stop already.
                    shown.clear();
                    let code = if terminated || by_term { report::EXIT_TERMINATED } else { report::exit_code(TurnEnd::Canceled) };
                    std::process::exit(i32::from(code));
                }
                (cancelled, terminated) = (true, by_term);
                shown.stopping();
                session.cancel();
            }
            (subject, decision) = questions.answer() => {
                shown.line_was_ended();
                session.answer(subject, decision)?;
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

impl Shown {
    fn new(args: &RunArgs, around: &Surroundings) -> Self {
        match args.format {
            Format::Text => Self::Text(TextView::new(args.quiet, around.may_animate())),
            Format::Json => Self::Json,
            Format::StreamJson => Self::StreamJson,
        }
    }

    pub(crate) fn show(&mut self, published: &Published) {
        match self {
            Self::Text(view) => view.show(published),
            Self::Json => {
                if let Published::Recorded(record) = published {
                    view::given_up(&record.event).into_iter().for_each(|line| self.note(&line));
                }
            }
            Self::StreamJson => {
                let line = match published {
                    Published::Recorded(record) => serde_json::to_string(&**record),
                    Published::Live(live) => serde_json::to_string(&**live),
                };
                // Our own types always are JSON.
                view::write_stdout(&format!("{}\n", line.unwrap_or_default()));
            }
        }
    }

    /// Shows what somebody said in the session from elsewhere; as JSON it is a record like any other.
    pub(crate) fn user_said(&mut self, parts: &[Part]) {
        if let Self::Text(view) = self {
            view.user_said(parts);
        }
    }

    pub(crate) fn tick(&mut self) {
        if let Self::Text(view) = self {
            view.tick();
        }
    }

    /// A line for people, beside the answer.
    pub(crate) fn note(&mut self, line: &str) {
        match self {
            Self::Text(view) => view.note(line),
            Self::Json | Self::StreamJson => view::write_stderr(&format!("{line}\n")),
        }
    }

    /// Takes notice of what was before in a turn that was cut off, and says what is waited for: a command that was begun
    /// goes on beside us, and is never run again.
    pub(crate) async fn resume(&mut self, session: &Handle) -> anyhow::Result<()> {
        if session.resumed() == Resumed::AtRest {
            return Ok(());
        }
        let mut begun: Vec<CallId> = Vec::new();
        let visit = &mut |record: &mut Record| {
            if let Self::Text(view) = self {
                view.remember(&record.event);
            }
            match &record.event {
                Event::CallStarted { call } => begun.push(call.clone()),
                Event::CallSettled { call, .. } => begun.retain(|begun| begun != call),
                _ => {}
            }
        };
        session.store().each(session.id(), visit).await?;
        let calls = session.store().scratch(session.id()).join("calls");
        for claim in begun.iter().filter_map(|call| runner::running(&calls.join(call.as_str()))) {
            self.note(&format!(
                "a command from before is still running (process {}); waiting for its end. Ctrl-C stops it",
                claim.pid
            ));
        }
        Ok(())
    }

    fn clear(&mut self) {
        if let Self::Text(view) = self {
            view.clear();
        }
    }

    fn line_was_ended(&mut self) {
        if let Self::Text(view) = self {
            view.line_was_ended();
        }
    }

    fn stopping(&mut self) {
        if let Self::Text(view) = self {
            view.note("stopping… (once more to quit at once)");
        }
    }
}

impl Stops {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// The next one; whether it came from outside (SIGTERM, SIGHUP) rather than from the keyboard.
    pub(crate) async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.hang_up.recv() => true,
        }
    }

    /// Does what is left to do when all is told and on record, until the first signal: nobody need wait for hooks, a
    /// title or a collector then. Whether a signal came, and which, as [`Stops::next`] tells it.
    pub(crate) async fn unless_stopped(&mut self, leaving: impl Future<Output = ()>) -> Option<bool> {
        tokio::select! {
            biased;
            by_term = self.next() => Some(by_term),
            () = leaving => None,
        }
    }
}

impl Over {
    fn with(code: u8) -> Self {
        Self { code, is_in_haste: false }
    }

    /// With what became of [`Stops::unless_stopped`].
    pub(crate) fn left(code: u8, stopped: Option<bool>) -> Self {
        let code = if stopped == Some(true) { report::EXIT_TERMINATED } else { code };
        Self { code, is_in_haste: stopped.is_some() }
    }
}

/// The report of a turn that did not begin, since a hook refused what was said.
pub(crate) fn refused(error: &EngineError) -> Report {
    Report::not_begun(TurnEnd::HookStopped, error.to_string())
}

/// The last line of a run in which nobody said anything, for programs; the error is for people.
pub(crate) fn nothing_said(shown: &Shown, session: Option<&str>) -> anyhow::Error {
    let detail = "the task is empty: standard input ended, and nobody had said anything";
    if let Shown::Json | Shown::StreamJson = shown {
        let result = json!({
            "type": "result", "session": session, "turn": 0, "end": null, "detail": detail,
            "exit_code": report::EXIT_FAILED, "text": "", "result": "",
        });
        view::write_stdout(&format!("{result}\n"));
    }
    anyhow!("{detail}. Say what to do, a line each:  {{\"do\":\"prompt\",\"text\":\"fix the failing test\"}}")
}

/// The last words, in the form asked for.
pub(crate) fn finish(shown: &mut Shown, report: &Report, session: &str, code: u8, args: &RunArgs) {
    match shown {
        Shown::Text(view) => {
            if args.quiet && !report.text.is_empty() {
                view::write_stdout(&format!("{}\n", report.text.trim_end()));
            }
            view.summary(report, session);
            if let Some(words) = report::ending(report, session) {
                view.note(&words);
            }
        }
        Shown::Json | Shown::StreamJson => {
            let mut result = json!({
                "type": "result",
                "session": session,
                "turn": report.turn,
                "end": report.end,
                "detail": report.detail,
                "exit_code": code,
                "text": report.text,
                "result": report.result,
                "changed_files": report.changed_files,
                "spent": report.spent,
            });
            if !report.checks.is_empty() {
                result["checks"] = json!(report.checks);
            }
            if let Some(structured) = &report.structured {
                result["structured"] = (**structured).clone();
            }
            view::write_stdout(&format!("{result}\n"));
        }
    }
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
) -> anyhow::Result<Option<SessionId>> {
    match args.resume.as_deref() {
        Some("") => return Ok(Some(sessions::pick(engine, around, workspace)?)),
        Some(name) => return Ok(Some(sessions::find(engine, around, name)?)),
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
