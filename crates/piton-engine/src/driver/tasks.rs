//! Commands and subagents in the background, where the turn machine has no say: what their end wakes, and what becomes of them when
//! the session is left.

use super::{Driver, Stage};
use crate::jobs::{Key, Step, take_up};
use piton_core::event::{Delivery, Event};
use piton_core::ids::MessageId;
use piton_core::message::Part;
use piton_core::task::Task;
use piton_core::turn::Job;
use piton_tools::executor::Boot;
use piton_tools::limits::{RUNNER_GRACE, STOP_GRACE, SWEEP_TIME};
use std::time::Duration;

/// The most that leaving a session waits for its commands to end. Who is still there then has hung in the kernel.
const END_GRACE: Duration = RUNNER_GRACE.saturating_add(STOP_GRACE).saturating_add(SWEEP_TIME);

impl Driver {
    /// Starts a turn where a command or a subagent is over whose end the model wants to be told of, if the session goes on being open: where
    /// somebody only waits for an answer, that one is the last. Answers whether it did.
    pub(super) fn wake(&mut self) -> bool {
        // A subagent's caller reads its last words, and no turn after those.
        let is_subagent = self.session.parent().is_some_and(|parent| parent.call.is_some());
        let is_open = self.stage == Stage::Open && self.askers.stays() && !is_subagent;
        let is_at_rest = self.session.is_at_rest() && self.session.waiting().next().is_none();
        // A rewind has the session to itself, from its first look at the files on.
        let is_rewinding = self.is_rewinding() || self.line.rewinds();
        if !is_open || !is_at_rest || is_rewinding {
            return false;
        }
        // Each wakes once, whatever becomes of the turn.
        let name = |task: &Task| MessageId(format!("msg_end_of_{}", task.id));
        let untold = self.session.tasks().untold().filter(|task| task.notify);
        let ends: Vec<_> = untold.map(|task| (name(task), task.subagent.is_some())).collect();
        let Some((message, is_subagent)) = ends.into_iter().find(|(message, _)| !self.session.has_heard(message))
        else {
            return false;
        };
        let text = match is_subagent {
            true => "A subagent in the background is over; see below.",
            false => "A background command that you wanted to be told of is over; see below.",
        };
        let parts = vec![Part::note(text.to_owned())];
        self.record(Event::UserSpoke {
            message,
            parts,
            delivery: Delivery::FollowUp,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
        true
    }

    /// Ends the subagents, and the commands that nobody wants to go on, where this process has worked on the session. What it only looked at stays
    /// as it was left.
    pub(super) async fn end_tasks(&mut self) {
        if !self.session.is_used_here() {
            return;
        }
        let executor = &self.services.executor;
        let mut ending = Vec::new();
        for task in self.session.tasks().running() {
            let boot = if task.is_of_this_boot { Boot::Current } else { Boot::Earlier };
            if task.subagent.is_some() {
                ending.push(Job::WatchTask(task.id.clone()));
                continue;
            }
            // What a person keeps goes on; where it is over already, that goes on record.
            if !executor.is_kept(&task.id) || matches!(executor.look(&task.id, boot).await, Ok(Some(_))) {
                ending.push(Job::WatchTask(task.id.clone()));
            }
        }
        if ending.is_empty() {
            return;
        }
        for job in ending.iter().filter(|job| !self.jobs.has(job)).cloned().collect::<Vec<_>>() {
            if let Step::Start(task) = take_up(&job, &mut self.context()) {
                self.jobs.put_ready(Key::Turn(job), task);
            }
        }
        self.jobs.start(|key| ending.iter().any(|job| key.is(job)));
        ending.iter().for_each(|job| self.jobs.stop(job));
        // A subagent ends what it has left running first.
        let until = tokio::time::Instant::now() + END_GRACE * 2;
        while ending.iter().any(|job| self.jobs.has(job)) {
            let Ok((_, end)) = tokio::time::timeout_at(until, self.jobs.next()).await else { return };
            let events = end(&mut self.context());
            let ended = events.into_iter().filter(|event| matches!(event, Event::TaskEnded { .. }));
            self.record_all(ended.collect::<Vec<_>>());
        }
    }
}
