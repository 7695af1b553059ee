//! A stage for one test: a scripted provider, a workspace, and a home of its own for the binary.

use piton_testkit::{FakeProvider, TempWorkspace};
use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it. Nothing is expected to take nearly as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Retries that a test can wait for.
const CONFIG: &str = "[retry]\nfirst_wait = 0.02\nlongest_wait = 0.05\n";

pub(crate) struct Stage {
    pub(crate) provider: FakeProvider,
    pub(crate) workspace: TempWorkspace,
    pub(crate) home: TempWorkspace,
    pub(crate) protocol: &'static str,
}

/// What a finished run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stage {
    /// A provider with this script and an empty workspace.
    pub(crate) fn new(script: Value) -> Self {
        Self::speaking("openai-chat", script)
    }

    /// The same over another protocol.
    pub(crate) fn speaking(protocol: &'static str, script: Value) -> Self {
        let home = TempWorkspace::with([("config.toml", CONFIG)]);
        Self { provider: FakeProvider::start(script), workspace: TempWorkspace::new(), home, protocol }
    }

    /// Puts files into the workspace.
    pub(crate) fn with_files<'f>(self, files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        for (path, content) in files {
            self.workspace.write(path, content);
        }
        self
    }

    /// Adds to the configuration.
    pub(crate) fn with_config(self, more: &str) -> Self {
        self.home.write("config.toml", format!("{CONFIG}{more}"));
        self
    }

    /// The binary with an environment of its own, in the workspace, with nothing on standard input.
    pub(crate) fn piton(&self, args: &[&str]) -> Command {
        let mut command = bare(&self.home.path());
        command.args(args).current_dir(self.workspace.path());
        command.env("OPENAI_BASE_URL", format!("{}/v1", self.provider.url())).env("OPENAI_API_KEY", "sk-test-openai");
        command.env("ANTHROPIC_BASE_URL", self.provider.url()).env("ANTHROPIC_API_KEY", "sk-test-anthropic");
        command
    }

    /// `piton run --yes --format stream-json` over the stage's protocol.
    pub(crate) fn run_command(&self, args: &[&str]) -> Command {
        let model = format!("{}/test-model", self.protocol);
        let mut command = self.piton(&["run", "--yes", "--format", "stream-json", "--model", &model]);
        command.args(args);
        command
    }

    /// The same, until it is over.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.run_command(args))
    }

    /// The same, while it goes on; its standard output goes to a file, so that it never waits for us.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let log = std::fs::File::create(self.home.path().join("stdout")).unwrap();
        self.run_command(args).stdout(log).stderr(Stdio::null()).spawn().unwrap()
    }

    /// What a started run has printed so far.
    pub(crate) fn printed(&self) -> String {
        self.home.read("stdout")
    }

    /// The folder of the only session.
    pub(crate) fn session_dir(&self) -> PathBuf {
        let sessions = self.home.path().join("data/sessions");
        let mut found: Vec<PathBuf> = std::fs::read_dir(sessions).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(found.len(), 1, "one session: {found:?}");
        found.remove(0)
    }

    /// Every event of a session, from its journal.
    pub(crate) fn journal_of(&self, id: &str) -> Vec<Value> {
        Ran::of(self.piton(&["session", "show", "--json", id])).events()
    }

    /// Every event of the only session, from its journal.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let id = self.session_dir().file_name().unwrap().to_str().unwrap().to_owned();
        Ran::of(self.piton(&["session", "show", "--json", &id])).events()
    }

    /// The messages of the newest request.
    pub(crate) fn last_messages(&self) -> Vec<Value> {
        let requests = self.provider.requests();
        requests.last().unwrap().body["messages"].as_array().unwrap().clone()
    }
}

impl Stage {
    /// The binary at a terminal of its own (by `script` of util-linux), with its screen in a file.
    pub(crate) fn terminal(&self, args: &[&str]) -> Terminal {
        self.terminal_behind("", args)
    }

    /// The same behind a shell's `before`, such as `echo words | `.
    pub(crate) fn terminal_behind(&self, before: &str, args: &[&str]) -> Terminal {
        let piton = self.piton(args);
        let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
        let words: Vec<String> = std::iter::once(piton.get_program()).chain(piton.get_args()).map(quoted).collect();
        let screen = self.home.path().join("screen");
        let mut command = Command::new("script");
        command
            .args(["-q", "-e", "-c", &format!("{before}{}", words.join(" ")), "/dev/null"])
            .current_dir(self.workspace.path());
        command
            .env_clear()
            .envs(piton.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TERM", "xterm");
        command.stdin(Stdio::piped()).stdout(std::fs::File::create(&screen).unwrap()).stderr(Stdio::null());
        let child = command.spawn().expect("`script` of util-linux makes the terminal");
        Terminal { child, screen }
    }

    /// Takes root's power over permissions and processes from a command, so that it may read only what anybody may.
    pub(crate) fn without_power(command: &Command) -> Command {
        let mut bare = match rustix::process::geteuid().is_root() {
            true => {
                let mut bare = Command::new("setpriv");
                bare.args(["--inh-caps=-all", "--bounding-set=-all"]);
                bare.arg(command.get_program());
                bare
            }
            false => Command::new(command.get_program()),
        };
        bare.args(command.get_args()).env_clear().stdin(Stdio::null());
        bare.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        bare.current_dir(command.get_current_dir().unwrap());
        bare
    }
}

/// A run at a terminal.
pub(crate) struct Terminal {
    child: Child,
    screen: PathBuf,
}

impl Terminal {
    /// All that was ever on the screen, without colours and the like.
    pub(crate) fn screen(&self) -> String {
        let text = std::fs::read(&self.screen).unwrap();
        String::from_utf8_lossy(&anstream::adapter::strip_bytes(&text).into_vec()).into_owned()
    }

    /// The process that makes the terminal; the run is below it.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that was ever written to the screen.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.screen).unwrap()
    }

    /// Types these keys, and no line's end.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        let keyboard = self.child.stdin.as_mut().unwrap();
        keyboard.write_all(keys.as_bytes()).and_then(|()| keyboard.flush()).unwrap();
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The exit code, once it is over.
    pub(crate) fn end(&mut self) -> i32 {
        drop(self.child.stdin.take());
        let mut ended = None;
        until("it ends by itself", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.and_then(|ended| ended.code()).expect("it ends by itself")
    }
}

impl Drop for Terminal {
    /// A test that fails leaves nothing behind.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            descendants(self.child.id()).into_iter().for_each(|pid| kill(pid, rustix::process::Signal::KILL));
            let _ = self.child.kill();
        }
    }
}

/// The binary with nothing in its environment but what a shell needs.
pub(crate) fn bare(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_piton"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    command.env("PITON_DATA_DIR", home.join("data")).env("PITON_CONFIG", home.join("config.toml"));
    for name in ["CARGO_HOME", "RUSTUP_HOME"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    if let Some(real) = std::env::var_os("HOME") {
        // Only where the tools live at home: the sample project of the demo needs cargo.
        command.env(
            "CARGO_HOME",
            std::env::var_os("CARGO_HOME").unwrap_or_else(|| Path::new(&real).join(".cargo").into()),
        );
        command.env(
            "RUSTUP_HOME",
            std::env::var_os("RUSTUP_HOME").unwrap_or_else(|| Path::new(&real).join(".rustup").into()),
        );
    }
    // The variable says that there is one.
    let config = home.join("config.toml");
    if !config.exists() {
        std::fs::write(config, "").unwrap();
    }
    command.stdin(Stdio::null());
    command
}

impl Ran {
    /// Runs a command to its end; fails the test if it has none.
    pub(crate) fn of(command: Command) -> Self {
        Self::within(command, PATIENCE)
    }

    /// The same for one that takes longer.
    pub(crate) fn within(mut command: Command, patience: Duration) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let (done, watch) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if watch.recv_timeout(patience).is_err() {
                kill(pid, rustix::process::Signal::KILL);
            }
        });
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        // The watchdog may be gone already.
        let _ = done.send(());
        watchdog.join().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("valid UTF-8");
        Self { code: status.code().expect("it ends by itself"), stdout: text(stdout), stderr: text(stderr) }
    }

    /// The lines of standard output, as JSON.
    pub(crate) fn events(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The events of one type.
    pub(crate) fn all(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["type"] == kind).collect()
    }

    /// The last line.
    pub(crate) fn result(&self) -> Value {
        let result = self.events().pop().unwrap_or_else(|| panic!("no result; stderr: {}", self.stderr));
        assert_eq!(result["type"], "result", "{result}; exit code {}, stderr: {}", self.code, self.stderr);
        assert_eq!(result["exit_code"], self.code, "the result knows the exit code");
        result
    }

    /// How the turn ended, after a check that the exit code is the documented one.
    pub(crate) fn end(&self) -> String {
        let end = self.result()["end"].as_str().unwrap().to_owned();
        assert_eq!(self.code, documented_code(&end), "{end}: {}", self.stderr);
        end
    }

    /// What became of each call that was run, in the order they were asked for.
    pub(crate) fn outcomes(&self) -> Vec<Value> {
        let mut settled = self.all("call_settled");
        settled.sort_by_key(|event| event["call"].to_string());
        settled.into_iter().map(|event| event["outcome"].clone()).collect()
    }

    /// Checks the exit code and hands the run on.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\nstdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Checks that standard output says this.
    #[track_caller]
    pub(crate) fn expect_stdout(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stdout.contains(word), "`{word}` is not in: {}", self.stdout);
        }
        self
    }

    /// Checks that standard error says this.
    #[track_caller]
    pub(crate) fn expect_said(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is not in: {}", self.stderr);
        }
        self
    }
}

/// The exit code that `docs/exit-codes.md` gives for a turn's end.
fn documented_code(end: &str) -> i32 {
    let table = include_str!("../../../../docs/exit-codes.md");
    let row = table.lines().find(|line| line.contains(&format!("| `{end}` |"))).unwrap_or_else(|| panic!("{end}"));
    row.split('|').nth(1).unwrap().trim().parse().unwrap()
}

/// Waits for something that will be so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal; the process may be gone already.
pub(crate) fn kill(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, signal);
}

/// Every process below this one, whichever group or session it is in.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Whether a process is alive (a zombie is not).
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
