//! The one loop of everything that talks with a session: what is said goes to a [`Handle`], what happens comes out.
//!
//! ```text
//!   Input ── requests ──► Handle ── answers ──► Conversation ──► Shown
//!   Questions ◄───────────── published ──────────────┘
//! ```
//!
//! A prompt on the command line, lines of a program, a session that another process runs and one that is only followed
//! differ in what they are given, not in how they go: an input that ends at once, later or never began, a face that
//! prints prose, one object or lines, and whether somebody is there who can answer. Here or there makes one difference:
//! a signal stops a session that runs here, and only the watching of one that runs elsewhere.
//!
//! What was said and not answered is kept, so that it can be said again, under the same id, where the session goes on.

use crate::failure::{Context, Failure, Result};
use crate::out::report;
use crate::run::ask::{Questions, Typed};
use crate::run::input::Input;
use crate::run::shown::{self, Shown};
use crate::run::stops::{Stop, Stops, TICK};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use piton_core::client::{Compact, Compacted, Prompt, Published, Reply, Report, Request};
use piton_core::event::{Event, Record};
use piton_core::ids::{MessageId, Seq, SessionId};
use piton_engine::compaction::CompactError;
use piton_engine::control::{Awaited, Follower, Incoming};
use piton_engine::engine::{EngineError, Handle, Resumed, Subscription, new_message_id};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

/// Where events come from.
enum Feed {
    /// At a session, as long as it runs where it does.
    Session(Subscription),
    /// From writer to writer, and in the journal.
    Follower(Box<Follower>),
}

impl Feed {
    async fn next(&mut self) -> Result<Option<Incoming>> {
        match self {
            Self::Session(subscription) => Ok(subscription.next_of_tree().await?.map(|(of, published)| match of {
                Some(of) => Incoming::Child(of, published),
                None => Incoming::Published(published),
            })),
            Self::Follower(follower) => Ok(follower.next().await?),
        }
    }

    fn attend(&mut self, attends: bool) {
        if let Self::Session(subscription) = self {
            subscription.attend(attends);
        }
    }
}

/// Something that was asked for is over.
struct Done {
    /// The line it was asked for on.
    line: usize,
    about: About,
    answer: Result<Reply, EngineError>,
}

/// What was asked for, as far as it matters for what comes of it.
#[derive(PartialEq)]
enum About {
    Prompt(MessageId),
    Question,
    Compact,
    /// A subagent: how its turn ends, its caller's records tell.
    Subagent,
    Else,
}

type Asking = Pin<Box<dyn Future<Output = Done>>>;

/// What a run has to say, and what it has been told.
pub(crate) struct Conversation {
    pub(crate) input: Input,
    pub(crate) shown: Shown,
    questions: Questions,
    /// Whether somebody is there who can answer.
    attends: bool,
    /// Whether what subagents record is shown, too.
    pub(crate) hears_subagents: bool,
    /// The session that is talked with; none where one is only followed.
    session: Option<Handle>,
    id: SessionId,
    asked: FuturesUnordered<Asking>,
    /// Prompts that have no answer yet.
    said: Vec<Prompt>,
    /// What summaries shall dwell on that are still to be made: between turns, in order.
    compactions: VecDeque<Compact>,
    /// The next record that is not shown yet; 0 before anything was heard.
    next_seq: Seq,
    /// The last turn whose end was heard, the last whose result was shown, and a result that is early.
    ended: u32,
    told: u32,
    early: Option<Report>,
    /// The last position that a summary heard of covers, and one that was made and is not heard of yet.
    covered: Seq,
    made: Option<Compacted>,
    /// The last result.
    pub(crate) report: Option<Report>,
    /// Where a session is only followed: what it has come to, and who runs it, once that is known.
    pub(crate) follows: Option<Awaited>,
    pub(crate) writer: Option<u32>,
    stopped: Option<Stop>,
    has_begun: bool,
    code: u8,
}

/// How a conversation was left.
pub(crate) enum Left {
    /// Everything is said and answered.
    Done,
    /// A signal came that means: at once.
    AtOnce(Stop),
    /// Who ran the session has left it.
    Gone,
}

impl Conversation {
    pub(crate) fn new(input: Input, shown: Shown, questions: Questions, attends: bool) -> Self {
        Self {
            input,
            shown,
            questions,
            attends,
            hears_subagents: false,
            session: None,
            id: SessionId::from(""),
            asked: FuturesUnordered::new(),
            said: Vec::new(),
            compactions: VecDeque::new(),
            next_seq: 0,
            ended: 0,
            told: 0,
            early: None,
            covered: 0,
            made: None,
            report: None,
            follows: None,
            writer: None,
            stopped: None,
            has_begun: false,
            code: 0,
        }
    }

    /// Talks with a session until everything is said and answered.
    pub(crate) async fn with(&mut self, session: &Handle, stops: &mut Stops) -> Result<Left> {
        (self.session, self.id) = (Some(session.clone()), session.id().clone());
        if self.next_seq == 0 {
            self.shown.resume(session).await?;
            self.next_seq = session.opened_at();
        }
        let mut heard = match self.hears_subagents {
            true => session.subscribe_tree(self.next_seq),
            false => session.subscribe(self.next_seq),
        };
        heard.attend(self.attends);
        let goes_on = session.resumed() == Resumed::MidTurn && !self.input.has_first();
        if goes_on && !(self.is_elsewhere() && self.input.is_program()) {
            self.ask(Request::GoOn {});
        }
        let left = self.until_over(Feed::Session(heard), stops).await;
        // What keeps a session open is the caller's handle.
        self.session = None;
        left
    }

    /// Shows what happens in a session, from behind these records on, until nobody runs it.
    pub(crate) async fn follow(&mut self, follower: Follower, id: &SessionId, before: &[Record]) -> Result<Left> {
        self.id = id.clone();
        before.iter().for_each(|record| self.shown.remember(record));
        self.follows = Some(Awaited::after(before, None));
        self.until_over(Feed::Follower(Box::new(follower)), &mut Stops::listen()?).await
    }

    /// The next record that is not shown yet.
    pub(crate) fn next_seq(&self) -> Seq {
        self.next_seq
    }

    async fn until_over(&mut self, mut feed: Feed, stops: &mut Stops) -> Result<Left> {
        let mut is_closed = false;
        let mut tick = tokio::time::interval(TICK);
        loop {
            self.make_room();
            if let Some(left) = self.left(is_closed) {
                return Ok(left);
            }
            tokio::select! {
                biased;
                told = feed.next(), if !is_closed => match told? {
                    None | Some(Incoming::Published(Published::Closed(_))) => {
                        is_closed = true;
                        self.early.take().into_iter().for_each(|report| self.tell(report));
                        self.made.take().into_iter().for_each(|made| self.shown.compacted(&made));
                    }
                    Some(Incoming::Published(published)) => self.hear(&published),
                    Some(Incoming::Child(of, published)) => self.shown.show_child(&of, &published),
                    Some(Incoming::Reply(reply)) => self.greet(reply)?,
                },
                Some(done) = self.asked.next() => is_closed |= self.take(done).await?,
                asked = self.input.next(), if !is_closed => match asked {
                    Some(Ok(request)) => self.ask(request),
                    Some(Err(error)) => self.complain(self.input.line(), &error),
                    None => {
                        feed.attend(false);
                        self.end_of_input();
                    }
                },
                stop = stops.next() => {
                    if self.is_elsewhere() {
                        self.shown.note(&report::not_watching(&self.id));
                    }
                    if self.is_elsewhere() || stop.is_again {
                        self.shown.clear();
                        return Ok(Left::AtOnce(stop));
                    }
                    self.stop(stop);
                }
                typed = self.questions.typed() => {
                    self.shown.line_was_ended();
                    match typed {
                        Some(Typed::Answer(answer)) => self.send(Request::Answer(answer), About::Question),
                        Some(Typed::View) => self.questions.view(&mut self.shown),
                        Some(Typed::Next) => self.questions.ask_next(&mut self.shown),
                        None => feed.attend(false),
                    }
                }
                // Nothing else happens just now.
                () = std::future::ready(()), if self.questions.are_due(&self.shown) => self.questions.show(&mut self.shown),
                _ = tick.tick(), if !self.questions.is_open() => self.shown.tick(),
            }
        }
    }

    /// How the conversation is left, if that is now.
    fn left(&self, is_closed: bool) -> Option<Left> {
        let is_quiet = self.asked.is_empty() && self.compactions.is_empty();
        let is_quiet = is_quiet && self.early.is_none() && self.made.is_none();
        let is_said = self.input.is_over() && self.has_begun && self.said.is_empty();
        match (is_quiet, is_closed) {
            (true, true) => Some(if is_said { Left::Done } else { Left::Gone }),
            (true, false) if self.follows.is_some() => None,
            (true, false) => (self.input.is_over() || self.stopped.is_some()).then_some(Left::Done),
            (false, _) => None,
        }
    }

    /// Whether another process runs the session.
    fn is_elsewhere(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.elsewhere().is_some())
    }

    /// The exit code of all that was said. Fails where nothing was.
    pub(crate) fn code(&self) -> Result<u8> {
        match self.has_begun || self.stopped.is_some() {
            true => Ok(self.code),
            false => Err(shown::nothing_said(&self.shown, Some(self.id.as_str()))),
        }
    }

    /// What was said and has no answer yet: said again, under the same ids, before all that is to come.
    pub(crate) fn say_again(&mut self) -> Vec<MessageId> {
        self.asked.clear();
        let ids = self.said.iter().filter_map(|prompt| prompt.message.clone()).collect();
        self.input.put_back(self.said.drain(..).map(Request::Prompt).collect());
        ids
    }

    fn ask(&mut self, mut request: Request) {
        self.has_begun = true;
        let mut about = About::Else;
        match &mut request {
            Request::Compact(compact) => return self.compactions.push_back(std::mem::take(compact)),
            Request::Prompt(prompt) => {
                prompt.wait = true;
                about = About::Prompt(prompt.message.get_or_insert_with(new_message_id).clone());
                self.said.push(prompt.clone());
            }
            Request::Answer(_) => about = About::Question,
            Request::Subagent { request, .. } => {
                about = About::Subagent;
                // What comes of its turn, the outcome of its call says.
                if let Request::Prompt(prompt) = &mut **request {
                    prompt.wait = false;
                }
            }
            _ => {}
        }
        self.send(request, about);
    }

    fn send(&mut self, request: Request, about: About) {
        let Some(session) = &self.session else { return };
        let (line, mut asking) = (self.input.line(), session.ask(request));
        self.asked.push(Box::pin(async move {
            let answer = loop {
                match asking.next().await {
                    // The records tell of that, but not of a subagent's.
                    Ok(Reply::Accepted(_)) if about != About::Subagent => {}
                    answer => break answer,
                }
            };
            Done { line, about, answer }
        }));
    }

    /// Begins the next summary that was asked for, where nothing else is under way.
    fn make_room(&mut self) {
        if self.asked.is_empty()
            && let Some(compact) = self.compactions.pop_front()
        {
            self.send(Request::Compact(compact), About::Compact);
        }
    }

    /// Nobody is there any more who could go on after a pause. Where nothing was said in a session that runs elsewhere,
    /// its turn is watched to the end.
    fn end_of_input(&mut self) {
        let is_in_turn = self.session.as_ref().is_some_and(|session| session.resumed() == Resumed::MidTurn);
        if !self.is_elsewhere() {
            self.send(Request::Continue {}, About::Else);
        } else if !self.has_begun && is_in_turn {
            self.ask(Request::GoOn {});
        }
    }

    /// The first time, what runs is stopped; the second time is meant.
    fn stop(&mut self, stop: Stop) {
        self.shown.stopping();
        self.stopped = Some(stop);
        self.code = stop.code();
        self.compactions.clear();
        self.send(Request::Cancel {}, About::Else);
    }

    fn hear(&mut self, published: &Published) {
        self.shown.show(published);
        self.questions.hear(published);
        let Published::Recorded(record) = published else { return };
        self.next_seq = record.seq + 1;
        match &record.event {
            Event::UserSpoke { message, parts, .. } => {
                let is_own = |prompt: &Prompt| prompt.message.as_ref() == Some(message);
                // Beside the words of others, one's own are shown, too.
                if self.is_elsewhere() || !self.said.iter().any(is_own) {
                    self.shown.user_said(parts);
                }
            }
            Event::TurnEnded { turn, .. } => {
                self.ended = *turn;
                let report = self.early.take_if(|report| report.turn <= *turn);
                report.into_iter().for_each(|report| self.tell(report));
            }
            Event::CompactionFinished { upto_seq, .. } => {
                self.covered = *upto_seq;
                let made = self.made.take_if(|made| made.upto_seq <= *upto_seq);
                made.into_iter().for_each(|made| self.shown.compacted(&made));
            }
            _ => {}
        }
        if let Some(report) = self.follows.as_mut().and_then(|awaited| awaited.hear(record))
            && let Shown::Text(_) = self.shown
        {
            self.tell(report);
        }
    }

    /// Takes notice of who runs the session that is followed.
    fn greet(&mut self, reply: Reply) -> Result<()> {
        match reply {
            Reply::Hello { pid, .. } if self.writer.replace(pid) != Some(pid) => {
                self.shown.note(&format!("{} is run by process {pid}", self.id));
            }
            Reply::Refused(refusal) => return Err(Failure::user(refusal.error)),
            _ => {}
        }
        Ok(())
    }

    /// What came of something that was asked for. Whether its session was closed meanwhile.
    async fn take(&mut self, done: Done) -> Result<bool> {
        let Done { line, about, answer } = done;
        if matches!(answer, Err(EngineError::Closed)) && self.is_elsewhere() {
            return Ok(true);
        }
        if let About::Prompt(message) = &about {
            self.said.retain(|prompt| prompt.message.as_ref() != Some(message));
        }
        match answer {
            Ok(Reply::Ended { .. }) | Err(EngineError::AtRest) if about == About::Subagent => {}
            Ok(Reply::Ended { report, .. }) => self.report(report),
            // A summary is shown behind its record, as a turn's result is.
            Ok(Reply::Compacted(made)) if made.upto_seq > self.covered => self.made = Some(made),
            Ok(Reply::Compacted(made)) => self.shown.compacted(&made),
            Ok(Reply::NotOpen { .. }) => self.complain(line, "this question is not open"),
            Ok(reply) => self.shown.reply(&reply),
            Err(EngineError::NotBegun(report)) => self.report(*report),
            Err(error @ EngineError::PromptRefused { .. }) => self.report(shown::refused(&error)),
            Err(error @ EngineError::CommandRefused { .. }) if !self.input.is_program() => return Err(error.into()),
            // Nothing to stop or to wait for; or it was answered before it was said again.
            Err(EngineError::AtRest) => {
                let (About::Prompt(message), Some(session)) = (about, &self.session) else { return Ok(false) };
                let ended = Awaited::ended(&session.records().await?, &message);
                ended.into_iter().for_each(|report| self.tell(report));
            }
            // Somebody else was faster, or what is asked has changed.
            Err(error) if about == About::Question => self.complain(line, &error.to_string()),
            // It is not at work, or has no such message.
            Err(error)
                if about == About::Subagent && !matches!(error, EngineError::Broken(_) | EngineError::Closed) =>
            {
                self.complain(line, &error.to_string());
            }
            Err(error) if self.input.is_program() && !matches!(error, EngineError::Broken(_) | EngineError::Closed) => {
                self.code = report::EXIT_FAILED;
                let compact = if let EngineError::Compact(_) = error { "not compacted: " } else { "" };
                self.complain(line, &format!("{compact}{error}"));
            }
            Err(error @ (EngineError::Compact(_) | EngineError::Refused(_))) if about == About::Compact => {
                return Err(self.no_room(error));
            }
            Err(EngineError::Refused(refusal)) => return Err(Failure::user(refusal.error)),
            Err(error) => return Err(error).with_context(|| format!("the session {} cannot go on", self.id)),
        }
        Ok(false)
    }

    fn no_room(&self, error: EngineError) -> Failure {
        let id = &self.id;
        let is_cut_off = self.session.as_ref().is_some_and(|session| session.resumed() == Resumed::MidTurn);
        match error {
            EngineError::Compact(CompactError::MidTurn) if is_cut_off && !self.is_elsewhere() => {
                Failure::user(format!(
                    "{id} was not compacted: its last turn was cut off; `piton run --resume {id}` ends it, and compacts \
                 by itself where it must"
                ))
            }
            EngineError::Refused(refusal) => Failure::user(refusal.error).context(format!("{id} was not compacted")),
            error => Failure::from(error).context(format!("{id} was not compacted")),
        }
    }

    /// A turn's result is shown behind its last record.
    fn report(&mut self, report: Report) {
        match report.turn > self.ended {
            true => self.early = Some(report),
            false => self.tell(report),
        }
    }

    /// Shows a turn's result, once, whoever spoke for it.
    fn tell(&mut self, report: Report) {
        if report.turn > 0 && report.turn == self.told {
            return;
        }
        self.told = report.turn.max(self.told);
        if !self.stopped.is_some_and(|stop| stop.by_term) {
            self.code = report::exit_code(report.end);
        }
        self.shown.finish(&report, self.id.as_str(), self.code);
        self.report = Some(report);
    }

    fn complain(&mut self, line: usize, error: &str) {
        self.input.complain(&mut self.shown, line, error);
    }
}
