//! Errors of the protocol's library in words, for people and models: what happened, and what to do about it. The library's own
//! words name its types and how it is built.
//!
//! A sentence about a server begins with a small letter and has no full stop: it stands behind `The MCP server NAME is not there:`.

use crate::entry::{Entry, Transport};
use crate::error::without_keys;
use crate::text;
use piton_http::{Client, HttpError, HttpOptions, StatusCode, Url};
use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{HttpStatusError, StreamableHttpClient, StreamableHttpError};
use std::error::Error;

/// Characters of an error.
const MOST_CHARS: usize = 600;
/// Characters that are shown of an answer that is none.
const PREVIEW_CHARS: usize = 120;
/// What the library says where the status of an answer stands in its words.
const STATUS: &str = "HTTP ";
/// What it says before the answer that it could not read.
const UNREADABLE: &str = "could not parse JSON response as ServerJsonRpcMessage: ";

/// What it says in the place of an answer without a byte.
const EMPTY: &str = "<empty>";

/// An error of HTTP, as the library has it.
type HttpClientError = <Client as StreamableHttpClient>::Error;
/// An error of its transport over HTTP.
type OverHttp = StreamableHttpError<HttpClientError>;
type Any = dyn Error + 'static;

/// Says what went wrong with one server.
#[derive(Clone, Copy)]
pub(crate) struct Words<'e> {
    pub(crate) entry: &'e Entry,
    pub(crate) http: &'e HttpOptions,
}

impl Words<'_> {
    /// Why there is no connection.
    pub(crate) fn starting(&self, error: &ClientInitializeError) -> String {
        self.cut(&self.of_start(error))
    }

    /// Why a request has no answer.
    pub(crate) fn asking(&self, error: &ServiceError) -> String {
        self.cut(&match error {
            ServiceError::McpError(said) => said_by_server(said),
            ServiceError::TransportSend(error) => self.sending(&*error.error),
            ServiceError::TransportClosed => "it closed the connection".to_owned(),
            ServiceError::UnexpectedResponse => "it answered with something else than it was asked for".to_owned(),
            ServiceError::Timeout { timeout } => format!("it did not answer within {} s", timeout.as_secs()),
            ServiceError::InputRequiredRoundsExceeded { max_rounds } => {
                format!("it asked for something {max_rounds} times in a row and never answered")
            }
            ServiceError::Cancelled { .. } => "the request was stopped".to_owned(),
            other => innermost(other),
        })
    }

    /// Why nobody could log in, or a token could not be had.
    pub(crate) fn login(&self, error: &AuthError) -> String {
        self.cut(&self.of_login(error))
    }

    /// What an answer with this status means; `more`: what else it says.
    pub(crate) fn status(&self, status: u16, more: Option<&str>) -> String {
        let name = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let name = name.map_or_else(String::new, |name| format!(" {name}"));
        let (address, file) = (self.address(), self.entry.file.display());
        let said = more.map(|more| text::line(more.trim(), PREVIEW_CHARS)).filter(|more| !more.is_empty());
        let said = said.map_or_else(String::new, |said| format!(" (it says: {said})"));
        match status {
            300..=399 => format!(
                "{address} redirects (HTTP {status}), which is not followed, since requests carry keys; put the address that \
                 it leads to into {file} if you trust it"
            ),
            401 => format!("{address} wants to know who asks (HTTP 401): `piton mcp login {}`", self.entry.name),
            403 => format!("{address} refuses access (HTTP 403){said}; check the key in `headers` of {file}"),
            404 | 405 | 406 | 410 | 415 | 501 => format!(
                "{address} is not where an MCP server listens (HTTP {status}{name}); correct `url` in {file}, or add \
                 \"type\": \"sse\" if the server is of the older kind"
            ),
            429 => format!("{address} takes no more requests for now (HTTP 429); try again later"),
            500..=599 => format!(
                "{address} failed with a fault of its own (HTTP {status}{name}){said}; try again later, or tell whoever runs it"
            ),
            _ => format!("{address} answered with HTTP {status}{name}{said}"),
        }
    }

    /// What an error below the protocol means.
    pub(crate) fn sending(&self, error: &Any) -> String {
        let found = causes(error).find_map(|cause| {
            let http = cause.downcast_ref::<OverHttp>().map(|error| self.over_http(error));
            let http = http.or_else(|| Some(self.of_client(cause.downcast_ref::<HttpClientError>()?)));
            let http = http.or_else(|| Some(self.status(cause.downcast_ref::<HttpStatusError>()?.status, None)));
            let http = http.or_else(|| Some(self.below(cause.downcast_ref::<HttpError>()?)));
            http.or_else(|| Some(self.of_login(cause.downcast_ref::<AuthError>()?)))
        });
        found.unwrap_or_else(|| innermost(error))
    }

    /// What is no connection, and what to do about it.
    pub(crate) fn below(&self, error: &HttpError) -> String {
        let file = self.entry.file.display();
        match error {
            HttpError::Unreachable(words) | HttpError::NotListening(words) => {
                format!("{words}; start the server, or correct `url` in {file}")
            }
            HttpError::Unusable(words) | HttpError::CutOff(words) => words.clone(),
            HttpError::Stalled(_) => format!("{}: {error}", self.address()),
        }
    }

    fn of_start(&self, error: &ClientInitializeError) -> String {
        match error {
            ClientInitializeError::TransportError { error, .. } => self.sending(&*error.error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => self.of_start(fallback),
            ClientInitializeError::ConnectionClosed(_) => {
                "it closed the connection before it had said what it offers".to_owned()
            }
            ClientInitializeError::JsonRpcError(said) => {
                format!("it refuses to work with Piton: {}", said_by_server(said))
            }
            ClientInitializeError::NoCompatibleProtocolVersion { client_supported, server_supported } => {
                let listed = |versions: &[rmcp::model::ProtocolVersion]| {
                    let versions: Vec<String> =
                        versions.iter().map(|version| text::line(version.as_str(), 40)).collect();
                    versions.join(", ")
                };
                format!(
                    "it speaks the versions {} of MCP, and Piton speaks {}; update the older of the two",
                    listed(server_supported),
                    listed(client_supported)
                )
            }
            ClientInitializeError::Cancelled => "its start was stopped".to_owned(),
            _ => {
                let what = match &self.entry.transport {
                    Transport::Stdio { command, .. } => text::line(command, 80),
                    Transport::Http { .. } | Transport::Sse { .. } => self.address(),
                };
                format!("its first answer is not one of MCP; check that {what} is an MCP server")
            }
        }
    }

    fn over_http(&self, error: &OverHttp) -> String {
        let (address, file) = (self.address(), self.entry.file.display());
        match error {
            StreamableHttpError::Client(error) => self.of_client(error),
            StreamableHttpError::HttpStatus(error) => self.status(error.status, None),
            StreamableHttpError::UnexpectedServerResponse(said) => self.unexpected(said),
            StreamableHttpError::UnexpectedContentType(kind) => {
                let kind = kind.as_deref().map_or_else(
                    || "something that does not say what it is".to_owned(),
                    |kind| text::line(kind, PREVIEW_CHARS),
                );
                format!("{address} answers with {kind} and not with MCP; correct `url` in {file}")
            }
            StreamableHttpError::UnexpectedEndOfStream | StreamableHttpError::TransportChannelClosed => {
                format!("{address} closed the connection before it had answered")
            }
            StreamableHttpError::Sse(error) => {
                format!("the stream of events from {address} is damaged ({})", innermost(error))
            }
            StreamableHttpError::Io(error) => innermost(error),
            StreamableHttpError::ResponseBodyTooLarge { max_size } => {
                format!("{address} answers with more than {}", text::size(*max_size))
            }
            StreamableHttpError::ServerDoesNotSupportSse => self.status(405, None),
            StreamableHttpError::Deserialize(error) => {
                format!("{address} answers with something that is not a message of MCP ({error})")
            }
            StreamableHttpError::MissingSessionIdInResponse => {
                format!("{address} does not say which session its answer belongs to")
            }
            StreamableHttpError::Auth(error) => self.of_login(error),
            StreamableHttpError::AuthRequired(_) => self.status(401, None),
            StreamableHttpError::InsufficientScope(_) => format!(
                "{address} wants more rights than its token gives (HTTP 403): `piton mcp login {}`",
                self.entry.name
            ),
            StreamableHttpError::ReservedHeaderConflict(name) => {
                let name = text::line(name, 60);
                format!("Piton sets the header {name} itself; take it out of `headers` in {file}")
            }
            StreamableHttpError::SessionExpired | StreamableHttpError::SessionRecoveryTimeout => {
                format!("{address} no longer knows the session (HTTP 404)")
            }
            StreamableHttpError::ReinitializationFailed(said) => {
                format!("{address} opens no new session: {}", said_by_server(said))
            }
            StreamableHttpError::ControlRequestTimeout => format!("{address} did not take an answer in time"),
            StreamableHttpError::ServerDoesNotSupportDeleteSession => format!("{address} does not end sessions"),
            StreamableHttpError::TokioJoinError(_) => "the request failed inside Piton".to_owned(),
            other => innermost(other),
        }
    }

    /// What the library calls an unexpected response: a status that it has no name for, or a text that it cannot read.
    fn unexpected(&self, said: &str) -> String {
        if let Some((status, more)) = status_in(said) {
            return self.status(status, Some(more));
        }
        let address = self.address();
        match said.strip_prefix(UNREADABLE) {
            Some(unreadable) => {
                // `why: body`, and the reason has colons only where the body does.
                let body = unreadable.split_once(": ").map_or(unreadable, |(_, body)| body);
                let body = if body == EMPTY { "nothing".to_owned() } else { text::line(body, PREVIEW_CHARS) };
                format!("{address} answers with something that is not a message of MCP: {body}")
            }
            None => format!("{address} answers with something that is not MCP"),
        }
    }

    fn of_client(&self, error: &HttpClientError) -> String {
        match self.url() {
            Some(url) => self.below(&piton_http::failure(error, &url, self.http)),
            None => innermost(error),
        }
    }

    fn of_login(&self, error: &AuthError) -> String {
        let name = &self.entry.name;
        match error {
            AuthError::AuthorizationRequired | AuthError::TokenExpired => {
                format!("nobody is logged in, or the login has ended: `piton mcp login {name}`")
            }
            AuthError::AuthorizationFailed(why) => format!("the login failed: {why}"),
            AuthError::TokenExchangeFailed(why) => format!("the login brought no token: {why}"),
            AuthError::TokenRefreshFailed(why) => {
                format!("its token could not be renewed ({why}); try again, or `piton mcp login {name}`")
            }
            AuthError::TokenRefreshRejected(why) => {
                format!("its token is not renewed any more ({why}): `piton mcp login {name}`")
            }
            AuthError::CredentialStoreError(why) => format!("its token cannot be read or kept: {why}"),
            AuthError::HttpError(error) => self.of_client(error),
            AuthError::OAuthError(why) | AuthError::MetadataError(why) => {
                format!("what the server says about logging in cannot be used: {why}")
            }
            AuthError::DiscoveryRequestFailed { url, source } => {
                format!("{url} cannot be asked how to log in: {}", innermost(&**source))
            }
            AuthError::ProtectedResourceMetadataInvalid { url, reason } => {
                format!("what {url} says about logging in cannot be used: {reason}")
            }
            AuthError::AuthorizationServersUnavailable { authorization_servers, .. } => format!(
                "the server sends the login to {}, and nothing there says how to log in",
                authorization_servers.join(", ")
            ),
            AuthError::PkceUnsupported => {
                "the issuer of its tokens does not support PKCE with S256, without which Piton does not log in"
                    .to_owned()
            }
            AuthError::UrlError(why) => format!("an address that the server names for the login is not one ({why})"),
            AuthError::NoAuthorizationSupport => format!(
                "the server says of no login that Piton knows; if you have a key for it, put it into `headers` in {}",
                self.entry.file.display()
            ),
            AuthError::InternalError(why)
            | AuthError::RegistrationFailed(why)
            | AuthError::ClientCredentialsError(why) => why.clone(),
            AuthError::InvalidTokenType(kind) => format!("the issuer gave a token of an unknown kind ({kind})"),
            AuthError::InvalidScope(scope) => format!("the issuer does not know a scope that was asked for ({scope})"),
            AuthError::InsufficientScope { required_scope, .. } => {
                format!("its token lacks the scope {required_scope}: `piton mcp login {name}`")
            }
            AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => format!(
                "the answer to the login comes from {received_issuer} and not from {expected_issuer}, which was asked"
            ),
            AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
                format!("the answer to the login does not say that it comes from {expected_issuer}, which was asked")
            }
            other => innermost(other),
        }
    }

    fn url(&self) -> Option<Url> {
        match &self.entry.transport {
            Transport::Stdio { .. } => None,
            Transport::Http { url, .. } | Transport::Sse { url, .. } => Url::parse(url).ok(),
        }
    }

    /// Its address without keys.
    fn address(&self) -> String {
        self.url().map_or_else(|| "it".to_owned(), |url| without_keys(url.as_str()))
    }

    fn cut(&self, words: &str) -> String {
        text::line(&without_keys(words), MOST_CHARS)
    }
}

/// What of a failed handshake the transport says, if it was the transport.
pub(crate) fn carried(error: &ClientInitializeError) -> Option<&Any> {
    match error {
        ClientInitializeError::TransportError { error, .. } => Some(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => carried(fallback),
        _ => None,
    }
}

/// The status of the answer that an error is about, if it is about one.
pub(crate) fn status_of(error: &Any) -> Option<u16> {
    causes(error).find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<HttpStatusError>() {
            return Some(error.status);
        }
        match cause.downcast_ref::<OverHttp>()? {
            StreamableHttpError::UnexpectedServerResponse(said) => status_in(said).map(|(status, _)| status),
            StreamableHttpError::HttpStatus(error) => Some(error.status),
            StreamableHttpError::AuthRequired(_) => Some(401),
            _ => None,
        }
    })
}

/// Whether the transport says that the server no longer knows the session.
pub(crate) fn is_expired(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    let expired = |cause: &Any| matches!(cause.downcast_ref::<OverHttp>(), Some(StreamableHttpError::SessionExpired));
    causes(&*error.error).any(expired)
}

/// Whether the server, or the keeper of its tokens, wants somebody to log in: with a challenge or without.
pub(crate) fn is_rejected(error: &Any) -> bool {
    let wants = |cause: &Any| {
        let login = cause.downcast_ref::<AuthError>();
        let http = cause.downcast_ref::<OverHttp>();
        matches!(login, Some(AuthError::AuthorizationRequired))
            || matches!(http, Some(StreamableHttpError::Auth(AuthError::AuthorizationRequired)))
    };
    status_of(error) == Some(401) || causes(error).any(wants)
}

/// `HTTP 404 Not Found: text` → 404, `text`.
fn status_in(said: &str) -> Option<(u16, &str)> {
    let rest = said.strip_prefix(STATUS)?;
    let status = rest.get(..3)?.parse().ok()?;
    Some((status, rest.split_once(": ").map_or("", |(_, more)| more)))
}

fn said_by_server(said: &ErrorData) -> String {
    format!("{} ({})", text::line(&said.message, 400), said.code.0)
}

/// An error and its causes.
fn causes(error: &Any) -> impl Iterator<Item = &Any> {
    std::iter::successors(Some(error), |&error| cause(error))
}

/// What is behind an error; one of the operating system may hold another one.
fn cause(error: &Any) -> Option<&Any> {
    match error.downcast_ref::<std::io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &Any),
        None => error.source(),
    }
}

/// The last cause, which names what happened and nothing around it.
fn innermost(error: &Any) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests;
