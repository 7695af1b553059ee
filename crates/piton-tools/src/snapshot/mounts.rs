//! Other file systems: those that are mounted in a workspace, and a workspace that is on one that may stop answering.
//!
//! A server that is gone blocks whoever only looks at its mount point. So mount points are known by the kernel's list and
//! not by a look, and a workspace that lies on such a server is looked at by a thread that can be left behind.

use super::path_of;
use rustix::fs::statfs;
use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The mount points below a folder, as paths from there.
pub(super) fn within(folder: &Path) -> HashSet<Vec<u8>> {
    let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    mount_points(&list).filter_map(|point| below(folder, &point)).collect()
}

/// The fifth field of each line. Blanks in it are written as octal numbers.
fn mount_points(list: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    list.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped)
}

fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(|code| std::str::from_utf8(code).ok());
        let (byte, length) =
            code.and_then(|code| u8::from_str_radix(code, 8).ok()).map_or((*first, 0), |byte| (byte, 3));
        plain.push(byte);
        rest = &after[length..];
    }
    plain
}

fn below(folder: &Path, point: &[u8]) -> Option<Vec<u8>> {
    let inner = path_of(point).strip_prefix(folder).ok()?.as_os_str().as_bytes().to_vec();
    (!inner.is_empty()).then_some(inner)
}

/// Whether a folder is on a file system that another machine or a program answers for.
pub(super) fn is_remote(folder: &Path) -> bool {
    /// NFS, SMB (three of them), FUSE, 9P, Ceph, AFS, Coda.
    const REMOTE: [u32; 9] =
        [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x7375_7245];
    statfs(folder).is_ok_and(|found| REMOTE.contains(&(found.f_type as u32)))
}

/// Does work on another thread, and leaves it behind if it makes no progress for so long.
pub(super) fn unless_it_hangs<T: Send + 'static>(
    progress: &AtomicU64,
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = channel();
    std::thread::Builder::new().spawn(move || drop(done.send(work())))?;
    let mut seen = progress.load(Ordering::Relaxed);
    loop {
        match result.recv_timeout(patience) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) if progress.load(Ordering::Relaxed) == seen => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(RecvTimeoutError::Timeout) => seen = progress.load(Ordering::Relaxed),
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the thread panicked")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_is_mounted_in_a_folder_is_known_without_a_look_at_it() {
        let list = b"22 1 8:1 / / rw - ext4 /dev/a rw\n30 22 0:50 / /w/my\\040data rw - nfs s:/ rw\n31 22 0:51 / /wider rw - tmpfs t rw\n";
        let points: Vec<_> = mount_points(list).collect();
        assert_eq!(points, [b"/".to_vec(), b"/w/my data".to_vec(), b"/wider".to_vec()]);
        let found: Vec<_> = points.iter().filter_map(|point| below(Path::new("/w"), point)).collect();
        assert_eq!(found, [b"my data".to_vec()]);
        assert!(within(Path::new("/")).contains(b"proc".as_slice()));
    }

    #[test]
    fn work_that_hangs_is_left_behind_and_work_that_goes_on_is_waited_for() {
        let patience = Duration::from_millis(20);
        let (hold, held) = channel::<()>();
        let hung = unless_it_hangs(&AtomicU64::new(0), patience, move || held.recv().is_ok());
        assert_eq!(hung.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(hold);
        let progress = Arc::new(AtomicU64::new(0));
        let (counted, work) = (Arc::clone(&progress), || std::thread::sleep(Duration::from_millis(1)));
        let done = unless_it_hangs(&progress, Duration::from_secs(5), move || {
            (0..100).for_each(|_| {
                counted.fetch_add(1, Ordering::Relaxed);
                work();
            });
            7
        });
        assert_eq!(done.unwrap(), 7);
    }
}
