//! Makes a patch in memory: which files there are before and after it. Nothing is written here.

use super::fit::{How, Told, Unfit, WhyUnfit, fit};
use super::parse::{Chunk, FilePatch};
use crate::change::{self, CurrentFile, EditTarget};
use crate::files::Files;
use piton_core::call::Outcome;
use piton_core::secrets::Firewall;
use std::path::{Path, PathBuf};

/// A file as the patch finds it and leaves it.
pub(super) struct Staging {
    /// The file as it is.
    pub(super) target: EditTarget,
    /// What it will hold; `None`: it will not be there.
    pub(super) content: Option<Vec<u8>>,
    /// Whether a content that is there is replaced without a line of it being named, so that it must have been read.
    pub(super) is_overwritten: bool,
    /// The file that moves here, as people see it.
    pub(super) from: Option<String>,
    /// Where it moves, as people see it.
    pub(super) to: Option<String>,
    /// The rights of the file that moves here.
    pub(super) rights: Option<u32>,
}

impl Staging {
    /// Whether the disk has a content that may be lost, whatever the patch does with it first.
    fn is_there(&self) -> bool {
        matches!(self.target.now, CurrentFile::File { .. })
    }

    /// Whether it goes, and is not moved.
    pub(super) fn is_deleted(&self) -> bool {
        self.content.is_none() && self.to.is_none()
    }
}

/// All files of a patch, in the order in which they are to be written: what moves comes first, what goes last.
pub(super) struct Staged {
    pub(super) files: Vec<Staging>,
    /// What has to be told of places that did not fit as they were written, as whole lines.
    pub(super) told: String,
}

/// Stages a patch, or says what is wrong with it. Files among `done` have been written already: what the patch does to them
/// is passed over.
pub(super) fn stage(
    tool: &str,
    patch: &[FilePatch],
    (workspace, files, firewall): (&Path, &dyn Files, &Firewall),
    done: &[PathBuf],
) -> Result<Staged, Outcome> {
    let mut stage = Stage { tool, workspace, files, firewall, done, staged: Vec::new(), told: String::new() };
    for file in patch {
        match file {
            FilePatch::Add { path, content } => stage.add(path, content)?,
            FilePatch::Delete { path } => stage.delete(path)?,
            FilePatch::Update { path, to, chunks } => stage.update(path, to.as_deref(), chunks)?,
        }
    }
    // What is not there before and not after need not be touched, nor what stays as it is.
    stage.staged.retain(|file| match (&file.target.now, &file.content) {
        (CurrentFile::Absent, None) => false,
        (CurrentFile::File { content, .. }, Some(after)) => content != after,
        (CurrentFile::Absent, Some(_)) | (CurrentFile::File { .. }, None) => true,
    });
    stage.staged.sort_by_key(|file| (file.content.is_none(), file.from.is_none()));
    Ok(Staged { files: stage.staged, told: stage.told })
}

struct Stage<'s> {
    tool: &'s str,
    workspace: &'s Path,
    files: &'s dyn Files,
    firewall: &'s Firewall,
    done: &'s [PathBuf],
    staged: Vec<Staging>,
    told: String,
}

impl Stage<'_> {
    /// The file as the patch has left it so far; `None`: there is nothing more to do with it.
    fn file(&mut self, path: &str) -> Result<Option<usize>, Outcome> {
        let target = change::target(self.tool, path, self.workspace, self.files, self.firewall)?;
        if self.done.contains(&target.path) {
            return Ok(None);
        }
        if let Some(known) = self.staged.iter().position(|file| file.target.path == target.path) {
            return Ok(Some(known));
        }
        let content = match &target.now {
            CurrentFile::Absent => None,
            CurrentFile::File { content, .. } => Some(content.clone()),
        };
        self.staged.push(Staging { target, content, is_overwritten: false, from: None, to: None, rights: None });
        Ok(Some(self.staged.len() - 1))
    }

    fn failed<T>(&self, text: &str) -> Result<T, Outcome> {
        Err(Outcome::failed(format!("{}: {text} Nothing was written.", self.tool)))
    }

    fn add(&mut self, path: &str, content: &str) -> Result<(), Outcome> {
        let Some(at) = self.file(path)? else { return Ok(()) };
        let file = &mut self.staged[at];
        file.is_overwritten |= file.is_there();
        file.content = Some(content.as_bytes().to_vec());
        Ok(())
    }

    fn delete(&mut self, path: &str) -> Result<(), Outcome> {
        let Some(at) = self.file(path)? else { return Ok(()) };
        if self.staged[at].content.take().is_none() {
            let shown = self.staged[at].target.shown.clone();
            return self.failed(&format!("{shown} cannot be deleted: it does not exist."));
        }
        Ok(())
    }

    fn update(&mut self, path: &str, to: Option<&str>, chunks: &[Chunk]) -> Result<(), Outcome> {
        let from = self.file(path)?;
        let to = match to {
            Some(to) => Some(self.file(to)?),
            None => None,
        };
        // A file is moved in two steps, of which the first is the one that needs its content.
        let Some(from) = from else { return Ok(()) };
        let shown = self.staged[from].target.shown.clone();
        let Some(content) = &self.staged[from].content else {
            return self.failed(&format!("{shown} cannot be updated: it does not exist. Add File creates it."));
        };
        let fitted = match fit(content, chunks) {
            Ok(fitted) => fitted,
            Err(unfit) => return self.failed(&unfitting(&unfit, chunks, &shown)),
        };
        for told in &fitted.told {
            self.told.push_str(&in_words(told, &shown));
        }
        match to {
            None => self.staged[from].content = Some(fitted.content),
            Some(Some(to)) if to == from => self.staged[from].content = Some(fitted.content),
            Some(to) => {
                self.staged[from].content = None;
                let Some(to) = to else { return Ok(()) };
                self.staged[from].to = Some(self.staged[to].target.shown.clone());
                let rights = self.staged[from].rights.or(self.staged[from].target.rights);
                let file = &mut self.staged[to];
                file.is_overwritten |= file.is_there();
                file.rights = rights;
                (file.content, file.from) = (Some(fitted.content), Some(shown));
            }
        }
        Ok(())
    }
}

/// What the model is told of a place that does not fit.
fn unfitting(Unfit { chunk, why }: &Unfit, chunks: &[Chunk], shown: &str) -> String {
    /// Enough to know which place it is.
    const LINES: usize = 8;
    let which = if chunks.len() > 1 { format!("place {} of {}: ", chunk + 1, chunks.len()) } else { String::new() };
    let old = chunks.get(*chunk).map(Chunk::old).unwrap_or_default();
    let quoted: String = old.iter().take(LINES).map(|line| format!("\n{line}")).collect();
    match why {
        WhyUnfit::NoContext(context) => {
            format!("{which}no line `{}` stands in {shown} behind the place before. Read it again.", context.trim())
        }
        WhyUnfit::NoLines(None) => format!("{which}these lines are not in {shown}; read it again:{quoted}\n"),
        WhyUnfit::NoLines(Some(line)) => format!(
            "{which}these lines are in {shown} on line {line}, but not behind the place before; places come in the order of \
             the file:{quoted}\n"
        ),
        WhyUnfit::Several(lines) => {
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            format!(
                "{which}these lines are not in {shown} as written, and but for blanks several times (lines {}). Write them \
                 exactly, or name with @@ a line above them:{quoted}\n",
                lines.join(", ")
            )
        }
    }
}

fn in_words(Told { chunk, line, how }: &Told, shown: &str) -> String {
    let how = match how {
        How::First => "fits further down, too, or its @@ line does; the first place was taken",
        How::LineEnds => "was there with other blanks at the ends of lines",
        How::Blanks => "was there with other blanks around lines",
        How::Characters => "was there with other quotes, dashes or blanks",
        How::NotAtEnd => "was not at the end of the file",
    };
    format!("({shown}: place {}, line {line}, {how}. Check the result.)\n", chunk + 1)
}
