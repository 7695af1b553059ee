//! What people are told of MCP servers while they work: once of each that cannot be used, and of each that offers something that was
//! left out.

use super::print::clean;
use piton_core::client::ServerNow;
use std::collections::HashSet;

/// Characters of a reason.
const MOST_CHARS: usize = 300;

/// Which servers were told of.
#[derive(Debug, Default)]
pub(crate) struct ServerNews {
    troubled: HashSet<String>,
    /// With what was left out: another tool is news.
    cut: HashSet<(String, Vec<String>)>,
}

impl ServerNews {
    /// What is to be told now, a line each. It counts as told.
    pub(crate) fn lines(&mut self, servers: &[ServerNow]) -> Vec<String> {
        let mut lines = Vec::new();
        for ServerNow { name, why, left_out, .. } in servers {
            if let Some(why) = why
                && self.troubled.insert(name.clone())
            {
                lines.push(format!("the MCP server {} cannot be used: {}", clean(name), cut(why)));
            }
            if let Some(first) = left_out.first()
                && self.cut.insert((name.clone(), left_out.clone()))
            {
                let more = match left_out.len() - 1 {
                    0 => String::new(),
                    more => format!(", and {more} more (`piton mcp show {}`)", clean(name)),
                };
                lines.push(format!("of the MCP server {}: {}{more}", clean(name), cut(first)));
            }
        }
        lines
    }
}

fn cut(words: &str) -> String {
    clean(&words.chars().take(MOST_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_is_told_of_once() {
        let mut news = ServerNews::default();
        let server = |why: Option<&str>, left_out: &[&str]| ServerNow {
            name: "db".to_owned(),
            state: "ready".to_owned(),
            tools: 1,
            why: why.map(str::to_owned),
            left_out: left_out.iter().map(|what| (*what).to_owned()).collect(),
        };
        assert!(news.lines(&[server(None, &[])]).is_empty());
        let both = server(Some("it\u{1b} crashed"), &["the tool a was left out: too large", "the tool b"]);
        let told = news.lines(std::slice::from_ref(&both));
        assert_eq!(
            told,
            [
                "the MCP server db cannot be used: it\\u{1b} crashed",
                "of the MCP server db: the tool a was left out: too large, and 1 more (`piton mcp show db`)",
            ]
        );
        assert!(news.lines(&[both]).is_empty());
        assert_eq!(
            news.lines(&[server(Some("it crashed again"), &["the tool c"])]),
            ["of the MCP server db: the tool c"]
        );
    }
}
