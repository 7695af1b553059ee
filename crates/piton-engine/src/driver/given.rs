//! Where the driver puts things before the model: with what the user says, and at the beginning of a step. What they are
//! is decided in [`crate::context`].

use super::Driver;
use crate::context::{Addition, Instructions, Notes, References, remember_given};
use piton_core::event::{Event, Given, StepKind};
use piton_core::message::Part;
use piton_core::tokens::Family;
use std::path::PathBuf;
use std::sync::Arc;

impl Driver {
    /// What the user says, with what it refers to; the first words in a workspace with what is to be known there. Records
    /// what was added.
    pub(super) async fn with_context(&mut self, said: Vec<Part>) -> Vec<Part> {
        let is_new = self.session.is_new_here();
        let refers = said.iter().any(|part| matches!(part, Part::Text { text, .. } if text.contains('@')));
        if !is_new && !refers {
            return said;
        }
        let references = self.references();
        let environment = self.settings.environment_note.clone().filter(|_| is_new);
        let instructions = self.instructions().filter(|_| is_new);
        let files = Arc::clone(&self.files);
        let work = move || {
            let start = Notes::at_start(environment.as_deref(), instructions.as_ref(), &references.workspace, &*files);
            let found = references.resolve(&said, &*files);
            (said, start, found)
        };
        // A folder can be large, and a disk slow; what is read without being asked for is neither.
        let elsewhere = refers || self.settings.shares_runtime;
        let done = if elsewhere { tokio::task::spawn_blocking(work).await } else { Ok(work()) };
        let (said, start, found) = match done {
            Ok(done) => done,
            // Only a panic in there: nothing was said then.
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        self.record_given([start.items.clone(), found.items].concat());
        start.parts().chain(said).chain(found.parts).collect()
    }

    /// The beginning of a step, with what the model is to be told there. Records what was added.
    pub(super) fn with_reminders(&mut self, event: Event) -> Event {
        let Event::StepStarted { step, kind, note } = event else { return event };
        let addition = self.reminders(kind);
        let note = addition.behind(note);
        self.record_given(addition.items);
        Event::StepStarted { step, kind, note }
    }

    fn reminders(&mut self, kind: StepKind) -> Addition {
        let (environment, instructions) = (&self.settings.environment_note, self.instructions());
        self.notes.at_step(
            &self.session,
            kind,
            self.world.now_ms(),
            environment.as_deref(),
            instructions.as_ref(),
            (&self.ledger, &*self.files),
        )
    }

    fn record_given(&mut self, items: Vec<Given>) {
        items.iter().for_each(|item| remember_given(item, &self.ledger));
        if !items.is_empty() {
            self.record(Event::ContextGiven { items });
        }
    }

    fn instructions(&self) -> Option<Instructions> {
        let window_tokens = self.settings.model.limits().window_tokens;
        self.settings.instructions.clone().map(|instructions| Instructions { window_tokens, ..instructions })
    }

    fn references(&self) -> References {
        let limits = self.settings.model.limits();
        References {
            workspace: PathBuf::from(self.session.workspace()),
            style: self.settings.policy.references.style,
            sizes: self.settings.policy.references.sizes,
            window_tokens: limits.window_tokens,
            images: limits.images,
            family: Family::of(self.settings.model.name()),
        }
    }
}
