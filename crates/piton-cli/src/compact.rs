//! `piton session compact`, and `/compact` typed as a task: room is made between turns, and the summary is shown and
//! may be changed.

use crate::cli::{CompactArgs, RunArgs};
use crate::sessions;
use crate::setup;
use crate::surroundings::Surroundings;
use crate::upkeep::Upkeep;
use crate::view::{self, thousands};
use anyhow::{Context, bail};
use piton_core::ids::SessionId;
use piton_core::turn;
use piton_engine::compaction::{CompactError, Compacted, How};
use piton_engine::engine::{Engine, Resumed, Session};
use piton_engine::journal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was asked for.
struct Wish {
    focus: Option<String>,
    /// A text to take instead of asking the model.
    summary: Option<String>,
    edit: bool,
}

/// Obeys `piton session compact`.
pub(crate) async fn compact(args: CompactArgs, around: &Surroundings) -> anyhow::Result<u8> {
    let engine = Engine::open(&around.data_dir);
    let id = sessions::find(&engine, around, &args.id)?;
    if args.show {
        let text = summary(&engine, &id)?.with_context(|| format!("{id} has no summary: it was never compacted"))?;
        view::write_stdout(&format!("{}\n", view::clean(text.trim())));
        return Ok(0);
    }
    let text = args.summary.as_deref().map(read).transpose()?;
    let wish = Wish { focus: args.focus, summary: text, edit: args.edit };
    let run = RunArgs { model: args.model, ..RunArgs::plain() };
    let mut upkeep = Upkeep::new(&engine, around)?;
    let code = make_room(&engine, &id, &wish, &run, around, &mut upkeep).await;
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
    args: &RunArgs,
    around: &Surroundings,
    upkeep: &mut Upkeep<'_>,
) -> anyhow::Result<u8> {
    let Some(id) = id else {
        bail!("/compact makes room in a session that there is already: name it with --continue or --resume ID");
    };
    let wish = Wish { focus, summary: None, edit: false };
    make_room(engine, id, &wish, args, around, upkeep).await
}

fn summary(engine: &Engine, id: &SessionId) -> anyhow::Result<Option<String>> {
    let records = journal::read_session(&engine.session_dir(id))?;
    Ok(turn::Session::fold(&records).room().summary().map(|(text, _)| text.to_owned()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = match path.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?,
        _ => std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?,
    };
    anyhow::ensure!(!text.trim().is_empty(), "the summary in {} is empty; nothing was changed", path.display());
    Ok(text)
}

async fn make_room(
    engine: &Engine,
    id: &SessionId,
    wish: &Wish,
    args: &RunArgs,
    around: &Surroundings,
    upkeep: &mut Upkeep<'_>,
) -> anyhow::Result<u8> {
    let had = journal::summary(&engine.session_dir(id))?;
    let workspace = PathBuf::from(&had.workspace);
    let needs_model = wish.summary.is_none();
    let settings = match needs_model {
        true => setup::settings(args, had.model.as_deref(), around, &workspace).await?,
        false => setup::upkeep_settings(had.model.as_deref().unwrap_or_default(), around, &workspace),
    };
    let snapshots = settings.snapshots.clone();
    let session = engine.resume(id, settings)?;
    upkeep.opened(&session, snapshots);
    let done = in_session(&session, wish, around).await;
    session.close().await;
    done.with_context(|| format!("no room was made in {id}"))
}

async fn in_session(session: &Session, wish: &Wish, around: &Surroundings) -> anyhow::Result<u8> {
    anyhow::ensure!(
        session.resumed() == Resumed::AtRest,
        "its last turn was cut off; `piton run --resume {}` ends it, and makes room by itself where it must",
        session.id()
    );
    if wish.edit {
        // Before anything is asked and paid for.
        editor(around)?;
    }
    let how = match &wish.summary {
        Some(summary) => How::Write { summary: summary.clone() },
        None => {
            view::write_stderr("asking for a summary…\n");
            How::Ask { focus: wish.focus.clone() }
        }
    };
    let mut done = match session.compact(how).await {
        // What there is may still be changed.
        Err(CompactError::Nothing) if wish.edit && current(session)?.is_some() => None,
        done => Some(done?),
    };
    if wish.edit {
        let before = match &done {
            Some(done) => done.summary.clone(),
            None => current(session)?.unwrap_or_default(),
        };
        let after = edited(&before, around)?;
        if after.trim().is_empty() {
            bail!("the text was left empty; the summary stays as it was");
        }
        if after.trim() != before.trim() {
            done = Some(session.compact(How::Replace { summary: after.trim().to_owned() }).await?);
        }
    }
    match &done {
        Some(done) => tell(done),
        None => view::write_stderr("nothing was changed\n"),
    }
    Ok(0)
}

fn current(session: &Session) -> anyhow::Result<Option<String>> {
    let records = journal::read_session(session.dir())?;
    Ok(turn::Session::fold(&records).room().summary().map(|(text, _)| text.to_owned()))
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

/// The editor that the environment names.
fn editor(around: &Surroundings) -> anyhow::Result<&str> {
    let named = ["VISUAL", "EDITOR"].iter().find_map(|name| around.var(name)).map(str::trim);
    named.filter(|editor| !editor.is_empty()).context(
        "there is no editor to open: set EDITOR, or write the text to a file and name that with --summary FILE",
    )
}

/// The text as a person leaves it in their editor.
fn edited(text: &str, around: &Surroundings) -> anyhow::Result<String> {
    let editor = editor(around)?;
    let path = around.temp_dir.join(format!("piton-summary-{}.md", std::process::id()));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or_default();
    let ended = Command::new(program).args(words).arg(&path).status();
    let after = std::fs::read_to_string(&path);
    // Left behind, it would only be in the way.
    drop(std::fs::remove_file(&path));
    let ended = ended.with_context(|| format!("cannot start the editor {editor}"))?;
    anyhow::ensure!(ended.success(), "the editor {editor} failed; the summary stays as it was");
    after.with_context(|| format!("cannot read {}", path.display()))
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
