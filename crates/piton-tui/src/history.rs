//! What was sent before: walked with Up and Down, searched with Ctrl-R. The struct does no IO; [`load`] and [`append`] do,
//! and are called off the face's thread.

mod disk;
#[cfg(test)]
mod tests;

pub use disk::{append, load};

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;

/// Large pastes that are known again when their text comes back into the prompt.
const MOST_PASTES: usize = 20;
/// How many entries are kept, here and on disk.
pub const MOST_ENTRIES: usize = 10_000;

/// One prompt that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The text, with pastes whole.
    pub text: String,
    /// Where in it pastes stand that were chips.
    pub pastes: Vec<Range<usize>>,
    /// The session's id.
    pub session: String,
    /// The folder in which Piton was started.
    pub folder: String,
    /// When it was sent, in milliseconds since 1970.
    pub time_ms: u64,
}

/// Which entries are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of this session.
    Session,
    /// Those of this folder.
    Folder,
    /// All.
    All,
}

impl Scope {
    /// The one that follows when the scope is cycled.
    pub fn next(self) -> Self {
        match self {
            Scope::Session => Scope::Folder,
            Scope::Folder => Scope::All,
            Scope::All => Scope::Session,
        }
    }
}

/// The prompts that were sent, and where in them the person is.
#[derive(Debug, Clone, Default)]
pub struct History {
    session: String,
    folder: String,
    /// Whether the newest entry was sent before the session had an id.
    is_unnamed: bool,
    /// Oldest first.
    entries: Vec<Entry>,
    walk: Option<Walk>,
    /// The last large pastes, sent or not.
    pastes: VecDeque<String>,
}

/// A walk with Up and Down.
#[derive(Debug, Clone)]
struct Walk {
    /// The entries that are walked, newest first, each text once.
    entries: Vec<usize>,
    /// How many steps from the draft: 0 is the draft, 1 the newest entry.
    at: usize,
    /// What was changed on the way, by its step.
    drafts: HashMap<usize, String>,
}

impl History {
    /// The history of a session in a folder, with what [`load`] read.
    pub fn new(session: &str, folder: &str, entries: Vec<Entry>) -> Self {
        let mut history = Self { session: session.to_owned(), folder: folder.to_owned(), ..Self::default() };
        history.extend(entries);
        history
    }

    /// Adds what was read from disk, before what was added meanwhile: the face need not wait for the disk.
    pub fn extend(&mut self, mut loaded: Vec<Entry>) {
        let meanwhile = std::mem::take(&mut self.entries);
        // What was sent before the file was read may be in it already.
        let is_new = |entry: &Entry| !loaded.iter().rev().take(100).any(|known| known == entry);
        let meanwhile: Vec<_> = meanwhile.into_iter().filter(is_new).collect();
        loaded.extend(meanwhile);
        self.entries = loaded;
        self.forget_oldest();
        self.walk = None;
    }

    /// Names the session that is open, once it is known or when it changes.
    pub fn set_session(&mut self, session: &str) {
        // A session that begins has no id at first.
        self.is_unnamed &= session.is_empty() && self.session.is_empty();
        session.clone_into(&mut self.session);
        self.walk = None;
    }

    /// Gives the open session its id. The prompt that began it belongs to it.
    pub fn name_session(&mut self, id: &str) {
        let is_first = self.session.is_empty() && self.is_unnamed;
        if let Some(last) = self.entries.last_mut().filter(|_| is_first) {
            id.clone_into(&mut last.session);
        }
        self.set_session(id);
    }

    /// Names the folder, once it is known or when it changes.
    pub fn set_folder(&mut self, folder: &str) {
        folder.clone_into(&mut self.folder);
        self.walk = None;
    }

    /// Adds a prompt that was sent, and ends the walk. What is handed back is to be appended to the file; nothing, if the
    /// prompt is blank or the same as the one before.
    pub fn add(&mut self, text: &str, pastes: Vec<Range<usize>>, time_ms: u64) -> Option<Entry> {
        self.walk = None;
        let (session, folder) = (self.session.clone(), self.folder.clone());
        let repeats = |last: &Entry| last.text == text && last.session == session && last.folder == folder;
        if text.trim().is_empty() || self.entries.last().is_some_and(repeats) {
            return None;
        }
        let entry = Entry { text: text.to_owned(), pastes, session, folder, time_ms };
        self.entries.push(entry.clone());
        self.is_unnamed = entry.session.is_empty();
        self.forget_oldest();
        Some(entry)
    }

    /// Knows a large paste again.
    pub fn pasted(&mut self, paste: String) {
        if !self.pastes.contains(&paste) {
            self.pastes.push_back(paste);
            self.pastes.drain(..self.pastes.len().saturating_sub(MOST_PASTES));
        }
    }

    /// Where in a text from before large pastes stand.
    pub fn pastes_in(&self, text: &str) -> Vec<Range<usize>> {
        if let Some(entry) = self.entries.iter().rev().find(|entry| entry.text == text && !entry.pastes.is_empty()) {
            return entry.pastes.clone();
        }
        let find = |paste: &String| text.find(paste.as_str()).map(|at| at..at + paste.len());
        let mut found: Vec<Range<usize>> = self.pastes.iter().filter_map(find).collect();
        found.sort_by_key(|paste| paste.start);
        let mut end = 0;
        found.retain(|paste| {
            let is_behind = paste.start >= end;
            end = if is_behind { paste.end } else { end };
            is_behind
        });
        found
    }

    /// The prompt before, of this folder. `draft` is what stands in the prompt now; it is there again on the way back.
    /// `None` if there is none before: the prompt stays.
    pub fn up(&mut self, draft: &str) -> Option<String> {
        if self.walk.is_none() {
            let entries = self.newest_first(Scope::Folder, |_| true);
            self.walk = Some(Walk { entries, at: 0, drafts: HashMap::new() });
        }
        let (walk, entries) = (self.walk.as_mut()?, &self.entries);
        walk.keep(entries, draft);
        // An entry that says what stands there already is no step.
        let is_step = |at: &usize| walk.text(entries, *at) != Some(draft);
        let next = (walk.at + 1..=walk.entries.len()).find(is_step)?;
        walk.at = next;
        walk.text(entries, next).map(str::to_owned)
    }

    /// The prompt behind, and at last the draft. `None` if the draft stands there.
    pub fn down(&mut self, draft: &str) -> Option<String> {
        let (walk, entries) = (self.walk.as_mut()?, &self.entries);
        walk.keep(entries, draft);
        let next = walk.at.checked_sub(1)?;
        walk.at = next;
        walk.text(entries, next).map(str::to_owned)
    }

    /// The entries that have all the words of `needle` in them, newest first, each text once. Without capital letters in
    /// `needle` capitals do not matter.
    pub fn search(&self, needle: &str, scope: Scope) -> Vec<&Entry> {
        let exact = needle.chars().any(char::is_uppercase);
        let words: Vec<&str> = needle.split_whitespace().collect();
        let has_all = |entry: &Entry| {
            let folded = if exact { None } else { Some(entry.text.to_lowercase()) };
            let text = folded.as_deref().unwrap_or(&entry.text);
            words.iter().all(|word| text.contains(word))
        };
        self.newest_first(scope, has_all).into_iter().map(|at| &self.entries[at]).collect()
    }

    fn newest_first(&self, scope: Scope, wanted: impl Fn(&Entry) -> bool) -> Vec<usize> {
        let mut seen = HashSet::new();
        let of_scope = |entry: &Entry| match scope {
            // Older entries have the beginning of the id.
            Scope::Session => !entry.session.is_empty() && self.session.starts_with(&entry.session),
            Scope::Folder => entry.folder == self.folder,
            Scope::All => true,
        };
        let newest = self.entries.iter().enumerate().rev();
        let chosen = newest.filter(|(_, entry)| of_scope(entry) && wanted(entry) && seen.insert(entry.text.as_str()));
        chosen.map(|(at, _)| at).collect()
    }

    fn forget_oldest(&mut self) {
        let over = self.entries.len().saturating_sub(MOST_ENTRIES);
        self.entries.drain(..over);
    }
}

impl Walk {
    /// What stands at a step: the entry, or what a person made of it.
    fn text<'a>(&'a self, entries: &'a [Entry], at: usize) -> Option<&'a str> {
        if let Some(draft) = self.drafts.get(&at) {
            return Some(draft);
        }
        let entry = entries.get(*self.entries.get(at.checked_sub(1)?)?)?;
        Some(&entry.text)
    }

    /// Keeps what stands in the prompt, if it is not what stood there.
    fn keep(&mut self, entries: &[Entry], draft: &str) {
        if self.text(entries, self.at) != Some(draft) {
            self.drafts.insert(self.at, draft.to_owned());
        }
    }
}
