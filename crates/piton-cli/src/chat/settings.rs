//! `/config` and `/hooks`: every setting with who says it, changed in the user's own file, and what runs at which point of the loop.

use super::Chat;
use crate::commands::config;
use crate::out::view;
use crate::settings;
use piton_core::hook::HookPoint;
use piton_tui::face::Input;
use piton_tui::picker::{Item, Purpose};

/// Where hooks run, in the order of a turn.
const POINTS: [HookPoint; 18] = [
    HookPoint::SessionStart,
    HookPoint::Prompt,
    HookPoint::BeforeModel,
    HookPoint::Chunk,
    HookPoint::TextDelta,
    HookPoint::Reasoning,
    HookPoint::AfterModel,
    HookPoint::Message,
    HookPoint::ToolUse,
    HookPoint::BeforeTool,
    HookPoint::Approval,
    HookPoint::AfterTool,
    HookPoint::Step,
    HookPoint::Stop,
    HookPoint::Turn,
    HookPoint::BeforeCompaction,
    HookPoint::Compacted,
    HookPoint::SessionEnd,
];

/// What the configuration calls a point.
fn word(point: HookPoint) -> String {
    serde_json::to_value(point).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

impl Chat<'_> {
    /// Offers the settings that are in force. One that is chosen stands in the prompt, to be changed.
    pub(super) fn pick_setting(&mut self) {
        let found = match config::in_force(self.around, self.folder()) {
            Ok(found) => found,
            Err(error) => return self.fail(&error),
        };
        let item = |(key, value, origin): (String, String, String)| Item {
            value: format!("/config {key} {value}"),
            label: view::clean(&format!("{key} = {value}")),
            detail: view::clean(&origin),
        };
        let items = found.into_iter().map(item).collect();
        let title = "Settings: Enter changes one in your own file".to_owned();
        self.terminal.tell(Input::Choose { purpose: Purpose::Setting, title, items });
    }

    /// Changes a setting in the user's own file: its key and its value.
    pub(super) async fn set(&mut self, words: &str) {
        let Some((key, value)) = split(words) else {
            return self.note("/config KEY VALUE, such as /config limits.max_steps 40; /config alone lists them");
        };
        self.told_by(&["config", "set", key, value]).await;
        // Before the first words the session is made anew; one that is open keeps what it began with.
        match self.open {
            Some(_) => self.note("it holds from the next session on"),
            None => drop(self.assemble().await),
        }
    }

    /// Shows what runs at which point of the loop.
    pub(super) async fn hooks(&mut self) {
        let folder = self.folder().to_owned();
        let settings = match settings::of_session(self.around, &folder, &self.wishes).await {
            Ok(settings) => settings,
            Err(error) => return self.fail(&error.into()),
        };
        let line = |hook: &std::sync::Arc<dyn piton_engine::hooks::Hook>| {
            let points: Vec<String> =
                POINTS.into_iter().filter(|point| hook.points().contains(*point)).map(word).collect();
            let points = if points.len() == POINTS.len() { "everywhere".to_owned() } else { points.join(" ") };
            let required = if hook.required() { ", required" } else { "" };
            let seconds = hook.timeout().as_secs();
            view::clean(&format!("{points:<24} {} (at most {seconds} s{required})", hook.name()))
        };
        let lines: Vec<String> = settings.hooks.iter().map(line).collect();
        let text = match lines.is_empty() {
            true => "No hook runs. They are set in [hooks] of config.toml: docs/hooks.md\n".to_owned(),
            false => lines.join("\n"),
        };
        let title = "Hooks".to_owned();
        self.terminal.tell(Input::Page { title, text, at_end: false });
    }
}

/// The key and the value behind `/config`. The key may have blanks in quotes.
fn split(words: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let at = words.find(|char: char| {
        is_quoted ^= char == '"';
        !is_quoted && (char.is_whitespace() || char == '=')
    })?;
    let (key, value) = words.split_at(at);
    let value = value.trim_start_matches(|char: char| char.is_whitespace() || char == '=').trim();
    (!value.is_empty()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_have_blanks_in_quotes_and_an_equals_sign_behind_it() {
        assert_eq!(split("limits.max_steps 40"), Some(("limits.max_steps", "40")));
        assert_eq!(split("limits.max_steps = 40"), Some(("limits.max_steps", "40")));
        assert_eq!(split(r#"models."a b".effort "low""#), Some((r#"models."a b".effort"#, r#""low""#)));
        assert_eq!(split("model"), None);
        assert_eq!(split("model ="), None);
    }
}
