//! The runner's side: one call after the other, each from the claim to the exit record. Synchronous, one thread, no runtime.
//!
//! ```text
//!   ready ──RunSpec──▶ claimed ──▶ the command ──▶ its end told ──▶ recorded ──┐
//!     ▲                   └─ somebody else's: leave                            │
//!     └──────────── nothing of the call lives, nobody asked us to stop ◀───────┘
//! ```
//!
//! A [`Watch`] waits on three things at once, with `poll`: the command's output, the end of its shell, and a signal to
//! stop. The call is over when the *shell* is; what it left in the background is killed, since nobody would ever know
//! what came of it.

use super::attended::{self, Attended};
use super::files::{CallFiles, Durably, HeldClaim, ReadyClaim};
use super::processes::{MARK, Process, descendants, kill, mark, this_process};
use super::spool::Spool;
use super::typing::Typing;
use super::unprotected::Unprotected;
use super::{RunSpec, confined};
use crate::executor::{CommandEnd, ExitRecord};
use crate::limits::{CANCEL_GRACE, DRAIN_QUIET, DRAIN_TIME, STOP_GRACE, SWEEP_TIME};
use crate::spawn::{Env, Group};
use piton_sandbox::{End, Ended, Order, Sandbox, SandboxError, SharedNetwork, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, ioctl_tiocsctty, kill_process_group, pidfd_open,
    set_child_subreaper, setsid, wait,
};
use rustix::termios::tcsetpgrp;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The call ran and its end is recorded.
const RECORDED: i32 = 0;
/// Somebody else has the claim: nothing was done.
const NOT_OURS: i32 = 1;
/// Nothing was done: there is no claim, and a settler will say so.
const NOT_BEGUN: i32 = 2;
/// The call ran, and its end could not be recorded: a settler will find it interrupted.
const NOT_RECORDED: i32 = 3;
/// How long a sandbox may take to be made. It takes a thousandth of that.
const SET_UP_TIME: Duration = Duration::from_secs(10);
/// Bytes read from the pipe at once: as many as it holds.
const BUFFER_BYTES: usize = 64 << 10;

/// Waits for calls on `stdin` (a line each, [`RunSpec`] as JSON) and runs them one by one with this environment; their files
/// lie in `calls_dir`. The answer is its exit code. Its stdout says how each call ended (a line, [`ExitRecord`] as JSON). With the
/// plan of a sandbox it makes that before it hears of a call, and serves one: a process has one chance to make one.
pub(super) fn run_calls(calls_dir: &Path, sandbox: Option<Wanted<'_>>, env: &Env, stdin: impl Read) -> i32 {
    // A session of its own, so that the terminal's signals do not reach it. Fails only if it already leads one.
    let _ = setsid();
    // Whoever loses its parent becomes our child, daemons included: so that nothing escapes.
    let _ = set_child_subreaper(Some(getpid()));
    let (Ok(stop), Some(us)) = (stop_signal(), this_process()) else { return NOT_BEGUN };
    let mut orders = BufReader::new(stdin);
    let mut code = NOT_BEGUN;
    loop {
        // All that can be done before it is known what is to be done.
        let Ok(ready) = ReadyClaim::make(calls_dir, us.clone()) else { return code };
        let Ok(prepared) = Prepared::make(sandbox, env) else {
            ready.discard();
            return code;
        };
        let Some(spec) = next_spec(&mut orders).filter(|_| !is_asked(&stop)) else {
            ready.discard();
            return code;
        };
        code = match serve(&spec, env, calls_dir, ready, (prepared, &stop)) {
            Ok(Remains::None) if sandbox.is_none() && !spec.terminal && !is_asked(&stop) => RECORDED,
            Ok(Remains::None | Remains::Some) => return RECORDED,
            Err(code) => return code,
        };
    }
}

/// Whether something of a call lives on when all was done to end it.
#[derive(Debug, PartialEq, Eq)]
enum Remains {
    None,
    /// It must not pass for the next call's: whoever collects our children will have it.
    Some,
}

/// One call. Fails with the exit code of a runner that is of no more use.
fn serve(
    spec: &RunSpec,
    env: &Env,
    calls_dir: &Path,
    ready: ReadyClaim,
    (prepared, stop): (Prepared, &OwnedFd),
) -> Result<Remains, i32> {
    let files = CallFiles::new(&calls_dir.join(spec.call.as_str()));
    let held = match ready.take(&files) {
        Ok(Some(held)) => held,
        Ok(None) => return Err(NOT_OURS),
        Err(_) => return Err(NOT_BEGUN),
    };
    let (record, mut watch) = run(spec, env, &files, &held, (prepared, stop));
    // Who was told records it in the journal at once. Only where nobody listens is ours the one record that lasts.
    let durably = if announce(&record) { Durably::No } else { Durably::Yes };
    files.write_exit(&record, &held, durably).map_err(|_| NOT_RECORDED)?;
    let remains = watch.as_mut().map_or(Remains::None, Watch::remains);
    if let Some(Watch { shell: Shell::Confined(sandbox), .. }) = &watch {
        sandbox.finish_later();
    }
    Ok(remains)
}

/// Tells who waits for us how it ended. Answers whether somebody listened.
fn announce(record: &ExitRecord) -> bool {
    let Ok(mut json) = serde_json::to_vec(record) else { return false };
    json.push(b'\n');
    say(&json)
}

/// Says a line to who waits for us, if somebody does.
fn say(line: &[u8]) -> bool {
    let mut stdout = io::stdout();
    stdout.write_all(line).and_then(|()| stdout.flush()).is_ok()
}

/// The next call; `None` when there will be none. An older Piton sends no line feed but closes our stdin.
fn next_spec(orders: &mut impl BufRead) -> Option<RunSpec> {
    let mut line = Vec::new();
    orders.read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// Whether we were asked to stop.
fn is_asked(stop: &OwnedFd) -> bool {
    rustix::io::read(stop, &mut [0]).is_ok_and(|read| read > 0)
}

/// Becomes readable when we are asked to stop.
fn stop_signal() -> io::Result<OwnedFd> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        signal_hook::low_level::pipe::register(signal.as_raw(), writer.try_clone()?)?;
    }
    Ok(reader)
}

/// The file with the plan of a sandbox, and the network that it is to have where that is not its own.
type Wanted<'w> = (&'w OsString, Option<&'w SharedNetwork>);

/// Where a command will run.
enum Place {
    /// As we do.
    Here,
    /// In a sandbox, or nowhere.
    Sandbox(Box<Result<Sandbox, SandboxError>>),
}

/// What was made before it was known which command it is for.
struct Prepared {
    place: Place,
    /// Where we read what the command writes.
    output: OwnedFd,
    /// Where the command writes.
    writer: OwnedFd,
}

impl Prepared {
    fn make(sandbox: Option<Wanted<'_>>, env: &Env) -> io::Result<Self> {
        let (output, writer) = output_pipe()?;
        let place = match sandbox {
            Some((plan, shared)) => Place::Sandbox(Box::new(confined::prepare(plan, shared, env, || both(&writer)))),
            None => Place::Here,
        };
        Ok(Self { place, output, writer })
    }
}

/// One pipe for both outputs of a command, of which the end that we read does not block.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (output, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&output, OFlags::NONBLOCK)?;
    Ok((output, writer))
}

fn both(writer: &OwnedFd) -> io::Result<(Stdio, Stdio)> {
    Ok((writer.try_clone()?.into(), writer.try_clone()?.into()))
}

/// The command from its start to its end, and what is left to be collected of it.
fn run<'s>(
    spec: &RunSpec,
    env: &Env,
    files: &CallFiles,
    held: &HeldClaim,
    (prepared, stop): (Prepared, &'s OwnedFd),
) -> (ExitRecord, Option<Watch<'s>>) {
    let started = Instant::now();
    let mut watch = match Watch::begin(spec, env, files, (prepared, stop)) {
        Ok(watch) => watch,
        Err(NotBegun::Asked) => return (ExitRecord::of(CommandEnd::Cancelled), None),
        Err(NotBegun::Failed(error)) => {
            let error = Some(error.to_string());
            return (ExitRecord { error, ..ExitRecord::of(CommandEnd::SpawnFailed) }, None);
        }
    };
    // Without it the record is tried all the same.
    let _ = files.reserve_exit(held);
    if let Some(unattended_ms) = spec.unattended_ms {
        say(b"started\n");
        watch.attended = Some(Attended::new(files, unattended_ms));
    }
    let end = watch.until_the_end(started, spec.timeout_ms, files);
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let left_behind = match end {
        // A namespace takes a while to be taken down: nobody has to wait for that.
        CommandEnd::Exited | CommandEnd::Signaled if watch.is_alone() => 0,
        CommandEnd::Exited | CommandEnd::Signaled => {
            watch.drain();
            watch.sweep()
        }
        CommandEnd::TimedOut => watch.stop(STOP_GRACE),
        CommandEnd::Cancelled if watch.attended.is_some() => watch.stop(STOP_GRACE),
        CommandEnd::Cancelled => watch.stop(CANCEL_GRACE),
        CommandEnd::SpawnFailed | CommandEnd::Interrupted | CommandEnd::NotStarted => {
            watch.sweep();
            0
        }
    };
    watch.drain();
    watch.collect_dead();
    let mut undone = watch.unprotected.as_mut().map(Unprotected::take_said).unwrap_or_default();
    undone.extend(watch.shell.inspect());
    let abandoned = watch.is_abandoned.then(|| "its session was not open any more: nobody looked after it".to_owned());
    let spooled = watch.spool.finish();
    let ended = &watch.ended;
    let by_itself = matches!(end, CommandEnd::Exited | CommandEnd::Signaled);
    let record = ExitRecord {
        status: end,
        code: ended.as_ref().and_then(HowEnded::code).filter(|_| by_itself),
        signal: ended.as_ref().and_then(HowEnded::signal).filter(|_| by_itself),
        duration_ms,
        output_bytes: spooled.total,
        kept_bytes: spooled.kept,
        left_behind,
        undone,
        refused: Vec::new(),
        is_confined: matches!(watch.shell, Shell::Confined(_)),
        typed: watch.terminal.as_ref().map(|(_, typing)| typing.shown()).unwrap_or_default(),
        error: ended
            .as_ref()
            .filter(|_| by_itself || end == CommandEnd::SpawnFailed)
            .and_then(HowEnded::error)
            .or(abandoned)
            .or(spooled.error),
    };
    (record, Some(watch))
}

/// Why a command was not started. Nothing of it ran.
enum NotBegun {
    /// We were asked to stop before it was.
    Asked,
    Failed(io::Error),
}

impl From<io::Error> for NotBegun {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Starts the command in a process group of its own, with nothing to read and one pipe to write to, or in a terminal, of which we get
/// the outer end.
fn start(
    spec: &RunSpec,
    env: &Env,
    files: &CallFiles,
    (place, stop): (Place, &OwnedFd),
    writer: &OwnedFd,
) -> Result<(Shell, Option<OwnedFd>), NotBegun> {
    if !spec.cwd.is_dir() {
        let text = format!("the working directory {} is gone", spec.cwd.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, text).into());
    }
    let mut env = Env::clone(env);
    Env::make_mut(&mut env).insert(MARK.into(), mark(files.base()).into());
    if spec.terminal {
        let env = Env::make_mut(&mut env);
        env.insert("TERM".into(), TERMINAL.into());
        // A pager would wait for keys.
        for pager in ["PAGER", "GIT_PAGER"] {
            env.entry(pager.into()).or_insert_with(|| "cat".into());
        }
    }
    let argv: Vec<OsString> = spec.argv.iter().map(OsString::from).collect();
    let order = Order { terminal: spec.terminal, ..confined::order(argv, &env, &spec.cwd) };
    match place {
        Place::Sandbox(sandbox) => {
            let sandbox = sandbox.map_err(io::Error::other)?;
            until_ready(&sandbox, stop)?;
            let terminal = confined::start_confined(&sandbox, order).map_err(io::Error::other)?;
            let terminal = terminal.map(without_waiting).transpose()?;
            Ok((Shell::Confined(Box::new(sandbox)), terminal))
        }
        Place::Here if spec.terminal => {
            let Terminal { outside, inside } = Terminal::open()?;
            // We lead our session, so it is that of all that we start; and we serve no other call.
            ioctl_tiocsctty(&inside).map_err(io::Error::from)?;
            let shell = started(&confined::start(&order, Group::Own, confined::of_terminal(&inside)?)?)?;
            if let Some(pid) = shell.child() {
                tcsetpgrp(&inside, pid).map_err(io::Error::from)?;
                // It may have wanted to read before, and be stopped for that.
                let _ = kill_process_group(pid, Signal::CONT);
            }
            Ok((shell, Some(without_waiting(outside)?)))
        }
        Place::Here => {
            let (stdout, stderr) = both(writer)?;
            Ok((started(&confined::start(&order, Group::Own, confined::unheard(stdout, stderr))?)?, None))
        }
    }
}

/// Waits until the sandbox has something to say of itself.
fn until_ready(sandbox: &Sandbox, stop: &OwnedFd) -> Result<(), NotBegun> {
    let until = Instant::now() + SET_UP_TIME;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        let mut sources = [PollFd::new(sandbox, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // A signal that was not for us interrupts it, too.
        let _ = poll(&mut sources, timeout.as_ref());
        match sources.map(|source| !source.revents().is_empty()) {
            [_, true] if is_asked(stop) => return Err(NotBegun::Asked),
            [true, _] => return Ok(()),
            _ if left.is_zero() => {
                let text = format!("the sandbox was not ready after {} s; nothing ran", SET_UP_TIME.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text).into());
            }
            _ => {}
        }
    }
}

/// What a command in a terminal is told of it: what every program knows.
const TERMINAL: &str = "xterm";

fn without_waiting(source: OwnedFd) -> io::Result<OwnedFd> {
    fcntl_setfl(&source, OFlags::RDWR | OFlags::NONBLOCK)?;
    Ok(source)
}

/// A child of ours that is a command's shell.
fn started(child: &Child) -> io::Result<Shell> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("the command has no process id"))?;
    let ended = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        // Nobody would watch it: it must not go on.
        let _ = kill_process_group(pid, Signal::KILL);
    })?;
    Ok(Shell::Ours { pid, ended })
}

/// The shell of a command.
enum Shell {
    /// A child of ours; readable once it is dead.
    Ours { pid: Pid, ended: OwnedFd },
    /// A child of the sandbox's first process, which is ours and tells how it ended.
    Confined(Box<Sandbox>),
}

impl Shell {
    /// Readable once it has ended.
    fn ended(&self) -> BorrowedFd<'_> {
        match self {
            Self::Ours { ended, .. } => ended.as_fd(),
            Self::Confined(sandbox) => sandbox.as_fd(),
        }
    }

    /// Undoes what must not stay of the command, when nothing of it lives.
    fn inspect(&self) -> Vec<String> {
        match self {
            Self::Ours { .. } => Vec::new(),
            Self::Confined(sandbox) => sandbox.inspect(),
        }
    }

    /// The process that we started: the shell, or the first of its sandbox.
    fn child(&self) -> Option<Pid> {
        match self {
            Self::Ours { pid, .. } => Some(*pid),
            Self::Confined(sandbox) => sandbox.first(),
        }
    }
}

/// How the shell ended.
enum HowEnded {
    /// We have collected it.
    Status(WaitStatus),
    /// The sandbox said so.
    Told(End),
    /// The sandbox's first process ended before it could say.
    Lost,
}

impl HowEnded {
    fn code(&self) -> Option<i32> {
        match self {
            Self::Status(status) => status.exit_status(),
            Self::Told(End { how: Ended::Exited(code), .. }) => Some(*code),
            Self::Told(_) | Self::Lost => None,
        }
    }

    fn signal(&self) -> Option<i32> {
        match self {
            Self::Status(status) => status.terminating_signal(),
            Self::Told(End { how: Ended::Signaled(signal), .. }) => Some(*signal),
            // The kernel ends all that is in it.
            Self::Lost => Some(Signal::KILL.as_raw()),
            Self::Told(_) => None,
        }
    }

    fn error(&self) -> Option<String> {
        match self {
            Self::Told(End { how: Ended::NotStarted { error, .. }, .. }) => Some(error.clone()),
            Self::Lost => Some("the sandbox ended before its command".to_owned()),
            Self::Status(_) | Self::Told(_) => None,
        }
    }

    /// The way in which the call ends.
    fn end(&self) -> CommandEnd {
        match self {
            Self::Told(End { how: Ended::NotStarted { .. }, .. }) => CommandEnd::SpawnFailed,
            _ if self.signal().is_some() => CommandEnd::Signaled,
            _ => CommandEnd::Exited,
        }
    }
}

/// A command under way.
struct Watch<'r> {
    shell: Shell,
    /// `None` while it runs.
    ended: Option<HowEnded>,
    /// `None` once everybody has closed it.
    output: Option<OwnedFd>,
    stop: &'r OwnedFd,
    stop_asked: bool,
    /// Who looks after it, where it is in the background.
    attended: Option<Attended>,
    is_abandoned: bool,
    /// Its terminal, where it has one. Held as long as it runs: with the last of it, whoever has it for a terminal is hung up.
    terminal: Option<(OwnedFd, Typing)>,
    /// Watches over its sandbox, where it has one.
    unprotected: Option<Unprotected>,
    spool: Spool,
    buffer: Vec<u8>,
}

/// Whether a look at the pipe found something.
#[derive(PartialEq, Eq)]
enum Heard {
    Something,
    Nothing,
}

impl<'r> Watch<'r> {
    fn begin(
        spec: &RunSpec,
        env: &Env,
        files: &CallFiles,
        (prepared, stop): (Prepared, &'r OwnedFd),
    ) -> Result<Self, NotBegun> {
        let Prepared { place, output, writer } = prepared;
        let spool = Spool::create(&files.out(), spec.spool_bytes);
        let (shell, terminal) = start(spec, env, files, (place, stop), &writer)?;
        // Only the command writes now, so that its end is the pipe's.
        drop(writer);
        let output = match &terminal {
            Some(terminal) => terminal.try_clone()?,
            None => output,
        };
        let terminal = terminal.map(|terminal| {
            let typing = Typing::begin(files, spec.typing_ms, &terminal);
            (terminal, typing)
        });
        let buffer = vec![0; BUFFER_BYTES];
        let unprotected = match &shell {
            Shell::Confined(_) => Some(Unprotected::watch()),
            Shell::Ours { .. } => None,
        };
        Ok(Self {
            shell,
            ended: None,
            output: Some(output),
            stop,
            stop_asked: false,
            attended: None,
            is_abandoned: false,
            terminal,
            unprotected,
            spool,
            buffer,
        })
    }

    fn until_the_end(&mut self, started: Instant, timeout_ms: u64, files: &CallFiles) -> CommandEnd {
        let mut deadline = started + Duration::from_millis(timeout_ms);
        let mut look_at = Instant::now();
        loop {
            let next = if self.attended.is_some() { deadline.min(look_at) } else { deadline };
            let end_of_input = self.terminal.as_ref().and_then(|(_, typing)| typing.ends_at());
            let next = end_of_input.map_or(next, |at| at.min(next));
            let next = self.unprotected.as_ref().map(Unprotected::look_at).map_or(next, |at| at.min(next));
            self.wait(self.spool.next_sync().map_or(next, |sync| sync.min(next)));
            self.spool.sync_if_due();
            if let (Some(unprotected), Shell::Confined(sandbox)) = (&mut self.unprotected, &self.shell) {
                unprotected.look_if_due(sandbox);
            }
            self.collect_dead();
            let now = Instant::now();
            if let Some(attended) = self.attended.as_mut().filter(|_| now >= look_at) {
                self.is_abandoned = attended.is_abandoned(now);
                look_at = now + attended::LOOK_EVERY;
            }
            match &self.ended {
                Some(how) => return how.end(),
                None if self.stop_asked || self.is_abandoned => return CommandEnd::Cancelled,
                None if Instant::now() >= deadline => match files.left().filter(|_| self.attended.is_none()) {
                    // Whoever waited for it has left it running meanwhile.
                    Some(left) => {
                        deadline = started + Duration::from_millis(left.timeout_ms);
                        self.attended = Some(Attended::new(files, left.unattended_ms));
                    }
                    None => return CommandEnd::TimedOut,
                },
                None => {}
            }
        }
    }

    /// Waits for output, the shell's end, a signal, or the time; takes what output there is.
    fn wait(&mut self, until: Instant) -> Heard {
        let mut sources = Vec::with_capacity(4);
        let typed = self.terminal.as_ref().and_then(|(_, typing)| typing.source());
        if let Some(typed) = &typed {
            sources.push(PollFd::new(typed, PollFlags::IN));
        }
        if let Some(output) = &self.output {
            sources.push(PollFd::new(output, PollFlags::IN));
        }
        let shell = self.shell.ended();
        if self.ended.is_none() {
            sources.push(PollFd::new(&shell, PollFlags::IN));
        }
        if !self.stop_asked {
            sources.push(PollFd::new(self.stop, PollFlags::IN));
        }
        let timeout = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        // Interrupted by a signal: the next round sees what it was.
        let _ = poll(&mut sources, timeout.as_ref());
        self.stop_asked |= is_asked(self.stop);
        if let Some((terminal, typing)) = &mut self.terminal {
            typing.pass_on(terminal);
        }
        let heard = self.read_output();
        if let (Heard::Something, Some((_, typing))) = (&heard, &mut self.terminal) {
            typing.heard_output();
        }
        heard
    }

    fn read_output(&mut self) -> Heard {
        let Some(output) = &self.output else { return Heard::Nothing };
        match rustix::io::read(output, &mut self.buffer) {
            Ok(0) => self.output = None,
            Ok(count) => {
                self.spool.take(&self.buffer[..count]);
                return Heard::Something;
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.output = None,
        }
        Heard::Nothing
    }

    /// Collects the dead, ours by birth or by adoption, and hears how a confined shell ended. Answers whether anything of the
    /// command lives.
    fn collect_dead(&mut self) -> bool {
        if self.ended.is_none()
            && let Shell::Confined(sandbox) = &self.shell
            && sandbox.ends_within(Duration::ZERO)
        {
            self.ended = Some(sandbox.ended().ok().flatten().map_or(HowEnded::Lost, HowEnded::Told));
        }
        let child = self.shell.child();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == child => {
                    self.ended.get_or_insert(match self.shell {
                        Shell::Ours { .. } => HowEnded::Status(status),
                        Shell::Confined(_) => HowEnded::Lost,
                    });
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// What lives of the command: all that descends from us, but for the first process of its sandbox.
    fn alive(&self) -> Vec<Process> {
        let mut alive = descendants(getpid().as_raw_pid());
        if let Shell::Confined(sandbox) = &self.shell {
            alive.retain(|process| sandbox.first().is_none_or(|first| process.pid != first.as_raw_pid()));
        }
        alive
    }

    /// Reads what is left in the pipe. While something still holds it, silence is its end: a background process must
    /// not keep anybody waiting.
    fn drain(&mut self) {
        let until = Instant::now() + DRAIN_TIME;
        while self.output.is_some() && Instant::now() < until {
            let heard = self.read_output();
            if heard == Heard::Nothing && self.output.is_some() && self.wait_for_output() == Heard::Nothing {
                return;
            }
        }
    }

    fn wait_for_output(&self) -> Heard {
        let Some(output) = &self.output else { return Heard::Nothing };
        let timeout = Timespec::try_from(DRAIN_QUIET).ok();
        match poll(&mut [PollFd::new(output, PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) if ready > 0 => Heard::Something,
            Ok(_) | Err(_) => Heard::Nothing,
        }
    }

    /// Asks the command and whatever left its group to end, gives them a moment to do so, and then kills the rest. None
    /// of them counts as left behind.
    fn stop(&mut self, grace: Duration) -> u32 {
        /// How often to look whether all are gone: only the shell's end is told.
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        let until = Instant::now() + grace;
        if let Shell::Ours { pid, .. } = &self.shell {
            // It was not collected yet, so its id is still its group's.
            let _ = kill_process_group(*pid, Signal::TERM);
        }
        for process in self.alive() {
            let has_heard = matches!(&self.shell, Shell::Ours { pid, .. } if process.is_in_group(*pid));
            if !has_heard {
                kill(&process, Signal::TERM);
            }
        }
        while self.collect_dead() && !self.is_over() && Instant::now() < until {
            self.wait(until.min(Instant::now() + LOOK_EVERY));
        }
        self.sweep();
        0
    }

    /// Whether the command ended in its sandbox, and nothing that it started lives.
    fn is_alone(&self) -> bool {
        matches!(&self.ended, Some(HowEnded::Told(End { is_alone: true, .. })))
    }

    /// Ends the sandbox, if there is one, and whatever else lives.
    fn remains(&mut self) -> Remains {
        /// To take namespaces down keeps the kernel busy, and the result goes to the model just now.
        const RESULT_FIRST: Duration = Duration::from_millis(4);
        if matches!(self.shell, Shell::Confined(_)) {
            if self.is_alone() {
                std::thread::sleep(RESULT_FIRST);
            }
            self.sweep();
        }
        if self.collect_dead() { Remains::Some } else { Remains::None }
    }

    /// Whether nothing is left but the first process of the sandbox, which waits for its end.
    fn is_over(&self) -> bool {
        matches!(self.shell, Shell::Confined(_)) && self.ended.is_some() && self.alive().is_empty()
    }

    /// Kills all that is left of the command; answers with how many there were.
    fn sweep(&mut self) -> u32 {
        let until = Instant::now() + SWEEP_TIME;
        let mut killed = HashSet::new();
        if let Shell::Confined(sandbox) = &self.shell {
            if !self.is_alone() {
                killed.extend(self.alive().iter().map(|process| process.pid));
            }
            // The kernel ends with it whatever is in its namespace.
            sandbox.kill();
            sandbox.wait_for_death(SWEEP_TIME);
        }
        while self.collect_dead() && Instant::now() < until {
            for process in self.alive() {
                kill(&process, Signal::KILL);
                killed.insert(process.pid);
            }
            self.wait(Instant::now() + Duration::from_millis(1));
        }
        u32::try_from(killed.len()).unwrap_or(u32::MAX)
    }
}
