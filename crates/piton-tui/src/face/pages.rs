//! What keys do on what has the whole screen: a page, the changes, the tree of turns, what is to be trusted; and the page of the keys
//! themselves.

use super::{Effect, Face};
use crate::keys::{Action, Context};
use crate::page::Page;
use crate::review::Reviewed;
use crate::rewind::Rewound;
use crate::trust;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use piton_core::client::Scope as RewindScope;

impl Face {
    /// The page that is seen: the one of the keys stands above all others.
    pub(super) fn top_page(&mut self) -> Option<&mut Page> {
        self.help.as_mut().or(self.page.as_mut())
    }

    /// Closes the page that is seen. Whether it was that of a call.
    fn close_page(&mut self) -> bool {
        if self.help.take().is_some() {
            return false;
        }
        (self.page, self.shows_plan) = (None, false);
        std::mem::take(&mut self.shows_call)
    }

    pub(super) fn press_page(&mut self, action: Action) -> Vec<Effect> {
        let is_plan = self.shows_plan && self.help.is_none();
        let Some(page) = self.top_page() else { return Vec::new() };
        if page.is_searched() {
            match action {
                Action::Send => page.end_search(true),
                Action::Escape | Action::Interrupt => page.end_search(false),
                Action::PasteClipboard => return vec![Effect::Paste],
                action => page.edit_search(action),
            }
            return Vec::new();
        }
        match action {
            Action::Insert('/') => page.begin_search(),
            Action::Insert('n') => page.find(true),
            Action::Insert('N') => page.find(false),
            Action::Insert('}') => page.jump(true),
            Action::Insert('{') => page.jump(false),
            Action::Insert('e') if is_plan => {
                self.close_page();
                return self.edit_plan();
            }
            action => return self.turn_page(action),
        }
        Vec::new()
    }

    fn turn_page(&mut self, action: Action) -> Vec<Effect> {
        let high = isize::try_from(self.size.1.saturating_sub(2)).unwrap_or(1);
        let Some(page) = self.top_page() else { return Vec::new() };
        match action {
            Action::Up => page.go(-1),
            Action::Down | Action::Send => page.go(1),
            Action::PageUp => page.go(-high),
            Action::PageDown => page.go(high),
            Action::BufferStart => page.go(isize::MIN),
            Action::BufferEnd => page.go(isize::MAX),
            Action::Help if self.help.is_none() => self.show_keys(Context::Pager),
            Action::Details => {
                let transcript = Effect::Command { name: "transcript".to_owned(), words: String::new() };
                return if self.close_page() { vec![transcript] } else { Vec::new() };
            }
            Action::Escape | Action::Interrupt | Action::Help => drop(self.close_page()),
            _ => {}
        }
        Vec::new()
    }

    pub(super) fn press_rewind(&mut self, key: KeyEvent, action: Option<Action>) -> Vec<Effect> {
        let high = isize::try_from(self.size.1.saturating_sub(2)).unwrap_or(1);
        let Some(rewind) = &mut self.rewind else { return Vec::new() };
        let rewound = match key.code {
            KeyCode::Char(letter @ ('w' | 'f' | 'd' | 'r')) if key.modifiers.is_empty() => rewind.press(letter),
            _ => match action {
                Some(Action::Send) => rewind.back(RewindScope::Both),
                action => {
                    match action {
                        Some(Action::Up) => rewind.go(-1),
                        Some(Action::Down) => rewind.go(1),
                        Some(Action::PageUp) => rewind.go(-high),
                        Some(Action::PageDown) => rewind.go(high),
                        Some(Action::BufferStart) => rewind.go(isize::MIN),
                        Some(Action::BufferEnd) => rewind.go(isize::MAX),
                        Some(Action::Escape | Action::Interrupt | Action::Details) => self.rewind = None,
                        Some(Action::Help) => self.show_keys(Context::Pager),
                        _ => {}
                    }
                    Rewound::Taken
                }
            },
        };
        let command = |name: &str, words: String| vec![Effect::Command { name: name.to_owned(), words }];
        match rewound {
            Rewound::Taken => Vec::new(),
            Rewound::Back(turns, scope) => {
                self.rewind = None;
                vec![Effect::Rewind { turns, scope }]
            }
            Rewound::Redo => {
                self.rewind = None;
                command("redo", String::new())
            }
            // The tree is there again when the changes were looked through.
            Rewound::Diff(source) => command("diff", source.words()),
        }
    }

    pub(super) fn press_trust(&mut self, key: KeyEvent, action: Option<Action>) -> Vec<Effect> {
        let high = isize::try_from(self.size.1 / 2).unwrap_or(1);
        let Some(trusting) = &mut self.trusting else { return Vec::new() };
        if let KeyCode::Char(letter @ ('t' | 'u')) = key.code
            && key.modifiers.is_empty()
        {
            return match trusting.press(letter) {
                trust::Pressed::Taken => Vec::new(),
                trust::Pressed::Trust(item, wanted) => vec![Effect::Trust(item, wanted)],
            };
        }
        match action {
            Some(Action::Up) => trusting.go(-1),
            Some(Action::Down) => trusting.go(1),
            Some(Action::PageUp) => trusting.scroll(-high),
            Some(Action::PageDown | Action::Send) => trusting.scroll(high),
            Some(Action::BufferStart) => trusting.scroll(isize::MIN),
            Some(Action::BufferEnd) => trusting.scroll(isize::MAX),
            Some(Action::Escape | Action::Interrupt | Action::Details) => self.trusting = None,
            Some(Action::Help) => self.show_keys(Context::Pager),
            _ => {}
        }
        Vec::new()
    }

    pub(super) fn press_review(&mut self, key: KeyEvent, action: Option<Action>) -> Vec<Effect> {
        let high = self.size.1.saturating_sub(1);
        let by = isize::try_from(high.saturating_sub(1)).unwrap_or(1);
        let Some(review) = &mut self.review else { return Vec::new() };
        let letter = match key.code {
            KeyCode::Char(letter) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => Some(letter),
            KeyCode::Tab => Some('\t'),
            _ => None,
        };
        match letter.map_or(Reviewed::Not, |letter| review.press(letter, high)) {
            Reviewed::Not => {}
            Reviewed::Taken => return Vec::new(),
            Reviewed::Wanted(source) => return vec![Effect::Review(source)],
            Reviewed::TakeBack(hunk) => return vec![Effect::TakeBackHunk(review.source(), hunk)],
            Reviewed::Comment(words) => {
                self.review = None;
                self.put_back(&words);
                return Vec::new();
            }
            Reviewed::Closed => {
                self.review = None;
                return Vec::new();
            }
        }
        match action {
            Some(Action::Up) => review.go(-1),
            Some(Action::Down | Action::Send) => review.go(1),
            Some(Action::PageUp) => review.go(-by),
            Some(Action::PageDown) => review.go(by),
            Some(Action::BufferStart) => review.go(isize::MIN),
            Some(Action::BufferEnd) => review.go(isize::MAX),
            Some(Action::Escape | Action::Interrupt | Action::Details) => self.review = None,
            Some(Action::Help) => self.show_keys(Context::Pager),
            _ => {}
        }
        Vec::new()
    }

    /// Shows what keys do here, above whatever page there is.
    pub(super) fn show_keys(&mut self, context: Context) {
        let keys: String =
            self.keys.page(context).into_iter().map(|(keys, does)| format!("  {keys:<32} {does}\n")).collect();
        let (title, text) = match context {
            Context::Prompt | Context::Question => ("keys and commands", self.help(&keys)),
            Context::List => ("keys in a list", format!("KEYS IN A LIST\n{keys}\n  Other keys narrow the list.\n")),
            Context::Pager => (
                "keys on a page",
                format!(
                    "KEYS ON A PAGE\n{keys}\n  / searches, n and N go from hit to hit, {{ and }} from part to part.\n"
                ),
            ),
        };
        self.help = Some(Page::of_text(title, &text));
    }

    fn help(&self, keys: &str) -> String {
        let mut text = format!("KEYS\n{keys}");
        text.push_str("\n  @ files   / commands   ! a command of yours (!! kept from the model)   # a note to the instructions   ? this page\n\nCOMMANDS\n");
        for command in &self.commands {
            let name = format!("/{} {}", command.name, command.takes);
            text.push_str(&format!("  {name:<38}{}\n", command.does));
        }
        text
    }
}
