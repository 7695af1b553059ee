//! `apply_patch` in a temporary workspace: what it changes, what it refuses whole, and what a crash leaves of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use piton_core::call::{Access, Outcome, Status};
use piton_core::question::QuestionBlock;
use piton_testkit::files::Through;
use piton_tools::disk::Disk;
use piton_tools::files::{Files, Replacement};
use piton_tools::ledger::hash_of;
use piton_tools::plan::{Look, Plan};
use piton_tools::toolset::ToolSet;
use serde_json::json;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use support::{Place, names};

fn patch(body: &str) -> serde_json::Value {
    json!({"patch": format!("*** Begin Patch\n{body}*** End Patch\n")})
}

async fn apply(place: &Place, body: &str) -> Outcome {
    place.run("apply_patch", patch(body)).await
}

fn plan(place: &Place, body: &str) -> Result<Plan, String> {
    let look = Look::without_session(place.cx.workspace.clone(), place.cx.files.clone(), true, Arc::default());
    ToolSet::builtin().get("apply_patch").unwrap().plan(&patch(body), &look).map_err(|refused| refused.text)
}

const FOUR: &str = "*** Update File: a.txt\n@@\n-one\n+1\n*** Add File: new/b.txt\n+b\n*** Delete File: c.txt\n\
                    *** Update File: d.txt\n*** Move to: e.txt\n@@\n four\n-five\n+5\n";

fn four(place: &Place) {
    place.put("a.txt", "one\ntwo\n");
    place.put("c.txt", "three\n");
    place.put("d.txt", "four\nfive\n");
}

#[tokio::test]
async fn a_patch_changes_makes_removes_and_moves_files() {
    let place = Place::new();
    four(&place);
    let outcome = apply(&place, FOUR).await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert_eq!(
        outcome.text,
        "created e.txt (moved from d.txt) (+2 −0)\n@@ -1,0 +1,2 @@\n+four\n+5\nedited a.txt (+1 −1)\n@@ -1,2 +1,2 @@\n-one\n+1\n \
         two\ncreated new/b.txt (+1 −0)\n@@ -1,0 +1,1 @@\n+b\ndeleted c.txt (+0 −1)\ndeleted d.txt (moved to e.txt) (+0 −2)"
    );
    assert_eq!(outcome.title, "patch e.txt, a.txt, new/b.txt and 2 more (+4 −4)");
    assert_eq!(names(&place.cx.workspace), ["a.txt", "e.txt", "new"]);
    assert_eq!((place.content("a.txt"), place.content("e.txt")), (b"1\ntwo\n".to_vec(), b"four\n5\n".to_vec()));
    let known: Vec<bool> = outcome.files().map(|file| file.is_gone).collect();
    assert_eq!(known, [false, false, false, true, true]);
    let again = place.run("edit", json!({"path": "e.txt", "old_string": "5", "new_string": "five"})).await;
    assert_eq!(again.status, Status::Ok, "what it wrote itself it has seen: {}", again.text);
    assert_eq!(place.cx.ledger.changes(&*place.cx.files), [], "and what it removed is no surprise");
}

#[tokio::test]
async fn a_patch_of_which_one_part_does_not_fit_changes_nothing() {
    let place = Place::new();
    four(&place);
    let before = names(&place.cx.workspace);
    for (rest, why) in [
        ("*** Update File: none.txt\n@@\n-x\n+y\n", "none.txt cannot be updated: it does not exist"),
        ("*** Update File: a.txt\n@@\n-nothing\n+y\n", "these lines are not in a.txt; read it again:\nnothing"),
        ("*** Update File: a.txt\n@@ fn f\n-two\n+2\n", "no line `fn f` stands in a.txt"),
        ("*** Delete File: none.txt\n", "none.txt cannot be deleted: it does not exist"),
        ("*** Delete File: new\n", "new cannot be deleted"),
        ("*** Add File: /dev/null\n+x\n", "not a regular file"),
        ("*** Add File: c.txt\n+x\n*** Add File: ../out/\u{1b}\n+x\n*** Delete File: none\n", "none cannot be deleted"),
    ] {
        let outcome = apply(&place, &format!("*** Add File: made.txt\n+x\n{rest}")).await;
        assert_eq!(outcome.status, Status::Failed, "{rest}");
        assert!(outcome.text.contains(why), "{rest}: {}", outcome.text);
        assert_eq!(names(&place.cx.workspace), before, "{rest}");
    }
    let unread = apply(&place, "*** Delete File: d.txt\n*** Add File: c.txt\n+new\n").await;
    assert!(unread.text.contains("c.txt exists and was not read in this session"), "{}", unread.text);
    assert_eq!(place.content("d.txt"), b"four\nfive\n");
    place.read("c.txt").await;
    assert_eq!(apply(&place, "*** Add File: c.txt\n+new\n").await.text.lines().next(), Some("edited c.txt (+1 −1)"));
    let order = apply(&place, "*** Update File: d.txt\n@@\n-five\n+5\n@@\n-four\n+4\n").await;
    assert!(order.text.contains("place 2 of 2: these lines are in d.txt on line 1, but not behind"), "{}", order.text);
}

#[tokio::test]
async fn a_patch_that_is_none_is_refused_before_anybody_is_asked() {
    let place = Place::new();
    place.put("a.txt", "one\n");
    let refused = |body: &str| plan(&place, body).map(drop).unwrap_err();
    assert_eq!(refused(""), "apply_patch: the patch changes no file");
    assert!(
        refused("*** Frobnicate File: a\n").contains("line 2 of the patch: `*** Frobnicate File: a` begins no file")
    );
    assert!(refused("*** Update File: a.txt\n@@\nx\n").contains("line 4 of the patch: `x` begins neither"));
    assert!(refused("*** Update File: a.txt\n").contains("Nothing is said to change in a.txt"));
    assert!(refused("*** Add File: \n+x\n").contains("A path is missing"));
    let tool = ToolSet::builtin().get("apply_patch").unwrap();
    let wrong = tool.run(json!({"patch": ["x"]}), &place.cx).await;
    assert!(wrong.text.contains("field `patch`: invalid type"), "{}", wrong.text);
}

#[tokio::test]
async fn a_plan_names_every_file_and_its_question_shows_every_change() {
    let place = Place::new();
    four(&place);
    std::os::unix::fs::symlink("a.txt", place.path("link")).unwrap();
    let body = FOUR.replace("a.txt", "link");
    let plan = plan(&place, &body).unwrap();
    let write = |name: &str| Access::Write(place.path(name).to_string_lossy().into_owned());
    let read = |name: &str| Access::Read(place.path(name).to_string_lossy().into_owned());
    let written = ["a.txt", "new/b.txt", "c.txt", "d.txt", "e.txt"].map(write);
    let wanted: Vec<Access> = written.into_iter().chain(["a.txt", "d.txt"].map(read)).collect();
    assert_eq!(plan.planned.accesses, wanted, "through links, both names of what moves");
    let (title, blocks) = plan.question.words();
    assert_eq!(title, "Patch a.txt, new/b.txt, c.txt and 1 more?");
    let told: Vec<String> = blocks
        .iter()
        .map(|block| match block {
            QuestionBlock::Diff { path, unified } => format!("{path}|{}", unified.lines().skip(1).collect::<String>()),
            QuestionBlock::Text { text } => text.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            "e.txt, from d.txt:",
            "e.txt|+four+5",
            "a.txt|-one+1 two",
            "new/b.txt|+b",
            "Delete c.txt:",
            "c.txt|-three",
            "Move d.txt to e.txt:",
            "d.txt|-four-five"
        ]
    );
}

#[tokio::test]
async fn what_a_patch_only_shows_stays_as_it_is_byte_for_byte() {
    let place = Place::new();
    place.put("dos.txt", b"\xef\xbb\xbfone\r\n caf\xe9\r\ntwo  \r\nlast");
    let outcome = apply(&place, "*** Update File: dos.txt\n@@\n-one\n+1\n+1b\n@@\n two\n+2b\n").await;
    assert_eq!(outcome.status, Status::Ok, "{}", outcome.text);
    assert_eq!(place.content("dos.txt"), b"\xef\xbb\xbf1\r\n1b\r\n caf\xe9\r\ntwo  \r\n2b\r\nlast");
    assert!(outcome.text.starts_with("(dos.txt: place 2, line 3, was there with other blanks at the ends of lines."));
    place.put("end.txt", "a\nb");
    apply(&place, "*** Update File: end.txt\n@@\n b\n+c\n").await;
    assert_eq!(place.content("end.txt"), b"a\nb\nc\n");
    place.put("same.txt", "x\n");
    assert!(
        apply(&place, "*** Update File: same.txt\n*** Move to: ./same.txt\n@@\n-x\n+y\n").await.status == Status::Ok
    );
    assert_eq!(place.content("same.txt"), b"y\n", "a move to its own name loses nothing");
}

#[tokio::test]
async fn what_was_not_read_as_it_is_now_is_neither_overwritten_nor_deleted_unnoticed() {
    let place = Place::new();
    place.put("a.txt", "theirs\n");
    let both = apply(&place, "*** Delete File: a.txt\n*** Add File: a.txt\n+mine\n").await;
    assert!(both.status == Status::Failed && both.text.contains("was not read in this session"), "{}", both.text);
    place.read("a.txt").await;
    place.put("a.txt", "changed since\n");
    let deleted = apply(&place, "*** Delete File: a.txt\n").await;
    assert!(deleted.status == Status::Failed && deleted.text.contains("was changed since"), "{}", deleted.text);
    assert_eq!(place.content("a.txt"), b"changed since\n");
    place.read("a.txt").await;
    assert_eq!(apply(&place, "*** Delete File: a.txt\n").await.status, Status::Ok);
    // One that the model never saw may go.
    place.put("b.txt", "b\n");
    assert_eq!(apply(&place, "*** Delete File: b.txt\n").await.status, Status::Ok);
}

#[tokio::test]
async fn a_context_that_fits_in_more_places_is_told() {
    let place = Place::new();
    place.put(
        "a.py",
        "class A:\n    def run(self):\n        return 1\nclass B:\n    def run(self):\n        return 1\n",
    );
    let outcome =
        apply(&place, "*** Update File: a.py\n@@     def run(self):\n-        return 1\n+        return 2\n").await;
    assert!(outcome.status == Status::Ok && outcome.text.contains("fits further down"), "{}", outcome.text);
}

#[tokio::test]
async fn a_patch_in_a_shells_words_is_the_patch() {
    let place = Place::new();
    let body = "*** Begin Patch\n*** Add File: NAME\n+x\n*** End Patch";
    for (number, wrapped) in [
        format!("<<EOF\n{body}\nEOF\n"),
        format!("apply_patch <<'PATCH'\n{body}\nPATCH"),
        format!("```\n{body}\n```"),
        body.replace('\n', "\r\n"),
        format!("\n\n{body}\n \t\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("file{number}");
        let outcome = place.run("apply_patch", json!({"input": wrapped.replace("NAME", &name)})).await;
        assert_eq!(outcome.status, Status::Ok, "{wrapped}: {}", outcome.text);
        assert_eq!(place.content(&name), b"x\n");
    }
}

/// A disk on which one file cannot be written, and another not taken back.
fn full(place: &Place, stuck: &str) -> Arc<dyn Files> {
    let (full, stuck) = (place.path("c.txt"), place.path(stuck));
    let put = move |change: &Replacement, content: Option<&[u8]>| {
        // What is taken back has had another content.
        let is_back = content.is_some_and(|content| content.starts_with(b"one"));
        let fails = change.path == full || (change.path == stuck && is_back);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    };
    Arc::new(Through { put: Box::new(put), ..Through::new(Arc::new(Disk::new(place.calls_dir.clone()))) })
}

#[tokio::test]
async fn a_write_that_fails_half_way_is_taken_back_and_what_cannot_be_is_named() {
    let mut place = Place::new();
    four(&place);
    place.cx.files = full(&place, "nothing");
    let outcome = apply(&place, FOUR).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.text.starts_with("apply_patch: c.txt could not be removed: "), "{}", outcome.text);
    assert!(outcome.text.ends_with("was taken back: all files are as they were."), "{}", outcome.text);
    assert_eq!(place.content("a.txt"), b"one\ntwo\n");
    assert!(!place.path("e.txt").exists() && !place.path("new/b.txt").exists() && place.path("d.txt").exists());
    place.cx.files = full(&place, "a.txt");
    let outcome = apply(&place, FOUR).await;
    assert!(outcome.text.ends_with("was taken back, but not a.txt: look at it."), "{}", outcome.text);
    assert!(!place.path("e.txt").exists());
}

/// A disk on which removing `c.txt` fails, once this has happened.
fn fails_behind(place: &Place, meanwhile: impl Fn() + Send + Sync + 'static) -> Arc<dyn Files> {
    let full = place.path("c.txt");
    let put = move |change: &Replacement, content: Option<&[u8]>| {
        if change.path == full && content.is_none() {
            meanwhile();
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    };
    Arc::new(Through { put: Box::new(put), ..Through::new(Arc::new(Disk::new(place.calls_dir.clone()))) })
}

#[tokio::test]
async fn what_somebody_else_changed_meanwhile_is_not_taken_back_but_named() {
    let mut place = Place::new();
    four(&place);
    let a = place.path("a.txt");
    place.cx.files = fails_behind(&place, move || std::fs::write(&a, "theirs\n").unwrap());
    let outcome = apply(&place, FOUR).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(
        outcome.text.contains("was taken back, but not a.txt, which somebody else has changed"),
        "{}",
        outcome.text
    );
    assert_eq!(place.content("a.txt"), b"theirs\n");
    assert!(!place.path("e.txt").exists() && !place.path("new/b.txt").exists());
    assert_eq!((place.content("c.txt"), place.content("d.txt")), (b"three\n".to_vec(), b"four\nfive\n".to_vec()));
}

#[tokio::test]
async fn a_step_that_failed_and_happened_all_the_same_is_taken_back_with_its_rights() {
    let mut place = Place::new();
    four(&place);
    let c = place.path("c.txt");
    std::fs::set_permissions(&c, Permissions::from_mode(0o750)).unwrap();
    let gone = c.clone();
    place.cx.files = fails_behind(&place, move || std::fs::remove_file(&gone).unwrap());
    let outcome = apply(&place, FOUR).await;
    assert!(outcome.text.ends_with("was taken back: all files are as they were."), "{}", outcome.text);
    assert_eq!(place.content("c.txt"), b"three\n");
    assert_eq!(std::fs::metadata(&c).unwrap().permissions().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn a_file_that_moves_keeps_its_rights() {
    let place = Place::new();
    four(&place);
    for mode in [0o755, 0o600] {
        std::fs::set_permissions(place.path("d.txt"), Permissions::from_mode(mode)).unwrap();
        assert_eq!(
            apply(&place, "*** Update File: d.txt\n*** Move to: sub/e.sh\n@@\n-four\n+4\n").await.status,
            Status::Ok
        );
        assert_eq!(std::fs::metadata(place.path("sub/e.sh")).unwrap().permissions().mode() & 0o777, mode);
        std::fs::remove_file(place.path("sub/e.sh")).unwrap();
        place.put("d.txt", "four\nfive\n");
    }
}

#[tokio::test]
async fn a_patch_cut_off_by_a_crash_is_finished_from_wherever_it_stood() {
    // The patch writes e, a, new/b and removes c, d, in this order. `cut`: how many of these it had done.
    for cut in 0..=5 {
        let mut place = Place::new();
        four(&place);
        assert_eq!(apply(&place, FOUR).await.status, Status::Ok);
        let steps: [(&str, Option<&str>); 5] = [
            ("e.txt", None),
            ("a.txt", Some("one\ntwo\n")),
            ("new/b.txt", None),
            ("c.txt", Some("three\n")),
            ("d.txt", Some("four\nfive\n")),
        ];
        for (name, before) in &steps[cut..] {
            match before {
                Some(before) => place.put(name, before),
                None => std::fs::remove_file(place.path(name)).unwrap(),
            }
        }
        place.cx = place.restarted();
        let outcome = place.settle("apply_patch", patch(FOUR)).await;
        assert_eq!(outcome.status, Status::Ok, "{cut}: {}", outcome.text);
        let told = match cut {
            0 => "created e.txt",
            5 => "apply_patch: already applied before the interruption",
            _ => "(e.txt",
        };
        assert!(outcome.text.starts_with(told), "{cut}: {}", outcome.text);
        assert_eq!(outcome.files().count(), 5, "{cut}: all of them are on record");
        assert_eq!(names(&place.cx.workspace), ["a.txt", "e.txt", "new"], "{cut}");
        assert_eq!((place.content("a.txt"), place.content("e.txt")), (b"1\ntwo\n".to_vec(), b"four\n5\n".to_vec()));
        // A second crash finds it done.
        place.cx = place.restarted();
        assert!(place.settle("apply_patch", patch(FOUR)).await.text.contains("already applied"), "{cut}");
    }
}

#[tokio::test]
async fn a_patch_whose_files_were_changed_after_a_crash_is_a_conflict() {
    let mut place = Place::new();
    four(&place);
    apply(&place, FOUR).await;
    place.put("c.txt", "somebody else's\n");
    place.cx = place.restarted();
    let outcome = place.settle("apply_patch", patch(FOUR)).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.text.contains("conflict after an interruption: c.txt is neither"), "{}", outcome.text);
    assert_eq!(place.content("c.txt"), b"somebody else's\n");
}

#[tokio::test]
async fn an_intent_of_an_earlier_version_is_understood() {
    let place = Place::new();
    place.put("a.txt", "two\n");
    let (before, after) = (hash_of(b"one\n"), hash_of(b"two\n"));
    std::fs::create_dir_all(&place.calls_dir).unwrap();
    let intent = json!({"path": place.path("a.txt"), "before": before, "after": after});
    std::fs::write(place.file("intent"), intent.to_string()).unwrap();
    let input = json!({"path": "a.txt", "old_string": "one", "new_string": "two"});
    assert!(place.settle("edit", input).await.text.contains("already applied"));
}

/// Every file below a folder, with its content.
fn all(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> =
        names_below(folder).map(|name| (name.clone(), std::fs::read(folder.join(&name)).unwrap())).collect();
    files.sort();
    files
}

fn names_below(folder: &Path) -> impl Iterator<Item = String> {
    if folder.is_dir() { names(folder) } else { Vec::new() }.into_iter()
}

#[tokio::test]
async fn codexs_scenarios_end_as_they_do_there_but_for_patches_that_half_apply() {
    /// Codex leaves what the first half of a patch did: here a patch is made whole or not at all.
    const HALF: &str = "015_failure_after_partial_success_leaves_changes";
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/codex/apply_patch_scenarios");
    for scenario in names(&scenarios) {
        let (place, folder) = (Place::new(), scenarios.join(&scenario));
        for (name, content) in all(&folder.join("input")) {
            place.put(&name, content);
            // As a model has that replaces a file.
            place.read(&name).await;
        }
        let text = std::fs::read_to_string(folder.join("patch.txt")).unwrap();
        place.run("apply_patch", json!({"patch": text})).await;
        let wanted = if scenario == HALF { all(&folder.join("input")) } else { all(&folder.join("expected")) };
        assert_eq!(all(&place.cx.workspace), wanted, "{scenario}");
    }
}
