//! `web_fetch` of the real binary: by way of a proxy of the test, since it reaches public addresses only.

use crate::stage::{Ran, Stage};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// A proxy that answers every request itself, and keeps what was asked.
struct Web {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Web {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut head = [0; 4096];
                let read = client.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let url = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
                let answer = if url.contains("/search?") {
                    "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"results\":[{\"title\":\"Found\",\"url\":\"https://f.test/\",\"content\":\"it\"}]}"
                } else if url.ends_with("/away") {
                    "HTTP/1.1 302 Found\r\nlocation: http://other.test/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                } else {
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n\
                     <title>\u{1b}[31mred\u{202e}</title><h1>Hello</h1><script>evil()</script><p>from the web</p>"
                };
                keeps.lock().unwrap().push(url);
                let _ = client.write_all(answer.as_bytes());
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn fetch(url: &str) -> Value {
    json!([{"tools": [{"name": "web_fetch", "args": {"url": url}}]}, {"text": "done"}])
}

fn run(stage: &Stage, web: &Web, args: &[&str]) -> Ran {
    let model = ["run", "--format", "stream-json", "--model", "openai-chat/test-model"];
    let mut command = stage.piton(&[&model[..], args, &["go"]].concat());
    command.env("HTTP_PROXY", &web.address);
    Ran::of(command)
}

#[test]
fn a_page_is_read_as_markdown_and_the_host_is_what_is_asked_about() {
    let (web, stage) = (Web::start(), Stage::new(fetch("http://docs.test/x")));
    let ran = run(&stage, &web, &["--yes", "--allow", "net(domain:docs.test)"]).expect_code(0);
    assert_eq!(web.asked(), ["http://docs.test/x"]);
    let requested = &ran.all("call_requested")[0];
    assert_eq!(requested["plan"]["accesses"], json!([{"reach": "docs.test"}]));
    let outcome = &ran.outcomes()[0];
    let text = outcome["text"].as_str().unwrap();
    assert!(text.contains("data from the web") && text.contains("# Hello") && text.contains("from the web"), "{text}");
    assert!(!text.contains("evil()") && !text.contains('\u{202e}') && !text.contains('\u{1b}'), "{text}");
    assert!(stage.last_messages().last().unwrap().to_string().contains("# Hello"));
}

#[test]
fn rules_decide_by_host_and_a_redirect_elsewhere_is_another_call() {
    for (args, runs) in [
        (&["--mode", "ask"][..], false),
        (&["--mode", "ask", "--allow", "net(domain:docs.test)"], true),
        (&["--mode", "ask", "--allow", "web_fetch"], true),
        (&["--yes", "--deny", "net(domain:docs.test)"], false),
        (&["--yes", "--deny", "net(domain:other.test)"], false),
        (&["--yes", "--allow", "net(domain:docs.test)"], true),
        (&["--yes", "--allow", "net(domain:*.test)", "--deny", "net(domain:other.test)"], true),
        (&["--yes", "--net", "docs.test"], true),
    ] {
        let (web, stage) = (Web::start(), Stage::new(fetch("http://docs.test/x")));
        let ran = run(&stage, &web, args);
        let outcome = ran.outcomes()[0].clone();
        let status = outcome["status"].clone();
        if !runs && !args.contains(&"net(domain:docs.test)") {
            let text = outcome["text"].as_str().unwrap();
            assert!(text.contains("--allow 'net(domain:docs.test)'"), "the rule that would allow it: {text}");
        }
        assert_eq!((status == "ok", web.asked().len()), (runs, usize::from(runs)), "{args:?}: {status}");
    }
    let (web, stage) = (Web::start(), Stage::new(fetch("http://docs.test/away")));
    let ran = run(&stage, &web, &["--yes", "--allow", "web_fetch"]).expect_code(0);
    let text = ran.outcomes()[0]["text"].to_string();
    assert!(text.contains("redirects to another host. Fetch http://other.test/"), "{text}");
    assert_eq!(web.asked(), ["http://docs.test/away"]);
}

#[test]
fn the_configured_endpoint_is_searched_and_without_one_there_is_no_such_tool() {
    let script = || json!([{"tools": [{"name": "web_search", "args": {"query": "a b"}}]}, {"text": "done"}]);
    let config =
        "[tools.web_search]\nurl = \"http://find.test/search?q={query}&key={key}\"\nkey_variable = \"FIND_KEY\"\n";
    let (web, stage) = (Web::start(), Stage::new(script()).with_config(config));
    let mut command = stage.piton(&["run", "--yes", "--format", "stream-json", "--model", "openai-chat/m", "go"]);
    command.env("HTTP_PROXY", &web.address).env("FIND_KEY", "k-123456789");
    let ran = Ran::of(command).expect_code(0);
    assert_eq!(web.asked(), ["http://find.test/search?q=a%20b&key=k-123456789"]);
    assert_eq!(ran.all("call_requested")[0]["plan"]["accesses"], json!([{"reach": "find.test"}]));
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("1. Found\n   https://f.test/\n   it"));
    assert!(!ran.stdout.contains("k-123456789"), "the key is nowhere on record");
    let (web, stage) = (Web::start(), Stage::new(script()).with_config(config));
    run(&stage, &web, &["--yes", "--deny", "net(domain:find.test)"]);
    assert!(web.asked().is_empty());
    let none = Stage::new(script());
    let ran = none.run(&["go"]).expect_code(0);
    assert!(!none.provider.requests()[0].body["tools"].to_string().contains("web_search"));
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("not found"));
    for (config, words) in [
        ("[tools.web_search]\nurl = \"http://find.test/\"\n", "{query}"),
        ("[tools.web_search]\nurl = \"http://find.test/{query}\"\nkey_variable = \"K\"\n", "belong together"),
        ("[tools.web_search]\nurl = \"http://find.test/{query}{key}\"\n", "belong together"),
    ] {
        Stage::new(script()).with_config(config).run(&["go"]).expect_code(1).expect_said(&[words]);
    }
}

#[test]
fn this_machine_and_its_network_are_out_of_reach_whatever_is_allowed() {
    let own = Web::start();
    let port = own.address.rsplit(':').next().unwrap().to_owned();
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "2130706433", "169.254.169.254"] {
        let stage = Stage::new(fetch(&format!("http://{host}:{port}/x")));
        let ran = stage.run(&["--allow", "web_fetch", "go"]).expect_code(0);
        let outcome = &ran.outcomes()[0];
        assert_eq!(outcome["status"], "failed", "{host}: {outcome}");
        assert!(outcome["text"].to_string().contains("refused to connect"), "{host}: {outcome}");
    }
    assert!(own.asked().is_empty(), "{:?}", own.asked());
}

#[test]
fn the_tools_for_lists_and_pages_cost_little_in_the_first_request() {
    let stage = Stage::new(json!([{"text": "hi"}]));
    stage.run(&["go"]).expect_code(0);
    let request = stage.provider.requests()[0].body.clone();
    let of = |tool: &&Value| ["todo", "web_fetch"].contains(&tool["function"]["name"].as_str().unwrap());
    let tools: Vec<&Value> = request["tools"].as_array().unwrap().iter().filter(of).collect();
    assert_eq!(tools.len(), 2);
    let bytes: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
    assert!(bytes <= 650, "{bytes} bytes: {tools:?}");
}
