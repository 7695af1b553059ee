//! The commands in a skill that the model loads, whose output belongs to its text. They run as one script and as any command of the
//! model's does: [`Bash`] plans it, so that the same rules judge it, and runs it, at most once and confined.

use super::{NAME, Skill};
use crate::bash::Bash;
use crate::plan::{Look, Plan, QuestionDraft};
use crate::tool::{Tool, ToolContext};
use piton_core::call::{Access, CallKind, Effects, Outcome, Status};
use piton_core::permission::use_of;
use piton_core::question::QuestionBlock;
use piton_core::template::{self, Piece};
use serde_json::{Value, json};
use std::path::Path;

/// The text of a skill, with its commands in their places.
pub(super) struct Text {
    pieces: Vec<Piece>,
}

impl Text {
    /// A skill's, about these words. `None`: it has no commands.
    pub(super) fn of(skill: &Skill, words: &str, workspace: &Path, session: &str) -> Option<Self> {
        let mut pieces = skill.body_pieces(words);
        let workspace = workspace.to_string_lossy();
        let variables = [("CLAUDE_SESSION_ID", session), ("CLAUDE_PROJECT_DIR", &*workspace)];
        template::fill_variables(&mut pieces, &variables);
        let has_commands = !skill.is_fork && pieces.iter().any(|piece| matches!(piece, Piece::Shell(_)));
        has_commands.then_some(Self { pieces })
    }

    fn commands(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Shell(code) => Some(code.as_str()),
            Piece::Text(_) | Piece::Given(_) => None,
        })
    }

    /// What runs: a command alone as it is; of several each in a shell of its own, with a line behind all but the last.
    pub(super) fn script(&self) -> String {
        let all: Vec<&str> = self.commands().collect();
        let [before @ .., last] = &all[..] else { return String::new() };
        if before.is_empty() {
            return (*last).to_owned();
        }
        let told = |(at, code): (usize, &&str)| {
            let end = end(at);
            format!("(\n{code}\n)\necho \"\n{end}$?]\"\n")
        };
        before.iter().enumerate().map(told).collect::<String>() + &format!("(\n{last}\n)")
    }

    /// The whole text, where this was printed.
    pub(super) fn with(&self, printed: &str) -> String {
        let mut rest = printed;
        let mut outputs: Vec<String> = Vec::new();
        for at in 0..self.commands().count().saturating_sub(1) {
            let Some((output, behind)) = rest.split_once(&format!("\n{}", end(at))) else { break };
            let (code, behind) = behind.split_once("]").unwrap_or((behind, ""));
            let failed = if code == "0" { String::new() } else { format!("\n[exit code {code}]") };
            outputs.push(output.trim_end().to_owned() + &failed);
            rest = behind.strip_prefix('\n').unwrap_or(behind);
        }
        outputs.push(rest.trim_end().to_owned());
        let mut outputs = outputs.into_iter();
        // Of an output that was cut, what is there stands where it begins.
        let text = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Given(text) => text.clone(),
            Piece::Shell(_) => outputs.next().unwrap_or_default(),
        };
        self.pieces.iter().map(text).collect()
    }
}

/// The beginning of the line behind the output of a command.
fn end(at: usize) -> String {
    format!("[end of command {}, exit code ", at + 1)
}

/// The plan of a call that gives a skill with commands; `unrun`: that of one that gives it without what they print.
pub(super) fn planned(skill: &Skill, script: String, unrun: Plan, look: &Look) -> Plan {
    // One that no shell takes is for the model to read.
    let Ok(of_script) = Tool::plan(&Bash, &json!({"command": script}), look) else { return unrun };
    let name = skill.name.clone();
    let body =
        vec![QuestionBlock::Text { text: name.clone() }, QuestionBlock::Command { command: script, marks: Vec::new() }];
    let question = QuestionDraft::new(move || ("Use this skill, and run its commands?".to_owned(), body));
    let mut planned = of_script.planned;
    (planned.kind, planned.title) = (CallKind::Execute, name);
    planned.accesses.push(use_of(NAME, &skill.name));
    let (effects, instead) = (Some(Effects::OPAQUE), Some(Box::new(unrun)));
    Plan { effects, instead, places: of_script.places, ..Plan::of(planned, question) }
}

/// The script that a call runs: what it was judged by, and nothing that it has become since.
pub(super) fn judged<'a>(text: &Text, cx: &'a ToolContext) -> Option<&'a str> {
    let script = cx.accesses.iter().find_map(|access| match access {
        Access::Run(script) => Some(script.as_str()),
        _ => None,
    })?;
    (script == text.script()).then_some(script)
}

/// The skill's text with what its commands print; the error is the outcome of a call that gives no skill. `has_begun`: they were
/// started by a process that is gone.
pub(super) async fn filled(
    text: &Text,
    script: &str,
    has_begun: bool,
    cx: &ToolContext,
) -> Result<(String, Value), Outcome> {
    let input = json!({"command": script});
    let outcome = match has_begun {
        true => Bash.settle(input, cx).await,
        false => Bash.run(input, cx).await,
    };
    match outcome.status {
        Status::Ok | Status::Failed | Status::TimedOut => Ok((text.with(&outcome.text), outcome.metadata)),
        _ => Err(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str, words: &str) -> Option<Text> {
        let skill = Skill { body: body.to_owned(), ..Skill::default() };
        Text::of(&skill, words, Path::new("/w"), "ses_1")
    }

    #[test]
    fn a_command_alone_runs_as_it_is_and_its_output_takes_its_place() {
        assert!(text("No `command` here.", "").is_none());
        let one = text("On !`git branch`, ${CLAUDE_SESSION_ID}.", "").unwrap();
        assert_eq!(one.script(), "git branch");
        assert_eq!(one.with("main\n"), "On main, ses_1.");
        // What the model says is a value and no code.
        let said = text("It is !`echo $1`.", "'; rm -rf ~; '").unwrap();
        assert!(said.script().starts_with("set -- "), "{}", said.script());
        let fork = Skill { body: "On !`git branch`".to_owned(), is_fork: true, ..Skill::default() };
        assert!(Text::of(&fork, "", Path::new("/w"), "ses_1").is_none());
    }

    #[test]
    fn each_of_several_outputs_is_put_where_its_command_stands() {
        let three = text("A !`echo one` B !`exit 3` C !`echo three` D", "").unwrap();
        let line = |at: usize| format!("echo \"\n[end of command {at}, exit code $?]\"\n");
        let script = format!("(\necho one\n)\n{}(\nexit 3\n)\n{}(\necho three\n)", line(1), line(2));
        assert_eq!(three.script(), script);
        // As bash prints it.
        let printed = "one\n\n[end of command 1, exit code 0]\n\n[end of command 2, exit code 3]\nthree\n";
        assert_eq!(three.with(printed), "A one B \n[exit code 3] C three D");
        // Of one that was cut, nothing is lost.
        assert_eq!(three.with("one\n[… cut …]\nthree"), "A one\n[… cut …]\nthree B  C  D");
    }
}
