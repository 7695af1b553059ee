//! A command line as a person types it first: without `run`, or in the words of another agent.
//!
//! `piton "fix the test"` is `piton run "fix the test"`, and so is `piton -c "go on"`. Flags and commands of other agents
//! that mean the same as one of ours are aliases in [`crate::cli`]; those that do not are answered with the nearest of ours.

use crate::cli::{Cli, Command};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{CommandFactory, Parser};
use piton_engine::spelling::nearest;
use std::ffi::OsString;

/// The command that clap adds.
const HELP: &str = "help";

/// Options that may stand before a command and take a value.
const GLOBAL: [&str; 2] = ["--log-file", "--debug"];

/// Flags by which somebody wants one answer and no conversation.
const RUN_ONLY: [&str; 12] = [
    "-p",
    "--print",
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "--format",
    "--output-format",
    "--input-format",
    "--output-schema",
    "--record",
    "--command",
];

/// Flags of other agents, and what to type here.
const FLAGS: [(&str, &str); 30] = [
    ("--add-dir", "not there yet; start piton in the folder above both"),
    ("--allow-all-tools", "--yes runs every tool without asking"),
    ("--allowed-tools", "--allow TOOL, once for each tool"),
    ("--allowedTools", "--allow TOOL, once for each tool"),
    ("--append-system-prompt", "instructions go into AGENTS.md, or into the task"),
    ("--approval-mode", "--yes runs every tool without asking, --allow and --deny name tools"),
    ("--ask-for-approval", "--yes runs every tool without asking, --allow and --deny name tools"),
    ("--auto", "--yes runs every tool without asking"),
    ("--dangerously-bypass-approvals-and-sandbox", "--yes runs every tool without asking"),
    ("--dangerously-skip-permissions", "--yes runs every tool without asking"),
    ("--disallowed-tools", "--deny TOOL, once for each tool"),
    ("--disallowedTools", "--deny TOOL, once for each tool"),
    ("--exec", "piton run --format stream-json \"…\""),
    ("--fallback-model", "--model first/model,second/model"),
    ("--file", "write @path/to/file into the task"),
    ("--full-auto", "--yes runs every tool without asking"),
    ("--image", "write @picture.png into the task"),
    ("--include-partial-messages", "--format stream-json always has them"),
    ("--json", "--format json prints one object at the end, --format stream-json one for each event"),
    ("--json-schema", "--output-schema FILE"),
    ("--last", "--continue goes on with the newest session of this folder"),
    ("--max-budget-usd", "--max-cost USD"),
    ("--max-session-turns", "--max-steps N"),
    ("--max-turns", "--max-steps N"),
    ("--permission-mode", "--mode ask, accept-edits, plan or auto"),
    ("--session", "--resume ID"),
    ("--session-id", "--resume ID"),
    ("--skip-git-repo-check", "leave it out: piton works in any folder"),
    ("--system-prompt", "instructions go into AGENTS.md, or into the task"),
    ("--yolo", "--yes runs every tool without asking"),
];

/// Commands of other agents, and what to type here.
const COMMANDS: [(&str, &str); 18] = [
    ("agents", "piton agent"),
    ("ask", "piton run \"…\""),
    ("continue", "piton -c"),
    ("export", "piton session export"),
    ("history", "piton session list"),
    ("init", "not needed: write an AGENTS.md, or ask for one: piton run \"write an AGENTS.md for this repository\""),
    ("list", "piton session list"),
    ("login", "piton auth login PROVIDER"),
    ("logout", "piton auth logout PROVIDER"),
    ("ls", "piton session list"),
    ("review", "piton run \"review the changes of this branch\""),
    ("search", "piton session list --search WORDS"),
    ("set", "piton config edit, or --set KEY=VALUE for one run"),
    ("stats", "piton session cost"),
    ("status", "piton doctor"),
    ("version", "piton --version"),
    ("update", "install it again, the way you did (docs/install.md)"),
    ("upgrade", "install it again, the way you did (docs/install.md)"),
];

/// What is said where a conversation was meant, and there is no terminal for it.
const NO_TERMINAL: &str = "a conversation needs a terminal, but standard input or output is a pipe or a file. \
    Give the agent a task instead: piton run \"fix the failing test\"";

/// What stands before the words to type here.
const IN_PITON: &str = "in Piton: ";

/// What was typed, understood. The error is ready to be printed. At a terminal a task without a command begins a
/// conversation, elsewhere it is run.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>, at_terminal: bool) -> Result<Cli, Error> {
    let mut args = with_command(args.into_iter().collect(), at_terminal);
    let mut cli = Cli::try_parse_from(&args).map_err(|error| with_our_words(error, &args))?;
    if let (Command::Chat(chat), Some(at)) = (&mut cli.command, first_word(&args)) {
        args.remove(at);
        chat.typed = args.split_off(1);
    }
    Ok(cli)
}

/// Whether a command line asks for a run whose output is for programs. It may be one that cannot be understood.
pub(crate) fn wants_json(args: impl IntoIterator<Item = OsString>) -> bool {
    let args = with_command(args.into_iter().collect(), false);
    let Some(at) = first_word(&args).filter(|at| args[*at] == "run" || args[*at] == "exec") else { return false };
    let words: Vec<String> = args[at..].iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let mut words = words.iter().map(String::as_str).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if !["--format", "--output-format"].contains(&name) {
            continue;
        }
        if let Some("json" | "stream-json") = value.or_else(|| words.next()) {
            return true;
        }
    }
    false
}

/// The same with `chat` or `run` in its place, where no command was named but a task, or a flag that only these have.
fn with_command(mut args: Vec<OsString>, at_terminal: bool) -> Vec<OsString> {
    let is_of_run = |arg: &OsString| {
        let arg = arg.to_string_lossy();
        RUN_ONLY.contains(&arg.split('=').next().unwrap_or_default())
    };
    let talks = at_terminal && !args.iter().any(is_of_run);
    let command = if talks { "chat" } else { "run" };
    let Some(at) = first_word(&args) else {
        args.extend(talks.then(|| command.into()));
        return args;
    };
    let word = args[at].to_string_lossy().into_owned();
    if word == "resume" {
        args.splice(at..=at, [command.into(), "--resume".into()]);
    } else if is_flag_of_run(&word) {
        match command_behind(&args, at) {
            // `piton -C DIR run …`: the flags are that command's.
            Some((place, true)) => {
                let named = args.remove(place);
                args.insert(at, named);
            }
            // A command that has no such flags is no task.
            Some((_, false)) => {}
            None => args.insert(at, command.into()),
        }
    } else if is_task(&word) {
        args.insert(at, command.into());
    }
    args
}

/// The command that stands behind flags of `run`, and whether it has them itself.
fn command_behind(args: &[OsString], mut at: usize) -> Option<(usize, bool)> {
    let cli = Cli::command();
    let run = cli.find_subcommand("run")?;
    loop {
        let word = args.get(at)?.to_str()?;
        let Some(flag) = word.strip_prefix('-') else {
            let named = cli.find_subcommand(word)?;
            return Some((at, ["run", "chat"].contains(&named.get_name())));
        };
        let arg = run.get_arguments().find(|arg| match flag.strip_prefix('-') {
            Some(long) => arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
            None => arg.get_short().is_some_and(|short| flag.chars().eq([short])),
        });
        // What else there may be, a value in the same word or several flags, stands alone.
        let takes_next = arg.is_some_and(|arg| {
            arg.get_num_args().is_none_or(|number| number.min_values() > 0) && arg.get_action().takes_values()
        });
        at += if takes_next { 2 } else { 1 };
    }
}

/// The first argument that is no global option.
fn first_word(args: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while let Some(arg) = args.get(at) {
        let arg = arg.to_string_lossy();
        let (name, has_value) = arg.split_once('=').map_or((&*arg, false), |(name, _)| (name, true));
        if !GLOBAL.contains(&name) {
            return Some(at);
        }
        at += if has_value { 1 } else { 2 };
    }
    None
}

/// A single word may also be a command, of ours or of another agent, or one that was misspelled, which must cost nothing.
fn is_task(word: &str) -> bool {
    if word.starts_with('-') {
        return false;
    }
    if word.trim().contains(char::is_whitespace) {
        return true;
    }
    let cli = Cli::command();
    let is_ours = cli.find_subcommand(word).is_some() || word == HELP;
    let is_theirs = COMMANDS.iter().any(|(theirs, _)| *theirs == word);
    let names = || cli.get_subcommands().map(clap::Command::get_name);
    !word.trim().is_empty() && !is_ours && !is_theirs && nearest(word, names()).is_none()
}

fn begins_with_command(args: &[OsString]) -> bool {
    first_word(args).is_some_and(|at| Cli::command().find_subcommand(&args[at]).is_some())
}

fn is_flag_of_run(word: &str) -> bool {
    let is_of_all = ["-h", "--help", "-V", "--version"].contains(&word);
    word.starts_with('-') && !is_of_all
}

/// The error, with what to type here in place of a guess from the letters.
fn with_our_words(mut error: Error, args: &[OsString]) -> Error {
    let lacks = [ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, ErrorKind::MissingSubcommand];
    if lacks.contains(&error.kind()) && first_word(args).is_none() {
        return Cli::command().error(ErrorKind::MissingSubcommand, NO_TERMINAL);
    }
    let said = |kind| match error.get(kind) {
        Some(ContextValue::String(said)) => Some(said.split('=').next().unwrap_or_default().to_owned()),
        _ => None,
    };
    let ours = match error.kind() {
        ErrorKind::UnknownArgument => {
            said(ContextKind::InvalidArg).and_then(|said| instead_of_flag(&said, takes_task(args)))
        }
        ErrorKind::InvalidSubcommand => {
            said(ContextKind::InvalidSubcommand).and_then(|said| instead_of_command(&said, !begins_with_command(args)))
        }
        _ => None,
    };
    if let Some(ours) = ours {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Suggested);
        // A word that another agent has is no misspelling of ours.
        if ours.starts_with(IN_PITON) {
            error.remove(ContextKind::SuggestedSubcommand);
        }
        // It names what was typed so far, and one of the ways on.
        if error.kind() == ErrorKind::UnknownArgument {
            error.remove(ContextKind::Usage);
        }
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(ours)]));
    }
    error
}

/// Whether the command that is typed takes a task.
fn takes_task(args: &[OsString]) -> bool {
    let cli = Cli::command();
    let command = first_word(args).and_then(|at| cli.find_subcommand(&args[at])).unwrap_or(&cli);
    command.get_positionals().any(|arg| ["prompt", "task"].contains(&arg.get_id().as_str()))
}

fn instead_of_flag(said: &str, takes_task: bool) -> Option<String> {
    if !said.starts_with('-') {
        return takes_task
            .then(|| "put a task of several words in quotes: piton run \"fix the failing test\"".to_owned());
    }
    let (_, ours) = FLAGS.iter().find(|(theirs, _)| *theirs == said)?;
    Some(format!("{IN_PITON}{ours}"))
}

/// A first word that is no command of anybody's may begin a task.
fn instead_of_command(said: &str, is_first: bool) -> Option<String> {
    match COMMANDS.iter().find(|(theirs, _)| *theirs == said) {
        Some((_, ours)) => Some(format!("{IN_PITON}{ours}")),
        None if said.trim().is_empty() => Some("say what to do: piton \"fix the failing test\"".to_owned()),
        None => is_first.then(|| format!("to give the agent this task: piton run \"{said}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Format, RunArgs};

    fn typed(words: &[&str]) -> Result<Cli, String> {
        let args = std::iter::once("piton").chain(words.iter().copied()).map(OsString::from);
        parse(args, false).map_err(|error| error.render().to_string())
    }

    fn run(words: &[&str]) -> RunArgs {
        match typed(words).map(|cli| cli.command) {
            Ok(Command::Run(args)) => *args,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn a_task_and_the_flags_of_a_run_need_no_command() {
        for words in [
            &["fix the test"][..],
            &["-p", "fix the test"],
            &["--print", "fix the test"],
            &["exec", "fix the test"],
            &["--log-file", "x.log", "fix the test"],
            &["--log-file=x.log", "fix the test"],
            &["run", "fix the test"],
            &["--model", "a/b", "fix the test"],
            &["--model", "a/b", "run", "fix the test"],
            &["-C", "/nowhere", "-v", "--max-steps=3", "exec", "fix the test"],
        ] {
            assert_eq!(run(words).prompt.as_deref(), Some("fix the test"), "{words:?}");
        }
        assert_eq!(run(&["hello"]).prompt.as_deref(), Some("hello"));
        assert!(run(&["-c"]).r#continue);
        assert_eq!(run(&["resume", "ses_1"]).resume.as_deref(), Some("ses_1"));
        assert_eq!(run(&["resume"]).resume.as_deref(), Some(""));
        assert_eq!(run(&["-p", "hi", "--output-format", "json"]).format, Format::Json);
        assert!(matches!(typed(&["session", "list"]).map(|cli| cli.command), Ok(Command::Session(_))));
        assert!(typed(&["--version"]).unwrap_err().starts_with("piton "));
    }

    #[test]
    fn a_conversation_without_a_terminal_is_told_of_run() {
        for words in [&["--log-file", "x.log"][..], &[]] {
            let said = typed(words).unwrap_err();
            assert!(said.contains("needs a terminal") && said.contains("piton run"), "{said}");
            assert!(!said.contains("Commands:"), "not the whole help: {said}");
        }
    }

    #[test]
    fn words_of_other_agents_are_answered_with_ours() {
        for (words, ours) in [
            (&["run", "--yolo", "x"][..], "in Piton: --yes"),
            (&["--dangerously-skip-permissions", "fix it"], "in Piton: --yes"),
            (&["run", "x", "--json"], "in Piton: --format json"),
            (&["run", "--max-turns=3", "x"], "in Piton: --max-steps N"),
            (&["login"], "in Piton: piton auth login PROVIDER"),
            (&["session", "search", "x"], "in Piton: piton session list --search WORDS"),
            (&[""], "say what to do: piton \"fix the failing test\""),
            (&["run", "fix", "the", "test"], "in quotes: piton run"),
        ] {
            let error = typed(words).expect_err("is not understood");
            assert!(error.contains(ours), "{words:?}: {error}");
            assert_eq!(error.matches("tip:").count(), 1, "{words:?}: {error}");
        }
        let error = typed(&["-C", "/nowhere", "models"]).expect_err("is no task");
        assert!(error.contains("'-C'"), "{error}");
        let error = typed(&["session", "diff"]).expect_err("is not understood");
        assert!(!error.contains("tip:"), "{error}");
        let error = typed(&["sesion"]).expect_err("is not understood");
        assert!(error.contains("'session'") && error.contains("piton run \"sesion\""), "{error}");
    }

    #[test]
    fn a_run_for_programs_is_known_before_it_is_understood() {
        let wants =
            |words: &[&str]| wants_json(std::iter::once("piton").chain(words.iter().copied()).map(OsString::from));
        assert!(
            wants(&["run", "--format", "json", "--bogus"]) && wants(&["--output-format=stream-json", "hi", "--bogus"])
        );
        assert!(wants(&["run", "--max-steps", "x", "--format=json", "hi"]));
        assert!(
            !wants(&["run", "--format", "text", "--bogus"]) && !wants(&["run", "--bogus", "--", "--format", "json"])
        );
        assert!(!wants(&["session", "export", "--format", "json", "--bogus"]));
    }

    #[test]
    fn no_word_is_answered_that_is_ours() {
        let command = Cli::command();
        let run = command.find_subcommand("run").expect("there is one");
        let ours: Vec<&str> = run.get_arguments().filter_map(|arg| arg.get_long()).collect();
        let is_ours = |theirs: &str| ours.contains(&theirs.trim_start_matches('-'));
        assert_eq!(FLAGS.iter().find(|(theirs, _)| is_ours(theirs)), None);
        let is_ours = |theirs: &str| command.find_subcommand(theirs).is_some();
        assert_eq!(COMMANDS.iter().find(|(theirs, _)| is_ours(theirs)), None);
    }
}
