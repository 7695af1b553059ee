//! What a newcomer stumbled over in the terminal interface, point by point.

use crate::chat::{face_of, seat, shown, wait_for};
use crate::stage::{Stage, kill, until};
use rustix::process::Signal;
use serde_json::json;

#[test]
fn a_command_that_was_running_when_piton_was_killed_is_shown_as_interrupted() {
    let command = "echo x >> began; until test -e go; do sleep 0.05; done; echo went-$((40+2))";
    let script = json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"text": "It went."}]);
    let stage = Stage::new(script);
    let mut person = seat(&stage, &["--yes", "wait for it"]);
    until("it runs", || stage.workspace.has("began"));
    kill(face_of(&person).unwrap(), Signal::KILL);
    person.end();
    let mut again = seat(&stage, &["--yes", "-c"]);
    wait_for(&again, "interrupted: /continue resumes, Esc ends the turn");
    wait_for(&again, "– bash echo x");
    let screen = shown(&again);
    assert!(screen.contains("interrupted: /contin"), "{screen}");
    assert!(!screen.contains("Esc stops"), "{screen}");
    // It is at rest: it is left without a question.
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
    let mut again = seat(&stage, &["--yes", "-c"]);
    wait_for(&again, "interrupted: /continue resumes");
    stage.workspace.write("go", "");
    again.type_keys("/continue\r");
    wait_for(&again, "It went.");
    wait_for(&again, "2 steps");
    assert_eq!(stage.workspace.read("began"), "x\n", "it ran once");
    let told = serde_json::to_string(&stage.last_messages()).unwrap();
    assert!(told.contains("went-42"), "{told}");
    again.type_keys("\u{4}");
    assert_eq!(again.end(), 0);
}
