//! The turns of a session as a tree, on the whole screen: a person goes back to before one of them, with its words, its files, or both. Turns that
//! were taken back hang below the turn that they followed. How turns are taken back is not known here.

use crate::blocks;
use crate::review::Source;
use crate::text;
use crate::theme::Theme;
use piton_core::client::Scope;
use ratatui_core::text::{Line, Span};

/// Branches are indented no further than this.
const MOST_INDENT: usize = 6;
/// The prompt of a turn keeps this many columns, however narrow the screen is.
const LEAST_PROMPT: usize = 12;

/// A turn in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Counts the session's turns from 1.
    pub turn: u32,
    /// The turn that it follows; `None` for one at the beginning of the session.
    pub follows: Option<u32>,
    /// The time of day at which it began.
    pub at: String,
    /// What was said.
    pub prompt: String,
    /// What it changed; `None` where that is not known, or not yet.
    pub changed: Option<Changed>,
    /// What it cost, in millionths of a dollar.
    pub cost_micros: u64,
    /// How many turns are taken back by going back to before this one; `None` where it is taken back already.
    pub back: Option<u32>,
}

/// What a turn changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changed {
    /// Files.
    pub files: usize,
    /// Lines that were added.
    pub added: usize,
    /// Lines that were removed.
    pub removed: usize,
}

/// What a key came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rewound {
    /// It was taken, or meant nothing.
    Taken,
    /// So many turns are to be taken back.
    Back(u32, Scope),
    /// What was taken back last is to be brought back.
    Redo,
    /// The changes between these states are wanted.
    Diff(Source),
}

/// The tree on the screen.
#[derive(Debug)]
pub(crate) struct Rewind {
    /// In the order in which they are shown.
    turns: Vec<Turn>,
    /// Where each stands.
    places: Vec<Place>,
    chosen: usize,
    top: usize,
    hint: Option<&'static str>,
}

impl Rewind {
    /// The tree of these turns, in the order in which they began. The last turn that counts is chosen.
    pub(crate) fn new(turns: &[Turn]) -> Self {
        let mut order = Vec::with_capacity(turns.len());
        lay_out(turns, None, 0, &mut order);
        let places = order.iter().map(|(_, place)| *place).collect();
        let turns: Vec<Turn> = order.into_iter().map(|(at, _)| turns[at].clone()).collect();
        let chosen = turns.iter().position(|turn| turn.back == Some(1)).unwrap_or_default();
        Self { turns, places, chosen, top: 0, hint: None }
    }

    /// The same place in what is known now.
    pub(crate) fn again(mut self, before: &Self) -> Self {
        let chosen = before.chosen().map(|turn| turn.turn);
        self.chosen = self.turns.iter().position(|turn| Some(turn.turn) == chosen).unwrap_or(self.chosen);
        self.top = before.top;
        self
    }

    fn chosen(&self) -> Option<&Turn> {
        self.turns.get(self.chosen)
    }

    pub(crate) fn go(&mut self, by: isize) {
        self.hint = None;
        self.chosen = self.chosen.saturating_add_signed(by).min(self.turns.len().saturating_sub(1));
    }

    /// Goes back to before the turn that is chosen.
    pub(crate) fn back(&mut self, scope: Scope) -> Rewound {
        match self.chosen().map(|turn| turn.back) {
            Some(Some(turns)) => Rewound::Back(turns, scope),
            Some(None) => {
                self.hint = Some("this turn is taken back already · r brings back what was taken back last");
                Rewound::Taken
            }
            None => Rewound::Taken,
        }
    }

    /// What a letter does.
    pub(crate) fn press(&mut self, letter: char) -> Rewound {
        self.hint = None;
        match letter {
            'w' => self.back(Scope::Chat),
            'f' => self.back(Scope::Files),
            'r' => Rewound::Redo,
            'd' => match self.chosen() {
                Some(turn) if turn.back.is_some() => Rewound::Diff(Source::From(turn.turn)),
                Some(turn) => Rewound::Diff(Source::Of(turn.turn)),
                None => Rewound::Taken,
            },
            _ => Rewound::Taken,
        }
    }

    /// Its rows on a screen of this size: what keys do, and the turns.
    pub(crate) fn screen(&mut self, columns: usize, rows: usize, theme: &Theme) -> Vec<Line<'static>> {
        let (columns, high) = (columns.max(1), rows.max(2) - 1);
        if self.chosen < self.top {
            self.top = self.chosen;
        } else if self.chosen >= self.top + high {
            self.top = self.chosen + 1 - high;
        }
        let facts: Vec<[String; 3]> = self.turns.iter().map(facts).collect();
        let widths: [usize; 3] =
            std::array::from_fn(|at| facts.iter().map(|facts| text::width(&facts[at])).max().unwrap_or(0));
        let shown = self.turns.iter().zip(&self.places).zip(&facts).enumerate().skip(self.top).take(high);
        let mut screen: Vec<Line<'static>> = shown
            .map(|(at, ((turn, place), facts))| {
                let row = Row { turn, place: *place, is_chosen: at == self.chosen, facts, widths };
                row.line(columns, theme)
            })
            .collect();
        screen.resize(high, Line::default());
        let foot = self.hint.unwrap_or(
            "Go back to before: ↑↓ choose · Enter words and files · w words · f files · d diff · r redo · Esc",
        );
        screen.push(text::fit(&Line::from(Span::styled(foot, theme.chosen)), columns));
        screen
    }

    /// What it offers, and what of it is chosen, as sentences.
    pub(crate) fn spoken(&self) -> (String, String) {
        let many = blocks::plural(self.turns.len() as u64, "turn");
        let offered = format!(
            "Go back to before one of {many}. The arrow keys choose. Enter takes back words and files, w words, f files, \
             d shows the difference, r brings back what was taken back last, Escape leaves."
        );
        let Some(turn) = self.chosen() else { return (offered, "No turn.".to_owned()) };
        let [files, lines, cost] = facts(turn);
        let state = if turn.back.is_none() { "taken back" } else { "" };
        let facts = [state.to_owned(), files, lines, cost];
        let facts: Vec<&str> = facts.iter().map(|fact| fact.trim()).filter(|fact| !fact.is_empty()).collect();
        let place = format!("{} of {}", self.chosen + 1, self.turns.len());
        (offered, format!("{place}: {} {}. {}", turn.at, blocks::one_line(&turn.prompt), facts.join(", ")))
    }
}

/// Where a turn stands in the tree.
#[derive(Debug, Clone, Copy)]
struct Place {
    indent: usize,
    /// Whether a branch begins with it.
    is_first: bool,
}

/// The turns that follow one, in the order in which they are shown: those that were taken back, indented, and then the one that counts.
fn lay_out(turns: &[Turn], follows: Option<u32>, indent: usize, order: &mut Vec<(usize, Place)>) {
    let mut follows = follows;
    loop {
        let next: Vec<usize> = (0..turns.len()).filter(|at| turns[*at].follows == follows).collect();
        // Where nothing else follows, the line goes straight on.
        let (aside, on) = match next.as_slice() {
            [] => return,
            [only] if turns[*only].back.is_some() || indent > 0 => (&next[..0], Some(*only)),
            _ => match next.iter().position(|at| turns[*at].back.is_some()) {
                Some(_) => (&next[..], next.iter().copied().find(|at| turns[*at].back.is_some())),
                None => (&next[..], None),
            },
        };
        for branch in aside.iter().copied().filter(|at| Some(*at) != on) {
            order.push((branch, Place { indent: indent + 1, is_first: true }));
            lay_out(turns, Some(turns[branch].turn), indent + 1, order);
        }
        let Some(on) = on else { return };
        order.push((on, Place { indent, is_first: false }));
        follows = Some(turns[on].turn);
    }
}

/// Files, lines and money of a turn, each empty where there is nothing to say.
fn facts(turn: &Turn) -> [String; 3] {
    let (files, lines) = match turn.changed {
        Some(Changed { files, added, removed }) if files > 0 => {
            let lines = match (added, removed) {
                (0, 0) => String::new(),
                (added, 0) => format!("+{added}"),
                (0, removed) => format!("−{removed}"),
                (added, removed) => format!("+{added} −{removed}"),
            };
            (blocks::plural(files as u64, "file"), lines)
        }
        Some(_) | None => Default::default(),
    };
    let cost = if turn.cost_micros == 0 { String::new() } else { blocks::dollars(turn.cost_micros) };
    [files, lines, cost]
}

/// A turn with what stands around it.
struct Row<'t> {
    turn: &'t Turn,
    place: Place,
    is_chosen: bool,
    facts: &'t [String; 3],
    widths: [usize; 3],
}

impl Row<'_> {
    fn line(&self, columns: usize, theme: &Theme) -> Line<'static> {
        let Self { turn, place, is_chosen, facts, widths } = self;
        let mark = if *is_chosen { "▸ " } else { "  " };
        let indent = "  ".repeat(place.indent.min(MOST_INDENT));
        let branch = if place.is_first { format!("{}╰ ", indent.get(2..).unwrap_or_default()) } else { indent };
        let here = if turn.back == Some(1) { "  ← you are here" } else { "" };
        let back = if turn.back.is_none() { "(taken back) " } else { "" };
        let head = format!("{branch}{}  {back}", turn.at);
        let beside: usize = widths.iter().map(|width| if *width == 0 { 0 } else { width + 2 }).sum();
        let room = columns.saturating_sub(2 + text::width(&head) + beside + text::width("  ← you are here"));
        let prompt = text::cut(&blocks::one_line(&turn.prompt), room.max(LEAST_PROMPT));
        let gap = " ".repeat(room.saturating_sub(text::width(&prompt)));
        let style = match (is_chosen, turn.back) {
            (true, _) => theme.chosen,
            (false, Some(_)) => theme.text,
            (false, None) => theme.dim,
        };
        let mut spans = vec![
            Span::styled(mark, theme.accent),
            Span::styled(head, theme.dim),
            Span::styled(prompt, style),
            Span::raw(gap),
        ];
        for (fact, width) in facts.iter().zip(widths).filter(|(_, width)| **width > 0) {
            let pad = " ".repeat(width - text::width(fact));
            spans.push(Span::styled(format!("  {fact}{pad}"), theme.dim));
        }
        spans.push(Span::styled(here, theme.accent));
        text::fit(&text::trimmed(spans), columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn turn(turn: u32, follows: Option<u32>, prompt: &str, back: Option<u32>) -> Turn {
        let (at, prompt) = (format!("11:{turn:02}"), prompt.to_owned());
        Turn { turn, follows, at, prompt, changed: None, cost_micros: 0, back }
    }

    /// Two turns that count; between them a branch of two that were taken back.
    fn tree() -> Rewind {
        let changed = |files, added, removed| Some(Changed { files, added, removed });
        let turns = vec![
            Turn { changed: changed(2, 3, 1), cost_micros: 40_000, ..turn(2, None, "fix the failing test", Some(2)) },
            Turn { changed: changed(9, 900, 80), ..turn(5, Some(2), "rewrite in Rust\nall of it", None) },
            turn(6, Some(5), "and in Zig", None),
            Turn { changed: changed(1, 40, 0), cost_micros: 20_000, ..turn(9, Some(2), "now the docs", Some(1)) },
        ];
        Rewind::new(&turns)
    }

    fn screen(rewind: &mut Rewind, columns: usize) -> String {
        let rows = rewind.screen(columns, 6, &Theme::none());
        rows.iter().map(|row| format!("{}\n", row.to_string().trim_end())).collect()
    }

    #[test]
    fn what_was_taken_back_hangs_below_the_turn_that_it_followed() {
        expect![[r#"
              11:02  fix the failing test                               2 files  +3 −1     $0.04
              ╰ 11:05  (taken back) rewrite in Rust⏎ all of it          9 files  +900 −80
                11:06  (taken back) and in Zig
            ▸ 11:09  now the docs                                       1 file   +40       $0.02  ← you are here

            Go back to before: ↑↓ choose · Enter words and files · w words · f files · d diff · r redo · Esc
        "#]]
        .assert_eq(&screen(&mut tree(), 100));
        for columns in [1, 10, 40] {
            let rows = tree().screen(columns, 6, &Theme::none());
            assert!(rows.iter().all(|row| text::line_width(row) <= columns), "{columns}: {rows:?}");
        }
    }

    #[test]
    fn a_turn_that_counts_can_be_gone_back_to_and_one_that_does_not_is_explained() {
        let mut rewind = tree();
        assert_eq!(rewind.back(Scope::Both), Rewound::Back(1, Scope::Both), "the last turn is chosen");
        rewind.go(-1);
        assert_eq!(rewind.back(Scope::Both), Rewound::Taken);
        assert!(screen(&mut rewind, 100).contains("taken back already"));
        assert_eq!(rewind.press('d'), Rewound::Diff(Source::Of(6)));
        rewind.go(isize::MIN);
        assert_eq!(rewind.press('w'), Rewound::Back(2, Scope::Chat));
        assert_eq!(rewind.press('f'), Rewound::Back(2, Scope::Files));
        assert_eq!(rewind.press('d'), Rewound::Diff(Source::From(2)));
        assert_eq!(rewind.press('r'), Rewound::Redo);
        let again = Rewind::new(&rewind.turns).again(&rewind);
        assert_eq!(again.chosen, 0, "the place stays where numbers arrive later");
        assert!(rewind.spoken().1.starts_with("1 of 4: 11:02 fix the failing test. 2 files, +3 −1, $0.04"));
    }
}
