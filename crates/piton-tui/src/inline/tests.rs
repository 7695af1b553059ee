//! A terminal stands behind the surface: what it shows, scrollback included, is what was committed and the tail, each row
//! once.

use super::*;
use std::num::NonZero;
use vt100::Parser;

/// Rows of scrollback that the terminal keeps.
const SCROLLBACK: usize = 20_000;

struct Stage {
    terminal: Parser,
    surface: Inline,
    committed: Vec<String>,
    tail: Vec<String>,
}

impl Stage {
    fn new(columns: u16, rows: u16) -> Self {
        let mut surface = Inline::new(columns.into(), rows.into());
        surface.reflows = false;
        Self {
            terminal: Parser::new(nonzero(rows), nonzero(columns), SCROLLBACK),
            surface,
            committed: Vec::new(),
            tail: Vec::new(),
        }
    }

    fn draw(&mut self, commit: &[String], tail: &[String], cursor: Option<(usize, usize)>) -> usize {
        let lines = |rows: &[String]| rows.iter().map(|row| Line::from(row.clone())).collect();
        let bytes = self.surface.draw(Frame { commit: lines(commit), tail: lines(tail), cursor });
        self.terminal.process(bytes.as_bytes());
        self.committed.extend_from_slice(commit);
        self.tail = tail.to_vec();
        bytes.len()
    }

    /// Everything that stands in scrollback and screen.
    fn shown(&mut self) -> Vec<String> {
        shown(&mut self.terminal)
    }

    fn expected(&self) -> Vec<String> {
        let over = self.tail.len().saturating_sub(self.surface.rows);
        let mut all: Vec<String> =
            self.committed.iter().chain(&self.tail[over..]).map(|row| row.trim_end().to_owned()).collect();
        while all.last().is_some_and(String::is_empty) {
            all.pop();
        }
        all
    }
}

fn nonzero(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

/// Everything that stands in scrollback and screen, without the empty rows at its end.
pub(crate) fn shown(terminal: &mut Parser) -> Vec<String> {
    let (rows, columns) = terminal.screen().size();
    let (rows, columns) = (rows.get(), columns.get());
    let screen = terminal.screen_mut();
    screen.set_scrollback(usize::MAX);
    let back = screen.scrollback();
    let mut all = Vec::new();
    let mut at = back;
    loop {
        screen.set_scrollback(at);
        let page: Vec<String> = screen.rows(0, columns).collect();
        if at == 0 {
            all.extend(page);
            break;
        }
        let take = at.min(rows.into());
        all.extend(page.into_iter().take(take));
        at -= take;
    }
    screen.set_scrollback(0);
    let mut all: Vec<String> = all.iter().map(|row| row.trim_end().to_owned()).collect();
    while all.last().is_some_and(String::is_empty) {
        all.pop();
    }
    all
}

/// A row of words that is like no other.
fn row(number: &mut usize, columns: usize) -> String {
    *number += 1;
    let words = ["alpha", "größer", "漢字", "e\u{301}", "x", ""];
    let word = words[fastrand::usize(..words.len())];
    let all = format!("{number} {word} {}", "-".repeat(fastrand::usize(..40)));
    let mut cut = String::new();
    for grapheme in unicode_segmentation::UnicodeSegmentation::graphemes(&*all, true) {
        if crate::text::width(&cut) + crate::text::width(grapheme) > columns {
            break;
        }
        cut.push_str(grapheme);
    }
    cut
}

#[test]
fn whatever_comes_each_row_stands_once() {
    const STEPS: usize = 12;
    for seed in 0..3_000 {
        fastrand::seed(seed);
        let (columns, rows) = (fastrand::u16(6..60), fastrand::u16(3..24));
        let mut stage = Stage::new(columns, rows);
        let mut number = 0;
        for step in 0..STEPS {
            // Part of the tail may become final as it is, changed, or not at all; new rows may come with it.
            let mut tail = stage.tail.clone();
            let mut commit: Vec<String> = Vec::new();
            if fastrand::bool() {
                commit.extend(tail.drain(..fastrand::usize(..=tail.len())));
            }
            for _ in 0..[0, 0, 1, 2, 30][fastrand::usize(..5)] {
                commit.push(row(&mut number, columns.into()));
            }
            for _ in 0..fastrand::usize(..4) {
                let at = fastrand::usize(..=tail.len());
                match fastrand::u8(..3) {
                    0 => tail.insert(at, row(&mut number, columns.into())),
                    1 if at < tail.len() => tail[at] = row(&mut number, columns.into()),
                    _ if at < tail.len() => drop(tail.remove(at)),
                    _ => {}
                }
            }
            tail.truncate(usize::from(rows));
            let cursor = (!tail.is_empty() && fastrand::bool())
                .then(|| (fastrand::usize(..tail.len()), fastrand::usize(..usize::from(columns))));
            stage.draw(&commit, &tail, cursor);
            assert_eq!(stage.draw(&[], &tail, cursor), 0, "nothing has changed: seed {seed}, step {step}");
            if step + 1 < STEPS && fastrand::u8(..8) > 0 {
                continue;
            }
            assert_eq!(stage.shown(), stage.expected(), "seed {seed}, step {step}, {columns} × {rows}");
            if let Some((row, column)) = cursor {
                let (at, is) = stage.terminal.screen().cursor_position();
                let first = stage.terminal.screen().rows(0, columns).position(|text| {
                    let text = text.trim_end();
                    !text.is_empty() && tail.iter().any(|row| row.trim_end() == text)
                });
                assert_eq!(usize::from(is), column, "seed {seed}, step {step}");
                if let Some(first) = first.filter(|_| !tail[0].trim().is_empty()) {
                    assert_eq!(usize::from(at), first + row, "seed {seed}, step {step}");
                }
            }
        }
    }
}

#[test]
fn rows_that_are_pushed_down_are_not_written_again() {
    let mut stage = Stage::new(80, 24);
    let rows = |text: &[&str]| text.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
    let rule = "─".repeat(80);
    stage.draw(&[], &rows(&["The first line of a reply", &rule, "› ", "status"]), Some((2, 2)));
    let bytes = stage.draw(&[], &rows(&["The first line of a reply", "and more", &rule, "› ", "status"]), Some((3, 2)));
    assert!(bytes < 40, "{bytes} bytes for eight new ones");
    let bytes =
        stage.draw(&rows(&["The first line of a reply"]), &rows(&["and more", &rule, "› ", "status"]), Some((2, 2)));
    assert_eq!(bytes, 0, "what stands there as it is becomes final without a byte");
    let bytes = stage.draw(&[], &rows(&["and more of it", &rule, "› ", "status"]), Some((2, 2)));
    assert!(bytes < 24, "{bytes} bytes for six new ones");
    assert_eq!(stage.shown(), stage.expected());
}

#[test]
fn a_change_of_size_leaves_each_row_once() {
    for seed in 0..200 {
        fastrand::seed(seed);
        let (mut columns, mut rows) = (fastrand::u16(20..60), fastrand::u16(8..24));
        let mut stage = Stage::new(columns, rows);
        let mut number = 0;
        for step in 0..10 {
            let commit: Vec<String> = (0..fastrand::usize(..6)).map(|_| row(&mut number, 18)).collect();
            let tail: Vec<String> = (0..fastrand::usize(1..5)).map(|_| row(&mut number, 18)).collect();
            stage.draw(&commit, &tail, Some((tail.len() - 1, 0)));
            assert_eq!(stage.shown(), stage.expected(), "seed {seed}, step {step}");
            let before = (columns, rows);
            (columns, rows) = (fastrand::u16(20..60), fastrand::u16(8..24));
            if before == (columns, rows) {
                continue;
            }
            stage.terminal.screen_mut().set_size(nonzero(rows), nonzero(columns));
            let bytes = stage.surface.resize(columns.into(), rows.into());
            stage.terminal.process(bytes.as_bytes());
            stage.tail.clear();
            assert_eq!(stage.shown(), stage.expected(), "seed {seed}, step {step}, resized");
        }
    }
}

/// The terminal gets another width and breaks its rows anew, as most do: the cursor stays at its character.
fn reflow(stage: &mut Stage, columns: u16) {
    let (rows, _) = stage.terminal.screen().size();
    let lines = stage.shown();
    stage.terminal.screen_mut().set_scrollback(usize::MAX);
    let back = stage.terminal.screen().scrollback();
    stage.terminal.screen_mut().set_scrollback(0);
    let (row, column) = stage.terminal.screen().cursor_position();
    let high = |line: &String| line.len().max(1).div_ceil(columns.into());
    let above: usize = lines.iter().take(back + usize::from(row)).map(high).sum();
    let all: usize = lines.iter().map(high).sum();
    let row = (above + usize::from(column / columns)).saturating_sub(all.saturating_sub(usize::from(rows.get())));
    stage.terminal = Parser::new(rows, nonzero(columns), SCROLLBACK);
    let text = format!("{}\x1b[{};{}H", lines.join("\r\n"), row + 1, column % columns + 1);
    stage.terminal.process(text.as_bytes());
}

#[test]
fn where_rows_are_broken_anew_no_copy_of_the_tail_stays() {
    for seed in 0..300 {
        fastrand::seed(seed);
        let (mut columns, rows) = (fastrand::u16(40..100), fastrand::u16(16..30));
        let mut stage = Stage::new(columns, rows);
        stage.surface.reflows = true;
        let mut number = 0;
        let mut line = |most: u16| {
            number += 1;
            let long = format!("{number} {}", "x".repeat(fastrand::usize(1..90)));
            long[..long.len().min(most.into())].to_owned()
        };
        for step in 0..8 {
            let commit: Vec<String> = (0..fastrand::usize(..3)).map(|_| line(40)).collect();
            // A question as high as it may be: broken anew, it still fits the screen.
            let tail: Vec<String> = (0..fastrand::usize(1..6)).map(|_| line(columns)).collect();
            stage.draw(&commit, &tail, Some((tail.len() - 1, 0)));
            assert_eq!(stage.shown(), stage.expected(), "seed {seed}, step {step}");
            let before = std::mem::replace(&mut columns, fastrand::u16(40..100));
            if before == columns {
                continue;
            }
            reflow(&mut stage, columns);
            let bytes = stage.surface.resize(columns.into(), rows.into());
            assert!(!bytes.contains("\x1b[J"), "tmux would keep what is erased so");
            stage.terminal.process(bytes.as_bytes());
            stage.tail.clear();
            assert_eq!(stage.shown(), stage.expected(), "seed {seed}, step {step}, resized");
        }
    }
}

#[test]
fn a_cleared_tail_leaves_what_was_committed() {
    let mut stage = Stage::new(40, 10);
    stage.draw(&["kept".into()], &["tail".into(), "more".into()], None);
    let bytes = stage.surface.clear();
    stage.terminal.process(bytes.as_bytes());
    assert_eq!(stage.shown(), ["kept"]);
    assert_eq!(stage.terminal.screen().cursor_position(), (1, 0));
    assert!(!stage.terminal.screen().hide_cursor());
}
