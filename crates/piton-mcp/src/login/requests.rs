//! The requests of a login, by our own client: its proxies and certificates, no cookies, answers of a bounded size, and none to a
//! place that the server must not send us to.
//!
//! What a server and its issuer say names further addresses. Those are of the public Internet, or in the same kind of place as the
//! server that the user named: a server on this machine may name others on it, one in a private network others in private
//! networks. Of a name every address counts, and the connection goes to one that was judged.

use piton_http::egress::address::{is_of_this_machine, is_public};
use piton_http::egress::{Resolver, SystemResolver};
use piton_http::{HttpOptions, Url};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use url::Host;

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a name may take to be looked up, and the server to say where it is.
const LOOKUP_TIME: Duration = Duration::from_secs(10);
/// The largest answer that is read.
const MOST_ANSWER_BYTES: usize = 1 << 20;
/// Redirects that are followed where they may be.
const MOST_REDIRECTS: usize = 5;

/// What is asked.
type Asked = http::Request<Vec<u8>>;

/// What asks on behalf of a login.
pub(super) struct Requests {
    /// The server, as the user named it.
    server: Url,
    options: HttpOptions,
    resolver: Arc<dyn Resolver>,
}

/// What kind of place an address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Public,
    /// This machine.
    Machine,
    /// A private network.
    Private,
    /// Link-local, a cloud's metadata service, multicast, reserved: nobody's server.
    Other,
}

impl Ground {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            plain if plain.is_loopback() => Self::Machine,
            IpAddr::V4(v4) if v4.is_private() || (v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64) => {
                Self::Private
            }
            IpAddr::V6(v6) if v6.is_unique_local() => Self::Private,
            plain if !is_public(plain) => Self::Other,
            plain if is_of_this_machine(plain) => Self::Machine,
            IpAddr::V4(_) | IpAddr::V6(_) => Self::Public,
        }
    }
}

impl OAuthHttpClient for Requests {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let limit = request.timeout.unwrap_or(REQUEST_TIMEOUT);
            let follows = request.redirect_policy == OAuthHttpRedirectPolicy::Follow;
            match tokio::time::timeout(limit, self.ask(request.request, follows)).await {
                Ok(answer) => answer,
                Err(_) => Err("no answer in time".into()),
            }
        })
    }
}

impl Requests {
    /// For the login to this server.
    pub(super) fn of(server: Url, options: HttpOptions) -> Self {
        Self { server, options, resolver: Arc::new(SystemResolver) }
    }

    async fn ask(&self, mut request: Asked, follows: bool) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        for _ in 0..=MOST_REDIRECTS {
            let url = Url::parse(&request.uri().to_string())?;
            let client = match self.judged(&url).await? {
                Some(addresses) => piton_http::pinned(&url, &self.options, &addresses)?,
                None => piton_http::client(&url, &self.options)?,
            };
            let mut answer = client.execute(request.clone().try_into()?).await?;
            let follows = follows && request.method() == http::Method::GET;
            if let Some(next) = redirected(&answer, &url).filter(|_| follows) {
                *request.uri_mut() = next.as_str().parse()?;
                continue;
            }
            let mut whole = http::Response::new(Vec::new());
            (*whole.status_mut(), *whole.headers_mut()) = (answer.status(), answer.headers().clone());
            while let Some(piece) = answer.chunk().await? {
                whole.body_mut().extend_from_slice(&piece);
                if whole.body().len() > MOST_ANSWER_BYTES {
                    return Err("the answer is too large".into());
                }
            }
            return Ok(whole);
        }
        Err("there are too many redirects".into())
    }

    /// The addresses by which this may be asked; `None`: the server itself, or a proxy, which looks up names by itself.
    pub(super) async fn judged(&self, url: &Url) -> Result<Option<Vec<IpAddr>>, String> {
        let place = |url: &Url| (url.host_str().map(str::to_ascii_lowercase), url.port_or_known_default());
        if place(url) == place(&self.server) {
            return Ok(None);
        }
        let host = url.host().ok_or_else(|| format!("{url} names no host"))?;
        let is_by_proxy = self.options.proxy_for(url).is_some();
        let addresses = match (literal(&host), &host) {
            (Some(address), _) => vec![address],
            (None, Host::Domain(name)) => match self.looked_up(name).await {
                Ok(addresses) => addresses,
                // Behind a proxy a machine may know no names.
                Err(_) if is_by_proxy => return Ok(None),
                Err(error) => return Err(format!("{host} cannot be looked up: {error}")),
            },
            (None, Host::Ipv4(_) | Host::Ipv6(_)) => Vec::new(),
        };
        let grounds: Vec<(IpAddr, Ground)> = addresses.iter().map(|address| (*address, Ground::of(*address))).collect();
        if let Some((address, ground)) = grounds.iter().find(|(_, ground)| *ground != Ground::Public) {
            let own = self.ground().await;
            if *ground == Ground::Other || grounds.iter().any(|(_, ground)| Some(*ground) != own) {
                let server = self.server.host_str().unwrap_or_default();
                return Err(format!(
                    "{server} sends the login to {host} ({address}), which is not on the public Internet; nothing was sent there"
                ));
            }
        }
        Ok((!is_by_proxy && literal(&host).is_none()).then_some(addresses))
    }

    async fn looked_up(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let found = tokio::time::timeout(LOOKUP_TIME, self.resolver.addresses(name)).await;
        found.map_err(|_| "it took too long".to_owned())?.map_err(|error| error.to_string())
    }

    /// Where the server is. Its name counts only where its certificate was checked at that address: whoever owns a name can have
    /// it lead anywhere.
    async fn ground(&self) -> Option<Ground> {
        if let Some(address) = literal(&self.server.host()?) {
            return Some(Ground::of(address));
        }
        if self.server.scheme() != "https" || self.options.proxy_for(&self.server).is_some() {
            return None;
        }
        let client = piton_http::client(&self.server, &self.options).ok()?;
        let answer = client.get(self.server.clone()).timeout(LOOKUP_TIME).send().await.ok()?;
        answer.remote_addr().map(|at| Ground::of(at.ip()))
    }
}

/// The address that a host is by itself, without a look-up.
fn literal<T: AsRef<str>>(host: &Host<T>) -> Option<IpAddr> {
    match host {
        Host::Ipv4(v4) => Some(IpAddr::V4(*v4)),
        Host::Ipv6(v6) => Some(IpAddr::V6(*v6)),
        Host::Domain(name) => {
            let name = name.as_ref().trim_end_matches('.').to_ascii_lowercase();
            (name == "localhost" || name.ends_with(".localhost")).then_some(IpAddr::from([127, 0, 0, 1]))
        }
    }
}

/// Where an answer leads on to, if it does, and not from a protected connection to an open one.
fn redirected(answer: &piton_http::Response, from: &Url) -> Option<Url> {
    let to = answer.headers().get("location").filter(|_| answer.status().is_redirection())?;
    let to = from.join(to.to_str().ok()?).ok()?;
    (to.scheme() == "https" || (to.scheme() == "http" && from.scheme() == "http")).then_some(to)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    struct Names;

    #[async_trait::async_trait]
    impl Resolver for Names {
        async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            let all: &[&str] = match name {
                "internal.example" => &["10.0.0.1"],
                "mixed.example" => &["93.184.215.14", "127.0.0.1"],
                "metadata.example" => &["169.254.169.254"],
                "here.example" => &["127.0.0.1"],
                "public.example" => &["93.184.215.14"],
                _ => return Err(io::ErrorKind::NotFound.into()),
            };
            Ok(all.iter().map(|text| text.parse().unwrap()).collect())
        }

        fn may_reach(&self, _: IpAddr) -> bool {
            false
        }
    }

    fn of(server: &str) -> Requests {
        let mut requests = Requests::of(Url::parse(server).unwrap(), HttpOptions::default());
        requests.resolver = Arc::new(Names);
        requests
    }

    async fn is_refused(server: &str, url: &str) -> bool {
        of(server).judged(&Url::parse(url).unwrap()).await.is_err()
    }

    #[tokio::test]
    async fn a_server_sends_nobody_to_places_that_it_is_not_in_itself() {
        for url in [
            "http://127.0.0.1:1/",
            "http://127.1:1/",
            "http://localhost:1/",
            "http://x.localhost./",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]/",
            "http://10.0.0.1/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://0.0.0.0/",
            "https://internal.example/",
            "https://mixed.example/",
            "https://metadata.example/",
            "https://here.example/",
        ] {
            // The name of a server does not count without a certificate.
            for server in ["https://93.184.215.14/mcp", "http://here.example/mcp"] {
                let server_is = Url::parse(server).unwrap().host_str() == Url::parse(url).unwrap().host_str();
                assert!(is_refused(server, url).await || server_is, "{server} names {url}");
            }
        }
        assert!(!is_refused("https://93.184.215.14/mcp", "https://public.example/").await);
        assert!(!is_refused("http://10.0.0.1:8000/mcp", "http://10.0.0.1:8000/token").await);
        assert!(!is_refused("http://10.0.0.1/mcp", "https://192.168.1.1/").await);
        assert!(!is_refused("http://127.0.0.1:8000/mcp", "http://localhost:9000/").await);
        assert!(!is_refused("http://localhost:8000/mcp", "http://here.example:9000/").await);
        for url in ["http://169.254.169.254/", "http://10.0.0.1/", "http://mixed.example/"] {
            assert!(is_refused("http://127.0.0.1:8000/mcp", url).await, "{url}");
        }
    }

    #[tokio::test]
    async fn a_redirect_is_judged_before_it_is_followed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4_096]).await;
                let head = "HTTP/1.1 302 Found\r\nlocation: http://internal.example/\r\ncontent-length: 0\r\n\r\n";
                let _ = stream.write_all(head.as_bytes()).await;
            }
        });
        let mut asked = http::Request::new(Vec::new());
        *asked.uri_mut() = server.parse().unwrap();
        let error = of(&server).ask(asked, true).await.unwrap_err().to_string();
        assert!(error.contains("sends the login to internal.example (10.0.0.1)"), "{error}");
    }
}
