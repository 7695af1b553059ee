//! The clipboard and the desktop: what is copied, and files that are pasted, dropped or copied elsewhere.

use crate::chat::{A_WHILE, shown, wait_for};
use crate::pictures::{PIXEL, PNG};
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

/// A paste as a terminal tells it.
fn pasted(text: &str) -> String {
    format!("\u{1b}[200~{text}\u{1b}[201~")
}

#[test]
fn a_picture_that_is_dropped_onto_the_terminal_is_sent_as_one_and_other_paths_stay_paths() {
    let looks = "\n[models.\"openai-chat/test-model\"]\nimages = true\n";
    let stage = Stage::new(json!([{"text": "Four pixels."}])).with_config(looks);
    for name in ["a.png", "b c.png", "text.png"] {
        let content: &[u8] = if name == "text.png" { b"words" } else { &PIXEL };
        std::fs::write(stage.workspace.path().join(name), content).unwrap();
    }
    std::fs::write(stage.workspace.path().join("cut.png"), &PIXEL[..60]).unwrap();
    let folder = stage.workspace.path().display().to_string();
    let mut person = crate::chat::seat(&stage, &[]);
    wait_for(&person, "? keys");
    for (number, dropped) in [
        format!("{folder}/a.png"),
        format!("{folder}/b c.png"),
        format!("'{folder}/b c.png' "),
        format!("{folder}/b\\ c.png "),
        format!("file://{folder}/b%20c.png"),
    ]
    .iter()
    .enumerate()
    {
        person.type_keys(&pasted(dropped));
        wait_for(&person, &format!("[Picture {}]", number + 1));
    }
    person.type_keys(&pasted(&format!(" {folder}/text.png")));
    person.type_keys(&pasted(&format!(" {folder}/cut.png")));
    wait_for(&person, "stays a path: it is damaged or cut off");
    person.type_keys("\r");
    wait_for(&person, "Four pixels.");
    let said = serde_json::to_string(&stage.last_messages()).unwrap();
    assert_eq!(said.matches(PNG).count(), 5, "{said}");
    assert!(said.contains("[Picture 1]") && said.contains("/text.png") && !said.contains("/a.png"), "{said}");
    wait_for(&person, "? keys");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn files_that_were_copied_in_a_file_manager_are_pasted_as_pictures_and_paths() {
    let stage = Stage::new(json!([]));
    std::fs::write(stage.workspace.path().join("a b.png"), PIXEL).unwrap();
    let folder = stage.workspace.path().display().to_string();
    let uris = format!("file://{folder}/a%20b.png\\r\\nfile://{folder}/notes.txt\\r\\n");
    let script = format!("case \"$*\" in *image*) exit 1 ;; *uri-list*) printf '{uris}' ;; *) echo no ;; esac");
    program(&stage, "wl-paste", &script.replace("%20", "%%20"));
    let mut person = on_desktop(&stage, "");
    wait_for(&person, "? keys");
    person.type_keys("\u{16}");
    wait_for(&person, "› [Picture 1] ");
    let screen = shown(&person);
    assert!(screen.contains("/notes.txt") && !screen.contains("file://") && !screen.contains("a b.png"), "{screen}");
    sleep(A_WHILE);
    person.type_keys("\u{3}\u{3}\u{3}");
    assert_eq!(person.end(), 0);
}
