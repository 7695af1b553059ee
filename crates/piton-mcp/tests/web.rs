//! Servers over streamable HTTP, and logging in to them. The authorization server is one of the tree (`tests/servers/web.py`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Place, http, is_failed, server, until};
use piton_core::call::Status;
use piton_mcp::entry::Transport;
use piton_mcp::{Entry, is_logged_in, login, logout};
use piton_tools::servers::{ServerState, Servers as _};
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::Mutex;

/// A server of the tree, for as long as this is kept.
struct Web {
    process: Child,
    port: u16,
}

impl Web {
    fn start(what: &[&str]) -> Self {
        let script = common::servers().join("web.py").into_os_string();
        let argv = ["python3".into(), script].into_iter().chain(what.iter().map(|word| (*word).into()));
        let spawn = Spawn::new(argv, &Env::new(common::environment()), "/", Confinement::User);
        let streams = Streams { stdin: Stdio::piped(), stdout: Stdio::piped(), stderr: Stdio::inherit() };
        let mut process = spawn.start(Group::Own, streams).unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap() }
    }

    fn entry(&self) -> Entry {
        http("s", &format!("http://127.0.0.1:{}/mcp", self.port))
    }

    async fn log(&self) -> Vec<String> {
        let text =
            piton_http::fetch(&format!("http://127.0.0.1:{}/log", self.port), &Default::default(), 1 << 20).await;
        serde_json::from_slice(&text.unwrap()).unwrap()
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Follows addresses as a browser does, once it is given one.
fn browser(url: &str) {
    let mut next = url.to_owned();
    tokio::spawn(async move {
        let options = piton_http::HttpOptions::default();
        loop {
            let url = piton_http::Url::parse(&next).unwrap();
            let answer = piton_http::client(&url, &options).unwrap().get(url.clone()).send().await.unwrap();
            match answer.headers().get("location") {
                Some(to) => next = url.join(to.to_str().unwrap()).unwrap().to_string(),
                None => return answer.text().await.unwrap(),
            }
        }
    });
}

async fn logged_in(place: &Place, web: &Web) -> piton_mcp::LoggedIn {
    login(&web.entry(), &place.surroundings(), &browser).await.unwrap()
}

#[tokio::test]
async fn a_server_is_reached_over_the_web_with_the_headers_of_its_entry() {
    let (place, web) = (Place::new(), Web::start(&[]));
    let mut entry = web.entry();
    if let Transport::Http { headers, .. } = &mut entry.transport {
        headers.insert("X-Own".to_owned(), "with a header".to_owned());
    }
    let client = place.client([entry]);
    assert_eq!(place.call(&client, "s", "echo", "").await.text, "from the web, with a header");
    assert!(server(&client, "s").problems[0].contains("broken"));
    client.close().await;
}

/// Words for people: what happened and what to do, and nothing raw.
#[track_caller]
fn is_plain(why: &str) {
    for raw in ["\u{1b}", "::", "Transport [", "Some(", "Error(", "rmcp", "ServerJson", "s3cret"] {
        assert!(!why.contains(raw), "{raw:?} in {why}");
    }
}

#[tokio::test]
async fn what_is_no_server_is_named() {
    for (what, said) in [
        ("redirects", "redirects (HTTP 307), which is not followed"),
        ("redirects", "into /test/.mcp.json if you trust it: http://127.0.0.1:1/elsewhere"),
        ("html", "answers with text/html and not with MCP; correct `url` in /test/.mcp.json"),
        ("not_json", "not a message of MCP: hello \\u{1b}[31mthere"),
        ("cuts", "the request to http://127.0.0.1"),
        ("refuses", "refuses to work with Piton: no licence (-32000)"),
        ("status=400", "answered with HTTP 400 Bad Request (it says: no \\u{1b}[31mway)"),
        ("status=401", "wants the user to log in"),
        ("status=403", "refuses access (HTTP 403)"),
        ("status=404", "is not where an MCP server listens (HTTP 404 Not Found)"),
        ("status=405", "add \"type\": \"sse\" if the server is of the older kind"),
        ("status=429", "takes no more requests for now"),
        ("status=500", "failed with a fault of its own (HTTP 500 Internal Server Error)"),
        ("status=503", "HTTP 503 Service Unavailable"),
        ("sleeps", "did not answer within 3 s; `startTimeout` in /test/.mcp.json gives it longer"),
    ] {
        let (place, web) = (Place::new(), Web::start(&[what]));
        let mut entry = web.entry();
        if what == "sleeps" {
            entry.start_timeout = std::time::Duration::from_secs(3);
        }
        let client = place.client([entry]);
        let why = client.ready("s").await.unwrap_err();
        assert!(why.contains(said), "{what}: {why}");
        is_plain(&why);
        client.close().await;
    }
}

#[tokio::test]
async fn a_call_that_is_not_answered_says_why() {
    for (what, said) in [
        ("call=500", "failed with a fault of its own (HTTP 500 Internal Server Error)"),
        ("call=404", "is not where an MCP server listens"),
        ("call=html", "answers with text/html"),
        ("call=not_json", "not a message of MCP: hello \\u{1b}[31mthere"),
    ] {
        let (place, web) = (Place::new(), Web::start(&[what]));
        let client = place.client([web.entry()]);
        let outcome = place.call(&client, "s", "echo", "").await;
        assert!(outcome.status == Status::Interrupted && outcome.text.contains(said), "{what}: {outcome:?}");
        is_plain(&outcome.text);
        client.close().await;
    }
}

#[tokio::test]
async fn an_address_where_nobody_is_says_what_to_do() {
    let (place, web) = (Place::new(), Web::start(&[]));
    let old = |name: &str, url: &str| {
        let transport = Transport::Sse { url: url.to_owned(), headers: Default::default(), login: Default::default() };
        common::entry(name, transport)
    };
    let plain = web.port;
    for (entry, said) in [
        (http("dns", "http://no-such-host.invalid/mcp"), "; start the server, or correct `url` in /test/.mcp.json"),
        (http("tls", &format!("https://127.0.0.1:{plain}/mcp")), "write http:// for https://"),
        (old("dns", "http://no-such-host.invalid/mcp"), "; start the server, or correct `url` in /test/.mcp.json"),
        (old("tls", &format!("https://127.0.0.1:{plain}/mcp")), "write http:// for https://"),
        (old("old", &format!("http://127.0.0.1:{plain}/mcp")), "HTTP 405 Method Not Allowed"),
    ] {
        let name = entry.name.clone();
        let client = place.client([entry]);
        let why = client.ready(&name).await.unwrap_err();
        assert!(why.contains(said), "{why}");
        is_plain(&why);
        client.close().await;
    }
    let place = Place::new();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client =
        place.client([http("gone", &format!("http://{gone}/mcp?key=s3cret")), http("file", "file:///etc/passwd")]);
    let why = client.ready("gone").await.unwrap_err();
    assert!(why.contains(&gone.to_string()) && !why.contains("s3cret"), "{why}");
    assert!(client.ready("file").await.unwrap_err().contains("file://, not http:// or https://"));
    assert!(is_failed(&until(&client, "file", is_failed).await));
    client.close().await;
}

#[tokio::test]
async fn a_call_whose_answer_is_lost_is_interrupted_and_not_made_again() {
    let (place, web) = (Place::new(), Web::start(&["hangs_up"]));
    let client = place.client([web.entry()]);
    let outcome = place.call(&client, "s", "echo", "").await;
    assert_eq!(outcome.status, Status::Interrupted, "{outcome:?}");
    let log = web.log().await;
    assert_eq!(log.iter().filter(|line| line.starts_with("tools/call")).count(), 1, "{log:?}");
    client.close().await;
}

#[tokio::test]
async fn a_call_in_a_session_that_has_ended_is_sent_once_and_the_next_opens_another() {
    let (place, web) = (Place::new(), Web::start(&["forgets"]));
    let client = place.client([web.entry()]);
    let outcome = place.call(&client, "s", "echo", "").await;
    assert_eq!(outcome.status, Status::Failed, "{outcome:?}");
    assert!(outcome.text.contains("was not sent again"), "{outcome:?}");
    let count = async |method: &str| web.log().await.iter().filter(|line| line.starts_with(method)).count();
    assert_eq!((count("tools/call").await, count("initialize ").await), (1, 1));
    assert_eq!(place.call(&client, "s", "echo", "").await.text, "from the web, without a header");
    assert_eq!((count("tools/call").await, count("initialize ").await), (2, 2));
    client.close().await;
}

#[tokio::test]
async fn somebody_logs_in_once() {
    let (place, web) = (Place::new(), Web::start(&["login"]));
    let client = place.client([web.entry()]);
    let outcome = place.call(&client, "s", "echo", "").await;
    assert!(outcome.status == Status::Failed && outcome.text.contains("`piton mcp login s`"), "{outcome:?}");
    assert_eq!(server(&client, "s").state, ServerState::NeedsLogin);
    assert!(!is_logged_in(&web.entry(), &place.surroundings()));

    let done = logged_in(&place, &web).await;
    assert_eq!(done.issuer, format!("http://127.0.0.1:{}", web.port));
    assert!(is_logged_in(&web.entry(), &place.surroundings()));
    assert_eq!(place.call(&client, "s", "echo", "").await.text, "from the web, without a header");
    client.close().await;
    let client = place.client([web.entry()]);
    assert_eq!(place.call(&client, "s", "echo", "").await.status, Status::Ok, "another session knows the token");
    client.close().await;

    assert_eq!(logout(&web.entry(), &place.surroundings()), Ok(true));
    assert_eq!(logout(&web.entry(), &place.surroundings()), Ok(false));
    let client = place.client([web.entry()]);
    assert!(client.ready("s").await.unwrap_err().contains("wants the user to log in"));
    client.close().await;
    logged_in(&place, &web).await;
    let log = web.log().await;
    assert_eq!(log.iter().filter(|line| *line == "register").count(), 1, "who we are is known: {log:?}");
}

#[tokio::test]
async fn a_server_of_the_old_transport_is_sent_the_token() {
    let (place, web) = (Place::new(), Web::start(&["login", "sse"]));
    let mut entry = web.entry();
    if let Transport::Http { url, headers, login } = entry.transport.clone() {
        entry.transport = Transport::Sse { url, headers, login };
    }
    let client = place.client([entry.clone()]);
    assert!(client.ready("s").await.unwrap_err().contains("`piton mcp login s`"));
    login(&entry, &place.surroundings(), &browser).await.unwrap();
    assert_eq!(place.call(&client, "s", "echo", "").await.text, "from the web, without a header");
    client.close().await;
}

/// As browsers do: a connection that nothing is sent on comes before the one that matters.
#[tokio::test]
async fn a_connection_that_says_nothing_holds_no_login_up() {
    let (place, web) = (Place::new(), Web::start(&["login"]));
    let idle = Mutex::new(None);
    let waits = |asked: &str| {
        let asked = piton_http::Url::parse(asked).unwrap();
        let back = asked.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
        let port = piton_http::Url::parse(&back).unwrap().port().unwrap();
        *idle.lock().unwrap() = Some(std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
        browser(asked.as_str());
    };
    // It would be given up after 30 seconds.
    let limit = std::time::Duration::from_secs(25);
    tokio::time::timeout(limit, login(&web.entry(), &place.surroundings(), &waits)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_login_that_is_refused_says_so() {
    let (place, web) = (Place::new(), Web::start(&["login", "denies"]));
    let error = login(&web.entry(), &place.surroundings(), &browser).await.unwrap_err();
    assert_eq!(error, "access was refused: access_denied: no \\u{1b}[31mway");
}

#[tokio::test]
async fn a_token_that_has_ended_is_renewed_by_one_at_a_time() {
    let (place, web) = (Place::new(), Web::start(&["short"]));
    logged_in(&place, &web).await;
    let clients: Vec<_> = (0..3).map(|_| place.client([web.entry()])).collect();
    let call = |n: usize| place.call(&clients[n], "s", "echo", "");
    let (a, b, c) = tokio::join!(call(0), call(1), call(2));
    let log = web.log().await;
    for outcome in [a, b, c] {
        // A token may be replaced by another session between its renewal and its use: that locks nobody out.
        assert_eq!(outcome.status, Status::Ok, "{outcome:?}: {log:?}");
    }
    assert!(log.iter().any(|line| line == "refresh_token"), "{log:?}");
    assert!(is_logged_in(&web.entry(), &place.surroundings()));
    for client in clients {
        client.close().await;
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_renewed_wants_a_login() {
    let (place, web) = (Place::new(), Web::start(&["rejects"]));
    logged_in(&place, &web).await;
    let client = place.client([web.entry()]);
    let why = client.ready("s").await.unwrap_err();
    assert!(why.contains("`piton mcp login s`"), "{why}");
    client.close().await;
}

#[tokio::test]
async fn a_token_that_is_revoked_in_a_session_is_named_by_the_call() {
    let (place, web) = (Place::new(), Web::start(&["revokes"]));
    let client = place.client([web.entry()]);
    let outcome = place.call(&client, "s", "echo", "").await;
    assert!(outcome.status == Status::Failed && outcome.text.contains("`piton mcp login s`"), "{outcome:?}");
    assert_eq!(server(&client, "s").state, ServerState::NeedsLogin);
    client.close().await;
}

#[tokio::test]
async fn scopes_that_are_missing_are_asked_for_at_the_next_login() {
    let (place, web) = (Place::new(), Web::start(&["steps"]));
    logged_in(&place, &web).await;
    let client = place.client([web.entry()]);
    assert_eq!(place.call(&client, "s", "echo", "").await.status, Status::Ok);
    let outcome = place.call(&client, "s", "write", "").await;
    assert!(outcome.text.contains("It wants more scopes: write."), "{outcome:?}");
    assert_eq!(place.call(&client, "s", "echo", "").await.status, Status::Ok, "the rest goes on");
    client.close().await;
    assert_eq!(logged_in(&place, &web).await.scopes, ["write"]);
    let client = place.client([web.entry()]);
    assert_eq!(place.call(&client, "s", "write", "").await.status, Status::Ok);
    client.close().await;
}

#[tokio::test]
async fn no_browser_is_opened_unasked() {
    let (place, web) = (Place::new(), Web::start(&["login"]));
    let opened = Mutex::new(Vec::new());
    let client = place.client([web.entry()]);
    assert!(client.ready("s").await.is_err());
    client.close().await;
    let log = web.log().await;
    assert!(log.iter().all(|line| line.ends_with("without a token")), "nobody has registered: {log:?}");
    login(&web.entry(), &place.surroundings(), &|url: &str| {
        opened.lock().unwrap().push(url.to_owned());
        browser(url);
    })
    .await
    .unwrap();
    assert_eq!(opened.lock().unwrap().len(), 1);
}
