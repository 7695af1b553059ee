//! Requests for a summary of what does not fit.

use super::shorten;
use piton_core::call::{CallInput, Outcome};
use piton_core::compact::{Family, of_message};
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, Role, ToolCall};
use piton_core::model::Request;
use piton_core::turn;
use serde_json::json;
use std::sync::Arc;

fn conversation(steps: usize, bytes: usize) -> Request {
    let mut messages = vec![Message::user("m".into(), "the task")];
    for step in 0..steps {
        let id = CallId(format!("c{step}"));
        let input = CallInput::Json(json!({"path": "a"}));
        let call =
            ToolCall { id: id.clone(), provider_id: None, name: "read".into(), spelling: None, input, opaque: None };
        messages.push(Message::new(Role::Assistant, vec![Part::ToolCall(call)]));
        let outcome = Outcome::ok("ä".repeat(bytes / 2));
        messages.push(Message::new(Role::Tool, vec![Part::ToolResult { call: id, tool: "read".into(), outcome }]));
    }
    Request {
        session: "s".into(),
        model: "m".into(),
        system: String::new(),
        tools: Arc::new([]),
        may_call: true,
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: None,
    }
}

#[test]
fn a_shortened_conversation_is_well_formed_and_begins_with_the_task() {
    let whole = conversation(40, 5_001);
    let last = Part::note("sum it up");
    let room = shorten::Capacity { family: Family::Open, used: 60_000, most: None };
    let of = |room: &shorten::Capacity, is_too_long| -> Vec<Request> {
        shorten::requests(&whole, &last, room, is_too_long).into_iter().map(|(request, _)| request).collect()
    };
    let requests = of(&room, true);
    assert_eq!(requests.len(), 2, "as it is, it is known not to fit");
    let sizes: Vec<usize> = requests.iter().map(|request| request.messages.len()).collect();
    assert!(sizes[1] < sizes[0] && sizes[0] <= whole.messages.len() + 2, "{sizes:?}");
    for request in &requests {
        assert_eq!(turn::malformed(request.messages.iter().map(|message| &**message)), None);
        assert_eq!(request.messages[0].prose(), "the task");
        assert_eq!(request.messages.last().unwrap().parts, std::slice::from_ref(&last));
    }
    let as_it_is = &of(&room, false)[0];
    assert_eq!(as_it_is.messages[..81], whole.messages[..], "the cache knows all of it");
}

#[test]
fn what_cannot_fit_is_not_sent_and_long_texts_are_cut_until_it_does() {
    let mut whole = conversation(3, 100);
    whole.messages[0] = Arc::new(Message::user("m".into(), "word ".repeat(1_000_000)));
    let write = CallInput::Json(json!({"path": "a", "content": "x".repeat(500_000)}));
    let call = ToolCall {
        id: "w".into(),
        provider_id: None,
        name: "write".into(),
        spelling: None,
        input: write,
        opaque: None,
    };
    whole.messages.push(Arc::new(Message::new(Role::Assistant, vec![Part::ToolCall(call)])));
    let result = Part::ToolResult { call: "w".into(), tool: "write".into(), outcome: Outcome::ok("done") };
    whole.messages.push(Arc::new(Message::new(Role::Tool, vec![result])));
    let last = Part::note("sum it up");
    let room = |most| shorten::Capacity { family: Family::Open, used: 1_500_000, most: Some(most) };
    let requests = shorten::requests(&whole, &last, &room(13_000), false);
    assert!(!requests.is_empty() && requests.iter().all(|(_, is_whole)| !is_whole));
    for (request, _) in &requests {
        let tokens: u64 = request.messages.iter().map(|message| of_message(Family::Open, message)).sum();
        assert!(tokens <= 13_000, "{tokens}");
        assert_eq!(turn::malformed(request.messages.iter().map(|message| &**message)), None);
        assert!(request.messages[0].prose().starts_with("word "), "the task");
    }
    assert!(shorten::requests(&whole, &last, &room(500), false).is_empty(), "nothing of it fits");
}
