//! Leaving a turn to the background: a process without a terminal takes it over ([`crate::run::take_over`]).
//!
//! The session is not closed for that, since closing stops what runs: at a safe point this process ends as a killed one would, and the
//! other goes on as after a kill. Commands go on all the while.

use super::{Chat, Done};
use crate::failure::{Context, Result, bail};
use crate::out::print;
use crate::out::report::EXIT_TERMINATED;
use crate::run::stops::Stops;
use crate::run::take_over::{GO, READY, Taken};
use crate::surroundings::Surroundings;
use piton_core::client::{Reply, Request, Stage};
use piton_core::configure::Configure;
use piton_core::ids::SessionId;
use piton_engine::engine::EngineError;
use piton_tools::spawn::{Confinement, Env, Group, Spawn, Streams};
use std::ffi::OsString;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::ChildStdin;

/// The process that takes the session over.
pub(super) struct Successor {
    pid: u32,
    /// Closed without a word, it goes away.
    word: ChildStdin,
}

impl Successor {
    /// Starts it, and waits until nothing is missing but the session.
    async fn start(taken: Taken, typed: Vec<OsString>, around: Surroundings) -> Result<Self> {
        let taken = serde_json::to_string(&taken).context("cannot name the session")?;
        let exe = around.machine.exe.clone().into_os_string();
        let words = [exe, "run".into(), "--take-over".into(), taken.into()];
        let env = Env::new(around.machine.vars.clone());
        let cwd = around.workspace(None)?;
        let spawn = Spawn::new(words.into_iter().chain(typed), &env, cwd, Confinement::User);
        let streams = Streams { stdin: Stdio::piped(), ..Streams::caught() };
        let mut child = spawn.start_async(Group::Ours, streams).context("cannot start another piton")?;
        let (pid, word) = (child.id(), child.stdin.take());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut said = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut said).await.context("cannot hear another piton")?;
        }
        match (pid, word) {
            (Some(pid), Some(word)) if said.trim() == READY => Ok(Self { pid, word }),
            _ => {
                let mut why = String::new();
                if let Some(mut stderr) = stderr {
                    // What it cannot say is not known.
                    let _ = stderr.read_to_string(&mut why).await;
                }
                bail!("the turn cannot go on in the background: {}", why.trim())
            }
        }
    }

    /// Tells it that the session is about to be free.
    async fn go(mut self) -> Result<u32> {
        self.word.write_all(GO.as_bytes()).await.context("the process in the background is gone")?;
        self.word.shutdown().await.context("the process in the background is gone")?;
        Ok(self.pid)
    }
}

impl Chat<'_> {
    /// Has the turn go on in the background, and leaves.
    pub(super) fn hand_over(&mut self) {
        let Some(open) = &self.open else { return self.is_over = true };
        if open.session.elsewhere().is_some() {
            // It goes on where it runs.
            return self.is_over = true;
        }
        if std::mem::replace(&mut self.hands_over, true) {
            return;
        }
        let (session, typed, around) = (open.session.clone(), self.typed.clone(), self.around.clone());
        let had = Configure { mode: Some(self.facts.mode), effort: self.wishes.had.effort, ..Configure::default() };
        let taken = Taken { session: session.id().clone(), had };
        self.note("leaving as soon as no reply or file change is in progress");
        self.asked.push(Box::pin(async move {
            let ready = async {
                let successor = Successor::start(taken, typed, around).await?;
                session.ready_to_hand_over().await?;
                match session.ask(Request::Look {}).next().await? {
                    // The turn was stopped, or is over: there is nothing to go on with.
                    Reply::Seen(now) if now.phase == Stage::AtRest && now.queue.is_empty() => Ok(None),
                    _ => successor.go().await.map(Some),
                }
            };
            Done::HandedOver(ready.await)
        }));
    }

    /// The terminal is gone. A turn goes on to where nothing is lost, and is left there for whoever goes on with it; a signal ends the
    /// wait. Answers with the exit code.
    pub(super) async fn without_terminal(&mut self, stops: &mut Stops) -> u8 {
        let Some(session) = self.open.as_ref().map(|open| open.session.clone()) else { return EXIT_TERMINATED };
        if session.elsewhere().is_some() {
            return EXIT_TERMINATED;
        }
        let at_a_safe_point = async {
            session.ready_to_hand_over().await?;
            let answer = session.ask(Request::Look {}).next().await?;
            Ok::<_, EngineError>(
                !matches!(answer, Reply::Seen(now) if now.phase == Stage::AtRest && now.queue.is_empty()),
            )
        };
        tokio::pin!(at_a_safe_point);
        self.is_left_open = loop {
            tokio::select! {
                is_under_way = &mut at_a_safe_point => break is_under_way.unwrap_or(false),
                stop = stops.next() => if !stop.is_hang_up { return stop.code() },
            }
        };
        EXIT_TERMINATED
    }

    /// The other process takes over as soon as this one is gone, or the turn goes on here.
    pub(super) fn handed_over(&mut self, successor: Result<Option<u32>>) {
        self.hands_over = false;
        match successor {
            Ok(pid) => (self.successor, self.is_over) = (pid, true),
            Err(error) => {
                self.fail(&error);
                self.ask(Request::Continue {}, super::About::Else);
            }
        }
    }
}

/// Says where the session goes on.
pub(super) fn say(id: &SessionId, pid: u32) {
    let short = print::short_id(id.as_str());
    print::write_stderr(&format!(
        "{id} goes on in the background (process {pid})\nwatch it with: piton --attach {short}\n"
    ));
}
