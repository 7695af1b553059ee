//! Credentials that are more than a key: AWS has each request signed (Signature Version 4), Google Cloud trades an
//! account for a token of an hour.
//!
//! Both are small enough to be here: a hash over a text that AWS describes, and one request. What they are made of
//! (files, environment) is read by the caller.

use crate::errors;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use piton_core::model::{ModelError, ModelErrorKind};
use piton_http::error::address;
use piton_http::{HeaderMap, HeaderName, HeaderValue, Http, Url};
use ring::{digest, hmac, rand, signature};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;
use serde_json::json;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whose credentials a provider takes besides a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cloud {
    /// Amazon's.
    Aws,
    /// Google's.
    Google,
}

/// Credentials of one of them.
#[derive(Clone, PartialEq)]
pub enum Credentials {
    /// To sign with.
    Aws(AwsKeys),
    /// To trade for a token.
    Google(GoogleAccount),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aws(_) => "[credentials of AWS]",
            Self::Google(_) => "[credentials of Google Cloud]",
        })
    }
}

/// A request that is about to be sent.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a Url,
    pub(crate) body: &'a [u8],
}

impl Credentials {
    /// The headers by which the request is allowed.
    pub(crate) async fn headers(&self, request: Outgoing<'_>, http: &Http) -> Result<HeaderMap, ModelError> {
        let headers = match self {
            Self::Aws(keys) => keys.sign(request, service(request.url), SystemTime::now()),
            Self::Google(account) => {
                vec![("authorization", format!("Bearer {}", account.token(http, SystemTime::now()).await?))]
            }
        };
        let header = |(name, value): (&'static str, String)| {
            let mut value = HeaderValue::from_str(&value).map_err(|_| refused("the credentials cannot be sent"))?;
            value.set_sensitive(true);
            Ok((HeaderName::from_static(name), value))
        };
        headers.into_iter().map(header).collect()
    }
}

impl Credentials {
    /// What must not be shown of them.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match self {
            Self::Aws(keys) => {
                [Some(&keys.secret_access_key), keys.session_token.as_ref()].into_iter().flatten().cloned().collect()
            }
            Self::Google(account) => account.secrets(),
        }
    }
}

fn refused(message: impl Into<String>) -> ModelError {
    ModelError::new(ModelErrorKind::Auth, message)
}

/// An access key of AWS, which may be temporary.
#[derive(Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// Its name.
    pub access_key_id: String,
    /// The secret, which never leaves this process.
    pub secret_access_key: String,
    /// What comes with a temporary key.
    pub session_token: Option<String>,
    /// Where requests go.
    pub region: String,
}

/// What a request to this address is signed for.
fn service(url: &Url) -> &'static str {
    if url.host_str().unwrap_or_default().starts_with("bedrock-mantle.") { "bedrock-mantle" } else { "bedrock" }
}

impl AwsKeys {
    fn sign(&self, request: Outgoing<'_>, service: &str, now: SystemTime) -> Vec<(&'static str, String)> {
        let time = jiff::Timestamp::try_from(now).unwrap_or_default().strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = time.get(..8).unwrap_or_default();
        let host = match (request.url.host_str().unwrap_or_default(), request.url.port()) {
            (host, Some(port)) => format!("{host}:{port}"),
            (host, None) => host.to_owned(),
        };
        let mut headers = vec![("host", host), ("x-amz-date", time.clone())];
        headers.extend(self.session_token.clone().map(|token| ("x-amz-security-token", token)));
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let listed: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let Outgoing { method, url, body } = request;
        let (path, query, body) = (encoded_path(url), sorted_query(url), sha256(body));
        let canonical = format!("{method}\n{path}\n{query}\n{listed}\n{names}\n{body}");
        let scope = format!("{day}/{}/{service}/aws4_request", self.region);
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let first = format!("AWS4{}", self.secret_access_key).into_bytes();
        let key = [day, &self.region, service, "aws4_request"].iter().fold(first, |key, word| hmac(&key, word));
        let signature = hex(&hmac(&key, &to_sign));
        let id = &self.access_key_id;
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
        headers.push(("authorization", authorization));
        // The client sets the host itself.
        headers.remove(0);
        headers
    }
}

/// The path, encoded once more than it is: so AWS wants it everywhere but in its store of files.
fn encoded_path(url: &Url) -> String {
    url.path().bytes().map(|byte| if byte == b'/' { "/".to_owned() } else { encoded(byte) }).collect()
}

/// A byte as it stands in a canonical request.
fn encoded(byte: u8) -> String {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

fn sorted_query(url: &Url) -> String {
    let encode = |text: &str| text.bytes().map(encoded).collect::<String>();
    let mut pairs: Vec<String> =
        url.query_pairs().map(|(name, value)| format!("{}={}", encode(&name), encode(&value))).collect();
    pairs.sort();
    pairs.join("&")
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An account of Google Cloud: a service's, or a person's who has logged in with `gcloud`.
#[derive(Clone)]
pub struct GoogleAccount {
    kind: GoogleKind,
    /// The token and until when it holds; one for all clones.
    token: Arc<Mutex<Option<(String, SystemTime)>>>,
}

impl PartialEq for GoogleAccount {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// A file of credentials, as Google writes it.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum GoogleKind {
    ServiceAccount {
        client_email: String,
        private_key: String,
        #[serde(default)]
        private_key_id: String,
        #[serde(default = "token_uri")]
        token_uri: String,
        project_id: Option<String>,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: String,
        refresh_token: String,
        #[serde(default = "token_uri")]
        token_uri: String,
        quota_project_id: Option<String>,
    },
}

fn token_uri() -> String {
    "https://oauth2.googleapis.com/token".to_owned()
}

#[derive(Deserialize)]
struct Token {
    access_token: String,
    expires_in: Option<u64>,
}

impl GoogleAccount {
    /// Reads the text of a file of credentials. `None`: it is none, or of a kind that is not known here.
    pub fn parse(text: &str) -> Option<Self> {
        let kind = serde_json::from_str(text).ok()?;
        Some(Self { kind, token: Arc::default() })
    }

    /// The project it belongs to.
    pub fn project(&self) -> Option<&str> {
        match &self.kind {
            GoogleKind::ServiceAccount { project_id, .. } => project_id.as_deref(),
            GoogleKind::AuthorizedUser { quota_project_id, .. } => quota_project_id.as_deref(),
        }
    }

    fn secrets(&self) -> Vec<String> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_account = match &self.kind {
            GoogleKind::ServiceAccount { private_key, .. } => vec![private_key.clone()],
            GoogleKind::AuthorizedUser { client_secret, refresh_token, .. } => {
                vec![client_secret.clone(), refresh_token.clone()]
            }
        };
        token.into_iter().map(|(token, _)| token).chain(of_account).collect()
    }

    /// A token that holds for a while.
    async fn token(&self, http: &Http, now: SystemTime) -> Result<String, ModelError> {
        /// A token that ends sooner may end on the way.
        const MARGIN: Duration = Duration::from_secs(60);
        /// Tokens have a few kilobytes.
        const MAX_BYTES: usize = 1 << 20;
        let have = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((token, _)) = have.filter(|(_, until)| *until > now + MARGIN) {
            return Ok(token);
        }
        let (uri, form) = self.demand(now)?;
        let url = Url::parse(uri).map_err(|_| refused(format!("{uri:?} is no address to get a token from")))?;
        let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        let headers = HeaderMap::from_iter([(HeaderName::from_static("content-type"), content_type)]);
        let answer = http.post(&url, headers, form.into_bytes()).await.map_err(errors::from_http)?;
        let status = answer.status();
        let body = answer.whole(MAX_BYTES).await.map_err(errors::from_http)?;
        let Ok(token) = serde_json::from_slice::<Token>(&body) else {
            return Err(not_given(status.as_u16(), &body, &url));
        };
        let until = now + Duration::from_secs(token.expires_in.unwrap_or(3_600));
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some((token.access_token.clone(), until));
        Ok(token.access_token)
    }

    /// Where a token is asked for, and how.
    fn demand(&self, now: SystemTime) -> Result<(&str, String), ModelError> {
        let mut form = Url::parse("form:").expect("a valid address");
        let uri = match &self.kind {
            GoogleKind::ServiceAccount { token_uri, .. } => {
                form.query_pairs_mut()
                    .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
                    .append_pair("assertion", &self.assertion(now)?);
                token_uri
            }
            GoogleKind::AuthorizedUser { client_id, client_secret, refresh_token, token_uri, .. } => {
                form.query_pairs_mut()
                    .append_pair("grant_type", "refresh_token")
                    .append_pair("client_id", client_id)
                    .append_pair("client_secret", client_secret)
                    .append_pair("refresh_token", refresh_token);
                token_uri
            }
        };
        Ok((uri, form.query().unwrap_or_default().to_owned()))
    }

    /// What a service says of itself, signed with its key (RFC 7523).
    fn assertion(&self, now: SystemTime) -> Result<String, ModelError> {
        let GoogleKind::ServiceAccount { client_email, private_key, private_key_id, token_uri, .. } = &self.kind else {
            return Err(refused("only the account of a service signs"));
        };
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": private_key_id });
        let claims = json!({ "iss": client_email, "scope": "https://www.googleapis.com/auth/cloud-platform",
            "aud": token_uri, "iat": now, "exp": now + 3_600 });
        let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(&claims));
        let broken = || refused("the private key of the service account cannot be read");
        let key = PrivatePkcs8KeyDer::from_pem_slice(private_key.as_bytes()).map_err(|_| broken())?;
        let key = signature::RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).map_err(|_| broken())?;
        let mut signature = vec![0; key.public().modulus_len()];
        let random = rand::SystemRandom::new();
        key.sign(&signature::RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature).map_err(|_| broken())?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// The refusal's own words, if it has any. Who is busy may be asked again.
fn not_given(status: u16, body: &[u8], url: &Url) -> ModelError {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let said = value["error_description"].as_str().or(value["error"].as_str()).unwrap_or("it sent no token");
    let kind = if status >= 500 || status == 429 { ModelErrorKind::Server } else { ModelErrorKind::Auth };
    let message = format!("{} gave no token: {said} (HTTP {status})", address(url));
    ModelError { status: Some(status), ..ModelError::new(kind, message) }
}

#[cfg(test)]
mod tests;
