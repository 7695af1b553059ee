//! The command line: what can be said, and nothing of what it means.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use piton_models::options::Effort;
use piton_models::text_tools;
use std::path::PathBuf;

/// A coding agent that fixes every step in a journal: nothing is lost, nothing runs twice.
#[derive(Debug, Parser)]
#[command(name = "piton", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Try it without any key:  piton demo
On your own code:        piton run \"fix the failing test\"
Exit codes and formats:  docs/exit-codes.md and docs/stream-json.md in the source";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give the agent a task in this folder and watch it work
    Run(Box<RunArgs>),
    /// Watch the agent fix a failing test in a sample project; a recording plays the model, all else is real
    Demo(DemoArgs),
    /// Take the last turn back: what was said, and every change to files, whatever made it
    Undo(UndoArgs),
    /// Bring back what was taken back last
    Redo(RedoArgs),
    /// List, show and remove sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// List the models that can be asked from here
    Models(ModelsArgs),
    /// Keep a provider's key, list where keys are, or forget one
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Say what Piton finds on this machine: keys by name, local servers, tools, the database
    Doctor,
    /// Print a completion script for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

/// `piton run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The task; `-` reads it from standard input. With a task, piped input is added to it as context
    pub(crate) prompt: Option<String>,
    /// Model to ask, as provider/name (see `piton models`); `a/x,b/y` asks b/y where a/x gives no reply
    #[arg(short, long, value_name = "PROVIDER/NAME[,…]")]
    pub(crate) model: Option<String>,
    /// For a model that cannot call tools itself: speak `use_tool` or `hermes` with it in plain text, or `look` for
    /// calls that its server leaves in the text (docs/text-tools.md)
    #[arg(long, value_name = "HOW")]
    pub(crate) text_tools: Option<text_tools::Mode>,
    /// How much the model thinks: none, minimal, low, medium, high, xhigh or max; each model gets the nearest it has
    #[arg(long, value_name = "LEVEL", value_parser = effort())]
    pub(crate) effort: Option<Effort>,
    /// Most tokens of one answer, reasoning included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_output: Option<u32>,
    /// How much chance there is in the answers, from 0 to 2
    #[arg(long, value_name = "T")]
    pub(crate) temperature: Option<f64>,
    /// Run every tool without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Run this tool without asking (may be repeated): a tool's name, or `*`
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Never run this tool (may be repeated)
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
    /// Folder to work in, instead of the current one (a session that is resumed stays in its own)
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Stop after this many model replies; the last one sums up and calls no tools
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_steps: Option<u32>,
    /// Ask the model only while it can use no more tokens than this, input and output together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// Ask the model only while it can cost no more than this, in US dollars (models with a known price)
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<f64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_time: Option<u64>,
    /// Go on with the newest session of this folder; if another piton runs it, speak in it there
    #[arg(short, long, conflicts_with = "resume")]
    pub(crate) r#continue: bool,
    /// Go on with this session (an id, or the beginning of one)
    #[arg(short, long, value_name = "ID")]
    pub(crate) resume: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Also record the model's replies as a cassette, to be replayed with `--model recorded/FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Print the answer only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// One of the words for it; what is nearly one is answered with it.
fn effort() -> impl TypedValueParser<Value = Effort> {
    PossibleValuesParser::new(Effort::NAMES).try_map(|word| word.parse::<Effort>())
}

/// What `piton run` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Prose on standard output as it comes, one line per tool call on standard error
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON object per event, as it happens
    StreamJson,
}

/// What `piton session follow` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FollowFormat {
    /// Prose on standard output as it comes, one line per tool call on standard error
    Text,
    /// One JSON object per event, as it happens
    StreamJson,
}

/// `piton demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Unpack the sample project here, instead of into a temporary folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// `piton undo`.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// How many turns to take back
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns: u32,
    /// Of this session (an id, or the beginning of one), instead of the newest of this folder
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take back the files and keep the conversation; the model is told
    #[arg(long, conflicts_with = "chat_only")]
    pub(crate) files_only: bool,
    /// Take back the conversation and leave all files as they are
    #[arg(long)]
    pub(crate) chat_only: bool,
    /// Take back files too that somebody else has changed since
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `piton redo`.
#[derive(Debug, Args)]
pub(crate) struct RedoArgs {
    /// Of this session (an id, or the beginning of one), instead of the newest of this folder
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Bring back files too that somebody else has changed since
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `piton session …`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions, newest first
    List {
        /// Only those of this folder
        #[arg(short = 'C', long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// At most this many
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// One JSON object per session
        #[arg(long)]
        json: bool,
    },
    /// Show a session: what was said and done
    Show {
        /// The session's id, or the beginning of one
        id: String,
        /// Every event, one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Watch a session that another piton runs, as it goes on
    Follow {
        /// The session's id, or the beginning of one
        id: String,
        /// Begin at this event; 1 is the first
        #[arg(long, value_name = "SEQ", default_value_t = 1)]
        from: u64,
        /// What to print
        #[arg(long, value_enum, default_value_t = FollowFormat::Text)]
        format: FollowFormat,
    },
    /// Stop what a session is doing, whichever piton runs it
    Cancel {
        /// The session's id, or the beginning of one
        id: String,
    },
    /// What a session used and cost, step by step, and what the provider's cache did for it
    Cost {
        /// The session's id, or the beginning of one
        id: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove a session for good, its journal included
    Rm {
        /// The session's id, or the beginning of one
        id: String,
    },
    /// Draw a session's turns, with those that were taken back
    Tree {
        /// The session's id, or the beginning of one
        id: String,
    },
    /// Make a new session that goes on from where this one was
    Fork {
        /// The session's id, or the beginning of one
        id: String,
        /// Where a turn ended (a number of `piton session tree`), instead of the end of the last one
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Check a session's journal: holes, edits, damage
    Verify {
        /// The session's id, or the beginning of one
        id: String,
    },
}

/// `piton auth …`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Keep a key: typed here without being shown, or piped in. In the keyring, or a file of your own where there is none
    Login {
        /// The provider, such as anthropic
        provider: String,
        /// In the file, even where there is a keyring
        #[arg(long)]
        file: bool,
    },
    /// Say for every provider with a key where it is found. Keys are not shown
    List,
    /// Forget the key that was kept
    Logout {
        /// The provider
        provider: String,
    },
}

/// `piton models`.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// Take windows and prices from this file or address (the shape of models.jsonl), now and from now on
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) refresh: Option<String>,
    /// One JSON object per model
    #[arg(long)]
    pub(crate) json: bool,
}
