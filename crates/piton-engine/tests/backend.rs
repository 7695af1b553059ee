//! Sessions whose calls act elsewhere: their commands and files come from a backend that an embedder brings.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use self::support::{Home, call, cassette, says};
use async_trait::async_trait;
use piton_core::client::{Prompt, Reply, Request};
use piton_core::event::{Event, TurnEnd};
use piton_core::ids::CallId;
use piton_core::secrets::Firewall;
use piton_testkit::files::Through;
use piton_tools::backend::{Backend, Local};
use piton_tools::executor::{
    Boot, CommandEnd, CommandOutput, CommandSpec, CommandWatch, Executor, ExecutorError, ExitRecord,
};
use piton_tools::files::Files;
use piton_tools::spawn::Confinement;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A machine that answers every command with its words, and whose files are there once it lets them be seen.
struct Elsewhere {
    /// Each look at a file takes one.
    files: Arc<Mutex<Receiver<()>>>,
    /// Told of each look that has begun.
    looked: Sender<()>,
}

/// What a test of [`Elsewhere`] has in hand.
struct Ends {
    let_go: Sender<()>,
    looked: Receiver<()>,
}

impl Elsewhere {
    fn new() -> (Self, Ends) {
        let ((let_go, files), (looked, seen)) = (channel(), channel());
        (Self { files: Arc::new(Mutex::new(files)), looked }, Ends { let_go, looked: seen })
    }
}

impl Backend for Elsewhere {
    fn executor(&self, _calls: &Path) -> Arc<dyn Executor> {
        Arc::new(Echo)
    }

    fn files(&self, calls: &Path, confinement: &Confinement) -> Arc<dyn Files> {
        let (files, looked) = (self.files.clone(), self.looked.clone());
        let look = move |_: &Path| {
            looked.send(()).ok();
            files.lock().unwrap().recv().map_err(io::Error::other)
        };
        Arc::new(Through { look: Box::new(look), ..Through::new(Local::default().files(calls, confinement)) })
    }
}

struct Echo;

#[async_trait]
impl Executor for Echo {
    async fn run(&self, _: &CallId, _: &CommandSpec, watch: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        watch.output.push("from elsewhere");
        Ok(ExitRecord { code: Some(0), ..ExitRecord::of(CommandEnd::Exited) })
    }

    async fn settle(&self, _: &CallId, _: Boot, _: &CommandWatch) -> Result<ExitRecord, ExecutorError> {
        Ok(ExitRecord::of(CommandEnd::Interrupted))
    }

    async fn output(&self, _: &CallId, _: usize, _: &Firewall) -> CommandOutput {
        CommandOutput { text: "from elsewhere".into(), path: PathBuf::from("/elsewhere"), bytes: 14 }
    }
}

#[tokio::test]
async fn a_command_runs_where_the_backend_says() {
    let home = Home::new();
    let mut settings = cassette(&[call("bash", &json!({"command": "uname"})), says("done")]);
    let (elsewhere, _ends) = Elsewhere::new();
    settings.backend = Arc::new(elsewhere);
    let session = home.create(settings).await;
    session.prompt("where are you").await.unwrap();
    let records = session.records().await.unwrap();
    let told = records.iter().find_map(|record| match &record.event {
        Event::CallSettled { outcome, .. } => Some(outcome.text.clone()),
        _ => None,
    });
    assert_eq!(told.as_deref(), Some("from elsewhere"));
    session.close().await;
}

#[tokio::test]
async fn while_the_files_of_a_prompt_are_read_the_session_hears_what_else_is_asked_and_a_cancel_stops_it() {
    let home = Home::new();
    std::fs::write(home.workspace.path().join("a.txt"), "alpha\n").unwrap();
    let mut settings = cassette(&[says("read it")]);
    let (elsewhere, Ends { let_go, looked }) = Elsewhere::new();
    settings.backend = Arc::new(elsewhere);
    let session = home.create(settings).await;
    let slow = session.clone();
    let first = tokio::spawn(async move { slow.prompt("see @a.txt").await });
    let looked = tokio::task::spawn_blocking(move || looked.recv().map(|()| looked)).await.unwrap().unwrap();
    session.rename("heard").await.unwrap();
    drop(session.cancel().await);
    let report = first.await.unwrap().unwrap();
    assert_eq!((report.turn, report.end), (0, TurnEnd::Canceled), "no turn has begun");
    let spoken = |event: &Event| matches!(event, Event::UserSpoke { .. });
    assert!(!session.records().await.unwrap().iter().any(|record| spoken(&record.event)), "it is not on record");

    // The same prompt, let go: what it names is read, and the turn takes its place.
    (0..9).for_each(|_| let_go.send(()).unwrap());
    drop(looked);
    let mut asking = session.ask(Request::Prompt(Prompt { wait: true, ..Prompt::new("see @a.txt") }));
    while asking.next().await.is_ok_and(|reply| !matches!(reply, Reply::Ended { .. })) {}
    let records = session.records().await.unwrap();
    assert!(records.iter().any(|record| matches!(&record.event, Event::UserSpoke { parts, .. } if parts.len() > 1)));
    session.close().await;
}
