//! `piton undo` and `piton redo`: words and files go back together, whatever changed the files.

use crate::stage::{Ran, Stage};
use piton_core::branch;
use piton_core::event::{Direction, Event, Moment, Record, Restore, Rewind, Touched};
use piton_engine::store::Opening;
use piton_engine::store::sqlite::{Journal, SessionDir};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn bash(command: &str) -> Value {
    json!({"tools": [{"name": "bash", "args": {"command": command}}]})
}

/// A turn in which a shell command changes, makes and removes files.
fn changed() -> Stage {
    let command = "echo two > kept.txt; rm gone.txt; mkdir new; echo made > new/made.txt; chmod +x tool.sh";
    let stage = Stage::new(json!([bash(command), {"text": "done"}, {"text": "after"}, {"text": "more"}]));
    let stage = stage.with_files([("kept.txt", "one\n"), ("gone.txt", "gone\n"), ("tool.sh", "#!/bin/sh\n")]);
    stage.run(&["change things"]).expect_code(0);
    stage
}

fn piton(stage: &Stage, args: &[&str]) -> Ran {
    Ran::of(stage.piton(args))
}

/// Starts a run, and kills it as soon as it has come so far.
fn kill_when(stage: &Stage, has_come_so_far: impl Fn(&Stage) -> bool) {
    let mut child = stage.start(&["go"]);
    while !has_come_so_far(stage) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn is_executable(stage: &Stage) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(stage.workspace.path().join("tool.sh")).unwrap().permissions().mode() & 0o100 != 0
}

#[test]
fn a_session_is_shown_with_the_files_and_lines_that_it_changed() {
    let show = |stage: &Stage| piton(stage, &["session", "show", "last"]).expect_code(0).stdout;
    let stage = changed();
    // One line for another, one gone, one made; and other rights.
    assert!(show(&stage).ends_with("\n4 files changed  +2 −2\n"), "{}", show(&stage));
    // Between the first state and the last: what a later turn puts back was not changed.
    let stage =
        Stage::new(json!([bash("echo two > a; echo three > b"), {"text": "done"}, bash("rm b"), {"text": "done"}]));
    stage.run(&["go"]).expect_code(0);
    stage.run(&["--continue", "go on"]).expect_code(0);
    assert!(show(&stage).ends_with("\n1 file changed  +1 −0\n"), "{}", show(&stage));
    piton(&stage, &["undo", "2"]).expect_code(0);
    assert!(!show(&stage).contains("changed"), "{}", show(&stage));
}

#[test]
fn an_undo_takes_back_what_bash_did_and_the_words_and_a_redo_brings_both_back() {
    let stage = changed();
    let undone = piton(&stage, &["undo"]).expect_code(0);
    for told in ["“change things”", "gone.txt  created  +1 −0", "kept.txt  changed  +1 −1", "new/made.txt  deleted"]
    {
        assert!(undone.stderr.contains(told), "{told}: {}", undone.stderr);
    }
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    assert_eq!(stage.workspace.read("gone.txt"), "gone\n");
    assert!(!stage.workspace.has("new") && !is_executable(&stage));

    let shown = piton(&stage, &["session", "show", "last"]).expect_code(0);
    assert!(shown.stdout.contains("[the last turn was taken back]"), "{}", shown.stdout);
    assert!(!shown.stdout.contains("you: "), "{}", shown.stdout);

    piton(&stage, &["redo", "--session", "-1"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "two\n");
    assert!(!stage.workspace.has("gone.txt") && stage.workspace.has("new/made.txt") && is_executable(&stage));
    let nothing = piton(&stage, &["redo"]).expect_code(1);
    assert!(nothing.stderr.contains("nothing to redo in ses_"), "{}", nothing.stderr);

    piton(&stage, &["undo"]).expect_code(0);
    stage.run(&["--continue", "something else"]).expect_code(0);
    let said = stage.last_messages();
    assert!(!said.iter().any(|message| message.to_string().contains("change things")), "{said:?}");
}

#[test]
fn a_dry_run_says_the_same_and_changes_nothing() {
    let stage = changed();
    let said = piton(&stage, &["undo", "--dry-run"]).expect_code(0);
    assert!(said.stderr.contains("would undo 1 turn"), "{}", said.stderr);
    assert_eq!(stage.workspace.read("kept.txt"), "two\n");
    let tree = piton(&stage, &["session", "tree", stage.session_dir().file_name().unwrap().to_str().unwrap()]);
    assert!(!tree.stdout.contains("taken back"), "{}", tree.stdout);
}

#[test]
fn a_dry_run_shows_a_turn_that_was_cut_off_and_does_not_even_end_it() {
    let stage = Stage::new(json!([bash("echo two > kept.txt; echo new > new.txt"), {"text": "half", "stall_mid": 60}]));
    let stage = stage.with_files([("kept.txt", "one\n")]);
    kill_when(&stage, |stage| stage.provider.requests().len() == 2);
    let (files, events) = (piton_testkit::state(&stage.workspace.path()), stage.journal().len());
    let said = piton(&stage, &["undo", "--dry-run"]).expect_code(0);
    for told in [
        "interrupted; it would be ended first",
        "would undo 1 turn",
        "“go”",
        "kept.txt  changed  +1 −1",
        "new.txt  deleted",
    ] {
        assert!(said.stderr.contains(told), "{told}: {}", said.stderr);
    }
    assert_eq!((piton_testkit::state(&stage.workspace.path()), stage.journal().len()), (files, events));
    piton(&stage, &["undo"]).expect_code(0);
    assert!(!stage.workspace.has("new.txt"));
}

#[test]
fn a_dry_run_leaves_an_undo_that_was_cut_off_as_it_is() {
    let stage = changed();
    cut_off(&stage);
    let (files, events) = (piton_testkit::state(&stage.workspace.path()), stage.journal().len());
    piton(&stage, &["undo", "--dry-run"]).expect_code(0).expect_said(&["would finish the interrupted undo"]);
    assert_eq!((piton_testkit::state(&stage.workspace.path()), stage.journal().len()), (files, events));
}

#[test]
fn a_repository_that_is_gone_is_said_once_not_to_come_back() {
    let stage = Stage::new(json!([bash("sh tidy.sh"), {"text": "done"}]));
    let stage = stage.with_files([
        ("kept.txt", "one\n"),
        ("tidy.sh", "rm -rf .git; echo two > kept.txt\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
    ]);
    stage.run(&["--sandbox", "off", "tidy up"]).expect_code(0);
    let word = [".git does not come back: no snapshot covers it"];
    piton(&stage, &["undo", "--dry-run"]).expect_code(0).expect_said(&word);
    piton(&stage, &["undo"]).expect_code(0).expect_said(&word);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    assert!(!piton(&stage, &["redo"]).expect_code(0).stderr.contains(".git"), "once is enough");
}

#[test]
fn a_name_with_a_line_feed_makes_no_line_of_its_own() {
    let stage = Stage::new(json!([bash("echo new > $'a\ndone; all is well'"), {"text": "done"}]));
    stage.run(&["odd"]).expect_code(0);
    let said = piton(&stage, &["undo"]).expect_code(0);
    assert!(said.stderr.contains(r"a\ndone; all is well  deleted"), "{}", said.stderr);
}

#[test]
fn what_somebody_else_changed_since_is_taken_back_only_on_purpose_and_not_lost_even_then() {
    let stage = changed();
    stage.workspace.write("kept.txt", "mine\n");
    let refused = piton(&stage, &["undo"]).expect_code(1);
    assert!(refused.stderr.contains("changed since") && refused.stderr.contains("kept.txt"), "{}", refused.stderr);
    assert!(stage.workspace.has("new/made.txt"), "nothing at all is touched");
    assert_eq!(stage.workspace.read("kept.txt"), "mine\n");
    piton(&stage, &["undo", "--dry-run"]).expect_code(1).expect_said(&["would undo 1 turn", "new/", "changed since"]);

    piton(&stage, &["undo", "--overwrite"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    piton(&stage, &["redo"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "mine\n");
}

#[test]
fn what_a_build_has_changed_since_is_in_nobodys_way() {
    let stage = Stage::new(json!([bash("echo new > kept.txt; mkdir target; echo 1 > target/out"), {"text": "done"}]));
    let stage = stage.with_files([("kept.txt", "one\n"), (".gitignore", "/target\n")]);
    stage.workspace.write(".git/HEAD", "ref: refs/heads/main\n");
    stage.run(&["build it"]).expect_code(0);
    stage.workspace.write("target/out", "2");
    piton(&stage, &["undo"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    assert_eq!(stage.workspace.read("target/out"), "2", "it is nobody's work, and stays");
}

#[test]
fn files_and_words_can_be_taken_back_alone() {
    let stage = changed();
    piton(&stage, &["undo", "--files-only"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    stage.run(&["--continue", "and now"]).expect_code(0);
    let said = json!(stage.last_messages()).to_string();
    assert!(said.contains("change things") && said.contains("The user took back all changes to files"), "{said}");

    let stage = changed();
    piton(&stage, &["undo", "--chat-only"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "two\n");
}

#[test]
fn a_turn_that_was_cut_off_is_ended_and_taken_back() {
    let stage = Stage::new(json!([bash("echo two > kept.txt"), {"text": "half", "stall_mid": 60}]));
    let stage = stage.with_files([("kept.txt", "one\n")]);
    kill_when(&stage, |stage| stage.provider.requests().len() == 2);
    assert_eq!(stage.workspace.read("kept.txt"), "two\n");
    let undone = piton(&stage, &["undo"]).expect_code(0);
    assert!(undone.stderr.contains("interrupted"), "{}", undone.stderr);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    assert_eq!(stage.provider.requests().len(), 2, "no model is asked for an undo");
}

/// The record that a line is a projection of.
fn record(mut line: Value) -> Record {
    line.as_object_mut().unwrap().remove("class");
    serde_json::from_value(line).unwrap()
}

/// What a process leaves that is killed in the middle of an undo: the announcement, and one file of four.
fn cut_off(stage: &Stage) {
    let records: Vec<Record> = stage.journal().into_iter().map(record).collect();
    let trees = |wanted: Moment| {
        records.iter().find_map(|record| match &record.event {
            Event::SnapshotTaken { moment, tree, .. } if *moment == wanted => tree.clone(),
            _ => None,
        })
    };
    let (before, after) = (trees(Moment::Before).unwrap(), trees(Moment::After).unwrap());
    let files = vec![Restore { from: after.clone(), to: before }];
    let to = Some(branch::turns(&records)[0].started - 1);
    let rewind = Rewind { direction: Direction::Undo, turns: 1, to, files, overwrite: false };
    let touches = Touched::of(vec!["gone.txt".into(), "kept.txt".into()]);
    let (sessions, id) = (stage.home.path().join("data/sessions"), stage.session_dir());
    let dir = SessionDir::new(&sessions, &id.file_name().unwrap().to_str().unwrap().into());
    let (mut journal, _) =
        Journal::open(&dir, Opening { pid: 1, boot_id: None, now_ms: 1, shares_runtime: false }).unwrap();
    journal.stage(1, Event::RewindStarted { rewind, was: after, touches });
    journal.commit().unwrap();
    stage.workspace.write("kept.txt", "one\n");
}

#[test]
fn an_undo_that_was_cut_off_and_has_lost_its_snapshots_is_ended_and_said_once() {
    let stage = changed();
    cut_off(&stage);
    std::fs::remove_dir_all(stage.home.path().join("data/snapshots")).unwrap();
    let words = ["an undo of the last turn was cut off", "there is no snapshot", "gone.txt, kept.txt", "by hand"];
    let undone = piton(&stage, &["undo"]).expect_code(1).expect_said(&words);
    assert!(undone.stderr.contains("nothing was changed in ses_"), "{}", undone.stderr);
    let kinds = |kind: &str| stage.journal().iter().filter(|event| event["type"] == kind).count();
    assert_eq!((kinds("rewind_abandoned"), kinds("rewind_finished")), (1, 0));
    piton(&stage, &["session", "show", "last"]).expect_code(0).expect_stdout(&["an undo of the last turn was cut off"]);

    let again = Ran::of(stage.piton(&["run", "--yes", "--model", "openai-chat/m", "--continue", "and now?"]));
    assert!(!again.expect_code(0).stderr.contains("cut off"));
    let said = json!(stage.last_messages()).to_string();
    assert!(said.contains("change things") && said.contains("The user wanted to take back the last turn"), "{said}");
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    assert!(!stage.workspace.has("gone.txt"), "nothing is guessed");
    piton(&stage, &["undo", "2", "--chat-only"]).expect_code(0);
}

#[test]
fn a_run_says_what_became_of_an_undo_that_was_cut_off() {
    for format in ["text", "json", "stream-json"] {
        let stage = changed();
        cut_off(&stage);
        std::fs::remove_dir_all(stage.home.path().join("data/snapshots")).unwrap();
        let args = ["run", "--yes", "--model", "openai-chat/m", "--format", format, "--continue", "and now?"];
        let ran = Ran::of(stage.piton(&args)).expect_code(0);
        match format {
            "stream-json" => assert_eq!(ran.all("rewind_abandoned")[0]["touches"]["paths"][1], "kept.txt"),
            _ => assert!(ran.stderr.contains("gone.txt, kept.txt") && ran.stderr.contains("by hand"), "{}", ran.stderr),
        }
    }
}

#[test]
fn an_undo_that_was_given_up_can_be_made_again_where_its_snapshots_are_back() {
    let stage = changed();
    cut_off(&stage);
    let (there, away) = (stage.home.path().join("data/snapshots"), stage.home.path().join("away"));
    std::fs::rename(&there, &away).unwrap();
    piton(&stage, &["undo"]).expect_code(1).expect_said(&["`piton undo` tries again"]);
    std::fs::remove_dir_all(&there).unwrap();
    std::fs::rename(&away, &there).unwrap();
    let undone = piton(&stage, &["undo"]).expect_code(0);
    assert!(!undone.stderr.contains("cut off"), "{}", undone.stderr);
    assert!(stage.workspace.has("gone.txt") && !stage.workspace.has("new"));
    piton(&stage, &["redo"]).expect_code(0);
    assert!(stage.workspace.has("new/made.txt"));
}

#[test]
fn an_undo_that_was_cut_off_is_finished_when_its_snapshots_are_there() {
    let stage = changed();
    cut_off(&stage);
    let ran = stage.run(&["--continue", "and now?"]).expect_code(0);
    assert_eq!((ran.all("rewind_finished").len(), ran.all("rewind_abandoned").len()), (1, 0));
    assert_eq!(stage.workspace.read("gone.txt"), "gone\n");
}

#[test]
fn a_run_without_words_finishes_an_undo_that_was_cut_off_and_asks_no_model() {
    let stage = changed();
    cut_off(&stage);
    let asked = stage.provider.requests().len();
    let ran = Ran::of(stage.piton(&["run", "--model", "openai-chat/m", "--continue"])).expect_code(1);
    for told in ["finished the interrupted undo (1 turn)", "nothing to continue in"] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
    assert_eq!((stage.workspace.read("gone.txt"), stage.provider.requests().len()), ("gone\n".to_owned(), asked));
}

#[test]
fn what_somebody_changed_after_an_undo_was_cut_off_stays_and_is_named() {
    let stage = changed();
    cut_off(&stage);
    stage.workspace.write("kept.txt", "mine\n");
    piton(&stage, &["undo"]).expect_code(0).expect_said(&["finished the interrupted undo (1 turn) except kept.txt"]);
    assert_eq!(
        (stage.workspace.read("gone.txt"), stage.workspace.read("kept.txt")),
        ("gone\n".into(), "mine\n".into())
    );
}

/// A turn that makes folders of files, files of folders, and changes enough beside them for a kill to hit the middle.
fn changed_kinds() -> (Stage, BTreeMap<PathBuf, String>) {
    let command = "rm a; mkdir a; echo y > a/y; rm -r b; echo f > b; rm l; mkdir l; echo 2 | tee f{1..300}";
    let stage = Stage::new(json!([bash(command), {"text": "done"}])).with_files([("a", "a\n"), ("b/deep/z", "z\n")]);
    (1..=300).for_each(|number| stage.workspace.write(format!("f{number}"), "1\n"));
    std::os::unix::fs::symlink("b/deep", stage.workspace.path().join("l")).unwrap();
    let before = piton_testkit::state(&stage.workspace.path());
    stage.run(&["change things"]).expect_code(0);
    (stage, before)
}

#[test]
fn an_undo_that_is_killed_between_a_file_and_a_folder_is_finished_by_whatever_comes_next() {
    let (stage, before) = changed_kinds();
    let run: &[&str] = &["run", "--model", "openai-chat/m", "--continue"];
    for (path, is_folder, next) in [("b", None, &["undo"][..]), ("a", None, run), ("b", Some(true), &["undo"])] {
        let kind = || std::fs::symlink_metadata(stage.workspace.path().join(path)).ok().map(|found| found.is_dir());
        let was = kind();
        let has_come = || kind() != was && (is_folder.is_none() || kind() == is_folder);
        let mut undo = stage.piton(&["undo"]).stderr(std::process::Stdio::null()).spawn().unwrap();
        while !has_come() {
            assert!(undo.try_wait().unwrap().is_none_or(|ended| ended.success()));
        }
        undo.kill().unwrap();
        undo.wait().unwrap();
        let is_finished = stage.journal().iter().rev().find_map(|event| match event["type"].as_str() {
            Some("rewind_started") => Some(false),
            Some("rewind_finished") => Some(true),
            _ => None,
        });
        let next = piton(&stage, next);
        assert!(
            is_finished == Some(true) || next.stderr.contains("finished the interrupted undo (1 turn)"),
            "{}",
            next.stderr
        );
        assert_eq!(piton_testkit::state(&stage.workspace.path()), before, "killed when {path} was no longer {was:?}");
        piton(&stage, &["redo"]).expect_code(0);
    }
}

#[test]
fn several_turns_go_back_at_once_and_those_that_are_not_there_do_not() {
    let script = json!([bash("echo 1 >> log"), {"text": "a"}, bash("echo 2 >> log"), {"text": "b"}, {"text": "c"}]);
    let stage = Stage::new(script);
    stage.run(&["one"]).expect_code(0);
    stage.run(&["--continue", "two"]).expect_code(0);
    stage.run(&["--continue", "three"]).expect_code(0);
    let refused = piton(&stage, &["undo", "4"]).expect_code(1);
    assert!(refused.stderr.contains("cannot undo 4 turns: there are 3"), "{}", refused.stderr);
    piton(&stage, &["undo", "2"]).expect_code(0);
    assert_eq!(stage.workspace.read("log"), "1\n");
    piton(&stage, &["undo"]).expect_code(0);
    assert!(!stage.workspace.has("log"));
    piton(&stage, &["redo"]).expect_code(0);
    piton(&stage, &["redo"]).expect_code(0);
    assert_eq!(stage.workspace.read("log"), "1\n2\n");
}

#[test]
fn where_no_session_has_worked_there_is_nothing_to_take_back() {
    let stage = Stage::new(json!([]));
    let ran = piton(&stage, &["undo"]).expect_code(1);
    assert!(ran.stderr.contains("no session has worked in"), "{}", ran.stderr);
}

#[test]
fn a_session_that_is_resumed_from_elsewhere_is_undone_in_its_own_folder() {
    let stage = Stage::new(json!([{"text": "hi"}, bash("echo two > kept.txt"), {"text": "done"}]));
    let stage = stage.with_files([("kept.txt", "one\n")]);
    stage.run(&["hello"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let elsewhere = piton_testkit::TempWorkspace::with([("mine.txt", "mine\n")]);
    let mut command = stage.run_command(&["--resume", &id, "change it"]);
    command.current_dir(elsewhere.path());
    Ran::of(command).expect_code(0);
    let mut command = stage.piton(&["undo", "--session", &id]);
    command.current_dir(elsewhere.path());
    let undone = Ran::of(command).expect_code(0);
    assert!(undone.stderr.contains("kept.txt  changed"), "{}", undone.stderr);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    assert_eq!(elsewhere.read("mine.txt"), "mine\n");
}

/// More than the steps in which the system stamps files: a change right before Piton starts cannot be told from its own.
fn a_moment_passes() {
    std::thread::sleep(std::time::Duration::from_millis(60));
}

#[test]
fn what_was_changed_while_a_turn_lay_cut_off_is_taken_back_only_on_purpose() {
    let stage = Stage::new(json!([bash("echo two > kept.txt; echo by > bash.txt"), {"text": "half", "stall_mid": 60}]));
    let stage = stage.with_files([("kept.txt", "one\n")]);
    kill_when(&stage, |stage| stage.provider.requests().len() == 2);
    // Longer than what the turn itself may have left behind.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    stage.workspace.write("kept.txt", "mine\n");
    stage.workspace.write("new.txt", "mine, too\n");
    a_moment_passes();

    for attempt in ["ends the turn", "finds it ended"] {
        let refused = piton(&stage, &["undo"]).expect_code(1).expect_said(&["interrupted", "kept.txt", "new.txt"]);
        assert!(!refused.stderr.contains("bash.txt"), "{attempt}: {}", refused.stderr);
        assert_eq!(stage.workspace.read("kept.txt"), "mine\n", "{attempt}");
        assert!(stage.workspace.has("new.txt") && stage.workspace.has("bash.txt"), "{attempt}");
    }
    piton(&stage, &["undo", "--overwrite"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
    assert!(!stage.workspace.has("new.txt") && !stage.workspace.has("bash.txt"));
    piton(&stage, &["redo"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "mine\n");
    assert_eq!(stage.workspace.read("new.txt"), "mine, too\n");
}

#[test]
fn several_turns_that_changed_one_file_go_back_although_somebody_changed_another_between_them() {
    let script = json!([bash("echo 1 > f.txt"), {"text": "done"}, bash("echo 2 > f.txt"), {"text": "done"}]);
    let stage = Stage::new(script).with_files([("f.txt", "0\n"), ("g.txt", "0\n"), ("h.txt", "0\n")]);
    stage.run(&["first"]).expect_code(0);
    stage.workspace.write("g.txt", "mine\n");
    stage.run(&["--continue", "second"]).expect_code(0);
    let told = piton(&stage, &["undo", "2"]).expect_code(0);
    assert!(!told.stderr.contains("someone else"), "{}", told.stderr);
    assert_eq!((stage.workspace.read("f.txt"), stage.workspace.read("g.txt")), ("0\n".into(), "mine\n".into()));

    let script = json!([bash("echo 1 > f.txt"), {"text": "done"}, bash("echo 2 > f.txt"), {"text": "done"}]);
    let stage = Stage::new(script).with_files([("f.txt", "0\n")]);
    stage.run(&["first"]).expect_code(0);
    stage.workspace.write("f.txt", "mine, between\n");
    stage.run(&["--continue", "second"]).expect_code(0);
    piton(&stage, &["undo", "2"]).expect_code(1).expect_said(&["someone else", "f.txt"]);
    assert_eq!(stage.workspace.read("f.txt"), "2\n", "nothing at all is touched");
}

#[test]
fn an_undo_that_was_cut_off_is_finished_by_the_next_which_goes_no_further() {
    let stage = changed();
    stage.run(&["--continue", "more"]).expect_code(0);
    cut_off(&stage);
    let finished = piton(&stage, &["undo"]).expect_code(0);
    assert!(finished.stderr.contains("finished the interrupted undo"), "{}", finished.stderr);
    assert_eq!(stage.workspace.read("gone.txt"), "gone\n");
    let kinds = |kind: &str| stage.journal().iter().filter(|event| event["type"] == kind).count();
    assert_eq!(kinds("rewind_finished"), 1);
}

#[test]
fn what_was_changed_beside_a_command_that_outlived_piton_is_taken_back_only_on_purpose() {
    let stage = Stage::new(json!([bash("echo two > kept.txt; sleep 60"), {"text": "done"}]));
    let stage = stage.with_files([("kept.txt", "one\n"), ("mine.txt", "0\n")]);
    kill_when(&stage, |stage| stage.workspace.read("kept.txt") == "two\n");
    // Longer than what the turn itself may have left behind.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    stage.workspace.write("mine.txt", "mine\n");
    a_moment_passes();
    piton(&stage, &["undo"]).expect_code(1).expect_said(&["interrupted", "mine.txt"]);
    assert_eq!(stage.workspace.read("mine.txt"), "mine\n");
    piton(&stage, &["undo", "--overwrite"]).expect_code(0);
    assert_eq!(stage.workspace.read("kept.txt"), "one\n");
}

#[test]
fn without_snapshots_none_is_taken_and_with_a_limit_what_is_beyond_it_is_named() {
    let script = || json!([bash("echo two > kept.txt"), {"text": "done"}]);
    let stage = Stage::new(script()).with_config("[undo]\nsnapshots = false\n");
    stage.run(&["go"]).expect_code(0);
    assert!(stage.journal().iter().all(|event| event["type"] != "snapshot_taken"));
    // It is not said that the turn changed nothing.
    let undone = piton(&stage, &["undo"]).expect_code(0);
    undone.expect_said(&["undoing 1 turn, the conversation only", "no snapshots were taken (undo.snapshots)"]);
    assert_eq!(stage.workspace.read("kept.txt"), "two\n");
    let big = "x".repeat(2_000_000);
    let stage = Stage::new(script()).with_config("[undo]\nmax_size = 1\n").with_files([("data/big", big.as_str())]);
    let ran = Ran::of(stage.piton(&["run", "--yes", "go"])).expect_code(0);
    let named = "undo will not cover all of data: 1 of the largest files (2 MB), with which it would be more than 1 MB";
    assert_eq!(ran.stderr.matches(named).count(), 1, "{}", ran.stderr);
}
