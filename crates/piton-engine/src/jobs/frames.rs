//! What the model is asked with: this process's own system prompt and tools, and what hooks left of them. What is on
//! record of that is folded ([`piton_core::turn::State::offered`]); the frame itself is kept here, so that the same bytes are
//! measured once.

use crate::hooks::{Gated, ModelCall};
use crate::settings::Settings;
use piton_core::call::ToolSpec;
use piton_core::event::Event;
use piton_core::hook::HookPoint;
use piton_core::message::Part;
use piton_core::request::Frame;
use piton_core::turn::{Offered, State};
use std::sync::Arc;

/// The frames of one session.
pub(crate) struct Frames {
    own: Frame,
    /// What hooks left of it when the model was asked last.
    left: Frame,
}

impl Frames {
    /// What these settings ask the model with, and what hooks left of it.
    pub(crate) fn of(settings: &Settings, session: &State) -> Self {
        let own = Frame {
            system: settings.system_of_agent(),
            tools: settings.offered(),
            // The provider's own default: the model's limit is seldom wanted, and counts against the window.
            max_output_tokens: None,
        };
        Self { left: left_of(&own, session.offered()), own }
    }

    /// The one that hooks have not seen.
    pub(crate) fn own(&self) -> &Frame {
        &self.own
    }

    /// What the model is asked with now.
    pub(crate) fn now(&self, session: &State) -> &Frame {
        let is_changed = *session.offered() != Offered::default();
        let may_be = is_changed || session.policy().hooks.gates.has(HookPoint::BeforeModel);
        if may_be { &self.left } else { &self.own }
    }

    /// Whether hooks have taken this tool from the model.
    pub(crate) fn is_taken_away(&self, tool: &str, session: &State) -> bool {
        let has = |frame: &Frame| frame.tools.iter().any(|spec| spec.name == tool);
        has(&self.own) && !has(self.now(session))
    }

    /// Takes a model call as hooks left it: what is recorded of that.
    pub(crate) fn take(&mut self, session: &State, mut gated: Gated, call: ModelCall) -> Event {
        // Asked again, by whatever model, it is the same question; what was added to it once is there.
        let is_said = |note: &String| {
            let is_it = |part: &Part| matches!(part, Part::Note { text, .. } if text == note);
            session.transcript().last().is_some_and(|last| last.parts.iter().any(is_it))
        };
        gated.notes.retain(|note| !is_said(note));
        let before = left_of(&self.own, session.offered());
        // The same bytes are the same pointer, so that they need not be measured again.
        let known = [&self.left, &self.own];
        let same = known.iter().map(|frame| &frame.system).find(|old| ***old == *call.system);
        let system = same.cloned().unwrap_or(call.system);
        let same = known.iter().map(|frame| &frame.tools).find(|old| **old == call.tools);
        let tools = same.cloned().unwrap_or(call.tools);
        let names = |tools: &[ToolSpec]| tools.iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
        let mut event = gated.event(session.step());
        if let Event::HooksRan { system: other, tools: others, .. } = &mut event {
            *other = (before.system != system).then(|| system.to_string());
            *others = (names(&before.tools) != names(&tools)).then(|| names(&tools));
        }
        self.left = Frame { system, tools, max_output_tokens: self.own.max_output_tokens };
        event
    }
}

/// What is on record of it, as a frame.
fn left_of(own: &Frame, offered: &Offered) -> Frame {
    let is_left = |name: &String| offered.tools.as_ref().is_none_or(|left| left.contains(name));
    Frame {
        system: offered.system.as_deref().map_or_else(|| Arc::clone(&own.system), Arc::from),
        tools: match offered.tools {
            Some(_) => own.tools.iter().filter(|tool| is_left(&tool.name)).cloned().collect(),
            None => Arc::clone(&own.tools),
        },
        max_output_tokens: own.max_output_tokens,
    }
}
