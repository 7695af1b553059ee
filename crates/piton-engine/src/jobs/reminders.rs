//! What the model is told at the beginning of a step. What that is, is decided in [`crate::context`]; it is on record with the
//! step, so nothing is left that a restart, a panic or a cancel could meet.

use super::JobContext;
use piton_core::event::{Event, GivenKind, StepKind};

/// The beginning of a step, with what the model is to be told there; any other event as it is.
pub(crate) fn with_reminders(event: Event, cx: &mut JobContext<'_>) -> Vec<Event> {
    let Event::StepStarted { step, kind, note } = event else { return vec![event] };
    let (services, instructions) = (cx.services, cx.instructions());
    let mut addition = cx.memory.notes.at_step(
        cx.session,
        (kind, services.settings.plans()),
        services.world.now_ms(),
        services.settings.environment_note.as_deref(),
        instructions.as_ref(),
        (&services.ledger, &*services.files),
    );
    // On the last step there are no tools.
    if kind != StepKind::WrapUp
        && let Some(text) = cx.memory.servers.news(&services.settings.tools)
    {
        addition.add_one(GivenKind::Servers, text);
    }
    if let Some(changed) = services.settings.entries_changed.as_ref().filter(|_| kind != StepKind::WrapUp)
        && let Some(text) = cx.memory.entries.news(changed, cx.session)
    {
        addition.add_one(GivenKind::EntriesChanged, text);
    }
    let note = addition.behind(note);
    let items = addition.items;
    let given = (!items.is_empty()).then_some(Event::ContextGiven { items });
    given.into_iter().chain([Event::StepStarted { step, kind, note }]).collect()
}
