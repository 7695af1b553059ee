//! What keys do, by what has the focus: a list, a question, the prompt. What has the whole screen is in `pages`.

use super::{Deed, Effect, Face, Menu};
use crate::blocks::{self, Sketch};
use crate::commands;
use crate::dropped;
use crate::history::{Entry, Scope};
use crate::keys::{Action, Context};
use crate::page::Page;
use crate::picker::{Item, Picker, Purpose};
use crate::prompt::{Handled, Mode};
use crate::question::{GUARD_MS, Pressed};
use crate::theme::Theme;
use crossterm::event::{KeyEvent, KeyEventKind};
use piton_core::call::CallInput;
use piton_core::client::When;
use piton_core::event::Subject;
use piton_core::permission::PermissionMode;
use piton_core::server_tool;
use piton_core::story::{Block, Body, CallBlock, CallStage};
use piton_core::tokens::Family;
use ratatui_core::text::Line;

/// Within so many milliseconds a second press of the same key is one with the first.
const TWICE_MS: u64 = 2_000;
/// So much longer a pause is, before a key answers a question, where words stand in the prompt.
const THOUGHT_MS: u64 = 1_000;

/// What gets a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Focus {
    Page,
    Review,
    Rewind,
    Trust,
    List,
    Question,
    Prompt,
}

impl Face {
    pub(super) fn press(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let idle_ms = self.now_ms.saturating_sub(std::mem::replace(&mut self.key_ms, self.now_ms));
        self.hint = None;
        if self.top_page().is_none()
            && let Some(effects) = self.press_typing(key)
        {
            return effects;
        }
        let focus = self.focus(idle_ms);
        let action = self.keys.action(self.context(focus), key);
        // Two presses belong together only if no other key comes between them.
        let is_prompts = matches!(focus, Focus::Question | Focus::Prompt);
        self.escape_ms = self.escape_ms.filter(|_| is_prompts && action == Some(Action::Escape));
        self.leave_ms = self.leave_ms.filter(|_| is_prompts && action == Some(Action::Interrupt));
        self.cycled = self.cycled.filter(|_| action == Some(Action::CycleMode));
        match action {
            Some(Action::Suspend) => return vec![Effect::Suspend],
            Some(Action::Redraw) => return vec![Effect::Redraw],
            _ => {}
        }
        if matches!(focus, Focus::Rewind | Focus::Trust | Focus::List) {
            self.picker_ms = None;
        }
        match (focus, action) {
            // Letters of their own come before what the table says.
            (Focus::Review, _) => self.press_review(key, action),
            (Focus::Rewind, _) => self.press_rewind(key, action),
            (Focus::Trust, _) => self.press_trust(key, action),
            (_, None) => Vec::new(),
            (Focus::Page, Some(action)) => self.press_page(action),
            (Focus::List, Some(action)) => self.press_picker(action),
            (Focus::Question, Some(action)) => self.press_question(action, idle_ms),
            (Focus::Prompt, Some(action)) => self.press_prompt(action),
        }
    }

    /// What gets a key, pressed so long after the one before.
    fn focus(&self, idle_ms: u64) -> Focus {
        // A list that came up while somebody typed was not meant by the next key.
        let is_new = |since: u64| self.now_ms.saturating_sub(since) < GUARD_MS || idle_ms < GUARD_MS;
        let is_meant = !self.picker_ms.is_some_and(is_new);
        if self.help.is_some() || self.page.is_some() {
            Focus::Page
        } else if self.review.is_some() {
            Focus::Review
        } else if self.rewind.is_some() && is_meant {
            Focus::Rewind
        } else if self.trusting.is_some() && is_meant {
            Focus::Trust
        } else if self.picker.is_some() && is_meant {
            Focus::List
        } else if self.asked().is_some() {
            Focus::Question
        } else {
            Focus::Prompt
        }
    }

    /// Which part of the table says what a key does there.
    fn context(&self, focus: Focus) -> Context {
        match focus {
            Focus::Page if self.help.as_ref().or(self.page.as_ref()).is_some_and(Page::is_searched) => Context::List,
            Focus::Page | Focus::Review | Focus::Rewind | Focus::Trust => Context::Pager,
            Focus::List => Context::List,
            Focus::Question if self.asked().is_some_and(super::Asked::is_typed) => Context::Prompt,
            Focus::Question => Context::Question,
            Focus::Prompt => Context::Prompt,
        }
    }

    fn press_picker(&mut self, action: Action) -> Vec<Effect> {
        let Some(picker) = &mut self.picker else { return Vec::new() };
        match action {
            action if picker.purpose == Purpose::Session && is_deed(action, picker) => {
                return session_deed(action, picker).map(Effect::Session).into_iter().collect();
            }
            Action::Trash if picker.purpose == Purpose::Work => {
                return picker.throw_away().map(Effect::StopWork).into_iter().collect();
            }
            // The list is there again when one was looked at.
            Action::Send | Action::Details if picker.purpose == Purpose::Work => {
                let chosen = picker.chosen().map(|item| Effect::Chosen(Purpose::Work, item.value.clone()));
                return chosen.into_iter().collect();
            }
            Action::Up => picker.go(-1),
            Action::Down | Action::Complete => picker.go(1),
            Action::PageUp => picker.go(-10),
            Action::PageDown => picker.go(10),
            Action::HistorySearch if picker.purpose == Purpose::History => {
                self.scope = self.scope.next();
                self.search_history();
            }
            Action::PasteClipboard => return vec![Effect::Paste],
            Action::Details => self.details(),
            Action::Help => self.show_keys(Context::List),
            Action::Send => {
                let chosen = picker.chosen().cloned();
                let purpose = picker.purpose;
                self.picker = None;
                return chosen.map(|item| self.choose(purpose, item)).unwrap_or_default();
            }
            Action::Panel if picker.purpose != Purpose::Work => {
                let effects = self.close_list();
                self.toggle_panel();
                return effects;
            }
            Action::Escape | Action::Interrupt | Action::Panel => return self.close_list(),
            action => picker.edit(action),
        }
        self.tried_theme()
    }

    /// Closes the list, and nothing was chosen.
    fn close_list(&mut self) -> Vec<Effect> {
        let purpose = self.picker.take().map(|picker| picker.purpose);
        self.shows_panel &= purpose != Some(Purpose::Work);
        if purpose == Some(Purpose::Theme) { vec![Effect::TryTheme(None)] } else { Vec::new() }
    }

    /// A theme that stands in a list is looked at before it is chosen.
    fn tried_theme(&self) -> Vec<Effect> {
        let picker = self.picker.as_ref().filter(|picker| picker.purpose == Purpose::Theme);
        let item = picker.and_then(Picker::chosen);
        item.map(|item| Effect::TryTheme(Some(item.value.clone()))).into_iter().collect()
    }

    fn choose(&mut self, purpose: Purpose, item: Item) -> Vec<Effect> {
        match purpose {
            Purpose::History => {
                self.set_prompt(&item.value);
                Vec::new()
            }
            Purpose::Unsent if item.value == "edit" => Vec::new(),
            Purpose::Unsent if item.value == "run" => {
                let command = self.command_behind_words().unwrap_or_default();
                let words = self.returned.clone();
                self.set_prompt(&words);
                commands::parse(&command).map(|(name, words)| self.obey(name, words)).unwrap_or_default()
            }
            Purpose::Unsent => self.send(item.value == "follow up"),
            Purpose::Session if self.is_busy() => self.busy(),
            Purpose::Leaving if item.value == "stay" => Vec::new(),
            Purpose::Leaving if item.value == "keep" => vec![Effect::LeaveRunning],
            Purpose::Leaving if item.value == "wait" => {
                self.leaves_after = self.is_busy();
                if self.leaves_after { Vec::new() } else { self.leave() }
            }
            Purpose::Setting => {
                self.prompt.set(&item.value);
                Vec::new()
            }
            Purpose::Leaving if item.value == "background" && self.is_busy() => vec![Effect::HandOver],
            Purpose::Leaving => vec![Effect::Leave],
            _ => vec![Effect::Chosen(purpose, item.value)],
        }
    }

    /// What the question on the screen makes of a key. What means nothing to it is the prompt's.
    fn press_question(&mut self, action: Action, idle_ms: u64) -> Vec<Effect> {
        let (columns, _) = self.size;
        let now_ms = self.now_ms;
        // Who writes a prompt and thinks for a moment means the prompt.
        let idle_ms = if self.prompt.is_empty() { idle_ms } else { idle_ms.saturating_sub(THOUGHT_MS) };
        let input = self.asked().and_then(|asked| self.transcript.input_of(&asked.wanted().subject)).cloned();
        let open = self.questions.iter_mut().find(|asked| !asked.is_answered());
        let Some(asked) = open else { return self.press_prompt(action) };
        if let Some(prompt) = asked.typing() {
            return match action {
                Action::Escape | Action::Interrupt => {
                    asked.stop_typing();
                    Vec::new()
                }
                Action::PasteClipboard => vec![Effect::Paste],
                action if prompt.apply(&action) == Handled::Submit => {
                    let answer = asked.typed();
                    self.answered(answer)
                }
                // What is looked at meanwhile.
                Action::Details | Action::Panel | Action::Help | Action::PageUp | Action::PageDown => {
                    self.press_prompt(action)
                }
                _ => Vec::new(),
            };
        }
        match asked.press(action, now_ms, idle_ms, input.as_ref()) {
            Pressed::Not => self.press_prompt(action),
            Pressed::Taken => Vec::new(),
            Pressed::Details => {
                let lines = asked.details(columns, &self.theme);
                self.shows_plan = asked.plan().is_some();
                let title = if self.shows_plan { "the plan · e edits it" } else { "what is asked" };
                self.page = Some(Page::new(title, lines));
                Vec::new()
            }
            Pressed::EditPlan => self.edit_plan(),
            Pressed::Answer(answer) => self.answered(Some(answer)),
        }
    }

    /// The plan that is asked about goes to the person's editor.
    pub(super) fn edit_plan(&mut self) -> Vec<Effect> {
        let plan = |asked: &super::Asked| Some((asked.wanted().subject.clone(), asked.plan()?.to_owned()));
        let plan = self.asked().and_then(plan);
        plan.map(|(subject, text)| Effect::EditPlan(subject, text)).into_iter().collect()
    }

    /// What is approved is what they see then.
    pub(super) fn plan_edited(&mut self, subject: &Subject, text: &str) -> Vec<Effect> {
        let mut open = self.questions.iter_mut().filter(|asked| !asked.is_answered());
        let asked = open.find(|asked| asked.wanted().subject == *subject);
        let Some(asked) = asked else {
            self.hint = Some("the plan is not asked about any more".to_owned());
            return Vec::new();
        };
        let answer = asked.change_plan(text);
        self.answered(answer)
    }

    fn answered(&mut self, answer: Option<piton_core::client::Answer>) -> Vec<Effect> {
        answer.map(Effect::Answer).into_iter().collect()
    }

    fn press_prompt(&mut self, action: Action) -> Vec<Effect> {
        if let Some(effects) = self.press_menu(action) {
            return effects;
        }
        match action {
            Action::Escape => return self.escape(action),
            Action::Interrupt => return self.interrupt(),
            Action::Leave if self.prompt.is_empty() => return self.leave(),
            Action::Leave => drop(self.prompt.apply(&Action::Delete)),
            Action::CycleMode => return self.cycle_mode(),
            Action::Details => self.details(),
            Action::Panel => self.toggle_panel(),
            Action::Help => self.show_keys(Context::Prompt),
            Action::Insert('?') if self.prompt.is_empty() && self.inserts() => self.show_keys(Context::Prompt),
            Action::ExternalEditor => {
                let beside = self.transcript.last_words().to_owned();
                return vec![Effect::Editor { text: self.prompt.text(), beside }];
            }
            Action::PasteClipboard => return vec![Effect::Paste],
            Action::Background => return vec![Effect::Background],
            Action::TypeInto => self.type_into(),
            Action::TakeBack => return self.take_back(),
            Action::PageUp => return vec![Effect::Scroll(1)],
            Action::PageDown => return vec![Effect::Scroll(-1)],
            Action::HistorySearch if self.prompt.apply(&action) == Handled::No => {
                let is_empty = self.history.search("", Scope::Session).is_empty();
                self.scope = if is_empty { Scope::Folder } else { Scope::Session };
                self.search_history();
            }
            Action::HistorySearch => {}
            action => match self.prompt.apply(&action) {
                Handled::Submit => return self.submit(action == Action::FollowUp),
                Handled::AtTop => self.recall(true),
                Handled::AtBottom => self.recall(false),
                Handled::Yes => return self.offer(),
                Handled::No => {}
            },
        }
        Vec::new()
    }

    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        self.key_ms = self.now_ms;
        if let Some(call) = &self.typed_into {
            return vec![Effect::Type(call.clone(), text.replace("\r\n", "\r").replace('\n', "\r"))];
        }
        (self.escape_ms, self.leave_ms) = (None, None);
        if let Some(picker) = self.picker.as_mut().filter(|_| self.help.is_none() && self.page.is_none()) {
            picker.pasted(text);
            return Vec::new();
        }
        if self.has_page() {
            self.top_page().into_iter().for_each(|page| page.paste(text));
            return Vec::new();
        }
        match self.asked_mut().and_then(super::Asked::typing) {
            Some(prompt) => drop(prompt.paste(text)),
            None => {
                let paste = self.prompt.paste(text);
                paste.into_iter().for_each(|paste| self.history.pasted(paste));
                // The path stands there at once; a picture takes its place when it is known to be one.
                let files = dropped::files(text);
                return if files.is_empty() { Vec::new() } else { vec![Effect::Dropped(files)] };
            }
        }
        Vec::new()
    }

    /// Whether letters are text, and not commands of vi.
    fn inserts(&self) -> bool {
        !matches!(self.prompt.mode(), Some(mode) if mode != Mode::Insert)
    }

    fn escape(&mut self, action: Action) -> Vec<Effect> {
        // In the style of vi the prompt goes to its normal mode first.
        if self.prompt.apply(&action) == Handled::Yes {
            return Vec::new();
        }
        self.leaves_after = false;
        if self.is_busy() || self.transcript.is_interrupted() {
            // One behind the other: from the stop on nothing that waits is read, so all of it comes back.
            return vec![Effect::Cancel, Effect::Unqueue(None)];
        }
        let is_twice = self.escape_ms.replace(self.now_ms).is_some_and(|before| self.now_ms - before < TWICE_MS);
        if is_twice && self.prompt.is_empty() {
            self.escape_ms = None;
            return vec![Effect::Command { name: "rewind".to_owned(), words: String::new() }];
        }
        if self.prompt.is_empty() {
            self.hint = Some("Esc again: go back to an earlier turn".to_owned());
        }
        Vec::new()
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        if !self.prompt.is_empty() {
            self.prompt.set("");
            self.menu = Menu::default();
            return Vec::new();
        }
        let is_twice = self.leave_ms.replace(self.now_ms).is_some_and(|before| self.now_ms - before < TWICE_MS);
        if is_twice {
            return self.leave();
        }
        let stop = if self.is_busy() { "Esc stops the turn · " } else { "" };
        self.hint = Some(format!("{stop}Ctrl-C again to leave"));
        Vec::new()
    }

    pub(super) fn leave(&mut self) -> Vec<Effect> {
        let is_elsewhere = self.facts.as_ref().is_some_and(|facts| facts.is_elsewhere);
        let background = if is_elsewhere { 0 } else { self.tasks.running().count() };
        if !self.is_busy() && background == 0 {
            return vec![Effect::Leave];
        }
        if !self.is_busy() {
            let mut items =
                vec![item("stay", "", "stay"), item("end and leave", "with everything they started", "stop")];
            if self.tasks.commands().count() == background {
                let detail = "piton session processes lists them, piton session kill ends them";
                items.insert(1, item("keep running and leave", detail, "keep"));
            }
            let title = match background {
                1 => "1 task still runs in the background".to_owned(),
                many => format!("{many} tasks still run in the background"),
            };
            self.picker = Some(Picker::new(Purpose::Leaving, &title, items));
            self.picker_ms = Some(self.now_ms);
            return Vec::new();
        }
        let items = vec![
            item("stay", "the turn goes on, and you watch it", "stay"),
            item("leave when done", "close Piton after this turn", "wait"),
            item(
                "leave it to the background",
                "the turn goes on without a terminal; watch it with piton --attach",
                "background",
            ),
            item("stop it and leave", "what it did so far is kept; go on with piton -c", "stop"),
        ];
        self.picker = Some(Picker::new(Purpose::Leaving, "A turn is still running", items));
        Vec::new()
    }

    /// No command runs that could go to the background: the turn can.
    pub(super) fn background(&mut self) -> Vec<Effect> {
        if self.is_busy() {
            // It comes some time after the key.
            self.picker_ms = Some(self.now_ms);
            return self.leave();
        }
        self.hint = Some("nothing runs that could go to the background".to_owned());
        Vec::new()
    }

    fn cycle_mode(&mut self) -> Vec<Effect> {
        let told = self.facts.as_ref().map_or(PermissionMode::Ask, |facts| facts.mode);
        // Of presses in a row each goes on from the one before: what is told meanwhile may be about an earlier one.
        let pressed = self.cycled.filter(|(at_ms, _)| self.now_ms - at_ms < TWICE_MS);
        let next = match pressed.map_or(told, |(_, mode)| mode) {
            PermissionMode::Ask => PermissionMode::AcceptEdits,
            PermissionMode::AcceptEdits => PermissionMode::Plan,
            PermissionMode::Plan => PermissionMode::Auto,
            PermissionMode::Auto => PermissionMode::Ask,
        };
        self.cycled = Some((self.now_ms, next));
        // The status line does not wait. What holds is told again.
        if let Some(facts) = &mut self.facts {
            facts.mode = next;
        }
        vec![Effect::Mode(next)]
    }

    /// The running call, or else the last call or long message, in full.
    fn details(&mut self) {
        let Some(block) = self.transcript.running().or(self.transcript.last_folded()) else {
            self.hint = Some("no call yet".to_owned());
            return;
        };
        let (what, lines) = match &block.body {
            Body::Call(call) if call.outcome().is_none() => {
                ("the running call, as of now", call_page(block, call, self.size.0, &self.theme, self.now_ms))
            }
            Body::Call(call) => ("the last call", call_page(block, call, self.size.0, &self.theme, self.now_ms)),
            _ => (
                "your message",
                Sketch { columns: self.size.0, theme: &self.theme, folds: false, typed_into: None }.block(block),
            ),
        };
        self.page = Some(Page::new(&format!("{what} · Ctrl-O again: the whole session"), lines));
        self.shows_call = true;
    }

    fn take_back(&mut self) -> Vec<Effect> {
        let last = self.transcript.waiting().into_iter().filter_map(blocks::message_of).next_back();
        last.map(|message| Effect::Unqueue(Some(message))).into_iter().collect()
    }

    fn search_history(&mut self) {
        let item_of =
            |entry: &&Entry| Item { label: entry.text.clone(), detail: String::new(), value: entry.text.clone() };
        let items = self.history.search("", self.scope).iter().map(item_of).collect();
        let scope = match self.scope {
            Scope::Session => "of this session",
            Scope::Folder => "of this folder",
            Scope::All => "of all folders",
        };
        let title = format!("Prompts {scope} ({} for others)", self.keys.name_of(Action::HistorySearch));
        self.picker = Some(Picker::new(Purpose::History, &title, items));
    }

    /// Walks through the prompts from before. The draft is kept at its end.
    fn recall(&mut self, is_back: bool) {
        let draft = self.prompt.text();
        let words = if is_back { self.history.up(&draft) } else { self.history.down(&draft) };
        words.iter().for_each(|words| self.set_prompt(words));
    }

    /// Puts a text from before into the prompt, with chips for what was pasted into it.
    pub(super) fn set_prompt(&mut self, text: &str) {
        let pastes = self.history.pastes_in(text);
        pastes
            .iter()
            .filter_map(|paste| text.get(paste.clone()))
            .for_each(|paste| self.history.pasted(paste.to_owned()));
        self.prompt.set_with(text, &pastes);
    }

    fn submit(&mut self, is_follow_up: bool) -> Vec<Effect> {
        let shown = self.prompt.shown().to_owned();
        if shown.trim().is_empty() && self.prompt.text().trim().is_empty() {
            return Vec::new();
        }
        self.menu = Menu::default();
        if self.is_too_long(is_follow_up) || self.is_command_behind_words(is_follow_up) {
            return Vec::new();
        }
        self.send(is_follow_up)
    }

    fn send(&mut self, is_follow_up: bool) -> Vec<Effect> {
        self.returned.clear();
        let sent = self.prompt.take();
        let kept = self.history.add(&sent.text, sent.pastes, self.now_ms);
        let kept = kept.map(Effect::Remember);
        let mut effects = Vec::new();
        if let Some((name, words)) = commands::parse(&sent.text).filter(|_| sent.pictures.is_empty()) {
            effects.extend(self.obey(name, words));
        } else if let Some(command) = sent.text.strip_prefix('!') {
            let (command, is_private) = command.strip_prefix('!').map_or((command, false), |rest| (rest, true));
            match command.trim() {
                "" => self.hint = Some("a command follows: !git status (!! keeps it from the model)".to_owned()),
                command => effects.push(Effect::Shell { command: command.to_owned(), is_private }),
            }
        } else if let Some(words) = sent.text.strip_prefix('#').filter(|rest| !rest.starts_with('#')) {
            effects.push(Effect::Command { name: "note".to_owned(), words: words.trim().to_owned() });
        } else {
            let when = if is_follow_up { When::FollowUp } else { When::Steer };
            effects.push(Effect::Say { text: sent.text, pictures: sent.pictures, when });
        }
        // The first words begin the session that they are kept with; a command may leave it.
        let at =
            if matches!(effects.first(), Some(Effect::Say { .. } | Effect::Shell { .. })) { effects.len() } else { 0 };
        effects.splice(at..at, kept);
        effects
    }

    /// The command that was typed behind words that came back.
    fn command_behind_words(&self) -> Option<String> {
        let text = self.prompt.text();
        let behind = text.strip_prefix(&self.returned).filter(|_| !self.returned.is_empty())?.trim();
        let (name, _) = commands::parse(behind)?;
        self.commands.iter().any(|command| command.name == name).then(|| behind.to_owned())
    }

    /// Asks before a command is sent to the model, because it stands behind words that came back into the prompt.
    fn is_command_behind_words(&mut self, is_follow_up: bool) -> bool {
        let Some(command) = self.command_behind_words() else { return false };
        let when = if is_follow_up { "follow up" } else { "steer" };
        let command = blocks::first_line(&command);
        let items = vec![
            item(&format!("run {command}"), "the words before it stay in the prompt", "run"),
            item("send everything to the model", "", when),
            item("keep editing", "", "edit"),
        ];
        let title = format!("{command} stands behind words that came back into the prompt");
        self.picker = Some(Picker::new(Purpose::Unsent, &title, items));
        true
    }

    /// Asks before a message is sent that is larger than the model's whole context.
    fn is_too_long(&mut self, is_follow_up: bool) -> bool {
        let Some((model, window)) = self.facts.as_ref().and_then(|facts| Some((&facts.model, facts.window?))) else {
            return false;
        };
        let text = self.prompt.text();
        // No token is shorter than a byte.
        if (text.len() as u64) < window || text.starts_with('!') {
            return false;
        }
        let tokens = Family::of(model).estimate(&text);
        if tokens < window {
            return false;
        }
        let (tokens, window) = (blocks::short(tokens), blocks::short(window));
        let title = format!("This message has about {tokens} tokens, but the context of {model} only {window}");
        let when = if is_follow_up { "follow up" } else { "steer" };
        let items = vec![
            item("keep editing", "save the text as a file and name that: the model reads what it needs", "edit"),
            item("send anyway", "the provider will probably refuse it", when),
        ];
        self.picker = Some(Picker::new(Purpose::Unsent, &title, items));
        true
    }

    fn obey(&mut self, name: &str, words: &str) -> Vec<Effect> {
        match name {
            "help" | "keys" => self.show_keys(Context::Prompt),
            "quit" | "exit" | "q" => return self.leave(),
            "todo" => {
                let sketch = Sketch { columns: self.size.0, theme: &self.theme, folds: false, typed_into: None };
                self.notes.extend(match self.todos.is_empty() {
                    true => vec![Line::styled("  no todos", self.theme.dim)],
                    false => sketch.todos(&self.todos),
                });
            }
            "new" | "clear" | "resume" if self.is_busy() => return self.busy(),
            "tui" => match words.trim() {
                "" => return vec![Effect::Full(None)],
                "full" => return vec![Effect::Full(Some(true))],
                "inline" => return vec![Effect::Full(Some(false))],
                _ => self.hint = Some("/tui full or /tui inline".to_owned()),
            },
            "copy" => return self.copy(words),
            _ if self.commands.iter().any(|command| command.name == name) => {
                return vec![Effect::Command { name: name.to_owned(), words: words.to_owned() }];
            }
            // A repository may have commands that the face was not told of.
            _ => return vec![Effect::Command { name: name.to_owned(), words: words.to_owned() }],
        }
        Vec::new()
    }

    /// What cannot be done while a turn runs.
    fn busy(&mut self) -> Vec<Effect> {
        self.hint = Some("a turn is running: stop it with Esc first, or start another piton beside it".to_owned());
        Vec::new()
    }

    /// The last answer or one before it, or the last code in it.
    fn copy(&mut self, words: &str) -> Vec<Effect> {
        let (mut number, mut is_code) = (1, false);
        for word in words.split_whitespace() {
            match word.parse::<usize>() {
                Ok(back) if back > 0 => number = back,
                _ if word == "code" => is_code = true,
                _ => self.hint = Some("/copy, /copy 2 (the answer before the last), /copy code".to_owned()),
            }
        }
        if self.hint.is_some() {
            return Vec::new();
        }
        let answer = self.transcript.words_back(number);
        let text = if is_code { answer.and_then(last_code) } else { answer.map(str::to_owned) };
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            self.hint = Some("there is nothing to copy yet".to_owned());
            return Vec::new();
        };
        vec![Effect::Copy(text)]
    }

    /// Keys while something is offered below the prompt; `None`: they are the prompt's.
    fn press_menu(&mut self, action: Action) -> Option<Vec<Effect>> {
        if matches!(action, Action::Up | Action::Down | Action::Escape | Action::Complete | Action::Send) {
            self.look();
        }
        if self.menu.items.is_empty() {
            return None;
        }
        let most = self.menu.items.len() - 1;
        match action {
            Action::Up => self.menu.chosen = self.menu.chosen.checked_sub(1).unwrap_or(most),
            Action::Down => self.menu.chosen = if self.menu.chosen == most { 0 } else { self.menu.chosen + 1 },
            Action::Escape => {
                self.menu.items.clear();
                self.menu.is_closed = true;
            }
            Action::Complete => return Some(self.complete()),
            Action::Send => {
                // A name that was only guessed from a mistyped one is put into the prompt, for another Enter.
                let is_meant = |item: &Item| self.menu.chosen > 0 || item.label.starts_with(&self.menu.needle);
                let is_whole = self.menu.items.get(self.menu.chosen).is_some_and(is_meant);
                // What a server's prompt takes comes behind its name.
                let is_of_server = server_tool::is_about_servers(&self.menu.needle);
                let is_command = self.menu.needle.starts_with('/') && is_whole && !is_of_server;
                let effects = self.complete();
                // A command that wants nothing more is carried out at once.
                let takes_more = self.prompt.text().ends_with(' ') && self.takes_words();
                return Some(if is_command && !takes_more { self.submit(false) } else { effects });
            }
            _ => return None,
        }
        Some(Vec::new())
    }

    fn takes_words(&self) -> bool {
        let text = self.prompt.text();
        let name = text.trim().trim_start_matches('/');
        let takes = |command: &&commands::Command| command.name == name;
        self.commands
            .iter()
            .find(takes)
            .is_some_and(|command| !command.takes.is_empty() && !command.takes.starts_with('['))
    }

    fn complete(&mut self) -> Vec<Effect> {
        let Some(item) = self.menu.items.get(self.menu.chosen).cloned() else { return Vec::new() };
        self.menu = Menu::default();
        let (range, _) = self.prompt.word_before();
        self.prompt.replace(range, &item.value);
        self.offer()
    }
}

fn item(label: &str, detail: &str, value: &str) -> Item {
    Item { label: label.to_owned(), detail: detail.to_owned(), value: value.to_owned() }
}

/// Whether a key does something to a session in a list, or to its name while that is typed.
fn is_deed(action: Action, picker: &mut Picker) -> bool {
    match action {
        Action::Rename | Action::Trash | Action::Details | Action::HistorySearch => true,
        Action::Send | Action::Escape | Action::Interrupt => picker.is_renaming(),
        _ => false,
    }
}

/// What is done to a session in a list.
fn session_deed(action: Action, picker: &mut Picker) -> Option<Deed> {
    match action {
        Action::Send => picker.renamed().map(|(id, title)| Deed::Rename(id, title)),
        Action::Rename => {
            picker.rename();
            None
        }
        Action::Trash => picker.throw_away().map(Deed::Trash),
        Action::Details => picker.chosen().map(|item| Deed::Show(item.value.clone())),
        Action::HistorySearch => Some(Deed::OtherFolders),
        _ => {
            picker.stop_renaming();
            None
        }
    }
}

/// What stands in the last block of code.
fn last_code(answer: &str) -> Option<String> {
    let (_, code) = answer.split("```").skip(1).step_by(2).last()?.split_once('\n')?;
    Some(code.to_owned())
}

/// The arguments of a call, as text.
fn written(input: &CallInput) -> String {
    match input {
        CallInput::Json(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
        CallInput::Invalid { raw, error } => format!("{raw}\n({error})"),
    }
}

/// All of a call: what it runs with, and what came of it or what it has printed so far.
fn call_page(block: &Block, call: &CallBlock, columns: usize, theme: &Theme, now_ms: u64) -> Vec<Line<'static>> {
    let sketch = Sketch { columns, theme, folds: false, typed_into: None };
    let CallBlock { input, stage, .. } = call;
    let mut lines = match stage {
        CallStage::Running(_) => sketch.live(block, '…', now_ms),
        _ => sketch.block(block),
    };
    lines.push(Line::default());
    lines.extend(crate::text::clean_lines(&written(input)).into_iter().map(|line| Line::styled(line, theme.dim)));
    let printed = match stage {
        CallStage::Settled(outcome) => &outcome.text,
        CallStage::Running(output) => output,
        CallStage::Writing(_) | CallStage::Ready => return lines,
    };
    lines.push(Line::default());
    lines.extend(crate::text::clean_lines(printed).into_iter().map(Line::from));
    lines
}
