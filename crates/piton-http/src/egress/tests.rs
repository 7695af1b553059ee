//! The proxy as a hostile client sees it, at a socket of this machine, with hosts of this machine behind names that are looked
//! up in a table.

use super::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Names and their addresses. The host of the test is of this machine; otherwise it judges as the real one does.
struct Table {
    names: BTreeMap<String, Vec<IpAddr>>,
    is_here_open: bool,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Resolver for Table {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(name.to_owned());
        self.names.get(name).cloned().ok_or_else(|| io::Error::other("no such name"))
    }

    fn may_reach(&self, address: IpAddr) -> bool {
        (self.is_here_open && address == HERE) || SystemResolver.may_reach(address)
    }
}

/// A proxy, and a host that answers every connection with what it has received first.
struct Scene {
    proxy: Proxy,
    at: SocketAddr,
    port: u16,
    table: Arc<Table>,
}

async fn scene(rules: &[&str], names: &[(&str, &[&str])]) -> Scene {
    scene_where(rules, names, true).await
}

async fn scene_where(rules: &[&str], names: &[(&str, &[&str])], is_here_open: bool) -> Scene {
    let host = TcpListener::bind((HERE, 0)).await.unwrap();
    let port = host.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = host.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 4_096];
                let read = stream.read(&mut buffer).await.unwrap();
                stream.write_all(b"heard: ").await.unwrap();
                stream.write_all(&buffer[..read]).await.unwrap();
            });
        }
    });
    let rules = rules.iter().map(|rule| HostRule::parse(&rule.replace("PORT", &port.to_string())).unwrap()).collect();
    let parsed = |all: &[&str]| all.iter().map(|text| text.parse().unwrap()).collect();
    let names = names.iter().map(|(name, all)| ((*name).to_owned(), parsed(all))).collect();
    let table = Arc::new(Table { names, is_here_open, asked: Mutex::default() });
    let listener = TcpListener::bind((HERE, 0)).await.unwrap();
    let at = listener.local_addr().unwrap();
    let egress = Egress::over(rules, Arc::clone(&table) as Arc<dyn Resolver>);
    Scene { proxy: Proxy::start(Arc::new(egress), listener), at, port, table }
}

impl Scene {
    /// Sends this, and answers with all that comes back.
    async fn send(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(self.at).await.unwrap();
        stream.write_all(bytes.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        // A connection that was cut has said what it had to say.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn connect(&self, place: &str) -> String {
        let place = place.replace("PORT", &self.port.to_string());
        self.send(format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\nhello")).await
    }

    /// By name, as SOCKS5 has it. The answer without its first bytes; `Err` is the code of a refusal.
    async fn socks(&self, name: &[u8], port: u16) -> Result<String, u8> {
        let length = u8::try_from(name.len()).unwrap();
        self.socks_request(&[&[5, 1, 0, 3, length], name, &port.to_be_bytes()].concat()).await
    }

    async fn socks_request(&self, request: &[u8]) -> Result<String, u8> {
        let mut stream = TcpStream::connect(self.at).await.unwrap();
        stream.write_all(&[5, 1, 0]).await.unwrap();
        let mut agreed = [0; 2];
        stream.read_exact(&mut agreed).await.unwrap();
        assert_eq!(agreed, [5, 0]);
        stream.write_all(request).await.unwrap();
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).await.unwrap();
        if reply[1] != 0 {
            return Err(reply[1]);
        }
        stream.write_all(b"hello").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        Ok(answer)
    }

    fn asked(&self) -> Vec<String> {
        self.table.asked.lock().unwrap().clone()
    }
}

const OPEN: &[&str] = &["example.org:PORT", "*.example.org:PORT"];
const NAMES: &[(&str, &[&str])] = &[("example.org", &["127.0.0.1"]), ("www.example.org", &["127.0.0.1"])];

#[tokio::test]
async fn an_open_host_is_reached_in_each_way_that_clients_know() {
    let scene = scene(OPEN, NAMES).await;
    let port = scene.port;
    let tunnel = scene.connect("Example.ORG.:PORT").await;
    assert_eq!(tunnel, "HTTP/1.1 200 Connection Established\r\n\r\nheard: hello");
    assert!(scene.connect("www.example.org:PORT").await.ends_with("heard: hello"));
    assert_eq!(scene.socks(b"example.org", port).await.as_deref(), Ok("heard: hello"));
    assert!(scene.proxy.refused().is_empty());
}

#[tokio::test]
async fn a_plain_request_goes_to_the_host_that_was_judged_with_nothing_for_the_proxy_in_it() {
    let scene = scene(OPEN, NAMES).await;
    let port = scene.port;
    let request = format!(
        "POST HTTP://example.org:{port}/a//b/../c?d=e HTTP/1.1\r\nHost: evil.test\r\nProxy-Authorization: Basic x\r\n\
         Proxy-Connection: keep-alive\r\nAccept: */*\r\nContent-Length: 4\r\n\r\n"
    );
    let heard = format!(
        "heard: POST /a//b/../c?d=e HTTP/1.1\r\nHost: example.org:{port}\r\nAccept: */*\r\nContent-Length: 4\r\n\
         Connection: close\r\n\r\n"
    );
    assert_eq!(scene.send(request).await, heard);
    let bare = scene.send(format!("GET http://example.org:{port}?q HTTP/1.0\r\n\r\n")).await;
    assert_eq!(bare, format!("heard: GET /?q HTTP/1.0\r\nHost: example.org:{port}\r\nConnection: close\r\n\r\n"));
}

#[tokio::test]
async fn a_host_that_is_not_open_is_refused_with_the_rule_that_would_open_it_and_never_looked_up() {
    let scene = scene(OPEN, &[("evil.test", &["127.0.0.1"])]).await;
    let answer = scene.connect("secret.evil.test:443").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("connect to secret.evil.test:443; `--net secret.evil.test`"), "{answer}");
    let plain = scene.send("GET http://evil.test:8080/ HTTP/1.1\r\nHost: example.org\r\n\r\n").await;
    assert!(plain.contains("`--net evil.test:8080`"), "{plain}");
    assert_eq!(scene.socks(b"evil.test", 80).await, Err(2));
    // A port beside the open one.
    assert_eq!(scene.socks(b"example.org", 22).await, Err(2));
    assert_eq!(scene.asked(), [""; 0]);
    let refused = scene.proxy.refused();
    assert_eq!(refused.len(), 4, "{refused:?}");
    assert!(refused.iter().any(|text| text.starts_with("connect to evil.test:80;")), "{refused:?}");
}

#[tokio::test]
async fn a_host_with_one_address_that_is_not_public_is_refused() {
    for address in [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fd00:ec2::254",
        "0.0.0.0",
    ] {
        let names: &[(&str, &[&str])] = &[("example.org", &["93.184.215.14", address])];
        let scene = scene_where(OPEN, names, false).await;
        let answer = scene.connect("example.org:PORT").await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("not public"), "{address}: {answer}");
        assert_eq!(scene.socks(b"example.org", scene.port).await, Err(2), "{address}");
        assert_eq!(scene.proxy.refused().len(), 1, "{address}");
    }
}

#[tokio::test]
async fn a_host_with_odd_bytes_is_refused_whatever_it_ends_in() {
    let scene = scene(OPEN, NAMES).await;
    let port = scene.port;
    let names: [&[u8]; 8] = [
        b"evil.test\0.example.org",
        b"\0.example.org",
        b"evil.test\n.example.org",
        b"evil.test#.example.org",
        b"evil.test/.example.org",
        b"\xff\xfe.example.org",
        b"",
        b"..example.org",
    ];
    for name in names {
        assert_eq!(scene.socks(name, port).await, Err(2), "{}", name.escape_ascii());
    }
    for authority in ["example.org@evil.test:80", "evil.test%00.example.org:80", "example.org:80:80", "example.org"] {
        let answer = scene.connect(authority).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{authority}: {answer}");
    }
    assert_eq!(scene.asked(), [""; 0]);
}

#[tokio::test]
async fn addresses_are_judged_as_names_are() {
    let scene = scene_where(OPEN, &[], false).await;
    for place in ["127.0.0.1:PORT", "0x7f.1:PORT", "2130706433:PORT", "[::ffff:127.0.0.1]:PORT", "169.254.169.254:80"] {
        let answer = scene.connect(place).await;
        assert!(answer.contains("is not public"), "{place}: {answer}");
    }
    let [high, low] = scene.port.to_be_bytes();
    assert_eq!(scene.socks_request(&[5, 1, 0, 1, 127, 0, 0, 1, high, low]).await, Err(2));
    assert_eq!(scene.socks_request(&[&[5, 1, 0, 4][..], &[0; 15], &[1, high, low]].concat()).await, Err(2));
    let public = scene.connect("93.184.215.14:443").await;
    assert!(public.contains("`--net 93.184.215.14`"), "an address is open if it is listed: {public}");
}

#[tokio::test]
async fn the_clients_own_machine_is_refused_by_name_and_no_rule_is_suggested() {
    let scene = scene(OPEN, &[("localhost", &["93.184.215.14"])]).await;
    for place in ["localhost:80", "LOCALHOST.:8080", "app.localhost:443"] {
        let answer = scene.connect(place).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("which no rule opens"), "{place}: {answer}");
        assert!(!answer.contains("--net"), "{place}: {answer}");
    }
    assert_eq!(scene.asked(), [""; 0]);
    for rule in ["localhost", "localhost:8080", "*.localhost", "a.localhost"] {
        assert!(HostRule::parse(rule).is_err(), "{rule}");
    }
}

#[tokio::test]
async fn only_connections_are_made_and_only_without_authentication() {
    let scene = scene(OPEN, NAMES).await;
    // BIND and UDP ASSOCIATE, a kind of address that is none, and a client that insists on a password.
    assert_eq!(scene.socks_request(&[5, 2, 0, 1, 127, 0, 0, 1, 0, 80]).await, Err(7));
    assert_eq!(scene.socks_request(&[5, 3, 0, 1, 127, 0, 0, 1, 0, 80]).await, Err(7));
    assert_eq!(scene.socks_request(&[5, 1, 0, 9, 127, 0, 0, 1, 0, 80]).await, Err(8));
    assert_eq!(scene.send([5, 1, 2]).await.as_bytes(), "\u{5}\u{fffd}".as_bytes());
}

#[tokio::test]
async fn what_is_no_request_is_answered_and_closed() {
    let scene = scene(OPEN, NAMES).await;
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_owned(), "400"),
        ("GET https://example.org/ HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("GET ftp://example.org/ HTTP/1.1\r\n\r\n".to_owned(), "400"),
        ("\u{4}\u{1} socks 4\r\n\r\n".to_owned(), "400"),
        (format!("GET http://example.org/ HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200)), "431"),
        (format!("GET http://example.org/ HTTP/1.1\r\na: {}", "x".repeat(40_000)), "431"),
    ] {
        let answer = scene.send(&request).await;
        let shown: String = request.chars().take(60).collect();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
    }
}

#[tokio::test]
async fn a_host_that_cannot_be_reached_is_no_refusal() {
    let gone = TcpListener::bind((HERE, 0)).await.unwrap().local_addr().unwrap().port();
    let scene = scene(&[&format!("example.org:{gone}"), "nowhere.test"], NAMES).await;
    let answer = scene.connect(&format!("example.org:{gone}")).await;
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("refused"), "{answer}");
    assert_eq!(scene.socks(b"nowhere.test", 443).await, Err(4));
    assert!(scene.proxy.refused().is_empty());
}

#[tokio::test]
async fn with_the_proxy_its_socket_and_its_connections_end() {
    let scene = scene(OPEN, NAMES).await;
    let mut held = TcpStream::connect(scene.at).await.unwrap();
    held.write_all(format!("CONNECT example.org:{} HTTP/1.1\r\n\r\n", scene.port).as_bytes()).await.unwrap();
    let mut answer = [0; 39];
    held.read_exact(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    let at = scene.at;
    drop(scene);
    assert!(!held.read(&mut answer).await.is_ok_and(|read| read > 0));
    assert!(TcpStream::connect(at).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_say_what_it_wants_is_closed() {
    let scene = scene(OPEN, NAMES).await;
    let mut silent = TcpStream::connect(scene.at).await.unwrap();
    assert!(!silent.read(&mut [0]).await.is_ok_and(|read| read > 0));
    let mut half = TcpStream::connect(scene.at).await.unwrap();
    half.write_all(b"CONNECT exam").await.unwrap();
    assert!(!half.read(&mut [0]).await.is_ok_and(|read| read > 0));
}
