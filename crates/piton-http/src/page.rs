//! A page of the public web, as a model asks for it: whatever it names, the request goes to a public address that was
//! judged, and to no other host than the one that was asked about.
//!
//! ```text
//!   address ──► http or https, no password, a host ──► looked up; every address public? ──► request to these addresses
//!      ▲                                                                                          │
//!      └───────────── a redirect to the same host ◄───────────────────────────────────────────────┤
//!                     a redirect elsewhere: told, not followed ◄──────────────────────────────────┘
//! ```
//!
//! Through a proxy the address that is connected to is the proxy's to choose: what this machine knows of the name is judged
//! all the same. This module must not know: what is done with a page, and who allowed it.

use crate::egress::{EgressError, Host, HostError, Place, Resolver};
use crate::error::HttpError;
use crate::http::Http;
use crate::options::HttpOptions;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{StatusCode, Url};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Redirects that are followed on the way to one page.
const MOST_REDIRECTS: usize = 10;
/// How long a name may take to be looked up.
const LOOKUP_TIME: Duration = Duration::from_secs(10);
/// What is asked for. Some servers have Markdown for those who ask.
const WANTED: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5";

/// An address on the web that a page may be asked of: `http` or `https`, without a password in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    url: Url,
    place: Place,
}

/// What an address leads to.
#[derive(Debug)]
pub enum Fetched {
    /// A page.
    Page(Page),
    /// A redirect to another host, which was not followed.
    Elsewhere(PageAddress),
}

/// A page.
#[derive(Debug)]
pub struct Page {
    /// Where it is from, after redirects.
    pub url: Url,
    /// The server's status.
    pub status: StatusCode,
    /// `Content-Type` as the server wrote it.
    pub content_type: Option<String>,
    /// Its content, unpacked.
    pub body: Vec<u8>,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// The address is none that a page may be asked of.
    #[error("{0}")]
    Address(String),
    /// Its host may not be reached, or cannot be.
    #[error("{how}{0}", how = if .0.is_refusal() { "refused to " } else { "" })]
    Refused(#[from] EgressError),
    /// It redirects again and again.
    #[error("it redirects more than {MOST_REDIRECTS} times")]
    Redirects,
    /// It is longer than it may be, in bytes.
    #[error("the page has more than {0} bytes")]
    TooLong(usize),
    /// There is no answer, or not all of one.
    #[error("{0}")]
    Http(#[from] HttpError),
}

impl PageAddress {
    /// Reads an address.
    pub fn parse(text: &str) -> Result<Self, PageError> {
        let url = Url::parse(text.trim()).map_err(|error| {
            PageError::Address(format!("{:?} is not an address ({error}); write it whole, with https://", shown(text)))
        })?;
        Self::of(url)
    }

    fn of(mut url: Url) -> Result<Self, PageError> {
        let no = |why: String| Err(PageError::Address(why));
        if !matches!(url.scheme(), "http" | "https") {
            return no(format!("only http:// and https:// are fetched, not {}:", shown(url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return no("an address with a user or password in it is not fetched".to_owned());
        }
        url.set_fragment(None);
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return no("the address has no host".to_owned());
        };
        let host = Host::parse(host).map_err(|error: HostError| PageError::Address(error.to_string()))?;
        Ok(Self { place: Place { host, port }, url })
    }

    /// The address.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host as rules name it: with the port where it is not that of HTTP or HTTPS.
    pub fn host(&self) -> String {
        match self.place.port {
            80 | 443 => self.place.host.to_string(),
            _ => self.place.to_string(),
        }
    }

    /// Whether it names this machine or an IP address, so that no name server decides where it leads.
    pub fn is_literal(&self) -> bool {
        matches!(self.place.host, Host::Address(_)) || self.place.host.is_own_machine()
    }

    /// Why it is sure to be refused, whatever a name server says.
    pub fn refusal(&self, resolver: &dyn Resolver) -> Option<PageError> {
        match &self.place.host {
            Host::Address(address) if !resolver.may_reach(*address) => {
                Some(EgressError::NotPublic { place: self.place.clone(), address: *address }.into())
            }
            host if host.is_own_machine() && !resolver.may_reach(IpAddr::from([127, 0, 0, 1])) => {
                Some(EgressError::OwnMachine(self.place.clone()).into())
            }
            _ => None,
        }
    }

    /// The addresses of its host, each of which may be reached.
    async fn judged(&self, resolver: &dyn Resolver) -> Result<Vec<IpAddr>, PageError> {
        if let Some(refusal) = self.refusal(resolver) {
            return Err(refusal);
        }
        let unreachable = |error: String| EgressError::Unreachable { place: self.place.clone(), error };
        let addresses = match &self.place.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let found = tokio::time::timeout(LOOKUP_TIME, resolver.addresses(name)).await;
                let found = found.map_err(|_| unreachable("the look-up of its name took too long".to_owned()))?;
                found.map_err(|error| unreachable(error.to_string()))?
            }
        };
        // One that must not be reached speaks against the whole host: its owner chooses which of them is tried.
        match addresses.iter().copied().find(|address| !resolver.may_reach(*address)) {
            Some(address) => Err(EgressError::NotPublic { place: self.place.clone(), address }.into()),
            None => Ok(addresses),
        }
    }

    /// What this one redirects to.
    fn redirected(&self, location: &str) -> Result<Self, PageError> {
        let url = self.url.join(location).map_err(|error| {
            PageError::Address(format!("it redirects to {:?}, which is not an address ({error})", shown(location)))
        })?;
        Self::of(url)
    }

    /// Whether who asked for this one has asked for that one, too.
    fn covers(&self, other: &Self) -> bool {
        let is_as_safe = self.url.scheme() == "http" || other.url.scheme() == "https";
        self.host() == other.host() && is_as_safe
    }
}

/// Fetches a page of at most `max_bytes`, unpacked. Redirects are followed as long as they stay at the host.
pub async fn page(
    address: &PageAddress,
    options: &HttpOptions,
    resolver: &Arc<dyn Resolver>,
    max_bytes: usize,
) -> Result<Fetched, PageError> {
    let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(WANTED))]);
    page_with(address, &headers, options, resolver, max_bytes).await
}

/// The same, asked for with these headers, which go to no other host.
pub async fn page_with(
    address: &PageAddress,
    headers: &HeaderMap,
    options: &HttpOptions,
    resolver: &Arc<dyn Resolver>,
    max_bytes: usize,
) -> Result<Fetched, PageError> {
    let mut address = address.clone();
    for _ in 0..=MOST_REDIRECTS {
        let is_by_proxy = options.proxy_for(&address.url).is_some();
        let http = match address.judged(&**resolver).await {
            Ok(found) if !is_by_proxy => {
                let host = address.url.host_str().unwrap_or_default().to_owned();
                let found: Vec<SocketAddr> =
                    found.into_iter().map(|ip| SocketAddr::new(ip, address.place.port)).collect();
                Http::pinned(options.clone(), host, found)
            }
            Ok(_) => Http::new(options.clone()),
            // Behind a proxy a machine may know no names.
            Err(PageError::Refused(EgressError::Unreachable { .. })) if is_by_proxy => Http::new(options.clone()),
            Err(error) => return Err(error),
        };
        let mut answer = http.get(&address.url, headers.clone()).await?;
        let header =
            |name| answer.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        if answer.status().is_redirection()
            && let Some(location) = header(LOCATION)
        {
            let next = address.redirected(&location)?;
            if !address.covers(&next) {
                return Ok(Fetched::Elsewhere(next));
            }
            address = next;
            continue;
        }
        let (status, content_type) = (answer.status(), header(CONTENT_TYPE));
        if header(CONTENT_LENGTH)
            .and_then(|length| length.parse::<usize>().ok())
            .is_some_and(|length| length > max_bytes)
        {
            return Err(PageError::TooLong(max_bytes));
        }
        let mut body = Vec::new();
        while let Some(more) = answer.chunk().await? {
            if body.len() + more.len() > max_bytes {
                return Err(PageError::TooLong(max_bytes));
            }
            body.extend_from_slice(&more);
        }
        return Ok(Fetched::Page(Page { url: address.url, status, content_type, body }));
    }
    Err(PageError::Redirects)
}

/// What somebody wrote, as much of it as tells what it is.
fn shown(text: &str) -> String {
    const MOST_CHARS: usize = 100;
    text.chars().take(MOST_CHARS).collect()
}

#[cfg(test)]
mod tests;
