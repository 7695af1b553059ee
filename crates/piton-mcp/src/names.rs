//! The names that models, rules and hooks know the tools of servers by.

/// Characters that a name may have: what every provider takes.
const MOST_CHARS: usize = 64;
/// Characters of the hash behind a name that was changed.
const HASH_CHARS: usize = 8;

/// `mcp__server__tool`, in which the server can be told from the tool. A name in which characters were replaced or cut, or that
/// could be read in two ways, ends in a hash.
pub(crate) fn of_tool(server: &str, tool: &str) -> String {
    let plain = format!("mcp__{server}__{tool}");
    let is_clear = !server.contains("__") && !server.ends_with('_') && !tool.starts_with('_') && !tool.is_empty();
    if is_clear && plain.len() <= MOST_CHARS && plain.chars().all(is_allowed) {
        return plain;
    }
    let hash = blake3::hash(format!("{server}\0{tool}").as_bytes()).to_hex();
    let kept = plain.chars().map(|char| if is_allowed(char) { char } else { '_' });
    let kept: String = kept.take(MOST_CHARS - HASH_CHARS - 1).collect();
    format!("{kept}_{}", &hash[..HASH_CHARS])
}

fn is_allowed(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_' || char == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_every_provider_and_differ_where_tools_differ() {
        assert_eq!(of_tool("files", "read_file"), "mcp__files__read_file");
        let odd = ["a.b", "a/b", "a b", "ä", "_b", "", &"long".repeat(40), &"long".repeat(41)];
        let names: std::collections::BTreeSet<_> = odd.iter().map(|tool| of_tool("s", tool)).collect();
        assert_eq!(names.len(), odd.len());
        assert!(names.iter().all(|name| name.len() <= MOST_CHARS && name.chars().all(is_allowed)), "{names:?}");
        for (one, other) in [(("a__b", "c"), ("a", "b__c")), (("a_", "b"), ("a", "_b"))] {
            assert_ne!(of_tool(one.0, one.1), of_tool(other.0, other.1));
        }
    }
}
