//! The `piton` binary: reads what was said (flags, environment, files), wires the engine to it, and speaks to people.
//!
//! This crate is the only one that reads the environment, the home folder and argv, and the only one that prints.
//! `report` holds the words and exit codes, `view` draws a running turn, `surroundings` is all that is read from outside.

mod cassettes;
mod changed;
mod chat;
mod cli;
mod commands;
mod editor;
mod failure;
mod logs;
mod memory;
mod out;
mod pictures;
mod run;
mod settings;
mod surroundings;
mod typed;
mod upkeep;

use crate::chat::Left;
use crate::cli::{Cli, Command, Format};
use crate::commands::{
    agent, auth, command, config, context, demo, doctor, man, mcp, models, permission, plugin, presets, sandbox,
    sessions, skill, trust, undo,
};
use crate::failure::Failure;
use crate::out::{report, view};
use crate::surroundings::Surroundings;
use clap::CommandFactory;
use piton_tools::spawn::Env;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads argv, and a runner's environment")]
fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // Decided before anything else is parsed or read: a shell command of the agent waits for this.
    if args.next().is_some_and(|first| first == "runner") {
        let words: Vec<OsString> = args.collect();
        let env = Env::new(std::env::vars_os().collect());
        let code = piton_tools::runner::runner_main(&words, &env, std::io::stdin());
        return ExitCode::from(u8::try_from(code).unwrap_or(report::EXIT_FAILED));
    }
    // Keys are in our environment and memory: no command of ours, nor anything else of this user, may look there.
    // Where this cannot be had, tools still do not inherit them.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let cli = match typed::parse(std::env::args_os(), at_terminal()) {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && typed::wants_json(std::env::args_os()) {
                report::usage_as_json(&error);
            }
            error.exit()
        }
    };
    if let Err(error) = logs::start(&cli) {
        return ExitCode::from(report::failure(&error));
    }
    match ensure_files().and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build()) {
        Ok(runtime) => {
            let code = match runtime.block_on(start(cli.command)) {
                Left::Over(code) => code,
                // What is dropped is stopped, and it is to go on.
                Left::HandedOver => std::process::exit(0),
            };
            // Whatever still runs (a thread that reads the terminal) is not waited for.
            runtime.shutdown_background();
            ExitCode::from(code)
        }
        Err(error) => ExitCode::from(report::failure(&Failure::from(error).context("cannot start"))),
    }
}

/// Whether a person sits here who reads what is printed and can type.
fn at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The runtime needs some files, and panics where it cannot have them.
fn ensure_files() -> std::io::Result<()> {
    const NEEDED: usize = 16;
    let files = (0..NEEDED).map(|_| std::fs::File::open("/dev/null"));
    files.collect::<Result<Vec<_>, _>>().map(drop)
}

async fn start(command: Command) -> Left {
    match Surroundings::read() {
        Ok(around) => Box::pin(obey(command, &around)).await,
        Err(error) => Left::Over(failing(&command)(&error)),
    }
}

/// How a command says that it failed.
fn failing(command: &Command) -> fn(&Failure) -> u8 {
    match command {
        Command::Run(args) if args.format != Format::Text => report::failure_as_json,
        _ => report::failure,
    }
}

/// Does what a command says, and returns the exit code.
async fn obey(command: Command, around: &Surroundings) -> Left {
    let fail = failing(&command);
    let result = match command {
        Command::Chat(args) => match Box::pin(chat::chat(*args, around)).await {
            Ok(Left::HandedOver) => return Left::HandedOver,
            Ok(Left::Over(code)) => Ok(code),
            Err(error) => Err(error),
        },
        Command::Run(args) => run::run(*args, around).await,
        Command::Demo(args) => demo::demo(args, around).await,
        Command::Undo(args) => undo::undo(args, around).await,
        Command::Redo(args) => undo::redo(args, around).await,
        Command::Session(command) => Box::pin(sessions::session(command, around)).await,
        Command::Context(args) => context::context(&args, around),
        Command::Models(args) => models::models(&args, around).await,
        Command::Agent(args) => agent::agents(&args, around),
        Command::Slash(args) => command::commands(&args, around),
        Command::Skill(args) => skill::skill(&args, around),
        Command::Mcp(command) => Box::pin(mcp::mcp(command, around)).await,
        Command::Plugin(command) => plugin::plugin(command, around),
        Command::Presets { name, json } => presets::presets(name.as_deref(), json),
        Command::Auth(command) => auth::auth(command, around).await,
        Command::Permission(command) => permission::permission(command, around).await,
        Command::Config(command) => config::config(command, around),
        Command::Trust(args) => trust::trust(&args, around),
        Command::Doctor { sandbox: true } => sandbox::prove(around).await,
        Command::Doctor { sandbox: false } => doctor::doctor(around).await,
        Command::Sandbox(args) => sandbox::sandbox(&args, around).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "piton", &mut script);
            view::write_stdout(&String::from_utf8_lossy(&script));
            Ok(0)
        }
        Command::Man { out } => man::man(out.as_deref()),
    };
    let code = result.unwrap_or_else(|error| fail(&error));
    if view::output_was_lost() {
        view::write_stderr("piton: standard output could not be written; the session has everything\n");
        return Left::Over(code.max(report::EXIT_FAILED));
    }
    Left::Over(code)
}
