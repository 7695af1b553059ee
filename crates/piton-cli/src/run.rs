//! `piton run`: one prompt, one turn, watched.

use crate::cli::{Format, RunArgs};
use crate::report;
use crate::setup;
use crate::surroundings::Surroundings;
use crate::view::{self, TextView};
use anyhow::{Context, bail};
use piton_core::event::{Decision, Delivery, Event, Subject};
use piton_core::ids::SessionId;
use piton_core::message::Part;
use piton_engine::bus::{Published, Subscription};
use piton_engine::engine::{Attendance, Engine, EngineError, Resumed, Session, TurnReport};
use serde_json::json;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the waiting line moves.
const TICK: Duration = Duration::from_millis(100);

/// How the run is shown.
enum Shown {
    Text(TextView),
    Json,
    StreamJson,
}

/// The signals that mean "stop".
struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

/// Runs one turn and returns the exit code.
pub(crate) async fn run(args: RunArgs, around: Surroundings) -> anyhow::Result<u8> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let prompt = prompt(&args, &around)?;
    let mut settings = setup::settings(&args, &around, &workspace).await?;
    if is_attended(&args, &around) {
        settings.attendance = Attendance::Attended;
    }
    let engine = Engine::open(&around.data_dir);
    let session = match resumed_id(&args, &engine, &workspace)? {
        Some(id) => engine.resume(&id, settings)?,
        None => engine.create(&workspace, settings)?,
    };
    let shown = match args.format {
        Format::Text => Shown::Text(TextView::new(args.quiet, around.stderr_is_terminal)),
        Format::Json => Shown::Json,
        Format::StreamJson => Shown::StreamJson,
    };
    if session.resumed() == Resumed::AtRest && prompt.is_none() && args_resume(&args) {
        return turn(session, Some("Go on.".to_owned()), shown, &args).await;
    }
    turn(session, prompt, shown, &args).await
}

/// Prompts an open session and shows the turn until it is over.
async fn turn(session: Session, prompt: Option<String>, mut shown: Shown, args: &RunArgs) -> anyhow::Result<u8> {
    let subscription = session.subscribe(session.opened_at());
    let watched = watch(&session, prompt, subscription, &mut shown).await;
    let (result, stopped_by_term) = match watched {
        Ok(watched) => watched,
        Err(error) => {
            session.close().await;
            return Err(error);
        }
    };
    let id = session.id().to_string();
    session.close().await;
    let report = result.with_context(|| format!("the session {id} cannot go on"))?;
    let code = if stopped_by_term { report::EXIT_TERMINATED } else { report::exit_code(report.end) };
    finish(&mut shown, &report, &id, code, args);
    Ok(code)
}

/// Prompts a session, shows the turn in a view, and closes the session.
pub(crate) async fn show_turn(session: Session, task: &str, view: &mut TextView) -> anyhow::Result<TurnReport> {
    let subscription = session.subscribe(session.opened_at());
    let taken = std::mem::replace(view, TextView::new(false, false));
    let mut shown = Shown::Text(taken);
    let watched = watch(&session, Some(task.to_owned()), subscription, &mut shown).await;
    session.close().await;
    if let Shown::Text(taken) = shown {
        *view = taken;
    }
    Ok(watched?.0?)
}

/// Everything that happens until the turn is over, and whether a SIGTERM ended it.
async fn watch(
    session: &Session,
    prompt: Option<String>,
    mut subscription: Subscription,
    shown: &mut Shown,
) -> anyhow::Result<(Result<TurnReport, EngineError>, bool)> {
    let mut stops = Stops::listen()?;
    let mut cancelled = false;
    let mut terminated = false;
    let asking = async {
        match prompt {
            Some(text) => session.send(vec![Part::text(text)], Delivery::Steer).await,
            None => session.go_on().await,
        }
    };
    tokio::pin!(asking);
    let mut tick = tokio::time::interval(TICK);
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
                Some(published) => shown.show(session, &published),
                None => return Ok((report.unwrap_or(Err(EngineError::Closed)), terminated)),
            },
            ended = &mut asking, if report.is_none() => report = Some(ended),
            by_term = stops.next() => {
                if cancelled {
                    // The second time is meant: the tools were told to stop already.
                    shown.clear();
                    std::process::exit(i32::from(report::exit_code(piton_core::event::TurnEnd::Canceled)));
                }
                (cancelled, terminated) = (true, by_term);
                shown.stopping();
                session.cancel();
            }
            _ = tick.tick() => shown.tick(),
        }
    }
}

impl Shown {
    fn show(&mut self, session: &Session, published: &Published) {
        match self {
            Self::Text(view) => {
                view.show(published);
                if let Published::Recorded(record) = published
                    && let Event::ApprovalAsked { subject } = &record.event
                {
                    ask(view, session, subject);
                }
            }
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

    fn tick(&mut self) {
        if let Self::Text(view) = self {
            view.tick();
        }
    }

    fn clear(&mut self) {
        if let Self::Text(view) = self {
            view.clear();
        }
    }

    fn stopping(&mut self) {
        if let Self::Text(view) = self {
            view.note("stopping… (once more to quit at once)");
        }
    }
}

impl Stops {
    fn listen() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
        })
    }

    /// The next one; whether it came from outside (SIGTERM, SIGHUP) rather than from the keyboard.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => false,
            _ = self.terminate.recv() => true,
            _ = self.hang_up.recv() => true,
        }
    }
}

/// Asks on the terminal. A thread of its own reads the answer, so that the turn stays alive meanwhile.
fn ask(view: &mut TextView, session: &Session, subject: &Subject) {
    let question = match subject {
        Subject::Call(_) => format!("Run {}?  [y]es / [a]lways this tool / [n]o: ", view.describe(subject)),
        Subject::GoOn(_) => {
            format!("It repeats {} with the same result. Let it go on?  [y]es / [n]o: ", view.describe(subject))
        }
    };
    view.clear();
    view::write_stderr(&question);
    let (session, subject) = (session.clone(), subject.clone());
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        let decision = match line.trim().to_lowercase().as_str() {
            _ if read.is_err() || line.is_empty() => Decision::Unattended,
            "y" | "yes" => Decision::Approve,
            "a" | "always" => Decision::ApproveForSession,
            "n" | "no" | "" => Decision::Deny(None),
            words => Decision::Deny(Some(words.to_owned())),
        };
        // The turn may be over by now.
        drop(session.answer(subject, decision));
    });
}

/// The last words, in the form asked for.
fn finish(shown: &mut Shown, report: &TurnReport, session: &str, code: u8, args: &RunArgs) {
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
            let result = json!({
                "type": "result",
                "session": session,
                "turn": report.turn,
                "end": report.end,
                "detail": report.detail,
                "exit_code": code,
                "text": report.text,
                "spent": report.spent,
            });
            view::write_stdout(&format!("{result}\n"));
        }
    }
}

/// The task: what was said, what was piped in, or both.
fn prompt(args: &RunArgs, around: &Surroundings) -> anyhow::Result<Option<String>> {
    let said = args.prompt.as_deref().filter(|prompt| *prompt != "-");
    let wants_stdin = args.prompt.as_deref() == Some("-");
    let piped = match (wants_stdin, around.stdin_is_terminal, said) {
        (true, ..) => read_stdin()?,
        (false, false, _) if stdin_has_data() => read_stdin()?,
        _ => String::new(),
    };
    let text = match (said, piped.trim()) {
        (Some(said), "") => said.to_owned(),
        (Some(said), piped) => format!("{said}\n\n<stdin>\n{piped}\n</stdin>"),
        (None, piped) => piped.to_owned(),
    };
    if !text.trim().is_empty() {
        return Ok(Some(text));
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
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn args_resume(args: &RunArgs) -> bool {
    args.r#continue || args.resume.is_some()
}

/// Whether a person sits there who can be asked.
fn is_attended(args: &RunArgs, around: &Surroundings) -> bool {
    let terminal = around.stdin_is_terminal && around.stderr_is_terminal;
    terminal && args.format == Format::Text && args.prompt.as_deref() != Some("-")
}

/// The session to go on with, if any.
pub(crate) fn resumed_id(args: &RunArgs, engine: &Engine, workspace: &Path) -> anyhow::Result<Option<SessionId>> {
    if let Some(prefix) = &args.resume {
        return Ok(Some(crate::sessions::find(engine, prefix)?));
    }
    if !args.r#continue {
        return Ok(None);
    }
    let newest = engine.index()?.newest(workspace)?;
    let newest = newest.with_context(|| format!("there is no session of {} to go on with", workspace.display()))?;
    Ok(Some(newest))
}
