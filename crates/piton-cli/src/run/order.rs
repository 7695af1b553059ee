//! What a command line asks for, resolved once: in which session, what is said, what is wished of its settings, and how
//! it is shown. From here on it goes down to the engine, and nothing below reads a flag.

use crate::cli::{Format, InputFormat, RunArgs};
use crate::commands::sessions::find;
use crate::editor::Pager;
use crate::failure::{Result, ensure};
use crate::out::view::Look;
use crate::run::ask::Seat;
use crate::run::input::Input;
use crate::run::shown::Shown;
use crate::run::task;
use crate::run::wishes::wishes;
use crate::surroundings::Surroundings;
use piton_core::client::{Prompt, Request};
use piton_core::ids::SessionId;
use piton_engine::assemble::Wishes;
use piton_engine::engine::Engine;
use std::path::PathBuf;

/// Everything that a run is asked for.
pub(crate) struct Order {
    pub(crate) place: Place,
    pub(crate) input: Input,
    pub(crate) shown: Shown,
    /// Where a person answers questions, if one does.
    pub(crate) asks: Option<Seat>,
    pub(crate) wishes: Wishes,
    /// The command of `--command`.
    pub(crate) command: Option<String>,
    /// Whether what subagents record is shown, too.
    pub(crate) hears_subagents: bool,
    /// A flag that cannot be added to what another process does.
    pub(crate) only_here: Option<&'static str>,
}

/// Which session, and in which folder.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    New(PathBuf),
    Resumed {
        id: SessionId,
        /// The folder that was named, else the current one.
        here: PathBuf,
        /// Whether it was named.
        is_named: bool,
    },
}

impl Place {
    /// The session that goes on.
    pub(crate) fn resumed(&self) -> Option<&SessionId> {
        match self {
            Self::New(_) => None,
            Self::Resumed { id, .. } => Some(id),
        }
    }
}

/// What a command line asks for.
pub(crate) fn resolve(args: &RunArgs, engine: &Engine, around: &Surroundings) -> Result<Order> {
    let workspace = around.workspace(args.cwd.as_deref())?;
    let prompt = match &args.command {
        Some(name) => {
            let words = args.prompt.as_deref().unwrap_or_default();
            Some(Prompt { command: Some(name.clone()), ..Prompt::new(words) })
        }
        None => task::of(args, around)?,
    };
    let resumed = find::to_resume(args.resume.as_deref(), args.r#continue, engine, &workspace, around)?;
    let wishes = wishes(args, resumed.is_some(), around)?;
    let input = match args.input_format {
        InputFormat::StreamJson => Input::open(prompt),
        InputFormat::Text => Input::once(prompt),
    };
    ensure!(
        resumed.is_some() || input.is_program() || !matches!(input.first(), Some(Request::Compact(_))),
        "/compact needs an existing session: choose it with --continue or --resume ID"
    );
    ensure!(!args.tree || args.format == Format::StreamJson, "--tree needs --format stream-json");
    let only_here = [("--check", !args.settings.check.is_empty()), ("--output-schema", args.output_schema.is_some())];
    let is_newest = args.cwd.is_none() && (resumed.is_none() || args.r#continue);
    let look = Look { quiet: args.quiet, verbose: args.verbose, is_newest, ..Look::of(around) };
    let may_ask = args.format == Format::Text && !input.is_program();
    Ok(Order {
        place: match resumed {
            Some(id) => Place::Resumed { id, here: workspace, is_named: args.cwd.is_some() },
            None => Place::New(workspace),
        },
        input,
        shown: Shown::new(args.format, look),
        asks: around.person.filter(|_| may_ask).map(|terminal| Seat { terminal, pager: Pager::at_hand(around) }),
        wishes,
        command: args.command.clone(),
        hears_subagents: args.tree,
        only_here: only_here.into_iter().find_map(|(flag, is_said)| is_said.then_some(flag)),
    })
}
