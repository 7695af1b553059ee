//! The first ten minutes of a newcomer in tmux, as its screen and its scrollback show them: what people see, by a terminal that is
//! not ours. `cargo xtask ci` installs tmux where it is missing.

use crate::chat::A_WHILE;
use crate::stage::{Stage, descendants, kill, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::process::{Command, Output};
use std::thread::sleep;

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

/// A server of tmux's own with one window, whose shell stays when Piton ends.
struct Tmux<'s> {
    stage: &'s Stage,
    socket: String,
}

impl<'s> Tmux<'s> {
    fn new(stage: &'s Stage, columns: u16) -> Self {
        let socket = stage.home.path().join("tmux").to_string_lossy().into_owned();
        let tmux = Self { stage, socket };
        let mut start = tmux.command(&["-f", "/dev/null", "new-session", "-d", "-s", "p"]);
        start.args([
            "-x",
            &columns.to_string(),
            "-y",
            &ROWS.to_string(),
            "env",
            "PS1=shell% ",
            "bash",
            "--norc",
            "--noprofile",
        ]);
        let made = start.output().expect("tmux is installed: apt-get install tmux");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        tmux.wait_for("shell%");
        tmux
    }

    /// tmux, with the environment that Piton has in tests.
    fn command(&self, words: &[&str]) -> Command {
        let piton = self.stage.piton(&[]);
        let mut command = Command::new("tmux");
        command.args(["-S", &self.socket]).args(words).env_clear().current_dir(self.stage.workspace.path());
        command.envs(piton.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command
    }

    fn told(&self, words: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        assert!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).into_owned()
    }

    /// Types text as it is.
    fn types(&self, text: &str) {
        self.told(&["send-keys", "-t", "p", "-l", "--", text]);
    }

    /// Presses keys by tmux's names for them.
    fn press(&self, keys: &[&str]) {
        let words: Vec<&str> = ["send-keys", "-t", "p"].iter().chain(keys).copied().collect();
        self.told(&words);
    }

    /// A line to the shell, or to Piton.
    fn line(&self, text: &str) {
        self.types(text);
        self.press(&["Enter"]);
    }

    /// The screen alone.
    fn screen(&self) -> String {
        self.told(&["capture-pane", "-p", "-t", "p"])
    }

    /// Scrollback and screen; rows that tmux has broken are one line.
    fn all(&self) -> String {
        self.told(&["capture-pane", "-p", "-J", "-S", "-", "-t", "p"])
    }

    fn wait_for(&self, words: &str) {
        until(&format!("{words:?} is on the screen of tmux"), || self.screen().contains(words));
    }

    fn wait_until_gone(&self, words: &str) {
        until(&format!("{words:?} is gone"), || !self.screen().contains(words));
    }

    fn starts_piton(&self, words: &[&str]) {
        let piton = self.stage.piton(&[]);
        let all = [piton.get_program()].into_iter().chain(words.iter().map(OsStr::new));
        let quoted: Vec<String> = all.map(|word| format!("'{}'", word.to_string_lossy())).collect();
        self.press(&["C-l"]);
        self.line(&format!("stty -g > before; {}; code=$?; stty -g > after; echo left-$code", quoted.join(" ")));
    }

    /// The process of the face, below the shell.
    fn face(&self) -> u32 {
        let shell = self.told(&["display-message", "-p", "-t", "p", "#{pane_pid}"]).trim().parse().unwrap();
        let is_face = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).next() == Some(env!("CARGO_BIN_EXE_piton").as_bytes())
        };
        descendants(shell).into_iter().find(is_face).expect("a face")
    }

    /// Other sizes, and then an answer longer than the screen: each row stands there once.
    fn takes_other_sizes(&self) {
        for columns in ["50", "110", "80"] {
            self.told(&["resize-window", "-t", "p", "-x", columns, "-y", "24"]);
            let columns: usize = columns.parse().unwrap();
            until("it is drawn anew", || self.screen().lines().any(|row| row == "─".repeat(columns)));
        }
        self.line("and now?");
        self.wait_for("line number 60");
        self.wait_for("? keys");
        let all = self.all();
        for number in 1..=60 {
            let row = format!("line number {number}");
            assert_eq!(all.lines().filter(|line| line.trim() == row).count(), 1, "{row}:\n{all}");
        }
    }

    /// The terminal's modes are those that it had before.
    fn is_as_before(&self) {
        self.wait_for("left-0");
        assert_eq!(self.stage.workspace.read("before"), self.stage.workspace.read("after"));
        let flags = "#{cursor_flag} #{alternate_on} #{pane_in_mode}";
        assert_eq!(self.told(&["display-message", "-p", "-t", "p", flags]).trim(), "1 0 0");
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        drop(self.command(&["kill-server"]).output());
    }
}

fn long() -> Value {
    json!({"text": "word ".repeat(400), "delta_chars": 5, "delay_ms": 20})
}

#[test]
fn the_ten_minutes_of_a_newcomer_in_tmux() {
    let touch = json!({"tools": [{"name": "bash", "args": {"command": "touch made"}}]});
    let lines: String = (1..=60).map(|number| format!("line number {number}\n\n")).collect();
    let script = json!([
        touch, {"text": "As you wish."}, long(), {"text": "Short, then."}, long(), {"text": lines}
    ]);
    let stage = Stage::new(script);
    let tmux = Tmux::new(&stage, COLUMNS);
    tmux.starts_piton(&["--model", "openai-chat/test-model", "--mode", "ask", "--sandbox", "off"]);
    tmux.wait_for("? keys");
    // A question, and a no with words.
    tmux.line("make it");
    tmux.wait_for("Run this command?");
    assert!(tmux.screen().contains("touch made"), "{}", tmux.screen());
    sleep(A_WHILE);
    tmux.types("n");
    tmux.wait_for("with these words");
    tmux.line("not now");
    tmux.wait_for("As you wish.");
    tmux.wait_for("2 steps");
    assert!(!stage.workspace.has("made"));
    // What waits is shown, and comes back by Esc.
    tmux.line("go on and on");
    tmux.wait_for("word word");
    tmux.line("be short");
    tmux.wait_for("at the next step: be short");
    tmux.press(&["Escape"]);
    tmux.wait_for("› be short");
    tmux.press(&["Enter"]);
    tmux.wait_for("Short, then.");
    tmux.wait_for("? keys");
    // Back to before the last turn.
    tmux.line("/rewind");
    tmux.wait_for("Go back to before");
    sleep(A_WHILE);
    tmux.types("w");
    tmux.wait_until_gone("Go back to before");
    tmux.wait_for("› be short");
    // A killed face leaves the session whole; the shell is there again.
    tmux.press(&["C-u"]);
    tmux.line("go on once more");
    until("the model is asked", || stage.provider.requests().len() == 5);
    kill(tmux.face(), Signal::KILL);
    tmux.wait_for("left-137");
    tmux.line("stty sane; tput cnorm; clear");
    tmux.starts_piton(&["-c"]);
    tmux.wait_for("was interrupted");
    // A paste is a chip and runs nothing.
    let pasted: Vec<String> = (0..150).map(|number| format!("!touch pasted{number}")).collect();
    tmux.told(&["set-buffer", "--", &pasted.join("\n")]);
    tmux.told(&["paste-buffer", "-p", "-t", "p"]);
    tmux.wait_for("[Paste 150 lines]");
    assert!(!stage.workspace.has("pasted0"));
    tmux.press(&["C-c"]);
    tmux.wait_until_gone("[Paste");
    tmux.takes_other_sizes();
    tmux.line("/quit");
    tmux.wait_for("go on with: piton -c");
    tmux.is_as_before();
    assert!(!tmux.screen().contains("? keys"), "nothing of the tail stays: {}", tmux.screen());
}

#[test]
fn in_a_fresh_folder_without_a_key_one_key_leads_to_a_prompt_that_works_in_tmux() {
    let stage = Stage::new(json!([]));
    let tmux = Tmux::new(&stage, COLUMNS);
    tmux.line("unset OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_API_KEY ANTHROPIC_BASE_URL");
    tmux.starts_piton(&[]);
    tmux.wait_for("No model can be asked yet");
    sleep(A_WHILE);
    tmux.press(&["Enter"]);
    tmux.wait_for("Fixed.");
    tmux.wait_for("? keys");
    // Pages take the whole screen and give it back.
    tmux.line("/trace");
    tmux.wait_for("tools ");
    assert!(tmux.screen().contains("model ") && tmux.screen().contains('▓'), "{}", tmux.screen());
    tmux.types("q");
    tmux.wait_for("? keys");
    tmux.press(&["C-d"]);
    tmux.is_as_before();
}

#[test]
fn forty_columns_are_enough_for_a_question_and_its_keys_in_tmux() {
    let command = "git push origin HEAD:release && ./deploy.sh production --with-everything";
    let stage = Stage::new(json!([{"tools": [{"name": "bash", "args": {"command": command}}]}, {"text": "Not done."}]));
    let tmux = Tmux::new(&stage, 40);
    tmux.starts_piton(&["--model", "openai-chat/test-model", "--mode", "ask", "--sandbox", "off"]);
    tmux.wait_for("? keys");
    tmux.line("deploy it");
    tmux.wait_for("Run this command?");
    let bare: String = tmux.screen().chars().filter(|char| !char.is_whitespace() && *char != '│').collect();
    let wanted: String = command.chars().filter(|char| !char.is_whitespace()).collect();
    assert!(bare.contains(&wanted), "all of it is there: {}", tmux.screen());
    assert!(tmux.screen().contains("y yes") && tmux.screen().contains("n no"), "{}", tmux.screen());
    sleep(A_WHILE);
    tmux.types("n");
    tmux.wait_for("with these words");
    tmux.press(&["Enter"]);
    tmux.wait_for("Not done.");
    tmux.wait_for("2 steps");
    tmux.press(&["C-d"]);
    tmux.is_as_before();
}

#[test]
fn what_is_typed_before_piton_is_there_is_sent_as_it_was_in_tmux() {
    let stage = Stage::new(json!([{"text": "Heard."}]));
    let tmux = Tmux::new(&stage, COLUMNS);
    let piton = stage.piton(&[]);
    let program = piton.get_program().to_string_lossy().into_owned();
    // The terminal works line by line until Piton sets its modes.
    tmux.line(&format!(
        "touch waits; until [ -e go ]; do sleep 0.05; done; '{program}' --model openai-chat/test-model"
    ));
    until("the shell waits", || stage.workspace.has("waits"));
    tmux.line("say something");
    tmux.types("and more");
    sleep(A_WHILE);
    stage.workspace.write("go", "");
    tmux.wait_for("Heard.");
    tmux.wait_for("› and more");
    let said = stage.provider.requests()[0].body["messages"].to_string();
    assert!(said.contains("say something") && !said.contains("and more"), "{said}");
}
