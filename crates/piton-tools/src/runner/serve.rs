//! The runner's own side. Synchronous and single-threaded: it starts in a millisecond and has little that can go wrong.

use super::spool::Spool;
use super::{Exit, ExitStatus, RunSpec, file, kill, sync_folder, take_claim};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_child_subreaper, setsid};
use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Between the polite signal and the one that cannot be ignored.
const GRACE: Duration = Duration::from_millis(500);
/// How long output of processes that the command left behind is waited for.
const DRAIN: Duration = Duration::from_millis(100);
/// How long the killed are waited for.
const REAP: Duration = Duration::from_secs(2);

/// Carries out the call whose files begin with `base`, told by JSON on `input`. The result is the process's exit code:
/// 0 when there is an exit record, 3 when somebody else has the claim, 1 when nothing could be done.
pub fn runner_main(base: &Path, mut input: impl Read) -> i32 {
    // A runner that already leads its session (started by hand) is as good.
    let _ = setsid();
    let mut text = String::new();
    let spec: RunSpec = match input.read_to_string(&mut text).map(|_| serde_json::from_str(&text)) {
        Ok(Ok(spec)) => spec,
        Ok(Err(error)) => return complain(&format!("the order is not readable: {error}")),
        Err(error) => return complain(&format!("no order came: {error}")),
    };
    let claim = match take_claim(base) {
        Ok(Some(claim)) => claim,
        Ok(None) => return 3,
        Err(error) => return complain(&format!("the call could not be claimed: {error}")),
    };
    let exit = carry_out(&spec, base);
    let recorded = record(base, &exit);
    drop(claim);
    match recorded {
        Ok(()) => 0,
        Err(error) => complain(&format!("the exit record could not be written: {error}")),
    }
}

/// Tells whoever started the runner, if it still listens.
fn complain(what: &str) -> i32 {
    drop(writeln!(std::io::stderr(), "piton runner: {what}"));
    1
}

fn carry_out(spec: &RunSpec, base: &Path) -> Exit {
    let began = Instant::now();
    let mut spool = Spool::new(file(base, "out"), spec.spool_bytes);
    let ended = Supervision::start(spec).map(|mut supervision| {
        supervision.watch(&mut spool);
        let left_behind = supervision.clean_up(&mut spool);
        (supervision.status, supervision.code, supervision.signal, left_behind)
    });
    let (output_bytes, trouble) = spool.finish();
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    match ended {
        Ok((status, code, signal, left_behind)) => {
            Exit { status, code, signal, duration_ms, output_bytes, left_behind, error: trouble }
        }
        Err(error) => Exit {
            status: ExitStatus::SpawnFailed,
            code: None,
            signal: None,
            duration_ms,
            output_bytes,
            left_behind: 0,
            error: Some(format!("{} could not be started: {error}", spec.argv.first().map_or("nothing", String::as_str))),
        },
    }
}

/// Writes the exit record so that it is there in full or not at all.
pub(super) fn record(base: &Path, exit: &Exit) -> std::io::Result<()> {
    let (draft, record) = (file(base, "exit.tmp"), file(base, "exit"));
    let mut out = std::fs::File::create(&draft)?;
    out.write_all(&serde_json::to_vec(exit)?)?;
    out.sync_all()?;
    std::fs::rename(&draft, &record)?;
    sync_folder(&record)
}

/// One command being watched.
struct Supervision {
    child: Child,
    child_fd: OwnedFd,
    output: Option<PipeReader>,
    told_to_stop: UnixStream,
    deadline: Instant,
    /// Why it is being stopped, and when it is killed.
    stopping: Option<(ExitStatus, Instant)>,
    status: ExitStatus,
    code: Option<i32>,
    signal: Option<i32>,
}

impl Supervision {
    fn start(spec: &RunSpec) -> std::io::Result<Self> {
        // Whatever the command leaves behind becomes our child, however often it forks.
        set_child_subreaper(Pid::from_raw(1))?;
        let (told_to_stop, teller) = UnixStream::pair()?;
        told_to_stop.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, teller)?;
        let (program, args) = spec.argv.split_first().ok_or_else(|| std::io::Error::other("the command is empty"))?;
        let (output, writer) = std::io::pipe()?;
        let mut command = Command::new(program);
        command.args(args).current_dir(&spec.cwd).process_group(0);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The writing ends live in `command`; with them open the output would never end.
        drop(command);
        let pid = Pid::from_child(&child);
        Ok(Self {
            child_fd: pidfd_open(pid, PidfdFlags::empty())?,
            child,
            output: Some(output),
            told_to_stop,
            deadline: Instant::now() + Duration::from_millis(spec.timeout_ms),
            stopping: None,
            status: ExitStatus::Exited,
            code: None,
            signal: None,
        })
    }

    /// Watches until the command itself has ended.
    fn watch(&mut self, spool: &mut Spool) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let until = self.stopping.map_or(self.deadline, |(_, kill_at)| kill_at);
            let [has_output, has_ended, must_stop] = self.wait(until);
            if has_output {
                self.read(&mut buffer, spool);
            }
            if has_ended && let Ok(Some(status)) = self.child.try_wait() {
                (self.code, self.signal) = (status.code(), status.signal());
                self.status = match (self.stopping, self.signal) {
                    (Some((why, _)), _) => why,
                    (None, Some(_)) => ExitStatus::Signaled,
                    (None, None) => ExitStatus::Exited,
                };
                return;
            }
            match self.stopping {
                Some((_, kill_at)) if Instant::now() >= kill_at => {
                    self.signal_all(Signal::KILL);
                    self.stopping = self.stopping.map(|(why, _)| (why, Instant::now() + GRACE));
                }
                None if must_stop => self.stop(ExitStatus::Cancelled),
                None if Instant::now() >= self.deadline => self.stop(ExitStatus::TimedOut),
                Some(_) | None => {}
            }
        }
    }

    /// Waits for output, the command's end or a word to stop, at most until then. Which of them came.
    fn wait(&self, until: Instant) -> [bool; 3] {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.child_fd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.told_to_stop.as_fd(), PollFlags::IN),
        ];
        if let Some(output) = &self.output {
            fds.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
        }
        // An interrupted wait is a wait that ended early.
        let _ = poll(&mut fds, Some(&timeout));
        let came = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        [came(2), came(0), came(1)]
    }

    fn read(&mut self, buffer: &mut [u8], spool: &mut Spool) {
        let Some(output) = &mut self.output else { return };
        match output.read(buffer) {
            Ok(0) => self.output = None,
            Ok(length) => spool.push(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => self.output = None,
        }
    }

    fn stop(&mut self, why: ExitStatus) {
        self.stopping = Some((why, Instant::now() + GRACE));
        self.signal_all(Signal::TERM);
    }

    /// The command's group, and whatever of its family has left the group.
    fn signal_all(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
        for pid in kill::descendants(own_pid()) {
            kill::send(pid, signal);
        }
    }

    /// Ends what the command left behind and takes the last of the output. How many processes there were.
    fn clean_up(&mut self, spool: &mut Spool) -> u32 {
        let mut buffer = vec![0; 64 * 1024];
        let patience = Instant::now() + DRAIN;
        while self.output.is_some() && has_children() && Instant::now() < patience {
            if self.wait_for_output(patience) {
                self.read(&mut buffer, spool);
            }
        }
        let left_behind = end_children();
        while self.output.is_some() && self.wait_for_output(Instant::now()) {
            self.read(&mut buffer, spool);
        }
        left_behind
    }

    fn wait_for_output(&self, until: Instant) -> bool {
        let Some(output) = &self.output else { return false };
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timeout));
        !fds[0].revents().is_empty()
    }
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

/// Whether anything that was started is still there. The kernel's own list is looked at first: it costs microseconds.
fn has_children() -> bool {
    reap();
    let pid = own_pid();
    match std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(children) => !children.trim().is_empty(),
        Err(_) => !kill::descendants(pid).is_empty(),
    }
}

/// Kills everything below this process, however it hides, and waits until it is gone.
fn end_children() -> u32 {
    let give_up = Instant::now() + REAP;
    let mut ended = std::collections::HashSet::new();
    while has_children() && Instant::now() < give_up {
        for pid in kill::descendants(own_pid()) {
            ended.insert(pid);
            kill::send(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    u32::try_from(ended.len()).unwrap_or(u32::MAX)
}

/// Takes the dead off the kernel's list.
fn reap() {
    use rustix::process::{WaitOptions, wait};
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}
