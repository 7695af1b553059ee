//! The configuration in its layers, and `piton config`: what holds and who says so, whether it makes sense, and whether
//! what a repository says counts.

use crate::cli::{ConfigCommand, RunArgs};
use crate::editor::Editor;
use crate::out::report::EXIT_FAILED;
use crate::out::view;
use crate::surroundings::Surroundings;
use anyhow::{Context, bail};
use piton_engine::config::Config;
use piton_engine::config::layers::{Layered, Layers, NO_SETTINGS, Origin, VARIABLE_PREFIX, Value};
use piton_engine::config::trust::{Found, PROJECT_FILE, ProjectFile, Trust};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Once;

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

/// What the user says, in file and environment: for everything that is not about one workspace.
pub(crate) fn of_user(around: &Surroundings) -> anyhow::Result<Config> {
    Ok(told(layered(around, None, &[])?).config)
}

/// What holds in a workspace, with what is said by `--set`. What its repository says counts if the user trusts it; if not,
/// that is said.
pub(crate) fn of_workspace(around: &Surroundings, workspace: &Path, set: &[String]) -> anyhow::Result<Config> {
    let found = found(around, workspace)?;
    for line in remarks(&found) {
        view::write_stderr(&format!("note: {line}\n"));
    }
    Ok(told(layered(around, found.in_force.as_ref(), set)?).config)
}

/// The same for a run. Where nobody sees a note, a run without the rules that were trusted does not even begin.
pub(crate) fn of_run(around: &Surroundings, workspace: &Path, args: &RunArgs) -> anyhow::Result<Config> {
    let is_watched = around.stdin_is_terminal && around.stderr_is_terminal && !args.yes;
    if !is_watched && let Some(path) = found(around, workspace)?.changed {
        bail!("{}", changed(&path, "nothing was started, since nobody is there to see this"));
    }
    of_workspace(around, workspace, &args.set)
}

fn found(around: &Surroundings, workspace: &Path) -> anyhow::Result<Found> {
    Ok(Trust::in_folder(&around.data_dir).look(workspace)?)
}

/// What a person should know about the files of repositories.
fn remarks(found: &Found) -> Vec<String> {
    let unknown = found.unknown.first().map(|path| {
        format!(
            "{} is not in force, since you do not trust it as it is; piton config trust shows it and asks",
            path.display()
        )
    });
    let changed =
        found.changed.as_deref().map(|path| changed(path, "what it sets, rules and limits too, does not hold"));
    unknown.into_iter().chain(changed).collect()
}

fn changed(path: &Path, what: &str) -> String {
    let folder = path.parent().and_then(Path::parent).unwrap_or(path).display();
    let state = if path.exists() { "has been changed since you trusted it" } else { "was trusted by you and is gone" };
    format!(
        "{} {state} and is not in force: {what}. Look at it; then, in {folder}, piton config trust puts it in force as it is now, and piton \
         config untrust lets go of it",
        path.display()
    )
}

/// Tells once what is strange about the environment.
fn told(layered: Layered) -> Layered {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| layered.notes.iter().for_each(|note| view::write_stderr(&format!("note: {note}\n"))));
    layered
}

fn layered(around: &Surroundings, project: Option<&ProjectFile>, set: &[String]) -> anyhow::Result<Layered> {
    let mut layers = of_files(around, project)?;
    for (name, value) in &around.vars {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
        if NO_SETTINGS.contains(&name) {
            continue;
        }
        let value = value.to_str().with_context(|| format!("the environment variable {name} is not text"))?;
        layers.add_variables([(name, value)])?;
    }
    set.iter().try_for_each(|said| layers.add_flag(said))?;
    Ok(layers.merge()?)
}

/// The user's own file, and over it that of a repository.
fn of_files(around: &Surroundings, project: Option<&ProjectFile>) -> anyhow::Result<Layers> {
    let mut layers = Layers::default();
    let file = &around.config_file;
    match std::fs::read_to_string(file) {
        Ok(text) => layers.add_file(Origin::User(file.clone()), &text)?,
        Err(error) if error.kind() == ErrorKind::NotFound && !around.config_is_named => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("there is no {}, which PITON_CONFIG names; `piton config edit` begins one", file.display())
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
    if let Some(file) = project {
        let text = file.text().with_context(|| format!("{} is not text", file.path.display()))?;
        layers.add_file(Origin::Project(file.path.clone()), text)?;
    }
    Ok(layers)
}

/// A file of a repository that makes sense where it is, over the user's own, and its text.
fn sensible(path: &Path, around: &Surroundings) -> anyhow::Result<(ProjectFile, String)> {
    let file = ProjectFile::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    of_files(around, Some(&file))?.merge()?;
    let text = file.text().unwrap_or_default().to_owned();
    Ok((file, text))
}

/// Obeys one of the commands.
pub(crate) fn config(command: ConfigCommand, around: &Surroundings) -> anyhow::Result<u8> {
    match command {
        ConfigCommand::Show { origin, set } => show(origin, &set.set, around)?,
        ConfigCommand::Path => path(around)?,
        ConfigCommand::Check { file, set } => check(file.as_deref(), &set.set, around)?,
        ConfigCommand::Edit => return edit(around),
        ConfigCommand::Trust { yes } => return trust(yes, around),
        ConfigCommand::Untrust => untrust(around)?,
        ConfigCommand::Schema => view::write_stdout(SCHEMA),
    }
    Ok(0)
}

/// Every key that is set, as a line of TOML.
fn show(with_origin: bool, set: &[String], around: &Surroundings) -> anyhow::Result<()> {
    let found = found(around, &around.workspace(None)?)?;
    for (key, (value, origin)) in told(layered(around, found.in_force.as_ref(), set)?).settings {
        let line = view::clean(&format!("{key} = {}", shown(&key, value)));
        match with_origin {
            true => view::write_stdout(&format!("{line:<48} # {origin}\n")),
            false => view::write_stdout(&format!("{line}\n")),
        }
    }
    remarks(&found).iter().for_each(|line| view::write_stderr(&format!("note: {line}\n")));
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
fn path(around: &Surroundings) -> anyhow::Result<()> {
    let user = &around.config_file;
    let state = if user.is_file() { "" } else { " (not there)" };
    view::write_stdout(&format!("{}{state}\n", user.display()));
    let Found { in_force, changed, unknown } = found(around, &around.workspace(None)?)?;
    let in_force = in_force.map(|file| (file.path, ""));
    let changed = changed.map(|path| (path, " (changed since it was trusted)"));
    let unknown = unknown.into_iter().map(|path| (path, " (not trusted)"));
    for (path, state) in in_force.into_iter().chain(changed).chain(unknown) {
        view::write_stdout(&format!("{}{state}\n", path.display()));
    }
    Ok(())
}

fn check(file: Option<&Path>, set: &[String], around: &Surroundings) -> anyhow::Result<()> {
    if let Some(file) = file {
        let is_a_repositorys = std::path::absolute(file).is_ok_and(|file| file.ends_with(PROJECT_FILE));
        if is_a_repositorys {
            sensible(file, around)?;
        } else {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let mut layers = Layers::default();
            layers.add_file(Origin::User(file.to_owned()), &text)?;
            layers.merge()?;
        }
        view::write_stdout(&format!("{} is valid\n", file.display()));
        return Ok(());
    }
    let found = found(around, &around.workspace(None)?)?;
    let changed = found.changed.iter().filter(|path| path.exists());
    for path in found.unknown.iter().chain(changed) {
        sensible(path, around)?;
        view::write_stdout(&format!("{} is valid, but not trusted\n", path.display()));
    }
    let settings = told(layered(around, found.in_force.as_ref(), set)?).settings;
    let said = settings.values().filter(|(_, origin)| *origin != Origin::Default).count();
    view::write_stdout(&format!("the configuration is valid: {} set\n", view::plural(said as u64, "key")));
    Ok(())
}

/// Opens the user's own file in an editor, and looks at what came of it.
fn edit(around: &Surroundings) -> anyhow::Result<u8> {
    let file = &around.config_file;
    let editor = Editor::at_hand(around)?;
    if !file.exists() {
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(file, TEMPLATE).with_context(|| format!("cannot write {}", file.display()))?;
    }
    editor.open(file)?;
    match of_user(around) {
        Ok(_) => {
            view::write_stderr(&format!("{} is valid\n", file.display()));
            Ok(0)
        }
        Err(error) => {
            view::write_stderr(&format!(
                "piton: {error:#}\nIt is kept as you wrote it; piton config edit opens it again\n"
            ));
            Ok(EXIT_FAILED)
        }
    }
}

/// Shows what a repository wants, and puts it in force if the user says so.
fn trust(yes: bool, around: &Surroundings) -> anyhow::Result<u8> {
    let workspace = around.workspace(None)?;
    let found = found(around, &workspace)?;
    let changed = found.changed.as_ref().filter(|path| path.exists());
    let nearest = found.unknown.first().into_iter().chain(changed).max_by_key(|path| path.components().count());
    let Some(path) = nearest else {
        let Some(file) = found.in_force else { bail!(no_file(&workspace)) };
        view::write_stderr(&format!("{} is in force already\n", file.path.display()));
        return Ok(0);
    };
    let (file, text) = sensible(path, around)?;
    view::write_stderr(&format!("{} says:\n\n{}\n", path.display(), view::clean(text.trim_end())));
    if !yes {
        if !around.stdin_is_terminal {
            bail!("there is nobody to ask; say --yes if you have read it");
        }
        view::write_stderr("\nLet it count here, as it is? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            view::write_stderr("It is not in force.\n");
            return Ok(EXIT_FAILED);
        }
    }
    Trust::in_folder(&around.data_dir).give(path, &file.bytes)?;
    view::write_stderr("It is in force from now on, here and in every folder below, until it is changed.\n");
    Ok(0)
}

/// Lets go of the nearest file that was trusted, as it is or as it was.
fn untrust(around: &Surroundings) -> anyhow::Result<()> {
    let workspace = around.workspace(None)?;
    let Found { in_force, changed, unknown } = found(around, &workspace)?;
    // One that was changed is nearer than the one in force.
    let Some(path) = changed.or(in_force.map(|file| file.path)).or(unknown.into_iter().next()) else {
        bail!(no_file(&workspace));
    };
    let had = Trust::in_folder(&around.data_dir).take_back(&path)?;
    let told = if had { "is not in force any more" } else { "was not trusted" };
    view::write_stderr(&format!("{} {told}\n", path.display()));
    Ok(())
}

fn no_file(workspace: &Path) -> String {
    format!("there is no {PROJECT_FILE} in {} or above it in its repository", workspace.display())
}
