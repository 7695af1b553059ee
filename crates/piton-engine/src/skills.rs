//! Skills: instructions for a kind of work, with their files. The model loads one with the tool [`piton_tools::skill`]; a person
//! starts one like a command.

pub mod file;
pub mod validate;

use crate::commands::Expanded;
use crate::directions::Directions;
use crate::spelling::did_you_mean;
use piton_core::effort::Effort;
use piton_tools::skill::{self, Skills as SkillTool};
use piton_tools::subagent::GENERAL;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A skill.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Skill {
    /// The part for the model: name, description, text and folder.
    pub given: Arc<skill::Skill>,
    /// Its file.
    pub file: PathBuf,
    /// Whether a person can start it, as `/name`.
    pub is_for_people: bool,
    /// Its argument hint, for people.
    pub argument_hint: Option<String>,
    /// How it is carried out when a person starts it, unless it runs in a session of its own.
    pub directions: Directions,
    /// The agent that runs it in a session of its own, if it runs that way.
    pub fork: Option<Fork>,
    /// Its license.
    pub license: Option<String>,
    /// Its requirements.
    pub compatibility: Option<String>,
    /// Other metadata of its author.
    pub metadata: BTreeMap<String, String>,
}

/// How a skill runs in a session of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fork {
    /// The agent, if the skill names one.
    pub agent: Option<String>,
    /// The model, if it differs from the agent's.
    pub model: Option<String>,
    /// The model's reasoning effort.
    pub effort: Option<Effort>,
}

impl Skill {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.given.name
    }
}

impl Fork {
    /// The agent that runs it.
    pub fn agent(&self) -> &str {
        self.agent.as_deref().unwrap_or(GENERAL)
    }
}

/// The skills of a session, in order of precedence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Skills(Vec<Arc<Skill>>);

impl Skills {
    /// These.
    pub fn new(skills: impl IntoIterator<Item = Skill>) -> Self {
        Self(skills.into_iter().map(Arc::new).collect())
    }

    /// All skills.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.0.iter()
    }

    /// The skill of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.0.iter().find(|skill| skill.name() == name)
    }

    /// The skills that a person can start.
    pub fn for_people(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.0.iter().filter(|skill| skill.is_for_people)
    }

    /// The tool with which a model loads them; `None` if the model may load none.
    pub fn tool(&self) -> Option<SkillTool> {
        SkillTool::new(self.0.iter().map(|skill| Arc::clone(&skill.given)).collect())
    }

    /// The prompt of a person who starts this skill with these words; `None` if there is no such skill that a person
    /// can start. Reads the skill's folder.
    pub fn prompt(&self, name: &str, words: &str) -> Option<Expanded> {
        let skill = self.get(name).filter(|skill| skill.is_for_people)?;
        Some(Expanded {
            allows: skill.given.allows.clone(),
            directions: skill.directions.clone(),
            file: skill.file.clone(),
            ..Expanded::of(skill.given.pieces(words))
        })
    }

    /// The skills of an agent whose file has these names, and the names that match no skill.
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

    /// A suggestion for a misspelled name, as the end of a sentence.
    pub fn meant(&self, name: &str) -> String {
        did_you_mean(name, self.0.iter().map(|skill| skill.name()))
    }
}
