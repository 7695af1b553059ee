//! What becomes of a conversation when its terminal changes its size, is stopped, or goes away.

use crate::chat::{A_WHILE, face_of, resize, seat, shown, wait_for};
use crate::stage::{Stage, is_alive, kill, until};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn the_first_key_after_another_size_is_heard_when_it_is_pressed() {
    let stage = Stage::new(json!([{"text": "word ".repeat(2_000), "delta_chars": 5, "delay_ms": 20}]));
    let mut person = seat(&stage, &["--mode", "ask"]);
    wait_for(&person, "? keys");
    person.type_keys("a");
    wait_for(&person, "› a");
    resize(&person, 24, 80);
    until("it is drawn anew", || person.screen().split(|char| char != '─').any(|rule| rule.chars().count() == 80));
    person.type_keys("b");
    wait_for(&person, "› ab");
    person.type_keys("\r");
    wait_for(&person, "word word");
    resize(&person, 24, 90);
    sleep(A_WHILE);
    person.type_keys("\u{1b}");
    until("it is stopped", || stage.journal().iter().any(|event| event["type"] == "turn_ended"));
    person.type_keys("\u{15}\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn after_a_question_that_nobody_answers_the_next_answer_stands_in_the_terminal_whole() {
    let lines: String = (1..=120).map(|number| format!("line number {number}\n\n")).collect();
    let script = json!([{"tools": [{"name": "bash", "args": {"command": "touch made"}}]}, {"text": lines}]);
    let stage = Stage::new(script);
    let mut person = seat(&stage, &["--mode", "ask", "--sandbox", "off"]);
    wait_for(&person, "? keys");
    person.type_keys("make it\r");
    wait_for(&person, "Run this command?");
    sleep(A_WHILE);
    person.type_keys("\u{1b}");
    until("it is stopped", || stage.journal().iter().any(|event| event["type"] == "turn_ended"));
    person.type_keys("\u{15}and now?\r");
    wait_for(&person, "line number 120");
    wait_for(&person, "1 step");
    let screen = shown(&person);
    let missing: Vec<usize> =
        (1..=120).filter(|number| !screen.lines().any(|line| line.trim() == format!("line number {number}"))).collect();
    assert!(missing.is_empty(), "{missing:?} of\n{screen}");
    assert_eq!(screen.matches("› and now?").count(), 1, "{screen}");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

#[test]
fn a_terminal_that_goes_away_stops_no_command_and_the_turn_goes_on_where_it_was() {
    let command = "echo x >> began; until test -e go; do sleep 0.05; done; echo went-$((40+2))";
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"text": "It went."}]));
    let person = seat(&stage, &["--yes", "wait for it"]);
    until("it runs", || stage.workspace.has("began"));
    let face = face_of(&person).unwrap();
    // The terminal is gone with the program that makes it.
    kill(person.pid(), Signal::KILL);
    until("the face is gone", || !is_alive(face));
    assert!(!stage.journal().iter().any(|event| event["type"] == "cancel_requested" || event["type"] == "turn_ended"));
    stage.workspace.write("go", "");
    stage.run(&["--continue"]).expect_code(0);
    assert_eq!(stage.workspace.read("began"), "x\n", "it ran once");
    assert!(stage.last_messages().iter().any(|message| message.to_string().contains("went-42")));
}

#[test]
fn who_is_stopped_by_a_signal_leaves_the_terminal_as_it_was_and_takes_it_again() {
    let stage = Stage::new(json!([{"text": "Here."}]));
    let mut person = seat(&stage, &[]);
    wait_for(&person, "? keys");
    let face = face_of(&person).unwrap();
    let modes = || rustix::termios::tcgetattr(std::fs::File::open(format!("/proc/{face}/fd/0")).unwrap()).unwrap();
    let is_raw = || !modes().local_modes.contains(rustix::termios::LocalModes::ICANON);
    let count = |mode: &str| String::from_utf8_lossy(&person.bytes()).matches(mode).count();
    assert!(is_raw() && count("\u{1b}[?2004h") == count("\u{1b}[?2004l") + 1);
    kill(face, Signal::TSTP);
    let state = || std::fs::read_to_string(format!("/proc/{face}/stat")).unwrap();
    until("it is stopped", || state().rsplit_once(") ").unwrap().1.starts_with('T'));
    until("the terminal is as it was", || !is_raw() && count("\u{1b}[?2004h") == count("\u{1b}[?2004l"));
    kill(face, Signal::CONT);
    until("it has the terminal again", || is_raw() && count("\u{1b}[?2004h") == count("\u{1b}[?2004l") + 1);
    person.type_keys("are you there?\r");
    wait_for(&person, "Here.");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
}

/// A conversation at a terminal that reads nothing of what is written to it, and the end of that terminal.
fn unread(stage: &Stage, args: &[&str]) -> (Child, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 90, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let seat = || File::options().read(true).write(true).open(&name).unwrap();
    let piton = stage.piton(&["--model", "openai-chat/test-model"]);
    let mut command = Command::new("setsid");
    // It becomes the program.
    command.arg("--ctty").arg(piton.get_program()).args(piton.get_args()).args(args);
    command.env_clear().envs(piton.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm");
    command.current_dir(stage.workspace.path()).stdin(seat()).stdout(seat()).stderr(seat());
    (command.spawn().unwrap(), master)
}

#[test]
fn a_terminal_that_does_not_read_holds_up_no_turn_and_no_end() {
    // More than a terminal keeps for whoever reads late.
    let lines: String = (0..4_000).map(|number| format!("line number {number}\n\n")).collect();
    let call = json!({"tools": [{"name": "bash", "args": {"command": "echo x >> ran"}}]});
    let stage = Stage::new(json!([{"text": lines, "tools": call["tools"]}, {"text": "Done."}]));
    let (mut piton, _master) = unread(&stage, &["--yes", "--sandbox", "off", "go on"]);
    until("the turn is over", || {
        stage.home.path().join("data/sessions").is_dir()
            && stage.journal().iter().any(|event| event["type"] == "turn_ended" && event["end"] == "completed")
    });
    assert_eq!(stage.workspace.read("ran"), "x\n");
    kill(piton.id(), Signal::TERM);
    let began = Instant::now();
    until("it is left", || piton.try_wait().unwrap().is_some());
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "it was not waited for: {took:?}");
}

#[test]
fn who_is_attached_is_told_when_the_writer_is_killed_and_goes_on_here() {
    let stage = Stage::new(json!([{"stall": 60, "text": "never"}, {"text": "Here I am."}]));
    let mut writer = stage.start(&["wait for it"]);
    until("the model is asked", || !stage.provider.requests().is_empty());
    let mut person = seat(&stage, &["--attach", "last"]);
    wait_for(&person, &format!("run by process {}", writer.id()));
    wait_for(&person, "Esc stops");
    person.type_keys("a draft");
    wait_for(&person, "› a draft");
    kill(writer.id(), Signal::KILL);
    writer.wait().unwrap();
    wait_for(&person, "the process that ran this session has left it");
    until("nothing runs", || !shown(&person).lines().rev().take(3).any(|row| row.contains("Esc stops")));
    assert!(shown(&person).contains("› a draft"), "what was typed is there: {}", shown(&person));
    person.type_keys("\u{15}are you there?\r");
    wait_for(&person, "Here I am.");
    wait_for(&person, "? keys");
    person.type_keys("\u{4}");
    assert_eq!(person.end(), 0);
    let ended = stage.journal().iter().filter(|event| event["type"] == "turn_ended").count();
    assert!(ended >= 1, "{}", shown(&person));
}
