//! Statuses, words and waits. The recorded and documented error bodies are in `tests/wire.rs`.

use super::*;
use ModelErrorKind as Kind;

fn check(status: u16, body: &str, kind: Kind) {
    let error = from_response(&HttpRefusal { status, headers: &[], body }, SystemTime::UNIX_EPOCH);
    assert_eq!(error.kind, kind, "{status} {body}");
    assert_eq!(error.status, Some(status));
    assert!(!error.message.contains('\n'), "one line: {}", error.message);
}

fn check_stream(error: &str, kind: Kind) {
    let error = from_stream(&serde_json::from_str(error).unwrap());
    assert_eq!(error.kind, kind, "{}", error.message);
}

#[test]
fn a_bare_status_is_enough() {
    for (status, kind) in [
        (400, Kind::InvalidRequest),
        (401, Kind::Auth),
        (402, Kind::QuotaSpent),
        (403, Kind::Auth),
        (404, Kind::NotFound),
        (408, Kind::Server),
        (409, Kind::Server),
        (413, Kind::WindowExceeded),
        (422, Kind::InvalidRequest),
        (425, Kind::Server),
        (429, Kind::RateLimited),
        (500, Kind::Server),
        (502, Kind::Server),
        (503, Kind::Overloaded),
        (529, Kind::Overloaded),
        (302, Kind::InvalidRequest),
    ] {
        check(status, "", kind);
    }
}

#[test]
fn a_window_that_is_too_small_is_recognised_in_every_dialect() {
    for words in [
        "input exceeds the context window",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
        "This endpoint's maximum context length is 200000 tokens",
        "prompt token count of 150000 exceeds the limit of 128000",
        "the request exceeds the available context size",
        "greater than the context length",
        "context window exceeds limit",
        "exceeded model token limit",
        "context_length_exceeded",
        "too large for model with 8192 maximum context length",
        "model_context_window_exceeded",
        "Context Window Exceeds Limit (2013)",
        "prompt is too long: 3333404 tokens > 200000 maximum",
        "Please reduce the length of the messages or completion.",
        "The number of tokens in the prompt exceeds the model's maximum context length of 4096",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Request Entity Too Large",
        "the context length is only 32768 tokens",
        "tokens in request more than max tokens allowed",
        "Your input of 140000 tokens is longer than this model takes",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
        "The conversation does not fit: 9000 tokens, the context holds 8192",
    ] {
        check(400, &serde_json::json!({ "error": { "message": words } }).to_string(), Kind::WindowExceeded);
    }
    check(400, r#"{"error":{"code":400,"message":"no","type":"exceed_context_size_error"}}"#, Kind::WindowExceeded);
    check(
        400,
        r#"{"object":"error","message":"Prompt contains 40 tokens, too large for model with 32 maximum context length","code":3051}"#,
        Kind::WindowExceeded,
    );
    check(429, r#"{"error":{"message":"Limit 30000, Requested 40000. Try again in 1s"}}"#, Kind::RateLimited);
}

#[test]
fn other_limits_are_no_window() {
    for words in [
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
        "max_tokens is too large: 50000. This model supports at most 16384 completion tokens",
        "Invalid 'prompt_cache_key': string too long. Expected at most 64, got 90",
        "messages.3: image exceeds the maximum of 5 MB",
        "Invalid 'tools': array too long. Expected an array with maximum length 128",
        "messages must contain at most one system message",
    ] {
        check(400, &serde_json::json!({ "error": { "message": words } }).to_string(), Kind::InvalidRequest);
    }
    for words in [
        "Rate limit reached for gpt in organization x on tokens per min (TPM): Limit 30000, Requested 40000 input tokens",
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute",
        "Too many tokens in your prompt for this minute; rate limit exceeded, retry after 12 s",
    ] {
        check(429, &serde_json::json!({ "error": { "message": words } }).to_string(), Kind::RateLimited);
        check_stream(&serde_json::json!({ "message": words, "code": 429 }).to_string(), Kind::RateLimited);
    }
}

#[test]
fn a_wait_of_years_is_not_believed() {
    for headers in [[("retry-after", "99999999999999999999")], [("retry-after-ms", "1e300")]] {
        let error = from_response(&HttpRefusal { status: 429, headers: &headers, body: "" }, SystemTime::UNIX_EPOCH);
        assert_eq!((error.retry_after_ms, error.message.as_str()), (None, "too many requests (HTTP 429)"));
    }
    let body = r#"{"error":{"message":"try again in 99999999999999999999h 99999999999999999999h"}}"#;
    assert_eq!(
        from_response(&HttpRefusal { status: 429, headers: &[], body }, SystemTime::UNIX_EPOCH).retry_after_ms,
        None
    );
}

#[test]
fn no_money_is_not_a_rate_limit() {
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
        Kind::QuotaSpent,
    );
    check(400, r#"{"error":{"message":"Your credit balance is too low to access the API"}}"#, Kind::QuotaSpent);
}

#[test]
fn the_filter_is_named_by_code() {
    check(400, r#"{"error":{"message":"filtered","code":"content_filter"}}"#, Kind::ContentFilter);
    check(400, r#"{"error":{"message":"no","code":"content_policy_violation"}}"#, Kind::ContentFilter);
}

#[test]
fn messages_are_the_providers_words_in_one_line() {
    let said =
        |status, body| from_response(&HttpRefusal { status, headers: &[], body }, SystemTime::UNIX_EPOCH).message;
    assert_eq!(said(404, r#"{"error":"model 'x'\n not found"}"#), "model 'x' not found (HTTP 404)");
    assert_eq!(said(502, "<html>bad gateway</html>"), "the server failed (HTTP 502)");
    assert_eq!(said(500, "upstream died"), "upstream died (HTTP 500)");
    assert_eq!(said(401, r#"{"detail":"Invalid API Key"}"#), "Invalid API Key (HTTP 401)");
}

#[test]
fn errors_inside_a_stream_go_by_name_then_code_then_words() {
    check_stream(r#"{"type":"overloaded_error","message":"Overloaded"}"#, Kind::Overloaded);
    check_stream(r#"{"type":"api_error","message":"Internal server error"}"#, Kind::Server);
    check_stream(r#"{"type":"rate_limit_error","message":"slow down"}"#, Kind::RateLimited);
    check_stream(r#"{"type":"server_error","code":"server_error","message":"sorry"}"#, Kind::Server);
    check_stream(r#"{"type":"invalid_request_error","message":"bad"}"#, Kind::InvalidRequest);
    check_stream(r#"{"type":"invalid_request_error","message":"prompt is too long: 9 > 1"}"#, Kind::WindowExceeded);
    check_stream(r#"{"code":429,"message":"Provider returned error"}"#, Kind::RateLimited);
    check_stream(r#"{"code":502,"message":"Provider returned error"}"#, Kind::Server);
    check_stream(r#"{"message":"Overloaded"}"#, Kind::Overloaded);
    check_stream(r#""plain words""#, Kind::Server);
}

#[test]
fn a_wait_is_read_from_headers_or_words() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
    let past = httpdate::fmt_http_date(now - Duration::from_secs(90));
    for (headers, body, expected) in [
        (vec![("Retry-After-Ms", "850"), ("retry-after", "9")], "", Some(850)),
        (vec![("retry-after-ms", "abc"), ("retry-after", "3")], "", Some(3_000)),
        (vec![("retry-after", "1.5")], "", Some(1_500)),
        (vec![("retry-after", "0")], "", Some(0)),
        (vec![("retry-after", "-1")], "", Some(0)),
        (vec![("retry-after", "")], "", None),
        (vec![("retry-after", "soon")], "", None),
        (vec![("retry-after", "NaN")], "", None),
        (vec![("retry-after", date.as_str())], "", Some(90_000)),
        (vec![("retry-after", past.as_str())], "", Some(0)),
        (vec![], r#"{"error":{"message":"Please try again in 1.4s."}}"#, Some(1_400)),
        (vec![], r#"{"error":{"message":"Please try again in 1m26.4s. Visit"}}"#, Some(86_400)),
        (vec![], r#"{"error":{"message":"try again in 850ms"}}"#, Some(850)),
        (vec![], r#"{"error":{"message":"try again in a while"}}"#, None),
        (vec![], r#"{"error":{"details":[{"@type":"x"},{"retryDelay":"34.07s"}]}}"#, Some(34_070)),
    ] {
        let error = from_response(&HttpRefusal { status: 429, headers: &headers, body }, now);
        assert_eq!(error.retry_after_ms, expected, "{headers:?} {body}");
    }
}

#[test]
fn where_no_wait_is_named_the_headers_about_limits_tell_it() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (headers, status, expected) in [
        (vec![("x-ratelimit-reset-requests", "3s"), ("x-ratelimit-reset-tokens", "6m0s")], 429, Some(3_000)),
        (
            vec![
                ("x-ratelimit-reset-requests", "3s"),
                ("x-ratelimit-remaining-requests", "9"),
                ("X-RateLimit-Reset-Tokens", "6m0s"),
                ("X-RateLimit-Remaining-Tokens", "0"),
            ],
            429,
            Some(360_000),
        ),
        (vec![("retry-after", "2"), ("x-ratelimit-reset-requests", "3s")], 429, Some(2_000)),
        (vec![("anthropic-ratelimit-tokens-reset", "2023-11-14T22:13:25Z")], 429, Some(5_000)),
        (vec![("anthropic-ratelimit-tokens-reset", "2023-11-14T22:13:25+00:00")], 429, Some(5_000)),
        (vec![("x-ratelimit-reset", "1700000007")], 429, Some(7_000)),
        (vec![("X-RateLimit-Reset", "1700000008000")], 429, Some(8_000)),
        (vec![("x-ratelimit-reset-requests", "12")], 429, Some(12_000)),
        (vec![("x-ratelimit-reset-requests", "soon")], 429, None),
        // These come with every answer, and are the reason of none but this.
        (vec![("x-ratelimit-reset-requests", "3s")], 500, None),
    ] {
        let error = from_response(&HttpRefusal { status, headers: &headers, body: "" }, now);
        assert_eq!(error.retry_after_ms, expected, "{headers:?}");
    }
}

#[test]
fn the_provider_may_say_whether_to_ask_again() {
    let retryable = |status, word| {
        let headers = [("x-should-retry", word)];
        from_response(&HttpRefusal { status, headers: &headers, body: "" }, SystemTime::UNIX_EPOCH).is_retryable()
    };
    assert!(!retryable(500, "false") && !retryable(429, "false"));
    assert!(retryable(400, "true") && retryable(500, "maybe"));
}

#[test]
fn limits_of_other_things_than_tokens_are_no_window_and_those_of_a_day_do_not_pass() {
    let long = r#"{"error":{"message":"'tools[3].function.description' exceeds the limit of 1024 characters"}}"#;
    check(400, long, Kind::InvalidRequest);
    let tokens = r#"{"error":{"message":"Your prompt of 9000 tokens exceeds the limit of 8192"}}"#;
    check(400, tokens, Kind::WindowExceeded);
    let google = |id: &str| {
        let quota = serde_json::json!({ "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{ "quotaId": id }] });
        serde_json::json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED",
            "message": "You exceeded your current quota, please check your plan and billing details.", "details": [quota] } })
    };
    check(429, &google("GenerateRequestsPerDayPerProjectPerModel-FreeTier").to_string(), Kind::QuotaSpent);
    check(429, &google("GenerateRequestsPerMinutePerProjectPerModel").to_string(), Kind::RateLimited);
}
