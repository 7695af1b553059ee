//! What goes to the model: transcript in, request out. Providers translate it, they do not decide.

use crate::call::ToolSpec;
use crate::event::StepKind;
use crate::message::{Message, Part, Role};
use crate::model::Request;
use crate::turn::State;
use std::sync::Arc;

/// What the embedder adds to a conversation.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The system prompt; the same bytes for the whole session, or the provider's cache is lost.
    pub system: Arc<str>,
    /// The tools on offer, sorted by name.
    pub tools: Arc<[ToolSpec]>,
    /// The most tokens a reply may have, where it should be limited.
    pub max_output_tokens: Option<u32>,
}

/// The request for the step under way.
pub fn build(session: &State, frame: &Frame, model: &str) -> Request {
    Request { model: model.to_owned(), ..build_for(session, frame, session.model()) }
}

/// The same as another model may see it, named as `provider/model`.
pub fn build_for(session: &State, frame: &Frame, asked: &str) -> Request {
    let model = asked.split_once('/').map_or(asked, |(_, model)| model);
    Request {
        session: session.id().0.clone(),
        model: model.to_owned(),
        system: frame.system.to_string(),
        tools: frame.tools.clone(),
        may_call: session.step_kind() != StepKind::WrapUp,
        messages: session.transcript().map(|message| own(message, asked)).collect(),
        max_output_tokens: frame.max_output_tokens,
    }
}

/// The message as the model of this request may see it: what another provider attached for itself is left out, since
/// nobody else can read it and most refuse it.
fn own(message: &Arc<Message>, model: &str) -> Arc<Message> {
    let is_foreign = message.model.as_deref().is_some_and(|maker| provider(maker) != provider(model));
    let is_marked = |part: &Part| match part {
        Part::Text { opaque, .. } | Part::Reasoning { opaque, .. } => opaque.is_some(),
        Part::ToolCall(call) => call.opaque.is_some(),
        Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => false,
    };
    if !is_foreign || !message.parts.iter().any(is_marked) {
        return Arc::clone(message);
    }
    let mut message = Message::clone(message);
    for part in &mut message.parts {
        match part {
            Part::Text { opaque, .. } | Part::Reasoning { opaque, .. } => *opaque = None,
            Part::ToolCall(call) => call.opaque = None,
            Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => {}
        }
    }
    // What was nothing but an attachment is nothing now.
    message.parts.retain(|part| match part {
        Part::Text { text, .. } | Part::Reasoning { text, .. } => !text.is_empty(),
        Part::ToolCall(_) | Part::ToolResult { .. } | Part::Note { .. } | Part::Image { .. } => true,
    });
    Arc::new(message)
}

/// The request as a model may see it that does not look at pictures, or of which that is not known: those of tools' results
/// become words. Where it is known that it looks at none, so do those of a person's words, which it would refuse.
pub fn without_pictures(request: &mut Request, looks: Option<bool>) {
    let is_taken = |message: &Message| match (looks, message.role) {
        (Some(true), _) => true,
        (None, role) => role != Role::Tool,
        (Some(false), _) => false,
    };
    for message in &mut request.messages {
        if is_taken(message) || !message.parts.iter().any(|part| matches!(part, Part::Image { .. })) {
            continue;
        }
        let mut words = Message::clone(message);
        let mut parts: Vec<Part> = Vec::with_capacity(words.parts.len());
        for part in words.parts {
            let Part::Image { media_type, .. } = &part else {
                parts.push(part);
                continue;
            };
            let told = format!("[a picture, {media_type}, which is not shown: this model does not look at pictures]");
            match parts.last_mut() {
                Some(Part::ToolResult { outcome, .. }) => {
                    outcome.text.push('\n');
                    outcome.text.push_str(&told);
                }
                Some(_) | None => parts.push(Part::note(told)),
            }
        }
        words.parts = parts;
        *message = Arc::new(words);
    }
}

fn provider(model: &str) -> &str {
    model.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_holds_the_messages_of_the_session_and_copies_none() {
        use crate::event::{Delivery, Event, Record};
        let mut session = State::new();
        let events = [
            Event::UserSpoke {
                message: "m".into(),
                parts: vec![Part::text("go")],
                delivery: Delivery::Steer,
                typed: None,
                allows: Vec::new(),
                for_turn: None,
                subtask: None,
            },
            Event::TurnStarted {
                turn: 1,
                model: "a/x".into(),
                fallbacks: vec![],
                policy: Box::new(crate::policy::Policy::piton()),
                compact_at_tokens: None,
                this_turn_only: false,
            },
            Event::StepStarted { step: 1, kind: StepKind::Ordinary, note: Some("hm".into()) },
        ];
        for (seq, event) in (1..).zip(events) {
            session.apply(&Record { seq, at_ms: 0, event });
        }
        let frame = Frame { system: "s".into(), tools: Arc::new([]), max_output_tokens: None };
        let request = build(&session, &frame, "x");
        assert_eq!(request.messages.len(), 2);
        assert!(request.messages.iter().zip(session.transcript()).all(|(sent, kept)| Arc::ptr_eq(sent, kept)));
    }

    #[test]
    fn pictures_of_results_are_words_to_whoever_does_not_look() {
        let picture = || Part::Image { media_type: "image/png".into(), data: "AA==".into() };
        let result = |text: &str| Part::ToolResult {
            call: "c1_0".into(),
            tool: "read".into(),
            outcome: crate::call::Outcome::ok(text),
        };
        let asked = |looks| {
            let messages = [
                Message::new(Role::User, vec![Part::text("look"), picture()]),
                Message::new(Role::Tool, vec![result("a"), picture(), picture(), result("b")]),
            ];
            let mut request = Request {
                session: String::new(),
                model: "m".into(),
                system: String::new(),
                tools: Arc::new([]),
                may_call: true,
                messages: messages.map(Arc::new).to_vec(),
                max_output_tokens: None,
            };
            without_pictures(&mut request, looks);
            let count = |at: usize| {
                let parts = &request.messages[at].parts;
                parts.iter().filter(|part| matches!(part, Part::Image { .. })).count()
            };
            let told = match &request.messages[1].parts[0] {
                Part::ToolResult { outcome, .. } => outcome.text.lines().count(),
                _ => 0,
            };
            (count(0), count(1), told)
        };
        assert_eq!([asked(Some(true)), asked(None), asked(Some(false))], [(1, 2, 1), (1, 0, 3), (0, 0, 3)]);
    }

    #[test]
    fn what_a_provider_attached_is_seen_by_that_provider_only() {
        let thought = Part::Reasoning { text: "hm".into(), opaque: Some(json!({"signature": "s"})) };
        let sealed = Part::Reasoning { text: String::new(), opaque: Some(json!({"data": "x"})) };
        let said = Message { model: Some("a/x".into()), ..Message::new(Role::Assistant, vec![thought, sealed]) };
        let said = Arc::new(said);
        assert!(Arc::ptr_eq(&own(&said, "a/y"), &said));
        assert_eq!(own(&said, "b/x").parts, [Part::Reasoning { text: "hm".into(), opaque: None }]);
    }
}
