//! Finding and ending processes by what `/proc` says of them.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;

/// What `/proc/PID/stat` says of a process, as far as it is needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    pub(crate) session: i32,
    pub(crate) start_ticks: u64,
    pub(crate) is_zombie: bool,
}

/// Reads it; `None` when there is no such process.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything, brackets included.
    let rest = text.rsplit_once(')')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        is_zombie: fields.first()? == &"Z",
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Every process below this one, at any depth, that is not a zombie.
pub(crate) fn descendants(root: i32) -> Vec<i32> {
    let all = processes();
    let mut family = HashSet::from([root]);
    let mut grown = true;
    while grown {
        grown = false;
        for (pid, stat) in &all {
            if family.contains(&stat.parent) && family.insert(*pid) {
                grown = true;
            }
        }
    }
    all.iter().filter(|(pid, stat)| *pid != root && family.contains(pid) && !stat.is_zombie).map(|(pid, _)| *pid).collect()
}

/// Every process of this session, its leader included, and their descendants.
pub(crate) fn members_of_session(session: i32) -> Vec<i32> {
    let mut members: Vec<i32> =
        processes().iter().filter(|(_, stat)| stat.session == session && !stat.is_zombie).map(|(pid, _)| *pid).collect();
    let below: Vec<i32> = members.iter().flat_map(|pid| descendants(*pid)).collect();
    members.extend(below);
    members.sort_unstable();
    members.dedup();
    members
}

/// Sends a signal. A process that is gone needs none.
pub(crate) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

fn processes() -> Vec<(i32, Stat)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}
