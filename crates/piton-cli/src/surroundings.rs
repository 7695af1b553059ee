//! Everything that is read from outside the command line: environment, home, working folder, terminal, date.

use crate::failure::{Context, Result, bail, ensure};
use piton_engine::assemble::Machine;
use piton_tools::runner::is_in_a_call;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Where a person types answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminal {
    Stdin,
    /// At the terminal itself, by [`CONTROLLING`], while something else is piped in.
    Controlling,
}

/// The terminal that a process was started at, whatever its standard input is.
pub(crate) const CONTROLLING: &str = "/dev/tty";

/// What the process was started into.
#[derive(Clone)]
pub(crate) struct Surroundings {
    /// What sessions need. Data lie in `$PITON_DATA_DIR`, else `$XDG_DATA_HOME/piton`, else `~/.local/share/piton`; the
    /// configuration is `$PITON_CONFIG`, else `$XDG_CONFIG_HOME/piton/config.toml`, else `~/.config/piton/config.toml`.
    pub(crate) machine: Machine,
    pub(crate) temp_dir: PathBuf,
    pub(crate) stdin_is_terminal: bool,
    pub(crate) stdout_is_terminal: bool,
    pub(crate) stderr_is_terminal: bool,
    /// Where a person is asked, if one watches.
    pub(crate) person: Option<Terminal>,
    /// Milliseconds since the Unix epoch.
    pub(crate) now_ms: u64,
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
impl Surroundings {
    /// Fails where a command of a session runs this: the model would say for itself what it is trusted with.
    pub(crate) fn only_by_a_person(&self) -> Result<()> {
        if is_in_a_call(&self.machine.data_dir) {
            bail!(
                "a command of a session changes neither Piton's configuration nor what it trusts: run this in a terminal of your own"
            );
        }
        Ok(())
    }

    /// Reads them once.
    pub(crate) fn read() -> Result<Self> {
        let vars: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let path = |name: &str| vars.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = path("HOME");
        let under = |own: &str, xdg: &str, below_home: &str| {
            let shared = path(xdg).filter(|dir| dir.is_absolute()).or_else(|| Some(home.clone()?.join(below_home)));
            path(own).map_or_else(|| shared.map(|dir| (dir, false)), |dir| Some((dir, true)))
        };
        let missing = "neither HOME nor XDG folders are set: say where to keep sessions with PITON_DATA_DIR=DIR";
        let data_dir = match under("PITON_DATA_DIR", "XDG_DATA_HOME", ".local/share").context(missing)? {
            (own, true) => own,
            (shared, false) => shared.join("piton"),
        };
        let (config_file, config_is_named) = match under("PITON_CONFIG", "XDG_CONFIG_HOME", ".config") {
            Some((own, true)) => (own, true),
            Some((shared, false)) => (shared.join("piton/config.toml"), false),
            None => (data_dir.join("config.toml"), false),
        };
        let machine = Machine {
            exe: std::env::current_exe().context("cannot find the piton binary itself")?,
            data_dir: by_its_real_name(&std::path::absolute(data_dir)?),
            config_file,
            config_is_named,
            today: jiff::Zoned::now().date().to_string(),
            vars,
        };
        let (stdin_is_terminal, stderr_is_terminal) = (std::io::stdin().is_terminal(), std::io::stderr().is_terminal());
        let person = match (stderr_is_terminal, stdin_is_terminal) {
            (false, _) => None,
            (true, true) => Some(Terminal::Stdin),
            (true, false) => File::open(CONTROLLING).ok().map(|_| Terminal::Controlling),
        };
        Ok(Self {
            machine,
            temp_dir: std::env::temp_dir(),
            stdin_is_terminal,
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal,
            person,
            now_ms: u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default(),
        })
    }

    /// Whether lines may be drawn over on standard error: a terminal that knows how, and nobody who minds.
    pub(crate) fn may_animate(&self) -> bool {
        self.stderr_is_terminal && self.machine.var("NO_COLOR").is_none() && self.machine.var("TERM") != Some("dumb")
    }

    /// Whether prose on standard output may be drawn: a terminal that knows how, with a person who looks at both streams.
    pub(crate) fn may_render(&self) -> bool {
        self.stdout_is_terminal && self.stderr_is_terminal && self.machine.var("TERM") != Some("dumb")
    }

    /// The folder to work in, absolute and with links resolved.
    pub(crate) fn workspace(&self, said: Option<&Path>) -> Result<PathBuf> {
        let dir = match said {
            Some(dir) => dir.to_path_buf(),
            None => std::env::current_dir()
                .context("the current folder cannot be read (was it removed?); name one with --cwd DIR")?,
        };
        let real = dir.canonicalize().with_context(|| format!("cannot work in {}", dir.display()))?;
        ensure!(real.is_dir(), "cannot work in {}: it is not a folder", real.display());
        std::fs::read_dir(&real).with_context(|| format!("cannot work in {}: it cannot be read", real.display()))?;
        Ok(real)
    }
}

/// A path without links, as far as it is there: who opens what lies in the data folder follows none.
fn by_its_real_name(path: &Path) -> PathBuf {
    let real = |above: &Path| {
        let (real, below) = (above.canonicalize().ok()?, path.strip_prefix(above).ok()?);
        Some(if below.as_os_str().is_empty() { real } else { real.join(below) })
    };
    path.ancestors().find_map(real).unwrap_or_else(|| path.to_owned())
}
