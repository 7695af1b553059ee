//! Taking over what a killed process left: its turn goes on by our rules, and what only that process could have ended is
//! ended. What this means to a job is told in the job's file.

use super::Driver;
use super::carried::Carried;
use crate::hooks::{Check, Hook, Hooks, OutputSchema};
use crate::jobs::{finished_files, measure_lost, recover, window_changed};
use crate::store::StoreError;
use piton_core::event::{Canceller, Event};
use piton_core::hook::Demand;
use piton_core::ids::SessionId;
use piton_core::turn::{Job, State};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

impl Driver {
    pub(super) async fn recover(&mut self) -> Result<(), StoreError> {
        if let Some(rewinding) = self.session.rewinding().cloned() {
            let restored = finished_files(rewinding, &self.context()).await;
            self.end_rewind(restored.event).await?;
        }
        // Who goes on below it has used something already: nobody may spend that again.
        let children: Vec<SessionId> = self.session.children().cloned().collect();
        if !children.is_empty() {
            let used = self.services.tree.nursery.used(children).await;
            used.iter().for_each(|(child, used)| self.services.tree.kin.expects(child, *used));
        }
        let refused = self.dress_again().await;
        let lost = self.session.wanted();
        lost.iter().for_each(|job| measure_lost(job, &mut self.context()));
        if self.session.is_in_turn() {
            self.resume_turn(&lost, refused);
        }
        Ok(())
    }

    /// The turn goes on by our rules, and what a killed process was at in it is ended.
    fn resume_turn(&mut self, lost: &[Job], refused: Option<String>) {
        let unseen = inherit(&mut self.services.hooks, &self.session, &self.services.settings.env);
        let settings = &self.services.settings;
        let (model, fallbacks) = (settings.model.name().to_owned(), settings.fallback_names());
        self.line.carried = Carried::of(&self.session);
        self.recorder.resume_turn(self.session.turn());
        let policy = Box::new(self.context().policy());
        let this_turn_only = self.session.asked_of_turn().is_some();
        self.record(Event::TurnResumed { model, fallbacks, policy, this_turn_only });
        let changed = window_changed(&self.context());
        self.record_all(changed);
        for job in lost {
            let events = recover(job, &mut self.context());
            self.record_all(events);
        }
        if let Some(reason) = unseen.or(refused) {
            self.record(Event::CancelRequested { by: Canceller::Hook(reason) });
        }
    }
}

/// Adds what the turn under way must still come to by what is on record with it, whoever began it. Returns what of that
/// cannot be seen to here.
fn inherit(hooks: &mut Hooks, session: &State, env: &Arc<BTreeMap<OsString, OsString>>) -> Option<String> {
    let (mut more, mut lost) = (Vec::<Arc<dyn Hook>>::new(), None);
    for demand in &session.policy().hooks.demands {
        match demand {
            Demand::Check { command, timeout_ms, rounds } => {
                let timeout = Some(Duration::from_millis(*timeout_ms));
                more.push(Arc::new(Check::new(command, Arc::clone(env)).within(timeout, Some(*rounds))));
            }
            Demand::Answer { schema } => match OutputSchema::parse(&schema.to_string()) {
                Ok(schema) => more.push(Arc::new(schema.said())),
                Err(error) => lost = Some(format!("the schema of the answer cannot be read any more: {error}")),
            },
        }
    }
    hooks.inherit(&more);
    lost
}
