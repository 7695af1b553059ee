//! Requests for a summary of what does not fit.

use super::shorten;
use piton_core::call::{CallInput, Outcome};
use piton_core::compact::Family;
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
        let call = ToolCall { id: id.clone(), provider_id: None, name: "read".into(), input, opaque: None };
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
    let last = Part::Note { text: "sum it up".into() };
    let requests = shorten::requests(&whole, &last, Family::Open, 60_000, true);
    assert_eq!(requests.len(), 2, "as it is, it is known not to fit");
    let sizes: Vec<usize> = requests.iter().map(|request| request.messages.len()).collect();
    assert!(sizes[1] < sizes[0] && sizes[0] <= whole.messages.len() + 2, "{sizes:?}");
    for request in &requests {
        assert_eq!(turn::malformed(request.messages.iter().map(|message| &**message)), None);
        assert_eq!(request.messages[0].prose(), "the task");
        assert_eq!(request.messages.last().unwrap().parts, std::slice::from_ref(&last));
    }
    let as_it_is = &shorten::requests(&whole, &last, Family::Open, 60_000, false)[0];
    assert_eq!(as_it_is.messages[..81], whole.messages[..], "the cache knows all of it");
}
