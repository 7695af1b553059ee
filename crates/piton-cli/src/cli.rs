//! The command line as it can be typed. What it means is decided elsewhere.

use crate::failure::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};
use piton_core::permission::{Action, PermissionMode};
use piton_core::policy::SandboxMode;
use piton_engine::config::layers::{Flag, Value};
use piton_engine::config::trust::RunTrust;
use piton_engine::config::{BackendChoice, LimitsTable, TableFlag, is_preset_file, preset};
use piton_engine::permission::read_rule;
use piton_http::egress::{HostError, HostRule};
use piton_models::effort::Effort;
use piton_models::options::Options;
use piton_models::text_tools::{Mode, NotAMode};
use std::ffi::OsString;
use std::path::PathBuf;

/// A coding agent that journals every step before it acts: nothing is lost, nothing runs twice.
#[derive(Debug, Parser)]
#[command(name = "piton", version, max_term_width = 100, override_usage = USAGE, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// Append a log to this file
    #[arg(long, global = true, value_name = "FILE", help_heading = LOG)]
    pub(crate) log_file: Option<PathBuf>,
    /// Log more: `requests` adds the body of every model request and response, without keys (needs --log-file)
    #[arg(long, global = true, value_name = "TOPIC", value_enum, help_heading = LOG)]
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

const USAGE: &str = "\
piton [OPTIONS] [TASK]                         talk to the agent; without a terminal, run the task
       piton [OPTIONS] -c | --resume [ID] [TASK]      continue the newest session of this folder, or another one
       piton [OPTIONS] <COMMAND>";

const AFTER_HELP: &str = "\
Try it without any key:  piton demo
On your own code:        piton run \"fix the failing test\"
Exit codes and formats:  docs/exit-codes.md and docs/stream-json.md in the source";

/// Headings of `piton run --help`.
const MODEL: &str = "Model";
const PERMISSIONS: &str = "Permissions";
const LIMITS: &str = "Limits and checks";
const EXTENSIONS: &str = "Agents and plugins";
const SESSIONS: &str = "Sessions";
const OUTPUT: &str = "Input and output";
const LOG: &str = "Log";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk to the agent in this terminal, like `piton` without a command, or `piton "fix the test"`
    Chat(Box<RunArgs>),
    /// Give the agent one task, watch it work, and exit
    #[command(alias = "exec")]
    Run(Box<RunArgs>),
    /// Watch the agent fix a failing test in a sample project, with recorded model replies; everything else is real
    Demo(DemoArgs),
    /// Undo the last turn: the conversation and every file change, including those of shell commands
    Undo(UndoArgs),
    /// Redo the last undo
    Redo(RedoArgs),
    /// List, show, rename, export, fork, remove and repair sessions
    #[command(subcommand)]
    Session(SessionCommand),
    /// Show what the model is sent before your prompt: each part with its tokens and its file
    Context(ContextArgs),
    /// List available models
    Models(ModelsArgs),
    /// List the agents and where each comes from
    Agent(EntryArgs),
    /// List the slash commands and where each comes from
    #[command(name = "command")]
    Slash(EntryArgs),
    /// List the skills, show one, or validate one against the rules of agentskills.io
    ///
    /// A skill is a folder with a SKILL.md file, in .piton/skills, .agents/skills, .claude/skills or .opencode/skills of the
    /// repository, in skills beside the configuration, in ~/.agents/skills, ~/.claude/skills or ~/.config/opencode/skills.
    Skill(SkillArgs),
    /// List, add, test and log in to MCP servers
    ///
    /// They are configured in .piton/mcp.json, .mcp.json or opencode.json of the repository, in mcp.json beside the configuration,
    /// in ~/.claude.json or in ~/.config/opencode/opencode.json (docs/mcp.md).
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Add, list, show, update and remove plugins: folders with agents, skills, commands, hooks and MCP servers
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// List the presets: the loop rules of five other agents, each number with its unit and its source
    Presets {
        /// Show only this preset
        name: Option<String>,
        /// Print one JSON object per preset: its whole policy
        #[arg(long)]
        json: bool,
    },
    /// Store a provider's API key, list where keys are found, or delete one
    #[command(subcommand)]
    Auth(AuthCommand),
    /// List or revoke what you allowed with "always", and check how the rules judge a command
    #[command(subcommand)]
    Permission(PermissionCommand),
    /// Show, check and edit the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show everything in this repository that grants or runs something, and trust it in its current form
    Trust(TrustArgs),
    /// Check this machine: keys (by name), local servers, tools, sessions, and with --sandbox the sandbox
    Doctor {
        /// Try to break each guarantee of the sandbox and print which hold
        #[arg(long)]
        sandbox: bool,
    },
    /// Run a command in the sandbox, as the model's commands run, or show what such a command sees
    Sandbox(SandboxArgs),
    /// Print a completion script for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Print Piton's man page, or write one per command into a folder
    #[command(hide = true)]
    Man {
        /// Write `piton.1`, `piton-run.1`, … into this folder
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// What `--trust` without a hash stands for.
const TRUST_ALL: &str = "all";

/// What `--trust` says. A variable that holds nothing must not pass for "whatever is there".
fn run_trust(text: &str) -> Result<RunTrust, String> {
    /// Hexadecimal digits of a BLAKE3 hash.
    const DIGITS: usize = 64;
    match text {
        TRUST_ALL => Ok(RunTrust::All),
        hash if hash.len() == DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(RunTrust::Exactly(hash.to_lowercase()))
        }
        _ => Err(format!("a hash has {DIGITS} hexadecimal digits; `piton trust` prints it")),
    }
}

/// `piton trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Only these: a name (of an agent, skill, command, server or plugin) or the end of a path; without any, everything
    pub(crate) names: Vec<String>,
    /// Trust without asking
    #[arg(short, long, conflicts_with = "revoke")]
    pub(crate) yes: bool,
    /// Withdraw your trust
    #[arg(long)]
    pub(crate) revoke: bool,
    /// Print everything as JSON and change nothing
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    pub(crate) json: bool,
}

/// `piton sandbox`.
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    /// What the command can reach: `workspace-write` or `read-only`
    #[arg(long, value_name = "MODE", value_parser = ["workspace-write", "read-only"], default_value = "workspace-write")]
    pub(crate) mode: String,
    /// Backend: `namespaces`, `landlock` (weaker), or `auto`, the strongest available
    #[arg(long, value_name = "NAME", value_parser = BackendChoice::WORDS)]
    pub(crate) backend: Option<String>,
    /// Work in this folder instead of the current one
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Let the command reach this host (repeatable): `example.org`, `*.example.org`, `example.org:8443`
    #[arg(long, value_name = "HOST", value_parser = HostRule::parse)]
    pub(crate) net: Vec<HostRule>,
    /// Show what a command sees and run nothing
    #[arg(long)]
    pub(crate) show: bool,
    /// The command and its arguments. It gets no input; its home and its `/tmp` start empty and are discarded
    #[arg(required_unless_present = "show", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

/// `piton run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The task; `-` reads it from standard input. Piped input is added to a task as context
    pub(crate) prompt: Option<String>,
    /// Run a slash command: a template in `.piton/commands/NAME.md` (or `.agents`, `.claude`, `.opencode`) in this folder or
    /// above, or your own, with the prompt's words as `$1`, `$2`, … and `$ARGUMENTS`
    #[arg(long, value_name = "NAME")]
    pub(crate) command: Option<String>,
    /// Run tools without asking. Calls that always need a person, such as changes to .git outside the sandbox, are refused
    #[arg(short, long, help_heading = PERMISSIONS)]
    pub(crate) yes: bool,
    /// Permission mode: ask, accept-edits (edits in the workspace run), auto (like --yes) or plan (only reads run)
    #[arg(long, value_name = "MODE", value_parser = mode(), conflicts_with = "yes", help_heading = PERMISSIONS)]
    pub(crate) mode: Option<PermissionMode>,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
    /// Work in this folder instead of the current one. A resumed session stays in its own folder unless that is gone
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Use the plugin in this folder for this run (repeatable)
    #[arg(long, value_name = "DIR", help_heading = EXTENSIONS)]
    pub(crate) plugin_dir: Vec<PathBuf>,
    /// Agents for this run, as JSON: {"NAME": {"description": "…", "prompt": "…", "tools": ["Read"], "model": "…"}}
    #[arg(long, value_name = "JSON", help_heading = EXTENSIONS)]
    pub(crate) agents: Option<String>,
    /// Require an answer that matches this JSON Schema; the model gets two chances to repair it
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) output_schema: Option<PathBuf>,
    /// Trust this repository's configuration, hooks, agents, commands and skills for this run; with HASH (see `piton trust`),
    /// only if that is the hash over all of them
    #[arg(long, value_name = "HASH", num_args = 0..=1, require_equals = true, default_missing_value = TRUST_ALL, value_parser = run_trust, help_heading = PERMISSIONS)]
    pub(crate) trust: Option<RunTrust>,
    /// Trust this repository's hooks in their current form and run them (docs/hooks.md)
    #[arg(long, help_heading = PERMISSIONS)]
    pub(crate) trust_hooks: bool,
    /// Also use these MCP servers: a file like .mcp.json, or JSON. May be repeated (docs/mcp.md)
    #[arg(long, value_name = "FILE|JSON", help_heading = PERMISSIONS)]
    pub(crate) mcp_config: Vec<String>,
    /// Do not redact secrets in requests and in the journal, for this run (docs/secrets.md)
    #[arg(long, help_heading = PERMISSIONS)]
    pub(crate) no_redact: bool,
    /// Continue the newest session of this folder with a task, or finish its interrupted turn. If another piton is
    /// running it, the task is sent there
    #[arg(short, long, conflicts_with = "resume", help_heading = SESSIONS)]
    pub(crate) r#continue: bool,
    /// Resume this session (an id or its prefix, a title, last, -2), or attach to it if another process runs it;
    /// without ID, choose from a list
    #[arg(short, long, visible_alias = "attach", value_name = "ID", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true, help_heading = SESSIONS)]
    pub(crate) resume: Option<String>,
    /// Output format
    #[arg(long, value_enum, visible_alias = "output-format", default_value_t = Format::Text, help_heading = OUTPUT)]
    pub(crate) format: Format,
    /// Input format: `stream-json` reads one JSON object per line, to steer while the agent works
    #[arg(long, value_enum, default_value_t = InputFormat::Text, help_heading = OUTPUT)]
    pub(crate) input_format: InputFormat,
    /// With `--format stream-json`: include subagents' events; each of those lines has the field `of`
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) tree: bool,
    /// Record the model's replies to a cassette; replay it with `--model recorded/FILE`
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(crate) record: Option<PathBuf>,
    /// Print the answer and exit (the default of `run`)
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) print: bool,
    /// Print only the answer, and warnings that affect it
    #[arg(short, long, help_heading = OUTPUT)]
    pub(crate) quiet: bool,
    /// Show the output of commands as it arrives
    #[arg(short, long, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub(crate) verbose: bool,
    /// In a conversation, only append lines, for screen readers: no boxes, no spinner, nothing drawn twice
    #[arg(long, help_heading = OUTPUT)]
    pub(crate) screen_reader: bool,
    /// In a conversation, use the whole screen instead of the scrollback
    #[arg(long, conflicts_with = "screen_reader", help_heading = OUTPUT)]
    pub(crate) full: bool,
    /// Take a conversation over from the process that started this one, as JSON says (Piton's own use)
    #[arg(long, value_name = "JSON", hide = true)]
    pub(crate) take_over: Option<String>,
    /// All of this as it was typed, for a process that takes the conversation over.
    #[arg(skip)]
    pub(crate) typed: Vec<OsString>,
}

/// Flags that are settings: the topmost layer of the configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingFlags {
    /// Model to use, as provider/name (see `piton models`). `a/x,b/y` falls back to b/y if a/x gives no reply
    #[arg(short, long, value_name = "PROVIDER/NAME[,…]", help_heading = MODEL)]
    pub(crate) model: Option<String>,
    /// Agent that runs the session: its instructions, tools, rules and model (see `piton agent`). `plan` only plans
    #[arg(long, value_name = "NAME", help_heading = MODEL)]
    pub(crate) agent: Option<String>,
    /// For models without native tool calls: `use_tool` and `hermes` teach the model to call tools in plain text; `look` only
    /// detects calls that the server leaves in the text (docs/text-tools.md)
    #[arg(long, value_name = "HOW", value_parser = text_tools, help_heading = MODEL)]
    pub(crate) text_tools: Option<String>,
    /// Reasoning effort: none, minimal, low, medium, high, xhigh or max; a model uses the nearest level it has
    #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(Effort::NAMES), help_heading = MODEL)]
    pub(crate) effort: Option<String>,
    /// Maximum output tokens of one reply, including reasoning
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = MODEL)]
    pub(crate) max_output: Option<u32>,
    /// Sampling temperature, 0 to 2
    #[arg(long, value_name = "T", value_parser = temperature, help_heading = MODEL)]
    pub(crate) temperature: Option<f64>,
    #[command(flatten)]
    rules: RuleFlags,
    /// What commands can reach: `workspace-write` (read the system, change the workspace; no network), `read-only` (the same
    /// without changes) or `off` (no sandbox: your full rights). See docs/sandbox.md
    #[arg(long, value_name = "MODE", value_parser = SandboxMode::WORDS, help_heading = PERMISSIONS)]
    pub(crate) sandbox: Option<String>,
    /// Let sandboxed commands reach this host (repeatable): `example.org`, `*.example.org`, `example.org:8443`
    #[arg(long, value_name = "HOST", value_parser = open_host, help_heading = PERMISSIONS)]
    pub(crate) net: Vec<String>,
    /// Use the loop rules of another agent, or your own from a file beside your configuration (`mine.toml`): steps, retries, when a turn ends, names of
    /// tool fields. Prompt and tools stay Piton's; your own limits take precedence (see `piton presets`)
    #[arg(long, value_name = "NAME", value_parser = preset_name)]
    pub(crate) preset: Option<String>,
    /// Set any configuration key for this run (repeatable): --set limits.max_replies=40
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Ignore instruction files (AGENTS.md, PITON.md, CLAUDE.md, GEMINI.md, .claude/rules)
    #[arg(long)]
    pub(crate) no_instructions: bool,
    #[command(flatten)]
    limits: LimitFlags,
    /// Require this command to pass before the turn ends; a failure goes back to the model, up to 3 times (repeatable)
    #[arg(long, value_name = "COMMAND", help_heading = LIMITS)]
    pub(crate) check: Vec<String>,
}

/// The rules of the command line, in the order in which they stand there: among equals the later one counts.
#[derive(Debug, Clone, Default)]
struct RuleFlags(Vec<Flag>);

/// The grammar of the flags that give them. Its fields are never read: they have lost their order.
#[derive(Args)]
struct RuleGrammar {
    /// Run what this rule covers without asking (repeatable): `edit`, `bash(git status *)`, `Read(/etc/**)`, or `*` for every tool
    #[arg(long, value_name = "RULE", value_parser = rule, help_heading = PERMISSIONS)]
    allow: Vec<String>,
    /// Ask before running what this rule covers, whatever else is allowed (repeatable)
    #[arg(long, value_name = "RULE", value_parser = rule, help_heading = PERMISSIONS)]
    ask: Vec<String>,
    /// Never run what this rule covers (repeatable)
    #[arg(long, value_name = "RULE", value_parser = rule, help_heading = PERMISSIONS)]
    deny: Vec<String>,
}

impl Args for RuleFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        RuleGrammar::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        RuleGrammar::augment_args_for_update(command)
    }
}

impl FromArgMatches for RuleFlags {
    fn from_arg_matches(matches: &ArgMatches) -> clap::error::Result<Self> {
        let flags =
            [("allow", "--allow", Action::Allow), ("ask", "--ask", Action::Ask), ("deny", "--deny", Action::Deny)];
        let mut rules: Vec<(usize, Flag)> = Vec::new();
        for (id, flag, action) in flags {
            let places = matches.indices_of(id).into_iter().flatten();
            let tools = matches.get_many::<String>(id).into_iter().flatten().cloned();
            rules.extend(places.zip(tools.map(|tool| Flag::Rule { flag, tool, action })));
        }
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, flag)| flag).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> clap::error::Result<()> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The limits of the command line. Which there are, their table in the configuration says.
#[derive(Debug, Clone, Default)]
struct LimitFlags(Vec<Flag>);

impl Args for LimitFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        LimitsTable::flags().fold(command, |command, TableFlag { flag, value, about, read, .. }| {
            let name = flag.trim_start_matches('-');
            let about = about.trim().trim_end_matches('.');
            command.arg(Arg::new(name).long(name).value_name(value).help(about).help_heading(LIMITS).value_parser(read))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LimitFlags {
    fn from_arg_matches(matches: &ArgMatches) -> clap::error::Result<Self> {
        let said = LimitsTable::flags().filter_map(|TableFlag { flag, key, .. }| {
            let value = matches.get_one::<Value>(flag.trim_start_matches('-'))?.clone();
            Some(Flag::Key { flag, key, value })
        });
        Ok(Self(said.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> clap::error::Result<()> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl SettingFlags {
    /// What they set, in the order in which they win.
    pub(crate) fn layers(&self) -> Vec<Flag> {
        let key = |flag, key: &'static [&'static str], value| Flag::Key { flag, key, value };
        let number = |number: u64| Value::from(i64::try_from(number).unwrap_or(i64::MAX));
        let item = |flag, key: &'static [&'static str]| {
            move |item: &String| Flag::Item { flag, key, value: Value::from(item.as_str()) }
        };
        let mut flags: Vec<Flag> = self.set.iter().cloned().map(Flag::Set).collect();
        flags.extend(self.rules.0.iter().cloned());
        let word = |word: &String| Value::from(word.as_str());
        let keys = [
            self.model.as_ref().map(|model| key("--model", &["model"], word(model))),
            self.agent.as_ref().map(|agent| key("--agent", &["agent"], word(agent))),
            self.text_tools.as_ref().map(|how| key("--text-tools", &["answers", "text_tools"], word(how))),
            self.effort.as_ref().map(|level| key("--effort", &["answers", "effort"], word(level))),
            self.max_output.map(|most| key("--max-output", &["answers", "max_output"], number(most.into()))),
            self.temperature.map(|t| key("--temperature", &["answers", "temperature"], Value::from(t))),
            self.preset.as_deref().map(|name| key("--preset", &["preset"], Value::from(name))),
            self.sandbox.as_deref().map(|mode| key("--sandbox", &["sandbox", "mode"], Value::from(mode))),
            self.no_instructions.then(|| key("--no-instructions", &["context", "instructions"], Value::from(false))),
        ];
        flags.extend(keys.into_iter().flatten());
        flags.extend(self.limits.0.iter().cloned());
        flags.extend(self.net.iter().map(item("--net", &["sandbox", "net"])));
        flags.extend(self.check.iter().map(item("--check", &["check", "commands"])));
        flags
    }
}

fn text_tools(word: &str) -> Result<String, NotAMode> {
    word.parse::<Mode>().map(|_| word.to_owned())
}

fn mode() -> impl TypedValueParser<Value = PermissionMode> {
    PossibleValuesParser::new(PermissionMode::ALL.map(PermissionMode::name))
        .try_map(|word| word.parse::<PermissionMode>())
}

fn temperature(text: &str) -> Result<f64, String> {
    let temperature = text.parse().ok();
    match (Options { temperature, ..Options::default() }.mistake(), temperature) {
        (None, Some(temperature)) => Ok(temperature),
        _ => Err("it must be a number from 0 to 2".to_owned()),
    }
}

fn open_host(text: &str) -> Result<String, HostError> {
    HostRule::parse(text).map(|rule| rule.to_string())
}

fn rule(text: &str) -> Result<String, String> {
    read_rule(text, Action::Allow).map(|rule| rule.to_string()).map_err(|error| error.to_string())
}

fn turns(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(turns) if turns > 0 => Ok(turns),
        _ => Err("the number of turns to undo is wanted; --session names a session".to_owned()),
    }
}

fn preset_name(name: &str) -> Result<String, String> {
    let known = Some(name).filter(|name| !is_preset_file(name));
    preset(known).map(|_| name.to_owned()).map_err(|error| error.to_string())
}

/// `--set`, where nothing is run.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Set any configuration key (repeatable): --set limits.max_replies=40
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
    /// Text on standard output as it streams, one line per tool call on standard error
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
    /// One JSON object per line: prompts, answers, cancels
    StreamJson,
}

/// What `piton session follow` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FollowFormat {
    /// Text on standard output as it streams, one line per tool call on standard error
    Text,
    /// One JSON object per event, as it happens
    StreamJson,
}

/// `piton context`.
#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// A prompt, to see what its @references resolve to
    pub(crate) prompt: Option<String>,
    /// Model to count tokens for, as provider/name
    #[arg(short, long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// Look at this folder instead of the current one
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Ignore instruction files (AGENTS.md, PITON.md, CLAUDE.md, GEMINI.md, .claude/rules)
    #[arg(long)]
    pub(crate) no_instructions: bool,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    /// Show the text of each part
    #[arg(long)]
    pub(crate) full: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `piton demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Unpack the sample project here instead of in a temporary folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// `piton undo`.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Number of turns to undo
    #[arg(default_value_t = 1, value_parser = turns)]
    pub(crate) turns: u32,
    /// The session (an id or its prefix, a title, last, -2), instead of the newest in this folder
    #[arg(long, allow_hyphen_values = true, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Undo file changes only, and tell the model; the conversation stays
    #[arg(long, conflicts_with = "chat_only")]
    pub(crate) files_only: bool,
    /// Undo the conversation only; files stay as they are
    #[arg(long)]
    pub(crate) chat_only: bool,
    /// Also undo files that someone else has changed since
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `piton redo`.
#[derive(Debug, Args)]
pub(crate) struct RedoArgs {
    /// The session (an id or its prefix, a title, last, -2), instead of the newest in this folder
    #[arg(long, allow_hyphen_values = true, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also redo files that someone else has changed since
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// `piton session …`. A session is named by its id or the beginning of one, by its title or a piece of it, or by its
/// place among those of this folder: `last` or `-1`, `-2`, …
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List sessions of this folder and its subfolders, newest first
    #[command(alias = "ls")]
    List(ListArgs),
    /// Show a session's transcript
    Show {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Include complete tool output and the model's reasoning
        #[arg(long)]
        full: bool,
        /// Print every event, one JSON object per line
        #[arg(long)]
        json: bool,
        /// Show the verdict of the permission rules on each call, the questions and the answers
        #[arg(long, conflicts_with = "full")]
        audit: bool,
    },
    /// Switch a session's model, from its next turn on, even while another piton runs it
    Model {
        /// The session: an id or its prefix, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// The model, as provider/name; `a/x,b/y` falls back to b/y if a/x gives no reply
        model: String,
    },
    /// Change a session's reasoning effort, from its next step on, even while another piton runs it
    Effort {
        /// The session: an id or its prefix, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// none, minimal, low, medium, high, xhigh or max; a model uses the nearest level it has
        level: Effort,
    },
    /// Switch a session's permission mode, from its next step on, even while another piton runs it
    Mode {
        /// The session: an id or its prefix, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// ask, accept-edits, auto or plan
        #[arg(value_parser = mode())]
        mode: PermissionMode,
    },
    /// Choose a session's tools, from its next turn on, even while another piton runs it
    Tools {
        /// The session: an id or its prefix, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// Their names; '*' for all
        #[arg(required = true)]
        tools: Vec<String>,
    },
    /// Watch a session that another piton is running
    Follow {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Start at this event; 1 is the first
        #[arg(long, value_name = "SEQ", default_value_t = 1)]
        from: u64,
        /// Output format
        #[arg(long, value_enum, default_value_t = FollowFormat::Text)]
        format: FollowFormat,
        /// With `--format stream-json`: include subagents' events; each of those lines has the field `of`
        #[arg(long)]
        tree: bool,
    },
    /// Cancel a session's turn, in whichever process it runs
    Cancel {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// List the subagents that a session has called: what each does, its steps, tokens and time
    Agents {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Print one JSON object per subagent
        #[arg(long)]
        json: bool,
    },
    /// List a session's background commands
    Processes {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Let this command outlive its session
        #[arg(long, value_name = "TASK")]
        keep: Vec<String>,
        /// Undo --keep: end this command with its session
        #[arg(long, value_name = "TASK")]
        release: Vec<String>,
        /// Print one JSON object per command
        #[arg(long)]
        json: bool,
    },
    /// End background commands of a session, with everything they started
    Kill {
        /// The session: an id or its prefix, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// Ids from `piton session processes`, or `all`
        #[arg(required = true, value_name = "TASK")]
        tasks: Vec<String>,
        /// Print one JSON object per command
        #[arg(long)]
        json: bool,
    },
    /// Run your own shell command in a running session, beside its turn if there is one
    Shell {
        /// The session: an id or its prefix, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// The command, as one argument
        command: String,
        /// Hide the command and its output from the model
        #[arg(long)]
        private: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Pause a running session: it finishes the current call and starts nothing new
    Pause {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// Continue a paused session
    Continue {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// Show what is in the model's context: system prompt, tools, MCP servers, instructions, skills, agents, messages
    Context(PictureArgs),
    /// Show what the provider's cache did for each request of a session
    Cache(PictureArgs),
    /// Show a session's tokens and cost, step by step, by model, agent and tool, and what the provider's cache saved
    Cost {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Show each subagent's session as well
        #[arg(long)]
        tree: bool,
        /// Print one JSON object, or one for each session
        #[arg(long)]
        json: bool,
    },
    /// Compact a session: replace all but its newest steps by a summary, written by the model or by you
    Compact(CompactArgs),
    /// Show each step of a session: its input, model, tool calls and durations, and why it continued or stopped
    Trace(TraceArgs),
    /// Draw a session's turns as a tree, including undone ones
    Tree {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// Create a new session that continues from a point in this one
    Fork {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Fork at this turn's end (a number from `piton session tree`) instead of the last
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
    },
    /// Rename a session
    #[command(alias = "name")]
    Rename {
        /// The session: an id or its prefix, a title, last, -2
        #[arg(allow_negative_numbers = true)]
        id: String,
        /// The title; "" restores the first words of the first prompt
        title: String,
    },
    /// Export a session to one file: HTML or Markdown to read, JSON to import
    Export(ExportArgs),
    /// Import a session from a JSON export
    Import {
        /// The file; `-` is standard input
        file: PathBuf,
    },
    /// Move sessions to the trash
    #[command(aliases = ["remove", "delete"])]
    Rm {
        /// The sessions: ids or their prefixes, titles, last, -2
        #[arg(required = true, allow_negative_numbers = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Restore a session from the trash
    Restore {
        /// The session: an id or its prefix, a title
        #[arg(allow_negative_numbers = true)]
        id: String,
    },
    /// List the trash, or empty it
    Trash {
        /// Delete all of it permanently
        #[arg(long)]
        empty: bool,
        /// Print one JSON object per session
        #[arg(long, conflicts_with = "empty")]
        json: bool,
    },
    /// Move old or large sessions to the trash
    Prune(PruneArgs),
    /// Check a session's journal for gaps, edits and damage
    Verify {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
    /// Recover a damaged session into a new one; the damaged one stays as it is
    Repair {
        /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
    },
}

/// Whose sessions are meant.
#[derive(Debug, Args)]
pub(crate) struct SessionFilter {
    /// Sessions of this folder and its subfolders, instead of the current one
    #[arg(short = 'C', long, alias = "cwd", value_name = "DIR", conflicts_with = "all")]
    pub(crate) project: Option<PathBuf>,
    /// Sessions of every folder
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// `piton session list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) scope: SessionFilter,
    /// Only sessions whose title, folder or prompts contain each of these words
    #[arg(short, long, value_name = "WORDS")]
    pub(crate) search: Option<String>,
    /// Only sessions active since this date (2026-11-01) or span (7d)
    #[arg(long, value_name = "DATE")]
    pub(crate) since: Option<String>,
    /// Show at most this many
    #[arg(short = 'n', long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// Show the sessions of subagents too
    #[arg(long)]
    pub(crate) tree: bool,
    /// Print one JSON object per session
    #[arg(long)]
    pub(crate) json: bool,
}

/// `piton session compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// What the summary should focus on
    #[arg(long, value_name = "WORDS", conflicts_with = "summary")]
    pub(crate) focus: Option<String>,
    /// Edit the summary in your editor ($VISUAL or $EDITOR)
    #[arg(long)]
    pub(crate) edit: bool,
    /// Use the text of this file (`-` is standard input) instead of asking a model
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Print the current summary and change nothing
    #[arg(long, conflicts_with_all = ["focus", "edit", "summary"])]
    pub(crate) show: bool,
    /// Model to use, as provider/name, instead of the session's own
    #[arg(short, long, value_name = "PROVIDER/NAME", conflicts_with = "summary")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) set: SetArgs,
}

impl CompactArgs {
    pub(crate) fn layers(&self) -> Vec<Flag> {
        let model = self.model.as_deref();
        let model = model.map(|model| Flag::Key { flag: "--model", key: &["model"], value: Value::from(model) });
        self.set.layers().into_iter().chain(model).collect()
    }
}

/// `piton session export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// Output format; by default taken from FILE's extension, else html
    #[arg(long, value_enum)]
    pub(crate) format: Option<ExportFormat>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Do not redact keys and other secrets
    #[arg(long)]
    pub(crate) no_redact: bool,
}

/// What `piton session export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Markdown
    Md,
    /// A single self-contained page
    Html,
    /// Every event, for import
    Json,
}

/// `piton session prune`. What is said must all be true of a session.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("rule").args(["older_than", "keep", "larger_than"]).required(true).multiple(true)))]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    pub(crate) scope: SessionFilter,
    /// Sessions inactive for this long: 30d, 2w
    #[arg(long, value_name = "SPAN")]
    pub(crate) older_than: Option<String>,
    /// All but this many of the newest
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<usize>,
    /// Sessions larger than this: 200MB, 1.5G
    #[arg(long, value_name = "SIZE")]
    pub(crate) larger_than: Option<String>,
    /// Include sessions active within the last day
    #[arg(long)]
    pub(crate) recent: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `piton permission …`.
#[derive(Debug, Subcommand)]
pub(crate) enum PermissionCommand {
    /// List the rules in effect in this folder, and what you allowed for the rest of a session
    List {
        /// The session: an id or its prefix, a title, last, -2; without one, the newest of this folder
        #[arg(allow_negative_numbers = true)]
        id: Option<String>,
        /// Print one JSON object per rule
        #[arg(long)]
        json: bool,
    },
    /// Show how the rules in effect here judge a command, part by part; nothing runs
    Check {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        /// Permission mode: ask, accept-edits, auto or plan; by default the one in which a session on a terminal starts here
        #[arg(long, value_name = "MODE")]
        mode: Option<PermissionMode>,
        #[command(flatten)]
        settings: Box<SettingFlags>,
        /// The command: one quoted argument, as for `sh -c`, or several
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Revoke what you allowed for the rest of a session (everything if you name no rule), even in a running one
    Revoke {
        /// Tools or rules from `piton permission list`
        #[arg(value_name = "RULE")]
        tools: Vec<String>,
        /// The session: an id or its prefix, a title, last, -2; without one, the newest of this folder
        #[arg(long, allow_hyphen_values = true, value_name = "ID")]
        session: Option<String>,
    },
}

/// `piton auth …`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Store a key, typed without echo or piped in, in the keyring or a file that only you can read
    Login {
        /// The provider, such as anthropic
        provider: String,
        /// Use the file even if there is a keyring
        #[arg(long)]
        file: bool,
        /// Store the key without asking the provider whether it accepts it
        #[arg(long)]
        unchecked: bool,
    },
    /// List the providers with a key, and where it comes from; keys are not shown
    List,
    /// Delete a stored key
    Logout {
        /// The provider
        provider: String,
    },
}

/// `piton session trace`.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// Show only this step
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u32>,
    /// Show the steps of its subagents as well
    #[arg(long, conflicts_with_all = ["step", "otlp"])]
    pub(crate) tree: bool,
    /// Draw each turn as lanes of time: model, tools, waits, subagents
    #[arg(long, conflicts_with_all = ["step", "tree", "json", "otlp"])]
    pub(crate) lanes: bool,
    /// With --lanes: only numbers, nothing drawn
    #[arg(long, requires = "lanes")]
    pub(crate) plain: bool,
    /// Print one JSON object per step
    #[arg(long)]
    pub(crate) json: bool,
    /// Send all turns as OpenTelemetry spans to this collector (OTLP JSON over HTTP); `-` is standard output
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
}

/// `piton session context` and `piton session cache`.
#[derive(Debug, Args)]
pub(crate) struct PictureArgs {
    /// The session: an id or its prefix, a title, last, -2. Without one, choose from a list
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// Print only the table, nothing drawn
    #[arg(long)]
    pub(crate) plain: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "plain")]
    pub(crate) json: bool,
}

/// `piton models`.
#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// Update context windows and prices from this file or URL (in the format of models.jsonl) and store them
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) refresh: Option<String>,
    /// Also list the models of providers that you have no key for, from the catalogue
    #[arg(long)]
    pub(crate) all: bool,
    /// Print one JSON object per model
    #[arg(long)]
    pub(crate) json: bool,
}

/// `piton agent` and `piton command`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EntryArgs {
    #[command(subcommand)]
    pub(crate) command: Option<EntryCommand>,
    /// Show this one in full
    pub(crate) name: Option<String>,
    /// Print one JSON object per entry
    #[arg(long)]
    pub(crate) json: bool,
}

/// `piton agent list`.
#[derive(Debug, Subcommand)]
pub(crate) enum EntryCommand {
    /// List them and where each comes from
    List {
        /// Show those too that another of their name comes before
        #[arg(long)]
        all: bool,
        /// Print one JSON object per entry
        #[arg(long)]
        json: bool,
    },
}

impl EntryArgs {
    /// Whether those are shown too that another comes before.
    pub(crate) fn shows_all(&self) -> bool {
        self.name.is_some() || matches!(self.command, Some(EntryCommand::List { all: true, .. }))
    }

    /// Whether it is for a program.
    pub(crate) fn is_json(&self) -> bool {
        self.json || matches!(self.command, Some(EntryCommand::List { json: true, .. }))
    }
}

/// `piton plugin …`.
#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Show what a plugin brings along, copy it, and use it from now on
    ///
    /// The source is a folder or the URL of a git repository, which is cloned: without submodules, and none of its hooks run.
    /// What is copied is pinned to a hash of all its files.
    Add {
        /// A folder, or a URL; `URL#REF` is a branch, a tag or a commit
        source: String,
        /// Where the source is a marketplace: one of its plugins
        name: Option<String>,
        /// Add it without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// List the plugins: those you added, and those that settings of Claude Code enable here
    List {
        /// Print one JSON object per entry
        #[arg(long)]
        json: bool,
    },
    /// Show a plugin: what it runs by itself, and every file with its hash
    Show {
        /// Its name
        name: String,
    },
    /// Use a plugin that you switched off
    Enable {
        /// Its name
        name: String,
    },
    /// Do not use a plugin, and keep it
    Disable {
        /// Its name
        name: String,
    },
    /// Fetch a plugin anew, show what has changed, and ask
    Update {
        /// Its name
        name: String,
        /// Update it without asking
        #[arg(short, long)]
        yes: bool,
    },
    /// Remove a plugin; what it keeps in its data folder stays
    Remove {
        /// Its name
        name: String,
    },
    /// Check a plugin, or a marketplace with all its plugins
    Validate {
        /// Its folder
        path: PathBuf,
    },
}

/// `piton skill`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SkillArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SkillCommand>,
    /// Show this skill in full
    pub(crate) name: Option<String>,
    /// Print one JSON object per skill
    #[arg(long)]
    pub(crate) json: bool,
}

/// `piton skill …`.
#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List the skills and where each comes from
    List {
        /// Include skills that are shadowed by another of the same name
        #[arg(long)]
        all: bool,
        /// Print one JSON object per skill
        #[arg(long)]
        json: bool,
    },
    /// Validate a skill against the rules of agentskills.io
    Validate {
        /// The skill's folder or its SKILL.md
        path: PathBuf,
    },
}

/// `piton mcp …`.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// List the servers, where each comes from, and whether it is used
    List {
        /// Also list those that another server of the same name comes before
        #[arg(long)]
        all: bool,
        /// Print one JSON object per server
        #[arg(long)]
        json: bool,
    },
    /// Show a server: its tools as they were when it ran last, what has changed since you accepted them, prompts, resources
    Show {
        /// The server
        name: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Add a server to your mcp.json: `piton mcp add NAME COMMAND ARGS…`, an address, or an entry as JSON
    Add(McpAddArgs),
    /// Remove a server from your mcp.json
    Remove {
        /// The server
        name: String,
    },
    /// Re-enable a server
    Enable {
        /// The server
        name: String,
    },
    /// Disable a server, wherever it is configured
    Disable {
        /// The server
        name: String,
    },
    /// Start a server (or reach it), list what it offers, and stop it; or call one of its tools
    Test {
        /// The server
        name: String,
        /// Call this tool with these arguments, a JSON object
        #[arg(long, num_args = 1..=2, value_names = ["TOOL", "JSON"])]
        call: Vec<String>,
        /// Accept every form that the server asks you to fill in while the tool runs, with these values, a JSON object
        #[arg(long, value_name = "JSON", requires = "call")]
        answer: Option<String>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Accept the tools of a server as they are now; `piton mcp show` shows what has changed
    Accept {
        /// The server
        name: String,
    },
    /// Log in to a server by OAuth: opens $BROWSER with the address, or prints it
    Login {
        /// The server
        name: String,
    },
    /// Forget the tokens for a server
    Logout {
        /// The server
        name: String,
    },
    /// Copy the servers of Cursor, VS Code, Windsurf, Claude Desktop and Codex to your mcp.json
    Import {
        /// Only from these files
        files: Vec<PathBuf>,
        /// Add them without asking
        #[arg(short, long)]
        yes: bool,
    },
}

/// `piton mcp add`.
#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// What it is called: letters, digits, - and _
    pub(crate) name: String,
    /// A command with its arguments, an address, or an entry as JSON
    #[arg(required = true, num_args = 1.., trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND|URL|JSON")]
    pub(crate) target: Vec<String>,
    /// A variable for its process. May be repeated
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header for every request. May be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Transport; detected if omitted
    #[arg(short, long, value_parser = ["stdio", "http", "sse"])]
    pub(crate) transport: Option<String>,
    /// Replace a server of this name
    #[arg(long)]
    pub(crate) replace: bool,
}

/// `piton config …`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print every setting in effect in this folder, as TOML
    Show {
        /// Also show where each comes from: a file, a variable, a flag or the defaults
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        settings: Box<SettingFlags>,
    },
    /// Print the paths of the configuration files
    Path,
    /// Check the configuration and report the first mistake
    Check {
        /// Check this file instead of the whole configuration
        file: Option<PathBuf>,
        #[command(flatten)]
        settings: Box<SettingFlags>,
    },
    /// Open your configuration in $VISUAL or $EDITOR, then check it
    Edit,
    /// Change one setting in your configuration; the other lines stay as they are
    Set {
        /// The key, such as limits.max_steps
        key: String,
        /// Its value
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// The same as `piton trust`
    Trust(TrustArgs),
    /// The same as `piton trust --revoke`
    Untrust,
    /// Print the JSON Schema of the configuration
    Schema,
}
