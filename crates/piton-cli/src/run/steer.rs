//! `piton run --input-format stream-json`: a session that is spoken in by what comes on standard input, line by line, while
//! it goes on. A program steers with it, queues what comes next, interrupts, answers questions, pauses and cancels.

use crate::cli::RunArgs;
use crate::commands::compact;
use crate::failure::Result;
use crate::out::report;
use crate::run::input::Input;
use crate::run::shown::{self, Shown};
use crate::run::stops::{Over, Stop, Stops, TICK};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use piton_core::client::{Answer, Compact, Compacted, Prompt, Published, Report, Request};
use piton_core::event::{Event, Subject};
use piton_core::question::Decision;
use piton_engine::compaction::CompactError;
use piton_engine::engine::{EngineError, Handle, Resumed};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

/// Something that was asked for is over.
enum Done {
    Turn(Result<Report, EngineError>),
    Room(Result<Compacted, CompactError>),
}

type Asking = Pin<Box<dyn Future<Output = Done>>>;

/// A session that is spoken in.
struct Steering<'a> {
    session: Handle,
    shown: Shown,
    args: &'a RunArgs,
    asking: FuturesUnordered<Asking>,
    /// What summaries shall dwell on that are still to be made: between turns, in order.
    rooms: VecDeque<Compact>,
    open: Vec<Subject>,
    input: Input,
    /// Whether we were told to stop.
    stopped: Option<Stop>,
    /// Whether anything was asked for at all.
    has_begun: bool,
    /// The last turn whose result was shown, and the exit code so far.
    told: u32,
    code: u8,
}

/// Runs a session by what is said on standard input, until that is over and everything is answered. Returns the exit
/// code of the last turn.
pub(crate) async fn steer(session: Handle, input: Input, shown: Shown, args: &RunArgs) -> Result<Over> {
    let mut stops = Stops::listen()?;
    let (asking, rooms, open) = (FuturesUnordered::new(), VecDeque::new(), Vec::new());
    let (has_begun, code) = (input.code.is_some(), input.code.unwrap_or_default());
    let (stopped, told) = (None, 0);
    let mut steering = Steering { session, shown, args, asking, rooms, open, input, stopped, has_begun, told, code };
    steering.shown.resume(&steering.session).await?;
    if steering.session.resumed() == Resumed::MidTurn && !steering.input.has_first() {
        let session = steering.session.clone();
        steering.ask(async move { Done::Turn(session.go_on().await) });
    }
    let result = steering.until_over(&mut stops).await;
    if let Some(stop) = steering.stopped.filter(|stop| stop.is_again) {
        return Ok(Over::at_once(stop));
    }
    let has_begun = steering.has_begun || steering.stopped.is_some();
    let id = steering.session.id().to_string();
    let stopped = stops.unless_stopped(steering.session.close()).await;
    result?;
    if has_begun {
        Ok(Over::left(steering.code, stopped))
    } else {
        Err(shown::nothing_said(&steering.shown, Some(&id)))
    }
}

impl Steering<'_> {
    async fn until_over(&mut self, stops: &mut Stops) -> Result<()> {
        let mut subscription = self.session.subscribe(self.session.opened_at());
        let mut tick = tokio::time::interval(TICK);
        loop {
            if self.asking.is_empty()
                && let Some(compact) = self.rooms.pop_front()
            {
                let session = self.session.clone();
                self.ask(async move { Done::Room(session.compact(compact).await) });
            }
            let is_quiet = self.asking.is_empty() && subscription.is_drained();
            let is_again = self.stopped.is_some_and(|stop| stop.is_again);
            if is_again || is_quiet && (self.input.is_over() || self.stopped.is_some()) {
                return Ok(());
            }
            tokio::select! {
                biased;
                published = subscription.next() => match published? {
                    Some(published) => {
                        self.shown.show(&published);
                        self.hear(&published)?;
                    }
                    None => return Ok(()),
                },
                Some(done) = self.asking.next() => match done {
                    Done::Turn(ended) => self.tell(ended)?,
                    Done::Room(made) => self.tell_room(made),
                },
                asked = self.input.next() => match asked {
                    Some(Ok(request)) => self.take(request)?,
                    Some(Err(error)) => self.complain(&error),
                    None => self.end_of_input()?,
                },
                stop = stops.next() => self.stop(stop),
                _ = tick.tick() => self.shown.tick(),
            }
        }
    }

    /// The first time, what runs is stopped; the second time is meant.
    fn stop(&mut self, stop: Stop) {
        self.stopped = Some(stop);
        self.code = stop.code();
        self.rooms.clear();
        drop(self.session.cancel());
    }

    fn take(&mut self, request: Request) -> Result<()> {
        match request {
            Request::Prompt(prompt) => {
                let session = self.session.clone();
                self.ask(async move {
                    Done::Turn(match session.say(Prompt { wait: true, ..prompt }).await {
                        Ok(said) => said.ended().await,
                        Err(EngineError::NotBegun(report)) => Ok(*report),
                        Err(error) => Err(error),
                    })
                });
            }
            Request::Answer(answer) if self.open.contains(&answer.subject) => {
                drop(self.session.answer(answer));
            }
            Request::Answer(_) => self.complain("this question is not open"),
            Request::Cancel {} => drop(self.session.cancel()),
            Request::Pause {} => drop(self.session.pause()),
            Request::Continue {} => drop(self.session.unpause()),
            Request::Compact(compact) => {
                self.has_begun = true;
                self.rooms.push_back(compact);
            }
            _ => self.complain("this cannot be asked for here"),
        }
        Ok(())
    }

    fn ask(&mut self, asking: impl Future<Output = Done> + 'static) {
        self.has_begun = true;
        self.asking.push(Box::pin(asking));
    }

    fn complain(&self, error: &str) {
        self.input.complain(&self.shown, error);
    }

    fn hear(&mut self, published: &Published) -> Result<()> {
        let Published::Recorded(record) = published else { return Ok(()) };
        match &record.event {
            Event::ApprovalAsked { subject, .. } => {
                self.open.push(subject.clone());
                if self.input.is_over() {
                    self.end_of_input()?;
                }
            }
            Event::ApprovalGiven { subject, .. } => self.open.retain(|open| open != subject),
            Event::TurnEnded { .. } => self.open.clear(),
            _ => {}
        }
        Ok(())
    }

    /// Nobody is there any more who could answer, or go on after a pause.
    fn end_of_input(&mut self) -> Result<()> {
        drop(self.session.unpause());
        for subject in &self.open {
            drop(self.session.answer(Answer::unseen(subject.clone(), Decision::Unattended)));
        }
        Ok(())
    }

    /// Tells a turn's end, once, whoever spoke for it.
    fn tell(&mut self, ended: Result<Report, EngineError>) -> Result<()> {
        let id = self.session.id().to_string();
        let report = match ended {
            Err(EngineError::PromptRefused { hook, reason }) => {
                shown::refused(&EngineError::PromptRefused { hook, reason })
            }
            ended => ended?,
        };
        if report.turn > 0 && report.turn == self.told {
            return Ok(());
        }
        self.told = report.turn.max(self.told);
        if !self.stopped.is_some_and(|stop| stop.by_term) {
            self.code = report::exit_code(report.end);
        }
        shown::finish(&mut self.shown, &report, &id, self.code, self.args);
        Ok(())
    }

    /// Tells what came of making room; the summary itself is in the records.
    fn tell_room(&mut self, made: Result<Compacted, CompactError>) {
        match made {
            Ok(made) => {
                if let Shown::Text(_) = self.shown {
                    compact::tell_room(&made);
                }
            }
            Err(error) => {
                self.code = report::EXIT_FAILED;
                self.complain(&format!("no room was made: {error}"));
            }
        }
    }
}
