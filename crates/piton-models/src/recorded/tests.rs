//! Playing and recording cassettes.

use super::*;
use piton_core::message::{Message, Role};

fn request(replies: usize) -> Request {
    let message = |role| Arc::new(Message::new(role, vec![Part::text("x")]));
    let mut messages = vec![message(Role::User)];
    for _ in 0..replies {
        messages.extend([message(Role::Assistant), message(Role::User)]);
    }
    Request {
        session: String::new(),
        model: String::new(),
        system: String::new(),
        tools: Arc::new([]),
        may_call: true,
        messages,
        max_output_tokens: None,
    }
}

async fn ask(model: &dyn Model, replies: usize) -> (String, Result<Reply, ModelError>) {
    let mut seen = String::new();
    let mut stream = model.stream(request(replies));
    while let Some(item) = stream.next().await {
        match item {
            Ok(ModelEvent::Delta(Delta::Text { text } | Delta::Reasoning { text })) => seen.push_str(&text),
            Ok(ModelEvent::Delta(Delta::CallBegan { name: text, .. } | Delta::CallInput { json: text, .. })) => {
                seen.push_str(&text);
            }
            Ok(ModelEvent::Done(reply)) => return (seen, Ok(*reply)),
            Err(error) => return (seen, Err(error)),
        }
    }
    panic!("no end");
}

const CASSETTE: &str = r#"
{"cassette":1,"about":"two replies","window_tokens":4096}
# a comment
{"reasoning":"hm","calls":[{"name":"read","input":{"path":"a"}},{"name":"bash","raw":"{"}]}
{"text":"half","error":{"kind":"cut_stream","message":"dead"}}
{"text":"the whole answer, in several pieces","usage":{"input_tokens":7}}
"#;

#[tokio::test]
async fn the_transcript_tells_which_reply_is_next() {
    let cassette = Recorded::parse(CASSETTE).unwrap();
    assert_eq!((cassette.replies(), cassette.limits().window_tokens), (2, Some(4096)));
    let (seen, first) = ask(&cassette, 0).await;
    assert_eq!(seen, r#"hmread{"path":"a"}bash{"#);
    let first = first.unwrap();
    assert_eq!((first.parts.len(), first.finish), (3, FinishReason::ToolCalls));
    assert_eq!(ask(&cassette, 0).await.1.unwrap(), first, "asked again, it says the same");
}

#[tokio::test]
async fn an_error_line_fails_once_and_then_the_reply_comes() {
    let cassette = Recorded::parse(CASSETTE).unwrap();
    let (seen, outcome) = ask(&cassette, 1).await;
    assert_eq!((seen.as_str(), outcome.unwrap_err().kind), ("half", ModelErrorKind::CutStream));
    let (seen, outcome) = ask(&cassette, 1).await;
    assert_eq!(seen, "the whole answer, in several pieces");
    assert_eq!(outcome.unwrap().usage.input_tokens, 7);
}

#[tokio::test]
async fn an_exhausted_cassette_says_how_long_it_is() {
    let error = ask(&Recorded::parse(CASSETTE).unwrap(), 2).await.1.unwrap_err();
    assert_eq!(error.message, "the cassette has no more replies (it has 2)");
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
}

#[tokio::test]
async fn a_cassette_may_say_itself_that_it_is_over() {
    let cassette = Recorded::parse("{\"cassette\":1,\"over\":\"That was all.\"}\n{\"text\":\"hi\"}").unwrap();
    assert_eq!(ask(&cassette, 1).await.1.unwrap_err().message, "That was all.");
}

#[test]
fn a_broken_line_is_named() {
    let error = Recorded::parse("{\"text\":\"a\"}\n\n{\"txet\":\"b\"}").unwrap_err();
    assert_eq!(error.line, 3);
    assert!(error.reason.contains("txet"), "{error}");
    assert!(Recorded::parse("{\"cassette\":2}").unwrap_err().reason.contains("version 2"));
}

#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_is_recorded_plays_back_the_same() {
    let signed = r#"{"parts":[{"type":"text","text":"a"},{"type":"reasoning","text":"t","opaque":{"signature":"s"}}]}"#;
    let source = format!("{CASSETTE}{signed}\n");
    let tape = Tape::default();
    let recorder = Recorder::new(Recorded::parse(&source).unwrap(), tape.clone());
    let mut originals = Vec::new();
    for replies in [0, 1, 1, 2] {
        originals.push(ask(&recorder, replies).await.1);
    }
    let text = String::from_utf8(tape.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 4);
    let copy = Recorded::parse(&text).unwrap();
    for (replies, original) in [0, 1, 1, 2].into_iter().zip(originals) {
        assert_eq!(ask(&copy, replies).await.1, original);
    }
}
