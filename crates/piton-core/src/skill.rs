//! Skills that a model was given in a session: what of them is put back beside a summary that stands for the calls.

use crate::call::{Outcome, Status};
use crate::ids::TimeMs;
use crate::limits::{SKILL_TOKENS, SKILLS_TOKENS};
use crate::message::Part;
use crate::permission::{Action, Grant, Rule};
use crate::tokens::Family;
use serde_json::Value;

/// The tool that gives them.
pub const TOOL: &str = "skill";

/// A skill as the model was given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenSkill {
    /// What it is called by.
    pub name: String,
    /// What the call came to.
    pub text: String,
}

impl GivenSkill {
    /// What a result gives, if it gives a skill: what a query found is none, nor is what a subagent made of one.
    pub fn of(part: &Part) -> Option<Self> {
        let Part::ToolResult { tool, outcome, .. } = part else { return None };
        let name = outcome.metadata.get(TOOL)?.as_str().filter(|_| tool == TOOL && outcome.status == Status::Ok)?;
        Some(Self { name: name.to_owned(), text: outcome.text.clone() })
    }
}

/// In the facts of a result: rules of what the skill allows.
pub const ALLOWS: &str = "allows";

/// What a call of the tool allows until the turn ends. It answers what the mode asks: no rule asked that, and none is lifted.
pub(crate) fn granted(tool: &str, outcome: &Outcome, at_ms: TimeMs) -> Vec<Grant> {
    let is_given = tool == TOOL && outcome.status == Status::Ok;
    let rules = outcome.metadata.get(ALLOWS).and_then(Value::as_array).filter(|_| is_given);
    grants(rules.into_iter().flatten().filter_map(Value::as_str), at_ms)
}

/// The same of a command or skill that a person started.
pub(crate) fn granted_by_person(rules: &[String], at_ms: TimeMs) -> Vec<Grant> {
    grants(rules.iter().map(String::as_str), at_ms)
}

fn grants<'r>(rules: impl Iterator<Item = &'r str>, at_ms: TimeMs) -> Vec<Grant> {
    let rules = rules.filter_map(|rule| Rule::parse(rule, Action::Allow).ok());
    rules.map(|rule| Grant { rule, asked_by: None, at_ms }).collect()
}

/// Takes in a skill that is given now: of one that was given before, the new text counts.
pub(crate) fn note(given: &mut Vec<GivenSkill>, new: GivenSkill) {
    given.retain(|known| known.name != new.name);
    given.push(new);
}

/// What is put back of them, the newest first and at most so many tokens of all. `None`: nothing has room.
pub fn put_back(given: &[GivenSkill], most_tokens: u64, family: Family) -> Option<String> {
    let mut left = SKILLS_TOKENS.min(most_tokens);
    let mut texts = Vec::new();
    for GivenSkill { name, text } in given.iter().rev() {
        let most = SKILL_TOKENS.min(left);
        let tokens = family.estimate(text);
        let text = match tokens <= most {
            true => text.clone(),
            false => {
                let bytes = (text.len() as u128 * u128::from(most) / u128::from(tokens)) as usize;
                let kept = &text[..text.floor_char_boundary(bytes)];
                format!("{kept}\n[cut here; call {TOOL} with the name {name} for all of it]")
            }
        };
        if most < SKILL_TOKENS && tokens > most {
            // The rest has no room, and a piece of a skill misleads.
            break;
        }
        left = left.saturating_sub(family.estimate(&text));
        texts.push(text);
    }
    (!texts.is_empty())
        .then(|| format!("Skills that you were given before, as they were then:\n\n{}", texts.join("\n\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn given(name: &str, words: usize) -> GivenSkill {
        GivenSkill { name: name.to_owned(), text: format!("{name}: {}", "word ".repeat(words)) }
    }

    #[test]
    fn the_newest_are_put_back_each_cut_to_its_share_and_no_more_than_there_is_room_for() {
        let family = Family::OpenAi;
        let all: Vec<GivenSkill> = (0..8).map(|n| given(&format!("skill-{n}"), 8_000)).collect();
        let text = put_back(&all, u64::MAX, family).unwrap();
        let named: Vec<bool> = (0..8).map(|n| text.contains(&format!("skill-{n}: word"))).collect();
        assert_eq!(named.iter().filter(|is_there| **is_there).count(), 4, "{named:?}");
        assert!(named[7] && text.find("skill-7: ") < text.find("skill-6: ") && text.contains("[cut here; call skill"));
        assert!(family.estimate(&text) <= SKILLS_TOKENS + 200, "{}", family.estimate(&text));
        let short = [given("old", 100), given("new", 100)];
        let text = put_back(&short, u64::MAX, family).unwrap();
        assert!(text.find("new: ") < text.find("old: ") && !text.contains("[cut here"));
        assert_eq!(put_back(&short, 10, family), None);
        assert!(put_back(&short, 150, family).unwrap().contains("new: "), "the newest has the room");
    }

    #[test]
    fn a_skill_is_what_the_tool_says_it_gave() {
        let result = |tool: &str, outcome: Outcome| Part::ToolResult { call: "c".into(), tool: tool.into(), outcome };
        let pdf = Outcome::ok("Read it.").with(json!({"skill": "pdf"}));
        assert_eq!(GivenSkill::of(&result("skill", pdf.clone())).unwrap().name, "pdf");
        assert_eq!(GivenSkill::of(&result("other", pdf)), None);
        assert_eq!(GivenSkill::of(&result("skill", Outcome::ok("None has these words."))), None);
        let mut all = vec![given("a", 1), given("b", 1)];
        note(&mut all, given("a", 2));
        assert_eq!(all.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    }
}
