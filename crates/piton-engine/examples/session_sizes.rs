//! How long large things take: `session_sizes list DIR`, makes a data folder of 10,000 sessions; `open DIR`, makes a
//! session of 10,000 steps, once, and opens it again and again; `memory DIR`, opens it once; `request DIR`, builds the next request of such a session
//! again and again; `steps DIR`, runs steps with a tool of this process, on
//! the journal's disk and in memory. Prints numbers, one a line. `cargo xtask bench` runs it in a release build.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement: its command line and its output")]

use piton_core::call::{CallInput, Effects, Outcome};
use piton_core::event::{Delivery, Event, Record, Spent, StepKind, TurnEnd, Verdict};
use piton_core::ids::{CallId, MessageId, Seq, SessionId};
use piton_core::message::{FinishReason, Part, ToolCall, Usage};
use piton_core::model::Reply;
use piton_core::permission::Action;
use piton_core::policy::{Policy, StepPolicy};
use piton_core::prompt::{PromptContents, Segment, SegmentKind};
use piton_core::request::{self, Frame};
use piton_core::turn::State;
use piton_engine::engine::{Engine, Settings};
use piton_engine::store::memory::MemoryStore;
use piton_engine::store::sqlite::SqliteStore;
use piton_engine::store::sqlite::{Journal, SessionDir};
use piton_engine::store::{self, Opening};
use piton_models::recorded::Recorded;
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SESSIONS: u64 = 10_000;
const STEPS: u32 = 10_000;
const OPENINGS: usize = 7;
const JOURNALLED_STEPS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list", dir] => make_sessions(Path::new(dir)),
        ["open", dir] => runtime()?.block_on(open_again_and_again(Path::new(dir))),
        ["memory", dir] => runtime()?.block_on(open_once(Path::new(dir))),
        ["request", _] => build_again_and_again(),
        ["steps", dir] => runtime()?.block_on(steps(Path::new(dir))),
        _ => Err("session_sizes list|open|memory|request|steps DIR".into()),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Sessions with one short turn each, as many folders have.
fn make_sessions(data: &Path) -> Result<(), Box<dyn Error>> {
    for number in 0..SESSIONS {
        let id = SessionId(format!("ses_{number:032x}"));
        let records = conversation(&id, &format!("/work/project{}", number % 50), 1);
        Journal::adopt(&SessionDir::new(&data.join("sessions"), &id), opening(), records)?;
    }
    Ok(())
}

/// Milliseconds of each request. No message is copied: a request holds those of the session.
fn build_again_and_again() -> Result<(), Box<dyn Error>> {
    let mut records = conversation(&SessionId::from("ses_00000000"), "/work", STEPS);
    // In the middle of its turn.
    records.pop();
    let session = State::fold(&records);
    let frame = Frame { system: "a system prompt".into(), tools: Arc::new([]), max_output_tokens: None };
    for _ in 0..OPENINGS {
        let started = Instant::now();
        let request = request::build(&session, &frame, "model");
        let took = started.elapsed();
        if request.messages.len() < 2 * STEPS as usize {
            return Err("this is not the whole conversation".into());
        }
        println!("{:.4}", took.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Milliseconds of each opening.
async fn open_again_and_again(data: &Path) -> Result<(), Box<dyn Error>> {
    let id = SessionId::from("ses_00000000");
    let dir = SessionDir::new(&data.join("sessions"), &id);
    if !dir.journal_db().exists() {
        // In another process, since its memory would count as ours.
        return Ok(Journal::adopt(&dir, opening(), conversation(&id, "/work", STEPS))?);
    }
    let store = SqliteStore::new(data);
    for _ in 0..OPENINGS {
        println!("{:.3}", open(&store, &id).await?.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// The peak memory, in millions of bytes, of a process that opens a session as people do, once: this one.
async fn open_once(data: &Path) -> Result<(), Box<dyn Error>> {
    open(&SqliteStore::new(data), &SessionId::from("ses_00000000")).await?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    let kibibytes: f64 = peak.trim().trim_end_matches(" kB").parse()?;
    println!("{:.3}", kibibytes * 1024.0 / 1e6);
    Ok(())
}

async fn open(store: &SqliteStore, id: &SessionId) -> Result<Duration, Box<dyn Error>> {
    let started = Instant::now();
    let (log, session) = store::resume(store, id, opening(), &mut ()).await?;
    let took = started.elapsed();
    if session.step() != STEPS || session.transcript().len() < 2 * STEPS as usize {
        return Err("this is not the session that was made".into());
    }
    log.close(&[]).await?;
    Ok(took)
}

/// Milliseconds a step of a run whose every step reads a file; the journal on the disk, then in memory.
async fn steps(data: &Path) -> Result<(), Box<dyn Error>> {
    let workspace = data.join("workspace");
    std::fs::create_dir_all(&workspace)?;
    for number in 0..JOURNALLED_STEPS {
        std::fs::write(workspace.join(format!("{number}.txt")), format!("line {number}\n").repeat(40))?;
    }
    let in_memory = Engine::over(Arc::new(MemoryStore::new(data.join("scratch"))), data);
    for engine in [Engine::open(data), in_memory] {
        let mut lines: Vec<String> = (0..JOURNALLED_STEPS)
            .map(|number| json!({"calls": [{"name": "read", "input": {"path": format!("{number}.txt")}}]}).to_string())
            .collect();
        lines.push(json!({"text": "done"}).to_string());
        let mut settings = Settings::new(Arc::new(Recorded::parse(&lines.join("\n"))?));
        settings.policy.permission.push("*", Action::Allow);
        settings.shares_runtime = false;
        let session = engine.create(&workspace, settings).await?;
        let started = Instant::now();
        let report = session.prompt("read them all").await?;
        let took = started.elapsed();
        if report.end != TurnEnd::Completed || report.spent.calls as usize != JOURNALLED_STEPS {
            return Err(format!("the run ended with {:?} after {} calls", report.end, report.spent.calls).into());
        }
        session.close().await;
        println!("{:.4}", took.as_secs_f64() * 1e3 / JOURNALLED_STEPS as f64);
    }
    Ok(())
}

fn opening() -> Opening {
    Opening { pid: std::process::id(), boot_id: None, now_ms: 1, shares_runtime: false }
}

/// One turn of so many steps, each with a call that reads a few lines.
fn conversation(id: &SessionId, workspace: &str, steps: u32) -> Vec<Record> {
    let mut events = vec![
        Event::SessionStarted {
            session: id.clone(),
            workspace: workspace.to_owned(),
            version: "0".to_owned(),
            parent: None,
        },
        Event::UserSpoke {
            message: MessageId::from("msg_1"),
            parts: vec![Part::text(format!("look at {id} and say what it does"))],
            delivery: Delivery::Steer,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        },
        Event::TurnStarted {
            turn: 1,
            model: "fake/model".to_owned(),
            fallbacks: vec![],
            policy: Box::new(Policy { steps: StepPolicy { max: None, ..StepPolicy::default() }, ..Policy::piton() }),
            compact_at_tokens: None,
            this_turn_only: false,
        },
    ];
    for step in 1..=steps {
        events.extend(one_step(step));
    }
    let end = TurnEnd::Completed;
    events.push(Event::TurnEnded { turn: 1, end, why: None, detail: None, spent: Spent::default() });
    (1..).zip(events).map(|(seq, event): (Seq, Event)| Record { seq, at_ms: seq * 10, event }).collect()
}

fn one_step(step: u32) -> [Event; 6] {
    let call = CallId(format!("c{step}_0"));
    let path = format!("src/module_{}/file_{step}.rs", step % 40);
    let usage = Usage { input_tokens: 12_000, output_tokens: 60, cache_read_tokens: 11_000, ..Usage::default() };
    let input = CallInput::Json(json!({"path": path, "offset": step, "limit": 12}));
    let parts = vec![
        Part::text(format!("Step {step}: let me look at {path} before going on.")),
        Part::ToolCall(ToolCall {
            id: call.clone(),
            provider_id: Some(format!("call_{step:024}")),
            name: "read".to_owned(),
            spelling: None,
            input,
            opaque: None,
        }),
    ];
    let text = (0..12).map(|line| format!("{:>5}\tlet value_{line} = compute({step}, {line});\n", step + line));
    let outcome = Outcome::ok(text.collect::<String>()).titled(format!("read {path} (12 lines)"));
    let metadata = json!({"path": format!("/work/{path}"), "hash": format!("{step:064x}"), "lines": 12});
    let segment = |kind, bytes| Segment { kind, hash: u64::from(step), bytes };
    let prompt = PromptContents {
        kept: 2 * step as usize,
        new: vec![segment(SegmentKind::Assistant, 300), segment(SegmentKind::Tool, 1_000)],
        predicted_tokens: u64::from(step) * 300,
        lost_micros: Some(0),
    };
    [
        Event::StepStarted { step, kind: StepKind::Ordinary, note: None },
        Event::MessageFinished {
            first_ms: None,
            step,
            attempt: 1,
            reply: Reply {
                parts,
                finish: FinishReason::ToolCalls,
                finish_raw: Some("tool_calls".to_owned()),
                usage,
                response_id: Some(format!("chatcmpl-{step:024}")),
                warnings: vec![],
            },
            cost_micros: Some(120),
            at_most: None,
            prompt: Some(Box::new(prompt)),
        },
        Event::requested(call.clone(), Effects::READ, Verdict::Allow),
        Event::CallStarted { call: call.clone() },
        Event::CallSettled { call, outcome: outcome.with(metadata) },
        Event::StepFinished { step },
    ]
}
