//! `piton session compact`, and `/compact` typed as a task: room is made between turns, and the summary is shown and
//! may be changed.

use crate::cassettes::CASSETTES;
use crate::cli::CompactArgs;
use crate::commands::sessions::find;
use crate::commands::undo;
use crate::editor::Editor;
use crate::failure::{Context, Failure, Result, bail, ensure};
use crate::out::report;
use crate::out::view::{self, thousands};
use crate::run::stops::Stops;
use crate::settings;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use piton_core::client::{Compact, Compacted, Configure, Published};
use piton_core::ids::SessionId;
use piton_core::turn;
use piton_engine::assemble::{Wishes, bare};
use piton_engine::compaction::CompactError;
use piton_engine::engine::{Engine, EngineError, Handle, Resumed};
use piton_engine::store::StoreError;
use piton_tools::regular;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// What was asked for.
struct Wish {
    focus: Option<String>,
    /// A text to take instead of asking the model.
    summary: Option<String>,
    edit: bool,
}

/// Obeys `piton session compact`.
pub(crate) async fn compact(args: CompactArgs, around: &Surroundings) -> Result<u8> {
    let engine = Engine::open(&around.machine.data_dir);
    let id = find::meant(&engine, around, args.id.as_deref())?;
    if args.show {
        let text =
            summary(&engine, &id).await?.with_context(|| format!("{id} has no summary: it was never compacted"))?;
        view::write_stdout(&format!("{}\n", view::clean(text.trim())));
        return Ok(0);
    }
    let text = args.summary.as_deref().map(read).transpose()?;
    let wish = Wish { focus: args.focus.clone(), summary: text, edit: args.edit };
    let wishes = |had| {
        let (flags, model) = (args.set.layers(), args.model.clone());
        let is_watched = around.stdin_is_terminal && around.stderr_is_terminal;
        Ok(Wishes { flags, model, had, is_watched, cassettes: CASSETTES, ..Wishes::default() })
    };
    let mut upkeep = Upkeep::new(&engine, around)?;
    let code = make_room(&engine, &id, &wish, &wishes, around, &mut upkeep).await;
    upkeep.done().await;
    code
}

/// The words after `/compact`, if that is what a task is.
pub(crate) fn typed(prompt: Option<&str>) -> Option<Option<String>> {
    let rest = prompt?.trim().strip_prefix("/compact")?;
    let is_word = rest.is_empty() || rest.starts_with(char::is_whitespace);
    let focus = Some(rest.trim().to_owned()).filter(|focus| !focus.is_empty());
    is_word.then_some(focus)
}

/// Does what `/compact` asks for.
pub(crate) async fn obey(
    engine: &Engine,
    id: Option<&SessionId>,
    focus: Option<String>,
    wishes: &dyn Fn(Configure) -> Result<Wishes>,
    around: &Surroundings,
    upkeep: &mut Upkeep<'_>,
) -> Result<u8> {
    let Some(id) = id else {
        bail!("/compact makes room in a session that there is already: name it with --continue or --resume ID");
    };
    let wish = Wish { focus, summary: None, edit: false };
    make_room(engine, id, &wish, wishes, around, upkeep).await
}

async fn summary(engine: &Engine, id: &SessionId) -> Result<Option<String>> {
    let records = engine.records(id).await?;
    Ok(turn::State::fold(&records).context().summary().map(|(text, _)| text.to_owned()))
}

fn read(path: &Path) -> Result<String> {
    let text = match path.to_str() {
        Some("-") => {
            regular::text_of(std::io::stdin(), regular::SETTINGS_BYTES).context("cannot read standard input")?
        }
        _ => {
            regular::named(path, regular::SETTINGS_BYTES).with_context(|| format!("cannot read {}", path.display()))?
        }
    };
    ensure!(!text.trim().is_empty(), "the summary in {} is empty; nothing was changed", path.display());
    Ok(text)
}

async fn make_room(
    engine: &Engine,
    id: &SessionId,
    wish: &Wish,
    wishes: &dyn Fn(Configure) -> Result<Wishes>,
    around: &Surroundings,
    upkeep: &mut Upkeep<'_>,
) -> Result<u8> {
    let had = engine.store().summary(id).await?;
    let workspace = PathBuf::from(&had.workspace);
    let needs_model = wish.summary.is_none();
    // Who wants to see or change the text has to have the session.
    let may_be_elsewhere = needs_model && !wish.edit;
    loop {
        if may_be_elsewhere && let Some(code) = where_it_runs(engine, id, wish.focus.clone()).await? {
            return Ok(code);
        }
        let settings = match needs_model {
            true => {
                settings::of_session(
                    around,
                    &workspace,
                    wishes(Configure { model: had.model.clone(), ..engine.configured(id).await? })?,
                )
                .await?
            }
            false => bare::for_upkeep(had.model.as_deref().unwrap_or_default(), &around.machine, &workspace),
        };
        let snapshots = settings.snapshots.clone();
        let session = match engine.resume(id, settings).await {
            // Somebody was faster: then it is there that room is made.
            Err(EngineError::Journal(StoreError::Busy { .. })) if may_be_elsewhere => continue,
            opened => opened?,
        };
        upkeep.opened(&session, snapshots);
        let done = in_session(&session, wish, around).await;
        session.close().await;
        return done;
    }
}

/// Has room made by the process that runs the session, if one does; the exit code then. Ctrl-C only stops the waiting.
async fn where_it_runs(engine: &Engine, id: &SessionId, focus: Option<String>) -> Result<Option<u8>> {
    let Some(session) = engine.join(id).await? else { return Ok(None) };
    let pid = session.elsewhere().unwrap_or_default();
    view::write_stderr(&format!("{id} is run by process {pid}: room is made there, under its rules\n"));
    let mut stops = Stops::listen()?;
    let made = tokio::select! {
        made = session.compact(Compact::about(focus)) => made,
        stop = stops.next() => {
            view::write_stderr(&format!("{}\n", report::not_watching(id)));
            return Ok(Some(stop.code()));
        }
    };
    match made {
        Ok(done) => {
            tell(&done);
            Ok(Some(0))
        }
        Err(CompactError::Closed) => {
            view::write_stderr(&format!("process {pid} has left {id}; going on here\n"));
            Ok(None)
        }
        Err(error) => bail!("no room was made in {id}: {error}"),
    }
}

async fn in_session(session: &Handle, wish: &Wish, around: &Surroundings) -> Result<u8> {
    let no_room = || format!("no room was made in {}", session.id());
    ensure!(
        session.resumed() == Resumed::AtRest,
        "no room was made in {0}: its last turn was cut off; `piton run --resume {0}` ends it, and makes room by itself \
         where it must",
        session.id()
    );
    // Before anything is asked and paid for.
    let editor = wish.edit.then(|| editor(around)).transpose()?;
    let how = match &wish.summary {
        Some(summary) => Compact::text(summary),
        None => {
            view::write_stderr("asking for a summary…\n");
            Compact::about(wish.focus.clone())
        }
    };
    let heard = heard(session, how).await;
    undo::tell_given_up(session, session.opened_at()).await;
    let mut done = match heard {
        // What there is may still be changed.
        Err(CompactError::Nothing) if wish.edit && current(session).await?.is_some() => None,
        done => Some(done.with_context(no_room)?),
    };
    if let Some(editor) = editor {
        let before = match &done {
            Some(done) => done.summary.clone(),
            None => current(session).await?.unwrap_or_default(),
        };
        let changed = change(session, &before, &editor, around).await;
        // What the model wrote is paid for, and the session goes on from it.
        done = changed.with_context(|| format!("the summary of {} is in force unchanged", session.id()))?.or(done);
    }
    match &done {
        Some(done) => tell(done),
        None => view::write_stderr("nothing was changed\n"),
    }
    Ok(0)
}

/// Puts what a person makes of a summary in its place; `None` where they left it as it is.
async fn change(session: &Handle, before: &str, editor: &Editor, around: &Surroundings) -> Result<Option<Compacted>> {
    let (after, file) = edited(before, editor, around)?;
    if after.trim().is_empty() {
        bail!("the text was left empty");
    }
    if after.trim() == before.trim() {
        return Ok(None);
    }
    match session.compact(Compact::replacing(after.trim())).await {
        Ok(done) => Ok(Some(done)),
        Err(error) => Err(Failure::from(error).context(kept(file))),
    }
}

/// The editor that the environment names.
fn editor(around: &Surroundings) -> Result<Editor> {
    Editor::named(around).context("nothing was asked or changed (--summary FILE takes a text without an editor)")
}

/// Makes room, and says what keeps the model's answer waiting.
async fn heard(session: &Handle, how: Compact) -> Result<Compacted, CompactError> {
    // What is recorded need not be heard.
    let mut heard = session.subscribe(u64::MAX);
    let done = session.compact(how);
    tokio::pin!(done);
    loop {
        tokio::select! {
            biased;
            done = &mut done => return done,
            Ok(Some(published)) = heard.next() => {
                let trouble = if let Published::Live(live) = published { view::trouble(&live) } else { None };
                trouble.into_iter().for_each(|words| view::write_stderr(&format!("{words}\n")));
            }
            else => return done.await,
        }
    }
}

async fn current(session: &Handle) -> Result<Option<String>> {
    let records = session.records().await?;
    Ok(turn::State::fold(&records).context().summary().map(|(text, _)| text.to_owned()))
}

fn tell(done: &Compacted) {
    view::write_stdout(&format!("{}\n", view::clean(done.summary.trim())));
    tell_room(done);
}

/// What was gained, in words.
pub(crate) fn tell_room(done: &Compacted) {
    view::write_stderr(&format!(
        "events 1 to {} are known to the model by this summary from here on: about {} tokens instead of {}\n",
        done.upto_seq,
        thousands(done.tokens_after),
        thousands(done.tokens_before)
    ));
}

/// The text as a person leaves it in their editor, in a file that is theirs alone. The file stays until the text is in
/// force, or was left as it is.
fn edited(text: &str, editor: &Editor, around: &Surroundings) -> Result<(String, NamedTempFile)> {
    let file = tempfile::Builder::new().prefix("piton-summary-").suffix(".md").tempfile_in(&around.temp_dir);
    let mut file = file.with_context(|| format!("cannot write in {}", around.temp_dir.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", file.path().display()))?;
    if let Err(error) = editor.open(file.path()) {
        let is_untouched = regular::text(file.path(), regular::SETTINGS_BYTES).is_ok_and(|now| now == text);
        return Err(if is_untouched { error } else { error.context(kept(file)) });
    }
    // By its name: many editors put a new file in its place.
    let after = regular::text(file.path(), regular::SETTINGS_BYTES);
    let after = after.with_context(|| format!("cannot read {}", file.path().display()))?;
    Ok((after, file))
}

/// Leaves the file where it is, and says where.
fn kept(file: NamedTempFile) -> String {
    let path = file.path().display().to_string();
    match file.keep() {
        Ok(_) => format!("what you wrote is kept in {path}"),
        Err(error) => format!("what you wrote could not be kept in {path} ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_itself_is_the_command() {
        assert_eq!(typed(Some("/compact")), Some(None));
        assert_eq!(typed(Some("  /compact the API ")), Some(Some("the API".to_owned())));
        assert_eq!(typed(Some("/compactor")), None);
        assert_eq!(typed(Some("please /compact")), None);
        assert_eq!(typed(None), None);
    }
}
