//! Questions that an earlier process asked and that were still open when it ended. When their turn resumes, Piton judges the calls
//! again and usually asks the same questions again. An answer that arrives before that waits here, and counts if the question has not
//! changed, so a kill does not make a person answer twice.

use super::Driver;
use crate::inbox::Asker;
use crate::jobs::{Key, SideJob, find_answer};
use piton_core::client::{Answer, Now, Want};
use piton_core::event::{Event, Subject};
use piton_core::turn::State;

/// The questions that were open when the turn was cut off, and the answers that wait for them.
#[derive(Debug, Default)]
pub(super) struct Carried(Vec<CarriedQuestion>);

#[derive(Debug)]
struct CarriedQuestion {
    subject: Subject,
    /// What a person saw of it ([`piton_core::question::Question::shown`]).
    shown: String,
    answer: Option<(Answer, Asker)>,
}

impl Carried {
    /// Those of a turn that is about to go on.
    pub(super) fn of(session: &State) -> Self {
        let questions = Now::of(session, 0).wanted.into_iter().filter_map(|wanted| match wanted.want {
            Want::Approval(question) => {
                Some(CarriedQuestion { subject: wanted.subject, shown: question.shown, answer: None })
            }
            _ => None,
        });
        Self(questions.collect())
    }

    /// Keeps an answer until its question is asked again. An answer to any other question is given back.
    pub(super) fn keep(&mut self, answer: Answer, asker: Asker) -> Option<(Answer, Asker)> {
        let is_same = |question: &&mut CarriedQuestion| {
            let has_seen = answer.shown.as_ref().is_none_or(|shown| *shown == question.shown);
            question.subject == answer.subject && question.answer.is_none() && has_seen
        };
        let Some(question) = self.0.iter_mut().find(is_same) else { return Some((answer, asker)) };
        let shown = Some(question.shown.clone());
        question.answer = Some((Answer { shown, ..answer }, asker));
        None
    }

    /// Whoever waits for a question to be asked again.
    pub(super) fn take_askers(&mut self) -> impl Iterator<Item = Asker> {
        std::mem::take(&mut self.0).into_iter().filter_map(|question| Some(question.answer?.1))
    }

    fn take(&mut self, is_over: impl Fn(&Subject) -> bool) -> Option<(Answer, Asker)> {
        let at = self.0.iter().position(|question| is_over(&question.subject))?;
        self.0.remove(at).answer
    }
}

impl Driver {
    /// Gives the answer that waited for a question that has just been asked again, or says that it is not asked any more.
    pub(super) fn settle_carried(&mut self, event: &Event) {
        match event {
            Event::ApprovalAsked { subject, .. } => {
                if let Some((answer, asker)) = self.line.carried.take(|carried| carried == subject) {
                    self.answered(answer, asker);
                }
            }
            Event::CallStarted { call } | Event::CallSettled { call, .. } => {
                let carried = self.line.carried.take(|carried| matches!(carried, Subject::Call(id) if id == call));
                carried.into_iter().for_each(|(answer, asker)| self.not_open(answer.subject, asker));
            }
            Event::TurnEnded { .. } => {
                for question in std::mem::take(&mut self.line.carried.0) {
                    question.answer.into_iter().for_each(|(answer, asker)| self.not_open(answer.subject, asker));
                }
            }
            _ => {}
        }
    }

    /// Says that a question is not open, and what was answered if it was.
    pub(super) fn not_open(&mut self, subject: Subject, asker: Asker) {
        let task = find_answer(subject, asker, &self.context());
        self.jobs.put_ready(Key::Side(SideJob::Find), task);
    }
}
