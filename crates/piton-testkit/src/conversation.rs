//! A request as its provider sees it: how many replies the conversation holds, and whether every call in it is answered.

use serde_json::Value;

/// What matters of one entry.
#[derive(Debug, PartialEq)]
enum Entry {
    /// The model's; those side by side are one reply.
    Said,
    /// The model asks for this.
    Call(String),
    /// It is answered.
    Answer(String),
    /// The user's.
    Heard,
}

/// How many replies of the model the conversation of this request holds.
pub(crate) fn replies(body: &Value) -> usize {
    let by_model = |entry: &Entry| matches!(entry, Entry::Said | Entry::Call(_));
    let entries = entries(body);
    let starts = |at: usize| by_model(&entries[at]) && (at == 0 || !by_model(&entries[at - 1]));
    (0..entries.len()).filter(|at| starts(*at)).count()
}

/// What a strict provider would refuse: a call that is not answered at once, once and in order.
pub(crate) fn fault(body: &Value) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    let mut answered = false;
    for entry in entries(body) {
        match entry {
            Entry::Call(id) if answered && !open.is_empty() => return Some(format!("{open:?} open before call {id}")),
            Entry::Call(id) => {
                answered = false;
                open.push(id);
            }
            Entry::Answer(id) if open.first() == Some(&id) => {
                answered = true;
                open.remove(0);
            }
            Entry::Answer(id) => return Some(format!("{id} is answered while {open:?} are open")),
            Entry::Said | Entry::Heard if !open.is_empty() => return Some(format!("{open:?} are not answered")),
            Entry::Said | Entry::Heard => {}
        }
    }
    (!open.is_empty()).then(|| format!("{open:?} are never answered"))
}

fn entries(body: &Value) -> Vec<Entry> {
    let list = ["messages", "input"].iter().find_map(|key| body[*key].as_array());
    list.into_iter().flatten().flat_map(message).collect()
}

/// One message of Chat Completions, Anthropic's Messages or Ollama, or one item of Responses.
fn message(message: &Value) -> Vec<Entry> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (message["role"].as_str(), message["type"].as_str()) {
        (_, Some("function_call")) => return vec![Entry::Call(text(&message["call_id"]))],
        (_, Some("function_call_output")) => return vec![Entry::Answer(text(&message["call_id"]))],
        (_, Some("reasoning")) => return vec![Entry::Said],
        (Some("tool"), _) => return vec![Entry::Answer(text(&message["tool_call_id"]))],
        _ => {}
    }
    let is_model = message["role"] == "assistant";
    let plain = if is_model { Entry::Said } else { Entry::Heard };
    let block = |block: &Value| match block["type"].as_str() {
        Some("tool_use") => Some(Entry::Call(text(&block["id"]))),
        Some("tool_result") => Some(Entry::Answer(text(&block["tool_use_id"]))),
        _ => None,
    };
    let in_content = message["content"].as_array().into_iter().flatten().filter_map(block);
    let beside = message["tool_calls"].as_array().into_iter().flatten().map(|call| Entry::Call(text(&call["id"])));
    let mut entries: Vec<Entry> = in_content.chain(beside).collect();
    match entries.first() {
        None => entries.push(plain),
        Some(_) if is_model => entries.insert(0, plain),
        Some(_) => {}
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chat(answers: &[&str]) -> Value {
        let calls = json!([{"id": "a"}, {"id": "b"}]);
        let mut messages = vec![json!({"role": "user"}), json!({"role": "assistant", "tool_calls": calls})];
        messages.extend(answers.iter().map(|id| json!({"role": "tool", "tool_call_id": id})));
        messages.push(json!({"role": "assistant", "content": "done"}));
        json!({ "messages": messages })
    }

    #[test]
    fn every_call_must_be_answered_once_and_in_order() {
        assert_eq!(fault(&chat(&["a", "b"])), None);
        for bad in [&["a"][..], &["b", "a"], &["a", "b", "b"], &[]] {
            assert!(fault(&chat(bad)).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn the_other_protocols_are_held_to_the_same() {
        let blocks = json!({"messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [{"type": "text"}, {"type": "tool_use", "id": "a"}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ]});
        assert_eq!((fault(&blocks), replies(&blocks)), (None, 1));
        let items = json!({"input": [
            {"role": "user", "content": "go"},
            {"type": "reasoning"},
            {"type": "function_call", "call_id": "a"},
        ]});
        assert!(fault(&items).is_some());
        assert_eq!(replies(&items), 1);
    }
}
