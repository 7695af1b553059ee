//! What happened when, as lanes: the model, tools, what was waited for, and subagents, a picture for each turn.

use super::Look;
use crate::out::view::{self, plural};
use piton_core::ids::{CallId, TimeMs};
use piton_core::story::{Body, CallBlock, CallStage, ModelBlock, ModelState, Story};
use std::collections::BTreeMap;

/// Columns of a lane, at least and at most; and of what stands before it.
const COLUMNS: (u64, u64) = (20, 60);
const MARGIN: u64 = 13;
/// Columns of a terminal that does not say how many it has.
const USUAL: u64 = 80;
/// Pieces that are named for how long they took.
const LONGEST: usize = 6;

/// The lanes, from the top.
const LANES: [&str; 4] = ["model", "tools", "waits", "children"];
const MODEL: usize = 0;
const TOOLS: usize = 1;
const WAITS: usize = 2;
const CHILDREN: usize = 3;

/// Something that took time.
struct Piece {
    lane: usize,
    sign: char,
    from: TimeMs,
    to: TimeMs,
    what: String,
}

/// A turn, and what took time in it.
#[derive(Default)]
struct Turn {
    from: TimeMs,
    to: TimeMs,
    said: String,
    pieces: Vec<Piece>,
}

impl Turn {
    fn add(&mut self, lane: usize, sign: char, (from, to): (TimeMs, TimeMs), what: String) {
        self.to = self.to.max(to);
        self.pieces.push(Piece { lane, sign, from, to: to.max(from), what });
    }

    /// From the question to the first piece of the reply, and from there to its end.
    fn model(&mut self, model: &ModelBlock, ended_ms: TimeMs) {
        let what = format!("step {}: {}", model.step, view::clean(&model.model));
        let asked = model.asked_ms;
        match &model.state {
            ModelState::Asked => {}
            ModelState::Failed { retry_at_ms, waited_to_ms, .. } => {
                self.add(MODEL, '×', (asked, ended_ms), format!("{what} gave no reply"));
                if let Some(to) = waited_to_ms.or(*retry_at_ms) {
                    self.add(WAITS, '~', (ended_ms, to), format!("step {}: before asking again", model.step));
                }
            }
            ModelState::Replied { .. } | ModelState::Cut => {
                let first = asked + model.first_ms.unwrap_or(0);
                let first = first.min(ended_ms);
                if first > asked {
                    self.add(MODEL, '░', (asked, first), format!("{what}, to its first word"));
                }
                self.add(MODEL, '█', (first, ended_ms), what);
            }
        }
    }

    fn call(&mut self, call: &CallBlock, ended_ms: TimeMs) {
        let Some(started) = call.started_ms else { return };
        let words = match &call.stage {
            CallStage::Settled(outcome) if !outcome.title.is_empty() => outcome.title.clone(),
            _ => format!("{} {}", call.tool, call.about),
        };
        let (lane, sign) = if call.child.is_some() { (CHILDREN, '▒') } else { (TOOLS, '▓') };
        self.add(lane, sign, (started, ended_ms), view::first_line(&view::clean(&words)));
    }
}

/// The turns of a session as lanes; where it is only said, what took longest in each.
pub(crate) fn lanes(story: &Story, look: Look) -> String {
    let turns = turns(story);
    if turns.is_empty() {
        return "There is no turn yet.\n".to_owned();
    }
    let mut text = match look {
        Look::Drawn => "░ to the first word   █ the reply   × no reply   ▓ a call   ▒ a subagent\n\
                        ? a question   ~ before asking again   s a snapshot   h a hook\n"
            .to_owned(),
        Look::Plain => String::new(),
    };
    for (number, turn) in &turns {
        let long = turn.to.saturating_sub(turn.from);
        let said: String = turn.said.chars().take(40).collect();
        let said = if said.is_empty() { said } else { format!(" · {said}") };
        text.push_str(&format!("\nturn {number} · {}{said}\n", seconds(long)));
        if look == Look::Drawn {
            text.push_str(&drawn(turn, long.max(1)));
        }
        for (lane, name) in LANES.iter().enumerate() {
            let of_lane = || turn.pieces.iter().filter(|piece| piece.lane == lane);
            if look == Look::Plain && of_lane().count() > 0 {
                let many = plural(of_lane().count() as u64, "piece");
                text.push_str(&format!("  {name:<9} {} in {many}\n", seconds(covered(of_lane()))));
            }
        }
        let mut longest: Vec<&Piece> = turn.pieces.iter().collect();
        longest.sort_by_key(|piece| std::cmp::Reverse(piece.to - piece.from));
        for piece in longest.iter().take(LONGEST) {
            let at = seconds(piece.from.saturating_sub(turn.from));
            text.push_str(&format!("  {:>9} at {at:<9} {}\n", seconds(piece.to - piece.from), piece.what));
        }
    }
    text
}

/// Columns of the lanes, as wide as the terminal lets them be.
fn columns() -> u64 {
    let columns = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| u64::from(size.ws_col));
    let columns = if columns == 0 { USUAL } else { columns };
    columns.saturating_sub(MARGIN).clamp(COLUMNS.0, COLUMNS.1)
}

fn drawn(turn: &Turn, long: u64) -> String {
    let (mut text, columns) = (String::new(), columns());
    let column = |at: TimeMs| at.saturating_sub(turn.from).min(long) * columns / long;
    for (lane, name) in LANES.iter().enumerate() {
        let mut cells = vec!['·'; usize::try_from(columns).unwrap_or(0)];
        for piece in turn.pieces.iter().filter(|piece| piece.lane == lane) {
            let (from, to) = (column(piece.from).min(columns - 1), column(piece.to));
            for at in from..to.max(from + 1) {
                if let Some(cell) = cells.get_mut(usize::try_from(at).unwrap_or(0)) {
                    *cell = piece.sign;
                }
            }
        }
        if lane != CHILDREN || turn.pieces.iter().any(|piece| piece.lane == CHILDREN) {
            text.push_str(&format!("  {name:<9} {}\n", cells.iter().collect::<String>()));
        }
    }
    text
}

/// How long something of this lane went on, what ran at the same time counted once.
fn covered<'p>(pieces: impl Iterator<Item = &'p Piece>) -> u64 {
    let mut spans: Vec<(TimeMs, TimeMs)> = pieces.map(|piece| (piece.from, piece.to)).collect();
    spans.sort_unstable();
    let (mut sum, mut end) = (0, 0);
    for (from, to) in spans {
        sum += to.saturating_sub(from.max(end));
        end = end.max(to);
    }
    sum
}

fn turns(story: &Story) -> BTreeMap<u32, Turn> {
    let mut turns: BTreeMap<u32, Turn> = BTreeMap::new();
    let mut said = String::new();
    // Subagents in the background, with the turn of their call, when they began, and what they were told.
    let mut background: BTreeMap<CallId, (u32, TimeMs, String)> = BTreeMap::new();
    for block in story.blocks() {
        let (began_ms, ended_ms) = (block.at_ms, block.changed_ms);
        match &block.body {
            Body::User { text, .. } => said = view::first_line(text),
            Body::Turn { turn, .. } => {
                let said = std::mem::take(&mut said);
                turns.insert(*turn, Turn { from: began_ms, to: began_ms, said, pieces: Vec::new() });
            }
            Body::TaskEnd { task, .. } => {
                if let Some((turn, from, what)) = background.remove(task)
                    && let Some(turn) = turns.get_mut(&turn)
                {
                    turn.add(CHILDREN, '▒', (from, began_ms), what);
                }
            }
            body => {
                let Some(turn) = turns.get_mut(&block.turn) else { continue };
                match body {
                    Body::Model(model) => turn.model(model, model.answered_ms),
                    Body::Call(call) => {
                        let began = call.outcome().and_then(|outcome| outcome.task.as_ref()?.began.as_ref());
                        match began.filter(|began| began.subagent.is_some()) {
                            Some(began) => {
                                let of = (block.turn, call.started_ms.unwrap_or(began_ms), view::clean(&began.command));
                                background.insert(call.call.clone(), of);
                            }
                            None => turn.call(call, ended_ms),
                        }
                    }
                    Body::Question { question, answer, withdrawn, .. } if answer.is_some() || *withdrawn => {
                        let title = question.as_ref().map(|question| question.title.clone()).unwrap_or_default();
                        turn.add(WAITS, '?', (began_ms, ended_ms), format!("a question: {}", view::clean(&title)));
                    }
                    Body::Snapshot { took_ms, .. } => {
                        let from = began_ms.saturating_sub(*took_ms);
                        turn.add(WAITS, 's', (from, began_ms), "snapshot of the workspace".to_owned());
                    }
                    Body::Hooks { runs, .. } => runs.iter().for_each(|run| {
                        let from = began_ms.saturating_sub(run.duration_ms);
                        turn.add(WAITS, 'h', (from, began_ms), format!("hook {}", view::clean(&run.hook)));
                    }),
                    Body::Compaction(_) => turn.add(MODEL, '█', (began_ms, ended_ms), "making room".to_owned()),
                    Body::TurnEnd { .. } => turn.to = turn.to.max(began_ms),
                    _ => {}
                }
            }
        }
    }
    turns
}

fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        _ => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use piton_core::call::{CallInput, Effects, Outcome};
    use piton_core::event::{Event, Record, Spent, StepKind, Subject, TurnEnd, Verdict};
    use piton_core::message::{FinishReason, Part, ToolCall};
    use piton_core::model::Reply;
    use piton_core::permission::Rules;
    use piton_core::policy::Policy;
    use piton_core::question::{Decision, Question};
    use serde_json::json;

    fn call(id: &str, name: &str) -> Part {
        let input = CallInput::from_value(json!({"command": "make"}));
        let (id, name) = (CallId::from(id), name.to_owned());
        Part::ToolCall(ToolCall { id, provider_id: None, name, spelling: None, input, opaque: None })
    }

    /// A turn of ten seconds: two replies, a question, a command, and a subagent beside it.
    fn turn() -> Story {
        let replied = |step, parts, first| match Event::replied(step, Reply::new(parts, FinishReason::Stop)) {
            Event::MessageFinished { step, attempt, reply, cost_micros, at_most, prompt, .. } => {
                Event::MessageFinished { step, attempt, reply, cost_micros, at_most, prompt, first_ms: Some(first) }
            }
            other => other,
        };
        let question = Box::new(Question::may_run("Run this command?", vec![], Rules::default()));
        let subject = || Subject::Call(CallId::from("c1_0"));
        let requested = |id: &str| Event::requested(CallId::from(id), Effects::OPAQUE, Verdict::Ask);
        let settled = |id: &str, title: &str| Event::CallSettled {
            call: CallId::from(id),
            outcome: Outcome::ok("ok").titled(title),
        };
        let (model, policy) = ("fake/model".to_owned(), Box::new(Policy::piton()));
        let started = Event::TurnStarted {
            turn: 1,
            model,
            fallbacks: vec![],
            policy,
            compact_at_tokens: None,
            this_turn_only: false,
        };
        let delegated = Event::Delegated { call: "c1_1".into(), child: "ses_2".into(), agent: "general".to_owned() };
        let step = |step| Event::StepStarted { step, kind: StepKind::Ordinary, note: None };
        let events = [
            (0, started),
            (0, step(1)),
            (2_000, replied(1, vec![call("c1_0", "bash"), call("c1_1", "task")], 1_000)),
            (2_000, requested("c1_0")),
            (2_000, requested("c1_1")),
            (2_000, Event::ApprovalAsked { subject: subject(), question: Some(question) }),
            (2_000, Event::CallStarted { call: "c1_1".into() }),
            (2_000, delegated),
            (4_000, Event::approval(subject(), Decision::Approve)),
            (4_000, Event::CallStarted { call: "c1_0".into() }),
            (7_000, settled("c1_0", "bash make (exit 0)")),
            (8_000, settled("c1_1", "task general: look")),
            (8_000, Event::StepFinished { step: 1 }),
            (8_000, step(2)),
            (10_000, replied(2, vec![Part::text("Done.")], 500)),
            (10_000, Event::StepFinished { step: 2 }),
            (
                10_000,
                Event::TurnEnded { turn: 1, end: TurnEnd::Completed, why: None, detail: None, spent: Spent::default() },
            ),
        ];
        let record = |(seq, (at_ms, event))| Record { seq, at_ms, event };
        Story::of(&(1..).zip(events).map(record).collect::<Vec<_>>())
    }

    #[test]
    fn each_kind_of_time_has_a_lane() {
        expect![[r#"
            ░ to the first word   █ the reply   × no reply   ▓ a call   ▒ a subagent
            ? a question   ~ before asking again   s a snapshot   h a hook

            turn 1 · 10.0 s
              model     ░░░░░░██████····································░░░█████████
              tools     ························▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓··················
              waits     ············????????????····································
              children  ············▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒············
                  6.0 s at 2.0 s     task general: look
                  3.0 s at 4.0 s     bash make (exit 0)
                  2.0 s at 2.0 s     a question: Run this command?
                  1.5 s at 8.5 s     step 2: fake/model
                  1.0 s at 0 ms      step 1: fake/model, to its first word
                  1.0 s at 1.0 s     step 1: fake/model
        "#]]
        .assert_eq(&lanes(&turn(), Look::Drawn));
        expect![[r#"

            turn 1 · 10.0 s
              model     4.0 s in 4 pieces
              tools     3.0 s in 1 piece
              waits     2.0 s in 1 piece
              children  6.0 s in 1 piece
                  6.0 s at 2.0 s     task general: look
                  3.0 s at 4.0 s     bash make (exit 0)
                  2.0 s at 2.0 s     a question: Run this command?
                  1.5 s at 8.5 s     step 2: fake/model
                  1.0 s at 0 ms      step 1: fake/model, to its first word
                  1.0 s at 1.0 s     step 1: fake/model
        "#]]
        .assert_eq(&lanes(&turn(), Look::Plain));
        assert!(lanes(&Story::default(), Look::Drawn).contains("no turn"));
    }
}
