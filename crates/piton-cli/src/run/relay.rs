//! `--input-format stream-json` in a session that another process runs: every line goes to that process over the control
//! socket, and what happens there is shown here.

use crate::cli::RunArgs;
use crate::failure::{Result, bail};
use crate::out::report;
use crate::out::view;
use crate::run::follow::{Joined, adds_nothing, cut_off};
use crate::run::input::Input;
use crate::run::shown::{self, Shown};
use crate::run::stops::{Stop, Stops, TICK};
use piton_core::client::{Published, Refusal, Reply, Request};
use piton_core::event::Event;
use piton_core::ids::{MessageId, SessionId};
use piton_engine::control::{Awaited, Follower, Told};
use piton_engine::engine::{Engine, new_message_id};
use std::sync::Arc;

/// A session that is spoken in from outside.
struct Relay<'a> {
    id: &'a SessionId,
    follower: Follower,
    awaited: Awaited,
    shown: &'a mut Shown,
    args: &'a RunArgs,
    input: &'a mut Input,
    /// What was said and is not answered yet.
    said: Vec<(MessageId, Request)>,
    /// Answers that the writer owes to what was asked besides.
    owed: usize,
    /// Who runs it, once that is known.
    writer: Option<u32>,
    /// Whether anything was asked for at all.
    has_begun: bool,
    code: u8,
}

/// Passes on what is asked for on standard input, if somebody else runs the session, until that is over and everything is
/// answered. What nobody has heard is put back.
pub(crate) async fn relay(
    engine: &Engine,
    id: &SessionId,
    input: &mut Input,
    shown: &mut Shown,
    args: &RunArgs,
) -> Result<Joined<()>> {
    if engine.store().holder(id).await.is_none() {
        return Ok(Joined::Alone(()));
    }
    adds_nothing(id, args)?;
    let records = engine.records(id).await?;
    if let Shown::Text(view) = shown {
        records.iter().for_each(|record| view.remember(record));
    }
    let awaited = Awaited::after(&records, None);
    let follower = Follower::new(Arc::clone(engine.store()), id.clone(), awaited.next_seq());
    let (has_begun, code) = (input.code.is_some(), input.code.unwrap_or_default());
    let (said, owed, writer) = (Vec::new(), 0, None);
    let relay = Relay { id, follower, awaited, shown, args, input, said, owed, writer, has_begun, code };
    relay.until_answered().await
}

impl Relay<'_> {
    async fn until_answered(mut self) -> Result<Joined<()>> {
        let mut stops = Stops::listen()?;
        let mut tick = tokio::time::interval(TICK);
        loop {
            if self.is_done() {
                return if self.has_begun {
                    Ok(Joined::Over(self.code))
                } else {
                    Err(shown::nothing_said(self.shown, Some(self.id.as_str())))
                };
            }
            tokio::select! {
                biased;
                told = self.follower.next() => match told? {
                    None => return self.left(),
                    Some(Told::Published(published)) => self.take(&published),
                    Some(Told::Reply(reply)) => self.hear(reply).await,
                },
                asked = self.input.next(), if self.writer.is_some() => match asked {
                    Some(Ok(request)) => self.pass_on(request).await,
                    Some(Err(error)) => self.input.complain(self.shown, &error),
                    None => {}
                },
                stop = stops.next() => return Ok(Joined::Over(self.stopped(stop))),
                _ = tick.tick() => self.shown.tick(),
            }
        }
    }

    /// Whether everything is said and answered; where nothing was said, whether the turn under way is over.
    fn is_done(&self) -> bool {
        let is_answered = self.said.is_empty() && self.owed == 0;
        self.input.is_over() && is_answered && (self.has_begun || !self.awaited.session().is_in_turn())
    }

    async fn pass_on(&mut self, mut request: Request) {
        self.has_begun = true;
        match &mut request {
            Request::Prompt(prompt) => {
                let message = prompt.message.get_or_insert_with(new_message_id).clone();
                self.said.push((message, request.clone()));
            }
            _ => self.owed += 1,
        }
        self.follower.ask(&request).await;
    }

    fn take(&mut self, published: &Published) {
        self.shown.show(published);
        let Published::Recorded(record) = published else { return };
        if let Event::UserSpoke { parts, .. } = &record.event {
            self.shown.user_said(parts);
        }
        if let Some(report) = self.awaited.hear(record) {
            let session = self.awaited.session();
            self.said.retain(|(message, _)| !session.has_answered(message));
            // Who only watches has seen what there was to see.
            (self.has_begun, self.code) = (true, report::exit_code(report.end));
            shown::finish(self.shown, &report, self.id.as_str(), self.code, self.args);
        }
    }

    async fn hear(&mut self, reply: Reply) {
        match reply {
            Reply::Hello { pid, .. } => {
                if self.writer.replace(pid) != Some(pid) {
                    self.say(&format!(
                        "{} is run by process {pid}: what you say joins it there, under its rules",
                        self.id
                    ));
                }
                // What another writer was asked and did not write down is asked again; the rest went with it.
                self.owed = 0;
                for (message, request) in self.said.clone() {
                    if !self.awaited.session().has_heard(&message) {
                        self.follower.ask(&request).await;
                    }
                }
            }
            Reply::Refused(Refusal { message, error }) => {
                match message {
                    Some(refused) => self.said.retain(|(message, _)| *message != refused),
                    None => self.owed = self.owed.saturating_sub(1),
                }
                self.code = report::EXIT_FAILED;
                self.input.complain(self.shown, &error);
            }
            Reply::NotOpen { .. } => {
                self.owed = self.owed.saturating_sub(1);
                self.input.complain(self.shown, "this question is not open");
            }
            // Of a prompt the records tell.
            Reply::Accepted(_) | Reply::Ended { message: Some(_), .. } => {}
            _ => self.owed = self.owed.saturating_sub(1),
        }
    }

    /// Nobody runs the session any more: what was not heard is said here.
    fn left(self) -> Result<Joined<()>> {
        let session = self.awaited.session();
        let (heard, unheard): (Vec<_>, Vec<_>) =
            self.said.iter().cloned().partition(|(message, _)| session.has_heard(message));
        if session.is_in_turn() {
            let kept = if heard.is_empty() { "" } else { "; what it has heard of you is kept" };
            let lost = if unheard.is_empty() { "" } else { "; what you said last was not heard" };
            bail!("{}{kept}{lost}", cut_off(self.id, self.writer));
        }
        self.input.put_back(unheard.into_iter().map(|(_, request)| request).collect());
        if self.input.is_over() && heard.is_empty() && self.has_begun {
            return Ok(Joined::Over(self.code));
        }
        self.input.code = self.has_begun.then_some(self.code);
        if let Some(pid) = self.writer {
            view::write_stderr(&format!("process {pid} has left {}; going on here\n", self.id));
        }
        Ok(Joined::Alone(()))
    }

    /// The last words when only the watching stops, and the exit code.
    fn stopped(&mut self, stop: Stop) -> u8 {
        let (words, code) = (report::not_watching(self.id), stop.code());
        self.say(&words);
        code
    }

    fn say(&mut self, line: &str) {
        self.shown.note(line);
    }
}
