//! The configuration in its layers, and `piton config`: what holds and who says so, whether it makes sense, and whether
//! what a repository says counts.

use crate::cli::ConfigCommand;
use crate::report::EXIT_FAILED;
use crate::setup;
use crate::surroundings::Surroundings;
use crate::view;
use anyhow::{Context, bail};
use piton_engine::config::Config;
use piton_engine::config::layers::{Layered, Layers, Origin, VARIABLE_PREFIX};
use piton_engine::config::trust::{self, PROJECT_FILE, Trust};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The schema of the configuration; `cargo xtask schema` makes it.
const SCHEMA: &str = include_str!("../../../docs/config.schema.json");

/// What a new file of the user's begins with.
const TEMPLATE: &str = "\
# Piton's settings. Everything is optional; `piton config check` names mistakes, the README lists what there is.
# model = \"anthropic/claude-sonnet-5-5\"

# [permission]            # allow, ask or deny, by tool; \"*\" is every tool
# edit = \"allow\"

# [limits]                # of one turn
# max_cost = 2.00         # US dollars
";

/// The file of a repository.
struct ProjectFile {
    path: PathBuf,
    text: String,
    is_trusted: bool,
}

/// What the user says, in file and environment: for everything that is not about one workspace.
pub(crate) fn of_user(around: &Surroundings) -> anyhow::Result<Config> {
    Ok(layered(around, None)?.config)
}

/// What holds in a workspace. What its repository says counts if the user trusts it; if not, that is said.
pub(crate) fn of_workspace(around: &Surroundings, workspace: &Path) -> anyhow::Result<Config> {
    let project = ProjectFile::of(workspace, around)?;
    if let Some(ProjectFile { path, is_trusted: false, .. }) = &project {
        let path = path.display();
        view::write_stderr(&format!(
            "note: {path} is not in force, since you do not trust it as it is; piton config trust shows it and asks\n"
        ));
    }
    Ok(layered(around, project.as_ref())?.config)
}

fn layered(around: &Surroundings, project: Option<&ProjectFile>) -> anyhow::Result<Layered> {
    let mut layers = Layers::default();
    match std::fs::read_to_string(&around.config_file) {
        Ok(text) => layers.add_file(Origin::User(around.config_file.clone()), &text)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", around.config_file.display())),
    }
    if let Some(ProjectFile { path, text, is_trusted: true }) = project {
        layers.add_file(Origin::Project(path.clone()), text)?;
    }
    for (name, value) in &around.vars {
        let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
        let value = value.to_str().with_context(|| format!("the environment variable {name} is not text"))?;
        layers.add_variables([(name, value)])?;
    }
    let layered = layers.merge()?;
    setup::known_names(&layered.config).with_context(|| {
        let files =
            project.filter(|file| file.is_trusted).map(|file| &file.path).into_iter().chain([&around.config_file]);
        let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
        format!("the configuration ({}) makes no sense", files.join(" and "))
    })?;
    Ok(layered)
}

impl ProjectFile {
    fn of(workspace: &Path, around: &Surroundings) -> anyhow::Result<Option<Self>> {
        let Some(path) = trust::project_file(workspace) else { return Ok(None) };
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let is_trusted = Trust::in_folder(&around.data_dir).holds(&path, text.as_bytes())?;
        Ok(Some(Self { path, text, is_trusted }))
    }

    /// The one of this folder, which somebody has asked for.
    fn expected(around: &Surroundings) -> anyhow::Result<Self> {
        let workspace = around.workspace(None)?;
        Self::of(&workspace, around)?.with_context(|| {
            format!("there is no {PROJECT_FILE} in {} or above it in its repository", workspace.display())
        })
    }
}

/// Obeys one of the commands.
pub(crate) fn config(command: ConfigCommand, around: &Surroundings) -> anyhow::Result<u8> {
    match command {
        ConfigCommand::Show { origin } => show(origin, around)?,
        ConfigCommand::Path => path(around)?,
        ConfigCommand::Check { file } => check(file.as_deref(), around)?,
        ConfigCommand::Edit => return edit(around),
        ConfigCommand::Trust { yes } => return trust(yes, around),
        ConfigCommand::Untrust => {
            let ProjectFile { path, .. } = ProjectFile::expected(around)?;
            let had = Trust::in_folder(&around.data_dir).take_back(&path)?;
            let told = if had { "is not in force any more" } else { "was not trusted" };
            view::write_stderr(&format!("{} {told}\n", path.display()));
        }
        ConfigCommand::Schema => view::write_stdout(SCHEMA),
    }
    Ok(0)
}

/// Every key that is set, as a line of TOML.
fn show(with_origin: bool, around: &Surroundings) -> anyhow::Result<()> {
    let workspace = around.workspace(None)?;
    let project = ProjectFile::of(&workspace, around)?;
    for (key, (value, origin)) in layered(around, project.as_ref())?.settings {
        let value = if is_header(&key) { "\"…\"".to_owned() } else { value.to_string() };
        let line = view::clean(&format!("{key} = {value}"));
        match with_origin {
            true => view::write_stdout(&format!("{line:<48} # {origin}\n")),
            false => view::write_stdout(&format!("{line}\n")),
        }
    }
    if let Some(ProjectFile { path, is_trusted: false, .. }) = project {
        view::write_stderr(&format!("{} is not in force: piton config trust\n", path.display()));
    }
    Ok(())
}

/// Some gateways want a key there.
fn is_header(key: &str) -> bool {
    key.split('.').any(|key| key == "headers")
}

/// The files, from the first layer to the last, and what becomes of them.
fn path(around: &Surroundings) -> anyhow::Result<()> {
    let user = &around.config_file;
    let state = if user.is_file() { "" } else { " (not there)" };
    view::write_stdout(&format!("{}{state}\n", user.display()));
    if let Some(ProjectFile { path, is_trusted, .. }) = ProjectFile::of(&around.workspace(None)?, around)? {
        let state = if is_trusted { "" } else { " (not trusted)" };
        view::write_stdout(&format!("{}{state}\n", path.display()));
    }
    Ok(())
}

fn check(file: Option<&Path>, around: &Surroundings) -> anyhow::Result<()> {
    if let Some(file) = file {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut layers = Layers::default();
        layers.add_file(Origin::User(file.to_owned()), &text)?;
        setup::known_names(&layers.merge()?.config).with_context(|| file.display().to_string())?;
        view::write_stdout(&format!("{} is valid\n", file.display()));
        return Ok(());
    }
    let project = ProjectFile::of(&around.workspace(None)?, around)?;
    if let Some(ProjectFile { path, text, is_trusted: false }) = &project {
        Layers::default().add_file(Origin::Project(path.clone()), text)?;
        view::write_stdout(&format!("{} is valid, but not trusted\n", path.display()));
    }
    let settings = layered(around, project.as_ref())?.settings;
    let said = settings.values().filter(|(_, origin)| *origin != Origin::Default).count();
    view::write_stdout(&format!("the configuration is valid: {} set\n", view::plural(said as u64, "key")));
    Ok(())
}

/// Opens the user's own file in an editor, and looks at what came of it.
fn edit(around: &Surroundings) -> anyhow::Result<u8> {
    let file = &around.config_file;
    if !file.exists() {
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::write(file, TEMPLATE).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let editor = around.var("VISUAL").or(around.var("EDITOR")).unwrap_or("vi");
    // It may be a command with words of its own (`code --wait`), so a shell starts it.
    let status = Command::new("sh").args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file).status();
    let status = status.with_context(|| format!("cannot start the editor `{editor}`; name one in $EDITOR"))?;
    anyhow::ensure!(status.success(), "the editor `{editor}` ended with {status}");
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
    let ProjectFile { path, text, is_trusted } = ProjectFile::expected(around)?;
    if is_trusted {
        view::write_stderr(&format!("{} is in force already\n", path.display()));
        return Ok(0);
    }
    Layers::default().add_file(Origin::Project(path.clone()), &text)?;
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
    Trust::in_folder(&around.data_dir).give(&path, text.as_bytes())?;
    view::write_stderr("It is in force from now on, until it is changed.\n");
    Ok(0)
}
