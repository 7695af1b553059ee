//! Logging in to a server by OAuth 2.1: who issues tokens for it, who we are to them, the browser, and the token.
//!
//! ```text
//!   POST to the server ─▶ 401 ─▶ metadata of the resource ─▶ metadata of the issuer ─▶ registration
//!       ─▶ the browser, with PKCE and the server as resource ─▶ code at 127.0.0.1 ─▶ token, kept by [`Tokens`]
//! ```
//!
//! All of OAuth's rules are rmcp's; here is what it asks of its surroundings. Nothing here opens a browser: whoever calls does.

mod requests;

use self::requests::Requests;
use crate::entry::{Entry, Login, Transport};
use crate::surroundings::Surroundings;
use crate::text;
use crate::tokens::{Registration, Tokens};
use crate::words::Words;
use piton_http::{StatusCode, Url};
use rmcp::transport::AuthorizationManager;
use rmcp::transport::auth::{AuthError, AuthorizationCallback, OAuthClientConfig};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// How long a person has in the browser.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a browser's request.
const MOST_REQUEST_BYTES: usize = 32 << 10;
/// The path that the browser comes back to.
const CALLBACK: &str = "/callback";

/// What logging in came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// Who has issued the token.
    pub issuer: String,
    /// What it is for.
    pub scopes: Vec<String>,
}

/// Logs in to the server of an entry. `browser` is called once with the address that a person is to open; it must not block.
pub async fn login(
    entry: &Entry,
    around: &Surroundings,
    browser: &(dyn Fn(&str) + Send + Sync),
) -> Result<LoggedIn, String> {
    let (url, settings) =
        far(entry).ok_or_else(|| format!("{} is started here; there is nothing to log in to", entry.name))?;
    let address = Url::parse(url).map_err(|error| format!("its address is none ({error})"))?;
    let tokens = Tokens::of(around, url);
    let said = Words { entry, http: &around.http };
    let words = |error: AuthError| said.login(&error);
    let challenge = challenge(&address, &said).await?;
    let mut manager = new_manager(around, &address, tokens.clone()).await.map_err(words)?;
    let found = manager.resolve_metadata_from_challenge(challenge.as_deref()).await.map_err(words)?;
    let issuer = found.metadata.issuer.clone().unwrap_or_else(|| found.metadata.token_endpoint.clone());
    let takes_documents = found.metadata.additional_fields.get("client_id_metadata_document_supported");
    let takes_documents = takes_documents.and_then(serde_json::Value::as_bool).unwrap_or_default();
    manager.set_metadata(found.metadata);
    let scopes = scopes(settings, &manager, &tokens).await;
    let issued_by = Issuer { name: &issuer, takes_documents, words: &said };
    let (listener, config) = register(&mut manager, settings, &issued_by, &scopes, &tokens).await?;
    let redirect_uri = config.redirect_uri.clone();
    manager.configure_client(config).map_err(words)?;
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let asked = manager.get_authorization_url(&scopes).await.map_err(words)?;
    if !is_page(&asked) {
        return Err(format!(
            "the server's authorization page is no http or https address: {}",
            text::line(&asked, 200)
        ));
    }
    Requests::of(address.clone(), around.http.clone())
        .judged(&Url::parse(&asked).map_err(|error| error.to_string())?)
        .await
        .map_err(|refused| format!("the server's authorization page is not opened: {refused}"))?;
    browser(&asked);
    let returned = tokio::time::timeout(PATIENCE, returned(&listener, &redirect_uri, &asked)).await;
    let callback = returned.map_err(|_| "nobody came back from the browser within ten minutes".to_owned())??;
    let AuthorizationCallback { code, csrf_token, issuer: said, .. } = callback;
    manager.exchange_code_for_token_with_issuer(&code, &csrf_token, said.as_deref()).await.map_err(words)?;
    let mut scopes = tokens.stored().map(|stored| stored.granted_scopes).unwrap_or_default();
    scopes.retain(|scope| !scope.is_empty());
    Ok(LoggedIn {
        issuer: text::line(&issuer, 200),
        scopes: scopes.iter().map(|scope| text::line(scope, 100)).collect(),
    })
}

/// Whether a browser shows it as a page. A server may name what runs a script, or a file of this machine.
fn is_page(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// Forgets the token of a server. Answers whether there was one.
pub fn logout(entry: &Entry, around: &Surroundings) -> Result<bool, String> {
    match far(entry) {
        Some((url, _)) => {
            Tokens::of(around, url).forget().map_err(|error| format!("the token cannot be forgotten: {error}"))
        }
        None => Ok(false),
    }
}

/// Whether there is a token for a server, which may have ended.
pub fn is_logged_in(entry: &Entry, around: &Surroundings) -> bool {
    far(entry).is_some_and(|(url, _)| Tokens::of(around, url).are_there())
}

fn far(entry: &Entry) -> Option<(&str, &Login)> {
    match &entry.transport {
        Transport::Stdio { .. } => None,
        Transport::Http { url, login, .. } | Transport::Sse { url, login, .. } => Some((url, login)),
    }
}

/// Who hands out the token of a server, and renews it; nothing: somebody has to log in.
pub(crate) async fn manager(
    around: &Surroundings,
    url: &Url,
    settings: &Login,
    tokens: Tokens,
) -> Result<Option<AuthorizationManager>, AuthError> {
    let mut manager = new_manager(around, url, tokens.clone()).await?;
    if !manager.initialize_from_store().await? {
        return Ok(None);
    }
    let Some(stored) = tokens.stored() else { return Ok(None) };
    let registered = stored.issuer.as_deref().and_then(|issuer| tokens.registration(issuer));
    let own = settings.client_id.clone().map(|client_id| Registration {
        client_id,
        client_secret: settings.client_secret.clone(),
        redirect_uri: url.to_string(),
    });
    let known = own.into_iter().chain(registered).find(|known| known.client_id == stored.client_id);
    if let Some(Registration { client_id, client_secret: Some(secret), redirect_uri }) = known {
        let config = OAuthClientConfig::new(client_id, redirect_uri).with_client_secret(secret);
        manager.configure_client(config)?;
    }
    Ok(Some(manager))
}

async fn new_manager(around: &Surroundings, url: &Url, tokens: Tokens) -> Result<AuthorizationManager, AuthError> {
    let client = Arc::new(Requests::of(url.clone(), around.http.clone()));
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url.as_str(), client).await?;
    manager.set_credential_store(tokens);
    Ok(manager)
}

/// What is asked for: what the entry says, else what the server wants, and what it has wanted since, and what we had.
async fn scopes(settings: &Login, manager: &AuthorizationManager, tokens: &Tokens) -> Vec<String> {
    let mut scopes = match settings.scopes.is_empty() {
        true => manager.select_initial_scopes(&[]).await,
        false => settings.scopes.clone(),
    };
    let wanted = tokens.wanted();
    if !wanted.is_empty() {
        let granted = tokens.stored().map(|stored| stored.granted_scopes).unwrap_or_default();
        for scope in granted.into_iter().chain(wanted) {
            // Who asks for none is granted one without a name, by some.
            if !scope.is_empty() && !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
    }
    scopes
}

/// Who hands out tokens.
struct Issuer<'i> {
    name: &'i str,
    /// An id that is an address stands for the document that is there.
    takes_documents: bool,
    words: &'i Words<'i>,
}

/// Who we are to the issuer, and where the browser comes back to: as the entry says, as it is known from the last time, or
/// registered now.
async fn register(
    manager: &mut AuthorizationManager,
    settings: &Login,
    &Issuer { name: issuer, takes_documents, words }: &Issuer<'_>,
    scopes: &[String],
    tokens: &Tokens,
) -> Result<(TcpListener, OAuthClientConfig), String> {
    let own = settings.client_id.as_ref().filter(|id| takes_documents || !id.starts_with("https://"));
    if let Some(client_id) = own {
        let (listener, redirect_uri) = listen(settings.callback_port).await?;
        let config = OAuthClientConfig::new(client_id, redirect_uri).with_scopes(scopes.to_vec());
        return Ok((
            listener,
            match &settings.client_secret {
                Some(secret) => config.with_client_secret(secret),
                None => config,
            },
        ));
    }
    if let Some(known) = tokens.registration(issuer) {
        let port = Url::parse(&known.redirect_uri).ok().and_then(|url| url.port());
        if let Some(port) = port
            && (settings.callback_port == 0 || settings.callback_port == port)
            && let Ok((listener, redirect_uri)) = listen(port).await
        {
            let config = OAuthClientConfig::new(known.client_id, redirect_uri).with_scopes(scopes.to_vec());
            return Ok((
                listener,
                match known.client_secret {
                    Some(secret) => config.with_client_secret(secret),
                    None => config,
                },
            ));
        }
        tokens.forget_registration(issuer).map_err(|error| error.to_string())?;
    }
    let (listener, redirect_uri) = listen(settings.callback_port).await?;
    let asked: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let config = manager.register_client("Piton", &redirect_uri, &asked).await;
    let config = config.map_err(|error| {
        format!(
            "{} does not know Piton, and does not register it ({}); put a client id from there into `oauth` of the entry",
            text::line(issuer, 200),
            words.login(&error)
        )
    })?;
    let kept =
        Registration { client_id: config.client_id.clone(), client_secret: config.client_secret.clone(), redirect_uri };
    tokens.keep_registration(issuer, &kept).map_err(|error| format!("the registration cannot be kept: {error}"))?;
    Ok((listener, config))
}

async fn listen(port: u16) -> Result<(TcpListener, String), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.map_err(|error| format!("the port {port} that the browser is to come back to: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    Ok((listener, format!("http://127.0.0.1:{port}{CALLBACK}")))
}

/// What the server says to whoever does not log in; nothing where it says no more than that.
async fn challenge(url: &Url, words: &Words<'_>) -> Result<Option<String>, String> {
    let client = piton_http::client(url, words.http).map_err(|error| words.below(&error))?;
    let asked = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "piton", "version": env!("CARGO_PKG_VERSION")},
    }});
    let sent = client.post(url.clone()).timeout(REQUEST_TIMEOUT).body(asked.to_string());
    let sent = sent.header("content-type", "application/json").header("accept", "application/json, text/event-stream");
    let answer = sent.send().await.map_err(|error| words.sending(&error))?;
    let said = answer.headers().get("www-authenticate").and_then(|said| said.to_str().ok());
    Ok(said.filter(|_| answer.status() == StatusCode::UNAUTHORIZED).map(str::to_owned))
}

/// Waits for the browser to come back with a code. What comes for another login, or for nothing, is turned away.
async fn returned(listener: &TcpListener, redirect_uri: &str, asked: &str) -> Result<AuthorizationCallback, String> {
    let state = |url: &Url| url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
    let ours = Url::parse(asked).ok().as_ref().and_then(state);
    // Browsers open connections that they may never use.
    let mut open = JoinSet::new();
    loop {
        let (mut stream, target) = tokio::select! {
            accepted = listener.accept() => {
                if let Ok((mut stream, _)) = accepted {
                    open.spawn(async move {
                        let heard = tokio::time::timeout(REQUEST_TIMEOUT, target(&mut stream)).await;
                        heard.ok().flatten().map(|target| (stream, target))
                    });
                }
                continue;
            }
            Some(heard) = open.join_next() => match heard {
                Ok(Some(heard)) => heard,
                Ok(None) | Err(_) => continue,
            },
        };
        let base = Url::parse(redirect_uri).map_err(|error| error.to_string())?;
        let url = base.join(&target).ok().filter(|url| url.path() == CALLBACK && state(url) == ours && ours.is_some());
        let Some(url) = url else {
            answer(&mut stream, "404 Not Found", "There is nothing here.").await;
            continue;
        };
        let said =
            |wanted: &str| url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| text::line(&value, 300));
        if let Some(error) = said("error") {
            answer(&mut stream, "200 OK", "Piton was not given access. You can close this page.").await;
            let more = said("error_description").map(|more| format!(": {more}")).unwrap_or_default();
            return Err(format!("access was refused: {error}{more}"));
        }
        match AuthorizationCallback::from_redirect_url(url.as_str()) {
            Ok(callback) => {
                answer(&mut stream, "200 OK", "Piton has access. You can close this page.").await;
                return Ok(callback);
            }
            Err(_) => answer(&mut stream, "400 Bad Request", "There is no code in this address.").await,
        }
    }
}

/// The target of a request for a document.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut heard = Vec::new();
    while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 4_096];
        match stream.read(&mut piece).await {
            Ok(read @ 1..) if heard.len() < MOST_REQUEST_BYTES => heard.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
    let line = heard.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    (words.next()? == "GET").then(|| words.next().map(str::to_owned))?
}

async fn answer(stream: &mut TcpStream, status: &str, words: &str) {
    let page = format!("<!doctype html><meta charset=utf-8><title>Piton</title><p>{words}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        page.len()
    );
    // Whoever has closed the page need not read it.
    let _ = stream.write_all(format!("{head}{page}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_is_opened_in_the_browser() {
        assert!(is_page("https://x.example/authorize?client_id=a") && is_page("http://127.0.0.1:1/a"));
        for address in
            ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "vscode://x", "x.example/a", ""]
        {
            assert!(!is_page(address), "{address}");
        }
    }
}
