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
    /// The question itself, in one line: `Run this command?`.
    pub title: String,
    /// What it is about, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub body: Vec<QuestionBlock>,
    /// The answers on offer. Any other words are a refusal that the model reads.
    pub choices: Vec<Choice>,
    /// Names title and body: a hash of them, so that an answer can say which question it saw.
    pub shown: String,
    /// The files that would be changed, as they were when it was asked: a yes is to these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bound: Vec<Target>,
    /// The questions of the model's own (`ask_user`): they are answered in words ([`Decision::Answered`]) and not by yes or
    /// no. The body has them as text, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inquiry: Option<Box<Inquiry>>,
}

/// A file that a call would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Where it is, through all links. Absolute.
    pub path: String,
    /// A hash of what is in it; `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// What a person should know of a call beside what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it says something about.
    pub about: About,
    /// What it says.
    pub text: String,
}

/// What a fact says something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The part that made it a question, and which rule, or why.
    Asked,
    /// The folder in which it runs.
    Folder,
    /// The file that a link leads to.
    Link,
    /// Whether it runs in the sandbox.
    Place,
    /// What it can reach: files and hosts.
    Reach,
    /// Characters that are not seen, by their names.
    Hidden,
}

/// Bytes of a command, from the first to behind the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    /// The first byte.
    pub from: usize,
    /// Behind the last byte.
    pub to: usize,
}

/// How long an answer holds, beyond the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lasting {
    /// In every session of this folder.
    Folder,
    /// In every session.
    Everywhere,
}

/// A piece of a question. Nothing in it is cut or cleaned: that is up to whoever draws it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum QuestionBlock {
    /// Prose.
    Text {
        /// The prose itself.
        text: String,
    },
    /// A shell script, whole.
    Command {
        /// The script.
        command: String,
        /// The parts of it that made it a question, in order. They do not overlap.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        marks: Vec<Mark>,
    },
    /// What a person should know beside it.
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
    /// Data that a tool takes as it is.
    Json {
        /// The text of it.
        json: String,
    },
    /// Who wants the person to be asked, and why.
    Note {
        /// The reason, for people.
        text: String,
    },
}

/// One answer on offer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// One word, different from the others in its first letter: `yes`, `always`, `no`.
    pub name: String,
    /// More words, if any: what `always` covers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// The answer to send.
    pub decision: Decision,
    /// The rules that it adds to the session's.
    #[serde(default, skip_serializing_if = "Rules::is_empty")]
    pub grants: Rules,
}

/// A person's answer, or the answer in the place of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Yes, this once.
    Approve,
    /// Yes, and from here on by the rules that the question offers with it (`grants`).
    ApproveForSession,
    /// Yes, and from here on in later sessions, too, by the same rules.
    ApproveLasting(Lasting),
    /// Yes, this once and with this input, a whole JSON object, in the place of the model's.
    ApproveChanged(Value),
    /// No; the words, if any, reach the model.
    Deny(Option<String>),
    /// These words to each question of an inquiry, in order; no words: the default of that question.
    Answered(Vec<Vec<String>>),
    /// Nobody is there to answer.
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

    /// Whether a call may run: yes, always (where that would add these rules), or no.
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

    /// The same, where an "always" can also be for the folder and for all sessions.
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
