//! What a person has allowed for longer than a session: rules for a folder, or for all sessions, in a file of their own.
//!
//! They are a layer of the user's voice, between the user's file and what variables and flags say. The file lies in the data
//! folder, which no tool reaches. A file that cannot be understood, or that others may write, allows nothing, and says so.

use crate::list_file::{ListFile, Lock};
use crate::permission::read_rule;
use piton_core::ids::TimeMs;
use piton_core::permission::{Action, Rule, Rules, Voice};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The list of what is allowed for longer than a session.
#[derive(Debug)]
pub struct Standing {
    file: ListFile,
}

/// A rule on the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The rule, as it stands in a file.
    pub rule: String,
    /// The folder in whose sessions it holds; `None`: in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// When it was given.
    pub at_ms: TimeMs,
}

/// Why the list could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the list of what is always allowed, {}, {what}", file.display())]
pub struct StandingError {
    /// The list.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    allowed: Vec<Kept>,
}

impl Kept {
    /// The rule, of the user's voice; `None` where it is none, or would allow a whole tool that runs commands.
    pub fn rule(&self) -> Option<Rule> {
        let rule = read_rule(&self.rule, Action::Allow).ok()?;
        let from = match &self.folder {
            Some(folder) => format!("allowed for {}", folder.display()),
            None => "allowed everywhere".to_owned(),
        };
        Some(Rule { layer: Some(from), ..rule })
    }

    /// Whether it holds in a session of this folder.
    pub fn holds_in(&self, workspace: &Path) -> bool {
        self.folder.as_deref().is_none_or(|folder| folder == workspace)
    }
}

impl Standing {
    /// The list in this data folder. There need not be one yet.
    pub fn in_folder(data_dir: &Path) -> Self {
        Self { file: ListFile::new(data_dir.join("allowed.json")) }
    }

    /// Everything on it, in the order in which it was given.
    pub fn list(&self) -> Result<Vec<Kept>, StandingError> {
        Ok(self.read()?.allowed)
    }

    /// Adds what holds in a folder to a session's rules. A list that cannot be read adds nothing; what is wrong with it is for
    /// whoever begins the session to tell.
    pub fn add_to(&self, rules: &mut Rules, workspace: &Path) -> Result<(), String> {
        let kept = self.list().map_err(|error| format!("{error}; nothing on it is allowed"))?;
        let said_now = |rule: &Rule| {
            rule.voice == Voice::User
                && rule.layer.as_deref().is_some_and(|layer| layer.starts_with("--") || layer.starts_with("PITON_"))
        };
        // `--deny '*'` is about everything that was said before.
        if rules.0.iter().any(|rule| said_now(rule) && rule.tool == "*" && rule.pattern.is_none()) {
            return Ok(());
        }
        let at = rules.0.iter().position(said_now).unwrap_or(rules.0.len());
        let holding = kept.iter().filter(|kept| kept.holds_in(workspace)).filter_map(Kept::rule);
        rules.0.splice(at..at, holding.collect::<Vec<_>>());
        Ok(())
    }

    /// From now on these hold in a folder, or everywhere.
    pub fn give(&self, rules: &Rules, folder: Option<&Path>, at_ms: TimeMs) -> Result<(), StandingError> {
        let lock = self.file.lock().map_err(|what| self.error(what))?;
        let mut list = self.read()?;
        for rule in rules.0.iter().map(ToString::to_string) {
            let kept = Kept { rule, folder: folder.map(Path::to_owned), at_ms };
            if !list.allowed.iter().any(|known| (&known.rule, &known.folder) == (&kept.rule, &kept.folder)) {
                list.allowed.push(kept);
            }
        }
        self.write(&list, &lock)
    }

    /// Takes back what holds in a folder of these names, or all of it where none is named. What was taken back.
    pub fn take_back(&self, names: &[String], workspace: &Path) -> Result<Vec<Kept>, StandingError> {
        let lock = self.file.lock().map_err(|what| self.error(what))?;
        let mut list = self.read()?;
        let is_named = |kept: &Kept| {
            let called = |name: &String| kept.rule == *name || kept.rule().is_some_and(|rule| rule.is_called(name));
            kept.holds_in(workspace) && (names.is_empty() || names.iter().any(called))
        };
        let (gone, kept) = list.allowed.into_iter().partition::<Vec<_>, _>(is_named);
        list.allowed = kept;
        if !gone.is_empty() {
            self.write(&list, &lock)?;
        }
        Ok(gone)
    }

    fn read(&self) -> Result<List, StandingError> {
        let Some(bytes) = self.file.bytes().map_err(|what| self.error(what))? else { return Ok(List::default()) };
        let mode = std::fs::metadata(self.file.path()).map_or(0, |found| found.permissions().mode() & 0o777);
        if mode & 0o022 != 0 {
            return Err(self.error(format!("may be written by others (mode {mode:o}); chmod 600 it if it is yours")));
        }
        let list: List = serde_json::from_slice(&bytes).map_err(|error| {
            self.error(format!("cannot be understood ({error}); correct it, or remove it to be asked again"))
        })?;
        match list.allowed.iter().find(|kept| kept.rule().is_none()) {
            Some(kept) => Err(self.error(format!("holds `{}`, which is no rule; remove that line", kept.rule))),
            None => Ok(list),
        }
    }

    fn write(&self, list: &List, lock: &Lock) -> Result<(), StandingError> {
        self.file.write(list, lock).map_err(|what| self.error(what))
    }

    fn error(&self, what: String) -> StandingError {
        StandingError { file: self.file.path().to_owned(), what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_tools::private;

    fn rules(texts: &[&str]) -> Rules {
        Rules(texts.iter().map(|text| Rule::parse(text, Action::Allow).expect("a rule")).collect())
    }

    #[test]
    fn what_is_kept_holds_in_its_folder_until_it_is_taken_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let standing = Standing::in_folder(dir.path());
        standing.give(&rules(&["bash(git log *)"]), Some(Path::new("/w")), 1).expect("written");
        standing.give(&rules(&["bash(ls *)"]), None, 2).expect("written");
        let in_force = |folder: &str| {
            let mut all = Rules::default();
            standing.add_to(&mut all, Path::new(folder)).expect("a list");
            all.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(in_force("/w"), ["bash(git log *)", "bash(ls *)"]);
        assert_eq!(in_force("/other"), ["bash(ls *)"]);
        let mode = std::fs::metadata(dir.path().join("allowed.json")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let gone = standing.take_back(&["bash(git log *)".to_owned()], Path::new("/w")).expect("written");
        assert_eq!((gone.len(), in_force("/w")), (1, vec!["bash(ls *)".to_owned()]));
    }

    #[test]
    fn a_list_that_is_not_as_it_should_be_allows_nothing_and_says_so() {
        let dir = tempfile::tempdir().expect("a folder");
        let (standing, file) = (Standing::in_folder(dir.path()), dir.path().join("allowed.json"));
        let said = || {
            let mut all = Rules::default();
            let told = standing.add_to(&mut all, Path::new("/w")).expect_err("it is not as it should be");
            assert!(all.is_empty());
            told
        };
        private::write(&file, b"{").expect("written");
        assert!(said().contains("cannot be understood"), "{}", said());
        private::write(&file, br#"{"allowed":[{"rule":"bash(ls *)","at_ms":1},{"rule":"bash(","at_ms":1}]}"#)
            .expect("written");
        assert!(said().contains("`bash(`, which is no rule"), "{}", said());
        private::write(&file, br#"{"allowed":[{"rule":"*","at_ms":1,"action":"allow"}]}"#).expect("written");
        assert!(said().contains("cannot be understood"), "{}", said());
        private::write(&file, br#"{"allowed":[{"rule":"bash(ls *)","at_ms":1}]}"#).expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o622)).expect("changed");
        assert!(said().contains("may be written by others"), "{}", said());
    }

    #[test]
    fn flags_of_a_run_come_behind_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let standing = Standing::in_folder(dir.path());
        standing.give(&rules(&["bash(ls *)"]), None, 1).expect("written");
        let flag =
            |text: &str, action| Rule { layer: Some("--ask".to_owned()), ..Rule::parse(text, action).expect("a rule") };
        let with = |rule: Rule| {
            let mut all = Rules(vec![rule]);
            standing.add_to(&mut all, Path::new("/w")).expect("a list");
            all.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(with(flag("bash(ls *)", Action::Ask)), ["bash(ls *)", "bash(ls *)"]);
        assert_eq!(with(flag("*", Action::Deny)), ["*"], "a word about all tools is about these, too");
    }
}
