//! `/diff`: what the last turn or the session changed, by the snapshots before and after, or what is different from what git has; and a
//! hunk that is taken out of its file again.

use super::Chat;
use crate::changed;
use crate::failure::{Context, Result, bail};
use crate::out::view;
use piton_core::branch::{self, TurnSpan};
use piton_core::event::Record;
use piton_engine::engine::Engine;
use piton_tools::snapshot::{Options, Snapshots, TreeId};
use piton_tools::spawn::{Confinement, Env, Keep, Spawn};
use piton_tui::face::Input;
use piton_tui::review::{FileChange, FileHunk, Source, files_of, hunks_of, without};
use piton_tui::rewind::Changed;
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
        let env = Env::new(self.around.machine.vars.clone());
        let argv = ["git", "diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--", "."];
        let spawn = Spawn::new(argv, &env, self.folder(), Confinement::User);
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
    let file = folder.join(&relative);
    let meta = std::fs::symlink_metadata(&file).with_context(|| format!("cannot read {}", file.display()))?;
    if !meta.is_file() {
        bail!("{} is no regular file; it stays as it is", view::clean(path));
    }
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let Some(left) = without(&text, hunk) else {
        bail!("{} is not as this hunk left it: it was changed since, and stays as it is", view::clean(path));
    };
    // Whole or not at all, with the permissions that it had.
    let parent = file.parent().unwrap_or(folder);
    let mut beside =
        tempfile::NamedTempFile::new_in(parent).with_context(|| format!("cannot write {}", file.display()))?;
    std::io::Write::write_all(&mut beside, left.as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))?;
    beside.as_file().set_permissions(meta.permissions()).with_context(|| format!("cannot write {}", file.display()))?;
    beside.persist(&file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}
