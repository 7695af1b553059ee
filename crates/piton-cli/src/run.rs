//! `piton run`: what is said on a command line or line by line, in a new session, one that goes on, or one that another process
//! runs.
//!
//! ```text
//!   RunArgs ─► order (what is wanted) ─► talk (here or there) ─► opening ─► engine
//!                                              └─► conversation ◄──────────────┘
//! ```
//!
//! Each step knows those behind it in this picture, and none before it.

pub(crate) mod ask;
pub(crate) mod conversation;
pub(crate) mod follow;
pub(crate) mod input;
pub(crate) mod opening;
pub(crate) mod order;
pub(crate) mod shown;
pub(crate) mod stops;
pub(crate) mod take_over;
pub(crate) mod talk;
pub(crate) mod task;
pub(crate) mod unfinished;
pub(crate) mod wishes;

use crate::cli::RunArgs;
use crate::failure::Result;
use crate::out::view::{Look, TextView};
use crate::run::ask::Questions;
use crate::run::conversation::{Conversation, Left};
use crate::run::input::Input;
use crate::run::shown::Shown;
use crate::run::stops::{Stop, Stops};
use crate::surroundings::Surroundings;
use piton_core::client::{Prompt, Report};
use piton_engine::engine::{Engine, EngineError, Handle};

/// Runs one turn, or what is said on standard input, and returns the exit code.
pub(crate) async fn run(args: RunArgs, around: &Surroundings) -> Result<u8> {
    let engine = Engine::open(&around.machine.data_dir);
    if let Some(taken) = &args.take_over {
        return Box::pin(take_over::take_over(taken, &args, &engine, around)).await;
    }
    let order = order::resolve(&args, &engine, around)?;
    talk::talk(order, &engine, around).await
}

/// Says something in a session, shows what comes of it in a view, and closes the session. The report, unless it was stopped
/// twice.
pub(crate) async fn show_turn(session: Handle, task: &str, view: &mut TextView) -> Result<Result<Report, Stop>> {
    let shown = Shown::Text(Box::new(std::mem::replace(view, TextView::new(Look::default()))));
    let mut talk = Conversation::new(Input::once(Some(Prompt::new(task))), shown, Questions::new(None), false);
    let mut stops = Stops::listen()?;
    let left = talk.with(&session, &mut stops).await;
    if let Shown::Text(shown) = talk.shown {
        *view = *shown;
    }
    if let Ok(Left::AtOnce(stop)) = left {
        return Ok(Err(stop));
    }
    stops.unless_stopped(session.close()).await;
    left?;
    Ok(Ok(talk.report.ok_or(EngineError::Closed)?))
}
