//! `piton session model`, `mode`, `effort`, `tools` and `rename`: what a session is called and how it is run is changed, by the process
//! that runs it where one does.

use crate::cassettes::CASSETTES;
use crate::failure::{Result, bail};
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::client::{Configure, Configured};
use piton_core::configure::is_every;
use piton_core::ids::SessionId;
use piton_engine::assemble::Wishes;
use piton_engine::config::layers::{Flag, Value};
use piton_engine::engine::{Engine, EngineError, Handle};
use std::path::PathBuf;

/// Changes model, permission mode, effort or tools.
pub(super) async fn configure(
    engine: &Engine,
    id: &SessionId,
    changed: Configure,
    around: &Surroundings,
) -> Result<()> {
    let done = match engine.join(id).await? {
        Some(session) => there(&session, session.configure(changed)).await?,
        None => here(engine, id, changed, around).await?,
    };
    for notice in &done.notices {
        view::write_stderr(&format!("note: {}\n", view::clean(notice)));
    }
    let keeps = if done.after_turn { "; the turn under way keeps its models and tools" } else { "" };
    view::write_stderr(&format!("{id}: {}{keeps}\n", view::clean(&done.changed.with_when(done.at_once))));
    Ok(())
}

/// Changes it in a session that nobody runs: what makes no sense is refused before it is on record.
async fn here(engine: &Engine, id: &SessionId, mut changed: Configure, around: &Surroundings) -> Result<Configured> {
    let workspace = PathBuf::from(engine.store().summary(id).await?.workspace);
    if let Some(model) = &changed.model {
        let flags = vec![Flag::Key { flag: "MODEL", key: &["model"], value: Value::from(model.as_str()) }];
        let wishes = Wishes { flags, is_watched: true, cassettes: CASSETTES, ..Wishes::default() };
        let settings = settings::of_session(around, &workspace, &wishes).await?;
        let models = std::iter::once(&settings.model).chain(&settings.fallbacks);
        changed.model = Some(models.map(|model| model.name()).collect::<Vec<_>>().join(","));
    }
    let tools = piton_engine::history::default_tools().specs();
    let named = changed.tools.iter().filter(|tools| !is_every(tools)).flatten();
    if let Some(unknown) = named.into_iter().find(|name| !tools.iter().any(|tool| tool.name == **name)) {
        let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        bail!("there is no tool `{unknown}`; the tools are {}", known.join(", "));
    }
    engine.configure(id, changed.clone()).await?;
    Ok(Configured { seq: 0, changed, at_once: false, after_turn: false, notices: Vec::new() })
}

/// Gives a session a title, or takes it back.
pub(super) async fn rename(engine: &Engine, id: &SessionId, title: &str) -> Result<()> {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    match engine.join(id).await? {
        Some(session) => drop(there(&session, session.rename(&title)).await?),
        None => engine.rename(id, &title).await?,
    }
    let what = if title.is_empty() { "has the words of its first prompt for a title again" } else { "renamed" };
    view::write_stderr(&format!("{id} {what}\n"));
    Ok(())
}

/// The answer of the process that runs a session.
async fn there<T>(session: &Handle, asked: impl Future<Output = Result<T, EngineError>>) -> Result<T> {
    match asked.await {
        Err(EngineError::Closed) => {
            bail!("the piton that runs {} has left before it answered; try again", session.id())
        }
        answer => Ok(answer?),
    }
}
