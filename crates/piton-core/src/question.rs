//! A question to a person, as data: whoever knows what is at stake words it (a tool, the turn), any front end draws it.
//! It is recorded when it is asked ([`crate::event::Event::ApprovalAsked`]), so that what a person saw is on record.
//!
//! This module must not know: how a question is drawn, and which tool it is about.

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
    /// Yes, this once and with this input, a whole JSON object, in the place of the model's.
    ApproveChanged(Value),
    /// No; the words, if any, reach the model.
    Deny(Option<String>),
    /// Nobody is there to be asked.
    Unattended,
}

impl Question {
    /// A question with these answers.
    pub fn new(title: impl Into<String>, body: Vec<QuestionBlock>, choices: Vec<Choice>) -> Self {
        let title = title.into();
        let shown = hash(&title, &body);
        Self { title, body, choices, shown }
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
