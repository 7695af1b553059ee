//! Servers of `tests/servers` as entries, and a person for the questions that they ask.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test program uses some of it")]

use async_trait::async_trait;
use piton_core::call::Outcome;
use piton_core::secrets::Firewall;
use piton_http::HttpOptions;
use piton_mcp::entry::{Login, Transport};
use piton_mcp::{Client, Entry, Surroundings};
use piton_tools::executor::OutputSink;
use piton_tools::servers::{
    Elicitation, ElicitationAnswer, Server, ServerCall, ServerClient, ServerContext, ServerState, Servers as _,
};
use piton_tools::spawn::Confinement;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A folder with Piton's own part and a workspace in it, and what was asked of the person there.
pub struct Place {
    pub folder: TempDir,
    pub person: Arc<Person>,
    pub said: Arc<Mutex<String>>,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        Self { folder, person: Arc::default(), said: Arc::default() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn surroundings(&self) -> Surroundings {
        Surroundings {
            folder: self.file("mcp"),
            env: environment(),
            workspace: self.file("workspace"),
            http: HttpOptions::default(),
            confinement: Confinement::User,
            firewall: Firewall::off(),
        }
    }

    pub fn client(&self, entries: impl IntoIterator<Item = Entry>) -> Client {
        Client::new(entries.into_iter().collect(), self.surroundings())
    }

    pub fn context(&self) -> ServerContext {
        let said = Arc::clone(&self.said);
        ServerContext {
            cancel: CancellationToken::new(),
            output: OutputSink::new(move |piece| said.lock().unwrap().push_str(piece)),
            client: Arc::clone(&self.person) as Arc<dyn ServerClient>,
        }
    }

    /// Calls a tool with a word.
    pub async fn call(&self, client: &Client, server: &str, tool: &str, word: &str) -> Outcome {
        client.call(call(server, tool, word), self.context()).await
    }
}

pub fn call(server: &str, tool: &str, word: &str) -> ServerCall {
    ServerCall { server: server.to_owned(), tool: tool.to_owned(), arguments: json!({"word": word}) }
}

#[expect(clippy::disallowed_methods, reason = "the programs that tests start are where the machine has them")]
pub fn environment() -> BTreeMap<OsString, OsString> {
    let path = std::env::var_os("PATH").unwrap();
    BTreeMap::from([
        ("PATH".into(), path),
        ("HOME".into(), "/tmp".into()),
        ("SECRET_OF_MINE".into(), "s3cret-value".into()),
    ])
}

pub fn servers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers")
}

/// A server of the tree, as an entry of this name.
pub fn python(name: &str, script: &str, args: &[&str]) -> Entry {
    let script = servers().join(script).display().to_string();
    let args = [script].into_iter().chain(args.iter().map(|word| (*word).to_owned())).collect();
    entry(name, Transport::Stdio { command: "python3".to_owned(), args, env: BTreeMap::new(), cwd: None })
}

pub fn entry(name: &str, transport: Transport) -> Entry {
    Entry {
        name: name.to_owned(),
        transport,
        start_timeout: Duration::from_secs(60),
        call_timeout: Duration::from_secs(60),
        always_load: false,
        tools: None,
        without: Vec::new(),
        net: None,
        filled: BTreeMap::new(),
        hash: format!("hash0of0{name}"),
        file: PathBuf::from("/test/.mcp.json"),
    }
}

pub fn http(name: &str, url: &str) -> Entry {
    entry(name, Transport::Http { url: url.to_owned(), headers: BTreeMap::new(), login: Login::default() })
}

pub fn server(client: &Client, name: &str) -> Server {
    client.servers().into_iter().find(|server| server.name == name).unwrap()
}

/// Waits until a server is as it should be.
pub async fn until(client: &Client, name: &str, is_so: impl Fn(&Server) -> bool) -> Server {
    let mut changes = client.changes();
    loop {
        let now = server(client, name);
        if is_so(&now) {
            return now;
        }
        changes.changed().await.unwrap();
    }
}

pub fn is_failed(server: &Server) -> bool {
    matches!(server.state, ServerState::Failed { .. })
}

/// Waits until a process is gone, dead but not yet collected ones included.
pub async fn gone(pid: u32) {
    let stat = format!("/proc/{pid}/stat");
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for a file that a server writes, and reads it.
pub async fn written(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if !text.is_empty() => return text,
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Answers everything, and remembers what it was asked.
#[derive(Debug, Default)]
pub struct Person {
    pub asked: Mutex<Vec<Elicitation>>,
    pub sampled: Mutex<Vec<Value>>,
    pub tasks: Mutex<Vec<Value>>,
}

#[async_trait]
impl ServerClient for Person {
    async fn elicit(&self, _server: &str, elicitation: Elicitation) -> Option<ElicitationAnswer> {
        let values = match &elicitation {
            Elicitation::Form { .. } => json!({"name": "Ada"}),
            Elicitation::Url { .. } => Value::Null,
        };
        self.asked.lock().unwrap().push(elicitation);
        Some(ElicitationAnswer::Accept(values))
    }

    async fn sample(&self, _server: &str, request: Value) -> Result<Value, String> {
        self.sampled.lock().unwrap().push(request);
        Ok(
            json!({"role": "assistant", "content": {"type": "text", "text": "a model"}, "model": "m", "stopReason": "endTurn"}),
        )
    }

    async fn task_begun(&self, handle: &Value) -> Result<(), String> {
        self.tasks.lock().unwrap().push(handle.clone());
        Ok(())
    }
}
