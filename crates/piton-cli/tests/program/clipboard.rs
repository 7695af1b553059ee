//! The clipboard and the desktop: what is copied, and files that are pasted, dropped or copied elsewhere.

use crate::chat::{A_WHILE, shown, wait_for};
use crate::stage::{Stage, Terminal, until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;

const ARGS: [&str; 2] = ["--model", "openai-chat/test-model"];

/// A program of the desktop, which stands before all others.
fn program(stage: &Stage, name: &str, script: &str) {
    stage.home.write(format!("bin/{name}"), format!("#!/bin/sh\n{script}\n"));
    let path = stage.home.path().join("bin").join(name);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A conversation on a desktop that has these programs.
fn on_desktop(stage: &Stage, more: &str) -> Terminal {
    let before = format!("stty rows 24 cols 90; export PATH=\"$HOME/bin:$PATH\" WAYLAND_DISPLAY=wayland-0; {more}");
    stage.terminal_behind(&before, &ARGS)
}

fn has(person: &Terminal, bytes: &str) -> bool {
    String::from_utf8_lossy(&person.bytes()).contains(bytes)
}

#[test]
fn an_answer_is_copied_by_the_terminal_and_by_the_program_of_the_desktop() {
    let stage = Stage::new(json!([{"text": "One 漢字.\n\nTwo."}]));
    // As the real one it stays behind, to give the text to whoever pastes.
    program(&stage, "wl-copy", "cat > \"$HOME/copied\"; sleep 300 & echo $! > \"$HOME/stays\"");
    let mut person = on_desktop(&stage, "");
    wait_for(&person, "? keys");
    person.type_keys("say it\r");
    wait_for(&person, "1 step");
    person.type_keys("/copy\r");
    wait_for(&person, "3 lines copied, by wl-copy");
    assert_eq!(stage.home.read("copied"), "One 漢字.\n\nTwo.");
    assert!(has(&person, &format!("\u{1b}]52;c;{}\u{7}", STANDARD.encode("One 漢字.\n\nTwo."))));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    let stays = stage.home.read("stays").trim().parse().unwrap();
    assert!(crate::stage::is_alive(stays), "the clipboard is not emptied when Piton is left");
    crate::stage::kill(stays, rustix::process::Signal::KILL);
}

#[test]
fn what_became_of_a_copy_is_said_as_it_is() {
    let stage = Stage::new(json!([{"text": "One."}]));
    program(&stage, "wl-copy", "exit 3");
    let mut person = on_desktop(&stage, "");
    wait_for(&person, "? keys");
    person.type_keys("say it\r");
    wait_for(&person, "1 step");
    person.type_keys("/copy\r");
    wait_for(&person, "wl-copy failed; your terminal was asked to copy 1 line (OSC 52)");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    // Nothing is there that could copy.
    let stage = Stage::new(json!([{"text": "One."}]));
    let before = "stty rows 24 cols 90; unset WAYLAND_DISPLAY DISPLAY; export TERM=dumb; ";
    let mut person = stage.terminal_behind(before, &ARGS);
    until("it is ready", || person.screen().contains("> "));
    person.type_keys("say it\r");
    until("it is said", || person.screen().contains("1 step"));
    person.type_keys("/copy\r");
    until("that is said", || person.screen().contains("nothing is copied"));
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    assert!(!has(&person, "]52;"));
}
