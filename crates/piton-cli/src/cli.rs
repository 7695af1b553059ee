//! The command line: what can be said, and nothing of what it means.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use piton_core::permission::{Action, Rule};
use piton_engine::config::layers::{Flag, Value};
use piton_engine::config::preset;
use piton_models::options::{Effort, Options};
use piton_models::text_tools;
use std::path::PathBuf;

/// A coding agent that fixes every step in a journal: nothing is lost, nothing runs twice.
#[derive(Debug, Parser)]
#[command(name = "piton", version, max_term_width = 100, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Also write what happens, line by line, to the end of this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// With --log-file, have more in the log: `requests` is every request to a model and every answer as it came, without keys
    #[arg(long, global = true, value_name = "TOPIC", value_enum)]
    pub(crate) debug: Option<DebugTopic>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What a log may have more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DebugTopic {
    /// The bodies of requests and answers
    Requests,
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
    /// List, show, name, export, fork, remove and repair sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Show what a model gets in this folder before anything is done: each piece, its tokens, its file
    Context(ContextArgs),
    /// List the models that can be asked from here
    Models(ModelsArgs),
    /// List the presets: five agents' loops as data, every number with its unit and where it comes from
    Presets {
        /// Only this one
        name: Option<String>,
        /// One JSON object per preset: its whole policy
        #[arg(long)]
        json: bool,
    },
    /// Keep a provider's key, list where keys are, or forget one
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Show, check and edit the settings, and trust those of a repository
    #[command(subcommand)]
    Config(ConfigCommand),
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
    /// Take the task from a command: `.piton/commands/NAME.md` (or `.opencode`, `.claude`) up from here, with the task's
    /// words in its `$1`, `$2`, … and `$ARGUMENTS`
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<String>,
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
    #[arg(long, value_name = "T", value_parser = temperature)]
    pub(crate) temperature: Option<f64>,
    /// Run every tool without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
    /// Folder to work in, instead of the current one. A session that is resumed stays in its own, unless that is gone
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The answer must be JSON that this JSON Schema accepts; the model may repair it twice
    #[arg(long, value_name = "FILE")]
    pub(crate) output_schema: Option<PathBuf>,
    /// Let the hooks run that come with this folder, as they are now, and remember that (docs/hooks.md)
    #[arg(long)]
    pub(crate) trust_hooks: bool,
    /// Go on with the newest session of this folder, with a task or, where its last turn was cut off or stopped, without;
    /// if another piton runs it, speak in it there
    #[arg(short, long, conflicts_with = "resume")]
    pub(crate) r#continue: bool,
    /// Go on with this session (an id or the beginning of one, a title, last, -2); without one, choose from a list
    #[arg(short, long, value_name = "ID", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true)]
    pub(crate) resume: Option<String>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// What is on standard input: `stream-json` is one JSON object per line, to steer while it works
    #[arg(long, value_enum, default_value_t = InputFormat::Text)]
    pub(crate) input_format: InputFormat,
    /// Also record the model's replies as a cassette, to be replayed with `--model recorded/FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Print the answer only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Flags that are settings: the topmost layer of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingFlags {
    /// Run this tool without asking (may be repeated): a tool's name, or `*`
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub(crate) allow: Vec<String>,
    /// Never run this tool (may be repeated)
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub(crate) deny: Vec<String>,
    /// Run by the rules of another agent's loop, a word of `piton presets`; limits that are set besides win
    #[arg(long, value_name = "NAME", value_parser = preset_name)]
    pub(crate) preset: Option<String>,
    /// Set any key of the configuration for this run (may be repeated): --set limits.max_replies=40
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Read no instruction files (AGENTS.md, PITON.md, CLAUDE.md, GEMINI.md)
    #[arg(long)]
    pub(crate) no_instructions: bool,
    /// Stop after this many model replies; the last one sums up and calls no tools
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_steps: Option<u32>,
    /// Ask the model only while it can use no more tokens than this, input and output together
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// Ask the model only while it can cost no more than this, in US dollars (models with a known price)
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(crate) max_time: Option<u64>,
    /// The turn may not end before this command passes; its output goes back to the model, 3 times (may be repeated)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,
}

impl SettingFlags {
    /// What they set, in the order in which they win.
    pub(crate) fn layers(&self) -> Vec<Flag> {
        let key = |flag, key: &'static [&'static str], value| Flag::Key { flag, key, value };
        let rule = |flag, action| move |tool: &String| Flag::Rule { flag, tool: tool.clone(), action };
        let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
        let check = |check: &String| Flag::Item {
            flag: "--check",
            key: &["check", "commands"],
            value: Value::from(check.as_str()),
        };
        let mut flags: Vec<Flag> = self.set.iter().cloned().map(Flag::Set).collect();
        flags.extend(self.allow.iter().map(rule("--allow", Action::Allow)));
        flags.extend(self.deny.iter().map(rule("--deny", Action::Deny)));
        let keys = [
            self.preset.as_deref().map(|name| key("--preset", &["preset"], Value::from(name))),
            self.no_instructions.then(|| key("--no-instructions", &["context", "instructions"], Value::from(false))),
            self.max_steps.map(|most| key("--max-steps", &["limits", "max_steps"], number(most.into()))),
            self.max_tokens.map(|most| key("--max-tokens", &["limits", "max_tokens"], number(most))),
            self.max_cost.map(|usd| key("--max-cost", &["limits", "max_cost"], Value::from(usd))),
            self.max_time.map(|seconds| key("--max-time", &["limits", "max_time"], number(seconds))),
        ];
        flags.extend(keys.into_iter().flatten());
        flags.extend(self.check.iter().map(check));
        flags
    }
}

/// One of the words for it; what is nearly one is answered with it.
fn effort() -> impl TypedValueParser<Value = Effort> {
    PossibleValuesParser::new(Effort::NAMES).try_map(|word| word.parse::<Effort>())
}

fn temperature(text: &str) -> Result<f64, String> {
    let temperature = text.parse().ok();
    match (Options { temperature, ..Options::default() }.mistake(), temperature) {
        (None, Some(temperature)) => Ok(temperature),
        _ => Err("it must be a number from 0 to 2".to_owned()),
    }
}

fn dollars(text: &str) -> Result<f64, String> {
    let usd = text.parse::<f64>().ok().filter(|usd| (0.000_001..=1e9).contains(usd));
    usd.ok_or_else(|| "it must be a number of US dollars from 0.000001 to 1000000000".to_owned())
}

fn rule(text: &str) -> Result<String, String> {
    Rule::parse(text, Action::Allow).map(|rule| rule.tool).map_err(|error| error.to_string())
}

fn preset_name(name: &str) -> Result<String, String> {
    preset(Some(name)).map(|_| name.to_owned()).map_err(|error| error.to_string())
}

/// `--set`, where nothing is run.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// As with `piton run --set` (may be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl ContextArgs {
    pub(crate) fn layers(&self) -> Vec<Flag> {
        let none =
            Flag::Key { flag: "--no-instructions", key: &["context", "instructions"], value: Value::from(false) };
        self.set.layers().into_iter().chain(self.no_instructions.then_some(none)).collect()
    }
}

impl SetArgs {
    pub(crate) fn layers(&self) -> Vec<Flag> {
        self.set.iter().cloned().map(Flag::Set).collect()
    }
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

/// What `piton run` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// The task, or context for it
    Text,
    /// One JSON object per line: prompts, answers, cancels, while the session goes on
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

/// `piton context`.
#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// A task, to see what its @references come to
    pub(crate) prompt: Option<String>,
    /// The model that would be asked, as provider/name
    #[arg(short, long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// Folder to look at, instead of the current one
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// As with `piton run --no-instructions`
    #[arg(long)]
    pub(crate) no_instructions: bool,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    /// With the text of each piece
    #[arg(long)]
    pub(crate) full: bool,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Of this session (an id or the beginning of one, a title, last, -2), instead of the newest of this folder
    #[arg(long, allow_hyphen_values = true, value_name = "ID")]
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
    /// Of this session (an id or the beginning of one, a title, last, -2), instead of the newest of this folder
    #[arg(long, allow_hyphen_values = true, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Bring back files too that somebody else has changed since
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `piton session …`. A session is named by its id or the beginning of one, by its title or a piece of it, or by its
/// place among those of this folder: `last` or `-1`, `-2`, …
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions of this folder and below it, newest first
    List(ListArgs),
    /// Show a session: what was said and done
    Show {
        /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// All of the tools' output, and what the model thought aloud
        #[arg(long)]
        full: bool,
        /// Every event, one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Watch a session that another piton runs, as it goes on
    Follow {
        /// The session's id, or the beginning of one; without one, choose from a list
        id: Option<String>,
        /// Begin at this event; 1 is the first
        #[arg(long, value_name = "SEQ", default_value_t = 1)]
        from: u64,
        /// What to print
        #[arg(long, value_enum, default_value_t = FollowFormat::Text)]
        format: FollowFormat,
    },
    /// Stop what a session is doing, whichever piton runs it
    Cancel {
        /// The session's id, or the beginning of one; without one, choose from a list
        id: Option<String>,
    },
    /// Hold a session that is being run: it finishes the call that runs and starts nothing new
    Pause {
        /// The session's id, or the beginning of one; without one, choose from a list
        id: Option<String>,
    },
    /// Let a session go on that was paused
    Continue {
        /// The session's id, or the beginning of one; without one, choose from a list
        id: Option<String>,
    },
    /// What a session used and cost, step by step, and what the provider's cache did for it
    Cost {
        /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make room: a summary takes the place of all but the newest steps of a session. The model writes it, or you do
    Compact(CompactArgs),
    /// Each step of a session: what went in, who was asked, what was run, how long all took, and why it went on or stopped
    Trace(TraceArgs),
    /// Draw a session's turns, with those that were taken back
    Tree {
        /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// Make a new session that goes on from where this one was
    Fork {
        /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Where a turn ended (a number of `piton session tree`), instead of the end of the last one
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Give a session a title
    Rename {
        /// The session: an id or the beginning of one, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// The title; "" for the words of the first prompt again
        title: String,
    },
    /// Write a session as one file: an HTML page or Markdown to read, JSON to import
    Export(ExportArgs),
    /// Make a session of an export in JSON, with the same events
    Import {
        /// The file; `-` is standard input
        file: PathBuf,
    },
    /// Move sessions to the trash
    Rm {
        /// The sessions: ids or the beginnings of them, titles, last, -2
        #[arg(required = true, allow_negative_numbers = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Bring a session back from the trash
    Restore {
        /// The session: an id or the beginning of one, a title
        id: String,
    },
    /// List what is in the trash, or empty it
    Trash {
        /// Remove all of it for good
        #[arg(long)]
        empty: bool,
        /// One JSON object per session
        #[arg(long, conflicts_with = "empty")]
        json: bool,
    },
    /// Move old or large sessions to the trash
    Prune(PruneArgs),
    /// Check a session's journal: holes, edits, damage
    Verify {
        /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// Make a new session of what can be read of a damaged one, which stays as it is
    Repair {
        /// The session's id, or the beginning of one; without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
}

/// Whose sessions are meant.
#[derive(Debug, Args)]
pub(crate) struct Scope {
    /// Those of this folder and below it, instead of the current one
    #[arg(short = 'C', long, alias = "cwd", value_name = "DIR", conflicts_with = "all")]
    pub(crate) project: Option<PathBuf>,
    /// Those of every folder
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// `piton session list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) scope: Scope,
    /// Those in whose title, folder or prompts each of these words occurs
    #[arg(short, long, value_name = "WORDS")]
    pub(crate) search: Option<String>,
    /// Those that were worked on since: 2026-11-01, or 7d for a week ago
    #[arg(long, value_name = "DATE")]
    pub(crate) since: Option<String>,
    /// At most this many
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// One JSON object per session
    #[arg(long)]
    pub(crate) json: bool,
}

/// `piton session compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// What the summary shall dwell on
    #[arg(long, value_name = "WORDS", conflicts_with = "summary")]
    pub(crate) focus: Option<String>,
    /// Change the summary in your editor ($VISUAL or $EDITOR) before the session goes on
    #[arg(long)]
    pub(crate) edit: bool,
    /// Take the text of this file (`-` is standard input) instead of asking a model
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Only print the summary that the model reads now
    #[arg(long, conflicts_with_all = ["focus", "edit", "summary"])]
    pub(crate) show: bool,
    /// Model to ask, as provider/name, instead of the session's own
    #[arg(short, long, value_name = "PROVIDER/NAME", conflicts_with = "summary")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) set: SetArgs,
}

/// `piton session export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// What to write; without it what FILE ends in says, or else html
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// Where to, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Keep what looks like a key or another secret
    #[arg(long)]
    pub(crate) no_redact: bool,
}

/// What `piton session export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown
    Md,
    /// One page that needs nothing else
    Html,
    /// Every event, to be imported again
    Json,
}

/// `piton session prune`. What is said must all be true of a session.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("rule").args(["older_than", "keep", "larger_than"]).required(true).multiple(true)))]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) scope: Scope,
    /// Those in which nothing happened for so long: 30d, 2w
    #[arg(long, value_name = "SPAN")]
    pub(crate) older_than: Option<String>,
    /// All but so many of the newest
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
    /// Those that take more space than this: 200MB, 1.5G
    #[arg(long, value_name = "SIZE")]
    pub(crate) larger_than: Option<String>,
    /// Also those that were touched within the last day
    #[arg(long)]
    pub(crate) recent: bool,
    /// Only say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
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

/// `piton session trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The session: an id or the beginning of one, a title, last, -2; without one, choose from a list
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// Only this step
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u32>,
    /// One JSON object per step
    #[arg(long)]
    pub(crate) json: bool,
    /// Send all turns as OpenTelemetry spans to this collector (OTLP as JSON over HTTP), or to `-`, standard output
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
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

/// `piton config …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting that holds in this folder, as TOML
    Show {
        /// Also say who set it: a file, a variable, a flag, or nobody (a default)
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        settings: Box<SettingFlags>,
    },
    /// Print which files are read
    Path,
    /// Say whether the settings make sense, and name the first mistake
    Check {
        /// This file, instead of all that holds here
        file: Option<PathBuf>,
        #[command(flatten)]
        settings: Box<SettingFlags>,
    },
    /// Open your own file in $VISUAL or $EDITOR, and check it afterwards
    Edit,
    /// Put the .piton/config.toml of this repository in force, as it is now
    Trust {
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Do not let the .piton/config.toml of this repository count any more
    Untrust,
    /// Print the JSON schema of the settings
    Schema,
}
