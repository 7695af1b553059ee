//! The way into a driver: what clients ask, who asked it, and who waits for the end of a turn.
//!
//! ```text
//!   handles, sockets ─ Inbox ──► Requests ──► driver
//!                 ◄── answers ── Asker ◄──────┘
//! ```
//!
//! This module must not know: what the driver does with a request, and whether a client sits in this process.

use crate::error::{CompactError, EngineError};
use crate::prompt::CostEstimate;
use crate::store::StoreError;
use piton_core::budget::{Bound, Short};
use piton_core::call::Outcome;
use piton_core::client::{Accepted, Compacted, Reply, Report, Request};
use piton_core::event::Event;
use piton_core::ids::{CallId, MessageId, Seq};
use std::sync::Arc;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

/// What the driver answers.
pub(crate) type Answer = Result<Reply, EngineError>;

/// What lies in a driver's inbox.
pub(crate) enum Asked {
    /// A client wants something.
    Request(Request, Asker),
    /// A call that runs wants this on record, and to know when it is durable.
    Record(Vec<Event>, oneshot::Sender<()>),
    /// A call that runs wants to ask a model, and to know what the budget leaves for it.
    Afford(Affordable, oneshot::Sender<Result<Afforded, Short>>),
    /// Leave, without stopping anything, once every client of this process has its answer.
    LeaveWhenAnswered,
    /// Start nothing more, and tell when another process can go on without a loss.
    HandOver(oneshot::Sender<()>),
    /// Stop what runs, and leave.
    Close,
}

/// A model call that something other than a step wants to make.
#[derive(Debug)]
pub(crate) struct Affordable {
    /// `provider/model`.
    pub(crate) model: String,
    pub(crate) estimate: CostEstimate,
    /// The most tokens that its reply may have.
    pub(crate) output_tokens: u32,
}

/// What was reserved for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Afforded {
    /// The most that it can use.
    pub(crate) at_most: Bound,
    /// The most tokens that its reply may have now.
    pub(crate) output_tokens: u32,
}

/// A client that asked for something. The driver answers a prompt twice: when it is durable, and when its turn is over.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    is_local: bool,
    answers: UnboundedSender<Answer>,
}

impl Asker {
    /// A client in this process, and where its answers arrive.
    pub(crate) fn local() -> (Self, UnboundedReceiver<Answer>) {
        let (answers, arriving) = mpsc::unbounded_channel();
        (Self { is_local: true, answers }, arriving)
    }

    /// A client in another process. The driver does not stay for it.
    pub(crate) fn remote() -> (Self, UnboundedReceiver<Answer>) {
        let (asker, arriving) = Self::local();
        (Self { is_local: false, ..asker }, arriving)
    }

    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }

    pub(crate) fn tell(&self, reply: Reply) {
        self.answer(Ok(reply));
    }

    pub(crate) fn refuse(&self, error: impl Into<EngineError>) {
        self.answer(Err(error.into()));
    }

    pub(crate) fn answer(&self, answer: Answer) {
        // The client may have stopped listening.
        drop(self.answers.send(answer));
    }
}

/// The clients' end of the inbox.
#[derive(Debug, Clone)]
pub(crate) struct Inbox(UnboundedSender<Asked>);

/// The same for clients that do not keep the driver.
#[derive(Debug, Clone)]
pub(crate) struct WeakInbox(mpsc::WeakUnboundedSender<Asked>);

impl Inbox {
    /// An inbox, and the driver's end of it.
    pub(crate) fn new() -> (Self, Requests) {
        let (sender, asked) = mpsc::unbounded_channel();
        (Self(sender), Requests(asked))
    }

    pub(crate) fn put(&self, asked: Asked) -> Result<(), EngineError> {
        self.0.send(asked).map_err(|_| EngineError::Closed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(crate) fn weak(&self) -> WeakInbox {
        WeakInbox(self.0.downgrade())
    }
}

impl WeakInbox {
    pub(crate) fn put(&self, asked: Asked) -> Result<(), EngineError> {
        self.0.upgrade().map(Inbox).ok_or(EngineError::Closed)?.put(asked)
    }
}

/// The driver's end of the inbox.
pub(crate) struct Requests(UnboundedReceiver<Asked>);

impl Requests {
    /// What is asked next; `None` when every client is gone.
    pub(crate) async fn next(&mut self) -> Option<Asked> {
        self.0.recv().await
    }

    /// Whether every client is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// What has been asked already.
    pub(crate) fn waiting(&mut self) -> Option<Asked> {
        self.0.try_recv().ok()
    }

    /// Whoever has asked something that was not done yet. Nobody can ask anything more.
    pub(crate) fn take_askers(&mut self) -> Vec<Asker> {
        self.0.close();
        let unread = std::iter::from_fn(|| self.0.try_recv().ok());
        let asker = |asked| match asked {
            Asked::Request(_, asker) => Some(asker),
            Asked::Close | Asked::LeaveWhenAnswered | Asked::HandOver(_) | Asked::Record(..) | Asked::Afford(..) => {
                None
            }
        };
        unread.filter_map(asker).collect()
    }
}

/// Everybody who waits for an answer about a prompt or a turn.
#[derive(Default)]
pub(crate) struct Askers {
    waiting: Vec<Waiter>,
    /// Whose turn has ended, to be told as soon as that is durable.
    ended: Vec<(Waiter, Report)>,
    /// Answers that count once what they tell of is durable.
    owed: Vec<(Asker, Answer)>,
    /// Who waits for a compaction between turns.
    compacting: Option<Asker>,
    /// Calls that wait for something to be durable.
    recorded: Vec<oneshot::Sender<()>>,
    /// Who waits for the end of a command of their own.
    commands: Vec<(CallId, Asker)>,
    /// Who waits until another process can go on.
    handing_over: Option<oneshot::Sender<()>>,
    stay: Stay,
}

/// How long the driver stays.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stay {
    /// Until it is closed.
    #[default]
    UntilClosed,
    /// Until no client of this process waits for an answer.
    UntilAnswered,
}

/// A client that waits for the end of a turn.
struct Waiter {
    /// The prompt that the turn must have answered; `None`: any turn will do.
    message: Option<MessageId>,
    /// Where its prompt is in the journal, until it has been told.
    accepted: Option<Seq>,
    /// Whether it wants to hear of the turn's end.
    wants_end: bool,
    asker: Asker,
}

impl Waiter {
    fn tell_accepted(&mut self) {
        if let (Some(message), Some(seq)) = (&self.message, self.accepted.take()) {
            self.asker.tell(Reply::Accepted(Accepted { message: message.clone(), seq }));
        }
    }
}

impl Askers {
    /// Waits for the end of the turn that is under way or about to be.
    pub(crate) fn wait_for_turn(&mut self, asker: Asker) {
        self.waiting.push(Waiter { message: None, accepted: None, wants_end: true, asker });
    }

    /// Waits for a prompt to be durable, and for the end of the turn that answers it where that is wanted.
    pub(crate) fn wait_for_answer(&mut self, message: MessageId, seq: Seq, wants_end: bool, asker: Asker) {
        self.waiting.push(Waiter { message: Some(message), accepted: Some(seq), wants_end, asker });
    }

    /// Answers as soon as everything recorded so far is durable.
    pub(crate) fn tell_when_durable(&mut self, asker: Asker, reply: Reply) {
        self.owed.push((asker, Ok(reply)));
    }

    /// Tells a call as soon as everything recorded so far is durable.
    pub(crate) fn tell_call_when_durable(&mut self, done: oneshot::Sender<()>) {
        self.recorded.push(done);
    }

    /// Waits for the end of the compaction that begins.
    pub(crate) fn wait_for_compaction(&mut self, asker: Asker) {
        self.compacting = Some(asker);
    }

    /// Notes the end of that compaction, if somebody waits for one.
    pub(crate) fn compacted(&mut self, done: &Result<Compacted, CompactError>) {
        let asker = self.compacting.take().into_iter();
        self.owed.extend(asker.map(|asker| (asker, done.clone().map(Reply::Compacted).map_err(EngineError::from))));
    }

    /// Waits for the end of this command.
    pub(crate) fn wait_for_command(&mut self, call: CallId, asker: Asker) {
        self.commands.push((call, asker));
    }

    /// Waits until another process can go on with the session.
    pub(crate) fn wait_to_hand_over(&mut self, done: oneshot::Sender<()>) {
        self.handing_over = Some(done);
    }

    /// Whether somebody does.
    pub(crate) fn hand_over(&self) -> bool {
        self.handing_over.is_some()
    }

    /// Another process can.
    pub(crate) fn tell_handed_over(&mut self) {
        if let Some(done) = self.handing_over.take() {
            // Who wanted it may have thought better of it.
            let _ = done.send(());
        }
    }

    /// How many are waited for.
    pub(crate) fn commands(&self) -> usize {
        self.commands.len()
    }

    /// Notes what came of a call, if somebody waits for it.
    pub(crate) fn ran(&mut self, call: &CallId, outcome: &Outcome) {
        let theirs = self.commands.extract_if(.., |(waited, _)| waited == call);
        let ran = |asker| (asker, Ok(Reply::Ran { call: call.clone(), outcome: Box::new(outcome.clone()) }));
        self.owed.extend(theirs.map(|(_, asker)| ran(asker)));
    }

    /// From here on the driver leaves as soon as no client of this process waits.
    pub(crate) fn leave_when_answered(&mut self) {
        self.stay = Stay::UntilAnswered;
    }

    /// Whether the driver stays whoever waits.
    pub(crate) fn stays(&self) -> bool {
        self.stay == Stay::UntilClosed
    }

    /// Whether the driver is to leave.
    pub(crate) fn may_leave(&self) -> bool {
        self.stay == Stay::UntilAnswered
            && !self.waiting.iter().any(|waiter| waiter.asker.is_local() && waiter.wants_end)
            && !self.commands.iter().any(|(_, asker)| asker.is_local())
    }

    /// Notes a turn's end for those who wait for it. Who spoke for a later turn goes on waiting.
    pub(crate) fn turn_ended(&mut self, report: &Report, has_answered: impl Fn(&MessageId) -> bool) {
        let is_over = |waiter: &mut Waiter| waiter.message.as_ref().is_none_or(&has_answered);
        self.ended.extend(self.waiting.extract_if(.., is_over).map(|waiter| (waiter, report.clone())));
    }

    /// Whoever waits for the answer to one of these messages waits in vain: they were taken out of the queue.
    pub(crate) fn taken_back(&mut self, messages: &[MessageId]) {
        let is_theirs = |waiter: &mut Waiter| waiter.message.as_ref().is_some_and(|own| messages.contains(own));
        for mut waiter in self.waiting.extract_if(.., is_theirs) {
            waiter.tell_accepted();
            if waiter.wants_end {
                self.owed.push((waiter.asker, Err(EngineError::TakenBack)));
            }
        }
    }

    /// No turn will come that anybody waits for.
    pub(crate) fn at_rest(&mut self) {
        let any_turn = |waiter: &mut Waiter| waiter.message.is_none();
        let waiters = self.waiting.extract_if(.., any_turn);
        self.owed.extend(waiters.map(|waiter| (waiter.asker, Err(EngineError::AtRest))));
    }

    /// Tells what is durable now.
    pub(crate) fn tell_durable(&mut self) {
        self.owed.drain(..).for_each(|(asker, answer)| asker.answer(answer));
        // The call may be over.
        for done in self.recorded.drain(..) {
            let _ = done.send(());
        }
        self.waiting.iter_mut().for_each(Waiter::tell_accepted);
        self.waiting.retain(|waiter| waiter.wants_end || waiter.accepted.is_some());
    }

    /// Tells whose turn has ended durably.
    pub(crate) fn tell_ended(&mut self) {
        for (mut waiter, report) in self.ended.drain(..) {
            waiter.tell_accepted();
            if waiter.wants_end {
                waiter.asker.tell(Reply::Ended { message: waiter.message, report });
            }
        }
    }

    /// Tells everybody that nothing more can be recorded.
    pub(crate) fn break_off(&mut self, error: &Arc<StoreError>) {
        // Who hears nothing knows that nothing is on record.
        self.recorded.clear();
        self.handing_over = None;
        let ended = self.ended.drain(..).map(|(waiter, _)| waiter.asker);
        let owed = self.owed.drain(..).map(|(asker, _)| asker);
        let commands = self.commands.drain(..).map(|(_, asker)| asker);
        for asker in self
            .waiting
            .drain(..)
            .map(|waiter| waiter.asker)
            .chain(ended)
            .chain(owed)
            .chain(self.compacting.take())
            .chain(commands)
        {
            asker.refuse(EngineError::Broken(Arc::clone(error)));
        }
    }

    /// The session is being left: who still waits hears that from the closed channel.
    pub(crate) fn leave(&mut self) {
        self.waiting.clear();
        self.commands.clear();
        self.compacting = None;
        self.handing_over = None;
    }
}
