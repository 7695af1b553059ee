//! The git binary as a reader of packs, and nothing else. It runs on the store, never on the user's repository, and sees
//! no configuration but the store's own: no hook, filter, alias or helper of anybody's can run.

use super::object::{ObjectKind, Oid};
use crate::limits::SNAPSHOT_OBJECT_BYTES;
use crate::spawn::{Confinement, Env, Group, Spawn, Streams};
use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A running `git cat-file --batch`; ended when it is dropped.
#[derive(Debug)]
pub(super) struct CatFile {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl CatFile {
    pub(super) fn start(git: &Path, store: &Path) -> io::Result<Self> {
        let argv = ["--no-pager", "--no-replace-objects", "cat-file", "--batch"].map(OsStr::new);
        let spawn = Spawn::new([git.as_os_str()].into_iter().chain(argv), &Env::default(), store, Confinement::User)
            .with("GIT_DIR", store)
            .with("GIT_CONFIG_NOSYSTEM", "1")
            .with("GIT_CONFIG_GLOBAL", "/dev/null")
            .with("GIT_NO_LAZY_FETCH", "1")
            .with("GIT_OPTIONAL_LOCKS", "0")
            .with("GIT_TERMINAL_PROMPT", "0")
            .with("LC_ALL", "C");
        let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::null() };
        let mut process = spawn.start(Group::Ours, streams)?;
        let (questions, answers) = (process.stdin.take(), process.stdout.take());
        match questions.zip(answers) {
            Some((questions, answers)) => Ok(Self { process, questions, answers: BufReader::new(answers) }),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Asks for an object and waits for it. After an error the reader is of no more use.
    pub(super) fn read(&mut self, oid: Oid, kind: ObjectKind) -> io::Result<Vec<u8>> {
        self.questions.write_all(format!("{oid}\n").as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let word = match kind {
            ObjectKind::Blob => "blob",
            ObjectKind::Tree => "tree",
        };
        let size = line.trim_end().strip_prefix(&format!("{oid} {word} "));
        let size = size.and_then(|size| size.parse().ok()).filter(|size| *size <= SNAPSHOT_OBJECT_BYTES);
        let size: u64 = size.ok_or_else(|| io::Error::other(format!("git answers {:?}", line.trim_end())))?;
        let mut content = Vec::new();
        (&mut self.answers).take(size + 1).read_to_end(&mut content)?;
        match content.pop() {
            Some(b'\n') if content.len() as u64 == size => Ok(content),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for CatFile {
    fn drop(&mut self) {
        // It has nothing to lose; that it is gone already is as well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
