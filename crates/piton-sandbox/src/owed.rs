//! What is owed of searches after commands that a limit has cut: when such a command began, a file each beside the session's own
//! folders, until a search that no limit has cut has looked for all that has changed since.

use crate::reach::Reach;
use crate::search::Mark;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The folder of those files.
const OWED: &str = "unsearched";
/// The file beside them with what is to be told when the next command has ended, a line of JSON each.
const TOLD: &str = "moved-later";

/// The rights of both: their owner's alone.
const PRIVATE: u32 = 0o600;

/// One command's.
pub(crate) struct Owed {
    file: PathBuf,
    pub(crate) began: Mark,
}

impl Owed {
    /// Of a command that this process has run.
    pub(crate) fn of(reach: &Reach, began: Mark) -> Self {
        let name = format!("{}.{}.{}", began.0, began.1, std::process::id());
        Self { file: reach.private.join(OWED).join(name), began }
    }

    /// All that are written down.
    pub(crate) fn all(reach: &Reach) -> Vec<Self> {
        let entries = fs::read_dir(reach.private.join(OWED)).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(Self { began: began(&entry.path())?, file: entry.path() })).collect()
    }

    pub(crate) fn is_written(&self) -> bool {
        self.file.exists()
    }

    pub(crate) fn write(&self) -> io::Result<()> {
        make_folder(self.file.parent().unwrap_or(Path::new("/")))?;
        File::options().write(true).create(true).truncate(false).mode(PRIVATE).open(&self.file).map(drop)
    }

    /// Nothing is owed for it any more. Another may have found that first.
    pub(crate) fn settle(self) {
        let _ = fs::remove_file(self.file);
    }
}

/// When the command of a file began, as its name says.
fn began(file: &Path) -> Option<Mark> {
    let mut parts = file.file_name()?.to_str()?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Waits until no other search of this session makes up for what is owed. Dropped, another may.
pub(crate) fn alone(reach: &Reach) -> io::Result<File> {
    let folder = File::open(reach.private.join(OWED))?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}

/// Has it told when the next command has ended.
pub(crate) fn tell_later(reach: &Reach, said: &[String]) -> io::Result<()> {
    if said.is_empty() {
        return Ok(());
    }
    let mut file = File::options().append(true).create(true).mode(PRIVATE).open(reach.private.join(TOLD))?;
    said.iter().try_for_each(|said| writeln!(file, "{}", serde_json::Value::from(said.as_str())))
}

/// What is to be told now. It is not told again.
pub(crate) fn to_tell(reach: &Reach) -> Vec<String> {
    let told = reach.private.join(TOLD);
    let taken = reach.private.join(format!("{TOLD}.{}", std::process::id()));
    if fs::rename(told, &taken).is_err() {
        return Vec::new();
    }
    let text = fs::read_to_string(&taken).unwrap_or_default();
    let _ = fs::remove_file(taken);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
