//! What is offered below the prompt for the word before the cursor: commands behind `/`; files, definitions and sessions behind `@`.
//! What MCP servers have for it is looked up elsewhere.

use super::{Effect, Face};
use crate::files::Files;
use crate::picker::Item;
use crate::symbols::{Symbol, Symbols};
use piton_core::server_tool;

/// Choices that are offered below the prompt.
const MOST_OFFERED: usize = 8;
/// Of these, definitions and sessions.
const MOST_SYMBOLS: usize = 3;
const MOST_SESSIONS: usize = 2;
/// A workspace is looked through again for an `@` after so long.
const STALE_MS: u64 = 30_000;

impl Face {
    /// What the word before the cursor may become.
    pub(super) fn offer(&mut self) -> Vec<Effect> {
        let (range, word) = self.prompt.word_before();
        let (start, word) = (range.start, word.to_owned());
        if word != self.menu.needle {
            self.menu.is_closed = false;
        }
        self.menu.needle.clone_from(&word);
        self.menu.is_stale = false;
        if self.menu.is_closed {
            return Vec::new();
        }
        let line = self.prompt.before_cursor();
        if server_tool::is_about_servers(&line) {
            self.menu.items.clear();
            return vec![Effect::LookUp(line)];
        }
        if start == 0 && word.starts_with('/') {
            self.menu.items = self.matching_commands(&word[1..]);
            self.menu.chosen = 0;
        } else if word.starts_with('@') {
            self.menu.is_stale = true;
        } else {
            self.menu.items.clear();
        }
        Vec::new()
    }

    /// Takes what was looked up for a line, if that is still what is typed.
    pub(super) fn take_offers(&mut self, line: &str, items: Vec<Item>) {
        if line == self.prompt.before_cursor() && !self.menu.is_closed {
            (self.menu.items, self.menu.chosen) = (items, 0);
        }
    }

    fn matching_commands(&self, needle: &str) -> Vec<Item> {
        let names = self.commands.iter().map(|command| command.name.as_str());
        let hits = crate::fuzzy::best(needle, names, MOST_OFFERED);
        let item = |index: usize| {
            let command = self.commands.get(index)?;
            let from = if command.from.is_empty() { String::new() } else { format!("  ({})", command.from) };
            let takes = if command.takes.is_empty() { String::new() } else { format!("{}  ", command.takes) };
            Some(Item {
                label: format!("/{}", command.name),
                detail: format!("{takes}{}{from}", command.does),
                value: format!("/{} ", command.name),
            })
        };
        match needle.is_empty() {
            true => (0..self.commands.len().min(MOST_OFFERED)).filter_map(item).collect(),
            false => hits.into_iter().filter_map(|hit| item(hit.index)).collect(),
        }
    }

    /// Looks for what was typed since the last time, or goes on looking for it.
    pub(super) fn look(&mut self) {
        if std::mem::take(&mut self.menu.is_stale) || self.is_looking() {
            self.look_behind_at();
        }
    }

    /// Whether files and definitions are looked for, and more may be found: each frame goes on with it.
    pub fn is_looking(&self) -> bool {
        let Some(needle) = self.looked_for().filter(|_| !self.has_page()) else { return false };
        let is_settled =
            |at: &AtWorkspace| at.files.is_settled() && (!may_be_symbol(needle) || at.symbols.is_settled());
        self.at.as_ref().is_some_and(|at| !is_settled(at))
    }

    /// What is typed behind an `@`, where that is for the workspace to know.
    fn looked_for(&self) -> Option<&str> {
        let is_open = !self.menu.is_closed && !server_tool::is_about_servers(&self.menu.needle);
        let needle = self.menu.needle.strip_prefix('@').filter(|_| is_open)?;
        Some(needle.trim_start_matches('"'))
    }

    /// Files, definitions and sessions whose name fits what is typed behind an `@`.
    fn look_behind_at(&mut self) {
        let Some(needle) = self.looked_for().map(str::to_owned) else { return };
        let needle = needle.as_str();
        let Some(facts) = &self.facts else { return };
        let is_stale = |at: &AtWorkspace| needle.is_empty() && at.since_ms + STALE_MS < self.now_ms;
        if self.at.as_ref().is_none_or(is_stale) {
            let (files, symbols) = (Files::start(&facts.workspace), Symbols::start(&facts.workspace));
            self.at = Some(AtWorkspace { files, symbols, since_ms: self.now_ms });
        }
        let Some(at) = &mut self.at else { return };
        let mut items: Vec<Item> = Vec::new();
        if may_be_symbol(needle) {
            items.extend(at.symbols.search(needle, MOST_SYMBOLS).into_iter().map(definition));
            let names = self.sessions.iter().map(|item| item.label.as_str());
            let by_title = crate::fuzzy::best(needle, names, MOST_SESSIONS).into_iter();
            let by_id = self.sessions.iter().filter(|item| item.value.starts_with(needle));
            let found = by_title.filter_map(|hit| self.sessions.get(hit.index)).chain(by_id);
            items.extend(found.take(MOST_SESSIONS).map(session));
        }
        let found = at.files.search(needle, MOST_OFFERED - items.len());
        items.splice(0..0, found.into_iter().map(|found| file(found.path)));
        self.menu.items = items;
        self.menu.chosen = self.menu.chosen.min(self.menu.items.len().saturating_sub(1));
    }
}

/// What there is in the workspace to refer to, and since when it is looked for.
#[derive(Debug)]
pub(super) struct AtWorkspace {
    files: Files,
    symbols: Symbols,
    since_ms: u64,
}

/// A path is meant by who writes one.
fn may_be_symbol(needle: &str) -> bool {
    !needle.is_empty() && !needle.contains(['/', '.'])
}

fn file(path: String) -> Item {
    let quoted = if path.contains(char::is_whitespace) { format!("@\"{path}\" ") } else { format!("@{path} ") };
    // Behind a folder its files are looked for.
    let value = if path.ends_with('/') { quoted.trim_end().to_owned() } else { quoted };
    Item { label: path, detail: String::new(), value }
}

/// A definition, by the lines on which it stands.
fn definition(found: &Symbol) -> Item {
    let Symbol { name, keyword, path, first, last } = found;
    let lines = if first == last { first.to_string() } else { format!("{first}-{last}") };
    let quoted = if path.contains(char::is_whitespace) { format!("\"{path}\"") } else { path.to_string() };
    Item { label: name.clone(), detail: format!("{keyword} · {path}:{first}"), value: format!("@{quoted}:{lines} ") }
}

fn session(item: &Item) -> Item {
    let Item { label, detail, value } = item;
    Item { label: label.clone(), detail: format!("session · {detail}"), value: format!("@{value} ") }
}
