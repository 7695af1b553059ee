//! `piton run --take-over`: goes on with the turn of a conversation whose terminal was left, in a process without one.
//!
//! ```text
//!   conversation                             this process
//!   starts it ─────────────────────────────► reads settings, leaves the terminal's session
//!             ◄───────────────────── ready ─
//!   waits for a safe point
//!   go ────────────────────────────────────►
//!   ends without closing the session         opens the session as after a kill, and goes on until it is at rest
//! ```
//!
//! A conversation that thinks better of it closes the pipe without a word. Questions wait until somebody attaches and answers.

use crate::cli::RunArgs;
use crate::failure::{Context, Result, bail};
use crate::out::view;
use crate::run::opening;
use crate::run::order::Place;
use crate::run::stops::{Stop, Stops};
use crate::run::wishes::wishes;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use piton_core::configure::Configure;
use piton_core::ids::SessionId;
use piton_engine::engine::{Attendance, Engine, EngineError, Handle, Settings};
use piton_engine::store::StoreError;
use rustix::process::setsid;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

/// What is taken over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) session: SessionId,
    /// How the conversation ran it at last, beside what is on record.
    pub(crate) had: Configure,
}

/// Said when nothing is missing any more but the session.
pub(crate) const READY: &str = "ready";
/// Heard when that is about to be free.
pub(crate) const GO: &str = "go";

/// How often the session is tried, whose process is just ending, and for how long.
const RETRY: Duration = Duration::from_millis(20);
const RETRIES: u32 = 500;

pub(crate) async fn take_over(taken: &str, args: &RunArgs, engine: &Engine, around: &Surroundings) -> Result<u8> {
    let Taken { session: id, had } = serde_json::from_str(taken).context("--take-over is Piton's own")?;
    // A terminal that hangs up ends those of its session.
    setsid().map_err(std::io::Error::from).context("cannot leave the terminal's session")?;
    let on_record = engine.configured(&id).await?;
    let mut wishes = wishes(args, true, around)?;
    wishes.forget_flags(on_record.effort.or(had.effort));
    wishes.mode = had.mode;
    wishes.asks_people = true;
    let here = PathBuf::from(engine.store().summary(&id).await?.workspace);
    let place = Place::Resumed { id: id.clone(), here, is_named: false };
    let mut settings = opening::prepare(&place, &mut wishes, engine, around).await?.settings;
    settings.attendance = Attendance::Attended;
    let mut upkeep = Upkeep::new(engine, around)?;
    let mut stops = Stops::listen()?;
    view::write_stdout(&format!("{READY}\n"));
    if !tokio::task::spawn_blocking(hears_go).await.unwrap_or(false) {
        return Ok(0);
    }
    silence()?;
    let session = open(&id, &settings, engine).await?;
    upkeep.opened(&session, settings.snapshots.clone());
    let stopped = tokio::select! {
        biased;
        stop = stops.next() => Some(stop),
        () = go_on(&session) => None,
    };
    session.close().await;
    upkeep.done().await;
    Ok(stopped.map_or(0, Stop::code))
}

/// Waits for the word; `false`: there is nothing to take over.
fn hears_go() -> bool {
    let mut said = String::new();
    std::io::stdin().read_to_string(&mut said).is_ok() && said.trim() == GO
}

/// Who read what is printed is gone.
fn silence() -> Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null").context("cannot open /dev/null")?;
    let silenced = rustix::stdio::dup2_stdin(&null)
        .and_then(|()| rustix::stdio::dup2_stdout(&null))
        .and_then(|()| rustix::stdio::dup2_stderr(&null));
    silenced.map_err(std::io::Error::from).context("cannot leave the terminal")
}

/// Opens the session, as soon as the process that ran it is gone.
async fn open(id: &SessionId, settings: &Settings, engine: &Engine) -> Result<Handle> {
    for _ in 0..RETRIES {
        match Box::pin(engine.resume(id, settings.clone())).await {
            Err(EngineError::Journal(StoreError::Busy { .. })) => tokio::time::sleep(RETRY).await,
            opened => return Ok(opened?),
        }
    }
    bail!("{id} is still run by another process")
}

/// Until nothing waits any more, what was queued included.
async fn go_on(session: &Handle) {
    while session.go_on().await.is_ok() {}
}
