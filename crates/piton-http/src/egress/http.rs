//! An HTTP proxy: `CONNECT`, and requests with an absolute `http://` address.
//!
//! Of a plain request the head is made new, with the host that was judged, and without what is between client and proxy. What
//! follows is passed on as it is, and the connection serves this one request: whatever else the client sends through it goes to
//! the same host.

use super::client::{Refusals, in_time};
use super::relay::relay;
use super::{Egress, EgressError, HostError, Place};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of a request before its body.
const MOST_HEAD_BYTES: usize = 32 << 10;
/// Headers of a request.
const MOST_HEADERS: usize = 128;
/// How long a client that was answered may go on sending.
const LINGER: Duration = Duration::from_secs(1);
const HTTP: &str = "http://";
const HTTP_PORT: u16 = 80;
/// Headers that are between client and proxy. The host is set by what was judged.
const NOT_PASSED_ON: &[&str] = &[
    "connection",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

/// What a client asks for.
#[derive(Debug)]
struct Request {
    place: Place,
    /// What the host is told first; `None`: it is a tunnel.
    head: Option<Vec<u8>>,
    /// What the client has sent besides.
    rest: Vec<u8>,
}

/// A request that is answered by the proxy itself.
#[derive(Debug)]
enum Fault {
    NotHttp(&'static str),
    TooLong,
    NoHost(HostError),
}

/// One connection, from its first byte on.
pub(super) async fn serve(mut client: TcpStream, egress: &Egress, refusals: &Refusals) -> io::Result<()> {
    let request = match in_time(read(&mut client)).await? {
        Ok(request) => request,
        Err(Fault::NotHttp(what)) => return answer(&mut client, "400 Bad Request", what).await,
        Err(Fault::TooLong) => {
            return answer(&mut client, "431 Request Header Fields Too Large", "the request is too long").await;
        }
        Err(Fault::NoHost(error)) => return refuse(&mut client, &EgressError::NoHost(error), refusals).await,
    };
    match egress.connect(&request.place).await {
        Ok(mut host) => {
            match &request.head {
                Some(head) => host.write_all(head).await?,
                None => client.write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n").await?,
            }
            host.write_all(&request.rest).await?;
            relay(&mut client, &mut host).await
        }
        Err(error) if error.is_refusal() => refuse(&mut client, &error, refusals).await,
        Err(error) => answer(&mut client, "502 Bad Gateway", &error.to_string()).await,
    }
}

async fn refuse(client: &mut TcpStream, error: &EgressError, refusals: &Refusals) -> io::Result<()> {
    refusals.note(error);
    answer(client, "403 Refused by the sandbox", &format!("the sandbox refused: {error}")).await
}

/// Reads the head of a request.
async fn read(client: &mut TcpStream) -> io::Result<Result<Request, Fault>> {
    let mut bytes = Vec::new();
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match parse(&bytes) {
            Ok(None) if bytes.len() >= MOST_HEAD_BYTES => return Ok(Err(Fault::TooLong)),
            Ok(None) => {}
            Ok(Some(request)) => return Ok(Ok(request)),
            Err(fault) => return Ok(Err(fault)),
        }
    }
}

/// `None`: there is more to come.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Fault> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let end = match request.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Fault::TooLong),
        Err(_) => return Err(Fault::NotHttp("this is a proxy for HTTP and SOCKS5, and the request is neither")),
    };
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let rest = bytes[end..].to_vec();
    if method == "CONNECT" {
        let place = Place::parse(target, None).map_err(Fault::NoHost)?;
        return Ok(Some(Request { place, head: None, rest }));
    }
    let scheme = target.get(..HTTP.len()).filter(|scheme| scheme.eq_ignore_ascii_case(HTTP));
    let below = scheme.map(|scheme| &target[scheme.len()..]).ok_or(Fault::NotHttp(
        "this is a proxy: a request names an address that begins with http://; for others there is CONNECT",
    ))?;
    let (authority, path) = below.split_at(below.find(['/', '?', '#']).unwrap_or(below.len()));
    let place = Place::parse(authority, Some(HTTP_PORT)).map_err(Fault::NoHost)?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let version = request.version.unwrap_or_default();
    let mut head = format!("{method} {slash}{path} HTTP/1.{version}\r\nHost: {}\r\n", shown(&place)).into_bytes();
    for header in request.headers.iter() {
        if !NOT_PASSED_ON.iter().any(|name| header.name.eq_ignore_ascii_case(name)) {
            head.extend([header.name.as_bytes(), b": ", header.value, b"\r\n"].concat());
        }
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    Ok(Some(Request { place, head: Some(head), rest }))
}

/// As the host is used to be called: without the port that goes without saying.
fn shown(place: &Place) -> String {
    match place.port {
        HTTP_PORT => place.host.to_string(),
        _ => place.to_string(),
    }
}

/// Answers in the host's place, and closes the connection.
async fn answer(client: &mut TcpStream, status: &str, text: &str) -> io::Result<()> {
    let length = text.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}\n"
    );
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await?;
    // What arrives at a closed socket has the answer thrown away before it is read.
    let rest = async { while client.read(&mut [0; 1_024]).await.is_ok_and(|read| read > 0) {} };
    let _ = tokio::time::timeout(LINGER, rest).await;
    Ok(())
}
