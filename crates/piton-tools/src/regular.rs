//! The one way to read a file that Piton was not handed open: whoever wrote it, it may be a pipe, a device, a link to
//! `/dev/zero`, or a file of the kernel whose content never ends.
//!
//! Only regular files are read, opening never waits, and the file systems in which a "regular file" is a program of the
//! kernel are left out. How much of a file is wanted is said by whoever reads it. What a file is for is not known here.

use rustix::fs::{Mode, OFlags, fstatfs, open as open_raw};
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// More than any file of settings, keys, rules or words that a person keeps has, in bytes.
pub const SETTINGS_BYTES: usize = 1 << 20;
/// More than any conversation that is handed to us whole has, in bytes: an export, a cassette.
pub const CONVERSATION_BYTES: usize = 512 << 20;
/// More than any catalogue of models has, in bytes: thirty times what is built in.
pub const CATALOGUE_BYTES: usize = 10 << 20;

/// The beginning of a file, or all of it.
#[derive(Debug)]
pub struct Beginning {
    /// What was read.
    pub bytes: Vec<u8>,
    /// Of the whole file.
    pub size: u64,
}

impl Beginning {
    /// The first `most` bytes of what says that it has `size`.
    pub(crate) fn read(content: impl io::Read, size: u64, most: usize) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(most).min(most));
        // One byte more tells of a file that says it is empty and is not, or grows.
        content.take(most as u64 + 1).read_to_end(&mut bytes)?;
        let read = bytes.len() as u64;
        bytes.truncate(most);
        Ok(Self { size: size.max(read), bytes })
    }

    /// The first `most` bytes of a regular file. One read does where it gives just what the file says it has: of the
    /// hundreds of small files of a repository's set-up, a second one each would find nothing.
    fn of_file(mut file: File, size: u64, most: usize) -> io::Result<Self> {
        let Some(room) = usize::try_from(size).ok().filter(|size| *size <= most.min(SETTINGS_BYTES)) else {
            return Self::read(file, size, most);
        };
        let mut bytes = vec![0; room + 1];
        let read = file.read(&mut bytes)?;
        bytes.truncate(read);
        if read == room {
            return Ok(Self { bytes, size });
        }
        let rest = Self::read(file, 0, most.saturating_sub(read))?;
        bytes.extend(rest.bytes);
        bytes.truncate(most);
        Ok(Self { size: size.max(read as u64 + rest.size), bytes })
    }

    /// Whether it is all of the file.
    pub fn is_whole(&self) -> bool {
        self.bytes.len() as u64 >= self.size
    }

    /// Its text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Whether it is no text: a zero byte is in none.
    pub fn is_binary(&self) -> bool {
        self.bytes.contains(&0)
    }
}

/// Opens a regular file, through links.
pub fn open(path: &Path) -> io::Result<File> {
    Ok(open_sized(path)?.0)
}

/// The same with its size.
fn open_sized(path: &Path) -> io::Result<(File, u64)> {
    // Opening a device may already do something, so that it is looked at first.
    check(&fs::metadata(path)?)?;
    opened(path, OFlags::empty())
}

/// The first `most` bytes of a file.
pub fn beginning(path: &Path, most: usize) -> io::Result<Beginning> {
    let (file, size) = open_sized(path)?;
    Beginning::of_file(file, size, most)
}

/// The first `most` bytes of a file that a listing has just called regular. It is not looked at again before it is opened: what it has
/// become since, the open file says, and where that is a link it is not followed.
pub fn listed(path: &Path, most: usize) -> io::Result<Beginning> {
    let (file, size) = opened(path, OFlags::NOFOLLOW)?;
    Beginning::of_file(file, size, most)
}

/// All of a file, which is an error where it has more than `most` bytes.
pub fn whole(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    all_of(beginning(path, most)?, most)
}

/// All of a file as text.
pub fn text(path: &Path, most: usize) -> io::Result<String> {
    into_text(whole(path, most)?)
}

/// All of a file that a person named, as text. It may be a pipe, as a shell makes one of `<(…)`: whoever named it waits.
pub fn named(path: &Path, most: usize) -> io::Result<String> {
    if fs::metadata(path)?.file_type().is_fifo() {
        return text_of(File::open(path)?, most);
    }
    text(path, most)
}

/// All of a stream as text, such as standard input.
pub fn text_of(content: impl io::Read, most: usize) -> io::Result<String> {
    into_text(all_of(Beginning::read(content, 0, most)?, most)?)
}

/// All of a file that is no link itself.
pub fn whole_unlinked(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    check(&fs::symlink_metadata(path)?)?;
    let (file, size) = opened(path, OFlags::NOFOLLOW)?;
    all_of(Beginning::of_file(file, size, most)?, most)
}

fn opened(path: &Path, more: OFlags) -> io::Result<(File, u64)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | more;
    let file = File::from(open_raw(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    check(&meta)?;
    // The kernel's own file systems are on no device.
    let is_on_a_device = rustix::fs::major(meta.dev()) != 0;
    if !is_on_a_device && is_of_the_kernel(&file) {
        return Err(io::Error::other("it is a file of the kernel, which only a command can read"));
    }
    Ok((file, meta.len()))
}

fn check(meta: &Metadata) -> io::Result<()> {
    match meta {
        meta if meta.is_file() => Ok(()),
        meta if meta.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

/// Whether reading it runs code of the kernel that may wait, or act: `/proc/kmsg` waits for the next message.
fn is_of_the_kernel(file: &File) -> bool {
    /// proc, sysfs, debugfs, tracefs, securityfs, configfs, cgroup, cgroup2, bpf, fusectl, binfmt_misc, selinuxfs.
    const KERNEL: [u32; 12] = [
        0x0000_9fa0,
        0x6265_6572,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x6265_6570,
        0x0027_e0eb,
        0x6367_7270,
        0xcafe_4a11,
        0x6573_5543,
        0x4249_4e4d,
        0xf97c_ff8c,
    ];
    // The type of the field differs between machines; the magic numbers have 32 bits everywhere.
    fstatfs(file).is_ok_and(|found| KERNEL.contains(&(found.f_type as u32)))
}

fn all_of(beginning: Beginning, most: usize) -> io::Result<Vec<u8>> {
    if beginning.is_whole() {
        return Ok(beginning.bytes);
    }
    Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is too large: more than {}", size(most))))
}

fn size(bytes: usize) -> String {
    match bytes {
        0..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{} KB", bytes >> 10),
        _ => format!("{} MB", bytes >> 20),
    }
}

fn into_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkfifoat};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_never_ends_or_waits_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        mkfifoat(CWD, path("pipe"), Mode::RWXU).expect("a pipe");
        symlink("/dev/zero", path("zero")).expect("a link");
        symlink("/proc/kmsg", path("kernel")).expect("a link");
        for name in ["pipe", "zero", "kernel", "."] {
            assert!(open(&path(name)).is_err(), "{name}");
        }
        let error = open(Path::new("/proc/self/status")).expect_err("no file of a disk");
        assert!(error.to_string().contains("of the kernel"), "{error}");
        assert!(open(Path::new("/sys/kernel/mm/transparent_hugepage/enabled")).is_err());
    }

    #[test]
    fn what_a_person_names_may_be_a_pipe_but_has_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        mkfifoat(CWD, &pipe, Mode::RWXU).expect("a pipe");
        let says = |what: &'static str| {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::write(pipe, what))
        };
        let writer = says("12345678");
        assert_eq!(named(&pipe, 8).expect("all of it"), "12345678");
        writer.join().expect("no panic").expect("written");
        let writer = says("123456789");
        assert_eq!(named(&pipe, 8).expect_err("too much").kind(), io::ErrorKind::FileTooLarge);
        drop(writer.join());
        assert!(named(Path::new("/dev/zero"), 8).is_err());
        assert!(text_of(io::repeat(b'x'), 2 << 20).expect_err("no end").to_string().contains("more than 2 MB"));
    }

    #[test]
    fn no_more_is_read_than_was_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&file, "12345678").expect("a file");
        symlink(&file, &link).expect("a link");
        let part = beginning(&link, 4).expect("the beginning");
        assert_eq!((part.text().as_str(), part.size, part.is_whole()), ("1234", 8, false));
        assert_eq!(text(&file, 8).expect("all of it"), "12345678");
        assert_eq!(text(&file, 7).expect_err("too large").kind(), io::ErrorKind::FileTooLarge);
        assert!(whole_unlinked(&file, 8).is_ok() && whole_unlinked(&link, 8).is_err());
        fs::write(&file, b"\xff").expect("a file");
        assert!(text(&file, 8).is_err());
    }
}
