//! What is going on when the machine crashes: what the user says and when, and what the model answers.

use super::servers::TOOLS;
use piton_core::event::{Delivery, TurnEnd};
use piton_core::model::ModelErrorKind;
use piton_tools::subagent::GENERAL;
use serde_json::{Value, json};

/// One story, the same for every seed but for its small print.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// The model's answers, one per step.
    pub(super) replies: Vec<Answer>,
    pub(super) says: Vec<Say>,
    /// The turn is cancelled when this kind of event is heard.
    pub(super) cancel_on: Option<&'static str>,
    /// `act` needs a person's word.
    pub(super) asks: bool,
    /// The turn is taken back when it is over, files too.
    pub(super) undoes: bool,
    /// A hook stands at every gate: see [`super::hooks`].
    pub(super) hooked: bool,
    /// What its subagents answer, by what they are told.
    pub(super) subagents: Vec<(&'static str, Vec<Answer>)>,
    /// `read` needs a person's word: subagents ask for it.
    pub(super) asks_below: bool,
    /// The tokens that all together may use.
    pub(super) budget: Option<u64>,
    /// How the last turn may end.
    pub(super) ends: &'static [TurnEnd],
}

/// What the model answers at one step.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) calls: Vec<(&'static str, Value)>,
    /// So many attempts fail first.
    pub(super) failures: u32,
    pub(super) error: Option<ModelErrorKind>,
}

/// What the user says, as soon as this kind of event is heard; `None`: at once.
#[derive(Debug, Clone)]
pub(super) struct Say {
    pub(super) text: &'static str,
    pub(super) after: Option<&'static str>,
    pub(super) delivery: Delivery,
}

/// Every story. The seed decides how long the answers are and how often the provider fails.
pub fn scenarios(seed: u64) -> Vec<Scenario> {
    let mut dice = fastrand::Rng::with_seed(seed);
    // The longest goes to a blob.
    let length = [5, 300, 6_000, 70_000][dice.choice([0, 1, 1, 2, 2, 2, 3]).unwrap_or(0)];
    let end = Answer { text: format!("done {}", "x".repeat(length)), ..Answer::default() };
    let failing = |times| Answer { failures: times, error: Some(ModelErrorKind::Overloaded), ..end.clone() };
    let eight: Vec<_> = (0..8).map(|n| act(&format!("of eight {n}"))).collect();
    let made = ("write", json!({"path": "made.txt", "content": "made\n".repeat(dice.usize(1..400))}));
    let read = ("read", json!({"path": "there.txt"}));
    let short = Answer { text: "done".to_owned(), ..Answer::default() };
    let made_short = ("write", json!({"path": "made.txt", "content": "made\n"}));
    let two_steps = vec![calls([act("first")]), calls([act("second")]), end.clone()];
    let said = vec![at_once("do it")];
    vec![
        Scenario::new("plain answer", vec![end.clone()], said.clone()),
        Scenario::new("one tool", vec![calls([act("one")]), end.clone()], said.clone()),
        Scenario::new("eight parallel tools", vec![calls(eight), end.clone()], said.clone()),
        Scenario::new("a tool of each class", vec![calls([read, made, act("opaque")]), end.clone()], said.clone()),
        of_server(&end, &said),
        Scenario {
            asks: true,
            ..Scenario::new("approval pending", vec![calls([act("asked")]), end.clone()], said.clone())
        },
        Scenario::new("retry pending", vec![calls([act("before")]), failing(dice.u32(1..3))], said.clone()),
        Scenario::new(
            "steering queued",
            two_steps.clone(),
            vec![at_once("do it"), Say { after: Some("call_started"), ..at_once("and this") }],
        ),
        Scenario::new(
            "follow-up queued",
            vec![calls([act("first")]), end.clone(), calls([act("then")]), end.clone()],
            vec![
                at_once("do it"),
                Say { after: Some("call_started"), delivery: Delivery::FollowUp, ..at_once("then this") },
            ],
        ),
        Scenario::new(
            "compaction under way",
            vec![
                Answer { text: "let me think ".repeat(110), ..calls([act("before")]) },
                Answer { failures: 1, error: Some(ModelErrorKind::WindowExceeded), ..short.clone() },
            ],
            said.clone(),
        ),
        Scenario {
            hooked: true,
            ..Scenario::new(
                "hooks at every gate",
                vec![calls([act("one"), act("two")]), short.clone(), end.clone()],
                said.clone(),
            )
        },
        Scenario {
            undoes: true,
            ..Scenario::new("undo under way", vec![calls([made_short]), short.clone()], said.clone())
        },
        Scenario {
            undoes: true,
            ..Scenario::new("undo of kinds and modes", vec![calls([remaking("all")]), short], said.clone())
        },
        tree(&end, said.clone()),
        Scenario {
            cancel_on: Some("call_started"),
            ends: &[TurnEnd::Canceled, TurnEnd::Completed],
            ..Scenario::new("cancel under way", vec![calls([waiting("cut"), act("beside")]), end], said)
        },
    ]
}

/// Three subagents: one calls another, one is in the background.
fn tree(end: &Answer, said: Vec<Say>) -> Scenario {
    let parts = [task("part one", LEAD), left_at_work("part two"), act("root")];
    // The end of the one in the background is told with the second step or with a third, which says the same.
    let replies = vec![calls(parts), end.clone(), end.clone()];
    let subagents = vec![
        ("part one", vec![calls([task("part three", GENERAL), read_there()]), says("one is done")]),
        ("part two", vec![calls([read_there()]), says("two is done")]),
        ("part three", vec![says("three is done")]),
    ];
    Scenario { subagents, ..Scenario::new("a tree of subagents", replies, said) }
}

/// Trees of which something else goes on at the time: a question of a subagent's is open, or the budget is all but used up. They are not among the [`scenarios`]: each is swept by a test of its own.
pub fn trees() -> Vec<Scenario> {
    let said = || vec![at_once("do it")];
    let asking = || vec![calls([read_there()]), says("one is done")];
    let two = || vec![calls([task("part one", GENERAL), task("part two", LEAD)]), says("done")];
    let lead = || vec![calls([task("part three", GENERAL)]), says("two is done")];
    let parts = || vec![("part one", asking()), ("part two", lead()), ("part three", vec![says("three is done")])];
    vec![
        Scenario {
            asks_below: true,
            subagents: parts(),
            ..Scenario::new("a tree with an open question", two(), said())
        },
        Scenario {
            budget: Some(NEARLY_ENOUGH),
            subagents: parts(),
            ends: &[TurnEnd::Completed, TurnEnd::Budget],
            ..Scenario::new("a tree near its budget", two(), said())
        },
    ]
}

/// One that has less than a tree uses: whoever goes by another purse overdraws it.
pub fn penniless() -> Scenario {
    Scenario { budget: Some(TOO_LITTLE), ends: &[TurnEnd::Completed, TurnEnd::Budget], ..one_subagent() }
}

/// Less than the three replies of [`one_subagent`] use.
const TOO_LITTLE: u64 = 3_000;

/// What an uninterrupted tree uses at its worst, and a little more: whatever a crash wastes, somebody has not got.
const NEARLY_ENOUGH: u64 = 60_000;

/// One subagent: small enough for two crashes at every pair of points.
pub fn one_subagent() -> Scenario {
    let replies = vec![calls([task("part two", GENERAL)]), says("done")];
    let subagents = vec![("part two", vec![says("two is done")])];
    Scenario { subagents, ..Scenario::new("one subagent", replies, vec![at_once("do it")]) }
}

/// Calls of a server's tools: at once, through `call_tool`, and one that goes on as a task.
fn of_server(end: &Answer, said: &[Say]) -> Scenario {
    let at_once = calls([by_server("act", "at once"), through("act", "through")]);
    let replies = vec![at_once, calls([by_server("task", "a task")]), end.clone()];
    Scenario::new("calls of a server", replies, said.to_vec())
}

impl Scenario {
    fn new(name: &'static str, replies: Vec<Answer>, says: Vec<Say>) -> Self {
        Self {
            name,
            replies,
            says,
            cancel_on: None,
            asks: false,
            undoes: false,
            hooked: false,
            subagents: Vec::new(),
            asks_below: false,
            budget: None,
            ends: &[TurnEnd::Completed],
        }
    }

    /// Whether it needs a server.
    pub(super) fn calls_server(&self) -> bool {
        self.replies.iter().flat_map(|reply| &reply.calls).any(|(name, _)| TOOLS.contains(name))
    }

    /// What an uninterrupted run leaves in the workspace.
    pub(super) fn made(&self) -> Option<&str> {
        let mut calls = self.replies.iter().filter(|_| !self.undoes).flat_map(|reply| &reply.calls);
        calls.find_map(|(name, input)| (*name == "write").then(|| input["content"].as_str())?)
    }
}

fn calls(calls: impl IntoIterator<Item = (&'static str, Value)>) -> Answer {
    Answer { text: "let me".to_owned(), calls: calls.into_iter().collect(), ..Answer::default() }
}

fn act(line: &str) -> (&'static str, Value) {
    ("act", json!({"line": line}))
}

/// A call of a server's tool by its name.
fn by_server(tool: &str, line: &str) -> (&'static str, Value) {
    let name = if tool == "task" { TOOLS[1] } else { TOOLS[0] };
    (name, json!({"line": line}))
}

/// The same through `call_tool`.
fn through(tool: &str, line: &str) -> (&'static str, Value) {
    let (name, arguments) = by_server(tool, line);
    ("call_tool", json!({"name": name, "arguments": arguments}))
}

fn waiting(line: &str) -> (&'static str, Value) {
    ("act", json!({"line": line, "wait": true}))
}

/// The agent of the harness that may call others.
pub(super) const LEAD: &str = "lead";

fn task(prompt: &str, agent: &str) -> (&'static str, Value) {
    ("task", json!({"description": prompt, "prompt": prompt, "subagent_type": agent}))
}

/// The same in the background.
fn left_at_work(prompt: &str) -> (&'static str, Value) {
    let (name, mut input) = task(prompt, GENERAL);
    input["background"] = json!(true);
    (name, input)
}

fn read_there() -> (&'static str, Value) {
    ("read", json!({"path": "there.txt"}))
}

fn says(text: &str) -> Answer {
    Answer { text: text.to_owned(), ..Answer::default() }
}

/// Makes something else of the whole workspace.
fn remaking(line: &str) -> (&'static str, Value) {
    ("act", json!({"line": line, "remake": true}))
}

fn at_once(text: &'static str) -> Say {
    Say { text, after: None, delivery: Delivery::Steer }
}
