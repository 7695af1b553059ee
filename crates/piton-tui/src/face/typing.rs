//! Typing into a command that runs and has a terminal: the keys are its own until the person takes them back.

use super::{Effect, Face};
use crate::blocks;
use crate::keys::{Action, Context};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use piton_core::ids::CallId;
use piton_core::story::{Body, CallBlock, CallStage};

impl Face {
    /// The newest command that runs and has a terminal.
    fn with_terminal(&self) -> Option<&CallBlock> {
        let mut blocks = self.transcript.story().blocks().rev();
        blocks.find_map(|block| match &block.body {
            Body::Call(call) if blocks::has_terminal(call) => Some(&**call),
            _ => None,
        })
    }

    /// From here on keys go to the command that has a terminal.
    pub(super) fn type_into(&mut self) {
        self.typed_into = self.with_terminal().map(|call| call.call.clone());
        if self.typed_into.is_none() {
            self.hint = Some("no command runs that has a terminal (!cmd, or bash with pty)".to_owned());
        }
    }

    pub(super) fn stop_typing_into_what_is_over(&mut self) {
        let runs = |call: &CallId| {
            let call = self.transcript.story().call(call);
            call.is_some_and(|call| matches!(call.stage, CallStage::Running(_)))
        };
        if self.typed_into.as_ref().is_some_and(|call| !runs(call)) {
            self.typed_into = None;
            // Keys that were on their way to it are no prompt, and answer nothing.
            self.key_ms = self.now_ms;
        }
    }

    /// What the command makes of a key; `None`: it is not the command's.
    pub(super) fn press_typing(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let call = self.typed_into.clone()?;
        let action = self.keys.action(Context::Prompt, key);
        if matches!(action, Some(Action::TypeInto)) || key.code == KeyCode::Esc {
            self.typed_into = None;
            return Some(Vec::new());
        }
        Some(keys(key).map(|keys| Effect::Type(call, keys)).into_iter().collect())
    }
}

/// What a terminal sends for a key.
fn keys(key: KeyEvent) -> Option<String> {
    let bytes = match key.code {
        KeyCode::Char(char) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            let code = match char.to_ascii_uppercase() {
                letter @ ('@'..='_') => letter as u8 & 0x1f,
                ' ' => 0,
                '/' => 0x1f,
                _ => return None,
            };
            char::from(code).to_string()
        }
        KeyCode::Char(char) => char.to_string(),
        KeyCode::Enter => "\r".to_owned(),
        KeyCode::Tab => "\t".to_owned(),
        KeyCode::BackTab => "\x1b[Z".to_owned(),
        KeyCode::Backspace => "\x7f".to_owned(),
        KeyCode::Delete => "\x1b[3~".to_owned(),
        KeyCode::Up => "\x1b[A".to_owned(),
        KeyCode::Down => "\x1b[B".to_owned(),
        KeyCode::Right => "\x1b[C".to_owned(),
        KeyCode::Left => "\x1b[D".to_owned(),
        KeyCode::Home => "\x1b[H".to_owned(),
        KeyCode::End => "\x1b[F".to_owned(),
        KeyCode::PageUp => "\x1b[5~".to_owned(),
        KeyCode::PageDown => "\x1b[6~".to_owned(),
        _ => return None,
    };
    Some(if key.modifiers.contains(KeyModifiers::ALT) { format!("\x1b{bytes}") } else { bytes })
}
