//! `piton session export` and `import`.

use super::said;
use crate::cli::{ExportArgs, ExportFormat};
use crate::failure::{Context, Result, ensure};
use crate::out::print;
use crate::out::view;
use crate::settings;
use crate::surroundings::Surroundings;
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

/// Writes a session as one file.
pub(super) async fn export(engine: &Engine, id: &SessionId, args: &ExportArgs, around: &Surroundings) -> Result<()> {
    let mut records = engine.records(id).await?;
    ensure!(!records.is_empty(), "{id} is empty: nothing ever happened in it");
    let mut title = engine.store().summary(id).await?.title;
    let mut redacted = 0;
    if !args.no_redact {
        let mut redactor = redactor(around)?;
        records = redactor.records(&records);
        redacted = redactor.found;
        title = redactor.text(&title);
    }
    let text = match args.format.unwrap_or_else(|| named(args.output.as_deref())) {
        ExportFormat::Json => json::write(&records, &title, redacted)?,
        ExportFormat::Md => markdown::write(&Story::of(&records), &title, &said::when),
        ExportFormat::Html => html::write(&Story::of(&records), &title, &said::when),
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
    let records = json::read(&text).with_context(|| format!("cannot import {}", file.display()))?;
    let mut redactor = redactor(around)?;
    let records = redactor.records(&records);
    let events = view::plural(records.len() as u64, "event");
    let id = engine.take_in(records).await?;
    let workspace = engine.store().summary(&id).await?.workspace;
    view::write_stdout(&format!("{id}\n"));
    view::write_stderr(&format!("taken in with {events}\n"));
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
