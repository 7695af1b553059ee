//! A restore that dies at any of its changes to the workspace, and again while it is finished: the whole tree is as it
//! shall be, permissions too, and what somebody did in between is theirs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use piton_tools::snapshot::{
    ChangeKind, Conflicts, FaultPoint, Leg, Operation, Options, RestorePolicy, Restored, Snapshots, TreeId,
};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A process that lives for so many changes. Once it is dead, nothing it does has any effect.
#[derive(Debug)]
struct Life(AtomicUsize);

const UNTOLD: usize = usize::MAX / 2;

impl Life {
    fn begin(&self, changes: usize) {
        self.0.store(changes, Ordering::SeqCst);
    }
}

impl FaultPoint for Life {
    fn before(&self, _: Operation, _: &Path) -> io::Result<()> {
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("dead"))
    }
}

struct Place {
    folder: tempfile::TempDir,
    life: Arc<Life>,
    snapshots: Snapshots,
}

impl Place {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let (workspace, life) = (folder.path().join("workspace"), Arc::new(Life(AtomicUsize::new(UNTOLD))));
        fs::create_dir(&workspace).unwrap();
        let options = Options { faults: Some(life.clone()), ..Options::default() };
        let snapshots = Snapshots::open(&folder.path().join("store"), &workspace, options).unwrap();
        Self { folder, life, snapshots }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("workspace").join(path)
    }

    fn put(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), Permissions::from_mode(mode)).unwrap();
    }

    fn take(&self) -> TreeId {
        self.snapshots.take().unwrap().id
    }

    fn state(&self) -> BTreeMap<PathBuf, String> {
        piton_testkit::state(&self.path(""))
    }

    /// The whole of it again, whatever is there.
    fn reset(&self, legs: &[Leg]) {
        let back: Vec<Leg> = legs.iter().rev().map(|leg| Leg { from: leg.to, to: leg.from }).collect();
        let report = self.restore(&back, back[0].from, UNTOLD);
        assert!(report.failures.is_empty() && report.conflicts.is_empty(), "{report:?}");
    }

    fn restore(&self, legs: &[Leg], began: TreeId, changes: usize) -> Restored {
        self.life.begin(changes);
        let policy = RestorePolicy { conflicts: Conflicts::Skip, began: Some(began), dry_run: false };
        let report = self.snapshots.restore(legs, policy).unwrap();
        self.life.begin(UNTOLD);
        report
    }

    /// How many changes a restore makes that nothing stops. Puts everything back.
    fn changes(&self, legs: &[Leg]) -> usize {
        self.life.begin(UNTOLD);
        self.snapshots
            .restore(legs, RestorePolicy { conflicts: Conflicts::Skip, began: Some(legs[0].from), dry_run: false })
            .unwrap();
        let changes = UNTOLD - self.life.0.load(Ordering::SeqCst);
        self.reset(legs);
        changes
    }

    /// Dies at each change in turn, sometimes a second time while it goes on, and is finished.
    fn sweep(&self, legs: &[Leg], goal: &BTreeMap<PathBuf, String>) -> usize {
        let (started, changes) = (self.state(), self.changes(legs));
        assert_eq!(self.state(), started);
        for at in 0..=changes {
            for again in [None, Some(at / 2), Some(1)] {
                self.restore(legs, legs[0].from, at);
                again.map(|again| self.restore(legs, legs[0].from, again));
                let report = self.restore(legs, legs[0].from, UNTOLD);
                let told = (&report.conflicts, &report.failures, &report.kept);
                assert_eq!(told, (&vec![], &vec![], &vec![]), "cut at {at} of {changes}, then {again:?}");
                assert_eq!(self.state(), *goal, "cut at {at} of {changes}, then {again:?}");
                self.reset(legs);
                assert_eq!(self.state(), started);
            }
        }
        changes
    }
}

/// What a path may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    File,
    OtherFile,
    Executable,
    Link,
    OtherLink,
    EmptyFolder,
    Folder,
    ClosedFolder,
    DeepFolder,
}

const KINDS: [Kind; 10] = [
    Kind::Nothing,
    Kind::File,
    Kind::OtherFile,
    Kind::Executable,
    Kind::Link,
    Kind::OtherLink,
    Kind::EmptyFolder,
    Kind::Folder,
    Kind::ClosedFolder,
    Kind::DeepFolder,
];

impl Place {
    /// Makes a path this, and nothing else.
    fn be(&self, path: &str, kind: Kind) {
        let place = self.path(path);
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&place).unwrap(),
            Ok(_) => fs::remove_file(&place).unwrap(),
            Err(_) => {}
        }
        match kind {
            Kind::Nothing => {}
            Kind::File => self.put(path, "file"),
            Kind::OtherFile => self.put(path, "other file"),
            Kind::Executable => {
                self.put(path, "file");
                self.chmod(path, 0o755);
            }
            Kind::Link => symlink("file", place).unwrap(),
            Kind::OtherLink => symlink("/nowhere/else", place).unwrap(),
            Kind::EmptyFolder => {
                fs::create_dir(place).unwrap();
                self.chmod(path, 0o755);
            }
            Kind::Folder => {
                self.put(&format!("{path}/in"), "in");
                self.chmod(path, 0o755);
            }
            Kind::ClosedFolder => {
                self.put(&format!("{path}/in"), "in");
                self.chmod(path, 0o700);
            }
            Kind::DeepFolder => {
                self.put(&format!("{path}/a/b/c/deep"), "deep");
                self.put(&format!("{path}/a/in"), "other in");
                symlink("in", self.path(&format!("{path}/a/link"))).unwrap();
                ["", "/a", "/a/b", "/a/b/c"].iter().for_each(|below| self.chmod(&format!("{path}{below}"), 0o750));
            }
        }
    }
}

#[test]
fn whatever_becomes_whatever_else_a_cut_at_every_change_is_finished() {
    let mut changes = 0;
    for before in KINDS {
        for after in KINDS.into_iter().filter(|after| *after != before) {
            let place = Place::new();
            place.put("file", "beside");
            place.be("thing", after);
            let (goal, to) = (place.state(), place.take());
            place.be("thing", before);
            let from = place.take();
            changes += place.sweep(&[Leg { from, to }], &goal);
        }
    }
    assert!(changes > 500, "only {changes}");
}

#[test]
fn many_changes_at_once_that_are_cut_at_every_one_are_finished() {
    let place = Place::new();
    let pairs: Vec<(Kind, Kind)> = KINDS.into_iter().zip(KINDS.into_iter().cycle().skip(3)).collect();
    pairs.iter().enumerate().for_each(|(number, (_, after))| place.be(&format!("p{number}"), *after));
    let (goal, to) = (place.state(), place.take());
    pairs.iter().enumerate().for_each(|(number, (before, _))| place.be(&format!("p{number}"), *before));
    let from = place.take();
    assert!(place.sweep(&[Leg { from, to }], &goal) > 40);
}

#[test]
fn a_way_of_several_legs_that_is_cut_at_every_change_is_finished() {
    let place = Place::new();
    let set = |kinds: [Kind; 4]| {
        for (number, kind) in kinds.into_iter().enumerate() {
            place.be(&format!("p{number}"), kind);
        }
        place.take()
    };
    set([Kind::Folder, Kind::File, Kind::DeepFolder, Kind::OtherFile]);
    place.put("mine", "between");
    let (goal, first) = (place.state(), place.take());
    let second = set([Kind::File, Kind::OtherFile, Kind::Link, Kind::Nothing]);
    // Somebody changes another file between the two turns.
    place.put("mine", "since");
    let third = place.take();
    let fourth = set([Kind::DeepFolder, Kind::Folder, Kind::ClosedFolder, Kind::OtherFile]);
    let legs = [Leg { from: fourth, to: third }, Leg { from: second, to: first }];
    let mut goal = goal;
    goal.extend([(PathBuf::from("mine"), place.state()[Path::new("mine")].clone())]);
    let started = place.state();
    let forth = || {
        set([Kind::DeepFolder, Kind::Folder, Kind::ClosedFolder, Kind::OtherFile]);
        assert_eq!(place.state(), started);
    };
    place.restore(&legs, fourth, UNTOLD);
    assert_eq!(place.state(), goal);
    for at in 0..60 {
        forth();
        place.restore(&legs, fourth, at);
        place.restore(&legs, fourth, at / 3);
        let report = place.restore(&legs, fourth, UNTOLD);
        assert_eq!((report.conflicts, report.failures), (vec![], vec![]), "cut at {at}");
        assert_eq!(place.state(), goal, "cut at {at}");
    }
}

#[test]
fn what_somebody_does_between_the_cut_and_the_end_is_theirs() {
    let place = Place::new();
    place.put("f/in", "in");
    ["edited", "deleted", "a", "z"].iter().for_each(|name| place.put(name, "before"));
    let to = place.take();
    let goal = place.state();
    ["edited", "deleted", "a", "z"].iter().for_each(|name| place.put(name, "after"));
    place.be("f", Kind::File);
    let legs = [Leg { from: place.take(), to }];
    let started = place.state();
    for at in 0..=place.changes(&legs) {
        place.restore(&legs, legs[0].from, at);
        place.put("edited", "mine");
        fs::remove_file(place.path("deleted")).unwrap();
        let report = place.restore(&legs, legs[0].from, UNTOLD);
        let told: Vec<_> = report.conflicts.iter().map(|told| (told.path.to_str().unwrap(), told.since)).collect();
        assert_eq!(told, [("deleted", ChangeKind::Deleted), ("edited", ChangeKind::Modified)], "cut at {at}");
        let mut wanted = goal.clone();
        wanted.remove(Path::new("deleted"));
        wanted.insert("edited".into(), place.state()[Path::new("edited")].clone());
        assert_eq!(place.state(), wanted, "cut at {at}");
        assert_eq!(fs::read_to_string(place.path("edited")).unwrap(), "mine");

        ["edited", "deleted"].iter().for_each(|name| place.put(name, "before"));
        place.reset(&legs);
        assert_eq!(place.state(), started);
    }
}

#[test]
fn where_somebody_has_taken_a_path_that_was_empty_for_a_moment_it_is_left_to_them() {
    let place = Place::new();
    place.be("f", Kind::DeepFolder);
    let to = place.take();
    place.be("f", Kind::File);
    let from = place.take();
    let legs = [Leg { from, to }];
    // The file is gone, and the folder is not there yet.
    place.restore(&legs, from, 1);
    assert!(!place.path("f").exists());
    place.put("f", "mine");
    let report = place.restore(&legs, from, UNTOLD);
    assert_eq!(report.conflicts.iter().map(|told| told.path.to_str().unwrap()).collect::<Vec<_>>(), ["f"]);
    assert_eq!((report.failures, fs::read_to_string(place.path("f")).unwrap()), (vec![], "mine".to_owned()));
}

#[test]
fn what_an_attempt_that_is_given_up_had_not_named_goes() {
    let place = Place::new();
    place.put("dir/a", "before");
    let to = place.take();
    place.put("dir/a", "after");
    let (from, state) = (place.take(), place.state());
    place.restore(&[Leg { from, to }], from, 3);
    assert_eq!(place.state().len(), state.len() + 1);
    place.snapshots.clear([Path::new("dir/a"), Path::new("dir/b"), Path::new("gone/c")]);
    assert_eq!(place.state(), state);
}
