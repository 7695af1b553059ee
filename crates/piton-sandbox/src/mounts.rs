//! Makes what a [`Plan`] says, in a mount namespace of our own, and makes it the root.
//!
//! Sources and destinations are opened beneath open folders without following a link, and mounted by descriptor: whatever a
//! hostile tree holds, a mount is made where the plan says or not at all.

use crate::mount::{Mount, Source};
use crate::open::open_as_named;
use crate::plan::{Plan, is_plain};
use crate::tables;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstat, fstatvfs, mkdirat, openat, openat2, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind, mount_change,
    mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Why a mount could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be mounted: {error}", at.display())]
pub(crate) struct MountError {
    at: PathBuf,
    #[source]
    error: io::Error,
}

impl MountError {
    fn at(at: &Path) -> impl FnOnce(io::Error) -> Self {
        let at = at.to_path_buf();
        move |error| Self { at, error }
    }
}

/// Nothing that is mounted gives rights or is a device, but for those of `/dev`.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
/// In the new root: what commands write to caches.
const CHANGES: &str = ".changes";
/// A destination is opened without following a link, within the folder that it was asked for in.
const STRICT: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Makes the plan's mounts, and makes them all there is.
pub(crate) fn enter(plan: &Plan) -> Result<(), MountError> {
    let private = &plan.reach().private;
    let root_path = private.join("root");
    let prepared = || -> io::Result<OwnedFd> {
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        mount("tmpfs", &root_path, "tmpfs", PLAIN, c"mode=0755,size=16m")?;
        let root = openat(CWD, &root_path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // A file system of its own, which may be larger than the root.
        mkdirat(&root, CHANGES, Mode::from_raw_mode(0o700))?;
        mount("tmpfs", root_path.join(CHANGES), "tmpfs", PLAIN, c"mode=0700,size=1g")?;
        // To cover files with.
        openat(&root, ".cover", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o444))?;
        Ok(root)
    };
    // From here on nothing is mounted but by us.
    let root = prepared().map_err(MountError::at(&root_path))?;
    let mut builder = Builder {
        root,
        root_path: &root_path,
        processes: plan.reach().limits.processes,
        machine: mount_points().map_err(MountError::at(Path::new("/proc/self/mountinfo")))?,
        covers: Vec::new(),
    };
    for (place, mount) in plan.mounts.iter().enumerate() {
        builder.make(mount, &plan.mounts[..place]).map_err(MountError::at(&mount.at))?;
    }
    builder.pivot().map_err(MountError::at(Path::new("/")))
}

struct Builder<'p> {
    root: OwnedFd,
    root_path: &'p Path,
    /// How many there may be at once.
    processes: Option<u64>,
    /// What is mounted on the machine.
    machine: Vec<PathBuf>,
    /// Empty folders that lie over others.
    covers: Vec<OwnedFd>,
}

impl Builder<'_> {
    fn make(&mut self, planned: &Mount, earlier: &[Mount]) -> io::Result<()> {
        if !is_plain(&planned.at) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain path"));
        }
        match &planned.source {
            Source::Machine { from, write } if *from == planned.at && is_shown(from, earlier) => {
                self.again(from, *write)
            }
            Source::Machine { from, write } => self.machine(&planned.at, from, *write),
            Source::Cache { from } => self.cache(&planned.at, from),
            Source::Link(to) => {
                let (folder, name) = self.above(&planned.at)?;
                Ok(symlinkat(to, &folder, name)?)
            }
            Source::EmptyFolder => self.empty_folder(&planned.at),
            Source::EmptyFile => self.machine(&planned.at, &self.root_path.join(".cover"), false),
            Source::Processes => self.processes(&planned.at),
            Source::Devices => self.devices(&planned.at),
            Source::Names => Err(io::Error::new(io::ErrorKind::InvalidInput, "names alone cannot be mounted")),
        }
    }

    /// With other rights, what the sandbox shows at this path already. A program outside, git for one, may replace it meanwhile,
    /// and then the new one counts; or remove it, and then it is as if it had never been there.
    fn again(&self, at: &Path, write: bool) -> io::Result<()> {
        /// More often nobody replaces it within a few microseconds.
        const TRIES: u32 = 20;
        // Of a mount that went with what was replaced, the kernel says that it is none.
        let is_of_replaced =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput);
        let mut tries = 1;
        loop {
            let destination = |is_folder| self.existing(at, is_folder);
            match self.machine_at(at, (at, write), destination) {
                Err(_) if open_as_named(at).is_err_and(|error| error == Errno::NOENT) => return Ok(()),
                Err(error) if is_of_replaced(&error) && tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    /// The same at another place of the tree. A machine's submounts come with it.
    fn machine(&self, at: &Path, from: &Path, write: bool) -> io::Result<()> {
        self.machine_at(at, (from, write), |is_folder| self.destination(at, is_folder))
    }

    fn machine_at(
        &self,
        at: &Path,
        (from, write): (&Path, bool),
        destination: impl FnOnce(bool) -> io::Result<OwnedFd>,
    ) -> io::Result<()> {
        let source = open_as_named(from)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH
            | OpenTreeFlags::AT_RECURSIVE;
        let tree = open_tree(&source, "", flags)?;
        let is_folder = FileType::from_raw_mode(fstat(&source)?.st_mode) == FileType::Directory;
        self.put(&tree, &destination(is_folder)?)?;
        restrict(&tree, write)?;
        // To ask the kernel for all there is takes longer than the mount.
        let has_submounts = self.machine.iter().any(|point| point != from && point.starts_with(from));
        if has_submounts { self.restrict_below(at, write) } else { Ok(()) }
    }

    /// Something below it may be shown all the same: it is closed when all is mounted.
    fn empty_folder(&mut self, at: &Path) -> io::Result<()> {
        let destination = self.destination(at, true)?;
        mount("tmpfs", by_descriptor(&destination), "tmpfs", PLAIN, c"mode=0555,size=64k")?;
        self.covers.push(self.destination(at, true)?);
        Ok(())
    }

    fn put(&self, tree: impl AsFd, destination: impl AsFd) -> io::Result<()> {
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(tree, "", destination, "", flags)?)
    }

    /// What is mounted below keeps what it is restricted by, and gets ours besides.
    fn restrict_below(&self, at: &Path, write: bool) -> io::Result<()> {
        let at = self.outside(at);
        for point in mount_points()? {
            if point != at && point.starts_with(&at) {
                let below =
                    openat2(CWD, &point, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
                restrict(&below, write)?;
            }
        }
        Ok(())
    }

    /// What a path of the sandbox is called before it is the root.
    fn outside(&self, at: &Path) -> PathBuf {
        self.root_path.join(at.strip_prefix("/").unwrap_or(at))
    }

    /// The place for a mount over what is there.
    fn existing(&self, at: &Path, is_folder: bool) -> io::Result<OwnedFd> {
        let kind = if is_folder { OFlags::DIRECTORY } else { OFlags::empty() };
        let below = at.strip_prefix("/").unwrap_or(at);
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | kind;
        Ok(openat2(&self.root, below, flags, Mode::empty(), STRICT)?)
    }

    /// The place for a mount, made where the tree is ours.
    fn destination(&self, at: &Path, is_folder: bool) -> io::Result<OwnedFd> {
        let (folder, name) = self.above(at)?;
        let kind = if is_folder { OFlags::DIRECTORY } else { OFlags::empty() };
        let open =
            || openat2(&folder, name, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | kind, Mode::empty(), STRICT);
        match open() {
            Err(Errno::NOENT) if is_folder => make_folder(&folder, name)?,
            Err(Errno::NOENT) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                match openat(&folder, name, flags, Mode::from_raw_mode(0o600)) {
                    Ok(_) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            other => return Ok(other?),
        }
        Ok(open()?)
    }

    /// The folder that something is to be in, and its name there.
    fn above<'a>(&self, at: &'a Path) -> io::Result<(OwnedFd, &'a std::ffi::OsStr)> {
        let name = at.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the root is ours"))?;
        let mut folder = self.root.try_clone()?;
        for part in at.parent().unwrap_or(Path::new("/")).components() {
            let Component::Normal(part) = part else { continue };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let next = match openat2(&folder, part, flags, Mode::empty(), STRICT) {
                Err(Errno::NOENT) => {
                    make_folder(&folder, part)?;
                    openat2(&folder, part, flags, Mode::empty(), STRICT)?
                }
                other => other?,
            };
            folder = next;
        }
        Ok((folder, name))
    }

    /// Reads through, and writes into memory of the sandbox's own: two mounts of one folder for changes would disturb each other.
    /// Where the kernel has no overlays here, it is only read.
    fn cache(&self, at: &Path, from: &Path) -> io::Result<()> {
        let destination = self.destination(at, true)?;
        let changes = self.root_path.join(CHANGES).join(at.to_string_lossy().replace('/', "-"));
        let (upper, work) = (changes.join("upper"), changes.join("work"));
        std::fs::create_dir_all(&upper)?;
        std::fs::create_dir_all(&work)?;
        let mut options = Vec::new();
        for (name, folder) in [("lowerdir=", from), (",upperdir=", &upper), (",workdir=", &work)] {
            options.extend_from_slice(name.as_bytes());
            // In options these separate, and are escaped.
            for byte in folder.as_os_str().as_bytes() {
                if matches!(byte, b',' | b':' | b'\\') {
                    options.push(b'\\');
                }
                options.push(*byte);
            }
        }
        options.extend_from_slice(b",userxattr");
        let options = CString::new(options)?;
        match mount("overlay", by_descriptor(&destination), "overlay", PLAIN, options.as_c_str()) {
            Ok(()) => Ok(()),
            Err(_) => self.machine(at, from, false),
        }
    }

    fn processes(&self, at: &Path) -> io::Result<()> {
        let destination = self.destination(at, true)?;
        mount("proc", by_descriptor(&destination), "proc", PLAIN | MountFlags::NOEXEC, None)?;
        // Root is not counted by the limit of processes. Newer kernels have one for a namespace; an older one's is the machine's.
        if let Some(most) = self.processes.filter(|_| limits_are_of_a_namespace()) {
            /// The kernel keeps the first ids for itself.
            const KEPT: u64 = 300;
            let _ = std::fs::write(self.outside(Path::new("/proc/sys/kernel/pid_max")), (most + KEPT).to_string());
        }
        for path in tables::PROC_READ_ONLY {
            let path = Path::new(path);
            let there = self.outside(path);
            if !there.exists() {
                continue;
            }
            mount_bind(&there, &there)?;
            let mounted = openat(CWD, &there, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            restrict(&mounted, false)?;
        }
        Ok(())
    }

    fn devices(&self, at: &Path) -> io::Result<()> {
        let destination = self.destination(at, true)?;
        mount(
            "tmpfs",
            by_descriptor(&destination),
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NOEXEC,
            c"mode=0755,size=4m",
        )?;
        for name in tables::DEVICES {
            let from = Path::new("/dev").join(name);
            let source = openat(CWD, &from, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let flags =
                OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
            let tree = open_tree(&source, "", flags)?;
            self.put(&tree, self.destination(&at.join(name), false)?)?;
        }
        for (folder, kind, options) in [
            ("pts", "devpts", c"newinstance,ptmxmode=0666,mode=620"),
            ("shm", "tmpfs", c"mode=1777"),
            ("mqueue", "mqueue", c""),
        ] {
            let destination = self.destination(&at.join(folder), true)?;
            let mounted =
                mount(kind, by_descriptor(&destination), kind, MountFlags::NOSUID | MountFlags::NOEXEC, options);
            // Not every kernel has message queues.
            if folder != "mqueue" {
                mounted?;
            }
        }
        let (folder, _) = self.above(&at.join("fd"))?;
        for (to, name) in [
            ("pts/ptmx", "ptmx"),
            ("/proc/self/fd", "fd"),
            ("/proc/self/fd/0", "stdin"),
            ("/proc/self/fd/1", "stdout"),
            ("/proc/self/fd/2", "stderr"),
        ] {
            symlinkat(to, &folder, name)?;
        }
        Ok(())
    }

    /// From here on nothing else exists.
    fn pivot(self) -> io::Result<()> {
        for cover in &self.covers {
            restrict(cover, false)?;
        }
        chdir(self.root_path)?;
        pivot_root(".", ".")?;
        // What was the root lies over the new one now.
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")?;
        mount_remount("/", MountFlags::BIND | MountFlags::RDONLY | PLAIN, "")?;
        Ok(())
    }
}

/// Whether what is at a path of the machine is at the same path of the sandbox, by the mounts so far.
fn is_shown(path: &Path, earlier: &[Mount]) -> bool {
    let above = earlier.iter().filter(|mount| path.starts_with(&mount.at) && path != mount.at);
    // Of two at one path the later one lies above.
    let nearest = above.max_by_key(|mount| mount.at.components().count());
    nearest.is_some_and(|mount| matches!(&mount.source, Source::Machine { from, .. } if *from == mount.at))
}

/// Whether `pid_max` is a namespace's own: from Linux 6.14 on.
fn limits_are_of_a_namespace() -> bool {
    const SINCE: (u32, u32) = (6, 14);
    let release = rustix::system::uname();
    let mut parts =
        release.release().to_str().unwrap_or_default().split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= SINCE
}

/// Makes a folder, unless another sandbox of the session has just made it.
fn make_folder(above: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<()> {
    match mkdirat(above, name, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A path that leads to what is open, whatever lies at its name.
fn by_descriptor(open: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

/// Takes rights from a mount. What it is restricted by already, it keeps: a namespace of one's own cannot take that away.
fn restrict(mounted: &OwnedFd, write: bool) -> io::Result<()> {
    let had = fstatvfs(mounted)?.f_flag;
    let mut flags = MountFlags::BIND | PLAIN;
    for (had_it, flag) in [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if had.contains(had_it) {
            flags |= flag;
        }
    }
    if !write {
        flags |= MountFlags::RDONLY;
    }
    Ok(mount_remount(by_descriptor(mounted), flags, "")?)
}

/// Where something is mounted.
fn mount_points() -> io::Result<Vec<PathBuf>> {
    /// Of most machines all of it; whoever does not say so reads it in small bites.
    const BYTES: usize = 32 << 10;
    let mut mounts = Vec::with_capacity(BYTES);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut mounts)?;
    Ok(mounts.split(|byte| *byte == b'\n').filter_map(mount_point).collect())
}

/// Where a line of `mountinfo` says that something is mounted: its fifth field, with spaces and the like in octal.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' {
            let digits = [*bytes.next()?, *bytes.next()?, *bytes.next()?];
            path.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?);
        } else {
            path.push(*byte);
        }
    }
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(&path)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_mount_point_may_hold_spaces() {
        let line = br"36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(mount_point(line).unwrap(), Path::new(r"/a b\c"));
        assert_eq!(mount_point(b"cut"), None);
    }
}
