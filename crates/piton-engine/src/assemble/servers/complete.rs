//! What a line that is being typed may go on with, as far as servers know: names and arguments of their prompts
//! (`/mcp__server__prompt words`), and their resources (`@server:uri`).
//!
//! No server is started or waited for: one that is not ready offers what it had the last time, and completes no argument.

use super::prompt::said;
use piton_core::server_tool::{PREFIX, reference, server_of};
use piton_tools::servers::{Completed, Server, ServerPrompt, ServerResource, Servers};

/// Offers at a time.
const MOST_OFFERS: usize = 50;

/// What the last word of a line may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What it is called.
    pub label: String,
    /// What else there is to know of it.
    pub detail: String,
    /// What stands in the place of the word. It ends with a blank where nothing more belongs to the word.
    pub value: String,
}

/// How a line may go on, which ends at the cursor.
pub async fn complete(servers: &dyn Servers, line: &str) -> Vec<Offer> {
    let all = servers.servers();
    let mut offers = if let Some((server, uri)) = reference(line) {
        match all.iter().find(|known| known.name == server) {
            Some(server) => resources(servers, server, uri).await,
            None => Vec::new(),
        }
    } else if let Some(words) = line.strip_prefix('/') {
        match words.split_once(char::is_whitespace) {
            Some((name, words)) => arguments(servers, &all, name, words).await,
            None => prompts(&all, words),
        }
    } else {
        Vec::new()
    };
    let last = last_word(line);
    offers.retain(|offer| offer.value.trim_end() != last);
    offers.truncate(MOST_OFFERS);
    offers
}

fn last_word(line: &str) -> &str {
    line.rsplit(char::is_whitespace).next().unwrap_or_default()
}

fn has(text: &str, needle: &str) -> bool {
    text.to_lowercase().contains(&needle.to_lowercase())
}

fn prompts(all: &[Server], needle: &str) -> Vec<Offer> {
    let prompts = all.iter().flat_map(|server| server.prompts.iter().map(move |prompt| (server, prompt)));
    let named = prompts.map(|(server, prompt)| (format!("{PREFIX}{}__{}", server.name, said(&prompt.name)), prompt));
    let fitting = named.filter(|(name, _)| has(name, needle));
    let offer = |(name, prompt): (String, &ServerPrompt)| {
        let takes: Vec<String> = prompt.arguments.iter().map(|(name, ..)| name.to_uppercase()).collect();
        let detail = [takes.join(" "), prompt.description.clone()].join("  ").trim().to_owned();
        Offer { label: format!("/{name}"), detail, value: format!("/{name} ") }
    };
    fitting.map(offer).collect()
}

async fn arguments(servers: &dyn Servers, all: &[Server], name: &str, words: &str) -> Vec<Offer> {
    let found = server_of(name).and_then(|of| all.iter().find(|server| server.name == of)).and_then(|server| {
        let prompt = server.prompts.iter().find(|prompt| name.ends_with(&format!("__{}", said(&prompt.name))))?;
        Some((server, prompt))
    });
    let Some((server, prompt)) = found else { return Vec::new() };
    let Some(typed) = typed(prompt, words) else { return Vec::new() };
    let of = Completed::Prompt(server.name.clone(), prompt.name.clone());
    let values = servers.complete(of, typed.argument, typed.beginning).await;
    // A blank would end any but the last argument.
    let fits = |value: &String| typed.is_last || !value.contains(char::is_whitespace);
    let offer = |value: String| {
        let value = if typed.is_named { format!("{}={value}", typed.argument) } else { value };
        Offer { label: value.clone(), detail: typed.argument.to_owned(), value: format!("{value} ") }
    };
    values.into_iter().filter(fits).map(offer).collect()
}

/// The argument that is being typed.
#[derive(Debug, PartialEq, Eq)]
struct Typed<'t> {
    argument: &'t str,
    beginning: &'t str,
    is_named: bool,
    is_last: bool,
}

/// The argument of a prompt to which the last of these words belongs; `None`: to none, or it begins with an earlier word.
fn typed<'t>(prompt: &'t ServerPrompt, words: &'t str) -> Option<Typed<'t>> {
    let beginning = last_word(words);
    if beginning.is_empty() {
        return None;
    }
    let named = |word: &'t str| {
        let (name, value) = word.split_once('=')?;
        let (name, ..) = prompt.arguments.iter().find(|(known, ..)| known == name)?;
        Some((name.as_str(), value))
    };
    if let Some((argument, beginning)) = named(beginning) {
        return Some(Typed { argument, beginning, is_named: true, is_last: false });
    }
    let before: Vec<&str> = words[..words.len() - beginning.len()].split_whitespace().collect();
    let by_name: Vec<&str> = before.iter().filter_map(|word| Some(named(word)?.0)).collect();
    let mut open = prompt.arguments.iter().map(|(name, ..)| name.as_str()).filter(|name| !by_name.contains(name));
    let argument = open.nth(before.len() - by_name.len())?;
    Some(Typed { argument, beginning, is_named: false, is_last: open.next().is_none() })
}

async fn resources(servers: &dyn Servers, server: &Server, uri: &str) -> Vec<Offer> {
    let mut offers = Vec::new();
    for resource in server.resources.iter() {
        let ServerResource { uri: known, name, description, is_template } = resource;
        let detail = if description.is_empty() { name.clone() } else { description.clone() };
        let offer = |uri: &str, end: &str| Offer {
            label: format!("@{}:{uri}", server.name),
            detail: detail.clone(),
            value: format!("@{}:{uri}{end}", server.name),
        };
        match known.split_once('{') {
            Some((beginning, rest)) if *is_template => match uri.strip_prefix(beginning) {
                Some(typed) => {
                    let Some((variable, behind)) = rest.split_once('}') else { continue };
                    let of = Completed::Template(server.name.clone(), known.clone());
                    let values = servers.complete(of, variable.trim_start_matches(['+', '/', '#']), typed).await;
                    // What stands behind the next brace is typed once this is.
                    let (fixed, end) = behind.split_once('{').map_or((behind, " "), |(fixed, _)| (fixed, ""));
                    offers.extend(values.iter().map(|value| offer(&format!("{beginning}{value}{fixed}"), end)));
                }
                None if beginning.starts_with(uri) || has(name, uri) => offers.push(offer(beginning, "")),
                None => {}
            },
            _ if has(known, uri) || has(name, uri) => offers.push(offer(known, " ")),
            _ => {}
        }
    }
    offers.retain(|offer| !offer.label.contains(char::is_whitespace));
    offers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(arguments: &[&str]) -> ServerPrompt {
        let arguments = arguments.iter().map(|name| ((*name).to_owned(), String::new(), true)).collect();
        ServerPrompt { name: "greet".into(), description: String::new(), arguments }
    }

    #[test]
    fn a_line_says_which_argument_is_typed() {
        let prompt = prompt(&["who", "how"]);
        let of =
            |words: &'static str| typed(&prompt, words).map(|typed| (typed.argument, typed.beginning, typed.is_last));
        assert_eq!(of("An"), Some(("who", "An", false)));
        assert_eq!(of("Ann ki"), Some(("how", "ki", true)));
        assert_eq!(of("how=ki"), Some(("how", "ki", false)));
        assert_eq!(of("how=kindly An"), Some(("who", "An", true)));
        // Behind a blank nothing is typed, and of the last argument only the first word is completed.
        assert_eq!([of("Ann "), of("Ann very kind"), of("")], [None, None, None]);
    }
}
