//! `session fork` and `session tree`.

use crate::stage::{Ran, Stage};
use serde_json::json;

#[test]
fn a_fork_goes_on_from_where_the_session_was_and_leaves_it_alone() {
    let stage = Stage::new(json!([{"text": "first"}, {"text": "second"}, {"text": "in the fork"}]));
    stage.run(&["one"]).expect_code(0);
    stage.run(&["--continue", "two"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();

    let tree = Ran::of(stage.piton(&["session", "tree", &id])).expect_code(0);
    let lines: Vec<&str> = tree.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", tree.stdout);
    let at = lines[1].split(['[', ']']).nth(1).unwrap();

    let fork = Ran::of(stage.piton(&["session", "fork", &id, "--at", at])).expect_code(0).stdout.trim().to_owned();
    Ran::of(stage.run_command(&["--resume", &fork, "another two"])).expect_code(0);
    let said: Vec<_> = stage.last_messages().iter().filter(|message| message["role"] != "system").cloned().collect();
    assert_eq!(said.len(), 3, "one, first, another two: {said:?}");
    assert_eq!(said[1]["content"], "first");
    let old = Ran::of(stage.piton(&["session", "tree", &id])).expect_code(0);
    assert_eq!(old.stdout, tree.stdout);
    let new = Ran::of(stage.piton(&["session", "tree", &fork])).expect_code(0);
    assert!(new.stdout.contains(&format!("forked from {id} at {at}")), "{}", new.stdout);
}

#[test]
fn a_fork_begins_where_a_turn_has_ended_or_not_at_all() {
    let stage = Stage::new(json!([{"text": "first"}]));
    stage.run(&["one"]).expect_code(0);
    let id = stage.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
    let ran = Ran::of(stage.piton(&["session", "fork", &id, "--at", "4"]));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot fork at event 4"), "{}", ran.stderr);
    let sessions = std::fs::read_dir(stage.home.path().join("data/sessions")).unwrap();
    assert_eq!(sessions.count(), 1, "nothing was made");
}
