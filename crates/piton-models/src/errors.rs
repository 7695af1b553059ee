//! From a provider's refusal to one of the core's error kinds. Pure: status, headers and body in, a [`ModelError`] out.
//!
//! Providers agree on little but the status, so the order of questions matters: words about the window first (they
//! come with 400, 413 and 500), then words about money, then the status, and inside a stream, where there is no
//! status, the provider's name for the error. Whatever is asked of the message is asked of its lower-case form.

use piton_core::model::{ModelError, ModelErrorKind};
use piton_http::HttpError;
use serde_json::Value;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Until a server of this machine that does not listen is asked again, in milliseconds: one that is started again is there
/// soon, and who has not started it wants to know.
const RESTART_MS: u64 = 500;

/// A response that is not an answer.
#[derive(Debug, Clone, Copy)]
pub struct HttpRefusal<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in any case.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body as it came.
    pub body: &'a str,
}

/// Why there is no answer to look at.
pub fn from_http(error: HttpError) -> ModelError {
    let kind = match error {
        HttpError::Unusable(_) => ModelErrorKind::InvalidRequest,
        HttpError::Unreachable(_) | HttpError::NotListening(_) => ModelErrorKind::Network,
        // The request may have arrived, and been worked on.
        HttpError::CutOff(_) => ModelErrorKind::CutStream,
        HttpError::Stalled(_) => ModelErrorKind::Stalled,
    };
    let retry_after_ms = matches!(error, HttpError::NotListening(_)).then_some(RESTART_MS);
    let words = match error {
        HttpError::Unusable(words)
        | HttpError::Unreachable(words)
        | HttpError::NotListening(words)
        | HttpError::CutOff(words) => words,
        HttpError::Stalled(limit) => format!("the provider sent nothing for {} s", limit.as_secs_f64()),
    };
    ModelError { retry_after_ms, ..ModelError::new(kind, words) }
}

/// Why the provider answered like this. `now` is what an HTTP date in `retry-after` is measured from.
pub fn from_response(refusal: &HttpRefusal<'_>, now: SystemTime) -> ModelError {
    let HttpRefusal { status, headers, body } = *refusal;
    let value: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let facts = Facts::read(&value, body);
    let kind = match kind_of_response(status, &facts) {
        // Google calls every limit a quota. That of a day passes no sooner than the day.
        _ if status == 429 && is_daily_quota(&value) => ModelErrorKind::QuotaSpent,
        ModelErrorKind::QuotaSpent if status == 429 && facts.is_named(&["resource_exhausted"]) => {
            ModelErrorKind::RateLimited
        }
        kind => kind,
    };
    let headers = Headers { list: headers, now };
    let told =
        headers.retry_after_ms().or_else(|| facts.retry_after_ms(&value)).filter(|told| *told <= LONGEST_WAIT_MS);
    let words = if facts.message.is_empty() { meaning(status) } else { &facts.message };
    // Longer than anybody waits for an answer: a person has to come back.
    let long = told.filter(|told| *told > 60_000).map(|told| format!("; it takes requests again in {}", span(told)));
    ModelError {
        kind,
        message: format!("{words} (HTTP {status}){}", long.unwrap_or_default()),
        status: Some(status),
        // The headers about limits come with every answer; here they are the reason.
        retry_after_ms: told.or_else(|| headers.reset_ms().filter(|wait| status == 429 && *wait <= LONGEST_WAIT_MS)),
        should_retry: headers.get("x-should-retry").and_then(|word| word.parse().ok()),
        usage: None,
    }
}

/// Nobody means a longer wait: it is a mistake, most often one of units. A century; whether a shorter one is waited for,
/// the rules of the turn say.
const LONGEST_WAIT_MS: u64 = 100 * 365 * 24 * 3_600 * 1_000;

/// A long time, for people.
fn span(ms: u64) -> String {
    let minutes = ms.div_ceil(60_000);
    if minutes < 120 { format!("{minutes} min") } else { format!("{} h", minutes.div_ceil(60)) }
}

/// Whether a refusal says that the model takes no tools: Ollama's words, vLLM's, OpenRouter's and Groq's.
pub fn takes_no_tools(body: &str) -> bool {
    let body = body.to_lowercase();
    [
        "does not support tools",
        "no endpoints found that support tool use",
        "tool calling` is not supported",
        "requires --enable-auto-tool-choice",
        "does not support function calling",
    ]
    .iter()
    .any(|words| body.contains(words))
}

/// Fails with the error that a piece of a stream carries, if it carries one.
pub fn check_stream(piece: &Value) -> Result<(), ModelError> {
    match piece.get("error") {
        None | Some(Value::Null) => Ok(()),
        Some(error) => Err(from_stream(error)),
    }
}

/// Why the provider broke off a stream that had begun: the `error` object of either protocol.
pub fn from_stream(error: &Value) -> ModelError {
    let text = error.as_str().unwrap_or_default();
    let facts = Facts::read(error, text);
    let message = if facts.message.is_empty() { "the provider broke off without a reason" } else { &facts.message };
    ModelError {
        // The request itself was accepted, or there would be no stream: asking again may help.
        kind: kind_by_words(&facts).unwrap_or(ModelErrorKind::Server),
        retry_after_ms: facts.retry_after_ms(error).filter(|told| *told <= LONGEST_WAIT_MS),
        ..ModelError::new(ModelErrorKind::Server, message)
    }
}

/// A JSON document that came with status 200 and is no answer: most often an error that its server forgot to give a
/// status. `what` names what was expected.
pub fn not_an_answer(document: &Value, what: &str) -> ModelError {
    /// Enough to recognise it.
    const SHOWN_CHARS: usize = 200;
    if let Some(error) = document.get("error").filter(|error| !error.is_null()) {
        return from_stream(error);
    }
    if let Some(kind) = recognise(document) {
        return ModelError::new(kind, Facts::read(document, "").message);
    }
    let shown: String = document.to_string().chars().take(SHOWN_CHARS).collect();
    ModelError::new(ModelErrorKind::Malformed, format!("the answer is JSON, but not {what}: {shown}"))
}

/// The kind of an error of which nothing is known but what it says; `None` where its words are of no known kind.
pub fn recognise(error: &Value) -> Option<ModelErrorKind> {
    kind_by_words(&Facts::read(error, error.as_str().unwrap_or_default()))
}

/// What an error body says about itself, wherever it says it.
struct Facts {
    message: String,
    /// Types and codes that are words, lower case, separated by spaces.
    names: String,
    /// Message, names and nested raw text, lower case.
    all: String,
    /// A code that is a number.
    code: Option<u64>,
}

impl Facts {
    fn read(value: &Value, body: &str) -> Self {
        /// One line on a terminal, two at most.
        const SHOWN_CHARS: usize = 300;
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let inner = value.get("error").filter(|inner| !inner.is_null()).unwrap_or(value);
        let spoken = [inner.get("message"), inner.get("detail"), value.get("message"), value.get("detail")];
        let said = spoken.into_iter().flatten().chain([inner]).find_map(Value::as_str);
        // A page is no message; a plain sentence is.
        let fallback = if value.is_null() && !body.trim_start().starts_with('<') { body } else { "" };
        let raw = inner.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
        let mut names = String::new();
        for key in ["type", "code", "status", "reason"] {
            if let Some(name) = inner.get(key).and_then(Value::as_str) {
                names = format!("{names} {}", name.to_lowercase());
            }
        }
        let code = ["status_code", "code"].iter().find_map(|key| {
            let code = inner.get(key)?;
            code.as_u64().or_else(|| code.as_str()?.parse().ok())
        });
        let message = said.unwrap_or(fallback).split_whitespace().collect::<Vec<_>>().join(" ");
        let all = format!("{names} {} {}", message.to_lowercase(), raw.to_lowercase());
        Self { message: message.chars().take(SHOWN_CHARS).collect(), names, all, code }
    }

    fn is_named(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.names.contains(name))
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.all.contains(word))
    }

    /// A wait named in the body: Google's RetryInfo, or a sentence.
    fn retry_after_ms(&self, value: &Value) -> Option<u64> {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let details = value.pointer("/error/details").or_else(|| value.get("details")).and_then(Value::as_array);
        let told = details.into_iter().flatten().find_map(|detail| detail.get("retryDelay")?.as_str());
        told.and_then(spoken_duration_ms).or_else(|| {
            let sentences = ["try again in ", "retry in ", "retry after "];
            let rest = sentences.iter().find_map(|words| Some(self.all.split_once(words)?.1))?;
            spoken_duration_ms(rest)
        })
    }
}

/// Names and fixed words by which providers say that a prompt does not fit.
const WINDOW_NAMES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "context_window_exceeded",
    "model_max_prompt_tokens_exceeded",
    "request_too_large",
    "`max_new_tokens` must be",
    // What is left of such an answer where a gateway passes on its status only.
    "400 status code (no body)",
    "400 (no body)",
    "413 status code (no body)",
    "413 (no body)",
];

/// What such a sentence is about; each word or row of words whole.
const PROMPT_WORDS: &[&str] = &[
    "prompt",
    "context",
    "input",
    "conversation",
    "messages",
    "request entity",
    "tokens in request",
    "tokens in the request",
    "number of tokens",
    "token count",
    "token limit",
    "too many tokens",
];
/// That it is beyond something.
const BEYOND_WORDS: &[&str] = &[
    "too long",
    "too large",
    "too many",
    "exceed",
    "exceeds",
    "exceeded",
    "exceeding",
    "maximum",
    "max",
    "at most",
    "more than",
    "greater than",
    "larger than",
    "longer than",
    "is only",
    "reduce",
    "does not fit",
];
/// That its length is meant.
const LENGTH_WORDS: &[&str] =
    &["token", "tokens", "context", "length", "too long", "too large", "too many", "long", "size"];
/// What it is not about: other things have limits, too, and some pass by waiting.
const OTHER_LIMITS: &[&str] = &[
    "character",
    "characters",
    "byte",
    "bytes",
    "image",
    "images",
    "file",
    "files",
    "item",
    "items",
    "per minute",
    "per hour",
    "per day",
    "per second",
    "tpm",
    "rpm",
    "rate limit",
    "rate_limit",
    "rate_limit_exceeded",
    "too many requests",
    "quota",
    "try again in",
    "retry in",
    "retry after",
    "output tokens",
    "completion tokens",
];

/// How providers say that the money is gone.
const SPENT_WORDS: &[&str] = &[
    "insufficient_quota",
    "insufficient quota",
    "insufficient_balance",
    "insufficient balance",
    "insufficient credits",
    "credit balance is too low",
    "exceeded your current quota",
    "quota exceeded for your plan",
    "payment required",
];

const FILTER_NAMES: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "moderation",
    "data_inspection_failed",
    "content_moderation",
];

fn kind_of_response(status: u16, facts: &Facts) -> ModelErrorKind {
    use ModelErrorKind as Kind;
    let is_window = says_too_long(facts);
    match status {
        413 => Kind::WindowExceeded,
        400 | 422 | 500 if is_window => Kind::WindowExceeded,
        400 | 403 | 422 if facts.is_named(FILTER_NAMES) || facts.says(&["flagged for moderation"]) => {
            Kind::ContentFilter
        }
        400 | 402 | 403 if facts.says(SPENT_WORDS) || facts.says(&["billing"]) => Kind::QuotaSpent,
        // Some 429s that will pass advertise a payment method as well.
        429 if facts.says(SPENT_WORDS) && !facts.says(&["try again in", "per minute"]) => Kind::QuotaSpent,
        402 => Kind::QuotaSpent,
        401 | 403 => Kind::Auth,
        404 => Kind::NotFound,
        429 => Kind::RateLimited,
        503 | 529 => Kind::Overloaded,
        // What the server will never do.
        501 | 505 => Kind::InvalidRequest,
        408 | 409 | 425 | 500..=599 => Kind::Server,
        400..=499 => Kind::InvalidRequest,
        // The server is elsewhere, and will be.
        300..=399 => Kind::InvalidRequest,
        _ => Kind::Malformed,
    }
}

fn kind_by_words(facts: &Facts) -> Option<ModelErrorKind> {
    use ModelErrorKind as Kind;
    let words: [(&[&str], Kind); 9] = [
        (&["overloaded", "unavailable", "resource_exhausted", "engine_overloaded"], Kind::Overloaded),
        (&["insufficient_quota", "billing_error", "insufficient_balance"], Kind::QuotaSpent),
        (&["rate_limit", "too_many_requests"], Kind::RateLimited),
        (&["authentication_error", "permission_error", "invalid_api_key"], Kind::Auth),
        (&["not_found_error", "model_not_found"], Kind::NotFound),
        (FILTER_NAMES, Kind::ContentFilter),
        (&["request_too_large"], Kind::WindowExceeded),
        (&["invalid_request", "invalid_argument"], Kind::InvalidRequest),
        (&["api_error", "server_error", "internal_error", "timeout"], Kind::Server),
    ];
    if says_too_long(facts) {
        return Some(Kind::WindowExceeded);
    }
    if let Some((_, kind)) = words.iter().find(|(names, _)| facts.is_named(names)) {
        return Some(*kind);
    }
    match facts.code {
        Some(401 | 403) => Some(Kind::Auth),
        Some(402) => Some(Kind::QuotaSpent),
        Some(404) => Some(Kind::NotFound),
        Some(429) => Some(Kind::RateLimited),
        Some(503 | 529) => Some(Kind::Overloaded),
        Some(500..=599) => Some(Kind::Server),
        Some(_) | None if facts.says(&["overloaded"]) => Some(Kind::Overloaded),
        Some(_) | None => {
            let hurry = ["rate limit", "too many requests", "rate increased too quickly"];
            facts.says(&hurry).then_some(Kind::RateLimited)
        }
    }
}

/// Whether the prompt is too long: by a name, or by a sentence that says of a prompt that its length is beyond something.
/// Each provider words it in its own way, and anew every year.
fn says_too_long(facts: &Facts) -> bool {
    if facts.says(WINDOW_NAMES) {
        return true;
    }
    let words: Vec<&str> =
        facts.all.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let sentence = format!(" {} ", words.join(" "));
    let says = |of: &[&str]| of.iter().any(|words| sentence.contains(&format!(" {words} ")));
    // Some say no more than this, and a number.
    let bare = sentence.split_once(" exceeds the limit of ").map(|(_, rest)| rest.trim_end());
    let is_bare = bare.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b' '));
    (is_bare || says(PROMPT_WORDS) && says(BEYOND_WORDS) && says(LENGTH_WORDS)) && !says(OTHER_LIMITS)
}

/// Whether Google names a limit that holds for a day.
fn is_daily_quota(value: &Value) -> bool {
    let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
    let details = value.pointer("/error/details").and_then(Value::as_array).into_iter().flatten();
    let violations = details.filter_map(|detail| detail.get("violations")?.as_array()).flatten();
    violations.filter_map(|violation| violation.get("quotaId")?.as_str()).any(|id| id.contains("PerDay"))
}

fn meaning(status: u16) -> &'static str {
    match status {
        300..=399 => "the server redirects elsewhere, which is not followed",
        401 => "the key was not accepted",
        403 => "the key may not do this",
        404 => "there is no such model or address",
        408 | 504 => "the server timed out",
        413 => "the request is too large",
        429 => "too many requests",
        503 | 529 => "the server is overloaded",
        500..=599 => "the server failed",
        _ => "the request was not accepted",
    }
}

/// The headers of a refusal, and when it came.
struct Headers<'a> {
    list: &'a [(&'a str, &'a str)],
    now: SystemTime,
}

impl Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        let found = self.list.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The wait that is asked for. `retry-after-ms` is finer than `retry-after` and wins.
    fn retry_after_ms(&self) -> Option<u64> {
        let exact = self.get("retry-after-ms").and_then(|value| millis(value.parse().ok()?, 1.0));
        exact.or_else(|| {
            let value = self.get("retry-after")?;
            match value.parse::<f64>() {
                Ok(seconds) => millis(seconds, 1_000.0),
                Err(_) => Some(self.until_ms(httpdate::parse_http_date(value).ok()?)),
            }
        })
    }

    /// When the limit that was met is over, as the headers about limits tell: `x-ratelimit-reset-requests: 6m0s` and
    /// `anthropic-ratelimit-tokens-reset: 2026-01-31T12:00:00Z`, each beside one that tells what remains. It is the last
    /// of the limits of which nothing remains; where none says so, the first of all.
    fn reset_ms(&self) -> Option<u64> {
        let resets = self.list.iter().filter_map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let wait = self.reset(value).filter(|_| name.contains("ratelimit") && name.contains("reset"))?;
            let is_used_up = self.get(&name.replace("reset", "remaining")).is_some_and(|remains| remains == "0");
            Some((wait, is_used_up))
        });
        let resets: Vec<(u64, bool)> = resets.collect();
        let used_up = resets.iter().filter(|(_, is_used_up)| *is_used_up).map(|(wait, _)| *wait).max();
        used_up.or_else(|| resets.iter().map(|(wait, _)| *wait).min())
    }

    /// A wait, or a time: in words, as a date, or as a number of seconds that is small or counts from 1970 (in
    /// milliseconds, if it is large even so).
    fn reset(&self, value: &str) -> Option<u64> {
        let since_1970 = |ms: f64| Some(self.until_ms(UNIX_EPOCH + Duration::from_millis(ms as u64)));
        match value.trim().parse::<f64>() {
            Ok(ms) if ms >= 1e11 => since_1970(ms),
            Ok(seconds) if seconds >= 1e9 => since_1970(seconds * 1_000.0),
            Ok(seconds) => millis(seconds, 1_000.0),
            Err(_) => {
                let date = value.trim().parse::<jiff::Timestamp>().ok().map(SystemTime::from);
                date.map(|date| self.until_ms(date)).or_else(|| spoken_duration_ms(value))
            }
        }
    }

    fn until_ms(&self, date: SystemTime) -> u64 {
        let wait = date.duration_since(self.now).unwrap_or_default();
        u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
    }
}

/// `1.4s`, `850ms`, `1m26.4s`, `12 seconds`: a duration at the start of some text.
fn spoken_duration_ms(text: &str) -> Option<u64> {
    let mut total = None;
    let mut rest = text.trim_start();
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(number) = rest[..digits].trim_end_matches('.').parse::<f64>() else { return total };
        let unit_text = rest[digits..].trim_start();
        let letters = unit_text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit_text.len());
        let factor = match &unit_text[..letters] {
            "ms" | "milliseconds" => 1.0,
            "s" | "sec" | "second" | "seconds" => 1_000.0,
            "m" | "min" | "minute" | "minutes" => 60_000.0,
            "h" | "hour" | "hours" => 3_600_000.0,
            _ => return total,
        };
        total = Some(total.unwrap_or(0_u64).saturating_add(millis(number, factor)?));
        rest = unit_text[letters..].trim_start();
    }
}

/// A point in the past, like a date in the past, is a wait of nothing.
fn millis(number: f64, factor: f64) -> Option<u64> {
    let wait = number * factor;
    wait.is_finite().then(|| wait.max(0.0).round() as u64)
}

#[cfg(test)]
mod tests;
