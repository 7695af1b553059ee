//! Names of the tools of MCP servers, `mcp__server__tool`, and what a name in a list or a rule means by them.
//!
//! The name of a server never contains `__`, so the first `__` behind it ends it.

/// How the name of every such tool begins.
pub const PREFIX: &str = "mcp__";
/// The tool that finds them.
pub const SEARCH: &str = "tool_search";
/// The tool that calls one by its name.
pub const CALL: &str = "call_tool";
/// The tool that reads what a server offers as a resource.
pub const READ: &str = "read_resource";
/// How the name begins by which rules are about a server that asks models.
pub const SAMPLING: &str = "sampling__";

/// The name by which rules are about this server asking models: `sampling__server`.
pub fn sampling(server: &str) -> String {
    format!("{SAMPLING}{server}")
}

/// Whether a name in a list means this tool: the same name, `mcp__server` for all of a server, or a beginning followed by `*`.
pub fn is_meant(name: &str, tool: &str) -> bool {
    if let Some(stem) = name.strip_suffix('*') {
        return tool.starts_with(stem);
    }
    name == tool || (is_server(name) && tool.strip_prefix(name).is_some_and(|rest| rest.starts_with("__")))
}

/// The same, of a name that holds tools back: in every spelling of the server's name, as its file writes it and as another program
/// would. Servers whose names differ in nothing but such characters are meant together.
pub fn may_be_meant(name: &str, tool: &str) -> bool {
    if is_meant(name, tool) {
        return true;
    }
    let Some(said) = name.strip_prefix(PREFIX) else { return false };
    let Some((server, own)) = tool.strip_prefix(PREFIX).and_then(|rest| rest.split_once("__")) else { return false };
    let is_server = |said: &str| squashed(said) == squashed(server);
    let whole = said.strip_suffix('*').map_or(said, |stem| stem.trim_end_matches('_'));
    // What is written in front of a `*` is a whole name only where the two strokes behind it end it.
    let is_whole = !said.ends_with('*') || said.ends_with("__*");
    if is_whole && is_server(whole) {
        return true;
    }
    said.match_indices("__").any(|(at, _)| is_server(&said[..at]) && is_own(&said[at + 2..], own))
}

/// Whether this is how a rule may write a tool's own name.
fn is_own(said: &str, own: &str) -> bool {
    let said = (squashed(said.trim_end_matches('*')), said.ends_with('*'));
    let is_said = |own: &str| match &said {
        (stem, true) => squashed(own).starts_with(stem),
        (name, false) => squashed(own) == *name,
    };
    // A name that did not fit ends in a hash.
    let is_hash = |end: &str| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_said(own) || own.rsplit_once('_').is_some_and(|(name, end)| is_hash(end) && is_said(name))
}

/// A name without what programs spell differently: one `_` for each run of what is no letter and no digit.
fn squashed(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

/// Whether a name means all tools of a server: `mcp__server`.
pub fn is_server(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|server| !server.is_empty() && !server.contains("__"))
}

/// Whether tools that were chosen by name include this one. Who names no tool of a server, but the tool that calls them, has
/// chosen all of them; who names some has chosen what it takes to find and call these.
pub fn is_chosen(chosen: &[String], tool: &str) -> bool {
    let has = |tool: &str| chosen.iter().any(|name| name == tool);
    let names_some = || chosen.iter().any(|name| name.starts_with(PREFIX));
    match tool {
        SEARCH | CALL => has(tool) || names_some(),
        tool if tool.starts_with(PREFIX) => {
            chosen.iter().any(|name| is_meant(name, tool)) || (has(CALL) && !names_some())
        }
        tool => has(tool),
    }
}

/// The server that a tool of this name is of, as far as the name says.
pub fn server_of(tool: &str) -> Option<&str> {
    let (server, own) = tool.strip_prefix(PREFIX)?.split_once("__")?;
    (!server.is_empty() && !own.is_empty()).then_some(server)
}

/// The server and the beginning of an address, of a line that ends with a reference to a resource: `@server:uri`.
pub fn reference(line: &str) -> Option<(&str, &str)> {
    let last = line.rsplit(char::is_whitespace).next().unwrap_or_default();
    let (server, uri) = last.strip_prefix('@')?.split_once(':')?;
    let is_name = !server.is_empty() && server.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_name.then_some((server, uri))
}

/// Whether servers may know how a line goes on that ends at the cursor: it names a prompt (`/mcp__server__prompt words`), or ends with
/// a reference.
pub fn is_about_servers(line: &str) -> bool {
    line.strip_prefix('/').is_some_and(|words| words.starts_with(PREFIX)) || reference(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_about_servers_are_theirs() {
        for line in ["/mcp__", "/mcp__db__explain us", "see @db:db://ta", "@db:"] {
            assert!(is_about_servers(line), "{line}");
        }
        for line in ["", "/model", "/mcp", "@src/lib.rs", "mail me@db:x", "@a/b:c", "@db:x and"] {
            assert!(!is_about_servers(line), "{line}");
        }
    }

    #[test]
    fn a_name_means_a_tool_a_server_or_what_begins_so() {
        for name in ["mcp__db__query", "mcp__db", "mcp__db__*", "mcp__*", "*"] {
            assert!(is_meant(name, "mcp__db__query"), "{name}");
        }
        for name in ["mcp__d", "mcp__db__quer", "mcp__db__query2", "mcp", "db"] {
            assert!(!is_meant(name, "mcp__db__query"), "{name}");
        }
        assert!(!is_meant("mcp__db", "mcp__dbs__query"));
        assert_eq!(server_of("mcp__my-db__run__all"), Some("my-db"));
        assert_eq!(["mcp__db", "mcp____x", "bash", "mcp__db__"].map(server_of), [None; 4]);
    }

    #[test]
    fn what_holds_a_tool_back_does_in_every_spelling_of_its_servers_name() {
        let all = [
            ("mcp__my server__drop", "mcp__my_server__drop"),
            ("mcp__my_server__drop", "mcp__my-server__drop"),
            ("mcp__my-server", "mcp__my_server__drop"),
            ("mcp__a__b__drop", "mcp__a_b__drop"),
            ("mcp__a__b", "mcp__a_b__drop"),
            ("mcp__a__b__*", "mcp__a_b__drop"),
            ("mcp__a.b__dr*", "mcp__a_b__drop"),
            ("mcp__db__a_b", "mcp__db__a_b_0123abcd"),
        ];
        for (said, tool) in all {
            assert!(may_be_meant(said, tool), "{said} {tool}");
        }
        let others = [
            ("mcp__db", "mcp__db-prod__drop"),
            ("mcp__db__drop", "mcp__db__drop_all"),
            ("mcp__a_b", "mcp__a__b"),
            ("mcp__a__b__drop", "mcp__a__b"),
            ("db", "mcp__db__drop"),
        ];
        for (said, tool) in others {
            assert!(!may_be_meant(said, tool), "{said} {tool}");
        }
    }

    #[test]
    fn who_names_a_servers_tool_can_call_it_and_no_other() {
        let chosen = |names: &[&str], tool: &str| {
            is_chosen(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), tool)
        };
        let some = ["read", "mcp__db__query"];
        assert!(
            chosen(&some, "read") && chosen(&some, SEARCH) && chosen(&some, CALL) && chosen(&some, "mcp__db__query")
        );
        assert!(!chosen(&some, "mcp__db__drop") && !chosen(&some, "bash") && !chosen(&some, READ));
        assert!(chosen(&["call_tool"], "mcp__db__drop") && !chosen(&["read"], "mcp__db__drop"));
    }
}
