//! A face that panics: whose terminal it was, at a real one (`script` of util-linux makes it).

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "what a program says at its terminal")]
#![allow(clippy::disallowed_methods, reason = "the test runs itself at a terminal")]

use piton_tui::face::Face;
use piton_tui::terminal::{Around, Seat, Terminal, panics};
use piton_tui::theme::Theme;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// Ends the child in its own way, so that no other end of a face is taken for the panic's.
const CODE: i32 = 7;

/// Set where a test runs as the program at the terminal that it makes.
const AT_TERMINAL: &str = "PITON_TEST_AT_TERMINAL";

fn is_at_terminal() -> bool {
    std::env::var_os(AT_TERMINAL).is_some()
}

/// Who holds the session is a panic of its own, on the face's thread: what it does with Ctrl-D.
fn face_panics() -> ! {
    let terminal = at_terminal();
    let began = Instant::now();
    while terminal.is_there() && began.elapsed() < PATIENCE {
        sleep(Duration::from_millis(5));
    }
    // It is not dropped: that would put the terminal back as well.
    std::mem::forget(terminal);
    std::process::exit(CODE);
}

/// Another thread panics: the face keeps the terminal, and what was said is told when it is gone.
fn thread_panics() -> ! {
    let terminal = at_terminal();
    assert!(std::thread::spawn(|| panic!("elsewhere")).join().is_err());
    assert!(terminal.is_there());
    drop(terminal);
    panics().iter().for_each(|panic| println!("kept: {panic}"));
    std::process::exit(CODE);
}

fn at_terminal() -> Terminal {
    let input = File::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let output = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    let face = Face::new(80, 24, Theme::none());
    Terminal::start(face, Seat { input, output }, Around::default(), |effect| panic!("on purpose: {effect:?}")).unwrap()
}

/// What a test has written as the program at a terminal, and the terminal's modes before and after it.
fn run(name: &str, keys: &str) -> (String, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let line = format!(
        "stty -g > before; {AT_TERMINAL}=1 '{}' --exact {name} --nocapture; echo \"code $?\"; stty -g > after",
        test.display()
    );
    let screen = folder.path().join("screen");
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(folder.path()).env("TERM", "xterm");
    script.stdin(Stdio::piped()).stdout(File::create(&screen).unwrap()).stderr(Stdio::null());
    let mut running = script.spawn().expect("`script` of util-linux makes the terminal");
    let read =
        |name: &str| std::fs::read(folder.path().join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let began = Instant::now();
    let mut has_keys = false;
    while running.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "it ends: {}", read("screen").unwrap());
        // Its modes are set after the first frame.
        if !has_keys && read("screen").unwrap().contains("\u{1b}[?2004h") {
            has_keys = true;
            let mut keyboard = running.stdin.as_ref().unwrap();
            keyboard.write_all(keys.as_bytes()).unwrap();
        }
        sleep(Duration::from_millis(10));
    }
    (read("screen").unwrap(), read("before").unwrap(), read("after").unwrap())
}

#[test]
fn a_panic_of_the_face_gives_the_terminal_back_before_it_is_told() {
    if is_at_terminal() {
        face_panics();
    }
    let (screen, before, after) = run("a_panic_of_the_face_gives_the_terminal_back_before_it_is_told", "\u{4}");
    assert!(screen.contains(&format!("code {CODE}")), "{screen}");
    assert_eq!(before, after);
    for mode in ["?2004", "?1004"] {
        assert!(screen.contains(&format!("\u{1b}[{mode}h")), "{screen}");
    }
    let told = screen.find("on purpose: Leave").expect("the panic is told");
    for mode in ["?2004", "?1004"] {
        let back = screen.find(&format!("\u{1b}[{mode}l")).expect("it is taken back");
        assert!(back < told, "what is told stands on a terminal that is as it was");
    }
}

#[test]
fn a_panic_elsewhere_leaves_the_face_its_terminal_and_is_told_at_the_end() {
    if is_at_terminal() {
        thread_panics();
    }
    let (screen, before, after) = run("a_panic_elsewhere_leaves_the_face_its_terminal_and_is_told_at_the_end", "");
    assert!(screen.contains(&format!("code {CODE}")), "{screen}");
    assert_eq!(before, after);
    let back = screen.find("\u{1b}[?2004l").expect("it is left");
    let told = screen.find("elsewhere").expect("the panic is told");
    assert!(back < told && screen[..told].contains("kept: "), "{screen}");
}
