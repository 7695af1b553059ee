//! Skills: words about how a kind of work is done, with files that go with them. The model calls for one with the tool
//! [`piton_tools::skill`]; a person starts one as a command.

pub mod file;
pub mod validate;

use crate::commands::Expanded;
use crate::spelling::did_you_mean;
use piton_core::effort::Effort;
use piton_core::template::Piece;
use piton_tools::skill::{self, Skills as SkillTool};
use piton_tools::subagent::GENERAL;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A skill.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Skill {
    /// What the model is given of it: name, description, words and folder.
    pub given: Arc<skill::Skill>,
    /// Its file.
    pub file: PathBuf,
    /// Whether a person can start it, as `/name`.
    pub is_for_people: bool,
    /// What is to be said behind its name, for people.
    pub argument_hint: Option<String>,
    /// Who does it in a session of its own, where it is done so.
    pub fork: Option<Fork>,
    /// Under which terms it is passed on.
    pub license: Option<String>,
    /// What it needs.
    pub compatibility: Option<String>,
    /// Whatever else its author says of it.
    pub metadata: BTreeMap<String, String>,
}

/// Who does a skill in a session of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fork {
    /// The agent, where one is named.
    pub agent: Option<String>,
    /// Its model, where that is another than the agent's.
    pub model: Option<String>,
    /// How much that thinks.
    pub effort: Option<Effort>,
}

impl Skill {
    /// What it is called by.
    pub fn name(&self) -> &str {
        &self.given.name
    }
}

impl Fork {
    /// The agent that does it.
    pub fn agent(&self) -> &str {
        self.agent.as_deref().unwrap_or(GENERAL)
    }
}

/// The skills of a session, in the order in which they count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Skills(Vec<Arc<Skill>>);

impl Skills {
    /// These.
    pub fn new(skills: impl IntoIterator<Item = Skill>) -> Self {
        Self(skills.into_iter().map(Arc::new).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.0.iter()
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.0.iter().find(|skill| skill.name() == name)
    }

    /// Those that a person can start.
    pub fn for_people(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.0.iter().filter(|skill| skill.is_for_people)
    }

    /// The tool that gives them to a model; `None` where it may call none.
    pub fn tool(&self) -> Option<SkillTool> {
        SkillTool::new(self.0.iter().map(|skill| Arc::clone(&skill.given)).collect())
    }

    /// What a person says who starts the skill of this name with these words. `None`: there is none that a person can start. Reads
    /// the skill's folder.
    pub fn prompt(&self, name: &str, words: &str) -> Option<Expanded> {
        let skill = self.get(name).filter(|skill| skill.is_for_people)?;
        Some(Expanded { pieces: vec![Piece::Text(skill.given.told(words))], pictures: Vec::new() })
    }

    /// Those that an agent is given whose file names these, and the names that stand for none of them.
    pub fn of_agent<'n>(&self, names: &'n [String]) -> (Vec<&Arc<Skill>>, Vec<&'n str>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match self.get(name).filter(|skill| skill.given.is_for_model) {
                Some(skill) => found.push(skill),
                None => missing.push(name.as_str()),
            }
        }
        (found, missing)
    }

    /// The name that may be meant by one that there is not, as the end of a sentence.
    pub fn meant(&self, name: &str) -> String {
        did_you_mean(name, self.0.iter().map(|skill| skill.name()))
    }
}
