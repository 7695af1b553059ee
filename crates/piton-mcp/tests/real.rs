//! The reference servers from npm, over each of the transports that they speak. They are installed below `target/`, once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Place, entry, http, python, server, until};
use piton_core::call::Status;
use piton_mcp::entry::{Login, Transport};
use piton_mcp::{Client, Entry, Era};
use piton_tools::servers::{Completed, Elicitation, ServerCall, Servers as _};
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

const VERSION: &str = "2026.8.31";
const SERVERS: [&str; 3] = ["everything", "filesystem", "memory"];

/// A program's run, which must succeed. It sees all of our environment: npm is told there how to reach its registry.
#[expect(clippy::disallowed_methods, reason = "npm finds its settings there")]
fn run(argv: &[String]) {
    let env = Env::new(std::env::vars_os().collect());
    let spawn = Spawn::new(argv, &env, "/", Confinement::User);
    let output = spawn.start(Group::Ours, Streams::caught()).unwrap().wait_with_output().unwrap();
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The program of a server, which is installed once.
fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mcp-servers-{VERSION}"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/npm.sh").to_owned();
        let packages = SERVERS.map(|name| format!("@modelcontextprotocol/server-{name}@{VERSION}"));
        let argv = ["sh".to_owned(), script, folder.display().to_string()].into_iter().chain(packages);
        run(&argv.collect::<Vec<_>>());
        folder
    });
    folder.join("node_modules/.bin").join(format!("mcp-server-{name}"))
}

fn stdio(name: &str, args: &[&str], env: BTreeMap<String, String>) -> Entry {
    let args = [program(name).display().to_string()].into_iter().chain(args.iter().map(|word| (*word).to_owned()));
    entry(name, Transport::Stdio { command: "node".to_owned(), args: args.collect(), env, cwd: None })
}

/// The server `everything` over HTTP, for as long as this is kept.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    /// It says on its standard error when it listens; a port that another has taken since is tried anew.
    async fn start(mode: &str) -> Self {
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut env = common::environment();
            env.insert("PORT".into(), port.to_string().into());
            let argv = ["node".into(), program("everything").into_os_string(), mode.into()];
            let spawn = Spawn::new(argv, &Env::new(env), "/", Confinement::User);
            let streams = Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() };
            let mut process = spawn.start(Group::Own, streams).unwrap();
            loop {
                if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                    return Self { process, port };
                }
                if process.try_wait().unwrap().is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn called(place: &Place, client: &Client, tool: &str, arguments: Value) -> piton_core::call::Outcome {
    let call = ServerCall { server: "everything".to_owned(), tool: tool.to_owned(), arguments };
    client.call(call, place.context()).await
}

/// What `everything` is for, over whatever transport.
async fn everything(entry: Entry) {
    let place = Place::new();
    let client = place.client([entry]);
    client.ready("everything").await.unwrap();
    let known = server(&client, "everything");
    assert!(known.problems.is_empty(), "{:?}", known.problems);
    assert!(known.tools.len() >= 10 && known.prompts.len() >= 3 && known.resources.len() >= 5, "{known:#?}");

    let echoed = called(&place, &client, "echo", json!({"message": "hello"})).await;
    assert_eq!((echoed.status, echoed.text.as_str()), (Status::Ok, "Echo: hello"), "{echoed:?}");
    let wrong = called(&place, &client, "echo", json!({})).await;
    assert_eq!(wrong.status, Status::Failed, "{wrong:?}");
    let structured = called(&place, &client, "get-structured-content", json!({"location": "New York"})).await;
    assert!(structured.metadata["structured"]["temperature"].is_number(), "{structured:?}");
    assert!(!structured.text.contains("does not fit"), "{structured:?}");
    let picture = called(&place, &client, "get-tiny-image", json!({})).await;
    // A sum in its picture is wrong, for which a provider would refuse the whole conversation.
    assert!(picture.text.contains("not shown: it is damaged or cut off, kept at "), "{}", picture.text);
    let long = called(&place, &client, "trigger-long-running-operation", json!({"duration": 1, "steps": 2})).await;
    assert!(long.status == Status::Ok && place.said.lock().unwrap().contains("2 of 2"), "{long:?}");
    let links = called(&place, &client, "get-resource-links", json!({"count": 2})).await;
    assert!(links.text.contains("[resource "), "{links:?}");

    let prompt =
        client.prompt("everything", "args-prompt", vec![("city".to_owned(), "Berlin".to_owned())]).await.unwrap();
    assert!(prompt.text.contains("Berlin"), "{}", prompt.text);
    let resource = known.resources.iter().find(|resource| !resource.is_template).unwrap();
    let content = client.read_resource("everything", &resource.uri).await.unwrap();
    assert!(!content.text.is_empty());
    assert!(client.read_resource("everything", "demo://nothing/here").await.is_err());
    let completed = Completed::Prompt("everything".to_owned(), "completable-prompt".to_owned());
    assert!(client.complete(completed, "department", "E").await.iter().any(|word| word == "Engineering"));

    // What it offers only to those who can: our answers go back into its results.
    let sampled = called(&place, &client, "trigger-sampling-request", json!({"prompt": "hi", "maxTokens": 10})).await;
    assert!(sampled.text.contains("a model"), "{sampled:?}");
    let elicited = called(&place, &client, "trigger-elicitation-request", json!({})).await;
    assert_eq!(elicited.status, Status::Ok, "{elicited:?}");
    assert!(matches!(place.person.asked.lock().unwrap()[0], Elicitation::Form { .. }));
    client.close().await;
}

#[tokio::test]
async fn everything_over_stdio() {
    everything(stdio("everything", &["stdio"], BTreeMap::new())).await;
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let served = Served::start("streamableHttp").await;
    everything(http("everything", &served.url("/mcp"))).await;
}

#[tokio::test]
async fn everything_over_server_sent_events() {
    let served = Served::start("sse").await;
    let way = Transport::Sse { url: served.url("/sse"), headers: BTreeMap::new(), login: Login::default() };
    everything(entry("everything", way)).await;
}

#[tokio::test]
async fn files_are_read_below_the_root_that_we_tell() {
    let place = Place::new();
    std::fs::write(place.file("workspace/note.txt"), "what stands there").unwrap();
    let folder = place.file("workspace").display().to_string();
    let client = place.client([stdio("filesystem", &[&folder], BTreeMap::new())]);
    let read = |path: PathBuf| {
        let call = ServerCall {
            server: "filesystem".to_owned(),
            tool: "read_text_file".to_owned(),
            arguments: json!({"path": path}),
        };
        client.call(call, place.context())
    };
    let outcome = read(place.file("workspace/note.txt")).await;
    assert!(outcome.status == Status::Ok && outcome.text.contains("what stands there"), "{outcome:?}");
    assert_eq!(read(PathBuf::from("/etc/passwd")).await.status, Status::Failed);
    client.close().await;
}

#[tokio::test]
async fn what_is_remembered_is_there_the_next_time() {
    let place = Place::new();
    let env = BTreeMap::from([("MEMORY_FILE_PATH".to_owned(), place.file("memory.jsonl").display().to_string())]);
    let call =
        |tool: &str, arguments: Value| ServerCall { server: "memory".to_owned(), tool: tool.to_owned(), arguments };
    for round in 0..2 {
        let client = place.client([stdio("memory", &[], env.clone())]);
        if round == 0 {
            let made = json!({"entities": [{"name": "Piton", "entityType": "agent", "observations": ["speaks MCP"]}]});
            assert_eq!(client.call(call("create_entities", made), place.context()).await.status, Status::Ok);
        }
        let outcome = client.call(call("read_graph", json!({})), place.context()).await;
        assert!(outcome.text.contains("speaks MCP"), "{outcome:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn twenty_servers_start_beside_each_other_whatever_some_of_them_do() {
    let place = Place::new();
    let mut entries: Vec<Entry> = (0..16).map(|n| python(&format!("s{n}"), "hostile.py", &["large"])).collect();
    let mut hanging = python("hanging", "hostile.py", &["never_answers"]);
    hanging.start_timeout = Duration::from_secs(3_600);
    entries.extend([
        hanging,
        python("crashing", "hostile.py", &["dies_at_once"]),
        stdio("memory", &[], BTreeMap::new()),
    ]);
    let client = place.client(entries);
    client.start();
    for n in 0..16 {
        until(&client, &format!("s{n}"), |known| known.state == piton_tools::servers::ServerState::Ready).await;
    }
    until(&client, "memory", |known| known.state == piton_tools::servers::ServerState::Ready).await;
    client.close().await;
}

#[tokio::test]
async fn the_reference_servers_are_of_the_legacy_era() {
    let place = Place::new();
    let report = piton_mcp::test(stdio("memory", &[], BTreeMap::new()), place.surroundings()).await;
    assert_eq!((report.error, report.era), (None, Some(Era::Legacy)));
    assert_eq!(report.version, "2025-11-25");
}
