//! `--input-format stream-json`: what is asked for on standard input, line by line, in the words of the control socket or
//! as the clients of Claude Code write it.
//!
//! This module must not know: who obeys ([`crate::run::conversation`]).

use crate::failure::Result;
use crate::out::view;
use crate::run::shown::{self, Shown};
use piton_core::client::{Compact, Prompt, Request};
use piton_engine::commands::is_name;
use piton_engine::control::REQUEST_BYTES;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, Read};
use tokio::sync::mpsc::{self, Receiver};

/// Lines that are read ahead of what was obeyed.
const AHEAD: usize = 16;

/// What is asked for, in order.
pub(crate) struct Input {
    /// What goes before the lines that are still to come: the task of the command line, and what nobody has heard yet.
    first: VecDeque<Request>,
    /// `None` in the place of a line: it was too long. Gone at the end of the input.
    lines: Option<Receiver<Option<Vec<u8>>>>,
    /// The newest line, from 1.
    line: usize,
    is_program: bool,
}

impl Input {
    /// One thing to say, or nothing.
    pub(crate) fn once(prompt: Option<Prompt>) -> Self {
        Self::asking(prompt.map(meant))
    }

    /// One thing to ask for, or nothing.
    pub(crate) fn asking(request: Option<Request>) -> Self {
        Self { first: request.into_iter().collect(), lines: None, line: 0, is_program: false }
    }

    /// Starts to read what a program says, behind a prompt of the command line.
    pub(crate) fn open(prompt: Option<Prompt>) -> Self {
        Self { lines: Some(read_lines()), is_program: true, ..Self::once(prompt) }
    }

    /// Whether a program speaks, line by line.
    pub(crate) fn is_program(&self) -> bool {
        self.is_program
    }

    /// The number of the newest line.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// What comes before the next line.
    pub(crate) fn first(&self) -> Option<&Request> {
        self.first.front()
    }

    /// The prompt that comes first, if one does.
    pub(crate) fn prompt(&self) -> Option<&Prompt> {
        match self.first()? {
            Request::Prompt(prompt) => Some(prompt),
            _ => None,
        }
    }

    /// Whether nothing more can come.
    pub(crate) fn is_over(&self) -> bool {
        self.lines.is_none() && self.first.is_empty()
    }

    /// Whether something is there that comes before the next line.
    pub(crate) fn has_first(&self) -> bool {
        !self.first.is_empty()
    }

    /// Puts back, before all that is to come, what nobody has heard.
    pub(crate) fn put_back(&mut self, unheard: Vec<Request>) {
        for request in unheard.into_iter().rev() {
            self.first.push_front(request);
        }
    }

    /// What is asked for next, or why that cannot be understood; `None`, once, at the end. May be dropped half-way and
    /// called again.
    pub(crate) async fn next(&mut self) -> Option<Result<Request, String>> {
        if let Some(request) = self.first.pop_front() {
            return Some(Ok(request));
        }
        loop {
            let Some(lines) = &mut self.lines else { return std::future::pending().await };
            let Some(line) = lines.recv().await else {
                self.lines = None;
                return None;
            };
            self.line += 1;
            match line {
                Some(line) if line.trim_ascii().is_empty() => {}
                Some(line) => return Some(parse(&line)),
                None => return Some(Err(format!("it is longer than {} MB", REQUEST_BYTES >> 20))),
            }
        }
    }

    /// Waits until something is said, which is what a session begins with. Fails where nothing is.
    pub(crate) async fn first_words(&mut self, shown: &mut Shown) -> Result<()> {
        while let Some(asked) = self.next().await {
            match asked {
                Ok(request @ Request::Prompt(_)) => {
                    self.put_back(vec![request]);
                    return Ok(());
                }
                Ok(_) => self.complain(shown, self.line, "there is no session yet: send a prompt first"),
                Err(error) => self.complain(shown, self.line, &error),
            }
        }
        Err(shown::nothing_said(shown, None))
    }

    /// Says that a line could not be obeyed. It changes nothing.
    pub(crate) fn complain(&self, shown: &mut Shown, line: usize, error: &str) {
        match shown {
            _ if !self.is_program => shown.note(error),
            Shown::StreamJson => {
                let said = json!({"type": "input_error", "line": line, "error": error});
                view::write_stdout(&format!("{said}\n"));
            }
            Shown::Text(_) | Shown::Json => {
                view::write_stderr(&format!("standard input, line {line}: {error}; skipped\n"));
            }
        }
    }
}

/// What a line asks for. `/compact` is not said but done.
fn parse(line: &[u8]) -> Result<Request, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| format!("it is not JSON: {error}"))?;
    let request = if value.get("do").is_some() {
        own(&value)?
    } else {
        match value["type"].as_str() {
            Some("user") => {
                let text = content(&value["message"]["content"])?;
                Request::Prompt(Prompt::new(text))
            }
            Some("control_request") if value["request"]["subtype"] == "interrupt" => Request::Cancel {},
            _ => {
                let words = "prompt, go_on, answer, cancel, unqueue, move, pause, continue, compact, plan, rewind, rename, revoke, \
                             configure, shell, type, background, fork, look";
                return Err(format!("it has neither `do` ({words}) nor the `type` user"));
            }
        }
    };
    match request {
        Request::Prompt(prompt)
            if prompt.text.trim().is_empty() && prompt.parts.is_empty() && prompt.command.is_none() =>
        {
            Err("it says nothing".to_owned())
        }
        Request::Prompt(prompt) => Ok(meant(prompt)),
        request => Ok(request),
    }
}

/// What a prompt asks for: `/compact` is not said but done, and `/name` says a command's template.
fn meant(prompt: Prompt) -> Request {
    if prompt.command.is_some() {
        return Request::Prompt(prompt);
    }
    if let Some(focus) = focus_of_compact(&prompt.text) {
        return Request::Compact(Compact::about(Some(focus.to_owned()).filter(|focus| !focus.is_empty())));
    }
    Request::Prompt(match command(&prompt.text) {
        Some((name, words)) => Prompt { command: Some(name.to_owned()), text: words.to_owned(), ..prompt },
        None => prompt,
    })
}

/// The command that words begin with, and the words behind it. A path is none: `/etc/hosts is wrong`.
fn command(said: &str) -> Option<(&str, &str)> {
    let rest = said.strip_prefix('/')?;
    let (name, words) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
    is_name(name).then_some((name, words.trim()))
}

/// The words after `/compact`, if that is what is said.
fn focus_of_compact(said: &str) -> Option<&str> {
    let rest = said.trim().strip_prefix("/compact")?;
    let is_word = rest.is_empty() || rest.starts_with(char::is_whitespace);
    is_word.then_some(rest.trim())
}

/// Our own words. A field that nobody reads would be a wish that nobody fulfils.
fn own(value: &Value) -> Result<Request, String> {
    let request = Request::of_line(value.clone()).map_err(|error| error.to_string())?;
    let (read, session) = match &request {
        Request::Subagent { request, .. } => (&**request, "session"),
        request => (request, ""),
    };
    let known = serde_json::to_value(read).map_err(|error| error.to_string())?;
    let mut fields = value.as_object().into_iter().flatten().filter(|(name, _)| *name != session);
    match fields.find(|(name, said)| !said.is_null() && known.get(name.as_str()).is_none()) {
        Some((name, _)) => Err(format!("unknown field `{name}`")),
        None => Ok(request),
    }
}

/// The text of a message in Claude Code's form.
fn content(content: &Value) -> Result<String, String> {
    let text_of = |block: &Value| match (block["type"].as_str(), block["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text.to_owned()),
        (kind, _) => Err(format!("content of the type {} is not supported, only text", kind.unwrap_or("?"))),
    };
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => Ok(blocks.iter().map(text_of).collect::<Result<Vec<_>, _>>()?.join("\n")),
        _ => Err("a user's message has `message.content`, a text or a list of text blocks".to_owned()),
    }
}

fn read_lines() -> Receiver<Option<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let reads = move || {
        let mut input = std::io::stdin().lock();
        while let Ok(Some(line)) = read_line(&mut input, REQUEST_BYTES) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // Without a thread nothing is said, as at the end of the input.
    drop(std::thread::Builder::new().spawn(reads));
    receiver
}

/// The next line; `None` within where it is longer than this, of which nothing is kept; `None` at the end.
fn read_line(input: &mut impl BufRead, most: usize) -> std::io::Result<Option<Option<Vec<u8>>>> {
    let mut line = Vec::new();
    if input.by_ref().take(most as u64 + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.ends_with(b"\n") || line.len() <= most {
        return Ok(Some(Some(line)));
    }
    loop {
        let piece = input.fill_buf()?;
        let (end, is_over) = match piece.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (piece.len(), piece.is_empty()),
        };
        input.consume(end);
        if is_over {
            return Ok(Some(None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use piton_core::client::{Answer, When};
    use piton_core::event::Subject;
    use piton_core::question::Decision;

    #[test]
    fn a_line_is_ours_or_in_the_form_that_others_write() {
        let parse = |text: &str| parse(text.as_bytes());
        let say = |text: &str, delivery| Ok(Request::Prompt(Prompt { delivery, ..Prompt::new(text) }));
        assert_eq!(parse(r#"{"do":"prompt","text":"a"}"#), say("a", When::Steer));
        assert_eq!(parse(r#"{"do":"prompt","text":"a","delivery":"interrupt"}"#), say("a", When::Interrupt));
        let theirs =
            r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"a"}]},"session_id":""}"#;
        assert_eq!(parse(theirs), say("a", When::Steer));
        assert_eq!(parse(r#"{"do":"cancel"}"#), Ok(Request::Cancel {}));
        let subagents = Request::Subagent { session: "ses_1".into(), request: Box::new(Request::Cancel {}) };
        assert_eq!(parse(r#"{"do":"cancel","session":"ses_1"}"#), Ok(subagents));
        assert_eq!(parse(r#"{"do":"cancel","session":"ses_1","x":1}"#), Err("unknown field `x`".to_owned()));
        let answer = r#"{"do":"answer","subject":{"call":"c1_0"},"decision":{"deny":"no"}}"#;
        let decision = Decision::Deny(Some("no".into()));
        assert_eq!(parse(answer), Ok(Request::Answer(Answer::unseen(Subject::Call("c1_0".into()), decision))));
        for bad in ["", "hello", "{}", "[]", r#"{"do":"prompt"}"#, r#"{"do":"prompt","text":" "}"#, r#"{"do":"fly"}"#] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse(r#"{"do":"prompt","text":"a","delivry":"interrupt"}"#).unwrap_err().contains("`delivry`"));
    }

    #[test]
    fn only_the_word_itself_is_the_command() {
        assert_eq!(focus_of_compact("/compact"), Some(""));
        assert_eq!(focus_of_compact("  /compact the API "), Some("the API"));
        assert_eq!(focus_of_compact("/compactor"), None);
        assert_eq!(focus_of_compact("please /compact"), None);
    }

    #[test]
    fn a_slash_and_a_name_say_a_command() {
        let said = |text: &str| match meant(Prompt::new(text)) {
            Request::Prompt(prompt) => (prompt.command, prompt.text),
            other => panic!("{other:?}"),
        };
        let command = |name: &str, words: &str| (Some(name.to_owned()), words.to_owned());
        assert_eq!(said("/git:pr  for main\nnow"), command("git:pr", "for main\nnow"));
        assert_eq!(said("/review"), command("review", ""));
        for words in ["/etc/hosts is wrong", " /review", "/", "/*", "a /review"] {
            assert_eq!(said(words), (None, words.to_owned()));
        }
    }

    #[test]
    fn the_words_are_those_of_the_control_socket() {
        let parse = |text: &str| parse(text.as_bytes());
        let full = r#"{"do":"prompt","text":"a","beside":"b","delivery":"follow_up","message":"m1","wait":true}"#;
        assert!(matches!(
            parse(full),
            Ok(Request::Prompt(Prompt { beside: Some(_), message: Some(_), wait: true, .. }))
        ));
        assert_eq!(parse(r#"{"do":"pause"}"#), Ok(Request::Pause {}));
        assert_eq!(parse(r#"{"do":"continue"}"#), Ok(Request::Continue {}));
        let room = |focus: Option<&str>| Ok(Request::Compact(Compact::about(focus.map(str::to_owned))));
        assert_eq!(parse(r#"{"do":"compact"}"#), room(None));
        assert_eq!(parse(r#"{"do":"prompt","text":"/compact the API"}"#), room(Some("the API")));
        assert_eq!(parse(r#"{"type":"user","message":{"content":"/compact"}}"#), room(None));
        assert!(parse(r#"{"do":"follow"}"#).is_err(), "it is told anyway");
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let mut input = std::io::BufReader::with_capacity(4, &b"short\nmuch too long\nnext\nlast one"[..]);
        let mut next = || read_line(&mut input, 5).unwrap();
        assert_eq!(next(), Some(Some(b"short\n".to_vec())));
        assert_eq!(next(), Some(None));
        assert_eq!(next(), Some(Some(b"next\n".to_vec())));
        assert_eq!(next(), Some(None), "the last has no end of line");
        assert_eq!(next(), None);
    }
}
