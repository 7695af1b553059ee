//! The commands that begin with `/`: their names, what may follow, and what they do.

/// A command of the face, or of whoever wires it to sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Without the slash.
    pub name: String,
    /// What may follow, as a hint.
    pub takes: String,
    /// What it does, in one line.
    pub does: String,
    /// Where it comes from, where it is not Piton's own.
    pub from: String,
}

/// Piton's own: name, what may follow, what it does.
const OWN: [(&str, &str, &str); 38] = [
    ("help", "", "keys and commands"),
    ("model", "[PROVIDER/NAME]", "switch models"),
    ("agent", "[NAME]", "have another agent run the session"),
    ("effort", "[low|medium|high|…]", "how long the model thinks"),
    ("mode", "[ask|accept-edits|plan|auto]", "set the permission mode"),
    ("resume", "[ID or words]", "go on with another session"),
    ("sessions", "", "list sessions: preview, rename, delete"),
    ("new", "", "begin a new session"),
    ("fork", "", "start a new session from this point"),
    ("name", "TITLE", "give the session a title"),
    ("rewind", "", "choose a turn to go back to"),
    ("undo", "[TURNS]", "take back the last turn, words and files"),
    ("redo", "", "bring back what was taken back last"),
    ("diff", "[turn [N]|session|git]", "what was changed, hunk by hunk; one can be taken back"),
    ("context", "[--plain]", "what the context is made of"),
    ("cost", "[--plain]", "what it cost, by turn, model, agent and tool"),
    ("cache", "[--plain]", "what the provider's cache did for each step"),
    ("trace", "[--plain]", "what happened when: model, tools, waits, subagents"),
    ("continue", "", "go on with a turn that was cut off"),
    ("compact", "[FOCUS]", "summarize the conversation"),
    ("todo", "", "the list of todos"),
    ("tasks", "", "commands in the background"),
    ("agents", "", "the subagents, and what each does"),
    ("transcript", "", "the whole session, with times and models"),
    ("permissions", "", "the rules in force"),
    ("mcp", "", "MCP servers: what they are doing, and their tools"),
    ("trust", "", "trust what this repository brings along, or stop"),
    ("skills", "", "the skills there are, and where each comes from"),
    ("hooks", "", "list hooks"),
    ("config", "[KEY VALUE]", "the settings in force, where each comes from; changes one"),
    ("theme", "[auto|dark|light|…|FILE]", "other colors, of Piton's or your own"),
    ("tui", "[full|inline]", "use the whole screen, or the scrollback"),
    ("export", "[FILE]", "write the session as Markdown"),
    ("copy", "[N] [code]", "copy the last answer, the one N answers ago, or its code"),
    ("doctor", "", "check this machine"),
    ("keys", "", "which key does what"),
    ("clear", "", "begin a new session"),
    ("quit", "", "leave"),
];

/// Piton's own commands.
pub fn own() -> Vec<Command> {
    let own = |(name, takes, does): &(&str, &str, &str)| Command {
        name: (*name).to_owned(),
        takes: (*takes).to_owned(),
        does: (*does).to_owned(),
        from: String::new(),
    };
    OWN.iter().map(own).collect()
}

/// The name and the rest of a line that is a command. A path is none: `/usr/bin` has a slash in it.
pub(crate) fn parse(line: &str) -> Option<(&str, &str)> {
    let words = line.trim().strip_prefix('/')?;
    let (name, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let is_name = !name.is_empty() && !name.contains(['/', '.']);
    is_name.then(|| (name, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_command() {
        assert_eq!(parse("/model a/x "), Some(("model", "a/x")));
        assert_eq!(parse("/quit"), Some(("quit", "")));
        assert_eq!(parse("/usr/bin is full"), None);
        assert_eq!(parse("/"), None);
        assert_eq!(parse("what is /etc?"), None);
    }
}
