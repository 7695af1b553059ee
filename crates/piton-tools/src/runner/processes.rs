//! Processes from `/proc`: their parents, and how to kill what a command left behind.

use super::files::Claim;
use crate::spawn::CONFINE;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The variable in which a command finds which call it is, and by which its processes are found when its runner is dead.
pub(super) const MARK: &str = "PITON_CALL";

/// What `/proc/<pid>/stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    start_ticks: u64,
    /// Dead, and only waiting to be collected.
    dead: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Self> {
        /// More than the kernel writes: the name is short, the rest are numbers. Whoever does not say so reads it in small bites.
        const MOST_BYTES: usize = 4096;
        let mut stat = Vec::with_capacity(MOST_BYTES);
        File::open(format!("/proc/{pid}/stat")).ok()?.take(MOST_BYTES as u64).read_to_end(&mut stat).ok()?;
        Self::parse(pid, &stat)
    }

    /// The name, in parentheses, may hold anything, spaces and parentheses included: the fields begin after the last.
    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        /// Positions after the name, where `state` is 0.
        const PARENT: usize = 1;
        const GROUP: usize = 2;
        const SESSION: usize = 3;
        const START: usize = 19;
        let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let fields: Vec<&str> = std::str::from_utf8(&stat[after..]).ok()?.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(PARENT)?.parse().ok()?,
            group: fields.get(GROUP)?.parse().ok()?,
            session: fields.get(SESSION)?.parse().ok()?,
            start_ticks: fields.get(START)?.parse().ok()?,
            dead: matches!(*fields.first()?, "Z" | "X"),
        })
    }

    pub(super) fn is_in_group(&self, group: Pid) -> bool {
        self.group == group.as_raw_pid()
    }

    /// Whether this is in its environment: `NAME=value`. Another user's process does not tell.
    fn is_marked(&self, entry: &str) -> bool {
        let environment = std::fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|other| other == entry.as_bytes())
    }
}

/// The mark that every process of a call inherits, of whatever session, group or parent it is: the session's folder and
/// the call.
pub(super) fn mark(base: &Path) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let session = base.ancestors().nth(2).map(name).unwrap_or_default();
    format!("{session}/{}", name(base))
}

/// Every process there is.
fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Those living processes for which `ours` holds, and all their descendants.
fn with_descendants(all: &[Process], ours: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut family: HashSet<i32> = all.iter().filter(|process| ours(process)).map(|process| process.pid).collect();
    loop {
        let known = family.len();
        family.extend(all.iter().filter(|process| family.contains(&process.parent)).map(|p| p.pid).collect::<Vec<_>>());
        if family.len() == known {
            return all.iter().filter(|process| family.contains(&process.pid) && !process.dead).copied().collect();
        }
    }
}

/// The living descendants of a process, in its subreaper's care or not.
pub(super) fn descendants(of: i32) -> Vec<Process> {
    with_descendants(&all(), |process| process.parent == of)
}

/// Whether a process is of a call: started by a command of a runner, of whichever session, by however many steps. What is above
/// this process as well does not count: Piton may itself be started by a command. `None`: it is gone, and cannot be judged.
pub fn is_of_a_call(pid: i32) -> Option<bool> {
    let up = |pid: i32| std::iter::successors(Process::read(pid), |process| Process::read(process.parent));
    let own: HashSet<i32> = up(i32::try_from(std::process::id()).ok()?).map(|process| process.pid).collect();
    let mut above = up(pid).peekable();
    above.peek()?;
    Some(above.take_while(|process| !own.contains(&process.pid)).any(|process| is_runner(process.pid)))
}

/// Whether this process was started by a command of a session whose data lie in this folder.
pub fn is_in_a_call(data_dir: &Path) -> bool {
    let Ok(own) = i32::try_from(std::process::id()) else { return false };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let data_dir = real(data_dir);
    let is_its = |process: Process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let mut words =
            line.split(|byte| *byte == 0).take(MOST_WORDS).skip(1).map(|word| Path::new(OsStr::from_bytes(word)));
        words.any(|word| word.ends_with("calls") && real(word).starts_with(&data_dir))
    };
    std::iter::successors(Process::read(own), |process| Process::read(process.parent)).skip(1).any(is_its)
}

/// By how it was started. A command that calls itself so speaks against itself alone.
fn is_runner(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&OsStr> = line.split(|byte| *byte == 0).take(MOST_WORDS).map(OsStr::from_bytes).collect();
    let is_calls_dir = |word: &&OsStr| {
        let path = Path::new(word);
        let session = path.parent().and_then(Path::file_name);
        path.ends_with("calls") && session.is_some_and(|name| name.as_bytes().starts_with(b"ses_"))
    };
    // Its program, what of its program it is, and the folder of its session's calls.
    words.iter().skip(1).any(is_calls_dir) || words.contains(&OsStr::new(CONFINE))
}

/// How many words of a command line say that it is a runner's.
const MOST_WORDS: usize = 4;

/// Signals a process that a moment ago was there.
pub(super) fn kill(process: &Process, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.pid) {
        // Gone in the meantime is as good.
        let _ = kill_process(pid, signal);
    }
}

/// This process, as its claim describes it.
pub(super) fn this_process() -> Option<Claim> {
    let pid = i32::try_from(std::process::id()).ok()?;
    Some(Claim {
        pid,
        start_ticks: Process::read(pid)?.start_ticks,
        boot_id: boot_id()?,
        pid_namespace: pid_namespace()?,
        file: None,
    })
}

/// Whether the machine was started anew since the claim was taken: then nothing of it lives.
pub(super) fn is_of_another_boot(claim: &Claim) -> bool {
    boot_id().is_some_and(|now| now != claim.boot_id)
}

fn boot_id() -> Option<String> {
    Some(std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

fn pid_namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

/// Whether ids in the claim mean the same processes to us.
fn is_comparable(claim: &Claim) -> bool {
    boot_id().as_ref() == Some(&claim.boot_id) && pid_namespace().as_ref() == Some(&claim.pid_namespace)
}

/// Whether the process that a claim names is there.
pub(super) fn lives(claim: &Claim) -> bool {
    let is_it = |process: Process| process.start_ticks == claim.start_ticks && !process.dead;
    is_comparable(claim) && Process::read(claim.pid).is_some_and(is_it)
}

/// Signals the runner that took the claim, if it still is that process.
pub(super) fn signal_runner(claim: &Claim, signal: Signal) {
    if !is_comparable(claim) {
        return;
    }
    let Some(handle) = Pid::from_raw(claim.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return;
    };
    // Opened first, compared second: the handle stays with that process even if the id is used again.
    if Process::read(claim.pid).is_some_and(|process| process.start_ticks == claim.start_ticks) {
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Kills whatever still lives of a command whose runner is dead: its session, whoever carries its mark, and their
/// descendants. A daemon that left the session, lost its parent *and* cleared its environment cannot be told from others
/// and is missed.
pub(super) fn kill_remains(claim: &Claim, base: &Path) {
    if !is_comparable(claim) {
        return;
    }
    let mark = format!("{MARK}={}", mark(base));
    kill_all(|all, process| {
        // A session's id is not used again while the session has members, so a leader that is not our runner means
        // that ours is empty.
        let is_used_again =
            || all.iter().any(|process| process.pid == claim.pid && process.start_ticks != claim.start_ticks);
        process.session == claim.pid && !is_used_again() || process.is_marked(&mark)
    });
}

/// Kills every process that has this in its environment (`NAME=value`), and their descendants. One that has cleared its
/// environment and lost its parent is missed.
pub fn kill_marked(entry: &str) {
    kill_all(|_, process| process.is_marked(entry));
}

/// Kills those for which `ours` holds and their descendants, until there are none.
fn kill_all(ours: impl Fn(&[Process], &Process) -> bool) {
    /// Killed processes take a moment to be gone; what hangs in the kernel is not waited for.
    const PATIENCE: Duration = Duration::from_secs(1);
    let until = Instant::now() + PATIENCE;
    loop {
        let all = all();
        let mut remains = with_descendants(&all, |process| ours(&all, process));
        // A command may have started the very Piton that looks after it now.
        remains.retain(|process| i64::from(process.pid) != i64::from(std::process::id()));
        if remains.is_empty() || Instant::now() >= until {
            return;
        }
        remains.iter().for_each(|process| kill(process, Signal::KILL));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = b"42 (a ) (R 1 2) S 7 42 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1 2";
        let expected = Process { pid: 42, parent: 7, group: 42, session: 9, start_ticks: 123_456, dead: false };
        assert_eq!(Process::parse(42, stat), Some(expected));
        assert_eq!(Process::parse(42, b"42 (cut"), None);
    }

    #[test]
    fn a_mark_names_the_session_and_the_call() {
        assert_eq!(mark(Path::new("/data/sessions/ses_1/calls/c2_0")), "ses_1/c2_0");
    }

    #[test]
    fn descendants_are_found_at_any_depth_and_the_dead_do_not_count() {
        let process = |pid, parent, dead| Process { pid, parent, group: 1, session: 1, start_ticks: 1, dead };
        let all = [process(5, 4, false), process(4, 3, true), process(3, 2, false), process(9, 8, false)];
        let found = with_descendants(&all, |process| process.parent == 2);
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [5, 3]);
    }
}
