//! What is in the context, how many tokens that is, and what compaction has taken out of it.

use crate::compact::{Family, FileUse, of_message};
use crate::ids::{CallId, MessageId, Seq};
use crate::message::{Message, Part, Role, Usage};
use crate::skill::{self, GivenSkill};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A message of the transcript, and the event that put it there.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptEntry {
    /// The event.
    pub seq: Seq,
    /// The message.
    pub message: Arc<Message>,
}

/// How full the context is, and what is not in the transcript any more.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Context {
    /// Tokens: the provider's count of the last call, and an estimate of what was added since.
    pub(super) tokens: u64,
    /// Whether a provider's count is part of that.
    pub(super) is_counted: bool,
    /// The last message that a summary stands for; 0 where there is none.
    pub(super) summed_up_to: Seq,
    /// What the user said that is not in the transcript any more.
    pub(super) words: Vec<TranscriptEntry>,
    /// Files of calls that are not in the transcript any more.
    pub(super) files: BTreeMap<String, FileUse>,
    /// Skills that the model was given by results that are not in the transcript any more, the newest last.
    pub(super) skills: Vec<GivenSkill>,
    /// Files of calls that are still in it.
    pub(super) touched: HashMap<CallId, Touched>,
    /// Where what the user said is recorded.
    pub(super) spoken: HashMap<MessageId, Seq>,
    /// Where each result is recorded.
    pub(super) results: HashMap<CallId, Seq>,
    /// Calls whose outputs were pruned.
    pub(super) pruned: HashSet<CallId>,
    /// Calls of whose outputs only beginning and end are left.
    pub(super) clipped: HashSet<CallId>,
}

/// The files that a call reads or changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Touched {
    pub(super) paths: Vec<String>,
    pub(super) changed: bool,
}

impl Context {
    pub(super) fn counted(&mut self, usage: &Usage, with_reply: bool) {
        if usage.total() > 0 {
            (self.tokens, self.is_counted) = (if with_reply { usage.total() } else { usage.input_tokens }, true);
        }
    }

    /// A message has joined the transcript. A reply that was counted is part of the count.
    pub(super) fn add(&mut self, family: Family, message: &Message) {
        if message.role != Role::Assistant || !self.is_counted {
            self.tokens = self.tokens.saturating_add(of_message(family, message));
        }
    }

    pub(super) fn note_words(&mut self, message: &MessageId, seq: Seq) {
        self.spoken.entry(message.clone()).or_insert(seq);
    }

    /// What these messages say that must not be forgotten.
    pub(super) fn remember(&mut self, entries: &[TranscriptEntry]) {
        for entry in entries {
            if is_of_user(&entry.message) {
                let seq = entry.message.id.as_ref().and_then(|id| self.spoken.get(id)).copied().unwrap_or(entry.seq);
                self.words.push(TranscriptEntry { seq, message: Arc::clone(&entry.message) });
            }
            for part in &entry.message.parts {
                let is_whole = |call| !self.pruned.contains(call) && !self.clipped.contains(call);
                if matches!(part, Part::ToolResult { call, .. } if is_whole(call)) {
                    GivenSkill::of(part).into_iter().for_each(|given| skill::note(&mut self.skills, given));
                }
            }
            for Touched { paths, changed } in entry.message.calls().filter_map(|call| self.touched.get(&call.id)) {
                for path in paths {
                    note_file(&mut self.files, path, FileUse { seq: entry.seq, changed: *changed });
                }
            }
        }
    }
}

/// Whether a person said it.
fn is_of_user(message: &Message) -> bool {
    message.role == Role::User && message.id.is_some() && !message.prose().trim().is_empty()
}

fn note_file(files: &mut BTreeMap<String, FileUse>, path: &str, used: FileUse) {
    let known = files.entry(path.to_owned()).or_insert(used);
    known.changed |= used.changed;
    known.seq = known.seq.max(used.seq);
}
