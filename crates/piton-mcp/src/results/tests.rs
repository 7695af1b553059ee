//! What results come to.

use super::*;

fn told(result: &Value, output: Option<&Value>) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    outcome("s", "t", result, output, &Keep::new(folder.path()))
}

/// The smallest PNG that is whole.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn what_is_nearly_a_result_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let keep = Keep::new(folder.path());
    let of = |result: Value| {
        let outcome = outcome("s", "t", &result, None, &keep);
        (outcome.status, outcome.text)
    };
    assert_eq!(of(json!({"content": "words"})), (Status::Ok, "words".to_owned()));
    let block = json!({"type": "text", "text": "one"});
    assert_eq!(of(json!({"content": block, "isError": "true"})), (Status::Failed, "one".to_owned()));
}

#[test]
fn a_structured_result_is_told_once() {
    let result = json!({"content": [{"type": "text", "text": "{\"n\": 1}"}], "structuredContent": {"n": 1}});
    assert_eq!(told(&result, None).text, "{\"n\": 1}");
    let result = json!({"content": [{"type": "text", "text": "one"}], "structuredContent": {"n": 1}});
    assert_eq!(told(&result, None).text, "one\n{\n  \"n\": 1\n}");
}

#[test]
fn a_structured_result_is_checked() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "string"}}});
    let result = json!({"content": [], "structuredContent": {"n": 1}});
    let text = told(&result, Some(&schema)).text;
    assert!(text.contains("does not fit what the tool says of its output"), "{text}");
    let result = json!({"content": [], "structuredContent": {"n": "1"}});
    assert!(!told(&result, Some(&schema)).text.contains("does not fit"));
}

#[test]
fn a_large_structured_result_is_on_record_once() {
    let of = |bytes: usize| told(&json!({"content": [], "structuredContent": {"s": "x".repeat(bytes)}}), None);
    assert!(of(1_000).metadata["structured"].is_object());
    let large = of(1_000_000);
    assert!(large.metadata.get("structured").is_none() && large.text.len() > 1_000_000);
}

#[test]
fn pictures_are_shown_and_what_is_none_is_kept() {
    let result = json!({"content": [
        {"type": "image", "data": DOT, "mimeType": "image/png"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "image", "data": "*", "mimeType": "image/\u{1b}png"},
        {"type": "hologram", "data": 1},
    ]});
    let folder = tempfile::tempdir().unwrap();
    let outcome = outcome("s", "t", &result, None, &Keep::new(folder.path()));
    assert_eq!(outcome.pictures.len(), 1);
    let lines: Vec<&str> = outcome.text.lines().collect();
    assert!(lines[0].starts_with("[picture: image/png, "), "{}", outcome.text);
    assert!(lines[1].starts_with("[image/png, 3 bytes, kept at ") && lines[1].ends_with(".png]"), "{}", outcome.text);
    assert!(lines[2].starts_with("[audio/wav, 4 bytes, kept at ") && lines[2].ends_with(".wav]"), "{}", outcome.text);
    assert_eq!(lines[3..], ["[image/\\u{1b}png, damaged]", "[content of the type hologram, which is not known here]"]);
}

#[test]
fn resources_and_links_are_told_in_words() {
    let result = json!({"content": [
        {"type": "resource", "resource": {"uri": "demo://1", "mimeType": "text/plain", "text": "one"}},
        {"type": "resource_link", "uri": "demo://2", "name": "two"},
    ], "isError": true});
    let outcome = told(&result, None);
    assert_eq!(outcome.status, Status::Failed);
    assert_eq!(outcome.text, "[resource demo://1]\none\n[resource two at demo://2; read_resource reads it]");
}

#[test]
fn a_prompt_is_one_text() {
    let folder = tempfile::tempdir().unwrap();
    let result = json!({"messages": [
        {"role": "user", "content": {"type": "text", "text": "Hello"}},
        {"role": "assistant", "content": {"type": "text", "text": "Hi"}},
    ]});
    assert_eq!(prompt(&result, &Keep::new(folder.path())).text, "Hello\n[said by the assistant:]\nHi");
}
