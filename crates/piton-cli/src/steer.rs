//! `piton run --input-format stream-json`: what is said on standard input, line by line, while the session goes on.
//! A program steers with it, queues what comes next, interrupts, answers questions and cancels.

use crate::cli::RunArgs;
use crate::report;
use crate::run::{self, Shown, Stops, TICK};
use crate::view;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use piton_core::event::{Decision, Delivery, Event, Subject, TurnEnd};
use piton_core::message::Part;
use piton_engine::bus::Published;
use piton_engine::engine::{EngineError, Resumed, Session, TurnReport};
use serde::Deserialize;
use serde_json::{Value, json};
use std::future::Future;
use std::pin::Pin;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// What a line asks for.
#[derive(Debug, PartialEq)]
enum Line {
    Say { text: String, when: When },
    Answer { subject: Subject, decision: Decision },
    Cancel,
}

/// When the model shall hear it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum When {
    /// At the next step.
    #[default]
    Steer,
    /// After the turn.
    FollowUp,
    /// At once: the turn under way is stopped for it.
    Interrupt,
}

/// Our own words, as at the control socket.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
enum Own {
    Prompt {
        text: String,
        #[serde(default)]
        delivery: When,
    },
    Answer {
        subject: Subject,
        decision: Decision,
    },
    Cancel {},
}

impl Line {
    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        if value.get("do").is_some() {
            let own = serde_json::from_value(value).map_err(|error| error.to_string())?;
            let line = match own {
                Own::Prompt { text, delivery } => Self::Say { text, when: delivery },
                Own::Answer { subject, decision } => Self::Answer { subject, decision },
                Own::Cancel {} => Self::Cancel,
            };
            return line.with_words();
        }
        match value["type"].as_str() {
            Some("user") => Self::Say { text: content(&value["message"]["content"])?, when: When::Steer }.with_words(),
            Some("control_request") if value["request"]["subtype"] == "interrupt" => Ok(Self::Cancel),
            _ => Err("it has neither `do` (prompt, answer, cancel) nor the `type` user".to_owned()),
        }
    }

    fn with_words(self) -> Result<Self, String> {
        match &self {
            Self::Say { text, .. } if text.trim().is_empty() => Err("it says nothing".to_owned()),
            _ => Ok(self),
        }
    }
}

/// The text of a message in Claude Code's form.
fn content(content: &Value) -> Result<String, String> {
    let text_of = |block: &Value| match (block["type"].as_str(), block["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text.to_owned()),
        (kind, _) => Err(format!("content of the type {} is not taken here, only text", kind.unwrap_or("?"))),
    };
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => Ok(blocks.iter().map(text_of).collect::<Result<Vec<_>, _>>()?.join("\n")),
        _ => Err("a user's message has `message.content`, a text or a list of text blocks".to_owned()),
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<TurnReport, EngineError>>>>;

/// A session that is spoken in.
struct Steering<'a> {
    session: Session,
    shown: Shown,
    args: &'a RunArgs,
    asking: FuturesUnordered<Asking>,
    open: Vec<Subject>,
    input: Option<UnboundedReceiver<String>>,
    lines: usize,
    /// The last turn whose result was shown, and the exit code so far.
    told: u32,
    code: u8,
}

/// Runs a session by what is said on standard input, until that is over and everything is answered. Returns the exit
/// code of the last turn.
pub(crate) async fn steer(session: Session, first: Option<String>, shown: Shown, args: &RunArgs) -> anyhow::Result<u8> {
    let input = Some(read_lines());
    let asking = FuturesUnordered::new();
    let mut steering = Steering { session, shown, args, asking, open: Vec::new(), input, lines: 0, told: 0, code: 0 };
    match first {
        Some(text) => steering.say(text, When::Steer),
        None if steering.session.resumed() == Resumed::MidTurn => {
            let session = steering.session.clone();
            steering.asking.push(Box::pin(async move { session.go_on().await }));
        }
        None => {}
    }
    let result = steering.until_over().await;
    steering.session.close().await;
    result.map(|terminated| if terminated { report::EXIT_TERMINATED } else { steering.code })
}

impl Steering<'_> {
    async fn until_over(&mut self) -> anyhow::Result<bool> {
        let mut subscription = self.session.subscribe(self.session.opened_at());
        let mut stops = Stops::listen()?;
        let mut stopped = None;
        let mut tick = tokio::time::interval(TICK);
        loop {
            let is_quiet = self.asking.is_empty() && subscription.is_drained();
            if is_quiet && (self.input.is_none() || stopped.is_some()) {
                return Ok(stopped == Some(true));
            }
            tokio::select! {
                biased;
                published = subscription.next() => match published? {
                    Some(published) => {
                        self.shown.show(&published);
                        self.hear(&published)?;
                    }
                    None => return Ok(stopped == Some(true)),
                },
                Some(ended) = self.asking.next() => self.tell(ended)?,
                line = next(&mut self.input) => match line {
                    Some(line) => self.take(&line)?,
                    None => self.end_of_input()?,
                },
                by_term = stops.next() => {
                    if stopped.replace(by_term).is_some() {
                        std::process::exit(i32::from(report::EXIT_TERMINATED));
                    }
                    self.code = report::exit_code(TurnEnd::Canceled);
                    self.session.cancel();
                }
                _ = tick.tick() => self.shown.tick(),
            }
        }
    }

    fn take(&mut self, line: &str) -> anyhow::Result<()> {
        self.lines += 1;
        if line.trim().is_empty() {
            return Ok(());
        }
        match Line::parse(line) {
            Ok(Line::Say { text, when }) => self.say(text, when),
            Ok(Line::Answer { subject, decision }) if self.open.contains(&subject) => {
                self.session.answer(subject, decision)?;
            }
            Ok(Line::Answer { .. }) => self.complain("this question is not open"),
            Ok(Line::Cancel) => self.session.cancel(),
            Err(error) => self.complain(&error),
        }
        Ok(())
    }

    fn say(&mut self, text: String, when: When) {
        if when == When::Interrupt {
            self.session.cancel();
        }
        let delivery = if when == When::FollowUp { Delivery::FollowUp } else { Delivery::Steer };
        let session = self.session.clone();
        self.asking.push(Box::pin(async move { session.send(vec![Part::text(text)], delivery).await }));
    }

    /// A line that cannot be obeyed changes nothing.
    fn complain(&mut self, error: &str) {
        let line = self.lines;
        match &self.shown {
            Shown::StreamJson => {
                let said = json!({"type": "input_error", "line": line, "error": error});
                view::write_stdout(&format!("{said}\n"));
            }
            Shown::Text(_) | Shown::Json => {
                view::write_stderr(&format!("standard input, line {line}: {error}; it was passed over\n"));
            }
        }
    }

    fn hear(&mut self, published: &Published) -> anyhow::Result<()> {
        let Published::Recorded(record) = published else { return Ok(()) };
        match &record.event {
            Event::ApprovalAsked { subject } => {
                self.open.push(subject.clone());
                if self.input.is_none() {
                    self.end_of_input()?;
                }
            }
            Event::ApprovalGiven { subject, .. } => self.open.retain(|open| open != subject),
            Event::TurnEnded { .. } => self.open.clear(),
            _ => {}
        }
        Ok(())
    }

    /// Nobody is there any more who could answer.
    fn end_of_input(&mut self) -> anyhow::Result<()> {
        self.input = None;
        for subject in &self.open {
            self.session.answer(subject.clone(), Decision::Unattended)?;
        }
        Ok(())
    }

    /// Tells a turn's end, once, whoever spoke for it.
    fn tell(&mut self, ended: Result<TurnReport, EngineError>) -> anyhow::Result<()> {
        let id = self.session.id().to_string();
        let report = match ended {
            Err(EngineError::PromptRefused { hook, reason }) => {
                run::refused(&EngineError::PromptRefused { hook, reason })
            }
            ended => ended?,
        };
        if report.turn > 0 && report.turn == self.told {
            return Ok(());
        }
        self.told = report.turn.max(self.told);
        self.code = report::exit_code(report.end);
        run::finish(&mut self.shown, &report, &id, self.code, self.args);
        Ok(())
    }
}

/// The next line; `None` at the end of the input. Waits for ever after that.
async fn next(input: &mut Option<UnboundedReceiver<String>>) -> Option<String> {
    match input {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

fn read_lines() -> UnboundedReceiver<String> {
    use std::io::BufRead;
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut line = Vec::new();
        // Bytes that are no text are no JSON either, and that is said.
        while let Ok(1..) = input.read_until(b'\n', &mut line) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_ours_or_in_the_form_that_others_write() {
        let say = |text: &str, when| Ok(Line::Say { text: text.to_owned(), when });
        assert_eq!(Line::parse(r#"{"do":"prompt","text":"a"}"#), say("a", When::Steer));
        assert_eq!(Line::parse(r#"{"do":"prompt","text":"a","delivery":"interrupt"}"#), say("a", When::Interrupt));
        let theirs =
            r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"a"}]},"session_id":""}"#;
        assert_eq!(Line::parse(theirs), say("a", When::Steer));
        assert_eq!(Line::parse(r#"{"do":"cancel"}"#), Ok(Line::Cancel));
        let answer = r#"{"do":"answer","subject":{"call":"c1_0"},"decision":{"deny":"no"}}"#;
        let decision = Decision::Deny(Some("no".into()));
        assert_eq!(Line::parse(answer), Ok(Line::Answer { subject: Subject::Call("c1_0".into()), decision }));
        for bad in ["", "hello", "{}", "[]", r#"{"do":"prompt"}"#, r#"{"do":"prompt","text":" "}"#, r#"{"do":"fly"}"#] {
            assert!(Line::parse(bad).is_err(), "{bad}");
        }
    }
}
