//! Which of a session's events count. A rewind deletes nothing: it moves the head back, and what follows is another
//! branch. The state of a session is the fold of the events on the path from its head back to its beginning.
//!
//! ```text
//!   1 ── 2 ── 3 ── 4 ── 5                 the first try
//!             └──── 6 (head moved to 3) ── 7 ── 8
//! ```
//!
//! Also here: the turns of that path, as undo sees them, and the tree of all turns, as people see it. What the user has run
//! themselves between two turns ([`crate::shell`]) is one of them, so that it can be taken back; what a turn begins beside
//! belongs to that turn.

use crate::event::{Event, Moment, Record, Trigger, TurnEnd};
use crate::ids::{CallId, MessageId, Seq};
use crate::message::prose;
use std::collections::HashSet;

/// The path from the head of a journal back to its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path {
    /// What was left behind, the newest first: behind the first of the two, and before the second, which moved the head.
    left: Vec<(Seq, Seq)>,
}

impl Path {
    /// The path to the last event of a journal: all its records from the first on, in order.
    pub fn of(records: &[Record]) -> Self {
        let moves: Vec<_> = records.iter().filter_map(|record| Some((record.seq, moved_to(&record.event)?))).collect();
        Self::with_moves(&moves)
    }

    /// The same where only the moves are known, in order: the event of each, and the one it moved the head to.
    pub fn with_moves(moves: &[(Seq, Seq)]) -> Self {
        let (mut left, mut at) = (Vec::new(), Seq::MAX);
        for (moved, to) in moves.iter().rev().copied() {
            // One that was left behind itself moves nothing.
            if moved <= at {
                at = to.min(moved.saturating_sub(1));
                left.push((at, moved));
            }
        }
        Self { left }
    }

    /// Whether the event of this position counts.
    pub fn contains(&self, seq: Seq) -> bool {
        !self.left.iter().any(|(behind, before)| *behind < seq && seq < *before)
    }
}

/// A turn as undo and people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSpan {
    /// Counts the session's turns from 1.
    pub turn: u32,
    /// Where it started.
    pub started: Seq,
    /// The last event of it so far.
    pub last: Seq,
    /// The turn it follows; `None` for the first, and where the session was rewound to its beginning.
    pub follows: Option<u32>,
    /// What the user said, as they said it.
    pub prompt: String,
    /// Why it ended; `None` while it goes on, or where it was cut off.
    pub end: Option<TurnEnd>,
    /// The workspace before its first change and after its last. `None`: it changed nothing.
    pub files: Option<Trees>,
    /// Calls that may have changed something began without a snapshot before them: snapshots were off.
    pub is_unsaved: bool,
    /// Whether it belongs to the conversation as it is now.
    pub on_path: bool,
}

/// The workspace before and after a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trees {
    /// Before its first change; `None` where no snapshot could be made.
    pub before: Option<String>,
    /// After its last.
    pub after: Option<String>,
}

/// All turns of a journal in the order in which they started, abandoned ones included.
pub fn turns(records: &[Record]) -> Vec<TurnSpan> {
    let path = Path::of(records);
    let mut walk = Walk::default();
    // For each event the turn that it belongs to or follows.
    let mut turn_at: Vec<Option<usize>> = Vec::with_capacity(records.len());
    for record in records {
        if let Some(to) = moved_to(&record.event) {
            let index = usize::try_from(to).unwrap_or(usize::MAX).wrapping_sub(1);
            walk.go_to(turn_at.get(index).copied().flatten());
        }
        walk.hear(record, path.contains(record.seq));
        turn_at.push(walk.head);
    }
    walk.spans
}

/// The turns so far, on the way through a journal.
#[derive(Default)]
struct Walk<'r> {
    spans: Vec<TurnSpan>,
    /// The turn at the head, among them.
    head: Option<usize>,
    spoken: Vec<(&'r MessageId, String)>,
    /// The user's own commands that run.
    own: Vec<&'r CallId>,
    /// The calls requested so far that may change something.
    changing: HashSet<&'r CallId>,
    /// Whether the turn at the head is theirs.
    is_own: bool,
}

impl<'r> Walk<'r> {
    fn go_to(&mut self, head: Option<usize>) {
        (self.head, self.is_own) = (head, false);
        self.spoken.clear();
    }

    fn hear(&mut self, record: &'r Record, on_path: bool) {
        match &record.event {
            Event::UserSpoke { message, parts, typed, .. } => {
                self.spoken.push((message, typed.clone().unwrap_or_else(|| prose(parts).into_owned())));
            }
            Event::MessageUnqueued { message } => self.spoken.retain(|(said, _)| *said != message),
            Event::TurnStarted { turn, .. } => {
                let spoken: Vec<String> = self.spoken.drain(..).map(|(_, words)| words).collect();
                let prompt = spoken.join("\n");
                // What still runs, or is still to be put down, goes on beside the turn and is taken back with it.
                let is_joined =
                    self.is_own && (!self.own.is_empty() || self.at_head().is_some_and(|own| own.is_unsealed()));
                match self.at_head().filter(|_| is_joined) {
                    Some(own) => own.grow_into(*turn, &prompt),
                    None => self.begin(*turn, record.seq, prompt, on_path),
                }
                self.is_own = false;
            }
            Event::CallRequested { call, effects, .. } if effects.need_snapshot() => {
                self.changing.insert(call);
            }
            Event::CallStarted { call } if self.changing.contains(call) || self.own.contains(&call) => {
                if let Some(span) = self.at_head().filter(|span| span.files.is_none()) {
                    span.is_unsaved = true;
                }
            }
            Event::UserRan { call, command, turn, .. } => self.user_ran(record, call, command, *turn, on_path),
            Event::CallSettled { call, .. } if self.own.contains(&call) => {
                self.own.retain(|running| *running != call);
                if self.is_own && self.own.is_empty() {
                    self.end(TurnEnd::Completed, record.seq);
                }
            }
            Event::SnapshotTaken { moment, tree, .. } => {
                let is_own = self.is_own;
                if let Some(span) = self.at_head() {
                    span.take_snapshot(*moment, tree.as_ref());
                    if is_own {
                        span.last = record.seq;
                    }
                }
            }
            // Made between turns, it belongs to the one before: who goes on from there has the summary.
            Event::CompactionFinished { trigger: Trigger::Asked | Trigger::Edited, .. } => {
                if let Some(span) = self.at_head() {
                    span.last = record.seq;
                }
            }
            Event::TurnEnded { end, .. } => self.end(*end, record.seq),
            _ => {}
        }
        if let Some(open) = self.at_head().filter(|span| span.end.is_none()) {
            open.last = record.seq;
        }
    }

    fn at_head(&mut self) -> Option<&mut TurnSpan> {
        self.spans.get_mut(self.head?)
    }

    fn begin(&mut self, turn: u32, started: Seq, prompt: String, on_path: bool) {
        let follows = self.at_head().map(|span| span.turn);
        self.spans.push(TurnSpan {
            turn,
            started,
            last: started,
            follows,
            prompt,
            end: None,
            files: None,
            is_unsaved: false,
            on_path,
        });
        self.head = Some(self.spans.len() - 1);
    }

    fn end(&mut self, end: TurnEnd, seq: Seq) {
        if let Some(span) = self.at_head() {
            (span.end, span.last) = (Some(end), seq);
        }
    }

    fn user_ran(&mut self, record: &Record, call: &'r CallId, command: &str, turn: Option<u32>, on_path: bool) {
        self.own.push(call);
        let words = format!("!{command}");
        match turn {
            Some(turn) => {
                self.begin(turn, record.seq, words, on_path);
                self.is_own = true;
            }
            // It runs behind another, or beside a turn.
            None if self.is_own => {
                if let Some(span) = self.at_head() {
                    span.prompt.push('\n');
                    span.prompt.push_str(&words);
                }
            }
            None => {}
        }
    }
}

impl TurnSpan {
    /// The workspace before it was put down, and after it not yet.
    fn is_unsealed(&self) -> bool {
        self.files.as_ref().is_some_and(|trees| trees.after.is_none())
    }

    /// A turn begins while what the user has run is not over.
    fn grow_into(&mut self, turn: u32, prompt: &str) {
        (self.turn, self.end) = (turn, None);
        self.prompt.push_str(&format!("\n{prompt}"));
    }

    fn take_snapshot(&mut self, moment: Moment, tree: Option<&String>) {
        match (moment, &mut self.files) {
            (Moment::Before, None) => self.files = Some(Trees { before: tree.cloned(), after: None }),
            (Moment::After, Some(trees)) => trees.after = tree.cloned(),
            (Moment::Before, Some(_)) | (Moment::After, None) => {}
        }
    }
}

/// Where an event moves the head, if it does.
pub fn moved_to(event: &Event) -> Option<Seq> {
    match event {
        Event::RewindFinished { rewind, .. } => rewind.to,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path as it is defined: each event follows the one before it, or the one that the head was moved to.
    fn followed(last: Seq, moves: &[(Seq, Seq)]) -> Vec<Seq> {
        let mut path = Vec::new();
        let mut at = last;
        while at > 0 {
            path.push(at);
            at = moves.iter().find(|(moved, _)| *moved == at).map_or(at - 1, |(_, to)| *to);
        }
        path.reverse();
        path
    }

    #[test]
    fn a_path_is_what_the_head_leads_back_to_however_often_it_was_moved() {
        let last = 9;
        // Two moves anywhere, and where they went: taken back, brought back, taken back again.
        for (first, second) in (2..=last).flat_map(|first| (first + 1..=last).map(move |second| (first, second))) {
            for (to_first, to_second) in (0..first).flat_map(|one| (0..second).map(move |two| (one, two))) {
                let moves = [(first, to_first), (second, to_second)];
                let path = Path::with_moves(&moves);
                let on: Vec<Seq> = (1..=last).filter(|seq| path.contains(*seq)).collect();
                assert_eq!(on, followed(last, &moves), "{moves:?}");
            }
        }
        assert!((1..=last).all(|seq| Path::default().contains(seq)));
    }
}
