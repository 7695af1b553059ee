//! `piton run`: one prompt, one turn, watched.

use crate::ask::Questions;
use crate::cli::{Format, InputFormat, RunArgs};
use crate::command;
use crate::compact;
use crate::cost;
use crate::follow::{self, Joined};
use crate::report;
use crate::sessions;
use crate::setup;
use crate::steer;
use crate::surroundings::Surroundings;
use crate::trace::Collector;
use crate::view::{self, TextView};
use anyhow::{Context, bail};
use piton_core::event::{Delivery, Event, Spent, TurnEnd};
use piton_core::ids::SessionId;
use piton_core::message::Part;
use piton_engine::bus::{Published, Subscription};
use piton_engine::engine::{Attendance, Engine, EngineError, Resumed, Session, TurnReport};
use piton_engine::journal::{self, JournalError, Summary};
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the waiting line moves.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// After so long without an end of standard input somebody may wonder.
const PATIENCE_WITH_STDIN: Duration = Duration::from_secs(1);

/// How the run is shown.
pub(crate) enum Shown {
    Text(TextView),
    Json,
    StreamJson,
}

/// What is said, and what comes with it.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    /// A person's words, in which `@` refers to files.
    pub(crate) said: String,
    /// What was piped in besides, in which it does not.
    pub(crate) beside: Option<String>,
}

impl Task {
    fn new(said: impl Into<String>) -> Self {
        Self { said: said.into(), beside: None }
    }

    fn parts(self) -> Vec<Part> {
        [Some(self.said), self.beside].into_iter().flatten().map(Part::text).collect()
    }
}

/// The signals that mean "stop".
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// Runs one turn and returns the exit code.
pub(crate) async fn run(args: RunArgs, around: Surroundings) -> anyhow::Result<u8> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let mut prompt = match &args.command {
        Some(name) => {
            let words = args.prompt.as_deref().unwrap_or_default();
            Some(Task::new(command::prompt(name, words, &workspace)?))
        }
        None => prompt(&args, &around)?,
    };
    let collector = Collector::of(&around)?;
    let engine = Engine::open(&around.data_dir);
    let resumed = resumed_id(&args, &engine, &workspace, &around)?;
    if let Some(focus) = compact::typed(prompt.as_ref().map(|task| task.said.as_str())) {
        return compact::obey(&engine, resumed.as_ref(), focus, &args, &around).await;
    }
    let mut shown = match args.format {
        Format::Text => Shown::Text(TextView::new(args.quiet, around.may_animate())),
        Format::Json => Shown::Json,
        Format::StreamJson => Shown::StreamJson,
    };
    loop {
        let (mut model, mut place, mut is_moved) = (None, workspace.clone(), false);
        if let Some(id) = &resumed {
            match follow::join(&engine, id, prompt, &mut shown, &args).await? {
                Joined::Over(code) => return Ok(code),
                Joined::Alone(unsaid) => prompt = unsaid,
            }
            WhatItHad { model, place, is_moved } = what_it_had(&engine, id, &args, &workspace)?;
        }
        let mut settings = setup::settings(&args, model.as_deref(), &around, &place).await?;
        let snapshots = settings.snapshots.clone();
        let attended = is_attended(&args, &around);
        settings.attendance = if attended { Attendance::Attended } else { Attendance::Unattended };
        let opened = match &resumed {
            Some(id) => engine.resume_in(id, is_moved.then_some(&*place), settings),
            None => engine.create(&workspace, settings),
        };
        let session = match opened {
            // Somebody was faster: then it is there that we speak.
            Err(EngineError::Journal(JournalError::Busy { .. })) if resumed.is_some() => continue,
            opened => opened?,
        };
        let at_rest = session.resumed() == Resumed::AtRest;
        if args.input_format == InputFormat::StreamJson {
            return steer::steer(session, prompt.map(|task| task.said), shown, &args).await;
        }
        // Of a new place the model hears with the next message.
        let prompt = prompt.or_else(|| (at_rest || is_moved).then(|| Task::new("Go on.")));
        let (id, dir, from) = (session.id().clone(), session.dir().clone(), session.opened_at());
        let code = turn(session, prompt, shown, &args, attended).await;
        if let Some(collector) = collector {
            collector.send_turns(&dir, &id, from).await;
        }
        if let Some(snapshots) = snapshots {
            // Housekeeping: what could not be done today is done another day.
            drop(engine.prune_snapshots(&place, &snapshots, around.now_ms));
        }
        return code;
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
fn what_it_had(engine: &Engine, id: &SessionId, args: &RunArgs, here: &Path) -> anyhow::Result<WhatItHad> {
    let Summary { workspace, model, .. } = journal::summary(&engine.session_dir(id))?;
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
    session: Session,
    prompt: Option<Task>,
    mut shown: Shown,
    args: &RunArgs,
    attended: bool,
) -> anyhow::Result<u8> {
    let subscription = session.subscribe(session.opened_at());
    // What others have said here meanwhile, they see to themselves.
    session.leave_when_answered();
    let watched = watch(&session, prompt, subscription, &mut shown, attended).await;
    let (result, stopped_by_term) = match watched {
        Ok(watched) => watched,
        Err(error) => {
            session.close().await;
            return Err(error);
        }
    };
    let result = match result {
        Err(error @ EngineError::PromptRefused { .. }) => Ok(refused(&error)),
        result => result,
    };
    let (id, dir, from) = (session.id().to_string(), session.dir().clone(), session.opened_at());
    let exit_code = |report: &TurnReport| match stopped_by_term {
        true => report::EXIT_TERMINATED,
        false => report::exit_code(report.end),
    };
    if let Ok(report) = &result {
        // Before the session is left, for that may wait a moment for its title. All of the turn is on record by now.
        finish(&mut shown, report, &id, exit_code(report), args);
        if let Shown::Text(view) = &mut shown
            && view.has_missed_the_cache()
            && let Some(line) = cost::miss_line(&dir, from)
        {
            view.note(&format!("{line}. See piton session cost {id}"));
        }
    }
    session.close().await;
    let report = result.with_context(|| format!("the session {id} cannot go on"))?;
    Ok(exit_code(&report))
}

/// Prompts a session, shows the turn in a view, and closes the session.
pub(crate) async fn show_turn(session: Session, task: &str, view: &mut TextView) -> anyhow::Result<TurnReport> {
    let subscription = session.subscribe(session.opened_at());
    let taken = std::mem::replace(view, TextView::new(false, false));
    let mut shown = Shown::Text(taken);
    let watched = watch(&session, Some(Task::new(task)), subscription, &mut shown, false).await;
    session.close().await;
    if let Shown::Text(taken) = shown {
        *view = taken;
    }
    Ok(watched?.0?)
}

/// Everything that happens until the turn is over, and whether a SIGTERM ended it.
async fn watch(
    session: &Session,
    prompt: Option<Task>,
    mut subscription: Subscription,
    shown: &mut Shown,
    attended: bool,
) -> anyhow::Result<(Result<TurnReport, EngineError>, bool)> {
    let mut stops = Stops::listen()?;
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
    if let (Shown::Text(view), Resumed::MidTurn) = (&mut *shown, session.resumed()) {
        journal::read_session(session.dir())?.iter().for_each(|record| view.remember(&record.event));
    }
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
    pub(crate) fn show(&mut self, published: &Published) {
        match self {
            Self::Text(view) => view.show(published),
            Self::Json => {}
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
}

/// The report of a turn that did not begin, since a hook refused what was said.
pub(crate) fn refused(error: &EngineError) -> TurnReport {
    let (end, detail) = (TurnEnd::HookStopped, Some(error.to_string()));
    TurnReport {
        turn: 0,
        end,
        detail,
        spent: Spent::default(),
        text: String::new(),
        changed_files: false,
        result: String::new(),
        checks: vec![],
        structured: None,
    }
}

/// The last words, in the form asked for.
pub(crate) fn finish(shown: &mut Shown, report: &TurnReport, session: &str, code: u8, args: &RunArgs) {
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

/// The task: what was said, what was piped in, or both.
fn prompt(args: &RunArgs, around: &Surroundings) -> anyhow::Result<Option<Task>> {
    if args.input_format == InputFormat::StreamJson {
        anyhow::ensure!(
            args.prompt.as_deref() != Some("-"),
            "with --input-format stream-json prompts come as JSON lines"
        );
        return Ok(args.prompt.clone().filter(|prompt| !prompt.trim().is_empty()).map(Task::new));
    }
    let said = args.prompt.as_deref().filter(|prompt| *prompt != "-");
    let wants_stdin = args.prompt.as_deref() == Some("-");
    let piped = match (wants_stdin, around.stdin_is_terminal, said) {
        (true, ..) => read_stdin()?,
        (false, false, _) if stdin_has_data() => read_stdin()?,
        _ => String::new(),
    };
    let task = match (said, piped.trim()) {
        (Some(said), "") => Task::new(said),
        (Some(said), piped) => Task { beside: Some(format!("\n\n<stdin>\n{piped}\n</stdin>")), ..Task::new(said) },
        (None, piped) => Task::new(piped),
    };
    if !task.said.trim().is_empty() || task.beside.is_some() {
        return Ok(Some(task));
    }
    if args_resume(args) && args.prompt.is_none() {
        return Ok(None);
    }
    bail!("the task is empty. Say what to do:  piton run \"fix the failing test\"");
}

/// Whether standard input is a pipe or a file, rather than nothing at all (a closed one, `/dev/null`, a socket of a
/// process manager that never ends).
fn stdin_has_data() -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata("/dev/stdin").is_ok_and(|meta| meta.file_type().is_fifo() || meta.is_file())
}

fn read_stdin() -> anyhow::Result<String> {
    let (done, reading) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        // A pipe that nobody closes: programs that start others often leave one.
        if reading.recv_timeout(PATIENCE_WITH_STDIN) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            view::write_stderr(
                "reading standard input until its end; if nothing is to come, start piton with </dev/null\n",
            );
        }
    });
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    drop(done);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn args_resume(args: &RunArgs) -> bool {
    args.r#continue || args.resume.is_some()
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
