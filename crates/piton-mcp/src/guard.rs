//! Sees to it that no process of a server outlives Piton, however Piton ends.
//!
//! A shell beside Piton reads from a pipe which process groups there are. When the pipe is closed, which the kernel does even for a
//! killed process, it gives them two seconds (they have seen their own input close) and kills those that are left. One shell
//! watches over all servers of a session.

use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use rustix::process::Pid;
use std::collections::BTreeMap;
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
    watching: Mutex<Option<Watching>>,
}

#[derive(Debug)]
struct Watching {
    shell: Child,
    pipe: ChildStdin,
}

impl Guard {
    /// A group is there from now on. The shell is started for the first one.
    pub(crate) fn began(&self, group: Pid) -> io::Result<()> {
        let mut watching = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        let watching = match &mut *watching {
            Some(watching) => watching,
            nobody => nobody.insert(Watching::start()?),
        };
        writeln!(watching.pipe, "began {}", group.as_raw_nonzero())
    }

    /// A group is gone: its number may be another's soon.
    pub(crate) fn ended(&self, group: Pid) {
        if let Some(watching) = &mut *self.watching.lock().unwrap_or_else(PoisonError::into_inner) {
            // Without the shell there is nobody to be told.
            let _ = writeln!(watching.pipe, "ended {}", group.as_raw_nonzero());
        }
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
        let watching = self.watching.get_mut().unwrap_or_else(PoisonError::into_inner).take();
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
}
