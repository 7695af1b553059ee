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

use super::RunSpec;
use super::files::{CallFiles, Durably, HeldClaim, ReadyClaim};
use super::processes::{MARK, descendants, kill, mark, this_process};
use super::spool::Spool;
use crate::executor::{CommandEnd, ExitRecord};
use crate::limits::{CANCEL_GRACE, DRAIN_QUIET, DRAIN_TIME, STOP_GRACE, SWEEP_TIME};
use crate::spawn::{Env, Group, Spawn, Streams};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, pidfd_open, set_child_subreaper,
    setsid, wait,
};
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The call ran and its end is recorded.
const RECORDED: i32 = 0;
/// Somebody else has the claim: nothing was done.
const NOT_OURS: i32 = 1;
/// Nothing was done: there is no claim, and a settler will say so.
const NOT_BEGUN: i32 = 2;
/// The call ran, and its end could not be recorded: a settler will find it interrupted.
const NOT_RECORDED: i32 = 3;
/// Bytes read from the pipe at once: as many as it holds.
const BUFFER_BYTES: usize = 64 << 10;

/// Waits for calls on `stdin` (a line each, [`RunSpec`] as JSON) and runs them one by one with this environment; their files
/// lie in `calls_dir`. The whole life of a runner process; the answer is its exit code. Its stdout says how each call ended
/// (a line, [`ExitRecord`] as JSON). Call it first thing in `main`, before any thread is started.
pub fn runner_main(calls_dir: &Path, env: &Env, stdin: impl Read) -> i32 {
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
        let Some(spec) = next_spec(&mut orders).filter(|_| !is_asked(&stop)) else {
            ready.discard();
            return code;
        };
        code = match serve(&spec, env, calls_dir, ready, &stop) {
            Ok(Remains::None) if !is_asked(&stop) => RECORDED,
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
fn serve(spec: &RunSpec, env: &Env, calls_dir: &Path, ready: ReadyClaim, stop: &OwnedFd) -> Result<Remains, i32> {
    let files = CallFiles::new(&calls_dir.join(spec.call.as_str()));
    let held = match ready.take(&files) {
        Ok(Some(held)) => held,
        Ok(None) => return Err(NOT_OURS),
        Err(_) => return Err(NOT_BEGUN),
    };
    let (record, remains) = run(spec, env, &files, &held, stop);
    // Who was told records it in the journal at once. Only where nobody listens is ours the one record that lasts.
    let durably = if announce(&record) { Durably::No } else { Durably::Yes };
    files.write_exit(&record, &held, durably).map(|()| remains).map_err(|_| NOT_RECORDED)
}

/// Tells who waits for us how it ended. Answers whether somebody listened.
fn announce(record: &ExitRecord) -> bool {
    let Ok(mut json) = serde_json::to_vec(record) else { return false };
    json.push(b'\n');
    let mut stdout = io::stdout();
    stdout.write_all(&json).and_then(|()| stdout.flush()).is_ok()
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

fn run(spec: &RunSpec, env: &Env, files: &CallFiles, held: &HeldClaim, stop: &OwnedFd) -> (ExitRecord, Remains) {
    let started = Instant::now();
    let mut watch = match Watch::begin(spec, env, files, stop) {
        Ok(watch) => watch,
        Err(error) => {
            let error = Some(error.to_string());
            return (ExitRecord { error, ..ExitRecord::of(CommandEnd::SpawnFailed) }, Remains::None);
        }
    };
    // Without it the record is tried all the same.
    let _ = files.reserve_exit(held);
    let end = watch.until_the_end(started + Duration::from_millis(spec.timeout_ms));
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let left_behind = match end {
        CommandEnd::Exited | CommandEnd::Signaled => {
            watch.drain();
            watch.sweep()
        }
        CommandEnd::TimedOut => watch.stop(STOP_GRACE),
        CommandEnd::Cancelled => watch.stop(CANCEL_GRACE),
        CommandEnd::SpawnFailed | CommandEnd::Interrupted | CommandEnd::NotStarted => 0,
    };
    watch.drain();
    let remains = if watch.collect_dead() { Remains::Some } else { Remains::None };
    let status = watch.shell_status;
    let spooled = watch.spool.finish();
    let by_itself = matches!(end, CommandEnd::Exited | CommandEnd::Signaled);
    let record = ExitRecord {
        status: end,
        code: status.and_then(WaitStatus::exit_status).filter(|_| by_itself),
        signal: status.and_then(WaitStatus::terminating_signal).filter(|_| by_itself),
        duration_ms,
        output_bytes: spooled.total,
        kept_bytes: spooled.kept,
        left_behind,
        error: spooled.error,
    };
    (record, remains)
}

/// Starts the command in a process group of its own, with nothing to read and one pipe to write to.
fn spawn(spec: &RunSpec, env: &Env, files: &CallFiles, output: &OwnedFd) -> io::Result<Pid> {
    if !spec.cwd.is_dir() {
        let text = format!("the working directory {} is gone", spec.cwd.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    let mut spawn = Spawn::new(&spec.argv, env, &spec.cwd, spec.confinement).with(MARK, mark(files.base()));
    let start = |spawn: &Spawn| {
        let (stdout, stderr) = (output.try_clone()?.into(), output.try_clone()?.into());
        spawn.start(Group::Own, Streams { stdin: Stdio::null(), stdout, stderr })
    };
    let child = match start(&spawn) {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && spec.argv.first().is_some_and(|name| name == "bash") =>
        {
            spawn.argv[0] = "sh".into();
            start(&spawn)
        }
        other => other,
    }?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the command has no process id"))
}

/// A command under way.
struct Watch<'r> {
    shell: Pid,
    /// Readable once the shell is dead.
    shell_ended: OwnedFd,
    shell_status: Option<WaitStatus>,
    /// `None` once everybody has closed it.
    output: Option<OwnedFd>,
    stop: &'r OwnedFd,
    stop_asked: bool,
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
    fn begin(spec: &RunSpec, env: &Env, files: &CallFiles, stop: &'r OwnedFd) -> io::Result<Self> {
        let (output, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&output, OFlags::NONBLOCK)?;
        let spool = Spool::create(&files.out(), spec.spool_bytes);
        let shell = spawn(spec, env, files, &writer)?;
        // Only the command writes now, so that its end is the pipe's.
        drop(writer);
        let shell_ended = pidfd_open(shell, PidfdFlags::empty()).inspect_err(|_| {
            // Nobody would watch it: it must not go on.
            let _ = kill_process_group(shell, Signal::KILL);
        })?;
        let buffer = vec![0; BUFFER_BYTES];
        Ok(Self {
            shell,
            shell_ended,
            shell_status: None,
            output: Some(output),
            stop,
            stop_asked: false,
            spool,
            buffer,
        })
    }

    fn until_the_end(&mut self, deadline: Instant) -> CommandEnd {
        loop {
            self.wait(self.spool.next_sync().map_or(deadline, |sync| sync.min(deadline)));
            self.spool.sync_if_due();
            self.collect_dead();
            match self.shell_status {
                Some(status) if status.signaled() => return CommandEnd::Signaled,
                Some(_) => return CommandEnd::Exited,
                None if self.stop_asked => return CommandEnd::Cancelled,
                None if Instant::now() >= deadline => return CommandEnd::TimedOut,
                None => {}
            }
        }
    }

    /// Waits for output, the shell's end, a signal, or the time; takes what output there is.
    fn wait(&mut self, until: Instant) -> Heard {
        let mut sources = Vec::with_capacity(3);
        if let Some(output) = &self.output {
            sources.push(PollFd::new(output, PollFlags::IN));
        }
        if self.shell_status.is_none() {
            sources.push(PollFd::new(&self.shell_ended, PollFlags::IN));
        }
        if !self.stop_asked {
            sources.push(PollFd::new(self.stop, PollFlags::IN));
        }
        let timeout = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        // Interrupted by a signal: the next round sees what it was.
        let _ = poll(&mut sources, timeout.as_ref());
        self.stop_asked |= is_asked(self.stop);
        self.read_output()
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

    /// Collects the dead, ours by birth or by adoption. Answers whether any child lives.
    fn collect_dead(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.shell => self.shell_status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
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
        // The shell was not collected yet, so its id is still its group's.
        let _ = kill_process_group(self.shell, Signal::TERM);
        for process in descendants(getpid().as_raw_pid()) {
            if !process.is_in_group(self.shell) {
                kill(&process, Signal::TERM);
            }
        }
        while self.collect_dead() && Instant::now() < until {
            self.wait(until.min(Instant::now() + LOOK_EVERY));
        }
        self.sweep();
        0
    }

    /// Kills all that is left of the command; answers with how many there were.
    fn sweep(&mut self) -> u32 {
        let until = Instant::now() + SWEEP_TIME;
        let mut killed = HashSet::new();
        while self.collect_dead() && Instant::now() < until {
            for process in descendants(getpid().as_raw_pid()) {
                kill(&process, Signal::KILL);
                killed.insert(process.pid);
            }
            self.wait(Instant::now() + Duration::from_millis(1));
        }
        u32::try_from(killed.len()).unwrap_or(u32::MAX)
    }
}
