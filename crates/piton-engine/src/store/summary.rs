//! A session at a glance, folded from its events. A store that keeps tables beside the events has it from these instead,
//! and must come to the same.

use super::{Activity, Summary};
use piton_core::call::{Delegated, Outcome};
use piton_core::event::{Event, Record, SummaryCall, TitledBy};
use piton_core::message::Part;

/// Characters of the first prompt that make the title.
const TITLE_CHARS: usize = 80;

impl Summary {
    /// The summary of these events; `None` where the first does not begin a session.
    pub(super) fn of<'r>(records: impl IntoIterator<Item = &'r Record>) -> Option<Self> {
        let mut records = records.into_iter();
        let first = records.next()?;
        let Event::SessionStarted { session, workspace, version, parent } = &first.event else { return None };
        let mut summary = Self {
            id: session.clone(),
            workspace: workspace.clone(),
            version: version.clone(),
            title: String::new(),
            model: None,
            created_ms: first.at_ms,
            updated_ms: first.at_ms,
            turns: 0,
            steps: 0,
            cost_micros: None,
            unpriced_calls: 0,
            status: Activity::Idle,
            last_end: None,
            parent: parent.clone(),
        };
        let mut prompt = String::new();
        records.for_each(|record| summary.hear(record, &mut prompt));
        Some(summary)
    }

    fn hear(&mut self, record: &Record, prompt: &mut String) {
        match &record.event {
            // Who opens a session to look at it has not worked on it, nor has who names it.
            Event::WriterOpened { .. } | Event::WriterClosed {} | Event::EventLost {} => return,
            // What comes of a command is not work on the session, but what a subagent used was used for it.
            Event::TaskEnded { outcome, .. } => {
                return outcome.delegated.iter().for_each(|delegated| self.pay_child(delegated));
            }
            Event::GrantsRevoked { .. } | Event::GrantsShared { .. } => return,
            Event::SettingsChanged { changed, .. } => return self.model = changed.model.clone().or(self.model.take()),
            Event::TitleGiven { title, by } => return self.titled(title, by, prompt),
            Event::WorkspaceMoved { workspace } => self.workspace.clone_from(workspace),
            Event::UserSpoke { parts, typed, .. } => self.prompted(parts, typed.as_deref(), prompt),
            Event::TurnStarted { turn, model, fallbacks, this_turn_only, .. } => {
                (self.turns, self.status) = (*turn, Activity::Running);
                if !this_turn_only {
                    self.model = Some(chain(model, fallbacks));
                }
            }
            Event::TurnResumed { model, fallbacks, this_turn_only: false, .. } => {
                self.model = Some(chain(model, fallbacks));
            }
            Event::StepStarted { step, .. } => self.steps = *step,
            Event::MessageFinished { cost_micros, .. } => self.pay(*cost_micros),
            Event::ModelFailed { usage, cost_micros, at_most, .. } if usage.total() > 0 || at_most.is_some() => {
                self.pay(*cost_micros);
            }
            Event::MessageCut { at_most: Some(_), .. } => self.pay(None),
            Event::ServerSampled { sampled, .. } if sampled.may_be_billed() => self.pay(sampled.cost_micros),
            Event::CompactionFinished { asked, .. } | Event::CompactionFailed { asked, .. } => {
                if let Some(SummaryCall { cost_micros, .. }) = asked.as_deref() {
                    self.pay(*cost_micros);
                }
            }
            Event::CallSettled { outcome: Outcome { delegated: Some(delegated), .. }, .. } => self.pay_child(delegated),
            Event::TurnEnded { end, .. } => (self.status, self.last_end) = (Activity::Idle, Some(*end)),
            _ => {}
        }
        self.updated_ms = record.at_ms;
    }

    fn prompted(&mut self, parts: &[Part], typed: Option<&str>, prompt: &mut String) {
        let words = title(parts, typed);
        if self.title.is_empty() {
            self.title.clone_from(&words);
        }
        if prompt.is_empty() {
            *prompt = words;
        }
    }

    /// An empty title stands for the first prompt's words.
    fn titled(&mut self, words: &str, by: &TitledBy, prompt: &str) {
        if by.names(words) {
            self.title = if words.is_empty() { prompt.to_owned() } else { words.to_owned() };
        }
        if let TitledBy::Model { cost_micros, .. } = by {
            self.pay(*cost_micros);
        }
    }

    /// However many of a subagent's calls have no price, it counts as one.
    fn pay_child(&mut self, delegated: &Delegated) {
        if delegated.cost_micros.is_some() {
            self.pay(delegated.cost_micros);
        }
        if delegated.unpriced_calls > 0 {
            self.pay(None);
        }
    }

    fn pay(&mut self, cost_micros: Option<u64>) {
        match cost_micros {
            Some(cost) => self.cost_micros = Some(self.cost_micros.unwrap_or(0) + cost),
            None => self.unpriced_calls += 1,
        }
    }
}

/// A model and its fallbacks as people say them: `a/x,b/y`.
pub(super) fn chain(model: &str, fallbacks: &[String]) -> String {
    let rest = fallbacks.iter().map(String::as_str);
    std::iter::once(model).chain(rest).collect::<Vec<_>>().join(",")
}

/// A prompt as a title: the words of the person, and not what was piped in beside them or what a command made of them.
pub(super) fn title(parts: &[Part], typed: Option<&str>) -> String {
    let words = typed.or_else(|| first_words(parts));
    shorten(words.unwrap_or_default())
}

fn first_words(parts: &[Part]) -> Option<&str> {
    parts.iter().find_map(|part| match part {
        Part::Text { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    })
}

/// On one line, not too long.
pub(super) fn shorten(prompt: &str) -> String {
    let line = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(TITLE_CHARS).collect()
}
