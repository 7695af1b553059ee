//! The editor of whoever sits here, for files of theirs, and their pager, for what is too long for a screen.

use crate::failure::{Context, Result, bail, ensure};
use crate::surroundings::{CONTROLLING, Surroundings};
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

/// An editor that is there.
pub(crate) struct Editor {
    /// As `$EDITOR` says it, with words of its own where it has some.
    command: String,
    env: Env,
}

impl Editor {
    /// The one that the environment names, if it can be started.
    pub(crate) fn named(around: &Surroundings) -> Result<Self> {
        let named = ["VISUAL", "EDITOR"].iter().find_map(|name| around.machine.var(name)).map(str::trim);
        let Some(command) = named.filter(|editor| !editor.is_empty()) else {
            bail!("there is no editor to open: name one in $EDITOR");
        };
        let program = command.split_whitespace().next().unwrap_or_default();
        // What only a shell understands is its business.
        let is_plain = program.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
        let is_there = if program.contains('/') {
            Path::new(program).is_file()
        } else {
            around.machine.find_program(program).is_some()
        };
        ensure!(!is_plain || is_there, "the editor `{command}` is not there; name another one in $EDITOR");
        Ok(Self { command: command.to_owned(), env: Env::new(around.machine.vars.clone()) })
    }

    /// That one, or else `vi` where there is a terminal for it.
    pub(crate) fn at_hand(around: &Surroundings) -> Result<Self> {
        let has_terminal = around.stdin_is_terminal && around.stdout_is_terminal;
        match Self::named(around) {
            Err(_) if has_terminal && around.machine.var("VISUAL").or(around.machine.var("EDITOR")).is_none() => {
                Ok(Self { command: "vi".to_owned(), env: Env::new(around.machine.vars.clone()) })
            }
            named => named,
        }
    }

    /// Opens a file, and waits until the person is done with it.
    pub(crate) fn open(&self, file: &Path) -> Result<()> {
        let editor = &self.command;
        // It may be a command with words of its own (`code --wait`), so a shell starts it.
        let script = format!("{editor} \"$1\"");
        let argv = ["sh", "-c", &script, "sh"].map(OsStr::new).into_iter().chain([file.as_os_str()]);
        let spawn = Spawn::new(argv, &self.env, ".", Confinement::User);
        let status = spawn.start(Group::Ours, Streams::inherited()).and_then(|mut editor| editor.wait());
        let status = status.with_context(|| format!("cannot start the editor `{editor}`; name one in $EDITOR"))?;
        ensure!(status.success(), "the editor `{editor}` ended with {status}");
        Ok(())
    }
}

/// The program that shows long texts.
pub(crate) struct Pager {
    /// As `$PAGER` says it, with words of its own where it has some.
    command: Option<String>,
    env: Env,
    temp_dir: PathBuf,
}

impl Pager {
    /// The one that the environment names, else the one that is there.
    pub(crate) fn at_hand(around: &Surroundings) -> Self {
        let named = around.machine.var("PAGER").map(str::trim).filter(|pager| !pager.is_empty());
        let usual = ["less", "more"].into_iter().find(|pager| around.machine.find_program(pager).is_some());
        let env = Env::new(around.machine.vars.clone());
        Self { command: named.or(usual).map(str::to_owned), env, temp_dir: around.temp_dir.clone() }
    }

    /// Shows a text at the terminal, and waits until the person has seen it.
    pub(crate) fn show(&self, text: &str) -> Result<()> {
        let pager = self.command.as_deref().context("there is no pager: name one in $PAGER")?;
        let file = tempfile::Builder::new().prefix("piton-question-").suffix(".txt").tempfile_in(&self.temp_dir);
        let mut file = file.with_context(|| format!("cannot write in {}", self.temp_dir.display()))?;
        writeln!(file, "{text}").with_context(|| format!("cannot write {}", file.path().display()))?;
        // Standard input and output may be pipes.
        let script = format!("{pager} \"$1\" <{CONTROLLING} >{CONTROLLING}");
        let argv = ["sh", "-c", &script, "sh"].map(OsStr::new).into_iter().chain([file.path().as_os_str()]);
        let spawn = Spawn::new(argv, &self.env, ".", Confinement::User);
        let status = spawn.start(Group::Ours, Streams::inherited()).and_then(|mut pager| pager.wait());
        let status = status.with_context(|| format!("cannot start the pager `{pager}`; name one in $PAGER"))?;
        ensure!(status.success(), "the pager `{pager}` ended with {status}");
        Ok(())
    }
}
