//! Puts questions to the person at the terminal, one at a time.
//!
//! A thread of its own reads lines, so that the turn stays alive meanwhile. A line counts only for the question that
//! was on the screen when it was typed: what was typed before is thrown away, for it may not have been meant as a yes.

use crate::out::view::{self, TextView};
use anstyle::Style;
use piton_core::call::CallInput;
use piton_core::client::Published;
use piton_core::event::{Decision, Event, Subject, Verdict};
use piton_core::ids::CallId;
use piton_core::message::ToolCall;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Lines of a change that are shown; of a longer one, the beginning and the end. A command is always shown whole.
const SHOWN_LINES: usize = 40;
/// Once so often something was shown over a question, it is asked whole again: it may have left the screen.
const MOST_COVERS: u32 = 6;
const BOLD: Style = Style::new().bold();

/// The questions of one run.
pub(crate) struct Questions {
    attended: bool,
    /// Where the calls would act.
    workspace: PathBuf,
    waiting: VecDeque<Subject>,
    /// Why hooks want to have a person asked.
    reasons: HashMap<CallId, String>,
    open: Option<Open>,
    lines: Option<UnboundedReceiver<String>>,
}

/// The question on the screen.
struct Open {
    subject: Subject,
    about: String,
    prompt: String,
    /// How often something was shown over it since it was asked whole.
    covers: u32,
}

impl Questions {
    /// No questions yet. Where nobody sits there, they answer themselves and none is ever shown.
    pub(crate) fn new(attended: bool, workspace: PathBuf) -> Self {
        // From the beginning: what is typed before a question must not be taken for its answer.
        let (waiting, reasons) = (VecDeque::new(), HashMap::new());
        Self { attended, workspace, waiting, reasons, open: None, lines: attended.then(read_lines) }
    }

    /// Whether a question is on the screen.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes notice of a question that was raised or answered.
    pub(crate) fn hear(&mut self, published: &Published) {
        let Published::Recorded(record) = published else { return };
        match &record.event {
            Event::CallRequested { call, verdict: Verdict::AskFirst(reason), .. } if self.attended => {
                self.reasons.insert(call.clone(), reason.clone());
            }
            Event::ApprovalAsked { subject } if self.attended => self.waiting.push_back(subject.clone()),
            Event::ApprovalGiven { subject, .. } => {
                self.waiting.retain(|waiting| waiting != subject);
                self.open.take_if(|open| open.subject == *subject);
            }
            Event::TurnEnded { .. } => (self.open, self.waiting) = (None, VecDeque::new()),
            _ => {}
        }
    }

    /// Puts the next question on the screen, or the open one again if something was shown over it.
    pub(crate) fn show(&mut self, view: &mut TextView) {
        let was_covered = view.has_spoken();
        if let Some(open) = &mut self.open {
            if was_covered {
                open.covers += 1;
                if open.covers.is_multiple_of(MOST_COVERS) {
                    view.note(&open.about);
                }
                view.prompt(&open.prompt);
            }
            return;
        }
        let Some(subject) = self.waiting.pop_front() else { return };
        self.forget_what_was_typed();
        let (mut about, prompt) = words(view, &subject, &self.workspace);
        about.push_str(&self.because(&subject));
        view.note(&about);
        view.prompt(&prompt);
        self.open = Some(Open { subject, about, prompt, covers: 0 });
    }

    /// What a hook says about a question that is its own.
    fn because(&self, subject: &Subject) -> String {
        let Subject::Call(id) = subject else { return String::new() };
        match self.reasons.get(id).map(String::as_str) {
            None => String::new(),
            Some("") => "\nA hook wants you to be asked, and gave no reason.".to_owned(),
            Some(reason) => format!("\nA hook wants you to be asked: {}", view::clean(reason)),
        }
    }

    fn forget_what_was_typed(&mut self) {
        // Not a terminal: then nothing waits in one.
        let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        while self.lines.as_mut().is_some_and(|lines| lines.try_recv().is_ok()) {}
    }

    /// The answer to the open question. Waits for ever when there is none.
    pub(crate) async fn answer(&mut self) -> (Subject, Decision) {
        let (Some(open), Some(lines)) = (&self.open, &mut self.lines) else { return std::future::pending().await };
        let line = lines.recv().await;
        let subject = open.subject.clone();
        self.open = None;
        (subject, decision(line.as_deref()))
    }
}

/// What a line means; `None` is the end of the input.
fn decision(line: Option<&str>) -> Decision {
    let Some(line) = line else { return Decision::Unattended };
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Decision::Approve,
        "a" | "always" => Decision::ApproveForSession,
        "n" | "no" | "" => Decision::Deny(None),
        _ => Decision::Deny(Some(line.trim().to_owned())),
    }
}

fn read_lines() -> UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What is asked about, and the line that asks.
fn words(view: &TextView, subject: &Subject, workspace: &Path) -> (String, String) {
    match (subject, view.call(subject)) {
        (Subject::Call(_), Some(asked)) => {
            let (id, name, input) = (asked.call.clone(), asked.tool.clone(), asked.input.clone());
            let call = &ToolCall { id, provider_id: None, name, input, opaque: None };
            let prompt =
                format!("[y]es, [a]lways {}, [n]o (or Enter), or what to do instead: ", view::first_line(&call.name));
            (format!("{BOLD}May it {}?{BOLD:#}\n{}", verb(call, workspace), view::indent(&preview(call))), prompt)
        }
        (Subject::GoOn(_), Some(call)) => {
            let about =
                format!("{BOLD}It repeats {} {} with the same result.{BOLD:#}", call.tool, view::gist(&call.about));
            (about, "Let it go on? [y]es, [n]o: ".to_owned())
        }
        (Subject::Call(id) | Subject::GoOn(id), None) => (format!("May {id} go on?"), "[y]es, [n]o: ".to_owned()),
    }
}

fn verb(call: &ToolCall, workspace: &Path) -> String {
    let path = view::first_line(text(call, "path"));
    match call.name.as_str() {
        "bash" => "run this".to_owned(),
        "write" => match std::fs::read(workspace.join(text(call, "path"))) {
            Ok(old) => {
                let lines = old.iter().filter(|byte| **byte == b'\n').count();
                let new = text(call, "content").lines().count();
                format!(
                    "overwrite {path}, {} with {}",
                    view::plural(lines as u64, "line"),
                    view::plural(new as u64, "line")
                )
            }
            Err(_) => format!("write the new file {path}"),
        },
        "edit" => format!("edit {path}"),
        name => format!("use {}", view::first_line(name)),
    }
}

/// What the call would do, for a person to judge.
fn preview(call: &ToolCall) -> String {
    match call.name.as_str() {
        "bash" => text(call, "command").lines().map(view::clean).collect::<Vec<_>>().join("\n"),
        "write" => cut(text(call, "content").lines().map(|line| format!("+{line}"))),
        "edit" => {
            let old = text(call, "old_string").lines().map(|line| format!("-{line}"));
            let new = text(call, "new_string").lines().map(|line| format!("+{line}"));
            view::colour_diff(&cut(old.chain(new)))
        }
        _ => match &call.input {
            CallInput::Json(input) => cut(std::iter::once(input.to_string())),
            CallInput::Invalid { .. } => String::new(),
        },
    }
}

fn cut(lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = lines.map(|line| view::clean(&line)).collect();
    let more = lines.len().saturating_sub(SHOWN_LINES);
    if more > 0 {
        let mark = format!("… {} …", view::plural(more as u64, "more line"));
        lines.splice(SHOWN_LINES / 2..SHOWN_LINES / 2 + more, [mark]);
    }
    lines.join("\n")
}

/// A field of the input, by the name in the schema or one of those that models use instead.
fn text<'c>(call: &'c ToolCall, field: &str) -> &'c str {
    let others: &[&str] = match field {
        "path" => &["filePath", "file_path"],
        "old_string" => &["oldString"],
        "new_string" => &["newString"],
        _ => &[],
    };
    let CallInput::Json(input) = &call.input else { return "" };
    let found = std::iter::once(&field).chain(others).find_map(|name| input.get(*name).and_then(Value::as_str));
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        assert_eq!(decision(Some(" Y ")), Decision::Approve);
        assert_eq!(decision(Some("always")), Decision::ApproveForSession);
        assert_eq!(decision(Some("")), Decision::Deny(None));
        assert_eq!(decision(Some("Yes, but use git mv")), Decision::Deny(Some("Yes, but use git mv".to_owned())));
        assert_eq!(decision(None), Decision::Unattended);
    }

    #[test]
    fn a_preview_shows_what_would_happen_and_cannot_hide_it() {
        let call = |name: &str, input: Value| ToolCall {
            id: "c1_0".into(),
            provider_id: None,
            name: name.into(),
            input: CallInput::Json(input),
            opaque: None,
        };
        let command = serde_json::json!({"command": "rm -rf x\u{1b}[2K\recho harmless"});
        assert_eq!(preview(&call("bash", command)), "rm -rf x�[2K�echo harmless");
        let long = serde_json::json!({"path": "a", "content": "line\n".repeat(50) + "end"});
        let shown = preview(&call("write", long));
        assert!(shown.contains("… 11 more lines …") && shown.ends_with("+end"), "{shown}");
        let script = serde_json::json!({"command": "true\n".repeat(500)});
        assert_eq!(preview(&call("bash", script)).lines().count(), 500, "a command is shown whole");
        let edit = serde_json::json!({"filePath": "a.rs", "oldString": "one", "newString": "two"});
        assert_eq!(verb(&call("edit", edit.clone()), Path::new("/")), "edit a.rs");
        let plain = anstream::adapter::strip_str(&preview(&call("edit", edit))).to_string();
        assert_eq!(plain, "-one\n+two");
    }
}
