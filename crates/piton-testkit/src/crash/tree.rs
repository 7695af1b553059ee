//! The workspace of a run: what is in it before anything happens, and what a tool makes of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// What is there at first.
pub(super) fn plant(workspace: &Path) {
    fs::create_dir_all(workspace).unwrap();
    let tree = Tree(workspace);
    tree.file("there.txt", "here\n", 0o644);
    tree.file("file-to-folder", "a file\n", 0o600);
    tree.file("file-to-link", "another\n", 0o644);
    tree.file("folder-to-file/in", "in\n", 0o644);
    tree.file("folder-to-file/deep/er/in", "deep in\n", 0o755);
    tree.file("folder-to-link/in", "in\n", 0o644);
    tree.link("link-to-folder", "there.txt");
    tree.file("gone/with/all", "of it\n", 0o644);
    tree.file("closed/in", "in\n", 0o640);
    tree.folders(&["gone", "gone/with", "folder-to-file", "folder-to-file/deep", "folder-to-link", "closed"], 0o755);
    tree.folders(&["folder-to-file/deep/er"], 0o750);
}

/// Makes something else of everything.
pub(super) fn remake(workspace: &Path) {
    let tree = Tree(workspace);
    for folder in ["folder-to-file", "folder-to-link", "gone"] {
        fs::remove_dir_all(workspace.join(folder)).unwrap();
    }
    for file in ["file-to-folder", "file-to-link", "link-to-folder"] {
        fs::remove_file(workspace.join(file)).unwrap();
    }
    tree.file("there.txt", "elsewhere\n", 0o755);
    tree.file("file-to-folder/deep/in", "in\n", 0o644);
    tree.link("file-to-link", "closed");
    tree.file("folder-to-file", "a file now\n", 0o644);
    tree.link("folder-to-link", "closed/in");
    tree.file("link-to-folder/in", "in\n", 0o644);
    tree.file("new/deep/in", "new\n", 0o644);
    tree.file("closed/in", "changed in\n", 0o600);
    tree.folders(&["closed"], 0o700);
}

struct Tree<'w>(&'w Path);

impl Tree<'_> {
    fn file(&self, path: &str, content: &str, mode: u32) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        symlink(to, self.0.join(path)).unwrap();
    }

    fn folders(&self, paths: &[&str], mode: u32) {
        paths.iter().for_each(|path| fs::set_permissions(self.0.join(path), Permissions::from_mode(mode)).unwrap());
    }
}
