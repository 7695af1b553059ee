//! `bash` as the model calls it: where a command starts, and how long a script may be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use piton_core::call::Status;
use piton_tools::plan::Look;
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use support::Place;

fn look(place: &Place) -> Look {
    Look {
        workspace: place.cx.workspace.clone(),
        files: Arc::clone(&place.cx.files),
        is_confined: false,
        env: Arc::clone(&place.cx.env),
        firewall: place.cx.firewall.clone(),
        links: piton_tools::plan::Links::default(),
    }
}

fn planned(place: &Place, input: &Value) -> Result<piton_tools::plan::Plan, String> {
    ToolSet::builtin().get("bash").unwrap().plan(input, &look(place)).map_err(|outcome| outcome.text)
}

#[tokio::test]
async fn a_command_starts_in_its_workdir_wherever_a_link_leads_within_the_workspace() {
    let place = Place::new();
    place.put("deep/er/file", "");
    symlink(place.path("deep/er"), place.path("link")).unwrap();
    for workdir in ["deep/er", "link", "./deep/../link", place.path("link").to_str().unwrap()] {
        let outcome = place.run("bash", json!({"command": "pwd -P; ls", "workdir": workdir})).await;
        assert_eq!(outcome.text, format!("{}\nfile", place.path("deep/er").display()), "{workdir}");
        place.renew();
    }
}

#[tokio::test]
async fn a_workdir_out_of_the_workspace_is_refused_before_anything_runs() {
    let place = Place::new();
    place.put("file", "");
    symlink("/usr", place.path("out")).unwrap();
    for (workdir, why) in [
        ("out", "is /usr, which is not below the workspace"),
        ("..", "which is not below the workspace"),
        ("/", "is /, which is not below the workspace"),
        ("a\0b", "holds a NUL character"),
    ] {
        let input = json!({"command": "touch ran", "workdir": workdir});
        let refused = planned(&place, &input).unwrap_err();
        assert!(refused.contains(why), "{workdir}: {refused}");
        // A link that was swapped since it was planned meets the same words.
        let outcome = place.run("bash", input).await;
        assert!(outcome.status == Status::Failed && outcome.text.contains(why), "{workdir}: {}", outcome.text);
    }
    for workdir in ["gone", "file"] {
        let outcome = place.run("bash", json!({"command": "touch ran", "workdir": workdir})).await;
        assert!(outcome.text.ends_with("Nothing ran."), "{workdir}: {}", outcome.text);
    }
    assert!(!place.path("ran").exists() && !place.calls_dir.exists());
}

#[test]
fn a_question_says_in_which_folder_and_rules_see_paths_from_there() {
    let place = Place::new();
    place.put("real/file", "");
    symlink(place.path("real"), place.path("link")).unwrap();
    let plan = planned(&place, &json!({"command": "rm file ../other", "workdir": "link"})).unwrap();
    let shown = format!("{:?}", plan.planned.accesses);
    for path in ["real/file", "other"] {
        let path = place.path(path);
        assert!(shown.contains(&format!("Write({:?})", path.to_str().unwrap())), "{shown}");
    }
    let (_, body) = plan.question.words();
    let folder = format!("In the folder {}.", place.path("real").display());
    assert!(format!("{body:?}").contains(&folder), "{body:?}");
}

#[tokio::test]
async fn a_script_may_be_longer_than_a_word_of_a_command_line_and_has_an_end() {
    let place = Place::new();
    let long = format!("x=1\n{}echo $# $x \"${{IFS@Q}}\" ${{piton_script-none}}; exit 3", "# comment\n".repeat(20_000));
    assert!(long.len() > 200_000);
    let outcome = place.run("bash", json!({"command": long})).await;
    assert_eq!(outcome.text, "0 1 $' \\t\\n' none\nexit code 3");

    let refused = planned(&place, &json!({"command": "#".repeat((256 << 10) + 1)})).unwrap_err();
    assert!(
        refused.starts_with("bash: field `command` is 262145 bytes long, and at most 262144 are taken"),
        "{refused}"
    );
    assert!(planned(&place, &json!({"command": "#".repeat(256 << 10)})).is_ok());
}
