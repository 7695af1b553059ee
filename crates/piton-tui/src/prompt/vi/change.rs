//! The commands that change the text, and the register they fill.

use super::command::{Operator, Place, Side, Target};
use super::motion::{first_non_blank, line_end, line_start};
use super::{Area, Mode, Register, Vi};
use crate::prompt::Prompt;
use crate::prompt::buffer::Fragment;
use crate::prompt::undo::Kind;
use std::ops::Range;

impl Prompt {
    fn keep(&self, vi: &mut Vi, area: &Area) {
        let mut text = self.text.copy(area.range.clone());
        if area.is_lines && !text.text().ends_with('\n') {
            text.append(&Fragment::plain("\n"));
        }
        vi.register = Register { text, is_lines: area.is_lines };
    }

    pub(super) fn yank_area(&mut self, vi: &mut Vi, area: &Area) {
        self.keep(vi, area);
        if !area.is_lines || vi.mode != Mode::Normal {
            self.cursor = area.range.start;
        }
        vi.mode = Mode::Normal;
    }

    /// Deletes or changes.
    pub(super) fn operate(&mut self, vi: &mut Vi, operator: Operator, target: Target, count: Option<usize>) -> bool {
        let Some(area) = self.area(vi, operator, target, count) else { return false };
        let is_change = operator == Operator::Change;
        if area.range.is_empty() && !is_change {
            return false;
        }
        if !area.range.is_empty() {
            self.keep(vi, &area);
        }
        let Range { mut start, mut end } = area.range;
        let ends_line = self.text.text()[..end].ends_with('\n') && end > start;
        if area.is_lines && is_change && ends_line {
            end -= 1;
        } else if area.is_lines && !is_change && !ends_line && start > 0 {
            // The last line goes with the line feed before it.
            start -= 1;
        }
        self.edit(start..end, &Fragment::default(), Kind::Single);
        self.cursor = self.text.snapped(start);
        if is_change {
            vi.mode = Mode::Insert;
        } else if area.is_lines {
            self.cursor = first_non_blank(&self.text, self.cursor);
        }
        true
    }

    pub(super) fn open_at(&mut self, vi: &mut Vi, place: Place) -> bool {
        let (start, end) = (line_start(&self.text, self.cursor), line_end(&self.text, self.cursor));
        let feed = Fragment::plain("\n");
        match place {
            Place::Before => {}
            Place::After => self.cursor = self.text.next(self.cursor).min(end),
            Place::LineStart => self.cursor = first_non_blank(&self.text, self.cursor),
            Place::LineEnd => self.cursor = end,
            Place::LineBelow => {
                self.edit(end..end, &feed, Kind::Single);
            }
            Place::LineAbove => {
                self.edit(start..start, &feed, Kind::Single);
                self.cursor = start;
            }
        }
        vi.mode = Mode::Insert;
        true
    }

    /// What `r` and `~` work on: the selection, or so many characters of the line.
    fn characters(&self, vi: &Vi, count: usize) -> Range<usize> {
        self.selection_in(vi).unwrap_or_else(|| {
            let end = line_end(&self.text, self.cursor);
            self.cursor..(0..count).fold(self.cursor, |at, _| self.text.next(at).min(end))
        })
    }

    /// Puts other text in the place of each character of a range; chips and line feeds stay.
    fn map_characters(&mut self, range: &Range<usize>, new: impl Fn(&str) -> String) -> bool {
        let mut mapped = Fragment::default();
        let mut at = range.start;
        while at < range.end {
            let next = self.text.next(at);
            let old = self.text.copy(at..next);
            let stays = self.text.chip_at(at).is_some() || old.text() == "\n";
            mapped.append(&if stays { old } else { Fragment::plain(&new(old.text())) });
            at = next;
        }
        self.edit(range.clone(), &mapped, Kind::Single);
        !range.is_empty()
    }

    pub(super) fn replace_chars(&mut self, vi: &Vi, char: char, count: usize) -> bool {
        let (range, is_selected) = (self.characters(vi, count), vi.mode != Mode::Normal);
        let end = line_end(&self.text, self.cursor);
        let is_short = (1..count).fold(self.cursor, |at, _| self.text.next(at)) >= end;
        if range.is_empty() || (!is_selected && is_short) {
            return false;
        }
        self.map_characters(&range, |_| char.to_string());
        self.cursor = if is_selected { range.start } else { self.text.previous(self.cursor) };
        true
    }

    pub(super) fn swap_case(&mut self, vi: &Vi, count: usize) -> bool {
        let (range, is_selected) = (self.characters(vi, count), vi.mode != Mode::Normal);
        let swapped = |text: &str| {
            let is_lower = text.chars().any(char::is_lowercase);
            if is_lower { text.to_uppercase() } else { text.to_lowercase() }
        };
        let is_done = self.map_characters(&range, swapped);
        if is_selected {
            self.cursor = range.start;
        }
        is_done
    }

    pub(super) fn join(&mut self, vi: &Vi, lines: usize) -> bool {
        let selected = self.selection_in(vi);
        let lines = selected.as_ref().map_or(lines, |range| self.text.text()[range.clone()].lines().count());
        self.cursor = selected.map_or(self.cursor, |range| range.start);
        let mut is_done = false;
        for _ in 1..lines.max(2) {
            let end = line_end(&self.text, self.cursor);
            if end == self.text.len() {
                break;
            }
            let next = first_non_blank(&self.text, end + 1);
            let is_blank = next == line_end(&self.text, next) || self.text.text()[..end].ends_with([' ', '\t']);
            let between = if is_blank || end == line_start(&self.text, end) { "" } else { " " };
            self.edit(end..next, &Fragment::plain(between), Kind::Single);
            self.cursor = end;
            is_done = true;
        }
        is_done
    }

    pub(super) fn put_register(&mut self, vi: &mut Vi, side: Side, count: usize) -> bool {
        let Register { text, is_lines } = vi.register.clone();
        if text.is_empty() {
            return false;
        }
        let mut put = Fragment::default();
        (0..count).for_each(|_| put.append(&text));
        if let Some(range) = self.selection_in(vi) {
            let area = Area { range: range.clone(), is_lines: vi.mode == Mode::VisualLines };
            self.keep(vi, &area);
            self.edit(range.clone(), &put, Kind::Single);
            self.cursor = self.text.previous(self.cursor).max(range.start);
            return true;
        }
        let end = line_end(&self.text, self.cursor);
        if !is_lines {
            let at = if side == Side::Before { self.cursor } else { self.text.next(self.cursor).min(end) };
            self.edit(at..at, &put, Kind::Single);
            self.cursor = self.text.previous(self.cursor);
            return true;
        }
        let at = if side == Side::Before { line_start(&self.text, self.cursor) } else { self.text.next(end) };
        let mut first = at;
        if at == end {
            // Below a last line that no line feed ends.
            let lines = put.copy(0..put.len() - 1);
            put = Fragment::plain("\n");
            put.append(&lines);
            first += 1;
        }
        self.edit(at..at, &put, Kind::Single);
        self.cursor = first_non_blank(&self.text, first);
        true
    }
}
