//! Snapshots of real folders and real repositories: what is covered comes back byte for byte, and nothing else is touched.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests start programs by themselves")]

use piton_tools::limits::{SNAPSHOT_FILE_BYTES, SNAPSHOT_IGNORED_ENTRIES};
use piton_tools::snapshot::{
    ChangeKind, Conflicts, EntryKind, Leg, NotCovered, Options, RestorePolicy, Restored, Snapshot, SnapshotError,
    Snapshots, TreeId,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A workspace and a store beside it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("")).unwrap();
        place
    }

    /// One whose files are committed to a repository.
    fn with_repository(files: &[(&str, &str)]) -> Self {
        let place = Self::new();
        files.iter().for_each(|(path, content)| place.put(path, content));
        place.git("", &["init", "--quiet", "--initial-branch=main"]);
        place.commit("");
        place
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root().join("workspace").join(path)
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), Permissions::from_mode(mode)).unwrap();
    }

    fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.path(path)).unwrap().mode() & 0o777
    }

    fn git(&self, folder: &str, words: &[&str]) -> String {
        let (ok, text) = self.try_git(folder, words);
        assert!(ok, "git {words:?}: {text}");
        text
    }

    fn try_git(&self, folder: &str, words: &[&str]) -> (bool, String) {
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "protocol.file.allow=always"])
            .args(words)
            .current_dir(self.path(folder))
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    fn commit(&self, folder: &str) {
        self.git(folder, &["add", "--all"]);
        self.git(folder, &["commit", "--quiet", "--message=x"]);
    }

    fn snapshots(&self) -> Snapshots {
        self.snapshots_of("")
    }

    fn snapshots_of(&self, folder: &str) -> Snapshots {
        let options = Options { git: Some(PathBuf::from("/usr/bin/git")), ..Options::default() };
        Snapshots::open(&self.root().join("store"), &self.path(folder), options).unwrap()
    }

    /// Everything there is but `.git`, as text to compare by.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        let mut state = BTreeMap::new();
        add_state(&self.path(""), &mut state);
        state
    }
}

fn add_state(folder: &Path, state: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let mode = found.mode() & 0o777;
        let line = if found.is_symlink() {
            format!("link {:?}", fs::read_link(&path).unwrap())
        } else if found.is_dir() {
            format!("folder {mode:o}")
        } else {
            format!("file {mode:o} {}", blake3::hash(&fs::read(&path).unwrap()))
        };
        if path.file_name() != Some(OsStr::new(".git")) {
            if found.is_dir() {
                add_state(&path, state);
            }
            state.insert(path, line);
        }
    }
}

const STOP: RestorePolicy = RestorePolicy { conflicts: Conflicts::Stop, began: None, dry_run: false };
const SKIP: RestorePolicy = RestorePolicy { conflicts: Conflicts::Skip, began: None, dry_run: false };
const OVERWRITE: RestorePolicy = RestorePolicy { conflicts: Conflicts::Overwrite, began: None, dry_run: false };
const DRY: RestorePolicy = RestorePolicy { conflicts: Conflicts::Stop, began: None, dry_run: true };

fn along(from: TreeId, to: TreeId) -> [Leg; 1] {
    [Leg { from, to }]
}

/// What happened between two snapshots, a line each.
fn changes(snapshots: &Snapshots, before: TreeId, after: TreeId) -> Vec<String> {
    let lines = snapshots.diff(before, after).unwrap().into_iter().map(|change| {
        let lines = change.lines.map_or_else(String::new, |lines| format!(" +{} -{}", lines.added, lines.removed));
        format!("{:?} {:?} {}{lines}", change.kind, change.what, change.path.display()).to_lowercase()
    });
    lines.collect()
}

/// Does something to the workspace, takes it back, does it again, and takes it back again.
fn check(place: &Place, act: impl FnOnce()) -> Vec<String> {
    let snapshots = place.snapshots();
    let (before, state_before) = (snapshots.take().unwrap().id, place.state());
    act();
    let (after, state_after) = (snapshots.take().unwrap().id, place.state());
    for (from, to, state) in
        [(after, before, &state_before), (before, after, &state_after), (after, before, &state_before)]
    {
        let report = snapshots.restore(&along(from, to), STOP).unwrap();
        assert!(report.failures.is_empty() && report.conflicts.is_empty(), "{report:?}");
        assert_eq!(place.state(), *state);
        assert_eq!(snapshots.take().unwrap().id, to);
    }
    changes(&snapshots, before, after)
}

fn notices(snapshot: &Snapshot) -> Vec<String> {
    snapshot.notices.iter().map(|notice| format!("{}: {}", notice.path.display(), notice.why)).collect()
}

fn paths(report: &Restored) -> Vec<String> {
    report.changes.iter().map(|change| change.path.display().to_string()).collect()
}

#[test]
fn whatever_changed_files_is_taken_back_and_done_again() {
    let place = Place::with_repository(&[
        ("src/a.rs", "one\ntwo\n"),
        ("src/b.rs", "b\n"),
        ("run.sh", "echo\n"),
        ("old/x", "x"),
    ]);
    place.put("untracked.txt", "mine\n");
    symlink("src/a.rs", place.path("link")).unwrap();
    fs::create_dir(place.path("empty")).unwrap();
    let told = check(&place, || {
        place.put("src/a.rs", "one\n2\nthree\n");
        fs::remove_file(place.path("src/b.rs")).unwrap();
        place.put("untracked.txt", "");
        place.put("new/deep/file", "new\n");
        place.chmod("run.sh", 0o755);
        fs::remove_dir_all(place.path("old")).unwrap();
        fs::remove_file(place.path("link")).unwrap();
        symlink("nowhere", place.path("link")).unwrap();
        fs::remove_dir(place.path("empty")).unwrap();
        fs::create_dir(place.path("hollow")).unwrap();
    });
    let expected = [
        "deleted folder empty",
        "created folder hollow",
        "modified link link",
        "created file new/deep/file +1 -0",
        "deleted file old/x +0 -1",
        "permissions file run.sh +0 -0",
        "modified file src/a.rs +2 -1",
        "deleted file src/b.rs +0 -1",
        "modified file untracked.txt +0 -1",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_file_becomes_a_folder_a_link_and_a_file_again() {
    let place = Place::new();
    place.put("thing", "file");
    place.put("other/inner/x", "x");
    let told = check(&place, || {
        fs::remove_file(place.path("thing")).unwrap();
        place.put("thing/a/b", "b");
        fs::remove_dir_all(place.path("other")).unwrap();
        symlink("thing", place.path("other")).unwrap();
    });
    assert_eq!(
        told,
        [
            "replaced link other",
            "deleted file other/inner/x +0 -1",
            "replaced folder thing +0 -1",
            "created file thing/a/b +1 -0"
        ]
    );
}

#[test]
fn names_may_have_newlines_and_any_bytes() {
    let place = Place::new();
    let odd = [&b"new\nline"[..], b"\xff\xfe", b" ", b"-rf", b"a\\b", b"\"quoted\"", "ü".as_bytes()];
    let path = |name: &[u8]| place.path("").join(OsStr::from_bytes(name));
    place.put("x", "x");
    let told = check(&place, || odd.iter().for_each(|name| fs::write(path(name), "odd\n").unwrap()));
    assert_eq!(told.len(), odd.len());
}

#[test]
fn links_are_never_followed() {
    let place = Place::new();
    symlink(".", place.path("loop")).unwrap();
    symlink("self", place.path("self")).unwrap();
    let outside = place.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "s").unwrap();
    symlink(&outside, place.path("out")).unwrap();
    place.put("dir/file", "before");
    let snapshots = place.snapshots();
    let before = snapshots.take().unwrap().id;
    place.put("dir/file", "after");
    let after = snapshots.take().unwrap().id;
    assert_eq!(changes(&snapshots, before, after), ["modified file dir/file +1 -1"]);
    // Somebody puts a link in the way, which would lead out of the workspace.
    fs::rename(place.path("dir"), place.path("moved")).unwrap();
    symlink(&outside, place.path("dir")).unwrap();
    fs::write(outside.join("file"), "after").unwrap();
    for policy in [STOP, OVERWRITE] {
        snapshots.restore(&along(after, before), policy).unwrap();
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "after");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    }
}

#[test]
fn an_unchanged_workspace_has_the_same_id_and_stores_nothing() {
    let place = Place::with_repository(&[("a", "a"), ("b/c", "c")]);
    let first = place.snapshots().take().unwrap();
    let usage = place.snapshots().usage().unwrap();
    let again = place.snapshots().take().unwrap();
    assert_eq!((first.id, usage.objects), (again.id, place.snapshots().usage().unwrap().objects));
    place.put("a", "b");
    place.put("a", "a");
    assert_eq!(place.snapshots().take().unwrap().id, first.id, "by content, not by time");
}

#[test]
fn a_change_of_the_same_size_and_time_is_seen() {
    let place = Place::new();
    place.put("a", "one");
    let snapshots = place.snapshots();
    let first = snapshots.take().unwrap().id;
    let time = fs::metadata(place.path("a")).unwrap().modified().unwrap();
    place.put("a", "two");
    fs::File::options().write(true).open(place.path("a")).unwrap().set_modified(time).unwrap();
    let second = snapshots.take().unwrap().id;
    assert_eq!(changes(&snapshots, first, second), ["modified file a +1 -1"]);
}

#[test]
fn what_the_user_changed_since_is_not_overwritten() {
    let place = Place::new();
    for name in ["edited", "deleted", "chmodded", "ours"] {
        place.put(name, "before");
    }
    let snapshots = place.snapshots();
    let before = snapshots.take().unwrap().id;
    for name in ["edited", "deleted", "chmodded", "ours", "made"] {
        place.put(name, "after");
    }
    let after = snapshots.take().unwrap().id;
    place.put("edited", "by the user");
    place.put("made", "by the user");
    fs::remove_file(place.path("deleted")).unwrap();
    place.chmod("chmodded", 0o600);
    let state = place.state();
    let since = |report: &Restored| {
        let conflicts = report.conflicts.iter();
        conflicts.map(|conflict| format!("{} {:?}", conflict.path.display(), conflict.since)).collect::<Vec<_>>()
    };
    let expected = ["chmodded Permissions", "deleted Deleted", "edited Modified", "made Modified"];

    let dry = snapshots.restore(&along(after, before), DRY).unwrap();
    assert_eq!((since(&dry), paths(&dry)), (expected.map(str::to_owned).to_vec(), vec!["ours".to_owned()]));
    let stopped = snapshots.restore(&along(after, before), STOP).unwrap();
    assert_eq!((since(&stopped), paths(&stopped)), (expected.map(str::to_owned).to_vec(), Vec::new()));
    assert_eq!(place.state(), state, "nothing was touched");

    let skipped = snapshots.restore(&along(after, before), SKIP).unwrap();
    assert_eq!(
        (paths(&skipped), place.read("ours"), place.read("edited")),
        (vec!["ours".to_owned()], "before".to_owned(), "by the user".to_owned())
    );
    let overwritten = snapshots.restore(&along(after, before), OVERWRITE).unwrap();
    assert_eq!(paths(&overwritten), ["chmodded", "deleted", "edited", "made"]);
    assert_eq!(snapshots.take().unwrap().id, before);
}

#[test]
fn what_the_user_put_into_a_new_folder_stays_there() {
    let place = Place::new();
    let snapshots = place.snapshots();
    let before = snapshots.take().unwrap().id;
    place.put("new/ours", "x");
    let after = snapshots.take().unwrap().id;
    place.put("new/theirs", "y");
    let report = snapshots.restore(&along(after, before), STOP).unwrap();
    assert_eq!(
        (report.kept, paths(&snapshots.restore(&along(after, before), DRY).unwrap())),
        (vec![PathBuf::from("new")], Vec::new())
    );
    assert!(!place.path("new/ours").exists());
    assert_eq!(place.read("new/theirs"), "y");
}

#[test]
fn a_restore_that_was_cut_is_repeated() {
    let place = Place::new();
    for number in 0..20 {
        place.put(&format!("d{number}/f"), format!("before {number}"));
    }
    let snapshots = place.snapshots();
    let (before, state) = (snapshots.take().unwrap().id, place.state());
    for number in 0..20 {
        place.put(&format!("d{number}/f"), format!("after {number}"));
        place.put(&format!("new{number}/f"), "new");
    }
    let after = snapshots.take().unwrap().id;
    // As if killed half-way: some are done, and one was just being written.
    for number in 0..7 {
        place.put(&format!("d{number}/f"), format!("before {number}"));
        fs::remove_dir_all(place.path(&format!("new{number}"))).unwrap();
    }
    fs::write(place.path("d8/.piton-0123.tmp"), "half").unwrap();
    assert_eq!(changes(&snapshots, after, snapshots.take().unwrap().id).len(), 14, "it is not covered either");
    fs::remove_file(place.path("d8/.piton-0123.tmp")).unwrap();
    let report = snapshots.restore(&along(after, before), STOP).unwrap();
    assert_eq!((report.changes.len(), report.conflicts.len()), (26, 0));
    assert_eq!(place.state(), state);
    let again = snapshots.restore(&along(after, before), STOP).unwrap();
    assert_eq!(again, Restored::default());
}

#[test]
fn what_cannot_be_restored_is_named_and_everything_else_is() {
    let place = Place::new();
    place.put("a", "1");
    place.put("b", "one");
    let snapshots = place.snapshots();
    let before = snapshots.take().unwrap().id;
    place.put("a", "2");
    place.put("b", "2");
    let after = snapshots.take().unwrap().id;
    // The store lost what `a` was.
    let oid = place.git_hash("1");
    let object = place.root().join("store/objects").join(&oid[..2]).join(&oid[2..]);
    fs::remove_file(&object).unwrap();
    fs::write(object, "").unwrap();
    assert_eq!(changes(&snapshots, before, after), ["modified file a", "modified file b +1 -1"]);
    let report = snapshots.restore(&along(after, before), STOP).unwrap();
    assert_eq!(paths(&report), ["b"]);
    assert_eq!(report.failures[0].path, Path::new("a"));
    assert!(report.failures[0].error.contains(&oid), "{report:?}");
    assert_eq!((place.read("a"), place.read("b")), ("2".to_owned(), "one".to_owned()));
}

impl Place {
    fn git_hash(&self, content: &str) -> String {
        fs::write(self.root().join("content"), content).unwrap();
        let text = self.git("", &["hash-object", self.root().join("content").to_str().unwrap()]);
        text.trim().to_owned()
    }
}

#[test]
fn the_users_repository_is_not_touched() {
    let place = Place::with_repository(&[("a", "a\n"), ("b", "b\n")]);
    place.put("a", "stashed\n");
    place.git("", &["stash", "--quiet"]);
    place.put("b", "staged\n");
    place.git("", &["add", "b"]);
    place.put("b", "worktree\n");
    let git_state = || {
        let mut state = BTreeMap::new();
        add_state(&place.path(".git"), &mut state);
        state
    };
    let before_git = git_state();
    let snapshots = place.snapshots();
    let before = snapshots.take().unwrap().id;
    place.put("b", "tool\n");
    let after = snapshots.take().unwrap().id;
    snapshots.restore(&along(after, before), STOP).unwrap();
    snapshots.prune(&[]).unwrap();
    assert_eq!(git_state(), before_git);
    assert_eq!(place.read("b"), "worktree\n");
}

#[test]
fn nothing_that_a_repository_configures_is_run_and_bytes_stay_as_they_are() {
    let place = Place::with_repository(&[("a.txt", "a\n")]);
    let canary = place.root().join("canary");
    let evil = format!("touch {}", canary.display());
    let hook = format!("#!/bin/sh\n{evil}\n");
    for name in ["pre-commit", "post-checkout", "post-index-change", "reference-transaction"] {
        place.put(&format!(".git/hooks/{name}"), &hook);
        place.chmod(&format!(".git/hooks/{name}"), 0o755);
    }
    place.put("evil.sh", &hook);
    place.chmod("evil.sh", 0o755);
    place.put(
        ".git/config",
        format!(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tautocrlf = true\n\tfsmonitor = {evil}\n\tpager = {evil}\n\
             [filter \"evil\"]\n\tclean = {evil}; cat\n\tsmudge = {evil}; cat\n\tprocess = {evil}\n\
             [diff \"evil\"]\n\ttextconv = {evil}\n\tcommand = {evil}\n[alias]\n\tcat-file = !{evil}\n"
        ),
    );
    place.put(".gitattributes", "* filter=evil diff=evil text=auto eol=crlf ident working-tree-encoding=UTF-16\n");
    place.put("mixed", "one\r\ntwo\n$Id$\n");
    let told = check(&place, || {
        place.put("mixed", "one\ntwo\r\n$Id: x $\n");
        place.put("a.txt", "b\r\n");
    });
    assert_eq!(told, ["modified file a.txt +1 -1", "modified file mixed +3 -3"]);
    assert!(!canary.exists(), "something of the repository's was run");
    place.try_git("", &["status"]);
    assert!(canary.exists(), "the trap works: plain git falls into it");
}

#[test]
fn snapshots_survive_whatever_the_user_does_to_the_repository() {
    let place = Place::with_repository(&[("a", "committed once\n"), ("b/c", "too\n")]);
    place.git("", &["gc", "--quiet"]);
    let snapshots = place.snapshots();
    let before = snapshots.take().unwrap().id;
    let usage = snapshots.usage().unwrap();
    assert!(usage.shared_bytes > 0 && usage.objects <= 2, "only the folders are our own: {usage:?}");
    place.put("a", "amended\n");
    place.put("b/c", "amended too\n");
    let after = snapshots.take().unwrap().id;
    place.git("", &["commit", "--quiet", "--all", "--amend", "--message=y"]);
    place.git("", &["reflog", "expire", "--expire=now", "--all"]);
    place.git("", &["gc", "--quiet", "--prune=now"]);
    assert!(!place.try_git("", &["cat-file", "-e", &place.git_hash("committed once\n")]).0, "it is gone from there");
    // What only the store has now is taken out of the pack, which is dropped.
    let usage = snapshots.prune(&[before, after]).unwrap();
    assert_eq!(usage.shared_bytes, 0, "{usage:?}");
    fs::remove_dir_all(place.path(".git")).unwrap();
    snapshots.restore(&along(after, before), STOP).unwrap();
    assert_eq!((place.read("a"), place.read("b/c")), ("committed once\n".to_owned(), "too\n".to_owned()));
}

#[test]
fn without_git_the_store_has_its_own_copies() {
    let place = Place::with_repository(&[("a", "packed\n")]);
    place.git("", &["gc", "--quiet"]);
    let snapshots = Snapshots::open(&place.root().join("store"), &place.path(""), Options::default()).unwrap();
    let before = snapshots.take().unwrap().id;
    fs::remove_dir_all(place.path(".git")).unwrap();
    place.put("a", "x");
    let after = snapshots.take().unwrap().id;
    snapshots.restore(&along(after, before), STOP).unwrap();
    assert_eq!((place.read("a"), snapshots.usage().unwrap().shared_bytes), ("packed\n".to_owned(), 0));
}

#[test]
fn git_reads_a_store_as_a_repository() {
    let place = Place::new();
    place.put("dir/a", "text\n");
    let id = place.snapshots().take().unwrap().id;
    let store = place.root().join("store");
    let listed =
        place.git("", &["--git-dir", store.to_str().unwrap(), "ls-tree", "-r", "--name-only", &id.to_string()]);
    assert_eq!(listed, "dir/a\n");
    assert_eq!(
        place.git("", &["--git-dir", store.to_str().unwrap(), "cat-file", "-p", &format!("{id}:dir/a")]),
        "text\n"
    );
    assert_eq!(fs::metadata(store).unwrap().mode() & 0o777, 0o700, "it holds what the workspace holds");
}

#[test]
fn nested_repositories_and_submodules_are_covered_without_their_history() {
    let place = Place::with_repository(&[("top", "t\n")]);
    place.put("nested/in", "n\n");
    place.git("nested", &["init", "--quiet"]);
    place.commit("nested");
    place.git("", &["submodule", "--quiet", "add", "./nested", "sub"]);
    assert!(place.path("sub/.git").is_file());
    let told = check(&place, || {
        place.put("nested/in", "changed\n");
        place.put("nested/untracked", "u\n");
        place.put("sub/in", "changed\n");
    });
    assert_eq!(
        told,
        ["modified file nested/in +1 -1", "created file nested/untracked +1 -0", "modified file sub/in +1 -1"]
    );
    assert!(place.path("nested/.git/HEAD").exists());
}

#[test]
fn a_worktree_and_a_subfolder_share_the_repositorys_objects() {
    let place = Place::with_repository(&[("sub/a", "a\n"), ("sub/.gitignore", "ok\n"), (".gitignore", "big/\n")]);
    place.git("", &["gc", "--quiet"]);
    place.git("", &["worktree", "add", "--quiet", "../workspace/tree"]);
    for folder in ["sub", "tree"] {
        let store = place.root().join(format!("store of {folder}"));
        let options = Options { git: Some(PathBuf::from("/usr/bin/git")), ..Options::default() };
        let snapshots = Snapshots::open(&store, &place.path(folder), options).unwrap();
        (0..=SNAPSHOT_IGNORED_ENTRIES).for_each(|number| place.put(&format!("{folder}/big/{number}"), ""));
        let snapshot = snapshots.take().unwrap();
        assert!(snapshots.usage().unwrap().shared_bytes > 0, "{folder}");
        assert_eq!(notices(&snapshot), ["big: ignored, and large"], "{folder}");
    }
}

#[test]
fn a_merge_or_rebase_under_way_makes_no_difference() {
    let place = Place::with_repository(&[("a", "base\n")]);
    place.git("", &["checkout", "--quiet", "-b", "side"]);
    place.put("a", "side\n");
    place.commit("");
    place.git("", &["checkout", "--quiet", "main"]);
    place.put("a", "main\n");
    place.commit("");
    for words in [["merge", "side"], ["rebase", "side"]] {
        assert!(!place.try_git("", &words).0, "it conflicts");
        let conflicted = place.read("a");
        assert!(conflicted.contains("<<<<<<<"));
        let told = check(&place, || place.put("a", "resolved\n"));
        assert_eq!(told, ["modified file a +1 -5"]);
        assert_eq!(place.read("a"), conflicted);
        assert!(place.git("", &["status"]).contains("both modified"), "{words:?} goes on");
        place.git("", &[words[0], "--abort"]);
    }
}

#[test]
fn ignored_files_are_covered_up_to_a_limit_which_is_told() {
    let place =
        Place::with_repository(&[(".gitignore", ".env\nnode_modules/\n*.log\n!keep.log\n/out\n"), ("keep.log", "k")]);
    place.put(".env", "KEY=1\n");
    place.put("out/small", "o");
    for number in 0..=SNAPSHOT_IGNORED_ENTRIES {
        place.put(&format!("node_modules/m{number}/x.js"), "x");
    }
    fs::File::create(place.path("huge.log")).unwrap().set_len(SNAPSHOT_FILE_BYTES).unwrap();
    let snapshots = place.snapshots();
    let first = snapshots.take().unwrap();
    assert_eq!(notices(&first), ["huge.log: an ignored file, and large", "node_modules: ignored, and large"]);
    place.put(".env", "KEY=2\n");
    fs::remove_dir_all(place.path("out")).unwrap();
    fs::remove_dir_all(place.path("node_modules")).unwrap();
    let second = snapshots.take().unwrap();
    assert_eq!(changes(&snapshots, first.id, second.id), ["modified file .env +1 -1", "deleted file out/small +0 -1"]);
    place.put("node_modules/precious", "mine");
    let report = snapshots.restore(&along(second.id, first.id), STOP).unwrap();
    assert_eq!((report.not_covered, report.failures.len()), (vec![PathBuf::from("node_modules")], 0));
    assert_eq!((place.read(".env"), place.read("node_modules/precious")), ("KEY=1\n".to_owned(), "mine".to_owned()));
}

#[test]
fn a_folder_that_outgrows_the_limit_is_not_taken_for_deleted() {
    let place = Place::with_repository(&[(".gitignore", "build/\n")]);
    place.put("build/first", "1");
    let snapshots = place.snapshots();
    let small = snapshots.take().unwrap();
    assert!(small.notices.is_empty());
    (0..=SNAPSHOT_IGNORED_ENTRIES).for_each(|number| place.put(&format!("build/{number}"), "x"));
    let large = snapshots.take().unwrap();
    assert_eq!(large.notices.len(), 1);
    assert!(snapshots.diff(small.id, large.id).unwrap().is_empty());
    snapshots.restore(&along(large.id, small.id), OVERWRITE).unwrap();
    snapshots.restore(&along(small.id, large.id), OVERWRITE).unwrap();
    assert_eq!(fs::read_dir(place.path("build")).unwrap().count(), SNAPSHOT_IGNORED_ENTRIES + 2);
}

#[test]
fn a_huge_file_is_left_out_and_told() {
    let place = Place::new();
    fs::File::create(place.path("disk.img")).unwrap().set_len(SNAPSHOT_FILE_BYTES + 1).unwrap();
    let snapshot = place.snapshots().take().unwrap();
    assert_eq!(snapshot.notices[0].why, NotCovered::LargeFile { bytes: SNAPSHOT_FILE_BYTES + 1 });
    assert_eq!(snapshot.notices[0].path, Path::new("disk.img"));
}

#[test]
fn pipes_and_sockets_are_passed_over() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).arg(place.path(".gitignore")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
    place.put("a", "a");
    let snapshots = place.snapshots();
    let snapshot = snapshots.take().unwrap();
    fs::remove_file(place.path("a")).unwrap();
    assert_eq!(changes(&snapshots, snapshot.id, snapshots.take().unwrap().id), ["deleted file a +0 -1"]);
}

#[test]
fn all_permission_bits_come_back_and_read_only_files_too() {
    let place = Place::new();
    for (name, mode) in [("secret", 0o600), ("locked", 0o444), ("none", 0o000)] {
        place.put(name, "before");
        place.chmod(name, mode);
    }
    place.put("dir/x", "x");
    place.chmod("dir", 0o750);
    let snapshots = place.snapshots();
    let before = snapshots.take().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(before.notices.len(), usize::from(!is_root), "what cannot be read is told: {:?}", before.notices);
    fs::remove_file(place.path("locked")).unwrap();
    place.chmod("secret", 0o644);
    place.put("secret", "after");
    place.put("dir/x", "y");
    place.chmod("dir", 0o555);
    let after = snapshots.take().unwrap();
    let report = snapshots.restore(&along(after.id, before.id), STOP).unwrap();
    assert!(report.failures.is_empty(), "{report:?}");
    let modes = ["secret", "locked", "none", "dir"].map(|name| place.mode(name));
    assert_eq!(modes, [0o600, 0o444, 0o000, 0o750]);
    assert_eq!((place.read("secret"), place.read("dir/x")), ("before".to_owned(), "x".to_owned()));
}

#[test]
fn pitons_own_folders_are_left_out() {
    let place = Place::new();
    place.put("data/sessions/journal.db", "1");
    place.put("a", "a");
    let options = Options { left_out: vec![place.path("data")], ..Options::default() };
    let snapshots = Snapshots::open(&place.path("own/store"), &place.path(""), options).unwrap();
    let first = snapshots.take().unwrap();
    assert!(first.notices.is_empty());
    place.put("data/sessions/journal.db", "2");
    assert_eq!(snapshots.take().unwrap().id, first.id);
}

#[test]
fn pruning_keeps_what_it_is_told_to_and_what_others_took() {
    let place = Place::new();
    let take = |snapshots: &Snapshots, content: &str| {
        place.put("a", content);
        snapshots.take().unwrap().id
    };
    let dead = place.snapshots();
    let (kept, dropped) = (take(&dead, "kept"), take(&dead, "dropped"));
    drop(dead);
    let other = place.snapshots();
    let others = take(&other, "of another process");
    let snapshots = place.snapshots();
    let last = take(&snapshots, "last");
    let before = snapshots.usage().unwrap();
    let after = snapshots.prune(&[kept]).unwrap();
    assert_eq!((before.objects, after.objects), (8, 6));
    assert!(after.own_bytes < before.own_bytes);
    for id in [kept, others] {
        assert_eq!(changes(&snapshots, id, last), ["modified file a +1 -1"]);
    }
    assert!(matches!(snapshots.diff(dropped, last), Err(SnapshotError::Unknown(id)) if id == dropped));
    assert!(matches!(snapshots.prune(&[dropped]), Err(SnapshotError::Unknown(_))), "and then nothing is dropped");
    drop(other);
    assert_eq!(snapshots.prune(&[kept]).unwrap().objects, 4);
    assert_eq!(snapshots.prune(&[]).unwrap().objects, 2, "the last one stays, it costs nothing");
    assert_eq!(take(&snapshots, "last"), last);
}

#[test]
fn two_sessions_share_a_store() {
    let place = Place::new();
    (0..200).for_each(|number| place.put(&format!("d{}/f{number}", number % 7), format!("{number}")));
    let ids: Vec<TreeId> = std::thread::scope(|scope| {
        let take = || (0..5).map(|_| place.snapshots().take().unwrap().id).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[test]
fn a_damaged_cache_or_a_removed_store_costs_time_and_nothing_else() {
    let place = Place::new();
    place.put("a", "a");
    let snapshots = place.snapshots();
    let id = snapshots.take().unwrap().id;
    fs::write(place.root().join("store/cache"), "nonsense").unwrap();
    assert_eq!(snapshots.take().unwrap().id, id);
    fs::remove_dir_all(place.root().join("store")).unwrap();
    assert_eq!(snapshots.take().unwrap().id, id);
    assert!(snapshots.diff(id, id).unwrap().is_empty());
}

#[test]
fn a_workspace_that_vanished_is_said_to_be_gone() {
    let place = Place::new();
    place.put("a", "a");
    let snapshots = place.snapshots();
    let id = snapshots.take().unwrap().id;
    fs::remove_dir_all(place.path("")).unwrap();
    assert!(matches!(snapshots.take(), Err(SnapshotError::WorkspaceGone(_))));
    assert!(matches!(snapshots.restore(&along(id, id), STOP), Err(SnapshotError::WorkspaceGone(_))));
    let opened = Snapshots::open(&place.root().join("store"), &place.path(""), Options::default());
    assert!(matches!(opened, Err(SnapshotError::WorkspaceGone(_))));
}

#[test]
fn a_store_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs::write(place.root().join("store"), "a file").unwrap();
    let opened = Snapshots::open(&place.root().join("store"), &place.path(""), Options::default());
    assert!(opened.unwrap_err().to_string().contains("store"));
}

#[test]
fn an_empty_workspace_is_a_state_too() {
    let place = Place::new();
    let told = check(&place, || place.put("first", "1\n"));
    assert_eq!(told, ["created file first +1 -0"]);
    let snapshots = place.snapshots();
    let change = &snapshots
        .diff(snapshots.take().unwrap().id, {
            place.put("x", "\0");
            snapshots.take().unwrap().id
        })
        .unwrap()[0];
    assert_eq!((change.kind, change.what, change.lines), (ChangeKind::Created, EntryKind::File, None));
}

#[test]
fn what_a_workspace_has_beyond_the_limit_is_left_out_from_the_largest_on_and_named_once() {
    let place = Place::new();
    place.put("src/a.rs", "a".repeat(100));
    for (name, size) in [("data/one", 400), ("data/deep/two", 500), ("data/three", 400)] {
        place.put(name, "x".repeat(size));
    }
    let mut snapshots = place.snapshots();
    assert_eq!(snapshots.take().unwrap().notices, [], "all of it is covered");
    snapshots.set_most_bytes(900);
    let before = snapshots.take().unwrap();
    // Of two files of one size both stay or both go.
    let why = NotCovered::BeyondLimit { files: 1, bytes: 500, most: 900 };
    assert_eq!(
        before.notices.iter().map(|notice| (&notice.path, &notice.why)).collect::<Vec<_>>(),
        [(&PathBuf::from("data/deep"), &why)]
    );
    snapshots.set_most_bytes(899);
    let before = snapshots.take().unwrap();
    let why = NotCovered::BeyondLimit { files: 3, bytes: 1_300, most: 899 };
    assert_eq!(
        before.notices.iter().map(|notice| (&notice.path, &notice.why)).collect::<Vec<_>>(),
        [(&PathBuf::from("data"), &why)]
    );
    // An undo takes back what is covered, and leaves the rest alone.
    place.put("src/a.rs", "changed");
    place.put("data/one", "changed, too");
    let after = snapshots.take().unwrap();
    snapshots.restore(&along(after.id, before.id), STOP).unwrap();
    assert_eq!((place.read("src/a.rs").len(), place.read("data/one")), (100, "changed, too".to_owned()));
}
