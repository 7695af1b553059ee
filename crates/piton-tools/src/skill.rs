//! `skill`: gives the model a skill: words about how a kind of work is done, and the folder with the files that go with them.
//!
//! What there is stands in the tool's own description, as far as there is room; a query finds the rest. The bodies are those that
//! were read when the session was opened, which are those that the user trusts: what a file says since is not given. Where a skill
//! includes what commands print, they run first.

mod commands;

use self::commands::Text;
use crate::input::{parse_input, schema_of};
use crate::plan::{Look, Plan, QuestionDraft};
use crate::subagent;
use crate::tool::{Tool, ToolContext, blocking, interrupted};
use async_trait::async_trait;
use piton_core::call::{Access, CallKind, Effects, Outcome, Planned, ToolSpec, UNDONE};
use piton_core::compact::evenly;
use piton_core::hidden;
use piton_core::permission::use_of;
use piton_core::question::QuestionBlock;
use piton_core::skill::ALLOWS;
use piton_core::template::{self, Piece, Places};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name the model calls it by.
pub const NAME: &str = piton_core::skill::TOOL;

/// Bytes of names and descriptions in the tool's own description, and of what a query finds.
const CATALOGUE_BYTES: usize = 3_400;
/// Behind the text of a skill whose commands may not run, or not without being asked about.
const UNRUN: &str = "\n\n[The commands behind `!` were not run. Run those that you need.]";
/// A description is not cut to less than these bytes; what does not fit then is left out.
const SHORTEST_BYTES: usize = 60;
/// The most files of a skill that are named, and how deep it is looked for them.
const MOST_FILES: usize = 50;
const DEPTH: usize = 4;

/// A skill as the model is given it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Skill {
    /// What it is called by.
    pub name: String,
    /// What it is for and when, on one line.
    pub description: String,
    /// What it says, with places for words.
    pub body: String,
    /// Names for the single words.
    pub arguments: Vec<String>,
    /// Whether it was written for Claude Code, which counts words from 0 where a text says `$0`.
    pub is_claude: bool,
    /// Where its file and those that go with it lie.
    pub folder: PathBuf,
    /// Whether the model may call it; else only a person does.
    pub is_for_model: bool,
    /// What it allows until the turn ends in which the model calls for it, as rules.
    pub allows: Vec<String>,
    /// Whether a subagent does it, where one can be called; else it is given.
    pub is_fork: bool,
}

impl Skill {
    /// What it says about these words.
    pub fn filled(&self, words: &str) -> String {
        let folder = self.folder.display().to_string();
        let body = self.body.replace("${CLAUDE_SKILL_DIR}", &folder).replace("${SKILL_DIR}", &folder);
        template::expand_by(&body, words, &self.places())
    }

    fn places(&self) -> Places {
        let places = if self.is_claude { Places::of_claude(&self.body) } else { Places::default() };
        Places { names: self.arguments.clone(), ..places }
    }

    /// The same, with where it lies: what a subagent is told who does it.
    pub fn placed(&self, words: &str) -> String {
        format!("{}{}", self.filled(words), self.place())
    }

    fn place(&self) -> String {
        let folder = hidden::visible_line(&self.folder.display().to_string());
        format!("\n\nThe folder of this skill, to which its paths are relative: {folder}")
    }

    /// What it says about these words, with what lies in its folder. Reads that.
    pub fn told(&self, words: &str) -> String {
        self.framed(&self.filled(words))
    }

    fn framed(&self, said: &str) -> String {
        self.head() + said + &self.place() + &self.tail()
    }

    /// The same in pieces, for a person who starts it: with the commands whose output it includes.
    pub fn pieces(&self, words: &str) -> Vec<Piece> {
        let mut pieces = self.body_pieces(words);
        pieces.insert(0, Piece::Text(self.head()));
        pieces.push(Piece::Text(self.place() + &self.tail()));
        pieces
    }

    /// What it says about these words, in pieces. Reads nothing.
    fn body_pieces(&self, words: &str) -> Vec<Piece> {
        let folder = self.folder.display().to_string();
        let mut pieces = template::pieces(&self.body, words, &self.places());
        template::fill_variables(&mut pieces, &[("CLAUDE_SKILL_DIR", &folder), ("SKILL_DIR", &folder)]);
        pieces
    }

    fn head(&self) -> String {
        format!("<skill_content name=\"{}\">\n", self.name)
    }

    /// What stands behind its words: the files of its folder.
    fn tail(&self) -> String {
        let mut text = "\n".to_owned();
        let (mut files, all) = files(&self.folder);
        if !files.is_empty() {
            let more = all - files.len();
            files.extend((more > 0).then(|| format!("({more} more)")));
            let _ = writeln!(text, "Its files:\n{}", files.join("\n"));
        }
        text.push_str("</skill_content>");
        text
    }
}

/// The files below a skill's folder but its own, by name, and how many there are. Links are named and not followed.
fn files(folder: &Path) -> (Vec<String>, usize) {
    fn below(root: &Path, folder: &Path, depth: usize, found: &mut Vec<String>, all: &mut usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if is_folder && depth > 0 && name != ".git" {
                below(root, &path, depth - 1, found, all);
            } else if name != "SKILL.md" {
                *all += 1;
                if found.len() < MOST_FILES {
                    found.push(hidden::visible_line(&name) + if is_folder { "/" } else { "" });
                }
            }
        }
    }
    let (mut found, mut all) = (Vec::new(), 0);
    below(folder, folder, DEPTH, &mut found, &mut all);
    (found, all)
}

/// The tool.
#[derive(Debug, Clone)]
pub struct Skills {
    skills: Vec<Arc<Skill>>,
}

/// What the model sends.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Which skill
    #[serde(alias = "skill", alias = "command", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is to be used for, in the words that it asks for
    #[serde(alias = "args", skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// In the place of a name: words to look for among all skills
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// What a call wants.
enum Wanted<'a> {
    Skill(&'a Arc<Skill>, String),
    Found(String),
}

impl Input {
    /// The skill that is named, without the stroke of a command.
    pub fn skill(&self) -> Option<&str> {
        self.name.as_deref().map(|name| name.trim_start_matches('/'))
    }

    /// Reads what the model sent.
    pub fn read(input: &Value) -> Result<Self, Outcome> {
        let mut input: Self = parse_input(NAME, input)?;
        for field in [&mut input.name, &mut input.arguments, &mut input.query] {
            *field = field.take().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        }
        Ok(input)
    }
}

impl Skills {
    /// The tool that gives these. `None`: the model may call none of them.
    pub fn new(skills: Vec<Arc<Skill>>) -> Option<Self> {
        skills.iter().any(|skill| skill.is_for_model).then_some(Self { skills })
    }

    fn listed(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.skills.iter().filter(|skill| skill.is_for_model)
    }

    fn described(&self) -> String {
        let all: Vec<&Skill> = self.listed().map(|skill| &**skill).collect();
        let (list, left_out) = catalogue(&all);
        let more = match left_out {
            0 => String::new(),
            count => format!("\n- and {count} more: call `{NAME}` with a query"),
        };
        format!(
            "Gives you a skill: how a kind of work is done here. When one fits the task, call it before you begin. Skills:{list}{more}"
        )
    }

    fn wanted(&self, input: &Input) -> Result<Wanted<'_>, Outcome> {
        let Some(said) = input.skill() else {
            let Some(query) = &input.query else {
                return Err(Outcome::failed(format!("{NAME}: name a skill, or give a query to find one.")));
            };
            return Ok(Wanted::Found(self.found(query)));
        };
        let words = input.arguments.clone().unwrap_or_default();
        match self.skills.iter().find(|skill| skill.name == said) {
            Some(skill) if skill.is_for_model => Ok(Wanted::Skill(skill, words)),
            Some(_) => Err(Outcome::failed(format!(
                "{NAME}: {said} is not for you: only the user starts it, with /{said}. Do not do what it says on your own."
            ))),
            None => {
                let found = self.found(said);
                Err(Outcome::failed(format!("{NAME}: there is no skill {}. {found}", hidden::visible_name(said))))
            }
        }
    }

    /// Those that have words of the query, those with most first.
    fn found(&self, query: &str) -> String {
        let query = query.to_lowercase();
        let words: Vec<&str> = query.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let score = |skill: &Skill| -> usize {
            let (name, description) = (skill.name.to_lowercase(), skill.description.to_lowercase());
            let of = |word: &&str| 2 * usize::from(name.contains(word)) + usize::from(description.contains(word));
            words.iter().map(of).sum()
        };
        let mut found: Vec<(usize, &Skill)> = self.listed().map(|skill| (score(skill), &**skill)).collect();
        found.retain(|(score, _)| *score > 0);
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let found: Vec<&Skill> = found.into_iter().map(|(_, skill)| skill).collect();
        let all: Vec<&Skill> = self.listed().map(|skill| &**skill).collect();
        let (head, of) = match found.is_empty() {
            true => ("None has these words. There are:", &all),
            false => ("Skills with these words:", &found),
        };
        let (list, left_out) = catalogue(of);
        let more = if left_out == 0 { String::new() } else { format!("\n- and {left_out} more") };
        format!("{head}{list}{more}")
    }
}

/// A line for each as far as there is room, the longest descriptions cut first, and how many are left out.
fn catalogue(skills: &[&Skill]) -> (String, usize) {
    const AROUND: usize = "\n- : ".len();
    let taken = |skill: &Skill| AROUND + skill.name.len();
    let mut left = CATALOGUE_BYTES;
    let fits = |skill: &&&Skill| {
        let least = taken(skill) + skill.description.len().min(SHORTEST_BYTES);
        left.checked_sub(least).map(|rest| left = rest).is_some()
    };
    let named: Vec<&Skill> = skills.iter().take_while(fits).copied().collect();
    let names: usize = named.iter().map(|skill| taken(skill)).sum();
    let sizes = named.iter().map(|skill| skill.description.len() as u64).collect();
    let most = evenly(sizes, (CATALOGUE_BYTES - names) as u64);
    let mut list = String::new();
    for skill in &named {
        let _ = write!(
            list,
            "\n- {}: {}",
            skill.name,
            cut(&skill.description, usize::try_from(most).unwrap_or(usize::MAX))
        );
    }
    (list, skills.len() - named.len())
}

/// The beginning of a text, of at most so many bytes.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let most = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", text[..most].trim_end())
}

#[async_trait]
impl Tool for Skills {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: NAME.to_owned(),
            description: self.described(),
            schema: schema_of::<Input>(),
            effects: Effects::READ,
        }
    }

    fn canonical(&self, input: Value) -> Value {
        let Ok(read) = Input::read(&input) else { return input };
        serde_json::to_value(read).unwrap_or(input)
    }

    fn plan(&self, input: &Value, look: &Look) -> Result<Plan, Outcome> {
        let input = Input::read(input)?;
        let (skill, words) = match self.wanted(&input)? {
            Wanted::Skill(skill, words) => (skill, words),
            Wanted::Found(_) => {
                let query = hidden::visible_name(input.query.as_deref().unwrap_or_default());
                return Ok(reading(format!("find {query}"), None));
            }
        };
        let text = Text::of(skill, &words, &look.workspace, look.session.as_str()).filter(|_| look.has_shell);
        let plain = plain(skill);
        Ok(match text {
            Some(text) => commands::planned(skill, text.script(), plain, look),
            None => plain,
        })
    }

    async fn run(&self, input: Value, cx: &ToolContext) -> Outcome {
        let input = match Input::read(&input) {
            Ok(input) => input,
            Err(refused) => return refused,
        };
        match self.wanted(&input) {
            Ok(Wanted::Found(text)) => Outcome::ok(text).titled(format!("{NAME} (query)")),
            Ok(Wanted::Skill(_, _)) if cx.delegate.is_some() => subagent::answered(cx).await,
            Ok(Wanted::Skill(skill, words)) => given(skill, &words, false, cx).await,
            Err(refused) => refused,
        }
    }

    async fn settle(&self, input: Value, cx: &ToolContext) -> Outcome {
        if cx.delegate.is_some() {
            return subagent::answered(cx).await;
        }
        let input = match Input::read(&input) {
            Ok(input) => input,
            Err(refused) => return refused,
        };
        match self.wanted(&input) {
            Ok(Wanted::Skill(skill, words)) => given(skill, &words, true, cx).await,
            Ok(Wanted::Found(_)) => interrupted(),
            Err(refused) => refused,
        }
    }
}

/// The plan of a call that runs nothing.
fn plain(skill: &Skill) -> Plan {
    let used = Some(use_of(NAME, &skill.name));
    if !skill.is_fork {
        return reading(skill.name.clone(), used);
    }
    let plan = Plan::new(CallKind::Other, skill.name.clone(), Access::Spawn, question(&skill.name)).and_all(used);
    Plan { effects: Some(subagent::EFFECTS), ..plan }
}

fn reading(title: String, used: Option<Access>) -> Plan {
    let question = question(&title);
    Plan::of(Planned { kind: CallKind::Read, title, accesses: used.into_iter().collect() }, question)
}

fn question(shown: &str) -> QuestionDraft {
    let text = shown.to_owned();
    QuestionDraft::new(move || ("Use this skill?".to_owned(), vec![QuestionBlock::Text { text }]))
}

/// The skill about these words. `has_begun`: its commands were started by a process that is gone.
async fn given(skill: &Arc<Skill>, words: &str, has_begun: bool, cx: &ToolContext) -> Outcome {
    let text = Text::of(skill, words, &cx.workspace, cx.session.as_str());
    let run = text.as_ref().and_then(|text| Some((text, commands::judged(text, cx)?)));
    let (said, undone) = match run {
        Some((text, script)) => match commands::filled(text, script, has_begun, cx).await {
            Ok((said, facts)) => (said, facts.get(UNDONE).cloned()),
            Err(outcome) => return outcome.titled(format!("{NAME} {}", skill.name)),
        },
        // Those of another text than this were started, and nothing says how they ended.
        None if has_begun => return interrupted(),
        None if text.is_some() => (skill.filled(words) + UNRUN, None),
        None => (skill.filled(words), None),
    };
    let (skill, workspace) = (Arc::clone(skill), cx.workspace.display().to_string());
    let session = cx.session.as_str().to_owned();
    blocking(cx, move |_| {
        let mut facts = json!({NAME: skill.name, "folder": skill.folder, ALLOWS: skill.allows});
        if let Some(undone) = undone {
            facts[UNDONE] = undone;
        }
        let said = said.replace("${CLAUDE_PROJECT_DIR}", &workspace).replace("${CLAUDE_SESSION_ID}", &session);
        Ok(Outcome::ok(skill.framed(&said)).titled(format!("{NAME} {}", skill.name)).with(facts))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, description: &str) -> Arc<Skill> {
        let (name, description) = (name.to_owned(), description.to_owned());
        Arc::new(Skill { name, description, is_for_model: true, ..Skill::default() })
    }

    #[test]
    fn the_catalogue_has_its_room_and_the_longest_descriptions_are_cut_first() {
        let tool = Skills::new(vec![skill("short", "Does it."), skill("long", &"é".repeat(4_000))]).unwrap();
        let text = tool.described();
        assert!(text.contains("- short: Does it.\n- long: éé") && text.ends_with('…'), "{text}");
        let many = (0..200).map(|n| skill(&format!("skill-{n:03}"), &"It does a kind of work. ".repeat(20))).collect();
        let text = Skills::new(many).unwrap().described();
        assert!(text.len() <= CATALOGUE_BYTES + 250, "{} bytes", text.len());
        let named = text.matches("\n- skill-").count();
        assert!(
            named > 40 && text.ends_with(&format!("- and {} more: call `skill` with a query", 200 - named)),
            "{text}"
        );
    }

    #[test]
    fn a_skill_of_claude_code_counts_words_as_its_commands_do() {
        let of = |body: &str, is_claude| Skill { body: body.to_owned(), is_claude, ..Skill::default() };
        let text = "$0 $1 $ARGUMENTS[0] $ARGUMENTS[1]";
        assert_eq!(of(text, true).filled("one two three"), "one two one two");
        assert_eq!(of("$ARGUMENTS[0]", true).filled("one two"), "one");
        assert_eq!(of("$1 and $2", false).filled("one two three"), "one and two three");
    }

    #[test]
    fn a_person_who_starts_one_has_its_commands_run() {
        let skill = Skill {
            body: "On !`git branch` in ${CLAUDE_SKILL_DIR}: $1".to_owned(),
            folder: "/s".into(),
            ..Skill::default()
        };
        let pieces = skill.pieces("now");
        assert_eq!(
            pieces[1..4],
            [
                Piece::Text("On ".to_owned()),
                Piece::Shell("git branch".to_owned()),
                Piece::Text(" in /s: now".to_owned()),
            ]
        );
    }

    #[test]
    fn where_the_model_may_call_none_there_is_no_tool() {
        assert!(Skills::new(Vec::new()).is_none());
        let own = Skill { is_for_model: false, ..Skill::clone(&skill("deploy", "Deploys.")) };
        assert!(Skills::new(vec![Arc::new(own.clone())]).is_none());
        let tool = Skills::new(vec![Arc::new(own), skill("pdf", "Reads PDF files.")]).unwrap();
        assert!(!tool.described().contains("deploy"));
        let refused = |input: Value| tool.wanted(&Input::read(&input).unwrap()).err().unwrap().text;
        assert!(refused(json!({"name": "deploy"})).contains("only the user starts it, with /deploy"));
        let text = refused(json!({"skill": "pfd\u{1b}[2J"}));
        assert!(
            text.contains("- pdf: Reads PDF files.") && !text.contains('\u{1b}') && !text.contains("deploy"),
            "{text}"
        );
        assert!(refused(json!({})).contains("name a skill, or give a query"));
    }

    #[test]
    fn a_query_finds_by_name_and_description() {
        let tool = Skills::new(vec![skill("invoices", "Writes bills"), skill("pdf", "Reads forms and bills")]).unwrap();
        assert_eq!(
            tool.found("PDF bills"),
            "Skills with these words:\n- pdf: Reads forms and bills\n- invoices: Writes bills"
        );
        assert!(tool.found("zebra").starts_with("None has these words. There are:\n- invoices"));
    }

    #[test]
    fn a_body_has_the_words_in_their_places_and_the_files_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("scripts")).unwrap();
        for name in ["SKILL.md", "scripts/a.py", "notes.md"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        let arguments = vec!["file".to_owned(), "file-type".to_owned()];
        let body = "Read $file as $file-type in ${CLAUDE_SKILL_DIR}; $files costs $5.".to_owned();
        let skill =
            Skill { name: "pdf".to_owned(), body, arguments, folder: folder.path().to_owned(), ..Skill::default() };
        let text = skill.told("a.pdf form");
        let shown = folder.path().display();
        assert!(text.contains(&format!("Read a.pdf as form in {shown}; $files costs .")), "{text}");
        assert!(text.contains("Its files:\nnotes.md\nscripts/a.py\n</skill_content>"), "{text}");
        for n in 0..60 {
            fs::write(folder.path().join(format!("f{n:02}")), "x").unwrap();
        }
        assert!(skill.told("").contains("\n(12 more)\n"));
    }
}
