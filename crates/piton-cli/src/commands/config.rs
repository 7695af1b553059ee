//! The configuration in its layers, and `piton config`: what holds and who says so, and whether it makes sense.

use crate::cli::ConfigCommand;
use crate::commands::trust;
use crate::editor::Editor;
use crate::failure::{Context, Failure, Result};
use crate::out::report::EXIT_FAILED;
use crate::out::{print, view};
use crate::settings;
use crate::surroundings::Surroundings;
use piton_engine::assemble::sources;
use piton_engine::config::edit::{self, EditError};
use piton_engine::config::layers::{Flag, KeyOrigin, Layers, Value};
use piton_engine::config::trust::{Found, PROJECT_FILE};
use piton_tools::regular;
use std::io::Write;
use std::path::Path;

/// The schema of the configuration; `cargo xtask schema` makes it.
const SCHEMA: &str = include_str!("../../../../docs/config.schema.json");

/// What a new file of the user's begins with.
const TEMPLATE: &str = "\
# Piton's settings. Everything is optional; `piton config check` names mistakes, the README lists what there is.
# model = \"anthropic/claude-sonnet-5-5\"

# [permission]            # allow, ask or deny, by tool; \"*\" is every tool
# edit = \"allow\"

# [limits]                # of one turn
# max_cost = 2.00         # US dollars
";

/// Obeys one of the commands.
pub(crate) fn config(command: ConfigCommand, around: &Surroundings) -> Result<u8> {
    match command {
        ConfigCommand::Show { origin, settings } => show(origin, &settings.layers(), around)?,
        ConfigCommand::Path => path(around)?,
        ConfigCommand::Check { file, settings } => check(file.as_deref(), &settings.layers(), around)?,
        ConfigCommand::Edit => {
            around.only_by_a_person()?;
            return open(around);
        }
        ConfigCommand::Set { key, value } => {
            around.only_by_a_person()?;
            set(&key, &value, around)?;
        }
        ConfigCommand::Trust(args) => return trust::trust(&args, around),
        ConfigCommand::Untrust => trust::revoke(&[], around)?,
        ConfigCommand::Schema => view::write_stdout(SCHEMA),
    }
    Ok(0)
}

/// Every key that is set, as a line of TOML.
fn show(with_origin: bool, flags: &[Flag], around: &Surroundings) -> Result<()> {
    let found = sources::found(&around.machine, &around.workspace(None)?)?;
    let layered = sources::layered(&around.machine, found.in_force.as_ref(), flags)?;
    for (key, (value, origin)) in layered.settings() {
        let line = view::clean(&format!("{key} = {}", shown(&key, value)));
        match with_origin {
            true => view::write_stdout(&format!("{line:<48} # {origin}\n")),
            false => view::write_stdout(&format!("{line}\n")),
        }
    }
    layered.notes.iter().for_each(|note| view::write_stderr(&format!("note: {note}\n")));
    print::notices(&sources::remarks(&found));
    Ok(())
}

/// A value without what may be a key: some gateways want one in a header or in the body, and a password may stand in an
/// address.
fn shown(key: &str, value: Value) -> Value {
    let is_for_the_server = key.split('.').any(|key| key == "headers" || key == "extra_body");
    match value {
        Value::String(_) if is_for_the_server => Value::from("…"),
        Value::String(text) => Value::from(without_password(&text)),
        Value::Array(values) => Value::Array(values.into_iter().map(|value| shown(key, value)).collect()),
        Value::Table(table) => Value::Table(table.into_iter().map(|(name, value)| (name, shown(key, value))).collect()),
        number => number,
    }
}

/// An address without the password in it.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match place.rsplit_once('@').and_then(|(who, _)| who.split_once(':')) {
        Some((user, password)) => {
            let rest = &rest[user.len() + 1 + password.len()..];
            format!("{scheme}://{user}:…{rest}")
        }
        None => text.to_owned(),
    }
}

/// The files, from the first layer to the last, and what becomes of them.
fn path(around: &Surroundings) -> Result<()> {
    let user = &around.machine.config_file;
    let state = if user.is_file() { "" } else { " (not there)" };
    view::write_stdout(&format!("{}{state}\n", user.display()));
    let Found { in_force, changed, unknown } = sources::found(&around.machine, &around.workspace(None)?)?;
    let in_force = in_force.map(|file| (file.path, ""));
    let changed = changed.map(|path| (path, " (changed since it was trusted)"));
    let unknown = unknown.into_iter().map(|path| (path, " (not trusted)"));
    for (path, state) in in_force.into_iter().chain(changed).chain(unknown) {
        view::write_stdout(&format!("{}{state}\n", path.display()));
    }
    Ok(())
}

fn check(file: Option<&Path>, flags: &[Flag], around: &Surroundings) -> Result<()> {
    if let Some(file) = file {
        let is_a_repositorys = std::path::absolute(file).is_ok_and(|file| file.ends_with(PROJECT_FILE));
        if is_a_repositorys {
            trust::sensible(file, around)?;
        } else {
            let text = regular::named(file, regular::SETTINGS_BYTES)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let mut layers = Layers::default();
            layers.add_file(KeyOrigin::User(file.to_owned()), &text)?;
            layers.merge()?;
        }
        view::write_stdout(&format!("{} is valid\n", file.display()));
        return Ok(());
    }
    let found = sources::found(&around.machine, &around.workspace(None)?)?;
    let changed = found.changed.iter().filter(|path| path.exists());
    for path in found.unknown.iter().chain(changed) {
        trust::sensible(path, around)?;
        view::write_stdout(&format!("{} is valid, but not trusted\n", path.display()));
    }
    let layered = sources::layered(&around.machine, found.in_force.as_ref(), flags)?;
    layered.notes.iter().for_each(|note| view::write_stderr(&format!("note: {note}\n")));
    let said = layered.settings().values().filter(|(_, origin)| *origin != KeyOrigin::Default).count();
    view::write_stdout(&format!("the configuration is valid: {} set\n", view::plural(said as u64, "key")));
    Ok(())
}

/// Every setting that is in force: its key, its value, and who says it.
pub(crate) fn in_force(around: &Surroundings, folder: &Path) -> Result<Vec<(String, String, String)>> {
    let found = sources::found(&around.machine, folder)?;
    let layered = sources::layered(&around.machine, found.in_force.as_ref(), &[])?;
    let line = |(key, (value, origin)): (String, (Value, KeyOrigin))| {
        let value = shown(&key, value).to_string();
        (key, value, origin.to_string())
    };
    Ok(layered.settings().into_iter().map(line).collect())
}

/// Changes one setting in the user's own file, which is made where there is none.
fn set(key: &str, value: &str, around: &Surroundings) -> Result<()> {
    let file = &around.machine.config_file;
    let text = match file.exists() {
        true => {
            regular::named(file, regular::SETTINGS_BYTES).with_context(|| format!("cannot read {}", file.display()))?
        }
        false => TEMPLATE.to_owned(),
    };
    let edited = edit::with_setting(file, &text, key, value).map_err(|error| match error {
        EditError::Invalid(error) => Failure::from(error),
        error @ EditError::NotALine { .. } => Failure::user(error.to_string()),
    })?;
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Where the file is a link, what it leads to is written.
    let target = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
    let failed = || format!("cannot write {}", target.display());
    let mut new = tempfile::NamedTempFile::new_in(target.parent().unwrap_or(folder)).with_context(failed)?;
    new.write_all(edited.as_bytes()).with_context(failed)?;
    if let Ok(meta) = std::fs::metadata(&target) {
        new.as_file().set_permissions(meta.permissions()).with_context(failed)?;
    }
    new.persist(&target).with_context(failed)?;
    view::write_stderr(&format!("{key} is set in {}\n", file.display()));
    Ok(())
}

/// Opens the user's own file in an editor, and looks at what came of it.
fn open(around: &Surroundings) -> Result<u8> {
    let file = &around.machine.config_file;
    let editor = Editor::at_hand(around)?;
    if !file.exists() {
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(file, TEMPLATE).with_context(|| format!("cannot write {}", file.display()))?;
    }
    editor.open(file)?;
    match settings::of_user(around) {
        Ok(_) => {
            view::write_stderr(&format!("{} is valid\n", file.display()));
            Ok(0)
        }
        Err(error) => {
            let error = Failure::from(error);
            view::write_stderr(&format!(
                "piton: {error}\nIt is kept as you wrote it; piton config edit opens it again\n"
            ));
            Ok(EXIT_FAILED)
        }
    }
}
