//! The client: connections made on first use and kept, and the time-outs that matter.
//!
//! There is no total time-out, since a model may think for long; there is one for the connection and one for silence,
//! which holds before the headers and between any two reads. Redirects are not followed: a POST with a key is for the
//! address that was given. Proxies come from the options, never from the environment.

use crate::error::{HttpError, address};
use crate::options::{self, HttpOptions, Proxies};
use crate::tls::{self, Roots};
use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

/// Fetches a document: all of it, up to `max_bytes`.
pub async fn fetch(url: &str, options: &HttpOptions, max_bytes: usize) -> Result<Vec<u8>, HttpError> {
    let url = parsed(url)?;
    let answer = Http::new(options.clone()).get(&url, HeaderMap::new()).await?;
    succeeded(answer.status(), &url)?;
    answer.whole(max_bytes).await
}

/// The client of [`Http`] for this address, for a library that speaks HTTP itself: the same proxies, certificates and time-out of
/// the connection. It follows no redirect and has no time-out for silence.
pub fn client(url: &Url, options: &HttpOptions) -> Result<Client, HttpError> {
    Http::new(options.clone()).client(url).cloned()
}

/// What an error of such a client means.
pub fn failure(error: &reqwest::Error, url: &Url, options: &HttpOptions) -> HttpError {
    match error.is_body() || error.is_decode() {
        true => HttpError::reading(error, url),
        false => HttpError::sending(error, url, options.proxy_shown(url).as_deref()),
    }
}

/// The same, which connects to the address's host only by these addresses: they were judged.
pub fn pinned(url: &Url, options: &HttpOptions, addresses: &[IpAddr]) -> Result<Client, HttpError> {
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
    let addresses = addresses.iter().map(|address| SocketAddr::new(*address, port)).collect();
    Http::pinned(options.clone(), host.to_owned(), addresses).client(url).cloned()
}

/// Sends a JSON document, and only looks at whether it was taken.
pub async fn post_json(
    url: &str,
    headers: &[(String, String)],
    body: String,
    options: &HttpOptions,
) -> Result<(), HttpError> {
    let url = parsed(url)?;
    let mut sent =
        HeaderMap::from_iter([(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    for (name, value) in headers {
        let header = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) = header.ok_or_else(|| HttpError::Unusable(format!("the header {name} cannot be sent")))?;
        sent.append(name, value);
    }
    let answer = Http::new(options.clone()).post(&url, sent, body.into_bytes()).await?;
    succeeded(answer.status(), &url)
}

fn parsed(url: &str) -> Result<Url, HttpError> {
    Url::parse(url).map_err(|error| HttpError::Unusable(format!("{url:?} is not an address ({error})")))
}

fn succeeded(status: StatusCode, url: &Url) -> Result<(), HttpError> {
    match status.is_success() {
        true => Ok(()),
        false => Err(HttpError::Unusable(format!("{} answered with HTTP {}", address(url), status.as_u16()))),
    }
}

/// Clients that are made when they are first needed, one that speaks TLS and one that does not. Connections are kept for
/// the next request.
#[derive(Debug)]
pub struct Http {
    options: HttpOptions,
    /// The addresses that a host has, where they were judged before: nothing else is asked for them.
    pinned: Option<(String, Vec<SocketAddr>)>,
    plain: OnceLock<Client>,
    trusting: OnceLock<Client>,
}

impl Http {
    /// One that has connected to nothing yet.
    pub fn new(options: HttpOptions) -> Self {
        Self { options, pinned: None, plain: OnceLock::new(), trusting: OnceLock::new() }
    }

    /// One that connects to this host by these addresses only.
    pub(crate) fn pinned(options: HttpOptions, host: String, addresses: Vec<SocketAddr>) -> Self {
        Self { pinned: Some((host, addresses)), ..Self::new(options) }
    }

    /// Asks for a document, and waits for the headers of the answer.
    pub async fn get(&self, url: &Url, headers: HeaderMap) -> Result<Answer, HttpError> {
        self.send(url, self.client(url)?.get(url.clone()).headers(headers)).await
    }

    /// Sends a body, and waits for the headers of the answer.
    pub async fn post(&self, url: &Url, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, HttpError> {
        self.send(url, self.client(url)?.post(url.clone()).headers(headers).body(body)).await
    }

    /// How long the server may be silent.
    pub fn stall(&self) -> Duration {
        Duration::from_millis(self.options.stall_ms)
    }

    /// How long an answer may consist of keep-alives.
    pub fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.options.keep_alive_ms)
    }

    async fn send(&self, url: &Url, request: RequestBuilder) -> Result<Answer, HttpError> {
        let answer = within(self.stall(), request.send()).await?;
        let failed = |error| HttpError::sending(&error, url, self.options.proxy_shown(url).as_deref());
        Ok(Answer { response: answer.map_err(failed)?, stall: self.stall() })
    }

    fn client(&self, url: &Url) -> Result<&Client, HttpError> {
        if let Some(proxy) = self.options.proxy_for(url).filter(|proxy| !options::is_usable(proxy)) {
            // It may have a password in it.
            return Err(HttpError::Unusable(match options::unknown_proxy_scheme(proxy) {
                Some(scheme) => format!("a proxy of {scheme}:// is not spoken here, only of http:// and https://"),
                None => format!(
                    "what {}_PROXY, ALL_PROXY or `[http] proxy` says is not the address of a proxy",
                    url.scheme().to_ascii_uppercase()
                ),
            }));
        }
        let trusts = self.options.speaks_tls(url).then_some(&self.options.roots);
        let place = if trusts.is_some() { &self.trusting } else { &self.plain };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let client = build(&self.options, trusts, self.pinned.as_ref()).map_err(|error| HttpError::setup(&error))?;
        Ok(place.get_or_init(|| client))
    }
}

/// An answer whose headers are here, and whose body is under way.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    stall: Duration,
}

impl Answer {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The next bytes of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        self.chunk_within(self.stall).await
    }

    /// The same for a caller with less patience.
    pub async fn chunk_within(&mut self, limit: Duration) -> Result<Option<Bytes>, HttpError> {
        let bytes = within(limit, self.response.chunk()).await?;
        bytes.map_err(|error| HttpError::reading(&error, self.response.url()))
    }

    /// The whole body, if it has no more than so many bytes.
    pub async fn whole(mut self, max_bytes: usize) -> Result<Vec<u8>, HttpError> {
        let mut bytes = Vec::new();
        while let Some(more) = self.chunk().await? {
            bytes.extend_from_slice(&more);
            if bytes.len() > max_bytes {
                let words = format!("{} sends more than {max_bytes} bytes", address(self.response.url()));
                return Err(HttpError::Unusable(words));
            }
        }
        Ok(bytes)
    }

    /// Reads to the end of the body, which is usually there already, so that the connection can be used again.
    pub async fn drain(&mut self) {
        /// Longer than this, a new connection is cheaper.
        const PATIENCE: Duration = Duration::from_millis(20);
        let rest = async { while let Ok(Some(_)) = self.response.chunk().await {} };
        let _ = tokio::time::timeout(PATIENCE, rest).await;
    }
}

/// Waits for this, but not longer than `limit`.
async fn within<T>(limit: Duration, wait: impl Future<Output = T>) -> Result<T, HttpError> {
    tokio::time::timeout(limit, wait).await.map_err(|_| HttpError::Stalled(limit))
}

fn build(
    options: &HttpOptions,
    trusts: Option<&Roots>,
    pinned: Option<&(String, Vec<SocketAddr>)>,
) -> Result<Client, reqwest::Error> {
    let mut builder = Client::builder()
        .user_agent(&options.user_agent)
        .connect_timeout(Duration::from_millis(options.connect_timeout_ms))
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(tls::config(trusts))
        .no_proxy();
    if let Some((host, addresses)) = pinned {
        builder = builder.resolve_to_addrs(host, addresses);
    }
    let except = options.no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
    let Proxies { https, http } = &options.proxies;
    // One that cannot be used does no harm to what goes another way.
    let is_usable = |proxy: &&String| options::is_usable(proxy);
    if let Some(proxy) = https.as_ref().filter(is_usable) {
        builder = builder.proxy(reqwest::Proxy::https(proxy)?.no_proxy(except.clone()));
    }
    if let Some(proxy) = http.as_ref().filter(is_usable) {
        builder = builder.proxy(reqwest::Proxy::http(proxy)?.no_proxy(except));
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// An account's token may come from elsewhere than the answers.
    #[test]
    fn each_scheme_has_a_client_of_its_own() {
        let http = Http::new(HttpOptions::default());
        http.client(&Url::parse("http://127.0.0.1:1/v1").unwrap()).unwrap();
        assert!(http.trusting.get().is_none(), "no trust store is read for a server of this machine");
        http.client(&Url::parse("https://127.0.0.1:1/token").unwrap()).unwrap();
        assert!(http.trusting.get().is_some());
    }

    /// What a server or proxy does with whoever connects to it; the address it has.
    fn listener(does: impl Fn(std::net::TcpStream) + Send + 'static) -> std::net::SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(does));
        address
    }

    async fn failure(url: &str, options: HttpOptions) -> HttpError {
        fetch(url, &options, 100).await.expect_err("nobody can be reached there")
    }

    #[tokio::test]
    async fn whoever_does_not_speak_tls_is_not_asked_again() {
        let plain = listener(|mut stream| {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        });
        let error = failure(&format!("https://{plain}/v1"), HttpOptions::default()).await;
        assert!(matches!(error, HttpError::Unusable(_)), "{error}");
        assert!(error.to_string().contains("write http:// for https://"), "{error}");
    }

    #[tokio::test]
    async fn an_own_certificate_is_asked_for_by_name() {
        let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let chain = vec![key.cert.der().clone()];
        let secret = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .unwrap();
        let config = Arc::new(config);
        let server = listener(move |mut stream| {
            let mut connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            // It fails when the client hangs up, which is what this is about.
            let _ = connection.complete_io(&mut stream);
        });
        let error = failure(&format!("https://{server}/v1"), HttpOptions::default()).await;
        assert!(matches!(error, HttpError::Unusable(_)), "{error}");
        assert!(error.to_string().contains("not trusted here") && error.to_string().contains("ca_file"), "{error}");
    }

    #[tokio::test]
    async fn a_dead_proxy_is_named_and_the_provider_is_not_blamed() {
        // Nobody listens where somebody did.
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options =
            HttpOptions { proxies: Proxies::all(format!("http://me:secret@{gone}")), ..HttpOptions::default() };
        let error = failure("https://api.example.com/v1", options.clone()).await;
        let way = format!("cannot connect to https://api.example.com by way of the proxy http://{gone} (");
        assert!(error.to_string().starts_with(&way), "{error}");

        let refusing = listener(|mut stream| {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
        });
        let options = HttpOptions { proxies: Proxies::all(format!("http://{refusing}")), ..options };
        let error = failure("https://api.example.com/v1", options).await;
        assert!(error.to_string().contains(&format!("by way of the proxy http://{refusing}")), "{error}");
    }

    #[tokio::test]
    async fn a_proxy_for_one_scheme_is_not_asked_for_the_other() {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let seen = Arc::new(OnceLock::new());
        let told = Arc::clone(&seen);
        let proxy = listener(move |_| told.set(()).unwrap_or_default());
        let proxies = Proxies { https: Some(format!("http://{proxy}")), http: None };
        let options = HttpOptions { proxies, ..HttpOptions::default() };
        let error = failure(&format!("http://{gone}/v1"), options).await;
        assert!(error.to_string().starts_with(&format!("cannot connect to http://{gone} (")), "{error}");
        assert!(seen.get().is_none(), "the proxy sees no key that is sent in clear text");
    }

    #[test]
    fn a_proxy_that_is_not_spoken_is_in_nobodys_way_who_does_not_need_it() {
        let proxies = Proxies { https: None, http: Some("socks5://proxy:1".into()) };
        let options = HttpOptions { proxies, no_proxy: Some("127.0.0.1".into()), ..HttpOptions::default() };
        let http = Http::new(options);
        let client = |url: &str| http.client(&Url::parse(url).unwrap()).map(|_| ());
        assert_eq!((client("https://host/"), client("http://127.0.0.1:1/")), (Ok(()), Ok(())));
        assert!(client("http://host/").unwrap_err().to_string().contains("socks5:// is not spoken here"));
    }
}
