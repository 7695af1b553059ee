//! A model server on loopback that does as a script says, wire and all: it stalls, resets, ends early and sends
//! garbage where the script wants it. It speaks Chat Completions (`POST …/chat/completions`), OpenAI's Responses
//! (`…/responses`), Anthropic's Messages (`…/messages`), Gemini (`…:streamGenerateContent`) and Ollama's own protocol
//! (`…/api/chat`), lists one model (`GET …/models` or `…/api/tags`) and tells its window as llama.cpp does (`GET /props`),
//! and as Ollama does (`/api/show` what the model can, `/api/ps` what was asked for); everything else is 404.
//!
//! The script is a JSON array with one answer per POST:
//!
//! ```text
//! [{"tools":[{"name":"read","args":{"path":"a.txt"}}]},
//!  {"status":429,"headers":{"retry-after":"1"},"body":{"error":{"message":"slow down"}}},
//!  {"text":"partial","drop":1},
//!  {"text":"done","repeat":true}]
//! ```
//!
//! Keys: `text`, `pieces`, `reasoning`, `tools` (`name`, `id`, `args` or `raw`), `finish`, `usage`, `status` with
//! `body` and `headers`, `stall` and `stall_mid` (seconds), `drop`, `end_early`, `sse_error`, `malformed`,
//! `of` (the answer is for the next request of the conversation that began with this text, and for no other), `garble`, `keep_alives` with `keep_alive_ms`, `chunk_bytes`, `delta_chars`, `deltas`, `delay_ms`, `repeat`. After the last answer requests get HTTP 500
//! `script exhausted`. Threads and blocking sockets: no runtime, so it can also serve a bench from another process.

use crate::conversation;
use crate::script::Answer;
use crate::speech::Speech;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A running fake provider. Stops when dropped.
#[derive(Debug)]
pub struct FakeProvider {
    address: SocketAddr,
    stage: Arc<Stage>,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct SeenRequest {
    /// For example `POST`.
    pub method: String,
    /// With query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null where it is none.
    pub body: Value,
    /// Milliseconds from the provider's start to the request's last byte.
    pub at_ms: u64,
    /// When its last byte was read.
    pub arrived: Instant,
    /// When the last bytes of its answer went to the socket. `None` while it is being answered, or if that was cut.
    pub answered: Option<Instant>,
    /// Which connection it came by, from 0.
    pub connection: usize,
}

impl SeenRequest {
    /// What a strict provider would refuse in its conversation: a call that is not answered at once, once and in order.
    pub fn fault(&self) -> Option<String> {
        conversation::fault(&self.body)
    }

    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// What all connections share.
#[derive(Debug)]
struct Stage {
    started: Instant,
    play: Mutex<Play>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Play {
    script: Vec<Answer>,
    next: usize,
    requests: Vec<SeenRequest>,
    order: Order,
    /// The answers for one conversation that were given.
    given: BTreeSet<usize>,
}

/// Which answer a request gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Order {
    /// The one after the last request's.
    #[default]
    OfRequests,
    /// The one after those that its conversation holds.
    OfConversation,
}

impl FakeProvider {
    /// Serves this script on a free port. Panics if the script is not one.
    pub fn start(script: Value) -> Self {
        Self::start_in(script, Order::OfRequests)
    }

    /// The same, but which answer a request gets is told by the replies that its conversation holds: whoever was killed
    /// while it asked gets that answer when it asks again.
    pub fn start_by_conversation(script: Value) -> Self {
        Self::start_in(script, Order::OfConversation)
    }

    fn start_in(script: Value, order: Order) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stage = Arc::new(Stage::new(script));
        stage.play().order = order;
        let shared = Arc::clone(&stage);
        std::thread::spawn(move || serve(&listener, &shared));
        Self { address, stage }
    }

    /// Its address without a path: `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<SeenRequest> {
        self.stage.play().requests.clone()
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.stage.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// Serves a script for good, for a process of its own. Panics if the script is not one.
pub fn serve_forever(listener: &TcpListener, script: Value) {
    serve(listener, &Arc::new(Stage::new(script)));
}

fn serve(listener: &TcpListener, stage: &Arc<Stage>) {
    for (connection, stream) in listener.incoming().enumerate() {
        if stage.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let stage = Arc::clone(stage);
        // A client that goes away in the middle is nothing to report.
        std::thread::spawn(move || drop(converse(&stream, &stage, connection)));
    }
}

/// Answers one connection's requests, one after the other.
fn converse(stream: &TcpStream, stage: &Stage, connection: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(mut request) = read_request(&mut reader)? {
        request.connection = connection;
        request.at_ms = u64::try_from((request.arrived - stage.started).as_millis()).unwrap();
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        let model = request.body["model"].as_str().unwrap_or("fake-model").to_owned();
        let is_post = request.method == "POST";
        let speech = Speech::at(&path).filter(|_| is_post);
        let (number, cue) = stage.enter(request, speech.is_some());
        let mut voice = Voice { stream, writer: BufWriter::new(stream), chunk_bytes: None, ended: None };
        match (speech, cue) {
            (Some(speech), Some((turn, answer))) => voice.perform(speech, &answer, &model, turn)?,
            (Some(_), None) => {
                voice.document(500, &[], &json!({ "error": { "message": "script exhausted" } }))?;
            }
            (None, _) if path.ends_with("/api/tags") => {
                voice.document(200, &[], &json!({ "models": [{ "name": "fake-model" }] }))?;
            }
            (None, _) if path.ends_with("/api/show") => {
                let info = json!({ "general.architecture": "fake", "fake.context_length": 40_960 });
                voice.document(200, &[], &json!({ "model_info": info }))?;
            }
            (None, _) if path.ends_with("/api/ps") => {
                let asked = stage.last_body("/api/chat");
                let loaded = json!({ "name": asked["model"], "context_length": asked["options"]["num_ctx"] });
                voice.document(200, &[], &json!({ "models": [loaded] }))?;
            }
            (None, _) if path.ends_with("/props") => {
                voice.document(200, &[], &json!({ "default_generation_settings": { "n_ctx": 8_192 } }))?;
            }
            (None, _) if path.ends_with("/models") => {
                let models = json!({ "object": "list", "data": [{ "id": "fake-model", "object": "model" }] });
                voice.document(200, &[], &models)?;
            }
            (None, _) => voice.document(404, &[], &json!({ "error": { "message": "no such endpoint" } }))?,
        }
        stage.play().requests[number].answered = voice.ended;
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead) -> io::Result<Option<SeenRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(ToOwned::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let arrived = Instant::now();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(SeenRequest { method, path, headers, body, at_ms: 0, arrived, answered: None, connection: 0 }))
}

impl Stage {
    fn new(script: Value) -> Self {
        let script = serde_json::from_value(script).expect("a script is an array of answers");
        let play = Mutex::new(Play { script, ..Play::default() });
        Self { started: Instant::now(), play, is_over: AtomicBool::new(false) }
    }

    fn play(&self) -> MutexGuard<'_, Play> {
        self.play.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest body that was sent to an address with this end.
    fn last_body(&self, end: &str) -> Value {
        let play = self.play();
        play.requests.iter().rfind(|seen| seen.path.ends_with(end)).map_or(Value::Null, |seen| seen.body.clone())
    }

    /// Writes the request down and gives its number; and, if it asks the model, the number and text of its answer.
    fn enter(&self, request: SeenRequest, asks_model: bool) -> (usize, Option<(usize, Answer)>) {
        let mut play = self.play();
        let number = play.requests.len();
        let held = conversation::replies(&request.body);
        play.requests.push(request);
        if !asks_model {
            return (number, None);
        }
        let prompt = first_prompt(&play.requests[number].body);
        if play.order == Order::OfConversation {
            let is_its = |answer: &&Answer| answer.of.as_ref().is_some_and(|of| prompt.contains(of.as_str()));
            let has_own = play.script.iter().any(|answer| is_its(&answer));
            let own = play.script.iter().enumerate();
            let mut own = own.filter(|(_, answer)| if has_own { is_its(answer) } else { answer.of.is_none() });
            let last = play.script.last().filter(|answer| answer.repeat).map(|answer| (held, answer));
            return (number, own.nth(held).or(last).map(|(at, answer)| (at, answer.clone())));
        }
        let is_for = |(at, answer): &(usize, &Answer)| {
            !play.given.contains(at) && answer.of.as_ref().is_some_and(|of| prompt.contains(of.as_str()))
        };
        let own = play.script.iter().enumerate().find(is_for).map(|(at, _)| at);
        if let Some(at) = own {
            play.given.insert(at);
            return (number, play.script.get(at).cloned().map(|answer| (at, answer)));
        }
        let mut turn = play.next;
        while play.script.get(turn).is_some_and(|answer| answer.of.is_some()) {
            turn += 1;
        }
        play.next = turn + 1;
        let last = play.script.last().filter(|answer| answer.repeat);
        (number, play.script.get(turn).or(last).cloned().map(|answer| (turn, answer)))
    }
}

/// What was said first in a conversation, as JSON.
fn first_prompt(body: &Value) -> String {
    let messages = ["messages", "input", "contents"].into_iter().find_map(|name| body[name].as_array());
    let first = messages.into_iter().flatten().find(|message| message["role"] == "user");
    first.map(Value::to_string).unwrap_or_default()
}

/// One response being written.
struct Voice<'s> {
    stream: &'s TcpStream,
    writer: BufWriter<&'s TcpStream>,
    chunk_bytes: Option<usize>,
    ended: Option<Instant>,
}

impl Voice<'_> {
    fn perform(&mut self, speech: Speech, answer: &Answer, model: &str, turn: usize) -> io::Result<()> {
        self.pause(answer.stall)?;
        if answer.status.is_some() || answer.body.is_some() {
            let headers: Vec<(&str, String)> = answer
                .headers
                .iter()
                .map(|(name, value)| {
                    (name.as_str(), value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned))
                })
                .collect();
            let body = answer.body.clone().unwrap_or_default();
            return self.document(answer.status.unwrap_or(200), &headers, &body);
        }
        self.chunk_bytes = answer.chunk_bytes;
        write!(
            self.writer,
            "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
            speech.content_type()
        )?;
        let mut events = speech.events(answer, model, turn);
        if let Some(event) = answer.garble.and_then(|at| events.rest.get_mut(at)) {
            *event = speech.garbled(event);
        }
        self.say(&events.opening, 0)?;
        self.say(&events.prose, answer.delay_ms)?;
        self.pause(answer.stall_mid)?;
        self.say(&vec![speech.keep_alive(); answer.keep_alives], answer.keep_alive_ms)?;
        if answer.malformed {
            self.chunk(speech.garbage().as_bytes())?;
        }
        if answer.drop {
            return self.reset();
        }
        if let Some(error) = &answer.sse_error {
            self.chunk(speech.error(error).as_bytes())?;
        } else if !answer.end_early {
            self.say(&events.rest, 0)?;
        }
        write!(self.writer, "0\r\n\r\n")?;
        self.end()
    }

    /// The time is taken before the bytes leave: after that, the reader may run before we do.
    fn end(&mut self) -> io::Result<()> {
        self.ended = Some(Instant::now());
        self.writer.flush()
    }

    fn say(&mut self, events: &[String], delay_ms: u64) -> io::Result<()> {
        for event in events {
            if delay_ms > 0 {
                self.writer.flush()?;
                std::thread::sleep(Duration::from_millis(delay_ms));
            }
            match self.chunk_bytes {
                None => self.chunk(event.as_bytes())?,
                Some(size) => {
                    for piece in event.as_bytes().chunks(size.max(1)) {
                        self.chunk(piece)?;
                        self.writer.flush()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        write!(self.writer, "{:x}\r\n", bytes.len())?;
        self.writer.write_all(bytes)?;
        self.writer.write_all(b"\r\n")
    }

    fn pause(&mut self, seconds: f64) -> io::Result<()> {
        if seconds > 0.0 {
            self.writer.flush()?;
            std::thread::sleep(Duration::from_secs_f64(seconds));
        }
        Ok(())
    }

    /// Ends the connection the rude way: the peer sees a reset, not an end.
    fn reset(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        // What was said must arrive before the reset, which overtakes it otherwise.
        std::thread::sleep(Duration::from_millis(20));
        socket2::SockRef::from(self.stream).set_linger(Some(Duration::ZERO))?;
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn document(&mut self, status: u16, headers: &[(&str, String)], body: &Value) -> io::Result<()> {
        let (text, kind) = match body {
            Value::Null => (String::new(), "text/plain"),
            Value::String(text) if text.starts_with('<') => (text.clone(), "text/html"),
            Value::String(text) => (text.clone(), "text/plain"),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                (body.to_string(), "application/json")
            }
        };
        write!(self.writer, "HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n", text.len())?;
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            write!(self.writer, "content-type: {kind}\r\n")?;
        }
        for (name, value) in headers {
            write!(self.writer, "{name}: {value}\r\n")?;
        }
        write!(self.writer, "\r\n{text}")?;
        self.end()
    }
}
