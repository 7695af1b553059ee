//! Sees to it that no process of a server outlives Piton, however Piton ends.
//!
//! A shell beside Piton reads from a pipe which process groups there are. When the pipe is closed, which the kernel does even for a
//! killed process, it gives them two seconds (they have seen their own input close) and kills those that are left. One shell
//! watches over all servers of a session.

use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

const SCRIPT: &str = r#"
groups=
while read -r word group; do
    case $word in
        began) groups="$groups $group" ;;
        ended) kept=; for one in $groups; do [ "$one" = "$group" ] || kept="$kept $one"; done; groups=$kept ;;
    esac
done
[ -n "${groups# }" ] || exit 0
sleep 2
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
exit 0
"#;

/// The process groups of servers, which end with us.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    known: Mutex<Known>,
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
    /// A group is there from now on. The shell is started for the first one.
    pub(crate) fn began(&self, group: Pid) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let group = group.as_raw_nonzero().get();
        known.groups.insert(group);
        known.tell("began", group)
    }

    /// A group is gone: its number may be another's soon.
    pub(crate) fn ended(&self, group: Pid) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let group = group.as_raw_nonzero().get();
        if known.groups.remove(&group) && known.watching.is_some() {
            // The next group that begins finds out where no shell can be started.
            let _ = known.tell("ended", group);
        }
    }
}

impl Known {
    /// Tells the shell of a group; a new one of all groups, where there is none or it is dead.
    fn tell(&mut self, word: &str, group: i32) -> io::Result<()> {
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
