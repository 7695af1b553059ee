//! A question to a person, as data: whoever knows what is at stake words it (a tool, the turn), any front end draws it.
//! It is recorded when it is asked ([`crate::event::Event::ApprovalAsked`]), so that what a person saw is on record.
//!
//! This module must not know: how a question is drawn, and which tool it is about.

use crate::inquiry::{self, Given, Inquiry};
use crate::permission::Rules;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The question, in one line: `Run this command?`.
    pub title: String,
    /// The blocks that describe it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<QuestionBlock>,
    /// The possible answers. Any other text is a refusal that the model reads.
    pub choices: Vec<Choice>,
    /// A hash of title and body, so that an answer can name the question that it is for.
    pub shown: String,
    /// The files that the call would change, as they were when Piton asked: a yes covers only these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<Target>,
    /// The model's own questions (`ask_user`), which take answers in words ([`Decision::Answered`]) instead of yes or no. The
    /// body has them as text too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inquiry: Option<Box<Inquiry>>,
}

/// A file that a call would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its real path, absolute, with all links resolved.
    pub path: String,
    /// A hash of its content; `None` if the file does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// A fact about a call that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// Its subject.
    pub about: About,
    /// The text.
    pub text: String,
}

/// The subject of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The part that made Piton ask, with the rule or the reason.
    Asked,
    /// The folder in which it runs.
    Folder,
    /// The file that a link leads to.
    Link,
    /// Whether it runs in the sandbox.
    Place,
    /// Its reach: files and hosts.
    Reach,
    /// Invisible characters, by their names.
    Hidden,
}

/// A range of bytes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    /// The first byte.
    pub from: usize,
    /// One past the last byte.
    pub to: usize,
}

/// Where an answer applies beyond the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasting {
    /// In every session of this folder.
    Folder,
    /// In every session.
    Everywhere,
}

/// A block of a question. Nothing in it is shortened or escaped: views do that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum QuestionBlock {
    /// Prose.
    Text {
        /// The text.
        text: String,
    },
    /// A complete shell script.
    Command {
        /// The script.
        command: String,
        /// The parts that made Piton ask, in order. They do not overlap.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        marks: Vec<Mark>,
    },
    /// Facts that a person should know.
    Facts {
        /// The facts, in order.
        facts: Vec<Fact>,
    },
    /// A change to a file.
    Diff {
        /// The file, as people see it.
        path: String,
        /// A unified diff without file names.
        unified: String,
    },
    /// The tool's input as JSON.
    Json {
        /// The JSON text.
        json: String,
    },
    /// Who wants a person to decide, and why.
    Note {
        /// The reason, for people.
        text: String,
    },
}

/// One possible answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// One word, different from the others in its first letter: `yes`, `always`, `no`.
    pub name: String,
    /// An explanation, if any: what `always` covers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The answer to send.
    pub decision: Decision,
    /// The rules that this answer adds to the session's.
    #[serde(default, skip_serializing_if = "Rules::is_empty")]
    pub grants: Rules,
}

/// The answer to a question, by a person or in place of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes, this once.
    Approve,
    /// Yes, and add the rules of this choice (`grants`) to the session's.
    ApproveForSession,
    /// Yes, and add the same rules for later sessions too.
    ApproveLasting(Lasting),
    /// Yes, this once, with this input in place of the model's: a complete JSON object.
    ApproveChanged(Value),
    /// No; the model reads the text, if there is any.
    Deny(Option<String>),
    /// The answers to the questions of an inquiry, in order; an empty list is the default of that question.
    Answered(Vec<Vec<String>>),
    /// Nobody was there to answer.
    Unattended,
    /// Nobody answered an inquiry in time.
    Expired,
}

impl Decision {
    /// Whether it says yes to what was asked, as it was asked.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Approve | Self::ApproveForSession | Self::ApproveLasting(_))
    }

    /// What it is to an inquiry.
    pub fn given(&self) -> Given<'_> {
        match self {
            Self::Answered(answers) => Given::Answers(answers),
            Self::Approve | Self::ApproveForSession | Self::ApproveLasting(_) | Self::ApproveChanged(_) => {
                Given::Defaults
            }
            Self::Deny(words) => Given::Refused(words.as_deref()),
            Self::Unattended => Given::Nobody,
            Self::Expired => Given::TooLate,
        }
    }
}

impl Question {
    /// A question with these answers.
    pub fn new(title: impl Into<String>, body: Vec<QuestionBlock>, choices: Vec<Choice>) -> Self {
        let title = title.into();
        let shown = hash(&title, &body);
        Self { title, body, choices, shown, bound: Vec::new(), inquiry: None }
    }

    /// The question whether a call may run, with the answers yes, always (if that adds these rules) and no.
    pub fn may_run(title: impl Into<String>, body: Vec<QuestionBlock>, remember: Rules) -> Self {
        let mut choices = vec![Choice::new("yes", Decision::Approve), Choice::new("no", Decision::Deny(None))];
        if !remember.is_empty() {
            let always = Choice::new("always", Decision::ApproveForSession);
            let rules: Vec<String> = remember.0.iter().map(ToString::to_string).collect();
            let label = format!("{} (in this session)", rules.join(", "));
            choices.insert(1, Choice { label, grants: remember, ..always });
        }
        Self::new(title, body, choices)
    }

    /// Questions of the model's own, and who else wants them to be asked.
    pub fn inquire(inquiry: Inquiry, notes: impl IntoIterator<Item = QuestionBlock>) -> Self {
        let title = match inquiry.questions.as_slice() {
            [one] if !one.header.is_empty() => one.header.clone(),
            [_] => "The model asks you".to_owned(),
            several => format!("The model asks you {} questions", several.len()),
        };
        let text = QuestionBlock::Text { text: inquiry::as_text(&inquiry) };
        let body = std::iter::once(text).chain(notes).collect();
        Self { inquiry: Some(Box::new(inquiry)), ..Self::new(title, body, Vec::new()) }
    }

    /// Why this is no answer to it.
    pub fn refuses(&self, decision: &Decision) -> Option<String> {
        match (&self.inquiry, decision) {
            (_, Decision::Expired) => Some("only time says that".to_owned()),
            (None, Decision::Answered(_)) => {
                Some("this question is answered by yes or no, and not in words".to_owned())
            }
            (Some(inquiry), Decision::Answered(answers)) => inquiry.refuses(answers),
            (Some(inquiry), Decision::ApproveChanged(input)) if inquiry.plan.is_some() && input.is_object() => None,
            (Some(_), Decision::ApproveChanged(_)) => Some("this question is answered in words".to_owned()),
            (_, _) => None,
        }
    }

    /// The same, with an "always" for the folder and for all sessions.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        let always = |choice: &&Choice| choice.decision == Decision::ApproveForSession;
        let Some(rules) = self.choices.iter().find(always).map(|choice| choice.grants.clone()) else { return self };
        let lasting = [
            ("folder", Lasting::Folder, "(the same, always here)"),
            ("everywhere", Lasting::Everywhere, "(the same, always)"),
        ];
        let choices = lasting.map(|(name, lasting, label)| Choice {
            label: label.to_owned(),
            grants: rules.clone(),
            ..Choice::new(name, Decision::ApproveLasting(lasting))
        });
        let at = self.choices.iter().position(|choice| choice.name == "no").unwrap_or(self.choices.len());
        self.choices.splice(at..at, choices);
        self
    }

    /// What this answer adds to the session's rules.
    pub fn grants(&self, decision: &Decision) -> Rules {
        let chosen = self.choices.iter().find(|choice| choice.decision == *decision);
        chosen.map(|choice| choice.grants.clone()).unwrap_or_default()
    }
}

impl Choice {
    /// An answer that grants nothing.
    pub fn new(name: &str, decision: Decision) -> Self {
        Self { name: name.to_owned(), label: String::new(), decision, grants: Rules::default() }
    }
}

/// FNV-1a: it tells questions of one session apart, nothing more.
fn hash(title: &str, body: &[QuestionBlock]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let text = serde_json::to_string(&(title, body)).unwrap_or_default();
    let hash = text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}
