//! What a client asks of a session; it overrides files and environment variables.

use crate::config::layers::Flag;
use crate::hooks::OutputSchema;
use piton_core::configure::Configure;
use piton_core::permission::PermissionMode;
use piton_models::options::Options;
use piton_models::text_tools;
use std::fs::File;

/// Everything that can be wished. The default wishes nothing.
#[derive(Default)]
pub struct Wishes {
    /// Settings, as the topmost layer of the configuration.
    pub flags: Vec<Flag>,
    /// The models to ask, as `provider/name`; `a/x,b/y` asks b/y where a/x gives no reply.
    pub model: Option<String>,
    /// The models that the session was asked with before, and what clients have changed of how it is run.
    pub had: Configure,
    /// What is set about the answers of those models. It wins over what the configuration says of each.
    pub answers: Options,
    /// How those models call tools, if not by themselves.
    pub text_tools: Option<text_tools::Mode>,
    /// What becomes of calls that the rules would ask about.
    pub mode: Option<PermissionMode>,
    /// Whether a person sees the notices before anything is done.
    pub is_watched: bool,
    /// Whether to trust the repository's hooks in their current form.
    pub trust_hooks: bool,
    /// The schema that the answer must satisfy.
    pub output_schema: Option<OutputSchema>,
    /// Where the models' replies are recorded as a cassette.
    pub tape: Option<File>,
    /// Cassettes that the program brings along: name and text. They are asked as `recorded/NAME`.
    pub cassettes: &'static [(&'static str, &'static str)],
}
