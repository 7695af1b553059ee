//! Resources of MCP servers that a message refers to: `@server:uri`. What a person names is read without a question, as a file is.

use super::references::{References, Resolved};
use piton_core::event::{Given, GivenKind};
use piton_core::limits::{REFERENCE_PERCENT, UNKNOWN_WINDOW_TOKENS};
use piton_core::message::Part;
use piton_core::reference::{self, Reference, Style};
use piton_tools::servers::{Server, ServerContent, Servers};
use std::collections::HashSet;

/// Resources that one message refers to; more are words.
const MOST: usize = 10;

impl References {
    /// Reads the resources that a text refers to.
    pub(crate) async fn resources(&self, text: &str, servers: &dyn Servers) -> Resolved {
        let mut resolved = Resolved::default();
        if self.style != Style::Piton || !text.contains('@') {
            return resolved;
        }
        let mut room = self.window_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS) * REFERENCE_PERCENT / 100;
        let mut seen = HashSet::new();
        for reference in reference::extract(text, self.style) {
            let Some((server, uri)) = meant(&reference, &servers.servers()) else { continue };
            if seen.len() == MOST || !seen.insert((server.clone(), uri.clone())) {
                continue;
            }
            let read = match servers.ready(&server).await {
                Ok(()) => servers.read_resource(&server, &uri).await,
                Err(why) => Err(why),
            };
            match read {
                Ok(content) => self.add(&server, &uri, content, &mut room, &mut resolved),
                Err(why) => {
                    let remark = format!("@{server}:{uri} was not read: {why}");
                    resolved.parts.push(Part::note(format!("[{remark}]")));
                    let given = Given::new(GivenKind::Reference, 0);
                    resolved.items.push(Given { notice: Some(remark), ..given });
                }
            }
        }
        resolved
    }

    fn add(&self, server: &str, uri: &str, content: ServerContent, room: &mut u64, resolved: &mut Resolved) {
        let ServerContent { text, pictures } = content;
        let mut shown = text.as_str();
        // A token has at least one byte, and seldom more than four.
        while self.family.estimate(shown) > *room {
            shown = &shown[..shown.floor_char_boundary(shown.len() * 3 / 4)];
            if shown.is_empty() {
                break;
            }
        }
        let is_cut = shown.len() < text.len();
        let cut = if is_cut { "\n[cut: there is no room for more of it]" } else { "" };
        let note = format!("<resource server=\"{server}\" uri=\"{uri}\">\n{shown}{cut}\n</resource>");
        let tokens = self.family.estimate(&note);
        *room = room.saturating_sub(tokens);
        let notice = is_cut.then(|| format!("@{server}:{uri} is cut: it is too long"));
        resolved.items.push(Given { notice, ..Given::new(GivenKind::Reference, tokens) });
        resolved.parts.push(Part::note(note));
        if self.images == Some(true) {
            let image =
                |picture: piton_core::call::Picture| Part::Image { media_type: picture.media_type, data: picture.data };
            resolved.parts.extend(pictures.into_iter().map(image));
        }
    }
}

/// Server and address, where the first is one. An address that the server lists counts before what may belong to the sentence.
fn meant(reference: &Reference, servers: &[Server]) -> Option<(String, String)> {
    let readings = reference.readings();
    let all = || readings.iter().chain([reference]).filter_map(|reading| reading.path.split_once(':'));
    let of = |(name, uri): (&str, &str)| {
        let server = servers.iter().find(|server| server.name == name && !uri.is_empty())?;
        Some((server, uri.to_owned()))
    };
    let listed =
        all().filter_map(of).find(|(server, uri)| server.resources.iter().any(|resource| resource.uri == *uri));
    let found = listed.or_else(|| all().filter_map(of).next_back());
    let (server, uri) = found?;
    Some((server.name.clone(), uri.trim_end_matches(['.', ',', ';', '!', '?', ')']).to_owned()))
}
