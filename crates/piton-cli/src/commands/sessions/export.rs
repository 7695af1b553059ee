//! `piton session export` and `import`.

use super::said;
use crate::cli::{ExportArgs, ExportFormat};
use crate::failure::{Context, Result, ensure};
use crate::out::print;
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
use piton_core::event::Record;
use piton_core::ids::SessionId;
use piton_core::story::Story;
use piton_engine::assemble::secrets;
use piton_engine::engine::Engine;
use piton_engine::export::redact::Redactor;
use piton_engine::export::{html, json, markdown};
use piton_tools::regular;
use std::ffi::OsStr;
use std::path::Path;

/// The format that a file's name asks for.
fn named(output: Option<&Path>) -> ExportFormat {
    match output.and_then(Path::extension).and_then(OsStr::to_str) {
        Some("json") => ExportFormat::Json,
        Some("md") => ExportFormat::Md,
        _ => ExportFormat::Html,
    }
}

/// Writes a session as one file, with its subagents.
pub(super) async fn export(engine: &Engine, id: &SessionId, args: &ExportArgs, around: &Surroundings) -> Result<()> {
    let mut redactor = if args.no_redact { None } else { Some(redactor(around)?) };
    let (records, title) = exported(engine, id, redactor.as_mut()).await?;
    ensure!(!records.is_empty(), "{id} is empty: nothing ever happened in it");
    let mut subagents = Vec::new();
    for child in engine.subagents(id).await? {
        subagents.push(exported(engine, &child, redactor.as_mut()).await?);
    }
    let redacted = redactor.map_or(0, |redactor| redactor.found);
    let stories = || subagents.iter().map(|(records, title)| (Story::of(records), title.clone()));
    let text = match args.format.unwrap_or_else(|| named(args.output.as_deref())) {
        ExportFormat::Json => json::write_tree((&records, &title), &subagents, redacted)?,
        ExportFormat::Md => {
            stories().fold(markdown::write(&Story::of(&records), &title, &said::when), |text, (story, title)| {
                format!("{text}\n---\n\n{}", markdown::write(&story, &format!("Subagent: {title}"), &said::when))
            })
        }
        ExportFormat::Html => {
            html::write_tree((&Story::of(&records), &title), &stories().collect::<Vec<_>>(), &said::when)
        }
    };
    // As elsewhere, `-` is standard output.
    match args.output.as_ref().filter(|path| path.as_os_str() != "-") {
        Some(path) => {
            std::fs::write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
            view::write_stderr(&format!("wrote {} ({})\n", path.display(), said::size(text.len() as u64)));
        }
        // A terminal obeys what a file only keeps.
        None if around.stdout_is_terminal => view::write_stdout(&view::clean(&text)),
        None => view::write_stdout(&text),
    }
    if redacted > 0 {
        let secrets = view::plural(redacted as u64, "secret");
        view::write_stderr(&format!("{secrets} left out (--no-redact keeps them); look it over before you share it\n"));
    }
    Ok(())
}

/// The events and the title of a session, as they leave the machine.
async fn exported(engine: &Engine, id: &SessionId, redactor: Option<&mut Redactor>) -> Result<(Vec<Record>, String)> {
    let (records, title) = (engine.records(id).await?, engine.store().summary(id).await?.title);
    Ok(match redactor {
        Some(redactor) => (redactor.records(&records), redactor.text(&title)),
        None => (records, title),
    })
}

/// Knows the user's secrets, and what others look like.
fn redactor(around: &Surroundings) -> Result<Redactor> {
    let mut notices = Vec::new();
    let known = secrets::secrets(&settings::of_user(around)?, &around.machine, &mut notices)?;
    print::notices(&notices);
    Ok(Redactor::new(known))
}

/// Makes a session of an export. What it holds of secrets is not taken in: whoever wrote it may have had another list of them.
pub(super) async fn import(engine: &Engine, file: &Path, around: &Surroundings) -> Result<()> {
    let text = match file.to_str() {
        Some("-") => {
            regular::text_of(std::io::stdin(), regular::CONVERSATION_BYTES).context("cannot read standard input")?
        }
        _ => regular::named(file, regular::CONVERSATION_BYTES)
            .with_context(|| format!("cannot read {}", file.display()))?,
    };
    let tree = json::read_tree(&text).with_context(|| format!("cannot import {}", file.display()))?;
    let mut redactor = redactor(around)?;
    let tree: Vec<Vec<Record>> = tree.iter().map(|records| redactor.records(records)).collect();
    let events = view::plural(tree.iter().map(Vec::len).sum::<usize>() as u64, "event");
    let subagents = tree.len().saturating_sub(1) as u64;
    let id = engine.take_in_tree(tree).await?;
    let workspace = engine.store().summary(&id).await?.workspace;
    view::write_stdout(&format!("{id}\n"));
    let with = if subagents > 0 { format!(" and {}", view::plural(subagents, "subagent")) } else { String::new() };
    view::write_stderr(&format!("taken in with {events}{with}\n"));
    if redactor.found > 0 {
        let secrets = view::plural(redactor.found as u64, "secret");
        view::write_stderr(&format!("{secrets} left out: [redacted] stands in their place\n"));
    }
    if !Path::new(&workspace).is_dir() {
        view::write_stderr(&format!(
            "it worked in {workspace}, which is not here; go on with it elsewhere:\n  piton run --resume {id} --cwd DIR\n"
        ));
    }
    Ok(())
}
