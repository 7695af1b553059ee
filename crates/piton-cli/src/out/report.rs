//! Words for people: how a turn ended, what an error means and what to do next, and the exit code of each.

use crate::failure::{Failure, FailureKind};
use crate::out::print::{clean, has_output, short_id, thousands, write_stderr, write_stdout};
use piton_core::budget::dollars;
use piton_core::client::Report;
use piton_core::event::{TurnEnd, Why};
use piton_core::ids::SessionId;
use piton_core::message;
use piton_engine::config::{LimitsTable, TableFlag};
use serde_json::json;

/// Something went wrong before or beside a turn.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line could not be understood.
pub(crate) const EXIT_USAGE: u8 = 2;
/// Commands cannot be confined, and nobody said that they need not be.
pub(crate) const EXIT_NO_SANDBOX: u8 = 12;
/// The process was told to stop by SIGTERM or SIGHUP.
pub(crate) const EXIT_TERMINATED: u8 = 143;

/// The exit code of `piton run` for each turn end. Documented in `docs/exit-codes.md`; a code never changes its meaning.
/// 1 is any other failure, 2 a command line that could not be understood.
pub(crate) fn exit_code(end: TurnEnd) -> u8 {
    match end {
        TurnEnd::Completed => 0,
        TurnEnd::ToolDenied => 3,
        TurnEnd::MaxSteps => 4,
        TurnEnd::MaxTurns => 5,
        TurnEnd::Budget => 6,
        TurnEnd::NoProgress => 7,
        TurnEnd::ContextLimit => 8,
        TurnEnd::ContentFilter => 9,
        TurnEnd::ApiError => 10,
        TurnEnd::HookStopped => 11,
        TurnEnd::Canceled => 130,
    }
}

/// What to say when only the watching of a session stops that another process runs.
pub(crate) fn not_watching(session: &SessionId) -> String {
    format!("no longer watching; {session} keeps running. Stop it with piton session cancel {session}")
}

/// The words for a turn's end, for people.
pub(crate) fn word(end: TurnEnd) -> String {
    let word = match end {
        TurnEnd::Completed => "completed",
        TurnEnd::ToolDenied => "refused",
        TurnEnd::MaxSteps => "step limit",
        TurnEnd::MaxTurns => "turn limit",
        TurnEnd::Budget => "budget spent",
        TurnEnd::NoProgress => "no progress",
        TurnEnd::ContextLimit => "window full",
        TurnEnd::ContentFilter => "filtered",
        TurnEnd::ApiError => "no reply",
        TurnEnd::HookStopped => "hook",
        TurnEnd::Canceled => "cancelled",
    };
    word.to_owned()
}

/// The words for something that the journal has one word for.
pub(crate) fn any_word(value: &impl serde::Serialize) -> String {
    let word = serde_json::to_value(value).unwrap_or_default();
    word.as_str().unwrap_or_default().replace('_', " ")
}

/// What calls cost, as far as that is known: unknown is not zero.
pub(crate) fn cost(cost_micros: Option<u64>, unpriced_calls: u32) -> String {
    match (cost_micros, unpriced_calls) {
        (None, 0) | (Some(0), 0) => "nothing to pay".to_owned(),
        (Some(cost), 0) => format!("${}", dollars(cost)),
        (None | Some(0), _) => "cost unknown".to_owned(),
        (Some(cost), _) => format!("at least ${}", dollars(cost)),
    }
}

/// Tokens in and out as the provider counted them; `of_these` says more of those in. Where there was a reply, no count is
/// one that was not told: unknown is not zero.
pub(crate) fn tokens(usage: &message::Usage, of_these: &str, replied: bool) -> String {
    let (input, output) = (thousands(usage.input_tokens), thousands(usage.output_tokens));
    match (usage.input_tokens, usage.output_tokens) {
        (0, 0) if replied => "tokens unknown".to_owned(),
        (0, _) if replied => format!("unknown tokens in, {output} out"),
        (_, 0) if replied => format!("{input} tokens in{of_these}, unknown out"),
        _ => format!("{input} tokens in{of_these}, {output} out"),
    }
}

/// What to tell a person about a turn that did not complete: what happened, and what to do. `None` if all is well.
/// `is_newest`: whether the session is the newest of the folder that the person is in, which `-c` goes on with.
/// `asked_each_time`: whether a call was refused that a person alone can allow.
pub(crate) fn ending(report: &Report, session: &str, is_newest: bool, asked_each_time: bool) -> Option<String> {
    let of_steps = (report.end == TurnEnd::MaxSteps).then_some(Why::Steps);
    let raise = raise(report.why.or(of_steps));
    let (what, next) = match report.end {
        TurnEnd::Completed if report.why == Some(Why::OutputLimit) => {
            ("The answer was cut off", "Allow longer replies with --max-output N, and continue with")
        }
        TurnEnd::Completed => return None,
        TurnEnd::Canceled => ("Stopped.", "Continue with"),
        TurnEnd::ToolDenied if asked_each_time => {
            ("Not finished", "These calls always need a person's approval. Answer on a terminal, and continue with")
        }
        TurnEnd::ToolDenied => {
            ("Not finished", "Allow more with --allow TOOL or --yes (denied tools stay denied), and continue with")
        }
        TurnEnd::MaxTurns => ("Not started", "Start a new session, or raise the limit with --set limits.max_turns=N"),
        TurnEnd::MaxSteps | TurnEnd::Budget => ("Not finished", raise.as_str()),
        TurnEnd::NoProgress => (
            "Stopped: it kept repeating itself",
            "Raise the limit with --set limits.max_repeats=N (0: no limit), or tell it what to do differently with",
        ),
        TurnEnd::ContextLimit if report.why == Some(Why::OutputLimit) => {
            ("Not finished", "Allow longer replies with --max-output N, and continue with")
        }
        // To sum it up by hand would help no more.
        TurnEnd::ContextLimit if report.why == Some(Why::NothingToSumUp) => (
            "The model's window is full",
            "Everything is kept. Switch to a model with a larger window with --model, and continue with",
        ),
        TurnEnd::ContextLimit => (
            "The model's window is full",
            "Everything is kept. Make room with `piton session compact ID`, or switch to a model with a larger window with \
             --model, and continue with",
        ),
        TurnEnd::ContentFilter => ("The provider's content filter stopped it", "Rephrase the task with"),
        TurnEnd::ApiError => ("The model gave no reply", "Nothing is lost. Retry, or switch models with --model:"),
        TurnEnd::HookStopped if report.checks.iter().any(|check| !check.passed) => ("Not finished", "Continue with"),
        TurnEnd::HookStopped => ("A hook stopped it", "Continue with"),
    };
    let (by, named) = match is_newest {
        true => ("-c".to_owned(), "last"),
        false => (format!("--resume {}", short_id(session)), short_id(session)),
    };
    let detail = report.detail.as_deref().map(|detail| format!(": {}", clean(detail))).unwrap_or_default();
    let command =
        if next.ends_with("with") || next.ends_with(':') { format!(" piton run {by} \"…\"") } else { String::new() };
    let next = next.replace("compact ID", &format!("compact {named}"));
    let what = what.trim_end_matches(if detail.is_empty() { "" } else { "." });
    Some(format!("{what}{detail}\n{next}{command}"))
}

/// What raises the limit that a turn has reached.
fn raise(why: Option<Why>) -> String {
    let how = match why.and_then(Why::limit) {
        Some(key) => match LimitsTable::flags().find(|flag| flag.key.last() == Some(&key)) {
            Some(TableFlag { flag, value, .. }) => format!("{flag} {value}"),
            None => format!("--set limits.{key}=N"),
        },
        None => "--max-tokens, --max-cost or --max-time".to_owned(),
    };
    format!("Raise the limit with {how}, and continue with")
}

/// Prints a failure for people, and returns the exit code.
pub(crate) fn failure(failure: &Failure) -> u8 {
    write_stderr(&clean(&format!("piton: {failure}\n")));
    failure.hints.iter().for_each(|hint| write_stderr(&clean(&format!("{hint}\n"))));
    failure_code(failure)
}

/// Prints it as output for programs, unless there is some already that ends with what happened, and as words beside it.
/// Returns the exit code.
pub(crate) fn failure_as_json(failed: &Failure) -> u8 {
    let Failure { kind, hints, .. } = failed;
    let line = json!({
        "type": "error", "kind": kind, "error": failed.to_string(), "hints": hints, "exit_code": failure_code(failed),
    });
    if !has_output() {
        write_stdout(&format!("{line}\n"));
    }
    failure(failed)
}

/// Prints a mistake of the command line as output for programs. The words beside it are the caller's to print.
pub(crate) fn usage_as_json(error: &clap::Error) {
    let rendered = clean(&error.render().to_string());
    let mut blocks = rendered.split("\n\n").map(|block| block.split_whitespace().collect::<Vec<_>>().join(" "));
    let words = blocks.next().unwrap_or_default();
    let words = words.strip_prefix("error: ").unwrap_or(&words).to_owned();
    let hints: Vec<String> = blocks.filter_map(|block| block.strip_prefix("tip: ").map(str::to_owned)).collect();
    let line =
        json!({"type": "error", "kind": FailureKind::Usage, "error": words, "hints": hints, "exit_code": EXIT_USAGE});
    write_stdout(&format!("{line}\n"));
}

fn failure_code(failure: &Failure) -> u8 {
    match failure.kind {
        FailureKind::Usage => EXIT_USAGE,
        FailureKind::Sandbox => EXIT_NO_SANDBOX,
        FailureKind::User
        | FailureKind::Config
        | FailureKind::Busy
        | FailureKind::Damaged
        | FailureKind::Model
        | FailureKind::Internal => EXIT_FAILED,
    }
}
