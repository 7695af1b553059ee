//! What clients ask of the driver: each request is obeyed, put off as an errand, or refused.

use super::hooked::Speech;
use super::{Driver, rewinding};
use crate::error::{CompactError, EngineError, RewindError};
use crate::fork;
use crate::inbox::{Asked, Asker};
use crate::rewind;
use crate::store::StoreError;
use piton_core::client::{Answer, Prompt, Reply, Report, Request, When};
use piton_core::event::{Answerer, Canceller, Event, TitledBy};
use piton_core::ids::{MessageId, Seq};
use std::sync::Arc;

/// Messages that may wait for a turn to take them up. A person has a handful; a program that sends more does not listen.
const MOST_WAITING: usize = 64;
/// Bytes of one message, its images included: as much as a line of the control socket.
const PROMPT_BYTES: usize = 16 << 20;

impl Driver {
    pub(super) async fn take_up(&mut self, asked: Asked) {
        match asked {
            Asked::Request(request, asker) => self.obey(request, asker).await,
            Asked::LeaveWhenAnswered => self.askers.leave_when_answered(),
            Asked::Close => {
                self.closing = true;
                self.cancel(Canceller::User).await;
            }
        }
    }

    pub(super) async fn obey(&mut self, request: Request, asker: Asker) {
        match request {
            Request::Prompt(prompt) => self.prompted(prompt, asker).await,
            Request::GoOn {} => self.wait_for_turn(asker),
            Request::Cancel {} => {
                self.cancel(Canceller::User).await;
                self.wait_for_turn(asker);
            }
            Request::Answer(answer) => self.answered(answer, asker).await,
            Request::Pause {} => self.pause_for(true, &asker),
            Request::Continue {} => self.pause_for(false, &asker),
            Request::Plan { .. } | Request::Rewind { .. } if !self.session.is_at_rest() => {
                asker.refuse(RewindError::MidTurn);
            }
            Request::Compact(_) if !self.session.is_at_rest() => asker.refuse(CompactError::MidTurn),
            request @ (Request::Plan { .. } | Request::Rewind { .. } | Request::Compact(_)) => {
                self.requests.set_errand(request, asker);
            }
            Request::Rename { title } => {
                self.record(Event::TitleGiven { title, by: TitledBy::User });
                let seq = self.staged.last().map_or(0, |record| record.seq);
                self.askers.tell_when_durable(asker, Reply::Renamed { seq });
            }
            Request::Revoke { tools } => {
                self.record(Event::GrantsRevoked { tools });
                let seq = self.staged.last().map_or(0, |record| record.seq);
                self.askers.tell_when_durable(asker, Reply::Revoked { seq });
            }
            Request::Fork { at } => self.fork(at, asker),
            Request::Look {} => asker.tell(Reply::Seen(Box::new(self.bus.now()))),
            unknown => asker.refuse(EngineError::Unknown(format!("{unknown:?}"))),
        }
    }

    async fn prompted(&mut self, prompt: Prompt, asker: Asker) {
        if prompt.delivery == When::Interrupt {
            self.cancel(Canceller::User).await;
        }
        let message = prompt.message.clone().unwrap_or_else(|| self.world.message_id());
        if self.session.has_heard(&message) {
            return self.heard_before(message, prompt.wait, asker).await;
        }
        let bytes = prompt.bytes();
        if bytes > PROMPT_BYTES {
            return asker.refuse(EngineError::TooLarge { bytes, most: PROMPT_BYTES });
        }
        if self.session.waiting().count() >= MOST_WAITING {
            return asker.refuse(EngineError::TooMany { most: MOST_WAITING });
        }
        let (parts, delivery, wait) = (prompt.message_parts(), prompt.delivery.delivery(), prompt.wait);
        self.speak(Speech { message, parts, delivery, wait, asker }).await;
    }

    /// The other session is made from what is durable, by a task that holds up nobody.
    fn fork(&self, at: Option<Seq>, asker: Asker) {
        let (stored, world) = (self.stored.clone(), self.world.clone());
        tokio::spawn(async move {
            let forked = fork::fork(&stored, at, &world).await.map(|session| Reply::Forked { session });
            asker.answer(forked.map_err(EngineError::from));
        });
    }

    /// A prompt that is repeated waits for the same turn.
    async fn heard_before(&mut self, message: MessageId, wait: bool, asker: Asker) {
        let seq = self.records().await.ok().and_then(|records| seq_of(&records, &message)).unwrap_or_default();
        if self.session.is_at_rest() {
            asker.tell(Reply::Accepted(piton_core::client::Accepted { message, seq }));
            asker.refuse(EngineError::AtRest);
        } else {
            self.askers.wait_for_answer(message, seq, wait, asker);
        }
    }

    /// Waits for the end of the turn that is under way or about to be.
    fn wait_for_turn(&mut self, asker: Asker) {
        match self.session.is_at_rest() {
            true => asker.refuse(EngineError::AtRest),
            false => self.askers.wait_for_turn(asker),
        }
    }

    fn pause_for(&mut self, paused: bool, asker: &Asker) {
        self.pause(paused);
        asker.tell(Reply::State { paused });
    }

    async fn answered(&mut self, answer: Answer, asker: Asker) {
        let Answer { subject, decision, shown } = answer;
        let Some(open) = self.session.question(&subject) else {
            let records = self.records().await.unwrap_or_default();
            let given = records.iter().rev().find_map(|record| match &record.event {
                Event::ApprovalGiven { subject: about, decision, by } if *about == subject => {
                    Some((decision.clone(), *by))
                }
                _ => None,
            });
            let (given, by) = given.map_or((None, None), |(decision, by)| (Some(decision), by));
            return asker.tell(Reply::NotOpen { subject, given, by });
        };
        if shown.is_some_and(|shown| shown != open.shown) {
            return asker.refuse(EngineError::OtherQuestion { subject });
        }
        let event = self.approval(subject, decision, Answerer::User);
        self.record(event);
        let seq = self.staged.last().map_or(0, |record| record.seq);
        self.askers.tell_when_durable(asker, Reply::Answered { seq });
    }

    /// Notes a turn's end for those who wait for it, and leaves where nobody else does.
    pub(super) fn turn_ended(&mut self, report: &Report) {
        let session = &self.session;
        self.askers.turn_ended(report, |message| session.has_answered(message));
        self.closing |= self.askers.may_leave() && !self.is_vetting();
    }

    /// Tells everybody what is durable now: that they were heard, and how their turn ended.
    pub(super) fn answer_waiters(&mut self) {
        self.askers.tell_durable();
        if !self.is_being_watched() {
            self.askers.tell_ended();
        }
    }

    /// Does what was asked for at rest: what reads the journal, touches files, or asks the model.
    pub(super) async fn run_errand(&mut self) -> Result<(), Arc<StoreError>> {
        let Some((request, asker)) = self.requests.take_errand() else { return Ok(()) };
        let done = match request {
            Request::Plan { direction, turns, scope } => {
                let records = self.records().await?;
                let (session, snapshots) = (self.session.clone(), self.settings.snapshots.clone());
                let plan = move || rewind::plan(&records, &session, snapshots.as_deref(), direction, turns, scope);
                let plan = rewinding::blocking(plan).await.map(Box::new);
                Ok(plan.map(Reply::Planned).map_err(EngineError::from))
            }
            Request::Rewind { rewind } => {
                self.rewind(rewind).await.map(|done| done.map(Reply::Rewound).map_err(EngineError::from))
            }
            Request::Compact(compact) => {
                let done = self.compact_at_rest(compact).await;
                done.map(|done| done.map(Reply::Compacted).map_err(EngineError::from))
            }
            _ => return Ok(()),
        };
        let done = done.map_err(Arc::new);
        let failed = done.as_ref().err().map(Arc::clone);
        asker.answer(done.unwrap_or_else(|error| Err(EngineError::Broken(error))));
        failed.map_or(Ok(()), Err)
    }
}

fn seq_of(records: &[piton_core::event::Record], message: &MessageId) -> Option<Seq> {
    let is_it = |event: &Event| matches!(event, Event::UserSpoke { message: said, .. } if said == message);
    records.iter().find(|record| is_it(&record.event)).map(|record| record.seq)
}
