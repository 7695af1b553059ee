//! The configuration: what is said in it, read strictly, and what it changes. [`layers`] is where it comes from,
//! [`trust`] whether what a repository says counts, [`mistake`] what is said of one that makes no sense.

pub mod edit;
pub mod layers;
pub mod mistake;
pub mod trust;

mod check;
mod defaults;
mod table;

pub use mistake::{ConfigError, FORMAT, NoPreset};
use mistake::{KeyPath, Mistake, Section};

pub use self::table::TableFlag;

use self::table::{
    Dollars, HeadTail, Keep, Limit, LineBytes, Lines, LongestWait, Plain, Range, Reserve, Seconds, Way, ZeroForNone,
    flag_of, most_of, said_of, table,
};
use crate::hooks::HookTable;
use crate::permission::read_rule;
use crate::settings::Patches;
use piton_core::compact;
use piton_core::permission::{Action, PermissionMode, Rules};
use piton_core::policy::{
    CallsTaken, DenialsCounted, LastStep, OnEmpty, OnLength, OnUnknown, Policy, SandboxMode, StepsCounted, ToolFields,
    ToolsBy, Wording,
};
use piton_core::preset::PRESETS;
use piton_core::progress::{Compare, Stuck};
use piton_core::reference::Style;
use piton_core::retry::{BackoffBy, BeyondCap, Jitter, RetryOn, RetryPolicy};
use piton_http::egress::{HostError, HostRule};
use piton_models::catalogue::{Catalogue, ModelOverride, Rates};
use piton_models::effort::{Effort, EffortWord};
use piton_models::options::Options;
use piton_models::protocol::WireProtocol;
use piton_models::provider;
use piton_models::text_tools;
use piton_sandbox::Backend;
use piton_tools::after_edit::{AfterEdit, Does};
use piton_tools::tool::ToolLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the file says. Everything is optional; what is not said is left as it is.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The format of the file, 1. Only needed once there are others.
    #[schemars(range(min = 1, max = 1))]
    pub version: Option<u32>,
    /// The model to ask, as `provider/name`.
    pub model: Option<String>,
    /// The agent that sessions are run by, by its name; `build` if nothing is said. `piton agent` lists them.
    pub agent: Option<String>,
    /// The preset whose rules the rest of this changes: the name of one, or a file beside your configuration (`mine.toml`)
    /// that changes one.
    #[schemars(extend("anyOf" = [json!({"enum": PRESETS.map(|preset| preset.name)}), json!({"pattern": "\\.toml$"})]))]
    pub preset: Option<String>,
    /// Limits of one turn.
    #[serde(default)]
    pub limits: LimitsTable,
    /// Decisions of the loop.
    #[serde(default, rename = "loop")]
    pub forks: Forks,
    /// Retries of failed model calls.
    #[serde(default)]
    pub retry: Retry,
    /// HTTP connections to providers.
    #[serde(default)]
    pub http: HttpTable,
    /// Providers, known ones and servers of one's own, by the name that stands before the slash of `model`.
    #[serde(default)]
    pub providers: BTreeMap<String, ProviderTable>,
    /// How tool calls in a model's text are read, by `provider` or `provider/name`; the whole name wins.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, TextTools>")]
    pub text_tools: BTreeMap<String, text_tools::Mode>,
    /// Options for the replies of every model.
    #[serde(default)]
    pub options: Options,
    /// Options for the replies of a session's own models, whatever is said of them elsewhere. Models that write titles and
    /// summaries keep theirs. The flags `--effort`, `--temperature`, `--max-output` and `--text-tools` set these.
    #[serde(default)]
    pub answers: AnswersTable,
    /// Options for the replies of one model, and facts about it, by its name as `provider/name`.
    #[serde(default)]
    pub models: BTreeMap<String, ModelTable>,
    /// Other names of models, such as `sonnet`, and what each stands for. Agents and skills that were written for Claude Code
    /// name families; without an entry, the newest model of the family is asked.
    #[serde(default)]
    pub model_aliases: BTreeMap<String, String>,
    /// Environment variables with keys that tools may still see.
    #[serde(default)]
    pub keys_for_tools: Vec<String>,
    /// When and how the context is compacted.
    #[serde(default)]
    pub compaction: CompactionTable,
    /// Where OpenTelemetry spans are sent.
    #[serde(default)]
    pub otel: OtelTable,
    /// The model that names sessions.
    #[serde(default)]
    pub titles: TitlesTable,
    /// Commands that run at points of the loop, by event: the shape of Claude Code's `hooks`.
    #[serde(default)]
    pub hooks: HookTable,
    /// What is adopted from Claude Code.
    #[serde(default)]
    pub claude: ClaudeTable,
    /// What is adopted from OpenCode.
    #[serde(default)]
    pub opencode: OpenCodeTable,
    /// Checks that must pass before a turn ends.
    #[serde(default)]
    pub check: ChecksTable,
    /// What the model reads besides the conversation.
    #[serde(default)]
    pub context: ContextTable,
    /// Limits of the tools.
    #[serde(default)]
    pub tools: ToolsTable,
    /// Snapshots of the workspace.
    #[serde(default)]
    pub undo: UndoTable,
    /// The conversation in a terminal. Not for a repository to say.
    #[serde(default)]
    pub terminal: TerminalTable,
    /// What the commands of the model can reach. Not for a repository to say.
    #[serde(default)]
    pub sandbox: SandboxTable,
    /// What becomes of calls that the rules would ask about; `ask` if nothing is said. Not for a repository to say. The flags
    /// `--mode` and `--yes`, and what a client has switched a session to, win over it.
    #[schemars(with = "Option<String>", extend("enum" = PermissionMode::ALL.map(PermissionMode::name)))]
    pub permission_mode: Option<PermissionMode>,
    /// Whether a tool may run: `bash = "allow"`. `*` is every tool.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, ActionWord>")]
    pub permission: BTreeMap<String, Action>,
    /// The rules of all layers, where there are several: one layer's do not take the place of another's.
    #[serde(skip)]
    pub rules: Option<Rules>,
}

/// The `[sandbox]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "Sandbox")]
#[serde(deny_unknown_fields)]
pub struct SandboxTable {
    /// `workspace-write`, `read-only` or `off`.
    #[schemars(with = "Option<String>", extend("enum" = SandboxMode::WORDS))]
    pub mode: Option<SandboxMode>,
    /// What holds commands to it: `namespaces`, `landlock` (weaker), or `auto`, the strongest that can be had.
    #[schemars(with = "Option<String>", extend("enum" = BackendChoice::WORDS))]
    pub backend: Option<BackendChoice>,
    /// Folders outside of the workspace that commands may read, too.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Hosts that commands reach: `example.org`, `*.example.org`, `example.org:8443`. Without a port: 80 and 443.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub net: Vec<OpenHost>,
    /// Processes and threads of a command at once; 512 if nothing is said.
    #[schemars(range(min = 16))]
    pub processes: Option<u64>,
    /// Megabytes of address space of one process; no limit if nothing is said.
    #[schemars(range(min = 64))]
    pub memory_mb: Option<u64>,
    /// Megabytes of one file that a command writes; no limit if nothing is said.
    #[schemars(range(min = 1))]
    pub file_mb: Option<u64>,
}

/// A host that is open, as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct OpenHost(pub HostRule);

impl TryFrom<String> for OpenHost {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        HostRule::parse(&text).map(Self)
    }
}

/// Which backend of the sandbox is wanted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum BackendChoice {
    /// The strongest that can be had here.
    #[default]
    Auto,
    /// This one or none.
    Only(Backend),
    /// `bwrap`, which is refused with its reason where a sandbox is made.
    Bubblewrap,
}

impl<'de> Deserialize<'de> for BackendChoice {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Self::of_word(&word).ok_or_else(|| {
            let expected = Self::WORDS.map(|word| format!("\"{word}\"")).join(", ");
            serde::de::Error::custom(format!("\"{word}\" is no backend of the sandbox: expected one of {expected}"))
        })
    }
}

impl BackendChoice {
    /// Their words, as in flags and files.
    pub const WORDS: [&str; 3] = ["auto", "namespaces", "landlock"];

    /// What a word means.
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "auto" => Some(Self::Auto),
            "bwrap" => Some(Self::Bubblewrap),
            word => Backend::ALL.into_iter().find(|backend| backend.word() == word).map(Self::Only),
        }
    }

    /// Those to be tried, the strongest first.
    pub fn candidates(self) -> Vec<Backend> {
        match self {
            Self::Auto => Backend::ALL.to_vec(),
            Self::Only(backend) => vec![backend],
            Self::Bubblewrap => Vec::new(),
        }
    }
}

/// [`Action`] as it stands in the file, for the schema.
#[derive(JsonSchema)]
#[schemars(rename = "Action", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is wanted; piton-core knows nothing of schemas")]
enum ActionWord {
    /// Run it without asking.
    Allow,
    /// Ask a person each time; without one, refuse.
    Ask,
    /// Never run it.
    Deny,
}

/// [`RetryOn`] as it stands in the file, for the schema.
#[derive(JsonSchema)]
#[schemars(rename = "RetryOn", rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is wanted; piton-core knows nothing of schemas")]
enum RetryOnWords {
    /// Every one that may pass.
    Any,
    /// Those with one of these HTTP statuses.
    Statuses(Vec<u16>),
    /// Those of one of these kinds, as `model_failed` names them.
    Kinds(Vec<String>),
}

/// A way to call tools in text, for the schema.
#[derive(JsonSchema)]
#[schemars(transparent, extend("pattern" = text_tools::Mode::pattern()))]
#[expect(dead_code, reason = "only its schema is wanted")]
struct TextTools(String);

table! {
    /// The `[limits]` table.
    pub struct LimitsTable = "limits" sets |policy: Policy| {
        /// Stop after this many model replies; the last one is a summary without tool calls.
        max_steps: u32 >= 1 as "--max-steps" "N" = Limit(policy.steps.max),
        /// Token budget, input plus output; Piton makes no model call that could exceed it.
        max_tokens: u64 >= 1 as "--max-tokens" "N" = Limit(policy.budget.tokens),
        /// Budget in US dollars; Piton makes no model call that could exceed it (needs a model with a known price).
        max_cost: f64 >= 0.000001 <= 1e9 "US dollars" as "--max-cost" "USD" = Dollars(policy.budget.cost_micros),
        /// Budget of the whole session in US dollars, over all turns, including earlier runs.
        max_session_cost: f64 >= 0.000001 <= 1e9 "US dollars" as "--max-session-cost" "USD" = Dollars(policy.budget.session_cost_micros),
        /// Stop after working on the turn for this many seconds; time between a crash and a resume does not count.
        max_time: u64 >= 1 <= 31_536_000 "seconds" as "--max-time" "SECONDS" = Seconds(policy.budget.wall_clock_ms),
        /// Model replies of any kind, where `max_steps` does not count them all.
        max_replies: u32 >= 1 = Limit(policy.steps.max_replies),
        /// Tool calls in one reply that are run.
        max_calls: usize >= 1 = Plain(policy.calls.max_per_step),
        /// Refused calls in a row that end the turn; 0: refusals never end it.
        max_denials: u32 = ZeroForNone(policy.calls.max_denials),
        /// Identical calls in a row that count as no progress; 0: the check is off.
        max_repeats: u32 = Plain(policy.stuck.repeats),
        /// Compactions in one turn; 0: none.
        max_compactions: u32 = Plain(policy.compaction.max),
        /// Turns of one session.
        max_turns: u32 >= 1 = Limit(policy.steps.max_turns),
        /// Characters of one tool's output that the model reads: head and tail. The rest stays in a file.
        tool_output: usize >= 100 <= 10_000_000 "characters" = HeadTail(policy.calls.output_cut),
        /// Lines of it instead, whole ones from its beginning, as many as fit into `tool_output_bytes`.
        tool_output_lines: usize >= 1 <= 1_000_000 "lines" = Lines(policy.calls.output_cut),
        /// Bytes of these lines.
        tool_output_bytes: usize >= 100 <= 10_000_000 "bytes" = LineBytes(policy.calls.output_cut),
    }
}

/// The `[tools]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolsTable {
    /// Seconds that a shell command gets when the model names none.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub bash_timeout: Option<f64>,
    /// The most seconds that the model may give one.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub bash_timeout_cap: Option<f64>,
    /// Commands that run in the background at a time.
    #[schemars(extend("minimum" = 0, "maximum" = 1000))]
    pub background_max: Option<u16>,
    /// The most seconds that a command in the background runs.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub background_timeout: Option<f64>,
    /// Seconds that a command in the background goes on where no Piton has its session open, after a crash.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub background_unattended: Option<f64>,
    /// Which models change files with `apply_patch` in the place of `edit` and `write`: `by_model` (those trained on its
    /// format: GPT-5 and later, Codex), `always` or `never`.
    pub apply_patch: Option<Patches>,
    /// Where `web_search` searches. Without it there is no such tool.
    pub web_search: Option<WebSearchTable>,
    /// Shell commands that format a file when a tool has changed it, by patterns of files: `"*.rs" = "rustfmt {file}"`.
    #[serde(default)]
    pub format: BTreeMap<String, String>,
    /// Shell commands whose output the model reads when a tool has changed a file: `"*.py" = "ruff check {file}"`.
    #[serde(default)]
    pub diagnose: BTreeMap<String, String>,
}

/// The `[tools.web_search]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebSearchTable {
    /// The address that is asked, which answers with JSON: `{query}` stands for the words, `{key}` for the key.
    pub url: String,
    /// Headers of the request, in which `{key}` stands for the key.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The environment variable that holds the key.
    pub key_variable: Option<String>,
    /// Whether it may have an address of your own network. An address that names this machine or an IP always may.
    pub private: Option<bool>,
}

impl WebSearchTable {
    /// Whether a key is sent somewhere.
    pub(crate) fn uses_key(&self) -> bool {
        std::iter::once(&self.url).chain(self.headers.values()).any(|text| text.contains("{key}"))
    }
}

/// The `[terminal]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "Terminal")]
#[serde(deny_unknown_fields)]
pub struct TerminalTable {
    /// Whether the terminal's title says what goes on; it does if nothing is said.
    pub title: Option<bool>,
    /// Whether terminals that can show it are told that work goes on (OSC 9;4); they are if nothing is said.
    pub progress: Option<bool>,
    /// How you are told of an end or a question while the terminal has not the focus: `auto` (in its own notices where it is
    /// known to have some, else by its bell), `bell` or `off`.
    pub notify: Option<NoticeWord>,
    /// Seconds of work after which you are told; 10 if nothing is said.
    #[schemars(range(min = 0, max = 86_400))]
    pub notify_after: Option<f64>,
    /// A command for `sh` that prints the status line. It reads the JSON of Claude Code's status lines.
    pub status: Option<String>,
    /// Whether lines are only ever appended, without boxes and without anything that is drawn again.
    pub screen_reader: Option<bool>,
    /// Whether nothing moves by itself.
    pub reduced_motion: Option<bool>,
    /// Whether the whole screen is used, in place of the scrollback.
    pub full: Option<bool>,
    /// The colors: `auto`, a theme of Piton's, or the name of a file in the folder `themes` beside this one. If nothing is
    /// said, those of `theme.toml` beside this file, or else `auto`.
    pub theme: Option<String>,
}

/// How somebody is told who looks elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Notice")]
#[serde(rename_all = "snake_case")]
pub enum NoticeWord {
    /// As the terminal can.
    Auto,
    /// By its bell.
    Bell,
    /// Not at all.
    Off,
}

impl TerminalTable {
    /// That of a configuration file alone, also where the rest of it makes no sense: that is said by whoever reads all of it.
    pub fn of_file(text: &str) -> Self {
        let file = text.parse::<toml::Table>().unwrap_or_default();
        file.get("terminal").and_then(|table| table.clone().try_into().ok()).unwrap_or_default()
    }
}

/// The `[undo]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoTable {
    /// Whether a snapshot of the workspace is taken before what may change it; it is if nothing is said.
    pub snapshots: Option<bool>,
    /// Megabytes of files that a snapshot covers; the largest files are left out first.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_size: Option<u64>,
}

impl UndoTable {
    /// The limit in bytes, if one is set.
    pub(crate) fn max_bytes(&self) -> Option<u64> {
        self.max_size.map(|megabytes| megabytes.saturating_mul(1_000_000))
    }
}

table! {
    /// The `[loop]` table.
    pub struct Forks = "loop" sets |policy: Policy| {
        /// Which replies count as steps: `all` or `without_calls`.
        #[schemars(with = "Option<String>", extend("enum" = ["all", "without_calls"]))]
        steps_counted: StepsCounted = Plain(policy.steps.counted),
        /// Which calls of a reply are run: `all` or `first`.
        #[schemars(with = "Option<String>", extend("enum" = ["all", "first"]))]
        calls_taken: CallsTaken = Plain(policy.calls.taken),
        /// Which refusals count: `all` or `questions`.
        #[schemars(with = "Option<String>", extend("enum" = ["all", "questions"]))]
        denials_counted: DenialsCounted = Plain(policy.calls.denials_counted),
        /// What follows a reply cut at the output limit: `go_on`, `end`, or `compact` (compact if the window is full, else go on).
        #[schemars(with = "Option<String>", extend("enum" = ["go_on", "end", "compact"]))]
        on_length: OnLength = Plain(policy.replies.on_length),
        /// What follows a reply that ended for an unknown reason: `go_on` or `end`.
        #[schemars(with = "Option<String>", extend("enum" = ["go_on", "end"]))]
        on_unknown: OnUnknown = Plain(policy.replies.on_unknown),
        /// What follows an empty reply: `ask_again` or `accept`.
        #[schemars(with = "Option<String>", extend("enum" = ["ask_again", "accept"]))]
        on_empty: OnEmpty = Plain(policy.replies.on_empty),
        /// What follows repeated calls without progress: `ask` or `end`.
        #[schemars(with = "Option<String>", extend("enum" = ["ask", "end"]))]
        on_repeats: Stuck = Plain(policy.stuck.then),
        /// What makes calls identical: the same `input`, or the same `input_and_result`.
        #[schemars(with = "Option<String>", extend("enum" = ["input", "input_and_result"]))]
        repeats_compared: Compare = Plain(policy.stuck.compare),
        /// The last allowed step: `wrap_up` (no tools, and the model is told so) or `plain`.
        #[schemars(with = "Option<String>", extend("enum" = ["wrap_up", "plain"]))]
        last_step: LastStep = Plain(policy.steps.last),
        /// How tools are offered: as the `model` takes them, or in `text`.
        #[schemars(with = "Option<String>", extend("enum" = ["model", "text"]))]
        tools_by: ToolsBy = Plain(policy.calls.tools_by),
        /// Whose names the fields of tools have: `piton` (`path`, `old_string`) or `opencode` (`filePath`, `oldString`).
        #[schemars(with = "Option<String>", extend("enum" = ["piton", "opencode"]))]
        tool_fields: ToolFields = Plain(policy.calls.tool_fields),
        /// Whether the context is compacted when the provider says that it does not fit; otherwise that ends the turn.
        compact_on_error: bool = Plain(policy.compaction.on_error),
        /// Whose grammar and layout `@` references have: `piton` or `neovate`.
        #[schemars(with = "Option<String>", extend("enum" = ["piton", "neovate"]))]
        references: Style = Plain(policy.references.style),
        /// Whose sentences tell how a turn ended: `piton`, `neovate` or `pulse`.
        #[schemars(with = "Option<String>", extend("enum" = ["piton", "neovate", "pulse"]))]
        words: Wording = Plain(policy.replies.words),
    }
}

table! {
    /// The `[retry]` table.
    pub struct Retry = "retry" sets |retry: RetryPolicy| {
        /// Retries of one model call; 0 for none.
        times: u32 = Limit(retry.per_call),
        /// Seconds before the first retry; each further wait is twice as long.
        #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
        first_wait: f64 = Seconds(retry.first_ms),
        /// Seconds; no wait is longer, unless the provider asks for it.
        #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
        longest_wait: f64 = LongestWait(*retry),
        /// Failed model calls that end the turn, whichever step they belong to; 0: only `times` counts.
        max_failures: u32 = ZeroForNone(retry.per_turn),
        /// What makes waits longer: the failures of the same `call`, or of the `turn`.
        #[schemars(with = "Option<String>", extend("enum" = ["call", "turn"]))]
        backoff_by: BackoffBy = Plain(retry.backoff_by),
        /// Which failures are tried again: `any` that may pass, those with one of these `statuses`, or of one of these `kinds`.
        #[schemars(with = "Option<RetryOnWords>")]
        on: RetryOn = Plain(retry.on),
        /// How waits are spread: `full` (a tenth of the wait up to all of it) or `none`.
        #[schemars(with = "Option<String>", extend("enum" = ["full", "none"]))]
        jitter: Jitter = Plain(retry.jitter),
        /// Seconds; the longest wait that a provider may ask for (`retry-after`).
        #[schemars(range(min = 0, max = 31_536_000))]
        longest_asked_wait: f64 = Seconds(retry.provider_cap_ms),
        /// What happens when it asks for more: `give_up`, `wait_cap` (the longest it may) or `own_wait`.
        #[schemars(with = "Option<String>", extend("enum" = ["give_up", "wait_cap", "own_wait"]))]
        beyond_cap: BeyondCap = Plain(retry.beyond_cap),
    }
}

/// The `[http]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTable {
    /// Connection timeout, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub connect_timeout: Option<f64>,
    /// Seconds without data from a provider before the call is retried.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub stall_timeout: Option<f64>,
    /// Seconds of nothing but keep-alives before the call is retried.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub keep_alive_timeout: Option<f64>,
    /// The proxy for all requests, as a URL, instead of those that the environment names. Empty: none.
    pub proxy: Option<String>,
    /// Hosts that bypass the proxy, separated by commas.
    pub no_proxy: Option<String>,
    /// A file of certificates (PEM) to trust besides those of the machine.
    pub ca_file: Option<String>,
}

table! {
    /// The `[compaction]` table.
    pub struct CompactionTable = "compaction" sets |rules: compact::Compaction| {
        /// Whether the context is compacted automatically when it is full.
        auto: bool = Plain(rules.auto),
        /// Tokens of the window that are kept free.
        #[schemars(range(max = 10_000_000))]
        reserve: u64 = Reserve(*rules),
        /// Tokens of the newest steps that stay word for word.
        #[schemars(range(max = 10_000_000))]
        keep: u64 = Keep(rules.keep),
        /// Whether old tool outputs are cleared first.
        prune: bool = Plain(rules.prune.on),
        /// Who writes the summary, as `provider/name`. Without one, the session's own model.
        model: String,
    }
}

/// The `[claude]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClaudeTable {
    /// Whether the hooks of its settings run too: of `~/.claude/settings.json`, and of the repository's
    /// `.claude/settings.json` where it is trusted.
    #[serde(default)]
    pub hooks: bool,
    /// Whether the permission rules of its settings hold: of the repository's those that forbid or ask, trusted or not; of
    /// `~/.claude/settings.json` those, too, and with `true` those that allow. With `false` none does.
    pub permissions: Option<bool>,
    /// Whether the agents in its folders are read. They are where nothing is said, and so with what follows.
    pub agents: Option<bool>,
    /// Whether its skills are.
    pub skills: Option<bool>,
    /// Whether its commands are.
    pub commands: Option<bool>,
    /// Whether the plugins count that its settings enable and that lie in a folder here.
    pub plugins: Option<bool>,
    /// Whether the MCP servers of its files are: of `.mcp.json` and `~/.claude.json`.
    pub mcp: Option<bool>,
}

/// The `[opencode]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[schemars(rename = "OpenCode")]
#[serde(deny_unknown_fields)]
pub struct OpenCodeTable {
    /// Whether the agents in its folders and in `opencode.json` are read. They are where nothing is said, and so with what follows.
    pub agents: Option<bool>,
    /// Whether its skills are.
    pub skills: Option<bool>,
    /// Whether its commands are, those in `opencode.json` too.
    pub commands: Option<bool>,
    /// Whether the `permission` block of its configuration holds: of the user's all that can be translated, of the repository's what
    /// forbids or asks. It does not where nothing is said.
    pub permissions: Option<bool>,
    /// Whether the MCP servers in `opencode.json` are.
    pub mcp: Option<bool>,
}

/// The `[check]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChecksTable {
    /// Commands for `sh`, each of which must pass.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Seconds that each may take; 600 where nothing is said.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 31_536_000))]
    pub timeout: Option<f64>,
    /// How often each sends the model back to work in one turn; 3 where nothing is said.
    pub rounds: Option<usize>,
}

/// The `[otel]` table. OpenTelemetry's own variables win over it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtelTable {
    /// The address of a collector that takes OTLP as JSON over HTTP; `/v1/traces` is added.
    pub endpoint: Option<String>,
    /// Headers of every request to it.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

impl OtelTable {
    /// Where spans are sent, by the standard's own variables or else by this table; `None`: nowhere.
    pub fn collector(&self, var: impl Fn(&str) -> Option<String>) -> Option<String> {
        if var("OTEL_SDK_DISABLED").is_some_and(|said| said.eq_ignore_ascii_case("true")) {
            return None;
        }
        var("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
            let base = var("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| self.endpoint.clone())?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        })
    }
}

/// The `[titles]` table.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TitlesTable {
    /// The small model that names a session after its first turn, as `provider/name`. Without one, no model is asked.
    pub model: Option<String>,
}

table! {
    /// The `[context]` table.
    #[schemars(rename = "Context")]
    pub struct ContextTable = "context" sets |policy: Policy| {
        /// Whether instruction files (AGENTS.md, PITON.md, CLAUDE.md, GEMINI.md, .claude/rules) are read; they are if nothing is said.
        instructions: bool,
        /// The largest file that an `@` reference shows, in bytes.
        #[schemars(range(min = 1, max = 1_073_741_824))]
        reference_bytes: u64 = Plain(policy.references.sizes.file_bytes),
        /// Lines of a file that an `@` reference shows.
        reference_lines: usize >= 1 = Plain(policy.references.sizes.lines),
        /// Characters of a line that an `@` reference shows.
        reference_line_chars: usize >= 1 = Plain(policy.references.sizes.line_chars),
    }
}

/// The `[answers]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Answers")]
pub struct AnswersTable {
    /// Sampling temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// The most tokens of one answer, reasoning included.
    pub max_output: Option<u32>,
    /// Reasoning effort.
    #[schemars(with = "Option<EffortWord>")]
    pub effort: Option<Effort>,
    /// How tool calls in the text are read.
    #[schemars(with = "Option<TextTools>")]
    pub text_tools: Option<text_tools::Mode>,
}

impl AnswersTable {
    /// What is set of the replies.
    pub fn options(&self) -> Options {
        let &Self { temperature, max_output, effort, text_tools: _ } = self;
        Options { temperature, max_output, effort, ..Options::default() }
    }
}

/// A `[models."provider/name"]` table: options for its answers, and what is known of it where the catalogue is wrong or
/// does not know it.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Model")]
pub struct ModelTable {
    /// Sampling temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// The most tokens of one answer, reasoning included.
    pub max_output: Option<u32>,
    /// Reasoning effort.
    #[schemars(with = "Option<EffortWord>")]
    pub effort: Option<Effort>,
    /// The same in tokens, where a provider counts them.
    pub thinking_budget: Option<u32>,
    /// Members of the request body that Piton does not know: merged into it last, and deep.
    #[serde(default)]
    pub extra_body: Map<String, Value>,
    /// Headers of every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Its window: the most tokens of prompt and answer together.
    #[schemars(range(min = 1))]
    pub window: Option<u64>,
    /// What it costs, in US dollars per million tokens.
    pub price: Option<PriceTable>,
    /// Whether it looks at pictures.
    pub images: Option<bool>,
    /// Whether it calls tools.
    pub tools: Option<bool>,
}

/// What a model costs, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// What it reads.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// What it writes.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// What it reads from the provider's cache; as much as `input` where nothing is said.
    #[schemars(range(min = 0))]
    pub cache_read: Option<f64>,
    /// What is written there; as much as `input` where nothing is said.
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
}

impl From<PriceTable> for Rates {
    fn from(price: PriceTable) -> Self {
        let PriceTable { input, output, cache_read, cache_write } = price;
        Self { input, output, cache_read, cache_write, long: None }
    }
}

/// A `[providers.NAME]` table.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderTable {
    /// What it speaks. Only a server of one's own has to say so, and where it is.
    pub protocol: Option<WireProtocol>,
    /// Where it is.
    pub base_url: Option<String>,
    /// The environment variable that holds its key.
    pub key_variable: Option<String>,
    /// A command that prints its key.
    pub key_command: Option<String>,
    /// A file of certificates (PEM) to trust besides those of the machine.
    pub ca_file: Option<String>,
    /// How patient one is with it, where that differs from `[retry]`.
    #[serde(default)]
    pub retry: Retry,
    /// Options for the replies of this provider's models.
    #[serde(default)]
    pub options: Options,
}

/// Whether a preset is the file of one, and no name.
pub fn is_preset_file(preset: &str) -> bool {
    preset.ends_with(".toml")
}

/// The rules of this preset; of the default one where none is named.
pub fn preset(said: Option<&str>) -> Result<Policy, NoPreset> {
    let said = said.unwrap_or(PRESETS[0].name);
    Policy::preset(said).ok_or_else(|| NoPreset { said: said.to_owned() })
}

impl Config {
    /// Reads the text of a configuration file. Whether it makes sense with what is said elsewhere is seen when it is
    /// [laid over that](layers::Layers::merge).
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config = match toml::from_str::<Self>(text) {
            Ok(config) => config,
            // What is not known here may be known to the version that wrote it.
            Err(error) => return Err(mistake::newer(text).unwrap_or_else(|| ConfigError::shape(&error, &keys()))),
        };
        match config.version.filter(|version| *version > FORMAT) {
            Some(found) => Err(ConfigError::Newer { found: found.into() }),
            None => config.checked().map_err(|mistake| ConfigError::of(mistake, Some(text))),
        }
    }

    /// The same, from what was read as TOML before.
    pub fn of_table(table: toml::Table) -> Result<Self, ConfigError> {
        let config = table.try_into::<Self>().map_err(|error| ConfigError::shape(&error, &keys()))?;
        config.checked().map_err(|mistake| ConfigError::of(mistake, None))
    }

    /// What is done about calls in the text of this model, where anything is said of it.
    pub fn text_tools_of(&self, provider: &str, model: &str) -> Option<text_tools::Mode> {
        let whole = self.text_tools.get(&format!("{provider}/{model}"));
        whole.or_else(|| self.text_tools.get(provider)).copied()
    }

    /// What is set about a model's answers: for it, else for its provider, else for all.
    pub fn options(&self, provider: &str, model: &str) -> Options {
        let own = self.models.get(&format!("{provider}/{model}")).map(ModelTable::options).unwrap_or_default();
        let of_provider = self.providers.get(provider).map(|server| server.options.clone()).unwrap_or_default();
        own.or(&of_provider).or(&self.options)
    }

    /// What is known about models, with what is said of this one laid over it.
    pub fn known(&self, catalogue: Catalogue, provider: &str, model: &str) -> Catalogue {
        match self.models.get(&format!("{provider}/{model}")) {
            Some(ModelTable { window, price, images, tools, .. }) => {
                let said =
                    ModelOverride { window: *window, price: price.map(Rates::from), images: *images, tools: *tools };
                catalogue.with(provider, model, said)
            }
            None => catalogue,
        }
    }

    /// What runs on files that tools have changed, and what cannot: its key, and why.
    pub(crate) fn after_edits(&self) -> (Vec<AfterEdit>, Option<(KeyPath, String)>) {
        let tables = [("format", &self.tools.format, Does::Format), ("diagnose", &self.tools.diagnose, Does::Diagnose)];
        let (mut all, mut wrong) = (Vec::new(), None);
        for (table, commands, does) in tables {
            for (pattern, command) in commands {
                match AfterEdit::new(pattern, command, does) {
                    Ok(rule) => all.push(rule),
                    Err(why) => {
                        let key = ["tools", table, pattern].map(ToOwned::to_owned).to_vec();
                        wrong.get_or_insert((key, why.to_string()));
                    }
                }
            }
        }
        (all, wrong)
    }

    /// How much of everything the tools may use.
    pub fn tool_limits(&self) -> ToolLimits {
        let default = ToolLimits::default();
        ToolLimits {
            output_chars: self.limits.tool_output.unwrap_or(default.output_chars),
            bash_default_ms: self.tools.bash_timeout.map_or(default.bash_default_ms, milliseconds),
            bash_max_ms: self.tools.bash_timeout_cap.map_or(default.bash_max_ms, milliseconds),
            background_most: self.tools.background_max.map_or(default.background_most, usize::from),
            background_max_ms: self.tools.background_timeout.map_or(default.background_max_ms, milliseconds),
            background_unattended_ms: self
                .tools
                .background_unattended
                .map_or(default.background_unattended_ms, milliseconds),
            ..default
        }
    }

    /// The patience with a provider: what is said of it, else what is said of all, else what the table of providers knows,
    /// else that of `general`. A preset that somebody chose is not changed by the table.
    pub fn retry_of(&self, provider: &str, general: &Policy) -> RetryPolicy {
        let mut policy = general.retry.usual.clone();
        let known = provider::find(provider).filter(|_| general.preset == Policy::piton().preset);
        if let Some(patience) = known.and_then(|known| known.patience) {
            policy.per_call = Some(patience.times);
            (policy.first_ms, policy.cap_ms) = (patience.first_ms, patience.longest_ms);
            policy.cap_answered_ms = patience.longest_ms;
        }
        self.retry.apply(&mut policy);
        self.providers.get(provider).map(|server| server.retry.apply(&mut policy)).unwrap_or_default();
        policy
    }

    /// Changes a policy to what the file says. `*` comes first, so that a tool's own rule wins.
    pub fn apply(&self, policy: &mut Policy) {
        self.limits.apply(policy);
        self.context.apply(policy);
        self.forks.apply(policy);
        self.compaction.apply(&mut policy.compaction.rules);
        self.retry.apply(&mut policy.retry.usual);
        let own = || self.permission.iter().filter_map(|(rule, action)| read_rule(rule, *action).ok()).collect();
        policy.permission.0.extend(self.rules.clone().map_or_else(own, |rules| rules.0));
    }
}

impl ModelTable {
    fn options(&self) -> Options {
        Options {
            temperature: self.temperature,
            top_p: None,
            max_output: self.max_output,
            effort: self.effort,
            thinking_budget: self.thinking_budget,
            extra_body: self.extra_body.clone(),
            headers: self.headers.clone(),
        }
    }
}

/// Seconds as milliseconds, at least one.
pub fn milliseconds(seconds: f64) -> u64 {
    ((seconds * 1000.0).round() as u64).max(1)
}

/// Every key that there is at the top, with the keys in it where it is a table.
fn keys() -> Vec<Section> {
    let schema = serde_json::to_value(schemars::schema_for!(Config)).unwrap_or_default();
    let names = |node: &serde_json::Value| -> Vec<String> {
        node["properties"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let within = |top: &String| {
        let reference = schema["properties"][top]["$ref"].as_str().unwrap_or_default();
        schema.pointer(reference.trim_start_matches('#')).filter(|_| !reference.is_empty()).map(names)
    };
    names(&schema).into_iter().map(|top| (top.clone(), within(&top).unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::call::Access;
    use piton_core::permission::Ask;
    use piton_core::truncate::OutputCut;

    #[test]
    fn a_file_says_only_what_it_wants_to_change() {
        let config = Config::parse(
            "model = \"a/b\"\n[limits]\nmax_steps = 7\n[permission]\nbash = \"allow\"\n\"*\" = \"deny\"\n",
        );
        let config = config.expect("a valid file");
        let mut policy = Policy::piton();
        config.apply(&mut policy);
        assert_eq!(policy.steps.max, Some(7));
        let action = |tool| {
            let accesses = [Access::Use("it".to_owned())];
            let ask = Ask { tool, accesses: &accesses, workspace: "/w", is_confined: false, reach: &policy.reach };
            policy.permission.judge(&ask).action
        };
        assert_eq!((action("bash"), action("edit")), (Action::Allow, Action::Deny));
    }

    #[test]
    fn a_preset_is_where_the_rest_of_a_file_begins() {
        let config = Config::parse(
            "preset = \"pulse\"\n[limits]\nmax_denials = 0\nmax_repeats = 5\n[loop]\non_length = \"end\"\n\
             [retry]\nmax_failures = 7\n",
        )
        .expect("a valid file");
        let mut policy = preset(config.preset.as_deref()).expect("a preset");
        config.apply(&mut policy);
        assert_eq!((policy.preset.as_str(), policy.steps.max), ("pulse", Some(500)));
        assert_eq!((policy.calls.max_denials, policy.stuck.repeats), (None, 5));
        assert_eq!((policy.replies.on_length, policy.retry.usual.per_turn), (OnLength::End, Some(7)));
        let error = Config::parse("preset = \"plus\"").expect_err("no preset").to_string();
        assert!(error.contains("`plus`") && error.contains("piton, neovate, pulse"), "{error}");
    }

    #[test]
    fn what_is_said_of_one_model_wins_over_what_is_said_of_its_provider() {
        let config =
            Config::parse("[text_tools]\nmine = \"use_tool\"\n\"mine/a/b:1\" = \"hermes:first\"\n").expect("valid");
        let mode = |text: &str| Some(text.parse::<text_tools::Mode>().expect("a mode"));
        assert_eq!(config.text_tools_of("mine", "a/b:1"), mode("hermes:first"));
        assert_eq!(config.text_tools_of("mine", "other"), mode("use_tool"));
        assert_eq!(config.text_tools_of("ollama", "other"), None);
        let error = Config::parse("[text_tools]\nmine = \"xml\"").expect_err("no way to call tools").to_string();
        assert!(error.contains("line 2") && error.contains("use_tool, hermes"), "{error}");
    }

    #[test]
    fn garbage_is_named_with_its_line() {
        let error = Config::parse("model = \"a/b\"\nmodle = 3\n").expect_err("an unknown key").to_string();
        assert!(error.contains("line 2") && error.contains("modle"), "{error}");
        assert!(Config::parse("[permission]\n\"bash(x\" = \"allow\"").is_err());
        assert!(Config::parse("[limits]\nmax_cost = -1.0").is_err());
        let error = Config::parse("[http]\nstall_timeout = 0").expect_err("no time at all").to_string();
        assert!(error.starts_with("line 2: stall_timeout in [http] must be a number above 0"), "{error}");
        assert!(Config::parse("\u{0}\u{1}").is_err());
    }

    #[test]
    fn a_word_that_is_nearly_right_is_answered_with_the_right_one() {
        let said = |text: &str| Config::parse(text).expect_err("a mistake").to_string();
        for (text, meant) in [
            ("modle = 3", "did you mean `model`?"),
            ("[providers.openai]\nbaseurl = \"x\"", "did you mean `base_url`?"),
            ("[options]\neffort = \"hihg\"", "did you mean `high`?"),
            ("[models.\"a/b\"]\ntemprature = 1", "did you mean `temperature`?"),
        ] {
            assert!(said(text).ends_with(meant), "{}", said(text));
        }
        assert!(!said("xyz = 3").contains("did you mean"));
        let error = said("[providers.openai.options]\ntemperature = 7");
        assert_eq!(error, "line 2: temperature in [providers.openai.options] must be a number from 0 to 2");
        let error = said("[models.\"a/b\"]\neffort = \"low\"\nthinking_budget = 9");
        assert!(error.starts_with("line 3: thinking_budget in [models.\"a/b\"] must be left out"), "{error}");
    }

    #[test]
    fn what_a_run_cannot_use_is_no_configuration() {
        for (text, key) in [
            ("[limits]\nmax_steps = 0", "max_steps in [limits]"),
            ("[limits]\nmax_tokens = 0", "max_tokens in [limits]"),
            ("[limits]\nmax_time = 0", "max_time in [limits]"),
            ("[limits]\nmax_time = 9999999999", "max_time in [limits]"),
            ("[limits]\nmax_replies = 0", "max_replies in [limits]"),
            ("[limits]\nmax_calls = 0", "max_calls in [limits]"),
            ("[limits]\nmax_turns = 0", "max_turns in [limits]"),
            ("[limits]\nmax_cost = 1e-9", "max_cost in [limits]"),
            ("[limits]\nmax_cost = nan", "max_cost in [limits]"),
            ("[limits]\ntool_output = 5", "tool_output in [limits]"),
            ("[check]\ntimeout = 1e20", "timeout in [check]"),
            ("[check]\ntimeout = -1", "timeout in [check]"),
            ("[http]\nstall_timeout = inf", "stall_timeout in [http]"),
            ("[http]\nconnect_timeout = nan", "connect_timeout in [http]"),
            ("[tools]\nbash_timeout = 0", "bash_timeout in [tools]"),
            ("[retry]\nfirst_wait = 1e300", "first_wait in [retry]"),
            ("[providers.openai.retry]\nlongest_wait = -1", "longest_wait in [providers.openai.retry]"),
            ("[http]\nproxy = \"::::\"", "proxy in [http]"),
            ("[http]\nproxy = \"socks5://h:1\"", "proxy in [http]"),
            ("[otel]\nendpoint = \"nope\"", "endpoint in [otel]"),
            ("[providers.openai]\nbase_url = \"not a url\"", "base_url in [providers.openai]"),
            ("[providers.openai]\nbase_url = \"ftp://x\"", "base_url in [providers.openai]"),
            ("[compaction]\nreserve = 900000000", "reserve in [compaction]"),
            ("[compaction]\nkeep = 900000000", "keep in [compaction]"),
            ("[compaction]\nmodel = \"noslash\"", "model in [compaction]"),
            ("[titles]\nmodel = \"a/b,c/d/\"\nx = 1", "unknown field"),
            ("[models.noslash]\neffort = \"low\"", "[models.\"noslash\"]"),
            ("[options.headers]\n\"x y\" = \"1\"", "\"x y\" in [options.headers]"),
            ("[providers.openai.options.headers]\nx = \"a\\nb\"", "x in [providers.openai.options.headers]"),
            ("[models.\"a/b\".headers]\n\"\" = \"1\"", "\"\" in [models.\"a/b\".headers]"),
            ("[models.\"a/b\"]\nwindow = 0", "window in [models.\"a/b\"]"),
            ("[models.\"a/b\"]\nprice = {input = -1, output = 1}", "price in [models.\"a/b\"]"),
            ("[[hooks.PreToolUse]]\nmatcher = \"bash\"", "PreToolUse in [hooks]"),
        ] {
            let error = Config::parse(text).expect_err(text).to_string();
            assert!(error.contains(key) && error.contains("line "), "{text}: {error}");
        }
        for (text, key) in [("model = \"/noprovider\"", "model must be"), ("version = 0", "version must be 1")] {
            let error = Config::parse(text).expect_err(text).to_string();
            assert!(error.starts_with("line 1: ") && error.contains(key), "{text}: {error}");
        }
        for text in ["[http]\nproxy = \"\"", "[http]\nproxy = \"127.0.0.1:3128\"", "model = \"anthropic, a/b/c:1\""] {
            assert!(Config::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn the_word_that_was_meant_is_named_wherever_it_stands() {
        let said = |text: &str| Config::parse(text).expect_err("a mistake").to_string();
        for (text, meant) in [
            ("preset = \"neovat\"", "did you mean `neovate`?"),
            ("preset = \"pulze\"", "did you mean `pulse`?"),
            ("[[hooks.Stop]]\ncommand = \"x\"\ntimout = 3", "did you mean `timeout`?"),
            ("[[hooks.Stop]]\ncommand = \"x\"\nmatchr = \"x\"", "did you mean `matcher`?"),
            ("max_stps = 3", "did you mean `max_steps` in [limits]?"),
            ("[retry]\nstall_timeout = 3", "did you mean `stall_timeout` in [http]?"),
        ] {
            assert!(said(text).ends_with(meant), "{}", said(text));
        }
    }

    #[test]
    fn errors_do_not_speak_of_rust() {
        let said = |text: &str| Config::parse(text).expect_err("a mistake").to_string();
        assert!(said("limits = 7").ends_with("invalid type: integer `7`, expected a table"), "{}", said("limits = 7"));
        for (text, wanted) in [
            ("[limits]\nmax_steps = \"x\"", "expected a whole number, 0 or more"),
            ("[limits]\nmax_steps = 1.5", "invalid type: number `1.5`, expected a whole number, 0 or more"),
            ("[check]\ncommands = \"x\"", "expected a list"),
            ("model = []", "invalid type: a list, expected a text in quotes"),
            ("[compaction]\nauto = \"yes\"", "expected true or false"),
        ] {
            assert!(said(text).ends_with(wanted), "{}", said(text));
        }
    }

    #[test]
    fn a_file_for_a_newer_version_is_said_to_be_one_whatever_its_syntax() {
        for text in ["version = 2\nx = 1", "version = \"2\"", "# new\nversion = 3 # !\nlimits -> 7"] {
            let error = Config::parse(text).expect_err(text);
            assert!(matches!(error, ConfigError::Newer { .. }), "{text}: {error}");
        }
        assert!(!matches!(Config::parse("[a]\nversion = 2\n").expect_err("no key"), ConfigError::Newer { .. }));
    }

    #[test]
    fn what_is_known_of_a_model_can_be_said() {
        let text = "[models.\"mine/m\"]\nwindow = 32000\nmax_output = 4096\nprice = {input = 0.5, output = 1}\n";
        let config = Config::parse(text).expect("valid");
        let facts = config.known(Catalogue::default(), "mine", "m").newer("mine", "m").expect("said");
        assert_eq!(facts.limits.window_tokens, Some(32_000));
        assert_eq!(facts.price.map(|price| (price.input, price.output, price.cache_read)), Some((0.5, 1.0, 0.5)));
        assert_eq!(config.options("mine", "m").max_output, Some(4096));
        assert_eq!(config.known(Catalogue::default(), "mine", "other"), Catalogue::default());
    }

    #[test]
    fn every_limit_can_be_set() {
        let config = Config::parse(
            "[limits]\nmax_compactions = 1\nmax_turns = 7\ntool_output = 5000\n\
             [tools]\nbash_timeout = 9\nbash_timeout_cap = 10\n\
             [context]\nreference_bytes = 1\nreference_lines = 2\nreference_line_chars = 3\n",
        )
        .expect("valid");
        let mut policy = Policy::piton();
        config.apply(&mut policy);
        assert_eq!((policy.compaction.max, policy.steps.max_turns), (1, Some(7)));
        assert_eq!(policy.calls.output_cut, OutputCut::HeadTail { max_chars: 5000 });
        let sizes = policy.references.sizes;
        assert_eq!((sizes.file_bytes, sizes.lines, sizes.line_chars), (1, 2, 3));
        let tools = config.tool_limits();
        assert_eq!((tools.output_chars, tools.bash_default_ms, tools.bash_max_ms), (5000, 9_000, 10_000));
    }

    #[test]
    fn the_schema_knows_the_words_that_the_code_does() {
        let schema = serde_json::to_value(schemars::schema_for!(Config)).expect("a schema");
        let mut words = 0;
        for (table, definition) in [("loop", "Forks"), ("retry", "Retry")] {
            for (key, property) in schema["$defs"][definition]["properties"].as_object().expect("keys") {
                for word in property["enum"].as_array().into_iter().flatten() {
                    Config::parse(&format!("[{table}]\n{key} = {word}")).unwrap_or_else(|error| panic!("{error}"));
                    words += 1;
                }
            }
        }
        assert_eq!(words, 35);
        let preset = &schema["properties"]["preset"]["anyOf"];
        assert_eq!(preset[0]["enum"].as_array().map(Vec::len), Some(PRESETS.len()));
        assert_eq!(preset[1]["pattern"], "\\.toml$", "or a file of one's own");
        assert_eq!(schema["$defs"]["LimitsTable"]["properties"]["max_steps"]["minimum"], 1);
        let handler = &schema["$defs"]["HookHandler"];
        assert_eq!(
            (&handler["additionalProperties"], &handler["properties"]["timeout"]["exclusiveMinimum"]),
            (&false.into(), &0.into())
        );
        assert_eq!(schema["$defs"]["HttpTable"]["properties"]["stall_timeout"]["exclusiveMinimum"], 0);
    }

    #[test]
    fn options_of_a_model_come_before_its_providers_and_those_before_everybodys() {
        let config = Config::parse(
            "[options]\ntemperature = 1.0\nmax_output = 1\neffort = \"low\"\n\
             [providers.a.options]\nmax_output = 2\neffort = \"high\"\n[models.\"a/b\"]\neffort = \"max\"\n",
        );
        let config = config.expect("a valid file");
        let seen = |provider, model| {
            let options = config.options(provider, model);
            (options.temperature, options.max_output, options.effort)
        };
        use piton_models::effort::Effort;
        assert_eq!(seen("a", "b"), (Some(1.0), Some(2), Some(Effort::Max)));
        assert_eq!(seen("a", "c"), (Some(1.0), Some(2), Some(Effort::High)));
        assert_eq!(seen("c", "b"), (Some(1.0), Some(1), Some(Effort::Low)));
    }
}
