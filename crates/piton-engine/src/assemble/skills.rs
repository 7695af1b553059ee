//! The skills of a session: those of the project, as far as the user trusts them, and the user's own.

use super::entries::{self, At, Entry, Files, Left, Places};
use super::notice::Notice;
use super::scope::Scope;
use super::trouble::Trouble;
use crate::agents::Agents;
use crate::config::trust::{Kind, repository};
use crate::plugins::PartKind;
use crate::settings::SandboxSettings;
use crate::skills::Skills;
use crate::skills::file::{self, FILE, Read};
use crate::tree::{Most, Tree};
use piton_core::hidden;
use piton_core::permission::Reach;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A skill that was found, and whether it counts.
pub type Found = entries::Found<Read>;

/// What trust in a skill covers. A skill with more cannot be trusted.
const MOST: Most = Most { files: 200, bytes: 16 << 20, depth: 8 };

impl Entry for Read {
    const PLACES: Places = Places {
        kind: Kind::Skill,
        of_repository: &[
            ".piton/skills",
            ".agents/skills",
            ".claude/skills",
            ".opencode/skills",
            ".opencode/skill",
            ".piton/skill",
        ],
        beside_config: &["skills"],
        of_home: &[".agents/skills", ".claude/skills", ".config/opencode/skills", ".config/opencode/skill"],
        files: Files::Named(FILE),
        tables: &[],
        of_plugin: PartKind::Skills,
    };

    fn read(at: &At, text: &str) -> Result<Self, String> {
        file::read(&at.file, text)
    }

    fn name(&self) -> &str {
        self.skill.name()
    }

    fn of_plugin(mut self, plugin: &str) -> Self {
        let name = format!("{plugin}:{}", self.skill.name());
        // A plugin's are written for Claude Code, wherever they lie.
        let given = Arc::make_mut(&mut self.skill.given);
        (given.name, given.is_claude) = (name, true);
        self
    }

    /// The files beside it, too: its words have the model run and read them.
    fn covers<'a>(at: &At, text: &'a str, left: &mut Left) -> Result<Cow<'a, str>, String> {
        let folder = at.file.parent().unwrap_or(&at.folder);
        let most = Most { bytes: left.at_most(MOST.bytes)?, ..MOST };
        let tree = Tree::read(folder, most, &|name| name == Path::new(FILE))?;
        left.take(tree.bytes());
        let lines = tree.lines();
        // What is hashed ends in what lies beside it, so that no text of the skill's can stand for files.
        let lines = if lines.is_empty() { "none\n" } else { &lines };
        Ok(Cow::Owned(format!("{}\n\nThe files beside it:\n{lines}", text.trim_end())))
    }
}

/// All skills that there are for a session, in the order in which they count.
pub fn look(scope: &Scope) -> Result<Vec<Found>, Trouble> {
    entries::look(scope, [])
}

/// Those that count. What does not, though it came with the repository, is named.
pub fn of_session(scope: &Scope, notices: &mut Vec<Notice>) -> Result<Skills, Trouble> {
    let all = entries::in_force(look(scope)?, notices);
    Ok(Skills::new(all.into_iter().map(|read| read.skill)))
}

/// Names the skills that agents want to be given and that there are not.
pub(super) fn missing(skills: &Skills, agents: &Agents, notices: &mut Vec<Notice>) {
    for agent in agents.iter() {
        let (_, missing) = skills.of_agent(&agent.skills);
        for name in missing {
            let (agent, named) = (hidden::visible_name(&agent.name), hidden::visible_name(name));
            let meant = skills.meant(name);
            notices.push(Notice::new(format!(
                "the agent {agent} names the skill {named}, which it cannot be given{meant}"
            )));
        }
    }
}

/// Has commands and tools see the folders of the user's own skills, and of plugins with what they keep: their words name files there.
/// Those of a repository lie in it.
pub(super) fn show(skills: &Skills, scope: &Scope, reach: &mut Reach, sandbox: Option<&mut SandboxSettings>) {
    let of_skills = skills.iter().map(|skill| &skill.given.folder);
    let of_plugins = scope.plugins.in_force().flat_map(|(plugin, _)| [&plugin.root, &plugin.data]);
    let root = repository(&scope.workspace);
    let outside = of_skills.chain(of_plugins).filter(|folder| !folder.starts_with(root));
    let mut real = RealFolders::default();
    let folders: Vec<PathBuf> = outside.filter_map(|folder| real.of(folder)).collect();
    reach.read.extend(folders.iter().filter_map(|folder| folder.to_str()).map(str::to_owned));
    if let Some(sandbox) = sandbox {
        sandbox.read.extend(folders);
    }
}

/// Folders by their real names. Most stand beside each other: what is above them is looked up once.
#[derive(Default)]
struct RealFolders(HashMap<PathBuf, Option<PathBuf>>);

impl RealFolders {
    /// `None`: it is not there.
    fn of(&mut self, folder: &Path) -> Option<PathBuf> {
        let is_itself = fs::symlink_metadata(folder).ok()?.is_dir();
        let (Some(above), Some(name), true) = (folder.parent(), folder.file_name(), is_itself) else {
            return fs::canonicalize(folder).ok();
        };
        let above = self.0.entry(above.to_owned()).or_insert_with(|| fs::canonicalize(above).ok());
        above.as_ref().map(|above| above.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::entries::brought;
    use piton_tools::regular;
    use std::os::unix::fs::symlink;

    /// A repository with these files in the folder of a skill.
    fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join(".claude/skills/it");
        for (name, text) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("below a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        (root, folder)
    }

    fn covered(root: &Path) -> Result<(String, String), String> {
        let (_, read) = brought::<Read>(root).remove(0);
        read.map(|(item, text)| (item.hash, text))
    }

    #[test]
    fn trust_covers_every_file_and_a_link_as_a_link() {
        let (root, folder) = repository(&[("SKILL.md", "Do it."), ("scripts/a.sh", "true")]);
        symlink("/etc/passwd", folder.join("link")).expect("a link");
        let (first, text) = covered(root.path()).expect("covered");
        assert!(text.contains("link \"link\" to \"/etc/passwd\"\nfile \"scripts/a.sh\", 4 bytes, BLAKE3 "), "{text}");
        fs::write(folder.join("scripts/a.sh"), "rm -r x").expect("written");
        let (second, _) = covered(root.path()).expect("covered");
        fs::write(folder.join("new"), "").expect("written");
        let (third, _) = covered(root.path()).expect("covered");
        assert!(first != second && second != third, "a change of any file is one");
    }

    #[test]
    fn a_skill_that_trust_cannot_cover_is_left_out_and_says_why() {
        let (root, folder) = repository(&[("SKILL.md", "Do it.")]);
        fs::create_dir(folder.join("many")).expect("made");
        (0..=MOST.files).for_each(|n| fs::write(folder.join(format!("many/{n}")), "").expect("written"));
        assert!(covered(root.path()).unwrap_err().contains("more than 200 files"));
        fs::remove_dir_all(folder.join("many")).expect("removed");
        fs::write(folder.join("large"), vec![0; MOST.bytes + 1]).expect("written");
        let error = covered(root.path()).unwrap_err();
        assert!(error.contains("large cannot be read: it is too large"), "{error}");
        fs::remove_file(folder.join("large")).expect("removed");
        fs::write(folder.join("SKILL.md"), " ".repeat(regular::SETTINGS_BYTES + 1)).expect("written");
        assert!(covered(root.path()).unwrap_err().contains("it is too large: more than 1 MB"));
    }
}
