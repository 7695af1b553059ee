//! Every way in which the library says that something failed, and the words for it.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use rmcp::model::{ErrorCode, ProtocolVersion, RequestId};
use rmcp::service::RoleClient;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use std::collections::BTreeMap;
use std::time::Duration;

fn entry(url: &str) -> Entry {
    Entry {
        name: "docs".to_owned(),
        transport: Transport::Http { url: url.to_owned(), headers: BTreeMap::new(), login: Default::default() },
        start_timeout: Duration::from_secs(1),
        call_timeout: Duration::from_secs(1),
        always_load: false,
        tools: None,
        without: Vec::new(),
        net: None,
        filled: BTreeMap::new(),
        hash: String::new(),
        file: "/home/me/.mcp.json".into(),
    }
}

fn sent(error: OverHttp) -> DynamicTransportError {
    DynamicTransportError::new::<StreamableHttpClientTransport<Client>, RoleClient>(error)
}

/// What is said of an error of HTTP, which is the same at the start and in a request.
fn said(error: impl Fn() -> OverHttp) -> String {
    let (entry, http) = (entry("https://me:pw@docs.example/mcp?key=s3cret"), HttpOptions::default());
    let words = Words { entry: &entry, http: &http };
    let start = ClientInitializeError::TransportError { error: sent(error()), context: "send initialize".into() };
    let asked = words.asking(&ServiceError::TransportSend(sent(error())));
    assert_eq!(words.starting(&start), asked);
    let fallback = ClientInitializeError::LegacyFallbackFailed {
        discover: Box::new(ClientInitializeError::Cancelled),
        fallback: Box::new(start),
    };
    assert_eq!(words.starting(&fallback), asked);
    asked
}

/// Words, and none of Rust's: no type, no variant, no key.
#[track_caller]
fn is_plain(said: &str) {
    for raw in ["::", "Transport [", "Some(", "None", "Error(", "rmcp", "{ ", "s3cret", "pw@", "serde", "ServerJson"] {
        assert!(!said.contains(raw), "{raw:?} in {said}");
    }
    assert!(!said.is_empty() && !said.ends_with('.'), "{said}");
}

#[test]
fn every_error_of_http_is_words() {
    let unexpected = |said: &'static str| move || StreamableHttpError::UnexpectedServerResponse(said.into());
    let status = |status: u16| move || StreamableHttpError::HttpStatus(HttpStatusError::new(status, None));
    let challenge = || "Bearer scope=\"x\"".to_owned();
    type Make = Box<dyn Fn() -> OverHttp>;
    let cases: Vec<(Make, &str)> = vec![
        (Box::new(unexpected("HTTP 404 Not Found: <html>")), "is not where an MCP server listens (HTTP 404 Not Found)"),
        (Box::new(unexpected("HTTP 405 Method Not Allowed: ")), "\"type\": \"sse\""),
        (Box::new(unexpected("HTTP 307 Temporary Redirect: ")), "redirects (HTTP 307), which is not followed"),
        (Box::new(unexpected("HTTP 401 Unauthorized: no")), "`piton mcp login docs`"),
        (Box::new(unexpected("HTTP 403 Forbidden: go away")), "(it says: go away); check the key"),
        (Box::new(unexpected("HTTP 418 I'm a teapot: tea")), "HTTP 418 I'm a teapot (it says: tea)"),
        (Box::new(status(429)), "takes no more requests for now"),
        (Box::new(status(500)), "a fault of its own (HTTP 500 Internal Server Error); try again later"),
        (
            Box::new(unexpected(
                "could not parse JSON response as ServerJsonRpcMessage: expected value at line 1 column 1: hello there",
            )),
            "something that is not a message of MCP: hello there",
        ),
        (
            Box::new(unexpected(
                "could not parse JSON response as ServerJsonRpcMessage: EOF while parsing a value at line 1 column 0: <empty>",
            )),
            "not a message of MCP: nothing",
        ),
        (Box::new(unexpected("expect json, got Sse(Some(\"x\"))")), "something that is not MCP"),
        (
            Box::new(|| StreamableHttpError::UnexpectedContentType(Some("text/html".to_owned()))),
            "answers with text/html and not with MCP; correct `url` in /home/me/.mcp.json",
        ),
        (Box::new(|| StreamableHttpError::UnexpectedContentType(None)), "does not say what it is"),
        (Box::new(|| StreamableHttpError::UnexpectedEndOfStream), "closed the connection"),
        (Box::new(|| StreamableHttpError::TransportChannelClosed), "closed the connection"),
        (Box::new(|| StreamableHttpError::ResponseBodyTooLarge { max_size: 16 << 20 }), "more than 16.8 MB"),
        (Box::new(|| StreamableHttpError::ServerDoesNotSupportSse), "HTTP 405"),
        (Box::new(|| StreamableHttpError::ServerDoesNotSupportDeleteSession), "does not end sessions"),
        (Box::new(|| StreamableHttpError::MissingSessionIdInResponse), "which session"),
        (Box::new(|| StreamableHttpError::ReservedHeaderConflict("accept".to_owned())), "take it out"),
        (Box::new(|| StreamableHttpError::SessionExpired), "no longer knows the session (HTTP 404)"),
        (Box::new(|| StreamableHttpError::SessionRecoveryTimeout), "no longer knows the session"),
        (Box::new(|| StreamableHttpError::ControlRequestTimeout), "did not take an answer in time"),
        (
            Box::new(|| {
                StreamableHttpError::ReinitializationFailed(ErrorData::new(ErrorCode(-32_000), "full\u{1b}[31m", None))
            }),
            "opens no new session: full\\u{1b}[31m (-32000)",
        ),
        (
            Box::new(move || StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge()))),
            "`piton mcp login docs`",
        ),
        (
            Box::new(move || {
                let error = InsufficientScopeError::new(challenge(), Some("x".to_owned()));
                StreamableHttpError::InsufficientScope(error)
            }),
            "wants more rights than its token gives",
        ),
        (Box::new(|| StreamableHttpError::Auth(AuthError::TokenExpired)), "the login has ended"),
        (
            Box::new(|| StreamableHttpError::Deserialize(serde_json::from_str::<u8>("x").unwrap_err())),
            "not a message of MCP",
        ),
        (Box::new(|| StreamableHttpError::Io(std::io::ErrorKind::BrokenPipe.into())), "broken pipe"),
    ];
    for (error, wanted) in cases {
        let said = said(error);
        assert!(said.contains(wanted), "{wanted:?} is not in {said:?}");
        is_plain(&said);
    }
}

#[test]
fn every_error_of_a_handshake_is_words() {
    let (entry, http) = (entry("https://docs.example/mcp"), HttpOptions::default());
    let words = Words { entry: &entry, http: &http };
    let cases = [
        (ClientInitializeError::ConnectionClosed("initialize response".to_owned()), "closed the connection before"),
        (ClientInitializeError::ExpectedInitResponse(None), "check that https://docs.example/mcp is an MCP server"),
        (ClientInitializeError::ExpectedInitResult(None), "not one of MCP"),
        (ClientInitializeError::ConflictInitResponseId(RequestId::Number(1), RequestId::Number(2)), "not one of MCP"),
        (
            ClientInitializeError::UncorrelatedErrorResponse {
                expected: RequestId::Number(1),
                received: RequestId::Number(2),
            },
            "not one of MCP",
        ),
        (
            ClientInitializeError::JsonRpcError(ErrorData::new(ErrorCode(-32_602), "no licence", None)),
            "refuses to work with Piton: no licence (-32602)",
        ),
        (
            ClientInitializeError::NoCompatibleProtocolVersion {
                client_supported: vec![ProtocolVersion::V_2026_07_28],
                server_supported: vec![ProtocolVersion::V_2024_11_05],
            },
            "it speaks the versions 2024-11-05 of MCP, and Piton speaks 2026-07-28",
        ),
        (ClientInitializeError::Cancelled, "its start was stopped"),
    ];
    for (error, wanted) in cases {
        let said = words.starting(&error);
        assert!(said.contains(wanted), "{wanted:?} is not in {said:?}");
        is_plain(&said);
    }
}

#[test]
fn every_error_of_a_request_is_words() {
    let (entry, http) = (entry("https://docs.example/mcp"), HttpOptions::default());
    let words = Words { entry: &entry, http: &http };
    let cases = [
        (ServiceError::McpError(ErrorData::new(ErrorCode(-1), "no\nway", None)), "no\\nway (-1)"),
        (ServiceError::TransportClosed, "closed the connection"),
        (ServiceError::UnexpectedResponse, "something else than it was asked for"),
        (ServiceError::Timeout { timeout: Duration::from_secs(7) }, "did not answer within 7 s"),
        (ServiceError::InputRequiredRoundsExceeded { max_rounds: 10 }, "10 times in a row"),
        (ServiceError::Cancelled { reason: None }, "was stopped"),
        (ServiceError::SubscriptionLagged { capacity: 8 }, "lagged"),
    ];
    for (error, wanted) in cases {
        let said = words.asking(&error);
        assert!(said.contains(wanted), "{wanted:?} is not in {said:?}");
        is_plain(&said);
    }
}

#[test]
fn every_error_of_a_login_is_words() {
    let (entry, http) = (entry("https://docs.example/mcp"), HttpOptions::default());
    let words = Words { entry: &entry, http: &http };
    let why = || "no".to_owned();
    let url = || url::Url::parse("https://issuer.example/.well-known/x").unwrap();
    let cases = [
        (AuthError::AuthorizationRequired, "nobody is logged in"),
        (AuthError::TokenExpired, "the login has ended"),
        (AuthError::AuthorizationFailed(why()), "the login failed: no"),
        (AuthError::TokenExchangeFailed(why()), "brought no token: no"),
        (AuthError::TokenRefreshFailed(why()), "could not be renewed (no); try again"),
        (AuthError::TokenRefreshRejected(why()), "`piton mcp login docs`"),
        (AuthError::CredentialStoreError(why()), "cannot be read or kept: no"),
        (AuthError::OAuthError(why()), "cannot be used: no"),
        (AuthError::MetadataError(why()), "cannot be used: no"),
        (
            AuthError::DiscoveryRequestFailed { url: url(), source: "gone".into() },
            "cannot be asked how to log in: gone",
        ),
        (
            AuthError::AuthorizationServersUnavailable {
                resource_metadata_url: url(),
                authorization_servers: vec!["https://a.example".to_owned()],
            },
            "sends the login to https://a.example, and nothing there says how",
        ),
        (AuthError::PkceUnsupported, "does not support PKCE"),
        (AuthError::UrlError(url::ParseError::EmptyHost), "an address that the server names"),
        (AuthError::NoAuthorizationSupport, "put it into `headers` in /home/me/.mcp.json"),
        (AuthError::InternalError(why()), "no"),
        (AuthError::InvalidTokenType(why()), "unknown kind (no)"),
        (AuthError::InvalidScope(why()), "does not know a scope"),
        (AuthError::RegistrationFailed(why()), "no"),
        (AuthError::InsufficientScope { required_scope: "w".to_owned(), upgrade_url: None }, "lacks the scope w"),
        (
            AuthError::AuthorizationServerMismatch {
                expected_issuer: "https://a".to_owned(),
                received_issuer: "https://b".to_owned(),
            },
            "comes from https://b and not from https://a",
        ),
        (
            AuthError::AuthorizationServerMissingIssuer { expected_issuer: "https://a".to_owned() },
            "does not say that it comes from https://a",
        ),
        (AuthError::ClientCredentialsError(why()), "no"),
    ];
    for (error, wanted) in cases {
        let said = words.login(&error);
        assert!(said.contains(wanted), "{wanted:?} is not in {said:?}");
        is_plain(&said);
    }
}

#[test]
fn who_wants_a_login_is_known_by_what_was_sent() {
    let without_challenge = OverHttp::UnexpectedServerResponse("HTTP 401 Unauthorized: ".into());
    let says_so = std::io::Error::other(HttpStatusError::new(401, None));
    assert!(is_rejected(&without_challenge) && is_rejected(&says_so));
    assert!(is_rejected(&StreamableHttpError::<HttpClientError>::Auth(AuthError::AuthorizationRequired)));
    let speaks_of_it = std::io::Error::other("HTTP 401");
    assert!(!is_rejected(&speaks_of_it) && !is_rejected(&std::io::Error::other(HttpStatusError::new(403, None))));
    assert!(is_expired(&ServiceError::TransportSend(sent(StreamableHttpError::SessionExpired))));
    assert!(!is_expired(&ServiceError::TransportClosed));
}
