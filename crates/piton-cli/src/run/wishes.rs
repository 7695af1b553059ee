//! What the command line of a run wishes of a session.

use crate::cassettes::CASSETTES;
use crate::cli::RunArgs;
use crate::failure::{Context, Result, ensure};
use crate::surroundings::Surroundings;
use piton_core::configure::Configure;
use piton_core::permission::PermissionMode;
use piton_engine::assemble::Wishes;
use piton_engine::hooks::OutputSchema;
use piton_models::options::Options;
use piton_tools::private;
use piton_tools::regular;
use std::fs::File;
use std::path::Path;

/// The wishes for a session, with what it had before.
pub(crate) fn wishes(args: &RunArgs, had: Configure, around: &Surroundings) -> Result<Wishes> {
    let &RunArgs { temperature, max_output, effort, text_tools, yes, trust_hooks, .. } = args;
    Ok(Wishes {
        flags: args.settings.layers(),
        model: args.model.clone(),
        answers: Options { temperature, max_output, effort, ..Options::default() },
        text_tools,
        mode: if yes { Some(PermissionMode::Auto) } else { args.mode },
        is_watched: around.stdin_is_terminal
            && around.stderr_is_terminal
            && !yes
            && args.mode != Some(PermissionMode::Auto),
        trust_hooks,
        output_schema: args.output_schema.as_deref().map(schema).transpose()?,
        tape: args.record.as_deref().map(|path| tape(path, had.model.is_some())).transpose()?,
        cassettes: CASSETTES,
        had,
    })
}

fn schema(path: &Path) -> Result<OutputSchema> {
    let text =
        regular::named(path, regular::SETTINGS_BYTES).with_context(|| format!("cannot read {}", path.display()))?;
    OutputSchema::parse(&text).with_context(|| format!("--output-schema {}", path.display()))
}

/// The file to record to. Only a session that goes on may find replies in it.
fn tape(path: &Path, goes_on: bool) -> Result<File> {
    let is_used = std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
    ensure!(!is_used || goes_on, "{} is not empty; record to a new file", path.display());
    let tape = private::append(path);
    tape.with_context(|| format!("cannot record to {}", path.display()))
}
