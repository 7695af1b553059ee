//! Starting a turn, and taking the next model of its chain: both are events at once, so there is nothing that a restart, a
//! panic or a cancel could meet.

use super::{JobContext, Step};
use piton_core::event::Event;

pub(super) fn start(cx: &JobContext<'_>) -> Step {
    let settings = &cx.services.settings;
    Step::Record(vec![Event::TurnStarted {
        turn: cx.session.turn() + 1,
        model: settings.model.name().to_owned(),
        fallbacks: settings.fallback_names(),
        policy: Box::new(cx.policy()),
        compact_at_tokens: cx.full_at(settings.model.name()),
        this_turn_only: cx.session.asked_of_next_turn().is_some(),
    }])
}

pub(super) fn switch_model(reason: &str, cx: &JobContext<'_>) -> Step {
    let Some(model) = cx.session.fallbacks().next() else { return Step::Wait };
    Step::Record(vec![Event::ModelSwitched {
        step: cx.session.step(),
        model: model.to_owned(),
        reason: reason.to_owned(),
        compact_at_tokens: cx.full_at(model),
    }])
}
