//! What clients ask of the driver: each request is obeyed, put in line behind others, or refused.

use super::line::{NewPrompt, Waiting};
use super::{Driver, Stage};
use crate::error::{EngineError, ShellError};
use crate::hosts::HostAsk;
use crate::inbox::{Affordable, Afforded, Asked, Asker};
use crate::jobs::{
    Called, Key, SideJob, UserMessage, Writer, answer, fork, host_asked, host_judged, may_be_abandoned, may_run, title,
};
use crate::prompt::{self, CostEstimate};
use piton_core::budget::{Short, UpcomingCall};
use piton_core::client::{Answer, Prompt, Reply, Report, Request, When};
use piton_core::event::{Answerer, Canceller, Event, Subject, TitledBy};
use piton_core::ids::{CallId, MessageId, Seq, SessionId};
use piton_core::permission::{Action, Rules};
use piton_core::question::{Decision, Lasting};
use piton_core::secrets::Depth;
use piton_sandbox::Backend;
use std::path::Path;
use tokio::sync::oneshot;

/// Messages that may wait for a turn to take them up. A person has a handful; a program that sends more does not listen.
pub(super) const MOST_WAITING: usize = 64;
/// Bytes of one message, its images included: as much as a line of the control socket.
const PROMPT_BYTES: usize = 16 << 20;

impl Driver {
    pub(super) fn take_request(&mut self, asked: Asked) {
        match asked {
            Asked::Request(request, asker) => self.obey(request, asker),
            Asked::Record(events, done) => {
                self.record_all(events);
                self.askers.tell_call_when_durable(done);
            }
            // Whoever asked may have been stopped.
            Asked::Afford(call, answer) => drop(answer.send(self.afford(&call))),
            Asked::LeaveWhenAnswered => self.leave_when_answered(),
            Asked::HandOver(done) => {
                self.askers.wait_to_hand_over(done);
                self.pause_to_hand_over();
            }
            // Whoever leaves already waits for what still runs; a cancel ends that.
            Asked::Close if self.stage == Stage::Closing => {}
            Asked::Close => {
                self.pause(false);
                self.stage = Stage::Closing;
                self.cancel(Canceller::User);
            }
        }
    }

    /// What the budget leaves for a model call that a tool call wants to make. It is reserved until the call is on record.
    fn afford(&self, wanted: &Affordable) -> Result<Afforded, Short> {
        let Affordable { model, estimate: CostEstimate { input_tokens, rates }, output_tokens } = wanted;
        let most = Some(*output_tokens);
        let call = UpcomingCall { model, input_tokens: *input_tokens, output_tokens: most, rates: *rates };
        let (at_most, most) = prompt::reserve(&call, most, &self.session, &self.services.tree.kin)?;
        Ok(Afforded { at_most, output_tokens: most.unwrap_or(*output_tokens) })
    }

    pub(super) fn obey(&mut self, request: Request, asker: Asker) {
        match request {
            Request::Prompt(prompt) => self.prompted(&prompt, asker),
            Request::GoOn {} => self.wait_for_turn(asker),
            Request::Cancel {} => {
                self.cancel(Canceller::User);
                self.wait_for_turn(asker);
            }
            Request::Unqueue { message } => self.unqueue(message.as_ref(), asker),
            Request::Move { message, before } => self.move_queued(message, before, asker),
            Request::Answer(answer) => self.answered(answer, asker),
            Request::Pause {} => self.pause_for(true, &asker),
            Request::Continue {} => self.pause_for(false, &asker),
            Request::Compact(wanted) => self.compact(wanted, asker),
            Request::Plan { direction, turns, scope } => {
                let waiting = Waiting::Plan { direction, turns, scope, asker: asker.clone() };
                self.queue_rewind(waiting, &asker);
            }
            Request::Rewind { rewind } => {
                let waiting = Waiting::Rewind { rewind, arriving: None, asker: asker.clone() };
                self.queue_rewind(waiting, &asker);
            }
            Request::Rename { title } => {
                self.record(Event::TitleGiven { title, by: TitledBy::User });
                self.askers.tell_when_durable(asker, Reply::Renamed { seq: self.recorder.last_seq() });
            }
            Request::Revoke { tools } => {
                // Before it, so that this revokes them, too.
                self.record_shared_grants();
                self.services.tree.nursery.ask_all(&Request::Revoke { tools: tools.clone() });
                self.record(Event::GrantsRevoked { tools });
                self.askers.tell_when_durable(asker, Reply::Revoked { seq: self.recorder.last_seq() });
            }
            Request::Configure(changed) => self.configure(changed, asker),
            Request::Background { call } => {
                let calls = self.jobs.leave(|id| call.as_ref().is_none_or(|call| call == id));
                asker.tell(Reply::Leaving { calls });
            }
            Request::Shell { command, keep_from_model, terminal } => {
                self.shell(command, (keep_from_model, terminal), asker);
            }
            Request::Type { call, keys } => self.type_into(call, &keys, &asker),
            Request::Fork { at } => {
                let task = fork(at, asker, &self.context());
                self.jobs.put_ready(Key::Side(SideJob::Fork), task);
            }
            Request::Subagent { session, request } => self.ask_subagent(session, *request, asker),
            Request::Look {} => asker.tell(Reply::Seen(Box::new(self.services.bus.now()))),
        }
    }

    /// Runs a command of the user's own. A rewind that is under way, or a compaction, has the workspace or the conversation
    /// to itself.
    fn shell(&mut self, command: String, (keep_from_model, terminal): (bool, bool), asker: Asker) {
        if self.session.is_compacting_at_rest() {
            return asker.refuse(ShellError::Compacting);
        }
        if self.is_rewinding() {
            return asker.refuse(ShellError::Rewinding);
        }
        if self.askers.commands() >= MOST_WAITING {
            return asker.refuse(ShellError::TooMany { most: MOST_WAITING });
        }
        if let Err(error) = may_run(&command, Writer::Person, &self.context()) {
            asker.refuse(error);
            return self.leave_if_answered();
        }
        let settings = &self.services.settings;
        let takes_snapshots = settings.snapshots.is_some() && settings.takes_snapshots;
        // Landlock alone has no terminal of its own to give.
        let terminal = terminal && settings.sandbox.as_ref().is_none_or(|sandbox| sandbox.backend != Backend::Landlock);
        let event = self.session.user_ran(command, keep_from_model, takes_snapshots, None, terminal);
        if let Event::UserRan { call, .. } = &event {
            self.askers.wait_for_command(call.clone(), asker);
        }
        self.record(event);
    }

    /// Types into a command that runs. What its terminal shows of that comes with its outcome.
    fn type_into(&self, call: CallId, keys: &str, asker: &Asker) {
        match self.services.executor.type_into(&call, keys.as_bytes()) {
            Ok(true) => asker.tell(Reply::Typed { call }),
            Ok(false) => asker.refuse(ShellError::NoTerminal),
            Err(error) => asker.refuse(ShellError::Unrunnable(format!("the keys did not reach the command: {error}"))),
        }
    }

    fn prompted(&mut self, prompt: &Prompt, asker: Asker) {
        let message = prompt.message.clone().unwrap_or_else(|| self.services.world.message_id());
        if let Some(seq) = self.session.heard_at(&message) {
            return self.heard_before(message, seq, prompt.wait, asker);
        }
        let bytes = prompt.bytes();
        if bytes > PROMPT_BYTES {
            asker.refuse(EngineError::TooLarge { bytes, most: PROMPT_BYTES });
            return self.leave_if_answered();
        }
        if self.session.waiting().count() + self.line.prompts() >= MOST_WAITING {
            asker.refuse(EngineError::TooMany { most: MOST_WAITING });
            return self.leave_if_answered();
        }
        if let Some(error) = prompt.replaces.as_ref().and_then(|replaced| self.why_not_replaced(replaced)) {
            asker.refuse(error);
            return self.leave_if_answered();
        }
        // Only now: what is repeated or refused stops nothing.
        if prompt.delivery == When::Interrupt {
            self.cancel(Canceller::User);
        }
        let called = match &prompt.command {
            Some(name) => Some(Called::new(name.clone(), prompt.text.clone())),
            None => Called::agent(&prompt.text, &self.services.settings.agents),
        };
        let mut parts = prompt.message_parts();
        if called.as_ref().is_some_and(Called::is_agent) {
            parts.remove(0);
        }
        let (delivery, wait, called) = (prompt.delivery.delivery(), prompt.wait, called.map(Box::new));
        let refers = prompt.beside.is_none() || !prompt.text.is_empty() || called.is_some();
        let replaces = prompt.replaces.clone();
        let message = UserMessage { id: message, parts, delivery, refers, called, replaces };
        self.speak(NewPrompt { message, wait, asker });
    }

    /// A prompt that is repeated waits for the same turn.
    pub(super) fn heard_before(&mut self, message: MessageId, seq: Seq, wait: bool, asker: Asker) {
        if self.session.was_unqueued(&message) {
            asker.refuse(EngineError::TakenBack);
            return self.leave_if_answered();
        }
        if self.session.is_at_rest() {
            asker.tell(Reply::Accepted(piton_core::client::Accepted { message, seq }));
            asker.refuse(EngineError::AtRest);
        } else {
            self.askers.wait_for_answer(message, seq, wait, asker);
        }
    }

    /// Waits for the end of the turn that is under way or about to be.
    fn wait_for_turn(&mut self, asker: Asker) {
        let is_compacting = self.session.is_compacting_at_rest() && self.session.waiting().next().is_none();
        match self.session.is_at_rest() || is_compacting {
            true => asker.refuse(EngineError::AtRest),
            false => self.askers.wait_for_turn(asker),
        }
    }

    fn pause_for(&mut self, paused: bool, asker: &Asker) {
        self.pause(paused);
        asker.tell(Reply::State { paused });
    }

    /// Starts nothing more for whoever wants to hand the session over, once what was said in this process is on record: nobody says it to the
    /// next writer. Where a client has paused the session, what waits for a command that may not run would wait for ever.
    fn pause_to_hand_over(&mut self) {
        if self.askers.hand_over() && self.stage == Stage::Open && !self.line.is_awaited() {
            self.pause(true);
        }
    }

    /// Tells who wants to hand the session over when that loses nothing: all is durable, nothing new is started, and what is under way
    /// is found again or not missed by whoever goes on. That is a kill at a good moment.
    pub(super) fn hand_over(&mut self) {
        self.pause_to_hand_over();
        let is_held = match self.stage {
            Stage::Paused => true,
            Stage::Open => false,
            Stage::Closing => self.session.is_at_rest(),
        };
        if !self.askers.hand_over() || !is_held {
            return;
        }
        if self.jobs.may_be_abandoned(|job| may_be_abandoned(job, &self.session)) {
            self.askers.tell_handed_over();
        }
    }

    /// A command wants to reach a host. Where nobody can be asked it is told no at once.
    pub(super) fn host_wanted(&mut self, ask: HostAsk) {
        // A name is looked up where others hear of it: with a secret in it, it is a letter.
        if self.services.firewall.cleaned(&ask.host, Depth::Everything) != ask.host {
            return ask.tell(false);
        }
        let judged = host_judged(&ask.host, ask.is_listed, &self.context());
        if judged.action != Action::Ask || !self.services.is_attended() {
            return ask.tell(judged.action == Action::Allow);
        }
        let subject = Subject::Host { call: ask.call.clone(), host: ask.host.clone() };
        if self.session.question(&subject).is_some() {
            return self.hosts.wait(ask);
        }
        if let Some(said) = self.hosts.said(&ask) {
            return self.hosts.tell_when_durable(ask, said);
        }
        match host_asked(&ask.call, &ask.host, judged, &self.context()) {
            Some(asked) if self.hosts.may_ask(&ask.call) => {
                self.hosts.wait(ask);
                self.record(asked);
            }
            Some(_) | None => ask.tell(false),
        }
    }

    pub(super) fn answered(&mut self, given: Answer, asker: Asker) {
        let Answer { subject, decision, shown } = given;
        if let Subject::Child { session, subject: own } = &subject {
            let answer = Answer { subject: Subject::clone(own), decision, shown };
            return self.answered_child(session, Request::Answer(answer), asker);
        }
        if let Subject::Elicited { .. } = &subject {
            return self.answered_server(subject, decision, shown.as_deref(), asker);
        }
        let Some(open) = self.session.question(&subject) else {
            let early = self.line.carried.keep(Answer { subject, decision, shown }, asker);
            return early.into_iter().for_each(|(answer, asker)| self.not_open(answer.subject, asker));
        };
        if shown.is_some_and(|shown| shown != open.shown) {
            return asker.refuse(EngineError::OtherQuestion { subject });
        }
        if let Some(why) = open.refuses(&decision) {
            return asker.refuse(EngineError::NoAnswer(why));
        }
        if let Decision::ApproveLasting(lasting) = decision
            && let Err(error) = self.keep(lasting, &open.grants(&decision))
        {
            return asker.refuse(EngineError::NotKept(error));
        }
        let event = answer(subject, decision, Answerer::User, &self.context());
        self.record(event);
        self.askers.tell_when_durable(asker, Reply::Answered { seq: self.recorder.last_seq() });
    }

    /// Puts what a server asked on record together with the answer, which it hears when that is durable.
    fn answered_server(&mut self, subject: Subject, decision: Decision, shown: Option<&str>, asker: Asker) {
        let (question, answer) = match self.services.asked.elicitations.answer(&subject, &decision, shown) {
            Ok(answered) => answered,
            Err(error) => return asker.refuse(error),
        };
        let (done, recorded) = oneshot::channel();
        // Whoever asked may have been stopped in this moment.
        drop(answer.send((decision.clone(), recorded)));
        self.record(Event::ApprovalAsked { subject: subject.clone(), question: Some(Box::new(question)) });
        self.record(Event::ApprovalGiven { subject, decision, by: Some(Answerer::User) });
        self.askers.tell_call_when_durable(done);
        self.askers.tell_when_durable(asker, Reply::Answered { seq: self.recorder.last_seq() });
    }

    /// Passes on what is for a subagent, and what that answers.
    fn answered_child(&self, child: &SessionId, request: Request, asker: Asker) {
        let Some(mut asking) = self.services.tree.nursery.ask(child, request) else {
            return asker.refuse(EngineError::NotAtWork(child.clone()));
        };
        let session = child.clone();
        let named = move |subject| Subject::Child { session: session.clone(), subject: Box::new(subject) };
        tokio::spawn(async move {
            match asking.next().await {
                Ok(Reply::NotOpen { subject, given, by }) => {
                    asker.tell(Reply::NotOpen { subject: named(subject), given, by });
                }
                Ok(reply) => asker.tell(reply),
                Err(EngineError::OtherQuestion { subject }) => {
                    asker.refuse(EngineError::OtherQuestion { subject: named(subject) });
                }
                Err(error) => asker.refuse(error),
            }
        });
    }

    /// Passes on what is for one session of the tree. Which of the subagents lead to it, only they know.
    fn ask_subagent(&mut self, session: SessionId, request: Request, asker: Asker) {
        let is_subagent = self.services.settings.subagent.is_some();
        if session == *self.session.id() {
            // Its caller's call is answered: nobody would hear what it says to that.
            let is_late = is_subagent && matches!(request, Request::Prompt(_)) && self.session.is_at_rest();
            return if is_late { asker.refuse(EngineError::NotAtWork(session)) } else { self.obey(request, asker) };
        }
        let mut request = request;
        match &mut request {
            Request::Prompt(Prompt { delivery: When::FollowUp | When::Interrupt, .. }) => {
                return asker.refuse(EngineError::OnlySteers);
            }
            // Whichever way leads to it, it is the same message.
            Request::Prompt(prompt) => {
                prompt.message.get_or_insert_with(|| self.services.world.message_id());
            }
            Request::Answer(_)
            | Request::Cancel {}
            | Request::Unqueue { .. }
            | Request::Move { .. }
            | Request::Look {} => {}
            _ => return asker.refuse(EngineError::NotForSubagents),
        }
        let wants_end = matches!(&request, Request::Prompt(prompt) if prompt.wait);
        let ways = self.services.tree.nursery.ask_towards(&session, request);
        tokio::spawn(async move {
            for mut asking in ways {
                match asking.next().await {
                    Ok(reply) => {
                        asker.tell(reply);
                        return if wants_end {
                            asker.answer(asking.next().await);
                        };
                    }
                    // It has ended meanwhile, or is not at work there.
                    Err(EngineError::NotAtWork(_) | EngineError::Closed) => {}
                    Err(error) => return asker.refuse(error),
                }
            }
            asker.refuse(EngineError::NotAtWork(session));
        });
    }

    /// Keeps what a person has allowed for longer than the session, before it is on record that they did.
    fn keep(&self, lasting: Lasting, rules: &Rules) -> Result<(), String> {
        let standing = self.services.settings.standing.as_ref().ok_or("it has no place to be kept")?;
        let folder = match lasting {
            Lasting::Folder => Some(Path::new(self.session.workspace())),
            Lasting::Everywhere => None,
        };
        standing.give(rules, folder, self.services.world.now_ms()).map_err(|error| error.to_string())
    }

    /// Notes a turn's end for those who wait for it, and leaves where nobody else does.
    pub(super) fn turn_ended(&mut self, report: &Report) {
        let session = &self.session;
        self.askers.turn_ended(report, |message| session.has_answered(message));
        self.leave_if_answered();
        self.services.hooks.disinherit();
        if let Some(task) = title(report.end, &self.context()) {
            self.jobs.put_ready(Key::Side(SideJob::Title), task);
        }
    }

    /// From here on the session is left as soon as no client of this process waits.
    pub(super) fn leave_when_answered(&mut self) {
        self.askers.leave_when_answered();
        self.memory.leaves_when_answered = true;
    }

    /// Leaves where no client of this process waits for an answer any more, if that was wanted.
    pub(super) fn leave_if_answered(&mut self) {
        if self.askers.may_leave() && !self.line.is_awaited() {
            self.stage = Stage::Closing;
        }
    }

    /// Tells everybody what is durable now: that they were heard, and how their turn ended.
    pub(super) fn answer_waiters(&mut self) {
        self.askers.tell_durable();
        if !self.jobs.has_side(SideJob::Watch) {
            self.askers.tell_ended();
        }
    }
}
