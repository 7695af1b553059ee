//! Which of a session's events count. A rewind deletes nothing: it moves the head back, and what follows is another
//! branch. The state of a session is the fold of the events on the path from its head back to its beginning.
//!
//! ```text
//!   1 ── 2 ── 3 ── 4 ── 5                 the first try
//!             └──── 6 (head moved to 3) ── 7 ── 8
//! ```
//!
//! Also here: the turns of that path, as undo sees them, and the tree of all turns, as people see it.

use crate::event::{Event, Moment, Record, Trigger, TurnEnd};
use crate::ids::Seq;
use crate::message::{Part, prose};

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
    let mut spans: Vec<TurnSpan> = Vec::new();
    // Positions in `spans`: the turn at the head, and for each event the turn that it belongs to or follows.
    let mut head: Option<usize> = None;
    let mut turn_at: Vec<Option<usize>> = Vec::with_capacity(records.len());
    let mut spoken: Vec<&[Part]> = Vec::new();
    for record in records {
        if let Some(to) = moved_to(&record.event) {
            let index = usize::try_from(to).unwrap_or(usize::MAX).wrapping_sub(1);
            head = turn_at.get(index).copied().flatten();
            spoken.clear();
        }
        match &record.event {
            Event::UserSpoke { parts, .. } => spoken.push(parts),
            Event::TurnStarted { turn, .. } => {
                let prompt = spoken.drain(..).map(prose).collect::<Vec<_>>().join("\n");
                spans.push(TurnSpan {
                    turn: *turn,
                    started: record.seq,
                    last: record.seq,
                    follows: head.map(|at| spans[at].turn),
                    prompt,
                    end: None,
                    files: None,
                    on_path: path.contains(record.seq),
                });
                head = Some(spans.len() - 1);
            }
            Event::SnapshotTaken { moment, tree, .. } => {
                if let Some(at) = head {
                    spans[at].take_snapshot(*moment, tree.as_ref());
                }
            }
            // Made between turns, it belongs to the one before: who goes on from there has the summary.
            Event::CompactionFinished { trigger: Trigger::Asked | Trigger::Edited, .. } => {
                if let Some(at) = head {
                    spans[at].last = record.seq;
                }
            }
            Event::TurnEnded { end, .. } => {
                if let Some(at) = head {
                    (spans[at].end, spans[at].last) = (Some(*end), record.seq);
                }
            }
            _ => {}
        }
        if let Some(open) = head.map(|at| &mut spans[at]).filter(|span| span.end.is_none()) {
            open.last = record.seq;
        }
        turn_at.push(head);
    }
    spans
}

impl TurnSpan {
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
