//! What a client asks of a session; it overrides files and environment variables.

use crate::config::layers::Flag;
use crate::hooks::OutputSchema;
use std::fs::File;
use std::sync::Arc;

/// Everything that can be wished. The default wishes nothing.
#[derive(Default)]
pub struct Wishes {
    /// Settings, as the topmost layer of the configuration.
    pub flags: Vec<Flag>,
    /// The models that the session was asked with before. They stand between the configuration and a flag that sets `model`.
    pub had: Option<String>,
    /// Whether every question is answered by yes. What is forbidden stays forbidden.
    pub yes: bool,
    /// Whether a person sees the notices before anything is done.
    pub is_watched: bool,
    /// Whether to trust the repository's hooks in their current form.
    pub trust_hooks: bool,
    /// The schema that the answer must satisfy.
    pub output_schema: Option<Arc<OutputSchema>>,
    /// Where the models' replies are recorded as a cassette.
    pub tape: Option<File>,
    /// Cassettes that the program brings along: name and text. They are asked as `recorded/NAME`.
    pub cassettes: &'static [(&'static str, &'static str)],
}
