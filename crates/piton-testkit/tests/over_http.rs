//! The models crate end to end: a real socket, a scripted server, every protocol.

#![allow(clippy::unwrap_used, reason = "tests")]

use futures_util::StreamExt;
use piton_core::call::CallInput;
use piton_core::message::{FinishReason, Message, Part};
use piton_core::model::{Delta, ModelError, ModelErrorKind, ModelEvent, Reply, Request};
use piton_http::HttpOptions;
use piton_models::Model;
use piton_models::catalogue::{Catalogue, ModelOverride};
use piton_models::provider::{self, ProviderSpec};
use piton_testkit::FakeProvider;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

const ALL: [&str; 5] = ["openai-chat", "anthropic", "openai-responses", "google", "ollama-native"];

fn spec(provider: &str, url: &str) -> ProviderSpec {
    ProviderSpec {
        provider: provider.into(),
        model: Some("m".into()),
        base_url: Some(url.into()),
        key: Some("sk-test-key".into()),
        ..ProviderSpec::default()
    }
}

fn model(provider: &str, url: &str) -> Arc<dyn Model> {
    let options = HttpOptions { stall_ms: 150, ..HttpOptions::default() };
    provider::open(&spec(provider, url), &options).ok().unwrap()
}

fn request() -> Request {
    Request {
        session: "ses_1".into(),
        model: "m".into(),
        system: "Be brief.".into(),
        tools: Arc::new([]),
        may_call: true,
        messages: vec![Arc::new(Message::user("msg_1".into(), "hello"))],
        max_output_tokens: None,
    }
}

/// What a person saw, and how it ended.
async fn ask(model: &dyn Model) -> (String, Result<Reply, ModelError>) {
    say(model, request()).await
}

async fn say(model: &dyn Model, request: Request) -> (String, Result<Reply, ModelError>) {
    let mut stream = model.stream(request);
    let mut seen = String::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(ModelEvent::Delta(Delta::Text { text } | Delta::Reasoning { text })) => seen.push_str(&text),
            Ok(ModelEvent::Delta(Delta::CallBegan { name, .. })) => seen.push_str(&format!("[{name} ")),
            Ok(ModelEvent::Delta(Delta::CallInput { json, .. })) => seen.push_str(&json),
            Ok(ModelEvent::Done(reply)) => {
                assert!(stream.next().await.is_none(), "Done is the last event");
                return (seen, Ok(*reply));
            }
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error is the last event");
                return (seen, Err(error));
            }
        }
    }
    panic!("the stream ended without an end");
}

/// Plays the script's first answer in every protocol.
async fn play(script: Value) -> Vec<(String, Result<Reply, ModelError>)> {
    let mut outcomes = Vec::new();
    for provider in ALL {
        let server = FakeProvider::start(script.clone());
        outcomes.push(ask(&*model(provider, &server.url())).await);
    }
    outcomes
}

/// Expects the script's first answer to fail like this in every protocol, after this much was seen.
async fn fails(script: Value, kind: ModelErrorKind, seen: &str) -> ModelError {
    let mut last = None;
    for (shown, outcome) in play(script).await {
        let error = outcome.unwrap_err();
        assert_eq!((error.kind, shown.as_str()), (kind, seen), "{error}");
        last = Some(error);
    }
    last.unwrap()
}

#[tokio::test]
async fn a_whole_answer_arrives_in_any_cut() {
    let answer = json!([{ "reasoning": "hm", "text": "grüße 🐍", "delta_chars": 2, "chunk_bytes": 3,
        "tools": [{ "name": "read", "args": { "path": "a.txt" } }, { "name": "read", "args": { "path": "b.txt" } }],
        "usage": { "input": 100, "output": 7, "cached": 40 } }]);
    for (seen, outcome) in play(answer).await {
        let reply = outcome.unwrap();
        assert_eq!(seen, r#"hmgrüße 🐍[read {"path":"a.txt"}[read {"path":"b.txt"}"#);
        assert_eq!(reply.finish, FinishReason::ToolCalls);
        assert_eq!(reply.parts.len(), 4);
        let usage = reply.usage;
        assert_eq!((usage.input_tokens, usage.output_tokens), (100, 7));
        // Ollama alone does not tell what it had in its cache.
        assert!([40, 0].contains(&usage.cache_read_tokens));
    }
}

#[tokio::test]
async fn silence_before_the_headers_is_a_stall() {
    let error = fails(json!([{ "text": "late", "stall": 5 }]), ModelErrorKind::Stalled, "").await;
    assert_eq!(error.message, "the provider sent nothing for 0.15 s");
}

#[tokio::test]
async fn silence_within_the_answer_is_a_stall() {
    fails(json!([{ "text": "part", "stall_mid": 5 }]), ModelErrorKind::Stalled, "part").await;
}

#[tokio::test]
async fn a_reset_connection_is_a_cut_stream() {
    let error = fails(json!([{ "text": "part", "drop": 1 }]), ModelErrorKind::CutStream, "part").await;
    assert!(error.message.contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn an_end_without_a_reason_is_a_cut_stream() {
    fails(json!([{ "text": "part", "end_early": 1 }]), ModelErrorKind::CutStream, "part").await;
}

#[tokio::test]
async fn an_error_within_the_stream_has_the_kind_it_names() {
    let overloaded = json!([{ "text": "part", "sse_error": { "type": "overloaded_error", "message": "Overloaded" } }]);
    let error = fails(overloaded, ModelErrorKind::Overloaded, "part").await;
    assert_eq!(error.message, "Overloaded");
}

#[tokio::test]
async fn refusals_carry_status_wait_and_words() {
    let body = json!({ "error": { "message": "slow down" } });
    let limited = json!([{ "status": 429, "headers": { "retry-after": "1.5" }, "body": body }]);
    let error = fails(limited, ModelErrorKind::RateLimited, "").await;
    assert_eq!((error.status, error.retry_after_ms), (Some(429), Some(1_500)));
    assert!(error.message.ends_with("slow down (HTTP 429)"), "{error}");

    fails(json!([{ "status": 529, "body": { "error": { "message": "Overloaded" } } }]), ModelErrorKind::Overloaded, "")
        .await;
    let body = json!({ "error": { "message": "prompt is too long: 9 > 1" } });
    fails(json!([{ "status": 400, "body": body }]), ModelErrorKind::WindowExceeded, "").await;
    let elsewhere = json!([{ "status": 302, "headers": { "location": "http://127.0.0.1:9/" } }]);
    fails(elsewhere, ModelErrorKind::InvalidRequest, "").await;
}

#[tokio::test]
async fn a_key_that_the_server_quotes_is_not_repeated() {
    let body = json!({ "error": { "message": "Incorrect key: sk-test-key" } });
    let error = fails(json!([{ "status": 401, "body": body }]), ModelErrorKind::Auth, "").await;
    assert!(error.message.contains("Incorrect key: [key]"), "{error}");
}

#[tokio::test]
async fn a_page_with_status_200_is_malformed() {
    let error = fails(json!([{ "status": 200, "body": "<html>gateway</html>" }]), ModelErrorKind::Malformed, "").await;
    assert!(error.message.contains("gateway"), "{error}");
}

#[tokio::test]
async fn a_broken_event_is_left_out_of_an_answer_that_ends_well() {
    for (seen, outcome) in play(json!([{ "text": "whole", "malformed": true }])).await {
        let reply = outcome.unwrap();
        assert_eq!((seen.as_str(), reply.warnings.len()), ("whole", 1));
        assert!(reply.warnings[0].contains(r#"{"garbage": tru"#), "{:?}", reply.warnings);
    }
}

#[tokio::test]
async fn a_broken_event_spoils_an_answer_that_does_not() {
    fails(json!([{ "text": "part", "malformed": true, "end_early": true }]), ModelErrorKind::Malformed, "part").await;
    for (_, outcome) in play(json!([{ "malformed": true }])).await {
        assert_eq!(outcome.unwrap_err().kind, ModelErrorKind::Malformed, "nothing else was said");
    }
}

/// A piece may be missing in the middle of arguments that parse all the same.
#[tokio::test]
async fn a_call_around_a_broken_event_is_not_runnable() {
    for (provider, second_piece) in [("openai-chat", 4), ("anthropic", 5)] {
        let call = json!({ "name": "write", "args": { "path": "a", "content": "one two ".repeat(9) } });
        let server = FakeProvider::start(json!([{ "tools": [{ "name": "read" }, call], "garble": second_piece }]));
        let reply = ask(&*model(provider, &server.url())).await.1.unwrap();
        let inputs: Vec<&CallInput> = calls(&reply).collect();
        assert_eq!(inputs[0], &CallInput::Json(json!({})), "{provider}: this one was whole before");
        assert!(
            matches!(inputs[1], CallInput::Invalid { error, .. } if error.contains("lost")),
            "{provider}: {inputs:?}"
        );
    }
}

#[tokio::test]
async fn a_call_that_is_told_whole_after_a_broken_event_is_runnable() {
    let args = json!({ "path": "a", "content": "one two ".repeat(9) });
    let tools = json!([{ "name": "write", "args": args }]);
    // Responses repeat an item when it is whole: the piece that is lost here is told again.
    let repeating = FakeProvider::start(json!([{ "tools": tools, "garble": 2 }]));
    let told = ask(&*model("openai-responses", &repeating.url())).await;
    let began_later = play(json!([{ "text": "first", "malformed": true, "tools": tools }])).await;
    for (_, outcome) in began_later.into_iter().chain([told]) {
        let reply = outcome.unwrap();
        assert_eq!(
            (calls(&reply).collect::<Vec<_>>(), reply.warnings.len()),
            (vec![&CallInput::Json(args.clone())], 1)
        );
    }
}

#[tokio::test]
async fn an_answer_whose_calls_were_lost_is_asked_again() {
    let beginning = 1;
    let server = FakeProvider::start(json!([{ "text": "I will", "tools": [{ "name": "read" }], "garble": beginning }]));
    let error = ask(&*model("anthropic", &server.url())).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
}

fn calls(reply: &Reply) -> impl Iterator<Item = &CallInput> {
    reply.parts.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(&call.input),
        _ => None,
    })
}

#[tokio::test]
async fn nothing_but_keep_alives_is_a_stall_too() {
    for provider in ALL {
        let server = FakeProvider::start(json!([{ "text": "part", "keep_alives": 400, "keep_alive_ms": 20 }]));
        let options = HttpOptions { stall_ms: 5_000, keep_alive_ms: 100, ..HttpOptions::default() };
        let model = provider::open(&spec(provider, &server.url()), &options).ok().unwrap();
        let (seen, outcome) = ask(&*model).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind, seen.as_str()), (ModelErrorKind::Stalled, "part"), "{provider}");
        assert_eq!(error.message, "the provider sent nothing but keep-alives for 0.1 s");
    }
}

#[tokio::test]
async fn keep_alives_after_the_reason_to_stop_are_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut stream = accepted(&listener);
        let end = json!({ "choices": [{ "delta": { "content": "whole" }, "finish_reason": "stop" }] });
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        write!(stream, "{head}data: {end}\n\n").unwrap();
        // For ever, but for the reader.
        while stream.write_all(b": keep-alive\n\n").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let options = HttpOptions { stall_ms: 300, ..HttpOptions::default() };
    let model = provider::open(&spec("openai-chat", &url), &options).ok().unwrap();
    let (seen, outcome) = ask(&*model).await;
    assert_eq!((seen.as_str(), outcome.unwrap().finish), ("whole", FinishReason::Stop));
}

#[tokio::test]
async fn a_model_that_pings_while_it_thinks_is_not_cut() {
    for (seen, outcome) in play(json!([{ "text": "thought", "keep_alives": 30, "keep_alive_ms": 10 }])).await {
        outcome.unwrap();
        assert_eq!(seen, "thought");
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_answer_without_parts() {
    for (_, outcome) in play(json!([{}])).await {
        let reply = outcome.unwrap();
        assert_eq!((reply.parts, reply.finish), (Vec::new(), FinishReason::Stop));
    }
}

#[tokio::test]
async fn a_call_with_broken_arguments_is_kept_as_invalid() {
    let script = json!([{ "tools": [{ "name": "read", "raw": "{\"path\": \"a" }, { "name": "read", "raw": "" }] }]);
    for (_, outcome) in play(script).await {
        let reply = outcome.unwrap();
        let inputs: Vec<&CallInput> = calls(&reply).collect();
        assert!(matches!(inputs[0], CallInput::Invalid { raw, .. } if raw == "{\"path\": \"a"), "{inputs:?}");
        assert_eq!(inputs[1], &CallInput::Json(json!({})));
    }
}

#[tokio::test]
async fn two_calls_with_one_id_are_two_calls() {
    let script = json!([{ "tools": [{ "name": "a", "id": "same" }, { "name": "b", "id": "same" }] }]);
    for (seen, _) in play(script).await {
        assert_eq!(seen, "[a {}[b {}");
    }
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    for provider in ALL {
        let server = FakeProvider::start(json!([{ "text": "again", "repeat": true }]));
        let model = model(provider, &server.url());
        for _ in 0..3 {
            assert_eq!(ask(&*model).await.0, "again");
        }
        let connections: Vec<usize> = server.requests().iter().map(|seen| seen.connection).collect();
        // Ollama is asked for its window while it speaks, which takes a second one.
        let last = usize::from(provider == "ollama-native");
        assert!(connections.iter().all(|connection| *connection <= last), "{provider}: {connections:?}");
    }
}

#[tokio::test]
async fn each_protocol_sends_its_key_and_its_fields() {
    let server = FakeProvider::start(json!([{ "text": "a", "repeat": true }]));
    for provider in ALL {
        ask(&*model(provider, &server.url())).await.1.unwrap();
    }
    let mut requests = server.requests();
    requests.retain(|request| request.method == "POST" && request.path != "/api/show");
    let [chat, anthropic, responses, gemini, ollama] = requests.try_into().unwrap();
    assert_eq!((chat.method.as_str(), chat.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(chat.header("authorization"), Some("Bearer sk-test-key"));
    assert_eq!(chat.body["stream_options"]["include_usage"], true);
    assert_eq!(anthropic.path, "/v1/messages");
    assert_eq!(anthropic.header("x-api-key"), Some("sk-test-key"));
    assert_eq!(anthropic.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(anthropic.body["max_tokens"], 8_192);
    assert_eq!(responses.path, "/v1/responses");
    assert_eq!(responses.header("authorization"), Some("Bearer sk-test-key"));
    assert_eq!(responses.body["store"], false);
    assert_eq!(gemini.path, "/v1beta/models/m:streamGenerateContent?alt=sse");
    assert_eq!(gemini.header("x-goog-api-key"), Some("sk-test-key"));
    assert_eq!(gemini.body["contents"], json!([{ "role": "user", "parts": [{ "text": "hello" }] }]));
    assert_eq!((ollama.path.as_str(), &ollama.body["stream"]), ("/api/chat", &json!(true)));
}

/// The same short answer as one document, for servers that do not stream whatever they are asked.
fn documents() -> [(&'static str, Value); 5] {
    let message = json!({ "role": "assistant", "content": "whole" });
    let output = json!([{ "type": "message", "content": [{ "type": "output_text", "text": "whole" }] }]);
    let content = json!({ "parts": [{ "text": "whole" }] });
    [
        ("openai-chat", json!({ "choices": [{ "message": message, "finish_reason": "stop" }] })),
        ("anthropic", json!({ "content": [{ "type": "text", "text": "whole" }], "stop_reason": "end_turn" })),
        ("openai-responses", json!({ "status": "completed", "output": output })),
        ("google", json!([{ "candidates": [{ "content": content, "finishReason": "STOP" }] }])),
        ("ollama-native", json!({ "message": message, "done": true, "done_reason": "stop" })),
    ]
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    for (provider, document) in documents() {
        let server = FakeProvider::start(json!([{ "status": 200, "body": document }]));
        let (seen, outcome) = ask(&*model(provider, &server.url())).await;
        let reply = outcome.unwrap();
        assert_eq!((seen.as_str(), reply.finish), ("whole", FinishReason::Stop), "{provider}");
    }
}

#[tokio::test]
async fn a_paused_answer_says_so_and_what_it_has_used() {
    let search = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    let half = json!({ "id": "msg_1", "content": [{ "type": "text", "text": "let me " }, search],
        "stop_reason": "pause_turn", "usage": { "input_tokens": 10, "output_tokens": 1 } });
    let server = FakeProvider::start(json!([{ "status": 200, "body": half }, { "text": "see" }]));
    let (seen, outcome) = ask(&*model("anthropic", &server.url())).await;
    let reply = outcome.unwrap();
    assert_eq!((seen.as_str(), reply.finish), ("let me ", FinishReason::Paused));
    assert_eq!((reply.parts.len(), reply.usage.input_tokens, server.requests().len()), (2, 10, 1));
}

#[tokio::test]
async fn an_answer_that_calls_itself_malformed_is_no_answer() {
    let server = FakeProvider::start(json!([{ "tools": [{ "name": "read" }], "finish": "MALFORMED_FUNCTION_CALL" }]));
    let error = ask(&*model("google", &server.url())).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.message.contains("MALFORMED_FUNCTION_CALL"), "{error}");
}

/// Answers one connection with these bytes.
fn serve_once(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        accepted(&listener).write_all(&answer).unwrap();
    });
    url
}

/// A connection whose request was read: closed before that, it would be reset.
fn accepted(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let mut bytes = [0; 4_096];
        let count = stream.read(&mut bytes).unwrap();
        request.extend_from_slice(&bytes[..count]);
    }
    stream
}

#[tokio::test]
async fn a_connection_that_closes_after_the_request_may_have_cost_something() {
    let error = ask(&*model("openai-chat", &serve_once(Vec::new()))).await.1.unwrap_err();
    assert!(error.kind.may_be_billed(), "{error:?}");
    let error = ask(&*model("openai-chat", "http://127.0.0.1:9")).await.1.unwrap_err();
    assert!(!error.kind.may_be_billed(), "{error:?}");
}

/// A compressed answer in chunks of a few bytes. `lost` bytes are missing at its end.
fn compressed(text: &str, lost: usize) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(text.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let mut answer = head.as_bytes().to_vec();
    for chunk in packed[..packed.len() - lost].chunks(5) {
        answer.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.iter().copied()).chain(*b"\r\n"));
    }
    answer.extend(b"0\r\n\r\n");
    answer
}

#[tokio::test]
async fn a_compressed_answer_in_chunks_is_read_and_one_that_is_damaged_is_a_cut_stream() {
    let said = json!({ "choices": [{ "delta": { "content": "whole" } }] });
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
    let answer = format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let (seen, outcome) = ask(&*model("openai-chat", &serve_once(compressed(&answer, 0)))).await;
    assert_eq!((seen.as_str(), outcome.unwrap().finish), ("whole", FinishReason::Stop));
    let error = ask(&*model("openai-chat", &serve_once(compressed(&answer, 20)))).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::CutStream, "{error}");
}

#[tokio::test]
async fn nobody_listening_is_named_with_the_address() {
    let error = ask(&*model("openai-chat", "http://127.0.0.1:9")).await.1.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert_eq!(error.message, "cannot connect to http://127.0.0.1:9 (connection refused)");
    assert_eq!(error.retry_after_ms, Some(500), "who has not started a server of this machine does not wait for it");
}

#[tokio::test]
async fn an_exhausted_script_says_so() {
    fails(json!([]), ModelErrorKind::Server, "").await;
}

#[tokio::test]
async fn a_server_lists_its_models() {
    let server = FakeProvider::start(json!([]));
    for provider in ALL {
        let models = provider::list_models(&spec(provider, &server.url()), &HttpOptions::default()).await.unwrap();
        assert_eq!(models[0].id, "fake-model");
    }
}

#[tokio::test]
async fn a_server_that_was_found_is_asked_for_its_window_before_anything_is_said() {
    let server = FakeProvider::start(json!([]));
    let found = ProviderSpec { model: Some("fake-model".into()), ..spec("llamacpp", &server.url()) };
    assert_eq!(provider::window(&found, &HttpOptions::default()).await, Some(8_192));
    let known = ProviderSpec { window_tokens: Some(8_192), ..found };
    let model = provider::open(&known, &HttpOptions::default()).ok().unwrap();
    assert_eq!(model.limits().window_tokens, Some(8_192));
    assert_eq!(provider::window(&spec("openai-chat", &server.url()), &HttpOptions::default()).await, None);
}

#[tokio::test]
async fn a_server_of_ones_own_is_asked_once_how_much_its_model_reads() {
    let server = FakeProvider::start(json!([{"text": "hi", "repeat": true}]));
    let model = model("llamacpp", &server.url());
    assert_eq!(model.limits().window_tokens, None);
    ask(&*model).await.1.unwrap();
    while model.limits().window_tokens.is_none() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(model.limits().window_tokens, Some(8_192));
    ask(&*model).await.1.unwrap();
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/v1/chat/completions", "/props", "/v1/chat/completions"]);
}

/// The windows that Ollama is asked for, with so many bytes to read each time.
async fn windows_asked_for(server: &FakeProvider, model: &dyn Model, lengths: &[usize]) -> Vec<u64> {
    for length in lengths {
        let long = Message::user("msg_1".into(), "x".repeat(*length));
        say(model, Request { messages: vec![Arc::new(long)], ..request() }).await.1.unwrap();
        while model.limits().window_tokens.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    let chats = server.requests().into_iter().filter(|request| request.path == "/api/chat");
    chats.map(|request| request.body["options"]["num_ctx"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn ollama_loads_what_is_needed_up_to_what_the_model_can_or_was_said() {
    let server = FakeProvider::start(json!([{"text": "hi", "repeat": true}]));
    let model = model("ollama-native", &server.url());
    assert_eq!(windows_asked_for(&server, &*model, &[9, 60_000, 120_000]).await, [16_384, 32_768, 40_960]);
    assert_eq!(model.limits().window_tokens, Some(40_960), "not what it was told to load");

    let server = FakeProvider::start(json!([{"text": "hi", "repeat": true}]));
    let said = ModelOverride { window: Some(131_072), ..ModelOverride::default() };
    let catalogue = Catalogue::default().with("ollama-native", "m", said);
    let spec = ProviderSpec { catalogue, ..spec("ollama-native", &server.url()) };
    let model = provider::open(&spec, &HttpOptions::default()).ok().unwrap();
    assert_eq!(windows_asked_for(&server, &*model, &[9, 300_000]).await, [16_384, 131_072]);
    assert_eq!(model.limits().window_tokens, Some(131_072));
    assert_eq!(server.requests().len(), 2, "nobody has to tell what was said");
}

#[tokio::test]
async fn a_list_without_an_end_is_not_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4_096];
        assert!(stream.read(&mut request).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"data\":[").unwrap();
        // For ever, but for the reader.
        while stream.write_all(&[b' '; 1 << 16]).is_ok() {}
    });
    let error = provider::list_models(&spec("openai-chat", &url), &HttpOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("sends more than"), "{error}");
}

/// Early Gemini gave its reason to stop with every piece.
#[tokio::test]
async fn an_answer_with_a_reason_to_stop_in_every_piece_is_heard_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut stream = accepted(&listener);
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
        for number in 0..8 {
            let content = json!({ "parts": [{ "text": number.to_string() }] });
            let piece = json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] });
            write!(stream, "data: {piece}\n\n").unwrap();
            std::thread::sleep(Duration::from_millis(250));
        }
    });
    // Nobody waits longer for an afterthought than for the next piece.
    let options = HttpOptions { stall_ms: 1_500, ..HttpOptions::default() };
    let model = provider::open(&spec("google", &url), &options).ok().unwrap();
    let (seen, outcome) = ask(&*model).await;
    assert_eq!((seen.as_str(), outcome.unwrap().finish), ("01234567", FinishReason::Stop));
}
