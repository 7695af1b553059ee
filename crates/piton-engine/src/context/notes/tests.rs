//! What is said when a step begins, from events alone.

use super::{Addition, Notes};
use crate::context::Instructions;
use piton_core::budget::Budget;
use piton_core::call::{CallInput, Effects, Outcome};
use piton_core::event::{Event, Given, GivenKind, Record, StepKind, Trigger, Verdict};
use piton_core::ids::CallId;
use piton_core::message::{FinishReason, Part, ToolCall};
use piton_core::model::Reply;
use piton_core::policy::{LastStep, Policy, StepPolicy, StepsCounted};
use piton_core::turn::State;
use piton_tools::disk::Disk;
use piton_tools::ledger::{FileLedger, hash_of};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// A session in a folder with instructions at its top and below.
struct Play {
    _folder: TempDir,
    workspace: PathBuf,
    session: State,
    notes: Notes,
    ledger: FileLedger,
    seq: u64,
}

impl Play {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = folder.path().canonicalize().expect("a path");
        fs::create_dir_all(workspace.join("deep/er")).expect("a folder");
        fs::write(workspace.join("AGENTS.md"), "top").expect("a file");
        fs::write(workspace.join("deep/AGENTS.md"), "deep").expect("a file");
        fs::write(workspace.join("deep/er/x"), "x").expect("a file");
        let (session, notes, ledger) = (State::new(), Notes::default(), FileLedger::default());
        let mut play = Self { _folder: folder, workspace, session, notes, ledger, seq: 0 };
        let workspace = play.workspace.to_string_lossy().into_owned();
        play.happens(Event::SessionStarted { session: "s".into(), workspace, version: "0".into(), parent: None });
        play
    }

    fn happens(&mut self, event: Event) {
        self.seq += 1;
        let record = Record { seq: self.seq, at_ms: 0, event };
        self.session.apply(&record);
        self.notes.hear(&record);
    }

    fn turn_starts(&mut self, policy: Policy) {
        let parts = vec![Part::text("go")];
        let delivery = piton_core::event::Delivery::Steer;
        self.happens(Event::UserSpoke {
            message: format!("m{}", self.seq).as_str().into(),
            parts,
            delivery,
            typed: None,
            allows: Vec::new(),
            for_turn: None,
            subtask: None,
        });
        let (turn, model) = (self.session.turn() + 1, "a/b".to_owned());
        let policy = Box::new(policy);
        self.happens(Event::TurnStarted {
            turn,
            model,
            fallbacks: vec![],
            policy,
            compact_at_tokens: None,
            this_turn_only: false,
        });
    }

    fn reads(&mut self, path: &str) {
        let outcome = Outcome::ok("").with(json!({"path": self.workspace.join(path)}));
        self.happens(Event::CallSettled { call: "c".into(), outcome });
    }

    /// The model makes a call in the step that has begun, and has its answer.
    fn calls_a_tool(&mut self) {
        let step = self.session.step();
        let input = CallInput::Json(json!({"path": step}));
        let call =
            ToolCall { id: "".into(), provider_id: None, name: "read".into(), spelling: None, input, opaque: None };
        let reply = Reply::new(vec![Part::ToolCall(call)], FinishReason::ToolCalls);
        self.happens(self.session.replied(1, reply, None, 0, 0));
        let call = CallId(format!("c{step}_0"));
        self.happens(Event::requested(call.clone(), Effects::READ, Verdict::Refuse("no".into())));
        self.happens(Event::CallSettled { call, outcome: Outcome::failed("no") });
        self.happens(Event::StepFinished { step });
    }

    /// A step begins. Returns what is said, shortened to what it is about.
    fn step(&mut self, kind: StepKind, now_ms: u64) -> Vec<String> {
        let instructions = Instructions::default();
        let environment = Some("You are here.");
        let addition = self.notes.at_step(
            &self.session,
            (kind, false),
            now_ms,
            environment,
            Some(&instructions),
            (&self.ledger, &Disk::to_read()),
        );
        let Addition { texts, items } = addition;
        self.happens(Event::ContextGiven { items });
        self.happens(Event::StepStarted { step: self.session.step() + 1, kind, note: None });
        self.calls_a_tool();
        let about = |text: &String| {
            let known = [
                "You are here",
                ">\ntop\n<",
                ">\ndeep\n<",
                "have changed on the disk",
                "nearly spent",
                "steps of this turn are left",
            ];
            known
                .iter()
                .filter(|known| text.contains(**known))
                .map(|known| known.trim_matches(['>', '\n', '<']))
                .collect::<Vec<_>>()
                .join("+")
        };
        texts.iter().map(about).collect()
    }
}

#[test]
fn a_folders_instructions_are_given_once_and_again_after_a_compaction() {
    let mut play = Play::new();
    let start =
        Notes::at_start(Some("You are here."), Some(&Instructions::default()), &play.workspace, &Disk::to_read());
    play.happens(Event::ContextGiven { items: start.items });
    play.turn_starts(Policy::piton());
    assert_eq!(play.step(StepKind::Ordinary, 0), [""; 0]);
    play.reads("deep/er/x");
    assert_eq!(play.step(StepKind::Ordinary, 0), ["deep"]);
    play.reads("deep/er/x");
    assert_eq!(play.step(StepKind::Ordinary, 0), [""; 0]);
    let trigger = Trigger::Ordinary;
    let summary = "so far".to_owned();
    play.happens(Event::CompactionFinished {
        trigger,
        upto_seq: 3,
        summary,
        tokens_before: 9,
        tokens_after: 1,
        note: None,
        asked: None,
    });
    assert_eq!(play.step(StepKind::WrapUp, 0), [""; 0], "the last step can do nothing with them");
    assert_eq!(play.step(StepKind::Ordinary, 0), ["You are here", "top", "deep"]);
    assert_eq!(play.step(StepKind::Ordinary, 0), [""; 0]);
}

#[test]
fn budget_and_steps_are_said_once_a_turn() {
    let mut play = Play::new();
    let policy = || {
        let budget = Budget { wall_clock_ms: Some(10_000), ..Budget::default() };
        Policy { steps: StepPolicy { max: Some(12), ..StepPolicy::default() }, budget, ..Policy::piton() }
    };
    play.turn_starts(policy());
    assert_eq!(play.step(StepKind::Ordinary, 7_999), [""; 0]);
    assert_eq!(play.step(StepKind::Ordinary, 8_000), ["nearly spent"]);
    for _ in 2..7 {
        assert_eq!(play.step(StepKind::Ordinary, 9_000), [""; 0]);
    }
    assert_eq!(play.step(StepKind::Ordinary, 9_000), ["steps of this turn are left"]);
    assert_eq!(play.step(StepKind::Ordinary, 9_000), [""; 0]);
}

#[test]
fn all_instructions_of_a_session_have_one_limit() {
    let mut play = Play::new();
    let long = "word ".repeat(6_000);
    for number in 0..5 {
        fs::create_dir(play.workspace.join(format!("d{number}"))).expect("a folder");
        fs::write(play.workspace.join(format!("d{number}/AGENTS.md")), &long).expect("a file");
    }
    play.turn_starts(Policy::piton());
    let mut bytes = 0;
    for number in 0..5 {
        play.reads(&format!("d{number}/x"));
        let instructions = Instructions::default();
        let kind = StepKind::Ordinary;
        let addition = play.notes.at_step(
            &play.session,
            (kind, false),
            0,
            None,
            Some(&instructions),
            (&play.ledger, &Disk::to_read()),
        );
        bytes += addition.items.iter().map(|item| item.bytes).sum::<usize>();
        play.happens(Event::ContextGiven { items: addition.items });
    }
    assert!((60_000..=65_700).contains(&bytes), "{bytes}");
}

#[test]
fn steps_are_counted_as_the_limit_counts_them() {
    let told = |policy: Policy| {
        let mut play = Play::new();
        play.turn_starts(Policy { steps: StepPolicy { max: Some(12), ..policy.steps }, ..policy });
        let mut told = Vec::new();
        for _ in 0..9 {
            told.extend(
                play.notes
                    .at_step(
                        &play.session,
                        (StepKind::Ordinary, false),
                        0,
                        None,
                        None,
                        (&play.ledger, &Disk::to_read()),
                    )
                    .texts,
            );
            play.step(StepKind::Ordinary, 0);
        }
        told
    };
    let says = "5 steps of this turn are left, this one included.";
    let last = "On the last one there are no tools.";
    assert_eq!(told(Policy::piton()), [format!("{says} {last}")]);
    assert_eq!(
        told(Policy { steps: StepPolicy { last: LastStep::Plain, ..StepPolicy::default() }, ..Policy::piton() }),
        [says]
    );
    let free = Policy {
        steps: StepPolicy { counted: StepsCounted::WithoutCalls, ..StepPolicy::default() },
        ..Policy::piton()
    };
    assert_eq!(told(free), [""; 0], "rounds of tools do not count there");
}

#[test]
fn a_file_that_changed_is_named_with_what_became_of_it() {
    let mut play = Play::new();
    play.turn_starts(Policy::piton());
    for name in ["a", "b"] {
        fs::write(play.workspace.join(name), "one").expect("a file");
        play.ledger.note(&play.workspace.join(name), &hash_of(b"one"), None);
    }
    assert_eq!(play.step(StepKind::Ordinary, 0), [""; 0]);
    fs::write(play.workspace.join("a"), "two!").expect("a file");
    fs::remove_file(play.workspace.join("b")).expect("removed");
    let addition =
        play.notes.at_step(&play.session, (StepKind::Ordinary, false), 0, None, None, (&play.ledger, &Disk::to_read()));
    assert!(addition.texts[0].ends_with(":\n- a\n- b (gone)"), "{:?}", addition.texts);
    let expected = |name: &str, hash: Option<String>| {
        (GivenKind::FileChanged, Some(play.workspace.join(name).to_string_lossy().into_owned()), hash)
    };
    let given = |item: &Given| (item.kind, item.path.clone(), item.hash.clone());
    let items: Vec<_> = addition.items.iter().map(given).collect();
    assert_eq!(items, [expected("a", Some(hash_of(b"two!"))), expected("b", None)]);
}
