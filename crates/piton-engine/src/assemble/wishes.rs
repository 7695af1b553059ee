//! What a client asks of a session; it overrides files and environment variables.

use crate::agents::file::Read;
use crate::config::layers::{Flag, Value};
use crate::config::trust::RunTrust;
use crate::hooks::OutputSchema;
use piton_core::configure::Configure;
use piton_core::effort::Effort;
use piton_core::permission::PermissionMode;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that can be wished. The default wishes nothing.
#[derive(Default)]
pub struct Wishes {
    /// Settings, as the topmost layer of the configuration.
    pub flags: Vec<Flag>,
    /// The models that the session was asked with before, and what clients have changed of how it is run. They stand between the
    /// configuration and flags.
    pub had: Configure,
    /// What becomes of calls that the rules would ask about.
    pub mode: Option<PermissionMode>,
    /// Whether a person sees the notices before anything is done.
    pub is_watched: bool,
    /// Whether a person or a program may be there to answer what the model asks.
    pub asks_people: bool,
    /// Whether to trust the repository's hooks in their current form.
    pub trust_hooks: bool,
    /// Whether secrets are left in what is kept, shown and sent.
    pub no_redact: bool,
    /// What of the repository counts in this run, beside what the user trusts.
    pub trust: RunTrust,
    /// MCP servers beside those of files: each a file, or JSON.
    pub mcp_config: Vec<String>,
    /// Folders of plugins for this run.
    pub plugin_dirs: Vec<PathBuf>,
    /// Agents for this run, which come before all others of their names.
    pub agents: Vec<Read>,
    /// The schema that the answer must satisfy.
    pub output_schema: Option<Arc<OutputSchema>>,
    /// Where the models' replies are recorded as a cassette.
    pub tape: Option<File>,
    /// Cassettes that the program brings along: name and text. They are asked as `recorded/NAME`.
    pub cassettes: &'static [(&'static str, &'static str)],
}

impl Wishes {
    /// A flag that says who runs the session counts no more: a person has said otherwise since.
    pub fn forget_agent(&mut self) {
        self.flags.retain(|flag| !flag.sets("agent"));
    }

    /// Flags that say by which agent, model and effort the session is run count no more: what is on record does, and this effort if one
    /// is given.
    pub fn forget_flags(&mut self, effort: Option<Effort>) {
        self.forget_agent();
        self.flags.retain(|flag| !flag.sets("model"));
        if let Some(effort) = effort {
            self.flags.retain(|flag| !sets_effort(flag));
            let value = Value::from(effort.word());
            self.flags.push(Flag::Key { flag: "--effort", key: &["answers", "effort"], value });
        }
    }

    /// Whether a flag says who runs the session.
    pub(super) fn say_agent(&self) -> bool {
        self.flags.iter().any(|flag| flag.sets("agent"))
    }

    /// Whether a flag says how much the session's models think.
    pub(super) fn say_effort(&self) -> bool {
        self.flags.iter().any(sets_effort)
    }

    /// Whether a flag sets the sampling temperature of the session's models.
    pub(super) fn say_temperature(&self) -> bool {
        let key = ["answers", "temperature"];
        let is_said = |flag: &Flag| matches!(flag, Flag::Key { key: said, .. } if *said == key);
        self.flags.iter().any(|flag| is_said(flag) || flag.sets("answers.temperature"))
    }

    /// What a session keeps of a permission mode, an effort and tools that a client switched it to.
    pub fn kept(&self) -> Configure {
        let Configure { mode, effort, tools, .. } = &self.had;
        let effort = effort.filter(|_| !self.say_effort());
        let mode = mode.filter(|_| self.mode.is_none());
        Configure { mode, effort, tools: tools.clone(), ..Configure::default() }
    }
}

fn sets_effort(flag: &Flag) -> bool {
    matches!(flag, Flag::Key { key: ["answers", "effort"], .. }) || flag.sets("answers.effort")
}
