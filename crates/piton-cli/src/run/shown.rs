//! How a run is shown: as prose, as one object at its end, or event by event.

use crate::cli::Format;
use crate::failure::{Failure, Result};
use crate::out::view::{self, Look, TextView};
use crate::out::{print, report};
use piton_core::client::{Compacted, Of, Published, Reply, Report, ServerNow};
use piton_core::event::{Event, Record, TurnEnd};
use piton_core::ids::{CallId, SessionId};
use piton_core::message::Part;
use piton_core::stream_json::{self, Offer};
use piton_engine::engine::{EngineError, Handle, Resumed};
use piton_tools::runner;
use serde_json::json;

/// How the run is shown.
pub(crate) enum Shown {
    Text(Box<TextView>),
    Json,
    StreamJson,
}

impl Shown {
    pub(crate) fn new(format: Format, look: Look) -> Self {
        match format {
            Format::Text => Self::Text(Box::new(TextView::new(look))),
            Format::Json => Self::Json,
            Format::StreamJson => Self::stream_json(),
        }
    }

    /// Event by event; the first line says which version of the lines follows.
    pub(crate) fn stream_json() -> Self {
        print::write_preamble(&format!("{}\n", stream_json::hello(env!("CARGO_PKG_VERSION"))));
        Self::StreamJson
    }

    pub(crate) fn show(&mut self, published: &Published) {
        match self {
            Self::Text(view) => view.hear(published),
            Self::Json => {
                if let Published::Recorded(record) = published
                    && let Event::RewindAbandoned { rewind, error, touches } = &record.event
                {
                    self.note(&view::given_up(rewind, error, touches));
                }
            }
            Self::StreamJson => {
                let line = stream_json::line(published);
                line.into_iter().for_each(|line| view::write_stdout(&format!("{line}\n")));
                let beside = stream_json::beside(published);
                beside.into_iter().for_each(|line| view::write_stdout(&format!("{line}\n")));
            }
        }
    }

    /// Shows what a subagent records or streams: only programs want all of it.
    pub(crate) fn show_child(&mut self, of: &Of, published: &Published) {
        if let Self::StreamJson = self {
            let line = stream_json::line_of(of, published);
            line.into_iter().for_each(|line| view::write_stdout(&format!("{line}\n")));
        }
    }

    /// A session is open here, run by this agent, with these MCP servers, and offers this.
    pub(crate) fn opened(&self, session: &SessionId, agent: &str, servers: &[ServerNow], offer: &Offer) {
        if let Self::StreamJson = self {
            view::write_stdout(&format!("{}\n", stream_json::opened(session, agent, servers, offer)));
        }
    }

    /// Shows what somebody said in the session from elsewhere; as JSON it is a record like any other.
    pub(crate) fn user_said(&mut self, parts: &[Part]) {
        if let Self::Text(view) = self {
            view.user_said(parts);
        }
    }

    pub(crate) fn tick(&mut self) {
        if let Self::Text(view) = self {
            view.tick();
        }
    }

    /// A line for people, beside the answer.
    pub(crate) fn note(&mut self, line: &str) {
        match self {
            Self::Text(view) => view.note(&print::wrapped(line)),
            Self::Json | Self::StreamJson => view::write_stderr(&format!("{line}\n")),
        }
    }

    /// Takes notice of a record from before, without showing it.
    pub(crate) fn remember(&mut self, record: &Record) {
        if let Self::Text(view) = self {
            view.remember(record);
        }
    }

    /// What came of something else that a program asked for: the same line as at the control socket.
    pub(crate) fn reply(&self, reply: &Reply) {
        // Of the rest the records and fragments tell.
        let is_news = !matches!(reply, Reply::Answered { .. } | Reply::State { .. });
        if let (Self::StreamJson, true, Ok(line)) = (self, is_news, serde_json::to_string(reply)) {
            view::write_stdout(&format!("{line}\n"));
        }
    }

    /// The summary that was asked for. What is told event by event has it already.
    pub(crate) fn compacted(&mut self, made: &Compacted) {
        match self {
            Self::Text(view) => view.compacted_as_asked(made),
            Self::Json => {
                let line = serde_json::to_string(&Reply::Compacted(made.clone()));
                line.into_iter().for_each(|line| view::write_stdout(&format!("{line}\n")));
            }
            Self::StreamJson => {}
        }
    }

    /// Takes notice of what was before in a turn that was cut off, and says what is waited for: a command that was begun
    /// goes on beside us, and is never run again.
    pub(crate) async fn resume(&mut self, session: &Handle) -> Result<()> {
        if session.resumed() == Resumed::AtRest {
            return Ok(());
        }
        let mut begun: Vec<CallId> = Vec::new();
        let visit = &mut |record: &mut Record| {
            if record.seq < session.opened_at() {
                self.remember(record);
            }
            match &record.event {
                Event::CallStarted { call } => begun.push(call.clone()),
                Event::CallSettled { call, .. } => begun.retain(|begun| begun != call),
                _ => {}
            }
        };
        session.store().each(session.id(), visit).await?;
        if session.elsewhere().is_some() {
            return Ok(());
        }
        let calls = session.store().scratch(session.id()).join("calls");
        for claim in begun.iter().filter_map(|call| runner::running(&calls.join(call.as_str()))) {
            self.note(&format!(
                "a command from before is still running (process {}); waiting for its end. Ctrl-C stops it",
                claim.pid
            ));
        }
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        if let Self::Text(view) = self {
            view.clear();
        }
    }

    pub(crate) fn line_was_ended(&mut self) {
        if let Self::Text(view) = self {
            view.line_was_ended();
        }
    }

    pub(crate) fn stopping(&mut self) {
        if let Self::Text(view) = self {
            view.note("stopping… (once more to quit at once)");
        }
    }

    /// The last words, in the form asked for.
    pub(crate) fn finish(&mut self, report: &Report, session: &str, code: u8) {
        match self {
            Self::Text(view) => {
                view.summary(report, session);
                if let Some(words) =
                    report::ending(report, session, view.is_of_newest(), view.has_refused_what_is_asked_each_time())
                {
                    view.note(&words);
                }
            }
            Self::Json | Self::StreamJson => {
                let mut result = json!({
                    "type": "result",
                    "session": session,
                    "turn": report.turn,
                    "end": report.end,
                    "detail": report.detail,
                    "exit_code": code,
                    "text": report.text,
                    "result": report.result,
                    "changed_files": report.changed_files,
                    "sandbox": report.sandbox,
                    "spent": report.spent,
                });
                if !report.checks.is_empty() {
                    result["checks"] = json!(report.checks);
                }
                if let Some(structured) = &report.structured {
                    result["structured"] = (**structured).clone();
                }
                view::write_stdout(&format!("{result}\n"));
            }
        }
    }
}

/// The report of a turn that did not begin, since a hook refused what was said.
pub(crate) fn refused(error: &EngineError) -> Report {
    Report::not_begun(TurnEnd::HookStopped, error.to_string())
}

/// The last line of a run in which nobody said anything, for programs; the error is for people.
pub(crate) fn nothing_said(shown: &Shown, session: Option<&str>) -> Failure {
    let detail = "the task is empty: standard input ended without a prompt";
    if let Shown::Json | Shown::StreamJson = shown {
        let result = json!({
            "type": "result", "session": session, "turn": 0, "end": null, "detail": detail,
            "exit_code": report::EXIT_FAILED, "text": "", "result": "",
        });
        view::write_stdout(&format!("{result}\n"));
    }
    let hint = "Say what to do, a line each:  {\"do\":\"prompt\",\"text\":\"fix the failing test\"}";
    Failure::user(detail).hint(hint)
}
