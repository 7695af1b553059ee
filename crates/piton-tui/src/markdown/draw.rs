//! Blocks to rows in colours.

use ratatui_core::text::{Line, Span};

use super::blocks::{Block, Body, Margin};
use super::inline;
use crate::highlight;
use crate::text;
use crate::theme::Theme;

/// Columns of a rule: longer ones say nothing more.
const RULE: usize = 40;

/// Draws one block after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Drawer {
    /// What the code before a line leaves open.
    state: highlight::State,
}

impl Drawer {
    pub(super) fn draw(&mut self, blocks: &[Block], columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let columns = columns.max(1);
        let mut out = Vec::new();
        for block in blocks {
            if let Some(gap) = &block.gap {
                out.push(text::trimmed(margins(gap, columns, theme).0));
            }
            let (mut before, used) = margins(&block.first, columns, theme);
            let rows = self.rows(&block.body, columns - used, theme);
            for row in rows {
                before.extend(row.spans);
                out.push(text::trimmed(before));
                before = margins(&block.rest, columns, theme).0;
            }
        }
        out
    }

    fn rows(&mut self, body: &Body, columns: usize, theme: &Theme) -> Vec<Line<'static>> {
        let wrapped = |lines: Vec<Line<'static>>| lines.iter().flat_map(|line| text::wrap(line, columns, 0)).collect();
        match body {
            Body::Paragraph(words) => wrapped(inline::lines(words, theme.text, theme)),
            Body::Heading(words) => wrapped(inline::lines(words, theme.strong, theme)),
            Body::Html(line) => wrapped(vec![Line::styled(line.clone(), theme.text)]),
            Body::Code { text, language, is_first } => {
                if *is_first {
                    self.state = highlight::State::default();
                }
                let spans = match language {
                    Some(language) => highlight::line(*language, &mut self.state, text, theme),
                    None => vec![Span::styled(text.clone(), theme.code)],
                };
                wrapped(vec![Line::from(spans)])
            }
            Body::Table(table) => table.draw(columns, theme),
            Body::Rule => vec![Line::styled("─".repeat(columns.min(RULE)), theme.dim)],
            Body::Empty => vec![Line::default()],
        }
    }
}

/// What stands at the left, and how wide it is: at most half of the row, of what is innermost.
fn margins(all: &[Margin], columns: usize, theme: &Theme) -> (Vec<Span<'static>>, usize) {
    let width = |margin: &Margin| match margin {
        Margin::Quote => 2,
        Margin::Mark(mark) => text::width(mark),
        Margin::Blank(width) => *width,
    };
    let mut used = 0;
    let kept = all.iter().rev().take_while(|margin| {
        let fits = used + width(margin) <= columns / 2;
        used += if fits { width(margin) } else { 0 };
        fits
    });
    let from = all.len() - kept.count();
    let spans = all[from..].iter().map(|margin| match margin {
        Margin::Quote => Span::styled("│ ", theme.dim),
        Margin::Mark(mark) => Span::styled(mark.clone(), theme.text),
        Margin::Blank(width) => Span::raw(" ".repeat(*width)),
    });
    (spans.collect(), used)
}
