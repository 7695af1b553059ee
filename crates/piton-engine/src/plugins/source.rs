//! Where a plugin is added from: a folder, or a git repository, which is cloned with the user's rights. None of its hooks run,
//! and no submodule is fetched.

use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams, output_within};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long git may take for one command.
const GIT_TIME: Duration = Duration::from_secs(600);

/// Where a plugin comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A git repository.
    Git {
        /// Its address.
        url: String,
        /// A branch, a tag or a commit; without, its default branch.
        reference: Option<String>,
    },
}

impl Source {
    /// Reads what a person said: `PATH`, or `GIT-URL[#REF]`. A relative path counts from `folder`.
    pub fn parse(said: &str, folder: &Path) -> Result<Self, String> {
        let is_address = said.contains("://") || (said.contains('@') && said.contains(':'));
        if !is_address {
            let path = folder.join(said);
            return match path.canonicalize() {
                Ok(real) if real.is_dir() => Ok(Self::Folder(real)),
                Ok(_) | Err(_) => {
                    Err(format!("there is no folder {}; a git repository is named by its URL", path.display()))
                }
            };
        }
        let (url, reference) = match said.rsplit_once('#') {
            Some((url, reference)) => (url, Some(reference.to_owned())),
            None => (said, None),
        };
        let is_option =
            url.starts_with('-') || reference.as_ref().is_some_and(|name| name.starts_with('-') || name.is_empty());
        // `ext::` and the like run programs.
        if is_option || url.split("://").next().is_some_and(|scheme| scheme.contains("::")) {
            return Err(format!("`{said}` is not an address of a git repository"));
        }
        Ok(Self::Git { url: url.to_owned(), reference })
    }

    /// As it is read again.
    pub fn said(&self) -> String {
        match self {
            Self::Folder(path) => path.display().to_string(),
            Self::Git { url, reference: None } => url.clone(),
            Self::Git { url, reference: Some(reference) } => format!("{url}#{reference}"),
        }
    }

    /// The folder that it is now: itself, or a clone below `scratch`, with the commit that was cloned.
    pub(crate) fn fetch(
        &self,
        scratch: &Path,
        vars: &BTreeMap<OsString, OsString>,
    ) -> Result<(PathBuf, Option<String>), String> {
        let (url, reference) = match self {
            Self::Folder(path) => return Ok((path.clone(), None)),
            Self::Git { url, reference } => (url, reference),
        };
        let git = Git { env: environment(vars), scratch };
        let clone = scratch.join("clone");
        let target = clone.to_string_lossy();
        git.run(&["clone", "--quiet", "--no-checkout", "--template=", "--", url, &target])?;
        let wanted = reference.as_deref().unwrap_or("HEAD");
        let of_branch = format!("refs/remotes/origin/{wanted}");
        let commit = git
            .run(&[
                "-C",
                &target,
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &format!("{of_branch}^{{commit}}"),
            ])
            .or_else(|_| {
                git.run(&["-C", &target, "rev-parse", "--verify", "--end-of-options", &format!("{wanted}^{{commit}}")])
            })
            .map_err(|_| format!("{url} has no branch, tag or commit `{wanted}`"))?;
        let commit = commit.trim().to_owned();
        git.run(&["-C", &target, "checkout", "--quiet", "--detach", &commit])?;
        Ok((clone, Some(commit)))
    }
}

/// The user's environment, without what would have git work in another repository.
fn environment(vars: &BTreeMap<OsString, OsString>) -> Env {
    const OF_A_REPOSITORY: [&str; 5] =
        ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"];
    let mut vars = vars.clone();
    OF_A_REPOSITORY.iter().for_each(|name| drop(vars.remove(OsStr::new(name))));
    vars.insert("GIT_LFS_SKIP_SMUDGE".into(), "1".into());
    Env::from(vars)
}

struct Git<'g> {
    env: Env,
    scratch: &'g Path,
}

impl Git<'_> {
    fn run(&self, words: &[&str]) -> Result<String, String> {
        const SETTINGS: [&str; 8] = [
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "submodule.recurse=false",
            "-c",
            "protocol.ext.allow=never",
            "-c",
            "core.fsmonitor=false",
        ];
        let argv = ["git"].iter().chain(&SETTINGS).chain(words);
        let spawn = Spawn::new(argv, &self.env, self.scratch, Confinement::User);
        let failed = |error: std::io::Error| format!("git cannot be run: {error}");
        let child = spawn.start(Group::Ours, Streams::caught()).map_err(failed)?;
        let output = output_within(GIT_TIME, child).map_err(failed)?;
        let output = output.ok_or_else(|| format!("git took more than {} minutes", GIT_TIME.as_secs() / 60))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(format!("git {} failed: {last}", words.first().unwrap_or(&"")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_one_and_an_address_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let parse = |said: &str| Source::parse(said, folder.path());
        assert_eq!(parse(".").unwrap(), Source::Folder(folder.path().canonicalize().unwrap()));
        let git =
            |url: &str, reference: Option<&str>| Source::Git { url: url.into(), reference: reference.map(Into::into) };
        assert_eq!(parse("https://x.org/a.git#v1").unwrap(), git("https://x.org/a.git", Some("v1")));
        assert_eq!(parse("git@x.org:a/b.git").unwrap(), git("git@x.org:a/b.git", None));
        assert_eq!(parse("https://x.org/a.git#v1").unwrap().said(), "https://x.org/a.git#v1");
        for said in ["nowhere", "--upload-pack=x://y", "ext::sh://x", "https://x.org/a#-x", "https://x.org/a#"] {
            assert!(parse(said).is_err(), "{said}");
        }
    }
}
