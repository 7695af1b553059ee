//! The bytes: one client per model, made on first use, and the time-outs that matter.
//!
//! There is no total time-out, since a model may think for long; there is one for the connection and one for silence,
//! which holds before the headers and between any two reads. For an `http://` address no certificate is read and no
//! trust store built, so that a local server is asked within milliseconds of the program's start. Redirects are not
//! followed: a POST with a key is for the address that was given. Proxies come from the options, never from the
//! environment.

use piton_core::limits::{STREAM_KEEP_ALIVE_MS, STREAM_STALL_MS};
use piton_core::model::{ModelError, ModelErrorKind};
use reqwest::{Client, Response, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::error::Error;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How to speak HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// How long a connection may take to be made.
    pub connect_timeout_ms: u64,
    /// How long the server may be silent, before its answer and within it.
    pub stall_ms: u64,
    /// How long an answer may consist of keep-alives.
    pub keep_alive_ms: u64,
    /// The proxies, by the scheme of the address that is asked.
    pub proxies: Proxies,
    /// Hosts that are talked to without the proxy, as in `NO_PROXY`: `localhost,.corp.example,10.0.0.0/8`.
    pub no_proxy: Option<String>,
    /// Certificates to trust besides those of the machine.
    pub roots: Roots,
    /// What we call ourselves.
    pub user_agent: String,
}

/// The way of requests: a proxy for each scheme, as a URL, since a proxy sees all of a request to an `http://` address,
/// its key too, and of one to an `https://` address only the host. `None`: no proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `https://` addresses.
    pub https: Option<String>,
    /// For `http://` addresses.
    pub http: Option<String>,
}

impl Proxies {
    /// One for every request.
    pub fn all(proxy: impl Into<String>) -> Self {
        let proxy = proxy.into();
        Self { https: Some(proxy.clone()), http: Some(proxy) }
    }

    fn to(&self, url: &Url) -> Option<&str> {
        if url.scheme() == "https" { self.https.as_deref() } else { self.http.as_deref() }
    }
}

/// Certificates that somebody trusts, such as a company's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Vec<CertificateDer<'static>>);

impl Roots {
    /// Reads the text of a PEM file. `None`: there is no certificate in it, or one that is damaged.
    pub fn parse(pem: &[u8]) -> Option<Self> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().ok()?;
        let mut store = rustls::RootCertStore::empty();
        let are_sound = found.iter().all(|certificate| store.add(certificate.clone()).is_ok());
        (are_sound && !found.is_empty()).then_some(Self(found))
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            // A host that does not answer a SYN in ten seconds is not there; the loop asks again anyway.
            connect_timeout_ms: 10_000,
            // Providers send a keep-alive every 15 s or so; the slowest silent thinkers stay under a minute.
            stall_ms: STREAM_STALL_MS,
            keep_alive_ms: STREAM_KEEP_ALIVE_MS,
            proxies: Proxies::default(),
            no_proxy: None,
            roots: Roots::default(),
            user_agent: concat!("piton/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

/// The scheme of a proxy that is not spoken here.
pub fn unknown_proxy_scheme(proxy: &str) -> Option<&str> {
    let (scheme, _) = proxy.split_once("://")?;
    (!["http", "https"].contains(&scheme.to_ascii_lowercase().as_str())).then_some(scheme)
}

/// Whether requests can be sent there.
pub fn is_address(url: &str) -> bool {
    Url::parse(url.trim()).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some())
}

/// Whether that is a proxy that requests can be sent through: an address, or `host:port`.
pub fn is_proxy(proxy: &str) -> bool {
    if proxy.contains("://") { is_address(proxy) } else { is_address(&format!("http://{proxy}")) }
}

fn is_usable(proxy: &str) -> bool {
    unknown_proxy_scheme(proxy).is_none() && is_proxy(proxy)
}

/// Fetches a text that is not a model's: all of it, up to `max_bytes`. Redirects are followed by nobody.
pub async fn fetch(url: &str, options: &HttpOptions, max_bytes: usize) -> Result<Vec<u8>, ModelError> {
    let bad = |why: String| ModelError::new(ModelErrorKind::InvalidRequest, why);
    let url = Url::parse(url).map_err(|error| bad(format!("{url:?} is not an address ({error})")))?;
    let http = Http::new(options.clone());
    let answer = Http::within(http.stall(), http.client(&url)?.get(url.clone()).send()).await?;
    let answer = answer.map_err(|error| http.network_error(&error, &url))?;
    if !answer.status().is_success() {
        return Err(bad(format!("{} answered with HTTP {}", address(&url), answer.status().as_u16())));
    }
    http.whole(answer, max_bytes).await
}

/// Sends a text that is not for a model, and only looks at whether it was taken.
pub async fn post_json(
    url: &str,
    headers: &[(String, String)],
    body: String,
    options: &HttpOptions,
) -> Result<(), ModelError> {
    let bad = |why: String| ModelError::new(ModelErrorKind::InvalidRequest, why);
    let url = Url::parse(url).map_err(|error| bad(format!("{url:?} is not an address ({error})")))?;
    let http = Http::new(options.clone());
    let mut request = http.client(&url)?.post(url.clone()).header("content-type", "application/json").body(body);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = Http::within(http.stall(), request.send()).await?.map_err(|error| http.network_error(&error, &url))?;
    match answer.status() {
        status if status.is_success() => Ok(()),
        status => Err(bad(format!("{} answered with HTTP {}", address(&url), status.as_u16()))),
    }
}

/// Clients that are made when they are first needed, one that speaks TLS and one that does not. Connections are kept for
/// the next request.
#[derive(Debug)]
pub(crate) struct Http {
    options: HttpOptions,
    plain: OnceLock<Client>,
    trusting: OnceLock<Client>,
}

impl Http {
    pub(crate) fn new(options: HttpOptions) -> Self {
        Self { options, plain: OnceLock::new(), trusting: OnceLock::new() }
    }

    pub(crate) fn client(&self, url: &Url) -> Result<&Client, ModelError> {
        if let Some(proxy) = self.way_to(url).filter(|proxy| !is_usable(proxy)) {
            // It may have a password in it.
            let words = match unknown_proxy_scheme(proxy) {
                Some(scheme) => format!("a proxy of {scheme}:// is not spoken here, only of http:// and https://"),
                None => format!(
                    "what {}_PROXY, ALL_PROXY or `[http] proxy` says is not the address of a proxy",
                    url.scheme().to_ascii_uppercase()
                ),
            };
            return Err(ModelError::new(ModelErrorKind::InvalidRequest, words));
        }
        let trust = Trust::of(url, &self.options);
        let place = match trust {
            Trust::Nobody => &self.plain,
            Trust::Machine => &self.trusting,
        };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let client = build(&self.options, trust).map_err(|error| {
            ModelError::new(ModelErrorKind::InvalidRequest, format!("cannot set up HTTP ({})", innermost(&error)))
        })?;
        Ok(place.get_or_init(|| client))
    }

    /// Why a request did not arrive, or its answer did not.
    pub(crate) fn network_error(&self, error: &reqwest::Error, url: &Url) -> ModelError {
        let address = address(url);
        if let Some(why) = chain(error).find_map(not_trusted) {
            // Another try would see the same.
            return ModelError::new(ModelErrorKind::InvalidRequest, format!("{address} {why}"));
        }
        let reason = if error.is_timeout() { "timed out".to_owned() } else { innermost(error) };
        let way = self.proxy_to(url).map(|proxy| format!(" by way of the proxy {proxy}")).unwrap_or_default();
        // Once there was a connection, the request may have arrived, and been worked on.
        match error.is_connect() {
            true => {
                let message = format!("cannot connect to {address}{way} ({reason})");
                ModelError::new(ModelErrorKind::Network, message)
            }
            false => {
                ModelError::new(ModelErrorKind::CutStream, format!("the request to {address}{way} failed ({reason})"))
            }
        }
    }

    /// The proxy that requests to an address go through, without its password.
    fn proxy_to(&self, url: &Url) -> Option<String> {
        let proxy = self.way_to(url)?;
        let named = Url::parse(proxy).or_else(|_| Url::parse(&format!("http://{proxy}")));
        Some(named.map_or_else(|_| proxy.to_owned(), |named| self::address(&named)))
    }

    /// The proxy that requests to an address go through.
    fn way_to(&self, url: &Url) -> Option<&str> {
        let is_excepted = self.options.no_proxy.as_deref().is_some_and(|except| is_listed(url, except));
        self.options.proxies.to(url).filter(|_| !is_excepted)
    }

    /// The whole of an answer that has no more than so many bytes.
    pub(crate) async fn whole(&self, mut answer: Response, max_bytes: usize) -> Result<Vec<u8>, ModelError> {
        let url = answer.url().clone();
        let mut bytes = Vec::new();
        while let Some(more) =
            Self::within(self.stall(), answer.chunk()).await?.map_err(|error| read_error(&error, &url))?
        {
            bytes.extend_from_slice(&more);
            if bytes.len() > max_bytes {
                let words = format!("{} sends more than {max_bytes} bytes", address(&url));
                return Err(ModelError::new(ModelErrorKind::InvalidRequest, words));
            }
        }
        Ok(bytes)
    }

    /// How long the server may be silent.
    pub(crate) fn stall(&self) -> Duration {
        Duration::from_millis(self.options.stall_ms)
    }

    /// How long an answer may consist of keep-alives.
    pub(crate) fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.options.keep_alive_ms)
    }

    /// Waits for this, but not longer than `limit`.
    pub(crate) async fn within<T>(limit: Duration, wait: impl Future<Output = T>) -> Result<T, ModelError> {
        tokio::time::timeout(limit, wait).await.map_err(|_| {
            let seconds = limit.as_secs_f64();
            ModelError::new(ModelErrorKind::Stalled, format!("the provider sent nothing for {seconds} s"))
        })
    }
}

/// Whom a connection believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// No TLS will be spoken.
    Nobody,
    /// The machine's certificates, company ones included; the bundled ones where the machine has none.
    Machine,
}

impl Trust {
    fn of(url: &Url, options: &HttpOptions) -> Self {
        let proxy = options.proxies.to(url).unwrap_or_default();
        if url.scheme() == "http" && !proxy.starts_with("https:") { Self::Nobody } else { Self::Machine }
    }
}

fn build(options: &HttpOptions, trust: Trust) -> Result<Client, reqwest::Error> {
    let mut builder = Client::builder()
        .user_agent(&options.user_agent)
        .connect_timeout(Duration::from_millis(options.connect_timeout_ms))
        .tcp_nodelay(true)
        .redirect(reqwest::redirect::Policy::none())
        .tls_backend_preconfigured(tls(trust, &options.roots))
        .no_proxy();
    let except = options.no_proxy.as_deref().and_then(reqwest::NoProxy::from_string);
    let Proxies { https, http } = &options.proxies;
    // One that cannot be used does no harm to what goes another way.
    let is_usable = |proxy: &&String| is_usable(proxy);
    if let Some(proxy) = https.as_ref().filter(is_usable) {
        builder = builder.proxy(reqwest::Proxy::https(proxy)?.no_proxy(except.clone()));
    }
    if let Some(proxy) = http.as_ref().filter(is_usable) {
        builder = builder.proxy(reqwest::Proxy::http(proxy)?.no_proxy(except));
    }
    builder.build()
}

fn tls(trust: Trust, more: &Roots) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    match trust {
        Trust::Nobody => {}
        Trust::Machine => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            }
            roots.add_parsable_certificates(more.0.iter().cloned());
        }
    }
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// The answer broke off below HTTP: a reset, a short body, damaged compression.
pub(crate) fn read_error(error: &reqwest::Error, url: &Url) -> ModelError {
    let message = format!("the answer of {} broke off ({})", address(url), innermost(error));
    ModelError::new(ModelErrorKind::CutStream, message)
}

/// Scheme, host and port: enough to see who is meant, and never a key that somebody put into a URL.
pub(crate) fn address(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

/// What a redirect points to, as [`address`] shows it.
pub(crate) fn place(from: &Url, location: &str) -> String {
    from.join(location).map_or_else(|_| "nowhere".to_owned(), |url| format!("{}{}", address(&url), url.path()))
}

/// Whether a host is in a list such as `NO_PROXY`. Ranges of addresses are left to the client, which is not asked here.
fn is_listed(url: &Url, hosts: &str) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    hosts.split(',').map(|listed| listed.trim().trim_start_matches('.')).filter(|listed| !listed.is_empty()).any(
        |listed| {
            let above = host.strip_suffix(listed);
            listed == "*" || above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
        },
    )
}

/// An error and what it says are its causes; an error of the operating system may hold another one.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    fn cause<'e>(error: &&'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
        let error: &'e (dyn Error + 'static) = *error;
        match error.downcast_ref::<std::io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    }
    std::iter::successors(Some(error), cause)
}

/// What is wrong with how a server shows who it is, if that is what went wrong.
fn not_trusted(cause: &(dyn Error + 'static)) -> Option<String> {
    match cause.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(why) => Some(format!(
            "shows a certificate that is not trusted here ({why}); if it is your own, name the file of whoever signed \
             it as ca_file in [http] or at the provider"
        )),
        rustls::Error::InvalidMessage(_) => {
            Some("does not speak TLS; if it is a server without certificates, write http:// for https://".to_owned())
        }
        _ => None,
    }
}

/// The last cause in a chain of errors, in plain words.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if let Some(io) = cause.downcast_ref::<std::io::Error>() {
        return match io.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            std::io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
            std::io::ErrorKind::TimedOut => "timed out".to_owned(),
            std::io::ErrorKind::UnexpectedEof => "connection closed".to_owned(),
            _ => io.to_string(),
        };
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_https_address_or_proxy_needs_certificates() {
        let url = |text: &str| Url::parse(text).unwrap();
        let plain = HttpOptions::default();
        let behind_tls = HttpOptions { proxies: Proxies::all("https://proxy:1"), ..HttpOptions::default() };
        assert_eq!(Trust::of(&url("http://127.0.0.1:1/v1"), &plain), Trust::Nobody);
        assert_eq!(Trust::of(&url("https://api.anthropic.com"), &plain), Trust::Machine);
        assert_eq!(Trust::of(&url("http://127.0.0.1:1/v1"), &behind_tls), Trust::Machine);
    }

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

    async fn failure(url: &str, options: HttpOptions) -> ModelError {
        fetch(url, &options, 100).await.expect_err("nobody can be reached there")
    }

    #[tokio::test]
    async fn whoever_does_not_speak_tls_is_not_asked_again() {
        let plain = listener(|mut stream| {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        });
        let error = failure(&format!("https://{plain}/v1"), HttpOptions::default()).await;
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest, "{error}");
        assert!(error.message.contains("write http:// for https://"), "{error}");
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
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest, "{error}");
        assert!(error.message.contains("not trusted here") && error.message.contains("ca_file"), "{error}");
    }

    #[tokio::test]
    async fn a_dead_proxy_is_named_and_the_provider_is_not_blamed() {
        // Nobody listens where somebody did.
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let options =
            HttpOptions { proxies: Proxies::all(format!("http://me:secret@{gone}")), ..HttpOptions::default() };
        let error = failure("https://api.example.com/v1", options.clone()).await;
        let way = format!("cannot connect to https://api.example.com by way of the proxy http://{gone} (");
        assert!(error.message.starts_with(&way), "{error}");

        let refusing = listener(|mut stream| {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
        });
        let options = HttpOptions { proxies: Proxies::all(format!("http://{refusing}")), ..options };
        let error = failure("https://api.example.com/v1", options).await;
        assert!(error.message.contains(&format!("by way of the proxy http://{refusing}")), "{error}");
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
        assert!(error.message.starts_with(&format!("cannot connect to http://{gone} (")), "{error}");
        assert!(seen.get().is_none(), "the proxy sees no key that is sent in clear text");
    }

    #[test]
    fn a_proxy_that_is_not_spoken_is_in_nobodys_way_who_does_not_need_it() {
        let proxies = Proxies { https: None, http: Some("socks5://proxy:1".into()) };
        let options = HttpOptions { proxies, no_proxy: Some("127.0.0.1".into()), ..HttpOptions::default() };
        let http = Http::new(options);
        let client = |url: &str| http.client(&Url::parse(url).unwrap()).map(|_| ());
        assert_eq!((client("https://host/"), client("http://127.0.0.1:1/")), (Ok(()), Ok(())));
        assert!(client("http://host/").unwrap_err().message.contains("socks5:// is not spoken here"));
    }

    #[test]
    fn hosts_are_excepted_from_the_proxy_by_name_and_by_what_they_end_in() {
        let is_listed = |host: &str, list: &str| is_listed(&Url::parse(&format!("http://{host}/")).unwrap(), list);
        assert!(is_listed("localhost:8080", "localhost,127.0.0.1"));
        assert!(is_listed("a.corp.example", " .corp.example") && is_listed("corp.example", "corp.example"));
        assert!(is_listed("anything", "*") && is_listed("[::1]", "::1"));
        assert!(!is_listed("notcorp.example", "corp.example") && !is_listed("a", ""));
    }

    #[test]
    fn an_address_shows_no_credentials() {
        let url = Url::parse("https://user:secret@host:8443/path?key=secret").unwrap();
        assert_eq!(address(&url), "https://host:8443");
    }
}
