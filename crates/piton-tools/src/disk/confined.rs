//! The disk as a sandbox shows it, for the tools that work in Piton's own process: what a command could not reach, they do not
//! reach either, and what both call `/tmp` is the same folder.
//!
//! A path is resolved first, judged by its real name, and then opened by that name without following a link: whoever puts a
//! link in the way in between gets an error.

use super::Disk;
use super::folder::{self, Opened};
use crate::files::{Files, Found, Replacement, Stamp, Visit};
use piton_core::ids::CallId;
use piton_sandbox::{Access, Plan, Reach};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The disk, within what a sandbox shows.
#[derive(Debug)]
pub struct ConfinedDisk {
    disk: Disk,
    reach: Reach,
    /// Made when the first file is asked for: that looks at the machine's folders.
    plan: OnceLock<Plan>,
}

impl ConfinedDisk {
    /// This disk within what a sandbox of this reach shows. Asks nothing of the disk yet.
    pub fn new(disk: Disk, reach: Reach) -> Self {
        Self { disk, reach, plan: OnceLock::new() }
    }

    fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| {
            // Where they cannot be made, what is looked for in them is not there.
            let _ = self.reach.make_private();
            Plan::of(&self.reach)
        })
    }

    fn check(&self, path: &Path, wanted: Access) -> io::Result<()> {
        let refused = |what: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, what.to_owned()));
        match (self.plan().access(path), wanted) {
            (Access::None, _) => refused("the sandbox of this session does not reach it"),
            (Access::Read, Access::Write) => refused("the sandbox of this session protects it from changes"),
            (Access::Read | Access::Write, _) => Ok(()),
        }
    }

    /// What is at a path that was resolved and may be read, by a name that leads to just that.
    fn judged(&self, path: &Path) -> io::Result<Opened> {
        self.check(path, Access::Read)?;
        folder::at(path)
    }
}

impl Files for ConfinedDisk {
    fn real(&self, path: &Path) -> io::Result<PathBuf> {
        let real = self.disk.real(&self.plan().on_machine(path))?;
        self.check(&real, Access::Read)?;
        Ok(real)
    }

    fn look(&self, path: &Path) -> io::Result<Option<Found>> {
        let path = match self.real(path) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match self.judged(&path) {
            Ok(judged) => self.disk.look(&judged.path()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.disk.open(&self.judged(&self.real(path)?)?.path())
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.disk.stamp(&self.judged(&self.real(path).ok()?).ok()?.path())
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<(String, Found)>> {
        self.disk.list(&self.judged(&self.real(folder)?)?.path(), most)
    }

    fn walk(&self, folder: &Path, visit: &mut Visit<'_>) {
        match self.real(folder) {
            // Links are not followed on a walk.
            Ok(folder) => self.disk.walk(&folder, visit),
            Err(error) => drop(visit(Err(error))),
        }
    }

    fn other_names(&self, path: &Path) -> u64 {
        let judged = self.real(path).and_then(|path| self.judged(&path));
        judged.map_or(0, |judged| self.disk.other_names(&judged.path()))
    }

    fn rights(&self, path: &Path) -> Option<u32> {
        self.disk.rights(&self.judged(&self.real(path).ok()?).ok()?.path())
    }

    fn begin(&self, call: &CallId, changes: &[Replacement]) -> io::Result<()> {
        changes.iter().try_for_each(|change| self.check(&change.path, Access::Write))?;
        self.disk.begin(call, changes)
    }

    fn put(&self, call: &CallId, change: &Replacement, content: Option<&[u8]>) -> io::Result<()> {
        self.check(&change.path, Access::Write)?;
        self.disk.put_at(call, change, content)
    }

    fn begun(&self, call: &CallId) -> Vec<Replacement> {
        self.disk.begun(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_sandbox::{Backend, Limits, Network, Reach, Write};
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["workspace/.git", "outside", "home", "private/tmp", "private/home"] {
                fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            fs::write(folder.path().join("outside/secret"), "canary").unwrap();
            fs::write(folder.path().join("workspace/.git/config"), "as it was").unwrap();
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().canonicalize().unwrap().join(name)
        }

        fn disk(&self) -> ConfinedDisk {
            let reach = Reach {
                backend: Backend::Namespaces,
                workspace: self.path("workspace"),
                write: Write::Workspace,
                home: self.path("home"),
                private: self.path("private"),
                path: Vec::new(),
                read: Vec::new(),
                keep: Vec::new(),
                hidden: Vec::new(),
                carried: Vec::new(),
                approved: Vec::new(),
                limits: Limits::default(),
                network: Network::None,
            };
            ConfinedDisk::new(Disk::new(self.path("calls")), reach)
        }

        fn write(&self, name: &str) -> io::Result<()> {
            let change = Replacement { path: self.path(name), before: None, after: None, rights: None };
            self.disk().replace(&"c1_0".into(), &change, b"new")
        }
    }

    #[test]
    fn what_a_command_could_not_reach_a_tool_does_not_reach() {
        let place = Place::new();
        symlink(place.path("outside/secret"), place.path("workspace/link")).unwrap();
        for name in ["outside/secret", "workspace/link", "workspace/../outside/secret"] {
            // All this is in `/tmp`, and for a sandbox that is another folder.
            let refused = [io::ErrorKind::PermissionDenied, io::ErrorKind::NotFound];
            let error = place.disk().open(&place.path(name)).map(drop).unwrap_err();
            assert!(refused.contains(&error.kind()), "{name}: {error}");
        }
        assert!(place.disk().list(&place.path("outside"), 9).is_err());
        assert!(place.disk().open(Path::new("/usr/bin/env")).is_ok(), "the system is there");
    }

    #[test]
    fn what_is_protected_is_read_and_not_changed_there_or_not() {
        let place = Place::new();
        assert!(place.disk().open(&place.path("workspace/.git/config")).is_ok());
        for name in
            [".git/config", ".git/hooks/pre-commit", ".GIT/config", ".vscode/tasks.json", ".envrc", "sub/.git/config"]
        {
            let error = place.write(&format!("workspace/{name}")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{name}: {error}");
        }
        assert_eq!(fs::read(place.path("workspace/.git/config")).unwrap(), b"as it was");
        place.write("workspace/a/b").unwrap();
        place.write("workspace/.github/workflows/ci.yml").unwrap();
        assert_eq!(fs::read(place.path("workspace/a/b")).unwrap(), b"new");
    }

    #[test]
    fn a_link_that_comes_in_between_is_not_followed() {
        let place = Place::new();
        fs::create_dir(place.path("workspace/sub")).unwrap();
        let path = place.disk().real(&place.path("workspace/sub/new")).unwrap();
        fs::remove_dir(place.path("workspace/sub")).unwrap();
        symlink(place.path("outside"), place.path("workspace/sub")).unwrap();
        let change = Replacement { path, before: None, after: None, rights: None };
        place.disk().replace(&"c1_0".into(), &change, b"new").unwrap_err();
        assert!(!place.path("outside/new").exists());
    }

    #[test]
    fn both_mean_the_same_by_tmp() {
        let place = Place::new();
        let disk = place.disk();
        let path = disk.real(Path::new("/tmp/x")).unwrap();
        assert_eq!(path, place.path("private/tmp/x"));
        let change = Replacement { path, before: None, after: None, rights: None };
        disk.replace(&"c1_0".into(), &change, b"new").unwrap();
        assert_eq!(fs::read(place.path("private/tmp/x")).unwrap(), b"new");
    }
}
