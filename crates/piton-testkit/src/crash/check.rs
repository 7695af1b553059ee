//! What must hold of a session when it is over, whatever crashed on the way: the invariants, by their numbers.
//!
//! ```text
//!   I1  an effect happens at most once               I6  epochs rise: never two writers
//!   I2  every call has one result, in good form      I7  no effect before its call is on record
//!   I3  no result says what is not so                I9  an approval is given and acted on at most once
//!   I4  what was heard as recorded stays             I10 what is derived agrees with the events
//!   I5  the chain of hashes is whole                 I11 hooks pass a gate once, and what they say holds
//!   $   every reply is billed once                   T   a subagent is called once, answers once, and is told of once
//!   P   the purse is never overdrawn
//! ```
//!
//! I8, that no process is left over, needs processes: see [`super::slow`].

use super::client::{Stage, times_said};
use super::hooks::{CHECKED, HEARD, SEEN};
use super::model::USAGE;
use super::servers::TOOLS;
use piton_core::call::{Effects, Outcome, Status};
use piton_core::event::{Event, Record, Subject, TurnEnd};
use piton_core::hook::HookPoint;
use piton_core::ids::CallId;
use piton_core::message::{Message, Part, ToolCall, Usage};
use piton_core::turn;
use piton_engine::store::{CheckResult, StoreError, Summary};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// Everything that is wrong with the session of this stage.
pub(super) fn violations(stage: &Stage<'_>) -> Vec<String> {
    let mut found = stage.machine.state().violations.clone();
    let Some(id) = &stage.session else {
        found.push("harness: no session came to be".to_owned());
        return found;
    };
    match waited(stage.store.verify(id)) {
        Ok(CheckResult::Sound { .. }) => {}
        Ok(bad) => found.push(format!("I5: {bad:?}")),
        Err(error) => found.push(format!("I5: {error}")),
    }
    match waited(stage.store.read(id, 1, usize::MAX)) {
        Ok(records) => {
            let summary = waited(stage.store.summary(id));
            Findings { stage, summary, records, found: &mut found }.look();
        }
        Err(error) => found.push(format!("I5: {error}")),
    }
    found
}

/// What a store answers, in a runtime of its own.
pub(super) fn waited<T>(asked: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(asked)
}

struct Findings<'f> {
    stage: &'f Stage<'f>,
    summary: Result<Summary, StoreError>,
    records: Vec<Record>,
    found: &'f mut Vec<String>,
}

impl Findings<'_> {
    fn look(&mut self) {
        let session = turn::State::fold(&self.records);
        let messages: Vec<&Message> = session.transcript().map(AsRef::as_ref).collect();
        if let Some(fault) = turn::malformed(messages.iter().copied()) {
            self.say(format!("I2: the transcript is malformed: {fault}"));
        }
        self.heard_stays();
        self.effects();
        self.epochs();
        self.approvals();
        if self.stage.scenario.hooked {
            self.hooks();
        }
        let records = std::mem::take(&mut self.records);
        let called = self.tree(&records);
        self.records = records;
        let all = self.stage.scenario.subagents.len();
        // Who has nothing left to spend calls nobody.
        if called > all || (called < all && self.stage.scenario.budget.is_none()) {
            self.say(format!("T: {called} subagents were called"));
        }
        self.told_once(&messages);
        self.derived(&session);
        self.bill(&session);
        self.purse(&session);
        self.end(&messages);
    }

    fn say(&mut self, violation: String) {
        self.found.push(violation);
    }

    /// I4.
    fn heard_stays(&mut self) {
        let heard: BTreeMap<_, _> = self.stage.machine.state().heard.clone();
        let by_seq: HashMap<_, _> = self.records.iter().map(|record| (record.seq, record.clone())).collect();
        for (seq, record) in heard {
            if by_seq.get(&seq) != Some(&record) {
                self.say(format!("I4: event {seq} ({}) was heard as recorded, and is not", record.event.kind()));
            }
        }
        for say in &self.stage.scenario.says {
            let times = times_said(&self.records, say.text);
            if times != 1 {
                self.say(format!("I4: {:?} is on record {times} times", say.text));
            }
        }
    }

    /// I1, I2, I3 and I7, call by call.
    fn effects(&mut self) {
        let ledger = self.stage.machine.state().ledger.clone();
        let mut lines: HashMap<&str, usize> = HashMap::new();
        ledger.iter().for_each(|line| *lines.entry(line).or_default() += 1);
        for (line, times) in &lines {
            if *times > 1 {
                self.say(format!("I1: {line:?} happened {times} times"));
            }
        }
        for call in calls(&self.records) {
            let settled: Vec<Outcome> = outcomes(&self.records, &call.id).cloned().collect();
            let [outcome] = settled.as_slice() else {
                self.say(format!("I2: call {} has {} results", call.id, settled.len()));
                continue;
            };
            let Some(input) = self.input(&call) else { continue };
            let started = self.has(|event| matches!(event, Event::CallStarted { call: id } if *id == call.id));
            if call.name == "act" || TOOLS.contains(&call.name.as_str()) {
                let times = lines.remove(input["line"].as_str().unwrap_or_default()).unwrap_or(0);
                self.truth(&call.id, outcome, times, started);
            } else {
                self.checkable(&call, outcome);
            }
        }
        for line in lines.keys() {
            self.say(format!("I7: {line:?} happened, and no call on record says so"));
        }
    }

    fn truth(&mut self, call: &CallId, outcome: &Outcome, times: usize, started: bool) {
        let status = outcome.status;
        if times > 0 && !started {
            self.say(format!("I7: call {call} had an effect before its start was on record"));
        }
        let is_true = match status {
            Status::Ok => times > 0,
            Status::NotStarted | Status::Denied => times == 0,
            // Stopped before or after it acted, or nobody knows: both may be.
            Status::Cancelled | Status::Interrupted => true,
            Status::Failed | Status::TimedOut => false,
        };
        if !is_true {
            self.say(format!("I3: call {call} is said to be {status:?}, and had {times} effects: {}", outcome.text));
        }
    }

    /// What runs: the model's input, or what the request has in its place.
    fn input(&self, call: &ToolCall) -> Option<Value> {
        let changed = self.records.iter().find_map(|record| match &record.event {
            Event::CallRequested { call: id, input, .. } if *id == call.id => input.clone(),
            _ => None,
        });
        changed.or_else(|| call.input.value().cloned())
    }

    /// I11.
    fn hooks(&mut self) {
        let notes = |parts: &[Part]| {
            parts.iter().filter(|part| matches!(part, Part::Note { text, .. } if text.contains(HEARD))).count()
        };
        let heard = |record: &Record| matches!(&record.event, Event::UserSpoke { parts, .. } if notes(parts) == 1);
        if self.records.iter().filter(|record| heard(record)).count() != self.stage.scenario.says.len() {
            self.say("I11: a prompt is on record without the note of its hook".to_owned());
        }
        for call in calls(&self.records) {
            let passed = |event: &Event| matches!(event, Event::HooksRan { point: HookPoint::BeforeTool, call: Some(id), .. } if *id == call.id);
            let starts = |event: &Event| matches!(event, Event::CallStarted { call: id } if *id == call.id);
            let times = self.records.iter().filter(|record| passed(&record.event)).count();
            if times != 1 || self.position(starts).is_some_and(|started| self.position(passed) > Some(started)) {
                self.say(format!("I11: call {} passed its hook {times} times, or was started before", call.id));
            }
            let input = self.input(&call).unwrap_or_default();
            if !input["line"]
                .as_str()
                .is_some_and(|line| line.starts_with(CHECKED) && line.matches(CHECKED).count() == 1)
            {
                self.say(format!("I11: call {} runs {input}, which is not what its hook left of it", call.id));
            }
            if outcomes(&self.records, &call.id).any(|outcome| outcome.text.matches(SEEN).count() != 1) {
                self.say(format!("I11: the outcome of call {} is not as its hook left it", call.id));
            }
        }
        let sent_back = |record: &&Record| matches!(record.event, Event::HooksRan { sent_back: Some(_), .. });
        let rounds = self.records.iter().filter(sent_back).count();
        if rounds != 1 {
            self.say(format!("I11: the model was sent back {rounds} times"));
        }
    }

    /// What only reads, and what can be checked, always succeeds: the workspace is as after an uninterrupted run.
    fn checkable(&mut self, call: &ToolCall, outcome: &Outcome) {
        if outcome.status != Status::Ok && self.stage.scenario.budget.is_none() {
            self.say(format!("I3: {} is said to be {:?}: {}", call.name, outcome.status, outcome.text));
        }
        let made = std::fs::read_to_string(self.stage.workspace.join("made.txt")).ok();
        if made.as_deref() != self.stage.scenario.made() {
            self.say("I1: made.txt is not what it is after an uninterrupted run".to_owned());
        }
    }

    /// I6.
    fn epochs(&mut self) {
        let epochs: Vec<u64> = self
            .records
            .iter()
            .filter_map(|record| match record.event {
                Event::WriterOpened { epoch, .. } => Some(epoch),
                _ => None,
            })
            .collect();
        if !epochs.is_sorted_by(|a, b| a < b) {
            self.say(format!("I6: epochs {epochs:?}"));
        }
    }

    /// I9.
    fn approvals(&mut self) {
        for call in calls(&self.records) {
            let given = |event: &Event| matches!(event, Event::ApprovalGiven { subject: Subject::Call(id), .. } if *id == call.id);
            let times = self.records.iter().filter(|record| given(&record.event)).count();
            let started = self.position(|event| matches!(event, Event::CallStarted { call: id } if *id == call.id));
            if times > 1 {
                self.say(format!("I9: call {} was approved {times} times", call.id));
            }
            let needs_one = self.stage.scenario.asks && started.is_some();
            if needs_one && self.position(given).is_none_or(|given| Some(given) > started) {
                self.say(format!("I9: call {} was started before it was approved", call.id));
            }
            let starts = |event: &Event| matches!(event, Event::CallStarted { call: id } if *id == call.id);
            if self.records.iter().filter(|record| starts(&record.event)).count() > 1 {
                self.say(format!("I9: call {} was started twice", call.id));
            }
        }
    }

    /// T: the sessions of all subagents below this one. Answers how many there are.
    fn tree(&mut self, records: &[Record]) -> usize {
        let mut called = 0;
        for record in records {
            let Event::Delegated { call, child, .. } = &record.event else { continue };
            called += 1;
            if !matches!(waited(self.stage.store.verify(child)), Ok(CheckResult::Sound { .. })) {
                self.say(format!("T: the journal of {child} is not sound"));
            }
            let below = waited(self.stage.store.read(child, 1, usize::MAX)).unwrap_or_default();
            let (mut used, mut told, mut ends) = (Usage::default(), 0, Vec::new());
            for record in &below {
                match &record.event {
                    Event::UserSpoke { .. } => told += 1,
                    Event::MessageFinished { reply, .. } => used.add(&reply.usage),
                    Event::TurnEnded { end, .. } => ends.push(*end),
                    Event::CallSettled { outcome: Outcome { delegated: Some(delegated), .. }, .. } => {
                        used.add(&delegated.usage);
                    }
                    _ => {}
                }
            }
            let is_short = self.stage.scenario.budget.is_some();
            let may_end = |end: &TurnEnd| *end == TurnEnd::Completed || (is_short && *end == TurnEnd::Budget);
            if told != 1 || ends.len() != 1 || !ends.iter().all(may_end) {
                self.say(format!("T: {child} was told {told} times what to do, and its turns ended {ends:?}"));
            }
            let billed: Vec<Usage> = records.iter().filter_map(|record| delegated(record, call)).collect();
            if billed != [used] {
                self.say(format!("T: {child} used {used:?}, and its caller was billed {billed:?}"));
            }
            for call in calls(&below) {
                let results = outcomes(&below, &call.id).count();
                if results != 1 {
                    self.say(format!("T: call {} of {child} has {results} results", call.id));
                }
                let place = |is: &dyn Fn(&Event) -> bool| below.iter().position(|record| is(&record.event));
                let given = |event: &Event| matches!(event, Event::ApprovalGiven { subject: Subject::Call(id), .. } if *id == call.id);
                let times = below.iter().filter(|record| given(&record.event)).count();
                let started = place(&|event| matches!(event, Event::CallStarted { call: id } if *id == call.id));
                let is_asked = self.stage.scenario.asks_below && call.name == "read" && started.is_some();
                if times > 1 || (is_asked && place(&given).is_none_or(|given| Some(given) > started)) {
                    self.say(format!("T: call {} of {child} was approved {times} times, or started before", call.id));
                }
            }
            called += self.tree(&below);
        }
        called
    }

    /// P: all together have used no more than there was, with the most of what nobody knows.
    fn purse(&mut self, session: &turn::State) {
        let used = session.used().turn.tokens;
        if let Some(most) = self.stage.scenario.budget.filter(|most| used > *most) {
            self.say(format!("P: {used} tokens are used, of {most}"));
        }
    }

    /// T: the end of each subagent in the background stands in the transcript once.
    fn told_once(&mut self, messages: &[&Message]) {
        let notes = |part: &Part| matches!(part, Part::Note { text, .. } if text.contains("The background subagent"));
        let told = messages.iter().flat_map(|message| &message.parts).filter(|part| notes(part)).count();
        let ended = self.records.iter().filter(|record| matches!(record.event, Event::TaskEnded { .. })).count();
        let left = self.records.iter().filter(|record| match &record.event {
            Event::CallSettled { outcome, .. } => outcome.task.as_ref().is_some_and(|news| news.began.is_some()),
            _ => false,
        });
        let left = left.count();
        if (told, ended) != (left, left) {
            self.say(format!("T: {left} subagents were left at work, {ended} ended, {told} were told of"));
        }
    }

    /// I10.
    fn derived(&mut self, session: &turn::State) {
        let wrong = match &self.summary {
            Ok(summary) if (summary.turns, summary.steps) == (session.turn(), session.step()) => return,
            Ok(summary) => format!("I10: the summary says {summary:?}"),
            Err(error) => format!("I10: {error}"),
        };
        self.say(wrong);
    }

    /// Every reply is in the bill of its turn, once.
    fn bill(&mut self, session: &turn::State) {
        let (mut used, mut billed, mut replies) = (Usage::default(), Usage::default(), HashMap::new());
        let (mut summaries, mut of_subagents) = (0, 0);
        for record in &self.records {
            match &record.event {
                Event::MessageFinished { step, reply, .. } => {
                    used.add(&reply.usage);
                    *replies.entry(*step).or_insert(0) += 1;
                }
                Event::ModelFailed { usage, .. } => used.add(usage),
                Event::CallSettled { outcome: Outcome { delegated: Some(delegated), .. }, .. }
                | Event::TaskEnded { outcome: Outcome { delegated: Some(delegated), .. }, .. } => {
                    used.add(&delegated.usage);
                    of_subagents += delegated.usage.total();
                }
                Event::CompactionFinished { asked: Some(asked), .. } => {
                    used.add(&asked.usage);
                    summaries += 1;
                }
                Event::TurnEnded { spent, .. } => billed.add(&spent.usage),
                _ => {}
            }
        }
        let once = (u64::from(session.step()) + summaries) * USAGE.total() + of_subagents;
        if used != billed || used.total() > once || replies.values().any(|times| *times != 1) {
            self.say(format!("$: replies used {used:?}, the turns were billed {billed:?}"));
        }
    }

    /// The story came to its end.
    fn end(&mut self, messages: &[&Message]) {
        let scenario = self.stage.scenario;
        let ends: Vec<_> = self
            .records
            .iter()
            .filter_map(|record| match record.event {
                Event::TurnEnded { end, .. } => Some(end),
                _ => None,
            })
            .collect();
        if ends.last().is_none_or(|end| !scenario.ends.contains(end)) {
            self.say(format!("the turns ended {ends:?}"));
        }
        let last = scenario.replies.last().map_or("", |reply| reply.text.as_str());
        if scenario.undoes && !messages.is_empty() {
            self.say("the turn was taken back, and is there".to_owned());
        }
        if scenario.undoes {
            self.is_taken_back();
        }
        let completed = !scenario.undoes && ends.last() == Some(&TurnEnd::Completed);
        if completed && messages.last().is_none_or(|message| message.prose() != last) {
            self.say("the model's last words are not what it said".to_owned());
        }
    }

    /// Every file is as it was before the turn, and nothing of ours is left.
    fn is_taken_back(&mut self) {
        let (now, planted) = (crate::state(self.stage.workspace), self.stage.planted.clone());
        let differs = |path: &&PathBuf| now.get(*path) != planted.get(*path);
        let paths: BTreeSet<&PathBuf> = now.keys().chain(planted.keys()).filter(differs).collect();
        for path in paths {
            let (was, is) = (planted.get(path), now.get(path));
            self.say(format!("undo: {} was {was:?} before the turn, and is {is:?}", path.display()));
        }
        let left = |event: &Event| matches!(event, Event::RewindFinished { left, .. } if !left.is_empty());
        if self.has(left) {
            self.say("undo: it says that files are left as they were".to_owned());
        }
    }

    fn has(&self, is: impl Fn(&Event) -> bool) -> bool {
        self.position(is).is_some()
    }

    fn position(&self, is: impl Fn(&Event) -> bool) -> Option<usize> {
        self.records.iter().position(|record| is(&record.event))
    }
}

fn calls(records: &[Record]) -> Vec<ToolCall> {
    let replies = records.iter().filter_map(|record| match &record.event {
        Event::MessageFinished { reply, .. } => Some(&reply.parts),
        _ => None,
    });
    let message = |parts: &Vec<_>| Message::new(piton_core::message::Role::Assistant, parts.clone());
    replies.flat_map(|parts| message(parts).calls().cloned().collect::<Vec<_>>()).collect()
}

/// What a call was billed for its subagent by this event.
fn delegated(record: &Record, call: &CallId) -> Option<Usage> {
    match &record.event {
        Event::CallSettled { call: id, outcome } | Event::TaskEnded { task: id, outcome } if id == call => {
            outcome.delegated.as_ref().map(|delegated| delegated.usage)
        }
        _ => None,
    }
}

fn outcomes<'r>(records: &'r [Record], id: &'r CallId) -> impl Iterator<Item = &'r Outcome> {
    records.iter().filter_map(move |record| match &record.event {
        Event::CallSettled { call, outcome } if call == id => Some(outcome),
        _ => None,
    })
}

/// The outcomes of the opaque calls, for the table.
pub(super) fn statuses(records: &[Record]) -> Vec<Status> {
    let opaque = |record: &Record, id: &CallId| matches!(&record.event, Event::CallRequested { call, effects, .. } if call == id && *effects == Effects::OPAQUE);
    records
        .iter()
        .filter_map(|record| match &record.event {
            Event::CallSettled { call, outcome } if records.iter().any(|other| opaque(other, call)) => {
                Some(outcome.status)
            }
            _ => None,
        })
        .collect()
}
