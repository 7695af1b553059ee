//! How to speak HTTP: time-outs, proxies, certificates. All of it comes from the caller, none from the environment.

use crate::error::address;
use crate::tls::Roots;
use piton_core::limits::{STREAM_KEEP_ALIVE_MS, STREAM_STALL_MS};
use reqwest::Url;

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

impl HttpOptions {
    /// The proxy that requests to an address go through.
    pub fn proxy_for(&self, url: &Url) -> Option<&str> {
        let is_excepted = self.no_proxy.as_deref().is_some_and(|except| is_listed(url, except));
        self.proxies.to(url).filter(|_| !is_excepted)
    }

    /// Whether a connection for this address speaks TLS, with the server or with the proxy.
    pub(crate) fn speaks_tls(&self, url: &Url) -> bool {
        url.scheme() != "http" || self.proxies.to(url).is_some_and(|proxy| proxy.starts_with("https:"))
    }

    /// The proxy for people, without its password.
    pub(crate) fn proxy_shown(&self, url: &Url) -> Option<String> {
        let proxy = self.proxy_for(url)?;
        let named = Url::parse(proxy).or_else(|_| Url::parse(&format!("http://{proxy}")));
        Some(named.map_or_else(|_| proxy.to_owned(), |named| address(&named)))
    }
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

pub(crate) fn is_usable(proxy: &str) -> bool {
    unknown_proxy_scheme(proxy).is_none() && is_proxy(proxy)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_https_address_or_proxy_needs_certificates() {
        let url = |text: &str| Url::parse(text).unwrap();
        let plain = HttpOptions::default();
        let behind_tls = HttpOptions { proxies: Proxies::all("https://proxy:1"), ..HttpOptions::default() };
        assert!(!plain.speaks_tls(&url("http://127.0.0.1:1/v1")));
        assert!(plain.speaks_tls(&url("https://api.anthropic.com")));
        assert!(behind_tls.speaks_tls(&url("http://127.0.0.1:1/v1")));
    }

    #[test]
    fn hosts_are_excepted_from_the_proxy_by_name_and_by_what_they_end_in() {
        let is_listed = |host: &str, list: &str| is_listed(&Url::parse(&format!("http://{host}/")).unwrap(), list);
        assert!(is_listed("localhost:8080", "localhost,127.0.0.1"));
        assert!(is_listed("a.corp.example", " .corp.example") && is_listed("corp.example", "corp.example"));
        assert!(is_listed("anything", "*") && is_listed("[::1]", "::1"));
        assert!(!is_listed("notcorp.example", "corp.example") && !is_listed("a", ""));
    }
}
