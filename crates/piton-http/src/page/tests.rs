//! Servers that lead astray, and addresses in every dress.

use super::*;
use async_trait::async_trait;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;

/// Names of the test, all at this machine, whose addresses count as public but for one.
#[derive(Debug, Default)]
struct Names {
    /// What each look-up of `rebinds.test` answers, in order; then this machine.
    answers: Mutex<Vec<IpAddr>>,
}

#[async_trait]
impl Resolver for Names {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let here = IpAddr::from([127, 0, 0, 1]);
        Ok(match name {
            "good.test" | "other.test" => vec![here],
            "metadata.test" => vec![IpAddr::from([169, 254, 169, 254])],
            "mixed.test" => vec![here, IpAddr::from([10, 0, 0, 1])],
            "rebinds.test" => vec![self.answers.lock().unwrap().pop().unwrap_or(IpAddr::from([10, 0, 0, 1]))],
            _ => return Err(io::Error::other("no such name")),
        })
    }

    fn may_reach(&self, address: IpAddr) -> bool {
        address == IpAddr::from([127, 0, 0, 1]) || crate::egress::address::is_public(address)
    }
}

/// A server that answers by path; the port.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let read = client.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).into_owned();
            let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
            let _ = client.write_all(&answer(&path));
        }
    });
    port
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}

fn text(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n{body}").into_bytes()
}

async fn fetched(url: &str, resolver: Names) -> Result<Fetched, PageError> {
    let resolver: Arc<dyn Resolver> = Arc::new(resolver);
    let options = HttpOptions { stall_ms: 30_000, ..HttpOptions::default() };
    page(&PageAddress::parse(url)?, &options, &resolver, 1_000).await
}

async fn refused(url: &str) -> String {
    match fetched(url, Names::default()).await {
        Ok(fetched) => panic!("{url}: {fetched:?}"),
        Err(error) => error.to_string(),
    }
}

/// The table of attacks by addresses, row 50 of the list of attacks.
#[tokio::test]
async fn addresses_that_are_not_public_are_refused_in_every_dress() {
    let system: Arc<dyn Resolver> = Arc::new(crate::egress::SystemResolver);
    for host in [
        "169.254.169.254",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "017700000001",
        "0.0.0.0",
        "10.0.0.1",
        "192.168.1.1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd00:ec2::254]",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "１２７.0.0.1",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}/latest/meta-data/");
            let address = PageAddress::parse(&url).unwrap();
            assert!(address.refusal(&*system).is_some(), "{url}");
            let error = page(&address, &HttpOptions::default(), &system, 10).await.expect_err("refused");
            assert!(matches!(error, PageError::Refused(_)), "{url}: {error}");
        }
    }
    for address in ["https://93.184.215.14/", "https://[2600::1]/", "https://example.org/"] {
        assert!(PageAddress::parse(address).unwrap().refusal(&*system).is_none(), "{address}");
    }
}

#[tokio::test]
async fn names_of_addresses_that_are_not_public_are_refused_after_they_were_looked_up() {
    assert!(refused("http://metadata.test/").await.contains("169.254.169.254 is not public"));
    assert!(refused("http://mixed.test/").await.contains("10.0.0.1 is not public"));
    assert!(refused("http://unknown.test/").await.contains("cannot connect to unknown.test:80"));
}

#[tokio::test]
async fn only_whole_addresses_of_the_web_without_passwords_are_asked() {
    for (url, why) in [
        ("file:///etc/passwd", "only http:// and https://"),
        ("gopher://good.test/", "only http:// and https://"),
        ("javascript:alert(1)", "only http:// and https://"),
        ("data:text/html,x", "only http:// and https://"),
        ("good.test/x", "is not an address"),
        ("", "is not an address"),
        ("http://user:secret@good.test/", "a user or password"),
        ("http://good.test:0x/", "is not an address"),
        ("http:///", "is not an address"),
        ("http://exa%00mple/", "is not an address"),
    ] {
        let error = refused(url).await;
        assert!(error.contains(why) && !error.contains("secret"), "{url}: {error}");
    }
    assert_eq!(PageAddress::parse("HTTPS://Example.ORG./a#b").unwrap().host(), "example.org");
    assert_eq!(PageAddress::parse("http://example.org:8080/").unwrap().host(), "example.org:8080");
}

#[tokio::test]
async fn a_redirect_is_followed_at_its_host_only_and_each_is_judged() {
    let port = serve(|path| match path {
        "/a" => redirect("/b"),
        "/b" => text("here"),
        "/loop" => redirect("/loop"),
        "/away" => redirect("http://other.test/x"),
        "/home" => redirect("http://127.0.0.1:1/"),
        "/metadata" => redirect("http://169.254.169.254/latest/"),
        "/file" => redirect("file:///etc/passwd"),
        "/down" => redirect("//user:secret@good.test/"),
        _ => redirect(&format!("{path}x")),
    });
    let at = |path: &str| format!("http://good.test:{port}{path}");
    match fetched(&at("/a"), Names::default()).await {
        Ok(Fetched::Page(page)) => assert_eq!((page.body.as_slice(), page.url.path()), (&b"here"[..], "/b")),
        other => panic!("{other:?}"),
    }
    for (path, host) in [("/away", "other.test"), ("/home", "127.0.0.1:1"), ("/metadata", "169.254.169.254")] {
        match fetched(&at(path), Names::default()).await {
            Ok(Fetched::Elsewhere(to)) => assert_eq!(to.host(), host),
            other => panic!("{path}: {other:?}"),
        }
    }
    for (path, why) in [
        ("/loop", "redirects more than 10 times"),
        ("/longer", "redirects more than 10 times"),
        ("/file", "only http:// and https://"),
        ("/down", "a user or password"),
    ] {
        let error = refused(&at(path)).await;
        assert!(error.contains(why), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_between_two_requests_is_judged_at_each() {
    let port = serve(|path| if path == "/a" { redirect("/b") } else { text("inner") });
    let names = Names { answers: Mutex::new(vec![IpAddr::from([127, 0, 0, 1])]) };
    let error = fetched(&format!("http://rebinds.test:{port}/a"), names).await.expect_err("refused");
    assert!(error.to_string().contains("10.0.0.1 is not public"), "{error}");
}

#[tokio::test]
async fn a_page_is_no_longer_than_it_may_be_packed_or_not() {
    let packed = |size: usize| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&vec![b'x'; size]).unwrap();
        let body = packer.finish().unwrap();
        let mut answer =
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
                .to_vec();
        answer.extend(body);
        answer
    };
    let bomb = packed(20 << 20);
    let port = serve(move |path| match path {
        "/fits" => text(&"x".repeat(1_000)),
        "/long" => text(&"x".repeat(1_001)),
        "/said" => b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n".to_vec(),
        "/bomb" => bomb.clone(),
        _ => packed(1_000),
    });
    let at = |path: &str| format!("http://good.test:{port}{path}");
    for path in ["/fits", "/packed"] {
        match fetched(&at(path), Names::default()).await {
            Ok(Fetched::Page(page)) => assert_eq!(page.body.len(), 1_000, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    for path in ["/long", "/said", "/bomb"] {
        assert_eq!(refused(&at(path)).await, "the page has more than 1000 bytes", "{path}");
    }
}

#[tokio::test]
async fn through_a_proxy_what_is_known_of_a_name_is_judged_all_the_same() {
    let proxy = serve(|asked| text(&format!("by the proxy: {asked}")));
    let proxies = crate::options::Proxies::all(format!("http://127.0.0.1:{proxy}"));
    let options = HttpOptions { proxies, ..HttpOptions::default() };
    let resolver: Arc<dyn Resolver> = Arc::new(Names::default());
    let by_proxy = |url: &str| {
        let (address, options, resolver) = (PageAddress::parse(url).unwrap(), options.clone(), Arc::clone(&resolver));
        async move { page(&address, &options, &resolver, 1_000).await }
    };
    match by_proxy("http://known.only.to.the.proxy/x").await {
        Ok(Fetched::Page(page)) => {
            assert_eq!(page.body, b"by the proxy: http://known.only.to.the.proxy/x");
        }
        other => panic!("{other:?}"),
    }
    for url in ["http://metadata.test/", "http://10.0.0.1/", "http://mixed.test/"] {
        assert!(matches!(by_proxy(url).await, Err(PageError::Refused(_))), "{url}");
    }
}
