//! Sees to it that no process of a server outlives Piton, however Piton ends.
//!
//! A shell beside Piton reads from a pipe which process groups there are. When the pipe is closed, which the kernel does even for a
//! killed process, it gives them two seconds (they have seen their own input close) and kills those that are left, and whatever
//! a server has put into a group of its own: it carries a mark in its environment. One shell watches over all servers of a session.

use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

const SCRIPT: &str = r#"
groups=
read -r name mark
while read -r word group; do
    case $word in
        began) groups="$groups $group" ;;
        ended) kept=; for one in $groups; do [ "$one" = "$group" ] || kept="$kept $one"; done; groups=$kept ;;
    esac
done
[ -n "${groups# }" ] || exit 0
sleep 2
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
for round in 1 2 3 4 5; do
    left=
    for process in /proc/[0-9]*; do
        grep -qzx "$name=$mark/[0-9]*" "$process/environ" 2>/dev/null || continue
        kill -s KILL "${process#/proc/}" 2>/dev/null && left=yes
    done
    [ -n "$left" ] || break
done
exit 0
"#;

/// The variable that every process of a server inherits, of whatever group or parent it is.
pub(crate) const MARK: &str = "PITON_SERVER";

/// The process groups of servers, which end with us.
#[derive(Debug)]
pub(crate) struct Guard {
    known: Mutex<Known>,
    /// What the marks of all of them begin with.
    mark: String,
    /// How many have one.
    marked: AtomicU64,
}

impl Default for Guard {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // The number of a process comes again.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let mark = format!("{}-{}-{now}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        Self { known: Mutex::default(), mark, marked: AtomicU64::new(0) }
    }
}

#[derive(Debug, Default)]
struct Known {
    groups: BTreeSet<i32>,
    /// The shell, from the first group on.
    watching: Option<Watching>,
}

#[derive(Debug)]
struct Watching {
    shell: Child,
    pipe: ChildStdin,
}

impl Guard {
    /// A mark for the next server.
    pub(crate) fn next_mark(&self) -> String {
        format!("{}/{}", self.mark, self.marked.fetch_add(1, Relaxed))
    }

    /// A group is there from now on. The shell is started for the first one.
    pub(crate) fn began(&self, group: Pid) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let group = group.as_raw_nonzero().get();
        known.groups.insert(group);
        known.tell("began", group, &self.mark)
    }

    /// A group is gone: its number may be another's soon.
    pub(crate) fn ended(&self, group: Pid) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let group = group.as_raw_nonzero().get();
        if known.groups.remove(&group) && known.watching.is_some() {
            // The next group that begins finds out where no shell can be started.
            let _ = known.tell("ended", group, &self.mark);
        }
    }
}

impl Known {
    /// Tells the shell of a group; a new one of all groups, where there is none or it is dead.
    fn tell(&mut self, word: &str, group: i32, mark: &str) -> io::Result<()> {
        if let Some(watching) = &mut self.watching
            && writeln!(watching.pipe, "{word} {group}").is_ok()
        {
            return Ok(());
        }
        if let Some(mut dead) = self.watching.take() {
            let _ = dead.shell.kill();
            let _ = dead.shell.wait();
        }
        let watching = self.watching.insert(Watching::start()?);
        writeln!(watching.pipe, "{MARK} {mark}")?;
        self.groups.iter().try_for_each(|group| writeln!(watching.pipe, "began {group}"))
    }
}

impl Watching {
    fn start() -> io::Result<Self> {
        let env = Env::new(BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]));
        let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::null(), stderr: Stdio::null() };
        let mut shell = Spawn::shell(SCRIPT, &env, "/", Confinement::User).start(Group::Own, streams)?;
        let pipe = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { shell, pipe })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let watching = self.known.get_mut().unwrap_or_else(PoisonError::into_inner).watching.take();
        if let Some(Watching { mut shell, pipe }) = watching {
            drop(pipe);
            // It may take its two seconds; somebody has to collect it.
            let _ = std::thread::Builder::new().spawn(move || shell.wait());
        }
    }
}

/// The shared form.
pub(crate) type Guards = Arc<Guard>;

#[cfg(test)]
mod tests {
    use super::*;

    /// A process in a group of its own that does not end by itself.
    fn sleeper() -> (Child, Pid) {
        let env = Env::new(BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]));
        let streams = Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() };
        let child = Spawn::shell("trap '' TERM HUP; sleep 1000", &env, "/", Confinement::User);
        let child = child.start(Group::Own, streams).unwrap();
        let group = Pid::from_child(&child);
        (child, group)
    }

    #[test]
    fn groups_that_are_left_are_killed_and_those_that_are_gone_are_not() {
        use std::os::unix::process::ExitStatusExt as _;
        let guard = Guard::default();
        let ((mut left, left_group), (mut gone, gone_group)) = (sleeper(), sleeper());
        guard.began(left_group).unwrap();
        guard.began(gone_group).unwrap();
        guard.ended(gone_group);
        // What the kernel does when we are killed.
        drop(guard);
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert!(gone.try_wait().unwrap().is_none(), "its number is another's by now");
        let _ = rustix::process::kill_process_group(gone_group, rustix::process::Signal::KILL);
        let _ = gone.wait();
    }

    #[test]
    fn what_left_its_group_and_its_parent_is_killed_by_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let (guard, number) = (Guard::default(), folder.path().join("number"));
        let vars = [("PATH".into(), "/usr/bin:/bin".into()), (MARK.into(), guard.next_mark().into())];
        let streams = Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() };
        let script =
            format!("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000' & exit", number.display());
        let mut server = Spawn::shell(&script, &Env::new(BTreeMap::from(vars)), "/", Confinement::User)
            .start(Group::Own, streams)
            .unwrap();
        guard.began(Pid::from_child(&server)).unwrap();
        server.wait().unwrap();
        let until = |what: &dyn Fn() -> bool| {
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while !what() {
                assert!(std::time::Instant::now() < deadline);
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        };
        until(&|| number.exists());
        let number = std::fs::read_to_string(number).unwrap();
        drop(guard);
        // Whoever it was given to may not have collected it yet.
        let status = format!("/proc/{}/stat", number.trim());
        until(&|| std::fs::read_to_string(&status).map_or(true, |status| status.contains(") Z ")));
    }

    #[test]
    fn a_shell_that_died_is_replaced_and_knows_all_groups() {
        use std::os::unix::process::ExitStatusExt as _;
        let guard = Guard::default();
        let ((mut before, before_group), (mut after, after_group)) = (sleeper(), sleeper());
        guard.began(before_group).unwrap();
        {
            let mut known = guard.known.lock().unwrap();
            let shell = &mut known.watching.as_mut().unwrap().shell;
            shell.kill().unwrap();
            shell.wait().unwrap();
        }
        guard.began(after_group).unwrap();
        drop(guard);
        assert_eq!([before.wait().unwrap().signal(), after.wait().unwrap().signal()], [Some(9), Some(9)]);
    }
}
