//! What a command asks of the turn that it starts alone: another model, effort or agent. Its settings take the place of the session's
//! as the turn starts, or is gone on with, and these come back at its end.

use super::{Driver, Stage};
use crate::jobs::{Step, opened_for, take_up};
use crate::settings::{OpenedModels, Sampling};
use piton_core::configure::Configure;
use piton_core::event::{Canceller, Event};
use piton_core::turn::Job;

impl Driver {
    /// Starts a turn as its command wants it. What that wants may be gone since it was said: then the turn ends where it starts, for
    /// it is not the session's own model that was asked for.
    pub(super) fn start_turn(&mut self) -> Step {
        let Some((message, asked)) = self.session.asked_of_next_turn() else { return self.start_as_it_is(None) };
        let (message, asked) = (message.clone(), asked.clone());
        let opened = match self.models_for(&asked) {
            Err(why) => Err(why),
            Ok(None) => Ok(None),
            Ok(Some(names)) => match self.memory.opened.take_if(|(id, _)| *id == message) {
                Some((_, opened)) => opened.map(Some),
                None => {
                    let source = self.services.settings.model_source.clone();
                    return Step::Start(opened_for(message, names, source));
                }
            },
        };
        let refused = opened.map(|opened| self.dress(asked, opened)).err().map(|why| unavailable(&why));
        self.start_as_it_is(refused)
    }

    /// Starts the turn that is due only to stop it: nothing is opened for that. When the session is left, its message waits for the
    /// next process.
    pub(super) fn start_to_stop(&mut self) -> Option<Vec<Event>> {
        if self.stage == Stage::Closing || !self.session.wanted().contains(&Job::StartTurn) {
            return None;
        }
        match self.start_as_it_is(None) {
            Step::Record(events) => Some(events),
            Step::Start(_) | Step::Wait => None,
        }
    }

    fn start_as_it_is(&mut self, refused: Option<String>) -> Step {
        match take_up(&Job::StartTurn, &mut self.context()) {
            Step::Record(mut events) => {
                events.extend(refused.map(|why| Event::CancelRequested { by: Canceller::Hook(why) }));
                Step::Record(events)
            }
            step => step,
        }
    }

    /// The same for a turn that goes on in this process. Returns why it cannot.
    pub(super) async fn dress_again(&mut self) -> Option<String> {
        let asked = self.session.asked_of_turn()?.clone();
        let opened = match self.models_for(&asked) {
            Ok(None) => Ok(None),
            Ok(Some((names, answers))) => {
                let source = self.services.settings.model_source.clone();
                let open = move || source.map(|source| source.open(&names, answers));
                let opened = tokio::task::spawn_blocking(open).await.ok().flatten();
                opened.unwrap_or_else(|| Err("no other model can be opened here".to_owned())).map(Some)
            }
            Err(why) => Err(why),
        };
        opened.map(|opened| self.dress(asked, opened)).err().map(|why| unavailable(&why))
    }

    /// The models that are to be opened for it. Fails where its agent is not there.
    fn models_for(&self, asked: &Configure) -> Result<Option<(String, Sampling)>, String> {
        let settings = &self.services.settings;
        asked.agent.as_deref().map(|agent| settings.agents.of_session(agent)).transpose()?;
        Ok(settings.opens_for(&settings.with_agents(asked.clone())))
    }

    fn dress(&mut self, asked: Configure, mut opened: Option<OpenedModels>) {
        let own = self.services.settings.clone();
        let changed = own.with_agents(asked);
        if let Some(opened) = opened.as_mut().filter(|_| changed.model.is_none() && changed.agent.is_none()) {
            opened.keep_surroundings();
        }
        let mut settings = own.clone();
        settings.configure(&changed, opened);
        self.next_settings.get_or_insert(own);
        self.go_by(settings);
    }
}

fn unavailable(why: &str) -> String {
    format!("the turn was stopped, because its command's settings are unavailable: {why}")
}
