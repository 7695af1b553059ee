//! What the model is told beyond the conversation: the system prompt, the same bytes for every session, and a short
//! note on where it is, in front of the first message.

use std::path::Path;

/// The system prompt. Short on purpose: with the tools' schemas it is the price of every first request.
pub const SYSTEM_PROMPT: &str = include_str!("context/system.md");

/// The note in front of a session's first message. The day is given by the caller: libraries read no clock.
pub fn environment_note(workspace: &Path, today: &str) -> String {
    let git = if workspace.join(".git").exists() { "yes" } else { "no" };
    format!(
        "Working folder: {}\nGit repository: {git}\nSystem: {} ({})\nToday: {today}",
        workspace.display(),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}
