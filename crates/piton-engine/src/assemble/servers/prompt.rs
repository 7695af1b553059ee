//! Prompts of servers, said like slash commands: `/mcp__server__prompt words`.

use crate::commands::{CommandError, Expanded};
use piton_core::hidden;
use piton_core::server_tool::{PREFIX, server_of};
use piton_core::template::Piece;
use piton_tools::servers::{Server, ServerContent, ServerPrompt, Servers};
use std::sync::Arc;
use tokio::runtime::Handle;

/// Bytes of a prompt.
const MOST_BYTES: usize = 100_000;

/// What a prompt of a server comes to; `None`: the name is no server's. Must be called where a thread may block.
pub(in super::super) fn prompt(
    servers: &Arc<dyn Servers>,
    name: &str,
    words: &str,
) -> Option<Result<Expanded, CommandError>> {
    let of = server_of(name)?;
    servers.servers().iter().find(|server| server.name == of)?;
    let runtime = Handle::try_current().ok()?;
    Some(runtime.block_on(asked(&**servers, of, name, words)).map_err(CommandError::Server))
}

async fn asked(servers: &dyn Servers, of: &str, name: &str, words: &str) -> Result<Expanded, String> {
    servers.ready(of).await?;
    let all = servers.servers();
    let server = all.iter().find(|server| server.name == of).ok_or("it is gone")?;
    let prompt = named(server, name)?;
    let arguments = arguments(prompt, words)?;
    let ServerContent { mut text, pictures } = servers.prompt(of, &prompt.name, arguments).await?;
    if text.trim().is_empty() {
        return Err(format!("the server {of} gave nothing for it"));
    }
    if text.len() > MOST_BYTES {
        text.truncate(text.floor_char_boundary(MOST_BYTES));
        text.push_str("\n[cut: the server gave more]");
    }
    Ok(Expanded { pictures, ..Expanded::of(vec![Piece::Given(text)]) })
}

fn named<'s>(server: &'s Server, name: &str) -> Result<&'s ServerPrompt, String> {
    let said = |prompt: &ServerPrompt| format!("{PREFIX}{}__{}", server.name, said(&prompt.name));
    let found = server.prompts.iter().find(|prompt| said(prompt) == name);
    found.ok_or_else(|| {
        let all: Vec<String> = server.prompts.iter().map(|prompt| format!("/{}", said(prompt))).collect();
        let there = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        format!("the server {} has no such prompt; it has {there}", server.name)
    })
}

/// The name of a prompt as a command can have it.
pub(super) fn said(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || "-_.:".contains(c) { c } else { '-' }).collect()
}

/// The words as arguments: `name=value`, and the others in order. The last one takes all that is left.
fn arguments(prompt: &ServerPrompt, words: &str) -> Result<Vec<(String, String)>, String> {
    let mut given: Vec<(String, String)> = Vec::new();
    let is_open = |given: &[(String, String)], name: &str| !given.iter().any(|(known, _)| known == name);
    let mut rest = words.trim();
    while !rest.is_empty() {
        let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let named = word.split_once('=').filter(|(name, _)| prompt.arguments.iter().any(|(known, ..)| known == name));
        if let Some((name, value)) = named {
            given.push((name.to_owned(), value.to_owned()));
            rest = behind.trim_start();
            continue;
        }
        let mut open = prompt.arguments.iter().map(|(name, ..)| name).filter(|name| is_open(&given, name));
        let Some(name) = open.next() else {
            let takes = prompt.arguments.len();
            return Err(format!("`{}` is a word too many: it takes {takes}", hidden::visible_name(word)));
        };
        let is_last = open.next().is_none();
        let value = if is_last { rest } else { word };
        given.push((name.clone(), value.to_owned()));
        rest = if is_last { "" } else { behind.trim_start() };
    }
    let missing: Vec<String> = prompt
        .arguments
        .iter()
        .filter(|(name, _, is_required)| *is_required && is_open(&given, name))
        .map(|(name, ..)| hidden::visible_name(name))
        .collect();
    match missing.is_empty() {
        true => Ok(given),
        false => Err(format!("it needs {}", missing.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_testkit::servers::{Part, PlayedServers};

    #[tokio::test]
    async fn a_prompt_is_cut_and_comes_with_its_pictures() {
        let played = Part { prompts: vec![prompt(&[("who", true)])], ..Part::ready("db", []) };
        let servers = PlayedServers::new([played]);
        let long = "x".repeat(2 * MOST_BYTES);
        let expanded = asked(&*servers, "db", "mcp__db__greet", &long).await.expect("a prompt");
        let [Piece::Given(text)] = &expanded.pieces[..] else { panic!("one text") };
        assert!(text.len() < MOST_BYTES + 100 && text.ends_with("[cut: the server gave more]"));
        assert_eq!(expanded.pictures.len(), 1);
    }

    fn prompt(arguments: &[(&str, bool)]) -> ServerPrompt {
        let arguments =
            arguments.iter().map(|(name, required)| ((*name).to_owned(), String::new(), *required)).collect();
        ServerPrompt { name: "greet".into(), description: String::new(), arguments }
    }

    #[test]
    fn words_become_arguments_in_order_or_by_name() {
        let of = |words: &str| {
            let given = arguments(&prompt(&[("who", true), ("how", false)]), words)?;
            Ok::<String, String>(given.iter().map(|(name, value)| format!("{name}={value};")).collect())
        };
        assert_eq!(of("Ann very kindly").as_deref(), Ok("who=Ann;how=very kindly;"));
        assert_eq!(of("how=kindly Ann Lee").as_deref(), Ok("how=kindly;who=Ann Lee;"));
        assert_eq!(of(" "), Err("it needs who".to_owned()));
        assert!(arguments(&prompt(&[]), "x").unwrap_err().contains("a word too many"));
    }
}
