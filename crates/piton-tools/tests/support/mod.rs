//! A workspace, a session's folder, and calls made in them.

#![allow(dead_code, clippy::unwrap_used, reason = "each test binary uses its part; a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests start programs by themselves")]

use piton_core::call::Outcome;
use piton_core::ids::CallId;
use piton_core::limits::TOOL_OUTPUT_CHARS;
use piton_core::secrets::Firewall;
use piton_core::truncate::OutputCut;
use piton_http::egress::Egress;
use piton_sandbox::{Backend, Limits, Network, Reach, Write};
use piton_tools::disk::Disk;
use piton_tools::executor::{Boot, Executor, OutputSink};
use piton_tools::ledger::FileLedger;
use piton_tools::plan::{Links, Look};
use piton_tools::runner::{RunSpec, RunnerCommand, Runners};
use piton_tools::spawn::{Confined, Confinement};
use piton_tools::tool::{ToolContext, ToolLimits};
use piton_tools::toolset::ToolSet;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A host without a session behind it.
#[derive(Debug)]
struct NoSession;

#[async_trait::async_trait]
impl piton_tools::host::Host for NoSession {
    async fn read(&self, _: u64, _: usize) -> Result<Vec<piton_core::event::Record>, String> {
        Err("there is no session here".to_owned())
    }
}

/// A temporary workspace with a session.
pub(crate) struct Place {
    pub(crate) calls_dir: PathBuf,
    pub(crate) cx: ToolContext,
    _folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("workspace")).unwrap();
        let path = (OsString::from("PATH"), OsString::from("/usr/local/bin:/usr/bin:/bin"));
        let env: Arc<BTreeMap<OsString, OsString>> = Arc::new([path].into());
        // Named as no other test's: by its name the processes of a session are found.
        let session = format!("ses_{}", root.file_name().unwrap().to_string_lossy());
        let calls_dir = root.join(&session).join("calls");
        let cx = ToolContext {
            session: session.as_str().into(),
            call: CallId::from("c1_0"),
            accesses: Arc::default(),
            boot: Boot::Current,
            workspace: root.join("workspace"),
            host: Arc::new(NoSession),
            delegate: None,
            server_client: Arc::new(piton_tools::servers::NoClient),
            subordinates: None,
            executor: runners(Some(runner_program()), &calls_dir),
            tasks: Arc::default(),
            output: OutputSink::none(),
            cancel: CancellationToken::new(),
            leave: CancellationToken::new(),
            files: Arc::new(Disk::new(calls_dir.clone())),
            ledger: Arc::new(FileLedger::default()),
            confinement: Confinement::Model,
            env,
            firewall: Firewall::off(),
            after_edits: Arc::default(),
            limits: ToolLimits::default(),
            output_cut: OutputCut::HeadTail { max_chars: TOOL_OUTPUT_CHARS },
        };
        Self { cx, calls_dir, _folder: folder }
    }

    /// What a tool's plan may look at here, outside of a sandbox.
    pub(crate) fn look(&self) -> Look {
        Look {
            workspace: self.cx.workspace.clone(),
            files: Arc::clone(&self.cx.files),
            machine: Arc::clone(&self.cx.files),
            is_confined: false,
            has_shell: true,
            session: "ses_1".into(),
            env: Arc::clone(&self.cx.env),
            firewall: self.cx.firewall.clone(),
            links: Links::default(),
        }
    }

    /// The same, with a sandbox for its commands, and a home that is not there in it.
    pub(crate) fn confined() -> Self {
        let mut place = Self::new();
        let root = place.cx.workspace.parent().unwrap().to_path_buf();
        std::fs::create_dir_all(root.join("home/.ssh")).unwrap();
        std::fs::write(root.join("home/.ssh/id"), "canary").unwrap();
        let reach = Reach {
            backend: Backend::Namespaces,
            workspace: place.cx.workspace.clone(),
            write: Write::Workspace,
            home: root.join("home"),
            private: place.calls_dir.parent().unwrap().join("sandbox"),
            path: std::env::split_paths(&place.cx.env[std::ffi::OsStr::new("PATH")]).collect(),
            read: Vec::new(),
            keep: Vec::new(),
            hidden: Vec::new(),
            carried: Vec::new(),
            approved: Vec::new(),
            limits: Limits::default(),
            network: Network::None,
        };
        Arc::make_mut(&mut place.cx.env).insert("HOME".into(), reach.home.clone().into());
        let by = RunnerCommand { program: runner_program(), args: Vec::new() };
        place.cx.confinement = Confinement::Sandbox(Arc::new(Confined { reach, by, egress: None }));
        place
    }

    /// What the commands of this place can reach.
    pub(crate) fn reach(&mut self) -> &mut Reach {
        let Confinement::Sandbox(confined) = &mut self.cx.confinement else { panic!("there is no sandbox") };
        &mut Arc::make_mut(confined).reach
    }

    /// Opens hosts to the commands of this place.
    pub(crate) fn open(&mut self, egress: Arc<Egress>) {
        self.reach().network = Network::Proxy;
        let Confinement::Sandbox(confined) = &mut self.cx.confinement else { panic!("there is no sandbox") };
        Arc::make_mut(confined).egress = Some(egress);
    }

    /// What a runner is told of the call, to run this.
    pub(crate) fn spec(&self, command: &str) -> Vec<u8> {
        let spec = RunSpec {
            call: self.cx.call.clone(),
            argv: vec!["bash".into(), "-c".into(), command.into()],
            cwd: self.cx.workspace.clone(),
            timeout_ms: 60_000,
            spool_bytes: 1 << 20,
            terminal: false,
            typing_ms: None,
            unattended_ms: None,
        };
        serde_json::to_vec(&spec).unwrap()
    }

    /// Runners of this program, which start anew.
    pub(crate) fn set_runner(&mut self, program: Option<PathBuf>) {
        self.cx.executor = runners(program, &self.calls_dir);
    }

    /// Makes room for the same call once more.
    pub(crate) fn renew(&self) {
        std::fs::remove_dir_all(&self.calls_dir).unwrap();
        std::fs::create_dir(&self.calls_dir).unwrap();
    }

    /// Runs a new call of a built-in tool.
    pub(crate) async fn run(&self, tool: &str, input: Value) -> Outcome {
        ToolSet::builtin().get(tool).unwrap().run(input, &self.cx).await
    }

    /// Settles the call that had begun in another process.
    pub(crate) async fn settle(&self, tool: &str, input: Value) -> Outcome {
        ToolSet::builtin().get(tool).unwrap().settle(input, &self.cx).await
    }

    pub(crate) async fn bash(&self, command: &str) -> Outcome {
        self.run("bash", json!({"command": command})).await
    }

    pub(crate) async fn read(&self, path: &str) -> Outcome {
        self.run("read", json!({"path": path})).await
    }

    /// As a new process would find things: the same folders, nothing remembered.
    pub(crate) fn restarted(&self) -> ToolContext {
        ToolContext { ledger: Arc::default(), cancel: CancellationToken::new(), ..self.cx.clone() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.cx.workspace.join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.calls_dir.join(self.cx.call.as_str())
    }

    /// A file of the call.
    pub(crate) fn file(&self, extension: &str) -> PathBuf {
        self.calls_dir.join(format!("{}.{extension}", self.cx.call))
    }

    /// Starts a runner as Piton would, but with nobody who waits for it or stops it.
    pub(crate) fn start_runner(&self, command: &str) -> Child {
        std::fs::create_dir_all(&self.calls_dir).unwrap();
        let mut runner = Command::new(runner_program())
            .arg(&self.calls_dir)
            .env_clear()
            .envs(self.cx.env.iter())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        runner.stdin.take().unwrap().write_all(&self.spec(command)).unwrap();
        runner
    }
}

fn runners(program: Option<PathBuf>, calls_dir: &Path) -> Arc<dyn Executor> {
    let command = program.map(|program| RunnerCommand { program, args: Vec::new() });
    Arc::new(Runners::new(command, calls_dir.to_path_buf()))
}

pub(crate) fn runner_program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_piton-runner"))
}

/// Waits until something is so. Slow machines get their time; a minute means never.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether any process runs with this word among its arguments.
pub(crate) fn is_running(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

/// A number of seconds for `sleep` that no other test uses, so that its process can be found.
pub(crate) fn unique_sleep() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{}", 3_000 + NEXT.fetch_add(1, Ordering::Relaxed), std::process::id())
}

/// The names in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
