//! The same with real processes: `piton run` against the fake provider, real shell commands, `kill -9` of Piton, of its
//! runners or of both at random times, then `--continue` until all is done; so with one session ([`run`]), and with one that has
//! called subagents ([`run_tree`]). Linux only: it looks into `/proc`.
//!
//! The seed decides the script, whom it hits and when; the machine's scheduler has its say too, so a seed that failed
//! fails again often, not always.

use super::client::times_said;
use crate::{FakeProvider, TempWorkspace};
use piton_core::call::{CallInput, Outcome, Status};
use piton_core::event::{Event, Record, TurnEnd};
use piton_core::ids::SessionId;
use piton_core::message::{Message, Part, Usage};
use piton_core::turn;
use piton_engine::store::CheckResult;
use piton_engine::store::sqlite::{self, SessionDir};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The `piton` binary.
    pub piton: PathBuf,
    /// Where shell commands find theirs.
    pub search_path: OsString,
    /// What `--sandbox` says: `workspace-write`, `off`.
    pub sandbox: String,
}

/// Whom a kill hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Victim {
    /// Piton; its runners live on.
    Piton,
    /// The runners; Piton lives on.
    Runners,
    /// Piton and its runners; who is in a sandbox, the kernel ends.
    Both,
    /// Piton and every process below it.
    Everything,
    /// The turn: by Ctrl-C, and Piton ends it. The run is over then.
    Turn,
}

/// What came of one run.
#[derive(Debug, Default)]
pub struct Tally {
    /// What must not be; empty when all is well.
    pub violations: Vec<String>,
    /// Who was hit, kill by kill.
    pub kills: Vec<Victim>,
    /// How the shell commands came out.
    pub statuses: Vec<Status>,
    /// Requests that the provider saw.
    pub requests: usize,
}

const PROMPT: &str = "do it";
/// Subagents of a tree that have commands, and how many each; one more only looks.
const PARTS: usize = 3;
const COMMANDS: usize = 8;
/// Retries that nobody has to wait for.
const CONFIG: &str = "[retry]\nfirst_wait = 0.02\nlongest_wait = 0.05\n";
/// How long anything may take. Nothing takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Kills of one run at most.
const MOST_KILLS: u32 = 3;
const VICTIMS: [Victim; 5] = [Victim::Piton, Victim::Runners, Victim::Both, Victim::Everything, Victim::Turn];
const PROTOCOLS: [&str; 3] = ["openai-chat", "anthropic", "openai-responses"];

/// One session, killed up to three times.
pub fn run(program: &Program, seed: u64) -> Tally {
    let mut dice = fastrand::Rng::with_seed(seed);
    let home = TempWorkspace::with([("config.toml", CONFIG)]);
    let script = script(&mut dice, &home.path());
    let scene = Scene::new(program, home, script, &mut dice);
    let kills = dice.u32(1..=MOST_KILLS);
    let mut tally = scene.play(kills, || {
        let victim = VICTIMS[dice.usize(..VICTIMS.len())];
        (victim, Moment { lines: 0, then: Duration::from_millis(dice.u64(0..250)) })
    });
    scene.check(&mut tally);
    tally
}

/// A session whose three subagents have eight commands each, killed once when so many of these have begun. The last of them works
/// in a worktree of its own, and so does a fourth one, which only looks.
pub fn run_tree(program: &Program, seed: u64) -> Tally {
    const VICTIMS: [Victim; 3] = [Victim::Piton, Victim::Both, Victim::Everything];
    let mut dice = fastrand::Rng::with_seed(seed);
    let home = TempWorkspace::with([("config.toml", CONFIG)]);
    let script = tree_script(&mut dice);
    let scene = Scene::new(program, home, script, &mut dice);
    scene.git(&["init", "-q", "-b", "main"]);
    scene.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    let mut tally = scene.play(1, || {
        let victim = VICTIMS[dice.usize(..VICTIMS.len())];
        let lines = dice.usize(0..PARTS * COMMANDS);
        (victim, Moment { lines, then: Duration::from_millis(dice.u64(0..100)) })
    });
    scene.check_tree(&mut tally);
    tally
}

/// When a kill hits.
struct Moment {
    /// So many commands have begun,
    lines: usize,
    /// and so long ago.
    then: Duration,
}

impl Scene<'_> {
    /// Starts the task and goes on with it until it is done, with so many kills on the way. `next` says whom a kill would hit in this
    /// process, and when.
    fn play(&self, kills: u32, mut next: impl FnMut() -> (Victim, Moment)) -> Tally {
        let (mut tally, mut kills_left) = (Tally::default(), kills);
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let mut piton = self.start();
            let (victim, moment) = next();
            if kills_left > 0 && !self.ends_before(&mut piton, &moment) {
                kills_left -= 1;
                // To a Piton that does not listen yet Ctrl-C is no word, but its end.
                let victim = if victim == Victim::Turn && !hears_ctrl_c(piton.id()) { Victim::Piton } else { victim };
                tally.kills.push(victim);
                self.hit(&piton, victim);
            }
            if !ends_within(&mut piton, PATIENCE) {
                tally.violations.push("it is stuck".to_owned());
                self.hit(&piton, Victim::Everything);
            }
            let ended_well = piton.wait().is_ok_and(|status| status.success());
            if ended_well || tally.kills.contains(&Victim::Turn) {
                break;
            }
        }
        tally.requests = self.provider.requests().len();
        tally
    }

    fn ends_before(&self, piton: &mut Child, moment: &Moment) -> bool {
        let began = Instant::now();
        let has_begun = || self.ledger().lines().count() >= moment.lines;
        while moment.lines > 0 && !has_begun() && began.elapsed() < PATIENCE {
            if ends_within(piton, Duration::from_millis(2)) {
                return true;
            }
        }
        ends_within(piton, moment.then)
    }
}

/// Calls of subagents of one reply, and the commands of each, one a step.
fn tree_script(dice: &mut fastrand::Rng) -> Value {
    let usage = json!({"input": 100, "output": 10});
    let call = |part: usize| {
        let mut args = json!({"description": format!("part {part}"), "prompt": format!("do part {part}"), "subagent_type": "general"});
        if part + 1 >= PARTS {
            args["isolation"] = json!("worktree");
        }
        json!({"name": "task", "id": format!("call_part{part}"), "args": args})
    };
    let calls: Vec<Value> = (0..=PARTS).map(call).collect();
    let mut answers = vec![json!({"tools": calls, "usage": usage}), json!({"text": "all done", "usage": usage})];
    for part in 0..=PARTS {
        let of = format!("do part {part}");
        for step in 0..if part < PARTS { COMMANDS } else { 0 } {
            let (line, ms) = (format!("L{part}_{step}"), dice.u32(0..80));
            let command = format!("echo {line} >> ledger; sleep 0.{ms:03}; echo out {line}");
            let call = json!({"name": "bash", "id": format!("call_{line}"), "args": {"command": command}});
            answers.push(json!({"of": of, "tools": [call], "usage": usage}));
        }
        answers.push(json!({"of": of, "text": format!("part {part} is done"), "usage": usage}));
    }
    Value::from(answers)
}

/// A few steps of shell commands, each leaving a line of its own, and files beside them.
fn script(dice: &mut fastrand::Rng, home: &Path) -> Value {
    // It is in no session and no group of its command's; by the folder it is found.
    let daemon = format!("setsid -f sh -c 'sleep 600; :' {} >/dev/null 2>&1; ", home.display());
    let mut answers = Vec::new();
    for step in 0..dice.usize(2..=4) {
        let command = |n: usize, dice: &mut fastrand::Rng| {
            let (line, ms) = (format!("L{step}_{n}"), dice.u32(0..80));
            let daemon = if dice.u8(0..4) == 0 { daemon.as_str() } else { "" };
            let text = format!("echo {line} >> ledger; {daemon}sleep 0.{ms:03}; echo out {line}");
            json!({"name": "bash", "id": format!("call_{line}"), "args": {"command": text}})
        };
        let mut tools: Vec<Value> = (0..dice.usize(1..=3)).map(|n| command(n, dice)).collect();
        if dice.bool() {
            let args = json!({"path": format!("made{step}.txt"), "content": made(step)});
            tools.push(json!({"name": "write", "id": format!("call_w{step}"), "args": args}));
        }
        answers.push(json!({"text": "let me", "tools": tools, "usage": {"input": 100, "output": 10}}));
    }
    answers.push(json!({"text": "all done", "usage": {"input": 100, "output": 10}}));
    Value::from(answers)
}

fn made(step: usize) -> String {
    format!("made in step {step}\n").repeat(50)
}

struct Scene<'s> {
    program: &'s Program,
    provider: FakeProvider,
    workspace: TempWorkspace,
    home: TempWorkspace,
    sessions: PathBuf,
    protocol: &'static str,
}

impl<'s> Scene<'s> {
    fn new(program: &'s Program, home: TempWorkspace, script: Value, dice: &mut fastrand::Rng) -> Self {
        Self {
            program,
            provider: FakeProvider::start_by_conversation(script),
            workspace: TempWorkspace::new(),
            sessions: home.path().join("data/sessions"),
            home,
            protocol: PROTOCOLS[dice.usize(0..PROTOCOLS.len())],
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the harness starts Piton itself")]
    /// Starts the task, or goes on with it where there is one on record.
    fn start(&self) -> Child {
        let mut command = Command::new(&self.program.piton);
        command.env_clear().env("PATH", &self.program.search_path).env("HOME", self.home.path());
        command.env("PITON_DATA_DIR", self.home.path().join("data"));
        command.env("PITON_CONFIG", self.home.path().join("config.toml"));
        command.env("OPENAI_BASE_URL", format!("{}/v1", self.provider.url())).env("OPENAI_API_KEY", "sk-test-openai");
        command.env("ANTHROPIC_BASE_URL", self.provider.url()).env("ANTHROPIC_API_KEY", "sk-test-anthropic");
        command.args([
            "run",
            "--yes",
            "--sandbox",
            &self.program.sandbox,
            "--format",
            "json",
            "--model",
            &format!("{}/test-model", self.protocol),
        ]);
        command.arg(if self.records().is_some() { "--continue" } else { PROMPT });
        command.current_dir(self.workspace.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// What git answers in the workspace.
    #[expect(clippy::disallowed_methods, reason = "the harness runs it")]
    fn git(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(words);
        let output = git.current_dir(self.workspace.path()).env("HOME", self.home.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What commands have left, in the workspace and in worktrees of it.
    fn ledger(&self) -> String {
        let worktrees =
            self.worktrees().into_iter().map(|worktree| worktree.join(worktree.file_name().unwrap_or_default()));
        let folders = std::iter::once(self.workspace.path()).chain(worktrees);
        folders.filter_map(|folder| std::fs::read_to_string(folder.join("ledger")).ok()).collect()
    }

    fn worktrees(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home.path().join("data/worktrees")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    fn hit(&self, piton: &Child, victim: Victim) {
        let below = descendants(piton.id());
        // The first process of a sandbox is the kernel's to end, with its runner.
        let is_runner = |pid: &u32| {
            command_line(*pid).is_some_and(|line| line.contains("runner") && !line.contains("sandbox-first"))
        };
        let piton = std::iter::once(piton.id());
        let victims: Vec<u32> = match victim {
            Victim::Piton => piton.collect(),
            Victim::Runners => below.into_iter().filter(is_runner).collect(),
            Victim::Both => piton.chain(below.into_iter().filter(is_runner)).collect(),
            Victim::Everything => piton.chain(below).collect(),
            Victim::Turn => return piton.for_each(|pid| signal(pid, Signal::INT)),
        };
        victims.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }

    /// Every session and its events.
    fn all_records(&self) -> Vec<(SessionDir, Vec<Record>)> {
        let entries = std::fs::read_dir(&self.sessions).into_iter().flatten().flatten();
        let dirs = entries.map(|entry| {
            let id = SessionId(entry.file_name().to_string_lossy().into_owned());
            SessionDir::new(&self.sessions, &id)
        });
        // What never came to be is swept away later.
        let sessions = dirs.filter_map(|dir| Some((dir.clone(), sqlite::read_session(&dir).ok()?)));
        sessions.filter(|(_, records)| !records.is_empty()).collect()
    }

    /// The session that a person began, once the task is on record.
    fn records(&self) -> Option<(SessionDir, Vec<Record>)> {
        self.all_records().into_iter().find(|(_, records)| times_said(records, PROMPT) > 0 || has_prompt(records))
    }

    fn check(&self, tally: &mut Tally) {
        for request in self.provider.requests() {
            tally.violations.extend(request.fault().map(|fault| format!("I2: the provider is asked with {fault}")));
        }
        let is_cancelled = tally.kills.contains(&Victim::Turn);
        let Some((dir, records)) = self.records() else {
            self.left_over(tally);
            if is_cancelled {
                return;
            }
            tally.violations.push("I4: the task is not on record".to_owned());
            return;
        };
        match sqlite::verify(&dir) {
            Ok(CheckResult::Sound { .. }) => {}
            other => tally.violations.push(format!("I5: {other:?}")),
        }
        let session = turn::State::fold(&records);
        let messages = session.transcript().map(AsRef::as_ref);
        tally.violations.extend(turn::malformed(messages).map(|fault| format!("I2: {fault}")));
        self.calls(std::slice::from_ref(&records), tally);
        bill(std::slice::from_ref(&records), &records, tally);
        let completed = |record: &Record| matches!(record.event, Event::TurnEnded { end: TurnEnd::Completed, .. });
        if !is_cancelled && !records.iter().any(completed) {
            tally.violations.push("the turn did not complete".to_owned());
        }
        self.left_over(tally);
    }

    /// What holds of one session holds of each; every subagent has come to its end, and its caller has heard of it.
    fn check_tree(&self, tally: &mut Tally) {
        for request in self.provider.requests() {
            tally.violations.extend(request.fault().map(|fault| format!("I2: the provider is asked with {fault}")));
        }
        let all = self.all_records();
        let Some((_, root)) = self.records() else {
            return tally.violations.push("I4: the task is not on record".to_owned());
        };
        let (mut journals, mut commands) = (Vec::new(), 0);
        for (dir, records) in all {
            match sqlite::verify(&dir) {
                Ok(CheckResult::Sound { .. }) => {}
                other => tally.violations.push(format!("I5: {other:?}")),
            }
            let session = turn::State::fold(&records);
            let messages = session.transcript().map(AsRef::as_ref);
            tally.violations.extend(turn::malformed(messages).map(|fault| format!("I2: {fault}")));
            let completed = |record: &Record| matches!(record.event, Event::TurnEnded { end: TurnEnd::Completed, .. });
            if !records.iter().any(completed) {
                tally.violations.push(format!("{} did not go on to its end", session.id()));
            }
            commands += calls(&records).iter().filter(|(name, ..)| name == "bash").count();
            journals.push(records);
        }
        if (journals.len(), commands) != (2 + PARTS, PARTS * COMMANDS) {
            tally.violations.push(format!("I4: {} sessions with {commands} commands", journals.len()));
        }
        for (part, (name, input, outcomes)) in calls(&root).into_iter().enumerate() {
            let is_told = |outcome: &Outcome| outcome.text.contains(&format!("part {part} is done"));
            if !matches!(&outcomes[..], [outcome] if outcome.status == Status::Ok && is_told(outcome)) {
                tally.violations.push(format!("I3: {name} {input} came to {outcomes:?}"));
            }
        }
        // The worktree in which something was changed is kept, and of the other nothing is left.
        let (branches, listed) = (self.git(&["branch", "--list", "piton/*"]), self.git(&["worktree", "list"]));
        let left = (self.worktrees().len(), branches.lines().count(), listed.lines().count());
        // A git that was killed leaves its lock, by which no branch can be deleted until a person removes it.
        let is_locked = self.workspace.has(".git/packed-refs.lock");
        if left != (1, 1, 2) && !(is_locked && left == (1, 2, 2)) {
            tally.violations.push(format!("I8: worktrees, branches and checkouts left: {left:?}"));
        }
        bill(&journals, &root, tally);
        journals.retain(|records| *records != root);
        self.calls(&journals, tally);
        self.left_over(tally);
    }

    /// Each call has one outcome, and it is true.
    fn calls(&self, sessions: &[Vec<Record>], tally: &mut Tally) {
        let ledger = self.ledger();
        let mut lines: HashMap<String, usize> = HashMap::new();
        ledger.lines().for_each(|line| *lines.entry(line.to_owned()).or_default() += 1);
        let all_were_hit = tally.kills.contains(&Victim::Everything);
        let is_cancelled = tally.kills.contains(&Victim::Turn);
        for (name, input, outcomes) in sessions.iter().flat_map(|records| calls(records)) {
            let [outcome] = outcomes.as_slice() else {
                tally.violations.push(format!("I2: {name} {input} has {} results", outcomes.len()));
                continue;
            };
            if name == "write" {
                let path = input["path"].as_str().unwrap_or_default();
                let as_intended = self.workspace.has(path) && json!(self.workspace.read(path)) == input["content"];
                let is_settled_so =
                    matches!(outcome.status, Status::Cancelled | Status::NotStarted | Status::Interrupted);
                if !(outcome.status == Status::Ok && as_intended || is_cancelled && is_settled_so) {
                    tally.violations.push(format!("I3: {path} as intended: {as_intended}, said: {}", outcome.text));
                }
                continue;
            }
            let command = input["command"].as_str().unwrap_or_default();
            let line = command.split_whitespace().nth(1).unwrap_or_default();
            let times = lines.remove(line).unwrap_or(0);
            tally.statuses.push(outcome.status);
            let said_all = outcome.text.contains(&format!("out {line}"));
            let is_true = match outcome.status {
                Status::Ok => times == 1 && said_all,
                Status::NotStarted => times == 0,
                Status::Interrupted => times <= 1,
                // When all are hit, a command may die of it before its runner, which then says so.
                Status::Failed => times <= 1 && all_were_hit && outcome.text.contains("SIGKILL"),
                Status::Cancelled => times <= 1 && is_cancelled,
                Status::TimedOut | Status::Denied => false,
            };
            if times > 1 {
                tally.violations.push(format!("I1: {line} happened {times} times"));
            }
            if !is_true {
                let (status, text) = (outcome.status, &outcome.text);
                tally.violations.push(format!("I3: {line} happened {times} times and is {status:?}: {text}"));
            }
        }
        tally.violations.extend(lines.keys().map(|line| format!("I7: {line} happened, and no call says so")));
    }

    /// I8: nothing that was started is still there.
    fn left_over(&self, tally: &mut Tally) {
        let (workspace, home) = (self.workspace.path(), self.home.path().to_string_lossy().into_owned());
        let is_ours = |pid: &u32| {
            std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == workspace)
                || command_line(*pid).is_some_and(|line| line.contains(&home))
        };
        let began = Instant::now();
        loop {
            let left: Vec<u32> = parents().into_keys().filter(is_ours).collect();
            if left.is_empty() {
                return;
            }
            if began.elapsed() > PATIENCE / 6 {
                let lines: Vec<_> = left.iter().filter_map(|pid| command_line(*pid)).collect();
                tally.violations.push(format!("I8: still there: {lines:?}"));
                left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The task, which may have a note of Piton's in front.
fn has_prompt(records: &[Record]) -> bool {
    let says = |part: &Part| matches!(part, Part::Text { text, .. } if text == PROMPT);
    records.iter().any(|record| matches!(&record.event, Event::UserSpoke { parts, .. } if parts.iter().any(says)))
}

/// Every call with its input and its outcomes.
fn calls(records: &[Record]) -> Vec<(String, Value, Vec<Outcome>)> {
    let replies = records.iter().filter_map(|record| match &record.event {
        Event::MessageFinished { reply, .. } => {
            Some(Message::new(piton_core::message::Role::Assistant, reply.parts.clone()))
        }
        _ => None,
    });
    let calls: Vec<_> = replies.flat_map(|message| message.calls().cloned().collect::<Vec<_>>()).collect();
    let outcomes = |id: &piton_core::ids::CallId| {
        let of = |record: &Record| match &record.event {
            Event::CallSettled { call, outcome } if call == id => Some(outcome.clone()),
            _ => None,
        };
        records.iter().filter_map(of).collect::<Vec<_>>()
    };
    let input = |input: &CallInput| match input {
        CallInput::Json(value) => value.clone(),
        CallInput::Invalid { .. } => Value::Null,
    };
    calls.into_iter().map(|call| (call.name.clone(), input(&call.input), outcomes(&call.id))).collect()
}

/// Every reply of these sessions is in the bill of the one that a person began once.
fn bill(sessions: &[Vec<Record>], root: &[Record], tally: &mut Tally) {
    let (mut used, mut billed) = (Usage::default(), Usage::default());
    for record in sessions.iter().flatten() {
        match &record.event {
            Event::MessageFinished { reply, .. } => used.add(&reply.usage),
            Event::ModelFailed { usage, .. } => used.add(usage),
            _ => {}
        }
    }
    for record in root {
        if let Event::TurnEnded { spent, .. } = &record.event {
            billed.add(&spent.usage);
        }
    }
    if used != billed || used.total() == 0 && !tally.kills.contains(&Victim::Turn) {
        tally.violations.push(format!("$: replies used {used:?}, the turns were billed {billed:?}"));
    }
}

fn ends_within(child: &mut Child, time: Duration) -> bool {
    let began = Instant::now();
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        if began.elapsed() >= time {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process has a handler for SIGINT.
fn hears_ctrl_c(pid: u32) -> bool {
    /// Signals are counted from 1.
    const SIGINT: u64 = 1 << (Signal::INT.as_raw() - 1);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & SIGINT != 0)
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Gone in the meantime is as good.
    pid.map(|pid| kill_process(pid, signal)).and_then(Result::ok).unwrap_or_default();
}

/// Every process with its parent.
fn parents() -> HashMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
    .collect()
}

fn descendants(of: u32) -> Vec<u32> {
    let parents = parents();
    let is_below = |pid: &u32| {
        let mut line = std::iter::successors(parents.get(pid).copied(), |pid| parents.get(pid).copied());
        line.any(|ancestor| ancestor == of)
    };
    parents.keys().copied().filter(is_below).collect()
}

fn command_line(pid: u32) -> Option<String> {
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).ok()?;
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).replace('\0', " "))
}
