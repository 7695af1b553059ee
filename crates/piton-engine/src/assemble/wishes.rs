//! What a client asks of a session; it overrides files and environment variables.

use crate::config::layers::Flag;
use crate::config::trust::RunTrust;
use crate::hooks::OutputSchema;
use piton_core::configure::Configure;
use piton_core::permission::PermissionMode;
use std::fs::File;
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
    /// Whether to trust the repository's hooks in their current form.
    pub trust_hooks: bool,
    /// What of the repository counts in this run, beside what the user trusts.
    pub trust: RunTrust,
    /// The schema that the answer must satisfy.
    pub output_schema: Option<Arc<OutputSchema>>,
    /// Where the models' replies are recorded as a cassette.
    pub tape: Option<File>,
    /// Cassettes that the program brings along: name and text. They are asked as `recorded/NAME`.
    pub cassettes: &'static [(&'static str, &'static str)],
}

impl Wishes {
    /// What a session keeps of a permission mode and tools that a client switched it to.
    pub fn kept(&self) -> Configure {
        let Configure { mode, tools, .. } = &self.had;
        Configure { model: None, mode: mode.filter(|_| self.mode.is_none()), tools: tools.clone() }
    }
}
