//! The numbers behind the default policy, each with its unit, its reason and who feels it. [`crate::policy`] says what they
//! limit, [`crate::preset`] has named sets of other numbers.

/// Model replies in one turn. A task that needs more is better split; the model is told to wrap up on the last one.
pub const MAX_STEPS: u32 = 250;
/// Tool calls in one reply. More is a model gone wild (small local models do it): the rest is answered, not run.
pub const MAX_CALLS_PER_STEP: usize = 64;
/// Calls that run at the same time, however many a reply may have: each takes a process or a thread, and files.
pub const MAX_CALLS_SIDE_BY_SIDE: usize = 16;
/// Compactions in one turn. Where three do not make room, a fourth will not.
pub const MAX_COMPACTIONS: u32 = 3;
/// Identical calls (tool, input and result) in a row before a person is asked, or a headless turn ends.
pub const NO_PROGRESS_REPEATS: u32 = 3;
/// Calls refused in a row before the turn ends: the model has understood by then, or never will.
pub const MAX_DENIALS_IN_A_ROW: u32 = 3;
/// Replies in a row cut at the model's output limit that are continued; then the turn ends, saying so.
pub const MAX_CUT_REPLIES: u32 = 2;
/// Replies in a row that ended for a reason nobody knows and after which the model is asked to go on, where it is at all.
pub const MAX_UNKNOWN_REPLIES: u32 = 2;
/// Replies in a row that the provider pauses and that are continued; one that pauses more often gets nowhere.
pub const MAX_PAUSED_REPLIES: u32 = 10;
/// Characters of one tool's output that the model reads; head and tail, the rest stays in a file.
pub const TOOL_OUTPUT_CHARS: usize = 30_000;
/// Retries of one model call.
pub const RETRIES_PER_CALL: u32 = 5;
/// First wait before a retry, in milliseconds; it doubles.
pub const RETRY_FIRST_MS: u64 = 2_000;
/// Longest wait of our own choosing, in milliseconds.
pub const RETRY_CAP_MS: u64 = 30_000;
/// Longest wait a provider may ask for, in milliseconds: ten minutes. Beyond it a person should decide.
pub const RETRY_PROVIDER_CAP_MS: u64 = 600_000;
/// Silence of a provider, in milliseconds, before its stream counts as stalled.
pub const STREAM_STALL_MS: u64 = 60_000;
/// Time in which a stream says nothing but "I am still here", in milliseconds, before it counts as stalled too. Models
/// that hide their thoughts ping for minutes; a gateway that lost its model pings for ever.
pub const STREAM_KEEP_ALIVE_MS: u64 = 600_000;
/// Silence of a provider, in milliseconds, after which whoever listens is told of it, and again after each such span.
pub const STREAM_SILENT_MS: u64 = 10_000;
/// Bytes of one reply that are told, and kept for a cancel, a crash and for clients that come late, as they stream; what
/// comes behind them is told by the record of the whole reply. Twice the longest answers there are (128,000 tokens), so that only
/// an answer without an end feels it: it is held once then, and not by everyone who hears it.
pub const STREAMED_BYTES: usize = 1 << 20;
/// Time a shell command gets when the model names none, in milliseconds.
pub const BASH_DEFAULT_MS: u64 = 120_000;
/// The most time a model may give a shell command, in milliseconds.
pub const BASH_MAX_MS: u64 = 600_000;
/// Commands in the background at a time: servers and watchers of one project are a handful.
pub const BACKGROUND_MOST: usize = 16;
/// The longest life of a command in the background, in milliseconds: a working day.
pub const BACKGROUND_MAX_MS: u64 = 12 * 3_600_000;
/// How long a command in the background goes on where no process has its session open, in milliseconds. Who starts Piton again
/// after a crash finds it; nobody has to look for it later.
pub const BACKGROUND_UNATTENDED_MS: u64 = 120_000;
/// The longest that leaving a session waits for its title, in milliseconds: a small model mostly has it by then.
pub const TITLE_GRACE_MS: u64 = 2_000;

/// Tokens of reply that a budget must leave for a call to be worth making: room for an edit or an answer.
pub const MIN_REPLY_TOKENS: u32 = 1_000;
/// Tokens of reply that a model can write of which nothing is known: as many as the largest windows hold.
pub const UNKNOWN_REPLY_TOKENS: u32 = 1_048_576;
/// Tokens of reply that such a model is asked for when a budget cannot leave it the whole of that. More than most small
/// servers allow would be refused.
pub const REPLY_TOKENS_NEAR_LIMIT: u32 = 8_192;

/// The largest file that an `@` reference shows, in bytes. Larger ones are named with their size.
pub const REFERENCE_FILE_BYTES: u64 = 10 << 20;
/// Lines of a file that an `@` reference shows.
pub const REFERENCE_LINES: usize = 2_000;
/// Characters of a line that an `@` reference shows.
pub const REFERENCE_LINE_CHARS: usize = 2_000;
/// The share of a model's window, in percent, that the folders one message refers to may fill. The rest is listed.
pub const REFERENCE_FOLDER_PERCENT: u64 = 25;
/// The share of a model's window, in percent, that all references of one message may fill.
pub const REFERENCE_PERCENT: u64 = 50;
/// The window, in tokens, assumed for a model whose window is unknown, where references are measured.
pub const UNKNOWN_WINDOW_TOKENS: u64 = 128_000;
/// Pictures that one message may refer to.
pub const REFERENCE_IMAGES: usize = 20;
/// The largest picture that is sent, in bytes: what the strictest provider takes, before base64 makes it longer.
pub const IMAGE_BYTES: u64 = 3_750_000;
/// What is read of one instruction file, in bytes. Longer ones are cut, with a notice: they are paid for in every call.
pub const INSTRUCTION_FILE_BYTES: usize = 32 << 10;
/// What is read of all instruction files together, in bytes.
pub const INSTRUCTIONS_BYTES: usize = 64 << 10;
/// Names of files that are kept with a rewind under way, to be told should it never be finished. The rest is counted.
pub const REWIND_PATHS: usize = 100;
/// The share of a budget, in percent, from which on the model is told that it is nearly spent.
pub const BUDGET_NEARLY_SPENT_PERCENT: u64 = 80;
/// Tokens that a compaction puts back of one skill that the model was given, from its beginning.
pub const SKILL_TOKENS: u64 = 5_000;
/// Tokens of all of them.
pub const SKILLS_TOKENS: u64 = 25_000;
/// Steps without a change of a list of todos that has open items, after which the model is reminded of it.
pub const TODO_QUIET_STEPS: u32 = 10;
/// Items of a list of todos. A list that is longer is no plan.
pub const TODO_ITEMS: usize = 100;
/// Characters of a todo's text. With [`TODO_ITEMS`] it bounds what a reminder costs.
pub const TODO_TEXT_CHARS: usize = 400;
/// Steps before the last one at which the model is told how many are left.
pub const STEPS_NEARLY_SPENT: u32 = 5;
/// Questions that the model may put to a person at a time. More is a form, and a form is not filled in.
pub const INQUIRY_QUESTIONS: usize = 10;
/// Characters of a plan that a person is asked to approve. Nobody reads a longer one.
pub const PLAN_CHARS: usize = 40_000;
/// Answers on offer to one of them: each has a key of its own.
pub const INQUIRY_OPTIONS: usize = 9;
/// Characters of such a question. A person has to take it in.
pub const INQUIRY_TEXT_CHARS: usize = 2_000;
/// Characters of an answer on offer, and of what it means.
pub const INQUIRY_OPTION_CHARS: usize = 400;
/// Characters of an answer in words.
pub const INQUIRY_ANSWER_CHARS: usize = 10_000;
/// The longest that a question may wait before its default counts, in seconds: a day.
pub const INQUIRY_MAX_SECONDS: u32 = 86_400;
/// Names of agents, of skills and of commands that the line of an opened session lists, of each so many. With more the line would be
/// long for every program that reads it, and most do not look at them.
pub const OPENED_NAMES: usize = 200;
