//! What the command line of a run wishes of a session.

use crate::cassettes::CASSETTES;
use crate::cli::{Format, InputFormat, RunArgs};
use crate::failure::{Context, Failure, Result, ensure};
use crate::surroundings::Surroundings;
use piton_core::configure::Configure;
use piton_core::permission::PermissionMode;
use piton_engine::assemble::{Wishes, agents};
use piton_engine::hooks::OutputSchema;
use piton_tools::private;
use piton_tools::regular;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The wishes for a session that begins or goes on.
pub(crate) fn wishes(args: &RunArgs, goes_on: bool, around: &Surroundings) -> Result<Wishes> {
    let &RunArgs { yes, mode, trust_hooks, .. } = args;
    let mode = if yes { Some(PermissionMode::Auto) } else { mode };
    Ok(Wishes {
        flags: args.settings.layers(),
        mode,
        is_watched: around.person.is_some() && mode != Some(PermissionMode::Auto),
        asks_people: match args.input_format {
            InputFormat::StreamJson => true,
            InputFormat::Text => around.person.is_some() && args.format == Format::Text,
        },
        trust_hooks,
        no_redact: args.no_redact,
        trust: args.trust.clone().unwrap_or_default(),
        mcp_config: args.mcp_config.clone(),
        plugin_dirs: args.plugin_dir.iter().map(|dir| folder(dir)).collect::<Result<_>>()?,
        agents: match &args.agents {
            Some(json) => agents::described(json).map_err(|why| Failure::usage(format!("--agents: {why}")))?,
            None => Vec::new(),
        },
        output_schema: args.output_schema.as_deref().map(schema).transpose()?.map(Arc::new),
        tape: args.record.as_deref().map(|path| tape(path, goes_on)).transpose()?,
        cassettes: CASSETTES,
        had: Configure::default(),
    })
}

/// A plugin's folder, absolute: the session may work elsewhere.
fn folder(dir: &Path) -> Result<PathBuf> {
    let folder = dir.canonicalize().with_context(|| format!("--plugin-dir {}", dir.display()))?;
    ensure!(folder.is_dir(), "--plugin-dir {} is not a folder", dir.display());
    Ok(folder)
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
