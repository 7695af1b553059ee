//! `/diff`: what the last turn or the session changed, by the snapshots before and after, or what is different from what git has; and a
//! hunk that is taken out of its file again.

use super::Chat;
use crate::changed;
use crate::failure::{Context, Failure, Result, bail};
use crate::out::view;
use piton_core::branch::{self, TurnSpan};
use piton_core::event::Record;
use piton_core::policy::SandboxMode;
use piton_engine::assemble::sandbox::{available, by_hand};
use piton_engine::config::{BackendChoice, Config};
use piton_engine::engine::Engine;
use piton_tools::disk::there;
use piton_tools::snapshot::{Options, Snapshots, TreeId};
use piton_tools::spawn::{Confinement, Env, Keep, Spawn};
use piton_tui::face::Input;
use piton_tui::review::{FileChange, FileHunk, Source, files_of, hunks_of, without};
use piton_tui::rewind::Changed;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Files that are shown; of more, that is said.
const MOST_FILES: usize = 500;
/// The largest file that is compared, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Chat<'_> {
    /// Shows the changes of this source.
    pub(super) async fn review(&mut self, source: Source) {
        self.tell_changes(source, Input::Review).await;
    }

    /// Shows them where changes are looked through.
    pub(super) async fn review_again(&mut self, source: Source) {
        self.tell_changes(source, Input::ReviewAgain).await;
    }

    async fn tell_changes(&mut self, source: Source, as_input: fn(Source, Vec<FileChange>) -> Input) {
        match self.changes(source).await {
            Ok(files) => self.terminal.tell(as_input(source, files)),
            Err(error) => self.fail(&error),
        }
    }

    async fn changes(&self, source: Source) -> Result<Vec<FileChange>> {
        if source == Source::Git {
            return self.against_git().await;
        }
        let Some(open) = &self.open else { return Ok(Vec::new()) };
        let records = open.session.records().await?;
        let Some((before, after)) = trees(&records, source)? else { return Ok(Vec::new()) };
        let (engine, folder) = (self.engine.clone(), self.folder().to_owned());
        let compared = tokio::task::spawn_blocking(move || {
            let snapshots = engine.snapshots(&folder, Options::default())?;
            compare(&snapshots, before, after)
        });
        compared.await.context("the changes could not be read")?
    }

    async fn against_git(&self) -> Result<Vec<FileChange>> {
        let vars = &self.around.machine.vars;
        let env = Env::new(vars.clone());
        let argv = [
            "git",
            "-c",
            "core.fsmonitor=false",
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
            "HEAD",
            "--",
            ".",
        ];
        let confinement = self.confinement_of_git()?;
        let spawn = Spawn::new(argv, &env, self.folder(), confinement);
        let mut running = spawn.run(None, Keep::First).context("cannot start git")?;
        let ended = tokio::time::timeout(PATIENCE, running.wait()).await;
        let Ok(ended) = ended else { bail!("git did not answer within {} s", PATIENCE.as_secs()) };
        let (stdout, stderr) = running.output().await;
        Ok(match ended.context("git did not end as it should")?.success() {
            true => files_of(&stdout),
            // No repository, or one without a commit: it says so itself.
            false => {
                let said = view::first_line(stderr.trim());
                let note = Some(format!("no repository here, or nothing is committed in it ({said})"));
                vec![FileChange { path: "git".to_owned(), hunks: Vec::new(), note }]
            }
        })
    }

    /// The filters of the repository are programs: they run where the model's commands do, and in a sandbox where that is not
    /// known.
    fn confinement_of_git(&self) -> Result<Confinement> {
        let machine = &self.around.machine;
        let private = machine.data_dir.join("sandbox/git");
        match &self.sandbox {
            Some(Some(sandbox)) => {
                let path = machine.vars.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
                Ok(sandbox.confinement(self.folder(), private, path, [], None))
            }
            Some(None) => Ok(Confinement::Model),
            None => {
                let found = available(machine, BackendChoice::Auto);
                let found = found
                    .map_err(|why| Failure::user(format!("git is not run: no sandbox can be made here ({why})")))?;
                let how = (SandboxMode::ReadOnly, found.backend);
                Ok(by_hand(machine, &Config::default(), how, self.folder(), private))
            }
        }
    }

    /// Takes a hunk out of its file, and shows what is changed then.
    pub(super) async fn take_back_hunk(&mut self, source: Source, hunk: FileHunk) {
        match write_without(self.folder(), &hunk) {
            Ok(()) => self.note(format!(
                "a hunk was taken out of {}; the model is told that the file changed",
                view::clean(&hunk.path)
            )),
            Err(error) => self.fail(&error),
        }
        self.review_again(source).await;
    }
}

/// The snapshots before and after.
fn trees(records: &[Record], source: Source) -> Result<Option<(TreeId, TreeId)>> {
    let (all, counts) = (branch::turns(records), |span: &TurnSpan| span.on_path);
    let spans: Vec<TurnSpan> = match source {
        Source::Of(turn) => all.into_iter().filter(|span| span.turn == turn).collect(),
        Source::From(turn) => all.into_iter().filter(|span| counts(span) && span.turn >= turn).collect(),
        Source::Turn => all.into_iter().rfind(counts).into_iter().collect(),
        Source::Session | Source::Git => all.into_iter().filter(counts).collect(),
    };
    changed::ends(spans.iter().filter_map(|span| span.files.as_ref()))
}

/// What each turn changed, by the snapshots around it; nothing of one whose snapshots are gone.
pub(super) fn counted(engine: &Engine, folder: &Path, spans: &[TurnSpan]) -> Vec<(u32, Changed)> {
    let Ok(snapshots) = engine.snapshots(folder, Options::default()) else { return Vec::new() };
    let of_turn = |span: &TurnSpan| {
        let trees = changed::ends(span.files.iter()).ok().flatten();
        let Some(trees) = trees else { return Some((span.turn, Changed::default())) };
        Some((span.turn, changed::total(&snapshots, trees).ok()?))
    };
    spans.iter().filter_map(of_turn).collect()
}

fn compare(snapshots: &Snapshots, before: TreeId, after: TreeId) -> Result<Vec<FileChange>> {
    let text = |tree, path: &Path| -> Result<Result<String, &'static str>> {
        let bytes = snapshots.file(tree, path)?.unwrap_or_default();
        Ok(match (bytes.len() > MOST_BYTES, String::from_utf8(bytes)) {
            (true, _) => Err("too large to be shown"),
            (false, Ok(text)) if !text.contains('\0') => Ok(text),
            (false, _) => Err("a binary file"),
        })
    };
    let changes = snapshots.diff(before, after)?;
    let mut files = Vec::new();
    for change in changes.iter().take(MOST_FILES) {
        let path = change.path.to_string_lossy().into_owned();
        let (hunks, note) = match (text(before, &change.path)?, text(after, &change.path)?) {
            (Ok(before), Ok(after)) if before == after => (Vec::new(), Some(change.kind.to_string())),
            (Ok(before), Ok(after)) => (hunks_of(&view::unified(&before, &after)), None),
            (Err(why), _) | (_, Err(why)) => (Vec::new(), Some(format!("{} ({why})", change.kind))),
        };
        files.push(FileChange { path, hunks, note });
    }
    if let Some(more) = changes.len().checked_sub(MOST_FILES).filter(|more| *more > 0) {
        let note = Some(format!("{more} more files are not shown"));
        files.push(FileChange { path: "…".to_owned(), hunks: Vec::new(), note });
    }
    Ok(files)
}

/// Writes the file without the hunk, where it is as the hunk left it.
fn write_without(folder: &Path, FileHunk { path, hunk }: &FileHunk) -> Result<()> {
    let relative = PathBuf::from(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        bail!("{} lies outside of the folder", view::clean(path));
    }
    // Opened name by name, since the model may put a link in the way.
    let named = folder.canonicalize()?.join(&relative);
    let parent = there(named.parent().unwrap_or(folder)).with_context(|| format!("cannot open {}", named.display()))?;
    let file = parent.path().join(named.file_name().unwrap_or_default());
    let meta = std::fs::symlink_metadata(&file).with_context(|| format!("cannot read {}", named.display()))?;
    if !meta.is_file() {
        bail!("{} is no regular file; it stays as it is", view::clean(path));
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", named.display()))?;
    let Some(left) = without(&text, hunk) else {
        bail!("{} is not as this hunk left it: it was changed since, and stays as it is", view::clean(path));
    };
    // Whole or not at all, with the permissions that it had.
    let write = || -> std::io::Result<()> {
        let mut beside = tempfile::NamedTempFile::new_in(parent.path())?;
        std::io::Write::write_all(&mut beside, left.as_bytes())?;
        beside.as_file().set_permissions(meta.permissions())?;
        beside.persist(&file)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", named.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hunk_is_not_taken_back_through_a_link_in_the_place_of_a_folder() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let hunks = hunks_of("--- a\n+++ b\n@@ -1 +1 @@\n-evil\n+good\n");
        let hunk = FileHunk { path: "d/rc".to_owned(), hunk: hunks[0].clone() };
        std::fs::create_dir(folder.path().join("d")).unwrap();
        std::fs::write(folder.path().join("d/rc"), "good\n").unwrap();
        write_without(folder.path(), &hunk).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("d/rc")).unwrap(), "evil\n");
        std::fs::remove_dir_all(folder.path().join("d")).unwrap();
        std::fs::write(elsewhere.path().join("rc"), "good\n").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("d")).unwrap();
        write_without(folder.path(), &hunk).unwrap_err();
        assert_eq!(std::fs::read_to_string(elsewhere.path().join("rc")).unwrap(), "good\n");
    }
}
