//! The status line by a script of the user's: what it is told, in the JSON of Claude Code's status lines, and what it prints. The
//! face never waits for it; a script that hangs is ended.
//!
//! ```text
//!   what the session tells ──► Facts ──► JSON ──► sh -c COMMAND ──► lines, cleaned ──► the face
//! ```

use piton_core::client::Published;
use piton_core::event::Event;
use piton_core::ids::TimeMs;
use piton_core::message::Usage;
use piton_tools::spawn::{Confinement, Env, Keep, Running, Spawn};
use piton_tui::text;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// The least time between two runs: what changes in a moment is told at once.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a script may take. Its line is of no use when it comes later.
const PATIENCE: Duration = Duration::from_secs(2);
/// Lines of its output that are shown.
const MOST_LINES: usize = 3;
/// Characters of one of them.
const MOST_CHARS: usize = 500;
/// From so many tokens on some scripts warn.
const LONG_CONTEXT: u64 = 200_000;

/// The script, and what it is told.
pub(super) struct StatusLine {
    command: String,
    env: Env,
    pub(super) told: Told,
    /// When it was started last, and when it is to be started next.
    started: Option<Instant>,
    due: Option<Instant>,
    running: Option<(Running, Instant)>,
}

/// What is known of the session.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Told {
    pub(super) folder: PathBuf,
    pub(super) session: String,
    pub(super) title: String,
    /// `provider/model`.
    pub(super) model: String,
    pub(super) window: Option<u64>,
    usage: Usage,
    total: Usage,
    cost_micros: u64,
    began_ms: TimeMs,
    at_ms: TimeMs,
    asked_ms: TimeMs,
    api_ms: u64,
    added: u64,
    removed: u64,
}

impl StatusLine {
    pub(super) fn new(command: String, env: Env) -> Self {
        let due = Some(Instant::now());
        Self { command, env, told: Told::default(), started: None, due, running: None }
    }

    /// Something may be different: the script is run again, soon.
    pub(super) fn changed(&mut self) {
        let at = self.started.map_or_else(Instant::now, |started| started + PAUSE);
        self.due.get_or_insert(at);
    }

    /// Takes notice of what the session tells.
    pub(super) fn hear(&mut self, published: &Published) {
        if let Published::Recorded(record) = published
            && self.told.hear(record.at_ms, &record.event)
        {
            self.changed();
        }
    }

    /// The next lines that the script prints. Never comes where it prints none; may be dropped half-way and called again.
    pub(super) async fn next(status: &mut Option<Self>) -> Vec<String> {
        match status {
            Some(status) => status.lines().await,
            None => std::future::pending().await,
        }
    }

    async fn lines(&mut self) -> Vec<String> {
        loop {
            if let Some((running, until)) = &mut self.running {
                let ended = tokio::time::timeout_at(*until, running.wait()).await;
                let Some((running, _)) = self.running.take() else { continue };
                // Dropped, it is ended with all that it started.
                let is_good = matches!(ended, Ok(Ok(status)) if status.success());
                if is_good {
                    return cleaned(&running.output().await.0);
                }
                continue;
            }
            match self.due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
            (self.due, self.started) = (None, Some(Instant::now()));
            let folder = if self.told.folder.is_dir() { self.told.folder.as_path() } else { Path::new("/") };
            let spawn = Spawn::shell(&self.command, &self.env, folder, Confinement::User);
            let running = spawn.run(Some(self.told.json().to_string().into_bytes()), Keep::First);
            // One that cannot be started is one that prints nothing.
            self.running = running.ok().map(|running| (running, Instant::now() + PATIENCE));
        }
    }
}

impl Told {
    /// Whether it tells another thing now.
    fn hear(&mut self, at_ms: TimeMs, event: &Event) -> bool {
        self.at_ms = at_ms;
        match event {
            Event::SessionStarted { session, .. } => {
                *self = Self {
                    folder: std::mem::take(&mut self.folder),
                    model: std::mem::take(&mut self.model),
                    window: self.window,
                    session: session.to_string(),
                    began_ms: at_ms,
                    at_ms,
                    ..Self::default()
                };
            }
            Event::TitleGiven { title, by } if by.names(title) => self.title.clone_from(title),
            Event::TurnStarted { model, .. } | Event::ModelSwitched { model, .. } => self.model.clone_from(model),
            Event::StepStarted { .. } | Event::BackoffPassed { .. } => {
                self.asked_ms = at_ms;
                return false;
            }
            Event::MessageFinished { reply, cost_micros, .. } => {
                self.usage = reply.usage;
                self.total.add(&reply.usage);
                self.cost_micros += cost_micros.unwrap_or(0);
                self.api_ms += at_ms.saturating_sub(self.asked_ms);
            }
            Event::CallSettled { outcome, .. } => {
                let change = outcome.text.find("\n@@ ").map(|at| &outcome.text[at + 1..]);
                let Some(change) = change else { return false };
                let lines = |sign: char| change.lines().filter(|line| line.starts_with(sign)).count() as u64;
                (self.added, self.removed) = (self.added + lines('+'), self.removed + lines('-'));
            }
            Event::TurnEnded { .. } => {}
            _ => return false,
        }
        true
    }

    /// As Claude Code tells it to such scripts.
    fn json(&self) -> Value {
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, .. } = self.usage;
        let context = self.usage.total();
        let used = self.window.filter(|window| *window > 0).map(|window| (context * 100 / window).min(100));
        let (_, name) = self.model.split_once('/').unwrap_or(("", &self.model));
        let folder = self.folder.to_string_lossy();
        let mut json = json!({
            "cwd": folder,
            "session_id": self.session,
            "transcript_path": "",
            "model": {"id": self.model, "display_name": name},
            "workspace": {"current_dir": folder, "project_dir": folder, "added_dirs": []},
            "version": env!("CARGO_PKG_VERSION"),
            "output_style": {"name": "default"},
            "cost": {
                "total_cost_usd": self.cost_micros as f64 / 1e6,
                "total_duration_ms": self.at_ms.saturating_sub(self.began_ms),
                "total_api_duration_ms": self.api_ms,
                "total_lines_added": self.added,
                "total_lines_removed": self.removed,
            },
            "context_window": {
                "total_input_tokens": self.total.input_tokens,
                "total_output_tokens": self.total.output_tokens,
                "context_window_size": self.window,
                "used_percentage": used,
                "remaining_percentage": used.map(|used| 100 - used),
                "current_usage": {
                    "input_tokens": input_tokens.saturating_sub(cache_read_tokens + cache_write_tokens),
                    "output_tokens": output_tokens,
                    "cache_creation_input_tokens": cache_write_tokens,
                    "cache_read_input_tokens": cache_read_tokens,
                },
            },
            "exceeds_200k_tokens": context > LONG_CONTEXT,
        });
        if !self.title.is_empty() {
            json["session_name"] = json!(self.title);
        }
        json
    }
}

/// Its lines as text: no colours, no links, nothing that a terminal would act upon.
fn cleaned(output: &str) -> Vec<String> {
    let plain = anstream::adapter::strip_str(output).to_string();
    let lines = plain.lines().map(|line| text::clean(line).chars().take(MOST_CHARS).collect::<String>());
    lines.filter(|line| !line.trim().is_empty()).take(MOST_LINES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::event::TitledBy;
    use piton_core::message::{FinishReason, Part};
    use piton_core::model::Reply;
    use std::sync::Arc;

    fn status(command: &str) -> Option<StatusLine> {
        let env: Env = Arc::new([("PATH".into(), "/usr/bin:/bin".into())].into());
        Some(StatusLine::new(command.to_owned(), env))
    }

    #[tokio::test]
    async fn a_script_reads_the_json_and_prints_the_line() {
        let mut status = status("grep -o '\"session_id\":\"[^\"]*\"'");
        status.as_mut().unwrap().told.session = "ses_7".to_owned();
        assert_eq!(StatusLine::next(&mut status).await, ["\"session_id\":\"ses_7\""]);
    }

    #[tokio::test]
    async fn a_script_that_hangs_is_ended_and_the_next_run_is_heard() {
        let marks = tempfile::tempdir().unwrap();
        let mark = marks.path().join("mark");
        let script = format!("if test -e {0}; then echo second; else echo $$ > {0}; sleep 1000; fi", mark.display());
        let mut status = status(&script);
        let waited = tokio::time::timeout(PATIENCE * 2, StatusLine::next(&mut status)).await;
        assert!(waited.is_err(), "it prints nothing: {waited:?}");
        let pid = std::fs::read_to_string(&mark).unwrap();
        assert!(!Path::new(&format!("/proc/{}/exe", pid.trim())).exists(), "it is gone");
        status.as_mut().unwrap().changed();
        assert_eq!(StatusLine::next(&mut status).await, ["second"]);
    }

    #[test]
    fn of_what_it_prints_nothing_reaches_the_terminal_but_text() {
        let output = "\x1b[31mred\x1b[0m \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b]0;title\x07\u{202e}\n\n\x07b\x08ell\n3\n4\n";
        let lines = cleaned(output);
        assert_eq!(lines.len(), MOST_LINES);
        assert!(lines[0].starts_with("red link"), "{lines:?}");
        assert!(!lines.concat().chars().any(|char| char.is_control() || char == '\u{202e}'), "{lines:?}");
    }

    #[test]
    fn what_happened_is_in_the_json() {
        let mut told = Told { window: Some(1_000), folder: "/w".into(), ..Told::default() };
        let usage = Usage { input_tokens: 300, output_tokens: 100, cache_read_tokens: 200, ..Usage::default() };
        let reply = Reply { usage, ..Reply::new(vec![Part::text("x")], FinishReason::Stop) };
        let mut replied = Event::replied(1, reply);
        if let Event::MessageFinished { cost_micros, .. } = &mut replied {
            *cost_micros = Some(2_500);
        }
        let started = Event::SessionStarted {
            session: "ses_1".into(),
            workspace: "/w".into(),
            version: "0".into(),
            parent: None,
        };
        for (at_ms, event) in [
            (10, started),
            (20, Event::StepStarted { step: 1, kind: piton_core::event::StepKind::Ordinary, note: None }),
            (50, replied),
            (60, Event::TitleGiven { title: "a title".into(), by: TitledBy::User }),
        ] {
            told.hear(at_ms, &event);
        }
        let json = told.json();
        assert_eq!(json["session_name"], "a title");
        assert_eq!(json["cost"]["total_cost_usd"], 0.0025);
        assert_eq!(
            (&json["cost"]["total_duration_ms"], &json["cost"]["total_api_duration_ms"]),
            (&json!(50), &json!(30))
        );
        assert_eq!(json["context_window"]["used_percentage"], 40);
        assert_eq!(json["context_window"]["current_usage"]["input_tokens"], 100);
    }
}
