//! `piton sandbox`: a command in the model's sandbox, by hand; and `piton doctor --sandbox`: attempts to break out of it.

use crate::cli::SandboxArgs;
use crate::failure::{Context, Failure, Result};
use crate::out::{report, view};
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::policy::SandboxMode;
use piton_engine::assemble::sandbox::{available, by_hand, unopened};
use piton_engine::assemble::{AssembleError, environment};
use piton_engine::config::{BackendChoice, Config, OpenHost};
use piton_http::egress::HostRule;
use piton_sandbox::{Backend, Carried, Plan, Reach, Source};
use piton_tools::network::Outlet;
use piton_tools::private;
use piton_tools::spawn::{Confinement, Env, Group, Keep, Spawn, Streams, output_within};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Runs the command, and answers as it did.
pub(crate) async fn sandbox(args: &SandboxArgs, around: &Surroundings) -> Result<u8> {
    /// As a shell tells of a signal.
    const SIGNALED: i32 = 128;
    let workspace = around.workspace(args.cwd.as_deref())?;
    let mut config = settings::of_user(around)?;
    config.sandbox.net.extend(args.net.iter().cloned().map(OpenHost));
    let mode =
        if args.mode == SandboxMode::ReadOnly.word() { SandboxMode::ReadOnly } else { SandboxMode::WorkspaceWrite };
    let private = own_folder(around).context("no folder can be made for its home")?;
    let choice = args.backend.as_deref().and_then(BackendChoice::of_word).or(config.sandbox.backend);
    let found =
        available(&around.machine, choice.unwrap_or_default()).map_err(|why| AssembleError::NoSandbox { why })?;
    let confinement =
        by_hand(&around.machine, &config, (mode, found.backend), &workspace, private.path().to_path_buf());
    if let Confinement::Sandbox(confined) = &confinement
        && confined.egress.is_none()
        && let Some(why) = unopened(&config)
    {
        view::write_stderr(&format!("piton: {why}\n"));
    }
    if args.show {
        show(&confinement);
        return Ok(0);
    }
    let env = Env::new(environment::for_tools(&around.machine.vars, &config));
    let spawn = Spawn::new(args.command.iter().cloned(), &env, &workspace, confinement);
    let (mut child, outlet) =
        spawn.start_open(Group::Ours, Streams::inherited()).context("the sandbox cannot be started")?;
    // Whatever comes: what is moved away into it is not deleted.
    let private = private.keep();
    let ended = child.wait().await.context("the sandbox is lost")?;
    for said in outlet.iter().flat_map(Outlet::refused) {
        view::write_stderr(&format!("piton: {said}\n"));
    }
    piton_sandbox::clear(&private).context("the sandbox's own folder cannot be cleared")?;
    let code = ended.code().unwrap_or_else(|| SIGNALED + ended.signal().unwrap_or_default());
    Ok(u8::try_from(code).unwrap_or(report::EXIT_FAILED))
}

/// A folder for the command's home, `/tmp` and what is moved away. In the data folder: what is moved away may be the user's, and stays.
fn own_folder(around: &Surroundings) -> io::Result<TempDir> {
    let all = around.machine.data_dir.join("by-hand");
    private::make_folder(&all)?;
    tempfile::Builder::new().prefix("sandbox-").tempdir_in(all.canonicalize()?)
}

/// What a command sees, path by path.
fn show(confinement: &Confinement) {
    let Confinement::Sandbox(confined) = confinement else { return };
    for mount in Plan::of(&confined.reach).mounts {
        let what = match &mount.source {
            Source::Machine { from, write } => {
                let how = if *write { "write" } else { "read" };
                if *from == mount.at { how.to_owned() } else { format!("{how}, the session's own") }
            }
            Source::Cache { .. } => "read; what is written ends with the command".to_owned(),
            Source::Link(to) => format!("link to {}", to.display()),
            Source::EmptyFolder | Source::EmptyFile => "empty".to_owned(),
            Source::Names => "names".to_owned(),
            Source::Processes => "processes".to_owned(),
            Source::Devices => "null, zero, full, random, urandom, tty, pts, shm".to_owned(),
        };
        view::write_stdout(&format!("{:<44} {what}\n", mount.at.display()));
    }
    let Reach { home, workspace, carried, backend, .. } = &confined.reach;
    // Where the workspace holds the home, there is no other.
    let has_own_home = *backend == Backend::Landlock || !home.starts_with(workspace);
    for Carried { at, text } in carried.iter().filter(|_| has_own_home) {
        let lines: String = text.lines().map(|line| format!("    {line}\n")).collect();
        view::write_stdout(&format!("\n~/{} holds, of your settings:\n{lines}", at.display()));
    }
}

/// One guarantee, and a script for `sh` that exits with 0 if it does not hold.
struct Attempt {
    guarantee: &'static str,
    script: &'static str,
    /// Whether it succeeds without a sandbox, whoever runs it: then it is shown that it does.
    works_outside: bool,
}

const fn attempt(guarantee: &'static str, script: &'static str) -> Attempt {
    Attempt { guarantee, script, works_outside: true }
}

const fn by_root_only(guarantee: &'static str, script: &'static str) -> Attempt {
    Attempt { guarantee, script, works_outside: false }
}

/// `$OUT` is a folder outside of the workspace, `$PORT` a server of the machine, `$PID` a process of it.
const ATTEMPTS: &[Attempt] = &[
    attempt("nothing outside is read", "cat \"$OUT/secret\""),
    attempt("nothing outside is written", "echo x > \"$OUT/secret\""),
    attempt("nothing outside is renamed", "mv \"$OUT/secret\" \"$OUT/other\" && mv \"$OUT/other\" \"$OUT/secret\""),
    attempt("git's configuration stays", "git config core.fsmonitor x && git config --unset core.fsmonitor"),
    attempt("git's folder stays", "mv .git old && mv old .git"),
    attempt("git's hooks stay", "echo x > .git/hooks/post-commit && rm .git/hooks/post-commit"),
    attempt("no server is reached", "python3 -c \"import socket; socket.create_connection(('127.0.0.1', $PORT), 2)\""),
    attempt(
        "no socket is reached",
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('$OUT/socket')\"",
    ),
    attempt("no process is signalled", "kill -0 $PID"),
    by_root_only("the system is not changed", "touch /usr/bin/piton-was-here && rm /usr/bin/piton-was-here"),
    by_root_only(
        "the kernel is not configured",
        "p=$(cat /proc/sys/kernel/core_pattern); echo \"$p\" > /proc/sys/kernel/core_pattern",
    ),
    by_root_only("nothing is mounted", "mount -t tmpfs none /mnt && umount /mnt"),
    by_root_only("no namespace is made", "unshare -U true"),
    by_root_only("no rights are won", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status"),
];

/// What must work all the same, and whether Landlock alone can let it.
const WORK: &[(&str, &str, bool)] = &[
    ("the workspace is written", "echo x > sub/file && rm sub/file", true),
    ("/tmp and the home are written", "echo x > \"$TMPDIR/x\" && echo x > \"$HOME/x\"", true),
    ("a file is made at the top", "echo x > file && rm file", false),
    ("commits are made", "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x", false),
    (
        "a server listens on lo",
        "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())\"",
        false,
    ),
];

/// Whether the proxy answers, and refuses a host that is not listed. What is listed is not asked for: nothing leaves the machine.
const PROXY: (&str, &str) = (
    "the proxy refuses other hosts",
    "python3 -c \"import socket; s = socket.create_connection(('127.0.0.1', 21128), 5); \
     s.sendall(b'CONNECT unlisted.invalid:443 HTTP/1.1\\r\\n\\r\\n'); a = s.recv(12); assert a == b'HTTP/1.1 403', a\"",
);

/// Tries to break each guarantee under each backend. The exit code is 0 only if all hold and all work is done.
pub(crate) async fn prove(around: &Surroundings) -> Result<u8> {
    let mut all_hold = true;
    let mut missing = Vec::new();
    for backend in Backend::ALL {
        match available(&around.machine, BackendChoice::Only(backend)) {
            Ok(_) => {
                view::write_stdout(&format!("{}:\n", backend.word()));
                all_hold &= prove_one(around, backend).await?;
            }
            Err(why) => {
                view::write_stdout(&format!("{}: none can be made here: {why}\n", backend.word()));
                missing.push(why);
            }
        }
    }
    if missing.len() == Backend::ALL.len() {
        return Err(AssembleError::NoSandbox { why: missing.join("; ") }.into());
    }
    Ok(if all_hold { 0 } else { report::EXIT_FAILED })
}

/// Whether all holds under one backend.
async fn prove_one(around: &Surroundings, backend: Backend) -> Result<bool> {
    // Beside Piton's own, which no command sees, and not in `/tmp`, which is another one in a sandbox.
    let beside = around.machine.data_dir.parent().unwrap_or(Path::new("/"));
    let folder = fs::create_dir_all(beside).and_then(|()| tempfile::tempdir_in(beside));
    let folder = folder.context("no folder can be made to try it in")?;
    let root = folder.path().canonicalize().context("the folder to try it in is gone")?;
    let outside = root.join("outside");
    let prepared = ["outside", "workspace/sub"].into_iter().try_for_each(|name| fs::create_dir_all(root.join(name)));
    prepared.and_then(|()| fs::write(outside.join("secret"), "canary")).context("cannot write there")?;
    let server = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on this machine")?;
    let socket = UnixListener::bind(outside.join("socket")).context("cannot listen at a path")?;
    let port = server.local_addr().context("a server without an address")?.port();
    let config = Config::default();
    let workspace = root.join("workspace");
    let wanted = (SandboxMode::WorkspaceWrite, backend);
    let confinement = by_hand(&around.machine, &config, wanted, &workspace, root.join("private"));
    let mut env = Env::new(environment::for_tools(&around.machine.vars, &config));
    let values: [(&str, OsString); 3] =
        [("OUT", outside.into()), ("PORT", port.to_string().into()), ("PID", std::process::id().to_string().into())];
    Env::make_mut(&mut env).extend(values.map(|(name, value)| (name.into(), value)));
    let within = |script: &str| run(script, &env, &workspace, confinement.clone());
    let without = |script: &str| run(script, &env, &workspace, Confinement::Model);
    without("git init -q .").context("git is not there")?;
    let mut all_hold = true;
    for attempt in ATTEMPTS {
        let holds = within(attempt.script).is_err();
        let outside = match attempt.works_outside.then(|| without(attempt.script)) {
            Some(Ok(())) => " (it works outside the sandbox)",
            Some(Err(_)) => " (not tested: it does not work outside the sandbox either)",
            None => "",
        };
        all_hold &= holds;
        let what = if holds { format!("blocked{outside}") } else { "NOT BLOCKED".to_owned() };
        view::write_stdout(&format!("  {:<32} {what}\n", attempt.guarantee));
    }
    for (work, script, by_landlock) in WORK {
        let works = within(script);
        let is_expected = *by_landlock || backend != Backend::Landlock;
        all_hold &= works.is_ok() || !is_expected;
        let what = match works {
            Ok(()) => "works".to_owned(),
            Err(error) if is_expected => format!("FAILS: {error}"),
            Err(_) => "not under Landlock alone".to_owned(),
        };
        view::write_stdout(&format!("  {work:<32} {what}\n"));
    }
    if backend == Backend::Namespaces {
        let listed = HostRule::parse("example.org").map_err(|error| Failure::user(error.to_string()))?;
        let mut config = config;
        config.sandbox.net.push(OpenHost(listed));
        let open = by_hand(&around.machine, &config, wanted, &workspace, root.join("private"));
        let refuses = run_open(PROXY.1, &env, &workspace, open).await;
        all_hold &= refuses.is_ok();
        let what = refuses.map_or_else(|error| format!("FAILS: {error}"), |()| "works".to_owned());
        view::write_stdout(&format!("  {:<32} {what}\n", PROXY.0));
    }
    drop((server, socket));
    Ok(all_hold)
}

/// The same with the hosts that are open.
async fn run_open(script: &str, env: &Env, workspace: &Path, confinement: Confinement) -> Result<()> {
    let mut running =
        Spawn::shell(script, env, workspace, confinement).run(None, Keep::Last).context("it cannot be started")?;
    match tokio::time::timeout(PATIENCE, running.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(_) => Err(said(&running.output().await.1)),
        Err(_) => Err(Failure::user("it did not end in time")),
    }
}

/// How long a script may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn said(stderr: &str) -> Failure {
    Failure::user(stderr.lines().last().unwrap_or("it failed without a word").to_owned())
}

/// Runs a script, which fails unless it exits with 0.
fn run(script: &str, env: &Env, workspace: &Path, confinement: Confinement) -> Result<()> {
    let child = Spawn::shell(script, env, workspace, confinement).start(Group::Own, Streams::caught());
    match child.and_then(|child| output_within(PATIENCE, child)).context("it cannot be started")? {
        Some(output) if output.status.success() => Ok(()),
        Some(output) => Err(said(&String::from_utf8_lossy(&output.stderr))),
        None => Err(Failure::user("it did not end in time")),
    }
}
