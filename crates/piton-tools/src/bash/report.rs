//! The report of a command: its output and how it ended, for the model and for people.

use super::stopped::{of_protected, stopped};
use crate::clean::clean;
use crate::executor::{CommandEnd, CommandOutput, ExitRecord};
use piton_core::call::{NO_OUTPUT, Outcome, Status, UNDONE, exit_line, undone_line};
use serde_json::json;

/// The outcome of a call that is over; `cancelled`: somebody asked it to stop.
pub(crate) fn outcome(record: &ExitRecord, output: &CommandOutput, command: &str, cancelled: bool) -> Outcome {
    let text = match record.status {
        CommandEnd::SpawnFailed | CommandEnd::NotStarted => "",
        CommandEnd::Exited
        | CommandEnd::Signaled
        | CommandEnd::TimedOut
        | CommandEnd::Cancelled
        | CommandEnd::Interrupted => &output.text,
    };
    // It is made durable once a second, the exit record at once: a power cut can come in between.
    let text = match record.kept_bytes > output.bytes {
        true => format!("{text}\n[part of the output was lost when the machine went down]"),
        false => text.to_owned(),
    };
    let text = match record.status {
        CommandEnd::Interrupted => interrupted(record, &text),
        CommandEnd::NotStarted if cancelled => "Cancelled before the command was started.".to_owned(),
        CommandEnd::NotStarted => {
            "[not started] This command was recorded as started, but it provably never ran and never \
                            will. It had no effects: call it again if it is still needed."
                .to_owned()
        }
        CommandEnd::Exited
        | CommandEnd::Signaled
        | CommandEnd::TimedOut
        | CommandEnd::Cancelled
        | CommandEnd::SpawnFailed => with_notes(record, &text),
    };
    let mut facts = json!({
        "exit_code": record.code,
        "signal": record.signal,
        "output_path": output.path,
        "output_bytes": record.output_bytes,
        "timed_out": record.status == CommandEnd::TimedOut,
        "left_behind": record.left_behind,
    });
    if !record.typed.is_empty() {
        facts["typed"] = json!(clean(record.typed.as_bytes()));
    }
    if !record.undone.is_empty() {
        facts[UNDONE] = json!(record.undone);
    }
    let mut outcome = Outcome::new(status(record, cancelled), text).titled(title(record, command)).with(facts);
    outcome.duration_ms = record.duration_ms;
    outcome
}

fn status(record: &ExitRecord, cancelled: bool) -> Status {
    match record.status {
        CommandEnd::Exited if record.code == Some(0) => Status::Ok,
        CommandEnd::Exited | CommandEnd::Signaled | CommandEnd::SpawnFailed => Status::Failed,
        CommandEnd::TimedOut => Status::TimedOut,
        CommandEnd::Cancelled => Status::Cancelled,
        CommandEnd::Interrupted | CommandEnd::NotStarted if cancelled => Status::Cancelled,
        CommandEnd::Interrupted => Status::Interrupted,
        CommandEnd::NotStarted => Status::NotStarted,
    }
}

fn with_notes(record: &ExitRecord, output: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let output = output.trim_end_matches('\n');
    if !output.is_empty() {
        lines.push(output.to_owned());
    }
    match record.status {
        CommandEnd::Exited => {
            lines.extend(record.code.filter(|code| *code != 0).map(|code| exit_line(code.into())));
        }
        CommandEnd::Signaled => lines.push(format!("ended by {}", signal_name(record.signal))),
        CommandEnd::TimedOut => {
            lines.push(format!("timed out after {}: the whole process group was ended", seconds(record.duration_ms)));
        }
        CommandEnd::Cancelled => {
            lines.push(format!("cancelled after {}: the whole process group was ended", seconds(record.duration_ms)));
        }
        CommandEnd::SpawnFailed => lines.push("bash: the command could not be started".to_owned()),
        CommandEnd::Interrupted | CommandEnd::NotStarted => {}
    }
    match record.left_behind {
        0 => {}
        1 => lines.push("1 background process was ended when the command finished".to_owned()),
        many => lines.push(format!("{many} background processes were ended when the command finished")),
    }
    if !record.typed.is_empty() {
        let typed = clean(record.typed.as_bytes());
        lines.push(format!("[the user typed into the command: {}]", typed.trim_end().replace('\n', "⏎")));
    }
    if record.is_confined && record.status == CommandEnd::Exited {
        let of_failure = || by_sandbox(output).filter(|_| record.code != Some(0));
        lines.extend(by_protection(output).or_else(of_failure));
    }
    lines.extend(record.refused.iter().map(|said| format!("[{said}]")));
    lines.extend(record.undone.iter().map(|said| undone_line(said)));
    lines.extend(record.error.as_ref().map(|error| format!("[{error}]")));
    if lines.is_empty() { NO_OUTPUT.to_owned() } else { lines.join("\n") }
}

/// What a failure may have to do with the sandbox, and the way out.
fn by_sandbox(output: &str) -> Option<String> {
    let stopped = stopped(output);
    (!stopped.is_empty()).then(|| {
        format!(
            "[sandbox: the command ran in a sandbox, which may have stopped it: {}. If the task cannot do without it, call bash \
             again with `outside_sandbox` and the reason: the user is asked]",
            stopped.join("; ")
        )
    })
}

/// What a command could not change because it is protected. Programs often go on without it, and end well.
fn by_protection(output: &str) -> Option<String> {
    /// What has become of a branch whose section of the configuration git could not change.
    const OF_BRANCH: &str = " `git branch -m` and `-D` have renamed or deleted the branch all the same; only its section in .git/config \
                             is as it was, which does no harm: do not repeat them.";
    /// What has become of files that git could not replace.
    const OF_TREE: &str = " git may have done the rest: look at `git status`. `git stash push -- . ':!PATH'` and `git checkout COMMIT -- . ':!PATH'` \
                           leave a path out.";
    let protected = of_protected(output);
    let said = |what: &str| output.lines().any(|line| line.contains(what));
    let rest = match () {
        () if said("update of config-file failed") => OF_BRANCH,
        () if said("unable to unlink") || said("unable to create file") => OF_TREE,
        () => "",
    };
    (!protected.is_empty()).then(|| {
        format!(
            "[sandbox: the command ran in a sandbox, in which what is protected in the workspace stays as it is: {}.{rest} The file \
             tools ask the user before they change it. If the task cannot do without it, call bash again with `outside_sandbox` \
             and the reason: the user is asked]",
            protected.join("; ")
        )
    })
}

fn interrupted(record: &ExitRecord, output: &str) -> String {
    let cause = record.error.as_deref().unwrap_or("an unknown cause");
    let captured = match output.trim_end_matches('\n') {
        "" => "No output was captured.".to_owned(),
        output => format!("Captured output ({} bytes) follows.\n{output}", record.output_bytes),
    };
    format!(
        "[interrupted after {} (last sign of life) by: {cause}] This command was started once and was **not** run again. \
         It may have had partial effects: check before you repeat it. {captured}",
        seconds(record.duration_ms)
    )
}

/// `bash cargo test (exit 1, 2.3 s)`.
fn title(record: &ExitRecord, command: &str) -> String {
    format!("bash {} ({})", line(command), ending(record))
}

/// A command on one short line.
pub(crate) fn line(command: &str) -> String {
    /// Enough to know the command again.
    const SHOWN_CHARS: usize = 60;
    let line = command.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = clean(line.as_bytes());
    let is_cut = line.chars().count() > SHOWN_CHARS || command.trim().lines().count() > 1;
    line.chars().take(SHOWN_CHARS).chain(is_cut.then_some('…')).collect()
}

/// How a command ended, in a few words: `exit 1, 2.3 s`.
pub(crate) fn ending(record: &ExitRecord) -> String {
    let end = match record.status {
        CommandEnd::Exited => format!("exit {}", record.code.unwrap_or_default()),
        CommandEnd::Signaled => signal_name(record.signal),
        CommandEnd::TimedOut => "timed out".to_owned(),
        CommandEnd::Cancelled => "cancelled".to_owned(),
        CommandEnd::SpawnFailed => return "could not be started".to_owned(),
        CommandEnd::Interrupted => return "interrupted".to_owned(),
        CommandEnd::NotStarted => return "not started".to_owned(),
    };
    format!("{end}, {}", seconds(record.duration_ms))
}

fn signal_name(signal: Option<i32>) -> String {
    let number = signal.unwrap_or_default();
    match signal_hook::low_level::signal_name(number) {
        Some(name) => format!("signal {number} ({name})"),
        None => format!("signal {number}"),
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_short_line() {
        let record = ExitRecord { code: Some(1), duration_ms: 2_345, ..ExitRecord::of(CommandEnd::Exited) };
        assert_eq!(title(&record, "cargo test"), "bash cargo test (exit 1, 2.3 s)");
        assert_eq!(title(&record, "\n  cd x\n  make\n"), "bash cd x… (exit 1, 2.3 s)");
    }
}
