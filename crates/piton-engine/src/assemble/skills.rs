//! The skills of a session: those of the project, as far as the user trusts them, and the user's own.

use super::entries::{self, At, Entry, Files, Places};
use super::machine::Machine;
use super::notice::Notice;
use super::trouble::Trouble;
use crate::agents::Agents;
use crate::config::trust::{Item, Kind, repository};
use crate::settings::SandboxSettings;
use crate::skills::Skills;
use crate::skills::file::{self, FILE, Read};
use piton_core::hidden;
use piton_core::permission::Reach;
use piton_tools::regular;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A skill that was found, and whether it counts.
pub type Found = entries::Found<Read>;

/// The most files of a skill that trust covers, their bytes together, and how deep they lie. A skill with more cannot be trusted.
const MOST_FILES: usize = 200;
const MOST_BYTES: usize = 16 << 20;
const DEPTH: usize = 8;

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
    };

    fn read(at: &At, text: &str) -> Result<Self, String> {
        file::read(&at.file, text)
    }

    fn name(&self) -> &str {
        self.skill.name()
    }

    /// The files beside it, too: its words have the model run and read them.
    fn covers<'a>(at: &At, text: &'a str) -> Result<Cow<'a, str>, String> {
        let folder = at.file.parent().unwrap_or(&at.folder);
        let mut beside = Beside { root: folder, lines: String::new(), files: 0, bytes: MOST_BYTES };
        beside.add(folder, DEPTH)?;
        // What is hashed ends in what lies beside it, so that no text of the skill's can stand for files.
        let lines = if beside.lines.is_empty() { "none\n" } else { &beside.lines };
        Ok(Cow::Owned(format!("{}\n\nThe files beside it:\n{lines}", text.trim_end())))
    }
}

/// The files of a skill beside its own, a line with the hash of each.
struct Beside<'f> {
    root: &'f Path,
    lines: String,
    files: usize,
    bytes: usize,
}

impl Beside<'_> {
    fn add(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let shown = |path: &Path| hidden::visible_line(&path.display().to_string());
        let unread = |path: &Path, error: std::io::Error| format!("{} cannot be read: {error}", shown(path));
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| unread(folder, error))? {
            let entry = entry.map_err(|error| unread(folder, error))?;
            entries.push((entry.path(), entry.file_type().map_err(|error| unread(folder, error))?));
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, kind) in entries {
            if path == self.root.join(FILE) {
                continue;
            }
            if kind.is_dir() {
                let deeper = depth.checked_sub(1).ok_or_else(|| format!("{} lies too deep", shown(&path)))?;
                self.add(&path, deeper)?;
                continue;
            }
            self.files += 1;
            if self.files > MOST_FILES {
                return Err(format!("it has more than {MOST_FILES} files, so trust cannot cover them"));
            }
            // As Rust writes it: no two names are written alike.
            let name = path.strip_prefix(self.root).unwrap_or(&path);
            if kind.is_symlink() {
                let target = fs::read_link(&path).map_err(|error| unread(&path, error))?;
                let _ = writeln!(self.lines, "link {name:?} to {target:?}");
                continue;
            }
            let bytes = regular::whole(&path, self.bytes).map_err(|error| unread(&path, error))?;
            self.bytes -= bytes.len();
            let _ =
                writeln!(self.lines, "file {name:?}, {} bytes, BLAKE3 {}", bytes.len(), blake3::hash(&bytes).to_hex());
        }
        Ok(())
    }
}

/// All skills that there are for a session in this workspace, in the order in which they count. `trusted` is what this run trusts beside
/// what the user does.
pub fn look(machine: &Machine, workspace: &Path, trusted: &[Item]) -> Result<Vec<Found>, Trouble> {
    entries::look(machine, workspace, trusted, [])
}

/// Those that count. What does not, though it came with the repository, is named.
pub fn of_session(
    machine: &Machine,
    workspace: &Path,
    trusted: &[Item],
    notices: &mut Vec<Notice>,
) -> Result<Skills, Trouble> {
    let all = entries::in_force(look(machine, workspace, trusted)?, notices);
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

/// Has commands and tools see the folders of the user's own skills: their words name files there. Those of a repository lie in it.
pub(super) fn show(skills: &Skills, workspace: &Path, reach: &mut Reach, sandbox: Option<&mut SandboxSettings>) {
    let of_user =
        skills.iter().map(|skill| &skill.given.folder).filter(|folder| !folder.starts_with(repository(workspace)));
    let folders: Vec<PathBuf> = of_user.filter_map(|folder| fs::canonicalize(folder).ok()).collect();
    reach.read.extend(folders.iter().filter_map(|folder| folder.to_str()).map(str::to_owned));
    if let Some(sandbox) = sandbox {
        sandbox.read.extend(folders);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::entries::brought;
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
        (0..=MOST_FILES).for_each(|n| fs::write(folder.join(format!("many/{n}")), "").expect("written"));
        assert!(covered(root.path()).unwrap_err().contains("more than 200 files"));
        fs::remove_dir_all(folder.join("many")).expect("removed");
        fs::write(folder.join("large"), vec![0; MOST_BYTES + 1]).expect("written");
        let error = covered(root.path()).unwrap_err();
        assert!(error.contains("large cannot be read: it is too large"), "{error}");
        fs::remove_file(folder.join("large")).expect("removed");
        fs::write(folder.join("SKILL.md"), " ".repeat(regular::SETTINGS_BYTES + 1)).expect("written");
        assert!(covered(root.path()).unwrap_err().contains("it is too large: more than 1 MB"));
    }
}
