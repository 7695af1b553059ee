//! Sessions that a message refers to: `@ses_…`, by the whole id. The model gets what a person would be told of it: the newest summary,
//! and what was said and answered since. What commands and files held is not repeated.

use super::references::{References, Resolved};
use crate::store::{Store, StoreError, Summary};
use piton_core::branch::{self, Path};
use piton_core::event::{Event, Given, GivenKind, Record};
use piton_core::hidden;
use piton_core::ids::{Seq, SessionId};
use piton_core::limits::{REFERENCE_PERCENT, UNKNOWN_WINDOW_TOKENS};
use piton_core::message::{Part, prose};
use piton_core::reference::{self, Style};
use std::collections::HashSet;

/// Sessions that one message refers to; more are words.
const MOST: usize = 5;
/// Tokens of one of them. Who wants more of it asks for that.
const MOST_TOKENS: u64 = 8_000;
/// Bytes that are taken of one prompt or answer.
const MOST_BYTES: usize = 8 << 10;

impl References {
    /// Reads the sessions that a text refers to. The one that it is said in is not meant.
    pub(crate) async fn sessions(&self, text: &str, own: &SessionId, store: &dyn Store) -> Resolved {
        let mut resolved = Resolved::default();
        if self.style != Style::Piton || !text.contains("@ses_") {
            return resolved;
        }
        let mut room = self.window_tokens.unwrap_or(UNKNOWN_WINDOW_TOKENS) * REFERENCE_PERCENT / 100;
        let mut seen = HashSet::from([own.clone()]);
        for reference in reference::extract(text, self.style) {
            let ids = reference.readings().into_iter().filter_map(|reading| session_id(&reading.path));
            for id in ids.collect::<Vec<_>>() {
                if seen.len() > MOST || seen.contains(&id) {
                    continue;
                }
                let Ok(summary) = store.summary(&id).await else { continue };
                seen.insert(id.clone());
                match told(&id, store).await {
                    Ok(pieces) => self.add_session(&summary, &pieces, &mut room, &mut resolved),
                    Err(error) => {
                        let remark = format!("@{id} was not read: {error}");
                        resolved.parts.push(Part::note(format!("[{remark}]")));
                        resolved.items.push(Given { notice: Some(remark), ..Given::new(GivenKind::Reference, 0) });
                    }
                }
            }
        }
        resolved
    }

    fn add_session(&self, summary: &Summary, pieces: &[String], room: &mut u64, resolved: &mut Resolved) {
        let Summary { id, title, workspace, turns, .. } = summary;
        let mut left = MOST_TOKENS.min(*room);
        // The newest count most.
        let mut kept = Vec::new();
        for piece in pieces.iter().rev() {
            let tokens = self.family.estimate(piece);
            if tokens > left {
                break;
            }
            left -= tokens;
            kept.push(piece.as_str());
        }
        kept.reverse();
        let is_cut = kept.len() < pieces.len();
        let cut = if is_cut { "[earlier turns are left out]\n\n" } else { "" };
        let (title, text) = (hidden::visible_name(title).replace('"', "'"), kept.join("\n\n"));
        let note = format!(
            "<session id=\"{id}\" title=\"{title}\" workspace=\"{workspace}\" turns=\"{turns}\">\n{cut}{text}\n</session>"
        );
        let tokens = self.family.estimate(&note);
        *room = room.saturating_sub(tokens);
        let notice = is_cut.then(|| format!("@{id} is cut: its earlier turns are left out"));
        resolved.items.push(Given { notice, ..Given::new(GivenKind::Reference, tokens) });
        resolved.parts.push(Part::note(note));
    }
}

fn session_id(path: &str) -> Option<SessionId> {
    let rest = path.strip_prefix("ses_")?;
    (!rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| SessionId::from(path))
}

/// What there is to tell of a session.
enum Told {
    Summary {
        upto: Seq,
        text: String,
    },
    Said(String),
    /// What the model said last before its turn ended.
    Answer(String),
}

/// It in pieces, in order.
async fn told(id: &SessionId, store: &dyn Store) -> Result<Vec<String>, StoreError> {
    let (mut all, mut moves, mut last_words) = (Vec::new(), Vec::new(), None);
    let visit = &mut |record: &mut Record| {
        let seq = record.seq;
        moves.extend(branch::moved_to(&record.event).map(|to| (seq, to)));
        let told = match &record.event {
            Event::UserSpoke { parts, typed, .. } => Told::Said(beginning(typed.as_deref().unwrap_or(&prose(parts)))),
            Event::MessageFinished { reply, .. } => {
                let words = prose(&reply.parts);
                if !words.trim().is_empty() {
                    last_words = Some((seq, beginning(&words)));
                }
                return;
            }
            Event::TurnEnded { .. } => match last_words.take() {
                Some((seq, words)) => return all.push((seq, Told::Answer(words))),
                None => return,
            },
            Event::CompactionFinished { upto_seq, summary, .. } => {
                Told::Summary { upto: *upto_seq, text: summary.clone() }
            }
            _ => return,
        };
        all.push((seq, told));
    };
    store.each(id, visit).await?;
    let path = Path::with_moves(&moves);
    all.retain(|(seq, _)| path.contains(*seq));
    let summary = all.iter().rev().find_map(|(_, told)| match told {
        Told::Summary { upto, text } => Some((*upto, text.clone())),
        Told::Said(_) | Told::Answer(_) => None,
    });
    let upto = summary.as_ref().map_or(0, |(upto, _)| *upto);
    let since = all.into_iter().filter(|(seq, _)| *seq > upto).filter_map(|(_, told)| match told {
        Told::Summary { .. } => None,
        Told::Said(words) => Some(format!("User: {words}")),
        Told::Answer(words) => Some(format!("Assistant: {words}")),
    });
    Ok(summary.into_iter().map(|(_, text)| text).chain(since).collect())
}

/// Words, as far as they are taken.
fn beginning(words: &str) -> String {
    let words = words.trim();
    match words.get(..words.floor_char_boundary(MOST_BYTES)) {
        Some(start) if start.len() < words.len() => format!("{start} […]"),
        _ => words.to_owned(),
    }
}
